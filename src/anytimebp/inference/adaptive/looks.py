"""How rounds of `adaptive` look at the states outside their domains."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TypeVar

from anytimebp.inference.adaptive.active_model import ActiveModel
from anytimebp.inference.adaptive.known import Outcome
from anytimebp.inference.adaptive.whole_model import Candidates
from anytimebp.inference.figures import Figures
from anytimebp.inference.method import Step, Task
from anytimebp.kernels.active import look_outside
from anytimebp.kernels.codes import OK

T = TypeVar("T")


class Looks:
    """What rounds look around with.

    Attributes:
        outcome: Why there are no more rounds, or None.
    """

    outcome: Outcome | None
    _task: Task
    _figures: Figures
    _model: ActiveModel
    _left_out: float

    def _counted(self, part: str, asking: Generator[int, None, T]) -> Generator[Step, None, T]:
        """Return what was asked for, and count the scores that it took as a part of the work."""
        while True:
            try:
                self._figures.work_parts[part] += next(asking)
            except StopIteration as end:
                found: T = end.value
                return found
            yield Step.WORKING

    def _look(self, candidates: Candidates) -> Iterator[Step]:
        """Add up what factors say of the candidates."""
        model, sources, position, figures = self._model, self._model.sources, 0, self._figures
        while position < len(sources.kind):
            given = model.layout, model.arrays, sources, model.active, candidates, model.scratch, self._left_out
            status, position, read = look_outside(*given, position, self._task.limits.slice_cost(figures.work))
            figures.work_parts["scoring"] += read
            if status != OK:
                self.outcome = Outcome.IMPOSSIBLE
                return
            yield Step.WORKING
        for asked in self._ask(candidates):
            figures.work_parts["scoring"] += asked
            yield Step.WORKING

    def _ask(self, candidates: Candidates) -> Iterator[int]:
        """Add what factors say that have no numbers in memory; yields the scores asked for."""
        return self._model.ask_outside(candidates)
