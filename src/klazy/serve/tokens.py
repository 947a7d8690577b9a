"""Who may do what: tokens, of which the store keeps hashes only, and how often."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Iterable
from hashlib import sha256
from time import monotonic
from typing import NamedTuple

from klazy.base.checks import one_of, refusal
from klazy.live.opening import check_name
from klazy.live.store import Store, TakenError, Token

ROLES = ("reader", "writer", "admin")  # each may do what those before it may
KNOWN_SECONDS = 2.0  # for which a worker remembers the tokens of the store
MOST_BUCKETS = 10_000
WRONG_RATE = 5.0  # wrong tokens a second that an address may try


class Grant(NamedTuple):
    """What the holder of a token may do: with one agent, or with all if ``agent`` is None."""

    name: str
    role: str
    agent: str | None

    def allows(self, role: str, agent: str | None) -> bool:
        """Whether it may act in this role on this agent; None stands for all of them."""
        if self.agent is not None and self.agent != agent:
            return False
        return ROLES.index(self.role) >= ROLES.index(role)


EVERYTHING = Grant("insecure", "admin", None)


def hash_token(token: str) -> str:
    """What the store keeps of a token. Tokens are long and random, so a plain hash cannot be turned back."""
    return sha256(token.encode(errors="replace")).hexdigest()


def add_token(store: Store, name: str, role: str, agent: str | None) -> str:
    """Make a token and keep its hash; the token itself is only known to the caller."""
    one_of(role, "role", "tokens", ROLES)
    check_name(name)
    if agent is not None:
        check_name(agent)
    token = f"klazy_{secrets.token_urlsafe(32)}"
    try:
        store.add_token(name, role, agent, hash_token(token))
    except TakenError:
        remedy = "choose another, or revoke that one"
        raise refusal("tokens", "a name that is free", "name", repr(name), remedy) from None
    return token


class Keys:
    """The tokens of a store as a worker knows them, for a moment."""

    def __init__(
        self, read: Callable[[], Iterable[Token]], run: Callable[[Callable[[], None]], Awaitable[None]]
    ) -> None:
        self._read = read
        self._run = run  # in another thread
        self._reading = asyncio.Lock()
        self._grants: dict[str, Grant] = {}
        self._until = 0.0

    async def refresh(self) -> None:
        """Read them again if they are old; one reads for all that wait."""
        if monotonic() > self._until:
            async with self._reading:
                if monotonic() > self._until:
                    await self._run(self._read_all)

    def _read_all(self) -> None:
        self._grants = {token.hash: Grant(token.name, token.role, token.agent) for token in self._read()}
        self._until = monotonic() + KNOWN_SECONDS

    def find(self, token: str) -> Grant | None:
        """What this token grants, if anything."""
        return self._grants.get(hash_token(token))


class Buckets:
    """How often each holder may ask: ``rate`` times a second, and as often at once."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._left: dict[str, tuple[float, float]] = {}

    def take(self, holder: str) -> bool:
        """Whether the holder may ask now."""
        now = monotonic()
        left, at = self._left.get(holder, (self._rate, now))
        left = min(self._rate, left + (now - at) * self._rate)
        if len(self._left) > MOST_BUCKETS:
            self._left.clear()  # of many who have asked once, at worst each may ask once more
        if left < 1.0:
            self._left[holder] = (left, now)
            return False
        self._left[holder] = (left - 1.0, now)
        return True
