"""Who gets a domain, and which states: few likely states first, drawn ones where there are many, within the memory."""

import numpy as np

import anytimebp as abp
from anytimebp.domains.domains import full_domains
from anytimebp.inference.adaptive.first_domains import DRAWN, SMALL, first_domains_of, smallest_domain
from anytimebp.inference.adaptive.whole_model import WholeModel
from anytimebp.layout.graph_layout import compiled_graph


def wholly(log_priors):
    graph = abp.FactorGraph()
    for number, own in enumerate(log_priors):
        graph.add_variables(1, len(own))
        graph.add_factor([number], log_table=own)
    return WholeModel(compiled_graph(graph), full_domains(compiled_graph(graph), {}), sum_out=False)


def beliefs_of(whole):
    start = whole.domains.slot_start
    return {
        v: (np.arange(start[v], start[v + 1]), whole.domains.log_prior[start[v] : start[v + 1]])
        for v in range(len(start) - 1)
    }


def peaked(n, likely):
    return np.where(np.arange(n) < likely, 0.0, -20.0)


def test_variables_with_few_likely_states_get_domains_and_open_ones_wait():
    whole = wholly([peaked(1000, 3), peaked(1000, 40), np.zeros(1000)])
    found = first_domains_of(whole, beliefs_of(whole), np.ones(3, dtype=np.int64), lambda _: True)
    assert {v: len(slot) for v, slot in found.items()} == {0: 3, 1: 40}
    assert found[1].tolist() == list(range(1000, 1040))


def test_of_many_likely_states_some_are_drawn_the_same_each_time():
    whole = wholly([-1e-3 * np.arange(4000.0) ** 1.1])
    sizes = np.ones(1, dtype=np.int64)
    found, again = (first_domains_of(whole, beliefs_of(whole), sizes, lambda _: True)[0] for _ in range(2))
    assert len(found) == len(set(found.tolist())) == DRAWN
    assert (np.diff(found) > 0).all()
    assert found.tolist() == again.tolist()


def test_an_open_variable_begins_where_nobody_else_can():
    whole = wholly([np.zeros(2 * SMALL), np.zeros(4 * SMALL)])
    sizes = np.ones(2, dtype=np.int64)
    assert [*first_domains_of(whole, beliefs_of(whole), sizes, lambda _: True)] == [0]


def test_only_as_many_variables_as_there_is_memory_for():
    whole = wholly([peaked(100, 10), peaked(100, 20), peaked(100, 30)])
    sizes = np.ones(3, dtype=np.int64)
    assert [*first_domains_of(whole, beliefs_of(whole), sizes, lambda own: own.sum() <= 40)] == [0, 1]
    assert first_domains_of(whole, beliefs_of(whole), sizes, lambda _: False) == {}
    few = smallest_domain(beliefs_of(whole), sizes, lambda own: own.sum() <= 4)
    assert {v: len(slot) for v, slot in few.items()} == {0: 2}
    least = smallest_domain(beliefs_of(whole), sizes, lambda _: False)
    assert {v: len(slot) for v, slot in least.items()} == {0: 1}
