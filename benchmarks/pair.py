"""Is this tree slower than an earlier one?  python benchmarks/pair.py OLD [options]

OLD is a commit, or the path of a checkout. Its sources stand beside the working tree,
or beside those of ``--new``. Each tree has one child process that lives until the end.

Every cell is measured in turn: one call by the old child, one by the new, then one by
the new and one by the old, and so on. A slow drift of the machine's clock cancels out.
The result is the median of new / old over the pairs. It is taken apart for the pairs in
which old came first and for those in which new did, and the two are averaged: a child
that goes on at once finds its caches warm, so each pair favours the one that was first.

Both children are timed on one and the same core, and by processor time. Left to the
system they may stay on different cores, of which one can be a third slower for seconds
on a shared machine. Where cores cannot be chosen, as on macOS, expect more noise.

A cell above the limit is measured once more before it counts, with twice the repeats
and by fresh children on another core: the clock moves, and a process may be unlucky in
where its memory lies. The pairs of both measurements count, not the better of the two.

The exit status is 1 if a cell is above the limit, and 2 if nothing could be measured.
A cell that one of the trees cannot play is named and skipped.

Sources of commits and compiled kernels are kept in the folder ``klazy-pair`` among the
temporary files, for to compile all of them takes minutes. They may be removed.
"""

import argparse
import functools
import io
import json
import math
import os
import re
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, Self

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
KEPT = Path(tempfile.gettempdir(), "klazy-pair")
LIMIT = 1.08
REPEATS = 15
C = 60.0  # of sigma_t = sqrt(t / C)
SLACKS = (1, 65, 1500)
EXPERTS = 11
UPDATES = 2000
# Rounds by dimension, for a call of a few to tens of milliseconds.
ROUNDS = {1: 200_000, 5: 200_000, 50: 40_000, 1000: 2_000, 100_000: 60}
FOUR = ("l2 ball", "l1 ball", "box", "simplex")
TWO = ("l2 ball", "simplex")


# The cells. They see the klazy of their tree as `kl`, and only its public names.


class Work(NamedTuple):
    """One call to time, and the rounds that it plays."""

    call: Callable[[], object]
    rounds: int


Make = Callable[[Any], Work]
Learn = Callable[[Any, Any], Any]  # from klazy and a set to a learner
CELLS: dict[str, Make] = {}


def register(name: str, make: Make) -> None:
    """Give the cell its name, which must be new."""
    assert name not in CELLS, name
    CELLS[name] = make


