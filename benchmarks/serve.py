"""How fast the service is, as ratios of one run: beside a FastAPI endpoint that only writes one row, in bulk, and on PostgreSQL.

    python benchmarks/serve.py [--seconds 5] [--postgres postgresql://...] [--write docs/...]

Servers have one core and clients the other, so that clients are no part of what is measured; with two workers all share both.
"""

import argparse
import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import numpy as np

CLIENTS = 32
DIM = 5
AGENTS = 1000
YARDSTICK = """
import json, sqlite3, sys
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

class Body(BaseModel):
    g: list[float]
    id: str

rows = sqlite3.connect(sys.argv[2], isolation_level=None, check_same_thread=False)
rows.execute("PRAGMA journal_mode = WAL")
rows.execute("PRAGMA synchronous = " + sys.argv[3])
rows.execute("CREATE TABLE IF NOT EXISTS rounds (id TEXT PRIMARY KEY, agent TEXT, g TEXT)")
app = FastAPI()

@app.get("/healthz")
async def alive():
    return {}

@app.post("/agents/{name}/update")
async def write(name: str, body: Body):
    rows.execute("INSERT INTO rounds VALUES (?, ?, ?)", (body.id, name, json.dumps(body.g)))
    return {"written": True}

uvicorn.run(app, port=int(sys.argv[1]), log_level="warning", access_log=False)
"""


def find_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@contextmanager
def run_server(command: list[str], port: int, cores: set[int]):
    """A server on these cores, until the block ends."""
    process = subprocess.Popen(
        [sys.executable, *command],
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
        yield
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


async def send(port: int, bodies, until: float) -> int:
    """Send one request after the other on one connection; how many were answered with 200."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    count = 0
    for path, body in bodies:
        if time.monotonic() > until:
            break
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
        count += 1
    writer.close()
    return count


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
            {"agent": name, "g": one, "id": f"{run}-{client}-{i}"} for name, one in zip(names, g, strict=True)
        ]
        yield "/rounds", json.dumps({"rounds": rounds}).encode()


def measure(port: int, make, clients: int, seconds: float, run: str, names: list[str]) -> float:
    """Requests a second, by so many clients at once."""

    async def all_clients() -> float:
        start = time.monotonic()
        until = start + seconds
        counts = await asyncio.gather(*(send(port, make(c, run, names), until) for c in range(clients)))
        return sum(counts) / (time.monotonic() - start)

    return asyncio.run(all_clients())


def measure_service(
    store: str, workers: int, seconds: float, cores: set[int], sync: str, bulk: bool
) -> dict[str, float]:
    port = find_port()
    command = [
        "-m",
        "klazy",
        "serve",
        "--insecure",
        "--store",
        store,
        "--port",
        str(port),
        "--workers",
        str(workers),
    ]
    learner = {
        "class": "klazy.KLazyGD",
        "domain": {"class": "klazy.Simplex", "dim": DIM},
        "sigma": 4.0,
        "k": 60,
    }
    names = [f"agent-{i}" for i in range(AGENTS)]
    found = {}
    with run_server([*command, "--sync", sync, "--log-level", "warning"], port, cores):
        few = names[: 2 * CLIENTS]
        for name in names if bulk else few:
            ask(port, "PUT", f"/agents/{name}", {"learner": learner})
        measure(port, make_updates, CLIENTS, 2.0, f"warm{time.time()}", few)
        found["single"] = measure(port, make_updates, CLIENTS, seconds, f"run{time.time()}", few)
        if bulk:
            measure(port, make_bulk, 1, 2.0, f"warm{time.time()}", names)
            found["bulk"] = AGENTS * measure(port, make_bulk, 2, seconds, f"bulk{time.time()}", names)
    return found


def measure_yardstick(folder: Path, seconds: float, cores: set[int], sync: str) -> float:
    port = find_port()
    script = folder / "yardstick.py"
    script.write_text(YARDSTICK)
    level = {"always": "FULL", "batch": "NORMAL"}[sync]
    with run_server([str(script), str(port), str(folder / f"rows-{sync}.db"), level], port, cores):
        measure(port, make_updates, CLIENTS, 2.0, f"warm{time.time()}", ["a"])
        return measure(port, make_updates, CLIENTS, seconds, f"run{time.time()}", ["a"])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement")
    parser.add_argument("--postgres", help="the URL of an empty PostgreSQL database")
    options = parser.parse_args()
    every = sorted(os.sched_getaffinity(0))
    ours = {every[0]}
    os.sched_setaffinity(0, {every[-1]})
    with tempfile.TemporaryDirectory() as folder:
        for sync in ("always", "batch"):
            rows = measure_yardstick(Path(folder), options.seconds, ours, sync)
            found = measure_service(f"{folder}/{sync}.db", 1, options.seconds, ours, sync, bulk=True)
            again = measure_yardstick(Path(folder), options.seconds, ours, sync)
            yardstick = max(rows, again)
            print(rows, again, found, file=sys.stderr)
            print(f"SQLite, sync={sync}: updates a second / those of an endpoint that writes one row: "
                  f"{found['single'] / yardstick:.2f} (wanted: 0.5)")  # fmt: skip
            print(f"SQLite, sync={sync}: agents a second in requests of {AGENTS} / single updates: "
                  f"{found['bulk'] / found['single']:.1f} (wanted: 10)")  # fmt: skip
        os.sched_setaffinity(0, set(every))
        if options.postgres:
            both = set(every)
            one = measure_service(options.postgres, 1, options.seconds, both, "always", bulk=False)
            two = measure_service(options.postgres, 2, options.seconds, both, "always", bulk=False)
            print(f"PostgreSQL: two workers / one: {two['single'] / one['single']:.2f} (wanted: 1)")


if __name__ == "__main__":
    main()
