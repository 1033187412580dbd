"""How much faster sessions and `infer_many` are than a call of `infer` each; ratios of processor time in one run.

Usage: python evaluation/benchmarks/sessions.py FOLDER [--before SRC] [ROW ...]

FOLDER holds alarm.uai, pathfinder.uai and mildew.uai, and, if they are to be measured, pigs.bif and munin.bif. Rows:
alarm, changed, graphs, swept, threads, sentences, ray, grids. Threads and Ray are measured by the clock on the wall, so
that the machine has to be idle. SRC is the source folder of an older version, a yardstick that does not move when
`infer` gets faster: it answers the same queries of changed, graphs, swept and sentences in a process of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np

import anytimebp as abp

QUERIES, GRAPHS, SENTENCES, RUNS = 200, 2048, 500, 5
FOR_THREADS, FOR_RAY = 16_384, 10_000


def seconds(call, runs=RUNS):
    """Return the processor time of the fastest of some calls."""
    best = float("inf")
    for _ in range(runs):
        began = time.process_time()
        call()
        best = min(best, time.process_time() - began)
    return best


def calls(ask, cases):
    """Return what asks for all cases."""
    return lambda: [ask(evidence=evidence) for evidence in cases]


def show(name, cold, warm, n, wanted):
    """Print a row."""
    print(f"{name:<44} {1e6 * cold / n:9.1f} us {1e6 * warm / n:9.1f} us {cold / warm:7.2f}x (wanted {wanted}x)")


def show_before(call, warm, n):
    """Print how an older version does, if there is one; `call` names a function of this file and its arguments."""
    if BEFORE is None:
        return
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "call.json")
        file.write_text(json.dumps(call))
        environment = {**os.environ, "PYTHONPATH": BEFORE, "NUMBA_CACHE_DIR": str(Path(BEFORE, ".numba_cache"))}
        command = [sys.executable, "-W", "ignore", __file__, "--alone", str(file)]
        cold = float(subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout)
    show("    `infer` of the older version", cold, warm, n, 5)


def old_queries(model, cases):
    """Return the processor time of a call of `infer` for each case."""
    graph = abp.read_model(model)
    return seconds(calls(partial(abp.infer, graph), [{**case} for case in cases]), 3)


def old_sentences():
    """Return the processor time of a call of `infer` for each sentence."""
    many = many_sentences(SENTENCES)
    return seconds(lambda: (fresh(many), [abp.infer(graph) for graph in many]), 3)


def old_small_graphs(method):
    """Return the processor time of a call of `infer` for each small graph."""
    rng = np.random.default_rng(0)
    many = [small_graph(rng) for _ in range(GRAPHS)]
    return seconds(lambda: (fresh(many), [abp.infer(graph, method) for graph in many]), 3)


def possible_evidence(graph, rng, count, fixed=None):
    """Draw observations that are possible together."""
    names, marginals = graph.variables.names(), abp.infer(graph, evidence=fixed).marginals
    while True:
        found = dict(fixed or {})
        for index in rng.choice(len(names), count, replace=False).tolist():
            if names[index] not in found:
                state = int(rng.choice(np.flatnonzero(marginals[index] > 0.0)))
                found[names[index]] = graph.variables[index].labels[state]
        try:
            abp.infer(graph, evidence=found)
        except abp.InconsistentModelError:
            continue
        return found


def alarm(folder):
    """Five random observations, one target."""
    graph, rng = abp.read_model(folder / "alarm.uai"), np.random.default_rng(0)
    names = graph.variables.names()
    cases = [(possible_evidence(graph, rng, 5), [names[int(rng.integers(len(names)))]]) for _ in range(QUERIES)]
    session = abp.Session(graph)
    session.query()
    cold = seconds(lambda: [abp.infer(graph, evidence=evidence) for evidence, _ in cases])
    warm = seconds(lambda: [session.query(evidence, targets) for evidence, targets in cases])
    show("alarm, 5 observations, one target", cold, warm, QUERIES, 10)
    warm = seconds(lambda: [session.query(evidence) for evidence, _ in cases])
    show("alarm, 5 observations, all marginals", cold, warm, QUERIES, 1)


def changed(folder):
    """One observation that changes and five that stay: all marginals, and those of one target."""
    for name in ("pathfinder.uai", "mildew.uai", "alarm.uai", "pigs.bif", "munin.bif"):
        if not (folder / name).exists():
            continue
        graph, rng = abp.read_model(folder / name), np.random.default_rng(0)
        n = QUERIES // 10 if name in {"mildew.uai", "munin.bif"} else QUERIES // 2
        names, fixed = graph.variables.names(), possible_evidence(graph, rng, 5)
        cases = [possible_evidence(graph, rng, 1, fixed) for _ in range(n)]
        targets = [[names[int(rng.integers(len(names)))]] for _ in cases]
        session = abp.Session(graph)
        session.query(fixed)
        cold = seconds(calls(partial(abp.infer, graph), cases), 3)
        warm = seconds(calls(session.query, cases), 3)
        gap = max(
            float(np.abs(a.marginals.concatenated() - b.marginals.concatenated()).max())
            for a, b in ((abp.infer(graph, "exact", evidence=e), session.query(e)) for e in cases[:20])
        )
        show(f"{name}, one observation changed", cold, warm, n, 5)
        show_before(["old_queries", str(folder / name), cases], warm, n)
        print(f"    {session.query(cases[0]).choice}; largest difference to exact marginals {gap:.1e}")
        asked = list(zip(cases, targets, strict=True))
        cold = seconds(lambda: [abp.infer(graph, evidence=e, targets=t) for e, t in asked], 3)  # noqa: B023
        warm = seconds(lambda: [session.query(e, t) for e, t in asked], 3)  # noqa: B023
        show(f"{name}, the same, one target", cold, warm, n, 5)


def small_graph(rng):
    """Return a graph of 10 variables of 5 states, with loops."""
    graph = abp.FactorGraph()
    graph.add_variables(10, 5)
    graph.add_factors([[i] for i in range(10)], log_table=rng.normal(size=(10, 5)))
    pairs = [[i, (i + 1) % 10] for i in range(10)] + [[0, 5], [2, 7]]
    graph.add_factors(pairs, log_table=rng.normal(size=(len(pairs), 5, 5)))
    return graph


def fresh(many):
    """Forget the layouts of graphs, as if they were new."""
    for graph in many:
        graph.compiled = None


def graphs(_, method="auto"):
    """Many small graphs."""
    rng = np.random.default_rng(0)
    many = [small_graph(rng) for _ in range(GRAPHS)]
    list(abp.infer_many(many[:300], method=method))
    cold = warm = float("inf")
    for _ in range(3):
        cold = min(cold, seconds(lambda: (fresh(many), [abp.infer(graph, method) for graph in many]), 1))
        warm = min(warm, seconds(lambda: (fresh(many), list(abp.infer_many(many, method=method))), 2))
    show(f"10 variables of 5 states, {method}", cold, warm, GRAPHS, 8)
    show_before(["old_small_graphs", "adaptive" if method == "auto" else method], warm, GRAPHS)


def swept(folder):
    """The same by belief propagation."""
    graphs(folder, "bp")


def threads(_):
    """One thread and two in turn, by the wall clock."""
    rng = np.random.default_rng(0)
    many = [small_graph(rng) for _ in range(FOR_THREADS)]
    list(abp.infer_many(many[:300]))
    one = two = float("inf")
    for _ in range(RUNS):
        one, two = min(one, on_the_wall(many, threads=1)), min(two, on_the_wall(many, threads=2))
    show("the same, one thread and two", one, two, FOR_THREADS, 1.6)


def on_the_wall(many, **options):
    """Return the seconds that it takes to solve new graphs, and to forget the results."""
    fresh(many)
    began = time.perf_counter()
    for _ in abp.infer_many(many, **options):
        pass
    return time.perf_counter() - began


def sentence(rng, table, n):
    """Return a graph of joint extraction: entity types, a relation for each ordered pair."""
    graph = abp.FactorGraph()
    types = graph.add_variables(n, 40)
    pairs = [(i, j) for i in range(n) for j in range(n) if i != j]
    relations = graph.add_variables(len(pairs), 31)
    scores = rng.normal(0, 4, (n, 40))
    scores[np.arange(n), rng.integers(40, size=n)] += 12
    graph.add_factors([[i] for i in types], log_table=scores)
    graph.add_factors([[i] for i in relations], log_table=rng.normal(0, 4, (len(pairs), 31)))
    scopes = [[types[i], types[j], relation] for (i, j), relation in zip(pairs, relations, strict=True)]
    graph.add_factors(scopes, log_table=table)
    return graph


def many_sentences(count):
    """Return sentences of 2 to 6 mentions with one table."""
    rng = np.random.default_rng(0)
    table = np.where(rng.random((40, 40, 31)) < 0.03, 0.0, -4.0) + rng.normal(0, 0.5, (40, 40, 31))
    return [sentence(rng, table, int(rng.integers(2, 7))) for _ in range(count)]


def sentences(_):
    """Sentences, one call each and all at once."""
    many = many_sentences(SENTENCES)
    list(abp.infer_many(many))
    cold = seconds(lambda: (fresh(many), [abp.infer(graph) for graph in many]), 2)
    warm = seconds(lambda: (fresh(many), list(abp.infer_many(many))), 2)
    show("sentences of 2 to 6 mentions", cold, warm, SENTENCES, 5)
    show_before(["old_sentences"], warm, SENTENCES)


def ray(_):
    """Sentences in one process and on two workers of Ray, by the wall clock, without start-up."""
    many = many_sentences(FOR_RAY)
    list(abp.infer_many(many[:300]))
    alone = on_the_wall(many)
    with abp.parallel.ray_executor(2) as pool:
        list(abp.infer_many(many[:600], executor=pool))  # starts the workers
        show("sentences, one process and two workers", alone, on_the_wall(many, executor=pool), FOR_RAY, 1.5)


def grids(_):
    """Messages: grids that are too wide for a junction tree; never slower than 1.1 times `infer`."""
    for side, states in ((10, 30), (10, 100), (30, 10)):
        rng = np.random.default_rng(0)
        graph = abp.FactorGraph()
        graph.add_variables(side * side, states)
        place = np.arange(side * side).reshape(side, side)
        pairs = [np.stack([place[:, :-1], place[:, 1:]], -1), np.stack([place[:-1], place[1:]], -1)]
        scopes = np.concatenate([pair.reshape(-1, 2) for pair in pairs])
        graph.add_factors([[i] for i in range(side * side)], log_table=rng.normal(size=(side * side, states)))
        graph.add_factors(scopes, log_table=rng.normal(0, 0.5, (len(scopes), states, states)))
        for count in (1, 5, side * side // 5):
            cases = [
                {f"x{i}": int(rng.integers(states)) for i in rng.choice(side * side, count, replace=False)}
                for _ in range(10)
            ]
            session = abp.Session(graph)
            session.query()
            cold = seconds(calls(partial(abp.infer, graph), cases), 3)
            warm = seconds(calls(session.query, cases), 3)
            show(f"grid {side}x{side}, {states} states, {count} observed anew", cold, warm, len(cases), 0.9)


ROWS = {
    "alarm": alarm,
    "changed": changed,
    "graphs": graphs,
    "swept": swept,
    "threads": threads,
    "sentences": sentences,
    "ray": ray,
    "grids": grids,
}

BEFORE = None  # the source folder of an older version

if __name__ == "__main__":
    arguments = sys.argv[1:]
    if arguments[0] == "--alone":
        name, *given = json.loads(Path(arguments[1]).read_text())
        print(globals()[name](*given))
        sys.exit()
    if "--before" in arguments:
        at = arguments.index("--before")
        BEFORE = arguments[at + 1]
        del arguments[at : at + 2]
    for row in arguments[1:] or ROWS:
        ROWS[row](Path(arguments[0]))
