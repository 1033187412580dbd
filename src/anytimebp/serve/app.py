"""The addresses of the server, and what each answers with."""

from __future__ import annotations

import asyncio
import math
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from functools import cache, partial
from http import HTTPStatus
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeAlias

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from anytimebp.formats.marginal_tables import write_csv, write_json
from anytimebp.inference.best_state import infer_map
from anytimebp.results.map_result import MapResult
from anytimebp.results.snapshot import Result
from anytimebp.serve.answers import figures, number, shown_marginals, trace
from anytimebp.serve.engine import Client, Engine, end, unknown_session
from anytimebp.serve.guard import Guard
from anytimebp.serve.problems import MEDIA_TYPE, Problem, bad, encoded
from anytimebp.serve.reading import (
    Fields,
    Query,
    parse,
    read_evidence,
    read_query,
    read_shown,
    read_variable,
    read_variables,
)
from anytimebp.serve.served_model import MOST_FOUND, MOST_SHOWN
from anytimebp.serve.streams import Outbox, Question, answer, told

ASSETS = {
    "page.css": "text/css",
    "page.js": "text/javascript",
    "asking.js": "text/javascript",
    "evidence.js": "text/javascript",
    "graph.js": "text/javascript",
    "states.js": "text/javascript",
    "panels.js": "text/javascript",
    "api.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}
PAGES = {"/": "page.html", "/api": "api.html"}
WRITERS = {"csv": (write_csv, "text/csv; charset=utf-8"), "json": (write_json, "application/json")}
AT_ONCE = 2**18  # bytes of an export
MOST_CHANGES = 200


def make_app(engine: Engine, *, token: str, host: str, cookie: str) -> Guard:
    """Return the application, guarded."""
    routes = [
        *(Route(path, _page(name)) for path, name in PAGES.items()),
        *(Route(f"/assets/{name}", _asset(name, kind)) for name, kind in ASSETS.items()),
        Route("/openapi.json", _asset("openapi.json", "application/json")),
        Route("/model", _json(_model, engine)),
        Route("/model/variables", _json(_variables, engine)),
        Route("/model/states", _json(_states, engine)),
        Route("/model/neighbourhood", _json(_neighbourhood, engine)),
        Route("/query", _json(_query, engine), methods=["POST"]),
        Route("/stream", _told(_stream, engine), methods=["POST"]),
        Route("/look", _json(_look, engine), methods=["POST"]),
        Route("/best", _json(_best, engine), methods=["POST"]),
        Route("/export", _told(_export, engine)),
    ]

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        engine.start()
        yield
        await engine.close()

    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers={HTTPException: _no_such_address})
    app.router.redirect_slashes = False
    return Guard(app, token=token, host=host, cookie=cookie, locked=asset("locked.html"))


@cache
def asset(name: str) -> bytes:
    """Return a file that comes with this library."""
    return (files("anytimebp.serve") / "assets" / name).read_bytes()


def _asset(name: str, media_type: str) -> Endpoint:
    content = asset(name)

    async def answer_it(_: Request) -> Response:
        return Response(content, media_type=media_type)

    return answer_it


def _page(name: str) -> Endpoint:
    return _asset(name, "text/html")


Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]


def _told(function: Callable[[Engine, Request], Awaitable[Response]], engine: Engine) -> Endpoint:
    """Return an endpoint that answers with a problem if an error is raised."""

    async def answer_it(request: Request) -> Response:
        try:
            return await function(engine, request)
        except Exception as error:  # noqa: BLE001  (a client hears of every error)
            return _problem(told(error))

    return answer_it


def _json(function: Callable[[Engine, Request], Awaitable[dict[str, Any]]], engine: Engine) -> Endpoint:
    """Return an endpoint that answers with JSON."""

    async def answer_it(engine: Engine, request: Request) -> Response:
        found = await function(engine, request)
        return Response(await engine.read(encoded, found), media_type="application/json")

    return _told(answer_it, engine)


def _problem(problem: Problem) -> Response:
    return Response(problem.encoded(), int(problem.status), media_type=MEDIA_TYPE)


async def _no_such_address(_: Request, error: Exception) -> Response:
    """Say that there is no such address, or no such method."""
    status = HTTPStatus(error.status_code) if isinstance(error, HTTPException) else HTTPStatus.NOT_FOUND
    return _problem(Problem(status, f"{status.phrase}; /api lists the addresses of this server"))


