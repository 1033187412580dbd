"""The figures of a run over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, get_type_hints

import numpy as np
import numpy.typing as npt

from anytimebp.optional import load_optional

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl


class Moment(NamedTuple):
    """The figures of one recorded moment.

    Attributes:
        seconds: Time of the run so far, without the caller's.
        updates: Factor updates so far.
        work: Table entries read or scored so far.
        max_residual: Largest residual, in nats.
        mean_residual: Mean residual over the factors, in nats.
        damping: In force at that moment.
        states: Active states of all variables together.
        log_z: Bethe estimate, where a snapshot was made; NaN elsewhere.
        estimated_error: Where it is known without further work, or was asked for (see `Every`); NaN elsewhere.
        choice: What `adaptive` does at that moment, and why; empty for other methods.
        unexplored_mass: Largest, over variables, estimated belief outside the domain, where it was asked for; NaN
            elsewhere.
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


class Trace(tuple[Moment, ...]):
    """Recorded moments in order."""

    __slots__ = ()

    def column(self, name: str) -> npt.NDArray[Any]:
        """Return one figure over all moments, as floats; `choice` as text."""
        kind = np.str_ if name == "choice" else np.float64
        return np.array([getattr(moment, name) for moment in self], dtype=kind)

    def to_pandas(self) -> pd.DataFrame:
        """Return the moments as a data frame, a column per figure and one of text, `choice`. Needs pandas."""
        pandas = load_optional("pandas")
        frame: pd.DataFrame = pandas.DataFrame(list(self), columns=list(Moment._fields))
        return frame

    def to_polars(self) -> pl.DataFrame:
        """Return the moments as a polars data frame, a column per figure and one of text. Needs polars."""
        polars = load_optional("polars")
        frame: pl.DataFrame = polars.DataFrame(list(self), schema=get_type_hints(Moment), orient="row")
        return frame

    def __repr__(self) -> str:
        """Return one line."""
        return f"<trace of {len(self)} moments>"
