"""How soon the page of `anytimebp serve` has an answer after a click; by the clock on the wall, over loopback.

Usage: python evaluation/benchmarks/serving.py [ROWS COLUMNS STATES ...]

Grids with unary log scores Normal(0, 2) and one pairwise table Normal(0, 1) for all; each click observes one more
variable. A click asks for what the page shows: 60 variables, and the ten that have changed most.
"""

from __future__ import annotations

import json
import statistics
import sys
import threading
import time
import warnings
from http.client import HTTPConnection

import numpy as np

import anytimebp as abp
from anytimebp.serve.engine import Engine
from anytimebp.serve.limits import Limits
from anytimebp.serve.served_model import ServedModel
from anytimebp.serve.server import bind, make_server

TOKEN, CLICKS, SHOWN, CHANGES = "benchmark", 20, 60, 10
GRIDS = ((25, 40, 8), (250, 400, 8))


def grid(rows, columns, states):
    """Return a grid."""
    rng, number = np.random.default_rng(0), np.arange(rows * columns).reshape(rows, columns)
    graph = abp.FactorGraph()
    graph.add_variables(number.size, states)
    graph.add_factors(number.reshape(-1, 1), log_table=rng.normal(0.0, 2.0, (number.size, states)))
    across = np.stack([number[:, :-1].ravel(), number[:, 1:].ravel()], axis=1)
    down = np.stack([number[:-1].ravel(), number[1:].ravel()], axis=1)
    graph.add_factors(np.concatenate([across, down]), log_table=rng.normal(0.0, 1.0, (states, states)))
    return graph


def ask(port, method, path, body=None):
    """Return the milliseconds until each event, or until the answer, and the bytes of the last line."""
    connection, began = HTTPConnection("127.0.0.1", port), time.perf_counter()
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    connection.request(method, path, None if body is None else json.dumps(body), headers)
    response, times, size = connection.getresponse(), [], 0
    while line := response.readline():
        if line.startswith((b"data", b"{")):
            times.append(1000.0 * (time.perf_counter() - began))
            size = len(line)
    connection.close()
    return times, size


def measure(rows, columns, states):
    """Print a line on clicks, and one on other requests."""
    graph = grid(rows, columns, states)
    listener, rng = bind("127.0.0.1", 0), np.random.default_rng(1)
    engine = Engine(ServedModel(graph, "grid"), Limits.of(graph), "auto")
    server = make_server(engine, listener, token=TOKEN, host="127.0.0.1")
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    while not server.started:
        time.sleep(0.01)
    port, evidence, first, last, size = listener.getsockname()[1], {}, [], [], 0
    show = list(range(SHOWN))
    for click in range(CLICKS + 1):
        asked = {"session": "one", "evidence": evidence, "show": show, "changes": CHANGES}
        times, size = ask(port, "POST", "/stream", asked)
        if click:
            first.append(times[0])
            last.append(times[-1])
        evidence[f"x{rng.integers(rows * columns)}"] = int(rng.integers(states))
    name = f"{rows * columns:,} variables, {states} states"
    print(f"{name}: first snapshot {spread(first)}, result {spread(last)}, {size:,} bytes")
    for what, path, body in (
        ("other marginals", "/look", {"session": "one", "show": show}),
        ("neighbourhood", f"/model/neighbourhood?index={rows * columns // 2}&limit=24", None),
        ("search", "/model/variables?search=99&limit=30", None),
    ):
        took = [ask(port, "POST" if body else "GET", path, body)[0][-1] for _ in range(CLICKS)]
        print(f"    {what} {spread(took)}")
    server.should_exit = True
    thread.join()


def spread(times):
    """Return the median and the largest of some times."""
    return f"{statistics.median(times):.0f} ms (at most {max(times):.0f})"


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    given = [int(word) for word in sys.argv[1:]]
    for size in [tuple(given[k : k + 3]) for k in range(0, len(given), 3)] or GRIDS:
        measure(*size)
