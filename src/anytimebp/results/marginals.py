"""Marginals by variable name, made from frozen arrays when asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from anytimebp.errors import InternalError, OptionError, UnknownVariableError
from anytimebp.model.factor import row_items, row_starts
from anytimebp.model.source import FloatArray, IndexArray
from anytimebp.model.variable import Variable, VariableKey, VariableTable
from anytimebp.results.expected_counts import dense_rows

REPORT_IT = "this is a bug in anytimebp, not in your code: please report it, with the model if you can"
FEW = 16  # states that Python adds up faster than NumPy
SUM_ERROR = 1e-6  # by which the sum of a marginal may differ from 1; rounding gives 1e-10 on a million states


class Marginals(Mapping[str, FloatArray]):
    """A read-only mapping from variable name to its marginal over the whole universe."""

    __slots__ = ("_is_read", "_known", "_slot_start", "_states", "_targets", "variables")

    def __init__(
        self,
        variables: VariableTable,
        belief: FloatArray | Callable[[], FloatArray],
        slot_start: IndexArray,
        states: IndexArray,
        targets: IndexArray | None = None,
    ) -> None:
        """Hold the beliefs over the domains.

        Args:
            variables: Names and universes.
            belief: A number per slot, owned by this object from now on; or how to make them when they are first read.
            slot_start: (V + 1,) first slot of each variable.
            states: The state in each slot; empty where every domain is the universe in order.
            targets: The variables, rising, that alone have marginals; slots are theirs. None for all.
        """
        self.variables = variables
        self._known = belief
        self._slot_start = slot_start
        self._states = states
        self._targets = targets
        self._is_read = False
        if not callable(belief):
            self._check(belief)

    @property
    def _belief(self) -> FloatArray:
        """A number per slot; made now if they have not been read before."""
        known = self._known
        if callable(known):
            known = known()
            self._check(known)
            self._known = known
        return known

    def _check(self, belief: FloatArray) -> None:
        belief.flags.writeable = False
        if len(belief):
            _check_beliefs(self, belief, self._slot_start)

    def limited(self, targets: IndexArray) -> Marginals:
        """Return the marginals of some variables alone, given by their indices, rising."""
        start, sizes = self._slot_start[targets], np.diff(self._slot_start)[targets]
        slots = row_items(start, sizes)
        states = self._states[slots] if len(self._states) else self._states
        return Marginals(self.variables, partial(self._some, slots), row_starts(sizes), states, targets)

    def _some(self, slots: IndexArray) -> FloatArray:
        """Return the beliefs of some slots."""
        belief: FloatArray = self._belief[slots]
        return belief

    def read(self) -> None:
        """Compute the beliefs now, if that was left until they are read."""
        _ = self._belief

    def __getstate__(self) -> tuple[None, dict[str, object]]:
        """Leave the way to make beliefs behind when pickled; numbers travel."""
        self.read()
        return None, {name: getattr(self, name) for name in self.__slots__}

    def __getitem__(self, key: VariableKey) -> FloatArray:
        """Return the marginal of a variable, given by name (or by handle or index)."""
        index = self.variables.index_of(key)
        position = self._position(index)
        belief = self._belief[self._slot_start[position] : self._slot_start[position + 1]]
        states = self.domain(index)
        if states is None:
            belief.flags.writeable = False  # unpickling does not keep the flag of the whole
            return belief
        marginal = np.zeros(self.variables[index].n_states)
        marginal[states] = belief
        marginal.flags.writeable = False
        return marginal

    def _position(self, index: int) -> int:
        """Return where a variable is among those that have marginals."""
        if self._targets is None:
            return index
        position = int(np.searchsorted(self._targets, index))
        if position == len(self._targets) or self._targets[position] != index:
            msg = f"variable {self.variables.name(index)!r} is not one of the `targets` that this run was asked for"
            raise UnknownVariableError(msg)
        return position

    @property
    def are_whole(self) -> bool:
        """Whether every domain is the universe in order."""
        return not len(self._states)

    @property
    def is_limited(self) -> bool:
        """Whether there are targets."""
        return self._targets is not None

    @property
    def indices(self) -> Sequence[int]:
        """The variables that have marginals: all, or the targets that were asked for."""
        if self._targets is None:
            return range(len(self.variables))
        indices: list[int] = self._targets.tolist()
        return indices

    @property
    def listed(self) -> VariableTable:
        """The same variables as a table of their own."""
        if self._targets is None:
            return self.variables
        table = VariableTable()
        for variable in (self.variables[index] for index in self.indices):
            table.append(variable.labels, (variable.name,), 1)
        return table

    def concatenated(self) -> FloatArray:
        """Return the marginals of all variables, or targets, in order, one after the other, as a new array."""
        if not len(self._states):  # every domain is the universe in order
            return self._given() if callable(self._known) else self._known.copy()
        sizes = self.variables.sizes()
        if self._targets is not None:
            sizes = sizes[self._targets]
        whole = np.zeros(int(sizes.sum()))
        n_slots = self._slot_start[1:] - self._slot_start[:-1]
        whole[self._states + np.repeat(np.cumsum(sizes) - sizes, n_slots)] = self._belief
        return whole

    def _given(self) -> FloatArray:
        """Return the beliefs. The first call makes them for its caller alone; the second one keeps them."""
        known = self._known
        if self._is_read or not callable(known):
            return self._belief.copy()
        made, self._is_read = known(), True
        self._check(made)
        made.flags.writeable = True
        return made

    def rows(self, variables: IndexArray) -> FloatArray:
        """Return (n, states) the marginals of some variables, all of which have as many states."""
        return self.spread(variables, self._belief, self._slot_start[variables], 0.0)

    def spread(self, variables: IndexArray, values: FloatArray, first: IndexArray, empty: float) -> FloatArray:
        """Return numbers for the states of some variables, of as many states each, as rows over the universe.

        Args:
            variables: (n,) indices.
            values: Numbers, those of a variable one after the other in the order of its domain.
            first: (n,) where the numbers of each start.
            empty: What stands in places of states outside the domain.
        """
        width, start = self.variables.size(int(variables[0])), self._slot_start[variables]
        sizes = self._slot_start[variables + 1] - start
        states = self._states[row_items(start, sizes)] if len(self._states) else None
        return dense_rows(values, first, states, sizes, width, empty)

    def domain(self, index: int) -> IndexArray | None:
        """Return the states in a variable's slots, or None for the whole universe in order."""
        position = self._position(index)
        return self._states[self._slot_start[position] : self._slot_start[position + 1]] if len(self._states) else None

    def __contains__(self, key: object) -> bool:
        """Tell whether there is a marginal of such a variable."""
        try:
            self._position(self.variables.index_of(key))  # type: ignore[arg-type]
        except UnknownVariableError:
            return False
        return True

    def __iter__(self) -> Iterator[str]:
        """Go through the names in order."""
        return (self.variables.name(i) for i in self.indices)

    def __len__(self) -> int:
        """Return the number of variables, or of targets."""
        return len(self.variables) if self._targets is None else len(self._targets)

    def __repr__(self) -> str:
        """Return one line."""
        return f"<marginals of {len(self)} variables>"

    def top(self, key: VariableKey, count: int) -> list[tuple[object, float]]:
        """Return the likeliest states of a variable as (label, probability), best first, ties by state order."""
        variable: Variable = self.variables[self.variables.index_of(key)]
        marginal = self[key]
        return [(variable.labels[state], float(marginal[state])) for state in likeliest(marginal, count)]

    def entropies(self) -> FloatArray:
        """Return the entropy of every marginal, in nats and in order; its exponential counts the states in effect."""
        positive = np.where(self._belief > 0.0, self._belief, 1.0)
        each = np.add.reduceat(positive * np.log(positive), self._slot_start[:-1]) if len(self) else np.empty(0)
        return np.maximum(0.0, -each)

    def __eq__(self, other: object) -> bool:
        """Compare by identity: a mapping of arrays has no truth value."""
        return self is other

    __hash__ = None  # type: ignore[assignment]


