"""What the scripts of all peers share; runs in the peers' own environments, so NumPy and the standard library only."""

import json
import resource
import sys
from pathlib import Path
from time import perf_counter, process_time

import numpy as np

ROUNDS, LONG = 7, 4.0  # after so many seconds, no further round begins
MEMORY_LIMIT = 12 * 2**30  # of address space: what asks for more fails at once, before the machine swaps


def main(builders):
    """Time a peer on a model and keep its marginals: `SCRIPT model.npz marginals.npy BUILDER`, figures as JSON.

    Args:
        builders: By name, from unary (a vector of log scores per variable), scopes (factors, arity), tables (factors,
            states, states, ...) and the sweeps that flooding needs to a function that runs inference and returns a
            vector of marginals per variable. What a builder does before it returns that function is not timed, nor is
            the first call, which may compile.
    """
    source, target, builder = sys.argv[1:]
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    try:
        figures, marginals = _measure(builders[builder], _arguments(source))
    except Exception as error:  # noqa: BLE001  (whatever it is, it is shown)
        print(json.dumps({"failed": _described(error)}))
        return
    np.save(target, np.concatenate(marginals))
    print(json.dumps(figures))


def _arguments(source):
    """Return what a builder takes, read from a file."""
    with np.load(source) as model:
        unary = np.split(model["unary"], np.cumsum(model["sizes"])[:-1])
        return unary, model["scopes"], model["tables"], int(model["sweeps"])


def _measure(build, arguments):
    """Return figures and marginals of a peer: the best round, how many cores it had, and its peak of memory.

    Memory is what comes on top of its imports and of our arrays. Fewer cores than one: others held them.
    """
    before = _memory("VmRSS")
    run = build(*arguments)
    marginals = run()
    rounds = []
    while len(rounds) < ROUNDS and sum(seconds for seconds, _ in rounds) < LONG:
        started, started_processor = perf_counter(), process_time()
        run()
        rounds.append((perf_counter() - started, process_time() - started_processor))
    seconds, processor = min(rounds)
    return {"seconds": seconds, "cores": processor / seconds, "memory": _memory("VmHWM") - before}, marginals


def _described(error):
    """Return the kind of an error, by the name that users know, and its text."""
    kind = MemoryError if isinstance(error, MemoryError) else type(error)
    return f"{kind.__name__}: {error}"


def _memory(field):
    """Return a figure of this process in bytes. Not `getrusage`: its peak includes that of the parent process."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    msg = f"/proc/self/status has no {field}"
    raise RuntimeError(msg)
