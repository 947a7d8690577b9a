"""How fast the service is, as ratios of one run: beside a FastAPI endpoint that writes one row, in bulk, and on PostgreSQL.

What one client waits for is measured in turns: a round of the service, then a row of the endpoint.

Run it as ``python benchmarks/serve.py [--seconds 5] [--postgres postgresql://...]``. Of two cores the server has one, and the
clients the other. With two workers all share both. Beside each rate stands what the server's own processor time allows, which
does not change when others use the machine.
"""

import argparse
import asyncio
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

CLIENTS = 32
DIM = 5
AGENTS = 1000
WARM = 2.0  # seconds before a measurement
WARM_REQUESTS = 600  # of one client before a measurement
LEARNER = {
    "class": "klazy.KLazyGD",
    "domain": {"class": "klazy.Simplex", "dim": DIM},
    "sigma": 4.0,
    "k": 60,
}
YARDSTICK = """
import json, sqlite3, sys
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

class Body(BaseModel):
    g: list[float]
    id: str

rows = sqlite3.connect(sys.argv[1], isolation_level=None, check_same_thread=False)
rows.execute("PRAGMA journal_mode = WAL")
rows.execute("PRAGMA synchronous = " + sys.argv[2])
rows.execute("CREATE TABLE IF NOT EXISTS rounds (id TEXT PRIMARY KEY, agent TEXT, g TEXT)")
app = FastAPI()

@app.get("/healthz")
async def alive():
    return {}

@app.post("/agents/{name}/update")
async def write(name: str, body: Body):
    rows.execute("INSERT INTO rounds VALUES (?, ?, ?)", (body.id, name, json.dumps(body.g)))
    return {"written": True}

uvicorn.run(app, port=int(sys.argv[3]), log_level="warning", access_log=False)
"""


def find_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Running(NamedTuple):
    """A server that runs."""

    port: int
    pid: int


@contextmanager
def run_server(command: list[str], cores: set[int]) -> Iterator[Running]:
    """A server on these cores, whose last argument is its port, until the block ends."""
    port = find_port()
    process = subprocess.Popen(
        [sys.executable, *command, str(port)],
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: os.sched_setaffinity(0, cores),
        start_new_session=True,
    )
    try:
        for _ in range(600):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=1).close()
                break
            except OSError:
                time.sleep(0.1)
        yield Running(port, process.pid)
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()


def ask(port: int, method: str, path: str, body: object) -> None:
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
        method=method,
    )
    urllib.request.urlopen(request, timeout=120).close()


async def exchange(port: int, reader: Any, writer: Any, path: str, body: bytes) -> None:
    """Send a request, and read its answer, which must be 200."""
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
    writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    status = await reader.readline()
    length = 0
    while (line := await reader.readline()) != b"\r\n":
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    answer = await reader.readexactly(length)
    if b" 200 " not in status:
        raise RuntimeError(f"{status!r} {answer[:300]!r}")


async def send(port: int, bodies, until: float) -> int:
    """Send one request after the other on one connection; how many were answered with 200."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    count = 0
    for path, body in bodies:
        if time.monotonic() > until:
            break
        await exchange(port, reader, writer, path, body)
        count += 1
    writer.close()
    return count


async def send_in_turns(ports: list[int], bodies, count: int) -> list[list[float]]:
    """Send each request to each server in turn; for each server how many seconds each answer took."""
    lines = [(port, *await asyncio.open_connection("127.0.0.1", port)) for port in ports]
    seconds: list[list[float]] = [[] for _ in ports]
    for path, body in islice(bodies, count):
        for (port, reader, writer), taken in zip(lines, seconds, strict=True):
            start = time.perf_counter()
            await exchange(port, reader, writer, path, body)
            taken.append(time.perf_counter() - start)
    for _, _, writer in lines:
        writer.close()
    return seconds


def make_updates(client: int, run: str, names: list[str]):
    rng = np.random.default_rng(client)
    for i in range(10**9):
        g = rng.normal(size=DIM).round(6).tolist()
        name = names[(client + CLIENTS * i) % len(names)]
        yield f"/agents/{name}/update", json.dumps({"g": g, "id": f"{run}-{client}-{i}"}).encode()


def make_bulk(client: int, run: str, names: list[str]):
    rng = np.random.default_rng(client)
    for i in range(10**9):
        g = rng.normal(size=(len(names), DIM)).round(6).tolist()
        rounds = [
            {"agent": name, "g": one, "id": f"{run}-{client}-{i}"}
            for name, one in zip(names, g, strict=True)
        ]
        yield "/rounds", json.dumps({"rounds": rounds}).encode()


class Speed(NamedTuple):
    """Requests a second, and requests per second of the server's processor time."""

    rate: float
    per_cpu: float

    def times(self, factor: int) -> "Speed":
        return Speed(factor * self.rate, factor * self.per_cpu)

    def compare(self, other: "Speed") -> str:
        return (
            f"{self.rate / other.rate:.2f} (by processor time {self.per_cpu / other.per_cpu:.2f})"
        )


