"""`exact` against pyAgrum's LazyPropagation on the Bayesian networks that pgmpy ships, with random evidence.

Both sides read pyAgrum's own numbers: its BIF reader rounds to float32. Its engine takes CPTs to sum to one, so they
are made to.
"""

import gzip
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pyagrum as gum
import pytest

import anytimebp as abp

pytestmark = [pytest.mark.heavy, pytest.mark.filterwarnings("ignore")]

FOLDER = Path(find_spec("pgmpy").origin).parent / "utils" / "example_models"
QUICK = (
    *("alarm", "andes", "asia", "barley", "cancer", "earthquake", "hailfinder", "hepar2", "insurance", "mildew"),
    *("pathfinder", "pigs", "sachs", "survey", "water", "win95pts"),
)
SLOW = {"diabetes": 20, "munin": 1, "munin1": 2, "munin2": 3, "munin3": 3, "munin4": 2}
"""Evidence sets of networks on which either side takes seconds or minutes. On `link`, pyAgrum needs more than 20 GB."""


def load(name, folder):
    path = folder / f"{name}.bif"
    path.write_bytes(gzip.decompress((FOLDER / f"{name}.bif.gz").read_bytes()))
    network = gum.loadBN(str(path))
    for node in network.nodes():
        network.cpt(node).normalizeAsCPT()
    return network


def draw_evidence(network, rng):
    """Return evidence that a joint state drawn from the network agrees with, on up to five variables."""
    drawn = {}
    for node in network.topologicalOrder():
        cpt = network.cpt(node)
        row = cpt.extract({network.variable(p).name(): drawn[p] for p in network.parents(node)}).toarray()
        drawn[node] = int(rng.choice(len(row), p=row / row.sum()))
    chosen = rng.choice(sorted(network.nodes()), size=min(int(rng.integers(0, 6)), network.size()), replace=False)
    return {network.variable(int(node)).name(): drawn[int(node)] for node in chosen}


@pytest.mark.parametrize(("name", "sets"), [*((name, 20) for name in QUICK), *SLOW.items()])
def test_marginals_and_log_z_are_those_of_lazy_propagation(name, sets, tmp_path):
    network, rng = load(name, tmp_path), np.random.default_rng(3)
    graph = abp.from_pyagrum(network)
    for _ in range(sets):
        given = draw_evidence(network, rng)
        theirs = gum.LazyPropagation(network)
        theirs.setEvidence(given)
        theirs.makeInference()
        evidence = {v: graph.variables[graph.variables.index_of(v)].labels[k] for v, k in given.items()}
        ours = abp.infer(graph, "exact", evidence=evidence)
        assert ours.exact
        for variable in network.names():
            expected = theirs.posterior(variable).toarray()
            assert np.abs(ours.marginals[variable] - expected).max() < 1e-10, variable
        assert ours.log_z == pytest.approx(np.log(theirs.evidenceProbability()), abs=1e-9)
