"""When a run has settled, and when it has not: states that die out, parts that never settle, slow runs, hubs."""

from collections import Counter
from itertools import permutations

import numpy as np
import pytest

import anytimebp as abp
from anytimebp.inference.control import damping
from anytimebp.kernels.codes import GONE
from anytimebp.kernels.to_variable import _residual_linear, _residual_log
from oracle.models import grid, hub, random_loopy, worst
from oracle.settled import largest_move, twin_of

SIDE = 3


def beside_a_grid(add):
    """Return a graph of a small grid and, not connected to it, what `add` adds, and the marginals of the grid alone."""
    graph = grid(SIDE, 3, 1.0, 1.0, seed=0)
    alone = list(abp.infer(graph, "bp", tolerance=1e-12).marginals.values())
    add(graph)
    return graph, alone


def add_dying_loop(graph, loss):
    """Add a loop around which P(state 1) falls by a factor a sweep, for ever."""
    names = graph.add_variables(3, 2, names=["r0", "r1", "r2"])
    graph.add_factors([[names[k], names[(k + 1) % 3]] for k in range(3)], table=[[1.0, 1.0], [0.0, loss]])


@pytest.mark.parametrize("loss", [0.5, 1e-3])
@pytest.mark.parametrize("method", ["bp", "residual", "adaptive", "random", "fixed", "dynamic"])
def test_a_state_that_dies_out_for_ever_has_settled(method, loss, any_arithmetic):
    graph, alone = beside_a_grid(lambda g: add_dying_loop(g, loss))
    inference = abp.Inference(graph, method, rng=0)
    result = inference.run()
    assert result.arithmetic == any_arithmetic
    assert result.stop_reason is abp.StopReason.CONVERGED
    assert result.trace[-1].damping == 0.0
    assert worst(result, alone) < 1e-8
    assert result.marginals["r0"][1] < 1e-20
    assert largest_move(twin_of(graph, inference)) <= 1.1e-8


@pytest.mark.parametrize("method", ["bp", "residual", "adaptive"])
@pytest.mark.filterwarnings("ignore::anytimebp.errors.NotConvergedWarning")
@pytest.mark.compiled
def test_a_part_that_never_settles_keeps_no_other_waiting(method):
    def add_unruly_part(graph):
        other = random_loopy(4, scale=6.0, n_variables=5, n_factors=9)
        first = len(graph.variables)
        for variable in other.variables:
            graph.add_variable(f"u{variable.name}", variable.n_states)
        for f in range(other.n_factors):
            scope = [first + other.variables.index_of(name) for name in other.factor_scope(f)]
            graph.add_factor(scope, log_table=other.factor_log_table(f))

    graph, alone = beside_a_grid(add_unruly_part)
    result = abp.infer(graph, method)
    assert result.stop_reason is abp.StopReason.NOT_CONVERGED
    assert worst_of_grid(result, alone) < 1e-6


def worst_of_grid(result, alone):
    return max(np.abs(result.marginals[i] - m).max() for i, m in enumerate(alone))


def nearly_critical(field):
    """Return four spins, all coupled, that take the longer to make up their minds the weaker the field."""
    graph = abp.FactorGraph()
    graph.add_variables(4, 2)
    coupling = np.arctanh(0.5)
    graph.add_factors(
        [[a, b] for a in range(4) for b in range(a)], log_table=coupling * np.array([[1.0, -1.0], [-1.0, 1.0]])
    )
    graph.add_factors(np.arange(4)[:, np.newaxis], log_table=[field, -field])
    return graph


@pytest.mark.parametrize("seed", [22, 132])
def test_messages_that_go_to_and_fro_ever_less_are_damped_a_little(seed, monkeypatch):
    graph = random_loopy(seed, scale=1.5)
    inference = abp.Inference(graph, "bp")
    result = inference.run()
    assert result.stop_reason is abp.StopReason.CONVERGED
    assert result.trace[-1].damping == 0.2
    assert largest_move(twin_of(graph, inference)) <= 1.1e-8
    monkeypatch.setattr(damping, "SLOW", float("inf"))
    undamped = abp.infer(graph, "bp")
    assert undamped.trace[-1].damping == 0.0
    assert len(undamped.trace) > 2 * len(result.trace)
    assert worst(result, list(undamped.marginals.values())) < 1e-7


@pytest.mark.parametrize("method", ["bp", "residual", "adaptive"])
def test_a_slow_run_is_neither_damped_nor_given_up(method):
    graph = nearly_critical(1e-4)
    result = abp.infer(graph, method)
    assert result.stop_reason is abp.StopReason.CONVERGED
    assert result.trace[-1].damping == 0.0
    message = 0.0  # half the log odds of the message from a spin to another, the same for all
    for _ in range(5000):
        message = np.arctanh(0.5 * np.tanh(1e-4 + 2.0 * message))
    odds = 2.0 * (1e-4 + 3.0 * message)
    assert result.marginals[0][0] == pytest.approx(1.0 / (1.0 + np.exp(-odds)), abs=1e-6)


