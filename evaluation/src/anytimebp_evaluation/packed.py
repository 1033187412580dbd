"""Text files that grow: finished parts are compressed, and later additions are beside them as plain text.

Measuring appends to NAME.csv, which is cheap and can be repaired after an interruption. At the end, `pack` moves
everything to NAME.csv.xz. Readers read both.
"""

from __future__ import annotations

import lzma
from pathlib import Path

from anytimebp import FormatError
from anytimebp.formats.whole_file import whole_file


def packed_path(path: Path) -> Path:
    """Return where the compressed part of a file is."""
    return path.with_name(f"{path.name}.xz")


def is_there(path: Path) -> bool:
    """Tell whether a file is there, compressed or not."""
    return path.exists() or packed_path(path).exists()


def read_parts(path: Path) -> dict[Path, str]:
    """Return the texts of the files that are there, the compressed one first; each begins with the header line.

    Raises:
        FormatError: A file cannot be unpacked, or is not text.
    """
    parts = {}
    if packed_path(path).exists():
        parts[packed_path(path)] = _decoded(packed_path(path), _unpacked(packed_path(path)))
    if path.exists():
        text = _decoded(path, path.read_bytes())
        body = _body(text)
        if parts and body and parts[packed_path(path)].endswith(body):  # `pack` was interrupted before it removed this
            path.unlink()
        else:
            parts[path] = text
    return parts


def pack(path: Path) -> None:
    """Compress what has been added, together with what is compressed already; the same text gives the same bytes."""
    parts = list(read_parts(path).values())
    if not path.exists():
        return
    text = parts[0] + "".join(map(_body, parts[1:]))
    with whole_file(packed_path(path)) as file:
        file.write(lzma.compress(text.encode()))
    path.unlink()


def _body(text: str) -> str:
    """Return a text without its first line."""
    return text.partition("\n")[2]


def _unpacked(path: Path) -> bytes:
    try:
        return lzma.decompress(path.read_bytes())
    except lzma.LZMAError as error:
        raise FormatError(path, f"this cannot be unpacked: {error}") from None


def _decoded(path: Path, content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise FormatError(path, f"this is not text in UTF-8 ({error.reason} at byte {error.start})") from None
