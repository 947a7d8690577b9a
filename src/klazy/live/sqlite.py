"""A store's database as an SQLite file.

Each record is one transaction of one statement, and its key can be taken once. So a round is there or not, two processes never
write the same round, and nothing has to be locked between rounds.
"""

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from klazy.base.checks import Refused, file_path, refusal
from klazy.live import database
from klazy.live.database import Database, Result, StoreFailed, TakenError, Values, fail
from klazy.live.records import Row
from klazy.live.schema import APPLICATION, STATEMENTS, VERSION

SYNCS = {"always": "FULL", "batch": "NORMAL"}  # by SQLite's names
# A commit writes whole pages. Of a few numbers a small page is written faster; one of many takes several.
PAGE_BYTES = 2048
WAL_PAGES = 8192  # 16 MB; then SQLite takes the write-ahead log into the file

_COLUMNS = ", ".join(Row._fields)
_PLACES = ", ".join(f"?{i + 1}" for i in range(len(Row._fields)))
_LAST = f"?{len(Row._fields) + 1}"
_INSERT = f"INSERT INTO records ({_COLUMNS}) SELECT {_PLACES} WHERE "
_INSERT_NEXT = f"{_INSERT} {_LAST} = (SELECT checksum FROM records WHERE key = ?1 - 1)"
_INSERT_FIRST = f"{_INSERT} {_LAST} IS NULL AND EXISTS (SELECT 1 FROM snapshots WHERE key = ?1)"
_INSERT_PLAIN = """INSERT INTO records (key, kind, t, at, numbers, decision, hitting, switching, checksum)
SELECT ?1, 0, ?2, ?3, ?4, ?5, ?6, ?7, ?8 WHERE ?9 = (SELECT checksum FROM records WHERE key = ?1 - 1)"""
# a complaint about a damaged file may hold letters that are none, and a damaged number may be too large
_FAILURES = (sqlite3.Error, UnicodeDecodeError, OverflowError)
_NO_ROOM = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_FORMAT}


