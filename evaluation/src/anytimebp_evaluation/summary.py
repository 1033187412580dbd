"""The page of results: tables beside the paper's figures, what the paper saw and whether we do, from raw results."""

from __future__ import annotations

from collections.abc import Sequence

from anytimebp_evaluation.claims import GRID_CLAIMS
from anytimebp_evaluation.contenders import CONTENDERS
from anytimebp_evaluation.markdown import gain, share, sweeps, table, time_cell, times
from anytimebp_evaluation.plans import MOST_SECONDS
from anytimebp_evaluation.published import DOMAINS_AT, DOMAINS_GAIN, GRID_SECONDS, JOINT_SECONDS
from anytimebp_evaluation.runs import Runs
from anytimebp_evaluation.size_claims import DOMAIN_CLAIMS, JOINT_CLAIMS
from anytimebp_evaluation.verdicts import GROWING, Claim, Verdict, judge_all

HEAD = """# Results

The evaluation of "Anytime Belief Propagation Using Sparse Domains" (Singh, Riedel and McCallum, 2013), repeated and
extended. This page is made from the raw results beside it by `anytimebp reproduce`, which measures what is missing.

- **Errors** are distances to the marginals of BP: L2, the Euclidean distance, and total variation, means over
  variables. That BP goes in our order, to a residual of 1e-12. Where there are several fixed points, a method may
  settle *at another fixed point*; that says nothing against it. Errors are measured outside the timed part: times come
  from undisturbed runs or, where those take long, from runs whose clock is paused while errors are computed.
- **Time** is that of a run from a built graph with log scores to the answer, making of the layout and exponentiation
  of tables included, compiling not; one thread. **Work** is the number of table entries read or scored; *messages
  alone* leaves out what is scored to choose states.
- **An error is reached** where the answer of the run comes under it and stays there as far as the run was followed.
  *States needed* are the part of all states that is active then.
- **Residuals** are means over factors. A message that has never been sent counts as infinite, as those of a state that
  has just joined; curves of residuals leave these moments out.
- **BP** is our own, in its own order; *BP, random order* is the baseline of the paper. "Times faster" and "times less
  work" compare with the better of the two on the same model; 1/3 means three times as slow. Means over runs are
  geometric, ranges go from the lowest to the highest run.
- Fixed, Dynamic and Random let **one state join at a time**, as the paper does; *as printed* means the priorities as
  the paper prints them, not normalised per variable. `adaptive`, our default, grows in batches.
- The paper does not say how its potentials were drawn. Ours are stated with every family; the seeds are 0, 1, 2, ...,
  without those of models on which BP does not settle.
"""

QUICK_HEAD = (
    "**A quick run: small models, two runs of each. It shows that everything works, and says nothing of the paper's "
    "models.** Without `--quick`, it takes an hour."
)
MARKS = (
    "A curve begins where every run has an answer, and ends, with a dot, where the last one does. Dashed: where "
    "TruncBP ends. Dotted: the error in question. The priorities *as printed* are in the table only."
)


def grids_section(runs: Runs, measured: Sequence[str]) -> str:
    """Return the part on errors against time and work."""
    plan, size = runs.plan, runs.plan.sizes[0]
    head = f"{plan.side} x {plan.side} grids with {size} states, {_count(runs)}, run to residual {plan.tolerance:g}."
    parts = ["## Grids: error against time and work", f"{head} {_missing(runs)}{_dates(measured)}"]
    for family in runs.families():
        rows = []
        for name in plan.contenders:
            cost = runs.cost(family, size, name, plan.error)
            paper = GRID_SECONDS.get(name)
            published = [f"{paper:g}", times(GRID_SECONDS["bp-random"] / paper)] if paper else ["", ""]
            gains = [gain(cost, spread) for spread in (cost.faster, cost.less_work, cost.less_messages)]
            rows.append([CONTENDERS[name].label, *published, time_cell(cost, with_range=True), *gains, share(cost)])
        header = [
            "",
            "paper, s",
            "paper, times faster",
            f"ms to L2 {plan.error:g}",
            "times faster",
            "times less work",
            "messages alone",
            "states needed",
        ]
        parts += [
            f"### {family.capitalize()}",
            f"{_begin(plan.scores(family))}.",
            f"![Errors and residuals against time and work, {family} family.](results/grids-{family}.png)",
            MARKS,
            table(header, rows),
        ]
    return "\n\n".join([*parts, "### What the paper saw", *_verdicts(runs, GRID_CLAIMS)])


def domains_section(runs: Runs, measured: Sequence[str]) -> str:
    """Return the part on the number of states."""
    plan = runs.plan
    head = (
        f"{plan.side} x {plan.side} grids, time and work to L2 < {plan.error:g}, {_count(runs)}; "
        f"the paper has up to {DOMAINS_AT} states."
    )
    parts = [
        "## Domains: the number of states",
        f"{head} {_growing(runs)} {_missing(runs)}{_dates(measured)}",
        "![Time and work to the error against the number of states.](results/domains.png)",
        *_size_tables(runs, "states"),
        f"The paper has {DOMAINS_GAIN[0]:g} to {DOMAINS_GAIN[1]:g} times at {DOMAINS_AT} states, in time.",
    ]
    return "\n\n".join([*parts, "### What the paper saw", *_verdicts(runs, DOMAIN_CLAIMS)])


