"""The command line as a user or a script meets it."""

import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import anytimebp as abp
from anytimebp.cli.main import main
from anytimebp.cli.outputs import write_each
from fuzz.mutations import BIF, UAI

COMMAND = [sys.executable, "-m", "anytimebp"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "m.uai").write_bytes(UAI)
    (tmp_path / "m.bif").write_bytes(BIF)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments):
    return main([str(argument) for argument in arguments])


# ---------------------------------------------------------------- infer
def test_infer_prints_how_it_ended_and_the_marginals(folder, capsys):
    assert run("infer", "m.bif", "--method", "bp") == 0
    printed, errors = capsys.readouterr()
    assert "converged" in printed
    assert re.search(r"grass +[\d.]+ of 3 +dry: 0\.\d+, ", printed)
    assert "with loops: BP's approximation" in printed
    assert "next: " in printed
    assert errors == ""


def test_infer_writes_what_the_library_computes(folder, capsys):
    assert run("infer", "m.uai", "--output", "r.MAR", "--output", "r.json", "--output", "r.csv.gz", "--top", 0) == 0
    result = abp.infer(abp.read_model("m.uai"), "exact")
    written = abp.read_marginals("r.MAR")
    assert [m.tolist() for m in written] == [result.marginals[i].tolist() for i in range(4)]
    assert json.loads((folder / "r.json").read_text())["log_z"] == result.log_z
    assert sorted(p.name for p in folder.iterdir()) == ["m.bif", "m.uai", "r.MAR", "r.csv.gz", "r.json"]


def test_evidence_comes_from_files_and_words(folder, capsys):
    (folder / "e.evid").write_text("1 0 1")
    assert run("infer", "m.uai", "--evidence", "e.evid", "--observe", "x3=0", "--output", "r.json") == 0
    found = json.loads((folder / "r.json").read_text())["marginals"]
    assert found["x0"]["probabilities"] == [0.0, 1.0]
    assert found["x3"]["probabilities"] == [1.0, 0.0]
    printed = capsys.readouterr().out
    assert "x0 " not in printed  # observed variables are not worth a line
    assert run("infer", "m.bif", "--observe", "grass=very wet") == 0


@pytest.mark.parametrize("method", ["bp", "residual", "truncated", "random", "fixed", "dynamic"])
def test_the_same_command_writes_the_same_bytes(folder, capsys, method):
    outputs = ["MAR", "PR", "json", "csv"]
    for name in ("one", "two"):
        files = [word for ending in outputs for word in ("--output", f"{name}.{ending}")]
        assert run("infer", "m.bif", "--method", method, "--seed", 3, *files) == 0
    for ending in outputs:
        assert (folder / f"one.{ending}").read_bytes() == (folder / f"two.{ending}").read_bytes()


def test_reports_are_the_same_but_for_the_timings(folder, capsys):
    pages = []
    for _ in range(2):
        assert run("infer", "m.bif", "--report", "page.html") == 0
        page = (folder / "page.html").read_text(encoding="utf-8")
        pages.append(re.sub(r'(<script[^>]*id="timings"[^>]*>).*?</script>', r"\1", page, flags=re.DOTALL))
    assert pages[0] == pages[1]
    assert "very wet" in pages[0]


