"""Euclidean projections in two stages: one pass finds a threshold, then each coordinate follows from it alone.

The second stage being elementwise, a round fuses it with the movement it causes. Every set reduces to a pair
``(shift, theta)``: subtracting the largest entry first keeps the threshold exact for points far outside the set.
A threshold gets ``(y, u, d, p, guess)``: the point, scratch, the dimension, the set's parameters, and the previous
round's ``shift + theta`` (or -inf). A coordinate gets ``(y[i], u[i], i, d, p, shift, theta)``.
"""

import math

import numpy as np
from numba import njit

from klazy.kernels import codes
from klazy.kernels.binding import bind, called, exact, fused, pointer

_EPS = float(np.finfo(np.float64).eps)


@exact
def above(v, shift, theta):
    """The part of ``v - shift`` above ``theta``."""
    excess = (v - shift) - theta
    return excess if excess > 0.0 else 0.0


@exact
def between(v, shift, theta, lower, upper):
    """``v - shift - theta``, clipped."""
    z = (v - shift) - theta
    z = z if z > lower else lower
    return z if z < upper else upper


@njit(forceinline=True, error_model="numpy", fastmath={"nnan", "nsz"})
def largest(u, d):
    """The largest entry; promising no NaN here is what lets the loop vectorise."""
    top = u[0]
    for i in range(1, d):
        top = u[i] if u[i] > top else top
    return top


@fused
def sorted_threshold(v, w, d, total, guess):
    """For a few coordinates: an odd-even sorting network into ``w``, then the best prefix; no branch to mispredict."""
    for i in range(d):
        w[i] = v[i]
    for layer in range(d):
        for i in range(layer % 2, d - 1, 2):
            first = w[i]
            second = w[i + 1]
            w[i] = first if first > second else second
            w[i + 1] = second if first > second else first
    shift = w[0]
    theta = -total
    prefix = -total
    for j in range(1, d):
        prefix += w[j] - shift
        mean = prefix * (1.0 / (j + 1))
        theta = mean if mean > theta else theta
    return shift, theta


@fused
def newton_threshold(v, w, d, total, guess):
    """Newton on ``sum max(v - theta, 0) = total``: convex and decreasing, so one step from anywhere lands left of the
    root, and from there the set of positive terms only shrinks. Started at the previous round's threshold."""
    shift = largest(v, d)
    theta = guess - shift
    if not -total < theta < 0.0:
        theta = -total
    count = d + 1.0
    first = True
    searching = True
    while searching:
        excess = 0.0
        active = 0.0
        for i in range(d):
            e = above(v[i], shift, theta)
            excess += e
            active += 1.0 if e > 0.0 else 0.0
        theta += (excess - total) / active
        searching = active < count
        if (
            not first or excess >= total
        ):  # left of the root, so later sets of positive terms are subsets of this one
            count = active
        first = False
    return shift, theta


@called
def capped_threshold(v, d, p):
    """The threshold of a capped simplex, solved around the largest entry and then around one that lies between its bounds:
    only differences to entries near the threshold are exact when others are far away."""
    shift = largest(v, d)
    theta = bracketed_threshold(v, d, p, shift, np.nan)
    inner = 0
    best = np.inf
    for i in range(d):
        z = (v[i] - shift) - theta
        outside = max(p[1 + i] - z, z - p[1 + d + i])
        if outside < best:
            best = outside
            inner = i
    theta = bracketed_threshold(v, d, p, v[inner], theta + (shift - v[inner]))
    return v[inner], theta


@called
def bracketed_threshold(v, d, p, shift, guess):
    """Newton in a bracket on ``sum clip(v - shift - theta, floor, cap) = total``: the sum is not convex in theta, so every
    second late step bisects."""
    total = p[0]
    low = np.inf
    high = -np.inf
    for i in range(d):
        low = min(low, (v[i] - shift) - p[1 + d + i])
        high = max(high, (v[i] - shift) - p[1 + i])
    theta = guess if low < guess < high else 0.5 * (low + high)
    for turn in range(200):
        kept = 0.0
        size = 0.0
        free = 0.0
        for i in range(d):
            z = between(v[i], shift, theta, p[1 + i], p[1 + d + i])
            kept += z
            size += abs(z)
            free += 1.0 if p[1 + i] < z < p[1 + d + i] else 0.0
        excess = kept - total
        newton = theta + excess / free if free > 0.0 else theta
        if abs(excess) <= _EPS * size:
            return newton
        if excess > 0.0:
            low = theta
        else:
            high = theta
        inside = free > 0.0 and low < newton < high and not (turn > 8 and turn % 2 == 1)
        following = newton if inside else 0.5 * (low + high)
        if following == theta:
            return theta
        theta = following
    return theta


@called
def far_l2_scale(y, d, p):
    """radius / norm for a point so far away that its squares overflow."""
    top = 0.0
    for i in range(d):
        top = max(top, abs(y[i] - p[1 + i]))
    square = 0.0
    for i in range(d):
        square += ((y[i] - p[1 + i]) / top) ** 2
    return p[0] / top / math.sqrt(square)


