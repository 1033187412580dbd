"""Models of pgmpy against pgmpy's own exact inference."""

import numpy as np
import pytest
from pgmpy.factors.continuous import LinearGaussianCPD
from pgmpy.factors.discrete import DiscreteFactor, TabularCPD
from pgmpy.inference import VariableElimination
from pgmpy.models import (
    DiscreteBayesianNetwork,
    DiscreteMarkovNetwork,
    DynamicBayesianNetwork,
    FactorGraph,
    LinearGaussianBayesianNetwork,
    MarkovChain,
)

import anytimebp as abp

pytestmark = [pytest.mark.heavy, pytest.mark.filterwarnings("ignore")]


def random_cpd(rng, states, child, parents):
    """Return a CPD over universes of different sizes, with state names."""
    sizes = [len(states[parent]) for parent in parents]
    values = rng.dirichlet(np.ones(len(states[child])), int(np.prod(sizes))).T
    names = {v: states[v] for v in [child, *parents]}
    return TabularCPD(child, len(states[child]), values, parents or None, sizes or None, names)


def polytree(seed, n=12):
    """Return a Bayesian network without loops whose nodes have up to three parents."""
    rng = np.random.default_rng(seed)
    states = {f"n{i}": [f"n{i}_{k}" for k in range(rng.integers(2, 5))] for i in range(n)}
    parents = {node: [] for node in states}
    for i in range(1, n):
        old = f"n{rng.integers(i)}"
        child, parent = (f"n{i}", old) if rng.random() < 0.4 or len(parents[old]) > 2 else (old, f"n{i}")
        parents[child].append(parent)
    model = DiscreteBayesianNetwork()
    model.add_nodes_from(states)
    model.add_edges_from((parent, child) for child in states for parent in parents[child])
    model.add_cpds(*(random_cpd(rng, states, child, parents[child]) for child in states))
    assert model.check_model()
    return model


def assert_same_marginals(graph, model, evidence=None):
    result = abp.infer(graph, "bp", evidence=evidence)
    exact = VariableElimination(model)
    for variable in graph.variables:
        if variable.name not in (evidence or {}):
            found = exact.query([variable.name], evidence, show_progress=False)
            assert list(variable.labels) == found.state_names[variable.name]
            assert np.abs(result.marginals[variable.name] - found.values).max() < 1e-10


@pytest.mark.parametrize("seed", range(5))
def test_trees_have_the_marginals_of_variable_elimination(seed):
    model = polytree(seed)
    graph = abp.from_pgmpy(model)
    assert [v.name for v in graph.variables] == list(model.nodes())
    assert_same_marginals(graph, model)
    assert_same_marginals(graph, model, {"n3": "n3_1", "n7": "n7_0"})


@pytest.mark.parametrize("seed", range(3))
def test_a_cpd_becomes_a_factor_with_the_child_last_and_the_same_bits(seed):
    model = polytree(seed)
    graph = abp.from_pgmpy(model)
    for k, node in enumerate(model.nodes()):
        cpd = model.get_cpds(node)
        assert graph.factor_scope(k) == (*cpd.variables[1:], node)
        source = graph.locate(k)[0].source
        assert not source.is_log
        assert np.array_equal(source.values[0], np.moveaxis(cpd.values, 0, -1))
        assert not np.shares_memory(source.values, cpd.values)


def test_markov_networks_factor_graphs_and_junction_trees_say_the_same():
    network = polytree(1, n=7)
    markov = network.to_markov_model()
    joined = network.to_junction_tree()
    exact = VariableElimination(network)
    for model in (markov, markov.to_factor_graph(), joined):
        graph = abp.from_pgmpy(model)
        assert {v.name for v in graph.variables} == set(network.nodes())
        joint = [graph.factor_log_table(k) for k in range(graph.n_factors)]
        axes = {v.name: v.index for v in graph.variables}
        operands = [x for k, t in enumerate(joint) for x in (np.exp(t), [axes[n] for n in graph.factor_scope(k)])]
        for variable in graph.variables:
            found = exact.query([variable.name], show_progress=False)
            assert list(variable.labels) == found.state_names[variable.name]
            assert np.allclose(np.einsum(*operands, [variable.index]), found.values, atol=1e-12)


