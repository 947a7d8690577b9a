"""Points with a given total: nearest in distance, nearest in relative entropy, and in integers.

Projections onto simplices and the l1 ball are thresholds, batched over leading axes, without a sort.
"""

import math
from typing import NamedTuple

import numpy as np

from klazy.base.checks import Array

EPS = float(np.finfo(np.float64).eps)
SEARCH_TURNS = 200  # Most steps of a search in a bracket; every coordinate adds four.
SMALLEST_REST = (
    1e-300  # the total of the coordinates between their bounds, where rounding leaves nothing
)


def simplex_part(v: Array, total: float) -> Array:
    r"""Project ``v`` onto :math:`\{x \ge 0, \sum_i x_i = total\}`: the answer is :math:`\max(v - \theta, 0)`.

    Newton's method on the convex, decreasing function :math:`\theta \mapsto \sum_i \max(v_i - \theta, 0)`: from
    the left of the root the set of positive terms only shrinks, and when it stops shrinking theta is exact. A pass costs
    O(d) and a handful suffice. Subtracting the largest entry first keeps the result exact for points far away.
    """
    v = v - v.max(axis=-1, keepdims=True)
    theta = np.full_like(v[..., :1], -total)
    count = np.full(theta.shape, np.inf)
    found = np.zeros(theta.shape, dtype=bool)
    while True:
        excess = np.maximum(v - theta, 0.0)
        active = np.count_nonzero(excess, axis=-1, keepdims=True)
        following = theta + (excess.sum(axis=-1, keepdims=True) - total) / active
        # Finished points stay, so that each has the same digits as if it were projected alone.
        theta = np.where(found, theta, following)
        found = found | (active >= count)
        if found.all():
            return np.maximum(v - theta, 0.0)
        count = np.minimum(active, count)


def vertex_margin(v: Array, total: float) -> Array:
    """Return how far ``v`` may be shifted while its projection onto the simplex stays at a vertex; zero elsewhere; dim > 1."""
    top = np.sort(v, axis=-1)
    lead = top[..., -1] - top[..., -2]
    return np.maximum((lead - total) / np.sqrt(2.0), 0.0)