@fused
def l2_threshold(y, u, d, p, guess):
    square = 0.0
    for i in range(d):
        square += (y[i] - p[1 + i]) ** 2
    theta = 1.0
    if square == np.inf:
        theta = far_l2_scale(y, d, p)
    elif square > p[0] * p[0]:
        theta = p[0] / math.sqrt(square)
    return 0.0, theta


def _l1_threshold(y, u, d, p, guess):
    norm = 0.0
    for i in range(d):
        u[i] = abs(y[i] - p[1 + i])
        norm += u[i]
    shift = 0.0
    theta = 0.0
    if norm > p[0]:
        shift, theta = positive_threshold(u, u, d, p[0], guess)
    return shift, theta


def _simplex_threshold(y, u, d, p, guess):
    return positive_threshold(y, u, d, p[0], guess)


positive_threshold = (
    newton_threshold  # of the two templates above; bind() puts the sorting network here for small d
)
l1_threshold = fused(bind(_l1_threshold))
simplex_threshold = fused(bind(_simplex_threshold))
small_l1_threshold = fused(bind(_l1_threshold, positive_threshold=sorted_threshold))
small_simplex_threshold = fused(bind(_simplex_threshold, positive_threshold=sorted_threshold))


@fused
def capped_simplex_threshold(y, u, d, p, guess):
    return capped_threshold(y, d, p)


@fused
def box_threshold(y, u, d, p, guess):
    return 0.0, 0.0


@exact
def l2_coordinate(y, done, i, d, p, shift, theta):
    return p[1 + i] + (y - p[1 + i]) * theta


@exact
def l1_coordinate(y, done, i, d, p, shift, theta):
    z = y - p[1 + i]
    return p[1 + i] + math.copysign(above(abs(z), shift, theta), z)


@exact
def box_coordinate(y, done, i, d, p, shift, theta):
    z = y if y > p[i] else p[i]
    return z if z < p[d + i] else p[d + i]


@exact
def simplex_coordinate(y, done, i, d, p, shift, theta):
    return above(y, shift, theta)


@exact
def capped_simplex_coordinate(y, done, i, d, p, shift, theta):
    return between(y, shift, theta, p[1 + i], p[1 + d + i])


@exact
def product_coordinate(y, done, i, d, p, shift, theta):
    return done


@called
def project_any(code, y, u, d, p, guess):
    """The projection onto a set given by its code, into ``u``; returns the threshold from which to start next time."""
    shift, theta = 0.0, 0.0
    if code == codes.L2_BALL:
        shift, theta = l2_threshold(y, u, d, p, guess)
    elif code == codes.L1_BALL:
        shift, theta = l1_threshold(y, u, d, p, guess)
    elif code == codes.SIMPLEX:
        shift, theta = simplex_threshold(y, u, d, p, guess)
    elif code == codes.CAPPED_SIMPLEX:
        shift, theta = capped_threshold(y, d, p)
    for i in range(d):
        if code == codes.L2_BALL:
            u[i] = l2_coordinate(y[i], 0.0, i, d, p, shift, theta)
        elif code == codes.L1_BALL:
            u[i] = l1_coordinate(y[i], 0.0, i, d, p, shift, theta)
        elif code == codes.BOX:
            u[i] = box_coordinate(y[i], 0.0, i, d, p, shift, theta)
        elif code == codes.SIMPLEX:
            u[i] = simplex_coordinate(y[i], 0.0, i, d, p, shift, theta)
        else:
            u[i] = capped_simplex_coordinate(y[i], 0.0, i, d, p, shift, theta)
    return shift + theta


@called
def product_threshold(y, u, d, p, guess):
    """Every block of ``y`` into ``u``, by the table at the head of ``p``."""
    for block in range(int(p[0])):
        row = 1 + 4 * block
        first, end, at = int(p[row + 1]), int(p[row + 2]), int(p[row + 3])
        project_any(int(p[row]), pointer(y, first), pointer(u, first), end - first, pointer(p, at), -np.inf)
    return 0.0, 0.0


THRESHOLDS = {
    codes.L2_BALL: l2_threshold,
    codes.L1_BALL: l1_threshold,
    codes.BOX: box_threshold,
    codes.SIMPLEX: simplex_threshold,
    codes.CAPPED_SIMPLEX: capped_simplex_threshold,
    codes.PRODUCT: product_threshold,
}
SMALL_THRESHOLDS = {
    codes.L2_BALL: l2_threshold,
    codes.L1_BALL: small_l1_threshold,
    codes.BOX: box_threshold,
    codes.SIMPLEX: small_simplex_threshold,
}
COORDINATES = {
    codes.L2_BALL: l2_coordinate,
    codes.L1_BALL: l1_coordinate,
    codes.BOX: box_coordinate,
    codes.SIMPLEX: simplex_coordinate,
    codes.CAPPED_SIMPLEX: capped_simplex_coordinate,
    codes.PRODUCT: product_coordinate,
}
