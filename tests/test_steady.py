"""Adaptive regret with bounded jumps, and playing in blocks."""

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import klazy as kl
from cases import gradients
from klazy.contrib.learners.adaptive import LARGEST_CHANGE, find_certainty, find_weight

seeds = st.integers(0, 2**16)
ANY: Any = None


def bounded_gradients(seed, T, d, G):
    g = gradients(seed, T, d)
    return G * g / np.maximum(np.linalg.norm(g, axis=1, keepdims=True), G)


@given(pace=st.floats(1.5, 20.0), n=st.integers(100, 10**6), share=st.floats(0.01, 0.99))
def test_weights_solve_their_equation_and_are_certain_at_u(pace, n, share):
    """g' = (y g / n + 1 / T) / pace; and the proof's inequality, K g'(y + 1.25) <= pace g'(y), with K = pace - 0.7."""
    T = 2 * n
    certain = find_certainty(n, T, pace)
    y = share * certain
    h = 1e-4 * certain
    slope = (find_weight(y + h, n, T, pace) - find_weight(y - h, n, T, pace)) / (2.0 * h)

    def expected(y):
        return (y * find_weight(y, n, T, pace) / n + 1.0 / T) / pace

    assert slope == pytest.approx(expected(y), rel=1e-4)
    assert find_weight(certain, n, T, pace) == 1.0
    assert find_weight(0.999 * certain, n, T, pace) < 1.0
    if certain + 1.0 <= n / 4.0:
        assert (pace - 0.7) * expected(y + LARGEST_CHANGE) <= pace * expected(y) * (1.0 + 1e-12)


def test_regret_on_every_interval_is_within_its_bound_and_jumps_are_small():
    T = 900
    learner = kl.contrib.SteadyAdaptive(kl.L2Ball(2), T, 1.0, 0.2)
    assert len(learner.lengths) > 1
    for name, seed in (("jumps", 0), ("noise", 1)):
        g = bounded_gradients(seed, T, 2, 1.0)
        if name == "jumps":
            g = np.repeat(g[:3], 300, axis=0)
        state = learner.init()
        points, weights, own = [state.x], [learner.weights(state)], [0.0]
        for row in g:
            state = learner.step(state, row)
            points.append(state.x)
            weights.append(learner.weights(state))
            own.append(max(state.moved) / 0.2)
        x = np.array(points)
        moved = np.linalg.norm(np.diff(x, axis=0), axis=1)
        assert (moved <= np.array(own[1:]) + learner.most_moved + 1e-12).all()
        np.testing.assert_allclose(np.sum(weights, axis=1), 1.0, atol=1e-12)
        paid = np.cumsum(np.append(0.0, np.vecdot(g, x[:-1]) + 0.2 * np.append(0.0, moved[:-1])))
        sums = np.vstack((np.zeros(2), np.cumsum(g, axis=0)))
        for length in (10, 100, 300, 450, 900):
            best = -np.linalg.norm(sums[length:] - sums[:-length], axis=1)
            assert (paid[length:] - paid[:-length] - best).max() <= learner.bound(length)


@given(
    T=st.integers(1, 10**6),
    G=st.floats(0.1, 10),
    weight=st.floats(0.0, 10),
    length=st.integers(1, 10**6),
)
def test_no_bound_is_above_the_trivial_one(T, G, weight, length):
    """A round costs at most G D more than a fixed point, and no move is longer than D."""
    learner = kl.contrib.SteadyAdaptive(kl.L2Ball(2), T, G, weight)
    assert learner.bound(length) <= length * (G + weight) * 2.0 * (1.0 + 1e-12)
    assert learner.bound(length) <= length * learner.worst * (1.0 + 1e-12)


def test_evidence_counts_what_the_mixture_and_the_expert_have_moved():
    learner = kl.contrib.SteadyAdaptive(kl.L2Ball(2), 5_000, 1.0, 0.2)
    state = learner.init()
    for g in np.random.default_rng(0).normal(size=(30, 2)) / 3.0:
        state = learner.step(state, g)
    state = state._replace(
        evidence=np.full_like(state.evidence, 0.5)
    )  # neither certain nor below its end
    price = 0.01
    now = learner.step(state, np.zeros(2)).evidence
    by_mixture = learner.step(
        state._replace(mixture_moved=state.mixture_moved + price), np.zeros(2)
    ).evidence
    by_expert = learner.step(state._replace(moved=state.moved + price), np.zeros(2)).evidence
    np.testing.assert_allclose(by_mixture - now, price / learner.worst, atol=1e-12)
    np.testing.assert_allclose(by_expert - now, -price / learner.worst, atol=1e-12)


