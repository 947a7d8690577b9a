"""
The best possible cost in hindsight
===================================

A comparator made by hand may be a poor one. ``offline_optimum`` finds the best sequence of all, with the price of moving
included. It also proves a lower bound: no sequence in the set pays less. ``frontier`` does the same for every path length
at once.
"""

import klazy as kl
from klazy import show
from klazy.sequences import corrupted

scenario = corrupted(phases=3, length=440)  # bursts: ten of 110 rounds have the other sign
movement = kl.L2Movement(1.0)  # what ``run`` charges, too
learners = {
    "GD": kl.GD(scenario.domain, 15.0),
    "k=20": kl.KLazyGD(scenario.domain, 15.0, k=20),
    "LazyGD": kl.LazyGD(scenario.domain, 15.0),
}
runs = {name: kl.run(learner, scenario.costs) for name, learner in learners.items()}
u = scenario.comparator  # of the paper's figures: it ignores the bursts
best = kl.offline_optimum(scenario.costs, scenario.domain, movement)
print(best)
assert best.lower_bound <= best.cost

# %%
# This is what each learner paid beyond the optimum. The optimum follows the bursts. So does greedy descent, which loses
# least of the three learners. Lazy learners miss the bursts. The comparator of the paper's figures knows the phases, but
# ignores the bursts.
least = (scenario.costs.values(best.u) + movement.paid(best.u)).cumsum()
paid = {name: run.hitting + run.switching for name, run in runs.items()}
paid["comparator"] = scenario.costs.values(u) + movement.paid(u)
beyond = {name: cost.cumsum() - least for name, cost in paid.items()}
assert 0.0 < beyond["GD"][-1] < beyond["k=20"][-1] < beyond["LazyGD"][-1]
assert beyond["comparator"][-1] > 0.0
beyond_the_optimum = show.draw_curves(beyond, "cost beyond the optimum")

# %%
# The frontier is the lowest possible cost of the decisions for each path length. The shaded band shows how exactly it is
# certified, and is too thin to see. Nothing can lie below it. A learner's distance above it is its regret against all paths
# of its length.
curve = kl.frontier(scenario.costs, scenario.domain)
places = {"optimum": (best.switching, best.hitting)}
places["comparator"] = float(movement.paid(u).sum()), float(scenario.costs.values(u).sum())
for name, trace in runs.items():
    places[name] = trace.totals.switching, trace.totals.hitting
path_lengths = curve.plot(places)
assert curve.gap <= 0.01
assert all(curve.best(length)[0] <= paid + 1e-6 for length, paid in places.values())
# sphinx_gallery_thumbnail_number = 3
