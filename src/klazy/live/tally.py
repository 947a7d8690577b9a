"""What agents of a store decide and have paid, kept up to date by reading their new records only."""

import json
from collections.abc import Iterable
from contextlib import suppress
from itertools import islice
from time import monotonic
from typing import Any

import numpy as np

from klazy.base.checks import Array, InvalidInput
from klazy.learners import Learner
from klazy.live.guards import split_guards
from klazy.live.records import DELETE, FREEZE, HINTED, RESTORE, RESUME, AgentRow, Row, parse_row, read_numbers
from klazy.live.rows import RowSpec
from klazy.live.store import Store

# Old records that are read at a time, to find what never moving would have paid.
OLD_RECORDS = 10_000
# Agents that are not up to date after this time are as they were until the next look.
LOOK_SECONDS = 2.0


class NeverMoving:
    """What a decision that never changed would have paid on the rows of an agent.

    It is the one that the agent's replay compared with, else the agent's first.
    """

    def __init__(self, learner: Learner[Any], spec: RowSpec, first: Array) -> None:
        self._family: Any = spec.costs
        self._movement: Any = spec.movement or learner.own_movement
        self._scale = spec.scale
        self._x = np.array((spec.origin or {}).get("fixed_decision", first), dtype=float)
        self.hitting = 0.0
        self.switching = 0.0

    @property
    def cost(self) -> float:
        """The sum, in the order in which a replay adds."""
        return self.hitting + self.switching

    def add(self, row: Array) -> None:
        """Add a row."""
        hitting, switching = self._charge(row, self._x)
        self.hitting += float(hitting)
        self.switching += float(switching)

    def charge(self, rows: Array) -> Array:
        """Return what each of many rows costs, and coming back after it."""
        hitting, switching = self._charge(rows, np.tile(self._x, (len(rows), 1)))
        return hitting + switching

    def _charge(self, rows: Array, x: Array) -> tuple[Array, Array]:
        """Charge rows; one may carry the decision away, and coming back is charged."""
        rows = self._scale(rows)
        back = x - self._family.drift(rows, x)
        return self._family.value(rows, x), self._movement.weight * self._movement.distance(back)


def find_first_decision(store: Store, agent: int) -> Array | None:
    """Return the decision with which an agent began; None if its first rounds are not in the store."""
    first = store.read_snapshots(agent, "ORDER BY key LIMIT 1")[0]
    if first.n > 0 or first.hitting != 0.0:
        return None
    start = json.loads(first.about)
    return np.array(start["guarded"]["x"] if "guarded" in start else start["state"]["x"])


class Tally:
    """An agent's decision by name, what it has paid, and the guards that act.

    ``fixed`` is what never moving would have paid; None until the history was read, and where it is not whole.
    """

    def __init__(self, store: Store, agent: AgentRow) -> None:
        self.name = agent.name
        self._agent = agent.id
        about = json.loads(agent.configuration)
        self._learner = Learner.from_dict(about["learner"])
        self._spec = RowSpec.from_dict(self._learner, about)
        self._begin(store)

    def _begin(self, store: Store) -> None:
        snapshot = store.read_last_snapshot(self._agent)
        about = json.loads(snapshot.about)
        guarded = about.get("guarded")
        self.x = np.array(about["state"]["x"] if guarded is None else guarded["x"])
        self.hitting = snapshot.hitting
        self.switching = snapshot.switching
        self.frozen = guarded is not None and guarded["frozen"]
        self.acted = "" if guarded is None else guarded["acted"]
        self.deleted = False
        self._n = snapshot.n
        # The number and the checksum of the last record that was read.
        self._seen: tuple[int, int] | None = None
        self._fixed: NeverMoving | None = None
        self._fixed_n = 0
        first = find_first_decision(store, self._agent)
        if self._spec.costs is not None and first is not None:
            self._fixed = NeverMoving(self._learner, self._spec, first)

    @property
    def decision(self) -> dict[str, float]:
        """The decision, by the names of its columns or else by their numbers, from 1."""
        names = self._spec.names or [str(i + 1) for i in range(len(self.x))]
        return dict(zip(names, self.x.tolist(), strict=True))

    @property
    def guards(self) -> tuple[str, ...]:
        """The guards that acted on the last move, and ``"frozen"`` while it is."""
        return split_guards(self.acted, self.frozen)

    @property
    def knows_costs(self) -> bool:
        """Whether rounds say what they cost."""
        return self._spec.costs is not None

    @property
    def fixed(self) -> float | None:
        """What never moving would have paid, if that is known."""
        if self._fixed is None or self._fixed_n < self._n:
            return None
        return self._fixed.cost

    def look(self, store: Store) -> None:
        """Read the records that are new."""
        last = store.find_last_record(self._agent)
        if self._seen is not None and last != self._seen and not self._has(store, self._seen):
            # The store was restored from a backup.
            self._begin(store)
        for row in store.read_records(self._agent, self._n):
            self._apply(row)
        self._seen = last
        if self._fixed is None:
            return
        try:
            for row in islice(store.read_records(self._agent, self._fixed_n), OLD_RECORDS):
                if row.row is not None:
                    self._fixed.add(parse_row(row.row))
                self._fixed_n += 1
        except InvalidInput:
            # Old records were pruned.
            self._fixed = None

    def _has(self, store: Store, seen: tuple[int, int]) -> bool:
        for row in store.read_records(self._agent, seen[0]):
            return row.checksum == seen[1]
        return False

    def _apply(self, row: Row) -> None:
        self._n += 1
        self.x = read_numbers(row.decision)
        self.hitting += row.hitting
        self.switching += row.switching
        if row.kind <= HINTED:
            self.acted = row.guards or ""
        if row.kind in (FREEZE, RESUME):
            self.frozen = row.kind == FREEZE
        if row.kind in (DELETE, RESTORE):
            self.deleted = row.kind == DELETE


class Tallies:
    """The tallies of all agents of a store, or of those with these names."""

    def __init__(self, names: Iterable[str] | None = None) -> None:
        self._names = None if names is None else frozenset(names)
        self._tallies: dict[str, Tally] = {}

    def look(self, store: Store) -> list[Tally]:
        """Bring the tallies up to date, those that waited longest first, and return them by name; deleted agents have none."""
        until = monotonic() + LOOK_SECONDS
        agents = {agent.name: agent for agent in store.list_agents()}
        names = [name for name in agents if self._names is None or name in self._names]
        waited = [*(name for name in names if name not in self._tallies), *self._tallies]
        for name in waited:
            tally = self._tallies.pop(name, None)
            if name not in agents:
                continue
            # An agent that is damaged, or has a learner that cannot be imported here, is left out.
            with suppress(InvalidInput):
                tally = tally or Tally(store, agents[name])
                tally.look(store)
                # A dict keeps its order: this one has waited least.
                self._tallies[name] = tally
            if monotonic() > until:
                break
        found = [tally for tally in self._tallies.values() if not tally.deleted]
        return sorted(found, key=lambda tally: tally.name)
