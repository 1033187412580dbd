"""Measurements of `adaptive`: time until the error stays under a bound, against `bp`; growth of cost with the states.

End to end from a freshly built graph with log tables: layout, exponentiation and reading of marginals included. What is
measured is the run's own clock at the first snapshot from which on all errors are under the bound; distances are
computed outside of it.
"""

import gc
import math
import os
import random
import statistics
import warnings
from pathlib import Path

import models
import numpy as np
from timing import table, verdict

import anytimebp as abp

DATA = Path(os.environ.get("ANYTIMEBP_DATA", Path(__file__).parents[3] / "shared" / "data")) / "models"


def _grid(side, states, unary_sd, pairwise_sd):
    return lambda seed: models.grid(side, side, states, unary_sd, pairwise_sd, seed)


BARS = (
    ("10x10 grid, 100 states, scores 1, 0.5 (flat)", _grid(10, 100, 1.0, 0.5), {1e-4: 1 / 1.15}),
    ("ObjectDetection_24", "ObjectDetection_24", {1e-4: 1 / 1.15}),
    ("alarm", "alarm", {1e-4: 1 / 1.15}),
    ("10x10 grid, 100 states, scores 6, 2", _grid(10, 100, 6.0, 2.0), {1e-4: 1.5, 1e-7: 2.0}),
    ("5x5 grid, 250 states, scores 10, 2", _grid(5, 250, 10.0, 2.0), {1e-2: 6.0, 1e-4: 4.0}),
    ("5x5 grid, 1000 states, scores 10, 2", _grid(5, 1000, 10.0, 2.0), {1e-2: 30.0, 1e-4: 15.0}),
    ("joint extraction, 8 entities", lambda seed: models.joint_extraction(8, seed), {1e-3: 4.0}),
    ("pdb1i24", "pdb1i24", {1e-4: 2.0}),
    ("pdb1k51", "pdb1k51", {1e-4: 2.0}),
)
"""Model, and by error how many times as fast as `bp` it has to be."""


def against_bp(seeds, rounds):
    """Return a table of the time to an error, `bp` against `adaptive`: medians over seeds, or runs of real models."""
    rows = []
    for name, make, bars in BARS:
        graphs = list(_graphs(make, seeds))
        if not graphs:
            rows.append([name, "", "", "", "", "not there"])
            continue
        times = [_times(build, tuple(bars), rounds) for build in graphs]
        for error, bar in bars.items():
            bp, adaptive = (statistics.median(t[error][which] for t in times) for which in (0, 1))
            gain = statistics.median(t[error][2] for t in times)
            met = f"{bar:.2g}: {verdict(met=gain >= bar)}"
            rows.append([name, f"{error:g}", f"{1e3 * bp:.2f}", f"{1e3 * adaptive:.2f}", f"{gain:.2f}", met])
    return table(["model", "L2 error", "`bp`, ms", "`adaptive`, ms", "times faster", "bar"], rows)


def _graphs(make, seeds):
    """Yield functions that build a graph anew: of seeded models on which `bp` settles, or of a real one."""
    if isinstance(make, str):
        path = DATA / f"{make}.uai"
        if path.exists():
            yield _with_log_tables(abp.read_model(path))
        return
    found = seed = 0
    while found < seeds:
        arrays = make(seed)
        seed += 1
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if abp.infer(models.graph_of(arrays), "bp", damping=0.0).damping == 0.0:
                found += 1
                yield lambda arrays=arrays: models.graph_of(arrays)


def _with_log_tables(graph):
    """Return a function that builds a graph anew, factor by factor, with log tables."""
    sizes = [variable.n_states for variable in graph.variables]
    factors = [(graph.factor_scope(index), graph.factor_log_table(index).copy()) for index in range(graph.n_factors)]
    names = [variable.name for variable in graph.variables]

    def build():
        made = abp.FactorGraph()
        for name, n in zip(names, sizes, strict=True):
            made.add_variable(name, n)
        for scope, log_table in factors:
            made.add_factor(scope, log_table=log_table)
        return made

    return build


