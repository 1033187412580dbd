"""The kernels that set a run up, beside twins that go through the graph's factors one by one."""

import ctypes
import pickle
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import anytimebp as abp
from anytimebp.domains.domains import fold_all, full_domains
from anytimebp.inference.adaptive.whole_model import MANY_TIED, WholeModel
from anytimebp.inference.schedule.sweeps import there_and_back
from anytimebp.kernels.codes import ASKED, LINEAR, LOG, LOG_TABLE, POTENTIALS, SCALED, STRUCTURED, TABLE, WIDE_TABLE
from anytimebp.kernels.readout import sum_bethe_terms
from anytimebp.kernels.setting_up import place_slots, scratch_sizes, start_hubs
from anytimebp.layout.graph_layout import CompiledGraph
from anytimebp.model.evidence import read_evidence_mapping
from anytimebp.slices import at_one_go
from anytimebp.tables.making import make_tables
from anytimebp.tables.memory import factor_entries
from anytimebp.tables.store import Tables
from oracle.examples import examples

INF = np.inf


def random_table(rng, shape, zeros, spread=2.0):
    table = rng.normal(0.0, spread, shape) if spread < 100.0 else rng.uniform(-spread, 0.0, shape)
    if zeros:
        table[rng.random(shape) < 0.3] = -INF
        table[..., 0] = 0.0  # in each of a stack
    return table


def random_graph(rng, *, logs_only, zeros=False, spread=2.0):
    """Return a graph of tied, stacked and single factors of one to four variables, log scores and potentials."""
    graph = abp.FactorGraph()
    n = int(rng.integers(4, 9))
    sizes = rng.integers(1, 5, n)
    for k, size in enumerate(sizes.tolist()):
        graph.add_variable(f"v{k}", size)
    graph.add_variables(3, 3)
    for _ in range(int(rng.integers(0, 12))):
        arity = int(rng.integers(1, 5))
        scope = rng.choice(n, arity, replace=False)
        table = random_table(rng, tuple(sizes[scope]), zeros, spread if rng.random() < 0.5 else 2.0)
        if logs_only or rng.random() < 0.5:
            graph.add_factor(scope.tolist(), log_table=table)
        else:
            shift = rng.choice([0.0, 30.0])  # beyond what is summed as it is
            graph.add_factor(
                scope.tolist(), table=np.where(table > -INF, np.exp(np.maximum(table, -700.0) + shift), 0.0)
            )
    pairs = [[n, n + 1], [n + 1, n + 2], [n + 2, n]]
    graph.add_factors(pairs, log_table=random_table(rng, (3, 3), zeros))
    graph.add_factors(pairs, log_table=random_table(rng, (3, 3, 3), zeros))
    graph.add_factors([[n], [n + 1]], log_table=random_table(rng, (2, 3), zeros))
    if not logs_only:
        graph.add_factor([n, n + 1], rule=lambda a, b: 0.1 * a * b)
        graph.add_factor([n + 2], entries=([[0], [1]], [1.0, 0.5]), default=-1.0)
    return graph


def random_evidence(rng, graph):
    found = {}
    for variable in rng.choice(len(graph.variables), 3, replace=False).tolist():
        n = graph.variables[variable].n_states
        kind = int(rng.integers(3))
        scores = rng.normal(size=n)
        if kind == 0:
            found[variable] = int(rng.integers(n))
        elif kind == 1:
            found[variable] = set(rng.choice(n, int(rng.integers(1, n + 1)), replace=False).tolist())
        else:
            scores[: n - 1][rng.random(n - 1) < 0.5] = -INF
            found[variable] = scores
    return read_evidence_mapping(found, graph.variables)


def drain(steps):
    for _ in steps:
        pass


def factors(graph):
    """Return scope, block and place in it of every factor."""
    return [(row.tolist(), block, k) for block in graph.blocks for k, row in enumerate(block.scopes)]


