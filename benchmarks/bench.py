"""The speed and memory table of docs/benchmarks.md, as ratios measured in one run: python benchmarks/bench.py [--write FILE].

Times are compared in pairs, one call of each contender in turn, and the median of the quotients is reported, because the
machine's clock moves between runs by more than what is measured.
"""

import argparse
import ctypes
import itertools
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import aims
import klazy as kl
from durable import fleets, opening, updates
from klazy.studies.results import ResultStore
from optimum import against_clarabel, against_loops
from uncompiled import of_uncompiled_sets

HERE = Path(__file__).parent
# From here on the page is of benchmarks/start.py, of benchmarks/levels.py, and of benchmarks/gpu.py, which needs a GPU.
OTHERS = "\n## The first second\n"
SLACKS = (1, 65, 1500)
ROUNDS = {
    1: 200_000,
    5: 200_000,
    50: 40_000,
    1000: 2_000,
    100_000: 60,
}  # by dimension: a few to tens of milliseconds
C = 60.0  # of sigma_t = sqrt(t / C)
EXPERTS = 11
SETS: dict[str, Callable[[int], kl.types.ConvexSet]] = {
    "l2 ball": kl.L2Ball,
    "l1 ball": kl.L1Ball,
    "box": lambda d: kl.Box(np.full(d, -(d**-0.5)), np.full(d, d**-0.5)),
    "simplex": kl.Simplex,
}


def seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def paired(
    ours: Callable[[], object], theirs: Callable[[], object], repeats: int = 15
) -> tuple[float, float]:
    """The median of ours / theirs, and our best time in seconds."""
    ours()
    theirs()
    pairs = [(seconds(ours), seconds(theirs)) for _ in range(repeats)]
    return statistics.median(a / b for a, b in pairs), min(a for a, _ in pairs)


