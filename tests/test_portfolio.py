"""Back-tests: every number by hand in pandas, laws of the account, and what data and limits do to it."""

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq, linprog

import klazy as kl
from klazy.base.checks import InvalidInput
from klazy.contrib import ImpactMovement
from klazy.datasets import stock_prices
from klazy.studies.portfolio import TradingTerms, backtest, make_market, simulate


@pytest.fixture(scope="module")
def prices() -> pd.DataFrame:
    """Six stocks over three years."""
    pytest.importorskip("skfolio")
    frame = stock_prices().filter(pl.col("time").dt.year() >= 2019)
    found = pd.DataFrame({name: frame[name].to_numpy() for name in frame.columns[1:7]})
    return found.set_index(pd.DatetimeIndex(frame["time"].to_numpy()))


def draw_prices(seed: int, T: int = 60, d: int = 4) -> pd.DataFrame:
    """Random walks of which some stocks begin late, end early or pause."""
    rng = np.random.default_rng(seed)
    values = 50.0 * np.exp(np.cumsum(rng.normal(0.0, 0.03, (T, d)), axis=0))
    values[: rng.integers(1, T // 2), 0] = np.nan
    values[rng.integers(T // 2, T - 1) :, 1] = np.nan
    values[rng.integers(T) :, 2][: rng.integers(1, 9)] = np.nan
    return pd.DataFrame(
        values, index=pd.bdate_range("2020-01-01", periods=T), columns=list("ABCD")[:d]
    )


def account_by_hand(
    prices: pd.DataFrame,
    weights: pd.DataFrame,
    cost: Any = 0.0,
    impact=0.0,
    fee=0.0,
    interest=1.0,
) -> pd.DataFrame:
    """Wealth, turnover and cost of weights on the dates of their rows, one date after the other."""
    rows = []
    holdings, cash = pd.Series(0.0, prices.columns), 1.0

    def charge(trades: pd.Series, wealth: float) -> float:
        size = trades.abs()
        return (
            cost * size + impact * wealth * (size / wealth) ** 1.5 + fee * (size > 1e-9)
        ).sum()

    for day, following in zip(prices.index[:-1], prices.index[1:], strict=True):
        wealth = holdings.sum() + cash
        paid = traded = 0.0
        if day in weights.index:
            # What is left after costs is that from which the costs of getting there leave nothing over.
            def missing(left, day=day, held=holdings, wealth=wealth):
                return left + charge(left * weights.loc[day] - held, wealth) - wealth

            left = brentq(missing, 0.0, wealth, xtol=1e-15, rtol=1e-15)
            trades = left * weights.loc[day] - holdings
            paid = charge(trades, wealth) / wealth
            traded = (
                (trades.abs().sum() + abs(left * (1.0 - weights.loc[day].sum()) - cash))
                / wealth
                / 2.0
            )
            holdings, cash = left * weights.loc[day], left * (1.0 - weights.loc[day].sum())
        holdings = holdings * prices.loc[following] / prices.loc[day]
        cash *= interest
        rows.append((following, holdings.sum() + cash, traded, paid))
    return pd.DataFrame(rows, columns=["date", "wealth", "turnover", "cost"]).set_index("date")


def test_every_number_is_that_of_pandas(prices):
    prices = prices.iloc[:170]
    own = pd.DataFrame({"AAPL": [0.5, 0.1], "BAC": [0.2, 0.8]}, index=prices.index[[0, 100]])
    found = backtest(
        prices=prices,
        weights={"mine": own, "mix": {"AAPL": 0.6, "GE": 0.4}},
        bps=15.0,
        learners={},
    )
    equal = pd.DataFrame(1.0 / 6.0, prices.index, prices.columns)
    first = prices.index[:1]
    months = prices.index[np.append(True, np.diff(prices.index.month) != 0)]
    best = (prices.iloc[-1] / prices.iloc[0]).idxmax()
    weights = {
        "1/N daily": equal,
        "1/N monthly": equal.loc[months],
        "1/N held": equal.loc[first],
        "best stock": (equal * 0.0).assign(**{best: 1.0}).loc[first],
        "mine": own.reindex(columns=prices.columns).fillna(0.0),
        "mix daily": (equal * 0.0).assign(AAPL=0.6, GE=0.4),
        "mix held": (equal * 0.0).assign(AAPL=0.6, GE=0.4).loc[first],
    }
    days = len(prices) - 1
    years = (prices.index[-1] - prices.index[0]).days / 365.25
    equal_parts = account_by_hand(prices, equal, 15e-4)
    for name, each in weights.items():
        by_hand = account_by_hand(prices, each, 15e-4)
        wealth = pd.concat([pd.Series([1.0], first), by_hand["wealth"]])
        returns = wealth.pct_change().dropna()
        logs = np.log(by_hand["wealth"] / equal_parts["wealth"]).iloc[-1]
        expected = {
            "wealth": wealth.iloc[-1],
            "growth": wealth.iloc[-1] ** (1.0 / years) - 1.0,
            "volatility": returns.std() * np.sqrt(days / years),
            "sharpe": returns.mean() / returns.std() * np.sqrt(days / years),
            "sortino": returns.mean()
            / np.sqrt((returns.clip(upper=0.0) ** 2).mean())
            * np.sqrt(days / years),
            "drawdown": (1.0 - wealth / wealth.cummax()).max(),
            "turnover": by_hand["turnover"].sum() / years,
            "cost": by_hand["cost"].sum() / years,
            "ahead": logs / years,
        }
        row = dict(found.summary[name])
        low, high = row.pop("low"), row.pop("high")
        assert row == pytest.approx(expected, rel=1e-9, abs=1e-12), name
        assert low <= row["ahead"] <= high
        pd.testing.assert_series_equal(
            found.to_pandas("wealth")[name],
            wealth,
            rtol=1e-10,
            check_names=False,
            check_index_type=False,
        )


def test_costs_of_each_asset_impact_fees_and_interest_are_those_of_pandas(prices):
    bps = pd.Series({name: 3.0 * at for at, name in enumerate(reversed(prices.columns))})
    costs = {
        "bps": bps,
        "impact": ImpactMovement(0.02),
        "fee": 25.0,
        "capital": 1e6,
        "cash": 0.03,
    }
    own = pd.DataFrame({"AAPL": [0.3, 0.1], "BAC": [0.2, 0.5]}, index=prices.index[[0, 300]])
    found = backtest(prices=prices, weights={"mine": own}, learners={}, **costs)
    interest = 1.03 ** (1.0 / found.market.per_year)
    equal = pd.DataFrame(1.0 / 6.0, prices.index, prices.columns)
    months = prices.index[np.append(True, np.diff(prices.index.month) != 0)]
    mine = own.reindex(columns=prices.columns).fillna(0.0)
    for name, weights in {"mine": mine, "1/N monthly": equal.loc[months]}.items():
        by_hand = account_by_hand(prices, weights, 1e-4 * bps, 0.02, 25.0 / 1e6, interest)
        for figure in ("wealth", "turnover", "cost"):
            series = found.to_pandas(figure)[name].to_numpy()
            np.testing.assert_allclose(
                series[figure == "wealth" :], by_hand[figure], rtol=1e-9, atol=1e-13
            )
        returns = (
            by_hand["wealth"].to_numpy() / np.append(1.0, by_hand["wealth"].to_numpy()[:-1])
            - interest
        )
        ratio = returns.mean() / returns.std(ddof=1) * np.sqrt(found.market.per_year)
        assert found.summary[name]["sharpe"] == pytest.approx(ratio, rel=1e-9)
    terms = (
        "6 assets, 0 to 15 basis points per side, impact, a fee per order, cash at 3.00% a year."
    )
    assert terms in found.verdict[0]


def test_the_interval_is_that_of_resampled_months(prices):
    found = backtest(prices=prices, learners={}, seed=3)
    logs = np.diff(np.log(found.to_pandas("wealth")[["1/N held", "1/N daily"]]), axis=0)
    beyond = logs[:, 0] - logs[:, 1]
    T = len(beyond)
    rng = np.random.default_rng(5)
    means = []
    for _ in range(2000):
        days = (rng.integers(T, size=-(-T // 21))[:, None] + np.arange(21)) % T
        means.append(beyond[days].mean() * found.market.per_year)
    row = found.summary["1/N held"]
    width = row["high"] - row["low"]
    assert [row["low"], row["high"]] == pytest.approx(
        np.quantile(means, [0.025, 0.975]).tolist(), abs=0.1 * width
    )


def solve_dollars(prices: pd.DataFrame, rates: np.ndarray) -> float:
    """The most that 1 can become, as a linear programme over dollars; no price is missing."""
    growth = (prices / prices.shift()).to_numpy()[1:]
    T, d = growth.shape
    # For each round: what is bought and sold of each asset, what is held after that, and the cash.
    width = 3 * d + 1
    A, b = [], []
    for t in range(T):
        cash = np.zeros((T, width))
        cash[t, :d] = 1.0 + rates
        cash[t, d : 2 * d] = rates - 1.0
        cash[t, -1] = 1.0
        if t > 0:
            cash[t - 1, -1] = -1.0
        A.append(cash.ravel())
        b.append(1.0 if t == 0 else 0.0)
        for i in range(d):
            held = np.zeros((T, width))
            held[t, [i, d + i, 2 * d + i]] = -1.0, 1.0, 1.0
            if t > 0:
                held[t - 1, 2 * d + i] = -growth[t - 1, i]
            A.append(held.ravel())
            b.append(0.0)
    worth = np.zeros((T, width))
    worth[-1, 2 * d :] = np.append(growth[-1], 1.0)
    return -linprog(-worth.ravel(), A_eq=np.array(A), b_eq=b).fun


@pytest.mark.parametrize("seed", range(4))
def test_the_best_possible_is_that_of_a_linear_programme(seed):
    frame = draw_prices(seed, T=14, d=3).bfill().ffill()
    rates = np.array([0.001, 0.02, 0.05])
    found = backtest(
        prices=frame, bps=dict(zip(frame.columns, 1e4 * rates, strict=True)), learners={}
    )
    assert np.exp(found.bound) == pytest.approx(solve_dollars(frame, rates), rel=1e-7)
    assert found.summary["best possible"]["wealth"] == pytest.approx(
        np.exp(found.bound), rel=1e-11
    )


@given(seed=st.integers(0, 10**6))
def test_the_account_keeps_its_books(seed):
    rng = np.random.default_rng(seed)
    market = make_market(draw_prices(seed), None, 0.03, None)
    T, width = market.growth.shape
    aims = rng.dirichlet(np.full(width, 0.3), (3, T))
    aims[:, rng.random(T) < 0.3] = np.nan
    limit = rng.choice([0.2, np.inf])
    group = (np.array([0, 3]), 0.5)
    terms = TradingTerms(
        0.002 * rng.random(4), 0.01 * rng.random(4), 1e-5, np.full(4, 0.6), [group], limit
    )
    found = simulate(market, aims, terms)
    weights, wealth = found.weights, found.wealth
    np.testing.assert_allclose(weights.sum(axis=2), 1.0, rtol=1e-12)
    assert weights.min() >= -1e-12
    # Wealth changes by costs and prices alone, and what is gone is worth what it was.
    growth = np.where(
        np.hstack((market.gone[:-1], np.zeros((T, 1), bool))),
        market.growth[:, -1:],
        market.growth,
    )
    by_hand = wealth[:, :-1] * (1.0 - found.paid) * (weights * growth).sum(axis=2)
    np.testing.assert_allclose(wealth[:, 1:], by_hand, rtol=1e-12)
    # What costs take changes shares, too.
    assert (found.turnover - found.paid).max() <= limit + 1e-9
    # Nobody trades what has no price, or holds what is gone.
    before = weights[:, :-1] * market.growth[:-1]
    dollars = wealth[:, :-2] * (1.0 - found.paid[:, :-1])
    after = (wealth[:, 1:-1] * (1.0 - found.paid[:, 1:]))[..., None] * weights[:, 1:]
    pauses = ~market.known[1:-1] & ~market.gone[1:-1]
    moved = np.abs(after - dollars[..., None] * before)[..., :-1]
    assert (moved[:, pauses] <= 1e-12).all()
    assert (weights[..., :-1][:, market.gone[:-1]] == 0.0).all()
    # A trade ends within caps and groups, unless its size is limited, or something cannot be sold.
    if limit == np.inf:
        traded = ~np.isnan(aims[:, :, 0]) & market.known[:-1].all(axis=1)
        assert weights[traded][:, :-1].max(initial=0.0) <= 0.6 + 1e-9
        assert weights[traded][:, [0, 3]].sum(axis=1).max(initial=0.0) <= 0.5 + 1e-9


@given(seed=st.integers(0, 10**6))
def test_nobody_beats_the_best_possible(seed):
    frame = draw_prices(seed, T=20)
    rng = np.random.default_rng(seed)
    tried = {
        str(i): pd.DataFrame(rng.dirichlet(np.full(4, 0.1), 20), frame.index, frame.columns)
        for i in range(3)
    }
    found = backtest(prices=frame, weights=tried, bps=rng.choice([0.0, 10.0, 300.0]), learners={})
    assert np.log(found.account.wealth[:, -1]).max() <= found.bound
    assert np.log(found.summary["best possible"]["wealth"]) == pytest.approx(
        found.bound, abs=1e-10
    )


def test_an_order_is_continued_where_turnover_is_limited(prices):
    found = backtest(prices=prices, learners={}, turnover=0.1, bps=0.0)
    invested = 1.0 - found.to_pandas("1/N held")["cash"]
    assert invested.iloc[:9].tolist() == pytest.approx(
        np.linspace(0.1, 0.9, 9).tolist(), abs=0.02
    )
    assert invested.iloc[12:].min() == pytest.approx(1.0)
    assert found.to_pandas("turnover")["1/N held"].iloc[12:].max() == 0.0


def test_late_listings_pauses_and_the_end_of_an_asset():
    days = pd.date_range("2024-01-01", periods=6)
    values = {
        "A": [10.0, 10, 10, 10, 10, 10],
        "B": [np.nan, 4, 5, np.nan, 8, 8],
        "C": [2.0, 2, 3, np.nan, np.nan, np.nan],
    }
    found = backtest(prices=pd.DataFrame(values, days), bps=0.0, learners={})
    weights = found.to_pandas("1/N daily")
    # B is bought when it has a price, stays when it has none, and C becomes cash at its last price, which is invested.
    assert weights["B"].tolist() == pytest.approx([0.0, 1 / 3, 1 / 3, 1 / 3, 0.5], abs=1e-12)
    assert weights["C"].tolist() == pytest.approx([0.5, 1 / 3, 1 / 3, 0.0, 0.0], abs=1e-12)
    assert found.to_pandas("wealth")["1/N daily"].to_numpy()[-1] == pytest.approx(
        (1 + 0.25 / 3 + 0.5 / 3) * (1.0 + 0.6 / 3), rel=1e-9
    )


def test_prices_and_returns_give_the_same_in_pandas_and_polars(prices):
    expected = backtest(prices=prices, learners={}).account.wealth[:, -1]
    returns = prices.pct_change()
    found = backtest(returns=returns, learners={})
    assert found.account.wealth[:, -1] == pytest.approx(expected, rel=1e-9)
    assert found.market.dates.tolist() == prices.index.to_numpy().astype("datetime64[s]").tolist()
    # Rows that were chosen by a condition are numbered, which are no dates.
    chosen = prices.rename_axis("date").reset_index()
    chosen = chosen[chosen["GE"] > 0.0].set_axis(np.arange(len(chosen)) + 3)
    assert (
        backtest(prices=chosen, learners={}).account.wealth[:, -1].tolist() == expected.tolist()
    )
    # Without the empty row that pct_change leaves, the date of the first purchase is not known.
    found = backtest(returns=returns.iloc[1:], learners={}, per_year=252.0)
    assert found.account.wealth[[0, 2, 3], -1] == pytest.approx(expected[[0, 2, 3]], rel=1e-9)
    table = pl.DataFrame(
        {"date": prices.index.to_numpy().astype("datetime64[ms]")}
        | {name: prices[name].to_numpy() for name in prices}
    )
    assert backtest(prices=table, learners={}).account.wealth[:, -1].tolist() == expected.tolist()


def test_weights_of_a_back_test_can_be_played_again(prices):
    first = backtest(prices=prices, learners={}, turnover=0.2)
    again = backtest(prices=prices, learners={}, weights={"again": first.to_pandas("1/N daily")})
    assert again.account.wealth[again.names.index("again"), -1] == pytest.approx(
        first.account.wealth[0, -1], rel=1e-9
    )


def test_columns_may_have_numbers_for_names(prices):
    numbered = prices.set_axis(range(6), axis=1)
    found = backtest(prices=numbered, learners={}, bps=dict.fromkeys(range(6), 3.0))
    np.testing.assert_array_equal(
        found.account.wealth, backtest(prices=prices, learners={}, bps=3.0).account.wealth
    )


def test_who_is_ruined_by_fees_stays_so(prices):
    found = backtest(prices=prices.iloc[:170], learners={}, fee=1e6)
    assert found.summary["1/N daily"]["wealth"] == 0.0
    assert not any(np.isnan(row["low"]) for row in found.summary.values())
    assert "the best way found reaches 0." in repr(found)
    assert found.plot("wealth").axes


def test_who_holds_cash_has_a_row_and_lines(prices):
    found = backtest(prices=prices, learners={}, weights={"cash": {"GE": 0.0}})
    cells = next(
        line for line in repr(found).splitlines() if line.startswith("cash held")
    ).split()
    # It has neither volatility nor ratios.
    assert cells[9:] == ["0.0%", "0%", "0.0", "0", "bp"]
    for figure in ("wealth", "drawdown", "turnover"):
        (axes,) = found.plot(figure, ["cash held", "1/N daily"]).axes
        assert np.isfinite(axes.get_ylim()).all()
    assert found.plot("turnover", "cash held").axes


def test_a_year_is_played_by_who_had_earned_most_before(prices):
    choices = [kl.Fixed(kl.Simplex(6), start=np.eye(6)[i]) for i in (5, 0)]
    found = backtest(
        prices=prices, learners={"choice": choices, "late": choices[1]}, start="2020-06-01"
    )
    assert found.kinds["choice"] == "yours"
    weights = found.to_pandas("choice").to_numpy()[:, :6]
    dates = found.market.dates
    wealth = prices.loc[dates].to_numpy()[:, [5, 0]]
    begins = np.searchsorted(dates, np.array(["2021-01-01", "2022-01-01"], dtype=dates.dtype))
    ahead = [int((wealth[begin] / wealth[0]).argmax()) for begin in begins]
    assert 1 in ahead
    played = [weights[0], *(weights[begin + 5] for begin in begins)]
    assert [int(x.argmax()) for x in played] == [(5, 0)[best] for best in (0, *ahead)]


def test_learners_see_nothing_of_the_day_they_decide_for(prices):
    short = {"PAMR": kl.contrib.PAMR}
    weights = backtest(prices=prices, learners=short, bps=0.0).to_pandas("PAMR").to_numpy()
    relatives = (prices / prices.shift()).to_numpy()[1:]
    x = kl.run(kl.contrib.PAMR(kl.Simplex(6)), kl.LogWealthCosts(relatives[:-1]), engine="step")
    np.testing.assert_allclose(weights[:-1, :6], x.x, atol=1e-12)
    np.testing.assert_allclose(weights[-1, :6], x.state.x, atol=1e-12)


def test_what_has_ended_is_paid_out_for_nothing():
    values = {"A": [10.0, 20.0, 40.0, np.nan, np.nan], "B": [90.0, 10.0, 10.0, 10.0, 30.0]}
    frame = pd.DataFrame(values, pd.date_range("2024-01-01", periods=5))
    found = backtest(prices=frame, bps=1000.0, learners={})
    # A purchase takes a tenth of what it buys. A is never sold.
    assert np.exp(found.bound) == pytest.approx(4.0 / 1.1 * 3.0 / 1.1, rel=1e-12)
    assert found.summary["best possible"]["wealth"] == pytest.approx(
        np.exp(found.bound), rel=1e-12
    )


def test_impact_is_charged_on_top(prices):
    prices = prices.iloc[:170]
    plain = backtest(prices=prices, learners={}).account
    found = backtest(prices=prices, learners={}, impact=ImpactMovement(0.1)).account
    x = plain.weights[0, 0, :-1]
    assert found.paid[0, 0] == pytest.approx(
        (0.001 + 0.1 * (x**1.5).sum()) * (1.0 - 0.06), rel=0.01
    )
    with_fee = backtest(prices=prices, learners={}, fee=50.0, capital=1e5).account
    assert with_fee.paid[0, 0] - plain.paid[0, 0] == pytest.approx(6 * 5e-4, rel=0.01)


def test_everyone_of_the_literature_plays_and_the_result_shows_itself(prices, monkeypatch):
    """By step: kernels would take longer to compile than they save."""

    def run_by_step(learner, costs, movement, engine):
        return kl.run(learner, costs, movement=movement, engine="step")

    monkeypatch.setattr("klazy.studies.portfolio.run", run_by_step)
    found = backtest(prices=prices.iloc[:100], cap=0.5, cash=0.02)
    assert {"auto", "exponentiated gradient", "online Newton step", "OLMAR"} <= set(found.names)
    text = repr(found)
    assert text.splitlines()[0].split()[:4] == ["portfolio", "kind", "wealth", "growth"]
    assert "limits, nobody could have multiplied wealth by more than" in text
    assert "klazy" in found._repr_html_()
    assert found.to_pandas().shape == (len(found.names), 12)
    assert found.to_csv().splitlines()[1].startswith(f"{found.list_rows()[0]['portfolio']},")
    assert "tabular" in found.to_latex()
    for figure in ("wealth", "drawdown", "turnover", "weights"):
        assert found.plot(figure).axes
    assert found.plot("wealth", "auto").axes[0].get_yscale() == "log"
    assert (
        found.to_pandas("auto")["cash"].max() > 0.0 or found.to_pandas("PAMR")["cash"].max() > 0.0
    )


DAYS = pd.date_range("2024-01-01", periods=40)
WALK = pd.DataFrame(np.exp(np.cumsum(np.full((40, 2), [0.01, -0.01]), axis=0)), DAYS, ["A", "B"])
RELATIVES = WALK / WALK.shift() + np.resize([0.01, -0.01], (40, 1))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "Pass prices=frame or returns=frame, one of the two."),
        (
            {"prices": RELATIVES.iloc[1:]},
            "prices must be prices. They look like price relatives, as they are around 1. Pass returns=frame - 1.",
        ),
        (
            {"prices": RELATIVES.iloc[1:] - 1.0},
            "prices must be prices. They look like returns, as they are around 0. Pass returns=frame.",
        ),
        (
            {"returns": RELATIVES.iloc[1:]},
            "returns must be returns. They look like price relatives, as they are around 1. Pass returns=frame - 1.",
        ),
        (
            {"returns": 30.0 * WALK},
            "returns must be returns. They look like prices. Pass prices=frame.",
        ),
        (
            {"prices": WALK.reset_index(drop=True)},
            "prices must have dates, as its index or as a column called date.",
        ),
        (
            {"prices": WALK.iloc[::-1]},
            "The dates of prices must ascend, but 2024-02-08T00:00:00 is not after the one before it. "
            "Sort the frame, with one row per date.",
        ),
        ({"prices": WALK, "bps": {"C": 1.0}}, "bps must name assets, got 'C'. They are A, B."),
        (
            {"prices": WALK, "cap": 0.4},
            "cap leaves room for 0.8 of the wealth only. Write cash=0.0 to allow cash.",
        ),
        ({"prices": WALK, "bps": {"A": 1.0}}, "bps must name every asset, but B is missing."),
        (
            {"prices": WALK, "weights": {"mine": {"A": 1.5}}},
            "weights['mine'] must add up to at most 1, got 1.5. The rest is cash.",
        ),
        (
            {"returns": 100.0 * (RELATIVES.iloc[1:] - 1.0)},
            "returns must be returns. They look like returns in per cent. Pass returns=frame / 100.",
        ),
        (
            {"prices": WALK.set_axis([20240101 + at for at in range(40)])},
            "prices must have dates, or text such as 2024-01-31, got 20240101. "
            "Convert them, for example by pandas.to_datetime.",
        ),
        (
            {"prices": pd.concat((WALK, WALK), axis=1)},
            "prices must have a column per asset, but A is there twice.",
        ),
        (
            {"prices": pd.concat({"Close": WALK}, axis=1)},
            "prices must have a column per asset, but its columns are grouped. Pass frame['Close'].",
        ),
        (
            {"prices": WALK.assign(C=np.nan)},
            "prices must have at least 3 dates, and each column a number, and C has none.",
        ),
        (
            {"prices": WALK.assign(B=0.0)},
            "prices must be above 0, got 0 in B. For a total loss write 0.0001.",
        ),
        (
            {"prices": WALK, "weights": {"A": 0.4, "B": 0.2}},
            'weights must name portfolios, got 0.4 for \'A\'. Write weights={"mine": {"AAPL": 0.6, "BAC": 0.4}}.',
        ),
        (
            {"prices": WALK, "weights": WALK},
            'weights must be a mapping from names, got DataFrame. Write weights={"mine": ...}.',
        ),
        (
            {"prices": WALK, "weights": {"mine": [0.5]}},
            "weights['mine'] must have a number for each of 2 assets, got 1.",
        ),
        (
            {"prices": WALK, "weights": {"1/N": [0.5, 0.5]}},
            "The table has a portfolio called 1/N daily already. Choose another name for yours.",
        ),
        (
            {"prices": WALK, "weights": {"mine": WALK.set_axis(DAYS + pd.Timedelta(days=90))}},
            "weights['mine'] must have a date before 2024-02-09T00:00:00, the last one.",
        ),
        (
            {"prices": WALK, "groups": {"all": ["A", "B"]}},
            "groups must give assets and a limit, got ['A', 'B'] for 'all'. "
            'Write groups={"tech": (["AAPL", "MSFT"], 0.3)}.',
        ),
        ({"prices": WALK, "start": "soon"}, "start must be a date such as 2024-01-31, got soon."),
        (
            {"prices": WALK, "cash": -1.0},
            "cash must be above -1, got -1.0. 0.02 is two per cent a year.",
        ),
        (
            {"prices": WALK, "bps": 1e4},
            "bps must be below 10000, got 10000. 10 is a tenth of a per cent.",
        ),
        (
            {"prices": WALK, "learners": {"EG": "auto"}},
            "learners['EG'] must be a learner or make one, as kl.contrib.SoftBayes or lambda domain: kl.GD(domain, 1.0), "
            "got 'auto': 'auto' is not a callable object.",
        ),
    ],
)
def test_bad_input_is_explained(arguments, message):
    with pytest.raises(InvalidInput) as refused:
        backtest(**arguments)
    assert str(refused.value) == message


def test_prices_around_one_are_still_prices():
    assert backtest(prices=WALK, learners={}).names[0] == "1/N daily"
