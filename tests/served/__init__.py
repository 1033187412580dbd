"""A server of `anytimebp serve` in a thread of the tests, and a client that asks it."""

import json
import socket
import threading
import time
from contextlib import contextmanager
from http.client import HTTPConnection

import numpy as np

import anytimebp as abp
from anytimebp.serve import server as server_module
from anytimebp.serve.engine import Engine
from anytimebp.serve.limits import Limits
from anytimebp.serve.served_model import ServedModel
from anytimebp.serve.server import bind, make_server

TOKEN = "a-token-of-the-tests"  # noqa: S105
vars(server_module)["WARM_SECONDS"] = 0.1  # what tests need is compiled already
PATIENCE = 120.0  # seconds until a test gives up, on a busy machine


class Served:
    """A server that runs."""

    def __init__(self, engine, server, port):
        self.engine, self.server, self.port = engine, server, port

    def ask(self, method, path, body=None, *, headers=None, token=TOKEN):
        """Return the status, the headers and the body of an answer."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        sent = {} if token is None else {"Authorization": f"Bearer {token}"}
        if body is not None:
            sent["Content-Type"] = "application/json"
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        try:
            connection.request(method, path, data, sent | (headers or {}))
            response = connection.getresponse()
            return response.status, dict(response.getheaders()), response.read()
        finally:
            connection.close()

    def get(self, path):
        """Return what a good request gets."""
        status, _, body = self.ask("GET", path)
        assert status == 200, body
        return json.loads(body)

    def post(self, path, body):
        """Return what a good request gets."""
        status, _, answer = self.ask("POST", path, body)
        assert status == 200, answer
        return json.loads(answer)

    def problem(self, method, path, body=None, **more):
        """Return status and detail of the problem that a bad request gets."""
        status, headers, answer = self.ask(method, path, body, **more)
        assert headers["content-type"] == "application/problem+json", answer
        found = json.loads(answer)
        assert found["status"] == status >= 400
        return status, found["detail"]

    def events(self, body):
        """Return the events of a stream as (kind, data)."""
        status, headers, answer = self.ask("POST", "/stream", body)
        assert (status, headers["content-type"].partition(";")[0]) == (200, "text/event-stream"), answer
        parts = [part.split("\n") for part in answer.decode().split("\n\n") if part]
        return [(kind.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for kind, data in parts]

    def raw(self, data, *, most=2**16):
        """Send bytes and return the start of what comes back."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE) as client:
            try:
                client.sendall(data)
                client.shutdown(socket.SHUT_WR)
                return client.recv(most)
            except OSError:  # the server has seen enough
                return b""


@contextmanager
def serving(graph, *, method="auto", limits=None, port=0, name="model.npz", host="127.0.0.1"):
    """Serve a model until the end of the block."""
    listener = bind(host, port)
    engine = Engine(ServedModel(graph, name), limits or Limits(max_memory=2**28), method)
    server = make_server(engine, listener, token=TOKEN, host=host)
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    try:
        assert eventually(lambda: server.started)
        yield Served(engine, server, listener.getsockname()[1])
    finally:
        server.should_exit = True
        thread.join(PATIENCE)
        listener.close()
        assert not thread.is_alive()


def eventually(fact):
    """Wait until something is true."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if fact():
            return True
        time.sleep(0.01)
    return False


def weather():
    """Return a small model with labels of all sorts."""
    graph = abp.FactorGraph()
    graph.add_variable("weather", ["sun", "rain", "snow"])
    graph.add_variable("ground", ["dry", "wet"])
    graph.add_variable("depth", 40)
    graph.add_variable("odd", [1, "1", None, ("a", 1)])
    graph.add_factor(["weather"], table=[0.6, 0.3, 0.1])
    graph.add_factor(["weather", "ground"], table=[[0.9, 0.1], [0.2, 0.8], [0.4, 0.6]])
    graph.add_factor(["ground", "depth"], log_table=-np.abs(np.arange(40)[None, :] - np.array([[0], [20]])) / 4.0)
    graph.add_factor(["ground", "odd"], log_table=[[0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.5]])
    return graph


def long_run(side=6, states=150):
    """Return a model on which method `dynamic` takes seconds, compiled or not."""
    rng = np.random.default_rng(0)
    graph = abp.FactorGraph()
    graph.add_variables(side * side, states)
    graph.add_factors(np.arange(side * side)[:, None], log_table=rng.normal(0.0, 2.0, (side * side, states)))
    pairs = [[k, k + 1] for k in range(side * side) if (k + 1) % side]
    pairs += [[k, k + side] for k in range(side * (side - 1))]
    graph.add_factors(pairs, log_table=rng.normal(0.0, 1.0, (states, states)))
    return graph
