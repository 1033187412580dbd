"""Factors with a structure: the same marginals as their dense tables, in every method and both arithmetics."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import anytimebp as abp
from anytimebp.domains.domains import full_domains
from anytimebp.kernels.codes import TABLE
from anytimebp.layout.graph_layout import compiled_graph
from anytimebp.model import source
from anytimebp.model.factor import BlockRows
from anytimebp.model.kinds import bitwise, difference, group_source
from anytimebp.model.kinds.cardinality import CardinalitySource
from anytimebp.model.kinds.low_rank import LowRankSource
from anytimebp.tables.memory import factor_kinds
from oracle.examples import examples

INF = np.inf


@pytest.fixture
def always_structured(monkeypatch):
    """Use structures however small the tables are."""
    monkeypatch.setattr(source, "LIST_GAIN", 0.0)
    monkeypatch.setattr(CardinalitySource, "gain", lambda *_: 0.0)
    monkeypatch.setattr(LowRankSource, "gain", lambda *_: 0.0)
    monkeypatch.setattr(group_source, "STEPS_PER_ENTRY", 1e9)
    monkeypatch.setattr(bitwise, "STEPS_PER_ENTRY", 1e9)
    monkeypatch.setattr(difference, "_transform_steps", lambda *_: 0)


def listed(rng, shape, n, default, *, low=False):
    """Return entries at n random joint states."""
    total = int(np.prod(shape))
    positions = rng.choice(total, size=min(n, total), replace=False)
    indices = np.column_stack(np.unravel_index(positions, shape))
    scores = rng.normal(0.0, 2.0, len(positions)) - (6.0 if low else 0.0)
    return {"entries": (indices, scores), "default": default}


KINDS = {
    "listed": lambda rng, n: ([0, 1], listed(rng, (n, n), 2 * n, -1.0)),
    "listed below the default": lambda rng, n: ([0, 1], listed(rng, (n, n), 2 * n, 3.0, low=True)),
    "listed zeros": lambda rng, n: ([0, 1], {"entries": (np.array([[0, 0], [1, 2]]), [-INF, -INF]), "default": 0.5}),
    "listed, three": lambda rng, n: ([0, 1, 2], listed(rng, (n, n, n), 3 * n, -2.0)),
    "listed, three, below": lambda rng, n: ([2, 0, 1], listed(rng, (n, n, n), 3 * n, 1.0, low=True)),
    "possible, three": lambda rng, n: ([0, 1, 2], listed(rng, (n, n, n), 4 * n * n, -INF)),
    "Potts": lambda rng, n: ([1, 2], {"structure": abp.Equality(1.5, default=0.0)}),
    "Potts, repelling": lambda rng, n: ([1, 2], {"structure": abp.Equality(-30.0, default=0.0)}),
    "equality": lambda rng, n: ([1, 2], {"structure": abp.Equality(rng.normal(size=n))}),
    "function": lambda rng, n: ([0, 1, 2], {"structure": abp.Deterministic(lambda a, b: (a + 2 * b) % n)}),
    "noisy function": lambda rng, n: ([0, 2], {"structure": abp.Deterministic(lambda a: a // 2, 2.0, default=-1.0)}),
    "difference": lambda rng, n: ([0, 1], {"structure": abp.Difference(rng.normal(size=3), default=-1.0)}),
    "difference, hard": lambda rng, n: ([1, 0], {"structure": abp.Difference(rng.normal(size=5), first=-3)}),
    "difference, wide": lambda rng, n: ([2, 0], {"structure": abp.Difference(rng.normal(size=4 * n + 1))}),
    "at most one": lambda rng, n: ([0, 1, 2], {"structure": abp.AtMostOne([0, 1, 2])}),
    "sum": lambda rng, n: ([0, 1, 2], {"structure": abp.ModularSum([1, 1, -1])}),
    "sum of two": lambda rng, n: ([2, 1], {"structure": abp.ModularSum([1, -1], 2)}),
    "sum of four": lambda rng, n: ([0, 3, 1, 2], {"structure": abp.ModularSum([-1, 1, 1, -1], -4)}),
    "field": lambda rng, n: ([2, 0, 1], {"structure": abp.FieldCheck(5, [2, 3, 1])}),
    "count": lambda rng, n: ([0, 1, 2], {"structure": abp.Cardinality(rng.normal(0.0, 2.0, 4), state=2)}),
    "count, hard": lambda rng, n: (
        [0, 1, 2, 3],
        {"structure": abp.Cardinality([-INF, 0.5, 1.0, -INF, 0.0], [0, 1, 2, 3])},
    ),
    "low rank": lambda rng, n: ([0, 1, 2], {"structure": abp.LowRank([rng.gamma(0.5, size=(n, 2)) for _ in range(3)])}),
    "low rank, hard": lambda rng, n: ([2, 1], {"structure": abp.LowRank([np.eye(n), rng.random((n, n)) * np.eye(n)])}),
}

BITS = {
    "xor": lambda rng: ([0, 1, 2], {"structure": abp.Xor()}),
    "xor of two": lambda rng: ([1, 2], {"structure": abp.Xor()}),
    "xor of four": lambda rng: ([0, 3, 2, 1], {"structure": abp.Xor()}),
    "and": lambda rng: ([0, 1, 2], {"structure": abp.And()}),
    "and of one": lambda rng: ([0, 2], {"structure": abp.And()}),
    "and of three": lambda rng: ([1, 3, 0, 2], {"structure": abp.And()}),
    "or": lambda rng: ([2, 0, 1], {"structure": abp.Or()}),
    "or of three": lambda rng: ([0, 1, 2, 3], {"structure": abp.Or()}),
    "field of eight": lambda rng: ([0, 1, 2], {"structure": abp.FieldCheck(8, [3, 7, 2])}),
}
PAIRS = {
    "noisy or": lambda rng: ([0, 1, 2], {"structure": abp.NoisyOr([0.3, 0.9], leak=0.05)}),
    "noisy or, hard": lambda rng: ([1, 2, 3, 0], {"structure": abp.NoisyOr([1.0, 0.2, 0.0])}),
    "parity": lambda rng: ([0, 1, 2, 3], {"structure": abp.Xor()}),
    "count of pairs": lambda rng: ([0, 1, 2, 3], {"structure": abp.Cardinality([0.0, 1.0, -1.0, 2.0, 0.3])}),
}
KINDS |= {kind: lambda rng, _, make=make: make(rng) for kind, make in (BITS | PAIRS).items()}
SIZES = (
    dict.fromkeys(BITS, 8) | dict.fromkeys(PAIRS, 2) | dict.fromkeys(["xor of four", "and of three", "or of three"], 4)
)


def twins(seed, kinds, n=None, scale=1.0, unary=1.0):
    """Return a graph with structured factors in a loop, and the same graph with dense tables."""
    graphs = []
    n = n or SIZES.get(kinds[0], 5)
    for dense in (False, True):
        rng = np.random.default_rng(seed)
        graph = abp.FactorGraph()
        graph.add_variables(4, n)
        for variable in range(4):
            graph.add_factor([variable], log_table=rng.normal(0.0, unary, n))
        graph.add_factor([0, 3], log_table=rng.normal(0.0, scale, (n, n)))
        graph.add_factor([3, 2], log_table=rng.normal(0.0, scale, (n, n)))
        for kind in kinds:
            scope, how = KINDS[kind](rng, n)
            factor = graph.add_factor(scope, **how)
            if dense:
                table = graph.factor_log_table(factor)
                graph._blocks.pop()  # the same factor again, as a table
                graph._firsts.pop()
                graph._n_factors -= 1
                graph._rows = BlockRows(graph._blocks)
                graph.add_factor(scope, log_table=table)
        graphs.append(graph)
    return graphs


def assert_same(graph, dense, method, **options):
    try:
        expected = abp.infer(dense, method, tolerance=1e-11, **options)
    except abp.InconsistentModelError:  # on the domains of `truncated`
        with pytest.raises(abp.InconsistentModelError):
            abp.infer(graph, method, tolerance=1e-11, **options)
        return None
    found = abp.infer(graph, method, tolerance=1e-11, **options)
    for name in expected.marginals:
        np.testing.assert_allclose(found.marginals[name], expected.marginals[name], atol=1e-9)
    assert found.log_z == pytest.approx(expected.log_z, abs=1e-7)
    return found


@pytest.mark.usefixtures("always_structured")
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_gives_the_marginals_of_its_table_in_every_method(kind):
    graph, dense = twins(1, [kind])
    compiled = compiled_graph(graph)
    assert (factor_kinds(compiled, compiled.universe_sizes) != TABLE).sum() == 1
    for method in abp.METHODS:
        assert_same(graph, dense, method, rng=3)


@pytest.mark.usefixtures("always_structured")
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_gives_the_marginals_of_its_table_in_log_arithmetic(kind):
    graph, dense = twins(2, [kind])
    for each in (graph, dense):
        n = each.variables[0].n_states
        each.add_factor([3], log_table=np.linspace(0.0, -900.0, n))  # beyond linear arithmetic
        each.add_factor([0], log_table=np.linspace(-700.0, 0.0, n))
    found = assert_same(graph, dense, "bp")
    assert found.arithmetic == "log"


@pytest.mark.usefixtures("always_structured")
@settings(max_examples=examples(25))
@given(
    seed=st.integers(0, 10**6),
    kinds=st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=2, unique=True),
    unary=st.sampled_from([0.5, 5.0, 40.0]),
    observe=st.sampled_from([None, 0, 1, 2]),
    allowed=st.sets(st.integers(0, 4), min_size=1, max_size=3),
)
def test_structures_give_the_marginals_of_tables_whatever_is_observed(seed, kinds, unary, observe, allowed):
    n = SIZES.get(kinds[0], 5)
    kinds, allowed = [kind for kind in kinds if SIZES.get(kind, 5) == n], {state % n for state in allowed}
    graph, dense = twins(seed, kinds, unary=unary)
    evidence = None if observe is None else {f"x{observe}": allowed}
    try:
        expected = abp.infer(dense, "bp", evidence=evidence, tolerance=1e-11, damping=0.3)
    except abp.InconsistentModelError:
        with pytest.raises(abp.InconsistentModelError):
            abp.infer(graph, "bp", evidence=evidence, tolerance=1e-11, damping=0.3)
        return
    found = abp.infer(graph, "bp", evidence=evidence, tolerance=1e-11, damping=0.3)
    for name in expected.marginals:
        np.testing.assert_allclose(found.marginals[name], expected.marginals[name], atol=1e-8)


@pytest.mark.usefixtures("always_structured")
def test_nothing_is_lost_where_the_default_cancels():
    """A variable sure to 40 nats of state 0, and another that must differ from it: 1 - (1 - e^-40) has no digits."""
    own = np.add.outer([0.0, -40.0, -41.0, -42.0], [50.0, 0.0, 0.0, 0.0])
    for same in (-INF, -80.0):
        graph = abp.FactorGraph()
        graph.add_variables(2, 4)
        graph.add_factor([0], log_table=own[:, 1])
        graph.add_factor([1], log_table=own[0])
        graph.add_factor([0, 1], structure=abp.Equality(same, default=0.0))
        joint = np.exp(np.where(np.eye(4) > 0, own + same, own))
        joint /= joint.sum()
        result = abp.infer(graph, "bp")
        np.testing.assert_allclose(result.marginals["x1"], joint.sum(axis=0), rtol=1e-10)
        np.testing.assert_allclose(result.marginals["x0"], joint.sum(axis=1), rtol=1e-10)


def test_a_large_list_is_not_made_a_table():
    graph = abp.FactorGraph()
    graph.add_variables(3, 20_000)
    graph.add_factors([[0, 1], [1, 2], [2, 0]], structure=abp.Equality(2.0, default=0.0))
    graph.add_factor([0], log_table=np.linspace(0.0, -5.0, 20_000))
    compiled = compiled_graph(graph)
    assert (factor_kinds(compiled, full_domains(compiled, {}).sizes) != TABLE).all()
    result = abp.infer(graph, "bp", max_memory=50_000_000)
    assert result.stop_reason is abp.StopReason.CONVERGED
    assert result.work < 200 * 20_000
    assert graph.summary().full_bp_bytes < 50_000_000


@pytest.mark.parametrize("method", [method for method in abp.METHODS if method != "truncated"])
def test_a_default_that_no_joint_state_has_does_not_count_however_large(method):
    graph = abp.FactorGraph()
    graph.add_variables(2, 2)
    graph.add_factor([0, 1], structure=abp.Difference([-1001.0, -1000.0, -1001.0], default=0.0))
    assert abp.infer(graph, method, rng=0).log_z == pytest.approx(-1000.0 + np.log(2.0 + 2.0 * np.exp(-1.0)))


@pytest.mark.compiled
def test_adaptive_goes_from_few_of_65536_states_to_all_of_them():
    rng, n, likely = np.random.default_rng(0), 65_536, 50
    inputs = rng.integers(n, size=4)
    truth = [*inputs, *(inputs[k] ^ inputs[(k + 1) % 4] for k in range(4))]
    scores = rng.normal(-25.0, 1.0, (8, n))
    for own, state in zip(scores, truth, strict=True):
        own[rng.choice(n, likely, replace=False)] = rng.normal(0.0, 2.0, likely)
        own[state] = 2.0
    graph = abp.FactorGraph()
    graph.add_variables(8, n)
    graph.add_factors(np.arange(8)[:, np.newaxis], log_table=scores)
    graph.add_factors([[k, (k + 1) % 4, 4 + k] for k in range(4)], structure=abp.Xor())
    inference = abp.Inference(graph, "adaptive")
    first = next(inference)
    assert first.domain_sizes.max() <= likely + 1
    assert first.work_parts["messages"] / first.updates <= likely**2 + 3 * likely
    result, expected = inference.run(), abp.infer(graph, "bp")
    assert result.stop_reason is expected.stop_reason is abp.StopReason.CONVERGED
    assert result.domain_sizes.min() == n
    for k in range(8):
        np.testing.assert_allclose(result.marginals[k], expected.marginals[k], atol=1e-9)
    with pytest.raises(abp.MemoryLimitError, match="more than"):
        abp.infer(graph, "exact", max_memory=10**6)
