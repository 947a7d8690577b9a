"""The one thread of a worker that plays rounds: what has piled up is one transaction, and is answered once it is committed.

A worker keeps no state but a cache: any worker serves any agent, and the store decides who was first. Long work is done in
parts outside of transactions, and between two of them whatever has piled up.
"""

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from threading import Thread
from time import thread_time
from typing import Any, NamedTuple

import numpy as np

from klazy.base.checks import Array, Refused, refusal, vector
from klazy.learners.base import count_numbers
from klazy.live.draft import Draft
from klazy.live.kept import Kept
from klazy.live.opening import revive_agent
from klazy.live.overtaken import Overtaken
from klazy.live.records import WAITS, check_id, read_feedback
from klazy.live.rows import Dropped
from klazy.live.store import Listed, Store, StoreFailed
from klazy.serve.creating import OWNER
from klazy.serve.problems import Problem, explain, refuse_deleted, refuse_unknown

AT_ONCE = 256  # requests in a transaction at most
CACHED = 20_000  # agents
PART_SECONDS = 0.02  # of processor time for which a long request has the desk before others have it
SLOW_SECONDS = 0.002  # of processor time of a round, beyond which those of its agent are long requests
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
class Bulk:
    """Rounds that are ended all or not at all, and how far they are worked out."""

    rounds: list[Told]
    draft: Draft
    agents: dict[str, Kept] = field(default_factory=dict)  # ahead of the store
    played: list[Played] = field(default_factory=list)
    seconds: float = 0.0  # of processor time so far

    @property
    def is_whole(self) -> bool:
        """Return True if all rounds are worked out."""
        return len(self.played) == len(self.rounds)


class Seen(NamedTuple):
    """How far an agent was when a round of it was acknowledged: the record that came next, and the last one's checksum."""

    agent: Listed
    n: int
    last: int | None
    t: int


@dataclass
class _Job:
    do: Callable[["Desk"], Any]
    agents: list[str] | None
    long: bool
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    value: Any = None
    error: Exception | None = None


