"""Measures `max_memory`: what a run takes beyond what its process held before, against what it was allowed.

Every case runs in a process of its own (`children.py`), after the kernels of its method have run on a small graph.
"""

import sys
import warnings
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import models
import numpy as np
from processes import run_child
from timing import table, verdict

import anytimebp as abp

SECONDS = 20.0  # time limit of each run
MB = 10**6
BOUND = 1.2  # times the limit and what the process held before, together
OVERRUN = 0.02  # seconds that a time limit may be overrun by, or one call of a rule
AGAIN = 0.5  # seconds within which a run that is out of memory answers again


class Case(NamedTuple):
    """A run.

    Attributes:
        make: Returns the model.
        method: How to run on it.
        limit: In MB; None for what the library says that full BP needs, 0 for a byte less.
        seconds: Time limit.
    """

    make: object
    method: str
    limit: float | None
    seconds: float = SECONDS


def ring(n_variables):
    """Return the pairs of a ring."""
    return np.stack([np.arange(n_variables), (np.arange(n_variables) + 1) % n_variables], axis=1)


def dense(unary_sd=10.0, n_variables=6, states=1500):
    """Return a ring of log tables."""
    rng = np.random.default_rng(0)
    graph = abp.FactorGraph()
    graph.add_variables(n_variables, states)
    graph.add_factors(np.arange(n_variables)[:, np.newaxis], log_table=rng.normal(0.0, unary_sd, (n_variables, states)))
    for pair in ring(n_variables):
        graph.add_factor(pair.tolist(), log_table=rng.normal(0.0, 1.0, (states, states)))
    return graph


def noise(a, b):
    """Return scores that look random, between -2 and 2."""
    return 2.0 * np.sin(0.7 * a * (b + 1.0))


def near(a, b):
    """Return scores of neighbouring states, and hard zeros between states that are far from each other."""
    distance = np.abs(a - b)
    return np.where(distance <= 300, -0.01 * distance, -np.inf)


def neighbours(a, b):
    """Return scores of the distance of two states."""
    return -np.minimum(np.abs(a - b), 20.0)


