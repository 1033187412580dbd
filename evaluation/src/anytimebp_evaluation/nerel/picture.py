"""The picture of the experiment: F1 against seconds per document."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from matplotlib import ticker
from matplotlib.figure import Figure

from anytimebp_evaluation.contenders import CONTENDERS
from anytimebp_evaluation.nerel.summary import Rows, Summary, by_time
from anytimebp_evaluation.nerel.task import LOCAL, Row

STYLES: dict[str, dict[str, Any]] = {
    method: {"color": CONTENDERS[method].colour, "marker": marker, "label": method}
    for method, marker in (("bp", "s"), ("adaptive", "o"))
}
GREY = "#6a6a6a"


def draw_nerel(rows: Iterable[Row]) -> Figure:
    """Draw F1 of relations and of types against the mean seconds per document.

    A filled mark is a budget, the last and hollow one the run to the end. Shaded: from the lowest to the highest seed.
    """
    figure = Figure(figsize=(10.0, 4.4), layout="constrained")
    sorted_rows = Rows(known := list(rows))
    left, right = figure.subplots(1, 2)
    if sorted_rows.documents:
        summaries = sorted_rows.summaries()
        of_seeds = [
            Rows(row for row in known if int(float(row["seed"])) == seed).summaries() for seed in sorted_rows.seeds
        ]
        _draw(left, summaries, of_seeds, lambda one: one.relation_f1, "relations")
        _draw(right, summaries, of_seeds, lambda one: one.type_f1, "types of entities")
        handles, labels = right.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    count, seeds = len(sorted_rows.documents), len(sorted_rows.seeds)
    shaded = f", mean of {seeds} seeds, shaded from the lowest to the highest" if seeds > 1 else ""
    title = f"Joint extraction on NEREL: {count} test documents{shaded}"
    figure.suptitle(title, x=0.01, ha="left", fontsize=13)
    return figure


def _draw(
    panel: Any,
    summaries: list[Summary],
    of_seeds: list[list[Summary]],
    score: Callable[[Summary], float],
    title: str,
) -> None:
    for method, style in STYLES.items():
        order = by_time(summaries, method)
        milliseconds = [1e3 * one.mean_seconds for one in order]
        panel.plot(milliseconds, [score(one) for one in order], linewidth=1.8, markersize=6, **style)
        scores = [[score(one) for one in by_time(seed, method)] for seed in of_seeds]
        low, high = np.min(scores, axis=0), np.max(scores, axis=0)
        panel.fill_between(milliseconds, low, high, color=style["color"], alpha=0.13, linewidth=0)
        end = {**style, "markerfacecolor": "white", "label": f"{style['label']}, to the end"}
        panel.plot(milliseconds[-1:], [score(order[-1])], linestyle="", markersize=9, zorder=3, **end)
    levels = {one.method: score(one) for one in summaries if one.method in LOCAL}
    _draw_level(panel, levels["local"], "local scores only", "--")
    if levels["pipeline"] != levels["local"]:  # a pipeline has the local types
        _draw_level(panel, levels["pipeline"], "local types first, then relations", ":")
    panel.set_xscale("log")
    panel.xaxis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0)))
    panel.xaxis.set_major_formatter(ticker.FormatStrFormatter("%g"))
    panel.xaxis.set_minor_formatter(ticker.NullFormatter())
    panel.set_xlabel("ms per document (mean)")
    panel.set_title(f"F1 of {title}", loc="left", fontsize=11)
    panel.spines[["top", "right"]].set_visible(False)
    panel.grid(color="#e4e4e4", linewidth=0.6)
    panel.margins(y=0.15)


def _draw_level(panel: Any, level: float, name: str, line: str) -> None:
    """Draw what a contender without inference reaches, with its name under the line."""
    panel.axhline(level, color=GREY, linestyle=line, linewidth=1.2)
    where = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
    panel.annotate(name, (1.0, level), (-4, -4), **where, color=GREY, ha="right", va="top")
