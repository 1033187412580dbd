"""The paper's observations on grids, each as a question to our curves, with the figures that answer it.

They are about errors and residuals against time, and against work, which tells what would be seen if bookkeeping were
free. The mean over runs is geometric throughout.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from anytimebp_evaluation.curves import geometric_mean
from anytimebp_evaluation.families import FloatArray
from anytimebp_evaluation.markdown import percent
from anytimebp_evaluation.runs import Runs
from anytimebp_evaluation.sampling import Curve, Point
from anytimebp_evaluation.verdicts import AXES, GROWING, Claim, Verdict, is_clearly_more

VISIBLE = 1e-3  # an L2 error that shows on a picture with a linear axis
LEVELS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
LOW = 1e-3  # nats: a mean residual that counts as low
TENTHS = 10  # parts of a run, in each of which most moments have to be low
NEAR_THE_END = 0.75  # of a run: what comes after
CANNOT_BE_TOLD = "not every run reaches the errors in question"


def _truncated_plateaus(runs: Runs, family: str) -> Iterator[Verdict]:
    ends = [curve.points[-1].l2 for curve in _curves(runs, family, "truncbp")]
    bp = [curve.points[-1].l2 for curve in _curves(runs, family, "bp")]
    last, error = geometric_mean(ends), runs.plan.error
    never = min(ends) > error
    text = f"ends with L2 {last:.1e} ({min(ends):.0e} to {max(ends):.0e}), BP with {geometric_mean(bp):.0e}"
    yield Verdict(family, "", never and last >= VISIBLE, text)


def _random_starts_well(runs: Runs, family: str) -> Iterator[Verdict]:
    curves = {name: _curves(runs, family, name) for name in ("bp-random", "random")}
    for axis, shown in AXES.items():
        early = [_first_sweep(curve, axis) for curve in curves["bp-random"]]
        bp, random = (
            geometric_mean(_error_at(curve, axis, at) for curve, at in zip(curves[name], early, strict=True))
            for name in ("bp-random", "random")
        )
        text = f"once BP has sent every message: {_shown(random)}, BP {_shown(bp)}"
        yield Verdict(family, shown, random < bp, text)


def _random_falls_behind(runs: Runs, family: str) -> Iterator[Verdict]:
    error = runs.plan.error
    for axis, shown in AXES.items():
        needs = {name: _needs(runs, family, name, axis, error) for name in ("random", *GROWING)}
        if not all(np.isfinite(need) for need in needs.values()):
            yield Verdict(family, shown, None, CANNOT_BE_TOLD)
            continue
        behind = [needs["random"] / needs[name] for name in GROWING]
        text = f"to {error:g} it takes {behind[0]:.1f} times what Fixed takes, {behind[1]:.1f} times Dynamic"
        yield Verdict(family, shown, is_clearly_more(min(behind)), text)


def _fixed_ahead_early(runs: Runs, family: str) -> Iterator[Verdict]:
    for axis, shown in AXES.items():
        ratios = _fixed_over_dynamic(runs, family, axis)
        first = dict(list(ratios.items())[:1])
        ahead = is_clearly_more(1.0 / next(iter(first.values()))) if first else None
        yield Verdict(family, shown, ahead, _shown_ratios(first))


def _dynamic_overtakes(runs: Runs, family: str) -> Iterator[Verdict]:
    for axis, shown in AXES.items():
        ratios = _fixed_over_dynamic(runs, family, axis)
        ahead = is_clearly_more(list(ratios.values())[-1]) if ratios else None
        was_behind = any(is_clearly_more(ratio) is False for ratio in ratios.values())
        yield Verdict(family, shown, was_behind if ahead else ahead, _shown_ratios(ratios))


def _shown_ratios(ratios: dict[float, float]) -> str:
    """Return what Fixed needs as a part of what Dynamic needs, by error."""
    if not ratios:
        return CANNOT_BE_TOLD
    levels = " to ".join(f"{level:g}" for level in dict.fromkeys((max(ratios), min(ratios))))
    return f"Fixed / Dynamic at L2 {levels}: " + ", ".join(f"{ratio:.2f}" for ratio in ratios.values())


def _sparse_residuals_stay_low(runs: Runs, family: str) -> Iterator[Verdict]:
    high, low, unheard = [], [], []
    for name in GROWING:
        residuals = [_residuals(curve.points) for curve in _curves(runs, family, name)]
        tenths = zip(*(np.array_split(each, TENTHS) for each in residuals), strict=True)
        high.append(max(float(np.median(np.concatenate(tenth))) for tenth in tenths))
        low.append(float((np.concatenate(residuals) < LOW).mean()))
        unheard.append(float(np.isinf(np.concatenate(residuals)).mean()))
    text = (
        f"median of the worst tenth of a run {_nats(high[0])} (Fixed) and {_nats(high[1])} (Dynamic); under "
        f"{LOW:g} nats at {percent(low[0])} and {percent(low[1])} of all stops; infinite at {percent(unheard[0])} and "
        f"{percent(unheard[1])}, where a state has just joined"
    )
    yield Verdict(family, "", max(high) < LOW, text)


def _full_residuals_fall_late(runs: Runs, family: str) -> Iterator[Verdict]:
    parts, lines = {}, {}
    for name in ("bp-random", "rbp"):
        curves = _curves(runs, family, name)
        parts[name] = float(np.mean([_part_above(curve.points, LOW) for curve in curves]))
        lines[name] = float(np.mean([_part_of_a_line(curve.points, LOW) for curve in curves]))
    text = (
        f"after the first sweep, BP's stay above {LOW:g} nats for {percent(parts['bp-random'])} of the work, RBP's "
        f"for {percent(parts['rbp'])}; a straight line on the log scale would do so for {percent(lines['bp-random'])} "
        f"and {percent(lines['rbp'])}"
    )
    yield Verdict(family, "", min(parts.values()) >= NEAR_THE_END, text)


GRID_CLAIMS = (
    Claim(
        "TruncBP plateaus at a visible error",
        _truncated_plateaus,
        "A quarter of the states, picked by their priorities, holds nearly all of the belief: what is missing does not "
        "show on a linear axis.",
    ),
    Claim(
        "Random starts well: early on, its error is below that of BP",
        _random_starts_well,
        "One sweep of BP brings most of the answer. Random has let few states in by then, and few of those that count.",
    ),
    Claim(
        "Random falls behind: it is the last of the growing methods in the end",
        _random_falls_behind,
        "Where nearly all states are needed for the error, order counts for less.",
    ),
    Claim(
        "Fixed is ahead of Dynamic early",
        _fixed_ahead_early,
        "Fixed reads every table once for its priorities, as much as a sweep of BP, before it has an answer at all. "
        "Dynamic starts from unary scores, and rescoring is lazy here: only candidates that can still win are scored.",
    ),
    Claim(
        "Dynamic overtakes Fixed",
        _dynamic_overtakes,
        "Either Dynamic is ahead all the way, or its better order saves less than scoring candidates costs.",
    ),
    Claim(
        "Residuals of the sparse methods stay low throughout",
        _sparse_residuals_stay_low,
        "Runs are stopped at any moment, also in the middle of a round, and a state that has joined counts as infinite "
        "until all its factors have been heard. Where a round is a few updates long, as towards the end of a peaked "
        "model, most moments are such. The paper has these peaks, too, at moments of growth.",
    ),
    Claim(
        "Residuals of BP and RBP fall only near the end",
        _full_residuals_fall_late,
        "They fall by much the same factor in every sweep, from the first one on: a straight line on a log scale.",
    ),
)


def _curves(runs: Runs, family: str, contender: str) -> list[Curve]:
    return runs.curves(family, runs.plan.sizes[0], contender)


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


def _error_at(curve: Curve, axis: str, at: float) -> float:
    """Return the error of a run's last answer up to a place; infinite if there was none."""
    return next((point.l2 for point in reversed(curve.points) if getattr(point, axis) <= at), float("inf"))


