"""What the models are put together from. Scores are uniform numbers, so that NumPy's other distributions may change."""

import numpy as np

INF = np.inf


def register(models):
    """Return a decorator that enters functions by their names."""

    def enter(build):
        models[build.__name__] = build
        return build

    return enter


def scores(rng, shape, spread):
    """Return log scores, uniform between -spread and spread."""
    return spread * (2.0 * rng.random(shape) - 1.0)


def spoilt(rng, table, zeros, possible):
    """Set a part of the scores to -inf, but not that of the joint state `possible`."""
    kept = table[possible]
    table[rng.random(table.shape) < zeros] = -INF
    table[possible] = kept
    return table


def add_unary(graph, rng, variables, spread):
    for i in variables:
        graph.add_factor([i], log_table=scores(rng, graph.variables[i].n_states, spread))


def add_scored(graph, rng, scope, spread):
    shape = [graph.variables[i].n_states for i in scope]
    graph.add_factor(scope, log_table=scores(rng, shape, spread))


def ring(n):
    return [(i, (i + 1) % n) for i in range(n)]


def add_grid(graph, rng, rows, columns, states, unary, coupling):
    """Add a grid with stacked tables."""
    graph.add_variables(rows * columns, states)
    position = np.arange(rows * columns).reshape(rows, columns)
    pairs = [*zip(position[:, :-1].flat, position[:, 1:].flat, strict=True)]
    pairs += [*zip(position[:-1].flat, position[1:].flat, strict=True)]
    graph.add_factors(position.reshape(-1, 1), log_table=scores(rng, (position.size, states), unary))
    graph.add_factors(np.array(pairs), log_table=scores(rng, (len(pairs), states, states), coupling))


def add_extraction(graph, rng, entities, types, relations, *, tied):
    """Add entities with types, and a relation for every ordered pair of them."""
    graph.add_variables(entities, types, names=[f"type{a}" for a in range(entities)])
    pairs = [(a, b) for a in range(entities) for b in range(entities) if a != b]
    graph.add_variables(len(pairs), relations, names=[f"relation{a}{b}" for a, b in pairs])
    add_unary(graph, rng, range(entities + len(pairs)), 3.0)
    shared = np.where(rng.random((types, types, relations)) < 0.2, 0.0, -2.0) + scores(
        rng, (types, types, relations), 0.4
    )
    shared[:, :, 0] += 1.5  # no relation fits all types
    scopes = [(a, b, entities + k) for k, (a, b) in enumerate(pairs)]
    own = scores(rng, (len(pairs), *shared.shape), 0.3)
    graph.add_factors(scopes, log_table=shared if tied else shared + own)
