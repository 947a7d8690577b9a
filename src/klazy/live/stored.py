"""Agents and fleets in a store: each round is computed, appended to the store, and only then applied.

The agents of a fleet play in one compiled call, and a call is one transaction.
"""

import json
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import timedelta
from time import perf_counter, time
from types import NoneType
from typing import Any, Self

import numpy as np

from klazy.base.checks import Array, InvalidInput, real_array
from klazy.kernels import codes
from klazy.learners import Learner
from klazy.live import records
from klazy.live.rows import RowSpec
from klazy.live.state import (
    AgentState,
    OtherMachine,
    Overtaken,
    RoundOutcome,
    warn_of_another_machine,
)
from klazy.live.store import Store, TakenError

# How many rounds are replayed at most when an agent is opened, and how many seconds they may need.
SNAPSHOT_ROUNDS = 1000
SNAPSHOT_SECONDS = 0.5
# The number of calls of a fleet between two snapshots of all its agents.
SNAPSHOT_CALLS = 100
# As a share of the set's scale: far more than machines differ by, far less than another learner would.
MACHINE_ROUNDING = 1e-9
NAME_BYTES = 200

_CHECKSUM = records.Row._fields.index("checksum")
MakeRecord = Callable[..., records.Record | None]


class StoredAgents(ABC):
    """Agents of a store whose rounds end together: those of a fleet, or a single one."""

    def __init__(self, store: Store) -> None:
        self.store = store
        # A stale state was interrupted while a round was applied, and must be read again.
        self.is_stale = True
        # The machines that agents come from, and whether each is of this kind.
        self._machines: dict[str, bool] = {}

    @property
    @abstractmethod
    def members(self) -> Sequence["StoredAgent"]:
        """Its agents."""

    @abstractmethod
    def _play(self, given: Any, id: str) -> Array:
        """Compute, append and apply a round of the agents that ``given`` is for; return their next points."""

    @abstractmethod
    def _recall(self, given: Any, id: str) -> Array | None:
        """Return what these agents decided in the round of this id, if they know it."""

    def reload(self) -> None:
        """Read what other processes have written since."""
        self.revive()

    @abstractmethod
    def _explain_race(self, rounds: list[int]) -> str:
        """Write what happened to these rounds, and what to play instead."""

    def end(self, given: Any, id: str = "", retry: bool = True) -> Array:
        """End a round by what is ``given``; return the next point, or those of a fleet.

        A round whose id is known changes nothing: the answer is the one given then. After a lost race the round is computed
        again with ``retry``; otherwise :class:`Overtaken` is raised.
        """
        while True:
            try:
                if self.is_stale:
                    self.reload()
                return self._play(given, id)
            except InvalidInput:
                made = None
                # Of two errors, the first one says what was wrong.
                with suppress(InvalidInput):
                    made = self._recall(given, id) if id else None
                if made is None:
                    raise
                return made
            except TakenError:
                made = self._recall(given, id) if id else None
                states = [member.state for member in self.members]
                rounds = [state.t for state in states]
                # Late feedback does not end the round.
                can_wait = all(state.can_wait for state in states)
                self.reload()
                if made is not None:
                    return made
                is_same_round = can_wait and rounds == [member.state.t for member in self.members]
                if not retry and not is_same_round:
                    raise Overtaken(f"{self._explain_race(rounds)}, or use retry=True.") from None

    def revive(self) -> Self:
        """Read every agent again that has changed in the store, and warn of other machines than this one."""
        is_of_here = True
        members = self.members
        latest = self.store.read_latest([member.agent.id for member in members])
        for member, (snapshot, rows) in zip(members, latest, strict=True):
            last = rows[-1].checksum if rows else None
            key = rows[-1].key + 1 if rows else snapshot.key
            if not member.is_stale and member.key == key and member.last == last:
                continue
            rows = member.begin(snapshot, rows)
            if not self._is_of_here(member):
                is_of_here = False
                member.saved = -1
            member.replay(rows)
            self._require_alike(member)
        if not is_of_here and not self.store.read_only:
            # From here on, rounds are computed on this machine.
            self.take_snapshots()
        self.is_stale = False
        return self

    def _require_alike(self, member: "StoredAgent") -> None:  # noqa: B027  an agent alone is like itself
        """Raise an error unless an agent's round can be played with those of the others."""

    def _is_of_here(self, member: "StoredAgent") -> bool:
        """Return True if this kind of machine wrote an agent's snapshot; warn once of each other kind."""
        state = member.state
        text = json.dumps(state.machine)
        if text not in self._machines:
            where = f"{member.agent.name!r} in {self.store.path}"
            is_same = warn_of_another_machine(state.machine, state.engine, where, stacklevel=4)
            self._machines[text] = is_same
        return self._machines[text]

    def take_snapshots(self) -> None:
        """Store the present states, but of deleted agents, so that what came before is not replayed again."""
        members = [
            member for member in self.members if member.n != member.saved and not member.is_stale
        ]
        alive = [member for member in members if not member.deleted]
        snapshots = [member.make_snapshot() for member in alive]
        # Another process that has gone on takes its own.
        with suppress(TakenError):
            if snapshots:
                self.store.put_snapshots(snapshots, [member.last for member in alive])
        for member in members:
            member.note_snapshot()

    def close(self) -> None:
        """Leave snapshots of the present states, and close the store."""
        if self.store.closed or self.store.inherited:
            return
        try:
            if not self.store.read_only:
                self.take_snapshots()
        except InvalidInput:
            # The file was moved or is full. Every round is in it.
            pass
        finally:
            self.store.close()


