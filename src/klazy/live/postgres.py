"""A store in a schema of a PostgreSQL database.

A record is one statement, which locks the agent's row and inserts the record if it follows the last one. After a lost
connection klazy connects again and repeats the transaction; a record that is there already, equal to the last bit and to the
moment of its making, is the one that was sent.

Behind a pooler such as PgBouncer two transactions may run in two sessions of the server, and a session is shared with others.
There klazy sets its settings and sends its statements anew in every transaction, and leaves nothing behind.
"""

import csv
import getpass
import io
import os
import ssl
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import RLock
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from klazy.base.checks import InvalidInput
from klazy.base.install import make_missing
from klazy.live import schema, store
from klazy.live.records import AGENT_SHIFT, Row
from klazy.live.schema import SCHEMA
from klazy.live.store import COLUMNS, Result, Store, StoreFailed, TakenError, Values

try:
    from pg8000.exceptions import DatabaseError, InterfaceError
    from pg8000.native import Connection, PreparedStatement
except ImportError as missing:
    raise make_missing("A postgresql:// store", "pg8000", "postgres") from missing

# The values of PostgreSQL's setting synchronous_commit.
SYNCHRONOUS_COMMIT = {"always": "on", "batch": "off"}
# Seconds to wait for the answer to a statement.
ANSWER = 300.0
# Seconds between attempts to connect again.
PAUSE = 0.05
# A statement must see what others have committed before it.
ISOLATION = "read committed"
# The values of a row, and the checksum of the record before it.
_PLACES = ", ".join(f":p{place}" for place in range(len(Row._fields)))
_LAST = f"CAST(:p{len(Row._fields)} AS bigint)"
_APPEND = f"""INSERT INTO records SELECT (CAST(ROW({_PLACES}) AS records)).*
WHERE EXISTS (SELECT 1 FROM agents WHERE id = :p0 >> {AGENT_SHIFT} FOR NO KEY UPDATE)
AND CASE WHEN {_LAST} IS NULL THEN EXISTS (SELECT 1 FROM snapshots WHERE key = :p0)
ELSE EXISTS (SELECT 1 FROM records WHERE key = :p0 - 1 AND checksum = {_LAST}) END
ON CONFLICT DO NOTHING RETURNING key"""
_DOUBT = " It is not known whether the round was written; repeat it with the same id."
# The errors of pg8000 if the server does not answer.
_LOST = (InterfaceError, OSError, struct.error)
# By SQLSTATE: the server stops, crashes, starts, or has no room for one more connection.
_GONE = ("57P01", "57P02", "57P03", "53300", "08000", "08003", "08006")
# The server has forgotten a prepared statement, or a table changed under it; or the search path is gone, as after DISCARD ALL.
_RESET = ("26000", "0A000", "42P01", "42883")
_UNIQUE_VIOLATION = "23505"
# lock_not_available and deadlock_detected
_WAITED = ("55P03", "40P01")
# There is no such database or user, or the password is wrong.
_UNTRUSTED = ("3D000", "28000", "28P01")
# The TLS of a connection by sslmode, as in libpq: none, if the server has it, always.
_TLS = {"disable": False, "prefer": None, "require": True}
# The lock of processes that create or change tables.
_CREATE_LOCK = 0x6B6C617A


class _LostError(Exception):
    """The connection is gone, and with it the answer."""


