"""Euclidean projections in two stages: one pass finds a threshold, then each coordinate follows from it alone.

The second stage being elementwise, a round fuses it with the movement it causes. Every set reduces to a pair
``(shift, theta)``: subtracting the largest entry first keeps the threshold exact for points far outside the set.
A threshold gets ``(y, u, d, p, guess)``: the point, scratch, the dimension, the set's parameters, and the previous
round's ``shift + theta`` (or -inf). A coordinate gets ``(y[i], u[i], i, d, p, shift, theta)``.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from klazy.kernels.codes import BOX, CAPPED_SIMPLEX, L1_BALL, L2_BALL, PRODUCT, SIMPLEX
from klazy.kernels.lane import (
    anywhere,
    beyond,
    called,
    everywhere,
    exact,
    larger,
    load,
    root,
    signed,
    size,
    skip,
    smaller,
    spread,
    store,
    where,
    without_nan,
)

EPS = float(np.finfo(np.float64).eps)
LARGEST = float(np.finfo(np.float64).max)
D = 0  # the dimension where it is a constant of the kernel, else 0
MOST_TURNS = 60  # of Newton's search in a bracket, before its kinks are searched


class Projection(NamedTuple):
    """The two stages of a set's projection, and its lowest point."""

    threshold: Callable[..., Any]
    coordinate: Callable[..., Any]
    lowest: Callable[..., Any]


def threshold(y, u, d, p, guess):
    """The first stage of the set at hand; a kernel puts it here."""
    raise NotImplementedError


def coordinate(y, done, i, d, p, shift, theta):
    """The second stage of the set at hand; a kernel puts it here."""
    raise NotImplementedError


def lowest(y, u, d, p):
    """The point of the set at hand at which the linear function y is least, into ``u``; a kernel puts it here."""
    raise NotImplementedError


# ---- positive parts that sum to a total: simplices and the l1 ball


@exact
def above(v, shift, theta):
    """The part of ``v - shift`` above ``theta``."""
    return larger((v - shift) - theta, spread(0.0))


@without_nan
def highest(v, d):
    """The largest entry of a vector."""
    top = load(v, 0)
    for i in range(1, d):
        entry = load(v, i)
        top = where(entry > top, entry, top)  # the comparison stands here because the promise does
    return top


@exact
def sorted_threshold(v, w, d, total, guess):
    """For a few coordinates: an odd-even sorting network into ``w``, then the best prefix; no branch to mispredict."""
    for i in range(d):
        store(w, i, load(v, i))
    for layer in range(d):
        for i in range(layer % 2, d - 1, 2):
            first = load(w, i)
            second = load(w, i + 1)
            store(w, i, larger(first, second))
            store(w, i + 1, smaller(first, second))
    shift = load(w, 0)
    theta = spread(-total)
    prefix = spread(-total)
    for j in range(1, d):
        prefix = prefix + (load(w, j) - shift)
        theta = larger(theta, prefix * (1.0 / (j + 1)))
    return shift, theta


def newton_threshold(v, w, d, total, guess):
    """Newton on ``sum max(v - theta, 0) = total``: convex and decreasing, so one step from anywhere lands left of the
    root, and from there the set of positive terms only shrinks. Started at the previous round's threshold."""
    shift = highest(v, d)
    theta = guess - shift
    inside = (theta > -total) & (theta < 0.0)
    theta = where(inside, theta, spread(-total))
    count = spread(d + 1.0)
    first = True
    searching = True
    while searching:
        excess = spread(0.0)
        active = spread(0.0)
        for i in range(d):
            e = above(load(v, i), shift, theta)
            excess = excess + e
            active = active + where(e > 0.0, spread(1.0), spread(0.0))
        theta = theta + (excess - total) / active
        searching = anywhere(active < count)
        if first:  # left of the root later sets of positive terms are subsets of this one
            count = where(excess >= total, active, count)
        else:
            count = active
        first = False
    return shift, theta


def positive_threshold(v, w, d, total, guess):
    """One of the two above: the sorting network where the dimension is a small constant."""
    raise NotImplementedError


