"""The JSON interface answers as Python does, with the same errors; streams, sessions and exports."""

import json
import socket
import threading
from importlib.resources import files

import numpy as np
import pytest

import anytimebp as abp
from anytimebp.serve.limits import Limits
from served import eventually, long_run, serving, weather


@pytest.fixture(scope="module")
def served():
    with serving(weather()) as found:
        yield found


def test_the_model_says_its_size(served):
    found = served.get("/model")
    assert (found["name"], found["variables"], found["factors"], found["states"]) == ("model.npz", 4, 4, 49)
    assert found["limits"]["seconds"] == 10.0


@pytest.mark.parametrize(
    ("given", "python"),
    [
        ({}, {}),
        ({"ground": "wet"}, {"ground": "wet"}),
        ({"weather": ["sun", "snow"]}, {"weather": {"sun", "snow"}}),
        ({"weather": {"not": ["sun"]}, "ground": {"states": [1]}}, {"weather": {"rain", "snow"}, "ground": "wet"}),
        ({"weather": {"not_states": [0, 1]}}, {"weather": "snow"}),
        ({"weather": {"labels": ["rain"]}, "depth": 7}, {"weather": "rain", "depth": 7}),
        ({"weather": {"log_scores": [0, None, -1.5]}}, {"weather": np.array([0.0, -np.inf, -1.5])}),
        ({"odd": "1"}, {"odd": "1"}),
        ({"odd": {"states": [3]}}, {"odd": ("a", 1)}),
        ({"odd": None}, {"odd": None}),
    ],
)
def test_queries_answer_as_infer_does(served, given, python):
    found, expected = served.post("/query", {"evidence": given}), abp.infer(weather(), evidence=python)
    assert found["figures"]["exact"]
    assert found["figures"]["log_z"] == pytest.approx(expected.log_z)
    for each in found["marginals"]:
        marginal = np.zeros(each["n_states"])
        marginal[each["states"]] = each["probabilities"]
        assert marginal == pytest.approx(expected.marginals[each["name"]], abs=1e-9)
        assert each["probabilities"] == sorted(each["probabilities"], reverse=True)


def test_queries_may_ask_for_a_part(served):
    found = served.post("/query", {"targets": ["depth", 0], "states": 2, "seconds": 5, "max_updates": 1000})
    assert [(each["name"], len(each["states"])) for each in found["marginals"]] == [("weather", 2), ("depth", 2)]
    assert all(each["rest"] == pytest.approx(1.0 - sum(each["probabilities"])) for each in found["marginals"])


