"""Evidence and marginals in files."""

import csv
import json
import os
import stat

import numpy as np
import pytest

import anytimebp as abp
from anytimebp.formats.uai_results import read_pr
from anytimebp.formats.whole_file import whole_file


def model():
    graph = abp.FactorGraph()
    graph.add_variable("weather", ["sun", "rain"])
    graph.add_variable("ground", 3)
    graph.add_factor([0, 1], log_table=np.arange(6.0).reshape(2, 3) / 3)
    return graph


@pytest.fixture
def evidence(tmp_path):
    def read_text(text, ending=".evid"):
        path = tmp_path / f"known{ending}"
        path.write_text(text)
        return abp.read_evidence(path, model())

    return read_text


def test_evidence_of_both_styles(evidence):
    assert evidence("2 0 1 1 2") == {"weather": "rain", "ground": 2}
    assert evidence("1\n2 0 1 1 2\n") == {"weather": "rain", "ground": 2}
    assert evidence("1 1 2") == {"ground": 2}
    assert evidence("1\n1 1 2") == {"ground": 2}
    assert evidence("0") == evidence("1 0") == evidence("0 # none") == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "empty"),
        ("2 0 1", "the count is 2, and 2 numbers follow"),
        ("1 2 0", "line 1: the model has the variables 0 to 1, at '2'"),
        ("1\n0\n2", "line 3: variable 0 has the states 0 to 1, at '2'"),
        ("2 0 1 0 1", "observed twice"),
        ("1 0 a", "expected a whole number of at least 0, at 'a'"),
        ("1 0 -1", "at '-1'"),
    ],
)
def test_evidence_errors(evidence, text, said):
    with pytest.raises(abp.FormatError) as caught:
        evidence(text)
    assert said in str(caught.value), str(caught.value)


def test_evidence_by_name(evidence):
    assert evidence('{"weather": "rain", "ground": [0, 2]}', ".json") == {"weather": "rain", "ground": {0, 2}}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"wether": "rain"}', "did you mean 'weather'"),
        ('{"weather": "snow"}', "has no state 'snow'"),
        ('{"ground": []}', "empty"),
        ('{"ground": [[1]]}', "unhashable"),
        ("[1]", "an object of names and labels"),
        ('{\n"a": }', "line 2: not JSON"),
    ],
)
def test_evidence_by_name_errors(evidence, text, said):
    with pytest.raises(abp.FormatError) as caught:
        evidence(text, ".json")
    assert said in str(caught.value), str(caught.value)


@pytest.fixture
def result():
    return abp.infer(model(), "bp")


def test_mar_reads_back_to_the_last_bit(result, tmp_path):
    for name in ("r.MAR", "r.mar.gz"):
        abp.write_marginals(result, tmp_path / name)
        back = abp.read_marginals(tmp_path / name)
        assert [m.tolist() for m in back] == [result.marginals[i].tolist() for i in range(2)]
    assert (tmp_path / "r.MAR").read_text().startswith("MAR\n2 2 0.")


def test_mar_of_the_older_style(tmp_path):
    (tmp_path / "r.MAR").write_text("MAR\n1\n2 2 0.25 0.75 1 1\n")
    assert [m.tolist() for m in abp.read_marginals(tmp_path / "r.MAR")] == [[0.25, 0.75], [1.0]]
    (tmp_path / "r.MAR").write_text("MAR\n2 2 0.25 0.75 2 1\n")
    with pytest.raises(abp.FormatError, match="do not fit"):
        abp.read_marginals(tmp_path / "r.MAR")


def test_pr_is_log10_of_z(result, tmp_path):
    abp.write_marginals(result, tmp_path / "r.PR")
    assert read_pr(tmp_path / "r.PR") == pytest.approx(np.log10(np.exp(np.arange(6) / 3).sum()), abs=1e-13)


def test_csv_and_json_hold_labels_and_every_bit(result, tmp_path):
    abp.write_marginals(result, tmp_path / "r.csv")
    rows = list(csv.DictReader((tmp_path / "r.csv").read_text(encoding="utf-8").splitlines()))
    assert [(row["variable"], row["state"]) for row in rows[:3]] == [
        ("weather", "sun"),
        ("weather", "rain"),
        ("ground", "0"),
    ]
    assert [float(row["probability"]) for row in rows[:2]] == result.marginals["weather"].tolist()
    abp.write_marginals(result, tmp_path / "r.json")
    found = json.loads((tmp_path / "r.json").read_text())
    assert found["stop_reason"] == "CONVERGED"
    assert found["log_z"] == result.log_z
    assert found["marginals"]["ground"] == {"labels": [0, 1, 2], "probabilities": result.marginals["ground"].tolist()}
    assert "seconds" not in found


def test_an_empty_graph_can_be_written(tmp_path):
    nothing = abp.infer(abp.FactorGraph(), "bp")
    for name in ("r.json", "r.csv", "r.MAR"):
        abp.write_marginals(nothing, tmp_path / name)
    assert json.loads((tmp_path / "r.json").read_text())["marginals"] == {}
    assert abp.read_marginals(tmp_path / "r.MAR") == []


def test_unknown_endings(result, tmp_path):
    with pytest.raises(abp.FormatError, match=r"'.xls'; there are .mar, .pr, .json, .csv, .parquet"):
        abp.write_marginals(result, tmp_path / "r.xls")


# ---------------------------------------------------------------- whole or not at all
def fail_halfway(path):
    with whole_file(path) as file:
        file.write(b"half")
        raise ZeroDivisionError


def test_a_failed_write_leaves_what_was_there(tmp_path):
    path = tmp_path / "out"
    with pytest.raises(ZeroDivisionError):
        fail_halfway(path)
    assert list(tmp_path.iterdir()) == []
    path.write_bytes(b"old")
    with pytest.raises(ZeroDivisionError):
        fail_halfway(path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_links_and_modes_survive(tmp_path):
    path, link = tmp_path / "out", tmp_path / "link"
    path.write_bytes(b"old")
    path.chmod(0o640)
    link.symlink_to(path)
    with whole_file(link) as file:
        file.write(b"new")
    assert link.is_symlink()
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_devices_are_written_to_as_they_are():
    with whole_file(os.devnull) as file:
        file.write(b"gone")
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)  # noqa: PTH116
