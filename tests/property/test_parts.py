"""A graph in parts: the fixed point of one run, the same bits in any number of threads."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import anytimebp as abp
from anytimebp.inference.schedule import in_parts
from anytimebp.layout import cut
from anytimebp.layout.graph_layout import compiled_graph
from oracle.cut_graphs import agree, random_graph
from oracle.examples import examples


@pytest.fixture(autouse=True)
def _threads_for_little(monkeypatch):
    monkeypatch.setattr(in_parts, "LEAST_WORK", 0.0)


def _same(one, other):
    np.testing.assert_array_equal(one.marginals.concatenated(), other.marginals.concatenated())
    assert (one.log_z, one.work, one.updates) == (other.log_z, other.work, other.updates)
    assert one.max_residual == other.max_residual


@given(
    st.integers(0, 2**20),
    st.integers(2, 6),
    st.sampled_from(["bp", "residual", "adaptive"]),
    st.sampled_from(["", "zeros", "wide"]),
)
@settings(max_examples=examples(25), deadline=None)
def test_parts_end_at_the_fixed_point_of_one_run_and_threads_change_no_bit(seed, parts, method, trait):
    graph = random_graph(seed, **({trait: True} if trait else {}))
    evidence = {graph.variables[2].name: graph.variables[2].labels[0]} if seed % 3 == 0 else None
    alone = abp.infer(graph, method, evidence=evidence, tolerance=1e-10)
    several = abp.infer(graph, method, evidence=evidence, tolerance=1e-10, parts=parts, threads=3)
    agree(alone, several)
    _same(several, abp.infer(graph, method, evidence=evidence, tolerance=1e-10, parts=parts, threads=1))


@given(st.integers(0, 2**20))
@settings(max_examples=10, deadline=None)
def test_a_cut_at_random_ends_at_the_same_fixed_point(seed):
    graph = random_graph(seed)
    alone = abp.infer(graph, "bp", tolerance=1e-10)
    compiled = compiled_graph(graph)
    labels = np.random.default_rng(seed).integers(0, 3, (2, len(compiled.universe_sizes)))
    compiled.cuts[3] = cut.Cut(list(labels), is_fine=False)
    agree(alone, abp.infer(graph, "bp", tolerance=1e-10, parts=3, threads=2))


@pytest.mark.parametrize("method", ["bp", "residual", "adaptive", "auto"])
def test_one_part_gives_the_bits_of_a_plain_run(method):
    graph = random_graph(1)
    _same(abp.infer(graph, method), abp.infer(graph, method, parts=1))


def test_factors_of_different_parts_share_no_variable_in_any_stage():
    graph = random_graph(3)
    compiled = compiled_graph(graph)
    made = cut.cut_of(compiled, 3)
    division = in_parts.divide(compiled.arrays, compiled.universe_sizes, made, None, 2)
    order = division.sorted(np.arange(len(division.piece)))
    start, variable = compiled.arrays.factor_edge_start, compiled.arrays.edge_variable
    swept = []
    for stage in division.stages:
        seen = []
        for piece in (piece for share in stage for piece in share):
            swept += order[piece.first : piece.last].tolist()
            seen.append(
                {v for f in order[piece.first : piece.last] for v in variable[start[f] : start[f + 1]].tolist()}
            )
        assert sum(map(len, seen)) == len(set().union(*seen))
    swept += order[division.rest.first : division.rest.last].tolist()
    assert sorted(swept) == list(range(len(division.piece)))


def test_without_metis_parts_are_cut_breadth_first(monkeypatch):
    monkeypatch.setattr(cut, "_metis", lambda: None)
    graph = random_graph(5)
    several = abp.infer(graph, "bp", tolerance=1e-10, parts=3, threads=2)
    assert not cut.cut_of(compiled_graph(graph), 3).is_fine
    agree(abp.infer(graph, "bp", tolerance=1e-10), several)


def test_structures_have_scratch_of_their_own_in_every_thread():
    graph, rng = abp.FactorGraph(), np.random.default_rng(0)
    graph.add_variables(30, 4)
    graph.add_factors(np.arange(30).reshape(-1, 1), log_table=rng.normal(0, 1, (30, 4)))
    for first in range(29):
        graph.add_factor([first, first + 1], structure=abp.Difference(rng.normal(0, 0.3, 7)))
        graph.add_factor([first, (first + 2) % 30], log_table=rng.normal(0, 0.3, (4, 4)))
    several = abp.infer(graph, "bp", tolerance=1e-10, parts=4, threads=4)
    _same(several, abp.infer(graph, "bp", tolerance=1e-10, parts=4, threads=1))
    agree(abp.infer(graph, "bp", tolerance=1e-10), several)


def test_an_impossible_model_is_reported_from_parts():
    graph = abp.FactorGraph()
    graph.add_variables(12, 2)
    ring = [[i, (i + 1) % 12] for i in range(12)]
    graph.add_factors(ring, table=np.eye(2))
    graph.add_factor([0, 6], table=1 - np.eye(2))
    graph.add_factors([[0], [6]], table=[1.0, 0.0])
    with pytest.raises(abp.InconsistentModelError):
        abp.infer(graph, "bp", parts=3, threads=2)


def test_a_budget_of_updates_is_kept_in_parts():
    result = abp.infer(random_graph(7), "bp", parts=3, threads=2, max_updates=13)
    assert (result.updates, result.stop_reason) == (13, abp.StopReason.OUT_OF_UPDATES)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"method": "dynamic", "parts": 2}, "does not run in parts.*bp, residual, adaptive, auto"),
        ({"parts": 0}, "parts must be a whole number"),
        ({"parts": 2, "workers": "mules"}, "workers must be one of"),
    ],
)
def test_parts_that_cannot_be_are_refused(options, text):
    with pytest.raises(abp.OptionError, match=text):
        abp.infer(random_graph(0), **options)
