"""What lists and structures sum to, against going through every joint state."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import anytimebp as abp
from anytimebp.kernels.codes import TABLE
from anytimebp.layout.graph_layout import compiled_graph
from anytimebp.model import source
from anytimebp.model.kinds.listed import ListedSource
from anytimebp.tables.memory import factor_kinds
from anytimebp.tables.store import Tables
from oracle.enumeration import exact
from oracle.examples import examples

INF = np.inf


@pytest.fixture(params=["linear", "log"])
def sums(request, monkeypatch):
    """Use structures however small the tables are, and sum as the library would choose, or by logs whatever it is."""
    monkeypatch.setattr(source, "LIST_GAIN", 0.0)
    if request.param == "log":
        from anytimebp.inference import all_states  # noqa: PLC0415
        from anytimebp.kernels.codes import LOG  # noqa: PLC0415

        monkeypatch.setattr(all_states, "first_arithmetic", lambda *_: LOG)
        monkeypatch.setattr(Tables, "_must_be_logs", lambda _, has_zero, __: np.full(len(has_zero), fill_value=True))
    return request.param


def star(sizes, how, priors, scope=None):
    """Return a graph of one factor, and of unary ones where there are log scores for them."""
    graph = abp.FactorGraph()
    for index, n in enumerate(sizes):
        graph.add_variable(f"v{index}", n)
        if priors is not None:
            graph.add_factor([index], log_table=priors[index])
    graph.add_factor(range(len(sizes)) if scope is None else scope, **how)
    return graph


def assert_exact(graph, allowed=None, **options):
    """Check marginals to their last digits but some, however small they are, and log Z."""
    scores = {
        index: np.where(np.isin(np.arange(graph.variables[index].n_states), list(states)), 0.0, -INF)
        for index, states in (allowed or {}).items()
    }
    evidence = {graph.variables.name(index): set(states) for index, states in (allowed or {}).items()}
    with np.errstate(invalid="ignore"):
        expected, log_z = exact(graph, scores)
    if not np.isfinite(log_z):
        with pytest.raises(abp.InconsistentModelError):
            abp.infer(graph, "bp", evidence=evidence, **options)
        return None
    compiled = compiled_graph(graph)
    assert (factor_kinds(compiled, compiled.universe_sizes) != TABLE).any()
    found = abp.infer(graph, "bp", evidence=evidence, **options)
    for index, marginal in enumerate(expected):
        given = found.marginals[graph.variables.name(index)]
        seen = marginal > 1e-280  # the twin is linear
        np.testing.assert_allclose(given[seen], marginal[seen], rtol=1e-9)
        assert (given[~seen] < 1e-270).all()
    assert found.log_z == pytest.approx(log_z, rel=1e-12, abs=1e-9)
    return found


def random_list(rng, sizes, default, scale):
    """Return entries at random joint states, some of them impossible."""
    total = int(np.prod(sizes))
    positions = rng.choice(total, size=rng.integers(1, total + 1), replace=False)
    scores = rng.normal(0.0, scale, len(positions))
    scores[rng.random(len(positions)) < 0.2] = -INF
    scores[0] = 0.5
    return {"entries": (np.column_stack(np.unravel_index(positions, sizes)), scores), "default": default}


def random_difference(rng, default, scale):
    kernel = rng.normal(0.0, scale, rng.integers(1, 9))
    kernel[rng.random(len(kernel)) < 0.2] = -INF
    return {"structure": abp.Difference(kernel, first=int(rng.integers(-6, 5)), default=default)}


@st.composite
def stars(draw):
    """One factor of any kind on variables of any sizes, with scores from flat to beyond floats."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    kind = draw(st.sampled_from(["list", "difference", "at most one", "equality", "function"]))
    pair = kind == "difference"
    sizes = draw(st.lists(st.integers(1, 6), min_size=2, max_size=2 if pair else 4))
    default = draw(st.sampled_from([-INF, -800.0, -5.0, 0.0, 0.6, 5.0]))
    scale = draw(st.sampled_from([0.0, 1.0, 30.0, 500.0]))
    if kind == "equality":
        sizes = [sizes[0]] * len(sizes)
        how = {"structure": abp.Equality(rng.normal(0.0, scale, sizes[0]), default)}
    elif kind == "function":
        how = {"structure": abp.Deterministic(lambda *given: (sum(given) * 7 + 3) % sizes[-1], 0.5, default)}
    elif kind == "at most one":
        how = {"structure": abp.AtMostOne([int(rng.integers(n)) for n in sizes])}
    else:
        how = random_difference(rng, default, scale) if pair else random_list(rng, sizes, default, scale)
    spread = draw(st.sampled_from([0.0, 1.0, 30.0, 400.0]))
    priors = [rng.normal(0.0, spread, n) for n in sizes]
    scope = draw(st.permutations(range(len(sizes)))) if len(set(sizes)) == 1 else list(range(len(sizes)))
    observed = draw(st.sets(st.integers(0, len(sizes) - 1), max_size=2))
    allowed = {k: draw(st.sets(st.integers(0, sizes[k] - 1), min_size=1)) for k in observed}
    return sizes, how, priors, scope, allowed


