"""The thresholds behind projections onto simplices and the l1 ball, batched over leading axes, without a sort."""

import numpy as np

from klazy.base.checks import Array

_EPS = float(np.finfo(np.float64).eps)


def simplex_part(v: Array, total: float) -> Array:
    r"""The projection of ``v`` onto :math:`\{x \ge 0, \sum_i x_i = total\}`, that is :math:`\max(v - \theta, 0)`.

    Newton's method on the convex, decreasing function :math:`\theta \mapsto \sum_i \max(v_i - \theta, 0)`: from
    the left of the root the set of positive terms only shrinks, and when it stops shrinking theta is exact. A pass costs
    O(d) and a handful suffice. Subtracting the largest entry first keeps the result exact for points far away.
    """
    v = v - v.max(axis=-1, keepdims=True)
    theta = np.full_like(v[..., :1], -total)
    count = np.inf
    while True:
        excess = np.maximum(v - theta, 0.0)
        active = np.count_nonzero(excess, axis=-1, keepdims=True)
        theta = theta + (excess.sum(axis=-1, keepdims=True) - total) / active
        if (active >= count).all():
            return np.maximum(v - theta, 0.0)
        count = np.minimum(active, count)


def vertex_margin(v: Array, total: float) -> Array:
    """How far ``v`` may be shifted while its projection onto the simplex stays at a vertex; zero elsewhere; dim > 1."""
    top = np.sort(v, axis=-1)
    lead = top[..., -1] - top[..., -2]
    return np.maximum((lead - total) / np.sqrt(2.0), 0.0)


def capped_part(v: Array, total: float, floor: Array, cap: Array) -> Array:
    r"""The projection of ``v`` onto :math:`\{floor \le x \le cap, \sum_i x_i = total\}`: :math:`clip(v - \theta)`.

    Solved around the largest entry, and then around one that lies between its bounds: only differences to entries near
    the threshold are exact when others are far away.
    """
    near = v - v.max(axis=-1, keepdims=True)
    z = near - _bracketed_theta(near, total, floor, cap)
    inner = np.maximum(floor - z, z - cap).argmin(axis=-1)[..., None]
    near = v - np.take_along_axis(v, inner, axis=-1)
    guess = -np.take_along_axis(z, inner, axis=-1)
    return np.clip(near - _bracketed_theta(near, total, floor, cap, guess), floor, cap)


def _bracketed_theta(
    v: Array, total: float, floor: Array, cap: Array, guess: Array | float = np.nan
) -> Array:
    """Newton on ``sum clip(v - theta, floor, cap) = total``, which decreases in theta but is not convex: the step is taken
    only inside the bracket known so far, and every second late step bisects it."""
    low = (v - cap).min(axis=-1, keepdims=True)
    high = (v - floor).max(axis=-1, keepdims=True)
    theta = np.where((low < guess) & (guess < high), guess, 0.5 * (low + high))
    for turn in range(200):
        x = np.clip(v - theta, floor, cap)
        free = np.count_nonzero((x > floor) & (x < cap), axis=-1, keepdims=True)
        excess = x.sum(axis=-1, keepdims=True) - total
        settled = np.abs(excess) <= _EPS * np.abs(x).sum(axis=-1, keepdims=True)
        newton = np.where(free > 0, theta + excess / np.maximum(free, 1), theta)
        low = np.where(excess > 0, theta, low)
        high = np.where(excess > 0, high, theta)
        inside = (free > 0) & (low < newton) & (newton < high) & (not (turn > 8 and turn % 2 == 1))
        following = np.where(inside | settled, newton, 0.5 * (low + high))
        if (settled | (following == theta)).all():
            return following
        theta = np.where(settled, theta, following)
    return theta
