"""Comparators: bounds hold whatever the iterate, optima agree with a conic solver and with brute force, laws of duality."""

import itertools
import re
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import klazy as kl
from cases import FAMILIES as EVERY_FAMILY
from cases import PUBLIC, TRIANGLE, concrete, costs_of, cover_pairs, gradients, rows_of
from klazy.base.checks import Array, InvalidInput
from klazy.contrib import best_with_path_length
from klazy.game.game import Game
from klazy.hindsight import (
    best_fixed,
    frontier,
    offline_optimum,
)
from klazy.hindsight.drifting import drift_with
from klazy.hindsight.frontier import Frontier, Vertex, _hull
from klazy.hindsight.optimum import GapNotReached, Optimum
from klazy.hindsight.problem import Problem
from klazy.hindsight.splitting import Splitting
from klazy.kernels import offline
from test_sets import constraints

BALL, SIMPLEX = kl.L2Ball(3), kl.Simplex(3)
BOX = kl.Box([-1.0, 0.0, 0.5], [1.0, 0.5, 2.0])
SETS: list[kl.types.ConvexSet] = [
    BALL,
    kl.L1Ball(3, 1.5, [0.5, 0.0, -0.2]),
    BOX,
    SIMPLEX,
    kl.CappedSimplex(3, 1.0, 0.6),
    TRIANGLE,
    kl.Product([kl.L2Ball(2), kl.Box(-1.0, 1.0)]),
    kl.Intersection([kl.L2Ball(3), kl.Box([0.0, -1.0, -1.0], [1.0, 1.0, 0.2])]),
]
FAMILIES = [
    "LinearCosts",
    "QuadraticCosts",
    "PinballCosts",
    "HingeCosts",
    "LogisticCosts",
    "LogWealthCosts",
]
T = 8
MOVEMENTS: list[kl.types.Movement] = [
    kl.L2Movement(0.5),
    kl.L2Movement(np.linspace(0.0, 1.0, T)),
    kl.contrib.WeightedL2Movement(0.5, scale=[0.0, 1.0, 2.0]),
    kl.L1Movement(0.3),
    kl.TVMovement(np.linspace(1.0, 0.0, T)),
    kl.contrib.AsymmetricMovement(0.5, up=[0.1, 0.2, 1.0], down=2.0),
    kl.contrib.MahalanobisMovement(0.5, A=[[1.0, 0.9, 0.0], [0.9, 1.0, 0.0], [0.0, 0.0, 0.2]]),
    kl.contrib.SquaredMovement(np.linspace(2.0, 0.0, T)),
    kl.contrib.ImpactMovement(0.4, scale=[0.1, 1.0, 2.0]),
]
PRICES = [
    kl.L1Movement,
    kl.TVMovement,
    lambda w: kl.contrib.AsymmetricMovement(w, up=[0.1, 0.6, 1.0], down=[0.9, 0.0, 0.4]),
]


SOLVER = 1e-7  # ten times the gap at which Clarabel stops


def agrees(found: Any, value: float) -> bool:
    """A certified gap of 1e-7 and the solver's own 1e-8, with room for a scale of costs beyond their sum."""
    near = 1e-6 * (1.0 + abs(value))
    return abs(found.cost - value) <= near and found.lower_bound <= value + SOLVER * (
        1.0 + abs(value)
    )


def stated_cost(costs: Any, t: int, x: cp.Expression) -> Any:
    """f_t as a conic solver reads it, written from its definition."""
    row = costs.data[t]
    match costs.family:
        case kl.Rewards():
            return -row @ x
        case kl.Linear():
            return row @ x
        case kl.Quadratic(weight=weight):
            return weight / 2 * cp.sum_squares(x - row)
        case kl.contrib.WeightedQuadratic():
            return row[-1] / 2 * cp.sum_squares(x - row[:-1])
        case kl.Pinball(short=short, excess=excess):
            return np.resize(short, row.size) @ cp.pos(row - x) + np.resize(
                excess, row.size
            ) @ cp.pos(x - row)
        case kl.LogWealth():
            return -cp.log(row @ x)
        case kl.contrib.Hinge():
            return cp.pos(1 - row @ x)
        case kl.contrib.Logistic():
            return cp.logistic(-row @ x)
    raise AssertionError(f"state {costs.family!r} for cvxpy here")


def stated_movement(movement: Any, weight: float, delta: cp.Expression) -> Any:
    match movement:
        case kl.L2Movement():
            return weight * cp.norm2(delta)
        case kl.contrib.WeightedL2Movement():
            return weight * cp.norm2(cp.multiply(np.sqrt(movement.scale), delta))
        case kl.L1Movement():
            return weight * cp.norm1(delta)
        case kl.TVMovement():
            return weight / 2 * cp.norm1(delta)
        case kl.contrib.AsymmetricMovement():
            up, down = np.full(delta.shape, movement.up), np.full(delta.shape, movement.down)
            return weight * (up @ cp.pos(delta) + down @ cp.neg(delta))
        case kl.contrib.MahalanobisMovement():
            return weight * cp.norm2(np.linalg.cholesky(movement.A).T @ delta)
        case kl.contrib.SquaredMovement():
            return weight / 2 * cp.sum_squares(delta)
        case kl.contrib.ImpactMovement():
            return weight * (movement.scale @ cp.power(cp.abs(delta), 1.5))
    raise AssertionError(f"state {type(movement).__name__} for cvxpy here")


