"""What a store says about its agents without playing them: summaries, histories, and whether all of it is intact."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import chain, islice
from time import monotonic
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from klazy.base.checks import Array, InvalidInput
from klazy.base.install import make_missing
from klazy.learners import Learner
from klazy.live import records
from klazy.live.guards import Guards, split_guards
from klazy.live.records import (
    AgentRow,
    Record,
    Row,
    Snapshot,
    parse_row,
    read_feedback,
    read_numbers,
)
from klazy.live.rows import RowSpec
from klazy.live.state import AgentState, describe_machine
from klazy.live.store import Store
from klazy.live.stored import StoredAgent, rebuild_agent

if TYPE_CHECKING:
    import polars

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# What a summary has of a ledger as it is.
_SUMMARIZED = ("hitting", "switching", "guarded", "frozen", "deleted")
# Old records that are read at a time, to find what never moving would have paid.
OLD_RECORDS = 10_000
# Agents that are not up to date after this time are as they were until the next look.
LOOK_SECONDS = 2.0


def format_time(at: float | None, digits: str = "microseconds") -> str | None:
    """Write seconds since 1970 as a time."""
    if at is None:
        return None
    time = _EPOCH + timedelta(microseconds=round(at * 1e6))
    return time.isoformat(timespec=digits)


def parse_time(text: str | None) -> int | None:
    """Return the microseconds since 1970 of a time that :func:`format_time` wrote."""
    if text is None:
        return None
    return (datetime.fromisoformat(text) - _EPOCH) // timedelta(microseconds=1)


# Summaries


class Ledger:
    """What an agent decides and has paid: its last snapshot, and the records since."""

    def __init__(self, agent: AgentRow, snapshot: Snapshot, about: dict[str, Any]) -> None:
        self.agent = agent
        self.name = agent.name
        guarded: Any = about.get("guarded")
        self.x = _read_first_point(about)
        self.hitting = snapshot.hitting
        self.switching = snapshot.switching
        self.rounds = snapshot.t - 1
        # When the last record was made.
        self.at: float | None = None
        self.guarded = guarded is not None
        self.frozen = self.guarded and guarded["frozen"]
        self.acted = guarded["acted"] if self.guarded else ""
        self.deleted = False
        # The number of the next record.
        self.n = snapshot.n

    def add(self, row: Row) -> None:
        """Add the next record."""
        self.n += 1
        self.at = row.at
        self.x = read_numbers(row.decision)
        self.hitting += row.hitting
        self.switching += row.switching
        self.rounds = row.t - (row.kind > records.HINTED)
        if row.kind <= records.HINTED:
            self.acted = row.guards or ""
        self.guarded = self.guarded or row.kind == records.GUARDS
        if row.kind in (records.FREEZE, records.RESUME):
            self.frozen = row.kind == records.FREEZE
        if row.kind in (records.DELETE, records.RESTORE):
            self.deleted = row.kind == records.DELETE


def _read_first_point(about: dict[str, Any]) -> Array:
    """Return the point that an agent plays after a snapshot."""
    return np.array((about.get("guarded") or about["state"])["x"])


def summarize(store: Store, agent: AgentRow) -> dict[str, Any]:
    """Describe an agent by a few plain values: its learner, its next round, its last decision, and all costs."""
    snapshot = store.read_last_snapshot(agent.id)
    about = json.loads(snapshot.about)
    ledger = Ledger(agent, snapshot, about)
    before = max(ledger.n - 1, store.find_first_record(agent.id) or 0)
    for row in store.read_records(agent.id, before):
        if row.n < ledger.n:
            ledger.at = row.at
        else:
            ledger.add(row)
    learner, engine = _read_configuration(agent.configuration)
    if isinstance(learner, Learner):
        learner = learner.describe(SimpleNamespace(**about["state"]))
    return {
        "name": agent.name,
        "learner": learner,
        "engine": engine,
        "created": format_time(agent.at, "seconds"),
        "rounds": ledger.rounds,
        "last": format_time(ledger.at, "seconds"),
        "decision": ledger.x.tolist(),
        **{name: getattr(ledger, name) for name in _SUMMARIZED},
    }


# Many agents are alike, and it takes long to build a large learner.
@lru_cache(256)
def read_spec(configuration: str) -> tuple[Learner[Any], RowSpec]:
    """Return the learner of a configuration, and the costs and the names of its rows."""
    about = json.loads(configuration)
    learner = Learner.from_dict(about["learner"])
    return learner, RowSpec.from_dict(learner, about)


@lru_cache(256)
def _read_configuration(configuration: str) -> tuple[Learner[Any] | str, str]:
    """Return the engine and the learner, or why that is not known here: it must not hide the other agents."""
    found = json.loads(configuration)
    about = found["learner"]
    try:
        return Learner.from_dict(about), found["engine"]
    except ValueError as failed:
        return f"{about['class']}: {failed}", found["engine"]


def describe_agent(agent: StoredAgent) -> dict[str, Any]:
    """Describe the present state of an open agent by JSON values."""
    state = agent.state
    named = state.decision
    return {
        "name": agent.agent.name,
        "t": state.t,
        "x": state.x.tolist(),
        "decision": named if isinstance(named, dict) else None,
        **state.describe_configuration(),
        "created": format_time(agent.agent.at),
        "hitting": state.hitting,
        "switching": state.switching,
        "guards": None if state.guards is None else state.guards.to_dict(),
        "frozen": state.guarded is not None and state.guarded.frozen,
        "deleted": agent.deleted,
        "pending": {round: x.tolist() for round, x in state.pending.items()},
        "probes": [x.tolist() for x in state.probes],
    }


# Tallies


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
        """Return what each row costs, including the move back to the held decision."""
        hitting, switching = self._charge(rows, np.tile(self._x, (len(rows), 1)))
        return hitting + switching

    def _charge(self, rows: Array, x: Array) -> tuple[Array, Array]:
        """Charge rows; one may carry the decision away, and coming back is charged."""
        rows = self._scale(rows)
        back = x - self._family.drift(rows, x)
        return self._family.value(rows, x), self._movement.weight * self._movement.distance(back)


def find_never_moving(store: Store, agent: AgentRow) -> NeverMoving | None:
    """Return what never moving pays, from an agent's first round on; None if that is not in the store, or rows cost nothing."""
    learner, spec = read_spec(agent.configuration)
    first = store.read_snapshots(agent.id, "ORDER BY key LIMIT 1")[0]
    if spec.costs is None or first.n > 0 or first.hitting != 0.0:
        return None
    return NeverMoving(learner, spec, _read_first_point(json.loads(first.about)))


