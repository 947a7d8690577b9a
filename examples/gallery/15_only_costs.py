r"""
Only the costs are known
========================

You see what your decision cost, and no gradient. A bandit learner tries points around its own and estimates the gradient from
what they cost. Theory says how regret grows with the horizon, movement included: like :math:`T^{3/4}` if one cost is known per
round, like :math:`T^{1/2}` if two are. Here is what it is on a sequence whose best point jumps three times, beside the bounds.
With one cost the exponent of a single sequence is uncertain: its estimates are mostly noise.
"""

import numpy as np

import klazy as kl
from klazy import show
from klazy.theory import bandit_bound, bandit_tuning

# %%
# The best point stays for a quarter of the rounds; in every round a random part of the cost points across.
ball, horizons, path = kl.L2Ball(2), np.array([240, 960, 3840]), 3 * 2**0.5


def draw_costs(T):
    best = np.repeat([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]], T // 4, axis=0)
    noise = np.random.default_rng(0).choice([-0.6, 0.6], (T, 1)) * best[:, ::-1]
    return noise - 0.8 * best, best


# %%
# Delta and sigma are theory's for each horizon. The slope of the line through the three regrets, in logarithms, is the exponent
# that was measured.
lines = {}
for points, rate in ((1, 0.75), (2, 0.5)):
    found = []
    for T in horizons.tolist():
        delta, sigma = bandit_tuning(T, 2, 1.0, 1.0, path, points)
        costs, best = draw_costs(T)
        trace = kl.run(kl.Bandit(kl.GD(ball, sigma), points, delta=delta), costs, movement="l2")
        bound = bandit_bound(T, 2, 1.0, 1.0, path, sigma, delta, points)
        found.append([kl.regret(trace, best).smoothed, bound])
        print(
            f"{points} of T={T}: regret {found[-1][0]:7.1f}, expected at most {bound:7.1f}, delta {delta:.4f}"
        )
        assert found[-1][0] <= bound
    measured, bounds = np.transpose(found)
    slope = np.polyfit(np.log(horizons), np.log(measured), 1)[0]
    print(f"{points}: the exponent measured is {slope:.2f}, theory's {rate}")
    assert slope < 1.0
    lines |= {f"{points} known": measured / horizons, f"bound, {points} known": bounds / horizons}

by_horizon = show.draw_lines(horizons.astype(float), lines, "rounds", "regret a round")
