"""Closes connections that send no request, and those that do not take their answer."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from anytimebp.serve.limits import Limits

LOOKS = 1.0  # seconds between two looks at a connection
CLOSING = 3.0  # seconds that a connection may take to close


class Connection(H11Protocol):
    """A connection of uvicorn that is closed if its client is too slow; uvicorn itself would wait for ever.

    Attributes:
        limits: Of the server.
        asked_at: When it was opened, or last answered.
    """

    limits = Limits()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to look; where there are too many connections, cut the one that was idle for longest, or this one."""
        super().connection_made(transport)
        self.asked_at = monotonic()
        self._stuck_at = self._closing_at = float("inf")
        if len(self.connections) > self.limits.connections:
            idle = [other for other in self.connections if isinstance(other, Connection) and other.is_idle]
            min(idle, key=lambda other: other.asked_at, default=self).transport.abort()
        self._look = self.loop.call_later(LOOKS, self._look_again)

    @property
    def is_idle(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def connection_lost(self, exc: Exception | None) -> None:
        """Look no more."""
        self._look.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what has come; the time until a request must be complete starts with the last answer."""
        was_idle = self.is_idle
        super().data_received(data)
        if was_idle and not self.is_idle:
            self.asked_at = monotonic()

    def pause_writing(self) -> None:
        """Note when a client has stopped taking its answer."""
        self._stuck_at = monotonic()
        super().pause_writing()

    def resume_writing(self) -> None:
        """Note that the client takes its answer again."""
        self._stuck_at = float("inf")
        super().resume_writing()

    def on_response_complete(self) -> None:
        """Give the client time for its next request."""
        self.asked_at = monotonic()
        super().on_response_complete()

    def _look_again(self) -> None:
        now, transport = monotonic(), self.transport
        self._closing_at = min(self._closing_at, now) if transport.is_closing() else float("inf")
        is_late = self.is_idle and now - self.asked_at > self.limits.body_seconds
        is_stuck = now - self._stuck_at > self.limits.send_seconds
        if is_late or is_stuck or now - self._closing_at > CLOSING:
            transport.abort()
        else:
            self._look = self.loop.call_later(LOOKS, self._look_again)


def connection_class(limits: Limits) -> Any:
    """Return the class of connections with these limits."""
    return type("Connection", (Connection,), {"limits": limits})
