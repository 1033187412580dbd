"""Messages through strips against their slow twin: one sweep, and where rounds with fixed domains end."""

import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import anytimebp as abp
from anytimebp.domains.domains import full_domains
from anytimebp.inference.adaptive.leaf_axes import find_leaf_axes
from anytimebp.inference.adaptive.reach import REACHES
from anytimebp.inference.adaptive.strip_sources import find_strip_sources
from anytimebp.inference.adaptive.strip_stage import StripStage
from anytimebp.inference.method import new_task
from anytimebp.kernels.codes import NEEDS_ENTRIES, OK
from anytimebp.kernels.inner import take_stock
from anytimebp.kernels.rounds import COUNTERS, PHASE, SETTLE, UPDATES, round_slice
from anytimebp.kernels.strips import join_above
from anytimebp.layout.graph_layout import compiled_graph
from anytimebp.tables.sizes import message_spread
from oracle.models import one_factor, random_loopy
from oracle.slow_strips import take_strip_messages, total, without_far_states

seeds = st.integers(0, 10**6)
UNCOMPILED = os.environ.get("NUMBA_DISABLE_JIT") == "1"
few = settings(max_examples=10 if UNCOMPILED else 40)
MANY = 2**40


def drained(generator):
    """Return what a generator returns."""
    while True:
        try:
            next(generator)
        except StopIteration as end:
            return end.value


def stage_on(graph, rng, tolerance=1e-9, *, sum_out=False):
    """Return rounds with all states within reach and random domains, and these domains."""
    compiled = compiled_graph(graph)
    axes, domains = find_leaf_axes(compiled, sum_out=sum_out), full_domains(compiled, {})
    stage = StripStage(
        new_task(graph, abp.Inference(graph, tolerance=tolerance)._options),
        domains,
        find_strip_sources(compiled, axes, domains),
        drained(message_spread(compiled)),
        nats=5.0,
        full_fits=True,  # otherwise pairs outside are looked at as well, which the slow twin does not do
    )
    stage._looks = True
    stage.workspace = workspace = stage._within(len(REACHES) - 1)
    space, nested = workspace.space, workspace.nested
    belief = rng.random(len(space.prior))
    belief[space.variable_slot_start[:-1] + rng.integers(space.domain_size)] = 1.0  # no domain is empty
    join_above(workspace.layout, space, nested, belief, 0.6)
    starts = space.variable_slot_start[:-1]
    return stage, [nested.member[s : s + n].tolist() for s, n in zip(starts, nested.size, strict=True)]


def scatter_messages(stage, rng):
    """Put random messages in place."""
    space = stage.workspace.space
    for edge, start in enumerate(space.edge_slot_start):
        n = space.domain_size[stage.workspace.layout.edge_variable[edge]]
        values = rng.random(n) + 0.01
        space.message[start : start + n] = values / values.max()
    take_stock(stage.workspace.layout, space)


def sweep_once(stage):
    """Fill the strips and send every factor's messages through them, once."""
    workspace = stage.workspace
    workspace.make_room(strips=True)
    space, n_factors = workspace.space, len(stage._there)
    progress, goals, limits = np.zeros(COUNTERS, dtype=np.int64), np.full(4, 1e-9), np.array([1, n_factors, MANY])
    belief, outside = np.empty(len(space.prior)), np.empty(len(space.domain_size))
    statuses = []
    for _ in range(2):
        statuses.append(
            round_slice(
                workspace.layout,
                space,
                workspace.inner,
                workspace.nested,
                stage._there,
                stage._back,
                belief,
                belief.copy(),
                outside,
                progress,
                stage._figures,
                goals,
                limits,
            )
        )
        if statuses == [NEEDS_ENTRIES]:
            for _ in stage._asked.fill(workspace):
                pass
    assert statuses == [NEEDS_ENTRIES, OK]
    assert (progress[PHASE], progress[UPDATES]) == (SETTLE, n_factors)


def check_sweep(graph, rng):
    stage, domains = stage_on(graph, rng)
    scatter_messages(stage, rng)
    slow = without_far_states(graph, domains)
    take_strip_messages(slow, stage)
    sweep_once(stage)
    totals = {}
    for f in stage._there.tolist():
        factor = stage.compiled.graph_factor(f)
        totals[f] = total(slow, factor) * np.exp(-stage.workspace.nested.shift[f])
        slow.message.update(slow.updated(factor))
    ours = without_far_states(graph, domains)
    take_strip_messages(ours, stage)
    for key, message in slow.message.items():
        assert ours.message[key] == pytest.approx(message, abs=1e-11)
    assert stage.workspace.space.factor_total == pytest.approx([totals[f] for f in range(len(totals))], rel=1e-11)


