"""Words and numbers of a text file, in order, a block at a time.

Numbers go straight into arrays, so that reading needs memory for the arrays and one block of text. A count that the
file is too small to hold is refused before anything is allocated. Lines are not counted; after an error, the file is
read again to find the line of the token that the error names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import numpy as np

from anytimebp.errors import FormatError
from anytimebp.formats.input_file import Source, open_input
from anytimebp.model.source import FloatArray, IndexArray

BLOCK = 2**15
LONGEST_TOKEN = 2000  # characters; numbers are shorter, and a binary file has no blanks to stop at
LONGEST_INTEGER = 18  # digits that fit into 64 bits
COMMENT = re.compile(r"#[^\r\n]*")
LINE_END = re.compile(r"\r\n|\r|\n")  # of Windows, of the first Macs, of all others
BYTE_LINE_END = re.compile(rb"[\r\n]")
BLANKS = (b" ", b"\n", b"\t", b"\r")


class Tokens:
    """The tokens of one file, each used once."""

    def __init__(self, source: Source) -> None:
        """Start at the beginning of a file, which is read again for errors."""
        self.source = source
        self._path = source.path
        self._rest = b""
        self._text = ""
        self._first_line = 1
        self._next_line = 1
        self._tokens: list[str] = []
        self._at = 0
        self._before = 0  # tokens of the blocks before this one
        self._ended = False
        self._started = False

    @property
    def position(self) -> int:
        """The number of tokens used so far."""
        return self._before + self._at

    def word(self, what: str) -> str:
        """Return the next token."""
        if self._at == len(self._tokens) and not self._fill():
            self.fail(f"the file ends where {what} should be")
        self._at += 1
        return self._tokens[self._at - 1]

    def integer(self, what: str, low: int = 0, high: int = 2**62) -> int:
        """Return the next token as a whole number between two bounds, both included."""
        token = self.word(what)
        if not (token.isascii() and token.isdigit() and len(token) <= LONGEST_INTEGER):
            self.fail(f"{what}: expected a whole number of at least 0", self.position - 1)
        value = int(token)
        if not low <= value <= high:
            self.fail(f"{what} must be between {low:,} and {high:,}, got {value:,}", self.position - 1)
        return value

    def integers(self, count: int, what: str) -> IndexArray:
        """Return the next `count` tokens as whole numbers of at least 0."""
        self.check_room(count, what, self.position - 1)
        values = np.empty(count, dtype=np.int64)
        done = 0
        for tokens in self._take(count, what):
            try:
                values[done : done + len(tokens)] = [_whole(token) for token in tokens]
            except ValueError:
                self._fail_at_first(tokens, _whole, f"{what}: expected a whole number of at least 0")
            done += len(tokens)
        return values

    def numbers(
        self, count: int, what: str, more: int = 0, ended: Callable[[FloatArray], object] | None = None
    ) -> FloatArray:
        """Return the next `count` tokens as numbers, which may be negative or no finite ones.

        Args:
            count: How many.
            what: What they are, for errors.
            more: How many more are to follow.
            ended: Called with the numbers found if the file ends early; may raise a more specific error.
        """
        self.check_room(count, what)
        values = np.empty(count)
        done = 0
        for tokens in self._take(count, what, more, lambda taken: ended(values[:taken]) if ended else None):
            read = _number if "_" in self._text else float
            try:
                values[done : done + len(tokens)] = np.fromiter(map(read, tokens), np.float64, len(tokens))
            except ValueError:
                self._fail_at_first(tokens, _number, f"{what}: expected a number")
            done += len(tokens)
        return values

    def all_integers(self, what: str) -> IndexArray:
        """Return all tokens that are left as whole numbers."""
        parts = [np.empty(0, dtype=np.int64)]
        while not self.at_end():
            parts.append(self.integers(len(self._tokens) - self._at, what))
        return np.concatenate(parts)

    def all_numbers(self, what: str) -> FloatArray:
        """Return all tokens that are left as numbers."""
        parts = [np.empty(0)]
        while not self.at_end():
            parts.append(self.numbers(len(self._tokens) - self._at, what))
        return np.concatenate(parts)

    def check_room(self, count: int, what: str, position: int | None = None) -> None:
        """Refuse a count, of the token number `position`, that the file cannot hold, at two characters a number."""
        if count > self.source.n_bytes // 2 + 1:
            self.fail(f"{what}: {count:,} numbers are announced, more than the file can hold", position)

    def at_end(self) -> bool:
        """Tell whether all tokens are used."""
        return self._at == len(self._tokens) and not self._fill()

    def finish(self, what: str) -> None:
        """Raise if anything is left."""
        if not self.at_end():
            self.fail(f"the file goes on after {what}", self.position)

    def fail(self, message: str, position: int | None = None) -> NoReturn:
        """Raise FormatError, with the line and the text of a token if one is given."""
        if position is None:
            raise FormatError(self._path, message)
        with open_tokens(self._path) as again:
            line, token = again.locate(position)
        raise FormatError(self._path, f"{message}, at {token[:40]!r}", line)

    def locate(self, position: int) -> tuple[int, str]:
        """Return the line and the text of the token number `position`, going there."""
        while position >= self._before + len(self._tokens):
            if not self._fill():
                return self._next_line, ""
        left = position - self._before
        line = self._first_line
        for match in re.finditer(r"\r\n|\r|\n|[^\s]+", COMMENT.sub("", self._text)):
            if match[0].isspace():
                line += 1
            elif left == 0:
                return line, match[0]
            else:
                left -= 1
        return line, ""

    def _take(
        self, count: int, what: str, more: int = 0, ended: Callable[[int], object] = lambda _: None
    ) -> Iterator[list[str]]:
        """Give the next `count` tokens, block by block."""
        first = self.position
        while count > 0:
            if self._at == len(self._tokens) and not self._fill():
                ended(self.position - first)
                self.fail(f"the file ends {count + more:,} numbers early, in {what}")
            tokens = self._tokens[self._at : self._at + count]
            self._at += len(tokens)
            count -= len(tokens)
            yield tokens

    def _fail_at_first(self, tokens: list[str], read: Callable[[str], object], message: str) -> NoReturn:
        """Name the first token that cannot be read."""
        for back, token in enumerate(tokens):
            try:
                read(token)
            except ValueError:
                self.fail(message, self.position - len(tokens) + back)
        self.fail(message)

    def _fill(self) -> bool:
        """Read the next block that holds a token; return whether there is one."""
        while not self._ended:
            self._before += len(self._tokens)
            self._tokens, self._at = [], 0
            self._first_line = self._next_line
            self._text = self._read_block()
            self._next_line += count_lines(self._text)
            text = self._text if "#" not in self._text else COMMENT.sub("", self._text)
            self._tokens = text.split()
            if self._tokens:
                return True
        return False

    def _read_block(self) -> str:
        """Return a block of text that ends between two tokens, and outside comments."""
        new = self.source.read(BLOCK)
        data = self._rest + new
        self._rest = b""
        self._ended = not new
        if not self._started:
            self._started = True
            data = without_bom(data, self._path)
        if not self._ended:
            if data.rfind(b"#") > max(data.rfind(b"\n"), data.rfind(b"\r")):
                data = data[: data.rfind(b"#")]
                self._skip_line()
            else:
                data = self._cut(data)
        return data.decode("ascii", errors="replace")

    def _skip_line(self) -> None:
        """Skip the rest of a comment, up to the end of its line."""
        while piece := self.source.read(BLOCK):
            if end := BYTE_LINE_END.search(piece):
                self._rest = piece[end.start() :]
                return

    def _cut(self, data: bytes) -> bytes:
        """Keep what may be half a token, or half the end of a line, for the next block."""
        end = max(data.rfind(blank) for blank in BLANKS)
        if len(data) - end > LONGEST_TOKEN:
            message = f"no blank within {LONGEST_TOKEN:,} characters: this is no text file of numbers"
            raise FormatError(self._path, message, self._next_line)
        end = max(0, end - data.startswith(b"\r\n", max(0, end - 1)))
        self._rest = data[end:]
        return data[:end]


@contextmanager
def open_tokens(path: Path) -> Iterator[Tokens]:
    """Open a file as tokens."""
    with open_input(path) as source:
        yield Tokens(source)


def count_lines(text: str) -> int:
    """Return how many lines end in a text."""
    return text.count("\n") if "\r" not in text else len(LINE_END.findall(text))


def without_bom(data: bytes, path: Path) -> bytes:
    """Strip a UTF-8 byte order mark; refuse encodings that start with another mark."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise FormatError(path, "the file is UTF-16; save it as plain text (UTF-8)")
    return data.removeprefix(b"\xef\xbb\xbf")


def _whole(token: str) -> int:
    if not (token.isascii() and token.isdigit() and len(token) <= LONGEST_INTEGER):
        raise ValueError
    return int(token)


def _number(token: str) -> float:
    if "_" in token:  # 1_000 is a number to Python alone
        raise ValueError
    return float(token)
