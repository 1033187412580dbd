"""How good `estimated_error` is: estimates and truths over many snapshots, as a table and as a picture.

`python benchmarks/calibration.py` prints the table and draws docs/calibration.png. Models are random grids from flat to
very peaked, joint extraction, and the real ones where their files are there; those on which `bp` does not settle are
left out, as there is no truth to compare with. Truths under 1e-10 are left out as well: they are the reference's own
error.
"""

import os
import warnings
from pathlib import Path

import models
import numpy as np
from timing import table, verdict

import anytimebp as abp

DATA = Path(os.environ.get("ANYTIMEBP_DATA", Path(__file__).parents[2] / "shared" / "data")) / "models"
PICTURE = Path(__file__).parents[1] / "docs" / "calibration.png"
REAL = ("pdb1i24", "pdb1k51", "pdb1rh4", "pdb1fna", "pdb1mof", "alarm", "ObjectDetection_24", "ObjectDetection_11")
METHODS = {"adaptive": "round", "bp": "round", "residual": "round", "dynamic": abp.Every(growth=1.3)}
SMALLEST = 1e-10  # truth that the reference can tell
LARGE = 20_000  # table entries up to which methods that grow state by state are run as well


def random_models(count):
    """Yield names and graphs: grids of all kinds, and joint extraction."""
    rng = np.random.default_rng(0)
    for seed in range(count):
        side, states = int(rng.choice([3, 4, 5, 6, 8])), int(rng.choice([10, 20, 40, 80, 150]))
        unary, pairwise = float(rng.choice([0, 1, 2, 3, 4, 6, 8, 10])), float(rng.choice([0.3, 0.5, 1.0, 1.5, 2.0]))
        yield "grids", models.graph_of(models.grid(side, side, states, unary, pairwise, seed))
    for seed in range(max(1, count // 8)):
        yield "joint extraction", models.graph_of(models.joint_extraction(3 + seed % 4, seed))


def real_models():
    """Yield names and graphs of the real models that are there."""
    for name in REAL:
        path = DATA / f"{name}.uai"
        if path.exists():
            yield "real", abp.read_model(path)


def collect(count):
    """Return rows of (method, kind of model, estimate, truth) for every recorded snapshot."""
    rows = []
    for kind, graph in (*random_models(count), *real_models()):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            reference = abp.infer(graph, "bp", tolerance=1e-12)
            if reference.stop_reason is not abp.StopReason.CONVERGED or reference.damping > 0.0:
                continue
            for method, record in METHODS.items():
                if method == "dynamic" and graph.summary().table_entries > LARGE:
                    continue
                _snapshots(rows, graph, method, record, reference, kind)
    return rows


def _snapshots(rows, graph, method, record, reference, kind):
    def look(snapshot):
        truth = snapshot.distance(reference)
        if truth > SMALLEST:
            rows.append((method, kind, snapshot.estimated_error, truth))

    abp.infer(graph, method, record=record, callback=look)


def summary(rows):
    """Return a table: how many estimates are within a factor of 5 or on the safe side, and how many far too small."""
    lines = []
    groups = [(method, kind) for method in METHODS for kind in ("grids", "joint extraction", "real")]
    for method, kind in [*groups, *((method, "all") for method in METHODS)]:
        chosen = [(e, t) for m, k, e, t in rows if m == method and kind in (k, "all")]
        if not chosen:
            continue
        ratio = np.array([estimate / truth for estimate, truth in chosen])
        fine, bad = float((ratio >= 1 / 5).mean()), float((ratio < 1 / 3).mean())
        met = f"90 %, 5 %: {verdict(met=fine >= 0.9 and bad <= 0.05)}" if kind == "all" else ""
        lines.append([method, kind, len(ratio), f"{fine:.1%}", f"{bad:.1%}", f"{np.median(ratio):.2g}", met])
    header = ["method", "models", "snapshots", "within 5 or safe", "under a third", "median ratio", "bar"]
    return table(header, lines)


def draw(rows):
    """Draw estimates against truths."""
    from matplotlib.figure import Figure  # noqa: PLC0415  (not needed for the table)

    figure = Figure(figsize=(9.0, 3.2), layout="constrained")
    axes = figure.subplots(1, len(METHODS), sharex=True, sharey=True)
    limits = np.array([1e-10, 2.0])
    for axis, method in zip(axes, METHODS, strict=True):
        pairs = np.array([(truth, estimate) for m, _, estimate, truth in rows if m == method])
        axis.fill_between(limits, limits / 3, 1e-14, color="tab:red", alpha=0.12, lw=0)
        axis.fill_between(limits, limits / 5, limits * 5, color="tab:green", alpha=0.15, lw=0)
        axis.plot(limits, limits, color="black", lw=0.8)
        axis.plot(pairs[:, 0], np.clip(pairs[:, 1], 1e-12, 2.0), ".", ms=2.5, alpha=0.5, color="tab:blue")
        axis.set(title=method, xscale="log", yscale="log", xlim=limits, ylim=(1e-11, 3.0), xlabel="true L2 error")
    axes[0].set_ylabel("estimated error")
    figure.savefig(PICTURE, dpi=130)


if __name__ == "__main__":
    found = collect(80)
    print(summary(found))
    draw(found)
