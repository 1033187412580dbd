"""`anytimebp map`: the most probable joint state of a model file, shown and written."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

import anytimebp as abp
from anytimebp.cli.names import printable_name, say
from anytimebp.cli.observed import read_observed
from anytimebp.cli.outputs import write_each
from anytimebp.cli.paths import check_output, model_argument, read_given_model
from anytimebp.formats.uai_results import write_mpe
from anytimebp.formats.whole_file import whole_file
from anytimebp.inference.methods import MAP_METHODS
from anytimebp.results.map_result import MapResult
from anytimebp.results.stop import StopReason

ENDINGS = {".mpe": None, ".map": None}


@click.command("map")
@model_argument
@click.option(
    "--evidence",
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    help="Evidence: .evid (UAI) or .json; - is standard input.",
)
@click.option("--observe", multiple=True, metavar="NAME=STATE", help="Observe a variable; may be repeated.")
@click.option("--method", type=click.Choice(MAP_METHODS), default="auto", show_default=True, help="How to search.")
@click.option("--seconds", type=float, help="Stop after this time with the best joint state so far.")
@click.option("--output", type=click.Path(path_type=Path), help="Write the states in UAI's MPE form: .MPE.")
@click.option("--top", type=click.IntRange(0), default=10, show_default=True, help="Variables to show.")
def best_state(
    model: Path,
    kind: str | None,
    evidence: Path | None,
    observe: tuple[str, ...],
    method: str,
    seconds: float | None,
    output: Path | None,
    top: int,
) -> None:
    """Print and write the most probable joint state of a model file, or the best that was found.

    MODEL is as for `anytimebp infer`. Ctrl-C ends the search with the best joint state so far.
    """
    if output is not None:
        check_output(output, ENDINGS, "a joint state", [model, *([evidence] if evidence else [])])
    graph = read_given_model(model, kind)
    observed = read_observed(evidence, observe, graph)
    result = abp.infer_map(graph, method, evidence=observed, seconds=seconds)
    if result.log_score == float("-inf"):
        raise click.ClickException(str(result.stop_reason))
    failures = []
    if output is not None:
        states = [variable.state_index(result.assignment[variable.name]) for variable in graph.variables]
        write = partial(_write, states)
        failures = write_each([(output, write)], interrupted=result.stop_reason is StopReason.INTERRUPTED)
    _show(result, top)
    if failures:
        raise failures[0]


def _write(states: list[int], path: Path) -> None:
    with whole_file(path) as file:
        write_mpe(states, file)


def _show(result: MapResult, top: int) -> None:
    say(f"{result.method}, {result.seconds:.3g} s: {result.stop_reason}")
    known = "no joint state is better" if result.exact else f"no joint state is above {result.upper_bound:.6f}"
    say(f"log score {result.log_score:.6f}; {known}")
    for name in list(result.assignment)[:top]:
        say(f"  {printable_name(name)}  {printable_name(str(result.assignment[name]))}")
    if len(result.assignment) > top:
        say(f"  ... and {len(result.assignment) - top:,} more (--top)")
