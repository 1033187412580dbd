"""Try random models by hand: `python tests/fuzz/try_models.py --method bp --count 1000 --first-seed 0`.

Prints how runs ended, and the seeds that failed by kind of complaint; `--show` prints every complaint.
"""

import collections
import sys
import time
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import anytimebp as abp
from fuzz.trials import Trial


@click.command()
@click.option("--method", "methods", multiple=True, type=click.Choice(abp.METHODS), help="All of them, unless given.")
@click.option("--count", default=100, help="Models per method.")
@click.option("--first-seed", default=0)
@click.option("--once", is_flag=True, help="One run of each model, on its budget, instead of several that must agree.")
@click.option("--show/--quiet", default=False, help="Print every complaint.")
def main(methods, count, first_seed, once, show):
    """Try models of rising seeds with every method."""
    for method in methods or abp.METHODS:
        start, endings, failed = time.perf_counter(), collections.Counter(), collections.defaultdict(list)
        slowest = (0.0, -1)
        for seed in range(first_seed, first_seed + count):
            begin = time.perf_counter()
            trial = Trial(seed, method, once=once)
            trial.run()
            slowest = max(slowest, (time.perf_counter() - begin, seed))
            endings.update(trial.endings)
            for kind in {kind for kind, _ in trial.complaints}:
                failed[kind].append(seed)
            if show and trial.complaints:
                click.echo(f"{method} {seed}: {trial.plan.describe()}; {trial.options} {trial.budget} {trial.stages}")
                for kind, text in trial.complaints[:6]:
                    click.echo(f"    {kind}: {text:.400}")
        click.echo(
            f"{method}: {count} models in {time.perf_counter() - start:.1f} s, slowest {slowest}, {dict(endings)}"
        )
        for kind, seeds in sorted(failed.items()):
            click.echo(
                f"  {len(seeds):5d}  {kind}: seeds {' '.join(map(str, seeds[:12]))}{' ...' if seeds[12:] else ''}"
            )


if __name__ == "__main__":
    main()
