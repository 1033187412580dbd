"""Evidence and marginals in files."""

import csv
import errno
import json
import os
import re
import stat
import subprocess
import sys
import threading

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
        ('{"ground": 1, "weather": "sun", "ground": 2}', "known.json: variable 'ground' is observed twice"),
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


@pytest.mark.parametrize(
    ("text", "line", "token"),
    [
        ("MAR\n2\n2 0.25 0.75\n2 0.5 nan", 4, "nan"),
        ("MAR\n2\n2 -0.25 1\n2 0.5 0.5", 3, "-0.25"),
        ("MAR\n1\n2\n2 0 1\n2 0.5\n1.5", 6, "1.5"),
    ],
)
def test_marginals_that_are_no_probabilities_are_refused(tmp_path, text, line, token):
    (tmp_path / "r.MAR").write_text(text)
    with pytest.raises(abp.FormatError, match=f"from 0 to 1, at '{token}'") as caught:
        abp.read_marginals(tmp_path / "r.MAR")
    assert caught.value.line == line


def test_evidence_that_unpacks_beyond_all_bounds_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("anytimebp.formats.evidence.MOST_BYTES", 1000)
    (tmp_path / "e.json").write_text("{}" + " " * 1000)
    with pytest.raises(abp.FormatError, match="more than 1,000 bytes"):
        abp.read_evidence(tmp_path / "e.json", model())


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


ODD = ["a\rb", "a\nb", "a\r\nb", "a,b", 'a"b', '"', " a ", "", "é\u2028", "'1'"]


def result_on(*universes, names=None):
    graph = abp.FactorGraph()
    for k, states in enumerate(universes):
        variable = graph.add_variable(names[k] if names else f"v{k}", states)
        graph.add_factor([variable], log_table=np.arange(variable.n_states) / 7)
    return abp.infer(graph, "bp")


def test_csv_reads_back_whatever_the_names_and_labels(tmp_path):
    names = [name for name in ODD if name]
    result = result_on(*[ODD] * len(names), names=names)
    abp.write_marginals(result, tmp_path / "r.csv")
    marginal = result.marginals[0].tolist()
    expected = [[name, label, repr(p)] for name in names for label, p in zip(ODD, marginal, strict=True)]
    with (tmp_path / "r.csv").open(encoding="utf-8", newline="") as file:
        head, *rows = csv.reader(file)
    assert head == ["variable", "state", "probability"]
    assert rows == expected
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_csv(tmp_path / "r.csv", keep_default_na=False, dtype=str)
    assert frame.to_numpy().tolist() == expected


def test_labels_equal_as_text_are_told_apart_in_files(tmp_path):
    result = result_on([1, "1", None], [2.5, "2.5"], [None, "None"])
    abp.write_marginals(result, tmp_path / "r.csv")
    rows = list(csv.reader((tmp_path / "r.csv").read_text().splitlines()))[1:]
    assert [row[1] for row in rows] == ["1", "'1'", "None", "2.5", "'2.5'", "None", "'None'"]
    abp.write_marginals(result, tmp_path / "r.json")
    found = json.loads((tmp_path / "r.json").read_text())["marginals"]
    assert [found[f"v{k}"]["labels"] for k in range(3)] == [[1, "1", "None"], ["2.5", "'2.5'"], ["None", "'None'"]]


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_names_that_are_no_text_are_refused_with_the_file(tmp_path, ending):
    if ending == ".parquet":
        pytest.importorskip("pyarrow")
    for result in (result_on(2, names=["\ud800"]), result_on(["\ud800", "b"])):
        with pytest.raises(abp.FormatError, match=rf"r{ending}: .*\\ud800"):
            abp.write_marginals(result, tmp_path / f"r{ending}")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("ending", [".csv", ".json"])
def test_numbers_too_long_for_text_are_refused_with_the_file(tmp_path, ending):
    with pytest.raises(abp.FormatError, match=rf"r{ending}: a name or a label cannot be written"):
        abp.write_marginals(result_on([10**5000, 1]), tmp_path / f"r{ending}")


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


