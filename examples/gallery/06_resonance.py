"""
Resonance: where a clock hurts, and where it wins
=================================================

k-lazyGD forgets by a clock, every k rounds. If the costs have a rhythm of their own, the two can be in step or out of
step. That can matter more than anything else. ``klazy.theory.resonance`` plays phases of many lengths, and the costs
change sign from one phase to the next. It compares a learner with greedy descent at the same sigma.
"""

import numpy as np

import klazy as kl
from klazy import show
from klazy.sequences import stochastic
from klazy.theory import resonance

lengths = range(10, 421, 10)
clock = resonance(kl.KLazyGD(kl.L2Ball(5), sigma=5.0, k=200), lengths)
decay = resonance(kl.MemoryGD(kl.L2Ball(5), sigma=5.0, memory=kl.memories.Decay(50)), lengths)
print(clock)
assert clock.worst == 100
in_step = clock.lengths % 200 == 0
assert np.allclose(clock.lazy[in_step], clock.greedy[in_step])
assert (np.diff(decay.lazy) < 0.0).all()

# %%
# These costs have no noise, so there is little to gain. Phases half as long as the clock hurt it most: it must undo in one
# phase what it gathered in the one before, and then it forgets. If its length divides the phase's, it is in step and as
# good as greedy descent. ``Decay`` forgets a little in every round, and has neither the peak nor the dips.
lines = {"GD": clock.greedy, "k=200": clock.lazy, "Decay": decay.lazy}
by_length = show.draw_lines(clock.lengths, lines, "length of a phase", "regret per round")


# %%
# With noise there is something to gain. Now phases have 800 rounds and k varies. The regret dips where the clock fits into
# a phase once or twice. With phases of random length these same slacks lose. The best slack, picked on the same draws,
# gains little.
def total_regret(seed, random):
    """The total regret of every slack, on one draw of the sequence."""
    drawn = stochastic(seed, phases=5, length=800, random_phases=random)
    u = drawn.comparator
    theirs = drawn.costs.values(u).sum() + kl.L2Movement().paid(u).sum()
    return kl.run_batch(learners, drawn.costs).cost - theirs


learners = [kl.KLazyGD(kl.L2Ball(5), sigma=20.0, k=k) for k in range(1, 901)]
equal = total_regret(0, random=False)
random = np.mean([total_regret(seed, random=True) for seed in range(8)], axis=0)
for k in (800, int(random.argmin()) + 1):
    on_equal, on_random = (curve[k - 1] / curve[0] - 1 for curve in (equal, random))
    print(f"k = {k} against GD: {on_equal:+.0%} on equal phases, {on_random:+.0%} on random ones")
assert equal.argmin() + 1 == 800
assert equal[399] < equal[0] < equal[499]
assert random[[399, 799]].min() > random[0]
assert random.argmin() + 1 < 200

curves, level = {"equal phases": equal, "random phases": random}, {"GD": equal[0]}
by_slack = show.draw_lines(np.arange(1.0, 901.0), curves, "slack k", "total regret", levels=level)
# sphinx_gallery_thumbnail_number = 3
