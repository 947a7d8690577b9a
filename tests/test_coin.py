"""Sets without bounds, and coin betting on them."""

import re
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import klazy as kl
from cases import LEARNERS, UNBOUNDED, evaluated, gradients
from klazy.contrib import coin_betting_bound
from klazy.movement import as_movement
from klazy.theory import certify
from test_sets import constraints

seeds = st.integers(0, 2**16)
TEXT: Any = "a"


def played(learner, g):
    states = [learner.init()]
    for row in g:
        states.append(learner.step(states[-1], row))
    return np.array([state.x for state in states])


@given(
    domain=st.sampled_from(
        [
            kl.contrib.Space(3),
            kl.L2Ball(3, 1e6),
            kl.L2Ball(3, 0.5),
            kl.Simplex(3),
            kl.L1Ball(3, 4.0),
        ]
    ),
    seed=seeds,
    drift=st.floats(0.0, 3.0),
    wealth=st.floats(0.01, 100.0),
    distance=st.floats(0.01, 1e4),
)
def test_betting_costs_no_more_than_its_bound(domain, seed, drift, wealth, distance):
    """Against the comparator that is best at its distance; on a set, against the nearest point of the set."""
    rng = np.random.default_rng(seed)
    g = rng.normal(size=(60, 3)) + drift * rng.normal(size=3)
    G = float(np.linalg.norm(g, axis=1).max())
    x = played(kl.contrib.CoinBetting(domain, G, wealth=wealth), g)[:-1]
    u = domain.project(domain.start - distance * g.sum(axis=0) / np.linalg.norm(g.sum(axis=0)))
    away = float(np.linalg.norm(u - domain.start))
    assert (g * (x - u)).sum() <= coin_betting_bound(60, G, away, wealth) * (1.0 + 1e-12)


def drifting(seed, T):
    """Random gradients with a drift of their own, told beforehand."""
    rng = np.random.default_rng(seed)
    g = rng.normal(size=(T, 3)) + 3.0 * rng.random() * rng.normal(size=3)
    g /= np.linalg.norm(g, axis=1).max()
    return lambda t, x: g[t]


def luring(seed, T):
    """An adversary: it draws the player away until it has gone some distance, and then calls it back, and so on."""
    rng = np.random.default_rng(seed)
    goal = rng.normal(size=3)
    goal /= np.linalg.norm(goal)
    far = 10.0 ** rng.uniform(-3.0, 3.0)
    back = [False]

    def answer(t, x):
        along = float(goal @ x)
        back[0] = along > far or (back[0] and along > 0.1 * far)
        return goal if back[0] else -goal

    return answer


def distant(seed, T):
    """The distance to a point far away, whose gradients turn round there."""
    goal = 10.0 ** np.random.default_rng(seed).uniform(-2.0, 3.0) * np.array([0.6, 0.0, 0.8])
    return lambda t, x: (x - goal) / max(float(np.linalg.norm(x - goal)), 1e-9)


GAMES = (drifting, luring, distant)
MOVES = {
    "l2": 1.0,
    "l1": 3.0**0.5,
    "tv": 0.5 * 3.0**0.5,
}  # the most that a step of length 1 costs


@given(
    domain=st.sampled_from(
        [
            kl.contrib.Space(3),
            kl.Polytope([[1.0, -2.0, 1.0]], [0.4]),
            kl.L2Ball(3, 1e6),
            kl.L2Ball(3, 0.5, [1.0, 0.0, 2.0]),
            kl.Simplex(3),
        ]
    ),
    game=st.sampled_from(GAMES),
    move=st.sampled_from(sorted(MOVES)),
    price=st.floats(0.0, 100.0),
    wealth=st.floats(0.01, 100.0),
    distance=st.floats(0.01, 1e4),
    seed=seeds,
)
def test_what_a_bettor_pays_for_moving_is_in_its_bound(
    domain, game, move, price, wealth, distance, seed
):
    """The prices of single rounds may be lower than the usual one, which it is made for."""
    T, G = 200, 2.0
    rng = np.random.default_rng(seed)
    factors = rng.random(T) if seed % 2 else np.ones(T)
    movement = as_movement(move).reprice(price)
    bettor = kl.contrib.CoinBetting(domain, G, wealth=wealth, movement=movement)
    answer, state = game(seed, T), bettor.init()
    x, g, paid = [], [], 0.0
    for t in range(T):
        x.append(state.x)
        g.append(G * answer(t, state.x))
        state = bettor.reprice(float(factors[t])).step(state, g[-1])
        if t + 1 < T:
            paid += factors[t] * price * float(movement.distance(state.x - x[-1]))
    total = np.sum(g, axis=0)
    u = domain.project(domain.start - distance * total / max(np.linalg.norm(total), 1e-9))
    away = float(np.linalg.norm(u - domain.start))
    bound = coin_betting_bound(T, G, away, wealth, move_cost=price * MOVES[move])
    size = float(np.abs(x).max()) * T
    assert np.vecdot(g, x - u).sum() + paid <= bound + 1e-12 * size


