"""Many structured factors with observed variables: packed at once or shared, with the marginals of their tables."""

import numpy as np
import pytest

import anytimebp as abp
from anytimebp.domains.domains import full_domains
from anytimebp.layout.graph_layout import compiled_graph
from anytimebp.model import source
from anytimebp.model.kinds.group_source import GroupSource
from anytimebp.tables.workspace import Workspace

N_TRACES = 12

STRUCTURES = {
    "xor": (8, abp.Xor(), 3),
    "xor of four": (8, abp.Xor(), 4),
    "sum": (8, abp.ModularSum([1, -1, 1]), 3),
    "sum with a constant": (7, abp.ModularSum([-1, 1, 1, -1], 3), 4),
    "field of eight": (8, abp.FieldCheck(8, [3, 7, 2]), 3),
    "field of seven": (7, abp.FieldCheck(7, [3, 6, 2]), 3),
    "and": (8, abp.And(), 3),
    "or": (8, abp.Or(), 3),
}
SHIFTED = ["field of eight", "field of seven", "sum", "sum with a constant", "xor", "xor of four"]


@pytest.fixture(autouse=True)
def always_structured(monkeypatch):
    """Use structures however small the tables are."""
    monkeypatch.setattr(source, "LIST_GAIN", 0.0)


def traces(kind, *, position=1, scale=1.0, dense=False):
    """Return a graph of a key, and for each trace variables with a structure; and evidence of all but one of these."""
    n, structure, arity = STRUCTURES[kind]
    rng = np.random.default_rng(0)
    graph = abp.FactorGraph()
    graph.add_variable("key", n)
    scopes = []
    for _ in range(N_TRACES):
        own = list(graph.add_variables(arity - 1, n))
        scopes.append([*own[:position], 0, *own[position:]])
    unseen = [scope[0 if position else 1] for scope in scopes]
    for variable in unseen:
        graph.add_factor([variable], log_table=scale * rng.normal(0.0, 1.0, n))
    if dense:
        table = structure.source((n,) * arity, "").log_values(0, [np.arange(n)] * arity)
        for scope in scopes:
            graph.add_factor(scope, log_table=table)
    else:
        graph.add_factors(scopes, structure=structure)
    evidence = {}
    for scope in scopes:
        evidence |= {v: int(rng.integers(n)) for v in scope if v != 0 and v not in unseen}
    return graph, evidence


@pytest.mark.parametrize("scale", [1.0, 300.0])
@pytest.mark.parametrize("position", [0, 1, 2])
@pytest.mark.parametrize("kind", sorted(STRUCTURES))
def test_observed_variables_leave_the_marginals_of_the_tables(kind, position, scale):
    graph, evidence = traces(kind, position=position, scale=scale)
    dense, _ = traces(kind, position=position, scale=scale, dense=True)
    expected = abp.infer(dense, "exact", evidence=evidence)
    found = abp.infer(graph, "bp", evidence=evidence)
    assert found.log_z == pytest.approx(expected.log_z, abs=1e-9)
    for name, marginal in expected.marginals.items():
        np.testing.assert_allclose(found.marginals[name], marginal, rtol=1e-9, atol=1e-300)


def prepared(graph, evidence):
    """Return the tables of a run of `bp`, made."""
    compiled = compiled_graph(graph)
    observed = abp.Inference(graph, "bp", evidence=evidence)._options.observed
    workspace = Workspace(compiled, full_domains(compiled, observed), 0)
    for _ in workspace.prepare():
        pass
    return workspace.tables


@pytest.mark.parametrize("kind", SHIFTED)
def test_a_shift_is_packed_with_all_others_and_in_a_few_words(kind, monkeypatch):
    graph, evidence = traces(kind)
    monkeypatch.setattr(GroupSource, "packed", None)  # whoever packs one by one fails
    tables = prepared(graph, evidence)
    assert len(np.unique(tables.address)) == N_TRACES
    n, _, arity = STRUCTURES[kind]
    assert (tables.structure_work == 3 * n + arity - 2).all()
    assert tables.nbytes <= 8 * (N_TRACES * (4 + 3 * arity) + 2 * arity * n)


def test_factors_with_the_same_observed_states_share_what_they_sum():
    graph, evidence = traces("and")
    tables = prepared(graph, evidence)
    states = [evidence[scope[2]] for scope in graph.blocks[-1].scopes.tolist()]
    assert len(np.unique(tables.address)) == len(set(states)) < N_TRACES
    for k, one in enumerate(states):
        assert [tables.address[k] == other for other in tables.address] == [one == other for other in states]


@pytest.mark.compiled
@pytest.mark.parametrize("structure", [abp.Xor(), abp.ModularSum([1, 1, -1]), abp.And(), abp.Or()])
@pytest.mark.parametrize("method", ["bp", "residual", "adaptive"])
def test_a_run_on_50_of_65536_states_reads_the_pairs_that_are_possible(method, structure, monkeypatch):
    monkeypatch.undo()
    rng, graph = np.random.default_rng(0), abp.FactorGraph()
    graph.add_variables(3, 65_536)
    graph.add_factors([[0], [1], [2]], log_table=rng.normal(0.0, 1.0, (3, 65_536)))
    graph.add_factor([0, 1, 2], structure=structure)
    evidence = {v: {0, *rng.choice(65_536, 49, replace=False).tolist()} for v in range(3)}
    result = abp.infer(graph, method, evidence=evidence)
    parts = result.work_parts
    assert 0 < parts["messages"] <= (2_500 + 150) * result.updates
    assert parts["growth"] <= 2_500 + 150  # to list them