def likeliest(marginal: FloatArray, count: int) -> list[int]:
    """Return the states of the highest probability, best first, ties by state order."""
    if isinstance(count, bool) or not isinstance(count, int | np.integer):
        msg = f"count must be a whole number, got {count!r}"
        raise OptionError(msg)
    states = np.arange(len(marginal))
    if 0 < count < len(marginal):  # sorting a large universe to show twenty states would take most of the time
        states = np.flatnonzero(marginal >= np.partition(marginal, -count)[-count])
    best: list[int] = states[np.argsort(-marginal[states], kind="stable")[: max(0, count)]].tolist()
    return best


def _check_beliefs(marginals: Marginals, belief: FloatArray, slot_start: IndexArray) -> None:
    """Raise InternalError unless the beliefs of every variable are probabilities: the last check of all kernels."""
    if len(slot_start) == 2 and len(belief) <= FEW:  # noqa: PLR2004  (one variable)
        own = belief.tolist()
        if min(own) >= 0.0 and abs(sum(own) - 1.0) <= SUM_ERROR:
            return
    excess = np.add.reduceat(belief, slot_start[:-1])
    excess -= 1.0
    if np.minimum.reduce(belief) >= 0.0 and excess.dot(excess) <= SUM_ERROR**2:
        return  # the quick way; NaN fails both
    bad = ~(np.abs(excess) <= SUM_ERROR)
    bad |= ~(np.minimum.reduceat(belief, slot_start[:-1]) >= 0.0)
    if not bad.any():
        return
    worst = int(bad.argmax())
    own = belief[slot_start[worst] : slot_start[worst + 1]]
    name = marginals.variables.name(marginals.indices[worst])
    msg = (
        f"internal error: the marginal of variable {name!r} is not a distribution, "
        f"its sum is {own.sum()} and its smallest number {own.min()}; {REPORT_IT}"
    )
    raise InternalError(msg)
