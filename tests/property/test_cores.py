"""Leaves and trees that are summed into the core: the same answers as without a core, whatever hangs where."""

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import anytimebp as abp
from anytimebp.tables import leaves
from oracle.leafy_models import leafy_graph
from oracle.settled import largest_move, twin_of

pytestmark = pytest.mark.filterwarnings("ignore::anytimebp.errors.NotConvergedWarning")

METHODS = st.sampled_from(["bp", "residual"])
ALL_METHODS = st.sampled_from(["bp", "residual", "adaptive"])
KINDS = st.sampled_from(["tables", "zeros", "tied", "all"])


def answer(build, method, *, with_core, monkeypatch, **options):
    """Return the inference and its result on a new graph, or None where messages vanish."""
    monkeypatch.setattr(leaves, "OVERHEAD", -np.inf if with_core else np.inf)
    graph, evidence = build()
    inference = abp.Inference(graph, method, evidence=evidence, tolerance=1e-12, rng=0, **options)
    try:
        return inference, inference.run(max_updates=200_000)
    except abp.InconsistentModelError:
        return inference, None


def check_same(found, right):
    assert found.stop_reason is right.stop_reason
    assert np.abs(found.marginals.concatenated() - right.marginals.concatenated()).max() < 1e-9
    assert found.log_z == pytest.approx(right.log_z, abs=1e-9, rel=1e-9)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10**6), method=ALL_METHODS, kinds=KINDS, observed=st.booleans())
def test_a_core_gives_the_answers_of_the_whole_graph(seed, method, kinds, observed, any_arithmetic, monkeypatch):
    def build():
        return leafy_graph(seed, kinds, observed=observed)

    options = {"monkeypatch": monkeypatch, "factor_marginals": True}
    _, right = answer(build, method, with_core=False, **options)
    inference, found = answer(build, method, with_core=True, **options)
    assert (found is None) == (right is None)
    assume(right is not None and right.stop_reason is abp.StopReason.CONVERGED)
    check_same(found, right)
    assert found.arithmetic == ("log" if any_arithmetic == "log" else right.arithmetic)
    for factor in right.factor_marginals:
        assert np.abs(found.factor_marginals[factor] - right.factor_marginals[factor]).max() < 1e-9
    if method != "adaptive":  # which may make inner rounds instead
        assert inference._run.method.leaves is not None
    assert found.max_residual <= 1e-12


def wide_leaves(seed, table_range, leaf_range, zeros):
    """Return a ring of three variables with a leaf on every factor; scores over many nats, and hard zeros."""
    rng = np.random.default_rng(seed)
    graph = abp.FactorGraph()
    graph.add_variables(3, 3)
    for k in range(3):
        leaf = graph.add_variable(f"leaf{k}", int(rng.integers(2, 6))).index
        scope = [k, (k + 1) % 3]
        scope.insert(int(rng.integers(3)), leaf)
        shape = [graph.variables[i].n_states for i in scope]
        table = np.where(rng.random(shape) < zeros, -np.inf, rng.uniform(-table_range, 0.0, shape))
        table.flat[0] = 0.0
        graph.add_factor(scope, log_table=table)
        graph.add_factor([leaf], log_table=rng.uniform(-leaf_range, 0.0, shape[scope.index(leaf)]))
    return graph


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 10**6),
    table_range=st.sampled_from([1.0, 500.0, 2000.0]),
    leaf_range=st.sampled_from([1.0, 500.0, 2000.0]),
    zeros=st.sampled_from([0.0, 0.4]),
    method=METHODS,
)
def test_leaves_of_thousands_of_nats_lose_no_number(seed, table_range, leaf_range, zeros, method, monkeypatch):
    def build():
        return wide_leaves(seed, table_range, leaf_range, zeros), {}

    _, right = answer(build, method, with_core=False, monkeypatch=monkeypatch)
    inference, found = answer(build, method, with_core=True, monkeypatch=monkeypatch)
    assert (found is None) == (right is None)
    assume(right is not None and right.stop_reason is abp.StopReason.CONVERGED)
    check_same(found, right)
    run = inference._run.method
    assume(getattr(run, "now", run).complete())  # messages to leaves may be too small for linear arithmetic
    assert largest_move(twin_of(build()[0], inference)) < 1e-9


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10**6), method=ALL_METHODS, kinds=st.sampled_from(["tables", "zeros", "tied"]))
def test_after_the_pass_down_no_message_would_move(seed, method, kinds, any_arithmetic, monkeypatch):
    inference, found = answer(
        lambda: leafy_graph(seed, kinds, observed=False), method, with_core=True, monkeypatch=monkeypatch
    )
    assume(found is not None and found.stop_reason is abp.StopReason.CONVERGED)
    assert largest_move(twin_of(leafy_graph(seed, kinds, observed=False)[0], inference)) < 1e-10


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10**6), method=METHODS, kinds=KINDS)
def test_snapshots_are_of_their_moment_whenever_they_are_read(seed, method, kinds, monkeypatch):
    monkeypatch.setattr(leaves, "OVERHEAD", -np.inf)

    def snapshots(*, at_once):
        graph, evidence = leafy_graph(seed, kinds, observed=True)
        found = []
        try:
            for snapshot in abp.Inference(graph, method, evidence=evidence, rng=0):
                found.append(snapshot)
                if at_once:
                    snapshot.marginals.read()
                if len(found) == 12:
                    break
        except abp.InconsistentModelError:
            return []
        return found

    at_once, later = snapshots(at_once=True), snapshots(at_once=False)
    assert len(at_once) == len(later)
    for one, other in zip(at_once, reversed(list(reversed(later))), strict=True):
        assert one.log_z.hex() == other.log_z.hex()
        assert (one.marginals.concatenated() == other.marginals.concatenated()).all()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10**6), method=METHODS, kinds=KINDS, step=st.integers(1, 7))
def test_a_run_in_small_steps_ends_at_the_same_bits_and_always_answers(seed, method, kinds, step, monkeypatch):
    monkeypatch.setattr(leaves, "OVERHEAD", -np.inf)
    graph, evidence = leafy_graph(seed, kinds, observed=True)
    whole, parts = (abp.Inference(graph, method, evidence=evidence, rng=0, record="end") for _ in range(2))
    try:
        right = whole.run(max_updates=600)
    except abp.InconsistentModelError:
        return
    updates = 0
    while updates < right.updates:
        found = parts.run(max_updates=min(step, right.updates - updates))
        assert updates < found.updates <= updates + step
        assert found.marginals.concatenated().min() >= 0.0
        updates = found.updates
    assert (found.marginals.concatenated() == right.marginals.concatenated()).all()
    assert dict(found.work_parts) == dict(right.work_parts)
