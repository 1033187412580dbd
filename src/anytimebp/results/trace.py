"""The figures of a run over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar, get_type_hints

import numpy as np
import numpy.typing as npt

from anytimebp.optional import load_optional

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl


class Moment(NamedTuple):
    """The figures of one recorded moment of a run.

    Attributes:
        seconds: Time of the run so far, without the time spent in the caller.
        updates: Factor updates so far.
        work: Table entries read or scored so far.
        max_residual: Largest residual, in nats.
        mean_residual: Mean residual over the factors, in nats.
        damping: Damping at that moment.
        states: Number of active states, summed over variables.
        log_z: Bethe estimate of log Z if a snapshot was made, otherwise NaN.
        estimated_error: Estimated distance to BP if it cost nothing or was asked for (see `Every`), otherwise NaN.
        choice: What `adaptive` does at that moment, and why; empty for other methods.
        unexplored_mass: Largest estimated belief outside a domain, over all variables, if it was asked for; otherwise
            NaN.

    Examples:
        >>> graph = abp.FactorGraph()
        >>> _ = graph.add_variables(3, 4)
        >>> _ = graph.add_factors([[0, 1], [1, 2], [0, 2]], log_table=np.eye(4))
        >>> last = abp.infer(graph, "bp").trace[-1]
        >>> last.states, last.max_residual < 1e-8
        (12, True)
    """

    seconds: float
    updates: int
    work: int
    max_residual: float
    mean_residual: float
    damping: float
    states: int
    log_z: float
    estimated_error: float = float("nan")
    choice: str = ""
    unexplored_mass: float = float("nan")


Row = TypeVar("Row", bound=tuple[Any, ...])


class Rows(tuple[Row, ...]):
    """Figures of several moments, in order. Subclasses say of which type a moment is."""

    __slots__ = ()
    row: ClassVar[Any]

    def column(self, name: str) -> npt.NDArray[Any]:
        """Return one figure of all moments as an array of floats, or of text for `choice`."""
        kind = np.str_ if name == "choice" else np.float64
        return np.array([getattr(moment, name) for moment in self], dtype=kind)

    def to_pandas(self) -> pd.DataFrame:
        """Return the moments as a pandas data frame with one column per figure. Needs pandas."""
        pandas = load_optional("pandas")
        frame: pd.DataFrame = pandas.DataFrame(list(self), columns=list(self.row._fields))
        return frame

    def to_polars(self) -> pl.DataFrame:
        """Return the moments as a polars data frame with one column per figure. Needs polars."""
        polars = load_optional("polars")
        frame: pl.DataFrame = polars.DataFrame(list(self), schema=get_type_hints(self.row), orient="row")
        return frame

    def __repr__(self) -> str:
        """Return one line."""
        return f"<trace of {len(self)} moments>"


class Trace(Rows[Moment]):
    """The recorded moments of a run, in order: a tuple of `Moment`.

    Examples:
        >>> graph = abp.FactorGraph()
        >>> _ = graph.add_variables(3, 4)
        >>> _ = graph.add_factors([[0, 1], [1, 2], [0, 2]], log_table=np.eye(4))
        >>> trace = abp.infer(graph, "bp").trace
        >>> bool((np.diff(trace.column("seconds")) >= 0).all())
        True
    """

    __slots__ = ()
    row = Moment