@given(seed=st.integers(0, 2**32))
@settings(max_examples=examples(60), deadline=None)
def test_the_layout_is_that_of_the_factors_one_by_one(seed):
    graph = random_graph(np.random.default_rng(seed), logs_only=False, zeros=seed % 2 == 1)
    compiled = CompiledGraph(graph, in_slices=True)
    drain(compiled.lay_out(at_once=1 + seed % 7))
    layout = compiled.arrays
    messages = [found for found in factors(graph) if len(found[0]) > 1]
    edges = [(f, i) for f, (scope, _, _) in enumerate(messages) for i in scope]
    assert layout.factor_edge_start.tolist() == [0, *np.cumsum([len(scope) for scope, _, _ in messages]).tolist()]
    assert layout.edge_variable.tolist() == [i for _, i in edges]
    assert layout.edge_factor.tolist() == [f for f, _ in edges]
    for variable in range(len(graph.variables)):
        assert compiled.edges_of(variable) == [e for e, (_, i) in enumerate(edges) if i == variable]
    for factor, (_, block, k) in enumerate(messages):
        table = block.log_values(k, [np.arange(n) for n in block.source.shape], graph.variables)
        found = [column[factor] for column in compiled.extent]
        if block.source.is_rule:
            assert np.isnan(found[:2]).all()
            assert not found[2]
        else:
            finite = table[table > -INF]
            np.testing.assert_allclose(found[:2], [finite.max(), finite.min()], rtol=1e-15)
            assert found[2] == (len(finite) < table.size)
    used = {i for scope, _, _ in factors(graph) for i in scope}
    alone = [i for i in range(len(graph.variables)) if i not in used and graph.variables[i].n_states > 1]
    assert compiled.unconnected.tolist() == alone


@given(seed=st.integers(0, 2**32))
@settings(max_examples=examples(60), deadline=None)
def test_priors_are_sums_of_unary_factors_and_evidence(seed):
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, logs_only=False)
    observed = random_evidence(rng, graph) if seed % 3 else {}
    unary = {0: rng.normal(size=graph.variables[0].n_states)} if seed % 2 else {}
    domains = full_domains(CompiledGraph(graph), observed, unary)
    in_slices = at_one_go(fold_all(CompiledGraph(graph, in_slices=True), observed, unary, at_once=1 + seed % 5))
    for whole, made in zip(domains, in_slices, strict=True):
        assert np.array_equal(whole, made)
    for index, variable in enumerate(graph.variables):
        prior = np.zeros(variable.n_states)
        for scope, block, k in factors(graph):
            if scope == [index]:
                prior += block.log_values(k, [np.arange(variable.n_states)], graph.variables)
        prior = unary.get(index, prior)
        states, scores = observed.get(index, (None, None))
        prior = prior if states is None else prior[states]
        prior = prior + (0.0 if scores is None else scores)
        start, end = domains.slot_start[index], domains.slot_start[index + 1]
        np.testing.assert_allclose(domains.log_prior[start:end], prior - prior.max(), atol=1e-12)
        np.testing.assert_allclose(domains.log_prior_scale[index], prior.max(), atol=1e-12)
        np.testing.assert_allclose(domains.log_prior_min[index], np.ptp(prior[prior > -INF]) * -1.0, atol=1e-12)


def numbers_at(address, size):
    return np.ctypeslib.as_array((ctypes.c_double * size).from_address(int(address)))


def scaled_twin(table):
    """Return a log table as linear numbers scaled per state, axis after axis, and then the logs of the scales."""
    scales = []
    for axis in range(table.ndim):
        if table.shape[axis] > 1:
            peak = table.max(axis=tuple(k for k in range(table.ndim) if k != axis), keepdims=True)
            peak = np.where(peak > -INF, peak, 0.0)
            table = table - peak
            scales.append(peak.ravel())
    return np.exp(table).ravel(), np.concatenate([np.empty(0), *scales])