def capped_part(v: Array, total: Array | float, floor: Array, cap: Array) -> Array:
    r"""Project ``v`` onto :math:`\{floor \le x \le cap, \sum_i x_i = total\}`: :math:`clip(v - \theta)`.

    Solved around the largest entry, then around one that is between its bounds, until that is the same one: only
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


def fill(room: Array, amount: Array | float) -> Array:
    """Pour ``amount`` into the coordinates in order, as much into each as it has room for."""
    before = np.cumsum(room, axis=-1) - room
    return np.clip(amount - before, 0.0, room)


def fill_cheapest(g: Array, total: Array | float, floor: Array, cap: Array) -> Array:
    r"""Minimise :math:`\langle g, x \rangle` on :math:`\{floor \le x \le cap, \sum_i x_i = total\}`."""
    cheapest = np.argsort(g, axis=-1, kind="stable")  # ties are broken alike on every CPU
    room = np.take_along_axis(np.broadcast_to(cap - floor, g.shape), cheapest, axis=-1)
    filled = fill(room, total - floor.sum(axis=-1, keepdims=True))
    above = np.empty_like(g)
    np.put_along_axis(above, cheapest, filled, axis=-1)
    return above + floor


def _bracketed_theta(
    v: Array, total: Array | float, floor: Array, cap: Array, guess: Array | float = np.nan
) -> Array:
    """Solve by Newton steps ``sum clip(v - theta, floor, cap) = total``, which decreases in theta but is not convex.

    A step stays inside the bracket known so far, and every second late one goes to a kink: halving alone would take
    a thousand steps where entries differ by many orders of magnitude. If the sum jumps over the total between two
    neighbouring numbers, the upper one is the threshold.
    """
    low = (v - cap).min(axis=-1, keepdims=True)
    high = (v - floor).max(axis=-1, keepdims=True)
    theta = np.where((low < guess) & (guess < high), guess, 0.5 * (low + high))
    for turn in range(SEARCH_TURNS + 4 * v.shape[-1]):
        x = np.clip(v - theta, floor, cap)
        free = np.count_nonzero((x > floor) & (x < cap), axis=-1, keepdims=True)
        excess = x.sum(axis=-1, keepdims=True) - total
        settled = np.abs(excess) <= EPS * np.abs(x).sum(axis=-1, keepdims=True)
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
    """Find the place in ``(low, high)`` nearest to its middle next to which a coordinate meets a bound, or return inf."""
    kinks = np.concatenate((v - floor, v - cap), axis=-1)
    rounding = EPS * np.abs(kinks)
    places = np.concatenate((kinks - rounding, kinks + rounding), axis=-1)
    distance = np.where(
        (low < places) & (places < high), np.abs(places - 0.5 * (low + high)), np.inf
    )
    closest = distance.argmin(axis=-1)[..., None]
    found = np.take_along_axis(distance, closest, axis=-1) < np.inf
    return np.where(found, np.take_along_axis(places, closest, axis=-1), np.inf)


class Filled(NamedTuple):
    """A projection: the point, its logarithm, and how far the logarithm of the projected vector exceeds it."""

    x: Array
    z: Array
    excess: Array


def fill_water(v: Array, total: float, low: Array, high: Array) -> Filled:
    r"""Project :math:`e^v` onto :math:`\{low \le x \le high, \sum_i x_i = total\}` in relative entropy.

    .. math:: \arg\min_x \sum_i x_i (\log x_i - v_i - 1) \quad\text{is}\quad x_i = clip(e^{v_i - \mu}, low_i, high_i)

    with the level :math:`\mu` at which they add up to the total. Coordinates are fixed at a bound in turn: at the level of
    those that are still free, the excess above the caps is compared with the lack below the floors. Where the caps win,
    the right level is lower, so that all who are above their caps stay there; else all who are below their floors do.

    ``excess`` is :math:`v - \mu - \log x`: positive at a cap, negative at a floor, zero between them.
    """
    with np.errstate(divide="ignore"):
        bottom = np.log(low)
        top = np.log(high)
    free = np.ones(v.size, dtype=bool)
    x = np.zeros(v.size)
    mu = 0.0
    while free.any():
        peak = v[free].max()
        share = np.where(free, np.exp(np.minimum(v - peak, 0.0)), 0.0)
        rest = max(total - x[~free].sum(), SMALLEST_REST)
        mu = peak + np.log(share.sum() / rest)
        trial = share * (rest / share.sum())
        above = np.where(free, np.maximum(trial - high, 0.0), 0.0)
        below = np.where(free, np.maximum(low - trial, 0.0), 0.0)
        if not above.any() and not below.any():
            x = np.where(free, trial, x)
            break
        caps_win = above.sum() >= below.sum()
        fixed = above > 0.0 if caps_win else below > 0.0
        x = np.where(fixed, high if caps_win else low, x)
        free = free & ~fixed
    if not free.any():
        # At a corner any level will do between those at which its coordinates would leave their bounds.
        mu = max(mu, (v - bottom)[x == low].max(initial=-np.inf))
        mu = min(mu, (v - top)[x == high].min(initial=np.inf))
    level = v - mu
    z = np.clip(level, bottom, top)
    return Filled(x, z, level - z)


def round_to_total(x: Array, total: int) -> Array:
    """Round down, then add the missing units where the remainders are largest, of equal ones first to the first.

    >>> round_to_total(np.array([3.6, 3.7, 2.7]), 10)
    array([3., 4., 3.])
    """
    base = np.floor(x)
    lacking = max(0, total - math.floor(base.sum()))
    largest = np.argsort(base - x, kind="stable")[:lacking]
    base[largest] += 1.0
    return base + 0.0  # no negative zero


def share_units(units: Array, m: int) -> Array:
    """Distribute ``m`` units in proportion to ``units``, to none more than it has."""
    share = m / max(float(units.sum()), 1.0)
    return round_to_total(np.minimum(units * share, units), m)
