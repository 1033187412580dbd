"""A picture of a run: domains growing, residuals and errors, estimated and true, against time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from anytimebp.errors import OptionError
from anytimebp.optional import load_optional
from anytimebp.report.headline import ending_words
from anytimebp.results.snapshot import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BLUE, ORANGE, GREY = "#1f5fa8", "#d1661f", "#8a8a8a"
FEW = 30  # moments that are shown as dots


def plot_run(
    result: Result, errors: Sequence[tuple[float, float]] | None = None, *, error_label: str = "L2 error"
) -> Figure:
    """Draw active states, residuals and errors of a run against time. Needs matplotlib.

    Estimated errors are drawn as dashed lines where the trace has them.

    Args:
        result: The result of a run that recorded more than its end.
        errors: Pairs of (seconds, error), for example collected by a callback with `Snapshot.distance`.
        error_label: Label of these errors.

    Examples:
        >>> graph = abp.FactorGraph()
        >>> _ = graph.add_variables(3, 4)
        >>> _ = graph.add_factors([[0, 1], [1, 2], [0, 2]], log_table=np.eye(4))
        >>> figure = abp.plot_run(abp.infer(graph, "bp", record=abp.Every(rounds=1, estimates=True)))
        >>> figure.savefig("run.png")

    Returns:
        A matplotlib figure; save it with `savefig`.
    """
    if not isinstance(result, Result):
        msg = f"plot_run needs a Result of infer, got {type(result).__name__}"
        raise OptionError(msg)
    figure_class = load_optional("matplotlib.figure", "plot").Figure  # no pyplot: nothing global, no window
    trace = result.trace
    seconds, estimates = trace.column("seconds"), _positive(trace.column("estimated_error"))
    shows_errors = bool(errors) or bool(np.isfinite(estimates).any())
    figure = figure_class(figsize=(7.0, 6.4 if shows_errors else 4.6), layout="constrained")
    panels = figure.subplots(3 if shows_errors else 2, 1, sharex=True)
    _draw_states(panels[0], seconds, trace.column("states"), result.n_states)
    _draw_residuals(panels[1], seconds, trace.column("max_residual"), trace.column("mean_residual"), result.tolerance)
    if shows_errors:
        _draw_errors(panels[2], errors or (), (seconds, estimates), error_label)
    panels[-1].set_xlabel("seconds")
    panels[0].set_title(f"{result.method}: {ending_words(result.stop_reason).lower()}", loc="left")
    return figure  # type: ignore[no-any-return]


def _draw_states(panel: Any, seconds: Any, states: Any, n_states: int) -> None:
    panel.plot(seconds, states, color=BLUE, drawstyle="steps-post", **_dots(seconds))
    panel.axhline(n_states, color=GREY, linewidth=0.8, linestyle=":")
    panel.set_ylim(0, 1.15 * max(n_states, 1))
    panel.set_ylabel("active states")
    where = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
    panel.annotate(f"all {n_states:,}", (0.0, n_states), (4, 3), **where, color=GREY, fontsize=8)
    panel.margins(x=0.01)


def _draw_residuals(panel: Any, seconds: Any, largest: Any, mean: Any, tolerance: float) -> None:
    panel.plot(seconds, _positive(largest), color=BLUE, label="largest", **_dots(seconds))
    panel.plot(seconds, _positive(mean), color=ORANGE, label="mean", **_dots(seconds))
    panel.axhline(tolerance, color=GREY, linewidth=0.8, linestyle=":", label="tolerance")
    panel.set_yscale("log")
    panel.set_ylabel("residual (nats)")
    panel.legend(frameon=False, fontsize=8, loc="best")


def _draw_errors(panel: Any, errors: Sequence[tuple[float, float]], estimated: tuple[Any, Any], label: str) -> None:
    """Draw the errors that the caller has measured, and those that the run has estimated."""
    seconds, estimates = estimated
    known = np.isfinite(estimates)
    if errors:
        when, value = np.array(errors, dtype=np.float64).reshape(-1, 2).T
        panel.plot(when, _positive(value), color=BLUE, label="measured", **_dots(when))
    if known.any():
        style = {"color": ORANGE, "linestyle": "--", "label": "estimated"}
        panel.plot(seconds[known], estimates[known], **style, **_dots(seconds[known]))
    if errors and known.any():
        panel.legend(frameon=False, fontsize=8, loc="best")
    panel.set_yscale("log")
    panel.set_ylabel(label if errors else "estimated distance to BP")


def _dots(seconds: Any) -> dict[str, Any]:
    """Return a marker for traces so short that a line would not show."""
    return {"marker": "o", "markersize": 3} if len(seconds) < FEW else {}


def _positive(values: Any) -> Any:
    """Return the numbers that a logarithmic axis can show; others become gaps."""
    return np.where(np.isfinite(values) & (values > 0.0), values, np.nan)
