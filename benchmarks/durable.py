"""What an agent in a store costs, beside one in memory and beside a bare insert: python benchmarks/durable.py.

Contenders take turns, a burst of rounds each, and the medians of the quotients are reported. The files lie beside this one,
because a folder for temporary files may be in memory, where fsync costs nothing. With ``--against FOLDER``, the source tree of
another commit, its durable agents take turns with these, in a process of their own.
"""

import argparse
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

import klazy as kl

D = 5
BURST = {
    "memory": 20_000,
    "batch": 20_000,
    "always": 100,
}  # rounds: tens to hundreds of milliseconds
GUARDS = kl.Guards(per_round=0.05, movement=kl.L1Movement())
LEARNER = kl.KLazyGD(kl.L2Ball(D), kl.Sqrt(60), k=65)
HISTORY = 1_000_000  # rounds before an agent is opened
FLEET = 100_000  # agents in memory
CALLS = 20  # of a fleet, while the loop over its agents goes round once
STORED = 300  # and in a store, where each agent of the loop has its file open

Contender = Callable[[int], float]


def per_round(update: Callable[[np.ndarray], object], g: np.ndarray) -> float:
    """Seconds that a round takes."""
    start = time.perf_counter()
    for row in g:
        update(row)
    return (time.perf_counter() - start) / len(g)


def open_agents(folder: Path) -> dict[str, Any]:
    """An agent of each kind; also a tree in which an agent is a folder can make them."""
    agents = {}
    for sync in ("batch", "always"):
        agents[sync] = kl.Agent.open(folder / f"{sync}.db", LEARNER, sync=sync)
        agents[f"{sync}, guarded"] = kl.Agent.open(
            folder / f"{sync}-guarded.db", LEARNER, sync=sync, guards=GUARDS
        )
    return agents


def insert_bare(path: Path, synchronous: str) -> Callable[[np.ndarray], object]:
    """A row with two numbers' bytes and a few more, committed, with nothing around it."""
    base = sqlite3.connect(path, isolation_level=None)
    base.execute("PRAGMA journal_mode = WAL")
    base.execute(f"PRAGMA synchronous = {synchronous}")
    base.execute(
        "CREATE TABLE rows (key INTEGER PRIMARY KEY, at REAL, g BLOB, x BLOB, cost REAL)"
    )

    def insert(row: np.ndarray) -> None:
        data = row.tobytes()
        base.execute(
            "INSERT INTO rows (at, g, x, cost) VALUES (?, ?, ?, ?)",
            (time.time(), data, data, 1.0),
        )

    return insert


