"""Open an agent from its files: read them, replay the journal, and put both in order for what comes next."""

import warnings
from pathlib import Path
from typing import Any

from klazy.base.checks import refusal
from klazy.learners import Learner
from klazy.live.guards import Guards
from klazy.live.journal import Journal
from klazy.live.machine import warn_of_another_machine
from klazy.live.records import TornJournal
from klazy.live.state import Live


def open_agent(
    path: str | Path, learner: Learner[Any] | None, engine: str, state: Any, guards: Guards | None, sync: str
) -> tuple[Live, Journal]:
    """The agent of a folder as it was after its last whole record, or a new one, with its journal, empty after a snapshot."""
    if learner is None and not (Path(path) / "snapshot").exists():
        raise refusal(
            "Agent.open", "a learner for a new agent", "path", path, "give one, or the path of an agent"
        )
    journal = Journal(path, sync)
    try:
        if journal.about is not None and state is not None:
            raise refusal(
                "Agent.open",
                "a state for a new agent only",
                "path",
                path,
                "it is there already; leave the state out",
            )
        if journal.about is None:
            live = Live(learner, engine, state, guards)
            journal.begin(live.learner.to_dict(), live.width)
        else:
            warn_of_another_machine(journal.about, path, stacklevel=3)
            live = _replay(journal, learner, engine)
            live.guard_by(guards)
        if journal.torn is not None:
            kept = journal.keep_dropped()
            dropped = f"the journal ends in a torn record, dropped from byte {journal.torn} on"
            remedy = f"go on in round t={live.t}; what was dropped is in {kept.name}"
            warnings.warn(f"{path}: {dropped}; {remedy}.", TornJournal, stacklevel=3)
        journal.compact(journal.n, live.about())
    except BaseException:
        journal.release()
        raise
    return live, journal


def _replay(journal: Journal, learner: Learner[Any] | None, engine: str) -> Live:
    live = Live.rebuild(journal.about or {})
    if learner is not None and learner != live.learner:
        wanted = f"the learner of {journal.folder}, {live.learner!r}"
        raise refusal(
            "Agent.open", wanted, "learner", repr(learner), "leave it out, or choose another folder"
        )
    if engine not in ("auto", live.engine):
        wanted = f"the engine of {journal.folder}, {live.engine!r}"
        raise refusal("Agent.open", wanted, "engine", repr(engine), "leave it out")
    for record in journal.records:
        form, guarded = live.after(record)
        live.show(record, form, guarded)
    return live
