"""A store's file among other programs: SQLite's own tools, other people's tables, other versions of klazy, other users."""

import json
import os
import sqlite3
import stat
import struct
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

import klazy as kl
from klazy.base.checks import InvalidInput
from klazy.live import schema
from klazy.live.inspection import check_store
from klazy.live.records import checksum_row
from klazy.live.store import open_store
from nursery import GRADIENTS, GUARDS, in_memory, in_store, open_step, play, seen


def change(file, *statements):
    """What another program does to a file."""
    connection = sqlite3.connect(file, isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


def vacuum_into(file):
    copy = file.with_suffix(".copy")
    change(file, f"VACUUM INTO '{copy}'")
    replace(file, copy)


def replace(file, copy):
    for end in ("-wal", "-shm"):
        Path(f"{file}{end}").unlink(missing_ok=True)
    copy.replace(file)


def dump_and_restore(file):
    """As ``sqlite3 file .dump | sqlite3 copy`` does."""
    copy = file.with_suffix(".copy")
    source = sqlite3.connect(file)
    target = sqlite3.connect(copy)
    target.executescript("".join(f"{line}\n" for line in source.iterdump()))
    source.close()
    target.close()
    replace(file, copy)


TOOLS = {
    "VACUUM": lambda file: change(file, "VACUUM"),
    "VACUUM INTO": vacuum_into,
    "dump": dump_and_restore,
    "ANALYZE": lambda file: change(file, "ANALYZE", "PRAGMA optimize"),
    "REINDEX": lambda file: change(file, "REINDEX"),
    "an index": lambda file: change(file, "CREATE INDEX mine ON records (t, hitting)"),
    "a view": lambda file: change(file, "CREATE VIEW mine AS SELECT t, hitting FROM rounds"),
    "a table with a trigger": lambda file: change(
        file,
        "CREATE TABLE mine (x)",
        "CREATE TRIGGER grow AFTER INSERT ON mine BEGIN DELETE FROM mine; END",
    ),
    "Litestream": lambda file: change(
        file,
        "CREATE TABLE _litestream_seq (id INTEGER PRIMARY KEY, seq INTEGER)",
        "CREATE TABLE _litestream_lock (id INTEGER)",
    ),
}


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch):
    """Only a loss of power can tell whether a commit was forced to disk; tests/torture counts the calls that do it."""
    monkeypatch.setattr("klazy.live.sqlite.SYNCHRONOUS", {"always": "OFF", "batch": "OFF"})


def find_faults(place):
    store = open_store(place, read_only=True)
    try:
        return [checked.fault for checked in check_store(store) if checked.fault is not None]
    finally:
        store.close()


@pytest.mark.parametrize("tool", TOOLS)
def test_sqlites_tools_and_other_peoples_tables_do_no_harm(file, tool):
    """The agent, its ids and new agents go on as if nothing had happened, and so do the views."""
    in_store(file, 5, guards=GUARDS)
    in_store(file, 2, name="other")
    TOOLS[tool](file)
    with kl.Agent.open(file, read_only=True) as agent:
        assert seen(agent) == seen(in_memory(5, guards=GUARDS))
    with open_step(file) as agent:
        for t in range(4, 9):  # the first two are delivered again
            play(agent, t, GRADIENTS[t - 1])
        assert seen(agent) == seen(in_memory(8, guards=GUARDS))
    in_store(file, 1, name="new")
    assert find_faults(file) == []
    connection = sqlite3.connect(file)
    assert connection.execute("SELECT count(*) FROM rounds").fetchone() == (11,)
    assert connection.execute(
        "SELECT count(*) FROM changes WHERE change = 'created'"
    ).fetchone() == (3,)
    connection.close()


def test_an_open_agent_goes_on_while_its_file_is_vacuumed(file):
    with open_step(file) as agent:
        for t in range(1, 9):
            if t % 3 == 0:
                change(file, "VACUUM")
            play(agent, t, GRADIENTS[t - 1])
        assert seen(agent) == seen(in_memory(8))
    assert find_faults(file) == []


