"""A store of many agents: the interface of its database, and the statements that every database shares.

``open_store`` opens an SQLite file (sqlite.py) or a PostgreSQL database (postgres.py). A record is accepted only if it follows
the very record that its agent has seen last.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from time import time
from typing import Any, Self, TypeVar
from weakref import WeakSet

from klazy.base.checks import InvalidInput, file_path, one_of
from klazy.live import schema
from klazy.live.records import (
    AGENT_SHIFT,
    HINTED,
    KNOWN,
    ROUND,
    AgentRow,
    Row,
    Snapshot,
    Token,
    append_checksum,
    checksum_row,
    find_number,
    is_intact,
)

# Seconds to wait for another process, or for a server that does not answer.
PATIENCE = 10.0
SYNC_MODES = ("always", "batch")
RECORDS_PER_READ = 1000
# A page of rounds is read in parts: FIRST_READ records, then twice as many. It ends with the round that reaches PAGE_BYTES.
FIRST_READ = 16
PAGE_BYTES = 2_000_000
AGENTS_PER_QUERY = 500
ROWS_PER_COPY = 10_000
# The longest gap between two snapshots that counts, as a share of the time that history stays.
LONGEST_GAP = 0.25
_SCHEMES = ("postgresql://", "postgres://")
ROW_COLUMNS = ", ".join(f'"{name}"' for name in Row._fields)
_AGENT = f"key >> {AGENT_SHIFT}"

Result = TypeVar("Result")
Values = Sequence[Any]


class TakenError(Exception):
    """A record does not follow the last one of its agent, or its key or id is there already."""


class StoreFailed(InvalidInput):
    """The store cannot be read or written; the input may be all right."""


def is_url(path: object) -> bool:
    """Return True for the URL of a PostgreSQL database, False for a path."""
    return isinstance(path, str) and path.startswith(_SCHEMES)


def _span(agent: int) -> tuple[int, int]:
    """Return the first key of an agent, and the first one of the next agent."""
    return agent << AGENT_SHIFT, (agent + 1) << AGENT_SHIFT


class Store(ABC):
    """An open database with agents, used by one thread at a time.

    ``path`` is that of an SQLite file, or the URL of a PostgreSQL database.
    What does not exist is created, unless the store is ``read_only`` or must exist (``new=False``). A file that is not
    ``shared`` is locked as long as it is open. Statements have ``?`` in the place of values.
    """

    def __init__(
        self,
        path: str | Path,
        sync: str = "always",
        *,
        read_only: bool = False,
        shared: bool = True,
        new: bool = True,
    ) -> None:
        self.path: str | Path = path
        self.sync = one_of(sync, "sync", SYNC_MODES)
        self.read_only = read_only
        self.closed = False
        # A forked process inherits a connection that it must not use.
        self.inherited = False
        # An idle store takes no rounds: it is read-only, closed or inherited.
        self.idle = read_only
        # How often a connection to a server was made.
        self.connections = 0
        _OPEN.add(self)
        self._open(shared, new and not read_only)

    # What each database does in its own way

    @abstractmethod
    def _open(self, shared: bool, may_create: bool) -> None:
        """Connect to the database and check its tables."""

    @abstractmethod
    def ask(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Return all rows of a statement."""

    @abstractmethod
    def together(self) -> AbstractContextManager[None]:
        """Make one transaction of all writes in a ``with`` block; one within another is undone alone if it fails."""

    @abstractmethod
    def transact(self, work: Callable[[], Result]) -> Result:
        """Do ``work`` in one transaction, after a lost connection from its beginning."""

    @abstractmethod
    def one_moment(self) -> AbstractContextManager[None]:
        """Read everything in a ``with`` block as it was at one moment, while others write."""

    @abstractmethod
    def write(self, sql: str, *values: Any) -> None:
        """Execute a statement that gives no rows, within a transaction."""

    @abstractmethod
    def insert(self, table: str, rows: Sequence[Values]) -> None:
        """Insert rows whose values are in the order of the table, within a transaction."""

    @abstractmethod
    def replace_snapshots(self, rows: Sequence[Values]) -> None:
        """Insert snapshots, each in the place of the one with its key, within a transaction."""

    @abstractmethod
    def lock_agents(self, agents: Sequence[int]) -> None:
        """Keep others from writing records of these agents until the transaction ends."""

    @abstractmethod
    def number_agents(self, names: Sequence[str]) -> int:
        """Return the first of as many new ids as there are names, within a transaction."""

    @abstractmethod
    def follow(self, keys: Sequence[int], lasts: Sequence[int | None]) -> bool:
        """Return True if each record would come after the one with checksum ``last``, or else at a snapshot."""

    @abstractmethod
    def append(self, row: Values) -> None:
        """Commit a record if it is as :meth:`follow` says; raise :class:`TakenError` otherwise.

        ``row`` holds the values of a :class:`Row`, and then the checksum of the record before it.
        """

    @abstractmethod
    def append_many(self, rows: Sequence[Values]) -> None:
        """Commit records of several agents, all or none; a record may follow another one of these."""

    @abstractmethod
    def touch(self) -> None:
        """Commit a write that changes nothing, to find out whether the database accepts any."""

    @abstractmethod
    def has_changed(self) -> bool:
        """Return True if others may have written since the last call."""

    @abstractmethod
    def find_own_faults(self) -> list[str]:
        """Return what the database's own check finds."""

    @abstractmethod
    def close(self) -> None:
        """Close the database. A forked process leaves it alone."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Errors

    def damage(self, what: str) -> StoreFailed:
        """Make the error of rows that cannot be trusted; they are left as they are."""
        return StoreFailed(f"{self.path} is damaged: {what}. Restore it from a backup.")

    def require_version(self, version: int) -> None:
        """Raise an error for tables that this klazy can neither use nor bring up to date."""
        remedy = None
        if version > schema.VERSION:
            remedy = "Install a newer klazy."
        elif version < 1:
            remedy = "No klazy has made such tables; set the version to what it was, or restore a backup."
        elif version < schema.VERSION and self.read_only:
            remedy = "Open the store once without read_only, which brings its tables up to date."
        if remedy is not None:
            raise InvalidInput(
                f"{self.path} has tables of version {version}; this klazy uses version {schema.VERSION}. {remedy}"
            )

    def require_reader(self) -> None:
        """Raise an error if the store was closed, or opened by the parent of this process."""
        if self.closed:
            raise StoreFailed(f"{self.path} was closed. Open the agent again.")
        if self.inherited:
            raise StoreFailed(
                f"{self.path} was opened by the parent of this process. Open the agent here, too."
            )

    def require_place(self) -> None:  # noqa: B027  a server has no file
        """Raise an error if the file was moved, or replaced by another one."""

    def require_writer(self) -> None:
        """Raise an error if nothing can be written: also if the store is read-only."""
        if self.read_only:
            raise StoreFailed(f"{self.path} was opened read-only.")
        self.require_reader()

    def _check(self, form: Any, what: str, rows: Sequence[Values]) -> list[Any]:
        """Return rows as objects of their class, if their checksums are right."""
        found = []
        for values in rows:
            row = form(*values)
            if not is_intact(row):
                name = what.format(row=row, agent=row[0] >> AGENT_SHIFT if form is Row else None)
                raise self.damage(f"{name} was changed")
            found.append(row)
        return found

    # Agents

    def list_agents(self) -> list[AgentRow]:
        """Return all agents, by id."""
        return self._read_agents("ORDER BY id")

    def _read_agents(self, condition: str, *values: Any) -> list[AgentRow]:
        rows = self.ask(f"SELECT * FROM agents {condition}", *values)
        return self._check(AgentRow, "the row of agent {row.name!r}", rows)

    def count_agents(self) -> int:
        """Return the number of agents."""
        ((count,),) = self.ask("SELECT count(*) FROM agents")
        return count

    def find_agent(self, name: str) -> AgentRow | None:
        """Return the agent of this name, if there is one."""
        found = self._read_agents("WHERE name = ?", name)
        return found[0] if found else None

    def find_agents(self, names: Sequence[str]) -> dict[str, AgentRow]:
        """Return those agents of these names that exist, by name."""
        found = {}
        for some in _split(names):
            places = ", ".join("?" * len(some))
            for agent in self._read_agents(f"WHERE name IN ({places})", *some):
                found[agent.name] = agent
        return found

    def create_agents(
        self,
        names: Sequence[str],
        configuration: str,
        snapshot: tuple[int, float, float, str],
        ids: Sequence[str] = (),
        decision: bytes = b"",
    ) -> None:
        """Create agents that begin alike, in one transaction; raise :class:`TakenError` if one of the names is in use.

        ``ids`` are those of rounds from before the history begins; ``decision`` is the answer to them.
        """

        def create() -> None:
            first = self.number_agents(names)
            at = time()
            agents = []
            records = []
            snapshots = []
            for agent, name in enumerate(names, first):
                key, _ = _span(agent)
                agents.append(append_checksum(agent, name, at, configuration))
                for id in ids:
                    row = (key, KNOWN, snapshot[0], None, id, None, b"", decision, 0.0, 0.0, None, None)
                    records.append((*row, checksum_row(row)))
                    key += 1
                snapshots.append(append_checksum(key, snapshot[0], at, *snapshot[1:]))
            self.insert("agents", agents)
            self.insert("records", records)
            self.insert("snapshots", snapshots)

        self.transact(create)

    # Tokens

    def add_token(self, name: str, role: str, agent: str | None, hash: str) -> None:
        """Store a token; raise :class:`TakenError` if its name is in use."""
        row = append_checksum(name, role, agent, hash, time())
        self.transact(lambda: self.insert("tokens", [row]))

    def list_tokens(self) -> list[Token]:
        """Return all tokens, by name."""
        rows = self.ask("SELECT * FROM tokens ORDER BY name")
        return self._check(Token, "the row of token {row.name!r}", rows)

    def remove_token(self, name: str) -> bool:
        """Remove a token; return True if there was one."""

        def remove() -> bool:
            exists = bool(self.ask("SELECT 1 FROM tokens WHERE name = ?", name))
            self.write("DELETE FROM tokens WHERE name = ?", name)
            return exists

        return self.transact(remove)

    # Records

    def read_records(self, agent: int, first: int) -> Iterator[Row]:
        """Read the records from number ``first`` on; that one and all after it must be there."""
        _, end = _span(agent)
        key = agent << AGENT_SHIFT | first
        sql = f"SELECT {ROW_COLUMNS} FROM records WHERE key >= ? AND key < ? ORDER BY key LIMIT {RECORDS_PER_READ}"
        while rows := self.ask(sql, key, end):
            for found in rows:
                row = Row(*found)
                if not is_intact(row) or row.key != key:
                    raise self.damage(f"record {find_number(key)} of agent {agent} was changed")
                yield row
                key += 1

    def find_round(self, agent: int, id: str) -> Row | None:
        """Return the round of this id, if there was one."""
        found = self.ask(f"SELECT {ROW_COLUMNS} FROM records WHERE {_AGENT} = ? AND id = ?", agent, id)
        if not found:
            return None
        row = Row(*found[0])
        if not is_intact(row) or row.key >> AGENT_SHIFT != agent or row.id != id:
            raise self.damage(f"the record of id {id!r} was changed")
        return row

    def read_rounds(self, agent: int, last: int, before: int | None = None) -> tuple[list[Row], bool]:
        """Return the last rounds before round ``before``, the oldest first, and whether there may be earlier ones.

        All records of one round are on one page, which may be longer for that; a page of many numbers is shorter.
        """
        with self.one_moment():
            first = self.find_first_record(agent)
            found = self.find_last_record(agent)
            if first is None or found is None:
                return [], False
            end = found[0] + 1
            if before is not None:
                end = self._find_round_place(agent, before, first, end)
            rounds: list[Row] = []
            size = 0
            for row in self._read_back(agent, first, end):
                is_full = len(rounds) >= last or size >= PAGE_BYTES
                if is_full and row.t != rounds[-1].t:
                    return rounds[::-1], True
                if row.kind in (ROUND, HINTED):
                    rounds.append(row)
                    size += len(row.numbers) + len(row.decision)
            return rounds[::-1], False

    def _find_round_place(self, agent: int, t: int, low: int, high: int) -> int:
        """Return the number of the first record of round ``t`` or a later one, by bisection."""
        while low < high:
            middle = (low + high) // 2
            rows = self.ask("SELECT t FROM records WHERE key = ?", agent << AGENT_SHIFT | middle)
            if not rows:
                raise self.damage(f"record {middle} of agent {agent} is missing")
            if rows[0][0] < t:
                low = middle + 1
            else:
                high = middle
        return low

    def _read_back(self, agent: int, first: int, end: int) -> Iterator[Row]:
        """Read the records from number ``first`` to the one before ``end``, the latest first."""
        sql = f"SELECT {ROW_COLUMNS} FROM records WHERE key >= ? AND key < ? ORDER BY key DESC"
        base, _ = _span(agent)
        count = FIRST_READ
        while end > first:
            start = max(first, end - count)
            for found in self.ask(sql, base | start, base | end):
                row = Row(*found)
                end -= 1
                if not is_intact(row) or row.key != base | end:
                    raise self.damage(f"record {end} of agent {agent} was changed")
                yield row
            if end != start:
                raise self.damage(f"record {end - 1} of agent {agent} is missing")
            count = min(2 * count, RECORDS_PER_READ)

    def read_ids(self, agent: int, most: int) -> list[str]:
        """Return the latest ids, the oldest of them first."""
        sql = "SELECT id FROM records WHERE key >= ? AND key < ? AND id IS NOT NULL ORDER BY key DESC LIMIT ?"
        return [id for (id,) in self.ask(sql, *_span(agent), most)][::-1]

    def find_checksums(self, keys: Sequence[int]) -> dict[int, int]:
        """Return the checksums of those of these records that are there, by key."""
        found: dict[int, int] = {}
        for some in _split(keys):
            places = ", ".join("?" * len(some))
            found.update(self.ask(f"SELECT key, checksum FROM records WHERE key IN ({places})", *some))
        return found

    def find_first_record(self, agent: int) -> int | None:
        """Return the number of the first record that was not pruned."""
        ((key,),) = self.ask("SELECT min(key) FROM records WHERE key >= ? AND key < ?", *_span(agent))
        return None if key is None else find_number(key)

    def find_last_record(self, agent: int) -> tuple[int, int] | None:
        """Return the number and the checksum of the last record."""
        sql = "SELECT key, checksum FROM records WHERE key >= ? AND key < ? ORDER BY key DESC LIMIT 1"
        for key, checksum in self.ask(sql, *_span(agent)):
            return find_number(key), checksum
        return None

    def find_changes(self, agent: int, most: int) -> list[Row]:
        """Return the latest records that are not rounds, the latest first."""
        sql = f"""SELECT {ROW_COLUMNS} FROM records WHERE key >= ? AND key < ? AND kind > {HINTED} AND kind <> {KNOWN}
        ORDER BY key DESC LIMIT {int(most)}"""
        return self._check(Row, "a change of agent {agent}", self.ask(sql, *_span(agent)))

    def list_latest(self) -> list[tuple[str, int, float | None]]:
        """Return of each agent its name, the rounds it has ended, and when it ended the last one."""
        latest = f"""SELECT {{}} FROM records WHERE kind <= {HINTED}
          AND key >= agents.id << {AGENT_SHIFT} AND key < (agents.id + 1) << {AGENT_SHIFT} ORDER BY key DESC LIMIT 1"""
        t = latest.format("t")
        at = latest.format("at")
        return self.ask(f"SELECT name, coalesce(({t}), 0), ({at}) FROM agents")

    # Snapshots

    def put_snapshots(self, snapshots: Sequence[Snapshot], lasts: Sequence[int | None]) -> None:
        """Store the states of several agents, all or none, if each has seen the record with checksum ``last``."""
        keys = [snapshot.key for snapshot in snapshots]

        def put() -> None:
            self.lock_agents([key >> AGENT_SHIFT for key in keys])
            if not self.follow(keys, lasts):
                raise TakenError
            self.replace_snapshots([append_checksum(*snapshot[:-1]) for snapshot in snapshots])

        self.transact(put)

    def read_snapshots(self, agent: int, order: str = "ORDER BY key") -> list[Snapshot]:
        """Return all snapshots of an agent, by default the first one first."""
        rows = self.ask(f"SELECT * FROM snapshots WHERE key >= ? AND key < ? {order}", *_span(agent))
        return self._check(Snapshot, "a snapshot", rows)

    def read_last_snapshot(self, agent: int) -> Snapshot:
        """Return the latest snapshot of an agent."""
        for snapshot in self.read_snapshots(agent, "ORDER BY key DESC LIMIT 1"):
            return snapshot
        raise self.damage(f"agent {agent} has no snapshot")

    def read_latest(self, agents: Sequence[int]) -> Iterator[tuple[Snapshot, list[Row]]]:
        """Read the latest snapshot of each agent, by id, with the record before it, if it is there, and all after it."""
        latest = f"SELECT max(key) FROM snapshots WHERE key >= ? AND key < ? GROUP BY {_AGENT}"
        columns = ", ".join(f'records."{name}"' for name in Row._fields)
        of_agent = f"((snapshots.key >> {AGENT_SHIFT}) + 1) << {AGENT_SHIFT}"
        joined = f"ON records.key >= snapshots.key - 1 AND records.key < {of_agent}"
        sql = f"SELECT {columns} FROM snapshots JOIN records {joined}"
        for first, end in _find_runs(sorted(agents)):
            span = (first << AGENT_SHIFT, end << AGENT_SHIFT)
            rows = self.ask(f"SELECT * FROM snapshots WHERE key IN ({latest})", *span)
            snapshots = {row.key >> AGENT_SHIFT: row for row in self._check(Snapshot, "a snapshot", rows)}
            records: dict[int, list[Row]] = {}
            # Another process may store a later snapshot meanwhile; the records must follow these.
            keys = [snapshot.key for snapshot in snapshots.values()]
            condition = f"WHERE snapshots.key IN ({', '.join('?' * len(keys))}) ORDER BY records.key"
            found = self.ask(f"{sql} {condition}", *keys) if keys else []
            for row in self._check(Row, "a record of agent {agent}", found):
                records.setdefault(row.key >> AGENT_SHIFT, []).append(row)
            for agent in range(first, end):
                if agent not in snapshots:
                    raise self.damage(f"agent {agent} has no snapshot")
                yield snapshots[agent], records.get(agent, [])

    def prune(self, agent: int, n: int, keep: float | None) -> None:
        """Remove the records before the last snapshot whose number is at most ``n`` and whose age is at least ``keep``.

        That snapshot becomes the first one. Its age in seconds is the time between the snapshots since, and no reading of the
        clock now. Of a gap at most a quarter of ``keep`` counts, and of one that goes back nothing: so a clock that leaps, once
        or for good, makes history older by a quarter at most, and records from before a long pause stay for a while after it.
        """
        low, _ = _span(agent)

        def forget() -> None:
            self.lock_agents([agent])
            sql = "SELECT key, at FROM snapshots WHERE key >= ? AND key <= ? ORDER BY key DESC"
            first = _find_old(self.ask(sql, low, low | n), keep)
            if first is not None:
                for table in ("snapshots", "records"):
                    self.write(f"DELETE FROM {table} WHERE key >= ? AND key < ?", low, first)

        self.transact(forget)

    # The whole

    def find_faults(self) -> list[str]:
        """Return what the database's own check finds, and rows that belong to no agent."""
        found = self.find_own_faults()
        for table in ("records", "snapshots"):
            sql = f"SELECT count(*) FROM {table} WHERE {_AGENT} NOT IN (SELECT id FROM agents)"
            ((count,),) = self.ask(sql)
            if count:
                found.append(f"{count} rows of {table} belong to no agent")
        return found

    def back_up(self, path: str | Path) -> None:
        """Copy all agents, as they are at one moment, into a new SQLite file, while others keep writing."""
        self.require_reader()
        target = file_path(path, "path").absolute()
        if target.exists():
            raise InvalidInput(f"{target} exists already. Choose another path.")
        self._copy(target)

    def _copy(self, target: Path) -> None:
        copy = open_store(target)
        try:
            with self.one_moment():
                copy.transact(lambda: self._copy_tables(copy))
        except BaseException:
            copy.close()
            target.unlink(missing_ok=True)
            raise
        copy.close()

    def _copy_tables(self, to: "Store") -> None:
        for table in ("agents", "records", "snapshots"):
            names = schema.FORMS[table]._fields
            columns = ", ".join(f'"{name}"' for name in names)
            sql = f"SELECT {columns} FROM {table} WHERE {names[0]} > ? ORDER BY {names[0]} LIMIT {ROWS_PER_COPY}"
            last = -1
            while rows := self.ask(sql, last):
                to.insert(table, rows)
                last = rows[-1][0]
        to.insert("tokens", self.ask("SELECT * FROM tokens"))