def test_a_bettor_s_regret_grows_with_the_root_of_the_price():
    T, far = 8000, 3.0
    costs = distance_to_three(T)
    paid = []
    prices = [1.0, 4.0, 16.0, 64.0]
    for price in prices:
        bettor = kl.contrib.CoinBetting(kl.contrib.Space(1), 1.0, movement=kl.L2Movement(price))
        paid.append(kl.run(bettor, costs, engine="step").totals.cost)
        assert paid[-1] <= coin_betting_bound(T, 1.0, far, move_cost=price)
    exponent = np.polyfit(np.log(prices), np.log(paid), 1)[0]
    assert 0.4 <= exponent <= 0.85


@given(seed=seeds, factor=st.floats(1.0, 1e6))
def test_no_price_makes_a_bettor_bankrupt(seed, factor):
    """Above the usual price nothing is proved, but it goes on."""
    bettor = kl.contrib.CoinBetting(kl.contrib.Space(3), 1.0, movement=kl.L2Movement(2.0))
    dear, answer, state = bettor.reprice(factor), luring(seed, 60), bettor.init()
    for t in range(60):
        state = (dear if t % 3 == 0 else bettor).step(state, answer(t, state.x))
        assert state.wealth > 0.0


def test_a_price_of_moving_is_told_by_runs_and_charged_by_default():
    g = gradients(0, 30, 2, 3.0)
    bettor = kl.contrib.CoinBetting(kl.L2Ball(2, 50.0), 3.0, movement=kl.L2Movement(0.7))
    assert bettor.usual_price == 0.7
    assert kl.run(bettor, g).movement == kl.L2Movement(0.7)
    told = kl.run(bettor, g, movement=kl.L2Movement(np.linspace(0.0, 0.7, 30)))
    assert told.state.wealth > kl.run(bettor, g).state.wealth
    free = kl.contrib.CoinBetting(kl.L2Ball(2, 50.0), 3.0)
    assert free.usual_price is None


@given(seed=seeds, start=st.floats(-5.0, 5.0))
def test_a_set_that_is_never_left_changes_nothing(seed, start):
    g = gradients(seed, 20, 2)
    free = played(kl.contrib.CoinBetting(kl.contrib.Space(2), 5.0, start=[start, 0.0]), g)
    ball = played(kl.contrib.CoinBetting(kl.L2Ball(2, 1e30), 5.0, start=[start, 0.0]), g)
    np.testing.assert_array_equal(free, ball)


@given(
    seed=seeds,
    domain=st.sampled_from([kl.L2Ball(3, 0.5), kl.Simplex(3), kl.Box(-np.ones(3), np.ones(3))]),
)
def test_what_a_bet_is_told_costs_it_at_least_what_the_point_costs(seed, domain):
    """Beside every point of the set, and no coin is longer than 1: so the bettor's bound holds for the points played."""
    rng = np.random.default_rng(seed)
    bets = 3.0 * rng.normal(size=(20, 3))
    others = domain.project(rng.normal(size=(20, 3)))
    for bet, g in zip(bets, rng.normal(size=(20, 3)), strict=True):
        x = domain.project(bet)
        coin = kl.contrib.CoinBetting(domain, 5.0)._toss(g, bet - x)
        assert np.linalg.norm(coin) <= 1.0
        assert ((x - others) @ g <= (bet - others) @ (-5.0 * coin) + 1e-12).all()


