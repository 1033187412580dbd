"""Marginals of some variables of a graph, where a caller has said whose are wanted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from anytimebp.errors import OptionError, UnknownVariableError
from anytimebp.model.source import FloatArray, IndexArray
from anytimebp.model.variable import Variable, VariableKey, VariableTable
from anytimebp.results.marginals import Marginals

NO_STATES = np.empty(0, dtype=np.int64)


class TargetMarginals(Marginals):
    """A read-only mapping from the names of some variables to their marginals over the whole universe."""

    __slots__ = ("_place",)

    def __init__(
        self, variables: VariableTable, place: Mapping[int, int], belief: FloatArray, start: IndexArray
    ) -> None:
        """Hold the marginals.

        Args:
            variables: Of the graph.
            place: By the index of a variable: which of the marginals is its own.
            belief: Marginals over whole universes, one after the other; owned by this object from now on.
            start: (targets + 1,) where each starts.
        """
        self._place = place
        super().__init__(variables, belief, start, NO_STATES)

    def __getstate__(self) -> tuple[None, dict[str, object]]:
        """Add which variables they are."""
        _, state = super().__getstate__()
        names = Marginals.__slots__
        return None, {**{name: getattr(self, name) for name in names}, **state}

    def __getitem__(self, key: VariableKey) -> FloatArray:
        """Return the marginal of a target, given by name (or by handle or index)."""
        index = self.variables.index_of(key)
        place = self._place.get(index)
        if place is None:
            msg = f"variable {self.variables.name(index)!r} is not among the targets of this query"
            raise OptionError(msg)
        belief = self._belief[self._slot_start[place] : self._slot_start[place + 1]]
        belief.flags.writeable = False
        return belief

    def domain(self, index: int) -> IndexArray | None:  # noqa: ARG002
        """Return None: marginals are over whole universes."""
        return None

    def __contains__(self, key: object) -> bool:
        """Tell whether there is such a target."""
        try:
            return self.variables.index_of(key) in self._place  # type: ignore[arg-type]
        except UnknownVariableError:
            return False

    def __iter__(self) -> Iterator[str]:
        """Go through the names of the targets in order."""
        return (self.variables.name(index) for index in self._place)

    def __len__(self) -> int:
        """Return the number of targets."""
        return len(self._place)


def only_targets(marginals: Marginals, targets: Sequence[int]) -> TargetMarginals:
    """Return some of the marginals."""
    each = [marginals[index] for index in targets]
    start = np.cumsum([0, *map(len, each)])
    return TargetMarginals(marginals.variables, place_of(targets), np.concatenate(each), start)


def place_of(targets: Sequence[int]) -> dict[int, int]:
    """Return which of the targets each variable is."""
    return {index: place for place, index in enumerate(targets)}


def read_targets(targets: Iterable[VariableKey], variables: VariableTable) -> tuple[int, ...]:
    """Return the indices of target variables, each once, in the order given.

    Raises:
        OptionError: If there are none.
        UnknownVariableError: If one is not there.
    """
    keys = [targets] if isinstance(targets, str | Variable) else list(targets)
    if not keys:
        msg = "targets must name at least one variable; leave it out for all of them"
        raise OptionError(msg)
    return tuple(dict.fromkeys(variables.index_of(key) for key in keys))
