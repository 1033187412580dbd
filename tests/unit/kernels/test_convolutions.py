"""What transforms and their replacements sum to, against sums of many digits, whatever the range of the weights."""

from decimal import Decimal, localcontext
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import anytimebp as abp
from anytimebp.kernels.codes import LINEAR, LOG, SAFE
from anytimebp.kernels.jit import kernel
from anytimebp.kernels.structures import ALL, SUMS, load, row_of, send
from anytimebp.model import source
from anytimebp.model.kinds import bitwise, difference, group_source
from anytimebp.model.kinds.cardinality import CardinalitySource
from anytimebp.model.kinds.low_rank import LowRankSource
from oracle.examples import examples

INF = np.inf


@pytest.fixture(autouse=True)
def always_transforms(monkeypatch):
    """Use structures, and transforms, however few the states are."""
    monkeypatch.setattr(group_source, "STEPS_PER_ENTRY", 1e9)
    monkeypatch.setattr(bitwise, "STEPS_PER_ENTRY", 1e9)
    monkeypatch.setattr(difference, "_transform_steps", lambda n, m: 0)
    monkeypatch.setattr(source, "LIST_GAIN", 0.0)
    monkeypatch.setattr(CardinalitySource, "gain", lambda *_: 0.0)
    monkeypatch.setattr(LowRankSource, "gain", lambda *_: 0.0)


@kernel()
def _send(row, arithmetic, wanted):
    send(row, 0, arithmetic, wanted)


def messages(structure, log_weights, arithmetic, states=None):
    """Return the messages of one factor, unscaled, from log weights: numbers, or logs of them."""
    shape = tuple(len(own) for own in log_weights)
    made = structure.source(shape, "factor 0")
    states = states or [np.arange(n) for n in shape]
    packed = made.packed(states)
    load(packed.sums)
    words = packed.words(float(packed.range.log_max[0]), in_logs=arithmetic == LOG)
    incoming = np.concatenate([own[given] for own, given in zip(log_weights, states, strict=True)])
    incoming = incoming if arithmetic == LOG else np.exp(incoming)
    outgoing, sizes = np.empty_like(incoming), np.array([len(given) for given in states])
    start, variables = np.array([0, len(shape)]), np.arange(len(shape))
    kind, address = np.array([SUMS[packed.sums]]), np.array([words.ctypes.data])
    peak = np.empty(2 * sizes.max() + 2 + 4 * len(shape))
    row = row_of([start, variables, sizes, kind, address, incoming, outgoing, peak], made.room)
    _send(row, arithmetic, ALL)
    found = np.split(outgoing.copy(), np.cumsum(sizes)[:-1])
    slack = {"rtol": 0.0, "atol": 1e-10} if arithmetic == LOG else {"rtol": 1e-10, "atol": 0.0}
    for axis, own in enumerate(found):  # a message is the same if it alone is wanted
        outgoing[:] = np.nan
        _send(row, arithmetic, axis)
        np.testing.assert_allclose(np.split(outgoing, np.cumsum(sizes)[:-1])[axis], own, **slack)
    return found, packed


def slow_messages(structure, log_weights, states=None):
    """Return the logs of the messages of one factor, by sums of 40 digits over all joint states."""
    shape = tuple(len(own) for own in log_weights)
    states = states or [np.arange(n) for n in shape]
    scores = structure.source(shape, "factor 0").log_values(0, states)
    with localcontext() as context:
        context.prec = 40
        context.Emin, context.Emax = -(10**9), 10**9
        weight = [
            [Decimal(float(own[s])).exp() if own[s] > -INF else Decimal(0) for s in given]
            for own, given in zip(log_weights, states, strict=True)
        ]
        sums = [[Decimal(0)] * len(own) for own in weight]
        for position in product(*[range(len(own)) for own in weight]):
            if scores[position] > -INF:
                for k in range(len(position)):
                    term = Decimal(float(scores[position])).exp()
                    for j, at in enumerate(position):
                        if j != k:
                            term *= weight[j][at]
                    sums[k][position[k]] += term
        return [np.array([float(one.ln()) if one else -INF for one in own]) for own in sums]


