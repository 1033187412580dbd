"""`anytimebp reproduce`: the paper's evaluation, measured, drawn and written down."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from anytimebp.cli.names import say
from anytimebp.cli.standard_streams import wants_bar
from anytimebp_evaluation.plans import PLANS, QUICK, Tell

NEREL_SEEDS = 3
DEFAULT_OUT = {False: Path("anytimebp-results"), True: Path("anytimebp-results-quick")}


@click.command()
@click.argument("experiment", type=click.Choice([*PLANS, "nerel", "all"]))
@click.option(
    "--runs",
    type=click.IntRange(1),
    help="Random models of each kind; by default 10, joint-ie 5, tolerance 3, residuals 1, nerel 3 (seeds).",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Folder to write to, or to go on with; by default anytimebp-results, or anytimebp-results-quick.",
)
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    help="For nerel: the folder with nerel_compact.jsonl.gz and annotation.conf.",
)
@click.option("--quick", is_flag=True, help="Small models: a minute, once kernels are compiled.")
def reproduce(experiment: str, runs: int | None, out: Path | None, data: Path | None, *, quick: bool) -> None:
    """Repeat the evaluation of Singh, Riedel and McCallum (2013), with our method beside theirs.

    grids: errors against time and work. residuals: how consistent the state of a run is. tolerance, tolerance-small:
    how far rounds settle. domains: the number of states. joint-ie: types of entities and relations between them, on
    random models. nerel: the same on real text, in the folder that --data names; part of all if --data is given.

    Finished runs are added to CSV files, which are compressed at the end. Figures and a page, RESULTS.md, are made from
    them. Runs that are there are not repeated: an interrupted evaluation continues where it stopped, and a complete one
    is only drawn again. All of it takes about an hour.
    """
    if experiment == "nerel" and data is None:
        msg = "nerel needs --data, the folder with the documents"
        raise click.UsageError(msg)
    data = data if experiment in {"nerel", "all"} else None
    from anytimebp_evaluation import evaluation  # noqa: PLC0415  (loads Numba, which --help can do without)
    from anytimebp_evaluation.folder import ResultsFolder  # noqa: PLC0415

    chosen = dict(QUICK if quick else PLANS)
    if runs is not None:
        asked = {name: plan for name, plan in chosen.items() if experiment in {name, "all"}}
        chosen |= {name: replace(plan, runs=runs) for name, plan in asked.items()}
    folder = ResultsFolder(out or DEFAULT_OUT[quick])
    evaluation.check(folder, chosen, data, quick=quick)
    with _kept(folder.data), _showing() as tell:
        for name, plan in chosen.items():
            if experiment in {name, "all"}:
                evaluation.measure_missing(folder, plan, tell)
        if data is not None:
            seeds = runs or (1 if quick else NEREL_SEEDS)
            evaluation.measure_nerel(folder, data, seeds, tell, quick=quick)
        tell("drawing", 1, 1)
        written = evaluation.write_pages(folder, chosen, quick=quick)
    say(f"{written[0]} and {len(written) - 1} figures; raw results in {folder.data}")


@contextmanager
def _kept(data: Path) -> Iterator[None]:
    """Say, when interrupted, that what is finished is not lost."""
    try:
        yield
    except KeyboardInterrupt:
        say(f"what is finished is kept in {data}; the same command goes on from there", err=True)
        raise


@contextmanager
def _showing() -> Iterator[Tell]:
    """Give what shows how far things are: a bar on a terminal, a line per model elsewhere."""
    if not wants_bar():
        said: set[tuple[str, int]] = set()

        def tell(what: str, done: int, total: int) -> None:
            where = what.split(",", maxsplit=1)[0]
            if (where, done * 10 // total) not in said:  # every tenth of an experiment, and every family
                said.add((where, done * 10 // total))
                say(f"{done} of {total}: {what}", err=True)

        yield tell
        return
    columns = (BarColumn(30), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=None)
        yield lambda what, done, total: progress.update(task, description=what, completed=done, total=total)
