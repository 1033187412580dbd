import json
import re

import numpy as np
import pytest

import anytimebp as abp
from anytimebp_evaluation.nerel import documents as nerel
from anytimebp_evaluation.nerel.documents import (
    candidate_pairs,
    count_reachable,
    gold_relations,
    read_documents,
    read_labels,
)
from invented_documents import invented, write_folder

pytestmark = pytest.mark.compiled  # files, tables and figures, not kernels: one pass is enough


def read(folder):
    return read_documents(folder, read_labels(folder))


def slow_candidates(document):
    """Try every ordered pair of entities."""
    found = []
    for i, one in enumerate(document.entities):
        for j, two in enumerate(document.entities):
            gap = max(two.start - one.end, one.start - two.end)
            if i != j and abs(i - j) <= nerel.NEAR and gap <= nerel.CHARACTERS:
                found.append((i, j))
    return found


def test_labels_are_those_listed_and_none_comes_first(tmp_path):
    labels = read_labels(write_folder(tmp_path, []))
    assert labels.types == ("CITY", "FIRM", "PERSON")
    assert labels.relations == ("none", "BASED_IN", "WORKS_FOR")


def test_entities_come_in_text_order_with_the_outer_one_first(tmp_path):
    raw = {"id": 1, "split": "dev", "text": "Oakville Bank, Ann", "relations": [["BASED_IN", "b", "a"]] * 2}
    raw["entities"] = [
        ["c", "PERSON", [[15, 18]], "Ann"],
        ["a", "CITY", [[0, 8]], "Oakville"],
        ["b", "FIRM", [[0, 8], [9, 13]], "Oakville Bank"],
    ]
    (document,) = read(write_folder(tmp_path, [raw, ""]))
    assert [(entity.name, entity.start, entity.end) for entity in document.entities] == [
        ("b", 0, 13),
        ("a", 0, 8),
        ("c", 15, 18),
    ]
    assert document.relations == {("BASED_IN", 0, 1)}


@pytest.mark.parametrize("name", ["nerel_compact.jsonl.gz", "annotation.conf"])
def test_a_missing_file_is_named(tmp_path, name):
    write_folder(tmp_path, [invented(0, "dev")])
    (tmp_path / name).unlink()
    with pytest.raises(abp.OptionError, match=re.escape(str(tmp_path / name))):
        read(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"split": "training"}, "the split is 'training'"),
        ({"entities": [["a", "PLANET", [[0, 3]], "Ann"]]}, "'PLANET' is not a label"),
        ({"entities": [["a", "CITY", [[0, 3000]], "Ann"]]}, "from 0 to 3000 in a text of"),
        ({"entities": [["a", "CITY", [[0, 1]], "A"], ["a", "CITY", [[2, 3]], "B"]], "relations": []}, "the same id"),
        ({"entities": [["a", "CITY"]]}, "not a document of NEREL"),
        ({"relations": [["none", "PERSON0", "FIRM0"]]}, "'none' is not a label"),
        ({"relations": [["BASED_IN", "PERSON0", "nobody"]]}, "no 'nobody'"),
        ({"text": None}, "not a document of NEREL"),
    ],
)
def test_a_bad_document_is_named_by_its_line(tmp_path, change, message):
    folder = write_folder(tmp_path, [invented(0, "dev"), {**invented(1, "dev"), **change}])
    with pytest.raises(abp.FormatError, match=f"line 2: .*{message}"):
        read(folder)


@pytest.mark.parametrize("line", ["{", "[]", "3", json.dumps({"id": 1})])
def test_a_line_that_is_no_document_is_named(tmp_path, line):
    with pytest.raises(abp.FormatError, match="line 1"):
        read(write_folder(tmp_path, [line]))


def test_files_that_are_not_what_they_should_be_are_named(tmp_path):
    folder = write_folder(tmp_path, [], conf="[entities]\nCITY\n")
    with pytest.raises(abp.FormatError, match=r"annotation.conf: expected a section \[relations\]"):
        read(folder)
    write_folder(tmp_path, [])
    (tmp_path / "nerel_compact.jsonl.gz").write_bytes(b"not packed")
    with pytest.raises(abp.FormatError, match="cannot be read as text packed with gzip"):
        read(tmp_path)


def test_candidates_are_near_in_entities_and_in_characters(tmp_path, monkeypatch):
    monkeypatch.setattr(nerel, "NEAR", 2)
    monkeypatch.setattr(nerel, "CHARACTERS", 29)
    documents = read(write_folder(tmp_path, [invented(number, "train") for number in range(20)]))
    sizes = set()
    for document in documents:
        pairs = candidate_pairs(document)
        assert [tuple(pair) for pair in pairs.tolist()] == slow_candidates(document)
        sizes.add(len(pairs))
    assert len(sizes) > 1  # characters matter


def test_a_document_without_entities_has_no_candidates(tmp_path):
    (document,) = read(write_folder(tmp_path, [{"id": 1, "split": "dev", "text": "", "entities": [], "relations": []}]))
    assert candidate_pairs(document).shape == (0, 2)


def test_two_relations_of_a_pair_can_be_found_once(tmp_path):
    raw = invented(0, "dev")
    raw["relations"] += [["WORKS_FOR", "FIRM0", "CITY0"], ["WORKS_FOR", "PERSON0", "CITY1"]]
    (document,) = read(write_folder(tmp_path, [raw]))
    assert gold_relations(document)[1, 2] == ["BASED_IN", "WORKS_FOR"]
    assert count_reachable(document, candidate_pairs(document)) == 5
    assert count_reachable(document, np.array([[1, 2], [2, 1]])) == 1


def test_the_real_documents_are_read_whole(nerel_folder):
    labels = read_labels(nerel_folder)
    documents = read_documents(nerel_folder, labels)
    assert (len(labels.types), len(labels.relations)) == (29, 50)
    assert [sum(document.split == split for document in documents) for split in nerel.SPLITS] == [746, 94, 93]
    test = [document for document in documents if document.split == "test"]
    reachable = sum(count_reachable(document, candidate_pairs(document)) for document in test)
    assert reachable / sum(len(document.relations) for document in test) == pytest.approx(0.858, abs=0.001)
    for document in test:
        for entity in document.entities:
            assert entity.surface.split()[0] in document.text[entity.start : entity.end]
