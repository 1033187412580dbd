"""What targets depend on: that of d-separation on Bayesian networks, and never less than enough elsewhere."""

import copy
import pickle

import numpy as np
import pytest

import anytimebp as abp
from anytimebp.domains.domains import full_domains
from anytimebp.exact.relevance import relevant_part
from anytimebp.layout.graph_layout import compiled_graph
from anytimebp.model.evidence import read_evidence_mapping
from oracle.networks import connected, random_network


def part_of(graph, evidence, targets):
    compiled = compiled_graph(graph)
    domains = full_domains(compiled, read_evidence_mapping(evidence, graph.variables))
    return relevant_part(compiled, domains, np.array(targets))


@pytest.mark.parametrize("seed", range(60))
def test_the_part_of_a_network_is_what_is_not_d_separated(seed):
    graph, parents, witness = random_network(seed, n=10)
    rng = np.random.default_rng(seed)
    chosen = rng.permutation(10).tolist()
    n_observed, n_targets = int(rng.integers(0, 4)), int(rng.integers(1, 3))
    observed, targets = chosen[:n_observed], sorted(chosen[n_observed : n_observed + n_targets])
    part = part_of(graph, {i: witness[i] for i in observed}, targets)
    assert set(np.flatnonzero(part.sizes > 1).tolist()) == connected(parents, observed, targets)
    assert set(np.flatnonzero(part.sizes == 1).tolist()) == set(observed)
    kept = {
        v
        for f in np.flatnonzero(part.kept)
        for v in part.layout.edge_variable[
            part.layout.factor_edge_start[f] : part.layout.factor_edge_start[f + 1]
        ].tolist()
    }
    assert kept <= set(np.flatnonzero(part.sizes).tolist())


def test_the_topology_of_a_part_is_that_of_the_factors_kept():
    graph, _, _ = random_network(3)
    part = part_of(graph, {}, [2])
    layout, whole = part.layout, compiled_graph(graph).arrays
    for factor, is_kept in enumerate(part.kept.tolist()):
        own = layout.edge_variable[layout.factor_edge_start[factor] : layout.factor_edge_start[factor + 1]].tolist()
        of_whole = slice(whole.factor_edge_start[factor], whole.factor_edge_start[factor + 1])
        assert own == (whole.edge_variable[of_whole].tolist() if is_kept else [])
    for variable in range(len(part.sizes)):
        edges = layout.variable_edge[layout.variable_edge_start[variable] : layout.variable_edge_start[variable + 1]]
        assert edges.tolist() == np.flatnonzero(layout.edge_variable == variable).tolist()


@pytest.mark.parametrize(
    "copied", [lambda graph: graph, copy.deepcopy, lambda graph: pickle.loads(pickle.dumps(graph))]
)
def test_what_tables_sum_to_outlives_a_layout(copied):
    rows = np.array([[0.2, 0.8], [0.5, 0.5]])
    stacked, graph = np.array([rows, rows[::-1]]), abp.FactorGraph()
    graph.add_variables(3, 2)
    graph.add_factors([[0, 1], [1, 2]], table=stacked)
    graph = copied(graph)
    source = graph.blocks[0].source
    assert np.isnan(source.extent[6:]).all()
    for _ in range(2):
        assert part_of(graph, {}, [0]).sizes.tolist() == [2, 0, 0]
        np.testing.assert_allclose(source.extent[6:], [np.nan, 0.0, np.nan, 0.0], atol=1e-12)
        graph.compiled = None


def test_sums_are_made_anew_for_a_table_that_was_changed_in_place():
    table, graph = np.array([[0.2, 0.8], [0.5, 0.5]]), abp.FactorGraph()
    graph.add_variables(2, 2)
    graph.add_factor([0, 1], table=table)
    assert part_of(graph, {}, [0]).sizes.tolist() == [2, 0]
    table[0, 0] += 0.25
    graph.take_changes()
    assert part_of(graph, {}, [0]).sizes.tolist() == [2, 2]


def chain(table, **evidence):
    """Return the sizes of the part of a chain of three on which its first variable depends."""
    graph = abp.FactorGraph()
    graph.add_variables(3, 2)
    graph.add_factor([0, 1], table=[[0.2, 0.8], [0.5, 0.5]])
    graph.add_factor([1, 2], **table)
    return part_of(graph, evidence.get("given", {}), [0]).sizes.tolist()


def test_only_what_nothing_is_known_of_is_barren():
    normalised = {"table": [[0.4, 0.6], [0.3, 0.7]]}
    assert chain(normalised) == [2, 0, 0]
    assert chain(normalised, given={2: 1}) == [2, 2, 1]
    assert chain(normalised, given={2: np.array([0.0, -1.0])}) == [2, 2, 2]
    assert chain(normalised, given={2: {0, 1}}) == [2, 0, 0]
    assert chain({"table": [[0.4, 0.6], [0.3, 0.8]]}) == [2, 2, 2]
    assert chain({"table": [[0.4, 0.6], [0.3, 0.7000001]]}) == [2, 0, 0]  # printed digits
    assert chain({"log_table": np.log([[0.4, 0.6], [0.3, 0.7]])}) == [2, 2, 2]  # not meant as a distribution
    assert chain({"rule": lambda a, b: -np.abs(a - b) + 0.0}) == [2, 2, 2]


def test_tied_tables_are_found_where_they_lie():
    graph = abp.FactorGraph()
    graph.add_variables(4, 2)
    graph.add_factor([0], table=[0.5, 0.5])
    graph.add_factors([[0, 1], [1, 2]], table=[[0.4, 0.6], [0.3, 0.7]])
    graph.add_factors([[2, 3]], table=[[[0.4, 0.6], [0.1, 0.9]]])
    assert part_of(graph, {}, [1]).sizes.tolist() == [2, 2, 0, 0]
    assert part_of(graph, {3: 0}, [1]).sizes.tolist() == [2, 2, 2, 1]


def test_what_is_left_out_is_summed_where_its_sum_is_known():
    graph = abp.FactorGraph()
    graph.add_variables(5, 2)
    graph.add_factor([0, 1], table=[[1.0, 2.0], [2.0, 1.0]])
    graph.add_factor([2], table=[3.0, 4.0])
    whole = abp.infer(graph, "exact").log_z
    assert part_of(graph, {}, [0]).log_known == pytest.approx(np.log(3.0 * 7.0 / 4.0 * 4.0))  # the scale has 4
    assert abp.infer(graph, "exact", targets=[0]).log_z == pytest.approx(whole)
    graph.add_factor([3, 4], table=[[1.0, 2.0], [3.0, 1.0]])
    assert np.isnan(abp.infer(graph, "exact", targets=[0]).log_z)
