"""Kernels between guard pages, engines against each other, and very long runs."""

import ctypes
import math
import mmap
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from audit import FULL, amount, record

import klazy as kl
from cases import (
    COMPILED,
    COMPILED_SETS,
    COSTS,
    LEARNERS,
    MOVEMENTS,
    SCHEDULES,
    costs_of,
    flattened,
    one_of_each_rule,
)
from klazy.kernels import batch, ensemble, fleet, offline, sequence

pytestmark = pytest.mark.skipif(
    os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="nothing is compiled here"
)
AGREE = 1e-12  # as in tests/test_kernels.py, times the size of the numbers compared
PAGE = mmap.PAGESIZE
libc = ctypes.CDLL(None, use_errno=True)


class Guarded:
    """Arrays that begin or end at a page which nobody may touch: a read or write beside one ends the process."""

    def __init__(self):
        self.rooms = {}

    def copy(self, array, name, at_end):
        """``array`` in a room of its own, which is used again for the next one of this name and size."""
        array = np.ascontiguousarray(array)
        inner = max(1, -(-array.nbytes // PAGE)) * PAGE
        first = self._open_room((name, inner), inner)
        if at_end:
            first += inner - array.nbytes
        place: Any = (
            (ctypes.c_char * array.nbytes).from_address(first) if array.nbytes else bytearray()
        )
        copy = np.frombuffer(place, dtype=array.dtype, count=array.size).reshape(array.shape)
        if array.size:
            copy[...] = array
        return copy

    def _open_room(self, key, inner):
        if key not in self.rooms:
            room = mmap.mmap(-1, inner + 2 * PAGE)
            start = ctypes.addressof(ctypes.c_char.from_buffer(room))
            for page in (start, start + PAGE + inner):
                if libc.mprotect(ctypes.c_void_p(page), ctypes.c_size_t(PAGE), 0) != 0:
                    raise OSError(ctypes.get_errno(), "mprotect")
            self.rooms[key] = (room, start + PAGE)
        return self.rooms[key][1]


def guard_kernel(kernel, rooms, calls):
    """The kernel, with every array moved between guard pages and what it wrote moved back."""

    def call(*arguments):
        at_end = len(calls) % 2 == 1
        moved = [
            rooms.copy(a, i, at_end) if isinstance(a, np.ndarray) else a
            for i, a in enumerate(arguments)
        ]
        answer = kernel(*moved)
        for ours, theirs in zip(arguments, moved, strict=True):
            if isinstance(ours, np.ndarray) and ours.flags.writeable:
                ours[...] = theirs
        calls.append(kernel)
        return answer

    watched: Any = call
    watched.overloads = kernel.overloads  # A fleet calls the compiled code itself.
    return watched


MAKERS = {
    sequence: ["sequence_kernel", "update_kernel"],
    batch: ["batch_kernel"],
    ensemble: ["ensemble_sequence_kernel", "ensemble_update_kernel"],
    fleet: ["_fleet_kernel"],
    offline: [
        "box_programme",
        "simplex_programme",
        "states_programme",
        "splitting_kernels",
        "projecting_kernel",
    ],
}


def guard_all_kernels(patch, rooms, calls):
    """Whoever asks for a kernel gets a guarded one, for short programmes too."""
    patch.setattr(offline, "PLAIN_NUMBERS", 0)
    for module, names in MAKERS.items():
        for name in names:
            make = getattr(module, name)

            def make_guarded(*key, make=make):
                made = make(*key)
                if isinstance(made, tuple):
                    return tuple(guard_kernel(kernel, rooms, calls) for kernel in made)
                return guard_kernel(made, rooms, calls)

            patch.setattr(module, name, make_guarded)


def play_everything(rng):
    """Every driver once, on sets and rules whose kernels other tests need too; what came out."""
    T = int(rng.integers(1, 150))
    g = rng.normal(size=(T, 5))
    sigma = SCHEDULES[rng.integers(len(SCHEDULES))]
    movement = MOVEMENTS[["l2", "l1", "asymmetric"][rng.integers(3)]](5)
    box = kl.Box([-1.0, 0.5, 0.0, 1.0, -3.0], [1.0, 2.0, 0.0, 4.0, -2.0])
    domain = [kl.L2Ball(5), kl.Simplex(5), box][rng.integers(3)]
    learner = kl.KLazyGD(domain, sigma, k=4)
    results = []
    for record_of in ("actions", "costs", "totals"):
        trace = kl.run(
            learner, g, movement=movement, x0=np.zeros(5), record=record_of, engine="compiled"
        )
        results += [*trace.kept.values(), *trace.totals, *flattened(trace.state)]
    agent = kl.Agent(kl.KLazyGD(kl.L2Ball(5), sigma, k=4))
    results += [agent.update(row) for row in g[:10]]
    pair = kl.SAder(one_of_each_rule(kl.Simplex(5), 2.0))
    trace = kl.run(pair, g, record="experts", engine="compiled")
    results += [*trace.kept.values(), *flattened(trace.state)]
    auto = kl.auto(kl.Simplex(5), kl.TVMovement())
    trace = kl.run(auto, g, engine="compiled")
    results += [*trace.kept.values(), *flattened(trace.state)]
    agent = kl.Agent(auto)
    results += [agent.update(row) for row in g[:10]]
    fleet_of_three = kl.Fleet(kl.KLazyGD(kl.L2Ball(5), sigma, k=4), 3)
    results += [fleet_of_three.update(g[:1].repeat(3, axis=0)) for _ in range(3)]
    runs = kl.run_batch(
        [kl.KLazyGD(kl.L2Ball(5), s, k=4) for s in (1.0, 2.0)], g, checkpoints=3, jobs=1
    )
    results += [runs.hitting, runs.switching, runs.curves]
    # By dynamic programmes.
    apart = kl.contrib.FiniteMetric(D=1.0 - np.eye(5))
    for movement in (kl.L1Movement(), apart):
        results.append(kl.offline_optimum(g, kl.Simplex(5), movement).u)
    results.append(kl.offline_optimum(g[:20], kl.L2Ball(5), gap=0.1).u)  # by splitting
    return results


@pytest.mark.parametrize("at_end", [False, True], ids=["before the beginning", "after the end"])
def test_a_guard_page_ends_who_touches_it(at_end):
    call = f"import test_torture_kernels as here; here.touch_beside({at_end})"
    paths = os.pathsep.join(
        map(str, (Path(__file__).parent, Path(__file__).parents[1], *sys.path))
    )
    ended = subprocess.run([sys.executable, "-c", call], env=os.environ | {"PYTHONPATH": paths})
    assert ended.returncode == -signal.SIGSEGV


def touch_beside(at_end):
    """Write the byte beside a guarded array, which ends the process."""
    values = Guarded().copy(np.ones(7), 0, at_end)
    ctypes.memset(values.ctypes.data + (values.nbytes if at_end else -1), 0, 1)


@pytest.mark.xdist_group("Simplex5")
def test_kernels_touch_nothing_beside_their_arrays(monkeypatch):
    wanted = amount(200, 300_000)
    rooms = Guarded()
    calls = []
    seed = 0
    while len(calls) < wanted:
        expected = play_everything(np.random.default_rng(seed))
        with monkeypatch.context() as patch:
            guard_all_kernels(patch, rooms, calls)
            found = play_everything(np.random.default_rng(seed))
        for ours, theirs in zip(found, expected, strict=True):
            assert np.array_equal(ours, theirs)
        seed += 1
    record(
        "guard-pages",
        "Kernel calls with every array between pages that nobody may touch",
        len(calls),
        "none touched them, and every result was the same",
    )


# `make test` has compiled these kernels for other tests; `make torture` tries every learner on every set and cost family.
FAMILIES = [name for name in COSTS if name != "CallableCosts"] if FULL else ["LinearCosts"]
PLACES = COMPILED_SETS if FULL else [kl.L2Ball(5)]
PLAYERS = list((COMPILED if FULL else LEARNERS).values())
COMPILED_MOVEMENTS = [make for make in MOVEMENTS.values() if make(1).code is not None]
ROUNDS = 60  # one of the movements has so many weights


def draw_schedule(rng, s):
    """A schedule whose first sigma is about ``s``."""
    made = [
        kl.Constant(s),
        kl.Sqrt(s**-2),
        kl.Sqrt(s**-2, offset=2.0),
        kl.Doubling(s**-2),
        kl.ScaleFree(2.0),
    ]
    return made[rng.integers(len(made))]


@pytest.mark.xdist_group("L2Ball5")
def test_engines_agree_on_random_configurations():
    rng = np.random.default_rng(0)
    tried = amount(25, 100_000)
    for _ in range(tried):
        domain = PLACES[rng.integers(len(PLACES))]
        family = FAMILIES[rng.integers(len(FAMILIES))]
        if family == "LogWealthCosts" and not isinstance(domain, kl.Simplex):
            family = "LinearCosts"  # wealth is defined for shares alone
        movement = COMPILED_MOVEMENTS[rng.integers(len(COMPILED_MOVEMENTS))](domain.dim)
        costs = costs_of(family, ROUNDS, domain.dim, int(rng.integers(2**31)))
        scale = 1.0
        if family == "LinearCosts":
            scale = 10.0 ** rng.uniform(-6.0, 6.0)
            costs = kl.contrib.LinearCosts(scale * costs.arrays()[0])
        s = scale * 10.0 ** rng.uniform(-1.0, 3.0)
        learner = PLAYERS[rng.integers(len(PLAYERS))](domain, draw_schedule(rng, s))
        options = {"movement": movement, "x0": domain.start}
        step = kl.run(learner, costs, engine="step", **options)
        compiled = kl.run(learner, costs, engine="compiled", **options)
        g = np.abs(step.gradients()).max()
        far = (
            1.0 + np.abs(step.x).max() + ROUNDS * g / s
        )  # the size of the points that are projected
        about = f"{learner!r}, {movement!r}, {family}, scale {scale:g}"
        np.testing.assert_allclose(
            compiled.x, step.x, rtol=AGREE, atol=AGREE * far, err_msg=about
        )
        size = domain.dim * (g + np.abs(step.hitting).max())
        np.testing.assert_allclose(
            compiled.hitting, step.hitting, rtol=AGREE, atol=AGREE * far * size, err_msg=about
        )
    record(
        "engines",
        "Random learners, sets, schedules, movements and costs, played by both engines",
        tried,
        "points and costs agree to 1e-12 of the size of what is projected",
    )


@pytest.mark.xdist_group("L2Ball5")
def test_a_billion_rounds_stay_finite_and_inside_and_their_accounts_are_exact():
    chunk = 10**6
    rounds = amount(10**6, 10**9)
    learner = kl.KLazyGD(kl.L2Ball(5), kl.Sqrt(2.0), k=65)
    g = np.random.default_rng(0).normal(size=(chunk, 5))
    state = learner.init()
    for _ in range(rounds // chunk):
        trace = kl.run(learner, g, state=state, record="costs", engine="compiled")
        for total, parts in zip(trace.totals, (trace.hitting, trace.switching), strict=True):
            size = math.fsum(np.abs(parts).tolist())
            error = abs(total - math.fsum(parts.tolist()))
            assert (
                error <= (64 + chunk / 64) * np.finfo(float).eps * size
            )  # sums of 64, added one by one
        state = trace.state
        assert all(np.isfinite(part).all() for part in flattened(state))
        assert learner.domain.contains(state.x, tol=1e-14)
    assert state.t == rounds + 1
    record(
        "rounds",
        "Rounds of k-lazyGD in one run",
        rounds,
        "finite and inside the set; sums differ from exact ones by no more than rounding allows",
    )