def open_store(path: str | Path, sync: str = "always", **options: Any) -> Store:
    """Open an SQLite file, or a PostgreSQL database by its URL."""
    if is_url(path):
        from klazy.live.postgres import PostgresStore

        return PostgresStore(path, sync, **options)
    from klazy.live.sqlite import SqliteStore

    return SqliteStore(path, sync, **options)


_OPEN: WeakSet[Store] = WeakSet()


def _disown_inherited() -> None:
    """Mark all stores in a forked process: their connections are the parent's."""
    for store in list(_OPEN):
        store.inherited = True
        store.idle = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_disown_inherited)


def _split(values: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Split names or keys into parts that fit into one statement."""
    for first in range(0, len(values), AGENTS_PER_QUERY):
        yield values[first : first + AGENTS_PER_QUERY]


def _find_runs(ids: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Split sorted ids into short runs of consecutive ones, each given by its first id and the one after its last."""
    start = 0
    for i in range(1, len(ids) + 1):
        if i == len(ids) or ids[i] != ids[i - 1] + 1 or i - start == AGENTS_PER_QUERY:
            yield ids[start], ids[i - 1] + 1
            start = i


def _find_old(snapshots: Sequence[tuple[int, float]], keep: float | None) -> int | None:
    """Return the key of the first of some snapshots, the latest first, that is at least ``keep`` seconds old."""
    age = 0.0
    later = None
    for key, at in snapshots:
        if later is not None and keep is not None:
            age += min(max(0.0, later - at), LONGEST_GAP * keep)
        if keep is None or age >= keep:
            return key
        later = at
    return None