COLOURED = """
0 1 0 2 1 2 1 22 1 29 2 22 2 24 2 29 3 5 3 6 3 11 3 17 3 26 4 14 4 20 5 6 5 11 5 17 5 26 6 11 6 17 6
26 7 12 7 20 7 28 8 9 8 34 8 37 9 35 9 37 10 21 10 23 11 17 11 26 12 16 12 28 12 30 13 18 13 19 13
23 13 24 13 25 14 20 14 32 14 34 15 27 15 30 15 32 15 33 15 36 15 38 16 28 16 30 16 31 17 26 18 19
19 24 19 29 21 27 22 23 22 24 22 29 23 24 24 29 25 34 27 33 27 36 27 38 28 30 28 31 30 36 31 36 31
38 33 36 33 38 34 37 35 37 36 38
"""


@pytest.mark.compiled
def test_a_run_that_oscillates_is_damped_and_then_left_to_fall_slowly():
    graph = abp.FactorGraph()
    graph.add_variables(40, 3)
    pairs = np.array(COLOURED.split(), dtype=int).reshape(-1, 2)
    graph.add_factors(pairs, table=np.where(np.eye(3) > 0, 1e-4, 1.0))
    result = abp.infer(graph, "adaptive", evidence={29: 0, 19: 1, 38: 2, 17: 1})
    assert result.stop_reason is abp.StopReason.CONVERGED
    mostly, n_sweeps = Counter(moment.damping for moment in result.trace).most_common(1)[0]
    assert mostly == 0.5
    assert n_sweeps > 20 * damping.WINDOW


def star(seed, leaves=18, states=3):
    rng = np.random.default_rng(seed)
    graph = abp.FactorGraph()
    graph.add_variables(leaves + 1, states)
    graph.add_factors(np.arange(leaves + 1)[:, np.newaxis], log_table=rng.normal(0, 1, (leaves + 1, states)))
    graph.add_factors([[0, i + 1] for i in range(leaves)], log_table=rng.normal(0, 1, (leaves, states, states)))
    return graph


@pytest.mark.parametrize("method", ["fixed", "dynamic"])
@pytest.mark.parametrize("seed", [0, 2, 8])
def test_what_hub_and_factor_have_pending_together_is_under_the_tolerance(method, seed):
    graph = star(seed)
    inference = abp.Inference(graph, method, damping=0.9, tolerance=1e-3, grow=100)
    assert inference.run().stop_reason is abp.StopReason.CONVERGED
    assert largest_move(twin_of(graph, inference)) <= 1e-3


@pytest.mark.parametrize("method", ["residual", "truncated"])
def test_residual_bp_on_a_loopy_hub_ends_under_the_tolerance(method):
    for seed in range(3):
        graph = hub(seed, states=3, scale=0.5, unary=1.0)
        inference = abp.Inference(graph, method, damping=0.9, tolerance=1e-3)
        assert inference.run().stop_reason is abp.StopReason.CONVERGED
        assert largest_move(twin_of(graph, inference)) <= 1e-3


WEIGHT = np.array([1.0, 1.0, GONE / 100, 0.0])


@pytest.mark.parametrize(
    ("new", "old", "expected"),
    [
        ([1.0, 0.5, 1.0, 1.0], [1.0, 0.25, 1.0, 1.0], 2.0),
        ([1.0, 0.5, 0.1, 1.0], [1.0, 0.5, 1.0, 1.0], 1.0),  # gone, and falls
        ([1.0, 0.5, 1.0, 1.0], [1.0, 0.5, 0.1, 1.0], 10.0),  # gone, but rises
        ([1.0, 0.5, 1e-40, 1.0], [1.0, 0.5, 1e-42, 1.0], 100.0),  # far gone, but rises
        ([1.0, 1e-40, 1.0, 1.0], [1.0, 1e-10, 1.0, 1.0], 1e30),  # gone now, but not before
        ([1.0, 0.5, 1e-88, 1.0], [1.0, 0.5, 1.0, 1.0], 1.0),  # gone, and falls as fast as you like
        ([1.0, 0.5, 1.0, 0.1], [1.0, 0.5, 1.0, 1.0], 10.0),  # ruled out by others
        ([1.0, 0.0, 1.0, 1.0], [1.0, 0.0, 1.0, 1.0], 1.0),
    ],
)
def test_states_that_are_gone_count_only_if_they_rise(new, old, expected):
    new, old = np.array(new), np.array(old)
    assert np.exp(_residual_linear(WEIGHT, new, old)) == pytest.approx(expected)
    with np.errstate(divide="ignore"):
        log_new, log_old, log_weight = np.log(new), np.log(old), np.log(WEIGHT)
    assert np.exp(_residual_log(log_weight, log_new, log_old)) == pytest.approx(expected)


