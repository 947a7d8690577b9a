"""
More laziness can move more
===========================

You might think that a larger k never moves more, and a remark in the paper says so. Six gradients in the plane show the
opposite. The greedy learner crosses the set and then rests. The lazy learner still acts on its memory, and keeps moving
from corner to corner.
"""

import matplotlib.pyplot as plt
import numpy as np

import klazy as kl
from klazy import show

g = np.array([[1, -1], [0, 1], [-2, 2], [1, -2], [0, -1], [-2, 1]], dtype=float)
domain = kl.L1Ball(2)
learners = {"GD": kl.GD(domain, sigma=0.5), "k=2": kl.KLazyGD(domain, sigma=0.5, k=2)}
runs = {name: kl.run(learner, g) for name, learner in learners.items()}
for name, trace in runs.items():
    print(f"{name:4} moved {trace.totals.switching:.2f}: {trace.x.round(2).tolist()}")
assert runs["k=2"].totals.switching > runs["GD"].totals.switching + 1.0
assert np.count_nonzero(runs["GD"].switching) == 3
assert np.count_nonzero(runs["k=2"].switching) == 5

so_far = {name: trace.switching.cumsum() for name, trace in runs.items()}
moved_so_far = show.draw_curves(so_far, "moved so far")

# %%
# This is the exception. Each dot is one of 400 random sequences of six gradients, and above the line k = 2 moved more. Among
# 400 sequences of fifty rounds there is no such dot. But no theorem can say "never".
rng = np.random.default_rng(0)


def moved(T):
    """What both learners moved on each of 400 sequences."""
    sequences = rng.normal(size=(400, T, 2))
    runs = [kl.run_many(learner, sequences) for learner in learners.values()]
    return [np.array([trace.totals.switching for trace in each]) for each in runs]


greedy, lazy = moved(6)
more = lazy > greedy + 1e-9
print(f"k = 2 moves more in {more.mean():.1%} of the sequences of six rounds")
greedy_long, lazy_long = moved(50)
assert 0.0 < more.mean() < 0.15
assert (lazy_long < greedy_long).all()

scatter, ax = plt.subplots(figsize=(3.5, 3.0), layout="constrained")
ax.plot([0, 9], [0, 9], color="black", linewidth=0.8)
ax.scatter(greedy[~more], lazy[~more], 6, "#009E73", label="k=2 moved no more")
ax.scatter(greedy[more], lazy[more], 8, "#D55E00", label="k=2 moved more")
ax.set_xlabel("greedy descent moved", fontsize=8)
ax.set_ylabel("k-lazyGD with k = 2 moved", fontsize=8)
ax.tick_params(labelsize=7)
_ = ax.legend(frameon=False, fontsize=7)
# sphinx_gallery_thumbnail_number = 3
