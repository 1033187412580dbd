"""The server: its socket, its token, and how it ends."""

from __future__ import annotations

import errno
import logging
import os
import secrets
import socket
import warnings
from collections.abc import Callable
from contextlib import suppress

import uvicorn

from anytimebp.errors import AnytimeBPError, OptionError
from anytimebp.inference.best_state import load_map_kernels
from anytimebp.inference.inference import Inference
from anytimebp.inference.methods import FULL_METHODS
from anytimebp.serve.app import make_app
from anytimebp.serve.connections import connection_class
from anytimebp.serve.engine import Engine
from anytimebp.serve.guard import ANY
from anytimebp.serve.limits import Limits
from anytimebp.serve.served_model import ServedModel

TOKEN_BYTES = 24
WARM_SECONDS = 2.0


def bind(host: str, port: int) -> socket.socket:
    """Return a socket that is bound; raise OptionError where it cannot be."""
    listener = None
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        kind, _, _, _, address = found[0]
        listener = socket.socket(kind, socket.SOCK_STREAM)
        if os.name == "posix":  # elsewhere it would let two servers share a port
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except (OSError, OverflowError, UnicodeError) as error:
        if listener is not None:
            listener.close()
        if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
            msg = f"port {port} is in use on {host}; choose another --port, or 0 for any that is free"
        else:
            msg = f"cannot listen on {host!r}, port {port}: {getattr(error, 'strerror', None) or error}"
        raise OptionError(msg) from None
    return listener


def address_of(listener: socket.socket, host: str, token: str) -> str:
    """Return the address of the page, as it is opened on this machine."""
    name = "127.0.0.1" if host in ANY else host
    name = f"[{name}]" if ":" in name else name
    return f"http://{name}:{listener.getsockname()[1]}/?token={token}"


def warm_up(engine: Engine) -> None:
    """Load or compile the kernels that a page needs, before the first request."""
    session, graph = engine.session(), engine.model.graph
    seen = {0: graph.variables[0].labels[0]} if len(graph.variables) else {}
    for evidence in ({}, seen):
        with suppress(AnytimeBPError, MemoryError):  # a query will report it
            result = session.query(evidence, seconds=WARM_SECONDS)
            if result.method in {"adaptive", *FULL_METHODS}:  # the next query may start from its messages
                Inference(graph, "residual", evidence=evidence).load()
    load_map_kernels()


def make_server(engine: Engine, listener: socket.socket, *, token: str, host: str) -> uvicorn.Server:
    """Return a server that is ready to run on a listener, with its kernels loaded."""
    app = make_app(engine, token=token, host=host, cookie=f"anytimebp-{listener.getsockname()[1]}")
    limits = engine.limits
    warm_up(engine)
    config = uvicorn.Config(
        app,
        http=connection_class(limits),
        ws="none",
        lifespan="on",
        loop="asyncio",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=max(1, int(limits.body_seconds / 2)),  # closes quietly before a connection is cut
        timeout_graceful_shutdown=0,
    )
    return uvicorn.Server(config)


def serve(
    model: ServedModel,
    limits: Limits,
    *,
    method: str,
    host: str,
    port: int,
    token: str | None,
    tell: Callable[[str], object],
) -> None:
    """Serve a model until Ctrl-C.

    Args:
        model: What is served.
        limits: What clients may use.
        method: How runs go.
        host: Interface to listen on.
        port: Port, 0 for any that is free.
        token: What clients have to know; None for a new one.
        tell: Called with the address of the page once it answers.
    """
    token = token or secrets.token_urlsafe(TOKEN_BYTES)
    listener = bind(host, port)
    logging.getLogger("uvicorn").setLevel(logging.CRITICAL)
    warnings.simplefilter("ignore")  # a page says itself what an answer is worth
    with listener:
        server = make_server(Engine(model, limits, method), listener, token=token, host=host)
        listener.listen(128)  # a browser may connect from now on; it is answered when the server runs
        tell(address_of(listener, host, token))
        with suppress(KeyboardInterrupt):
            server.run(sockets=[listener])
