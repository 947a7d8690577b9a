"""The tables and views of a store, for SQLite and for PostgreSQL.

Only klazy writes to the tables, whose columns are those of the classes in records.py. Views are for people: names instead of
keys, times instead of seconds, lists of numbers instead of bytes. Whoever changes a table raises ``VERSION``.
"""

from collections.abc import Callable
from typing import Any, get_args, get_type_hints

from klazy.live.records import AGENT_SHIFT, AgentRow, Row, Snapshot, Token

VERSION = 1
FORMS: dict[str, Any] = {
    "agents": AgentRow,
    "records": Row,
    "snapshots": Snapshot,
    "tokens": Token,
}

_UNIQUE = {("agents", "name"), ("tokens", "hash")}
_ID_INDEX = "records_by_id"
_SQLITE_TYPES = {int: "INTEGER", float: "REAL", str: "TEXT", bytes: "BLOB"}
_POSTGRES_TYPES = {int: "bigint", float: "double precision", str: "text", bytes: "bytea"}
# What a store must have; its views are for people.
RELATIONS = (*FORMS, "about", _ID_INDEX)


def _make_tables(types: dict[type, str]) -> list[str]:
    """Write the statements that make the tables; the first column of each is its key."""
    statements = []
    for table, form in FORMS.items():
        columns = []
        for name, hint in get_type_hints(form).items():
            kind, *optional = get_args(hint) or (hint,)
            column = f'"{name}" {types[kind]}'
            if not optional:
                column += " NOT NULL"
            if not columns:
                column += " PRIMARY KEY"
            if (table, name) in _UNIQUE:
                column += " UNIQUE"
            columns.append(column)
        statements.append(f"CREATE TABLE {table} ({', '.join(columns)})")
    # Rounds that many agents end at once often share an id; the id comes first, so that their entries share pages.
    index = f"CREATE UNIQUE INDEX {_ID_INDEX} ON records (id, (key >> {AGENT_SHIFT})) WHERE id IS NOT NULL"
    # The table counts all agents ever made, so that a lost one is not mistaken for a new one.
    about = "CREATE TABLE about (version bigint NOT NULL, agents bigint NOT NULL)"
    return [*statements, index, about, f"INSERT INTO about VALUES ({VERSION}, 0)"]


def _make_views(read_time: Callable[[str], str], read_numbers: Callable[[str], str]) -> list[str]:
    """Write the statements that make the views, with SQL that reads a time and numbers."""
    gradient = read_numbers("substr(records.numbers, 1, length(records.decision))")
    next_hint = read_numbers("substr(records.numbers, length(records.decision) + 1)")
    joined = f"FROM records JOIN agents ON agents.id = records.key >> {AGENT_SHIFT}"
    rounds = f"""CREATE VIEW rounds AS
SELECT agents.name AS agent, records.t AS t, {read_time("records.at")} AS time, records.id AS id,
  records."row" AS "row", {gradient} AS gradient, {next_hint} AS next_hint, {read_numbers("records.decision")} AS decision,
  records.hitting AS hitting, records.switching AS switching, records.guards AS guards
{joined} WHERE records.kind IN (0, 1)"""
    changes = f"""CREATE VIEW changes AS
SELECT agents.name AS agent, records.t AS t, {read_time("records.at")} AS time,
  CASE records.kind WHEN 2 THEN 'freeze' WHEN 3 THEN 'resume' WHEN 4 THEN 'guards'
    WHEN 5 THEN 'known id' WHEN 8 THEN 'delete' ELSE 'restore' END AS change,
  coalesce(records.note, records.id) AS note
{joined} WHERE records.kind > 1
UNION ALL SELECT name, 1, {read_time("at")}, 'created', configuration FROM agents"""
    return [rounds, changes]


# SQLite


def _read_sqlite_time(seconds: str) -> str:
    return f"strftime('%Y-%m-%d %H:%M:%f', {seconds}, 'unixepoch')"


def _read_sqlite_numbers(blob: str) -> str:
    """Write the SQL that reads the float64s of a blob as a JSON list: to 15 digits, with zero for numbers below 1e-21.

    Every SQLite can read it, without an extension; powers of two are shifts of at most 62 bits.
    """
    digit = "instr('123456789ABCDEF', substr(h, {}, 1))"
    places = [
        f"({digit.format(2 * i + 1)} << 4 | {digit.format(2 * i + 2)}) << {8 * i}"
        for i in range(8)
    ]
    word = " | ".join(f"({place})" for place in places)
    return f"""(
    WITH RECURSIVE
      place(k) AS (
        SELECT 0 WHERE length({blob}) > 0 UNION ALL SELECT k + 1 FROM place WHERE 8 * k + 8 < length({blob})
      ),
      digits(k, h) AS (SELECT k, hex(substr({blob}, 8 * k + 1, 8)) FROM place),
      word(k, w) AS (SELECT k, {word} FROM digits),
      part(k, sign, e, m) AS (
        SELECT k, CASE WHEN w < 0 THEN -1.0 ELSE 1.0 END, (w >> 52 & 2047) - 1075,
          1.0 * (w & 4503599627370495 | 4503599627370496)
        FROM word
      )
    SELECT json_group_array(
      CASE
        WHEN e < -124 THEN 0.0
        WHEN e < -62 THEN sign * m / (1 << 62) / (1 << -e - 62)
        WHEN e < 0 THEN sign * m / (1 << -e)
        WHEN e < 62 THEN sign * m * (1 << e)
        ELSE sign * m * (1 << 62) * (1 << min(e - 62, 62)) * (1 << max(0, min(e - 124, 62)))
      END
    ) FROM (SELECT * FROM part ORDER BY k)
  )"""


SQLITE_STATEMENTS = _make_tables(_SQLITE_TYPES) + _make_views(
    _read_sqlite_time, _read_sqlite_numbers
)


# PostgreSQL

SCHEMA = "klazy"
_READ_NUMBERS = """CREATE FUNCTION read_numbers(bytes bytea) RETURNS double precision[] LANGUAGE sql IMMUTABLE AS $$
  WITH
    word AS (
      SELECT k, (
        SELECT ('x' || string_agg(encode(substring(bytes FROM 8 * k + 9 - i FOR 1), 'hex'), '' ORDER BY i))
        FROM generate_series(1, 8) AS byte(i)
      )::bit(64)::bigint AS w
      FROM generate_series(0, length(bytes) / 8 - 1) AS place(k)
    ),
    part AS (SELECT k, w, (w >> 52) & 2047 AS e, w & 4503599627370495 AS m FROM word)
  SELECT coalesce(array_agg(
    CASE WHEN w < 0 THEN -1.0::double precision ELSE 1.0::double precision END
    * CASE
        WHEN e = 0 THEN m * power(2.0::double precision, -1074)
        ELSE (m + 4503599627370496) * power(2.0::double precision, e - 1075)
      END
    ORDER BY k), '{}')
  FROM part
$$"""

POSTGRES_STATEMENTS = [
    f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}",
    *_make_tables(_POSTGRES_TYPES),
    _READ_NUMBERS,
    *_make_views("to_timestamp({})".format, "klazy.read_numbers({})".format),
]
