"""Seeded models of the benchmarks: those of the experiments, and some of their own."""

import numpy as np

import anytimebp as abp
from anytimebp_evaluation.families import (
    N_RELATIONS,
    N_TYPES,
    Arrays,
    attractive,
    graph_of,
    grid,
    grid_scopes,
    joint_extraction,
    truncated_linear,
)

__all__ = [
    "N_RELATIONS",
    "N_TYPES",
    "Arrays",
    "attractive",
    "graph_of",
    "grid",
    "grid_scopes",
    "hub_graph",
    "joint_extraction",
    "random_pairs",
    "small_graph",
    "tied_grid",
    "truncated_linear",
    "wide_grid",
    "wide_pairs",
]

ZEROS = 0.1  # part of the entries of wide models that are hard zeros


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


def random_pairs(seed):
    """Random pairs of 8 to 60 variables, from a tree's number of factors to 2.5 times as many."""
    rng = np.random.default_rng(seed)
    n, states = int(rng.integers(8, 60)), int(rng.choice([2, 3, 5, 10, 30]))
    unary, pairwise = rng.choice([0.3, 1.0, 3.0, 10.0]), rng.choice([0.3, 0.7, 1.5])
    graph = abp.FactorGraph()
    graph.add_variables(n, states)
    graph.add_factors(np.arange(n)[:, None], log_table=rng.normal(0, unary, (n, states)))
    pairs = np.array([(a, b) for b in range(n) for a in range(b)])
    chosen = rng.choice(len(pairs), min(len(pairs), int(n * rng.choice([1.0, 1.5, 2.5]))), replace=False)
    graph.add_factors(pairs[np.sort(chosen)], log_table=rng.normal(0, pairwise, (len(chosen), states, states)))
    return graph


def wide_grid(rows, cols, states, seed):
    """Return a grid for log arithmetic: unary scores over more than 600 nats, and a tenth of all pairs impossible."""
    rng = np.random.default_rng(seed)
    scopes = grid_scopes(rows, cols)
    tables = rng.normal(size=(len(scopes), states, states))
    tables[rng.random(tables.shape) < ZEROS] = -np.inf
    return Arrays(rng.normal(0.0, 150.0, (rows * cols, states)), scopes, tables)


def wide_pairs(n_variables, n_factors, states, seed):
    """Return random pairs for log arithmetic: scores over more than 600 nats, as of a most probable state sought."""
    rng = np.random.default_rng(seed)
    pairs = np.array([(a, b) for b in range(n_variables) for a in range(b)])
    scopes = pairs[np.sort(rng.choice(len(pairs), n_factors, replace=False))]
    tables = 120.0 * rng.normal(0.0, 1.0, (n_factors, states, states))
    tables[rng.random(tables.shape) < ZEROS] = -np.inf
    return Arrays(120.0 * rng.normal(0.0, 10.0, (n_variables, states)), scopes, tables)