@given(seed=st.integers(0, 2**32), arithmetic=st.sampled_from([LINEAR, LOG]))
@example(seed=215009, arithmetic=LOG)  # the log of a scale is 0, or 1e-16
@settings(max_examples=examples(200), deadline=None)
def test_dense_tables_are_made_and_cut_as_the_evidence_says(seed, arithmetic):
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, logs_only=seed % 5 == 0, zeros=seed % 3 == 1, spread=rng.choice([2.0, 400.0, 1000.0]))
    observed = random_evidence(rng, graph) if seed % 2 else {}
    compiled = CompiledGraph(graph)
    try:
        domains = full_domains(compiled, observed)
    except abp.InconsistentModelError:  # hard zeros leave a variable without states
        return
    n_factors = len(compiled.extent.log_max)
    tables = Tables(compiled.extent, arithmetic, np.full(n_factors, TABLE))
    expected, messages = [], [found for found in factors(graph) if len(found[0]) > 1]
    for scope, block, k in messages:
        table = block.log_values(k, [domains.states_of(i) for i in scope], graph.variables)
        expected.append(np.ascontiguousarray(table))
    if any(table.max() == -INF for table in expected):
        with pytest.raises(abp.InconsistentModelError, match="is zero on all the states that are allowed"):
            drain(make_tables(compiled, domains, tables))
        return
    drain(make_tables(compiled, domains, tables))
    for factor, table in enumerate(expected):
        made, finite = numbers_at(tables.address[factor], table.size), table[table > -INF]
        is_wide = np.ptp(finite) > 600.0
        assert tables.has_zero[factor] == (len(finite) < table.size)
        if tables.in_logs[factor]:
            assert arithmetic == LOG
            np.testing.assert_allclose(made + tables.log_scale[factor], table.ravel(), atol=1e-12)
            if messages[factor][1].source.tables is not None:
                linear, log_scales = scaled_twin(table - tables.log_scale[factor])
                scaled = numbers_at(tables.scaled[factor], len(linear) + len(log_scales))
                np.testing.assert_allclose(scaled[: len(linear)], linear, rtol=1e-11, atol=1e-300)
                np.testing.assert_allclose(scaled[len(linear) :], log_scales, atol=1e-12)
            continue
        assert tables.scaled[factor] == 0
        assert arithmetic == LINEAR or not is_wide
        with np.errstate(under="ignore"):
            np.testing.assert_allclose(made, np.exp(table - tables.log_scale[factor]).ravel(), rtol=1e-12, atol=1e-307)
        scale = tables.log_scale[factor]
        assert scale == pytest.approx(finite.max(), rel=1e-12, abs=1e-12) or (scale == 0.0 and finite.max() < 10.0)
        np.testing.assert_allclose(tables.log_min[factor], finite.min() - scale, rtol=1e-12, atol=1e-12)
    tied = [f for f, (_, block, _) in enumerate(messages) if len(block.scopes) > block.source.n_members]
    assert len(tied) == 3
    if not observed:
        assert len(set(tables.address[tied].tolist())) == 1


@given(sizes=st.lists(st.lists(st.integers(1, 5), min_size=2, max_size=5), max_size=5), kinds=st.integers(0, 31))
def test_scratch_is_as_large_as_the_largest_factor_needs(sizes, kinds):
    start = np.array([0, *np.cumsum([len(own) for own in sizes])], dtype=np.int64)
    kind = np.array([kinds >> k & 1 for k in range(len(sizes))], dtype=np.int64)
    found = scratch_sizes(start, np.array([n for own in sizes for n in own], dtype=np.int64), kind)
    levels = [
        sum(int(np.prod(own[: axis + 1])) for axis in range(len(own) - 1)) * (code == TABLE)
        for own, code in zip(sizes, kind, strict=True)
    ]
    most = (max(map(sum, sizes), default=0), max(levels, default=0), max(map(len, sizes), default=0))
    assert tuple(map(int, found)) == most


@given(seed=st.integers(0, 10_000))
def test_every_edge_has_the_slots_of_its_variable_and_hubs_are_numbered(seed):
    rng = np.random.default_rng(seed)
    n, n_edges = int(rng.integers(1, 6)), int(rng.integers(0, 20))
    room, variable = rng.integers(1, 9, n), rng.integers(0, n, n_edges)
    degree = np.bincount(variable, minlength=n)
    start, capacity, hub = (np.empty(size, dtype=np.int64) for size in (n_edges, n_edges, n))
    edge_start = np.array([0, *np.cumsum(degree)])
    state, given = np.zeros(4, dtype=np.int64), (edge_start, variable, room, 3, start, capacity, hub)
    while not place_slots(*given, state, 1 + seed % 4):
        pass
    assert capacity.tolist() == [room[i] for i in variable]
    assert start.tolist() == [sum(capacity[:k]) for k in range(n_edges)]
    assert state.tolist() == [n_edges, n, sum(capacity), sum(degree > 3)]
    hubs = [i for i in range(n) if degree[i] > 3]
    assert hub.tolist() == [hubs.index(i) if i in hubs else -1 for i in range(n)]


@given(seed=st.integers(0, 10_000))
def test_bethe_terms_are_summed_in_either_arithmetic(seed):
    rng = np.random.default_rng(seed)
    arity = rng.integers(2, 5, rng.integers(1, 5))
    start = np.array([0, *np.cumsum(arity)])
    log_total, log_scale, normaliser = rng.normal(size=len(arity)), rng.normal(size=start[-1]), rng.normal(size=3)
    expected = sum((1 - k) * z for k, z in zip(arity, log_total, strict=True)) + sum(log_scale) + sum(normaliser)
    assert sum_bethe_terms(start, LOG, log_total, log_scale, normaliser) == pytest.approx(expected, abs=1e-12)
    linear = sum_bethe_terms(start, LINEAR, np.exp(log_total), np.exp(log_scale), normaliser)
    assert linear == pytest.approx(expected, abs=1e-12)
    assert sum_bethe_terms(start, LINEAR, np.zeros(len(arity)), np.exp(log_scale), normaliser) == INF


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=examples(50), deadline=None)
def test_sweeps_go_by_last_and_first_variables_and_back(seed):
    compiled = CompiledGraph(random_graph(np.random.default_rng(seed), logs_only=True))
    start, variable = compiled.arrays.factor_edge_start.tolist(), compiled.arrays.edge_variable.tolist()
    scopes = [variable[begin:end] for begin, end in pairwise(start)]
    there, back = there_and_back(compiled.arrays).tolist()
    assert there == sorted(range(len(scopes)), key=lambda factor: (max(scopes[factor]), min(scopes[factor])))
    assert back == there[::-1]
    sizes = compiled.universe_sizes
    assert factor_entries(compiled.arrays, sizes).tolist() == [np.prod(sizes[scope]) for scope in scopes]


