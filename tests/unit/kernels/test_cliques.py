"""The passes over a tree of cliques, and joint states read from it, beside sums and maxima over all joint states."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anytimebp.domains.domains import full_domains
from anytimebp.exact.best_passes import BestPasses, DrawingPasses
from anytimebp.exact.passes import Passes
from anytimebp.exact.potentials import make_potentials
from anytimebp.exact.relevance import Part
from anytimebp.exact.tree import plan
from anytimebp.kernels.joint_states import draw_states
from anytimebp.layout.graph_layout import compiled_graph
from anytimebp.slices import at_one_go
from oracle.enumeration import joint_log_scores
from oracle.models import random_loopy

WIDE = 300.0  # nats by which log scores differ, where cliques are summed in logs
models = given(
    seed=st.integers(0, 10**6), zeros=st.sampled_from([0.0, 0.3]), scale=st.sampled_from([1.0, WIDE]), cost=st.just(40)
)
kinds = pytest.mark.parametrize("kind", [Passes, BestPasses])


class Enumerated:
    """All joint states of a small graph, one axis per variable; sums or maxima of their scores."""

    def __init__(self, graph, kind):
        self.joint = joint_log_scores(graph)
        self._reduce = np.logaddexp.reduce if kind is not BestPasses else np.maximum.reduce

    def total(self):
        return self._reduce(self.joint.ravel())

    def of(self, variables):
        """Return the log (max-)marginal of some variables, with their axes in this order."""
        kept = sorted(variables)
        rows = np.moveaxis(self.joint, kept, range(len(kept))).reshape(*(self.joint.shape[v] for v in kept), -1)
        return self._reduce(rows, axis=-1).transpose([kept.index(v) for v in variables]) - self.total()

    def conditional(self, variables):
        """Return that of the first variable given the others: all 0 where those are impossible."""
        with np.errstate(invalid="ignore"):
            shares = np.exp(self.of(variables) - self._reduce(self.of(variables), axis=0))
        return np.nan_to_num(shares)


def prepared(kind, graph):
    compiled = compiled_graph(graph)
    domains = full_domains(compiled, {})
    tables = at_one_go(make_potentials(compiled, domains))
    tree = plan(compiled, domains.sizes)
    passes = kind(compiled, domains, Part(compiled.arrays, domains.sizes), tree, tables)
    return passes, float(tables.log_scale.sum() + domains.log_prior_scale.sum()), domains


def members(passes, clique):
    """Return the variables of a clique, its own first."""
    tree = passes.tree.arrays
    return tree.variable[tree.scope[tree.scope_start[clique] : tree.scope_start[clique + 1]]].tolist()


def table_of(passes, clique):
    tree = passes.tree.arrays
    table = passes._arrays.table[tree.table_start[clique] : tree.table_start[clique + 1]]
    return table.reshape(passes._sizes[members(passes, clique)])


def go_up(passes, cost=2**62):
    while not passes.is_up:
        passes.advance(2**62, cost)
        assert passes.is_possible


@kinds
@models
def test_the_way_up_leaves_scores_given_the_separator_and_the_total(kind, seed, zeros, scale, cost):
    graph = random_loopy(seed, scale=scale, zeros=zeros)
    passes, log_scale, _ = prepared(kind, graph)
    go_up(passes, cost)
    right = Enumerated(graph, kind)
    assert passes.log_total + log_scale == pytest.approx(right.total(), rel=1e-9, abs=1e-9)
    reduced = np.max if kind is BestPasses else np.sum
    for clique in range(passes.tree.n):
        table = table_of(passes, clique)
        whole = reduced(table, axis=0)
        shares = np.divide(table, whole, out=np.zeros_like(table), where=whole > 0.0)
        expected = right.conditional(members(passes, clique))
        possible = np.broadcast_to(expected.sum(axis=0) > 0.0, shares.shape)  # else another clique excludes it
        assert np.allclose(shares[possible], expected[possible], rtol=1e-7, atol=1e-12)


@kinds
@models
def test_the_way_down_leaves_the_marginals_of_cliques_and_variables(kind, seed, zeros, scale, cost):
    graph = random_loopy(seed, scale=scale, zeros=zeros)
    passes, _, domains = prepared(kind, graph)
    go_up(passes)
    while not passes.is_done:
        passes.advance(2**62, cost)
    right = Enumerated(graph, kind)
    for clique in range(passes.tree.n):
        found = table_of(passes, clique)
        whole = found.max() if kind is BestPasses else found.sum()  # above 1 by rounding
        assert whole == pytest.approx(1.0, rel=1e-7)
        assert np.allclose(found, np.exp(right.of(members(passes, clique))), rtol=1e-7, atol=1e-12)
    for variable, own in enumerate(np.split(passes.belief, domains.slot_start[1:-1])):
        assert np.allclose(own, np.exp(right.of([variable])), rtol=1e-7, atol=1e-12)


@models
def test_the_best_states_of_all_cliques_are_the_best_joint_state(seed, zeros, scale, cost):
    graph = random_loopy(seed, scale=scale, zeros=zeros)
    passes, _, _ = prepared(BestPasses, graph)
    go_up(passes, cost)
    joint = joint_log_scores(graph)
    assert joint[tuple(passes.state)] == pytest.approx(joint.max(), rel=1e-12, abs=1e-12)


def drawn(passes, right, uniform):
    """Return a joint state: variable after variable, the first state at which the sum of shares passes a number."""
    state = [0] * right.joint.ndim
    for clique in range(passes.tree.n - 1, -1, -1):
        own, *given = members(passes, clique)
        shares = right.conditional([own, *given])[(slice(None), *(state[v] for v in given))]
        possible = np.flatnonzero(shares)
        passed = np.cumsum(shares[possible]) > uniform[clique]
        state[own] = possible[np.argmax(passed) if passed.any() else -1]
    return state


@models
def test_states_are_drawn_by_their_share_given_those_drawn_before(seed, zeros, scale, cost):
    graph = random_loopy(seed, scale=scale, zeros=zeros)
    passes, _, _ = prepared(DrawingPasses, graph)
    go_up(passes, cost)
    uniform = np.random.default_rng(seed).random((30, passes.tree.n))
    uniform[0], uniform[1] = 0.0, np.nextafter(1.0, 0.0)
    states = np.zeros((30, len(graph.variables)), dtype=np.int64)
    draw_states(passes._sizes, passes.tree.arrays, passes._arrays, passes.tree.n, uniform, states)
    right = Enumerated(graph, DrawingPasses)
    assert (right.joint[tuple(states.T)] > -np.inf).all()
    assert states[2:].tolist() == [drawn(passes, right, row) for row in uniform[2:]]


def test_wide_scores_are_summed_in_logs():
    for kind in (Passes, BestPasses):
        found = []
        for scale in (1.0, WIDE):
            passes, _, _ = prepared(kind, random_loopy(3, scale=scale))
            go_up(passes)
            found.append(passes.in_logs)
        assert found == [False, True]


def test_a_graph_whose_variables_have_one_state_each_has_a_best_joint_state():
    passes, _, _ = prepared(BestPasses, random_loopy(34367))
    assert passes.tree.n == 0
    assert passes.state.tolist() == [0] * 6
