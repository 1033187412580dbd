import json
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import anytimebp as abp
from anytimebp.cli import cases as module
from anytimebp.cli.main import main
from oracle.models import grid


@pytest.fixture(name="model")
def _model(tmp_path):
    path = tmp_path / "model.npz"
    abp.write_model(grid(3, 3, 1.0, 0.5, 0), path)
    return path


@pytest.fixture(name="run")
def _run(capsys):
    def call(*words):
        code = main(["infer", *map(str, words)])
        said = capsys.readouterr()
        return code, said.out + said.err

    return call


def lines(folder):
    return [json.loads(line) for part in sorted(folder.glob("part-*.jsonl")) for line in part.read_text().splitlines()]


@pytest.mark.parametrize("kind", ["jsonl", "csv"])
def test_every_case_has_a_line_in_order(run, model, tmp_path, monkeypatch, kind):
    monkeypatch.setattr(module, "PART", 4)
    cases, folder = tmp_path / f"cases.{kind}", tmp_path / "results"
    if kind == "jsonl":
        cases.write_text("".join(json.dumps({"x0": k % 3} if k else {}) + "\n" for k in range(10)))
    else:
        cases.write_text("x0,x4\n" + "".join(f"{k % 3 if k else ''},\n" for k in range(10)))
    assert run(model, "--cases", cases, "--output", folder)[0] == 0
    assert [line["case"] for line in lines(folder)] == list(range(10))
    graph = abp.read_model(model)
    for k, line in enumerate(lines(folder)):
        whole = abp.infer(graph, evidence={"x0": k % 3} if k else None)
        assert line["log_z"] == pytest.approx(whole.log_z)
        np.testing.assert_allclose(line["marginals"]["x5"], whole.marginals["x5"])


def test_a_killed_command_goes_on_without_doubling_or_losing_a_case(run, model, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "PART", 3)
    cases, folder = tmp_path / "cases.jsonl", tmp_path / "results"
    cases.write_text("".join(json.dumps({"x0": k % 3}) + "\n" for k in range(10)))
    run(model, "--cases", cases, "--output", folder)
    whole = lines(folder)
    (folder / "part-00001.jsonl").unlink()
    (folder / ".half.part").write_text("{")  # of a writer that was killed
    kept = (folder / "part-00000.jsonl").stat().st_mtime_ns
    assert "3 cases solved" in run(model, "--cases", cases, "--output", folder)[1]
    assert lines(folder) == whole
    assert (folder / "part-00000.jsonl").stat().st_mtime_ns == kept
    assert not list(folder.glob(".*.part"))


def has_bytes(path):
    """Tell whether something is written to a file, which may be gone by now."""
    try:
        return path.stat().st_size > 0
    except FileNotFoundError:
        return False


