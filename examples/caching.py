"""What should a cache hold? Parts of objects, decided before every request, against LRU and S3-FIFO (Twitter's requests).

You decide on a point of the capped simplex: how much of each object the cache holds. That is at most all of an object, and
``capacity`` objects in total. A fraction is a part of the object, or the chance that a random cache holds it.

A request costs 1 minus the cached fraction of its object: the miss. Bringing in a unit costs ``price``, because writing wears
out flash memory. Throwing out is free. LRU and S3-FIFO (Yang et al., SOSP 2023) play the same game with whole objects. A miss
costs them 1, plus ``price`` for the object, which they always bring in.

The data are one object in sixteen, with all of its requests. Each rule chooses among 25 candidates on the first half of these
requests. The second half is scored, per request. LRU and S3-FIFO have nothing to choose and do not know the price.

Look at who wins where writing is cheap and where it is expensive. With the larger cache and expensive writing the race is
close, and other sixteenths have other winners (``main(part=1)``). The optimum knows all requests in advance and fetches
ahead. No sequence pays less than the bound beside it.
"""

from functools import lru_cache
from typing import Any

import numpy as np
import polars as pl

import klazy as kl
from klazy.datasets import cache_requests
from klazy.studies.tuning import tune_learner

SLACKS = [6**i for i in range(1, 6)]
MEMORIES = {
    "GD": [kl.memories.Forget()],
    "KLazyGD": [kl.memories.Clock(k) for k in SLACKS],
    "Decay": [kl.memories.Decay(m) for m in SLACKS],
}


def lru(requests, capacity):
    """Which requests miss, 1 or 0, with Python's own cache. It drops the object that was not requested for the longest time."""
    ask = lru_cache(capacity)(lambda item: None)
    return np.diff([(ask(item), ask.cache_info().misses)[1] for item in requests], prepend=0)


def s3_fifo(requests, capacity):
    """Which requests miss. The three queues are dicts from the oldest item to the newest, with how often each was requested.

    A new item enters the small queue, a tenth of the cache. If it is requested more than once there, it goes on to the main
    queue. Otherwise it leaves the cache, and the ghost queue remembers its name for a while. If it is requested again in that
    time, it enters the main queue directly. The oldest item of the main queue stays for one more round for each request it
    had, up to three.
    """
    small = {}
    main = {}
    ghost = {}
    missed = []
    tenth = max(1, capacity // 10)
    for item in requests:
        home = small if item in small else main
        missed.append(item not in home)
        while missed[-1] and len(small) + len(main) >= capacity:
            queue = small if len(small) >= tenth else main
            oldest = next(iter(queue))
            asked = queue.pop(oldest)
            if asked > (queue is small):
                main[oldest] = 0 if queue is small else asked - 1
            elif queue is small:
                ghost[oldest] = True
        if len(ghost) > capacity - tenth:
            del ghost[next(iter(ghost))]
        if missed[-1]:
            home = main if ghost.pop(item, False) else small
        home[item] = min(3, home.get(item, -1) + 1)
    return np.array(missed, dtype=int)


def main(every: int = 16, part: int = 0, shares=(0.01, 0.1), prices=(0.1, 1.0)) -> pl.DataFrame:
    """What each contender chose and pays per request, for caches that hold these shares of all objects, at these prices."""
    requests = cache_requests().filter(pl.col("object") % every == part)["object"].to_numpy() // every
    N = int(requests.max()) + 1
    half = len(requests) // 2
    rows = []
    g = -np.eye(N)[requests]
    needed = g[half:, g[half:].any(axis=0)]  # the optimum gains nothing by holding anything else
    for capacity, price in [(round(share * N), price) for share in shares for price in prices]:
        domain = kl.CappedSimplex(N, capacity, 1.0)
        movement = kl.contrib.AsymmetricMovement(price, up=1.0, down=0.0)
        for name, rule in (("LRU", lru), ("S3-FIFO", s3_fifo)):
            missed = rule(requests, capacity)[half:].mean()
            rows.append((capacity, price, name, "", missed, price * missed))
        for name, memories in MEMORIES.items():
            sigmas = np.geomspace(0.02, 200, 25 // len(memories)).tolist()
            best: Any = tune_learner(
                kl.theory.product_grid(domain, sigmas, memories), g[:half], movement=movement
            )
            trace = kl.run(best, g, movement=movement, record="costs")
            paid = 1.0 + trace.hitting[half:].mean(), trace.switching[half:].mean()
            rows.append((capacity, price, name, f"sigma={best.sigma.s:.3g}, {best.memory}", *paid))
        best = kl.offline_optimum(
            needed, kl.CappedSimplex(needed.shape[1], capacity, 1.0), movement, gap=0.03
        )
        hitting, switching, bound = np.array((best.hitting, best.switching, best.lower_bound)) / len(needed)
        rows.append((capacity, price, "optimum", f"nobody below {1.0 + bound:.3f}", 1.0 + hitting, switching))
    table = pl.DataFrame(
        rows, ["capacity", "price", "contender", "chosen", "hitting", "switching"], orient="row"
    )
    return table.with_columns(total=pl.col("hitting") + pl.col("switching"))


if __name__ == "__main__":
    pl.Config(tbl_formatting="ASCII_MARKDOWN", tbl_hide_column_data_types=True, tbl_rows=-1)
    pl.Config(tbl_hide_dataframe_shape=True, float_precision=3)
    print(table := main())
    for (capacity, price), rows in table.group_by("capacity", "price", maintain_order=True):
        paid = dict(
            rows.sort("total").select("contender", "total").filter(pl.col("contender") != "optimum").rows()
        )
        against = {name: f"{paid['KLazyGD'] / paid[name] - 1.0:+.0%}" for name in ("GD", "LRU", "S3-FIFO")}
        print(
            f"{capacity} objects at {price}: {next(iter(paid))} pays least. KLazyGD pays, against others,",
            against,
        )
