"""Messages of factors that are no tables, each kind by sums of its own: the one that calls them, and their list.

Each fills `outgoing` from `incoming` as `contract` does with a table, in linear arithmetic or in logs, at a cost of its
entries or of its variables' states. What a factor is made of lies at `table_address` in words of 8 bytes, which
`Packed.words` writes (`model/source.py`). New sums are a module like `differences.py`, and here a code, its name in
`SUMS` and a branch of `_through_structure`.

Updates call all this by its address (`send`), so that runs without structures neither load nor compile any of it. What
it needs lies in a row of whole numbers, `bp.structure_inputs`: the function, the factor, the arithmetic, and where the
arrays of a `StructureInputs` are and how long.
"""

from functools import cache
from typing import NamedTuple

import numpy as np

from anytimebp.kernels.at_most_one import through_at_most_one
from anytimebp.kernels.differences import through_difference
from anytimebp.kernels.jit import Callback, call, callback, index_view, kernel, table_view
from anytimebp.kernels.lists import through_list

LISTED, DIFFERENCE, AT_MOST_ONE = 1, 2, 3  # 0 is TABLE
SUMS = {"list": LISTED, "difference": DIFFERENCE, "at_most_one": AT_MOST_ONE}
"""By the name that a factor kind gives its sums, the code by which updates know them."""

FUNCTION, FACTOR, ARITHMETIC, ARRAYS = 0, 1, 2, 3  # places in a inputs; then addresses and lengths of arrays


class StructureInputs(NamedTuple):
    """What structures need of a layout and a workspace, in the order in which a inputs lists them."""

    factor_edge_start: np.ndarray
    edge_variable: np.ndarray
    domain_size: np.ndarray
    factor_kind: np.ndarray
    table_address: np.ndarray
    incoming: np.ndarray
    outgoing: np.ndarray
    peak: np.ndarray


@kernel(inline=True)
def send(inputs, factor, arithmetic):
    """Have a factor that is no table fill `outgoing` from `incoming`."""
    inputs[FACTOR], inputs[ARITHMETIC] = factor, arithmetic
    call(inputs[FUNCTION], inputs.ctypes.data)


def _through_structure(address):
    """Fill the unscaled messages of the factor that the inputs at an address speaks of."""
    row = index_view(address, ARRAYS + 16)
    inputs = StructureInputs(
        index_view(row[ARRAYS + 0], row[ARRAYS + 1]),
        index_view(row[ARRAYS + 2], row[ARRAYS + 3]),
        index_view(row[ARRAYS + 4], row[ARRAYS + 5]),
        index_view(row[ARRAYS + 6], row[ARRAYS + 7]),
        index_view(row[ARRAYS + 8], row[ARRAYS + 9]),
        table_view(row[ARRAYS + 10], row[ARRAYS + 11]),
        table_view(row[ARRAYS + 12], row[ARRAYS + 13]),
        table_view(row[ARRAYS + 14], row[ARRAYS + 15]),
    )
    factor, arithmetic = row[FACTOR], row[ARITHMETIC]
    kind = inputs.factor_kind[factor]
    if kind == DIFFERENCE:
        through_difference(inputs, factor, arithmetic)
    elif kind == AT_MOST_ONE:
        through_at_most_one(inputs, factor, arithmetic)
    else:
        through_list(inputs, factor, arithmetic)


@cache
def structures() -> Callback:
    """Return what updates call for factors that are no tables; compiled or loaded when it is first asked for."""
    return callback(_through_structure)