CHANGED = {
    "DROP TABLE snapshots": "is damaged: the table 'snapshots' is missing",
    "DROP INDEX records_by_id": "is damaged: the table 'records_by_id' is missing",
    "DELETE FROM about": "has tables of no version",
}


@pytest.mark.parametrize("statement", CHANGED)
def test_a_store_that_has_lost_a_table_is_refused(file, statement):
    in_store(file, 3)
    change(file, statement)
    with pytest.raises(ValueError, match=CHANGED[statement]):
        open_step(file)


def test_a_store_of_another_version_is_refused_in_words(place, request):
    def set_version(version):
        sql = f"UPDATE about SET version = {version}"
        if isinstance(place, Path):
            change(place, sql)
        else:
            request.getfixturevalue("server").run(sql.replace("about", "klazy.about"))

    in_store(place, 1)
    set_version(7)
    for read_only in (False, True):
        with pytest.raises(
            InvalidInput, match=r"has tables of version 7; this klazy uses version 1\."
        ):
            kl.Agent.open(place, read_only=read_only)
    set_version(schema.VERSION)
    with open_step(place) as agent:
        assert seen(agent) == seen(in_memory(1))


def store_of(agent):
    assert agent._stored is not None
    return agent._stored.store


class TestWhoMayRead:
    """A store holds decisions, rows and the hashes of tokens."""

    @pytest.fixture(autouse=True)
    def generous(self):
        before = os.umask(0)
        yield
        os.umask(before)

    def test_new_files_are_their_owners_alone(self, file, tmp_path):
        with open_step(file) as agent:
            agent.update(GRADIENTS[0])
            agent.backup(tmp_path / "backup.db")
            modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
        assert modes == dict.fromkeys(
            ("decisions.db", "decisions.db-wal", "decisions.db-shm", "backup.db"), 0o600
        )

    @pytest.mark.xdist_group("postgres")
    def test_so_is_a_backup_of_postgresql(self, server, tmp_path):
        with open_step(server.clear()) as agent:
            agent.backup(tmp_path / "backup.db")
        assert stat.S_IMODE((tmp_path / "backup.db").stat().st_mode) == 0o600

    def test_the_modes_of_files_that_are_there_are_their_owners_choice(self, file):
        in_store(file, 2)
        file.chmod(0o640)
        with open_step(file) as agent:
            agent.update(GRADIENTS[2])
            assert stat.S_IMODE(Path(f"{file}-wal").stat().st_mode) == 0o640
        assert stat.S_IMODE(file.stat().st_mode) == 0o640

    def test_a_link_to_a_file_that_is_not_there_yet(self, file, tmp_path):
        (tmp_path / "elsewhere").mkdir()
        file.symlink_to(tmp_path / "elsewhere" / "decisions.db")
        in_store(file, 2)
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert file.is_symlink()


def test_threads_that_open_a_new_store_at_once_wait_for_each_other(tmp_path):
    """SQLite itself reports a busy file at once, where two connections begin its log."""
    learner = kl.LastValue(kl.Box(0.0, 9.0))
    kl.Agent.open(tmp_path / "first.db", learner, shared=True).close()

    def open_agent(place):
        file, number = place
        with kl.Agent.open(file, learner, name=f"agent {number}", shared=True) as agent:
            return agent.t

    with ThreadPoolExecutor(6) as threads:
        for trial in range(25):
            places = [(tmp_path / f"{trial}.db", number) for number in range(6)]
            assert list(threads.map(open_agent, places)) == [1] * 6


@given(st.tuples(*[st.none() | st.text(max_size=9)] * 4))
def test_the_checksum_of_a_record_is_that_of_its_numbers_and_of_its_texts_as_json(texts):
    """A store of an earlier klazy has checksums that were computed like this."""
    id, row, guards, note = texts
    values = (7 << 40 | 3, 0, 4, 1.5, id, row, b"12345678", b"87654321", 0.5, 0.25, guards, note)
    numbers = struct.pack("<qqqdddqq", 7 << 40 | 3, 0, 4, 1.5, 0.5, 0.25, 8, 8)
    expected = crc32(numbers + b"1234567887654321")
    if texts != (None,) * 4:
        expected = crc32(json.dumps(texts).encode(), expected)
    assert checksum_row(values) == expected
