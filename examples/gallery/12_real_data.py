"""
Real data: which carrier tomorrow?
==================================

Passengers from New York are split among five carriers, day by day; a share costs its carrier's mean delay in minutes, and to
rebook a passenger costs five. ``replay`` tunes learners and rules of thumb on the first half of 2013 and scores them on the
second. It may well find that laziness does not help, and then it says so: here a rule of thumb wins, a dead band, which moves
only if the move pays for itself soon.
"""

import klazy as kl
from klazy.datasets import flights

carriers = ("UA", "B6", "DL", "AA", "WN")
report = kl.replay(flights(hours=24, carriers=carriers), domain="simplex", move_cost=5.0)
print(report)

# %%
# The difference of the best two comes with its 95 % interval, which is wide: half a year of delays does not tell them apart.
# Carriers and price were chosen after a look at a few others, for a case in which the contenders differ.
simple, lazy, greedy = (report.best_of(kind) for kind in ("simple", "lazy", "greedy"))
gap, half = simple.compare(lazy)
print(f"{simple.name} saves {gap:.0f} +- {half:.0f} against {lazy.name}, the best lazy")
assert simple.name == "dead band"
assert simple.cost < lazy.cost < greedy.cost
assert half > gap
trade = report.plot("pareto")

# %%
# What three of them decided.
shares = report.plot("decisions")

# %%
# The k-lazyGD that the first half chose pays more for moving in the second than greedy descent, and more in all.
assert report.score("k-lazyGD").switching > greedy.switching
assert report.score("k-lazyGD").cost > greedy.cost
paid = report.plot("cumulative")
