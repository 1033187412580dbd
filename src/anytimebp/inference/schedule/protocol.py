"""What a schedule is to a method."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeAlias

from anytimebp.kernels.codes import OK
from anytimebp.layout.graph_layout import GraphLayout
from anytimebp.tables.arrays import WorkspaceArrays


class Messages(Protocol):
    """What messages are passed on: a workspace, or the core of one."""

    @property
    def layout(self) -> GraphLayout:
        """Topology."""
        ...

    @property
    def arrays(self) -> WorkspaceArrays:
        """What kernels write."""
        ...


Swept: TypeAlias = tuple[int, int, float, float]
"""A whole sweep: updates, entries read, largest and mean residual."""


class Progress(NamedTuple):
    """What one slice of updates did.

    Attributes:
        status: A status code of the kernels.
        culprit: The variable or message factor that vanished or went out of range, or -1.
        updates: Factor updates made.
        work: Table entries read.
        end_of_sweep: Whether a sweep, or as many updates as one has, is through.
        converged: Whether nothing moves any more; known at the end of a sweep.
        max_residual: Of the sweep, once it is through.
        mean_residual: Of the sweep, once it is through.
        earlier: Sweeps of the same slice that were through before; not counted in what is reported here.
    """

    status: int
    culprit: int
    updates: int
    work: int
    end_of_sweep: bool = False
    converged: bool = False
    max_residual: float = float("inf")
    mean_residual: float = float("inf")
    earlier: Sequence[Swept] = ()


def whole_sweep(
    updates: int, work: int, *, converged: bool, largest: float, mean: float, earlier: Sequence[Swept] = ()
) -> Progress:
    """Return the progress of a slice that has completed a sweep, with the residuals of that sweep."""
    return Progress(OK, -1, updates, work, True, converged, largest, mean, earlier)  # noqa: FBT003


class Schedule(Protocol):
    """Picks the factors to update."""

    def advance(self, update_limit: int, cost_limit: int, damping: float) -> Progress:
        """Make some updates: at most so many, and reading about so many entries."""
        ...
