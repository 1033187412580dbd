"""The text on the experiment, in Markdown: data, table, and answers to its two questions, all computed from the rows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from fractions import Fraction

from anytimebp.experiments.nerel.scoring import Difference
from anytimebp.experiments.nerel.summary import RELATION_COUNTS, SAME, Rows, Summary, soonest_same
from anytimebp.experiments.nerel.task import FRACTIONS, Row


def nerel_section(rows: Iterable[Row]) -> str:
    """Return the section on the experiment, from its raw rows; of an interrupted run, on the documents that are done."""
    sorted_rows = Rows(rows)
    if not sorted_rows.documents:
        return "No document of NEREL has been finished yet.\n"
    summaries = sorted_rows.summaries()
    parts = [_data(sorted_rows), _table(summaries), _joint(sorted_rows), _sooner(sorted_rows, summaries)]
    return "\n\n".join(parts) + "\n"


def _data(rows: Rows) -> str:
    some = rows.of["bp"][0]
    found, _, missed = (sum(rows.column("bp", name)) for name in RELATION_COUNTS)
    gold, reachable = found + missed, sum(rows.column("bp", "relations_reachable"))
    return (
        f"Trained on {int(some['train_documents'])} documents of NEREL, tested on {len(rows.documents)} with "
        f"{sum(rows.column('bp', 'n_entities')):,.0f} entities, whose spans are given, and "
        f"{sum(rows.column('bp', 'n_pairs')):,.0f} candidate pairs. These hold {reachable:,.0f} of the {gold:,.0f} true "
        f"relations, so recall is at most {reachable / max(gold, 1.0):.3f}. Chosen on dev documents: weight "
        f"{float(some['table_weight']):g} of the counted table, and {float(some['joint_none']):+g} on the log score of "
        f'"none" in the joint model, {float(some["local_none"]):+g} alone.'
    )


def _table(summaries: list[Summary]) -> str:
    lines = [
        "| contender | F1 of types | relations: precision | recall | F1 | ms per document: mean | median | L2 to BP |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for one in summaries:
        times = "- | -" if one.method == "local" else f"{1e3 * one.mean_seconds:.1f} | {1e3 * one.median_seconds:.1f}"
        lines.append(
            f"| {_name(one)} | {one.type_f1:.4f} | {one.precision:.4f} | {one.recall:.4f} | {one.relation_f1:.4f} "
            f"| {times} | {one.l2:.1e} |"
        )
    return "\n".join(lines)


def _name(summary: Summary) -> str:
    if summary.method == "local":
        return "local scores only"
    if math.isnan(summary.fraction):
        return f"`{summary.method}` to the end"
    part = Fraction(summary.fraction).limit_denominator(1000)
    return f"`{summary.method}`, {part} of BP's time ({1e3 * summary.budget:.1f} ms)"


def _joint(rows: Rows) -> str:
    relations, types = rows.relation_difference("local", "bp"), rows.type_difference("local", "bp")
    reasons = Counter(str(row["stop_reason"]) for row in rows.of["bp"])
    return (
        f"**Does joint inference help?** From local scores to full BP, F1 of relations changes by {_points(relations)}, "
        f"and F1 of types by {_points(types)} (in brackets: 95 % intervals of a paired bootstrap over documents). "
        f"BP converged on {reasons['CONVERGED']} of {len(rows.documents)} documents."
    )


def _points(difference: Difference) -> str:
    verdict = "a significant " + ("gain" if difference.value > 0 else "loss")
    verdict = verdict if difference.is_significant else "not significant"
    interval = f"{100 * difference.low:+.2f} to {100 * difference.high:+.2f}"
    return f"{100 * difference.value:+.2f} points [{interval}], {verdict}"


def _sooner(rows: Rows, summaries: list[Summary]) -> str:
    bp, adaptive = soonest_same(summaries, "bp"), soonest_same(summaries, "adaptive")
    ratio = bp.mean_seconds / max(adaptive.mean_seconds, 1e-9)
    verdict = f"{ratio:.1f} times as fast" if ratio >= 1.0 else f"{1.0 / ratio:.1f} times as slow"
    full = {one.contender: one for one in summaries}
    return (
        f"**Does the anytime method give the same F1 sooner?** `adaptive` is within {100 * SAME:g} points of full BP, in "
        f"both F1, from {_name(adaptive)} on, at {1e3 * adaptive.mean_seconds:.1f} ms per document; `bp` itself from "
        f"{_name(bp)} on, at {1e3 * bp.mean_seconds:.1f} ms: `adaptive` is {verdict} to the same F1. Run to the end, it "
        f"takes {1e3 * full['adaptive'].mean_seconds:.1f} ms, and full BP {1e3 * full['bp'].mean_seconds:.1f} ms. "
        + _at_budgets(rows)
    )


def _at_budgets(rows: Rows) -> str:
    """Return who is better within the same budgets."""
    sentences = []
    for fraction in FRACTIONS:
        difference = rows.relation_difference(f"bp {fraction:g}", f"adaptive {fraction:g}")
        sentences.append(f"{_points(difference)} at {Fraction(fraction)}")
    return "Within the same part of BP's time, F1 of relations by `adaptive` less that by `bp` is " + (
        "; ".join(sentences) + "."
    )
