import math

import numpy as np
import pytest

from anytimebp_evaluation.nerel.documents import Document, Entity, Labels
from anytimebp_evaluation.nerel.scoring import (
    Counts,
    count_right,
    paired_difference,
    precision_recall_f1,
    relation_f1,
    type_f1,
)
from anytimebp_evaluation.nerel.section import nerel_section
from anytimebp_evaluation.nerel.summary import Rows, soonest_same
from anytimebp_evaluation.nerel.task import FRACTIONS, contenders

pytestmark = pytest.mark.compiled  # files, tables and figures, not kernels: one pass is enough

LABELS = Labels(("CITY", "FIRM", "PERSON"), ("none", "BASED_IN", "WORKS_FOR"))
ENTITIES = tuple(Entity(f"e{i}", kind, 4 * i, 4 * i + 3, "abc") for i, kind in enumerate(["PERSON", "FIRM", "CITY"]))
TRUE = frozenset({("WORKS_FOR", 0, 1), ("BASED_IN", 1, 2), ("BASED_IN", 0, 1), ("WORKS_FOR", 2, 0)})
DOCUMENT = Document("d", "test", "abc abc abc", ENTITIES, TRUE)


def test_an_answer_is_counted_as_by_hand():
    pairs = np.array([[0, 1], [1, 0], [1, 2], [2, 1]])
    # Right: PERSON and CITY; WORKS_FOR(0, 1). Wrong: WORKS_FOR(1, 2), BASED_IN(2, 1). Missed: three, one out of reach.
    counts = count_right(DOCUMENT, pairs, np.array([2, 0, 0]), np.array([2, 0, 2, 1]), LABELS)
    assert counts == Counts(2, 3, 1, 2, 3)
    precision, recall, f1 = precision_recall_f1(1, 2, 3)
    assert (precision, recall, f1) == pytest.approx((1 / 3, 1 / 4, 2 / 7))


def test_nothing_to_divide_by_is_zero():
    assert precision_recall_f1(0, 0, 0) == (0.0, 0.0, 0.0)
    assert type_f1(np.zeros(2)) == 0.0


def test_f1_is_the_harmonic_mean_of_precision_and_recall():
    for found, wrong, missed in np.random.default_rng(0).integers(1, 50, (20, 3)).astype(float):
        precision, recall, f1 = precision_recall_f1(found, wrong, missed)
        assert f1 == pytest.approx(2 * precision * recall / (precision + recall))


def test_a_bootstrap_agrees_with_a_slow_one():
    rng = np.random.default_rng(1)
    first, second = rng.integers(0, 9, (12, 3)), rng.integers(0, 9, (12, 3))
    difference = paired_difference(relation_f1, first.tolist(), second.tolist(), seed=3)
    slow = []
    for drawn in np.random.default_rng(3).integers(0, 12, (2000, 12)):
        scores = [
            precision_recall_f1(*(sum(counts[i][k] for i in drawn) for k in range(3)))[2] for counts in (first, second)
        ]
        slow.append(scores[1] - scores[0])
    assert (difference.low, difference.high) == pytest.approx(tuple(np.quantile(slow, [0.025, 0.975])))
    assert difference.low < difference.value < difference.high


def test_the_same_answers_do_not_differ_and_better_ones_do():
    counts = [[5.0, 8.0], [3.0, 9.0], [6.0, 6.0]]
    assert not paired_difference(type_f1, counts, counts).is_significant
    worse = [[right - 1, total] for right, total in counts]
    assert paired_difference(type_f1, counts, worse).high < 0.0
    assert paired_difference(type_f1, worse, counts).is_significant


def made_up_rows(found_by_fraction, seconds_by_method):
    """Return rows of four documents in which a method finds more relations the more time it has, of ten."""
    rows = []
    for document in range(4):
        for name in contenders():
            method, _, part = name.partition(" ")
            fraction = float(part) if part else math.inf
            found = 4 if method in {"local", "pipeline"} else found_by_fraction[method](fraction)
            rows.append(
                {
                    "seed": 0,
                    "document": f"d{document}",
                    "contender": name,
                    "budget_fraction": float(part or "nan"),
                    "budget_seconds": float(part or "nan"),
                    "seconds": min(fraction, seconds_by_method.get(method, 0.0)),
                    "types_right": 8 + document % 2,
                    "types_total": 10,
                    "true_positives": found,
                    "false_positives": 1,
                    "false_negatives": 10 - found,
                    "l2": 0.5,
                    "stop_reason": "CONVERGED",
                    "work": 3e6,
                    "n_types": 5,
                    "n_relations": 6,
                    "n_entities": 10,
                    "n_pairs": 90,
                    "relations_reachable": 9,
                    "train_documents": 7,
                    "table_weight": 0.3,
                    "joint_none": -1.0,
                    "local_none": -1.5,
                }
            )
    return rows


