"""Moves weights to where the objective is least: by L-BFGS of SciPy, or by Adam; inference is loose at first.

A loose gradient is good enough while it is long. Once its largest number is under the accuracy of inference, the
accuracy becomes ten times finer, down to the tolerance that was asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from anytimebp.errors import OptionError
from anytimebp.learn.objective import Accuracy, Evaluation, Objective
from anytimebp.learn.state import MOST_ITERATIONS, Iteration, State, digest
from anytimebp.model.source import FloatArray
from anytimebp.optional import load_optional

FINER = 0.1  # by which the accuracy changes from one stage to the next; larger steps make inference finer too early
SEGMENT = 50  # iterations after which L-BFGS begins anew, so that no more gradients than that are recorded
LEAST_GAIN = 1e-9  # of the objective, relative, at which a stage ends
FLAT = 1e-4  # largest number of the derivative, by the objective, where no gain is the end; more says that it has jumps
TRIES, FEW_TRIES = (
    20,
    5,
)  # of a line search, in the last stage and before: where the accuracy has changed, all are in vain
MEMORY = 10  # gradients that L-BFGS keeps
FIRST_MOMENT, SECOND_MOMENT, TINY = 0.9, 0.999, 1e-8  # of Adam, as its authors set them

CONVERGED, NO_LOWER, NO_GAIN = "converged", "no lower point was found", "no gain on held-out examples"
STOPPED, ABNORMAL = 99, 2  # how SciPy says that a callback has ended it, and that its line search has failed


class Settings(NamedTuple):
    """What the user has asked for.

    Attributes:
        max_iterations: Steps of L-BFGS, or passes of Adam.
        gradient_tolerance: Largest number of the derivative at the end.
        patience: Iterations without gain on held-out examples after which it ends.
        learning_rate: Of Adam.
        seed: Of the order of batches.
    """

    max_iterations: int
    gradient_tolerance: float
    patience: int
    learning_rate: float
    seed: int


class Training:
    """A training under way: what both optimisers share."""

    def __init__(
        self,
        objective: Objective,
        held_out: Objective | None,
        stages: Sequence[Accuracy],
        settings: Settings,
        watch: Callable[[State], None],
    ) -> None:
        """Do nothing yet.

        Args:
            objective: To be made small.
            held_out: Examples that say when to stop.
            stages: How accurate inference is, the last for the end.
            settings: What the user has asked for.
            watch: Called after every iteration; it shows and saves.
        """
        self.objective, self.stages, self.settings, self.watch = objective, stages, settings, watch
        self._held_out = held_out

    def note(self, state: State, vector: FloatArray, last: Evaluation, work: int) -> None:
        """Write down an iteration; held-out examples are always judged by the last accuracy, so that it compares."""
        accuracy, held_out = self.stages[state.stage], float("nan")
        if self._held_out is not None:
            held_out = self._held_out.log_likelihood(vector, self.stages[-1])
        size = float(np.abs(last.gradient).max())
        state.is_exact &= last.is_exact
        state.note(
            Iteration(float(last.value), size, accuracy.tolerance, int(work), last.n_unsettled, held_out), vector
        )

    def is_stale(self, state: State) -> bool:
        """Tell whether held-out examples have not gained for too long."""
        return self._held_out is not None and state.stale >= self.settings.patience

    def is_last(self, state: State) -> bool:
        """Tell whether inference is as accurate as it will be."""
        return state.stage == len(self.stages) - 1

    def enough(self, state: State) -> float:
        """Return the largest number of a derivative at which the stage is over."""
        if self.is_last(state):
            return self.settings.gradient_tolerance
        return max(self.settings.gradient_tolerance, self.stages[state.stage].tolerance)


def stages_of(tolerance: float, loose: float | None, *, is_exact: bool) -> list[Accuracy]:
    """Return how accurate inference is, stage by stage; where it is exact, there is one."""
    found, own = [], loose
    while own is not None and own > tolerance and not is_exact:
        found.append(Accuracy(own, own))
        own *= FINER
    return [*found, Accuracy(tolerance)]


def by_lbfgs(training: Training, state: State) -> None:
    """Train until it is over; the state says why."""
    minimize = load_optional("scipy.optimize", "learn").minimize
    while not state.ending:
        left = training.settings.max_iterations - state.first_row
        if left <= 0:
            state.ending = MOST_ITERATIONS
            break
        segment = _Segment(training, state)
        options = {
            "maxiter": min(SEGMENT, left),
            "maxcor": MEMORY,
            "gtol": training.settings.gradient_tolerance,
            "ftol": LEAST_GAIN,
            "maxls": TRIES if training.is_last(state) else FEW_TRIES,
        }
        found = minimize(
            segment.evaluate, state.vector, jac=True, method="L-BFGS-B", callback=segment.follow, options=options
        )
        _go_on(training, state, found)
    training.watch(state)


def _go_on(training: Training, state: State, found: Any) -> None:
    """Decide what follows a segment.

    A line search may fail where the accuracy, and with it the objective, has just changed: another one begins anew.
    """
    is_last = training.is_last(state)
    if training.is_stale(state):
        state.ending = NO_GAIN
    elif found.status == 0 or (found.status == ABNORMAL and found.nit == 0):
        if not is_last:
            state.stage += 1
        else:
            flat = float(np.abs(found.jac).max()) <= max(training.settings.gradient_tolerance, FLAT * abs(found.fun))
            state.ending = CONVERGED if flat else NO_LOWER
    state.begin_anew(np.asarray(found.x))


class _Segment:
    """The calls of one optimiser; those that were recorded are answered from the record."""

    def __init__(self, training: Training, state: State) -> None:
        """Begin where the state says."""
        self._training, self._state = training, state
        self._n_calls = self._n_noted = self._n_steps = 0

    def evaluate(self, vector: FloatArray) -> tuple[float, FloatArray]:
        """Return the objective and its derivative."""
        state, own = self._state, digest(vector)
        if self._n_calls == len(state.tape):
            accuracy = self._training.stages[state.stage]
            state.tape.append(self._training.objective.evaluate(vector, accuracy))
            state.digests.append(own)
        elif state.digests[self._n_calls] != own:
            msg = "the checkpoint was written by another version of SciPy or NumPy, or on another machine: remove it"
            raise OptionError(msg)
        found = state.tape[self._n_calls]
        self._n_calls += 1
        return found.value, found.gradient.copy()

    def follow(self, intermediate_result: Any) -> None:
        """Write down a step that is not on the record yet; end if there is nothing to gain."""
        state, training = self._state, self._training
        work = sum(own.work for own in state.tape[self._n_noted : self._n_calls])
        self._n_noted = self._n_calls
        self._n_steps += 1
        if self._n_steps > len(state.rows) - state.first_row:
            training.note(state, intermediate_result.x, state.tape[self._n_calls - 1], work)
            state.stage += not training.is_last(state) and state.rows[-1].gradient <= training.enough(state)
            training.watch(state)
        if self._n_steps == len(state.rows) - state.first_row and training.is_stale(state):
            raise StopIteration


def by_adam(training: Training, state: State, parts: Sequence[Objective]) -> None:
    """Train until it is over; the state says why.

    Args:
        training: Its objective is not asked.
        state: Where it stands.
        parts: The objective on parts of the examples, each of which makes a step.
    """
    settings, n_all = training.settings, sum(part.n_examples for part in parts)
    while not state.ending:
        n_passes = len(state.rows)
        if n_passes >= settings.max_iterations:
            state.ending = MOST_ITERATIONS
            training.watch(state)
            break
        accuracy = training.stages[state.stage]
        vector, work, value, unsettled, exact = state.vector, 0, 0.0, 0, True
        for k in np.random.default_rng([settings.seed, n_passes]).permutation(len(parts)).tolist():
            found = parts[k].evaluate(vector, accuracy, n_all)
            vector = _adam_step(state, vector, found.gradient, settings.learning_rate)
            value += found.value * parts[k].n_examples / n_all
            work, unsettled, exact = work + found.work, unsettled + found.n_unsettled, exact and found.is_exact
        mean = state.moments[0] / (1.0 - FIRST_MOMENT**state.steps)
        state.vector, is_small = vector, float(np.abs(mean).max()) <= training.enough(state)
        training.note(state, vector, Evaluation(value, mean, work, unsettled, exact), work)
        if training.is_stale(state):
            state.ending = NO_GAIN
        elif is_small and training.is_last(state):
            state.ending = CONVERGED
        else:
            state.stage += is_small
        training.watch(state)


def _adam_step(state: State, vector: FloatArray, gradient: FloatArray, rate: float) -> FloatArray:
    """Return the weights after one step; the moments are new arrays, as those of a saved state must stay."""
    first, second = state.moments
    state.moments = np.stack(
        [
            FIRST_MOMENT * first + (1.0 - FIRST_MOMENT) * gradient,
            SECOND_MOMENT * second + (1.0 - SECOND_MOMENT) * gradient**2,
        ]
    )
    state.steps += 1
    first = state.moments[0] / (1.0 - FIRST_MOMENT**state.steps)
    second = state.moments[1] / (1.0 - SECOND_MOMENT**state.steps)
    moved: FloatArray = vector - rate * first / (np.sqrt(second) + TINY)
    return moved
