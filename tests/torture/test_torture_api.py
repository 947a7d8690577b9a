"""Hostile calls of every public constructor, function and method: they are refused in a sentence, or they work.

A call may raise klazy's refusals and nothing else; it changes none of its arguments, ends in seconds, and gives no NaN.
"""

import inspect
import re
import resource
import signal
import tempfile
import warnings
from contextlib import contextmanager
from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from audit import amount, record

import klazy as kl
from cases import (
    AUTOSCALER,
    DRIFTED,
    EVERY_LEARNER,
    FAMILIES,
    JOB,
    JOBS,
    MEMORIES,
    METRIC,
    MOVEMENTS,
    SCHEDULES,
    SETS,
    STATES,
    UNBOUNDED,
    WEALTH,
    flattened,
)
from klazy import contrib, datasets, sequences, theory
from klazy.base.config import Config

BALL = kl.L2Ball(5)
G = np.random.default_rng(0).normal(size=(6, 5))
GD = kl.GD(BALL, 2.0)
INTERVAL = kl.Polytope([[1.0], [-1.0]], [1.0, 1.0])
KLAZY = kl.KLazyGD(BALL, kl.Sqrt(3.0), k=3)
MEMORY = kl.MemoryGD(BALL, 2.0, memory=kl.memories.Full())
ENSEMBLE = kl.SAder([GD, KLAZY])
TRACE = kl.run(KLAZY, G, engine="step")
EXPERTS = kl.run(ENSEMBLE, G, engine="step", record="experts")
SHARES = kl.run(kl.GD(kl.Simplex(5), 2.0), G, engine="step")
RELUCTANT = kl.run(kl.contrib.Reluctant(BALL, kl.L2Movement(), 2.0, 4.0), G, engine="step")
SQUARES = kl.QuadraticCosts(G)
RUN_OF_SQUARES = kl.run(GD, SQUARES, engine="step")
MIRROR = contrib.MirrorMemory(
    kl.Simplex(5), 1.0, memory=kl.memories.Decay(4.0), geometry=contrib.Entropy(0.1)
)


class Echo:
    """A model of features that always forecasts the same."""

    def learn_one(self, x, y):
        return

    def predict_one(self, x):
        return 1.0

    def fit(self, X, y):
        return

    def predict(self, X):
        return [1.0] * len(X)


PATH = Path(tempfile.gettempdir()) / "klazy-that-is-not-there"
FINITE = {"costs": G, "domain": BALL, "gap": 0.1, "iterations": 200}