def test_it_comes_to_follow_the_shorter_descent_where_that_is_better():
    """Costs that turn around every 60 rounds, to which the longest of the descents is far too slow."""
    learner = kl.contrib.SteadyAdaptive(kl.L2Ball(1), 20_000, 1.0, 0.0)
    state = learner.init()
    for t in range(2000):
        state = learner.step(state, np.array([1.0 if t % 120 < 60 else -1.0]))
    assert learner.weights(state)[1:].sum() > 0.5


@given(seed=seeds, B=st.integers(1, 9))
def test_blocks_play_the_learner_on_means(seed, B):
    g = gradients(seed, 27, 3)
    x = kl.run(kl.contrib.Blocks(kl.GD(kl.L1Ball(3), 0.7), B), g, engine="step").x
    count = 27 // B
    means = g[: count * B].reshape(count, B, 3).mean(axis=1)
    trace = kl.run(kl.GD(kl.L1Ball(3), 0.7), means, engine="step")
    expected = np.vstack((trace.x, trace.state.x)).repeat(B, axis=0)[:27]
    np.testing.assert_allclose(x, expected, atol=1e-12)


@given(seed=seeds, B=st.integers(1, 20), s=st.floats(0.2, 10.0), weight=st.floats(0.0, 3.0))
def test_blocks_have_b_times_the_regret_in_a_share_of_the_rounds(seed, B, s, weight):
    """B (sigma D^2 / 2 + n G^2 / (2 sigma)) + lambda n G / sigma for n blocks of descents, against any fixed point."""
    n = 5
    g = bounded_gradients(seed, n * B, 2, 1.0)
    trace = kl.run(
        kl.contrib.Blocks(kl.GD(kl.L2Ball(2), s), B),
        g,
        movement=kl.L2Movement(weight),
        engine="step",
    )
    regret = trace.totals.cost + np.linalg.norm(g.sum(axis=0))
    assert regret <= B * (2.0 * s + n / (2.0 * s)) + weight * n / s + 1e-9
    assert np.count_nonzero(trace.switching) <= n - 1


def test_blocks_bound_the_jumps_of_a_strongly_adaptive_learner():
    g = bounded_gradients(2, 120, 2, 1.0)
    ball = kl.L2Ball(2)
    moved = kl.run(
        kl.contrib.Blocks(kl.contrib.StronglyAdaptive(ball, 1.0, levels=5), 10),
        g,
        movement="l2",
        engine="step",
    )
    for first in range(0, 100, 7):
        assert moved.switching[first : first + 20].sum() <= (20 / 10 + 1) * ball.diameter
    agent = kl.Agent(moved.source, engine="step")
    for row in g:
        agent.update(row)
    np.testing.assert_array_equal(agent.x, moved.state.x)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: kl.contrib.Blocks(ANY, 3),
            "learner must be a Learner such as GD(L2Ball(5), 1.0), got None.",
        ),
        (
            lambda: kl.contrib.Blocks(kl.GD(kl.L2Ball(2), 1.0), 0),
            "length must be an integer of at least 1, got 0.",
        ),
        (
            lambda: kl.contrib.Blocks(
                kl.contrib.FollowTheLeader(kl.Box(0, 1), family=kl.Pinball()), 3
            ),
            (
                "learner must take gradients, got FollowTheLeader(domain=Box(lower=[0.0], upper=[1.0]), "
                "family=Pinball(short=[1.0], excess=[1.0]))."
            ),
        ),
        (
            lambda: kl.contrib.SteadyAdaptive(kl.L2Ball(2), 0, 1.0),
            "T must be an integer of at least 1, got 0.",
        ),
        (
            lambda: kl.contrib.SteadyAdaptive(kl.contrib.Space(2), 10, 1.0),
            "domain must be bounded, got Space(dim=2). Cut it, as in Intersection([domain, L2Ball(2, 10.0)]), or use "
            "contrib.CoinBetting.",
        ),
        (
            lambda: kl.contrib.SteadyAdaptive(ANY, 10, 1.0),
            "domain must be a ConvexSet such as L2Ball(5), got None.",
        ),
        (
            lambda: kl.contrib.SteadyAdaptive(kl.L2Ball(2), 10, 1.0).bound(0),
            "length must be an integer of at least 1, got 0.",
        ),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call()
