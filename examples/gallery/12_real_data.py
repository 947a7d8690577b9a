"""
Real data: which carrier tomorrow?
==================================

Passengers from New York are split among five carriers, day by day; a share costs its carrier's mean delay in minutes, and to
rebook a passenger costs five. ``replay`` tunes learners and rules of thumb on the first half of 2013 and scores them on the
second. It may well find that laziness does not help, and then it says so: here a rule of thumb wins, a dead band, which moves
only if the move pays for itself soon.
"""

import tempfile
from pathlib import Path

import numpy as np

from klazy import show
from klazy.datasets import flights
from klazy.studies.replay import Source, make_setup, replay

carriers = ("UA", "B6", "DL", "AA", "WN")
file = Path(tempfile.mkdtemp()) / "delays.parquet"
flights(hours=24, carriers=carriers).write_parquet(file)
source = Source(file)
found = replay(source, make_setup(source.dim, "simplex", move_cost=5.0))

# %%
# Minutes per passenger in the second half of the year. The difference of the best two comes with its 95 % interval, which is
# wide: half a year of delays does not tell them apart. Carriers and price were chosen after a look at a few others, for a
# case in which the contenders differ.
for score in found.scores:
    paid = f"{score.hitting:8.0f} + {score.switching:3.0f} = {score.cost:4.0f}"
    print(f"{score.name:18}{paid}")
simple, lazy, greedy = (found.best(kind) for kind in ("simple", "lazy", "greedy"))
gap, half = simple.compare(lazy)
print(f"\n{simple.name} saves {gap:.0f} +- {half:.0f} against {lazy.name}, the best lazy")
assert simple.name == "dead band"
assert simple.cost < lazy.cost < greedy.cost
assert half > gap

assert found.optimum is not None
optimum = found.optimum.switching, found.optimum.hitting
everyone = {score.name: score for score in found.scores}
trade = show.draw_pareto(
    {name: score.switching for name, score in everyone.items()},
    {name: score.hitting for name, score in everyone.items()},
    optimum,
)

# %%
# What three of them decided. The k-lazyGD that the first half chose pays more for moving in the second than greedy
# descent, and more in all.
shown = {name: everyone[name].points for name in (simple.name, "k-lazyGD", "GD")}
shares = show.draw_decisions(np.arange(len(greedy.points)), shown, carriers, shares=True)
assert everyone["k-lazyGD"].switching > greedy.switching
assert everyone["k-lazyGD"].cost > greedy.cost
