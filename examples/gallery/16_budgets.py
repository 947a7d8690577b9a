r"""
A budget for moving
===================

You may move only so far in total, whatever the costs do. Theory knows the price: for a budget S the regret is of order
:math:`G R^2 T / S`, and no learner has a better order. This example shows greedy descent with theory's sigma, between the
two bounds. It also shows what happens to a learner that moves too fast.
"""

import numpy as np

import klazy as kl
from klazy import show
from klazy.contrib import budget_lower_bound, budget_sigma, budgeted_bound

# %%
# The costs are blocks of random sign, as in the proof of the lower bound, with the length that hurts a budget most. The
# lower bound holds on average over all such sequences, so a few may lie below it.
T, line, budgets, rows = 1000, kl.Box(-1, 1), np.array([2.0, 4.0, 8.0, 16.0]), []


def play(learner, g):
    trace = kl.run(learner, g, movement="l2")
    assert trace.totals.switching <= learner.S
    return kl.regret(trace, -np.sign(g.sum(axis=0))).dynamic


for S in budgets.tolist():
    blocks = min(T, round(2.0 * np.pi * S**2))
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (4, blocks))
    learner = kl.contrib.Budgeted(kl.GD(line, budget_sigma(T, 1.0, 1.0, 0.0, S)), S)
    regret = np.mean([play(learner, some[np.arange(T) * blocks // T][:, None]) for some in signs])
    rows.append([regret, budgeted_bound(T, 1.0, 1.0, 0.0, S), budget_lower_bound(T, 1.0, 1.0, S)])
    print(
        f"S={S:3.0f}: regret {rows[-1][0]:6.1f}, at most {rows[-1][1]:6.1f}; no learner below {rows[-1][2]:5.1f} on average"
    )
    assert regret <= rows[-1][1]

names = ("tuned", "bound", "no learner does better")
by_budget = show.draw_lines(budgets, dict(zip(names, np.transpose(rows), strict=True)), "budget", "regret")

# %%
# Half of the rounds are noise, then something lasting changes. A hasty learner has spent its budget on the noise. If the
# budget is released evenly over all rounds, half of it is left.
noise = np.random.default_rng(1).choice([-1.0, 1.0], T // 2)
g = np.concatenate((noise, np.ones(T // 2)))[:, None]
hasty, tuned = kl.GD(line, 5.0), kl.GD(line, budget_sigma(T, 1.0, 1.0, 0.0, 8.0))
found = [play(kl.contrib.Budgeted(*how), g) for how in ((hasty, 8.0), (tuned, 8.0))] + [
    play(kl.contrib.Budgeted(hasty, 8.0, T=T), g)
]
print("hasty {:.1f}, tuned {:.1f}, hasty with an even release {:.1f}".format(*found))
assert found[2] < 0.5 * found[0]
