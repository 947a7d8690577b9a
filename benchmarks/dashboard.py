"""How soon the service's pages are there: the page of an agent with a million rounds, and the list of ten thousand agents.

Run it as ``python benchmarks/dashboard.py [--rounds 1000000] [--agents 10000] [--store FILE]``. Chromium shows each page; the
table has milliseconds, the median of some calls. A store that is named is made once and kept.
"""

import argparse
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Page, sync_playwright

import klazy as kl
from pages import markdown

LONG = "a-million"
ROUNDS = 1_000_000
AGENTS = 10_000
STEP = 15  # seconds between two rounds
DAY = 86_400
FIRST = 1_772_323_200  # the time stamp of the first round
CALLS = 9
# When the answer began, when it was complete, and when the window first showed something of it.
MARKS = """() => {
  const [answer] = performance.getEntriesByType("navigation");
  const paint = performance.getEntriesByName("first-contentful-paint")[0];
  return [answer.responseStart - answer.requestStart, paint.startTime - answer.responseStart, answer.encodedBodySize];
}"""


def make_store(path: Path, rounds: int, agents: int) -> None:
    """Make a store with one agent of many rounds, and with many agents of a few."""
    rng = np.random.default_rng(0)
    times = FIRST + STEP * np.arange(rounds)
    demand = 40.0 + 25.0 * np.sin(2.0 * np.pi * times / DAY) + rng.gamma(4.0, 2.0, rounds)
    learner = kl.KLazyGD(kl.Box(0.0, 150.0), sigma=1.0, k=20)
    about = {"costs": kl.Pinball(4.0), "movement": kl.L1Movement(3.0), "columns": ["requests"]}
    with kl.Agent.open(path, learner, name=LONG, sync="batch", **about) as agent:
        for at, value in zip(times.tolist(), demand.tolist(), strict=True):
            agent.observe([value], id=at)
    names = [f"service-{i:05}" for i in range(agents)]
    with kl.Fleet.open(path, kl.GD(kl.Simplex(5), sigma=4.0), names, sync="batch") as fleet:
        for _ in range(20):
            fleet.update(rng.normal(size=(agents, 5)))


@contextmanager
def run_service(store: Path) -> Iterator[str]:
    """Serve a store until the block ends; its address."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    command = [
        sys.executable,
        "-m",
        "klazy",
        "serve",
        "--insecure",
        "--store",
        str(store),
        "--port",
        str(port),
    ]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=1).close()
                break
            except OSError:
                time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        os.kill(process.pid, signal.SIGTERM)
        process.wait()


def time_page(page: Page, url: str, what: str, calls: int = CALLS) -> dict[str, Any]:
    """Open a page some times; how long the server took, and how long the window after it."""
    marks = []
    for _ in range(calls):
        page.goto(url)
        while not page.evaluate("performance.getEntriesByName('first-contentful-paint').length"):
            page.wait_for_timeout(5)
        marks.append(page.evaluate(MARKS))
    answer, paint, size = (statistics.median(each) for each in zip(*marks, strict=True))
    return {
        "page": what,
        "answer_begins": f"{answer:.0f}",
        "then_first_paint": f"{paint:.0f}",
        "kB": f"{size / 1000:.0f}",
    }


def measure(store: Path) -> list[dict[str, Any]]:
    """Open each page in Chromium."""
    found = shutil.which("chromium")
    with (
        run_service(store) as home,
        sync_playwright() as play,
        play.chromium.launch(executable_path=found, args=["--no-sandbox"]) as chromium,
    ):
        page = chromium.new_page(viewport={"width": 1280, "height": 900})
        agent = f"{home}/page/{LONG}"
        rows = [time_page(page, agent, "agent, the first call after a start", 1)]
        start = time.monotonic()
        while page.inner_text("#reading"):
            page.wait_for_timeout(200)
        print(
            f"All of its rounds were read {time.monotonic() - start:.0f} s after the first call."
        )
        print()
        rows += [
            time_page(page, f"{agent}?range={span}", f"agent, {span}")
            for span in ("1h", "1d", "30d", "all")
        ]
        rows.append(time_page(page, home, "list, the first call after a start", 1))
        rows.append(time_page(page, home, "list"))
        rows.append(time_page(page, f"{home}/?search=99&order=idle", "list, searched and sorted"))
    return rows


def main() -> None:
    """Make the store, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--agents", type=int, default=AGENTS)
    parser.add_argument("--store", type=Path, help="make the store here, and keep it")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=Path(__file__).parent) as folder:
        store = given.store or Path(folder) / "decisions.db"
        if not store.exists():
            make_store(store, given.rounds, given.agents)
        print(
            f"Milliseconds, the median of {CALLS} calls. One agent has {given.rounds:,} rounds."
        )
        print(f"The list has {given.agents + 1:,} agents.")
        print("\n".join(markdown(measure(store))))


if __name__ == "__main__":
    main()
