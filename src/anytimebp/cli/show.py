"""What `infer` prints: how the run ended, the most certain and the most uncertain marginals, what to try next."""

from __future__ import annotations

import sys

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from anytimebp.engine.methods import GROWING_METHODS
from anytimebp.model.source import IndexArray
from anytimebp.report.wording import probability_text
from anytimebp.results.snapshot import Result
from anytimebp.results.stop import StopReason

LONG = 1.0  # seconds from which a faster method is worth a word
PIPE_WIDTH = 110  # characters of a line where no terminal says

ENDED = {
    StopReason.CONVERGED: "converged: no message moves by more than the tolerance",
    StopReason.OUT_OF_TIME: "stopped: the time was used up",
    StopReason.OUT_OF_MEMORY: "stopped growing: larger domains would not fit into memory",
    StopReason.TARGET_REACHED: "stopped: the estimated error is under --target-error",
    StopReason.NOT_CONVERGED: "not converged: belief propagation does not settle on this model, damped or not",
    StopReason.INTERRUPTED: "interrupted",
}
NEXT = {
    StopReason.OUT_OF_TIME: "allow more --seconds, or let more states join at once with --grow",
    StopReason.OUT_OF_MEMORY: "a machine with more memory, or --target-error to stop earlier",
    StopReason.NOT_CONVERGED: "another --method, --damping 0.5, or a looser --tolerance",
    StopReason.INTERRUPTED: "run it again with --seconds to stop by itself",
}


class _Output(Console):
    """A console that leaves it to the command what to do when nobody reads on."""

    def on_broken_pipe(self) -> None:
        """Say so instead of ending the process."""
        raise BrokenPipeError


def show_result(result: Result, observed: set[int], top: int) -> None:
    """Print a result on standard output.

    Args:
        result: The answer.
        observed: Indices of variables that the evidence fixes, which are not worth showing.
        top: Variables to show, of each kind.
    """
    console = _Output(
        width=None if sys.stdout.isatty() else PIPE_WIDTH, highlight=False, markup=False, emoji=False, soft_wrap=False
    )
    console.print(ended_line(result))
    console.print(_figures(result))
    order = by_uncertainty(result, observed)
    if top > 0 and len(order):
        console.print(_table("most uncertain", result, order[::-1][:top]))
        console.print(_table("most certain", result, order[:top]))
    console.print(f"next: {next_step(result)}")


def ended_line(result: Result) -> str:
    """Say how the run ended, and whether the marginals are at a fixed point."""
    text = ENDED.get(result.stop_reason, str(result.stop_reason))
    if result.consistent and result.stop_reason is not StopReason.CONVERGED:
        return f"{text}; the marginals are consistent on the domains reached"
    return text if result.consistent else f"{text}; the marginals are NOT at a fixed point"


def next_step(result: Result) -> str:
    """Say what to try next."""
    if result.stop_reason in NEXT:
        return NEXT[result.stop_reason]
    if result.unexplored_mass > 0 or result.stop_reason is StopReason.TARGET_REACHED:
        return "a smaller --target-error or more --seconds for the rest of the states"
    more = "--output FILE.csv for all marginals, --report FILE.html for a page to look at"
    if result.method in GROWING_METHODS and result.seconds > LONG:
        return f"--method bp, which is faster where all states are wanted in the end; {more}"
    return more


def by_uncertainty(result: Result, observed: set[int]) -> IndexArray:
    """Return the variables that are not observed, the most certain first; ties by order."""
    entropy = result.marginals.entropies()
    free = np.array([i for i in range(len(entropy)) if i not in observed], dtype=np.int64)
    return free[np.argsort(entropy[free], kind="stable")]


def _figures(result: Result) -> str:
    active, states = int(result.domain_sizes.sum()), result.n_states
    return (
        f"{result.method}, {result.seconds:.3g} s, {result.updates:,} updates, {active:,} of {states:,} states active, "
        f"log Z {result.log_z:.10g}, largest residual {result.max_residual:.1e}, "
        f"unexplored mass {result.unexplored_mass:.1e}"
    )


def _table(title: str, result: Result, variables: IndexArray) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    table.add_column("variable", overflow="fold")
    table.add_column("states in effect", justify="right")
    table.add_column("likeliest states", overflow="fold")
    effective = np.exp(result.marginals.entropies())
    for index in variables.tolist():
        variable = result.marginals.variables[index]
        likeliest = ", ".join(f"{label} {probability_text(p)}" for label, p in result.top(index, 3) if p > 0.0)
        table.add_row(Text(variable.name), f"{effective[index]:.4g} of {variable.n_states:,}", Text(likeliest))
    return table
