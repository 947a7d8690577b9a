"""A store in an SQLite file.

Each record is one transaction of one statement, and its key can be used once. So a round is there or not, two processes never
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

_VALUES = [f"?{i + 1}" for i in range(len(Row._fields) + 1)]
_LAST = _VALUES.pop()
# A record that does not follow the last one of its agent has no kind, which the table rejects. A condition after a SELECT
# would do the same, but SQLite then copies each row to a temporary table, because it reads the table that it writes to.
_VALUES[1] = f"""CASE WHEN {_LAST} = (SELECT checksum FROM records WHERE key = ?1 - 1)
OR ({_LAST} IS NULL AND EXISTS (SELECT 1 FROM snapshots WHERE key = ?1)) THEN ?2 END"""
_INSERT = f"INSERT INTO records ({', '.join(Row._fields)}) VALUES ({', '.join(_VALUES)})"
# Triggers and unique indexes on a table that klazy did not make.
_FIND_RULES = """SELECT type, name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = ?1 COLLATE NOCASE
UNION ALL SELECT 'index', name FROM pragma_index_list(?1) WHERE "unique" AND origin = 'c' AND name <> 'records_by_id'"""
# A complaint about a damaged file may hold bytes that are no text, and a damaged number may be too large.
_FAILURES = (sqlite3.Error, UnicodeDecodeError, OverflowError)
_NO_ROOM = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)
_CREATING = Lock()
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_FORMAT}


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
                self._set_up(shared)
                self._check_tables()
            except BaseException:
                self._connection.close()
                raise
        except _FAILURES as failed:
            raise self._explain(failed) from failed
        found = os.stat(self._place)
        self._inode = found.st_ino
        self._device = found.st_dev
        self._execute = self._connection.cursor().execute
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
        (mode,) = ask("PRAGMA journal_mode = WAL").fetchone()
        if mode != "wal":
            raise InvalidInput(f"{self.path} is on a file system without shared memory. Choose a local disk.")
        ask(f"PRAGMA synchronous = {level}")
        ask("PRAGMA fullfsync = ON")
        pages = FLUSHED_WAL_PAGES if level == "FULL" else WAL_PAGES
        ask(f"PRAGMA wal_autocheckpoint = {pages}")

    def _check_tables(self) -> None:
        """Create the tables of a new file, bring those of an older klazy up to date, and reject other tables.

        Other programs may write the file anew, as VACUUM does, and may add tables, views and indexes of their own.
        """
        self._change_tables(self._list_updates)
        self._compare_tables()
        self._change_tables(self._list_repairs)

    def _change_tables(self, choose: Callable[[], list[str]]) -> None:
        """Execute statements, if there are any, in one transaction; others may have done so before it begins."""
        if choose() and not self.read_only:
            self._connection.execute("BEGIN IMMEDIATE")
            for statement in choose():
                self._connection.execute(statement)
            self._connection.execute("COMMIT")

    def _read_marks(self) -> tuple[int, int]:
        """Return the numbers by which SQLite knows whose file this is: the application and the version of its tables."""
        sql = "SELECT * FROM pragma_application_id, pragma_user_version"
        return self._connection.execute(sql).fetchone()

    def _list_updates(self) -> list[str]:
        """Return the statements that make the tables of a new file, or bring those of an older klazy up to date."""
        marks = self._read_marks()
        tables = self._connection.execute("SELECT name FROM sqlite_master").fetchall()
        if marks == (0, 0) and not tables and not self.read_only:
            return [*schema.TABLES.values(), *schema.DERIVED.values(), *_list_marks()]
        if marks == (0, 0) and all((table,) in tables for table in schema.TABLES):
            # A dump that was restored has neither number.
            return []
        application, version = marks
        if application != schema.APPLICATION:
            raise InvalidInput(
                f"{self.path} is not a database of klazy, or it is damaged. Choose another file."
            )
        self.require_version(version)
        if version == schema.VERSION:
            return []
        return [*schema.list_steps(version, "sqlite"), *_list_marks()]

    def _compare_tables(self) -> None:
        """Reject tables that lost a column, or that would not hold what is written to them."""
        for table, statement in schema.TABLES.items():
            made = _describe_made(table, statement)
            here = _describe(self._connection, table)
            if here != made:
                names = {name for name, *_ in here[0]}
                if any(name not in names for name, *_ in made[0]):
                    raise self.damage(f"the table {table!r} has lost a column")
                columns = ", ".join(f"{name} {kind}" for name, kind, *_ in here[0])
                raise InvalidInput(
                    f"The table {table!r} of {self.path} was changed by another program; its columns are {columns}. "
                    "Undo that, or restore a backup."
                )
            for kind, name in self._connection.execute(_FIND_RULES, (table,)).fetchall():
                raise InvalidInput(
                    f"The {kind} {name!r} on {table!r} of {self.path} could change what klazy writes. "
                    f"Remove it: DROP {kind.upper()} {name}"
                )

    def _list_repairs(self) -> list[str]:
        """Return the statements that make again what another program has dropped or changed, or a dump leaves out."""
        found = self._connection.execute("SELECT sql FROM sqlite_master").fetchall()
        repairs = []
        for name, statement in schema.DERIVED.items():
            if (statement,) not in found:
                repairs += [f"DROP {name.replace(' ', ' IF EXISTS ')}", statement]
        if self._read_marks() == (0, 0):
            repairs += _list_marks()
        return repairs

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
            raise StoreFailed(f"{self.path} was moved, removed or replaced. Open the agent again.")

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

    def _run(self, sql: str) -> None:
        self._execute(sql)

    def _undo(self, statements: Sequence[str]) -> None:
        # SQLite itself undoes a transaction when a disk is full, for example.
        if self._connection.in_transaction:
            for statement in statements:
                self._execute(statement)

    def insert(self, table: str, rows: Sequence[Values]) -> None:
        if rows:
            places = ", ".join("?" * len(rows[0]))
            self._connection.executemany(f"INSERT INTO {table} VALUES ({places})", rows)

    def touch(self) -> None:
        """Write the version and the number of agents as they are: two pages, as many as a round writes."""

        def write() -> None:
            (version,) = self._execute("PRAGMA user_version").fetchone()
            self._execute(f"PRAGMA user_version = {version}")
            self._execute("UPDATE sqlite_sequence SET seq = seq")

        self.transact(write)

    def has_changed(self) -> bool:
        """Ask SQLite, which counts the commits of other connections."""
        ((version,),) = self.ask("PRAGMA data_version")
        changed = version != self._data_version
        self._data_version = version
        return changed

    def number_agents(self, names: Sequence[str]) -> int:
        """Count agents, because a damaged page may hide one, or an index lose a name."""
        ask = self._execute
        (count,) = ask("SELECT count(*) FROM agents NOT INDEXED").fetchone()
        (given,) = ask("SELECT seq FROM sqlite_sequence WHERE name = 'agents'").fetchone() or (0,)
        if count != given:
            raise self.damage(f"{count} of its {given} agents are left")
        if len(names) == 1:
            (named,) = ask("SELECT total(name = ?) FROM agents NOT INDEXED", names).fetchone()
            if named and not ask("SELECT 1 FROM agents WHERE name = ?", names).fetchone():
                raise self.damage("the index of names has lost some")
        return given + 1

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
        self.transact(lambda: self._connection.executemany(_INSERT, rows))

    # The file

    def find_own_faults(self) -> list[str]:
        return [text for (text,) in self.ask("PRAGMA integrity_check") if text != "ok"]

    def _copy(self, target: Path) -> None:
        _create_private(target)
        try:
            with closing(sqlite3.connect(target)) as copy:
                self._connection.backup(copy)
        except _FAILURES as failed:
            raise self._explain(failed) from failed

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


def _list_marks() -> tuple[str, ...]:
    """Return the statements that mark a file as klazy's."""
    return f"PRAGMA application_id = {schema.APPLICATION}", f"PRAGMA user_version = {schema.VERSION}"


def _create_private(file: Path) -> None:
    """Create an empty file that only its owner may read, unless one exists; SQLite gives its log the same mode.

    One thread does so at a time, because closing a file releases all locks that the process has on it.
    """
    # SQLite itself explains why it cannot open a file.
    with _CREATING, suppress(OSError):
        os.close(os.open(os.path.realpath(file), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))


def _describe(connection: sqlite3.Connection, table: str) -> tuple[Any, Any]:
    """Return the columns of a table (name, type, whether it needs a value, place in the key), and its unique ones."""
    columns = 'SELECT name, type, "notnull", pk, hidden FROM pragma_table_xinfo(?)'
    unique = """SELECT columns.name FROM pragma_index_list(?) AS indexes, pragma_index_info(indexes.name) AS columns
    WHERE indexes.origin <> 'c' ORDER BY indexes.name"""
    return connection.execute(columns, (table,)).fetchall(), connection.execute(unique, (table,)).fetchall()


@cache
def _describe_made(table: str, statement: str) -> tuple[Any, Any]:
    """Return the same of a table as klazy makes it."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(statement)
        return _describe(connection, table)