def read_cpu(pid: int) -> float:
    """Seconds of processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(server: Running, make: Any, clients: int, seconds: float, names: list[str]) -> Speed:
    """How many requests so many clients get answered at once."""
    run = f"{time.time()}"

    async def send_all() -> int:
        until = time.monotonic() + seconds
        counts = await asyncio.gather(
            *(send(server.port, make(c, run, names), until) for c in range(clients))
        )
        return sum(counts)

    start = time.monotonic()
    cpu = read_cpu(server.pid)
    count = asyncio.run(send_all())
    return Speed(
        count / (time.monotonic() - start), count / max(0.01, read_cpu(server.pid) - cpu)
    )


def run_service(
    store: str, workers: int, sync: str, cores: set[int]
) -> AbstractContextManager[Running]:
    """The service itself, until the block ends."""
    options = [
        "--sync",
        sync,
        "--workers",
        str(workers),
        "--log-level",
        "warning",
        "--rate",
        "1e9",
    ]
    return run_server(
        ["-m", "klazy", "serve", "--insecure", "--store", store, *options, "--port"], cores
    )


def run_yardstick(folder: Path, sync: str, cores: set[int]) -> AbstractContextManager[Running]:
    """An endpoint that writes one row, until the block ends."""
    script = folder / "yardstick.py"
    script.write_text(YARDSTICK)
    level = {"always": "FULL", "batch": "NORMAL"}[sync]
    return run_server([str(script), str(folder / f"rows-{sync}.db"), level], cores)


def measure_wait(folder: Path, sync: str, count: int) -> float:
    """What one client waits for a round, over what it waits for a row: medians, once the logs of both are used again."""
    cores = os.sched_getaffinity(0)
    with (
        run_service(f"{folder}/wait-{sync}.db", 1, sync, cores) as ours,
        run_yardstick(folder, sync, cores) as plain,
    ):
        ask(ours.port, "PUT", "/agents/a", {"learner": LEARNER})
        updates = make_updates(0, f"{time.time()}", ["a"])
        asyncio.run(send_in_turns([ours.port, plain.port], updates, WARM_REQUESTS))
        seconds = asyncio.run(send_in_turns([ours.port, plain.port], updates, count))
    waits = [statistics.median(taken) for taken in seconds]
    return waits[0] / waits[1]


def measure_service(
    store: str, workers: int, seconds: float, cores: set[int], sync: str, bulk: bool
) -> dict[str, Speed]:
    """The service's speed, one round a request and, if asked, a thousand."""
    names = [f"agent-{i}" for i in range(AGENTS)]
    found = {}
    with run_service(store, workers, sync, cores) as server:
        few = names[: 2 * CLIENTS]
        for name in names if bulk else few:
            ask(server.port, "PUT", f"/agents/{name}", {"learner": LEARNER})
        measure(server, make_updates, CLIENTS, WARM, few)
        found["single"] = measure(server, make_updates, CLIENTS, seconds, few)
        if bulk:
            measure(server, make_bulk, 1, WARM, names)
            found["bulk"] = measure(server, make_bulk, 2, seconds, names).times(AGENTS)
    return found


def measure_yardstick(folder: Path, seconds: float, cores: set[int], sync: str) -> Speed:
    """The speed of an endpoint that writes one row."""
    with run_yardstick(folder, sync, cores) as server:
        measure(server, make_updates, CLIENTS, WARM, ["a"])
        return measure(server, make_updates, CLIENTS, seconds, ["a"])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement")
    parser.add_argument("--postgres", help="the URL of an empty PostgreSQL database")
    options = parser.parse_args()
    every = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as folder:
        ratio = measure_wait(Path(folder), "always", 2000)
        print(
            f"SQLite, always: what one client waits for / for the plain endpoint, medians: {ratio:.2f}; wanted 1.5"
        )
    ours = {every[0]}
    os.sched_setaffinity(0, {every[-1]})
    with tempfile.TemporaryDirectory() as folder:
        for sync in ("always", "batch"):
            rows = measure_yardstick(Path(folder), options.seconds, ours, sync)
            found = measure_service(
                f"{folder}/{sync}.db", 1, options.seconds, ours, sync, bulk=True
            )
            single = found["single"]
            bulk = found["bulk"]
            print(
                f"SQLite, {sync}: rounds a second / rows of the plain endpoint: {single.compare(rows)}; wanted 0.5"
            )
            print(
                f"SQLite, {sync}: the same in requests of {AGENTS}: {bulk.compare(rows)}; wanted 5"
            )
            print(f"SQLite, {sync}: in requests of {AGENTS} / one by one: {bulk.compare(single)}")
    if options.postgres:
        os.sched_setaffinity(0, set(every))
        one = measure_service(
            options.postgres, 1, options.seconds, set(every), "always", bulk=False
        )
        two = measure_service(
            options.postgres, 2, options.seconds, set(every), "always", bulk=False
        )
        print(
            f"PostgreSQL: two workers / one: {two['single'].rate / one['single'].rate:.2f}; wanted 1"
        )


if __name__ == "__main__":
    main()
