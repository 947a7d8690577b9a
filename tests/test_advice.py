"""Advice with a knob: it costs at most 1 + delta times what the advice does, and a constant times what a robust player does."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import klazy as kl
from klazy.contrib import (
    OBD,
    AdaptiveSwitching,
    Advice,
    Interpolation,
    LookAheadInterpolation,
    PlayNext,
    RecedingHorizon,
    run_ahead,
)

T = 60
BOX = kl.Box(-np.ones(3), np.ones(3))
SETS = [BOX, kl.L2Ball(3), kl.Simplex(3)]
NORMS = [kl.L2Movement(0.5), kl.L1Movement(2.0), kl.contrib.AsymmetricMovement(up=3.0, down=0.2)]
seeds = st.integers(0, 10_000)
deltas = st.sampled_from([0.02, 0.3, 2.0])
games = given(
    seed=seeds, domain=st.sampled_from(SETS), movement=st.sampled_from(NORMS), delta=deltas
)


def make_advice(kind, g, domain, rng):
    """Decisions that are perfect round by round, opposite, perfect and then opposite, or drawn."""
    best = domain.lowest(g)
    worst = domain.lowest(-g)
    half = np.vstack((best[: T // 2], worst[T // 2 :]))
    drawn = domain.lowest(rng.normal(size=g.shape))
    return {"perfect": best, "opposite": worst, "turning": half, "drawn": drawn}[kind]


def check_promise(trace, delta, scale=0.0):
    """The certificate, and the theorem's two bounds with the scale at the end."""
    found = kl.theory.certify_experts(trace)
    rounding = 1e-9 * (1.0 + np.abs(found.experts))
    assert (found.slack >= -rounding).all()
    state = trace.state
    base = trace.totals.hitting - state.lost
    price = (1.0 + 1.0 / delta) * np.array([state.scale - scale, state.scale])
    assert (found.cost <= base + (1.0 + delta) * state.paid + price + rounding).all()


KINDS = ("perfect", "opposite", "turning", "drawn")


@games
@pytest.mark.parametrize("kind", KINDS)
def test_interpolation_keeps_its_promise_whatever_the_advice(kind, seed, domain, movement, delta):
    rng = np.random.default_rng(seed)
    g = rng.normal(size=(T, 3)) * rng.exponential(size=(T, 1))
    advice = Advice(domain, make_advice(kind, g, domain, rng))
    robust = kl.GD(domain, float(rng.uniform(0.3, 5.0)))
    learner = Interpolation(advice, robust, movement, delta)
    trace = kl.run(learner, g)
    check_promise(trace, delta)
    alone = [kl.run(each, g, movement=movement, engine="step") for each in (advice, robust)]
    entry = movement.weight * movement.distance(robust.init().x - advice.init().x)
    costs = [alone[0].totals.cost, alone[1].totals.cost + entry]
    np.testing.assert_allclose(kl.theory.certify_experts(trace).experts, costs, atol=1e-9)


@games
def test_interpolation_keeps_its_promise_when_it_is_played_against(seed, domain, movement, delta):
    """Costs fall on the one that it leans to, and grow, so that the scale is always wrong."""
    rng = np.random.default_rng(seed)
    advice = Advice(domain, domain.lowest(rng.normal(size=(T, 3))))
    learner = Interpolation(advice, kl.GD(domain, 2.0), movement, delta)
    state = learner.init()
    g = []
    for t in range(T):
        points = [expert.x for expert in state.experts]
        away = points[1] - points[0] if state.share > rng.random() else points[0] - points[1]
        size = np.linalg.norm(away)
        row = away / size if size > 1e-9 else rng.normal(size=3)
        g.append(row * rng.uniform(0.1, 1.1**t))
        state = learner.step(state, g[-1])
    check_promise(kl.run(learner, np.array(g)), delta)


