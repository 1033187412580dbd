"""Runs an experiment: every contender on every model, skipping what has been measured before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from anytimebp import StopReason
from anytimebp_evaluation.contenders import BASELINE, CONTENDERS
from anytimebp_evaluation.curves import crossing
from anytimebp_evaluation.pairs import PairModel
from anytimebp_evaluation.plans import MOST_SECONDS, Plan, Tell
from anytimebp_evaluation.raw import Key, RawFile
from anytimebp_evaluation.sampling import Curve, Setting, converged_bp, measure, unsettled_point

REFERENCE = "reference"  # stands for all contenders on a model on which BP does not settle
SEEDS_PER_RUN = 10  # that are tried at the most, where BP does not settle on all models


@dataclass(frozen=True)
class Campaign:
    """An experiment in progress.

    Attributes:
        plan: What it consists of.
        raw: What is finished.
        tell: See `Tell`.
        note: Takes down where and when; called before something is measured.
    """

    plan: Plan
    raw: RawFile
    tell: Tell
    note: Callable[[], object] = lambda: None

    def run(self) -> None:
        """Measure what is missing."""
        groups = list(self.plan.groups())
        total, done = sum(self.plan.runs_of(family) for family, _ in groups), 0
        for family, size in groups:
            runs, settled, seed = self.plan.runs_of(family), 0, 0
            while settled < runs and seed < SEEDS_PER_RUN * runs:
                settled += self._measure(family, size, seed, (done + settled, total))
                seed += 1
            done += runs
        self.tell(f"{self.plan.name}: all models measured", total, total)

    def _measure(self, family: str, size: int, seed: int, done: tuple[int, int]) -> bool:
        """Run the contenders that are missing on one model; return whether BP settles on it."""
        if Key(family, size, seed, REFERENCE) in self.raw.curves:
            return False
        keys = [Key(family, size, seed, contender) for contender in self.plan.contenders]
        keys.sort(key=lambda key: key.contender != BASELINE)  # it sets the limits of the others
        missing = [key for key in keys if key not in self.raw.curves]
        if not missing:
            return True
        where = f"{self.plan.name}: {family}, {size}, seed {seed}"
        self.tell(f"{where}, converged BP", *done)
        self.note()
        graph = self.plan.graph(family, size, seed)
        reference = converged_bp(graph)
        if reference.stop_reason is not StopReason.CONVERGED:
            curve = Curve([unsettled_point(reference)], reference.stop_reason.name)
            self.raw.add(Key(family, size, seed, REFERENCE), curve)
            return False
        for key in missing:
            self.tell(f"{where}, {CONTENDERS[key.contender].label}", *done)
            setting = Setting(
                graph=graph,
                reference=reference,
                seed=seed,
                tolerance=self.plan.tolerance,
                error=None if self.plan.to_the_end else self.plan.error,
                max_work=self._round_limits(key),
                max_seconds=float("inf") if self.plan.patience is None else MOST_SECONDS,
                timed=self.plan.timed,
                pairs=PairModel.of(graph) if self.plan.printed_residuals else None,
            )
            curve = measure(CONTENDERS[key.contender], setting)
            self.raw.add(key, self.plan.kept(curve))
        return True

    def _round_limits(self, key: Key) -> float:
        """Return how many table entries a method that grows may read."""
        if self.plan.patience is None or key.contender == BASELINE:
            return float("inf")
        curve = self.raw.curves[key._replace(contender=BASELINE)]
        reached = crossing(curve, self.plan.error)
        return self.plan.patience * min(reached.work, curve.points[-1].work)
