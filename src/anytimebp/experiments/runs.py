"""The finished runs of an experiment, asked for by family and size: whole models only, and what they cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from anytimebp.experiments.campaign import REFERENCE
from anytimebp.experiments.curves import Crossing, crossing, geometric_mean
from anytimebp.experiments.plans import Plan
from anytimebp.experiments.raw import Key
from anytimebp.experiments.sampling import Curve

FULL_BP = ("bp", "bp-random")


@dataclass(frozen=True)
class Cost:
    """What a contender pays for an error, over the runs of a family and size.

    Attributes:
        runs: How many there are.
        reached: In how many the error was reached.
        given_up: In how many the contender was given up before.
        seconds: Geometric mean, over the runs that have reached it; NaN if none has.
        fastest: Seconds of the fastest run that has.
        slowest: Of the slowest.
        times_faster: Than the faster of the two BPs on the same model, geometric mean over the runs that reached it.
        times_less_work: The same for table entries read.
        times_less_messages: The same, counting what was read for messages alone.
    """

    runs: int
    reached: int
    given_up: int
    seconds: float
    fastest: float
    slowest: float
    times_faster: float
    times_less_work: float
    times_less_messages: float


class Runs:
    """The finished runs of an experiment.

    Args:
        plan: The experiment.
        curves: What has been measured; models that some contender is still missing on do not count.
    """

    def __init__(self, plan: Plan, curves: Mapping[Key, Curve]) -> None:
        """Sort the runs."""
        self.plan = plan
        self._curves = curves
        self.unsettled = [key for key in curves if key.contender == REFERENCE]

    def seeds(self, family: str, size: int) -> list[int]:
        """Return the seeds of the models on which all contenders have been measured, at most as many as planned."""
        seeds = sorted({key.seed for key in self._curves if (key.family, key.size) == (family, size)})
        whole = [
            seed
            for seed in seeds
            if all(Key(family, size, seed, contender) in self._curves for contender in self.plan.contenders)
        ]
        return whole[: self.plan.runs]

    def families(self) -> list[str]:
        """Return the families that have been measured at every size."""
        return [family for family in self.plan.families if all(self.seeds(family, size) for size in self.plan.sizes)]

    def curves(self, family: str, size: int, contender: str) -> list[Curve]:
        """Return the runs of a contender, in the order of seeds."""
        return [self._curves[Key(family, size, seed, contender)] for seed in self.seeds(family, size)]

    def crossings(self, family: str, size: int, contender: str, error: float) -> list[Crossing]:
        """Return when each run came under an error."""
        return [crossing(curve, error) for curve in self.curves(family, size, contender)]

    def baseline(self, family: str, size: int, error: float) -> list[Crossing]:
        """Return what the faster BP paid for an error, run by run: less time, and less work."""
        both = [self.crossings(family, size, contender, error) for contender in FULL_BP]
        return [Crossing(*map(min, one, other)) for one, other in zip(*both, strict=True)]

    def cost(self, family: str, size: int, contender: str, error: float) -> Cost:
        """Return what a contender paid for an error."""
        curves = self.curves(family, size, contender)
        paid = self.crossings(family, size, contender, error)
        pairs = [
            (mine, bp)
            for mine, bp in zip(paid, self.baseline(family, size, error), strict=True)
            if np.isfinite(mine.seconds)
        ]
        seconds = [mine.seconds for mine, _ in pairs]
        return Cost(
            runs=len(curves),
            reached=len(pairs),
            given_up=sum(curve.ended == "GIVEN_UP" for curve in curves),
            seconds=geometric_mean(seconds),
            fastest=min(seconds, default=float("nan")),
            slowest=max(seconds, default=float("nan")),
            times_faster=geometric_mean(bp.seconds / mine.seconds for mine, bp in pairs),
            times_less_work=geometric_mean(bp.work / mine.work for mine, bp in pairs),
            times_less_messages=geometric_mean(bp.work / mine.message_work for mine, bp in pairs),
        )