class StoredAgent(StoredAgents):
    """The state of an agent in a store, and the place of its next record.

    ``n`` is the number of that record, ``last`` the checksum of the one before it. ``keep`` says how much history stays: all of
    it, a number of records, or those of a time span.
    """

    # It is there once the agent was begun.
    state: AgentState

    def __init__(
        self,
        store: Store,
        agent: records.AgentRow,
        keep: int | timedelta | None = None,
        learner: Learner[Any] | None = None,
    ) -> None:
        super().__init__(store)
        self.agent = agent
        self.keep = keep
        # The learner that the agent should have; one that is equal to it is not built again.
        self._learner = learner
        self._base = agent.id << records.AGENT_SHIFT
        self.n = 0
        self.last: int | None = None
        # The record before which the last snapshot was taken; -1 if that was on another kind of machine.
        self.saved = 0
        self._seconds = 0.0

    @property
    def members(self) -> Sequence["StoredAgent"]:
        return (self,)

    @property
    def key(self) -> int:
        """The key of the next record."""
        return self._base | self.n

    @property
    def deleted(self) -> bool:
        """Whether it takes no rounds."""
        return self.state.deleted

    @property
    def is_due(self) -> bool:
        """Whether opening it again would replay so much that a snapshot is due."""
        return self.n - self.saved >= SNAPSHOT_ROUNDS or self._seconds > SNAPSHOT_SECONDS

    # Rounds

    def _play(self, given: MakeRecord, id: str) -> Array:
        """End a round, or change the agent, by the record that ``given`` makes of its state."""
        if self.is_due and not self.state.deleted:
            self.take_snapshots()
            self.prune()
        start = perf_counter()
        record = given(self.state, id=id)
        if record is None:
            return self.state.x
        if self.state.deleted and record.kind != records.RESTORE:
            raise InvalidInput(
                f"The agent {self.agent.name!r} was deleted. Restore it with agent.restore()."
            )
        outcome, row = self.compute(record)
        self.note_seconds(perf_counter() - start)
        self.store.append(row)
        self.apply(outcome, row)
        return outcome.x.copy()

    def _explain_race(self, rounds: list[int]) -> str:
        (t,) = rounds
        message = f"Another process ended round t={t} of {self.agent.name!r}."
        if self.state.t <= t:
            message = f"The store of {self.agent.name!r} has gone back to an earlier round."
        return f"{message} Play agent.x of round t={self.state.t}"

    def _recall(self, given: MakeRecord, id: str) -> Array | None:
        row = self.store.find_round(self.agent.id, id)
        return None if row is None else records.read_numbers(row.decision)

    def compute(
        self, record: records.Record, outcome: RoundOutcome | None = None
    ) -> tuple[RoundOutcome, tuple[Any, ...]]:
        """Compute what a record leads to, unless that is known, and its row, with the checksum of the record before it."""
        kind, numbers, id, note, values, _ = record
        if outcome is None:
            outcome = self.state.compute(record)
        row = (
            self._base | self.n,
            kind,
            outcome.t,
            time(),
            id or None,
            None if values is None else self.state.spec.write(values),
            numbers.tobytes(),
            outcome.x.tobytes(),
            outcome.hitting,
            outcome.switching,
            outcome.acted or None,
            note or None,
        )
        return outcome, (*row, records.checksum_row(row), self.last)

    def apply(self, outcome: RoundOutcome, row: Sequence[Any]) -> None:
        """Apply a record that is in the store."""
        self.is_stale = True
        self.state.apply(outcome)
        self.last = row[_CHECKSUM]
        self.n += 1
        self.is_stale = False

    def change(self, kind: int, reason: str) -> None:
        """Freeze the agent or resume it, delete or restore it."""
        self.end(lambda state, id: state.record_change(kind, reason))

    # History

    def reload(self) -> None:
        snapshot = self.store.read_last_snapshot(self.agent.id)
        if snapshot.n > self.n or self.is_stale or not self._has_seen(snapshot):
            ((snapshot, rows),) = self.store.read_latest([self.agent.id])
            self.replay(self.begin(snapshot, rows))
        else:
            self.replay(self.store.read_records(self.agent.id, self.n))

    def _has_seen(self, snapshot: records.Snapshot) -> bool:
        """Return True if the store still has what this agent has seen; a database may be restored under it."""
        if self.last is None:
            return snapshot.n == self.n
        return self.store.still_has(self.agent.id, (self.n - 1, self.last))

    def begin(
        self, snapshot: records.Snapshot, rows: Sequence[records.Row]
    ) -> Sequence[records.Row]:
        """Begin with the state of a snapshot; return the records after it.

        ``rows`` has these, and in front of them the record before the snapshot, unless it was pruned.
        """
        last = None
        if rows and rows[0].key < snapshot.key:
            last = rows[0].checksum
            rows = rows[1:]
        elif snapshot.n:
            first = self.store.find_first_record(self.agent.id)
            if first is not None and first < snapshot.n:
                raise self.store.damage(
                    f"record {snapshot.n - 1} of {self.agent.name!r} is missing"
                )
        self.is_stale = True
        self.state = rebuild_agent(self.agent, snapshot, self._learner)
        self._learner = self.state.learner
        self.n = snapshot.n
        self.last = last
        self.note_snapshot()
        self.is_stale = False
        return rows

    def replay(self, rows: Iterable[records.Row]) -> None:
        """Compute and apply records of the store. Each must give the decision made then, up to rounding on another machine."""
        differs = False
        for row in rows:
            if row.key != self.key:
                raise self.store.damage(f"record {self.n} of {self.agent.name!r} is missing")
            outcome = self.state.compute(row.to_record())
            if outcome.x.tobytes() != row.decision:
                if not self._is_near(outcome.x, row.decision):
                    what = f"record {self.n} of {self.agent.name!r} does not follow from those before"
                    raise self.store.damage(what)
                differs = True
            self.apply(outcome, row)
        if differs:
            words = "decisions were computed elsewhere, and differ here in their last bits"
            warnings.warn(
                f"{self.agent.name!r} in {self.store.path}: {words}.", OtherMachine, stacklevel=4
            )

    def _is_near(self, x: Array, decision: bytes) -> bool:
        made = np.frombuffer(decision, records.NUMBER_TYPE)
        if len(made) != len(x):
            return False
        return bool(np.abs(made - x).max() <= MACHINE_ROUNDING * self.state.learner.domain.scale)

    def is_current(self) -> bool:
        """Return True if the store has just what this agent has seen."""
        seen = None if self.last is None else (self.n - 1, self.last)
        return not self.is_stale and self.store.find_last_record(self.agent.id) == seen

    def copy(self) -> Self:
        """Return an agent that changes independently of this one."""
        copied = type(self).__new__(type(self))
        vars(copied).update(vars(self))
        copied.state = self.state.copy()
        return copied

    def make_snapshot(self) -> records.Snapshot:
        """Describe the present state."""
        state = self.state
        about = json.dumps(state.describe_state())
        return records.Snapshot(
            self.key, state.t, time(), state.hitting, state.switching, about, 0
        )

    def note_seconds(self, seconds: float) -> None:
        """Count how long a round took, which replaying it would take again."""
        self._seconds += seconds

    def note_snapshot(self) -> None:
        """Count rounds and seconds from here on."""
        self.saved = self.n
        self._seconds = 0.0

    def prune(self) -> None:
        """Remove history that need not stay, in stretches between snapshots."""
        if isinstance(self.keep, timedelta):
            self.store.prune(self.agent.id, self.n, self.keep.total_seconds())
        elif self.keep is not None and self.n > self.keep:
            self.store.prune(self.agent.id, self.n - self.keep, None)


