"""What the scripts of all peers share; runs in the peers' own environments, so NumPy and the standard library only."""

import json
import sys
from time import perf_counter

import numpy as np

ROUNDS = 3


def main(build):
    """Time a peer on a model and keep its marginals: `SCRIPT model.npz marginals.npy`, figures as JSON.

    Args:
        build: From unary (variables, states), scopes (factors, 2), tables (factors, states, states) and the sweeps that
            flooding needs to a function that runs BP and returns marginals (variables, states). What it does before it
            returns that function is not timed, nor is the first call, which may compile.
    """
    source, target = sys.argv[1:]
    with np.load(source) as model:
        run = build(model["unary"], model["scopes"], model["tables"], int(model["sweeps"]))
    marginals = run()
    seconds = []
    for _ in range(ROUNDS):
        started = perf_counter()
        run()
        seconds.append(perf_counter() - started)
    np.save(target, marginals)
    print(json.dumps({"seconds": seconds}))