def conic(
    costs: kl.types.Costs,
    domain: kl.types.ConvexSet,
    movement: kl.types.Movement,
    x0: Array | None = None,
    ramp: tuple[Any, Any] = (None, None),
    lead: int = 0,
) -> float:
    """The optimum by Clarabel, within limits of falling and rising, where the first steps are none."""
    x, weights = cp.Variable((costs.T, costs.dim)), np.full(costs.T, movement.weights(costs.T))
    terms = [stated_cost(costs, t, x[t]) for t in range(costs.T)]
    terms += [stated_movement(movement, weights[t], x[t] - x[t - 1]) for t in range(1, costs.T)]
    terms += [] if x0 is None else [stated_movement(movement, weights[0], x[0] - x0)]
    inside = [c for t in range(costs.T) for c in constraints(domain, x[t])]
    steps = [] if x0 is None else [x[0] - x0]
    steps += [x[t] - x[t - 1] for t in range(1, costs.T)]
    inside += [step == 0 for step in steps[:lead]]
    down, up = ramp
    for step in steps:
        inside += [] if up is None else [step <= up]
        inside += [] if down is None else [-step <= down]
    return solved(cp.Problem(cp.Minimize(sum(terms)), inside))


def solved(problem: cp.Problem) -> float:
    return float(problem.solve(solver=cp.CLARABEL))  # pyright: ignore[reportArgumentType]


def feasible(domain: kl.types.ConvexSet, seed: int, n: int = T) -> Array:
    return domain.project(np.random.default_rng(seed).normal(scale=2.0, size=(n, domain.dim)))


def paid(
    costs: kl.types.Costs, movement: kl.types.Movement, u: Array, x0: Array | None = None
) -> float:
    return float(costs.values(u).sum() + movement.paid(u, x0).sum())


def has_domain(name: str, domain: kl.types.ConvexSet) -> bool:
    """Log-wealth needs portfolios."""
    return name != "LogWealthCosts" or isinstance(domain, kl.Simplex | kl.CappedSimplex)


def test_every_set_family_and_movement_is_here():
    assert {kl.contrib.Space, *(type(s) for s in SETS)} == set(concrete(kl.types.ConvexSet))
    costs = {kl.CallableCosts, kl.contrib.FilteredCosts, *(PUBLIC[name] for name in FAMILIES)}
    assert costs == set(concrete(kl.types.Costs))
    others = {kl.contrib.SwitchFee, kl.contrib.DriftedMovement, kl.contrib.FiniteMetric}
    known = {*others, *(type(m) for m in MOVEMENTS)}
    assert known == set(concrete(kl.types.Movement))


class TestDrift:
    """Not convex, so the oracle is a dynamic programme over a grid of all shares of two assets."""

    @pytest.mark.parametrize("cap", [1.0, 0.7])
    @pytest.mark.parametrize("linear", [True, False])
    @pytest.mark.parametrize("x0", [None, [0.8, 0.2]])
    def test_the_bound_holds_on_a_grid_and_the_optimum_is_near_it(self, linear, x0, cap):
        rng = np.random.default_rng(4)
        n = 201
        share = np.linspace(1.0 - cap, cap, n)
        domain = kl.Simplex(2) if cap == 1.0 else kl.CappedSimplex(2, cap=cap)
        points = np.stack((share, 1.0 - share), axis=1)
        for scale in (0.1, 0.5):
            relatives = np.exp(rng.normal(0.0, scale, (6, 2)))
            costs = (
                kl.contrib.LinearCosts(rng.normal(size=(6, 2)))
                if linear
                else kl.LogWealthCosts(relatives)
            )
            movement = kl.contrib.DriftedMovement(0.2, relatives=relatives)
            start = None if x0 is None else np.array(x0)
            found = offline_optimum(costs, domain, movement, x0=start, gap=1.0)
            assert domain.contains(found.u)
            least = np.zeros(n) if start is None else 0.2 * np.abs(share - start[0])
            for t in range(6):
                if t > 0:
                    worth = points * relatives[t - 1]
                    stand = worth[:, 0] / worth.sum(axis=1)
                    least = (least[:, None] + 0.2 * np.abs(share - stand[:, None])).min(axis=0)
                least = least + [costs.value(t + 1, x) for x in points]
            assert found.lower_bound <= least.min()
            assert found.cost == pytest.approx(paid(costs, movement, found.u, start), rel=1e-12)
            # as near as its gap says; a grid of 1/200 costs little more than the true optimum
            assert found.cost - found.lower_bound >= least.min() - found.lower_bound - 0.02

    @pytest.mark.parametrize(
        "domain", [SIMPLEX, kl.CappedSimplex(3, cap=0.6, floor=0.1)], ids=repr
    )
    def test_where_prices_stand_still_it_is_total_variation(self, domain):
        costs = kl.contrib.LinearCosts(gradients(3, 20, 3))
        drifted = kl.contrib.DriftedMovement(0.4, relatives=np.full((20, 3), 2.0))
        plain = offline_optimum(costs, domain, kl.TVMovement(0.4))
        found = offline_optimum(costs, domain, drifted, gap=1e-3)
        assert found.lower_bound <= plain.cost <= found.cost + 1e-12 * abs(plain.cost)
        assert found.cost == pytest.approx(plain.cost, rel=1e-3)

    @pytest.mark.parametrize("domain", [kl.Simplex(3), kl.CappedSimplex(3, cap=0.6)], ids=repr)
    def test_at_daily_returns_the_bound_is_near_the_optimum(self, domain):
        relatives = np.exp(np.random.default_rng(0).normal(0.0, 0.02, (100, 3)))
        costs = kl.LogWealthCosts(relatives)
        found = offline_optimum(
            costs, domain, drift_with(kl.L1Movement(0.0015), domain, relatives), gap=0.02
        )
        assert found.movement == kl.contrib.DriftedMovement(0.003, relatives=relatives)
        alone = float(costs.values(domain.lowest(-relatives)).sum())
        assert alone < found.lower_bound < found.cost

    def test_only_sums_of_equal_prices_are_total_variation(self):
        relatives = np.ones((4, 3))
        skew = kl.contrib.AsymmetricMovement(2.0, up=[1.0, 2.0, 3.0], down=1.0)
        for movement, weight in (
            (kl.TVMovement(2.0), 2.0),
            (kl.L1Movement(2.0), 4.0),
            (kl.contrib.AsymmetricMovement(2.0, up=3.0, down=0.5), 7.0),
        ):
            drifted = drift_with(movement, SIMPLEX, relatives)
            assert drifted is not None
            assert drifted.weight == weight
            x = SIMPLEX.project(gradients(1, 4, 3))
            np.testing.assert_allclose(drifted.paid(x), movement.paid(x), rtol=1e-12, atol=1e-15)
        for movement in (
            skew,
            kl.L2Movement(2.0),
            kl.contrib.ImpactMovement(2.0),
            kl.contrib.SwitchFee(2.0),
        ):
            assert drift_with(movement, SIMPLEX, relatives) is None
        assert drift_with(kl.TVMovement(), kl.L2Ball(3), relatives) is None


