"""Moves of blocks, each to its best joint state given the others."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import anytimebp as abp
from anytimebp.domains.domains import full_domains
from anytimebp.inference import block_moves
from anytimebp.inference.block_moves import BlockMoves
from anytimebp.inference.map_search import MapSearch
from anytimebp.layout.graph_layout import compiled_graph
from oracle.enumeration import joint_log_scores
from oracle.examples import examples
from oracle.models import random_loopy


def improved(graph, most_entries=None):
    """Return a search before and after moves of blocks, from the best states by priors on."""
    compiled = compiled_graph(graph)
    domains = full_domains(compiled, {})
    search = MapSearch(compiled, domains, {})
    before = search.log_score
    with pytest.MonkeyPatch.context() as patch:
        if most_entries is not None:
            patch.setattr(block_moves, "MOST_ENTRIES", most_entries)
        if before > -np.inf:
            for _ in BlockMoves(search, compiled, domains, {})():
                pass
    return before, search


@settings(max_examples=examples(25), deadline=None)
@given(seed=st.integers(0, 10**6), most_entries=st.sampled_from([4.0, 12.0, 40.0]))
def test_small_blocks_raise_the_score_and_leave_it_right(seed, most_entries):
    graph = random_loopy(seed)
    joint = joint_log_scores(graph)
    before, search = improved(graph, most_entries)
    assert search.log_score == pytest.approx(joint[tuple(search.states)], abs=1e-9)
    assert before <= search.log_score <= joint.max() + 1e-9
    if search.is_best:
        assert search.log_score == pytest.approx(joint.max(), abs=1e-9)


def test_a_block_of_all_variables_is_solved_exactly():
    for seed in range(5):
        graph = random_loopy(seed)
        _, search = improved(graph)
        assert search.is_best
        assert search.log_score == pytest.approx(joint_log_scores(graph).max(), abs=1e-9)


def test_moves_of_blocks_find_what_moves_of_single_variables_do_not():
    graph = abp.FactorGraph()
    graph.add_variables(3, 2)
    agree = np.array([[0.0, -5.0], [-5.0, 0.0]])
    graph.add_factors([[0, 1], [1, 2], [2, 0]], log_table=agree)
    graph.add_factors([[0], [1], [2]], log_table=[[1.0, 0.0], [1.0, 0.0], [0.0, 4.0]])
    compiled = compiled_graph(graph)
    domains = full_domains(compiled, {})
    search = MapSearch(compiled, domains, {})
    search.states = np.zeros(3, dtype=np.int64)  # each variable alone would lose by a move
    search.log_score = 2.0
    for _ in BlockMoves(search, compiled, domains, {})():
        pass
    assert search.states.tolist() == [1, 1, 1]
    assert search.log_score == 4.0
