"""A store in PostgreSQL: what tests/test_durable.py does not try on both databases. The server is a real one."""

import json
import os
import sys
import threading
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
from pg8000.native import Connection

import klazy as kl
from command import call_klazy
from klazy.live import postgres, stored
from klazy.live.inspection import check_store
from klazy.live.records import AGENT_SHIFT
from klazy.live.store import StoreFailed, open_store
from klazy.live.stored import StoredAgent
from nursery import GRADIENTS, GUARDS, LEARNER, in_memory, in_store, open_step, play, seen

pytestmark = pytest.mark.xdist_group("postgres")


@pytest.fixture
def url(server):
    return server.clear()


def find_faults(place):
    store = open_store(place, read_only=True)
    try:
        return [checked.fault for checked in check_store(store) if checked.fault is not None]
    finally:
        store.close()


def store_of(agent):
    assert agent._stored is not None
    return agent._stored.store


class TestAnAgent:
    def test_it_goes_on_bit_for_bit(self, url, monkeypatch):
        monkeypatch.setattr(stored, "SNAPSHOT_ROUNDS", 5)
        for first in (1, 8, 15):
            with open_step(url, guards=GUARDS if first == 1 else None, sync="batch") as agent:
                for t in range(first, first + 7):
                    play(agent, t, GRADIENTS[t - 1])
                assert seen(agent) == seen(in_memory(first + 6, guards=GUARDS))
        assert find_faults(url) == []

    def test_a_read_only_one_is_looked_at(self, url):
        with pytest.raises(
            ValueError, match=r"postgresql://klazy@.*/postgres has no agents yet."
        ):
            kl.Agent.open(url, LEARNER, read_only=True)
        in_store(url, 3)
        with kl.Agent.open(url, read_only=True) as agent:
            assert seen(agent) == seen(in_memory(3))
            with pytest.raises(ValueError, match="was opened read-only"):
                agent.update(GRADIENTS[0])

    def test_an_empty_schema_that_is_there_is_used(self, url, server):
        server.run("CREATE SCHEMA klazy")
        with pytest.raises(ValueError, match="has no agents yet"):
            kl.Agent.open(url, LEARNER, read_only=True)
        in_store(url, 3)
        with kl.Agent.open(url, read_only=True) as agent:
            assert seen(agent) == seen(in_memory(3))

    def test_the_views_can_be_read_by_anyone(self, url, server):
        learner = kl.MemoryGD(kl.L2Ball(4, radius=1e9), 1e-6, memory=kl.memories.Decay(4.0))
        g = np.array([[1.0, -0.0, 1e-310, -3e-7], [2.5e5, 0.1, -1e-12, 7.0]])
        with kl.Agent.open(
            url, learner, name="eu-west", engine="step", guards=kl.Guards()
        ) as agent:
            for row in g:
                agent.update(row, next_hint=row)
            agent.freeze("storm")
            frame = agent.history()
        columns = "agent, t, time, gradient, next_hint, decision"
        rows = server.run("SET TIME ZONE 'UTC'", f"SELECT {columns} FROM klazy.rounds ORDER BY t")
        for (name, t, at, *lists), own in zip(rows, frame.iter_rows(named=True), strict=True):
            assert (name, t) == ("eu-west", own["t"])
            assert abs(at - own["time"]) < timedelta(milliseconds=1)
            assert lists == [
                own["gradient"],
                own["next_hint"],
                own["decision"],
            ]  # to the last bit
        assert server.run("SELECT change, note FROM klazy.changes WHERE t > 1") == [
            ["freeze", "storm"]
        ]

    def test_a_backup_is_an_sqlite_file(self, url, tmp_path):
        in_store(url, 5, guards=GUARDS)
        in_store(url, 3, name="other")
        with open_step(url) as agent:
            agent.backup(tmp_path / "backup.db")
        assert find_faults(tmp_path / "backup.db") == []
        with open_step(tmp_path / "backup.db") as agent:
            assert seen(agent) == seen(in_memory(5, guards=GUARDS))
        in_store(tmp_path / "backup.db", 1, name="one more")

    def test_a_lost_agent_is_never_a_new_one(self, url, server):
        in_store(url, 3)
        server.run("DELETE FROM klazy.agents")
        with pytest.raises(
            ValueError,
            match=(
                r"postgresql://klazy@.*/postgres is damaged: 0 of its 1 agents are left. Restore it "
                r"from a backup."
            ),
        ):
            open_step(url)
        assert (
            "0 of its 1 agents are left; 3 rows of records belong to no agent"
            in find_faults(url)[0]
        )

    def test_rows_that_were_changed_are_found(self, url, server):
        in_store(url, 8)
        server.run("UPDATE klazy.records SET hitting = hitting + 1 WHERE t = 3")
        assert "record 2 of agent 1 was changed" in find_faults(url)[0]

    def test_commands(self, url, tmp_path):
        in_store(url, 4, name="eu-west", guards=GUARDS)
        (listed,) = json.loads(call_klazy("agents", url, "--json").stdout)
        assert (listed["name"], listed["rounds"], listed["frozen"]) == ("eu-west", 4, True)
        rounds = call_klazy("history", url, "eu-west", "--json").stdout.splitlines()
        assert [json.loads(line)["t"] for line in rounds] == [1, 2, 3, 4]
        ended = call_klazy("check", url)
        assert ended.stdout.splitlines() == [
            "The store is intact.",
            "eu-west: 4 rounds, identical bit for bit.",
        ]
        assert call_klazy("backup", url, tmp_path / "copy.db").status == 0
        assert call_klazy("check", tmp_path / "copy.db").stdout == ended.stdout


