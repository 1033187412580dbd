"""Evidence on many variables, which is read at once, against the same read one by one."""

import numpy as np
import pytest

import anytimebp as abp
from anytimebp.model import evidence as evidence_module
from anytimebp.model.evidence import read_evidence_mapping

N = 40


@pytest.fixture(name="variables")
def _variables():
    graph = abp.FactorGraph()
    graph.add_variables(N, 5)
    graph.add_variables(N, 3, [f"three {k}" for k in range(N)])
    for k in range(N):
        graph.add_variable(f"labels {k}", ["low", "mid", "high"])
    return graph.variables


def values(rng, n):
    """Yield values that say something of a variable of n states, in every form."""
    scores = rng.normal(size=n)
    zero = np.where(np.arange(n) == 1, -np.inf, scores)
    yield from (int(rng.integers(n)), np.int64(rng.integers(n)), {0, n - 1}, scores, scores.tolist(), zero)
    yield from (scores.astype(np.float32), np.arange(n), np.full(n, 0.5), np.linspace(0.1, 0.9, n))


def one_by_one(given, variables):
    """Read evidence on each variable apart."""
    return {key: value for k, own in given.items() for key, value in read_evidence_mapping({k: own}, variables).items()}


@pytest.mark.parametrize("seed", range(10))
def test_evidence_on_many_variables_is_read_as_on_each(seed, variables):
    rng = np.random.default_rng(seed)
    given = {}
    for index in rng.permutation(3 * N)[: int(rng.integers(evidence_module.MANY, 3 * N))].tolist():
        n = variables.size(index)
        if index >= 2 * N and rng.random() < 0.5:
            given[variables.name(index)] = "mid"
        else:
            choice = [*values(rng, n)][int(rng.integers(3 if index >= 2 * N else 0, 10))]
            given[variables.name(index)] = choice
    found, wanted = read_evidence_mapping(given, variables), one_by_one(given, variables)
    assert list(found) == list(wanted)
    for index, seen in found.items():
        for own, other in zip(seen, wanted[index], strict=True):
            assert (own is None) == (other is None)
            if own is not None:
                np.testing.assert_array_equal(own, other)
                assert own.dtype == other.dtype


def test_arrays_that_were_given_may_change_afterwards(variables):
    scores = np.arange(5.0)
    found = read_evidence_mapping(dict.fromkeys(range(N), scores), variables)
    scores[:] = 7.0
    assert all(seen.log_scores.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0] for seen in found.values())


@pytest.mark.parametrize(
    ("bad", "error", "text"),
    [
        (5, abp.EvidenceError, "variable 'x7' has the states 0 to 4, not 5"),
        (-1, abp.EvidenceError, "variable 'x7' has the states 0 to 4, not -1"),
        (2**70, abp.EvidenceError, "variable 'x7' has the states 0 to 4"),
        (True, abp.EvidenceError, "variable 'x7' has the states 0 to 4, not True"),
        (np.zeros(4), abp.EvidenceError, r"'x7': log scores must have shape \(5,\), got \(4,\)"),
        (np.zeros(0), abp.EvidenceError, r"'x7': log scores must have shape \(5,\), got \(0,\)"),
        (np.array([0.0, np.nan, 0.0, 0.0, 0.0]), abp.EvidenceError, "'x7': the log score of state 1 is nan"),
        (np.array([0.0, 1e13, 0.0, 0.0, 0.0]), abp.EvidenceError, "'x7': the log score of state 1 is 1"),
        (np.full(5, -np.inf), abp.InconsistentModelError, "'x7': every state has the log score -inf"),
    ],
)
@pytest.mark.parametrize("plain", [2, np.arange(5.0)])
def test_bad_evidence_among_much_is_named(bad, error, text, plain, variables):
    given = dict.fromkeys([f"x{k}" for k in range(N)], plain) | {"x7": bad}
    with pytest.raises(error, match=text):
        read_evidence_mapping(given, variables)


def test_probabilities_among_much_evidence_are_warned_of(variables):
    given = dict.fromkeys([f"x{k}" for k in range(N)], np.arange(5.0)) | {"x7": np.array([0.1, 0.2, 0.3, 0.2, 0.2])}
    with pytest.warns(abp.ModelWarning, match="variable 'x7': the numbers lie between 0 and 1 and sum to 1"):
        read_evidence_mapping(given, variables)


def test_one_label_of_a_labelled_variable_is_no_index(variables):
    given = dict.fromkeys([f"labels {k}" for k in range(N)], 1)
    with pytest.raises(abp.EvidenceError, match="variable 'labels 0' has no state 1"):
        read_evidence_mapping(given, variables)
