"""What a store says about its agents without playing them: summaries, histories, and whether all of it is intact."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import chain
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

from klazy.base.install import make_missing
from klazy.learners import Learner
from klazy.live import records
from klazy.live.guards import Guards
from klazy.live.records import AgentRow, Record, Row, Snapshot, read_feedback, read_numbers
from klazy.live.state import AgentState, describe_machine
from klazy.live.store import Store
from klazy.live.stored import StoredAgent, rebuild_agent

if TYPE_CHECKING:
    import polars

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


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


def summarize(store: Store, agent: AgentRow) -> dict[str, Any]:
    """Describe an agent by a few plain values: its learner, its next round, its last decision, and all costs."""
    snapshot = store.read_last_snapshot(agent.id)
    about = json.loads(snapshot.about)
    guarded = about.get("guarded")
    learner, engine = _read_configuration(agent.configuration)
    if isinstance(learner, Learner):
        learner = learner.describe(SimpleNamespace(**about["state"]))
    found = {
        "name": agent.name,
        "learner": learner,
        "engine": engine,
        "created": format_time(agent.at, "seconds"),
        "rounds": snapshot.t - 1,
        "last": None,
        "decision": about["state"]["x"] if guarded is None else guarded["x"],
        "hitting": snapshot.hitting,
        "switching": snapshot.switching,
        "guarded": guarded is not None,
        "frozen": guarded is not None and guarded["frozen"],
        "deleted": False,
    }
    before = max(snapshot.n - 1, store.find_first_record(agent.id) or 0)
    for row in store.read_records(agent.id, before):
        found["last"] = format_time(row.at, "seconds")
        found["decision"] = read_numbers(row.decision).tolist()
        if row.key < snapshot.key:
            continue
        found["hitting"] += row.hitting
        found["switching"] += row.switching
        found["rounds"] = row.t - (row.kind > records.HINTED)
        found["guarded"] = found["guarded"] or row.kind == records.GUARDS
        if row.kind in (records.FREEZE, records.RESUME):
            found["frozen"] = row.kind == records.FREEZE
        if row.kind in (records.DELETE, records.RESTORE):
            found["deleted"] = row.kind == records.DELETE
    return found


# Many agents are alike, and it takes long to build a large learner.
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
        "hint": numbers[d:] or None,
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
    schema |= {"gradient": numbers, "hint": numbers, "hitting": pl.Float64, "decision": numbers}
    schema |= {"switching": pl.Float64, "guards": pl.String, "round": pl.Int64}
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
