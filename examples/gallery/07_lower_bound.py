r"""
The lower bound, to the last digit
==================================

Theorem 2 of the paper says that k-lazyGD's regret is at least of order :math:`k P_T`. Laziness has a price, whatever
sigma you choose. The proof is a sequence of costs, a square wave in step with the clock. Its regret has a closed formula,
so you can compare the measured value with the formula: they are equal.
"""

import numpy as np

import klazy as kl
from klazy import show
from klazy.sequences import square_wave, square_wave_regret

# %%
# In every block of k rounds the costs pull to the left for the first half, and then to the right. When the comparator
# turns, the learner must first undo what it remembers. It is back at zero when the block ends, and there the clock starts
# again.
k, T, sigma = 6, 24, 1.5
scenario = square_wave(k, T)
trace = kl.run(kl.KLazyGD(scenario.domain, sigma, k=k), scenario.costs)
g, x = trace.gradients()[:, 0], trace.x[:, 0]
start = np.arange(T) - np.arange(T) % k  # of the block that a round is in
y = np.array([x[s] - g[s:t].sum() / sigma for t, s in enumerate(start)])  # unconstrained
assert (x[::k] == 0.0).all()
wave = show.draw_wave(g, y, x, scenario.comparator[:, 0], k)

# %%
# This is the regret per unit of the comparator's path, for growing k, beside the formula and greedy descent on the same
# wave. It grows linearly in k; the regret of greedy descent does not.
T, rows = 600, []
for k in range(2, 61, 2):
    wave_k = square_wave(k, T)
    learners = kl.KLazyGD(wave_k.domain, sigma, k=k), kl.GD(wave_k.domain, sigma)
    runs = [kl.run(learner, wave_k.costs) for learner in learners]
    lazy, greedy = (kl.regret(trace, wave_k.comparator) for trace in runs)
    exact = square_wave_regret(k, T, sigma)
    rows.append(np.array([lazy.dynamic, exact, greedy.dynamic]) / lazy.path_length)
measured, formula, greedy = np.transpose(rows)
print(f"measured and exact differ by {np.abs(measured - formula).max():.1e} at most")
np.testing.assert_allclose(measured, formula, rtol=1e-12)
assert greedy.max() < 2.1 < measured[-1] / 5

lines = {"k-lazyGD, measured": measured, "formula": formula, "GD": greedy}
by_slack = show.draw_lines(np.arange(2.0, 61.0, 2.0), lines, "slack k", "regret / path length")
