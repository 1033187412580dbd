"""Every exception and warning of the library. One base class, so that one `except` catches them all."""

import sys
import warnings
from types import FrameType
from typing import Any


class AnytimeBPError(Exception):
    """Base of all errors raised on purpose by this library."""


class ModelError(AnytimeBPError, ValueError):
    """The stated model is malformed: a wrong shape, a NaN, a duplicate name, an empty universe, ..."""


class EvidenceError(AnytimeBPError, ValueError):
    """Evidence names an unknown variable or state, or its scores do not fit the universe."""


class FailedRunError(AnytimeBPError):
    """Base of the errors that a user's function can cause in the middle of a run.

    Attributes:
        snapshot: The last consistent `Snapshot` of the run, or None if there was none yet. Its `unexplored_mass` may
            ask rules again, so it is not pickled with the error.
    """

    snapshot: Any = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Leave the snapshot out."""
        return type(self), self.args


class OptionError(FailedRunError, ValueError):
    """An option of a run has a value that it cannot take, or a growth policy gives one."""


class RuleError(FailedRunError):
    """A rule factor's function raised, or returned something that is not a block of log scores."""


class InconsistentModelError(AnytimeBPError):
    """No joint state is possible: a factor is zero everywhere, or messages vanish."""


class InternalError(AnytimeBPError):
    """A defect of this library: a result that would have been wrong was held back. Please report it."""


class MemoryLimitError(AnytimeBPError, MemoryError):
    """The run would need more memory than the machine, or `max_memory`, has."""


class UnknownVariableError(AnytimeBPError, KeyError):
    """No variable of that name; also a KeyError, so that mappings behave as mappings do."""

    def __str__(self) -> str:
        """Return the plain message; KeyError would show its repr."""
        return str(self.args[0])


class UnknownFactorError(AnytimeBPError, KeyError):
    """No factor of that name or index."""

    def __str__(self) -> str:
        """Return the plain message; KeyError would show its repr."""
        return str(self.args[0])


class UnknownStateError(AnytimeBPError, KeyError):
    """A variable has no state of that label."""

    def __str__(self) -> str:
        """Return the plain message; KeyError would show its repr."""
        return str(self.args[0])


class FormatError(AnytimeBPError, ValueError):
    """A file cannot be read or written as what its name says; names the file and, where there is one, the line.

    Attributes:
        path: Of the file.
        line: Number of the line, from 1; None where the file as a whole is at fault.
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
    """A file was read, but a conditional distribution in it does not sum to 1; the numbers are kept as given."""


class DroppedWarning(UserWarning):
    """A file was written, but its format cannot hold everything; the text says what is missing."""


class NotConvergedWarning(UserWarning):
    """The marginals of a run are not those of a fixed point; the stop reason says why."""


class UncertainResultWarning(UserWarning):
    """A run ended with marginals that may be far from those of belief propagation, by its own estimate."""


class ModelWarning(UserWarning):
    """The model or the evidence is valid, but is probably not what was meant."""


class UnconnectedVariableWarning(ModelWarning):
    """Variables have neither a factor nor evidence, so that their marginals are uniform."""


class KernelCacheWarning(UserWarning):
    """Compiled kernels cannot be kept on disk, so every process compiles them; the text says where, and what to do."""


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
