"""The rounds of an agent as arrays, for the charts of its page: read once, then only what is new."""

import json
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any, NamedTuple

import numpy as np

from klazy.base.checks import Array
from klazy.base.spans import parse_date
from klazy.live.inspection import find_never_moving, format_time, read_spec
from klazy.live.records import AGENT_SHIFT, CHANGE_NAMES, HINTED, KNOWN, NUMBER_TYPE, AgentRow
from klazy.live.rows import RowSpec
from klazy.live.store import Store

# A look reads the records that are new, and for so many seconds older ones, so many at a time.
LOOK_RECORDS = 20_000
LOOK_SECONDS = 0.2
# Numbers that a timeline holds at most; the oldest rounds are not shown.
MOST_NUMBERS = 20_000_000
TIMELINES = 8
# What a part of a range may last, in seconds.
PART_LENGTHS = (
    1,
    10,
    60,
    300,
    900,
    1800,
    3600,
    4 * 3600,
    12 * 3600,
    86400,
    7 * 86400,
    30 * 86400,
)
# Numbers that are times: seconds since 1970, from 2001 to 2100.
EPOCHS = (1e9, 4.1e9)
_SELECT = f"""SELECT kind, at, note, id, "row", decision, hitting, switching, guards FROM records
WHERE key >= ? AND key < ? AND kind <> {KNOWN} ORDER BY key"""


class RoundArrays(NamedTuple):
    """Rounds of an agent: their times, next decisions, rows, both costs, what never moving costs, and the guards that acted."""

    time: Array
    x: Array
    row: Array
    hitting: Array
    switching: Array
    fixed: Array
    guards: Any

    @property
    def saved(self) -> Array:
        """What was saved against never moving, in each round."""
        return self.fixed - self.hitting - self.switching

    def within(self, seconds: float) -> "RoundArrays":
        """Return the rounds of the last seconds, counted back from the last round."""
        if not len(self.time):
            return self
        first = int(np.searchsorted(self.time, self.time[-1] - seconds))
        return RoundArrays(*(values[first:] for values in self))

    def cut(self, most: int) -> tuple[int, Any]:
        """Return the length in seconds of at most so many parts, and the first round of each.

        >>> times = np.arange(7.0) * 25.0
        >>> seconds, firsts = RoundArrays(times, *6 * [times]).cut(3)
        >>> seconds, firsts.tolist()
        (60, [0, 3, 5])
        """
        length = self.time[-1] - self.time[0]
        seconds = next((each for each in PART_LENGTHS if length / each <= most), PART_LENGTHS[-1])
        parts = np.floor(self.time / seconds)
        return seconds, np.flatnonzero(np.diff(parts, prepend=parts[0] - 1))


