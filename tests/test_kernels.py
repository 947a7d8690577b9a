"""Every kernel against ``step``, which is the specification, and the promises about compiling."""

import ast
import json
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle, product
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

import klazy as kl
from cases import (
    COMPILED,
    COMPILED_SETS,
    ENSEMBLES,
    EVERY_LEARNER,
    FAMILIES,
    LEARNERS,
    MEMORIES,
    MOVEMENTS,
    RELUCTANT,
    SCHEDULES,
    STATES,
    THUMBS,
    WEALTH,
    costs_of,
    cover_pairs,
    flattened,
    gradients,
    rows_of,
)
from klazy.kernels import binding, codes
from klazy.kernels.binding import once, pointer
from klazy.kernels.coded import price_of, share_kept, sigma_at
from klazy.kernels.costs import COSTS as COST_PARTS
from klazy.kernels.domains import DOMAINS, highest, least_entry
from klazy.kernels.lane import load, log, store
from klazy.kernels.layout import RULE_CODES
from klazy.kernels.register import REGISTER
from klazy.kernels.round import link_round
from klazy.kernels.rules import RULES

JIT_OFF = os.environ.get("NUMBA_DISABLE_JIT") == "1"
T = 60
ROUNDS = (
    20 if JIT_OFF else T
)  # plain Python shows where a kernel reads and writes, which takes few rounds
AGREE = 1e-12  # times the size of the numbers compared


def both(learner, costs, **options):
    compiled = kl.run(learner, costs, engine="compiled", **options)
    step = kl.run(learner, costs, engine="step", **options)
    assert (compiled.engine, step.engine) == ("compiled", "step")
    return compiled, step


def assert_same(compiled, step):
    np.testing.assert_allclose(compiled.x, step.x, rtol=AGREE, atol=AGREE)
    np.testing.assert_allclose(
        compiled.hitting, step.hitting, rtol=AGREE, atol=AGREE * (1 + np.abs(step.x).max())
    )
    np.testing.assert_allclose(compiled.switching, step.switching, rtol=AGREE, atol=AGREE)
    for ours, theirs in zip(flattened(compiled.state), flattened(step.state), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-10)


# A kernel takes seconds to compile, so every rule meets every kind of set in one size: on the line, in a dimension whose loops
# are unrolled, or beyond. Learners of one rule share its kernel and are all tried, as are all schedules.
OTHER_SIZES = [
    kl.L2Ball(9),
    kl.L1Ball(40),
    kl.Box(-np.ones(9), np.ones(9)),
    kl.CappedSimplex(1, 0.5, 1.0),
    kl.CappedSimplex(9, 2.0, 0.6),
    kl.Product([kl.L1Ball(1)]),
    kl.Product([kl.Simplex(9), kl.Box(-1.0, 1.0)]),
]
SIZES = ("unrolled", "beyond", "line")
ANYWHERE = [rule for rule in RULES if RULES[rule].place is None]  # the rules that are projected
MAKERS = {
    rule: [make for make in LEARNERS.values() if make(kl.L2Ball(2), 1.0).rule == rule]
    for rule in ANYWHERE
}


def size_of(domain):
    """The class of dimensions that its kernels are compiled for."""
    if domain.dim == 1:
        return "line"
    return "unrolled" if domain.dim <= codes.UNROLLED_DIM else "beyond"


def sets_by_kind_and_size():
    found = {}
    for domain in (*COMPILED_SETS, *OTHER_SIZES):
        found.setdefault((type(domain), size_of(domain)), []).append(domain)
    return found


def take_turns(domains, turn):
    """Compiled, the sets of one of their dimensions, which share kernels; as plain Python, all."""
    dims = sorted({domain.dim for domain in domains})
    return [domain for domain in domains if JIT_OFF or domain.dim == dims[turn % len(dims)]]


PLACES = sets_by_kind_and_size()
KINDS = list({type(domain): None for domain in COMPILED_SETS})


# As plain Python every rule meets every kind. Compiled, every kind meets two sizes, and no line: parts are linked alike.
ROWS = cover_pairs(KINDS, ANYWHERE, SIZES)
if not JIT_OFF:
    turns = product(range(2), range(len(KINDS)))
    ROWS = [(KINDS[i], ANYWHERE[(i + turn) % len(ANYWHERE)], SIZES[turn]) for turn, i in turns]


@pytest.mark.parametrize(
    ("domain", "rule"),
    [
        pytest.param(domain, rule, id=f"{domain!r}-{rule}")
        for kind, rule, size in ROWS
        for domain in take_turns(PLACES[kind, size], RULE_CODES[rule])
    ],
)
def test_every_rule_on_every_set_under_every_schedule(domain, rule):
    for make in MAKERS[rule]:
        assert_same_under_every_schedule(make, domain, ROUNDS)