def rebuild_agent(
    agent: records.AgentRow, snapshot: records.Snapshot, learner: Learner[Any] | None = None
) -> AgentState:
    """Return the state of an agent at a snapshot, with ``learner`` if that is the agent's."""
    data = json.loads(agent.configuration) | json.loads(snapshot.about)
    state = AgentState.from_dict(data, is_trusted=True, learner=learner)
    state.hitting = snapshot.hitting
    state.switching = snapshot.switching
    return state


# Opening


def check_name(name: Any) -> str:
    """Check the name of an agent: printable text, not too long."""
    fits = isinstance(name, str) and name.isprintable() and name.strip() == name != ""
    if not fits or len(name.encode(errors="replace")) > NAME_BYTES:
        raise InvalidInput(
            f"name must be printable text of 1 to {NAME_BYTES} bytes, got {name!r}. Use name='eu-west'."
        )
    return name


def check_keep(keep: Any) -> None:
    """Check how much history stays."""
    is_span = isinstance(keep, timedelta) and keep > timedelta(0)
    is_count = isinstance(keep, int) and not isinstance(keep, bool) and keep >= 1
    if not is_span and not is_count:
        raise InvalidInput(
            f"keep must be a number of rounds, a datetime.timedelta, or None for all of them, got {keep!r}."
        )