# A set, a movement, and whether there is a point before the first; the last two sets are of portfolios.
RAMPED = [
    (BOX, kl.L1Movement(0.3), True),
    (BOX, kl.contrib.AsymmetricMovement(0.4, up=2.0), False),
    (BOX, kl.L1Movement(0.0), False),
    (SIMPLEX, kl.TVMovement(0.4), False),
    (kl.CappedSimplex(3, 1.0, 0.7), kl.L1Movement(0.2), True),
]
RAMPS = [(0.1, 0.2), (None, 0.15), ([0.1, 0.2, 0.3], None)]
# A set, a movement and limits of falling and rising.
LED = [
    (BOX, kl.L1Movement(0.3), (None, None)),
    (BOX, kl.L1Movement(0.3), (0.1, 0.3)),
    (BALL, kl.L2Movement(0.5), (None, None)),
    (SIMPLEX, kl.TVMovement(0.0), (None, None)),
    (BALL, kl.contrib.SquaredMovement(0.7), (None, None)),
    (BALL, kl.contrib.ImpactMovement(0.4, scale=[0.1, 1.0, 2.0]), (None, None)),
]


class TestAgainstAConicSolver:
    @pytest.mark.parametrize("name", FAMILIES)
    @pytest.mark.parametrize("domain", SETS, ids=repr)
    def test_every_set_and_family(self, domain, name):
        if has_domain(name, domain):
            costs, movement = costs_of(name, T, domain.dim, 1), MOVEMENTS[0]
            assert agrees(
                offline_optimum(costs, domain, movement, gap=1e-7), conic(costs, domain, movement)
            )

    @pytest.mark.parametrize("name", FAMILIES)
    @pytest.mark.parametrize("movement", MOVEMENTS, ids=repr)
    def test_every_movement_from_a_point_outside_the_set(self, movement, name):
        costs, x0 = costs_of(name, T, 3, 2), np.array([0.7, -0.4, 0.2])
        assert agrees(
            offline_optimum(costs, SIMPLEX, movement, x0=x0, gap=1e-7),
            conic(costs, SIMPLEX, movement, x0),
        )

    @pytest.mark.parametrize(
        ("game", "ramp", "name"),
        [
            *cover_pairs(RAMPED, RAMPS, FAMILIES[:-1]),
            *cover_pairs(RAMPED[-2:], RAMPS, FAMILIES[-1:]),
        ],
        ids=str,
    )
    def test_limits_of_rising_and_falling(self, game, ramp, name):
        domain, movement, stands = game
        costs = costs_of(name, T, 3, 5)
        x0 = domain.start if stands else None
        found = offline_optimum(costs, domain, movement, x0=x0, ramp=ramp, gap=1e-5)
        value = conic(costs, domain, movement, x0, ramp)
        assert abs(found.cost - value) <= 2e-5 * (
            1.0 + abs(value)
        )  # twice the gap that was asked for
        assert found.lower_bound <= value + SOLVER * (1.0 + abs(value))
        assert domain.contains(found.u)
        steps = (
            np.diff(found.u, axis=0) if x0 is None else np.diff(found.u, axis=0, prepend=x0[None])
        )
        down, up = (np.inf if limit is None else np.asarray(limit) for limit in ramp)
        assert (steps <= up + 1e-12).all()
        assert (steps >= -down - 1e-12).all()

    @pytest.mark.parametrize(
        ("game", "stands", "name"),
        cover_pairs(LED, [True, False], ["LinearCosts", "QuadraticCosts", "PinballCosts"]),
        ids=str,
    )
    def test_a_lead_time(self, game, stands, name):
        domain, movement, ramp = game
        costs = costs_of(name, T, 3, 7)
        x0 = domain.start if stands else None
        given = None if ramp == (None, None) else ramp
        found = offline_optimum(costs, domain, movement, x0=x0, ramp=given, lead=2, gap=1e-5)
        value = conic(costs, domain, movement, x0, ramp, 2)
        assert abs(found.cost - value) <= 2e-5 * (
            1.0 + abs(value)
        )  # twice the gap that was asked for
        assert found.lower_bound <= value + SOLVER * (1.0 + abs(value))
        first = found.u[:3] if x0 is None else found.u[:2] - x0
        np.testing.assert_array_equal(first, np.tile(first[0], (len(first), 1)))
        assert x0 is None or not first.any()

    def test_limits_of_costs_that_are_cut(self):
        """Callable costs know no proximal step, so that planes find them, with the limits as bounds of a step."""
        curved = costs_of("QuadraticCosts", T, 3, 6)
        plain = kl.CallableCosts(T, 3, curved.value, curved.subgradient)
        options: Any = {"ramp": (0.1, 0.2), "lead": 1, "gap": 1e-4}
        found = offline_optimum(plain, BOX, kl.L1Movement(0.3), **options)
        split = offline_optimum(curved, BOX, kl.L1Movement(0.3), **options)
        assert found.method == "cutting planes"
        assert found.lower_bound <= split.cost
        assert split.lower_bound <= found.cost
        assert found.cost == pytest.approx(split.cost, rel=3e-4)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"movement": "l2"}, "A ramp needs a movement with prices of each coordinate"),
            ({"ramp": 3.0}, r"ramp must be \(down, up\), got 3\.0\."),
            ({"ramp": (0.0, 1.0)}, "ramp must be above 0"),
            ({"ramp": (1.0, [1.0, 2.0])}, r"ramp\[1\] must have shape"),
            ({"x0": [9.0, 0.0, 0.0]}, "x0 must be in the set with a ramp"),
            ({"lead": T}, f"lead must be less than the {T} rounds, got {T}"),
            ({"lead": -1}, "lead must be an integer of at least 0, got -1"),
            (
                {"ramp": None, "lead": 1, "x0": [9.0, 0.0, 0.0]},
                "x0 must be in the set with a lead",
            ),
        ],
    )
    def test_a_ramp_that_does_not_fit_is_refused(self, options, message):
        given = {"movement": "l1", "ramp": (1.0, 1.0)} | options
        with pytest.raises(InvalidInput, match=message):
            offline_optimum(costs_of("QuadraticCosts", T, 3, 6), BOX, **given)
        with pytest.raises(
            InvalidInput, match="A ramp of integers needs a Box with few enough of them"
        ):
            offline_optimum(
                costs_of("QuadraticCosts", T, 3, 6),
                kl.Simplex(3, 2),
                "tv",
                ramp=(1, 1),
                integers=True,
            )

    @pytest.mark.parametrize("name", FAMILIES)
    @pytest.mark.parametrize("domain", [SIMPLEX, SETS[4], TRIANGLE, SETS[7]], ids=repr)
    def test_the_best_fixed_point(self, domain, name):
        if has_domain(name, domain):
            costs, x = costs_of(name, T, domain.dim, 3), cp.Variable(domain.dim)
            found = best_fixed(costs, domain, gap=1e-5)
            value = solved(
                cp.Problem(
                    cp.Minimize(sum(stated_cost(costs, t, x) for t in range(T))),
                    constraints(domain, x),
                )
            )
            scale = 1.0 + abs(
                value
            )  # a gap of 1e-5, which the slowest of these families reaches in a second
            assert abs(found.cost - value) <= 1e-5 * scale
            assert found.lower_bound <= value + SOLVER * scale
            assert domain.contains(found.x)

    @pytest.mark.parametrize("length", [0.0, 0.3, 1.5, 100.0])
    def test_the_best_of_bounded_length(self, length):
        costs = costs_of("QuadraticCosts", T, 3, 4)
        x = cp.Variable((T, 3))
        moved = sum(cp.norm2(x[t] - x[t - 1]) for t in range(1, T))
        inside = [c for t in range(T) for c in constraints(BALL, x[t])]
        hitting = sum(stated_cost(costs, t, x[t]) for t in range(T))
        value = solved(cp.Problem(cp.Minimize(hitting), [*inside, moved <= length]))
        found = best_with_path_length(costs, BALL, length, gap=1e-4)
        assert kl.L2Movement().paid(found.u).sum() <= length * (1.0 + 1e-9)
        assert abs(found.cost - value) <= 1e-4 * (1.0 + value)  # the gap asked for
        assert found.lower_bound <= value + SOLVER * (1.0 + value)


