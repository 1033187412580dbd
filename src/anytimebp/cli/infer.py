"""`anytimebp infer`: marginals of a model file, shown and written."""

from __future__ import annotations

import shlex
import sys
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import click

import anytimebp as abp
from anytimebp.cli.live import LiveBar, wants_bar
from anytimebp.cli.memory_size import read_memory_size
from anytimebp.cli.names import printable_name, say
from anytimebp.cli.observed import count_allowed, describe_evidence, fixed_variables, read_observed
from anytimebp.cli.outputs import write_each
from anytimebp.cli.paths import check_output, model_argument, read_given_model
from anytimebp.cli.show import Facts, Wanted, show_result
from anytimebp.cli.standard_streams import STANDARD_OUTPUT, input_name, is_standard_input
from anytimebp.formats.files import EVIDENCE_READERS, MARGINAL_WRITERS, check_ending
from anytimebp.formats.marginal_tables import load_parquet
from anytimebp.formats.whole_file import ending
from anytimebp.inference.methods import DEFAULT_METHOD, FULL_METHODS, GROWING_METHODS, METHODS
from anytimebp.model.graph import FactorGraph
from anytimebp.report.history import History
from anytimebp.results.snapshot import Result, Snapshot
from anytimebp.results.stop import StopReason

GROWTH_BETWEEN_LOOKS = 1.1  # of all active states: a look costs about as much as scoring every candidate
PAGE_ENDINGS = {".html": None, ".htm": None}


@dataclass(frozen=True, kw_only=True)
class Request:
    """What the command line asks for."""

    model: Path
    kind: str | None
    evidence: Path | None
    observe: tuple[str, ...]
    method: str
    seconds: float | None
    target_error: float | None
    tolerance: float
    damping: float
    grow: int | None
    threads: int
    max_memory: int | None
    seed: int
    output: tuple[Path, ...]
    report: Path | None
    top: int
    variable: tuple[str, ...]


@click.command()
@model_argument
@click.option(
    "--evidence",
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    help="Evidence: .evid (UAI) or .json; - is standard input.",
)
@click.option("--observe", multiple=True, metavar="NAME=STATE", help="Observe a variable; may be given many times.")
@click.option(
    "--method",
    type=click.Choice(METHODS),
    default=DEFAULT_METHOD,
    show_default=True,
    help="adaptive suits any model; bp and residual work on all states, the others on part of them.",
)
@click.option("--seconds", type=float, help="Stop after this time with the best consistent marginals.")
@click.option(
    "--target-error",
    type=float,
    help="Stop once the estimated distance to BP's marginals (mean L2) is under this; any method.",
)
@click.option("--tolerance", type=float, default=1e-8, show_default=True, help="Residual of settled messages, in nats.")
@click.option("--damping", type=float, default=0.0, show_default=True, help="Part of the old message that is kept.")
@click.option(
    "--grow", type=int, help="Of dynamic, fixed and random: states that join the domains in a round; 1 unless given."
)
@click.option(
    "--threads", type=int, default=1, show_default=True, help="Threads that share the reading of large tables."
)
@click.option(
    "--max-memory",
    metavar="SIZE",
    callback=read_memory_size,
    help="Memory for the run: 500MB, 2GB, 1.5GiB or bytes; by default what the machine has.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of random methods.")
@click.option(
    "--output",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Write all marginals: .MAR (UAI), .PR (log10 Z), .json, .csv, .parquet; may be given many times.",
)
@click.option("--report", type=click.Path(path_type=Path), help="Write a page to look at, .html.")
@click.option("--top", type=click.IntRange(0), default=5, show_default=True, help="Variables to show, of each kind.")
@click.option(
    "--variable", multiple=True, metavar="NAME", help="Show this variable's marginal instead; may be repeated."
)
def infer(**options: object) -> None:
    """Print and write the marginals of a model file.

    MODEL is a .uai, .fg, .bif, .xmlbif or .npz file, or a .gz of these, or - for standard input, with --format. Ctrl-C
    ends the run with the best consistent marginals so far and writes every output; pressed again, it aborts. Output
    files are written whole or not at all, and without a time limit the same command writes the same bytes.
    """
    request = Request(**options)  # type: ignore[arg-type]
    if request.grow is not None and request.method not in GROWING_METHODS:
        msg = f"--grow is for --method {', '.join(GROWING_METHODS)}, not for {request.method}"
        raise click.UsageError(msg)
    _check_files(request)
    graph = read_given_model(request.model, request.kind)
    evidence = read_observed(request.evidence, request.observe, graph)
    asked = [graph.variables.index_of(name) for name in dict.fromkeys(request.variable)]
    summary = graph.summary()
    history = History()
    result = _run(request, graph, evidence, history)
    files = _files(request, result, history, evidence)
    failures = write_each(files, interrupted=result.stop_reason is StopReason.INTERRUPTED)
    facts = Facts(summary.is_forest, fixed_variables(evidence, graph), count_allowed(evidence, graph))
    show_result(result, facts, Wanted(request.top, asked), [] if failures else [path for path, _ in files])
    for failure in failures[1:]:
        say(f"anytimebp: {printable_name(failure)}", err=True)
    if failures:
        raise failures[0]


def _check_files(request: Request) -> None:
    inputs = [request.model, *([request.evidence] if request.evidence else [])]
    if request.evidence and is_standard_input(request.evidence):
        if is_standard_input(request.model):
            msg = "standard input holds the model or the evidence, not both"
            raise click.UsageError(msg)
    elif request.evidence:
        check_ending(request.evidence, EVIDENCE_READERS, "evidence")
    for path in request.output:
        if str(path) == STANDARD_OUTPUT:
            msg = "--output takes a file, whose ending says the format; standard output has the summary"
            raise click.UsageError(msg)
        check_output(path, MARGINAL_WRITERS, "marginals", inputs)
        if ending(path) == ".parquet":
            load_parquet(path)
    if request.report:
        check_output(request.report, PAGE_ENDINGS, "a report", inputs)


def _run(request: Request, graph: FactorGraph, evidence: dict[str, object], history: History) -> Result:
    """Run, with a bar if somebody watches, and a history if it is shown."""
    bar = LiveBar(count_allowed(evidence, graph), request.seconds) if wants_bar() else None
    looks = bar is not None or request.report is not None
    inference = abp.Inference(
        graph,
        request.method,
        evidence=evidence,
        tolerance=request.tolerance,
        damping=request.damping,
        grow=1 if request.grow is None else request.grow,
        threads=request.threads,
        max_memory=request.max_memory,
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
        warnings.simplefilter("ignore", abp.UncertainResultWarning)
        warnings.simplefilter("ignore", abp.UnconnectedVariableWarning)  # uniform, and so among the most uncertain
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
    return abp.Every(rounds=1) if method in (*FULL_METHODS, "adaptive") else abp.Every(growth=GROWTH_BETWEEN_LOOKS)


def _files(
    request: Request, result: Result, history: History, evidence: dict[str, object]
) -> list[tuple[Path, Callable[[Path], None]]]:
    """Return what is to be written, and how."""
    files: list[tuple[Path, Callable[[Path], None]]] = [
        (path, partial(abp.write_marginals, result)) for path in request.output
    ]
    if request.report:
        about = {
            "model": input_name(request.model),
            "evidence": describe_evidence(evidence),
            "command": shlex.join(["anytimebp", *sys.argv[1:]]),
            "version": abp.__version__,
        }
        files.append((request.report, partial(abp.write_report, result, history=history, about=about)))
    return files
