"""A store's database as an SQLite file.

Each record is one transaction of one statement, and its key can be taken once. So a round is there or not, two processes never
write the same round, and nothing has to be locked between rounds.
"""

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

from klazy.base.checks import Refused, file_path, refusal
from klazy.live import database, schema
from klazy.live.database import Database, Result, StoreFailed, TakenError, Values, fail
from klazy.live.records import Row
from klazy.live.schema import APPLICATION

SYNCS = {"always": "FULL", "batch": "NORMAL"}  # by SQLite's names
# A commit writes whole pages. Of a few numbers a small page is written faster; one of many takes several.
PAGE_BYTES = 2048
# Pages of the write-ahead log after which SQLite takes it into the file and begins it anew. To flush a file that grows takes
# twice as long as to flush one that is overwritten; so where each round is flushed the log is short, 2 MB, and else 16 MB.
WAL_PAGES = 8192
FLUSHED_WAL_PAGES = 1000

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
_MAKING = Lock()
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
            remedy = "it is a folder; write the name of a file in it"
            raise refusal(self.owner, "the path of a database file", "path", self.path, remedy)
        if not may_make and not self._file.is_file():
            remedy = "check the path"
            raise refusal(self.owner, "a database that is there", "path", self.path, remedy)
        if not self._file.parent.is_dir():
            remedy = "make the folder first"
            raise refusal(self.owner, "a folder for the database", "path", self.path, remedy)

    def _connect(self) -> sqlite3.Connection:
        if not self.read_only:
            _make_private(self._file)
            return self._connect_as("mode=rwc")
        connection = self._connect_as("mode=ro")
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
        pages = FLUSHED_WAL_PAGES if level == "FULL" else WAL_PAGES
        ask(f"PRAGMA wal_autocheckpoint = {pages}")

    def _check_tables(self) -> None:
        """Make the tables of a new file, bring those of an older klazy up to date, and refuse tables that are not klazy's.

        Other programs may write the file anew, as VACUUM does, and may add tables, views and indexes of their own.
        """
        ask = self._connection.execute
        if not self.read_only and self._is_empty():
            ask("BEGIN IMMEDIATE")
            if self._is_empty():  # and not made by another process meanwhile
                for statement in (*schema.TABLES.values(), *schema.DERIVED.values()):
                    ask(statement)
                self._mark()
            ask("COMMIT")
        marks = self._read_marks()
        if marks == (0, 0) and all(_describe(self._connection, table)[0] for table in schema.TABLES):
            marks = (APPLICATION, schema.VERSION)  # a dump that was restored: it has neither number
        application, version = marks
        if application != APPLICATION:
            remedy = "choose another file; if this was one of klazy's, it is damaged"
            raise refusal(self.owner, "a database of klazy", "path", self.path, remedy)
        self.require_version(version)
        if version < schema.VERSION:
            self._bring_up_to_date()
        self._compare_tables()
        if not self.read_only:
            self._make_derived()

    def _read_marks(self) -> tuple[int, int]:
        """The numbers by which SQLite knows whose file this is: the application and the version of its tables."""
        ask = self._connection.execute
        (application,) = ask("PRAGMA application_id").fetchone()
        (version,) = ask("PRAGMA user_version").fetchone()
        return application, version

    def _mark(self) -> None:
        self._connection.execute(f"PRAGMA application_id = {APPLICATION}")
        self._connection.execute(f"PRAGMA user_version = {schema.VERSION}")

    def _is_empty(self) -> bool:
        (count,) = self._connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        return count == 0 and self._read_marks() == (0, 0)

    def _bring_up_to_date(self) -> None:
        ask = self._connection.execute
        ask("BEGIN IMMEDIATE")
        _, version = self._read_marks()  # another process may have done it meanwhile
        self.require_version(version)
        for step in schema.list_steps(version):
            for statement in step.sqlite:
                ask(statement)
        self._mark()
        ask("COMMIT")

    def _compare_tables(self) -> None:
        """Refuse tables that lost a column, or that would not hold what is written to them."""
        for table, statement in schema.TABLES.items():
            made = _describe_made(table, statement)
            here = _describe(self._connection, table)
            if not {name for name, *_ in made[0]} <= {name for name, *_ in here[0]}:
                raise self.damage(f"table {table!r} whole")
            if here != made:
                columns = ", ".join(f"{name} {kind}" for name, kind, *_ in here[0])
                remedy = "another program has changed it; undo that, or restore a backup"
                raise refusal(self.owner, f"table {table!r} as klazy made it", "columns", columns, remedy)
            for kind, name in self._find_rules(table):
                remedy = f"DROP {kind.upper()} {name}: it may change or turn away what klazy writes"
                raise refusal(
                    self.owner, "tables without rules of others", kind, f"{name!r} on {table!r}", remedy
                )

    def _find_rules(self, table: str) -> Iterator[tuple[str, str]]:
        """Triggers and unique indexes on a table that klazy did not make."""
        ask = self._connection.execute
        sql = "SELECT type, name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = ? COLLATE NOCASE"
        yield from ask(sql, (table,)).fetchall()
        for _, name, unique, origin, _ in ask(f"PRAGMA index_list({table})").fetchall():
            if unique and origin == "c" and f"INDEX {name}" not in schema.DERIVED:
                yield "index", name

    def _make_derived(self) -> None:
        """Make again what another program has dropped or changed and what a dump leaves out."""
        ask = self._connection.execute
        there = {text for (text,) in ask("SELECT sql FROM sqlite_master")}
        missing = {name: text for name, text in schema.DERIVED.items() if text not in there}
        if not missing and self._read_marks() == (APPLICATION, schema.VERSION):
            return
        ask("BEGIN IMMEDIATE")
        for name, statement in missing.items():
            ask(f"DROP {name.replace(' ', ' IF EXISTS ')}")
            ask(statement)
        self._mark()
        ask("COMMIT")

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
        self.require_place()

    def require_place(self) -> None:
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

    def touch(self) -> None:
        """The version and the number of agents are written as they are: two pages, as many as a round takes."""

        def write() -> None:
            (version,) = self._execute("PRAGMA user_version").fetchone()
            self._execute(f"PRAGMA user_version = {version}")
            self._execute("UPDATE sqlite_sequence SET seq = seq")

        self.transact(write)

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
        _make_private(target)
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


def _make_private(file: Path) -> None:
    """Make an empty file that only its owner may read, unless one is there; SQLite gives its log the same mode.

    Within a process one thread does so at a time: to close a file takes away all locks that the process has on it.
    """
    with _MAKING, suppress(OSError):  # what SQLite cannot open, it explains
        os.close(os.open(os.path.realpath(file), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))


def _describe(connection: sqlite3.Connection, table: str) -> tuple[Any, Any]:
    """The columns of a table (name, type, whether one must have a value, place in the key), and its unique ones."""
    columns = []
    for _, name, kind, required, _, place, hidden in connection.execute(f"PRAGMA table_xinfo({table})"):
        columns.append((name, kind, required, place, hidden))
    unique = set()
    for _, index, _, origin, _ in connection.execute(f"PRAGMA index_list({table})").fetchall():
        if origin != "c":  # not made by CREATE INDEX
            unique.add(tuple(name for _, _, name in connection.execute(f"PRAGMA index_info({index})")))
    return columns, unique


@cache
def _describe_made(table: str, statement: str) -> tuple[Any, Any]:
    """The same of a table as klazy makes it."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(statement)
        return _describe(connection, table)
