"""Small models of all kinds of factors and evidence, from seeds; and models that contradict themselves.

Each function states its model on the graph that it is given, and returns the evidence of the runs, if there is any.
"""

import numpy as np

import anytimebp as abp
from golden.parts import INF, add_scored, add_unary, register, scores

MODELS = {}
CONTRADICTIONS = {}
model = register(MODELS)
contradiction = register(CONTRADICTIONS)


# ------------------------------------------------------------ kinds of factors
@model
def listed_entries(graph):
    """Lists whose rest is impossible, or scores a number; tied ones, too."""
    rng = np.random.default_rng(41)
    for i, n in enumerate([4, 5, 4, 3, 4, 5]):
        graph.add_variable(f"v{i}", n)
    add_unary(graph, rng, range(6), 2.0)
    matching = [(a, b) for a in range(4) for b in range(5) if (2 * a + b) % 3 != 1]
    graph.add_factor([0, 1], entries=(matching, scores(rng, len(matching), 1.0)))
    graph.add_factor(
        [1, 2, 3], entries=([[0, 1, 2], [3, 3, 0], [4, 2, 1], [2, 0, 0]], scores(rng, 4, 2.0)), default=-0.5
    )
    graph.add_factors([(0, 2), (2, 4), (4, 0)], entries=([[0, 0], [1, 2], [3, 1]], scores(rng, 3, 1.0)), default=0.25)
    graph.add_factor([3, 5], entries=([[a, b] for a in range(3) for b in range(a, 5)], scores(rng, 12, 1.0)))


@model
def rules(graph):
    """Scores from functions of state indices: of one, two and three variables."""
    graph.add_variable("size", ["small", "middle", "large"])
    graph.add_variable("place", 6)
    graph.add_variable("time", 5)
    graph.add_variable("kind", 4)
    graph.add_factor(["size"], rule=lambda s: 0.7 * s - 0.4 * s**2)
    graph.add_factor(["place"], rule=lambda p: -0.31 * np.abs(p - 2.2))
    graph.add_factors([["time"], ["kind"]][:1], rule=lambda t: np.where(t == 3, 1.1, 0.17 * t))
    graph.add_factor(["size", "place"], rule=lambda s, p: -0.37 * np.abs(p - 2 * s))
    graph.add_factor(["place", "time"], rule=lambda p, t: np.where(p + t > 8, -INF, 0.13 * p - 0.07 * p * t))
    graph.add_factor(
        ["kind", "time", "size"], rule=lambda k, t, s: 0.21 * np.cos(1.0 + k + 2.0 * t + 3.0 * s) + 0.11 * k
    )
    graph.add_factor(["kind", "place"], rule=lambda k, p: -0.09 * (k - 0.4 * p) ** 2)


@model
def equality(graph):
    """Equality of pairs and triples, strict and soft (the model of Potts), with a score per state."""
    rng = np.random.default_rng(43)
    graph.add_variables(8, 4)
    add_unary(graph, rng, range(8), 1.5)
    graph.add_factor([0, 1, 2], structure=abp.Equality())
    graph.add_factor([2, 3], structure=abp.Equality(same=[0.5, -0.2, 0.1, 0.9], default=-1.0))
    graph.add_factors([(3, 4), (4, 5), (5, 0)], structure=abp.Equality(same=0.6, default=0.0))
    graph.add_factor([5, 6, 7], structure=abp.Equality(same=1.0, default=0.0))


@model
def deterministic(graph):
    """A sum that is read with noise, a maximum that may be wrong, and a parity."""
    rng = np.random.default_rng(44)
    for name, n in [("a", 4), ("b", 3), ("sum", 6), ("c", 3), ("largest", 4), ("parity", 2)]:
        graph.add_variable(name, n)
    add_unary(graph, rng, range(6), 1.5)
    graph.add_factor(["a", "b", "sum"], structure=abp.Deterministic(lambda a, b: a + b))
    graph.add_factor(["a", "c", "largest"], structure=abp.Deterministic(np.maximum, score=1.0, default=-1.5))
    graph.add_factor(["sum", "parity"], structure=abp.Deterministic(lambda s: s % 2))
    add_scored(graph, rng, ["b", "c"], 0.8)
    add_scored(graph, rng, ["parity", "largest"], 0.8)


