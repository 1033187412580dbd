"""What goes wrong, as problem details (RFC 9457): the library's own message, and which of its errors it was."""

from __future__ import annotations

import json
from http import HTTPStatus

from anytimebp.errors import AnytimeBPError, InternalError, MemoryLimitError

MEDIA_TYPE = "application/problem+json"
LONGEST = 2_000  # characters of a message, which may quote what the client has sent


class Problem(Exception):  # noqa: N818  (RFC 9457 calls it so)
    """An answer that says why a request failed."""

    def __init__(self, status: HTTPStatus, detail: str, error: str = "") -> None:
        """Hold what is said.

        Args:
            status: Of the response.
            detail: A sentence for people.
            error: Name of the library's error, if it is one.
        """
        super().__init__(detail)
        self.status, self.detail, self.error = status, detail, error

    def body(self) -> dict[str, object]:
        """Return the members of the problem."""
        cut = self.detail if len(self.detail) <= LONGEST else f"{self.detail[:LONGEST]}..."
        found: dict[str, object] = {"type": "about:blank", "title": self.status.phrase, "status": int(self.status)}
        return found | {"detail": printable(cut)} | ({"error": self.error} if self.error else {})

    def encoded(self) -> bytes:
        """Return the JSON."""
        return encoded(self.body())


def encoded(value: object) -> bytes:
    """Return JSON in as few bytes as it takes."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()


def printable(text: str) -> str:
    """Return a text that can be encoded, with half characters written out."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def bad(detail: str) -> Problem:
    """Return the problem of a request that cannot be read."""
    return Problem(HTTPStatus.BAD_REQUEST, detail)


def problem_of(error: Exception) -> Problem:
    """Return an error as a problem, of the library or unexpected."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, InternalError) or not isinstance(error, AnytimeBPError | MemoryError):
        known = isinstance(error, InternalError)
        detail = str(error) if known else "an unexpected error; the server's standard error says more"
        return Problem(HTTPStatus.INTERNAL_SERVER_ERROR, detail, type(error).__name__ if known else "")
    if isinstance(error, MemoryLimitError | MemoryError):
        detail = str(error) or "this machine does not have enough memory for that"
        return Problem(HTTPStatus.INSUFFICIENT_STORAGE, detail, "MemoryLimitError")
    return Problem(HTTPStatus.UNPROCESSABLE_ENTITY, str(error), type(error).__name__)
