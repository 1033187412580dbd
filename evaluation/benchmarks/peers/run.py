"""Measures peers from the package index on the same graphs, each in its own environment; `--write` keeps the tables.

The full table goes to docs/benchmarks.md, a short one to README.md. What a peer cannot do is a row that says so.
"""

import argparse
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

import models  # noqa: E402
from environments import OURS, PACKAGES, PEERS, call  # noqa: E402
from flooding import sweeps_to_settle  # noqa: E402
from graphs import graphs  # noqa: E402
from report import AGREEMENT, TITLE, Row, between_markers, section, short_section  # noqa: E402
from speed import TOLERANCE  # noqa: E402
from timing import keep_freed_memory  # noqa: E402

import anytimebp as abp  # noqa: E402

ROOT = HERE.parents[2]
PAGE, README = ROOT / "docs" / "benchmarks.md", ROOT / "README.md"


def own_seconds(graph, method, rounds=7):
    """Return the best time of a method from a built graph, and its marginals, all variables in a row."""
    best = float("inf")
    for _ in range(rounds):
        graph.compiled = None
        started = perf_counter()
        result = abp.infer(graph, method, tolerance=TOLERANCE)
        marginals = np.concatenate([result.marginals[k] for k in range(len(result.marginals))])
        best = min(best, perf_counter() - started)
    return best, marginals


def compare(peers, environments, folder):
    """Yield a row per graph and peer, our own methods first."""
    for stated in graphs():
        graph, sweeps = models.graph_of(stated.model), sweeps_to_settle(stated.model, TOLERANCE)
        for peer in [*OURS, *peers]:
            before = {method: own_seconds(graph, method) for method in ("bp", "adaptive")}
            outcome = call(peer, stated.model, sweeps, environments, folder)
            best = [min(seconds, own_seconds(graph, method)[0]) for method, (seconds, _) in before.items()]
            gap = float("nan") if outcome.failed else np.abs(outcome.marginals - before["bp"][1]).max()
            yield Row(peer, stated, outcome, *best, gap)


def main():
    """Measure, print and, if asked, write the sections."""
    options = _options()
    keep_freed_memory()
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        chosen = [peer for peer in PEERS if peer.library in options.peers]
        for row in compare(chosen, options.environments or Path(temporary), Path(temporary)):
            rows.append(row)
            took = row.outcome.failed or f"{row.outcome.seconds:.3f} s on {row.outcome.cores:.1f} cores"
            print(f"{row.graph.name}, {row.graph.unary_sd:g}: {row.peer.name}: {took}", file=sys.stderr)
    rows.sort(key=lambda row: [*OURS, *chosen].index(row.peer))
    full, short = section(rows), short_section(rows)
    print(full, short, sep="\n")
    if options.write:
        page, readme = PAGE.read_text(encoding="utf-8"), README.read_text(encoding="utf-8")
        PAGE.write_text(page.split(TITLE)[0].rstrip() + "\n\n" + full, encoding="utf-8")
        README.write_text(between_markers(readme, short), encoding="utf-8")
    if wrong := [f"{row.peer.name} on {row.graph.name}: {row.gap:.0e}" for row in rows if row.disagrees]:
        sys.exit(f"marginals differ from those of bp by more than {AGREEMENT:g}: {'; '.join(wrong)}")


def _options():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="keep the tables in docs/benchmarks.md and README.md")
    parser.add_argument("--environments", type=Path, help="folder in which to keep the environments")
    parser.add_argument("--peers", default=",".join(PACKAGES), help="which ones, with commas (%(default)s)")
    options = parser.parse_args()
    options.peers = options.peers.split(",")
    unknown = set(options.peers) - PACKAGES.keys()
    if unknown:
        parser.error(f"no peers by the names {', '.join(sorted(unknown))}; there are {', '.join(PACKAGES)}")
    if options.write and set(options.peers) != PACKAGES.keys():
        parser.error("--write takes all peers: it replaces the tables")
    return options


if __name__ == "__main__":
    main()