@pytest.mark.compiled
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no such signal")
@pytest.mark.parametrize("kind", ["jsonl", "csv"])
def test_a_command_that_was_killed_again_and_again_has_every_case_once(model, tmp_path, kind):
    cases, folder, n = tmp_path / f"cases.{kind}", tmp_path / "results", 2500
    rows = [f"{k % 3},{k // 3 % 3}" if kind == "csv" else json.dumps({"x0": k % 3, "x4": k // 3 % 3}) for k in range(n)]
    cases.write_text("\n".join((["x0,x4"] if kind == "csv" else []) + rows) + "\n")
    command = [sys.executable, "-m", "anytimebp", "infer", str(model), "--cases", str(cases), "--output", str(folder)]

    def kill_when(pattern):
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
            while not any(map(has_bytes, folder.glob(pattern))):
                assert process.poll() is None, "it was to be killed before its end"
                time.sleep(0.001)
            process.kill()
        assert process.returncode == -signal.SIGKILL

    kill_when(".*.part")  # in the middle of the first part file
    kill_when("part-00000.jsonl")
    assert not (folder / "part-00002.jsonl").exists()
    assert subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode == 0
    found = lines(folder)
    assert [line["case"] for line in found] == list(range(n))
    assert sorted(path.name for path in folder.iterdir()) == ["cases.json", *(f"part-0000{k}.jsonl" for k in range(3))]
    graph = abp.read_model(model)
    for k in (0, 4, 999, 1000, 1001, 2499):
        whole = abp.infer(graph, evidence={"x0": k % 3, "x4": k // 3 % 3})
        np.testing.assert_allclose(found[k]["marginals"]["x5"], whole.marginals["x5"], rtol=1e-9)


def test_a_case_that_fails_is_a_line_with_an_error(run, model, tmp_path):
    cases, folder = tmp_path / "cases.jsonl", tmp_path / "results"
    cases.write_text('{"x0": 1}\n{"nobody": 1}\n{"x0": [0, 2]}\n')
    assert run(model, "--cases", cases, "--output", folder)[0] == 0
    good, bad, allowed = lines(folder)
    assert "log_z" in good
    assert bad["error"].startswith("EvidenceError")
    assert allowed["marginals"]["x0"][1] == 0.0


def test_a_folder_of_other_cases_is_refused(run, model, tmp_path):
    cases, folder = tmp_path / "cases.jsonl", tmp_path / "results"
    cases.write_text('{"x0": 1}\n')
    run(model, "--cases", cases, "--output", folder)
    cases.write_text('{"x0": 2}\n')
    code, said = run(model, "--cases", cases, "--output", folder)
    assert code != 0
    assert "another folder" in said


UNREADABLE = [
    ("c.jsonl", b"[1]\n", "line 1"),
    ("c.jsonl", b"{}\n{\n", "line 2"),
    ("c.jsonl", b'{"x0": 1, "x0": 2}\n', "line 1: variable 'x0' is observed twice"),
    ("c.jsonl", b'{"x0": [[1]]}\n', "line 1: no label is a list"),
    ("c.jsonl", b'{"x0": ' + b"[" * 100_000 + b"}\n", "line 1: not JSON"),
    ("c.jsonl", b'{"x0": 1}\n{"x\xff": 1}\n', "line 2: the file is not UTF-8 text"),
    ("c.csv", b"nobody\n1\n", "line 1"),
    ("c.csv", b"x0,x1,x0\n1,1,2\n", "line 1: variable 'x0' has 2 columns"),
    ("c.csv", b"x0,x1\n1,1\n1,\xff\n", "line 3: the file is not UTF-8 text"),
    ("c.csv", b"x0,x1\n1,1\n1," + b"1" * 200_000 + b"\n", "line 3: not CSV"),
    ("c.csv", b'x0,x1\n"1\n",1\n1\n', "line 4: expected 2 fields, got 1"),
]


@pytest.mark.parametrize(("name", "text", "expected"), UNREADABLE)
def test_a_file_that_holds_no_cases_is_refused_with_its_line(run, model, tmp_path, name, text, expected):
    (tmp_path / name).write_bytes(text)
    code, said = run(model, "--cases", tmp_path / name, "--output", tmp_path / "r")
    assert code == 2
    assert expected in said


@pytest.mark.parametrize(("name", "text"), [("c.jsonl", '{"x0": 1}\n'), ("c.csv", "x0\n1\n")])
def test_a_file_of_cases_may_begin_with_a_byte_order_mark(run, model, tmp_path, name, text):
    (tmp_path / name).write_text(text, encoding="utf-8-sig")
    assert run(model, "--cases", tmp_path / name, "--output", tmp_path / "r")[0] == 0
    assert lines(tmp_path / "r")[0]["marginals"]["x0"][1] == 1.0


def test_options_that_do_not_go_with_cases_are_refused(run, model, tmp_path):
    (tmp_path / "c.txt").write_text("")
    assert run(model, "--cases", tmp_path / "c.txt", "--output", tmp_path / "r")[0] == 2
    (tmp_path / "c.jsonl").write_text("")
    assert run(model, "--cases", tmp_path / "c.jsonl")[0] == 2


def test_a_target_that_is_not_there_is_an_error_of_the_command(run, model, tmp_path):
    cases, folder = tmp_path / "cases.jsonl", tmp_path / "results"
    cases.write_text("{}\n")
    code, said = run(model, "--cases", cases, "--output", folder, "--target", "nobody")
    assert code == 2
    assert "there is no variable named 'nobody'" in said
    assert not folder.exists()


@pytest.mark.parametrize("damage", [b"{", b"\xff"])
def test_a_folder_whose_mark_is_damaged_is_refused(run, model, tmp_path, damage):
    cases, folder = tmp_path / "cases.jsonl", tmp_path / "results"
    cases.write_text("{}\n")
    folder.mkdir()
    (folder / module.BEGUN_WITH).write_bytes(damage)
    code, said = run(model, "--cases", cases, "--output", folder)
    assert code == 2
    assert "cases.json: is damaged" in said


def test_targets_of_cases_are_all_that_is_written(run, model, tmp_path):
    cases, folder = tmp_path / "cases.jsonl", tmp_path / "results"
    cases.write_text('{"x0": 1}\n{"x0": 2}\n')
    assert run(model, "--cases", cases, "--output", folder, "--target", "x5", "--target", "x4")[0] == 0
    graph = abp.read_model(model)
    for k, line in enumerate(lines(folder), 1):
        assert list(line["marginals"]) == ["x4", "x5"]
        np.testing.assert_allclose(line["marginals"]["x5"], abp.infer(graph, evidence={"x0": k}).marginals["x5"])
    assert "--variable" in run(model, "--cases", cases, "--output", folder, "--variable", "x5")[1]


def test_parts_do_not_go_with_cases(run, model, tmp_path):
    cases = tmp_path / "cases.jsonl"
    cases.write_text("{}\n")
    code, said = run(model, "--cases", cases, "--output", tmp_path / "results", "--parts", "2")[:2]
    assert code == 2
    assert "--parts" in said
