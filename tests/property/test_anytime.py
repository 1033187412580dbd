"""What must hold of every method that works on sparse domains, over random graphs."""

import contextlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import anytimebp as abp
from anytimebp.inference.look import unexplored
from oracle.enumeration import exact
from oracle.examples import examples
from oracle.models import random_loopy, random_tree, worst
from oracle.settled import largest_move
from oracle.slow_growth import domains_of, dynamic_scores, fixed_priorities, restricted, take_messages

pytestmark = pytest.mark.compiled  # thousands of rounds; test_growth_small.py runs uncompiled too

METHODS = ["truncated", "random", "fixed", "dynamic"]
GROWING = METHODS[1:]
TOLERANCE = 1e-10

few = settings(max_examples=examples(40))  # runs of many rounds, each checked by the slow twin
seeds = st.integers(0, 10**6)
grows = st.integers(1, 4)


def small_tree(seed, zeros=0.0, scale=1.0):
    return random_tree(seed, scale=scale, zeros=zeros, max_states=6, n_factors=6, max_joint=4000)


def check_snapshot(graph, inference, snapshot):
    """Check that a snapshot is a fixed point on its domains, as the slow twin sees it."""
    domains = domains_of(inference._run.method)
    assert snapshot.domain_sizes.tolist() == [len(d) for d in domains]
    for i, domain in enumerate(domains):
        marginal = snapshot.marginals[i]
        assert marginal.sum() == pytest.approx(1.0, abs=1e-12)
        assert not np.delete(marginal, domain).any()
        assert (marginal >= 0.0).all()
    slow = restricted(graph, domains)
    take_messages(slow, inference._run.method)
    assert largest_move(slow) <= TOLERANCE * (1 + 1e-3) + 1e-12
    assert (
        max(
            abs(snapshot.marginals[i][d] - m).max()
            for i, (d, m) in enumerate(zip(domains, slow.marginals(), strict=True))
        )
        < 1e-9
    )
    return domains


@pytest.mark.parametrize("method", METHODS)
@few
@given(seed=seeds, grow=grows, zeros=st.sampled_from([0.0, 0.3]))
def test_snapshots_on_trees_are_exact_on_their_domains(method, seed, grow, zeros):
    graph = small_tree(seed, zeros)
    inference = abp.Inference(graph, method, tolerance=TOLERANCE, rng=seed, grow=grow)
    before, log_z = None, -np.inf
    try:
        for snapshot in inference:
            domains = check_snapshot(graph, inference, snapshot)
            allowed = {
                i: np.where(np.isin(np.arange(len(snapshot.marginals[i])), d), 0.0, -np.inf)
                for i, d in enumerate(domains)
            }
            marginals, expected = exact(graph, allowed)
            assert worst(snapshot, marginals) < 1e-8
            assert snapshot.log_z == pytest.approx(expected, rel=1e-9, abs=1e-8)
            assert snapshot.log_z >= log_z - 1e-8  # never decreases
            if before is not None:
                assert all(new[: len(old)] == old for new, old in zip(domains, before, strict=True))  # only grows
            before, log_z = domains, snapshot.log_z
    except abp.InconsistentModelError:
        assert method == "truncated"
        assert zeros
        return
    if method != "truncated":
        assert worst(inference.run(), exact(graph)[0]) < 1e-8


@pytest.mark.parametrize("method", METHODS)
@few
@given(seed=seeds, grow=grows)
def test_snapshots_on_loops_are_fixed_points_and_end_at_those_of_bp(method, seed, grow):
    graph = random_loopy(seed)
    inference = abp.Inference(graph, method, tolerance=TOLERANCE, rng=seed, grow=grow)
    for snapshot in inference:
        assert snapshot.consistent
        check_snapshot(graph, inference, snapshot)
    if method != "truncated":
        result, reference = inference.run(), abp.infer(graph, "bp", tolerance=1e-12)
        assert result.stop_reason is abp.StopReason.CONVERGED
        assert worst(result, [reference.marginals[i] for i in range(len(reference.marginals))]) < 1e-6
        assert result.domain_sizes.tolist() == graph.variables.sizes().tolist()
        assert result.unexplored_mass == 0.0


