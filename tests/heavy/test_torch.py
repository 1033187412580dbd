"""`anytimebp.torch` beside differences, and beside what PyTorch derives of an enumeration."""

import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import anytimebp as abp

torch = pytest.importorskip("torch")

from anytimebp.torch import log_partition  # noqa: E402  (after torch is known to be there)

pytestmark = pytest.mark.heavy


def chain(rng, sizes=(3, 2, 4)):
    graph = abp.FactorGraph()
    for n in sizes:
        graph.add_variable(f"v{n}", n)
    graph.add_factor([0, 1], log_table=rng.normal(0, 1, sizes[:2]), name="first")
    graph.add_factor([1, 2], log_table=rng.normal(0, 1, sizes[1:]))
    return graph


def tensor(values):
    return torch.tensor(values, dtype=torch.float64, requires_grad=True)


def test_derivatives_on_a_chain_are_those_of_differences():
    rng = np.random.default_rng(0)
    graph, tables = chain(rng), (tensor(rng.normal(0, 1, (3, 2))), tensor(rng.normal(0, 1, (2, 4))))

    def log_z(first, second):
        return log_partition(graph, {"first": first, 1: second}, tolerance=1e-12)

    assert torch.autograd.gradcheck(log_z, tables)
    joint = tables[0][:, :, None] + tables[1][None]
    assert torch.allclose(log_z(*tables), torch.logsumexp(joint.reshape(-1), 0))


@pytest.mark.parametrize("method", ["exact", "bp"])
@pytest.mark.parametrize("is_stacked", [False, True])
def test_derivatives_on_a_loop_of_tied_or_separate_factors(method, is_stacked):
    rng, pairs = np.random.default_rng(1), [[0, 1], [1, 2], [2, 3], [3, 0]]
    graph = abp.FactorGraph()
    graph.add_variables(4, 3)
    shape = (4, 3, 3) if is_stacked else (3, 3)
    factors = graph.add_factors(pairs, log_table=np.zeros(shape))
    ones = graph.add_factors([[k] for k in range(4)], log_table=rng.normal(0, 1, (4, 3)))
    given = tensor(rng.normal(0, 0.5, shape)), tensor(rng.normal(0, 1, (4, 3)))

    def log_z(table, unary):
        return log_partition(graph, {factors: table, ones: unary}, method=method, tolerance=1e-13)

    assert torch.autograd.gradcheck(log_z, given, atol=1e-6)


def test_evidence_zeros_and_single_precision():
    graph = chain(np.random.default_rng(2))
    table = torch.tensor([[0.0, -np.inf], [1.0, 0.5], [-1.0, 0.0]], requires_grad=True)
    loss = 2.0 * log_partition(graph, {"first": table}, evidence={"v4": 1})
    loss.backward()
    assert table.grad.dtype == torch.float32
    assert table.grad[0, 1] == 0.0
    assert table.grad.sum().item() == pytest.approx(2.0, abs=1e-5)


def test_what_has_no_meaning_is_named():
    graph = chain(np.random.default_rng(3))
    with pytest.raises(abp.OptionError, match="'targets'"):
        log_partition(graph, {}, targets=["v3"])
    with pytest.raises(abp.ModelError, match="factor 0 gets a table by 'first' and by 0"):
        log_partition(graph, {"first": torch.zeros(3, 2), 0: torch.zeros(3, 2)})


def test_the_example_learns(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).resolve().parents[2] / "examples"))
    tagger = import_module("tagger")
    monkeypatch.delitem(sys.modules, "tagger")
    monkeypatch.setattr(tagger, "LABELS", 60)
    monkeypatch.setattr(tagger, "WORDS", 6)
    before, after = tagger.train(300, passes=3)
    assert before < 0.2
    assert after > 0.8
