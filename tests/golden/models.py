"""Small models of all shapes and ranges of scores, from seeds.

Each function states its model on the graph that it is given, and returns the evidence of the runs, if there is any.
"""

from itertools import combinations, pairwise

import numpy as np

from golden.parts import INF, add_extraction, add_grid, add_scored, add_unary, register, ring, scores, spoilt

MODELS = {}
model = register(MODELS)


# ------------------------------------------------------------ trees and forests
@model
def pair(graph):
    rng = np.random.default_rng(1)
    graph.add_variable("weather", ["sun", "rain", "snow"])
    graph.add_variable("ground", 4)
    graph.add_factor(["weather"], log_table=scores(rng, 3, 1.0))
    graph.add_factor(["weather", "ground"], log_table=scores(rng, (3, 4), 2.0), name="wet")


@model
def chain(graph):
    rng = np.random.default_rng(2)
    graph.add_variables(7, 5)
    add_unary(graph, rng, range(7), 3.0)
    graph.add_factors(list(pairwise(range(7))), log_table=scores(rng, (6, 5, 5), 1.0))


@model
def tied_chain(graph):
    rng = np.random.default_rng(3)
    graph.add_variables(9, 4)
    graph.add_factors([[i] for i in range(9)], table=0.05 + rng.random((9, 4)))
    graph.add_factors(list(pairwise(range(9))), table=0.1 + rng.random((4, 4)))


@model
def tree_of_mixed_arities(graph):
    rng = np.random.default_rng(4)
    for i, n in enumerate([3, 5, 2, 4, 6, 3, 2, 5, 4, 1]):
        graph.add_variable(f"v{i}", n)
    add_unary(graph, rng, [0, 2, 4, 5, 8], 2.0)
    for scope in [(0, 1), (2, 1, 3), (3, 4, 5, 6), (4, 7), (8, 7), (9, 0)]:
        add_scored(graph, rng, scope, 1.5)


@model
def forest(graph):
    """Three trees, a variable with unary scores alone, and two that no factor mentions."""
    rng = np.random.default_rng(5)
    graph.add_variables(12, 3)
    add_unary(graph, rng, [0, 3, 4, 6, 9], 2.0)
    for scope in [(0, 1), (1, 2), (3, 4), (5, 6), (6, 7), (6, 8)]:
        add_scored(graph, rng, scope, 1.5)


@model
def hub_of_a_tree(graph):
    rng = np.random.default_rng(6)
    graph.add_variable("hub", 5)
    for i in range(19):
        graph.add_variable(f"leaf{i}", 2 + i % 3)
        add_scored(graph, rng, [0, i + 1], 1.0)
    add_unary(graph, rng, range(0, 20, 2), 1.5)


# ------------------------------------------------------------ loops
@model
def single_loop(graph):
    rng = np.random.default_rng(11)
    graph.add_variables(6, 4)
    add_unary(graph, rng, range(6), 2.0)
    graph.add_factors(ring(6), log_table=scores(rng, (6, 4, 4), 1.0))


@model
def loop_without_unary_scores(graph):
    rng = np.random.default_rng(12)
    for i, n in enumerate([4, 3, 5, 2]):
        graph.add_variable(f"v{i}", n)
    for scope in ring(4):
        graph.add_factor(scope, table=0.1 + rng.random([graph.variables[i].n_states for i in scope]))


@model
def loop_with_leaves(graph):
    """A loop of four, whose variables carry leaves and branches."""
    rng = np.random.default_rng(13)
    graph.add_variables(12, 3)
    add_unary(graph, rng, range(12), 2.0)
    for scope in [*ring(4), (0, 4), (4, 5), (1, 6), (2, 7), (2, 8), (8, 9, 10), (3, 11)]:
        add_scored(graph, rng, scope, 1.0)


@model
def flat_grid(graph):
    add_grid(graph, np.random.default_rng(14), 4, 4, 3, 1.5, 0.6)