@model
def difference(graph):
    """Steps on a line: short ones only, soft ones, and a window that is off centre."""
    rng = np.random.default_rng(45)
    graph.add_variables(5, 9)
    add_unary(graph, rng, range(5), 2.0)
    graph.add_factors([(0, 1), (1, 2)], structure=abp.Difference([-1.0, 0.0, 0.5, 0.1, -1.2]))
    graph.add_factor([2, 3], structure=abp.Difference([0.8, 1.0, 0.3], first=0, default=-0.7))
    graph.add_factor([3, 4], structure=abp.Difference([0.2, 0.9, 0.4, 0.6], first=-4))
    graph.add_factor([4, 0], structure=abp.Difference([0.3, 0.7, 0.1], default=0.0))


@model
def at_most_one(graph):
    """A bipartite matching: of each row and column, at most one variable is in its state."""
    rng = np.random.default_rng(46)
    graph.add_variables(9, 2)
    graph.add_factors([[i] for i in range(9)], log_table=np.stack([np.zeros(9), scores(rng, 9, 1.5)], axis=1))
    position = np.arange(9).reshape(3, 3)
    graph.add_factors([*position.tolist(), *position.T.tolist()], structure=abp.AtMostOne())
    graph.add_variable("spare", 3)
    graph.add_factor([0, 4, "spare"], structure=abp.AtMostOne([1, 0, 2]))


@model
def wide_structures(graph):
    """Universes that are large enough for messages through structures and lists without a table."""
    rng = np.random.default_rng(47)
    graph.add_variables(4, 40)
    graph.add_variable("half", 20)
    add_unary(graph, rng, range(5), 4.0)
    graph.add_factor([0, 1], structure=abp.Difference(-0.3 * np.abs(np.arange(-4.0, 5.0)), default=-5.0))
    graph.add_factor([1, 2], structure=abp.Equality(same=3.0, default=0.0))
    graph.add_factor([2, "half"], structure=abp.Deterministic(lambda a: a // 2, default=-3.0))
    graph.add_factor([2, 3], entries=([[a, (7 * a + 3) % 40] for a in range(40)], scores(rng, 40, 2.0)), default=-0.5)
    graph.add_factor([3, 0], structure=abp.Difference(scores(rng, 7, 1.0), first=2, default=-1.0))


# ------------------------------------------------------------ evidence
@model
def evidence_of_all_kinds(graph):
    rng = np.random.default_rng(51)
    graph.add_variable("seen", ["red", "green", "blue"])
    graph.add_variable("limited", ["a", "b", "c", "d", "e"])
    graph.add_variable("scored", 4)
    graph.add_variable("half_excluded", 4)
    graph.add_variables(3, 3)
    add_unary(graph, rng, range(7), 2.0)
    for scope in [(0, 1), (1, 2), (2, 3, 4), (4, 5), (5, 0), (3, 6), (6, 1)]:
        add_scored(graph, rng, scope, 1.0)
    graph.add_factor([5, 6], structure=abp.Equality(default=-1.0))
    return {
        "seen": "blue",
        "limited": {"b", "c", "e"},
        "scored": scores(rng, 4, 1.0),
        3: np.array([0.3, -INF, -0.2, -INF]),
    }


@model
def evidence_on_a_tree(graph):
    rng = np.random.default_rng(52)
    graph.add_variables(8, 4)
    add_unary(graph, rng, [0, 3, 5], 2.0)
    for scope in [(0, 1), (1, 2), (1, 3), (4, 5, 6), (6, 7)]:
        add_scored(graph, rng, scope, 1.5)
    return {"x1": 2, "x6": {0, 3}, "x0": [0.0, 0.0, -1.0, -INF]}


# ------------------------------------------------------------ contradictions
@contradiction
def no_way_through(graph):
    """A chain of factors, each possible alone."""
    graph.add_variables(3, 2)
    graph.add_factor([0, 1], log_table=[[0.0, -INF], [0.0, -INF]])
    graph.add_factor([1, 2], log_table=[[-INF, -INF], [0.5, 0.0]], name="second")


@contradiction
def excluded_by_evidence(graph):
    graph.add_variable("cause", ["yes", "no"])
    graph.add_variable("effect", ["yes", "no"])
    graph.add_factor(["cause", "effect"], table=[[0.7, 0.3], [0.0, 1.0]])
    return {"cause": "no", "effect": "yes"}


@contradiction
def excluded_by_a_prior(graph):
    """Unary scores and a structure contradict each other."""
    graph.add_variables(3, 3)
    graph.add_factor([0], log_table=[0.0, -INF, -INF])
    graph.add_factor([2], log_table=[-INF, 0.0, 0.3])
    graph.add_factor([0, 1, 2], structure=abp.Equality())
