"""Finds a key of AES from the power that a device draws, in simulation.

In the first round, a byte x of the state is the XOR of a byte of the key and one of the plaintext, and y is the S-box
of x. The device leaks the Hamming weights of x and y, with noise. Every trace is an encryption of a plaintext that is
known. One trace says next to nothing of 256 keys; belief propagation puts many together. `aes_attack.sasca` has the
graph, in the language of SCALib. The rank of a key is the number of keys that seem more likely than it.

    python examples/aes_attack.py --small --out ranks.png
"""

import argparse
from pathlib import Path

import numpy as np
import numpy.typing as npt

import anytimebp as abp

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]

GRAPH = Path(__file__).with_suffix(".sasca")
POLYNOMIAL = 0x11B  # of the field of AES
BYTES = 16
WEIGHT: Indices = np.array([state.bit_count() for state in range(256)])


def make_sbox() -> Indices:
    """Return the S-box of AES: the inverse in its field, and then an affine map of the bits."""
    power = [1]
    for _ in range(254):  # powers of 3, which generates all others
        product = power[-1] << 1 ^ power[-1]
        power.append(product ^ POLYNOMIAL if product > 255 else product)  # noqa: PLR2004
    log = {element: k for k, element in enumerate(power)}
    sbox = np.zeros(256, dtype=np.int64)
    for state in range(256):
        inverse = power[-log[state] % 255] if state else 0
        turned = [(inverse << k | inverse >> (8 - k)) & 255 for k in range(5)]
        sbox[state] = turned[0] ^ turned[1] ^ turned[2] ^ turned[3] ^ turned[4] ^ 0x63
    return sbox


SBOX = make_sbox()


def leak(states: Indices, noise: float, rng: np.random.Generator) -> Floats:
    """Return (traces, 256) the log likelihood of each state, from the noisy Hamming weights of the true ones."""
    measured = WEIGHT[states] + rng.normal(0.0, noise, len(states))
    return -0.5 * ((measured[:, np.newaxis] - WEIGHT) / noise) ** 2


def attack(plaintext: Indices, of_x: Floats, of_y: Floats) -> Floats:
    """Return the marginal of a byte of the key, from plaintexts and what has leaked of each trace."""
    graph = abp.read_model(GRAPH, tables={"sbox": SBOX}, n_executions=len(plaintext))
    evidence: dict[str, object] = {f"p[{k}]": int(byte) for k, byte in enumerate(plaintext)}
    for k in range(len(plaintext)):
        evidence[f"x[{k}]"], evidence[f"y[{k}]"] = of_x[k], of_y[k]
    return abp.infer(graph, evidence=evidence).marginals["k"]


def ranks_by_traces(counts: list[int], noise: float, rng: np.random.Generator, n_bytes: int = BYTES) -> Indices:
    """Return (counts, bytes) the rank of each byte of a random key after so many traces."""
    ranks = np.zeros((len(counts), n_bytes), dtype=np.int64)
    for byte in range(n_bytes):
        key, plaintext = int(rng.integers(256)), rng.integers(256, size=max(counts))
        x = plaintext ^ key
        of_x, of_y = leak(x, noise, rng), leak(SBOX[x], noise, rng)
        for row, n in enumerate(counts):
            belief = attack(plaintext[:n], of_x[:n], of_y[:n])
            ranks[row, byte] = (belief > belief[key]).sum()
    return ranks


def draw(counts: list[int], ranks: dict[float, Indices], path: str) -> None:
    """Draw the mean rank of a byte against the number of traces, a line for each level of noise."""
    from matplotlib.figure import Figure  # noqa: PLC0415  (only here, so that all else works without it)

    figure = Figure(figsize=(6, 3.6), dpi=110, layout="constrained")
    axes = figure.subplots()
    for noise, found in ranks.items():
        axes.plot(counts, found.mean(axis=1), marker="o", markersize=4, label=f"noise {noise:g}")
    axes.set_yscale("symlog", linthresh=1.0)
    axes.set(xscale="log", xlabel="traces", ylabel="mean rank of a byte of the key", ylim=(-0.1, 200))
    axes.set_title("AES, first round: keys that seem more likely than the true one", fontsize=10)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    figure.savefig(path)


def main() -> None:
    """Attack random keys at three levels of noise, print the ranks, and draw them."""
    parser = argparse.ArgumentParser(description="Finds a key of AES from simulated leakage.")
    parser.add_argument("--small", action="store_true", help="two bytes of a key instead of sixteen, and fewer traces")
    parser.add_argument("--out", metavar="PICTURE", help="where to draw a picture, such as ranks.png")
    parser.add_argument("--seed", type=int, default=0, help="of keys, plaintexts and noise")
    options = parser.parse_args()
    counts = [1, 3, 10, 30] if options.small else [1, 2, 5, 10, 20, 50, 100, 200]
    ranks = {}
    for noise in (0.5, 1.5, 4.0):
        rng = np.random.default_rng(options.seed)
        ranks[noise] = ranks_by_traces(counts, noise, rng, 2 if options.small else BYTES)
        shown = ", ".join(f"{n}: {mean:.1f}" for n, mean in zip(counts, ranks[noise].mean(axis=1), strict=True))
        print(f"noise {noise:g}; mean rank of a byte by traces: {shown}")
    if options.out:
        draw(counts, ranks, options.out)


if __name__ == "__main__":
    main()
