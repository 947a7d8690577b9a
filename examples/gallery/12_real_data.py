"""
Real data: which carrier tomorrow?
==================================

Passengers from New York are split among five carriers, day by day. A share costs its carrier's mean delay in minutes, and
rebooking a passenger costs five minutes. ``replay`` tunes learners and rules of thumb on the first half of 2013 and
scores them on the second. If laziness does not help, it says so. Here a rule of thumb wins: a dead band, which moves only
if the move soon pays for itself.
"""

import klazy as kl
from klazy.datasets import flights

carriers = ("UA", "B6", "DL", "AA", "WN")
report = kl.replay(flights(hours=24, carriers=carriers), domain="simplex", move_cost=5.0)
print(report)

# %%
# The difference between the best two comes with its 95 % interval. The interval is wide: half a year of delays does not
# tell the two apart. We chose carriers and price after trying a few others, to show a case in which the contenders differ.
simple, lazy, greedy = (report.best_of(kind) for kind in ("simple", "lazy", "greedy"))
gap, half = simple.compare(lazy)
print(f"{simple.name} saves {gap:.0f} +- {half:.0f} against {lazy.name}, the best lazy")
assert simple.name == "dead band"
assert simple.cost < min(lazy.cost, greedy.cost)
assert half > gap
trade = report.plot("pareto")

# %%
# What three of them decided.
shares = report.plot("decisions")

# %%
# In the second half, k-lazyGD with the parameters chosen on the first pays more for moving than greedy descent, and more in
# total.
assert report.score("k-lazyGD").switching > greedy.switching
assert report.score("k-lazyGD").cost > greedy.cost
paid = report.plot("cumulative")
