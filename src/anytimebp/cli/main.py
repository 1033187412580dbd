"""The command `anytimebp` and its subcommands. An error prints one or two lines and sets the exit code."""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
import traceback
from collections.abc import Sequence
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from anytimebp import __version__
from anytimebp.cli.best_state import best_state
from anytimebp.cli.convert import convert
from anytimebp.cli.demo import demo
from anytimebp.cli.infer import infer
from anytimebp.cli.info import info
from anytimebp.cli.names import printable_name, say, warnings_as_lines
from anytimebp.cli.plugins import Commands
from anytimebp.cli.serve import serve
from anytimebp.cli.warmup import warmup
from anytimebp.errors import AnytimeBPError, InconsistentModelError

ANSWERED, INTERNAL, BAD_INPUT, INCONSISTENT, ABORTED = 0, 1, 2, 3, 130

EPILOG = """\b
Exit codes: 0 answered, even if stopped early; 1 unexpected error; 2 bad usage or input, or a file that cannot be
written; 3 inconsistent model (no joint state is possible); 130 aborted by Ctrl-C. Errors go to standard error.
--debug, anywhere, adds the traceback."""


@click.group(
    cls=Commands, epilog=EPILOG, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(__version__, prog_name="anytimebp")
@click.pass_context
def app(context: click.Context) -> None:
    """Marginals of discrete factor graphs whose variables have many states."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script of a shell.

    \b
    bash:  eval "$(anytimebp completion bash)"     in ~/.bashrc
    zsh:   eval "$(anytimebp completion zsh)"      in ~/.zshrc
    fish:  anytimebp completion fish > ~/.config/fish/completions/anytimebp.fish
    """  # noqa: D301  (\\b keeps click from rewrapping)
    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"there is no completion for {shell}")  # noqa: EM102, TRY003
    click.echo(kind(context.find_root().command, {}, "anytimebp", "_ANYTIMEBP_COMPLETE").source())


for command in (infer, best_state, info, convert, demo, serve, warmup, completion):
    app.add_command(command)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in given
    _prepare_streams()
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _terminate)
    try:
        with warnings_as_lines():
            code = app.main([word for word in given if word != "--debug"], "anytimebp", standalone_mode=False)
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit):  # the output has been closed; click may raise either
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ANSWERED
    except (KeyboardInterrupt, click.Abort) as error:
        return _end(error, "interrupted; nothing more is written", ABORTED, debug=debug)
    except Exception as error:  # noqa: BLE001  (the last resort: a line instead of a traceback)
        return _end(error, *_describe(error), debug=debug)
    return code if isinstance(code, int) else ANSWERED


def _terminate(*_: object) -> None:
    """End as Ctrl-C does; at once if Ctrl-C is ignored, as in a script's background jobs."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        raise KeyboardInterrupt
    signal.raise_signal(signal.SIGINT)


def _prepare_streams() -> None:
    """Make printing safe: streams may be closed, or unable to encode a name."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115  (stays open)
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _describe(error: Exception) -> tuple[str, int]:
    """Return what to say of an error, and the exit code."""
    if isinstance(error, click.UsageError):
        where = error.ctx.command_path if error.ctx else "anytimebp"
        return f"{error.format_message()} (see {where} --help)", BAD_INPUT
    if isinstance(error, click.ClickException):
        return error.format_message(), BAD_INPUT
    if isinstance(error, InconsistentModelError):
        return str(error), INCONSISTENT
    if isinstance(error, AnytimeBPError):
        return str(error), BAD_INPUT
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror or error}", BAD_INPUT
    if isinstance(error, MemoryError):
        return "this machine does not have enough memory for that", BAD_INPUT
    return f"unexpected {type(error).__name__}: {error} (please report it, with the output of --debug)", INTERNAL


def _end(error: BaseException, message: str, code: int, *, debug: bool) -> int:
    if debug:
        say("".join(traceback.format_exception(error)).rstrip("\n"), err=True)
    line = message if isinstance(error, click.ClickException) else printable_name(message)
    say(f"anytimebp: {line}", err=True)
    return code
