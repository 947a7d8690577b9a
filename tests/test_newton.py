"""Learners for curved costs: their steps minimise, and their bounds hold in random and adversarial games of each kind."""

from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import klazy as kl
from klazy.base.checks import Array
from klazy.contrib import (
    LogisticCosts,
    Maler,
    OnlineNewton,
    Proportional,
    maler_bound,
    newton_bound,
    newton_gamma,
    strongly_convex_bound,
)
from klazy.contrib.learners.newton import minimise_quadratic

seeds = st.integers(0, 2**16)
BALL = kl.L2Ball(2)
D = 2.0
# For cvxpy: what a point of each set must obey.
SETS = {
    "ball": (kl.L2Ball(3), lambda u: [cp.norm(u) <= 1.0]),
    "box": (kl.Box([-1.0, 0.0, 2.0], [1.0, 0.5, 2.0]), lambda u: [u >= [-1, 0, 2], u <= [1, 0.5, 2]]),
    "l1": (kl.L1Ball(3), lambda u: [cp.norm1(u) <= 1.0]),
    "shares": (kl.Simplex(3, 2.0), lambda u: [u >= 0.0, cp.sum(u) == 2.0]),
    "capped": (
        kl.CappedSimplex(3, cap=0.5),
        lambda u: [u >= 0.0, u <= 0.5, cp.sum(u) == 1.0],
    ),
    "both": (
        kl.Intersection([kl.L2Ball(3), kl.Box([0.0] * 3, [0.9] * 3)]),
        lambda u: [cp.norm(u) <= 1.0, u >= 0.0, u <= 0.9],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SETS)
@given(seed=seeds)
def test_a_step_finds_the_least_point_of_a_quadratic(name, seed):
    domain, constraints = SETS[name]
    rng = np.random.default_rng(seed)
    slopes = rng.normal(size=(rng.integers(1, 200), 3)) * rng.choice([0.03, 1.0], 3)
    A = rng.choice([0.1, 10.0]) * np.eye(3) + slopes.T @ slopes
    b = A @ rng.normal(size=3) * rng.choice([0.1, 3.0])
    found = minimise_quadratic(domain, A, b, domain.project(rng.normal(size=3)))
    assert domain.contains(found)
    # What a move along the slope could still gain, to first order, is more than any move can.
    slope = A @ found - b
    size = 1.0 + float(np.linalg.norm(b))
    assert slope @ (found - domain.argmin_linear(slope)) <= 1e-8 * size
    u = cp.Variable(3)
    gap = np.linalg.cholesky(A).T @ (u - np.linalg.solve(A, b))
    cp.Problem(cp.Minimize(cp.sum_squares(gap)), constraints(u)).solve(cp.CLARABEL)
    best = domain.project(np.asarray(u.value))
    values = [0.5 * point @ A @ point - b @ point for point in (found, best)]
    assert values[0] <= values[1] + 1e-9 * size


def test_newton_plays_the_leader_of_approximate_costs():
    """Its points minimise all costs so far, each replaced by a parabola along its gradient."""
    rng = np.random.default_rng(5)
    g = rng.normal(size=(12, 2))
    x = kl.run(OnlineNewton(BALL, 0.4, 2.0, start=[0.3, 0.1]), g, engine="step").x
    for t in range(1, 12):

        def approximate(u, t=t):
            ahead = np.vecdot(g[:t], u - x[:t])
            away = u - np.array([0.3, 0.1])
            return (ahead + 0.2 * ahead**2).sum() + 0.4 * away @ away

        turns = np.linspace(0.0, 2.0 * np.pi, 100)
        for near in (1e-4, 0.1, 1.0):
            around = x[t] + near * np.column_stack((np.cos(turns), np.sin(turns)))
            assert approximate(x[t]) <= min(map(approximate, BALL.project(around))) + 1e-12


@given(seed=seeds, gamma=st.floats(0.05, 3.0), epsilon=st.floats(0.1, 20.0))
def test_newton_keeps_the_bound_of_a_run(seed, gamma, epsilon):
    """On the parabolas, for any gradients: what curvature they had seen is all that counts, for regret and for moves."""
    rng = np.random.default_rng(seed)
    T = int(rng.integers(1, 60))
    g = rng.normal(size=(T, 2)) * rng.choice([0.1, 1.0], (T, 1))
    learner = OnlineNewton(BALL, gamma, epsilon)
    x = kl.run(learner, g, engine="step").x
    u = BALL.project(rng.normal(size=2))
    A = epsilon * np.eye(2)
    seen = 0.0
    for slope in g:
        A = A + np.outer(slope, slope)
        seen += slope @ np.linalg.solve(A, slope)
    ahead = np.vecdot(g, x - u)
    regret = (ahead - gamma / 2.0 * ahead**2).sum()
    assert regret <= gamma * epsilon / 2.0 * (u @ u) + seen / (2.0 * gamma) + 1e-9
    moved = np.linalg.norm(np.diff(x, axis=0), axis=1).sum()
    assert moved <= np.sqrt(T * seen / epsilon) / gamma + 1e-9


@given(alpha=st.floats(1e-9, 1e3), G=st.floats(0.1, 10.0), share=st.floats(-1.0, 1.0))
def test_gamma_is_the_most_that_holds(alpha, G, share):
    """-log(1 - alpha z)/alpha is the least alpha-exp-concave cost with slope 1; z is at least -GD."""
    gamma = newton_gamma(alpha, G, D)
    assert 0.5 * min(alpha, 1.0 / (4.0 * G * D)) <= gamma <= alpha
    z = share * G * D
    if alpha * z < 1.0:
        assert -np.log1p(-alpha * z) / alpha >= z + gamma / 2.0 * z * z - 1e-9 * G
    # 1 % more does not hold at the far end.
    z = -G * D
    if alpha > 1e-3:
        assert -np.log1p(-alpha * z) / alpha < z + 1.01 * gamma / 2.0 * z * z


# ---- games of each kind: rows, what a round costs, its gradient, and what is known of the kind


class Kind:
    """A kind of costs of rows (a, b) on the unit disc, with its gradients' bound and what it may be told."""

    G = 1.0
    mu = 0.0
    alpha = 0.0

    def value(self, a: Array, b: float, x: Array) -> Any:
        """With a kink: |<a, x> - b|."""
        return abs(a @ x - b)

    def gradient(self, a: Array, b: float, x: Array) -> Array:
        return a if a @ x > b else -a

    def write(self, rows: list, u: cp.Variable):
        a, b = map(np.array, zip(*rows, strict=True))
        return cp.sum(cp.abs(a @ u - b))


class Square(Kind):
    """(<a, x> - b)^2 / 2 with |a|, |b| <= 1: errors up to 2."""

    G = 2.0
    alpha = 0.25

    def value(self, a, b, x):
        return 0.5 * (a @ x - b) ** 2

    def gradient(self, a, b, x):
        return (a @ x - b) * a

    def write(self, rows, u):
        a, b = map(np.array, zip(*rows, strict=True))
        return 0.5 * cp.sum_squares(a @ u - b)


class Logistic(Kind):
    """ln(1 + exp(-b <a, x>)) with a label b of -1 or 1."""

    alpha = float(np.exp(-1.0))

    def value(self, a, b, x):
        return np.logaddexp(0.0, -np.sign(b) * (a @ x))

    def gradient(self, a, b, x):
        return -np.sign(b) * a / (1.0 + np.exp(np.sign(b) * (a @ x)))

    def write(self, rows, u):
        a, b = map(np.array, zip(*rows, strict=True))
        return cp.sum(cp.logistic(-cp.multiply(np.sign(b), a @ u)))


class Growth(Kind):
    """-ln(2 + <a, x>): wealth that grows at most threefold."""

    alpha = 1.0

    def value(self, a, b, x):
        return -np.log(2.0 + a @ x)

    def gradient(self, a, b, x):
        return -a / (2.0 + a @ x)

    def write(self, rows, u):
        a, _ = map(np.array, zip(*rows, strict=True))
        return -cp.sum(cp.log(2.0 + a @ u))


class Quadratic(Kind):
    """|x - b a|^2 / 2."""

    G = 2.0
    mu = 1.0

    def value(self, a, b, x):
        return 0.5 * (x - b * a) @ (x - b * a)

    def gradient(self, a, b, x):
        return x - b * a

    def write(self, rows, u):
        return 0.5 * sum(cp.sum_squares(u - b * a) for a, b in rows)


KINDS = {"kinks": Kind(), "square": Square(), "logistic": Logistic(), "growth": Growth(), "quadratic": Quadratic()}  # fmt: skip


def play(learner, kind, T, seed=None):
    """Play against random rows, or against one who answers each point; return the regret and the points."""
    rng = np.random.default_rng(seed)
    state = learner.init()
    rows, x, paid = [], [], 0.0
    for t in range(T):
        point = state.x
        x.append(point)
        if seed is None:
            # Towards the point, or along an axis that the rounds take in turns, so that both directions matter.
            away = point if t % 3 and np.linalg.norm(point) > 1e-9 else np.eye(2)[t % 2]
            a = away / np.linalg.norm(away)
            b = -1.0 if a @ point > 0.0 else 1.0
        else:
            a = rng.normal(size=2)
            a *= rng.random() / np.linalg.norm(a)
            b = float(np.clip(a @ [0.6, -0.5] + 0.3 * rng.normal(), -1.0, 1.0))
        if isinstance(kind, Growth) and seed is None:
            a = b * a  # Prices fall where it has most.
        rows.append((a, b))
        paid += kind.value(a, b, point)
        g = kind.gradient(a, b, point)
        assert np.linalg.norm(g) <= kind.G + 1e-9
        state = learner.step(state, g)
    u = cp.Variable(2)
    best = cp.Problem(cp.Minimize(kind.write(rows, u)), [cp.norm(u) <= 1.0]).solve(cp.CLARABEL)
    return paid - best, np.array(x)


# Where the solver says so its least cost is too high by some 1e-7, and the regret too low.
ROUNDING = pytest.mark.filterwarnings("ignore:Solution may be inaccurate")


@ROUNDING
@pytest.mark.parametrize(("seed", "T"), [(None, 120), (0, 120)])
@pytest.mark.parametrize("name", KINDS)
def test_maler_keeps_the_bound_of_every_kind(name, seed, T):
    kind = KINDS[name]
    regret, _ = play(Maler(BALL, T, kind.G), kind, T, seed)
    assert regret <= maler_bound(T, kind.G, D, 2, mu=kind.mu, alpha=kind.alpha) + 1e-6


@ROUNDING
@pytest.mark.parametrize("seed", [None, 0, 1, 2])
@pytest.mark.parametrize("name", ["square", "logistic", "growth"])
def test_newton_keeps_its_bound_moving_included(name, seed):
    kind = KINDS[name]
    for T in (40, 200):
        learner = OnlineNewton(BALL, newton_gamma(kind.alpha, kind.G, D))
        regret, x = play(learner, kind, T, seed)
        moved = np.linalg.norm(np.diff(x, axis=0), axis=1).sum()
        for price in (0.0, 1.0):
            bound = newton_bound(T, kind.G, D, 2, kind.alpha, price)
            assert regret + price * moved <= bound + 1e-6


@pytest.mark.parametrize("seed", [None, 0, 1])
def test_descent_on_strongly_convex_costs_keeps_its_bound_moving_included(seed):
    kind = KINDS["quadratic"]
    for T in (40, 200):
        regret, x = play(kl.GD(BALL, Proportional(1.0)), kind, T, seed)
        moved = np.linalg.norm(np.diff(x, axis=0), axis=1).sum()
        for price in (0.0, 1.0, 10.0):
            assert regret + price * moved <= strongly_convex_bound(T, 2.0, 1.0, price) + 1e-6


def test_descent_with_rising_sigma_uses_half_of_its_bound():
    """In one dimension, with gradients of size G alternating, moves are as long as the bound says but for a constant."""
    T, G = 2000, 1.0
    g = G * np.resize([1.0, -1.0], (T, 1))
    x = kl.run(kl.GD(kl.Box(-1, 1), Proportional(1.0)), g, engine="step").x
    moved = np.abs(np.diff(x[:, 0])).sum()
    assert 0.9 * np.log(T) <= moved <= G * (1.0 + np.log(T))


@given(seed=seeds, domain=st.sampled_from([BALL, kl.Simplex(3), kl.Box([-1.0, 0.0], [0.5, 3.0])]))
def test_malers_weights_lose_no_more_than_the_lemma_says(seed, domain):
    """Against every expert, for any gradients: rate times gain, less the square, is at most ln N."""
    rng = np.random.default_rng(seed)
    G, T = 2.0, 40
    learner = Maler(domain, T, G)
    n = (len(learner.experts) - 1) // 2
    state = learner.init()
    gained = np.zeros(2 * n + 1)
    lean = rng.normal(size=domain.dim)
    for _ in range(T):
        g = rng.normal(size=domain.dim) + lean
        g *= G / np.linalg.norm(g)
        points = np.array([expert.x for expert in state.experts])
        gain = (state.x - points) @ g
        squares = gain**2
        squares[0] = (G * domain.scale) ** 2
        squares[1 : n + 1] = G**2 * ((state.x - points[1 : n + 1]) ** 2).sum(axis=1)
        tilted = learner.rates * np.exp(gained)
        np.testing.assert_allclose(tilted @ points / tilted.sum(), state.x, atol=1e-9)
        gained += learner.rates * gain - learner.rates**2 * squares
        state = learner.step(state, g)
        # The potential never rises, and log_w has it up to a constant.
        np.testing.assert_allclose(state.log_w, gained - gained.max(), atol=1e-9)
        assert np.exp(gained).mean() <= 1.0 + 1e-9
    assert gained.max() <= np.log(2 * n + 1)


def test_malers_experts_are_fed_the_gradients_of_their_own_costs():
    """Each expert is the learner that its own surrogate costs would be played by."""
    T, G = 30, 2.0
    g = np.random.default_rng(1).normal(size=(T, 2))
    g *= G / np.maximum(np.linalg.norm(g, axis=1, keepdims=True), G)
    learner = Maler(BALL, T, G)
    x = kl.run(learner, g, engine="step").x
    n = (len(learner.experts) - 1) // 2
    states = [expert.init() for expert in learner.experts]
    for t in range(T):
        slopes = [g[t]] * (2 * n + 1)
        for i in range(1, 2 * n + 1):
            own, eta = states[i].x, learner.rates[i]
            u = own + 1e-6 * np.eye(2)

            def surrogate(u, i=i, eta=eta, t=t):
                gap = u - x[t]
                square = G**2 * np.vecdot(gap, gap) if i <= n else (gap @ g[t]) ** 2
                return gap @ g[t] + eta * square

            down = own - 1e-6 * np.eye(2)
            slopes[i] = (surrogate(u) - surrogate(down)) / 2e-6
        states = [e.step(s, h) for e, s, h in zip(learner.experts, states, slopes, strict=True)]
    final = kl.run(learner, g, engine="step").state.experts
    for own, theirs in zip(states, final, strict=True):
        np.testing.assert_allclose(own.x, theirs.x, atol=1e-6)


@given(seed=seeds)
def test_malers_newton_experts_know_how_their_own_costs_curve(seed):
    rng = np.random.default_rng(seed)
    G = 2.0
    learner = Maler(BALL, 100, G)
    n = (len(learner.experts) - 1) // 2
    present, own, u = BALL.project(rng.normal(size=(3, 2)))
    g = rng.normal(size=2)
    g *= G / np.linalg.norm(g)
    experts: Any = learner.experts[n + 1 :]
    for expert, eta in zip(experts, learner.rates[n + 1 :], strict=True):
        h = g * (1.0 + 2.0 * eta * (g @ (own - present)))
        costs = [g @ (x - present) + eta * (g @ (x - present)) ** 2 for x in (own, u)]
        curved = expert.gamma / 2.0 * (h @ (own - u)) ** 2
        assert costs[0] - costs[1] <= h @ (own - u) - curved + 1e-12


def test_knowing_no_kind_costs_little_against_one_who_answers():
    """Quadratics: a descent for any convex costs pays more than Maler, one that knows their curvature pays less."""
    kind = KINDS["quadratic"]
    T = 1000
    plain, _ = play(kl.GD(BALL, kl.Sqrt((D / kind.G) ** 2)), kind, T)
    told, _ = play(kl.GD(BALL, Proportional(1.0)), kind, T)
    found, _ = play(Maler(BALL, T, kind.G), kind, T)
    assert told < found < plain / 2.0


def test_logarithms_grow_like_logarithms():
    """The bounds of curved costs gain a constant when T is multiplied, that of convex ones the root."""
    for kind in ({"mu": 1.0}, {"alpha": 1.0}):
        few, many, most = (maler_bound(T, 1.0, D, 2, **kind) for T in (10**4, 10**6, 10**8))
        assert most - many == pytest.approx(many - few, rel=0.1)
    assert maler_bound(10**6, 1.0, D, 2) > 9.0 * maler_bound(10**4, 1.0, D, 2)


def test_logistic_costs_are_played_by_newton():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(200, 2))
    features /= np.maximum(1.0, np.linalg.norm(features, axis=1, keepdims=True))
    seen = LogisticCosts(features, np.sign(features @ [1.0, -2.0] + 0.3 * rng.normal(size=200)))
    trace = kl.run(OnlineNewton(BALL, newton_gamma(np.exp(-2.0), 1.0, D)), seen, engine="step")
    regret = trace.totals.hitting - kl.best_fixed(seen, BALL).cost
    assert regret <= newton_bound(200, 1.0, D, 2, float(np.exp(-2.0)))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: OnlineNewton(BALL, 0.0), "gamma must be above 0, got 0.0."),
        (lambda: OnlineNewton(BALL, 1.0, -1.0), "epsilon must be above 0, got -1.0."),
        (lambda: OnlineNewton(kl.contrib.Space(2), 1.0), "bounded"),
        (lambda: Maler(BALL, 0, 1.0), "T must be"),
        (lambda: Maler(BALL, 10, 0.0), "G must be above 0, got 0.0."),
        (lambda: Proportional(0.0), "mu must be above 0, got 0.0."),
        (lambda: newton_gamma(0.0, 1.0, 1.0), "alpha must be above 0, got 0.0."),
        (lambda: maler_bound(10, 1.0, 1.0, 0), "dim must be"),
        (lambda: maler_bound(10, 1.0, 1.0, 2, mu=-1.0), "mu must not be negative"),
    ],
)
def test_bad_arguments_are_rejected(make, message):
    with pytest.raises(ValueError, match=message):
        make()
