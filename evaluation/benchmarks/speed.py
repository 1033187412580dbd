"""What runs in this process: end to end against the baselines, bandwidth, many small graphs, hubs."""

import statistics
import warnings
from time import perf_counter

import bare_loop
import models
import numpy as np
import numpy_bp
from timing import interleaved, milliseconds, ratio, table, verdict

import anytimebp as abp

GRIDS = [(10, 10, 100), (5, 5, 250)]
UNARY_SD = [1.0, 3.0]
SETTLING_SEED = 2  # BP settles undamped on 6 of the joint-extraction graphs 0 to 7, damped on 3, and not at all on 1
TOLERANCE = 1e-10
BARE_BAR, NUMPY_BAR, LOGS_BAR, BANDWIDTH_BAR, SMALL_BAR = 1.15, 1.3, 1.0, 0.5, 1.0


def grid_name(rows, cols, states):
    """Return the name of a grid in tables."""
    return f"{rows}x{cols}, {states} states"


# ---------------------------------------------------------------- end to end
def end_to_end(rounds=30):
    """Return the table of `bp` against the bare loop and against flooding in NumPy."""
    rows = [
        _compare(grid_name(*size), sd, models.grid(*size, sd, 1.0, seed=1), bare_loop.pairwise, rounds)
        for size in GRIDS
        for sd in UNARY_SD
    ]
    rows.append(_compare("8 entities", 8.0, models.joint_extraction(8, SETTLING_SEED), bare_loop.ternary, rounds))
    header = ["model", "unary sd", "sweeps: bp / bare / NumPy", "bp", "bare loop", "bare loop, NumPy's exp", "NumPy"]
    return table([*header, "bp / bare loop", f"<= {BARE_BAR}", "NumPy / bp", f">= {NUMPY_BAR}"], rows)


def _compare(name, unary_sd, model, bare, rounds):
    graph = models.graph_of(model)
    contenders = {
        "bp": lambda: _from_built_graph(graph),
        "bare": lambda: bare(model, TOLERANCE, bare_loop.quick_exp),
        "bare, NumPy's exp": lambda: bare(model, TOLERANCE),
    }
    if bare is bare_loop.pairwise:
        contenders["numpy"] = lambda: numpy_bp.flooding(model, TOLERANCE)
    sweeps = _check_agreement(graph, contenders)
    seconds = interleaved(contenders, rounds)
    to_bare = ratio(seconds["bp"], seconds["bare"])
    cells = [name, f"{unary_sd:g}", sweeps, *(milliseconds(seconds[k]) for k in contenders)]
    cells += ["-"] * (7 - len(cells)) + [f"{to_bare:.2f}", verdict(met=to_bare <= BARE_BAR)]
    if "numpy" not in seconds:
        return [*cells, "-", "-"]
    from_numpy = ratio(seconds["numpy"], seconds["bp"])
    return [*cells, f"{from_numpy:.1f}", verdict(met=from_numpy >= NUMPY_BAR)]


def _from_built_graph(graph):
    """Run `bp` with everything that a first run on a graph includes, and read all marginals."""
    graph.compiled = None
    result = abp.infer(graph, "bp", tolerance=TOLERANCE)
    return [result.marginals[k] for k in range(len(result.marginals))]


def _check_agreement(graph, contenders):
    """Check that all contenders find the same marginals; return the sweeps that `bp` and the others took."""
    result = abp.infer(graph, "bp", tolerance=TOLERANCE)
    found = {name: call() for name, call in contenders.items() if name != "bp"}
    for name, (marginals, _) in found.items():
        for k in range(len(result.marginals)):
            mine = result.marginals[k]
            np.testing.assert_allclose(marginals[k, : len(mine)], mine, rtol=0, atol=1e-8, err_msg=name)
    return " / ".join(str(n) for n in (len(result.trace), *(found[k][1] for k in ("bare", "numpy") if k in found)))


# ---------------------------------------------------------------- logs
def logs(rounds=30):
    """Return the table of `bp` in log arithmetic against flooding in NumPy, in logs as well."""
    cases = {
        "10x10, 60 states": models.wide_grid(10, 10, 60, seed=1),
        "150 pairs of 60, 21 states": models.wide_pairs(60, 150, 21, seed=1),
        "165 pairs of 60, 11 states": models.wide_pairs(60, 165, 11, seed=1),
    }
    rows = []
    for name, model in cases.items():
        graph = models.graph_of(model)
        contenders = {
            "bp": lambda graph=graph: _from_built_graph(graph),
            "numpy": lambda model=model: numpy_bp.log_flooding(model, TOLERANCE),
        }
        marginals, sweeps = contenders["numpy"]()
        result = abp.infer(graph, "bp", tolerance=TOLERANCE)
        for k in range(len(result.marginals)):
            np.testing.assert_allclose(marginals[k], result.marginals[k], rtol=0, atol=1e-8, err_msg=name)
        seconds = interleaved(contenders, rounds)
        faster = ratio(seconds["numpy"], seconds["bp"])
        cells = [name, result.arithmetic, f"{len(result.trace)} / {sweeps}", *map(milliseconds, seconds.values())]
        rows.append([*cells, f"{faster:.1f}", verdict(met=faster >= LOGS_BAR)])
    header = ["model", "arithmetic", "sweeps: bp / NumPy", "bp", "NumPy", "NumPy / bp", f">= {LOGS_BAR:g}"]
    return table(header, rows)


