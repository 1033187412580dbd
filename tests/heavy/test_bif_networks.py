"""The Bayesian networks that pgmpy ships as BIF files: read, and inferred, against pyAgrum.

pyAgrum's BIF reader rounds numbers to float32, so tables are compared to that, and inference on the same doubles on
both sides. Its loopy BP (Pearl's messages) takes CPTs to sum to one, so they are made to. Its epsilon bounds a
divergence, which is quadratic in the messages' change: at 1e-12, marginals were off by up to 3e-7. Run until the
divergence no longer falls, at some 1e-16, they are good to its root, 1e-8; most agree with ours to 1e-14.
"""

import gzip
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyagrum as gum
import pytest
from pgmpy.readwrite import BIFReader

import anytimebp as abp

pytestmark = [pytest.mark.heavy, pytest.mark.filterwarnings("ignore")]

FOLDER = Path(find_spec("pgmpy").origin).parent / "utils" / "example_models"
FORESTS = ("cancer", "earthquake")
LOOPY = (
    *("alarm", "andes", "asia", "barley", "diabetes", "hailfinder", "hepar2", "insurance", "link", "mildew", "munin"),
    *("munin1", "munin2", "munin3", "munin4", "pathfinder", "pigs", "sachs", "survey", "water", "win95pts"),
)
NOT_FOR_PYAGRUM = ("child",)  # labels such as <5 and Asy/Patch are syntax errors to its reader
TOO_LONG_WITH_EVIDENCE = {
    "diabetes": "pyAgrum's loopy BP does not settle within 20 s",
    "link": "pyAgrum's loopy BP does not settle within 20 s",
    "munin": "pyAgrum's loopy BP takes 15 s",
    "munin4": "pyAgrum's loopy BP takes 20 s",
    "barley": "pyAgrum's loopy BP takes 9 s",
}
FLOAT32 = 2.0**-23  # relative rounding of pyAgrum's reader, and one bit to spare


def unpack(name, folder):
    path = folder / f"{name}.bif"
    path.write_bytes(gzip.decompress((FOLDER / f"{name}.bif.gz").read_bytes()))
    return path


def load_pyagrum(name, folder):
    return gum.loadBN(str(unpack(name, folder)))


def array_of(cpt, scope):
    axes = list(cpt.names)[::-1]
    return cpt.toarray().transpose([axes.index(name) for name in scope])


def test_all_networks_are_listed():
    assert {*FORESTS, *LOOPY, *NOT_FOR_PYAGRUM} == {
        path.name.removesuffix(".bif.gz") for path in FOLDER.glob("*.bif.gz")
    }


@pytest.mark.parametrize("name", [*FORESTS, *LOOPY])
def test_reading_agrees_with_pyagrum(name, tmp_path):
    network = load_pyagrum(name, tmp_path)
    graph = abp.read_model(unpack(name, tmp_path))
    assert {v.name for v in graph.variables} == set(network.names())
    for variable in graph.variables:
        assert tuple(variable.labels) == tuple(network.variable(variable.name).labels())
    scopes = [graph.factor_scope(k) for k in range(graph.n_factors)]
    assert {frozenset(s) for s in scopes} == {
        frozenset(network.variable(i).name() for i in network.family(n)) for n in network.nodes()
    }
    assert graph.n_factors == network.size()
    for k, scope in enumerate(scopes):
        ours, theirs = np.exp(graph.factor_log_table(k)), array_of(network.cpt(scope[-1]), scope)
        assert np.allclose(ours, theirs, rtol=FLOAT32, atol=1e-38)


@pytest.mark.parametrize("name", ["asia", *NOT_FOR_PYAGRUM])
def test_reading_agrees_with_pgmpy(name, tmp_path):
    path = unpack(name, tmp_path)
    expected = abp.from_pgmpy(BIFReader(str(path)).get_model())
    graph = abp.read_model(path)
    assert {v.name: v.labels for v in graph.variables} == {v.name: v.labels for v in expected.variables}
    tables = {expected.factor_scope(k): expected.factor_log_table(k) for k in range(expected.n_factors)}
    assert graph.n_factors == len(tables)
    for k in range(graph.n_factors):
        assert np.allclose(graph.factor_log_table(k), tables[graph.factor_scope(k)], rtol=1e-14, atol=1e-14)


