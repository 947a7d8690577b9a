"""The service: the thread that plays rounds, readers, tokens and counters, shared by paths and pages."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from time import monotonic
from typing import Any, TypeVar

import numpy as np
from starlette.requests import Request

from klazy.base.checks import InvalidInput
from klazy.learners import Learner
from klazy.live.inspection import Tallies, describe_agent
from klazy.live.state import AgentState
from klazy.live.store import StoreFailed, TakenError, open_store
from klazy.live.stored import StoredAgent
from klazy.serve.access import WRONG_RATE, Grant, RateLimiter, TokenCache
from klazy.serve.metrics import Metrics
from klazy.serve.problems import SOON, Problem, refuse_deleted
from klazy.serve.reading import Reader
from klazy.serve.settings import Settings
from klazy.serve.timeline import Timelines
from klazy.serve.worker import Bulk, RoundRequest, RoundResult, RoundWorker

# How often rounds are computed again that other processes play meanwhile.
ATTEMPTS = 3
# How long the answer of check_ready is valid.
READY_SECONDS = 1.0
AGENTS_PER_LOOKUP = 500
# The number of threads that read histories, draw pages and compare.
READERS = 4
Result = TypeVar("Result")


class Service:
    """A worker process of the service: the thread that plays rounds, a reader, the tokens and the counters.

    Tokens and agents by name, which every request needs, are looked up by a connection and a thread of their own, so that no
    request waits for a long history.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.metrics = Metrics()
        store = open_store(settings.store, settings.sync)
        self.worker = RoundWorker(store, settings, self.metrics.count_loss)
        self.reader = Reader(open_store(settings.store, read_only=True), READERS)
        self.lookups = Reader(open_store(settings.store, read_only=True), 1)
        # For metrics; used while the reader is locked.
        self.tallies = Tallies()
        # For charts; likewise.
        self.timelines = Timelines()
        self.tokens = TokenCache(self.lookups)
        # Tokens that addresses have tried.
        self.wrong = RateLimiter(WRONG_RATE)
        self._warm: set[str] = set()
        # Agents that long requests write to, until these end.
        self._held: dict[str, asyncio.Event] = {}
        self._looking = asyncio.Lock()
        # When the service last checked that the store can be written to, and what came of it.
        self._looked = float("-inf")
        self._failed: InvalidInput | None = None

    def close(self) -> None:
        """Finish all requests, and close the store."""
        self.worker.close()
        self.reader.close()
        self.lookups.close()

    async def prepare(self, names: list[str]) -> None:
        """Compile the kernels of agents before their rounds are played: that must not make others wait."""
        unknown = [name for name in names if name not in self.worker.agents]
        for first in range(0, len(unknown), AGENTS_PER_LOOKUP):
            some = unknown[first : first + AGENTS_PER_LOOKUP]
            for configuration in await self.lookups.run(self.lookups.read_configurations, some):
                if configuration not in self._warm:
                    await asyncio.to_thread(_warm_up, configuration)
                    self._warm.add(configuration)

    async def look(
        self, name: str, find: Callable[[RoundWorker], Result], *, long: bool = False
    ) -> Result:
        """Return what ``find`` finds about an agent; it writes nothing."""
        await self.prepare([name])
        return await self.worker.ask(find, long=long)

    async def play(
        self, requests: list[RoundRequest], *, long: bool = False
    ) -> list[RoundResult]:
        """End rounds, or none of them if one is rejected, and count them; more than one of them takes ``long``."""
        names = sorted({request.agent for request in requests})
        await self.prepare(names)
        if long or names[0] in self.worker.slow:
            results = await self._play_in_parts(requests, names)
        else:
            (request,) = requests
            await self.wait_for(request.agent)
            results = [await self.worker.ask(lambda worker: worker.play(request), agents=names)]
        for request, result in zip(requests, results, strict=True):
            # Feedback of an earlier round leaves the present one open.
            if request.round is None and not result.dropped:
                self.metrics.count_round(request.agent, result)
        return results

    async def _play_in_parts(
        self, requests: list[RoundRequest], names: list[str]
    ) -> list[RoundResult]:
        """Compute rounds in parts, between which others are served; then commit them all at once.

        If another process plays one of these agents meanwhile, all rounds are computed again.
        """
        async with self._hold(names):
            for attempt in range(ATTEMPTS):
                bulk = Bulk(requests, self.worker.store, is_careful=attempt > 0)
                while not bulk.is_complete:
                    await self.worker.ask(lambda worker, bulk=bulk: worker.go_on(bulk), long=True)
                # Others have played these agents meanwhile if a round does not follow the last one.
                with suppress(TakenError):
                    # What takes long has a transaction of its own, so that SQLite need not be able to undo a part of it.
                    return await self.worker.ask(
                        lambda worker, bulk=bulk: worker.finish(bulk), agents=names, long=True
                    )
        detail = (
            "Another process keeps playing these agents. Send it again, or fewer rounds at once."
        )
        raise Problem(503, detail, headers=SOON)

    @asynccontextmanager
    async def _hold(self, names: list[str]) -> AsyncIterator[None]:
        """Make other requests to these agents wait until the end of a ``with`` block."""
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
        """Raise an error if the store cannot be written to; it is tried at most once a second."""
        async with self._looking:
            if monotonic() > self._looked + READY_SECONDS:
                self._failed = None
                try:
                    await self.worker.ask(lambda worker: worker.store.touch(), agents=[])
                except InvalidInput as failed:
                    self._failed = failed
                self._looked = monotonic()
        if self._failed is not None:
            raise StoreFailed(*self._failed.args)


def _warm_up(configuration: str) -> None:
    """Compile the kernel of an agent by a round of another one, alone and with others."""
    data = json.loads(configuration)
    state = AgentState(Learner.from_dict(data["learner"]), data["engine"])
    g = np.zeros(state.learner.domain.dim)
    if state.engine == "compiled":
        state.kernel(state.form.copy(), g)
    if state.is_plain:
        from klazy.kernels.fleet import play_fleet

        play_fleet(state.kernel, state.form[None].copy(), g[None], np.arange(1), state.layout.x)


def allow(request: Request, role: str, agent: str | None) -> Grant:
    """Raise an error if a token does not allow this for the agent, or for all agents."""
    grant: Grant = request.state.grant
    if not grant.allows(role, agent):
        what = "all agents" if agent is None else repr(agent)
        needed = f"A token of role {role} for {what} is required"
        raise Problem(403, f"{needed}, got {grant.name!r}. Ask for another token.")
    return grant


async def change(
    service: Service, name: str, make: Callable[[StoredAgent], object]
) -> dict[str, Any]:
    """Change an agent outside of its rounds; return what it is then."""
    await service.prepare([name])
    await service.wait_for(name)

    def do(worker: RoundWorker) -> dict[str, Any]:
        agent = worker.find_to_write(name)
        try:
            make(agent)
        except InvalidInput:
            if agent.deleted:
                raise refuse_deleted(name) from None
            raise
        return describe_agent(agent)

    return await service.worker.ask(do, agents=[name])
