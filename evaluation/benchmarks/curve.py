"""The picture of the README: error against time on a real document, for `adaptive`, `bp` and two peers.

    python evaluation/benchmarks/curve.py --documents FILE [--number 6] [--environments FOLDER]
    python evaluation/benchmarks/curve.py --draw

FILE is a Python file with real documents of joint extraction (`documents`, `graph`), as for `anytime.py`. Every point
is a run of its own that is stopped after so many snapshots, sweeps or iterations: processor time of one thread, from a
built graph (or arrays) to all marginals in one array, least of several runs. The peers are flooding BP as batched
matrix products in NumPy, and pomegranate (PyTorch), which is asked for 1, 2, 3, ... iterations. Errors are distances to
BP run to 1e-12. Raw figures go to evaluation/results/curve.csv, and `--draw` draws docs/anytime.png from them.
"""

import argparse
import csv
import gc
import importlib
import json
import os
import sys
import tempfile
from pathlib import Path
from time import process_time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # one thread for all; before NumPy is imported
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE / "peers"))

import matplotlib.pyplot as plt  # noqa: E402
from environments import PEERS, call  # noqa: E402
from models import Arrays  # noqa: E402
from timing import keep_freed_memory  # noqa: E402

import anytimebp as abp  # noqa: E402
from anytimebp_evaluation.machine import machine  # noqa: E402
from anytimebp_evaluation.pictures import save_figure  # noqa: E402

RAW, ABOUT = ROOT / "evaluation" / "results" / "curve.csv", ROOT / "evaluation" / "results" / "curve.json"
PICTURE = ROOT / "docs" / "anytime.png"
ROUNDS = 9  # of which the quickest counts
TOLERANCE = 1e-6  # to which our own runs go; the axis of the picture ends before
ITERATIONS = (1, 2, 3, 4)  # of the peers
SHOWN = {  # colours
    "adaptive": "#2f6db5",
    "bp": "#d9822b",
    "NumPy": "#5b8c5a",
    "pomegranate": "#8a8f98",
}
LIMIT = 600  # seconds for stating the model in pomegranate and running it a few times
LEAST = 1e-6  # a curve ends at its first error under this


def flooding(table, types, pairs, relations, sweeps):
    """Return the marginals, types before relations, after so many sweeps of flooding BP over ternary factors.

    Relations have no other factor, so they are summed out of all tables once, and their messages are sent at the end.
    """
    tied = np.exp(table)
    flat = tied.reshape(-1, tied.shape[2])
    unary, prior = _potentials(types), _potentials(relations)
    first, second = pairs.T
    without_relation = (prior @ flat.T).reshape(len(pairs), *tied.shape[:2])
    to_first, to_second = np.ones((2, len(pairs), len(tied)))
    for _ in range(sweeps):
        belief = _beliefs(unary, pairs, to_first, to_second)
        from_first, from_second = belief[first] / to_first, belief[second] / to_second
        to_first = _scaled((without_relation @ from_second[:, :, np.newaxis])[:, :, 0])
        to_second = _scaled((from_first[:, np.newaxis] @ without_relation)[:, 0])
    belief = _beliefs(unary, pairs, to_first, to_second)
    joint = (belief[first] / to_first)[:, :, np.newaxis] * (belief[second] / to_second)[:, np.newaxis]
    found = [belief, prior * (joint.reshape(len(pairs), -1) @ flat)]
    return np.concatenate([(rows / rows.sum(axis=1, keepdims=True)).ravel() for rows in found])


def _potentials(scores):
    return np.exp(scores - scores.max(axis=1, keepdims=True))


def _scaled(rows):
    return rows / rows.max(axis=1, keepdims=True)


def _beliefs(unary, pairs, to_first, to_second):
    log_belief = np.log(unary)
    np.add.at(log_belief, pairs[:, 0], np.log(to_first))
    np.add.at(log_belief, pairs[:, 1], np.log(to_second))
    return _potentials(log_belief)


def _least_time(call_once, prepare=lambda: None):
    """Return the least time of some calls, and what the last one returned."""
    best = float("inf")
    for _ in range(ROUNDS):
        prepared = prepare()
        gc.collect()
        started = process_time()
        found = call_once(prepared)
        best = min(best, process_time() - started)
    return best, found


def own_points(build, method):
    """Yield the time and the marginals of a method at each of its snapshots."""
    count = sum(1 for _ in abp.Inference(build(), method, tolerance=TOLERANCE))
    for number in range(count):
        yield _least_time(lambda graph, number=number: _stopped(graph, method, number), build)


