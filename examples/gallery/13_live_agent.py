"""
A live agent with guards
========================

In production a decision has limits that the learner does not know: how far it may move at once, how often, and when not
at all. ``Guards`` hold an agent's point back, while its learner continues to learn. ``explain`` says why the agent plays
its current point.
"""

import numpy as np

import klazy as kl
from klazy import show

rng = np.random.default_rng(0)
means = np.repeat([[0.2, 0.5, 0.5], [0.5, 0.5, 0.2]], 60, axis=0)  # they change halfway
delays = means + rng.normal(scale=0.2, size=means.shape)

movement = kl.TVMovement(1.0)
guards = kl.Guards(per_round=0.1, hold=5, movement=movement)
agent = kl.Agent(kl.KLazyGD(kl.Simplex(3), sigma=3.0, k=30), guards=guards)
own, played = [], []
for t, delay in enumerate(delays, start=1):
    if t == 80:
        agent.freeze()  # somebody is at work there; the learner goes on
    if t == 95:
        agent.resume()
    own.append(agent.state.x)
    played.append(agent.x)
    agent.update(delay)
    if t in (70, 85):
        print(agent.explain(), end="\n\n")

# %%
# The left panel shows the learner's own point, the right panel what was played. Steps are at most a tenth of the mass,
# there is at most one in five rounds, and none while the agent is frozen.
names = ["first", "second", "third"]
points = {"the learner's own point": np.array(own), "played": np.array(played)}
shares = show.draw_decisions(np.arange(1, 121), points, names, shares=True)

moved = movement.paid(np.array(played))
print(f"moved {np.count_nonzero(moved)} times, by {moved.max():.3f} at most")
assert moved.max() <= 0.1
assert np.diff(np.flatnonzero(moved)).min() >= 5
assert not moved[80:95].any()

# %%
# The guards have a cost: the agent moves less, and follows later.
paid = {name: np.vecdot(delays, x) + movement.paid(x) for name, x in points.items()}
costs = show.draw_curves({name: cost.cumsum() for name, cost in paid.items()}, "cost so far")
assert paid["played"].sum() > paid["the learner's own point"].sum()
assert moved.sum() < movement.paid(np.array(own)).sum()
