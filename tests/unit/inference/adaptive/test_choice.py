"""What `adaptive` chooses: by counts and sizes alone, before any table is read."""

import numpy as np
import pytest

import anytimebp as abp
from anytimebp.domains.domains import full_domains
from anytimebp.inference.adaptive import choice
from anytimebp.inference.adaptive.adaptive_run import AdaptiveRun
from anytimebp.inference.adaptive.choice import Way, first_choice, look_cost, round_cost, whole_cost
from anytimebp.inference.adaptive.whole_model import WholeModel
from anytimebp.inference.method import new_task
from anytimebp.kernels.active_states import choose_likely, weigh_near, weigh_offers
from anytimebp.layout.graph_layout import compiled_graph
from oracle.models import grid


def bits(snapshot):
    return b"".join(m.tobytes() for m in snapshot.marginals.values()) + np.float64(snapshot.log_z).tobytes()


def test_small_models_say_that_they_are_small():
    result = abp.infer(grid(3, 4, 1.0, 0.5, seed=0), "adaptive")
    assert {moment.choice.partition(":")[0] for moment in result.trace} == {"full BP"}


def first_words(graph, **options):
    """Return what a run decides before any table is read."""
    task = new_task(graph, abp.Inference(graph, "adaptive", **options)._options)
    for _ in AdaptiveRun(task).begin():
        if task.figures.choice:
            break
    return task.figures.choice


@pytest.mark.compiled
def test_flat_models_begin_with_full_bp_and_large_peaked_ones_on_domains():
    assert first_words(grid(6, 60, 0.5, 0.5, seed=0)).startswith("full BP: unary scores say little")
    assert first_words(grid(4, 300, 10.0, 1.0, seed=0)).startswith("rounds on likely states: the states within 12 nats")
    assert first_words(grid(3, 60, 10.0, 1.0, seed=0)).startswith("full BP: the states within 2 nats")
    assert first_words(grid(4, 8, 10.0, 1.0, seed=0)).startswith("full BP: tables of")


@pytest.mark.compiled
def test_zeros_wide_ranges_and_damping_do_not_rule_rounds_out_but_memory_does():
    def large(scale=0.1):
        return grid(4, 200, 10.0, scale, seed=0)

    wide, zeros = large(), large()
    table = np.zeros((200, 200))
    table[0, 0] = -1000.0
    wide.add_factor([0, 5], log_table=table)
    zeros.add_factor([0, 5], log_table=np.where(np.eye(200) > 0, -np.inf, 0.0))
    assert first_words(wide).startswith("rounds on likely states: ")
    assert first_words(zeros).startswith("rounds on likely states: ")
    assert first_words(large(), damping=0.5).startswith("rounds on likely states: ")
    assert first_words(large(), max_memory=10**6).startswith("domains that grow in batches: whole tables do not fit")
    assert first_words(zeros, max_memory=10**6).startswith("domains that grow in batches: ")
    assert first_words(large(), evidence={f"x{i}": 0 for i in range(16)}).startswith("full BP: tables of 24 entries")


@pytest.mark.compiled
def test_flat_models_with_leaves_begin_with_full_bp_before_rounds_are_thought_about(monkeypatch):
    monkeypatch.setattr("anytimebp.inference.adaptive.adaptive_run.WholeModel", None)
    graph = abp.FactorGraph()
    graph.add_variables(12, 40)
    rng = np.random.default_rng(0)
    graph.add_factors([[k, (k + 1) % 6, 6 + k] for k in range(6)], log_table=rng.normal(size=(6, 40, 40, 40)))
    graph.add_factors([[k] for k in range(6, 12)], log_table=rng.normal(0.0, 10.0, (6, 40)))  # of leaves alone
    assert first_words(graph).startswith("full BP: unary scores say little")


def may_pay(compiled):
    domains = full_domains(compiled, {})
    return choice.may_pay(compiled.arrays, domains, np.exp(domains.log_prior))


def test_leaves_count_where_there_is_nothing_else():
    graph = abp.FactorGraph()
    graph.add_variables(2, 50)
    graph.add_factor([0, 1], log_table=np.zeros((50, 50)))
    compiled = compiled_graph(graph)
    assert not may_pay(compiled)
    graph.add_factors([[0], [1]], log_table=np.linspace(0.0, 300.0, 50))
    compiled = compiled_graph(graph)
    assert may_pay(compiled)


@pytest.mark.parametrize("seed", range(20))
def test_near_states_are_counted_and_weighed(seed):
    rng = np.random.default_rng(seed)
    degree, sizes = rng.choice([0, 1, 1, 3], 8), rng.integers(1, 9, 8)
    edge_start, slot_start = np.r_[0, np.cumsum(degree)], np.r_[0, np.cumsum(sizes)]
    log_prior = np.where(rng.random(slot_start[-1]) < 0.2, -np.inf, -rng.exponential(4.0, slot_start[-1]))
    count, mass, nats = np.empty(4, dtype=np.int64), np.empty(4), np.array([2.0, 3.0, 5.0, np.inf])
    weigh_near(edge_start, slot_start, log_prior, np.exp(log_prior), nats, count, mass)
    is_inner = degree != 1 if (degree != 1).any() else degree == 1
    own = log_prior[np.repeat(is_inner, sizes)]
    near = [own[own >= -n] for n in nats]
    assert count.tolist() == [len(n) for n in near]
    assert mass == pytest.approx([np.exp(n).sum() for n in near], rel=1e-12)


