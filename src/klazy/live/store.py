"""A database file with many agents: the only module that speaks SQL.

Each record is one transaction of one statement, and its key can be taken once. So a round is there or not, two processes never
write the same round, and nothing has to be locked between rounds. Rows carry checksums, because SQLite's pages do not.
"""

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from time import time
from typing import Any, NamedTuple
from weakref import WeakSet

from klazy.base.checks import Refused, file_path, one_of, refusal
from klazy.live.records import Row, checksum_row, checksum_text, is_whole, seal_row
from klazy.live.schema import AGENT_SHIFT, APPLICATION, STATEMENTS, VERSION

SYNCS = {"always": "FULL", "batch": "NORMAL"}  # by SQLite's names
# A commit writes whole pages. Of a few numbers a small page is written faster; one of many takes several.
PAGE_BYTES = 2048
WAL_PAGES = 8192  # 16 MB; then SQLite takes the write-ahead log into the file
READ_AT_ONCE = 1000  # records
PATIENCE = 10.0  # seconds for which one waits while another process writes

_COLUMNS = ", ".join(Row._fields)
_INSERT = f"INSERT INTO records ({_COLUMNS}) VALUES ({', '.join('?' * len(Row._fields))})"
_INSERT_PLAIN = """INSERT INTO records (key, kind, t, at, numbers, decision, hitting, switching, checksum)
VALUES (?, 0, ?, ?, ?, ?, ?, ?, ?)"""
_INSERT_SNAPSHOT = """INSERT INTO snapshots VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (key) DO UPDATE SET at = excluded.at, about = excluded.about, checksum = excluded.checksum"""
# a complaint about a damaged file may hold letters that are none, and a damaged number may be too large
_FAILURES = (sqlite3.Error, UnicodeDecodeError, OverflowError)
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_FORMAT}


class StoreFailed(Refused):
    """The store cannot be read or written; what was given to it may be all right."""


def fail(owner: str, condition: str, name: str, value: object, remedy: str) -> StoreFailed:
    """A failure of the store in the form of a refusal."""
    return StoreFailed(*refusal(owner, condition, name, value, remedy).args)


class TakenError(Exception):
    """The key or the id of a record is in the store already."""


class Listed(NamedTuple):
    """An agent as its table holds it."""

    id: int
    name: str
    at: float
    configuration: str
    checksum: int


class Token(NamedTuple):
    """Who may use the service, and how: ``agent`` is None for all of them, ``hash`` that of the secret."""

    name: str
    role: str
    agent: str | None
    hash: str
    at: float
    checksum: int


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
    def n(self) -> int:
        """The number of the record that comes next."""
        return self.key & ((1 << AGENT_SHIFT) - 1)


