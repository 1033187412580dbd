"""The page of results: tables beside the paper's figures, what the paper saw and whether we do, from raw results."""

from __future__ import annotations

from collections.abc import Sequence

from anytimebp_evaluation.claims import GRID_CLAIMS, RESIDUAL_CLAIMS
from anytimebp_evaluation.contenders import CONTENDERS
from anytimebp_evaluation.markdown import gain, share, sweeps, table, time_cell, times
from anytimebp_evaluation.plans import MOST_SECONDS
from anytimebp_evaluation.published import (
    DOMAINS_AT,
    DOMAINS_GAIN,
    GRID_SECONDS,
    JOINT_GAIN,
    JOINT_GAIN_OVER_RBP,
    JOINT_SECONDS,
)
from anytimebp_evaluation.runs import Runs
from anytimebp_evaluation.size_claims import DOMAIN_CLAIMS, JOINT_CLAIMS
from anytimebp_evaluation.tolerances import tolerance_part
from anytimebp_evaluation.verdicts import GROWING, Claim, Verdict, judge_all

HEAD = """# Results

The evaluation of "Anytime Belief Propagation Using Sparse Domains" (Singh, Riedel and McCallum, 2013), repeated and
extended. `anytimebp reproduce` makes this page from the raw results beside it, and measures what is missing.
"""

TERMS = """## How to read this page

- **Errors** are distances to the marginals of BP, averaged over variables: L2 is the Euclidean distance, TV the total
  variation. The reference is BP in our order, run to a residual of 1e-12. A method may settle *at another fixed point*
  if there are several; this is not counted as an error.
- **Work** is the number of table entries read or scored. It does not depend on the machine. *Messages alone* leaves
  out what is scored to choose states; *without one-off priorities* leaves out the reading of all tables by which Fixed
  ranks the states.
- **Time** starts with a built graph of log scores and ends with the answer. It includes the layout and the
  exponentiation of tables, but not compiling; one thread. Errors are measured outside the timed part.
- **An error is reached** when the answer falls below it and stays below for the rest of the run. *States needed* is the
  share of all states that is active at that moment.
- **BP, random order** is the baseline of the paper, and ours: "times faster" and "times less work" compare with it on
  the same model; 1/3 means three times as slow. **BP** updates factors in our order, which is better. The priority of a
  factor in **RBP** is how far its incoming messages have moved since its last update. **RBP, look-ahead** is RBP as the
  paper prints it: it computes the messages of a factor to know its priority.
- Fixed, Dynamic and Random add **one state at a time**, as in the paper; *as printed* means the priorities that the
  paper prints, which are not normalised per variable. `adaptive` is our default and adds states in batches.
- Means over runs are geometric; ranges go from the lowest run to the highest. Seeds are 0, 1, 2, ..., without those of
  models on which BP does not settle.
- [docs/method.md](../docs/method.md) lists every deviation from the paper, with its reason.

## What the paper leaves open

- **How potentials are drawn.** What sparse domains gain depends on this more than on anything else. We state six
  families of grids and two of joint extraction. The paper's joint extraction has factors whose tables are not given.
- **To which tolerance rounds settle** ("some small epsilon"). Loose rounds cost far less.
- **Whether L2 is squared, and summed or averaged over variables.** We take the mean of the Euclidean norms.
- **What is counted as time**: whether the precomputed priorities of Fixed are part of it.
- **How BP in random order ends**, and whether residuals of RBP are computed by look-ahead; its formula says so.
"""

QUICK_HEAD = (
    "**A quick run on small models, with one or two runs of each. It shows that everything works, and says nothing "
    "about the paper's models.** Without `--quick`, it takes an hour."
)
MARKS = (
    "Curves begin where every run has an answer and end, with a dot, where the last run does. Dashed: where TruncBP "
    "ends. Dotted: the error in question. Curves of Random, Fixed and Dynamic may rise again at their end: once all "
    "states are active, their messages start again from scratch, since growth may have led to an unstable fixed point, "
    "and the last answer is as exact as the tolerance makes it. Tables also have methods that the curves leave out."
)