@model
def peaked_grid(graph):
    add_grid(graph, np.random.default_rng(15), 3, 3, 8, 8.0, 2.0)


@model
def wide_grid(graph):
    add_grid(graph, np.random.default_rng(16), 2, 3, 40, 12.0, 1.5)


@model
def loop_of_wide_universes(graph):
    """States enough, and few likely ones among them, so that `adaptive` begins on these."""
    rng = np.random.default_rng(24)
    graph.add_variables(3, 700)
    add_unary(graph, rng, range(3), 290.0)
    graph.add_factors(ring(3), log_table=scores(rng, (3, 700, 700), 3.0))


@model
def mixed_arities(graph):
    rng = np.random.default_rng(17)
    for i, n in enumerate([3, 4, 2, 5, 3, 4]):
        graph.add_variable(f"v{i}", n)
    add_unary(graph, rng, range(6), 3.0)
    for scope in [(0, 1), (2, 1, 3), (5, 4, 3, 0), (4, 2), (1, 5), (3, 5, 0), (2,)]:
        add_scored(graph, rng, scope, 0.7)


@model
def potentials_of_arity_four(graph):
    rng = np.random.default_rng(18)
    graph.add_variables(6, 3)
    graph.add_factors([[i] for i in range(6)], table=0.02 + rng.random((6, 3)))
    graph.add_factors([(0, 1, 2, 3), (2, 3, 4, 5), (5, 4, 1, 0)], table=0.3 + rng.random((3, 3, 3, 3, 3)))


@model
def single_states(graph):
    """Some variables have one state only."""
    rng = np.random.default_rng(19)
    for i, n in enumerate([1, 4, 1, 3, 5, 1, 2]):
        graph.add_variable(f"v{i}", n)
    add_unary(graph, rng, [0, 1, 3, 5, 6], 2.0)
    for scope in [(0, 1), (1, 2, 3), (3, 4), (4, 1), (5, 2), (6, 5, 4), (0, 2)]:
        add_scored(graph, rng, scope, 0.9)


@model
def hub_of_a_ring(graph):
    """A variable with 20 factors, whose neighbours form a ring."""
    rng = np.random.default_rng(20)
    graph.add_variables(18, 3)
    add_unary(graph, rng, range(18), 2.5)
    spokes = [(0, i) for i in range(1, 18)]
    rim = [(1 + a, 1 + b) for a, b in ring(17)]
    graph.add_factors(spokes + rim, log_table=scores(rng, (34, 3, 3), 0.5))
    graph.add_factors([(0, 3), (0, 5), (7, 0)], log_table=scores(rng, (3, 3), 0.5))


@model
def joint_extraction(graph):
    add_extraction(graph, np.random.default_rng(21), 3, 5, 4, tied=False)


@model
def tied_joint_extraction(graph):
    add_extraction(graph, np.random.default_rng(22), 4, 4, 3, tied=True)


# ------------------------------------------------------------ ties
@model
def all_equal(graph):
    """Every joint state scores the same: all orders go by index."""
    graph.add_variables(5, 3)
    graph.add_factors(ring(5), log_table=np.zeros((3, 3)))


@model
def equal_unary_scores(graph):
    """States that nothing but their index tells apart, beside better and worse ones."""
    graph.add_variables(4, 6)
    graph.add_factor([0], table=np.array([1.0, 4.5, 4.5, 10.0, 4.5, 1.0]))  # ties of states of one variable only:
    graph.add_factor([1], table=np.array([1.1, 5.5, 10.0, 5.5, 5.5, 1.1]))  # those between variables hang on rounding
    graph.add_factor([2], table=np.array([10.0, 6.5, 6.5, 1.2, 6.5, 1.2]))
    graph.add_factor([3], table=np.array([1.0, 7.0, 7.0, 2.0, 7.0, 1.0]))
    graph.add_factor([0, 1], table=np.ones((6, 6)))
    graph.add_factor([2, 3], table=np.ones((6, 6)))


