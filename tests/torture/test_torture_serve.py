"""The service under kills, repeated deliveries, and slow and malicious clients: no acknowledged round is lost or doubled."""

import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from audit import FULL, amount, record

import klazy as kl
from command import call_klazy
from served import run_service

LEARNER = kl.KLazyGD(kl.Simplex(5), sigma=4.0, k=6)
CLIENTS = 32
AGENTS = 8
pytestmark = pytest.mark.xdist_group("serve")


def find_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Process:
    """`klazy serve` as a process of its own, which can be killed and started again on the same port."""

    def __init__(self, file, workers):
        self.port = find_port()
        command = [
            "serve",
            "--insecure",
            "--sync",
            "batch",
            "--log-level",
            "error",
            "--store",
            file,
        ]
        self.command = [*command, "--port", self.port, "--workers", workers]
        self.start()

    def start(self):
        words = [sys.executable, "-m", "klazy", *map(str, self.command)]
        self.process = subprocess.Popen(words, stderr=subprocess.DEVNULL, start_new_session=True)

    def kill_worker(self):
        """Kill one of several workers; the supervisor starts another."""
        found = (
            Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        )
        for pid in found:
            if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(int(pid), signal.SIGKILL)
                return

    def stop(self, number):
        os.killpg(self.process.pid, number)
        return self.process.wait()

    def client(self):
        return kl.Client(f"http://127.0.0.1:{self.port}", retries=60, timeout=20.0)


def check_history(file, acknowledged):
    """Every acknowledged round is in the history once, as it was answered; and the store is whole, bit for bit."""
    for name in {name for name, _ in acknowledged}:
        with kl.Agent.open(file, name=name, read_only=True) as agent:
            history = agent.history()
        ids = history["id"].to_list()
        assert max(Counter(ids).values()) == 1
        made = dict(zip(ids, history["decision"].to_list(), strict=True))
        for (agent_name, id), x in acknowledged.items():
            if agent_name == name:
                assert made[id] == x
    checked = call_klazy("check", file)
    assert checked.status == 0, checked.stdout


def test_a_killed_server_loses_and_doubles_nothing(tmp_path):
    kills = amount(1, 150)
    file = tmp_path / "decisions.db"
    workers = 2 if FULL else 1
    server = Process(file, workers)
    acknowledged = {}
    ended = threading.Event()
    failures = []

    def play(number):
        rng = np.random.default_rng(number)
        name = f"agent {number % AGENTS}"
        i = 0
        try:
            with server.client() as client:
                agent = client.agent(name)
                while not ended.is_set():
                    id = f"{number}-{i}"
                    x = agent.update(rng.normal(size=5), id=id)
                    acknowledged[name, id] = x.tolist()
                    i += 1
        except Exception as failed:
            failures.append(failed)

    chance = random.Random(0)
    try:
        with server.client() as client:
            for i in range(AGENTS):
                client.agent(f"agent {i}", LEARNER, engine="step")
        threads = [threading.Thread(target=play, args=(number,)) for number in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for kill in range(kills):
            before = len(acknowledged)
            while len(acknowledged) < before + 50 and not failures:
                time.sleep(0.01)
            time.sleep(chance.uniform(0.0, 0.3))
            if workers > 1 and kill % 3 == 1:
                server.kill_worker()
                continue
            server.stop(signal.SIGTERM if kill % 5 == 4 else signal.SIGKILL)
            server.start()
        before = len(acknowledged)
        while len(acknowledged) < before + 50 and not failures:
            time.sleep(0.01)
        ended.set()
        for thread in threads:
            thread.join()
        assert server.stop(signal.SIGTERM) in (
            0,
            -signal.SIGTERM,
        )  # requests under way were finished
    finally:
        ended.set()
        if server.process.poll() is None:
            server.stop(signal.SIGKILL)
    assert failures == []
    check_history(file, acknowledged)
    record(
        "serve-kill",
        f"the server killed under {CLIENTS} clients",
        kills,
        "no acknowledged round lost or doubled",
    )


def test_two_workers_serve_the_same_agents_and_a_round_sent_twice_is_taken_once(tmp_path):
    """Each round goes to both workers, several clients at a time, in any order."""
    rounds = amount(150, 20_000)
    with (
        run_service(tmp_path, insecure=True, sync="batch") as one,
        run_service(tmp_path, insecure=True, sync="batch") as two,
    ):
        for i in range(3):
            one.client().agent(f"agent {i}", LEARNER, engine="step")

        def send(i):
            g = np.random.default_rng(i).normal(size=5).tolist()
            body = {"g": g, "id": f"round {i}"}
            order = (one, two) if i % 2 else (two, one)
            answers = [
                service.ask("POST", f"/agents/agent {i % 3}/update", body) for service in order
            ]
            assert {answer.status_code for answer in answers} == {200}
            first, second = (answer.json() for answer in answers)
            assert (first["repeated"], second["repeated"]) == (False, True)
            assert (first["t"], first["x"]) == (second["t"], second["x"])
            return first

        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(send, range(rounds)))
        rows = [{"agent": f"agent {i}", "g": [0.0] * 5, "id": "bulk"} for i in range(3)]
        assert one.client().update_many(rows)[0]["t"] == two.client().update_many(rows)[0]["t"]
    acknowledged = {
        (answer["agent"], f"round {i}"): answer["x"] for i, answer in enumerate(answers)
    }
    check_history(tmp_path / "decisions.db", acknowledged)
    total = 0
    for i in range(3):
        with kl.Agent.open(tmp_path / "decisions.db", name=f"agent {i}", read_only=True) as agent:
            total += agent.t - 2
    assert total == rounds
    record(
        "serve-twice",
        "rounds sent twice, to two workers",
        rounds,
        "each was taken once and answered alike",
    )


