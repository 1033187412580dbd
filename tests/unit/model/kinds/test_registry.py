"""A factor kind is one module: what a new one must say of itself, and that nobody else asks which kind a source is."""

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import anytimebp as abp
from anytimebp.kernels.structures import SUMS
from anytimebp.layout.graph_layout import compiled_graph
from anytimebp.model.kinds import registry
from anytimebp.model.source import FactorSource, Field
from anytimebp.tables.memory import factor_kinds
from oracle.same_graph import assert_same_numbers

SOURCE = Path(abp.__file__).parent


# ---------------------------------------------------------------- a kind as a user of the registry would add it
@dataclass(frozen=True, eq=False)
class LowRank:
    """The potentials of two variables are a sum of few products."""

    left: np.ndarray
    right: np.ndarray

    def source(self, shape, what):
        assert shape == (len(self.left), len(self.right)), what
        return LowRankSource(self.left, self.right)


class LowRankSource(FactorSource):
    """Potentials left @ right.T, which are worked out when they are asked for."""

    tags = ("product",)
    fields = (Field("left", "f"), Field("right", "f"))

    def __init__(self, left, right):
        self.left, self.right = left, right
        self.shape = (len(left), len(right))

    def log_values(self, member, states):
        assert member == 0
        return np.log(self.left[states[0]] @ self.right[states[1]].T)

    @classmethod
    def restated(cls, tag, **held):
        assert tag == "product"
        return {"structure": LowRank(**held)}


class BareSource(FactorSource):
    """The least that a kind can say: its shape and its scores."""

    def __init__(self, shape):
        self.shape = shape

    def log_values(self, member, states):
        assert member == 0
        return 0.3 * np.cos(sum(np.ix_(*[1.0 + k * own for k, own in enumerate(states)])))


class Bare:
    def source(self, shape, what):
        del what
        return BareSource(shape)


@pytest.fixture
def registered(monkeypatch):
    monkeypatch.setattr(registry, "KINDS", [*registry.KINDS, LowRankSource])


def twins(n=7, unary=1.0):
    """Return a loop with factors of new kinds, tied and not, unary ones too, and the same graph with tables."""
    rng = np.random.default_rng(4)
    graph, dense = abp.FactorGraph(), abp.FactorGraph()
    factors = LowRank(rng.random((n, 2)) + 0.01, rng.random((n, 2)) + 0.01)
    for each in (graph, dense):
        each.add_variables(4, n)
    for variable in range(4):
        own = rng.normal(0.0, unary, n)
        for each in (graph, dense):
            each.add_factor([variable], log_table=own)
    pairs, bare = [[0, 1], [1, 2], [3, 2]], Bare()
    for scopes, structure in ((pairs, factors), ([[0, 3]], factors), ([[2, 0, 3]], bare), ([[1]], bare)):
        first = graph.add_factors(scopes, structure=structure).start
        dense.add_factors(scopes, log_table=graph.factor_log_table(first))
    return graph, dense


@pytest.mark.parametrize("evidence", [None, {"x0": {1, 4, 5}, "x2": 3}])
@pytest.mark.parametrize("method", abp.METHODS)
@pytest.mark.filterwarnings("ignore::anytimebp.UncertainResultWarning")
def test_a_kind_that_gives_scores_only_has_the_answers_of_its_tables_in_every_method(method, evidence):
    graph, dense = twins()
    found, expected = (abp.infer(each, method, evidence=evidence, rng=1, tolerance=1e-11) for each in (graph, dense))
    assert found.domain_sizes.tolist() == expected.domain_sizes.tolist()
    for name in expected.marginals:
        np.testing.assert_allclose(found.marginals[name], expected.marginals[name], atol=1e-9)
    assert found.log_z == pytest.approx(expected.log_z, abs=1e-8)


def test_a_kind_that_gives_scores_only_needs_no_whole_table_where_memory_is_short():
    graph, dense = twins(60, unary=8.0)
    tight = abp.infer(graph, "adaptive", max_memory=1_000_000, tolerance=1e-6)
    expected = abp.infer(dense, "bp", tolerance=1e-10)
    for name in expected.marginals:
        np.testing.assert_allclose(tight.marginals[name], expected.marginals[name], atol=1e-3)