# ---------------------------------------------------------------- errors
@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["infer"], 2, "Missing argument 'MODEL'. (see anytimebp infer --help)"),
        (["infer", "none.uai"], 2, "none.uai: No such file or directory"),
        (
            ["infer", "m.uai", "--method", "magic"],
            2,
            "'magic' is not one of 'bp', ",
        ),
        (["infer", "m.uai", "--seconds", "soon"], 2, "Invalid value for '--seconds'"),
        (["infer", "m.uai", "--seconds", "-1"], 2, "seconds must be a number of at least 0"),
        (["infer", "m.uai", "--target-error", "0"], 2, "target_error"),
        (["infer", "m.uai", "--grow", "2"], 2, "--grow is for --method random, fixed, dynamic, not for auto"),
        (["infer", "m.uai", "--output", "r.xls"], 2, "r.xls: no format for marginals has the ending '.xls'"),
        (["infer", "m.uai", "--output", "no/r.csv"], 2, "no/r.csv: there is no folder 'no'"),
        (["infer", "m.uai", "--report", "r.pdf"], 2, "r.pdf: no format for a report"),
        (["infer", "m.uai", "--evidence", "m.uai"], 2, "no format for evidence"),
        (["infer", "m.uai", "--observe", "x0"], 2, "--observe takes NAME=STATE, got 'x0'"),
        (["infer", "m.uai", "--observe", "x9=1"], 2, "no variable named 'x9'"),
        (["infer", "m.uai", "--observe", "x0=5"], 2, "has the states 0 to 1, not 5"),
        (["infer", "m.bif", "--observe", "rain=maybe"], 2, "no state 'maybe'; its states are 'yes', 'no'"),
        (["infer", "bad.uai"], 2, "bad.uai, line 2: the number of variables: expected a whole number"),
        (["infer", "zero.uai"], 3, "zero.uai: factor 0 (x0) is zero everywhere"),
        (["infer", "clash.uai"], 3, "possible"),
        (["infer", "m.uai", "--method", "dynamic", "--grow", "0"], 2, "grow must be a whole number of at least 1"),
        (["infer", "m.uai", "--threads", "0"], 2, "threads must be a whole number of at least 1"),
        (["info", "none.bif"], 2, "none.bif: No such file"),
        (["convert", "m.uai", "m.txt"], 2, "m.txt: no format for a model"),
        (["convert", "m.uai", "m.bif"], 2, "Bayesian networks only"),
        (["convert", "m.uai", "m.uai"], 2, "m.uai: this would overwrite a file that is read"),
        (["convert", "m.uai", "."], 2, ". is a folder; add --parts"),
        (["convert", "m.uai", ".", "--parts", "2"], 2, ". is there already"),
        (["convert", "m.uai", "-", "--parts", "2"], 2, "--parts writes .npz files into a folder"),
        (["infer", "m.uai", "--workers", "ray"], 2, "say how many `parts`"),
        (
            ["infer", "m.uai", "--evidence", "e.json", "--output", "e.json"],
            2,
            "e.json: this would overwrite a file that is read",
        ),
        (["frobnicate"], 2, "No such command 'frobnicate'"),
    ],
)
def test_errors_are_a_line_and_a_code(folder, capsys, arguments, code, said):
    (folder / "e.json").write_text("{}")
    (folder / "bad.uai").write_text("MARKOV\ntwo")
    (folder / "zero.uai").write_text("MARKOV 1 2 1 1 0 2 0 0")
    (folder / "clash.uai").write_text("MARKOV 1 2 2 1 0 1 0 2 0 1 2 1 0")
    before = sorted(folder.iterdir())
    assert run(*arguments) == code
    printed, errors = capsys.readouterr()
    assert printed == ""
    assert said in errors
    assert errors.startswith("anytimebp: ")
    assert errors.count("\n") <= 2
    assert "Traceback" not in errors
    assert sorted(folder.iterdir()) == before


def test_debug_shows_the_traceback_wherever_it_stands(folder, capsys):
    for arguments in (["--debug", "infer", "none.uai"], ["infer", "none.uai", "--debug"]):
        assert run(*arguments) == 2
        assert "Traceback" in capsys.readouterr().err


def test_unexpected_errors_are_a_line_too(folder, capsys, monkeypatch):
    monkeypatch.setattr("anytimebp.cli.paths.read_model_file", lambda *_: 1 / 0)
    assert run("info", "m.uai") == 1
    assert "unexpected ZeroDivisionError" in capsys.readouterr().err


def test_one_output_that_fails_does_not_lose_the_others(folder, capsys, monkeypatch):
    from anytimebp.formats import files  # noqa: PLC0415

    def disk_full(*_):
        raise OSError(28, "No space left on device", "r.csv")

    monkeypatch.setattr(files, "MARGINAL_WRITERS", dict(files.MARGINAL_WRITERS) | {".csv": disk_full})
    assert run("infer", "m.uai", "--output", "r.csv", "--output", "r.MAR", "--method", "bp") == 2
    printed, errors = capsys.readouterr()
    assert "r.csv: cannot be written: No space left on device" in errors
    assert "converged" in printed
    assert (folder / "r.MAR").exists()
    assert not (folder / "r.csv").exists()


# ---------------------------------------------------------------- the rest
def test_info_shows_sizes_and_a_method(folder, capsys):
    assert run("info", "m.uai") == 0
    printed = capsys.readouterr().out
    assert "variables      4" in printed
    assert re.search(r"2 to 3 +3  #{40}", printed)
    assert "with loops" in printed
    assert "`infer` is exact, on a junction tree: its cliques have 20 entries in all, which is cheap." in printed


