"""Who may send requests: token, Host and Origin; also the headers of every answer, and problems in place of errors."""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Awaitable, Callable, MutableMapping
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from typing import Any, TypeAlias
from urllib.parse import parse_qs, quote, urlsplit

from anytimebp.serve.problems import MEDIA_TYPE, Problem
from anytimebp.serve.streams import told

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

OPEN = "/assets/"  # files of this library, the same for everybody
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = [
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
]
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
ANY = frozenset({"0.0.0.0", "::", ""})  # noqa: S104  (compared, not bound)


class Guard:
    """Passes requests to the app if they come from a client that may send them."""

    def __init__(self, app: App, *, token: str, host: str, cookie: str, locked: bytes) -> None:
        """Hold what is checked.

        Args:
            app: What answers.
            token: What a client has to know.
            host: The interface that the server listens on, as it was given.
            cookie: Name of the cookie that holds the token after the first page.
            locked: The page for those who have no token.
        """
        self._app, self._token, self._cookie, self._locked = app, token.encode(), cookie, locked
        self._hosts, self._is_any = LOOPBACK | {host.lower()}, host in ANY

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or say why not."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        is_begun = False

        async def dressed(message: Message) -> None:
            nonlocal is_begun
            if message["type"] == "http.response.start":
                is_begun = True
                message["headers"] = [*message.get("headers", []), *HEADERS]
            await send(message)

        try:
            await self._answer(scope, receive, dressed)
        except Exception as error:  # a client is told of every error, but never gets a traceback
            problem = told(error)
            if is_begun:
                raise
            await refuse(dressed, problem)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        host = headers.get(b"host", "")
        if len([name for name, _ in scope["headers"] if name == b"host"]) != 1 or not self._is_ours(host):
            msg = f"this server is not {host[:80]!r}"
            raise Problem(HTTPStatus.MISDIRECTED_REQUEST, msg)
        origin = headers.get(b"origin")
        if origin is not None and urlsplit_or_nothing(origin) != host.lower():
            msg = "requests from other pages are refused"
            raise Problem(HTTPStatus.FORBIDDEN, msg)
        given = _query_token(scope)
        if scope["path"] == "/" and scope["method"] == "GET" and given is not None and self._is_token(given):
            await self._enter(scope, send)
        elif scope["path"].startswith(OPEN) or self._may_enter(headers, given):
            await self._app(scope, receive, send)
        elif scope["path"] == "/":
            await respond(send, HTTPStatus.UNAUTHORIZED, self._locked, "text/html; charset=utf-8")
        else:
            msg = "this needs the token that the server has printed: as a cookie, a Bearer token, or ?token="
            raise Problem(HTTPStatus.UNAUTHORIZED, msg)

    def _is_ours(self, host: str) -> bool:
        """Tell whether a Host header names this server; on all interfaces, any address does, but names do not."""
        try:
            name = urlsplit(f"//{host}").hostname
            if name is None or name in self._hosts:
                return name is not None
            return self._is_any and bool(ipaddress.ip_address(name))
        except ValueError:
            return False

    def _may_enter(self, headers: dict[bytes, str], given: str | None) -> bool:
        scheme, _, bearer = headers.get(b"authorization", "").partition(" ")
        told_so = [given, bearer.strip() if scheme.lower() == "bearer" else None, self._of_cookie(headers)]
        return any(self._is_token(token) for token in told_so if token is not None)

    def _of_cookie(self, headers: dict[bytes, str]) -> str | None:
        try:
            found = SimpleCookie(headers.get(b"cookie", "")).get(self._cookie)
        except CookieError:
            return None
        return None if found is None else found.value

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), self._token)

    async def _enter(self, scope: Scope, send: Send) -> None:
        """Put the token into a cookie and out of the address; browsers keep what stands after #."""
        cookie = f"{self._cookie}={quote(self._token.decode())}; Path=/; HttpOnly; SameSite=Strict"
        more = [(b"set-cookie", cookie.encode()), (b"location", b"/")]
        del scope
        await respond(send, HTTPStatus.SEE_OTHER, b"", "text/plain", more)


def _query_token(scope: Scope) -> str | None:
    try:
        found = parse_qs(scope["query_string"].decode("latin-1"), max_num_fields=50).get("token")
    except ValueError:
        return None
    return found[0] if found else None


def urlsplit_or_nothing(origin: str) -> str | None:
    """Return host and port of an origin; None where it is none, as `null`."""
    try:
        parts = urlsplit(origin)
    except ValueError:
        return None
    return parts.netloc.lower() if parts.scheme in {"http", "https"} else None


async def refuse(send: Send, problem: Problem) -> None:
    """Send a problem."""
    await respond(send, problem.status, problem.encoded(), MEDIA_TYPE)


async def respond(
    send: Send, status: HTTPStatus, body: bytes, media_type: str, more: list[tuple[bytes, bytes]] | None = None
) -> None:
    """Send a whole answer."""
    headers = [(b"content-type", media_type.encode()), (b"content-length", str(len(body)).encode()), *(more or [])]
    await send({"type": "http.response.start", "status": int(status), "headers": headers})
    await send({"type": "http.response.body", "body": body})
