"""Which carrier tomorrow? Bookings from New York, split among eight carriers day by day (flights of 2013).

You decide on a point of the simplex: the share of tomorrow's passengers that goes with each carrier. A share costs its
carrier's mean departure delay, in minutes. Cancelled flights are in no mean, and no day lacks a mean. Moving a passenger to
another carrier costs ``price`` minutes: one if it takes a click, ten if somebody must call. It is the same between any two
carriers, so movement is the mass that changes place.

Each rule chooses among 64 candidates on January to June. July to December are scored, in minutes per passenger and day; every
rule continues from where it stands. ``+-`` is the 95 % interval of the daily difference to GD, as if days were independent.

Look at the two sets of carriers. In the first, US Airways is the most punctual in every month, so it is best to stay with it,
and every rule that can stay does equally well. In the second set Southwest replaces it, and no carrier is always best. Look
also at "out of step". This is k-lazyGD with the chosen parameters, but with its clock half a phase off. The gain that
disappears there was luck.
"""

from itertools import product
from typing import Any

import numpy as np
import polars as pl

import klazy as kl
from klazy.datasets import CARRIERS, flights
from klazy.studies.tuning import tune_learner

SLACKS = [2**i for i in range(1, 9)]
MEMORIES = {"GD": [kl.memories.Forget()], "LazyGD": [kl.memories.Full()]}
MEMORIES |= {
    "KLazyGD": [kl.memories.Clock(k) for k in SLACKS],
    "Decay": [kl.memories.Decay(m) for m in SLACKS],
}
SETS = {"with US": CARRIERS[:8], "without US": tuple(name for name in CARRIERS[:9] if name != "US")}


def rivals(g, half, names, movement):
    """Each contender: its name, what it chose on the first part, and the points it plays."""
    domain = kl.Simplex(len(names))
    for name, memories in MEMORIES.items():
        sigmas = np.geomspace(0.1, 1e4, 64 // len(memories)).tolist()
        best: Any = tune_learner(
            kl.theory.product_grid(domain, sigmas, memories), g[:half], movement=movement
        )
        yield name, f"sigma={best.sigma.s:.3g}, {best.memory}", kl.run(best, g, movement=movement).x
        if name == "KLazyGD":
            late = best.init()._replace(t=1 + best.memory.k // 2)
            yield (
                "out of step",
                "the same, half a phase off",
                kl.run(best, g, movement=movement, state=late).x,
            )
    yield "auto", "", kl.run(kl.auto(domain, movement), g).x
    leader = g[:half].mean(axis=0).argmin()
    yield "hold", names[leader], np.tile(np.eye(len(names))[leader], (len(g), 1))
    best = kl.offline_optimum(g[half:], domain, movement)
    bound = best.lower_bound / len(best.u)
    yield "optimum", f"nobody below {bound:.3f}", np.vstack((np.tile(best.u[0], (half, 1)), best.u))


def main(prices=(1.0, 10.0), days: int = 365) -> pl.DataFrame:
    """What each contender chose on the first half of these days and pays per day on the second, at these prices of moving."""
    rows = []
    for (carriers, names), price in product(SETS.items(), prices):
        g = flights(hours=24, carriers=names).drop("time").to_numpy()[:days]
        movement = kl.TVMovement(price)
        half = days // 2
        greedy = None
        for name, chosen, x in rivals(g, half, names, movement):
            paid = np.stack((np.vecdot(g, x), movement.paid(x)), axis=1)[half:]
            greedy = paid if greedy is None else greedy
            apart = (paid - greedy).sum(axis=1)
            interval = 1.96 * apart.std() / len(apart) ** 0.5
            sums = (*paid.mean(axis=0), paid.sum(axis=1).mean(), apart.mean(), interval)
            rows.append((carriers, price, name, chosen, *map(float, sums)))
    columns = ["carriers", "price", "contender", "chosen", "hitting", "switching", "total", "vs GD", "+-"]
    return pl.DataFrame(rows, columns, orient="row")


if __name__ == "__main__":
    pl.Config(tbl_formatting="ASCII_MARKDOWN", tbl_hide_column_data_types=True, tbl_rows=-1, tbl_cols=-1)
    pl.Config(tbl_hide_dataframe_shape=True, tbl_width_chars=120, float_precision=2)
    print(table := main())
    for (carriers, price), rows in table.group_by("carriers", "price", maintain_order=True):
        online = rows.filter(pl.col("contender") != "optimum")
        lazy = rows.filter(pl.col("contender").is_in([*MEMORIES][1:]))
        least = online.filter(pl.col("total") < pl.col("total").min() + 0.005)["contender"]
        less = lazy.filter(pl.col("vs GD") < -pl.col("+-"))["contender"]
        more = lazy.filter(pl.col("vs GD") > 0.0)["contender"]
        gain = dict(rows.select("contender", "vs GD").rows())
        print(f"{carriers}, {price:g} min: the lowest total has {', '.join(least)}.", end=" ")
        print(
            f"Of the lazy, clearly below GD: {', '.join(less) or 'none'}; above it: {', '.join(more) or 'none'}.",
            end=" ",
        )
        print(f"k-lazyGD to GD: {gain['KLazyGD']:+.2f}, out of step {gain['out of step']:+.2f}.")