# Rules that place their next point themselves know one kind of set. Compiled, each meets one size of it; as plain Python, all.
PLACED = [
    domain
    for domain in (*COMPILED_SETS, *OTHER_SIZES)
    if RELUCTANT["Reluctant"](domain, 1.0).rule is not None
    if JIT_OFF
    or domain
    in (kl.L2Ball(5), kl.Simplex(12, 2.5), kl.Box(-1.0, 2.0), kl.CappedSimplex(9, 2.0, 0.6))
]


@pytest.mark.parametrize("domain", PLACED, ids=repr)
@pytest.mark.parametrize("make", RELUCTANT.values(), ids=RELUCTANT)
def test_every_rule_that_places_its_point(domain, make):
    learner = make(domain, 1.0)
    asymmetric = kl.contrib.AsymmetricMovement(0.3, up=1.0, down=2.0)
    movements = [learner.movement]
    if JIT_OFF or type(domain) in (kl.L2Ball, kl.CappedSimplex):
        movements.append(learner.movement.replace(weight=0.0))  # a kernel of its own
    if type(domain) is not kl.L2Ball:
        movements.append(asymmetric)
    for seed, movement in enumerate(movements):
        played = learner.replace(movement=movement)
        assert_same(*both(played, gradients(seed, ROUNDS, domain.dim)))


@pytest.mark.parametrize(
    "domain",
    [kl.L2Ball(5), *([kl.CappedSimplex(5, 1.5, 0.6), kl.Simplex(5)] if JIT_OFF else [])],
    ids=repr,
)
def test_rules_that_place_their_points_as_lanes_experts_and_agents(domain):
    """Beside rules that are projected, among the experts of an ensemble."""
    g = gradients(8, ROUNDS, 5)
    movement = RELUCTANT["Reluctant"](domain, 1.0).own_movement
    family = [
        kl.contrib.Reluctant(domain, movement, window, horizon)
        for window in (1.0, 4.0, None)
        for horizon in (1.0, 3.0, 40.0)
    ]
    for engine in ("compiled", "step"):
        assert kl.Agent(family[4], engine=engine).engine == engine
    batch = kl.run_batch(family, g, movement=kl.L2Movement())
    assert batch.engine == "lanes"
    totals = np.array(
        [kl.run(learner, g, engine="step", movement=kl.L2Movement()).totals for learner in family]
    )
    np.testing.assert_allclose(
        np.column_stack((batch.hitting, batch.switching)), totals, rtol=1e-12, atol=1e-10
    )
    assert_same(
        *both(
            kl.SAder(
                [*family, kl.GD(domain, 2.0), kl.contrib.Patient(domain, 2.0, move_cost=0.5)]
            ),
            g,
        )
    )


MIRRORED = [kl.CappedSimplex(5, 1.5, 0.6)]
if JIT_OFF:
    MIRRORED = [
        *MIRRORED,
        kl.Simplex(5),
        kl.Simplex(12, 2.5),
        kl.Simplex(1, 3.0),
        kl.CappedSimplex(3, 3.0, 1.0),
    ]


@pytest.mark.parametrize("domain", MIRRORED, ids=repr)
@pytest.mark.parametrize("floor", [0.0, 0.1])
def test_mirror_descent_with_every_memory_under_every_schedule(domain, floor):
    """Gradients of any size: logarithms are kept, so that what was nearly zero comes back."""
    if domain == kl.CappedSimplex(3, 3.0, 1.0):
        floor = 0.0  # a set of one point leaves no room for another
    sizes = cycle((1.0, 100.0))
    for memory, sigma in product(MEMORIES, SCHEDULES):
        learner = kl.contrib.MirrorMemory(
            domain, sigma, memory=memory, geometry=kl.contrib.Entropy(floor)
        )
        assert_same(*both(learner, gradients(3, ROUNDS, domain.dim, next(sizes))))


def test_mirror_descent_as_lanes_and_live():
    """On a simplex, where a batch has a kernel of its own; one of an ensemble is tried without compilation."""
    domain = kl.Simplex(5)
    g = gradients(8, ROUNDS, 5)
    family = [
        kl.contrib.MirrorMemory(domain, sigma, memory=memory, geometry=kl.contrib.Entropy(0.1))
        for sigma in (0.5, 1.7, 20.0)
        for memory in (kl.memories.Clock(4), kl.memories.Decay(5.0))
    ]
    batch = kl.run_batch(family, g, movement=kl.TVMovement())
    assert batch.engine == "lanes"
    totals = [
        kl.run(learner, g, engine="step", movement=kl.TVMovement()).totals for learner in family
    ]
    np.testing.assert_allclose(
        np.column_stack((batch.hitting, batch.switching)),
        np.array(totals),
        rtol=1e-12,
        atol=1e-10,
    )
    if JIT_OFF:
        assert_same(*both(kl.SAder([*family, kl.GD(domain, 2.0)]), g))
        agent = kl.Agent(family[1], engine="compiled")
        for row in g:
            agent.update(row)
        np.testing.assert_allclose(
            agent.x, kl.run(family[1], g, engine="step").state.x, atol=AGREE
        )


