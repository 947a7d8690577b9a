"""Limits by round: kept by every learner, charged as played, no effect where they are open; optima under the same limits."""

import csv
import itertools
import json
import signal
from datetime import datetime, timedelta
from typing import Any, cast

import cvxpy as cp
import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import klazy as kl
from cases import (
    BANDITS,
    EVERY_LEARNER,
    MOVEMENTS,
    correlate,
    costs_of,
    cover_pairs,
    gradients,
)
from command import call_klazy
from klazy.base.checks import Array, InvalidInput
from klazy.hindsight import offline_optimum
from klazy.live.rows import name_limits
from klazy.sets.limits import MANY_ROUNDS, LimitedSet
from served import run_service
from test_comparators import stated_cost, stated_movement
from test_installed import install
from test_live import Interrupted, feed
from test_sets import constraints

T = 12
DIM = 5  # as in other tests, so that they share kernels
SETS = [
    kl.Box([-1.0, 0.0, 0.5, -2.0, 0.0], [1.0, 0.5, 2.0, 0.0, 3.0]),
    kl.Simplex(DIM),
    kl.CappedSimplex(DIM, 1.0, [0.6, 0.7, 0.9, 0.4, 0.5], 0.05),
    kl.Product([kl.Simplex(2, 2.0), kl.CappedSimplex(2, 1.5), kl.Box(-1.0, 1.0)]),
]
LEARNERS = {name: make for name, make in EVERY_LEARNER.items() if name not in BANDITS}
FAMILIES = ["LinearCosts", "QuadraticCosts", "PinballCosts", "LogWealthCosts"]
OPEN = {"LinearCosts": (None, None), "QuadraticCosts": (-np.inf, np.full((T, DIM), np.inf))}
seeds = st.integers(0, 2**16)


def some_limits(domain: kl.types.ConvexSet, seed: int, n: int = T) -> tuple[Array, Array]:
    """Limits of every round, some open and some an outage, around a point of the set, so that no round is without a point."""
    rng = np.random.default_rng(seed)
    inside = domain.project(rng.normal(scale=2.0, size=(n, domain.dim)))
    lower = np.where(
        rng.random(inside.shape) < 0.5, inside - rng.exponential(0.1, inside.shape), -np.inf
    )
    upper = np.where(
        rng.random(inside.shape) < 0.5, inside + rng.exponential(0.1, inside.shape), np.inf
    )
    return lower, np.where(rng.random(inside.shape) < 0.1, inside, upper)


def is_within(x: Array, limits: tuple[Array, Array], domain: kl.types.ConvexSet) -> bool:
    lower, upper = limits
    return bool((x >= lower).all() and (x <= upper).all() and domain.contains(x))


def charge(costs: Any, movement: Any, x: Array, x0: Array | None = None) -> tuple[float, float]:
    return float(costs.values(x).sum()), float(movement.paid(x, x0).sum())


def nearest_by_solver(domain: kl.types.ConvexSet, y: Array, low: Array, high: Array) -> Array:
    x = cp.Variable(domain.dim)
    is_low, is_high = np.isfinite(low), np.isfinite(high)
    inside = [*constraints(domain, x), x[is_low] >= low[is_low], x[is_high] <= high[is_high]]
    cp.Problem(cp.Minimize(cp.sum_squares(x - y)), inside).solve(solver=cp.CLARABEL)
    assert x.value is not None
    return x.value


@pytest.mark.parametrize("domain", SETS, ids=repr)
@given(seed=seeds)
def test_points_outside_go_to_the_nearest_point_inside_and_others_stay(domain, seed):
    limits = some_limits(domain, seed, 3)
    y = np.random.default_rng(seed + 1).normal(scale=2.0, size=(3, DIM))
    known = LimitedSet(domain, *limits)
    found = known.nearest(y)
    for t in range(3):
        wanted = nearest_by_solver(domain, y[t], limits[0][t], limits[1][t])
        np.testing.assert_allclose(found[t], wanted, atol=1e-4)  # what the solver is exact to
    np.testing.assert_allclose(known.nearest(found), found, atol=1e-12)
    assert np.array_equal(known.keep(found), found)
    g = gradients(seed, 3, DIM)
    least = np.vecdot(g, known.lowest(g))
    assert (least <= np.vecdot(g, found) + 1e-12).all()
    assert is_within(known.lowest(g), (limits[0] - 1e-12, limits[1] + 1e-12), domain)


