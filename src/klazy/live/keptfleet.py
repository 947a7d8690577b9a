"""A fleet that a store keeps: its rounds are worked out beside the present states, committed together, and only then shown."""

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from time import time
from typing import Any

import numpy as np

from klazy.base.checks import Array, Refused, real_array, refusal
from klazy.kernels import codes
from klazy.kernels.fleet import play_fleet
from klazy.kernels.layout import find_missing_part, layout_of
from klazy.learners import Learner
from klazy.learners.base import describe_state, rebuild_state
from klazy.live.kept import ROUNDING, replay_row
from klazy.live.machine import describe_machine, warn_of_another_machine
from klazy.live.overtaken import Overtaken
from klazy.live.records import ROUND, Row, check_id, checksum_plain, seal_row
from klazy.live.schema import AGENT_SHIFT
from klazy.live.state import Live
from klazy.live.store import Listed, Snapshot, Store, TakenError

SNAPSHOT_CALLS = 100  # after so many, snapshots of all agents are taken


class KeptFleet:
    """The agents' numbers, a row each, and for each the place of its next record and the checksum of its last."""

    def __init__(self, store: Store, learner: Learner[Any], agents: Sequence[Listed]) -> None:
        self.store = store
        self.learner: Any = learner
        self.agents = agents
        self.names = tuple(agent.name for agent in agents)
        self._layout = layout_of(learner)
        self._kernel = self._layout.update_kernel()
        self._engine = "compiled"
        self._movement: Any = self.learner.own_movement
        count = len(agents)
        self._ids = [agent.id for agent in agents]
        self._bases = [agent.id << AGENT_SHIFT for agent in agents]
        self.memory = np.tile(self._layout.pack(self.learner.init()), (count, 1))
        self._n = [-1] * count
        self._lasts: list[int | None] = [None] * count
        self._paid = np.zeros((count, 2))  # hitting and switching
        self._snapped = [-1] * count  # where the last snapshot lies
        self._calls = 0
        self._model = self.learner.init()
        self._machines: set[str] = set()  # that were told of
        self._torn = True
        self.reload()

    # Rounds

    def play(self, g: Array, which: np.ndarray, id: str | int | None, retry: bool) -> Array:
        """End the rounds of the agents ``which``; their next points."""
        text = None if id is None else check_id(id)
        while True:
            if self._torn:
                self.reload()
            if self._calls >= SNAPSHOT_CALLS:
                self.take_snapshots()
            try:
                return self._play(g, which, text)
            except TakenError:
                made = None if text is None else self._recall(which, text)
                self.reload()
                if made is not None:
                    return made
                if not retry:
                    words = "a round of one of its agents was ended by another process"
                    remedy = "play the points of fleet.x, or use retry=True"
                    raise Overtaken(f"Fleet.update came too late: {words}; {remedy}.") from None

    def _play(self, g: Array, which: np.ndarray, id: str | None) -> Array:
        played = self.memory[which, self._layout.x]
        after = self.memory[which]
        x = play_fleet(self._kernel, after, g, np.arange(len(which)), self._layout.x)
        if x is None:
            return real_array(g, "g", "Fleet.update")  # which says what does not fit
        hitting = np.vecdot(g, played) + 0.0  # SQLite has no -0.0
        switching = self._movement.weight * self._movement.distance(x - played)
        rows = self._make_rows(g, which, id, x, hitting, switching)
        self.store.append_many(rows, [self._lasts[i] for i in which])
        self._torn = True
        self.memory[which] = after
        self._paid[which, 0] += hitting
        self._paid[which, 1] += switching
        for i, row in zip(which, rows, strict=True):
            self._n[i] += 1
            self._lasts[i] = row[-1]
        self._calls += 1
        self._torn = False
        return x

    def _make_rows(
        self, g: Array, which: np.ndarray, id: str | None, x: Array, hitting: Array, switching: Array
    ) -> list[tuple[Any, ...]]:
        at = time()
        rounds = self.memory[which, codes.T].astype(np.int64).tolist()
        costs = zip(hitting.tolist(), switching.tolist(), strict=True)
        rows = []
        for i, t, numbers, decision, (hit, moved) in zip(which.tolist(), rounds, g, x, costs, strict=True):
            key = self._bases[i] | self._n[i]
            told = numbers.tobytes()
            made = decision.tobytes()
            if id is None:
                checksum = checksum_plain(key, ROUND, t, at, told, made, hit, moved)
                row = (key, ROUND, t, at, None, None, told, made, hit, moved, None, None, checksum)
            else:
                row = seal_row(key, ROUND, t, at, id, None, told, made, hit, moved, None, None)
            rows.append(row)
        return rows

    def _recall(self, which: np.ndarray, id: str) -> Array | None:
        """What all of these agents decided in the call of this id, if there was one; one of a few only is refused."""
        found = [self.store.find_round(self._ids[i], id) for i in which]
        if all(made is None for made in found):
            return None
        if any(made is None for made in found):
            remedy = "use another, or update just those"
            raise refusal(
                "Fleet.update", "an id that all of these agents took, or none", "id", repr(id), remedy
            )
        return np.array([np.frombuffer(made.decision, "<f8") for made in found if made is not None])

    # What was kept

    def reload(self) -> None:
        """Take over what is in the store, of every agent that is not as it was seen last."""
        places = {agent.id: i for i, agent in enumerate(self.agents)}
        behind: dict[int, list[Row]] = {}
        for snapshot, rows in self.store.read_latest(self._ids):
            i = places[snapshot.key >> AGENT_SHIFT]
            last = rows[-1].checksum if rows else None
            n = (rows[-1].key + 1 if rows else snapshot.key) - self._bases[i]
            if not self._torn and self._n[i] == n and self._lasts[i] == last:
                continue
            self._restore(i, snapshot, rows)
            later = [row for row in rows if row.key >= snapshot.key]
            if later:
                behind[i] = later
        self._replay(behind)
        self._torn = False
        if -1 in self._snapped:  # from here on, rounds are computed here
            self.take_snapshots()

    def _restore(self, i: int, snapshot: Snapshot, rows: list[Row]) -> None:
        """Put an agent to where its snapshot was taken."""
        about = json.loads(snapshot.about)
        if "guards" in about:
            raise self._refuse_guards(i)
        machine = json.dumps(about["machine"])
        if machine not in self._machines:
            where = f"{self.names[i]!r} in {self.store.path}"
            warn_of_another_machine(about | {"engine": self._engine}, where, stacklevel=6)
            self._machines.add(machine)
        state = rebuild_state(self._model, about["state"])
        if state is None:
            raise self.store.damage(f"the state of a {type(self.learner).__name__}")
        self.memory[i] = self._layout.pack(state)
        self._n[i] = snapshot.n
        is_of_here = about["machine"] == describe_machine(self._engine)
        self._snapped[i] = snapshot.n if is_of_here else -1
        self._lasts[i] = rows[0].checksum if rows and rows[0].key < snapshot.key else None
        self._paid[i] = snapshot.hitting, snapshot.switching

    def _refuse_guards(self, i: int) -> Refused:
        remedy = "open it with Agent.open"
        return refusal("Fleet.open", "agents without guards", "name", repr(self.names[i]), remedy)

    def _replay(self, behind: dict[int, list[Row]]) -> None:
        """Play the records that follow, side by side; each must give the decision that was made then."""
        for i, rows in list(behind.items()):
            if any(row.kind != ROUND for row in rows):
                del behind[i]
                self._replay_alone(i, rows)
        step = 0
        while behind:
            which = np.array(list(behind))
            rows = [found[step] for found in behind.values()]
            g = np.array([np.frombuffer(row.numbers, "<f8") for row in rows])
            made = np.array([np.frombuffer(row.decision, "<f8") for row in rows])
            play_fleet(self._kernel, self.memory, g, which, self._layout.x)
            self._require_same(made, which)
            for i, row in zip(which.tolist(), rows, strict=True):
                self._count(i, row)
            step += 1
            behind = {i: found for i, found in behind.items() if len(found) > step}

    def _replay_alone(self, i: int, rows: list[Row]) -> None:
        """Play an agent's records that are not all plain rounds."""
        state = self._layout.unpack(self.memory[i])
        live = Live(self.learner, self._engine, state, None)
        for row in rows:
            replay_row(live, row)
            if live.guards is not None:
                raise self._refuse_guards(i)
            self.memory[i] = live.flat
            self._require_same(np.frombuffer(row.decision, "<f8")[None], np.array([i]))
            self._count(i, row)

    def _require_same(self, made: Array, which: np.ndarray) -> None:
        apart = np.abs(self.memory[which, self._layout.x] - made).max(axis=1)
        worst = int(np.argmax(apart))
        if not apart[worst] <= ROUNDING * self.learner.domain.scale:
            i = which[worst]
            raise self.store.damage(f"record {self._n[i]} of {self.names[i]!r} to follow from those before")

    def _count(self, i: int, row: Row) -> None:
        if row.key != self._bases[i] | self._n[i]:
            raise self.store.damage(f"record {self._n[i]} of {self.names[i]!r}")
        self._n[i] += 1
        self._lasts[i] = row.checksum
        self._paid[i] += row.hitting, row.switching

    def take_snapshots(self) -> None:
        """Keep the present states of all agents that have played since their last one."""
        machine = describe_machine(self._engine)
        at = time()
        rounds = self.memory[:, codes.T].astype(np.int64).tolist()
        moved = [i for i, n in enumerate(self._n) if n > self._snapped[i]]
        snapshots = []
        for i in moved:
            state = describe_state(self._layout.unpack(self.memory[i]))
            about = json.dumps({"machine": machine, "state": state})
            hitting, switching = self._paid[i].tolist()
            key = self._bases[i] | self._n[i]
            snapshots.append(Snapshot(key, rounds[i], at, hitting, switching, about, 0))
        with suppress(TakenError):  # another process has gone on, and takes its own
            self.store.put_snapshots(snapshots, [self._lasts[i] for i in moved])
        for i in moved:
            self._snapped[i] = self._n[i]
        self._calls = 0

    def close(self) -> None:
        """Leave snapshots of the present states, and let go of the store."""
        if self.store.closed or self.store.inherited:
            return
        try:
            if not self._torn:
                self.take_snapshots()
        except Refused:
            pass  # the file was moved or is full; every round is in it
        finally:
            self.store.close()


