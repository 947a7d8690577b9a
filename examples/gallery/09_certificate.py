"""
A certificate for every run
===========================

A theorem bounds the regret on the worst sequence. A run knows more: its own gradients and its own steps. ``certify`` puts
them into the same proof. The result is a bound that holds for this run, round by round.
"""

import klazy as kl
from klazy.sequences import stochastic
from klazy.theory import k_star, sigma_star

scenario = stochastic(seed=0, phases=5, length=400)
T, P = scenario.costs.T, 4 * 2.0  # the comparator turns four times, by the ball's diameter
sigma, k = sigma_star(T, G=1.0, R=1.0, P=P), k_star(T, R=1.0, P=P)
learner = kl.KLazyGD(scenario.domain, sigma, k=k)
trace = kl.run(learner, scenario.costs)

# %%
# The upper panel shows the regret, the certificate of this run, and Theorem 5 with the run's own movements. The lower panel
# shows the three terms that the certificate adds up. The theorem charges every turn of the comparator in full. The
# certificate knows where the learner stood.
certificate = kl.theory.certify(trace, scenario.comparator)
print(certificate)
rounding = 1e-9
assert (certificate.regret <= certificate.realised + rounding).all()
assert (certificate.realised <= certificate.worst_case + rounding).all()
bounds = certificate.plot()

# %%
# The certificate holds for any comparator. Here the learner beats the best fixed point, so its regret is below zero. The
# certificate proves even that, which no bound for the worst case can.
fixed = kl.best_fixed(scenario.costs, scenario.domain).x
against_fixed = kl.theory.certify(trace, fixed)
print(f"above the regret by {certificate.slack:.0f}, and here by {against_fixed.slack:.0f}")
assert against_fixed.regret[-1] <= against_fixed.realised[-1] < 0.0
assert against_fixed.worst_case[-1] > 0.0
fixed_bounds = against_fixed.plot()