@few
@given(seed=seeds, arity=st.integers(2, 4), scale=st.sampled_from([0.5, 3.0]))
def test_a_sweep_through_strips_reads_joint_states_with_at_most_one_variable_outside(seed, arity, scale):
    graph = random_loopy(seed, scale=scale, max_arity=arity, max_states=5, n_factors=6)
    check_sweep(graph, np.random.default_rng(seed))


@pytest.mark.parametrize("shape", [(5, 4), (4, 1, 5), (3, 4, 3), (3, 2, 4, 3), (1, 1, 1, 1)])
@pytest.mark.parametrize("stated", ["log_table", "table", "rule", "entries"])
def test_strips_of_any_arity_and_however_stated(shape, stated):
    rng = np.random.default_rng(sum(shape))
    scores = rng.normal(0.0, 2.0, shape) + 40.0
    given_as = {
        "log_table": scores,
        "table": np.exp(scores),
        "rule": lambda *states: scores[states],
        "entries": (np.argwhere(scores > 0.0), scores.ravel()),
    }
    graph = one_factor(shape, **{stated: given_as[stated]})
    for i, n in enumerate(shape):
        graph.add_factor([i], log_table=rng.normal(size=n))
    for _ in range(5):
        check_sweep(graph, rng)


def test_a_hub_sends_through_strips_what_its_messages_say():
    rng = np.random.default_rng(4)
    graph = abp.FactorGraph()
    graph.add_variables(19, 3)
    graph.add_factors([[i] for i in range(19)], log_table=rng.normal(size=(19, 3)))
    graph.add_factors([[0, i] for i in range(1, 19)], log_table=rng.normal(size=(18, 3, 3)))
    graph.add_factor([1, 2, 0], log_table=rng.normal(size=(3, 3, 3)))
    check_sweep(graph, rng)


@few
@given(seed=seeds, arity=st.integers(2, 4))
def test_rounds_with_fixed_domains_end_at_a_fixed_point_of_the_model_without_far_states(seed, arity):
    graph = random_loopy(seed, scale=0.4, max_arity=arity, max_states=5, n_factors=6)
    stage, domains = stage_on(graph, np.random.default_rng(seed), tolerance=1e-10)
    stage._threshold = 1e-10
    while stage._run.rounds < 10 or max(stage._run.max_residual, stage.settled.change) > 1e-12:
        for _ in stage._round():
            pass
        assert stage.outcome is None
        assert stage._run.rounds < 300
    slow = without_far_states(graph, domains)
    take_strip_messages(slow, stage)
    assert slow.residual() <= 1e-9
    expected = np.concatenate(slow.marginals())
    assert stage.settled.belief == pytest.approx(expected, abs=1e-9)
    assert stage.settled.outside == pytest.approx(
        max(1.0 - m[d].sum() for m, d in zip(slow.marginals(), domains, strict=True)), abs=1e-9
    )


@few
@given(seed=seeds)
def test_growing_keeps_the_strips_that_were_there(seed):
    graph = random_loopy(seed, scale=1.0, max_arity=3, max_states=5, n_factors=6)
    rng = np.random.default_rng(seed)
    stage, _ = stage_on(graph, rng)
    workspace = stage.workspace
    sweep_once(stage)
    belief = rng.random(len(workspace.space.prior))
    join_above(workspace.layout, workspace.space, workspace.nested, belief, 0.5)
    sweep_once(stage)
    grown = workspace.nested.pool.copy()
    workspace.nested.old_size[:] = 0  # nothing is there already
    sweep_once(stage)
    assert workspace.nested.pool.tobytes() == grown.tobytes()


def test_when_all_that_is_left_is_to_join_the_reach_is_everything():
    """The last threshold is below every belief; a run of peaked rules used to crash there."""
    graph = random_loopy(0, max_arity=2)
    stage, _ = stage_on(graph, np.random.default_rng(0))
    stage.threshold = -1.0
    belief = stage._extend_reach(np.empty(sum(graph.variables.sizes())))
    assert len(belief) == sum(graph.variables.sizes())
