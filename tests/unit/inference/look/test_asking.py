"""Tables that are asked for: what is known is not asked for again, whatever is new and wherever it lies."""

from collections import Counter

import numpy as np
import pytest

import anytimebp as abp
from anytimebp.inference.look.asking import ask_table, heaviest
from anytimebp.layout.graph_layout import compiled_graph


def drained(asking):
    """Return what a generator returns, and the sum of what it yields."""
    asked = 0
    while True:
        try:
            asked += next(asking)
        except StopIteration as end:
            return end.value, asked


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("arity", [2, 3, 4])
def test_a_table_is_put_together_of_what_is_known_and_what_is_new(arity, seed):
    rng, seen = np.random.default_rng(seed), Counter()
    sizes = rng.integers(1, 7, arity).tolist()
    truth = rng.normal(size=sizes)

    def rule(*states):
        block = np.broadcast_arrays(*states)
        seen.update(zip(*[part.ravel().tolist() for part in block], strict=True))
        return truth[states]

    graph = abp.FactorGraph()
    for number, n in enumerate(sizes):
        graph.add_variable(f"v{number}", n)
    graph.add_factor(list(range(arity)), rule=rule)
    seen.clear()
    states = [np.sort(rng.choice(n, rng.integers(1, n + 1), replace=False)) for n in sizes]
    before = [np.sort(rng.choice(own, rng.integers(1, len(own) + 1), replace=False)) for own in states]
    known = (before, truth[np.ix_(*before)]) if seed % 3 else None
    block = int(rng.choice([1, 5, 1000]))
    found, asked = drained(ask_table(compiled_graph(graph), 0, states, known, block))
    np.testing.assert_array_equal(found[0], truth[np.ix_(*states)])
    old = known[1].size if known else 0
    assert asked == seen.total() == len(seen) == found.size - old


@pytest.mark.parametrize("seed", range(10))
def test_the_heaviest_states_hold_what_is_asked_for_and_no_fewer_would(seed):
    rng = np.random.default_rng(seed)
    states, log_weight = rng.permutation(40), rng.normal(0.0, 3.0, 40)
    weight = np.exp(log_weight)
    for left_out in (0.0, 1e-6, 0.1, 0.5):
        chosen, own = heaviest(states, log_weight, left_out)
        held = np.exp(own).sum() / weight.sum()
        assert held >= 1.0 - left_out - 1e-12
        assert [log_weight[states == state][0] for state in chosen] == own.tolist()
        assert left_out == 0.0 or held - np.exp(own[-1]) / weight.sum() < 1.0 - left_out