# Every public function with arguments that it takes.
FUNCTIONS = {
    kl.run: {
        "learner": MEMORY, "costs": G, "movement": kl.L1Movement(), "engine": "step", "record": "costs", "hints": G,
        "x0": np.zeros(5), "state": MEMORY.init(), "guards": kl.Guards(),
    },
    kl.run_many: {"learners": [GD, KLAZY], "costs": G, "jobs": 1, "engine": "step"},
    kl.run_batch: {"learners": [kl.contrib.Patient(INTERVAL, 1.0, move_cost=1.0)], "costs": G[:, :1],
                   "movement": kl.L1Movement(), "checkpoints": 2, "jobs": 1},
    kl.regret: {"trace": TRACE, "u": np.zeros((6, 5)), "costs": G},
    kl.contrib.sample_actions: {"trace": SHARES, "seed": 0},
    kl.contrib.sample_whole: {"trace": SHARES, "seed": 0},
    theory.certify: {"trace": TRACE, "u": np.zeros((6, 5))},
    theory.certify_experts: {"trace": EXPERTS},
    theory.certify_reluctance: {"trace": RELUCTANT, "u": np.zeros((6, 5))},
    contrib.certify_mirror: {"trace": kl.run(MIRROR, G, engine="step"), "u": np.full((6, 5), 0.2)},
    contrib.coin_betting_bound: {"T": 50, "G": 1.0, "distance": 2.0, "wealth": 1.0, "move_cost": 1.0},
    contrib.certify_long_term: {"trace": kl.run(contrib.LongTerm(GD, np.ones(5), 9.0, 6), G), "u": np.zeros((6, 5))},
    contrib.long_term_bound: {"T": 50, "G": 1.0, "R": 1.0, "L": 1.0, "sigma": 9.0, "eta": 2.0, "P": 1.0, "slack": 0.5,
                              "move_cost": 1.0, "linear": True},
    contrib.long_term_sigma: {"T": 50, "G": 1.0, "R": 1.0, "P": 1.0, "move_cost": 1.0},
    kl.best_fixed: FINITE,
    kl.contrib.best_with_path_length: {**FINITE, "P": 1.0, "movement": kl.L2Movement(), "points": 5},
    kl.frontier: {**FINITE, "movement": kl.L2Movement(), "points": 5},
    kl.offline_optimum: {**FINITE, "movement": kl.L2Movement(), "x0": np.zeros(5), "progress": None, "integers": False},
    contrib.run_ahead: {"player": contrib.RecedingHorizon(BALL), "costs": G[:2], "movement": kl.L2Movement(),
                        "x0": np.zeros(5)},
    contrib.ader: {"domain": BALL, "T": 50, "G": 1.0, "start": np.zeros(5)},
    kl.auto: {"domain": BALL, "movement": kl.L1Movement(), "costs": None, "start": np.zeros(5), "hints": False},
    contrib.exponentiated_gradient: {"domain": kl.Simplex(5), "learning_rate": 0.1, "start": np.full(5, 0.2)},
    contrib.ensemble_auto: {"domain": BALL, "movement": kl.L1Movement(), "start": np.zeros(5)},
    theory.meta_rate: {"rule": "lemma", "T": 50, "G": 1.0, "R": 1.0, "move_cost": 1.0},
    theory.product_grid: {"domain": BALL, "sigmas": [1.0, 2.0], "memories": [kl.memories.Full()], "start": np.zeros(5)},
    kl.sader: {"domain": BALL, "T": 50, "G": 1.0, "move_cost": 1.0, "beta": "lemma", "prior": "harmonic",
               "lazy": True, "start": np.zeros(5)},
    kl.sader_k: {"domain": BALL, "T": 50, "G": 1.0, "move_cost": 1.0, "memory": kl.memories.Clock, "beta": "lemma",
                 "prior": "harmonic", "greedy": True, "lazy": True, "start": np.zeros(5)},
    contrib.scream: {"domain": BALL, "T": 50, "G": 1.0, "move_cost": 1.0, "start": np.zeros(5)},
    theory.sigma_grid: {"T": 50, "G": 1.0, "R": 1.0, "move_cost": 1.0},
    theory.bandit_bound: {"T": 50, "n": 2, "G": 1.0, "R": 1.0, "P": 2.0, "sigma": 2.0, "delta": 0.1, "points": 1, "C": 1.0,
                          "inset": 0.1, "move_cost": 1.0},
    theory.bandit_tuning: {"T": 50, "n": 2, "G": 1.0, "R": 1.0, "P": 2.0, "points": 1, "C": 1.0, "move_cost": 1.0},
    contrib.budget_lower_bound: {"T": 50, "G": 1.0, "R": 1.0, "S": 3.0},
    contrib.greedy_ratio: {"growth": 0.5, "move_cost": 2.0},
    contrib.robd_pulls: {"growth": 0.5, "move_cost": 2.0},
    contrib.robd_ratio: {"growth": 0.5, "move_cost": 2.0, "stay": 1.0, "follow": 0.3},
    contrib.budgeting_ratio: {"kinds": 2},
    contrib.Forecaster: {"model": Echo(), "targets": ["a"], "features": ["b"], "ahead": 2},
    contrib.Refit: {"model": Echo(), "every": 2, "window": 9},
    contrib.sword: {"domain": BALL, "T": 50, "G": 1.0, "L": 1.0, "family": kl.Quadratic(), "start": np.zeros(5)},
    contrib.sword_plus_plus: {"domain": BALL, "T": 50, "G": 1.0, "L": 1.0, "start": np.zeros(5)},
    contrib.sword_bound: {"T": 50, "G": 1.0, "D": 2.0, "L": 1.0, "P": 2.0, "V": 3.0},
    contrib.newton_shares: {"domain": kl.Simplex(5), "beta": 1.0, "delta": 0.125, "start": np.full(5, 0.2)},
    contrib.newton_gamma: {"alpha": 1.0, "G": 1.0, "D": 2.0},
    contrib.newton_bound: {"T": 50, "G": 1.0, "D": 2.0, "dim": 5, "alpha": 1.0, "move_cost": 1.0},
    contrib.strongly_convex_bound: {"T": 50, "G": 1.0, "mu": 0.5, "move_cost": 1.0},
    contrib.maler_bound: {"T": 50, "G": 1.0, "D": 2.0, "dim": 5, "mu": 0.5, "alpha": 1.0},
    contrib.convert: {"rule": JOBS[1], "prices": np.full(6, 1.5)},
    contrib.best_conversion: {"job": JOB, "prices": np.full(6, 1.5)},
    contrib.clip_threshold: {"job": JOB, "epsilon": 0.5},
    contrib.ramp_threshold: {"job": JOB},
    contrib.pause_thresholds: {"job": contrib.Job(1.0, 4.0, rate=0.5, whole=True)},
    contrib.Run: {"rule": JOBS[1], "T": 6},
    contrib.budget_sigma: {"T": 50, "G": 1.0, "R": 1.0, "P": 2.0, "S": 3.0},
    contrib.budgeted_bound: {"T": 50, "G": 1.0, "R": 1.0, "P": 2.0, "S": 3.0},
    theory.count_outstanding: {"delays": np.ones(6)},
    theory.delayed_bound: {"T": 50, "G": 1.0, "R": 1.0, "P": 2.0, "sigma": 2.0, "k": 2, "outstanding": 9.0, "missing": 1.0,
                           "move_cost": 1.0},
    theory.delayed_sigma: {"T": 50, "G": 1.0, "R": 1.0, "P": 2.0, "outstanding": 9.0, "move_cost": 1.0},
    theory.ensemble_lemma: {"T": 50, "G": 1.0, "R": 1.0, "prior": 0.5, "move_cost": 1.0},
    theory.expert_grid: {"T": 50, "G": 1.0, "R": 1.0, "move_cost": 1.0},
    theory.k_star: {"T": 50, "R": 1.0, "P": 2.0, "c": 1.0},
    theory.resonance: {"learner": kl.KLazyGD(kl.Product([kl.L2Ball(1)]), 1.0, k=3), "lengths": [2, 4], "flips": 2},
    theory.sigma_star: {"T": 50, "G": 1.0, "R": 1.0, "P": 2.0, "move_cost": 1.0},
    theory.step_picture: {"learner": kl.GD(kl.L2Ball(2), 1.0), "g": G[:3, :2], "t": 2},
    contrib.switch_bound: {"T": 50, "G": 1.0, "R": 1.0, "P": 2.0, "K": 5},
    contrib.switch_lower_bound: {"T": 50, "G": 1.0, "R": 1.0, "K": 5},
    contrib.switch_sigma: {"T": 50, "G": 1.0, "R": 1.0, "P": 2.0, "K": 5},
    theory.theorem_2: {"T": 50, "k": 4, "P": 6.0},
    theory.theorem_5: {"T": 6, "G": 1.0, "R": 1.0, "P": 2.0, "sigma": 2.0, "k": 2, "move_cost": 1.0,
                       "moves": np.ones(6)},
    theory.theorem_5_tuned: {"T": 50, "G": 1.0, "R": 1.0, "P": 2.0, "move_cost": 1.0, "c": 1.0},
    theory.theorem_8: {"T": 50, "G": 1.0, "R": 1.0, "P": 2.0, "move_cost": 1.0, "beta": 0.1},
    theory.universal_lower_bound: {"T": 50, "P": 2.0},
    sequences.alternating: {"T": 20, "settled": 3},
    sequences.corrupted: {"seed": 0, "phases": 2, "length": 10, "dim": 2, "random_phases": False},
    sequences.phases_of_length: {"length": 3, "T": 12, "dim": 2},
    sequences.rotating: {"T": 20, "settled": 3},
    sequences.square_wave: {"k": 4, "T": 20, "active": 2},
    sequences.square_wave_regret: {"k": 4, "T": 20, "sigma": 1.0, "active": 2},
    sequences.stochastic: {"seed": 0, "phases": 2, "length": 10, "dim": 2, "random_phases": False},
    sequences.data_centre: {"seed": 0, "T": 6, "centres": 1, "servers": 9.0, "peak": 3.0, "energy": 1.0, "delay": 1.0},
    sequences.drifting_regression: {"seed": 0, "T": 6, "dim": 2, "drift": 0.1, "noise": 0.1},
    sequences.sea: {"seed": 0, "T": 6, "dim": 2, "sigma": 0.5, "jump": 1.0, "every": 2},
    sequences.tracking: {"seed": 0, "T": 6, "dim": 2, "step": 0.1, "noise": 0.1, "weight": 1.0},
    datasets.flights: {"measure": "departure_delay", "hours": 24, "carriers": ("UA", "DL")},
    datasets.llm_requests: {"service": "conversation", "seconds": 600.0},
    datasets.cache_requests: {},
    datasets.stock_prices: {"measure": "price"},
}  # fmt: skip

