"""The one thread of a worker that plays rounds: what has piled up is one transaction, and is answered once it is committed.

A worker keeps no state but a cache: any worker serves any agent, and the store decides who was first.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

import numpy as np

from klazy.base.checks import Array, Refused, vector
from klazy.live.kept import Kept, play_many
from klazy.live.opening import revive_agent
from klazy.live.overtaken import Overtaken
from klazy.live.records import WAITS, check_id, read_feedback
from klazy.live.rows import Dropped
from klazy.live.store import Store, StoreFailed
from klazy.serve.problems import Problem, explain, refuse_deleted, refuse_unknown

AT_ONCE = 256  # requests in a transaction at most
CACHED = 20_000  # agents
_log = logging.getLogger("klazy.serve")


@dataclass(slots=True)
class Told:
    """A round as a request tells it."""

    agent: str
    g: list[float] | None = None
    hint: Any = None
    gradient: bool = False
    row: Any = None
    id: str | int | None = None
    t: int | None = None
    round: int | None = None
    cost: list[float] | None = None
    waits: bool = False
    gives_up: bool = False

    @property
    def ends_round(self) -> bool:
        """Whether a round is over after it; the feedback of an earlier one leaves the present one under way."""
        return self.round is None


@dataclass(slots=True)
class Played:
    """What came of it: ``x`` is the decision of round ``t``, ``decision`` the same by name where there are names.

    If it was played now: what the move cost, and which guards acted. If its row was ``dropped``, the round goes on.
    """

    t: int
    x: Array
    decision: Any = None
    repeated: bool = False
    moved: float = 0.0
    guards: str = ""
    dropped: bool = False


@dataclass
class _Job:
    do: Callable[["Desk"], Any]
    agents: list[str] | None
    alone: bool
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    value: Any = None
    error: Exception | None = None


class Desk:
    """The agents of a store, and the thread that alone touches them."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._agents: OrderedDict[str, Kept] = OrderedDict()
        self._current: set[str] = set()  # agents that are known to be as the store has them
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._next: _Job | None = None  # one that was taken from the queue, and comes next
        self._thread = Thread(target=self._run, name="desk")
        self._thread.start()

    async def ask(
        self, do: Callable[["Desk"], Any], *, agents: list[str] | None = None, alone: bool = False
    ) -> Any:
        """What ``do`` returns. What it writes is on disk by then; if it fails, nothing is.

        ``agents`` are those that it writes to; None if it only reads. What is done ``alone`` is a transaction of its own, and
        begins it itself.
        """
        loop = asyncio.get_running_loop()
        job = _Job(do, agents, alone, loop, loop.create_future())
        self._jobs.put(job)
        return await job.future

    def close(self) -> None:
        """Finish what was asked, and let go of the store."""
        self._jobs.put(None)
        self._thread.join()
        self.store.close()

    def knows(self, name: str) -> bool:
        """Whether this agent is in the cache."""
        return name in self._agents

    def _run(self) -> None:
        while True:
            group = self._take_group()
            if not group:
                return
            self._work(group)
            for loop in {job.loop for job in group}:
                answered = [job for job in group if job.loop is loop]
                try:
                    loop.call_soon_threadsafe(_answer, answered)
                except RuntimeError:  # the loop was closed: nobody waits
                    _log.warning("answers came after the end", extra={"count": len(answered)})

    def _take_group(self) -> list[_Job]:
        """What has piled up; nothing at the end."""
        first = self._next or self._jobs.get()
        self._next = None
        group = [] if first is None else [first]
        while group and not group[0].alone and len(group) < AT_ONCE:
            try:
                job = self._jobs.get_nowait()
            except Empty:
                break
            if job is None:
                self._jobs.put(None)
                break
            if job.alone:
                self._next = job
                break
            group.append(job)
        return group

    def _work(self, group: list[_Job]) -> None:
        try:
            writes = any(job.agents is not None for job in group)
            if writes and not group[0].alone:
                with self.store.together():
                    self._lock({name for job in group for name in job.agents or ()})
                    self._do_all(group)
            else:
                self._do_all(group)
        except Exception as failed:  # nothing of the group is in the store
            if not isinstance(failed, StoreFailed):
                _log.exception("a request failed")
            self._forget_all()
            for job in group:
                job.error = failed

    def _forget_all(self) -> None:
        self._agents.clear()
        self._current.clear()

    def _do_all(self, group: list[_Job]) -> None:
        if self.store.has_changed():
            self._current.clear()
        for job in group:
            self._do(job)

    def _lock(self, names: set[str]) -> None:
        """Take the turn of all agents at once, so that two workers never wait for each other."""
        ids = []
        for name in names:
            kept = self._agents.get(name)
            found = self.store.find_agent(name) if kept is None else kept.agent
            if found is not None:
                ids.append(found.id)
        self.store.lock_agents(ids)

    def _do(self, job: _Job) -> None:
        try:
            job.value = job.do(self)
        except StoreFailed:
            raise
        except (Refused, Overtaken, Problem) as refused:
            job.error = refused

    # What jobs do

    def find(self, name: str) -> Kept:
        """An agent as it is now, deleted or not."""
        kept = self._agents.get(name)
        if kept is None:
            listed = self.store.find_agent(name)
            if listed is None:
                raise refuse_unknown(name)
            kept = revive_agent(self.store, listed)
            self._agents[name] = kept
            self._current.add(name)
            if len(self._agents) > CACHED:
                oldest, _ = self._agents.popitem(last=False)
                self._current.discard(oldest)
        elif name not in self._current:
            kept.catch_up()
            self._agents.move_to_end(name)
            self._current.add(name)
        return kept

    def find_present(self, name: str) -> Kept:
        """An agent as it is now, unless it was deleted."""
        kept = self.find(name)
        if kept.deleted:
            raise refuse_deleted(name)
        return kept

    def play(self, told: Told) -> Played:
        """End a round; one whose id was taken before is answered as it was then."""
        kept = self.find(told.agent)
        id = "" if told.id is None else check_id(told.id)
        if told.t is not None and told.t != kept.live.t:
            made = self._recall(kept, id)
            if made is not None:
                return made
            words = f"round t={told.t} of {told.agent!r} is not the one under way"
            remedy = f"play the decision of round t={kept.live.t}"
            raise Overtaken(f"The service came too late: {words}; {remedy}.")
        n = kept.n
        paid = kept.switching
        try:
            x = _end(kept, told, id)
        except Dropped:
            live = kept.live
            return Played(live.t, live.x, live.terms.name(live.x), dropped=True)
        except Refused:
            if kept.deleted:
                raise refuse_deleted(told.agent) from None
            raise
        if kept.n == n:  # no round was taken: nobody else can take one of these agents meanwhile
            made = self._recall(kept, id)
            if made is not None:
                return made
        guarded = kept.live.guarded
        acted = "" if guarded is None else guarded.acted
        return Played(kept.live.t, x, kept.live.terms.name(x), False, kept.switching - paid, acted)

    def _recall(self, kept: Kept, id: str) -> Played | None:
        """What was answered to the round of this id."""
        row = self.store.find_round(kept.agent.id, id) if id else None
        if row is None:
            return None
        x = np.frombuffer(row.decision, "<f8").astype(np.float64)
        feedback = read_feedback(row)
        ended = feedback is None or feedback[0] == WAITS  # late feedback leaves the round under way
        return Played(row.t + ended, x, kept.live.terms.name(x), repeated=True)

    def play_all(self, rounds: list[Told]) -> list[Played]:
        """End many rounds, or none of them if one is refused; the refusal says which."""
        played = self._play_at_once(rounds)
        if played is not None:
            return played
        played = []
        try:
            with self.store.together():
                self._lock({told.agent for told in rounds})
                if self.store.has_changed():
                    self._current.clear()
                for told in rounds:
                    played.append(self.play(told))
        except (Refused, Overtaken, Problem) as refused:
            for told in rounds[: len(played) + 1]:
                self._forget(told.agent)  # it may be ahead of the store
            raise _name_place(refused, len(played), rounds[len(played)].agent) from refused
        return played

    def _play_at_once(self, rounds: list[Told]) -> list[Played] | None:
        """The same in one step, if these are plain rounds of different agents and nothing is wrong with any of them."""
        if len({told.agent for told in rounds}) < len(rounds):
            return None
        plain = []
        paid = []
        for told in rounds:
            if told.g is None or told.hint is not None or told.t is not None or told.round is not None:
                return None
            try:
                kept = self.find(told.agent)
                id = "" if told.id is None else check_id(told.id)
                g = vector(told.g, "g", "Agent.update")
            except (Refused, Problem) as refused:
                if isinstance(refused, StoreFailed):
                    raise
                return None
            plain.append((kept, g, id))
            paid.append(kept.switching)
        points = play_many(self.store, plain)
        if points is None:
            return None
        played = []
        for (kept, _, _), before, x in zip(plain, paid, points, strict=True):
            name = kept.live.terms.name(x)
            played.append(Played(kept.live.t, x, name, False, kept.switching - before))
        return played

    def _forget(self, name: str) -> None:
        self._agents.pop(name, None)
        self._current.discard(name)


def _end(kept: Kept, told: Told, id: str) -> Array:
    """The point to play after what was told."""
    if told.gives_up:
        return kept.give_up(told.round, id)
    if told.waits:
        return kept.advance(id, True)
    if told.cost is not None:
        return kept.observe_cost(told.cost, id, True)
    if told.g is None:
        return kept.observe(told.row, id, True, told.round, told.hint)
    kept.live.check_gradient(told.gradient)
    return kept.play(told.g, told.hint, id, True, told.round)


def _name_place(refused: Exception, place: int, agent: str) -> Exception:
    """The same refusal, with the entry of the request that it is about."""
    if isinstance(refused, StoreFailed):
        return refused
    problem = explain(refused)
    return Problem(problem.status_code, problem.detail, **problem.more, entry=place, agent=agent)


def _answer(jobs: list[_Job]) -> None:
    for job in jobs:
        if job.future.cancelled():
            continue  # whoever asked is gone; what was committed stays
        if job.error is None:
            job.future.set_result(job.value)
        else:
            job.future.set_exception(job.error)