@pytest.mark.parametrize("name", ["QuadraticCosts", "PinballCosts"])
def test_rules_that_are_told_rows(name):
    """Compiled on the line, as the box above; as plain Python also in more dimensions."""
    for domain in (kl.Box(-1.0, 2.0), *([kl.Box([-1.0] * 9, [0.5] * 9)] if JIT_OFF else [])):
        data = gradients(3, ROUNDS, domain.dim)
        costs = {
            "QuadraticCosts": kl.QuadraticCosts(data),
            "PinballCosts": kl.PinballCosts(data, 2.0, 0.5),
        }[name]
        for window, horizon in ((3.0, 4.0), (20.0, 1.0), (4.0, 0.1), (None, 2.0)):
            if (name, window) == ("PinballCosts", None):
                continue  # its band changes from round to round
            learner = kl.contrib.Reluctant(
                domain, kl.L1Movement(0.7), window, horizon, family=costs.family
            )
            assert_same(*both(learner, costs))
            agent = kl.Agent(learner, engine="compiled")
            for row in data:
                agent.observe(row)
            np.testing.assert_allclose(agent.state.x, kl.run(learner, costs).state.x, atol=AGREE)


def test_a_reluctant_whose_coordinates_pay_differently_has_no_kernel():
    """Nor has one of a movement without a rule, or one whose band changes in every round."""
    box = kl.Box([0, 0], [1, 1])
    uneven = kl.contrib.AsymmetricMovement(up=[1.0, 2.0])
    assert kl.contrib.Reluctant(box, uneven, 2.0, 2.0).rule is None
    assert kl.contrib.Reluctant(box, kl.contrib.ImpactMovement(), 2.0, 2.0).rule is None
    assert (
        kl.contrib.Reluctant(box, kl.L1Movement(), 2.0, 2.0, family=kl.Pinball([1.0, 2.0])).rule
        is None
    )
    assert kl.contrib.Reluctant(box, kl.L1Movement(), None, 2.0, family=kl.Pinball()).rule is None
    assert kl.contrib.Reluctant(box, kl.L1Movement(), 2.0, 2.0).rule is not None


PAID = [
    kl.L1Movement(0.5),
    kl.TVMovement(0.2),
    kl.L2Movement(np.linspace(0.0, 0.5, ROUNDS)),
    kl.contrib.WeightedL2Movement(0.3, scale=1.3),
    kl.contrib.AsymmetricMovement(0.2, up=2.0),
    kl.contrib.SwitchFee(0.2),
]


def thumbs_on(domain, family, window):
    """Rules of thumb with one window, each of which moves now and then."""
    if window == 1:
        yield kl.LastValue(domain, family=family)
    if window is None:
        yield kl.contrib.FollowTheLeader(domain, family=family)
    else:
        yield kl.MovingAverage(domain, window, family=family)
    yield kl.contrib.Periodic(domain, 3, window, family=family)
    yield kl.MinimumHold(domain, 4, window, family=family)
    if not isinstance(family, kl.Pinball):
        for movement in PAID:
            yield kl.DeadBand(domain, movement, 2.0, window, family=family)


# They know every set, and a kernel has no constant but the family. Compiled, families take turns; as plain Python, all meet.
THUMB_COSTS = {
    "linear": kl.contrib.LinearCosts,
    "quadratic": lambda data: kl.QuadraticCosts(data, 2.5),
    "pinball": lambda data: kl.PinballCosts(data, 2.0, 0.5),
}
WINDOWS = (None, 1, 2, 5, 1000)
THUMB_ROWS = [(kl.Simplex(5), "linear", window) for window in WINDOWS]
THUMB_ROWS += [(kl.Box(-1.0, 2.0), "pinball", 5)]
if JIT_OFF:
    THUMB_ROWS = cover_pairs((*COMPILED_SETS, *OTHER_SIZES), list(THUMB_COSTS), WINDOWS)


@pytest.mark.parametrize(("domain", "family", "window"), THUMB_ROWS, ids=repr)
def test_every_rule_of_thumb(domain, family, window):
    costs = THUMB_COSTS[family](gradients(3, ROUNDS, domain.dim))
    for learner in thumbs_on(domain, costs.family, window):
        compiled, step = both(learner, costs)
        assert_same(compiled, step)
        assert [type(field) for field in compiled.state] == [type(field) for field in step.state]


def test_rules_of_thumb_as_lanes_and_experts(monkeypatch):
    monkeypatch.setattr("klazy.game.run.WORTH_A_KERNEL", 0)
    """Those with one window lie side by side."""
    domain = kl.Simplex(5)
    g = gradients(8, ROUNDS, 5)
    family: list[kl.types.Learner[Any]] = [kl.Fixed(domain, start=[0.0, 1.0, 0.0, 0.0, 0.0])]
    for window in WINDOWS:
        family += thumbs_on(domain, kl.Linear(), window)
    batch = kl.run_batch(family, g, movement=kl.L2Movement())
    assert batch.engine == "lanes"
    totals = np.array(
        [kl.run(learner, g, engine="step", movement=kl.L2Movement()).totals for learner in family]
    )
    np.testing.assert_allclose(
        np.column_stack((batch.hitting, batch.switching)), totals, rtol=1e-12, atol=1e-10
    )
    assert_same(*both(kl.SAder([*family, kl.GD(domain, 2.0)]), g))