def assert_run(structure, log_weights, states, expected, *, in_logs):
    """Check a run on one factor, which is too wide for linear numbers: it turns to logs, and has all digits."""
    graph, evidence = abp.FactorGraph(), {}
    for k, own in enumerate(log_weights):
        graph.add_variable(f"x{k}", len(own))
        graph.add_factor([k], log_table=own)
        evidence |= {k: set(states[k].tolist())} if len(states[k]) < len(own) else {}
    graph.add_factor(range(len(log_weights)), structure=structure)
    result = abp.infer(graph, "bp", evidence=evidence)
    assert result.arithmetic == "log" or not in_logs  # a factor without zeros loses nothing in linear numbers
    for k, (own, message) in enumerate(zip(log_weights, expected, strict=True)):
        belief = own[states[k]] + message
        belief -= belief.max()
        wanted, found = np.exp(belief) / np.exp(belief).sum(), result.marginals[f"x{k}"][states[k]]
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-290)


def assert_digits(structure, log_weights, states=None, rtol=1e-10):
    """Check all messages in both arithmetics, as far as linear numbers reach; hard zeros are exact."""
    expected = slow_messages(structure, log_weights, states)
    given = states or [np.arange(len(own)) for own in log_weights]
    scores = structure.source(tuple(len(own) for own in log_weights), "").log_values(0, given)
    lowest = sum(np.min(own[own > -INF], initial=0.0) for own in log_weights)
    for arithmetic in (LINEAR, LOG):
        least = lowest + np.min(scores[scores > -INF], initial=0.0)
        if arithmetic == LINEAR and least < -660.0:
            smallest = min(np.min(message[message > -INF], initial=0.0) for message in expected)
            has_messages = all(len(own) > 1 for own in log_weights)  # a variable of one state has nothing to lose
            in_logs = has_messages and (scores == -INF).any() and smallest < np.log(SAFE) - 100.0  # well below
            assert_run(structure, log_weights, given, expected, in_logs=in_logs)
            continue
        found, packed = messages(structure, log_weights, arithmetic, states)
        scale = float(packed.range.log_max[0])
        for own, wanted in zip(found, expected, strict=True):
            assert not np.isnan(own).any()
            with np.errstate(divide="ignore", invalid="raise"):
                log = np.log(own) if arithmetic == LINEAR else own
            assert ((log == -INF) == (wanted == -INF)).all()
            possible = wanted > -INF
            np.testing.assert_allclose(log[possible] + scale, wanted[possible], rtol=1e-12, atol=rtol)


STRUCTURES = {
    "xor": lambda rng, arity: (8, abp.Xor()),
    "and": lambda rng, arity: (8, abp.And()),
    "or": lambda rng, arity: (8, abp.Or()),
    "sum": lambda rng, arity: (8, abp.ModularSum(rng.choice([1, -1], arity), int(rng.integers(8)))),
    "sum of seven": lambda rng, arity: (7, abp.ModularSum(rng.choice([1, -1], arity), int(rng.integers(7)))),
    "field of eight": lambda rng, arity: (8, abp.FieldCheck(8, rng.integers(1, 8, arity))),
    "field of seven": lambda rng, arity: (7, abp.FieldCheck(7, rng.integers(1, 7, arity))),
    "count": lambda rng, arity: (2, abp.Cardinality(rng.normal(0.0, 3.0, arity + 1), 0)),
    "count, hard": lambda rng, arity: (3, abp.Cardinality([0.0, *np.where(rng.random(arity) < 0.5, -INF, 1.0)])),
    "noisy or": lambda rng, arity: (2, abp.NoisyOr(rng.random(arity - 1) ** 9, leak=rng.random() ** 20)),
    "low rank": lambda rng, arity: (5, abp.LowRank([rng.gamma(0.2, size=(5, 3)) for _ in range(arity)])),
}


