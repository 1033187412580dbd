"""Variables and their order: names, universes and labels.

Decides how names and labels map to indices. Bulk variables are held as one block, without an object each.
"""

from __future__ import annotations

import difflib
import re
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import NamedTuple, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from anytimebp.errors import ModelError, UnknownStateError, UnknownVariableError

Labels: TypeAlias = tuple[Hashable, ...] | range
VariableKey: TypeAlias = "str | int | np.integer | Variable"

_AUTOMATIC_NAME = re.compile(r"x(0|[1-9][0-9]{0,17})")
MAX_STATES = 2**40
MAX_VARIABLES = 2**31


@dataclass(frozen=True, slots=True)
class Variable:
    """A handle on one variable of a graph.

    Attributes:
        index: Position in `graph.variables`.
        name: Unique name.
        labels: Labels of all states, in order; a `range` if only the number of states was given.

    Examples:
        >>> variable = abp.FactorGraph().add_variable("weather", ["sun", "rain"])
        >>> variable.index, variable.n_states, variable.state_index("rain")
        (0, 2, 1)
    """

    index: int
    name: str
    labels: Labels

    @property
    def n_states(self) -> int:
        """Number of states."""
        return len(self.labels)

    def state_index(self, label: Hashable) -> int:
        """Return the index of the state with this label."""
        try:
            if isinstance(label, np.generic):
                label = label.item()
            if isinstance(self.labels, tuple):
                return self.labels.index(label)
            if type(label) is int:  # 2.0 and True would pass for 2 and 1
                return self.labels.index(label)
        except (ValueError, TypeError):
            pass
        raise UnknownStateError(_no_such_state(self, label))

    def state_indices(self, labels: Iterable[Hashable]) -> list[int]:
        """Return the indices of many labels, in time linear in the universe."""
        if isinstance(self.labels, range):
            return [self.state_index(label) for label in labels]
        position = {label: index for index, label in enumerate(self.labels)}
        return [position[label] if label in position else self.state_index(label) for label in labels]


class VariableBlock(NamedTuple):
    """Variables added by one call: same labels, names given or made from the index."""

    first: int
    n: int
    labels: Labels
    names: tuple[str, ...] | None