class TestExactProgrammes:
    @pytest.mark.parametrize("domain", [BOX, SIMPLEX], ids=repr)
    def test_short_ones_are_played_without_a_kernel_as_with_one(self, domain, monkeypatch):
        g = np.random.default_rng(0).normal(size=(200, 3))
        plain = offline_optimum(g, domain, kl.L1Movement(0.7))
        monkeypatch.setattr(offline, "PLAIN_NUMBERS", 0)
        compiled = offline_optimum(g, domain, kl.L1Movement(0.7))
        np.testing.assert_array_equal(plain.u, compiled.u)
        # Sums of a few hundred numbers in another order.
        assert plain.cost == pytest.approx(compiled.cost, abs=1e-12)
        assert plain.lower_bound == pytest.approx(compiled.lower_bound, abs=1e-9)

    @pytest.mark.parametrize("make", PRICES)
    @given(seed=st.integers(0, 2**16), varying=st.booleans())
    def test_a_simplex_against_all_sequences_of_vertices(self, make, seed, varying):
        rng = np.random.default_rng(seed)
        g, movement = rng.normal(size=(5, 3)), make(rng.uniform(0.0, 1.5, 5) if varying else 0.4)
        domain = kl.Simplex(3, 1.7)
        found = offline_optimum(g, domain, movement)
        sequences = (
            1.7 * np.eye(3)[list(path)] for path in itertools.product(range(3), repeat=5)
        )
        best = min(paid(kl.contrib.LinearCosts(g), movement, u) for u in sequences)
        assert found.method == "dynamic programme"
        assert found.cost == pytest.approx(best, abs=1e-12)  # a few roundings of numbers below 10
        assert found.cost == pytest.approx(
            paid(kl.contrib.LinearCosts(g), movement, found.u), abs=1e-12
        )

    @pytest.mark.parametrize("make", PRICES)
    @given(seed=st.integers(0, 2**16), varying=st.booleans())
    def test_a_box_against_all_sequences_of_ends(self, make, seed, varying):
        rng = np.random.default_rng(seed)
        g, movement = rng.normal(size=(5, 3)), make(rng.uniform(0.0, 1.5, 5) if varying else 0.4)
        x0 = rng.normal(size=3) if seed % 2 else None
        start = BOX.lower if x0 is None else BOX.project(x0)
        levels = np.array([BOX.lower, start, BOX.upper])
        best = 0.0
        for i in range(
            3
        ):  # coordinates are independent: the others are held at their start, where they pay the same
            paths = (levels[list(path), i] for path in itertools.product(range(3), repeat=5))
            costs = []
            for path in paths:
                u, weights = np.tile(start, (5, 1)), np.full(5, movement.weights(5))
                u[:, i] = path
                delta = np.diff(u, axis=0, prepend=(u[:1] if x0 is None else start[None]))
                costs.append(g[:, i] @ path + weights @ movement.distance(delta))
            best += min(costs)
        if x0 is not None:
            best += float(np.full(5, movement.weights(5))[0] * movement.distance(start - x0))
        found = offline_optimum(g, BOX, movement, x0=x0)
        assert found.cost == pytest.approx(best, abs=1e-12)
        assert found.cost == pytest.approx(
            paid(kl.contrib.LinearCosts(g), movement, found.u, x0), abs=1e-12
        )
        assert (
            found.gap <= 1e-10
        )  # (d + 100) eps times how much more the terms sum to than the cost

    @pytest.mark.parametrize(
        "domain", [SIMPLEX, BOX, kl.Simplex(11), kl.Box(np.zeros(11), np.ones(11))], ids=repr
    )
    @given(seed=st.integers(0, 2**16), weight=st.floats(0.0, 20.0))
    def test_their_gap_is_rounding_from_any_start_in_the_set(self, domain, seed, weight):
        g = gradients(seed, 200, domain.dim)
        x0 = domain.project(np.random.default_rng(seed).normal(size=domain.dim))
        for start in (None, x0):
            found = offline_optimum(g, domain, kl.TVMovement(weight), x0=start)
            assert (
                found.gap <= 1e-10
            )  # (d + 100) eps times how much more the terms sum to than the cost
            assert found.cost == pytest.approx(
                paid(kl.contrib.LinearCosts(g), kl.TVMovement(weight), found.u, start), rel=1e-11
            )
            assert domain.contains(found.u)

    def test_splitting_finds_what_they_find(self):
        g = gradients(3, 40, 3)
        for domain in (SIMPLEX, BOX):
            problem = Problem(Game.check(domain, g, kl.L1Movement(0.8)), domain)
            method = Splitting(problem)
            method.advance(3000)
            exact = offline_optimum(g, domain, kl.L1Movement(0.8))
            assert sum(problem.paid(method.x)) == pytest.approx(exact.cost, rel=1e-7)
            assert method.lower_bound(method.point()) == pytest.approx(exact.cost, rel=1e-7)


