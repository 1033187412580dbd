"""What a larger table has beyond a smaller one, in boxes that do not overlap."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations


def new_boxes(old: Sequence[int], new: Sequence[int], least: int = 1, skipped: int = -1) -> Iterator[tuple[slice, ...]]:
    """Cut the joint states with at least so many axes (one of them left out) beyond their old sizes into boxes.

    The first such axes decide the box: those between are within their old sizes, those behind may be anywhere.
    """
    axes = [k for k in range(len(new)) if k != skipped]
    for beyond in combinations(axes, least):
        box = [slice(0, n if k > beyond[-1] else o) for k, (o, n) in enumerate(zip(old, new, strict=True))]
        for k in beyond:
            box[k] = slice(old[k], new[k])
        if all(place.stop > place.start for k, place in enumerate(box) if k != skipped):
            yield tuple(box)
