"""The comparison with peers: in full for the page of benchmarks, and as a short table for the README."""

import re
from statistics import median
from typing import NamedTuple

from environments import OURS, PACKAGES, Outcome, Peer
from graphs import Graph
from timing import table, verdict

from anytimebp_evaluation.machine import machine

BAR, AGREEMENT = 5.0, 1e-4
TITLE = "## Peers"
MARKERS = "<!-- peers -->", "<!-- end peers -->"
NOTES = """\
A peer is timed from a stated model to marginals, what it compiles not counted, with as many threads as it likes. `bp`
and `adaptive` run before and after it, on one thread, from a built graph, the layout included, to residual 1e-10. Best
of the rounds on all sides. Memory is the peak of the peer's process on top of its imports and the model's arrays. A
peer may take a minute in all and 12 GiB; the bytes that one asks for are those of the first array that is refused.
Cores are processor time by time: far below 1, the machine was busy, and the row is too long. All keep freed memory.

PGMax (JAX) and pomegranate (PyTorch), both in double precision, run as many iterations as they need; PGMax gets factors
of three variables as lists of all their joint states. pyAgrum, whose loopy BP takes no Markov network, gets a Bayesian
network with the same messages, and stops by its own rule at 1e-14. pgmpy has no loopy BP: its `BeliefPropagation` is a
junction tree, exact, so that its marginals differ from ours by what BP is off on graphs with loops, and its
`BeliefPropagationWithMessagePassing` recurses without end where there is a loop."""
SHORT_NOTES = """\
Milliseconds from a stated model to marginals and, in brackets, how many times as long as `bp` that is. Grids have
normal log scores with standard deviation 1; the graphs of entities have variables with 42 and 24 states and factors of
three. Marginals agree with those of `bp` to {gap:.0e} or better, except where pgmpy, which has no loopy BP, finds the
exact ones. [Everything measured, memory included](docs/benchmarks.md#peers)."""


class Row(NamedTuple):
    """What was measured of a peer on a graph: seconds of both own methods around it, and the largest difference."""

    peer: Peer
    graph: Graph
    outcome: Outcome
    bp: float
    adaptive: float
    gap: float

    @property
    def ratio(self):
        """How many times as long as `bp` it takes."""
        return self.outcome.seconds / self.bp

    @property
    def comparable(self):
        """Whether its marginals are meant to be those of BP."""
        return not (self.peer.exact and self.graph.loops)

    @property
    def disagrees(self):
        """Whether its marginals should be those of BP and are not; NaN is not."""
        return self.comparable and not self.outcome.failed and not self.gap < AGREEMENT


def section(rows):
    """Return the section of the page of benchmarks."""
    header = ["peer", "model", "unary sd", "peer, ms", "cores", "bp, ms", "adaptive, ms", "peer / bp", f">= {BAR:g}"]
    header += ["agrees", "marginals differ by", "memory, MB"]
    versions = "; ".join(" ".join(package for call in calls for package in call) for calls in PACKAGES.values())
    where = f"Written by `evaluation/benchmarks/peers/run.py`. {machine('numpy', 'numba', 'anytimebp')}"
    where += f"\nEnvironments: {versions.replace('--no-deps ', '')}."
    return f"{TITLE}\n\n{where}\n\n{NOTES}\n\n{table(header, [_cells(row) for row in rows])}\n"


def _cells(row):
    """Return a line of the full table."""
    name = [row.peer.name, row.graph.name, f"{row.graph.unary_sd:g}"]
    own = [f"{1e3 * row.bp:.1f}", f"{1e3 * row.adaptive:.1f}"]
    if row.outcome.failed:
        return [*name, _shortened(row.outcome.failed), "-", *own, "-", "-", "-", "-", "-"]
    met = "-" if row.peer in OURS else verdict(met=row.ratio >= BAR)
    agrees = verdict(met=not row.disagrees) if row.comparable else "exact"
    took = [_milliseconds(row.outcome.seconds), f"{row.outcome.cores:.1f}"]
    rest = [f"{row.ratio:.1f}", met, agrees, f"{row.gap:.0e}", f"{row.outcome.memory / 1e6:,.0f}"]
    return [*name, *took, *own, *rest]


def _milliseconds(seconds):
    return f"{1e3 * seconds:.1f}" if seconds < 0.1 else f"{1e3 * seconds:,.0f}"


def short_section(rows):
    """Return what stands between the markers of the README: a line per library, a column per graph."""
    chosen = [row for row in rows if row.graph.short]
    graphs = list(dict.fromkeys(row.graph.name for row in chosen))
    own = {graph: _own(chosen, graph) for graph in graphs}
    lines = [
        [f"**{OURS[0].name}**", *(_timed(bp, bp) for bp, _ in own.values())],
        [f"**{OURS[1].name}**", *(_timed(adaptive, bp) for bp, adaptive in own.values())],
    ]
    for name in dict.fromkeys(row.peer.name for row in chosen if row.peer not in OURS):
        of_peer = {row.graph.name: row for row in chosen if row.peer.name == name}
        lines.append([name, *(_short_cell(of_peer[graph], own[graph][0]) for graph in graphs)])
    gap = max(row.gap for row in rows if row.comparable and not row.outcome.failed)
    where = machine("anytimebp")
    return f"{where}\n{SHORT_NOTES.format(gap=gap)}\n\n{table(['', *graphs], lines)}"


def _own(rows, graph):
    """Return the seconds of `bp` and `adaptive` on a graph: of the best times around each peer, the median."""
    around = [(row.bp, row.adaptive) for row in rows if row.graph.name == graph]
    return [median(times) for times in zip(*around, strict=True)]


def _timed(seconds, bp):
    """Return a time, and how many times as long as `bp` that is."""
    ratio = seconds / bp
    return f"{_milliseconds(seconds)} ({ratio:.{0 if ratio >= 10 else 1}f}x)"


def _short_cell(row, bp):
    """Return time and ratio, or how it failed."""
    if not row.outcome.failed:
        return _timed(row.outcome.seconds, bp)
    return _shortened(row.outcome.failed).split(":")[0]


def _shortened(failed):
    """Return what went wrong, in few words: from an error that names bytes, how many."""
    asked = re.search(r"Unable to allocate ([\d.]+ \w+)", failed)
    return f"asks for {asked[1]}" if asked else failed.replace("|", "/").splitlines()[0][:100]


def between_markers(text, content):
    """Return a text whose part between the markers is replaced."""
    head, found, rest = text.partition(MARKERS[0])
    _, ended, tail = rest.partition(MARKERS[1])
    if not (found and ended):
        msg = f"expected {' and '.join(MARKERS)} in README.md"
        raise ValueError(msg)
    return f"{head}{MARKERS[0]}\n{content}\n{MARKERS[1]}{tail}"