def test_the_first_bets_by_hand():
    """Coins of 1 and a wealth of 2: bets of 1/2 of 2, then 2/3 of 3."""
    x = played(
        kl.contrib.CoinBetting(kl.contrib.Space(1), 4.0, wealth=2.0), np.array([[-4.0], [-4.0]])
    )
    np.testing.assert_allclose(x[:, 0], [0.0, 1.0, 2.0], rtol=1e-15)


def test_wealth_ends_where_numbers_do():
    x = played(kl.contrib.CoinBetting(kl.contrib.Space(2), 1.0), np.tile([0.6, -0.8], (3000, 1)))
    assert np.isfinite(x).all()
    assert np.linalg.norm(x[-1]) > 1e59


def test_a_longer_gradient_counts_as_one_of_length_g():
    g = gradients(0, 20, 2)
    cut = g / np.maximum(np.linalg.norm(g, axis=1, keepdims=True), 1.0)
    bettor = kl.contrib.CoinBetting(kl.contrib.Space(2), 1.0)
    np.testing.assert_allclose(played(bettor, g), played(bettor, cut), rtol=1e-12)


def distance_to_three(T):
    return kl.CallableCosts(
        T, 1, lambda t, x: abs(float(x[0]) - 3.0), lambda t, x: np.sign(x - 3.0)
    )


def test_betting_pays_the_same_on_a_ball_of_any_size_and_auto_does_not():
    paid = [
        kl.run(
            kl.contrib.CoinBetting(kl.L2Ball(1, R), 1.0), distance_to_three(50), movement="l2"
        ).totals.cost
        for R in (10.0, 1e6)
    ]
    assert paid[0] == paid[1] < 200.0


class TestAutoOnLargeSets:
    def test_it_plays_to_scale_and_says_what_to_do(self):
        """Nothing in linear costs has a length, so it cannot know that a radius of a million is meant as no bound at all."""
        large = kl.L2Ball(2, 2.0**20)
        words = (
            "auto follows gradients to the far end of its set, and L2Ball(dim=2, radius=1048576.0) reaches 1.05e+06 from its "
            "start. If good points are much nearer, give auto a smaller set, tell it rows (costs=Quadratic()), or use "
            "contrib.CoinBetting(domain, G, movement=...)."
        )
        with pytest.warns(UserWarning, match=f"^{re.escape(words)}$"):
            learner = kl.auto(large)
        g = np.random.default_rng(0).normal(size=(50, 2))
        smaller = kl.run(kl.auto(kl.L2Ball(2)), g, engine="step")
        found = kl.run(learner, g, engine="step")
        np.testing.assert_allclose(found.x, 2.0**20 * smaller.x, rtol=1e-9, atol=1e-6)
        assert found.totals.cost > 1e6
        # What it is told to do instead costs next to nothing.
        assert smaller.totals.cost < 10.0
        assert kl.run(kl.contrib.CoinBetting(large, 1.0), g, movement="l2").totals.cost < 10.0

    @pytest.mark.filterwarnings("ignore:auto follows gradients")
    def test_a_bettor_among_its_experts_does_not_mend_it(self):
        """Why auto has none: it is left at once; with more caution noise is mended, a point nearby is not."""
        large, price = kl.L2Ball(2, 1e6), kl.L2Movement(1.0)
        bettor = kl.contrib.CoinBetting(large, 4.0, movement=price)
        experts = kl.auto(large, price).experts
        noise = np.random.default_rng(0).normal(size=(50, 2))
        goal = np.array([3.0, 4.0])
        nearby = kl.CallableCosts(
            200,
            2,
            lambda t, x: float(np.linalg.norm(x - goal)),
            lambda t, x: (x - goal) / max(float(np.linalg.norm(x - goal)), 1e-9),
        )

        def pay(learner, costs):
            return kl.run(learner, costs, movement=price, engine="step").totals.cost

        for order in ((bettor, *experts), (*experts, bettor)):
            assert pay(kl.contrib.Leader(order, price), noise) > 1e6
        cautious = kl.contrib.Leader([bettor, *experts], price, caution=10.0)
        assert pay(cautious, noise) == pay(bettor, noise) < 10.0
        assert pay(cautious, nearby) > 1e4 * pay(bettor, nearby)

    def test_told_rows_it_goes_where_they_are(self):
        costs = kl.QuadraticCosts(np.random.default_rng(0).normal(size=(50, 2)))
        paid = [
            kl.run(kl.auto(kl.L2Ball(2, R), costs=costs), costs, engine="step").totals.cost
            for R in (3.0, 1e6)
        ]
        assert paid[1] < 2.0 * paid[0]

    @pytest.mark.parametrize(
        ("domain", "start"),
        [
            (kl.L2Ball(2, 100.0), None),
            (kl.Simplex(3, 1e6), None),
            (kl.Box(1e6, 1e6 + 1.0), None),
            (kl.Box(0.0, 1e6), [2e4]),
        ],
        ids=repr,
    )
    def test_a_start_that_is_as_large_as_the_set_says_how_large_points_are(self, domain, start):
        """A warning would end this test."""
        assert kl.auto(domain, start=start).domain == domain


