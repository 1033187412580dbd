"""The text on the experiment, in Markdown: data, table, and answers to its two questions, all computed from rows."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction

from anytimebp_evaluation.nerel.scoring import Difference
from anytimebp_evaluation.nerel.summary import RELATION_COUNTS, SAME, Rows, Summary, soonest_same
from anytimebp_evaluation.nerel.task import FRACTIONS, LOCAL, Row

ALIKE = 1.1  # times whose ratio is smaller count as about the same


def nerel_section(rows: Iterable[Row]) -> str:
    """Return the section on the experiment, from raw rows; of an interrupted run, on the documents that are done."""
    sorted_rows = Rows(rows)
    if not sorted_rows.documents:
        return "No document of NEREL has been finished yet."
    summaries = sorted_rows.summaries()
    parts = [_data(sorted_rows), _table(summaries), _joint(sorted_rows), _sooner(sorted_rows, summaries)]
    return "\n\n".join(parts)


def _data(rows: Rows) -> str:
    some = rows.of["bp"][0]
    found, _, missed = (sum(rows.column("bp", name)) for name in RELATION_COUNTS)
    gold, reachable = found + missed, sum(rows.column("bp", "relations_reachable"))
    entities, pairs = sum(rows.column("bp", "n_entities")), sum(rows.column("bp", "n_pairs"))
    weight, in_joint, alone = (float(some[name]) for name in ("table_weight", "joint_none", "local_none"))
    return (
        f"Trained on {int(some['train_documents'])} documents of NEREL, tested on {len(rows.documents)} with "
        f"{entities:,.0f} entities, whose spans are given, and {pairs:,.0f} candidate pairs; {int(some['n_types'])} "
        f"types and {int(some['n_relations'])} relations or none. Of the {gold:,.0f} true "
        f"relations {reachable:,.0f} can be found among these, so recall is at most {reachable / max(gold, 1.0):.3f}. "
        f"Means over {_seeds(rows)} of the training. "
        f"Chosen on dev documents: weight {weight:.2g} of the counted table, and a constant for "
        f'"none" of {in_joint:+.2g} in the joint model, {alone:+.2g} in the local one.'
    )


def _seeds(rows: Rows) -> str:
    return "1 seed" if len(rows.seeds) == 1 else f"{len(rows.seeds)} seeds"


def _table(summaries: list[Summary]) -> str:
    titles = "contender | F1 of types | relations: precision | recall | F1 | ms per document: mean | median"
    lines = [f"| {titles} | million entries read | L2 to BP |", f"|---{8 * '|---:'}|"]
    for one in summaries:
        times = f"{1e3 * one.mean_seconds:.1f} | {1e3 * one.median_seconds:.1f} | {1e-6 * one.work:.0f}"
        times = "- | - | -" if one.method in LOCAL else times
        lines.append(
            f"| {_name(one)} | {one.type_f1:.3f} | {one.precision:.3f} | {one.recall:.3f} | {one.relation_f1:.3f} "
            f"| {times} | {one.l2:.1e} |"
        )
    lines += ["", "Budgets are overrun by what cannot be cut short: setting up, and one slice of the run."]
    return "\n".join(lines)


def _name(summary: Summary) -> str:
    if summary.method == "local":
        return "local scores only"
    if summary.method == "pipeline":
        return "local types first, then relations given these"
    if math.isnan(summary.fraction):
        return f"`{summary.method}` to the end"
    part = Fraction(summary.fraction).limit_denominator(1000)
    shown = "all" if part == 1 else str(part)
    return f"`{summary.method}`, {shown} of BP's time ({1e3 * summary.budget:.1f} ms)"


def _joint(rows: Rows) -> str:
    relations, types = rows.relation_difference("local", "bp"), rows.type_difference("local", "bp")
    beyond = rows.relation_difference("pipeline", "bp")
    converged = sum(row["stop_reason"] == "CONVERGED" for row in rows.of["bp"])
    return (
        f"**Does joint inference help?** From local scores to full BP, F1 of relations changes by {_points(relations)}"
        f", and F1 of types by {_points(types)} (in brackets: 95 % intervals of a paired bootstrap over documents, "
        "not corrected for their number). "
        f"From a pipeline that chooses types first, and relations by the same table, to full BP, F1 of relations "
        f"changes by {_points(beyond)}. BP converged on {converged} of {len(rows.documents)} documents."
    )


def _points(difference: Difference) -> str:
    interval = f"{100 * difference.low:+.2f} to {100 * difference.high:+.2f}"
    return f"{100 * difference.value:+.2f} points [{interval}], {_verdict(difference)}"


def _verdict(difference: Difference) -> str:
    if not difference.is_significant:
        return "not significant"
    return "a significant gain" if difference.value > 0.0 else "a significant loss"


def _sooner(rows: Rows, summaries: list[Summary]) -> str:
    bp, adaptive = soonest_same(summaries, "bp"), soonest_same(summaries, "adaptive")
    to_end = {one.contender: 1e3 * one.mean_seconds for one in summaries}
    same = [
        f"{_name(one)} on, at {1e3 * one.mean_seconds:.1f} ms per document" for one in (adaptive, bp) if one is not None
    ]
    return (
        f"**Does the anytime method give the same F1 sooner?** {_yes_or_no(rows, bp, adaptive)} Both F1 are within "
        f"{100 * SAME:g} points of full BP's from {', and from '.join(same)}. To the end, `adaptive` takes "
        f"{to_end['adaptive']:.1f} ms and `bp` {to_end['bp']:.1f} ms. {_at_budgets(rows)}"
    )


def _yes_or_no(rows: Rows, bp: Summary | None, adaptive: Summary | None) -> str:
    if adaptive is None or bp is None:
        return "No: `adaptive` never gives the F1 of full BP, not even at its end."
    ratio = bp.mean_seconds / max(adaptive.mean_seconds, 1e-9)
    if ratio > ALIKE and not _is_better_then(rows, adaptive):
        return f"Not clearly: in 1/{ratio:.1f} of the time that `bp` needs, but `bp` is about as good by then."
    if ratio > ALIKE:
        return f"Yes, in 1/{ratio:.1f} of the time that `bp` itself needs."
    if ratio < 1.0 / ALIKE:
        return f"No: it needs {1.0 / ratio:.1f} times as long as `bp`."
    return "No: it needs about as long as `bp`, stopped early, does."


def _is_better_then(rows: Rows, adaptive: Summary) -> bool:
    """Tell whether `adaptive` is significantly better than `bp` within the same budget, or has ended before it."""
    if math.isnan(adaptive.fraction):
        return True
    difference = rows.relation_difference(f"bp {adaptive.fraction:g}", f"adaptive {adaptive.fraction:g}")
    return difference.is_significant and difference.value > 0.0


def _at_budgets(rows: Rows) -> str:
    """Return who is better within the same budgets."""
    significant = []
    for fraction in FRACTIONS:
        difference = rows.relation_difference(f"bp {fraction:g}", f"adaptive {fraction:g}")
        if difference.is_significant:
            significant.append(f"{_points(difference)}, at {Fraction(fraction)}")
    if not significant:
        return "Within the same budget, F1 of relations by `adaptive` never differs significantly from that by `bp`."
    return (
        f"Within the same budget, F1 of relations by `adaptive` less that by `bp` is {'; '.join(significant)} of BP's "
        "time; at the other budgets, the difference is not significant."
    )
