"""Make the golden answers anew: `python tests/golden/record.py`.

One may do so when the answers are meant to change, and the change is understood and right: a new model or run here, a
better text of an error, another order in which states join that was decided upon. Look at what `--compare` prints
before, and say in the commit why it changes. A change that only moves code around never needs it: there, a difference
is a defect.

Every answer must survive noise in the last digits of all scores. One that does not hangs on rounding, and is reported:
choose another model. `--compare` writes nothing and prints how today's answers differ from those in the file.
"""

import sys
from pathlib import Path

import click
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import anytimebp as abp
from golden.runs import FILE, all_cases, answer, differences, load, save, states_of

NOISE = 1e-13  # relative, on every score
MOST_BYTES = 400_000


class NoisyGraph(abp.FactorGraph):
    """A graph whose tables and lists are off in the last digits, the same where they are the same."""

    def add_factor(self, *args, **scores):
        return super().add_factor(*args, **noisy(scores, self.n_factors))

    def add_factors(self, *args, **scores):
        return super().add_factors(*args, **noisy(scores, self.n_factors))


def noisy(scores, seed):
    rng = np.random.default_rng(seed)
    for name in {"table", "log_table"} & scores.keys():
        values = np.asarray(scores[name], dtype=float)
        known, position = np.unique(values, return_inverse=True)
        known = known * (1.0 + NOISE * rng.choice([-1.0, 1.0], known.shape))
        scores[name] = known[position].reshape(values.shape)
    if "entries" in scores:
        indices, values = scores["entries"]
        scores["entries"] = indices, values * (1.0 + NOISE * rng.choice([-1.0, 1.0], values.shape))
    if "rule" in scores:
        rule = scores["rule"]
        scores["rule"] = lambda *states: rule(*states) * (1.0 + NOISE * np.cos(sum(states)))
    return scores


def lines(case, expected, found):
    """Return how an answer differs from what is expected, a line each."""
    if expected is None:
        return ["is new"]
    if expected == found:
        return []
    graph = abp.FactorGraph()
    answer(case, graph)
    return differences(expected, found, states_of(graph))


@click.command()
@click.option("--compare", is_flag=True, help="Write nothing; print what differs from the file.")
def main(*, compare):
    """Record the answers of all runs, or compare them with those that are kept."""
    kept, found = load() if compare else {}, {}
    for case in all_cases():
        name = str(case)
        found[name] = answer(case)
        if compare:
            changed = lines(case, kept.pop(name, None), found[name])
        else:
            changed = [f"hangs on rounding: {line}" for line in lines(case, answer(case, NoisyGraph()), found[name])]
        for line in changed:
            click.echo(f"{name}: {line}")
    for name in kept:
        click.echo(f"{name}: is no run any more")
    if not compare:
        save(found)
        size = FILE.stat().st_size
        click.echo(f"{len(found)} answers in {size:,} bytes" + (": too many" if size > MOST_BYTES else ""))


if __name__ == "__main__":
    main()