class TestTheUrl:
    def test_a_password_is_shown_nowhere(self, url, server, monkeypatch):
        secret = "geh/eim#1"
        server.run(
            "DROP ROLE IF EXISTS locked",
            f"CREATE ROLE locked SUPERUSER LOGIN PASSWORD '{secret}'",
        )
        there = f"127.0.0.1:{server.port}/postgres"
        escaped = "geh%2Feim%231"
        with open_step(f"postgresql://locked:{escaped}@{there}") as agent:
            agent.update(GRADIENTS[0])
            store = store_of(agent)
            assert store.path == f"postgresql://locked@{there}"
            assert not any(secret in repr(each) for each in (agent, store, store, agent._stored))
        monkeypatch.setenv("PGPASSWORD", secret)
        open_step(f"postgresql://locked@{there}").close()
        monkeypatch.delenv("PGPASSWORD")
        for bad in (
            f"locked:{secret}@{there}",
            f"locked:no{escaped}@{there}",
            f"locked:{escaped}@127.0.0.1:1/x",
        ):
            monkeypatch.setattr("klazy.live.store.PATIENCE", 0.01)
            with pytest.raises(
                ValueError, match=r"URL .* cannot be read|does not let klazy in|has not answered"
            ) as refused:
                open_step(f"postgresql://{bad}")
            shown = ""
            chained: BaseException | None = refused.value
            while chained is not None:
                shown += repr(chained)
                chained = chained.__cause__
            assert "eim" not in shown
        ended = call_klazy("agents", f"postgresql://locked:no{escaped}@{there}")
        assert ended.status == 2
        assert ended.stderr.startswith(f"postgresql://locked@{there} does not let klazy in")
        assert "eim" not in ended.stderr

    @pytest.mark.parametrize(
        ("url", "message"),
        [
            ("postgresql://x@h:port/d", "The URL of the database cannot be read. Use postgresql://user@host:5432/database"),
            ("postgresql://x@h/d?sslmode=maybe", "sslmode must be disable, prefer, require or verify-full, got 'maybe'."),
            ("postgresql://x@h/d?color=red", "The URL has an unknown option 'color'. Use host, port, user"),
        ],
    )  # fmt: skip
    def test_one_that_does_not_fit(self, url, message):
        with pytest.raises(ValueError, match=message):
            open_step(url)

    def test_it_is_nobodys_alone(self, url):
        with pytest.raises(
            ValueError,
            match=(
                r"shared=False needs an SQLite file; postgresql://klazy@.*/postgres serves several "
                r"processes."
            ),
        ):
            open_step(url, shared=False)

    def test_a_socket_in_a_folder(self, url, server):
        with open_step(
            f"postgresql://klazy@:{server.port}/postgres?host={server.folder}"
        ) as agent:
            assert agent.t == 1

    def test_without_a_driver_it_says_what_to_install(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "pg8000.native", None)
        monkeypatch.delitem(sys.modules, "klazy.live.postgres")
        with pytest.raises(
            ImportError,
            match=r"A postgresql:// store needs pg8000, which is not installed. Run: pip install ",
        ):
            open_step("postgresql://x@h/d")


