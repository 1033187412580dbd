"""Judging an observation of the paper: a question to our runs, and verdicts with their grounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from anytimebp_evaluation.runs import Runs

GROWING = ("fixed", "dynamic")
CLEARLY = 1.1  # smaller ratios may be chance
AXES = {"seconds": "time", "work": "work"}
COUNTINGS = {**AXES, "own_work": "work without one-off priorities"}
"""The axes, and work once more without the reading of all tables by which Fixed ranks the states."""


class Verdict(NamedTuple):
    """Whether an observation holds on a family.

    Attributes:
        family: Of models.
        axis: "time" or "work"; empty where it makes no difference.
        holds: None where the runs cannot tell.
        grounds: The figures that it goes by.
    """

    family: str
    axis: str
    holds: bool | None
    grounds: str


class Claim(NamedTuple):
    """An observation of the paper.

    Attributes:
        text: What it saw.
        judge: Gives a verdict per family, and per axis where it matters.
        why: What explains it where it does not hold.
    """

    text: str
    judge: Callable[[Runs, str], Iterator[Verdict]]
    why: str


def judge_all(runs: Runs, claims: Sequence[Claim]) -> list[tuple[Claim, list[Verdict]]]:
    """Return observations with their verdicts on every family that has been measured."""
    families = runs.families()
    return [(claim, [verdict for family in families for verdict in claim.judge(runs, family)]) for claim in claims]


def is_clearly_more(ratio: float) -> bool | None:
    """Tell whether a ratio is above 1; None where it is too near to that."""
    return None if 1.0 / CLEARLY < ratio < CLEARLY else ratio > 1.0
