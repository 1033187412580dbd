"""The graphs that all peers are given."""

from typing import NamedTuple

import models
from speed import GRIDS, SETTLING_SEED, UNARY_SD, grid_name

CHAIN = (1, 20, 100)
ENTITIES = (4, 8)


class Graph(NamedTuple):
    """A model with its name in tables.

    Attributes:
        name: What it is.
        unary_sd: Standard deviation of its unary log scores.
        model: As arrays.
        short: Whether it has a column in the short table.
        loops: Whether BP is not exact on it.
    """

    name: str
    unary_sd: float
    model: models.Arrays
    short: bool
    loops: bool


def graphs():
    """Yield them, each built when its turn comes."""
    name = f"chain of {CHAIN[1]}, {CHAIN[2]} states"
    yield Graph(name, UNARY_SD[0], models.grid(*CHAIN, UNARY_SD[0], 1.0, seed=1), short=True, loops=False)
    for size in GRIDS:
        for sd in UNARY_SD:
            grid = models.grid(*size, sd, 1.0, seed=1)
            yield Graph(f"grid {grid_name(*size)}", sd, grid, short=sd == UNARY_SD[0], loops=True)
    for count in ENTITIES:
        model = models.joint_extraction(count, SETTLING_SEED)
        yield Graph(f"{count} entities", 8.0, model, short=True, loops=True)