def l1_threshold(y, u, d, p, guess):
    norm = spread(0.0)
    for i in range(d):
        gap = size(load(y, i) - p[1 + i])
        store(u, i, gap)
        norm = norm + gap
    shift = spread(0.0)
    theta = spread(0.0)
    outside = norm > p[0]
    if anywhere(outside):
        shift, theta = positive_threshold(u, u, d, p[0], guess)
        shift = where(outside, shift, spread(0.0))
        theta = where(outside, theta, spread(0.0))
    return shift, theta


@exact
def l1_coordinate(y, done, i, d, p, shift, theta):
    z = y - p[1 + i]
    return signed(above(size(z), shift, theta), z) + p[1 + i]


def simplex_threshold(y, u, d, p, guess):
    return positive_threshold(y, u, d, p[0], guess)


@exact
def simplex_coordinate(y, done, i, d, p, shift, theta):
    return above(y, shift, theta)


# ---- the capped simplex


@exact
def between(v, shift, theta, lower, upper):
    """``v - shift - theta``, clipped."""
    z = larger((v - shift) - theta, spread(lower))
    return smaller(z, spread(upper))


def measure_total(v, d, p, shift, theta):
    """By how much the clipped coordinates exceed the total, their sizes summed, and how many lie between their bounds."""
    kept = spread(0.0)
    scale = spread(0.0)
    free = spread(0.0)
    for i in range(d):
        z = between(load(v, i), shift, theta, p[1 + i], p[1 + d + i])
        kept = kept + z
        scale = scale + size(z)
        free = free + where((z > p[1 + i]) & (z < p[1 + d + i]), spread(1.0), spread(0.0))
    return kept - p[0], scale, free


@called
@exact
def search_kinks(v, dim, p, shift, low, high):
    """The threshold in a bracket, by its kinks, at which a coordinate meets one of its bounds.

    Halving takes a thousand steps where entries differ by many orders of magnitude; there are no more than two kinks a
    coordinate. Each is known up to its rounding, so the places on both sides of it are tried. If the sum jumps over the
    total there, the upper place is the threshold.
    """
    d = D if D > 0 else dim
    searching = True
    while searching:
        middle = 0.5 * (low + high)
        kink = spread(np.inf)
        for i in range(4 * d):
            place = (load(v, i % d) - shift) - p[1 + i % (2 * d)]
            place = place + (EPS if i < 2 * d else -EPS) * size(place)
            inside = (place > low) & (place < high)
            closer = inside & (size(place - middle) < size(kink - middle))
            kink = where(closer, place, kink)
        known = kink < np.inf
        place = where(known, kink, high)
        excess, _, _ = measure_total(v, d, p, shift, place)
        low = where(excess > 0.0, place, low)
        high = where(excess > 0.0, high, place)
        searching = anywhere(known)
    middle = 0.5 * (low + high)
    excess, _, free = measure_total(v, d, p, shift, middle)
    solved = middle + excess / larger(free, spread(1.0))
    linear = (free > 0.0) & (middle > low) & (middle < high)
    return where(linear, smaller(larger(solved, low), high), high)


@exact
def outer_kinks(v, d, p, shift):
    """The thresholds below which every coordinate has its cap, and above which it has its floor."""
    low = spread(np.inf)
    high = spread(-np.inf)
    for i in range(d):
        gap = load(v, i) - shift
        low = smaller(gap - p[1 + d + i], low)
        high = larger(gap - p[1 + i], high)
    return low, high


@called
def bracketed_threshold(v, dim, p, shift, guess):
    """Newton in a bracket on ``sum clip(v - shift - theta, floor, cap) = total``: the sum is not convex in theta, so every
    second late step bisects."""
    d = D if D > 0 else dim
    low, high = outer_kinks(v, d, p, shift)
    theta = where((guess > low) & (guess < high), guess, 0.5 * (low + high))
    found = theta > np.inf  # nowhere
    turn = 0
    searching = True
    while searching:
        excess, scale, free = measure_total(v, d, p, shift, theta)
        # Each free coordinate has the rounding of theta; far from the set that says nothing.
        settled = size(excess) <= EPS * (scale + free * smaller(size(theta), scale))
        newton = where(free > 0.0, theta + excess / larger(free, spread(1.0)), theta)
        if everywhere(found | settled):
            return where(found, theta, newton)
        low = where(excess > 0.0, theta, low)
        high = where(excess > 0.0, high, theta)
        inside = (free > 0.0) & (newton > low) & (newton < high)
        if turn > 8 and turn % 2 == 1:
            inside = settled
        middle = 0.5 * (low + high)
        middle = where((middle > low) & (middle < high), middle, high)
        following = where(inside | settled, newton, middle)
        still = following == theta
        theta = where(found, theta, following)
        found = found | settled | still
        turn += 1
        searching = turn < MOST_TURNS and not everywhere(found)
    if not everywhere(found):
        theta = where(found, theta, search_kinks(v, d, p, shift, low, high))
    return theta


