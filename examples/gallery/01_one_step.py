r"""
Greedy, lazy and between: one step in the plane
===============================================

Five gradients push the point to the edge of the set, and the sixth pulls it away. Greedy descent steps from its current
point and follows at once. k-lazyGD steps from the anchor :math:`x_\tau`, its point when the phase began, and adds up all
gradients since. The sixth gradient must first undo what was pushed *beyond* the edge. How much that holds the point
depends on the set.
"""

import numpy as np

import klazy as kl
from klazy.theory import step_picture

g = np.array([[-1.0, 0.3]] * 5 + [[0.6, -1.0]])


def moved(learner):
    """How far the sixth gradient moves the point."""
    x = kl.run(learner, np.vstack((g, g[:1])), engine="step").x
    return float(np.linalg.norm(x[6] - x[5]))


# %%
# A set with corners
# ------------------
#
# On the l1 ball a whole cone of points is projected to the same corner. Greedy descent leaves the corner. With k = 3 the
# unconstrained point :math:`y_{t+1}` is still inside the cone, and the learner does not move (Proposition 3 of the paper).
domain = kl.L1Ball(2)
greedy, lazy = kl.GD(domain, sigma=2.0), kl.KLazyGD(domain, sigma=2.0, k=3)
print(f"GD moves by {moved(greedy):.3f}, k-lazyGD with k = 3 by {moved(lazy):.3f}")
assert moved(lazy) == 0.0

corner_greedy = step_picture(greedy, g, t=6)
corner_lazy = step_picture(lazy, g, t=6)

# %%
# A round set
# -----------
#
# On the l2 ball every cone is a ray, so any gradient that is not along the ray moves the point. The farther outside
# :math:`y_{t+1}` lies, the less it moves. Full laziness, whose anchor is the very first point, moves least here.
domain = kl.L2Ball(2)
greedy, between = kl.GD(domain, sigma=2.0), kl.KLazyGD(domain, sigma=2.0, k=3)
lazy = kl.LazyGD(domain, sigma=2.0)
for learner in (greedy, between, lazy):
    print(f"{type(learner).__name__:8} moves by {moved(learner):.3f}")
assert moved(greedy) > moved(between) > moved(lazy) > 0.0

round_between = step_picture(between, g, t=6)
# sphinx_gallery_thumbnail_number = 3
