"""What is called converged is a fixed point, whatever the method: a pass moves nothing by more than the tolerance.

States without any belief left are excepted, see `oracle/settled.py`.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import anytimebp as abp
from anytimebp.domains.domains import full_domains
from anytimebp.inference.control.damping import Damper
from anytimebp.inference.schedule.sweeps import no_news
from anytimebp.kernels.codes import LINEAR, OK
from anytimebp.kernels.jit import UNCOMPILED
from anytimebp.kernels.messages import sweep_slice
from anytimebp.kernels.readout import read_beliefs
from anytimebp.layout.graph_layout import CompiledGraph
from anytimebp.tables.workspace import Workspace
from oracle.examples import examples
from oracle.models import random_loopy
from oracle.settled import largest_move, twin_of

pytestmark = pytest.mark.filterwarnings("ignore::anytimebp.errors.NotConvergedWarning")
few = settings(max_examples=examples(25, uncompiled=4))
LEAVES = 18  # enough to make their centre a hub


def hub(seed, zeros, states=3):
    """Return a hub whose neighbours are tied in a ring."""
    rng = np.random.default_rng(seed)
    graph = abp.FactorGraph()
    graph.add_variables(LEAVES + 1, states)
    others = np.arange(1, LEAVES + 1)
    pairs = [*[(0, i) for i in others], *zip(others, np.roll(others, 1), strict=True)]
    tables = rng.normal(0, 0.5, (len(pairs), states, states))
    tables[:LEAVES] *= 2.0
    tables[rng.random(tables.shape) < zeros] = -np.inf
    tables[:, 0, 0] = 0.0
    graph.add_factors(np.arange(LEAVES + 1)[:, np.newaxis], log_table=rng.normal(0, 1, (LEAVES + 1, states)))
    graph.add_factors(pairs, log_table=tables)
    return graph


def loops(seed, zeros):
    scale = [0.3, 1.0, 3.0][seed % 3]
    return random_loopy(seed, scale=scale, zeros=zeros, n_variables=8, n_factors=12)


def dying(seed, zeros):
    """Return a graph with a loop around which a state loses its probability by a factor a sweep, for ever."""
    graph, rng = loops(seed, zeros), np.random.default_rng(seed)
    names = graph.add_variables(3, 2, names=["r0", "r1", "r2"])
    loss = rng.choice([0.5, 0.05, 1e-3])
    graph.add_factors([[names[k], names[(k + 1) % 3]] for k in range(3)], table=[[1.0, 1.0], [0.0, loss]])
    graph.add_factor(["r0", "v0"], log_table=rng.normal(0, 0.5, (2, graph.variables[0].n_states)))
    return graph


@few
@given(seed=st.integers(0, 10**6), zeros=st.sampled_from([0.0, 0.3]), kind=st.sampled_from([loops, dying, hub]))
def test_sweeps_that_pass_factors_over_lead_where_sweeps_over_all_do(seed, zeros, kind):
    graph = kind(seed, zeros)
    compiled = CompiledGraph(graph)
    made = []
    for passes_over in (True, False):
        workspace = Workspace(compiled, full_domains(compiled, {}, {}), LINEAR)
        for _ in workspace.prepare():
            pass
        order = np.arange(len(workspace.arrays.table_min))[np.newaxis]
        news, figures = no_news(workspace.layout), np.zeros((40, 3))
        for sweep in figures:
            if not passes_over:
                news = no_news(workspace.layout)
            position = (workspace.layout, workspace.arrays, news, order, 0, order.size, 10**12, 0.0, -1.0)
            if sweep_slice(*position, sweep[np.newaxis], np.zeros(0))[0] != OK:
                break
        start = workspace.domains.slot_start
        belief = np.empty(start[-1])
        read_beliefs(workspace.layout, workspace.arrays, start, belief, np.empty(len(start) - 1))
        made.append((belief, figures))
    (belief, figures), (expected, all_figures) = made
    np.testing.assert_allclose(belief, expected, rtol=1e-10, atol=1e-28)
    np.testing.assert_allclose(figures[:, 1], all_figures[:, 1], rtol=1e-3, atol=1e-12)
    assert (figures[:, 0] <= all_figures[:, 0]).all()


@few
@given(seed=st.integers(0, 10**6), zeros=st.sampled_from([0.0, 0.3]), kind=st.sampled_from([loops, dying, hub]))
def test_a_looser_tolerance_takes_no_more_updates_where_nothing_is_damped(seed, zeros, kind):
    graph, updates = kind(seed, zeros), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Damper, "hopeless", lambda *_: False)  # which looks at the tolerance to tell what is slow
        try:
            for tolerance in (1e-2, 1e-4, 1e-6, 1e-9):
                result = abp.infer(graph, "bp", tolerance=tolerance, max_updates=100 * graph.n_factors)
                updates.append(result.updates)
        except abp.InconsistentModelError:
            return
    assert updates == sorted(updates)


@st.composite
def observations(draw, graph):
    """Return evidence for some variables that leaves states 0 possible, and the part of it that is scores."""
    evidence, scores = {}, {}
    for i in draw(st.sets(st.integers(0, len(graph.variables) - 1), max_size=2)):
        n = graph.variables[i].n_states
        kind = draw(st.sampled_from(["state", "set", "scores"]))
        if kind == "scores":
            scores[i] = evidence[i] = np.linspace(0.0, -2.0, n)
        else:
            evidence[i] = 0 if kind == "state" else {0, n - 1}
    return evidence, scores


@pytest.mark.parametrize("method", [m for m in abp.METHODS if m not in {"exact", "auto"}])
@few
@given(
    make=st.sampled_from([loops, hub, dying]),
    seed=st.integers(0, 10**6),
    zeros=st.sampled_from([0.0, 0.2]),
    damping=st.sampled_from([0.0, 0.5, 0.9]),
    grow=st.sampled_from([1, 3, 100]),
    tolerance=st.sampled_from([1e-3, 1e-6]),
    data=st.data(),
)
def test_another_pass_moves_nothing_by_more_than_the_tolerance(
    method, make, seed, zeros, damping, grow, tolerance, data
):
    graph = make(seed, zeros)
    evidence, scores = data.draw(observations(graph))
    options = {"grow": grow} if method in {"random", "fixed", "dynamic"} else {}
    inference = abp.Inference(
        graph, method, evidence=evidence, damping=damping, tolerance=tolerance, rng=seed, **options
    )
    try:
        result = inference.run(max_updates=5_000 if UNCOMPILED else 30_000)
    except abp.InconsistentModelError:  # the evidence, or a part of the universes, may leave no joint state
        assert evidence or method == "truncated"
        return
    if result.stop_reason is abp.StopReason.CONVERGED:
        assert largest_move(twin_of(graph, inference, scores)) <= tolerance * (1 + 1e-6) + 1e-12


def test_a_sweep_that_has_moved_more_than_the_tolerance_is_the_last_if_nothing_is_pending():
    rng = np.random.default_rng(0)
    graph = abp.FactorGraph()
    graph.add_variables(8, 3)
    graph.add_factors([[k] for k in range(8)], log_table=rng.normal(size=(8, 3)))
    graph.add_factors([[k, (k + 1) % 8] for k in range(8)], log_table=rng.normal(0.0, 0.3, (8, 3, 3)))
    inference = abp.Inference(graph, "bp", tolerance=1e-6)
    result = inference.run()
    assert result.stop_reason is abp.StopReason.CONVERGED
    moved = inference._run.method.workspace.arrays.edge_residual.max()
    assert result.max_residual <= 1e-6 < moved
    assert largest_move(twin_of(graph, inference, {})) <= result.max_residual
