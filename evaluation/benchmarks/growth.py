"""Measurements of the methods on sparse domains: work and time against `bp`, rounds on large graphs, budgets."""

import statistics
import warnings
from time import perf_counter

import models
import numpy as np
from timing import interleaved, milliseconds, ratio, table, verdict

import anytimebp as abp

SCORES = ((10.0, 0.5), (10.0, 1.0))
BARS = {
    ("fixed", 1): (25, 12),
    ("fixed", 25): (60, 35),
}


def work_until(graph, reference, method, error, **options):
    """Return the parts of the work until the L2 error is under a bound, as of the recorded moments."""
    found = {}

    def is_close(snapshot):
        close = snapshot.distance(reference) < error
        found.update(snapshot.work_parts if close else {})
        return close

    abp.infer(graph, method, callback=is_close, **options)
    return found


def work(seeds):
    """Return a table of the work to L2 < 1e-4 on the 5 x 5 grid with 250 states, as parts of that of `bp`."""
    rows = []
    for which, (unary, pairwise) in enumerate(SCORES):
        for method, grow in (("fixed", 1), ("fixed", 25), ("dynamic", 1), ("dynamic", 25)):
            for tolerance in (1e-4, 1e-6):
                parts = [_parts(unary, pairwise, seed, method, grow, tolerance) for seed in range(seeds)]
                messages, growing, everything = (statistics.median(column) for column in zip(*parts, strict=True))
                bar = BARS.get((method, grow), (None, None))[which]
                met = "" if bar is None else f"1/{bar}: {verdict(met=growing >= bar)}"
                if method == "dynamic":
                    met = f"all 1/2: {verdict(met=everything >= 2)}"
                rows.append(
                    [
                        f"{unary:g}, {pairwise:g}",
                        method,
                        grow,
                        f"{tolerance:g}",
                        f"1/{messages:.0f}",
                        f"1/{growing:.0f}",
                        f"1/{everything:.1f}",
                        met,
                    ]
                )
    header = ["scores", "method", "grow", "tolerance", "messages", "without priorities", "all", "bar"]
    return table(header, rows)


def _parts(unary, pairwise, seed, method, grow, tolerance):
    """Return how many times the work of `bp` is that of a method: messages, all but one-off priorities, all."""
    graph = models.graph_of(models.grid(5, 5, 250, unary, pairwise, seed))
    reference = abp.infer(graph, "bp", tolerance=1e-12)
    full = sum(work_until(graph, reference, "bp", 1e-4).values())
    parts = work_until(graph, reference, method, 1e-4, tolerance=tolerance, grow=grow)
    everything = sum(parts.values())
    return full / parts["messages"], full / (everything - parts["priorities"]), full / everything


def one_by_one(rounds):
    """Return a table of times of one state at a time, all the way, on the 10 x 10 grid with 100 states."""
    graph = models.graph_of(models.grid(10, 10, 100, 10.0, 1.0, 0))

    def run(method, tolerance):
        graph.compiled = None
        return abp.infer(graph, method, tolerance=tolerance, record="end")

    contenders = {
        "bp": lambda: run("bp", 1e-8),
        "fixed": lambda: run("fixed", 1e-6),
        "dynamic": lambda: run("dynamic", 1e-6),
    }
    seconds = interleaved(contenders, rounds)
    rows = [["bp", milliseconds(seconds["bp"]), "1", ""]]
    for method, bar in (("fixed", 60), ("dynamic", 120)):
        times = ratio(seconds[method], seconds["bp"])
        rows.append([method, milliseconds(seconds[method]), f"{times:.0f}", f"{bar}: {verdict(met=times <= bar)}"])
    return table(["method", "ms", "times `bp`", "bar"], rows)


def large_graphs():
    """Return a table of the time of a growth round on a small and on a large grid of the same kind."""
    rows = []
    for method in ("fixed", "dynamic"):
        small, large = (_round_cost(side, method) for side in (10, 316))
        cells = [f"{1e6 * seconds:.0f} us, {updates:.0f} updates" for seconds, updates in (small, large)]
        each = (large[0] / large[1]) / (small[0] / small[1])
        rows.append([method, *cells, f"{each:.2f}"])
    return table(["method", "100 variables", "99,856 variables", "time of an update, ratio"], rows)


def _round_cost(side, method, count=100):
    """Return the seconds and updates of a growth round, from the time at which every domain has two states or so."""
    graph = models.tied_grid(side, side, 10, seed=0)
    start = 2 * side * side
    inference = abp.Inference(graph, method, record=abp.Every(states=start), tolerance=1e-6, grow=1)
    next(inference)
    inference._recorder._every = abp.Every(states=count)  # noqa: SLF001  (from here on, in short steps)
    before = next(inference)
    costs = []
    for _ in range(3):
        after = next(inference)
        costs.append(((after.seconds - before.seconds) / count, (after.updates - before.updates) / count))
        before = after
    return min(costs)


def budgets():
    """Return a table of how far time budgets are overrun on a graph with 256 MB of tables."""
    rng = np.random.default_rng(0)
    model = models.Arrays(
        rng.normal(0.0, 3.0, (33, 1000)),
        np.stack([np.arange(32), np.arange(1, 33)], axis=1),
        rng.normal(0.0, 0.5, (32, 1000, 1000)),
    )
    graph, rows = models.graph_of(model), []
    for method in ("truncated", "random", "fixed", "dynamic"):
        abp.infer(models.small_graph(0), method, rng=0)  # loads the compiled kernels
        worst = []
        for budget in (0.01, 0.05, 0.2):
            overruns = []
            for _ in range(5):
                graph.compiled = None
                started = perf_counter()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", abp.NotConvergedWarning)
                    abp.infer(graph, method, seconds=budget, rng=0)
                overruns.append(perf_counter() - started - budget)
            worst.append(f"{1e3 * max(overruns):.0f}")
        rows.append([method, *worst])
    return table(["method", "budget 10 ms", "50 ms", "200 ms"], rows)