def joint_section(runs: Runs, measured: Sequence[str]) -> str:
    """Return the part on joint extraction."""
    plan = runs.plan
    rows = [
        [f"{CONTENDERS[name].label}", *(f"{1e3 * seconds[size]:,.0f}" for size in seconds)]
        for name, seconds in JOINT_SECONDS.items()
    ]
    sizes = list(JOINT_SECONDS["bp-random"])
    head = (
        "Entity types (42 states), a relation (24 states) for every ordered pair of entities, and ternary factors of "
        f"42,336 joint states; time and work to L2 < {plan.error:g}, {_count(runs)}."
    )
    parts = [
        "## Joint extraction",
        f"{head} {_growing(runs)} {_missing(runs)}{_dates(measured)}",
        "![Time to the error and gain over BP against the number of entities.](results/joint-ie.png)",
        *_size_tables(runs, "entities"),
        "The paper's table, in milliseconds (its BP goes in random order):",
        table(["entities", *sizes], rows),
    ]
    return "\n\n".join([*parts, "### What the paper saw", *_verdicts(runs, JOINT_CLAIMS)])


def _size_tables(runs: Runs, what: str) -> list[str]:
    """Return a table per family: times of all contenders, and work of those that grow, by size."""
    plan, parts = runs.plan, []
    grown = [name for name in plan.contenders if name in {"fixed", "dynamic", "adaptive"}]
    for family in runs.families():
        rows = []
        for size in runs.sizes(family):
            costs = {name: runs.cost(family, size, name, plan.error) for name in plan.contenders}
            gains = [
                f"{gain(cost, cost.faster)}, {gain(cost, cost.less_work)}" for cost in map(costs.get, grown) if cost
            ]
            shares = [share(costs[name]) for name in GROWING]
            times_taken = [time_cell(cost, with_range=False) for cost in costs.values()]
            rows.append([size, *times_taken, *gains, *shares, sweeps(runs.sweeps(family, size, plan.error))])
        labels = [CONTENDERS[name].label for name in plan.contenders]
        gain_labels = [f"{CONTENDERS[name].label}: faster, less work" for name in grown]
        further = [*(f"{CONTENDERS[name].label}: states needed" for name in GROWING), "BP: sweeps"]
        parts += [
            f"### {family.capitalize()}",
            f"{_begin(plan.scores(family))}. Milliseconds, then times faster and times less work than BP.",
            table([what, *labels, *gain_labels, *further], rows),
        ]
    return parts


def _verdicts(runs: Runs, claims: Sequence[Claim]) -> list[str]:
    """Return the table of observations, and what explains those that do not hold everywhere."""
    judged = judge_all(runs, claims)
    rows = [
        [claim.text if place == 0 else "", verdict.family, verdict.axis, _yes(verdict), verdict.grounds]
        for claim, verdicts in judged
        for place, verdict in enumerate(verdicts)
    ]
    missed = [line for claim, verdicts in judged for line in _explained(claim, verdicts)]
    parts = [table(["observation", "family", "against", "holds", "grounds"], rows)]
    return [*parts, "Where we do not see what the paper saw, and why:", "\n".join(missed)] if missed else parts


def _yes(verdict: Verdict) -> str:
    return "cannot be told" if verdict.holds is None else "yes" if verdict.holds else "**no**"


def _explained(claim: Claim, verdicts: Sequence[Verdict]) -> list[str]:
    """Return on which families, and against what, an observation does not hold, and why: a line, or none."""
    missed = [f"{one.family} ({one.axis})" if one.axis else one.family for one in verdicts if one.holds is False]
    return [f"- **{claim.text}**: not on {', '.join(missed)}. {claim.why}"] if missed else []


def _count(runs: Runs) -> str:
    """Return how many runs there are."""
    counts = sorted({count for count in runs.counts().values() if count})
    shown = f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else f"{counts[0]}"
    return f"{shown} run{'' if shown == '1' else 's'}"


def _growing(runs: Runs) -> str:
    return (
        f"Rounds settle to {runs.plan.tolerance:g}. A method that grows is given up once it has read "
        f"{runs.plan.patience} times what BP reads to the error, or after {MOST_SECONDS:g} seconds."
    )


def _missing(runs: Runs) -> str:
    """Return on which models there was nothing to compare with, and what has not been measured."""
    text = ""
    if runs.unsettled:
        shown = ", ".join(f"{key.family} {key.size} seed {key.seed}" for key in runs.unsettled)
        text += f"BP does not settle, however damped, on {shown}; the next seeds took their place. "
    if missing := [f"{family} {size}" for (family, size), count in runs.counts().items() if not count]:
        text += f"Not measured: {', '.join(missing)}. "
    return text


def _begin(text: str) -> str:
    """Return a text with a capital letter in front."""
    return text[0].upper() + text[1:]


def _dates(measured: Sequence[str]) -> str:
    return "Measured: " + " ".join(measured) if measured else ""
