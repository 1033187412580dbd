"""Draws docs/picture.png, the picture at the head of the README. Needs the evaluation (`pip install ./evaluation`)."""

from pathlib import Path

import matplotlib as mpl
import numpy as np

mpl.use("Agg")
import matplotlib.pyplot as plt

import anytimebp as abp
from anytimebp.cli.demo import LOCAL_TYPES, TYPES, build
from anytimebp_evaluation.pictures import save_figure

HERE = Path(__file__).resolve().parent

INK, BLUE, GREY, ORANGE = "#22303c", "#2f6db5", "#c9d1d8", "#d9822b"


def grid(side: int, states: int, seed: int) -> abp.FactorGraph:
    """Return a square grid with Normal(0, 3) unary and Normal(0, 1) pairwise log scores."""
    rng = np.random.default_rng(seed)
    graph = abp.FactorGraph()
    graph.add_variables(side * side, states)
    place = np.arange(side * side).reshape(side, side)
    across = np.stack([place[:, :-1], place[:, 1:]], axis=-1).reshape(-1, 2)
    down = np.stack([place[:-1], place[1:]], axis=-1).reshape(-1, 2)
    pairs = np.concatenate([across, down])
    graph.add_factors(place.reshape(-1, 1), log_table=rng.normal(0, 3, (side * side, states)))
    graph.add_factors(pairs, log_table=rng.normal(0, 1, (len(pairs), states, states)))
    return graph


def draw_marginals(axes: plt.Axes) -> None:
    """Draw the types of the demo's mentions, alone and jointly."""
    graph = build()
    result = abp.infer(graph)
    mentions = list(LOCAL_TYPES)
    for row, mention in enumerate(reversed(mentions)):
        alone = np.exp(graph.factor_log_table(next(f for f in range(99) if graph.factor_scope(f) == (mention,))))
        alone /= alone.sum()
        together = result.marginals[mention]
        for offset, belief, strong in ((0.2, alone, GREY), (-0.2, together, BLUE)):
            best = int(belief.argmax())
            axes.barh(row + offset, belief[best], height=0.36, color=strong)
            axes.text(belief[best] + 0.02, row + offset, TYPES[best], va="center", fontsize=9, color=INK)
    axes.set_yticks(range(len(mentions)), list(reversed(mentions)), fontsize=10)
    axes.set_xlim(0, 1.3)
    axes.set_xticks([0, 0.5, 1])
    axes.set_xlabel("probability", fontsize=9)
    axes.set_title("likeliest type: each mention alone (grey), all together (blue)", fontsize=10, color=INK)


def draw_residuals(axes: plt.Axes) -> None:
    """Draw the largest residual against time on a grid of 100 states, for both methods."""
    graph = grid(10, 100, seed=0)
    for method, colour in (("bp", BLUE), ("residual", ORANGE)):
        runs = [abp.infer(graph, method, tolerance=1e-10) for _ in range(7)]
        trace = min(runs, key=lambda run: run.seconds).trace
        axes.semilogy(1000 * trace.column("seconds"), trace.column("max_residual"), marker="o", ms=3, color=colour)
        last = trace[-1]
        axes.annotate(
            method,
            (1000 * last.seconds, last.max_residual),
            xytext=(6, 2),
            textcoords="offset points",
            color=colour,
            fontsize=10,
        )
    axes.set_xlim(0, 1.2 * axes.get_xlim()[1])
    axes.set_xlabel("milliseconds", fontsize=9)
    axes.set_title("10 x 10 grid, 100 states: largest residual (nats)", fontsize=10, color=INK)


def main() -> None:
    """Write the picture."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.2), dpi=150, width_ratios=[1.15, 1])
    draw_marginals(left)
    draw_residuals(right)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(colors=INK, labelsize=9)
    figure.tight_layout()
    save_figure(figure, HERE / "picture.png", figure.dpi)


if __name__ == "__main__":
    main()