@pytest.mark.parametrize(
    "family", [family for family in EVERY_FAMILY if family.has_prox], ids=repr
)
class TestFamilies:
    @given(seed=st.integers(0, 2**16), r=st.floats(1e-3, 1e3), far=st.floats(0.0, 30.0))
    def test_minorants_lie_below_the_costs_and_touch_them_at_the_step(self, family, seed, r, far):
        rng = np.random.default_rng(seed)
        rows = rows_of(family, seed, T)
        a = rng.normal(scale=far, size=(T, 3))
        v = a if family.has_affine else family.prox(rows, a, r)
        e, h = family.minorant(rows, v, r * (a - v))
        size = 1.0 + np.abs(e) + np.linalg.norm(h, axis=1) * (1.0 + np.linalg.norm(a, axis=1))
        gap = family.value(rows, v) - (e + np.vecdot(h, v))
        assert (gap <= 1e-9 * size * (1.0 + r)).all()  # h = r (a - v) loses r |a| eps
        for x in rng.normal(scale=5.0, size=(20, T, 3)):
            x = np.abs(x) if family.positive else x
            below = e + np.vecdot(h, x)
            assert (
                below <= family.value(rows, x) + 1e-12 * size * (1.0 + np.linalg.norm(x))
            ).all()

    @given(seed=st.integers(0, 2**16), magnitude=st.floats(-2.0, 2.0))
    def test_steps_minimise(self, family, seed, magnitude):
        r, rng = 10.0**magnitude, np.random.default_rng(seed)
        rows = rows_of(family, seed, T)
        a = rng.normal(scale=3.0, size=(T, 3))
        v = family.prox(rows, a, r)

        def objective(x):
            return family.value(rows, x) + 0.5 * r * ((x - a) ** 2).sum(axis=1)

        near = 1e-12 * (1.0 + r) * (1.0 + np.abs(a).sum() + np.abs(v).sum())
        for size in (1.0, 0.1, 0.1, 1e-2, 1e-3):
            other = objective(v + size * rng.normal(size=(T, 3)))
            assert (objective(v) <= np.nan_to_num(other, nan=np.inf) + near).all()


