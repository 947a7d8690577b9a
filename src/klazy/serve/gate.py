"""What every request passes first: who asks, how often, how much and how slowly; and what is noted of it afterwards."""

import asyncio
import logging
from time import perf_counter
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from klazy.base.checks import refusal
from klazy.live.store import StoreFailed
from klazy.serve.metrics import Metrics
from klazy.serve.problems import Problem, explain, make_response
from klazy.serve.settings import LOOPBACK, Settings
from klazy.serve.tokens import EVERYTHING, Buckets, Grant, Keys

OPEN = ("/healthz", "/readyz", "/login", "/openapi.json", "/style.css")  # to everyone
FORMS = ("/login", "/logout", "/page/")  # which pages send
COOKIE = "klazy"
_SAFE = ("GET", "HEAD", "OPTIONS")
_CLOSE = {"Connection": "close"}
_log = logging.getLogger("klazy.serve.requests")


class Gate:
    """The outermost part of the service."""

    def __init__(
        self, app: ASGIApp, settings: Settings, keys: Keys, metrics: Metrics, wrong: Buckets
    ) -> None:
        self._app = app
        self._settings = settings
        self._keys = keys
        self._metrics = metrics
        self._buckets = Buckets(settings.rate)
        self._wrong = wrong

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start = perf_counter()
        status = 500
        grant = None

        async def note_status(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *_HEADERS]
            await send(message)

        headers = Headers(scope=scope)
        try:
            try:
                grant = await self._admit(scope, headers)
                self._check_size(headers)
                _check_kind(scope, headers)
            except Problem as problem:
                response: Any = make_response(problem)
                if problem.status_code == 401 and "text/html" in headers.get("accept", ""):
                    response = RedirectResponse("/login", 303)
                await response(scope, receive, note_status)
                return
            except Exception as failed:
                if not isinstance(failed, StoreFailed):
                    _log.exception("the gate failed")
                await make_response(explain(failed))(scope, receive, note_status)
                return
            scope["state"]["grant"] = grant
            limited = _Body(receive, self._settings).receive
            await self._app(scope, limited, note_status)
        finally:
            self._note(scope, status, perf_counter() - start, grant)

    def _note(self, scope: Scope, status: int, seconds: float, grant: Grant | None) -> None:
        route = getattr(scope.get("route"), "path", "none")
        self._metrics.count_request(route, status, seconds)
        level = logging.INFO if status < 500 else logging.ERROR
        if _log.isEnabledFor(level):
            holder = None if grant is None else grant.name
            more = {"method": scope["method"], "path": scope["path"], "status": status, "token": holder}
            _log.log(level, "request", extra=more | {"milliseconds": round(1000 * seconds, 3)})

    async def _admit(self, scope: Scope, headers: Headers) -> Grant | None:
        """What whoever asks may do; None on paths that are open to everyone."""
        if self._settings.insecure:
            _check_host(headers)
            _check_origin(scope, headers)
            return EVERYTHING
        if scope["path"] in OPEN:
            return None
        token, by_cookie = _read_token(headers)
        await self._keys.refresh()
        grant = None if token is None else self._keys.find(token)
        if grant is None:
            if token is not None:
                count_wrong(self._wrong, scope)
            got = "none" if token is None else "another"
            remedy = "send the header Authorization: Bearer TOKEN; klazy tokens add makes one"
            said = str(refusal("The service", "a token that it knows", "token", got, remedy))
            raise Problem(401, said, headers={"WWW-Authenticate": "Bearer"})
        if by_cookie:
            _check_origin(scope, headers)
        if not self._buckets.take(grant.name):
            raise _refuse_rate(f"at most {self._settings.rate:g} requests a second", grant.name)
        return grant

    def _check_size(self, headers: Headers) -> None:
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > self._settings.body:
            raise _refuse_size(self._settings.body, length)


def count_wrong(wrong: Buckets, scope: Scope) -> None:
    """Count a wrong token of whoever sent this request; refused if there were too many."""
    address = scope["client"][0] if scope.get("client") else "unknown"
    if not wrong.take(address):
        raise _refuse_rate("fewer wrong tokens", address)


# Pages load nothing from elsewhere, run no script, and are shown in no frame.
_HEADERS = [
    (b"content-security-policy", b"default-src 'none'; style-src 'self'; img-src 'self' data:; form-action 'self'; "
     b"frame-ancestors 'none'; base-uri 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
]  # fmt: skip


class _Body:
    """A request's body that may not be too large, nor come too slowly."""

    def __init__(self, receive: Receive, settings: Settings) -> None:
        self._receive = receive
        self._settings = settings
        self._left = settings.body
        self._whole = False
        self._until: float | None = None

    async def receive(self) -> Message:
        if self._whole:
            return await self._receive()
        now = asyncio.get_running_loop().time()
        if self._until is None:
            self._until = now + self._settings.body_seconds
        try:
            async with asyncio.timeout_at(self._until):
                message = await self._receive()
        except TimeoutError:
            seconds = f"{self._settings.body_seconds:g} seconds"
            said = refusal(
                "The service", f"the whole body within {seconds}", "body", "a part", "send it faster"
            )
            raise Problem(408, str(said), headers=_CLOSE) from None
        if message["type"] == "http.disconnect":
            said = refusal("The service", "the whole body", "body", "a part", "send it again")
            raise Problem(400, str(said), headers=_CLOSE)
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            raise _refuse_size(self._settings.body, "more")
        self._whole = not message.get("more_body", False)
        return message


def _refuse_size(most: int, got: object) -> Problem:
    said = refusal("The service", f"a body of at most {most} bytes", "body", got, "send it in parts")
    return Problem(413, str(said), headers=_CLOSE)


def _refuse_rate(condition: str, holder: str) -> Problem:
    said = refusal("The service", condition, "holder", repr(holder), "wait a second")
    return Problem(429, str(said), headers={"Retry-After": "1"})


def _read_token(headers: Headers) -> tuple[str | None, bool]:
    """The token that was sent, and whether a browser did so by itself."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and token:
        return token.strip(), False
    kept = cookie_parser(headers.get("cookie", "")).get(COOKIE)
    return kept, kept is not None


def _check_origin(scope: Scope, headers: Headers) -> None:
    """Refuse what another site makes a browser send in its user's name."""
    origin = headers.get("origin")
    if scope["method"] in _SAFE or origin is None:
        return
    if urlsplit(origin).netloc != headers.get("host"):
        said = refusal("The service", "a request of its own page", "origin", origin, "use the page itself")
        raise Problem(403, str(said))


def _check_kind(scope: Scope, headers: Headers) -> None:
    """Refuse bodies that are not JSON, which is also what a form of another site cannot send."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    has_body = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
    if scope["path"].startswith(FORMS) or not has_body or kind == "application/json":
        return
    said = refusal("The service", "a body that is JSON", "content-type", repr(kind), "send application/json")
    raise Problem(415, str(said))


def _check_host(headers: Headers) -> None:
    """Without tokens, only who calls this machine by its own name: another name may be a trap for browsers."""
    host = urlsplit(f"//{headers.get('host', '')}").hostname
    if host not in LOOPBACK:
        said = refusal("The service", "a loopback host without tokens", "host", host, "call it as 127.0.0.1")
        raise Problem(403, str(said))