@pytest.mark.parametrize("domain", UNBOUNDED, ids=repr)
class TestUnbounded:
    def test_it_says_so(self, domain):
        assert not domain.bounded
        assert domain.diameter == domain.reach() == np.inf
        assert evaluated(repr(domain)) == domain
        assert kl.types.ConvexSet.from_dict(domain.to_dict()) == domain

    def test_descents_play_on_it(self, domain):
        g = gradients(1, 10, domain.dim)
        for make in LEARNERS.values():
            assert domain.contains(played(make(domain, 2.0), g))

    @pytest.mark.parametrize(
        "make",
        [
            kl.auto,
            lambda domain: kl.sader(domain, 10, 1.0),
            lambda domain: kl.SAder([kl.GD(domain, 1.0)]),
            lambda domain: kl.contrib.Leader([kl.GD(domain, 1.0)], "l2"),
            lambda domain: kl.contrib.Reluctant(domain, "l2", 4, 4),
            lambda domain: kl.contrib.StronglyAdaptive(domain, 1.0),
            kl.contrib.FollowTheLeader,
            kl.contrib.OBD,
            lambda domain: kl.offline_optimum(np.ones((3, domain.dim)), domain),
            lambda domain: kl.best_fixed(np.ones((3, domain.dim)), domain),
            lambda domain: kl.frontier(np.ones((3, domain.dim)), domain),
            lambda domain: kl.offline_optimum(
                kl.QuadraticCosts(np.ones((3, domain.dim))), domain, "l1", ramp=(1.0, 1.0)
            ),
        ],
    )
    def test_what_needs_bounds_refuses_it(self, domain, make):
        with pytest.raises(
            ValueError, match=re.escape(f"domain must be bounded, got {domain!r}")
        ):
            make(domain)

    def test_a_linear_cost_without_a_least_value_is_refused(self, domain):
        with pytest.raises(ValueError, match="A linear cost has no least value on "):
            domain.argmin_linear((-1.0) ** np.arange(domain.dim))

    def test_a_run_is_compared_and_certified(self, domain):
        trace = kl.run(kl.GD(domain, 2.0), gradients(1, 10, domain.dim))
        known = certify(trace, domain.project(np.ones(domain.dim)))
        assert np.isinf(known.worst_case).all()
        assert (known.realised >= known.regret - 1e-12).all()

    @pytest.mark.parametrize("movement", ["l2", "l1"])
    @pytest.mark.parametrize("start", [None, 4.0])
    def test_squared_distances_have_an_optimum_on_it(self, domain, movement, start):
        """Far targets and a far start: the part of the set that is searched must hold the optimum."""
        targets = gradients(2, 6, domain.dim, 3.0)
        costs = kl.QuadraticCosts(targets, np.linspace(0.5, 2.0, 6))
        x0 = None if start is None else np.full(domain.dim, start)
        found = kl.offline_optimum(costs, domain, movement, x0=x0, gap=1e-5)
        u = cp.Variable((6, domain.dim))
        size = {"l2": lambda z: cp.sum(cp.norm(z, axis=1)), "l1": lambda z: cp.sum(cp.abs(z))}
        paid = 0.5 * cp.sum(
            cp.multiply(np.linspace(0.5, 2.0, 6), cp.sum((u - targets) ** 2, axis=1))
        )
        paid += size[movement](cp.diff(u, axis=0))
        if x0 is not None:
            paid += size[movement](u[:1] - x0[None])
        inside = [limit for t in range(6) for limit in constraints(domain, u[t])]
        best = cp.Problem(cp.Minimize(paid), inside).solve(solver=cp.CLARABEL)
        assert found.lower_bound <= best * (1.0 + 1e-7)
        assert best <= found.cost * (1.0 + 1e-7)

    def test_a_far_start_may_draw_the_optimum_away_from_all_targets(self, domain):
        """One target for all rounds: standing still there costs nothing but the first move."""
        goal = domain.start
        away = domain.project(goal + np.linspace(-100.0, 100.0, domain.dim)) - goal
        start = goal + 100.0 * away / np.linalg.norm(away)
        found = kl.offline_optimum(
            kl.QuadraticCosts(np.tile(goal, (3, 1))), domain, kl.L2Movement(9.0), x0=start
        )
        gone = float(np.linalg.norm(found.u[0] - goal))
        assert gone == pytest.approx(3.0, abs=0.1)  # each of three rounds pulls by one per unit

    def test_the_best_fixed_point_and_the_frontier_are_known_for_squared_distances(self, domain):
        costs = kl.QuadraticCosts(gradients(2, 6, domain.dim, 3.0))
        best = kl.best_fixed(costs, domain)
        np.testing.assert_allclose(best.x, domain.project(costs.data.mean(axis=0)), atol=1e-9)
        curve = kl.frontier(costs, domain)
        lower, upper = curve.best([0.0])
        assert lower[0] <= best.cost * (1.0 + 1e-9)
        assert upper[0] == pytest.approx(best.cost, rel=1e-6)


