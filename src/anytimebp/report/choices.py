"""What `adaptive` chose in a run, and when: read from the trace, whose moments say it as "way: reason"."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from anytimebp.results.trace import Moment


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
    """Return what is done, and why."""
    way, _, reason = choice.partition(": ")
    return way, reason


def choices_of(trace: Iterable[Moment]) -> list[Chosen]:
    """Return the choices in order, each where it was first recorded.

    A reason that comes after what it explains is put with it: that is one choice, not two.
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
