"""Learners with a budget for moving: it is never exceeded, and regret lies between what theory grants and what it demands."""

import math
import re
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import klazy as kl
from cases import EVERY_LEARNER, MOVEMENTS, gradients
from klazy.contrib import (
    budget_lower_bound,
    budget_sigma,
    budgeted_bound,
    switch_bound,
    switch_lower_bound,
    switch_sigma,
)
from klazy.contrib.guarantees import _mean_size

BALL = kl.L2Ball(5)
seeds = st.integers(0, 2**16)
PRICES = [name for name, make in MOVEMENTS.items() if isinstance(make(5).weight, float)]


@pytest.mark.parametrize("price", PRICES)
@given(
    name=st.sampled_from(list(EVERY_LEARNER)),
    share=st.floats(1e-3, 2.0),
    paced=st.booleans(),
    seed=seeds,
)
def test_all_moves_together_never_cost_more_than_the_budget(price, name, share, paced, seed):
    movement, T = MOVEMENTS[price](5), 15
    learner = EVERY_LEARNER[name](BALL, 0.3)
    S = share * float(movement.weight) * float(movement.distance(np.ones(5)))
    budgeted = kl.contrib.Budgeted(learner, S, movement, T=T if paced else None)
    g, state, spent = gradients(seed, T, 5), budgeted.init(), 0.0
    for t, row in enumerate(g, start=1):
        following = budgeted.step(state, row)
        spent += float(movement.weight) * float(movement.distance(following.x - state.x))
        assert spent <= S * (min(1.0, t / T) if paced else 1.0)
        state = following
    assert state.spent == spent


@given(name=st.sampled_from(list(EVERY_LEARNER)), seed=seeds)
def test_an_ample_budget_changes_nothing(name, seed):
    learner, g = EVERY_LEARNER[name](BALL, 2.0), gradients(seed, 12, 5)
    budgeted = kl.contrib.Budgeted(learner, 1e6)
    assert np.array_equal(
        kl.run(budgeted, g).x, kl.run(learner, g, engine="step", feedback="gradient").x
    )