def find_or_create(
    store: Store, names: Sequence[str], start: Callable[[], AgentState] | None
) -> list[records.AgentRow]:
    """Find the agents of these names; create those that are missing, all with the state that ``start`` returns."""
    # Another process may create some of them meanwhile; then those that are still missing are tried again.
    while True:
        found = store.find_agents(names)
        missing = [name for name in names if name not in found]
        if not missing:
            return [found[name] for name in names]
        if start is None or store.read_only:
            raise InvalidInput(
                f"No agent named {missing[0]!r} in {store.path}. "
                "Give a learner to create it; `klazy agents` lists the existing ones."
            )
        state = start()
        paid = (state.hitting, state.switching) if state.knows_costs else (0.0, 0.0)
        configuration = json.dumps(state.describe_configuration())
        snapshot = (state.t, *paid, json.dumps(state.describe_state()))
        with suppress(TakenError):
            store.create_agents(
                missing, configuration, snapshot, tuple(state.ids), state.x.tobytes()
            )


def require_same(
    stored: StoredAgent,
    learner: Learner[Any] | None,
    spec: RowSpec | None,
    given: dict[str, Any],
    engine: str,
) -> None:
    """Raise an error if an agent was opened with arguments that it does not have; ``spec`` is what they amount to, if known."""
    state = stored.state
    remedy = "Leave it out, or choose another name."
    found = None
    if learner not in (None, state.learner):
        found = "learner", state.learner, learner
    elif set(map(type, given.values())) != {NoneType}:
        spec = spec or RowSpec.build(state.learner, **given)
        found = state.spec.find_difference(spec, given)
    if found is None and engine not in ("auto", state.engine):
        found = "engine", state.engine, engine
        remedy = "Leave it out."
    if found is not None:
        name, here, value = found
        raise InvalidInput(
            f"{name} must be {here!r}, as stored for {stored.agent.name!r} in {stored.store.path}, "
            f"got {value!r}. {remedy}"
        )


# Fleets


def compute_together(
    members: Sequence[StoredAgent], g: Array, ids: Sequence[str]
) -> tuple[Array, list[RoundOutcome], list[tuple[Any, ...]]] | None:
    """Compute a round of each of several agents, which are alike, in one compiled call; None if a gradient does not fit.

    Returns their next points, what the rounds lead to, and the rows, to the last bit as :meth:`StoredAgent.compute` does.
    """
    from klazy.kernels.fleet import play_fleet

    start = perf_counter()
    state: Any = members[0].state
    forms = np.array([member.state.form for member in members])
    rounds = forms[:, codes.T].astype(np.int64).tolist()
    played = forms[:, state.layout.x].copy()
    x = play_fleet(state.kernel, forms, g, np.arange(len(members)), state.layout.x)
    if x is None:
        return None
    # SQLite has no -0.0.
    hitting = np.vecdot(g, played) + 0.0
    switching = state.movement.weight * state.movement.distance(x - played)
    outcomes = []
    rows = []
    numbers = zip(
        members, ids, rounds, g, forms, x, hitting.tolist(), switching.tolist(), strict=True
    )
    for member, id, t, gradient, form, point, hit, moved in numbers:
        # A row of a large array would keep all of it in memory.
        outcome = RoundOutcome(t, form.copy(), None, None, point, hit, moved)
        outcomes.append(outcome)
        rows.append(member.compute(records.Record(records.ROUND, gradient, id), outcome)[1])
    seconds = (perf_counter() - start) / len(members)
    for member in members:
        member.note_seconds(seconds)
    return x, outcomes, rows