def test_info_counts_what_is_listed_not_what_it_would_be_as_a_table(folder, capsys):
    (folder / "huge.fg").write_text("1\n\n2\n0 1\n1000000 1000000\n1\n0 1.0\n")
    assert run("info", "huge.fg") == 0
    printed = capsys.readouterr().out
    assert "listed entries 1 of 1 factor with 1,000,000,000,000 joint states" in printed
    assert re.search(r"full BP needs +\d+\.\d MB more", printed)
    assert "exact marginals in two passes" in printed


def test_convert_writes_parts_into_a_folder(folder, capsys):
    assert run("convert", "m.bif", "parts", "--parts", "2") == 0
    assert "in 2 parts" in capsys.readouterr().out
    in_parts = abp.parallel.PartitionedGraph.from_folder(folder / "parts")
    whole = abp.infer(abp.read_model(folder / "m.bif"), "bp")
    assert in_parts.infer().log_z == pytest.approx(whole.log_z, abs=1e-7)


def test_convert_says_what_is_lost(folder, capsys):
    assert run("convert", "m.bif", "out.uai") == 0
    printed, errors = capsys.readouterr()
    assert printed == "out.uai: 3 variables, 3 factors\n"
    assert "not kept: names of variables (3, such as 'rain')" in errors
    assert "not kept: labels of states" in errors
    assert run("convert", "m.bif", "out.npz") == 0
    assert capsys.readouterr().err == ""


def test_demo_runs_and_saves_its_model(folder, capsys):
    assert run("demo", "--sentence-only", "--save", "d.npz") == 0
    assert "<- changed" in capsys.readouterr().out
    assert run("infer", "d.npz", "--observe", "Paris=person") == 0


def test_version_help_and_completion(capsys):
    assert run("--version") == 0
    assert capsys.readouterr().out == f"anytimebp, version {abp.__version__}\n"
    assert run() == 0
    assert "Exit codes" in capsys.readouterr().out
    for shell in ("bash", "zsh", "fish"):
        assert run("completion", shell) == 0
        assert "_ANYTIMEBP_COMPLETE" in capsys.readouterr().out