@given(stars())
@settings(max_examples=examples(60))
@pytest.mark.usefixtures("sums")
def test_sums_are_those_over_all_joint_states(drawn):
    sizes, how, priors, scope, allowed = drawn
    try:
        graph = star(sizes, how, priors, scope)
    except abp.InconsistentModelError:  # zero everywhere
        return
    assert_exact(graph, allowed)


@pytest.mark.parametrize("sizes", [(5, 1), (1, 5), (1, 1), (4, 1, 3), (1, 3, 1, 4), (3, 3, 3, 3)])
@pytest.mark.parametrize("default", [-INF, -5.0, 0.0, 5.0])
@pytest.mark.usefixtures("sums")
def test_lists_of_every_arity_sum_rightly(sizes, default):
    rng = np.random.default_rng(len(sizes))
    for _ in range(3):
        assert_exact(star(sizes, random_list(rng, sizes, default, 2.0), [rng.normal(0.0, 3.0, n) for n in sizes]))


@pytest.mark.parametrize(
    "allowed", [{0: [3]}, {1: [2]}, {0: [7], 1: [6]}, {0: [0, 2, 7], 1: [1, 4, 5]}, {1: [3, 4, 5]}]
)
@pytest.mark.parametrize("default", [-INF, -1.0, 3.0])
@pytest.mark.usefixtures("sums")
def test_differences_over_what_evidence_leaves(allowed, default):
    rng = np.random.default_rng(1)
    how = {"structure": abp.Difference(rng.normal(0.0, 1.0, 5), first=-1, default=default)}
    assert_exact(star((8, 8), how, rng.normal(0.0, 1.0, (2, 8))), allowed)


@pytest.mark.parametrize("arity", [2, 3, 4, 9])
@pytest.mark.usefixtures("sums")
def test_at_most_one_with_a_variable_that_is_always_on(arity):
    """The others are then off."""
    graph = star((1, *[2] * (arity - 1)), {"structure": abp.AtMostOne([0, *[1] * (arity - 1)])}, None)
    result = assert_exact(graph)
    assert all(result.marginals[f"v{k}"].tolist() == [1.0, 0.0] for k in range(1, arity))
    with pytest.raises(abp.InconsistentModelError):
        abp.infer(graph, "bp", evidence={"v1": 1})


@pytest.mark.usefixtures("sums")
def test_at_most_one_without_the_state():
    """Evidence may leave no variable its state: then nothing is forbidden."""
    priors = np.random.default_rng(0).normal(size=(3, 3))
    graph = star((3, 3, 3), {"structure": abp.AtMostOne(1)}, priors)
    assert_exact(graph, {k: [0, 2] for k in range(3)})
    assert_exact(graph, {0: [0, 2], 1: [1]})


@pytest.mark.parametrize("same", [4.0, -4.0, -INF])
@pytest.mark.usefixtures("sums")
def test_a_hub_of_twenty_equalities(same):
    n, rng = 7, np.random.default_rng(0)
    scores = rng.normal(0.0, 2.0, (21, n))
    graph = abp.FactorGraph()
    graph.add_variables(21, n)
    graph.add_factors(np.arange(21)[:, np.newaxis], log_table=scores)
    graph.add_factors([[0, k] if k % 2 else [k, 0] for k in range(1, 21)], structure=abp.Equality(same, default=0.0))
    table = np.exp(np.where(np.eye(n) > 0, same, 0.0))
    weight = np.exp(scores)
    hub = weight[0] * np.prod(weight[1:] @ table, axis=0)
    result = abp.infer(graph, "bp", tolerance=1e-12)
    np.testing.assert_allclose(result.marginals["x0"], hub / hub.sum(), rtol=1e-9)
    leaf = (hub / (table @ weight[5])) @ table * weight[5]
    np.testing.assert_allclose(result.marginals["x5"], leaf / leaf.sum(), rtol=1e-9)
    assert result.log_z == pytest.approx(np.log(hub.sum()), abs=1e-9)


