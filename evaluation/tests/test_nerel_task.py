import math
from dataclasses import replace

import numpy as np
import pytest

import anytimebp as abp
from anytimebp_evaluation.nerel import task, tuning
from anytimebp_evaluation.nerel.classifiers import relation_states, train, type_states
from anytimebp_evaluation.nerel.documents import candidate_pairs, fingerprint, read_documents, read_labels
from anytimebp_evaluation.nerel.features import Tokens, entity_rows, pair_rows
from anytimebp_evaluation.nerel.joint import JointModel, Scores, compatibility, count_triples
from anytimebp_evaluation.nerel.raw import COLUMNS, append_rows, pack_rows, read_rows
from anytimebp_evaluation.nerel.section import nerel_section
from anytimebp_evaluation.nerel.task import contenders, run_nerel
from anytimebp_evaluation.nerel.tuning import pipeline_relations
from invented_documents import invented, write_folder
from oracle.enumeration import exact


def quiet(*_):
    """Show no progress."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    splits = ["train"] * 20 + ["dev"] * 2 + ["test"] * 2
    documents = [invented(number, split) for number, split in enumerate(splits)]
    return write_folder(tmp_path_factory.mktemp("nerel"), documents)


@pytest.fixture(scope="module")
def labels(folder):
    return read_labels(folder)


@pytest.fixture(scope="module")
def documents(folder, labels):
    return read_documents(folder, labels)


def test_triples_are_counted_as_by_hand(documents, labels):
    pairs = [np.array([[0, 1], [1, 0], [1, 2]])] * 2
    counts = count_triples(documents[:2], pairs, labels)
    city, firm, person = range(3)
    none, based_in, works_for = range(3)
    assert counts[person, firm, works_for] == 2
    assert counts[firm, person, none] == 2
    assert counts[firm, city, based_in] == 2
    assert counts.sum() == 6


def test_compatibility_agrees_with_a_slow_twin():
    counts = np.random.default_rng(0).integers(0, 4, (3, 3, 4)).astype(float)
    counts[1, 2] = 0.0
    table = compatibility(counts)
    all_pairs = [sum(counts[a, b, r] for a in range(3) for b in range(3)) + 0.25 for r in range(4)]
    prior = [count / sum(all_pairs) for count in all_pairs]
    for a in range(3):
        for b in range(3):
            for r in range(4):
                given = (counts[a, b, r] + prior[r]) / (sum(counts[a, b]) + 1.0)
                assert table[a, b, r] == pytest.approx(math.log(given / prior[r]))
    assert table[1, 2] == pytest.approx(np.zeros(4), abs=1e-12)  # never seen: says nothing


def test_the_joint_graph_is_the_stated_model(documents, labels):
    rng = np.random.default_rng(2)
    document, pairs = documents[0], np.array([[0, 1], [2, 1]])
    scores = Scores(rng.normal(size=(6, 3)), pairs, rng.normal(size=(2, 3)))
    model = JointModel(labels, rng.normal(size=(3, 3, 3)), -0.7)
    graph = model.graph(document, scores)
    assert [variable.name for variable in graph.variables][5:] == ["CITY1", "PERSON0 to FIRM0", "CITY0 to FIRM0"]
    marginals, _ = exact(graph)
    weight = np.zeros((3, 3, 3, 3, 3))  # types of the first three entities, relations of both pairs
    for t0, t1, t2, r0, r1 in np.ndindex(*weight.shape):
        log_score = scores.types[0, t0] + scores.types[1, t1] + scores.types[2, t2]
        log_score += scores.relations[0, r0] + scores.relations[1, r1] - 0.7 * ((r0 == 0) + (r1 == 0))
        weight[t0, t1, t2, r0, r1] = math.exp(log_score + model.table[t0, t1, r0] + model.table[t2, t1, r1])
    weight /= weight.sum()
    for variable, axis in ((0, 0), (1, 1), (2, 2), (6, 3), (7, 4)):
        slow = weight.sum(axis=tuple(other for other in range(5) if other != axis))
        assert marginals[variable] == pytest.approx(slow)
    result = abp.infer(graph, "bp")  # a tree, so exact
    assert all(result.marginals[i] == pytest.approx(slow) for i, slow in enumerate(marginals))


def test_a_document_without_pairs_has_a_graph(documents, labels):
    scores = Scores(np.zeros((6, 3)), np.zeros((0, 2), dtype=np.int64), np.zeros((0, 3)))
    assert JointModel(labels, np.zeros((3, 3, 3)), 0.0).graph(documents[0], scores).n_factors == 6


def test_a_pipeline_gives_relations_what_the_table_says_of_chosen_types(documents, labels):
    rng = np.random.default_rng(3)
    scores = Scores(rng.normal(size=(6, 3)), np.array([[0, 1], [4, 2]]), rng.normal(size=(2, 3)))
    model = JointModel(labels, rng.normal(size=(3, 3, 3)), 0.4)
    known = {i: labels.types[int(scores.types[i].argmax())] for i in range(6)}
    result = abp.infer(model.graph(documents[0], scores), "bp", evidence=known)
    given = np.exp(pipeline_relations(scores, model))
    for pair in range(2):
        assert result.marginals[6 + pair] == pytest.approx(given[pair] / given[pair].sum())


def test_tokens_are_found_around_and_between():
    tokens = Tokens("Вчера в Липовске, говорят, шёл дождь")
    assert tokens.before(8) == ["в", "вчера"]
    assert tokens.after(16) == [",", "говорят", ","]
    assert tokens.between(16, 30) == [",", "говорят", ",", "шёл"]


def test_features_do_not_know_types_and_relations(documents, labels):
    document = documents[0]
    entities = tuple(replace(entity, type=labels.types[0]) for entity in document.entities)
    blind = replace(document, entities=entities, relations=frozenset())
    pairs = [candidate_pairs(document)]
    assert (entity_rows([document]) != entity_rows([blind])).nnz == 0
    assert (pair_rows([document], pairs) != pair_rows([blind], pairs)).nnz == 0


def test_the_two_orders_of_a_pair_have_different_features(documents):
    rows = pair_rows(documents[:1], [np.array([[0, 1], [1, 0]])])
    assert (rows[0] != rows[1]).nnz > 0


def test_local_classifiers_learn_what_is_easy(documents, labels):
    test = documents[-2:]
    scores = train(documents[:20], documents[20:22], labels, seed=0).scores(test)
    for document, one in zip(test, scores, strict=True):
        assert np.exp(one.types).sum(axis=1) == pytest.approx(1.0)
        assert np.exp(one.relations).sum(axis=1) == pytest.approx(1.0)
        assert (one.types.argmax(axis=1) == type_states([document], labels)).all()
        right = one.relations.argmax(axis=1) == relation_states([document], [one.pairs], labels)
        assert right.mean() > 0.85


def test_states_that_no_training_document_has_are_unlikely(documents, folder, tmp_path):
    conf = (folder / "annotation.conf").read_text(encoding="utf-8").replace("FIRM\n", "FIRM\nMOON\n", 1)
    more = read_labels(write_folder(tmp_path, [], conf=conf))
    scores = train(documents[:8], documents[20:22], more, seed=0).scores(documents[-1:])[0]
    moon = more.types.index("MOON")
    assert np.isfinite(scores.types).all()
    assert np.exp(scores.types[:, moon]).max() < 0.05


def test_training_on_nothing_to_tell_apart_is_refused(documents, labels):
    document = documents[0]
    lone = replace(document, entities=document.entities[:1], relations=frozenset())
    with pytest.raises(abp.OptionError, match="at least two types"):
        train([lone], [lone], labels, seed=0)


@pytest.mark.compiled
def test_every_contender_has_a_row_per_document_and_a_run_can_go_on(folder, tmp_path):
    groups = list(run_nerel(folder, quick=False, seed=0, progress=quiet))
    rows = [row for group in groups for row in group]
    assert [(row["document"], row["contender"]) for row in rows] == [
        (document, name) for document in ("d22", "d23") for name in contenders()
    ]
    assert len({tuple(row) for row in rows}) == 1  # the same columns in the same order
    for row in rows:
        assert row["true_positives"] + row["false_negatives"] == 4
        assert row["types_total"] == row["n_entities"] == 6
        if row["contender"] in {"bp", "adaptive"}:
            assert row["l2"] < 1e-6
            assert row["stop_reason"] == "CONVERGED"
    rest = list(run_nerel(folder, quick=False, seed=0, progress=quiet, done={"d22"}))
    assert [[row["document"] for row in group] for group in rest] == [["d23"] * len(contenders())]
    assert not list(run_nerel(folder, quick=False, seed=0, progress=quiet, done={"d22", "d23"}))
    path = tmp_path / "nerel.csv"
    for group in groups:
        append_rows(path, group)
    assert nerel_section(read_rows(path)) == nerel_section(rows)
    path.write_text(path.read_text()[:-30])  # a write that was cut short
    assert {row["document"] for row in read_rows(path)} == {"d22"}
    pack_rows(path)
    assert not path.exists()
    assert {row["document"] for row in read_rows(path)} == {"d22"}
    append_rows(path, groups[1])
    assert nerel_section(read_rows(path)) == nerel_section(rows)
    pack_rows(path)
    assert nerel_section(read_rows(path)) == nerel_section(rows)
    assert "tested on 2 with 12 entities" in nerel_section(rows)


def test_raw_rows_that_are_none_are_named(tmp_path):
    path = tmp_path / "nerel.csv"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(abp.FormatError, match=r"nerel.csv.*not text"):
        read_rows(path)
    path.write_text("a,b\n1,2\n")
    with pytest.raises(abp.FormatError, match="line 1: expected the columns seed,document"):
        read_rows(path)
    path.write_text(",".join(COLUMNS) + "\n" + ",".join("x" for _ in COLUMNS) + "\n")
    with pytest.raises(abp.FormatError, match="line 2: could not convert"):
        read_rows(path)


@pytest.mark.compiled
def test_ctrl_c_while_tuning_ends_it(folder, monkeypatch):
    real, calls = tuning.infer, []

    def interrupted(graph, *words, **options):
        calls.append(graph)
        result = real(graph, *words, **options)
        return abp.Result.of(result, result, abp.StopReason.INTERRUPTED, result.trace)

    monkeypatch.setattr(tuning, "infer", interrupted)
    with pytest.raises(KeyboardInterrupt):
        next(run_nerel(folder, quick=False, seed=0, progress=quiet))
    assert len(calls) == 1


def test_a_fingerprint_tells_folders_apart(folder, tmp_path):
    same = write_folder(tmp_path, [invented(0, "train")])
    assert fingerprint(folder) == fingerprint(folder)
    assert fingerprint(folder) != fingerprint(same)
    with pytest.raises(abp.OptionError, match=r"nerel_compact.jsonl.gz"):
        fingerprint(tmp_path / "nowhere")


def test_a_folder_without_a_split_is_refused(tmp_path):
    write_folder(tmp_path, [invented(0, "train"), invented(1, "dev")])
    with pytest.raises(abp.OptionError, match="there are no test documents"):
        list(run_nerel(tmp_path, quick=True, seed=0, progress=quiet))


@pytest.mark.compiled
def test_joint_inference_runs_on_real_documents(nerel_folder, monkeypatch):
    monkeypatch.setattr(task, "QUICK", {"train": 12, "dev": 1, "test": 1})
    (document,) = run_nerel(nerel_folder, quick=True, seed=0, progress=quiet)
    rows = {row["contender"]: row for row in document}
    assert set(rows) == set(contenders())
    assert rows["adaptive"]["l2"] < 1e-6
    assert rows["bp"]["types_right"] > rows["bp"]["types_total"] / 3
