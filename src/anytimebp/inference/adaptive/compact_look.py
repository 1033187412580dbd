"""What the domains say of all states: one round of messages out of them, asked for in blocks and kept nowhere.

    log b(x)  =  log p(x) + sum over factors f of log o_f(x),   o_f summed over the domains of f's other variables

Where that is much, it is done twice. Roughly first, of all states, with the few states of the others that hold most of
their weight; what was heard from a factor is kept as long as its variables' weights hardly move. Then properly, of the
states that come within CUT nats of what is of interest. The others keep their rough beliefs.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from anytimebp.inference.adaptive.compact import CompactTables
from anytimebp.inference.look.asking import ask_message
from anytimebp.model.source import FloatArray, IndexArray

CUT = 6.0  # nats under the threshold of interest, relative to the best, at which a state is not looked at closely
LEAST_LOG = -60.0  # nats; thresholds under this are all the same
ROUGH = 0.1  # part of a variable's weight that may be left out of rough sums
FINE = 0.1  # part of the threshold that may be left out of proper ones
MOVED = 0.05  # part of a variable's weight that may move before what it says is asked for again
STILL = 0.1  # part of the threshold that they may move before a variable is looked at again
MUCH = 2**20  # scores of one variable from which on a rough look pays
MOST_PROPOSED = 64  # states that a rule is asked to propose for a variable


Spoken: TypeAlias = list[tuple[IndexArray, FloatArray]]
"""Per axis of a factor, the states that are summed over, and their shares of the weight."""


class Seen(NamedTuple):
    """What is known of one variable's states.

    Attributes:
        states: Those that were looked at; all that the evidence allows unless candidates are proposed.
        log_belief: Of each, up to a constant.
        log_rest: Of all others together, as estimated: the same constant.
        is_shut_out: Of each, whether the domains exclude it; states that are not active yet may let it in.
    """

    states: IndexArray
    log_belief: FloatArray
    log_rest: float
    is_shut_out: npt.NDArray[np.bool_]


class _Heard(NamedTuple):
    """What a factor was heard to say of a variable's states.

    Attributes:
        spoke: The states that it was summed over, and their shares of the weight, per variable.
        message: Log message to each state, less the largest that was heard first; NaN where nobody asked.
        largest: (1,) that one: in few digits, differences would be lost under it. NaN before anything was heard.
    """

    spoke: Spoken
    message: npt.NDArray[np.float32]
    largest: FloatArray


class _Look(NamedTuple):
    """The last look at a variable.

    Attributes:
        found: What came of it.
        threshold: Beliefs of interest were above this.
        spoken: By edge, what it was summed over.
    """

    found: Seen
    threshold: float
    spoken: dict[int, Spoken]

    def holds(self, spoken: dict[int, Spoken], threshold: float) -> bool:
        """Tell whether another look would show the same, as nobody else speaks or says anything else."""
        if self.threshold != threshold or self.spoken.keys() != spoken.keys():
            return False
        return not any(_have_moved(self.spoken[edge], now, STILL * threshold) for edge, now in spoken.items())


class CompactLook:
    """Looks at the states of variables.

    Attributes:
        block: Scores to ask for at a time.
        threshold: Beliefs that are of interest are above this.
        asked: Scores asked for so far.
        memory: Bytes that are used to keep what was heard.
    """

    def __init__(self, tables: CompactTables, block: int, threshold: float, memory: float) -> None:
        """Look out from some domains.

        Args:
            tables: The domains.
            block: Scores to ask for at a time.
            threshold: Beliefs that are of interest are above this.
            memory: Bytes that may be used to keep what was heard.
        """
        self._tables = tables
        self.block, self.threshold = block, threshold
        self.asked = 0
        layout = tables.compiled.arrays
        needed = 4.0 * float(tables.universe.n_allowed[layout.edge_variable].sum())
        self._heard: dict[int, _Heard] | None = {} if needed <= memory else None
        self._last: dict[int, _Look] = {}
        self.memory = needed if needed <= memory else 0.0
        self._proposed = np.diff(layout.variable_edge_start) * MOST_PROPOSED + MOST_PROPOSED
        for _, factors in tables.compiled.message_blocks:
            if not factors.source.proposes:
                self._proposed[factors.scopes] = tables.universe.n_allowed[factors.scopes]

    def states(self, sizes: IndexArray) -> float:
        """Return how many states are looked at, of all variables, from domains of these sizes."""
        return float(np.minimum(self._proposed + sizes, self._tables.universe.n_allowed).sum())

    def look(self, variable: int, log_weights: dict[int, FloatArray]) -> Iterator[Seen | None]:
        """Look at a variable's states; gives None while it works, and what was seen at last.

        Args:
            variable: The variable.
            log_weights: By edge: the log message from its variable to its factor, over the domain, largest 0.
        """
        universe = self._tables.universe
        edges = sorted(self._speaking(variable), key=self._cost)
        states = yield from self._candidates(variable, edges)
        prior = universe.priors(variable, states)
        cut = CUT - max(LEAST_LOG, math.log(self.threshold) if self.threshold > 0.0 else LEAST_LOG)
        fine = FINE * max(0.0, self.threshold)
        spoken = {edge: self._spoken(edge, log_weights, fine) for edge in edges}
        last = self._last.get(variable)
        if last is not None and np.array_equal(last.found.states, states) and last.holds(spoken, self.threshold):
            yield last.found
            return
        total, close = prior, np.ones(len(states), dtype=np.bool_)
        is_shut_out = np.zeros(len(states), dtype=np.bool_)
        shift: dict[int, float] = {}  # the same for rough and proper sums
        if len(states) * sum(self._cost(edge)[0] for edge in edges) > MUCH:
            total = prior.copy()
            for edge in edges:
                near = total >= total.max(initial=-np.inf) - 2.0 * cut
                rough = yield from self._hear_roughly(edge, states, near, log_weights)
                is_shut_out |= near & (rough == -np.inf)
                shift[edge] = _finite(rough.max(initial=-np.inf))
                total += np.maximum(rough - shift[edge], -0.5 * cut)
            close = total >= total.max(initial=-np.inf) - cut
            if self._tables.undecided[variable]:
                close[:] = False  # all it needs to know is whether its likely states have become few
        properly = np.full(len(states), -np.inf)
        while edges and close.any():
            some = np.flatnonzero(close)
            properly[some] = prior[some]
            for edge in edges:
                found = yield from self._say(edge, states[some], spoken[edge])
                shift.setdefault(edge, _finite(found.max(initial=-np.inf)))
                properly[some] += found - shift[edge]
            total = np.where(properly > -np.inf, properly, total)
            total[some] = properly[some]
            close = (total >= properly.max() - cut) & (properly == -np.inf) & (total > -np.inf)
        is_shut_out = (is_shut_out | (total == -np.inf)) & (prior > -np.inf)
        seen = Seen(states, total, self._log_rest(variable, states, total), is_shut_out)
        self._last[variable] = _Look(seen, self.threshold, spoken)
        yield seen

    # ------------------------------------------------------------ who speaks, and of what
    def _speaking(self, variable: int) -> list[int]:
        """Return a variable's edges at factors whose other variables have domains."""
        compiled, undecided = self._tables.compiled, self._tables.undecided
        layout, found = compiled.arrays, []
        for edge in compiled.edges_of(variable):
            others = [int(layout.edge_variable[e]) for e in compiled.edges(int(layout.edge_factor[edge])) if e != edge]
            if not undecided[others].any():
                found.append(edge)
        return found

    def _cost(self, edge: int) -> tuple[float, int]:
        compiled = self._tables.compiled
        factor = int(compiled.arrays.edge_factor[edge])
        source, _ = compiled.source(factor)
        if source.speaks:
            return 0.0, edge
        others = [int(compiled.arrays.edge_variable[e]) for e in compiled.edges(factor) if e != edge]
        return math.prod(float(len(self._tables.states[v])) for v in others), edge

    def _candidates(self, variable: int, edges: list[int]) -> Generator[None, None, IndexArray]:
        """Return the states to look at: all of them, or the domain and what rules propose, if they all can."""
        compiled, universe = self._tables.compiled, self._tables.universe
        found = [self._tables.states[variable]]
        for edge in edges:
            factor = int(compiled.arrays.edge_factor[edge])
            block, offset = compiled.locate(factor)
            if not block.source.proposes:
                return universe.allowed_states(variable)
            scope = compiled.edges(factor)
            states = [self._tables.states[int(compiled.arrays.edge_variable[e])] for e in scope]
            found.append(block.partners(offset, states, edge - scope.start, MOST_PROPOSED, compiled.variables))
            yield
        if not edges:
            return universe.allowed_states(variable)
        start, end = universe.start[variable], universe.start[variable + 1]
        own = universe.log_prior[start:end]
        if universe.has_scores[variable]:
            found.append(np.argpartition(own, -min(MOST_PROPOSED, len(own)))[-MOST_PROPOSED:])
        candidates = np.unique(np.concatenate(found))
        left: IndexArray = candidates[universe.allowed[start + candidates]]
        return left if len(left) else universe.allowed_states(variable)  # nobody has proposed any

    def _log_rest(self, variable: int, states: IndexArray, total: FloatArray) -> float:
        """Return the log belief of the states that were not looked at: as if messages spoke of them as of the others.

        That is rather too much than too little, as proposed states are the likelier ones.
        """
        universe = self._tables.universe
        if len(states) == universe.n_allowed[variable]:
            return -np.inf
        own = np.exp(universe.log_prior[universe.start[variable] : universe.start[variable + 1]])
        possible = total > -np.inf
        gain = total[possible] - universe.log_prior[universe.start[variable] + states[possible]]
        unseen = float(own.sum() - own[states].sum())
        return math.log(unseen) + float(np.median(gain)) if unseen > 0.0 and len(gain) else -np.inf

    # ------------------------------------------------------------ one factor
    def _spoken(self, edge: int, log_weights: dict[int, FloatArray], left_out: float) -> Spoken:
        """Return per axis of an edge's factor the states that count, heaviest first, and their shares of the weight.

        Args:
            edge: Whose own axis is empty.
            log_weights: By edge.
            left_out: Part of each variable's weight that may be left out.
        """
        compiled, spoken = self._tables.compiled, []
        for e in compiled.edges(int(compiled.arrays.edge_factor[edge])):
            if e == edge:
                spoken.append((np.empty(0, dtype=np.int64), np.empty(0)))
                continue
            weight = np.exp(log_weights[e])
            weight /= weight.sum()
            order = np.argsort(-weight, kind="stable")
            order = order[: 1 + int(np.searchsorted(np.cumsum(weight[order]), 1.0 - left_out))]
            order = order[weight[order] > 0.0]
            spoken.append((self._tables.states[int(compiled.arrays.edge_variable[e])][order], weight[order]))
        return spoken

    def _hear_roughly(
        self, edge: int, states: IndexArray, near: npt.NDArray[np.bool_], log_weights: dict[int, FloatArray]
    ) -> Generator[None, None, FloatArray]:
        """Return about the log of what a factor says of the states that are near; -inf of the others."""
        spoken = self._spoken(edge, log_weights, ROUGH)
        before = self._heard.get(edge) if self._heard is not None else None
        if before is None or len(before.message) != len(states) or _have_moved(before.spoke, spoken, MOVED):
            before = _Heard(spoken, np.full(len(states), np.nan, dtype=np.float32), np.full(1, np.nan))
            if self._heard is not None:
                self._heard[edge] = before
        new = np.flatnonzero(near & np.isnan(before.message))
        if len(new):
            found = yield from self._say(edge, states[new], before.spoke)
            if np.isnan(before.largest[0]):
                before.largest[0] = _finite(found.max())
            before.message[new] = found - before.largest[0]
        return np.where(near, before.message.astype(np.float64) + before.largest[0], -np.inf)

    def _say(self, edge: int, states: IndexArray, spoken: Spoken) -> Generator[None, None, FloatArray]:
        """Return the log of what a factor sends to some states, from some states of its other variables."""
        compiled = self._tables.compiled
        factor = int(compiled.arrays.edge_factor[edge])
        axis = edge - compiled.edges(factor).start
        others, weights = [own for own, _ in spoken], [np.log(weight) for _, weight in spoken]
        asking = ask_message(compiled, factor, others, weights, axis, states, self.block)
        while True:
            try:
                self.asked += next(asking)
            except StopIteration as end:
                found: FloatArray = end.value
                return found
            yield


def _finite(value: float) -> float:
    return float(value) if value > -np.inf else 0.0


def _have_moved(before: Spoken, now: Spoken, most: float) -> bool:
    """Tell whether the weights of some variable have moved by more than a part of all."""
    return any(_distance(*old, *new) > most for old, new in zip(before, now, strict=True))


def _distance(states: IndexArray, share: FloatArray, new_states: IndexArray, new_share: FloatArray) -> float:
    """Return the total variation distance of two distributions over states."""
    every, place = np.unique(np.concatenate([states, new_states]), return_inverse=True)
    difference = np.bincount(place.reshape(-1), weights=np.concatenate([share, -new_share]), minlength=len(every))
    return 0.5 * float(np.abs(difference).sum())
