"""Decodes a non-binary LDPC code over GF(64) on a channel with Gaussian noise.

A codeword has 96 symbols of 64 states, six bits each. 48 checks say that a sum of four symbols, each times a
coefficient of the field, is zero. Each bit is sent as +1 or -1, and noise is added. Belief propagation on the checks
finds the codeword. A frame error is a codeword that is not found as a whole.

The code is read from a file: the numbers of symbols, checks and elements; the numbers of checks of a symbol and of
symbols of a check; then per symbol, and per check, pairs of an index (from 1) and a coefficient.

    python examples/ldpc.py ../shared/data/nbldpc_gf64/BDS.576.288.GF.64.txt --small --out errors.png
"""

import argparse
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

import anytimebp as abp

Floats = npt.NDArray[np.float64]

SWEEPS = 30
BITS = 6
RATE = 0.5


def read_code(path: Path) -> abp.FactorGraph:
    """Return a graph with a variable per symbol, x0, x1, ..., and a FieldCheck per check."""
    numbers = [int(word) for word in path.read_text(encoding="ascii").split()]
    n_symbols, n_checks, order = numbers[:3]
    degrees = numbers[5 : 5 + n_symbols + n_checks]
    place = 5 + n_symbols + n_checks + 2 * sum(degrees[:n_symbols])
    graph = abp.FactorGraph()
    graph.add_variables(n_symbols, order)
    for degree in degrees[n_symbols:]:
        pairs = np.array(numbers[place : place + 2 * degree]).reshape(degree, 2)
        graph.add_factor((pairs[:, 0] - 1).tolist(), structure=abp.FieldCheck(order, pairs[:, 1].tolist()))
        place += 2 * degree
    return graph


def received(n_symbols: int, decibels: float, rng: np.random.Generator) -> Floats:
    """Return (symbols, 64) log likelihoods of all states, where the word of zeros was sent.

    The code is linear and the channel symmetric: all codewords are equally hard to decode.

    Args:
        n_symbols: Of a codeword.
        decibels: Energy of a bit of information over the density of the noise.
        rng: Makes the noise.
    """
    variance = 1.0 / (2.0 * RATE * 10.0 ** (decibels / 10.0))
    signal = 1.0 + rng.normal(0.0, np.sqrt(variance), (n_symbols, BITS))  # a bit 0 is sent as +1
    bits = np.arange(2**BITS)[:, np.newaxis] >> np.arange(BITS) & 1
    found: Floats = -2.0 * signal @ bits.T / variance
    return found


def frame_errors(graph: abp.FactorGraph, decibels: float, n_frames: int, rng: np.random.Generator) -> int:
    """Return how many of so many codewords are not found."""
    names = [variable.name for variable in graph.variables]

    def frames() -> Iterator[dict[str, object]]:
        for _ in range(n_frames):
            yield dict(zip(names, received(len(names), decibels, rng), strict=True))

    results = abp.infer_many(
        graph, evidence=frames(), method="residual", tolerance=1e-3, max_updates=SWEEPS * graph.n_factors, record="end"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", abp.NotConvergedWarning)  # noisy frames do not settle
        warnings.simplefilter("ignore", abp.UncertainResultWarning)
        return sum(any(result.marginals[name].argmax() != 0 for name in names) for result in results)


def draw(decibels: list[float], rates: list[float], n_frames: int, path: str) -> None:
    """Draw the frame error rate against the noise."""
    from matplotlib.figure import Figure  # noqa: PLC0415  (only here, so that all else works without it)

    figure = Figure(figsize=(6, 3.6), dpi=110, layout="constrained")
    axes = figure.subplots()
    axes.semilogy(decibels, np.maximum(rates, 0.3 / n_frames), marker="o", color="#2f6db5")
    axes.axhline(1.0 / n_frames, color="#999999", linewidth=0.8, linestyle=":")
    axes.set(xlabel="energy of a bit over density of noise, dB", ylabel="frame error rate", ylim=(0.2 / n_frames, 1.5))
    axes.set_title(f"GF(64) code, 96 symbols, rate 1/2; {n_frames} frames (dotted: one error)", fontsize=10)
    axes.grid(alpha=0.3)
    figure.savefig(path)


def main() -> None:
    """Decode frames at several levels of noise, print the rates, and draw them."""
    parser = argparse.ArgumentParser(description="Decodes a non-binary LDPC code.")
    parser.add_argument("code", type=Path, help="a file with the code, such as BDS.576.288.GF.64.txt")
    parser.add_argument("--small", action="store_true", help="ten frames at two levels of noise")
    parser.add_argument("--out", metavar="PICTURE", help="where to draw a picture, such as errors.png")
    parser.add_argument("--seed", type=int, default=0, help="of the noise")
    options = parser.parse_args()
    if not options.code.is_file():
        print(f"there is no file {options.code}: nothing to decode")
        return
    graph = read_code(options.code)
    decibels, n_frames = ([1.0, 4.0], 10) if options.small else ([0.0, 0.5, 1.0, 1.5, 2.0, 2.5], 300)
    rates = []
    for level in decibels:
        errors = frame_errors(graph, level, n_frames, np.random.default_rng(options.seed))
        rates.append(errors / n_frames)
        print(f"{level:.1f} dB: {errors} of {n_frames} frames in error", flush=True)
    if options.out:
        draw(decibels, rates, n_frames, options.out)


if __name__ == "__main__":
    main()