def test_the_logistic_step_solves_its_equation_from_wherever():
    """Newton alone runs from one end of the bracket to the other and back in one of a hundred of these cases."""
    rng = np.random.default_rng(0)
    margin, k = rng.normal(scale=20.0, size=3000), 10.0 ** rng.uniform(-3.0, 4.0, 3000)
    q = margin + k * kl.contrib.Logistic().slope(margin, k)
    np.testing.assert_allclose(
        q - margin, k / (1.0 + np.exp(q)), rtol=1e-9, atol=1e-12 * (np.abs(margin) + k).max()
    )


class TestLaws:
    @pytest.mark.parametrize("name", FAMILIES)
    @settings(max_examples=8)
    @given(seed=st.integers(0, 2**16), weight=st.sampled_from([0.0, 0.1, 1.0, 10.0]))
    def test_no_sequence_beats_the_bound_and_none_found_lies_below_it(self, name, seed, weight):
        costs, movement = costs_of(name, T, 3, seed), kl.L2Movement(weight)
        domain = SIMPLEX if name == "LogWealthCosts" else BALL
        found = offline_optimum(costs, domain, movement, gap=1e-3)
        assert found.lower_bound <= found.cost
        assert found.gap <= 1e-3
        assert domain.contains(found.u)
        assert found.cost == pytest.approx(paid(costs, movement, found.u), rel=1e-12, abs=1e-12)
        trace = kl.run(kl.GD(domain, 2.0), costs, movement=movement, engine="step")
        for u in (feasible(domain, seed), np.tile(feasible(domain, seed, 1), (T, 1)), trace.x):
            assert paid(costs, movement, u) >= found.lower_bound

    @pytest.mark.parametrize("domain", SETS, ids=repr)
    @pytest.mark.parametrize("iterations", [1, 3, 12])
    def test_the_bound_holds_however_early_it_stops(self, domain, iterations):
        costs, movement = costs_of("PinballCosts", T, domain.dim, 5), kl.L2Movement(0.3)
        best = offline_optimum(costs, domain, movement, gap=1e-6).cost
        with pytest.raises(GapNotReached) as stopped:
            offline_optimum(costs, domain, movement, gap=1e-12, iterations=iterations)
        assert stopped.value.best.lower_bound <= best <= stopped.value.best.cost * (1 + 1e-6)

    @settings(max_examples=10)
    @given(seed=st.integers(0, 2**16), name=st.sampled_from(["LinearCosts", "QuadraticCosts"]))
    def test_the_value_grows_with_the_weight_and_is_concave_in_it(self, seed, name):
        costs, weights = costs_of(name, 12, 3, seed), np.linspace(0.0, 2.0, 5)
        found = [offline_optimum(costs, BALL, kl.L2Movement(w), gap=1e-6) for w in weights]
        upper, lower = np.array([f.cost for f in found]), np.array([f.lower_bound for f in found])
        assert (upper[1:] >= lower[:-1]).all()
        assert (upper[1:-1] >= 0.5 * (lower[:-2] + lower[2:])).all()

    @pytest.mark.parametrize("domain", [BALL, SIMPLEX, BOX], ids=repr)
    @settings(max_examples=10)
    @given(seed=st.integers(0, 2**16))
    def test_free_movement_gives_every_rounds_minimum_and_dear_movement_the_best_fixed_point(
        self, domain, seed
    ):
        g = gradients(seed, 12, 3)
        free = offline_optimum(g, domain, kl.L2Movement(0.0), gap=1e-8)
        assert free.cost == pytest.approx(np.vecdot(g, domain.argmin_linear(g)).sum(), rel=1e-7)
        fixed, dear = (
            best_fixed(g, domain),
            offline_optimum(g, domain, kl.L2Movement(1e3), gap=1e-6),
        )
        assert dear.lower_bound <= fixed.cost
        assert fixed.lower_bound <= dear.cost + 1e-9
        assert dear.cost == pytest.approx(fixed.cost, rel=2e-6, abs=1e-6)
        assert fixed.cost == pytest.approx(g.sum(axis=0) @ fixed.x)

    def test_a_start_from_a_coarser_problem_saves_iterations_and_changes_no_bound(self):
        g = gradients(1, 3000, 3) + np.repeat([1.0, -1.0, 1.0], 1000)[:, None]
        costs, movement, steps = kl.contrib.LinearCosts(g), kl.L2Movement(50.0), []
        found = offline_optimum(
            costs, BALL, movement, progress=lambda iteration, gap: steps.append((iteration, gap))
        )
        problem = Problem(Game.check(BALL, costs, movement), BALL)
        cold = Splitting(problem)
        cold.advance(2 * found.iterations)
        assert sum(problem.paid(cold.x)) >= found.lower_bound
        assert cold.lower_bound(cold.point()) <= found.cost
        assert (
            problem.gap(sum(problem.paid(cold.x)), cold.lower_bound(cold.point()))
            > 1e-4
            >= found.gap
        )
        assert steps[-1] == (found.iterations, found.gap)

    def test_costs_that_vanish_reach_their_gap(self):
        targets = np.tile([0.1, 0.2, 0.3], (20, 1))
        assert offline_optimum(kl.QuadraticCosts(targets), BALL).cost <= 1e-4
        assert offline_optimum(np.zeros((20, 3)), BALL).gap == 0.0


