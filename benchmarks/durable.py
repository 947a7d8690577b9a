"""What an agent on disk costs, beside one in memory and beside the bare writes: python benchmarks/durable.py.

Contenders take turns, a burst of rounds each, and the medians of the quotients are reported. The files lie beside this one,
because a folder for temporary files may be in memory, where fsync costs nothing.
"""

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import klazy as kl
from klazy.live.records import length_of

D = 5
BURST = {"memory": 20_000, "batch": 20_000, "always": 100}  # rounds: tens to hundreds of milliseconds
GUARDS = kl.Guards(per_round=0.05, movement=kl.L1Movement())


def per_round(update: Callable[[np.ndarray], object], g: np.ndarray) -> float:
    """Seconds that a round takes."""
    start = time.perf_counter()
    for row in g:
        update(row)
    return (time.perf_counter() - start) / len(g)


def bare_writes(path: Path, sync: bool) -> Callable[[np.ndarray], object]:
    """As many bytes as a record has, written and perhaps forced to disk, with nothing around it."""
    file, data, place = (
        os.open(path, os.O_RDWR | os.O_CREAT),
        bytes(length_of(D)),
        iter(range(0, 2**62, length_of(D))),
    )

    def write(_: np.ndarray) -> None:
        os.pwrite(file, data, next(place))
        if sync:
            os.fsync(file)

    return write


def updates(repeats: int = 9) -> list[str]:
    """The table: rounds a second, and each mode's time over that of an agent in memory and over that of the writes alone."""
    learner, rng = kl.KLazyGD(kl.L2Ball(D), kl.Sqrt(60), 65), np.random.default_rng(0)
    with tempfile.TemporaryDirectory(dir=Path(__file__).parent) as name:
        folder = Path(name)
        agents = {"memory": kl.Agent(learner), "memory, guarded": kl.Agent(learner, guards=GUARDS)}
        for sync in ("batch", "always"):
            agents[sync] = kl.Agent.open(folder / sync, learner, sync=sync)
            agents[f"{sync}, guarded"] = kl.Agent.open(
                folder / f"{sync}-guarded", learner, sync=sync, guards=GUARDS
            )
        calls: dict[str, Callable[[np.ndarray], object]] = {
            name: agent.update for name, agent in agents.items()
        }
        calls |= {
            f"{sync}, writes": bare_writes(folder / f"{sync}-writes", sync == "always")
            for sync in ("batch", "always")
        }
        times: dict[str, list[float]] = {name: [] for name in calls}
        for _ in range(repeats):
            for name, call in calls.items():
                times[name].append(per_round(call, rng.normal(size=(BURST[name.split(",")[0]], D))))
        for agent in agents.values():
            agent.close()
    return _table(times)


def _table(times: dict[str, list[float]]) -> list[str]:
    lines = ["| agent | rounds a second | over memory | over the writes alone |", "|---|--:|--:|--:|"]
    for name, own in times.items():
        mode = name.split(",")[0]
        over = [
            statistics.median(a / b for a, b in zip(own, times[base], strict=True)) if base in times else None
            for base in ("memory", f"{mode}, writes")
        ]
        cells = " | ".join(
            "" if ratio is None else f"{ratio:.1f}" if ratio < 100 else f"{ratio:.0f}" for ratio in over
        )
        if not name.endswith("writes"):
            lines.append(f"| {name} | {1.0 / statistics.median(own):.0f} | {cells} |")
    return lines


if __name__ == "__main__":
    print("\n".join(updates()))
