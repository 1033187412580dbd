"""`CRF`: what it learns, predicts, refuses and remembers."""

import copy

import numpy as np
import pytest

import anytimebp as abp
from anytimebp.learn import CRF, Example, blocks, optimise
from oracle import tagged

pytest.importorskip("scipy", minversion="1.11")


def data(n, *, loop=False, seed=0, lengths=(3, 6)):
    rng = np.random.default_rng(seed)
    examples = [tagged.chain(rng, int(rng.integers(*lengths)), loop=loop) for _ in range(n)]
    weights = tagged.random_weights(np.random.default_rng(99), examples[0])
    return examples, [tagged.sampled(rng, own, weights) for own in examples], weights


@pytest.fixture(scope="module")
def small():
    return data(20)


@pytest.fixture(scope="module")
def fitted(small):
    return CRF().fit(*small[:2])


# ---------------------------------------------------------------- learning
def test_the_derivative_is_small_at_the_end(small, fitted):
    assert fitted.converged_
    assert fitted.ending_ == "converged"
    assert fitted.likelihood_ == "exact"
    assert fitted.iterations_[-1].gradient < 1e-4
    assert fitted.iterations_[-1].objective < fitted.iterations_[0].objective
    assert {name: own.shape for name, own in fitted.weights_.items()} == {
        "word": (4, 3),
        "next": (3, 3),
        "kind": (3, 2),
        "model": (2,),
    }


def test_adam_ends_where_lbfgs_ends(small, fitted):
    found = CRF(optimizer="adam", batch_size=20, learning_rate=0.05, max_iterations=400, gradient_tolerance=1e-4)
    found.fit(*small[:2])
    assert found.converged_
    for name, own in fitted.weights_.items():
        np.testing.assert_allclose(found.weights_[name], own, atol=0.02)


@pytest.mark.compiled
@pytest.mark.parametrize("loop", [False, True])
def test_weights_that_made_the_labels_are_recovered_and_the_error_falls_with_the_root_of_n(loop):
    sizes, errors = [50, 200, 800], []
    for n in sizes:
        own = []
        for seed in range(3):
            examples, labels, weights = data(n, loop=loop, seed=seed, lengths=(5, 6))
            found = CRF(l2=1e-3, method="exact" if loop else "auto").fit(examples, labels).weights_
            own.append(np.mean([np.square(_free(found, weights, name)).mean() for name in weights]))
        errors.append(np.sqrt(np.mean(own)))
    slope = np.polyfit(np.log(sizes), np.log(errors), 1)[0]
    assert slope == pytest.approx(-0.5, abs=0.2)
    assert errors[-1] < 0.15


def _free(found, weights, name):
    """Return differences of weights without what changes no probability: constants of each feature or table."""
    gap = found[name] - weights[name]
    if name == "word":  # a feature's weights, less their mean
        return gap - gap.mean(axis=1, keepdims=True)
    if name in {"next", "kind"}:  # what unary scores could say as well is left out
        return gap - gap.mean(axis=0, keepdims=True) - gap.mean(axis=1, keepdims=True) + gap.mean()
    return gap


def test_a_larger_penalty_makes_smaller_weights_and_each_block_can_have_its_own(small, fitted):
    def size(crf):
        return sum(float(np.square(own).sum()) for own in crf.weights_.values())

    examples, labels, _ = small
    assert size(CRF(l2=10.0).fit(examples, labels)) < size(fitted)
    apart = CRF(l2={"word": 1.0, "next": 100.0, "kind": 1.0, "model": 1.0}).fit(examples, labels)
    assert np.abs(apart.weights_["next"]).max() < 0.1 < np.abs(apart.weights_["word"]).max()


def test_training_stops_when_held_out_examples_gain_nothing_and_keeps_the_best(small):
    examples, labels, _ = small
    crf = CRF(l2=1e-6, patience=3, gradient_tolerance=1e-9, max_iterations=500)
    others = data(10, seed=5)[:2]
    crf.fit(examples[:5], labels[:5], validation=others)
    held_out = [row.held_out for row in crf.iterations_]
    assert crf.ending_ == "no gain on held-out examples"
    assert int(np.argmax(held_out)) == len(held_out) - 4
    assert crf.log_likelihood(*others) == pytest.approx(max(held_out), abs=1e-9)