class Tally(Ledger):
    """A ledger that is kept up to date, and knows what never moving would have paid."""

    def __init__(self, store: Store, agent: AgentRow) -> None:
        self._spec = read_spec(agent.configuration)[1]
        self._begin(store, agent)

    def _begin(self, store: Store, agent: AgentRow) -> None:
        snapshot = store.read_last_snapshot(agent.id)
        super().__init__(agent, snapshot, json.loads(snapshot.about))
        # The number and the checksum of the last record that was read.
        self._seen: tuple[int, int] | None = None
        self._fixed = find_never_moving(store, agent)
        self._fixed_n = 0

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
        """What never moving would have paid; None until the history was read, and where it is not whole."""
        if self._fixed is None or self._fixed_n < self.n:
            return None
        return self._fixed.cost

    def look(self, store: Store) -> None:
        """Read the records that are new."""
        agent = self.agent.id
        last = store.find_last_record(agent)
        if self._seen not in (None, last) and not store.still_has(agent, self._seen):
            # The store was restored from a backup.
            self._begin(store, self.agent)
        for row in store.read_records(agent, self.n):
            self.add(row)
        self._seen = last
        if self._fixed is None:
            return
        try:
            for row in islice(store.read_records(agent, self._fixed_n), OLD_RECORDS):
                if row.row is not None:
                    self._fixed.add(parse_row(row.row))
                self._fixed_n += 1
        except InvalidInput:
            # Old records were pruned.
            self._fixed = None


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


# Histories


def read_history(store: Store, agent: AgentRow, last: int | None = None) -> "polars.DataFrame":
    """Return a frame with a row per round that the store has, or per round of the ``last`` ones."""
    rows = store.read_records(agent.id, store.find_first_record(agent.id) or 0)
    frame = make_frame([describe_round(row) for row in rows if row.kind <= records.HINTED])
    return frame if last is None else frame.tail(last)


def describe_round(row: Row) -> dict[str, Any]:
    """Describe a round by plain values; its time is in microseconds since 1970."""
    numbers = read_numbers(row.numbers).tolist()
    decision = read_numbers(row.decision).tolist()
    d = len(decision)
    feedback = read_feedback(row)
    feedback_round: int | None = row.t
    if feedback is not None:
        feedback_round = feedback[1] if feedback[0] == records.LATE else None
    return {
        "t": row.t,
        "time": None if row.at is None else round(row.at * 1e6),
        "id": row.id,
        "row": row.row,
        "gradient": numbers[:d],
        "next_hint": numbers[d:] or None,
        "hitting": row.hitting,
        "decision": decision,
        "switching": row.switching,
        "guards": row.guards,
        "round": feedback_round,
    }


