"""One HTML file that shows a run: how it ended, how it went, and what it found.

Decides what goes into the file; `assets/` holds its looks and behaviour. Nothing in it depends on the clock except the
block with the id `timings`, and opening it needs no network.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import os
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from numbers import Integral
from string import Template

from anytimebp.errors import OptionError
from anytimebp.formats.whole_file import whole_file
from anytimebp.report.headline import (
    about_html,
    choices_html,
    ending_words,
    escape,
    figures,
    figures_html,
    verdict_html,
    with_code,
)
from anytimebp.report.shown_marginals import left_out, shown_marginals
from anytimebp.report.wording import choices_of
from anytimebp.results.snapshot import Result
from anytimebp.results.trace import Moment

MOST_POINTS = 2_000  # drawn per line: about one for each pixel
CURVES = ("updates", "work", "states", "max_residual", "mean_residual", "log_z", "unexplored_mass", "estimated_error")
SCRIPTS = ("axes.js", "plots.js", "marginals.js")


def write_report(result: Result, path: str | os.PathLike[str], *, about: Mapping[str, str] | None = None) -> None:
    """Write an HTML page about a run. It opens in any browser, without a network.

    Args:
        result: A result of `infer`. The page draws its trace. To see log Z and estimated errors over the whole run,
            record them with `record=Every(rounds=1, estimates=True)`.
        path: The file to write. An existing file is replaced once the new one is complete.
        about: Further lines about the run, such as the name of the model's file.

    Examples:
        >>> graph = abp.FactorGraph()
        >>> _ = graph.add_variables(3, 4)
        >>> _ = graph.add_factors([[0, 1], [1, 2], [0, 2]], log_table=np.eye(4))
        >>> result = abp.infer(graph, "bp", record=abp.Every(rounds=1, estimates=True))
        >>> abp.write_report(result, "run.html")
    """
    page = page_html(result, about=about).encode("utf-8")
    with whole_file(path) as file:
        file.write(page)


def page_html(result: Result, *, about: Mapping[str, str] | None = None) -> str:
    """Return the page that `write_report` writes.

    Two runs that give the same figures give the same page, but for the block of timings.
    """
    if not isinstance(result, Result):
        msg = f"a report needs a Result of infer, got {type(result).__name__}"
        raise OptionError(msg)
    points = thinned(_with_the_end(result), MOST_POINTS)
    shown = shown_marginals(result.marginals, result.domain_sizes)
    style, script = _asset("page.css"), "\n".join(map(_asset, SCRIPTS))
    heading = f"Run of {result.method} on {len(result.marginals):,} variable{'s' if len(result.marginals) != 1 else ''}"
    return Template(_asset("page.html")).substitute(
        title=escape(f"{heading}: {ending_words(result.stop_reason).lower()}"),
        heading=escape(heading),
        policy=f"default-src 'none'; img-src data:; style-src {_digest(style)}; script-src {_digest(script)}",
        style=style,
        script=script,
        about=about_html(about),
        verdict=verdict_html(result),
        figures=figures_html(figures(result)),
        choices=choices_html(choices_of(result.trace)),
        left_out=with_code(left_out(shown, len(result.marginals))),
        run=as_json(_run(result, points)),
        timings=as_json(_timings(result, points)),
        marginals=as_json(shown),
    )


def _with_the_end(result: Result) -> list[Moment]:
    """Return the moments of the trace; if the last one has no estimates, it gets those of the result."""
    moments = list(result.trace)
    for name in ("unexplored_mass", "estimated_error"):
        if moments and math.isnan(getattr(moments[-1], name)):
            moments[-1] = moments[-1]._replace(**{name: getattr(result, name)})
    return moments


def thinned(points: Sequence[Moment], most: int) -> list[Moment]:
    """Return at most a given number of points, evenly spaced, with the first and the last."""
    if len(points) <= most:
        return list(points)
    last = len(points) - 1
    return [points[i * last // (most - 1)] for i in range(most)]


def as_json(value: object) -> str:
    """Return JSON for a script element: ASCII without `<`, and null for numbers that are not finite."""
    return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def _run(result: Result, points: Sequence[Moment]) -> dict[str, object]:
    """Return the figures to draw, column by column."""
    return {
        "points": {name: [_finite(getattr(point, name)) for point in points] for name in CURVES},
        "n_points": len(result.trace),
        "all_states": result.n_states,
        "tolerance": _finite(result.tolerance),
        "explored": result.unexplored_mass == 0.0,
    }


def _timings(result: Result, points: Sequence[Moment]) -> dict[str, object]:
    """Return everything that depends on the clock."""
    return {
        "points": [_finite(point.seconds) for point in points],
        "answer": _finite(result.seconds),
        "stopped": _finite(result.current.seconds),
    }


def _finite(value: float) -> float | None:
    """Return a Python float; numbers of NumPy are converted."""
    if not math.isfinite(value):
        return None
    return int(value) if isinstance(value, Integral) else float(value)


@cache
def _asset(name: str) -> str:
    return (files("anytimebp.report") / "assets" / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    """Return the hash of a script or style, by which the page's content security policy allows it."""
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"
