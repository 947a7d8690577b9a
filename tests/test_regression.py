"""Forecasts by regression: what is learned, against the formulas solved by NumPy, and a leader that learns once for all."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.lib.stride_tricks import sliding_window_view

import klazy as kl
from klazy.kernels import codes
from klazy.kernels.codes import REGRESSION_BANDS as BANDS
from klazy.kernels.codes import REGRESSION_SLOTS as SLOTS
from klazy.learners.autoregressive import HORIZONS, Regression

SIMPLEX = kl.Simplex(5)
TV = kl.TVMovement(1.0)


def draw_returning(seed: int, T: int, d: int = 3, keep: float = 0.95) -> np.ndarray:
    """Means that return to zero, under noise."""
    rng = np.random.default_rng(seed)
    rows = np.zeros((T, d))
    for t in range(1, T):
        rows[t] = keep * rows[t - 1] + 0.3 * rng.normal(size=d)
    return rows + 0.2 * rng.normal(size=(T, d))


def learn(rows: np.ndarray, centred: bool = False) -> tuple[Regression, np.ndarray]:
    regression = Regression(rows.shape[1], centred)
    known = regression.init()
    for row in rows:
        known = regression.observe(known, row)
    return regression, known


def list_features(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The bands and the mean of all rows, after every round, from their definitions."""
    rounds = np.arange(1, len(rows) + 1)
    ages = rounds[:, None] - rounds
    smoothed = []
    for k in range(BANDS):
        keep = 1.0 - 0.5**k
        weights = np.where(ages >= 0, keep ** np.maximum(ages, 0), 0.0)
        smoothed.append(weights / weights.sum(axis=1, keepdims=True) @ rows)
    mean = np.cumsum(rows, axis=0) / rounds[:, None]
    smoothed.append(mean)
    return -np.diff(np.array(smoothed), axis=0).transpose(1, 2, 0), mean


@pytest.mark.parametrize("T", [3, 40, 400])
def test_it_solves_the_ridge_regressions_of_its_definition(T):
    rows = draw_returning(0, T)
    regression, known = learn(rows)
    solved = int(known[codes.REGRESSION_SOLVED])
    _, then = learn(rows[:solved])
    features, mean = list_features(rows[:solved])
    products = np.einsum("tik,til->kl", features, features)
    for h, horizon in enumerate(HORIZONS):
        spacing = max(horizon // SLOTS, 1)
        starts = np.arange(spacing, solved - horizon + 1, spacing)
        if len(starts) == 0:
            assert not regression.read(known, "coefficients")[:, h].any()
            continue
        ahead = sliding_window_view(rows[:solved], horizon, axis=0).mean(axis=2)
        targets = ahead[starts] - mean[starts - 1]
        noise = min(horizon, SLOTS) * (targets**2).mean()
        found = np.einsum("tik,ti->k", features[starts - 1], targets)
        matrix = len(starts) / solved * products + noise * np.eye(BANDS)
        b = np.linalg.solve(matrix, found)
        np.testing.assert_allclose(
            regression.read(known, "coefficients")[:, h], b, rtol=1e-9, atol=1e-9
        )
        np.testing.assert_allclose(
            regression.forecast(then, horizon), mean[-1] + features[-1] @ b, rtol=1e-9, atol=1e-9
        )


def test_it_forecasts_what_returns_nearly_as_well_as_a_filter_that_knows_how():
    """The filter is Kalman's, with the parameters that the rows were drawn by; no forecast has smaller errors on average."""
    keep, shock, noise = 0.95, 0.3**2, 0.2**2
    rows = draw_returning(1, 3000, keep=keep)
    regression = Regression(3, False)
    known = regression.init()
    mean = np.zeros(3)
    variance = 0.0
    missed = np.zeros(2)
    for t, row in enumerate(rows[:-8]):
        known = regression.observe(known, row)
        gain = variance / (variance + noise)
        mean = mean + gain * (row - mean)
        filtered = mean * (keep ** np.arange(1, 9)).mean()
        mean = keep * mean
        variance = keep**2 * (1.0 - gain) * variance + shock
        ahead = rows[t + 1 : t + 9].mean(axis=0)
        guesses = np.array([regression.forecast(known, 8), filtered])
        if t >= 200:
            missed += ((guesses - ahead) ** 2).sum(axis=1)
    ours, theirs = missed
    # Eleven coefficients are learned from what amounts to some thousand targets that do not overlap.
    assert theirs < ours < 1.06 * theirs


@given(st.integers(0, 1000), st.sampled_from([-300, -40, 3, 100]))
def test_forecasts_scale_with_the_rows(seed, power):
    """Bit for bit by a power of two, unless squares of rows vanish or overflow."""
    rows = draw_returning(seed, 60)
    regression, known = learn(rows)
    _, scaled = learn(np.ldexp(rows, power))
    ours = regression.read(scaled, "forecasts")
    theirs = np.ldexp(regression.read(known, "forecasts"), power)
    if power == -300:
        # Squares are below the smallest that count, so the forecast is the mean of all rows.
        theirs = np.repeat(np.ldexp(rows.mean(axis=0), power)[:, None], len(HORIZONS), axis=1)
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)


