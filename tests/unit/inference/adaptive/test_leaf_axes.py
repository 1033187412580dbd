"""Leaves that strips sum out: the same answers as with leaves kept, and leaves read from the domains of the others."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import anytimebp as abp
from anytimebp.inference.adaptive.leaf_axes import find_leaf_axes
from anytimebp.layout.graph_layout import compiled_graph
from unit.kernels.test_strips import few, stage_on

seeds = st.integers(0, 10**6)


def with_leaves(seed, *, tied, stated="log_table", scale=1.0):
    """Return a ring of four variables whose factors have a leaf each, on any axis, and which of them are leaves."""
    rng = np.random.default_rng(seed)
    graph = abp.FactorGraph()
    n, leaf, axis = int(rng.integers(2, 5)), int(rng.integers(1, 6)), int(rng.integers(0, 3))
    core, leaves = graph.add_variables(4, n), graph.add_variables(4, leaf)
    shape = [n, n]
    shape.insert(axis, leaf)
    scores = rng.normal(0.0, scale, (1 if tied else 4, *shape))
    scopes = [[core[k], core[(k + 1) % 4]] for k in range(4)]
    for k, scope in enumerate(scopes):
        scope.insert(axis, leaves[k])
    table = {"log_table": scores, "table": np.exp(scores - 3.0)}[stated]
    graph.add_factors(np.array(scopes), **{stated: table[0] if tied else table})
    for variables, size in ((core, n), (leaves, leaf)):
        graph.add_factors(np.array(variables)[:, None], log_table=rng.normal(0.0, 2.0, (4, size)))
    return graph


def settled(stage):
    stage.threshold = 1e-10
    while stage._run.rounds < 10 or max(stage._run.max_residual, stage.settled.change) > 1e-12:
        for _ in stage._round():
            pass
        assert stage.outcome is None
        assert stage._run.rounds < 300
    return stage.read(settled=True)


@few
@given(seed=seeds, tied=st.booleans(), stated=st.sampled_from(["log_table", "table"]))
def test_summing_leaves_out_is_keeping_all_their_states_active(seed, tied, stated):
    graph = with_leaves(seed, tied=tied, stated=stated)
    stage, domains = stage_on(graph, np.random.default_rng(seed), tolerance=1e-10, sum_out=True)
    whole, _ = stage_on(graph, np.random.default_rng(seed), tolerance=1e-10)
    nested, start = whole.workspace.nested, whole.workspace.space.variable_slot_start
    nested.is_member[:] = False
    for variable in range(8):
        chosen = domains[variable] if variable < 4 else list(range(whole.workspace.space.domain_size[variable]))
        nested.size[variable] = len(chosen)
        nested.member[start[variable] : start[variable] + len(chosen)] = chosen
        nested.is_member[start[variable] + np.array(chosen)] = True
    ours, expected = settled(stage), settled(whole)
    for variable in range(4):
        assert ours.marginals[variable] == pytest.approx(expected.marginals[variable], abs=1e-9)
    assert ours.log_z == pytest.approx(expected.log_z, abs=1e-8)
    assert ours.domain_sizes.tolist() == expected.domain_sizes.tolist()
    assert ours.unexplored_mass == pytest.approx(expected.unexplored_mass, abs=1e-9)


@few
@given(seed=seeds, tied=st.booleans(), stated=st.sampled_from(["log_table", "table"]))
def test_leaves_of_full_domains_have_the_marginals_of_bp(seed, tied, stated):
    graph = with_leaves(seed, tied=tied, stated=stated, scale=0.5)
    stage, _ = stage_on(graph, np.random.default_rng(seed), tolerance=1e-10, sum_out=True)
    nested, start = stage.workspace.nested, stage.workspace.space.variable_slot_start
    for variable in range(4):
        n = stage.workspace.space.domain_size[variable]
        nested.size[variable] = n
        nested.member[start[variable] : start[variable] + n] = np.arange(n)
    nested.is_member[:] = True
    ours, expected = settled(stage), abp.infer(graph, "bp", tolerance=1e-12)
    for variable in range(8):
        assert ours.marginals[variable] == pytest.approx(expected.marginals[variable], abs=1e-8)
    assert ours.log_z == pytest.approx(expected.log_z, abs=1e-7)


@settings(max_examples=25)
@given(seed=seeds, observe=st.booleans())
def test_runs_through_every_stage_end_where_bp_does(every_stage, seed, observe):
    graph = with_leaves(seed, tied=seed % 2 == 0, scale=0.5)
    evidence = {}
    if observe:  # some states of a leaf, and of a variable of the ring
        rng = np.random.default_rng(seed)
        for variable in (0, 5):
            n = graph.variables[variable].n_states
            evidence[variable] = set(rng.choice(n, size=rng.integers(1, n + 1), replace=False).tolist())
    expected = abp.infer(graph, "bp", tolerance=1e-12, evidence=evidence)
    seen = 0
    for snapshot in abp.Inference(graph, "adaptive", evidence=evidence):
        seen += 1
        for variable, allowed in evidence.items():
            outside = np.delete(snapshot.marginals[variable], sorted(allowed))
            assert not outside.any()
    assert seen
    assert snapshot.distance(expected) < 1e-7
    assert snapshot.log_z == pytest.approx(expected.log_z, abs=1e-6)


def test_of_several_leaves_the_longest_is_summed_out_and_rules_keep_theirs():
    graph = abp.FactorGraph()
    sizes = [3, 2, 5, 4, 3]
    for k, n in enumerate(sizes):
        graph.add_variable(f"v{k}", n)
    graph.add_factor([0, 1], log_table=np.zeros((3, 2)))
    graph.add_factor([0, 2, 1, 3], log_table=np.zeros((3, 5, 2, 4)))
    graph.add_factor([0, 1, 4], rule=lambda a, b, c: 0.1 * (a + b + c))
    axes = find_leaf_axes(compiled_graph(graph), sum_out=True)
    assert axes.leaf.tolist() == [-1, 2, -1]
    assert axes.variables.tolist() == [0, 1, 3, 4]
    assert axes.table_size.tolist() == [6, 120, 18]
    assert axes.leaf_stride.tolist() == [1, 8, 1]
    assert axes.edge_stride.tolist() == [2, 1, 40, 4, 1, 6, 3, 1]
    assert find_leaf_axes(compiled_graph(graph), sum_out=False).leaf.tolist() == [-1, -1, -1]
