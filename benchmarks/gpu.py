"""What a GPU makes of batches, ensembles and sweeps: the table of docs/benchmarks.md, python benchmarks/gpu.py.

It needs a GPU, but for `--only host`: what a sweep costs beside its rounds. Rates are learner-rounds a second of one launch
with its copies, the best of several.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import klazy as kl
from klazy.game import device
from klazy.game.device import Grid, cut_grid, name_device, play_pieces

T = 60_000
D = 5
RUNS = 270_336
AGREE_ROUNDS = 90
PARTS = ["host", "rates", "agree", "ensembles", "parts", "large", "sweeps"]
AIMED = ("rates", "ensembles", "large")  # the parts whose figures have an aim
# What was measured that has an aim: its aim and its value.
REACHED: dict[str, tuple[str, str]] = {}

SETS: list[kl.types.ConvexSet] = [
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
SCHEDULES = [
    kl.Constant(1.7),
    kl.Sqrt(9.0),
    kl.Sqrt(0.3, 4.5),
    kl.Doubling(2.0),
    kl.ScaleFree(2.0),
]
MEMORIES = [
    kl.memories.Forget(),
    kl.memories.Full(),
    kl.memories.Clock(7),
    kl.memories.Decay(12.5),
    kl.memories.Clip(3.0),
    kl.memories.Event(4.0),
]


def list_makers() -> dict[str, Any]:
    """Every learner that batches play, by name."""
    makers: dict[str, Any] = {
        "GD": kl.GD,
        "LazyGD": kl.LazyGD,
        "KLazyGD": lambda domain, sigma: kl.KLazyGD(domain, sigma, k=7),
        "KLazyFTRL": lambda domain, sigma: kl.KLazyFTRL(domain, sigma, k=5),
        "CentredOMD": kl.CentredOMD,
        "Patient": lambda domain, sigma: kl.contrib.Patient(domain, sigma, move_cost=0.4),
    }
    for memory in MEMORIES:
        makers[repr(memory)] = lambda domain, sigma, memory=memory: kl.MemoryGD(
            domain, sigma, memory=memory
        )
    return makers


def list_movements(d: int) -> list[kl.types.Movement]:
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


def unit_rows(T: int, d: int, seed: int = 0) -> np.ndarray:
    g = np.random.default_rng(seed).normal(size=(T, d))
    return g / np.linalg.norm(g, axis=1, keepdims=True)


def measure_rate(learners: list[Any]) -> tuple[float, float]:
    """Learner-rounds a second of one launch, its copies included, and the seconds that it took: the best of five."""
    g = unit_rows(T, D)
    who = np.resize(np.arange(len(learners)), RUNS)
    grid = Grid(learners, [g], [who], kl.L2Movement(), np.array([T]))
    pieces = list(cut_grid(grid))
    best = np.inf
    for _ in range(6):
        start = time.perf_counter()
        for _ in play_pieces(iter(pieces)):
            pass
        best = min(best, time.perf_counter() - start)
    return RUNS * T / best, best


def list_slacks() -> list[tuple[int, float]]:
    """4096 pairs of a slack and a scale."""
    slacks = np.unique(np.geomspace(1, 3000, 80).astype(int))[:64]
    return [(int(k), float(c)) for k in slacks for c in np.geomspace(1.0, 1000.0, 64)]


def print_rates() -> None:
    cases: list[tuple[str, float, list[Any]]] = []
    for domain, name, aim in (
        (kl.L2Ball(D), "l2 ball", 1.5e11),
        (kl.L1Ball(D), "l1 ball", 1.2e11),
        (kl.Simplex(D), "simplex", 1e11),
    ):
        lazy = [kl.KLazyGD(domain, kl.Sqrt(c), k=k) for k, c in list_slacks()]
        cases.append((f"k-lazyGD, sqrt sigma, {name}", aim, lazy))
    ball = kl.L2Ball(D)
    decays = [
        kl.MemoryGD(ball, kl.ScaleFree(c), memory=kl.memories.Decay(float(k)))
        for k, c in list_slacks()
    ]
    cases.append(("Decay, scale-free sigma, l2 ball", 5e10, decays))
    print(
        f"{RUNS:,} runs of T = {T:,}, d = {D}, totals only, in one launch with its copies, the best of six. The runs are 4096"
    )
    print("learners, each 66 times.\n")
    print("| runs | learner-rounds a second | aim | ms |\n|---|--:|--:|--:|")
    for name, aim, learners in cases:
        rate, seconds = measure_rate(learners)
        print(f"| {name} | {rate:.2e} | {aim:.1e} | {1e3 * seconds:.0f} |", flush=True)
        REACHED[f"{name}, learner-rounds a second"] = (f"{aim:.1e}", f"{rate:.2e}")
    mib = device.PIECE_BYTES // 2**20
    print(
        f"\nWork is cut into pieces of at most {mib} MiB of sequences and sums, two of which are on the GPU at a time.\n"
    )


def draw_sequences(seeds: int, T: int, swing: float = 0.3) -> np.ndarray:
    """Noise with a slow swing, other for every seed."""
    g = np.empty((seeds, T, D))
    for seed in range(seeds):
        g[seed] = unit_rows(T, D, seed) + swing * np.sin(seed + np.arange(T) / 50.0)[:, None]
    return g


def measure_ensembles(learner: Any, g: np.ndarray, sample: int) -> tuple[float, float, float]:
    """Rounds a second on the GPU and on two cores, and the largest relative difference of their costs."""
    seeds, T, _ = g.shape
    learners = [learner for _ in range(seeds)]
    kl.run_batch(learners[:2], g[:2], device="cuda")
    kl.run_batch(learners[:2], g[:2], jobs=2)
    start = time.perf_counter()
    batch = kl.run_batch(learners, g, device="cuda")
    on_gpu = seeds * T / (time.perf_counter() - start)
    start = time.perf_counter()
    few = kl.run_batch(learners[:sample], g[:sample], jobs=2)
    on_cpu = sample * T / (time.perf_counter() - start)
    apart = np.abs(batch.cost[:sample] - few.cost) / np.maximum(
        1.0, np.abs(few.hitting) + few.switching
    )
    return on_gpu, on_cpu, float(apart.max())


def print_ensembles(seeds: int = 4096, T: int = 10_000, sample: int = 64) -> None:
    ball = kl.L2Ball(D)
    cases = {
        "auto, l2 ball": kl.auto(ball, kl.L2Movement(1.0)),
        "auto, simplex": kl.auto(kl.Simplex(D), kl.TVMovement(1.0)),
        "SAder (ensemble_auto), l2 ball": kl.contrib.ensemble_auto(ball),
    }
    g = draw_sequences(seeds, T)
    print(
        f"Ensembles on {seeds} sequences of T = {T:,}: `run_batch` from call to sums, beside `run_batch(jobs=2)` of {sample}"
    )
    print(
        "of them on the same machine. The aim is 100 times for auto. The difference is relative to what is paid.\n"
    )
    print("| learner | experts | GPU, rounds/s | 2 cores, rounds/s | times | difference |")
    print("|---|--:|--:|--:|--:|--:|")
    for name, learner in cases.items():
        on_gpu, on_cpu, apart = measure_ensembles(learner, g, sample)
        row = f"| {name} | {len(learner.experts)} | {on_gpu:.2e} | {on_cpu:.2e} | {on_gpu / on_cpu:.0f} | {apart:.1e} |"
        print(row, flush=True)
        if name.startswith("auto"):
            REACHED[f"{name}, times two cores of this machine"] = (
                "100",
                f"{on_gpu / on_cpu:.0f}",
            )
    print()


def time_pieces(learner: Any, g: np.ndarray) -> tuple[float, Any]:
    """Seconds from sequences to sums, copies included, the best of two, and the kernel."""
    T = g.shape[1]
    first = np.zeros(1, dtype=int)

    def cut(some: np.ndarray) -> list[Any]:
        grid = Grid([learner], list(some), [first for _ in some], learner.movement, np.array([T]))
        return list(cut_grid(grid))

    for _ in play_pieces(iter(cut(g[:2]))):  # so that its kernel is compiled
        pass
    pieces = cut(g)
    best = np.inf
    for _ in range(2):
        start = time.perf_counter()
        for _ in play_pieces(iter(pieces)):
            pass
        best = min(best, time.perf_counter() - start)
    return best, pieces[0].launch


def time_copies(g: np.ndarray) -> float:
    """Seconds to send all sequences, and nothing else."""
    from klazy.kernels.cuda import DeviceMemory

    memory = DeviceMemory()
    stream = memory.stream(0)
    start = time.perf_counter()
    for some in np.array_split(g, 8):
        memory.send(some, stream)
        stream.synchronize()
    return time.perf_counter() - start


def print_parts(seeds: int = 4096, T: int = 10_000) -> None:
    """Where the time of auto goes: what is left out makes it so much quicker."""
    g = draw_sequences(seeds, T)
    ball = kl.L2Ball(D)
    movement = kl.L2Movement(1.0)
    whole = kl.auto(ball, movement)
    lasting = [expert for expert in whole.experts if not isinstance(expert, kl.contrib.Seasonal)]
    warp = lasting[:: len(lasting) // 32][:32]
    noise = draw_sequences(seeds, T, 0.0)
    cases = {
        "auto, l2 ball": (whole, g),
        "on noise, where there is no season to plan for": (whole, noise),
        "without the guard": (kl.contrib.Leader(whole.experts, movement, guard=False), g),
        "without the experts of seasons": (kl.contrib.Leader(lasting, movement), g),
        "32 of its experts, one warp": (kl.contrib.Leader(warp, movement), g),
        "auto, simplex": (kl.auto(kl.Simplex(D), kl.TVMovement(1.0)), g),
    }
    print(
        f"Where the time goes: {seeds} sequences to sums, without what `run_batch` does before and after."
    )
    print(f"To send the sequences alone takes {1e3 * time_copies(g):.0f} ms.\n")
    print("| learner | ms | rounds/s | threads | registers | local bytes | own memory, bytes |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    for name, (learner, sequences) in cases.items():
        seconds, launch = time_pieces(learner, sequences)
        about = [launch.threads]
        for ask in (launch.kernel.get_regs_per_thread, launch.kernel.get_local_mem_per_thread):
            found = ask()
            about.append(max(found.values()) if isinstance(found, dict) else found)
        about.append(8 * (launch.own or 0))
        columns = " | ".join(str(number) for number in about)
        print(
            f"| {name} | {1e3 * seconds:.0f} | {seeds * T / seconds:.2e} | {columns} |",
            flush=True,
        )


STUDY = """
name = "a million runs"
seeds = {seeds}
[[scenarios]]
recipe = "stochastic"
phases = 10
length = {length}
[[learners]]
rule = "KLazyGD"
c = {{ logspace = [1.0, 1000.0, {scales}] }}
k = {slacks}
"""


def play_study(place: str, seeds: int, folder: str) -> dict[str, Any]:
    """What `klazy sweep --json` prints of a study with a thousand runs for each seed."""
    file = write_study(seeds, folder)
    command = [sys.executable, "-m", "klazy", "sweep", str(file), "--device", place, "--json"]
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout) | {"whole": time.perf_counter() - start}


def write_study(
    seeds: int, folder: str, length: int = 1000, scales: int = 25, slacks: int = 40
) -> Path:
    """Write a study with ``scales`` values of c and ``slacks`` values of k on sequences of ten phases."""
    file = Path(folder, "study.toml")
    values = list(range(1, slacks + 1))
    file.write_text(STUDY.format(seeds=seeds, length=length, scales=scales, slacks=values))
    return file


def read_study(seeds: int, folder: str, length: int = 1000, learners: int = 0) -> kl.Study:
    """A study with a thousand runs for each seed, or with ``learners`` values of c and as many of k."""
    grid = (learners, learners) if learners else ()
    return kl.Study.read(write_study(seeds, folder, length, *grid))


class TimedKernel:
    """A kernel that records an event of its stream before and after each launch."""

    def __init__(self, kernel: Any, event: Any, launches: list[tuple[Any, Any]]) -> None:
        self.kernel = kernel
        self.event = event
        self.launches = launches

    def __getitem__(self, setting: tuple[Any, ...]) -> Any:
        def launch(*arguments: Any) -> None:
            begin = self.event()
            end = self.event()
            begin.record(stream=setting[2])
            self.kernel[setting](*arguments)
            end.record(stream=setting[2])
            self.launches.append((begin, end))

        return launch


class TimedKernels:
    """Makes kernels of runs whose time on the GPU is measured."""

    def __init__(self) -> None:
        from numba import cuda

        from klazy.kernels.cuda_batch import runs_kernel

        self.cuda = cuda
        self.make = runs_kernel
        self.began = cuda.event()
        self.began.record()
        self.launches: list[tuple[Any, Any]] = []

    def __call__(self, *about: Any) -> Any:
        return TimedKernel(self.make(*about), self.cuda.event, self.launches)

    def measure(self) -> float:
        """The seconds in which a kernel was on the GPU, those of two at once only once."""
        self.cuda.synchronize()
        since: Any = self.began.elapsed_time
        spans = sorted((since(begin), since(end)) for begin, end in self.launches)
        busy = latest = 0.0
        for begin, end in spans:
            busy += max(0.0, end - max(begin, latest))
            latest = max(latest, end)
        return busy / 1e3


def measure_peak() -> float:
    """The most memory that this process had, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def play_large(length: int, seeds: int, learners: int) -> dict[str, float]:
    """Play a sweep in a process of its own, whose memory is then that of the sweep."""
    from klazy.kernels import cuda_batch

    with tempfile.TemporaryDirectory() as folder:
        kl.sweep(read_study(1, folder, 1, 2), device="cuda")
        study = read_study(seeds, folder, length, learners)
        kernels = TimedKernels()
        with mock.patch.object(cuda_batch, "runs_kernel", kernels):
            start = time.perf_counter()
            found = kl.sweep(study, Path(folder, "rows"), device="cuda")
            wall = time.perf_counter() - start
        start = time.perf_counter()
        found.cells()
        return {
            "runs": found.runs,
            "wall": wall,
            "kernels": kernels.measure(),
            "cells": time.perf_counter() - start,
            "peak": measure_peak(),
        }


