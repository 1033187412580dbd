"""Marginals as tables of other libraries: pandas, polars, Arrow, xarray.

Decides the columns (variable, state, probability; a row per state of the whole universe) and the types of labels. The
libraries are imported when asked for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from anytimebp.errors import OptionError
from anytimebp.model.source import IndexArray
from anytimebp.model.variable import Labels, VariableBlock, VariableTable
from anytimebp.optional import load_optional
from anytimebp.results.marginals import Marginals

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import xarray as xr

ObjectArray: TypeAlias = npt.NDArray[np.object_]
INT64 = range(-(2**63), 2**63)


def row_names(variables: VariableTable) -> ObjectArray:
    """Return the name of each variable, once for each of its states."""
    return np.repeat(_objects(variables.names(), len(variables)), variables.sizes())


def label_texts(labels: Sequence[Hashable]) -> list[str]:
    """Return the labels of one variable as text: as `str` does, or as `repr` where two would be the same."""
    texts = [str(label) for label in labels]
    if len(set(texts)) == len(texts):
        return texts
    often = Counter(texts)
    told = [text if often[text] == 1 else repr(label) for text, label in zip(texts, labels, strict=True)]
    return told if len(set(told)) == len(told) else [repr(label) for label in labels]


def given_labels(blocks: Sequence[VariableBlock]) -> ObjectArray:
    """Return all labels as the user gave them."""
    return _objects(_each_label([(block.labels, block.n) for block in blocks]), _n_labels(blocks))


def typed_labels(blocks: Sequence[VariableBlock]) -> IndexArray | ObjectArray:
    """Return all labels as int64 if they are whole numbers that fit, otherwise each as text. Booleans are text."""
    if all(_are_whole(block.labels) for block in blocks):
        whole = _each_label([(block.labels, block.n) for block in blocks])
        return np.fromiter(whole, dtype=np.int64, count=_n_labels(blocks))
    return _objects(_each_label([(label_texts(block.labels), block.n) for block in blocks]), _n_labels(blocks))


def _are_whole(labels: Labels) -> bool:
    if isinstance(labels, range):
        return True
    whole = [label for label in labels if isinstance(label, int) and not isinstance(label, bool)]
    return len(whole) == len(labels) and min(whole) in INT64 and max(whole) in INT64


@contextmanager
def _naming_odd_text(marginals: Marginals) -> Iterator[None]:
    """Let errors about text that cannot be encoded, as halves of characters, name the variable."""
    try:
        yield
    except UnicodeEncodeError as error:
        odd = (v.name for v in marginals.variables if error.object in {v.name, *label_texts(v.labels)})
        msg = f"{error.object[:80]!r}, of variable {next(odd, '')!r}, cannot be encoded as text; rename it"
        raise OptionError(msg) from None


def to_pandas(marginals: Marginals) -> pd.DataFrame:
    """Return a pandas data frame; labels are as the user gave them."""
    pandas = load_optional("pandas")
    with _naming_odd_text(marginals):
        frame: pd.DataFrame = pandas.DataFrame(
            {
                "variable": row_names(marginals.listed),
                "state": pandas.Series(given_labels(marginals.listed.blocks), dtype=object),
                "probability": marginals.concatenated(),
            }
        )
    return frame


def to_polars(marginals: Marginals) -> pl.DataFrame:
    """Return a polars data frame."""
    polars = load_optional("polars")
    states = typed_labels(marginals.listed.blocks)
    with _naming_odd_text(marginals):
        frame: pl.DataFrame = polars.DataFrame(
            {
                "variable": polars.Series(row_names(marginals.listed).tolist(), dtype=polars.String),
                "state": states if states.dtype == np.int64 else polars.Series(states.tolist(), dtype=polars.String),
                "probability": marginals.concatenated(),
            }
        )
    return frame


def arrow_stream(marginals: Marginals, requested_schema: object | None) -> object:
    """Return a capsule with an Arrow stream, from pyarrow, or from polars where that alone is installed."""
    try:
        pa = load_optional("pyarrow", "arrow")
    except ModuleNotFoundError as missing:
        try:
            frame = to_polars(marginals)
        except ModuleNotFoundError:
            raise missing from None
        return frame.__arrow_c_stream__(requested_schema)
    states = typed_labels(marginals.listed.blocks)
    with _naming_odd_text(marginals):
        table = pa.table(
            {
                "variable": pa.array(row_names(marginals.listed), type=pa.string()),
                "state": pa.array(states, type=pa.int64() if states.dtype == np.int64 else pa.string()),
                "probability": marginals.concatenated(),
            }
        )
    return table.__arrow_c_stream__(requested_schema)


def to_xarray(marginals: Marginals) -> xr.DataArray:
    """Return an xarray array of shape (variables, states); refuse variables that do not share one universe."""
    xarray = load_optional("xarray")
    variables = marginals.listed
    labels = _shared_labels(variables)
    one = [block._replace(n=1) for block in variables.blocks[:1]]
    with _naming_odd_text(marginals):
        array: xr.DataArray = xarray.DataArray(
            marginals.concatenated().reshape(len(variables), len(labels)),
            dims=("variable", "state"),
            coords={"variable": _objects(variables.names(), len(variables)), "state": typed_labels(one)},
            name="probability",
        )
    return array


def _shared_labels(variables: VariableTable) -> Labels:
    blocks = variables.blocks
    shared: Labels = blocks[0].labels if blocks else ()
    for block in blocks:
        if not _same_labels(block.labels, shared):
            msg = (
                f"to_xarray: the variables do not share one universe: {variables.name(block.first)!r} has the states "
                f"{_shown(block.labels)}, {variables.name(0)!r} has {_shown(shared)}; use a table, as to_pandas makes"
            )
            raise OptionError(msg)
    return shared


def _same_labels(one: Labels, other: Labels) -> bool:
    """Tell whether two universes have the same labels; 1, 1.0 and True count as different, though equal in Python."""
    if one is other or (isinstance(one, range) and one == other):
        return True
    return len(one) == len(other) and all(type(a) is type(b) and a == b for a, b in zip(one, other, strict=True))


def _shown(labels: Labels) -> str:
    return ", ".join([*map(repr, labels[:4]), *(["..."] if len(labels) > 4 else [])])  # noqa: PLR2004


def _each_label(blocks: Iterable[tuple[Sequence[Any], int]]) -> Iterable[Any]:
    """Go through the labels of so many variables each."""
    return chain.from_iterable(chain.from_iterable(repeat(labels, n)) for labels, n in blocks)


def _n_labels(blocks: Sequence[VariableBlock]) -> int:
    return sum(block.n * len(block.labels) for block in blocks)


def _objects(items: Iterable[Any], count: int) -> ObjectArray:
    """Return items as an array of objects; tuples stay whole."""
    return np.fromiter(items, dtype=object, count=count)