def test_the_section_says_what_the_rows_say():
    finds = {"bp": lambda part: 8 if part >= 0.5 else 2, "adaptive": lambda part: 8 if part >= 0.125 else 2}
    rows = made_up_rows(finds, {"bp": 1.0, "adaptive": 0.8})
    summaries = Rows(rows).summaries()
    assert soonest_same(summaries, "bp").fraction == 0.5
    assert soonest_same(summaries, "adaptive").fraction == 0.125
    text = nerel_section(rows)
    assert "Trained on 7 documents of NEREL, tested on 4 with 40 entities" in text
    assert "360 candidate pairs; 5 types and 6 relations or none." in text
    assert "Of the 40 true relations 36 can be found among these, so recall is at most 0.900." in text
    assert "| `bp` to the end | 0.850 | 0.889 | 0.800 | 0.842 | 1000.0 | 1000.0 | 3 | 5.0e-01 |" in text
    assert "F1 of relations changes by +30.88 points [+30.88 to +30.88], a significant gain" in text
    assert "F1 of types by +0.00 points [+0.00 to +0.00], not significant" in text
    assert "BP converged on 4 of 4 documents" in text
    assert "Yes, in 1/4.0 of the time that `bp` itself needs." in text
    assert "a significant gain, at 1/8" in text
    assert "a significant gain, at 1/2" not in text


def test_a_lead_that_may_be_chance_is_not_called_sooner():
    finds = {"bp": lambda part: 8 if part >= 0.25 else 7, "adaptive": lambda part: 8 if part >= 0.125 else 2}
    rows = made_up_rows(finds, {"bp": 1.0, "adaptive": 0.8})
    for row in rows:  # at this budget, bp misses one relation of one document only
        if row["contender"] == "bp 0.125":
            row["true_positives"], row["false_negatives"] = (7, 3) if row["document"] == "d0" else (8, 2)
    assert "Not clearly: in 1/2.0 of the time that `bp` needs" in nerel_section(rows)


@pytest.mark.parametrize(
    ("slow", "answer"), [(1.0, "No: it needs about as long"), (3.0, "No: it needs 3.0 times as long as `bp`.")]
)
def test_the_section_says_no_where_adaptive_is_not_sooner(slow, answer):
    late = {"bp": lambda part: 8 if part > 1 else 2, "adaptive": lambda part: 8 if part > 1 else 2}
    text = nerel_section(made_up_rows(late, {"bp": 1.0, "adaptive": slow}))
    assert answer in text
    assert "never differs significantly" in text


def test_rows_may_be_texts_and_unfinished_documents_are_left_out():
    rows = made_up_rows({"bp": lambda _: 8, "adaptive": lambda _: 7}, {"bp": 1.0, "adaptive": 1.0})
    texts = [{key: str(value) for key, value in row.items()} for row in rows]
    assert nerel_section(texts) == nerel_section(rows)
    assert "tested on 3 with" in nerel_section(rows[:-1])
    assert nerel_section([]) == "No document of NEREL has been finished yet."


def test_the_picture_has_a_point_per_budget_and_the_local_scores():
    pytest.importorskip("matplotlib")
    from anytimebp_evaluation.nerel.picture import draw_nerel  # noqa: PLC0415

    figure = draw_nerel(made_up_rows({"bp": lambda _: 8, "adaptive": lambda _: 7}, {"bp": 1.0, "adaptive": 1.0}))
    for panel in figure.axes:
        assert len(panel.lines[0].get_xdata()) == len(FRACTIONS) + 1
        assert len(panel.collections) == 2  # the spread over seeds
    assert "4 test documents" in figure.get_suptitle()
    assert len(draw_nerel([]).axes) == 2


def test_seeds_are_averaged_before_documents_are_drawn():
    one = made_up_rows({"bp": lambda _: 8, "adaptive": lambda _: 8}, {"bp": 1.0})
    other = [{**row, "seed": 1, "true_positives": row["true_positives"] - 2} for row in one]
    rows = Rows([*one, *other])
    assert rows.seeds == [0, 1]
    assert len(rows.documents) == 4
    assert rows.column("bp", "true_positives") == [7.0] * 4
    assert "2 seeds" in nerel_section([*one, *other])


def test_a_seed_that_is_under_way_is_left_out():
    one = made_up_rows({"bp": lambda _: 8, "adaptive": lambda _: 8}, {"bp": 1.0})
    other = [{**row, "seed": 1, "true_positives": 0} for row in one]
    rows = Rows([*one, *other[:-1]])
    assert (rows.seeds, rows.documents) == ([0], ["d0", "d1", "d2", "d3"])
    assert rows.column("bp", "true_positives") == [8.0] * 4


def test_the_section_does_not_say_the_same_of_what_never_is():
    rows = made_up_rows({"bp": lambda _: 8, "adaptive": lambda _: 4}, {"bp": 1.0, "adaptive": 0.1})
    assert soonest_same(Rows(rows).summaries(), "adaptive") is None
    text = nerel_section(rows)
    assert "No: `adaptive` never gives the F1 of full BP, not even at its end." in text
    assert "points of full BP's from `bp`" in text
