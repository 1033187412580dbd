"""Tables over active states."""

import numpy as np
import pytest

import anytimebp as abp
from anytimebp.domains.domains import full_domains
from anytimebp.inference.adaptive.active_model import ActiveModel, ImpossibleRoundError
from anytimebp.inference.adaptive.whole_model import WholeModel
from anytimebp.layout.graph_layout import compiled_graph


def cut_down(graph, is_active):
    """Return a model of some states, and the graph."""
    compiled = compiled_graph(graph)
    whole = WholeModel(compiled, full_domains(compiled, {}), sum_out=True)
    whole.locate()
    return ActiveModel(whole, whole.listed(is_active)), compiled


def ring(seed, stated, sizes, zeros):
    """Return a ring of pairs, and a factor of three variables in the middle of it."""
    rng = np.random.default_rng(seed)
    graph = abp.FactorGraph()
    variables = [graph.add_variable(f"v{k}", n) for k, n in enumerate(sizes)]
    for k in range(len(sizes)):
        scope = [variables[k], variables[(k + 1) % len(sizes)]]
        scores = rng.normal(0.0, 2.0, [sizes[k], sizes[(k + 1) % len(sizes)]])
        scores[rng.random(scores.shape) < zeros] = -np.inf
        graph.add_factor(scope, **{stated: np.exp(scores) if stated == "table" else scores})
        if k == 1:
            graph.add_factor(variables[:3], log_table=rng.normal(size=sizes[:3]))
    return graph


@pytest.mark.parametrize("stated", ["log_table", "table"])
@pytest.mark.parametrize("share", [0.02, 0.3, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_tables_hold_the_potentials_of_the_active_states(stated, share, seed):
    rng = np.random.default_rng(seed)
    sizes = [40, 3, 7, 70, 1, 90]
    is_active = rng.random(sum(sizes)) < share
    is_active[np.cumsum([0, *sizes[:-1]])] = True
    model, compiled = cut_down(ring(seed, stated, sizes, zeros=0.1), is_active)
    for _ in model.fill():
        pass
    arrays, log_scale = model.arrays, model.workspace.tables.log_scale
    for factor in range(len(sizes) + 1):
        scores = compiled.log_values(factor, model.states_of(factor)) - log_scale[factor]
        table = model._pool[model._table_start[factor] : model._table_start[factor + 1]].reshape(scores.shape)
        np.testing.assert_allclose(table, np.exp(scores), rtol=1e-12)
        assert arrays.table_has_zero[factor] == (scores == -np.inf).any()
        assert arrays.table_min[factor] == table[table > 0.0].min()


def test_a_pair_without_a_possible_joint_state_is_named():
    graph = abp.FactorGraph()
    graph.add_variables(3, 50)
    tables = np.zeros((3, 50, 50))
    tables[1, :20, :20] = -np.inf
    graph.add_factors([[0, 1], [1, 2], [2, 0]], log_table=tables)
    is_active = np.tile(np.arange(50) < 20, 3)
    with pytest.raises(ImpossibleRoundError) as found:
        list(cut_down(graph, is_active)[0].fill())
    assert found.value.factors == [1]
