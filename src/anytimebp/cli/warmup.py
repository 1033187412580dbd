"""`anytimebp warmup`: compiles kernels before they are needed."""

from __future__ import annotations

import time
from pathlib import Path

import click

from anytimebp.cli.names import say
from anytimebp.inference.methods import METHODS


@click.command()
@click.option(
    "--method", multiple=True, type=click.Choice(METHODS), help="Compile only for this method; may be repeated."
)
@click.option("--jobs", type=click.IntRange(1), help="Number of processes; by default one per core.")
@click.option("--into", type=click.Path(path_type=Path), hidden=True, help="Make the compiled kernels of a wheel here.")
def warmup(method: tuple[str, ...], jobs: int | None, into: Path | None) -> None:
    """Compile all kernels now, so that later runs do not have to.

    Compiled kernels are stored on disk: in NUMBA_CACHE_DIR if that is set, otherwise beside the library or in the
    user's cache folder.
    """
    from anytimebp.inference.ahead import GROUPS, compile_ahead, compile_bundle, groups_of  # noqa: PLC0415

    began = time.perf_counter()
    chosen = list(dict.fromkeys(group for name in method for group in groups_of(name))) or list(GROUPS)
    for group in compile_bundle(into, jobs) if into else compile_ahead(chosen, jobs):
        say(f"{time.perf_counter() - began:6.1f} s  {group}")