LABELS = np.array([1.0, -1.0, 1.0, -1.0, 1.0, -1.0])
COSTS = [
    (kl.contrib.LinearCosts, {"g": G, "check": True}),
    (kl.QuadraticCosts, {"targets": G, "weight": np.ones(6)}),
    (kl.PinballCosts, {"demands": G, "short": np.ones(5), "excess": 0.5}),
    (kl.LogWealthCosts, {"relatives": np.exp(G)}),
    (kl.contrib.HingeCosts, {"features": G, "labels": LABELS}),
    (kl.contrib.LogisticCosts, {"features": G, "labels": LABELS}),
    (sequences.RegressionCosts, {"features": G, "outcomes": LABELS}),
    (sequences.DelayCosts, {"loads": np.exp(G), "energy": 1.0, "delay": 1.0}),
    (kl.contrib.FilteredCosts, {"costs": kl.contrib.LinearCosts(G), "kernel": [0.5, 0.5]}),
    (
        kl.CallableCosts,
        {"T": 3, "dim": 5, "value": lambda t, x: 0.0, "subgradient": lambda t, x: x},
    ),
]
CONFIGS = [
    *SETS,
    *SCHEDULES,
    *MEMORIES,
    *FAMILIES,
    *(make(5) for make in MOVEMENTS.values()),
    DRIFTED,
    METRIC,
    *(make(BALL, 1.0) for make in EVERY_LEARNER.values()),
    kl.contrib.Planning(kl.Box([0.0] * 3, [9.0] * 3), "l1", 4),
    AUTOSCALER,
    *(make(kl.Simplex(3)) for make in STATES.values()),
    *(make(kl.Simplex(5)) for make in WEALTH.values()),
    *UNBOUNDED,
    *JOBS,
    MIRROR,
    contrib.Entropy(0.1),
    contrib.OBD(BALL),
    contrib.GOBD(BALL),
    contrib.ROBD(BALL),
    contrib.RHGD(BALL),
    contrib.RHAG(BALL),
    contrib.AveragingHorizon(BALL),
    contrib.RecedingHorizon(BALL),
    contrib.RecedingHorizon(BALL, 1, forecast=G, gap=1e-3),
    contrib.LookAheadSAder(BALL),
    contrib.PlayNext(kl.GD(BALL, 1.0)),
    contrib.LazyCapacity(kl.Box(0.0, 9.0)),
    contrib.LazyBudgeting(kl.Box(0.0, 9.0)),
    contrib.RandomizedCapacity(kl.Box(0.0, 9.0)),
    contrib.AdaptiveSwitching(BALL, np.zeros((1, 5)), contrib.OBD(BALL)),
    contrib.LookAheadInterpolation(BALL, np.zeros((1, 5)), contrib.OBD(BALL)),
    kl.Guards(G=1.0, hold=2, per_round=1.0, total=2.0),
]
# The methods that take what a user hands in; all others are called by klazy, with arrays that were checked.
CHECKED = {
    "project": ("y",),
    "argmin_linear": ("g",),
    "contains": ("x", "tol"),
    "reach": ("center",),
}