def test_a_dead_band_whose_price_a_kernel_does_not_know_has_none():
    """Prices that differ by coordinate, what a move saves of a demand, and families without a kernel."""
    box = kl.Box([0, 0], [1, 1])
    uneven = kl.contrib.AsymmetricMovement(up=[1.0, 2.0])
    assert kl.DeadBand(box, uneven, 2.0).rule is None
    assert kl.DeadBand(box, "l1", 2.0, family=kl.Pinball()).rule is None
    assert kl.DeadBand(box, "l1", 2.0, family=kl.LogWealth()).rule is None
    assert kl.contrib.Periodic(box, 2, family=kl.Pinball([1.0, 2.0])).rule is None
    assert kl.DeadBand(box, "l1", 2.0).rule is not None
    assert kl.contrib.Periodic(box, 2, family=kl.Pinball()).rule is not None


# Kernels of ensembles know the rules of their experts. Compiled, they meet every kind of set; as plain Python, also the line.
ENSEMBLE_PLACES = [
    domain
    for domain in COMPILED_SETS
    if (domain.dim > 1 and domain.diameter > 0.0) or type(domain) is kl.L1Ball
    if JIT_OFF or domain.dim not in (1, 8)
]


# A leader's blocks are an ensemble's, which meet every kind; compiled, leaders meet one.
LEADER_PLACES = [domain for domain in ENSEMBLE_PLACES if JIT_OFF or domain == kl.L2Ball(5)]


@pytest.mark.parametrize(
    ("make", "domain"),
    [
        pytest.param(make, domain, id=f"{name}-{domain!r}")
        for name, make in ENSEMBLES.items()
        for domain in (LEADER_PLACES if name.startswith("Leader") else ENSEMBLE_PLACES)
    ],
)
def test_every_ensemble_on_every_set_under_every_schedule(domain, make):
    rounds = 8 if JIT_OFF else 30  # dozens of experts, whose steps are plain Python
    assert_same_under_every_schedule(make, domain, rounds)


def assert_same_under_every_schedule(make, domain, rounds):
    for seed, sigma in enumerate(SCHEDULES):
        g = gradients(seed, rounds, domain.dim)
        g[:3] = 0.0  # a scale-free schedule has nothing to go by at first
        assert_same(*both(make(domain, sigma), g))


# Compiled, these learners take turns on the cost families; as plain Python, each meets all.
SOME = ("KLazyGD", "MemoryGD-Decay(m=5.0)", "SAder self-tuned", *(["Leader"] if JIT_OFF else []))
CODED = [family for family in FAMILIES if codes.code_of(family) is not None]
SHARING = [
    [family for family in CODED if family.code == code] for code in COST_PARTS
]  # families with one kernel part
TURNS = list(product(SOME, SHARING) if JIT_OFF else zip(cycle(SOME), SHARING, strict=False))


@pytest.mark.xdist_group("Simplex5")
@pytest.mark.parametrize(("learner", "families"), TURNS, ids=repr)
def test_learners_on_every_cost_family(learner, families):
    assert families, "every kernel part has a family"
    for family in families:
        if (
            np.size(getattr(family, "short", 1.0)) == 1
        ):  # else its prices are those of three coordinates
            costs = family.costs(rows_of(family, 1, ROUNDS, 5))
            for sigma in (kl.Constant(2.0), kl.ScaleFree(1.4)):
                assert_same(*both(COMPILED[learner](kl.Simplex(5), sigma), costs))
    if families[0].code == codes.PINBALL:
        assert_same(
            *both(
                COMPILED[learner](kl.Simplex(5), 2.0), costs_of("PinballCosts", ROUNDS, 5, seed=1)
            )
        )


def test_costs_that_are_not_linear_beyond_the_unrolled_dimensions():
    assert_same(
        *both(kl.KLazyGD(kl.Simplex(12), 2.0, k=4), costs_of("LogWealthCosts", T, 12, seed=1))
    )


@pytest.mark.parametrize(
    "name", [name for name, make in MOVEMENTS.items() if make(5).code is not None]
)
def test_every_movement_cost(name):
    for domain in (kl.L1Ball(5), kl.Box([-1.0, 0.0, 0.0, -1.0, 0.2], [1.0, 1.0, 2.0, 1.0, 0.4])):
        movement = MOVEMENTS[name](5)
        compiled, step = both(
            kl.GD(domain, kl.Sqrt(4.0)), gradients(2, T, 5), movement=movement, x0=np.full(5, 0.3)
        )
        assert_same(compiled, step)
        np.testing.assert_allclose(
            step.switching, movement.paid(step.x, np.full(5, 0.3)), atol=1e-14
        )


