"""Draws docs/run.png, the picture of the page on the method: one run of `dynamic`, with its error against BP.

Needs the evaluation (`pip install ./evaluation`).
"""

from pathlib import Path

import numpy as np

import anytimebp as abp
from anytimebp_evaluation.pictures import save_figure

HERE = Path(__file__).resolve().parent
SIDE, STATES = 10, 100


def grid(seed: int) -> abp.FactorGraph:
    """Return a grid with Normal(0, 10) unary and Normal(0, 1) pairwise log scores."""
    rng = np.random.default_rng(seed)
    graph = abp.FactorGraph()
    place = np.array(graph.add_variables(SIDE * SIDE, STATES)).reshape(SIDE, SIDE)
    across = np.stack([place[:, :-1], place[:, 1:]], axis=-1).reshape(-1, 2)
    down = np.stack([place[:-1], place[1:]], axis=-1).reshape(-1, 2)
    pairs = np.concatenate([across, down])
    graph.add_factors(place.reshape(-1, 1), log_table=rng.normal(0.0, 10.0, (SIDE * SIDE, STATES)))
    graph.add_factors(pairs, log_table=rng.normal(0.0, 1.0, (len(pairs), STATES, STATES)))
    return graph


def main() -> None:
    """Run, collect errors, draw."""
    graph = grid(seed=0)
    reference = abp.infer(graph, "bp", tolerance=1e-12)
    errors: list[tuple[float, float]] = []
    result = abp.infer(
        graph,
        "dynamic",
        tolerance=1e-6,
        record=abp.Every(states=20),
        callback=lambda snapshot: errors.append((snapshot.seconds, snapshot.distance(reference))),
    )
    save_figure(abp.plot_run(result, errors, error_label="L2 distance to BP"), HERE / "run.png", dpi=130)
    print(f"{len(errors)} moments, last error {errors[-1][1]:.2g}, {result.seconds:.2f} s")


if __name__ == "__main__":
    main()
