"""Measures peers from the package index on the same grids, each in its own environment; `--write` keeps the table.

A peer is timed from a stated model to marginals, what it compiles not counted, with as many threads as it likes. `bp`
runs before and after it, on one thread, from a built graph, the layout included. Best of the rounds on both sides.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

import models  # noqa: E402
import numpy_bp  # noqa: E402
from speed import GRIDS, TOLERANCE, UNARY_SD, grid_name  # noqa: E402
from timing import table, verdict  # noqa: E402

import anytimebp as abp  # noqa: E402
from anytimebp.experiments.machine import machine  # noqa: E402

PAGE = HERE.parents[1] / "docs" / "benchmarks.md"
TITLE = "## Peers"
BAR, AGREEMENT = 5.0, 1e-4
PEERS = {  # calls of pip, in order
    "pgmax": [
        # JAX 0.4.30 is among the last that PGMax runs on; its own requirements bring in TensorFlow and Jupyter
        ["numpy==1.26.4", "scipy==1.13.1", "numba==0.68.1", "jax==0.4.30", "jaxlib==0.4.30"],
        ["--no-deps", "pgmax==0.6.1"],
    ],
    "pomegranate": [["torch==2.13.0", "numpy==2.4.6"], ["pomegranate==1.1.2"]],
    "pyagrum": [["pyagrum==3.3.1", "numpy==2.4.6"]],
}
NOTES = (
    "PGMax (JAX, double precision) and pomegranate (PyTorch, double precision) run as many iterations as they need; "
    "pyAgrum, whose loopy BP takes no Markov network, gets a Bayesian network with the same messages, and stops by its "
    "own rule at 1e-14. `bp` runs to residual 1e-10."
)


def environment(peer, folder):
    """Return the Python of a peer's environment, which is made unless it is there."""
    python, ready = folder / peer / "bin" / "python", folder / peer / "ready"
    if not ready.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder / peer)], check=True)
        for packages in PEERS[peer]:
            subprocess.run([str(python), "-m", "pip", "install", "--quiet", *packages], check=True)
        ready.touch()
    return python


def own_seconds(graph, rounds=7):
    """Return the best time of `bp` from a built graph, and its marginals."""
    best = float("inf")
    for _ in range(rounds):
        graph.compiled = None
        started = perf_counter()
        result = abp.infer(graph, "bp", tolerance=TOLERANCE)
        marginals = np.array([result.marginals[k] for k in range(len(result.marginals))])
        best = min(best, perf_counter() - started)
    return best, marginals


def peer_seconds(peer, python, model, sweeps, folder):
    """Return the best time of a peer, and its marginals."""
    source, target = folder / "model.npz", folder / "marginals.npy"
    np.savez(source, **model._asdict(), sweeps=sweeps)
    command = [str(python), "-W", "ignore", str(HERE / f"{peer}_bp.py"), str(source), str(target)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return min(json.loads(done.stdout)["seconds"]), np.load(target)


def compare(peer, python, folder):
    """Yield a row per grid."""
    for size in GRIDS:
        for sd in UNARY_SD:
            model = models.grid(*size, sd, 1.0, seed=1)
            graph = models.graph_of(model)
            before, mine = own_seconds(graph)
            theirs, marginals = peer_seconds(peer, python, model, numpy_bp.flooding(model, TOLERANCE)[1], folder)
            own = min(before, own_seconds(graph)[0])
            gap = np.abs(marginals - mine).max()
            met = verdict(met=theirs / own >= BAR and gap < AGREEMENT)
            speeds = [f"{1e3 * theirs:.0f}", f"{1e3 * own:.1f}", f"{theirs / own:.0f}"]
            yield [peer, grid_name(*size), f"{sd:g}", *speeds, met, f"{gap:.0e}"]


def main():
    """Measure, print and, if asked, write the section."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="keep the table in docs/benchmarks.md")
    parser.add_argument("--environments", type=Path, help="folder in which to keep the environments")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        kept = options.environments or Path(temporary)
        rows = [row for peer in PEERS for row in compare(peer, environment(peer, kept), Path(temporary))]
    header = ["peer", "model", "unary sd", "peer, ms", "bp, ms", "ratio", f">= {BAR:g}", "marginals differ by"]
    versions = "; ".join(" ".join(package for call in calls for package in call) for calls in PEERS.values())
    section = f"{TITLE}\n\nWritten by `benchmarks/peers/run.py`. {machine('numpy', 'numba', 'anytimebp')}\n"
    section += f"Environments: {versions.replace('--no-deps ', '')}.\n\n{NOTES}\n\n{table(header, rows)}\n"
    print(section)
    if options.write:
        old = PAGE.read_text(encoding="utf-8") if PAGE.exists() else "# Benchmarks\n"
        PAGE.write_text(old.split(TITLE)[0].rstrip() + "\n\n" + section, encoding="utf-8")


if __name__ == "__main__":
    main()
