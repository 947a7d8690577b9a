"""What a worker has, and what its paths and pages share."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from time import monotonic
from typing import Any

import numpy as np
from starlette.requests import Request

from klazy.base.checks import Refused, refusal
from klazy.learners import Learner
from klazy.live.kept import Kept
from klazy.live.state import Live
from klazy.live.store import Store, StoreFailed
from klazy.serve.access import WRONG_RATE, Grant, RateLimiter, TokenCache
from klazy.serve.creating import OWNER
from klazy.serve.desk import Desk, Played, Told
from klazy.serve.metrics import Metrics
from klazy.serve.problems import Problem, refuse_deleted
from klazy.serve.reading import Reader, format_time
from klazy.serve.settings import Settings

ATTEMPTS = 3  # at rounds that others play meanwhile
READY_SECONDS = 1.0  # for which the answer to whether the store can be written to holds
LOOKED_UP_AT_ONCE = 500  # agents
READERS = 4  # threads that read histories, draw pages and compare


class Service:
    """What a worker has: the desk that plays, a reader, the tokens and the counters.

    What every request needs, tokens and agents by name, is looked up by a connection and a thread of its own, so that it never
    waits for a long history.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.metrics = Metrics()
        store = Store(settings.store, settings.sync, owner="serve")
        self.desk = Desk(store, settings.budget, settings.numbers, self.metrics.count_loss)
        self.reader = Reader(Store(settings.store, read_only=True, owner="serve"), READERS)
        self.lookups = Reader(Store(settings.store, read_only=True, owner="serve"), 1)
        self.tokens = TokenCache(self.lookups)
        self.wrong = RateLimiter(WRONG_RATE)  # tokens that addresses have tried
        self._warm: set[str] = set()
        self._held: dict[str, asyncio.Event] = {}  # agents that long requests write to, until these end
        self._looking = asyncio.Lock()
        self._looked = float("-inf")  # when it was asked last whether the store can be written to
        self._failed: Refused | None = None  # and what came of it

    def close(self) -> None:
        """Finish what was asked, and let go of the store."""
        self.desk.close()
        self.reader.close()
        self.lookups.close()

    async def prepare(self, names: list[str]) -> None:
        """Compile what agents need before the desk takes them on: it must not make others wait."""
        unknown = [name for name in names if not self.desk.knows(name)]
        for first in range(0, len(unknown), LOOKED_UP_AT_ONCE):
            some = unknown[first : first + LOOKED_UP_AT_ONCE]
            for configuration in await self.lookups.run(self.lookups.read_configurations, some):
                if configuration not in self._warm:
                    await asyncio.to_thread(_warm_up, configuration)
                    self._warm.add(configuration)

    async def play(self, told: Told) -> Played:
        """End a round, and count it."""
        await self.prepare([told.agent])
        if self.desk.is_slow(told.agent):
            (played,) = await self._play_in_parts([told])
        else:
            await self.wait_for(told.agent)
            played = await self.desk.ask(lambda desk: desk.play(told), agents=[told.agent])
        self._count(told, played)
        return played

    async def play_all(self, rounds: list[Told]) -> list[Played]:
        """End many rounds, or none of them if one is refused, and count them."""
        await self.prepare(sorted({told.agent for told in rounds}))
        all_played = await self._play_in_parts(rounds)
        for told, played in zip(rounds, all_played, strict=True):
            self._count(told, played)
        return all_played

    def _count(self, told: Told, played: Played) -> None:
        if told.ends_round and not played.dropped:
            self.metrics.count_round(told.agent, played)

    async def _play_in_parts(self, rounds: list[Told]) -> list[Played]:
        """Work out rounds in parts, between which others are served; then commit them all at once.

        If another process plays one of these agents meanwhile, all is worked out again.
        """
        names = sorted({told.agent for told in rounds})
        async with self._hold(names):
            for attempt in range(ATTEMPTS):
                bulk = self.desk.begin(rounds, careful=attempt > 0)
                while not bulk.is_whole:
                    await self.desk.ask(lambda desk, bulk=bulk: desk.go_on(bulk), long=True)
                played = await self.desk.ask(lambda desk, bulk=bulk: desk.finish(bulk), agents=names)
                if played is not None:
                    return played
        remedy = "send it again, or fewer rounds at once"
        said = refusal(OWNER, "agents that nobody else plays meanwhile", "agents", len(names), remedy)
        raise Problem(503, str(said), headers={"Retry-After": "1"})

    @asynccontextmanager
    async def _hold(self, names: list[str]) -> AsyncIterator[None]:
        """Have whoever else writes to these agents by this worker wait until the end."""
        while waits := [self._held[name] for name in names if name in self._held]:
            await waits[0].wait()
        ended = asyncio.Event()
        self._held.update(dict.fromkeys(names, ended))
        try:
            yield
        finally:
            for name in names:
                del self._held[name]
            ended.set()

    async def wait_for(self, name: str) -> None:
        """Wait until no long request writes to this agent."""
        while name in self._held:
            await self._held[name].wait()

    async def check_ready(self) -> None:
        """Refuse unless the store can be written to; it is tried at most once a second, however often this is asked."""
        async with self._looking:
            if monotonic() > self._looked + READY_SECONDS:
                self._failed = None
                try:
                    await self.desk.ask(lambda desk: desk.store.touch(), agents=[])
                except Refused as failed:
                    self._failed = failed
                self._looked = monotonic()
        if self._failed is not None:
            raise StoreFailed(*self._failed.args)


def _warm_up(configuration: str) -> None:
    about = json.loads(configuration)
    live = Live(Learner.from_dict(about["learner"]), about["engine"], None, None)
    if live.engine == "compiled":
        live.kernel(live.flat.copy(), np.zeros(live.learner.domain.dim))


def allow(request: Request, role: str, agent: str | None) -> Grant:
    """Refuse whoever may not do this to the agent, or to all of them."""
    grant: Grant = request.state.grant
    if not grant.allows(role, agent):
        what = "all agents" if agent is None else repr(agent)
        remedy = "ask for another token"
        said = refusal(OWNER, f"a token of role {role} for {what}", "token", repr(grant.name), remedy)
        raise Problem(403, str(said))
    return grant


async def change(service: Service, name: str, make: Callable[[Kept], None]) -> dict[str, Any]:
    """Change an agent outside of its rounds; what it is then."""
    await service.prepare([name])
    await service.wait_for(name)

    def do(desk: Desk) -> dict[str, Any]:
        kept = desk.find_to_write(name)
        try:
            make(kept)
        except Refused:
            if kept.deleted:
                raise refuse_deleted(name) from None
            raise
        return summarize(kept)

    return await service.desk.ask(do, agents=[name])


def summarize(kept: Kept) -> dict[str, Any]:
    """An agent as JSON values."""
    live = kept.live
    names = live.terms.name(live.x)
    return {
        "name": kept.agent.name,
        "t": live.t,
        "x": live.x.tolist(),
        "decision": names if isinstance(names, dict) else None,
        **live.about_configuration(),
        "created": format_time(kept.agent.at),
        "hitting": kept.hitting,
        "switching": kept.switching,
        "guards": None if live.guards is None else live.guards.to_dict(),
        "frozen": live.guarded is not None and live.guarded.frozen,
        "deleted": kept.deleted,
        "pending": {round: x.tolist() for round, x in live.pending.items()},
        "probes": [x.tolist() for x in live.probes],
    }