class StoredFleet(StoredAgents):
    """Agents of a store that have one learner."""

    def __init__(
        self, store: Store, agents: Sequence[records.AgentRow], learner: Learner[Any] | None
    ) -> None:
        super().__init__(store)
        self.names = tuple(agent.name for agent in agents)
        self._members = [StoredAgent(store, agent) for agent in agents]
        self._given = learner
        # Configurations of agents that can play in the fleet.
        self._alike: set[str] = set()
        self._calls = 0

    @property
    def members(self) -> Sequence[StoredAgent]:
        return self._members

    def gather(self) -> Array:
        """Return the numbers of all agents, a row each."""
        return np.array([member.state.form for member in self.members])

    def _play(self, given: tuple[Array, list[int]], id: str) -> Array:
        """End the rounds of some agents by their gradients."""
        if self._calls >= SNAPSHOT_CALLS:
            self.take_snapshots()
            self._calls = 0
        g, which = given
        members = [self.members[i] for i in which]
        made = compute_together(members, g, [id] * len(members))
        if made is None:
            # The kernel found a number that does not fit; this says which one.
            return real_array(g, "g")
        x, outcomes, rows = made
        if len(rows) == 1:
            self.store.append(rows[0])
        else:
            self.store.transact(lambda: self.store.append_many(rows), rows[0])
        # If an interrupt comes between two of them, those that are left are read again.
        self.is_stale = True
        for member in members:
            member.is_stale = True
        for member, outcome, row in zip(members, outcomes, rows, strict=True):
            member.apply(outcome, row)
        self.is_stale = False
        self._calls += 1
        return x

    def _explain_race(self, rounds: list[int]) -> str:
        return "Another process ended a round of one of these agents. Play the points of fleet.x"

    def _recall(self, given: tuple[Array, list[int]], id: str) -> Array | None:
        """Return what all of these agents decided in the call of this id; None if none of them knows it."""
        found = [self.store.find_round(self.members[i].agent.id, id) for i in given[1]]
        rows = [row for row in found if row is not None]
        if rows and len(rows) < len(found):
            raise InvalidInput(
                f"Some of these agents know the id {id!r}, others do not. "
                "Use another id, or update only the agents that know it."
            )
        return np.array([records.read_numbers(row.decision) for row in rows]) if rows else None

    def _require_alike(self, member: StoredAgent) -> None:
        """Raise an error unless an agent's round is a call of the fleet's kernel, at the fleet's prices."""
        name = member.agent.name
        state = member.state
        if state.guards is None and member.agent.configuration in self._alike:
            return
        has = None
        if state.engine != "compiled":
            has = "runs without a kernel"
        elif state.spec.costs is not None:
            has = f"takes rows for costs={state.spec.costs!r}"
        elif state.guards is not None:
            has = "has guards"
        if has is not None:
            raise InvalidInput(
                f"Fleet.open cannot play {name!r}, which {has}. Open it with Agent.open."
            )
        where = f"{name!r} in {self.store.path}"
        first = self.members[0].state
        learner = self._given or first.learner
        if state.learner != learner:
            raise InvalidInput(
                f"learner must be {state.learner!r}, as stored for {where}, got {learner!r}. "
                "Leave it out, or choose other names."
            )
        if state.movement != first.movement:
            raise InvalidInput(
                f"The movement of {where} is {state.movement!r}, that of the others {first.movement!r}. "
                "Choose other names."
            )
        self._alike.add(member.agent.configuration)


def find_alike(store: Store, learner: Learner[Any] | None) -> list[records.AgentRow]:
    """Return all agents that can play in the fleet of a learner, by default that of the first of them."""
    found = []
    for agent in store.list_agents():
        about = json.loads(agent.configuration) | json.loads(
            store.read_last_snapshot(agent.id).about
        )
        if about["engine"] == "compiled" and not about.keys() & {"costs", "guards"}:
            learner = learner or Learner.from_dict(about["learner"])
            if about["learner"] == learner.to_dict():
                found.append(agent)
    if not found:
        raise InvalidInput(
            f"{store.path} has no agents that can play as a fleet. Give a learner and the names of new agents."
        )
    return found
