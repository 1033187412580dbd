"""The library on the models of the evaluation: what `adaptive` chooses, and how good estimated errors are."""

import warnings

import numpy as np
import pytest

import anytimebp as abp
from anytimebp_evaluation.families import attractive, truncated_linear

FAMILIES = {
    "attractive, 2 states": [
        lambda seed, side=side, coupling=coupling, unary=unary: attractive(side, 2, coupling, unary, seed)
        for side in (10, 20)
        for coupling in (0.2, 0.35, 0.5)
        for unary in (0.3, 1.0)
    ],
    "attractive, 5 to 80 states": [
        lambda seed, states=states, coupling=coupling, unary=unary: attractive(8, states, coupling, unary, seed)
        for states in (5, 20, 80)
        for coupling in (0.3, 0.6, 1.0)
        for unary in (0.3, 1.0, 3.0)
    ],
    "truncated linear": [
        lambda seed, size=size: truncated_linear(*size, seed)
        for size in ((7, 80, 0.5, 1.0), (10, 40, 0.5, 1.0), (7, 40, 0.5, 0.3), (10, 80, 0.5, 3.0), (8, 20, 0.2, 2.0))
    ],
}


def family_ratios(family, method, longest=200):
    """Return estimated over true errors along runs on one kind of model; the truth is where the run itself ends."""
    found = []
    for seed in range(2):
        for make in FAMILIES[family]:
            graph = make(seed)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                end = abp.infer(graph, method, tolerance=1e-11)
            if not end.consistent:
                continue
            for snapshot, _ in zip(abp.Inference(graph, method), range(longest), strict=False):
                true = snapshot.distance(end)
                if true > 1e-8:
                    found.append(snapshot.estimated_error / true)
    return np.array(found)


@pytest.mark.compiled
@pytest.mark.parametrize("method", ["bp", "residual", "adaptive"])
@pytest.mark.parametrize("family", FAMILIES)
def test_estimates_learn_how_slowly_a_run_settles(family, method):
    found = family_ratios(family, method)
    assert len(found) > 100
    assert (found < 1 / 3).mean() <= 0.05
    assert ((found > 0.1) & (found < 10.0)).mean() >= 0.8