class TestALostConnection:
    """Nothing is lost, and nothing is taken twice, whether the answer was lost or the question; with and without ids."""

    @pytest.fixture(params=["question", "answer"])
    def lose(self, request, monkeypatch):
        """Drop the connection before a record is sent, or after it was committed and before the answer is read."""
        real = postgres.PostgresStore._run
        drops = []

        def run(self, sql, values=(), stream=None):
            if not drops or not (sql.startswith("INSERT INTO records") or sql == drops[0]):
                return real(self, sql, values, stream)
            drops.clear()
            if request.param == "answer":
                real(self, sql, values, stream)
            self._drop()
            raise postgres._LostError("network error")

        monkeypatch.setattr(postgres.PostgresStore, "_run", run)
        return drops.append

    @pytest.mark.parametrize("id", [None, "tuesday"])
    def test_a_round_is_taken_once(self, url, lose, id):
        straight = kl.Agent(LEARNER, engine="step")
        with open_step(url) as agent:
            for t in range(6):
                if t in (0, 3):
                    lose("COMMIT")
                x = agent.update(GRADIENTS[t], id=None if id is None else f"{id} {t}")
                assert x.tobytes() == straight.update(GRADIENTS[t]).tobytes()
            assert seen(agent) == seen(straight)
            assert agent.history().height == 6
        assert find_faults(url) == []

    def test_agents_fleets_and_changes_too(self, url, lose):
        learner = kl.GD(kl.L2Ball(5), kl.Sqrt(9.0))
        g = np.linspace(-1.0, 0.5, 10).reshape(2, 5)
        lose("COMMIT")
        with kl.Fleet.open(url, learner, ["a", "b"]) as fleet:
            lose("COMMIT")
            fleet.update(g)
            fleet.update(g)
            assert fleet.t.tolist() == [3, 3]
        with open_step(url, name="c", guards=kl.Guards()) as agent:
            lose("COMMIT")
            agent.freeze()
            agent.update(GRADIENTS[0])
            assert agent.t == 2
        assert find_faults(url) == []

    def test_another_ones_round_is_not_taken_for_ones_own(self, url, monkeypatch):
        with open_step(url) as one, open_step(url) as other:
            real = postgres.PostgresStore._run
            lost = []

            def run(self, sql, values=(), stream=None):
                if sql.startswith("INSERT INTO records") and self is store_of(one) and not lost:
                    lost.append(True)
                    self._drop()
                    other.update(GRADIENTS[1])
                    raise postgres._LostError("network error")
                return real(self, sql, values, stream)

            monkeypatch.setattr(postgres.PostgresStore, "_run", run)
            with pytest.raises(kl.types.Overtaken):
                one.update(GRADIENTS[0])
            assert seen(one) == seen(other)

    @pytest.mark.parametrize("kind", ["plain", "with an id"])
    def test_amid_a_transaction_it_ends_all_of_it(self, url, server, kind):
        """Else the first round would be answered, and lost."""
        for name in ("a", "b"):
            in_store(url, 2, name=name)
        id = "" if kind == "plain" else "tuesday"
        store = open_store(url)
        a, b = (StoredAgent(store, agent).revive() for agent in store.list_agents())

        def play_both():
            with store.together():
                a.end(lambda now, id: now.record_gradient(GRADIENTS[2], id), id)
                theirs = "FROM pg_stat_activity WHERE application_name = 'klazy'"
                # It waits until they are gone: one that is still there might answer.
                server.run(f"SELECT pg_terminate_backend(pid, 60000) {theirs}")
                b.end(lambda now, id: now.record_gradient(GRADIENTS[2], id), id)

        with pytest.raises(
            StoreFailed,
            match=(
                r"The connection to postgresql://klazy@.*/postgres was lost \(.+\). "
                r"It is not known whether this was written; repeat it."
            ),
        ):
            play_both()
        assert [rounds for _, rounds, _ in store.list_latest()] == [2, 2]
        store.close()


