"""Every exception and warning of the library. One base class, so that one `except` catches them all."""

import sys
import warnings
from types import FrameType
from typing import Any


class AnytimeBPError(Exception):
    """Base class of all errors that this library raises on purpose."""


class ModelError(AnytimeBPError, ValueError):
    """The stated model is malformed: a wrong shape, a NaN, a duplicate name, an empty universe, ..."""


class EvidenceError(AnytimeBPError, ValueError):
    """Evidence names an unknown variable or state, or its scores do not fit the universe."""


class FailedRunError(AnytimeBPError):
    """Base of the errors that a user's function can cause in the middle of a run.

    Attributes:
        snapshot: The last consistent `Snapshot` of the run, or None if there was none yet. It is not pickled with the
            error, because its `unexplored_mass` may call rules again.
    """

    snapshot: Any = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Leave the snapshot out."""
        return type(self), self.args


class OptionError(FailedRunError, ValueError):
    """An option has an invalid value, options contradict each other, or a growth policy returned something invalid."""


class RuleError(FailedRunError):
    """The function of a rule factor raised an error, or returned something other than an array of log scores."""


class InconsistentModelError(AnytimeBPError):
    """No joint state is possible: a factor is zero everywhere, or the factors contradict each other."""


class InternalError(AnytimeBPError):
    """A defect of this library: it found that its own result was wrong. Please report it."""


class MemoryLimitError(AnytimeBPError, MemoryError):
    """The run would need more memory than the machine has, or than `max_memory` allows."""


class UnknownVariableError(AnytimeBPError, KeyError):
    """No variable has that name. Also a KeyError, so that mappings of marginals behave like any mapping."""

    def __str__(self) -> str:
        """Return the plain message; KeyError would show its repr."""
        return str(self.args[0])


class UnknownFactorError(AnytimeBPError, KeyError, IndexError):
    """No factor has that name or index."""

    def __str__(self) -> str:
        """Return the plain message; KeyError would show its repr."""
        return str(self.args[0])


class UnknownStateError(AnytimeBPError, KeyError):
    """A variable has no state with that label."""

    def __str__(self) -> str:
        """Return the plain message; KeyError would show its repr."""
        return str(self.args[0])


class FormatError(AnytimeBPError, ValueError):
    """A file cannot be read or written in the format that its name says.

    Attributes:
        path: Path of the file.
        line: Line number, from 1; None if the error is not about one line.
    """

    def __init__(self, path: object, message: str, line: int | None = None) -> None:
        """Hold where and what."""
        super().__init__(path, message, line)
        self.path = str(path)
        self.line = line
        self.message = message

    def __str__(self) -> str:
        """Return file, line and message."""
        place = self.path if self.line is None else f"{self.path}, line {self.line}"
        return f"{place}: {self.message}"


class DistributionWarning(UserWarning):
    """A file was read, but a conditional distribution in it does not sum to 1. The numbers are kept as they are."""


class DroppedWarning(UserWarning):
    """A file was written, but its format cannot hold the whole model. The text says what is missing."""


class NotConvergedWarning(UserWarning):
    """A run did not converge: its marginals are not those of a fixed point. The stop reason says why."""


class UncertainResultWarning(UserWarning):
    """A run estimates that its marginals may be far from those of belief propagation."""


class ModelWarning(UserWarning):
    """The model or the evidence is valid, but probably not what you meant."""


class UnconnectedVariableWarning(ModelWarning):
    """Some variables have neither a factor nor evidence, so their marginals are uniform."""


class KernelCacheWarning(UserWarning):
    """Compiled kernels cannot be stored on disk, so every process compiles them. The text says what to do."""


def warn_caller(message: str, category: type[Warning]) -> None:
    """Warn at the line outside of this library that has called it.

    Python shows a warning once per line and text, so a loop over many runs shows it once.
    """
    level = 1
    frame: FrameType | None = sys._getframe()  # noqa: SLF001  (how the warnings module itself does it)
    while frame and frame.f_globals.get("__name__", "").split(".")[0] == "anytimebp":
        frame = frame.f_back
        level += 1
    warnings.warn(message, category, level)


def no_joint_state(*, is_observed: bool) -> InconsistentModelError:
    """Return the error of a model whose every joint state some factor, or evidence if there is any, excludes."""
    given = " under this evidence" if is_observed else ""
    return InconsistentModelError(f"no joint state is possible{given}: every one has a factor that excludes it")