@pytest.mark.parametrize("method", METHODS)
@few
@given(seed=seeds, budgets=st.lists(st.integers(0, 60), max_size=8), zeros=st.sampled_from([0.0, 0.3]))
def test_stopped_at_any_update_the_answer_is_consistent_and_the_rest_goes_on_bit_for_bit(method, seed, budgets, zeros):
    graph = random_loopy(seed, zeros=zeros) if seed % 2 else small_tree(seed, zeros)
    options = {"method": method, "tolerance": TOLERANCE, "rng": seed, "grow": 1 + seed % 3}
    try:
        whole = abp.Inference(graph, **options).run()
        inference = abp.Inference(graph, **options)
        for budget in budgets:
            result = inference.run(max_updates=budget)
            if result.consistent:
                check_snapshot(graph, inference, result)
            assert result.current.updates >= result.updates
        result = inference.run()
    except abp.InconsistentModelError:
        assert zeros
        return
    for i in range(len(graph.variables)):
        assert result.marginals[i].tobytes() == whole.marginals[i].tobytes()
    assert (result.work_parts, result.updates) == (whole.work_parts, whole.updates)
    assert result.log_z == pytest.approx(whole.log_z, rel=0, abs=0, nan_ok=True)


@few
@given(seed=seeds, grow=grows, raw=st.booleans())
def test_fixed_grows_in_the_order_of_its_priorities(seed, grow, raw):
    graph = random_loopy(seed, scale=1.0)
    inference = abp.Inference(graph, "fixed", rng=0, grow=grow, policy=abp.FixedGrowth(raw=raw))
    inference.run()
    scores = fixed_priorities(graph, raw=raw)
    domains = domains_of(inference._run.method)
    for domain, score in zip(domains, scores, strict=True):
        assert (np.diff(score[domain]) <= 1e-9).all()
    order = record_of_growth(graph, "fixed", grow=grow, policy=abp.FixedGrowth(raw=raw))
    joined = [scores[i][state] for states in order for i, state in states]
    if grow == 1:
        assert (np.diff(joined) <= 1e-9).all()


def record_of_growth(graph, method, **options):
    """Return the (variable, state) pairs that joined in each round."""
    inference, rounds, before = abp.Inference(graph, method, **options), [], None
    for _ in inference:
        domains = domains_of(inference._run.method)
        if before is not None:
            rounds.append([(i, s) for i, d in enumerate(domains) for s in d[len(before[i]) :]])
        before = domains
    return rounds


@few
@given(seed=seeds, zeros=st.sampled_from([0.0, 0.2]))
@example(seed=3391, zeros=0.2)  # a round is cut, and the next state joins the same variable
def test_dynamic_adds_the_best_state_by_the_slow_twin(seed, zeros):
    graph = random_loopy(seed, scale=1.0, unary=3.0, zeros=zeros, max_states=7)
    inference = abp.Inference(graph, "dynamic", tolerance=1e-12)
    slow = domains = None
    for snapshot in inference:
        if slow is not None and snapshot.consistent:
            now = domains_of(inference._run.method)
            joined = [(i, state) for i, d in enumerate(now) for state in d[len(domains[i]) :]]
            scores = [dynamic_scores(graph, slow, domains, i) for i in range(len(domains))]
            best = max(np.delete(s, d).max(initial=-np.inf) for s, d in zip(scores, domains, strict=True))
            if len(joined) == 1 and best > -np.inf:  # rounds without a snapshot hide what joined first
                i, state = joined[0]
                assert scores[i][state] >= best - 1e-9
        domains = domains_of(inference._run.method)
        slow = restricted(graph, domains)
        take_messages(slow, inference._run.method)


def while_possible(inference):
    """Give snapshots until a model turns out to be inconsistent, as random zeros may make it."""
    with contextlib.suppress(abp.InconsistentModelError):
        yield from inference


