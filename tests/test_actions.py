"""Actions drawn from a run: distributed as its points, and switched no oftener than these move."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import klazy as kl
from klazy.game.discrete import sample_actions

SEEDS = 2000
seeds = st.integers(0, 2**32)


def trace_of(x):
    """A run that played the rows of ``x``."""
    x = np.asarray(x, float)
    T, d = x.shape
    return kl.types.Trace[Any](
        "step", "actions", T, d, kl.types.Totals(0.0, 0.0), kl.L2Movement(), {"x": x}, None
    )


@st.composite
def shares(draw):
    """Rounds of shares with zeros, ties and vertices among them."""
    T, d = draw(st.integers(1, 30)), draw(st.integers(1, 6))
    parts = draw(arrays(np.int64, (T, d), elements=st.integers(0, 4)))
    parts[:, 0] += parts.sum(axis=1) == 0
    return parts / parts.sum(axis=1, keepdims=True)


@pytest.fixture(scope="module")
def sampled():
    """A greedy run that moves much, and the actions of many seeds, of shape (SEEDS, T)."""
    g = np.random.default_rng(0).normal(size=(40, 4))
    trace = kl.run(kl.GD(kl.Simplex(4), 3.0), g, movement=kl.TVMovement(), engine="step")
    return trace, np.array([sample_actions(trace, seed) for seed in range(SEEDS)])


def test_an_action_is_as_probable_as_its_share_of_the_point_in_every_round(sampled):
    """All T d frequencies at once, with confidence 1 - 1e-4 by Bernstein's inequality."""
    trace, actions = sampled
    counts = (actions[:, :, None] == np.arange(trace.dim)).sum(axis=0)
    L = math.log(2 * trace.x.size / 1e-4)
    slack = np.sqrt(2 * L * SEEDS * trace.x * (1 - trace.x)) + 2 * L / 3
    assert (np.abs(counts - SEEDS * trace.x) <= slack).all()
    assert not counts[trace.x == 0.0].any()


def test_the_expected_number_of_switches_is_the_sum_of_total_variations(sampled):
    """Within 4 standard errors of the sample's mean, which a right sampler fails once in 16 000 sets of seeds."""
    trace, actions = sampled
    switches = (np.diff(actions, axis=1) != 0).sum(axis=1)
    error = switches.std(ddof=1) / SEEDS**0.5
    assert error < 0.02 * trace.totals.switching
    assert abs(switches.mean() - trace.totals.switching) <= 4 * error


@given(x=shares(), seed=seeds)
def test_an_action_is_left_only_if_it_lost_and_taken_up_only_if_it_gained(x, seed):
    a = sample_actions(trace_of(x), seed)
    assert (a.dtype, a.shape) == (np.int64, (len(x),))
    t = np.arange(len(x))
    assert (x[t, a] > 0.0).all()
    t = 1 + np.flatnonzero(np.diff(a))
    assert (x[t, a[t]] > x[t - 1, a[t]]).all()
    assert (x[t, a[t - 1]] < x[t - 1, a[t - 1]]).all()


@given(x=shares(), seed=seeds)
def test_actions_depend_on_the_seed_and_the_shares_alone(x, seed):
    a = sample_actions(trace_of(x), seed)
    for same in (seed, np.random.default_rng(seed)):
        assert np.array_equal(a, sample_actions(trace_of(x), same))
    assert np.array_equal(a, sample_actions(trace_of(8.0 * x), seed))


@given(x=shares(), seed=seeds)
def test_a_point_that_stays_keeps_its_action(x, seed):
    assert len(set(sample_actions(trace_of(np.repeat(x[:1], 50, axis=0)), seed))) == 1


@given(where=arrays(np.int64, st.integers(1, 30), elements=st.integers(0, 4)), seed=seeds)
def test_a_vertex_is_its_action(where, seed):
    assert np.array_equal(sample_actions(trace_of(3.0 * np.eye(5)[where]), seed), where)


class Always(np.random.Generator):
    """Draws one number for ever, such as no seed can be found for."""

    def __init__(self, u):
        super().__init__(np.random.PCG64())
        self.u = u

    def random(self, size):  # pyright: ignore[reportIncompatibleMethodOverride]
        return np.full(size, self.u)


LOWEST, HIGHEST = 0.0, np.nextafter(1.0, 0.0)


@given(x=shares(), u=st.sampled_from([LOWEST, HIGHEST]))
def test_not_even_extreme_draws_play_an_action_of_probability_zero(x, u):
    assert (x[np.arange(len(x)), sample_actions(trace_of(x), Always(u))] > 0.0).all()


