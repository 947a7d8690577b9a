"""
Forecasts from perfect to useless
=================================

Somebody forecasts the next round's costs, and you do not know how good the forecasts are. Blind trust is best while they
are right, and expensive when they are wrong. A learner that also runs experts without forecasts pays something between
the two. Each run comes with a certified bound on how much more it may pay than its best expert.
"""

import numpy as np

import klazy as kl
from klazy import show

T = 300
rng = np.random.default_rng(7)
g = rng.normal(size=(T, 5)) + np.repeat(rng.normal(size=(T // 30, 5)), 30, axis=0)
box = kl.Box(np.zeros(5), np.ones(5))
movement = kl.L1Movement(0.5)
best = kl.offline_optimum(g, box, movement).cost

deaf = [kl.contrib.Reluctant(box, movement, w, 2.0 * w) for w in (2.0, 8.0, 32.0)]
trusting = kl.contrib.Reluctant(box, movement, 1.0, 1.0, hints=True)  # all that counts is the forecast
heeding = [trusting, kl.contrib.Reluctant(box, movement, 8.0, 4.0, hints=True)]
careful = kl.contrib.Leader([*deaf, *heeding], movement, hints=True)
either = kl.contrib.BetterOfTwo(trusting, deaf[1], movement)

# %%
# The forecast of a round is its cost plus noise. Each row of the table has more noise than the one before.
noises = np.array([0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0])
noise = rng.normal(size=g.shape)
ignoring = kl.run(kl.contrib.Leader(deaf, movement), g, engine="step").totals.cost
paid = {"trusting": [], "ignoring": [], "leader of both": [], "better of two": []}
print(f"{'noise':>6}" + "".join(f"{name:>16}" for name in paid) + f"{'optimum':>12}")
for size in noises:
    hints = g + size * noise  # row t guesses the costs of round t
    led = kl.run(careful, g, hints=hints, record="experts")
    costs = [kl.run(learner, g, hints=hints).totals.cost for learner in (trusting, either)]
    assert (kl.theory.certify_experts(led).slack >= 0.0).all()
    for name, cost in zip(paid, (costs[0], ignoring, led.totals.cost, costs[1]), strict=True):
        paid[name].append(cost - best)
    print(f"{size:6.2f}" + "".join(f"{curve[-1]:16.1f}" for curve in paid.values()) + f"{best:12.1f}")

# %%
# The figure shows the cost above the optimum for each amount of noise. The leader follows the cheaper side.
assert paid["trusting"][0] < 0.5 * paid["ignoring"][0]
assert paid["trusting"][-1] > 1.2 * paid["ignoring"][-1]
assert paid["leader of both"][0] < 0.6 * paid["ignoring"][0]
assert paid["leader of both"][-1] < 1.05 * paid["ignoring"][-1]
above_the_optimum = show.draw_lines(
    noises, {name: np.array(curve) for name, curve in paid.items()}, "noise", "above the optimum"
)