def print_large(seeds: int, learners: int = 100) -> None:
    """What a long sweep costs beside its kernels: `kl.sweep` into a folder, then the averages of its cells."""
    print(
        f"`kl.sweep(study, folder)` of {learners**2} values of c and k, {seeds} seeds, d = {D}, kernels compiled before; then"
    )
    print(
        "`.cells()`. Kernels are timed by events on the GPU. Memory is the most that the process had on the host.\n"
    )
    print("| runs | T | sweep, s | kernels, s | sweep / kernels | averages, s | memory, GB |")
    print("|--:|--:|--:|--:|--:|--:|--:|")
    context = multiprocessing.get_context("spawn")
    for length in (1000, 10_000):
        with context.Pool(1) as pool:
            found = pool.apply(play_large, (length, seeds, learners))
        share = found["wall"] / max(found["kernels"], 1e-9)
        row = f"| {found['runs']:,} | {10 * length:,} | {found['wall']:.1f} | {found['kernels']:.1f} | {share:.2f} |"
        print(f"{row} {found['cells']:.1f} | {found['peak']:.2f} |", flush=True)
        REACHED[
            f"sweep of {found['runs']:,} runs, T = {10 * length:,}, wall time over the kernels' own"
        ] = (
            "1.5",
            f"{share:.2f}",
        )
    print()


