"""What `infer` prints: how the run ended, the most certain and the most uncertain marginals, what to try next."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from anytimebp.cli.names import printable_name, warn
from anytimebp.inference.methods import GROWING_METHODS
from anytimebp.model.source import IndexArray
from anytimebp.report.choices import split_choice
from anytimebp.report.wording import probability_text
from anytimebp.results.snapshot import Result
from anytimebp.results.stop import StopReason

MORE = "--output FILE.csv for all marginals, --report FILE.html for a page to look at"
MOST_IN_FULL = 50  # states of a variable whose marginal is shown in full
SHOWN_OF_MANY = 20  # states of any other
LONG = 1.0  # seconds from which a faster method is worth a word
PIPE_WIDTH = 110  # characters of a line where no terminal says

ENDED = {
    StopReason.CONVERGED: "converged: no message moves by more than the tolerance",
    StopReason.OUT_OF_TIME: "stopped: the time was used up",
    StopReason.OUT_OF_MEMORY: "stopped growing: larger domains would not fit into memory",
    StopReason.OUT_OF_CANDIDATES: "stopped growing: rules propose no other states",
    StopReason.TARGET_REACHED: "stopped: the estimated error is under --target-error",
    StopReason.NOT_CONVERGED: "not converged: belief propagation does not settle on this model, damped or not",
    StopReason.INTERRUPTED: "interrupted",
}
NEXT = {
    StopReason.OUT_OF_MEMORY: "a larger --max-memory, a machine with more memory, or --target-error to stop earlier",
    StopReason.NOT_CONVERGED: "another --method, --damping 0.5, or a looser --tolerance",
    StopReason.INTERRUPTED: "run it again with --seconds to stop by itself",
}


UNARY = "; no message was sent yet: these are the unary scores alone"


class _Output(Console):
    """A console that leaves it to the command what to do when nobody reads on."""

    def on_broken_pipe(self) -> None:
        """Say so instead of ending the process."""
        raise BrokenPipeError


class Facts(NamedTuple):
    """What a result does not know of its model.

    Attributes:
        is_forest: Whether BP is exact on it.
        fixed: Indices of variables that the evidence leaves one state, which are not worth showing.
        n_allowed: States of all variables together that the evidence allows.
    """

    is_forest: bool
    fixed: set[int]
    n_allowed: int


class Wanted(NamedTuple):
    """What to show of the marginals.

    Attributes:
        top: Variables, of each kind.
        variables: Indices of those asked for, whose marginals are shown instead.
    """

    top: int
    variables: Sequence[int]


def show_result(result: Result, facts: Facts, wanted: Wanted, files: Sequence[Path] = ()) -> None:
    """Print a result on standard output, and a warning on standard error if it is neither settled nor close enough.

    Args:
        result: The answer.
        facts: On the model.
        wanted: What to show.
        files: That were written.
    """
    if not result.consistent and result.stop_reason is not StopReason.TARGET_REACHED:
        warn("the marginals are not at a fixed point")
    console = _Output(
        width=None if sys.stdout.isatty() else PIPE_WIDTH, highlight=False, markup=False, emoji=False, soft_wrap=False
    )
    console.print(ended_line(result))
    console.print(_figures(result, facts))
    if result.trace and result.trace[-1].choice:
        console.print(_chosen(result.trace[-1].choice))
    for table in _tables(result, facts, wanted):
        console.print(table)
    step = next_step(result)
    if step != MORE or not files:
        console.print(f"next: {step}")
    if files:
        console.print(f"wrote {', '.join(map(printable_name, files))}")


def _tables(result: Result, facts: Facts, wanted: Wanted) -> Iterator[Table]:
    """Give the marginals asked for, or the most uncertain and the most certain ones."""
    if wanted.variables:
        yield from (_marginal(result, index) for index in wanted.variables)
        return
    order = by_uncertainty(result, facts.fixed)
    if 0 < len(order) <= 2 * wanted.top:
        yield _table("most uncertain first", result, order[::-1])
    elif wanted.top > 0 and len(order):
        yield _table("most uncertain", result, order[::-1][: wanted.top])
        yield _table("most certain", result, order[: wanted.top])


def ended_line(result: Result) -> str:
    """Say how the run ended, and whether the marginals are at a fixed point."""
    text = ENDED.get(result.stop_reason, str(result.stop_reason))
    if result.consistent and result.stop_reason is not StopReason.CONVERGED:
        return f"{text}; the marginals are consistent on the domains reached"
    if result.stop_reason is StopReason.TARGET_REACHED:
        return f"{text}; messages have not settled to --tolerance"
    return text if result.consistent else f"{text}; the marginals are NOT at a fixed point"


def _settled_before(result: Result) -> str:
    """Say so if the answer is older than the end of the run."""
    if result.current.updates <= result.updates:
        return ""
    settled, ended = f"{result.seconds:.3g} s", f"{result.current.seconds:.3g} s"
    return f"; settled after {settled}, stopped after {ended}" if settled != ended else ""


def next_step(result: Result) -> str:
    """Say what to try next."""
    if result.stop_reason is StopReason.OUT_OF_TIME:
        grows = result.method in GROWING_METHODS
        return "allow more --seconds" + (", a larger --grow, or --method adaptive" if grows else "")
    if result.method == "truncated":
        return "another --method, for the states that were left out"
    if result.stop_reason in NEXT:
        return NEXT[result.stop_reason]
    if result.stop_reason is StopReason.TARGET_REACHED:
        return f"a smaller --target-error for more digits; {MORE}"
    if not result.unexplored_mass <= 0:
        return "more --seconds for the rest of the states"
    if result.method in GROWING_METHODS and result.seconds > LONG:
        return f"--method adaptive, which is faster where all states are wanted in the end; {MORE}"
    return MORE


def by_uncertainty(result: Result, fixed: set[int]) -> IndexArray:
    """Return the variables that are not fixed, the most certain first; ties by order."""
    entropy = result.marginals.entropies()
    free = np.array([i for i in range(len(entropy)) if i not in fixed], dtype=np.int64)
    return free[np.argsort(entropy[free], kind="stable")]


def _figures(result: Result, facts: Facts) -> str:
    active = int(result.domain_sizes.sum())
    everything = result.consistent and active == facts.n_allowed
    kind = ("a forest: exact" if everything else "a forest") if facts.is_forest else "with loops: BP's approximation"
    return (
        f"{result.method}, {result.seconds:.3g} s, {result.updates:,} updates, "
        f"{active:,} of {facts.n_allowed:,} states active{_settled_before(result)}\n"
        f"log Z {result.log_z:.10g} ({kind}), largest residual {result.max_residual:.1e}"
        f"{UNARY if not result.updates else ''}\n"
        f"estimated error {_estimate(result.estimated_error)}, unexplored mass {_estimate(result.unexplored_mass)}"
    )


def _estimate(value: float) -> str:
    return (f"{value:.1e}" if value else "0") if math.isfinite(value) else "unknown"


def _chosen(choice: str) -> str:
    """Say what `adaptive` was doing in the end, and why."""
    way, reason = split_choice(choice)
    return f"chose {way}" + (f" ({reason})" if reason else "")


def _marginal(result: Result, index: int) -> Table:
    """Return the marginal of one variable: in full and in order if it is short, else its likeliest states."""
    variable = result.marginals.variables[index]
    in_full = variable.n_states <= MOST_IN_FULL
    if in_full:
        rows = list(zip(variable.labels, result.marginals[index].tolist(), strict=True))
    else:
        rows = result.top(index, SHOWN_OF_MANY)
    table = Table(
        title=printable_name(variable.name), title_justify="left", title_style="bold", box=None, pad_edge=False
    )
    table.add_column("state", overflow="fold")
    table.add_column("probability", justify="right")
    for label, p in rows:
        table.add_row(Text(printable_name(label)), probability_text(p))
    if not in_full:
        rest = max(0.0, 1.0 - sum(p for _, p in rows))
        table.add_row(f"{variable.n_states - len(rows):,} others", probability_text(rest))
    return table


def _table(title: str, result: Result, variables: IndexArray) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    table.add_column("variable", overflow="fold")
    table.add_column("states in effect", justify="right")
    table.add_column("likeliest states", overflow="fold")
    effective = np.exp(result.marginals.entropies())
    for index in variables.tolist():
        variable = result.marginals.variables[index]
        likeliest = ", ".join(
            f"{printable_name(label)}: {probability_text(p)}" for label, p in result.top(index, 3) if p > 0.0
        )
        table.add_row(
            Text(printable_name(variable.name)), f"{effective[index]:.4g} of {variable.n_states:,}", Text(likeliest)
        )
    return table