@given(S=st.floats(0.05, 40.0), paced=st.booleans(), blocks=st.integers(1, 6), seed=seeds)
def test_regret_is_within_the_bound(S, paced, blocks, seed):
    """Theory's sigma keeps to the budget by itself, so nothing is lost to holding it back."""
    T = 60
    g = gradients(seed, T, 5)
    g /= max(1.0, np.linalg.norm(g, axis=1).max())
    length = -(-T // blocks)
    u = BALL.argmin_linear(np.add.reduceat(g, np.arange(0, T, length))).repeat(length, axis=0)[:T]
    P = float(np.linalg.norm(np.diff(u, axis=0), axis=1).sum())
    learner = kl.contrib.Budgeted(
        kl.GD(BALL, budget_sigma(T, 1.0, 1.0, P, S)), S, T=T if paced else None
    )
    trace = kl.run(learner, g)
    assert kl.regret(trace, u).dynamic <= budgeted_bound(T, 1.0, 1.0, P, S) + 1e-9
    assert np.array_equal(trace.state.x, trace.state.inner.x) or paced


@given(s=st.floats(0.1, 10.0), share=st.floats(0.01, 1.0), seed=seeds)
def test_what_holding_back_costs_is_what_the_point_lags_behind(s, share, seed):
    g, T = gradients(seed, 30, 5), 30
    learner = kl.contrib.Budgeted(kl.GD(BALL, s), 3.0 * share, T=T)
    state, lag, own, paid = learner.init(), 0.0, 0.0, 0.0
    u = BALL.argmin_linear(g.sum(axis=0))
    for row in g:
        lag += float(np.linalg.norm(row) * np.linalg.norm(state.x - state.inner.x))
        own += float(row @ (state.inner.x - u))
        paid += float(row @ (state.x - u))
        state = learner.step(state, row)
    assert paid <= own + lag + 1e-9


@given(K=st.integers(1, 40), seed=seeds)
def test_regret_with_few_moves_is_within_the_bound(K, seed):
    T, g = 40, gradients(seed, 40, 5)
    g /= max(1.0, np.linalg.norm(g, axis=1).max())
    learner = kl.contrib.Budgeted(kl.GD(BALL, switch_sigma(T, 1.0, 1.0, 0.0, K)), K, "fee", T=T)
    trace = kl.run(learner, g)
    assert trace.totals.switching <= K
    assert (
        kl.regret(trace, BALL.argmin_linear(g.sum(axis=0))).dynamic
        <= switch_bound(T, 1.0, 1.0, 0.0, K) + 1e-9
    )


def turn(x, total):
    """A unit vector orthogonal to both."""
    _, _, across = np.linalg.svd(np.vstack((x, total)))
    return across[-1]


@pytest.mark.parametrize("K", [1, 4, 20])
@pytest.mark.parametrize("paced", [True, False])
def test_few_moves_cost_what_the_lower_bound_says(K, paced):
    """The costs of its proof, against a learner that keeps to K moves."""
    T, ball = 200, kl.L2Ball(3)
    learner = kl.contrib.Budgeted(
        kl.GD(ball, switch_sigma(T, 1.0, 1.0, 0.0, K)), K, "fee", T=T if paced else None
    )
    state, total, paid, moves = learner.init(), np.zeros(3), 0.0, 0
    g = turn(state.x, total)
    for _ in range(T):
        paid += float(g @ state.x)
        total = total + g
        following = learner.step(state, g)
        if not np.array_equal(following.x, state.x):
            moves += 1
            g = turn(following.x, total)
        state = following
    assert moves <= K
    regret = paid + float(np.linalg.norm(total))
    assert regret >= switch_lower_bound(T, 1.0, 1.0, K) * (1 - 1e-9)
    if paced:
        assert regret <= switch_bound(T, 1.0, 1.0, 0.0, K)


@pytest.mark.parametrize("S", [0.5, 2.0])
def test_no_learner_beats_the_lower_bound_of_its_budget(S):
    """The random blocks of its proof; on average over all signs regret is at least the bound, exactly, for few blocks."""
    T, m = 48, 6
    L = T // m
    bound = L * _mean_size(m) - (L - 1) * S
    quick = kl.GD(kl.Box(-1, 1), 0.5)
    tuned = kl.GD(kl.Box(-1, 1), budget_sigma(T, 1.0, 1.0, 0.0, S))
    for learner in (
        quick,
        kl.contrib.Budgeted(quick, S),
        kl.contrib.Budgeted(quick, S, T=T),
        kl.contrib.Budgeted(tuned, S),
    ):
        paid = []
        for signs in product((-1.0, 1.0), repeat=m):
            if signs[0] > 0.0:  # the others are their mirror images, and so is what is played
                g = np.repeat(signs, L)[:, None]
                x = kl.run(learner, g, engine="step").x
                paid.append(float((g * x).sum()) + abs(float(g.sum())))
        assert (np.mean(paid) >= bound - 1e-9) == (learner is not quick)  # which has no budget
    assert budget_lower_bound(T, 1.0, 1.0, S) >= bound - 1e-9


def test_upper_and_lower_bound_have_one_order():
    for T, share in product((10**3, 10**5, 10**7), (0.0, 0.3, 0.6, 0.9)):
        S = 2.0 * (math.sqrt(T) / 2.0) ** share
        assert (
            1.0 <= budgeted_bound(T, 1.0, 1.0, 0.0, S) / budget_lower_bound(T, 1.0, 1.0, S) <= 5.0
        )
    for T, K in product((10**3, 10**6), (1, 10, 500)):
        assert (
            1.0 <= switch_bound(T, 1.0, 1.0, 0.0, K) / switch_lower_bound(T, 1.0, 1.0, K) <= 3.0
        )


@pytest.mark.parametrize("m", [1, 2, 3, 10, 11])
def test_the_mean_size_of_a_sum_of_signs(m):
    exact = np.mean([abs(sum(signs)) for signs in product((-1, 1), repeat=m)])
    assert _mean_size(m) == pytest.approx(exact, rel=1e-12)


def test_more_budget_never_has_the_worse_bound():
    for bound in (budgeted_bound, lambda *a: -budget_lower_bound(a[0], a[1], a[2], a[4])):
        values = [bound(1000, 1.0, 1.0, 0.0, S) for S in (0.1, 1.0, 5.0, 20.0, 100.0)]
        if bound is budgeted_bound:
            assert all(one >= other for one, other in pairwise(values))
        else:
            assert all(one <= other for one, other in pairwise(values))


def test_an_agent_keeps_its_budget_over_restarts(tmp_path):
    g = gradients(3, 20, 5)
    learner = kl.contrib.Budgeted(kl.GD(BALL, 0.5), 2.0, T=20)
    with kl.Agent.open(tmp_path / "decisions.db", learner, sync="batch") as agent:
        for row in g[:9]:
            agent.update(row)
    with kl.Agent.open(tmp_path / "decisions.db", sync="batch") as agent:
        for row in g[9:]:
            agent.update(row)
        assert agent.x.tobytes() == kl.run(learner, g).state.x.tobytes()
        assert "Of its budget of 2 for moving, " in str(agent.explain())


REFUSED = {
    "learner must be a Learner such as GD(L2Ball(5), 1.0), got 3.": lambda: kl.contrib.Budgeted(3, 1.0),  # pyright: ignore
    "S must be above 0, got 0. Give a number above zero, or use Fixed to stay.": lambda: kl.contrib.Budgeted(
        kl.GD(BALL, 1.0), 0
    ),
    "movement must have one weight for all rounds, got L2Movement(weight=[1.0, 2.0]).": lambda: kl.contrib.Budgeted(
        kl.GD(BALL, 1.0), 1.0, kl.L2Movement([1.0, 2.0])
    ),
    "T must be an integer of at least 1, got 0. Leave it out to release all at once.": lambda: kl.contrib.Budgeted(
        kl.GD(BALL, 1.0), 1.0, T=0
    ),
    "S must be above 0, got 0.": lambda: budget_sigma(10, 1.0, 1.0, 0.0, 0),
    "K must be an integer of at least 1, got 0.": lambda: switch_bound(10, 1.0, 1.0, 0.0, 0),
}  # fmt: skip


@pytest.mark.parametrize("message", REFUSED)
def test_refused_with_a_sentence_that_helps(message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        REFUSED[message]()