def print_host(seeds: int) -> None:
    """What a sweep costs beside its rounds. It needs no GPU: what one would play are random numbers here."""
    from klazy.studies.sweep import execute

    generator = np.random.default_rng(0)

    def play_nothing(grid: Grid, gpus: Any) -> list[np.ndarray]:
        return [generator.random((len(members), len(grid.marks), 2)) for members in grid.who]

    with (
        mock.patch.object(execute, "choose_device", return_value="cuda"),
        mock.patch.object(execute, "name_device", return_value="nothing"),
        mock.patch.object(device, "play_grid", play_nothing),
        tempfile.TemporaryDirectory() as folder,
    ):
        kl.sweep(read_study(1, folder))
        study = read_study(seeds, folder, 10)
        walls = []
        works = []
        found: Any = None
        for _ in range(3):
            start = time.perf_counter()
            worked = time.process_time()
            found = kl.sweep(study, tempfile.mkdtemp(dir=folder))
            walls.append(time.perf_counter() - start)
            works.append(time.process_time() - worked)
        peak = measure_peak()
        start = time.perf_counter()
        found.cells()
        averages = time.perf_counter() - start
    runs = found.runs
    wall = 1e6 * min(walls) / runs
    work = 1e6 * min(works) / runs
    print(
        f"A sweep of {runs:,} runs whose rounds cost nothing, rows written, the best of three on"
    )
    print(
        f"{os.cpu_count()} cores: {wall:.1f} microseconds a run, {work:.1f} of a processor. At most {peak:.2f} GB of memory."
    )
    print(
        f"The averages of its cells took {averages:.1f} s more, and at most {measure_peak():.2f} GB.\n",
        flush=True,
    )


