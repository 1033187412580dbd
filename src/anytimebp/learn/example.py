"""What a CRF learns from: a graph, and which factors of it have scores that are to be learned.

The log scores of factor number k of a learned block are

    offset_k  +  W                        a table that all factors of the block share,
    offset_k  +  features_k @ W           W has a table per feature, or
    offset_k  +  joint_features_k @ w     w has one weight per feature, whatever the states; joint features may be
                                          the same for all factors, which then share one table.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from anytimebp.errors import ModelError, UnknownStateError
from anytimebp.model.graph import FactorGraph
from anytimebp.model.scopes import read_scopes
from anytimebp.model.scores import NUMBERS, read_log_scores
from anytimebp.model.source import FloatArray, IndexArray
from anytimebp.model.variable import VariableKey

Truth: TypeAlias = Mapping[Any, Any] | Sequence[Any] | npt.NDArray[Any]
"""The label of every variable: in the order of the graph, or by name."""

TABLE, FEATURES, JOINT = "a shared table", "features", "joint features"


@dataclass(frozen=True, eq=False)
class Term:
    """Factors of an example whose scores are learned.

    Attributes:
        name: Of the block that they belong to.
        scopes: (n, arity) variables.
        shape: Of their tables.
        features: None; (n, features), an array or a sparse matrix; or (n, *shape, features).
        offset: None; (*shape), for all; or (n, *shape).
        is_shared: Whether joint features have one row, for all factors.
    """

    name: str
    scopes: IndexArray
    shape: tuple[int, ...]
    features: Any = None
    offset: FloatArray | None = None
    is_shared: bool = False

    @property
    def kind(self) -> str:
        """How scores come from weights."""
        if self.features is None:
            return TABLE
        return FEATURES if len(self.features.shape) == 2 else JOINT  # noqa: PLR2004

    @property
    def weight_shape(self) -> tuple[int, ...]:
        """The shape of the block's weights."""
        if self.kind == TABLE:
            return self.shape
        n = int(self.features.shape[-1])
        return (n, *self.shape) if self.kind == FEATURES else (n,)

    def log_tables(self, weights: FloatArray) -> FloatArray:
        """Return the log scores that weights give: one table if they are tied, otherwise one a factor."""
        if self.kind == TABLE:
            scores = weights
        elif self.kind == FEATURES:
            flat = self.features @ weights.reshape(weights.shape[0], math.prod(self.shape))
            scores = np.asarray(flat).reshape(len(self.scopes), *self.shape)
        else:
            scores = (self.features[0] if self.is_shared else self.features) @ weights
        return scores if self.offset is None else scores + self.offset

    def numbered_on(self, first: int) -> Term:
        """Return the same on variables that are numbered from another one on."""
        return replace(self, scopes=self.scopes + first)


