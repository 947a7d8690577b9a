"""The thread that plays rounds: what has piled up is one transaction, and is answered once it is committed.

A worker has no state but a cache: any worker serves any agent, and the store decides who was first. Long work is done in parts
outside of transactions, and short requests are served between two parts.
"""

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from queue import SimpleQueue
from threading import Thread
from time import thread_time
from typing import Any, NamedTuple, cast

import numpy as np

from klazy.base.checks import Array, InvalidInput
from klazy.learners.base import count_numbers
from klazy.live import records
from klazy.live.rows import Dropped
from klazy.live.state import AgentState, Overtaken
from klazy.live.store import Store, StoreFailed, TakenError
from klazy.live.stored import StoredAgent, compute_together
from klazy.serve.problems import Problem, explain_failure, refuse_deleted, refuse_unknown
from klazy.serve.settings import Settings

REQUESTS_PER_TRANSACTION = 256
AGENTS_CACHED = 20_000
# Processor time that a long request gets before others are served.
PART_SECONDS = 0.02
# An agent whose round takes more processor time than this makes long requests.
SLOW_SECONDS = 0.002
# Rounds that are computed in one call have states of at most this many numbers together, so that no call takes long.
NUMBERS_TOGETHER = 50_000
_ID = records.Row._fields.index("id")
_log = logging.getLogger("klazy.serve")


@dataclass(slots=True)
class RoundRequest:
    """A round as a request describes it."""

    agent: str
    g: list[float] | None = None
    gradient: bool = False
    row: Any = None
    id: str | int | None = None
    t: int | None = None
    round: int | None = None
    cost: list[float] | None = None
    waits: bool = False
    gives_up: bool = False
    next_hint: list[float] | None = None
    next_forecast: Any = None
    next_limits: Any = None
    next_move_cost: float | None = None

    @property
    def is_plain(self) -> bool:
        """Return True if it has a gradient, perhaps an id, and nothing else."""
        return (
            self.g is not None
            and self.next_hint is None
            and self.row is None
            and self.t is None
            and self.round is None
            and self.cost is None
            and self.next_limits is None
            and self.next_move_cost is None
            and not (self.waits or self.gives_up)
        )

    def make_record(self, state: AgentState, id: str) -> records.Record:
        """Make the record of the round."""
        if self.gives_up:
            return state.record_given_up(self.round, id)
        if self.waits:
            return state.record_wait(id)
        if self.cost is not None:
            return state.record_cost(self.cost, id)
        limits = None
        if self.next_limits is not None:
            limits = (self.next_limits.lower, self.next_limits.upper)
        if self.g is None:
            return state.record_row(
                self.row, id, self.round, self.next_forecast, limits, self.next_move_cost
            )
        return state.record_gradient(
            self.g, id, self.round, self.gradient, self.next_hint, limits, self.next_move_cost
        )