class PostgresStore(Store):
    """The schema ``klazy`` of a PostgreSQL database."""

    def _open(self, shared: bool, may_create: bool) -> None:
        self._options, self.path = _read_url(str(self.path))
        self._lock = RLock()
        self._prepared: dict[str, PreparedStatement] = {}
        self._connection: Connection | None = None
        # Whether this connection has done some work already.
        self._proven = False
        # Whether a pooler lends its session to others between transactions.
        self._pooled = False
        if not shared:
            raise InvalidInput(
                f"shared=False needs an SQLite file; {self.path} serves several processes. Leave shared out."
            )
        try:
            self._repeat(lambda: self._check_tables(may_create))
        except BaseException:
            self._drop()
            raise

    # The connection

    def _connect(self) -> None:
        if self._connection is not None:
            return
        try:
            connection = Connection(
                **self._options, timeout=store.PATIENCE, application_name="klazy"
            )
        except DatabaseError as failed:
            if _read_error(failed, "C") in _GONE:
                raise _LostError(_read_error(failed, "M")) from None
            raise self._explain(failed) from None
        except _LOST as failed:
            # The traceback may show the options.
            raise _LostError(str(failed.__cause__ or failed)) from None
        # An answer may take longer than a connection.
        line: Any = connection._usock
        line.settimeout(ANSWER)
        self._connection = connection
        self.connections += 1
        self._prepared = {}
        self._proven = False
        try:
            ((process,),) = self._run("SELECT pg_backend_pid()")
            # A server announces the number of its process, a pooler one of its own.
            announced = connection._backend_key_data or b""
            self._pooled = announced[:4] != struct.pack("!i", process)
            if not self._pooled:
                self._run(self._write_settings("SET"))
        except DatabaseError:
            self._drop()
            raise

    def _write_settings(self, how: str) -> str:
        """Write klazy's settings, for a session (SET) or a transaction (SET LOCAL)."""
        settings = {
            "search_path": SCHEMA,
            "synchronous_commit": SYNCHRONOUS_COMMIT[self.sync],
            "lock_timeout": f"'{round(1e3 * store.PATIENCE)}ms'",
            "client_min_messages": "warning",
        }
        if how == "SET":
            settings["default_transaction_isolation"] = f"'{ISOLATION}'"
        if how == "SET" and self.read_only:
            settings["default_transaction_read_only"] = "on"
        return "; ".join(f"{how} {name} = {value}" for name, value in settings.items())

    def _write_begin(self, isolation: str = ISOLATION) -> str:
        """Write the statements that begin a transaction."""
        begin = f"BEGIN ISOLATION LEVEL {isolation}"
        if self.read_only:
            begin += " READ ONLY"
        if self._pooled:
            begin += f"; {self._write_settings('SET LOCAL')}"
        return begin

    def _drop(self) -> None:
        """Close the connection, in any state."""
        connection = self._connection
        self._connection = None
        self._prepared = {}
        if connection is not None:
            with suppress(InterfaceError, OSError, AttributeError):
                connection.close()

    def _run(self, sql: str, values: Values = (), stream: Any = None) -> list[Any]:
        """Run one statement on the present connection; without values it is sent as it is."""
        connection = self._connection
        if connection is None:
            raise _LostError("the connection is gone")
        try:
            if stream is not None:
                return connection.run(sql, stream=stream) or []
            if not values:
                return connection.run(sql) or []
            numbered = {f"p{i}": value for i, value in enumerate(values)}
            if self._pooled:
                return connection.run(_number_places(sql), **numbered) or []
            statement = self._prepared.get(sql)
            if statement is None:
                statement = self._prepared[sql] = connection.prepare(_number_places(sql))
            return statement.run(**numbered) or []
        except DatabaseError as failed:
            code = _read_error(failed, "C")
            if code in _GONE or (code in _RESET and self._proven):
                self._drop()
                raise _LostError(_read_error(failed, "M")) from failed
            raise
        except _LOST as failed:
            self._drop()
            raise _LostError(str(failed)) from failed
        except BaseException:
            # After an interrupt, the rest of an answer would be read as the next one.
            self._drop()
            raise

    def _repeat(self, work: Callable[[], Result], row: Values | None = None) -> Result:
        """Do ``work``, again after a lost connection while patience lasts, unless its record ``row`` is there by then.

        A part of a transaction is not repeated: what came before it is lost with the connection.
        """
        enclosed = self._within
        is_repeated = False
        until = time.monotonic() + store.PATIENCE
        while True:
            try:
                if not enclosed:
                    self._connect()
                done: Any = None
                if not is_repeated or row is None or not self._is_there(row):
                    done = work()
                self._proven = True
                return done
            except _LostError as lost:
                if enclosed:
                    raise
                if time.monotonic() > until:
                    doubt = "" if row is None else _DOUBT
                    raise StoreFailed(
                        f"{self.path} has not answered for {store.PATIENCE:g} seconds ({lost}).{doubt}"
                    ) from None
            except DatabaseError as failed:
                raise self._explain(failed) from failed
            is_repeated = True
            time.sleep(PAUSE)

    def _explain(self, failed: DatabaseError) -> Exception:
        """Turn an error of PostgreSQL into one sentence, or into :class:`TakenError`."""
        code = _read_error(failed, "C")
        message = _read_error(failed, "M")
        if code == _UNIQUE_VIOLATION:
            return TakenError()
        if code in _WAITED:
            return StoreFailed(
                f"{self.path} is busy: another process has used the agent for {store.PATIENCE:g} seconds."
            )
        if code in _UNTRUSTED:
            return StoreFailed(
                f"{self.path} does not let klazy in: {message}. Check the URL and PGPASSWORD."
            )
        return StoreFailed(f"{self.path} cannot be read or written: {message}.")

    # Tables

    def _check_tables(self, may_create: bool) -> None:
        """Create the tables of a new store, and reject others."""
        with self._transaction(self._write_begin()):
            if may_create and not self._list_relations():
                self._run("SELECT pg_advisory_xact_lock(?)", [_CREATE_LOCK])
                self._create_tables(schema.POSTGRES_STATEMENTS)
            self._require_tables()

    def _list_relations(self) -> list[str]:
        # Tables that this user may not read count, too.
        sql = "SELECT relname FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace WHERE nspname = ?"
        return [name for (name,) in self._run(sql, [SCHEMA])]

    # Statements

    def ask(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        self.require_reader()
        with self._lock:
            if self._within:
                return [tuple(row) for row in self._run(sql, values)]
            return [tuple(row) for row in self._repeat(lambda: self._run_alone(sql, values))]

    def _run_alone(self, sql: str, values: Values) -> list[Any]:
        """Run a statement as a transaction of its own."""
        if self._within or not self._pooled:
            return self._run(sql, values)
        with self._transaction(self._write_begin()):
            return self._run(sql, values)

    def transact(self, work: Callable[[], Result], row: Values | None = None) -> Result:
        self.require_writer()

        def attempt() -> Result:
            with self._transaction(self._write_begin()):
                return work()

        with self._lock:
            return self._repeat(attempt, row)

    @contextmanager
    def together(self) -> Iterator[None]:
        self.require_writer()
        with self._once("It is not known whether this was written; repeat it."):
            yield

    @contextmanager
    def one_moment(self) -> Iterator[None]:
        with self._once("Try again.", "repeatable read"):
            yield

    @contextmanager
    def _once(self, remedy: str, isolation: str = ISOLATION) -> Iterator[None]:
        """Make a transaction of a ``with`` block, which cannot be repeated from here."""
        with self._lock:
            try:
                if not self._within:
                    self._reach()
                with self._transaction(self._write_begin(isolation)):
                    yield
            except _LostError as lost:
                raise StoreFailed(
                    f"The connection to {self.path} was lost ({lost}). {remedy}"
                ) from None
            except DatabaseError as failed:
                raise self._explain(failed) from failed

    def _reach(self) -> None:
        """Connect again if need be, for a transaction that cannot be repeated from here."""
        ((path,),) = self.ask("SELECT current_setting('search_path')")
        # After a reset of the session the path is gone.
        if path != SCHEMA:
            self._drop()
            self.ask("SELECT 1")

    def _undo(self, statements: Sequence[str]) -> None:
        # A lost connection has undone it, and so does closing this one.
        if self._connection is None:
            return
        try:
            for statement in statements:
                self._run(statement)
        except (_LostError, DatabaseError):
            self._drop()

    def insert(self, table: str, rows: Sequence[Values]) -> None:
        if rows:
            self._run(f"COPY {table} FROM STDIN WITH (FORMAT csv)", stream=_format_rows(rows))

    def lock_agents(self, agents: Sequence[int]) -> None:
        sql = "SELECT count(*) FROM (SELECT 1 FROM agents WHERE id = ANY(?::bigint[]) ORDER BY id FOR NO KEY UPDATE) AS locked"
        self._run(sql, [list(agents)])

    # Records

    def append(self, row: Values) -> None:
        def insert() -> None:
            if not self._run_alone(_APPEND, row):
                raise TakenError

        if self.idle:
            self.require_writer()
        with self._lock:
            self._repeat(insert, row)

    def append_many(self, rows: Sequence[Values]) -> None:
        keys = {row[0] for row in rows}
        firsts = {row[0]: row[-1] for row in rows if row[0] - 1 not in keys}
        self.require_last(firsts)
        self.insert("records", [row[:-1] for row in rows])

    def _is_there(self, row: Values) -> bool:
        """Return True if this very record was committed before its answer was lost."""
        found = self._run_alone(
            f"SELECT {COLUMNS['records']} FROM records WHERE key = ?", [row[0]]
        )
        return [tuple(each) for each in found] == [tuple(row[:-1])]

    def close(self) -> None:
        if not self.closed and not self.inherited:
            self.closed = True
            self.idle = True
            self._drop()


def _read_error(failed: DatabaseError, field: str) -> str:
    """Return a field of a server's error: C is its SQLSTATE, M its message."""
    fields = failed.args[0] if failed.args else None
    if isinstance(fields, dict):
        return str(fields.get(field, ""))
    return str(failed) if field == "M" else ""


def _number_places(sql: str) -> str:
    """Replace the question marks of a statement by ``:p0``, ``:p1`` and so on."""
    first, *rest = sql.split("?")
    return first + "".join(f":p{i}{part}" for i, part in enumerate(rest))


def _format_rows(rows: Sequence[Values]) -> io.BytesIO:
    """Write rows as CSV, in which NULL is an empty field; no text in a store is empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for row in rows:
        writer.writerow(
            [f"\\x{value.hex()}" if isinstance(value, bytes) else value for value in row]
        )
    return io.BytesIO(text.getvalue().encode())


def _read_url(url: str) -> tuple[dict[str, Any], str]:
    """Return the options of a connection, and the URL without password and options."""
    try:
        parts = urlsplit(url)
        given = dict(parse_qsl(parts.query, strict_parsing=bool(parts.query)))
        port = parts.port or int(given.pop("port", 5432))
        user = unquote(parts.username or given.pop("user", "")) or getpass.getuser()
        password = unquote(parts.password or given.pop("password", "")) or os.environ.get(
            "PGPASSWORD"
        )
    except ValueError:
        # The message may show a part of the password.
        raise InvalidInput(
            "The URL of the database cannot be read. "
            "Use postgresql://user@host:5432/database, with %-escapes for special characters in a password."
        ) from None
    name = unquote(parts.path.strip("/")) or user
    host = parts.hostname or given.pop("host", "localhost")
    options = {"user": user, "password": password, "database": name, "host": host, "port": port}
    options["ssl_context"] = _choose_ssl(given)
    if host.startswith("/"):
        options |= {"unix_sock": f"{host}/.s.PGSQL.{port}", "ssl_context": False}
    if given:
        raise InvalidInput(
            f"The URL has an unknown option {sorted(given)[0]!r}. "
            "Use host, port, user, password, sslmode or sslrootcert."
        )
    return options, f"postgresql://{user}@{host}:{port}/{name}"


def _choose_ssl(given: dict[str, str]) -> Any:
    """Return the TLS of a connection: by default if the server has it; sslmode and sslrootcert are as in libpq."""
    mode = given.pop("sslmode", "prefer")
    certificate = given.pop("sslrootcert", None)
    if mode in _TLS:
        return _TLS[mode]
    if mode == "verify-full":
        return ssl.create_default_context(cafile=certificate)
    raise InvalidInput(f"sslmode must be disable, prefer, require or verify-full, got {mode!r}.")
