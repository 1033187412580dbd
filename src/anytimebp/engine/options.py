"""The options of a run, checked before any work is done."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from anytimebp.errors import OptionError
from anytimebp.model.evidence import Observation

RandomLike: TypeAlias = int | np.random.Generator | np.random.BitGenerator | np.random.SeedSequence | None

METHODS = ("bp", "residual")
"""The methods, by the names that `infer` takes."""

SCHEDULES = ("sequential", "random")
RECORDS = ("sweep", "end")


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """What a run is asked to do; `infer` documents each."""

    method: str
    observed: dict[int, Observation]
    tolerance: float
    max_memory: int | None
    rng: RandomLike
    schedule: str
    damping: float
    record: str
    factor_marginals: bool

    def __post_init__(self) -> None:
        """Raise OptionError for what cannot be."""
        _check_choice("method", self.method, METHODS)
        _check_choice("schedule", self.schedule, SCHEDULES)
        _check_choice("record", self.record, RECORDS)
        check_number("tolerance", self.tolerance, above=0.0)
        if not (_is_number(self.damping) and 0.0 <= self.damping < 1.0):
            msg = f"damping must be a number from 0 up to, but not including, 1, got {self.damping!r}"
            raise OptionError(msg)
        if self.max_memory is not None:
            check_number("max_memory", self.max_memory, above=0.0)
        if not (self.rng is None or isinstance(self.rng, np.random.Generator)):
            self.generator()
        # kernels are compiled for floats: a whole number would have them compiled again
        object.__setattr__(self, "tolerance", float(self.tolerance))
        object.__setattr__(self, "damping", float(self.damping))

    def generator(self) -> np.random.Generator:
        """Return the random generator of the run (SPEC 7)."""
        try:
            return np.random.default_rng(self.rng)
        except (TypeError, ValueError) as error:
            msg = f"rng must be None, a whole number, or a NumPy generator or seed, got {self.rng!r} ({error})"
            raise OptionError(msg) from None


def check_number(name: str, value: object, above: float) -> None:
    """Raise OptionError unless the value is a number greater than `above`; infinity passes."""
    if not (_is_number(value) and value > above):  # type: ignore[operator]
        msg = f"{name} must be a number greater than {above:g}, got {value!r}"
        raise OptionError(msg)


def check_budget(seconds: float | None, max_updates: int | None, callback: object) -> None:
    """Raise OptionError for a budget that is not a number of at least zero, or a callback that cannot be called."""
    if seconds is not None and not (_is_number(seconds) and seconds >= 0):
        msg = f"seconds must be a number of at least 0, got {seconds!r}"
        raise OptionError(msg)
    if max_updates is not None and not (
        _is_number(max_updates) and max_updates >= 0 and max_updates == int(max_updates)
    ):
        msg = f"max_updates must be a whole number of at least 0, got {max_updates!r}"
        raise OptionError(msg)
    if callback is not None and not callable(callback):
        msg = f"callback must be a function of a snapshot, got {callback!r}"
        raise OptionError(msg)


def _is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        return False
    return not math.isnan(value)


def _check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    if not isinstance(value, str) or value not in choices:
        msg = f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}"
        raise OptionError(msg)