def test_a_server_that_lives_long_does_not_grow(tmp_path):
    """Rounds, bulks, histories, pages, refusals and probes of a server's whole life: its memory is what it was early on."""
    requests = amount(300, 100_000)
    server = Process(tmp_path / "decisions.db", 1)
    memory = Path(f"/proc/{server.process.pid}/statm")
    page = os.sysconf("SC_PAGE_SIZE")
    early = 0
    try:
        with server.client() as client:
            agents = [client.agent(f"agent {i}", LEARNER, engine="step") for i in range(AGENTS)]
            g = np.random.default_rng(0).normal(size=(97, 5))
            for i in range(requests):
                agent = agents[i % AGENTS]
                kind = i % 20
                if kind == 0:
                    client.update_many(
                        {"agent": each.name, "g": g[i % 97], "id": f"bulk {i}"} for each in agents
                    )
                elif kind == 1:
                    client.ask("GET", f"{agent.place}/history?last=20&before={max(2, i // 50)}")
                elif kind == 2:
                    with pytest.raises(ValueError, match="shape"):
                        agent.update([1.0])
                elif kind == 3:
                    client.ask("GET", "/readyz")
                elif kind == 4:
                    agent.explain()
                elif kind == 5:
                    client.ask("GET", "/agents?limit=3")
                elif kind == 6:
                    client.ask("GET", f"{agent.place}/comparison?last=20")
                else:
                    agent.update(g[i % 97], id=i)
                if i == requests // 10:
                    early = int(memory.read_text().split()[1]) * page
            late = int(memory.read_text().split()[1]) * page
        assert server.stop(signal.SIGTERM) in (0, -signal.SIGTERM)
    finally:
        if server.process.poll() is None:
            server.stop(signal.SIGKILL)
    # SQLite's page caches fill up to 2 MB for each of three connections, and glibc keeps what threads gave back.
    assert late - early < 32 << 20, (early, late)
    checked = call_klazy("check", tmp_path / "decisions.db")
    assert checked.status == 0, checked.stdout
    grown = (late - early) / 2**20
    record(
        "serve-life",
        "requests in one life of the server",
        requests,
        f"its memory grew by {grown:.0f} MB",
    )


@pytest.fixture(scope="module")
def hasty(tmp_path_factory):
    """A service that waits half a second for a request."""
    folder = tmp_path_factory.mktemp("hasty")
    with run_service(folder, patience=0.5, body=20_000) as served:
        served.client().agent("eu-west", LEARNER, engine="step")
        yield served


def connect(served):
    one = socket.create_connection(served.address, timeout=20)
    return one


def make_head(served, length, more=""):
    head = f"POST /agents/eu-west/update HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {served.tokens['admin']}\r\n"
    return (
        f"{head}Content-Type: application/json\r\n{more}Content-Length: {length}\r\n\r\n".encode()
    )


