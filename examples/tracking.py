"""Tracks a target over a map of 10,000 cells, from 20 measured distances a second, in a server's event loop.

A state is a cell of the map: 100 x 100 cells are 10,000 states. Four beacons measure in turn how far the target is,
with some noise; now and then a measurement is an echo that means nothing. The model has two variables: the cell at the
last measurement, and the cell now. A factor lists where the target can get to in a twentieth of a second: walls are not
crossed. With every measurement the belief of before is put in as unary scores, the measurement too, and
`session.stream` answers in a thread of its own while the event loop goes on. For a while nothing is measured: belief
spreads, and the next few measurements find the target again.

    python examples/tracking.py --small --out tracking.png
"""

import argparse
import asyncio
import time
from collections.abc import AsyncIterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

import anytimebp as abp

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]

RATE = 20  # measurements a second
STEP = 2  # cells that the target can move in each direction between two of them
NOISE = 3.0  # standard deviation of a measured distance, in cells
ECHOES = 0.05  # share of measurements that mean nothing
LOST = (0.55, 0.65)  # part of the time in which nothing is measured
TINY = 1e-12  # least belief that a state keeps: a cell that seemed impossible may be the true one


class World(NamedTuple):
    """A map, and the path of a target.

    Attributes:
        side: Of the map, in cells; state row * side + column is a cell.
        is_wall: (side, side) where nobody can be.
        beacons: (beacons, 2) rows and columns of what measures.
        path: (n, 2) rows and columns where the target is at each measurement.
        measured: (n,) distance to beacon number k % beacons at measurement k; NaN where there is none.
    """

    side: int
    is_wall: npt.NDArray[np.bool_]
    beacons: Indices
    path: Indices
    measured: Floats


def make_world(side: int, n: int, rng: np.random.Generator) -> World:
    """Return a map with walls, and a target that wanders on it for so many measurements."""
    is_wall = np.zeros((side, side), dtype=np.bool_)
    wall, gap = side // 3, max(4, side // 8)
    is_wall[wall, : side - gap] = is_wall[2 * wall, gap:] = True
    beacons = np.array([[0, 0], [0, side - 1], [side - 1, 0], [side - 1, side - 1]])
    # From room to room, through the gaps in the walls.
    near, far = gap // 2, side - 1 - gap // 2
    stops = np.array([[near, near], [near, far], [wall + gap, far], [wall + gap, near], [side - gap, near], [far, far]])
    legs = np.abs(np.diff(stops, axis=0)).sum(axis=1)
    at = np.interp(np.linspace(0.0, legs.sum(), n), np.append(0.0, legs.cumsum()), np.arange(len(stops)))
    low = np.minimum(at.astype(np.int64), len(stops) - 2)
    path = stops[low] + (at - low)[:, np.newaxis] * (stops[low + 1] - stops[low])
    path = np.rint(path).astype(np.int64)
    distance = np.linalg.norm(path - beacons[np.arange(n) % len(beacons)], axis=1)
    measured = distance + rng.normal(0.0, NOISE, n)
    is_echo = rng.random(n) < ECHOES
    measured[is_echo] = rng.random(int(is_echo.sum())) * side * 1.4
    measured[int(LOST[0] * n) : int(LOST[1] * n)] = np.nan
    return World(side, is_wall, beacons, path, measured)


def make_graph(world: World) -> abp.FactorGraph:
    """Return the model: the cell before, the cell now, and the moves between them."""
    side, free = world.side, ~world.is_wall
    rows, columns = np.nonzero(free)
    pairs, scores = [], []
    for down in range(-STEP, STEP + 1):
        for right in range(-STEP, STEP + 1):
            to_row, to_column = rows + down, columns + right
            inside = (to_row >= 0) & (to_row < side) & (to_column >= 0) & (to_column < side)
            # Half way is looked at, too: a step of two cells crosses no wall.
            half_row, half_column = rows + down // 2 * (abs(down) > 1), columns + right // 2 * (abs(right) > 1)
            inside[inside] &= free[to_row[inside], to_column[inside]] & free[half_row[inside], half_column[inside]]
            before = rows[inside] * side + columns[inside]
            pairs.append(np.stack([before, to_row[inside] * side + to_column[inside]], axis=1))
            scores.append(np.full(int(inside.sum()), -0.25 * (down * down + right * right)))
    graph = abp.FactorGraph()
    graph.add_variable("before", side * side)
    graph.add_variable("now", side * side)
    listed = np.concatenate(pairs), np.concatenate(scores)
    graph.add_factor(["before", "now"], entries=listed, default=-np.inf)
    return graph


def measurement_scores(world: World, k: int) -> Floats:
    """Return the log scores of all cells under measurement k; zeros if there is none."""
    if np.isnan(world.measured[k]):
        return np.zeros(world.side**2)
    rows, columns = np.divmod(np.arange(world.side**2), world.side)
    row, column = world.beacons[k % len(world.beacons)]
    miss = np.hypot(rows - row, columns - column) - world.measured[k]
    return np.log((1 - ECHOES) * np.exp(-0.5 * (miss / NOISE) ** 2) + ECHOES * 0.05)


async def measurements(world: World, rate: float) -> AsyncIterator[tuple[int, float]]:
    """Yield the number of each measurement, and when it came, at a steady rate; as fast as can be if that is 0."""
    began = time.perf_counter()
    for k in range(len(world.measured)):
        due = began + k / rate if rate else time.perf_counter()
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        yield k, time.perf_counter()


