"""Read an agent from the folder in which klazy kept it before there were stores: a snapshot, and a journal of records since.

Records have one length, each has a number, and says how many were certainly on disk when it was written. A damaged record for
which a later one vouches in this way was whole once, so the journal is refused; one without a witness may never have been
completed, and is dropped together with what follows it.
"""

import json
import struct
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from klazy.base.checks import Refused, refusal
from klazy.base.files import lock_file
from klazy.live.kept import make_known
from klazy.live.opening import check_name
from klazy.live.records import FREEZE, HINTED, ID_BYTES, RESUME, ROUND, Record, make_row
from klazy.live.state import Live
from klazy.live.store import Store

_FORMAT = 1
_TITLE = b"klazy agent"
_MAGIC = b"klazyjnl"
_HEADER = struct.Struct("<8sIIII")  # magic, format, length of a record, key, checksum
_RECORD = struct.Struct(f"<QQBB{ID_BYTES}s")  # number, how many are on disk, kind, length of the id, id
_CHECKSUM = struct.Struct("<I")


class Migrated(NamedTuple):
    """What came over: the round about to be played, the records of the journal, and whether its last one was torn."""

    t: int
    records: int
    torn: bool


class _Found(NamedTuple):
    n: int
    durable: int
    record: Record


def migrate(folder: str | Path, store: Store, name: str) -> Migrated:
    """Bring the agent of a folder into a store; the folder stays as it is.

    Its snapshot becomes the first one of the new agent, and the records of its journal the first of the history; when they
    were taken, nobody knows. Ids that the snapshot remembers are known, and answered by its point.
    """
    check_name(name)
    where = Path(folder).absolute()
    journal = where / "journal"
    if not journal.is_file() or not (where / "snapshot").is_file():
        remedy = "give the folder that Agent.open of an older klazy made"
        raise refusal("migrate", "a folder with a journal and a snapshot", "folder", where, remedy)
    if store.find_agent(name) is not None:
        raise refusal("migrate", "a name that is free", "name", repr(name), "choose another")
    with _lock(journal, where):
        about = _read_snapshot(where / "snapshot")
        records, torn = _read_records(journal.read_bytes(), about, journal)
    live = Live.rebuild(about)
    known = [make_known(id, live.x, live.t) for id in live.ids]
    configuration = json.dumps(live.about_configuration())
    first = (live.t, 0.0, 0.0, json.dumps(live.about_state()))
    later = _play(live, records)
    last = (live.t, *later.paid, json.dumps(live.about_state()))
    if store.create_agent(name, configuration, first, known, later.rows, last) is None:
        raise refusal("migrate", "a name that is free", "name", repr(name), "choose another")
    return Migrated(live.t, len(records), torn)


class _Played(NamedTuple):
    rows: list[tuple[Any, ...]]  # without key and checksum
    paid: tuple[float, float]


def _play(live: Live, records: list[Record]) -> _Played:
    rows = []
    hitting_so_far = 0.0
    switching_so_far = 0.0
    for padded in records:
        record = _trim(padded, live.learner.domain.dim)
        t = live.t
        hitting = 0.0
        switching = 0.0
        acted = ""
        if record.kind in (FREEZE, RESUME):
            live.guards, live.guarded = live.guards_after(record)
        else:
            outcome = live.after(record)
            live.show(outcome)
            hitting = outcome.hitting
            switching = outcome.switching
            if outcome.guarded is not None:
                acted = outcome.guarded.acted
        row = make_row(0, record, t, None, live.played.tobytes(), hitting, switching, acted)
        rows.append(row[1:-1])
        hitting_so_far += hitting
        switching_so_far += switching
    return _Played(rows, (hitting_so_far, switching_so_far))


def _lock(journal: Path, folder: Path) -> Any:
    try:
        return lock_file(journal, wait=False)
    except BlockingIOError:
        remedy = "close it there first"
        raise refusal("migrate", "an agent that nobody has open", "folder", folder, remedy) from None


def _read_snapshot(path: Path) -> dict[str, Any]:
    first, _, text = path.read_bytes().partition(b"\n")
    if first != b"%s %d %08x" % (_TITLE, _FORMAT, crc32(text)):
        raise _damage(path, "a snapshot as it was written", "line", first[:80])
    about = json.loads(text)
    if "learner" not in about:
        raise _damage(path, "an agent that was begun", "snapshot", about)
    return about


def _read_records(data: bytes, about: dict[str, Any], where: Path) -> tuple[list[Record], bool]:
    """The records after the snapshot, and whether the journal ends in a torn one."""
    length = _read_header(data, about, where)
    first = about["n"]
    start = _HEADER.size
    found = [_decode(data[at : at + length], length) for at in range(start, len(data), length)]
    whole = found.index(None) if None in found else len(found)
    for ahead, later in enumerate(found[whole + 1 :], start=1):
        if later is not None and later.durable > later.n - ahead:
            raise _damage(where, "whole records", "a damaged one at byte", start + whole * length)
    good = [record for record in found[:whole] if record is not None]
    for i, record in enumerate(good):
        if record.n != good[0].n + i or good[0].n > first:
            at = start + i * length
            raise _damage(where, f"records from number {first} on", f"number {record.n} at byte", at)
    lost = whole < len(found) and not (good and good[-1].n + 1 < first)  # what the snapshot holds is not lost
    return [record.record for record in good if record.n >= first], lost


def _read_header(data: bytes, about: dict[str, Any], where: Path) -> int:
    if len(data) < _HEADER.size or not data.startswith(_MAGIC):
        raise _damage(where, "a header", "a damaged one at byte", 0)
    _, version, length, owner, checksum = _HEADER.unpack_from(data)
    if version != _FORMAT or checksum != crc32(data[: _HEADER.size - _CHECKSUM.size]):
        raise _damage(where, "a header", "a damaged one at byte", 0)
    key = crc32(json.dumps(_drop_modules(about["learner"])).encode())
    if owner != key:
        raise _damage(where, f"the key {key:08x} of the snapshot's learner", "key", f"{owner:08x}")
    return length


def _decode(data: bytes, length: int) -> _Found | None:
    body = data[: -_CHECKSUM.size]
    if len(data) != length or data[-_CHECKSUM.size :] != _CHECKSUM.pack(crc32(body)):
        return None
    n, durable, kind, size, id = _RECORD.unpack_from(body)
    numbers = np.frombuffer(body, "<f8", offset=_RECORD.size).astype(np.float64)
    return _Found(n, durable, Record(kind, numbers, id[:size].decode()))


def _trim(record: Record, dim: int) -> Record:
    """The record without the zeros that gave all records one length."""
    sizes = {ROUND: dim, HINTED: 2 * dim}
    return record._replace(numbers=record.numbers[: sizes.get(record.kind, 0)])


def _drop_modules(value: Any) -> Any:
    """A learner with the names of its classes alone: the modules of these may have changed while a journal lived."""
    if isinstance(value, list):
        return [_drop_modules(item) for item in value]
    if not isinstance(value, dict):
        return value
    plain = {name: _drop_modules(item) for name, item in value.items()}
    return plain | {"class": plain["class"].rpartition(".")[2]}


def _damage(where: Path, condition: str, name: str, value: object) -> Refused:
    return refusal("migrate", f"{condition} in {where}", name, value, "restore the folder from a backup")