@dataclass(slots=True)
class RoundResult:
    """The answer to a request: ``x`` is the decision of round ``t``, ``decision`` the same by name where there are names.

    If the round was played now: what the move cost, and which guards acted. If its row was ``dropped``, the round continues.
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
    """Rounds that end all or not at all, those that are computed so far, and a store for them until they are committed.

    ``agents`` are copies, ahead of the real store. A careful bulk computes one round after the other, and looks for its id
    there first; otherwise only the commit finds out that one is known.
    """

    requests: list[RoundRequest]
    store: Store
    is_careful: bool
    agents: dict[str, StoredAgent] = field(default_factory=dict)
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    # The rows of rounds with an id, by agent and id.
    ids: dict[tuple[int, str], tuple[Any, ...]] = field(default_factory=dict)
    results: list[RoundResult] = field(default_factory=list)
    # The agents that are due for a snapshot.
    due: set[int] = field(default_factory=set)
    # Processor time so far.
    seconds: float = 0.0

    @property
    def is_complete(self) -> bool:
        """Return True if all rounds are computed."""
        return len(self.results) == len(self.requests)

    def take(self, name: str, agent: StoredAgent) -> StoredAgent:
        """Return a copy of an agent, which plays ahead of the store."""
        copied = self.agents[name] = agent.copy()
        copied.store = cast(Store, self)
        return copied

    def knows(self, agent: StoredAgent, id: str) -> bool:
        """Return True if the round of this id must not be computed again."""
        number = agent.agent.id
        return (number, id) in self.ids or (
            self.is_careful and self.find_round(number, id) is not None
        )

    # What the agents need of a store

    def append(self, row: tuple[Any, ...]) -> None:
        """Keep the row of a round."""
        self.rows.append(row)
        id = row[_ID]
        if id is not None:
            self.ids[row[0] >> records.AGENT_SHIFT, id] = row

    def find_round(self, agent: int, id: str) -> records.Row | None:
        """Return the round of this id, if it is known."""
        row = self.ids.get((agent, id))
        if row is None:
            return self.store.find_round(agent, id)
        return records.Row(*row[:-1])

    def put_snapshots(self, snapshots: list[records.Snapshot], _: object) -> None:
        """Note that a snapshot is due once the rounds are committed."""
        self.due.update(snapshot.key >> records.AGENT_SHIFT for snapshot in snapshots)


class Seen(NamedTuple):
    """The progress of an agent when a round was acknowledged: its next record, and the checksum of the last one."""

    agent: records.AgentRow
    key: int
    last: int | None
    t: int


@dataclass(slots=True)
class _Job:
    do: Callable[["RoundWorker"], Any]
    agents: list[str] | None
    future: asyncio.Future[Any]
    # What to call in the thread of the future, once the group is committed.
    answer: Callable[[], None] = field(init=False)


class RoundWorker:
    """The agents of a store, and the one thread that uses them.

    ``note_loss`` is called with the name of an agent whose acknowledged rounds are no longer in the store.
    """

    def __init__(self, store: Store, limits: Settings, note_loss: Callable[[str], None]) -> None:
        self.store = store
        self._limits = limits
        self._note_loss = note_loss
        self.agents: OrderedDict[str, StoredAgent] = OrderedDict()
        # Agents that are known to be as the store has them.
        self._current: set[str] = set()
        # Acknowledged rounds, also of agents that are no longer in the cache.
        self._seen: dict[str, Seen] = {}
        # Agents whose rounds are slow.
        self.slow: set[str] = set()
        # Agents whose store has gone back, until a request is rejected for it.
        self.lost: dict[str, Seen] = {}
        self._connections = store.connections
        self._short: deque[_Job] = deque()
        self._long: deque[_Job] = deque()
        self._long_is_next = False
        self._ends = False
        # The thread waits here while it has nothing to do.
        self._news: SimpleQueue[None] = SimpleQueue()
        self._thread = Thread(target=self._run, name="rounds")
        self._thread.start()

    async def ask(
        self,
        do: Callable[["RoundWorker"], Any],
        *,
        agents: list[str] | None = None,
        long: bool = False,
    ) -> Any:
        """Return the result of ``do``. Its writes are on disk by then; if it fails, nothing is written.

        ``agents`` are those that it writes to; None if it only reads. Of what takes ``long``, one is done at a time, and what
        does not take long between any two of them.
        """
        job = _Job(do, agents, asyncio.get_running_loop().create_future())
        queue = self._long if long else self._short
        queue.append(job)
        self._wake()
        return await job.future

    def close(self) -> None:
        """Finish all requests, and close the store."""
        self._ends = True
        self._wake()
        self._thread.join()
        self.store.close()

    def _wake(self) -> None:
        # The thread looks at everything that is new once for each entry, so that one is enough.
        if self._news.empty():
            self._news.put(None)

    def _run(self) -> None:
        while group := self._take_group():
            self._work(group)
            try:
                group[0].future.get_loop().call_soon_threadsafe(_answer, group)
            except RuntimeError:
                # The loop was closed, so that no request waits.
                _log.warning("answers came after the end", extra={"count": len(group)})

    def _take_group(self) -> list[_Job]:
        """Return one long job, or the short ones that have piled up, in turn; nothing at the end."""
        while not (self._short or self._long or self._ends):
            self._news.get()
        if self._long and (self._long_is_next or not self._short):
            self._long_is_next = False
            return [self._long.popleft()]
        self._long_is_next = True
        return [
            self._short.popleft() for _ in range(min(REQUESTS_PER_TRANSACTION, len(self._short)))
        ]

    def _work(self, group: list[_Job]) -> None:
        agents = [job.agents for job in group if job.agents is not None]
        written = set(chain.from_iterable(agents))
        try:
            if agents:
                with self.store.together():
                    self._lock(written)
                    self._do_all(group)
                # Now their records are committed.
                for name in written & self.agents.keys():
                    agent = self.agents[name]
                    self._seen[name] = Seen(agent.agent, agent.key, agent.last, agent.state.t)
            else:
                self.store.require_place()
                self._do_all(group)
        except Exception as failed:
            # Nothing of the group is in the store.
            if not isinstance(failed, StoreFailed | TakenError):
                _log.exception("a request failed")
            self.agents.clear()
            self._current.clear()
            for job in group:
                job.answer = partial(job.future.set_exception, failed)

    def _do_all(self, group: list[_Job]) -> None:
        if self.store.has_changed():
            self._current.clear()
        if self.store.connections != self._connections:
            # The new connection may be to another server.
            self._connections = self.store.connections
            self._look_for_losses()
        for job in group:
            self._do(job)

    def _lock(self, names: set[str]) -> None:
        """Lock all agents at once, so that two workers never wait for each other."""
        found = [self.agents[name].agent for name in names & self.agents.keys()]
        found += self.store.find_agents(list(names - self.agents.keys())).values()
        self.store.lock_agents([agent.id for agent in found])

    def _do(self, job: _Job) -> None:
        try:
            job.answer = partial(job.future.set_result, job.do(self))
        except StoreFailed:
            raise
        except (InvalidInput, Overtaken, Problem) as refused:
            job.answer = partial(job.future.set_exception, refused)

    # What jobs do

    def find(self, name: str) -> StoredAgent:
        """Return an agent as it is now, deleted or not."""
        agent = self.agents.get(name)
        if agent is not None and name in self._current:
            return agent
        if agent is None or not agent.is_current():
            agent = self._refresh(name, agent)
        self._remember(name, agent)
        self.agents.move_to_end(name)
        if len(self.agents) > AGENTS_CACHED:
            self._forget(next(iter(self.agents)))
        return agent

    def _remember(self, name: str, agent: StoredAgent) -> None:
        """Take an agent into the cache, as the store has it."""
        self.agents[name] = agent
        self._current.add(name)

    def _forget(self, name: str) -> None:
        self.agents.pop(name, None)
        self._current.discard(name)

    def _refresh(self, name: str, agent: StoredAgent | None) -> StoredAgent:
        """Read an agent, or what others have written since."""
        listed = self.store.find_agent(name)
        if listed is None:
            self._forget(name)
            if name in self._seen:
                self._note_lost(name)
                # The answer says so.
                del self.lost[name]
            raise refuse_unknown(name)
        if agent is None or agent.agent != listed:
            # It may have been made again after the store had gone back.
            agent = StoredAgent(self.store, listed).revive()
        else:
            agent.reload()
        seen = self._seen.get(name)
        if seen is not None and not self._follows(agent, seen):
            self._note_lost(name)
        return agent

    def _follows(self, agent: StoredAgent, seen: Seen) -> bool:
        """Return True if the store still has what was acknowledged of an agent, or has pruned it since."""
        if agent.agent != seen.agent or agent.key < seen.key:
            return False
        if seen.last is None or agent.last == seen.last:
            return True
        found = self.store.find_checksums([seen.key - 1])
        return found.get(seen.key - 1, seen.last) == seen.last

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
        keys = {name: seen.key - 1 for name, seen in self._seen.items() if seen.last is not None}
        checksums = self.store.find_checksums(list(keys.values()))
        for name, key in keys.items():
            if name in self._seen and checksums.get(key) != self._seen[name].last:
                self._current.discard(name)
                with suppress(Problem):
                    self.find(name)

    def find_to_write(self, name: str) -> StoredAgent:
        """Return an agent as it is now; raise an error once if the store has gone back."""
        agent = self.find(name)
        seen = self.lost.pop(name, None)
        if seen is not None:
            raise Overtaken(
                f"The store of {name!r} has gone back from round t={seen.t}. "
                f"Play the decision of round t={agent.state.t}, and send again what came after it."
            )
        return agent

    def get_active(self, name: str) -> StoredAgent:
        """Return an agent as it is now, unless it was deleted."""
        agent = self.find(name)
        if agent.deleted:
            raise refuse_deleted(name)
        return agent

    def play(self, request: RoundRequest) -> RoundResult:
        """End a round; one whose id is known is answered as it was then."""
        return self._play(self.find_to_write(request.agent), request, None)

    def _play(self, agent: StoredAgent, request: RoundRequest, bulk: Bulk | None) -> RoundResult:
        """End a round, and note whether that was slow."""
        start = thread_time()
        result = self._end(agent, request, bulk)
        self._note_speed([request.agent], thread_time() - start)
        return result

    def _note_speed(self, names: list[str], seconds: float) -> None:
        """Remember whether the rounds of these agents are slow, which took so long together."""
        if seconds > SLOW_SECONDS * len(names):
            self.slow.update(names)
        else:
            self.slow.difference_update(names)

    def _end(self, agent: StoredAgent, request: RoundRequest, bulk: Bulk | None) -> RoundResult:
        id = "" if request.id is None else records.check_id(request.id)
        state = agent.state
        # A store finds out itself that it knows an id.
        is_known = bulk is not None and id != "" and bulk.knows(agent, id)
        if is_known or request.t not in (None, state.t):
            recalled = self._recall(agent, id)
            if recalled is not None:
                return recalled
            words = f"round t={request.t} of {request.agent!r} is not the one under way"
            remedy = f"play the decision of round t={state.t}"
            raise Overtaken(f"The service came too late: {words}; {remedy}.")
        if request.waits:
            self._check_room(state)
        n = agent.n
        paid = state.switching
        try:
            x = agent.end(request.make_record, id)
        except Dropped:
            return RoundResult(state.t, state.x, state.decision, dropped=True)
        except InvalidInput:
            if agent.deleted:
                raise refuse_deleted(request.agent) from None
            raise
        # Without a new record the id is known: other workers cannot play this agent meanwhile.
        recalled = self._recall(agent, id) if agent.n == n else None
        if recalled is not None:
            return recalled
        state = agent.state
        acted = "" if state.guarded is None else state.guarded.acted
        return RoundResult(state.t, x, state.spec.name(x), False, state.switching - paid, acted)

    def _check_room(self, state: AgentState) -> None:
        """Reject another round that waits if the agent's state would be too large with it."""
        numbers = count_numbers(state.state) + state.learner.domain.dim
        if numbers > self._limits.numbers:
            limit = f"The state, with its pending rounds, must have at most {self._limits.numbers} numbers"
            remedy = "Send feedback, give some rounds up, or see klazy serve --numbers."
            raise InvalidInput(f"{limit}, got {numbers}. {remedy}")

    def _recall(self, agent: StoredAgent, id: str) -> RoundResult | None:
        """Return the answer to the round of this id."""
        row = agent.store.find_round(agent.agent.id, id) if id else None
        if row is None:
            return None
        x = records.read_numbers(row.decision)
        feedback = records.read_feedback(row)
        # Late feedback does not end the round.
        has_ended = feedback is None or feedback[0] == records.WAITS
        return RoundResult(row.t + has_ended, x, agent.state.spec.name(x), repeated=True)

    def go_on(self, bulk: Bulk) -> None:
        """Compute some more rounds; an error says which one is wrong."""
        start = thread_time()
        seconds = 0.0
        while not bulk.is_complete and seconds < PART_SECONDS:
            request = bulk.requests[len(bulk.results)]
            try:
                if not self._play_alike(bulk):
                    agent = bulk.agents.get(request.agent)
                    if agent is None:
                        agent = bulk.take(request.agent, self.find_to_write(request.agent))
                    bulk.results.append(self._play(agent, request, bulk))
            except (InvalidInput, Overtaken, Problem) as refused:
                # Whoever sent them knows now.
                for each in bulk.requests:
                    self.lost.pop(each.agent, None)
                if isinstance(refused, StoreFailed):
                    raise
                problem = explain_failure(refused)
                place = {"entry": len(bulk.results), "agent": request.agent}
                raise Problem(
                    problem.status_code, problem.detail, **problem.more, **place
                ) from refused
            seconds = thread_time() - start
        bulk.seconds += seconds
        budget = self._limits.budget
        if bulk.seconds > budget and not bulk.is_complete:
            limit = f"Rounds must take at most {budget:g} seconds together"
            got = f"{len(bulk.results)} of {len(bulk.requests)} took longer"
            raise Problem(413, f"{limit}, but {got}. Send fewer at once.")

    def _play_alike(self, bulk: Bulk) -> bool:
        """Compute the next rounds in one compiled call, as a fleet does; return False if there are none for that."""
        if bulk.is_careful:
            return False
        start = thread_time()
        requests, agents, ids = self._list_alike(bulk)
        if len(requests) < 2:
            return False
        made = None
        d = agents[0].state.learner.domain.dim
        if all(request.g is not None and len(request.g) == d for request in requests):
            made = compute_together(agents, np.array([request.g for request in requests]), ids)
        if made is None:
            # A gradient does not fit. Round by round it turns out which one.
            bulk.is_careful = True
            return False
        _, outcomes, rows = made
        for agent, outcome, row in zip(agents, outcomes, rows, strict=True):
            bulk.append(row)
            agent.apply(outcome, row)
            decision = agent.state.spec.name(outcome.x)
            bulk.results.append(
                RoundResult(outcome.t + 1, outcome.x, decision, False, outcome.switching)
            )
        self._note_speed([request.agent for request in requests], thread_time() - start)
        return True

    def _list_alike(self, bulk: Bulk) -> tuple[list[RoundRequest], list[StoredAgent], list[str]]:
        """Return the next rounds that one compiled call can play, with their agents and ids.

        They are plain rounds of different agents, which are alike. A round that is known, or is to be rejected, is not listed.
        """
        requests: list[RoundRequest] = []
        agents: list[StoredAgent] = []
        ids: list[str] = []
        listed: set[str] = set()
        room = NUMBERS_TOGETHER
        for request in islice(bulk.requests, len(bulk.results), None):
            name = request.agent
            if not request.is_plain or name in listed or name in self.slow:
                break
            try:
                id = "" if request.id is None else records.check_id(request.id)
                agent = bulk.agents.get(name)
                if agent is None:
                    agent = self.find(name)
                    if name in self.lost:
                        break
                    agent = bulk.take(name, agent)
            except (InvalidInput, Problem):
                break
            state = agent.state
            if not state.is_plain or state.deleted or agent.is_stale:
                break
            is_alike = not agents or agents[0].agent.configuration == agent.agent.configuration
            room -= state.form.size
            if not is_alike or room < 0 or (id and bulk.knows(agent, id)):
                break
            if agent.is_due:
                agent.take_snapshots()
            requests.append(request)
            agents.append(agent)
            ids.append(id)
            listed.add(name)
        return requests, agents, ids

    def finish(self, bulk: Bulk) -> list[RoundResult]:
        """Insert computed rounds; the transaction must be undone if others have played these agents meanwhile."""
        if bulk.rows:
            self.store.append_many(bulk.rows)
        for name, agent in bulk.agents.items():
            agent.store = self.store
            if agent.agent.id in bulk.due:
                agent.saved = -1
                agent.take_snapshots()
            self._remember(name, agent)
        return bulk.results


def _answer(jobs: list[_Job]) -> None:
    for job in jobs:
        # If the client is gone, committed rounds stay.
        if not job.future.cancelled():
            job.answer()
