"""
What the best in hindsight would have paid
==========================================

A comparator made by hand may be a poor one. ``offline_optimum`` finds the best sequence of all, moving paid for, and proves it:
no sequence in the set pays less than its lower bound. ``frontier`` does so for every length of path at once.
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
# What everyone paid beyond the optimum, which follows the bursts. So does greedy descent, and of the three learners it loses
# least; laziness sleeps through them. The comparator of the figures knows the phases, but leaves the bursts to the optimum.
least = (scenario.costs.values(best.u) + movement.paid(best.u)).cumsum()
paid = {name: run.hitting + run.switching for name, run in runs.items()}
paid["comparator"] = scenario.costs.values(u) + movement.paid(u)
beyond = {name: cost.cumsum() - least for name, cost in paid.items()}
assert 0.0 < beyond["GD"][-1] < beyond["k=20"][-1] < beyond["LazyGD"][-1]
assert beyond["comparator"][-1] > 0.0
beyond_the_optimum = show.draw_curves(beyond, "cost beyond the optimum")

# %%
# The frontier: the least that the decisions can cost if the path may be so long; certified to within the shaded band, which
# is too thin to see. Nothing can lie below it, and how far above it a learner lies is its regret against all paths of its
# length.
curve = kl.frontier(scenario.costs, scenario.domain)
places = {"optimum": (best.switching, best.hitting)}
places["comparator"] = float(movement.paid(u).sum()), float(scenario.costs.values(u).sum())
for name, trace in runs.items():
    places[name] = trace.totals.switching, trace.totals.hitting
path_lengths = curve.plot(places)
assert curve.gap <= 0.01
assert all(curve.best(length)[0] <= paid + 1e-6 for length, paid in places.values())
# sphinx_gallery_thumbnail_number = 2
