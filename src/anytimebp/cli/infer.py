"""`anytimebp infer`: marginals of a model file, shown and written."""

from __future__ import annotations

import shlex
import sys
import warnings
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import click

import anytimebp as abp
from anytimebp.cli.live import LiveBar, wants_bar
from anytimebp.cli.paths import check_output, model_argument
from anytimebp.cli.show import show_result
from anytimebp.engine.methods import DEFAULT_METHOD, FULL_METHODS, METHODS
from anytimebp.errors import AnytimeBPError
from anytimebp.formats.files import EVIDENCE_READERS, MARGINAL_WRITERS, check_ending
from anytimebp.formats.marginal_tables import load_parquet
from anytimebp.formats.whole_file import ending
from anytimebp.model.evidence import read_evidence_mapping
from anytimebp.model.graph import FactorGraph
from anytimebp.report.history import History
from anytimebp.results.snapshot import Result, Snapshot

GROWTH_BETWEEN_LOOKS = 1.1  # of all active states: a look costs about as much as scoring every candidate
PAGE_ENDINGS = {".html": None, ".htm": None}


@dataclass(frozen=True, kw_only=True)
class Request:
    """What the command line asks for."""

    model: Path
    evidence: Path | None
    observe: tuple[str, ...]
    method: str
    seconds: float | None
    target_error: float | None
    tolerance: float
    damping: float
    grow: int
    seed: int
    output: tuple[Path, ...]
    report: Path | None
    top: int


@click.command()
@model_argument
@click.option("--evidence", type=click.Path(dir_okay=False, path_type=Path), help="Evidence: .evid (UAI) or .json.")
@click.option("--observe", multiple=True, metavar="NAME=STATE", help="Observe a variable; may be given many times.")
@click.option(
    "--method",
    type=click.Choice(METHODS),
    default=DEFAULT_METHOD,
    show_default=True,
    help="bp and residual work on all states, the others on domains that grow.",
)
@click.option("--seconds", type=float, help="Stop after this time with the best consistent marginals.")
@click.option("--target-error", type=float, help="Stop once the mass outside the domains is under this.")
@click.option("--tolerance", type=float, default=1e-8, show_default=True, help="Residual of settled messages, in nats.")
@click.option("--damping", type=float, default=0.0, show_default=True, help="Part of the old message that is kept.")
@click.option("--grow", type=int, default=1, show_default=True, help="States that join the domains in a round.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of random methods.")
@click.option(
    "--output",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Write all marginals: .MAR (UAI), .PR (log10 Z), .json, .csv, .parquet; may be given many times.",
)
@click.option("--report", type=click.Path(path_type=Path), help="Write a page to look at, .html.")
@click.option("--top", type=click.IntRange(0), default=5, show_default=True, help="Variables to show, of each kind.")
def infer(**options: object) -> None:
    """Print and write the marginals of MODEL (.uai, .fg, .bif, .xmlbif, .npz, or .gz of these).

    Ctrl-C ends the run with the best consistent marginals so far and writes every output; pressed again, it aborts.
    Output files are written whole or not at all, and without a time limit the same command writes the same bytes.
    """
    request = Request(**options)  # type: ignore[arg-type]
    _check_files(request)
    graph = abp.read_model(request.model)
    evidence = _evidence(request, graph)
    observed = {i for i, seen in read_evidence_mapping(evidence, graph.variables).items() if _is_one_state(seen)}
    history = History()
    result = _run(request, graph, evidence, history)
    failures = _write(request, result, history, evidence)
    show_result(result, observed, request.top)
    if failures:
        raise failures[0]


def _check_files(request: Request) -> None:
    if request.evidence:
        check_ending(request.evidence, EVIDENCE_READERS, "evidence")
    for path in request.output:
        check_output(path, MARGINAL_WRITERS, "marginals", request.model)
        if ending(path) == ".parquet":
            load_parquet(path)
    if request.report:
        check_output(request.report, PAGE_ENDINGS, "a report", request.model)


def _evidence(request: Request, graph: FactorGraph) -> dict[str, object]:
    evidence = abp.read_evidence(request.evidence, graph) if request.evidence else {}
    for text in request.observe:
        name, equals, label = text.rpartition("=")
        if not equals:
            message = f"--observe takes NAME=STATE, got {text!r}"
            raise click.UsageError(message)
        if name in evidence:
            message = f"--observe: variable {name!r} is observed already"
            raise click.UsageError(message)
        evidence[name] = _label(graph, name, label)
    return evidence


def _label(graph: FactorGraph, name: str, text: str) -> object:
    """Return the label that a word of the command line means; labels may be other things than text."""
    variable = graph.variables[name]
    if isinstance(variable.labels, range):
        return int(text) if text.isascii() and text.isdigit() else text
    return next((label for label in variable.labels if str(label) == text), text)


def _is_one_state(seen: object) -> bool:
    states = getattr(seen, "states", None)
    return states is not None and len(states) == 1


def _run(request: Request, graph: FactorGraph, evidence: dict[str, object], history: History) -> Result:
    """Run, with a bar if somebody watches, and a history if it is shown."""
    bar = LiveBar(int(graph.variables.sizes().sum()), request.seconds) if wants_bar() else None
    looks = bar is not None or request.report is not None
    inference = abp.Inference(
        graph,
        request.method,
        evidence=evidence,
        tolerance=request.tolerance,
        damping=request.damping,
        grow=request.grow,
        rng=request.seed,
        record=_record(request.method) if looks else "end",
    )

    def observe(snapshot: Snapshot) -> None:
        history.observe(snapshot)
        if bar:
            bar.observe(history[-1])

    with ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore", abp.NotConvergedWarning)  # what is printed says it
        if bar:
            stack.enter_context(bar)
        return inference.run(
            request.seconds,
            target_error=request.target_error,
            callback=observe if looks else None,
            watch=bar.watch if bar else None,
        )


def _record(method: str) -> abp.Every:
    """Return how often to take a snapshot: a few dozen times, however long the run."""
    return abp.Every(rounds=1) if method in FULL_METHODS else abp.Every(growth=GROWTH_BETWEEN_LOOKS)


def _write(
    request: Request, result: Result, history: History, evidence: dict[str, object]
) -> list[AnytimeBPError | OSError]:
    """Write every file; one that fails does not keep the others from being written."""
    failures: list[AnytimeBPError | OSError] = []
    for path in request.output:
        try:
            abp.write_marginals(result, path)
        except (AnytimeBPError, OSError) as error:
            failures.append(error)
    if request.report:
        about = {
            "model": str(request.model),
            "evidence": f"{len(evidence):,} variables" if evidence else "none",
            "command": shlex.join(["anytimebp", *sys.argv[1:]]),
            "seed": str(request.seed),
            "version": abp.__version__,
        }
        try:
            abp.write_report(result, request.report, history=history, about=about)
        except (AnytimeBPError, OSError) as error:
            failures.append(error)
    return failures