def test_factors_keep_the_order_of_their_axes_and_factor_nodes_are_no_variables():
    factor = DiscreteFactor(["b", "a"], [2, 3], np.arange(6.0) + 1, {"b": ["u", "v"], "a": ["x", "y", "z"]})
    model = FactorGraph()
    model.add_nodes_from(["a", "b"])
    model.add_factors(factor)
    model.add_node(factor)
    model.add_edges_from([("a", factor), ("b", factor)])
    graph = abp.from_pgmpy(model)
    assert [(v.name, v.labels) for v in graph.variables] == [("a", ("x", "y", "z")), ("b", ("u", "v"))]
    assert graph.factor_scope(0) == ("b", "a")
    assert np.array_equal(graph.locate(0)[0].source.values[0], factor.values)


def test_names_win_over_the_numbers_that_pgmpy_makes_up():
    model = DiscreteMarkovNetwork([("a", "b"), ("b", "c")])
    model.add_factors(DiscreteFactor(["a", "b"], [2, 2], [1, 2, 3, 4]))
    model.add_factors(DiscreteFactor(["b", "c"], [2, 2], [1, 2, 3, 4], {"b": ["u", "v"], "c": ["x", "y"]}))
    assert [list(v.labels) for v in abp.from_pgmpy(model).variables] == [[0, 1], ["u", "v"], ["x", "y"]]


def test_nodes_that_are_not_text_get_names():
    model = DiscreteBayesianNetwork([(1, (2, 3))])
    model.add_cpds(TabularCPD(1, 2, [[0.2], [0.8]]), TabularCPD((2, 3), 2, [[0.1, 0.2], [0.9, 0.8]], [1], [2]))
    assert [v.name for v in abp.from_pgmpy(model).variables] == ["1", "(2, 3)"]


# -------------------------------------------------------------------- what is refused
def network(*cpds):
    model = DiscreteBayesianNetwork([("a", "c")])
    model.add_cpds(*cpds)
    return model


def gaussian():
    model = LinearGaussianBayesianNetwork([("x", "y")])
    model.add_cpds(LinearGaussianCPD("x", [1], 4), LinearGaussianCPD("y", [1, 2], 4, ["x"]))
    return model


def same_name():
    model = DiscreteBayesianNetwork([(1, "1")])
    model.add_cpds(TabularCPD(1, 2, [[0.2], [0.8]]), TabularCPD("1", 2, [[0.2, 0.3], [0.8, 0.7]], [1], [2]))
    return model


def markov(*factors):
    model = DiscreteMarkovNetwork([("a", "b"), ("b", "c")])
    model.add_factors(*factors)
    return model


def orphan():
    model = FactorGraph()
    model.add_nodes_from(["a", "lonely"])
    model.add_factors(DiscreteFactor(["a"], [2], [1, 2]))
    return model


A = TabularCPD("a", 2, [[0.2], [0.8]], state_names={"a": ["u", "v"]})
PAIR = [[0.2, 0.3], [0.8, 0.7]]
AB = DiscreteFactor(["a", "b"], [2, 2], [1, 2, 3, 4])
REFUSED = {
    "type": (lambda: 5, "takes a Bayesian or Markov network.*got int"),
    "chain": (lambda: MarkovChain(["a"], [2]), "got MarkovChain"),
    "template": (DynamicBayesianNetwork, "DynamicBayesianNetwork is a template"),
    "gaussian": (gaussian, "CPD of variable 'x' is a LinearGaussianCPD"),
    "no cpd": (lambda: network(A), "no CPD is given for variable 'c'"),
    "parents": (lambda: network(A, TabularCPD("c", 2, [[0.2], [0.8]])), "'c' has the parents .., the network .'a'."),
    "counts": (
        lambda: network(A, TabularCPD("c", 2, [[0.2] * 3, [0.8] * 3], ["a"], [3])),
        "variable 'a' has 2 states in one factor, 3",
    ),
    "order of states": (
        lambda: network(A, TabularCPD("c", 2, PAIR, ["a"], [2], {"a": ["v", "u"], "c": [0, 1]})),
        "variable 'a' has the states .'u', 'v'. in one factor, .'v', 'u'.",
    ),
    "same name": (same_name, "nodes 1 and '1' would both become"),
    "no factor": (lambda: markov(AB), "no factor says how many states 'c' has"),
    "lonely": (orphan, "no factor says how many states 'lonely' has"),
    "nan": (
        lambda: markov(AB, DiscreteFactor(["b", "c"], [2, 2], [1, np.nan, 3, 4])),
        r"\(b, c\) holds nan at \(0, 1\)",
    ),
    "negative": (lambda: markov(AB, DiscreteFactor(["b", "c"], [2, 2], [1, 2, 3, -4])), r"\(b, c\) holds -4"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_discrete_model_is_refused_by_name(case):
    make, said = REFUSED[case]
    with pytest.raises(abp.ModelError, match=said):
        abp.from_pgmpy(make())
