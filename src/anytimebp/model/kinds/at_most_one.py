"""At most one variable is in a given state; `kernels/at_most_one.py` sums it in a forward and a backward pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from anytimebp.errors import InconsistentModelError, ModelError
from anytimebp.model.source import (
    FactorSource,
    Field,
    FloatArray,
    IndexArray,
    Packed,
    States,
    TableRange,
    in_logs_if_many,
)

PAIR = 2


@dataclass(frozen=True, eq=False)
class AtMostOne:
    """At most one variable of the scope is in a given state.

    Attributes:
        state: Index of that state: one number for all variables, or one for each variable.

    Examples:
        >>> graph = abp.FactorGraph()
        >>> for name in "abc":
        ...     _ = graph.add_variable(name, ["off", "on"])
        >>> _ = graph.add_factor(["a", "b", "c"], structure=abp.AtMostOne(state=1))
        >>> round(abp.infer(graph).probability("a", "on"), 2)  # one of four possible joint states
        0.25
    """

    state: int | Sequence[int] = 1

    def source(self, shape: tuple[int, ...], what: str) -> FactorSource:
        """Return the states, checked."""
        each = read_states_of_each(self.state, shape, "AtMostOne", what)
        if (np.array(shape) == 1).sum() > 1:
            msg = f"{what}: more than one variable has only the state of AtMostOne; no joint state is possible"
            raise InconsistentModelError(msg)
        return AtMostOneSource(shape, each)

    @property
    def is_symmetric(self) -> bool:
        """Whether the order of two variables does not matter."""
        return np.ndim(self.state) == 0


class AtMostOneSource(FactorSource):
    """Zero where at most one variable is in its state, impossible where more are.

    Attributes:
        states: (arity,) the state of each variable.
    """

    __slots__ = ("range", "shape", "states")
    tags = ("at_most_one",)
    fields = (Field("states", "i"),)
    sums = "at_most_one"
    has_log_message = True
    any_arity = True

    def __init__(self, shape: tuple[int, ...], states: IndexArray) -> None:
        """Hold the states."""
        self.shape, self.states = shape, states
        self.range = TableRange(np.zeros(1), np.zeros(1), np.array([True]))

    def log_values(self, member: int, states: States) -> FloatArray:
        """Return the log scores on the product of the given states."""
        del member  # tied
        count = np.zeros([len(axis) for axis in states], dtype=np.int64)
        for mesh, state in zip(np.ix_(*states), self.states.tolist(), strict=True):
            count += mesh == state
        return np.where(count > 1, -np.inf, 0.0)

    def log_message(self, others: States, weights: Sequence[FloatArray], axis: int, states: IndexArray) -> FloatArray:
        """Return log o over some states: of "on", that no other is on; of the rest, that at most one is."""
        none, one = 1.0, 0.0
        for k, own in enumerate(weights):
            if k != axis:
                share = np.exp(own)
                on = float(share[others[k] == self.states[k]].sum())
                none, one = none * (share.sum() - on), one * (share.sum() - on) + none * on
        with np.errstate(divide="ignore"):
            return np.log(np.where(states == self.states[axis], none, none + one))

    def packed(self, states: States) -> Packed:
        """Return the place of the state "on" among each variable's, or -1."""
        found = [np.flatnonzero(given == state) for given, state in zip(states, self.states, strict=True)]
        slots = np.array([position[0] if len(position) else -1 for position in found], dtype=np.int64)
        stuck = sum(len(given) == 1 and slot == 0 for given, slot in zip(states, slots, strict=True))
        log_max, work = np.array([0.0 if stuck <= 1 else -np.inf]), sum(len(given) for given in states)
        extent = in_logs_if_many(TableRange(log_max, log_max, np.array([True])), states)
        return Packed("at_most_one", extent, slots, np.empty(0), slots[:0], twice=False, work=work)

    def update_entries(self, sizes: FloatArray) -> FloatArray:
        """Return the states."""
        entries: FloatArray = sizes.sum(axis=1)
        return entries

    def most_words(self, sizes: FloatArray) -> FloatArray:
        """Return one for each variable."""
        return np.full(len(sizes), float(len(self.shape)))

    def gain(self, sizes: FloatArray) -> float:
        """Return 0: a table is never better."""
        del sizes
        return 0.0

    @classmethod
    def restated(cls, tag: str, **held: Any) -> dict[str, Any]:
        """Return the structure."""
        del tag  # there is but one
        return {"structure": AtMostOne(tuple(np.atleast_1d(held["states"]).tolist()))}


def read_states_of_each(given: object, shape: tuple[int, ...], name: str, what: str) -> IndexArray:
    """Return a state of each variable, stated by one index for all or one for each; raise ModelError if it is none."""
    try:
        states = np.asarray(given)
    except ValueError:  # rows of different lengths
        states = np.empty(0)
    if len(shape) < PAIR or states.dtype.kind not in "iu" or states.shape not in {(), (len(shape),)}:
        msg = f"{what}: {name} takes two variables or more and a state index, or one for each variable"
        raise ModelError(msg)
    each = np.array(np.broadcast_to(states, (len(shape),)), dtype=np.int64)
    if ((each < 0) | (each >= shape)).any():
        msg = f"{what}: the states {each.tolist()} of {name} are outside the universes {shape}"
        raise ModelError(msg)
    return each
