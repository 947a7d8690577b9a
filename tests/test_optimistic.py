"""Optimistic learners: their bounds hold in random and adversarial games, and slow changes of smooth costs pay."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import klazy as kl
from klazy.contrib import (
    OptimisticGD,
    OptimisticHedge,
    SquaredMovement,
    ader,
    sword,
    sword_bound,
    sword_plus_plus,
)
from klazy.families import Quadratic

seeds = st.integers(0, 2**16)
BALL = kl.L2Ball(2)


def wander(seed, T, pace):
    """Points that walk at random on a sphere of radius 2, a part of them outside of the ball."""
    rng = np.random.default_rng(seed)
    walk = rng.normal(size=2) + pace * np.cumsum(rng.normal(size=(T, 2)), axis=0)
    return 2.0 * walk / np.linalg.norm(walk, axis=1, keepdims=True)


def measure(learner, costs, u):
    """What a run costs beyond the comparator, whose path length and change of gradients come with it."""
    trace = kl.run(learner, costs, engine="step")
    lengths = np.linalg.norm(np.diff(u, axis=0), axis=1)
    changes = np.diff(costs.subgradients(np.zeros((costs.T, 2))), axis=0)
    regret = trace.hitting.sum() - costs.values(u).sum()
    return regret, lengths.sum(), np.vecdot(changes, changes).sum(), trace


@given(seed=seeds, sigma=st.floats(0.5, 20.0), T=st.integers(1, 40))
def test_optimistic_descent_pays_for_what_it_did_not_guess(seed, sigma, T):
    rng = np.random.default_rng(seed)
    g = rng.normal(size=(T, 2))
    u = BALL.project(rng.normal(size=(T, 2)))
    x = kl.run(OptimisticGD(BALL, sigma), g, engine="step").x
    moved = np.diff(x, axis=0)
    missed = np.diff(g, axis=0, prepend=0.0)
    path = np.linalg.norm(np.diff(u, axis=0), axis=1).sum()
    bound = (missed**2).sum() / sigma + sigma / 2.0 * (4.0 + 4.0 * path)
    bound -= sigma / 4.0 * (moved**2).sum()
    assert (g * (x - u)).sum() <= bound + 1e-9


@given(seed=seeds, rate=st.floats(0.01, 3.0), knows=st.booleans(), N=st.integers(1, 5))
def test_the_weights_lose_no_more_than_the_bound_says(seed, rate, knows, N):
    """Against every expert, tolls included, from what was not guessed of the losses."""
    rng = np.random.default_rng(seed)
    g = rng.normal(size=(30, 2)) * rng.choice([0.1, 1.0], (30, 1))
    experts = [OptimisticGD(BALL, sigma) for sigma in rng.uniform(0.3, 30.0, N)]
    G = float(np.linalg.norm(g, axis=1).max()) if knows else None
    learner = OptimisticHedge(experts, rate, toll=SquaredMovement(1.0), G=G)
    state = learner.init()
    mean = 0.0
    losses = np.zeros(N)
    missed = 0.0
    used = rate
    for slope in g:
        w = learner.weights(state)
        points = np.array([expert.x for expert in state.experts])
        loss = points @ slope + state.moved
        mean += w @ loss
        losses += loss
        used = learner.find_rate(state.surprise)
        missed += used * np.ptp(points @ (slope - state.guess)) ** 2 / 8.0
        state = learner.step(state, slope)
    assert mean - losses.min() <= np.log(N) / used + missed + 1e-9


def test_weights_are_those_of_the_definition():
    rng = np.random.default_rng(3)
    g = rng.normal(size=(12, 2))
    sigmas = (1.0, 4.0, 9.0)
    learner = OptimisticHedge(
        [OptimisticGD(BALL, sigma) for sigma in sigmas], 0.7, toll=SquaredMovement(3.0), G=4.0
    )
    points = np.array([kl.run(expert, g, engine="step").x for expert in learner.experts])
    tolls = 1.5 * (np.diff(points, axis=1, prepend=points[:, :1]) ** 2).sum(axis=2)
    guesses = np.vstack((np.zeros(2), g[:-1]))
    missed = np.ptp(np.einsum("itd,td->it", points, g - guesses), axis=0) ** 2
    x = kl.run(learner, g, engine="step").x
    for t in range(12):
        rate = (1.0 / 0.7**2 + (16.0**2 + missed[:t].sum()) / (2.0 * np.log(3.0))) ** -0.5
        losses = np.einsum("itd,td->i", points[:, :t], g[:t]) + tolls[:, :t].sum(axis=1)
        w = np.exp(-rate * (losses + points[:, t] @ guesses[t] + tolls[:, t]))
        np.testing.assert_allclose(x[t], w / w.sum() @ points[:, t], atol=1e-12)


@pytest.mark.parametrize("knows_rows", [False, True])
@given(seed=seeds, pace=st.sampled_from([0.0, 0.01, 0.3, 10.0]), L=st.sampled_from([0.1, 1.0]))
def test_sword_keeps_its_bound(knows_rows, seed, pace, L):
    T = 60
    targets = wander(seed, T, pace)
    costs = kl.QuadraticCosts(targets, L)
    u = targets / 2.0
    G = 3.0 * L
    learner = sword_plus_plus(BALL, T, G, L)
    if knows_rows:
        learner = sword(BALL, T, G, L, family=Quadratic(L))
    regret, P, V, _ = measure(learner, costs, u)
    assert regret <= sword_bound(T, G, 2.0, L, P, V)


def test_sword_plus_plus_keeps_its_bound_against_one_who_looks_one_round_ahead():
    """Linear costs that raise regret most: nothing can be guessed, and the bound is less than ten times what is paid."""
    turns = np.linspace(0.0, 2.0 * np.pi, 400)
    around = np.column_stack((np.cos(turns), np.sin(turns)))
    learner = sword_plus_plus(BALL, 600, 1.0, 0.01)
    state = learner.init()
    total = np.zeros(2)
    paid = 0.0
    g = []
    for _ in range(600):
        worst = np.argmax(around @ state.x + np.linalg.norm(total + around, axis=1))
        g.append(around[worst])
        paid += g[-1] @ state.x
        total += g[-1]
        state = learner.step(state, g[-1])
    V = (np.diff(g, axis=0) ** 2).sum()
    regret = paid + np.linalg.norm(total)
    assert regret <= sword_bound(600, 1.0, 2.0, 0.01, 0.0, V) <= 10.0 * regret


def test_the_parts_are_those_of_the_proof():
    """It needs tolls of 2 L |move|^2, rates of at most 1 / (8 D^2 L), and steps of at most 1 / (8 L)."""
    T, G, L, D = 5000, 1.5, 0.7, 2.0
    both = sword_plus_plus(BALL, T, G, L), sword(BALL, T, G, L, family=Quadratic(L))
    for learner in both:
        experts: Any = learner.experts
        steps = np.array([1.0 / expert.sigma.s for expert in experts])
        assert steps[0] == pytest.approx(D / (G * np.sqrt(8.0 * T)))
        assert steps[-1] == pytest.approx(1.0 / (8.0 * L))
        assert (np.diff(np.log2(steps)) <= 1.0 + 1e-12).all()
        assert learner.rate == pytest.approx(1.0 / (8.0 * D**2 * L))
        assert learner.G == G
    move = np.array([0.3, -0.4])
    charged, free = (learner.toll.weight * learner.toll.distance(move) for learner in both)
    assert charged == pytest.approx(2.0 * L * 0.25)
    assert free == 0.0


def test_sword_guesses_the_last_cost_at_the_new_points():
    rng = np.random.default_rng(4)
    rows = 2.0 * rng.normal(size=(12, 2))
    family = Quadratic(0.6)
    learner = sword(BALL, 12, 4.0, 0.6, family=family)
    points = np.array(
        [kl.run(expert, family.costs(rows), engine="step").x for expert in learner.experts]
    )
    N = len(points)
    w = np.full(N, 1.0 / N)
    losses = np.zeros(N)
    guess = np.zeros(2)
    missed = 0.0
    x = kl.run(learner, family.costs(rows), engine="step").x
    for t in range(12):
        if t > 0:
            guess = family.gradient(rows[t - 1], w @ points[:, t])
        rate = (1.0 / learner.rate**2 + (16.0**2 + missed) / (2.0 * np.log(N))) ** -0.5
        w = np.exp(-rate * (losses + points[:, t] @ guess))
        w /= w.sum()
        np.testing.assert_allclose(x[t], w @ points[:, t], atol=1e-12)
        slope = family.gradient(rows[t], x[t])
        losses += points[:, t] @ slope
        missed += np.ptp(points[:, t] @ (slope - guess)) ** 2


def test_slow_changes_pay():
    """Costs turn five times in 2000 rounds: a learner for any costs pays six times as much."""
    T = 2000
    angles = 10.0 * np.pi * np.arange(T) / T
    around = np.stack((np.cos(angles), np.sin(angles)), axis=1)
    costs = kl.QuadraticCosts(10.0 * around, 0.1)
    learners = (
        ader(BALL, T, 1.1),
        sword_plus_plus(BALL, T, 1.1, 0.1),
        sword(BALL, T, 1.1, 0.1, family=Quadratic(0.1)),
    )
    plain, one_gradient, all_gradients = (
        measure(learner, costs, around)[0] for learner in learners
    )
    assert max(one_gradient, all_gradients) < plain / 6.0
    # Over four times as many rounds of as slow a circle the bound grows by less than the root of T.
    assert sword_bound(4 * T, 1.1, 2.0, 0.1, 10.0 * np.pi, 0.1) < 1.1 * sword_bound(
        T, 1.1, 2.0, 0.1, 10.0 * np.pi, 0.4
    )


def test_an_extra_gradient_is_taken_at_the_point_between():
    row = np.array([0.5, 0.0])
    learner = OptimisticGD(BALL, 2.0, family=Quadratic())
    state = learner.step(learner.init(), row)
    between = 0.5 * row
    np.testing.assert_allclose(state.y, between)
    np.testing.assert_allclose(state.x, between - (between - row) / 2.0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: OptimisticHedge([OptimisticGD(BALL, 1.0, family=Quadratic())], 1.0),
            r"experts\[0\] must have the family of the ensemble, None, got Quadratic\(\).",
        ),
        (
            lambda: OptimisticHedge([OptimisticGD(BALL, 1.0)], 0.0),
            "rate must be above 0, got 0.0.",
        ),
        (
            lambda: OptimisticHedge([OptimisticGD(BALL, 1.0)], 1.0, toll=3.0),  # pyright: ignore[reportArgumentType]
            r"toll must be a Movement such as contrib.SquaredMovement\(4.0\), got 3.0.",
        ),
        (lambda: sword_plus_plus(BALL, 10, 1.0, -1.0), "L must be above 0, got -1.0."),
        (
            lambda: OptimisticGD(BALL, 1.0, family="quadratic"),  # pyright: ignore[reportArgumentType]
            "family must be a Family such as",
        ),
    ],
)
def test_bad_arguments_are_rejected(make, message):
    with pytest.raises(ValueError, match=message):
        make()
