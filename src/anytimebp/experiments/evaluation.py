"""Puts it together: measures what is missing, draws, and writes the page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from anytimebp.experiments.campaign import Campaign
from anytimebp.experiments.figures import draw_domains, draw_grids, draw_joint
from anytimebp.experiments.folder import ResultsFolder
from anytimebp.experiments.nerel.documents import fingerprint, read_labels
from anytimebp.experiments.nerel.picture import draw_nerel
from anytimebp.experiments.nerel.raw import append_rows, read_rows
from anytimebp.experiments.nerel.section import nerel_section
from anytimebp.experiments.nerel.task import run_nerel
from anytimebp.experiments.plans import PLANS, Plan, Tell
from anytimebp.experiments.runs import Runs
from anytimebp.experiments.summary import HEAD, QUICK_HEAD, domains_section, grids_section, joint_section
from anytimebp.formats.whole_file import whole_file
from anytimebp.optional import load_optional

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DPI = 150
NEREL = (
    "Joint typing of entities and extraction of relations from Russian news (NEREL): a type variable per entity, a "
    "relation variable per ordered pair of entities near each other, unary scores from local classifiers (logistic "
    "regression on hashed n-grams of characters, and words around and in between), and one ternary table, counted on "
    "the training documents, shared by all pairs."
)


class Chapter(NamedTuple):
    """How an experiment is shown: its section of the page, and its figures by name."""

    section: Callable[[Runs, Sequence[str]], str]
    figures: Callable[[Runs], dict[str, Figure]]


CHAPTERS = {
    "grids": Chapter(grids_section, lambda runs: {f"grids-{name}": draw_grids(runs, name) for name in runs.families()}),
    "domains": Chapter(domains_section, lambda runs: {"domains": draw_domains(runs)}),
    "joint-ie": Chapter(joint_section, lambda runs: {"joint-ie": draw_joint(runs)}),
}


def check(folder: ResultsFolder, plans: Mapping[str, Plan], data: Path | None, *, quick: bool) -> None:
    """Find out what is wrong before anything is measured.

    Args:
        folder: Whatever it holds is read once.
        plans: All experiments; what is measured and what is just drawn again.
        data: The documents of the real task; None if it is not to be run.
        quick: Whether a few documents would do.

    Raises:
        AnytimeBPError: There are results of other settings, or files that cannot be read.
    """
    for plan in plans.values():
        folder.raw(plan)
    rows = folder.data / "nerel.csv"
    read_rows(rows)
    if data is not None:
        read_labels(data)
        folder.check_settings("nerel", rows, nerel_settings(data, quick=quick))


def measure_missing(folder: ResultsFolder, plan: Plan, tell: Tell) -> None:
    """Run what has not been run yet."""
    note = partial(folder.note_machine, plan.name, plan.settings())
    Campaign(plan, folder.raw(plan), tell, note).run()


def nerel_settings(data: Path, *, quick: bool) -> str:
    """Return what must be the same for results of the real task to be put together."""
    return f"{'a few' if quick else 'all'} documents, fingerprint {fingerprint(data)}"


def measure_nerel(folder: ResultsFolder, data: Path, seeds: int, tell: Tell, *, quick: bool) -> None:
    """Run the real task on documents that have not been run yet."""
    path = folder.data / "nerel.csv"
    settings = nerel_settings(data, quick=quick)
    folder.check_settings("nerel", path, settings)
    for seed in range(seeds):
        done = {str(row["document"]) for row in read_rows(path) if int(row["seed"]) == seed}
        say = partial(_say_seed, tell, seed)
        for rows in run_nerel(data, quick=quick, seed=seed, progress=say, done=done):
            folder.note_machine("nerel", settings)
            append_rows(path, rows)


def _say_seed(tell: Tell, seed: int, what: str, done: int, total: int) -> None:
    tell(f"nerel: seed {seed}, {what}", done, total)


def write_pages(folder: ResultsFolder, plans: Mapping[str, Plan] = PLANS, *, quick: bool = False) -> list[Path]:
    """Draw and write all there is, and return the files."""
    sections, written = [HEAD.rstrip()], []
    if quick:
        sections.append(QUICK_HEAD)
    for name, chapter in CHAPTERS.items():
        runs = Runs(plans[name], folder.raw(plans[name]).curves)
        if runs.families():
            sections.append(chapter.section(runs, folder.about(name)["measured"]))
            written += [path for stem, figure in chapter.figures(runs).items() for path in _save(folder, stem, figure)]
    if rows := read_rows(folder.data / "nerel.csv"):
        about = " ".join(folder.about("nerel")["measured"])
        picture = "![F1 of relations and types against time per document.](results/nerel.png)"
        sections.append(f"## A real task\n\n{NEREL}\n\n{picture}\n\n{nerel_section(rows)}\n\nMeasured: {about}")
        written += _save(folder, "nerel", draw_nerel(rows))
    with whole_file(folder.page) as file:
        file.write(("\n\n".join(sections) + "\n").encode())
    return [folder.page, *written]


def _save(folder: ResultsFolder, stem: str, figure: Figure) -> list[Path]:
    """Write a figure as PNG and SVG; it is arranged once, which takes as long as drawing it."""
    paths = [folder.data / f"{stem}{ending}" for ending in (".png", ".svg")]
    rc_context = load_optional("matplotlib", "plot").rc_context
    for path in paths:
        with whole_file(path) as file, rc_context({"svg.hashsalt": stem}):  # the same bytes every time
            figure.savefig(
                file, format=path.suffix[1:], dpi=DPI, metadata={"Date": None} if path.suffix == ".svg" else {}
            )
        figure.set_layout_engine("none")
    return paths
