"""What kernels know of each set, over a lane: its projection, its lowest point, and the move that pays.

A projection has two stages: one pass finds a threshold, then each coordinate follows from it alone. The second stage is
elementwise, so a round fuses it with the movement it causes. Every set reduces to a pair ``(shift, theta)``: subtracting the
largest entry first keeps the threshold exact for points far outside the set. A threshold gets ``(y, u, d, p, guess)``: the
point, scratch, the dimension, the set's parameters, and the previous round's ``shift + theta`` (or -inf). A coordinate gets
``(y[i], u[i], i, d, p, shift, theta)``.

The move that pays minimises a forecast cost plus the cost of moving there: the twin of klazy.learners.prox and of what
sets know (``tangent``, ``trade`` and ``balance``). These parts get the point ``x``, a vector ``y``, scratch ``u`` of MOVE_ROOM
vectors, the dimension and the set's parameters. ``trade`` and ``balance`` also get the prices of a unit up and of a unit down,
write the next point into the first vector of ``u``, and return which runs move; where none does, ``u`` is not read.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from klazy.kernels import codes
from klazy.kernels.lane import *
from klazy.kernels.slots import *

EPS = float(np.finfo(np.float64).eps)
FLOAT_MAX = float(np.finfo(np.float64).max)
ON_BOUNDARY = 1e-12  # As in klazy.sets.balls.
ROUNDING = 8.0 * EPS  # As in klazy.learners.prox.
TURNS = 100  # Turns of a search.
FAR_ENTRY = 64.0  # Times the total of a capped simplex: differences of nearer entries are exact up to a few roundings.
EARLY = 8  # Turns after which every second one halves the bracket.
LEAST_NORM = 1e-150  # No norm that exceeds a price is smaller.
CLOSE = 1e-5  # After so small a step of Halley's, relative to the number sought, the next would be rounding.


# ---- positive parts that sum to a total: simplices and the l1 ball


@exact
def above(v, shift, theta):
    """Return the part of ``v - shift`` above ``theta``."""
    return larger((v - shift) - theta, spread(0.0))


def highest(v, d):
    """Return the largest entry of a vector."""
    top = load(v, 0)
    for i in range(1, d):
        top = larger_number(load(v, i), top)
    return top


def least_entry(v, d):
    """Return the least entry of a vector."""
    least = load(v, 0)
    # In a loop, registers of entries 1 to 8 would wait until those of 0 to 7 and of 8 to 15 are stored.
    for i in range(min(D, 1), d):
        least = smaller_number(load(v, i), least)
    return least


@exact
def sorted_threshold(v, w, d, total, guess):
    """Sort a few coordinates by an odd-even network into ``w``, then take the best prefix; no branch is mispredicted."""
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
    """Solve ``sum max(v - theta, 0) = total`` by Newton's method.

    The sum is convex and decreasing, so one step from anywhere lands left of the root, and from there the set of positive terms
    only shrinks. It starts at the previous round's threshold.
    """
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
        if first:  # Left of the root the set of positive terms only shrinks.
            count = where(excess >= total, active, count)
        else:
            count = active
        first = False
    return shift, theta


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
def past(v, shift, theta):
    """Return ``v - shift - theta``, the differences in this order also where sums are reordered."""
    return (v - shift) - theta


@exact
def between(v, shift, theta, lower, upper):
    """Return ``v - shift - theta``, clipped to its bounds."""
    z = larger((v - shift) - theta, spread(lower))
    return smaller(z, spread(upper))


@called
def fix_at_bounds(v, dim, p, shift):
    """Find theta with ``sum clip(v - shift - theta, floor, cap) = total``.

    Each turn solves for the coordinates that are still free, then clips all of them. If the clipped sum exceeds the total,
    theta must rise, so the coordinates at their floors stay there. If it is below the total, those at their caps do.
    """
    d = D if D > 0 else dim
    low = spread(-np.inf)
    high = spread(np.inf)
    theta = spread(0.0)
    floors = spread(0.0)
    caps = spread(0.0)
    searching = True
    while searching:
        wanted = spread(-p[0])
        free = spread(0.0)
        for i in range(d):
            gap = past(load(v, i), shift, spread(0.0))
            is_capped = past(load(v, i), shift, high) >= p[1 + d + i]
            is_fixed = is_capped | (past(load(v, i), shift, low) <= p[1 + i])
            bound = where(is_capped, spread(p[1 + d + i]), spread(p[1 + i]))
            wanted = wanted + where(is_fixed, bound, gap)
            free = free + where(is_fixed, spread(0.0), spread(1.0))
        solved = smaller(larger(wanted / larger(free, spread(1.0)), low), high)
        theta = where(free > 0.0, solved, theta)
        excess = spread(-p[0])
        at_floor = spread(0.0)
        at_cap = spread(0.0)
        for i in range(d):
            z = past(load(v, i), shift, theta)
            excess = excess + between(load(v, i), shift, theta, p[1 + i], p[1 + d + i])
            at_floor = at_floor + where(z <= p[1 + i], spread(1.0), spread(0.0))
            at_cap = at_cap + where(z >= p[1 + d + i], spread(1.0), spread(0.0))
        rises = (excess > 0.0) & (at_floor > floors)
        falls = (excess < 0.0) & (at_cap > caps)
        low = where(rises, theta, low)
        high = where(falls, theta, high)
        floors = where(rises, at_floor, floors)
        caps = where(falls, at_cap, caps)
        searching = anywhere(rises | falls)
    return theta


@exact
def entry_inside(y, d, p, shift, theta):
    """Return the entry that is farthest inside its bounds, or least outside them."""
    nearest = spread(np.inf)
    pivot = shift
    for i in range(d):
        z = (load(y, i) - shift) - theta
        outside = larger(p[1 + i] - z, z - p[1 + d + i])
        pivot = where(outside < nearest, load(y, i), pivot)
        nearest = smaller(outside, nearest)
    return pivot


@exact
def capped_threshold(y, u, d, p, guess):
    """Solve around the largest entry; where others are far from it, solve again around one between its bounds.

    Only differences to entries near the threshold are exact when others are far away.
    """
    shift = highest(y, d)
    theta = fix_at_bounds(y, d, p, shift)
    least = shift
    for i in range(d):
        least = smaller(load(y, i), least)
    turn = 0
    searching = anywhere(shift - least > FAR_ENTRY * abs(p[0]))
    while searching:
        pivot = entry_inside(y, d, p, shift, theta)
        turn += 1
        searching = turn <= d and not everywhere(pivot == shift)
        if searching:
            shift = pivot
            theta = fix_at_bounds(y, d, p, shift)
    return shift, theta


@exact
def capped_coordinate(y, done, i, d, p, shift, theta):
    return between(y, shift, theta, p[1 + i], p[1 + d + i])


# ---- the l2 ball and the box


@called
def far_l2_scale(y, d, p):
    """Return radius / norm for a point so far away that its squares overflow."""
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
    inside = min(p[0] * p[0], FLOAT_MAX)
    if anywhere(square > inside):
        theta = p[0] / root(larger(square, spread(inside)))  # This is exactly 1 inside the ball.
        far = square > FLOAT_MAX
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


def find_part(p, part):
    """Return the code of a part of a product, its coordinates, and where its parameters begin."""
    row = 1 + 4 * part
    first = int(p[row + 1])
    return int(p[row]), first, int(p[row + 2]) - first, int(p[row + 3])


@called
def project_into(y, u, d, p):
    """Project y onto the set at hand, into ``u``."""
    shift, theta = threshold(y, u, d, p, spread(-np.inf))
    for i in range(d):
        store(u, i, coordinate(load(y, i), load(u, i), i, d, p, shift, theta))


def product_threshold(y, u, d, p, guess):
    """Project every part of ``y`` into ``u``, by the table at the head of ``p``."""
    for part in range(int(p[0])):
        code, first, width, own = find_part(p, part)
        project_leaf(code, skip(y, first), skip(u, first), width, beyond(p, own))
    return spread(0.0), spread(0.0)


@exact
def done_coordinate(y, done, i, d, p, shift, theta):
    """Return the coordinate as the first stage left it."""
    return done


# ---- where a linear function is least; of equal entries the first counts


@exact
def l2_lowest(y, u, d, p):
    """Write the point against the direction of y, divided by its size so that no square overflows; the centre if y is zero."""
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
    """Write a vertex, or the centre if y is zero."""
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
    """Pour the amount above the floors into the cheapest coordinate, then into the next, up to their caps."""
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


def product_lowest(y, u, d, p):
    for part in range(int(p[0])):
        code, first, width, own = find_part(p, part)
        lowest_leaf(code, skip(y, first), skip(u, first), width, beyond(p, own))


# ---- Euclidean distance, on every set


def move_by_search(x, y, u, d, p, price, far, curvature, is_round=False):
    """Move down y, the steepest descent at x; no two points of the set are farther apart than ``far``."""
    moves = root(square_of(y, d)) > price
    if anywhere(moves):
        ahead = root(tangent(x, y, u, d, p))
        moves = ahead > price
        if anywhere(moves):
            find_stride(x, y, u, d, p, price, ahead, far, curvature, is_round)
    return moves


@called
def find_stride(x, y, u, dim, p, price, ahead, far, curvature, is_round):
    """Search as klazy.learners.prox does, into ``u``; runs whose slope ``ahead`` is not above the price stay.

    The search is for tau = 1 / (sigma - curvature): a move of the length price times tau is wanted. A line through the last two
    points finds it on flat sides, but leads far astray on a set that ``is_round``. There the excess of tau, as a share of what
    is right for the length of its move, is nearly linear in tau, and known where no move is left.
    """
    d = D if D > 0 else dim
    point = skip(u, d)
    before = skip(u, 2 * d)
    about = spread(0.0)
    for i in range(d):
        about = about + size(load(x, i))
        store(before, i, spread(0.0))
    found = ahead <= price
    kept = price / where(found, spread(1.0), ahead)
    low = spread(0.0)
    high = far / price
    tau = high
    if curvature > 0.0:
        tau = where(found, high, smaller((ahead - price) / (price * curvature), high))
    elif is_round:
        tau = where(found, high, high * (1.0 - kept))
    tau_before = spread(0.0)
    stride_before = spread(0.0)
    surplus_before = kept - 1.0
    off = spread(np.inf)
    turn = 0
    searching = True
    while searching:
        bend = spread(1.0)  # of the stride, 1 / sigma
        if curvature > 0.0:
            bend = 1.0 / (1.0 + curvature * tau)
        stride = tau * bend
        for i in range(d):
            store(point, i, load(x, i) + stride * load(y, i))
        project_into(point, u, d, p)
        square = square_between(x, u, d)
        length = root(square)
        wanted = price * tau
        excess = length - wanted
        settled = size(excess) <= ROUNDING * (wanted + about + length)
        low = where(excess > 0.0, tau, low)
        high = where(excess > 0.0, high, tau)
        if is_round:
            rise = LEAST_NORM - (surplus_before * length + excess)  # never zero
            following = tau + excess * (tau - tau_before) / rise
            surplus_before = wanted / larger(length, spread(LEAST_NORM)) - 1.0
        else:
            along = spread(0.0)
            apart = spread(0.0)
            for i in range(d):
                delta = load(u, i) - load(x, i)
                change = delta - load(before, i)
                store(before, i, delta)
                along = along + delta * change
                apart = apart + change * change
            following = length / price  # at first, as if the point did not depend on the stride
            if turn > 0:
                following = meet(square, along, apart, tau, stride - stride_before, bend, price)
        found = found | settled | (size(following - tau) <= ROUNDING * tau)
        inside = (size(excess) <= 0.5 * off) & (following > low) & (following < high)
        if not everywhere(found | inside):
            middle = where(low > 0.0, root(low * high), 0.25 * high)
            following = where(inside, following, middle)
            found = found | (size(following - tau) <= ROUNDING * tau)
        if turn > 1:
            off = size(excess)
        tau_before = tau
        stride_before = stride
        tau = where(found, tau, following)
        turn += 1
        searching = turn < TURNS and not everywhere(found)
    keep_moves(x, u, d, ahead > price)


@exact
def meet(square, along, apart, tau, gap, bend, price):
    """Return where the line through the last two points is as long as the price times tau, else -1."""
    pace = bend * bend / where(size(gap) > 0.0, gap, spread(1.0))
    share = tau * pace
    aa = (square - 2.0 * share * along) + share * share * apart
    ab = (along - share * apart) * pace
    bb = apart * (pace * pace) - price * price
    free = ab * ab - aa * bb
    reach = root(larger(free, spread(0.0)))
    rising = ab > 0.0
    below = where(rising, 0.0 - bb, reach - ab)
    number = where(rising, ab + reach, aa) / where(size(below) > 0.0, below, spread(1.0))
    meets = (free >= 0.0) & (size(below) > 0.0)
    return where(meets, number, spread(-1.0))


# ---- between bounds: boxes, and shares of a total


def simplex_low(i, d, p):
    return 0.0


def simplex_high(i, d, p):
    return np.inf


def capped_low(i, d, p):
    return p[1 + i]


def capped_high(i, d, p):
    return p[1 + d + i]


def box_tangent(x, y, u, d, p):
    square = spread(0.0)
    for i in range(d):
        v = load(y, i)
        ends = ((v > 0.0) & (load(x, i) >= p[d + i])) | ((v < 0.0) & (load(x, i) <= p[i]))
        square = square + where(ends, spread(0.0), v * v)
    return square


def box_trade(x, y, u, d, p, rise, fall):
    steep = 0.0 - rise
    for i in range(d):
        z = where(load(y, i) < steep, spread(p[d + i]), load(x, i))
        store(u, i, where(load(y, i) > fall, spread(p[i]), z))
    return moved_from(x, u, d)


def box_balance(x, y, u, d, p, rise, fall):
    for i in range(d):
        z = larger(shrink(load(y, i), load(x, i), rise, fall), spread(p[i]))
        store(u, i, smaller(z, spread(p[d + i])))
    return moved_from(x, u, d)


def shrink(target, point, rise, fall):
    """Return the target, moved towards the point by the price of the way."""
    z = where(point - target > fall, target + fall, point)
    return where(target - point > rise, target - rise, z)


def respond(step, tilt, rise, fall, low, high):
    """Return how far a coordinate goes that wants a step but is tilted, and whether a smaller tilt would move it farther."""
    wish = step - tilt
    way = larger(wish - rise, spread(0.0)) + smaller(wish + fall, spread(0.0))
    way = smaller(larger(way, low), high)
    moves = (wish > rise) | (wish + fall < 0.0)
    return way, moves & (way > low) & (way < high)


def set_step(u, i, d, step, low, high, side):
    """Write what find_tilt needs of a coordinate."""
    store(u, i, step)
    store(u, d + i, low)
    store(u, 2 * d + i, high)
    store(u, 3 * d + i, side)


@called
@exact
def find_tilt(u, dim, rise, fall, total, floor, moves):
    """Find the tilt that makes the steps of all coordinates sum to ``total``; the steps become the first vector of ``u``.

    The others are how far a coordinate may fall and rise, and the side towards which its step counts, -1, 0 or 1. ``moves``
    marks runs that move in any case; the answer marks all that do. Where no trade pays, all steps are zero.
    ``floor`` is a tilt at which the sum is too large.
    """
    d = D if D > 0 else dim
    lows = skip(u, d)
    highs = skip(u, 2 * d)
    sides = skip(u, 3 * d)
    least = spread(-np.inf)
    most = spread(np.inf)
    for i in range(d):
        side = load(sides, i)
        wish = load(u, i) * side
        rises = side > 0.0
        ahead = where(rises, load(highs, i), 0.0 - load(lows, i))
        back = where(rises, 0.0 - load(lows, i), load(highs, i))
        dearer = where(rises, wish - rise, wish - fall)
        cheaper = where(rises, wish + fall, wish + rise)
        least = where((ahead > 0.0) & (size(side) > 0.0), larger(dearer, least), least)
        most = where((back > 0.0) & (size(side) > 0.0), smaller(cheaper, most), most)
    found = where_mask(moves, least > np.inf, least <= most)
    moves = moves | (least > most)
    low = where(moves, smaller(most, floor), spread(0.0))
    high = where(moves, least, spread(0.0))
    tilt = 0.5 * (low + high)
    turn = 0
    searching = anywhere(moves)
    while searching:
        excess = 0.0 - total
        scale = size(total)
        free = spread(0.0)
        for i in range(d):
            side = load(sides, i)
            way, is_free = respond(
                load(u, i), tilt * side, rise, fall, load(lows, i), load(highs, i)
            )
            excess = excess + way * side
            scale = scale + size(way)
            free = free + where(is_free, spread(1.0), spread(0.0))
        newton = tilt + excess / larger(free, spread(1.0))
        near = (free > 0.0) & (size(newton - tilt) <= ROUNDING * size(tilt))
        settled = near | (size(excess) <= ROUNDING * scale)
        low = where(excess > 0.0, tilt, low)
        high = where(excess > 0.0, high, tilt)
        inside = (free > 0.0) & (newton > low) & (newton < high)
        if turn > EARLY and turn % 2 == 1:
            inside = settled
        following = where(
            inside | (settled & (free > 0.0)), newton, where(settled, tilt, 0.5 * (low + high))
        )
        still = following == tilt
        tilt = where(found, tilt, following)
        found = found | settled | still
        turn += 1
        searching = turn < TURNS and not everywhere(found)
    for i in range(d):
        way, _ = respond(
            load(u, i), tilt * load(sides, i), rise, fall, load(lows, i), load(highs, i)
        )
        store(u, i, where(moves, way, spread(0.0)))
    return moves


def shares_tangent(x, y, u, d, p):
    for i in range(d):
        low = where(load(x, i) > low_of(i, d, p), spread(-np.inf), spread(0.0))
        high = where(load(x, i) < high_of(i, d, p), spread(np.inf), spread(0.0))
        set_step(u, i, d, load(y, i), low, high, spread(1.0))
    nothing = spread(0.0)
    find_tilt(u, d, nothing, nothing, nothing, spread(np.inf), no_run())
    return square_of(u, d)


def square_of(v, d):
    """Return the squared norm of a vector."""
    square = spread(0.0)
    for i in range(d):
        square = square + load(v, i) * load(v, i)
    return square


def square_between(x, u, d):
    """Return the squared distance of two points."""
    square = spread(0.0)
    for i in range(d):
        square = square + (load(u, i) - load(x, i)) * (load(u, i) - load(x, i))
    return square


def shares_balance(x, y, u, d, p, rise, fall):
    total = spread(p[0])
    for i in range(d):
        point = load(x, i)
        total = total - point
        set_step(
            u,
            i,
            d,
            load(y, i) - point,
            low_of(i, d, p) - point,
            high_of(i, d, p) - point,
            spread(1.0),
        )
    moves = find_tilt(u, d, rise, fall, total, spread(np.inf), no_run())
    for i in range(d):
        way = load(u, i)
        z = where(way <= load(u, d + i), spread(low_of(i, d, p)), load(x, i) + way)
        z = where(way >= load(u, 2 * d + i), spread(high_of(i, d, p)), z)
        store(u, i, where(size(way) > 0.0, z, load(x, i)))
    return moves


def simplex_trade(x, y, u, d, p, rise, fall):
    least = least_entry(y, d)
    level = least + rise
    given = spread(0.0)
    for i in range(d):
        gives = load(y, i) - fall > level
        given = given + where(gives, load(x, i), spread(0.0))
    moves = given > 0.0
    if anywhere(moves):
        for i in range(d):  # Of equally cheap coordinates the first takes all.
            gives = load(y, i) - fall > level
            takes = load(y, i) == least
            kept = where(gives, spread(0.0), load(x, i))
            store(u, i, kept + where(takes, given, spread(0.0)))
            given = where(takes, spread(0.0), given)
    return moves


def capped_trade(x, y, u, d, p, rise, fall):
    """Trade between the most expensive coordinate above its floor and the cheapest below its cap, until it pays no more."""
    for i in range(d):
        store(u, i, load(x, i))
    moves = no_run()
    turn = 0
    searching = True
    while searching:
        dearest = spread(-np.inf)
        cheapest = spread(np.inf)
        giver = spread(-1.0)
        taker = spread(-1.0)
        stock = spread(0.0)
        room = spread(0.0)
        for i in range(d):
            slope = load(y, i)
            left = load(u, i) - p[1 + i]
            gives = (left > 0.0) & (slope > dearest)
            dearest = where(gives, slope, dearest)
            giver = where(gives, spread(1.0 * i), giver)
            stock = where(gives, left, stock)
            free = p[1 + d + i] - load(u, i)
            takes = (free > 0.0) & (slope < cheapest)
            cheapest = where(takes, slope, cheapest)
            taker = where(takes, spread(1.0 * i), taker)
            room = where(takes, free, room)
        pays = dearest - fall > cheapest + rise
        turn += 1
        searching = anywhere(pays) and turn <= 2 * d
        if searching:
            moves = moves | pays
            amount = where(pays, smaller(stock, room), spread(0.0))
            empties = pays & (stock < room)
            fills = pays & (stock >= room)
            for i in range(d):
                z = load(u, i)
                z = z - where(giver == 1.0 * i, amount, spread(0.0))
                z = z + where(taker == 1.0 * i, amount, spread(0.0))
                z = where(empties & (giver == 1.0 * i), spread(p[1 + i]), z)
                store(u, i, where(fills & (taker == 1.0 * i), spread(p[1 + d + i]), z))
    return moves


# ---- the l1 ball: from the centre each coordinate has a side of its own


def side_of(z, other):
    """Return the sign of z, or of the other number where z is zero."""
    side = where(z > 0.0, spread(1.0), where(z < 0.0, spread(-1.0), other))
    return side


def l1_tangent(x, y, u, d, p):
    norm = spread(0.0)
    away = spread(0.0)
    for i in range(d):
        z = load(x, i) - p[1 + i]
        v = load(y, i)
        side = side_of(z, side_of(v, spread(0.0)))
        low = where((size(z) > 0.0) | (side < 0.0), spread(-np.inf), spread(0.0))
        high = where((size(z) > 0.0) | (side > 0.0), spread(np.inf), spread(0.0))
        set_step(u, i, d, v, low, high, side)
        norm = norm + size(z)
        away = away + v * side
    square = square_of(u, d)
    held = (norm >= (1.0 - ON_BOUNDARY) * p[0]) & (away > 0.0)
    if anywhere(held):
        nothing = spread(0.0)
        for i in range(d):
            store(u, 3 * d + i, where(held, load(u, 3 * d + i), nothing))
        find_tilt(u, d, nothing, nothing, nothing, nothing, no_run())
        square = where(held, square_of(u, d), square)
    return square


def l1_balance(x, y, u, d, p, rise, fall):
    norm = spread(0.0)
    before = spread(0.0)
    reach = spread(0.0)
    for i in range(d):
        z = shrink(load(y, i), load(x, i), rise, fall)
        store(u, i, z)
        norm = norm + size(z - p[1 + i])
        before = before + size(load(x, i) - p[1 + i])
    moves = moved_from(x, u, d)
    outside = norm > p[0]
    if anywhere(outside):
        goes = outside & (before < (1.0 - ON_BOUNDARY) * p[0])
        for i in range(d):
            gap = p[1 + i] - load(x, i)  # the way to the centre, where every coordinate ends
            side = where(outside, side_of(load(u, i) - p[1 + i], spread(0.0)), spread(0.0))
            goes = goes | (gap * side > 0.0)
            reach = reach + gap * side
            low = where(side < 0.0, spread(-np.inf), gap)
            high = where(side > 0.0, spread(np.inf), gap)
            set_step(u, i, d, load(y, i) - load(x, i), low, high, side)
        goes = find_tilt(u, d, rise, fall, p[0] + reach, spread(0.0), goes)
        for i in range(d):
            way = load(u, i)
            at_center = (way == load(u, d + i)) | (way == load(u, 2 * d + i))
            z = where(at_center, spread(p[1 + i]), load(x, i) + way)
            z = where(size(way) > 0.0, z, load(x, i))
            store(u, i, where(outside, z, shrink(load(y, i), load(x, i), rise, fall)))
        moves = where_mask(outside, goes, moves)
    return moves


def where_mask(mask, one, other):
    """Return the mask ``one`` where ``mask`` holds, and ``other`` elsewhere."""
    chosen = where(
        mask, where(one, spread(1.0), spread(0.0)), where(other, spread(1.0), spread(0.0))
    )
    return chosen > 0.0


@called
def l1_trade(x, y, u, dim, p, rise, fall):
    """Solve a knapsack: from the centre outwards the cost of a coordinate falls on at most two pieces, to x_i and beyond."""
    d = D if D > 0 else dim
    norm = spread(0.0)
    least = spread(np.inf)
    most = spread(-np.inf)
    for i in range(d):
        z = load(x, i) - p[1 + i]
        side, inward, outward = l1_slopes(z, load(y, i), rise, fall)
        norm = norm + size(z)
        least = smaller(outward, least)
        most = where(size(z) > 0.0, larger(inward, most), most)
        # Where it pays to come back, it may pay to go on to the other side.
        back = (size(z) > 0.0) & (inward >= 0.0)
        store(u, i, spread(0.0))
        store(u, d + i, where(back, 0.0 - side, side))
        store(u, 2 * d + i, where(back, spread(0.0), size(z)))
        store(u, 3 * d + i, where(back, 0.0 - inward, outward))
    full = norm >= (1.0 - ON_BOUNDARY) * p[0]
    stays = (most < 0.0) & ((least >= 0.0) | (full & (most <= least)))
    left = where(stays, spread(0.0), spread(p[0]))
    turn = 0
    searching = not everywhere(stays)
    while searching:
        cheapest = spread(0.0)
        taker = spread(-1.0)
        room = spread(0.0)
        for i in range(d):
            inner = load(u, 2 * d + i) - load(u, i)
            side, inward, outward = l1_slopes(load(x, i) - p[1 + i], load(y, i), rise, fall)
            slope = where(inner > 0.0, inward, load(u, 3 * d + i))
            takes = slope < cheapest
            cheapest = where(takes, slope, cheapest)
            taker = where(takes, spread(1.0 * i), taker)
            room = where(takes, where(inner > 0.0, inner, spread(np.inf)), room)
        fills = room <= left
        amount = smaller(room, left)
        for i in range(d):
            takes = taker == 1.0 * i
            z = where(takes, load(u, i) + amount, load(u, i))
            store(u, i, where(takes & fills, load(u, 2 * d + i), z))
        left = left - where(taker >= 0.0, amount, left)
        turn += 1
        searching = turn <= 2 * d and anywhere(left > 0.0)
    rounding = d * EPS * p[0]
    for i in range(d):
        v = load(u, i) * load(u, d + i)
        near = size(v - (load(x, i) - p[1 + i])) <= rounding
        store(u, i, where(stays | near, load(x, i), p[1 + i] + v))
    return moved_from(x, u, d)


def moved_from(x, u, d):
    """Return which runs are no longer at x."""
    moves = no_run()
    for i in range(d):
        moves = moves | (load(u, i) > load(x, i)) | (load(u, i) < load(x, i))
    return moves


def l1_slopes(z, slope, rise, fall):
    """Return the side of a coordinate, and what a unit costs there between the centre and z, and beyond z."""
    side = side_of(z, 0.0 - side_of(slope, spread(0.0)))
    rises = side > 0.0
    ahead = slope * side
    return side, ahead - where(rises, fall, rise), ahead + where(rises, rise, fall)


# ---- the l2 ball


def l2_tangent(x, y, u, d, p):
    square = spread(0.0)
    norm = spread(0.0)
    along = spread(0.0)
    for i in range(d):
        z = load(x, i) - p[1 + i]
        square = square + load(y, i) * load(y, i)
        norm = norm + z * z
        along = along + load(y, i) * z
    edge = (1.0 - ON_BOUNDARY) * p[0]
    held = (norm >= edge * edge) & (along > 0.0)
    share = where(held, along / larger(norm, spread(LEAST_NORM)), spread(0.0))
    rest = spread(0.0)
    for i in range(d):
        v = load(y, i) - share * (load(x, i) - p[1 + i])
        rest = rest + v * v
    return where(held, rest, square)


def l2_trade(x, y, u, d, p, rise, fall):
    moves = no_run()
    for i in range(d):
        slope = load(y, i)
        moves = moves | (slope + rise < 0.0) | (slope - fall > 0.0)
        store(y, i, 0.0 - slope)
    if anywhere(moves):
        moves = keep_moves(
            x, u, d, moves & stretch(x, y, u, d, p, rise, fall, spread(np.inf), moves)
        )
    return moves


def l2_balance(x, y, u, d, p, rise, fall):
    square = spread(0.0)
    for i in range(d):
        z = shrink(load(y, i), load(x, i), rise, fall)
        store(u, i, z)
        square = square + (z - p[1 + i]) * (z - p[1 + i])
    moves = moved_from(x, u, d)
    outside = square > p[0] * p[0]
    if anywhere(outside):
        for i in range(d):
            store(u, d + i, load(y, i))
            store(y, i, load(y, i) - p[1 + i])
        goes = stretch(x, y, u, d, p, rise, fall, spread(1.0), outside)
        for i in range(d):
            z = where(outside, load(u, i), shrink(load(u, d + i), load(x, i), rise, fall))
            store(u, i, z)
        moves = where_mask(outside, goes, moves)
    return moves


@called
def stretch(x, y, u, dim, p, rise, fall, farthest, goes):
    """Write clip(x, s (y - rise), s (y + fall)), seen from the centre, into ``u``, with the s that gives it the radius.

    Its norm grows with s, piece by piece. Returns which of the runs that want to move do: on the boundary some s may
    give the point itself.
    """
    d = D if D > 0 else dim
    r = p[0]
    least = spread(0.0)
    most = farthest
    norm = spread(0.0)
    scale = spread(0.0)
    for i in range(d):
        z = load(x, i) - p[1 + i]
        a = load(y, i) - rise
        b = load(y, i) + fall
        norm = norm + z * z
        scale = scale + load(y, i) * load(y, i)
        to_a = z / where(size(a) > 0.0, a, spread(1.0))
        to_b = z / where(size(b) > 0.0, b, spread(1.0))
        most = where(a > 0.0, smaller(to_a, most), most)
        least = where(a < 0.0, larger(to_a, least), least)
        least = where(b > 0.0, larger(to_b, least), least)
        most = where(b < 0.0, smaller(to_b, most), most)
        astray = ((a == 0.0) & (z < 0.0)) | ((b == 0.0) & (z > 0.0))
        most = where(astray, spread(-1.0), most)
    edge = (1.0 - ON_BOUNDARY) * r
    stays = (norm >= edge * edge) & (least <= most) & (most > 0.0)
    s = smaller(r / larger(root(scale), spread(LEAST_NORM)), farthest)
    low = spread(0.0)
    high = farthest
    found = where_mask(goes, stays, s >= 0.0)
    turn = 0
    searching = not everywhere(found)
    while searching:
        still = spread(0.0)
        rate = spread(0.0)
        for i in range(d):
            z = load(x, i) - p[1 + i]
            pace = pace_of(z, load(y, i), s, rise, fall)
            rate = rate + pace * pace
            still = still + where(pace == 0.0, z * z, spread(0.0))
        excess = still + s * s * rate - r * r
        low = where(excess > 0.0, low, s)
        high = where(excess > 0.0, s, high)
        solved = root(larger(r * r - still, spread(0.0)) / where(rate > 0.0, rate, spread(1.0)))
        following = where(high < np.inf, 0.5 * (low + high), 2.0 * s)
        settled = (rate > 0.0) & (size(excess) <= ROUNDING * r * r)
        inside = (rate > 0.0) & (solved >= low) & (solved <= high)
        if turn > EARLY and turn % 2 == 1:
            inside = settled
        following = where(inside | settled, solved, following)
        near = settled | (size(following - s) <= ROUNDING * s)
        s = where(found, s, following)
        found = found | near
        turn += 1
        searching = turn < TURNS and not everywhere(found)
    for i in range(d):
        pace = pace_of(load(x, i) - p[1 + i], load(y, i), s, rise, fall)
        v = where(pace == 0.0, load(x, i), p[1 + i] + s * pace)
        store(u, i, where(stays, load(x, i), v))
    return moved_from(x, u, d)


def pace_of(z, y, s, rise, fall):
    """Return how fast a coordinate of the stretched point moves with s; 0 where it rests at z."""
    a = y - rise
    b = y + fall
    return where(z < s * a, a, where(z > s * b, b, spread(0.0)))


def move_in_ball(x, y, u, d, p, price, far, curvature):
    """Move straight on until the price is left of a target; if that is outside, to the best point of the boundary."""
    n = root(square_of(y, d))
    moves = n > price
    if anywhere(moves):
        if curvature > 0.0:
            share = where(moves, 1.0 - price / larger(n, spread(LEAST_NORM)), spread(0.0))
            norm = spread(0.0)
            for i in range(d):
                z = load(x, i) + share * load(y, i)
                store(u, i, z)
                norm = norm + (z - p[1 + i]) * (z - p[1 + i])
            outside = moves & (norm > p[0] * p[0])
            if anywhere(outside):
                for i in range(d):
                    store(y, i, load(y, i) + (load(x, i) - p[1 + i]))
                turns = outside & turn_on_ball(x, y, u, d, p, price)
                for i in range(d):
                    z = load(x, i) + share * ((load(y, i) + p[1 + i]) - load(x, i))
                    store(u, i, where(outside, where(turns, load(u, i), load(x, i)), z))
        else:
            moves = turn_on_ball(x, y, u, d, p, price)
    return moves


@called
def turn_on_ball(x, y, u, dim, p, price):
    r"""Move on a ball down y, the slope g with its sign changed.

    A move ends on the boundary, in the plane of x and g: with the angles theta of the new point and theta_z of the old
    one to -g, and the old one's distance rho to the centre,

        |g| sin theta D(theta) = price rho sin(theta_z - theta),   D^2 = (r - rho)^2 + 4 r rho sin^2((theta_z - theta) / 2),

    on the boundary |g| sin theta = price cos((theta_z - theta) / 2). One sign change in [0, min(theta_z, pi / 2)].
    """
    d = D if D > 0 else dim
    r = p[0]
    steep = spread(0.0)
    along = spread(0.0)
    norm = spread(0.0)
    for i in range(d):
        z = load(x, i) - p[1 + i]
        steep = steep + load(y, i) * load(y, i)
        along = along + z * load(y, i)
        norm = norm + z * z
    n = root(steep)
    inverse = 1.0 / larger(steep, spread(LEAST_NORM))
    share = along * inverse
    height = spread(0.0)  # squared, like the two above
    for i in range(d):
        across = (load(x, i) - p[1 + i]) - share * load(y, i)
        height = height + across * across
    edge = (1.0 - ON_BOUNDARY) * r
    inside = norm < edge * edge
    moves = (n > price) & (inside | (along < 0.0) | (steep * height > price * price * norm))
    if anywhere(moves):
        outside = moves & (norm >= edge * edge)
        if anywhere(moves & inside):  # This happens once in a run.
            ahead = where(moves & inside, n, spread(0.0))
            find_stride(x, y, u, d, p, price, ahead, spread(2.0 * r), 0.0, True)
        height = root(where(height > 0.0, height, spread(1.0)))
        half = find_half_angle(along * inverse * n / r, n, price, outside)
        aside = r * (2.0 * half * root(1.0 - half * half)) / height
        ahead = (r - 2.0 * r * half * half) * (inverse * n) - aside * share
        for i in range(d):
            z = p[1 + i] + (aside * (load(x, i) - p[1 + i]) + ahead * load(y, i))
            z = where(outside, z, load(u, i))
            store(u, i, where(moves, z, load(x, i)))
    return moves


@exact
def find_half_angle(cosine, n, price, outside):
    """Find the sine S of half the new point's angle to the descent, on the boundary: 2 n S = price (c + s S / sqrt(1 - S^2)).

    c and s are cosine and sine of half the old one's angle. Halley's steps, which take a root and a division each: from the old
    point two or three are needed. The difference of the sides is concave in S.
    """
    cosine = smaller(larger(cosine, spread(-1.0)), spread(1.0))
    c = root(0.5 + 0.5 * cosine) * price
    small = root(0.5 - 0.5 * cosine)
    s = small * price
    most = smaller(small, spread(0.5**0.5))
    half = where(outside, smaller(c / (2.0 * n - s), most), spread(0.0))
    turn = 0
    searching = True
    while searching:
        rest = 1.0 - half * half
        width = root(rest)
        tilted = s * half
        excess = (2.0 * n * half - c) * width - tilted
        slope = 2.0 * n * (width * rest) - s
        change = 2.0 * excess * slope * rest / (2.0 * slope * slope + 3.0 * tilted * excess)
        following = smaller(larger(half - change, spread(0.0)), most)
        change = where(outside, following - half, spread(0.0))
        half = half + change
        turn += 1
        searching = turn < TURNS and anywhere(size(change) > CLOSE * half)
    return half


# ---- products, part by part


def move_in_product(x, y, u, d, p, price, far, curvature):
    is_round = False
    for part in range(int(p[0])):
        code, _, _, _ = find_part(p, part)
        is_round = is_round or code == codes.L2_BALL
    return move_by_search(x, y, u, d, p, price, far, curvature, is_round)


def product_tangent(x, y, u, d, p):
    square = spread(0.0)
    for part in range(int(p[0])):
        code, first, width, own = find_part(p, part)
        room = skip(u, first)
        square = square + tangent_leaf(
            code, skip(x, first), skip(y, first), room, width, beyond(p, own)
        )
    return square


def product_move(x, y, u, d, p, rise, fall):
    moves = no_run()
    for part in range(int(p[0])):
        code, first, width, own = find_part(p, part)
        points = skip(x, first)
        room = skip(
            u, first
        )  # A part may write beyond its own coordinates; the next one overwrites that.
        goes = move_leaf(code, points, skip(y, first), room, width, beyond(p, own), rise, fall)
        keep_moves(points, room, width, goes)
        moves = moves | goes
    return moves


def keep_moves(x, u, d, moves):
    """Write the present point for all runs that do not move, and return those that do."""
    for i in range(d):
        store(u, i, where(moves, load(u, i), load(x, i)))
    return moves


class DomainPart(NamedTuple):
    """The parts of one set; ``low_of`` and ``high_of`` are the bounds of a coordinate, for sets of shares."""

    threshold: Callable[..., Any]
    coordinate: Callable[..., Any]
    lowest: Callable[..., Any]
    tangent: Callable[..., Any]
    trade: Callable[..., Any]
    balance: Callable[..., Any]
    low_of: Callable[..., Any] | None = None
    high_of: Callable[..., Any] | None = None
    move_straight: Callable[..., Any] = move_by_search


DOMAINS = {
    codes.L2_BALL: DomainPart(
        l2_threshold, l2_coordinate, l2_lowest, l2_tangent, l2_trade, l2_balance, move_straight=move_in_ball
    ),
    codes.L1_BALL: DomainPart(l1_threshold, l1_coordinate, l1_lowest, l1_tangent, l1_trade, l1_balance),
    codes.BOX: DomainPart(box_threshold, box_coordinate, box_lowest, box_tangent, box_trade, box_balance),
    codes.SIMPLEX: DomainPart(
        simplex_threshold, simplex_coordinate, simplex_lowest, shares_tangent, simplex_trade, shares_balance,
        simplex_low, simplex_high,
    ),
    codes.CAPPED_SIMPLEX: DomainPart(
        capped_threshold, capped_coordinate, capped_lowest, shares_tangent, capped_trade, shares_balance,
        capped_low, capped_high,
    ),
    codes.PRODUCT: DomainPart(
        product_threshold, done_coordinate, product_lowest, product_tangent, product_move, product_move,
        move_straight=move_in_product,
    ),
}  # fmt: skip