def test_a_part_of_the_examples_can_be_held_out(small):
    crf = CRF(validation_fraction=0.25).fit(*small[:2])
    assert not np.isnan(crf.iterations_[-1].held_out)


def test_loose_inference_at_first_ends_where_tight_inference_ends():
    examples, labels, _ = data(12, loop=True, lengths=(5, 8))
    loose, tight = (CRF(method="bp", loose=own).fit(examples, labels) for own in (1e-2, None))
    assert loose.likelihood_ == tight.likelihood_ == "Bethe"
    tolerances = [row.tolerance for row in loose.iterations_]
    assert tolerances == sorted(tolerances, reverse=True)
    assert tolerances[0] == 1e-2
    assert tolerances[-1] == 1e-6
    assert {row.tolerance for row in tight.iterations_} == {1e-6}
    for name, own in tight.weights_.items():
        np.testing.assert_allclose(loose.weights_[name], own, atol=1e-3)


def picture(rng, side, n_states):
    """Return a grid whose labels are squares of one state with some noise, and noisy scores of them."""
    graph = abp.FactorGraph()
    index = np.array(graph.add_variables(side * side, n_states)).reshape(side, side)
    squares = np.kron(rng.integers(0, n_states, (side // 2, side // 2)), np.ones((2, 2), dtype=int)).ravel()
    labels = np.where(rng.random(side * side) < 0.3, rng.integers(0, n_states, side * side), squares)
    example = Example(graph)
    seen = np.eye(n_states)[squares] + rng.normal(0, 1, (side * side, n_states))
    example.add_factors("seen", index.reshape(-1, 1), joint_features=seen[:, :, np.newaxis])
    across, down = (index[:, :-1], index[:, 1:]), (index[:-1], index[1:])
    pairs = [np.column_stack([a.ravel(), b.ravel()]) for a, b in (across, down)]
    example.add_factors("pair", np.vstack(pairs))
    return example, labels


@pytest.mark.compiled
def test_loose_inference_at_first_saves_work_on_grids():
    rng = np.random.default_rng(0)
    examples, labels = zip(*[picture(rng, 8, 8) for _ in range(6)], strict=True)
    loose, tight = (CRF(method="bp", l2=2.0, loose=own).fit(examples, labels) for own in (1e-2, None))
    assert loose.converged_
    assert tight.converged_
    assert sum(row.work for row in loose.iterations_) < 0.85 * sum(row.work for row in tight.iterations_)
    assert loose.iterations_[-1].objective == pytest.approx(tight.iterations_[-1].objective, rel=1e-6)


def test_weights_to_begin_with_change_the_way_and_not_the_end(small, fitted):
    crf = CRF().fit(*small[:2], initial=fitted.weights_)
    assert len(crf.iterations_) < len(fitted.iterations_)
    for name, own in fitted.weights_.items():
        np.testing.assert_allclose(crf.weights_[name], own, atol=1e-3)


def test_two_trainings_have_the_same_bits_in_any_number_of_threads(small, fitted):
    for threads in (1, 2):
        again = CRF(threads=threads).fit(*small[:2])
        assert all(own.tobytes() == fitted.weights_[name].tobytes() for name, own in again.weights_.items())


def test_a_training_that_is_cut_off_warns(small):
    with pytest.warns(abp.NotConvergedWarning, match="max_iterations"):
        CRF(max_iterations=2).fit(*small[:2])


def test_segments_of_lbfgs_end_where_a_whole_one_ends(small, fitted, monkeypatch):
    monkeypatch.setattr(optimise, "SEGMENT", 4)
    crf = CRF().fit(*small[:2])
    for name, own in fitted.weights_.items():
        np.testing.assert_allclose(crf.weights_[name], own, atol=1e-3)


# ---------------------------------------------------------------- predicting
def test_labels_are_the_likeliest_of_each_variable_or_of_all_together(small, fitted):
    examples = small[0][:6]
    for example, labels, marginals in zip(
        examples, fitted.predict(examples), fitted.predict_marginals(examples), strict=True
    ):
        graph = fitted.graph(example)
        result = abp.infer(graph)
        assert labels == [result.top(k)[0][0] for k in range(len(graph.variables))]
        np.testing.assert_allclose(marginals.concatenated(), result.marginals.concatenated(), atol=1e-9)
    jointly = copy.copy(fitted).set_params(decode="map")
    for example, labels in zip(examples, jointly.predict(examples), strict=True):
        assert labels == list(abp.infer_map(fitted.graph(example)).assignment.values())


def test_the_score_is_the_share_of_right_labels(small, fitted):
    examples, labels, _ = small
    found = fitted.predict(examples)
    right = [a == b for own, truth in zip(found, labels, strict=True) for a, b in zip(own, truth, strict=True)]
    assert fitted.score(examples, labels) == pytest.approx(np.mean(right))
    assert fitted.score(examples, labels) > 0.5


def test_labels_may_be_given_by_name(small, fitted):
    examples, labels, _ = small
    by_name = [
        dict(zip(own.graph.variables.names(), truth, strict=True)) for own, truth in zip(*small[:2], strict=True)
    ]
    again = CRF().fit(examples, by_name)
    assert again.weights_["next"].tobytes() == fitted.weights_["next"].tobytes()
    assert fitted.score(examples, by_name) == fitted.score(examples, labels)


# ---------------------------------------------------------------- scikit-learn's manner
def test_options_can_be_read_changed_and_cloned():
    crf = CRF(l2=0.5, loose=None)
    assert crf.get_params()["l2"] == 0.5
    assert crf.set_params(l2=2.0) is crf
    assert repr(crf) == "CRF(l2=2.0, loose=None)"
    with pytest.raises(abp.OptionError, match="no option 'C'"):
        crf.set_params(C=1.0)
    base = pytest.importorskip("sklearn.base")
    twin = base.clone(crf)
    assert twin is not crf
    assert twin.get_params() == crf.get_params()


# ---------------------------------------------------------------- what is refused
def simple(n_states=2):
    graph = abp.FactorGraph()
    graph.add_variables(2, n_states)
    example = Example(graph)
    example.add_factors("pair", [[0, 1]])
    return example


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"method": "best"}, "method"),
        ({"optimizer": "sgd"}, "optimizer"),
        ({"decode": "viterbi"}, "decode"),
        ({"l2": -1.0}, "l2"),
        ({"l2": {"other": 1.0}}, "l2"),
        ({"max_iterations": 0}, "max_iterations"),
        ({"batch_size": 2.5}, "batch_size"),
        ({"validation_fraction": 1.5}, "validation_fraction"),
        ({"validation_fraction": 0.9}, "leaves none"),
        ({"tolerance": -1.0}, "tolerance"),
        ({"loose": "very"}, "loose"),
    ],
)
def test_options_that_cannot_be_are_named(options, match):
    with pytest.raises(abp.OptionError, match=match):
        CRF(**options).fit([simple()], [[0, 1]])