@given(seed=seeds, delta=deltas)
def test_with_a_scale_that_holds_nothing_is_added_to_the_advice(seed, delta):
    rng = np.random.default_rng(seed)
    targets = rng.uniform(-1.0, 1.0, (T, 1))
    costs = kl.QuadraticCosts(targets)
    line = kl.Box(-1, 1)
    advice = Advice(line, np.where(rng.random((T, 1)) < rng.random(), targets, -targets))
    movement = kl.L1Movement(0.3)
    # A round costs at most 2, a move 0.6.
    learner = Interpolation(
        advice, kl.Fixed(line), movement, delta, scale=4.0, family=kl.Quadratic()
    )
    trace = kl.run(learner, costs)
    assert trace.state.scale == 4.0
    check_promise(trace, delta, scale=4.0)
    cost, (told, _) = trace.totals.cost, kl.theory.certify_experts(trace).experts
    assert cost <= (1.0 + delta) * told + 1e-9


def test_delta_trades_trust_for_safety():
    """Bad advice costs less with a large delta; good advice that errs now and then costs less with a small one."""
    line = kl.Box(-1, 1)
    g = np.ones((200, 1))
    erring = np.where(np.arange(200) % 5 == 0, 1.0, -1.0)[:, None]
    robust = kl.Fixed(line)
    paid = {}
    for delta in (0.05, 0.5):
        for name, decisions in (("bad", np.ones((1, 1))), ("erring", erring)):
            learner = Interpolation(Advice(line, decisions), robust, kl.L1Movement(0.1), delta)
            paid[name, delta] = kl.run(learner, g).totals.cost
    assert paid["bad", 0.5] < 0.25 * paid["bad", 0.05]
    assert paid["erring", 0.05] <= paid["erring", 0.5]


def test_decisions_come_as_hints_or_as_a_column_with_the_same_result():
    rng = np.random.default_rng(0)
    g = rng.normal(size=(T, 3))
    decisions = BOX.lowest(rng.normal(size=(T + 1, 3)))
    robust = kl.GD(BOX, 2.0)
    told = Interpolation(Advice(BOX, start=decisions[0]), robust, "l1", 0.2)
    read = Interpolation(Advice(BOX, decisions), robust, "l1", 0.2)
    x = kl.run(told, g, next_hints=decisions[1:]).x
    np.testing.assert_array_equal(x, kl.run(read, g).x)
    assert told.takes_advice
    assert not read.accepts_hints
    stays = kl.run(Advice(BOX, start=decisions[0]), g)
    assert stays.totals.switching == 0.0


def test_only_a_pair_passes_decisions_on():
    wanted = "An ensemble's hints are forecasts, and Advice without a policy takes decisions."
    with pytest.raises(ValueError, match=wanted):
        kl.contrib.Leader([Advice(BOX), kl.GD(BOX, 1.0)], "l1", hints=True)
    # Decisions are no forecasts: a robust learner that takes forecasts gets none.
    robust = kl.contrib.Reluctant(BOX, kl.L1Movement(0.3), 8.0, 8.0, hints=True)
    pair = Interpolation(Advice(BOX), robust, "l1")
    g = np.random.default_rng(0).normal(size=(T, 3))
    twin = Interpolation(Advice(BOX), robust.replace(hints=False), "l1")
    hints = np.ones((T, 3))
    np.testing.assert_array_equal(
        kl.run(pair, g, next_hints=hints).x, kl.run(twin, g, next_hints=hints).x
    )


# ---- costs that are known before the move


def pay(player, costs, movement, x0):
    return run_ahead(player, costs, movement=movement, x0=x0).totals.cost


def draw_game(seed, dim=1):
    """Costs that are never negative, of demands that stay or jump, and their minimisers."""
    rng = np.random.default_rng(seed)
    stays = rng.random((T, dim)) < rng.random()
    demand = rng.uniform(-1.0, 1.0, (T, dim))
    for t in range(1, T):
        demand[t] = np.where(stays[t], demand[t - 1], demand[t])
    return rng, demand


