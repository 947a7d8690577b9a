"""What kernels for a level of processors take, next to kernels for this processor: python benchmarks/levels.py [--write FILE].

Each level has a process of its own. They play in turn, and the median of the quotients of their CPU-seconds counts, because the
machine's clock moves between runs by more than what is measured.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import klazy as kl
import pages
from klazy.kernels.target import LEVELS, list_levels

HEADING = "## Kernels for a level of processors"
ROUNDS = {5: 200_000, 50: 40_000}  # by dimension: some milliseconds
REPEATS = 15
WORK = "work"


def list_games() -> dict[str, Callable[[], object]]:
    """List what is played."""
    rng = np.random.default_rng(0)
    games: dict[str, Callable[[], object]] = {}
    for d, T in ROUNDS.items():
        g = rng.normal(size=(T, d))
        for name, domain in {
            "l2 ball": kl.L2Ball(d),
            "l1 ball": kl.L1Ball(d),
            "box": kl.Box(np.full(d, -(d**-0.5)), np.full(d, d**-0.5)),
            "simplex": kl.Simplex(d),
        }.items():
            games[f"KLazyGD, {name}, d = {d}"] = play(kl.KLazyGD(domain, 1.0, k=65), g)
    g = rng.normal(size=(3000, 5))
    games["auto, simplex, d = 5"] = play(kl.auto(kl.Simplex(5)), g)
    games["auto, box, d = 5"] = play(kl.auto(kl.Box(np.zeros(5), np.ones(5))), g)
    games["auto, simplex, d = 20"] = play(kl.auto(kl.Simplex(20)), rng.normal(size=(500, 20)))
    many = [kl.KLazyGD(kl.Simplex(5), sigma, k=65) for sigma in np.linspace(1.0, 9.0, 64)]
    games["batch of 64 KLazyGD, simplex, d = 5"] = lambda: kl.run_batch(many, g)
    agent = kl.Agent(kl.auto(kl.Simplex(5)), costs=kl.Linear())
    games["agent with auto, simplex, d = 5"] = lambda: [agent.observe(row) for row in g[:300]]
    return games


def play(learner: Any, g: np.ndarray) -> Callable[[], object]:
    """Return a call that plays all rows."""
    return lambda: kl.run(learner, g, record="totals")


def work() -> None:
    """Play what is named on each line of the input, and print the CPU-seconds."""
    warnings.simplefilter("ignore")  # A run may say that it takes long.
    games = list_games()
    for call in games.values():
        call()  # This compiles.
    for line in sys.stdin:
        call = games[line.strip()]
        start = time.process_time()
        call()
        print(time.process_time() - start, flush=True)


def start_worker(cache: str, **target: str) -> subprocess.Popen[str]:
    """Start the process of a level."""
    return subprocess.Popen(
        [sys.executable, __file__, WORK],
        env=os.environ | target | {"KLAZY_CACHE_DIR": cache},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def ask(worker: Any, game: str) -> float:
    """Let a worker play, and return the CPU-seconds."""
    worker.stdin.write(f"{game}\n")
    worker.stdin.flush()
    return float(worker.stdout.readline())


def make(out: Path, folder: Path) -> str:
    """Return the text after the heading."""
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as cache:
        native = start_worker(cache)
        workers = {
            level: start_worker(cache, NUMBA_CPU_NAME=level, NUMBA_CPU_FEATURES=LEVELS[level])
            for level in list_levels()
        }
        for game in list_games():
            ratios: dict[str, list[float]] = {level: [] for level in workers}
            for _ in range(REPEATS):
                alone = ask(native, game)
                for level, worker in workers.items():
                    ratios[level].append(ask(worker, game) / alone)
            found = {level: f"{statistics.median(each):.2f}" for level, each in ratios.items()}
            rows.append({"what": game, **found})
        for worker in (native, *workers.values()):
            worker.communicate()
    before = (
        "CPU-time of kernels for a level, such as those of [the pack](start.md#compiled-kernels), as a multiple of that of "
        f"kernels for this processor: the median of {REPEATS} quotients. Printed by `python benchmarks/levels.py`."
    )
    return "\n".join([before, "", *pages.markdown(rows)])


if __name__ == "__main__":
    if sys.argv[1:] == [WORK]:
        work()
    else:
        pages.run(__doc__, HEADING, "build/levels", make)
