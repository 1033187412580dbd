"""The options of a run, checked before any work is done."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from anytimebp.errors import OptionError
from anytimebp.inference.methods import GROWING_METHODS, IN_PARTS, METHODS
from anytimebp.inference.recording import Every, read_record
from anytimebp.model.evidence import Observation
from anytimebp.model.source import IndexArray
from anytimebp.paper.policy import GrowthPolicy

RandomLike: TypeAlias = int | np.random.Generator | np.random.BitGenerator | np.random.SeedSequence | None

NUMBERS, COUNTS = (int, float, np.integer, np.floating), (int, np.integer)  # made once: a union takes a microsecond

SCHEDULES = ("sequential", "random")
WORKERS = ("threads", "ray")


@dataclass(kw_only=True)  # not frozen, which would cost each run some microseconds; nobody changes them
class RunOptions:
    """What a run is asked to do; `infer` documents each."""

    method: str
    observed: dict[int, Observation]
    tolerance: float
    max_memory: int | None
    rng: RandomLike
    schedule: str
    damping: float
    record: Every | str
    factor_marginals: bool
    grow: int
    fraction: float
    policy: GrowthPolicy | None
    threads: int | None
    targets: IndexArray | None = None
    parts: int | None = None
    workers: str = "threads"

    def __post_init__(self) -> None:
        """Raise OptionError for what cannot be."""
        _check_choice("method", self.method, METHODS)
        _check_choice("schedule", self.schedule, SCHEDULES)
        read_record(self.record)
        if not isinstance(self.factor_marginals, bool | np.bool_):
            msg = f"factor_marginals must be True or False, got {self.factor_marginals!r}"
            raise OptionError(msg)
        self._check_growth()
        self._check_parts()
        if self.targets is not None and self.factor_marginals:
            msg = "`targets` cannot be combined with `factor_marginals=True`"
            raise OptionError(msg)
        check_number("tolerance", self.tolerance, above=0.0)
        if not (_is_number(self.damping) and 0.0 <= self.damping < 1.0):
            msg = f"damping must be a number from 0 up to, but not including, 1, got {self.damping!r}"
            raise OptionError(msg)
        if self.max_memory is not None:
            check_number("max_memory", self.max_memory, above=0.0)
        if not (self.rng is None or isinstance(self.rng, np.random.Generator)):
            self.generator()
        # kernels are compiled for these types: others, such as whole numbers, would have them compiled again
        self.tolerance, self.damping = float(self.tolerance), float(self.damping)
        self.factor_marginals = bool(self.factor_marginals)

    def _check_growth(self) -> None:
        """Raise OptionError for growth options that make no sense, alone or with the method."""
        _check_count("grow", self.grow)
        if not (_is_number(self.fraction) and 0.0 < self.fraction <= 1.0):
            msg = f"fraction must be a number above 0 and at most 1, got {self.fraction!r}"
            raise OptionError(msg)
        if self.policy is None:
            return
        if self.method not in (*GROWING_METHODS, "adaptive", "auto"):
            msg = f"policy is for the methods that grow ({', '.join(GROWING_METHODS)}), not for {self.method!r}"
            raise OptionError(msg)
        missing = [name for name in ("first_states", "scores", "rescores") if not hasattr(self.policy, name)]
        if missing or isinstance(self.policy, type):
            what = "is a class, not an object of it" if isinstance(self.policy, type) else f"has no {missing[0]}"
            msg = f"policy must have first_states, scores and rescores (see GrowthPolicy); {self.policy!r} {what}"
            raise OptionError(msg)

    def _check_parts(self) -> None:
        """Raise OptionError for parts or workers that cannot be, and for parts with a method that does not have any."""
        if self.threads is not None:
            _check_count("threads", self.threads)
        _check_choice("workers", self.workers, WORKERS)
        on_ray = self.workers == "ray"
        if self.parts is None:
            if on_ray:
                msg = 'workers="ray" is for a graph in parts: say how many `parts`, two to four a worker'
                raise OptionError(msg)
            return
        _check_count("parts", self.parts)
        if (on_ray or self.parts > 1) and (self.method not in IN_PARTS or self.policy is not None):
            own = "a growth policy" if self.policy is not None else f"method {self.method!r}"
            msg = f"{own} does not run in parts, got parts={self.parts}; methods that do: {', '.join(IN_PARTS)}"
            raise OptionError(msg)
        if on_ray and self.factor_marginals:
            msg = 'factor_marginals=True does not go with workers="ray"; runs in threads have them'
            raise OptionError(msg)

    @property
    def has_parts(self) -> bool:
        """Whether sweeps go over several parts."""
        return (self.parts or 1) > 1

    @property
    def n_threads(self) -> int:
        """Threads that sweep over the parts of a graph; 1 without parts."""
        if self.parts is None or not self.has_parts:
            return 1
        return min(self.parts, self.threads or usable_cores())

    def for_method(self, method: str) -> RunOptions:
        """Return the same options, which have been checked, for another method."""
        twin = RunOptions.__new__(RunOptions)
        vars(twin).update(vars(self), method=method)
        return twin

    def for_part(self, observed: dict[int, Observation]) -> RunOptions:
        """Return the options of lazy sweeps on a part of the graph, under evidence of its own."""
        twin = self.for_method("adaptive")
        vars(twin).update(observed=observed, targets=None, parts=None, workers="threads", threads=None)
        return twin

    def residual_on(self, observed: dict[int, Observation]) -> RunOptions:
        """Return the options of residual BP under other evidence."""
        twin = self.for_method("residual")
        vars(twin).update(observed=observed)
        return twin

    def generator(self) -> np.random.Generator:
        """Return the random generator of the run (SPEC 7)."""
        try:
            return np.random.default_rng(self.rng)
        except (TypeError, ValueError) as error:
            msg = f"rng must be None, a whole number, or a NumPy generator or seed, got {self.rng!r} ({error})"
            raise OptionError(msg) from None


def usable_cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def check_number(name: str, value: object, above: float) -> None:
    """Raise OptionError unless the value is a number greater than `above`; infinity passes."""
    if not (_is_number(value) and value > above):  # type: ignore[operator]
        msg = f"{name} must be a number greater than {above:g}, got {value!r}"
        raise OptionError(msg)


def check_budget(
    seconds: float | None,
    max_updates: int | None,
    max_work: int | None,
    target_error: float | None,
    callback: object,
    watch: object,
) -> None:
    """Raise OptionError for a budget that is not a number of at least zero, or a callback that cannot be called."""
    if seconds is max_updates is max_work is target_error is callback is watch is None:
        return
    if seconds is not None and not (_is_number(seconds) and seconds >= 0):
        msg = f"seconds must be a number of at least 0, got {seconds!r}"
        raise OptionError(msg)
    for name, value in (("max_updates", max_updates), ("max_work", max_work)):
        if value is not None and not (_is_number(value) and value >= 0 and (value == math.inf or value % 1 == 0)):
            msg = f"{name} must be a whole number of at least 0, got {value!r}"
            raise OptionError(msg)
    if target_error is not None:
        check_number("target_error", target_error, above=0.0)
    for name, function in (("callback", callback), ("watch", watch)):
        if function is not None and not callable(function):
            msg = f"{name} must be a function of one argument, got {function!r}"
            raise OptionError(msg)


def _is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, NUMBERS):
        return False
    try:
        return not math.isnan(value)
    except OverflowError:  # a whole number beyond all floats
        return False


def _check_count(name: str, value: object) -> None:
    if not isinstance(value, COUNTS) or isinstance(value, bool) or value < 1:
        msg = f"{name} must be a whole number of at least 1, got {value!r}"
        raise OptionError(msg)


def _check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    if not isinstance(value, str) or value not in choices:
        msg = f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}"
        raise OptionError(msg)
