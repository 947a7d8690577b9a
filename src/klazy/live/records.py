"""The rows of a store's tables, and the records of what happens to an agent.

A key holds two numbers, ``agent << AGENT_SHIFT | n``: the rows of an agent are stored together, and two processes that write
its record ``n`` cannot both succeed. Rows carry checksums, because SQLite's pages do not.
"""

import json
import struct
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from klazy.base.checks import Array, InvalidInput

AGENT_SHIFT = 40
_NUMBER = (1 << AGENT_SHIFT) - 1
ID_BYTES = 64
NUMBER_TYPE = np.dtype("<f8")
# The kinds of records. Stores hold these numbers.
ROUND = 0
HINTED = 1
FREEZE = 2
RESUME = 3
GUARDS = 4
KNOWN = 5
DELETE = 8
RESTORE = 9
CHANGE_NAMES = {
    FREEZE: "freeze",
    RESUME: "resume",
    GUARDS: "guards",
    DELETE: "delete",
    RESTORE: "restore",
}
# What the note of a round says if its feedback is delayed.
WAITS = "waits"
LATE = "late"
GIVEN_UP = "given up"
# What it says if the decision after the round had limits, and what a unit of its move cost, if that was not as usual.
LIMITS = "limits"
MOVE_COST = "move_cost"
# In checksums, the time of a record without one.
_NO_TIME = -1.0
_PLAIN = struct.Struct("<qqqdddqq")


class Record(NamedTuple):
    """Something that happens to an agent: a round with its gradient and perhaps a hint, a freeze, new guards, a delete.

    ``note`` holds new guards as JSON, the reason of another change, or, for a round with delayed feedback, which round that is,
    or the limits of the decision after the round and the price of its move.
    ``values`` is the row of data, or a bandit's costs, and ``hitting`` what the round cost if that is known already.
    A ``KNOWN`` record is an id from before the history begins.
    """

    kind: int
    numbers: Array = np.empty(0)
    id: str = ""
    note: str = ""
    values: Array | None = None
    hitting: float | None = None


class AgentRow(NamedTuple):
    """An agent in the table ``agents``."""

    id: int
    name: str
    at: float
    configuration: str
    checksum: int


class Row(NamedTuple):
    """A record in the table ``records``, with the decision that followed and what both cost."""

    key: int
    kind: int
    t: int
    at: float | None
    id: str | None
    row: str | None
    numbers: bytes
    decision: bytes
    hitting: float
    switching: float
    guards: str | None
    note: str | None
    checksum: int

    @property
    def agent(self) -> int:
        """The id of its agent."""
        return self.key >> AGENT_SHIFT

    @property
    def n(self) -> int:
        """Its number among the records of its agent."""
        return self.key & _NUMBER

    def to_record(self) -> Record:
        """Return what happened, without what came of it."""
        values = None if self.row is None else parse_row(self.row)
        return Record(
            self.kind, read_numbers(self.numbers), self.id or "", self.note or "", values
        )


class Snapshot(NamedTuple):
    """The state of an agent before record ``n``, as JSON, with what it had paid by then."""

    key: int
    t: int
    at: float
    hitting: float
    switching: float
    about: str
    checksum: int

    @property
    def agent(self) -> int:
        """The id of its agent."""
        return self.key >> AGENT_SHIFT

    @property
    def n(self) -> int:
        """The number of the record that comes next."""
        return self.key & _NUMBER


class Token(NamedTuple):
    """Who may use the service, and how: ``agent`` is None for all agents, ``hash`` that of the secret."""

    name: str
    role: str
    agent: str | None
    hash: str
    at: float
    checksum: int


def find_number(key: int) -> int:
    """Return the number that a key gives a record among those of its agent."""
    return key & _NUMBER


def read_numbers(data: bytes) -> Array:
    """Return the numbers of a column that holds them as bytes."""
    return np.frombuffer(data, NUMBER_TYPE).astype(np.float64)


