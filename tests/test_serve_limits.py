"""No caller of the service holds up the others, and what a store has lost is not hidden."""

import json
import math
import os
import resource
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager

import httpx
import numpy as np
import pytest

import klazy as kl
from klazy.live import sqlite
from klazy.live.store import Store, open_store
from klazy.serve import worker
from served import run_service

LEARNER = kl.KLazyGD(kl.Simplex(5), sigma=4.0, k=6)
SLOW = kl.GD(kl.Intersection([kl.Simplex(5), kl.L1Ball(5, 0.8, np.full(5, 0.2))]), sigma=4.0)
G = np.random.default_rng(0).normal(size=(40, 5))
pytestmark = pytest.mark.xdist_group("serve")


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with run_service(tmp_path_factory.mktemp("limits"), sync="batch") as service:
        service.client().agent("victim", LEARNER, engine="step")
        service.client().agent("slow", SLOW, engine="step")
        yield service


def play(place, name, rounds, learner=LEARNER):
    """Play rounds of an agent of a store."""
    with kl.Agent.open(place, learner, name=name, engine="step", sync="batch") as agent:
        for i in range(rounds):
            agent.update(G[i % len(G)], id=i)


# Histories


def test_a_page_of_history_is_found_without_reading_the_others(tmp_path, monkeypatch):
    """The first round is read as fast as the last one, and all pages together read each round once or twice."""
    monkeypatch.setattr("klazy.serve.client.PAGE", 50)
    counts = []  # of rows that each statement gives
    ask = sqlite.SqliteStore.ask

    def count(self, sql, *values):
        found = ask(self, sql, *values)
        counts.append(len(found))
        return found

    play(tmp_path / "decisions.db", "long", 1500)
    monkeypatch.setattr(sqlite.SqliteStore, "ask", count)
    with run_service(tmp_path, insecure=True) as served:
        counts.clear()
        answer = served.ask("GET", "/agents/long/history?last=1&before=2").json()
        assert [one["t"] for one in answer["rounds"]] == [1]
        assert answer["before"] is None
        assert len(counts) < 40
        assert sum(counts) < 100
        counts.clear()
        assert served.client().agent("long").history()["t"].to_list() == list(range(1, 1501))
        assert 1500 <= sum(counts) < 4 * 1500


def test_pages_lose_none_of_the_feedback_that_came_in_one_round(served, monkeypatch):
    monkeypatch.setattr("klazy.serve.client.PAGE", 3)
    agent = served.client().agent(
        "late", kl.contrib.Delayed(kl.GD(kl.Simplex(5), kl.Sqrt(9.0))), engine="step"
    )
    for _ in range(8):
        agent.advance()
    for t in range(1, 8):
        agent.update(G[t], round=t)
    assert agent.history()["round"].drop_nulls().to_list() == list(range(1, 8))
    assert len(agent.history()) == 15
    assert len(agent.history(4)) == 4


def test_a_page_is_the_same_stretch_of_the_whole_history(place, monkeypatch):
    with kl.Agent.open(place, LEARNER, engine="step", guards=kl.Guards(per_round=0.2)) as agent:
        for i in range(60):
            if i % 7 == 3:
                agent.freeze("")
                agent.resume("")
            agent.update(G[i % len(G)])
    monkeypatch.setattr("klazy.live.store.FIRST_READ", 2)
    store = open_store(place, read_only=True)
    with closing(store):
        chance = np.random.default_rng(0)
        for _ in range(30):
            last = int(chance.integers(1, 70))
            before = int(chance.integers(-1, 65))
            rows, has_more = store.read_rounds(1, last, before)
            wanted = [t for t in range(1, 61) if t < before]
            assert [row.t for row in rows] == wanted[-last:]
            assert has_more or len(wanted) <= last
        monkeypatch.setattr("klazy.live.store.PAGE_BYTES", 800)
        rows, has_more = store.read_rounds(1, 1000)
        assert (len(rows), has_more) == (10, True)  # of 80 bytes each
        assert store.read_rounds(9, 10) == ([], False)


