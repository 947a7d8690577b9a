"""
What laziness saves
===================

Costs point one way for a while and then the other, under heavy noise. This is the first sequence of the paper, made
shorter. Greedy descent follows the noise and pays for it. A lazy learner averages the noise away. Fully lazy descent
never starts afresh, so it notices too late that the costs have turned. A learner between the two gains, *at one sigma for
all and with phases of equal length*. The next example removes both restrictions.
"""

import klazy as kl
from klazy import show
from klazy.sequences import stochastic
from klazy.theory import k_star, sigma_star

scenario = stochastic(seed=0, phases=5, length=800)
T, P = scenario.costs.T, 4 * 2.0  # the comparator turns four times, by the ball's diameter
sigma, k = sigma_star(T, G=1.0, R=1.0, P=P), k_star(T, R=1.0, P=P)
learners = {
    "GD": kl.GD(scenario.domain, sigma),
    f"k={k}": kl.KLazyGD(scenario.domain, sigma, k=k),
    "k=100": kl.KLazyGD(scenario.domain, sigma, k=100),
    "LazyGD": kl.LazyGD(scenario.domain, sigma),
}
runs = {name: kl.run(learner, scenario.costs) for name, learner in learners.items()}
found = {name: kl.regret(trace, scenario.comparator) for name, trace in runs.items()}

print(f"T = {T}; sigma = {sigma:.1f} and k = {k} are those of Theorem 5\n")
print(f"{'':8}{'dynamic':>10}{'moving':>10}{'total regret':>14}")
for name, r in found.items():
    print(f"{name:8}{r.dynamic:10.1f}{r.switching:10.1f}{r.total:14.1f}")
moved = [r.switching for r in found.values()]
assert moved == sorted(moved, reverse=True)
assert found["k=100"].total < found["GD"].total < found["LazyGD"].total

# %%
# Total regret is what a learner paid beyond the comparator. The comparator is at the best point of each phase, and pays for
# moving, too.
curves = {name: r.curves.total for name, r in found.items() if r.curves}
regrets = show.draw_curves(curves, "total regret")

# %%
# Total regret has two parts. Lazier learners pay less for moving, but they pay for being late. The fully lazy learner pays
# far too much for it.
parts = show.draw_bars(
    {
        "dynamic regret": {name: r.dynamic for name, r in found.items()},
        "moving": {name: r.switching for name, r in found.items()},
    },
    "paid in all rounds",
)
