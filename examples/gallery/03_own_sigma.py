"""
Each learner with its own sigma: the gain shrinks
=================================================

A large sigma makes small steps, so it holds a learner back as laziness does. At one sigma for both, a lazy learner is
held back twice and a greedy one once. Here every learner has the sigma that suits it best in hindsight. Phases have
random lengths in the second panel, so no clock can be in step with them. See what is left of the gain.
"""

import numpy as np

import klazy as kl
from klazy import show
from klazy.sequences import stochastic

sigmas = np.geomspace(2.0, 100.0, 40)
memories = {
    "GD": kl.memories.Forget(),
    "k=100": kl.memories.Clock(100),
    "k=400": kl.memories.Clock(400),
    "Decay": kl.memories.Decay(50),
}


def total_regret(memory, seed, random):
    """The total regret at every sigma, on one draw of the sequence."""
    drawn = stochastic(seed, phases=5, length=800, random_phases=random)
    u = drawn.comparator
    theirs = drawn.costs.values(u).sum() + kl.L2Movement().paid(u).sum()
    learners = kl.theory.product_grid(drawn.domain, sigmas.tolist(), [memory])
    return kl.run_batch(learners, drawn.costs).cost - theirs


def lines(random):
    """The mean of three draws for every learner, with its lowest point."""
    mean, best = {}, {}
    for name, memory in memories.items():
        y = np.mean([total_regret(memory, seed, random) for seed in range(3)], axis=0)
        mean[name], best[name] = y, (float(sigmas[y.argmin()]), float(y.min()))
    return show.Lines(sigmas, mean, {}, {}, best)


# %%
# A clock of 400 rounds is in step with phases of 800, and gains from it. With random phases this gain is gone, and k = 400
# is worse than greedy descent. The shorter memories keep a modest gain, with a clock (k = 100) or without (Decay). Even
# that is flattering, because slacks and memory were chosen after looking at these draws.
parts = {"equal phases": lines(random=False), "random phases": lines(random=True)}
by_sigma = show.draw_panels(parts, r"$\sigma$", "total regret", log="x")
for ax in by_sigma.axes:
    ax.set_ylim(0.0, 1000.0)

against = {}
for title, part in parts.items():
    least = part.marked["GD"][1]
    against[title] = {name: y / least - 1 for name, (_, y) in part.marked.items()}
    print(f"{title:14}", ", ".join(f"{name} {more:+.0%}" for name, more in against[title].items()))
equal, random = against.values()
assert equal["k=400"] < -0.4 < 0.0 < random["k=400"]
assert -0.15 < random["k=100"] < random["Decay"] < 0.0