def grids_section(runs: Runs, measured: Sequence[str]) -> str:
    """Return the part on errors against time and work."""
    plan, size = runs.plan, runs.plan.sizes[0]
    head = f"{plan.side} x {plan.side} grids with {size} states, {_count(runs)}, run to residual {plan.tolerance:g}."
    parts = ["## Grids: error against time and work", f"{head} {_missing(runs)}{_dates(measured)}", MARKS]
    for family in runs.families():
        rows = [_grid_row(runs, family, name) for name in runs.contenders(family, size)]
        header = [
            "",
            "paper, s",
            "paper, times faster",
            f"ms to L2 {plan.error:g}",
            "times faster",
            "times less work",
            "without one-off priorities",
            "messages alone",
            "states needed",
        ]
        parts += [
            f"### {family.capitalize()}",
            f"{_begin(plan.scores(family))}.",
            f"![Errors against time and work, {family} family.](results/grids-{family}.png)",
            table(header, rows),
        ]
    return "\n\n".join([*parts, "### What the paper saw", *_verdicts(runs, GRID_CLAIMS)])


def _grid_row(runs: Runs, family: str, name: str) -> list[str]:
    """Return what a contender pays for the error, beside what the paper has."""
    contender = CONTENDERS[name]
    cost = runs.cost(family, runs.plan.sizes[0], name, runs.plan.error)
    paper = GRID_SECONDS.get(name)
    published = [f"{paper:g}", times(GRID_SECONDS["bp-random"] / paper)] if paper else ["", ""]
    timed = [time_cell(cost, with_range=True), gain(cost, cost.faster)] if contender.timed else ["not timed", "-"]
    work = [gain(cost, spread) for spread in (cost.less_work, cost.less_own_work, cost.less_messages)]
    return [contender.label, *published, *timed, *work, share(cost)]


def residuals_section(runs: Runs, measured: Sequence[str]) -> str:
    """Return the part on how consistent the state of a run is."""
    plan = runs.plan
    head = (
        f"{plan.side} x {plan.side} grids with {plan.sizes[0]} states, {_count(runs)} of each family. The residual of "
        "a factor is the largest range, over its variables, of log(message / message that it would send now), as in "
        "the paper; curves show means over factors. Messages start uniform. A state that joins has the messages that "
        "its factors sent it as it joined, so no residual is infinite. Runs are stopped at moments that have nothing "
        "to do with rounds."
    )
    parts = [
        "## Residuals",
        f"{head} {_missing(runs)}{_dates(measured)} Work alone was measured.",
        "![Mean residuals against work, family by family.](results/residuals.png)",
    ]
    return "\n\n".join([*parts, "### What the paper saw of residuals", *_verdicts(runs, RESIDUAL_CLAIMS)])


def tolerances_section(sweeps: Sequence[Runs], measured: Sequence[str]) -> str:
    """Return the part on how far rounds settle."""
    head = (
        "The paper lets messages settle to *some small epsilon* before the next state joins. The number decides how "
        "much is saved: a round that settles less reads less, and the next one continues from there. "
        f"{_dates(measured)} Work alone was measured."
    )
    return "\n\n".join(["## The round tolerance", head, *map(tolerance_part, sweeps)])


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
    published = (
        "The paper's table, in milliseconds (its BP goes in random order). At 8 entities, Dynamic is "
        f"{JOINT_GAIN:g} times as fast as BP and {JOINT_GAIN_OVER_RBP:g} times as fast as RBP; its text says "
        "*up to 6 times*."
    )
    parts = [
        "## Joint extraction",
        f"{head} {_growing(runs)} {_missing(runs)}{_dates(measured)}",
        "![Time to the error and gain over BP against the number of entities.](results/joint-ie.png)",
        *_size_tables(runs, "entities"),
        published,
        table(["entities", *sizes], rows),
    ]
    return "\n\n".join([*parts, "### What the paper saw", *_verdicts(runs, JOINT_CLAIMS)])


def _size_tables(runs: Runs, what: str) -> list[str]:
    """Return a table per family: times of all contenders, and gains over the baseline, by size."""
    plan, parts = runs.plan, []
    grown = [name for name in plan.contenders if name in {"bp", "fixed", "dynamic", "adaptive"}]
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
        further = [*(f"{CONTENDERS[name].label}: states needed" for name in GROWING), "BP, random order: sweeps"]
        parts += [
            f"### {family.capitalize()}",
            f"{_begin(plan.scores(family))}. Milliseconds; times faster and times less work than BP in random order.",
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
    return [*parts, "Why we do not see what the paper saw there:", "\n".join(missed)] if missed else parts


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
    """Return the models on which BP does not settle, and what has not been measured."""
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