class TestFrontier:
    @settings(max_examples=6)
    @given(seed=st.integers(0, 2**16), domain=st.sampled_from([BALL, SIMPLEX, BOX]))
    def test_it_falls_is_convex_and_encloses_the_best_of_every_length(self, seed, domain):
        costs = kl.contrib.LinearCosts(gradients(seed, 60, 3))
        movement = kl.L2Movement()
        curve = frontier(costs, domain, movement, gap=0.02)
        assert curve.gap <= 0.02
        slopes = np.diff(curve.hitting) / np.diff(curve.path_length)
        assert (slopes < 0.0).all()
        assert (np.diff(slopes) > 0.0).all()
        for u in (feasible(domain, seed, 60), kl.run(kl.GD(domain, 3.0), costs, engine="step").x):
            lower, _ = curve.best(movement.paid(u).sum())
            assert costs.values(u).sum() >= lower - 1e-9
        length = 0.3 * curve.path_length[-1]
        found = best_with_path_length(costs, domain, length, movement)
        lower, upper = curve.best(length)
        assert found.lower_bound <= upper
        assert lower <= found.cost
        assert movement.paid(found.u).sum() <= length * (1.0 + 1e-9)
        assert domain.contains(found.u)

    def test_regret_against_every_length_at_once(self):
        costs = kl.contrib.LinearCosts(gradients(0, 60, 3))
        curve, trace = frontier(costs, BALL), kl.run(kl.GD(BALL, 3.0), costs)
        low, high = curve.regret(trace.totals.hitting, [0.0, 5.0, 1e9])
        assert (low <= high + 1e-9).all()
        assert (np.diff(high) >= 0.0).all()
        assert low[0] == pytest.approx(trace.totals.hitting - best_fixed(costs, BALL).cost)
        everything = (
            trace.totals.hitting - np.vecdot(costs.data, BALL.argmin_linear(costs.data)).sum()
        )
        assert high[-1] == pytest.approx(everything, rel=1e-3)  # the gap of single optima

    def test_other_costs_and_lengths(self):
        costs = costs_of("PinballCosts", 20, 3, 1)
        curve = frontier(costs, SIMPLEX, kl.TVMovement(), gap=0.05)
        assert curve.gap <= 0.05
        assert repr(curve).startswith("Frontier(")

    def test_points_above_a_chord_are_no_corners(self):
        ends = [(0.0, 4.0), (1.0, 2.0), (4.0, 0.0)]
        inner = [
            (0.5, 3.0),
            (2.0, 1.9),
            (3.0, 3.0),
            (5.0, 0.0),
        ]  # on a chord, above one, above all, longer in vain
        found = _hull([Vertex(1.0, P, hitting, 0.0, G, None) for P, hitting in inner + ends])
        assert [(v.path_length, v.hitting) for v in found] == ends

    def test_costs_that_moving_does_not_help(self):
        curve = frontier(np.ones((10, 3)), BALL)
        assert isinstance(curve, Frontier)
        assert curve.gap == 0.0
        assert curve.best(3.0)[1] == pytest.approx(-10.0 * 3**0.5)


class LongestMovement(kl.types.Movement):
    """A norm that the solver knows no step of."""

    def distance(self, delta):
        return np.abs(delta).max(axis=-1)


class HalfMovement(kl.L1Movement):
    def distance(self, delta):
        return 0.5 * np.sqrt(super().distance(delta))


G = np.ones((4, 3))
REFUSED = {
    "domain must be a ConvexSet, got int. Did you swap the arguments? offline_optimum(costs, L2Ball(5))": (
        lambda: offline_optimum(G, 3)  # pyright: ignore
    ),
    "costs must have dimension 2, as the set does, got 3.": (
        lambda: offline_optimum(G, kl.L2Ball(2))
    ),
    "g[0, 0] must be a finite number, got nan. Remove or fill NaN and inf.": lambda: (
        offline_optimum(G * np.nan, BALL)
    ),
    (
        "movement must be one of L2Movement, WeightedL2Movement, MahalanobisMovement, L1Movement, "
        "TVMovement, AsymmetricMovement, SquaredMovement, ImpactMovement, got SwitchFee()."
    ): lambda: offline_optimum(G, BALL, kl.contrib.SwitchFee()),
    (
        "movement must be one of L2Movement, WeightedL2Movement, MahalanobisMovement, L1Movement, "
        "TVMovement, AsymmetricMovement, SquaredMovement, ImpactMovement, got "
        "LongestMovement(weight=2.0). If it is convex, give it a method subgradient(delta) for "
        "offline_optimum."
    ): (lambda: offline_optimum(G, BALL, LongestMovement(2.0))),
    (
        "movement must be one of L2Movement, WeightedL2Movement, MahalanobisMovement, L1Movement, "
        "TVMovement, AsymmetricMovement, SquaredMovement, ImpactMovement, got HalfMovement(). If it is "
        "convex, give it a method subgradient(delta) for offline_optimum."
    ): lambda: offline_optimum(G, BALL, HalfMovement()),
    "movement must be a Movement such as L2Movement(1.0), got 3.": lambda: frontier(G, BALL, 3),  # pyright: ignore
    "gap must be above 0, got 0.": lambda: offline_optimum(G, BALL, gap=0),
    "iterations must be an integer of at least 1, got 0.": lambda: offline_optimum(
        G, BALL, iterations=0
    ),
    "x0 must have shape (3,), got (2,).": (lambda: offline_optimum(G, BALL, x0=[0.0, 0.0])),
    "weight must be one number or 4, one per round, got 3.": (
        lambda: offline_optimum(G, BALL, kl.L2Movement([1.0, 1.0, 1.0]))
    ),
    "P must not be negative, got -1.": (lambda: best_with_path_length(G, BALL, -1)),
    "gap must be above 0, got -1.": lambda: frontier(G, BALL, gap=-1),
    "domain must be a ConvexSet, got NoneType. Did you swap the arguments? best_fixed(costs, L2Ball(5))": (
        lambda: best_fixed(G, None)  # pyright: ignore
    ),
}


