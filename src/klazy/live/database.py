"""What a store asks of its database, whichever that is: one statement, one transaction, one record."""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakSet

from klazy.base.checks import Refused, refusal
from klazy.live import schema

PATIENCE = 10.0  # seconds for which one waits for another process, or for a server that does not answer
Result = TypeVar("Result")
Values = Sequence[Any]


class TakenError(Exception):
    """A record does not follow the last one of its agent, or its key or id is there already."""


class StoreFailed(Refused):
    """The store cannot be read or written; what was given to it may be all right."""


def fail(owner: str, condition: str, name: str, value: object, remedy: str) -> StoreFailed:
    """A failure of the store, in the form of a refusal."""
    return StoreFailed(*refusal(owner, condition, name, value, remedy).args)


class Database(ABC):
    """An open database; ``owner`` is what refusals call the one who asked, ``path`` what they call the database.

    Statements have ``?`` in the place of values. What a database complains about is raised as one sentence.
    """

    path: str | Path

    def __init__(self, owner: str, read_only: bool) -> None:
        self.owner = owner
        self.read_only = read_only
        self.closed = False
        self.inherited = False
        self.idle = read_only  # whether it takes no rounds
        self.connections = 0  # that were made to a server so far
        _OPEN.add(self)

    # Statements

    @abstractmethod
    def ask(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """All rows that a statement gives."""

    @abstractmethod
    def transact(self, work: Callable[[], Result]) -> Result:
        """Do ``work`` in one transaction; after a lost connection from its beginning.

        Within :meth:`together` it is a part of that transaction, and undone alone if it fails.
        """

    @abstractmethod
    def together(self) -> AbstractContextManager[None]:
        """All that is written while this lasts is one transaction, committed at the end; or, if it raises, none of it is.

        One within another is undone alone if it fails.
        """

    @abstractmethod
    def write(self, sql: str, *values: Any) -> None:
        """Within a transaction: a statement that gives no rows."""

    @abstractmethod
    def insert(self, table: str, rows: Sequence[Values]) -> None:
        """Within a transaction: new rows, whose values are in the order of the table."""

    @abstractmethod
    def touch(self) -> None:
        """Commit a write that changes nothing, to find out whether the database takes any."""

    @abstractmethod
    def has_changed(self) -> bool:
        """Whether others may have written since this was asked last."""

    @abstractmethod
    def lock_agents(self, agents: Sequence[int]) -> None:
        """Within a transaction: nobody else writes records of these agents until it ends."""

    @abstractmethod
    def number_agents(self, names: Sequence[str]) -> int:
        """Within a transaction: the first of as many new ids as there are names; refused if agents are missing."""

    @abstractmethod
    def one_moment(self) -> AbstractContextManager[None]:
        """While this lasts, all that is read is as it was at one moment, whatever others write."""

    @abstractmethod
    def put_snapshots(self, rows: Sequence[Values]) -> None:
        """Within a transaction: snapshots, each instead of the one that may be in its place."""

    # Records

    @abstractmethod
    def follow(self, keys: Sequence[int], lasts: Sequence[int | None]) -> bool:
        """Within a transaction: whether each of these records would come after the one whose checksum is ``last``.

        Without one there must be a snapshot in its place.
        """

    @abstractmethod
    def append(self, row: Values, last: int | None) -> None:
        """Commit a record, the values of a :class:`Row`, if it is as :meth:`follow` says; else :class:`TakenError`."""

    @abstractmethod
    def append_plain(self, row: Values) -> None:
        """Commit a round without texts: key, t, time, numbers, decision, hitting, switching, checksum, last."""

    @abstractmethod
    def append_many(self, rows: Sequence[Values], lasts: Sequence[int | None]) -> None:
        """Commit a record for each of several agents, all or none."""

    # The whole

    @abstractmethod
    def find_faults(self) -> list[str]:
        """What the database's own check of everything finds."""

    @abstractmethod
    def back_up(self, target: Path) -> bool:
        """Copy the database as it is into a file, where that can be done; whether it was."""

    @abstractmethod
    def close(self) -> None:
        """Let go of it. A forked process leaves it alone."""

    # Refusals

    def damage(self, condition: str) -> StoreFailed:
        """The refusal of rows that cannot be trusted; they are left as they are."""
        remedy = "it is damaged; restore it from a backup"
        return fail(self.owner, condition, "path", self.path, remedy)

    def require_version(self, version: int) -> None:
        """Refuse tables that this klazy can neither use nor bring up to date."""
        remedy = None
        if version > schema.VERSION:
            remedy = "install a newer klazy"
        elif version < 1:
            remedy = "no klazy has made such tables; set the version to what it was, or restore a backup"
        elif version < schema.VERSION and self.read_only:
            remedy = "open the store once without read_only, which brings its tables up to date"
        if remedy is not None:
            raise refusal(self.owner, f"tables of version {schema.VERSION}", "version", version, remedy)

    def require_reader(self) -> None:
        """Refuse one that was closed or forked."""
        if self.closed:
            remedy = "it was closed; open the agent again"
            raise fail("Agent", "an open store", "path", self.path, remedy)
        if self.inherited:
            remedy = "this one was forked from that; open the agent here"
            raise fail("Agent", "the process that opened it", "path", self.path, remedy)

    def require_place(self) -> None:  # noqa: B027  a server has no file
        """Refuse a file that was moved, or that another one has replaced."""

    def require_writer(self) -> None:
        """Refuse also one that is read-only."""
        if self.read_only:
            raise fail("Agent", "a store that it may write to", "path", self.path, "it is read-only")
        self.require_reader()


_OPEN: WeakSet[Database] = WeakSet()


def _disown_inherited() -> None:
    """In a forked process: connections are the parent's, and must not be used here."""
    for database in list(_OPEN):
        database.inherited = True
        database.idle = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_disown_inherited)
