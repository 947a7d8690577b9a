"""How many servers next? A fleet for requests to a language model, decided every ten seconds. Laziness does not help here.

You decide on a number of servers between none and the whole fleet. Parts of a server count: they are slices of shared machines.
A round costs 1 for each idle server, and 10 for each missing one, because people wait. Starting or stopping a server costs
``boot`` = 6, because it is idle for a minute meanwhile. Ten servers carry the highest load of the first half. The fleet has
twice as many (``room`` = 2) or just as many (``room`` = 1).

Each rule chooses among 64 candidates on the first half of the hour. The second half is scored, per round. Look at two
columns: ``binds`` is the share of rounds in which the step leads out of the set, and ``greedy`` is what GD pays with the same
sigma.

Inside the set, every k plays the same points as GD. The load wanders, and mostly keeps the rules inside. Where they seem to
differ, only their sigmas do. Laziness acts only in a fleet without room, and gains little there.
"""

import numpy as np
import polars as pl

import klazy as kl
from klazy.datasets import llm_requests
from klazy.studies.tuning import tune_learner

SIGMAS = np.geomspace(0.1, 1e3, 64)
FEW = np.geomspace(0.1, 1e3, 8)
SLACKS = [2**i for i in range(1, 9)]


def main(rooms=(2.0, 1.0), boot: float = 6.0) -> pl.DataFrame:
    """What each contender chose on the first half of the hour and pays per round on the second, for both services."""
    rows = []
    movement = kl.L1Movement(boot)
    for service, room in [(service, room) for service in ("conversation", "code") for room in rooms]:
        load = llm_requests(service, seconds=10)["requests"].to_numpy()[:, None]
        T = len(load)
        half = T // 2
        domain = kl.Box(0.0, 10.0 * room)
        costs = kl.PinballCosts(load * 10.0 / load[:half].max(), short=10.0, excess=1.0)
        first = costs.window(1, half)
        second = costs.window(half + 1, T)
        rules = {
            "GD": [kl.GD(domain, s) for s in SIGMAS],
            "LazyGD": [kl.LazyGD(domain, s) for s in SIGMAS],
            "KLazyGD": [kl.KLazyGD(domain, s, k=k) for s in FEW for k in SLACKS],
        }
        for name, candidates in rules.items():
            best = tune_learner(candidates, first, movement=movement)
            trace = kl.run(best, costs, movement=movement)
            greedy = kl.run(kl.GD(domain, best.sigma), costs, movement=movement)
            chosen = f"sigma={best.sigma.s:.3g}" + (f", k={best.k}" if isinstance(best, kl.KLazyGD) else "")
            paid = trace.hitting[half:].mean(), trace.switching[half:].mean()
            binds = trace.diagnose().binds[half:].mean()
            rows.append(
                (service, room, name, chosen, *paid, binds, (greedy.hitting + greedy.switching)[half:].mean())
            )
        levels = np.linspace(0.0, 10.0 * room, 64)
        level = levels[np.argmin([first.values(np.full((half, 1), level)).sum() for level in levels])]
        held = second.values(np.full((T - half, 1), level)).mean()
        rows.append((service, room, "hold", f"{level:.3g} servers", held, 0.0, None, None))
        best = kl.offline_optimum(second, domain, movement)
        paid = np.array((best.hitting, best.switching)) / (T - half)
        bound = f"nobody below {best.lower_bound / (T - half):.3f}"
        rows.append((service, room, "optimum", bound, *paid, None, None))
    columns = ["service", "room", "contender", "chosen", "hitting", "switching", "binds", "greedy"]
    table = pl.DataFrame(rows, columns, orient="row")
    return table.insert_column(6, (table["hitting"] + table["switching"]).alias("total"))


if __name__ == "__main__":
    pl.Config(tbl_formatting="ASCII_MARKDOWN", tbl_hide_column_data_types=True, tbl_rows=-1, tbl_cols=-1)
    pl.Config(tbl_hide_dataframe_shape=True, tbl_width_chars=120, float_precision=3)
    print(table := main())
    for (service, room), rows in table.group_by("service", "room", maintain_order=True):
        online = rows.filter(pl.col("contender") != "optimum")
        least = online.filter(pl.col("total") < pl.col("total").min() + 0.0005)["contender"]
        paid = dict(rows.select("contender", "total").rows())
        lazy = rows.row(2, named=True)
        print(
            f"{service}, room {room:g}: the lowest total has {', '.join(least)}. KLazyGD's steps leave the set in",
            end=" ",
        )
        print(
            f"{lazy['binds']:.0%} of rounds; it pays {100 * (lazy['total'] / paid['GD'] - 1.0):+.1f} % against GD,",
            end=" ",
        )
        print(f"{100 * (lazy['total'] / lazy['greedy'] - 1.0):+.1f} % against GD with its own sigma.")