def open_fleet(
    path: str | Path, learner: Learner[Any] | None, names: tuple[str, ...] | None, sync: str, shared: bool
) -> KeptFleet:
    """The agents of these names as they were after their last records, or new ones."""
    store = Store(path, sync, shared=shared, new=learner is not None, owner="Fleet.open")
    try:
        agents = _find_alike(store, learner) if names is None else _find_or_create(store, learner, names)
        shared_by_all = _require_one_learner(agents, learner, store)
        return KeptFleet(store, shared_by_all, agents)
    except BaseException:
        store.close()
        raise


def _find_alike(store: Store, learner: Learner[Any] | None) -> list[Listed]:
    """All agents that can play in the fleet of a learner, by default that of the first of them."""
    found = []
    for agent in store.list_agents():
        about = json.loads(agent.configuration)
        if about["engine"] != "compiled" or "guards" in json.loads(store.read_last_snapshot(agent.id).about):
            continue
        if learner is None:
            learner = Learner.from_dict(about["learner"])
        if about["learner"] == learner.to_dict():
            found.append(agent)
    if not found:
        remedy = "give a learner and the names of new agents"
        raise refusal("Fleet.open", "agents that can play as a fleet", "path", store.path, remedy)
    return found


def _find_or_create(store: Store, learner: Learner[Any] | None, names: tuple[str, ...]) -> list[Listed]:
    found = store.find_agents(names)
    fresh = [name for name in names if name not in found]
    if fresh:
        if learner is None:
            remedy = "give one, or the names of agents that are there: klazy agents lists them"
            raise refusal("Fleet.open", "a learner for new agents", "name", repr(fresh[0]), remedy)
        live = Live(learner, "compiled", None, None)
        about = json.dumps(live.about_configuration())
        with suppress(TakenError):  # another process makes the same ones
            store.create_agents(fresh, about, (live.t, 0.0, 0.0, json.dumps(live.about_state())))
        found |= store.find_agents(fresh)
    missing = [name for name in names if name not in found]
    if missing:  # another process made some of them meanwhile, and these are still to be made
        return _find_or_create(store, learner, names)
    return [found[name] for name in names]


def _require_one_learner(
    agents: Sequence[Listed], learner: Learner[Any] | None, store: Store
) -> Learner[Any]:
    """The learner that all of these agents have."""
    known: set[str] = set()
    for agent in agents:
        if agent.configuration in known:
            continue
        about = json.loads(agent.configuration)
        own = Learner.from_dict(about["learner"])
        where = f"{agent.name!r} in {store.path}"
        if about["engine"] != "compiled" or find_missing_part(own) is not None:
            remedy = "open it with Agent.open"
            raise refusal(
                "Fleet.open", f"agents with kernels, and so for {where}", "engine", "'step'", remedy
            )
        if learner is not None and own != learner:
            remedy = "leave it out, or choose other names"
            wanted = f"the learner of {where}, {own!r}"
            raise refusal("Fleet.open", wanted, "learner", repr(learner), remedy)
        learner = own
        known.add(agent.configuration)
    assert learner is not None
    return learner
