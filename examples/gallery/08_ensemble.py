"""
An ensemble at work
===================

You do not know the right sigma, nor how long to remember. ``ensemble_auto`` needs only the set and what moving costs. It
runs forty learners: eight scales of sigma, with five memories each. Their weights depend on what each has cost so far,
movement included.
"""

import numpy as np

import klazy as kl
from klazy import show
from klazy.sequences import stochastic
from klazy.studies.tuning import tune_learner

scenario = stochastic(seed=0, phases=5, length=800, random_phases=True)
learner = kl.contrib.ensemble_auto(scenario.domain, kl.L2Movement(1.0))
trace = kl.run(learner, scenario.costs, record="experts")

# %%
# The figure shows what the ensemble paid, what it played, and how the weights moved from expert to expert.
costs_points_weights = trace.plot()
mean = trace.weights.mean(axis=0)
for i in np.argsort(-mean)[:3]:
    print(f"expert {i}, {learner.experts[i].memory}, had {mean[i]:.0%} on average")

# %%
# The other learners here have a constant sigma, tuned in hindsight on this same sequence. That is not a fair race, and
# ``ensemble_auto`` need not win it. ``certify_experts`` bounds how much more than each of its experts the ensemble could
# have cost in this run.
sigmas = np.geomspace(2.0, 100.0, 40).tolist()
memories = {"GD": kl.memories.Forget(), "k=100": kl.memories.Clock(100), "Decay": kl.memories.Decay(50)}
runs = {"ensemble_auto": trace}
for name, memory in memories.items():
    candidates = kl.theory.product_grid(scenario.domain, sigmas, [memory])
    best = tune_learner(candidates, scenario.costs)
    runs[name] = kl.run(best, scenario.costs)
found = {name: kl.regret(run, scenario.comparator) for name, run in runs.items()}
print(", ".join(f"{name} {r.total:.0f}" for name, r in found.items()))
curves = {name: r.curves.total for name, r in found.items() if r.curves}
regrets = show.draw_curves(curves, "total regret")

certificate = kl.theory.certify_experts(trace)
i = certificate.experts.argmin()
more = certificate.cost - certificate.experts[i]
print(f"ensemble_auto cost {more:.0f} more than its best expert, of {certificate.bound[i]:.0f} at most")
assert (certificate.slack >= 0.0).all()
assert found["ensemble_auto"].total < 1.1 * found["GD"].total
