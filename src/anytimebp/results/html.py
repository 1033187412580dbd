"""A small HTML view of a result for notebooks."""

from __future__ import annotations

import html
from collections.abc import Mapping

from anytimebp.results.marginals import Marginals

SHOWN_VARIABLES = 12
SHOWN_STATES = 3


def result_html(figures: Mapping[str, str], marginals: Marginals) -> str:
    """Return a table of figures and a table of the likeliest states of the first variables."""
    head = "".join(f"<tr><th>{html.escape(k)}</th><td>{html.escape(v)}</td></tr>" for k, v in figures.items())
    body = "".join(_variable_row(marginals, i) for i in marginals.indices[:SHOWN_VARIABLES])
    more = len(marginals) - SHOWN_VARIABLES
    rest = f"<p>and {more:,} more variables</p>" if more > 0 else ""
    return (
        f"<div><table>{head}</table><table><thead><tr><th>variable</th><th>likeliest states</th></tr></thead>"
        f"<tbody>{body}</tbody></table>{rest}</div>"
    )


def _variable_row(marginals: Marginals, index: int) -> str:
    name = html.escape(marginals.variables.name(index))
    states = ", ".join(
        f"{html.escape(str(label))} <b>{probability:.3f}</b>"
        for label, probability in marginals.top(index, SHOWN_STATES)
    )
    return f"<tr><td>{name}</td><td>{states}</td></tr>"
