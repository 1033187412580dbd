"""Messages of factors that are no tables, each kind by sums of its own: the one that calls them, and their list.

Each fills `outgoing` from `incoming` as `contract` does with a table, in linear arithmetic or in logs, at a cost of its
entries or of its variables' states. What a factor is made of lies at `table_address` in words of 8 bytes, which
`Packed.words` writes (`model/source.py`). New sums are a module like `differences.py`, and here a code, its name in
`SUMS` and a branch of `_through_structure`.

Updates call all this by its address (`send`), so that runs without structures neither load nor compile any of it. What
it needs lies in a row of whole numbers, `space.post`: the function, the factor, the arithmetic, and where the arrays of
a `Post` are and how long.
"""

from functools import cache
from typing import NamedTuple

import numpy as np

from anytimebp.kernels.at_most_one import through_at_most_one
from anytimebp.kernels.differences import through_difference
from anytimebp.kernels.jit import Callback, call, callback, kernel, table_view
from anytimebp.kernels.lists import through_list

LISTED, DIFFERENCE, AT_MOST_ONE = 1, 2, 3  # 0 is TABLE
SUMS = {"list": LISTED, "difference": DIFFERENCE, "at_most_one": AT_MOST_ONE}
"""By the name that a factor kind gives its sums, the code by which updates know them."""

FUNCTION, FACTOR, ARITHMETIC, ARRAYS = 0, 1, 2, 3  # places in a post; then addresses and lengths of arrays


class Post(NamedTuple):
    """What structures need of a layout and a workspace, in the order in which a post lists them."""

    factor_edge_start: np.ndarray
    edge_variable: np.ndarray
    domain_size: np.ndarray
    factor_kind: np.ndarray
    table_address: np.ndarray
    incoming: np.ndarray
    outgoing: np.ndarray
    peak: np.ndarray


@kernel(inline=True)
def send(post, factor, arithmetic):
    """Have a factor that is no table fill `outgoing` from `incoming`."""
    post[FACTOR], post[ARITHMETIC] = factor, arithmetic
    call(post[FUNCTION], post.ctypes.data)


@kernel(inline=True)
def _array(row, k):
    return table_view(row[ARRAYS + 2 * k], row[ARRAYS + 2 * k + 1])


def _through_structure(address):
    """Fill the unscaled messages of the factor that the post at an address speaks of."""
    row = table_view(address, ARRAYS + 16).view(np.int64)
    post = Post(
        _array(row, 0).view(np.int64),
        _array(row, 1).view(np.int64),
        _array(row, 2).view(np.int64),
        _array(row, 3).view(np.int64),
        _array(row, 4).view(np.int64),
        _array(row, 5),
        _array(row, 6),
        _array(row, 7),
    )
    factor, arithmetic = row[FACTOR], row[ARITHMETIC]
    kind = post.factor_kind[factor]
    if kind == DIFFERENCE:
        through_difference(post, factor, arithmetic)
    elif kind == AT_MOST_ONE:
        through_at_most_one(post, factor, arithmetic)
    else:
        through_list(post, factor, arithmetic)


@cache
def structures() -> Callback:
    """Return what updates call for factors that are no tables; compiled or loaded when it is first asked for."""
    return callback(_through_structure)