def list_methods():
    for domain in SETS:
        for name, parameters in CHECKED.items():
            good = {"tol": 1e-9} | dict.fromkeys(("y", "g", "x", "center"), domain.start)
            yield getattr(domain, name), {parameter: good[parameter] for parameter in parameters}
    yield TRACE.diagnose, {"G": 1.0, "R": 1.0}
    yield kl.types.Trace.load, {"path": PATH}
    yield kl.Agent.load, {"path": PATH}
    optimum = kl.offline_optimum(SQUARES, BALL, gap=1e-3)
    yield theory.competitive_ratio, {"trace": RUN_OF_SQUARES, "optimum": optimum}
    frontier = kl.frontier(G[:3], BALL, gap=0.1, points=5)
    yield frontier.best, {"P": np.ones(3)}
    yield frontier.regret, {"cost": 1.0, "P": np.ones(3)}
    yield frontier.plot, {"places": {"here": (1.0, 1.0)}}
    fleet = kl.GD(kl.L2Ball(5), kl.Sqrt(9.0))
    yield kl.Fleet, {"learner": fleet, "names": ["a", "b"]}
    yield kl.Fleet(fleet, 2).update, {"g": np.ones((2, 5)), "id": None, "retry": False}
    yield kl.Agent(MEMORY, engine="step").update, {"g": G[0], "next_hint": G[1], "id": 3}
    for domain in SETS:
        yield domain.shrunk, {"delta": 0.01 * domain.scale}
    late = kl.Agent(kl.contrib.Delayed(GD), costs=kl.Linear())
    late.advance()
    yield late.observe, {"row": G[0], "retry": False, "round": 1}
    yield late.advance, {"id": 4, "retry": False}
    yield late.give_up, {"round": 1, "id": 5}
    yield (
        kl.Agent(kl.contrib.Bandit(GD, 2, delta=0.1)).observe_cost,
        {"value": np.ones(2), "retry": False},
    )
    yield kl.run, {"learner": kl.contrib.Delayed(GD), "costs": G, "delays": np.ones(6)}
    yield kl.run, {"learner": kl.contrib.Bandit(GD, delta=0.1), "costs": G, "feedback": "value"}
    yield (
        kl.Agent,
        {"learner": KLAZY, "engine": "step", "state": KLAZY.init(), "guards": kl.Guards(G=1.0)},
    )
    yield Config.from_dict, {"data": KLAZY.to_dict()}