def parse_row(text: str) -> Array:
    """Return the numbers of a row of data, which a store holds as a JSON list or object."""
    values = json.loads(text)
    if isinstance(values, dict):
        values = list(values.values())
    return np.array(values, dtype=np.float64)


def note_feedback(what: str, round: int) -> str:
    """Write the note of a round that waits for its feedback, of late feedback, or of a round that is given up."""
    return json.dumps({what: round})


def read_feedback(record: Record | Row) -> tuple[str, int] | None:
    """Return what :func:`note_feedback` wrote, None for a round without delay and for other records."""
    if record.kind != ROUND or not record.note:
        return None
    ((what, round), *_) = json.loads(record.note).items()
    return None if what in (LIMITS, MOVE_COST) else (what, round)


def note_next(limits: tuple[Array, Array] | None, price: float | None) -> str:
    """Write the note of a round with the limits of the decision after it, and the price of its move; JSON has no infinity."""
    note: dict[str, Any] = {}
    if limits is not None:
        note[LIMITS] = [
            [value if abs(value) < np.inf else None for value in side.tolist()] for side in limits
        ]
    if price is not None:
        note[MOVE_COST] = price
    return json.dumps(note) if note else ""


def _read_next(record: Record, what: str) -> Any:
    """Return an entry of what :func:`note_next` wrote, None where there is none."""
    if record.kind > HINTED or not record.note:
        return None
    return json.loads(record.note).get(what)


def read_move_cost(record: Record) -> float | None:
    """Return what a unit of the move after a round cost, None if that was as usual."""
    return _read_next(record, MOVE_COST)


def read_limits(record: Record) -> tuple[Array, Array] | None:
    """Return the limits of the decision after a round, None if it had none."""
    sides = _read_next(record, LIMITS)
    if sides is None:
        return None
    lower, upper = (np.array(side, dtype=np.float64) for side in sides)
    # None is read as NaN.
    return np.nan_to_num(lower, nan=-np.inf), np.nan_to_num(upper, nan=np.inf)


def append_checksum(*values: Any) -> tuple[Any, ...]:
    """Return the values of an agent, a snapshot or a token with their checksum."""
    return *values, checksum_text(values)


def checksum_text(values: tuple[Any, ...]) -> int:
    """Compute the checksum of a few plain values."""
    return crc32(json.dumps(values).encode())


def checksum_row(values: tuple[Any, ...]) -> int:
    """Compute the checksum of a record, whose values are in the order of :class:`Row`."""
    key, kind, t, at, id, row, numbers, decision, hitting, switching, guards, note = values
    if at is None:
        at = _NO_TIME
    plain = _PLAIN.pack(key, kind, t, at, hitting, switching, len(numbers), len(decision))
    found = crc32(plain + numbers + decision)
    if id is None and row is None and guards is None and note is None:
        return found
    # The same text as json.dumps of all four at once, which takes longer.
    texts = ["null" if text is None else json.dumps(text) for text in (id, row, guards, note)]
    return crc32(f"[{', '.join(texts)}]".encode(), found)


def is_intact(row: tuple[Any, ...]) -> bool:
    """Return True if the last entry of a row is the checksum of the others."""
    compute = checksum_row if isinstance(row, Row) else checksum_text
    try:
        return compute(row[:-1]) == row[-1]
    except (struct.error, TypeError):
        # A damaged entry may be of another type than the one that was written.
        return False


def check_id(id: str | int) -> str:
    """Return a round's id as text; a number becomes its digits."""
    if isinstance(id, str | int | np.integer):
        try:
            text = str(id)
            if 1 <= len(text.encode()) <= ID_BYTES and "\0" not in text:
                return text
        except ValueError:
            # Half a surrogate pair has no bytes, and Python prints no number of more than 4300 digits.
            pass
    raise InvalidInput(
        f"id must be an integer, or text of 1 to {ID_BYTES} bytes, got {type(id).__name__}. "
        "Shorten a long id, or use a hash of it."
    )