def make_frame(rounds: Sequence[dict[str, Any]]) -> "polars.DataFrame":
    """Make a frame of rounds as :func:`describe_round` gives them."""
    try:
        import polars as pl
    except ImportError as missing:
        raise make_missing("history", "polars", "cli") from missing
    numbers = pl.List(pl.Float64)
    schema: dict[str, Any] = {"t": pl.Int64, "time": pl.Int64, "id": pl.String, "row": pl.String}
    schema |= {"gradient": numbers, "next_hint": numbers, "hitting": pl.Float64}
    schema |= {
        "decision": numbers,
        "switching": pl.Float64,
        "guards": pl.String,
        "round": pl.Int64,
    }
    frame = pl.DataFrame([{name: one[name] for name in schema} for one in rounds], schema=schema)
    return frame.with_columns(pl.col("time").cast(pl.Datetime("us", "UTC")))


# Checks


class Checked(NamedTuple):
    """What was found of an agent: the rounds played again, those computed on another kind of machine, and a fault, if any."""

    name: str
    rounds: int
    elsewhere: int
    fault: str | None


def check_store(store: Store) -> Iterator[Checked]:
    """Check the database, under an empty name, then play every agent again from its first snapshot, bit for bit."""
    with store.one_moment():
        faults = store.find_faults()
        yield Checked("", 0, 0, "; ".join(faults[:3]) or None)
        for agent in store.list_agents():
            counts: Counter[str] = Counter()
            try:
                fault = _replay(store, agent, counts)
            except (ArithmeticError, ValueError) as failed:
                fault = str(failed)
            yield Checked(agent.name, counts["rounds"], counts["elsewhere"], fault)


def _replay(store: Store, agent: AgentRow, counts: Counter[str]) -> str | None:
    """Play an agent again; return the first fault."""
    snapshots = {snapshot.n: snapshot for snapshot in store.read_snapshots(agent.id)}
    if not snapshots:
        return "it has no snapshot"
    n = min(snapshots)
    state: Any = None
    is_of_here = False
    for row in chain(store.read_records(agent.id, n), [None]):
        snapshot = snapshots.pop(n, None)
        if snapshot is not None:
            if is_of_here and not _is_same(state, snapshot):
                return f"round {snapshot.t} begins with another state than the one that was kept"
            state = rebuild_agent(agent, snapshot)
            is_of_here = state.machine == describe_machine(state.engine)
        if row is None:
            break
        fault = _replay_row(state, row, n, is_of_here)
        n += 1
        if row.kind <= records.HINTED:
            counts["rounds"] += 1
            counts["elsewhere"] += not is_of_here
        if fault is not None:
            return fault
    return f"the records before snapshot {min(snapshots)} are gone" if snapshots else None


def _replay_row(state: AgentState, row: Row, n: int, is_of_here: bool) -> str | None:
    """Compute and apply a record; return in what it differs from its row."""
    t = state.t
    record = row.to_record()
    gradient = _compute_gradient(state, record)
    outcome = state.compute(record)
    state.apply(outcome)
    if row.t != t:
        return f"record {n} is of round {row.t}, and not of {t}"
    if not is_of_here:
        return None
    if outcome.x.tobytes() != row.decision:
        return f"round {t} gives another decision than the one that was kept"
    if row.row is None:
        return None
    # A hint may follow the gradient.
    if not row.numbers.startswith(gradient):
        return f"round {t} gives another gradient than the one that was kept"
    if (outcome.hitting, outcome.switching) != (row.hitting, row.switching):
        return f"round {t} costs something else than what was kept"
    return None


def _compute_gradient(state: AgentState, record: Record) -> bytes:
    """Compute the gradient of a round with a row of data, at the point played; nothing for other records."""
    if record.values is None:
        return b""
    if state.spec.costs is None:
        return state.record_cost(record.values).numbers.tobytes()
    feedback = read_feedback(record)
    round = None if feedback is None else feedback[1]
    return state.record_row(record.values, round=round).numbers.tobytes()


def _is_same(state: AgentState, snapshot: Snapshot) -> bool:
    """Return True if a state is that of a snapshot."""
    stored = json.loads(snapshot.about)
    now = json.loads(json.dumps(state.describe_state()))
    now["machine"] = stored["machine"]
    if "guards" in stored:
        # An older klazy wrote fewer limits.
        stored["guards"] = Guards.from_dict(stored["guards"]).to_dict()
    # NaN is not equal to itself, but its text is.
    return json.dumps(stored, sort_keys=True) == json.dumps(now, sort_keys=True)