@pytest.mark.unix
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


@pytest.mark.unix
def test_pipes_by_their_link_in_dev_are_written_to():
    code = "from anytimebp.formats.whole_file import whole_file as w\nwith w('/dev/stdout') as f: f.write(b'seen')"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout == b"seen"


def test_devices_are_written_to_as_they_are():
    with whole_file(os.devnull) as file:
        file.write(b"gone")
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)  # noqa: PTH116


def test_writers_of_one_file_do_not_meet(tmp_path):
    path, inside, failed = tmp_path / "out", threading.Barrier(8), []

    def write(text):
        try:
            with whole_file(path) as file:
                file.write(text)
                inside.wait(20)
        except (OSError, threading.BrokenBarrierError) as error:
            failed.append(error)

    writers = [threading.Thread(target=write, args=(bytes([65 + k]) * 1000,)) for k in range(8)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert failed == []
    assert len(set(path.read_bytes())) == 1
    assert len(path.read_bytes()) == 1000
    assert list(tmp_path.iterdir()) == [path]


def test_names_may_be_as_long_as_the_system_allows(tmp_path):
    path = tmp_path / ("é" * 125 + ".csv")
    with whole_file(path) as file:
        file.write(b"x")
    assert path.read_bytes() == b"x"


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
@pytest.mark.unix
def test_new_files_have_the_mode_that_the_umask_says(tmp_path, umask):
    before = os.umask(umask)
    try:
        with whole_file(tmp_path / "out") as file:
            file.write(b"x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o666 & ~umask


@pytest.mark.unix
def test_links_that_go_in_circles_are_an_error_of_the_system(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    one.symlink_to(two)
    two.symlink_to(one)
    with pytest.raises(OSError, match="one") as caught:
        fail_halfway(one)
    assert caught.value.errno == errno.ELOOP
    assert {path.name for path in tmp_path.iterdir()} == {"one", "two"}


def fail_with_the_disk_full(path):
    with whole_file(path):
        raise OSError(errno.ENOSPC, "No space left on device")


def test_errors_of_the_system_name_the_file(tmp_path):
    with pytest.raises(OSError, match="No space") as caught:
        fail_with_the_disk_full(tmp_path / "out")
    assert caught.value.filename == str(tmp_path / "out")
    with pytest.raises(FileNotFoundError) as caught:
        fail_halfway(tmp_path / "nowhere" / "out")
    assert caught.value.filename == str(tmp_path / "nowhere" / "out")


def write_more_than_a_pipe_holds(path):
    with whole_file(path) as file:
        file.write(b"x" * 10**6)


@pytest.mark.unix
def test_a_pipe_whose_reader_leaves_is_named(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    threading.Timer(0.2, os.close, (reader,)).start()
    with pytest.raises(BrokenPipeError) as caught:
        write_more_than_a_pipe_holds(path)
    assert caught.value.filename == str(path)


def test_csv_holds_no_formulas_and_every_name_can_be_read_back(tmp_path):
    names = ["=1+1", "+a", "-a", "@a", "\ta", "\ra", "'=a", "''-a", "'a", "a;=b", "plain", "-5", "+1.5e3"]
    labels = ["=cmd()", -1, 2, "'=cmd()", "a=b", "-", "-1+1"]
    graph = abp.FactorGraph()
    for name in names:
        graph.add_variable(name, labels)
    abp.write_marginals(abp.infer(graph, "bp"), tmp_path / "r.csv")
    with (tmp_path / "r.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))[1:]
    for row in rows:
        for cell in row:
            assert cell[0] not in "=+-@\t\r" or cell in {"-1", "-5", "+1.5e3"}, cell

    def back(cell):
        return re.sub("^'(?='*[=+@\t\r-])", "", cell)

    assert [back(row[0]) for row in rows[:: len(labels)]] == names
    assert [row[1] for row in rows[: len(labels)]] == ["'=cmd()", "-1", "2", "''=cmd()", "a=b", "'-", "'-1+1"]