@cache
def list_calls():
    """List every call with its arguments; not when tests are collected, which every worker does, for some need kernels."""
    calls = [
        *FUNCTIONS.items(),
        *COSTS,
        *((type(config), config._arguments()) for config in CONFIGS),
        *list_methods(),
    ]
    return [(call, good) for call, good in calls if good]


class Odd:
    """An object of nobody's."""

    def __repr__(self):
        return "Odd()"


def nest(depth):
    inner = [1.0]
    for _ in range(depth):
        inner = [inner]
    return inner


THINGS = {
    "None": lambda: None, "True": lambda: True, "numpy bool": lambda: np.True_, "text": lambda: "text", "no text": lambda: "",
    "bytes": lambda: b"\x00\xff", "dict": lambda: {}, "dict of numbers": lambda: {0: 1.0}, "list": lambda: [],
    "tuple": lambda: (), "set": lambda: {1.0, 2.0}, "object": Odd, "class": lambda: kl.GD, "function": lambda: lambda *_: 1.0,
    "module": lambda: np, "complex": lambda: 1 + 2j, "ellipsis": lambda: ..., "nested": lambda: nest(80),
    "ragged": lambda: [[1.0], [1.0, 2.0]], "list of text": lambda: ["1", "2"], "list of None": lambda: [None] * 5,
    "generator": lambda: (float(i) for i in range(5)), "range": lambda: range(5), "date": lambda: np.datetime64("2020-01-01"),
    "decimal": lambda: Decimal("1.5"), "fraction": lambda: Fraction(3, 2), "masked": lambda: np.ma.masked,
    "surrogate": lambda: "\ud800", "null": lambda: "a\0b", "learner": lambda: GD, "domain": lambda: BALL,
    "numbers as text": lambda: "1.5", "memoryview": lambda: memoryview(b"12345678"), "structured": lambda: np.zeros(5, "f8,i4"),
}  # fmt: skip
NUMBERS = {
    "nan": np.nan, "inf": np.inf, "-inf": -np.inf, "1e308": 1e308, "-1e308": -1e308, "denormal": 5e-324, "zero": 0,
    "-0.0": -0.0, "minus one": -1, "half": 0.5, "2.5": 2.5, "one": 1, "2**53": 2**53, "2**63": 2**63, "1e18": 10**18,
    "10**400": 10**400, "10**4000": 10**4000, "-10**400": -(10**400), "float32": np.float32(1.5), "float16": np.float16(2),
    "longdouble": np.longdouble("1e4000"), "int8": np.int8(-3), "uint64": np.uint64(2**64 - 1), "1e-300": 1e-300,
    "1e150": 1e150,
}  # fmt: skip


