"""The tables and views of a store: what is in them, and how people may read it.

Tables are written by klazy alone. Views are for people: names instead of keys, times instead of seconds, lists of numbers
instead of bytes. Keys hold two numbers, ``agent * 2**40 + n``, so that the rows of an agent lie together and its next one has
a place of its own: two processes that write record ``n`` cannot both succeed.

To change a table: raise ``VERSION``, add the step from the version before to ``STEPS``, and make a file of the new version with
tests/files/stores/make.py.
"""

from typing import NamedTuple

VERSION = 1  # of these tables; the first is 1
APPLICATION = 0x6B6C617A  # "klaz", by which a file is known as a store
AGENT_SHIFT = 40

AGENTS = """CREATE TABLE agents (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL UNIQUE,
  at REAL NOT NULL,
  configuration TEXT NOT NULL,
  checksum INTEGER NOT NULL
)"""

RECORDS = """CREATE TABLE records (
  key INTEGER PRIMARY KEY,
  kind INTEGER NOT NULL,
  t INTEGER NOT NULL,
  at REAL,
  id TEXT,
  row TEXT,
  numbers BLOB NOT NULL,
  decision BLOB NOT NULL,
  hitting REAL NOT NULL,
  switching REAL NOT NULL,
  guards TEXT,
  note TEXT,
  checksum INTEGER NOT NULL
)"""

IDS = "CREATE UNIQUE INDEX records_by_id ON records (key >> 40, id) WHERE id IS NOT NULL"

SNAPSHOTS = """CREATE TABLE snapshots (
  key INTEGER PRIMARY KEY,
  t INTEGER NOT NULL,
  at REAL NOT NULL,
  hitting REAL NOT NULL,
  switching REAL NOT NULL,
  about TEXT NOT NULL,
  checksum INTEGER NOT NULL
)"""

# Who may use the service: of a token only its hash is kept. ``agent`` is the one agent that it is for.
TOKENS = """CREATE TABLE tokens (
  name TEXT PRIMARY KEY NOT NULL,
  role TEXT NOT NULL,
  agent TEXT,
  hash TEXT NOT NULL UNIQUE,
  at REAL NOT NULL,
  checksum INTEGER NOT NULL
)"""


def _sum_bytes() -> str:
    """A float64's eight bytes, whose hexadecimal digits are in ``h``, as one integer."""
    digits = "instr('123456789ABCDEF', substr(h, {}, 1))"
    each = []
    for i in range(8):
        high = digits.format(2 * i + 1)
        low = digits.format(2 * i + 2)
        each.append(f"(({high} << 4 | {low}) << {8 * i})")
    return " | ".join(each)


def _list_numbers(blob: str) -> str:
    """The float64s of a blob as a JSON list, in SQL: to 15 digits, and what is below 1e-21 as zero.

    Any SQLite can read it so, without an extension; the power of two is taken by shifts of at most 62 bits.
    """
    return f"""(
    WITH RECURSIVE
      place(k) AS (
        SELECT 0 WHERE length({blob}) > 0 UNION ALL SELECT k + 1 FROM place WHERE 8 * k + 8 < length({blob})
      ),
      digits(k, h) AS (SELECT k, hex(substr({blob}, 8 * k + 1, 8)) FROM place),
      word(k, w) AS (SELECT k, {_sum_bytes()} FROM digits),
      part(k, sign, e, m) AS (
        SELECT
          k,
          CASE WHEN w < 0 THEN -1.0 ELSE 1.0 END,
          (w >> 52 & 2047) - 1075,
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


_TIME = "strftime('%Y-%m-%d %H:%M:%f', {}, 'unixepoch')"

ROUNDS = f"""CREATE VIEW rounds AS
SELECT
  agents.name AS agent,
  records.t AS t,
  {_TIME.format("records.at")} AS time,
  records.id AS id,
  records.row AS row,
  {_list_numbers("substr(records.numbers, 1, length(records.decision))")} AS gradient,
  {_list_numbers("substr(records.numbers, length(records.decision) + 1)")} AS hint,
  {_list_numbers("records.decision")} AS decision,
  records.hitting AS hitting,
  records.switching AS switching,
  records.guards AS guards
FROM records JOIN agents ON agents.id = records.key >> 40
WHERE records.kind IN (0, 1)"""

CHANGES = f"""CREATE VIEW changes AS
SELECT
  agents.name AS agent,
  records.t AS t,
  {_TIME.format("records.at")} AS time,
  CASE records.kind WHEN 2 THEN 'freeze' WHEN 3 THEN 'resume' WHEN 4 THEN 'guards'
    WHEN 5 THEN 'known id' WHEN 8 THEN 'delete' ELSE 'restore' END AS change,
  coalesce(records.note, records.id) AS note
FROM records JOIN agents ON agents.id = records.key >> 40
WHERE records.kind > 1
UNION ALL
SELECT name, 1, {_TIME.format("at")}, 'created', configuration FROM agents"""

TABLES = {"agents": AGENTS, "records": RECORDS, "snapshots": SNAPSHOTS, "tokens": TOKENS}
# They hold no data of their own: where one is missing or was changed, it is made again.
DERIVED = {"INDEX records_by_id": IDS, "VIEW rounds": ROUNDS, "VIEW changes": CHANGES}


# ---- PostgreSQL

SCHEMA = "klazy"  # in which the tables and views lie, apart from other people's

_POSTGRES_TYPES = {
    "INTEGER PRIMARY KEY": "bigint PRIMARY KEY",
    "INTEGER": "bigint",
    "REAL": "double precision",
    "BLOB": "bytea",
}


def _translate(table: str) -> str:
    """The same table in PostgreSQL's words."""
    table = table.replace(" AUTOINCREMENT", "").replace("\n  row TEXT", '\n  "row" TEXT')
    for ours, theirs in _POSTGRES_TYPES.items():
        table = table.replace(f" {ours}", f" {theirs}")
    return table


