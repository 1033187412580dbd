"""What to record, as a value."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from anytimebp.errors import OptionError
from anytimebp.inference.budget import Stopwatch
from anytimebp.inference.figures import UNLIMITED
from anytimebp.results.snapshot import Snapshot

GROWTH_BETWEEN_LOOKS = 4 / 3  # of all active states: looking costs about as much as scoring every candidate


@dataclass(frozen=True, kw_only=True)
class Every:
    """How often a run records a moment in the trace and makes a snapshot for the callback or the loop.

    Give exactly one of `rounds`, `states`, `seconds` and `growth`. For `bp` and `residual`, a round
    is a sweep; no states join there.

    Attributes:
        rounds: Record after this many rounds.
        states: Record after this many states have joined a domain.
        seconds: Record after this many seconds of the run, at the end of the current round.
        growth: Record whenever the number of active states has grown by this factor. This gives a few dozen moments,
            however long the run is.
        estimates: Whether the trace also keeps figures that take time to compute: log Z of every recorded moment, and
            the unexplored mass and the estimated error. The last two are computed if they cost next to nothing, and
            otherwise whenever the domains have grown by a third. `write_report` draws all of them.

    Examples:
        >>> graph = abp.FactorGraph()
        >>> _ = graph.add_variables(3, 4)
        >>> _ = graph.add_factors([[0, 1], [1, 2], [0, 2]], log_table=np.eye(4))
        >>> result = abp.infer(graph, "bp", record=abp.Every(rounds=1, estimates=True))
        >>> bool(np.isfinite(result.trace[-1].log_z))
        True
    """

    rounds: int | None = None
    states: int | None = None
    seconds: float | None = None
    growth: float | None = None
    estimates: bool = False

    def __post_init__(self) -> None:
        """Raise OptionError unless one number is given and makes sense."""
        given = {name: value for name, value in vars(self).items() if value is not None and name != "estimates"}
        if len(given) != 1:
            msg = f"Every takes one of rounds, states, seconds and growth, got {given or 'none'}"
            raise OptionError(msg)
        name, value = next(iter(given.items()))
        whole = name in {"rounds", "states"}
        least = 1 if name == "growth" else 0
        kinds = int | np.integer if whole else int | float | np.integer | np.floating
        if isinstance(value, bool) or not isinstance(value, kinds) or not value > least:
            kind = "a whole number of at least 1" if whole else f"a number greater than {least}"
            msg = f"Every({name}=...) must be {kind}, got {value!r}"
            raise OptionError(msg)
        if not isinstance(self.estimates, bool):
            msg = f"Every(estimates=...) must be True or False, got {self.estimates!r}"
            raise OptionError(msg)


EVERY_ROUND = Every(rounds=1)


def read_record(record: object) -> Every | None:
    """Return when to record, None for at the end only."""
    if isinstance(record, Every):
        return record
    if isinstance(record, str) and record in {"round", "sweep"}:
        return EVERY_ROUND
    if isinstance(record, str) and record == "end":
        return None
    msg = f'record must be "round", "sweep", "end", or an Every(rounds=, states=, seconds= or growth=), got {record!r}'
    raise OptionError(msg)


class Recorder:
    """Knows when the next recording is due, and when to look at estimates: by counts, never by the clock."""

    def __init__(self, every: Every | None) -> None:
        """Record at the first occasion."""
        self._every = every
        self._rounds = 0
        self._states = 0
        self._seconds = 0.0
        self._next_look = 0.0
        self.keeps_estimates = every is not None and every.estimates

    def limits(self, clock: Stopwatch) -> tuple[int, int]:
        """Return how many rounds and how many states a run may reach before it must report."""
        every = self._every
        if every is None:
            return UNLIMITED, UNLIMITED
        if every.rounds is not None:
            return self._rounds + every.rounds, UNLIMITED
        if every.states is not None:
            return UNLIMITED, self._states + every.states
        if every.growth is not None:
            return UNLIMITED, max(self._states + 1, math.ceil(min(self._states * every.growth, UNLIMITED)))
        return (0 if clock.seconds >= self._seconds else UNLIMITED), UNLIMITED

    def is_due(self, rounds: int, states: int, clock: Stopwatch) -> bool:
        """Tell whether the end of a round is to be recorded, and if so, take note of it."""
        if self._every is EVERY_ROUND and rounds > self._rounds:  # as in most runs
            self._rounds, self._states = rounds, states
            return True
        most_rounds, most_states = self.limits(clock)
        if rounds < most_rounds and states < most_states:
            return False
        self._rounds, self._states = rounds, states
        if self._every is not None and self._every.seconds is not None:
            self._seconds = clock.seconds + self._every.seconds
        return True

    def is_worth_a_look(self, snapshot: Snapshot) -> bool:
        """Tell whether to ask a snapshot for its unexplored mass and estimated error, and if so, take note of it."""
        states = int(snapshot.domain_sizes.sum())
        if not self.keeps_estimates or (states < self._next_look and callable(snapshot.outside)):
            return False
        self._next_look = GROWTH_BETWEEN_LOOKS * states
        return True