@pytest.mark.parametrize(
    "name", [name for name, make in MOVEMENTS.items() if make(5).code is None]
)
def test_a_movement_cost_without_a_kernel_is_charged_through_step(name):
    movement = MOVEMENTS[name](5)
    learner = kl.GD(kl.Simplex(5), kl.Sqrt(4.0))
    trace = kl.run(learner, gradients(2, T, 5), movement=movement)
    assert trace.engine == "step"
    np.testing.assert_allclose(trace.switching, movement.paid(trace.x), atol=1e-14)
    batch = kl.run_batch([learner], gradients(2, T, 5), movement=movement)
    assert batch.switching[0] == pytest.approx(trace.totals.switching, rel=1e-12)


@pytest.mark.parametrize("domain", [kl.L2Ball(9), kl.Simplex(300)], ids=repr)
def test_dimensions_beyond_the_unrolled_ones(domain):
    g = gradients(3, 200, domain.dim)
    for learner in (kl.KLazyGD(domain, kl.Sqrt(2.0), k=17), kl.LazyGD(domain, 5.0)):
        assert_same(*both(learner, g))


# Compiled, each sorting network is tried on one of the two sets; as plain Python, on both.
TIED = [make(d) for d in range(2, codes.UNROLLED_DIM + 1) for make in (kl.L1Ball, kl.Simplex)]
if not JIT_OFF:
    TIED = [kl.L1Ball(5), kl.Simplex(7)]


@pytest.mark.parametrize("domain", TIED, ids=repr)
def test_unrolled_dimensions_with_ties(domain):
    """Thresholds of small sets come from a sorting network; gradients of +-1 make ties in every round."""
    g = np.random.default_rng(domain.dim).choice([-1.0, 0.0, 1.0], (T, domain.dim))
    assert_same(*both(kl.KLazyGD(domain, 1.0, k=3), g))


@pytest.mark.parametrize(
    "domain", [kl.Simplex(5), kl.Simplex(12), kl.CappedSimplex(5, 1.5, 0.6)], ids=repr
)
@pytest.mark.parametrize("offset", [10.0, 1e9])
def test_costs_with_a_common_offset_lose_no_precision(domain, offset):
    """On a simplex an offset of all coordinates changes nothing; y runs away by offset / sigma every round."""
    g = (
        offset
        + np.random.default_rng(0).integers(-8, 9, (130 if JIT_OFF else 400, domain.dim)) / 8.0
    )
    for learner in (kl.LazyGD(domain, 0.5), kl.KLazyGD(domain, 2.0, k=30)):
        compiled, step = both(learner, g)
        size = offset * len(
            g
        )  # y is a sum of this size, whose rounding both engines share up to its order
        np.testing.assert_allclose(
            compiled.x, step.x, atol=max(AGREE, 4 * size * np.finfo(float).eps)
        )
        assert domain.contains(compiled.x, tol=1e-14)


@pytest.mark.parametrize(
    "domain", [kl.Simplex(7), kl.Simplex(12), kl.L1Ball(5), kl.L1Ball(12), kl.L2Ball(5)], ids=repr
)
def test_the_farthest_points_are_projected_too(domain):
    g = np.zeros((2, domain.dim))
    for size in (1e16, 1e200):
        g[0, :2] = -size, size / 3
        compiled, step = both(kl.KLazyGD(domain, 1.0, k=1), g)
        np.testing.assert_allclose(compiled.x, step.x, atol=1e-12)
        assert domain.contains(compiled.x, tol=1e-14)
        assert np.linalg.norm(compiled.x[1]) == pytest.approx(1.0)


def test_a_far_point_may_be_inside_a_large_ball():
    g = np.zeros((2, 5))
    g[:, 0] = 1e59, 1.0
    compiled, step = both(kl.GD(kl.L2Ball(5, 1e60), 1.0), g, movement=kl.L1Movement())
    np.testing.assert_allclose(compiled.x, step.x, rtol=AGREE)
    assert step.x[1, 0] == -1e59


@pytest.mark.parametrize("record", ["actions", "costs", "totals"])
def test_recording_less_changes_nothing_else(record):
    learner, g = kl.KLazyGD(kl.L2Ball(5), kl.Sqrt(8.0), k=6), gradients(4, T, 5)
    full = kl.run(learner, g)
    for engine in ("compiled", "step"):
        trace = kl.run(learner, g, record=record, engine=engine)
        assert trace.totals == pytest.approx(full.totals, rel=1e-12)
        kept = {
            "actions": {"x", "hitting", "switching"},
            "costs": {"hitting", "switching"},
            "totals": set(),
        }
        assert set(trace.kept) == kept[record]


@pytest.mark.parametrize("make", COMPILED.values(), ids=COMPILED)
def test_a_run_in_two_parts_is_the_run(make):
    domain = (
        kl.Simplex(5) if make in THUMBS.values() else kl.L2Ball(5)
    )  # whose kernels other tests have
    learner, g, cut = make(domain, kl.Sqrt(3.0)), gradients(5, ROUNDS, 5), ROUNDS // 3 + 3
    for engine in ("compiled", "step"):
        whole, first = kl.run(learner, g, engine=engine), kl.run(learner, g[:cut], engine=engine)
        second = kl.run(learner, g[cut:], engine=engine, state=first.state, x0=first.x[-1])
        assert np.array_equal(np.vstack((first.x, second.x)), whole.x)
        np.testing.assert_allclose(
            first.totals.cost + second.totals.cost, whole.totals.cost, rtol=1e-12
        )


