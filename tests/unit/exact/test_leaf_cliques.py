from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import anytimebp as abp
from oracle.enumeration import exact
from oracle.examples import examples
from oracle.leafy_models import leafy_graph


@pytest.mark.parametrize("order", [*permutations(range(4))])
@pytest.mark.parametrize("observed", [None, 1, 2])
def test_a_leaf_may_have_any_axis_of_its_factor(order, observed):
    sizes, rng = (5, 3, 2, 4), np.random.default_rng(0)
    graph = abp.FactorGraph()
    for v, n in enumerate(sizes):
        graph.add_variable(f"v{v}", n)
    graph.add_factor([order[0]], log_table=rng.normal(size=sizes[order[0]]))
    table = np.where(rng.random([sizes[v] for v in order]) < 0.2, -np.inf, rng.normal(size=[sizes[v] for v in order]))
    graph.add_factor(list(order), log_table=table)
    for pair in ([1, 2], [2, 3], [1, 3]):  # but for v0, all are in a loop
        graph.add_factor(pair, log_table=rng.normal(size=[sizes[v] for v in pair]))
    seen = {} if observed is None else {observed: 1}
    scores = {v: np.where(np.arange(sizes[v]) == state, 0.0, -np.inf) for v, state in seen.items()}
    marginals, log_z = exact(graph, scores)
    found = abp.infer(graph, "exact", evidence=seen)
    assert found.log_z == pytest.approx(log_z, abs=1e-11)
    for v in range(4):
        np.testing.assert_allclose(found.marginals[v], marginals[v], atol=1e-13)


@settings(max_examples=examples(25), deadline=None)
@given(seed=st.integers(0, 10**6), kinds=st.sampled_from(["zeros", "tied", "all"]), observed=st.booleans())
def test_leaves_without_tables_have_the_marginals_of_leaves_with_tables(seed, kinds, observed):
    graph, evidence = leafy_graph(seed, kinds, observed=observed)
    try:
        whole = abp.infer(graph, "exact", evidence=evidence, factor_marginals=True)
    except abp.InconsistentModelError:
        with pytest.raises(abp.InconsistentModelError):
            abp.infer(graph, "exact", evidence=evidence)
        return
    found = abp.infer(graph, "exact", evidence=evidence)
    np.testing.assert_allclose(found.marginals.concatenated(), whole.marginals.concatenated(), atol=1e-12)
    assert found.log_z == pytest.approx(whole.log_z, abs=1e-10)
    assert found.work <= whole.work
