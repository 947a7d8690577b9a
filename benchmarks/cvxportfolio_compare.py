"""The same portfolios in cvxportfolio's simulator and in klazy's: what both say, and where they differ.

klazy does not need cvxportfolio, which is under the GPL, version 3. Install it yourself, and run

    pip install 'klazy[cli,portfolio]' cvxportfolio
    python benchmarks/cvxportfolio_compare.py

Both trade at a close and charge what has to be traded. klazy takes costs out of all holdings, and reaches the weights it aims
at exactly. cvxportfolio takes costs out of cash, which is then a little below zero until the next trade.
"""

from typing import Any

import cvxportfolio as cvx  # pyright: ignore[reportMissingImports]
import numpy as np
import pandas as pd
from skfolio.datasets import load_sp500_dataset

import klazy as kl

SINCE = "2018"
STOCKS = 5
SIDE = 0.001
CAPITAL = 1e6
CASH = "cash"


def simulate(returns: pd.DataFrame, policy: Any) -> float:
    """What 1 became in cvxportfolio."""
    never = pd.Timedelta(days=0)
    data = cvx.UserProvidedMarketData(
        returns=returns.assign(**{CASH: 0.0}), cash_key=CASH, min_history=never
    )
    simulator = cvx.MarketSimulator(
        market_data=data, costs=[cvx.TransactionCost(a=SIDE)], cash_key=CASH
    )
    return simulator.backtest(policy, initial_value=CAPITAL).v.iloc[-1] / CAPITAL


def main() -> None:
    """Print the wealth of three portfolios in both."""
    prices = load_sp500_dataset().loc[SINCE:].iloc[:, :STOCKS]
    prices.index = prices.index.tz_localize("UTC")
    # There, the return of a date is earned after it, and the last row is not played.
    returns = prices.pct_change().shift(-1).fillna(0.0)
    learners = {"ensemble_auto": kl.contrib.ensemble_auto}
    found = kl.portfolio.backtest(prices=prices, bps=1e4 * SIDE, learners=learners)
    dates = returns.index[:-1]
    months = dates[np.append(True, np.diff(dates.month) != 0)]
    equal = pd.Series(1.0 / STOCKS, prices.columns)
    equal[CASH] = 0.0
    weights = found.to_pandas("ensemble_auto").set_axis(dates)
    policies = {
        "1/N daily": cvx.Uniform(),
        "1/N monthly": cvx.PeriodicRebalance(equal, months),
        "ensemble_auto": cvx.FixedWeights(weights),
    }
    print("portfolio      cvxportfolio     klazy  difference")
    for name, policy in policies.items():
        theirs = simulate(returns, policy)
        ours = found.summary[name]["wealth"]
        print(f"{name:14} {theirs:12.5f} {ours:9.5f} {ours / theirs - 1.0:11.4%}")


if __name__ == "__main__":
    main()
