"""Malformed, huge and slow requests: no crash, no file read, no memory growth, and others are still served."""

import gc
import os
import random
import socket
import sys
from pathlib import Path

import pytest

import anytimebp as abp
from anytimebp.serve.limits import Limits
from served import TOKEN, eventually, serving, weather

REQUESTS = int(os.environ.get("ANYTIMEBP_REQUESTS", "1500"))
SCRIPT = "</script><img src=x onerror=alert(1)>"
SECRET = "what-nobody-should-read"  # noqa: S105
MOST_GROWTH = 30e6  # bytes, of tests and server together

OPENED = []
LISTENS = False


def note(event, arguments):
    """Note the files that are opened while somebody listens; such hooks stay for ever."""
    if LISTENS and event == "open":
        OPENED.append(str(arguments[0]))


def attack(rng, secret):
    """Return the bytes of a bad request."""
    token = rng.choice([f"Authorization: Bearer {TOKEN}\r\n"] * 6 + ["", "Authorization: Bearer wrong\r\n"])
    host = rng.choice(["Host: localhost\r\n"] * 8 + ["Host: evil.example\r\n", "", "Host: a\r\nHost: b\r\n"])
    origin = rng.choice([""] * 8 + ["Origin: http://evil.example\r\n", "Origin: null\r\n", "Origin: \xff\r\n"])
    length = "Content-Type: application/json\r\nContent-Length: {}\r\n\r\n"
    paths = ["/..", "/assets/..", "/assets/%2e%2e/%2e%2e", "/assets/....//", "//", "/assets/page.css/..", "/\\.."]
    kind = rng.randrange(10)
    if kind == 0:
        return rng.randbytes(rng.randrange(1, 4000))
    if kind == 1:
        path = f"{rng.choice(paths)}{'/..' * rng.randrange(9)}{secret}".replace(" ", "")
        return f"GET {path} HTTP/1.1\r\n{host}{token}\r\n".encode("latin-1")
    if kind == 2:
        return b"GET / HTTP/1.1\r\nX: " + b"y" * rng.choice([100, 70_000]) + b"\r\n" + rng.choice([b"\r\n", b""])
    if kind == 3:
        query = rng.choice(
            ["format=../x&session=../..", "search=" + "%00" * 900, "index=-1", "index=" + "9" * 400, "&" * 999]
        )
        path = rng.choice(["/export", "/model/states", "/model/variables", "/model/neighbourhood"])
        return f"GET {path}?{query} HTTP/1.1\r\n{host}{token}{origin}\r\n".encode("latin-1")
    values = [b"1e400", b"-Infinity", b"{}", b'["sun",["rain"]]', b'"\\ud800"']
    bodies = [
        b"[" * rng.randrange(1, 50_000),
        b'{"a":' * 3_000 + b"1" + b"}" * 3_000,
        b'{"evidence":{"' + b"w" * rng.choice([10, 100_000]) + b'":1}}',
        b'{"evidence":{"weather":' + rng.choice(values) + b"}}",
        f'{{"session":"{SCRIPT}","show":["{SCRIPT}"],"evidence":{{"{SCRIPT}":"{SCRIPT}"}}}}'.encode(),
        b'{"show":[' + b"0," * 5_000 + b"0]}",
        b'{"seconds":1e308,"target_error":-0.0,"max_updates":' + b"9" * 30 + b"}",
        rng.randbytes(300),
        f'{{"session":"{secret}","evidence":{{"__class__":"{secret}"}}}}'.encode(),
        b"{}",
    ]
    body = rng.choice(bodies)
    said = rng.choice([len(body)] * 6 + [len(body) + 50, 10**9, 10**30, -1])
    method, path = rng.choice(["POST"] * 8 + ["PUT", "TRACE"]), rng.choice(["/query", "/stream", "/look", "/best"])
    head = f"{method} {path} HTTP/1.1\r\n"
    sent = f"{head}{host}{token}{origin}{length.format(said)}".encode("latin-1") + body
    return sent if kind < 9 else sent[: rng.randrange(1, len(sent))]


