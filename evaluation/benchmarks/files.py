"""Reading and writing model files: time against the bare parsing of the same text, memory against the tables."""

import subprocess
import sys
import tempfile
import tracemalloc
from pathlib import Path
from time import perf_counter

import models
import numpy as np
from timing import interleaved, milliseconds, ratio, table, verdict

import anytimebp as abp
from anytimebp.formats.files import write_model_file

ENDINGS = (".uai", ".uai.gz", ".fg", ".npz")
HEADER = ["format", "MB", "write, ms", "read, ms", "np.fromstring, ms", "read / np.fromstring", "peak / tables", "<= 4"]


def reading(rounds):
    """Return a table with a row per format, on a grid of 10 x 10 variables with 60 states each."""
    rng = np.random.default_rng(0)
    graph = abp.FactorGraph()
    graph.add_variables(100, 60)
    scopes = models.grid_scopes(10, 10)
    graph.add_factors(np.arange(100).reshape(-1, 1), table=rng.random((100, 60)).round(4))
    graph.add_factors(scopes, table=rng.random((len(scopes), 60, 60)).round(4))
    with tempfile.TemporaryDirectory() as folder:
        return table(HEADER, [_row(graph, Path(folder, f"grid{ending}"), rounds) for ending in ENDINGS])


def _row(graph, path, rounds):
    started = perf_counter()
    write_model_file(graph, path)
    wrote = perf_counter() - started
    contenders = {"read": lambda: abp.read_model(path)}
    if path.suffix in {".uai", ".fg"}:
        text = path.read_text(encoding="ascii").removeprefix("MARKOV")
        contenders["bare"] = lambda: np.fromstring(text, sep=" ")
    seconds = interleaved(contenders, rounds)
    peak = _peak(path) / graph.summary().table_bytes
    return [
        "".join(path.suffixes),
        f"{path.stat().st_size / 1e6:.1f}",
        f"{1e3 * wrote:.0f}",
        milliseconds(seconds["read"]),
        milliseconds(seconds["bare"]) if "bare" in seconds else "-",
        f"{ratio(seconds['read'], seconds['bare']):.2f}" if "bare" in seconds else "-",
        f"{peak:.2f}",
        verdict(met=peak <= 4),
    ]


def commands():
    """Return the time of whole commands, in fresh processes, kernels compiled before."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        model = str(Path(folder, "demo.npz"))
        for arguments in (["demo", "--save", model], ["--help"], ["info", model], ["infer", model]):
            seconds = min(_run(arguments) for _ in range(3))
            rows.append([f"`anytimebp {' '.join(arguments).replace(model, 'demo.npz')}`", f"{seconds:.2f}"])
    return table(["command", "seconds, best of 3"], rows)


def _run(arguments):
    started = perf_counter()
    subprocess.run([sys.executable, "-m", "anytimebp", *arguments], check=True, capture_output=True)
    return perf_counter() - started


def _peak(path):
    tracemalloc.start()
    abp.read_model(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak
