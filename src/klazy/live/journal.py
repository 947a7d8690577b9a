"""The files of a durable agent: a snapshot, and a journal of every record since, which its one writer holds locked.

The order of writing makes a crash harmless at any point. A snapshot is complete and on disk before it takes the place of the
last one, and only then is the journal emptied; records that a snapshot already holds are skipped by their numbers.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Any
from zlib import crc32

from klazy.base.checks import one_of, refusal
from klazy.base.files import lock_file, sync_folder, write_durably
from klazy.live.records import (
    FIRST,
    FORMAT,
    Found,
    Record,
    build_header,
    damage,
    encode,
    length_of,
    newer,
    read,
)

PAUSES = {"always": 0.0, "batch": 1.0}  # seconds that may pass between two fsyncs
LIMIT = 2**23  # bytes; a longer journal goes into a snapshot
_TITLE = b"klazy agent"
_UNBORN = {"n": 0}  # the snapshot of an agent whose first files are still being written


class Journal:
    """The files of one agent, locked: what they hold, and the place for what comes next.

    ``about`` is the snapshot, None for a new agent. ``records`` are those after it; ``torn`` is the byte from which on the
    journal was dropped, or None. ``n`` is the number of the record that comes next.

    Whoever closes an agent leaves a snapshot beside an empty journal. A journal that ends in a torn record was never closed.
    """

    def __init__(self, folder: str | Path, sync: str = "always") -> None:
        self._pause = PAUSES[one_of(sync, "sync", "Agent.open", tuple(PAUSES))]
        self.folder = Path(folder).absolute()  # the same one wherever the process goes
        self._pid = os.getpid()
        self._synced = monotonic()
        if self.folder.exists() and not self.folder.is_dir():
            raise refusal(
                "Agent.open", "a folder", "path", self.folder, "Agent.load reads a file of Agent.save"
            )
        self.folder.mkdir(exist_ok=True)
        self._path = str(self.folder / "journal")
        self._file = _lock(Path(self._path), self.folder)
        try:
            self._identity = os.fstat(self._file.fileno())
            self._require_place()
            for left in self.folder.glob("snapshot.????????.partial"):  # by one that was killed
                left.unlink()
            self._read(self._file.readall())
        except BaseException:
            self._file.close()
            raise

    def _read(self, data: bytes) -> None:
        self.about: dict[str, Any] | None = None
        self.records: list[Record] = []
        self.torn: int | None = None
        self._dropped = b""
        snapshot = self.folder / "snapshot"
        self.n = 0
        self._length = 0
        if snapshot.exists():
            about = _read_snapshot(snapshot)
            if about != _UNBORN:
                self._read_records(about, data)
        elif data:
            raise damage(self.folder, "a snapshot beside the journal", "snapshot", None)
        self._first = self._durable = self.n
        self._doubtful = True  # until a snapshot was taken: nothing may follow a journal that was just read

    def _read_records(self, about: dict[str, Any], data: bytes) -> None:
        self.about = about
        first = about["n"]
        key = _key(about["learner"])
        self._length, self.records, self.torn = read(data, key, first, self._path)
        self.n = first + len(self.records)
        if self.torn is not None:
            self._dropped = data[:FIRST] + data[self.torn :]

    def begin(self, learner: dict[str, Any], width: int) -> None:
        """Start the journal of a new agent, of records of up to ``width`` numbers; its first snapshot comes after this.

        Until then a snapshot says that there is no agent yet, so that a journal without one is always damage.
        """
        write_durably(self.folder / "snapshot", _write_snapshot(_UNBORN))
        self._length = length_of(width)
        os.ftruncate(self._file.fileno(), 0)
        _write(self._file.fileno(), build_header(self._length, _key(learner)), 0)
        os.fsync(self._file.fileno())
        sync_folder(self.folder.parent)

    def keep_dropped(self) -> Path:
        """Set aside what is dropped of a torn journal: it is a journal of its own, with the records from the torn one on."""
        file = self.folder / f"torn-{self.n}-{crc32(self._dropped):08x}"
        write_durably(file, self._dropped)
        return file

    @property
    def due(self) -> bool:
        """Whether a snapshot must come before the next record."""
        return self._doubtful or (self.n - self._first) * self._length > LIMIT

    def compact(self, n: int, about: dict[str, Any]) -> None:
        """Take a snapshot of everything before record ``n``, then empty the journal."""
        self._require_writer(n)
        self._doubtful = True  # until all of this is done
        write_durably(self.folder / "snapshot", _write_snapshot({"n": n, **about}))
        os.ftruncate(self._file.fileno(), FIRST)
        self._first = self._durable = n
        self._force()
        self._doubtful = False

    def append(self, n: int, record: Record) -> None:
        """Write record ``n``, over whatever a failed attempt left; with ``sync="always"`` it is on disk when this returns."""
        self._require_writer(n)
        place = FIRST + (n - self._first) * self._length
        data = encode(Found(n, self._durable, record), self._length)
        _write(self._file.fileno(), data, place)
        if monotonic() - self._synced >= self._pause:
            self._force()
            self._durable = n + 1
        self.n = n + 1

    def _force(self) -> None:
        try:
            os.fsync(self._file.fileno())
        except OSError:
            # what was not written may count as written now, so that a second fsync would not do
            self._doubtful = True
            raise
        self._synced = monotonic()

    def _require_writer(self, n: int) -> None:
        if os.getpid() != self._pid:
            raise refusal(
                "Agent", "the process that opened it", "path", self.folder, "this one was forked from that"
            )
        if self._file.closed:
            raise refusal(
                "Agent", "an open journal", "path", self.folder, "it was closed; open the agent again"
            )
        self._require_place()
        if n != self.n:
            raise refusal(
                "Agent",
                "the rounds of its journal",
                "path",
                self.folder,
                "one was interrupted; open the agent again",
            )

    def _require_place(self) -> None:
        """Refuse to write into a folder that was moved, or that another one has replaced."""
        if not self._is_in_place():
            remedy = "it was moved, removed or replaced; open the agent again"
            raise refusal("Agent", "the folder that it was opened in", "path", self.folder, remedy)

    def _is_in_place(self) -> bool:
        try:
            there = os.stat(self._path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return os.path.samestat(there, self._identity)

    def close(self, n: int, describe: Callable[[], dict[str, Any]]) -> None:
        """Leave a snapshot of everything before record ``n`` on disk and an empty journal, and let others open the agent.

        After an interrupted round, or in a folder that was moved, the journal is only forced to disk.
        """
        if self._file.closed:
            return
        with self._file:
            if n != self.n or not self._is_in_place():
                os.fsync(self._file.fileno())
            elif self._doubtful or n > self._first:
                self.compact(n, describe())

    def release(self) -> None:
        """Let others open the agent; its files stay as they are."""
        self._file.close()


def _write_snapshot(about: dict[str, Any]) -> bytes:
    text = json.dumps(about).encode() + b"\n"
    return b"%s %d %08x\n" % (_TITLE, FORMAT, crc32(text)) + text


def _read_snapshot(path: Path) -> dict[str, Any]:
    first, _, text = path.read_bytes().partition(b"\n")
    title, _, rest = first.rpartition(b" ")[0].rpartition(b" ")
    if title != _TITLE or not rest.isdigit():
        raise damage(path, "a first line with format and checksum", "line", first[:80])
    if int(rest) > FORMAT:
        raise newer(path, int(rest))
    if first != b"%s %d %08x" % (_TITLE, FORMAT, crc32(text)):
        raise damage(path, "the text that was written", "its checksum", f"{crc32(text):08x}")
    return json.loads(text)


def _key(learner: dict[str, Any]) -> int:
    """A checksum of the learner, of its classes' names without their modules: those may change while a journal lives."""
    return crc32(json.dumps(_drop_modules(learner)).encode())


def _drop_modules(value: Any) -> Any:
    if isinstance(value, list):
        return [_drop_modules(item) for item in value]
    if not isinstance(value, dict):
        return value
    plain = {name: _drop_modules(item) for name, item in value.items()}
    return plain | {"class": plain["class"].rpartition(".")[2]}


def _lock(path: Path, folder: Path) -> Any:
    """The journal, for this process alone."""
    try:
        return lock_file(path, "Agent.open", wait=False)
    except BlockingIOError:
        raise refusal(
            "Agent.open", "an agent that nobody has open", "path", folder, "close it there first"
        ) from None


def _write(descriptor: int, data: bytes, place: int) -> None:
    while data:
        written = os.pwrite(descriptor, data, place)
        data = data[written:]
        place = place + written
