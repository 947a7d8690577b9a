"""An agent that a store keeps: every round is worked out beside the present state, committed, and only then shown."""

import json
import warnings
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from time import perf_counter, time
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from klazy.base.checks import Array, Refused, refusal
from klazy.kernels import codes
from klazy.learners import Delayed
from klazy.live.guards import Guards
from klazy.live.machine import OtherMachine
from klazy.live.overtaken import Overtaken
from klazy.live.records import (
    DELETE,
    FREEZE,
    GUARDS,
    HINTED,
    KNOWN,
    RESTORE,
    RESUME,
    ROUND,
    Record,
    Row,
    checksum_plain,
    make_row,
    seal_row,
)
from klazy.live.rows import OBSERVE
from klazy.live.schema import AGENT_SHIFT
from klazy.live.state import COST, Live, Outcome
from klazy.live.store import Listed, Snapshot, Store, TakenError

SNAPSHOT_ROUNDS = 1000  # at most so many are replayed when an agent is opened
SNAPSHOT_SECONDS = 0.5  # or as many as took so long to play
ROUNDING = 1e-9  # of the set's scale: far more than machines differ by, far less than another learner would
_FLOAT64 = np.dtype(np.float64)


class Kept:
    """A live agent, the rows it came from, and the place of the next one.

    ``n`` is the number of the record that comes next. ``keep`` says how much history stays: all of it, so many records, or
    those of a time span.
    """

    def __init__(
        self,
        store: Store,
        agent: Listed,
        live: Live,
        snapshot: Snapshot,
        keep: int | timedelta | None,
    ) -> None:
        self.store = store
        self.agent = agent
        self.keep = keep
        self._base = agent.id << AGENT_SHIFT
        self._append_plain = store.append_plain
        self._begin(live, snapshot)

    def _begin(self, live: Live, snapshot: Snapshot) -> None:
        self._torn = True  # whether a round is being shown, or was when it was interrupted
        self.live = live
        self.n = snapshot.n
        self._last = self.store.find_checksum(
            self.agent.id, snapshot.n - 1
        )  # what the next record must follow
        self.hitting = snapshot.hitting
        self.switching = snapshot.switching
        self.deleted = False  # snapshots are taken of agents that are not
        self._due = snapshot.n + SNAPSHOT_ROUNDS
        self._spent = 0.0
        movement: Any = live.movement
        self._weight = movement.weight
        self._distance = movement.distance
        self._shape = (live.learner.domain.dim,)
        self._choose_way()
        self._torn = False

    def _choose_way(self) -> None:
        """Whether rounds may take the short way."""
        live = self.live
        self._fast = live.plays_in_one_step and live.guards is None and not live.terms.takes_rows
        if self._fast:
            self._place = self.live.layout.x

    # Rounds

    def play(self, g: ArrayLike, hint: ArrayLike | None, id: str, retry: bool, round: Any = None) -> Array:
        """End the round; the next point. A round whose id is there already is not taken, and answered as it was then."""

        def end() -> Array:
            may_be_plain = self._fast and not id and hint is None and self._last is not None
            if may_be_plain and round is None and type(g) is np.ndarray and g.dtype is _FLOAT64:
                x = self._play_plain(g)
                if x is not None:
                    return x
            return self._play(lambda live: live.check_round(g, hint, id, round))

        return self._end_round(end, id, retry or round is not None, "Agent.update")

    def observe(self, row: Any, id: str, retry: bool, round: Any = None, hint: Any = None) -> Array:
        """The same for a round of which the row is told."""

        def end() -> Array:
            return self._play(lambda live: live.check_row(row, id, round, hint))

        return self._end_round(end, id, retry or round is not None, OBSERVE)

    def observe_cost(self, value: Any, id: str, retry: bool) -> Array:
        """The same for a round of which only the cost is told."""
        return self._end_round(lambda: self._play(lambda live: live.check_cost(value, id)), id, retry, COST)

    def advance(self, id: str, retry: bool) -> Array:
        """The same for a round that waits for its feedback."""
        return self._end_round(
            lambda: self._play(lambda live: live.check_wait(id)), id, retry, "Agent.advance"
        )

    def give_up(self, round: Any, id: str) -> Array:
        """Wait no more for the feedback of a round."""

        def end() -> Array:
            return self._play(lambda live: live.check_given_up(round, id))

        return self._end_round(end, id, True, "Agent.give_up")

    def _end_round(self, end: Callable[[], Array], id: str, retry: bool, owner: str) -> Array:
        while True:
            try:
                if self._torn:
                    self.reload()
                if self.deleted:
                    raise self.refuse_deleted()
                if self.n >= self._due or self._spent > SNAPSHOT_SECONDS:
                    self.take_snapshot()
                    self.prune()
                return end()
            except Refused:
                made = None
                with suppress(Refused):  # of the two, the first says what was wrong
                    made = self._recall(id)
                if made is None:
                    raise
                return made
            except TakenError:
                made = self._recall(id)
                now = self.live.t
                self.reload()
                if made is not None:
                    return made
                is_under_way = self.live.t == now and isinstance(self.live.learner, Delayed)
                if not retry and not is_under_way:  # late feedback ends no round
                    words = f"round t={now} of {self.agent.name!r} was ended by another process"
                    if self.live.t <= now:
                        words = f"the store has gone back, and {self.agent.name!r} with it"
                    remedy = f"play agent.x of round t={self.live.t}, or use retry=True"
                    raise Overtaken(f"{owner} came too late: {words}; {remedy}.") from None

    def _recall(self, id: str) -> Array | None:
        if not id:
            return None
        row = self.store.find_round(self.agent.id, id)
        return None if row is None else np.frombuffer(row.decision, "<f8").astype(np.float64)

    def prepare(self, g: Array, id: str) -> "Prepared | None":
        """A round worked out beside the present state, for :meth:`show`; None if it has to go the long way."""
        live = self.live
        is_ready = self._fast and not self._torn and not self.deleted and self.n < self._due
        if not is_ready or self._last is None or g.shape != self._shape:
            return None
        now = live.flat
        form = now.copy()
        if live.kernel(form, g) != 0:
            return None
        played = now[self._place]
        x = form[self._place]
        hitting = float(g.dot(played)) + 0.0
        switching = self._measure(x - played)
        key = self._base | self.n
        numbers = g.tobytes()
        row = (
            key,
            ROUND,
            int(now[codes.T]),
            time(),
            id or None,
            None,
            numbers,
            x.tobytes(),
            hitting,
            switching,
        )
        return Prepared(self, form, x, seal_row(*row, None, None))

    def show(self, prepared: "Prepared") -> None:
        """Take a round that was worked out, and that the store has taken."""
        row = prepared.row
        self._torn = True
        self.live.flat = prepared.form
        self._last = row[-1]
        self.n += 1
        self.hitting += row[8]
        self.switching += row[9]
        self._torn = False

    def _play_plain(self, g: Array) -> Array | None:
        """A round with neither guards, hint nor id, in half the time of :meth:`_play`; None if the gradient does not fit."""
        live = self.live
        if g.shape != self._shape:
            return None
        g = g.copy()  # others may write to it meanwhile
        now = live.flat
        form = now.copy()
        if live.kernel(form, g) != 0:
            return None
        played = now[self._place]
        x = form[self._place]
        hitting = float(g.dot(played)) + 0.0  # SQLite has no -0.0
        switching = self._measure(x - played)
        key = self._base | self.n
        t = int(now[codes.T])
        at = time()
        numbers = g.tobytes()
        decision = x.tobytes()
        checksum = checksum_plain(key, ROUND, t, at, numbers, decision, hitting, switching)
        self._append_plain((key, t, at, numbers, decision, hitting, switching, checksum, self._last))
        self._torn = True
        live.flat = form
        self._last = checksum
        self.n += 1
        self.hitting += hitting
        self.switching += switching
        self._torn = False
        return x.copy()

    def _play(self, make: Callable[[Live], Record]) -> Array:
        start = perf_counter()
        record = make(self.live)
        outcome = self.live.after(record)
        self._spent += perf_counter() - start
        return self._commit(record, outcome)

    def _measure(self, moved: Array) -> float:
        """What a move costs an agent without guards."""
        return self._weight * float(self._distance(moved))

    def _commit(self, record: Record, outcome: Outcome) -> Array:
        live = self.live
        guarded = outcome.guarded
        x = live.point(outcome.form) if guarded is None else guarded.x
        key = self._base | self.n
        decision = x.tobytes()
        row = make_row(
            key, record, live.t, time(), decision, outcome.hitting, outcome.switching, outcome.acted
        )
        self.store.append(row, self._last)
        self._torn = True
        live.show(outcome)
        self._last = row[-1]
        self.n += 1
        self.hitting += outcome.hitting
        self.switching += outcome.switching
        self._torn = False
        return x.copy()

    def change(self, make: Callable[[Live], Record | None]) -> None:
        """Commit what ``make`` makes of the present agent, None for nothing; after a lost race of the one there is then."""
        while True:
            if self._torn:
                self.reload()
            record = make(self.live)
            if record is None:
                return
            if self.deleted and record.kind != RESTORE:
                raise self.refuse_deleted()
            decision = self.live.played
            after = self.live.guards_after(record)
            key = self._base | self.n
            row = make_row(key, record, self.live.t, time(), decision.tobytes(), 0.0, 0.0, "")
            try:
                self.store.append(row, self._last)
            except TakenError:
                self.reload()
                continue
            self._torn = True
            self._last = row[-1]
            self.live.guards, self.live.guarded = after
            self.n += 1
            self._note_deletion(record.kind)
            self._torn = False
            self._choose_way()
            return

    def _note_deletion(self, kind: int) -> None:
        if kind in (DELETE, RESTORE):
            self.deleted = kind == DELETE

    def refuse_deleted(self) -> Refused:
        """The refusal of what a deleted agent is asked to do."""
        return refusal(
            "Agent",
            "one that was not deleted",
            "name",
            repr(self.agent.name),
            "restore it with agent.restore()",
        )

    # What was kept

    def reload(self) -> None:
        """Take over what other processes have written since."""
        snapshot = self.store.read_last_snapshot(self.agent.id)
        if snapshot.n > self.n or self._torn or not self._is_there(snapshot):
            self._begin(rebuild(self.agent, snapshot), snapshot)
        self.replay()

    def _is_there(self, snapshot: Snapshot) -> bool:
        """Whether the store still has what this agent has seen; a database may be restored under it."""
        if self._last is None:
            return snapshot.n == self.n
        return self.store.find_checksum(self.agent.id, self.n - 1) == self._last

    def replay(self) -> None:
        """Take the records that follow. Each must give the decision that was made then, up to rounding on another machine."""
        differs = False
        for row in self.store.read_records(self.agent.id, self.n):
            self._torn = True
            replay_row(self.live, row)
            self._note_deletion(row.kind)
            if self.live.played.tobytes() != row.decision:
                if not self._is_near(row.decision):
                    wanted = f"record {self.n} of {self.agent.name!r} to follow from those before"
                    raise self.store.damage(wanted)
                differs = True
            self.n += 1
            self._last = row.checksum
            self.hitting += row.hitting
            self.switching += row.switching
            self._torn = False
        self._choose_way()
        if differs:
            words = "decisions were computed elsewhere, and differ here in their last bits"
            warnings.warn(f"{self.agent.name!r} in {self.store.path}: {words}.", OtherMachine, stacklevel=5)

    def _is_near(self, decision: bytes) -> bool:
        made = np.frombuffer(decision, "<f8")
        here = self.live.played
        if len(made) != len(here):
            return False
        return bool(np.abs(made - here).max() <= ROUNDING * self.live.learner.domain.scale)

    @property
    def last(self) -> int | None:
        """The checksum of the last record, unless there is none or it was not read."""
        return self._last

    def is_current(self) -> bool:
        """Return True if the store has just what this agent has seen."""
        seen = None if self._last is None else (self.n - 1, self._last)
        return not self._torn and self.store.find_last_record(self.agent.id) == seen

    def catch_up(self) -> None:
        """Take over what other processes have written since, if they have written anything."""
        if not self.is_current():
            self.reload()

    def copy_to(self, store: Store) -> "Kept":
        """Copy the agent; what the copy writes goes to ``store``, and this one stays as it is."""
        copied = Kept.__new__(Kept)  # copy.copy takes four times as long, and bulk requests copy thousands
        copied.__dict__.update(self.__dict__)
        copied.live = Live.__new__(Live)
        copied.live.__dict__.update(self.live.__dict__)
        copied.move_to(store)
        return copied

    def move_to(self, store: Store) -> None:
        """Write to another store from now on, which has the same records."""
        self.store = store
        self._append_plain = store.append_plain

    def take_snapshot(self) -> None:
        """Keep the present state, so that what came before is not replayed again."""
        about = json.dumps(self.live.about_state())
        state = (self.live.t, self.hitting, self.switching, about)
        with suppress(TakenError):  # another process has gone on, and takes its own
            self.store.put_snapshot(self.agent.id, self.n, self._last, *state)
        self._due = self.n + SNAPSHOT_ROUNDS
        self._spent = 0.0

    def prune(self) -> None:
        """Forget what need not be kept; it is done by whole stretches between snapshots."""
        if isinstance(self.keep, timedelta):
            self.store.prune(self.agent.id, self.n, self.keep.total_seconds())
        elif self.keep is not None and self.n > self.keep:
            self.store.prune(self.agent.id, self.n - self.keep, None)

    def close(self) -> None:
        """Leave a snapshot of the present state, and let go of the file."""
        store = self.store
        if store.closed or store.inherited:
            return
        try:
            if (
                not store.read_only
                and not self._torn
                and not self.deleted
                and self.n > self._due - SNAPSHOT_ROUNDS
            ):
                self.take_snapshot()
        except Refused:
            pass  # the file was moved or is full; every round is in it
        finally:
            store.close()


