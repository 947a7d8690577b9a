"""Competitive ratios of baselines that look ahead: none is exceeded, by random games and by those that hurt most."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import klazy as kl
from klazy.contrib import (
    GOBD,
    OBD,
    ROBD,
    AsymmetricMovement,
    LazyBudgeting,
    RandomizedCapacity,
    SquaredMovement,
    budgeting_ratio,
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


def draw_loads(rng, T, shape):
    """What idle servers cost, and a cost that does not rise with the number of servers: by round, and at every point."""
    idle = rng.choice([0.0, 0.1, 1.0, 3.0], (T, len(shape))) * rng.uniform(0.5, 1.0, (T, 1))
    load = rng.choice([0.0, 0.0, 0.3, 2.0, 20.0], (T, *shape))
    for axis in range(1, load.ndim):
        load = np.flip(np.maximum.accumulate(np.flip(load, axis), axis), axis)
    points = np.stack(np.meshgrid(*map(np.arange, shape), indexing="ij"), axis=-1)
    return idle, np.einsum("...k,tk->t...", points, idle) + load


def make_costs(table):
    d = table.ndim - 1
    return kl.CallableCosts(
        len(table),
        d,
        lambda t, x: float(table[(t - 1, *x.astype(int))]),
        lambda t, x: np.zeros(d),
    )


class TestLazyBudgeting:
    @given(
        seed=seeds, T=st.integers(1, 15), shape=st.sampled_from([(2,), (5,), (2, 2), (4, 3), (2, 3, 2)]),
        down=st.sampled_from([0.0, 0.5]),
    )  # fmt: skip
    def test_it_pays_at_most_2d_plus_1_times_the_optimum(self, seed, T, shape, down):
        rng = np.random.default_rng(seed)
        _, table = draw_loads(rng, T, shape)
        d = len(shape)
        domain = kl.Box(np.zeros(d), np.array(shape) - 1.0)
        prices = rng.choice([0.0, 0.3, 1.0, 8.0], d)
        movement = AsymmetricMovement(up=(1.0 - down) * prices, down=down * prices)
        costs = make_costs(table)
        x0 = np.zeros(d)
        trace = run_ahead(LazyBudgeting(domain), costs, movement=movement, x0=x0)
        best = kl.offline_optimum(costs, domain, movement, x0=x0, integers=True)
        # Both come back to the bottom in the end.
        paid = trace.totals.cost + movement.distance(-trace.x[-1])
        least = best.cost + movement.distance(-best.u[-1])
        assert paid <= budgeting_ratio(d) * least + 1e-9

    @pytest.mark.parametrize(("d", "least"), [(1, 2.5), (2, 3.7)])
    def test_an_adversary_comes_near(self, d, least):
        """Every round charges a little for having no server on, until one is; the kinds cost less the longer one keeps them."""
        idle = 0.05 * 0.25 ** np.arange(d)
        domain = kl.Box(np.zeros(d), np.ones(d))
        movement = AsymmetricMovement(up=2.0 ** np.arange(d), down=0.0)
        points = np.stack(np.meshgrid(*[np.arange(2)] * d, indexing="ij"), axis=-1)
        needed = 0.5 * (points.sum(axis=-1) == 0)
        table = [points @ idle + needed]
        for _ in range(200):
            costs = make_costs(np.array(table))
            trace = run_ahead(LazyBudgeting(domain), costs, movement=movement, x0=np.zeros(d))
            table.append(points @ idle + needed * (not trace.x[-1].any()))
        best = kl.offline_optimum(costs, domain, movement, x0=np.zeros(d), integers=True)
        assert least < trace.totals.cost / best.cost <= budgeting_ratio(d)

    @given(seed=seeds)
    def test_it_plays_the_rule_of_the_definition(self, seed):
        """Servers are counted one by one, and plans are the best of all sequences."""
        rng = np.random.default_rng(seed)
        T = 5
        _, table = draw_loads(rng, T, (2, 3))
        table = table + rng.uniform(0.0, 1e-3, T)[:, None, None] * [
            [3.0, 2.0, 1.0],
            [2.0, 1.1, 0.0],
        ]
        prices = rng.choice([0.3, 1.0, 3.0], 2)
        costs = make_costs(table)
        movement = AsymmetricMovement(up=prices, down=0.0)
        domain = kl.Box([0, 0], [1, 2])
        trace = run_ahead(LazyBudgeting(domain), costs, movement=movement, x0=[1.0, 0.0])
        every = np.array(list(np.ndindex(2, 3)))
        paths = every[np.stack(np.meshgrid(*[np.arange(6)] * T), axis=-1).reshape(-1, T)]
        rises = np.maximum(
            np.diff(paths, axis=1, prepend=np.tile([[[1, 0]]], (len(paths), 1, 1))), 0
        )
        paid = rises @ prices + table[np.arange(T), paths[..., 0], paths[..., 1]]
        on = [[0], []]  # for each server of each kind, the round in which it was switched on
        idle = [np.maximum(np.diff(table, axis=1).max(axis=(1, 2)), 0.0)]
        idle.append(np.maximum(np.diff(table, axis=2).max(axis=(1, 2)), 0.0))
        for t in range(1, T + 1):
            sums = paid[:, :t].sum(axis=1)
            plans = {tuple(plan) for plan in paths[sums <= sums.min() + 1e-12, t - 1].tolist()}
            for k in range(2):
                on[k] = [s for s in on[k] if idle[k][s:t].sum() <= prices[k] + 1e-12]
            follows = [
                [on[k] + [t] * (plan[k] - len(on[k])) for k in range(2)] for plan in sorted(plans)
            ]
            played = trace.x[t - 1].astype(int).tolist()
            fits = [servers for servers in follows if [len(each) for each in servers] == played]
            assert fits
            on = fits[0]
            if len(plans) > 1:
                return  # several plans are best, and the rule may go on from any

    def test_infinite_costs_are_demands_that_must_be_met(self):
        demand = [3.0, 0.0, 2.0]
        costs = kl.CallableCosts(
            3,
            2,
            lambda t, x: float(x @ [1.0, 1.5]) if x @ [1.0, 2.0] >= demand[t - 1] else np.inf,
            lambda t, x: np.zeros(2),
        )
        movement = AsymmetricMovement(up=[2.0, 3.0], down=0.0)
        domain = kl.Box([0, 0], [3, 1])
        trace = run_ahead(LazyBudgeting(domain), costs, movement=movement, x0=[0.0, 0.0])
        best = kl.offline_optimum(costs, domain, movement, x0=[0.0, 0.0], integers=True)
        assert best.cost <= trace.totals.cost <= budgeting_ratio(2) * best.cost
        assert (trace.x @ [1.0, 2.0] >= demand).all()

    def test_servers_that_run_already_and_a_box_that_begins_higher_are_taken_as_they_are(self):
        """What must always run changes nothing but the cost."""
        _, table = draw_loads(np.random.default_rng(3), 12, (3, 3))
        movement = AsymmetricMovement(up=[1.0, 2.0], down=0.0)
        low = run_ahead(
            LazyBudgeting(kl.Box([0, 0], [2, 2])), make_costs(table), movement=movement, x0=[1, 2]
        )
        costs = make_costs(np.pad(table, ((0, 0), (4, 0), (1, 0)), constant_values=np.nan))
        high = run_ahead(
            LazyBudgeting(kl.Box([3.5, 1], [6, 3])), costs, movement=movement, x0=[5, 3]
        )
        assert np.array_equal(high.x - low.x, np.tile([4.0, 1.0], (12, 1)))

    @pytest.mark.parametrize(
        ("play", "message"),
        [
            (
                lambda: run_ahead(LazyBudgeting(kl.Box(0, 4)), kl.PinballCosts([[1.0]]), movement="l1"),
                "costs must be at least what idle servers cost, [1.0] each, but in round 1 all of [4.0] cost 3. Add what "
                "servers cost that run, or use LazyCapacity.",
            ),
            (
                lambda: run_ahead(
                    LazyBudgeting(kl.Box(0, 4)), [[1.0]], movement="l1", x0=[0.5]
                ),
                "x0 must be whole numbers of the box, got [0.5].",
            ),
            (
                lambda: run_ahead(LazyBudgeting(kl.Box([0, 0], [4, 4])), [[1.0, 1.0]], movement="l2"),
                "movement must charge by coordinate",
            ),
            (lambda: LazyBudgeting(kl.L2Ball(2)), "domain must be a Box"),
            (lambda: budgeting_ratio(0), "kinds must be an integer of at least 1, got 0"),
        ],
    )  # fmt: skip
    def test_what_it_cannot_play_is_rejected(self, play, message):
        with pytest.raises(ValueError, match=re.escape(message)):
            play()


def test_pulls_and_starts_that_are_not_covered_are_rejected():
    with pytest.raises(ValueError, match=r"stay must be at most the move cost, 1.0, got 2.0."):
        robd_ratio(1.0, 1.0, stay=2.0)
    with pytest.raises(ValueError, match=r"x0 must be a whole number of the box, got 0.5."):
        run_ahead(
            RandomizedCapacity(kl.Box(0, 2)), kl.PinballCosts([[1.0]]), movement="l1", x0=[0.5]
        )
