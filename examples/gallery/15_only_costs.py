r"""
Only the costs are known
========================

You see what your decision cost, but no gradient. A bandit learner tries points around its own and estimates the gradient
from their costs. Theory says how regret grows with the number of rounds T, movement included: like :math:`T^{3/4}` with
one known cost per round, like :math:`T^{1/2}` with two. This example measures it on a sequence whose best point jumps
three times, and compares it with the bounds. Trial points are random and the bounds hold for the mean, so every regret
here is the mean of four runs.
"""

import numpy as np

import klazy as kl
from klazy import show
from klazy.theory import bandit_bound, bandit_tuning

# %%
# The best point stays for a quarter of the rounds. In every round a random part of the cost points sideways.
ball, horizons, path = kl.L2Ball(2), np.array([240, 960, 3840]), 3 * 2**0.5


def draw_costs(T):
    best = np.repeat([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]], T // 4, axis=0)
    noise = np.random.default_rng(0).choice([-0.6, 0.6], (T, 1)) * best[:, ::-1]
    return noise - 0.8 * best, best


# %%
# Delta, the distance of the trial points, and sigma are theory's choices for each T. The slope of a line through the three
# regrets, in logarithms, is the measured exponent.
lines = {}
for points, rate in ((1, 0.75), (2, 0.5)):
    found = []
    for T in horizons.tolist():
        delta, sigma = bandit_tuning(T, 2, 1.0, 1.0, path, points)
        costs, best = draw_costs(T)
        bound = bandit_bound(T, 2, 1.0, 1.0, path, sigma, delta, points)
        regrets = []
        for seed in range(4):
            learner = kl.contrib.Bandit(kl.GD(ball, sigma), points, delta=delta, seed=seed)
            trace = kl.run(learner, costs, movement="l2")
            regrets.append(kl.regret(trace, best).smoothed)
        mean = np.mean(regrets)
        print(f"{points} of T={T}: mean regret {mean:7.1f}, at most {bound:7.1f}, delta {delta:.4f}")
        assert mean <= bound
        found.append([mean, bound])
    measured, bounds = np.transpose(found)
    slope = np.polyfit(np.log(horizons), np.log(measured), 1)[0]
    print(f"{points}: the exponent measured is {slope:.2f}, theory's {rate}")
    assert slope < 1.0
    lines |= {f"{points} known": measured / horizons, f"bound, {points} known": bounds / horizons}

by_horizon = show.draw_lines(horizons.astype(float), lines, "rounds", "regret a round")