@functools.lru_cache(maxsize=2)
def draw_phases(T: int, d: int) -> np.ndarray:
    """Draw fifteen phases of alternating sign under noise, in rows of unit norm."""
    sign = np.where(np.arange(T) * 15 // T % 2, -1.0, 1.0)[:, None]
    g = sign + np.random.default_rng(0).normal(scale=10**0.5, size=(T, d))
    return g / np.linalg.norm(g, axis=1, keepdims=True)


def make_set(kl: Any, name: str, d: int) -> Any:
    """Make the set of that name."""
    if name == "l2 ball":
        return kl.L2Ball(d)
    if name == "l1 ball":
        return kl.L1Ball(d)
    if name == "box":
        return kl.Box(np.full(d, -(d**-0.5)), np.full(d, d**-0.5))
    if name == "simplex":
        return kl.Simplex(d)
    if name == "capped simplex":
        return kl.CappedSimplex(d, total=1.0, cap=2.5 / d)
    if name == "product":
        half = d // 2
        return kl.Product([make_set(kl, "box", half), kl.Simplex(d - half)])
    raise ValueError(name)


def make_k_lazy(kl: Any, domain: Any, k: int = 65) -> Any:
    """Make the learner that most cells play."""
    return kl.KLazyGD(domain, kl.Sqrt(C), k=k)


def make_run(
    kl: Any,
    name: str,
    d: int,
    learn: Learn = make_k_lazy,
    rounds: int | None = None,
    movement: Callable[[Any], Any] | None = None,
    costs: Callable[[Any, np.ndarray], Any] | None = None,
) -> Work:
    """Make a cell of one run on the set of that name."""
    T = rounds or ROUNDS[d]
    learner = learn(kl, make_set(kl, name, d))
    g = draw_phases(T, d)
    played = costs(kl, g) if costs else g
    options: dict[str, Any] = {"record": "totals"}
    if movement:
        options["movement"] = movement(kl)
    return Work(lambda: kl.run(learner, played, **options), T)


def make_batch(kl: Any, name: str, learn: Callable[[Any, Any, float, int], Any]) -> Work:
    """Make a cell of 1000 short runs at once, 25 scales by 40 slacks."""
    T = 6000
    domain = make_set(kl, name, 5)
    scales = np.geomspace(1, 1000, 25).tolist()
    grid = [learn(kl, domain, c, k) for c in scales for k in range(1, 1001, 25)]
    g = draw_phases(T, 5)
    return Work(lambda: kl.run_batch(grid, g, jobs=1), T * len(grid))


def make_agent(kl: Any, name: str, learn: Learn) -> Work:
    """Make a cell of single updates; the agent goes on from call to call."""
    agent = kl.Agent(learn(kl, make_set(kl, name, 5)))
    rows = list(draw_phases(UPDATES, 5))

    def update_all() -> None:
        for row in rows:
            agent.update(row)

    return Work(update_all, UPDATES)


def make_exact_optimum(kl: Any) -> Work:
    """Make a cell of the dynamic programme."""
    T = 20_000
    g = np.random.default_rng(0).normal(size=(T, 5))
    domain = kl.Simplex(5)
    movement = kl.TVMovement(2.0)
    return Work(lambda: kl.offline_optimum(g, domain, movement), T)


def make_split_optimum(kl: Any) -> Work:
    """Make a cell of the splitting method."""
    T = 500
    g = draw_phases(T, 5)
    domain = kl.L2Ball(5)
    return Work(lambda: kl.offline_optimum(g, domain), T)


def mix_given(kl: Any, domain: Any) -> Any:
    """Make SAder over k-lazy experts, with a given rate."""
    sigmas = kl.theory.sigma_grid(200_000, 1.0, 1.0)[:EXPERTS].tolist()
    experts = [kl.KLazyGD(domain, s, k=max(1, int(2 * s))) for s in sigmas]
    return kl.SAder(experts, 0.01)


def register_runs() -> None:
    """Register single runs of k-lazyGD."""
    for d in ROUNDS:
        for name in FOUR:
            for k in SLACKS:
                learn = functools.partial(make_k_lazy, k=k)
                make = functools.partial(make_run, name=name, d=d, learn=learn)
                register(f"run, {name}, d={d}, k={k}", make)
    for name in ("capped simplex", "product"):
        for d in (5, 50):
            make = functools.partial(make_run, name=name, d=d)
            register(f"run, {name}, d={d}, k=65", make)


def register_variants() -> None:
    """Register single runs of other rules, schedules, movements and costs, d = 5."""
    rules: dict[str, Learn] = {
        "GD": lambda kl, domain: kl.GD(domain, kl.Sqrt(C)),
        "LazyGD": lambda kl, domain: kl.LazyGD(domain, kl.Sqrt(C)),
        "KLazyFTRL": lambda kl, domain: kl.KLazyFTRL(domain, kl.Sqrt(C), k=65),
        "Decay": lambda kl, domain: kl.MemoryGD(domain, kl.Sqrt(C), memory=kl.memories.Decay(32)),
        "Clip": lambda kl, domain: kl.MemoryGD(domain, kl.Sqrt(C), memory=kl.memories.Clip(2.0)),
        "CentredOMD": lambda kl, domain: kl.CentredOMD(domain, kl.Sqrt(C)),
        "ScaleFree": lambda kl, domain: kl.KLazyGD(domain, kl.ScaleFree(domain.diameter), k=65),
    }
    movements: dict[str, Callable[[Any], Any]] = {
        "WeightedL2Movement": lambda kl: kl.contrib.WeightedL2Movement(
            scale=np.linspace(0.5, 2.0, 5)
        ),
        "TVMovement": lambda kl: kl.TVMovement(2.0),
        "SwitchFee": lambda kl: kl.contrib.SwitchFee(0.1),
    }
    costs: dict[str, Callable[[Any, np.ndarray], Any]] = {
        "QuadraticCosts": lambda kl, g: kl.QuadraticCosts(g),
        "PinballCosts": lambda kl, g: kl.PinballCosts(g, short=2.0),
    }
    for name in TWO:
        run = functools.partial(make_run, name=name, d=5)
        for rule, learn in rules.items():
            register(f"run, {rule}, {name}, d=5", functools.partial(run, learn=learn))
        for label, movement in movements.items():
            make = functools.partial(run, movement=movement)
            register(f"run, {label}, {name}, d=5", make)
        for label, family in costs.items():
            make = functools.partial(run, costs=family)
            register(f"run, {label}, {name}, d=5", make)


def register_batches() -> None:
    """Register batches of 1000 runs on one core, d = 5."""

    def learn_lazily(kl: Any, domain: Any, c: float, k: int) -> Any:
        return kl.KLazyGD(domain, kl.Sqrt(c), k=k)

    def decay(kl: Any, domain: Any, c: float, k: int) -> Any:
        return kl.MemoryGD(domain, kl.Sqrt(c), memory=kl.memories.Decay(k))

    def adapt(kl: Any, domain: Any, c: float, k: int) -> Any:
        return kl.KLazyGD(domain, kl.ScaleFree(domain.diameter, c), k=k)

    for name in FOUR:
        make = functools.partial(make_batch, name=name, learn=learn_lazily)
        register(f"batch, k-lazyGD, {name}, d=5", make)
    for label, learn in {"Decay": decay, "ScaleFree": adapt}.items():
        make = functools.partial(make_batch, name="l2 ball", learn=learn)
        register(f"batch, {label}, l2 ball, d=5", make)


def register_ensembles() -> None:
    """Register runs of ensembles."""
    T = 60_000
    shorter = 20_000

    def mix_by_theory(kl: Any, domain: Any) -> Any:
        return kl.sader_k(domain, T, 1.0)

    def mix_alone(kl: Any, domain: Any) -> Any:
        return kl.auto(domain)

    kinds: dict[str, tuple[Learn, int]] = {
        f"{EXPERTS} experts": (mix_given, T),
        "sader_k": (mix_by_theory, T),
        "auto": (mix_alone, shorter),
    }
    for label, (learn, rounds) in kinds.items():
        for name in FOUR:
            make = functools.partial(make_run, name=name, d=5, learn=learn, rounds=rounds)
            register(f"ensemble, {label}, {name}, d=5", make)
    for d, rounds in ((8, 10_000), (50, 2000), (1000, 200)):
        make = functools.partial(make_run, name="simplex", d=d, learn=mix_alone, rounds=rounds)
        register(f"ensemble, auto, simplex, d={d}", make)


def register_agents() -> None:
    """Register updates of agents, one by one."""
    learners: dict[str, Learn] = {
        "GD": lambda kl, domain: kl.GD(domain, kl.Sqrt(C)),
        "k-lazyGD": make_k_lazy,
        "auto": lambda kl, domain: kl.auto(domain),
    }
    for label, learn in learners.items():
        for name in TWO:
            make = functools.partial(make_agent, name=name, learn=learn)
            register(f"agent, {label}, {name}, d=5", make)


register_runs()
register_variants()
register_batches()
register_ensembles()
register_agents()
register("optimum, simplex, TVMovement, d=5, T=20000", make_exact_optimum)
register("optimum, l2 ball, d=5, T=500", make_split_optimum)


# The child. A line of JSON asks for a cell, a number of calls and the cores to use,
# a line answers.


def list_cores() -> list[int]:
    """List the cores that this process may use, none if it cannot choose."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


def use_cores(cores: list[int]) -> None:
    """Stay on these cores, if there are any to choose from."""
    if cores:
        os.sched_setaffinity(0, cores)


def serve() -> None:
    """Answer requests until the input ends."""
    import klazy as kl

    @functools.lru_cache(maxsize=1)
    def make(name: str) -> Work:
        return CELLS[name](kl)

    print(json.dumps({"klazy": kl.__file__}), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            work = make(request["cell"])
            use_cores(request["cores"])
            start = time.process_time()
            for _ in range(request["calls"]):
                work.call()
            seconds = time.process_time() - start
            answer = {"seconds": seconds, "rounds": work.rounds}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


# The parent.


def give_up(why: str) -> NoReturn:
    """End with status 2, for 1 means that a cell is above the limit."""
    print(why, file=sys.stderr)
    sys.exit(2)


class Tree(NamedTuple):
    """Sources of klazy, and where what is compiled from them is kept."""

    label: str
    folder: Path
    cache: Path


def find_tree(text: str) -> Tree:
    """Find the checkout at that path, or lay out the sources of that commit."""
    folder = Path(text).resolve()
    if (folder / "src" / "klazy").is_dir():
        name = f"{folder.name}-{zlib.crc32(bytes(folder)):08x}"
        return Tree(str(folder), folder, KEPT / name / "cache")
    try:
        commit = ask_git("rev-parse", "--verify", "--quiet", f"{text}^{{commit}}")
    except subprocess.CalledProcessError:
        give_up(f"{text} is neither a checkout of klazy nor a commit.")
    name = commit.decode().strip()[:12]
    folder = KEPT / name / "tree"
    if not folder.is_dir():
        lay_out(name, folder)
    return Tree(f"{text} ({name})", folder, KEPT / name / "cache")


def ask_git(*arguments: str) -> bytes:
    """Run git in this repository and give back what it prints."""
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout


def lay_out(commit: str, folder: Path) -> None:
    """Unpack the commit's sources, all or nothing, with the times of the commit."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    archive = io.BytesIO(ask_git("archive", "--format=tar", commit, "src"))
    with tempfile.TemporaryDirectory(dir=folder.parent) as beside:
        target = Path(beside, "tree")
        with tarfile.open(fileobj=archive) as packed:
            packed.extractall(target, filter="data")
        target.rename(folder)


class Child:
    """A process that plays cells by the sources of one tree."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        environment = os.environ | {
            "PYTHONPATH": str(tree.folder / "src"),
            "KLAZY_CACHE_DIR": str(tree.cache),
            "NUMBA_CACHE_DIR": str(tree.cache),  # which older commits obey
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
        }
        # -P: the folder of this file must not come before the tree.
        self.process = subprocess.Popen(
            [sys.executable, "-P", str(Path(__file__).resolve()), "--child"],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def greet(self) -> None:
        """Wait until it has imported klazy, and see that it is the tree's."""
        found = Path(self.read()["klazy"]).resolve()
        if not found.is_relative_to(self.tree.folder.resolve()):
            give_up(f"The child of {self.tree.label} imported {found}.")

    def ask(self, cell: str, cores: list[int]) -> None:
        """Send a request for one call."""
        assert self.process.stdin
        request = json.dumps({"cell": cell, "calls": 1, "cores": cores})
        self.process.stdin.write(request + "\n")
        self.process.stdin.flush()

    def read(self) -> dict[str, Any]:
        """Wait for the answer."""
        assert self.process.stdout
        line = self.process.stdout.readline()
        if not line:
            give_up(f"The child of {self.tree.label} ended.")
        return json.loads(line)

    def time_call(self, cell: str, cores: list[int]) -> float:
        """Time one call, in nanoseconds per round."""
        self.ask(cell, cores)
        answer = self.read()
        return answer["seconds"] / answer["rounds"] * 1e9


class Children(NamedTuple):
    """The two processes that are compared."""

    old: Child
    new: Child


@contextmanager
def start_children(old: Tree, new: Tree) -> Iterator[Children]:
    """Start one child for each tree, and end them in the end."""
    with Child(old) as before, Child(new) as after:
        before.greet()
        after.greet()
        yield Children(before, after)


class Pair(NamedTuple):
    """What one call took by each tree, in nanoseconds per round."""

    old: float
    new: float


def warm_up(children: Children, cell: str) -> tuple[str | None, str | None]:
    """Play the cell once by both at a time; the errors of old and new, if any."""
    for child in children:
        child.ask(cell, list_cores())
    answers = [child.read() for child in children]
    return answers[0].get("error"), answers[1].get("error")


def measure_pairs(children: Children, cell: str, repeats: int, cores: list[int]) -> list[Pair]:
    """Time pairs of calls, old first and new first by turns, an even number."""
    old, new = children
    pairs: list[Pair] = []
    for _ in range((repeats + 1) // 2):
        before = old.time_call(cell, cores)
        after = new.time_call(cell, cores)
        pairs.append(Pair(before, after))
        after = new.time_call(cell, cores)
        before = old.time_call(cell, cores)
        pairs.append(Pair(before, after))
    return pairs


class Result(NamedTuple):
    """What a cell came to; ``missing`` says which tree cannot play it."""

    cell: str
    missing: str = ""
    old_ns: float = 0.0
    new_ns: float = 0.0
    quotient: float = 0.0
    pairs: int = 0


def sum_up(cell: str, pairs: list[Pair]) -> Result:
    """Sum up a cell: the best time of each tree, and the median quotient."""
    old_ns = min(pair.old for pair in pairs)
    new_ns = min(pair.new for pair in pairs)
    quotients = [pair.new / pair.old for pair in pairs]
    old_first = statistics.median(quotients[0::2])
    new_first = statistics.median(quotients[1::2])
    quotient = math.sqrt(old_first * new_first)
    return Result(cell, "", old_ns, new_ns, quotient, len(pairs))


def name_missing(errors: tuple[str | None, str | None]) -> str:
    """Say which tree cannot play a cell, and why."""
    old, new = errors
    if old and new:
        return f"in neither: {new}"
    return f"not in OLD: {old}" if old else f"not in NEW: {new}"


def measure_all(
    old: Tree, new: Tree, cells: list[str], repeats: int, limit: float
) -> Iterator[Result]:
    """Measure cell by cell, those above the limit twice."""
    cores = list_cores()
    last = cores[-1:]
    first = cores[:1]
    with start_children(old, new) as children:
        for cell in cells:
            errors = warm_up(children, cell)
            if any(errors):
                yield Result(cell, name_missing(errors))
                continue
            pairs = measure_pairs(children, cell, repeats, last)
            if sum_up(cell, pairs).quotient > limit:
                with start_children(old, new) as others:
                    warm_up(others, cell)
                    pairs += measure_pairs(others, cell, 2 * repeats, first)
            yield sum_up(cell, pairs)


def print_line(result: Result, width: int, limit: float) -> None:
    """Print the cell's line of the table."""
    start = f"{result.cell:{width}}"
    if result.missing:
        print(f"{start}  {result.missing}", flush=True)
        return
    times = f"{result.old_ns:11.2f} {result.new_ns:11.2f}"
    mark = "  above" if result.quotient > limit else ""
    print(f"{start} {times} {result.quotient:9.3f}{mark}", flush=True)


def read_options() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("old", metavar="OLD", help="a commit or a checkout")
    parser.add_argument("--new", help="a commit or a checkout; else the working tree")
    parser.add_argument(
        "--only", default="", help="cells whose names hold this text; d=5 is not d=50"
    )
    parser.add_argument("--repeats", type=int, default=REPEATS, help="pairs per cell")
    parser.add_argument("--limit", type=float, default=LIMIT, help="of new / old")
    parser.add_argument("--json", type=Path, help="also write the results there")
    return parser.parse_args()


def main() -> int:
    """Measure, print, and give back the exit status."""
    options = read_options()
    wanted = re.compile(re.escape(options.only) + r"(?!\d)" * bool(options.only))
    cells = [cell for cell in CELLS if wanted.search(cell)]
    if not cells:
        give_up(f"No cell has {options.only!r} in its name.")
    old = find_tree(options.old)
    new = find_tree(options.new or str(ROOT))
    print(f"old: {old.label}")
    print(f"new: {new.label}")
    width = max(map(len, cells))
    print(f"{'cell':{width}} {'old, ns':>11} {'new, ns':>11} {'new / old':>9}")
    results: list[Result] = []
    for result in measure_all(old, new, cells, options.repeats, options.limit):
        results.append(result)
        print_line(result, width, options.limit)
    measured = [result for result in results if not result.missing]
    above = [result for result in measured if result.quotient > options.limit]
    if options.json:
        kept = {
            "old": old.label,
            "new": new.label,
            "limit": options.limit,
            "cells": [result._asdict() for result in results],
        }
        options.json.write_text(json.dumps(kept, indent=1) + "\n")
    if not measured:
        print("No cell could be measured.")
        return 2
    worst = max(measured, key=lambda result: result.quotient)
    print(f"worst: {worst.cell}, {worst.quotient:.3f}")
    print(f"above {options.limit}: {len(above)} of {len(measured)} cells")
    if len(measured) < len(results):
        print(f"skipped: {len(results) - len(measured)} cells")
    return 1 if above else 0


if __name__ == "__main__":
    if sys.argv[1:] == ["--child"]:
        serve()
    else:
        sys.exit(main())
