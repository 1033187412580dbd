"""Fair clocks and plain tables: contenders take turns, so that a busy machine hurts all of them alike."""

import ctypes
import random
import statistics
from time import perf_counter


def interleaved(contenders, rounds):
    """Return the seconds of each contender, by name, in `rounds` rounds of one call each, in random order.

    Args:
        contenders: Functions without arguments, by name; each is called once before the clock starts.
        rounds: How often each is timed.
    """
    for call in contenders.values():
        call()
    seconds = {name: [] for name in contenders}
    order = random.Random(0)  # noqa: S311  (no secret)
    for _ in range(rounds):
        for name in order.sample(list(contenders), len(contenders)):  # what one leaves in the cache, the next one finds
            started = perf_counter()
            contenders[name]()
            seconds[name].append(perf_counter() - started)
    return seconds


def keep_freed_memory():
    """Let freed arrays be used again without page faults, which would slow the contender after a large free.

    Does nothing where the C library is not glibc.
    """
    largest_from_heap, keep = (-3, 2**25), (-1, 2**30)  # M_MMAP_THRESHOLD, M_TRIM_THRESHOLD
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(*largest_from_heap)
        mallopt(*keep)


def ratio(slower, faster):
    """Return the median, over rounds, of the quotient of two contenders' seconds in the same round."""
    return statistics.median(a / b for a, b in zip(slower, faster, strict=True))


def milliseconds(seconds):
    """Return the best of several timings as text."""
    return f"{1e3 * min(seconds):.1f}"


def verdict(*, met):
    """Return how a bar was met, as text."""
    return "yes" if met else "**no**"


def table(header, rows):
    """Return a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)
