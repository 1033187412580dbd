"""Markdown: tables and rounded numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from anytimebp_evaluation.runs import Cost, Spread

ABOUT_ONE = 0.953  # above it, a factor and its inverse both round to 1.0


def table(header: Sequence[object], rows: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def milliseconds(seconds: float) -> str:
    """Return a time in milliseconds, with three digits."""
    return _digits(1e3 * seconds)


def gain(cost: Cost, spread: Spread) -> str:
    """Return how many times as good as BP in random order a contender is; a dash unless every run has got there."""
    return times(spread.mean) if cost.reached == cost.runs else "-"


def share(cost: Cost) -> str:
    """Return the part of all states that were active when the error was reached, over the runs that have reached it."""
    return percent(cost.states) if cost.reached else "-"


def percent(part: float) -> str:
    """Return a part of a whole."""
    return f"{part:.0%}" if part >= 0.1 else f"{100 * part:.2g}%"  # noqa: PLR2004  (two digits)


def sweeps(count: float) -> str:
    """Return a mean number of sweeps."""
    return "-" if np.isnan(count) else f"{count:.1f}"


def times(factor: float) -> str:
    """Return a factor: 12 for twelve times as good, 1/12 for twelve times as bad."""
    if not np.isfinite(factor):
        return "-"
    return _two(factor) if factor >= ABOUT_ONE else f"1/{_two(1.0 / factor)}"


def time_cell(cost: Cost, *, with_range: bool) -> str:
    """Return the time to an error, its range if wanted, and how many runs have not reached it and why."""
    missed = [
        f"{count} of {cost.runs} runs {how}" if cost.reached or count < cost.runs else how
        for count, how in _missed(cost)
        if count
    ]
    if not cost.reached:
        return "; ".join(missed)
    text = milliseconds(cost.seconds.mean)
    if with_range:
        text += f" ({milliseconds(cost.seconds.low)} to {milliseconds(cost.seconds.high)})"
    return "; ".join([text, *missed])


def _missed(cost: Cost) -> list[tuple[int, str]]:
    """Return how many runs have not reached an error, by how they ended."""
    never = cost.runs - cost.reached - cost.given_up - cost.elsewhere
    return [(cost.given_up, "given up"), (cost.elsewhere, "at another fixed point"), (never, "never")]


def _two(value: float) -> str:
    return f"{value:.0f}" if value >= 9.95 else f"{value:.1f}"  # noqa: PLR2004  (two digits)


def _digits(value: float) -> str:
    """Return a number with three digits, and commas in large ones."""
    decimals = max(0, 2 - int(np.floor(np.log10(value)))) if value > 0.0 and np.isfinite(value) else 0
    return f"{value:,.{decimals}f}"