def test_a_pickled_graph_and_a_copy_find_their_own_tables():
    graph = random_graph(np.random.default_rng(5), logs_only=True)
    expected = abp.infer(graph, "bp").marginals.concatenated()
    twin = pickle.loads(pickle.dumps(graph))
    del graph
    np.testing.assert_array_equal(abp.infer(twin, "bp").marginals.concatenated(), expected)


def test_what_is_added_to_a_graph_after_a_run_is_not_in_its_result():
    graph = abp.FactorGraph()
    graph.add_variable("a", 2)
    graph.add_factor(["a"], log_table=[0.0, 1.0])
    result = abp.infer(graph, "bp")
    graph.add_variable("b", 3)
    assert list(result.marginals) == ["a"]
    assert [variable.name for variable in graph.variables] == ["a", "b"]
    assert graph.variables.sizes().tolist() == [2, 3]


# ---------------------------------------------------------------- rounds on active states
def kind_of(block):
    """Return what the source of a block's factors is, but for ranges that need logs."""
    tables = block.source.tables
    if tables is None:
        return ASKED if block.source.sums is None else STRUCTURED
    if not tables.is_log:
        return POTENTIALS
    return SCALED if tables.n_members == 1 and len(block.scopes) >= MANY_TIED else LOG_TABLE


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(0, 10_000), st.booleans(), st.sampled_from([2.0, 700.0]))
def test_sources_are_what_blocks_say(seed, zeros, spread):
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, logs_only=False, zeros=zeros, spread=spread)
    last = [[len(graph.variables) - 1, len(graph.variables) - 2]]
    graph.add_factors(last * MANY_TIED, log_table=random_table(rng, (3, 3), zeros))
    compiled = CompiledGraph(graph)
    whole = WholeModel(compiled, full_domains(compiled, {}), sum_out=True)
    kinds, wide, log_entries = whole.sources.kind.tolist(), [], 0
    for first, block in compiled.message_blocks:
        tables, kind = block.source.tables, kind_of(block)
        log_entries += tables.values.size if tables is not None and tables.is_log else 0
        for k in range(len(block.scopes)):
            factor, own, address = first + k, kind, 0
            if tables is not None:
                member = 0 if tables.n_members == 1 else k
                if tables.range.log_max[member] - tables.range.log_min[member] > 600.0:
                    own = WIDE_TABLE if tables.is_log else ASKED
                address = 0 if own == ASKED else tables.values[member].ctypes.data
            assert kinds[factor] == own
            assert whole.sources.address[factor] == address
            wide += [factor] if own == WIDE_TABLE else []
    assert whole.wide == wide
    assert whole.asked == [factor for factor, kind in enumerate(kinds) if kind in {ASKED, STRUCTURED}]
    assert whole.n_structures == kinds.count(STRUCTURED)
    assert whole.log_entries == log_entries


@given(st.integers(0, 10_000))
def test_totals_of_hubs_start_with_their_priors(seed):
    rng = np.random.default_rng(seed)
    size = rng.integers(1, 5, 6)
    slot_start = np.r_[0, np.cumsum(size + 1)]  # with room behind each domain
    log_prior = np.where(rng.random(slot_start[-1]) < 0.3, -INF, rng.normal(size=slot_start[-1]))
    hubs = np.flatnonzero(rng.random(6) < 0.5)
    hub_start = np.cumsum(size[hubs]) - size[hubs]
    high, zeros = np.zeros(size[hubs].sum()), np.zeros(size[hubs].sum(), dtype=np.int64)
    start_hubs(hubs, hub_start, slot_start, size, log_prior, high, zeros)
    prior = [log_prior[slot_start[v] + k] for v in hubs for k in range(size[v])]
    assert high.tolist() == [p if p > -INF else 0.0 for p in prior]
    assert zeros.tolist() == [int(p == -INF) for p in prior]