@given(st.integers(0, 1000), st.floats(-5.0, 5.0))
def test_what_all_coordinates_share_does_not_count_on_a_simplex(seed, shift):
    rows = draw_returning(seed, 60)
    rng = np.random.default_rng(seed)
    regression, known = learn(rows, centred=True)
    _, shifted = learn(rows + shift + rng.normal(size=(60, 1)), centred=True)
    ours = regression.read(shifted, "forecasts")
    np.testing.assert_allclose(ours, regression.read(known, "forecasts"), rtol=1e-7, atol=1e-9)


def test_rows_that_never_change_are_forecast_as_they_are():
    regression, known = learn(np.tile([2.0, -1.0], (50, 1)))
    np.testing.assert_allclose(regression.forecast(known, 16), [2.0, -1.0], rtol=1e-12)


@pytest.mark.parametrize(
    ("domain", "movement", "family"),
    [(SIMPLEX, TV, None), (kl.L1Ball(5), kl.L2Movement(0.3), kl.Quadratic())],
    ids=repr,
)
def test_a_leader_learns_once_and_its_experts_play_as_alone(domain, movement, family):
    """A seasonal expert is there so that the kernels are those of auto, which other tests need."""
    experts = [
        kl.contrib.Autoregressive(domain, movement, horizon, family=family)
        for horizon in (2, 16, 256)
    ]
    others = [
        kl.contrib.Reluctant(domain, movement, 8.0, 16.0, family=family),
        kl.contrib.Seasonal(domain, movement, 3, 2, family=family),
    ]
    learner = kl.contrib.Leader([*others, *experts], movement, family=family)
    rows = draw_returning(2, 400, d=5)
    costs = kl.contrib.LinearCosts(rows) if family is None else family.costs(rows)
    led = kl.run(learner, costs, engine="step", record="experts")
    compiled = kl.Agent(learner, engine="compiled")
    for t, row in enumerate(rows):
        np.testing.assert_allclose(compiled.x, led.x[t], rtol=0, atol=1e-12)
        compiled.observe(row) if family else compiled.update(row)
    np.testing.assert_array_equal(compiled.state.regression, led.state.regression)
    assert led.state.regression.size == experts[0].regression.size
    for state, expert in zip(led.state.experts[len(others) :], experts, strict=True):
        alone = kl.run(expert, costs, engine="step").state
        np.testing.assert_array_equal(state.x, alone.x)
        assert state.regression.size == 0
        assert alone.regression.tobytes() == led.state.regression.tobytes()


