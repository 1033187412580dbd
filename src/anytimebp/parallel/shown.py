"""How many of many are done, on standard error."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from time import monotonic
from typing import TypeVar

Item = TypeVar("Item")
INTERVAL = 0.5  # seconds between two lines


def counted(items: Iterator[Item], *, is_shown: bool) -> Iterator[Item]:
    """Pass items on; if asked to, say now and then how many there were."""
    return _count(items) if is_shown else items


def _count(items: Iterator[Item]) -> Iterator[Item]:
    began = last = monotonic()
    n = 0
    for n, item in enumerate(items, 1):
        if monotonic() - last > INTERVAL:
            last = monotonic()
            sys.stderr.write(f"\r{n:,} graphs in {last - began:.1f} s")
            sys.stderr.flush()
        yield item
    sys.stderr.write(f"\r{n:,} graphs in {monotonic() - began:.1f} s\n")
