"""Measurements of factors with a structure: what a sweep costs as universes grow."""

import warnings
from time import process_time

import numpy as np
from timing import table, verdict

import anytimebp as abp

RING = 10  # variables, and as many factors
SWEEPS = 5  # in one timing
SIZES = (100, 1_000, 3_000, 10_000, 30_000, 100_000)
SHOWN = (100, 1_000, 10_000, 100_000)
FITTED = 1_000  # from here on; below, the bookkeeping of factors counts
BAR = 1.1

KINDS = {
    "Equality, soft (Potts)": lambda n: abp.Equality(np.log(n), default=0.0),
    "Equality, hard": lambda _: abp.Equality(),
    "Deterministic": lambda n: abp.Deterministic(lambda a: (7 * a + 3) % n),
    "Difference, 101 scores": lambda _: abp.Difference(-0.001 * np.arange(-50, 51) ** 2.0, default=-5.0),
    "Difference, 101 scores, hard": lambda _: abp.Difference(-0.001 * np.arange(-50, 51) ** 2.0),
    "AtMostOne": lambda _: abp.AtMostOne(0),
}


def ring(kind, n, *, in_logs):
    """Return a ring of variables of n states, tied by one structure; scores beyond floats if it is to run in logs."""
    scores = np.random.default_rng(0).normal(0.0, 0.1, (RING, n))
    if in_logs:
        scores[:, n // 2] = -800.0
    if kind == "AtMostOne":
        scores[:, 0] = np.log(n)  # as likely as not, or it would settle within a sweep
    graph = abp.FactorGraph()
    graph.add_variables(RING, n)
    graph.add_factors(np.arange(RING)[:, np.newaxis], log_table=scores)
    graph.add_factors([[k, (k + 1) % RING] for k in range(RING)], structure=KINDS[kind](n))
    return graph


def sweep_seconds(graph, in_logs):
    """Return the seconds of a sweep in the middle of a run, of the processor: on a busy machine long runs wait most."""
    inference = abp.Inference(graph, "bp", tolerance=1e-300, record="end")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", abp.NotConvergedWarning)
        before = inference.run(max_updates=2 * RING)
        started = process_time()
        after = inference.run(max_updates=SWEEPS * RING)
        seconds = process_time() - started
    if (after.arithmetic == "log") != in_logs:
        msg = f"the run was to be in {'logs' if in_logs else 'linear arithmetic'}, and was not"
        raise RuntimeError(msg)
    return RING * seconds / (after.updates - before.updates)


def exponent(seconds):
    """Return the slope of a line through the logs of sizes and of seconds, given by size."""
    sizes = [n for n in seconds if n >= FITTED]
    return np.polyfit(np.log(sizes), np.log([seconds[n] for n in sizes]), 1)[0]


def cost(rounds):
    """Return a table of the time of a sweep by kind, arithmetic and number of states."""
    best = {(kind, in_logs): dict.fromkeys(SIZES, np.inf) for kind in KINDS for in_logs in (False, True)}
    for _ in range(rounds):
        for (kind, in_logs), seconds in best.items():
            for n in SIZES:
                seconds[n] = min(seconds[n], sweep_seconds(ring(kind, n, in_logs=in_logs), in_logs))
    rows = []
    for (kind, in_logs), seconds in best.items():
        slope = exponent(seconds)
        rows.append(
            [
                kind,
                "log" if in_logs else "linear",
                *(f"{1e3 * seconds[n]:.3g}" for n in SHOWN),
                f"{1e9 * seconds[SIZES[-1]] / (2 * RING * SIZES[-1]):.1f}",
                f"{slope:.2f}",
                verdict(met=slope <= BAR),
            ]
        )
    sizes = [f"{n:,} states, ms" for n in SHOWN]
    header = ["structure", "arithmetic", *sizes, "ns per state and message", "exponent", f"at most {BAR}"]
    return table(header, rows)


VARIABLES = (30, 100, 200, 300, 500, 1_000)
COUNT_BAR = 1.3
COUNTS = {
    "soft": lambda c, k: -0.5 * (c - 0.4 * k) ** 2 / k,
    "one likely count": lambda c, k: np.where(c == int(0.45 * k), 0.0, -np.inf),
    "at most 3": lambda c, _: np.where(c <= 3, 0.0, -np.inf),
    "one unlikely count": lambda c, k: np.where(c == int(0.2 * k), 0.0, -np.inf),
}


def count_seconds(kind, n_variables):
    """Return the seconds of an update of `Cardinality` of so many variables of two states, about as likely as not."""
    rng, n_factors = np.random.default_rng(0), 20
    graph = abp.FactorGraph()
    graph.add_variables(n_variables, 2)
    graph.add_factors(np.arange(n_variables)[:, np.newaxis], log_table=rng.normal(0.0, 0.3, (n_variables, 2)))
    scores = COUNTS[kind](np.arange(n_variables + 1.0), n_variables)
    for _ in range(n_factors):
        graph.add_factor(rng.permutation(n_variables).tolist(), structure=abp.Cardinality(scores))
    inference = abp.Inference(graph, "bp", tolerance=1e-300, record="end")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the run is stopped early
        before = inference.run(max_updates=n_factors)
        started = process_time()
        after = inference.run(max_updates=3 * n_factors)
        seconds = process_time() - started
    return seconds / max(1, after.updates - before.updates)


def counts(rounds):
    """Return a table of the time of an update of `Cardinality`, by the scores and the number of variables."""
    rows = []
    for kind in COUNTS:
        seconds = {k: min(count_seconds(kind, k) for _ in range(rounds)) for k in VARIABLES}
        slope = np.polyfit(np.log(VARIABLES), np.log(list(seconds.values())), 1)[0]
        shown = [f"{1e6 * seconds[k]:.3g}" for k in VARIABLES]
        rows.append([kind, *shown, f"{slope:.2f}", verdict(met=slope <= COUNT_BAR)])
    header = ["scores", *(f"{k:,} variables, us" for k in VARIABLES), "exponent", f"at most {COUNT_BAR}"]
    return table(header, rows)