class Example:
    """A graph with factors whose scores are to be learned; the graph's own factors keep their scores."""

    def __init__(self, graph: FactorGraph) -> None:
        """Learn nothing yet.

        Args:
            graph: Variables, and factors that are known: constraints, scores of other models. Later changes of the
                graph do not count.
        """
        if not isinstance(graph, FactorGraph):
            msg = f"an example is made of a FactorGraph, got {type(graph).__name__}"
            raise ModelError(msg)
        self._graph = copy.copy(graph)
        self._terms: list[Term] = []

    @property
    def graph(self) -> FactorGraph:
        """The variables, and the factors whose scores are known."""
        return self._graph

    @property
    def terms(self) -> tuple[Term, ...]:
        """The factors whose scores are to be learned, in parts of one call each."""
        return tuple(self._terms)

    def add_factors(
        self,
        block: str,
        scopes: npt.ArrayLike | Sequence[Sequence[VariableKey]],
        *,
        features: Any = None,
        joint_features: npt.ArrayLike | None = None,
        offset: npt.ArrayLike | None = None,
    ) -> None:
        """Add factors whose scores are to be learned.

        Without features, all factors of a block share one table of weights, in this example and all others.

        Args:
            block: The name of the weights. All factors of a block have the same shape, and features of the same kind.
            scopes: Variables of shape (factors, arity), as for `FactorGraph.add_factors`.
            features: Of shape (factors, features), an array or a sparse matrix: every feature has a table of weights,
                and a factor's log scores are `features[k] @ weights`.
            joint_features: Of shape (factors, *states, features): every feature has one weight, as for scores of other
                models that are to be weighed. Of shape (*states, features), they are the same for all factors.
            offset: Log scores that are added to what is learned, of one factor's shape or one a factor; -inf excludes
                a joint state.
        """
        if not isinstance(block, str) or not block:
            msg = f"the name of a block must be a non-empty string, got {block!r}"
            raise ModelError(msg)
        what = f"block {block!r}"
        rows = _with_note(what, scopes, self._graph)
        if not len(rows):
            return
        sizes = self._graph.variables.sizes()[rows]
        shape = tuple(sizes[0].tolist())
        odd = np.flatnonzero((sizes != sizes[0]).any(axis=1))
        if odd.size:
            other = tuple(sizes[odd[0]].tolist())
            msg = f"{what}: factors need one shape; row 0 has {shape}, row {odd[0]} has {other}"
            raise ModelError(msg)
        if features is not None and joint_features is not None:
            msg = f"{what}: give features or joint_features, not both"
            raise ModelError(msg)
        n = len(rows)
        given, is_shared = None, False
        if features is not None:
            given = _numbers(features, (n, None), f"{what}: features")
        if joint_features is not None:
            is_shared = np.shape(joint_features)[:-1] == shape
            wanted = (*shape, None) if is_shared else (n, *shape, None)
            given = _numbers(joint_features, wanted, f"{what}: joint_features")
            given = given[np.newaxis] if is_shared else given
        self._terms.append(Term(block, rows, shape, given, _read_offset(offset, n, shape, what), is_shared))

    def states(self, truth: Truth) -> IndexArray:
        """Return the state of every variable, of labels in the order of the graph or by name.

        Raises:
            ModelError: If a variable has no label, or one that is not among its states.
        """
        variables = self._graph.variables
        if isinstance(truth, Mapping):
            keys = [variables.index_of(key) for key in truth]
            missing = sorted(set(range(len(variables))) - set(keys))
            if missing or len(keys) > len(variables):
                twice = next((index for index in keys if keys.count(index) > 1), 0)
                wrong, what = (missing[0], "no label") if missing else (twice, "two labels")
                msg = f"variable {variables.name(wrong)!r} has {what}"
                raise ModelError(msg)
            labels = dict(zip(keys, truth.values(), strict=True))
            truth = [labels[index] for index in range(len(variables))]
        if not isinstance(truth, Iterable):
            msg = f"expected a label for each variable, in order or by name, got {truth!r:.80}"
            raise ModelError(msg)
        given = truth.tolist() if isinstance(truth, np.ndarray) else list(truth)
        if len(given) != len(variables):
            msg = f"there are {len(variables)} variables, but {len(given)} labels"
            raise ModelError(msg)
        try:
            return np.array([variables[k].state_index(label) for k, label in enumerate(given)], dtype=np.int64)
        except UnknownStateError as error:
            raise ModelError(str(error)) from None

    def with_weights(self, weights: Mapping[str, FloatArray]) -> FactorGraph:
        """Return a graph in which the learned factors have the scores that weights give."""
        graph = copy.copy(self._graph)
        for term in self._terms:
            graph.add_factors(term.scopes, log_table=np.array(term.log_tables(weights[term.name])))
        graph.own_tables()
        return graph

    def __repr__(self) -> str:
        """Return one line."""
        names = ", ".join(dict.fromkeys(term.name for term in self._terms)) or "nothing"
        return f"<Example: {len(self._graph.variables)} variables, learns {names}>"


def _with_note(what: str, scopes: Any, graph: FactorGraph) -> IndexArray:
    try:
        return read_scopes(graph.variables, scopes)
    except ModelError as error:
        msg = f"{what}: {error}"
        raise ModelError(msg) from None


def _numbers(given: Any, shape: Iterable[int | None], what: str) -> Any:
    """Return an array of floats, or a sparse matrix by rows, of a given shape; raise ModelError otherwise."""
    try:
        found: Any = given.tocsr() if hasattr(given, "tocsr") else np.asarray(given)
    except ValueError:  # rows of different lengths
        found = np.asarray(None)
    if isinstance(given, np.ma.MaskedArray) or (found.dtype.kind not in NUMBERS and 0 not in found.shape):
        msg = f"{what} must be numbers, got {given!r:.80}"
        raise ModelError(msg)
    found = found.astype(np.float64, copy=False)
    values = found.data if hasattr(given, "tocsr") else found
    wanted = tuple(shape)
    fits = len(found.shape) == len(wanted)
    if not fits or any(k is not None and k != n for k, n in zip(wanted, found.shape, strict=True)):
        shown = ", ".join("any" if k is None else str(k) for k in wanted)
        msg = f"{what} must have the shape ({shown}), got {tuple(found.shape)}"
        raise ModelError(msg)
    if not np.isfinite(values).all():
        msg = f"{what} hold {values[~np.isfinite(values)][0]}; they must be finite numbers"
        raise ModelError(msg)
    return found


def _read_offset(offset: npt.ArrayLike | None, n: int, shape: tuple[int, ...], what: str) -> FloatArray | None:
    if offset is None:
        return None
    found = read_log_scores(offset, f"{what}: the offset")
    if found.shape not in {shape, (n, *shape)}:
        msg = f"{what}: the offset must have the shape {shape} or {(n, *shape)}, got {found.shape}"
        raise ModelError(msg)
    return found