def test_tokens_and_updates_do_not_wait_for_readers(served, monkeypatch):
    """Whoever reads waits here until it is told to go on, and nobody else waits for them."""
    monkeypatch.setattr("klazy.serve.access.TOKEN_SECONDS", 0.0)
    go_on = threading.Event()
    begun = threading.Event()

    def wait(*_):
        begun.set()
        go_on.wait(60)
        return []

    monkeypatch.setattr(Store, "find_changes", wait)
    with ThreadPoolExecutor(12) as pool:
        reads = [pool.submit(served.ask, "GET", "/agents/victim/changes") for _ in range(12)]
        try:
            assert begun.wait(30)
            fresh = served.ask(
                "PUT", "/agents/fresh", {"learner": LEARNER.to_dict(), "engine": "step"}
            )
            answers = [
                served.ask("POST", "/agents/victim/update", {"g": [0.0] * 5}) for _ in range(3)
            ]
            assert [fresh.status_code, *(answer.status_code for answer in answers)] == [
                201,
                200,
                200,
                200,
            ]
            assert not any(read.done() for read in reads)
        finally:
            go_on.set()
        assert {read.result().status_code for read in reads} == {200}


# Long requests


def make_bulk(agent, count, first=0):
    return [
        {"agent": agent, "g": G[i % len(G)].tolist(), "id": f"bulk {first + i}"}
        for i in range(count)
    ]


def test_others_are_served_while_a_bulk_of_slow_rounds_is_played(served):
    """Before, whoever came after it was served after it."""
    count = 3000
    served.ask("POST", "/agents/victim/update", {"g": [0.0] * 5})
    with ThreadPoolExecutor(1) as pool:
        bulk = pool.submit(served.ask, "POST", "/rounds", {"rounds": make_bulk("slow", count)})
        answered = 0
        while not bulk.done():
            assert (
                served.ask("POST", "/agents/victim/update", {"g": [0.0] * 5}).status_code == 200
            )
            answered += 1
        answers = bulk.result().json()["answers"]
    assert answered >= 15
    own = kl.Agent(SLOW, engine="step")
    for i, answer in enumerate(answers):
        np.testing.assert_array_equal(answer["x"], own.update(G[i % len(G)]))
        assert answer["t"] == i + 2
    assert served.client().agent("slow").t == count + 1


@pytest.fixture
def between_parts(monkeypatch):
    """Make every part of a bulk one round long; what is put into this list is done before the next parts."""
    waiting = []
    go_on = worker.RoundWorker.go_on

    def interrupt(self, bulk):
        if waiting and bulk.results:
            waiting.pop(0)()
        go_on(self, bulk)

    monkeypatch.setattr(worker.RoundWorker, "go_on", interrupt)
    monkeypatch.setattr(worker, "PART_SECONDS", 1e-9)
    return waiting


def test_a_bulk_is_taken_whole_though_another_process_plays_meanwhile(served, between_parts):
    client = served.client()
    names = ["one", "two"]
    own = {name: kl.Agent(LEARNER, engine="step") for name in names}
    agents = {name: client.agent(name, LEARNER, engine="step") for name in names}
    with kl.Agent.open(served.file, name="two") as other:
        between_parts.append(lambda: other.update(G[9], id="other"))
        own["two"].update(G[9])
        rounds = [{"agent": name, "g": G[i], "id": f"r{i}"} for i in range(4) for name in names]
        answers = client.update_many([*rounds, {"agent": "two", "g": G[9], "id": "other"}])
    for sent, answer in zip(rounds, answers[:-1], strict=True):
        np.testing.assert_array_equal(answer["x"], own[sent["agent"]].update(sent["g"]))
    assert [answer["repeated"] for answer in answers] == [False] * 8 + [True]
    assert (agents["one"].t, agents["two"].t) == (5, 6)


def test_of_a_bulk_that_is_refused_at_its_end_nothing_is_taken(served, between_parts):
    client = served.client()
    agent = client.agent("none", LEARNER, guards=kl.Guards(per_round=0.1), engine="step")
    seen = []
    between_parts.append(lambda: seen.append("part"))
    rounds = [*make_bulk("none", 5), {"agent": "none", "g": [math.nan] * 5}]
    answer = served.ask("POST", "/rounds", {"rounds": rounds})
    assert (answer.status_code, answer.json()["entry"], seen) == (422, 5, ["part"])
    assert (agent.t, len(agent.history())) == (1, 0)


