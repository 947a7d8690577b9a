"""A fleet in a store: its agents play in one compiled call, and a call is one transaction."""

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from klazy.base.checks import Array, Refused, real_array, refusal
from klazy.kernels import codes
from klazy.kernels.fleet import play_fleet
from klazy.learners import Learner
from klazy.live.records import AGENT_SHIFT, ROUND, AgentRow, Record, check_id, read_numbers
from klazy.live.state import AgentState, Outcome, Overtaken, warn_of_another_machine
from klazy.live.store import Store, TakenError, open_store
from klazy.live.stored import StoredAgent, close_store, describe_start, end_rounds, rebuild_state

# The number of calls between two snapshots of all agents.
SNAPSHOT_CALLS = 100


class StoredFleet:
    """Agents of a store that have one learner."""

    def __init__(self, store: Store, agents: Sequence[AgentRow], state: AgentState) -> None:
        self.store = store
        self.names = tuple(agent.name for agent in agents)
        self.learner = state.learner
        self._start = state
        self.members = [StoredAgent(store, agent, state.copy()) for agent in agents]
        self._places = {agent.id: i for i, agent in enumerate(agents)}
        self._snapshots = [-1] * len(agents)
        self._machines: dict[str, bool] = {}
        self._calls = 0
        self.reload()

    def gather(self, which: Sequence[int] | None = None) -> Array:
        """Return the numbers of all agents, or of some, a row each."""
        members = self.members if which is None else [self.members[i] for i in which]
        return np.array([member.state.form for member in members])

    def update(self, g: Array, which: np.ndarray, id: str | int | None, retry: bool) -> Array:
        """End the rounds of the agents ``which``; return their next points."""
        text = "" if id is None else check_id(id)
        while True:
            if any(member.is_stale for member in self.members):
                self.reload()
            if self._calls >= SNAPSHOT_CALLS:
                self.take_snapshots()
            try:
                return self._update(g, which.tolist(), text)
            except TakenError:
                made = self._recall(which, text) if text else None
                self.reload()
                if made is not None:
                    return made
                if not retry:
                    words = "a round of one of its agents was ended by another process"
                    remedy = "play the points of fleet.x, or use retry=True"
                    raise Overtaken(f"Fleet.update came too late: {words}; {remedy}.") from None

    def _update(self, g: Array, which: list[int], id: str) -> Array:
        state: Any = self._start
        forms = self.gather(which)
        rounds = forms[:, codes.T].astype(np.int64).tolist()
        played = forms[:, state.layout.x].copy()
        x = play_fleet(state.kernel, forms, g, np.arange(len(which)), state.layout.x)
        if x is None:
            # The kernel found a number that does not fit; this says which one.
            return real_array(g, "g", "Fleet.update")
        # SQLite has no -0.0.
        hitting = np.vecdot(g, played) + 0.0
        switching = state.movement.weight * state.movement.distance(x - played)
        if len(which) < len(self.members):
            # The rows of a large array would keep all of it in memory.
            forms = [form.copy() for form in forms]
        computed = []
        numbers = zip(which, rounds, g, forms, x, hitting.tolist(), switching.tolist(), strict=True)
        for i, t, gradient, form, point, hit, moved in numbers:
            outcome = Outcome(t, form, None, None, point, hit, moved)
            computed.append(self.members[i].compute(Record(ROUND, gradient, id), outcome))
        end_rounds(self.store, computed)
        self._calls += 1
        return x

    def _recall(self, which: np.ndarray, id: str) -> Array | None:
        """Return what all of these agents decided in the call of this id; None if none of them knows it."""
        found = [self.store.find_round(self.members[i].agent.id, id) for i in which]
        rows = [row for row in found if row is not None]
        if rows and len(rows) < len(found):
            remedy = "use another, or update just those"
            wanted = "an id that all of these agents took, or none"
            raise refusal("Fleet.update", wanted, "id", repr(id), remedy)
        return np.array([read_numbers(row.decision) for row in rows]) if rows else None

    # History

    def reload(self) -> None:
        """Read every agent again that has changed in the store."""
        for snapshot, rows in self.store.read_latest(list(self._places)):
            i = self._places[snapshot.key >> AGENT_SHIFT]
            member = self.members[i]
            last = rows[-1].checksum if rows else None
            key = rows[-1].key + 1 if rows else snapshot.key
            if not member.is_stale and member.key == key and member.last == last:
                continue
            before = [row for row in rows if row.key < snapshot.key]
            data = json.loads(snapshot.about)
            machine = json.dumps(data["machine"])
            if machine not in self._machines:
                where = f"{member.agent.name!r} in {self.store.path}"
                self._machines[machine] = warn_of_another_machine(
                    data["machine"], "compiled", where, stacklevel=5
                )
            self._snapshots[i] = snapshot.n if self._machines[machine] else -1
            member.begin(snapshot, before[0].checksum if before else None)
            member.replay(rows[len(before) :])
            _require_plain(member.state, member.agent.name)
        if -1 in self._snapshots:
            # From here on, rounds are computed on this machine.
            self.take_snapshots()

    def take_snapshots(self) -> None:
        """Store the present states of all agents that have played since their last snapshot."""
        moved = [i for i, member in enumerate(self.members) if member.n > self._snapshots[i]]
        members = [self.members[i] for i in moved if not self.members[i].deleted]
        # Another process that has gone on takes its own.
        with suppress(TakenError):
            self.store.put_snapshots(
                [member.make_snapshot() for member in members], [member.last for member in members]
            )
        for i in moved:
            self._snapshots[i] = self.members[i].n
        self._calls = 0

    def close(self) -> None:
        """Leave snapshots of the present states, and close the store."""
        is_stale = any(member.is_stale for member in self.members)
        close_store(self.store, None if is_stale else self.take_snapshots)


