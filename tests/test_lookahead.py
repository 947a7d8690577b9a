"""Baselines that see the costs first: each plays what its definition says, none beats the optimum, SAder's bounds hold."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import klazy as kl
from klazy.contrib import (
    GOBD,
    OBD,
    RHAG,
    RHGD,
    ROBD,
    AveragingHorizon,
    LookAheadSAder,
    RecedingHorizon,
    run_ahead,
)


def games(seed, T=8):
    """A set, costs and a movement of every kind that the baselines know."""
    rng = np.random.default_rng(seed)
    box = kl.Box(np.zeros(3), 2.0 * np.ones(3))
    return {
        "linear, ball": (
            kl.L2Ball(3),
            kl.contrib.LinearCosts(rng.normal(size=(T, 3))),
            kl.L2Movement(0.5),
        ),
        "linear, simplex": (
            kl.Simplex(3),
            kl.contrib.LinearCosts(rng.normal(size=(T, 3))),
            kl.TVMovement(0.7),
        ),
        "linear, box": (
            box,
            kl.contrib.LinearCosts(rng.normal(size=(T, 3))),
            kl.L1Movement(rng.random(T) + 0.1),
        ),
        "quadratic, box": (box, kl.QuadraticCosts(2.0 * rng.random((T, 3))), kl.L2Movement(0.5)),
        "pinball, box": (
            box,
            kl.PinballCosts(2.0 * rng.random((T, 3)), 2.0, 1.0),
            kl.L1Movement(0.5),
        ),
        "pinball, simplex": (
            kl.Simplex(3),
            kl.PinballCosts(rng.random((T, 3)), 2.0, 1.0),
            kl.L2Movement(0.3),
        ),
        "wealth, simplex": (
            kl.Simplex(3),
            kl.LogWealthCosts(np.exp(0.5 * rng.normal(size=(T, 3)))),
            kl.L2Movement(0.1),
        ),
    }


GAMES = list(games(0))
PLAYERS = [
    RecedingHorizon,
    lambda domain: RecedingHorizon(domain, 2),
    lambda domain: AveragingHorizon(domain, 2),
    OBD,
    ROBD,
    lambda domain: ROBD(domain, 0.5, 1.5),
    LookAheadSAder,
    lambda domain: RHGD(domain, 2),
    lambda domain: RHAG(domain, 2),
]
NAMES = ["greedy", "receding", "averaging", "OBD", "ROBD", "ROBD that follows", "SAder"]
NAMES += ["RHGD", "RHAG"]


def anywhere(domain, rng, n=200):
    """Points of the set, many of them on its boundary."""
    return domain.project(
        domain.start + domain.scale * rng.normal(size=(n, domain.dim)) * rng.random((n, 1)) ** 2
    )


@pytest.mark.parametrize("make", PLAYERS, ids=NAMES)
@pytest.mark.parametrize("game", GAMES)
def test_points_lie_in_the_set_and_the_optimum_is_never_beaten(make, game):
    domain, costs, movement = games(1)[game]
    trace = run_ahead(make(domain), costs, movement=movement, x0=domain.start)
    assert domain.contains(trace.x, tol=1e-7)
    assert trace.engine == "look-ahead"
    optimum = kl.offline_optimum(costs, domain, movement, x0=domain.start)
    assert trace.totals.cost >= optimum.lower_bound - 1e-9
    assert trace.totals.cost == pytest.approx(
        costs.values(trace.x).sum() + movement.paid(trace.x, domain.start).sum()
    )


@pytest.mark.parametrize("game", GAMES)
def test_greedy_with_movement_minimises_cost_and_movement_round_by_round(game):
    domain, costs, movement = games(2)[game]
    x = run_ahead(RecedingHorizon(domain), costs, movement=movement, x0=domain.start).x
    rng, before = np.random.default_rng(3), domain.start
    weights = np.broadcast_to(movement.weights(costs.T), costs.T)
    for t in range(1, costs.T + 1):

        def price(y, t=t, before=before):
            return costs.value(t, y) + weights[t - 1] * movement.distance(y - before)

        rivals = min(price(y) for y in [before, *anywhere(domain, rng)])
        swing = np.linalg.norm(costs.subgradient(t, domain.start)) * domain.diameter
        assert price(x[t - 1]) <= rivals + 1e-4 * max(
            abs(rivals), swing / 100.0
        )  # the plan's gap, and what it is relative to
        before = x[t - 1]


def test_a_window_over_everything_is_the_optimum():
    domain, costs, movement = games(4)["linear, simplex"]
    plan = kl.offline_optimum(costs, domain, movement, x0=domain.start)
    seen = run_ahead(RecedingHorizon(domain, costs.T), costs, movement=movement, x0=domain.start)
    assert seen.totals.cost == pytest.approx(plan.cost, abs=1e-9)


def test_obd_plays_the_nearest_minimiser_and_stays_where_costs_are_flat():
    x = run_ahead(OBD(kl.Box([1.0, 1.0], [2.0, 2.0])), [[1.0, 0.0], [0.0, 0.0]], x0=[1.0, 1.5]).x
    np.testing.assert_allclose(x, [[1.0, 1.5], [1.0, 1.5]])


def test_a_set_of_one_point_leaves_no_choice():
    for player in (LookAheadSAder, OBD, ROBD, RecedingHorizon):
        np.testing.assert_allclose(
            run_ahead(player(kl.Box(1.0, 1.0)), [[1.0], [2.0]]).x, 1.0, rtol=1e-15
        )


def test_a_ratio_needs_the_optimum_of_the_same_game():
    costs, box = kl.QuadraticCosts([[0.0], [1.0], [0.0]]), kl.Box(0.0, 1.0)
    trace = kl.run(kl.GD(box, 2.0), costs, movement=kl.L1Movement(0.1), x0=[0.0], engine="step")
    other = kl.offline_optimum(costs, box, kl.L1Movement(5.0), x0=[0.0])
    with pytest.raises(
        ValueError,
        match=(
            "optimum must come from offline_optimum with the costs, movement and x0 of the run, got "
            r"Optimum\(cost=0.5, lower_bound=0.5, gap=2.3e-13, T=3\)."
        ),
    ):
        kl.theory.competitive_ratio(trace, other)


def test_averaging_is_the_mean_of_planners_that_keep_their_plans():
    domain, costs, movement = games(5)["linear, box"]
    player, start = AveragingHorizon(domain, 1), np.zeros(3)
    weights = movement.weights(costs.T)

    def follow(cuts):
        at, played = start, []
        for a, b in pairwise(cuts):
            plan = kl.offline_optimum(
                costs.window(a, b - 1), domain, kl.L1Movement(weights[a - 1 : b - 1]), x0=at
            ).u
            played.append(plan)
            at = plan[-1]
        return np.concatenate(played)

    both = (follow([1, 3, 5, 7, 9]) + follow([1, 2, 4, 6, 8, 9])) / 2.0
    np.testing.assert_allclose(
        run_ahead(player, costs, movement=movement, x0=start).x, both, atol=1e-12
    )


@pytest.mark.parametrize(
    "game", [game for game in GAMES if "linear" in game or "quadratic" in game or "box" in game]
)
@given(seed=st.integers(0, 2**16), balance=st.floats(0.1, 10.0))
def test_obd_balances_movement_and_level(game, seed, balance):
    domain, costs, movement = games(seed, 3)[game]
    x = run_ahead(OBD(domain, balance), costs, movement=movement, x0=domain.start).x
    before, weights = domain.start, np.broadcast_to(movement.weights(costs.T), costs.T)
    for t in range(1, 4):
        best = kl.best_fixed(costs.window(t, t), domain, gap=1e-9)
        level = costs.value(t, x[t - 1]) - min(0.0, best.cost)
        moved = weights[t - 1] * movement.distance(x[t - 1] - before)
        least = costs.value(t, x[t - 1]) <= best.cost + 1e-5 * max(
            1.0, abs(best.cost)
        )  # a minimiser is found to a millionth
        assert (
            moved <= balance * level + 1e-5
            if least
            else moved == pytest.approx(balance * level, rel=1e-4, abs=1e-5)
        )
        before = x[t - 1]


@pytest.mark.parametrize("game", GAMES)
@given(seed=st.integers(0, 2**16))
def test_robd_minimises_what_it_says(game, seed):
    domain, costs, movement = games(seed, 2)[game]
    stay, follow, rng = 0.7, 0.4, np.random.default_rng(seed)
    x = run_ahead(ROBD(domain, stay, follow), costs, movement=movement, x0=domain.start).x
    before = domain.start
    for t in (1, 2):
        v = kl.best_fixed(costs.window(t, t), domain).x

        def price(y, t=t, before=before, v=v):
            near, far = y - before, y - v
            return costs.value(t, y) + stay / 2.0 * near @ near + follow / 2.0 * far @ far

        assert price(x[t - 1]) <= min(price(y) for y in anywhere(domain, rng)) + 1e-9
        before = x[t - 1]


@pytest.mark.parametrize("game", ["linear, ball", "linear, simplex", "quadratic, box"])
@given(seed=st.integers(0, 2**16))
def test_look_ahead_sader_keeps_its_promises(game, seed):
    domain, costs, movement = games(seed, 30)[game]
    player, seen = (
        LookAheadSAder(domain),
        kl.contrib.Game.check(domain, costs, movement, domain.start),
    )
    sigmas, prior, beta = player.parameters(costs.T, movement)
    assert prior.sum() == pytest.approx(1.0)
    _, paid = player.experts(seen)
    weight, D, T = movement.weight * movement.lipschitz(3), domain.diameter, costs.T
    cost = run_ahead(player, costs, movement=movement, x0=domain.start).totals.cost
    assert (
        cost
        <= paid[:, -1] + np.log(1.0 / prior) / beta + beta * weight**2 * D**2 * T / 8.0 + 1e-9
    ).all()
    u = np.repeat(anywhere(domain, np.random.default_rng(seed), 3), 10, axis=0)
    theirs, path = costs.values(u).sum(), np.linalg.norm(np.diff(u, axis=0), axis=1).sum()
    assert (
        paid[:, -1]
        <= theirs + sigmas * (D**2 + 2.0 * D * path) / 2.0 + weight**2 * T / (2.0 * sigmas) + 1e-9
    ).all()


@pytest.mark.parametrize("game", ["linear, ball", "quadratic, box"])
def test_greedy_obd_lies_between_obd_and_the_minimiser(game):
    domain, costs, movement = games(3, 4)[game]
    x = {}
    for greed in (0.0, 0.3, 1.0):
        x[greed] = run_ahead(
            GOBD(domain, 2.0, greed), costs, movement=movement, x0=domain.start
        ).x
    plain = run_ahead(OBD(domain, 2.0), costs, movement=movement, x0=domain.start).x
    least = np.array([kl.best_fixed(costs.window(t, t), domain).x for t in range(1, 5)])
    np.testing.assert_allclose(x[0.0], plain, atol=1e-12)
    np.testing.assert_allclose(x[1.0], least, atol=1e-12)
    np.testing.assert_allclose(x[0.3][0], 0.7 * plain[0] + 0.3 * least[0], atol=1e-12)


@given(seed=st.integers(0, 2**16), stay=st.floats(0.1, 5.0))
def test_a_longer_window_brings_rhgd_nearer_to_the_optimum_of_squared_movement(seed, stay):
    """At the rate that its theory gives; the optimum of a quadratic problem inside the box is a linear system's solution."""
    rng = np.random.default_rng(seed)
    T, weight = 7, rng.uniform(0.5, 2.0)
    targets = rng.normal(size=(T, 2))
    box = kl.Box(-99.0 * np.ones(2), 99.0 * np.ones(2))
    moves = np.diff(np.vstack((np.zeros(T), np.eye(T))), axis=0)  # from x0 = 0
    best = np.linalg.solve(weight * np.eye(T) + stay * moves.T @ moves, weight * targets)
    costs = kl.QuadraticCosts(targets, weight)
    away = [
        np.sum((run_ahead(RHGD(box, window, stay, weight), costs, x0=np.zeros(2)).x - best) ** 2)
        for window in (0, 1, 4, 59)
    ]
    rate = 1.0 - weight / (weight + 4.0 * stay)
    assert away[0] > 0.0
    for window, left in zip((1, 4, 59), away[1:], strict=True):
        assert left <= rate**window * away[0] + 1e-20


