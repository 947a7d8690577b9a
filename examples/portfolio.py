"""Which stocks tomorrow? Wealth in twenty stocks, rebalanced daily at 10 basis points, from 2000 to 2022.

You decide on a point of the simplex: the share of wealth in each stock. A day costs -log of the growth of wealth. Buying or
selling costs ``fee`` = 0.001 per unit of wealth, for commission and half the spread of large stocks. In log-wealth it costs
about the same, but not exactly. klazy charges |x_t - x_{t-1}|, while prices change the shares by themselves before you trade.
``exact`` simulates wealth and takes the fee out of it. There buy-and-hold pays nothing while its shares move, and constant
rebalancing pays.

Each rule chooses among 64 candidates on the first half, to mid-2011. The second half is scored, as the sum over its days.
``ahead`` is how much less than buy-and-hold a contender pays, exactly. ``+-`` is its 95 % interval, as if days were
independent. Look at that first, then at the largest holding. The optimum is the lowest of what klazy charges, and shows what
hindsight is worth.

Compare contenders, but do not expect their gains: the stocks were chosen in hindsight, and all lasted 33 years. The data
start in 2000 because prices are rounded to a thousandth. That is a lot for the small prices of the nineties, and looks like
profit to any rule that buys what fell. You need skfolio, which has the prices: pip install '.[datasets]'.
"""

from typing import Any

import numpy as np
import polars as pl

import klazy as kl
from klazy.datasets import stock_prices
from klazy.studies.tuning import tune_learner

SLACKS = [4**i for i in range(1, 9)]
MEMORIES = {"GD": [kl.memories.Forget()], "LazyGD": [kl.memories.Full()]}
MEMORIES |= {
    "KLazyGD": [kl.memories.Clock(k) for k in SLACKS],
    "Decay": [kl.memories.Decay(m) for m in SLACKS],
}


def exact(x, r, fee):
    """-log of the growth of wealth on each day, if its shares are x after trading and paying the fee."""
    grown = x * r
    before = np.vstack((x[:1], grown[:-1] / grown[:-1].sum(axis=1, keepdims=True)))
    left = np.ones(len(x))
    for _ in range(6):  # left = 1 - fee |left x - before|, where each step gains three digits
        left = 1.0 - fee * np.abs(left[:, None] * x - before).sum(axis=1)
    return -np.log(left * grown.sum(axis=1))


def rivals(r, half, movement):
    """Each contender: its name, what it chose on the first part, and the points it plays in the second."""
    T, d = r.shape
    domain = kl.Simplex(d)
    costs = kl.LogWealthCosts(r)
    first = costs.window(1, half)
    growth = np.vstack((np.ones(d), r[half:-1].cumprod(axis=0)))
    yield "buy and hold", "equal parts", growth / growth.sum(axis=1, keepdims=True)
    yield "rebalanced", "equal parts", np.full((T - half, d), 1.0 / d)
    yield "first's best", "all in one", np.tile(np.eye(d)[r[:half].prod(axis=0).argmax()], (T - half, 1))
    for name, memories in MEMORIES.items():
        sigmas = np.geomspace(1e-3, 1e3, 64 // len(memories)).tolist()
        best: Any = tune_learner(kl.theory.product_grid(domain, sigmas, memories), first, movement=movement)
        x = kl.run(best, costs, movement=movement).x
        yield name, f"sigma={best.sigma.s:.3g}, {best.memory}", x[half:]
    best = kl.offline_optimum(costs.window(half + 1, T), domain, movement, gap=0.03)
    yield "optimum", f"nobody below {best.lower_bound:.3f}", best.u


def main(since: int = 2000, fee: float = 0.001) -> pl.DataFrame:
    """What each contender chose on the first half since that year and pays on the second, in log-wealth."""
    prices = stock_prices("relative").filter(pl.col("time").dt.year() >= since).drop("time")
    r = prices.to_numpy()
    movement = kl.L1Movement(fee)
    half = len(r) // 2
    held = None
    rows = []
    for name, chosen, x in rivals(r, half, movement):
        hitting = -np.log(np.vecdot(r[half:], x)).sum()
        switching = movement.paid(x).sum()
        paid = exact(x, r[half:], fee)
        held = paid if held is None else held
        ahead = held - paid
        interval = 1.96 * ahead.std() * len(x) ** 0.5
        sums = hitting, switching, hitting + switching, paid.sum(), ahead.sum(), interval
        largest = f"{prices.columns[x.mean(axis=0).argmax()]} {x.mean(axis=0).max():.0%}"
        rows.append((name, chosen, largest, *map(float, sums)))
    columns = ["contender", "chosen", "largest", "hitting", "switching", "total", "exact", "ahead", "+-"]
    return pl.DataFrame(rows, columns, orient="row")


if __name__ == "__main__":
    pl.Config(tbl_formatting="ASCII_MARKDOWN", tbl_hide_column_data_types=True, tbl_rows=-1, tbl_cols=-1)
    pl.Config(tbl_hide_dataframe_shape=True, tbl_width_chars=140, float_precision=3)
    print(table := main())
    online = table.filter(pl.col("contender") != "optimum")
    clear = online.filter(pl.col("ahead") > pl.col("+-"))["contender"]
    lazy = online.filter(
        pl.col("contender").is_in([*MEMORIES][1:]), pl.col("exact") > online.row(3, named=True)["exact"]
    )
    off = (online["total"] - online["exact"]).abs().max()
    print(f"Clearly ahead of buy-and-hold: {', '.join(clear) or 'nobody'}.", end=" ")
    print(f"Lazy, and poorer than GD: {', '.join(lazy['contender']) or 'nobody'}.")
    print(f"What klazy charges differs from what wealth loses by at most {off:.3f}, in log-wealth.")
