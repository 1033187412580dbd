"""Messages of factors that are no tables: who sends them, what they are given, and the list of their kinds.

Each kind is a module of its own that fills `outgoing` from `incoming` as `contract` does with a table, in linear
arithmetic or in logs. What a factor is made of lies at `table_address` in words of 8 bytes, which `Packed.words` writes
(`model/source.py`). A new kind is a module like `differences.py`, with a function `send`, and a line in `MODULES`.

Updates call that function by its address, so that runs load and compile the kinds that they have, and nothing else.
What it needs lies in a row of whole numbers, `bp.structure_inputs`: where the addresses of all kinds are, the factor,
the arithmetic, where the arrays of a `StructureInputs` are and how long, and room for the numbers of one update.
"""

from importlib import import_module
from typing import NamedTuple

import numpy as np

from anytimebp.kernels.jit import call, callback, index_view, kernel, table_view

MODULES = {
    "list": "lists",
    "difference": "differences",
    "at_most_one": "at_most_one",
    "group": "groups",
    "bitwise": "bitwise",
    "cardinality": "cardinality",
    "noisy_or": "noisy_or",
    "low_rank": "low_rank",
}
"""By the name that a factor kind gives its sums, the module that has them."""

SUMS = {name: code for code, name in enumerate(MODULES, start=1)}  # 0 is TABLE
"""By the same names, the codes by which updates know them."""

ADDRESSES = np.zeros(len(MODULES) + 1, dtype=np.int64)
"""Of `send` of each kind, by its code; 0 where it is not loaded. The same for all runs of a process."""

FUNCTIONS, FACTOR, ARITHMETIC, WANTED, ARRAYS = range(5)  # places in a row; then addresses and lengths of arrays
ALL = -1  # instead of the axis whose message is wanted
KIND_ARRAY = ARRAYS + 6  # where the address of `factor_kind` is
HEAD = ARRAYS + 16  # words of a row before the room

_owners: list[object] = []


class StructureInputs(NamedTuple):
    """What structures need of a layout and a workspace, in the order in which a row lists them; then the room."""

    factor_edge_start: np.ndarray
    edge_variable: np.ndarray
    domain_size: np.ndarray
    factor_kind: np.ndarray
    table_address: np.ndarray
    incoming: np.ndarray
    outgoing: np.ndarray
    peak: np.ndarray
    room: np.ndarray


@kernel(inline=True)
def send(inputs, factor, arithmetic, wanted):
    """Have a factor that is no table fill `outgoing` from `incoming`; at least with the message that is wanted."""
    inputs[FACTOR], inputs[ARITHMETIC], inputs[WANTED] = factor, arithmetic, wanted
    kind = index_view(inputs[KIND_ARRAY] + 8 * factor, 1)[0]
    call(index_view(inputs[FUNCTIONS] + 8 * kind, 1)[0], inputs.ctypes.data)


@kernel(inline=True)
def read_inputs(address):
    """Return what lies in a row: the arrays, the factor and the arithmetic."""
    row = index_view(address, HEAD + 1)
    inputs = StructureInputs(
        index_view(row[ARRAYS + 0], row[ARRAYS + 1]),
        index_view(row[ARRAYS + 2], row[ARRAYS + 3]),
        index_view(row[ARRAYS + 4], row[ARRAYS + 5]),
        index_view(row[ARRAYS + 6], row[ARRAYS + 7]),
        index_view(row[ARRAYS + 8], row[ARRAYS + 9]),
        table_view(row[ARRAYS + 10], row[ARRAYS + 11]),
        table_view(row[ARRAYS + 12], row[ARRAYS + 13]),
        table_view(row[ARRAYS + 14], row[ARRAYS + 15]),
        table_view(address + 8 * (HEAD + 1), row[HEAD]),
    )
    return inputs, row[FACTOR], row[ARITHMETIC]


@kernel(inline=True)
def wanted_axis(address):
    """Return the axis whose message is wanted, or ALL."""
    return index_view(address, ARRAYS)[WANTED]


def is_loaded(name: str) -> bool:
    """Tell whether the sums of a name are loaded."""
    return bool(ADDRESSES[SUMS[name]])


def load(name: str) -> None:
    """Compile or load the sums of a name, unless they are loaded already."""
    if not is_loaded(name):
        made = callback(import_module(f"anytimebp.kernels.{MODULES[name]}").send)
        _owners.append(made.owner)
        ADDRESSES[SUMS[name]] = made.address


def row_of(arrays: list[np.ndarray], room: int) -> np.ndarray:
    """Return a row for the arrays of a StructureInputs but the last, with room for so many numbers."""
    positions = [number for array in arrays for number in (array.ctypes.data, len(array))]
    row = np.zeros(HEAD + 1 + room, dtype=np.int64)
    row[: HEAD + 1] = [ADDRESSES.ctypes.data, 0, 0, ALL, *positions, room]
    return row
