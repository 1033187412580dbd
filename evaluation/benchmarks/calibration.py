"""How good `estimated_error` is: estimates and truths over many snapshots, as a table and as a picture.

`python evaluation/benchmarks/calibration.py` prints the table and draws docs/calibration.png. Models are random grids
from flat to very peaked, joint extraction, attractive and truncated-linear grids, random graphs, and the real ones
where their files are there. The truth is where the same run ends; runs that do not settle are left out, as there is
none. Truths under 1e-8 are left out as well: that is what the tolerance leaves.
"""

import itertools
import os
import warnings
from pathlib import Path

import models
import numpy as np
from matplotlib.figure import Figure
from timing import table, verdict

import anytimebp as abp
from anytimebp_evaluation.pictures import save_figure

DATA = Path(os.environ.get("ANYTIMEBP_DATA", Path(__file__).parents[3] / "shared" / "data")) / "models"
PICTURE = Path(__file__).parents[2] / "docs" / "calibration.png"
METHODS = {"adaptive": "round", "bp": "round", "residual": "round", "dynamic": abp.Every(growth=1.3)}
SMALLEST = 1e-8  # truth that the tolerance leaves
LONGEST = 60.0  # seconds to the end of a run, after which it counts as one that does not settle
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


def slow_models():
    """Yield names and graphs on which sweeps may settle slowly: neighbours that like to agree, and random graphs."""
    for seed in range(3):
        for states, coupling, unary in itertools.product((2, 5, 20, 80), (0.2, 0.35, 0.5, 0.8), (0.3, 1.0, 3.0)):
            side = 20 if states == 2 else 8
            yield "attractive grids", models.attractive(side, states, coupling, unary, seed)
        for size in SMOOTH:
            yield "truncated-linear grids", models.truncated_linear(*size, seed)
    for seed in range(60):
        yield "random graphs", models.random_pairs(seed)


SMOOTH = (
    (7, 80, 0.5, 1.0),
    (10, 40, 0.5, 1.0),
    (7, 40, 0.5, 0.3),
    (7, 80, 1.0, 1.0),
    (10, 80, 0.5, 3.0),
    (8, 20, 0.2, 2.0),
)


def real_models():
    """Yield names, graphs and evidence of the real models that are there."""
    for path in sorted(DATA.glob("*.uai")):
        yield "real", abp.read_model(path), None
        for evidence in sorted(DATA.glob(f"{path.name}*.evid")):
            graph = abp.read_model(path)
            yield "real", graph, abp.read_evidence(evidence, graph)


def collect(count):
    """Return rows of (method, kind of model, estimate, truth) for every recorded snapshot."""
    rows = []
    for kind, graph, *evidence in (*random_models(count), *slow_models(), *real_models()):
        given = evidence[0] if evidence else None
        for method, record in METHODS.items():
            if method == "dynamic" and graph.summary().table_entries > LARGE:
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                _snapshots(rows, graph, given, method, record, kind)
    return rows


def _snapshots(rows, graph, evidence, method, record, kind):
    end = abp.infer(graph, method, evidence=evidence, tolerance=1e-12, record="end", seconds=LONGEST)
    if end.stop_reason is not abp.StopReason.CONVERGED:
        return

    def look(snapshot):
        truth = snapshot.distance(end)
        if truth > SMALLEST:
            rows.append((method, kind, snapshot.estimated_error, truth))

    abp.infer(graph, method, evidence=evidence, record=record, callback=look)


def summary(rows):
    """Return a table: how many estimates are far too small, and how many are near the truth."""
    lines = []
    kinds = list(dict.fromkeys(kind for _, kind, _, _ in rows))
    for method, kind in itertools.product(METHODS, [*kinds, "all"]):
        chosen = [(e, t) for m, k, e, t in rows if m == method and kind in (k, "all")]
        if not chosen:
            continue
        ratio = np.array([estimate / truth for estimate, truth in chosen])
        low, near = float((ratio < 1 / 3).mean()), float(((ratio > 0.1) & (ratio < 10)).mean())
        met = verdict(met=low <= 0.05 and near >= 0.8)
        lines.append([method, kind, len(ratio), f"{low:.1%}", f"{near:.1%}", f"{np.median(ratio):.2g}", met])
    header = ["method", "models", "snapshots", "under a third", "within 10 times", "median ratio", "5 %, 80 %"]
    return table(header, lines)


def draw(rows):
    """Draw estimates against truths."""
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
    save_figure(figure, PICTURE, dpi=130)


if __name__ == "__main__":
    found = collect(80)
    print(summary(found))
    draw(found)