def noisy_phases(T: int, d: int) -> np.ndarray:
    """Fifteen phases of alternating sign under noise, rows of unit norm, as in the paper's stochastic experiment."""
    sign = np.where(np.arange(T) * 15 // T % 2, -1.0, 1.0)[:, None]
    g = sign + np.random.default_rng(0).normal(scale=10**0.5, size=(T, d))
    return g / np.linalg.norm(g, axis=1, keepdims=True)


def compiled_c(d: int, number: int, folder: str) -> ctypes.CDLL:
    target = f"{folder}/plain_{number}_{d}.so"
    flags = [
        "-O3",
        "-march=native",
        "-shared",
        "-fPIC",
        f"-DD={d}",
        f"-DSET={number}",
        f"-DN={EXPERTS}",
    ]
    subprocess.run(
        ["gcc", *flags, str(HERE / "plain_ensemble.c"), "-o", target, "-lm"], check=True
    )
    library = ctypes.CDLL(target)
    address, whole, real = ctypes.c_void_p, ctypes.c_long, ctypes.c_double
    library.play.argtypes = [address, whole, address, whole, real, address, address]
    library.ensemble.argtypes = [
        address,
        whole,
        address,
        address,
        address,
        address,
        real,
        real,
        address,
        address,
    ]
    library.read_all.argtypes, library.read_all.restype = [address, whole], ctypes.c_double
    return library


def against_c(folder: str) -> list[str]:
    """Whole sequences against the plain C loop; for large d also against the time it takes to read the input."""
    lines = [
        "| d | set | "
        + " | ".join(f"k = {k}" for k in SLACKS)
        + " | ns per round, k = 65 | share of bandwidth |"
    ]
    lines.append("|--:|---|--:|--:|--:|--:|--:|")
    for d, T in ROUNDS.items():
        g = noisy_phases(T, d)
        for number, (name, make) in enumerate(SETS.items()):
            domain = make(d)
            plain, p = compiled_c(d, number, folder), domain.parameters()
            ratios, best, share = [], 0.0, ""
            for k in SLACKS:
                learner, totals = kl.KLazyGD(domain, kl.Sqrt(C), k=k), np.zeros(2)

                def by_c(k=k, totals=totals, plain=plain, p=p, domain=domain, g=g, T=T) -> None:
                    x = domain.start.copy()
                    plain.play(
                        g.ctypes.data, T, p.ctypes.data, k, C, x.ctypes.data, totals.ctypes.data
                    )

                ratio, fastest = paired(
                    lambda learner=learner, g=g: kl.run(
                        learner, g, movement="l2", record="totals"
                    ),
                    by_c,
                )
                ours = kl.run(learner, g, movement="l2", record="totals").totals
                np.testing.assert_allclose(ours, totals, rtol=1e-8)
                ratios.append(ratio)
                best = fastest if k == 65 else best
                if k == 65 and d >= 1000:
                    reading = min(
                        seconds(lambda g=g, plain=plain: plain.read_all(g.ctypes.data, g.size))
                        for _ in range(15)
                    )
                    share = f"{reading / fastest:.0%}"
            cells = " | ".join(f"{ratio:.2f}" for ratio in ratios)
            lines.append(f"| {d} | {name} | {cells} | {best / T * 1e9:.0f} | {share} |")
            print(lines[-1], file=sys.stderr, flush=True)
    return lines


def of_reluctance(folder: str) -> list[str]:
    """Whole sequences of Reluctant against the plain C loop, d = 5, with the share of rounds in which it moves."""
    d = 5
    g = noisy_phases(200_000, d)
    pairs: list[tuple[str, kl.types.Movement]] = [
        ("l2 ball", kl.L2Movement()),
        ("box", kl.L1Movement()),
        ("simplex", kl.TVMovement()),
    ]
    lines = [
        "| set | window | horizon | times C | ns per round | moves |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for number, (name, movement) in enumerate(pairs):
        target = f"{folder}/prox_{number}.so"
        flags = ["-O3", "-march=native", "-shared", "-fPIC", f"-DD={d}", f"-DSET={number}"]
        subprocess.run(
            ["gcc", *flags, str(HERE / "plain_prox.c"), "-o", target, "-lm"], check=True
        )
        library = ctypes.CDLL(target)
        address, whole, real = ctypes.c_void_p, ctypes.c_long, ctypes.c_double
        library.play.argtypes = [address, whole, address, real, real, real, address, address]
        domain = SETS[name](d)
        p = domain.parameters()
        for window, horizon in ((4.0, 4.0), (64.0, 256.0)):
            learner = kl.contrib.Reluctant(domain, movement, window, horizon)
            totals = np.zeros(2)

            def by_c(library=library, p=p, learner=learner, totals=totals) -> None:
                x = learner.domain.start.copy()
                a = learner.pace
                library.play(
                    g.ctypes.data,
                    len(g),
                    p.ctypes.data,
                    a,
                    learner.price,
                    1.0,
                    x.ctypes.data,
                    totals.ctypes.data,
                )

            ratio, fastest = paired(
                lambda learner=learner: kl.run(learner, g, record="totals"), by_c
            )
            np.testing.assert_allclose(
                kl.run(learner, g, record="totals").totals, totals, rtol=1e-8
            )
            moves = float((kl.run(learner, g, record="costs").switching > 0.0).mean())
            cells = f"{mark(ratio, ratio <= 1.0)} | {fastest / len(g) * 1e9:.0f} | {moves:.1%}"
            lines.append(f"| {name} | {window:g} | {horizon:g} | {cells} |")
            print(lines[-1], file=sys.stderr, flush=True)
    return lines


def numpy_ensemble(learner: kl.SAder, g: np.ndarray) -> tuple[float, float]:
    """SAder-k in NumPy, vectorised over its experts."""
    domain, log_prior, experts = learner.domain, np.asarray(learner.log_prior), learner.experts
    sigma, k = np.array([[e.sigma(1)] for e in experts]), np.array([e.k for e in experts])  # pyright: ignore
    points = np.tile(domain.start, (len(k), 1))
    anchor, g_sum, moved, losses = (
        points,
        np.zeros_like(points),
        np.zeros(len(k)),
        np.zeros(len(k)),
    )
    x, hitting, switching, step = domain.start, 0.0, 0.0, 0.0
    for t, row in enumerate(g):
        hitting, switching = hitting + row @ x, switching + step
        losses = losses + (points - x) @ row + moved
        w = np.exp(log_prior - learner.beta * (losses - losses.min()))
        starts = (t % k == 0)[:, None]
        anchor, g_sum = np.where(starts, points, anchor), np.where(starts, row, g_sum + row)
        following = domain.nearest(anchor - g_sum / sigma)
        delta = following - points
        moved, points = np.sqrt(np.vecdot(delta, delta)), following
        delta = (w / w.sum()) @ points - x
        x, step = x + delta, np.sqrt(delta @ delta)
    return hitting, switching


def of_ensembles(folder: str) -> list[str]:
    """SAder-k with 11 experts against plain C and against NumPy."""
    lines = [
        "| set | over plain C | times faster than NumPy | ns per round |",
        "|---|--:|--:|--:|",
    ]
    T, few, d = 200_000, 2000, 5
    g = noisy_phases(T, d)
    for number, (name, make) in list(enumerate(SETS.items()))[:2]:
        domain, totals = make(d), np.zeros(2)
        sigma = kl.theory.sigma_grid(T, 1.0, 1.0)[:EXPERTS]
        k = np.maximum(1, (2 * sigma).astype(np.int64))
        learner = kl.SAder(
            [kl.KLazyGD(domain, float(s), k=int(n)) for s, n in zip(sigma, k, strict=True)],
            0.01,
            movement="l2",
        )
        plain, p, log_prior = (
            compiled_c(d, number, folder),
            domain.parameters(),
            np.array(learner.log_prior),
        )

        def by_c(
            plain=plain, p=p, sigma=sigma, k=k, log_prior=log_prior, totals=totals, domain=domain
        ) -> None:
            x, data = domain.start.copy(), [a.ctypes.data for a in (p, sigma, k, log_prior)]
            plain.ensemble(g.ctypes.data, T, *data, 0.01, 1.0, x.ctypes.data, totals.ctypes.data)

        def ours(learner=learner) -> kl.types.Trace:
            return kl.run(learner, g, record="totals")

        ratio, best = paired(ours, by_c)
        np.testing.assert_allclose(ours().totals, totals, rtol=1e-8)
        np.testing.assert_allclose(
            numpy_ensemble(learner, g[:few]), kl.run(learner, g[:few]).totals, rtol=1e-8
        )
        slower, _ = paired(
            lambda learner=learner: numpy_ensemble(learner, g[:few]), ours, repeats=9
        )
        cells = f"{ratio:.2f} | {slower * T / few:.0f} | {best / T * 1e9:.0f}"
        lines.append(f"| {name} | {cells} |")
        print(lines[-1], file=sys.stderr, flush=True)
    return lines


def mark(value: float, is_reached: bool) -> str:
    """A number of a table; one that misses its aim says so."""
    return f"{value:.2f}" if is_reached else f"{value:.2f} (missed)"


# Seconds of a round of auto, by dimension.
AUTO_AIMS = {5: 3e-6, 50: 20e-6, 1000: 250e-6}


def of_auto() -> list[str]:
    """What a round of auto takes, in ``run`` and as an ``Agent.update``, without and with a season, and by dimension."""
    lines = [
        "| set | d | costs | us a round in `run` | us an `Agent.update` |",
        "|---|--:|---|--:|--:|",
    ]
    places: list[tuple[str, kl.types.Movement]] = [
        ("l2 ball", kl.L2Movement()),
        ("box", kl.L1Movement()),
        ("simplex", kl.TVMovement()),
    ]
    cases = [(name, movement, 5, 20_000) for name, movement in places]
    cases += [("simplex", kl.TVMovement(), 50, 2000), ("simplex", kl.TVMovement(), 1000, 200)]
    for name, movement, d, T in cases:
        noise = noisy_phases(T, d)
        waves = noise + np.sin(
            2.0 * np.pi * (np.arange(T)[:, None] / 24.0 + np.linspace(0.0, 1.0, d))
        )
        learner = kl.auto(SETS[name](d), movement)
        for what, g in (("noisy phases", noise), ("a season of 24 rounds", waves)):
            whole = min(
                seconds(lambda g=g, learner=learner: kl.run(learner, g, record="totals"))
                for _ in range(5)
            )
            agent = kl.Agent(learner)
            rows = list(g[: min(T, 2000)])

            def update(agent=agent, rows=rows) -> None:
                for row in rows:
                    agent.update(row)

            single = min(seconds(update) for _ in range(5))
            in_run = mark(whole / T * 1e6, whole / T <= AUTO_AIMS[d])
            live = mark(single / len(rows) * 1e6, d > 5 or single / len(rows) <= 10e-6)
            lines.append(f"| {name} | {d} | {what} | {in_run} | {live} |")
            print(lines[-1], file=sys.stderr, flush=True)
    return lines


def of_every_pair() -> list[str]:
    """What a round of auto takes for every set, movement and cost family that is compiled, d = 5: noisy phases and a season."""
    middle = np.full(5, 0.6)
    places = {
        "l2 ball": kl.L2Ball(5, 0.5, middle),
        "l1 ball": kl.L1Ball(5, 0.5, middle),
        "box": kl.Box(np.full(5, 0.1), np.ones(5)),
        "simplex": kl.Simplex(5),
        "capped simplex": kl.CappedSimplex(5, 1.5, 0.6),
        "product": kl.Product([kl.L2Ball(2, 0.5, middle[:2]), kl.Simplex(3)]),
    }
    movements = ("l2", "l1", "tv", "fee", "squared")
    T = 5000
    noise = noisy_phases(T, 5)
    waves = noise + np.sin(
        2.0 * np.pi * (np.arange(T)[:, None] / 24.0 + np.linspace(0.0, 1.0, 5))
    )
    costs: dict[str, Callable[[np.ndarray], kl.types.Costs]] = {
        "linear": kl.contrib.LinearCosts,
        "quadratic": lambda rows: kl.QuadraticCosts(0.5 + 0.4 * rows),
        "pinball": lambda rows: kl.PinballCosts(0.5 + 0.4 * rows, 2.0, 0.5),
        "log-wealth": lambda rows: kl.LogWealthCosts(np.exp(0.3 * rows)),
    }
    lines = ["| set | movement | " + " | ".join(costs) + " |", "|---|---|" + "--:|" * len(costs)]
    for (place, domain), movement in itertools.product(places.items(), movements):
        cells = []
        for make in costs.values():
            times = []
            for rows in (noise, waves):
                played = make(rows)
                learner = kl.auto(domain, movement, played)
                kl.run(learner, played, engine="compiled", record="totals")
                calls = [
                    seconds(lambda a=learner, b=played: kl.run(a, b, record="totals"))
                    for _ in range(5)
                ]
                times.append(min(calls) / T * 1e6)
            worst = max(times)
            cells.append(
                f"{times[0]:.1f}, {times[1]:.1f}" + ("" if worst <= 12.0 else " (missed)")
            )
        lines.append(f"| {place} | {movement} | " + " | ".join(cells) + " |")
        print(lines[-1], file=sys.stderr, flush=True)
    return lines


def against_step() -> list[str]:
    """Whole sequences and single updates against the NumPy specification, d = 5."""
    lines = ["| what | set | times faster |", "|---|---|--:|"]
    g = noisy_phases(2000, 5)
    long = noisy_phases(200_000, 5)
    for name, make in SETS.items():
        learner = kl.KLazyGD(make(5), kl.Sqrt(C), k=65)

        def by_step(learner=learner) -> None:
            state = learner.init()
            for row in g:
                state = learner.step(state, row)

        ratio, _ = paired(
            by_step, lambda learner=learner: kl.run(learner, long, record="totals"), repeats=7
        )
        lines.append(
            f"| whole sequence, `run` against a loop over `step` | {name} | {ratio * len(long) / len(g):.0f} |"
        )
        agent = kl.Agent(learner)

        def by_agent(agent=agent) -> None:
            for row in g:
                agent.update(row)

        ratio, _ = paired(by_step, by_agent)
        lines.append(
            f"| `Agent.update`, validation included, against `step` | {name} | {ratio:.1f} |"
        )
    return lines


def in_parallel() -> list[str]:
    learners = [kl.KLazyGD(kl.L2Ball(5), kl.Sqrt(C), k=k) for k in range(1, 17)]
    g = noisy_phases(200_000, 5)
    one, _ = paired(
        lambda: kl.run_many(learners, g, record="totals", jobs=1),
        lambda: kl.run_many(learners, g, record="totals"),
    )
    return [f"`run_many` of 16 learners on {os.cpu_count()} cores: {one:.2f} times one core."]


def in_batches() -> list[str]:
    """1000 runs of k-lazyGD over one sequence, on a grid of k and sigma."""
    lines = [
        "| set | times `run_many` | times itself on one core | million learner-rounds a second |",
        "|---|--:|--:|--:|",
    ]
    g = noisy_phases(60_000, 5)
    for name in ("l2 ball", "l1 ball"):
        domain = SETS[name](5)
        grid = [
            kl.KLazyGD(domain, kl.Sqrt(float(c)), k=k)
            for c in np.geomspace(1, 1000, 25)
            for k in range(1, 1001, 25)
        ]
        batch = partial(kl.run_batch, grid, g)
        many = partial(kl.run_many, grid, g, record="totals")
        against, best = paired(many, batch, 5)[0], paired(batch, batch, 3)[1]
        cores = paired(partial(kl.run_batch, grid, g, jobs=1), batch, 5)[0]
        lines.append(
            f"| {name} | {against:.2f} | {cores:.2f} | {len(grid) * len(g) / best / 1e6:.0f} |"
        )
    return lines


def of_sweeps(folder: str) -> list[str]:
    """Peak memory of a batch of 1000 runs; what the store adds to a sweep of 10 000 short ones."""
    script = """
import numpy as np, klazy as kl
from klazy.sequences import stochastic
g = stochastic(0).costs
grid = [kl.KLazyGD(kl.L2Ball(5), kl.Sqrt(float(c)), k=k) for c in np.geomspace(1, 1000, 25) for k in range(1, 1001, 25)]
kl.run_batch(grid, g)
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))  # of this process alone
"""
    short = [{"recipe": "stochastic", "phases": 10, "length": 100}]
    lazy = [{"rule": "KLazyGD", "sigma": {"logspace": [0.1, 10, 10]}, "k": {"powers": [2, 0, 9]}}]
    study = kl.Study(scenarios=short, learners=lazy, seeds=100)
    folders = (f"{folder}/sweep-{i}" for i in range(100))
    kept, best = paired(lambda: kl.sweep(study, next(folders)), lambda: kl.sweep(study), 25)
    shares = [in_store(lambda: kl.sweep(study, next(folders))) for _ in range(25)]
    return [
        f"Peak memory of a process that makes the sequence and plays them: {int(child(script)) / 1024:.0f} MB. Aim: 300.",
        "A sweep of 10 000 runs of T = 1000 (100 seeds by 100 values), processes started: the store takes "
        f"{statistics.median(shares):.1%} of its time (medians of 25), {10_000 / best:,.0f} runs a second; kept in a folder "
        f"over kept in memory {kept:.3f}, which differs by some 5 % from run to run. The aim: 5 %.",
    ]


def in_store(sweep: Callable[[], object]) -> float:
    """The share of a sweep's time in which its store is at work."""
    spent = [0.0]

    def timed(method: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object) -> object:
            start = time.perf_counter()
            try:
                return method(*arguments)
            finally:
                spent[0] += time.perf_counter() - start

        return call

    methods: dict[str, Any] = {
        name: timed(getattr(ResultStore, name)) for name in ("__init__", "write_text", "add")
    }
    with mock.patch.multiple(ResultStore, **methods):
        whole = seconds(sweep)
    return spent[0] / whole


def child(script: str, **environment: str) -> str:
    """What a fresh Python prints."""
    env = {
        key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"
    } | environment
    return subprocess.run(
        [sys.executable, "-c", script], env=env, check=True, capture_output=True, text=True
    ).stdout


def cold_start(folder: str) -> list[str]:
    first = (
        "import time; s = time.perf_counter(); import numpy as np, klazy as kl;"
        "kl.run(kl.KLazyGD(kl.L2Ball(5), 1.0, k=65), np.ones((10, 5))); print(time.perf_counter() - s)"
    )
    cold, warm = (float(child(first, KLAZY_CACHE_DIR=f"{folder}/cache")) for _ in range(2))
    timed = "import time; s = time.perf_counter(); import {}; print(time.perf_counter() - s)"
    numpy_only = statistics.median(float(child(timed.format("numpy"))) for _ in range(9))
    whole = statistics.median(float(child(timed.format("klazy"))) for _ in range(9))
    return [
        f"First result of a fresh process, imports included: {cold:.1f} s without a compile cache, {warm:.2f} s with one.",
        f"`import klazy` takes {1e3 * (whole - numpy_only):.0f} ms more than `import numpy` ({1e3 * numpy_only:.0f} ms).",
    ]


def memory() -> list[str]:
    """Peak beyond the input, which is made in place so that its making leaves no higher peak behind."""
    script = """
import numpy as np, resource, klazy as kl
learner = kl.KLazyGD(kl.L2Ball(5), kl.Sqrt(60), k=65)
kl.run(learner, np.ones((10, 5)), record="totals")
g = np.empty((10_000_000, 5))
np.random.default_rng(0).random(out=g)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
kl.run(learner, g, record="totals")
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    return [
        f'Peak memory beyond the input, T = 10^7, d = 5, `record="totals"`: {int(child(script)) / 1024:.1f} MB.'
    ]


def machine() -> str:
    gcc = subprocess.run(
        ["gcc", "--version"], capture_output=True, text=True, check=True
    ).stdout.splitlines()[0]
    cpu = Path("/proc/cpuinfo")
    models = (
        [
            line.split(":")[1].strip()
            for line in cpu.read_text().splitlines()
            if "model name" in line
        ]
        if cpu.exists()
        else []
    )
    return f"{os.cpu_count()} cores of {models[0] if models else platform.machine()}; {gcc}; Python {platform.python_version()}"


def table() -> str:
    with tempfile.TemporaryDirectory() as folder:
        parts = [
            "# Benchmarks",
            "How fast klazy is beside plain C, and what its parts cost.",
            "Printed by `make bench`. Every number but the start-up times and the memory is a ratio measured in one run.",
            f"Machine: {machine()}, NumPy {np.__version__}.",
            aims.HEADING,  # benchmarks/aims.py writes that section, after all others.
            "## Whole sequences against plain C",
            'Time of `run(KLazyGD(domain, Sqrt(60), k=k), g, record="totals")` over that of `benchmarks/plain.c`, a plain loop '
            "of the same algorithm with the dimension as a constant, compiled by gcc at -O3 -march=native; below 1 klazy is "
            "faster. The aim is at most 1.25 everywhere. The C loop adds in strict order, as C does unless told otherwise, and "
            "finds thresholds by Michelot's method from scratch; klazy reorders long sums so that they vectorise, and starts "
            "from the last round's threshold. The share of bandwidth is the time a C loop needs just to read the gradients, "
            "over the time of the whole run: 100% would mean that only the memory is left to wait for.",
            "\n".join(against_c(folder)),
            "## Moving only if it pays, d = 5",
            "`Reluctant` against `benchmarks/plain_prox.c`, T = 200 000; the aim is at most 1. On a box LLVM blends and "
            "compares where gcc jumps, and a learner that hardly moves is always where the jumps are predicted.",
            "\n".join(of_reluctance(folder)),
            "## Ensembles, d = 5",
            f"SAder-k with {EXPERTS} experts and a given rate, T = 200 000, against `benchmarks/plain_ensemble.c`, the "
            "same loop in plain C, and against NumPy vectorised over the experts. The aims: 1.1 times C, 300 times NumPy.",
            "\n".join(of_ensembles(folder)),
            "## auto",
            "Microseconds on this machine, the least of five. The aims at d = 5: 3 in `run`, 10 an `Agent.update`; at d = 50 "
            "and 1000: 20 and 250 in `run`. On the l2 ball a move is a search over one number, and has no closed form. In many "
            "dimensions the sums of the regression and the search for a season, 512 lags, are most of what is left to save. "
            "Beyond 64 dimensions `auto` looks for no season.",
            "\n".join(of_auto()),
            "### Every set, movement and cost, d = 5",
            "Microseconds a round of `auto` in `run`, over noisy phases and over a season of 24 rounds, at a price of 1. "
            "The aim is at most 12. Rewards are linear costs with the other sign.",
            "\n".join(of_every_pair()),
            "### Sets without a kernel, d = 5",
            "Milliseconds a round of `auto` through `step`, over noisy phases, at a price of 1. The aim is at most 20. "
            "`auto` has 45 experts here and not 155.",
            "\n".join(of_uncompiled_sets()),
            "## Against the NumPy specification, d = 5, k = 65",
            "The aims: whole sequences 300 times faster; `Agent.update` 3 times on the l2 ball, 10 times on the l1 ball.",
            "\n".join(against_step()),
            "## Batches and sweeps, d = 5, T = 60 000",
            "1000 runs of k-lazyGD over one sequence, 25 sigmas by 40 slacks, totals only, on all cores: `run_batch` beside "
            "`run_many`, which plays one run per thread by the kernel of `run`. The aims: 2.2 times that, 1.7 times one core.",
            "\n".join(in_batches()),
            *of_sweeps(folder),
            "## The offline optimum",
            *against_clarabel(),
            *against_loops(),
            "## A durable agent, d = 5",
            'Rounds a second of `Agent.update`: in memory, opened with `sync="batch"`, which survives SIGKILL, and with '
            '`sync="always"`, which survives power loss; beside an agent in memory, and beside a bare insert of such a row by '
            "sqlite3, which is what SQLite and the disk allow.",
            "\n".join(updates()),
            opening(),
            fleets(),
            "## Cores, start-up and memory",
            *in_parallel(),
            *cold_start(folder),
            *memory(),
        ]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--write", type=Path, help="also write the table to this file")
    options = arguments.parse_args()
    text = table()
    print(text)
    if options.write:
        _, heading, kept = options.write.read_text().partition(OTHERS)
        options.write.write_text(text + heading + kept)
