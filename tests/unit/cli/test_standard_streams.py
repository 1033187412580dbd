"""The command line on standard input and output, on names that could do harm, and on amounts of memory."""

import gzip
import io
import json
import subprocess
import sys

import numpy as np
import pytest

import anytimebp as abp
from anytimebp.cli.infer import read_memory_size
from anytimebp.cli.main import main
from fuzz.mutations import BIF, FG, UAI, XMLBIF, npz

COMMAND = [sys.executable, "-m", "anytimebp"]
NAME = "a\x1b]0;PWNED\x07\x1b[2J"
ESCAPES = {"\x1b", "\x07", "\x9b", "\u202e"}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "m.uai").write_bytes(UAI)
    (tmp_path / "m.bif").write_bytes(BIF)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def piped(monkeypatch):
    def give(data):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), encoding="utf-8"))

    return give


def run(*arguments):
    return main([str(argument) for argument in arguments])


# ---------------------------------------------------------------- standard input and output
@pytest.mark.parametrize(
    ("kind", "data"),
    [("uai", UAI), ("fg", FG), ("bif", BIF), ("xmlbif", XMLBIF), ("npz", npz()), ("uai", gzip.compress(UAI, mtime=0))],
)
@pytest.mark.parametrize("name", ["-", "/dev/stdin"])
def test_models_come_from_standard_input(folder, piped, capsys, kind, data, name):
    piped(data)
    assert run("info", name, "--format", kind) == 0
    assert capsys.readouterr().out.startswith("standard input\nvariables")


@pytest.mark.unix
def test_a_pipe_leads_from_convert_to_infer(folder):
    ours = " ".join(COMMAND)
    command = f"{ours} convert - - --format bif --to npz < m.bif | {ours} infer - --format npz --output r.json"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)  # noqa: S607
    assert done.returncode == 0, done
    assert "standard output: 3 variables, 3 factors\n" in done.stderr
    assert set(json.loads((folder / "r.json").read_text())["marginals"]) == {"rain", "grass", "dew"}


def test_what_goes_to_standard_output_is_the_model_alone(folder, capsysbinary):
    assert run("convert", "m.uai", "-", "--to", "uai") == 0
    printed = capsysbinary.readouterr().out
    abp.write_model(abp.read_model("m.uai"), "again.uai")
    assert printed == (folder / "again.uai").read_bytes()


@pytest.mark.parametrize("data", [b"1 0 1", b' {"x0": 1}', gzip.compress(b'\xef\xbb\xbf{"x0": 1}', mtime=0)])
def test_evidence_comes_from_standard_input(folder, piped, capsys, data):
    piped(data)
    assert run("infer", "m.uai", "--evidence", "-", "--output", "r.json") == 0
    assert json.loads((folder / "r.json").read_text())["marginals"]["x0"]["probabilities"] == [0.0, 1.0]


def test_format_says_what_an_ending_does_not(folder, capsys):
    (folder / "model.txt").write_bytes(UAI)
    assert run("infer", "model.txt", "--format", "uai", "--top", 0) == 0
    assert run("convert", "model.txt", "out.txt", "--format", "uai", "--to", "fg") == 0
    assert run("info", "out.txt", "--format", "fg") == 0
    assert run("info", "model.txt", "--format", "bif") == 2
    assert "model.txt, line 1: expected network" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["info", "-"], "add --format uai|fg|bif|xmlbif|npz"),
        (["infer", "/dev/stdin"], "add --format uai|fg|bif|xmlbif|npz"),
        (["convert", "m.uai", "-", "--to", "sasca"], "'sasca' is not one of 'uai', 'fg', 'bif', 'xmlbif', 'npz'"),
        (["convert", "m.uai", "-"], "standard output has no ending that says its format; add --to"),
        (["info", "-", "--format", "uai"], "standard input, line 2: the number of variables: expected a whole number"),
        (["infer", "m.uai", "--evidence", "-"], "standard input, line 1: the evidence: expected a whole number"),
        (["infer", "-", "--format", "uai", "--evidence", "-"], "the model or the evidence, but not both"),
        (["infer", "m.uai", "--output", "-"], "--output needs a file, whose ending says the format"),
        (["convert", "-", "out.bif", "--format", "bif"], "standard input, line 1: expected network"),
        pytest.param(
            ["info", "/dev/zero", "--format", "uai"],
            "/dev/zero: this is a device, not a file",
            marks=pytest.mark.unix,
        ),
    ],
)
def test_errors_of_standard_streams(folder, piped, capsys, arguments, said):
    piped(b"MARKOV\ntwo\n")
    assert run(*arguments) == 2
    printed, errors = capsys.readouterr()
    assert printed == ""
    assert said in errors
    assert "Traceback" not in errors
    assert sorted(path.name for path in folder.iterdir()) == ["m.bif", "m.uai"]


def test_standard_input_may_be_too_much_or_closed(folder, piped, capsys, monkeypatch):
    monkeypatch.setattr("anytimebp.cli.standard_streams.MOST_BYTES", 10)
    piped(UAI)
    assert run("info", "-", "--format", "uai") == 2
    assert "standard input: more than 10 bytes" in capsys.readouterr().err
    monkeypatch.setattr(sys, "stdin", None)
    assert run("info", "-", "--format", "uai") == 2
    assert "standard input: it is closed" in capsys.readouterr().err