@pytest.mark.usefixtures("sums")
def test_a_list_that_covers_the_likely_state_of_the_other():
    """Nearly all of what is listed is taken away from the default, for every state at once."""
    n, rng = 30, np.random.default_rng(0)
    wall = np.column_stack([np.arange(n), np.full(n, 4)])
    more = np.column_stack([np.arange(n), rng.permutation(n)])
    entries = np.unique(np.vstack([wall, more]), axis=0)
    priors = rng.normal(0.0, 1.0, (2, n))
    priors[1, 4] = 35.0
    scores = np.where(entries[:, 1] == 4, -60.0, -1.0)
    assert_exact(star((n, n), {"entries": (entries, scores), "default": 0.0}, priors))
    assert_exact(star((n, n), {"entries": (entries[:, ::-1], scores), "default": 0.0}, priors[::-1]))


# ---------------------------------------------------------------- loops
def loops(n):
    """Return a loop of structures with a large table in it, and the same with tables only."""
    rng = np.random.default_rng(5)
    parts = [
        ([0, 1], {"structure": abp.Equality(2.0, default=0.0)}),
        ([1, 2], {"structure": abp.Difference(rng.normal(size=5), default=-2.0)}),
        ([2, 3], {"structure": abp.Deterministic(lambda a: a // 2, 1.0, default=-3.0)}),
        ([3, 0, 1], {"structure": abp.AtMostOne([0, 1, 2])}),
    ]
    scores, table = rng.normal(0.0, 1.0, (4, n)), rng.normal(0.0, 0.5, (n, n))
    graphs = []
    for dense in (False, True):
        graph = abp.FactorGraph()
        graph.add_variables(4, n)
        graph.add_factors(np.arange(4)[:, np.newaxis], log_table=scores)
        graph.add_factor([0, 2], log_table=table)
        for scope, how in parts:
            whole = star([n] * len(scope), how, None).factor_log_table(0) if dense else None
            graph.add_factor(scope, **({"log_table": whole} if dense else how))
        graphs.append(graph)
    return graphs


@pytest.mark.parametrize("method", ["residual", "bp"])
@pytest.mark.usefixtures("sums")
def test_loops_have_the_fixed_point_of_their_tables(method):
    graph, dense = loops(6)
    found, expected = (abp.infer(each, method, tolerance=1e-11) for each in (graph, dense))
    assert found.stop_reason is abp.StopReason.CONVERGED
    for name in expected.marginals:
        np.testing.assert_allclose(found.marginals[name], expected.marginals[name], atol=1e-9)
    assert found.log_z == pytest.approx(expected.log_z, abs=1e-8)


# ---------------------------------------------------------------- lists cut to some states
@given(seed=st.integers(0, 2**32), data=st.data())
@settings(max_examples=examples(60))
def test_inside_finds_the_entries_on_a_product_of_states(seed, data):
    rng = np.random.default_rng(seed)
    sizes = tuple(data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=4)))
    states = [
        np.array(data.draw(st.lists(st.integers(0, n - 1), unique=True, max_size=n)), dtype=np.int64) for n in sizes
    ]
    total = int(np.prod(sizes))
    positions = rng.choice(total, size=rng.integers(0, total + 1), replace=False)
    indices = np.column_stack(np.unravel_index(positions, sizes)).astype(np.int64).reshape(-1, len(sizes))
    source = ListedSource(sizes, indices, rng.normal(size=len(positions)), -1.0)
    entries, found = source.inside(states)
    expected = {
        row: tuple(states[axis].tolist().index(state) for axis, state in enumerate(entry))
        for row, entry in enumerate(indices.tolist())
        if all(state in states[axis] for axis, state in enumerate(entry))
    }
    assert len(entries) == len(set(entries.tolist()))
    assert {row: tuple(int(p[k]) for p in found) for k, row in enumerate(entries.tolist())} == expected
    table = np.full(sizes, -1.0)
    table[tuple(indices.T)] = source.log_scores
    assert (source.log_values(0, states) == table[np.ix_(*states)]).all()
