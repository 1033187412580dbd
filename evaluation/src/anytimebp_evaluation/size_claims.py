"""The paper's observations on how gains depend on size: on the states of a variable, on the entities of a sentence."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from anytimebp_evaluation.contenders import CONTENDERS
from anytimebp_evaluation.markdown import times
from anytimebp_evaluation.published import DOMAINS_AT, DOMAINS_GAIN, JOINT_AT, JOINT_GAIN, JOINT_GAIN_OVER_RBP
from anytimebp_evaluation.runs import Cost, Runs
from anytimebp_evaluation.verdicts import AXES, GROWING, Claim, Verdict

NOT_MUCH = 2.0  # times faster

BOOKKEEPING = (
    "Our BP reads tables at memory speed, thousands of times as fast as the paper's, while a state that joins costs "
    "tens of microseconds of bookkeeping. With one state at a time, what is saved in work does not show in time; with "
    "batches, as `adaptive` adds them, it does. In work, no method can save more than BP's few sweeps. Fixed reads "
    "each table once for its priorities, and where most states are needed, little is saved. Rounds that settle to a "
    "looser tolerance gain as much as the paper has: see *The round tolerance*."
)
SHARES = "The gain depends on the share of states that is needed, and on the number of sweeps that BP takes."


class _Gain(NamedTuple):
    """How many times as good as BP in random order: 0 if some run was given up, NaN if some does not tell."""

    value: float
    text: str


class _Gains(NamedTuple):
    """The gains of the paper's two methods at one size."""

    size: int
    of: dict[str, _Gain]

    def __str__(self) -> str:
        """Return them in words."""
        return f"at {self.size}: " + ", ".join(f"{CONTENDERS[name].label} {one.text}" for name, one in self.of.items())

    @property
    def values(self) -> list[float]:
        """The bare numbers."""
        return [one.value for one in self.of.values()]

    def at_most(self, bound: float) -> bool | None:
        """Tell whether none is above a bound; None if that cannot be told."""
        return None if np.isnan(self.values).any() else max(self.values) <= bound

    def reach(self, bound: float) -> bool | None:
        """Tell whether one is as large as a bound; None if that cannot be told."""
        known = [value for value in self.values if not np.isnan(value)]
        return True if max(known, default=0.0) >= bound else False if len(known) == len(self.of) else None


def _gains(runs: Runs, family: str, size: int, axis: str) -> _Gains:
    costs = {name: runs.cost(family, size, name, runs.plan.error) for name in GROWING}
    return _Gains(size, {name: _gain(cost, axis) for name, cost in costs.items()})


def _gain(cost: Cost, axis: str) -> _Gain:
    mean = (cost.faster if axis == "seconds" else cost.less_work).mean
    if cost.reached == cost.runs:
        own = cost.less_own_work.mean
        without = axis == "work" and own != cost.less_work.mean
        return _Gain(mean, times(mean) + (f" ({times(own)} without its one-off priorities)" if without else ""))
    if cost.given_up:
        return _Gain(0.0, f"given up in {cost.given_up} of {cost.runs} runs")
    return _Gain(float("nan"), f"not there in {cost.runs - cost.reached} of {cost.runs} runs")


def _no_gain_when_small(runs: Runs, family: str) -> Iterator[Verdict]:
    yield from _small(runs, family, 1.0)


def _little_gain_when_short(runs: Runs, family: str) -> Iterator[Verdict]:
    yield from _small(runs, family, NOT_MUCH)


def _small(runs: Runs, family: str, bound: float) -> Iterator[Verdict]:
    for axis, shown in AXES.items():
        gains = _gains(runs, family, runs.sizes(family)[0], axis)
        yield Verdict(family, shown, gains.at_most(bound), str(gains))


def _gain_grows(runs: Runs, family: str) -> Iterator[Verdict]:
    small, large = runs.sizes(family)[0], runs.sizes(family)[-1]
    for axis, shown in AXES.items():
        first, last = (_gains(runs, family, size, axis) for size in (small, large))
        pairs = list(zip(first.values, last.values, strict=True))
        unknown = any(np.isnan(pair).any() or max(pair) == 0.0 for pair in pairs)
        grows = None if unknown else all(after > before for before, after in pairs)
        yield Verdict(family, shown, grows, f"{first}; {last}")


def _gain_in_domains(runs: Runs, family: str) -> Iterator[Verdict]:
    yield from _gain_at(runs, family, DOMAINS_AT, DOMAINS_GAIN[0])


def _gain_in_sentences(runs: Runs, family: str) -> Iterator[Verdict]:
    yield from _gain_at(runs, family, JOINT_AT, JOINT_GAIN)


def _gain_at(runs: Runs, family: str, size: int, least: float) -> Iterator[Verdict]:
    """Tell whether the better of the two methods gains as much as in the paper, at the size that it tells of."""
    if size not in runs.sizes(family):
        yield Verdict(family, "", None, f"not measured at {size}")
        return
    for axis, shown in AXES.items():
        gains = _gains(runs, family, size, axis)
        yield Verdict(family, shown, gains.reach(least), str(gains))


DOMAIN_CLAIMS = (
    Claim(
        "Sparse domains are slower than BP where universes are small",
        _no_gain_when_small,
        "Even of ten states, one or two hold the belief, so that tables over the domains are smaller still.",
    ),
    Claim(
        f"At {DOMAINS_AT} states they are {DOMAINS_GAIN[0]:g} to {DOMAINS_GAIN[1]:g} times as fast",
        _gain_in_domains,
        BOOKKEEPING,
    ),
    Claim("The gain grows with the number of states", _gain_grows, SHARES),
)

JOINT_CLAIMS = (
    Claim(
        "Short sentences gain little",
        _little_gain_when_short,
        "A ternary table over the domains is so much smaller than a whole one that even short sentences gain.",
    ),
    Claim(
        f"At {JOINT_AT} entities they are {JOINT_GAIN:g} times as fast as BP ({JOINT_GAIN_OVER_RBP:g} over RBP)",
        _gain_in_sentences,
        BOOKKEEPING,
    ),
    Claim("The gain grows with the number of entities", _gain_grows, SHARES),
)
