"""The hook of mkdocs that puts pages from outside docs/ into the site: README, changelog, results and examples.

Pages keep the links that work in the repository. Here each link is followed to the file that it means, and written anew
as a link within the site.
"""

import ast
import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"(\]\()([^)\s#]+)((?:#[^)\s]*)?\))")
FENCE = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)
PAGES = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "evaluation/RESULTS.md": "results.md",
}
"""Pages outside docs/, by their path in the repository, and what they are called in the site."""
ALONE = {"index.md", "tutorial.md"}
"""Pages that are a tab by themselves: a list of the pages beside them would hold nothing else."""
COPIED = ["LICENSE", "examples/*.sasca", "evaluation/results/*.png", "evaluation/results/*.json"]
"""Files outside docs/ that pages show or link to."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages and pictures outside docs/, and a page for every example."""
    for origin, name in PAGES.items():
        files.append(File.generated(config, name, content=(ROOT / origin).read_text(encoding="utf-8")))
    for pattern in COPIED:
        for path in sorted(ROOT.glob(pattern)):
            name = path.relative_to(ROOT).as_posix()
            files.append(File.generated(config, name, abs_src_path=str(path)))
    for path in sorted((ROOT / "examples").glob("*.py")):
        files.append(File.generated(config, f"examples/{path.stem}.md", content=_example(path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Turn links between files of the repository into links between pages of the site."""
    name = page.file.src_uri
    if name in ALONE:
        page.meta["hide"] = ["navigation"]
    origin = next((path for path, new in PAGES.items() if new == name), f"docs/{name}")
    parts = FENCE.split(markdown)
    parts[::2] = [LINK.sub(lambda found: _in_site(found, origin, name), part) for part in parts[::2]]
    return "".join(parts)


def _in_site(found: re.Match[str], origin: str, name: str) -> str:
    """Return a link of the page `name`, which the repository has at `origin`, as one within the site."""
    link = found[2]
    if ":" in link:
        return found[0]
    meant = posixpath.normpath(posixpath.join(posixpath.dirname(origin), link))
    if meant in PAGES:
        target = PAGES[meant]
    elif re.fullmatch(r"examples/\w+\.py", meant):
        target = meant.removesuffix(".py") + ".md"
    else:
        target = meant.removeprefix("docs/")
    return found[1] + posixpath.relpath(target, posixpath.dirname(name) or ".") + found[3]


def _example(path: Path) -> str:
    """Return a page on an example: what it says of itself, and its source."""
    source = path.read_text(encoding="utf-8")
    summary, _, rest = (ast.get_docstring(ast.parse(source)) or "").partition("\n")
    return f"# {path.name}\n\n{summary}\n{rest}\n\n```python\n{source}```\n"
