"""Markdown: tables, and numbers as people read them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from anytimebp.experiments.runs import Cost

ABOUT_ONE = 0.955  # what rounds to 1.0 either way


def table(header: Sequence[object], rows: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def milliseconds(seconds: float) -> str:
    """Return a time in milliseconds, with three digits."""
    return _digits(1e3 * seconds)


def times(factor: float) -> str:
    """Return a factor: 12 for twelve times as good, 1/12 for twelve times as bad."""
    if not np.isfinite(factor):
        return "-"
    return _two(factor) if factor >= ABOUT_ONE else f"1/{_two(1.0 / factor)}"


def time_cell(cost: Cost) -> str:
    """Return the time to an error with its range, or why there is none."""
    if not cost.reached:
        return "given up" if cost.given_up else "never"
    text = f"{milliseconds(cost.seconds)} ({milliseconds(cost.fastest)} to {milliseconds(cost.slowest)})"
    return text if cost.reached == cost.runs else f"{text}, {cost.reached} of {cost.runs} runs"


def _two(value: float) -> str:
    return f"{value:.0f}" if value >= 9.95 else f"{value:.1f}"  # noqa: PLR2004  (two digits)


def _digits(value: float) -> str:
    """Return a number with three digits, and commas in large ones."""
    decimals = max(0, 2 - int(np.floor(np.log10(value)))) if value > 0.0 and np.isfinite(value) else 0
    return f"{value:,.{decimals}f}"