@pytest.mark.parametrize(
    ("evidence", "message"),
    [
        ({"wether": "sun"}, "evidence: there is no variable named 'wether'; did you mean 'weather'?"),
        ({"weather": "hail"}, "evidence: variable 'weather' has no state 'hail'; its states are 'sun', 'rain', 'snow'"),
        ({"weather": []}, "evidence: variable 'weather': the set of allowed states is empty"),
        ({"depth": True}, "evidence: variable 'depth' has the states 0 to 39, not True"),
        ({"weather": {"not": ["sun", "rain", "snow"]}}, "the set of allowed states is empty"),
        ({"weather": {"log_scores": [0, 1]}}, "log scores must have shape (3,), got (2,)"),
    ],
)
def test_errors_are_those_of_the_library(served, evidence, message):
    status, headers, body = served.ask("POST", "/query", {"evidence": evidence})
    assert (status, headers["content-type"]) == (422, "application/problem+json")
    assert message in json.loads(body)["detail"]
    assert json.loads(body)["error"] == "EvidenceError"
    kind, data = served.events({"evidence": evidence, "session": "wrong"})[-1]
    assert (kind, data["error"], message in data["detail"]) == ("problem", "EvidenceError", True)


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        ("/query", b"{", "the request is not JSON"),
        ("/query", b"[1]", "a request is a JSON object, got a list"),
        ("/query", b'{"a": 1, "a": 2}', "the name 'a' stands twice in one object"),
        ("/query", b'{"seconds": NaN}', "NaN is no JSON number"),
        ("/query", b'{"seconds": 1e999}', "'seconds' must be a number of at least 0"),
        ("/query", b'{"evidence": {"a": ' + b"9" * 5000 + b"}}", "a number of 5,000 digits"),
        ("/query", b"[" * 100_000, "the request is not JSON"),
        ("/query", b'{"evidence": {"\xff": 1}}', "the request is not JSON"),
        ("/query", {"second": 1}, "unknown member 'second'"),
        ("/query", {"seconds": -1}, "'seconds' must be a number of at least 0, got -1"),
        ("/query", {"max_updates": 1.5}, "'max_updates' must be a whole number"),
        ("/query", {"evidence": ["weather"]}, "'evidence' must be an object, got a list"),
        ("/query", {"evidence": {"weather": {"states": [0], "not": []}}}, "an object has one member, not 2"),
        ("/query", {"evidence": {"weather": {"stats": [0]}}}, "unknown member 'stats'"),
        ("/query", {"evidence": {"weather": {"states": [3]}}}, "'weather' has the states 0 to 2, not 3"),
        ("/query", {"evidence": {"weather": [{}]}}, "an object is no label"),
        ("/query", {"targets": [None]}, "a variable is given by its name or its index, got null"),
        ("/stream", {"show": [{"variable": 0, "states": -1}]}, "'states' must be a whole number"),
        ("/stream", {"show": [0] * 201}, "'show' lists 201 variables"),
        ("/stream", {"session": "d" * 201}, "'session' must be text of at most 200 characters"),
    ],
)
def test_requests_that_cannot_be_read_are_refused(served, path, body, message):
    status, detail = served.problem("POST", path, body)
    assert (status, message in detail) == (400, True), detail


def test_other_bad_requests_name_what_is_wrong(served):
    assert served.problem("POST", "/query", b"{}", headers={"Content-Type": "text/plain"})[0] == 415
    assert served.problem("POST", "/query", b" " * (2**20 + 1))[0] == 413
    assert served.problem("GET", "/query")[0] == 405
    assert served.problem("GET", "/nothing")[0] == 404
    assert served.problem("GET", "/model/states?variable=nobody")[0] == 422
    assert served.problem("GET", "/model/states?index=4")[0] == 422
    assert served.problem("GET", "/model/variables?limit=201")[0] == 400
    assert served.problem("GET", "/export?session=none")[0] == 409
    assert served.problem("GET", "/export?session=none&format=exe")[0] == 400
    assert served.problem("POST", "/look", {"session": "none"})[0] == 409


def test_evidence_without_a_joint_state_is_a_problem():
    graph = abp.FactorGraph()
    graph.add_variables(2, 2)
    graph.add_factor([0, 1], table=np.eye(2))
    with serving(graph) as found:
        status, _, body = found.ask("POST", "/query", {"evidence": {"x0": 0, "x1": 1}})
        assert (status, json.loads(body)["error"]) == (422, "InconsistentModelError")
        assert found.post("/query", {"evidence": {"x0": 0}})["figures"]["exact"]


def test_variables_and_states_are_searched(served):
    assert [each["name"] for each in served.get("/model/variables")["variables"]] == [
        *("weather", "ground", "depth", "odd")
    ]
    first = served.get("/model/variables?search=D&limit=1")
    assert ([each["name"] for each in first["variables"]], first["next"]) == (["ground"], 2)
    rest = served.get("/model/variables?search=D&after=2&limit=5")
    assert ([each["name"] for each in rest["variables"]], rest["next"]) == (["depth", "odd"], None)
    found = served.get("/model/states?variable=depth&search=3&limit=3")
    assert [each["state"] for each in found["states"]] == [3, 13, 23]
    assert [each["label"] for each in served.get("/model/states?index=3")["states"]] == ["1", "'1'", "None", "('a', 1)"]


