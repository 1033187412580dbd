"""Tables of a run over fixed domains."""

from ctypes import c_double

import numpy as np

import anytimebp as abp
from anytimebp.domains.domains import full_domains
from anytimebp.exact.potentials import make_potentials
from anytimebp.layout.graph_layout import compiled_graph
from anytimebp.model.evidence import Observation
from anytimebp.slices import at_one_go


def addresses(graph, observed=None):
    """Return where the tables of message factors lie, and what they hold."""
    compiled = compiled_graph(graph)
    domains = full_domains(compiled, observed or {})
    tables = at_one_go(make_potentials(compiled, domains))
    address, sizes = tables.address.tolist(), domains.sizes[compiled.arrays.edge_variable].reshape(-1, 2).tolist()
    held = [(c_double * (n * m)).from_address(first) for first, (n, m) in zip(address, sizes, strict=True)]
    return address, [np.array(numbers).reshape(size) for numbers, size in zip(held, sizes, strict=True)]


def test_the_same_array_given_in_several_calls_is_one_table():
    rng = np.random.default_rng(0)
    one, other = rng.normal(size=(2, 3, 3))
    graph = abp.FactorGraph()
    graph.add_variables(4, 3)
    for scope, values in (([0, 1], one), ([1, 2], other), ([2, 3], one), ([3, 0], other.copy())):
        graph.add_factor(scope, log_table=values)
    graph.add_factor([0, 2], table=np.exp(one))
    address, found = addresses(graph)
    assert address[0] == address[2]
    assert len(set(address)) == 4
    for made, expected in zip(found, (one, other, one, other), strict=False):
        np.testing.assert_allclose(made, np.exp(expected - expected.max()), rtol=1e-14)


def test_tables_that_evidence_cuts_are_not_shared():
    values = np.random.default_rng(0).normal(size=(3, 3))
    graph = abp.FactorGraph()
    graph.add_variables(3, 3)
    for scope in ([0, 1], [1, 2], [2, 0]):
        graph.add_factor(scope, log_table=values)
    address, found = addresses(graph, {0: Observation(np.array([1]), None)})
    assert len(set(address)) == 3
    np.testing.assert_allclose(found[0][0], np.exp(values[1] - values[1].max()), rtol=1e-14)
    np.testing.assert_allclose(found[2][:, 0], np.exp(values[:, 1] - values[:, 1].max()), rtol=1e-14)


def test_numbers_used_as_log_scores_and_as_potentials_are_two_tables():
    values = np.random.default_rng(0).uniform(0.1, 1.0, size=(3, 3))
    graph = abp.FactorGraph()
    graph.add_variables(2, 3)
    graph.add_factor([0, 1], log_table=values)
    graph.add_factor([0, 1], table=values)
    address, found = addresses(graph)
    assert len(set(address)) == 2
    np.testing.assert_allclose(found[0], np.exp(values - values.max()), rtol=1e-14)
    np.testing.assert_allclose(found[1] / found[1].max(), values / values.max(), rtol=1e-14)
