"""Random graphs for tests, from a seed."""

import numpy as np

import anytimebp as abp


def random_table(rng, shape, scale, zeros, possible):
    """Return log scores, some of them -inf, but never at the joint state `possible`."""
    table = rng.normal(0.0, scale, shape)
    table[rng.random(shape) < zeros] = -np.inf
    table[possible] = rng.normal(0.0, scale)
    return table


def add_random_factor(graph, rng, scope, scale, zeros, witness):
    """Add a factor in a random one of the ways to state it."""
    shape = tuple(graph.variables[i].n_states for i in scope)
    table = random_table(rng, shape, scale, zeros, tuple(witness[i] for i in scope))
    way = rng.integers(4)
    if way == 0 and scale < 100:
        graph.add_factor(scope, table=np.exp(table))
    elif way == 1:
        indices = np.argwhere(table > -np.inf)
        graph.add_factor(scope, entries=(indices, table[table > -np.inf]))
    elif way == 2:
        graph.add_factor(scope, rule=lambda *states: table[states])
    else:
        graph.add_factor(scope, log_table=table)


def random_tree(seed, scale=1.0, zeros=0.0, max_arity=5, max_states=12, max_joint=30_000, n_factors=8):
    """Return a forest of mixed arities with hard zeros that leave at least one joint state."""
    rng = np.random.default_rng(seed)
    graph = abp.FactorGraph()
    witness, joint = [], 1

    def new_variable():
        nonlocal joint
        n = int(rng.integers(1, max_states + 1))
        if joint * n > max_joint:
            return None
        joint *= n
        graph.add_variable(f"v{len(witness)}", n)
        witness.append(int(rng.integers(n)))
        return len(witness) - 1

    new_variable()
    for _ in range(n_factors):
        fresh = [new_variable() for _ in range(int(rng.integers(0, max_arity)))]
        scope = [v for v in fresh if v is not None]
        if rng.random() < 0.9 or not scope:
            old = [i for i in range(len(witness)) if i not in scope]
            scope.append(int(rng.choice(old)))
        rng.shuffle(scope)
        add_random_factor(graph, rng, scope, scale, zeros, witness)
    return graph


def random_loopy(seed, scale=0.3, unary=1.0, zeros=0.0, n_variables=6, max_states=4, n_factors=9, max_arity=3):
    """Return a graph with loops, of coupling `scale`."""
    rng = np.random.default_rng(seed)
    graph = abp.FactorGraph()
    witness = []
    for i in range(n_variables):
        n = int(rng.integers(1, max_states + 1))
        graph.add_variable(f"v{i}", n)
        witness.append(int(rng.integers(n)))
        add_random_factor(graph, rng, [i], unary, 0.0, witness)
    for _ in range(n_factors):
        arity = int(rng.integers(2, max_arity + 1))
        scope = rng.choice(n_variables, arity, replace=False).tolist()
        add_random_factor(graph, rng, scope, scale, zeros, witness)
    return graph


def grid(side, states, unary, pairwise, seed):
    """Return a square grid with Normal log scores."""
    rng = np.random.default_rng(seed)
    graph = abp.FactorGraph()
    graph.add_variables(side * side, states)
    position = np.arange(side * side).reshape(side, side)
    pairs = np.concatenate(
        [
            np.stack([position[:, :-1], position[:, 1:]], -1).reshape(-1, 2),
            np.stack([position[:-1], position[1:]], -1).reshape(-1, 2),
        ]
    )
    graph.add_factors(position.reshape(-1, 1), log_table=rng.normal(0, unary, (side * side, states)))
    graph.add_factors(pairs, log_table=rng.normal(0, pairwise, (len(pairs), states, states)))
    return graph


def peaked(seed, scale=0.3, unary=4.0, zeros=0.0, max_arity=4):
    """Return a graph with loops whose variables favour few of their states; hard zeros in priors, if asked for."""
    graph = random_loopy(seed, scale=scale, unary=unary, max_states=8, n_factors=7, max_arity=max_arity)
    rng = np.random.default_rng(seed)
    for i, n in enumerate(graph.variables.sizes().tolist()):
        table = random_table(rng, (n,), 1.0, zeros, (int(rng.integers(n)),))
        graph.add_factor([i], log_table=table)
    return graph


def hub(seed, leaves=18, states=4, scale=0.2, unary=3.0):
    """Return a variable with many neighbours, which are also tied to each other in a ring."""
    rng = np.random.default_rng(seed)
    graph = abp.FactorGraph()
    graph.add_variables(leaves + 1, states)
    others = np.arange(1, leaves + 1)
    pairs = np.concatenate(
        [np.stack([np.zeros_like(others), others], axis=1), np.stack([others, np.roll(others, 1)], 1)]
    )
    graph.add_factors(np.arange(leaves + 1)[:, np.newaxis], log_table=rng.normal(0, unary, (leaves + 1, states)))
    graph.add_factors(pairs, log_table=rng.normal(0, scale, (len(pairs), states, states)))
    return graph


