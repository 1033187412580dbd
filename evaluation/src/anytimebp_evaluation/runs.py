"""The finished runs of an experiment by family and size, and what they cost; only models that all contenders ran on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from anytimebp_evaluation.campaign import REFERENCE
from anytimebp_evaluation.contenders import BASELINE, CONTENDERS
from anytimebp_evaluation.curves import Crossing, crossing, geometric_mean
from anytimebp_evaluation.plans import Plan
from anytimebp_evaluation.raw import Key
from anytimebp_evaluation.sampling import Curve


class Spread(NamedTuple):
    """Figures of several runs: their geometric mean, the lowest and the highest; NaN of none."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Put the figures of runs together."""
        nan = float("nan")
        return cls(geometric_mean(values), min(values, default=nan), max(values, default=nan))


@dataclass(frozen=True)
class Cost:
    """What a contender pays for an error, over the runs of a family and size.

    Attributes:
        runs: How many there are.
        reached: In how many the error was reached.
        given_up: In how many the contender was given up before.
        elsewhere: In how many it settled on all states, but with other marginals: at another fixed point of BP.
        states: Part of all states that were active then, mean over the runs that have reached it.
        seconds: Of the runs that have reached it.
        faster: How many times as fast as BP in random order on the same model, over the same runs.
        less_work: The same for table entries read.
        less_own_work: The same without the entries that fixed priorities read once.
        less_messages: The same, counting what was read for messages alone.
    """

    runs: int
    reached: int
    given_up: int
    elsewhere: int
    states: float
    seconds: Spread
    faster: Spread
    less_work: Spread
    less_own_work: Spread
    less_messages: Spread


class Runs:
    """The finished runs of an experiment.

    Args:
        plan: The experiment.
        curves: What has been measured; models that some contender is still missing on do not count, unless it is one
            that is not timed.
    """

    def __init__(self, plan: Plan, curves: Mapping[Key, Curve]) -> None:
        """Sort the runs."""
        self.plan = plan
        self._curves = curves
        self.unsettled = sorted(key for key in curves if key.contender == REFERENCE)
        self._costs: dict[tuple[str, int, str, float], Cost] = {}

    def seeds(self, family: str, size: int) -> list[int]:
        """Return the seeds of the models on which all contenders have been measured, at most as many as planned."""
        seeds = sorted({key.seed for key in self._curves if (key.family, key.size) == (family, size)})
        whole = [
            seed
            for seed in seeds
            if all(
                Key(family, size, seed, contender) in self._curves
                for contender in self.plan.contenders
                if CONTENDERS[contender].timed
            )
        ]
        return whole[: self.plan.runs_of(family)]

    def contenders(self, family: str, size: int) -> list[str]:
        """Return the contenders that have been measured on all these models, in the order of the plan."""
        seeds = self.seeds(family, size)
        return [
            name
            for name in self.plan.contenders
            if all(Key(family, size, seed, name) in self._curves for seed in seeds)
        ]

    def families(self) -> list[str]:
        """Return the families that have been measured at some size."""
        return [family for family in self.plan.families if self.sizes(family)]

    def sizes(self, family: str) -> list[int]:
        """Return the sizes at which a family has been measured."""
        return [size for size in self.plan.sizes if self.seeds(family, size)]

    def counts(self) -> dict[tuple[str, int], int]:
        """Return how many runs there are of each family and size that has been planned."""
        return {(family, size): len(self.seeds(family, size)) for family, size in self.plan.groups()}

    def curves(self, family: str, size: int, contender: str) -> list[Curve]:
        """Return the runs of a contender, in the order of seeds."""
        return [self._curves[Key(family, size, seed, contender)] for seed in self.seeds(family, size)]

    def crossings(self, family: str, size: int, contender: str, error: float) -> list[Crossing]:
        """Return when each run came under an error."""
        return [crossing(curve, error) for curve in self.curves(family, size, contender)]

    def sweeps(self, family: str, size: int, error: float) -> float:
        """Return how many sweeps BP takes to an error, as a mean over runs; NaN if one does not get there."""
        taken = [
            next((point.updates for point in curve.points if point.work >= reached.work), float("nan"))
            for curve, reached in zip(
                self.curves(family, size, BASELINE), self.crossings(family, size, BASELINE, error), strict=True
            )
        ]
        return float(np.mean(taken)) / self.plan.n_factors(size)

    def one_off(self, size: int, contender: str) -> int:
        """Return the entries that a contender reads once, before its first answer, to rank states."""
        return self.plan.n_entries(size) if CONTENDERS[contender].reads_first else 0

    def cost(self, family: str, size: int, contender: str, error: float) -> Cost:
        """Return what a contender paid for an error."""
        key = (family, size, contender, error)
        if key not in self._costs:
            self._costs[key] = self._cost(*key)
        return self._costs[key]

    def _cost(self, family: str, size: int, contender: str, error: float) -> Cost:
        curves = self.curves(family, size, contender)
        paid = self.crossings(family, size, contender, error)
        all_states = [curve.points[-1].states for curve in self.curves(family, size, BASELINE)]
        one_off = self.one_off(size, contender)
        reached = [np.isfinite(mine.seconds) for mine in paid]
        pairs = [
            (mine, bp)
            for mine, bp in zip(paid, self.crossings(family, size, BASELINE, error), strict=True)
            if np.isfinite(mine.seconds) and np.isfinite(bp.seconds)
        ]
        ends = list(zip(curves, reached, all_states, strict=True))
        shares = [mine.states / n for mine, n in zip(paid, all_states, strict=True) if np.isfinite(mine.seconds)]
        return Cost(
            runs=len(curves),
            reached=sum(reached),
            given_up=sum(curve.ended == "GIVEN_UP" and not there for curve, there, _ in ends),
            elsewhere=sum(
                curve.ended == "CONVERGED" and not there and curve.points[-1].states == n for curve, there, n in ends
            ),
            states=float(np.mean(shares)) if shares else float("nan"),
            seconds=Spread.of([mine.seconds for mine in paid if np.isfinite(mine.seconds)]),
            faster=Spread.of([bp.seconds / mine.seconds for mine, bp in pairs]),
            less_work=Spread.of([bp.work / mine.work for mine, bp in pairs]),
            less_own_work=Spread.of([bp.work / max(1.0, mine.work - one_off) for mine, bp in pairs]),
            less_messages=Spread.of([bp.work / max(1, mine.message_work) for mine, bp in pairs]),
        )
