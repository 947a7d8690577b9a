"""
One action at a time
====================

A point of the simplex is a mixture, but often you must choose one action, such as one server. ``sample_actions`` draws an
action in every round, with exactly the probabilities that were played. It switches actions as rarely as any way of
drawing can. The expected number of switches is the total variation of the points. A learner that moves less therefore
switches less.
"""

import matplotlib.pyplot as plt
import numpy as np

import klazy as kl
from klazy import show

rng = np.random.default_rng(0)
favourite = np.repeat([0, 3, 1], 100)  # the cheapest action on average
g = rng.uniform(size=(300, 5)) - 0.4 * np.eye(5)[favourite]
learners = {"GD": kl.GD(kl.Simplex(5), 3.0), "k=50": kl.KLazyGD(kl.Simplex(5), 3.0, k=50)}
tv = kl.TVMovement(1.0)
runs = {name: kl.run(learner, g, movement=tv) for name, learner in learners.items()}

# %%
# The first figure shows the points, as shares. The second shows one draw of actions from each.
rounds, names = np.arange(1, 301), [f"action {i}" for i in range(5)]
points = {name: trace.x for name, trace in runs.items()}
drawn = {name: np.eye(5)[kl.contrib.sample_actions(trace, seed=1)] for name, trace in runs.items()}
shares = show.draw_decisions(rounds, points, names, shares=True)
actions = show.draw_decisions(rounds, drawn, names, shares=True)

# %%
# In 400 draws the number of switches varies. Its mean is what ``TVMovement`` charged. The mean cost of the draws is the
# cost of the points.
histogram, ax = plt.subplots(figsize=(3.5, 2.3), layout="constrained")
for name, trace in runs.items():
    draws = np.array([kl.contrib.sample_actions(trace, seed) for seed in range(400)])
    switches = np.count_nonzero(np.diff(draws, axis=1), axis=1)
    costs = g[np.arange(300), draws].sum(axis=1)
    measured = {"cost": costs, "switches": switches}
    for (what, sums), expected in zip(measured.items(), trace.totals, strict=True):
        print(f"{name:5}{what:8} {sums.mean():4.1f} on average, {expected:4.1f} expected")
        assert abs(sums.mean() - expected) < 4.0 * sums.std() / 20.0  # standard errors
    colour = show.choose_looks([name])[name]["color"]
    ax.hist(switches, bins=range(45), color=colour, label=name)
    ax.axvline(trace.totals.switching, color="black", linewidth=0.8)
ax.set_xlabel("switches; a line is the total variation", fontsize=8)
ax.set_ylabel("draws", fontsize=8)
ax.tick_params(labelsize=7)
ax.legend(frameon=False, fontsize=7)
assert runs["k=50"].totals.switching < runs["GD"].totals.switching
# sphinx_gallery_thumbnail_number = 5
