"""Finds 30 sensors on a map from the distances between them.

Six sensors know where they are; the others only measure their distances, with some noise, to sensors within reach. A
state is a cell of the map: 300 x 300 cells are 90,000 states a sensor. A measured distance makes a ring of cells likely
around every cell where the other sensor may be, and belief propagation intersects the rings. Some sensors cannot be
located, as they hear too few others; their marginals say so, where a single best position would not.

    python examples/localisation.py --small --out map.png
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

import anytimebp as abp

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]

REACH = 0.3  # of the map's side: farther sensors do not hear each other; 90 cells of 300
NOISE = 0.005  # standard deviation of a measured distance, in sides of the map; 1.5 cells of 300
OUTLIERS = 1e-3  # weight of a distance that means nothing


class Network(NamedTuple):
    """Sensors on a map: the model, and where they are in truth.

    Attributes:
        graph: A variable per sensor, "s0", "s1", ...; state row * side + column is a cell of the map.
        known: The cells of the sensors that know their place, by variable: the evidence.
        places: Rows and columns where the sensors are, in cells and parts of cells, shape (sensors, 2).
        pairs: Sensors that hear each other, shape (pairs, 2).
        side: Of the map, in cells.
    """

    graph: abp.FactorGraph
    known: dict[str, int]
    places: Floats
    pairs: Indices
    side: int


def range_rule(measured: float, side: int) -> Callable[..., Floats]:
    """Return the rule of one measured distance, in cells: log scores by the cells of both sensors.

    Nothing in the rule is about arrays, so that numba.njit makes a function of two numbers of it as it stands.
    """
    # A sensor is anywhere in its cell: an error of variance 1/12 at each end, whatever the size of the map.
    variance = (NOISE * side) ** 2 + 1 / 6

    def rule(a, b):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        rows, columns = a // side - b // side, a % side - b % side
        miss = np.sqrt(rows * rows + columns * columns) - measured
        # Far from the ring a Gaussian would say exp(-1000): one false echo, and no place is possible any more. With a
        # small weight for distances that mean nothing, a ring can be outvoted, and all scores stay within 7 nats.
        return np.log((1 - OUTLIERS) * np.exp(-0.5 * miss * miss / variance) + OUTLIERS)

    return rule


def make_network(side: int, rng: np.random.Generator, sensors: int = 30, known: int = 6) -> Network:
    """Return sensors at random places; the same generator gives the same network at every size of the map.

    Args:
        side: Of the map, in cells.
        rng: Makes places and noise.
        sensors: How many there are.
        known: How many of them know their place: the first ones.
    """
    places = rng.random((sensors, 2))
    noise = rng.normal(0.0, NOISE, (sensors, sensors))
    distance = np.linalg.norm(places[:, np.newaxis] - places, axis=2)
    # A pair of known places would tell nothing, so the second is an unknown one.
    pairs = [(i, j) for j in range(known, sensors) for i in range(j) if distance[i, j] < REACH]
    graph = abp.FactorGraph()
    variables = [graph.add_variable(f"s{i}", side * side) for i in range(sensors)]
    for i, j in pairs:
        graph.add_factor([variables[i], variables[j]], rule=range_rule(side * (distance[i, j] + noise[i, j]), side))
    cells = (places * side).astype(np.int64) @ [side, 1]
    evidence = {f"s{i}": int(cells[i]) for i in range(known)}
    return Network(graph, evidence, places * side, np.array(pairs), side)
