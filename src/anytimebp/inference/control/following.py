"""The beliefs that a run over all states comes through, and what they say of its error."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from anytimebp.inference.control.estimated_error import BeliefHistory, SweepError
from anytimebp.inference.readout import beliefs_if_any, part_of
from anytimebp.inference.schedule.moves import moves_left
from anytimebp.inference.schedule.protocol import Messages, Schedule
from anytimebp.kernels.codes import LOG
from anytimebp.model.source import FloatArray, IndexArray

AS_BEFORE, FIRST_SWEEPS = 2.0, 3
"""A run that starts from messages of estimated error e is expected to have one of at most 2 e in its first 3 sweeps.
Until then the changes of messages to states that nobody had told anything hide what is left."""


class Following:
    """Follows the beliefs of a run, on its core or on the whole graph.

    Attributes:
        history: Marks at earlier beliefs.
    """

    def __init__(self, slot_start: IndexArray, error_before: float) -> None:
        """Begin without a mark.

        Args:
            slot_start: (V + 1,) where each variable's slots start.
            error_before: Estimated, of the marginals that the run starts from.
        """
        self.history, self._error_before = BeliefHistory(slot_start), error_before

    def note(self, sweeps: int, messages: Messages) -> FloatArray | None:
        """Set a mark at the beliefs that are followed, as they are, unless messages exclude each other as yet."""
        layout, arrays, followed = messages.layout, messages.arrays, self.history.followed
        if followed is not None:
            layout, arrays = part_of(layout, arrays, followed)
        belief = beliefs_if_any(layout, arrays, self.history.start)
        if belief is not None:
            self.history.note(sweeps, belief)
        return belief

    def note_priors(self, sweeps: int, messages: Messages) -> None:
        """Set a mark where no message has been sent yet."""
        self.history.note_priors(sweeps, messages.arrays.prior, in_logs=messages.arrays.arithmetic == LOG)

    def estimate(
        self,
        time: float,
        messages: Messages,
        schedule: Schedule | None,
        tolerance: float,
        share: float,
        *,
        has_settled: bool,
        of_part: bool,
    ) -> Callable[[FloatArray], SweepError]:
        """Return how to estimate the error from beliefs.

        Args:
            time: Sweeps so far, with the part of the present one that is through.
            messages: The core, or the whole graph.
            schedule: That updates them.
            tolerance: Of the run, in nats.
            share: What the mean error over all variables is of the mean over these.
            has_settled: Whether no message would move by more than the tolerance.
            of_part: Whether the beliefs will be those of the variables that are followed, and not of all.
        """
        history, marks = self.history, self.history.marks
        edge_variable, residual = moves_left(messages, schedule, history.followed)
        part: Callable[[FloatArray], FloatArray] = np.asarray if of_part else history.part
        return lambda belief: SweepError(
            edge_variable,
            residual,
            part(belief),
            history.start,
            partial(history.trend, marks, time, part(belief)),
            tolerance,
            has_settled=has_settled,
            share=share,
            at_most=AS_BEFORE * self._error_before if time < FIRST_SWEEPS + 1 else float("inf"),
        )