def test_help_does_not_load_numba():
    code = (
        "import sys; from anytimebp.cli.main import main; main(['infer', '--help']); sys.exit('numba' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0


# ---------------------------------------------------------------- processes and terminals
@pytest.fixture
def long_model(folder):
    """Write a model on which growth takes minutes."""
    rng = np.random.default_rng(0)
    graph = abp.FactorGraph()
    graph.add_variables(64, 200)
    position = np.arange(64).reshape(8, 8)
    pairs = np.concatenate(
        [
            np.stack([position[:, :-1].ravel(), position[:, 1:].ravel()], 1),
            np.stack([position[:-1].ravel(), position[1:].ravel()], 1),
        ]
    )
    graph.add_factors(position.reshape(-1, 1), log_table=rng.normal(0, 2, (64, 200)))
    graph.add_factors(pairs, log_table=rng.normal(0, 2, (len(pairs), 200, 200)))
    abp.write_model(graph, folder / "long.npz")
    return "long.npz"


@pytest.mark.compiled
def test_a_pipe_gets_text_and_no_bar(long_model):
    done = subprocess.run(
        [*COMMAND, "infer", long_model, "--method", "dynamic", "--seconds", "0.5"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "\x1b" not in done.stdout + done.stderr
    assert "out of time; the marginals are consistent" in done.stdout
    assert "allow more --seconds" in done.stdout


@pytest.mark.compiled
@pytest.mark.unix
def test_a_reader_that_leaves_early_is_no_error(long_model):
    ours = f"{' '.join(COMMAND)} infer {long_model} --method fixed --seconds 0.2 --output r.MAR"
    command = f"{ours} | head -c 5; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)  # noqa: S607
    assert (done.returncode, done.stderr) == (0, "")
    assert len(abp.read_marginals("r.MAR")) == 64


@pytest.mark.compiled
@pytest.mark.unix
def test_ctrl_c_ends_the_run_and_writes_everything(long_model, folder):
    code, shown = on_terminal(
        [
            *COMMAND,
            "infer",
            long_model,
            *("--method", "dynamic"),
            *("--output", "r.MAR", "--output", "r.json"),
            "--report",
            "r.html",
        ]
    )
    assert code == 0
    assert "domains" in shown
    assert re.search(r"to BP \d\.\de[+-]\d\d", shown)
    assert "log Z" in shown
    assert "interrupted; the marginals are consistent" in shown
    found = json.loads((folder / "r.json").read_text())
    assert found["stop_reason"] == "INTERRUPTED"
    assert found["consistent"] is True
    assert len(abp.read_marginals("r.MAR")) == 64
    assert (folder / "r.html").exists()


def on_terminal(command, number=signal.SIGINT):
    """Run a command on a terminal, stop it once its bar has moved, and return exit code and what was shown."""
    import pty  # noqa: PLC0415  (Windows has none)

    child, terminal = pty.openpty()
    process = subprocess.Popen(
        command,
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
        env=os.environ | {"COLUMNS": "150"},
    )
    os.close(terminal)
    shown, pressed, start = b"", False, time.monotonic()
    try:
        while time.monotonic() - start < 120:
            if select.select([child], [], [], 0.1)[0]:
                try:
                    shown += os.read(child, 65536)
                except OSError:
                    break
            if not pressed and shown.count(b"residual") > 8:
                process.send_signal(number)
                pressed = True
        os.close(child)
        return process.wait(30), shown.decode()
    finally:
        process.kill()  # nobody else would end a run that has not listened
        process.wait()


def test_an_abort_writes_nothing_and_says_so(folder, capsys, monkeypatch):
    def pressed_twice(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(abp.Inference, "run", pressed_twice)
    before = sorted(folder.iterdir())
    assert run("infer", "m.uai", "--output", "r.MAR", "--report", "r.html") == 130
    printed, errors = capsys.readouterr()
    assert (printed, errors.strip()) == ("", "anytimebp: interrupted; nothing more is written")
    assert sorted(folder.iterdir()) == before


def test_words_are_completed():
    environment = os.environ | {"_ANYTIMEBP_COMPLETE": "bash_complete", "COMP_CWORD": "3"}
    environment["COMP_WORDS"] = "anytimebp infer --method d"
    done = subprocess.run([*COMMAND], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["plain,dynamic"]


def test_the_default_method_is_that_of_the_library(folder, capsys):
    assert run("infer", "m.uai", "--top", 0) == 0
    printed = capsys.readouterr().out
    assert "\nexact, " in printed
    assert "chose a junction tree (its cliques have 20 entries in all, which is cheap)" in printed


def test_info_says_why_a_wide_model_is_not_solved_exactly(folder, capsys):
    graph = abp.FactorGraph()
    graph.add_variables(30, 10)
    graph.add_factors([[i, j] for i in range(30) for j in range(i)], log_table=np.zeros((10, 10)))
    abp.write_model(graph, "wide.npz")
    assert run("info", "wide.npz") == 0
    printed = capsys.readouterr().out
    assert "The tables fit into memory" in printed
    assert re.search(
        r"at belief propagation; exact inference would need cliques of more than 1.0e\+30 entries", printed
    )


def test_infer_says_that_bp_may_be_off_and_what_exact_costs(folder, capsys):
    assert run("infer", "m.uai", "--method", "bp", "--top", 0) == 0
    printed = capsys.readouterr().out
    assert "estimated distance to BP" in printed
    assert "BP itself may be off on loops; exact inference would need cliques of 20 entries in all" in printed


def test_info_says_what_to_expect(folder, capsys, monkeypatch):
    assert run("info", "m.uai") == 0
    assert "`infer`" in capsys.readouterr().out.splitlines()[-1]
    monkeypatch.setattr("anytimebp.cli.info.available_memory", lambda: 10)
    assert run("info", "m.uai") == 0
    assert "sparse domains" in capsys.readouterr().out


def test_observed_names_and_states_may_hold_equals_signs(folder, capsys):
    graph = abp.FactorGraph()
    graph.add_variable("age", ["<=30", ">30"])
    graph.add_variable("a=b", ["c", "b=c"])
    graph.add_variable("mixed", [1, "1"])
    graph.add_factor([0, 1], table=[[1.0, 2.0], [3.0, 4.0]])
    abp.write_model(graph, "eq.npz")
    assert run("infer", "eq.npz", "--observe", "age=<=30", "--observe", "a=b=c", "--output", "r.json") == 0
    found = json.loads((folder / "r.json").read_text())["marginals"]
    assert found["age"]["probabilities"] == [1.0, 0.0]
    assert found["a=b"]["probabilities"] == [1.0, 0.0]
    assert run("infer", "eq.npz", "--observe", "mixed=1") == 2
    assert "can be read in 2 ways" in capsys.readouterr().err


def test_names_cannot_drive_the_terminal(folder, capsys):
    graph = abp.FactorGraph()
    graph.add_variable("e\x1b]0;PWNED\x07\x1b[2J", ["a\nb", "c"])
    graph.add_variable("left\x9b", 2)
    graph.add_factor([0], table=[0.5, 0.5])
    abp.write_model(graph, "esc.npz")
    assert run("infer", "esc.npz") == 0
    assert run("convert", "esc.npz", "esc.fg") == 0
    printed, errors = capsys.readouterr()
    assert not {"\x1b", "\x07", "\x9b"} & set(printed + errors)
    assert r"e\x1b]0;PWNED" in printed
    assert r"a\nb" in printed


@pytest.mark.compiled  # streams, not kernels: one pass is enough
@pytest.mark.unix
def test_streams_that_are_closed_or_narrow_do_no_harm(folder):
    graph = abp.FactorGraph()
    graph.add_variable("café", ["ü", "☃"])
    abp.write_model(graph, "cafe.npz")
    for line, code in (
        ("infer cafe.npz >&-", 0),
        ("info cafe.npz >&-", 0),
        ("convert cafe.npz out.npz >&- 2>&-", 0),
        ("infer none.uai 2>&-", 2),
        ("infer cafe.npz --method bp", 0),
    ):
        environment = os.environ | {"PYTHONIOENCODING": "ascii"}
        command = ["bash", "-c", f"{' '.join(COMMAND)} {line}"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == code, (line, done)
    assert r"caf\xe9" in done.stdout


def test_a_result_that_is_not_settled_warns(folder, capsys):
    assert run("infer", "m.uai", "--method", "bp", "--seconds", 0, "--output", "r.json") == 0
    printed, errors = capsys.readouterr()
    assert "NOT at a fixed point" in printed
    assert errors == "anytimebp: warning: the marginals are not at a fixed point\n"
    assert json.loads((folder / "r.json").read_text())["consistent"] is False


def test_the_first_ctrl_c_waits_for_files_and_the_second_aborts(folder, capsys):
    written = []

    def press(times):
        def write(path):
            for _ in range(times):
                signal.raise_signal(signal.SIGINT)
            written.append(path.name)

        return write

    assert write_each([(Path("a"), press(1)), (Path("b"), press(0))], interrupted=False) == []
    assert written == ["a", "b"]
    for times, interrupted in ((2, False), (1, True)):
        with pytest.raises(KeyboardInterrupt):
            write_each([(Path("c"), press(times))], interrupted=interrupted)
    assert written == ["a", "b"]
    assert "press again to abort" in capsys.readouterr().err


@pytest.mark.compiled
@pytest.mark.unix
def test_sigterm_ends_what_a_script_has_put_in_the_background(long_model):
    command = ["sh", "-c", '"$@" & echo $!; wait $!', "sh", *COMMAND, "infer", long_model, "--method", "dynamic"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as script:
        number = int(script.stdout.readline())
        time.sleep(3.0)  # it ignores Ctrl-C, as shells have it
        os.kill(number, signal.SIGINT)
        time.sleep(1.0)
        assert script.poll() is None
        os.kill(number, signal.SIGTERM)
        assert script.wait(60) == 130
        assert "interrupted; nothing more is written" in script.stderr.read()


@pytest.mark.compiled
@pytest.mark.unix
def test_sigterm_ends_a_run_as_ctrl_c_does(long_model, folder):
    command = [*COMMAND, "infer", long_model, "--method", "dynamic", "--output", "r.json"]
    code, _ = on_terminal(command, signal.SIGTERM)
    assert code == 0
    assert json.loads((folder / "r.json").read_text())["stop_reason"] == "INTERRUPTED"


def test_targets_alone_are_computed_and_shown(folder, capsys):
    assert run("infer", "m.bif", "--method", "exact", "--target", "grass", "--output", "r.json") == 0
    assert "grass" in capsys.readouterr().out
    assert list(json.loads(Path("r.json").read_text())["marginals"]) == ["grass"]
    assert run("infer", "m.bif", "--target", "grass", "--output", "r.MAR") != 0
    refused = capsys.readouterr()
    assert "holds the marginals of all variables" in refused.err
    assert "grass" not in refused.out  # before the run
    assert run("infer", "m.bif", "--target", "grass", "--variable", "rain") == 2
    assert "is not one of the --target variables" in capsys.readouterr().err