def test_a_neighbourhood_has_the_nearest_variables(served):
    found = served.get("/model/neighbourhood?variable=weather&limit=3")
    assert [each["name"] for each in found["variables"]] == ["weather", "ground", "depth"]
    assert [each["variables"] for each in found["factors"]] == [[0, 1], [1, 2]]
    assert found["is_cut"]
    assert not served.get("/model/neighbourhood?index=3")["is_cut"]


def test_a_stream_ends_with_the_result_and_says_what_has_changed(served):
    assert [kind for kind, _ in served.events({"session": "d", "show": ["weather"], "changes": 2})][-1] == "result"
    show = [{"variable": "depth", "states": 2, "also": [39]}, 0]
    kind, data = served.events({"session": "d", "evidence": {"ground": "wet"}, "show": show, "changes": 2})[-1]
    before, now = abp.infer(weather()).marginals, abp.infer(weather(), evidence={"ground": "wet"}).marginals
    assert kind == "result"
    assert data["shown"][0]["states"] == [20, 19, 39]
    assert data["shown"][0]["probabilities"] == pytest.approx(now["depth"][[20, 19, 39]])
    assert (data["changes"]["compared"], data["changes"]["changed"]) == (True, 4)
    distances = {name: np.abs(now[name] - before[name]).sum() / 2.0 for name in now}
    largest = [(each["name"], each["distance"]) for each in data["changes"]["largest"]]
    expected = sorted(distances.items(), key=lambda item: -item[1])[:2]
    assert [name for name, _ in largest] == [name for name, _ in expected]
    assert [distance for _, distance in largest] == pytest.approx([distance for _, distance in expected])
    assert data["figures"]["stop_reason"] == "CONVERGED"


def test_a_page_looks_at_other_marginals_and_exports_all(served):
    served.events({"session": "e", "evidence": {"ground": "dry"}})
    result = abp.infer(weather(), evidence={"ground": "dry"})
    (shown,) = served.post("/look", {"session": "e", "show": ["weather"]})["shown"]
    assert shown["probabilities"] == pytest.approx([result.marginals["weather"].max()])
    _, headers, body = served.ask("GET", "/export?session=e&format=csv")
    assert headers["Content-Disposition".lower()] == 'attachment; filename="marginals.csv"'
    lines = body.decode().splitlines()
    assert (lines[0], len(lines)) == ("variable,state,probability", 1 + 49)
    _, _, body = served.ask("GET", "/export?session=e&format=json")
    assert json.loads(body)["marginals"]["weather"]["probabilities"] == pytest.approx(
        result.marginals["weather"].tolist()
    )


def test_the_best_joint_state_is_that_of_infer_map(served):
    served.events({"session": "f", "evidence": {"ground": "wet"}})
    found = served.post("/best", {"session": "f", "evidence": {"ground": "wet"}})
    best = abp.infer_map(weather(), evidence={"ground": "wet"})
    assert found["exact"]
    assert found["log_score"] == pytest.approx(best.log_score)
    assert {each["name"]: each["label"] for each in found["states"]} == {
        name: str(label) for name, label in best.assignment.items()
    }
    looked = served.post("/look", {"session": "f", "show": ["weather"]})["best"]
    assert looked == [each for each in found["states"] if each["name"] == "weather"]


def test_answers_have_the_members_that_the_openapi_document_says(served):
    document = json.loads((files("anytimebp.serve") / "assets" / "openapi.json").read_text(encoding="utf-8"))
    schemas = document["components"]["schemas"]
    paths = {route.path for route in served.server.config.app._app.routes}
    assert set(document["paths"]) == {path for path in paths if path.count("/") < 3 and "assets" not in path} - {
        *("/", "/api", "/openapi.json")
    }
    query = served.post("/query", {"states": 1})
    assert set(query["figures"]) == set(schemas["Figures"]["properties"])
    assert set(query["marginals"][0]) == set(schemas["Marginal"]["properties"])
    assert set(served.get("/model")) == set(schemas["Model"]["properties"])
    assert set(served.get("/model/variables")["variables"][0]) == set(schemas["Variable"]["properties"])
    assert served.ask("GET", "/api")[0] == served.ask("GET", "/openapi.json")[0] == 200