def _shown(error: float) -> str:
    return f"L2 {error:.1e}" if np.isfinite(error) else "no answer yet in some run"


def _nats(residual: float) -> str:
    return f"{residual:.0e}" if np.isfinite(residual) else "infinite"


def _first_sweep(curve: Curve, axis: str) -> float:
    """Return what a run of BP has cost when every message has been sent once."""
    points = curve.points
    return float(getattr(next((p for p in points if np.isfinite(p.mean_residual)), points[-1]), axis))


def _residuals(points: Sequence[Point]) -> FloatArray:
    """Return residuals from where every message has been sent once; those of states that join later are infinite."""
    residuals: FloatArray = np.array([point.mean_residual for point in points])
    return residuals[int(np.isfinite(residuals).argmax()) :]


def _swept(points: Sequence[Point]) -> tuple[FloatArray, FloatArray]:
    """Return work and residuals from where every message has been sent once."""
    known = [(point.work, point.mean_residual) for point in points if np.isfinite(point.mean_residual)]
    work, residuals = np.array(known, dtype=np.float64).T
    return work - work[0], residuals


def _part_above(points: Sequence[Point], level: float) -> float:
    """Return the part of a run's work, the first sweep apart, before its mean residual falls under a level."""
    work, residuals = _swept(points)
    below = np.flatnonzero(residuals < level)
    return float(work[below[0]] / work[-1]) if len(below) and work[-1] > 0.0 else 1.0


def _part_of_a_line(points: Sequence[Point], level: float) -> float:
    """Return what that part would be if the residual fell by the same factor with every entry read."""
    first, last = np.log(np.maximum(_swept(points)[1][[0, -1]], 1e-300))
    return float(np.clip((first - np.log(level)) / (first - last), 0.0, 1.0)) if first > last else 1.0