@pytest.mark.parametrize(
    ("examples", "labels", "match"),
    [
        ([], [], "at least one example"),
        ([simple()], [], "1 examples and 0 labels"),
        ([simple(), simple()], [[0, 1], [0]], "labels of example 1: there are 2 variables, but 1 labels"),
        ([simple()], [[0, 5]], "labels of example 0: .*'x1'"),
        ([simple()], [{"x0": 1}], "labels of example 0: variable 'x1' has no label"),
        ([simple()], [{"x0": 1, 0: 0, "x1": 1}], "labels of example 0: variable 'x0' has two labels"),
        ([simple()], [None], "labels of example 0: expected a label for each variable"),
        ([simple()], [{"x0": 1, "y": 0}], "labels of example 0: .*'y'"),
        ([abp.FactorGraph()], [[]], "example 0 must be an Example"),
        ([simple(), simple(3)], [[0, 1]] * 2, r"block 'pair' .*\(3, 3\) in example 1.*\(2, 2\) in example 0"),
        ([Example(abp.FactorGraph())], [[]], "no example has factors"),
    ],
)
def test_examples_and_labels_that_do_not_fit_are_named(examples, labels, match):
    with pytest.raises(abp.ModelError, match=match):
        CRF().fit(examples, labels)


def test_labels_that_known_factors_exclude_are_named():
    graph = abp.FactorGraph()
    graph.add_variables(2, 2)
    graph.add_factor([0, 1], structure=abp.Equality())
    example = Example(graph)
    example.add_factors("one", [[0]])
    with pytest.raises(abp.InconsistentModelError, match="labels of example 1"):
        CRF().fit([example, example], [[1, 1], [0, 1]])


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"block": "", "scopes": [[0]]}, "non-empty"),
        ({"block": "b", "scopes": [[7]]}, "block 'b': .*outside"),
        ({"block": "b", "scopes": [[0], [2]]}, "block 'b': factors need one shape"),
        (
            {"block": "b", "scopes": [[0]], "features": np.ones((2, 3))},
            r"block 'b': features .*\(1, any\), got \(2, 3\)",
        ),
        ({"block": "b", "scopes": [[0]], "features": [[np.nan]]}, "block 'b': features hold nan"),
        ({"block": "b", "scopes": [[0]], "features": [["word"]]}, "block 'b': features must be numbers"),
        ({"block": "b", "scopes": [[0]], "features": np.ma.masked_less([[0.0]], 1.0)}, "features must be numbers"),
        ({"block": "b", "scopes": [[0]], "features": [[1.0j]]}, "block 'b': features must be numbers"),
        ({"block": "b", "scopes": [[0]], "offset": ["a", "b"]}, "block 'b': the offset must be log scores"),
        ({"block": "b", "scopes": [[0]], "joint_features": np.ones((1, 2))}, r"joint_features .*\(1, 2, any\)"),
        ({"block": "b", "scopes": [[0]], "features": [[1.0]], "joint_features": [[[1.0]]]}, "not both"),
        ({"block": "b", "scopes": [[0]], "offset": [0.0]}, "block 'b': the offset must have"),
        ({"block": "b", "scopes": [[0]], "offset": [0.0, np.nan]}, "block 'b': the offset holds nan"),
    ],
)
def test_factors_that_cannot_be_learned_are_named(arguments, match):
    graph = abp.FactorGraph()
    graph.add_variables(2, 2)
    graph.add_variable("other", 3)
    with pytest.raises(abp.ModelError, match=match):
        Example(graph).add_factors(**arguments)


