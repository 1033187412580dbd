"""Runs the evaluation: measures what is missing, draws, and writes the page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from matplotlib.figure import Figure

from anytimebp.formats.whole_file import whole_file
from anytimebp_evaluation.campaign import Campaign
from anytimebp_evaluation.figures import draw_domains, draw_grids, draw_joint, draw_residuals
from anytimebp_evaluation.folder import ResultsFolder
from anytimebp_evaluation.headlines import headlines
from anytimebp_evaluation.nerel.documents import fingerprint, read_labels
from anytimebp_evaluation.nerel.picture import draw_nerel
from anytimebp_evaluation.nerel.raw import append_rows, pack_rows, read_rows
from anytimebp_evaluation.nerel.section import nerel_section
from anytimebp_evaluation.nerel.task import run_nerel
from anytimebp_evaluation.pictures import save_figure
from anytimebp_evaluation.plans import PLANS, Plan, Tell
from anytimebp_evaluation.runs import Runs
from anytimebp_evaluation.summary import (
    HEAD,
    QUICK_HEAD,
    TERMS,
    domains_section,
    grids_section,
    joint_section,
    residuals_section,
    tolerances_section,
)

DPI = 110
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
    "residuals": Chapter(residuals_section, lambda runs: {"residuals": draw_residuals(runs)}),
    "domains": Chapter(domains_section, lambda runs: {"domains": draw_domains(runs)}),
    "joint-ie": Chapter(joint_section, lambda runs: {"joint-ie": draw_joint(runs)}),
}
SWEEPS = ("tolerance", "tolerance-small")  # one section, without figures, after that on grids


def check(folder: ResultsFolder, plans: Mapping[str, Plan], data: Path | None, *, quick: bool) -> None:
    """Check results and data before anything is measured.

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
    families = {family: plan.scores(family) for family in plan.families}
    note = partial(folder.note_machine, plan.name, plan.settings(), families)
    raw = folder.raw(plan)
    try:
        Campaign(plan, raw, tell, note).run()
    finally:
        raw.pack()


def nerel_settings(data: Path, *, quick: bool) -> str:
    """Return what must be the same for results of the real task to be put together."""
    return f"{'a few' if quick else 'all'} documents, fingerprint {fingerprint(data)}"


def measure_nerel(folder: ResultsFolder, data: Path, seeds: int, tell: Tell, *, quick: bool) -> None:
    """Run the real task on documents that have not been run yet."""
    path = folder.data / "nerel.csv"
    settings = nerel_settings(data, quick=quick)
    folder.check_settings("nerel", path, settings)
    try:
        for seed in range(seeds):
            done = {str(row["document"]) for row in read_rows(path) if int(row["seed"]) == seed}
            say = partial(_say_seed, tell, seed)
            for rows in run_nerel(data, quick=quick, seed=seed, progress=say, done=done):
                folder.note_machine("nerel", settings)
                append_rows(path, rows)
    finally:
        pack_rows(path)


def _say_seed(tell: Tell, seed: int, what: str, done: int, total: int) -> None:
    tell(f"nerel: seed {seed}, {what}", done, total)


def write_pages(folder: ResultsFolder, plans: Mapping[str, Plan] = PLANS, *, quick: bool = False) -> list[Path]:
    """Draw and write everything that has been measured, and return the files."""
    all_runs = {name: Runs(plan, folder.raw(plan).curves) for name, plan in plans.items()}
    measured = {name: runs for name, runs in all_runs.items() if runs.families()}
    sections, written = [HEAD.rstrip()], []
    if quick:
        sections.append(QUICK_HEAD)
    else:
        sections += headlines(measured)
    sections.append(TERMS.rstrip())
    for name, chapter in CHAPTERS.items():
        if name in measured:
            sections.append(chapter.section(measured[name], folder.about(name)["measured"]))
            written += [_save(folder, stem, figure) for stem, figure in chapter.figures(measured[name]).items()]
        if name == "grids" and (sweeps := [name for name in SWEEPS if name in measured]):
            dates = dict.fromkeys(line for name in sweeps for line in folder.about(name)["measured"])
            sections.append(tolerances_section([measured[name] for name in sweeps], [*dates]))
    if rows := read_rows(folder.data / "nerel.csv"):
        about = " ".join(folder.about("nerel")["measured"])
        picture = "![F1 of relations and types against time per document.](results/nerel.png)"
        sections.append(f"## A real task\n\n{NEREL}\n\n{picture}\n\n{nerel_section(rows)}\n\nMeasured: {about}")
        written.append(_save(folder, "nerel", draw_nerel(rows)))
    with whole_file(folder.page) as file:
        file.write(("\n\n".join(sections) + "\n").encode())
    return [folder.page, *written]


def _save(folder: ResultsFolder, stem: str, figure: Figure) -> Path:
    """Write a figure, and return its file."""
    path = folder.data / f"{stem}.png"
    save_figure(figure, path, DPI)
    return path
