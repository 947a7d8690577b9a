"""An agent of a store in a few plain values, without playing it again."""

import json
from datetime import UTC, datetime
from typing import Any

import numpy as np

from klazy.learners import Learner
from klazy.live.records import DELETE, FREEZE, GUARDS, RESTORE, RESUME
from klazy.live.store import Listed, Store


def summarize(store: Store, agent: Listed) -> dict[str, Any]:
    """Its name and learner, the round that comes next, its last decision, and what all kept and pruned rounds cost."""
    snapshot = store.read_last_snapshot(agent.id)
    about = json.loads(snapshot.about)
    guarded = about.get("guarded")
    frozen = guarded is not None and guarded["frozen"]
    decision = about["state"]["x"] if guarded is None else guarded["x"]
    hitting = snapshot.hitting
    switching = snapshot.switching
    t = snapshot.t
    last = None
    deleted = False
    is_guarded = guarded is not None
    before = max(snapshot.n - 1, store.find_first_record(agent.id) or 0)
    for row in store.read_records(agent.id, before):
        last = row.at
        decision = np.frombuffer(row.decision, "<f8").tolist()
        if row.key - (agent.id << 40) < snapshot.n:
            continue
        hitting += row.hitting
        switching += row.switching
        t = row.t + (row.kind < FREEZE)
        if row.kind in (FREEZE, RESUME):
            frozen = row.kind == FREEZE
        is_guarded = is_guarded or row.kind == GUARDS
        if row.kind in (DELETE, RESTORE):
            deleted = row.kind == DELETE
    configuration = json.loads(agent.configuration)
    return {
        "name": agent.name,
        "learner": repr(Learner.from_dict(configuration["learner"])),
        "engine": configuration["engine"],
        "created": _spell(agent.at),
        "rounds": t - 1,
        "last": _spell(last),
        "decision": decision,
        "hitting": hitting,
        "switching": switching,
        "guarded": is_guarded,
        "frozen": frozen,
        "deleted": deleted,
    }


def _spell(at: float | None) -> str | None:
    """Seconds since 1970 as a time."""
    return None if at is None else datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")
