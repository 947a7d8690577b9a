"""Jobs with a deadline: exact optima, thresholds in balance, and ratios that no prices and no advice exceed."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad

from klazy.contrib import (
    CLIP,
    RORO,
    FollowPlan,
    Job,
    PauseResume,
    RunAtOnce,
    SpreadEvenly,
    best_conversion,
    clip_threshold,
    convert,
    pause_thresholds,
    ramp_threshold,
)

seeds = st.integers(0, 2**16)
highs = st.sampled_from([2.0, 5.0, 20.0, 100.0])
fees = st.sampled_from([0.0, 0.05, 0.3, 1.0, 5.0])
shares = st.sampled_from([1.0, 0.5, 0.25])
SLACK = 1.0 + 1e-7  # what a linear programme may be off


def draw_prices(rng, T, low, high):
    """Draw prices: at random, of three values, or falling, with dips for one round, and then as high as can be."""
    kind = rng.integers(3)
    spread = np.exp(rng.uniform(np.log(low), np.log(high), T))
    if kind == 0:
        return spread
    if kind == 1:
        return rng.choice([low, high, np.sqrt(low * high)], T)
    falling = np.sort(spread)[::-1]
    falling[rng.integers(1, T + 1) :] = high
    falling[rng.integers(0, T, 2)] = low
    return falling


def draw_plan(rng, T, rate):
    """Draw a plan for a job of amount 1, spread or in a few rounds."""
    plan = rng.dirichlet(np.full(T, rng.choice([0.3, 1.0])))
    for _ in range(200):
        over = np.maximum(plan - rate, 0.0).sum()
        room = np.maximum(rate - plan, 0.0)
        plan = np.minimum(plan, rate) + over * room / max(room.sum(), 1e-300)
    return plan


def search_worst(rng, job, T, measure):
    """Change a price or two at a time, as long as the measure grows."""
    prices = draw_prices(rng, T, job.low, job.high)
    worst = measure(prices)
    for _ in range(15):
        other = prices.copy()
        places = rng.integers(0, T, 2)
        other[places] = draw_prices(rng, 2, job.low, job.high)
        found = measure(other)
        if found > worst:
            prices, worst = other, found
    return worst


class TestOptimum:
    @given(seed=seeds, T=st.integers(1, 7), fee=fees)
    def test_whole_rounds_are_as_cheap_as_the_cheapest_of_all_choices(self, seed, T, fee):
        rng = np.random.default_rng(seed)
        k = int(rng.integers(1, T + 1))
        job = Job(1.0, 9.0, amount=0.5 * k, rate=0.5, move_cost=fee, whole=True)
        prices = rng.uniform(1.0, 9.0, T)
        choices = [0.5 * np.array(x) for x in itertools.product((0, 1), repeat=T) if sum(x) == k]
        best = best_conversion(job, prices)
        assert best.x.sum() == job.amount
        assert best.cost == pytest.approx(min(job.cost(prices, x).cost for x in choices))

    @given(seed=seeds, T=st.integers(2, 12), fee=fees, share=shares)
    def test_amounts_are_as_cheap_as_cvxpy_finds_them(self, seed, T, fee, share):
        cp = pytest.importorskip("cvxpy")
        job = Job(1.0, 9.0, amount=2.0, rate=2.0 * max(share, 1.0 / T), move_cost=fee)
        prices = np.random.default_rng(seed).uniform(1.0, 9.0, T)
        x = cp.Variable(T)
        path = cp.hstack([0.0, x, 0.0])
        cost = prices @ x + fee * cp.norm1(cp.diff(path))
        rules = [x >= 0.0, x <= job.rate, cp.sum(x) == job.amount]
        known = cp.Problem(cp.Minimize(cost), rules).solve(solver="CLARABEL")
        assert best_conversion(job, prices).cost == pytest.approx(known, rel=1e-6)


class TestThresholds:
    @given(high=highs, fee=fees)
    def test_what_one_round_can_do_is_in_balance(self, high, fee):
        """Whoever stops at z has paid at most alpha Y(z), and the optimum at least Y(z)."""
        known = ramp_threshold(Job(1.0, high, move_cost=fee))
        for z in (0.0, 0.3, 0.8, 1.0):
            paid = quad(known.price, 0.0, z)[0] + fee * z + (high + 2.0 * fee) * (1.0 - z)
            assert paid == pytest.approx(known.ratio * (known.price(z) - fee))
        assert known.price(1.0) - fee == pytest.approx(1.0)

    @given(high=highs, fee=fees, share=st.sampled_from([0.9, 0.5, 0.1]))
    def test_slower_jobs_are_in_balance_with_the_rounds_that_the_optimum_shares(
        self, high, fee, share
    ):
        known = ramp_threshold(Job(1.0, high, move_cost=fee, rate=share))
        if known.drop == 0.0:
            assert known.ratio == RunAtOnce(Job(1.0, high, move_cost=fee, rate=share)).ratio
            return
        for z in (0.0, 0.3, 0.8, 1.0):
            gap = known.price(z) - fee - 1.0
            moves = min(2.0 * fee * (1.0 - z), 2.0 * fee * share)
            paid = quad(known.price, 0.0, z)[0] + fee * z + high * (1.0 - z) + moves
            shared = paid + (known.ratio - 1.0) * z * gap
            assert shared <= known.ratio * (1.0 + gap) * (1.0 + 1e-9)
        assert known.price(1.0) - fee == pytest.approx(1.0)

    @given(high=highs, fee=fees, share=shares)
    def test_shares_are_the_inverse_of_prices(self, high, fee, share):
        known = ramp_threshold(Job(1.0, high, move_cost=fee, rate=share))
        if known.drop > 0.0:
            for w in (0.0, 0.2, 0.9, 1.0):
                assert known.share(float(known.price(w))) == pytest.approx(w)

    def test_without_fees_it_is_one_way_trading(self):
        """The ratio of El-Yaniv et al. for buying solves (1 - 1/theta) = (1 - 1/a) e^(1/a)."""
        a = ramp_threshold(Job(1.0, 25.0)).ratio
        assert (1.0 - 1.0 / a) * np.exp(1.0 / a) == pytest.approx(1.0 - 1.0 / 25.0)
        ratio, prices = pause_thresholds(Job(4.0, 25.0, rate=1.0, whole=True))
        assert (ratio, prices.tolist()) == (pytest.approx(2.5), [pytest.approx(10.0)])

    def test_a_dip_of_one_round_exceeds_thresholds_that_do_not_share_it(self):
        """The closed form for k-min search has prices 1 and 0.75, and ratio 2, for k = 2 and prices from 7/16 to 2."""
        job = Job(7 / 16, 2.0, amount=2.0, rate=1.0, whole=True)
        prices = np.array([7 / 16, 0.7501, 2.0, 2.0])
        paid = job.cost(prices, [1.0, 0.0, 0.0, 1.0]).cost
        best = best_conversion(job, prices).cost
        assert paid / best > 2.05
        assert convert(PauseResume(job), prices).cost / best < 2.05 < PauseResume(job).ratio

    def test_advice_has_a_ratio_of_its_own_only_where_one_is_known(self):
        plan = [0.5, 0.5]
        job = Job(1.0, 10.0)
        assert CLIP(job, plan, 1.0).ratio == clip_threshold(job, 1.0).ratio < 10.0
        assert CLIP(job.replace(move_cost=2.0), plan, 1.0).ratio == 14.0
        assert CLIP(job.replace(rate=0.5), plan, 1.0).ratio == 10.0
        whole = Job(1.0, 10.0, rate=0.5, move_cost=1.0, whole=True)
        assert FollowPlan(whole, plan).ratio == 12.0 / 2.0
        assert RunAtOnce(whole).ratio == 11.0 / 2.0

    @given(high=highs, fee=fees)
    def test_a_larger_knob_is_a_smaller_ratio(self, high, fee):
        job = Job(1.0, high, move_cost=fee)
        found = [clip_threshold(job, epsilon).ratio for epsilon in (1e-6, 0.1, 1.0, 10.0, 1000.0)]
        assert (np.diff(found) <= 1e-9).all()
        assert found[-1] == pytest.approx(ramp_threshold(job).ratio)
        assert found[0] <= (high + 2.0 * fee) * (1.0 + 1e-3)


class TestRatios:
    @given(seed=seeds, high=highs, fee=fees, share=shares, T=st.integers(4, 12))
    def test_ramps_stay_within_theirs(self, seed, high, fee, share, T):
        job = Job(1.0, high, rate=share, move_cost=fee)
        plan = draw_plan(np.random.default_rng(seed), T, share)
        for rule in (RORO(job), RunAtOnce(job), SpreadEvenly(job), FollowPlan(job, plan)):
            worst = search_worst(
                np.random.default_rng(seed), job, T,
                lambda prices, rule=rule: convert(rule, prices).cost / best_conversion(job, prices).cost,
            )  # fmt: skip
            assert worst <= rule.ratio * SLACK

    @given(seed=seeds, high=highs, fee=fees, k=st.integers(1, 5), T=st.integers(5, 12))
    def test_pauses_stay_within_theirs(self, seed, high, fee, k, T):
        job = Job(1.0, high, amount=float(k), rate=1.0, move_cost=fee, whole=True)
        for rule in (PauseResume(job), RunAtOnce(job), SpreadEvenly(job)):
            worst = search_worst(
                np.random.default_rng(seed), job, T,
                lambda prices, rule=rule: convert(rule, prices).cost / best_conversion(job, prices).cost,
            )  # fmt: skip
            assert worst <= rule.ratio * SLACK

    @given(
        seed=seeds,
        high=highs,
        fee=fees,
        share=shares,
        epsilon=st.sampled_from([0.05, 0.5, 3.0]),
        T=st.integers(4, 10),
    )
    def test_clip_pays_at_most_what_its_knob_says_more_than_any_plan(
        self, seed, high, fee, share, epsilon, T
    ):
        rng = np.random.default_rng(seed)
        job = Job(1.0, high, rate=share, move_cost=fee)
        plan = draw_plan(rng, T, share)
        rule = CLIP(job, plan, epsilon)

        def exceed_plan(prices):
            return convert(rule, prices).cost / job.cost(prices, plan).cost

        def exceed_best(prices):
            return convert(rule, prices).cost / best_conversion(job, prices).cost

        assert search_worst(rng, job, T, exceed_plan) <= (1.0 + epsilon) * SLACK
        assert search_worst(rng, job, T, exceed_best) <= rule.ratio * SLACK

    def test_clip_counts_the_start_that_a_running_plan_has_paid_for(self):
        """While a plan runs it may wait only if it can also pay for a start of its own, later."""
        job = Job(1.0, 2.0, rate=0.5, move_cost=1.0)
        plan = [0.0, 0.0, 0.0, 0.5, 0.5, 0.0, 0.0]
        prices = [1.0, 1.0, 1.436, 1.0, 1.0, 2.0, 2.0]
        paid = convert(CLIP(job, plan, 0.2), prices).cost
        assert paid <= 1.2 * job.cost(prices, plan).cost * SLACK

    @pytest.mark.parametrize(("high", "proved"), [(5.0, 1.893), (50.0, 5.326)])
    def test_falling_prices_that_jump_reach_the_ratio(self, high, proved):
        """The worst path of the theory falls to its low and jumps to the highest price when the rule has just bought."""
        job = Job(1.0, high)
        rule = RORO(job)
        falling = np.linspace(high / rule.ratio, 1.0, 400)
        ratios = []
        for stop in range(20, 400, 20):
            prices = np.append(falling[:stop], high)
            ratios.append(convert(rule, prices).cost / prices.min())
        assert rule.ratio == pytest.approx(proved, abs=1e-3)
        assert 0.98 * rule.ratio < max(ratios) <= rule.ratio
        assert 0.98 * rule.ratio < min(
            ratios
        )  # The prices of the threshold make all of them equal.


class TestRun:
    @given(seed=seeds, fee=fees, share=shares, T=st.integers(4, 15))
    def test_every_rule_meets_the_deadline_within_its_rate(self, seed, fee, share, T):
        rng = np.random.default_rng(seed)
        job = Job(1.0, 9.0, amount=3.0, rate=3.0 * share, move_cost=fee)
        whole = job.replace(whole=True)
        prices = draw_prices(rng, T, 1.0, 9.0)
        plan = 3.0 * draw_plan(rng, T, share)
        rules = [RORO(job), CLIP(job, plan), FollowPlan(job, plan), PauseResume(whole)]
        rules += [kind(each) for kind in (RunAtOnce, SpreadEvenly) for each in (job, whole)]
        for rule in rules:
            found = convert(rule, prices)
            assert found.x.sum() == pytest.approx(3.0)
            assert found.x.min() >= 0.0
            assert found.x.max() <= job.rate * (1.0 + 1e-12)
            if rule.job.whole:
                assert set(found.x) <= {0.0, job.rate}

    @given(seed=seeds, fee=fees, share=shares)
    def test_it_adds_up_what_it_pays(self, seed, fee, share):
        rng = np.random.default_rng(seed)
        job = Job(1.0, 9.0, rate=share, move_cost=fee)
        run = CLIP(job, draw_plan(rng, 6, share)).start(6)
        prices = draw_prices(rng, 6, 1.0, 9.0)
        for price in prices.tolist():
            run.decide(price)
        assert run.paid + fee * run.held == pytest.approx(job.cost(prices, run.x).cost)

    def test_it_decides_round_by_round_as_on_all_prices(self):
        prices = [5.0, 2.0, 7.0, 3.0]
        rule = RORO(Job(1.0, 9.0, rate=0.5, move_cost=0.3))
        run = rule.start(4)
        assert [run.decide(price) for price in prices] == convert(rule, prices).x.tolist()
        with pytest.raises(ValueError, match=r"The deadline was round 4. Start another job."):
            run.decide(1.0)

    @given(seed=seeds, fee=fees)
    def test_the_response_is_the_least_of_its_objective(self, seed, fee):
        rng = np.random.default_rng(seed)
        rule = RORO(Job(1.0, 9.0, rate=0.6, move_cost=fee))
        run = rule.start(5)
        for price in rng.uniform(1.0, 6.0, 4).tolist():
            held, done, room = run.held, run.done, run.room
            grid = np.linspace(0.0, room, 41)
            worth = [quad(rule.threshold.price, done, done + x)[0] for x in grid]
            values = price * grid + fee * np.abs(grid - held) - worth
            x = rule.choose(run, price)
            own = quad(rule.threshold.price, done, done + x)[0]
            assert price * x + fee * abs(x - held) - own <= values.min() + 1e-9
            run.decide(price)


def test_bad_jobs_are_rejected_in_words():
    for wrong, message in [
        (lambda: Job(2.0, 1.0), r"high must be at least low, 2, got 1."),
        (lambda: Job(0.0, 1.0), r"low must be above 0.*Ratios need prices above zero"),
        (
            lambda: Job(1.0, 2.0, amount=5.0, rate=2.0, whole=True),
            r"must be a multiple of rate=2, got 5",
        ),
        (lambda: RORO(Job(1.0, 2.0, whole=True)), r"PauseResume is the rule for those"),
        (lambda: PauseResume(Job(1.0, 2.0)), r"job must be in whole rounds"),
        (lambda: FollowPlan(Job(1.0, 2.0), [0.5]), r"plan must sum to amount=1, got 0.5"),
        (lambda: FollowPlan(Job(1.0, 2.0), [2.0, -1.0]), r"plan must be between 0 and rate=1"),
        (
            lambda: convert(FollowPlan(Job(1.0, 2.0), [1.0]), [1.0, 1.0]),
            r"plan must have 2 rounds",
        ),
        (
            lambda: convert(RORO(Job(1.0, 2.0, rate=0.3)), [1.0, 1.0]),
            r"takes 4 rounds, but its deadline is 2",
        ),
    ]:
        with pytest.raises(ValueError, match=message):
            wrong()