@pytest.mark.parametrize("message", REFUSED)
def test_bad_input_is_refused(message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        REFUSED[message]()


def test_a_budget_that_ends_says_how_far_it_came_and_hands_over_what_it_found():
    with pytest.raises(
        GapNotReached,
        match=r"After 3 iterations the gap is 5.1e-02, above the 1.0e-12 asked for.",
    ):
        offline_optimum(gradients(0, 50, 3), BALL, gap=1e-12, iterations=3)
    with pytest.raises(
        GapNotReached,
        match=r"After 2 iterations the gap is 6.1e-02, above the 1.0e-12 asked for.",
    ) as stopped:
        best_fixed(costs_of("PinballCosts", T, 3, 0), SIMPLEX, gap=1e-12, iterations=2)
    assert SIMPLEX.contains(stopped.value.best.x)


def test_costs_that_are_infinite_all_over_the_set_reach_no_gap():
    with pytest.raises(
        GapNotReached, match=r"After 40 iterations the gap is inf, above the 1.0e-04 asked for."
    ):
        offline_optimum(
            costs_of("LogWealthCosts", T, 3, 0), kl.Box([-2.0] * 3, [-1.0] * 3), iterations=40
        )


def test_an_optimum_reads_well():
    found = offline_optimum([[1.0], [-3.0], [1.0]], kl.Box(-1, 1), kl.L1Movement(0.5))
    assert isinstance(found, Optimum)
    assert re.fullmatch(r"Optimum\(cost=-3, lower_bound=-3, gap=\d\.\de-14, T=3\)", repr(found))
    lines = str(found).splitlines()
    assert lines[0] == "offline optimum of 3 rounds in R^1, by dynamic programme"
    assert lines[1:4] == [
        "hitting                     -5",
        "switching                    2",
        "cost                        -3",
    ]
    assert lines[-1] == "moves in 2 of 2 rounds"


class TestEdges:
    """Cases that a certificate is easily wrong about."""

    @pytest.mark.parametrize(
        "movement",
        [
            kl.L1Movement([1.0, 0.0, 1.0, 1.0]),
            kl.contrib.AsymmetricMovement(1.0, up=0.0),
            kl.contrib.WeightedL2Movement(1.0, scale=[0.0]),
        ],
        ids=repr,
    )
    def test_length_zero_is_not_standing_still_where_moving_is_free(self, movement):
        curve = kl.frontier([[1.0], [-1.0], [1.0], [-1.0]], kl.Box(-1.0, 1.0), movement)
        lower, upper = curve.best(0.0)
        assert lower <= upper + 1e-12
        assert upper <= -1.0 if isinstance(movement, kl.L1Movement) else lower <= -0.99

    @pytest.mark.parametrize("domain", [kl.L2Ball(2), kl.Box([-1.0, -1.0], [1.0, 1.0])], ids=repr)
    def test_costs_of_zero_are_met_exactly(self, domain):
        found = kl.offline_optimum(np.zeros((4, 2)), domain, x0=[0.1, 0.2])
        assert abs(found.cost) <= 1e-9
        assert found.gap <= 1e-4

    def test_a_price_that_forbids_moving_keeps_its_certificate(self):
        g = np.random.default_rng(0).normal(size=(1000, 3))
        box = kl.Box(-np.ones(3), np.ones(3))
        found = kl.offline_optimum(g, box, kl.L1Movement(1e12))
        assert (
            found.gap <= 1e-8
        )  # an allowance for the rounding of a thousand multipliers, each a sum of up to all gradients
        assert found.cost == pytest.approx(kl.best_fixed(g, box).cost)

    def test_a_small_saving_beside_a_large_cost_is_still_certified(self):
        g = 0.01 * np.random.default_rng(0).normal(size=(60, 3)) + [10.0, 0.0, 0.0]
        assert kl.frontier(g, kl.L2Ball(3), iterations=20_000, points=60).gap <= 0.01

    def test_a_tiny_intersection_has_a_bound_that_holds(self):
        g = np.random.default_rng(1).normal(size=(6, 2))

        def optimum(s):
            lens = kl.Intersection([kl.L2Ball(2, s), kl.L2Ball(2, s, [0.7 * s, 0.2 * s])])
            return kl.offline_optimum(g, lens, kl.L2Movement(0.3))

        assert (
            optimum(1e-8).lower_bound
            <= 1e-8 * optimum(1.0).cost * (1.0 - 1e-7 * np.sign(optimum(1.0).cost)) + 1e-15
        )

    def test_negative_lengths_are_refused(self):
        with pytest.raises(ValueError, match=r"P must not be negative, got -5.0."):
            kl.frontier([[1.0], [-1.0]], kl.Box(-1.0, 1.0)).best(-5.0)
