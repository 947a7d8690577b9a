"""A store in an SQLite file.

Each record is one transaction of one statement, and its key can be used once. So a round is there or not, two processes never
write the same round, and nothing has to be locked between rounds.
"""

import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import Any

from klazy.base.checks import InvalidInput, file_path
from klazy.live import schema, store
from klazy.live.records import Row
from klazy.live.store import Store, StoreFailed, TakenError, Values

# The levels of PRAGMA synchronous.
SYNCHRONOUS = {"always": "FULL", "batch": "NORMAL"}
# A commit writes whole pages. A few numbers are written faster in a small page; many take several.
PAGE_SIZE = 2048
# Pages of the write-ahead log after which SQLite moves it into the file and begins it anew. Flushing a file that grows takes
# twice as long as flushing one that is overwritten: where each round is flushed the log is short, 2 MB, and else 16 MB.
WAL_PAGES = 8192
FLUSHED_WAL_PAGES = 1000
# Pages of the file that a writer may have in memory, 32 MB. A transaction that changes more of them writes some twice: rounds
# of a thousand agents change a page each, and SQLite's own limit is 2 MB.
CACHED_PAGES = 16_000

_VALUES = [f"?{i + 1}" for i in range(len(Row._fields) + 1)]
_LAST = _VALUES.pop()
# A record that does not follow the last one of its agent has no kind, which the table rejects. A condition after a SELECT
# would do the same, but SQLite then copies each row to a temporary table, because it reads the table that it writes to.
_VALUES[1] = f"""CASE WHEN {_LAST} = (SELECT checksum FROM records WHERE key = ?1 - 1)
OR ({_LAST} IS NULL AND EXISTS (SELECT 1 FROM snapshots WHERE key = ?1)) THEN ?2 END"""
_INSERT = f"INSERT INTO records ({', '.join(Row._fields)}) VALUES ({', '.join(_VALUES)})"
# A complaint about a damaged file may hold bytes that are no text, and a damaged number may be too large.
_FAILURES = (sqlite3.Error, UnicodeDecodeError, OverflowError)
_NO_ROOM = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)
_CREATING = Lock()
_DAMAGED = {
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_ERROR,
    sqlite3.SQLITE_FORMAT,
}


