"""Who may do what, how often and how much: tokens, rate limits, and the middleware that every request passes first."""

import asyncio
import logging
import secrets
from hashlib import sha256
from time import monotonic, perf_counter
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from klazy.base.checks import InvalidInput, one_of
from klazy.live.store import Store, StoreFailed, TakenError
from klazy.live.stored import check_name
from klazy.serve.problems import SOON, Problem, explain_failure, make_response
from klazy.serve.settings import LOOPBACK

if TYPE_CHECKING:
    from klazy.serve.reading import Reader
    from klazy.serve.service import Service

# Each role may do what those before it may.
ROLES = ("reader", "writer", "admin")
# Paths that need no token.
STATIC_PATHS = ("/uPlot.iife.min.js", "/klazy.js")
OPEN_PATHS = (
    "/healthz",
    "/readyz",
    "/login",
    "/openapi.json",
    "/docs",
    "/style.css",
    *STATIC_PATHS,
)
# Paths to which pages send forms; all others take JSON, which a form of another site cannot send.
FORM_PATHS = ("/login", "/logout", "/page/")
COOKIE = "klazy"
# For how long a worker uses the tokens that it has read.
TOKEN_SECONDS = 2.0
MAX_HOLDERS = 10_000
# Wrong tokens per second that an address may try.
WRONG_RATE = 5.0
# Pages load nothing from elsewhere, run no script but the service's own files, and are shown in no frame.
PAGE_HEADERS = [
    (b"content-security-policy", b"default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'self'; "
     b"img-src 'self' data:; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
]  # fmt: skip
_CLOSE_HEADER = {"Connection": "close"}
_log = logging.getLogger("klazy.serve.requests")


class Grant(NamedTuple):
    """What the holder of a token may do: with one agent, or with all if ``agent`` is None."""

    name: str
    role: str
    agent: str | None

    def allows(self, role: str, agent: str | None) -> bool:
        """Return True if it may act in this role on this agent; None means all agents."""
        if self.agent is not None and self.agent != agent:
            return False
        return ROLES.index(self.role) >= ROLES.index(role)


EVERYTHING = Grant("insecure", "admin", None)


def hash_token(token: str) -> str:
    """Return the hash that the store has of a token. Tokens are long and random, so a plain hash cannot be reversed."""
    return sha256(token.encode(errors="replace")).hexdigest()


def add_token(store: Store, name: str, role: str, agent: str | None) -> str:
    """Make a token and store its hash; only the caller has the token itself."""
    one_of(role, "role", ROLES)
    check_name(name)
    if agent is not None:
        check_name(agent)
    token = f"klazy_{secrets.token_urlsafe(32)}"
    try:
        store.add_token(name, role, agent, hash_token(token))
    except TakenError:
        raise InvalidInput(
            f"A token named {name!r} exists already. Choose another name."
        ) from None
    return token


class TokenCache:
    """The tokens of a store, read again when they are older than two seconds."""

    def __init__(self, reader: "Reader") -> None:
        self._reader = reader
        self._reading = asyncio.Lock()
        self._grants: dict[str, Grant] = {}
        self._until = 0.0

    async def find(self, token: str) -> Grant | None:
        """Return what this token grants, if anything. One caller reads the store for all that are waiting."""
        if monotonic() > self._until:
            async with self._reading:
                if monotonic() > self._until:
                    await self._reader.run(self._read_all)
        return self._grants.get(hash_token(token))

    def _read_all(self) -> None:
        tokens = self._reader.read(lambda store: store.list_tokens())
        self._grants = {
            token.hash: Grant(token.name, token.role, token.agent) for token in tokens
        }
        self._until = monotonic() + TOKEN_SECONDS


class RateLimiter:
    """Lets each holder do something ``rate`` times a second, and as often at once."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._left: dict[str, tuple[float, float]] = {}

    def take(self, holder: str) -> bool:
        """Return True if the holder may do it now."""
        now = monotonic()
        left, at = self._left.get(holder, (self._rate, now))
        left = min(self._rate, left + (now - at) * self._rate)
        if len(self._left) > MAX_HOLDERS:
            # Then each of the many may ask once more, at worst.
            self._left.clear()
        is_allowed = left >= 1.0
        if is_allowed:
            left -= 1.0
        self._left[holder] = (left, now)
        return is_allowed


def count_wrong_token(wrong: RateLimiter, scope: Scope) -> None:
    """Count a wrong token of the address that sent this request; raise if there were too many."""
    address = scope["client"][0] if scope.get("client") else "unknown"
    if not wrong.take(address):
        raise _limit_rate(f"{address} has sent too many wrong tokens")


def _limit_rate(reason: str) -> Problem:
    return Problem(429, f"{reason}. Wait a second.", headers=SOON)


class AccessMiddleware:
    """The outermost part of the service: checks every request, limits its body, and counts and logs the answer."""

    def __init__(self, app: ASGIApp, service: "Service") -> None:
        self._app = app
        self._service = service
        self._settings = service.settings
        self._requests = RateLimiter(service.settings.rate)

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
                message["headers"] = [*message["headers"], *PAGE_HEADERS]
            await send(message)

        headers = Headers(scope=scope)
        try:
            try:
                grant = await self._admit(scope, headers)
                self._check_body(scope["path"], headers)
            except Exception as failed:
                await _answer_failure(failed, headers)(scope, receive, note_status)
                return
            scope["state"]["grant"] = grant
            await self._app(scope, self._limit_body(receive), note_status)
        finally:
            seconds = perf_counter() - start
            route = getattr(scope.get("route"), "path", "none")
            self._service.metrics.count_request(route, status, seconds)
            level = logging.INFO if status < 500 else logging.ERROR
            if _log.isEnabledFor(level):
                holder = None if grant is None else grant.name
                about = {
                    "method": scope["method"],
                    "path": scope["path"],
                    "status": status,
                    "token": holder,
                }
                _log.log(
                    level, "request", extra=about | {"milliseconds": round(1000 * seconds, 3)}
                )

    async def _admit(self, scope: Scope, headers: Headers) -> Grant | None:
        """Return what the caller may do; None on paths that are open to everyone."""
        if self._settings.insecure:
            # A browser may have been led here by another host name (DNS rebinding).
            host = urlsplit(f"//{headers.get('host', '')}").hostname
            if host not in LOOPBACK:
                raise Problem(
                    403, f"Without tokens the host must be loopback, got {host}. Use 127.0.0.1."
                )
            _check_origin(scope, headers)
            return EVERYTHING
        if scope["path"] in OPEN_PATHS:
            return None
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token:
            token = cookie_parser(headers.get("cookie", "")).get(COOKIE, "")
            if token:
                _check_origin(scope, headers)
        grant = await self._service.tokens.find(token.strip())
        if grant is None:
            if token:
                count_wrong_token(self._service.wrong, scope)
            detail = "A known token is required: send the header Authorization: Bearer TOKEN. klazy tokens add makes one."
            raise Problem(401, detail, headers={"WWW-Authenticate": "Bearer"})
        if not self._requests.take(grant.name):
            raise _limit_rate(
                f"The token {grant.name!r} may send {self._settings.rate:g} requests a second"
            )
        return grant

    def _check_body(self, path: str, headers: Headers) -> None:
        """Check the declared size of a request's body, and that it is JSON, unless a form of a page sent it."""
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > self._settings.body:
            raise self._refuse_size(length)
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        has_body = length != "0" or "transfer-encoding" in headers
        if has_body and kind != "application/json" and not path.startswith(FORM_PATHS):
            raise Problem(415, f"Content-Type must be application/json, got {kind!r}.")

    def _limit_body(self, receive: Receive) -> Receive:
        """Return ``receive`` for a body that must not be too large, nor come too slowly."""
        left = self._settings.body
        is_complete = False
        until = asyncio.get_running_loop().time() + self._settings.patience

        async def receive_limited() -> Message:
            nonlocal left, is_complete
            if is_complete:
                return await receive()
            try:
                async with asyncio.timeout_at(until):
                    message = await receive()
            except TimeoutError:
                limit = f"The body must arrive within {self._settings.patience:g} seconds"
                raise Problem(408, f"{limit}. Send it faster.", headers=_CLOSE_HEADER) from None
            if message["type"] == "http.disconnect":
                raise Problem(
                    400, "The body is incomplete. Send it again.", headers=_CLOSE_HEADER
                )
            left -= len(message.get("body", b""))
            if left < 0:
                raise self._refuse_size("more")
            is_complete = not message.get("more_body", False)
            return message

        return receive_limited

    def _refuse_size(self, got: str) -> Problem:
        detail = f"The body must have at most {self._settings.body} bytes, got {got}. Send it in parts."
        return Problem(413, detail, headers=_CLOSE_HEADER)


def _check_origin(scope: Scope, headers: Headers) -> None:
    """Reject what another site makes a browser send in its user's name."""
    origin = headers.get("origin")
    if scope["method"] in ("GET", "HEAD", "OPTIONS") or origin is None:
        return
    if urlsplit(origin).netloc != headers.get("host"):
        raise Problem(403, f"Only the service's own pages may send this, got origin {origin}.")


def _answer_failure(failed: Exception, headers: Headers) -> Response:
    """Return the answer to a request that was not admitted; browsers without a token are sent to the login."""
    problem = explain_failure(failed)
    if problem.status_code == 401 and "text/html" in headers.get("accept", ""):
        return RedirectResponse("/login", 303)
    if not isinstance(failed, Problem | StoreFailed):
        _log.exception("a check failed")
    return make_response(problem)