class Timeline:
    """The rounds of one agent, from the last one back to the first; ``is_whole`` once all of them were read.

    ``changes`` has the freezes, deletes and other records that are no rounds, the oldest first.
    """

    def __init__(self, store: Store, agent: AgentRow) -> None:
        self.learner, self.spec = read_spec(agent.configuration)
        self.dim = self.learner.domain.dim
        extras = 0 if self.spec.costs is None else self.spec.costs.extras
        self.width = self.dim + extras
        self._agent = agent.id
        self._fixed = find_never_moving(store, agent)
        self._begin(store)

    def _begin(self, store: Store) -> None:
        self._acted: dict[str, int] = {}
        self._seen = store.find_last_record(self._agent)
        self._low = self._high = 0 if self._seen is None else self._seen[0] + 1
        self._parts: list[RoundArrays] = []
        self.changes: list[dict[str, Any]] = []
        self.is_whole = False

    def look(self, store: Store) -> RoundArrays:
        """Read what is new, and some of what is older; return all rounds that were read."""
        if self._seen is not None and not store.still_has(self._agent, self._seen):
            # The store was restored from a backup.
            self._begin(store)
        last = store.find_last_record(self._agent)
        first = store.find_first_record(self._agent)
        if last is None or first is None:
            self.is_whole = True
            return self._read(store, 0, 0)[0]
        if last[0] >= self._high:
            rounds, changes = self._read(store, self._high, last[0] + 1)
            self._parts.append(rounds)
            self.changes += changes
            self._seen = last
            self._high = last[0] + 1
        until = monotonic() + LOOK_SECONDS
        most = MOST_NUMBERS // (self.dim + self.width)
        while self._low > first and sum(len(part.time) for part in self._parts) < most:
            low = max(first, self._low - LOOK_RECORDS)
            rounds, changes = self._read(store, low, self._low)
            self._parts.insert(0, rounds)
            self.changes = changes + self.changes
            self._low = low
            if monotonic() > until:
                break
        self.is_whole = self._low == 0
        if len(self._parts) > 1:
            self._parts = [RoundArrays(*map(np.concatenate, zip(*self._parts, strict=True)))]
        return self._parts[0]

    def _read(
        self, store: Store, first: int, end: int
    ) -> tuple[RoundArrays, list[dict[str, Any]]]:
        base = self._agent << AGENT_SHIFT
        found = store.ask(_SELECT, base | first, base | end)
        changes = [
            {"time": format_time(at), "change": CHANGE_NAMES.get(kind, ""), "note": note or ""}
            for kind, at, note, *_ in found
            if kind > HINTED
        ]
        columns = (
            list(zip(*(each for each in found if each[0] <= HINTED), strict=True)) or [()] * 9
        )
        _, at, _, ids, texts, decisions, hitting, switching, guards = columns
        x = (
            np.frombuffer(b"".join(decisions), NUMBER_TYPE)
            .reshape(-1, self.dim)
            .astype(np.float64)
        )
        rows = self._read_rows(texts)
        fixed = np.full(len(at), np.nan)
        if self._fixed is not None and len(at):
            fixed = np.nan_to_num(self._fixed.charge(rows))
        acted = [self._acted.setdefault(each or "", len(self._acted)) for each in guards]
        times = find_times(ids, at)
        paid, moved = np.array([hitting, switching], dtype=np.float64)
        scaled = self.spec.scale(rows)
        return RoundArrays(
            times, x, scaled, paid, moved, fixed, np.array(acted, dtype=np.int64)
        ), changes

    @property
    def guards(self) -> list[str]:
        """What guards acted in a round, by the number that stands for it."""
        return list(self._acted)

    def _read_rows(self, texts: Sequence[str | None]) -> Array:
        """Return the numbers of rows; those of a round without a row are not numbers."""
        unknown = [np.nan] * self.width
        rows = [unknown] * len(texts)
        for place, row in enumerate(
            json.loads(f"[{','.join(text or 'null' for text in texts)}]")
        ):
            if row is not None:
                values = list(row.values()) if isinstance(row, dict) else row
                rows[place] = values if len(values) == self.width else unknown
        return np.array(rows, dtype=np.float64).reshape(-1, self.width)


class Timelines:
    """The timelines of the agents whose pages were looked at last."""

    def __init__(self) -> None:
        self._timelines: dict[int, Timeline] = {}

    def look(self, store: Store, agent: AgentRow) -> tuple[Timeline, RoundArrays]:
        """Return an agent's timeline and the rounds that it has by now."""
        timeline = self._timelines.pop(agent.id, None) or Timeline(store, agent)
        rounds = timeline.look(store)
        # A dict keeps its order: this one was used last.
        self._timelines[agent.id] = timeline
        while len(self._timelines) > TIMELINES:
            del self._timelines[next(iter(self._timelines))]
        return timeline, rounds


def find_times(ids: Sequence[str | None], at: Sequence[float | None]) -> Array:
    """Return the times of rounds: their ids where these are time stamps that ascend, else when they came.

    >>> find_times(["2026-03-01T00:00:00+00:00", "2026-03-01 00:01"], [1.0, 2.0]).tolist()
    [1772323200.0, 1772323260.0]
    >>> find_times(["a", None], [1.0, 2.0]).tolist()
    [1.0, 2.0]
    """
    came = np.array([np.nan if each is None else each for each in at], dtype=np.float64)
    for parse in (_parse_epoch, parse_date):
        times = _parse_all(ids, parse)
        if times is not None and (np.diff(times) >= 0.0).all():
            return times
    return came


def _parse_all(ids: Sequence[str | None], parse: Callable[[str], float]) -> Array | None:
    try:
        return np.array([parse(id or "") for id in ids], dtype=np.float64)
    except ValueError:
        return None


def _parse_epoch(id: str) -> float:
    seconds = float(id)
    if not EPOCHS[0] < seconds < EPOCHS[1]:
        raise ValueError(id)
    return seconds


def find_promise(spec: RowSpec, counts: Array) -> tuple[Array, Array] | None:
    """Return what a replay promised to save against never moving in so many rounds, and half the interval's width."""
    promised: Any = (spec.origin or {}).get("promised")
    try:
        rounds, saved, half = (float(promised[name]) for name in ("rounds", "saved", "half"))
    except (KeyError, TypeError, ValueError):
        # An origin is a note, which anyone may have written.
        return None
    if rounds <= 0.0:
        return None
    # The sum of later rounds varies as the rounds do, and the mean that is promised is not exact either.
    shares = counts / rounds
    return saved * shares, half * np.sqrt(shares * (1.0 + shares))