@exact
def entry_inside(y, d, p, shift, theta):
    """The entry that is farthest inside its bounds, or least outside them; and its bounds."""
    nearest = spread(np.inf)
    pivot = shift
    lower = spread(0.0)
    upper = spread(0.0)
    for i in range(d):
        z = (load(y, i) - shift) - theta
        outside = larger(p[1 + i] - z, z - p[1 + d + i])
        closer = outside < nearest
        nearest = where(closer, outside, nearest)
        pivot = where(closer, load(y, i), pivot)
        lower = where(closer, spread(p[1 + i]), lower)
        upper = where(closer, spread(p[1 + d + i]), upper)
    return pivot, lower, upper


@exact
def capped_threshold(y, u, d, p, guess):
    """Solved around the largest entry, then around one that lies between its bounds, until that is the same one: only
    differences to entries near the threshold are exact when others are far away."""
    shift = highest(y, d)
    theta = spread(-np.inf)
    lower = spread(np.inf)
    upper = spread(-np.inf)
    turn = 0
    searching = True
    while searching:
        theta = bracketed_threshold(y, d, p, shift, theta)
        turn += 1
        inside = (theta + lower < 0.0) & (theta + upper > 0.0)  # the entry that it was solved around
        searching = turn <= d and not everywhere(inside)
        if searching:
            pivot, lower, upper = entry_inside(y, d, p, shift, theta)
            searching = not everywhere(pivot == shift)
            theta = theta + (shift - pivot)
            shift = pivot
    return shift, theta


@exact
def capped_coordinate(y, done, i, d, p, shift, theta):
    return between(y, shift, theta, p[1 + i], p[1 + d + i])


# ---- the l2 ball and the box


@called
def far_l2_scale(y, d, p):
    """radius / norm for a point so far away that its squares overflow."""
    top = spread(0.0)
    for i in range(d):
        top = larger(top, size(load(y, i) - p[1 + i]))
    square = spread(0.0)
    for i in range(d):
        gap = (load(y, i) - p[1 + i]) / top
        square = square + gap * gap
    return smaller(p[0] / top / root(square), spread(1.0))


def l2_threshold(y, u, d, p, guess):
    square = spread(0.0)
    for i in range(d):
        gap = load(y, i) - p[1 + i]
        square = square + gap * gap
    theta = spread(1.0)
    inside = min(p[0] * p[0], LARGEST)
    if anywhere(square > inside):
        theta = p[0] / root(larger(square, spread(inside)))  # exactly 1 inside
        far = square > LARGEST
        if anywhere(far):
            theta = where(far, far_l2_scale(y, d, p), theta)
    return spread(0.0), theta


@exact
def l2_coordinate(y, done, i, d, p, shift, theta):
    return (y - p[1 + i]) * theta + p[1 + i]


def box_threshold(y, u, d, p, guess):
    return spread(0.0), spread(0.0)


@exact
def box_coordinate(y, done, i, d, p, shift, theta):
    return smaller(larger(y, spread(p[i])), spread(p[d + i]))


# ---- products, whose parts are known by their codes


def project_leaf(code, y, u, d, p):
    """The projection onto one set of a product, by its code, into ``u``; a kernel puts it here."""
    raise NotImplementedError


@called
def project_into(y, u, d, p):
    """Both stages of the set at hand, into ``u``."""
    shift, theta = threshold(y, u, d, p, spread(-np.inf))
    for i in range(d):
        store(u, i, coordinate(load(y, i), load(u, i), i, d, p, shift, theta))


def product_threshold(y, u, d, p, guess):
    """Every part of ``y`` into ``u``, by the table at the head of ``p``."""
    for part in range(int(p[0])):
        row = 1 + 4 * part
        first = int(p[row + 1])
        end = int(p[row + 2])
        project_leaf(int(p[row]), skip(y, first), skip(u, first), end - first, beyond(p, int(p[row + 3])))
    return spread(0.0), spread(0.0)


@exact
def done_coordinate(y, done, i, d, p, shift, theta):
    """The coordinate as the first stage left it."""
    return done


# ---- where a linear function is least; of equal entries the first counts


@exact
def l2_lowest(y, u, d, p):
    """Against the direction of y, whose size is taken out first so that no square overflows; the centre if y is zero."""
    top = spread(0.0)
    for i in range(d):
        top = larger(size(load(y, i)), top)
    top = where(top > 0.0, top, spread(1.0))
    square = spread(0.0)
    for i in range(d):
        z = load(y, i) / top
        store(u, i, z)
        square = square + z * z
    norm = where(square > 0.0, root(square), spread(1.0))
    for i in range(d):
        store(u, i, p[1 + i] - p[0] * (load(u, i) / norm))


@exact
def l1_lowest(y, u, d, p):
    """A vertex, or the centre if y is zero."""
    top = spread(0.0)
    which = spread(-1.0)
    for i in range(d):
        steeper = size(load(y, i)) > top
        top = where(steeper, size(load(y, i)), top)
        which = where(steeper, spread(1.0 * i), which)
    for i in range(d):
        aside = where(load(y, i) > 0.0, spread(p[1 + i] - p[0]), spread(p[1 + i] + p[0]))
        store(u, i, where(which == 1.0 * i, aside, spread(p[1 + i])))


@exact
def box_lowest(y, u, d, p):
    for i in range(d):
        store(u, i, where(load(y, i) > 0.0, spread(p[i]), spread(p[d + i])))


@exact
def simplex_lowest(y, u, d, p):
    least = load(y, 0)
    which = spread(0.0)
    for i in range(1, d):
        less = load(y, i) < least
        least = where(less, load(y, i), least)
        which = where(less, spread(1.0 * i), which)
    for i in range(d):
        store(u, i, where(which == 1.0 * i, spread(p[0]), spread(0.0)))


@exact
def capped_lowest(y, u, d, p):
    """What is above the floors is poured into the cheapest, then into the next, up to their caps."""
    amount = p[0]
    for i in range(d):
        amount = amount - p[1 + i]
        store(u, i, spread(p[1 + i]))
    poured = spread(0.0)
    least = spread(-np.inf)
    which = spread(-1.0)
    turn = 0
    searching = True
    while searching:
        cheapest = spread(np.inf)
        taker = spread(-1.0)
        room = spread(0.0)
        for i in range(d):
            price = load(y, i)
            is_left = (price > least) | ((price == least) & (which < 1.0 * i))
            takes = is_left & (price < cheapest)
            cheapest = where(takes, price, cheapest)
            taker = where(takes, spread(1.0 * i), taker)
            room = where(takes, spread(p[1 + d + i] - p[1 + i]), room)
        poured = poured + room
        part = smaller(larger(amount - (poured - room), spread(0.0)), room)
        for i in range(d):
            store(u, i, where(taker == 1.0 * i, part + p[1 + i], load(u, i)))
        least = cheapest
        which = taker
        turn += 1
        searching = turn < d and anywhere(poured < amount)


def lowest_leaf(code, y, u, d, p):
    """The lowest point of one set of a product, by its code, into ``u``; a kernel puts it here."""
    raise NotImplementedError


def product_lowest(y, u, d, p):
    for part in range(int(p[0])):
        row = 1 + 4 * part
        first = int(p[row + 1])
        end = int(p[row + 2])
        lowest_leaf(int(p[row]), skip(y, first), skip(u, first), end - first, beyond(p, int(p[row + 3])))


PROJECTIONS = {
    L2_BALL: Projection(l2_threshold, l2_coordinate, l2_lowest),
    L1_BALL: Projection(l1_threshold, l1_coordinate, l1_lowest),
    BOX: Projection(box_threshold, box_coordinate, box_lowest),
    SIMPLEX: Projection(simplex_threshold, simplex_coordinate, simplex_lowest),
    CAPPED_SIMPLEX: Projection(capped_threshold, capped_coordinate, capped_lowest),
    PRODUCT: Projection(product_threshold, done_coordinate, product_lowest),
}
