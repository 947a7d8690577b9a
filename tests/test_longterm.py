"""Constraints on the sum over all rounds: both certificates hold, and what is used comes near what may be used."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import klazy as kl
from cases import CERTIFIED, costs_of, gradients
from klazy.contrib import certify_long_term

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
    assert (found.excess <= found.excess_bound + 1e-9 * (1.0 + found.excess_bound)).all()
    assert found.excess[-1] == pytest.approx(trace.state.used - B, abs=1e-9 * (1.0 + abs(B)))
    assert found.excess_bound[-1] == pytest.approx(trace.state.price / eta, rel=1e-12)


def test_the_certificate_of_regret_is_tight_where_the_price_always_comes_late():
    """It uses one unit too much and one too little in turn, and pays a price only for the latter; u stays in the middle."""
    eta, plan = 0.5, np.array([1.0, -1.0] * 5 + [0.0])
    prices = np.array([0.0, eta] * 5)
    g = plan[:-1] - plan[1:] - prices
    learner = kl.contrib.LongTerm(kl.GD(kl.Box(-5, 5), 1.0, start=[1.0]), [1.0], 0.0, 10, eta=eta)
    trace = kl.run(learner, g[:, None], movement=kl.L2Movement(0.0))
    np.testing.assert_allclose(trace.x.ravel(), plan[:-1], atol=1e-12)
    found = certify_long_term(trace, [0.0])
    assert found.regret[-1] == pytest.approx(found.regret_bound[-1], rel=1e-12)


@pytest.mark.parametrize("T", [400, 1600])
def test_regret_and_excess_are_of_order_sqrt_t(T):
    """All would go to the largest coordinate, which uses most; a quarter of it is allowed on average."""
    domain, rng = kl.Box([0.0] * 3, [1.0] * 3), np.random.default_rng(0)
    g = -np.array([1.0, 0.2, 0.1]) + 0.3 * rng.normal(size=(T, 3))
    row, best = (
        np.array([1.0, 0.1, 0.1]),
        np.array([0.05, 1.0, 1.0]),
    )  # uses a quarter, earns all that is cheap
    learner = kl.contrib.LongTerm(kl.GD(domain, np.sqrt(T)), row, 0.25 * T, T)
    found = certify_long_term(kl.run(learner, g, movement=kl.L2Movement(0.0)), best)
    free = kl.run(kl.GD(domain, np.sqrt(T)), g, engine="step")
    assert found.excess[-1] <= 2.0 * np.sqrt(T)
    assert found.regret[-1] <= 2.0 * np.sqrt(T)
    assert (free.x @ row).sum() - 0.25 * T >= 0.5 * T  # without a price it uses far more


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
    "u must use at most B/T=0.25 per round, got 1.0.": lambda: certify_long_term(
        kl.run(kl.contrib.LongTerm(GD, np.ones(5), 1.0, 4), np.ones((4, 5))), np.eye(5)[0]
    ),
}


@pytest.mark.parametrize("message", REFUSED)
def test_refused_with_a_sentence_that_helps(message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        REFUSED[message]()
