"""What happens to an agent, one record each, and the checksums by which a store knows its rows again."""

import json
import struct
from collections.abc import Callable
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from klazy.base.checks import Array, refusal

ID_BYTES = 64
# kinds of records; the numbers stand in stores
ROUND, HINTED, FREEZE, RESUME, GUARDS, KNOWN = range(6)
DELETE = 8
RESTORE = 9
# what the note of a round says whose feedback does not come with it: of which round it is, or which one is given up
WAITS = "waits"
LATE = "late"
GIVEN_UP = "given up"
_NO_TIME = -1.0  # of a record whose moment nobody has written down
_PLAIN = struct.Struct("<qqqdddqq")


class Record(NamedTuple):
    """One event: a round with its gradient, or gradient and hint, as numbers; a freeze; a resume; new guards;
    a delete, after which there are no rounds; a restore, after which there are.

    ``note`` holds the new guards as JSON, or the reason of any other change; of a round whose feedback does not come with it,
    what happened (:func:`note_feedback`). ``row`` is what the round was told by column name, as JSON, where it was.
    A ``KNOWN`` record is an id that was taken before the history begins.
    """

    kind: int
    numbers: Array
    id: str = ""
    note: str = ""
    row: str = ""


def note_feedback(what: str, round: int) -> str:
    """The note of a round that waits for its feedback, of late feedback, or of a round that is given up."""
    return json.dumps({what: round})


def read_feedback(record: "Record | Row") -> tuple[str, int] | None:
    """What :func:`note_feedback` noted; None of a round that was told at once, and of all that are no rounds."""
    if record.kind != ROUND or not record.note:
        return None
    ((what, round),) = json.loads(record.note).items()
    return what, round


class Row(NamedTuple):
    """A record as the table ``records`` holds it, the columns in the order of the table."""

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

    def to_record(self) -> Record:
        """What happened, without what came of it."""
        numbers = np.frombuffer(self.numbers, "<f8").astype(np.float64)
        return Record(self.kind, numbers, self.id or "", self.note or "", self.row or "")


def make_row(
    key: int,
    record: Record,
    t: int,
    at: float | None,
    decision: bytes,
    hitting: float,
    switching: float,
    guards: str,
) -> tuple[Any, ...]:
    """The values of a :class:`Row`: a record of round ``t``, after which ``decision`` is played."""
    return seal_row(
        key,
        record.kind,
        t,
        at,
        record.id or None,
        record.row or None,
        record.numbers.tobytes(),
        decision,
        hitting,
        switching,
        guards or None,
        record.note or None,
    )


def seal_row(*values: Any) -> tuple[Any, ...]:
    """The values with their checksum."""
    return *values, checksum_row(*values)


def checksum_row(
    key: int,
    kind: int,
    t: int,
    at: float | None,
    id: str | None,
    row: str | None,
    numbers: bytes,
    decision: bytes,
    hitting: float,
    switching: float,
    guards: str | None,
    note: str | None,
) -> int:
    """The checksum of all that a row says."""
    moment = _NO_TIME if at is None else at
    found = checksum_plain(key, kind, t, moment, numbers, decision, hitting, switching)
    if id is None and row is None and guards is None and note is None:
        return found
    return crc32(json.dumps((id, row, guards, note)).encode(), found)


def checksum_plain(
    key: int,
    kind: int,
    t: int,
    at: float,
    numbers: bytes,
    decision: bytes,
    hitting: float,
    switching: float,
) -> int:
    """The checksum of a row without texts."""
    plain = _PLAIN.pack(key, kind, t, at, hitting, switching, len(numbers), len(decision))
    return crc32(plain + numbers + decision)


def checksum_text(*parts: Any) -> int:
    """The checksum of a few plain values."""
    return crc32(json.dumps(parts).encode())


def is_whole(compute: Callable[..., int], row: tuple[Any, ...]) -> bool:
    """Whether the last entry of a row is the checksum of the others."""
    try:
        return compute(*row[:-1]) == row[-1]
    except (struct.error, TypeError):  # an entry is of another type than the one that was written
        return False


def check_id(id: str | int, owner: str = "Agent.update") -> str:
    """A round's id as text; a number counts as its digits."""
    if isinstance(id, str | int | np.integer):
        try:
            text = str(id)
            if 1 <= len(text.encode()) <= ID_BYTES and "\0" not in text:
                return text
        except ValueError:  # half a letter, or more digits than Python prints
            pass
    wanted = f"an id, text of 1 to {ID_BYTES} bytes or a whole number"
    raise refusal(owner, wanted, "id", f"a {type(id).__name__}", "shorten it, or give a hash of it")
