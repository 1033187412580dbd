"""Many variables over many places, and broad unary scores: `adaptive` beside states drawn by hand.

Each variable is at one of 20,000 places that are scattered over a map of 100 x 100 cells. Its unary scores are a
Gaussian about where it was seen, 8 cells wide: some thousand places are likely. Distances to its neighbours were
measured within half a cell. `adaptive` gets all places, 30 seconds and 2 GB; by hand, 300 places a variable are drawn
by their unary scores, and `bp` solves what is left. Prints the mean distance of the most probable place to the true
one, in cells.

    python evaluation/benchmarks/places.py --seeds 3
"""

import argparse
import resource
import time
from typing import NamedTuple

import numpy as np

import anytimebp as abp

SIDE = 100.0  # of the map, in cells
SEEN = 8.0  # standard deviation of where a variable was seen, in cells
MEASURED = 0.5  # the same of a distance
OUTLIERS = 1e-3  # weight of a distance that means nothing
NEIGHBOURS = 3  # others, the nearest ones, to which each variable's distance was measured


class Task(NamedTuple):
    """Variables on a map.

    Attributes:
        places: (states, 2) where the states are.
        truth: (variables,) the true state of each.
        unary: (variables, states) log scores.
        pairs: (pairs, 2) variables whose distance was measured.
        distance: (pairs,) the measured ones.
    """

    places: np.ndarray
    truth: np.ndarray
    unary: np.ndarray
    pairs: np.ndarray
    distance: np.ndarray


def make_task(seed, variables, states):
    """Return a random task."""
    rng = np.random.default_rng(seed)
    places = rng.uniform(0.0, SIDE, (states, 2))
    truth = rng.integers(0, states, variables)
    seen = places[truth] + rng.normal(0.0, SEEN, (variables, 2))
    unary = -0.5 * ((places[None, :, :] - seen[:, None, :]) ** 2).sum(axis=2) / SEEN**2
    apart = np.linalg.norm(places[truth][:, None] - places[truth][None], axis=2)
    np.fill_diagonal(apart, np.inf)
    near = np.argsort(apart, axis=1)[:, :NEIGHBOURS]
    pairs = np.unique([sorted((i, int(j))) for i in range(variables) for j in near[i]], axis=0)
    noise = rng.normal(0.0, MEASURED, len(pairs))
    return Task(places, truth, unary, pairs, np.abs(apart[pairs[:, 0], pairs[:, 1]] + noise))


def distance_rule(first, second, measured):
    """Return the log scores of a measured distance, by the places that states of two variables stand for."""

    def rule(a, b):
        miss = np.hypot(first[a, 0] - second[b, 0], first[a, 1] - second[b, 1]) - measured
        return np.log((1.0 - OUTLIERS) * np.exp(-0.5 * (miss / MEASURED) ** 2) + OUTLIERS)

    return rule


def whole_graph(task):
    """Return the model over all places."""
    graph = abp.FactorGraph()
    graph.add_variables(len(task.truth), len(task.places))
    graph.add_factors(np.arange(len(task.truth))[:, None], log_table=task.unary)
    for (i, j), measured in zip(task.pairs.tolist(), task.distance, strict=True):
        graph.add_factor([i, j], rule=distance_rule(task.places, task.places, measured))
    return graph


def drawn_graph(task, states, seed):
    """Return the model over some places of each variable, drawn by its unary scores, and which they are."""
    rng = np.random.default_rng(seed)
    share = np.exp(task.unary - task.unary.max(axis=1, keepdims=True))
    share /= share.sum(axis=1, keepdims=True)
    chosen = np.array([rng.choice(len(own), states, replace=False, p=own) for own in share])
    graph = abp.FactorGraph()
    graph.add_variables(len(chosen), states)
    graph.add_factors(np.arange(len(chosen))[:, None], log_table=np.take_along_axis(task.unary, chosen, axis=1))
    for (i, j), measured in zip(task.pairs.tolist(), task.distance, strict=True):
        rule = distance_rule(task.places[chosen[i]], task.places[chosen[j]], measured)
        graph.add_factor([i, j], rule=rule)
    return graph, chosen


def miss(task, best):
    """Return the mean distance of places to the true ones."""
    return float(np.linalg.norm(task.places[best] - task.places[task.truth], axis=1).mean())


def main():
    """Print a line for each run."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--variables", type=int, default=200)
    parser.add_argument("--states", type=int, default=20_000)
    parser.add_argument("--drawn", type=int, default=300)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--memory", type=int, default=2 * 10**9)
    parser.add_argument("--seeds", type=int, default=1)
    asked = parser.parse_args()
    for seed in range(asked.seeds):
        task = make_task(seed, asked.variables, asked.states)
        alone = miss(task, task.unary.argmax(axis=1))
        print(f"seed {seed}: {len(task.pairs)} distances; by unary scores alone {alone:.2f} cells")
        graph, chosen = drawn_graph(task, asked.drawn, seed)
        start = time.perf_counter()
        result = abp.infer(graph, "bp", seconds=asked.seconds)
        best = chosen[np.arange(len(chosen)), [result.marginals[i].argmax() for i in range(len(chosen))]]
        seconds = time.perf_counter() - start
        print(f"  drawn: {miss(task, best):.2f} cells, {seconds:.1f} s, {result.stop_reason.name}")
        start = time.perf_counter()
        result = abp.infer(whole_graph(task), "adaptive", seconds=asked.seconds, max_memory=asked.memory)
        best = np.array([result.marginals[i].argmax() for i in range(len(chosen))])
        seconds = time.perf_counter() - start
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
        print(
            f"  adaptive: {miss(task, best):.2f} cells, {seconds:.1f} s, {result.stop_reason.name}, "
            f"domains of {result.domain_sizes.mean():.0f} states, peak {peak:.2f} GB; {result.trace[-1].choice}"
        )


if __name__ == "__main__":
    main()
