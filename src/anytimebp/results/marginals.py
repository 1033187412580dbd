"""Marginals by variable name and by factor, made from frozen arrays when asked for."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np

from anytimebp.errors import (
    InconsistentModelError,
    InternalError,
    OptionError,
    UnknownFactorError,
    UnknownVariableError,
)
from anytimebp.model.factor import FactorBlock, FactorKey, describe_factor, row_items, row_starts
from anytimebp.model.source import FloatArray, IndexArray
from anytimebp.model.variable import Variable, VariableKey, VariableTable

REPORT_IT = "this is a defect of anytimebp, and nothing that you have done: please report it, with the model if you can"
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
        """Make what is made only when somebody reads."""
        _ = self._belief

    def __getstate__(self) -> tuple[None, dict[str, object]]:
        """Leave the way to make beliefs behind when pickled; numbers travel."""
        self.read()
        return None, {name: getattr(self, name) for name in self.__slots__}

    def __getitem__(self, key: VariableKey) -> FloatArray:
        """Return the marginal of a variable, given by name (or by handle or index)."""
        index = self.variables.index_of(key)
        place = self._place(index)
        belief = self._belief[self._slot_start[place] : self._slot_start[place + 1]]
        states = self.domain(index)
        if states is None:
            belief.flags.writeable = False  # unpickling does not keep the flag of the whole
            return belief
        marginal = np.zeros(self.variables[index].n_states)
        marginal[states] = belief
        marginal.flags.writeable = False
        return marginal

    def _place(self, index: int) -> int:
        """Return where a variable is among those that have marginals."""
        if self._targets is None:
            return index
        place = int(np.searchsorted(self._targets, index))
        if place == len(self._targets) or self._targets[place] != index:
            msg = f"variable {self.variables.name(index)!r} is not one of the `targets` that this run was asked for"
            raise UnknownVariableError(msg)
        return place

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
        whole[self._states + np.repeat(np.cumsum(sizes) - sizes, np.diff(self._slot_start))] = self._belief
        return whole

    def _given(self) -> FloatArray:
        """Return beliefs that are made for the caller alone, the first time; they are kept if asked for again."""
        known = self._known
        if self._is_read or not callable(known):
            return self._belief.copy()
        made, self._is_read = known(), True
        self._check(made)
        made.flags.writeable = True
        return made

    def domain(self, index: int) -> IndexArray | None:
        """Return the states in a variable's slots, or None for the whole universe in order."""
        place = self._place(index)
        return self._states[self._slot_start[place] : self._slot_start[place + 1]] if len(self._states) else None

    def __contains__(self, key: object) -> bool:
        """Tell whether there is a marginal of such a variable."""
        try:
            self._place(self.variables.index_of(key))  # type: ignore[arg-type]
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
    states = np.arange(len(marginal))
    if 0 < count < len(marginal):  # sorting a large universe to show twenty of it would take most of the time
        states = np.flatnonzero(marginal >= np.partition(marginal, -count)[-count])
    best: list[int] = states[np.argsort(-marginal[states], kind="stable")[: max(0, count)]].tolist()
    return best


def _check_beliefs(marginals: Marginals, belief: FloatArray, slot_start: IndexArray) -> None:
    """Raise InternalError unless the beliefs of every variable are probabilities: the last net under all kernels."""
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


