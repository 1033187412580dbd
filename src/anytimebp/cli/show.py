"""What `infer` prints: how the run ended, the most certain and most uncertain marginals, and what to try next."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from anytimebp.cli.names import printable_name, warn
from anytimebp.inference.methods import GROWING_METHODS
from anytimebp.report.wording import estimate_text, exact_cost_text, probability_text, split_choice
from anytimebp.results.snapshot import Result
from anytimebp.results.stop import StopReason

MORE = "--output FILE.csv for all marginals, --report FILE.html for a page with curves"
MOST_IN_FULL = 50  # states of a variable whose marginal is shown in full
SHOWN_OF_MANY = 20  # states of any other
LONG = 1.0  # seconds of a run from which on a faster method is suggested
PIPE_WIDTH = 110  # characters of a line if there is no terminal

ENDED = {
    StopReason.OUT_OF_TIME: "stopped: out of time",
    StopReason.OUT_OF_MEMORY: "stopped growing: larger domains would not fit into memory",
    StopReason.OUT_OF_CANDIDATES: "stopped growing: rules propose no further states",
    StopReason.TARGET_REACHED: "stopped: the estimated distance to BP is at most --target-error",
    StopReason.NOT_CONVERGED: "not converged: belief propagation does not settle on this model, even with damping",
    StopReason.INTERRUPTED: "interrupted",
}
NEXT = {
    StopReason.OUT_OF_MEMORY: "a larger --max-memory, a machine with more memory, or --target-error to stop earlier",
    StopReason.NOT_CONVERGED: "another --method, --damping 0.5, or a looser --tolerance",
    StopReason.INTERRUPTED: "run it again with --seconds, so that it stops by itself",
}


UNARY = "; no message has been sent yet: these are only the unary scores"


class _Output(Console):
    """A console that lets the command decide what happens when the output is closed."""

    def on_broken_pipe(self) -> None:
        """Raise the error; the base class would end the process."""
        raise BrokenPipeError


def show_result(
    result: Result, tables: Iterable[Table], *, is_forest: bool, n_allowed: int, files: Sequence[Path] = ()
) -> None:
    """Print a result on standard output, and a warning on standard error if it is neither converged nor close enough.

    Args:
        result: The answer.
        tables: Of marginals.
        is_forest: Whether BP is exact on the model.
        n_allowed: States of all variables together that the evidence allows.
        files: That were written.
    """
    if not result.consistent and result.stop_reason is not StopReason.TARGET_REACHED:
        warn("the marginals are not at a fixed point")
    console = _Output(
        width=None if sys.stdout.isatty() else PIPE_WIDTH, highlight=False, markup=False, emoji=False, soft_wrap=False
    )
    console.print(ended_line(result))
    console.print(_figures(result, n_allowed, is_forest=is_forest))
    if result.trace and result.trace[-1].choice:
        console.print(_chosen(result.trace[-1].choice))
    if _loops(result):
        console.print(_loops(result))
    for table in tables:
        console.print(table)
    step = next_step(result)
    if step != MORE or not files:
        console.print(f"next: {step}")
    if files:
        console.print(f"wrote {', '.join(map(printable_name, files))}")


def ended_line(result: Result) -> str:
    """Return how the run ended, and whether the marginals are at a fixed point."""
    if result.method == "exact" and result.exact:
        return "done: the marginals are exact"
    text = ENDED.get(result.stop_reason, str(result.stop_reason))
    if result.consistent and result.stop_reason is not StopReason.CONVERGED:
        return f"{text}; the marginals are consistent on the domains reached"
    if result.stop_reason is StopReason.TARGET_REACHED:
        return f"{text}; messages have not settled to --tolerance"
    return text if result.consistent else f"{text}; the marginals are NOT at a fixed point"


def _settled_before(result: Result) -> str:
    """Return a remark if the answer is older than the end of the run."""
    if result.current.updates <= result.updates:
        return ""
    settled, ended = f"{result.seconds:.3g} s", f"{result.current.seconds:.3g} s"
    return f"; settled after {settled}, stopped after {ended}" if settled != ended else ""


def next_step(result: Result) -> str:
    """Return what to try next."""
    if result.stop_reason is StopReason.OUT_OF_TIME:
        grows = result.method in GROWING_METHODS
        return "allow more --seconds" + (", a larger --grow, or --method adaptive" if grows else "")
    if result.method == "truncated":
        return "another --method, which includes the states that were left out"
    if result.stop_reason in NEXT:
        return NEXT[result.stop_reason]
    if result.stop_reason is StopReason.TARGET_REACHED:
        return f"a smaller --target-error for more digits; {MORE}"
    if not result.unexplored_mass <= 0:
        return "more --seconds for the rest of the states"
    if result.method in GROWING_METHODS and result.seconds > LONG:
        return f"--method adaptive, which is faster if you want all states in the end; {MORE}"
    return MORE


def _figures(result: Result, n_allowed: int, *, is_forest: bool) -> str:
    active = int(result.domain_sizes.sum())
    everything = result.consistent and active == n_allowed
    kind = ("a forest: exact" if everything else "a forest") if is_forest else "with loops: BP's approximation"
    if result.method == "exact":
        kind = "exact" if result.exact else "a lower bound"
    if result.marginals.is_limited and math.isnan(result.log_z):
        kind = "unknown: parts that the targets do not depend on were left out"
    return (
        f"{result.method}, {result.seconds:.3g} s, {result.updates:,} updates, "
        f"{active:,} of {n_allowed:,} states active{_settled_before(result)}\n"
        f"log Z {result.log_z:.10g} ({kind}), largest residual {result.max_residual:.1e}"
        f"{UNARY if not result.updates else ''}\n"
        f"{_distance(result)}unexplored mass {estimate_text(result.unexplored_mass)}"
    )


def _distance(result: Result) -> str:
    """Print the estimated distance of the marginals to those of BP, or to the exact ones; nothing if they are exact."""
    name = f"estimated distance to {result.estimated_to}"
    return "" if result.exact else f"{name} {estimate_text(result.estimated_error)}, "


def _loops(result: Result) -> str:
    """Say that BP itself is an approximation on loops, and what the exact answer would cost."""
    cost = "" if result.exact else exact_cost_text(result.exact_entries)
    return f"BP itself may be off on loops; {cost} (--method exact)" if cost else ""


def _chosen(choice: str) -> str:
    """Say what `adaptive` was doing in the end, and why."""
    way, reason = split_choice(choice)
    return f"chose {way}" + (f" ({reason})" if reason else "")


def whole_marginals(result: Result, variables: Iterable[int]) -> Iterator[Table]:
    """Give the marginal of each variable: in full and in order if it is short, else its likeliest states."""
    for index in variables:
        variable = result.marginals.variables[index]
        table = _new_table(printable_name(variable.name))
        table.add_column("state", overflow="fold")
        table.add_column("probability", justify="right")
        rows = result.top(index, SHOWN_OF_MANY)
        if variable.n_states <= MOST_IN_FULL:
            rows = list(zip(variable.labels, result.marginals[index].tolist(), strict=True))
        for label, p in rows:
            table.add_row(Text(printable_name(label)), probability_text(p))
        if len(rows) < variable.n_states:
            rest = max(0.0, 1.0 - sum(p for _, p in rows))
            table.add_row(f"{variable.n_states - len(rows):,} others", probability_text(rest))
        yield table


def telling_marginals(result: Result, top: int, fixed: set[int]) -> Iterator[Table]:
    """Give the likeliest states of the most uncertain and of the most certain variables, fixed ones left out."""
    entropy, indices = result.marginals.entropies(), result.marginals.indices
    free = np.array([position for position, index in enumerate(indices) if index not in fixed], dtype=np.int64)
    order = free[np.argsort(entropy[free], kind="stable")].tolist()
    if 0 < len(order) <= 2 * top:
        yield _likeliest("most uncertain first", result, order[::-1])
    elif top > 0 and order:
        yield _likeliest("most uncertain", result, order[::-1][:top])
        yield _likeliest("most certain", result, order[:top])


def _likeliest(title: str, result: Result, positions: Iterable[int]) -> Table:
    table = _new_table(title)
    table.add_column("variable", overflow="fold")
    table.add_column("states in effect", justify="right")
    table.add_column("likeliest states", overflow="fold")
    effective = np.exp(result.marginals.entropies())
    for position in positions:
        index = result.marginals.indices[position]
        variable = result.marginals.variables[index]
        likeliest = ", ".join(
            f"{printable_name(label)}: {probability_text(p)}" for label, p in result.top(index, 3) if p > 0.0
        )
        table.add_row(
            Text(printable_name(variable.name)), f"{effective[position]:.4g} of {variable.n_states:,}", Text(likeliest)
        )
    return table


def _new_table(title: str) -> Table:
    return Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