def print_sweeps(seeds: int) -> None:
    print(
        "`klazy sweep` as a command, Python's start included, rows written, kernels compiled before: a thousand values of"
    )
    print("c and k for each of the seeds, T = 10,000.\n")
    print("| device | runs | seconds | learner-rounds/s |\n|---|--:|--:|--:|")
    times = {}
    compiled = {}
    started = {}
    with tempfile.TemporaryDirectory() as folder:
        for place in ("cuda", "cpu"):
            compiled[place] = play_study(place, 2, tempfile.mkdtemp(dir=folder))["whole"]
            started[place] = play_study(place, 2, tempfile.mkdtemp(dir=folder))["whole"]
        for place in ("cuda", "cpu"):
            found = play_study(place, seeds, tempfile.mkdtemp(dir=folder))
            times[place] = found["whole"]
            rate = found["runs"] * 10_000 / found["whole"]
            print(
                f"| {found['device']} | {found['runs']:,} | {found['whole']:.1f} | {rate:.2e} |",
                flush=True,
            )
    print(
        f"\nThe GPU is {times['cpu'] / times['cuda']:.1f} times as fast from end to end; the aim was 20."
    )
    for place in times:
        print(
            f"On {place} the command takes {started[place]:.1f} s for two seeds, {compiled[place]:.1f} s with compilation."
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=PARTS, action="append")
    parser.add_argument(
        "--aims", action="store_true", help=f"only {', '.join(AIMED)}, whose figures have an aim"
    )
    parser.add_argument(
        "--everything", action="store_true", help="compare every cell with step, not a choice"
    )
    parser.add_argument(
        "--seeds", type=int, default=1000, help="of the sweep, a thousand runs each"
    )
    options = parser.parse_args()
    parts = options.only or (AIMED if options.aims else PARTS)
    if "host" in parts:
        print_host(options.seeds)
    if parts == ["host"]:
        return
    cores = os.cpu_count()
    print(
        f"Machine: one {name_device('cuda')}, {cores} CPU cores; Python {platform.python_version()}.\n",
        flush=True,
    )
    if "rates" in parts:
        print_rates()
    if "agree" in parts:
        count, apart, where = compare_with_step(options.everything)
        print(
            f"Largest difference to `step` over {count} cells of sets, learners, schedules and movements: {apart:.1e},"
        )
        print(f"relative to what is added up ({where}).\n", flush=True)
    if "ensembles" in parts:
        print_ensembles()
    if "parts" in parts:
        print_parts()
    if "large" in parts:
        print_large(options.seeds)
    if "sweeps" in parts:
        print_sweeps(options.seeds)
    if REACHED:
        print("| what has an aim | aim | here |\n|---|--:|--:|")
    for what, (aim, value) in REACHED.items():
        print(f"| {what} | {aim} | {value} |")


if __name__ == "__main__":
    main()