@pytest.mark.parametrize("seed", range(20))
def test_offers_are_counted_together_as_they_are_one_by_one(seed):
    rng = np.random.default_rng(seed)
    sizes, is_leaf = rng.integers(1, 9, 8), rng.random(8) < 0.3
    slot_start, nats = np.r_[0, np.cumsum(sizes)], np.array([2.0, 3.0, 5.0, 8.0])
    log_prior = np.where(rng.random(slot_start[-1]) < 0.2, -np.inf, -rng.exponential(4.0, slot_start[-1]))
    log_prior[slot_start[:-1]] = 0.0
    given = slot_start, log_prior, np.exp(log_prior), is_leaf
    size, held = np.empty((4, 8), dtype=np.int64), np.empty(4)
    weigh_offers(*given, nats, size, held)
    one, start, slot = (np.empty(n, dtype=np.int64) for n in (8, 9, slot_start[-1]))
    for k in range(4):
        _, own = choose_likely(*given, nats[k], one, start, slot)
        assert size[k].tolist() == one.tolist()
        assert held[k] == pytest.approx(own, rel=1e-12)


def test_potentials_cost_full_bp_nothing_to_make_and_log_scores_do():
    rng = np.random.default_rng(0)
    tables, costs = rng.normal(size=(3, 20, 20)), []
    for stated in ({"log_table": tables}, {"table": np.exp(tables)}):
        graph = abp.FactorGraph()
        graph.add_variables(3, 20)
        graph.add_factors([[0, 1], [1, 2], [2, 0]], **stated)
        costs.append(whole_cost(whole_of(graph)))
    assert costs[0] - costs[1] == choice.FULL_COST * tables.size


def test_reasons_name_what_speaks_against_rounds():
    flat, dear = (str(first_choice(whole_of(grid(4, n, s, 1.0, seed=0))).choice) for n, s in ((300, 1.0), (30, 10.0)))
    assert "of the prior, and with less than 80% an answer says little" in flat
    assert "of the time of full BP, more than the 20% that a first answer is worth" in dear


def whole_of(graph):
    compiled = compiled_graph(graph)
    return WholeModel(compiled, full_domains(compiled, {}), sum_out=True)


def chosen(graph):
    return first_choice(whole_of(graph)).choice.way


def test_rounds_are_begun_with_where_they_cost_a_small_part_of_full_bp():
    assert chosen(grid(4, 300, 10.0, 1.0, seed=0)) is Way.ROUNDS
    whole = whole_of(grid(4, 300, 10.0, 1.0, seed=0))
    begin = first_choice(whole)
    expected, held = whole.likely(begin.nats)
    assert 0.8 < held < 1.0
    assert [a.tolist() for a in begin.likely] == [b.tolist() for b in expected]
    assert chosen(grid(4, 300, 1.0, 1.0, seed=0)) is Way.FULL
    whole = whole_of(grid(4, 30, 10.0, 1.0, seed=0))
    sizes = [np.full(16, n) for n in (1, 3, 30)]
    costs = [round_cost(whole, size) for size in sizes]
    assert costs == sorted(costs)
    assert look_cost(whole, sizes[1], sizes[2]) > look_cost(whole, sizes[0], sizes[2]) > 0.0
    assert whole_cost(whole) > costs[1]


def test_first_domains_are_the_largest_that_cost_little_more_than_the_smallest():
    whole = whole_of(grid(4, 300, 10.0, 1.0, seed=0))
    costs = {nats: round_cost(whole, whole.likely(nats)[0][0]) + choice.FIXED_COST for nats in (5.0, 8.0, 12.0, 18.0)}
    assert first_choice(whole).nats == 12.0
    assert costs[12.0] <= choice.MORE * costs[5.0] < costs[18.0]


def joint_extraction(n_entities, n_types, n_relations, deviation):
    """Return entities with a relation for every pair, on one tied table: every relation is a leaf."""
    rng = np.random.default_rng(0)
    graph = abp.FactorGraph()
    pairs = np.array([(a, b) for a in range(n_entities) for b in range(n_entities) if a != b])
    types = graph.add_variables(n_entities, n_types)
    relations = graph.add_variables(len(pairs), n_relations)
    for variables, n in ((types, n_types), (relations, n_relations)):
        scores = rng.normal(0.0, deviation, (len(variables), n))
        graph.add_factors(np.array(variables)[:, None], log_table=scores)
    scopes = np.column_stack([pairs, np.array(relations)])
    graph.add_factors(scopes, log_table=rng.normal(size=(n_types, n_types, n_relations)))
    return graph


def test_leaves_are_summed_out_before_costs_are_compared():
    graph = joint_extraction(12, 30, 40, 6.0)
    assert whole_of(graph).is_leaf.tolist() == [False] * 12 + [True] * 132
    assert chosen(graph) is Way.ROUNDS
    assert chosen(joint_extraction(12, 30, 40, 0.5)) is Way.FULL


@pytest.mark.compiled
def test_decisions_do_not_depend_on_time(monkeypatch):
    graph = grid(4, 120, 8.0, 1.0, seed=0)
    abp.infer(graph, "adaptive", max_updates=100_000)
    expected = abp.infer(graph, "adaptive")
    monkeypatch.setattr("anytimebp.inference.budget.perf_counter", slow_clock())
    result = abp.infer(graph, "adaptive", record="end")
    assert result.seconds > 10.0
    assert bits(result) == bits(expected)
    assert result.updates == expected.updates
    assert result.trace[-1].choice == expected.trace[-1].choice


def slow_clock():
    ticks = iter(range(10**9))
    return lambda: float(next(ticks))
