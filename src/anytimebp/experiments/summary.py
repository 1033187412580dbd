"""The page of results: tables beside the paper's figures, what the paper saw and whether we do, from raw results."""

from __future__ import annotations

from collections.abc import Sequence

from anytimebp.experiments.claims import GRID_CLAIMS, Claim, Verdict, judge_all
from anytimebp.experiments.contenders import CONTENDERS
from anytimebp.experiments.markdown import milliseconds, table, time_cell, times
from anytimebp.experiments.published import DOMAINS_AT, DOMAINS_GAIN, GRID_SECONDS, JOINT_SECONDS
from anytimebp.experiments.runs import Runs
from anytimebp.experiments.size_claims import DOMAIN_CLAIMS, JOINT_CLAIMS

HEAD = """# Results

The evaluation of "Anytime Belief Propagation Using Sparse Domains" (Singh, Riedel and McCallum, 2013), repeated and
extended. This page is made from the raw results beside it by `anytimebp reproduce`, which measures what is missing.

- **Errors** are distances to the marginals of BP run to a residual of 1e-12, means over variables: L2, the Euclidean
  distance, and total variation. They are measured outside the timed part: times come from undisturbed runs, or from
  runs whose clock stands still meanwhile.
- **Time** is that of a run from a built graph with log scores to the answer, making of the layout and exponentiation
  of tables included, compiling not; one thread. **Work** is the number of table entries read or scored.
- **An error is reached** where the answer of the run comes under it and stays there as far as the run was followed.
- **BP** is our own, in its own order; *BP, random order* is the baseline of the paper. "Times faster" and "times less
  work" compare with the better of the two on the same model; 1/3 means three times as slow. Means over runs are
  geometric, ranges go from the lowest to the highest run.
- Fixed, Dynamic and Random let **one state join at a time**, as the paper does; *as printed* means the priorities as
  the paper prints them, not normalised per variable. `adaptive`, our default, grows in batches.
- The paper does not say how its potentials were drawn. Ours are stated with every family; the seeds are 0, 1, 2, ...
"""


def grids_section(runs: Runs, measured: Sequence[str]) -> str:
    """Return the part on errors against time and work."""
    plan, size = runs.plan, runs.plan.sizes[0]
    head = f"{plan.side} x {plan.side} grids with {size} states, {_count(runs)}, run to residual {plan.tolerance:g}."
    parts = ["## Grids: error against time and work", f"{head} {_dates(measured)}"]
    for family in runs.families():
        rows = []
        for name in plan.contenders:
            cost = runs.cost(family, size, name, plan.error)
            paper = GRID_SECONDS.get(name)
            published = [f"{paper:g}", times(GRID_SECONDS["bp-random"] / paper)] if paper else ["", ""]
            gains = [cost.times_faster, cost.times_less_work, cost.times_less_messages]
            rows.append([CONTENDERS[name].label, *published, time_cell(cost), *map(times, gains)])
        header = [
            "",
            "paper, s",
            "paper, times faster",
            f"ms to L2 {plan.error:g}",
            "times faster",
            "times less work",
            "messages alone",
        ]
        parts += [
            f"### {family.capitalize()}",
            f"{_begin(plan.scores(family))}.",
            f"![Errors and residuals against time and work, {family} family.](results/grids-{family}.png)",
            table(header, rows),
            _best_gain(runs, family, size, "12 times"),
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
        f"{head} {_growing(runs)} {_dates(measured)}",
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
        f"{head} {_growing(runs)} {_unsettled(runs)}{_dates(measured)}",
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
        for size in plan.sizes:
            costs = {name: runs.cost(family, size, name, plan.error) for name in plan.contenders}
            gains = [f"{times(costs[name].times_faster)}, {times(costs[name].times_less_work)}" for name in grown]
            rows.append([size, *(_short(runs, family, size, name) for name in plan.contenders), *gains])
        labels = [CONTENDERS[name].label for name in plan.contenders]
        gain_labels = [f"{CONTENDERS[name].label}: faster, less work" for name in grown]
        parts += [
            f"### {family.capitalize()}",
            f"{_begin(plan.scores(family))}. Milliseconds, then times faster and times less work than BP.",
            table([what, *labels, *gain_labels], rows),
        ]
    return parts


def _short(runs: Runs, family: str, size: int, contender: str) -> str:
    """Return a time, without its range."""
    cost = runs.cost(family, size, contender, runs.plan.error)
    if not cost.reached:
        return time_cell(cost)
    part = "" if cost.reached == cost.runs else f" ({cost.reached} of {cost.runs} runs)"
    return milliseconds(cost.seconds) + part


def _best_gain(runs: Runs, family: str, size: int, paper: str) -> str:
    """Return a sentence on the best gains beside the paper's."""
    costs = {name: runs.cost(family, size, name, runs.plan.error) for name in ("fixed", "dynamic", "adaptive")}
    shown = "; ".join(
        f"{CONTENDERS[name].label} {times(cost.times_faster)} in time and {times(cost.times_less_work)} in work"
        for name, cost in costs.items()
    )
    return f'The paper: up to "{paper}". Here: {shown}.'


def _verdicts(runs: Runs, claims: Sequence[Claim]) -> list[str]:
    """Return the table of observations, and what explains those that do not hold everywhere."""
    judged = judge_all(runs, claims)
    rows = [
        [claim.text if place == 0 else "", verdict.family, verdict.axis, _yes(verdict), verdict.grounds]
        for claim, verdicts in judged
        for place, verdict in enumerate(verdicts)
    ]
    missed = [
        f"- **{claim.text}**: {_where(verdicts)}. {claim.otherwise}"
        for claim, verdicts in judged
        if not all(verdict.holds for verdict in verdicts)
    ]
    parts = [table(["observation", "family", "against", "holds", "grounds"], rows)]
    return [*parts, "Where we do not see what the paper saw, and why:", "\n".join(missed)] if missed else parts


def _yes(verdict: Verdict) -> str:
    return "yes" if verdict.holds else "**no**"


def _where(verdicts: Sequence[Verdict]) -> str:
    """Return on which families, and against what, an observation does not hold."""
    missed = [f"{v.family}{f' ({v.axis})' if v.axis else ''}" for v in verdicts if not v.holds]
    return f"not on {', '.join(missed)}"


def _count(runs: Runs) -> str:
    """Return how many runs there are."""
    counts = {len(runs.seeds(family, size)) for family, size in runs.plan.groups() if family in runs.families()}
    return f"{min(counts)} runs" if len(counts) == 1 else f"{min(counts)} to {max(counts)} runs"


def _growing(runs: Runs) -> str:
    return (
        f"Rounds settle to {runs.plan.tolerance:g}. A method that grows is given up once it has read "
        f"{runs.plan.patience} times what BP reads to the error."
    )


def _unsettled(runs: Runs) -> str:
    """Return on which models there was nothing to compare with."""
    if not runs.unsettled:
        return ""
    shown = ", ".join(f"{key.family} {key.size} seed {key.seed}" for key in sorted(runs.unsettled))
    return f"BP does not settle, however damped, on {shown}; the next seeds took their place. "


def _begin(text: str) -> str:
    """Return a text with a capital letter in front."""
    return text[0].upper() + text[1:]


def _dates(measured: Sequence[str]) -> str:
    return "Measured: " + " ".join(measured) if measured else ""
