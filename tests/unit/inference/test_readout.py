"""No wrong number is handed out: what a snapshot is made of is checked."""

import numpy as np
import pytest

import anytimebp as abp
from anytimebp.exact import passes
from anytimebp.inference import readout
from anytimebp.results.marginals import Marginals

WHOLE = np.empty(0, dtype=np.int64)  # every domain is the universe in order


def small():
    graph = abp.FactorGraph()
    graph.add_variable("a", 2)
    graph.add_variable("b", 3)
    graph.add_factor(["a", "b"], log_table=np.arange(6.0).reshape(2, 3))
    return graph


@pytest.mark.parametrize(
    ("belief", "problem"),
    [
        ([0.5, 0.5, 0.2, np.nan, 0.3], "'b' is not a distribution, its sum is nan and its smallest number nan"),
        ([0.5, 0.5, -0.5, 1.0, 0.5], "'b' is not a distribution, its sum is 1.0 and its smallest number -0.5"),
        ([0.5, 0.6, 0.2, 0.5, 0.3], "'a' is not a distribution, its sum is 1.1"),
        ([0.0, 0.0, 0.2, 0.5, 0.3], "'a' is not a distribution, its sum is 0.0"),
        ([np.inf, 0.0, 0.2, 0.5, 0.3], "'a' is not a distribution, its sum is inf"),
        ([0.5, 0.500002, 0.2, 0.5, 0.3], "'a' is not a distribution"),
    ],
)
def test_marginals_that_are_no_distributions_are_held_back(belief, problem):
    with pytest.raises(abp.InternalError, match=rf"internal error: the marginal of variable {problem}.*report it"):
        Marginals(small().variables, np.array(belief), np.array([0, 2, 5]), WHOLE)


def test_rounding_passes():
    many = np.full(100, 0.01 + 5e-9)
    graph = abp.FactorGraph()
    graph.add_variables(100, 100)
    Marginals(graph.variables, np.tile(many, 100), 100 * np.arange(101), WHOLE)
    Marginals(small().variables, np.array([0.5, 0.5 + 1e-9, 0.2, 0.5, 0.3]), np.array([0, 2, 5]), WHOLE)
    Marginals(abp.FactorGraph().variables, np.empty(0), np.array([0]), WHOLE)


@pytest.mark.parametrize("method", [method for method in abp.METHODS if method not in {"exact", "auto"}])
def test_a_kernel_that_gives_nan_is_noticed_by_every_method(method, monkeypatch):
    def spoiled(*arguments):
        status = real(*arguments)
        arguments[3][-1] = np.nan
        return status

    abp.infer(small(), method)  # loads the kernels, which looks at snapshots too
    real = readout.read_beliefs
    monkeypatch.setattr(readout, "read_beliefs", spoiled)
    with pytest.raises(abp.InternalError, match="variable 'b'"):
        abp.infer(small(), method).marginals.read()


def test_a_kernel_that_gives_nan_is_noticed_by_exact(monkeypatch):
    def spoiled(*arguments):
        status = real(*arguments)
        arguments[5][-1] = np.nan
        return status

    abp.infer(small(), "exact")
    real = passes.distribute_slice
    monkeypatch.setattr(passes, "distribute_slice", spoiled)
    with pytest.raises(abp.InternalError, match="variable 'b'"):
        abp.infer(small(), "exact")


def test_a_log_z_that_is_not_a_number_is_held_back(monkeypatch):
    abp.infer(small(), "bp")
    monkeypatch.setattr(readout, "_finite", lambda *_: float("nan"))
    with pytest.raises(abp.InternalError, match="log Z is not a number"):
        abp.infer(small(), "bp")


def test_factor_marginals_that_are_not_numbers_are_held_back():
    result = abp.infer(small(), "bp", factor_marginals=True)
    result.factor_marginals._log_weight[0] = np.nan
    with pytest.raises(abp.InternalError, match=r"marginal of factor 0 \(a, b\) holds nan"):
        result.factor_marginals[0]
    result.factor_marginals._log_weight[:] = -np.inf
    with pytest.raises(abp.InconsistentModelError, match=r"factor 0 \(a, b\) has no marginal"):
        result.factor_marginals[0]