@st.composite
def weights(draw):
    """A structure, and log weights of its variables over a range of up to 700 nats, some of them hard zeros."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    arity = draw(st.sampled_from([2, 3, 3, 3, 4]))
    n, structure = STRUCTURES[draw(st.sampled_from(sorted(STRUCTURES)))](rng, arity)
    made = []
    for _ in range(arity):
        nats = draw(st.sampled_from([0.0, 1.0, 8.0, 30.0, 100.0, 350.0, 700.0]))
        own = -nats * rng.random(n) ** draw(st.sampled_from([0.2, 1.0, 5.0]))
        own[rng.random(n) < draw(st.sampled_from([0.0, 0.0, 0.5]))] = -INF
        own[rng.integers(n)] = 0.0
        made.append(own)
    return structure, made


@given(weights())
@settings(max_examples=examples(150))
def test_messages_have_all_their_digits_over_any_range(drawn):
    assert_digits(*drawn)


@pytest.mark.compiled
@pytest.mark.parametrize("nats", [1.0, 10.0, 25.0, 40.0, 100.0, 300.0, 700.0])
@pytest.mark.parametrize("kind", ["xor", "and", "or", "sum"])
def test_messages_of_64_states_have_all_their_digits(kind, nats):
    rng = np.random.default_rng(7)
    structure = {"xor": abp.Xor(), "and": abp.And(), "or": abp.Or(), "sum": abp.ModularSum([1, 1, -1], 5)}[kind]
    made = -nats * rng.random((3, 64))
    made -= made.max(axis=1, keepdims=True)
    made[0, rng.random(64) < 0.3] = -INF
    assert_digits(structure, list(made))


def direct_messages(weight, *, is_xor):
    """Return the three messages of x_0 + x_1 = x_2, by sums of positive terms, none of which is left out."""
    n = weight.shape[1]
    x, y = np.ix_(np.arange(n), np.arange(n))
    less, more = (x ^ y, x ^ y) if is_xor else ((x - y) % n, (x + y) % n)
    to_last = (weight[0][y] * weight[1][less]).sum(axis=1)
    return [(weight[1 - k][y] * weight[2][more]).sum(axis=1) for k in (0, 1)] + [to_last]


@pytest.mark.compiled
@pytest.mark.parametrize("is_xor", [True, False])
@pytest.mark.parametrize("arithmetic", [LINEAR, LOG])
@pytest.mark.parametrize(("below", "peaks"), [(12.0, 5), (25.0, 50), (60.0, 64), (90.0, 200), (25.0, 1), (0.0, 0)])
def test_peaks_leave_digits_to_all_other_sums(is_xor, arithmetic, below, peaks):
    rng, n = np.random.default_rng(11), 1024
    log_weight = rng.normal(-below, 1.0, (3, n))
    for own in log_weight:
        own[rng.choice(n, peaks, replace=False)] = rng.normal(0.0, 1.0, peaks)
        own[rng.random(n) < 0.1] = -INF
    log_weight -= log_weight.max(axis=1, keepdims=True)
    structure = abp.Xor() if is_xor else abp.ModularSum([1, 1, -1])
    found, _ = messages(structure, list(log_weight), arithmetic)
    for own, wanted in zip(found, direct_messages(np.exp(log_weight), is_xor=is_xor), strict=True):
        np.testing.assert_allclose(np.exp(own) if arithmetic == LOG else own, wanted, rtol=1e-10, atol=0.0)


def direct_logs(log_weight, *, is_xor):
    """Return the logs of the three messages of x_0 + x_1 = x_2, by sums of logs over all pairs."""
    n = log_weight.shape[1]
    x, y = np.ix_(np.arange(n), np.arange(n))
    less, more = (x ^ y, x ^ y) if is_xor else ((x - y) % n, (x + y) % n)
    to_last = np.logaddexp.reduce(log_weight[0][y] + log_weight[1][less], axis=1)
    return [np.logaddexp.reduce(log_weight[1 - k][y] + log_weight[2][more], axis=1) for k in (0, 1)] + [to_last]


@pytest.mark.compiled
@pytest.mark.parametrize("is_xor", [True, False])
@pytest.mark.parametrize("arithmetic", [LINEAR, LOG])
@pytest.mark.parametrize("nats", [(30.0, 60.0, 30.0), (380.0, 600.0, 10.0), (230.0, 320.0, 235.0), (300.0, 1.0, 330.0)])
def test_what_peaks_leave_may_be_too_small_for_squares(is_xor, arithmetic, nats):
    """Peaks fill a subgroup of 64, so that what is left of the two weights meets in cosets of its own, or nowhere."""
    rng, n = np.random.default_rng(13), 1024
    log_weight, coset = np.full((3, n), -INF), np.arange(n) % 16
    log_weight[2] = rng.normal(0.0, 1.0, n)
    for own, at, below in ((0, 0, 0.0), (0, 1, nats[0]), (0, 2, nats[1]), (1, 0, 0.0), (1, 4, nats[2])):
        log_weight[own, coset == at] = rng.normal(-below, 1.0, 64)
    log_weight -= log_weight.max(axis=1, keepdims=True)
    structure = abp.Xor() if is_xor else abp.ModularSum([1, 1, -1])
    found, _ = messages(structure, list(log_weight), arithmetic)
    with np.errstate(divide="ignore", invalid="ignore"):
        for own, wanted in zip(found, direct_logs(log_weight, is_xor=is_xor), strict=True):
            log = own if arithmetic == LOG else np.log(own)
            np.testing.assert_array_equal(log == -INF, wanted == -INF)
            np.testing.assert_allclose(log[wanted > -INF], wanted[wanted > -INF], rtol=1e-12, atol=1e-9)


def test_turns_are_rounded_once():
    for length in (8, 64, 4096):
        both, first = np.split(group_source.turns(length).view(np.float64), [2 * length])
        cos, sin = both.reshape(2, length)
        angle = 2 * np.arange(length, dtype=np.longdouble) / length * np.longdouble("3.14159265358979323846264338")
        assert max(np.abs(cos - np.cos(angle)).max(), np.abs(sin + np.sin(angle)).max()) < 1.3e-16
        again = [own[times * np.arange(length // 8)] for own in (cos, sin) for times in (2, 4, 6)]
        np.testing.assert_array_equal(first, np.concatenate(again))


@given(
    seed=st.integers(0, 2**32),
    sizes=st.sampled_from([(8, 8), (5, 12), (13, 4), (1, 7), (16, 17)]),
    reach=st.sampled_from([(-3, 4), (-20, 20), (2, 9), (-12, -2), (0, 0)]),
    nats=st.sampled_from([0.0, 1.0, 30.0, 300.0, 700.0]),
    default=st.sampled_from([-INF, -INF, -1.0, -40.0, -650.0]),
)
@settings(max_examples=examples(100))
def test_messages_of_differences_have_all_their_digits(seed, sizes, reach, nats, default):
    rng = np.random.default_rng(seed)
    scores = -nats * rng.random(reach[1] - reach[0] + 1) ** 2
    scores[rng.random(len(scores)) < 0.2] = -INF
    scores[rng.integers(len(scores))] = 0.0
    made = [-nats * rng.random(n) for n in sizes]
    try:
        structure = abp.Difference(scores, first=reach[0], default=default)
        structure.source(sizes, "")
    except abp.InconsistentModelError:
        return
    assert_digits(structure, [own - own.max() for own in made])


@pytest.mark.compiled
@pytest.mark.parametrize("nats", [1.0, 25.0, 100.0, 700.0])
@pytest.mark.parametrize("default", [-INF, -10.0])
def test_messages_of_differences_of_100_states_have_all_their_digits(nats, default):
    rng = np.random.default_rng(7)
    made = [-nats * rng.random(n) for n in (100, 90)]
    structure = abp.Difference(-nats * rng.random(189), first=-89, default=default)
    assert_digits(structure, [own - own.max() for own in made])


@pytest.mark.parametrize("kind", sorted(STRUCTURES))
def test_messages_over_some_of_the_states(kind):
    rng = np.random.default_rng(3)
    for _ in range(5):
        n, structure = STRUCTURES[kind](rng, 3)
        made = [-20.0 * rng.random(n) for _ in range(3)]
        states = [np.sort(rng.choice(n, rng.integers(1, n + 1), replace=False)) for _ in range(3)]
        try:
            assert_digits(structure, made, states)
        except ValueError:  # no joint state is possible, which whoever packs it sees
            assert structure.source((n,) * 3, "").packed(states).range.log_max[0] == -INF


@pytest.mark.parametrize("structure", [abp.Xor(), abp.And(), abp.Or(), abp.ModularSum([1, 1, -1])])
def test_few_of_many_states_cost_their_pairs(monkeypatch, structure):
    monkeypatch.undo()
    rng, n = np.random.default_rng(5), 65_536
    states = [np.sort(rng.choice(n, 50, replace=False)) for _ in range(3)]
    states[2][0] = 0  # of few random states, no three need be possible
    states[0][0] = states[1][0] = 0
    source = structure.source((n,) * 3, "factor 0")
    packed, sizes = source.packed(states), np.array([[50.0] * 3])
    assert packed.sums == "list"
    assert packed.work <= 2_500 + 150
    assert source.update_entries(sizes)[0] <= 2_650.0
    assert source.is_structured(sizes).all()
    assert source.packed([np.arange(n)] * 3).sums != "list"


def test_the_memory_of_a_run_includes_room_for_transforms():
    graph = abp.FactorGraph()
    graph.add_variables(3, 65_536)
    graph.add_factor([0, 1, 2], structure=abp.Xor())
    room = graph.blocks[0].source.room
    assert 8 * room < graph.summary().full_bp_bytes < 32 * room