def test_a_regression_that_no_learner_left_is_refused():
    learner = kl.contrib.Autoregressive(SIMPLEX, TV, 8)
    state = kl.run(learner, np.ones((3, 5)), engine="step").state
    known = state.regression.copy()
    known[codes.REGRESSION_SOLVED] = 99.0
    with pytest.raises(
        ValueError,
        match=r"state.regression must come from a trace or agent of this learner, got ",
    ):
        kl.run(learner, np.ones((3, 5)), state=state._replace(regression=known), engine="step")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"horizon": 5}, "horizon must be one of 2, 4, 8, 16, 32, 64, 128, 256, got 5."),
        (
            {"family": kl.Pinball()},
            r"family must forecast one number per coordinate, got Pinball\(",
        ),
    ],
)
def test_what_it_cannot_forecast_is_refused(arguments, words):
    good = {"domain": SIMPLEX, "movement": TV, "horizon": 8}
    with pytest.raises(ValueError, match=words):
        kl.contrib.Autoregressive(**good | arguments)


def test_it_says_what_it_forecasts():
    agent = kl.Agent(kl.contrib.Autoregressive(SIMPLEX, TV, 8), engine="step")
    agent.update(np.arange(5.0))
    words = str(agent.explain())
    assert (
        "for the next 8 rounds by regression on all rounds so far, and moves when that pays"
        in words
    )


def test_one_jump_after_rows_that_were_all_alike_is_no_division_by_zero():
    """Targets of long horizons are still rounding errors when features are not."""
    rows = np.tile([0.3, -0.1, 0.7], (150, 1))
    rows[101:] *= -1.0
    regression, known = learn(rows, centred=True)
    assert np.isfinite(known).all()
    assert np.abs(regression.read(known, "forecasts")).max() < 2.0


def test_a_leader_moves_to_no_expert_that_forgets_while_forecasts_are_no_better_than_the_mean():
    domain = kl.Box(-np.ones(3), np.ones(3))
    movement = kl.L1Movement(1.0)
    experts = [
        kl.contrib.Reluctant(domain, movement, None, 1.0),
        kl.contrib.Reluctant(domain, movement, 4.0, 16.0),
    ]
    learner = kl.contrib.Leader(
        [*experts, kl.contrib.Autoregressive(domain, movement, 8)], movement
    )
    noise = np.random.default_rng(5).normal(size=(300, 3))
    followed = kl.run(learner, noise, record="experts", engine="step").leader
    assert (followed == 0).all()
    phases = noise + np.repeat([[5.0], [-5.0], [5.0]], 100, axis=0)
    trace = kl.run(learner, phases, record="experts", engine="step")
    assert (trace.leader == 1).any()
    assert learner.regression is not None
    assert learner.regression.has_evidence(trace.state.regression)
    assert 0.3 < learner.regression.skill(trace.state.regression, 8) < 1.0
    # Which forecast is followed, how good it was beside the mean of all rounds, and what would make it move.
    words = learner.describe_memory(trace.state)
    assert words.startswith(f"It follows expert {trace.state.leader + 1} of 3 (looks back ")
    best = max(learner.regression.skill(trace.state.regression, 2**k) for k in range(1, 9))
    assert f"better than the mean of all rounds by {best:.2f} (0: no better, 1: exact)" in words
    alone = kl.contrib.Autoregressive(domain, movement, 8)
    state = kl.run(alone, 0.1 * noise[:40], engine="step").state
    best_point = domain.argmin_linear(alone.regression.forecast(state.regression, 8))
    saved = 8.0 * alone.regression.forecast(state.regression, 8) @ (state.x - best_point)
    cost = np.abs(best_point - state.x).sum()
    assert cost > saved > 0.0
    words = alone.describe_memory(state)
    assert f"to go there would save {saved:.4g} in 8 rounds, and cost {cost:.4g}." in words
    skill = max(alone.regression.skill(state.regression, 8), 0.0)
    assert f"better than the mean of all rounds by {skill:.2f}" in words