class Desk:
    """The agents of a store, and the thread that alone touches them.

    ``budget`` is how many seconds of processor time a request may take; ``numbers`` how many numbers the state of an agent may
    have, with the rounds that wait for their feedback; ``note_loss`` is called with the name of an agent whose
    acknowledged rounds are no longer in the store.
    """

    def __init__(self, store: Store, budget: float, numbers: int, note_loss: Callable[[str], None]) -> None:
        self.store = store
        self._budget = budget
        self._numbers = numbers
        self._note_loss = note_loss
        self._agents: OrderedDict[str, Kept] = OrderedDict()
        self._current: set[str] = set()  # agents that are known to be as the store has them
        self._seen: dict[str, Seen] = {}  # what was acknowledged, though it may be forgotten above
        self._slow: set[str] = set()  # agents whose rounds take long
        self.lost: dict[str, Seen] = {}  # agents whose store has gone back, until a request is refused for it
        self._connections = store.database.connections
        self._inbox: SimpleQueue[_Job | None] = SimpleQueue()
        self._short: deque[_Job] = deque()
        self._long: deque[_Job] = deque()
        self._long_is_next = False
        self._ends = False
        self._thread = Thread(target=self._run, name="desk")
        self._thread.start()

    async def ask(
        self, do: Callable[["Desk"], Any], *, agents: list[str] | None = None, long: bool = False
    ) -> Any:
        """What ``do`` returns. What it writes is on disk by then; if it fails, nothing is.

        ``agents`` are those that it writes to; None if it only reads. Of what takes ``long``, one is done at a time, and what
        does not take long between any two of them.
        """
        loop = asyncio.get_running_loop()
        job = _Job(do, agents, long, loop, loop.create_future())
        self._inbox.put(job)
        return await job.future

    def close(self) -> None:
        """Finish what was asked, and let go of the store."""
        self._inbox.put(None)
        self._thread.join()
        self.store.close()

    def knows(self, name: str) -> bool:
        """Whether this agent is in the cache."""
        return name in self._agents

    def is_slow(self, name: str) -> bool:
        """Return True if the last round of this agent took long."""
        return name in self._slow

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
        """One long job, or the short ones that have piled up, in turn; nothing at the end."""
        self._sort_inbox()
        if self._long and (self._long_is_next or not self._short):
            self._long_is_next = False
            return [self._long.popleft()]
        self._long_is_next = True
        return [self._short.popleft() for _ in range(min(AT_ONCE, len(self._short)))]

    def _sort_inbox(self) -> None:
        while True:
            is_idle = not (self._short or self._long or self._ends)
            try:
                job = self._inbox.get(block=is_idle)
            except Empty:
                return
            if job is None:
                self._ends = True
            elif job.long:
                self._long.append(job)
            else:
                self._short.append(job)

    def _work(self, group: list[_Job]) -> None:
        written = {name for job in group for name in job.agents or ()}
        try:
            if any(job.agents is not None for job in group):
                with self.store.together():
                    self._lock(written)
                    self._do_all(group)
                self._note_seen(written)
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

    def _note_seen(self, names: Iterable[str]) -> None:
        """Remember what is committed now."""
        for name in names:
            kept = self._agents.get(name)
            if kept is not None:
                self._seen[name] = Seen(kept.agent, kept.n, kept.last, kept.live.t)

    def _do_all(self, group: list[_Job]) -> None:
        self.store.require_place()
        if self.store.has_changed():
            self._current.clear()
        if self.store.database.connections != self._connections:  # perhaps to another server
            self._connections = self.store.database.connections
            self._look_for_losses()
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
        if kept is not None and name in self._current:
            return kept
        if kept is None or not kept.is_current():
            kept = self._refresh(name, kept)
        self._agents[name] = kept
        self._agents.move_to_end(name)
        self._current.add(name)
        if len(self._agents) > CACHED:
            oldest, _ = self._agents.popitem(last=False)
            self._current.discard(oldest)
        return kept

    def _refresh(self, name: str, kept: Kept | None) -> Kept:
        """Read an agent, or what others have written since."""
        listed = self.store.find_agent(name)
        if listed is None:
            self._forget(name)
            if name in self._seen:
                self._note_lost(name)
                del self.lost[name]  # the answer says it
            raise refuse_unknown(name)
        if kept is None or kept.agent != listed:  # it was made again after the store had gone back
            kept = revive_agent(self.store, listed)
        else:
            kept.catch_up()
        seen = self._seen.get(name)
        if seen is not None and not self._follows(kept, seen):
            self._note_lost(name)
        return kept

    def _follows(self, kept: Kept, seen: Seen) -> bool:
        """Return True if the store still has what was acknowledged of an agent, or has pruned it since."""
        if kept.agent != seen.agent or kept.n < seen.n:
            return False
        if seen.last is None or kept.last == seen.last:
            return True
        return self.store.find_checksum(kept.agent.id, seen.n - 1) in (None, seen.last)

    def _note_lost(self, name: str) -> None:
        """Remember, log and count that acknowledged rounds of an agent are gone; the first one starts a search for others."""
        seen = self._seen.pop(name)
        is_first = not self.lost
        self.lost[name] = seen
        _log.error("the store has gone back", extra={"agent": name, "acknowledged": seen.t - 1})
        self._note_loss(name)
        if is_first:
            self._look_for_losses()

    def _look_for_losses(self) -> None:
        """Find agents that the store has lost acknowledged rounds of, among those that this worker has played."""
        written = {name: seen for name, seen in self._seen.items() if seen.last is not None}
        checksums = self.store.find_checksums([(seen.agent.id, seen.n - 1) for seen in written.values()])
        for name, seen in written.items():
            if checksums.get((seen.agent.id, seen.n - 1)) != seen.last and name in self._seen:
                self._current.discard(name)
                with suppress(Problem):
                    self.find(name)

    def find_to_write(self, name: str) -> Kept:
        """An agent as it is now; once refused if the store has gone back, so that whoever plays it knows."""
        kept = self.find(name)
        seen = self.lost.pop(name, None)
        if seen is not None:
            words = f"the store has gone back, and {name!r} with it, from round t={seen.t}"
            remedy = f"play the decision of round t={kept.live.t}, and send again what came after it"
            raise Overtaken(f"The service came too late: {words}; {remedy}.")
        return kept

    def find_present(self, name: str) -> Kept:
        """An agent as it is now, unless it was deleted."""
        kept = self.find(name)
        if kept.deleted:
            raise refuse_deleted(name)
        return kept

    def play(self, told: Told) -> Played:
        """End a round; one whose id was taken before is answered as it was then."""
        return self._play(self.find_to_write(told.agent), told)

    def _play(self, kept: Kept, told: Told) -> Played:
        start = thread_time()
        played = self._play_plain(kept, told) or self._play_any(kept, told)
        if thread_time() - start > SLOW_SECONDS:
            self._slow.add(told.agent)
        else:
            self._slow.discard(told.agent)
        return played

    def _play_plain(self, kept: Kept, told: Told) -> Played | None:
        """End a round ahead of the store with a single kernel call; None if it is not of that kind."""
        is_plain = told.hint is None and told.t is None and told.round is None
        if not isinstance(kept.store, Draft) or not is_plain or told.g is None or told.id is None:
            return None
        id = check_id(told.id)
        if kept.store.has_taken(kept.agent.id, id):
            return None
        prepared = kept.prepare(vector(told.g, "g", "Agent.update"), id)
        if prepared is None:
            return None
        kept.store.append(prepared.row, prepared.last)
        paid = kept.switching
        kept.show(prepared)
        x = prepared.x.copy()
        return Played(kept.live.t, x, kept.live.terms.name(x), False, kept.switching - paid)

    def _play_any(self, kept: Kept, told: Told) -> Played:
        id = "" if told.id is None else check_id(told.id)
        if told.t is not None and told.t != kept.live.t:
            made = self._recall(kept, id)
            if made is not None:
                return made
            words = f"round t={told.t} of {told.agent!r} is not the one under way"
            remedy = f"play the decision of round t={kept.live.t}"
            raise Overtaken(f"The service came too late: {words}; {remedy}.")
        if told.waits:
            self._check_room(kept)
        n = kept.n
        paid = kept.switching
        try:
            x = _tell(kept, told, id)
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

    def _check_room(self, kept: Kept) -> None:
        """Refuse another round that waits if the agent's state would be too large with it."""
        numbers = count_numbers(kept.live.state) + kept.live.learner.domain.dim
        if numbers > self._numbers:
            condition = f"at most {self._numbers} numbers in the state of an agent, with its rounds that wait for feedback"
            remedy = "send feedback, give some of them up, or start it with --numbers"
            raise refusal(OWNER, condition, "numbers", numbers, remedy)

    def _recall(self, kept: Kept, id: str) -> Played | None:
        """What was answered to the round of this id."""
        row = kept.store.find_round(kept.agent.id, id) if id else None
        if row is None:
            return None
        x = np.frombuffer(row.decision, "<f8").astype(np.float64)
        feedback = read_feedback(row)
        ended = feedback is None or feedback[0] == WAITS  # late feedback leaves the round under way
        return Played(row.t + ended, x, kept.live.terms.name(x), repeated=True)

    def begin(self, rounds: list[Told], careful: bool) -> Bulk:
        """Many rounds, of which none is worked out yet; see :class:`~klazy.live.draft.Draft` for ``careful``."""
        return Bulk(rounds, Draft(self.store, careful))

    def go_on(self, bulk: Bulk) -> None:
        """Work out some more of these rounds; the refusal of one says which."""
        start = thread_time()
        seconds = 0.0
        while not bulk.is_whole and seconds < PART_SECONDS:
            told = bulk.rounds[len(bulk.played)]
            try:
                kept = bulk.agents.get(told.agent)
                if kept is None:
                    kept = self.find_to_write(told.agent).copy_to(bulk.draft)
                    bulk.agents[told.agent] = kept
                bulk.played.append(self._play(kept, told))
            except (Refused, Overtaken, Problem) as refused:
                for each in bulk.rounds:  # whoever sent them knows now
                    self.lost.pop(each.agent, None)
                raise _name_place(refused, len(bulk.played), told.agent) from refused
            seconds = thread_time() - start
        bulk.seconds += seconds
        if bulk.seconds > self._budget and not bulk.is_whole:
            condition = f"rounds that take at most {self._budget:g} seconds together"
            got = f"{len(bulk.rounds)}, of which {len(bulk.played)} took so long"
            raise Problem(413, str(refusal(OWNER, condition, "rounds", got, "send fewer at once")))

    def finish(self, bulk: Bulk) -> list[Played] | None:
        """Commit rounds that are worked out; None, and nothing has happened, if others have played these agents meanwhile."""
        if not bulk.draft.commit():
            return None
        for name, kept in bulk.agents.items():
            kept.move_to(self.store)
            self._agents[name] = kept
            self._current.add(name)
        return bulk.played

    def _forget(self, name: str) -> None:
        self._agents.pop(name, None)
        self._current.discard(name)


def _tell(kept: Kept, told: Told, id: str) -> Array:
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