def test_an_agent_that_others_always_play_is_given_up(served, between_parts):
    served.client().agent("busy", LEARNER, engine="step")
    with kl.Agent.open(served.file, name="busy") as other:
        between_parts.extend([lambda: other.update(G[0])] * 6)
        answer = served.ask("POST", "/rounds", {"rounds": make_bulk("busy", 3)})
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert "Another process keeps playing" in answer.json()["detail"]
        assert other.refresh().tolist() == served.client().agent("busy").x.tolist()


def test_a_bulk_that_takes_too_long_is_refused_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(worker, "PART_SECONDS", 1e-9)
    with run_service(tmp_path, insecure=True, sync="batch", budget=1e-6) as served:
        agent = served.client().agent("a", SLOW, engine="step")
        answer = served.ask("POST", "/rounds", {"rounds": make_bulk("a", 50)})
        assert answer.status_code == 413
        assert "at most 1e-06 seconds together" in answer.json()["detail"]
        assert agent.t == 1
        assert served.ask("POST", "/rounds", {"rounds": make_bulk("a", 1)}).status_code == 200


def test_snapshots_of_a_bulk_are_committed_with_it(served, monkeypatch):
    """A round in a thousand leaves one; however long a bulk is, few rounds are played again afterwards."""
    monkeypatch.setattr("klazy.live.stored.SNAPSHOT_ROUNDS", 10)
    served.client().agent("kept", LEARNER, engine="step")
    answer = served.ask("POST", "/rounds", {"rounds": make_bulk("kept", 35)})
    assert answer.status_code == 200
    store = open_store(served.file, read_only=True)
    with closing(store):
        found = store.find_agent("kept")
        assert found is not None
        assert 35 - store.read_last_snapshot(found.id).n <= 10
    with kl.Agent.open(served.file, name="kept", read_only=True) as agent:
        np.testing.assert_array_equal(agent.x, answer.json()["answers"][-1]["x"])


def test_rounds_of_an_agent_that_is_slow_are_long_requests(served, monkeypatch):
    monkeypatch.setattr(worker, "SLOW_SECONDS", 0.0)
    parts = []
    go_on = worker.RoundWorker.go_on
    monkeypatch.setattr(
        worker.RoundWorker, "go_on", lambda self, bulk: (parts.append(1), go_on(self, bulk))[1]
    )
    agent = served.client().agent(
        "heavy", LEARNER, guards=kl.Guards(per_round=0.1), engine="step"
    )
    own = kl.Agent(LEARNER, guards=kl.Guards(per_round=0.1), engine="step")
    for i in range(4):
        np.testing.assert_array_equal(agent.update(G[i], id=i), own.update(G[i]))
    np.testing.assert_array_equal(agent.update(G[0], id=3), own.x)  # sent again
    assert (
        len(parts) == 5
    )  # the first one was not known to be slow, and the last one was worked out before it was known
    agent.freeze("")
    assert agent.t == 5


# Stores that go back


def restore_copy(copy, file):
    """Copy a backup into the database of a service that runs, as the sqlite3 command would."""
    with closing(sqlite3.connect(copy)) as old, closing(sqlite3.connect(file)) as now:
        old.backup(now)


@contextmanager
def forget_rounds(server, n):
    """Leave a PostgreSQL database as it was before record n of each agent, as a copy that was late is."""
    server.run(
        f"DELETE FROM klazy.records WHERE key & 1099511627775 >= {n}",
    )
    server.run(f"DELETE FROM klazy.snapshots WHERE key & 1099511627775 > {n}")
    yield


def check_losses(served, client, names, lost, kept):
    """The first write of each agent is refused once, and says so; the log, the metric and /readyz do, too."""
    assert served.http.get("/readyz").json() == {"status": "ready", "went_back": 0}
    with pytest.raises(
        kl.types.Overtaken, match=f"'{names[0]}' has gone back from round t={lost}. Play"
    ):
        client.agent(names[0]).update(G[0], id="new")
    assert served.http.get("/readyz").json() == {"status": "ready", "went_back": len(names) - 1}
    counted = served.ask("GET", "/metrics").text
    for name in names:
        assert f'klazy_store_went_back_total{{agent="{name}"}} 1.0' in counted
    for name in names[1:]:
        with pytest.raises(kl.types.Overtaken, match="gone back"):
            client.update_many([{"agent": name, "g": G[0]}])
    assert served.http.get("/readyz").json()["went_back"] == 0
    for name in names:
        assert client.agent(name).t == kept
        client.agent(name).update(G[0])
        assert client.agent(name).t == kept + 1


