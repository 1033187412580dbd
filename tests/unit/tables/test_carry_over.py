from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

import anytimebp as abp
from anytimebp.inference.all_states import AllStates
from anytimebp.inference.method import new_task, steps
from anytimebp.kernels import codes
from anytimebp.model.evidence import read_evidence_mapping
from anytimebp.tables.carry_over import Start, read_message
from oracle.models import random_loopy, worst
from unit.kernels.test_to_factor import wheel


class UnsettledError(Exception):
    """BP does not converge: hard zeros in loops may keep it from that."""


NOTHING = np.empty(0, dtype=np.int64)


def run(graph, method="residual", evidence=None, start=None, unary=None, **options):
    """Run to the end; return the method and its last snapshot."""
    options = abp.Inference(graph, method, tolerance=1e-10, **options)._options
    options = replace(options, observed=read_evidence_mapping(evidence, graph.variables))
    task = new_task(graph, options)._replace(unary=unary or {})
    made = AllStates(task, start=start)
    for _ in steps(made, task.figures):
        pass
    if task.figures.ending is not abp.StopReason.CONVERGED:
        raise UnsettledError
    assert made.complete()
    return made, made.read(settled=False)


def chain(length, states=3):
    graph = abp.FactorGraph()
    graph.add_variables(length, states)
    scores = np.random.default_rng(0).normal(size=(length, states, states))
    graph.add_factors([[i, (i + 1) % length] for i in range(length)], log_table=scores)
    return graph


def draw_evidence(graph, rng):
    """Draw evidence of all kinds on a few variables."""
    found = {}
    n_variables, most = len(graph.variables), int(rng.integers(0, 3))
    for i in rng.choice(n_variables, size=min(most, n_variables), replace=False).tolist():
        n = graph.variables[i].n_states
        kinds = [
            int(rng.integers(n)),
            set(rng.choice(n, size=max(1, n - 1), replace=False).tolist()),
            rng.normal(size=n),
        ]
        found[i] = kinds[int(rng.integers(3))]
    return found


@settings(max_examples=15, deadline=None)
@example(seed=11083, method="residual", zeros=0)  # a forest in between sends nothing to lone states
@given(
    seed=st.integers(0, 10**6), method=st.sampled_from(["bp", "residual", "adaptive"]), zeros=st.sampled_from([0, 0.1])
)
def test_a_chain_of_other_evidence_ends_where_runs_from_nothing_end(seed, method, zeros):
    graph, rng = random_loopy(seed, scale=0.3, zeros=zeros), np.random.default_rng(seed)
    try:
        before, _ = run(graph, method)
    except UnsettledError:
        assume(condition=False)
    for _ in range(4):
        evidence = draw_evidence(graph, rng)
        unary = {0: rng.normal(size=graph.variables[0].n_states)} if rng.random() < 0.5 else {}
        try:
            _, cold = run(graph, method, evidence, unary=unary)
        except (abp.InconsistentModelError, UnsettledError):
            continue
        before, warm = run(graph, method, evidence, Start(before.workspace, NOTHING, {}), unary)
        assert worst(warm, list(cold.marginals.values())) < 1e-8
        assert warm.log_z == pytest.approx(cold.log_z, abs=1e-7)


def test_only_the_factors_of_an_observed_variable_are_disturbed():
    graph = chain(12)
    before, _ = run(graph)
    after, _ = run(graph, evidence={5: 1}, start=Start(before.workspace, NOTHING, {}))
    assert after.disturbed.tolist() == [4, 5]
    again, _ = run(graph, evidence={5: 1}, start=Start(after.workspace, NOTHING, {}))
    assert again.disturbed.tolist() == []


def test_scores_in_place_of_unary_factors_disturb_the_factors_of_their_variable():
    graph = chain(12)
    graph.add_factor([3], log_table=[0.0, 1.0, 2.0])
    before, _ = run(graph)
    unary = {3: np.array([2.0, -1.0, 0.0])}
    after, warm = run(graph, start=Start(before.workspace, NOTHING, {}), unary=unary)
    assert after.disturbed.tolist() == [2, 3]
    other = chain(12)
    other.add_factor([3], log_table=unary[3])
    _, cold = run(other)
    assert worst(warm, list(cold.marginals.values())) < 1e-9


def test_tables_that_have_changed_are_named_and_disturb_their_factors_alone():
    scores = np.random.default_rng(1).normal(size=(6, 3, 3))
    pairs = [[i, (i + 1) % 6] for i in range(6)]

    def ring():
        graph = abp.FactorGraph()
        graph.add_variables(6, 3)
        graph.add_factors(pairs, log_table=scores.copy())
        return graph

    before, _ = run(ring())
    scores[2, 0, 0] += 0.5
    after, warm = run(ring(), start=Start(before.workspace, np.array([2]), {}))
    assert after.disturbed.tolist() == [2]
    _, cold = run(ring())
    assert worst(warm, list(cold.marginals.values())) < 1e-9


@pytest.mark.parametrize("arithmetic", [codes.LINEAR, codes.LOG])
def test_messages_that_are_read_and_set_again_leave_nothing_to_do(arithmetic, monkeypatch):
    monkeypatch.setattr("anytimebp.inference.all_states.first_arithmetic", lambda *_: arithmetic)
    graph = wheel(20, seed=5, scale=0.3)  # with a hub
    before, settled = run(graph)
    messages = {
        edge: read_message(before.workspace, edge) for edge in range(len(before.workspace.layout.edge_variable))
    }
    fresh = AllStates(new_task(graph, abp.Inference(graph, "bp")._options))
    for _ in fresh.begin():
        pass
    after, read = run(graph, start=Start(fresh.workspace, NOTHING, messages))
    assert after._figures.updates == len(fresh.workspace.layout.factor_edge_start) - 1  # one look each
    assert worst(read, list(settled.marginals.values())) < 1e-9


def test_a_message_from_outside_disturbs_who_receives_it():
    graph = chain(12)
    before, _ = run(graph)
    edge = int(before.workspace.layout.factor_edge_start[7])  # from factor 7 to variable 7
    after, _ = run(graph, start=Start(before.workspace, NOTHING, {edge: np.array([0.0, -9.0, -9.0])}))
    assert after.disturbed.tolist() == [6, 7]