# ---------------------------------------------------------------- bandwidth
def bandwidth(rounds=30):
    """Return the table of the speed at which a sweep of `bp` reads its tables, against NumPy's sum of them."""
    cases = {grid_name(*size): models.grid(*size, 3.0, 1.0, seed=2) for size in GRIDS}
    cases["8 entities"] = models.joint_extraction(8, SETTLING_SEED)
    rows = [_bandwidth_row(name, model, rounds) for name, model in cases.items()]
    header = ["model", "tables, MB", "bp, GB/s", "NumPy's sum, GB/s", "share", f">= {BANDWIDTH_BAR:.0%}"]
    return table(header, rows)


def _bandwidth_row(name, model, rounds):
    graph = models.graph_of(model)
    sweep, total, share = [], [], []
    for _ in range(rounds):
        sweeps = np.diff(abp.infer(graph, "bp", tolerance=1e-12).trace.column("seconds"))[1:-1]
        sums = _sum_seconds(model.tables, len(sweeps) + 2)[2:]
        sweep.append(np.median(sweeps))
        total.append(np.median(sums))
        share.append(total[-1] / sweep[-1])
    size, middle = model.tables.nbytes, statistics.median(share)
    speeds = [f"{size / statistics.median(seconds) / 1e9:.1f}" for seconds in (sweep, total)]
    return [name, f"{size / 1e6:.1f}", *speeds, f"{middle:.0%}", verdict(met=middle >= BANDWIDTH_BAR)]


def _sum_seconds(tables, times):
    """Return the seconds of each of several sums over the same array, one after the other as sweeps are."""
    seconds = []
    for _ in range(times):
        started = perf_counter()
        tables.sum()
        seconds.append(perf_counter() - started)
    return seconds


# ---------------------------------------------------------------- many small graphs
def small_graphs(count):
    """Return the table of the time that small graphs take, from a built graph to marginals."""
    graphs = [models.small_graph(seed) for seed in range(count)]
    rows = []
    for method in ("bp", "residual"):
        _seconds(graphs[0], method)  # loads the compiled kernels
        seconds = [_seconds(graph, method) for graph in graphs]
        mean = 1e3 * statistics.fmean(seconds)
        middle = 1e3 * statistics.median(seconds)
        rows.append([method, f"{count:,}", f"{mean:.2f}", f"{middle:.2f}", verdict(met=mean < SMALL_BAR)])
    return table(["method", "graphs", "mean, ms", "median, ms", f"mean < {SMALL_BAR:g} ms"], rows)


def _seconds(graph, method):
    graph.compiled = None
    started = perf_counter()
    result = abp.infer(graph, method)
    for k in range(len(result.marginals)):
        _ = result.marginals[k]
    return perf_counter() - started


# ---------------------------------------------------------------- hubs
def hubs(degrees=(1_000, 10_000), states=10, sweeps=10, rounds=5):
    """Return the table of the time of a sweep around a variable of high degree, which must grow linearly."""
    rows = []
    for method in ("bp", "residual"):
        contenders = {degree: _hub_sweep(degree, states, method, sweeps) for degree in degrees}
        seconds = interleaved(contenders, rounds)
        each = [min(seconds[degree]) / sweeps for degree in degrees]
        growth = each[-1] / each[0]
        cells = [f"{1e3 * value:.2f}" for value in each]
        rows.append([method, *cells, f"{growth:.1f}", verdict(met=growth < 2 * degrees[-1] / degrees[0])])
    header = ["method", *(f"degree {degree:,}, ms a sweep" for degree in degrees)]
    return table([*header, "growth", f"linear (under {2 * degrees[-1] // degrees[0]})"], rows)


def _hub_sweep(degree, states, method, sweeps):
    """Return a function that makes so many sweeps' worth of updates on a compiled graph."""
    graph = models.hub_graph(degree, states, seed=3)

    def run():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", abp.NotConvergedWarning)
            return abp.infer(graph, method, tolerance=1e-300, max_updates=2 * degree * sweeps)

    return run
