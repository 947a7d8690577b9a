"""Many agents in a database: their rows, and the statements that read and write them.

Statements here are the same for every database; what differs is in sqlite.py and postgres.py. Rows carry checksums, because
SQLite's pages do not, and a record is taken only after the very record that its agent has seen last.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from time import time
from typing import Any, NamedTuple

from klazy.base.checks import file_path, one_of, refusal
from klazy.live.database import Database, StoreFailed, TakenError
from klazy.live.records import HINTED, ROUND, Row, checksum_row, checksum_text, is_whole, seal_row
from klazy.live.schema import AGENT_SHIFT
from klazy.live.sqlite import SYNCS, SqliteDatabase

__all__ = ["Listed", "Snapshot", "Store", "StoreFailed", "TakenError", "Token", "is_url"]

READ_AT_ONCE = 1000  # records
FIRST_READ = 16  # records of a page that are read first; then twice as many, and so on
PAGE_BYTES = 2_000_000  # of numbers; a page of rounds ends with the round that reaches it
ASKED_AT_ONCE = 500  # agents
COPIED_AT_ONCE = 10_000  # rows
LONGEST_GAP = 0.25  # of the time that history is kept

_COLUMNS = ", ".join(f'"{name}"' for name in Row._fields)  # PostgreSQL takes a bare row for a word of its own
_SCHEMES = ("postgresql://", "postgres://")


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


def is_url(path: object) -> bool:
    """Whether this is the URL of a PostgreSQL database, and no path."""
    return isinstance(path, str) and path.startswith(_SCHEMES)


def _open_database(
    path: str | Path, sync: str, read_only: bool, shared: bool, new: bool, owner: str
) -> Database:
    if not is_url(path):
        return SqliteDatabase(path, sync, read_only, shared, new, owner)
    from klazy.live.postgres import PostgresDatabase

    return PostgresDatabase(str(path), sync, read_only, shared, new, owner)


class Store:
    """An open database with agents; ``owner`` is what refusals call the one who asked.

    ``path`` is that of an SQLite file, or the URL of a PostgreSQL database. What is not there is made unless the store is
    ``read_only`` or must be there (``new=False``). A file that is not ``shared`` is for this store alone as long as it is open.
    One thread uses it at a time.
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
        one_of(sync, "sync", owner, tuple(SYNCS))
        self.database = _open_database(path, sync, read_only, shared, new, owner)
        self.path = self.database.path  # without a password
        self.read_only = read_only
        self.append = self.database.append
        self.append_plain = self.database.append_plain
        self.append_many = self.database.append_many
        self._ask = self.database.ask

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self.database.closed

    @property
    def inherited(self) -> bool:
        """Whether this process was forked from the one that opened it."""
        return self.database.inherited

    def damage(self, condition: str) -> StoreFailed:
        """The refusal of rows that cannot be trusted; they are left as they are."""
        return self.database.damage(condition)

    # Agents

    def list_agents(self) -> list[Listed]:
        """All of them, by id."""
        found = [Listed(*row) for row in self._ask("SELECT * FROM agents ORDER BY id")]
        for agent in found:
            self._check_agent(agent)
        return found

    def count_agents(self) -> int:
        """How many there are."""
        ((count,),) = self._ask("SELECT count(*) FROM agents")
        return count

    def find_agent(self, name: str) -> Listed | None:
        """The agent of this name, if there is one."""
        found = self._ask("SELECT * FROM agents WHERE name = ?", name)
        for row in found:
            agent = Listed(*row)
            self._check_agent(agent)
            return agent
        return None

    def find_agents(self, names: Sequence[str]) -> dict[str, Listed]:
        """The agents of these names that are there, by name."""
        found = {}
        for first in range(0, len(names), ASKED_AT_ONCE):
            some = names[first : first + ASKED_AT_ONCE]
            places = ", ".join("?" * len(some))
            for row in self._ask(f"SELECT * FROM agents WHERE name IN ({places})", *some):
                agent = Listed(*row)
                self._check_agent(agent)
                found[agent.name] = agent
        return found

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

        def create() -> int:
            agent = self.database.number_agents([name])
            base = agent << AGENT_SHIFT
            at = time()
            records = [seal_row(base | n, *row) for n, row in enumerate((*before, *after))]
            snapshots = [_seal(base | len(before), snapshot[0], at, *snapshot[1:])]
            if last is not None and after:
                snapshots.append(_seal(base | len(records), last[0], at, *last[1:]))
            self.database.insert("agents", [_seal(agent, name, at, configuration)])
            self.database.insert("records", records)
            self.database.insert("snapshots", snapshots)
            return agent

        try:
            return self.database.transact(create)
        except TakenError:
            return None

    def create_agents(
        self, names: Sequence[str], configuration: str, snapshot: tuple[int, float, float, str]
    ) -> None:
        """Make agents that begin alike, in one transaction; :class:`TakenError` if one of the names was taken meanwhile."""

        def create() -> None:
            first = self.database.number_agents(names)
            at = time()
            agents = []
            snapshots = []
            for agent, name in enumerate(names, first):
                agents.append(_seal(agent, name, at, configuration))
                snapshots.append(_seal(agent << AGENT_SHIFT, snapshot[0], at, *snapshot[1:]))
            self.database.insert("agents", agents)
            self.database.insert("snapshots", snapshots)

        self.database.transact(create)

    # Tokens

    def add_token(self, name: str, role: str, agent: str | None, hash: str) -> None:
        """Keep a token; :class:`TakenError` if its name is not new."""
        row = _seal(name, role, agent, hash, time())
        self.database.transact(lambda: self.database.insert("tokens", [row]))

    def list_tokens(self) -> list[Token]:
        """All of them, by name."""
        found = [Token(*row) for row in self._ask("SELECT * FROM tokens ORDER BY name")]
        for token in found:
            if not is_whole(checksum_text, token):
                raise self.damage(f"the row of token {token.name!r} as it was written")
        return found

    def remove_token(self, name: str) -> bool:
        """Forget a token; whether there was one."""

        def remove() -> bool:
            there = bool(self._ask("SELECT 1 FROM tokens WHERE name = ?", name))
            self.database.write("DELETE FROM tokens WHERE name = ?", name)
            return there

        return self.database.transact(remove)

    # Records

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

    def read_rounds(self, agent: int, last: int, before: int | None = None) -> tuple[list[Row], bool]:
        """The last rounds before round ``before``, the oldest first, and whether there may be earlier ones.

        All records of one round are on one page, which may be longer for that; one of many numbers is shorter.
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
        """The number of the first record of round ``t`` or a later one, by bisection: records are in the order of rounds."""
        while low < high:
            middle = (low + high) // 2
            rows = self._ask("SELECT t FROM records WHERE key = ?", agent << AGENT_SHIFT | middle)
            if not rows:
                raise self.damage(f"record {middle} of agent {agent}")
            if rows[0][0] < t:
                low = middle + 1
            else:
                high = middle
        return low

    def _read_back(self, agent: int, first: int, end: int) -> Iterator[Row]:
        """The records from number ``first`` to the one before ``end``, the latest first, each checked."""
        sql = f"SELECT {_COLUMNS} FROM records WHERE key >= ? AND key < ? ORDER BY key DESC"
        base = agent << AGENT_SHIFT
        count = FIRST_READ
        while end > first:
            start = max(first, end - count)
            for found in self._ask(sql, base | start, base | end):
                row = Row(*found)
                end -= 1
                if not is_whole(checksum_row, row) or row.key != base | end:
                    raise self.damage(f"record {end} of agent {agent} as it was written")
                yield row
            if end != start:
                raise self.damage(f"record {end - 1} of agent {agent}")
            count = min(2 * count, READ_AT_ONCE)

    def read_ids(self, agent: int, most: int) -> list[str]:
        """The latest ids, the oldest of them first."""
        sql = "SELECT id FROM records WHERE key >= ? AND key < ? AND id IS NOT NULL ORDER BY key DESC LIMIT ?"
        found = self._ask(sql, agent << AGENT_SHIFT, (agent + 1) << AGENT_SHIFT, most)
        return [id for (id,) in found][::-1]

    def find_checksum(self, agent: int, n: int) -> int | None:
        """The checksum of the record of this number, if it is there."""
        key = agent << AGENT_SHIFT | n
        for (checksum,) in self._ask("SELECT checksum FROM records WHERE key = ?", key):
            return checksum
        return None

    def find_checksums(self, agents_and_numbers: Sequence[tuple[int, int]]) -> dict[tuple[int, int], int]:
        """The checksums of these records, given by agent and number, as far as they are there."""
        found = {}
        keys = [agent << AGENT_SHIFT | n for agent, n in agents_and_numbers]
        for first in range(0, len(keys), ASKED_AT_ONCE):
            some = keys[first : first + ASKED_AT_ONCE]
            places = ", ".join("?" * len(some))
            for key, checksum in self._ask(
                f"SELECT key, checksum FROM records WHERE key IN ({places})", *some
            ):
                found[key >> AGENT_SHIFT, key & ((1 << AGENT_SHIFT) - 1)] = checksum
        return found

    def find_first_record(self, agent: int) -> int | None:
        """The number of the first record that was not pruned."""
        sql = "SELECT min(key) FROM records WHERE key >= ? AND key < ?"
        for (key,) in self._ask(sql, agent << AGENT_SHIFT, (agent + 1) << AGENT_SHIFT):
            if key is not None:
                return key & ((1 << AGENT_SHIFT) - 1)
        return None

    def find_last_record(self, agent: int) -> tuple[int, int] | None:
        """The number and the checksum of the last record."""
        sql = "SELECT key, checksum FROM records WHERE key >= ? AND key < ? ORDER BY key DESC LIMIT 1"
        for key, checksum in self._ask(sql, agent << AGENT_SHIFT, (agent + 1) << AGENT_SHIFT):
            return key & ((1 << AGENT_SHIFT) - 1), checksum
        return None

    def find_changes(self, agent: int, most: int) -> list[Row]:
        """The latest records that are no rounds, the latest first."""
        sql = f"""SELECT {_COLUMNS} FROM records WHERE key >= ? AND key < ? AND kind > 1 AND kind <> 5
        ORDER BY key DESC LIMIT {int(most)}"""
        rows = [Row(*row) for row in self._ask(sql, agent << AGENT_SHIFT, (agent + 1) << AGENT_SHIFT)]
        for row in rows:
            if not is_whole(checksum_row, row):
                raise self.damage(f"a change of agent {agent} as it was written")
        return rows

    def list_latest(self) -> list[tuple[str, int, float | None]]:
        """Of each agent its name, the rounds it has ended, and when it ended the last one."""
        latest = f"""SELECT {{}} FROM records WHERE kind < 2
          AND key >= agents.id << {AGENT_SHIFT} AND key < (agents.id + 1) << {AGENT_SHIFT} ORDER BY key DESC LIMIT 1"""
        t = latest.format("t")
        at = latest.format("at")
        return self._ask(f"SELECT name, coalesce(({t}), 0), ({at}) FROM agents")

    # Snapshots

    def put_snapshot(
        self, agent: int, n: int, last: int | None, t: int, hitting: float, switching: float, about: str
    ) -> None:
        """Keep the state before record ``n``, and the machine that goes on from it; ``last`` is as for records."""
        snapshot = Snapshot(agent << AGENT_SHIFT | n, t, time(), hitting, switching, about, 0)
        self.put_snapshots([snapshot], [last])

    def put_snapshots(self, snapshots: Sequence[Snapshot], lasts: Sequence[int | None]) -> None:
        """Keep the states of several agents, all or none; their checksums are computed here."""
        keys = [snapshot.key for snapshot in snapshots]

        def put() -> None:
            self.database.lock_agents([key >> AGENT_SHIFT for key in keys])
            if not self.database.follow(keys, lasts):
                raise TakenError
            self.database.put_snapshots([_seal(*snapshot[:-1]) for snapshot in snapshots])

        self.database.transact(put)

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

    def read_latest(self, agents: Sequence[int]) -> Iterator[tuple[Snapshot, list[Row]]]:
        """The latest snapshot of each of these agents, by id, with the record before it, if it is there, and all after it."""
        for first, end in _find_runs(sorted(agents)):
            low = first << AGENT_SHIFT
            high = end << AGENT_SHIFT
            latest = "SELECT max(key) FROM snapshots WHERE key >= ? AND key < ? GROUP BY key >> 40"
            rows = self._ask(f"SELECT * FROM snapshots WHERE key IN ({latest}) ORDER BY key", low, high)
            snapshots = {row[0] >> AGENT_SHIFT: self._check_snapshot(Snapshot(*row)) for row in rows}
            records: dict[int, list[Row]] = {}
            columns = ", ".join(f'records."{name}"' for name in Row._fields)
            sql = f"""SELECT {columns} FROM snapshots JOIN records
            ON records.key >= snapshots.key - 1 AND records.key < ((snapshots.key >> 40) + 1) << 40
            WHERE snapshots.key IN ({latest}) ORDER BY records.key"""
            for found in self._ask(sql, low, high):
                row = Row(*found)
                if not is_whole(checksum_row, row):
                    raise self.damage(f"a record of agent {row.key >> AGENT_SHIFT} as it was written")
                records.setdefault(row.key >> AGENT_SHIFT, []).append(row)
            for agent in range(first, end):
                if agent not in snapshots:
                    raise self.damage(f"a snapshot of agent {agent}")
                yield snapshots[agent], records.get(agent, [])

    def _check_snapshot(self, snapshot: Snapshot) -> Snapshot:
        if not is_whole(checksum_text, snapshot):
            raise self.damage("a snapshot as it was written")
        return snapshot

    def prune(self, agent: int, n: int, keep: float | None) -> None:
        """Forget the records before the last snapshot whose number is at most ``n`` and whose age is at least ``keep``.

        That snapshot becomes the first one. Its age in seconds is the time between the snapshots since, and no reading of the
        clock now. Of a gap at most a quarter of ``keep`` counts, and of one that goes back nothing: so a clock that leaps, once
        or for good, makes history older by a quarter at most, and records from before a long pause stay for a while after it.
        """
        low = agent << AGENT_SHIFT

        def forget() -> None:
            self.database.lock_agents([agent])
            sql = "SELECT key, at FROM snapshots WHERE key >= ? AND key <= ? ORDER BY key DESC"
            first = _find_old(self._ask(sql, low, low | n), keep)
            if first is not None:
                for table in ("snapshots", "records"):
                    self.database.write(f"DELETE FROM {table} WHERE key >= ? AND key < ?", low, first)

        self.database.transact(forget)

    # The whole

    def together(self) -> AbstractContextManager[None]:
        """All that is written while this lasts is one transaction, committed at the end; or, if it raises, none of it is.

        One within another is undone alone if it fails.
        """
        return self.database.together()

    def has_changed(self) -> bool:
        """Whether others may have written since this was asked last."""
        return self.database.has_changed()

    def touch(self) -> None:
        """Commit a write that changes nothing, to find out whether the database takes any."""
        self.database.touch()

    def require_place(self) -> None:
        """Refuse a file that was moved, or that another one has replaced."""
        self.database.require_place()

    def lock_agents(self, agents: Sequence[int]) -> None:
        """Within :meth:`together`: nobody else writes records of these agents until it ends."""
        self.database.lock_agents(agents)

    def one_moment(self) -> AbstractContextManager[None]:
        """While this lasts, all that is read is as it was at one moment, whatever others write."""
        return self.database.one_moment()

    def find_faults(self) -> list[str]:
        """What the database's own check finds, and rows that belong to no agent."""
        found = self.database.find_faults()
        for table in ("records", "snapshots"):
            sql = f"SELECT count(*) FROM {table} WHERE key >> 40 NOT IN (SELECT id FROM agents)"
            for (count,) in self._ask(sql):
                if count:
                    found.append(f"{count} rows of {table} belong to no agent")
        return found

    def back_up(self, path: str | Path) -> None:
        """Copy all agents, as they are at one moment, into a new SQLite file, while others go on writing."""
        self.database.require_reader()
        target = file_path(path, "path", "Agent.backup").absolute()
        if target.exists():
            raise refusal("Agent.backup", "a path where nothing is", "path", target, "choose another")
        if not self.database.back_up(target):
            self._copy_rows(target)

    def _copy_rows(self, target: Path) -> None:
        copy = Store(target, owner="Agent.backup")
        try:
            with self.one_moment():
                copy.database.transact(lambda: self._copy_tables(copy.database))
        except BaseException:
            copy.close()
            target.unlink(missing_ok=True)
            raise
        copy.close()

    def _copy_tables(self, to: Database) -> None:
        tables = {"agents": ("id", Listed), "records": ("key", Row), "snapshots": ("key", Snapshot)}
        for table, (key, form) in tables.items():
            columns = ", ".join(f'"{name}"' for name in form._fields)
            sql = f"SELECT {columns} FROM {table} WHERE {key} > ? ORDER BY {key} LIMIT {COPIED_AT_ONCE}"
            last = -1
            while rows := self._ask(sql, last):
                to.insert(table, rows)
                last = rows[-1][0]
        to.insert("tokens", self._ask("SELECT * FROM tokens"))

    def close(self) -> None:
        """Let go of the database. A forked process leaves it alone."""
        self.database.close()


def _find_runs(ids: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Stretches of ids that follow each other, none too long, as the first and the one after the last."""
    start = 0
    for i in range(1, len(ids) + 1):
        if i == len(ids) or ids[i] != ids[i - 1] + 1 or i - start == ASKED_AT_ONCE:
            yield ids[start], ids[i - 1] + 1
            start = i


def _find_old(snapshots: Sequence[tuple[int, float]], keep: float | None) -> int | None:
    """The key of the latest of some snapshots, the latest first, that is so many seconds older than the first of them."""
    age = 0.0
    later = None
    for key, at in snapshots:
        if keep is None:
            return key
        if later is not None:
            age += min(max(0.0, later - at), LONGEST_GAP * keep)
        if age >= keep:
            return key
        later = at
    return None


def _seal(*values: Any) -> tuple[Any, ...]:
    """A row of agents or snapshots with its checksum."""
    return *values, checksum_text(*values)
