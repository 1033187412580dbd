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
    for graph, reference in models(3 if method == "dynamic" else 8):
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


def lattice(side, states, unary, log_table, seed):
    """A grid with random unary scores and one table for all pairs of neighbours."""
    rng = np.random.default_rng(seed)
    graph = abp.FactorGraph()
    graph.add_variables(side * side, states)
    graph.add_factors(np.arange(side * side)[:, None], log_table=rng.normal(0, unary, (side * side, states)))
    cells = np.arange(side * side).reshape(side, side)
    across = np.stack([cells[:, :-1].ravel(), cells[:, 1:].ravel()], axis=1)
    down = np.stack([cells[:-1].ravel(), cells[1:].ravel()], axis=1)
    graph.add_factors(np.concatenate([across, down]), log_table=log_table)
    return graph


def attractive(side, states, coupling, unary, seed):
    return lattice(side, states, unary, coupling * (2.0 * np.eye(states) - 1.0), seed)


def truncated_linear(side, states, slope, unary, seed):
    gap = np.abs(np.subtract.outer(np.arange(states), np.arange(states)))
    return lattice(side, states, unary, -slope * np.minimum(gap, 5), seed)


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