@model
def colouring(graph):
    """Neighbours on a ring differ; one colour of each is better by its own score."""
    rng = np.random.default_rng(25)
    graph.add_variables(7, 3)
    add_unary(graph, rng, range(7), 1.0)
    graph.add_factors(ring(7), log_table=np.where(np.eye(3) > 0, -INF, 0.0))


# ------------------------------------------------------------ hard zeros and wide ranges
@model
def hard_zeros(graph):
    rng = np.random.default_rng(31)
    witness = [1, 3, 0, 2, 4, 1, 0]
    for i, n in enumerate([3, 4, 2, 3, 5, 3, 2]):
        graph.add_variable(f"v{i}", n)
    add_unary(graph, rng, range(7), 2.0)
    for scope in [(0, 1), (1, 2), (2, 3, 4), (4, 5), (5, 6), (6, 0), (3, 1)]:
        table = scores(rng, [graph.variables[i].n_states for i in scope], 1.0)
        graph.add_factor(scope, log_table=spoilt(rng, table, 0.3, tuple(witness[i] for i in scope)))


@model
def zeros_in_a_tree(graph):
    """The best states alone are impossible together, and some states are impossible for good."""
    rng = np.random.default_rng(32)
    graph.add_variables(6, 4)
    graph.add_factors([[i] for i in range(6)], log_table=np.array([0.0, -1.0, -2.5, -INF]) + scores(rng, (6, 4), 0.3))
    for scope in [(0, 1), (1, 2), (1, 3), (3, 4), (3, 5)]:
        table = scores(rng, (4, 4), 1.0)
        table[0, 0] = table[1, 1] = -INF
        graph.add_factor(scope, log_table=table)


@model
def wide_range_in_a_tree(graph):
    """Ranges of thousands of nats in one factor, which linear numbers cannot hold."""
    rng = np.random.default_rng(33)
    graph.add_variables(6, 4)
    add_unary(graph, rng, range(6), 400.0)
    for k, scope in enumerate([(0, 1), (1, 2), (2, 3), (2, 4), (4, 5)]):
        add_scored(graph, rng, scope, [900.0, 2.0, 500.0, 3000.0, 1.0][k])


@model
def wide_range_in_a_loop(graph):
    """A range beyond 600 nats, of which the likely states see little."""
    rng = np.random.default_rng(34)
    graph.add_variables(5, 4)
    add_unary(graph, rng, range(5), 2.0)
    for scope in ring(5):
        table = scores(rng, (4, 4), 1.0)
        table[3] -= 700.0
        table[:, 3] -= 350.0
        graph.add_factor(scope, log_table=table)


@model
def huge_and_tiny_scores(graph):
    """Constants of thousands of nats, and potentials from 1e-200 to 1e200."""
    rng = np.random.default_rng(35)
    graph.add_variables(6, 3)
    add_unary(graph, rng, range(6), 2.0)
    for k, scope in enumerate(ring(6)):
        table = scores(rng, (3, 3), 1.0)
        if k % 2:
            graph.add_factor(scope, log_table=table + [3_000.0, 0.0, -1_200.0][k // 2])
        else:
            graph.add_factor(scope, table=np.exp(table) * [1e-200, 1e200, 1e-5][k // 2])


# ------------------------------------------------------------ models that are hard to settle on
@model
def frustrated(graph):
    """Undamped sweeps go to and fro; damped ones settle."""
    rng = np.random.default_rng(61)
    graph.add_variables(6, 2)
    add_unary(graph, rng, range(6), 0.3)
    graph.add_factors(list(combinations(range(6), 2)), log_table=np.array([[-0.9, 0.9], [0.9, -0.9]]))


@model
def unsettled(graph):
    """Strong couplings of random signs, on which no method but `truncated` settles, damped or not."""
    rng = np.random.default_rng(1)
    graph.add_variables(6, 3)
    add_unary(graph, rng, range(6), 0.3)
    graph.add_factors(list(combinations(range(6), 2)), log_table=scores(rng, (15, 3, 3), 6.0))