def _times(build, errors, rounds):
    """Return, by error, the medians of both contenders' seconds and of their ratio within a round."""
    reference = abp.infer(build(), "bp", tolerance=1e-12)
    found = {error: [] for error in errors}
    order = random.Random(0)  # noqa: S311  (no secret)
    for _ in range(rounds):
        seconds = {}
        for method in order.sample(["bp", "adaptive"], 2):
            seconds[method] = seconds_until(build(), method, reference, errors)
            gc.collect()
        for error in errors:
            found[error].append((seconds["bp"][error], seconds["adaptive"][error]))
    return {error: _medians(pairs) for error, pairs in found.items()}


def _medians(pairs):
    bp, adaptive = zip(*pairs, strict=True)
    return statistics.median(bp), statistics.median(adaptive), statistics.median(a / b for a, b in pairs)


def seconds_until(graph, method, reference, errors, **options):
    """Return, by error, the seconds of a run after which the L2 distance to a reference stays under it."""
    seen = []

    def look(snapshot):
        seen.append((snapshot.seconds, snapshot.distance(reference)))

    abp.infer(graph, method, callback=look, **options)
    return {error: _first_under(seen, error) for error in errors}


def _first_under(seen, error):
    """Return the first of the moments from which on all distances are under the error, infinity if there is none."""
    above = [index for index, (_, distance) in enumerate(seen) if not distance < error]
    first = above[-1] + 1 if above else 0
    return seen[first][0] if first < len(seen) else math.inf


def growth_of_cost(seeds, sizes=(250, 500, 1000, 2000, 4000), error=1e-2):
    """Return a table of the cost of `adaptive` to an error on the 5 x 5 peaked grid with rules, and the exponent."""
    rows, seconds = [], []
    for n in sizes:
        runs = [_rule_run(n, seed, error) for seed in range(seeds)]
        spent, scored = (statistics.median(column) for column in zip(*runs, strict=True))
        seconds.append(spent)
        rows.append([f"{n:,}", f"{1e3 * spent:.1f}", f"{scored:,.0f}", f"{scored / (40 * n * n):.2%}"])
    exponent = float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])
    rows.append(["exponent", f"{exponent:.2f}", "", f"at most 1.3: {verdict(met=exponent <= 1.3)}"])
    return table(["states", "ms", "scores asked for", "of all"], rows)


def _rule_run(n_states, seed, error):
    """Return the seconds and the scores asked for until the error, on a grid whose pairwise scores come from rules."""
    graph = _rule_grid(n_states, seed)
    fits = n_states <= 1000
    reference = abp.infer(graph, "bp") if fits else abp.infer(graph, "adaptive", target_error=1e-5)
    seen = []

    def look(snapshot):
        seen.append((snapshot.seconds, snapshot.work_parts["growth"], snapshot.distance(reference)))
        return seen[-1][2] < error / 100

    abp.infer(_rule_grid(n_states, seed), "adaptive", callback=look)
    above = [index for index, (_, _, distance) in enumerate(seen) if not distance < error]
    return seen[above[-1] + 1 if above else 0][:2]


def _rule_grid(n_states, seed):
    """Return a 5 x 5 grid, Normal(0, 10) and Normal(0, 2), whose pairwise scores are hashes of the states."""
    rng = np.random.default_rng(seed)
    graph = abp.FactorGraph()
    graph.add_variables(25, n_states)
    graph.add_factors(np.arange(25)[:, np.newaxis], log_table=rng.normal(0.0, 10.0, (25, n_states)))
    for number, scope in enumerate(models.grid_scopes(5, 5)):
        graph.add_factor(scope.tolist(), rule=_normal_rule(1000 * seed + number, 2.0))
    return graph


def _normal_rule(seed, deviation):
    """Return a rule whose scores are normal, and always the same for the same states."""
    start = np.uint64(seed * int(_GOLDEN) % 2**64)

    def rule(a, b):
        key = (a.astype(np.uint64) << np.uint64(32)) + b.astype(np.uint64) + start
        return deviation * np.sqrt(-2.0 * np.log(_uniform(key))) * np.cos(2.0 * np.pi * _uniform(key ^ _GOLDEN))

    return rule


_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def _uniform(key):
    """Return numbers above 0 and at most 1 that look random, one per key (the finaliser of splitmix64)."""
    key = (key ^ (key >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    key = (key ^ (key >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((key ^ (key >> np.uint64(31))) >> np.uint64(11)).astype(np.float64) * 2.0**-53 + 2.0**-54