@pytest.mark.parametrize("kind", ["perfect", "opposite", "turning", "drawn"])
@given(seed=seeds, delta=deltas, norm=st.sampled_from([kl.L1Movement(1.5), kl.L2Movement(0.2)]))
def test_look_ahead_interpolation_pays_neither_much_more_than_the_advice_nor_the_robust_one(
    kind, seed, delta, norm
):
    rng, demand = draw_game(seed, 2)
    box = kl.Box(-np.ones(2), np.ones(2))
    costs = kl.QuadraticCosts(demand)
    x0 = np.zeros(2)
    best = kl.offline_optimum(costs, box, norm, x0=x0, gap=1e-3).u
    advice = {
        "perfect": best,
        "opposite": -best,
        "turning": np.vstack((best[: T // 2], -best[T // 2 :])),
        "drawn": rng.uniform(-1.0, 1.0, (T, 2)),
    }[kind]
    robust = rng.uniform(-1.0, 1.0, (T, 2)) if rng.random() < 0.5 else demand
    paid = pay(LookAheadInterpolation(box, advice, robust, delta), costs, norm, x0)
    own = [
        costs.values(np.array(x)).sum() + norm.paid(np.array(x), x0).sum()
        for x in (advice, robust)
    ]
    across = norm.weight * norm.lipschitz(2) * box.scale
    assert paid <= (1.0 + delta) * own[0] + 1e-9
    assert paid <= (1.0 + delta) * own[1] + (1.0 + 1.0 / delta) * across + 1e-9


def test_an_adversary_makes_interpolation_pay_all_of_delta():
    """Small costs fall on the advice until only the robust one is played, then on that one until only the advice is."""
    line = kl.Box(-1, 1)
    delta = 0.5
    price = 0.05
    small = 0.001
    turn = round(2.0 * 2.0 * price / delta / (2.0 * small))
    targets = np.tile(np.repeat([-1.0, 1.0], turn), 20)[:, None]
    costs = kl.PinballCosts(targets, small, small)
    movement = kl.L1Movement(price)
    corner = np.ones((1, 1))
    ahead = LookAheadInterpolation(
        line, corner.repeat(len(targets), 0), -corner.repeat(len(targets), 0), delta
    )
    paid = pay(ahead, costs, movement, [1.0])
    told = costs.values(corner.repeat(len(targets), 0)).sum()
    assert (1.0 + 0.9 * delta) * told < paid <= (1.0 + delta) * told + 1e-9
    family = kl.Pinball(small, small)
    made = [Advice(line, corner), Advice(line, -corner, start=[1.0])]
    late = Interpolation(made[0], made[1], movement, delta, family=family)
    check_promise(kl.run(late, costs), delta)


@given(
    seed=seeds, delta=st.sampled_from([0.01, 0.3, 0.9]), growth=st.sampled_from([None, 1.5, 8.0])
)
def test_switching_pays_neither_much_more_than_the_advice_nor_the_robust_one(seed, delta, growth):
    rng, demand = draw_game(seed)
    price = 0.4
    steep = price * (growth or 0.3)
    costs = kl.PinballCosts(demand, steep, steep)
    line = kl.Box(-1, 1)
    movement = kl.L1Movement(price)
    x0 = np.array([0.5])
    robust = rng.uniform(-1.0, 1.0, (T, 1)) if rng.random() < 0.5 else demand
    for advice in (
        -demand,
        np.vstack((demand[: T // 2], -demand[T // 2 :])),
        demand * rng.random(),
    ):
        player = AdaptiveSwitching(line, advice, robust, delta, growth=growth)
        paid = pay(player, costs, movement, x0)
        for ratio, decisions in zip(player.ratios, (advice, robust), strict=True):
            own = costs.values(decisions).sum() + movement.paid(decisions, x0).sum()
            assert paid <= ratio * own + 1e-9


def test_an_adversary_makes_switching_pay_nearly_three_times_the_advice():
    """The two walk away from each other, and only the one that is followed moves: changing over undoes all of it."""
    player = AdaptiveSwitching(kl.Box(0, 1), [[0.0]], [[0.0]], 0.2)
    p, q = player.thresholds
    walked = [0.0, 1e-6]
    paths = []
    returns = 0
    has_left = False
    while returns < 3:
        leader = int(has_left)
        walked[leader] += 0.02 * max(walked)
        paths.append([walked[0], -walked[1]])
        if has_left and walked[1] > q * walked[0]:
            has_left = False
            returns += 1
        elif not has_left:
            has_left = walked[0] > p * walked[1]
    paths = np.array(paths)
    line = kl.Box(-1e12, 1e12)
    player = AdaptiveSwitching(line, paths[:, :1], paths[:, 1:], 0.2)
    costs = np.zeros((len(paths), 1))
    paid = pay(player, costs, kl.L1Movement(1.0), [0.0])
    assert 2.5 * walked[0] < paid <= player.ratios[0] * walked[0]
    assert player.ratios[0] == pytest.approx(3.2)


def find_path(costs, points):
    """Find the best sequence on these points from the first of them, where a move costs its length, by dynamic programming."""
    moves = np.abs(points[:, None] - points[None])
    to_come = moves[0]
    came_from = []
    for t in range(1, costs.T + 1):
        if t > 1:
            through = to_come[:, None] + moves
            came_from.append(through.argmin(axis=0))
            to_come = through.min(axis=0)
        to_come = to_come + [costs.value(t, np.array([point])) for point in points]
    at = [int(to_come.argmin())]
    for before in reversed(came_from):
        at.append(int(before[at[-1]]))
    return points[at[::-1]][:, None]


@given(seed=seeds, growth=st.sampled_from([1.2, 4.0]))
def test_switching_never_leaves_advice_that_is_optimal_where_costs_grow_faster_than_moves(
    seed, growth
):
    _, demand = draw_game(seed)
    demand = np.round(2.0 * demand) / 2.0
    costs = kl.PinballCosts(demand, growth, growth)
    line = kl.Box(-1, 1)
    best = find_path(costs, np.array([0.0, -1.0, -0.5, 0.5, 1.0]))
    player = AdaptiveSwitching(line, best, PlayNext(kl.GD(line, 1.0)), 0.05, growth=growth)
    x = run_ahead(player, costs, movement="l1", x0=[0.0]).x
    np.testing.assert_array_equal(x, best)


def test_players_may_be_learners_and_baselines():
    costs = kl.QuadraticCosts(draw_game(3)[1])
    line = kl.Box(-1, 1)
    for player in (LookAheadInterpolation, AdaptiveSwitching):
        made = player(line, kl.GD(line, 1.0), RecedingHorizon(line), delta=0.5)
        x = run_ahead(made, costs, movement="l1").x
        told = run_ahead(PlayNext(kl.GD(line, 1.0)), costs, movement="l1").x
        np.testing.assert_array_equal(x[0], told[0])


REFUSED = {
    "robust must be on the set Box(lower=[-1.0], upper=[1.0]), but is on L2Ball(dim=2).": lambda: (
        LookAheadInterpolation(kl.Box(-1, 1), [[0.0]], OBD(kl.L2Ball(2)))
    ),
    "advice must have shape (3, 1), one row per round, got (2, 1).": lambda: run_ahead(
        AdaptiveSwitching(kl.Box(-1, 1), [[0.0]] * 2, OBD(kl.Box(-1, 1))), np.ones((3, 1))
    ),
    "delta must be below 1, got 2.0. Use delta=0.5.": lambda: AdaptiveSwitching(
        kl.Box(-1, 1), [[0.0]], [[0.0]], 2.0
    ),
    "delta must be above 0, got 0.": lambda: Interpolation(Advice(BOX), kl.GD(BOX, 1.0), "l1", 0),
}


@pytest.mark.parametrize("message", REFUSED)
def test_mistakes_are_rejected(message):
    with pytest.raises(ValueError, match=re.escape(message)):
        REFUSED[message]()