def spoil_entry(value):
    def spoil(good, rng):
        bad = np.array(good, dtype=float)
        bad.flat[rng.integers(bad.size)] = value
        return bad

    return spoil


def mask_entry(good, rng):
    bad = np.ma.array(good, dtype=float, mask=False)
    bad.mask.flat[rng.integers(bad.size)] = True
    return bad


def lay_apart(good, rng):
    wide = np.full((*good.shape[:-1], 2 * good.shape[-1]), np.nan)
    wide[..., ::2] = good
    return wide[..., ::2]


def freeze(good, rng):
    good = good.copy()
    good.setflags(write=False)
    return good


def map_file(good, rng):
    with tempfile.TemporaryFile() as file:
        mapped = np.memmap(file, dtype=float, mode="w+", shape=good.shape)
        mapped[:] = good
        return mapped


ARRAYS = {
    **{f"entry {name}": spoil_entry(value) for name, value in NUMBERS.items() if isinstance(value, float)},
    "masked entry": mask_entry,
    "masked, none hidden": lambda good, rng: np.ma.array(good),
    "list of masked rows": lambda good, rng: [mask_entry(row, rng) for row in np.atleast_2d(good)],
    "float32": lambda good, rng: good.astype(np.float32),
    "big-endian": lambda good, rng: good.astype(">f8"),
    "longdouble": lambda good, rng: good.astype(np.longdouble) * np.longdouble("1e4000"),
    "complex": lambda good, rng: good.astype(complex),
    "object": lambda good, rng: good.astype(object),
    "text": lambda good, rng: good.astype(str),
    "bool": lambda good, rng: good > 0,
    "int": lambda good, rng: good.astype(int),
    "empty": lambda good, rng: good[:0],
    "no columns": lambda good, rng: good[..., :0],
    "0-d": lambda good, rng: np.array(1.0),
    "one more axis": lambda good, rng: good[None],
    "transposed": lambda good, rng: good.T,
    "longer": lambda good, rng: np.concatenate((good, good)),
    "strided": lay_apart,
    "backwards": lambda good, rng: good[::-1],
    "Fortran": lambda good, rng: np.asfortranarray(good),
    "read-only": freeze,
    "memmap": map_file,
    "list": lambda good, rng: good.tolist(),
    "huge": lambda good, rng: 1e300 * (1.0 + np.abs(good)),
    "tiny": lambda good, rng: 5e-324 * np.ones(good.shape),
    "recarray": lambda good, rng: good.view(np.recarray),
}  # fmt: skip


