"""Messages of counts of many variables, against sums of 40 digits; `test_convolutions.py` has few variables."""

from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import anytimebp as abp
from anytimebp.kernels.codes import LINEAR, LOG
from anytimebp.kernels.jit import kernel
from anytimebp.kernels.structures import ALL, SUMS, load, row_of, send
from oracle.examples import examples

INF = np.inf


@kernel()
def _send(row, arithmetic):
    send(row, 0, arithmetic, ALL)


def messages(log_scores, log_weights, arithmetic):
    """Return (n, 2) the messages to variables of two states, numbers or logs of them, of log weights (n, 2)."""
    n = len(log_weights)
    source = abp.Cardinality(log_scores).source((2,) * n, "factor 0")
    packed = source.packed([np.arange(2)] * n)
    load(packed.sums)
    words = packed.words(float(packed.range.log_max[0]), in_logs=arithmetic == LOG)
    incoming = np.array(log_weights).reshape(-1)
    incoming = incoming if arithmetic == LOG else np.exp(incoming)
    outgoing, sizes = np.full_like(incoming, np.nan), np.full(n, 2)
    start, kind, address = np.array([0, n]), np.array([SUMS[packed.sums]]), np.array([words.ctypes.data])
    variables, peak = np.arange(n), np.empty(6 + 4 * n)
    row = row_of([start, variables, sizes, kind, address, incoming, outgoing, peak], source.room)
    row[-source.room :] = -1  # what an earlier update may have left there: NaN, if it is read as a number
    _send(row, arithmetic)
    return outgoing.reshape(n, 2)


def slow_messages(log_scores, log_weights, variables):
    """Return the logs of the messages to some variables, of which the others' counts are added up one by one."""
    with localcontext() as context:
        context.prec = 40
        context.Emin, context.Emax = -(10**9), 10**9

        def number(log):
            return Decimal(float(log)).exp() if log > -INF else Decimal(0)

        weight, score = [[number(log) for log in own] for own in log_weights], [number(log) for log in log_scores]
        found = []
        for variable in variables:
            counts = [Decimal(1)]
            for k, (off, on) in enumerate(weight):
                if k != variable:
                    counts = [
                        off * a + on * b for a, b in zip([*counts, Decimal(0)], [Decimal(0), *counts], strict=True)
                    ]
            sums = [sum(a * b for a, b in zip(counts, score[first:], strict=False)) for first in (0, 1)]
            found.append([float(one.ln()) if one else -INF for one in sums])
        return np.array(found)


def assert_digits(log_scores, log_weights, variables, rtol=1e-10):
    expected = slow_messages(log_scores, log_weights, variables)
    scale = np.max(log_scores)
    lowest = np.where(log_weights > -INF, log_weights, 0.0).min(axis=1).sum()
    for arithmetic in (LINEAR, LOG):
        if arithmetic == LINEAR and lowest < -660.0:  # an update would be refused
            continue
        found = messages(log_scores, log_weights, arithmetic)
        assert not np.isnan(found).any()
        with np.errstate(divide="ignore"):
            log = np.log(found) if arithmetic == LINEAR else found
        log = log[variables]
        assert ((log == -INF) == (expected == -INF)).all()
        possible = expected > -INF
        np.testing.assert_allclose(log[possible] + scale, expected[possible], rtol=1e-12, atol=rtol)


SCORES = {
    "soft": lambda rng, n: rng.normal(0.0, 3.0, n + 1),
    "one count": lambda rng, n: np.where(np.arange(n + 1) == rng.integers(n + 1), 0.0, -INF),
    "few": lambda rng, n: np.where(np.arange(n + 1) <= 2, 0.0, -INF),
    "many": lambda rng, n: np.where(np.arange(n + 1) >= n - 1, 0.0, -INF),
    "odd": lambda rng, n: np.where(np.arange(n + 1) % 2 == 1, 0.0, -INF),
    "steep": lambda rng, n: -0.1 * (np.arange(n + 1) - 0.3 * n) ** 2,
}


@st.composite
def counts(draw):
    """Scores of counts, and log weights of up to 150 variables, some of them certain."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n = draw(st.sampled_from([2, 31, 32, 33, 64, 65, 97, 150]))
    log_scores = SCORES[draw(st.sampled_from(sorted(SCORES)))](rng, n)
    nats = draw(st.sampled_from([0.0, 1.0, 8.0, 100.0]))
    log_weights = -nats * rng.random((n, 2)) ** draw(st.sampled_from([0.2, 1.0, 5.0]))
    log_weights -= log_weights.max(axis=1, keepdims=True)
    certain = rng.random(n) < draw(st.sampled_from([0.0, 0.0, 0.3]))
    log_weights[certain, rng.integers(2, size=int(certain.sum()))] = -INF
    log_weights[log_weights.max(axis=1) == -INF] = 0.0
    return log_scores, log_weights, [0, n // 2, n - 1]


@given(counts())
@settings(max_examples=examples(60))
def test_messages_of_many_variables_have_all_their_digits(drawn):
    assert_digits(*drawn)


@pytest.mark.compiled
@pytest.mark.parametrize("kind", sorted(SCORES))
@pytest.mark.parametrize("nats", [0.0, 2.0, 40.0])
def test_messages_of_600_variables_have_all_their_digits(kind, nats):
    rng = np.random.default_rng(5)
    log_weights = -nats * rng.random((600, 2))
    log_weights -= log_weights.max(axis=1, keepdims=True)
    assert_digits(SCORES[kind](rng, 600), log_weights, [0, 299])