class TestAPooler:
    """Others may reset a session, and behind a pooler two transactions may be in two of them."""

    RESETS = ("DISCARD ALL", "DEALLOCATE ALL", "RESET ALL", "SET search_path = public")

    @pytest.mark.parametrize("statement", RESETS)
    def test_a_session_that_was_reset_is_made_again(self, url, statement):
        straight = kl.Agent(LEARNER, engine="step")
        with open_step(url) as agent:
            data: Any = store_of(agent)
            for t in range(6):
                if t in (0, 3):
                    data._connection.run(statement)
                x = agent.update(GRADIENTS[t], id=t if t % 2 else None)
                assert x.tobytes() == straight.update(GRADIENTS[t]).tobytes()
            data._connection.run(statement)
            assert agent.history().height == 6
        assert find_faults(url) == []

    def test_a_plan_that_a_changed_table_has_spoilt_is_made_again(self, url, server):
        with open_step(url) as agent:
            store = store_of(agent)
            store.read_last_snapshot(1)
            server.run("ALTER TABLE klazy.snapshots ALTER COLUMN about TYPE varchar")
            assert store.read_last_snapshot(1).n == 0  # SQLSTATE 0A000, unless it is sent anew

    @pytest.mark.parametrize("mode", ["session", "transaction"])
    def test_behind_pgbouncer(self, server, pgbouncer, mode, tmp_path):
        """Agents, a fleet and a service's transactions; in transaction mode each is in another session than the last."""
        server.clear()
        url = pgbouncer(mode)
        settings = "current_setting('search_path'), current_setting('synchronous_commit')"
        with connect(url) as other:
            other.run("BEGIN")  # the others must open a session of their own
            agents = [open_step(url, name=name, sync="batch") for name in ("a", "b")]
            other.run("COMMIT")
        sessions = {store_of(agents[0]).ask("SELECT pg_backend_pid()")[0] for _ in range(6)}
        assert (len(sessions) > 1) == (mode == "transaction")
        for t in range(1, 9):
            for agent in agents:
                play(agent, t, GRADIENTS[t - 1])
        for agent in agents:
            assert seen(agent) == seen(in_memory(8))
            assert store_of(agent).ask(f"SELECT {settings}") == [("klazy", "off")]
            agent.close()
        learner = kl.GD(kl.L2Ball(5), kl.Sqrt(9.0))
        with kl.Fleet.open(url, learner, ["e", "f"]) as fleet:
            fleet.update(np.linspace(-1.0, 0.5, 10).reshape(2, 5), id="monday")
            fleet.update(np.linspace(-1.0, 0.5, 10).reshape(2, 5), id="monday")
            assert fleet.t.tolist() == [2, 2]
        with open_step(url, name="a") as agent, store_of(agent).together():
            agent.update(GRADIENTS[8])
        with open_step(url, name="a") as agent:
            assert agent.t == 10
            agent.backup(tmp_path / "backup.db")
        assert find_faults(url) == find_faults(tmp_path / "backup.db") == []
        with connect(
            url
        ) as other:  # klazy leaves nothing behind in sessions that are others' next
            assert [other.run(f"SELECT {settings}") for _ in range(4)] == 4 * [
                [['"$user", public', "on"]]
            ]


def connect(url):
    parts = urlsplit(url)
    return Connection(
        "klazy", host="127.0.0.1", port=parts.port, database="postgres", ssl_context=False
    )