class Track(NamedTuple):
    """The belief at each measurement.

    Attributes:
        mean: (n, 2) row and column where the target was expected.
        spread: (n,) root mean square distance from there, in cells.
        belief: (n, states) of the target's cell.
        latency: (n,) seconds from a measurement to the answer.
        endings: Names of the reasons why runs have ended.
    """

    mean: Floats
    spread: Floats
    belief: Floats
    latency: Floats
    endings: set[str]


async def track(world: World, rate: float = RATE) -> Track:
    """Follow the target, measurement by measurement."""
    session, n = abp.Session(make_graph(world)), len(world.measured)
    centres = np.stack(np.divmod(np.arange(world.side**2), world.side), axis=1).astype(np.float64)
    found = Track(np.empty((n, 2)), np.empty(n), np.empty((n, world.side**2)), np.empty(n), set())
    anywhere = np.where(world.is_wall.ravel(), np.log(TINY), 0.0)
    for _ in range(2):  # compiles or loads the kernels that all later calls need
        session.set_unary("before", anywhere)
        session.query(targets=["now"])
    async for k, came in measurements(world, rate):
        session.set_unary("now", measurement_scores(world, k))
        async for snapshot in session.stream(targets=["now"]):
            answer = snapshot  # what is known so far; the last is the result
        assert isinstance(answer, abp.Result)  # noqa: S101
        found.endings.add(answer.stop_reason.name)
        found.latency[k] = time.perf_counter() - came
        belief = answer.marginals["now"]
        found.belief[k], found.mean[k] = belief, belief @ centres
        found.spread[k] = np.sqrt(belief @ ((centres - found.mean[k]) ** 2).sum(axis=1))
        session.set_unary("before", np.log(np.maximum(belief, TINY)))
    return found


def report(world: World, found: Track) -> str:
    """Return what came out, in a few lines."""
    miss, n = np.linalg.norm(found.mean - world.path, axis=1), len(world.path)
    seen = ~np.isnan(world.measured)
    seen[: n // 10] = False  # one measurement makes a ring, not a place
    late = 1000.0 * found.latency
    return "\n".join(
        [
            f"{n} measurements, {world.side**2:,} cells; runs ended as {', '.join(sorted(found.endings))}",
            f"off by {miss[seen].mean():.1f} cells on average while measured ({NOISE:.0f} is the noise of a distance)",
            f"off by {miss[~seen].max():.1f} at most without; spread up to {found.spread[~seen].max():.1f} cells",
            f"answered after {np.median(late):.1f} ms (median), {late.max():.1f} ms (longest)",
        ]
    )


def draw(world: World, found: Track, path: str) -> None:
    """Draw the map with the true and the estimated path, and the error over time."""
    from matplotlib.figure import Figure  # noqa: PLC0415  (only here, so that all else works without it)

    ink, blue, red, n, side = "#22303c", "#2f6db5", "#c0392b", len(world.path), world.side
    figure = Figure(figsize=(10, 5.4), dpi=110, layout="constrained")
    axes, error = figure.subplots(1, 2, width_ratios=(1.15, 1.0))
    moments = np.linspace(n * 0.12, n - 1, 7).astype(np.int64).tolist()
    shade = np.max([found.belief[k] / found.belief[k].max() for k in moments], axis=0)
    axes.imshow(shade.reshape(side, side), cmap="Oranges", vmax=1.6)
    axes.imshow(np.where(world.is_wall, 1.0, np.nan), cmap="Greys", vmin=0.0, vmax=1.3)
    axes.plot(world.path[:, 1], world.path[:, 0], color=ink, linewidth=1.2, label="truth")
    axes.plot(found.mean[:, 1], found.mean[:, 0], color=blue, linewidth=1.2, label="expected place")
    axes.scatter(world.beacons[:, 1], world.beacons[:, 0], 60, ink, marker="s", label="beacon", clip_on=False)
    axes.set(xlabel="column", ylabel="row", title=f"{side} x {side} cells; shade: belief at {len(moments)} moments")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=3, frameon=False)
    seconds = np.arange(n) / RATE
    error.axvspan(LOST[0] * n / RATE, LOST[1] * n / RATE, color="#c9d1d8", label="nothing is measured")
    error.plot(seconds, np.linalg.norm(found.mean - world.path, axis=1), color=red, linewidth=1.2, label="error")
    error.plot(seconds, found.spread, color=blue, linewidth=1.2, label="spread of the belief")
    late = 1000.0 * float(np.median(found.latency))
    error.set(xlabel="seconds", ylabel="cells", ylim=(0, None), title=f"{RATE} a second; answered after {late:.0f} ms")
    error.legend(frameon=False)
    for each in (axes, error):
        each.spines[["top", "right"]].set_visible(False)
    figure.savefig(path)


def main() -> None:
    """Make a world, follow its target, print the errors, and draw them."""
    parser = argparse.ArgumentParser(description="Tracks a target over the cells of a map.")
    parser.add_argument("--small", action="store_true", help="30 x 30 cells and 60 measurements instead of 100 and 300")
    parser.add_argument("--out", metavar="PICTURE", help="where to draw a picture, such as map.png (needs matplotlib)")
    parser.add_argument("--seed", type=int, default=0, help="of the noise")
    parser.add_argument("--rate", type=float, default=RATE, help="measurements a second; 0 for as fast as can be")
    options = parser.parse_args()
    side, n = (30, 60) if options.small else (100, 300)
    world = make_world(side, n, np.random.default_rng(options.seed))
    found = asyncio.run(track(world, options.rate))
    print(report(world, found))
    if options.out:
        draw(world, found, options.out)


if __name__ == "__main__":
    main()