@pytest.mark.usefixtures("registered")
def test_a_registered_kind_is_kept_by_npz_and_networkx(tmp_path):
    graph = abp.FactorGraph()
    graph.add_variables(3, 4)
    rng = np.random.default_rng(0)
    graph.add_factors([[0, 1], [1, 2]], structure=LowRank(rng.random((4, 2)), rng.random((4, 2))))
    abp.write_model(graph, tmp_path / "model.npz")
    pytest.importorskip("networkx")
    for back in (abp.read_model(tmp_path / "model.npz"), abp.from_networkx(abp.to_networkx(graph))):
        assert_same_numbers(graph, back)
        source = back.locate(1)[0].source
        assert isinstance(source, LowRankSource)
        assert source.left.tolist() == graph.locate(1)[0].source.left.tolist()
    assert graph.summary().table_bytes == 2 * 8 * 8


def test_a_kind_without_a_tag_is_written_as_tables_or_refused_by_name(tmp_path):
    graph = abp.FactorGraph()
    graph.add_variables(2, 4)
    graph.add_factor([0, 1], structure=Bare())
    with pytest.raises(abp.FormatError, match=r"factor 0 \(x0, x1\) is of the kind BareSource, which \.npz"):
        abp.write_model(graph, tmp_path / "model.npz")
    with pytest.warns(abp.DroppedWarning, match="rounded"):
        abp.write_model(graph, tmp_path / "model.uai")
    np.testing.assert_allclose(
        abp.read_model(tmp_path / "model.uai").factor_log_table(0), graph.factor_log_table(0), atol=1e-12
    )


# ---------------------------------------------------------------- the registries
def test_every_kind_that_sums_without_a_table_has_its_sums_in_the_kernels():
    named = {kind.sums for kind in registry.KINDS} - {None}
    assert named == SUMS.keys()
    assert len(set(SUMS.values())) == len(SUMS)


def test_every_tag_belongs_to_one_kind():
    tags = [tag for kind in registry.KINDS for tag in kind.tags]
    assert len(set(tags)) == len(tags)


def test_a_factor_kind_is_named_by_the_code_of_its_sums():
    graph = abp.FactorGraph()
    graph.add_variables(3, 50)
    graph.add_factor([0, 1], structure=abp.Equality(1.0, default=0.0))
    graph.add_factor([0, 1], structure=abp.Difference([0.0, 1.0, 0.0], default=-1.0))
    graph.add_factor([0, 1, 2], structure=abp.AtMostOne())
    graph.add_factor([0, 1], rule=lambda a, b: 0.0 * a * b)
    graph.add_factor([0, 1, 2], structure=abp.ModularSum([1, 1, -1]))
    graph.add_factor([0, 1, 2], structure=abp.Cardinality(np.zeros(4)))
    graph.add_factor([0, 1, 2], structure=abp.LowRank([np.ones((50, 2))] * 3))
    compiled = compiled_graph(graph)
    codes = [SUMS[name] for name in ("list", "difference", "at_most_one")] + [0]
    codes += [SUMS[name] for name in ("group", "cardinality", "low_rank")]
    assert factor_kinds(compiled, compiled.universe_sizes).tolist() == codes


def test_nobody_outside_the_registry_asks_which_kind_a_source_or_a_structure_is():
    names = "|".join(kind.__name__ for kind in registry.KINDS)
    asks = re.compile(
        rf"isinstance\([^)]*(Source\b|structure\b|{names}|Equality|Deterministic|Difference|AtMostOne|Xor|\bAnd\b|\bOr\b)"
        rf"|type\([^)]*(source|structure)\) (is|==|in)\b"
    )
    kinds = SOURCE / "model" / "kinds"
    found = [
        f"{path.relative_to(SOURCE)}: {line.strip()}"
        for path in sorted(SOURCE.rglob("*.py"))
        if path != kinds / "registry.py"
        for line in path.read_text(encoding="utf-8").splitlines()
        if asks.search(line)
    ]
    assert not found, "\n".join(found)