def read_all(one):
    """What was answered until the connection was closed."""
    data = b""
    try:
        while piece := one.recv(65536):
            data += piece
    except ConnectionResetError:
        pass
    return data


def test_slow_clients_are_hung_up_on_and_keep_nobody_waiting(hasty):
    body = json.dumps({"g": [1.0] * 5}).encode()
    slow = [connect(hasty) for _ in range(30)]
    for i, one in enumerate(slow):
        if i % 3 == 0:
            one.sendall(b"POST /agents/eu-w")  # half a head
        elif i % 3 == 1:
            one.sendall(make_head(hasty, len(body)) + body[:-1])  # all but the last byte
        # and some say nothing
    start = time.monotonic()
    assert hasty.ask("GET", "/agents/eu-west/decision").json()["t"] == 1
    assert time.monotonic() - start < 5.0
    for i, one in enumerate(slow):
        answer = read_all(one)
        assert (b" 408 " in answer) == (i % 3 == 1)
        one.close()
    dripping = connect(hasty)
    dripping.sendall(make_head(hasty, 10_000))
    start = time.monotonic()
    try:
        while time.monotonic() - start < 10.0:
            dripping.sendall(b"[")
            time.sleep(0.05)
    except OSError:
        pass
    assert time.monotonic() - start < 5.0
    dripping.close()
    assert hasty.ask("GET", "/agents/eu-west/decision").json()["t"] == 1


def test_malicious_requests_change_nothing_and_stop_nothing(hasty):
    tried = amount(150, 30_000)
    chance = random.Random(0)
    body = json.dumps({"g": [1.0] * 5, "id": "zzz"}).encode()
    good = make_head(hasty, len(body)) + body
    for i in range(tried):
        data = _make_attack(chance, hasty, good, i)
        with connect(hasty) as one:
            try:
                one.sendall(data)
                one.shutdown(socket.SHUT_WR)
            except OSError:
                pass
            answer = read_all(one)
        assert b" 200 " not in answer.split(b"\r\n")[0], data[:300]
        assert b" 500 " not in answer.split(b"\r\n")[0], (data[:300], answer)
    assert hasty.ask("GET", "/agents/eu-west/decision").json()["t"] == 1
    with connect(hasty) as one:  # the same way in, with nothing wrong
        one.sendall(good)
        assert b" 200 " in one.recv(65536)
    assert hasty.ask("GET", "/agents/eu-west/decision").json()["t"] == 2
    assert call_klazy("check", hasty.file).status == 0
    record(
        "serve-attack",
        "malicious requests to the service",
        tried,
        "none was applied, and it went on",
    )


def _make_attack(chance, served, good, i):
    """Bytes that must not be taken for a round."""
    nested = chance.randrange(10, 9000)
    body = [
        b'{"g": [NaN, 1, 1, 1, 1]}',
        b'{"g": [1, 1, 1, 1, Infinity]}',
        b"[" * nested,
        b'{"g": ' + b"[" * nested + b"1" + b"]" * nested + b"}",
        b'{"g": [1, 1, 1, 1, ' + b"9" * 5000 + b"]}",
        b'{"g": [1, 1, 1, 1, 1], "g": [1, 1, 1, 1], "g": null}',
        b'{"g": [1, 1, 1, 1, 1], "id": "' + "\udcff".encode(errors="surrogatepass") + b'"}',
        b'{"g": [1, 1, 1, 1, 1], "id": "\\u0000"}',
        b'{"g": [1, 1, 1, 1, 1], "t": 1e400}',
        b'{"g": [1, 1, 1, 1, 1], "t": -1}',
        b"\xff\xfe{}",
        b"",
    ]
    kind = i % 5
    if kind == 0:
        text = chance.choice(body)
        return make_head(served, len(text)) + text
    if kind == 1:  # a good request with another token
        wrong = good.replace(
            served.tokens["admin"].encode(), b"klazy_" + chance.randbytes(16).hex().encode()
        )
        return wrong
    if kind == 2:  # a huge one
        return make_head(served, 10**12) + b"x" * 1000
    if kind == 3:  # chunks without an end
        head = make_head(served, 0).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
        return (
            head + b"2000\r\n" + b" " * 0x2000 + b"\r\n" + b"7000\r\n" + b" " * 0x7000 + b"\r\n"
        )
    return chance.randbytes(chance.randrange(1, 400))  # noise
