"""Figures of the experiments: mean curves with their spread, on log axes, one colour per contender throughout."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from anytimebp_evaluation.contenders import CONTENDERS
from anytimebp_evaluation.curves import Mean, mean_curve
from anytimebp_evaluation.published import DOMAINS_AT, DOMAINS_GAIN, JOINT_SECONDS
from anytimebp_evaluation.runs import Cost, Runs, Spread
from anytimebp_evaluation.sampling import Curve

INK, FAINT = "#22303c", "#d5dbe0"
ERRORS = {"tv": "total variation", "l2": "L2 error"}
AXES = {"seconds": "seconds", "work": "table entries read"}
EVERY_RUN = "time and work to the error; no point where some run does not reach it"
GROWN = ("fixed", "dynamic", "adaptive")


def draw_grids(runs: Runs, family: str) -> Figure:
    """Draw errors of all contenders against time and against work."""
    size = runs.plan.sizes[0]
    figure, panels = _panels(len(AXES), len(ERRORS), (10.4, 7.2), shared=False)
    drawn = [name for name in runs.plan.contenders if CONTENDERS[name].drawn]
    shown_here = itertools.product(AXES.items(), ERRORS.items())
    for panel, ((axis, axis_name), (figure_name, shown)) in zip(panels.ravel(), shown_here, strict=True):
        for name in drawn:
            mean = _draw_mean(panel, runs.curves(family, size, name), name, axis, figure_name)
            if name == "truncbp":  # it is through, and stays where it is
                panel.axhline(mean.mean[-1], color=CONTENDERS[name].colour, linewidth=1.0, linestyle="--")
        if figure_name == "l2":
            panel.axhline(runs.plan.error, color=INK, linewidth=0.8, linestyle=":")
        panel.set_ylim(bottom=1e-10)
        _label(panel, axis_name, shown)
    _legend(figure, drawn)
    side, counts = runs.plan.side, [len(runs.seeds(family, size))]
    _title(figure, f"{side} x {side} grid, {size} states, {family}: {runs.plan.scores(family)}", counts)
    return figure


def draw_residuals(runs: Runs) -> Figure:
    """Draw mean residuals, by the formula of the paper, against work."""
    size, families = runs.plan.sizes[0], runs.families()
    figure, panels = _panels(1, len(families), (3.2 * max(2, len(families)), 3.8), shared=True)
    for panel, family in zip(panels[0], families, strict=True):
        for name in runs.plan.contenders:
            _draw_mean(panel, runs.curves(family, size, name), name, "work", "mean_residual")
        panel.set_ylim(bottom=1e-10)
        _label(panel, AXES["work"], "mean residual (nats)")
        panel.set_title(family, fontsize=8, color=INK)
    _legend(figure, runs.plan.contenders)
    side, counts = runs.plan.side, [len(runs.seeds(family, size)) for family in families]
    _title(figure, f"{side} x {side} grids, {size} states: residuals by the formula of the paper", counts)
    return figure


def _draw_mean(panel: Any, curves: Sequence[Curve], name: str, axis: str, figure_name: str) -> Mean:
    """Draw the mean curve of a contender, shaded from the lowest run to the highest."""
    mean, colour = mean_curve(curves, axis, figure_name), CONTENDERS[name].colour
    panel.plot(mean.at, mean.mean, color=colour, linewidth=2.4 if name == "adaptive" else 1.6)
    panel.fill_between(mean.at, mean.low, mean.high, color=colour, alpha=0.13, linewidth=0)
    panel.plot(mean.at[-1], mean.mean[-1], "o", color=colour, markersize=3.5)
    return mean


def draw_domains(runs: Runs) -> Figure:
    """Draw what the error costs against the number of states."""
    figure, panels = _sizes(runs, "states")
    if DOMAINS_AT in runs.plan.sizes:
        for panel in panels[1:].ravel():
            panel.plot([DOMAINS_AT] * 2, DOMAINS_GAIN, color=INK, linewidth=5, alpha=0.35, solid_capstyle="butt")
            style = {"fontsize": 8, "color": INK, "textcoords": "offset points", "va": "center"}
            panel.annotate("paper (time)", (DOMAINS_AT, np.sqrt(np.prod(DOMAINS_GAIN))), (6, 0), **style)
    side = runs.plan.side
    _title(figure, f"{side} x {side} grids: {EVERY_RUN}", runs.counts().values())
    return figure


def draw_joint(runs: Runs) -> Figure:
    """Draw what the error costs against the number of entities."""
    figure, panels = _sizes(runs, "entities")
    for panel in panels[1:].ravel():
        for name in ("fixed", "dynamic"):
            paper = {n: JOINT_SECONDS["bp-random"][n] / seconds for n, seconds in JOINT_SECONDS[name].items()}
            panel.plot(list(paper), list(paper.values()), "--", color=CONTENDERS[name].colour, linewidth=1.2)
        panel.set_title("dashed: times of the paper, on models of its own", fontsize=8, color=INK, loc="left")
    _title(figure, f"Joint extraction: {EVERY_RUN}", runs.counts().values())
    return figure


def _sizes(runs: Runs, what: str) -> tuple[Figure, Any]:
    """Draw, family by family, the time to the error and the gains over BP in time and in work against size."""
    families = runs.families()
    figure, panels = _panels(3, len(families), (4.4 * max(2, len(families)), 10.0), shared=True)
    for (top, middle, bottom), family in zip(panels.T, families, strict=True):
        _draw_spread(top, runs, family, runs.plan.contenders, lambda cost: cost.seconds)
        sizes = runs.sizes(family)
        _draw_spread(middle, runs, family, GROWN, lambda cost: cost.faster)
        _draw_spread(bottom, runs, family, GROWN, lambda cost: cost.less_work)
        for panel in (middle, bottom):
            panel.axhline(1.0, color=INK, linewidth=0.8, linestyle=":")
        _label(top, what, f"seconds to L2 < {runs.plan.error:g}", sizes)
        _label(middle, what, "times faster than BP, random", sizes)
        _label(bottom, what, "times less work than BP, random", sizes)
        top.set_title(f"{family}\n{runs.plan.scores(family)}", fontsize=8, color=INK)
    _legend(figure, runs.plan.contenders)
    return figure, panels


def _draw_spread(
    panel: Any, runs: Runs, family: str, contenders: Sequence[str], figure: Callable[[Cost], Spread]
) -> None:
    """Draw a figure of contenders against size, where all runs have got there."""
    for name in contenders:
        costs = {size: runs.cost(family, size, name, runs.plan.error) for size in runs.sizes(family)}
        there = {size: figure(cost) for size, cost in costs.items() if cost.reached == cost.runs}
        mean, low, high = zip(*there.values(), strict=True) if there else ((), (), ())
        panel.plot(list(there), mean, "o-", color=CONTENDERS[name].colour, markersize=3.5)
        panel.fill_between(list(there), low, high, color=CONTENDERS[name].colour, alpha=0.13, linewidth=0)


def _panels(rows: int, columns: int, size: tuple[float, float], *, shared: bool) -> tuple[Figure, Any]:
    """Return a figure and its panels, those of a row on a shared scale or not; without pyplot: nothing global."""
    figure = Figure(figsize=size, layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, sharey="row" if shared else "none")


def _label(panel: Any, below: str, beside: str, ticks: Sequence[int] = ()) -> None:
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.minorticks_off()
    if ticks:
        panel.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    panel.set_xlabel(below, fontsize=9, color=INK)
    panel.set_ylabel(beside, fontsize=9, color=INK)
    panel.grid(color=FAINT, linewidth=0.5)
    panel.spines[["top", "right"]].set_visible(False)
    panel.tick_params(colors=INK, labelsize=8)


def _legend(figure: Figure, contenders: Sequence[str]) -> None:
    handles = [Line2D([], [], color=CONTENDERS[name].colour, linewidth=2.4) for name in contenders]
    labels = [CONTENDERS[name].label for name in contenders]
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False, fontsize=9)


def _title(figure: Figure, text: str, counts: Iterable[int]) -> None:
    known = sorted({count for count in counts if count})
    runs = f"{known[0]} to {known[-1]}" if len(known) > 1 else f"{known[0]}"
    shown = f"{text}\ngeometric mean of {runs} run{'' if runs == '1' else 's'}, shaded from the lowest to the highest"
    figure.suptitle(shown, fontsize=11, color=INK)
