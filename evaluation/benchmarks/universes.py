"""The examples at full size, a process each: universes of 50,000 and 90,000 states, whose tables would fill terabytes.

What the library says of itself is checked: linked mentions against BP on states that were picked without it, located
sensors against dense BP on a coarser map of the same network.
"""

from processes import run_child
from timing import table, verdict

LINKING_MEMORY, LOCALISING_MEMORY = 10**9, 2 * 10**9  # bytes that a run may allocate
MOST_UNEXPLORED, MOST_ENTRIES = 1e-3, 0.01  # of belief; of all pairwise entries


def linking(seeds, seconds=30):
    """Return the table of entity linking at full size."""
    base = _base()
    header = [
        "seed",
        "linked right",
        f"under {MOST_UNEXPLORED:g} after",
        "seconds",
        "entries",
        "of all",
        "peak over import",
        "unexplored",
        "off BP, TV",
    ]
    rows = []
    for seed in range(seeds):
        found = run_child("linking", str(seed), str(seconds), str(LINKING_MEMORY), str(MOST_UNEXPLORED))
        if "failed" in found:
            rows.append([seed, found["failed"], *["-"] * 9])
            continue
        over, share = found["peak"] - base, found["work"] / found["entries"]
        right = f"{found['alone']} alone, {found['joint']} jointly of {found['mentions']}"
        soon = f"{found['first'][0]:.1f} s, {found['first'][1]:,} entries" if found["first"] else "-"
        cells = [
            seed,
            right,
            soon,
            f"{found['seconds']:.1f}",
            f"{found['work']:,}",
            f"{share:.3%}",
            f"{over / 1e6:,.0f} MB",
        ]
        cells += [_number(found["unexplored"]), _number(found["distance"]), found["stop"]]
        small = share <= MOST_ENTRIES and over < LINKING_MEMORY
        rows.append([*cells, verdict(met=small and _under(found["unexplored"], MOST_UNEXPLORED))])
    return table([*header, "ended", "bar"], rows)


def localising(seeds, seconds=120):
    """Return the table of localisation at full size, beside dense BP on 60 x 60 cells."""
    base = _base()
    header = ["seed", "cells", "method", "seconds", "entries", "of all", "peak over import", "unexplored", "ended"]
    rows = []
    for seed in range(seeds):
        dense = run_child("localising", "60", str(seed), "bp", "600", str(10**11))
        full = run_child("localising", "300", str(seed), "adaptive", str(seconds), str(LOCALISING_MEMORY))
        for cells, method, found in ((60, "bp", dense), (300, "adaptive", full)):
            if "failed" in found:
                rows.append([seed, cells, method, *["-"] * 5, found["failed"], "-", "-", "-"])
                continue
            figures = [f"{found['seconds']:.1f}", f"{found['work']:,}", f"{found['work'] / found['entries']:.3%}"]
            figures += [f"{(found['peak'] - base) / 1e6:,.0f} MB", _number(found["unexplored"]), found["stop"]]
            off = [f"{found['miss']:.1f}", f"{found['miss_located']:.1f} ({found['located']})"]
            both = "failed" not in dense and "failed" not in full
            ratio = f"{full['miss'] / dense['miss']:.2f}" if both and method == "adaptive" else "-"
            rows.append([seed, cells, method, *figures, *off, ratio])
    return table([*header, "off, all", "off, located", "ratio of off, all"], rows)


def _base():
    """Return the peak memory of a process that only imports; compile what others would, which takes memory, too."""
    for method in ("adaptive", "bp"):
        run_child("first_marginals", method)
    return run_child("imported")["peak"]


def _number(value):
    """Return a small number as text, or the text that replaces it."""
    return value if isinstance(value, str) else f"{value:.1e}"


def _under(value, limit):
    """Tell whether a figure is known and under a limit."""
    return not isinstance(value, str) and value < limit
