"""`anytimebp reproduce`, as a user meets it: the quick evaluation, going on with one, and folders of another kind."""

import csv
import json
import lzma
import shutil
from dataclasses import replace

import pytest

from anytimebp.cli.main import main
from anytimebp_evaluation import campaign
from anytimebp_evaluation.plans import QUICK

FIGURES = ["domains", "grids-flat", "grids-peaked", "grids-strong", "joint-ie", "residuals"]


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory):
    """The whole quick evaluation, once."""
    out = tmp_path_factory.mktemp("evaluation") / "made" / "on the way"
    assert main(["reproduce", "all", "--quick", "--out", str(out)]) == 0
    return out


@pytest.fixture
def folder(evaluated, tmp_path, monkeypatch):
    """A copy, on which nothing is drawn again: that takes longer than all the rest."""
    monkeypatch.setattr("anytimebp_evaluation.evaluation._save", lambda *_: None)
    return shutil.copytree(evaluated, tmp_path / "copy")


@pytest.mark.compiled
def test_quick_writes_raw_results_figures_and_a_page(evaluated):
    files = sorted(path.name for path in (evaluated / "results").iterdir())
    drawn = [f"{name}.png" for name in FIGURES]
    assert files == sorted([*drawn, *(name + ending for name in QUICK for ending in (".csv.xz", ".json"))])
    page = (evaluated / "RESULTS.md").read_text()
    for title in ("## Grids", "## The round tolerance", "## Residuals", "## Domains", "## Joint extraction"):
        assert title in page
    assert all(f"results/{name}.png" in page for name in FIGURES)
    assert "nan" not in page
    assert "**A quick run on small models" in page


@pytest.mark.compiled
def test_every_planned_run_is_in_the_raw_results(evaluated):
    for name, plan in QUICK.items():
        with lzma.open(evaluated / "results" / f"{name}.csv.xz", "rt") as file:
            rows = list(csv.DictReader(file))
        ended = [row for row in rows if row["ended"] and row["contender"] != campaign.REFERENCE]
        assert len(ended) == sum(plan.runs_of(family) for family, _ in plan.groups()) * len(plan.contenders)
        assert all(float(row["l2"]) >= 0.0 for row in rows if row["contender"] != campaign.REFERENCE)


@pytest.mark.compiled
def test_methods_end_at_the_marginals_of_bp(evaluated):
    with lzma.open(evaluated / "results" / "grids.csv.xz", "rt") as file:
        ends = {(r["family"], r["seed"], r["contender"]): float(r["l2"]) for r in csv.DictReader(file) if r["ended"]}
    assert all(l2 < 1e-6 for key, l2 in ends.items() if key[2] != "truncbp")
    assert all(l2 > 1e-6 for key, l2 in ends.items() if key[2] == "truncbp")


@pytest.mark.compiled
def test_what_is_finished_is_not_run_again(folder, monkeypatch, capsys):
    def fail(*_):
        raise AssertionError

    before = {path.name: path.read_bytes() for path in (folder / "results").glob("*.csv*")}
    page = (folder / "RESULTS.md").read_bytes()
    monkeypatch.setattr(campaign, "measure", fail)
    monkeypatch.setattr(campaign, "converged_bp", fail)
    assert main(["reproduce", "all", "--quick", "--out", str(folder)]) == 0
    assert {path.name: path.read_bytes() for path in (folder / "results").glob("*.csv*")} == before
    assert (folder / "RESULTS.md").read_bytes() == page
    assert "RESULTS.md" in capsys.readouterr().out


@pytest.mark.compiled
def test_who_draws_again_has_not_measured(folder, monkeypatch):
    before = (folder / "RESULTS.md").read_text()
    monkeypatch.setattr("anytimebp_evaluation.folder.machine", lambda *_: "2031-01-01, another machine.")
    assert main(["reproduce", "all", "--quick", "--out", str(folder)]) == 0
    assert (folder / "RESULTS.md").read_text() == before
    assert main(["reproduce", "domains", "--quick", "--runs", "3", "--out", str(folder)]) == 0
    assert (folder / "RESULTS.md").read_text().count("2031-01-01") == 1


@pytest.mark.compiled
def test_runs_are_those_of_the_experiment_that_is_named(folder):
    assert main(["reproduce", "grids", "--quick", "--runs", "1", "--out", str(folder)]) == 0
    grids, domains = (folder / "RESULTS.md").read_text().split("## The round tolerance")
    assert "16 states, 1 run, " in grids
    assert "2 runs" in domains


