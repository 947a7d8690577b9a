"""A store's file among other programs: SQLite's own tools, other people's tables, other versions of klazy, other users."""

import os
import shutil
import sqlite3
import stat
from pathlib import Path

import numpy as np
import pytest

import klazy as kl
from klazy.base.checks import InvalidInput
from klazy.live import schema
from klazy.live.inspection import check_store
from klazy.live.store import open_store
from nursery import GRADIENTS, GUARDS, in_memory, in_store, open_step, play, seen

RELEASED = sorted((Path(__file__).parent / "files" / "stores").glob("version*.db"))  # made by make.py there


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
    """As ``sqlite3 file .dump | sqlite3 copy`` does: application_id and user_version are not in it."""
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
    "views dropped": lambda file: change(file, "DROP VIEW rounds", "DROP VIEW changes"),
    "a view changed": lambda file: change(file, "DROP VIEW rounds", "CREATE VIEW rounds AS SELECT 1 AS t"),
    "the index of ids dropped": lambda file: change(file, "DROP INDEX records_by_id"),
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
    assert connection.execute("SELECT count(*) FROM changes WHERE change = 'created'").fetchone() == (3,)
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
    "ALTER TABLE agents ADD COLUMN mine TEXT": (
        "The table 'agents' of .* was changed by another program; its columns are .*mine"
    ),
    "CREATE TRIGGER mine AFTER INSERT ON records BEGIN UPDATE records SET t = 0; END": (
        "The trigger 'mine' on 'records' of .* could change what klazy writes. Remove it: DROP TRIGGER mine"
    ),
    "CREATE UNIQUE INDEX mine ON records (decision)": (
        "The index 'mine' on 'records' of .* could change what klazy writes. Remove it: DROP INDEX mine"
    ),
    "ALTER TABLE tokens DROP COLUMN at": "is damaged: the table 'tokens' has lost a column",
    "DROP TABLE snapshots": "is damaged: the table 'snapshots' has lost a column",
}


@pytest.mark.parametrize("statement", CHANGED)
def test_tables_that_would_not_hold_what_is_written_are_refused(file, statement):
    in_store(file, 3)
    change(file, statement)
    with pytest.raises(ValueError, match=CHANGED[statement]):
        open_step(file)


class TestVersions:
    @pytest.mark.parametrize("released", RELEASED, ids=lambda path: path.stem)
    @pytest.mark.filterwarnings("ignore::klazy.types.OtherMachine")
    def test_a_store_of_every_released_version_goes_on(self, file, released):
        shutil.copy(released, file)
        assert find_faults(file) == []
        twin = in_memory(8, guards=GUARDS)
        with open_step(file) as agent:
            assert agent.t == 9
            np.testing.assert_allclose(agent.x, twin.x, rtol=0, atol=1e-12)  # rounding of another machine
            x = agent.update(np.ones(2), id="round 8")  # delivered again, answered as then
            np.testing.assert_allclose(x, twin.x, rtol=0, atol=1e-12)
            play(agent, 9, GRADIENTS[8])
            assert agent.history()["t"].to_list() == list(range(1, 10))
        with kl.Agent.open(file, name="rows") as agent:
            agent.restore()
            agent.observe({"a": 0.0, "b": 1.0})
            assert agent.history()["id"].to_list() == ["monday", None]
        store = open_store(file)
        assert [token.name for token in store.list_tokens()] == ["reader"]
        assert store.ask("PRAGMA user_version") == [(schema.VERSION,)]
        store.close()
        assert find_faults(file) == []

    def test_todays_is_among_them(self):
        assert f"version{schema.VERSION}" in [path.stem for path in RELEASED]

    def test_an_older_store_is_brought_up_to_date_once(self, place, monkeypatch):
        """By the steps from its version on, in one transaction; several processes may try at once."""
        in_store(place, 5, guards=GUARDS)
        table = "CREATE TABLE extras (key INTEGER PRIMARY KEY, note TEXT)"
        steps = {
            1: schema.Step((table,), (table,)),
            2: schema.Step(("INSERT INTO extras VALUES (1, 'x')",), ("INSERT INTO extras VALUES (1, 'x')",)),
        }
        monkeypatch.setattr(schema, "VERSION", 3)
        monkeypatch.setattr(schema, "STEPS", steps)
        words = r"has tables of version 1; this klazy uses version 3."
        with pytest.raises(InvalidInput, match=words):
            kl.Agent.open(place, read_only=True)
        for t in (6, 7):
            with open_step(place) as agent:
                play(agent, t, GRADIENTS[t - 1])
                assert seen(agent) == seen(in_memory(t, guards=GUARDS))
                data = store_of(agent)
                assert data.ask("SELECT key, note FROM extras") == [(1, "x")]
        with kl.Agent.open(place, read_only=True) as agent:
            assert agent.t == 8

    def test_a_step_that_fails_leaves_the_store_as_it_was(self, place, monkeypatch):
        in_store(place, 5)
        with monkeypatch.context() as newer:
            newer.setattr(schema, "VERSION", 2)
            wrong = ("CREATE TABLE extras (x INTEGER)", "SELECT x FROM nowhere")
            newer.setattr(schema, "STEPS", {1: schema.Step(wrong, wrong)})
            with pytest.raises(InvalidInput, match="nowhere"):
                open_step(place)
        with open_step(place) as agent:
            assert seen(agent) == seen(in_memory(5))
            with pytest.raises(InvalidInput, match="extras"):
                store_of(agent).ask("SELECT * FROM extras")

    @pytest.mark.parametrize("version", [0, schema.VERSION + 1])
    def test_versions_that_it_does_not_know_are_refused_in_words(self, place, version, request):
        def set_version(version):
            if isinstance(place, Path):
                change(place, f"PRAGMA user_version = {version}")
            else:
                request.getfixturevalue("server").run(f"UPDATE klazy.about SET version = {version}")

        in_store(place, 1)
        set_version(version)
        remedy = "Install a newer klazy" if version else "No klazy has made such tables; set the version to"
        message = f"has tables of version {version}; this klazy uses version {schema.VERSION}. {remedy}"
        for read_only in (False, True):
            with pytest.raises(InvalidInput, match=message):
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