# ------------------------------------------------------------ reading requests
async def _body(engine: Engine, request: Request) -> dict[str, Any]:
    """Return the JSON of a request, which must be small and complete in time."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        msg = f"expected Content-Type application/json, got {kind[:80]!r}"
        raise Problem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, msg)
    data, most = bytearray(), engine.limits.body
    try:
        async with asyncio.timeout(engine.limits.body_seconds):
            async for part in request.stream():
                data += part
                if len(data) > most:
                    msg = f"a request has at most {most:,} bytes"
                    raise Problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, msg)
    except ClientDisconnect:
        msg = "the request has broken off"
        raise bad(msg) from None
    except TimeoutError:
        msg = f"the request was not complete after {engine.limits.body_seconds:g} seconds"
        raise Problem(HTTPStatus.REQUEST_TIMEOUT, msg) from None
    return await engine.read(parse, bytes(data))


def _parameter(request: Request, name: str, default: int, most: int) -> int:
    """Return a whole number of the address."""
    text = request.query_params.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 19 and int(text) <= most):  # noqa: PLR2004
        msg = f"{name!r} must be a whole number from 0 to {most:,}, got {text[:40]!r}"
        raise bad(msg)
    return int(text)


async def _variable(engine: Engine, request: Request) -> int:
    """Return the variable of the address, by name or by index."""
    name = request.query_params.get("variable")
    key = _parameter(request, "index", 0, 2**40) if name is None else name
    return await engine.read(read_variable, key, engine.model.variables)


async def _until_gone(request: Request, work: Coroutine[Any, Any, Any]) -> Any:
    """Wait for work, or until its client has gone."""
    task, gone = asyncio.create_task(work), asyncio.create_task(_gone(request))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            msg = "the client has gone"
            raise Problem(HTTPStatus.REQUEST_TIMEOUT, msg)
        return task.result()
    finally:
        end(task)
        gone.cancel()


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


# ------------------------------------------------------------ the model
async def _model(engine: Engine, _: Request) -> dict[str, Any]:
    limits = engine.limits
    known = {"seconds": limits.seconds, "memory": limits.max_memory, "body": limits.body, "numbers": limits.numbers}
    return engine.model.figures | {"method": engine.method, "limits": known}


async def _variables(engine: Engine, request: Request) -> dict[str, Any]:
    text, after = request.query_params.get("search", "")[:200], _parameter(request, "after", 0, 2**40)
    limit = _parameter(request, "limit", 40, MOST_FOUND)
    found, rest = await engine.read(engine.model.found, text, after, limit)
    return {"variables": found, "next": rest}


async def _states(engine: Engine, request: Request) -> dict[str, Any]:
    text, after = request.query_params.get("search", "")[:200], _parameter(request, "after", 0, 2**40)
    limit, index = _parameter(request, "limit", 40, MOST_FOUND), await _variable(engine, request)
    found, rest = await engine.read(engine.model.states, index, text, after, limit)
    return engine.model.described(index) | {"states": found, "next": rest}


async def _neighbourhood(engine: Engine, request: Request) -> dict[str, Any]:
    limit, index = _parameter(request, "limit", 40, MOST_SHOWN), await _variable(engine, request)
    return await engine.read(engine.model.neighbourhood, index, max(1, limit))


# ------------------------------------------------------------ runs
async def _query(engine: Engine, request: Request) -> dict[str, Any]:
    query = await engine.read(read_query, await _body(engine, request), engine.model.variables, engine.limits)
    result = await _until_gone(request, _result_of(engine, query))
    found = await engine.read(shown_marginals, engine.model, result.marginals, query.shown)
    return {"figures": figures(result), "trace": trace(result), "marginals": found}


async def _result_of(engine: Engine, query: Query) -> Result:
    """Return the last snapshot of a stream, which ends soon after its task is cancelled."""
    async with engine.lent() as session:
        async for snapshot in session.stream(query.evidence, query.targets, **query.budget):
            if isinstance(snapshot, Result):
                return snapshot
    raise AssertionError


async def _stream(engine: Engine, request: Request) -> Response:
    fields, most = Fields(await _body(engine, request)), engine.limits.seconds
    name = fields.text("session", "")
    asked, shown = fields.some("evidence", dict, {}), fields.some("show", list, [])
    seconds, count = fields.number("seconds", most, most), fields.whole("changes", 0, MOST_CHANGES)
    fields.end()
    variables = engine.model.variables
    evidence = await engine.read(read_evidence, asked, variables)
    wanted = await engine.read(read_shown, shown, variables, MOST_FOUND)
    client = engine.client(name) if name else Client(engine.session())
    client.stop()
    question = Question(evidence, wanted, seconds or 0.0, count or 0)
    outbox = Outbox()
    task = client.task = engine.begin(answer(engine, client, question, outbox))

    async def events() -> AsyncIterator[bytes]:
        try:
            async for event in outbox:
                yield event
        finally:
            end(task)

    return StreamingResponse(events(), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


async def _look(engine: Engine, request: Request) -> dict[str, Any]:
    """Show other marginals of the last answer, or of the query under way; later snapshots have them, too."""
    fields = Fields(await _body(engine, request))
    client = engine.known_client(fields.text("session", ""))
    asked = fields.some("show", list, [])
    fields.end()
    client.shown = await engine.read(read_shown, asked, engine.model.variables, MOST_FOUND)
    found: dict[str, Any] = {"shown": [], "best": []}
    if client.newest is not None:
        found["shown"] = await engine.read(shown_marginals, engine.model, client.newest, client.shown)
    if client.best is not None:
        found["best"] = await engine.read(_assigned, engine, client.best, [each.variable for each in client.shown])
    return found


async def _best(engine: Engine, request: Request) -> dict[str, Any]:
    fields, most = Fields(await _body(engine, request)), engine.limits.seconds
    seconds = fields.number("seconds", most, most)
    asked, listed = fields.some("evidence", dict, {}), fields.some("variables", list)
    name = fields.text("session", "")
    fields.end()
    variables = engine.model.variables
    if listed is None and len(variables) > engine.limits.numbers:
        msg = "the model has too many variables for one answer; give 'variables'"
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, msg)
    indices = await engine.read(read_variables, range(len(variables)) if listed is None else listed, variables)
    evidence = await engine.read(read_evidence, asked, variables)
    client = engine.known_client(name) if name else None
    before = client and client.last
    memory = engine.limits.max_memory
    search = partial(infer_map, engine.model.graph, evidence=evidence, seconds=seconds, max_memory=memory)
    best = await _until_gone(request, engine.run(search))
    if client is not None and client.last is before:
        client.best = best
    states = await engine.read(_assigned, engine, best, indices)
    return {
        "log_score": number(best.log_score),
        "upper_bound": number(best.upper_bound),
        "exact": best.exact,
        "seconds": best.seconds,
        "stop_reason": best.stop_reason.name,
        "advice": str(best.stop_reason),
        "states": states if best.log_score > -math.inf else [],
    }


def _assigned(engine: Engine, best: MapResult, indices: list[int]) -> list[dict[str, Any]]:
    """Return the states of some variables in a joint state."""
    found, model = [], engine.model
    for index in indices:
        variable = model.variables[index]
        state = variable.state_index(best.assignment[variable.name])
        label = model.label_texts(index, [state])[0]
        found.append({"index": index, "name": model.name_of(index), "state": state, "label": label})
    return found


# ------------------------------------------------------------ files
async def _export(engine: Engine, request: Request) -> Response:
    kind = request.query_params.get("format", "csv")
    if kind not in WRITERS:
        msg = f"'format' must be one of {', '.join(WRITERS)}, got {kind[:40]!r}"
        raise bad(msg)
    if engine.model.n_states > engine.limits.exported:
        msg = f"the marginals have more than {engine.limits.exported:,} numbers; use `anytimebp infer --output`"
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, msg)
    client = engine.known_client(request.query_params.get("session", "")[:200])
    write, media_type = WRITERS[kind]
    file: Any = tempfile.TemporaryFile()  # noqa: SIM115  (closed when it was sent)
    async with client.lock:
        if client.last is None:
            raise unknown_session()
        await engine.read(write, client.last, file, Path(f"marginals.{kind}"))
    file.seek(0)
    headers = {"Content-Disposition": f'attachment; filename="marginals.{kind}"'}
    return StreamingResponse(_parts(file), media_type=media_type, headers=headers)


def _parts(file: Any) -> Iterator[bytes]:
    with file:
        while part := file.read(AT_ONCE):
            yield part