@pytest.mark.parametrize("rounds", [1, T])
def test_hints_reach_the_kernel(rounds):
    g = gradients(6, rounds, 5)
    learner = kl.MemoryGD(kl.L1Ball(5), kl.ScaleFree(2.0), memory=kl.memories.Decay(8.0))
    plain = kl.run(learner, g)
    for aligned in ({"hints": g}, {"next_hints": 0.5 * g}):
        compiled, step = both(learner, g, **aligned)
        assert_same(compiled, step)
        is_told = rounds > 1 or "next_hints" in aligned
        assert (np.abs(step.state.x - plain.state.x).max() > 0.01) == is_told


def test_read_only_strided_and_integer_input():
    g = np.random.default_rng(0).integers(-3, 4, (40, 10))
    learner, x = kl.GD(kl.L2Ball(5), 4.0), None
    frozen = np.ascontiguousarray(g[:, ::2].astype(float))
    frozen.setflags(write=False)
    for version in (
        g[:, ::2],
        g[:, ::2].astype(np.float32),
        np.asfortranarray(g[:, ::2].astype(float)),
        frozen,
    ):
        trace = kl.run(learner, version, engine="compiled")
        assert x is None or np.array_equal(trace.x, x)
        x = trace.x


class SteepBall(kl.L2Ball):
    """A user's subclass: it may compute something else, so its parent's kernel is not used for it."""


class HalfBall(kl.L2Ball):
    def nearest(self, y):
        return 0.5 * super().nearest(y)


class Custom(kl.types.Schedule):
    def __call__(self, t):
        return 2.0 + 1.0 / t


@pytest.mark.parametrize(
    ("part", "learner", "costs"),
    [
        ("Polytope", kl.GD(kl.Polytope([[1.0], [-1.0]], [1.0, 1.0]), 1.0), np.ones((3, 1))),
        (
            "Intersection",
            kl.GD(kl.Intersection([kl.Box(0, 1), kl.L2Ball(1)]), 1.0),
            np.ones((3, 1)),
        ),
        (
            "Product",
            kl.GD(kl.Product([kl.Polytope([[1.0], [-1.0]], [1.0, 1.0])]), 1.0),
            np.ones((3, 1)),
        ),
        ("Product", kl.GD(kl.Product([HalfBall(1)]), 1.0), np.ones((3, 1))),
        (
            "CallableCosts",
            kl.GD(kl.Box(0, 1), 1.0),
            kl.CallableCosts(3, 1, lambda t, x: x[0], lambda t, x: [1.0]),
        ),
        ("SteepBall", kl.GD(SteepBall(1), 1.0), np.ones((3, 1))),
        ("Custom", kl.GD(kl.L2Ball(1), Custom()), np.ones((3, 1))),
    ],
)
def test_a_part_without_kernel_is_named_and_auto_goes_through_step(part, learner, costs):
    message = f"engine='compiled' does not know {part}. Use engine='auto'."
    with pytest.raises(ValueError, match=message):
        kl.run(learner, costs, engine="compiled")
    assert kl.run(learner, costs).engine == "step"


def test_only_these_classes_have_no_kernel():
    from cases import concrete

    bases = (
        kl.types.ConvexSet,
        kl.types.Schedule,
        kl.types.Family,
        kl.types.Movement,
        kl.types.Memory,
    )
    without = {c.__name__ for base in bases for c in concrete(base) if c.code is None}
    without |= {c.__name__ for c in concrete(kl.types.Learner) if vars(c).get("rule") is None}
    sets = {"Polytope", "Intersection", "Space"}
    wrappers = {"Advice", "Bandit", "BetterOfTwo", "Blocks", "Budgeted", "Delayed", "LongTerm"}
    wrappers |= {"Interpolation"}
    learners = {
        "StronglyAdaptive",
        "SteadyAdaptive",
        "CoinBetting",
        "RollingMax",
        "RollingQuantile",
    }
    learners |= {"PodAutoscaler", "FollowForecast", "OptimisticGD", "OptimisticHedge"}
    learners |= {"OnlineNewton", "Maler"}
    learners |= {*STATES, *WEALTH}
    movements = {"MahalanobisMovement", "DriftedMovement", "FiniteMetric"}
    assert without == sets | wrappers | learners | movements


def code_table(first, last):
    """The codes that a stretch of codes.py names, from one to the other."""
    names = list(vars(codes))
    return {vars(codes)[name] for name in names[names.index(first) : names.index(last) + 1]}