def propose_neighbours(states, k):
    """Return the states around those that are likely."""
    likely = next(one for one in states if one is not None)[:8]
    around = likely[:, np.newaxis] + np.arange(-k // 16, k // 16 + 1)
    return np.clip(around.reshape(-1), 0, 10**6 - 1)


def rules(n_variables, states, rule, unary_sd=10.0, *, smooth=0.0, **more):
    """Return a ring of rules, each a factor of its own, on variables with peaked scores."""
    rng = np.random.default_rng(0)
    graph = abp.FactorGraph()
    graph.add_variables(n_variables, states)
    if smooth:  # one peak each, near that of the others
        peak = states // 2 + rng.integers(-20, 20, n_variables)
        prior = -smooth * np.abs(np.arange(states) - peak[:, np.newaxis])
    else:
        prior = rng.normal(0.0, unary_sd, (n_variables, states))
    graph.add_factors(np.arange(n_variables)[:, np.newaxis], log_table=prior)
    for pair in ring(n_variables) if rule else ():
        graph.add_factor(pair.tolist(), rule=rule, **more)
    return graph


def linking(*, with_propose=False):
    """Return the example on entity linking, with 20,000 entities."""
    sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
    from entity_linking import make_document  # noqa: PLC0415

    return make_document(60, 20_000, np.random.default_rng(0), with_propose=with_propose).graph


def lists():
    """Return a triangle of variables with 100,000 states, a million entries a pair."""
    rng = np.random.default_rng(0)
    graph = abp.FactorGraph()
    graph.add_variables(3, 100_000)
    for pair in ring(3):
        indices = np.unique(rng.integers(0, 100_000, (10**6, 2)), axis=0)
        graph.add_factor(pair.tolist(), entries=(indices, rng.normal(0.0, 1.0, len(indices))), default=-20.0)
    return graph


def equality():
    """Return a triangle of variables with a million states, all in the same one."""
    rng = np.random.default_rng(0)
    graph = abp.FactorGraph()
    graph.add_variables(3, 10**6)
    graph.add_factors([[0], [1], [2]], log_table=rng.normal(0.0, 3.0, (3, 10**6)))
    for pair in ring(3):
        graph.add_factor(pair.tolist(), structure=abp.Equality(default=-5.0))
    return graph


def differences():
    """Return a ring of variables with a million states, whose scores depend on the difference of two."""
    graph = rules(3, 10**6, None, smooth=1e-5)
    for pair in ring(3):
        graph.add_factor(pair.tolist(), structure=abp.Difference(-0.1 * np.abs(np.arange(-20, 21)), default=-10.0))
    return graph


def triangle():
    """Return three variables with 20,000 states, and a rule for each pair."""
    return rules(3, 20_000, noise, 3.0)


def huge():
    """Return three variables with a million states, and a rule for each pair."""
    return rules(3, 10**6, noise, 3.0)


def proposed():
    """Return ten variables with a million states, whose rules propose neighbours."""
    return rules(10, 10**6, neighbours, smooth=0.2, propose=propose_neighbours)


def narrow():
    """Return ten variables with 5,000 states, whose rules have hard zeros."""
    return rules(10, 5000, near, smooth=0.02)


def strips():
    """Return twenty variables with 5,000 states and peaked scores of their own, and rules between them."""
    return rules(20, 5000, noise)


GROWING = ("dynamic", "fixed", "random", "truncated")

CASES = {
    **{f"{method}, tables that just fit": Case(dense, method, None) for method in ("bp", "residual")},
    **{f"{method}, tables a byte too large": Case(dense, method, 0) for method in ("bp", "residual")},
    "adaptive, tables that just fit": Case(dense, "adaptive", None),
    "adaptive, tables a byte too large": Case(dense, "adaptive", 0),
    **{f"adaptive, strips of rules, {mb} MB": Case(strips, "adaptive", mb) for mb in (100, 300, 1000)},
    **{f"adaptive, linking, {mb} MB": Case(linking, "adaptive", mb) for mb in (200, 500)},
    **{
        f"adaptive, linking, proposed, {mb} MB": Case(lambda: linking(with_propose=True), "adaptive", mb)
        for mb in (200, 500)
    },
    **{f"adaptive, hard zeros, {mb} MB": Case(narrow, "adaptive", mb) for mb in (50, 100, 300)},
    **{f"{method}, rules, {mb} MB": Case(triangle, method, mb) for method in GROWING for mb in (100, 300)},
    **{f"{method}, tables, {mb} MB": Case(dense, method, mb) for method in GROWING for mb in (20, 100)},
    "bp, rules that just fit": Case(lambda: rules(6, 1500, noise), "bp", None),
    "adaptive, rules that just fit": Case(lambda: rules(6, 1500, noise), "adaptive", None),
    "truncated, rules, that just fit": Case(lambda: rules(3, 8000, noise), "truncated", 110),
    "bp, differences": Case(differences, "bp", None),
    "bp, lists": Case(lists, "bp", None),
    "bp, equality": Case(equality, "bp", None),
    "adaptive, a million states, proposed": Case(proposed, "adaptive", 1000),
    **{f"{method}, a million states": Case(huge, method, 1000, 2.0) for method in abp.METHODS},
}


def run(name):
    """Run a case in this process; return what it took."""
    from children import memory_of  # noqa: PLC0415

    case = CASES[name]
    graph = case.make()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        abp.infer(models.small_graph(0), case.method)
        limit = int(case.limit * MB) if case.limit else graph.summary().full_bp_bytes - (case.limit == 0)
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak is what there is
        base = memory_of("VmHWM")
        inference = abp.Inference(graph, case.method, max_memory=limit, rng=0)
        started = perf_counter()
        try:
            result = inference.run(seconds=case.seconds)
            taken = perf_counter() - started
            peak, ending = memory_of("VmHWM"), result.stop_reason.name
        except abp.MemoryLimitError as error:
            return {
                "limit": limit,
                "base": base,
                "peak": memory_of("VmHWM"),
                "ending": "refused" if "bytes" in str(error) else f"refused without bytes: {error}",
                "right": True,
                "overrun": perf_counter() - started - case.seconds,
            }
        right = all(abs(result.marginals[i].sum() - 1.0) < 1e-9 for i in range(len(graph.variables)))
        if result.stop_reason is abp.StopReason.OUT_OF_MEMORY:
            started = perf_counter()
            again = inference.run(seconds=1.0)
            quick = perf_counter() - started < AGAIN
            right &= quick and result.consistent and again.consistent and again.stop_reason is result.stop_reason
    return {
        "limit": limit,
        "base": base,
        "peak": peak,
        "ending": ending,
        "right": right,
        "overrun": taken - case.seconds,
    }


def limits(names=tuple(CASES)):
    """Return the table of all cases."""
    rows = []
    for name in names:
        found = run_child("limited_run", name)
        limit, base, peak = (found[part] / MB for part in ("limit", "base", "peak"))
        met = found["right"] and peak <= BOUND * (limit + base)
        late = f"{1e3 * found['overrun']:.0f} ms" if found["overrun"] > 0 else "-"
        sizes = [f"{number:.0f}" for number in (limit, base, peak)]
        rows.append([name, *sizes, f"{(peak - base) / limit:.2f}", found["ending"], late, verdict(met=met)])
        print(rows[-1], file=sys.stderr, flush=True)
    header = [
        "run",
        "limit, MB",
        "before",
        "peak",
        "taken of the limit",
        "ended as",
        "time overrun",
        "held, and answers",
    ]
    return table(header, rows)


if __name__ == "__main__":
    chosen = [name for name in CASES if any(part in name for part in sys.argv[1:])] if sys.argv[1:] else tuple(CASES)
    print(limits(chosen))
