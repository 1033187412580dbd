"""Growth on graphs so small that the kernels can run as plain Python, bounds checked."""

import numpy as np
import pytest

import anytimebp as abp
from oracle.enumeration import exact
from oracle.models import grid, one_factor, worst
from oracle.slow_growth import domains_of, restricted, take_messages

GROWING = ["random", "fixed", "dynamic"]


def check(graph, method, marginals, **options):
    """Run to the end; every snapshot is a fixed point on its domains, the last one has these marginals."""
    inference = abp.Inference(graph, method, tolerance=1e-9, rng=0, **options)
    for snapshot in inference:
        slow = restricted(graph, domains_of(inference._run.method))
        take_messages(slow, inference._run.method)
        assert snapshot.consistent
        assert slow.residual() <= 1.01e-9
    assert worst(inference.run(), marginals) < 1e-7


@pytest.mark.usefixtures("any_arithmetic")
@pytest.mark.parametrize("method", GROWING)
@pytest.mark.parametrize("grow", [1, 5])
def test_loops(method, grow):
    graph = grid(2, 6, 2.0, 0.7, seed=1)
    reference = abp.infer(graph, "bp", tolerance=1e-11)
    check(graph, method, [reference.marginals[i] for i in range(4)], grow=grow)


@pytest.mark.usefixtures("any_arithmetic")
@pytest.mark.parametrize("method", GROWING)
def test_three_and_four_variables_with_zeros(method):
    rng = np.random.default_rng(2)
    table = rng.normal(size=(3, 2, 3, 2))
    table[rng.random(table.shape) < 0.5] = -np.inf
    graph = one_factor((3, 2, 3, 2), log_table=table)
    graph.add_variable("extra", 6)
    graph.add_factor(["extra", 0], rule=lambda a, b: np.where((a + b) % 3 == 0, 0.2 * a, -np.inf))
    check(graph, method, exact(graph)[0])


@pytest.mark.parametrize("method", GROWING)
def test_a_hub(method):
    rng = np.random.default_rng(3)
    graph = abp.FactorGraph()
    graph.add_variables(18, 3)
    graph.add_factors(np.arange(18)[:, np.newaxis], log_table=rng.normal(size=(18, 3)))
    tables = rng.normal(size=(17, 3, 3))
    tables[:, 0, 1] = -np.inf
    graph.add_factors([[0, i] for i in range(1, 18)], log_table=tables)
    reference = abp.infer(graph, "bp")
    check(graph, method, [reference.marginals[i] for i in range(18)], grow=9)


def test_listed_entries_and_potentials():
    graph = abp.FactorGraph()
    graph.add_variables(3, 4)
    graph.add_factor([0, 1], entries=([[0, 1], [2, 3], [3, 3]], [1.0, 2.0, -1.0]), default=-2.0)
    graph.add_factor([1, 2], table=np.random.default_rng(0).random((4, 4)))
    graph.add_factor([2, 0], table=1e-320 * np.ones((4, 4)))
    for method in GROWING:
        reference = abp.infer(graph, "bp")
        check(graph, method, [reference.marginals[i] for i in range(3)])