class Other:
    """The same agents of another source tree, in a process of their own."""

    def __init__(self, tree: Path, folder: Path) -> None:
        folder.mkdir()
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--serve", str(folder)],
            env=os.environ | {"PYTHONPATH": str(tree)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def burst(self, name: str, rounds: int) -> float:
        """Seconds per round of one of its agents."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(f"{name}:{rounds}", file=self.process.stdin, flush=True)
        return float(self.process.stdout.readline())

    def close(self) -> None:
        """End it."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def serve(folder: Path) -> None:
    """Play bursts as they are asked for."""
    agents = open_agents(folder)
    rng = np.random.default_rng(0)
    for line in sys.stdin:
        name, rounds = line.split(":")
        print(per_round(agents[name].update, rng.normal(size=(int(rounds), D))), flush=True)
    for agent in agents.values():
        agent.close()


def updates(repeats: int = 9, against: Path | None = None) -> list[str]:
    """The table: rounds a second, and each agent's time over that of one in memory, of a bare insert, of another tree."""
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory(dir=Path(__file__).parent) as name:
        folder = Path(name)
        agents = {
            "memory": kl.Agent(LEARNER),
            "memory, guarded": kl.Agent(LEARNER, guards=GUARDS),
        }
        agents |= open_agents(folder)
        for sync in ("batch", "always"):
            file = folder / f"{sync}-alone.db"
            agents[f"{sync}, not shared"] = kl.Agent.open(file, LEARNER, sync=sync, shared=False)
        calls: dict[str, Callable[[np.ndarray], object]] = {
            key: agent.update for key, agent in agents.items()
        }
        calls["batch, insert"] = insert_bare(folder / "batch-insert.db", "NORMAL")
        calls["always, insert"] = insert_bare(folder / "always-insert.db", "FULL")
        other = None if against is None else Other(against, folder / "other")
        times: dict[str, list[float]] = {key: [] for key in calls}
        for _ in range(repeats):
            for key, call in calls.items():
                rounds = BURST[key.split(",")[0]]
                times[key].append(per_round(call, rng.normal(size=(rounds, D))))
                if other is not None and key in (
                    "batch",
                    "batch, guarded",
                    "always",
                    "always, guarded",
                ):
                    times.setdefault(f"{key}, other", []).append(other.burst(key, rounds))
        for agent in agents.values():
            agent.close()
        if other is not None:
            other.close()
    return _table(times, against is not None)


def _table(times: dict[str, list[float]], compared: bool) -> list[str]:
    titles = ["agent", "rounds a second", "over memory", "over a bare insert"]
    if compared:
        titles.append("over the other tree")
    lines = ["| " + " | ".join(titles) + " |", "|---" + "|--:" * (len(titles) - 1) + "|"]
    for name, own in times.items():
        mode = name.split(",")[0]
        bases = ["memory", f"{mode}, insert"]
        if compared:
            bases.append(f"{name.removesuffix(', not shared')}, other")
        cells = [name, f"{1.0 / statistics.median(own):.0f}"]
        for base in bases:
            cells.append(_divide(own, times.get(base)))
        if not name.endswith(("insert", "other")):
            lines.append("| " + " | ".join(cells) + " |")
    return lines


def _divide(own: list[float], base: list[float] | None) -> str:
    if base is None:
        return ""
    ratio = statistics.median(a / b for a, b in zip(own, base, strict=True))
    return f"{ratio:.2f}" if ratio < 10 else f"{ratio:.0f}"


def opening(rounds: int = HISTORY, repeats: int = 9) -> str:
    """How much longer it takes to open an agent after many rounds than after none."""
    rng = np.random.default_rng(0)
    taken: dict[str, list[float]] = {"new": [], "long": []}
    with tempfile.TemporaryDirectory(dir=Path(__file__).parent) as name:
        files = {key: Path(name) / f"{key}.db" for key in taken}
        kl.Agent.open(files["new"], LEARNER).close()
        with kl.Agent.open(files["long"], LEARNER, sync="batch") as agent:
            for row in rng.normal(size=(rounds, D)):
                agent.update(row)
        for _ in range(repeats):
            for key, file in files.items():
                start = time.perf_counter()
                agent = kl.Agent.open(file)
                taken[key].append(time.perf_counter() - start)
                agent.close()
        size = files["long"].stat().st_size / rounds
    more = statistics.median(b - a for a, b in zip(taken["new"], taken["long"], strict=True))
    return f"Opening an agent after {rounds:,} rounds takes {1e3 * more:.1f} ms more than after none; {size:.0f} bytes a round."


def fleets(count: int = FLEET, repeats: int = 9) -> str:
    """How much faster a fleet plays than a loop over its agents, in memory and in a store."""
    rng = np.random.default_rng(0)
    g = rng.normal(size=(count, D))
    fleet = kl.Fleet(LEARNER, count)
    agents = [kl.Agent(LEARNER) for _ in range(count)]
    ratios: list[float] = []
    rates: list[float] = []
    for _ in range(repeats):
        start = time.perf_counter()
        for _ in range(CALLS):
            fleet.update(g)
        middle = time.perf_counter()
        for agent, row in zip(agents, g, strict=True):
            agent.update(row)
        end = time.perf_counter()
        ratios.append((end - middle) * CALLS / (middle - start))
        rates.append(count * CALLS / (middle - start))
    factor = statistics.median(ratios)
    rate = statistics.median(rates)
    words = f"A fleet of {count:,} agents in memory plays {rate:,.0f} rounds a second, {factor:.0f} times as many as a loop"
    return f"{words}; in a store {_stored_fleet(g[:STORED]):.1f} times as many, with {STORED:,} agents and sync='batch'."


def _stored_fleet(g: np.ndarray, calls: int = 5) -> float:
    """The same in one SQLite file, the agents of the loop one after the other."""
    names = [str(i) for i in range(len(g))]
    ratios = []
    with tempfile.TemporaryDirectory(dir=Path(__file__).parent) as name, ExitStack() as opened:
        fleet = opened.enter_context(
            kl.Fleet.open(Path(name) / "fleet.db", LEARNER, names, sync="batch")
        )
        agents = []
        for each in names:
            agent = kl.Agent.open(Path(name) / "loop.db", LEARNER, name=each, sync="batch")
            agents.append(opened.enter_context(agent))
        for _ in range(calls):
            start = time.perf_counter()
            fleet.update(g)
            middle = time.perf_counter()
            for agent, row in zip(agents, g, strict=True):
                agent.update(row)
            ratios.append((time.perf_counter() - middle) / (middle - start))
    return statistics.median(ratios)


def main() -> None:
    """Print the table, how long opening takes, and what a fleet gains."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--against", type=Path, help="the src folder of another commit")
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=HISTORY, help="of the agent that is opened")
    given = parser.parse_args()
    if given.serve is not None:
        serve(given.serve)
        return
    print("\n".join(updates(against=given.against)))
    print()
    print(opening(given.rounds))
    print()
    print(fleets())


if __name__ == "__main__":
    main()
