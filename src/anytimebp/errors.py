"""Every exception and warning of the library. One base class, so that one `except` catches them all."""


class AnytimeBPError(Exception):
    """Base of all errors raised on purpose by this library."""


class ModelError(AnytimeBPError, ValueError):
    """The stated model is malformed: a wrong shape, a NaN, a duplicate name, an empty universe, ..."""


class EvidenceError(AnytimeBPError, ValueError):
    """Evidence names an unknown variable or state, or its scores do not fit the universe."""


class OptionError(AnytimeBPError, ValueError):
    """An option of a run has a value that it cannot take."""


class RuleError(AnytimeBPError):
    """A rule factor's function raised, or returned something that is not a block of log scores."""


class InconsistentModelError(AnytimeBPError):
    """No joint state is possible: a factor is zero everywhere, or messages vanish."""


class MemoryLimitError(AnytimeBPError, MemoryError):
    """The run would need more memory than the machine, or `max_memory`, has."""


class UnknownVariableError(AnytimeBPError, KeyError):
    """No variable of that name; also a KeyError, so that mappings behave as mappings do."""

    def __str__(self) -> str:
        """Return the plain message; KeyError would show its repr."""
        return str(self.args[0])


class UnknownStateError(AnytimeBPError, KeyError):
    """A variable has no state of that label."""

    def __str__(self) -> str:
        """Return the plain message; KeyError would show its repr."""
        return str(self.args[0])


class NotConvergedWarning(UserWarning):
    """The marginals of a run are not those of a fixed point; the stop reason says why."""