# ---------------------------------------------------------------- names
def test_names_in_errors_cannot_drive_the_terminal(folder, capsys):
    text = f'network u {{ }}\nvariable "{NAME}" {{ type discrete [ 2 ] {{ s, t }}; }}\n'
    (folder / "zero.bif").write_text(f'{text}probability ( "{NAME}" ) {{ table 0, 0; }}\n')
    (folder / "half.bif").write_text(f'{text}probability ( "{NAME}" ) {{ table 0.2, 0.2; }}\n')
    (folder / "none.bif").write_text(text)
    (folder / "token\u202e.bif").write_text(f'{text}"{NAME}"')
    for arguments, code in (
        (["info", "zero.bif"], 3),
        (["infer", "zero.bif", "--debug"], 3),
        (["info", "half.bif"], 0),
        (["info", "none.bif"], 2),
        (["info", "token\u202e.bif"], 2),
        (["infer", "half.bif", "--observe", f"{NAME}=x"], 2),
        (["infer", "half.bif", "--variable", f"{NAME}x"], 2),
        (["infer", f"{NAME}.bif"], 2),
        (["convert", "half.bif", f"{NAME}.npz"], 0),
        (["infer", "half.bif", "--method", f"{NAME}"], 2),
        ([f"{NAME}"], 2),
        (["infer", "half.bif", "--variable", NAME, "--output", f"{NAME}.csv"], 0),
    ):
        assert run(*arguments) == code, arguments
        printed, errors = capsys.readouterr()
        assert not ESCAPES & set(printed + errors), arguments
        assert r"\x1b]0;PWNED" in printed + errors or arguments[1].startswith("token"), arguments


def test_names_in_errors_of_the_library_are_written_out():
    graph = abp.FactorGraph()
    graph.add_variable(NAME, 2)
    with pytest.raises(abp.InconsistentModelError) as caught:
        graph.add_factor([NAME], table=[0.0, 0.0])
    assert not ESCAPES & set(str(caught.value))
    with pytest.raises(abp.ModelError) as wrong:
        graph.add_factor([NAME], table=[0.0])
    assert not ESCAPES & set(str(wrong.value))


def test_warnings_are_lines(folder, capsys):
    (folder / "half.bif").write_bytes(BIF.replace(b"0.2, 0.8", b"0.2, 0.2"))
    assert run("info", "half.bif") == 0
    errors = capsys.readouterr().err
    assert errors.startswith("anytimebp: warning: half.bif: the distribution of 'rain' sums to 0.4, not to 1")
    assert errors.count("\n") == 1


@pytest.mark.parametrize("digits", [100, 5000])
def test_very_long_numbers_are_no_states(folder, capsys, digits):
    number = "9" * digits
    (folder / "e.json").write_text(f'{{"x0": {number}}}')
    (folder / "set.json").write_text(f'{{"x0": [0, {number}]}}')
    (folder / "e.evid").write_text(f"1 0 {number}")
    for arguments in (
        ["--observe", f"x0={number}"],
        ["--evidence", "e.json"],
        ["--evidence", "set.json"],
        ["--evidence", "e.evid"],
    ):
        assert run("infer", "m.uai", *arguments) == 2
        errors = capsys.readouterr().err
        assert "unexpected" not in errors
        assert "not JSON" not in errors
        assert len(errors) < 300


# ---------------------------------------------------------------- what is shown, and memory
def test_variables_asked_for_are_shown_in_full_or_by_their_likeliest_states(folder, capsys):
    graph = abp.FactorGraph()
    graph.add_variable("short", ["yes", "no", "may be"])
    graph.add_variable("long", 1000)
    graph.add_factor(["short"], table=[0.25, 0.5, 0.25])
    graph.add_factor(["long"], table=np.concatenate([[0.5], np.full(999, 0.5 / 999)]))
    abp.write_model(graph, "m.npz")
    assert run("infer", "m.npz", "--variable", "short", "--variable", "long", "--variable", "short") == 0
    printed = capsys.readouterr().out
    assert [line.split() for line in printed.splitlines() if line.startswith(("yes", "no ", "may be"))] == [
        ["yes", "0.250"],
        ["no", "0.500"],
        ["may", "be", "0.250"],
    ]
    assert printed.count("\nshort") == 1
    assert "\n980 others" in printed
    assert "most uncertain" not in printed
    assert run("infer", "m.npz", "--variable", "shirt") == 2
    assert "did you mean 'short'?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "size"),
    [
        *[("1000", 1000), ("500MB", 500_000_000), ("2GB", 2 * 10**9), ("2 gb", 2 * 10**9), ("1.5GiB", 3 * 2**29)],
        *[("3k", 3000), ("3KiB", 3072), ("0.25T", 250 * 10**9), ("7B", 7)],
    ],
)
def test_amounts_of_memory(text, size):
    assert read_memory_size(None, None, text) == size


@pytest.mark.parametrize("text", ["much", "-1", "1e9", "1iB", "2XB", "", "٣", "9" * 30, "0"])
def test_what_is_no_amount_of_memory(folder, capsys, text):
    assert run("infer", "m.uai", "--max-memory", text) == 2
    errors = capsys.readouterr().err
    assert ("max_memory must be" if text == "0" else "is not an amount of memory such as 500MB") in errors


def test_a_run_that_needs_more_memory_is_refused(folder, capsys):
    assert run("infer", "m.uai", "--method", "bp", "--max-memory", "10B") == 2
    assert "max_memory" in capsys.readouterr().err
    assert run("infer", "m.uai", "--method", "bp", "--max-memory", "1GB") == 0