@pytest.mark.parametrize("domain", SETS, ids=repr)
def test_the_kernel_finds_the_same_points(domain):
    n = MANY_ROUNDS
    known = LimitedSet(domain, *some_limits(domain, 1, n))
    y = np.random.default_rng(2).normal(scale=2.0, size=(n, DIM))
    halves = [known.select(slice(0, n // 2)), known.select(slice(n // 2, n))]
    apart = [
        half.nearest(part) for half, part in zip(halves, (y[: n // 2], y[n // 2 :]), strict=True)
    ]
    np.testing.assert_allclose(known.nearest(y), np.vstack(apart), atol=1e-12)


@pytest.mark.parametrize(
    ("kind", "domain", "name"),
    cover_pairs(list(LEARNERS), SETS, ["LinearCosts", "QuadraticCosts"]),
    ids=str,
)
def test_every_learner_keeps_the_limits_and_pays_for_what_it_plays(kind, domain, name):
    learner = LEARNERS[kind](domain, kl.Sqrt(3.0))
    # Who knows one family alone plays its costs, which are linear here.
    costs = costs_of(name if learner.family is None else "LinearCosts", T, DIM, 4)
    limits = some_limits(domain, 5)
    movement = kl.L1Movement(0.7)
    options: dict[str, Any] = {"movement": movement, "x0": domain.start, "engine": "step"}
    trace = kl.run(learner, costs, limits=limits, **options)
    assert is_within(trace.x, limits, domain)
    assert trace.totals == pytest.approx(
        charge(costs, movement, trace.x, domain.start), rel=1e-12
    )
    assert trace.totals == pytest.approx((trace.hitting.sum(), trace.switching.sum()), rel=1e-12)
    stays = (trace.wanted >= limits[0]).all(axis=1) & (trace.wanted <= limits[1]).all(axis=1)
    assert np.array_equal(trace.x[stays], trace.wanted[stays])
    assert not stays.all()

    free = kl.run(learner, costs, **options)
    if name == "LinearCosts" or learner.family is not None:
        assert np.array_equal(trace.wanted, free.x)
    # Every learner has each kind of open limits on some set.
    still = kl.run(learner, costs, limits=OPEN[name], **options)
    assert np.array_equal(still.x, free.x)
    assert still.totals == free.totals


@pytest.mark.parametrize(
    ("kind", "domain", "name", "stands"),
    cover_pairs(list(MOVEMENTS), SETS, ["KLazyGD", "DeadBand"], [False, True]),
    ids=str,
)
def test_all_engines_play_the_same_points(kind, domain, name, stands):
    limits = some_limits(domain, 6, 60)
    costs = costs_of("LinearCosts", 60, DIM, 7)
    movement = MOVEMENTS[kind](DIM)
    learner = EVERY_LEARNER[name](domain, kl.Sqrt(3.0))
    options: dict[str, Any] = {
        "movement": movement,
        "limits": limits,
        "x0": domain.start if stands else None,
    }
    stepped = kl.run(learner, costs, engine="step", **options)
    quick = kl.run(learner, costs, **options)
    assert quick.engine == kl.run(learner, costs, movement=movement).engine
    np.testing.assert_allclose(quick.x, stepped.x, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(quick.switching, stepped.switching, rtol=1e-12, atol=1e-12)
    assert quick.totals == pytest.approx(stepped.totals, rel=1e-12)
    sums = kl.run(learner, costs, record="totals", **options)
    assert sums.totals == quick.totals
    assert not sums.kept


@pytest.mark.parametrize(
    ("domain", "name"),
    list(
        zip(
            SETS,
            ["PinballCosts", "QuadraticCosts", "LogWealthCosts", "QuadraticCosts"],
            strict=True,
        )
    ),
    ids=str,
)
def test_a_kernel_takes_the_gradient_at_the_point_played(domain, name):
    costs = costs_of(name, 60, DIM, 3)
    limits = some_limits(domain, 4, 60)
    learners: list[Any] = [kl.KLazyGD(domain, kl.Sqrt(3.0), k=3)]
    # The kernel of an ensemble takes long to compile, and finds points of a set as those of its rules do.
    if isinstance(domain, kl.Simplex):
        learners.append(kl.SAder([kl.GD(domain, 1.0), kl.LazyGD(domain, 2.0)], 0.3))
    for learner in learners:
        for movement, x0 in (
            ("l1", None),
            (kl.L2Movement(np.linspace(0.0, 2.0, 60)), domain.start),
        ):
            options: dict[str, Any] = {"movement": movement, "limits": limits, "x0": x0}
            stepped = kl.run(learner, costs, engine="step", **options)
            quick = kl.run(learner, costs, **options)
            # An ensemble is told prices by round, and no kernel knows these and limits.
            is_told = movement != "l1" and isinstance(learner, kl.SAder)
            assert quick.engine == ("step" if is_told else "compiled")
            for array in ("x", "wanted", "hitting", "switching"):
                # An ensemble's weights pass rounding errors on.
                near: Any = {"rtol": 1e-11, "atol": 1e-11}
                np.testing.assert_allclose(getattr(quick, array), getattr(stepped, array), **near)
            assert quick.totals == pytest.approx(stepped.totals, rel=1e-11)
            assert quick.state.t == stepped.state.t
            assert is_within(quick.x, limits, domain)


def test_open_limits_change_nothing_in_compiled_runs():
    costs = costs_of("LinearCosts", 50, DIM, 1)
    learner = kl.KLazyGD(kl.Simplex(DIM), 2.0, k=3)
    free = kl.run(learner, costs, engine="compiled")
    still = kl.run(learner, costs, engine="compiled", limits=(0.0, None))
    assert still.totals == free.totals
    assert np.array_equal(still.x, free.x)


def test_an_outage_moves_the_load_at_once_and_charges_for_it_whatever_the_guards_say():
    upper = np.ones((4, 2))
    upper[2, 0] = 0.0
    guards = kl.Guards(hold=10, up=0.1, total=0.01)
    for limited in (None, guards):
        trace = kl.run(
            kl.Fixed(kl.Simplex(2)), np.ones((4, 2)), limits=(None, upper), guards=limited
        )
        assert trace.x[:3].tolist() == [[0.5, 0.5], [0.5, 0.5], [0.0, 1.0]]
        assert trace.switching[:3].tolist() == [0.0, 0.0, 0.5]
    # The guards still hold where the limits demand nothing: here they stop the way back.
    assert trace.x[3].tolist() == [0.0, 1.0]


def test_integers_stay_integers_within_limits():
    domain = kl.Simplex(3, 7)
    upper = np.full((20, 3), np.inf)
    upper[5:9, 0] = 1.7
    upper[12:, 2] = 0.0
    learner = kl.GD(domain, 0.5)
    trace = kl.run(
        learner, gradients(3, 20, 3), limits=(None, upper), guards=kl.Guards(integers=True)
    )
    assert np.array_equal(trace.x, np.rint(trace.x))
    assert is_within(trace.x, (np.zeros((20, 3)), upper), domain)
    narrow = [[7.0] * 3, [2.4, 2.4, 2.9], [7.0] * 3]
    with pytest.raises(
        InvalidInput,
        match=r"limits of round 2: the upper limits add up to 6, below the total of 7\.",
    ):
        kl.run(
            learner, gradients(3, 3, 3), limits=(None, narrow), guards=kl.Guards(integers=True)
        )


@pytest.mark.parametrize(
    ("domain", "limits", "message"),
    [
        (kl.Simplex(2), 3.0, r"limits must be \(lower, upper\), got 3\.0\."),
        (kl.Simplex(2), (None, [0.3, np.nan]), r"limits\[1\] must not contain NaN\. Use inf where there is no limit\."),
        (kl.Simplex(2), (None, [0.3] * 3), r"limits\[1\] must be a number, one per coordinate \(2,\), or one row per round"),
        (
            kl.Simplex(2),
            (None, [[1, 1], [1, 1], [0.5, 0.4]]),
            r"within the limits of round 3: the upper limits add up to 0\.9, below the total of 1\.",
        ),
        (kl.Simplex(2), ([0.6, 0.5], None), r"of round 1: the lower limits add up to 1\.1, above the total of 1\."),
        (
            kl.Box([0.0, 0.0], [2.0, 2.0]),
            ([0.0, 1.0], [[2, 2], [2, 0.5], [2, 2]]),
            r"of round 2: coordinate 1 must be at least 1 and at most 0\.5\.",
        ),
        (kl.L2Ball(2), (0.0, 1.0), "Limits by round are for a Box, Simplex, CappedSimplex, or a Product of these, got L2Ball"),
    ],
)  # fmt: skip
def test_limits_that_do_not_fit_are_refused(domain, limits, message):
    with pytest.raises(InvalidInput, match=message):
        kl.run(kl.GD(domain, 1.0), np.ones((3, 2)), limits=limits)


def test_runs_that_have_no_limits_say_so():
    domain = kl.Box([0.0, 0.0], [1.0, 1.0])
    learner = kl.GD(domain, 1.0)
    costs = costs_of("QuadraticCosts", 5, 2, 0)
    hinted = kl.MemoryGD(domain, 1.0, memory=kl.memories.Full(), hints=True)
    with pytest.raises(
        InvalidInput, match="engine='compiled' does not know limits with hints and curved costs"
    ):
        kl.run(hinted, costs, limits=(None, 0.5), engine="compiled", next_hints=np.zeros((5, 2)))
    with pytest.raises(InvalidInput, match="run has no limits for delays"):
        kl.run(kl.contrib.Delayed(learner), costs, limits=(None, 0.5), delays=1)
    with pytest.raises(InvalidInput, match="record='experts' is for runs without limits"):
        kl.run(kl.SAder([learner], 0.3), costs, limits=(None, 0.5), record="experts")
    trace = kl.run(learner, costs, limits=(None, 0.5))
    assert trace.learner == f"{learner!r} within limits by round"
    with pytest.raises(InvalidInput, match="trace must be of a run without limits"):
        kl.theory.certify(trace, trace.x)


# ---- optima


def conic(
    costs: Any, domain: kl.types.ConvexSet, movement: Any, limits: tuple[Array, Array], x0: Any
) -> float:
    """The optimum within limits by Clarabel."""
    x, weights = cp.Variable((costs.T, costs.dim)), np.full(costs.T, movement.weights(costs.T))
    terms = [stated_cost(costs, t, x[t]) for t in range(costs.T)]
    terms += [stated_movement(movement, weights[t], x[t] - x[t - 1]) for t in range(1, costs.T)]
    terms += [] if x0 is None else [stated_movement(movement, weights[0], x[0] - x0)]
    inside = [c for t in range(costs.T) for c in constraints(domain, x[t])]
    for t, i in np.argwhere(np.isfinite(limits[0])):
        inside.append(x[t, i] >= limits[0][t, i])
    for t, i in np.argwhere(np.isfinite(limits[1])):
        inside.append(x[t, i] <= limits[1][t, i])
    return float(cp.Problem(cp.Minimize(sum(terms)), inside).solve(solver=cp.CLARABEL))  # pyright: ignore[reportArgumentType]


HINDSIGHT_MOVEMENTS = [
    kl.L1Movement(0.3),
    kl.L2Movement(np.linspace(0.0, 1.0, T)),
    kl.contrib.SquaredMovement(0.7),
    kl.contrib.MahalanobisMovement(0.5, A=correlate(DIM)),
]
SHARES = [domain for domain in SETS if isinstance(domain, kl.Simplex | kl.CappedSimplex)]


@pytest.mark.parametrize(
    ("domain", "name", "movement", "stands"),
    [
        *cover_pairs(SETS, FAMILIES[:-1], HINDSIGHT_MOVEMENTS, [False, True]),
        *cover_pairs(SHARES, FAMILIES[-1:], HINDSIGHT_MOVEMENTS, [False, True]),
    ],
    ids=str,
)
def test_the_optimum_is_that_of_a_conic_solver(domain, name, movement, stands):
    costs = costs_of(name, T, DIM, 8)
    limits = some_limits(domain, 9)
    x0 = domain.start if stands else None
    found = offline_optimum(costs, domain, movement, x0=x0, limits=limits, gap=1e-6)
    value = conic(costs, domain, movement, limits, x0)
    assert found.cost == pytest.approx(value, rel=1e-5, abs=1e-5)  # ten times the gap
    assert found.lower_bound <= value + 1e-6 * (1.0 + abs(value))
    assert is_within(found.u, (limits[0] - 1e-12, limits[1] + 1e-12), domain)
    assert found.cost == pytest.approx(sum(charge(costs, movement, found.u, x0)), rel=1e-12)


def test_cutting_planes_find_the_same_optimum():
    domain = SETS[2]
    curved = costs_of("QuadraticCosts", T, DIM, 6)
    plain = kl.CallableCosts(T, DIM, curved.value, curved.subgradient)
    limits = some_limits(domain, 10)
    for movement in (kl.TVMovement(0.3), kl.L2Movement(0.3)):
        found = offline_optimum(plain, domain, movement, limits=limits, gap=1e-4)
        split = offline_optimum(curved, domain, movement, limits=limits, gap=1e-6)
        assert found.method == "cutting planes"
        assert found.lower_bound <= split.cost
        assert found.cost == pytest.approx(split.cost, rel=3e-4)
        assert is_within(found.u, (limits[0] - 1e-9, limits[1] + 1e-9), domain)


def test_integers_within_limits_are_the_cheapest_of_all_sequences():
    rng = np.random.default_rng(11)
    costs = kl.PinballCosts(rng.uniform(0.0, 3.0, (5, 1)), 2.0)
    upper = np.array([[3.0], [1.4], [3.0], [0.0], [3.0]])
    lower = np.array([[0.0], [0.0], [1.2], [0.0], [0.0]])
    found = offline_optimum(
        costs, kl.Box(0, 3), kl.L1Movement(0.4), integers=True, limits=(lower, upper)
    )
    least = np.inf
    for path in itertools.product(range(4), repeat=5):
        u = np.array(path, dtype=float)[:, None]
        if (u >= lower).all() and (u <= upper).all():
            least = min(least, sum(charge(costs, kl.L1Movement(0.4), u)))
    assert found.cost == pytest.approx(least, rel=1e-12)
    assert found.method == "whole numbers"
    shares = offline_optimum(
        gradients(3, 6, 3),
        kl.Simplex(3, 5),
        kl.TVMovement(0.2),
        integers=True,
        limits=(None, [2.5, 9.0, 9.0]),
    )
    assert np.array_equal(shares.u, np.rint(shares.u))
    assert (shares.u[:, 0] <= 2.0).all()
    assert shares.lower_bound <= shares.cost


@pytest.mark.parametrize("domain", SETS, ids=repr)
def test_nobody_within_the_limits_pays_less_than_the_bound(domain):
    """Every learner plays one of the families that it and the set know; learners take these in turns."""
    n = 20
    limits = some_limits(domain, 13, n)
    movement = kl.L1Movement(0.2)
    names = FAMILIES if domain in SHARES else FAMILIES[:-1]
    games = [costs_of(name, n, DIM, 12) for name in names]
    bounds = [
        offline_optimum(costs, domain, movement, limits=limits, gap=1e-3).lower_bound
        for costs in games
    ]
    for i, make in enumerate(LEARNERS.values()):
        learner = make(domain, kl.Sqrt(3.0))
        # Who knows one family alone knows the linear one here, which is the first.
        game = i % len(games) if learner.family is None else 0
        trace = kl.run(learner, games[game], movement=movement, limits=limits, engine="step")
        assert bounds[game] <= trace.totals.cost


def test_open_limits_leave_the_optimum():
    costs = costs_of("PinballCosts", 30, DIM, 3)
    free = offline_optimum(costs, kl.Simplex(DIM), "tv", gap=1e-6)
    still = offline_optimum(costs, kl.Simplex(DIM), "tv", gap=1e-6, limits=(None, 1.0))
    assert still.cost == pytest.approx(free.cost, rel=2e-6)  # twice the gap


@pytest.mark.parametrize("domain", SETS, ids=repr)
def test_the_frontier_within_limits_begins_at_the_shortest_path(domain):
    costs = costs_of("QuadraticCosts", T, DIM, 14)
    limits = some_limits(domain, 15)
    movement = kl.L1Movement(1.0)
    curve = kl.frontier(costs, domain, movement, limits=limits)
    x = cp.Variable((T, DIM))
    inside = [c for t in range(T) for c in constraints(domain, x[t])]
    inside += [x[t, i] >= limits[0][t, i] for t, i in np.argwhere(np.isfinite(limits[0]))]
    inside += [x[t, i] <= limits[1][t, i] for t, i in np.argwhere(np.isfinite(limits[1]))]
    path = cp.sum([cp.norm1(x[t] - x[t - 1]) for t in range(1, T)])
    shortest = float(cp.Problem(cp.Minimize(path), inside).solve(solver=cp.CLARABEL))  # pyright: ignore[reportArgumentType]
    assert curve.path_length[0] == pytest.approx(shortest, rel=1e-2)
    assert curve.gap <= 0.01 + 1e-9
    longest = float(curve.path_length[-1])
    for P in np.linspace(curve.path_length[0], longest, 4)[1:]:
        hit = cp.sum([stated_cost(costs, t, x[t]) for t in range(T)])
        best = float(cp.Problem(cp.Minimize(hit), [*inside, path <= P]).solve(solver=cp.CLARABEL))  # pyright: ignore[reportArgumentType]
        lower, upper = curve.best(P)
        slack = 1e-6 * (1.0 + abs(best))
        assert lower - slack <= best <= upper + slack
    assert curve.best(0.5 * curve.path_length[0])[1] == np.inf


@pytest.mark.parametrize("options", [{"ramp": (1.0, 1.0)}, {"lead": 1}], ids=repr)
def test_limits_do_not_go_together_with_ramps_and_leads(options):
    with pytest.raises(
        InvalidInput, match="Limits do not go together with a ramp, a lead or a DriftedMovement"
    ):
        offline_optimum(np.ones((5, 1)), kl.Box(0, 1), "l1", limits=(None, 0.5), **options)


# ---- agents


def play(agent: Any, rows: Array, limits: tuple[Array, Array]) -> Array:
    """The decisions after each row, those of the next round within its limits."""
    lower, upper = limits
    return np.array(
        [agent.observe(row, next_limits=(lower[t], upper[t])) for t, row in enumerate(rows)]
    )


@pytest.mark.parametrize("engine", ["step", "auto"])
@pytest.mark.parametrize("domain", SETS, ids=repr)
def test_an_agent_plays_and_pays_what_a_run_does(domain, engine, tmp_path):
    family = kl.Quadratic()
    rows = np.random.default_rng(1).normal(size=(T, DIM))
    limits = some_limits(domain, 3, T + 1)
    learner = kl.KLazyGD(domain, kl.Sqrt(3.0), k=3)
    movement = kl.L1Movement(0.5)
    first = (
        np.vstack((np.full((1, DIM), -np.inf), limits[0][1:T])),
        np.vstack((np.full((1, DIM), np.inf), limits[1][1:T])),
    )
    trace = kl.run(learner, family.costs(rows), movement=movement, limits=first)
    options: dict[str, Any] = {
        "costs": family,
        "movement": movement,
        "guards": kl.Guards(),
        "engine": engine,
    }
    agent = kl.Agent(learner, **options)
    x = play(agent, rows, (limits[0][1:], limits[1][1:]))
    np.testing.assert_allclose(x[:-1], trace.x[1:], rtol=1e-12, atol=1e-12)
    assert agent.hitting == pytest.approx(trace.totals.hitting, rel=1e-12)
    last = float(movement.weight * movement.distance(x[-1] - x[-2]))
    assert agent.switching == pytest.approx(trace.totals.switching + last, rel=1e-12)
    assert is_within(x, (limits[0][1:], limits[1][1:]), domain)

    file = tmp_path / "decisions.db"
    with kl.Agent.open(file, learner, **options) as stored:
        assert np.array_equal(play(stored, rows, (limits[0][1:], limits[1][1:])), x)
        assert stored.history()["round"].to_list() == list(range(1, T + 1))
        assert "limits" in stored.history()["guards"].to_list()
    with kl.Agent.open(file) as again:
        assert np.array_equal(again.x, x[-1])
        assert again.switching == agent.switching
    assert call_klazy("check", file).status == 0
    agent.save(tmp_path / "agent.json")
    assert np.array_equal(kl.Agent.load(tmp_path / "agent.json").x, x[-1])


def test_a_store_without_its_snapshot_plays_the_limits_again(tmp_path):
    file = tmp_path / "decisions.db"
    learner = kl.GD(kl.Simplex(2), 2.0)
    with kl.Agent.open(file, learner, guards=kl.Guards()) as agent:
        agent.update([1.0, 0.0], next_limits=([0.8, 0.0], None))
        x = agent.update([1.0, 0.0], next_limits=([None, 0.1], [0.4, None]))
        # The process is killed: there is no snapshot, so that rounds are played again.
        with kl.Agent.open(file, read_only=True) as other:
            assert np.array_equal(other.x, x)
            assert other.acted == agent.acted
    assert x.tolist() == [0.0, 1.0]


def test_limits_hold_for_one_decision_even_of_a_frozen_agent_and_with_hints_and_names():
    learner = kl.MemoryGD(kl.Simplex(2), 9.0, memory=kl.memories.Decay(5.0), hints=True)
    agent = kl.Agent(learner, costs=kl.Linear(), columns=["eu", "us"], guards=kl.Guards())
    row = {"eu": 0.0, "us": 0.0}
    agent.freeze("maintenance")
    assert agent.observe(row, next_forecast=row, next_limits=({"us": 0.7}, {"eu": None})) == {
        "eu": pytest.approx(0.3),
        "us": 0.7,
    }
    assert agent.acted == ("frozen", "limits") or agent.acted == ("limits", "frozen")
    assert "the point was kept within the limits of the round" in str(agent.explain())
    agent.resume()
    assert agent.observe(row) == {"eu": 0.5, "us": 0.5}


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (0.5, r"next_limits must be \(lower, upper\), got 0\.5\."),
        (
            (None, {"asia": 1.0}),
            "The limits have an unknown name 'asia'; a decision has 'eu', 'us'",
        ),
        (
            (None, [0.1, 0.2]),
            r"limits of round 2: the upper limits add up to 0\.3, below the total of 1\.",
        ),
        ((None, [1.0]), r"next_limits\[1\] must be a number"),
    ],
)
def test_limits_of_an_agent_that_do_not_fit_change_nothing(limits, message):
    agent = kl.Agent(
        kl.GD(kl.Simplex(2), 1.0), costs=kl.Linear(), columns=["eu", "us"], guards=kl.Guards()
    )
    with pytest.raises(InvalidInput, match=message):
        agent.observe([1.0, 0.0], next_limits=limits)
    assert agent.t == 1
    bare = kl.Agent(kl.GD(kl.Simplex(2), 1.0), costs=kl.Linear())
    with pytest.raises(
        InvalidInput,
        match=r"next_limits needs an agent with guards\. Build it with guards=Guards\(\)\.",
    ):
        bare.observe([1.0, 0.0], next_limits=(None, 0.6))
    plain = kl.Agent(kl.GD(kl.Simplex(2), 1.0))
    with pytest.raises(InvalidInput, match="next_limits needs an agent with guards"):
        plain.update(np.array([1.0, 0.0]), next_limits=(None, 0.6))


def test_the_first_decision_of_an_agent_may_have_limits_too(tmp_path):
    learner = kl.GD(kl.Simplex(2), 1.0)
    agent = kl.Agent(learner, guards=kl.Guards(), limits=(None, [0.0, None]))
    assert agent.x.tolist() == [0.0, 1.0]
    agent.save(tmp_path / "agent.json")
    assert kl.Agent.load(tmp_path / "agent.json").x.tolist() == [0.0, 1.0]
    with pytest.raises(
        InvalidInput, match=r"within the limits of round 1: the upper limits add up to 0\.4"
    ):
        kl.Agent(learner, guards=kl.Guards(), limits=(None, 0.2))
    with pytest.raises(InvalidInput, match="limits needs an agent with guards"):
        kl.Agent(learner, limits=(None, 0.6))


# ---- replay


PLACES = ["eu", "us", "asia", "africa", "brazil"]


def a_trace(n: int = 120) -> pl.DataFrame:
    """Costs of places by the hour, of which eu is the cheapest, but not always."""
    rows = np.random.default_rng(0).uniform(0.5, 1.5, (n, DIM)) + 0.3 * np.arange(DIM)
    start = datetime(2026, 1, 1)
    times = [start + timedelta(hours=t) for t in range(n)]
    return pl.DataFrame({"time": times} | dict(zip(PLACES, rows.T, strict=True)))


def outages(frame: pl.DataFrame) -> pl.DataFrame:
    """Limits of some hours, in another order of columns: eu fails now and then, us has a floor, other cells are empty."""
    limits = frame.select("time").with_row_index("t")
    limits = limits.with_columns(
        us_lower=pl.when(pl.col("t") % 5 == 0).then(0.2),
        eu_upper=pl.when(pl.col("t") % 20 >= 15).then(0.0),
    )
    return limits.filter(pl.col("t") % 2 == 0).drop("t")


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"costs": "quadratic", "domain": "box", "upper": 2.0},
        {"guards": kl.Guards(hold=2)},
        {"total": 10.0, "whole": True},
    ],
    ids=repr,
)
def test_a_replay_keeps_the_limits_of_a_file_and_its_agent_pays_the_same(
    options, tmp_path, request
):
    if options:
        # All of them play, as kernels, where there are no options.
        request.getfixturevalue("by_step")
        request.getfixturevalue("few")
    frame = a_trace()
    outages(frame).write_csv(tmp_path / "limits.csv")
    total = options.get("total", options.get("upper", 1.0))
    found = kl.replay(frame, move_cost=0.3, limits=tmp_path / "limits.csv", **options)
    t = np.arange(60, 120)
    is_listed = t % 2 == 0
    upper = np.where(is_listed & (t % 20 >= 15), 0.0, total)
    lower = np.where(is_listed & (t % 5 == 0), 0.2, 0.0)
    for score in found.scores:
        assert (score.points[:, 0] <= upper).all(), score.name
        assert (score.points[:, 1] >= lower).all(), score.name
    assert found.optimum is not None
    assert found.optimum.lower_bound <= min(score.cost for score in found.scores)
    assert (
        "All contenders are within the limits of each round; they were tuned without them."
        in found.notes
    )

    rows = frame.select(PLACES).to_numpy()
    for score in found.scores[:3]:
        agent = found.agent(score.name)
        for at in range(60, 120):
            following = None
            if at + 1 < 120:
                sides: Any = found.setup.limits
                following = sides.lower[at + 1], sides.upper[at + 1]
            agent.observe(rows[at], next_limits=following)
        assert agent.hitting + agent.switching == pytest.approx(score.cost, rel=1e-12)


def test_limits_go_by_rows_where_there_are_no_times_and_folds_keep_them():
    rows = a_trace().drop("time")
    upper = np.full((120, DIM), np.inf)
    upper[::7, 0] = 0.1
    frame = pl.DataFrame({"eu_upper": upper[:, 0]}).with_columns(
        pl.when(pl.all().is_finite()).then(pl.all())
    )
    by_frame = kl.replay(rows, move_cost=0.3, limits=frame, folds=2)
    by_array = kl.replay(rows, move_cost=0.3, limits=(None, upper))
    assert [score.cost for score in by_frame.scores] == [score.cost for score in by_array.scores]
    for fold in by_frame.folds:
        for score in fold.scores:
            assert (score.points[:, 0] <= upper[fold.first : fold.last, 0]).all()


def test_the_command_takes_limits(tmp_path):
    frame = a_trace()
    frame.write_csv(tmp_path / "costs.csv")
    outages(frame).write_csv(tmp_path / "limits.csv")
    ended = call_klazy("replay", "costs.csv", "--limits", "limits.csv", "--json", folder=tmp_path)
    assert ended.status == 0, ended.stderr
    found = kl.replay(frame, limits=tmp_path / "limits.csv")
    assert json.loads(ended.stdout) == json.loads(json.dumps(found.to_dict() | {"emitted": None}))


@pytest.mark.parametrize(
    ("limits", "options", "message"),
    [
        ({"eu": [1.0] * 120}, {}, r"limits must have columns such as eu_lower and eu_upper, got \['eu'\]\."),
        ({"eu_upper": [1.0] * 7}, {}, "limits must have 120 rows or times, got 7 rows"),
        ({"eu_upper": [1.0] * 120}, {"lead": 1}, "limits does not go together with lead, delay, ramp_up or ramp_down"),
        ({"eu_upper": [1.0] * 120}, {"ramp_up": 0.1}, "limits does not go together with lead, delay"),
        ({"eu_lower": [None] * 5 + [1.5] + [None] * 114}, {}, r"limits of round 6: coordinate 0 must be at least 1\.5 and at"),
        ({"eu_upper": [1.0] * 120}, {"domain": "ball"}, "Limits by round are for a Box, Simplex"),
    ],
)  # fmt: skip
def test_limits_of_a_replay_that_do_not_fit_are_refused(limits, options, message):
    with pytest.raises(InvalidInput, match=message):
        kl.replay(a_trace().drop("time"), limits=pl.DataFrame(limits), **options)


# ---- the service


def test_a_service_takes_the_limits_of_the_next_decision(tmp_path):
    learner = kl.GD(kl.Simplex(3), 20.0)
    options: dict[str, Any] = {
        "costs": kl.Linear(),
        "columns": ["eu", "us", "asia"],
        "guards": kl.Guards(),
    }
    given: list[Any] = [
        (None, {"eu": 0.0}),
        ({"us": 0.5}, {"eu": None}),
        (None, [np.inf, 0.1, 0.6]),
        (np.array([-np.inf, 0.0, 0.9]), 1),
        None,
    ]
    rows = np.random.default_rng(3).uniform(size=(len(given), 3))
    own = kl.Agent(learner, **options)
    with run_service(tmp_path) as served:
        client = served.client()
        remote = client.agent("shares", learner, **options)
        plain = client.agent("gradients", learner, guards=kl.Guards())
        for row, limits in zip(rows.tolist(), given, strict=True):
            assert remote.observe(row, next_limits=limits) == own.observe(row, next_limits=limits)
        assert remote.history()["guards"].to_list()[0] == "limits"
        assert plain.update(rows[0], next_limits=(None, [0.0, None, None]))[0] == 0.0
        (answer,) = client.update_many(
            [{"agent": "shares", "row": rows[0], "next_limits": (None, {"asia": 0})}]
        )
        assert answer["x"][2] == 0.0
        body = {"row": rows[0].tolist(), "next_limits": {"upper": {"asia": 0.0}, "lower": None}}
        assert served.ask("POST", "/agents/shares/observe", body).json()["x"][2] == 0.0
        for wrong, problem in (
            ((None, 0.2), "No point is within the limits of round 9"),
            ((None, {"mars": 0.2}), "The limits have an unknown name 'mars'"),
        ):
            with pytest.raises(ValueError, match=problem):
                remote.observe(rows[0], next_limits=wrong)
        with pytest.raises(InvalidInput, match=r"next_limits must be \(lower, upper\), got 3\."):
            remote.observe(rows[0], next_limits=cast(Any, 3))
        bare = client.agent("bare", learner, costs=kl.Linear())
        with pytest.raises(ValueError, match="next_limits needs an agent with guards"):
            bare.observe(rows[0], next_limits=(None, 0.6))
    assert call_klazy("check", tmp_path / "decisions.db").status == 0


# ---- live


@pytest.fixture(scope="module")
def limited(tmp_path_factory):
    """An agent from a replay within limits, what the replay says it pays, and the rows after it with their limits."""
    folder = tmp_path_factory.mktemp("limited")
    frame = a_trace()
    limits = outages(frame)
    frame.write_csv(folder / "costs.csv")
    limits.write_csv(folder / "limits.csv")
    asked = call_klazy(
        "replay", "costs.csv", "--limits", "limits.csv", "--move-cost", "0.3", "--contender", "GD",
        "--emit", "agent.json", "--json", folder=folder,
    )  # fmt: skip
    assert asked.status == 0, asked.stderr
    paid = next(each for each in json.loads(asked.stdout)["table"] if each["contender"] == "GD")
    joined = frame.join(limits, on="time", how="left").sort("time")
    return folder / "agent.json", (paid["hitting"], paid["switching"]), joined[60:]


def move_up(rows):
    """Give each row the limits of the next one."""
    names = [name for name in rows.columns if name in name_limits(PLACES)]
    return rows.with_columns(rows.select(names).shift(-1))


def find_paid(store):
    """Return what the agent in a store has paid."""
    (found,) = json.loads(call_klazy("agents", store, "--json").stdout)
    return found["hitting"], found["switching"]


@pytest.mark.parametrize("stand", ["this", "next", "field"])
def test_an_agent_from_a_replay_within_limits_pays_the_same_live(limited, stand, tmp_path):
    """Limits come with their own rows, with the rows before them, or as a field of these; to the last digit it is the same."""
    file, paid, rows = limited
    store = tmp_path / "decisions.db"
    options = ["--state", store, "--id", "time"]
    if stand == "field":
        sides = name_limits(PLACES)
        lines = []
        for row in move_up(rows).to_dicts():
            given = {"lower": {}, "upper": {}}
            for name in set(row) & set(sides):
                side, place = sides[name]
                given[side][place] = row.pop(name)
            lines.append(json.dumps(row | {"next_limits": given}, default=str))
        text = "\n".join(lines)
    else:
        text = (move_up(rows) if stand == "next" else rows).write_csv()
        options += ["--limits-for", stand]
    first = feed(text, file, *options)
    assert (first.status, first.stderr.splitlines()[-1][:28]) == (
        0,
        "Rows taken: 60, refused: 0; ",
    )
    assert find_paid(store) == paid
    assert call_klazy("check", store).status == 0
    history = call_klazy("history", store, "agent", "--csv").stdout.splitlines()
    made = list(csv.DictReader(history))
    failed = move_up(rows)["eu_upper"].to_list()
    assert [row["decision_eu"] for row, upper in zip(made, failed, strict=True) if upper == 0.0]
    for row, upper in zip(made, failed, strict=True):
        if upper == 0.0:
            assert float(row["decision_eu"]) == 0.0
            assert row["guards"] == "limits"


def test_an_outage_moves_the_load_at_once_and_it_comes_back(tmp_path):
    """The move there and the move back are charged; what the agent wants is as if there had been no outage."""
    agent = tmp_path / "agent.json"
    learner = kl.Fixed(kl.Simplex(2), start=[0.75, 0.25])
    kl.Agent(
        learner, costs=kl.Linear(), columns=["eu", "us"], movement=kl.TVMovement(10.0),
        guards=kl.Guards(),
    ).save(agent)  # fmt: skip
    ended = feed("eu,us,eu_upper\n1,2,\n1,2,0\n1,2,0\n1,2,\n", agent, "--limits-for", "next")
    assert ended.stdout == "eu,us\n0.75,0.25\n0.0,1.0\n0.0,1.0\n0.75,0.25\n"
    assert "operating cost 6.5, switching cost 15." in ended.stderr


def test_the_limits_of_a_row_may_come_before_the_rest_of_it(limited):
    """A decision is printed once the limits of the row that it meets are known, and none at all are known, too."""
    file, _, rows = limited
    header, *lines = rows[:21].write_csv().splitlines()
    announced = rows[:21].with_columns(pl.lit(None).alias(name) for name in PLACES)
    options = (file, "--limits-for", "this")
    whole = feed("\n".join([header, *lines]), *options).stdout.splitlines()
    early = [header, lines[0]]
    for t, alone in enumerate(announced.write_csv().splitlines()[2:], start=1):
        early.append(alone)
        # The signal comes while the command waits for more.
        given = Interrupted("\n".join([*early, ""]), signal.SIGTERM)
        printed = feed(given, *options)
        assert (printed.status, printed.stdout.splitlines()) == (0, whole[: t + 1])
        early.append(lines[t])


SOURCE = """
from klazy.sources import TimedRow

class Regions:
    def __init__(self, text, step):
        self.step = step

    def read(self, since):
        cells = [{"eu": 1.0, "us": 2.0}, {"eu": 1.0, "us": 2.0, "eu_upper": 0.0}, {"eu": 1.0, "us": 2.0, "eu_upper": None}]
        return [TimedRow(self.step * i, row) for i, row in enumerate(cells, 1) if self.step * i > (since or 0)]
"""


def test_a_source_may_have_limits_of_the_next_row_also_in_a_plant(tmp_path, monkeypatch):
    install(
        tmp_path / "packages", "regions", "regions = r_of_tests:Regions", group="klazy.sources"
    )
    (tmp_path / "packages" / "r_of_tests.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path / "packages")
    learner = kl.Fixed(kl.Simplex(2), start=[0.75, 0.25])
    given = {"costs": kl.Linear(), "columns": ["eu", "us"], "guards": kl.Guards()}
    kl.Agent(learner, **given).save(tmp_path / "agent.json")
    call = ("live", "agent.json", "--source", "regions:", "--once", "--since", "1970-01-01")
    asked = call_klazy(*call, "--limits-for", "next", folder=tmp_path)
    assert asked.stderr.startswith("Rows taken: 3, refused: 0;")
    assert [line.split(",")[1] for line in asked.stdout.splitlines()[1:]] == [
        "0.75",
        "0.0",
        "0.75",
    ]
    late = call_klazy(*call, "--limits-for", "this", folder=tmp_path)
    assert late.stderr == (
        "A source has a row only when it is over, too late for limits of that row. Ask for limits of the next row, and add "
        "--limits-for next.\n"
    )
    (tmp_path / "plant.toml").write_text(
        """
        [live]
        state = "d.db"
        limits-for = "next"
        [agents.shares]
        agent = "agent.json"
        source = "regions:"
        since = "1970-01-01"
        """
    )
    plant = call_klazy("live", "plant.toml", "--once", folder=tmp_path)
    made = [json.loads(line)["eu"] for line in plant.stdout.splitlines()]
    assert (plant.status, made) == (0, [0.75, 0.0, 0.75])
    kl.Agent(learner, costs=kl.Linear(), columns=["eu", "us"]).save(tmp_path / "agent.json")
    checked = call_klazy("config", "check", "plant.toml", folder=tmp_path)
    assert "--limits-for needs an agent with guards. Emit it with klazy replay" in checked.stderr


LIMITED_HEADER = "time,eu,us,eu_upper\n"


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (LIMITED_HEADER, [], 'Leave one out with --ignore "eu_upper". If it limits the next decision, add --limits-for next.'),
        ("time,eu,us\n", ["--limits-for", "next"], "--limits-for needs columns of limits such as eu_lower, got"),
        (LIMITED_HEADER, ["--limits-for", "soon"], "--limits-for must be one of 'this', 'next', got 'soon'."),
        (LIMITED_HEADER, ["--limits-for", "next", "--id", "eu_upper"], "--id eu_upper is a column of the agent."),
        (LIMITED_HEADER + "0,1,2,x\n", ["--limits-for", "next"], "line 2: eu_upper must be a finite number, got 'x'."),
        (LIMITED_HEADER + "0,1,2,-3\n", ["--limits-for", "next"], "line 2: No point is within the limits of round 2"),
        ('{"eu": 1, "us": 2, "next_limits": 3}', [], "next_limits must be an object with lower and upper, got 3. Write"),
        ('{"eu": 1, "us": 2, "next_limits": {"up": 3}}', [], 'must be an object with lower and upper, got {"up": 3}.'),
        ('{"eu": 1, "us": 2, "next_limits": {"upper": {"eu": "x"}}}', [], "next_limits.upper.eu must be a finite number"),
        ('{"eu": 1, "us": 2, "next_limits": {"upper": {"mars": 1}}}', [], "The limits have an unknown name 'mars'"),
        (
            '{"eu": 1, "us": 2, "next_limits": {}, "eu_upper": 0}',
            ["--limits-for", "next"],
            "A row has next_limits or columns of limits, not both.",
        ),
    ],
)  # fmt: skip
def test_limits_that_cannot_be_used_are_refused(text, options, message, tmp_path):
    file = tmp_path / "agent.json"
    given = {"costs": kl.Linear(), "columns": ["eu", "us"], "guards": kl.Guards()}
    kl.Agent(kl.GD(kl.Box([0.0, 0.0], [9.0, 9.0]), 1.0), **given, engine="step").save(file)
    ended = feed(text, file, *options)
    assert ended.status in (1, 2)
    assert message in ended.stderr
    assert ended.stdout == ""


def test_limits_need_guards_and_a_set_that_knows_them(tmp_path):
    file = tmp_path / "agent.json"
    ball = kl.GD(kl.L2Ball(2), 1.0)
    for guards, message in (
        (
            None,
            "--limits-for needs an agent with guards. Emit it with klazy replay --limits FILE, or",
        ),
        (
            kl.Guards(),
            "Limits by round are for a Box, Simplex, CappedSimplex, or a Product of these",
        ),
    ):
        given = {"costs": kl.Linear(), "columns": ["eu", "us"], "guards": guards}
        kl.Agent(ball, **given, engine="step").save(file)
        assert message in feed(LIMITED_HEADER, file, "--limits-for", "next").stderr


def test_a_row_that_is_dropped_says_that_its_limits_are_lost(tmp_path):
    file = tmp_path / "agent.json"
    given = {"costs": kl.Linear(), "columns": ["eu", "us"], "guards": kl.Guards(), "fill": "drop"}
    kl.Agent(kl.GD(kl.Simplex(2), 1.0), **given, engine="step").save(file)
    ended = feed(LIMITED_HEADER + "0,,2,0\n", file, "--limits-for", "next")
    assert "line 2: dropped, since a cell is missing. Its limits are lost, too." in ended.stderr
    assert ended.stdout.splitlines()[1] == "0,0.5,0.5"
