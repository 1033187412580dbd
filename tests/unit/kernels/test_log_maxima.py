import numpy as np
import pytest

import anytimebp as abp
from anytimebp.domains.domains import full_domains
from anytimebp.inference.map_search import MapSearch
from anytimebp.kernels.log_maxima import bound_after_pass, improve_slice, pass_slice, score_states, take
from anytimebp.layout.graph_layout import compiled_graph
from anytimebp.tables.log_tables import make_log_tables
from oracle.enumeration import joint_log_scores


def made(seed=0):
    rng = np.random.default_rng(seed)
    graph = abp.FactorGraph()
    sizes = [2, 3, 4]
    for n in sizes:
        graph.add_variable(f"v{n}", n)
    graph.add_factor([1, 0, 2], log_table=rng.normal(0, 1, (3, 2, 4)))
    graph.add_factor([0, 2], log_table=rng.normal(0, 1, (2, 4)))
    compiled = compiled_graph(graph)
    search = MapSearch(compiled, full_domains(compiled, {}), {})
    making = make_log_tables(compiled, full_domains(compiled, {}))
    while True:
        try:
            next(making)
        except StopIteration as end:
            tables = end.value
            break
    return graph, compiled, search._arrays(tables.address), tables


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_a_factor_gives_its_largest_scores(axis):
    graph, compiled, at, _ = made()
    rng = np.random.default_rng(axis)
    at.to_factor[:] = rng.normal(0, 1, len(at.to_factor))
    table, others = graph.factor_log_table(0), [k for k in range(3) if k != axis]
    for k in others:
        start = at.edge_slot_start[k]
        weight = at.to_factor[start : start + table.shape[k]]
        table = table + weight.reshape([-1 if j == k else 1 for j in range(3)])
    out = np.empty(table.shape[axis])
    assert take(compiled.arrays, at, 0, axis, out) == table.size
    assert np.allclose(out, table.max(axis=tuple(others)))


def test_passes_lower_a_bound_that_holds():
    graph, compiled, at, _ = made()
    best, before, way = joint_log_scores(graph).max(), np.inf, 1
    for _ in range(6):
        _, position, _ = pass_slice(compiled.arrays, at, way, 0, 10**9)
        bound = bound_after_pass(compiled.arrays, at)
        assert position == 3
        assert best - 1e-12 <= bound <= before + 1e-12
        before, way = bound, -way


def test_single_moves_end_where_none_improves():
    graph, compiled, at, _ = made(1)
    joint = joint_log_scores(graph)
    at.state[:] = 1
    before = joint[tuple(at.state)]
    is_over, moves, _ = improve_slice(compiled.arrays, at, np.ones(3, dtype=np.bool_), -1e9, 10**9)
    assert is_over
    assert moves > 0
    score = joint[tuple(at.state)]
    assert score > before
    for variable in range(3):
        position = list(at.state)
        position[variable] = slice(None)
        assert joint[tuple(position)].max() <= score


def test_the_score_of_chosen_states_is_that_of_all_factors_and_priors():
    graph, compiled, at, _ = made(2)
    at.log_prior[:] = np.random.default_rng(3).normal(0, 1, len(at.log_prior))
    at.log_prior[1] = -np.inf
    joint = joint_log_scores(graph)
    for states in np.ndindex(joint.shape):
        at.state[:] = states
        own = at.log_prior[at.slot_start[:-1] + at.state].sum()
        assert score_states(compiled.arrays, at) == pytest.approx(joint[states] + own, abs=1e-12)