class Store:
    """An open database file; ``owner`` is what refusals call the one who asked.

    A file that is not there is made unless the store is ``read_only`` or must be there (``new=False``). One that is not
    ``shared`` is for this store alone as long as it is open.
    """

    def __init__(
        self,
        path: str | Path,
        sync: str = "always",
        *,
        read_only: bool = False,
        shared: bool = True,
        new: bool = True,
        owner: str = "Agent.open",
    ) -> None:
        level = SYNCS[one_of(sync, "sync", owner, tuple(SYNCS))]
        self.path = file_path(path, "path", owner).absolute()  # the same one wherever the process goes
        self.read_only = read_only
        self.closed = False
        self.inherited = False
        self._idle = read_only  # whether it takes no rounds
        self._owner = owner
        self._check_place(new and not read_only)
        try:
            self._connection = self._connect()
        except _FAILURES as failed:
            raise self.explain(failed) from failed
        try:
            self._set_up(level, shared)
            self._check_tables()
        except _FAILURES as failed:
            self._connection.close()
            raise self.explain(failed) from failed
        except BaseException:
            self._connection.close()
            raise
        self._place = os.fspath(self.path)
        there = os.stat(self._place)
        self._inode = there.st_ino
        self._device = there.st_dev
        self._execute = self._connection.cursor().execute
        _OPEN.add(self)

    def _check_place(self, may_make: bool) -> None:
        if self.path.is_dir():
            remedy = "klazy migrate reads a folder of an older klazy into a file"
            raise refusal(self._owner, "the path of a database file", "path", self.path, remedy)
        if not may_make and not self.path.is_file():
            remedy = "check the path"
            raise refusal(self._owner, "a database that is there", "path", self.path, remedy)
        if not self.path.parent.is_dir():
            remedy = "make the folder first"
            raise refusal(self._owner, "a folder for the database", "path", self.path, remedy)

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
            if failed.sqlite_errorcode & 0xFF != sqlite3.SQLITE_CANTOPEN or log.exists():
                raise
            # a folder in which SQLite may not make its shared memory; nobody writes there
            connection = self._connect_as("mode=ro&immutable=1")
        return connection

    def _connect_as(self, options: str) -> sqlite3.Connection:
        return sqlite3.connect(
            f"{self.path.as_uri()}?{options}",
            uri=True,
            timeout=PATIENCE,
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
            raise refusal(self._owner, "a file system with shared memory", "path", self.path, remedy)
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
            raise refusal(self._owner, "a database of klazy", "path", self.path, remedy)
        if version > VERSION and ours != list(STATEMENTS):
            raise refusal(
                self._owner, f"tables of version {VERSION}", "version", version, "install a newer klazy"
            )
        if version != VERSION or ours != list(STATEMENTS):
            raise self.damage("the tables that klazy made")

    def _is_empty(self) -> bool:
        ask = self._connection.execute
        (pages,) = ask("SELECT count(*) FROM sqlite_master").fetchone()
        (application,) = ask("PRAGMA application_id").fetchone()
        (version,) = ask("PRAGMA user_version").fetchone()
        return pages == 0 and application == 0 and version == 0

    # What is wrong with the file

    def damage(self, condition: str) -> StoreFailed:
        """The refusal of rows that cannot be trusted; they are left as they are."""
        remedy = "it is damaged; restore it from a backup"
        return fail(self._owner, condition, "path", self.path, remedy)

    def explain(self, failed: Exception) -> StoreFailed:
        """What SQLite complains about, in one sentence."""
        code = getattr(failed, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
        if code == sqlite3.SQLITE_NOTADB:
            remedy = "Agent.load reads a file of Agent.save; if it was a database, restore it from a backup"
            return fail(self._owner, "a database", "path", self.path, remedy)
        if code in _DAMAGED:
            return self.damage(f"a database that SQLite can read ({failed})")
        if code == sqlite3.SQLITE_BUSY:
            remedy = f"another process has had it for {PATIENCE:g} seconds"
            return fail(self._owner, "its turn", "path", self.path, remedy)
        return fail(self._owner, "a database that it can read and write", "path", self.path, str(failed))

    def _require_writer(self) -> None:
        if self.read_only:
            raise fail("Agent", "a store that it may write to", "path", self.path, "it is read-only")
        self._require_reader()

    def _require_reader(self) -> None:
        if self.closed:
            remedy = "it was closed; open the agent again"
            raise fail("Agent", "an open store", "path", self.path, remedy)
        if self.inherited:
            remedy = "this one was forked from that; open the agent here"
            raise fail("Agent", "the process that opened it", "path", self.path, remedy)

    def require_place(self) -> None:
        """Refuse to write to a file that was moved, or that another one has replaced."""
        try:
            there = os.stat(self._place)
        except (FileNotFoundError, NotADirectoryError):
            there = None
        if there is None or there.st_ino != self._inode or there.st_dev != self._device:
            remedy = "it was moved, removed or replaced; open the agent again"
            raise fail("Agent", "the file that it was opened from", "path", self.path, remedy)

    # Agents

    def list_agents(self) -> list[Listed]:
        """All of them, by id."""
        found = [Listed(*row) for row in self._ask("SELECT * FROM agents ORDER BY id")]
        for agent in found:
            self._check_agent(agent)
        return found

    def find_agent(self, name: str) -> Listed | None:
        """The agent of this name, if there is one."""
        found = self._ask("SELECT * FROM agents WHERE name = ?", name)
        for row in found:
            agent = Listed(*row)
            self._check_agent(agent)
            return agent
        return None

    def _check_agent(self, agent: Listed) -> None:
        if not is_whole(checksum_text, agent):
            raise self.damage(f"the row of agent {agent.name!r} as it was written")

    def create_agent(
        self,
        name: str,
        configuration: str,
        snapshot: tuple[int, float, float, str],
        before: Sequence[tuple[Any, ...]] = (),
        after: Sequence[tuple[Any, ...]] = (),
        last: tuple[int, float, float, str] | None = None,
    ) -> int | None:
        """Make an agent with its first snapshot, in one transaction: its id, or None if the name was taken meanwhile.

        One that comes from elsewhere may have records ``before`` and ``after`` that snapshot, without key and checksum, and a
        ``last`` snapshot.
        """
        ask = self._execute
        try:
            with self.together():
                # a damaged page may hide an agent: then fewer rows are left than ids were given, or an index has lost a name
                sql = "SELECT count(*), total(name = ?) FROM agents NOT INDEXED"
                count, named = ask(sql, (name,)).fetchone()
                given = ask("SELECT seq FROM sqlite_sequence WHERE name = 'agents'").fetchone() or (0,)
                if count != given[0]:
                    raise self.damage(f"all of its {given[0]} agents ({count} are left)")
                if named and not ask("SELECT 1 FROM agents WHERE name = ?", (name,)).fetchone():
                    raise self.damage("an index of all names")
                at = time()
                agent = given[0] + 1
                checksum = checksum_text(agent, name, at, configuration)
                ask("INSERT INTO agents VALUES (?, ?, ?, ?, ?)", (agent, name, at, configuration, checksum))
                for n, row in enumerate((*before, *after)):
                    ask(_INSERT, seal_row(agent << AGENT_SHIFT | n, *row))
                self._put_snapshot(agent, len(before), at, *snapshot)
                if last is not None:
                    self._put_snapshot(agent, len(before) + len(after), at, *last)
        except sqlite3.IntegrityError:
            return None
        return agent

    # Tokens

    def add_token(self, name: str, role: str, agent: str | None, hash: str) -> None:
        """Keep a token; its name must be new."""
        values = (name, role, agent, hash, time())
        self._append("INSERT INTO tokens VALUES (?, ?, ?, ?, ?, ?)", (*values, checksum_text(*values)))

    def list_tokens(self) -> list[Token]:
        """All of them, by name."""
        found = [Token(*row) for row in self._ask("SELECT * FROM tokens ORDER BY name")]
        for token in found:
            if not is_whole(checksum_text, token):
                raise self.damage(f"the row of token {token.name!r} as it was written")
        return found

    def remove_token(self, name: str) -> bool:
        """Forget a token; whether there was one."""
        self._require_writer()
        self.require_place()
        try:
            return self._execute("DELETE FROM tokens WHERE name = ?", (name,)).rowcount > 0
        except _FAILURES as failed:
            raise self.explain(failed) from failed

    # Records

    def append(self, row: tuple[Any, ...]) -> None:
        """Commit a record, the values of a :class:`Row`; with ``sync="always"`` it is on disk when this returns."""
        self._append(_INSERT, row)

    def append_plain(self, row: tuple[Any, ...]) -> None:
        """Commit a round without texts: key, t, time, numbers, decision, hitting, switching, checksum."""
        self._append(_INSERT_PLAIN, row)

    def _append(self, sql: str, row: tuple[Any, ...]) -> None:
        try:
            there = os.stat(self._place)
            if there.st_ino != self._inode or there.st_dev != self._device or self._idle:
                self._require_writer()
                self.require_place()
            self._execute(sql, row)
        except sqlite3.IntegrityError:
            raise TakenError from None
        except _FAILURES as failed:
            raise self.explain(failed) from failed
        except OSError:
            self._require_writer()
            self.require_place()
            raise

    def read_records(self, agent: int, first: int) -> Iterator[Row]:
        """The records from number ``first`` on, each checked: the first and all after it must be there."""
        key = agent << AGENT_SHIFT | first
        end = (agent + 1) << AGENT_SHIFT
        sql = f"SELECT {_COLUMNS} FROM records WHERE key >= ? AND key < ? ORDER BY key LIMIT {READ_AT_ONCE}"
        while rows := self._ask(sql, key, end):
            for found in rows:
                row = Row(*found)
                if not is_whole(checksum_row, row) or row.key != key:
                    n = key & ((1 << AGENT_SHIFT) - 1)
                    raise self.damage(f"record {n} of agent {agent} as it was written")
                yield row
                key += 1

    def find_round(self, agent: int, id: str) -> Row | None:
        """The round of this id, if there was one."""
        sql = f"SELECT {_COLUMNS} FROM records WHERE key >> 40 = ? AND id = ?"
        for found in self._ask(sql, agent, id):
            row = Row(*found)
            if not is_whole(checksum_row, row) or row.key >> AGENT_SHIFT != agent or row.id != id:
                raise self.damage(f"the record of id {id!r} as it was written")
            return row
        return None

    def read_ids(self, agent: int, most: int) -> list[str]:
        """The latest ids, the oldest of them first."""
        sql = "SELECT id FROM records WHERE key >= ? AND key < ? AND id IS NOT NULL ORDER BY key DESC LIMIT ?"
        found = self._ask(sql, agent << AGENT_SHIFT, (agent + 1) << AGENT_SHIFT, most)
        return [id for (id,) in found][::-1]

    def has_record(self, agent: int, n: int) -> bool:
        """Whether the record of this number is there."""
        key = agent << AGENT_SHIFT | n
        return bool(self._ask("SELECT 1 FROM records WHERE key = ?", key))

    def find_first_record(self, agent: int) -> int | None:
        """The number of the first record that was not pruned."""
        sql = "SELECT min(key) FROM records WHERE key >= ? AND key < ?"
        for (key,) in self._ask(sql, agent << AGENT_SHIFT, (agent + 1) << AGENT_SHIFT):
            if key is not None:
                return key & ((1 << AGENT_SHIFT) - 1)
        return None

    def find_last_record(self, agent: int) -> int | None:
        """The number of the last record."""
        sql = "SELECT max(key) FROM records WHERE key >= ? AND key < ?"
        for (key,) in self._ask(sql, agent << AGENT_SHIFT, (agent + 1) << AGENT_SHIFT):
            if key is not None:
                return key & ((1 << AGENT_SHIFT) - 1)
        return None

    def list_latest(self) -> list[tuple[str, int, float | None]]:
        """Of each agent its name, the rounds it has ended, and when it ended the last one."""
        latest = f"""SELECT {{}} FROM records WHERE kind < 2
          AND key >= agents.id << {AGENT_SHIFT} AND key < (agents.id + 1) << {AGENT_SHIFT} ORDER BY key DESC LIMIT 1"""
        t = latest.format("t")
        at = latest.format("at")
        return self._ask(f"SELECT name, coalesce(({t}), 0), ({at}) FROM agents")

    # Snapshots

    def _put_snapshot(
        self, agent: int, n: int, at: float, t: int, hitting: float, switching: float, about: str
    ) -> None:
        key = agent << AGENT_SHIFT | n
        values = (key, t, at, hitting, switching, about)
        self._execute(_INSERT_SNAPSHOT, (*values, checksum_text(*values)))

    def put_snapshot(self, agent: int, n: int, t: int, hitting: float, switching: float, about: str) -> None:
        """Keep the state before record ``n``, and the machine that goes on from it."""
        self._require_writer()
        self.require_place()
        try:
            self._put_snapshot(agent, n, time(), t, hitting, switching, about)
        except _FAILURES as failed:
            raise self.explain(failed) from failed

    def read_snapshots(self, agent: int) -> list[Snapshot]:
        """All of an agent, the first one first."""
        sql = "SELECT * FROM snapshots WHERE key >= ? AND key < ? ORDER BY key"
        rows = self._ask(sql, agent << AGENT_SHIFT, (agent + 1) << AGENT_SHIFT)
        return [self._check_snapshot(Snapshot(*row)) for row in rows]

    def read_last_snapshot(self, agent: int) -> Snapshot:
        """The latest one."""
        sql = "SELECT * FROM snapshots WHERE key >= ? AND key < ? ORDER BY key DESC LIMIT 1"
        for row in self._ask(sql, agent << AGENT_SHIFT, (agent + 1) << AGENT_SHIFT):
            return self._check_snapshot(Snapshot(*row))
        raise self.damage(f"a snapshot of agent {agent}")

    def _check_snapshot(self, snapshot: Snapshot) -> Snapshot:
        if not is_whole(checksum_text, snapshot):
            raise self.damage("a snapshot as it was written")
        return snapshot

    def prune(self, agent: int, n: int, oldest: float | None) -> None:
        """Forget the records before the last snapshot whose number is at most ``n``, or that is not after ``oldest``.

        That snapshot becomes the first one.
        """
        self._require_writer()
        low = agent << AGENT_SHIFT
        sql = "SELECT max(key) FROM snapshots WHERE key >= ? AND key <= ? AND at <= ?"
        latest = float("inf") if oldest is None else oldest
        try:
            (first,) = self._execute(sql, (low, low | n, latest)).fetchone()
            if (
                first is not None
            ):  # in this order: records before the first snapshot do no harm if this ends half way
                self._execute("DELETE FROM snapshots WHERE key >= ? AND key < ?", (low, first))
                self._execute("DELETE FROM records WHERE key >= ? AND key < ?", (low, first))
        except _FAILURES as failed:
            raise self.explain(failed) from failed

    # The file

    def _ask(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """All rows at once, so that no reader is left half way: it would keep SQLite from emptying its log."""
        self._require_reader()
        try:
            return self._connection.execute(sql, values).fetchall()
        except _FAILURES as failed:
            raise self.explain(failed) from failed

    @contextmanager
    def together(self) -> Iterator[None]:
        """All that is written while this lasts is one transaction: it is committed at the end, or none of it is.

        One within another is undone alone if it fails.
        """
        self._require_writer()
        self.require_place()
        inner = self._connection.in_transaction
        begin = "SAVEPOINT inner" if inner else "BEGIN IMMEDIATE"
        commit = "RELEASE inner" if inner else "COMMIT"
        undo = "ROLLBACK TO inner" if inner else "ROLLBACK"
        try:
            self._execute(begin)
            try:
                yield
                self._execute(commit)
            except BaseException:
                if self._connection.in_transaction:  # and not undone by SQLite itself, as when a disk is full
                    self._execute(undo)
                    if inner:
                        self._execute(commit)
                raise
        except sqlite3.IntegrityError:
            raise
        except _FAILURES as failed:
            raise self.explain(failed) from failed

    @contextmanager
    def one_moment(self) -> Iterator[None]:
        """While this lasts, all that is read is as it was at one moment, whatever others write."""
        self._execute("BEGIN")
        try:
            yield
        finally:
            self._execute("COMMIT")

    def find_faults(self) -> list[str]:
        """What SQLite's own check of the whole file finds, and rows that belong to no agent."""
        found = [text for (text,) in self._ask("PRAGMA integrity_check") if text != "ok"]
        for table in ("records", "snapshots"):
            sql = f"SELECT count(*) FROM {table} WHERE key >> 40 NOT IN (SELECT id FROM agents)"
            for (count,) in self._ask(sql):
                if count:
                    found.append(f"{count} rows of {table} belong to no agent")
        return found

    def back_up(self, path: str | Path) -> None:
        """Copy the file, as it is at one moment, while others go on writing to it."""
        self._require_reader()
        target = file_path(path, "path", "Agent.backup").absolute()
        if target.exists():
            raise refusal("Agent.backup", "a path where nothing is", "path", target, "choose another")
        try:
            copy = sqlite3.connect(target)
            try:
                self._connection.backup(copy)
            finally:
                copy.close()
        except _FAILURES as failed:
            target.unlink(missing_ok=True)
            raise self.explain(failed) from failed

    def close(self) -> None:
        """Let go of the file; the last one to do so takes the log into it. A forked process leaves it alone."""
        if not self.closed and not self.inherited:
            self.closed = True
            self._idle = True
            try:
                self.require_place()
            except Refused:
                self._empty_log()
            self._connection.close()

    def _empty_log(self) -> None:
        """Take the log into a file that was moved: SQLite would leave it behind."""
        with suppress(sqlite3.Error):
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


_OPEN: WeakSet[Store] = WeakSet()


def _disown_inherited() -> None:
    """In a forked process: connections are the parent's, and SQLite forbids to use them here."""
    for store in list(_OPEN):
        store.inherited = True
        store._idle = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_disown_inherited)