def test_an_answer_that_is_too_large_is_refused_before_it_is_computed():
    graph = abp.FactorGraph()
    graph.add_variable("wide", 2_000)
    with serving(graph, limits=Limits(numbers=1_000, exported=1_000, max_memory=2**26)) as found:
        assert "give 'targets' or 'states'" in found.problem("POST", "/query", {})[1]
        assert len(found.post("/query", {"states": 10})["marginals"][0]["states"]) == 10
        assert found.problem("GET", "/export?session=d")[0] == 422


@pytest.fixture(scope="module")
def busy():
    with serving(long_run(), method="dynamic", limits=Limits(seconds=60.0, runs=1, max_memory=2**28)) as found:
        yield found


def test_a_newer_query_of_a_session_ends_the_one_under_way(busy):
    first = []
    thread = threading.Thread(target=lambda: first.extend(busy.events({"session": "d", "show": [0]})))
    thread.start()
    assert eventually(lambda: busy.engine._clients.get("d") and busy.engine._clients["d"].newest is not None)
    assert busy.post("/look", {"session": "d", "show": [5]})["shown"][0]["index"] == 5
    kind, data = busy.events({"session": "d", "seconds": 0.05})[-1]
    thread.join()
    assert (kind, data["figures"]["stop_reason"]) == ("result", "OUT_OF_TIME")
    assert [kind for kind, _ in first if kind != "snapshot"] == ["stopped"]


def test_a_client_that_leaves_in_mid_stream_ends_its_run(busy):
    for _ in range(5):
        connection = busy_connection(busy)
        assert eventually(lambda: busy.engine.is_busy)
        connection.close()
        assert eventually(lambda: not busy.engine.is_busy)
    assert busy.post("/query", {"seconds": 0.05, "states": 1})["figures"]["stop_reason"] == "OUT_OF_TIME"


def busy_connection(served):
    """Open a stream and read its first bytes."""
    body = b'{"session": "leaves"}'
    head = (
        f"POST /stream HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer a-token-of-the-tests\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    connection = socket.create_connection(("127.0.0.1", served.port))
    connection.sendall(head.encode() + body)
    assert connection.recv(100)
    return connection


def test_a_query_ends_when_its_client_leaves(busy):
    head = b"POST /query HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer a-token-of-the-tests\r\n"
    with socket.create_connection(("127.0.0.1", busy.port)) as connection:
        connection.sendall(head + b"Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
        assert eventually(lambda: busy.engine.is_busy)
    assert eventually(lambda: not busy.engine.is_busy)


def test_too_many_waiting_requests_are_sent_away():
    limits = Limits(seconds=60.0, runs=1, waiting=0, max_memory=2**28)
    with serving(long_run(), method="dynamic", limits=limits) as found:
        assert "requests are waiting" in found.events({})[-1][1]["detail"]


def test_the_session_that_was_idle_for_longest_makes_room():
    with serving(weather(), limits=Limits(sessions=2, max_memory=2**26)) as found:
        for name in ("a", "b", "a", "c"):
            assert found.events({"session": name})[-1][0] == "result"
        assert found.problem("POST", "/look", {"session": "b"})[0] == 409
        assert found.post("/look", {"session": "a", "show": [0]})["shown"]


def test_thirty_clients_are_answered_at_a_time(served):
    expected = {
        state: abp.infer(weather(), evidence={"depth": state}).marginals["weather"].max() for state in range(0, 40, 10)
    }
    wrong = []

    def click(number):
        for state, value in expected.items():
            asked = {"session": f"session {number}", "evidence": {"depth": state}, "show": ["weather"]}
            kind, data = served.events(asked)[-1]
            if kind != "result" or abs(data["shown"][0]["probabilities"][0] - value) > 1e-9:
                wrong.append((number, state, kind, data))

    threads = [threading.Thread(target=click, args=(number,)) for number in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