class SqliteDatabase(Database):
    """A file, which is made unless it is ``read_only`` or must be there (``new=False``).

    One that is not ``shared`` is for this connection alone as long as it is open.
    """

    def __init__(
        self, path: str | Path, sync: str, read_only: bool, shared: bool, new: bool, owner: str
    ) -> None:
        super().__init__(owner, read_only)
        self._file = file_path(path, "path", owner).absolute()  # the same one wherever the process goes
        self.path = self._file
        self._check_place(new and not read_only)
        try:
            self._connection = self._connect()
        except _FAILURES as failed:
            raise self._explain(failed) from failed
        try:
            self._set_up(SYNCS[sync], shared)
            self._check_tables()
        except _FAILURES as failed:
            self._connection.close()
            raise self._explain(failed) from failed
        except BaseException:
            self._connection.close()
            raise
        self._place = os.fspath(self._file)
        there = os.stat(self._place)
        self._inode = there.st_ino
        self._device = there.st_dev
        self._execute = self._connection.cursor().execute
        self._version: int | None = None  # of the data, when it was asked for last

    def _check_place(self, may_make: bool) -> None:
        if self._file.is_dir():
            remedy = "klazy migrate reads a folder of an older klazy into a file"
            raise refusal(self.owner, "the path of a database file", "path", self.path, remedy)
        if not may_make and not self._file.is_file():
            remedy = "check the path"
            raise refusal(self.owner, "a database that is there", "path", self.path, remedy)
        if not self._file.parent.is_dir():
            remedy = "make the folder first"
            raise refusal(self.owner, "a folder for the database", "path", self.path, remedy)

    def _connect(self) -> sqlite3.Connection:
        mode = "ro" if self.read_only else "rwc"
        connection = self._connect_as(f"mode={mode}")
        if not self.read_only:
            return connection
        try:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except sqlite3.OperationalError as failed:
            connection.close()
            log = Path(f"{self.path}-wal")
            if failed.sqlite_errorcode & 0xFF not in _NO_ROOM or log.exists():
                raise
            # a folder in which SQLite may not make its shared memory; nobody writes there
            connection = self._connect_as("mode=ro&immutable=1")
        return connection

    def _connect_as(self, options: str) -> sqlite3.Connection:
        return sqlite3.connect(
            f"{self._file.as_uri()}?{options}",
            uri=True,
            timeout=database.PATIENCE,
            isolation_level=None,
            check_same_thread=False,
        )

    def _set_up(self, level: str, shared: bool) -> None:
        ask = self._connection.execute
        ask("PRAGMA trusted_schema = OFF")
        if self.read_only:
            return
        if not shared:
            ask("PRAGMA locking_mode = EXCLUSIVE")
        ask(f"PRAGMA page_size = {PAGE_BYTES}")
        (mode,) = ask("PRAGMA journal_mode = WAL").fetchone()
        if mode != "wal":
            remedy = "choose a disk of this machine"
            raise refusal(self.owner, "a file system with shared memory", "path", self.path, remedy)
        ask(f"PRAGMA synchronous = {level}")
        ask("PRAGMA fullfsync = ON")
        ask(f"PRAGMA wal_autocheckpoint = {WAL_PAGES}")

    def _check_tables(self) -> None:
        """Make the tables of a new file; refuse a file whose tables are not, to the letter, those of this klazy."""
        ask = self._connection.execute
        if not self.read_only and self._is_empty():
            ask("BEGIN IMMEDIATE")
            if self._is_empty():  # and not made by another process meanwhile
                for statement in STATEMENTS:
                    ask(statement)
                ask(f"PRAGMA application_id = {APPLICATION}")
                ask(f"PRAGMA user_version = {VERSION}")
            ask("COMMIT")
        (application,) = ask("PRAGMA application_id").fetchone()
        (version,) = ask("PRAGMA user_version").fetchone()
        made = [text for (text,) in ask("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY rowid")]
        ours = [text for text in made if not text.startswith("CREATE TABLE sqlite_sequence")]
        if application != APPLICATION:
            remedy = "choose another file; if this was one of klazy's, it is damaged"
            raise refusal(self.owner, "a database of klazy", "path", self.path, remedy)
        if version > VERSION and ours != list(STATEMENTS):
            raise refusal(
                self.owner, f"tables of version {VERSION}", "version", version, "install a newer klazy"
            )
        if version != VERSION or ours != list(STATEMENTS):
            raise self.damage("the tables that klazy made")

    def _is_empty(self) -> bool:
        ask = self._connection.execute
        (pages,) = ask("SELECT count(*) FROM sqlite_master").fetchone()
        (application,) = ask("PRAGMA application_id").fetchone()
        (version,) = ask("PRAGMA user_version").fetchone()
        return pages == 0 and application == 0 and version == 0

    # Refusals

    def _explain(self, failed: Exception) -> StoreFailed:
        """What SQLite complains about, in one sentence."""
        code = getattr(failed, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
        if code == sqlite3.SQLITE_NOTADB:
            remedy = "Agent.load reads a file of Agent.save; if it was a database, restore it from a backup"
            return fail(self.owner, "a database", "path", self.path, remedy)
        if code in _DAMAGED:
            return self.damage(f"a database that SQLite can read ({failed})")
        if code == sqlite3.SQLITE_BUSY:
            remedy = f"another process has had it for {database.PATIENCE:g} seconds"
            return fail(self.owner, "its turn", "path", self.path, remedy)
        return fail(self.owner, "a database that it can read and write", "path", self.path, str(failed))

    def require_writer(self) -> None:
        """Refuse also to write to a file that was moved, or that another one has replaced."""
        super().require_writer()
        try:
            there = os.stat(self._place)
        except (FileNotFoundError, NotADirectoryError):
            there = None
        if there is None or there.st_ino != self._inode or there.st_dev != self._device:
            remedy = "it was moved, removed or replaced; open the agent again"
            raise fail("Agent", "the file that it was opened from", "path", self.path, remedy)

    # Statements

    def ask(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """All rows at once, so that no reader is left half way: it would keep SQLite from emptying its log."""
        self.require_reader()
        try:
            return self._connection.execute(sql, values).fetchall()
        except _FAILURES as failed:
            raise self._explain(failed) from failed

    def transact(self, work: Callable[[], Result]) -> Result:
        try:
            with self.together():
                return work()
        except sqlite3.IntegrityError:
            raise TakenError from None

    @contextmanager
    def together(self) -> Iterator[None]:
        self.require_writer()
        inner = self._connection.in_transaction
        try:
            self._execute("SAVEPOINT part" if inner else "BEGIN IMMEDIATE")
            try:
                yield
                self._execute("RELEASE part" if inner else "COMMIT")
            except BaseException:
                self._undo(inner)
                raise
        except sqlite3.IntegrityError:
            raise
        except _FAILURES as failed:
            raise self._explain(failed) from failed

    def _undo(self, inner: bool) -> None:
        if not self._connection.in_transaction:
            return  # SQLite itself has undone it, as when a disk is full
        if inner:
            self._execute("ROLLBACK TO part")
            self._execute("RELEASE part")
        else:
            self._execute("ROLLBACK")

    def write(self, sql: str, *values: Any) -> None:
        self._execute(sql, values)

    def insert(self, table: str, rows: Sequence[Values]) -> None:
        if rows:
            places = ", ".join("?" * len(rows[0]))
            self._connection.executemany(f"INSERT INTO {table} VALUES ({places})", rows)

    def has_changed(self) -> bool:
        """SQLite counts what other connections commit."""
        ((version,),) = self.ask("PRAGMA data_version")
        changed = version != self._version
        self._version = version
        return changed

    def lock_agents(self, agents: Sequence[int]) -> None:
        """A transaction that writes has the whole file."""

    def number_agents(self, names: Sequence[str]) -> int:
        """A damaged page may hide an agent: then fewer rows are left than ids were given, or an index has lost a name."""
        ask = self._execute
        (count,) = ask("SELECT count(*) FROM agents NOT INDEXED").fetchone()
        (given,) = ask("SELECT seq FROM sqlite_sequence WHERE name = 'agents'").fetchone() or (0,)
        if count != given:
            raise self.damage(f"all of its {given} agents ({count} are left)")
        if len(names) == 1:
            (named,) = ask("SELECT total(name = ?) FROM agents NOT INDEXED", names).fetchone()
            if named and not ask("SELECT 1 FROM agents WHERE name = ?", names).fetchone():
                raise self.damage("an index of all names")
        return given + 1

    def put_snapshots(self, rows: Sequence[Values]) -> None:
        self._connection.executemany("INSERT OR REPLACE INTO snapshots VALUES (?, ?, ?, ?, ?, ?, ?)", rows)

    @contextmanager
    def one_moment(self) -> Iterator[None]:
        self._execute("BEGIN")
        try:
            yield
        finally:
            self._execute("COMMIT")

    # Records

    def follow(self, keys: Sequence[int], lasts: Sequence[int | None]) -> bool:
        for key, last in zip(keys, lasts, strict=True):
            if last is None:
                found = self._execute("SELECT NULL FROM snapshots WHERE key = ?", (key,)).fetchone()
            else:
                found = self._execute("SELECT checksum FROM records WHERE key = ?", (key - 1,)).fetchone()
            if found != (last,):
                return False
        return True

    def append(self, row: Values, last: int | None) -> None:
        self._append(_INSERT_FIRST if last is None else _INSERT_NEXT, (*row, last))

    def append_plain(self, row: Values) -> None:
        self._append(_INSERT_PLAIN, row)

    def _append(self, sql: str, row: Values) -> None:
        try:
            there = os.stat(self._place)
            if there.st_ino != self._inode or there.st_dev != self._device or self.idle:
                self.require_writer()
            taken = self._execute(sql, row).rowcount
        except sqlite3.IntegrityError:
            raise TakenError from None
        except _FAILURES as failed:
            raise self._explain(failed) from failed
        except OSError:
            self.require_writer()
            raise
        if taken != 1:
            raise TakenError

    def append_many(self, rows: Sequence[Values], lasts: Sequence[int | None]) -> None:
        first = [(*row, None) for row, last in zip(rows, lasts, strict=True) if last is None]
        later = [(*row, last) for row, last in zip(rows, lasts, strict=True) if last is not None]

        def insert() -> None:
            taken = 0
            for sql, some in ((_INSERT_FIRST, first), (_INSERT_NEXT, later)):
                taken += max(0, self._connection.executemany(sql, some).rowcount)
            if taken != len(rows):
                raise TakenError

        self.transact(insert)

    # The file

    def find_faults(self) -> list[str]:
        return [text for (text,) in self.ask("PRAGMA integrity_check") if text != "ok"]

    def back_up(self, target: Path) -> bool:
        """Others may go on writing to the file meanwhile."""
        try:
            copy = sqlite3.connect(target)
            try:
                self._connection.backup(copy)
            finally:
                copy.close()
        except _FAILURES as failed:
            target.unlink(missing_ok=True)
            raise self._explain(failed) from failed
        return True

    def close(self) -> None:
        """The last one to close a file takes the log into it."""
        if self.closed or self.inherited:
            return
        try:
            if not self.read_only:
                self.require_writer()
        except Refused:
            self._empty_log()
        self.closed = True
        self.idle = True
        self._connection.close()

    def _empty_log(self) -> None:
        """Take the log into a file that was moved: SQLite would leave it behind."""
        with suppress(sqlite3.Error):
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
