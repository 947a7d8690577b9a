"""Open an agent of a store: make it, or bring it to where its last record left it."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

from klazy.base.checks import refusal
from klazy.learners import Learner
from klazy.live.guards import Guards
from klazy.live.kept import Kept, check_keep, guard, make_known, rebuild
from klazy.live.machine import describe_machine, warn_of_another_machine
from klazy.live.rows import Account, make_terms
from klazy.live.state import Live
from klazy.live.store import Listed, Store

NAME_BYTES = 200


def open_agent(
    path: str | Path,
    begin: Learner[Any] | Live | None,
    name: str,
    given: dict[str, Any],
    engine: str,
    state: Any,
    guards: Guards | None,
    sync: str,
    keep: int | timedelta | None,
    read_only: bool,
    shared: bool,
) -> Kept:
    """The agent of this name as it was after its last record, or a new one; ``given`` are the terms of :class:`Terms`.

    A new one begins with a learner, or as all that an agent is.
    """
    check_name(name)
    check_keep(keep)
    live = None
    learner = None
    if isinstance(begin, Live):
        live = begin
        given = live.terms.repeat()
        learner = live.learner
    elif begin is not None:
        learner = begin
        live = Live(learner, engine, state, guards, make_terms(learner, owner="Agent.open", **given))
    store = Store(path, sync, read_only=read_only, shared=shared, new=learner is not None)
    try:
        found = store.find_agent(name)
        if found is not None and state is not None:
            wanted = "a state for a new agent only"
            raise refusal(
                "Agent.open", wanted, "name", repr(name), "it is there already; leave the state out"
            )
        if found is None:
            found = create_agent(store, name, live)
        kept = revive_agent(store, found, learner, given, engine, keep)
        if guards is not None and not read_only:
            kept.change(lambda live: guard(live, guards))
    except BaseException:
        store.close()
        raise
    return kept


def check_name(name: Any) -> str:
    """The name of an agent: printable text, not too long."""
    fits = isinstance(name, str) and name.isprintable() and name.strip() == name != ""
    if not fits or len(name.encode(errors="replace")) > NAME_BYTES:
        wanted = f"a name, printable text of 1 to {NAME_BYTES} bytes"
        raise refusal("Agent.open", wanted, "name", repr(name), "write name='eu-west'")
    return name


def create_agent(store: Store, name: str, live: Live | None) -> Listed:
    """Make an agent, or find the one that another process has made meanwhile."""
    if live is None or store.read_only:
        remedy = "give one, or the name of an agent that is there: klazy agents lists them"
        raise refusal("Agent.open", "a learner for a new agent", "name", repr(name), remedy)
    about = json.dumps(live.about_configuration())
    paid = live.account or Account()
    known = [make_known(id, live.x, live.t) for id in live.ids]
    first = (live.t, paid.hitting, paid.switching, json.dumps(live.about_state()))
    store.create_agent(name, about, first, known)
    found = store.find_agent(name)  # which another process may have made meanwhile
    if found is None:
        raise store.damage(f"the row of agent {name!r} that was written")
    return found


def revive_agent(
    store: Store,
    agent: Listed,
    learner: Learner[Any] | None = None,
    given: dict[str, Any] | None = None,
    engine: str = "auto",
    keep: int | timedelta | None = None,
) -> Kept:
    """An agent that is there, as it was after its last record; what is given must not differ from it."""
    snapshot = store.read_last_snapshot(agent.id)
    live = rebuild(agent, snapshot)
    where = f"{agent.name!r} in {store.path}"
    if learner is not None and learner != live.learner:
        wanted = f"the learner of {where}, {live.learner!r}"
        raise refusal("Agent.open", wanted, "learner", repr(learner), "leave it out, or choose another name")
    differs = None
    if given is not None:
        differs = live.terms.find_difference(given, live.learner)
    if given is not None and differs is not None:
        term, here = differs
        remedy = "leave it out, or choose another name"
        raise refusal("Agent.open", f"the {term} of {where}, {here!r}", term, repr(given[term]), remedy)
    if engine not in ("auto", live.engine):
        wanted = f"the engine of {where}, {live.engine!r}"
        raise refusal("Agent.open", wanted, "engine", repr(engine), "leave it out")
    about = {"engine": live.engine, **json.loads(snapshot.about)}
    is_of_here = about["machine"] == describe_machine(live.engine)
    warn_of_another_machine(about, where, stacklevel=4)
    first = store.find_first_record(agent.id)
    if first is not None and first < snapshot.n and store.find_checksum(agent.id, snapshot.n - 1) is None:
        raise store.damage(f"record {snapshot.n - 1} of {where}")
    kept = Kept(store, agent, live, snapshot, keep)
    kept.replay()
    if not store.read_only and not is_of_here and not kept.deleted:
        kept.take_snapshot()
    return kept
