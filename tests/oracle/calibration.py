"""Estimated errors against true ones, over models on which BP settles."""

import warnings

import numpy as np

import anytimebp as abp
from oracle.models import grid, hub, joint_extraction, peaked, random_loopy, random_tree

SMALL = {
    "grid": lambda seed: grid(3, 5, 3.0, 0.5, seed),
    "peaked": peaked,
    "zeros": lambda seed: random_loopy(seed, unary=2.0, zeros=0.1),
    "hub": lambda seed: hub(seed, states=3),
    "tree": lambda seed: random_tree(seed, max_states=5, n_factors=4),
    "wide": lambda seed: random_loopy(seed, unary=500.0),
}


def models(seeds):
    """Give models, with what BP says of them, on which it settles."""
    for seed in range(seeds):
        for graph in (
            grid(4, 12, 4.0, 1.0, seed),
            grid(4, 12, 1.0, 0.5, seed),
            grid(3, 30, 6.0, 1.0, seed),
            joint_extraction(seed),
        ):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", abp.NotConvergedWarning)
                reference = abp.infer(graph, "bp", tolerance=1e-12)
            if reference.consistent:
                yield graph, reference


def ratios(method):
    """Return estimated over true errors, of all snapshots whose error is above what tolerances leave."""
    found = []
    for graph, reference in models(3 if method == "dynamic" else 10):
        for snapshot in abp.Inference(graph, method, record=abp.Every(rounds=10) if method == "dynamic" else "round"):
            true = snapshot.distance(reference)
            if true > 1e-7:
                found.append(snapshot.estimated_error / true)
    return np.array(found)


def check_targets(method, target, least):
    early = 0
    for graph, reference in models(3 if method == "dynamic" else 5):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            result = abp.infer(graph, method, target_error=target)
        assert result.estimated_error <= target
        assert result.distance(reference) <= 3 * target
        assert result.stop_reason in {abp.StopReason.TARGET_REACHED, abp.StopReason.CONVERGED}
        early += result.stop_reason is abp.StopReason.TARGET_REACHED
    assert early >= least
