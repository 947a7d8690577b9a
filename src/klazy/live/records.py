"""The bytes of a durable agent's journal: a header, then records that all have one length.

Because they do, damage to one record never hides where the next begins. Each record has a number, and says how many records
were certainly on disk when it was written. A damaged record for which a later one vouches in this way was whole once, so the
journal is refused; one without a witness may never have been completed, and is dropped together with what follows it.
"""

import struct
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from klazy.base.checks import Array, Refused, refusal

FORMAT = 1  # of journal and snapshot
ID_BYTES = 64
ROUND, HINTED, FREEZE, RESUME = range(4)  # kinds of records

_MAGIC = b"klazyjnl"
_HEADER = struct.Struct("<8sIIII")  # magic, format, length of a record, key, checksum
# of a record: number, how many are on disk, kind, length of the id, id; then come the numbers and the checksum
_RECORD = struct.Struct(f"<QQBB{ID_BYTES}s")
_CHECKSUM = struct.Struct("<I")
FIRST = _HEADER.size  # the byte at which the first record begins


class TornJournal(UserWarning):
    """A journal ended in a record that was never completed, and that was dropped."""


class Record(NamedTuple):
    """What happened to an agent: a round with its gradient, or gradient and hint, as numbers; a freeze; or a resume."""

    kind: int
    numbers: Array
    id: str = ""


class Found(NamedTuple):
    """A record where it stood: its number, and how many records were on disk when it was written."""

    n: int
    durable: int
    record: Record


def check_id(id: str | int) -> str:
    """A round's id as text; a number counts as its digits."""
    if isinstance(id, str | int | np.integer):
        try:
            text = str(id)
            if 1 <= len(text.encode()) <= ID_BYTES:
                return text
        except ValueError:  # half a letter, or more digits than Python prints
            pass
    wanted = f"an id, text of 1 to {ID_BYTES} bytes or a whole number"
    raise refusal("Agent.update", wanted, "id", f"a {type(id).__name__}", "shorten it, or give a hash of it")


def length_of(width: int) -> int:
    """The bytes of a record of up to ``width`` numbers."""
    return _RECORD.size + 8 * width + _CHECKSUM.size


def build_header(length: int, key: int) -> bytes:
    """What a journal of records of this length begins with; ``key`` tells the journals of different learners apart."""
    start = _HEADER.pack(_MAGIC, FORMAT, length, key, 0)[: -_CHECKSUM.size]
    return start + _CHECKSUM.pack(crc32(start))


def encode(found: Found, length: int) -> bytes:
    """A record in its bytes, the last four a checksum of the others.

    >>> data = encode(Found(7, 7, Record(ROUND, np.array([0.5, -1.0]), id="monday")), length_of(2))
    >>> len(data), decode(data, length_of(2)).record.id, decode(data[:-1], length_of(2))
    (102, 'monday', None)
    """
    n, durable, (kind, numbers, text) = found
    id = text.encode()
    body = _RECORD.pack(n, durable, kind, len(id), id) + numbers.astype("<f8").tobytes()
    body = body.ljust(length - _CHECKSUM.size, b"\0")
    return body + _CHECKSUM.pack(crc32(body))


def decode(data: bytes, length: int) -> Found | None:
    """The record that these bytes hold, None if they are damaged or too few."""
    body = data[: -_CHECKSUM.size]
    checksum = data[-_CHECKSUM.size :]
    if len(data) != length or checksum != _CHECKSUM.pack(crc32(body)):
        return None
    n, durable, kind, size, id = _RECORD.unpack_from(body)
    numbers = np.frombuffer(body, "<f8", offset=_RECORD.size).astype(np.float64)
    return Found(n, durable, Record(kind, numbers, id[:size].decode()))


def read(data: bytes, key: int, n: int, where: Any) -> tuple[int, list[Record], int | None]:
    """The length of a journal's records, those from number ``n`` on, and the byte where it ends too early, if it does."""
    length = _read_header(data, key, where)
    found = [decode(data[at : at + length], length) for at in range(FIRST, len(data), length)]
    whole = found.index(None) if None in found else len(found)
    for ahead, later in enumerate(found[whole + 1 :], start=1):
        if later is not None and later.durable > later.n - ahead:
            raise damage(where, "whole records", "a damaged one at byte", FIRST + whole * length)
    good = [record for record in found[:whole] if record is not None]
    for i, record in enumerate(good):
        if record.n != good[0].n + i or good[0].n > n:
            raise damage(
                where, f"records from number {n} on", f"number {record.n} at byte", FIRST + i * length
            )
    lost = whole < len(found) and not (good and good[-1].n + 1 < n)  # what the snapshot holds is not lost
    torn = FIRST + whole * length if lost else None
    return length, [record.record for record in good if record.n >= n], torn


def _read_header(data: bytes, key: int, where: Any) -> int:
    if len(data) < FIRST or not data.startswith(_MAGIC):
        raise damage(where, "a header", "a damaged one at byte", 0)
    _, version, length, owner, _ = _HEADER.unpack_from(data)
    if version > FORMAT:
        raise newer(where, version)
    if data[:FIRST] != build_header(length, owner):
        raise damage(where, "a header", "a damaged one at byte", 0)
    if owner != key:
        raise damage(where, f"the key {key:08x} of the snapshot's learner", "key", f"{owner:08x}")
    return length


def damage(where: Any, condition: str, name: str, value: object) -> Refused:
    """The refusal of files that cannot be trusted; they are left as they are."""
    return refusal(
        "Agent.open", f"{condition} in {where}", name, value, "restore the whole folder from a backup"
    )


def newer(where: Any, version: object) -> Refused:
    """The refusal of files of a later klazy."""
    return refusal("Agent.open", f"{where} in format {FORMAT}", "format", version, "install a newer klazy")
