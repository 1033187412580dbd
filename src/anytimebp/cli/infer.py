"""`anytimebp infer`: marginals of a model file, shown and written."""

from __future__ import annotations

import re
import shlex
import sys
import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

import anytimebp as abp
from anytimebp.cli.cases import infer_cases
from anytimebp.cli.names import printable_name, say
from anytimebp.cli.observed import describe_evidence, fixed_variables, read_observed
from anytimebp.cli.outputs import Write, write_each
from anytimebp.cli.paths import check_output, model_argument, read_given_model
from anytimebp.cli.show import show_result, telling_marginals, whole_marginals
from anytimebp.cli.standard_streams import STANDARD_OUTPUT, input_name, is_standard_input, wants_bar
from anytimebp.errors import FormatError
from anytimebp.formats.files import EVIDENCE_READERS, MARGINAL_WRITERS, check_ending
from anytimebp.formats.marginal_tables import load_parquet
from anytimebp.formats.whole_file import ending
from anytimebp.inference.methods import DEFAULT_METHOD, FULL_METHODS, GROWING_METHODS, METHODS
from anytimebp.model.evidence import read_targets
from anytimebp.report.progress import RunDisplay
from anytimebp.results.snapshot import Result
from anytimebp.results.stop import StopReason

GROWTH_BETWEEN_LOOKS = 1.1  # of all active states: a look costs about as much as scoring every candidate
PAGE_ENDINGS = {".html": None, ".htm": None}
MEMORY_SIZE = re.compile(r"(\d{1,18})(?:\.(\d{1,9}))? ?(?:([kmgt])(i?))?b?", re.IGNORECASE | re.ASCII)
POWERS_OF_UNITS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def read_memory_size(context: click.Context, parameter: click.Parameter, text: str | None) -> int | None:
    """Return a number of bytes, given with a unit or without; units are powers of 1000, with an i of 1024."""
    if text is None:
        return None
    match = MEMORY_SIZE.fullmatch(text.strip())
    if match is None:
        msg = f"{text[:40]!r} is not an amount of memory such as 500MB, 2GB, 1.5GiB or 1000000 (bytes)"
        raise click.BadParameter(msg, context, parameter)
    unit = int((1024 if match[4] else 1000) ** POWERS_OF_UNITS[(match[3] or "").lower()])
    part = match[2] or "0"
    return int(int(match[1]) * unit + int(part) * unit // 10 ** len(part))


@click.command()
@model_argument
@click.option(
    "--evidence",
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    help="Evidence: .evid (UAI) or .json; - is standard input.",
)
@click.option(
    "--cases",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Many sets of evidence, one per line: .jsonl or .csv. --output is then a folder for part files. A command "
    "that was killed continues where it stopped.",
)
@click.option("--observe", multiple=True, metavar="NAME=STATE", help="Observe a variable; may be repeated.")
@click.option(
    "--method",
    type=click.Choice(METHODS),
    default=DEFAULT_METHOD,
    show_default=True,
    help="auto is exact if that is cheap, otherwise adaptive, which ends at BP; bp and residual work on all "
    "states, the other methods on some of them.",
)
@click.option("--seconds", type=float, help="Stop after this time with the best consistent marginals.")
@click.option(
    "--target-error",
    type=float,
    help="Stop once the estimated distance to BP's marginals (mean L2) is at most this.",
)
@click.option("--tolerance", type=float, default=1e-8, show_default=True, help="Residual of settled messages, in nats.")
@click.option("--damping", type=float, default=0.0, show_default=True, help="Part of the old message that is kept.")
@click.option("--grow", type=int, help="States that join in each round of dynamic, fixed or random; 1 by default.")
@click.option("--parts", type=int, help="Cut the model into this many parts, which are swept at the same time.")
@click.option(
    "--workers",
    type=click.Choice(["threads", "ray"]),
    default="threads",
    show_default=True,
    help="What sweeps over parts: threads, or actors of Ray (a running cluster, or one on this machine).",
)
@click.option(
    "--threads",
    type=int,
    help="Threads that sweep over parts (all cores by default) or, with --cases, that solve cases (1 by default).",
)
@click.option(
    "--max-memory",
    metavar="SIZE",
    callback=read_memory_size,
    help="Memory for the run: 500MB, 2GB, 1.5GiB or a number of bytes. By default, what the machine has.",
)
@click.option("--seed", "rng", type=int, default=0, show_default=True, help="Seed of random methods.")
@click.option(
    "--output",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Write all marginals: .MAR (UAI), .PR (log10 Z), .json, .csv, .parquet; may be repeated.",
)
@click.option("--report", type=click.Path(path_type=Path), help="Write a page to look at, .html.")
@click.option("--top", type=click.IntRange(0), default=5, show_default=True, help="Variables to show, of each kind.")
@click.option(
    "--variable", multiple=True, metavar="NAME", help="Show this variable's marginal instead; may be repeated."
)
@click.option(
    "--target",
    multiple=True,
    metavar="NAME",
    help="Compute and show only this variable's marginal, which may be less work; may be repeated.",
)
def infer(
    model: Path,
    kind: str | None,
    evidence: Path | None,
    cases: Path | None,
    observe: tuple[str, ...],
    method: str,
    seconds: float | None,
    target_error: float | None,
    grow: int | None,
    output: tuple[Path, ...],
    report: Path | None,
    top: int,
    variable: tuple[str, ...],
    target: tuple[str, ...],
    **options: Any,
) -> None:
    """Print and write the marginals of a model file.

    MODEL is a .uai, .fg, .bif, .xmlbif, .sasca or .npz file, plain or gzipped, or - for standard input, with --format.
    Ctrl-C ends the run with the best consistent marginals so far and writes all outputs. A second Ctrl-C aborts. Output
    files are written completely or not at all. Without a time limit, the same command writes the same bytes.
    """
    if grow is not None:
        if method not in GROWING_METHODS:
            msg = f"--grow is for --method {', '.join(GROWING_METHODS)}, not for {method}"
            raise click.UsageError(msg)
        options["grow"] = grow
    if target:
        options["targets"] = target
    if cases is not None:
        if evidence or observe or report or variable or len(output) != 1 or is_standard_input(model):
            msg = (
                "--cases takes one --output, a folder, a model that is a file, and no --evidence, --observe, --report, "
                "--variable"
            )
            raise click.UsageError(msg)
        graph, budget = read_given_model(model, kind), {"seconds": seconds, "target_error": target_error}
        read_targets(target or None, graph.variables)  # a wrong name is no error of every case
        infer_cases(model, graph, cases, output[0], {"method": method, **_of_cases(options), **budget})
        return
    _check_files(model, evidence, output, report)
    graph = read_given_model(model, kind)
    observed = read_observed(evidence, observe, graph)
    _check_targets(target, variable, output, graph)
    asked = [graph.variables.index_of(name) for name in dict.fromkeys(variable or target)]
    summary = graph.summary()
    record = _record(method) if report or wants_bar() else "end"
    inference = abp.Inference(graph, method, evidence=observed, record=record, **options)
    result = _run(inference, seconds, target_error)
    files: list[tuple[Path, Write]] = [(path, partial(abp.write_marginals, result)) for path in output]
    if report:
        about = _about(model, observed)
        files.append((report, partial(abp.write_report, result, about=about)))
    failures = write_each(files, interrupted=result.stop_reason is StopReason.INTERRUPTED)
    show_result(
        result,
        whole_marginals(result, asked) if asked else telling_marginals(result, top, fixed_variables(observed, graph)),
        is_forest=summary.is_forest,
        n_allowed=inference.n_allowed,
        files=[] if failures else [path for path, _ in files],
    )
    for failure in failures[1:]:
        say(f"anytimebp: {printable_name(failure)}", err=True)
    if failures:
        raise failures[0]


def _of_cases(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a run that `infer_many` takes; raise UsageError for parts."""
    if options["parts"] is not None:
        msg = "--parts is for one run on a large model and cannot be combined with --cases"
        raise click.UsageError(msg)
    threads = 1 if options["threads"] is None else options["threads"]
    return {name: value for name, value in options.items() if name not in {"parts", "workers"}} | {"threads": threads}


def _check_files(model: Path, evidence: Path | None, output: Sequence[Path], report: Path | None) -> None:
    inputs = [model, *([evidence] if evidence else [])]
    if evidence and is_standard_input(evidence):
        if is_standard_input(model):
            msg = "standard input can hold the model or the evidence, but not both"
            raise click.UsageError(msg)
    elif evidence:
        check_ending(evidence, EVIDENCE_READERS, "evidence")
    for path in output:
        if str(path) == STANDARD_OUTPUT:
            msg = "--output needs a file, whose ending says the format; standard output is for the summary"
            raise click.UsageError(msg)
        check_output(path, MARGINAL_WRITERS, "marginals", inputs)
        if ending(path) == ".parquet":
            load_parquet(path)
    if report:
        check_output(report, PAGE_ENDINGS, "a report", inputs)


def _check_targets(
    target: tuple[str, ...], variable: tuple[str, ...], output: Sequence[Path], graph: abp.FactorGraph
) -> None:
    """Raise, before the run, for what a run on targets cannot show or write."""
    targets = read_targets(target or None, graph.variables)
    if targets is None:
        return
    for name in variable:
        if graph.variables.index_of(name) not in targets:
            msg = f"--variable: {name!r} is not one of the --target variables"
            raise click.UsageError(msg)
    for path in output:
        if ending(path) == ".mar" and len(targets) < len(graph.variables):
            msg = "this format holds the marginals of all variables, and --target leaves some out; use .json or .csv"
            raise FormatError(path, msg)


def _run(inference: abp.Inference, seconds: float | None, target_error: float | None) -> Result:
    """Run, with a progress bar if standard error is a terminal."""
    go = partial(inference.run, seconds, target_error=target_error)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", abp.NotConvergedWarning)  # what is printed says it
        warnings.simplefilter("ignore", abp.UncertainResultWarning)
        warnings.simplefilter("ignore", abp.UnconnectedVariableWarning)  # uniform, and so among the most uncertain
        if not wants_bar():
            return go()
        with RunDisplay(inference.n_allowed, seconds, leaves_line=False) as display:
            return go(watch=display.watch)


def _record(method: str) -> abp.Every:
    """Return how often to record: a few dozen times, however long the run."""
    if method in (*FULL_METHODS, "adaptive", "exact", "auto"):
        return abp.Every(rounds=1, estimates=True)
    return abp.Every(growth=GROWTH_BETWEEN_LOOKS, estimates=True)


def _about(model: Path, observed: dict[str, object]) -> dict[str, str]:
    """Return the lines of a report that say what was run."""
    return {
        "model": input_name(model),
        "evidence": describe_evidence(observed),
        "command": shlex.join(["anytimebp", *sys.argv[1:]]),
        "version": abp.__version__,
    }
