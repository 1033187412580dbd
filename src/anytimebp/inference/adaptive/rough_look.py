"""Which states outside the domains a look takes in where universes are large: those that rules propose, or rough sums.

Where a variable has many states, the sums over the domains of its neighbours are made twice. Roughly first, of all
states, with the few states of the others that hold most of their weight. The look itself sums properly, of the states
that may count.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from typing import NamedTuple

import numpy as np

from anytimebp.inference.adaptive.active_model import ActiveModel
from anytimebp.inference.adaptive.whole_model import WholeModel
from anytimebp.inference.look.asking import ask_message
from anytimebp.model.source import BoolArray, FloatArray, IndexArray

CUT = 6.0  # nats under the threshold of interest, relative to the best, at which a state is not looked at closely
ROUGH = 0.1  # part of a variable's weight that may be left out of rough sums
MUCH = 2**20  # scores of one variable from which on rough sums pay
MOST_PROPOSED = 64  # states that a rule is asked to propose for a variable


class Chosen(NamedTuple):
    """States of one variable that a look takes in.

    Attributes:
        slot: Their slots, rising.
        log_belief: Rough ones, up to a constant; None where no rough sums were made.
        rest: Belief of candidates that are left out, by rough sums, as a part of all belief.
        unseen: Sum of the priors of states that are no candidates.
    """

    slot: IndexArray
    log_belief: FloatArray | None
    rest: float
    unseen: float


class RoughLook:
    """Chooses what a look takes in."""

    def __init__(self, whole: WholeModel) -> None:
        """Find the most states that rules may propose for a variable, if they all can."""
        self._whole = whole
        layout, sizes = whole.compiled.arrays, whole.domains.sizes
        self._proposed = np.diff(layout.variable_edge_start) * MOST_PROPOSED + MOST_PROPOSED
        for _, factors in whole.compiled.message_blocks:
            if not factors.source.proposes:
                self._proposed[factors.scopes] = sizes[factors.scopes]

    def n_states(self, sizes: IndexArray) -> float:
        """Return how many states are looked at, of all variables, from domains of these sizes."""
        return float(np.minimum(self._proposed + sizes, self._whole.domains.sizes).sum())

    def choose(self, model: ActiveModel, variable: int, threshold: float) -> Generator[int, None, Chosen]:
        """Return the states of a variable to look at, active ones left out unless it is undecided.

        Args:
            model: The domains, on which messages have settled.
            variable: The variable.
            threshold: Beliefs that are of interest are above this.

        Yields:
            How many scores were asked for, after each call.
        """
        undecided = model.undecided is not None and bool(model.undecided[variable])
        edges = sorted(self._speaking(model, variable), key=lambda edge: (self._cost(model, edge), edge))
        slot = yield from self.candidates(model, variable)
        own = model.active.slot[model.active.start[variable] : model.active.start[variable + 1]]
        is_outside = np.ones(len(slot), dtype=np.bool_) if undecided else ~np.isin(slot, own, assume_unique=True)
        unseen = self._unseen(variable, slot)
        if len(slot) * sum(self._cost(model, edge) for edge in edges) <= MUCH:
            return Chosen(slot[is_outside], None, 0.0, unseen)
        nats = CUT - math.log(threshold)
        total = self._whole.domains.log_prior[slot]
        for edge in edges:
            near = total >= total.max() - 2.0 * nats
            found = yield from self._roughly(model, edge, slot, near)
            best = found[near].max()
            total = total + np.maximum(found - (best if best > -np.inf else 0.0), -0.5 * nats)
        is_near = is_outside & (total >= total.max() - nats)
        share = np.exp(total - total.max())
        rest = float(share[is_outside & ~is_near].sum() / share.sum())
        return Chosen(slot[is_near], total[is_near], rest, unseen)

    def _speaking(self, model: ActiveModel, variable: int) -> list[int]:
        """Return a variable's edges at factors whose other variables have domains."""
        compiled, edges = self._whole.compiled, self._whole.compiled.edges_of(variable)
        if model.undecided is None:
            return edges
        return [
            edge for edge in edges if edge in model.listeners(compiled.edges(int(compiled.arrays.edge_factor[edge])))
        ]

    def _cost(self, model: ActiveModel, edge: int) -> float:
        """Return the scores that a factor is asked for to say something of one state."""
        compiled = self._whole.compiled
        factor = int(compiled.arrays.edge_factor[edge])
        if compiled.source(factor)[0].has_log_message:
            return 0.0
        others = [int(compiled.arrays.edge_variable[e]) for e in compiled.edges(factor) if e != edge]
        return math.prod(float(model.size[v]) for v in others)

    # ------------------------------------------------------------ candidates
    def candidates(self, model: ActiveModel, variable: int) -> Generator[int, None, IndexArray]:
        """Return the slots to look at: all of them, or the domain and what rules propose, if they all can."""
        compiled, domains, active = self._whole.compiled, self._whole.domains, model.active
        edges = self._speaking(model, variable)
        first, last = int(domains.slot_start[variable]), int(domains.slot_start[variable + 1])
        every = np.arange(first, last)
        if not edges or not all(self._proposes(edge) for edge in edges):
            return every
        waits = model.undecided is not None and model.undecided[variable]
        found = [active.state[active.start[variable] : active.start[variable + (0 if waits else 1)]]]
        for edge in edges:
            factor = int(compiled.arrays.edge_factor[edge])
            block, offset = compiled.locate(factor)
            axis = edge - compiled.edges(factor).start
            found.append(block.partners(offset, model.states_of(factor), axis, MOST_PROPOSED, compiled.variables))
            yield 0
        own = domains.log_prior[first:last]
        if domains.log_prior_min[variable] < 0.0:
            best = np.argpartition(own, -min(MOST_PROPOSED, len(own)))[-MOST_PROPOSED:]
            found.append(domains.states_of(variable)[best])
        slot = self._slots(variable, np.unique(np.concatenate(found)))
        slot = slot[domains.log_prior[slot] > -np.inf]
        return slot if len(slot) else every  # nobody has proposed any

    def _proposes(self, edge: int) -> bool:
        compiled = self._whole.compiled
        return compiled.source(int(compiled.arrays.edge_factor[edge]))[0].proposes

    def _slots(self, variable: int, states: IndexArray) -> IndexArray:
        """Return the slots of some states, as far as the evidence allows them."""
        domains = self._whole.domains
        first = int(domains.slot_start[variable])
        if domains.is_whole:
            return first + states
        allowed = domains.states_of(variable)
        found: IndexArray = first + np.flatnonzero(np.isin(allowed, states))
        return found

    def _unseen(self, variable: int, slot: IndexArray) -> float:
        """Return the sum of the priors of states that are no candidates."""
        domains = self._whole.domains
        first, last = domains.slot_start[variable], domains.slot_start[variable + 1]
        if len(slot) == last - first:
            return 0.0
        prior = np.exp(domains.log_prior[first:last])
        return float(max(0.0, prior.sum() - prior[slot - first].sum()))

    # ------------------------------------------------------------ rough sums
    def _roughly(
        self, model: ActiveModel, edge: int, slot: IndexArray, near: BoolArray
    ) -> Generator[int, None, FloatArray]:
        """Return about the log of what a factor says of the states that are near; -inf of the others."""
        compiled, domains = self._whole.compiled, self._whole.domains
        factor, variable = int(compiled.arrays.edge_factor[edge]), int(compiled.arrays.edge_variable[edge])
        scope = compiled.edges(factor)
        weighed = [model.heavy(e, ROUGH) for e in scope]
        others, weights = [states for states, _ in weighed], [weight for _, weight in weighed]
        states = slot[near] - domains.slot_start[variable] if domains.is_whole else domains.slot_state[slot[near]]
        found = np.full(len(slot), -np.inf)
        found[near] = yield from ask_message(
            compiled, factor, others, weights, edge - scope.start, states, self._whole.block
        )
        return found
