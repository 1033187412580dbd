"""Runs `bp` and the default method with a wheel's kernels; fails if anything is compiled. See try_wheel.sh."""

import sys
import time

import numpy as np
from numba.core import event

import anytimebp as abp
from anytimebp.kernels import bundle

compiled = []


class Listener(event.Listener):
    """Notes what is compiled."""

    def on_start(self, event):
        compiled.append(str(event.data["dispatcher"]))

    def on_end(self, event):
        pass


def grid(side, states, spread, rng):
    graph = abp.FactorGraph()
    graph.add_variables(side * side, states)
    cells = np.arange(side * side).reshape(side, side)
    pairs = np.concatenate(
        [
            np.stack([cells[:-1].ravel(), cells[1:].ravel()], 1),
            np.stack([cells[:, :-1].ravel(), cells[:, 1:].ravel()], 1),
        ]
    )
    graph.add_factors(cells.ravel()[:, np.newaxis], log_table=rng.normal(0, spread, (side * side, states)))
    graph.add_factors(pairs, log_table=rng.normal(0, 1, (len(pairs), states, states)))
    return graph


def main():
    if not bundle.is_usable():
        sys.exit("the kernels in the wheel do not fit this machine, or there are none")
    event.register("numba:compile", Listener())
    rng, began = np.random.default_rng(0), time.perf_counter()
    for side, states, spread in ((2, 3, 1.0), (5, 20, 1.0), (4, 300, 10.0)):
        graph = grid(side, states, spread, rng)
        for method in ("bp", "auto"):
            result = abp.infer(graph, method)
            again = abp.infer(graph, method, evidence={"x0": 1})
            sys.stdout.write(f"{method} ({result.method}): {result.stop_reason}; {again.stop_reason}\n")
    sys.stdout.write(f"{len(compiled)} functions compiled; {time.perf_counter() - began:.1f} s\n")
    sys.exit("\n".join(compiled) if compiled else 0)


main()
