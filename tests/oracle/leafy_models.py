"""Random graphs with loops, on which leaves, chains and trees hang, of all kinds of factors and evidence."""

import numpy as np

import anytimebp as abp


class Builder:
    """Adds variables and factors at random."""

    def __init__(self, seed, kinds):
        self.rng = np.random.default_rng(seed)
        self.kinds = kinds
        self.graph = abp.FactorGraph()
        self.sizes = []

    def variables(self, n):
        first = len(self.sizes)
        for _ in range(n):
            self.sizes.append(int(self.rng.integers(1 if self.rng.random() < 0.1 else 2, 5)))
            self.graph.add_variable(f"v{len(self.sizes) - 1}", self.sizes[-1])
            if self.rng.random() < 0.6:
                self.graph.add_factor([len(self.sizes) - 1], log_table=self.rng.normal(size=self.sizes[-1]))
        return list(range(first, first + n))

    def factor(self, scope):
        rng = self.rng
        scope = [scope[k] for k in rng.permutation(len(scope))]
        shape = [self.sizes[i] for i in scope]
        scores = 0.6 * rng.normal(size=shape)
        kind = int(rng.integers(5)) if self.kinds == "all" else 0
        if self.kinds == "zeros" or (self.kinds == "all" and rng.random() < 0.3):
            kept = scores.flat[0]
            scores[rng.random(shape) < 0.2] = -np.inf
            scores.flat[0] = kept  # the first state of everything is possible
        if kind == 1:
            chosen = np.argwhere(rng.random(shape) < 0.4)
            self.graph.add_factor(scope, entries=(chosen, scores[tuple(chosen.T)]), default=0.1)
        elif kind == 2:
            self.graph.add_factor(scope, rule=lambda *states: scores[states])
        elif kind == 3 and len(scope) == 2 and shape[0] == shape[1]:
            self.graph.add_factor(scope, structure=abp.Equality(0.4, -0.3))
        elif kind == 4:
            self.graph.add_factor(scope, table=np.exp(scores))
        else:
            self.graph.add_factor(scope, log_table=scores)

    def tied(self):
        """Add factors that share a table, each with two variables of the core and leaves of its own."""
        rng = self.rng
        size, n_leaves = int(rng.integers(2, 4)), int(rng.integers(1, 3))
        first = len(self.sizes)
        count = int(rng.integers(3, 5))
        self.graph.add_variables(count, size, names=[f"v{first + k}" for k in range(count)])
        self.sizes += [size] * count
        scopes = []
        for k in range(count):
            first = len(self.sizes)
            self.graph.add_variables(n_leaves, 4, names=[f"v{first + j}" for j in range(n_leaves)])
            self.sizes += [4] * n_leaves
            core = len(self.sizes) - (k + 1) * n_leaves - count
            scopes.append([core + k, core + (k + 1) % count, *range(first, first + n_leaves)])
        positions = rng.permutation(2 + n_leaves)
        shape = np.array([size, size, *[4] * n_leaves])[positions]
        self.graph.add_factors(np.array(scopes)[:, positions], log_table=0.6 * rng.normal(size=shape))


def leafy_graph(seed, kinds, *, observed):
    """Return a graph and evidence.

    Args:
        seed: Of everything.
        kinds: "tables", "zeros" for tables with hard zeros, "tied" for shared tables too, "all" for all kinds.
        observed: Whether there is evidence.
    """
    build = Builder(seed, kinds)
    rng = build.rng
    core = build.variables(int(rng.integers(3, 6)))
    for a, b in zip(core, core[1:] + core[:1], strict=True):
        build.factor([a, b, *build.variables(int(rng.integers(3)) if rng.random() < 0.6 else 0)])
    if rng.random() < 0.3:  # a variable of high degree
        for leaf in build.variables(18):
            build.factor([core[0], leaf])
    for _ in range(int(rng.integers(1, 7))):
        position = int(rng.integers(len(build.sizes)))
        build.factor([position, *build.variables(int(rng.integers(1, 4)))])
    if kinds == "tied":
        build.tied()
    if rng.random() < 0.3:  # a tree of its own, and a variable without factors
        build.factor(build.variables(3))
        build.variables(1)
    evidence = {}
    if observed:
        for i in rng.choice(len(build.sizes), 3, replace=False).tolist():
            n = build.sizes[i]
            evidence[f"v{i}"] = [0, set(range(max(1, n - 1))), rng.normal(size=n)][int(rng.integers(3))]
    return build.graph, evidence
