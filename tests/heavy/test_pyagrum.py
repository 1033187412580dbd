"""Models of pyAgrum against pyAgrum's own exact inference."""

import numpy as np
import pyagrum as gum
import pytest

import anytimebp as abp

pytestmark = [pytest.mark.heavy, pytest.mark.filterwarnings("ignore")]

TREES = [
    "A{x|y|z}->C[1,4]<-B{u|v};C->D[0.5,1.5,2.5]",
    "a[5]->b[3]->c[4];b->d[2];e[3]->f[2]",
    "a[2]->d[3]<-b[4];c[5]->d->e[2]",
]


def make(text, seed=3):
    gum.initRandom(seed)
    return gum.fastBN(text)


@pytest.mark.parametrize("text", TREES)
def test_trees_have_the_marginals_of_lazy_propagation(text):
    network = make(text)
    graph = abp.from_pyagrum(network)
    last = graph.variables[-1]
    for evidence in ({}, {last.name: last.labels[1]}):
        exact = gum.LazyPropagation(network)
        exact.setEvidence(evidence)
        exact.makeInference()
        result = abp.infer(graph, "bp", evidence=evidence)
        for variable in graph.variables:
            assert variable.labels == tuple(network.variable(variable.name).labels())
            assert np.abs(result.marginals[variable.name] - exact.posterior(variable.name).toarray()).max() < 1e-10


def read_one_by_one(tensor, scope):
    """Return a tensor's numbers by asking for each joint state, with no notion of the order of axes."""
    shape = [tensor.variable(name).domainSize() for name in scope]
    table = np.empty(shape)
    for states in np.ndindex(*shape):
        table[states] = tensor[dict(zip(scope, map(int, states), strict=True))]
    return table


@pytest.mark.parametrize("text", TREES)
def test_a_cpt_becomes_a_factor_with_the_child_last_and_the_same_bits(text):
    network = make(text)
    graph = abp.from_pyagrum(network)
    assert [v.name for v in graph.variables] == [network.variable(i).name() for i in sorted(network.nodes())]
    for k, variable in enumerate(graph.variables):
        cpt = network.cpt(variable.name)
        assert graph.factor_scope(k) == (*cpt.names[1:], variable.name)
        source = graph.locate(k)[0].source
        assert not source.is_log
        assert np.array_equal(source.values[0], read_one_by_one(cpt, graph.factor_scope(k)))


def test_changing_the_network_afterwards_changes_nothing():
    network = make("a[2]->b[2]")
    graph = abp.from_pyagrum(network)
    before = graph.factor_log_table(0)
    network.cpt("a").fillWith([0.5, 0.5])
    assert np.array_equal(graph.factor_log_table(0), before)


def test_markov_random_fields_keep_factors_and_bits():
    gum.initRandom(5)
    field = gum.fastMRF("A{x|y|z}--B{u|v}--C[4];C--D[2]")
    graph = abp.from_pyagrum(field)
    assert [v.name for v in graph.variables] == ["A", "B", "C", "D"]
    assert {frozenset(graph.factor_scope(k)) for k in range(graph.n_factors)} == {
        frozenset(field.variable(i).name() for i in nodes) for nodes in field.factors()
    }
    for k in range(graph.n_factors):
        scope = graph.factor_scope(k)
        assert np.array_equal(graph.locate(k)[0].source.values[0], read_one_by_one(field.factor(set(scope)), scope))
    exact = gum.ShaferShenoyMRFInference(field)
    exact.makeInference()
    result = abp.infer(graph, "bp")
    for name in "ABCD":
        assert np.abs(result.marginals[name] - exact.posterior(name).toarray()).max() < 1e-10


def unfilled():
    network = gum.BayesNet()
    network.add(gum.LabelizedVariable("z", "z", 2))
    return network


REFUSED = {
    "type": (lambda: [1], "takes a BayesNet or a MarkovRandomField of pyAgrum, got list"),
    "influence diagram": (lambda: gum.fastID("A->$U<-*D"), "got InfluenceDiagram"),
    "credal": (lambda: gum.CredalNet(make("a->b")), "got CredalNet"),
    "inference": (lambda: gum.LazyPropagation(make("a->b")), "got LazyPropagation"),
    "unfilled": (unfilled, "CPT of variable 'z' is zero everywhere"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_other_models_are_refused(case):
    model, said = REFUSED[case]
    with pytest.raises(abp.ModelError, match=said):
        abp.from_pyagrum(model())
