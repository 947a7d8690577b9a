"""A store of many agents: the interface of its database, and the statements that every database shares.

``open_store`` opens an SQLite file (sqlite.py) or a PostgreSQL database (postgres.py). A record is accepted only if it follows
the very record that its agent has seen last.
"""

import os
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from time import time
from typing import Any, Self, TypeVar
from weakref import WeakSet

from klazy.base.checks import InvalidInput, file_path, one_of
from klazy.live import records, schema

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
COLUMNS = {
    table: ", ".join(f'{table}."{name}"' for name in form._fields)
    for table, form in schema.FORMS.items()
}
# What a damaged row is called.
_ROW_NAMES = {
    "agents": "the row of agent {row.name!r}",
    "records": "record {row.n} of agent {row.agent}",
    "snapshots": "a snapshot",
    "tokens": "the row of token {row.name!r}",
}
_AGENT = f"key >> {records.AGENT_SHIFT}"
_WITHIN = "WHERE key >= ? AND key < ?"
_OF_AGENT = f"WHERE key >= agents.id << {records.AGENT_SHIFT} AND key < (agents.id + 1) << {records.AGENT_SHIFT}"
# With the keys of snapshots: the record before each of them, and all after it.
_FROM_SNAPSHOTS = f"""JOIN snapshots ON records.key >= snapshots.key - 1
AND records.key < ((snapshots.key >> {records.AGENT_SHIFT}) + 1) << {records.AGENT_SHIFT} WHERE snapshots.key"""

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
    return agent << records.AGENT_SHIFT, (agent + 1) << records.AGENT_SHIFT


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
        # Whether a transaction has begun.
        self._within = False
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
    def _run(self, sql: str, values: Values = ()) -> list[Any]:
        """Execute a statement on the present connection, and return all rows of it."""

    @abstractmethod
    def _list_relations(self) -> list[str]:
        """Return the names of the tables and indexes that are there."""

    @abstractmethod
    def _undo(self, statements: Sequence[str]) -> None:
        """Undo a transaction, or a part of one, that failed, unless the database has done so itself."""

    @abstractmethod
    def together(self) -> AbstractContextManager[None]:
        """Make one transaction of all writes in a ``with`` block; one within another is undone alone if it fails."""

    def transact(self, work: Callable[[], Result], row: Values | None = None) -> Result:
        """Do ``work`` in one transaction, after a lost connection from its beginning, unless its record ``row`` is there."""
        with self.together():
            return work()

    @abstractmethod
    def one_moment(self) -> AbstractContextManager[None]:
        """Read everything in a ``with`` block as it was at one moment, while others write."""

    @abstractmethod
    def insert(self, table: str, rows: Sequence[Values]) -> None:
        """Insert rows whose values are in the order of the table, within a transaction."""

    def lock_agents(self, agents: Sequence[int]) -> None:  # noqa: B027  a transaction in SQLite locks the file
        """Keep others from writing records of these agents until the transaction ends."""

    @abstractmethod
    def append(self, row: Values) -> None:
        """Commit a record if it follows the last one of its agent; raise :class:`TakenError` otherwise.

        ``row`` holds the values of a :class:`Row`, and then the checksum of the record before it: None if there is none, but a
        snapshot in the place of the record.
        """

    @abstractmethod
    def append_many(self, rows: Sequence[Values]) -> None:
        """Insert records of several agents within a transaction, each if it follows the last one of its agent.

        A record may follow another one of these. :class:`TakenError` means that the transaction must be undone.
        """

    def has_changed(self) -> bool:
        """Return True if others may have written since the last call."""
        return True

    def find_own_faults(self) -> list[str]:
        """Return what the database's own check finds."""
        return []

    @abstractmethod
    def close(self) -> None:
        """Close the database. A forked process leaves it alone."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[None]:
        """Make a transaction of a ``with`` block, or a part of one, which is undone alone if it fails."""
        is_part = self._within
        self._run("SAVEPOINT part" if is_part else begin)
        self._within = True
        try:
            yield
            self._run("RELEASE part" if is_part else "COMMIT")
        except BaseException:
            self._undo(("ROLLBACK TO part", "RELEASE part") if is_part else ("ROLLBACK",))
            raise
        finally:
            self._within = is_part

    # Errors

    def damage(self, what: str) -> StoreFailed:
        """Make the error of rows that cannot be trusted; they are left as they are."""
        return StoreFailed(f"{self.path} is damaged: {what}. Restore it from a backup.")

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

    def _read(self, table: str, condition: str, *values: Any) -> Iterator[Any]:
        """Read rows of a table as objects of its class, if their checksums are right."""
        form = schema.FORMS[table]
        for found in self.ask(f"SELECT {COLUMNS[table]} FROM {table} {condition}", *values):
            row = form(*found)
            if not records.is_intact(row):
                raise self.damage(f"{_ROW_NAMES[table].format(row=row)} was changed")
            yield row

    # Tables

    def _create_tables(self, statements: Sequence[str]) -> None:
        """Create the tables of a new store within a transaction, unless another process has done so meanwhile."""
        if not self._list_relations():
            for statement in statements:
                self._run(statement)

    def _require_tables(self) -> None:
        """Raise an error unless the tables of this version of klazy are there."""
        found = self._list_relations()
        if not found:
            raise InvalidInput(f"{self.path} has no agents yet.")
        missing = [name for name in schema.RELATIONS if name not in found]
        if missing == list(schema.RELATIONS):
            raise InvalidInput(
                f"{self.path} is not a database of klazy, or it is damaged. Choose another file."
            )
        if missing:
            raise self.damage(f"the table {missing[0]!r} is missing")
        versions = self._run("SELECT version FROM about")
        if versions and tuple(versions[0]) == (schema.VERSION,):
            return
        what = f"version {versions[0][0]}" if versions else "no version"
        raise InvalidInput(
            f"{self.path} has tables of {what}; this klazy uses version {schema.VERSION}. "
            "Open it with the klazy that made it."
        )

    def touch(self) -> None:
        """Commit a write that changes nothing, to find out whether the database accepts any."""

        def write() -> None:
            # SQLite writes no page for a single update that changes nothing.
            self._run("UPDATE about SET agents = agents + 1")
            self._run("UPDATE about SET agents = agents - 1")

        self.transact(write)

    def number_agents(self, names: Sequence[str]) -> int:
        """Return the first of as many new ids as there are names, within a transaction.

        Agents are counted in the table itself, because a damaged index may hide one.
        """
        # Other processes wait here until this transaction ends.
        sql = "UPDATE about SET agents = agents + ? RETURNING agents"
        ((given,),) = self._run(sql, [len(names)])
        before = given - len(names)
        lost = self._find_lost(before)
        if lost:
            raise self.damage(lost[0])
        return before + 1

    def _count_given(self) -> int:
        """Return how many agents were ever made."""
        ((given,),) = self.ask("SELECT agents FROM about")
        return given

    def _find_lost(self, given: int) -> list[str]:
        """Return what is wrong if fewer agents are there than were ever made."""
        ((count,),) = self.ask("SELECT count(checksum) FROM agents")
        return [] if count == given else [f"{count} of its {given} agents are left"]

    # Agents

    def list_agents(self) -> list[records.AgentRow]:
        """Return all agents, by id."""
        return list(self._read("agents", "ORDER BY id"))

    def count_agents(self) -> int:
        """Return the number of agents."""
        ((count,),) = self.ask("SELECT count(*) FROM agents")
        return count

    def find_agent(self, name: str) -> records.AgentRow | None:
        """Return the agent of this name, if there is one."""
        return self.find_agents([name]).get(name)

    def find_agents(self, names: Sequence[str]) -> dict[str, records.AgentRow]:
        """Return those agents of these names that exist, by name."""
        found = {}
        for some in _split(names):
            for agent in self._read("agents", f"WHERE name {_among(some)}", *some):
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
            known = []
            snapshots = []
            for agent, name in enumerate(names, first):
                key, _ = _span(agent)
                agents.append(records.append_checksum(agent, name, at, configuration))
                for id in ids:
                    answer = (id, None, b"", decision, 0.0, 0.0, None, None)
                    row = (key, records.KNOWN, snapshot[0], None, *answer)
                    known.append((*row, records.checksum_row(row)))
                    key += 1
                snapshots.append(records.append_checksum(key, snapshot[0], at, *snapshot[1:]))
            self.insert("agents", agents)
            self.insert("records", known)
            self.insert("snapshots", snapshots)

        self.transact(create)

    # Tokens

    def add_token(self, name: str, role: str, agent: str | None, hash: str) -> None:
        """Store a token; raise :class:`TakenError` if its name is in use."""
        row = records.append_checksum(name, role, agent, hash, time())
        self.transact(lambda: self.insert("tokens", [row]))

    def list_tokens(self) -> list[records.Token]:
        """Return all tokens, by name."""
        return list(self._read("tokens", "ORDER BY name"))

    def remove_token(self, name: str) -> bool:
        """Remove a token; return True if there was one."""

        def remove() -> bool:
            exists = bool(self.ask("SELECT 1 FROM tokens WHERE name = ?", name))
            self.ask("DELETE FROM tokens WHERE name = ?", name)
            return exists

        return self.transact(remove)

    # Records

    def require_last(self, lasts: Mapping[int, int | None]) -> None:
        """Lock agents, and raise an error unless the next record of each has this key, and follows this checksum."""
        self.lock_agents([key >> records.AGENT_SHIFT for key in lasts])
        later = {key - 1: last for key, last in lasts.items() if last is not None}
        first = [key for key, last in lasts.items() if last is None]
        begun = self.find_checksums(first, "snapshots")
        if self.find_checksums(list(later)) != later or len(begun) < len(first):
            raise TakenError

    def read_records(
        self, agent: int, first: int, end: int | None = None
    ) -> Iterator[records.Row]:
        """Read the records from number ``first`` on, or those before number ``end``; all of them must be there."""
        key, stop = _span(agent)
        if end is not None:
            stop = key | end
        key |= first
        start = None
        while key != start and key < stop:
            start = key
            for row in self._read(
                "records", f"{_WITHIN} ORDER BY key LIMIT {RECORDS_PER_READ}", key, stop
            ):
                if row.key != key:
                    raise self.damage(
                        f"record {records.find_number(key)} of agent {agent} is missing"
                    )
                yield row
                key += 1
        if end is not None and key < stop:
            raise self.damage(f"record {records.find_number(key)} of agent {agent} is missing")

    def find_round(self, agent: int, id: str) -> records.Row | None:
        """Return the round of this id, if there was one."""
        for row in self._read("records", f"WHERE {_AGENT} = ? AND id = ?", agent, id):
            if row.agent != agent or row.id != id:
                raise self.damage(f"the record of id {id!r} was changed")
            return row
        return None

    def read_rounds(
        self, agent: int, last: int, before: int | None = None
    ) -> tuple[list[records.Row], bool]:
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
                numbers = range(first, end)
                end = first + bisect_left(numbers, before, key=lambda n: self._read_t(agent, n))
            rounds: list[records.Row] = []
            size = 0
            for row in self._read_back(agent, first, end):
                is_full = len(rounds) >= last or size >= PAGE_BYTES
                if is_full and row.t != rounds[-1].t:
                    return rounds[::-1], True
                if row.kind in (records.ROUND, records.HINTED):
                    rounds.append(row)
                    size += len(row.numbers) + len(row.decision)
            return rounds[::-1], False

    def _read_t(self, agent: int, n: int) -> int:
        """Return the round of a record."""
        for (t,) in self.ask(
            "SELECT t FROM records WHERE key = ?", agent << records.AGENT_SHIFT | n
        ):
            return t
        raise self.damage(f"record {n} of agent {agent} is missing")

    def _read_back(self, agent: int, first: int, end: int) -> Iterator[records.Row]:
        """Read the records from number ``first`` to the one before ``end``, the latest first."""
        count = FIRST_READ
        while end > first:
            start = max(first, end - count)
            yield from reversed(list(self.read_records(agent, start, end)))
            end = start
            count = min(2 * count, RECORDS_PER_READ)

    def read_ids(self, agent: int, most: int) -> list[str]:
        """Return the latest ids, the oldest of them first."""
        sql = f"SELECT id FROM records {_WITHIN} AND id IS NOT NULL ORDER BY key DESC LIMIT ?"
        return [id for (id,) in self.ask(sql, *_span(agent), most)][::-1]

    def find_checksums(self, keys: Sequence[int], table: str = "records") -> dict[int, int]:
        """Return the checksums of those of these records, or snapshots, that are there, by key."""
        found: dict[int, int] = {}
        for some in _split(keys):
            found.update(
                self.ask(f"SELECT key, checksum FROM {table} WHERE key {_among(some)}", *some)
            )
        return found

    def find_first_record(self, agent: int) -> int | None:
        """Return the number of the first record that was not pruned."""
        ((key,),) = self.ask(f"SELECT min(key) FROM records {_WITHIN}", *_span(agent))
        return None if key is None else records.find_number(key)

    def find_last_record(self, agent: int) -> tuple[int, int] | None:
        """Return the number and the checksum of the last record."""
        sql = f"SELECT key, checksum FROM records {_WITHIN} ORDER BY key DESC LIMIT 1"
        for key, checksum in self.ask(sql, *_span(agent)):
            return records.find_number(key), checksum
        return None

    def still_has(self, agent: int, seen: tuple[int, int]) -> bool:
        """Return True if a record is there with the number and the checksum that were ``seen``; a backup may lack it."""
        key = agent << records.AGENT_SHIFT | seen[0]
        return self.find_checksums([key]).get(key) == seen[1]

    def find_changes(self, agent: int, most: int) -> list[records.Row]:
        """Return the latest records that are not rounds, the latest first."""
        condition = f"{_WITHIN} AND kind > {records.HINTED} AND kind <> {records.KNOWN} ORDER BY key DESC LIMIT {int(most)}"
        return list(self._read("records", condition, *_span(agent)))

    def list_latest(self) -> list[tuple[str, int, float | None]]:
        """Return of each agent its name, the rounds it has ended, and when it ended the last one."""
        latest = f"SELECT {{}} FROM records {_OF_AGENT} AND kind <= {records.HINTED} ORDER BY key DESC LIMIT 1"
        t = latest.format("t")
        at = latest.format("at")
        return self.ask(f"SELECT name, coalesce(({t}), 0), ({at}) FROM agents")

    # Snapshots

    def put_snapshots(
        self, snapshots: Sequence[records.Snapshot], lasts: Sequence[int | None]
    ) -> None:
        """Store the states of several agents, all or none, if each has seen the record with checksum ``last``."""
        keys = [snapshot.key for snapshot in snapshots]

        def put() -> None:
            self.require_last(dict(zip(keys, lasts, strict=True)))
            for some in _split(keys):
                self.ask(f"DELETE FROM snapshots WHERE key {_among(some)}", *some)
            self.insert(
                "snapshots", [records.append_checksum(*snapshot[:-1]) for snapshot in snapshots]
            )

        self.transact(put)

    def read_snapshots(self, agent: int, order: str = "ORDER BY key") -> list[records.Snapshot]:
        """Return all snapshots of an agent, by default the first one first."""
        return list(self._read("snapshots", f"{_WITHIN} {order}", *_span(agent)))

    def read_last_snapshot(self, agent: int) -> records.Snapshot:
        """Return the latest snapshot of an agent."""
        for snapshot in self.read_snapshots(agent, "ORDER BY key DESC LIMIT 1"):
            return snapshot
        raise self.damage(f"agent {agent} has no snapshot")

    def read_latest(
        self, agents: Sequence[int]
    ) -> Iterator[tuple[records.Snapshot, list[records.Row]]]:
        """Read the latest snapshot of each agent, with the record before it, if it is there, and all after it."""
        for some in _split(agents):
            latest = f"SELECT (SELECT max(key) FROM snapshots {_OF_AGENT}) FROM agents WHERE id {_among(some)}"
            found = self._read("snapshots", f"WHERE key IN ({latest})", *some)
            snapshots = {snapshot.agent: snapshot for snapshot in found}
            for agent in some:
                if agent not in snapshots:
                    raise self.damage(f"agent {agent} has no snapshot")
            # Another process may store a later snapshot meanwhile; the records must follow these.
            keys = [snapshot.key for snapshot in snapshots.values()]
            later: dict[int, list[records.Row]] = {agent: [] for agent in some}
            for row in self._read(
                "records", f"{_FROM_SNAPSHOTS} {_among(keys)} ORDER BY records.key", *keys
            ):
                later[row.agent].append(row)
            for agent in some:
                yield snapshots[agent], later[agent]

    def prune(self, agent: int, n: int, keep: float | None) -> None:
        """Remove the records before the last snapshot whose number is at most ``n`` and whose age is at least ``keep``.

        That snapshot becomes the first one. Its age in seconds is the time between the snapshots since, and no reading of the
        clock now. Of a gap at most a quarter of ``keep`` counts, and of one that goes back nothing: so a clock that leaps, once
        or for good, makes history older by a quarter at most, and records from before a long pause stay for a while after it.
        """
        low, _ = _span(agent)

        def forget() -> None:
            self.lock_agents([agent])
            sql = f"SELECT key, at FROM snapshots {_WITHIN} ORDER BY key DESC"
            first = _find_old(self.ask(sql, low, (low | n) + 1), keep)
            if first is not None:
                for table in ("snapshots", "records"):
                    self.ask(f"DELETE FROM {table} {_WITHIN}", low, first)

        self.transact(forget)

    # The whole

    def find_faults(self) -> list[str]:
        """Return what the database's own check finds, and rows that belong to no agent."""
        found = self.find_own_faults()
        found += self._find_lost(self._count_given())
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
        try:
            with open_store(target) as copy, self.one_moment():
                copy.transact(lambda: self._copy_tables(copy))
        except BaseException:
            target.unlink(missing_ok=True)
            raise

    def _copy_tables(self, to: "Store") -> None:
        for table in ("agents", "records", "snapshots"):
            key = schema.FORMS[table]._fields[0]
            sql = f"SELECT {COLUMNS[table]} FROM {table} WHERE {key} > ? ORDER BY {key} LIMIT {ROWS_PER_COPY}"
            last = -1
            while rows := self.ask(sql, last):
                to.insert(table, rows)
                last = rows[-1][0]
        to.insert("tokens", self.ask("SELECT * FROM tokens"))
        to._run("UPDATE about SET agents = ?", [self._count_given()])


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


def _among(values: Sequence[Any]) -> str:
    """Write the condition that a column has one of these values."""
    return f"IN ({', '.join('?' * len(values))})"


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