class Prepared(NamedTuple):
    """A round of an agent before it is in the store: the state and the point after it, and its row."""

    kept: Kept
    form: Array
    x: Array
    row: tuple[Any, ...]

    @property
    def last(self) -> int | None:
        """The checksum of the record that it must follow."""
        return self.kept.last


def rebuild(agent: Listed, snapshot: Snapshot) -> Live:
    """The agent as it was when the snapshot was taken."""
    return Live.rebuild(json.loads(agent.configuration) | json.loads(snapshot.about))


def replay_row(live: Live, row: Row) -> Outcome | None:
    """Do to an agent what was done to it; the outcome if it was a round."""
    record = row.to_record()
    if record.kind in (ROUND, HINTED):
        outcome = live.after(record)
        live.show(outcome)
        return outcome
    if record.kind != KNOWN:
        live.guards, live.guarded = live.guards_after(record)
    return None


def freeze(live: Live, reason: str) -> Record | None:
    """The record of a freeze, unless the agent is frozen."""
    if live.require_guards("freeze").frozen:
        return None
    return Record(FREEZE, np.empty(0), note=reason)


def resume(live: Live, reason: str) -> Record | None:
    """The record of a resume, if the agent is frozen."""
    if not live.require_guards("resume").frozen:
        return None
    return Record(RESUME, np.empty(0), note=reason)


def delete(reason: str) -> Record:
    """The record of a delete."""
    return Record(DELETE, np.empty(0), note=reason)


def restore(reason: str) -> Record:
    """The record of a restore."""
    return Record(RESTORE, np.empty(0), note=reason)


def guard(live: Live, guards: Guards) -> Record | None:
    """The record of new guards, unless they are those that hold."""
    fitted = live.fit_guards(guards)
    if fitted == live.guards:
        return None
    return Record(GUARDS, np.empty(0), note=json.dumps(fitted.to_dict()))


def make_known(id: str, x: Array, t: int) -> tuple[Any, ...]:
    """The row, without key and checksum, of an id from before the history begins, answered by the point ``x``."""
    return (KNOWN, t, None, id, None, b"", x.tobytes(), 0.0, 0.0, None, None)


def check_keep(keep: Any) -> int | timedelta | None:
    """How much history stays."""
    if keep is None or (isinstance(keep, timedelta) and keep > timedelta(0)):
        return keep
    if isinstance(keep, int) and not isinstance(keep, bool) and keep >= 1:
        return keep
    remedy = "give a number of rounds, a datetime.timedelta, or None for all"
    raise refusal("Agent.open", "keep, how much history stays", "keep", repr(keep), remedy)