def choose_bad(good, rng):
    """A name and a hostile value in the place of ``good``."""
    pools = [THINGS, NUMBERS]
    if isinstance(good, np.ndarray) and good.size and good.dtype == float:
        pools += [ARRAYS] * 3
    pool = pools[rng.integers(len(pools))]
    name = list(pool)[rng.integers(len(pool))]
    if pool is ARRAYS:
        return name, ARRAYS[name](good, rng)
    return name, pool[name]() if pool is THINGS else pool[name]


SENTENCE = re.compile(r"\S+ \S+ \S.*", re.DOTALL)
# Where there is too little memory for what was asked, Python says so; a file that is not there, or a name of none, likewise.
HONEST = (kl.types.GapNotReached, kl.types.NotConverged, MemoryError)


def is_refusal(error, good):
    if isinstance(error, HONEST):
        return True
    if isinstance(error, OSError) and "path" in good:
        return True
    return (
        isinstance(error, ValueError | TypeError | ArithmeticError | ImportError)
        and SENTENCE.fullmatch(str(error)) is not None
    )


def copy_of(value):
    """What shows whether an argument has changed."""
    if isinstance(value, np.ma.MaskedArray):
        return value.data.tobytes(), np.ma.getmaskarray(value).tobytes()
    if isinstance(value, np.ndarray):
        return value.dtype, value.shape, value.tobytes()
    if isinstance(value, list | tuple):
        return tuple(map(copy_of, value))
    return None


def find_nan(result):
    """Whether an accepted call left a NaN in a configuration, a state, a point or a sum."""
    if isinstance(result, kl.types.Trace):
        parts = (
            [*flattened(result.state), *result.kept.values(), *result.totals]
            if result.state
            else []
        )
        return any(np.isnan(part).any() for part in parts)
    if isinstance(result, np.ndarray | float):
        return bool(np.isnan(result).any())
    if isinstance(result, Config):
        return any(
            find_nan(value)
            for value in result._arguments().values()
            if isinstance(value, np.ndarray | float)
        )
    if isinstance(result, kl.Agent):
        return bool(np.isnan(result.x).any())
    return False