def with_the_same_numbers(network, folder):
    """Make a network's CPTs sum to one, and return what we read from a BIF file of them."""
    for node in network.nodes():
        values = network.cpt(node).toarray()
        network.cpt(node).fillWith((values / values.sum(axis=-1, keepdims=True)).ravel().tolist())
    path = folder / "same.bif"
    abp.write_model(abp.from_pyagrum(network), path)
    return abp.read_model(path)


def leaves_of_a_sample(network, seed):
    """Return the states of all childless variables in a random joint state, so that they are possible together."""
    rng = np.random.default_rng(seed)
    state = {}
    for node in network.topologicalOrder():
        given = {network.variable(p).name(): state[p] for p in network.parents(node)}
        cpt = network.cpt(node)
        chances = (cpt.extract(given) if given else cpt).toarray()
        state[node] = int(rng.choice(len(chances), p=chances / chances.sum()))
    return {
        network.variable(n).name(): network.variable(n).label(state[n])
        for n in sorted(network.nodes())
        if not network.children(n)
    }


def posteriors(engine, network):
    return {name: engine.posterior(name).toarray() for name in network.names()}


def largest_gap(result, expected):
    return max(float(np.abs(result.marginals[name] - expected[name]).max()) for name in expected)


@pytest.mark.parametrize("observed", [False, True])
@pytest.mark.parametrize("name", FORESTS)
def test_forests_are_exact(name, observed, tmp_path):
    network = load_pyagrum(name, tmp_path)
    graph = with_the_same_numbers(network, tmp_path)
    evidence = leaves_of_a_sample(network, 0) if observed else {}
    exact = gum.LazyPropagation(network)
    exact.setEvidence(evidence)
    exact.makeInference()
    assert graph.summary().is_forest
    assert largest_gap(abp.infer(graph, "bp", evidence=evidence), posteriors(exact, network)) < 1e-12


def loopy_bp(network, evidence):
    """Return the marginals of pyAgrum's loopy BP, run until its divergence no longer falls."""
    engine = gum.LoopyBeliefPropagation(network)
    engine.setEpsilon(1e-300 if evidence else 1e-12)  # without evidence, one pass along the arcs is the fixed point
    engine.setMinEpsilonRate(1e-12)
    engine.setMaxIter(300)
    engine.setMaxTime(200.0)
    engine.setVerbosity(True)
    engine.setEvidence(evidence)
    engine.makeInference()
    assert engine.history()[-1] < 1e-13, engine.messageApproximationScheme()
    return posteriors(engine, network)


@pytest.mark.parametrize("observed", [False, True])
@pytest.mark.parametrize("name", LOOPY)
def test_loopy_networks_have_the_marginals_of_loopy_bp(name, observed, tmp_path):
    if observed and name in TOO_LONG_WITH_EVIDENCE:
        pytest.skip(TOO_LONG_WITH_EVIDENCE[name])
    network = load_pyagrum(name, tmp_path)
    graph = with_the_same_numbers(network, tmp_path)
    evidence = leaves_of_a_sample(network, 0) if observed else {}
    assert not graph.summary().is_forest
    result = abp.infer(graph, "bp", evidence=evidence, tolerance=1e-12)
    assert result.consistent
    assert largest_gap(result, loopy_bp(network, evidence)) < 1e-8


@pytest.mark.parametrize("name", ["alarm", "hepar2", "munin", "win95pts"])
def test_growth_to_the_end_has_the_marginals_of_bp(name, tmp_path):
    graph = abp.read_model(unpack(name, tmp_path))
    expected = abp.infer(graph, "bp", tolerance=1e-10)
    result = abp.infer(graph, "dynamic", record="end")
    assert result.stop_reason is abp.StopReason.CONVERGED
    assert largest_gap(result, expected.marginals) < 1e-6