@pytest.mark.compiled
@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("grids.csv", b"\xff", "grids.csv: this is not text in UTF-8"),
        ("grids.csv.xz", b"family", "grids.csv.xz: this cannot be unpacked: "),
        ("grids.csv.xz", lzma.compress(b"a,b\n"), "grids.csv.xz: line 1: expected the columns family"),
        ("grids.csv", b"a,b\n", "grids.csv: line 1: expected the columns family"),
        ("grids.json", None, "grids.json, which says how this was measured, is not there"),
        ("nerel.csv", b"a,b\n", "nerel.csv: line 1: expected the columns seed"),
    ],
)
def test_what_cannot_be_read_is_named_before_anything_is_measured(folder, monkeypatch, capsys, name, content, words):
    path = folder / "results" / name
    path.unlink(missing_ok=True) if content is None else path.write_bytes(content)
    (folder / "results" / "joint-ie.csv.xz").unlink()
    monkeypatch.setattr(campaign, "converged_bp", None)
    assert main(["reproduce", "joint-ie", "--quick", "--out", str(folder)]) == 2
    assert words in capsys.readouterr().err


def test_documents_that_are_not_there_are_named_before_anything_is_measured(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(campaign, "converged_bp", None)
    words = ["reproduce", "all", "--quick", "--data", str(tmp_path / "nowhere"), "--out", str(tmp_path)]
    assert main(words) == 2
    assert "the folder of NEREL needs a file annotation.conf" in capsys.readouterr().err


@pytest.mark.compiled
@pytest.mark.parametrize("packed", [True, False], ids=["compressed", "left as plain text"])
def test_an_interrupted_evaluation_goes_on_where_it_was(folder, monkeypatch, capsys, packed):
    plain, path = folder / "results" / "joint-ie.csv", folder / "results" / "joint-ie.csv.xz"
    whole = lzma.decompress(path.read_bytes()).decode()
    lines = whole.splitlines(keepends=True)
    half = lines[: len(lines) // 2]
    path.unlink()
    if packed:  # whole runs only, as they are when they are compressed
        last = max(place for place, line in enumerate(half) if not line.endswith(",\n"))
        path.write_bytes(lzma.compress("".join(half[: last + 1]).encode()))
    else:
        plain.write_text("".join(half))
    measured = []
    real = campaign.measure

    def count(contender, setting):
        if len(measured) == 3:
            raise KeyboardInterrupt
        measured.append(contender)
        return real(contender, setting)

    monkeypatch.setattr(campaign, "measure", count)
    assert main(["reproduce", "joint-ie", "--quick", "--out", str(folder)]) == 130
    assert f"what is finished is kept in {folder / 'results'}; the same command goes on" in capsys.readouterr().err
    monkeypatch.setattr(campaign, "measure", real)
    assert main(["reproduce", "joint-ie", "--quick", "--out", str(folder)]) == 0

    def figures(text):
        """What does not depend on the clock, run by run."""
        return sorted(line.split(",")[:4] + line.split(",")[5:] for line in text.splitlines()[1:])

    assert not plain.exists()
    assert figures(lzma.decompress(path.read_bytes()).decode()) == figures(whole)


@pytest.mark.compiled
def test_more_runs_join_those_that_are_there(folder):
    assert main(["reproduce", "domains", "--quick", "--runs", "3", "--out", str(folder)]) == 0
    assert "3 runs" in (folder / "RESULTS.md").read_text()
    assert "2 runs" not in (folder / "RESULTS.md").read_text().split("## Domains")[1].split("## Joint")[0]


@pytest.mark.compiled
def test_results_of_other_settings_are_not_mixed_in(folder, capsys):
    assert main(["reproduce", "grids", "--out", str(folder)]) == 2
    assert "holds results of grids with other settings" in capsys.readouterr().err
    assert json.loads((folder / "results" / "grids.json").read_text())["settings"].startswith("4 x 4")


def test_a_file_in_place_of_the_folder_is_named(tmp_path, capsys):
    (tmp_path / "taken").write_text("")
    assert main(["reproduce", "grids", "--quick", "--out", str(tmp_path / "taken")]) == 2
    assert "taken: this is a file; --out takes a folder" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["everything"], [], ["grids", "--runs", "0"]])
def test_bad_words_end_with_a_line(words, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", *words]) == 2
    assert capsys.readouterr().err.startswith("anytimebp: ")
    assert list(tmp_path.iterdir()) == []


def test_models_on_which_bp_does_not_settle_are_replaced(tmp_path, monkeypatch):
    import anytimebp as abp  # noqa: PLC0415
    from anytimebp_evaluation.raw import RawFile  # noqa: PLC0415
    from anytimebp_evaluation.runs import Runs  # noqa: PLC0415

    small = replace(QUICK["domains"], families=("flat",), sizes=(3,), contenders=("bp", "bp-random"), side=2)
    seeds = []
    real = campaign.converged_bp

    def stubborn(graph):
        seeds.append(len(seeds))
        result = real(graph)
        return result if len(seeds) != 1 else abp.Result.of(result, result, abp.StopReason.NOT_CONVERGED, result.trace)

    monkeypatch.setattr(campaign, "converged_bp", stubborn)
    raw = RawFile(tmp_path / "domains.csv")
    campaign.Campaign(small, raw, lambda *_: None).run()
    runs = Runs(small, RawFile(raw.path).curves)
    assert runs.seeds("flat", 3) == [1, 2]
    assert [key.seed for key in runs.unsettled] == [0]
    campaign.Campaign(small, RawFile(raw.path), lambda *_: None).run()
    assert len(seeds) == 3