@contextmanager
def end_after(seconds):
    """Raise TimeoutError in what does not end."""

    def stop(number, frame):
        raise TimeoutError(f"this took more than {seconds} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture
def little_memory():
    """Two gibibytes more than now: what asks for a huge array gets a MemoryError and not the machine's memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    limit = pages * resource.getpagesize() + 2**31
    resource.setrlimit(resource.RLIMIT_AS, (limit, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


def name_of(call):
    return getattr(call, "__qualname__", repr(call))


def attack(call, good, rng):
    """One hostile call; None, or what was wrong with its answer."""
    names = [
        name for name, value in good.items() if not isinstance(value, bool)
    ]  # anything is true or false
    if rng.random() < 0.2:  # two at once, but whoever asks for endless iterations gets them
        names = [name for name in names if name != "iterations"]
        chosen = rng.choice(len(names), size=min(len(names), 2), replace=False)
    else:
        chosen = [rng.integers(len(names))]
    bad = {names[i]: choose_bad(good[names[i]], rng) for i in chosen}
    arguments = {**good, **{name: value for name, (_, value) in bad.items()}}
    before = {name: copy_of(value) for name, value in arguments.items()}
    about = f"{name_of(call)}({', '.join(f'{name}: {kind}' for name, (kind, _) in bad.items())})"
    try:
        with end_after(20), warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            result = call(**arguments)
    except Exception as error:
        if not is_refusal(error, good):
            return f"{about}: {type(error).__name__}: {str(error)[:150]}"
    else:
        if find_nan(result):
            return f"{about}: accepted, and NaN in {str(result)[:80]}"
    changed = [name for name, value in arguments.items() if copy_of(value) != before[name]]
    if changed:
        return f"{about}: changed {changed}"
    return None


# Public classes that klazy builds: their constructors are given what klazy computed.
RESULTS = (
    kl.types.Batch,
    contrib.Game,
    kl.types.Regret,
    kl.types.Totals,
    kl.types.Trace,
    kl.types.BestFixed,
    kl.types.Frontier,
    kl.types.Optimum,
)
RESULTS += (
    kl.types.RemoteAgent,
    kl.types.Report,
    kl.types.Sweep,
    kl.types.SweepRuns,
    kl.types.WholePoints,
    theory.Certificate,
    theory.ExpertCertificate,
    theory.Diagnosis,
    theory.EnsembleDiagnosis,
    theory.ExpertCurves,
    contrib.Conversion,
    contrib.LongTermBound,
    contrib.LongTermCertificate,
    contrib.MirrorCertificate,
    contrib.Threshold,
    theory.Reluctance,
    theory.Resonance,
    sequences.Scenario,
    datasets.Provenance,
)


@pytest.mark.xdist_group("torture api")
def test_every_public_constructor_and_function_is_called():
    modules = (kl, contrib, theory, kl.memories, kl.types, sequences, datasets)
    public = {
        getattr(module, name)
        for module in modules
        for name in module.__all__
        if name not in ("CARRIERS", "SOURCES")
    }
    called = (
        {call for call, _ in list_calls()}
        | {type(config) for config in CONFIGS}
        | {datasets.cache_requests}
    )
    missing = {
        value.__name__
        for value in public - called - set(RESULTS)
        if not (
            inspect.isclass(value) and (inspect.isabstract(value) or issubclass(value, Exception))
        )
    }
    assert missing == {"State"}  # a protocol


@pytest.mark.skipif(
    not Path("/proc/self/statm").exists(), reason="memory is limited by what Linux tells"
)
@pytest.mark.xdist_group("torture api")
def test_hostile_calls_are_refused_in_a_sentence_or_work(little_memory):
    tried = amount(2_000, 1_000_000)
    rng = np.random.default_rng(1)
    calls = list_calls()
    found = {}
    for i in range(tried):
        call, good = calls[i % len(calls)]
        wrong = attack(call, good, rng)
        if wrong is not None:
            found.setdefault(wrong.partition(":")[0], wrong)
    assert not found, "\n".join(found.values())
    outcome = "refused in a sentence, or worked"
    record(
        "api",
        "Hostile calls of every public constructor, function and method",
        tried,
        outcome,
    )


def test_a_damaged_trace_is_refused_in_a_sentence(tmp_path):
    TRACE.save(tmp_path / "whole.npz")
    whole = (tmp_path / "whole.npz").read_bytes()
    rng = np.random.default_rng(0)
    file = tmp_path / "damaged.npz"
    tried = amount(100, 100_000)
    refused = []
    for _ in range(tried):
        bad = bytearray(whole)
        if rng.random() < 0.5:
            bad = bad[: rng.integers(len(bad))]
        else:
            bad[rng.integers(len(bad))] ^= 1 << int(rng.integers(8))
        file.write_bytes(bytes(bad))
        try:
            back = kl.types.Trace.load(file)
        except Exception as error:
            refused.append(error)
        else:  # a bit of the archive that says nothing, such as a date
            assert back.totals == TRACE.totals
            assert np.array_equal(back.x, TRACE.x)
    assert len(refused) > tried / 2
    assert [error for error in refused if not is_refusal(error, {})] == []
    record(
        "trace",
        "Bits flipped in and bytes cut from a saved trace",
        tried,
        "refused, or what was saved was read",
    )
