"""Many examples as one graph of many components, in which learned factors of a block stand together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from anytimebp.errors import InconsistentModelError
from anytimebp.exact.tree import is_forest
from anytimebp.inference.auto_run import choose
from anytimebp.layout.graph_layout import compiled_graph
from anytimebp.learn.example import FEATURES, JOINT, TABLE, Example, Term
from anytimebp.model.factor import row_starts
from anytimebp.model.graph import FactorGraph
from anytimebp.model.joint_score import joint_log_score
from anytimebp.model.source import FloatArray, IndexArray
from anytimebp.results.expected_counts import parts, stacks
from anytimebp.results.snapshot import Result

MOST_SLOTS = 2**17  # numbers of all messages of a batch; more would not stay in a processor's cache, fewer cost set-up
WIDE = 64.0  # joint states a number of a message; on smaller tables, estimating errors costs more than it saves
FOREST = "forest"


class Labelled(NamedTuple):
    """An example, the state of each of its variables, and how `auto` would solve it.

    Attributes:
        example: The example.
        states: (V,) the truth.
        way: A method, or FOREST: belief propagation, which is exact there.
        n_slots: Numbers of all messages.
    """

    example: Example
    states: IndexArray
    way: str
    n_slots: int


class _Position(NamedTuple):
    """Learned factors of one block that stand together in a batch.

    Attributes:
        factors: Where they are.
        term: What their scores are made of.
    """

    factors: range
    term: Term


def labelled(example: Example, states: IndexArray, method: str) -> Labelled:
    """Say how an example will be solved.

    Args:
        example: The example.
        states: The truth.
        method: That the user wants; "auto" is decided here, for each example by itself and on counts.
    """
    zeros = {term.name: np.zeros(term.weight_shape) for term in example.terms}
    graph = example.with_weights(zeros)
    n_slots = graph.rows.n_slots
    if method not in {"auto", "bp"}:
        return Labelled(example, states, method, n_slots)
    compiled = compiled_graph(graph)
    sizes = compiled.universe_sizes
    if is_forest(compiled, sizes):
        return Labelled(example, states, FOREST, n_slots)
    if method == "bp":
        return Labelled(example, states, method, n_slots)
    return Labelled(example, states, "adaptive" if choose(compiled, sizes).tree is None else "exact", n_slots)


def make_batches(examples: Sequence[Labelled], most_examples: int | None = None) -> list[Batch]:
    """Put examples that are solved alike into batches.

    Args:
        examples: In order.
        most_examples: Of a batch; by default only its size counts.
    """
    found: list[Batch] = []
    ways = list(dict.fromkeys(example.way for example in examples))
    for way in ways:
        waiting: list[Labelled] = []
        for example in (own for own in examples if own.way == way):
            full = sum(own.n_slots for own in waiting) + example.n_slots > MOST_SLOTS
            if waiting and (full or len(waiting) == most_examples):
                found.append(Batch(waiting))
                waiting = []
            waiting.append(example)
        found.append(Batch(waiting))
    return found


class Batch:
    """Some examples as one graph.

    Attributes:
        graph: Its learned factors have the scores of the last `set_weights`.
        way: A method, or FOREST.
        n_examples: How many there are.
        observed: By block, how often what is to be expected happens in the truth: the derivative of its score.
        is_wide: Whether tables are so much larger than messages that inference on likely states pays.
        known_score: The log score of the truth by all factors that are not learned, and offsets.
    """

    def __init__(self, examples: Sequence[Labelled]) -> None:
        """Join examples that are solved alike."""
        self.way, self.n_examples = examples[0].way, len(examples)
        self.graph = FactorGraph()
        first = row_starts([len(own.example.graph.variables) for own in examples])
        terms: list[Term] = []
        for own, start in zip(examples, first.tolist(), strict=False):
            for size, run in groupby(own.example.graph.variables.sizes().tolist()):
                self.graph.add_variables(len(list(run)), size)
            self.graph.add_blocks(own.example.graph.blocks, start)
            terms += [term.numbered_on(start) for term in own.example.terms]
        states = np.concatenate([own.states for own in examples])
        self._positions: list[_Position] = []
        self.observed: dict[str, FloatArray] = {}
        for term in _merged(terms):
            zeros = np.zeros(term.weight_shape)
            factors = self.graph.add_factors(term.scopes, log_table=np.array(term.log_tables(zeros)))
            self._positions.append(_Position(factors, term))
            _add(self.observed, term.name, _observed(term, states))
        self.graph.own_tables()
        self.is_wide = self.graph.rows.n_joint_states >= WIDE * self.graph.rows.n_slots
        self.known_score = joint_log_score(self.graph.blocks, self.graph.variables, {}, states)
        self._orders: Any = None

    def set_weights(self, weights: Mapping[str, FloatArray]) -> None:
        """Give the learned factors their scores."""
        if self._orders is None:
            self._orders = compiled_graph(self.graph).orders
        for factors, term in self._positions:
            self.graph.take_log_table(factors, term.log_tables(weights[term.name]))
        compiled_graph(self.graph).orders = self._orders  # which depend on no scores

    def fingerprint(self) -> bytes:
        """Return bytes that tell these examples and labels from others, as far as learning sees them."""
        numbers: list[Any] = [np.array([self.n_examples, self.graph.n_factors, self.known_score])]
        for factors, term in self._positions:
            rows = term.features
            numbers += [np.array(factors), term.scopes, self.observed[term.name]]
            numbers += [] if term.offset is None else [term.offset]
            if rows is not None:
                numbers += [rows.data, rows.indices, rows.indptr] if hasattr(rows, "tocsr") else [rows]
        return sha256(b"".join(np.ascontiguousarray(own).tobytes() for own in numbers)).digest()

    def expected(self, result: Result) -> dict[str, FloatArray]:
        """Return by block the derivative of log Z by its weights, from factor marginals."""
        found: dict[str, FloatArray] = {}
        for factors, term in self._positions:
            if term.is_shared:
                counts = result.expected_log_table(factors)
                own = np.tensordot(counts, term.features[0], axes=counts.ndim)
            elif term.kind == JOINT:
                own = np.zeros(term.weight_shape)
                for part, marginals in stacks(result.factor_marginals, factors):
                    own += np.tensordot(marginals, term.features[part], axes=marginals.ndim)
            else:
                own = result.expected_log_table(factors, term.features)
            _add(found, term.name, own)
        return found


def check_possible(what: str, example: Example, states: IndexArray) -> None:
    """Raise InconsistentModelError if factors that are not learned, or offsets, exclude the truth of an example."""
    graph = example.graph
    score = joint_log_score(graph.blocks, graph.variables, {}, states)
    for term in example.terms:
        if term.offset is not None:
            every = np.broadcast_to(term.offset, (len(term.scopes), *term.shape))
            score += float(every[np.arange(len(every)), *states[term.scopes].T].sum())
    if score == -np.inf:
        msg = f"the labels of {what} are impossible: a factor or an offset that is not learned excludes them"
        raise InconsistentModelError(msg)


def _merged(terms: Sequence[Term]) -> list[Term]:
    """Join terms of the same block, where one call can add them: those that share the same offsets and features."""
    found: dict[tuple[object, ...], list[Term]] = {}
    for term in terms:
        is_one = term.offset is not None and term.offset.ndim == len(term.shape)
        shared = term.offset.tobytes() if is_one and term.offset is not None else term.offset is None
        alike = term.features.tobytes() if term.is_shared else None
        found.setdefault((term.name, shared, alike), []).append(term)
    return [_joined(own) for own in found.values()]


def _joined(terms: Sequence[Term]) -> Term:
    """Return terms as one; their offsets, and features, are one for all, or stacked in all of them."""
    first = terms[0]
    if len(terms) == 1:
        return first
    offset = first.offset
    if offset is not None and offset.ndim > len(first.shape):
        offset = np.concatenate([term.offset for term in terms if term.offset is not None])
    features = first.features
    if features is not None and not first.is_shared:
        features = _stacked([term.features for term in terms])
    scopes = np.concatenate([term.scopes for term in terms])
    return Term(first.name, scopes, first.shape, features, offset, first.is_shared)


def _stacked(features: Sequence[Any]) -> Any:
    """Return rows of features one below the other; sparse if one of them is."""
    if not any(hasattr(own, "tocsr") for own in features):
        return np.concatenate(features)
    from scipy import sparse  # noqa: PLC0415  (who has a sparse matrix has SciPy)

    return sparse.vstack([sparse.csr_matrix(own) for own in features], format="csr")


def _observed(term: Term, states: IndexArray) -> FloatArray:
    """Return the derivative of the truth's score by the weights of a block."""
    at = np.ravel_multi_index(tuple(states[term.scopes].T), term.shape)
    size = int(np.prod(term.shape))
    if term.kind == TABLE:
        return np.bincount(at, minlength=size).astype(np.float64).reshape(term.shape)
    if term.is_shared:
        counts = np.bincount(at, minlength=size).astype(np.float64)
        summed: FloatArray = counts @ term.features.reshape(size, -1)
        return summed
    if term.kind == JOINT:
        rows = term.features.reshape(len(at), size, -1)[np.arange(len(at)), at]
        total: FloatArray = rows.sum(axis=0)
        return total
    assert term.kind == FEATURES  # noqa: S101
    found = np.zeros((term.weight_shape[0], size))
    for part in parts(len(at), size):
        one = np.zeros((part.stop - part.start, size))
        one[np.arange(len(one)), at[part]] = 1.0
        found += term.features[part].T @ one
    return found.reshape(term.weight_shape)


def _add(to: dict[str, FloatArray], name: str, own: FloatArray) -> None:
    to[name] = own if name not in to else to[name] + own
