"""
Two kinds of servers
====================

How many small servers next, and how many large ones? They share one demand, so the costs are no sum over kinds. A large
server does the work of four small ones and runs for less than they do, but it takes longer to start. The optimum in whole
numbers is a shortest path through the grid of all fleets. Lazy budgeting sees each round's demand before it decides.
"""

import numpy as np

import klazy as kl
from klazy import show
from klazy.contrib import AsymmetricMovement, LazyBudgeting, budgeting_ratio, run_ahead
from klazy.datasets import llm_requests

RUNNING = np.array([1.0, 2.8])  # what a server costs in ten seconds, small or large
SHORT = 10.0  # what a unit of demand costs that nobody serves


class Fleet(kl.types.Family):
    """Charge for servers that run and for demand that they do not serve; a row is what each kind serves, and the demand."""

    extras = 1

    def value(self, row, x):
        return x @ RUNNING + SHORT * np.maximum(row[..., -1] - np.vecdot(row[..., :-1], x), 0.0)

    def gradient(self, row, x):
        is_short = row[..., -1] > np.vecdot(row[..., :-1], x)
        return RUNNING - SHORT * is_short[..., None] * row[..., :-1]


load = llm_requests("conversation", seconds=10)["requests"].to_numpy()
demand = 24.0 * load / load.max()
costs = Fleet().costs(np.column_stack((np.full((len(load), 2), [1.0, 4.0]), demand)))
starting = AsymmetricMovement(up=[4.0, 25.0], down=0.0)
nothing = np.zeros(2)

# %%
# Both kinds together are cheaper than either. Lazy budgeting switches on what a plan in hindsight needs, and off what has
# idled for as much as it cost to start. It pays at most 2d + 1 = 5 times the optimum, and here much less.
best = kl.offline_optimum(costs, kl.Box(nothing, [24, 6]), starting, x0=nothing, integers=True)
paid = {"both": best.cost}
for name, units in {"small alone": [24, 0], "large alone": [0, 6]}.items():
    alone = kl.offline_optimum(costs, kl.Box(nothing, units), starting, x0=nothing, integers=True)
    paid[name] = alone.cost
trace = run_ahead(LazyBudgeting(kl.Box(nothing, [24, 6])), costs, movement=starting, x0=nothing)
paid["lazy budgeting"] = trace.totals.cost
for name, cost in paid.items():
    print(f"{name:16}{cost:9.1f}{cost / paid['both']:7.3f}")
assert min(paid.values()) == paid["both"] > paid["lazy budgeting"] / budgeting_ratio(kinds=2)

# %%
# The optimum keeps some large servers on and follows the demand with small ones. Lazy budgeting changes its fleet more often.
assert best.u[:, 1].min() >= 1.0
assert (np.diff(best.u, axis=0) != 0.0).sum() < (np.diff(trace.x, axis=0) != 0.0).sum()
curves = {"demand": demand, "small": best.u[:, 0], "large, each 4": 4.0 * best.u[:, 1]}
units_over_time = show.draw_lines(np.arange(len(load)) / 6.0, curves, "minute", "units")
