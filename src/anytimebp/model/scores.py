"""What a log score is, and the checks of it that several kinds of factors share."""

from __future__ import annotations

import numpy as np

from anytimebp.errors import ModelError
from anytimebp.model.source import BoolArray, FloatArray, IndexArray

NUMBERS = "fiub"  # kinds of dtype that are real numbers
MAX_SCORE = 1e12  # nats; beyond, sums of scores no longer resolve the digits that marginals need
LOG_RULE = f"log scores are between -{MAX_SCORE:g} and {MAX_SCORE:g}, or -inf for what is impossible"


def out_of_range(log_scores: FloatArray) -> BoolArray:
    """Tell which numbers are no log scores: NaN, +inf, or too large either way."""
    fine: BoolArray = (np.abs(log_scores) <= MAX_SCORE) | (log_scores == -np.inf)
    return ~fine


def log_sum_exp(log_scores: FloatArray, axes: tuple[int, ...] | None = None) -> FloatArray:
    """Return the logs of sums of exponentials over some axes, or all of them; -inf where all terms are -inf."""
    peak = log_scores.max(axis=axes, keepdims=True, initial=-np.inf)
    peak = np.where(peak > -np.inf, peak, 0.0)
    with np.errstate(divide="ignore"):
        summed: FloatArray = np.log(np.exp(log_scores - peak).sum(axis=axes)) + peak.squeeze(axis=axes)
    return summed


def read_numbers(given: object) -> FloatArray:
    """Return real numbers as a new array; raise ValueError or TypeError for anything else."""
    if isinstance(given, np.ma.MaskedArray):
        msg = "a masked array"
        raise TypeError(msg)
    values = np.asarray(given)
    if values.size and values.dtype.kind not in NUMBERS:
        msg = f"{values.dtype} is not a real number"
        raise TypeError(msg)
    return np.array(values, dtype=np.float64)


def read_log_scores(given: object, what: str) -> FloatArray:
    """Return log scores as an array; raise what names the culprit."""
    try:
        values = read_numbers(given)
    except (TypeError, ValueError):
        msg = f"{what} must be log scores, got {given!r:.80}"
        raise ModelError(msg) from None
    bad = out_of_range(values)
    if bad.any():
        msg = f"{what} holds {values[bad].reshape(-1)[0]}; {LOG_RULE}"
        raise ModelError(msg)
    return values


def read_log_score(given: object, what: str) -> float:
    """Return one log score; raise what names the culprit."""
    values = read_log_scores(given, what)
    if values.shape != ():
        msg = f"{what} must be one log score, got {given!r:.80}"
        raise ModelError(msg)
    return float(values)


def log_sum_exp_rows(values: FloatArray, start: IndexArray) -> FloatArray:
    """Return the log of the summed exponentials of each row, row i from start[i] to start[i + 1]; no row is empty."""
    if len(start) == 1:
        return np.empty(0)
    peak = np.maximum.reduceat(values, start[:-1])
    finite = np.where(peak > -np.inf, peak, 0.0)
    with np.errstate(divide="ignore"):
        total = np.log(np.add.reduceat(np.exp(values - np.repeat(finite, np.diff(start))), start[:-1]))
    sums: FloatArray = finite + total
    return sums
