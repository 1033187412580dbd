"""`anytimebp serve`: what it prints, refuses and how it ends."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request

import pytest

import anytimebp as abp
from anytimebp.cli import serve
from anytimebp.cli.main import main
from served import PATIENCE, weather


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "weather.uai"
    with pytest.warns(abp.DroppedWarning):
        abp.write_model(weather(), path)
    return str(path)


def test_help_and_a_hint_come_without_the_extra(model, capsys, monkeypatch):
    monkeypatch.setattr(serve, "find_spec", lambda _: None)
    assert main(["serve", "--help"]) == 0
    assert "--no-open" in capsys.readouterr().out
    assert main(["serve", model]) == 2
    said = 'this needs starlette and uvicorn: pip install starlette uvicorn (or, in a clone, ".[serve]")'
    assert said in capsys.readouterr().err


def test_a_port_in_use_is_named(model, capsys):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        assert main(["serve", model, "--port", str(port)]) == 2
    assert f"port {port} is in use on 127.0.0.1; choose another --port, or 0" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--seconds", "0"], "--seconds must be a number above 0"),
        (["--seconds", "nan"], "--seconds must be a number above 0"),
        (["--seconds", "inf"], "--seconds must be a number above 0"),
        (["--token", "short"], "--token needs 8 to 200 letters"),
        (["--token", "with a space"], "--token needs 8 to 200 letters"),
        (["--port", "70000"], "70000 is not in the range"),
        (["--host", "no.such.host.invalid"], "cannot listen on 'no.such.host.invalid'"),
        (["--max-memory", "much"], "'much' is not an amount of memory"),
    ],
)
def test_bad_options_are_refused(model, options, message, capsys):
    assert main(["serve", model, *options]) == 2
    assert message in capsys.readouterr().err


def test_a_model_without_variables_is_refused(tmp_path, capsys):
    abp.write_model(abp.FactorGraph(), tmp_path / "none.npz")
    assert main(["serve", str(tmp_path / "none.npz")]) == 2
    assert "the model has no variables" in capsys.readouterr().err


@pytest.mark.unix
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_prints_the_address_answers_there_and_ends_quietly(model, number):
    command = [sys.executable, "-m", "anytimebp", "serve", model, "--port", "0"]
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        lines = [process.stdout.readline() for _ in range(5)]
        address = re.fullmatch(r"    (http://127\.0\.0\.1:\d+/\?token=[\w-]{32})\n", lines[2])[1]
        with urllib.request.urlopen(address.replace("/?", "/model?"), timeout=PATIENCE) as answer:  # noqa: S310
            assert b'"weather.uai"' in answer.read()
        process.send_signal(number)
        began = time.monotonic()
        output, errors = process.communicate(timeout=PATIENCE)
        assert time.monotonic() - began < PATIENCE / 2
    finally:
        process.kill()
    assert process.returncode == 0
    assert lines[3:] == ["\n", "Ctrl-C ends the server.\n"]
    assert output == ""
    assert [line for line in errors.splitlines() if "warning" not in line and "compiling" not in line] == []