def has_impossible_states(graph):
    """Tell whether unary factors alone exclude a state."""
    unary = [k for k in range(graph.n_factors) if len(graph.factor_scope(k)) == 1]
    return any((graph.factor_log_table(k) == -np.inf).any() for k in unary)


@few
@given(seed=seeds, method=st.sampled_from(METHODS), fraction=st.floats(0.1, 0.9), zeros=st.sampled_from([0.0, 0.1]))
def test_unexplored_mass_is_that_of_the_slow_twin(seed, method, fraction, zeros):
    graph = random_loopy(seed, scale=1.0, unary=2.0, zeros=zeros)
    n = int(graph.variables.sizes().sum())
    inference = abp.Inference(
        graph, method, tolerance=TOLERANCE, rng=seed, record=abp.Every(states=max(1, int(fraction * n)))
    )
    for snapshot in while_possible(inference):
        if not snapshot.consistent:  # the end of a run that does not settle; the twin takes over settled messages
            continue
        domains = domains_of(inference._run.method)
        slow = restricted(graph, domains)
        take_messages(slow, inference._run.method)
        scores = [np.delete(dynamic_scores(graph, slow, domains, i), d) for i, d in enumerate(domains)]
        if any((score == -np.inf).any() for score in scores):  # shut out by hard zeros: nothing can be said
            assert np.isnan(snapshot.unexplored_mass) or has_impossible_states(graph)
            continue
        outside = [np.exp(score).sum() for score in scores]
        with pytest.MonkeyPatch.context() as patch:  # pairs of states outside have tests of their own
            patch.setattr(unexplored, "add_pairs", lambda *_: ())
            single = replace(snapshot).unexplored_mass
        assert snapshot.unexplored_mass >= single * (1.0 - 1e-12)
        assert single == pytest.approx(max(m / (1 + m) for m in outside), rel=1e-6, abs=1e-12)


@few
@given(seed=seeds, method=st.sampled_from(METHODS))
def test_same_seed_same_bits_whatever_is_recorded(seed, method):
    graph = random_loopy(seed)
    results = [
        abp.infer(graph, method, rng=seed, record=record)
        for record in ("round", "end", abp.Every(rounds=3), abp.Every(states=2), abp.Every(seconds=1e-4))
    ]
    for result in results[1:]:
        assert all(
            result.marginals[i].tobytes() == results[0].marginals[i].tobytes() for i in range(len(graph.variables))
        )
        assert result.work_parts == results[0].work_parts


@few
@given(seed=seeds, method=st.sampled_from(METHODS), data=st.data())
def test_evidence_restricts_what_may_join(seed, method, data):
    graph = random_loopy(seed)
    evidence, extra = {}, {}
    for i, n in enumerate(graph.variables.sizes().tolist()):
        kind = data.draw(st.sampled_from(["none", "state", "some", "soft"]))
        if kind == "state":
            evidence[i] = data.draw(st.integers(0, n - 1))
            extra[i] = np.where(np.arange(n) == evidence[i], 0.0, -np.inf)
        elif kind == "some":
            evidence[i] = set(data.draw(st.lists(st.integers(0, n - 1), min_size=1)))
            extra[i] = np.where(np.isin(np.arange(n), list(evidence[i])), 0.0, -np.inf)
        elif kind == "soft":
            evidence[i] = extra[i] = np.random.default_rng(seed).normal(size=n)
    reference = abp.infer(graph, "bp", evidence=evidence, tolerance=1e-12)
    inference = abp.Inference(graph, method, evidence=evidence, tolerance=TOLERANCE, rng=seed)
    for snapshot in inference:
        for i, scores in extra.items():
            assert not snapshot.marginals[i][np.asarray(scores) == -np.inf].any()
    if method != "truncated":
        result = inference.run()
        assert worst(result, [reference.marginals[i] for i in range(len(graph.variables))]) < 1e-6
        assert result.domain_sizes.tolist() == reference.domain_sizes.tolist()
        assert result.log_z == pytest.approx(reference.log_z, abs=1e-7)