@pytest.mark.parametrize("faint", [1e-35, 1e-60])
@pytest.mark.parametrize("rise", [1.0 + 1e-6, 1.02, 10.0])
@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_a_state_that_is_gone_and_rises_counts_however_slowly(faint, rise, scale):
    weight, old = np.array([1.0, 1.0]), np.array([1.0, faint / rise])
    new = scale * np.array([1.0, faint])
    assert _residual_linear(weight, new, old) == pytest.approx(np.log(rise))
    in_logs = _residual_log(np.log(weight), np.log(new / scale), np.log(old))
    assert in_logs == pytest.approx(np.log(rise))


@pytest.mark.compiled
@pytest.mark.parametrize("method", ["bp", "residual", "adaptive"])
@pytest.mark.parametrize("order", list(permutations(range(4)))[::5])
def test_a_state_that_returns_from_far_below_is_waited_for(order, method):
    """Copies of one variable in a ring: what is told against a state is told first, and a little more for it later."""
    graph = abp.FactorGraph()
    graph.add_variables(4, 2)
    scores = np.array([-80.0, 80.01, 0.005, 0.005])[list(order)]
    graph.add_factors(np.arange(4)[:, np.newaxis], log_table=np.stack([np.zeros(4), scores], axis=1))
    graph.add_factors([[0, 1], [1, 2], [2, 3], [3, 0]], table=np.eye(2))
    result = abp.infer(graph, method)
    assert result.stop_reason is abp.StopReason.CONVERGED
    np.testing.assert_allclose(result.marginals.concatenated().reshape(4, 2), [[0.0, 1.0]] * 4, atol=1e-6)


def parity_checks(seed, n_bits=12, per_bit=3, per_check=4):
    """Return the bits of the checks of a regular random code: every bit in three checks, four bits in each."""
    rng = np.random.default_rng(seed)
    while True:
        sockets = rng.permutation(np.repeat(np.arange(n_bits), per_bit)).reshape(-1, per_check)
        if all(len(set(row)) == per_check for row in sockets.tolist()):
            return np.sort(sockets, axis=1)


@pytest.mark.parametrize("method", ["bp", "residual", "adaptive"])
@pytest.mark.parametrize("seed", range(3))
def test_a_decoder_whose_messages_grow_for_ever_settles_on_its_codeword(seed, method):
    even = np.where(np.indices((2,) * 4).sum(axis=0) % 2 == 0, 0.0, -np.inf)
    graph = abp.FactorGraph()
    graph.add_variables(12, 2)
    graph.add_factors(parity_checks(seed), log_table=even)
    received = np.tile([0.0, -3.0], (12, 1))
    received[seed] = [-1.0, 0.0]  # one bit came through wrong
    graph.add_factors(np.arange(12)[:, None], log_table=received)
    result = abp.infer(graph, method)
    assert result.stop_reason is abp.StopReason.CONVERGED
    assert all(marginal[0] > 1.0 - 1e-12 for marginal in result.marginals.values())


@pytest.mark.compiled
@pytest.mark.parametrize("seed", [2, 20])
def test_a_run_that_circles_at_the_tolerance_is_damped(seed):
    rng = np.random.default_rng(seed)
    graph = abp.FactorGraph()
    graph.add_variables(12, 3)
    for _ in range(16):
        scope = rng.choice(12, 3, replace=False).tolist()
        table = np.exp(rng.normal(0, 1.5, (3, 3, 3))) * (rng.random((3, 3, 3)) > 0.3)
        graph.add_factor(scope, table=table)
    result = abp.infer(graph, "adaptive")
    assert result.stop_reason is abp.StopReason.CONVERGED
    assert len(result.trace) < 2000


def decoder_of_symbols(seed, order=16, n_symbols=24, noise=0.9):
    """Return checks over a field, of which every symbol is in two, and what was received of a word of zeros."""
    rng = np.random.default_rng(seed)
    graph = abp.FactorGraph()
    graph.add_variables(n_symbols, order)
    for symbols in parity_checks(seed, n_symbols, per_bit=2).tolist():
        coefficients = rng.integers(1, order, 4).tolist()
        graph.add_factor(symbols, structure=abp.FieldCheck(order, coefficients))
    bits = np.arange(order)[:, np.newaxis] >> np.arange(order.bit_length() - 1) & 1
    signal = 1.0 + rng.normal(0.0, noise, (n_symbols, bits.shape[1]))
    return graph, dict(enumerate(-2.0 * signal @ bits.T / noise**2))


@pytest.mark.compiled
@pytest.mark.filterwarnings("ignore::anytimebp.errors.NotConvergedWarning")
@pytest.mark.parametrize("seed", range(12))
def test_a_looser_tolerance_takes_a_decoder_no_more_updates(seed):
    graph, evidence = decoder_of_symbols(seed)
    updates = [
        abp.infer(graph, "bp", evidence=evidence, tolerance=tolerance, max_updates=2400).updates
        for tolerance in (1e-2, 1e-3, 1e-5, 1e-8)
    ]
    assert updates == sorted(updates)
