"""What a GPU makes of batches, ensembles and sweeps: the table of docs/benchmarks.md, python benchmarks/gpu.py [--write FILE].

It needs a GPU. Rates are learner-rounds a second of whole calls of the kernel, copies of sums included, the best of several.
"""

import argparse
import itertools
import multiprocessing
import os
import sys
import time

from typing import Any

import numpy as np

import klazy as kl

T = 60_000
D = 5
RUNS = 270_336
AGREE_ROUNDS = 90

SETS: list[kl.ConvexSet] = [
    kl.L2Ball(5, 0.7, [2.0, -1.0, 0.5, 0.0, 0.1]),
    kl.L1Ball(5, 2.0, [1.0, 0.0, -3.0, 0.2, 0.0]),
    kl.Simplex(3, 2.0),
    kl.Box([-1.0, 0.5], [1.0, 2.0]),
    kl.CappedSimplex(4, -0.5, [0.3, 1.0, 2.0, 0.0], [-1.0, -0.2, 0.0, -0.4]),
    kl.Product([kl.L1Ball(2), kl.CappedSimplex(3, 1.5, 1.0), kl.Simplex(2), kl.L2Ball(1)]),
    kl.L2Ball(20),
    kl.L1Ball(64, 3.0),
    kl.Simplex(33),
]
SCHEDULES = [kl.Constant(1.7), kl.Sqrt(9.0), kl.Sqrt(0.3, 4.5), kl.Doubling(2.0), kl.ScaleFree(2.0)]
MEMORIES = [kl.Forget(), kl.Full(), kl.Clock(7), kl.Decay(12.5), kl.Clip(3.0), kl.Event(4.0)]


def list_makers() -> dict[str, Any]:
    """Every learner that batches play, by name."""
    makers: dict[str, Any] = {
        "GD": kl.GD,
        "LazyGD": kl.LazyGD,
        "KLazyGD": lambda domain, sigma: kl.KLazyGD(domain, sigma, 7),
        "KLazyFTRL": lambda domain, sigma: kl.KLazyFTRL(domain, sigma, 5),
        "CentredOMD": kl.CentredOMD,
        "Patient": lambda domain, sigma: kl.Patient(domain, sigma, 0.4),
    }
    for memory in MEMORIES:
        makers[repr(memory)] = lambda domain, sigma, memory=memory: kl.MemoryGD(domain, sigma, memory)
    return makers


def list_movements(d: int) -> list[kl.Movement]:
    """A movement of every kind, one of them with a price for every round."""
    prices = np.linspace(0.5, 2.0, AGREE_ROUNDS)
    return [kl.L2Movement(), kl.L1Movement(0.3), kl.L2Movement(prices), kl.TVMovement(2.0)]


def list_cells(everything: bool) -> list[tuple[int, str, int, int]]:
    """Sets, learners, schedules and movements by number: all, or of schedules and movements some in turn."""
    cells = []
    for s, name in itertools.product(range(len(SETS)), list_makers()):
        turn = len(cells)
        schedules = range(len(SCHEDULES)) if everything else [turn % len(SCHEDULES)]
        for schedule in schedules:
            cells.append((s, name, schedule, (turn + schedule) % 4))
    return cells


def measure_difference(cell: tuple[int, str, int, int]) -> float:
    """The largest difference between a GPU and ``step``, relative to what is added up."""
    s, name, schedule, move = cell
    domain = SETS[s]
    g = np.random.default_rng(s).normal(size=(AGREE_ROUNDS, domain.dim))
    g[:3] = 0.0  # a scale-free schedule has nothing to go by at first
    movement = list_movements(domain.dim)[move]
    learner = list_makers()[name](domain, SCHEDULES[schedule])
    batch = kl.run_batch([learner], g, movement=movement, device="cuda")
    trace = kl.run(learner, g, movement=movement, engine="step", record="costs")
    hit = abs(batch.hitting[0] - trace.totals.hitting) / max(1.0, np.abs(trace.hitting).sum())
    paid = abs(batch.switching[0] - trace.totals.switching) / max(1.0, trace.totals.switching)
    return float(max(hit, paid))


def compare_with_step(everything: bool) -> tuple[int, float, str]:
    """How many cells were tried, the largest difference, and where it was."""
    cells = list_cells(everything)
    context = multiprocessing.get_context("spawn")
    with context.Pool(min(12, os.cpu_count() or 1)) as pool:
        found = pool.map(measure_difference, cells, chunksize=2)
    worst = int(np.argmax(found))
    s, name, schedule, _ = cells[worst]
    return len(cells), found[worst], f"{name} on {SETS[s]} under {SCHEDULES[schedule]}"


if __name__ == "__main__":
    print(compare_with_step("--all" in sys.argv))