class VariableTable(Sequence[Variable]):
    """The variables of a graph in order. Append-only; a copy never changes."""

    __slots__ = ("_blocks", "_counts", "_firsts", "_index_of_name", "_is_shared", "_n", "_n_states", "_numbered")

    def __init__(self) -> None:
        """Start empty."""
        self._blocks: list[VariableBlock] = []
        self._firsts: list[int] = []
        self._index_of_name: dict[str, int] = {}
        self._numbered: set[int] = set()  # k of the names given that look like the automatic name xk
        self._counts = array("q")  # variables of each block
        self._n_states = array("q")  # states of each variable of a block
        self._n = 0
        self._is_shared = False  # whether a copy holds the same lists, so that they must not be added to

    def copy(self) -> VariableTable:
        """Return a table that later additions to this one do not reach; nothing is copied before there are any."""
        twin = VariableTable()
        twin._blocks, twin._firsts = self._blocks, self._firsts
        twin._index_of_name, twin._numbered = self._index_of_name, self._numbered
        twin._counts, twin._n_states, twin._n = self._counts, self._n_states, self._n
        self._is_shared = twin._is_shared = True
        return twin

    def _own(self) -> None:
        """Copy what another table holds, too, before it is added to."""
        self._blocks, self._firsts = self._blocks.copy(), self._firsts.copy()
        self._index_of_name, self._numbered = self._index_of_name.copy(), self._numbered.copy()
        self._counts, self._n_states = self._counts[:], self._n_states[:]
        self._is_shared = False

    def __getstate__(self) -> tuple[None, dict[str, object]]:
        """Leave out who else holds the lists, so that a run does not change what a graph is pickled to."""
        return None, {name: getattr(self, name) for name in self.__slots__} | {"_is_shared": False}

    def append(self, labels: Labels, names: tuple[str, ...] | None, count: int) -> range:
        """Add `count` variables with the same labels, under these names or automatic ones."""
        first = self._n
        if first + count > MAX_VARIABLES:
            msg = f"a graph has at most {MAX_VARIABLES:,} variables, {first + count:,} are asked for"
            raise ModelError(msg)
        if self._is_shared:
            self._own()
        if names is None:
            self._check_automatic_names(range(first, first + count))
        else:
            self._add_names(first, names)
        self._blocks.append(VariableBlock(first, count, labels, names))
        self._firsts.append(first)
        self._counts.append(count)
        self._n_states.append(len(labels))
        self._n += count
        return range(first, first + count)

    def _add_names(self, first: int, names: tuple[str, ...]) -> None:
        for name in names:
            if not isinstance(name, str) or not name:
                msg = f"a variable's name must be a non-empty string, got {name!r}"
                raise ModelError(msg)
            if self.find(name) is not None:
                msg = f"there is a variable named {name!r} already"
                raise ModelError(msg)
        if len(set(names)) != len(names):
            twice = next(name for name, count in Counter(names).items() if count > 1)
            msg = f"the name {twice!r} is given twice"
            raise ModelError(msg)
        self._index_of_name.update(zip(names, range(first, first + len(names)), strict=True))
        self._numbered.update(int(match[1]) for match in map(_AUTOMATIC_NAME.fullmatch, names) if match)

    def _check_automatic_names(self, numbers: range) -> None:
        taken = [k for k in self._numbered if k in numbers]
        if taken:
            msg = f"another variable has the automatic name 'x{min(taken)}' already; pass `names`"
            raise ModelError(msg)

    def find(self, name: str) -> int | None:
        """Return the index of the variable with this name, or None."""
        index = self._index_of_name.get(name)
        if index is None and (match := _AUTOMATIC_NAME.fullmatch(name)):
            number = int(match[1])
            if number < self._n and self._block(number).names is None:
                return number
        return index

    def find_all(self, names: Iterable[Hashable]) -> list[int] | None:
        """Return the indices of many variables by names that were given to them; None if one of these is not one."""
        find = self._index_of_name.get
        found = [find(name) for name in names]  # type: ignore[call-overload]
        return None if None in found else found

    def index_of(self, key: VariableKey) -> int:
        """Return the index of a variable given by name, handle or index."""
        if isinstance(key, str):
            index = self.find(key)
            if index is not None:
                return index
            raise UnknownVariableError(self._no_such_variable(str(key)))
        if isinstance(key, Variable):
            if key.index < self._n and self.name(key.index) == key.name:
                return key.index
            msg = f"variable {key.name!r} (index {key.index}) belongs to another graph"
            raise UnknownVariableError(msg)
        if isinstance(key, Integral) and not isinstance(key, bool) and 0 <= int(key) < self._n:
            return int(key)
        msg = f"expected a variable, its name or an index from 0 to {self._n - 1}, got {key!r}"
        raise UnknownVariableError(msg)

    def _no_such_variable(self, name: str) -> str:
        close = difflib.get_close_matches(name, list(self._index_of_name)[:10_000], n=1)
        hint = f"; did you mean {close[0]!r}?" if close else f" among the {self._n} of the graph"
        return f"there is no variable named {name!r}{hint}"

    def name(self, index: int) -> str:
        """Return the name of a variable."""
        block = self._block(index)
        return f"x{index}" if block.names is None else block.names[index - block.first]

    def size(self, index: int) -> int:
        """Return the number of states of a variable."""
        return len(self._block(index).labels)

    def labels(self, index: int) -> Labels:
        """Return the labels of a variable."""
        return self._block(index).labels

    @property
    def blocks(self) -> tuple[VariableBlock, ...]:
        """The variables, in blocks of one call each, for whoever goes through very many."""
        return tuple(self._blocks)

    def names(self) -> list[str]:
        """Return all names, in order."""
        found: list[str] = []
        for block in self._blocks:
            found += block.names or [f"x{i}" for i in range(block.first, block.first + block.n)]
        return found

    def sizes(self) -> npt.NDArray[np.int64]:
        """Return the universe sizes, in order."""
        each = np.array(self._n_states, dtype=np.int64)
        return each if len(each) == self._n else np.repeat(each, np.array(self._counts, dtype=np.int64))

    def packed_sizes(self) -> tuple[bytes, bytes]:
        """Return, as the bytes of numbers, the universe size of each block of variables, and how many it has."""
        return self._n_states.tobytes(), self._counts.tobytes()

    def __contains__(self, key: object) -> bool:
        """Tell whether a name or a handle is one of these."""
        if isinstance(key, str):
            return self.find(key) is not None
        return isinstance(key, Variable) and key.index < self._n and self[key.index] == key

    def __len__(self) -> int:
        """Return the number of variables."""
        return self._n

    def __repr__(self) -> str:
        """Return the first few names."""
        names = ", ".join(self.name(i) for i in range(min(6, self._n)))
        return f"<{self._n} variables: {names}{', ...' if self._n > 6 else ''}>"  # noqa: PLR2004

    @overload
    def __getitem__(self, index: int | str) -> Variable: ...
    @overload
    def __getitem__(self, index: slice) -> list[Variable]: ...
    def __getitem__(self, index: int | str | slice) -> Variable | list[Variable]:
        """Return one variable, by position or name, or a list for a slice."""
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(self._n))]
        if isinstance(index, str):
            index = self.index_of(index)
        if index < 0:
            index += self._n
        if not 0 <= index < self._n:
            msg = f"variable index out of range: there are {self._n}"
            raise IndexError(msg)
        return Variable(index, self.name(index), self._block(index).labels)

    def _block(self, index: int) -> VariableBlock:
        return self._blocks[bisect_right(self._firsts, index) - 1]