def test_a_restored_backup_is_not_taken_silently(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("klazy.serve.service.READY_SECONDS", 0.0)
    with run_service(tmp_path) as served:
        client = served.client()
        names = ["a", "b"]
        agents = [client.agent(name, LEARNER, engine="step") for name in names]
        for i in range(20):
            for agent in agents:
                agent.update(G[i])
            if i == 9:
                with kl.Agent.open(served.file, name="a", read_only=True) as agent:
                    agent.backup(tmp_path / "copy.db")
        client.agent("unborn", LEARNER, engine="step").update(G[0])
        client.agent("never played", LEARNER, engine="step")
        restore_copy(tmp_path / "copy.db", served.file)
        check_losses(served, client, names, lost=21, kept=11)
        said = [
            record
            for record in caplog.records
            if record.getMessage() == "the store has gone back"
        ]
        assert {(record.agent, record.acknowledged) for record in said} == {
            ("a", 20),
            ("b", 20),
            ("unborn", 1),
        }
        assert served.ask("GET", "/agents/unborn").status_code == 404
        # another agent has its number now, and nothing of the first one
        assert client.agent("other", LEARNER.replace(k=7), engine="step").t == 1
        assert client.agent("unborn", LEARNER, engine="step").t == 1


@pytest.mark.xdist_group("postgres")
def test_a_stale_copy_after_a_failover_is_not_taken_silently(server, tmp_path, monkeypatch):
    """Once under a connection that lives on, and once while the connection is lost in the middle of a round."""
    monkeypatch.setattr("klazy.serve.service.READY_SECONDS", 0.0)
    url = server.clear()
    with run_service(tmp_path, url) as served:
        client = served.client()
        names = ["a", "b"]
        agents = [client.agent(name, LEARNER, engine="step") for name in names]
        for i in range(20):
            for agent in agents:
                agent.update(G[i])
        with forget_rounds(server, 10):
            check_losses(served, client, names, lost=21, kept=11)
        for agent in agents:
            agent.update(G[1])
        with forget_rounds(server, 5):
            server.run(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'klazy'"
            )
            assert served.http.get("/readyz").json()["went_back"] == 2
            for agent in agents:
                with pytest.raises(kl.types.Overtaken, match="from round t=13"):
                    agent.update(G[0])
                assert agent.t == 6
        assert served.http.get("/readyz").json()["went_back"] == 0


def test_rounds_of_another_worker_are_no_loss(tmp_path):
    with run_service(tmp_path, insecure=True) as one, run_service(tmp_path, insecure=True) as two:
        agents = [service.client().agent("a", LEARNER, engine="step") for service in (one, two)]
        for i in range(10):
            agents[i % 2].update(G[i])
        with kl.Agent.open(one.file, name="a") as own:
            own.update(G[0])
        assert agents[0].t == agents[1].t == 12
        agents[1].update(G[0])
        assert one.http.get("/readyz").json() == two.http.get("/readyz").json()


# Before a token is known


def send(served, *pieces):
    """Send bytes until the service hangs up; what it answered, and how many bytes it took."""
    taken = 0
    answer = b""
    with socket.create_connection(served.address, timeout=30) as line:
        try:
            for piece in pieces:
                line.sendall(piece)
                taken += len(piece)
            while part := line.recv(65536):
                answer += part
        except OSError:
            pass
    return answer, taken


BEGIN = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
BODY = b"POST /login HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n"
HEADS = {
    "one header without end": [BEGIN, b"x: ", *[b"a" * 65536] * 400],
    "one large header": [BEGIN, b"x: " + b"a" * 66_000 + b"\r\n\r\n"],
    "many headers": [BEGIN + b"".join(b"x%d: 1\r\n" % i for i in range(101)) + b"\r\n"],
    "many large headers": [BEGIN, *[b"x: " + b"a" * 9000 + b"\r\n" for _ in range(3000)]],
    "a path without end": [b"GET /", *[b"a" * 65536] * 400],
    "a trailer without end": [BODY, b"x: ", *[b"a" * 65536] * 400],
    "many trailers": [BODY, *[b"x: " + b"a" * 500 + b"\r\n" for _ in range(50_000)]],
}


@pytest.mark.parametrize("case", HEADS)
def test_the_head_of_a_request_is_limited(served, case):
    answer, taken = send(served, *HEADS[case])
    assert b" 200 " not in answer.partition(b"\r\n")[0]
    assert answer == b"" or answer.partition(b"\r\n")[0].endswith((b"Too Large", b"Unauthorized"))
    assert taken < 16_000_000  # what fits into the buffers of both ends


def test_a_head_within_the_limits_is_taken(served):
    headers = b"".join(b"x%d: %s\r\n" % (i, b"a" * 600) for i in range(98))
    answer, _ = send(served, BEGIN + headers + b"\r\n")
    assert b" 200 " in answer.partition(b"\r\n")[0]
    answer, _ = send(served, BEGIN + b"".join(b"x%d: 1\r\n" % i for i in range(99)) + b"\r\n")
    assert b" 431 " in answer.partition(b"\r\n")[0]
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["status"] == 431


@pytest.mark.parametrize("path", ["/login", "/agents"])
def test_wrong_tokens_are_limited_wherever_they_are_sent_and_whoever_one_says_to_be(
    served, path, monkeypatch
):
    now = time.monotonic()
    monkeypatch.setattr("klazy.serve.access.monotonic", lambda: now)

    def ask(i):
        headers = {"X-Forwarded-For": f"10.0.0.{i}", "X-Forwarded-Proto": "https"}
        if path == "/login":
            return served.http.post(path, data={"token": f"klazy_{i}"}, headers=headers)
        return served.http.get(path, headers=headers | {"Authorization": f"Bearer klazy_{i}"})

    statuses = [ask(i).status_code for i in range(40)]
    assert set(statuses) <= {401, 429}
    assert statuses.count(401) <= 5
    assert served.http.post("/login", data={"token": served.tokens["reader"]}).status_code == 303


def test_a_proxy_that_is_named_says_who_asks(tmp_path):
    with run_service(tmp_path, proxy="127.0.0.1") as served:
        headers = {"X-Forwarded-Proto": "https"}
        token = {"token": served.tokens["reader"]}
        assert (
            "Secure"
            in served.http.post("/login", data=token, headers=headers).headers["set-cookie"]
        )
        for i in range(40):
            headers = {"X-Forwarded-For": f"10.0.0.{i}", "Authorization": "Bearer klazy_wrong"}
            assert served.http.get("/agents", headers=headers).status_code == 401


def test_a_body_that_is_broken_off_leaves_no_traceback(served, caplog):
    caplog.set_level("INFO")
    token = served.tokens["admin"]
    for path in ("/agents/victim/update", "/agents/victim/freeze", "/rounds", "/login"):
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n"
        with socket.create_connection(served.address, timeout=30) as line:
            line.sendall(f'{head}Content-Length: 100\r\n\r\n{{"g": ['.encode())
            time.sleep(0.05)
        until = time.monotonic() + 30

        def find(path=path):
            return [record for record in caplog.records if vars(record).get("path") == path]

        while not find():
            assert time.monotonic() < until
            time.sleep(0.01)
        assert [record.status for record in find()] == [400]
    assert [
        record for record in caplog.records if record.exc_info or record.levelname == "ERROR"
    ] == []


# Whether it can write


def test_readyz_writes_at_most_once_a_second_for_whoever_asks(served, monkeypatch):
    begun = []
    together = sqlite.SqliteStore.together
    monkeypatch.setattr(
        sqlite.SqliteStore, "together", lambda self: (begun.append(1), together(self))[1]
    )
    start = time.monotonic()
    for _ in range(60):
        assert served.http.get("/readyz").status_code == 200
    assert len(begun) <= 2 * (2 + time.monotonic() - start)  # of one transaction within another


@contextmanager
def run_process(folder, *options):
    """`klazy serve` as a process group of its own, and a client of it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        sys.executable,
        "-m",
        "klazy",
        "serve",
        "--insecure",
        "--store",
        str(folder / "d.db"),
    ]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--port", str(port), *options],
            stderr=log,
            start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),
        )
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30.0) as http:
            until = time.monotonic() + 60
            while True:
                try:
                    http.get("/healthz")
                    break
                except httpx.TransportError:
                    assert time.monotonic() < until
                    time.sleep(0.05)
            yield process, http, port
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def hang_up_in_a_request(process, port):
    """Close the terminal of a service that waits for the rest of a body; what is answered to that, and how it ended."""
    body = json.dumps({"g": [1.0] * 5}).encode()
    head = f"POST /agents/a/update HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    with socket.create_connection(("127.0.0.1", port), timeout=30) as line:
        line.sendall(f"{head}\r\n\r\n".encode() + body[:-1])
        time.sleep(0.3)
        os.killpg(process.pid, signal.SIGHUP)
        time.sleep(0.3)
        line.sendall(body[-1:])
        answer = line.recv(65536)
    return answer, process.wait()


def test_a_full_disk_is_seen_and_a_hangup_ends_gracefully(tmp_path):
    with run_process(tmp_path) as (process, http, port):
        learner = {"learner": LEARNER.to_dict(), "engine": "step"}
        assert http.put("/agents/a", json=learner).status_code == 201
        assert http.get("/readyz").status_code == 200
        size = (tmp_path / "d.db-wal").stat().st_size
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
        time.sleep(1.1)  # until it is tried again
        full = http.get("/readyz")
        assert full.status_code == 503
        assert "database or disk is full" in full.text or "disk I/O error" in full.text
        assert http.post("/agents/a/update", json={"g": [1.0] * 5}).status_code == 503
        resource.prlimit(
            process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        )
        time.sleep(1.1)
        assert http.get("/readyz").status_code == 200
        answer, status = hang_up_in_a_request(process, port)
        assert b" 200 " in answer.partition(b"\r\n")[0]
        assert status == -signal.SIGTERM


def test_a_hangup_ends_a_service_of_two_workers_gracefully(tmp_path):
    with run_process(tmp_path, "--workers", "2") as (process, http, port):
        http.put("/agents/a", json={"learner": LEARNER.to_dict(), "engine": "step"})
        answer, status = hang_up_in_a_request(process, port)
    assert b" 200 " in answer.partition(b"\r\n")[0]
    assert status == 0


def test_every_worker_builds_classes_of_the_modules_that_klazy_imports(tmp_path, monkeypatch):
    (tmp_path / "of_workers.py").write_text(
        "import klazy as kl\n\n\nclass Theirs(kl.GD):\n    pass\n"
    )
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    )
    monkeypatch.setenv("KLAZY_IMPORT", "of_workers")
    about = {
        "class": "of_workers.Theirs",
        "domain": {"class": "klazy.Simplex", "dim": 5},
        "sigma": 1.0,
    }
    with run_process(tmp_path, "--workers", "2") as (_, http, _):
        answers = [http.put(f"/agents/{i}", json={"learner": about}) for i in range(6)]
    assert [answer.status_code for answer in answers] == [201] * 6


def test_a_file_that_was_replaced_is_read_no_more_than_it_is_written(tmp_path):
    with run_service(tmp_path, insecure=True) as served:
        served.client().agent("a", LEARNER, engine="step").update(G[0])
        play(tmp_path / "other.db", "a", 3)
        (tmp_path / "other.db").replace(served.file)
        for path in (
            "/agents/a/decision",
            "/agents/a/history",
            "/agents/a",
            "/agents",
            "/readyz",
            "/metrics",
        ):
            answer = served.ask("GET", path)
            assert answer.status_code == 503, path
            assert "moved, removed or replaced" in answer.json()["detail"]


def test_a_page_of_agents_ends_when_it_takes_long(served, monkeypatch):
    monkeypatch.setattr("klazy.serve.reading.LIST_SECONDS", 0.0)
    page = served.ask("GET", "/agents?limit=500").json()
    assert len(page["agents"]) == 1
    assert page["next"] == page["agents"][0]["name"]
    names = [found["name"] for found in served.client().agents()]
    assert names == sorted(names)
    assert len(names) > 1


def test_rounds_that_wait_for_feedback_are_bounded_as_a_state_is(tmp_path):
    with run_service(tmp_path, numbers=60) as service:
        late = service.client().agent(
            "late", kl.contrib.Delayed(kl.GD(kl.Simplex(5), 1.0)), engine="step"
        )
        while len(late.pending) < 4:
            late.advance()
        message = (
            r"with its pending rounds, must have at most 60 numbers, got .* give some rounds up"
        )
        with pytest.raises(ValueError, match=message):
            [late.advance() for _ in range(10)]
        late.give_up(1)
        late.advance()