def test_projections_onto_the_whole_space_change_nothing():
    y = gradients(3, 4, 3, 1e9)
    np.testing.assert_array_equal(kl.contrib.Space(3).project(y), y)
    np.testing.assert_array_equal(played(kl.GD(kl.contrib.Space(3), 2.0), y)[1], -y[0] / 2.0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: kl.contrib.Space(0),
            "dim must be an integer of at least 1, got 0.",
        ),
        (
            lambda: kl.contrib.CoinBetting(TEXT, 1.0),
            "domain must be a ConvexSet such as L2Ball(5), got 'a'.",
        ),
        (
            lambda: kl.contrib.CoinBetting(kl.contrib.Space(2), 0.0),
            "G must be above 0, got 0.0. Give a bound on the gradients' norms.",
        ),
        (
            lambda: kl.contrib.CoinBetting(kl.contrib.Space(2), 1.0, wealth=-1.0),
            "wealth must be above 0, got -1.0.",
        ),
        (
            lambda: kl.contrib.CoinBetting(kl.contrib.Space(2), 1.0, movement="fee"),
            "movement must be a norm with one weight for all rounds, got SwitchFee().",
        ),
        (
            lambda: coin_betting_bound(5, 1.0, 1.0, move_cost=-1.0),
            "move_cost must not be negative, got -1.0.",
        ),
        (lambda: coin_betting_bound(0, 1.0, 1.0), "T must be an integer of at least 1, got 0."),
        (
            lambda: coin_betting_bound(5, 1.0, -1.0),
            "distance must not be negative, got -1.0.",
        ),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call()


def test_a_bet_in_the_set_is_not_taken_for_one_beyond_it():
    """The projection of a point of a ball with a centre is that point up to rounding, which has a direction of its own."""
    g = gradients(0, 30, 4)
    start = np.array([0.1, -0.2, 0.0, 0.3])
    here = played(kl.contrib.CoinBetting(kl.L2Ball(4), 3.0, start=start), g)
    there = played(
        kl.contrib.CoinBetting(kl.L2Ball(4, 1.0, [0.5] * 4), 3.0, start=start + 0.5), g
    )
    np.testing.assert_allclose(there - 0.5, here, atol=1e-12)
