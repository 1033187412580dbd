"""Seeded models of the benchmarks: as plain arrays, which peers can read, and as factor graphs."""

from typing import NamedTuple

import numpy as np

import anytimebp as abp

N_TYPES, N_RELATIONS = 42, 24  # states of an entity's type and of a relation


class Arrays(NamedTuple):
    """A model whose factors all have the same shape.

    Attributes:
        unary: Log scores per variable: (variables, states), or a list of vectors where universes differ.
        scopes: (factors, arity) variable indices.
        tables: (factors, states, states, ...) log scores.
    """

    unary: np.ndarray | list[np.ndarray]
    scopes: np.ndarray
    tables: np.ndarray


def grid_scopes(rows, cols):
    """Return the neighbouring pairs of a grid, (pairs, 2), variable by variable: from above, then from the left.

    That is the order in which `bp` goes through them, and the baselines take pairs as they come.
    """
    index = np.arange(rows * cols).reshape(rows, cols)
    down = np.stack([index[:-1].ravel(), index[1:].ravel()], axis=1)
    across = np.stack([index[:, :-1].ravel(), index[:, 1:].ravel()], axis=1)
    pairs = np.concatenate([down, across])
    return pairs[np.lexsort((pairs[:, 0], pairs[:, 1]))]


def grid(rows, cols, states, unary_sd, pairwise_sd, seed):
    """Return a grid with independent normal log scores."""
    rng = np.random.default_rng(seed)
    scopes = grid_scopes(rows, cols)
    unary = rng.normal(0.0, unary_sd, (rows * cols, states))
    tables = rng.normal(0.0, pairwise_sd, (len(scopes), states, states))
    return Arrays(unary, scopes, tables)


def joint_extraction(n_entities, seed):
    """Return the joint-extraction model: types of entities, and a relation for every ordered pair of them."""
    rng = np.random.default_rng(seed)
    pairs = [(a, b) for a in range(n_entities) for b in range(n_entities) if a != b]
    scopes = np.array([(a, b, n_entities + k) for k, (a, b) in enumerate(pairs)])
    unary = [_noisy_reading(rng, N_TYPES) for _ in range(n_entities)]
    unary += [_noisy_reading(rng, N_RELATIONS) for _ in pairs]
    shape = (N_TYPES, N_TYPES, N_RELATIONS)
    shared = np.where(rng.random(shape) < 0.03, 0.0, -4.0)
    shared[:, :, 0] = 0.5
    shared += rng.normal(0.0, 0.5, shape)
    tables = shared + rng.normal(0.0, 0.3, (len(pairs), *shape))
    return Arrays(unary, scopes, tables)


def _noisy_reading(rng, states):
    """Return log scores Normal(0, 8) with 16 added to one random state."""
    scores = rng.normal(0.0, 8.0, states)
    scores[rng.integers(states)] += 16.0
    return scores


def graph_of(model):
    """Return the factor graph of a model in arrays, built in bulk; the tables are not copied."""
    graph = abp.FactorGraph()
    if isinstance(model.unary, np.ndarray):
        variables = graph.add_variables(*model.unary.shape)
        graph.add_factors(np.array(variables)[:, np.newaxis], log_table=model.unary)
    else:
        for index, scores in enumerate(model.unary):
            graph.add_factor([graph.add_variable(f"x{index}", len(scores))], log_table=scores)
    graph.add_factors(model.scopes, log_table=model.tables)
    return graph


def small_graph(seed, n_variables=10, states=5):
    """Return a small loopy graph, a ring with unary factors, stated one variable and one factor at a time."""
    rng = np.random.default_rng(seed)
    graph = abp.FactorGraph()
    variables = [graph.add_variable(f"v{k}", states) for k in range(n_variables)]
    for k, variable in enumerate(variables):
        graph.add_factor([variable], log_table=rng.normal(size=states))
        after = variables[(k + 1) % n_variables]
        graph.add_factor([variable, after], log_table=rng.normal(size=(states, states)))
    return graph


def tied_grid(rows, cols, states, seed):
    """Return a large grid with unary factors of its own and one pairwise table, stored once."""
    rng = np.random.default_rng(seed)
    graph = abp.FactorGraph()
    variables = np.array(graph.add_variables(rows * cols, states))
    graph.add_factors(variables[:, np.newaxis], log_table=rng.normal(size=(rows * cols, states)))
    graph.add_factors(grid_scopes(rows, cols), log_table=rng.normal(0.0, 0.3, (states, states)))
    return graph


def hub_graph(degree, states, seed):
    """Return a variable with `degree` neighbours, which form a ring: a star with loops, on two tied tables."""
    rng = np.random.default_rng(seed)
    graph = abp.FactorGraph()
    graph.add_variables(degree + 1, states)
    graph.add_factors(np.arange(degree + 1)[:, np.newaxis], log_table=rng.normal(size=(degree + 1, states)))
    leaves = np.arange(1, degree + 1)
    hub = np.zeros(degree, dtype=np.int64)
    graph.add_factors(np.stack([hub, leaves], axis=1), log_table=rng.normal(0.0, 0.1, (states, states)))
    ring = np.stack([leaves, np.roll(leaves, -1)], axis=1)
    graph.add_factors(ring, log_table=rng.normal(0.0, 0.3, (states, states)))
    return graph