@given(seed=st.integers(0, 2**16), stay=st.floats(0.1, 20.0), window=st.integers(0, 40))
def test_rhag_comes_as_near_to_the_optimum_of_squared_movement_as_its_bound_says(
    seed, stay, window
):
    rng = np.random.default_rng(seed)
    T = 12
    weight = rng.uniform(0.2, 1.0)
    targets = rng.normal(size=(T, 2))
    box = kl.Box(-99.0 * np.ones(2), 99.0 * np.ones(2))
    moves = np.diff(np.vstack((np.zeros(T), np.eye(T))), axis=0)
    hessian = weight * np.eye(T) + stay * moves.T @ moves
    best = np.linalg.solve(hessian, weight * targets)
    costs = kl.QuadraticCosts(targets, weight)

    def above(x):
        return 0.5 * float(np.einsum("id,ij,jd->", x - best, hessian, x - best))

    player = RHAG(box, window, stay, smoothness=1.0, curvature=weight)
    begun = np.zeros((T, 2))
    for t in range(1, T):
        begun[t] = begun[t - 1] - weight * (begun[t - 1] - targets[t - 1])
    first = above(begun) + 0.5 * weight * ((begun - best) ** 2).sum()
    rate = 1.0 - np.sqrt(weight / (1.0 + 4.0 * stay))
    left = above(run_ahead(player, costs, x0=np.zeros(2)).x)
    assert left <= rate ** (window + 1) * first + 1e-20


