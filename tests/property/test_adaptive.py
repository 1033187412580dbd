"""What must hold of `adaptive`, over random graphs, with all of its stages wherever they are possible."""

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

import anytimebp as abp
from anytimebp.inference.one_by_one import OneByOne
from oracle.enumeration import exact
from oracle.examples import examples
from oracle.models import grid, hub, peaked, random_loopy, random_tree, structured, wide, worst
from oracle.settled import largest_move
from oracle.slow_bp import SlowBP, load_messages

pytestmark = [
    pytest.mark.usefixtures("every_stage"),
    pytest.mark.filterwarnings("ignore::anytimebp.errors.NotConvergedWarning"),
]

few = settings(max_examples=examples(25, uncompiled=8))
seeds = st.integers(0, 10**6)

WEAK = {
    "peaked": peaked,
    "zeros in priors": lambda seed: peaked(seed, zeros=0.3),
    "pairs": lambda seed: peaked(seed, max_arity=2),
    "flat": lambda seed: random_loopy(seed, max_arity=4),
    "zeros in tables": lambda seed: random_loopy(seed, scale=0.2, unary=3.0, zeros=0.05),
    "hub": hub,
    "huge and tiny": lambda seed: shifted(peaked(seed), seed),
    "wide": lambda seed: peaked(seed, unary=400.0),
    "wide tables": wide,
    "wide tables and zeros": lambda seed: wide(seed, zeros=0.05),
    "structures": structured,
}
"""Couplings so weak that there is one fixed point; small enough for the uncompiled pass."""


def shifted(graph, seed):
    """Add large constants, which change nothing but log Z."""
    rng = np.random.default_rng(seed)
    for k, n in enumerate(graph.variables.sizes().tolist()[:2]):
        m = int(graph.variables.sizes()[k + 2])
        graph.add_factor([k], log_table=np.full(n, 1e6))
        graph.add_factor([k, k + 2], log_table=rng.normal(0.0, 0.2, (n, m)) - 1e6)
    return graph


def bits(snapshot):
    return b"".join(m.tobytes() for m in snapshot.marginals.values()) + np.float64(snapshot.log_z).tobytes()


def assert_sound(snapshot):
    for marginal in snapshot.marginals.values():
        assert np.isfinite(marginal).all()
        assert (marginal >= 0.0).all()
        assert marginal.sum() == pytest.approx(1.0, abs=1e-9)


def residual_of(graph, inference):
    """Return by how much a full pass of the slow twin would move the messages of a run without evidence."""
    slow = SlowBP(graph)
    load_messages(slow, inference._run.method.now)
    return largest_move(slow)  # where there is any belief


def assert_same_log_z(result, reference):
    assert result.log_z == pytest.approx(reference.log_z, rel=1e-10, abs=1e-6)


def assume_that_bp_settles(graph):
    """Leave out models whose hard zeros make messages run in circles, however damped: one in a few hundred."""
    assume(abp.infer(graph, "bp").stop_reason is abp.StopReason.CONVERGED)


@pytest.mark.parametrize("kind", WEAK)
@few
@given(seed=seeds)
def test_ends_where_bp_ends_at_weak_coupling(kind, seed):
    graph = WEAK[kind](seed)
    assume_that_bp_settles(graph)
    reference = abp.infer(graph, "bp", tolerance=1e-12)
    inference = abp.Inference(graph, "adaptive")
    result = inference.run()
    assert result.stop_reason is abp.StopReason.CONVERGED
    assert result.consistent
    assert_sound(result)
    if reference.consistent:
        assert result.distance(reference) < 1e-7
        assert_same_log_z(result, reference)


@few
@given(seed=seeds, zeros=st.sampled_from([0.0, 0.3]), scale=st.sampled_from([1.0, 4.0, 400.0]))
def test_is_exact_on_trees(seed, zeros, scale):
    graph = random_tree(seed, scale=scale, zeros=zeros, max_states=6, n_factors=6, max_joint=4000)
    marginals, log_z = exact(graph)
    result = abp.infer(graph, "adaptive")
    assert result.stop_reason is abp.StopReason.CONVERGED
    assert worst(result, marginals) < 1e-7
    assert result.log_z == pytest.approx(log_z, rel=1e-9, abs=1e-6)


@few
@example(seed=809532, scale=0.5, zeros=0.0)  # leaves are summed out
@given(seed=seeds, scale=st.sampled_from([0.5, 1.5, 3.0]), zeros=st.sampled_from([0.0, 0.15]))
def test_what_is_called_converged_is_a_fixed_point(seed, scale, zeros):
    graph = random_loopy(seed, scale=scale, unary=2.0, zeros=zeros, max_states=6)
    if graph.summary().is_forest:
        return
    inference = abp.Inference(graph, "adaptive")
    if inference.run().stop_reason is abp.StopReason.CONVERGED:
        assert residual_of(graph, inference) <= 2e-8


