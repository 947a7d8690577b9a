"""Constraints on the sum over all rounds: bounds and certificates hold, and what is used comes near what may be used."""

import re

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import klazy as kl
from cases import CERTIFIED, costs_of, gradients
from klazy.contrib import certify_long_term, long_term_bound, long_term_sigma

BALL = kl.L2Ball(5)
SETS = [BALL, kl.Simplex(5), kl.Box([-1.0] * 5, [2.0] * 5)]
USES = {
    "linear": (kl.Linear(), np.array([1.0, 0.5, 0.0, -0.5, 2.0])),
    "quadratic": (kl.Quadratic(2.0), np.zeros(5)),
    "pinball": (kl.Pinball(0.0, 1.0), np.array([0.1, 0.0, 0.3, 0.2, 0.0])),
}
seeds = st.integers(0, 2**16)


@pytest.mark.parametrize("use", USES)
@given(
    name=st.sampled_from(list(CERTIFIED)),
    place=st.integers(0, 2),
    eta=st.floats(0.01, 5.0),
    seed=seeds,
)
def test_no_certificate_is_violated(use, name, place, eta, seed):
    rng = np.random.default_rng(seed)
    domain, T, (constraint, row) = SETS[place], int(rng.integers(1, 40)), USES[use]
    frugal = domain.project(rng.normal(scale=0.3, size=(3, 5)))
    u = frugal[np.arange(T) * 3 // T]  # a comparator that jumps, and that just keeps to its share
    B = T * float(constraint.value(row, u).max())
    sigma = (kl.Sqrt(3.0), kl.Constant(2.0))[seed % 2]
    learner = kl.contrib.LongTerm(
        CERTIFIED[name](domain, sigma), row, B, T, constraint=constraint, eta=eta
    )
    # half of the runs are drawn to where most is used
    costs = (
        kl.contrib.LinearCosts(-np.tile(constraint.gradient(row, np.ones(5)), (T, 1)))
        if seed % 2
        else None
    )
    trace = kl.run(
        learner, costs or costs_of("QuadraticCosts", T, 5, seed), movement=kl.L2Movement(0.3)
    )
    found = certify_long_term(trace, u)
    room = 1e-9 * (1.0 + np.abs(found.regret_bound))
    assert (found.regret <= found.regret_bound + room).all()
    assert (found.excess <= found.excess_bound + 1e-9 * (1.0 + abs(found.excess_bound))).all()
    assert found.excess[-1] == pytest.approx(trace.state.used - B, abs=1e-9 * (1.0 + abs(B)))
    if use == "linear":
        gained = (trace.state.x - trace.x[0]) @ row
        bound = trace.state.price / eta - gained
        assert found.excess_bound[-1] == pytest.approx(bound, rel=1e-9, abs=1e-9)


def test_the_certificate_of_regret_is_tight_where_it_moves_to_and_fro():
    """It uses one unit too much and one too little in turn, and pays a price for the former; u stays in the middle."""
    eta, plan = 0.5, np.array([1.0, -1.0] * 5 + [0.0])
    prices = np.array([eta, 0.0] + [2.0 * eta, 0.0] * 4)
    g = plan[:-1] - plan[1:] - prices
    learner = kl.contrib.LongTerm(kl.GD(kl.Box(-5, 5), 1.0, start=[1.0]), [1.0], 0.0, 10, eta=eta)
    trace = kl.run(learner, g[:, None], movement=kl.L2Movement(0.0))
    np.testing.assert_allclose(trace.x.ravel(), plan[:-1], atol=1e-12)
    found = certify_long_term(trace, [0.0])
    assert found.regret[-1] == pytest.approx(found.regret_bound[-1], rel=1e-12)


def play_against(learner, answer, T):
    """Play costs that may depend on the point played; return points and gradients."""
    state, x, g = learner.init(), [], []
    for t in range(T):
        x.append(state.x)
        g.append(answer(t, state.x))
        state = learner.step(state, g[-1])
    return np.array(x), np.array(g)


def greedy_for_use(row):
    """Costs that always draw to where most is used, harder where little is."""
    return lambda t, x: -row / np.linalg.norm(row)


def contrary(row):
    """Costs that draw to use while little is used, and then away from it: each move is one too late."""
    unit = row / np.linalg.norm(row)
    return lambda t, x: -unit if x @ row < 0.3 else unit


def saving_up(row):
    """Costs that let it use nothing for half of the time, and then draw to use."""
    unit = row / np.linalg.norm(row)
    return lambda t, x: unit if t % 200 < 100 else -unit


def random_costs(row):
    rng = np.random.default_rng(0)
    draws = rng.normal(size=(5000, len(row))) - 0.5 * row
    draws /= np.linalg.norm(draws, axis=1, keepdims=True)
    return lambda t, x: draws[t]


ROW = np.array([1.0, 0.5, 0.0, -0.5, 2.0])
L = float(np.linalg.norm(ROW))


@pytest.mark.parametrize("answers", [greedy_for_use, contrary, saving_up, random_costs])
@given(
    T=st.sampled_from([1, 7, 60, 500]),
    share=st.floats(0.0, 0.6),
    eta=st.sampled_from([None, 0.02, 0.6, 1.9]),
    scale=st.floats(0.1, 3.0),
    price=st.sampled_from([0.0, 2.0]),
    gain=st.sampled_from([1.0, 0.2]),
)
def test_regret_and_excess_stay_below_their_bounds(answers, T, share, eta, scale, price, gain):
    """Against the best point that keeps to its share, and after every round; some points use one unit less than the share."""
    sigma = scale * long_term_sigma(T, gain, 1.0, move_cost=price)
    rate = None if eta is None else eta * sigma / (2.0 * L**2)
    learner = kl.contrib.LongTerm(kl.GD(BALL, sigma), ROW, share * T, T, eta=rate)
    answer = answers(ROW)
    x, g = play_against(learner, lambda t, x: gain * answer(t, x), T)
    u = cp.Variable(5)
    cp.Problem(cp.Minimize(g.sum(axis=0) @ u), [cp.norm(u) <= 1.0, ROW @ u <= share]).solve()
    moved = price * np.linalg.norm(np.diff(x, axis=0), axis=1).sum()
    for slack in (0.0, share + L - 1e-9):  # the point opposite to the row uses -L
        known = long_term_bound(T, gain, 1.0, L, sigma, rate, slack=slack, move_cost=price)
        assert (g * (x - u.value)).sum() + moved <= known.regret + 1e-6 * T
        assert (np.cumsum(x @ ROW) - share * np.arange(1, T + 1)).max() <= known.excess + 1e-9


@pytest.mark.parametrize("answers", [greedy_for_use, contrary, random_costs])
@given(T=st.sampled_from([20, 400]), share=st.floats(0.05, 0.4), eta=st.floats(0.1, 10.0))
def test_a_convex_constraint_has_bounds_too(answers, T, share, eta):
    """Half of the squared length may be the share; the origin uses nothing, so the slack is the share."""
    sigma = long_term_sigma(T, 1.0, 1.0)
    rate = min(eta / T, 0.9) * sigma
    learner = kl.contrib.LongTerm(
        kl.GD(BALL, sigma), np.zeros(5), share * T, T, constraint=kl.Quadratic(), eta=rate
    )
    x, g = play_against(learner, answers(ROW), T)
    total = g.sum(axis=0)
    best = -total / max(np.linalg.norm(total), 1e-12) * min(1.0, (2.0 * share) ** 0.5)
    known = long_term_bound(T, 1.0, 1.0, 1.0, sigma, rate, slack=share, linear=False)
    assert (g * (x - best)).sum() <= known.regret + 1e-9 * T
    over = np.cumsum(0.5 * (x**2).sum(axis=1)) - share * np.arange(1, T + 1)
    assert over.max() <= known.excess + 1e-9


def test_regret_grows_like_sqrt_t_and_the_excess_does_not_grow():
    """All would go to the largest coordinate, which uses most; a quarter of it is allowed on average."""
    domain, row = kl.Box([0.0] * 3, [1.0] * 3), np.array([1.0, 0.1, 0.1])
    best = np.array([0.05, 1.0, 1.0])  # it uses a quarter, and earns all that is cheap
    lost, excess = [], []
    rounds = [400, 1600, 6400, 25600]
    for T in rounds:
        g = -np.array([1.0, 0.2, 0.1]) + 0.3 * np.random.default_rng(0).normal(size=(T, 3))
        sigma = T**0.5
        learner = kl.contrib.LongTerm(kl.GD(domain, sigma), row, 0.25 * T, T)
        x, _ = play_against(learner, lambda t, x, g=g: g[t], T)
        lost.append(float((g * (x - best)).sum()))
        excess.append(float((np.cumsum(x @ row) - 0.25 * np.arange(1, T + 1)).max()))
        free, _ = play_against(learner.learner, lambda t, x, g=g: g[t], T)
        assert (free @ row).sum() - 0.25 * T >= 0.5 * T  # without a price it uses far more
    exponent = np.polyfit(np.log(rounds), np.log(lost), 1)[0]
    assert 0.4 <= exponent <= 0.75
    assert max(excess) <= 0.25


def test_a_constraint_that_never_binds_changes_nothing():
    g = gradients(1, 30, 5)
    learner = kl.contrib.LongTerm(kl.KLazyGD(BALL, 2.0, k=4), np.ones(5), 1e6, 30)
    assert np.array_equal(kl.run(learner, g).x, kl.run(learner.learner, g, engine="step").x)


def test_an_agent_goes_on_and_says_what_it_pays(tmp_path):
    g, learner = (
        -np.ones((12, 5)),
        kl.contrib.LongTerm(kl.GD(BALL, 2.0), np.ones(5), 6.0, 12, eta=0.5),
    )
    with kl.Agent.open(tmp_path / "decisions.db", learner, sync="batch") as agent:
        for row in g[:5]:
            agent.update(row)
    with kl.Agent.open(tmp_path / "decisions.db", sync="batch") as agent:
        for row in g[5:]:
            agent.update(row)
        assert agent.x.tobytes() == kl.run(learner, g).state.x.tobytes()
        assert re.search(
            r"It has used [\d.]+ of 6, and pays [\d.]+ for more\.", str(agent.explain())
        )


GD = kl.GD(BALL, 1.0)
REFUSED = {
    "learner must be a Learner such as GD(L2Ball(5), 1.0), got 3.": lambda: kl.contrib.LongTerm(
        3,  # pyright: ignore
        np.ones(5),
        1.0,
        4,
    ),
    "row must have shape (5,), got (4,).": lambda: kl.contrib.LongTerm(GD, np.ones(4), 1.0, 4),
    "T must be an integer of at least 1, got 0.": lambda: kl.contrib.LongTerm(
        GD, np.ones(5), 1.0, 0
    ),
    "constraint must be a Family such as Quadratic(), got 'linear'.": lambda: kl.contrib.LongTerm(
        GD,
        np.ones(5),
        1.0,
        4,
        constraint="linear",  # pyright: ignore
    ),
    (
        "trace must be of a LongTerm around GD or a learner like it, got GD(domain=L2Ball(dim=5), "
        "sigma=Constant(s=1.0))."
    ): lambda: certify_long_term(kl.run(GD, np.ones((2, 5)), engine="step"), np.zeros(5)),
    "eta must be below sigma / L**2 = 0.5, got 0.5.": lambda: long_term_bound(
        9, 1.0, 1.0, 2.0, sigma=2.0, eta=0.5
    ),
    "slack must not be negative, got -1.0.": lambda: long_term_bound(
        9, 1.0, 1.0, 2.0, sigma=2.0, slack=-1.0
    ),
}


@pytest.mark.parametrize("message", REFUSED)
def test_refused_with_a_sentence_that_helps(message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        REFUSED[message]()