class TestTables:
    """A code that a table lacks is an error, never another algorithm."""

    def test_every_code_has_its_part(self):
        assert set(DOMAINS) == code_table("L2_BALL", "PRODUCT")
        assert set(COST_PARTS) == code_table("LINEAR", "LOGISTIC")
        learners = [make(kl.L2Ball(2), 1.0) for make in LEARNERS.values()]
        by_forecast = [
            *RELUCTANT.values(),
            *THUMBS.values(),
            EVERY_LEARNER["Seasonal"],
            EVERY_LEARNER["Autoregressive"],
            EVERY_LEARNER["MirrorMemory"],
        ]
        learners += [make(domain, 1.0) for make in by_forecast for domain in COMPILED_SETS]
        movers = {
            rule for rule in RULES if rule.startswith(("reluctant", "seasonal", "autoregressive"))
        }  # see test_moves.py
        told = {rule for rule in RULES if RULES[rule].row_family is not None}
        assert {learner.rule for learner in learners} - {None} - movers == set(
            RULES
        ) - told - movers

    @pytest.mark.parametrize("code", code_table("FORGET", "EVENT"))
    def test_every_memory_code_is_known(self, code):
        assert 0.0 <= share_kept(code, 2.0, 9.0, True) <= 1.0

    @pytest.mark.parametrize("code", [*code_table("CONSTANT", "DOUBLING"), codes.PROPORTIONAL])
    def test_every_schedule_code_is_known(self, code):
        assert sigma_at(code, 2.0, 1.0, 3.0) > 0.0

    @pytest.mark.parametrize("code", code_table("MOVE_L2", "MOVE_IMPACT"))
    def test_every_movement_code_is_known(self, code):
        assert price_of(np.array([2.0, -1.0]), 2, code, np.full(4, 0.5)) > 0.0

    def test_a_code_that_nobody_knows_is_not_another(self):
        assert np.isnan(share_kept(99, 2.0, 9.0, True))
        assert np.isnan(sigma_at(99, 2.0, 1.0, 3.0))
        assert np.isnan(price_of(np.array([2.0, -1.0]), 2, 99, np.full(4, 0.5)))
        with pytest.raises(KeyError):
            link_round(binding.FLOAT, 99, (0,), 3)
        with pytest.raises(KeyError):
            link_round(binding.FLOAT, codes.BOX, (99,), 3)


