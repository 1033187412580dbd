"""Amounts of memory on the command line: 500MB, 2GB, 1.5GiB, or plain bytes."""

from __future__ import annotations

import re

import click

SIZE = re.compile(r"(\d{1,18})(?:\.(\d{1,9}))? ?(?:([kmgt])(i?))?b?", re.IGNORECASE | re.ASCII)
POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def read_memory_size(context: click.Context, parameter: click.Parameter, text: str | None) -> int | None:
    """Return a number of bytes, given with a unit or without; units are powers of 1000, with an i of 1024."""
    if text is None:
        return None
    match = SIZE.fullmatch(text.strip())
    if match is None:
        msg = f"{text[:40]!r} is no amount of memory, such as 500MB, 2GB, 1.5GiB or 1000000 (bytes)"
        raise click.BadParameter(msg, context, parameter)
    unit = int((1024 if match[4] else 1000) ** POWERS[(match[3] or "").lower()])
    part = match[2] or "0"
    return int(int(match[1]) * unit + int(part) * unit // 10 ** len(part))