def open_fleet(
    path: str | Path, learner: Learner[Any] | None, names: tuple[str, ...] | None, **options: Any
) -> StoredFleet:
    """Open the agents of these names as they were after their last records, or create them."""
    store = open_store(path, new=learner is not None, owner="Fleet.open", **options)
    try:
        agents = _find_alike(store, learner) if names is None else _find_or_create(store, learner, names)
        return StoredFleet(store, agents, _find_start(agents, learner, store))
    except BaseException:
        store.close()
        raise


def _require_plain(state: AgentState, name: str) -> None:
    """Raise an error unless a call of the kernel is all of an agent's round."""
    has = None
    if state.engine != "compiled":
        has = "runs without a kernel"
    elif state.spec.takes_rows:
        has = f"takes rows for costs={state.spec.costs!r}"
    elif state.guards is not None:
        has = "has guards"
    if has is not None:
        raise Refused(f"Fleet.open cannot play {name!r}, which {has}. Open it with Agent.open.")


def _find_alike(store: Store, learner: Learner[Any] | None) -> list[AgentRow]:
    """Return all agents that can play in the fleet of a learner, by default that of the first of them."""
    found = []
    for agent in store.list_agents():
        data = json.loads(agent.configuration)
        is_guarded = "guards" in json.loads(store.read_last_snapshot(agent.id).about)
        if data["engine"] != "compiled" or "costs" in data or is_guarded:
            continue
        if learner is None:
            learner = Learner.from_dict(data["learner"])
        if data["learner"] == learner.to_dict():
            found.append(agent)
    if not found:
        remedy = "give a learner and the names of new agents"
        raise refusal("Fleet.open", "agents that can play as a fleet", "path", store.path, remedy)
    return found


def _find_or_create(store: Store, learner: Learner[Any] | None, names: tuple[str, ...]) -> list[AgentRow]:
    # Another process may create some of them meanwhile; then those that are still missing are tried again.
    while True:
        found = store.find_agents(names)
        missing = [name for name in names if name not in found]
        if not missing:
            return [found[name] for name in names]
        if learner is None:
            remedy = "give one, or the names of agents that are there: klazy agents lists them"
            raise refusal("Fleet.open", "a learner for new agents", "name", repr(missing[0]), remedy)
        with suppress(TakenError):
            store.create_agents(missing, *describe_start(AgentState(learner, "compiled")))


def _find_start(agents: Sequence[AgentRow], learner: Learner[Any] | None, store: Store) -> AgentState:
    """Return the state of a new agent of the fleet; all agents must have its learner."""
    state = None
    known: set[str] = set()
    for agent in agents:
        if agent.configuration in known:
            continue
        found = rebuild_state(agent, store.read_last_snapshot(agent.id))
        _require_plain(found, agent.name)
        state = state or found
        where = f"{agent.name!r} in {store.path}"
        remedy = "leave it out, or choose other names"
        if found.learner != (learner or state.learner):
            wanted = f"the learner of {where}, {found.learner!r}"
            raise refusal("Fleet.open", wanted, "learner", repr(learner or state.learner), remedy)
        if found.movement != state.movement:
            wanted = f"the movement of {where}, {found.movement!r}"
            raise refusal("Fleet.open", wanted, "movement", repr(state.movement), remedy)
        known.add(agent.configuration)
    assert state is not None
    return state