def resident():
    gc.collect()
    try:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def test_hostile_requests_do_no_harm(tmp_path, caplog):
    global LISTENS  # noqa: PLW0603
    secret = tmp_path / "secret"
    secret.write_text(SECRET, encoding="utf-8")
    sys.addaudithook(note)
    rng, sizes = random.Random(0), []
    graph = weather()
    graph.add_variable(SCRIPT, [SCRIPT, "other"])
    graph.add_factor([SCRIPT], table=[0.5, 0.5])
    with serving(graph, limits=Limits(body_seconds=1.0, max_memory=2**26)) as served:
        expected = served.post("/query", {"evidence": {"ground": "wet"}})["marginals"]
        LISTENS = True
        try:
            for number in range(REQUESTS):
                answer = served.raw(attack(rng, secret))
                assert SECRET.encode() not in answer
                assert not answer.startswith(b"HTTP/1.1 500"), answer
                if number % 100 == 0:
                    assert served.post("/query", {"evidence": {"ground": "wet"}})["marginals"] == expected
                if number in {REQUESTS // 3, REQUESTS - 1}:
                    sizes.append(resident())
        finally:
            LISTENS = False
        assert served.post("/query", {"evidence": {"ground": "wet"}})["marginals"] == expected
        assert eventually(lambda: not served.server.server_state.connections)
    assert [path for path in OPENED if "secret" in path or "passwd" in path] == []
    assert sizes[1] - sizes[0] < MOST_GROWTH
    assert [record.message for record in caplog.records if "unexpected" in record.message] == []


def test_names_and_labels_are_plain_text_in_json():
    graph = abp.FactorGraph()
    graph.add_variable(SCRIPT, [SCRIPT, "\ud800half", "\u202eback"])
    graph.add_factor([SCRIPT], table=[0.5, 0.3, 0.2])
    with serving(graph) as served:
        (found,) = served.post("/query", {})["marginals"]
        assert (found["name"], found["labels"]) == (SCRIPT, [SCRIPT, "\\ud800half", "\u202eback"])


def test_slow_clients_are_cut_and_others_served():
    limits = Limits(body_seconds=0.5, send_seconds=0.5, connections=40, max_memory=2**26)
    with serving(weather(), limits=limits) as served:
        slow = [socket.create_connection(("127.0.0.1", served.port)) for _ in range(100)]
        for connection in slow[::2]:
            try:
                connection.sendall(b"POST /query HTTP/1.1\r\nHost: localhost\r\n")
            except OSError:
                continue
        assert served.post("/query", {"states": 1})["figures"]["exact"]
        assert eventually(lambda: not served.server.server_state.connections)
        for connection in slow:
            connection.close()


def test_a_body_that_never_ends_is_refused():
    with serving(weather(), limits=Limits(body_seconds=0.5, max_memory=2**26)) as served:
        head = f"POST /query HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
        sent = f"{head}Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{{".encode()
        with socket.create_connection(("127.0.0.1", served.port)) as connection:
            connection.sendall(sent)
            assert connection.recv(1000).startswith(b"HTTP/1.1 408")


def test_a_client_that_does_not_read_its_answer_is_cut():
    graph = abp.FactorGraph()
    graph.add_variables(5, [f"{k} {'long' * 200}" for k in range(4_000)])
    with serving(graph, limits=Limits(send_seconds=0.5, max_memory=2**28)) as served:
        head = f"POST /query HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", served.port))
        connection.sendall(f"{head}Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{{}}".encode())
        assert connection.recv(10)
        assert eventually(lambda: not served.server.server_state.connections)
        connection.close()
        assert served.post("/query", {"states": 1})["figures"]["exact"]


@pytest.mark.unix
def test_memory_is_bounded_by_the_body_that_is_allowed():
    with serving(weather(), limits=Limits(max_memory=2**26)) as served:
        before = resident()
        for _ in range(20):
            assert served.ask("POST", "/query", b" " * (2**20 + 1))[0] == 413
        assert resident() - before < MOST_GROWTH