def _stopped(graph, method, number):
    left = iter(range(number, -1, -1))
    result = abp.infer(graph, method, tolerance=TOLERANCE, callback=lambda _: next(left, 0) == 0)
    return result.marginals.concatenated()


def peer_points(document, environments):
    """Yield name, time and marginals of the peers."""
    table, types, pairs, relations = document
    for sweeps in ITERATIONS:
        yield "NumPy", *_least_time(lambda _, sweeps=sweeps: flooding(*document, sweeps))
    scopes = np.column_stack([pairs, len(types) + np.arange(len(pairs))])
    model = Arrays([*types, *relations], scopes, np.broadcast_to(table, (len(pairs), *table.shape)))
    peer = next(peer for peer in PEERS if peer.library == "pomegranate")
    with tempfile.TemporaryDirectory() as folder:
        for sweeps in ITERATIONS:
            outcome = call(peer, model, sweeps, environments or Path(folder), Path(folder), LIMIT)
            if outcome.failed:
                print(f"pomegranate, {sweeps} iterations: {outcome.failed}", file=sys.stderr)
                return
            yield "pomegranate", outcome.seconds * outcome.cores, outcome.marginals


def measure(options):
    """Measure all curves, and keep them."""
    sys.path.insert(0, str(options.documents.parent))
    source = importlib.import_module(options.documents.stem)
    document = list(source.documents())[options.number]
    truth = abp.infer(source.graph(abp, document), "bp", tolerance=1e-12).marginals.concatenated()
    sizes = [variable.n_states for variable in source.graph(abp, document).variables]
    starts = np.cumsum([0, *sizes[:-1]])
    rows = []

    def keep(name, seconds, found):
        error = float(np.sqrt(np.add.reduceat((found - truth) ** 2, starts)).mean())
        rows.append((name, f"{1e3 * seconds:.4f}", f"{error:.4e}"))
        print(*rows[-1])

    for method in ("adaptive", "bp"):
        for seconds, found in own_points(lambda: source.graph(abp, document), method):
            keep(method, seconds, found)
    for point in peer_points(document, options.environments):
        keep(*point)
    with RAW.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([("who", "milliseconds", "error"), *rows])
    about = {
        "measured": machine("numpy", "numba", "anytimebp"),
        "mentions": len(document[1]),
        "pairs": len(document[2]),
        "table": list(document[0].shape),
    }
    ABOUT.write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")


def draw():
    """Draw the picture from the raw figures."""
    with RAW.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    about = json.loads(ABOUT.read_text(encoding="utf-8"))
    figure, axes = plt.subplots(figsize=(9, 4.2), dpi=150)
    for name, colour in SHOWN.items():
        points = [(float(row["milliseconds"]), float(row["error"])) for row in rows if row["who"] == name]
        points = points[: 1 + next((k for k, (_, error) in enumerate(points) if error < LEAST), len(points))]
        if not points:
            continue
        axes.step(*zip(*points, strict=True), where="post", color=colour, marker="o", ms=4.5, lw=2)  # no answer between
        axes.annotate(
            name, points[0], xytext=(0, 9), textcoords="offset points", color=colour, ha="center", fontsize=12
        )
    axes.set(xscale="log", yscale="log")
    axes.set(xlabel="milliseconds of processor time (log scale)", ylabel="distance to converged BP (L2)")
    axes.set_title(
        f"A news document: {about['mentions']} mentions, {about['pairs']} pairs, "
        f"{' x '.join(map(str, about['table']))} joint states a pair",
        fontsize=11,
        pad=14,
    )
    axes.set_ylim(LEAST / 2, None)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    axes.margins(x=0.08, y=0.12)
    axes.grid(visible=True, which="major", color="#e6e9ec", lw=0.8)
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    save_figure(figure, PICTURE, figure.dpi)


def main():
    """Measure, unless only the picture is wanted, and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=Path, help="Python file with real documents")
    parser.add_argument("--number", type=int, default=6, help="which of them; 6 has the median number of pairs")
    parser.add_argument("--environments", type=Path, help="folder in which to keep the peer's environment")
    parser.add_argument("--draw", action="store_true", help="draw the picture from the figures of an earlier run")
    options = parser.parse_args()
    plt.switch_backend("Agg")
    keep_freed_memory()
    if not options.draw:
        if options.documents is None:
            parser.error("--documents is needed to measure")
        measure(options)
    draw()


if __name__ == "__main__":
    main()