# How many agents were ever made: a lost one is never taken for a new one.
_ABOUT = "CREATE TABLE about (version bigint NOT NULL, agents bigint NOT NULL)"

_APPEND = """CREATE FUNCTION append_record(
  a_key bigint, kind bigint, t bigint, at double precision, id text, a_row text, numbers bytea, decision bytea,
  hitting double precision, switching double precision, guards text, note text, a_checksum bigint, last bigint
) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  PERFORM 1 FROM klazy.agents WHERE agents.id = a_key >> 40 FOR NO KEY UPDATE;
  IF last IS NULL THEN
    PERFORM 1 FROM klazy.snapshots WHERE key = a_key;
  ELSE
    PERFORM 1 FROM klazy.records WHERE key = a_key - 1 AND checksum = last;
  END IF;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  INSERT INTO klazy.records VALUES (
    a_key, kind, t, at, id, a_row, numbers, decision, hitting, switching, guards, note, a_checksum
  ) ON CONFLICT DO NOTHING;
  RETURN FOUND;
END $$"""

_READ_NUMBERS = """CREATE FUNCTION read_numbers(bytes bytea) RETURNS double precision[] LANGUAGE sql IMMUTABLE AS $$
  WITH
    word AS (
      SELECT k, ('x' || encode(
        substring(bytes FROM 8 * k + 8 FOR 1) || substring(bytes FROM 8 * k + 7 FOR 1)
        || substring(bytes FROM 8 * k + 6 FOR 1) || substring(bytes FROM 8 * k + 5 FOR 1)
        || substring(bytes FROM 8 * k + 4 FOR 1) || substring(bytes FROM 8 * k + 3 FOR 1)
        || substring(bytes FROM 8 * k + 2 FOR 1) || substring(bytes FROM 8 * k + 1 FOR 1), 'hex'))::bit(64)::bigint AS w
      FROM generate_series(0, length(bytes) / 8 - 1) AS place(k)
    ),
    part AS (
      SELECT k, w, (w >> 52) & 2047 AS e, w & 4503599627370495 AS m FROM word
    )
  SELECT coalesce(array_agg(
    CASE WHEN w < 0 THEN -1.0::double precision ELSE 1.0::double precision END
    * CASE
        WHEN e = 0 THEN m * power(2.0::double precision, -1074)
        ELSE (m + 4503599627370496) * power(2.0::double precision, e - 1075)
      END
    ORDER BY k), '{}')
  FROM part
$$"""

_POSTGRES_ROUNDS = """CREATE VIEW rounds AS
SELECT
  agents.name AS agent,
  records.t AS t,
  to_timestamp(records.at) AS time,
  records.id AS id,
  records."row" AS "row",
  klazy.read_numbers(substring(records.numbers FROM 1 FOR length(records.decision))) AS gradient,
  klazy.read_numbers(substring(records.numbers FROM length(records.decision) + 1)) AS hint,
  klazy.read_numbers(records.decision) AS decision,
  records.hitting AS hitting,
  records.switching AS switching,
  records.guards AS guards
FROM records JOIN agents ON agents.id = records.key >> 40
WHERE records.kind IN (0, 1)"""

_POSTGRES_CHANGES = """CREATE VIEW changes AS
SELECT
  agents.name AS agent,
  records.t AS t,
  to_timestamp(records.at) AS time,
  CASE records.kind WHEN 2 THEN 'freeze' WHEN 3 THEN 'resume' WHEN 4 THEN 'guards'
    WHEN 5 THEN 'known id' WHEN 8 THEN 'delete' ELSE 'restore' END AS change,
  coalesce(records.note, records.id) AS note
FROM records JOIN agents ON agents.id = records.key >> 40
WHERE records.kind > 1
UNION ALL
SELECT name, 1, to_timestamp(at), 'created', configuration FROM agents"""

POSTGRES_TABLES = (*TABLES, "about")
POSTGRES_STATEMENTS = (
    f"CREATE SCHEMA {SCHEMA}",
    _translate(AGENTS),
    _translate(RECORDS),
    "CREATE UNIQUE INDEX records_by_id ON records ((key >> 40), id) WHERE id IS NOT NULL",
    _translate(SNAPSHOTS),
    _translate(TOKENS),
    _APPEND,
    _READ_NUMBERS,
    _POSTGRES_ROUNDS,
    _POSTGRES_CHANGES,
    _ABOUT,
    f"INSERT INTO about VALUES ({VERSION}, 0)",
)


# ---- versions


class Step(NamedTuple):
    """The statements that bring the tables of one version to the next, for each database.

    In SQLite views and indexes follow by themselves; in PostgreSQL a step changes views and functions as well.
    """

    sqlite: tuple[str, ...]
    postgres: tuple[str, ...]


STEPS: dict[int, Step] = {}  # by the version that they begin with; every one from 1 to VERSION - 1 has one


def list_steps(version: int) -> list[Step]:
    """The steps that bring tables of a version to today's."""
    return [STEPS[each] for each in range(version, VERSION)]