class FactorMarginals(Mapping[int, FloatArray]):
    """A read-only mapping from factor index to the factor's marginal over the joint states of its variables.

    A factor that was added under a name is found by that name as well.
    """

    __slots__ = ("_blocks", "_factor_edge", "_firsts", "_log_weight", "_marginals", "_slot_start")

    def __init__(
        self,
        marginals: Marginals,
        blocks: tuple[FactorBlock, ...],
        factor_edge: IndexArray,
        slot_start: IndexArray,
        log_weight: FloatArray,
    ) -> None:
        """Hold the messages from variables to factors; they and the tables make the marginals.

        Args:
            marginals: Of the variables, which are also those of unary factors.
            blocks: The factors.
            factor_edge: The first edge of each factor, -1 for unary ones.
            slot_start: The first slot of each edge.
            log_weight: Log messages from variables to factors, per edge slot.
        """
        self._marginals = marginals
        self._blocks = blocks
        self._firsts = [block.first for block in blocks]
        self._factor_edge = factor_edge
        self._slot_start = slot_start
        self._log_weight = log_weight

    def __getitem__(self, key: FactorKey) -> FloatArray:
        """Return the marginal of a factor, its axes in the order of its scope."""
        block, offset = self._located(key)
        index, scope = block.first + offset, block.scopes[offset].tolist()
        if len(scope) == 1:
            return self._marginals[scope[0]]
        domains = [self._marginals.domain(i) for i in scope]
        states = [np.arange(n) if d is None else d for d, n in zip(domains, block.source.shape, strict=True)]
        log_belief = np.array(block.log_values(offset, states, self._marginals.variables))
        for axis, allowed in enumerate(states):
            start = self._slot_start[self._factor_edge[index] + axis]
            weight = self._log_weight[start : start + len(allowed)]
            log_belief += weight.reshape([-1 if k == axis else 1 for k in range(len(scope))])
        marginal = np.zeros(block.source.shape)
        marginal[np.ix_(*states)] = self._normalised(log_belief, index)
        return marginal

    def _located(self, key: FactorKey) -> tuple[FactorBlock, int]:
        """Return the block of a factor, and its place in it."""
        index = self._index_of(key)
        block = self._blocks[bisect_right(self._firsts, index) - 1]
        return block, index - block.first

    def _index_of(self, key: FactorKey) -> int:
        if isinstance(key, str):
            for block in self._blocks:
                if block.name == key:
                    return block.first
            msg = f"there is no factor named {key!r}"
            raise UnknownFactorError(msg)
        if not isinstance(key, int | np.integer) or not 0 <= key < len(self):
            msg = f"expected the index of a factor, 0 to {len(self) - 1}, or its name, got {key!r}"
            raise UnknownFactorError(msg)
        return int(key)

    def _normalised(self, log_belief: FloatArray, index: int) -> FloatArray:
        """Return beliefs from their logs; raise if there are none."""
        highest = log_belief.max()
        if highest == -np.inf:
            name = describe_factor(self._blocks, self._marginals.variables, index)
            msg = f"{name} has no marginal: no joint state of the active states of its variables is possible"
            raise InconsistentModelError(msg)
        belief: FloatArray = np.exp(log_belief - highest)
        belief /= belief.sum()
        if not belief.min() >= 0.0:  # NaN
            name = describe_factor(self._blocks, self._marginals.variables, index)
            msg = f"internal error: the marginal of {name} holds {belief.min()}; {REPORT_IT}"
            raise InternalError(msg)
        return belief

    def __iter__(self) -> Iterator[int]:
        """Go through the factors in order."""
        return iter(range(len(self)))

    def __len__(self) -> int:
        """Return the number of factors."""
        return len(self._factor_edge)


class NoFactorMarginals(FactorMarginals):
    """Stands where a snapshot has no marginals of factors: false, and an OptionError on every use."""

    __slots__ = ("_reason",)

    def __init__(self, reason: str) -> None:
        """Hold what errors say."""
        self._reason = reason

    def __getitem__(self, key: FactorKey) -> FloatArray:
        """Raise OptionError."""
        raise OptionError(self._reason)

    def __iter__(self) -> Iterator[int]:
        """Raise OptionError."""
        raise OptionError(self._reason)

    def __len__(self) -> int:
        """Return 0, so that it is false."""
        return 0

    def __repr__(self) -> str:
        """Return the reason."""
        return f"<no factor marginals: {self._reason}>"


NOT_ASKED_FOR = NoFactorMarginals(
    "factor marginals were not asked for: pass `factor_marginals=True` to `infer` or `Inference`"
)
