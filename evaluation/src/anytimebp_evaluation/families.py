"""Families of random models, stated in full: as plain arrays, which other programs can read, and as factor graphs.

The paper does not say how its potentials were drawn, and what sparse domains gain depends on just that. So there are
several families, from such with one likely state per variable to such with a hundred.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anytimebp import FactorGraph

FloatArray = NDArray[np.float64]
IndexArray = NDArray[np.int64]

N_TYPES, N_RELATIONS = 42, 24  # states of an entity's type and of a relation
POSSIBLE, UNUSUAL, NO_RELATION = 0.03, -4.0, 0.5  # share of triples that score 0, score of the others, and of "none"
SHARED_SD, OWN_SD = 0.5, 0.3  # of the ternary scores: what all pairs of entities share, and what each adds
LONGEST_GAP = 5  # states


class Arrays(NamedTuple):
    """A model whose factors, but for the unary ones, all have the same shape.

    Attributes:
        unary: Log scores per variable: (variables, states), or a list of vectors where universes differ.
        scopes: (factors, arity) variable indices.
        tables: (factors, states, states, ...) log scores.
    """

    unary: FloatArray | Sequence[FloatArray]
    scopes: IndexArray
    tables: FloatArray


class GridScores(NamedTuple):
    """Standard deviations of the log scores of a grid, which are normal and independent.

    Attributes:
        unary: Of the scores of states.
        pairwise: Of the scores of pairs of states.
    """

    unary: float
    pairwise: float

    def __str__(self) -> str:
        """Return how scores are drawn."""
        return f"unary log scores Normal(0, {self.unary:g}), pairwise ones Normal(0, {self.pairwise:g})"


class ReadingScores(NamedTuple):
    """The unary log scores of joint extraction: what a noisy reader makes of every entity and pair.

    Attributes:
        deviation: Standard deviation of the scores.
        bonus: What one random state, the one that the reader believes in, has in addition.
    """

    deviation: float
    bonus: float

    def __str__(self) -> str:
        """Return how scores are drawn."""
        return f"unary log scores Normal(0, {self.deviation:g}), with {self.bonus:g} added to one random state"


GRIDS = {
    "peaked": GridScores(10.0, 0.5),
    "high": GridScores(10.0, 1.0),
    "sharp": GridScores(12.0, 1.0),
    "strong": GridScores(12.0, 2.0),
    "middle": GridScores(6.0, 2.0),
    "flat": GridScores(1.0, 0.5),
}
READINGS = {"peaked": ReadingScores(8.0, 16.0), "flat": ReadingScores(1.0, 2.0)}


def grid_scopes(rows: int, cols: int) -> IndexArray:
    """Return the neighbouring pairs of a grid, (pairs, 2), variable by variable: from above, then from the left.

    That is the order in which `bp` goes through them, and programs without an order of their own take pairs as they
    come.
    """
    index = np.arange(rows * cols).reshape(rows, cols)
    down = np.stack([index[:-1].ravel(), index[1:].ravel()], axis=1)
    across = np.stack([index[:, :-1].ravel(), index[:, 1:].ravel()], axis=1)
    pairs = np.concatenate([down, across])
    return pairs[np.lexsort((pairs[:, 0], pairs[:, 1]))]


def grid(rows: int, cols: int, states: int, unary_sd: float, pairwise_sd: float, seed: int) -> Arrays:
    """Return a grid with independent normal log scores."""
    rng = np.random.default_rng(seed)
    scopes = grid_scopes(rows, cols)
    unary = rng.normal(0.0, unary_sd, (rows * cols, states))
    tables = rng.normal(0.0, pairwise_sd, (len(scopes), states, states))
    return Arrays(unary, scopes, tables)


def joint_extraction(n_entities: int, seed: int, scores: ReadingScores = READINGS["peaked"]) -> Arrays:
    """Return the joint-extraction model: types of entities, and a relation for every ordered pair of them.

    The ternary scores of (type, type, relation) are 0 for a few triples, -4 for the others and 0.5 where the relation
    is the first, "none"; plus normal ones that all pairs share, and normal ones of each pair.
    """
    rng = np.random.default_rng(seed)
    pairs = [(a, b) for a in range(n_entities) for b in range(n_entities) if a != b]
    scopes = np.array([(a, b, n_entities + k) for k, (a, b) in enumerate(pairs)])
    unary = [_reading(rng, N_TYPES, scores) for _ in range(n_entities)]
    unary += [_reading(rng, N_RELATIONS, scores) for _ in pairs]
    shape = (N_TYPES, N_TYPES, N_RELATIONS)
    shared = np.where(rng.random(shape) < POSSIBLE, 0.0, UNUSUAL)
    shared[:, :, 0] = NO_RELATION
    shared += rng.normal(0.0, SHARED_SD, shape)
    tables = shared + rng.normal(0.0, OWN_SD, (len(pairs), *shape))
    return Arrays(unary, scopes, tables)


def _reading(rng: np.random.Generator, states: int, scores: ReadingScores) -> FloatArray:
    """Return the unary log scores of a variable."""
    reading = rng.normal(0.0, scores.deviation, states)
    reading[rng.integers(states)] += scores.bonus
    return reading


def graph_of(model: Arrays) -> FactorGraph:
    """Return the factor graph of a model in arrays, built in bulk; the tables are not copied."""
    graph = FactorGraph()
    if isinstance(model.unary, np.ndarray):
        n_variables, states = model.unary.shape
        variables = graph.add_variables(n_variables, states)
        graph.add_factors(np.array(variables)[:, np.newaxis], log_table=model.unary)
    else:
        for index, scores in enumerate(model.unary):
            graph.add_factor([graph.add_variable(f"x{index}", len(scores))], log_table=scores)
    graph.add_factors(model.scopes, log_table=model.tables)
    return graph


def attractive(side: int, states: int, coupling: float, unary: float, seed: int) -> FactorGraph:
    """Return a square grid whose neighbours like to be in the same state."""
    return _lattice(side, unary, coupling * (2.0 * np.eye(states) - 1.0), seed)


def truncated_linear(side: int, states: int, slope: float, unary: float, seed: int) -> FactorGraph:
    """Return a square grid whose neighbours like to be in states near each other; beyond LONGEST_GAP all are alike."""
    gap = np.abs(np.subtract.outer(np.arange(states), np.arange(states)))
    return _lattice(side, unary, -slope * np.minimum(gap, LONGEST_GAP), seed)


def _lattice(side: int, unary: float, log_table: FloatArray, seed: int) -> FactorGraph:
    """Return a square grid with random unary scores and one table for all pairs of neighbours."""
    rng = np.random.default_rng(seed)
    states = len(log_table)
    graph = FactorGraph()
    graph.add_variables(side * side, states)
    graph.add_factors(np.arange(side * side)[:, None], log_table=rng.normal(0.0, unary, (side * side, states)))
    cells = np.arange(side * side).reshape(side, side)
    across = np.stack([cells[:, :-1].ravel(), cells[:, 1:].ravel()], axis=1)
    down = np.stack([cells[:-1].ravel(), cells[1:].ravel()], axis=1)
    graph.add_factors(np.concatenate([across, down]), log_table=log_table)
    return graph
