"""The thresholds behind projections onto simplices and the l1 ball, batched over leading axes, without a sort."""

import numpy as np

from klazy.base.checks import Array

_EPS = float(np.finfo(np.float64).eps)
_MOST_TURNS = 200  # of a search in a bracket, beside four for every coordinate


def simplex_part(v: Array, total: float) -> Array:
    r"""The projection of ``v`` onto :math:`\{x \ge 0, \sum_i x_i = total\}`, that is :math:`\max(v - \theta, 0)`.

    Newton's method on the convex, decreasing function :math:`\theta \mapsto \sum_i \max(v_i - \theta, 0)`: from
    the left of the root the set of positive terms only shrinks, and when it stops shrinking theta is exact. A pass costs
    O(d) and a handful suffice. Subtracting the largest entry first keeps the result exact for points far away.
    """
    v = v - v.max(axis=-1, keepdims=True)
    theta = np.full_like(v[..., :1], -total)
    count = np.full(theta.shape, np.inf)
    found = count < 0.0  # nowhere
    while True:
        excess = np.maximum(v - theta, 0.0)
        active = np.count_nonzero(excess, axis=-1, keepdims=True)
        following = theta + (excess.sum(axis=-1, keepdims=True) - total) / active
        theta = np.where(
            found, theta, following
        )  # one point among many is projected as it is alone, to the last digit
        found = found | (active >= count)
        if found.all():
            return np.maximum(v - theta, 0.0)
        count = np.minimum(active, count)


def vertex_margin(v: Array, total: float) -> Array:
    """How far ``v`` may be shifted while its projection onto the simplex stays at a vertex; zero elsewhere; dim > 1."""
    top = np.sort(v, axis=-1)
    lead = top[..., -1] - top[..., -2]
    return np.maximum((lead - total) / np.sqrt(2.0), 0.0)


def capped_part(v: Array, total: float, floor: Array, cap: Array) -> Array:
    r"""The projection of ``v`` onto :math:`\{floor \le x \le cap, \sum_i x_i = total\}`: :math:`clip(v - \theta)`.

    Solved around the largest entry, then around one that lies between its bounds, until that is the same one: only
    differences to entries near the threshold are exact when others are far away.
    """
    shift = v.max(axis=-1, keepdims=True)
    theta = np.full_like(shift, np.nan)
    z = v
    for _ in range(v.shape[-1] + 1):
        near = v - shift
        theta = _bracketed_theta(near, total, floor, cap, theta)
        z = near - theta
        inner = np.maximum(floor - z, z - cap).argmin(axis=-1)[..., None]
        pivot = np.take_along_axis(v, inner, axis=-1)
        if (pivot == shift).all():
            break
        theta = theta + (shift - pivot)
        shift = pivot
    return np.clip(z, floor, cap)


def _bracketed_theta(
    v: Array, total: float, floor: Array, cap: Array, guess: Array | float = np.nan
) -> Array:
    """Newton on ``sum clip(v - theta, floor, cap) = total``, which decreases in theta but is not convex.

    A step is taken only inside the bracket known so far, and every second late one goes to a kink: halving alone would take
    a thousand steps where entries differ by many orders of magnitude. If the sum jumps over the total between two
    neighbouring numbers, the upper one is the threshold.
    """
    low = (v - cap).min(axis=-1, keepdims=True)
    high = (v - floor).max(axis=-1, keepdims=True)
    theta = np.where((low < guess) & (guess < high), guess, 0.5 * (low + high))
    for turn in range(_MOST_TURNS + 4 * v.shape[-1]):
        x = np.clip(v - theta, floor, cap)
        free = np.count_nonzero((x > floor) & (x < cap), axis=-1, keepdims=True)
        excess = x.sum(axis=-1, keepdims=True) - total
        settled = np.abs(excess) <= _EPS * np.abs(x).sum(axis=-1, keepdims=True)
        newton = np.where(free > 0, theta + excess / np.maximum(free, 1), theta)
        low = np.where(excess > 0, theta, low)
        high = np.where(excess > 0, high, theta)
        inside = (free > 0) & (low < newton) & (newton < high)
        middle = 0.5 * (low + high)
        if turn > 8 and turn % 2 == 1:
            inside = settled
            kink = _nearest_kink(v, floor, cap, low, high)
            middle = np.where(kink < np.inf, kink, middle)
        middle = np.where((low < middle) & (middle < high), middle, high)
        following = np.where(inside | settled, newton, middle)
        if (settled | (following == theta)).all():
            return following
        theta = np.where(settled, theta, following)
    return theta


def _nearest_kink(v: Array, floor: Array, cap: Array, low: Array, high: Array) -> Array:
    """The place in ``(low, high)`` nearest to its middle beside which a coordinate meets one of its bounds, or inf."""
    kinks = np.concatenate((v - floor, v - cap), axis=-1)
    rounding = _EPS * np.abs(kinks)
    places = np.concatenate((kinks - rounding, kinks + rounding), axis=-1)
    distance = np.where((low < places) & (places < high), np.abs(places - 0.5 * (low + high)), np.inf)
    closest = distance.argmin(axis=-1)[..., None]
    found = np.take_along_axis(distance, closest, axis=-1) < np.inf
    return np.where(found, np.take_along_axis(places, closest, axis=-1), np.inf)