@pytest.mark.parametrize(
    "x",
    [
        [[0.9, 0.0, 0.1], [0.9, 0.0, np.nextafter(0.1, 0.0)]],
        [[0.5, -1e-10, 0.5 + 1e-10], [0.5, 0.0, 0.5]],
    ],
    ids=["nothing gained", "less negative"],
)
def test_what_is_lost_to_rounding_errors_goes_to_no_action_of_probability_zero(x):
    assert sample_actions(trace_of(x), Always(HIGHEST)).tolist() == [2, 2]


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (
            [[0.5, 0.5], [1.5, -0.5]],
            r"x\[1\] must be without negative numbers and sum to 1, as x\[0\] does, got \[1.5, -0.5\]",
        ),
        (
            [[1.0, 1.0], [1.0, 1.0], [1.0, 0.5]],
            r"x\[2\] must be without negative numbers and sum to 2, as x\[0\] does, got \[1.0, 0.5\]",
        ),
        (
            [[0.5, 0.5], [np.nan, 0.5]],
            r"x\[1\] must be without negative numbers and sum to 1, as x\[0\] does, got \[nan, 0.5\]",
        ),
        ([[0.0, 0.0], [0.0, 0.0]], r"x\[0\] must have a sum above 0, got \[0.0, 0.0\]"),
    ],
)
def test_points_off_the_simplex_are_refused_by_row(x, message):
    with pytest.raises(ValueError, match=f"{message}. Run a learner on a Simplex."):
        sample_actions(trace_of(x), 0)


def test_a_run_without_points_is_refused():
    lean = kl.run(kl.GD(kl.Simplex(2), 1.0), np.ones((3, 2)), record="costs", engine="step")
    with pytest.raises(
        AttributeError, match=r"Trace\.x needs record='actions', got record='costs'"
    ):
        sample_actions(lean, 0)


class TestWholeNumbers:
    @given(seed=st.integers(0, 2**16))
    def test_on_a_box_means_and_expected_moves_are_those_of_the_run(self, seed):
        """Over all thresholds, on a grid: every coordinate's own mean is x, and its mean move |x_t - x_{t-1}|."""
        rng = np.random.default_rng(seed)
        domain = kl.Box([0.0, -2.0], [3.0, 2.0])
        trace = kl.run(kl.GD(domain, 2.0), rng.normal(size=(12, 2)), engine="step")
        n = 400
        grid = (np.arange(n) + 0.5) / n

        class Grid:
            """A generator whose thresholds are given."""

            def __init__(self, theta):
                self.theta = theta

            def random(self, size):
                return np.full(size, self.theta)

        drawn = []
        for theta in grid:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("klazy.game.discrete.seeded", lambda *_, theta=theta: Grid(theta))
                drawn.append(kl.contrib.sample_whole(trace, 0).x)
        drawn = np.array(drawn)
        assert (drawn == np.rint(drawn)).all()
        assert domain.contains(drawn)
        np.testing.assert_allclose(drawn.mean(axis=0), trace.x, atol=1.0 / n)
        moves = np.abs(np.diff(drawn, axis=1)).mean(axis=0)
        np.testing.assert_allclose(moves, np.abs(np.diff(trace.x, axis=0)), atol=2.0 / n)

    def test_it_switches_as_often_as_it_says(self):
        """Of 1000 draws a share has a standard deviation of at most 0.016: four of them."""
        rng = np.random.default_rng(0)
        for domain in (kl.Box([0.0, 0.0], [3.0, 3.0]), kl.Simplex(3, 2.0)):
            trace = kl.run(kl.GD(domain, 4.0), rng.normal(size=(6, domain.dim)), engine="step")
            drawn = np.array([kl.contrib.sample_whole(trace, seed).x for seed in range(1000)])
            changed = (np.diff(drawn, axis=1) != 0.0).any(axis=2).mean(axis=0)
            told = kl.contrib.sample_whole(trace, 0).probability
            assert told[0] == 0.0
            if isinstance(domain, kl.Simplex):  # two units may change places
                assert (changed <= told[1:] + 0.064).all()
                np.testing.assert_allclose(drawn.mean(axis=0), trace.x, atol=0.1)
                moved = 0.5 * np.abs(np.diff(drawn, axis=1)).sum(axis=2).mean(axis=0)
                assert (moved <= 0.5 * np.abs(np.diff(trace.x, axis=0)).sum(axis=1) + 0.1).all()
            else:
                np.testing.assert_allclose(changed, told[1:], atol=0.064)

    def test_what_has_no_whole_points_is_refused(self):
        ball = kl.run(kl.GD(kl.L2Ball(2), 1.0), np.ones((3, 2)), engine="step")
        with pytest.raises(
            ValueError,
            match=(
                r"trace must be of a learner on a Box or a Simplex, got L2Ball\(dim=2\). Use "
                r"Guards\(integers=True\) on others."
            ),
        ):
            kl.contrib.sample_whole(ball, 0)
        half = kl.run(kl.GD(kl.Box(0.0, 1.5), 1.0), np.ones((3, 1)), engine="step")
        with pytest.raises(
            ValueError,
            match=r"The bounds of the Box must be integers, got Box\(lower=\[0.0\], upper=\[1.5\]\).",
        ):
            kl.contrib.sample_whole(half, 0)
