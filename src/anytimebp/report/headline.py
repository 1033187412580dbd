"""The head of a report: how the run ended, how good its answer is, and its figures, each with an explanation."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from anytimebp.inference.methods import FULL_METHODS
from anytimebp.report.wording import Chosen, exact_cost_text, figure_text, printable, probability_text, share_text
from anytimebp.results.snapshot import Result
from anytimebp.results.stop import StopReason

METHOD_HELP = {
    "bp": "All states take part from the start; messages are updated in sweeps.",
    "residual": "All states take part from the start; the message that would move the most is updated next.",
    "truncated": "A fixed part of each variable's states takes part; the others are held at zero.",
    "random": "Variables start with one state each; the next state to join is drawn at random.",
    "fixed": "Variables start with one state each; the others join in an order computed once.",
    "dynamic": "Variables start with one state each; the state that seems likeliest as things stand joins next.",
    "exact": "Sums over all joint states on a junction tree; nothing is approximated.",
    "adaptive": "Starts with the likely states, in batches, where that pays; then goes on to all of them.",
}


class Figure(NamedTuple):
    """One figure of a run, as text; a figure that depends on the clock has the id of its place instead of a value."""

    name: str
    value: str
    help: str
    filled_later: str = ""


def escape(text: object) -> str:
    """Return a text for HTML, quotes included."""
    return html.escape(printable(str(text)), quote=True)


def with_code(sentence: str) -> str:
    """Return a sentence as HTML, with text between backquotes as code."""
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(sentence))


def verdict_html(result: Result) -> str:
    """Return how the run ended, and how far the answer can be trusted if there is any doubt."""
    reason = result.stop_reason
    is_exact = result.method == "exact" and result.exact
    sentence = "The marginals are exact" if is_exact else _capital(str(reason).removeprefix("converged: "))
    good = reason is StopReason.TARGET_REACHED or (result.consistent and reason is StopReason.CONVERGED)
    head = f'<strong>{escape(ending_words(reason))}</strong> <code class="reason">{escape(reason.name)}</code>'
    parts = [
        f'<p class="ending {"good" if good else "early"}">{head}</p>',
        f'<p class="sentence">{with_code(sentence)}.</p>',
    ]
    caution = _caution(result)
    if caution:
        alarm = not result.consistent and reason is not StopReason.TARGET_REACHED
        kind = 'class="warning" role="alert"' if alarm else 'class="note"'
        parts.append(f"<p {kind}>{caution}</p>")
    return "\n".join(parts)


def ending_words(reason: StopReason) -> str:
    """Return the name of a stop reason as words."""
    return _capital(reason.name.replace("_", " ").lower())


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _caution(result: Result) -> str:
    """Return what a reader must know before using the marginals, or nothing."""
    if result.consistent:
        return " ".join(filter(None, (_not_everything(result), _not_the_last(result), _loops(result))))
    moving = (
        f"messages were still moving by up to {figure_text(result.max_residual, 2)} nats"
        if math.isfinite(result.max_residual)
        else "not every message had been computed even once"
    )
    if result.stop_reason is StopReason.TARGET_REACHED:
        return (
            f"The messages had not settled: when the run ended, {moving}. What that leaves to change in the marginals "
            "is estimated to be less than was asked for; it is an estimate, not a bound."
        )
    return (
        "<strong>The marginals on this page are not settled.</strong> "
        f"When the run ended, {moving}. Take the probabilities as a first guess: they may still change a lot."
    )


def _not_everything(result: Result) -> str:
    mass = result.unexplored_mass
    if mass == 0.0:
        return ""
    unknown = "how much they hold cannot be estimated, because hard zeros shut some of them out as things stand"
    estimate = f"they are estimated to hold up to {probability_text(mass)} of the probability of a variable"
    return (
        "Not all states took part. The marginals are settled among those that did; the others "
        f"{_fate_of_others(result)}, and {unknown if math.isnan(mass) else estimate}."
    )


def _loops(result: Result) -> str:
    """Say that BP is an approximation on models with loops, and what exact inference would cost."""
    cost = "" if result.exact else exact_cost_text(result.exact_entries)
    if not cost:
        return ""
    return (
        "The model has loops, on which belief propagation itself is an approximation and may be off; "
        f"{escape(cost)} (<code>method=&quot;exact&quot;</code>)."
    )


def _not_the_last(result: Result) -> str:
    later = result.current.updates - result.updates
    if later <= 0:
        return ""
    return (
        f"The run was stopped {later:,} updates later, before messages had settled again; this is the last settled one."
    )


def figures(result: Result) -> list[Figure]:
    """Return the figures of a run with a word on each."""
    active, everything = int(result.domain_sizes.sum()), result.n_states
    tolerance = figure_text(result.tolerance, 3)
    rows = [
        Figure("Consistent", "yes" if result.consistent else "no", _consistency_help(result, tolerance)),
        *([Figure("Exact", "yes", EXACT_HELP)] if result.exact else []),
        Figure(f"Estimated distance to {result.estimated_to}", _error(result), _error_help(result)),
        Figure("Largest residual", _nats(result.max_residual), _residual_help(result, tolerance)),
        Figure("log Z", figure_text(result.log_z, 9), EXACT_LOG_Z_HELP if result.exact else LOG_Z_HELP),
        Figure("Unexplored mass", _mass(result), _mass_help(result)),
        Figure(
            "Active states",
            f"{active:,} of {everything:,} ({share_text(active, everything)})",
            "States that take part, of all variables together."
            + (f" The others {_fate_of_others(result)}." if active < everything else ""),
        ),
        Figure("Time", "", TIME_HELP, filled_later="seconds"),
        Figure("Work", f"{result.work:,}", "Table entries read or scored: a cost that does not depend on the machine."),
        Figure("Updates", f"{result.updates:,}", "How often a factor has sent messages to its variables."),
        Figure("Method", result.method, METHOD_HELP.get(result.method, "How messages and states were chosen.")),
        Figure("Arithmetic", result.arithmetic, ARITHMETIC_HELP.get(result.arithmetic, "")),
    ]
    if result.damping > 0.0:
        rows.append(
            Figure("Damping", figure_text(result.damping, 3), "Part of the old message that each update has kept.")
        )
    return rows


LOG_Z_HELP = (
    "Natural logarithm of the sum over all joint states, as belief propagation estimates it on the active states. "
    "Exact for models without loops."
)
EXACT_LOG_Z_HELP = "Natural logarithm of the sum over all joint states."
ERROR_HELP = (
    "Estimated distance to the marginals that belief propagation ends at: Euclidean, a mean over the variables. "
    "An estimate, not a bound."
)
LIKELY_ERROR_HELP = (
    "Estimated distance to the exact marginals of the whole model, by what states outside weigh: Euclidean, a mean "
    "over the variables. An estimate, not a bound."
)
EXACT_HELP = "The marginals and log Z are those of the whole model, to rounding."
EXACT_ERROR_HELP = "The marginals are exact: nothing is left to estimate."
TIME_HELP = "Time of the run up to this answer, without that of callbacks."
ARITHMETIC_HELP = {
    "linear": "Messages are plain numbers, which is faster than logarithms.",
    "log": "Messages are logarithms: the scores of this model range too widely for plain numbers.",
}


def _nats(value: float) -> str:
    return figure_text(value, 3) + (" nats" if math.isfinite(value) else "")


def _error(result: Result) -> str:
    return figure_text(result.estimated_error, 2) if math.isfinite(result.estimated_error) else "unknown"


def _error_help(result: Result) -> str:
    if result.exact:
        return EXACT_ERROR_HELP
    return LIKELY_ERROR_HELP if result.method == "exact" else ERROR_HELP


def _fate_of_others(result: Result) -> str:
    return "have estimates, or probability 0" if result.method == "adaptive" else "are held at probability 0"


def _mass(result: Result) -> str:
    """Return the unexplored mass; before the first message it is shown as all of the belief, not as almost all."""
    mass = result.unexplored_mass
    return probability_text(mass, alone=mass == 1.0 and not result.consistent)


def _consistency_help(result: Result, tolerance: str) -> str:
    if result.exact:
        return "Nothing is left to settle."
    if result.consistent:
        return f"On the active states, no message would move by more than the tolerance of {tolerance} nats."
    return f"Some message would still move by more than the tolerance of {tolerance} nats."


def _residual_help(result: Result, tolerance: str) -> str:
    if result.consistent and result.max_residual > result.tolerance:
        return (
            "How far messages of the active states moved when the other states were last taken into account, "
            f"before they settled to {tolerance}. One nat is a factor of 2.7."
        )
    return f"How far the least settled message still moves. One nat is a factor of 2.7; the tolerance is {tolerance}."


def _mass_help(result: Result) -> str:
    if result.method in FULL_METHODS or (result.method == "exact" and result.exact):
        return "All states that the evidence allows took part, so that nothing is left to explore."
    if math.isnan(result.unexplored_mass):
        return "Unknown while hard zeros shut states out that others, which do not take part yet, may let in."
    return (
        "Estimated probability of the states that did not take part, for the variable that misses the most. "
        "An estimate, not a bound."
    )


def figures_html(rows: list[Figure]) -> str:
    """Return the figures as a list of definitions."""
    return "\n".join(
        f'<div><dt>{escape(row.name)}</dt><dd class="value"{_place(row)}>{escape(row.value)}</dd>'
        f'<dd class="help">{_unbroken(escape(row.help))}</dd></div>'
        for row in rows
    )


def _unbroken(text: str) -> str:
    """Keep numbers such as 1e-8 on one line."""
    return re.sub(r"[\d.]+e-\d+", r'<span class="unbroken">\g<0></span>', text)


def _place(row: Figure) -> str:
    return f' id="{row.filled_later}"' if row.filled_later else ""


def choices_html(choices: Sequence[Chosen]) -> str:
    """Return what was chosen, and why, as a list; nothing if there was no choice."""
    if not choices:
        return ""
    lines = "\n".join(
        f'<li><span class="when">{each.updates:,} updates</span>'
        f"<span><strong>{escape(each.way)}</strong>{escape(f': {each.reason}' if each.reason else '')}</span></li>"
        for each in choices
    )
    return (
        '<h3 id="choices-title">What the method chose <small>and after how many updates that was seen</small></h3>\n'
        f'<ol class="choices" aria-labelledby="choices-title">\n{lines}\n</ol>'
    )


def about_html(about: Mapping[str, str] | None) -> str:
    """Return the caller's lines on what was run, as given."""
    if not about:
        return ""
    lines = "\n".join(f"<div><dt>{escape(k)}</dt><dd><bdi>{escape(v)}</bdi></dd></div>" for k, v in about.items())
    return f'<dl class="about">\n{lines}\n</dl>'