@pytest.mark.skipif(JIT_OFF, reason="nothing is compiled here")
class TestCompiling:
    def test_the_logarithm_of_a_register_is_exact(self):
        """To the last digit, of normal numbers; of others it is what NumPy says."""

        def take_logs(numbers, out):
            x = pointer(numbers, 0)
            y = pointer(out, 0)
            for i in range(numbers.size // codes.LANES):
                store(y, i, log(load(x, i)))

        kernel = numba.njit(binding.bind(take_logs, REGISTER, {}))
        rng = np.random.default_rng(0)
        x = np.concatenate(
            (np.exp(rng.uniform(-700.0, 700.0, 4000)), 1.0 + 0.001 * rng.normal(size=3992))
        )
        x = np.append(x, [0.0, -1.0, np.nan, 1.0, 2.0, 0.5, 1e-300, 1e300])
        found = np.empty_like(x)
        kernel(x, found)
        with np.errstate(divide="ignore", invalid="ignore"):
            np.testing.assert_allclose(found, np.log(x), rtol=2.0**-51, atol=0.0)

    @pytest.mark.parametrize(("part", "find"), [(highest, np.max), (least_entry, np.min)])
    def test_searches_of_many_entries_are_vectorised(self, part, find):
        linked = binding.link(part, binding.FLOAT)
        search = numba.njit(lambda v: linked(pointer(v, 0), v.size))
        v = np.random.default_rng(0).normal(size=37)
        assert search(v) == find(v)
        code = search.inspect_llvm(search.signatures[0])
        assert re.search(r"<\d+ x double>", code)

    def test_other_numbers_need_no_other_kernel(self):
        from klazy.kernels.sequence import sequence_kernel

        kind = (codes.L2_BALL, codes.LINEAR, RULE_CODES["k_lazy"])
        kernel = sequence_kernel(*kind, 5)
        for sigma in SCHEDULES:
            kl.run(
                kl.KLazyGD(kl.L2Ball(5), sigma, k=3),
                np.ones((4, 5)),
                record="totals",
                movement=kl.TVMovement(),
            )
        assert sequence_kernel(*kind, 5) is kernel
        assert len(kernel.signatures) == 1
        assert sequence_kernel(*kind, 50) is sequence_kernel(*kind, 51)

    def test_a_second_process_compiles_nothing(self, tmp_path):
        script = (
            "import json, numpy as np, klazy as kl\n"
            "kl.run(kl.KLazyGD(kl.Box(0, 1), 1.0, k=2), np.ones((4, 1)))\n"
            "kl.Agent(kl.KLazyGD(kl.Box(0, 1), 1.0, k=2))\n"
            "from klazy.kernels.sequence import sequence_kernel, update_kernel\n"
            "kernels = (sequence_kernel(2, 0, 1, 1), update_kernel(2, 1, 1, False))\n"
            "print(json.dumps([[sum(k.stats.cache_hits.values()), sum(k.stats.cache_misses.values())] for k in kernels]))\n"
        )
        env = {**os.environ, "KLAZY_CACHE_DIR": str(tmp_path)}
        answers = [
            subprocess.run(
                [sys.executable, "-c", script], env=env, capture_output=True, check=True
            )
            for _ in range(2)
        ]
        assert [json.loads(a.stdout) for a in answers] == [[[0, 1], [0, 1]], [[1, 0], [1, 0]]]

    def test_kernels_of_several_processes_do_not_share_functions(self, tmp_path):
        """Numba numbers functions by the process that compiles them: two kernels of the cache may use the same numbers."""
        module = tmp_path / "trial.py"
        module.write_text(
            "import math, sys\n"
            "sys.modules['klazy.kernels.trial'] = sys.modules[__name__]\n"
            "__name__ = 'klazy.kernels.trial'\n"
            "from numba import float64\n"
            "from klazy.kernels.binding import FLOAT, compile_kernel\n"
            "from klazy.kernels.lane import called\n"
            "FACTOR = 1.0\n"
            "@called\n"
            "def scale(x):\n" + 60 * "    x = FACTOR * math.sin(x)\n" + "    return x\n"
            "def play(x):\n    return scale(x) + scale(2.0 * x)\n"
            "for k in map(int, sys.argv[1:]):\n"
            "    kernel = compile_kernel(play, FLOAT, float64(float64), (k,), FACTOR=1.0 + 0.1 * k)\n"
            "    print(kernel(0.5))\n"
        )
        env = {**os.environ, "KLAZY_CACHE_DIR": str(tmp_path / "cache"), "PYTHONHASHSEED": "0"}

        def play(*kernels: str) -> list[str]:
            command = [sys.executable, str(module), *kernels]
            return subprocess.run(
                command, env=env, capture_output=True, check=True, text=True
            ).stdout.split()

        alone = [*play("1"), *play("2")]
        assert alone[0] != alone[1], "nothing to test: the kernels compute the same"
        assert play("1", "2") == alone

    @pytest.mark.long
    def test_kernels_that_other_sources_left_long_ago_are_removed_from_the_cache(self, tmp_path):
        script = (
            "import os, sys, time\n"
            "from pathlib import Path\n"
            "from klazy.kernels import binding, sequence\n"
            "sequence.update_kernel(2, 0, 1, False)\n"
            "for file in Path(sys.argv[1]).rglob('*.nb?'):\n"
            "    os.utime(file, (time.time() - float(sys.argv[2]),) * 2)\n"
            "binding._FINGERPRINT ^= 1  # as if the sources had been edited\n"
            "sequence.update_kernel.cache_clear()\n"
            "sequence.update_kernel(2, 0, 1, False)\n"
            "print(f'{binding._FINGERPRINT:08x}')\n"
        )
        for age, kept in ((binding._STALE / 2, 2), (2 * binding._STALE, 1)):
            folder = tmp_path / str(kept)
            folder.mkdir()
            command = [sys.executable, "-c", script, str(folder), str(age)]
            env = {**os.environ, "KLAZY_CACHE_DIR": str(folder)}
            answer = subprocess.run(command, env=env, capture_output=True, check=True, text=True)
            files = [path.name for path in folder.rglob("*.nb?")]
            assert len(files) == kept
            assert sum(answer.stdout.strip() in name for name in files) == 1

    def test_kernels_release_the_interpreter_lock(self):
        from klazy.kernels.sequence import sequence_kernel

        kernel = sequence_kernel(codes.L2_BALL, codes.LINEAR, RULE_CODES["k_lazy"], 5)
        assert kernel.targetoptions["nogil"]


def test_threads_that_ask_together_get_one_kernel():
    calls = []

    def make(key):
        calls.append(key)
        time.sleep(0.05)
        return object()

    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(once(make), [1] * 8))
    assert len(found) == len(calls) == 1


def arrays_made(function):
    """The names that a function gives to arrays of its own."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assign):
            made = ast.unparse(node.value)
            yield from (
                re.findall(r"\w+", ast.unparse(node.targets[0]))
                if "np.empty(" in made or "np.zeros(" in made
                else ()
            )


def test_every_array_that_a_kernel_makes_is_held_while_pointers_lead_to_it():
    held = {}
    for file in Path(binding.__file__).parent.glob("*.py"):
        for function in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(function, ast.FunctionDef):
                text = ast.unparse(function)
                names = [name for name in arrays_made(function) if f"pointer({name}," in text]
                held |= {
                    (file.name, function.name, name): f"hold({name})" in text for name in names
                }
    assert len(held) == 8
    assert all(held.values()), held


@pytest.mark.skipif(JIT_OFF, reason="Python keeps its arrays itself")
def test_a_held_array_is_not_given_to_another():
    @numba.njit
    def first_of_two(size):
        one = np.empty(size)
        at = binding.pointer(one, 0)
        at[0] = 1.0
        two = np.empty(size)
        two[0] = 2.0
        found = at[0]
        binding.hold(one)
        return found, two[0]

    assert first_of_two(261) == (1.0, 2.0)
