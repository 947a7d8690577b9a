"""Rules for shares of wealth: each by the formulas of its paper, and what all of them keep."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import klazy as kl
from cases import WEALTH
from klazy.base.checks import Array, InvalidInput
from klazy.contrib import (
    OLMAR,
    PAMR,
    BuyAndHold,
    SoftBayes,
    UniformRebalanced,
    exponentiated_gradient,
    newton_shares,
)
from klazy.contrib.learners.newton import _find_shares, _find_shares_slowly

RELATIVES = np.exp(np.random.default_rng(7).normal(0.0, 0.05, (40, 4)))
SIMPLEX = kl.Simplex(4)


def play(learner: kl.types.Learner, relatives: Array = RELATIVES) -> Array:
    return kl.run(learner, kl.LogWealthCosts(relatives), engine="step").x


@pytest.mark.parametrize("name", WEALTH)
@pytest.mark.parametrize("domain", [kl.Simplex(4), kl.CappedSimplex(4, cap=0.4)], ids=repr)
def test_shares_stay_in_the_set_and_know_no_scale(name, domain):
    make = WEALTH[name]
    x = play(make(domain))
    assert all(domain.contains(each) for each in x)
    # Prices of another currency, which moves, say the same; so do shares of another total.
    rates = np.exp(np.random.default_rng(1).normal(size=(40, 1)))
    if name not in ("PAMR", "OLMAR"):  # what they aim at is a return in one currency
        np.testing.assert_allclose(play(make(domain), rates * RELATIVES), x, atol=1e-9)
    double = (
        kl.Simplex(4, 2.0) if type(domain) is kl.Simplex else kl.CappedSimplex(4, 2.0, cap=0.8)
    )
    np.testing.assert_allclose(play(make(double)), 2.0 * x, atol=1e-9)
    with pytest.raises(InvalidInput, match="needs shares of wealth"):
        make(kl.Box(np.zeros(4), np.ones(4)))


def test_exponentiated_gradient_multiplies():
    x = play(exponentiated_gradient(SIMPLEX, 0.3))
    for before, r, after in zip(x, RELATIVES, x[1:], strict=False):
        grown = before * np.exp(0.3 * r / (r @ before))
        np.testing.assert_allclose(after, grown / grown.sum(), rtol=1e-12)


def test_soft_bayes_mixes_bayes_with_the_start():
    x = play(SoftBayes(SIMPLEX))
    w = np.full(4, 0.25)
    for t, (r, after) in enumerate(zip(RELATIVES, x[1:], strict=False), start=1):
        rate, following = (np.sqrt(np.log(4.0) / (8.0 * s)) for s in (t, t + 1))
        w = (
            following / rate * w * (1.0 - rate + rate * r / (r @ w))
            + (1.0 - following / rate) * 0.25
        )
        np.testing.assert_allclose(after, w, rtol=1e-12)


def test_newton_projects_in_its_own_norm():
    x = play(newton_shares(SIMPLEX, beta=2.0, delta=0.5))
    A, b = np.eye(4), np.zeros(4)
    for before, r, after in zip(x[:12], RELATIVES, x[1:], strict=False):
        slope = r / (r @ before)
        A = A + np.outer(slope, slope)
        b = b + 1.5 * slope
        p = cp.Variable(4, nonneg=True)
        gap = np.linalg.cholesky(A).T @ (p - 0.5 * np.linalg.solve(A, b))
        cp.Problem(cp.Minimize(cp.sum_squares(gap)), [cp.sum(p) == 1.0]).solve(cp.CLARABEL)
        np.testing.assert_allclose(after, p.value, atol=1e-6)


def test_newton_steps_know_no_scale_and_take_shares_only():
    for domain, double in (
        (SIMPLEX, kl.Simplex(4, 2.0)),
        (kl.CappedSimplex(4, cap=0.4), kl.CappedSimplex(4, 2.0, cap=0.8)),
    ):
        x = play(newton_shares(domain))
        np.testing.assert_allclose(play(newton_shares(double)), 2.0 * x, atol=1e-9)
    with pytest.raises(InvalidInput, match="newton_shares needs shares of wealth"):
        newton_shares(kl.Box(np.zeros(4), np.ones(4)))


@given(seed=st.integers(0, 10**6))
def test_newton_finds_its_shares_from_any_that_are_held(seed):
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 40))
    slopes = np.exp(rng.normal(0.0, 0.1, (60, d)))
    outer = np.eye(d) + slopes.T @ slopes
    b = rng.uniform(0.1, 2.0) * slopes.sum(axis=0)
    held = rng.random(d) < 0.5
    held[rng.integers(d)] = True
    np.testing.assert_allclose(
        _find_shares(outer, b, held), _find_shares_slowly(outer, b), atol=1e-9
    )


def test_reversion_moves_just_far_enough():
    domain = kl.Simplex(4)
    x = play(PAMR(domain, epsilon=0.9))
    for before, r, after in zip(x, RELATIVES, x[1:], strict=False):
        beyond = r - r.mean()
        step = max(0.0, before @ r - 0.9) / (beyond @ beyond)
        np.testing.assert_allclose(after, domain.project(before - step * beyond), atol=1e-12)
    x = play(OLMAR(domain, epsilon=1.03, window=3))
    prices = np.vstack((np.ones((3, 4)), RELATIVES.cumprod(axis=0)))
    for t in range(3, 30):
        hoped = prices[t + 1 : t + 4][::-1].mean(axis=0) / prices[t + 3]
        beyond = hoped - hoped.mean()
        step = max(0.0, 1.03 - x[t] @ hoped) / (beyond @ beyond)
        np.testing.assert_allclose(x[t + 1], domain.project(x[t] + step * beyond), atol=1e-12)


def test_who_holds_pays_nothing_for_drift():
    drifted = kl.contrib.DriftedMovement(1.0, relatives=RELATIVES)
    costs = kl.LogWealthCosts(RELATIVES)
    held = kl.run(BuyAndHold(SIMPLEX), costs, movement=drifted)
    assert held.totals.switching < 1e-12
    assert held.totals.hitting == pytest.approx(-np.log(RELATIVES.prod(axis=0).mean()), rel=1e-12)
    moves = (
        kl.run(UniformRebalanced(SIMPLEX, every=10), costs, movement=drifted).switching > 1e-12
    )
    assert np.flatnonzero(moves).tolist() == [10, 20, 30]
    np.testing.assert_array_equal(play(UniformRebalanced(SIMPLEX)), play(kl.Fixed(SIMPLEX)))


def test_the_optimum_of_daily_returns_is_proved_to_four_digits():
    relatives = np.exp(np.random.default_rng(0).normal(0.0, 0.02, (1500, 6)))
    price = kl.contrib.DriftedMovement(0.002, relatives=relatives)
    found = kl.offline_optimum(kl.LogWealthCosts(relatives), kl.Simplex(6), price, gap=1e-3)
    assert found.method == "dollars"
    assert found.gap < 2e-4
    start = kl.offline_optimum(
        kl.LogWealthCosts(relatives), kl.Simplex(6), price, gap=1e-3, x0=np.full(6, 1 / 6)
    )
    assert found.lower_bound <= start.lower_bound <= start.cost <= found.cost + 0.002
