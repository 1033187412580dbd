"""The part of the page on the round tolerance: how far messages settle before the next state joins."""

from __future__ import annotations

from collections.abc import Sequence

from anytimebp_evaluation.contenders import ROUND_TOLERANCES, settling_to
from anytimebp_evaluation.families import GRIDS
from anytimebp_evaluation.markdown import gain, table
from anytimebp_evaluation.runs import Cost, Runs

HEADER = ["family", "rounds to", "Fixed", "Fixed, without its priorities", "Dynamic"]


def tolerance_part(runs: Runs) -> str:
    """Return the gains in work by the tolerance of rounds, on grids of one size."""
    plan, rows = runs.plan, []
    size = plan.sizes[0]
    for family in runs.families():
        measured = [each for each in ROUND_TOLERANCES if settling_to("fixed", each) in plan.contenders]
        for place, tolerance in enumerate(measured):
            fixed, dynamic = (
                runs.cost(family, size, settling_to(name, tolerance), plan.error) for name in ("fixed", "dynamic")
            )
            cells = [_cell(fixed, gain(fixed, fixed.less_work)), _cell(fixed, gain(fixed, fixed.less_own_work))]
            name = "" if place else "{} ({:g}, {:g})".format(family, *GRIDS[family])
            rows.append([name, f"{tolerance:g}", *cells, _cell(dynamic, gain(dynamic, dynamic.less_work))])
    counts = sorted({count for count in runs.counts().values() if count})
    counted = f"{' to '.join(map(str, dict.fromkeys((counts[0], counts[-1]))))} runs of each family"
    head = (
        f"{plan.side} x {plan.side} grids with {size} states, to L2 < {plan.error:g}, {counted}: times less work than "
        "BP in random order. In brackets: standard deviations of unary and pairwise log scores. A method is given up "
        f"once it has read {plan.patience} times what BP reads. With loose rounds, a run may end before it reaches the "
        "error."
    )
    return f"{head}\n\n{table(HEADER, rows)}"


def _cell(cost: Cost, text: str) -> str:
    """Return a gain, or in how many runs the error was not reached."""
    if cost.reached == cost.runs:
        return text
    if not cost.reached:
        return "given up" if cost.given_up == cost.runs else "not reached"
    return f"not reached in {cost.runs - cost.reached} of {cost.runs} runs"


def best_gains(runs: Sequence[Runs], tolerance: float) -> dict[str, tuple[str, float]]:
    """Return, by method, the largest gain in work at a tolerance, and on which model."""
    best: dict[str, tuple[str, float]] = {}
    for one in runs:
        size, side = one.plan.sizes[0], one.plan.side
        for family in one.families():
            for name in ("fixed", "dynamic"):
                cost = one.cost(family, size, settling_to(name, tolerance), one.plan.error)
                mean = cost.less_own_work.mean
                if cost.reached == cost.runs and mean > best.get(name, ("", 0.0))[1]:
                    best[name] = f"{side} x {side}, {size} states, {family}", mean
    return best
