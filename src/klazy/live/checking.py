"""Check a store: the database's own test, then every agent played again from its first snapshot, bit for bit."""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from klazy.live.kept import rebuild, replay_row
from klazy.live.machine import describe_machine
from klazy.live.records import HINTED, LATE, ROUND, Row, read_feedback
from klazy.live.state import Live
from klazy.live.store import Listed, Snapshot, Store


class Checked(NamedTuple):
    """What was found of an agent: the rounds played again, those computed on another kind of machine, and a fault, if any."""

    name: str
    rounds: int
    elsewhere: int
    fault: str | None


def check_store(store: Store) -> Iterator[Checked]:
    """Check one agent after the other; the database as a whole comes first, under an empty name."""
    with store.one_moment():
        faults = store.find_faults()
        yield Checked("", 0, 0, "; ".join(faults[:3]) or None)
        for agent in store.list_agents():
            yield _check_agent(store, agent)


def _check_agent(store: Store, agent: Listed) -> Checked:
    progress = Counter()
    try:
        fault = _replay(store, agent, progress)
    except (ArithmeticError, ValueError) as refused:
        fault = str(refused)
    return Checked(agent.name, progress["rounds"], progress["elsewhere"], fault)


def _replay(store: Store, agent: Listed, progress: Counter[str]) -> str | None:
    snapshots = store.read_snapshots(agent.id)
    if not snapshots:
        return "it has no snapshot"
    first = snapshots[0]
    here = describe_machine(json.loads(agent.configuration)["engine"])
    live = rebuild(agent, first)
    is_of_here = _is_of(here, first)
    later = {snapshot.n: snapshot for snapshot in snapshots[1:]}
    n = first.n
    for row in store.read_records(agent.id, first.n):
        if n in later:
            fault = _compare(live, later[n], is_of_here)
            if fault is not None:
                return fault
            is_of_here = _is_of(here, later[n])
            live = rebuild(agent, later.pop(n))
        t = live.t
        told = _find_gradient(live, row)
        outcome = replay_row(live, row)
        n += 1
        if row.t != t:
            return f"record {n - 1} is of round {row.t}, and not of {t}"
        if row.kind in (ROUND, HINTED):
            progress["rounds"] += 1
            progress["elsewhere"] += not is_of_here
        if is_of_here and live.played.tobytes() != row.decision:
            return f"round {t} gives another decision than the one that was kept"
        if is_of_here and row.row is not None and outcome is not None:
            if not row.numbers.startswith(told):  # a hint may follow the gradient
                return f"round {t} gives another gradient than the one that was kept"
            if (outcome.hitting, outcome.switching) != (row.hitting, row.switching):
                return f"round {t} costs something else than what was kept"
    if n in later:
        fault = _compare(live, later.pop(n), is_of_here)
        if fault is not None:
            return fault
    return f"the records before snapshot {min(later)} are gone" if later else None


def _find_gradient(live: Live, row: Row) -> bytes:
    """The gradient of a round of which the row was told, at the point that was played; nothing of other records."""
    if row.row is None:
        return b""
    if live.terms.costs is None:
        return live.learner.estimate(live.state, live.terms.parse(row.row)).tobytes()
    played = live.played
    feedback = read_feedback(row)
    if feedback is not None and feedback[0] == LATE:
        played = live.pending[feedback[1]]
    return live.terms.costs.gradient(live.terms.parse(row.row), played).tobytes()


def _is_of(here: dict[str, str], snapshot: Snapshot) -> bool:
    return json.loads(snapshot.about)["machine"] == here


def _compare(live: Live, snapshot: Snapshot, is_of_here: bool) -> str | None:
    """What a replayed agent and a snapshot differ by."""
    kept = _drop_machine(json.loads(snapshot.about))
    now = _drop_machine(json.loads(json.dumps(live.about_state())))
    if is_of_here and kept != now:
        return f"round {snapshot.t} begins with another state than the one that was kept"
    return None


def _drop_machine(about: dict[str, Any]) -> str:
    return json.dumps({name: value for name, value in about.items() if name != "machine"}, sort_keys=True)
