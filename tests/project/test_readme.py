"""The code of the README and of the pages it sends to runs as it stands, and what pages link to is there."""

import re
import shlex
from pathlib import Path

import pytest

from anytimebp.cli.main import main
from anytimebp.kernels.jit import UNCOMPILED

README = Path(__file__).resolve().parents[2] / "README.md"

PAGES = sorted(README.parent.glob("*.md")) + sorted(README.parent.glob("docs/*.md"))
PAGES += sorted(README.parent.glob("evaluation/*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_a_page_links_to_are_there(page):
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8"))
    missing = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert missing == []


def anchors(page):
    """Return what links to the headings of a page end in."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_headings_that_a_page_links_to_are_there(page):
    links = re.findall(r"\]\(([^):\s]*\.md)?#([^)\s]+)\)", page.read_text(encoding="utf-8"))
    missing = [link for link in links if link[1] not in anchors(page.parent / link[0] if link[0] else page)]
    assert missing == []


@pytest.mark.parametrize(("name", "count"), [("README.md", 1), ("docs/python.md", 3)])
def test_the_examples_run(capsys, name, count):
    blocks = re.findall(r"```python\n(.*?)```", (README.parent / name).read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == count
    exec(compile("\n".join(blocks), name, "exec"), {})  # noqa: S102
    assert UNCOMPILED or "converged" in capsys.readouterr().out  # plain Python uses up the examples' time budgets


def test_the_example_of_learning_runs():
    pytest.importorskip("scipy", minversion="1.11")
    text = (README.parent / "docs" / "learning.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    exec(compile(block, "learning.md", "exec"), {})  # noqa: S102


@pytest.mark.compiled
def test_the_example_of_large_universes_runs(capsys):
    text = (README.parent / "docs" / "universes.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    exec(compile(block, "universes.md", "exec"), {})  # noqa: S102
    assert "domains that grow in batches" in capsys.readouterr().out


def test_the_commands_run(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = README.parent / "docs" / "command_line.md"
    lines = re.findall(r"^anytimebp (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(lines) == 4
    assert [main(shlex.split(line)) for line in lines] == [0, 0, 0, 0]
    assert {path.name for path in tmp_path.iterdir()} == {"demo.npz", "marginals.csv", "run.html", "demo.uai"}
