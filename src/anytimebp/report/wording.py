"""Texts of a report: numbers that are never rounded to 0 or 1, labels, and the choices of `adaptive`."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

from anytimebp.model.summary import format_bytes
from anytimebp.results.tables import label_texts
from anytimebp.results.trace import Moment

LONGEST_TEXT = 1000  # characters of a name or label that are shown
ALMOST_ONE = 1e-6  # from 1, in steps that are still written out


def probability_text(value: float, *, alone: bool = False) -> str:
    """Return a probability with three significant digits, or as many as tell it from 1.

    Args:
        value: The probability.
        alone: Whether all other states have probability 0; only then is it shown as 1.
    """
    if math.isnan(value):
        return "unknown"
    if value <= 0.0:
        return "0"
    missing = 1.0 - value
    if alone and missing < 1e-12:  # noqa: PLR2004  (rounding of a sum of one)
        return "1"
    if missing < ALMOST_ONE:
        return "> 0.999999"
    if missing < 1e-2:  # noqa: PLR2004
        return f"{value:.{2 - _exponent(missing) - 1}f}"
    if value < 1e-3:  # noqa: PLR2004
        return tidy_exponent(f"{value:.2e}")
    return f"{value:.{max(3, 2 - _exponent(value))}f}"


def share_text(part: int, whole: int) -> str:
    """Return a share in per cent; only exactly 0 and 1 are shown as 0 and 100."""
    if part in {0, whole} or whole == 0:
        return "0\N{NO-BREAK SPACE}%" if part == 0 and whole else "100\N{NO-BREAK SPACE}%"
    percent = 100.0 * part / whole
    if percent < 0.1:  # noqa: PLR2004
        return "under 0.1\N{NO-BREAK SPACE}%"
    return "over 99.9\N{NO-BREAK SPACE}%" if percent > 99.9 else f"{percent:.1f}\N{NO-BREAK SPACE}%"  # noqa: PLR2004


def figure_text(value: float, digits: int) -> str:
    """Return a figure of a run with so many significant digits."""
    if math.isnan(value):
        return "unknown"
    if math.isinf(value):
        return "infinite" if value > 0 else "minus infinity"
    return tidy_exponent(f"{value:.{digits}g}").replace("-", "\N{MINUS SIGN}" if value < 0 else "-", 1)


def estimate_text(value: float) -> str:
    """Return an estimate of an error or of a mass, to two digits."""
    return (f"{value:.1e}" if value else "0") if math.isfinite(value) else "unknown"


def exact_cost_text(entries: float) -> str:
    """Return what exact inference would cost, from `Snapshot.exact_entries`; empty if it is not needed or not known."""
    if math.isnan(entries) or entries == 0.0:
        return ""
    if math.isinf(entries):
        return "exact inference would need more memory than any machine has, or an order that is long to find"
    return f"exact inference would need cliques of {entries:,.0f} entries in all, {format_bytes(8.0 * entries)}"


def tidy_exponent(text: str) -> str:
    """Return 1.20e-09 as 1.20e-9."""
    head, mark, exponent = text.partition("e")
    return f"{head}e{int(exponent)}" if mark else text


def shown_labels(labels: Sequence[Hashable]) -> list[str]:
    """Return labels of one variable as tables show them, with blank ones in quotes and long ones cut."""
    texts = zip(label_texts(labels), labels, strict=True)
    return [short_text(text if text.strip() else repr(label)) for text, label in texts]


def short_text(text: str) -> str:
    """Return a name or label, shortened if it is long."""
    if len(text) <= LONGEST_TEXT:
        return text
    return f"{text[:LONGEST_TEXT]}\N{HORIZONTAL ELLIPSIS} ({len(text):,} characters)"


def printable(text: str) -> str:
    """Return a text that can be encoded, with lone surrogates written out."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _exponent(value: float) -> int:
    """Return the power of ten of the leading digit."""
    return int(f"{value:e}".partition("e")[2])


class Chosen(NamedTuple):
    """One choice.

    Attributes:
        way: What was done.
        reason: Why; empty where none was given.
        updates: Factor updates at the first recorded moment with it.
    """

    way: str
    reason: str
    updates: int


def split_choice(choice: str) -> tuple[str, str]:
    """Return the parts of a choice: what is done, and why."""
    way, _, reason = choice.partition(": ")
    return way, reason


def choices_of(trace: Iterable[Moment]) -> list[Chosen]:
    """Return the choices in order, each where it was first recorded.

    A reason that is recorded after the choice that it explains is joined to it.
    """
    found: list[Chosen] = []
    for moment in trace:
        way, reason = split_choice(moment.choice)
        if not way or (found and (way, reason) == found[-1][:2]):
            continue
        if found and found[-1].way == way and not found[-1].reason:
            found[-1] = found[-1]._replace(reason=reason)
        else:
            found.append(Chosen(way, reason, moment.updates))
    return found
