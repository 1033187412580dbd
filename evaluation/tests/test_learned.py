"""Joint training on documents, and sentences of CoNLL04 as documents."""

import json

import numpy as np
import pytest

from anytimebp import FormatError, OptionError
from anytimebp.learn import CRF
from anytimebp_evaluation.conll04 import read_conll04
from anytimebp_evaluation.nerel.joint import JointModel, Scores
from anytimebp_evaluation.nerel.learned import RELATIONS, TABLE, TYPES, LearnedTask, differences, example_of, truth_of

TOKENS = ["Mr.", "Smith", "left", "Acme", "in", "New", "York"]
TAGS = ["B-Peop", "L-Peop", "O", "U-Org", "O", "B-Loc", "L-Loc"]
KNOWN = {"entities": {"Loc": {}, "Org": {}, "Peop": {}}, "relations": {"Work_For": {}, "Live_In": {}}}


def write(folder, relations):
    sentence = {"tokens": TOKENS, "tags": TAGS, "relations": relations}
    (folder / "conll04_types.json").write_text(json.dumps(KNOWN))
    for split in ("train", "dev", "test"):
        (folder / f"conll04_{split}.json").write_text(json.dumps([sentence] * 2))


def test_sentences_are_read_with_spans_and_relations(tmp_path):
    write(tmp_path, [{"type": "Work_For", "head": 0, "tail": 1}])
    labels, documents = read_conll04(tmp_path)
    assert labels.types == ("Loc", "Org", "Peop")
    assert labels.relations == ("none", "Work_For", "Live_In")
    assert [document.split for document in documents] == ["train"] * 2 + ["dev"] * 2 + ["test"] * 2
    one = documents[0]
    assert [(own.type, own.surface) for own in one.entities] == [
        ("Peop", "Mr. Smith"),
        ("Org", "Acme"),
        ("Loc", "New York"),
    ]
    assert all(one.text[own.start : own.end] == own.surface for own in one.entities)
    assert one.relations == {("Work_For", 0, 1)}


def test_what_is_no_sentence_is_named(tmp_path):
    with pytest.raises(OptionError, match="conll04_types.json"):
        read_conll04(tmp_path)
    write(tmp_path, [{"type": "Work_For", "head": 0, "tail": 5}])
    with pytest.raises(FormatError, match="sentence 0"):
        read_conll04(tmp_path)


def test_an_example_with_weights_is_the_joint_model(tmp_path):
    write(tmp_path, [{"type": "Work_For", "head": 0, "tail": 1}])
    labels, documents = read_conll04(tmp_path)
    rng = np.random.default_rng(0)
    pairs = np.array([[0, 1], [1, 0]])
    scores = Scores(rng.normal(0, 1, (3, 3)), pairs, rng.normal(0, 1, (2, 3)))
    table = rng.normal(0, 1, (3, 3, 3))
    wanted = JointModel(labels, 0.7 * table, -0.5).graph(documents[0], scores)
    weights = {TYPES: np.ones(1), RELATIONS: np.array([1.0, -0.5])}
    free = example_of(documents[0], scores, labels, 0.7 * table, is_free=True)
    scaled = example_of(documents[0], scores, labels, table, is_free=False)
    for example, own in ((free, np.zeros((3, 3, 3))), (scaled, np.array([0.7]))):
        found = example.with_weights({**weights, TABLE: own})
        assert found.n_factors == wanted.n_factors
        for k in range(wanted.n_factors):
            np.testing.assert_allclose(found.factor_log_table(k), wanted.factor_log_table(k))
    assert truth_of(documents[0], scores, labels) == ["Peop", "Org", "Loc", "Work_For", "none"]


@pytest.mark.compiled
def test_a_small_task_is_trained_and_scored(conll04_folder):
    labels, documents = read_conll04(conll04_folder)
    sizes = {"train": 120, "dev": 40, "test": 60}
    splits = {
        split: [own for own in documents if own.split == split and own.entities][:n] for split, n in sizes.items()
    }
    task = LearnedTask(splits, labels, 0, lambda *_: None)
    local, counted = task.counted()
    crf = CRF(max_iterations=30, patience=3)
    plain, shifted = task.scaled(crf)
    free = task.free(crf)
    assert all(len(answer.counts) == 60 for answer in (local, counted, plain, shifted, *free))
    assert plain.f1()[0] >= local.f1()[0] - 0.02
    assert free[0].f1()[0] >= local.f1()[0] - 0.02
    types, relations = differences(counted, plain)
    assert types.low <= types.value <= types.high
    assert relations.low <= relations.value <= relations.high
    assert plain.row()["types_total"] == sum(len(document.entities) for document in splits["test"])
