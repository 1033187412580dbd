"""`anytimebp demo`: the main job on an example that comes with the package."""

from __future__ import annotations

from pathlib import Path

import click

import anytimebp as abp
from anytimebp.cli.convert import say_what_is_lost
from anytimebp.cli.names import say
from anytimebp.cli.paths import check_output
from anytimebp.cli.sentence import LOCAL_TYPES, SENTENCE, build
from anytimebp.cli.show import ended_line
from anytimebp.formats.files import WRITERS, write_model_file


@click.command()
@click.option("--save", type=click.Path(path_type=Path), help="Also write the model, as .npz, to try `infer` on.")
def demo(save: Path | None) -> None:
    """Read one sentence jointly: types of mentions and relations between them."""
    if save:
        check_output(save, WRITERS, "a model")
    graph = build()
    if save:
        say_what_is_lost(write_model_file(graph, save))
    say(f"{SENTENCE}\n\n{graph.summary()}\n")
    alone, result = abp.infer(build(together=False)), abp.infer(graph, seconds=60.0)
    say(f"{'':<22}{'alone':<26}together")
    for variable in graph.variables:
        before, after = alone.top(variable)[0], result.top(variable)[0]
        if variable.name in LOCAL_TYPES or "none" not in {before[0], after[0]}:
            changed = "" if before[0] == after[0] else "   <- changed"
            say(f"{variable.name:<22}{before[0]!s:<16}{before[1]:<10.2f}{after[0]!s:<16}{after[1]:.2f}{changed}")
    say(f"\n{ended_line(result)}; {result.updates} factor updates, log Z = {result.log_z:.3f}")
    if save:
        say(f"The model is in {save}: try `anytimebp infer {save}`, with --observe Paris=person, say.")
