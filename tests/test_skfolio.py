"""The optimizer for skfolio: its checks and scikit-learn's, and the real thing over walks."""

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("skfolio")

from skfolio import MultiPeriodPortfolio, Population, Portfolio
from skfolio.model_selection import WalkForward, cross_val_predict, online_predict
from skfolio.optimization import EqualWeighted
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator

import klazy as kl
from klazy.adapters.skfolio import OnlineLearner
from klazy.base.checks import InvalidInput

RETURNS = pd.DataFrame(
    np.random.default_rng(3).normal(0.0, 0.02, (120, 4)),
    pd.bdate_range("2020-01-01", periods=120),
    ["A", "B", "C", "D"],
)


def hold(domain, movement):
    return kl.contrib.BuyAndHold(domain)


def descend(domain, movement):
    return kl.GD(domain, 2.0)


def list_failed(estimator) -> set[str]:
    return {
        each["check_name"]
        for each in check_estimator(estimator, on_fail=None, on_skip=None)
        if each["status"] == "failed"
    }


@pytest.mark.filterwarnings("ignore")
def test_it_fails_no_check_that_skfolios_own_do_not():
    """Four of scikit-learn's checks do not suit what predicts a portfolio; skfolio's own optimizers fail them as well."""
    assert list_failed(OnlineLearner(hold)) <= list_failed(EqualWeighted())


def test_learning_in_parts_is_learning_at_once():
    whole = OnlineLearner(descend).fit(RETURNS)
    parts = OnlineLearner(descend)
    for begin in range(0, 120, 30):
        parts.partial_fit(RETURNS.iloc[begin : begin + 30])
    np.testing.assert_array_equal(whole.weights_, parts.weights_)
    expected = kl.run(
        kl.GD(kl.Simplex(4), 2.0), kl.LogWealthCosts(1.0 + RETURNS.to_numpy())
    ).state.x
    np.testing.assert_array_equal(whole.weights_, expected)
    # fit forgets what was before.
    np.testing.assert_array_equal(
        whole.fit(RETURNS[:30]).weights_, clone(whole).fit(RETURNS[:30]).weights_
    )


def test_predictions_are_skfolios_portfolios():
    found = (
        OnlineLearner(descend, transaction_costs=0.001).fit(RETURNS[:60]).predict(RETURNS[60:])
    )
    assert isinstance(found, Portfolio)
    assert found.returns_df.index.equals(RETURNS.index[60:])
    assert found.total_cost == pytest.approx(0.001)
    walk = cross_val_predict(
        OnlineLearner(descend), RETURNS, cv=WalkForward(train_size=60, test_size=20)
    )
    assert isinstance(walk, MultiPeriodPortfolio)
    assert len(walk) == 3


def test_an_online_walk_is_a_back_test():
    """With one day a window, skfolio's account of drifted weights is klazy's: costs come off returns, not off shares."""
    path = online_predict(
        OnlineLearner(descend, transaction_costs=0.001),
        RETURNS,
        warmup_size=30,
        portfolio_params={"weight_drift": True},
    )
    back = kl.portfolio.backtest(
        returns=RETURNS,
        bps=10.0,
        learners={"GD": descend},
        start=RETURNS.index[29],
        per_year=252.0,
    )
    ours = back.to_pandas("returns")["GD"]
    assert len(path.returns) == len(ours) == 90
    np.testing.assert_allclose(path.returns, ours, atol=1e-5)
    assert isinstance(Population([path]).summary(), pd.DataFrame)


def test_a_learner_must_be_made():
    with pytest.raises(InvalidInput, match="learner must be a learner or make one, as"):
        OnlineLearner(lambda domain, movement: 3).fit(RETURNS)