@few
@given(seed=seeds, data=st.data())
def test_evidence_of_every_kind_counts(seed, data):
    graph = peaked(seed)
    evidence, excluded = {}, {}
    for i, n in enumerate(graph.variables.sizes().tolist()):
        kind = data.draw(st.sampled_from(["none", "label", "set", "scores"]))
        state = data.draw(st.integers(0, n - 1))
        if kind == "label":
            evidence[i], excluded[i] = state, np.arange(n) != state
        elif kind == "set":
            evidence[i] = {state, *data.draw(st.sets(st.integers(0, n - 1)))}
            excluded[i] = ~np.isin(np.arange(n), list(evidence[i]))
        elif kind == "scores":
            scores = np.random.default_rng(seed + i).normal(0.0, 3.0, n)
            scores[data.draw(st.integers(0, n - 1))] = -np.inf
            scores[state] = 1.0
            evidence[i], excluded[i] = scores, scores == -np.inf
    reference = abp.infer(graph, "bp", evidence=evidence, tolerance=1e-12)
    inference = abp.Inference(graph, "adaptive", evidence=evidence)
    for snapshot in inference:
        assert_sound(snapshot)
        assert not any(snapshot.marginals[i][flags].any() for i, flags in excluded.items())
    result = inference.run()
    assert result.stop_reason is abp.StopReason.CONVERGED
    assert result.distance(reference) < 1e-7
    assert_same_log_z(result, reference)


@few
@given(seed=seeds, kind=st.sampled_from(sorted(WEAK)))
def test_snapshots_are_sound_and_never_change(seed, kind):
    graph = WEAK[kind](seed)
    assume_that_bp_settles(graph)
    inference = abp.Inference(graph, "adaptive")
    seen = [(snapshot, bits(snapshot), snapshot.domain_sizes.tolist()) for snapshot in inference]
    for snapshot, before, sizes in seen:
        assert_sound(snapshot)
        assert bits(snapshot) == before
        assert snapshot.domain_sizes.tolist() == sizes
        assert not snapshot.domain_sizes.flags.writeable
    assert seen[-1][0].consistent
    assert (np.diff([snapshot.updates for snapshot, _, _ in seen]) >= 0).all()
    assert bits(abp.infer(graph, "adaptive")) == seen[-1][1]


@few
@given(
    seed=seeds,
    kind=st.sampled_from(["peaked", "zeros in priors", "hub", "zeros in tables", "flat"]),
    budgets=st.lists(st.tuples(st.sampled_from(["max_updates", "max_work"]), st.integers(0, 90)), max_size=12),
    factor_marginals=st.booleans(),
)
@example(seed=0, kind="hub", budgets=[("max_updates", 9)] * 40, factor_marginals=True)
def test_stopped_anywhere_the_answer_is_the_last_consistent_snapshot(seed, kind, budgets, factor_marginals):
    graph = WEAK[kind](seed)
    options = {"method": "adaptive", "factor_marginals": factor_marginals}
    abp.infer(graph, **options)  # what rules say is kept with the graph, so that all runs after it work alike
    settled = [(s.updates, bits(s)) for s in abp.Inference(graph, **options) if s.consistent]
    inference = abp.Inference(graph, **options)
    for name, amount in budgets:
        result = inference.run(**{name: amount})
        assert_sound(result.current)
        done = [pair for pair in settled if pair[0] <= result.current.updates]
        if result.consistent:
            assert (result.updates, bits(result)) in done[-2:]  # the last may not have been read yet
        else:
            assert len(done) <= 1 or bits(result) == bits(result.current)  # sweeps over all states have gone on
    result, whole = inference.run(), abp.infer(graph, **options)
    assert bits(result) == bits(whole)
    assert (result.updates, result.work_parts, result.stop_reason) == (
        whole.updates,
        whole.work_parts,
        whole.stop_reason,
    )


@few
@given(seed=seeds, kind=st.sampled_from(sorted(WEAK)))
def test_the_same_run_twice_gives_the_same_bits_whatever_is_recorded(seed, kind):
    graph = WEAK[kind](seed)
    once = abp.infer(graph, "adaptive")
    for record in ("round", "end", abp.Every(rounds=3), abp.Every(seconds=1e-4)):
        assert bits(abp.infer(graph, "adaptive", record=record)) == bits(once)


@few
@given(seed=seeds)
def test_the_way_does_not_change_where_it_ends(seed):
    graph = grid(3, 6, 4.0, 0.3, seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("anytimebp.inference.adaptive.adaptive_run.SMALL", 10**9)
        plain = abp.infer(graph, "adaptive")
    staged = abp.infer(graph, "adaptive")
    assert plain.trace[0].choice.startswith("full BP")
    assert staged.trace[0].choice.startswith("rounds on likely states")
    assert staged.distance(plain) < 1e-7


@few
@given(seed=seeds, share=st.floats(0.2, 0.99), zeros=st.sampled_from([0.0, 0.3]))
def test_memory_that_is_too_small_leaves_a_consistent_answer(seed, share, zeros):
    graph = peaked(seed, zeros=zeros, max_arity=3)
    least = 80 * int(graph.variables.sizes().sum())  # bytes: a few numbers per state
    limit = max(1, int(share * graph.summary().full_bp_bytes))
    inference = abp.Inference(graph, "adaptive", max_memory=limit)
    if limit < least:
        with pytest.raises(abp.MemoryLimitError, match="bytes per state"):
            inference.run()
        return
    try:
        result = inference.run()
    except abp.MemoryLimitError:  # not even one state each
        return
    assert result.stop_reason in {abp.StopReason.OUT_OF_MEMORY, abp.StopReason.CONVERGED}
    assert result.consistent
    assert result.estimated_error >= 0.0
    if isinstance(inference._run.method.now, OneByOne):  # not even the first domains fit: one state at a time
        return
    reference = abp.infer(graph, "bp", tolerance=1e-12)
    assert result.distance(reference) <= 5 * result.estimated_error + 1e-7
