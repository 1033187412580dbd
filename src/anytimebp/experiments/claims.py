"""The paper's observations, each as a question to our curves, with the figures that answer it.

All are about grids: errors and residuals against time, and against work, which tells what would be seen if bookkeeping
were free. The mean over runs is geometric throughout.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from anytimebp.experiments.curves import Mean, geometric_mean, mean_curve
from anytimebp.experiments.runs import Runs
from anytimebp.experiments.sampling import Curve, Point
from anytimebp.model.source import FloatArray

AXES = {"seconds": "time", "work": "work"}
GROWING = ("fixed", "dynamic")
VISIBLE = 1e-3  # an L2 error that shows on a picture with a linear axis
EARLY = 0.25  # part of what BP needs to the error in question
LEVELS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
LOW = 1e-3  # nats: a mean residual that counts as low
MOSTLY = 0.9  # part of the moments
HALF = 0.5  # of a run: what comes after is near the end


class Verdict(NamedTuple):
    """Whether an observation holds on a family, and on what grounds."""

    family: str
    axis: str
    holds: bool
    grounds: str


class Claim(NamedTuple):
    """An observation of the paper.

    Attributes:
        text: What the paper saw.
        judge: Gives a verdict per family, and per axis where that matters.
        otherwise: What explains it where we do not see it.
    """

    text: str
    judge: Callable[[Runs, str], Iterator[Verdict]]
    otherwise: str


def judge_all(runs: Runs, claims: Sequence[Claim]) -> list[tuple[Claim, list[Verdict]]]:
    """Return observations with their verdicts on every family that has been measured."""
    families = runs.families()
    return [(claim, [verdict for family in families for verdict in claim.judge(runs, family)]) for claim in claims]


def _truncated_plateaus(runs: Runs, family: str) -> Iterator[Verdict]:
    ends = [curve.points[-1].l2 for curve in _curves(runs, family, "truncbp")]
    bp = [curve.points[-1].l2 for curve in _curves(runs, family, "bp")]
    last, error = geometric_mean(ends), runs.plan.error
    never = min(ends) > error
    text = f"ends with L2 {last:.1e} ({min(ends):.0e} to {max(ends):.0e}), BP with {geometric_mean(bp):.0e}"
    if never and last < VISIBLE:
        text += "; it never gets further, but on a linear axis nobody would see it"
    yield Verdict(family, "", never and last >= VISIBLE, text)


def _random_starts_well(runs: Runs, family: str) -> Iterator[Verdict]:
    for axis, shown in AXES.items():
        bp, random = (_mean(runs, family, name, axis) for name in ("bp-random", "random"))
        at = EARLY * _needs(runs, family, "bp-random", axis, runs.plan.error)
        text = f"at {EARLY:.0%} of what BP needs to {runs.plan.error:g}: {_error(random, at)}, BP {_error(bp, at)}"
        yield Verdict(family, shown, random.value(at) < bp.value(at), text)


def _random_falls_behind(runs: Runs, family: str) -> Iterator[Verdict]:
    for axis, shown in AXES.items():
        needs = {name: _needs(runs, family, name, axis, runs.plan.error) for name in ("random", *GROWING)}
        behind = [needs["random"] / needs[name] for name in GROWING]
        text = f"to {runs.plan.error:g} it takes {behind[0]:.1f} times what Fixed takes, {behind[1]:.1f} times Dynamic"
        yield Verdict(family, shown, min(behind) > 1.0, text)


def _fixed_ahead_early(runs: Runs, family: str) -> Iterator[Verdict]:
    for axis, shown in AXES.items():
        ratios = _fixed_over_dynamic(runs, family, axis)
        level, ratio = next(iter(ratios.items()))
        text = f"to L2 {level:g} it takes {ratio:.2f} of what Dynamic takes"
        yield Verdict(family, shown, ratio < 1.0, text)


def _dynamic_overtakes(runs: Runs, family: str) -> Iterator[Verdict]:
    for axis, shown in AXES.items():
        ratios = _fixed_over_dynamic(runs, family, axis)
        level, ratio = list(ratios.items())[-1]
        ahead = [at for at, value in ratios.items() if value > 1.0]
        text = f"to {level:g} Fixed takes {ratio:.2f} of what Dynamic takes"
        text += f"; Dynamic is ahead from {ahead[0]:g} on" if ahead and ratio > 1.0 else ""
        yield Verdict(family, shown, ratio > 1.0, text)


def _sparse_residuals_stay_low(runs: Runs, family: str) -> Iterator[Verdict]:
    parts, medians = [], []
    for name in GROWING:
        residuals = np.concatenate([_residuals(curve.points) for curve in _curves(runs, family, name)])
        parts.append(float((residuals < LOW).mean()))
        medians.append(float(np.median(residuals)))
    text = f"under {LOW:g} nats at {parts[0]:.0%} (Fixed) and {parts[1]:.0%} (Dynamic) of all stops"
    text += f", median {medians[0]:.0e} and {medians[1]:.0e}; new states that have not been heard of left out"
    yield Verdict(family, "", min(parts) >= MOSTLY, text)


def _full_residuals_fall_late(runs: Runs, family: str) -> Iterator[Verdict]:
    parts = {}
    for name in ("bp-random", "rbp"):
        parts[name] = float(np.mean([_part_above(curve.points, LOW) for curve in _curves(runs, family, name)]))
    text = f"BP's stay above {LOW:g} nats for {parts['bp-random']:.0%} of the run, RBP's for {parts['rbp']:.0%}"
    yield Verdict(family, "", min(parts.values()) >= HALF, text)


GRID_CLAIMS = (
    Claim(
        "TruncBP plateaus at a visible error",
        _truncated_plateaus,
        "On peaked models a quarter of the states, picked by their priorities, holds nearly all of the belief.",
    ),
    Claim(
        "Random starts well: early on, its error is below that of BP",
        _random_starts_well,
        "A few sweeps of BP bring most of the answer, and Random has grown by a few states until then. It starts from "
        "one random state of each variable, which on peaked models is nearly always a wrong one.",
    ),
    Claim(
        "Random falls behind: it is the last of the growing methods in the end",
        _random_falls_behind,
        "Where every state counts, all three end with the same domains, and the order in which they were filled hardly "
        "matters.",
    ),
    Claim(
        "Fixed is ahead of Dynamic early",
        _fixed_ahead_early,
        "Fixed reads every table once before it has an answer at all, as much as a sweep of BP. Dynamic starts from "
        "unary scores and rescoring is lazy here: only candidates that can still win are scored, and the order is "
        "exact. That takes away what Fixed gains by its growth in constant time.",
    ),
    Claim(
        "Dynamic overtakes Fixed",
        _dynamic_overtakes,
        "Where nearly all states are needed, the order counts for little, and what Dynamic scores does not pay.",
    ),
    Claim(
        "Residuals of the sparse methods stay low throughout",
        _sparse_residuals_stay_low,
        "Runs are stopped at any moment, also in the middle of a round; where rounds are long, most moments are.",
    ),
    Claim(
        "Residuals of BP and RBP fall only near the end",
        _full_residuals_fall_late,
        "They fall by the same factor in every sweep, from the first one on: a straight line on a log scale.",
    ),
)


def _curves(runs: Runs, family: str, contender: str) -> list[Curve]:
    return runs.curves(family, runs.plan.sizes[0], contender)


def _mean(runs: Runs, family: str, contender: str, axis: str) -> Mean:
    return mean_curve(_curves(runs, family, contender), axis, "l2")


def _needs(runs: Runs, family: str, contender: str, axis: str, error: float) -> float:
    """Return the time or work to an error, as a mean over runs; infinite if one does not get there."""
    crossings = runs.crossings(family, runs.plan.sizes[0], contender, error)
    return geometric_mean(getattr(crossing, axis) for crossing in crossings)


def _fixed_over_dynamic(runs: Runs, family: str, axis: str) -> dict[float, float]:
    """Return, by error from large to small, what Fixed needs as a part of what Dynamic needs."""
    ratios = {}
    for level in (*LEVELS, runs.plan.error):
        fixed, dynamic = (_needs(runs, family, name, axis, level) for name in GROWING)
        if np.isfinite(fixed) and np.isfinite(dynamic):
            ratios[level] = fixed / dynamic
    return ratios


def _error(mean: Mean, at: float) -> str:
    value = mean.value(at)
    return f"L2 {value:.1e}" if np.isfinite(value) else "no answer yet"


def _residuals(points: Sequence[Point]) -> FloatArray:
    """Return the finite residuals of a run."""
    residuals: FloatArray = np.array([point.mean_residual for point in points if np.isfinite(point.mean_residual)])
    return residuals


def _part_above(points: Sequence[Point], level: float) -> float:
    """Return the part of a run's time before its mean residual falls under a level."""
    below = next((point.seconds for point in points if point.mean_residual < level), points[-1].seconds)
    return below / points[-1].seconds