class TestTheServer:
    def test_one_that_stays_away_is_told_and_the_round_may_be_repeated(
        self, url, server, monkeypatch
    ):
        with open_step(url) as agent:
            play(agent, 1, GRADIENTS[0])
            server.crash()
            try:
                monkeypatch.setattr("klazy.live.store.PATIENCE", 0.2)
                message = r"has not answered for 0.2 seconds \(.*refused\). It is not known whether the round was written"
                with pytest.raises(ValueError, match=message):
                    play(agent, 2, GRADIENTS[1])
                with pytest.raises(
                    ValueError, match=r"has not answered for 0.2 seconds \(.*refused.*\)\.$"
                ):
                    agent.history()
            finally:
                server.start()
            monkeypatch.setattr("klazy.live.store.PATIENCE", 10.0)
            for t in (2, 3):
                play(agent, t, GRADIENTS[t - 1])
            assert seen(agent) == seen(in_memory(3))

    def test_one_with_a_full_disk_changes_nothing(self, url, server):
        with open_step(url) as agent:
            play(agent, 1, GRADIENTS[0])
            server.run(
                """CREATE FUNCTION klazy.fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100'; END $$""",
                "CREATE TRIGGER full_disk BEFORE INSERT ON klazy.records EXECUTE FUNCTION klazy.fail()",
            )
            with pytest.raises(
                ValueError,
                match=(
                    r"postgresql://klazy@.*/postgres cannot be read or written: could not extend file: "
                    r"No space left on device."
                ),
            ):
                play(agent, 2, GRADIENTS[1])
            assert seen(agent) == seen(in_memory(1))
            server.run("DROP TRIGGER full_disk ON klazy.records")
            play(agent, 2, GRADIENTS[1])
        assert find_faults(url) == []

    def test_a_user_who_may_only_read(self, url, server):
        in_store(url, 2)
        server.run(
            "DROP ROLE IF EXISTS guest", "CREATE ROLE guest LOGIN", "GRANT USAGE ON SCHEMA klazy TO guest",
            "GRANT SELECT ON ALL TABLES IN SCHEMA klazy TO guest", "REVOKE SELECT ON klazy.tokens FROM guest",
        )  # fmt: skip
        try:
            guest = url.replace("klazy@", "guest@")
            with kl.Agent.open(guest, read_only=True) as agent:
                assert seen(agent) == seen(in_memory(2))
            with kl.Agent.open(guest) as agent:
                with pytest.raises(
                    ValueError,
                    match=(
                        r"postgresql://guest@.*/postgres cannot be read or written: permission denied for "
                        r"table records."
                    ),
                ):
                    agent.update(GRADIENTS[2])
                assert seen(agent) == seen(in_memory(2))
        finally:
            server.run("DROP OWNED BY guest", "DROP ROLE guest")

    def test_an_agent_that_another_has_for_too_long(self, url, server, monkeypatch):
        monkeypatch.setattr("klazy.live.store.PATIENCE", 0.1)
        with open_step(url) as one, open_step(url) as other:

            def hold():
                store_of(one).lock_agents([1])
                with pytest.raises(
                    ValueError,
                    match=(
                        r"postgresql://klazy@.*/postgres is busy: another process has used the agent for "
                        r"0.1 seconds."
                    ),
                ):
                    other.update(GRADIENTS[0])

            store_of(one).transact(hold)
            other.update(GRADIENTS[0])
            assert other.t == 2

    def test_threads_make_a_store_at_once(self, url):
        failed = []

        def make(name):
            try:
                in_store(url, 2, name=name)
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=make, args=(f"{i % 3}",)) for i in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failed == []
        assert find_faults(url) == []

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
    def test_a_forked_process_takes_no_rounds(self, url):
        with open_step(url) as agent:
            agent.update(GRADIENTS[0])
            store_of(agent).inherited = True  # as in a forked process
            store_of(agent).idle = True
            with pytest.raises(
                ValueError,
                match=r"postgresql://klazy@.*/postgres was opened by the parent of this process.",
            ):
                agent.update(GRADIENTS[1])
            store_of(agent).inherited = False
            store_of(agent).idle = False
            agent.update(GRADIENTS[1])


@pytest.mark.parametrize("how", ["back", "back and on"])
def test_a_store_that_was_restored_under_an_agent_is_noticed(place, how):
    """Rounds 4 and 5 are gone; then, perhaps, another process plays others in their place."""
    with open_step(place) as agent:
        for t in range(1, 6):
            play(agent, t, GRADIENTS[t - 1])
        data = store_of(agent)
        cut = 1 << AGENT_SHIFT | 3
        data.transact(lambda: data.ask("DELETE FROM records WHERE key >= ?", cut))
        with open_step(place) as other:
            if how == "back and on":
                for t in (4, 5):
                    other.update(-GRADIENTS[t - 1])
            words = r"store of 'agent' has gone back to an earlier round. Play agent.x of round"
            with pytest.raises(kl.types.Overtaken, match=words):
                agent.update(GRADIENTS[5])
            assert seen(agent) == seen(other)
            agent.update(GRADIENTS[5])
    assert find_faults(place) == []
