"""Competitive ratios of baselines that look ahead: none is exceeded, by random games and by those that hurt most."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import klazy as kl
from klazy.contrib import (
    GOBD,
    OBD,
    ROBD,
    RandomizedCapacity,
    SquaredMovement,
    greedy_ratio,
    robd_pulls,
    robd_ratio,
    run_ahead,
)

seeds = st.integers(0, 2**16)
prices = st.sampled_from([0.1, 1.0, 7.0])


def draw_targets(seed, T, d):
    """Targets that stay for some rounds, and then jump: both moving and staying are paid for."""
    rng = np.random.default_rng(seed)
    return np.repeat(rng.choice([-1.0, 0.0, 1.0], (T, d)), rng.integers(1, 4, T), axis=0)[:T]


def pay(player, costs, movement, x0):
    return run_ahead(player, costs, movement=movement, x0=x0).totals.cost


@given(seed=seeds, price=prices, squared=st.booleans())
def test_greedy_stays_within_its_ratio(seed, price, squared):
    targets = draw_targets(seed, 12, 2)
    domain = kl.Box([-1.0, -1.0], [1.0, 1.0])
    if squared:
        costs = kl.QuadraticCosts(targets)
        movement = SquaredMovement(price)
    else:
        costs = kl.PinballCosts(targets)
        movement = kl.L1Movement(price)
    optimum = kl.offline_optimum(costs, domain, movement, x0=[0.0, 0.0], gap=1e-6)
    paid = pay(GOBD(domain, greed=1.0), costs, movement, [0.0, 0.0])
    # The minimisers are found to a millionth.
    assert paid <= greedy_ratio(1.0, price, squared=squared) * optimum.cost + 1e-4


def test_greedy_reaches_its_ratio_for_norms():
    """A cost that is light beside the price of moving, and changes sides in every round."""
    targets = np.tile([[1.0], [-1.0]], (200, 1))
    movement = kl.L1Movement(5.0)
    line = kl.Box(-1.0, 1.0)
    costs = kl.PinballCosts(targets)
    optimum = kl.offline_optimum(costs, line, movement, x0=[0.0])
    paid = pay(GOBD(line, greed=1.0), costs, movement, [0.0])
    assert 0.95 * greedy_ratio(1.0, 5.0) < paid / optimum.cost <= greedy_ratio(1.0, 5.0)


@given(
    seed=seeds,
    price=prices,
    share=st.sampled_from([0.2, 1.0]),
    follow=st.sampled_from([0.0, 0.5, 3.0]),
)
def test_regularised_descent_stays_within_its_ratio(seed, price, share, follow):
    domain = kl.L2Ball(2, 2.0)
    costs = kl.QuadraticCosts(draw_targets(seed, 12, 2))
    movement = SquaredMovement(price)
    optimum = kl.offline_optimum(costs, domain, movement, x0=[0.0, 0.0], gap=1e-6)
    for stay, pull in ((share * price, follow), robd_pulls(1.0, price)):
        paid = pay(ROBD(domain, stay, pull), costs, movement, [0.0, 0.0])
        assert paid <= robd_ratio(1.0, price, stay, pull) * optimum.cost + 1e-4


@given(
    growth=st.floats(0.01, 100.0),
    price=prices,
    share=st.floats(0.01, 1.0),
    follow=st.floats(0.0, 50.0),
)
def test_no_other_pulls_have_a_smaller_ratio(growth, price, share, follow):
    best = robd_ratio(growth, price, *robd_pulls(growth, price))
    assert best == pytest.approx(0.5 * (1.0 + np.sqrt(1.0 + 4.0 * price / growth)))
    assert robd_ratio(growth, price, share * price, follow) >= best * (1.0 - 1e-12)


@given(seed=seeds, price=prices, steep=st.sampled_from([0.1, 1.0]))
def test_the_memoryless_rule_pays_at_most_three_times_the_optimum(seed, price, steep):
    line = kl.Box(-1.0, 1.0)
    costs = kl.PinballCosts(draw_targets(seed, 15, 1), steep, steep)
    movement = kl.L1Movement(price)
    optimum = kl.offline_optimum(costs, line, movement, x0=[0.0])
    assert pay(OBD(line, balance=0.5), costs, movement, [0.0]) <= 3.0 * optimum.cost + 1e-4


class TestRandomizedCapacity:
    @given(
        seed=seeds, price=prices, top=st.integers(1, 6), T=st.integers(1, 30), quadratic=st.booleans(),
        start=st.integers(0, 6),
    )  # fmt: skip
    def test_it_pays_at_most_twice_the_optimum(self, seed, price, top, T, quadratic, start):
        rng = np.random.default_rng(seed)
        demand = rng.integers(0, top + 1, (T, 1)).astype(float)
        costs = (
            kl.QuadraticCosts(demand)
            if quadratic
            else kl.PinballCosts(demand, *rng.choice([0.1, 1.0, 5.0], 2))
        )
        domain = kl.Box(0.0, float(top))
        movement = kl.L1Movement(price)
        x0 = [float(min(start, top))]
        best = kl.offline_optimum(costs, domain, movement, x0=x0, integers=True)
        assert pay(RandomizedCapacity(domain), costs, movement, x0) <= 2.0 * best.cost + 1e-9

    def test_an_adversary_comes_near_two(self):
        """Every round charges a little where most of the probability is."""
        line = kl.Box(0.0, 1.0)
        movement = kl.L1Movement(1.0)
        targets = [[1.0]]
        for _ in range(400):
            at = run_ahead(
                RandomizedCapacity(line),
                kl.PinballCosts(targets, 0.02, 0.02),
                movement=movement,
                x0=[0.0],
            ).x
            targets.append([float(at[-1, 0] < 0.5)])
        costs = kl.PinballCosts(targets, 0.02, 0.02)
        best = kl.offline_optimum(costs, line, movement, x0=[0.0], integers=True)
        assert 1.5 < pay(RandomizedCapacity(line), costs, movement, [0.0]) / best.cost <= 2.0

    def test_draws_are_whole_numbers_that_pay_on_average_what_is_proved(self):
        demand = np.random.default_rng(5).integers(0, 5, (40, 1)).astype(float)
        costs = kl.PinballCosts(demand, 1.0, 0.5)
        domain = kl.Box(0.0, 4.0)
        movement = kl.L1Movement(2.0)
        best = kl.offline_optimum(costs, domain, movement, x0=[0.0], integers=True)
        traces = [
            run_ahead(RandomizedCapacity(domain, seed), costs, movement=movement, x0=[0.0])
            for seed in range(200)
        ]
        assert all((trace.x == np.rint(trace.x)).all() for trace in traces)
        paid = np.array([trace.totals.cost for trace in traces])
        mean = pay(RandomizedCapacity(domain), costs, movement, [0.0])
        # What the mean pays is at most the average over draws, of which these are 200.
        error = 3.0 * paid.std() / np.sqrt(len(paid))
        assert mean - error <= paid.mean() <= 2.0 * best.cost + error

    @given(
        seed=seeds, price=prices, top=st.integers(0, 6), quadratic=st.booleans(), start=st.integers(0, 6),
        draw=st.integers(0, 50),
    )  # fmt: skip
    def test_draws_are_those_of_the_randomly_biased_greedy_rule(
        self, seed, price, top, quadratic, start, draw
    ):
        """It minimises the work function plus a line of one random slope (Andrew and others, 2013)."""
        rng = np.random.default_rng(seed)
        demand = rng.uniform(0.0, top, (20, 1))
        costs = kl.QuadraticCosts(demand) if quadratic else kl.PinballCosts(demand, 1.0, 0.3)
        domain = kl.Box(0.0, float(top))
        x0 = [float(min(start, top))]
        player = RandomizedCapacity(domain, draw)
        drawn = run_ahead(player, costs, movement=kl.L1Movement(price), x0=x0).x[:, 0]
        slope = price * (1.0 - 2.0 * np.random.default_rng(draw).random())
        x = np.arange(top + 1.0)
        moves = price * np.abs(x - x[:, None])
        work = moves[int(x0[0])]
        for t in range(20):
            served = np.array([costs.value(t + 1, np.array([at])) for at in x])
            work = (moves + work + served).min(axis=1)
            biased = work + slope * x
            # Where two points are equally good up to rounding, either may be played.
            assert biased[int(drawn[t])] == pytest.approx(biased.min(), rel=1e-9, abs=1e-9)


def test_pulls_and_starts_that_are_not_covered_are_rejected():
    with pytest.raises(ValueError, match=r"stay must be at most the move cost, 1.0, got 2.0."):
        robd_ratio(1.0, 1.0, stay=2.0)
    with pytest.raises(ValueError, match=r"x0 must be a whole number of the box, got 0.5."):
        run_ahead(
            RandomizedCapacity(kl.Box(0, 2)), kl.PinballCosts([[1.0]]), movement="l1", x0=[0.5]
        )
