"""Sequences whose costs are not linear: convex, repeatable, with certified optima, and named in studies."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import klazy as kl
from klazy.sequences import (
    DelayCosts,
    RegressionCosts,
    data_centre,
    drifting_regression,
    sea,
    tracking,
)
from klazy.studies.sweep.catalogue import RECIPES, make_learner, make_scenario

T = 8
MADE = {
    "tracking": lambda seed: tracking(seed, T=T),
    "drifting_regression": lambda seed: drifting_regression(seed, T=T),
    "data_centre": lambda seed: data_centre(seed, T=T, centres=2),
    "sea": lambda seed: sea(seed, T=T, every=3),
}
every = pytest.mark.parametrize("name", MADE)


@every
@given(seed=st.integers(0, 2**16))
def test_costs_are_convex_and_lie_above_their_tangents(name, seed):
    scenario = MADE[name](seed)
    costs = scenario.costs
    rng = np.random.default_rng(seed)
    x = scenario.domain.nearest(
        scenario.domain.start + scenario.domain.scale * rng.normal(size=(T, costs.dim))
    )
    y = scenario.domain.nearest(
        scenario.domain.start + scenario.domain.scale * rng.normal(size=(T, costs.dim))
    )
    np.testing.assert_allclose(
        costs.values(x), [costs.value(t + 1, x[t]) for t in range(T)], rtol=1e-12
    )
    for t in range(1, T + 1):
        g = costs.subgradient(t, x[t - 1])
        tangent = costs.value(t, x[t - 1]) + g @ (y[t - 1] - x[t - 1])
        assert costs.value(t, y[t - 1]) >= tangent - 1e-9 * (1.0 + abs(tangent))
    part = costs.window(3, 5)
    assert [part.value(t, x[0]) for t in (1, 2, 3)] == [costs.value(t, x[0]) for t in (3, 4, 5)]


@every
def test_a_seed_gives_the_same_sequence_and_points_of_the_set(name):
    one = MADE[name](3)
    same = MADE[name](3)
    other = MADE[name](4)
    assert one.domain.contains(one.comparator)
    np.testing.assert_array_equal(
        one.costs.values(one.comparator), same.costs.values(one.comparator)
    )
    assert not np.array_equal(
        one.costs.values(one.comparator), other.costs.values(one.comparator)
    )


@every
def test_the_optimum_is_certified_and_nobody_beats_it(name):
    scenario = MADE[name](1)
    movement = kl.L1Movement(0.3) if name == "data_centre" else kl.L2Movement(0.3)
    best = kl.offline_optimum(scenario.costs, scenario.domain, movement, gap=1e-3)
    assert best.gap <= 1e-3
    u = scenario.comparator
    assert best.lower_bound <= scenario.costs.values(u).sum() + movement.paid(u).sum() + 1e-9
    trace = kl.run(kl.GD(scenario.domain, 3.0), scenario.costs, movement=movement, engine="step")
    assert best.lower_bound <= trace.totals.cost


def test_regression_has_the_optimum_of_cvxpy():
    scenario = drifting_regression(2, T=6, noise=0.3)
    costs = scenario.costs
    assert isinstance(costs, RegressionCosts)
    found = kl.offline_optimum(costs, scenario.domain, kl.L2Movement(0.1), gap=1e-3)
    u = cp.Variable((6, 3))
    missed = cp.sum(cp.multiply(costs.features, u), axis=1) - costs.outcomes
    moved = sum(cp.norm(u[t] - u[t - 1]) for t in range(1, 6))
    problem = cp.Problem(
        cp.Minimize(0.5 * cp.sum_squares(missed) + 0.1 * moved), [cp.norm(u, axis=1) <= 1.0]
    )
    problem.solve(solver=cp.CLARABEL)
    best = float(problem.value)  # pyright: ignore[reportArgumentType]
    assert found.lower_bound - 1e-7 <= best <= found.cost + 1e-7


def test_servers_are_best_where_the_comparator_has_them():
    scenario = data_centre(5, T=24, energy=2.0, delay=0.5)
    costs = scenario.costs
    assert isinstance(costs, DelayCosts)
    for step in (-0.01, 0.01):
        assert (
            costs.values(scenario.comparator + step) > costs.values(scenario.comparator)
        ).all()
    assert np.isfinite(costs.values(np.zeros((24, 1)))).all()


def test_without_noise_and_jumps_the_adversary_or_chance_is_alone():
    chance = sea(0, T=40, jump=0.0)
    assert not chance.comparator.any()
    adversary = sea(0, T=40, sigma=0.0, every=10)
    assert (
        kl.regret(
            kl.run(kl.GD(adversary.domain, 1.0), adversary.costs, engine="step"),
            adversary.comparator,
        ).dynamic
        > 0
    )
    jumps = np.linalg.norm(np.diff(adversary.comparator, axis=0), axis=1)
    np.testing.assert_allclose(jumps[jumps > 0.0], 1.0)
    assert np.flatnonzero(jumps).tolist() == [9, 19, 29]


@every
def test_studies_can_name_them(name):
    assert name in RECIPES
    point = {"T": 5}
    scenario = make_scenario(name, point, 7)
    assert scenario.costs.T == 5
    learner = make_learner("GD", {"sigma": 2.0}, scenario.domain, kl.L2Movement(), scenario.costs)
    assert kl.run(learner, scenario.costs, engine="step").T == 5


REFUSED = {
    "step must not be negative, got -1.": lambda: tracking(0, step=-1),
    "jump must be at most 2, the width of the ball, got 3.": lambda: sea(0, jump=3),
    "centres must be an integer of at least 1, got 0.": lambda: data_centre(0, centres=0),
    "T must be an integer of at least 1, got 0.": lambda: drifting_regression(0, T=0),
    "loads must be above 0, got 0.0. Leave out idle coordinates.": lambda: DelayCosts([[0.0]]),
    "outcomes must have shape (1,), got (2,).": (lambda: RegressionCosts([[1.0]], [1.0, 2.0])),
}


@pytest.mark.parametrize("message", REFUSED)
def test_bad_input_is_refused(message):
    with pytest.raises(ValueError) as refused:  # noqa: PT011
        REFUSED[message]()
    assert str(refused.value) == message


def test_jumps_further_apart_than_the_sequence_is_long_never_come():
    rare = sea(3, T=20, every=2**64 - 1)
    np.testing.assert_array_equal(rare.comparator, sea(3, T=20, every=20).comparator)
    assert np.ptp(rare.comparator, axis=0).max() == 0.0
