"""Commands that other packages add: found by entry points, and never in the way of our own."""

from importlib.metadata import EntryPoint

import click
import pytest
from click.shell_completion import ShellComplete

from anytimebp.cli import plugins
from anytimebp.cli.main import app, main

OWN = {"completion", "convert", "demo", "infer", "info", "map", "serve", "warmup"}


@click.command()
@click.option("--loud", is_flag=True)
def greet(*, loud):
    """Say hello."""
    click.echo("HELLO" if loud else "hello")


def refuse():
    """Stand for a command that is none."""


def adding(monkeypatch, **values):
    entries = [EntryPoint(name, value, plugins.GROUP) for name, value in values.items()]
    monkeypatch.setattr(plugins, "entry_points", lambda group: entries if group == plugins.GROUP else [])


def listed(capsys):
    assert main(["--help"]) == 0
    lines = capsys.readouterr().out.split("Commands:\n")[1].split("\n\n")[0].splitlines()
    return {line.split()[0]: line for line in lines if line[2] != " "}


def test_a_command_of_another_package_is_listed_and_runs(monkeypatch, capsys):
    adding(monkeypatch, greet=f"{__name__}:greet")
    assert listed(capsys).keys() == OWN | {"greet"}
    assert main(["greet", "--loud"]) == 0
    assert capsys.readouterr().out == "HELLO\n"


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("nowhere_at_all:command", "ModuleNotFoundError: No module named 'nowhere_at_all'"),
        (f"{__name__}:nothing", "AttributeError: "),
        (f"{__name__}:refuse", "is not a click command"),
        ("?!", ""),
    ],
)
def test_a_broken_command_disturbs_no_other_and_says_why(value, why, monkeypatch, capsys, tmp_path):
    adding(monkeypatch, greet=f"{__name__}:greet", broken=value)
    assert main(["greet"]) == 0
    assert main(["demo", "--sentence-only", "--save", str(tmp_path / "demo.npz")]) == 0
    capsys.readouterr()
    shown = listed(capsys)
    assert shown.keys() == OWN | {"greet", "broken"}
    for words in ([], ["--help"], ["word", "--option"]):
        assert main(["broken", *words]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith(f"anytimebp: {value} cannot be loaded: ")
        assert why in line


def test_packages_whose_entry_points_cannot_be_read_disturb_no_command(monkeypatch, capsys):
    def unreadable(**_):
        raise ValueError

    monkeypatch.setattr(plugins, "entry_points", unreadable)
    assert listed(capsys).keys() == OWN


def test_no_package_replaces_a_command_of_ours(monkeypatch, capsys):
    adding(monkeypatch, info=f"{__name__}:greet")
    assert listed(capsys).keys() == OWN
    assert main(["info"]) == 2
    assert "hello" not in capsys.readouterr().out


@pytest.mark.parametrize("words", [[], ["--help"], ["grids", "--quick"]])
def test_without_the_evaluation_reproduce_says_what_to_install(words, monkeypatch, capsys):
    adding(monkeypatch)
    assert main(["reproduce", *words]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert len(shown.err.splitlines()) == 1
    assert "pip install ./evaluation" in shown.err
    assert listed(capsys).keys() == OWN


def test_what_nobody_adds_is_no_command(monkeypatch, capsys):
    adding(monkeypatch)
    assert main(["fly"]) == 2
    assert "No such command 'fly'" in capsys.readouterr().err


def test_completion_after_a_command_that_is_not_there_is_empty(monkeypatch):
    adding(monkeypatch)
    assert ShellComplete(app, {}, "anytimebp", "_COMPLETE").get_completions(["reproduce"], "gr") == []
