"""The objective of learning beside enumeration, and its derivative beside differences."""

import numpy as np
import pytest

import anytimebp as abp
from anytimebp.learn import Example, batch
from anytimebp.learn.batch import labelled, make_batches
from anytimebp.learn.blocks import Blocks
from anytimebp.learn.objective import Accuracy, Objective
from oracle import tagged
from oracle.enumeration import exact, joint_log_scores

TIGHT, STEP = Accuracy(1e-13), 1e-4


def made(method, *, loop, l2=0.3, lengths=(3, 1, 4, 5), seed=0, sparse=None):
    """Return examples, states, a vector of weights and the objective."""
    rng = np.random.default_rng(seed)
    examples = [tagged.chain(rng, n, loop=loop and n > 2, sparse=sparse) for n in lengths]
    states = [rng.integers(0, own.graph.variables.sizes()) for own in examples]
    blocks = Blocks(examples)
    every = [labelled(*pair, method) for pair in zip(examples, states, strict=True)]
    vector = rng.normal(0, 0.5, blocks.size)
    return examples, states, vector, blocks, Objective(blocks, make_batches(every), blocks.penalties(l2), {})


def enumerated(examples, states, weights):
    """Return the mean log likelihood by going through all joint states."""
    graphs = [own.with_weights(weights) for own in examples]
    every = [joint_log_scores(graph)[tuple(own)] - exact(graph)[1] for graph, own in zip(graphs, states, strict=True)]
    return np.mean(every)


@pytest.mark.parametrize(("method", "loop"), [("auto", False), ("auto", True), ("exact", True), ("bp", False)])
def test_the_likelihood_is_that_of_enumeration(method, loop):
    examples, states, vector, blocks, objective = made(method, loop=loop)
    found = objective.evaluate(vector, TIGHT)
    wanted = enumerated(examples, states, blocks.split(vector))
    assert found.is_exact
    assert found.value == pytest.approx(-wanted + 0.15 * vector @ vector / len(examples), abs=1e-10)
    assert objective.log_likelihood(vector, TIGHT) == pytest.approx(wanted, abs=1e-10)


@pytest.mark.parametrize(
    ("method", "loop"), [("auto", False), ("bp", False), ("exact", True), ("bp", True), ("adaptive", True)]
)
def test_the_derivative_is_that_of_differences(method, loop):
    _, _, vector, _, objective = made(method, loop=loop)
    found = objective.evaluate(vector, TIGHT)
    assert found.is_exact == (not loop or method == "exact")
    for position in range(len(vector)):
        shift = np.zeros(len(vector))
        shift[position] = STEP
        higher, lower = (objective.evaluate(vector + sign * shift, TIGHT).value for sign in (1, -1))
        assert found.gradient[position] == pytest.approx((higher - lower) / (2 * STEP), abs=1e-6)


def test_sparse_features_give_what_dense_ones_do():
    sparse = pytest.importorskip("scipy.sparse")
    *_, vector, _, dense = made("auto", loop=False)
    for kind in (sparse.csr_matrix, sparse.coo_array):
        *_, objective = made("auto", loop=False, sparse=kind)
        found, wanted = objective.evaluate(vector, TIGHT), dense.evaluate(vector, TIGHT)
        assert found.value == pytest.approx(wanted.value, abs=1e-12)
        np.testing.assert_allclose(found.gradient, wanted.gradient, atol=1e-12)


@pytest.mark.parametrize("loop", [False, True])
def test_the_objective_does_not_depend_on_batches(loop, monkeypatch):
    *_, vector, _, whole = made("bp", loop=loop)
    monkeypatch.setattr(batch, "MOST_SLOTS", 1)
    *_, single = made("bp", loop=loop)
    assert len(single._batches) == 4 > len(whole._batches)
    found, wanted = single.evaluate(vector, TIGHT), whole.evaluate(vector, TIGHT)
    assert found.value == pytest.approx(wanted.value, abs=1e-10)
    np.testing.assert_allclose(found.gradient, wanted.gradient, atol=1e-9)


def test_offsets_that_differ_and_hard_zeros_are_kept_apart():
    rng, examples = np.random.default_rng(1), []
    shared = np.array([[0.0, -np.inf], [0.4, 0.0]])
    for offset in (None, shared, shared.copy(), rng.normal(0, 1, (2, 2, 2))):
        graph = abp.FactorGraph()
        graph.add_variables(3, 2)
        graph.add_factor([0], log_table=[0.0, 0.2])
        example = Example(graph)
        example.add_factors("pair", [[0, 1], [1, 2]], offset=offset)
        examples.append(example)
    states = [np.array([1, 0, 0])] * 4
    blocks = Blocks(examples)
    every = [labelled(*pair, "auto") for pair in zip(examples, states, strict=True)]
    objective = Objective(blocks, make_batches(every), np.zeros(blocks.size), {})
    vector = rng.normal(0, 1, 4)
    found = objective.evaluate(vector, TIGHT)
    assert found.value == pytest.approx(-enumerated(examples, states, blocks.split(vector)), abs=1e-10)
    for position in range(4):
        shift = np.eye(4)[position] * STEP
        higher, lower = (objective.evaluate(vector + sign * shift, TIGHT).value for sign in (1, -1))
        assert found.gradient[position] == pytest.approx((higher - lower) / (2 * STEP), abs=1e-6)


def test_auto_is_exact_for_each_example_that_is_exact_alone():
    rng = np.random.default_rng(2)
    ring = tagged.chain(rng, 5, loop=True)
    wide = abp.FactorGraph()
    side = 9
    wide.add_variables(side * side, 60)
    example = Example(wide)
    index = np.arange(side * side).reshape(side, side)
    across = [index[:, :-1].ravel(), index[:, 1:].ravel()]
    down = [index[:-1].ravel(), index[1:].ravel()]
    example.add_factors("pair", np.hstack([across, down]).T)
    ways = [labelled(own, np.zeros(len(own.graph.variables), dtype=int), "auto").way for own in (ring, example)]
    assert ways == ["exact", "adaptive"]


@pytest.mark.parametrize("lengths", [(4,), (2, 5, 3)])
def test_joint_features_for_all_factors_give_what_they_give_factor_by_factor(lengths):
    rng = np.random.default_rng(3)
    shared, found = rng.normal(0, 1, (3, 3, 2)), []
    for is_shared in (True, False):
        examples = []
        for n in lengths:
            graph = abp.FactorGraph()
            tags = np.array(graph.add_variables(n, 3))
            pairs = np.column_stack([tags[:-1], tags[1:]])
            example = Example(graph)
            rows = shared if is_shared else np.broadcast_to(shared, (n - 1, *shared.shape))
            example.add_factors("pair", pairs, joint_features=rows)
            example.add_factors("tag", tags[:, None])
            examples.append(example)
        states = [np.arange(n) % 3 for n in lengths]
        blocks = Blocks(examples)
        batches = make_batches([labelled(*pair, "auto") for pair in zip(examples, states, strict=True)])
        objective = Objective(blocks, batches, blocks.penalties(0.1), {})
        vector = np.array([0.7, -0.4, 0.1, 0.2, -0.3])
        found.append(objective.evaluate(vector, TIGHT))
        assert (batches[0].graph.blocks[0].source.n_members == 1) == (is_shared or lengths == (2,))
    assert found[0].value == pytest.approx(found[1].value, abs=1e-12)
    np.testing.assert_allclose(found[0].gradient, found[1].gradient, atol=1e-12)
