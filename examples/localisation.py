"""Finds 30 sensors on a map from the distances between them.

Six sensors know where they are; the others only measure their distances, with some noise, to sensors within reach. A
state is a cell of the map: 300 x 300 cells are 90,000 states a sensor. A measured distance makes a ring of cells likely
around every cell where the other sensor may be, and belief propagation intersects the rings. Some sensors cannot be
located, as they hear too few others; their marginals say so, where a single best position would not.

    python examples/localisation.py --small --out map.png
"""

import argparse
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
LOCATED = 0.02  # of the side: a sensor with less spread counts as located


class Network(NamedTuple):
    """Sensors on a map: the model and their true places.

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


class Belief(NamedTuple):
    """Estimated places of the sensors, from marginals; lengths in cells.

    Attributes:
        best: Row and column of the centre of the most probable cell, shape (sensors, 2).
        spread: Root mean square distance from the mean place, shape (sensors,).
        located: Which unknown sensors are pinned down, shape (sensors,).
        miss: Distance of the most probable place to the true one, shape (sensors,).
    """

    best: Floats
    spread: Floats
    located: npt.NDArray[np.bool_]
    miss: Floats


def read_belief(network: Network, result: abp.Result) -> Belief:
    """Return the estimated places of the sensors, and their spread."""
    marginals = np.array([result.marginals[i] for i in range(len(network.places))])
    centres = np.stack(np.divmod(np.arange(network.side**2), network.side), axis=1) + 0.5
    mean = marginals @ centres
    spread = np.sqrt(np.maximum(0.0, marginals @ (centres**2).sum(axis=1) - (mean**2).sum(axis=1)))
    best = centres[marginals.argmax(axis=1)]
    located = spread < LOCATED * network.side + 1.0  # a cell more: small maps are coarse
    located[: len(network.known)] = False
    return Belief(best, spread, located, np.linalg.norm(best - network.places, axis=1))


def locate(
    network: Network, method: str = "adaptive", seconds: float | None = None, max_memory: int | None = None
) -> abp.Result:
    """Return the marginals of all sensors' places, from a run with these limits."""
    return abp.infer(
        network.graph, method, evidence=network.known, seconds=seconds, max_memory=max_memory, tolerance=1e-6
    )


def report(network: Network, result: abp.Result) -> str:
    """Return the results in a few lines; lengths in cells."""
    belief, known = read_belief(network, result), len(network.known)
    lost = [f"s{i} (± {belief.spread[i]:.0f})" for i in range(known, len(belief.miss)) if not belief.located[i]]
    return "\n".join(
        [
            f"{len(network.pairs)} distances; {result.seconds:.1f} seconds; ended as {result.stop_reason.name}",
            f"{result.domain_sizes.sum():,} of {result.n_states:,} states; {result.unexplored_mass:.1e} unexplored",
            f"located: {belief.located.sum()} of {len(belief.miss) - known}, {_mean(belief.miss[belief.located])} off",
            f"all unknown sensors: {_mean(belief.miss[known:])} off",
            f"not located (± spread, in cells): {', '.join(lost) or 'none'}",
        ]
    )


def _mean(lengths: Floats) -> str:
    return f"{lengths.mean():.2f} cells on average" if len(lengths) else "no cells"


def draw(network: Network, result: abp.Result, path: str) -> None:
    """Draw the map: belief, measured distances, true places and estimates, and what could not be located."""
    from matplotlib.figure import Figure  # noqa: PLC0415  (only here, so that all else works without it)

    belief, known, side = read_belief(network, result), len(network.known), network.side
    lost = ~belief.located
    lost[:known] = False
    figure = Figure(figsize=(8.5, 8), dpi=150, layout="constrained")
    axes = figure.subplots()
    # The belief of each sensor relative to its best cell: a place that is one of many shows as a shade, too.
    shade = np.max([result.marginals[i] / result.marginals[i].max() for i in range(known, len(lost))], axis=0)
    axes.imshow(shade.reshape(side, side), cmap="Oranges", vmax=1.6, extent=(0, side, side, 0))
    for i, j in network.pairs:
        axes.plot(*network.places[[i, j]].T[::-1], color="#22303c", alpha=0.15, linewidth=0.8, zorder=1)
    for place, best in zip(network.places[known:], belief.best[known:], strict=True):
        axes.plot(*np.stack([place, best]).T[::-1], color="#c0392b", linewidth=1.2, zorder=2)
    column = network.places[:, 1], network.places[:, 0]
    axes.scatter(*(c[:known] for c in column), 70, "#22303c", marker="s", label="knows its place", zorder=3)
    axes.scatter(*(c[known:] for c in column), 45, "#22303c", marker="+", label="truth", zorder=4)
    found, guess = belief.best[belief.located][:, ::-1].T, belief.best[lost][:, ::-1].T
    axes.scatter(*found, 30, "#2f6db5", label="located", zorder=3)
    hollow = {"facecolors": "none", "edgecolors": "#c0392b", "linewidths": 1.6}
    axes.scatter(*guess, 90, **hollow, label="not located (± spread, in cells)", zorder=3)
    for i in np.flatnonzero(lost):
        text = f"s{i} ± {belief.spread[i]:.0f}"
        axes.annotate(text, belief.best[i][::-1], (8, -14), textcoords="offset points", fontsize=8)
    axes.set_title(
        f"{len(lost)} sensors, {len(network.pairs)} measured distances, {side} x {side} cells\n"
        "shade: where each sensor may be, relative to its best cell"
    )
    axes.set(xlim=(0, side), ylim=(side, 0), xlabel="column", ylabel="row")
    figure.legend(loc="outside lower center", ncols=4, frameon=False)
    figure.savefig(path)


def main() -> None:
    """Make a network, locate its sensors, print the errors, and draw the map."""
    parser = argparse.ArgumentParser(description="Finds sensors on a map from the distances between them.")
    parser.add_argument("--small", action="store_true", help="a map of 30 x 30 cells instead of 300 x 300")
    parser.add_argument("--out", metavar="PICTURE", help="where to draw a picture, such as map.png (needs matplotlib)")
    parser.add_argument("--seconds", type=float, default=600.0, help="time limit of the run")
    parser.add_argument("--seed", type=int, default=0, help="of the network")
    parser.add_argument("--method", choices=abp.METHODS, default="adaptive", help="of inference")
    options = parser.parse_args()
    network = make_network(30 if options.small else 300, np.random.default_rng(options.seed))
    result = locate(network, options.method, options.seconds)
    print(report(network, result))
    if options.out:
        draw(network, result, options.out)


if __name__ == "__main__":
    main()