def test_momentum_needs_fewer_steps_where_moves_weigh_much():
    targets = np.sin(np.arange(60.0) / 4.0)[:, None]
    costs = kl.QuadraticCosts(targets)
    box = kl.Box(-9.0, 9.0)
    paid = []
    for player in (RHGD(box, 10, 20.0), RHAG(box, 10, 20.0)):
        trace = run_ahead(player, costs, movement=kl.contrib.SquaredMovement(20.0), x0=[0.0])
        paid.append(trace.totals.cost)
    least = kl.offline_optimum(costs, box, kl.contrib.SquaredMovement(20.0), x0=[0.0]).cost
    assert paid[1] - least < 0.2 * (paid[0] - least)


@pytest.mark.parametrize("kind", [RHGD, RHAG])
def test_rhgd_sees_no_further_than_its_window(kind):
    costs = np.random.default_rng(0).normal(size=(8, 2))
    other = costs.copy()
    other[6:] += 1.0
    here, there = (
        run_ahead(kind(kl.L2Ball(2), 2), kl.QuadraticCosts(c)).x for c in (costs, other)
    )
    np.testing.assert_array_equal(here[:4], there[:4])  # round 4 sees the costs up to round 6
    assert np.abs(here[4] - there[4]).max() > 0.0


def test_looking_ahead_is_a_type_of_its_own():
    player = RecedingHorizon(kl.L2Ball(2), 3)
    assert not isinstance(player, kl.types.Learner)
    assert repr(player) == "RecedingHorizon(domain=L2Ball(dim=2), window=3)"
    with pytest.raises(
        ValueError,
        match=(
            r"learner must be a Learner such as GD\(L2Ball\(5\), 1.0\), got "
            r"RecedingHorizon\(domain=L2Ball\(dim=2\), window=3\)."
        ),
    ):
        kl.run(player, np.ones((3, 2)))  # pyright: ignore[reportCallIssue, reportArgumentType]
    with pytest.raises(
        ValueError,
        match=(
            r"player must be a LookAhead, got GD\(domain=L2Ball\(dim=2\), sigma=Constant\(s=1.0\)\). Use run "
            r"for learners."
        ),
    ):
        run_ahead(kl.GD(kl.L2Ball(2), 1.0), np.ones((3, 2)))  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: OBD(None), "domain must be a ConvexSet such as L2Ball(5), got None."),  # pyright: ignore[reportArgumentType]
        (lambda: OBD(kl.L2Ball(2), 0.0), "balance must be above 0, got 0.0."),
        (
            lambda: GOBD(kl.L2Ball(2), 1.0, 2.0),
            "greed must be at most 1, got 2.0. Use 1 to play every minimiser.",
        ),
        (
            lambda: RHGD(kl.L2Ball(2), 0.5),  # pyright: ignore[reportArgumentType]
            "window must be an integer of at least 0, got 0.5.",
        ),
        (
            lambda: RHAG(kl.L2Ball(2), curvature=2.0),
            "curvature must be at most smoothness, 1.0, got 2.0.",
        ),
        (
            lambda: ROBD(kl.L2Ball(2), 1.0, -1),
            "follow must not be negative, got -1.",
        ),
        (
            lambda: RecedingHorizon(kl.L2Ball(2), -1),
            "window must be an integer of at least 0, got -1.",
        ),
        (
            lambda: run_ahead(
                LookAheadSAder(kl.L2Ball(2)), np.ones((3, 2)), movement=kl.L2Movement(0.0)
            ),
            "movement must be a norm at a price above 0, got L2Movement(weight=0.0). Use L2Movement().",
        ),
        (
            lambda: run_ahead(OBD(kl.L2Ball(2)), np.ones((3, 3))),
            "costs must have dimension 2, as the set does, got 3.",
        ),
    ],
)
def test_bad_input_is_refused(make, message):
    with pytest.raises(ValueError) as refused:  # noqa: PT011
        make()
    assert str(refused.value) == message


@pytest.mark.parametrize("game", GAMES)
def test_a_window_of_costs_is_those_rounds(game):
    _, costs, _ = games(6)[game]
    x = np.full(3, 1.0 / 3.0)
    part = costs.window(3, 5)
    assert part.T == 3
    assert [part.value(t, x) for t in (1, 2, 3)] == [costs.value(t, x) for t in (3, 4, 5)]
