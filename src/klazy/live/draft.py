"""Rounds that are worked out ahead of the store, however long that takes, and then committed all at once."""

from collections.abc import Iterator, Sequence
from typing import Any

from klazy.live.database import TakenError
from klazy.live.records import ROUND, Row
from klazy.live.schema import AGENT_SHIFT
from klazy.live.store import Snapshot, Store


class Draft(Store):
    """A store whose agents write to memory; what they read is what they wrote, and else what the store has.

    Nothing is locked meanwhile: :meth:`commit` looks whether the agents are still as they were. A ``careful`` draft also looks
    whether an id is in the store before it takes a round; without that only :meth:`commit` finds out.
    """

    def __init__(self, store: Store, careful: bool) -> None:
        self._store = store
        self._careful = careful
        self.database = store.database
        self.path = store.path
        self.read_only = store.read_only
        self._ask = store.database.ask
        self.append = self._add
        self.append_plain = self._add_plain
        self._rows: list[tuple[Any, ...]] = []
        # Of each agent: its first record, and what that follows.
        self._firsts: dict[int, tuple[int, int | None]] = {}
        self._checksums: dict[tuple[int, int], int] = {}
        self._rounds: dict[tuple[int, str], Row] = {}
        self._snapshots: dict[int, tuple[Snapshot, int | None]] = {}  # the last one of each agent

    # What agents write

    def _add(self, row: Sequence[Any], last: int | None) -> None:
        made = Row(*row)
        agent = made.key >> AGENT_SHIFT
        if made.id is not None:
            if self.has_taken(agent, made.id):
                raise TakenError
            self._rounds[agent, made.id] = made
        self._firsts.setdefault(agent, (made.key, last))
        self._checksums[agent, made.key & ((1 << AGENT_SHIFT) - 1)] = made.checksum
        self._rows.append(made)

    def _add_plain(self, row: Sequence[Any]) -> None:
        key, t, at, numbers, decision, hitting, switching, checksum, last = row
        plain = Row(
            key, ROUND, t, at, None, None, numbers, decision, hitting, switching, None, None, checksum
        )
        self._add(plain, last)

    def put_snapshots(self, snapshots: Sequence[Snapshot], lasts: Sequence[int | None]) -> None:
        for snapshot, last in zip(snapshots, lasts, strict=True):
            self._snapshots[snapshot.key >> AGENT_SHIFT] = (snapshot, last)

    def has_taken(self, agent: int, id: str) -> bool:
        """Return True if a round of this id is known."""
        if self._careful:
            return self.find_round(agent, id) is not None
        return (agent, id) in self._rounds

    # What they read

    def find_round(self, agent: int, id: str) -> Row | None:
        return self._rounds.get((agent, id)) or self._store.find_round(agent, id)

    def find_checksum(self, agent: int, n: int) -> int | None:
        found = self._checksums.get((agent, n))
        return self._store.find_checksum(agent, n) if found is None else found

    def read_records(self, agent: int, first: int) -> Iterator[Row]:
        """Nothing: agents know what they wrote, and what others write meanwhile :meth:`commit` finds."""
        return iter(())

    # The end

    def commit(self) -> bool:
        """Write all of it in one transaction; False, and nothing is written, if an agent has gone on, or an id is taken."""
        if not self._rows:
            return True
        keys = [key for key, _ in self._firsts.values()]
        lasts = [last for _, last in self._firsts.values()]

        def write() -> None:
            self.database.lock_agents(sorted(self._firsts))
            if not self.database.follow(keys, lasts):
                raise TakenError
            self.database.insert("records", self._rows)
            if self._snapshots:
                self._store.put_snapshots(*zip(*self._snapshots.values(), strict=True))

        try:
            self.database.transact(write)
        except TakenError:
            return False
        return True
