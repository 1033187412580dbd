"""Puts it together: measures what is missing, draws, and writes the page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from anytimebp.experiments.campaign import Campaign
from anytimebp.experiments.figures import draw_domains, draw_grids, draw_joint
from anytimebp.experiments.folder import ResultsFolder
from anytimebp.experiments.plans import PLANS, Plan, Tell
from anytimebp.experiments.runs import Runs
from anytimebp.experiments.summary import HEAD, domains_section, grids_section, joint_section
from anytimebp.formats.whole_file import whole_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DPI = 150


class Chapter(NamedTuple):
    """How an experiment is shown: its section of the page, and its figures by name."""

    section: Callable[[Runs, Sequence[str]], str]
    figures: Callable[[Runs], dict[str, Figure]]


CHAPTERS = {
    "grids": Chapter(grids_section, lambda runs: {f"grids-{name}": draw_grids(runs, name) for name in runs.families()}),
    "domains": Chapter(domains_section, lambda runs: {"domains": draw_domains(runs)}),
    "joint-ie": Chapter(joint_section, lambda runs: {"joint-ie": draw_joint(runs)}),
}


def measure_missing(folder: ResultsFolder, plan: Plan, tell: Tell) -> None:
    """Run what has not been run yet."""
    raw = folder.raw(plan)
    folder.note_machine(plan.name, plan.settings())
    Campaign(plan, raw, tell).run()


def write_pages(folder: ResultsFolder, plans: Mapping[str, Plan] = PLANS) -> list[Path]:
    """Draw and write all there is, and return the files."""
    sections, written = [HEAD.rstrip()], []
    for name, chapter in CHAPTERS.items():
        runs = Runs(plans[name], folder.raw(plans[name]).curves)
        if runs.families():
            sections.append(chapter.section(runs, folder.about(name)["measured"]))
            written += [path for stem, figure in chapter.figures(runs).items() for path in _save(folder, stem, figure)]
    with whole_file(folder.page) as file:
        file.write(("\n\n".join(sections) + "\n").encode())
    return [folder.page, *written]


def _save(folder: ResultsFolder, stem: str, figure: Figure) -> list[Path]:
    """Write a figure as PNG and SVG."""
    paths = [folder.data / f"{stem}{ending}" for ending in (".png", ".svg")]
    for path in paths:
        with whole_file(path) as file:
            figure.savefig(
                file, format=path.suffix[1:], dpi=DPI, metadata={"Date": None} if path.suffix == ".svg" else {}
            )
    return paths
