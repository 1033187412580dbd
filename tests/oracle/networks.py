"""Random Bayesian networks for tests, from a seed, and d-separation by its definition."""

import numpy as np

import anytimebp as abp


def random_network(seed, n=8, zeros=0.0, max_parents=3):
    """Return a network as a graph, the parents of each variable, and a joint state that is possible."""
    rng = np.random.default_rng(seed)
    graph, parents, witness = abp.FactorGraph(), [], []
    for i in range(n):
        graph.add_variable(f"v{i}", int(rng.integers(2, 4)))
    for i in range(n):
        count = min(i, int(rng.integers(0, max_parents + 1)))
        parents.append(sorted(rng.choice(i, size=count, replace=False).tolist()) if i else [])
        shape = tuple(graph.variables[j].n_states for j in (*parents[i], i))
        table = rng.random(shape) + 0.05
        table *= rng.random(shape) >= zeros
        table[..., 0] += table.sum(axis=-1) == 0.0
        table /= table.sum(axis=-1, keepdims=True)
        row = table[tuple(witness[j] for j in parents[i])]
        witness.append(int(rng.choice(shape[-1], p=row)))
        graph.add_factor([*parents[i], i], table=table)
    return graph, parents, witness


def connected(parents, observed, targets):
    """Return the variables that are not d-separated from the targets, by the moral graph of ancestors."""
    ancestors, more = set(), {*targets, *observed}
    while more:
        i = more.pop()
        ancestors.add(i)
        more |= set(parents[i]) - ancestors
    joined = {i: set() for i in ancestors}
    for i in ancestors:
        family = {i, *parents[i]}
        for j in family:
            joined[j] |= family - {j}
    found, more = set(), set(targets) - set(observed)
    while more:
        i = more.pop()
        found.add(i)
        more |= joined[i] - found - set(observed)
    return found