def read_states(states: int | Iterable[Hashable], name: str) -> Labels:
    """Turn what a user gives as universe, a count or labels, into labels."""
    if isinstance(states, np.ndarray) and states.ndim == 0:
        states = states.item()
    if isinstance(states, Integral) and not isinstance(states, bool):
        if int(states) < 1:
            msg = f"variable {name!r} needs at least one state, got the count {states}"
            raise ModelError(msg)
        if int(states) > MAX_STATES:
            msg = f"variable {name!r} has {states} states, more than the {MAX_STATES:,} that can be counted"
            raise ModelError(msg)
        return range(int(states))
    if isinstance(states, str | bytes) or not isinstance(states, Iterable):
        msg = f"the states of variable {name!r} must be a count or a list of labels, got {states!r}"
        raise ModelError(msg)
    labels = tuple(item.item() if isinstance(item, np.generic) else item for item in states)
    if not labels:
        msg = f"variable {name!r} needs at least one state, got an empty list of labels"
        raise ModelError(msg)
    _check_labels(labels, name)
    return labels


def _check_labels(labels: tuple[Hashable, ...], name: str) -> None:
    seen = set()
    for label in labels:
        try:
            known = label in seen
        except TypeError:
            msg = f"the labels of variable {name!r} must be hashable, got {label!r}"
            raise ModelError(msg) from None
        if known:
            msg = f"variable {name!r} has the label {label!r} twice"
            raise ModelError(msg)
        if label != label:  # noqa: PLR0124  (NaN)
            msg = f"variable {name!r} has a NaN among its labels; NaN equals nothing, so evidence could not name it"
            raise ModelError(msg)
        seen.add(label)


def _no_such_state(variable: Variable, label: object) -> str:
    labels = variable.labels
    if isinstance(labels, range):
        return f"variable {variable.name!r} has the states 0 to {len(labels) - 1}, not {label!r}"
    shown = ", ".join(repr(known) for known in labels[:6])
    more = f", ... ({len(labels)} in all)" if len(labels) > 6 else ""  # noqa: PLR2004
    return f"variable {variable.name!r} has no state {label!r}; its states are {shown}{more}"
