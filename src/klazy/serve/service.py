"""What a worker has, and what its paths and pages share."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import numpy as np
from starlette.requests import Request

from klazy.base.checks import Refused, refusal
from klazy.learners import Learner
from klazy.live.kept import Kept
from klazy.live.state import Live
from klazy.live.store import Store
from klazy.serve.creating import OWNER
from klazy.serve.desk import Desk, Played, Told
from klazy.serve.metrics import Metrics
from klazy.serve.problems import Problem, refuse_deleted
from klazy.serve.reading import Reader, spell_time
from klazy.serve.settings import Settings
from klazy.serve.tokens import Grant, Keys


class Service:
    """What a worker has: the desk that plays, a reader, the tokens and the counters."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.metrics = Metrics()
        self.desk = Desk(Store(settings.store, settings.sync, owner="serve"))
        self.reader = Reader(lambda: Store(settings.store, read_only=True, owner="serve"))
        self.keys = Keys(lambda: self.reader.read(lambda store: store.list_tokens()))
        self._warm: set[str] = set()

    def close(self) -> None:
        """Finish what was asked, and let go of the store."""
        self.desk.close()
        self.reader.close()

    async def prepare(self, names: list[str]) -> None:
        """Compile what agents need before the desk takes them on: it must not make others wait."""
        unknown = [name for name in names if not self.desk.knows(name)]
        if unknown:
            await asyncio.to_thread(self._warm_up, unknown)

    def _warm_up(self, names: list[str]) -> None:
        for name in names:
            configuration = self.reader.find(name).configuration
            if configuration not in self._warm:
                about = json.loads(configuration)
                live = Live(Learner.from_dict(about["learner"]), about["engine"], None, None)
                if live.engine == "compiled":
                    live.kernel(live.flat.copy(), np.zeros(live.learner.domain.dim))
                self._warm.add(configuration)

    async def play(self, told: Told) -> Played:
        """End a round, and count it."""
        await self.prepare([told.agent])
        played = await self.desk.ask(lambda desk: desk.play(told), agents=[told.agent])
        if told.ends_round and not played.dropped:
            self.metrics.count_round(told.agent, played)
        return played


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

    def do(desk: Desk) -> dict[str, Any]:
        kept = desk.find(name)
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
        "created": spell_time(kept.agent.at),
        "hitting": kept.hitting,
        "switching": kept.switching,
        "guards": None if live.guards is None else live.guards.to_dict(),
        "frozen": live.guarded is not None and live.guarded.frozen,
        "deleted": kept.deleted,
        "pending": {round: x.tolist() for round, x in live.pending.items()},
        "probes": [x.tolist() for x in live.probes],
    }
