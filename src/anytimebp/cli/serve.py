"""`anytimebp serve`: a page on which a model file is explored, and its JSON interface."""

from __future__ import annotations

import re
import webbrowser
from importlib.util import find_spec
from pathlib import Path

import click

from anytimebp.cli.infer import read_memory_size
from anytimebp.cli.names import say, warn
from anytimebp.cli.paths import model_argument, read_given_model
from anytimebp.cli.standard_streams import input_name
from anytimebp.errors import OptionError
from anytimebp.inference.methods import DEFAULT_METHOD, METHODS
from anytimebp.optional import missing_package

TOKEN = re.compile(r"[A-Za-z0-9_-]{8,200}")
LOOPBACK = {"localhost", "127.0.0.1", "::1"}


@click.command()
@model_argument
@click.option("--host", default="127.0.0.1", show_default=True, help="Interface to listen on; 0.0.0.0 is all of them.")
@click.option("--port", type=click.IntRange(0, 65535), default=8765, show_default=True, help="Port; 0 is any free one.")
@click.option("--open/--no-open", "opens", default=False, show_default=True, help="Open the page in a browser.")
@click.option("--method", type=click.Choice(METHODS), default=DEFAULT_METHOD, show_default=True, help="As for `infer`.")
@click.option("--seconds", type=float, default=10.0, show_default=True, help="Longest time that one query may run.")
@click.option(
    "--max-memory",
    metavar="SIZE",
    callback=read_memory_size,
    help="Memory for each run: 500MB, 2GB, 1.5GiB or a number of bytes. By default, a share of what is free.",
)
@click.option(
    "--token",
    envvar="ANYTIMEBP_TOKEN",
    help="What clients must know, at least 8 letters, digits, - or _; by default, a new one every time. Better set in "
    "the environment as ANYTIMEBP_TOKEN, as others can see the command line.",
)
def serve(
    model: Path,
    kind: str | None,
    host: str,
    port: int,
    method: str,
    seconds: float,
    max_memory: int | None,
    token: str | None,
    *,
    opens: bool,
) -> None:
    """Serve a page to explore a model file on, and a JSON interface.

    MODEL is as for `anytimebp infer`. The page opens at the address that the command prints, which contains a token.
    Whoever knows it can use the server. Ctrl-C ends it. Needs the extra `serve`.
    """
    for package in ("starlette", "uvicorn"):
        if find_spec(package) is None:
            raise click.ClickException(missing_package("starlette uvicorn", "serve"))
    if not seconds > 0.0 or seconds == float("inf"):
        msg = f"--seconds must be a number above 0, got {seconds}"
        raise click.UsageError(msg)
    if token is not None and TOKEN.fullmatch(token) is None:
        msg = "--token needs 8 to 200 letters, digits, hyphens or underscores"
        raise click.UsageError(msg)
    from anytimebp.serve import server  # noqa: PLC0415  (needs packages of an extra)
    from anytimebp.serve.limits import Limits  # noqa: PLC0415
    from anytimebp.serve.served_model import ServedModel  # noqa: PLC0415

    graph = read_given_model(model, kind)
    if not len(graph.variables):
        msg = "the model has no variables, so there is nothing to show"
        raise OptionError(msg)
    if host not in LOOPBACK:
        warn(f"listening on {host}: what is sent is not encrypted, and anyone who reads the traffic learns the token")

    def tell(address: str) -> None:
        say(f"{model_name(model)} is at\n\n    {address}\n\nCtrl-C ends the server.")
        if opens:
            webbrowser.open(address)

    server.serve(
        ServedModel(graph, model_name(model)),
        Limits.of(graph, seconds, max_memory),
        method=method,
        host=host,
        port=port,
        token=token,
        tell=tell,
    )


def model_name(model: Path) -> str:
    """Return what to call the model: the name of its file, without folders."""
    return Path(input_name(model)).name
