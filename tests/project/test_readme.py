"""The code of README and docs runs as it stands and prints what the page says, and what pages link to is there."""

import re
import shlex
from pathlib import Path

import pytest

import anytimebp as abp
from anytimebp.cli.main import main
from anytimebp.kernels.jit import UNCOMPILED

README = Path(__file__).resolve().parents[2] / "README.md"

PAGES = sorted(README.parent.glob("*.md")) + sorted(README.parent.glob("docs/**/*.md"))
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


BLOCK = re.compile(r"^```python\n(.*?)^```$(?:\n\n^```text\n(.*?)^```$)?", re.DOTALL | re.MULTILINE)
SLOW = {"scale.md", "structures.md", "tutorial.md", "universes.md"}  # too large for plain Python
PRINTED = {"README.md": "converged", "python.md": "converged", "universes.md": "domains that grow in batches"}


def code_of(page):
    """Return the blocks of Python of a page, each with the output that the page shows right below, or an empty text."""
    return BLOCK.findall(page.read_text(encoding="utf-8"))


def with_code():
    pages = [page for page in PAGES if code_of(page)]
    return [pytest.param(p, id=p.name, marks=[pytest.mark.compiled] if p.name in SLOW else []) for p in pages]


@pytest.mark.parametrize("page", with_code())
def test_the_code_of_a_page_runs_and_prints_what_the_page_says(page, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names, printed = {"__name__": "page"}, ""
    for code, output in code_of(page):
        exec(compile(code, page.name, "exec"), names)  # noqa: S102
        found = capsys.readouterr().out
        assert found == output or not output
        printed += found
    assert UNCOMPILED or PRINTED.get(page.name, "") in printed  # plain Python uses up the examples' time budgets


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_of_a_page_says_what_it_is(page):
    kinds = re.findall(r"^```(.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert set(kinds[::2]) <= {"python", "text", "sh"}
    assert set(kinds[1::2]) <= {""}
    assert kinds.count("python") == len(code_of(page))


def test_the_reference_has_every_public_name():
    pages = "".join(page.read_text(encoding="utf-8") for page in README.parent.glob("docs/reference/*.md"))
    named = re.findall(r"^::: anytimebp\.(\w+)$", pages, re.MULTILINE)
    assert len(named) == len(set(named))
    assert set(named) == set(abp.__all__) - {"__version__"}


def test_the_site_has_every_page_of_the_docs():
    listed = re.findall(r": (\S+\.md)$", (README.parent / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    pages = {page.relative_to(README.parent / "docs").as_posix() for page in README.parent.glob("docs/**/*.md")}
    examples = {f"examples/{path.stem}.md" for path in README.parent.glob("examples/*.py")}
    outside = {"index.md", "results.md", "changelog.md", "contributing.md", "architecture.md"}
    assert sorted(listed) == sorted(pages | examples | outside)


def test_the_commands_run(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = README.parent / "docs" / "command_line.md"
    lines = re.findall(r"^anytimebp (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(lines) == 4
    assert [main(shlex.split(line)) for line in lines] == [0, 0, 0, 0]
    assert {path.name for path in tmp_path.iterdir()} == {"demo.npz", "marginals.csv", "run.html", "demo.uai"}