def test_a_block_may_have_no_features():
    graph = abp.FactorGraph()
    graph.add_variables(2, 2)
    example = Example(graph)
    example.add_factors("none", [[0], [1]], features=np.empty((2, 0)))
    example.add_factors("pair", [[0, 1]])
    assert CRF(l2=0.1).fit([example], [[0, 1]]).weights_["none"].shape == (0, 2)


def test_what_was_not_learned_cannot_be_used(fitted):
    with pytest.raises(abp.OptionError, match="call `fit` first"):
        CRF().predict([simple()])
    with pytest.raises(abp.ModelError, match="block 'pair'.*nothing was learned"):
        fitted.predict([simple()])


def test_initial_weights_of_another_shape_are_named(small):
    with pytest.raises(abp.ModelError, match="initial: block 'next' needs"):
        CRF().fit(*small[:2], initial={"next": np.zeros((2, 2))})
    with pytest.raises(abp.ModelError, match="initial: there is no block 'last'"):
        CRF().fit(*small[:2], initial={"last": np.zeros((2, 2))})


def test_blocks_keep_their_order_in_the_vector(small):
    own = blocks.Blocks(small[0])
    vector = np.arange(own.size, dtype=float)
    assert own.joined(own.split(vector), "it").tolist() == vector.tolist()
