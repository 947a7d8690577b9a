"""
Where laziness acts, and where it cannot
========================================

Laziness is a memory of what the projection cut off. If the point stays inside the set, nothing is cut off and there is
nothing to remember: at a constant sigma every k plays the same points. ``Trace.diagnose`` counts the rounds in which
laziness can matter.
"""

import numpy as np

import klazy as kl
from klazy import show

rng = np.random.default_rng(0)
g = np.array([-1.0, 0.5]) + rng.normal(scale=1.5, size=(250, 2))
slacks = {"GD": 1, "k=20": 20, "k=250": 250}


def play(domain):
    """Run all three learners on this set."""
    return {name: kl.run(kl.KLazyGD(domain, 10.0, k=k), g) for name, k in slacks.items()}


def moved(runs):
    """How far each learner has moved so far."""
    return {name: trace.switching.cumsum() for name, trace in runs.items()}


# %%
# On the unit l1 ball the projection cuts something off in nearly all rounds. Lazier learners move less.
small = play(kl.L1Ball(2))
for name, trace in small.items():
    still = trace.diagnose().stale.mean()
    print(f"{name:6} moved {trace.totals.switching:5.1f}, stood still in {still:.0%} of rounds")
assert moved(small)["GD"][-1] > moved(small)["k=20"][-1] > moved(small)["k=250"][-1]
on_the_edge = show.draw_curves(moved(small), "moved so far")

# %%
# These are the steps of k = 20, one by one. Ticks at the bottom mark rounds in which the point stood still despite a
# gradient. Black dots are the lengths of the other steps, and coloured dots are theory's bounds on them.
diagnosis = small["k=20"].diagnose()
print(diagnosis)
assert diagnosis.binds.mean() > 0.9
steps = diagnosis.plot()

# %%
# On a ball a hundred times as large, with the same costs, the point never reaches the edge. All three learners have sigma =
# 10 and play the same points, so the three lines are one. If you see them differ, their sigmas differ.
large = play(kl.L1Ball(2, radius=100.0))
for trace in large.values():
    assert np.allclose(trace.x, large["GD"].x, rtol=0.0, atol=1e-10)
    assert not trace.diagnose().binds.any()
inside = show.draw_curves(moved(large), "moved so far")