class SqliteStore(Store):
    """An SQLite file with agents."""

    def _open(self, shared: bool, may_create: bool) -> None:
        # An absolute path stays the same when the process changes its folder.
        self.path = self._file = file_path(self.path, "path").absolute()
        self._place = os.fspath(self._file)
        if not os.path.isfile(self._place):
            self._create(may_create)
        try:
            self._connection = self._connect()
            try:
                self._execute = self._connection.cursor().execute
                self._set_up(shared)
                if not self.read_only and not self._list_relations():
                    with self._transaction("BEGIN IMMEDIATE"):
                        self._create_tables(schema.SQLITE_STATEMENTS)
                self._require_tables()
            except BaseException:
                self._connection.close()
                raise
        except _FAILURES as failed:
            raise self._explain(failed) from failed
        found = os.stat(self._place)
        self._inode = found.st_ino
        self._device = found.st_dev
        # The data's version at the last call of has_changed.
        self._data_version: int | None = None

    def _create(self, may_create: bool) -> None:
        if self._file.is_dir():
            raise InvalidInput(f"{self.path} is a folder. Give the path of a file.")
        if not may_create:
            raise InvalidInput(f"{self.path} does not exist. Check the path.")
        if not self._file.parent.is_dir():
            raise InvalidInput(f"The folder of {self.path} does not exist. Create it first.")
        _create_private(self._file)

    def _connect(self) -> sqlite3.Connection:
        if not self.read_only:
            return self._connect_as("mode=rwc")
        connection = self._connect_as("mode=ro")
        try:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except sqlite3.OperationalError as failed:
            connection.close()
            log = Path(f"{self.path}-wal")
            if failed.sqlite_errorcode & 0xFF not in _NO_ROOM or log.exists():
                raise
            # In a folder where SQLite may not create its shared memory, nothing else writes.
            connection = self._connect_as("mode=ro&immutable=1")
        return connection

    def _connect_as(self, options: str) -> sqlite3.Connection:
        return sqlite3.connect(
            f"{self._file.as_uri()}?{options}",
            uri=True,
            timeout=store.PATIENCE,
            isolation_level=None,
            check_same_thread=False,
        )

    def _set_up(self, shared: bool) -> None:
        level = SYNCHRONOUS[self.sync]
        ask = self._connection.execute
        ask("PRAGMA trusted_schema = OFF")
        if self.read_only:
            return
        if not shared:
            ask("PRAGMA locking_mode = EXCLUSIVE")
        ask(f"PRAGMA page_size = {PAGE_SIZE}")
        ask(f"PRAGMA cache_size = {CACHED_PAGES}")
        if self._start_log() != "wal":
            raise InvalidInput(
                f"{self.path} is on a file system without shared memory. Choose a local disk."
            )
        ask(f"PRAGMA synchronous = {level}")
        ask("PRAGMA fullfsync = ON")
        pages = FLUSHED_WAL_PAGES if level == "FULL" else WAL_PAGES
        ask(f"PRAGMA wal_autocheckpoint = {pages}")

    def _start_log(self) -> str:
        """Begin a write-ahead log. SQLite does not wait where another connection begins it at the same time; this does."""
        latest = time.monotonic() + store.PATIENCE
        while True:
            try:
                return self._connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
            except sqlite3.OperationalError as failed:
                is_busy = failed.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
                if not is_busy or time.monotonic() > latest:
                    raise
                time.sleep(0.01)

    def _list_relations(self) -> list[str]:
        return [name for (name,) in self._run("SELECT name FROM sqlite_master")]

    # Errors

    def _explain(self, failed: Exception) -> Exception:
        """Turn an error of SQLite into one sentence, or into :class:`TakenError`."""
        if isinstance(failed, sqlite3.IntegrityError):
            return TakenError()
        code = getattr(failed, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
        if code == sqlite3.SQLITE_NOTADB:
            return StoreFailed(
                f"{self.path} is not a database. Agent.load reads a file of Agent.save; "
                "if it was a database, restore it from a backup."
            )
        if code in _DAMAGED:
            return self.damage(str(failed))
        if code == sqlite3.SQLITE_BUSY:
            return StoreFailed(
                f"{self.path} is busy: another process has used it for {store.PATIENCE:g} seconds."
            )
        return StoreFailed(f"{self.path} cannot be read or written: {failed}.")

    def require_writer(self) -> None:
        """Also reject a file that was moved, or replaced by another one."""
        super().require_writer()
        self.require_place()

    def require_place(self) -> None:
        try:
            there = os.stat(self._place)
        except (FileNotFoundError, NotADirectoryError):
            there = None
        if there is None or there.st_ino != self._inode or there.st_dev != self._device:
            raise StoreFailed(
                f"{self.path} was moved, removed or replaced. Open the agent again."
            )

    # Statements

    def ask(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Read all rows at once: an unfinished reader would keep SQLite from emptying its log."""
        if self.closed or self.inherited:
            self.require_reader()
        try:
            return self._connection.execute(sql, values).fetchall()
        except _FAILURES as failed:
            raise self._explain(failed) from failed

    @contextmanager
    def together(self) -> Iterator[None]:
        self.require_writer()
        try:
            with self._transaction("BEGIN IMMEDIATE"):
                yield
        except _FAILURES as failed:
            raise self._explain(failed) from failed

    def _run(self, sql: str, values: Values = ()) -> list[Any]:
        return self._execute(sql, values).fetchall()

    def _undo(self, statements: Sequence[str]) -> None:
        # SQLite itself undoes a transaction when a disk is full, for example.
        if self._connection.in_transaction:
            for statement in statements:
                self._execute(statement)

    def insert(self, table: str, rows: Sequence[Values]) -> None:
        if rows:
            places = ", ".join("?" * len(rows[0]))
            self._connection.executemany(f"INSERT INTO {table} VALUES ({places})", rows)

    def has_changed(self) -> bool:
        """Ask SQLite, which counts the commits of other connections."""
        ((version,),) = self.ask("PRAGMA data_version")
        changed = version != self._data_version
        self._data_version = version
        return changed

    @contextmanager
    def one_moment(self) -> Iterator[None]:
        with self._transaction("BEGIN"):
            yield

    def append(self, row: Values) -> None:
        try:
            found = os.stat(self._place)
            if found.st_ino != self._inode or found.st_dev != self._device or self.idle:
                self.require_writer()
            self._execute(_INSERT, row)
        except _FAILURES as failed:
            raise self._explain(failed) from failed
        except OSError:
            self.require_writer()
            raise

    def append_many(self, rows: Sequence[Values]) -> None:
        try:
            self._connection.executemany(_INSERT, rows)
        except _FAILURES as failed:
            raise self._explain(failed) from failed

    # The file

    def find_own_faults(self) -> list[str]:
        return [text for (text,) in self.ask("PRAGMA integrity_check") if text != "ok"]

    def close(self) -> None:
        """Close the file; the last one to do so moves the log into it."""
        if self.closed or self.inherited:
            return
        try:
            if not self.read_only:
                self.require_writer()
        except InvalidInput:
            # The file was moved: SQLite would leave the log behind.
            with suppress(sqlite3.Error):
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self.closed = True
        self.idle = True
        self._connection.close()


def _create_private(file: Path) -> None:
    """Create an empty file that only its owner may read, unless one exists; SQLite gives its log the same mode.

    One thread does so at a time, because closing a file releases all locks that the process has on it.
    """
    # SQLite itself explains why it cannot open a file.
    with _CREATING, suppress(OSError):
        os.close(os.open(os.path.realpath(file), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
