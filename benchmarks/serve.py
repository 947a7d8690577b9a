"""How fast the service is, as ratios of one run: beside a FastAPI endpoint that writes one row, in bulk, and on PostgreSQL.

Service and endpoint are measured in turns: what one client waits for is that of a round, then of a row, and so on; rates are
those of some seconds each.

Run it as ``python benchmarks/serve.py [--write docs/benchmarks.md] [--seconds 3] [--postgres postgresql://...]``. Of two cores
the server has one, and the clients the other. With two workers all share both. Beside each rate stands what the server's own
processor time allows, which changes less when others use the machine.
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

from pages import cut, markdown, put

HEADING = "## Speed of the service"
CLIENTS = 32
DIM = 5
AGENTS = 1000
WARM = 2.0  # seconds before a measurement
WARM_REQUESTS = 600  # of one client before a measurement
WAITS = 2000  # of one client
TURNS = 5  # of each rate
LONGEST_WAIT = 1.5  # the aim of a round, in waits for a row
BULK_RATE = 8.0  # the aim of rounds in bulk, in rows
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

    def over(self, other: "Speed") -> "Speed":
        return Speed(self.rate / other.rate, self.per_cpu / other.per_cpu)


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


def measure_wait(folder: Path, sync: str) -> float:
    """What one client waits for a round, over what it waits for a row: medians, once the logs of both are used again."""
    cores = os.sched_getaffinity(0)
    with (
        run_service(f"{folder}/wait-{sync}.db", 1, sync, cores) as ours,
        run_yardstick(folder, sync, cores) as plain,
    ):
        ask(ours.port, "PUT", "/agents/a", {"learner": LEARNER})
        updates = make_updates(0, f"{time.time()}", ["a"])
        asyncio.run(send_in_turns([ours.port, plain.port], updates, WARM_REQUESTS))
        seconds = asyncio.run(send_in_turns([ours.port, plain.port], updates, WAITS))
    waits = [statistics.median(taken) for taken in seconds]
    return waits[0] / waits[1]


def measure_rates(
    folder: Path, seconds: float, cores: set[int], sync: str
) -> tuple[Speed, Speed]:
    """Rounds over rows of the plain endpoint, one and a thousand in a request: medians of some turns."""
    names = [f"agent-{i}" for i in range(AGENTS)]
    with (
        run_service(f"{folder}/{sync}.db", 1, sync, cores) as ours,
        run_yardstick(folder, sync, cores) as plain,
    ):
        for name in names:
            ask(ours.port, "PUT", f"/agents/{name}", {"learner": LEARNER})

        def take_turn(seconds: float) -> tuple[Speed, Speed]:
            rows = measure(plain, make_updates, CLIENTS, seconds, ["a"])
            rounds = measure(ours, make_updates, CLIENTS, seconds, names[: 2 * CLIENTS])
            bulk = measure(ours, make_bulk, 2, seconds, names).times(AGENTS)
            return rounds.over(rows), bulk.over(rows)

        take_turn(WARM)
        turns = [take_turn(seconds) for _ in range(TURNS)]
    single, bulk = (
        Speed(*map(statistics.median, zip(*speeds, strict=True)))
        for speeds in zip(*turns, strict=True)
    )
    return single, bulk


def compare_workers(url: str, seconds: float, cores: set[int]) -> float:
    """The rate of two workers over that of one, on PostgreSQL."""
    names = [f"agent-{i}" for i in range(2 * CLIENTS)]
    rates = []
    for workers in (1, 2):
        with run_service(url, workers, "always", cores) as server:
            for name in names:
                ask(server.port, "PUT", f"/agents/{name}", {"learner": LEARNER})
            measure(server, make_updates, CLIENTS, WARM, names)
            rates.append(measure(server, make_updates, CLIENTS, seconds, names).rate)
    return rates[1] / rates[0]


def describe(what: str, ratio: float, by_cpu: float | None, aim: str, missed: bool) -> dict:
    """Return a row of the table, with a mark if the aim is missed."""
    return {
        "what": what,
        "over the plain endpoint": f"{ratio:.2f}{' (missed)' if missed else ''}",
        "by processor time": None if by_cpu is None else f"{by_cpu:.2f}",
        "aim": aim or None,
    }


def make_table(seconds: float) -> Iterator[dict]:
    """Measure everything but PostgreSQL; yield the rows of the table."""
    every = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as folder:
        wait = measure_wait(Path(folder), "always")
    what = 'wait of one client for a round, `sync="always"`'
    yield describe(what, wait, None, f"at most {LONGEST_WAIT:g}", wait > LONGEST_WAIT)
    os.sched_setaffinity(0, {every[-1]})
    with tempfile.TemporaryDirectory() as folder:
        for sync in ("always", "batch"):
            single, bulk = measure_rates(Path(folder), seconds, {every[0]}, sync)
            yield describe(f'rounds a second, `sync="{sync}"`', *single, "", False)
            has_aim = sync == "batch"
            what = f'rounds a second, {AGENTS} in a request, `sync="{sync}"`'
            aim = f"{BULK_RATE:g}" if has_aim else ""
            yield describe(what, *bulk, aim, has_aim and bulk.rate < BULK_RATE)
    os.sched_setaffinity(0, set(every))


BEFORE = [
    "The service in an SQLite file, over an endpoint of FastAPI that inserts one row into SQLite with the same guarantee. "
    f"Agents are of k-lazyGD on a simplex, d = {DIM}. The wait is the median of {WAITS} requests to each of the two, in turns. "
    f"Rates are medians of {TURNS} turns: of {CLIENTS} clients that send a round or a row at a time, and of two that send a "
    f"round of {AGENTS} agents at a time. The server has one core, and the clients another. Printed by "
    "`python benchmarks/serve.py`.",
    "",
]


AFTER = [
    "What limits it: half of what a bulk round takes is SQLite, for which each agent's record is on a page of its own, and a "
    "round of one client has checks, a checksum and an answer with the decision where the endpoint has one insert.",
    "",
]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=3.0, help="of each measurement")
    parser.add_argument("--postgres", help="the URL of an empty PostgreSQL database")
    parser.add_argument(
        "--write", type=Path, help=f"put the table into this file, under its heading {HEADING!r}"
    )
    options = parser.parse_args()
    if options.write:
        cut(options.write, HEADING)
    text = "\n".join([*BEFORE, *markdown(list(make_table(options.seconds))), *AFTER])
    print(text)
    if options.write:
        put(options.write, HEADING, text)
    if options.postgres:
        ratio = compare_workers(options.postgres, options.seconds, os.sched_getaffinity(0))
        print(f"PostgreSQL: two workers / one: {ratio:.2f}; wanted 1")


if __name__ == "__main__":
    main()