def wide(seed, nats=2000.0, part=0.1, zeros=0.0):
    """Return a peaked graph some of whose scores are up to so many nats lower than the others."""
    rng = np.random.default_rng(seed)
    graph = random_loopy(seed, scale=0.2, unary=3.0, max_states=6, n_factors=3)
    for _ in range(5):
        scope = rng.choice(6, int(rng.integers(2, 4)), replace=False).tolist()
        shape = tuple(graph.variables[i].n_states for i in scope)
        table = random_table(rng, shape, 0.2, zeros, (0,) * len(shape))
        lower = rng.random(shape) < part
        lower[(0,) * len(shape)] = False
        table[lower] -= rng.uniform(1.0, nats)
        if rng.random() < 0.5:
            graph.add_factor(scope, log_table=table)
        else:
            graph.add_factor(scope, rule=lambda *states, own=table: own[states])
    return graph


def structured(seed, default=-1.0, states=9):
    """Return a ring of variables with structures and lists, whose scores are weak unless the default is -inf."""
    rng = np.random.default_rng(seed)
    graph = abp.FactorGraph()
    graph.add_variables(6, states)
    witness = int(rng.integers(states))
    for i in range(6):
        graph.add_factor([i], log_table=rng.normal(0.0, 3.0, states))
    for i in range(6):
        pair, way = [i, (i + 1) % 6], rng.integers(4)
        if way == 0:
            structure = abp.Equality(rng.normal(0.0, 0.3, states), default)
        elif way == 1:
            structure = abp.Difference(rng.normal(0.0, 0.3, 3), default=default)
        elif way == 2:
            by = int(rng.integers(1, states))
            structure = abp.Deterministic(lambda a, by=by: (a * by) % states, 0.0, default)
        else:
            listed = np.unique(np.r_[rng.integers(0, states, (12, 2)), [[witness, witness]]], axis=0)
            graph.add_factor(pair, entries=(listed, rng.normal(0.0, 0.3, len(listed))), default=max(default, -5.0))
            continue
        graph.add_factor(pair, structure=structure)
    graph.add_factor([0, 2, 4], structure=abp.AtMostOne(int(rng.integers(states))))
    graph.add_factor(
        [1, 3, 5], entries=(rng.permutation(states**3)[:20, None] // [81, 9, 1] % 9, np.zeros(20)), default=-0.5
    )
    return graph


def joint_extraction(seed, entities=4, types=5, relations=8):
    """Return a model of entities with types and a relation for every ordered pair of them, read with noise."""
    rng = np.random.default_rng(seed)
    graph = abp.FactorGraph()
    graph.add_variables(entities, types)
    pairs = [(a, b) for a in range(entities) for b in range(entities) if a != b]
    graph.add_variables(len(pairs), relations, names=[f"r{a}{b}" for a, b in pairs])
    fit = rng.normal(0.0, 1.0, (relations, types, types))
    truth = rng.integers(types, size=entities)
    for i, label in enumerate(truth):
        graph.add_factor([i], log_table=rng.normal(0.0, 1.0, types) + 3.0 * (np.arange(types) == label))
    for k, (a, b) in enumerate(pairs):
        likely = int(fit[:, truth[a], truth[b]].argmax())
        graph.add_factor(
            [entities + k], log_table=rng.normal(0.0, 2.0, relations) + 4.0 * (np.arange(relations) == likely)
        )
        graph.add_factor([entities + k, a, b], log_table=fit)
    return graph


def spin_glass(seed=3, n=12, coupling=4.0):
    """Return a frustrated model on which undamped BP does not settle."""
    rng = np.random.default_rng(seed)
    graph = abp.FactorGraph()
    graph.add_variables(n, 2)
    graph.add_factors(np.arange(n)[:, np.newaxis], log_table=rng.normal(0, 0.3, (n, 2)))
    pairs = np.array([(i, j) for i in range(n) for j in range(i)])
    sign = rng.normal(0, coupling, len(pairs))
    graph.add_factors(pairs, log_table=sign[:, np.newaxis, np.newaxis] * np.array([[1.0, -1.0], [-1.0, 1.0]]))
    return graph


def one_factor(shape, **scores):
    """Return a graph of variables v0, v1, ... with one factor over all of them."""
    graph = abp.FactorGraph()
    for i, n in enumerate(shape):
        graph.add_variable(f"v{i}", n)
    graph.add_factor(list(range(len(shape))), **scores)
    return graph


def worst(result, marginals):
    """Return the largest difference between a result's marginals and a list of arrays."""
    return max(float(np.abs(result.marginals[i] - m).max()) for i, m in enumerate(marginals))
