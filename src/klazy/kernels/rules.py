"""The update rules, each once, over a lane; and what each keeps between rounds.

A round is *propose, project, accept, remember*. ``propose`` writes the unconstrained point into ``y`` and returns
<g, x>. The projection of ``y`` is the next point, unless the rule has an ``accept``, which says for which runs it is.
``remember`` follows the move. Their arguments:

- ``x, g, h, d``: the point, the gradient there, the hint for the next round, the dimension;
- ``own, s``: the rule's own vectors, one after the other, and its own numbers (parameters first);
- ``sigma, step, old``: sigma_t, 1 / sigma_t (0 while there is no scale), and the last sigma if the rule keeps it;
- ``starts, ends``: whether this is the first or the last round of a phase.

A rule with a ``place`` knows its set. There ``propose`` writes what it needs to know into ``y``, and ``place`` puts the next
point into ``u`` and says which runs move: nothing is projected, and where none moves ``u`` is not looked at. ``p`` are the
set's parameters. What ``place`` leaves in ``y`` is what ``remember`` finds there.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from klazy.kernels import thumb
from klazy.kernels.codes import OWN_ROOM
from klazy.kernels.lane import (
    anywhere,
    called,
    everywhere,
    exact,
    exp,
    larger,
    load,
    log,
    root,
    size,
    skip,
    smaller,
    spread,
    store,
    where,
)
from klazy.kernels.memories import share_kept

D = 0  # the dimension where it is a constant of the kernel, else 0


class Rule(NamedTuple):
    """A rule's parts, and what it keeps between rounds.

    ``keeps_sigma``: the last sigma, as the field ``sigma`` of the learner's state. ``vectors`` and ``scalars`` are further
    fields beside ``t``, ``x`` and ``energy``; ``parameters`` are numbers among the learner's attributes. A vector has ``depth``
    times d numbers. A rule with a ``ring`` keeps so many further vectors as its first parameter says, as the field ``ring``. A
    rule of ``rows`` is told the rows of the costs in place of their gradients. A ``seasonal`` one plays only with a leader,
    which keeps what is known of the season.
    """

    propose: Callable[..., Any]
    accept: Callable[..., Any] | None = None
    remember: Callable[..., Any] | None = None
    keeps_sigma: bool = False
    vectors: tuple[str, ...] = ()
    scalars: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    place: Callable[..., Any] | None = None
    depth: int = 1
    rows: bool = False
    seasonal: bool = False
    ring: bool = False

    @property
    def width(self) -> int:
        """How many numbers it keeps in vectors for each coordinate."""
        return self.depth * len(self.vectors)


def gd(x, own, s, g, h, y, d, sigma, step, old, starts):
    dot = spread(0.0)
    for i in range(d):
        point = load(x, i)
        dot = dot + point * g[i]
        store(y, i, point - step * g[i])
    return dot


def k_lazy(x, own, s, g, h, y, d, sigma, step, old, starts):
    anchor = own
    g_sum = skip(own, d)
    dot = spread(0.0)
    if anywhere(starts):
        for i in range(d):
            dot = dot + load(x, i) * g[i]
            origin = where(starts, load(x, i), load(anchor, i))
            summed = where(starts, spread(0.0), load(g_sum, i)) + g[i]
            store(anchor, i, origin)
            store(g_sum, i, summed)
            store(y, i, origin - summed * step)
    else:  # written out, so that y does not wait for x: rounds of a phase then overlap in the processor
        for i in range(d):
            dot = dot + load(x, i) * g[i]
            summed = load(g_sum, i) + g[i]
            store(g_sum, i, summed)
            store(y, i, load(anchor, i) - summed * step)
    return dot


def k_lazy_ftrl(x, own, s, g, h, y, d, sigma, step, old, starts):
    anchor = own
    dual = skip(own, d)
    dot = spread(0.0)
    if anywhere(starts):
        for i in range(d):
            dot = dot + load(x, i) * g[i]
            origin = where(starts, load(x, i), load(anchor, i))
            pruned = where(starts, 0.0 - old * load(x, i), load(dual, i))
            p = pruned + (g[i] - (sigma - old) * origin)
            store(anchor, i, origin)
            store(dual, i, p)
            store(y, i, 0.0 - p * step)
    else:  # written out, as above
        for i in range(d):
            dot = dot + load(x, i) * g[i]
            p = load(dual, i) + (g[i] - (sigma - old) * load(anchor, i))
            store(dual, i, p)
            store(y, i, 0.0 - p * step)
    if not everywhere(step > 0.0):  # a run without a scale stays
        for i in range(d):
            store(y, i, where(step > 0.0, load(y, i), load(x, i)))
    return dot


def memory(x, own, s, g, h, y, d, sigma, step, old, starts):
    normal = own
    hint = skip(own, d)
    dot = spread(0.0)
    for i in range(d):
        point = load(x, i)
        dot = dot + point * g[i]
        pull = (load(normal, i) - g[i]) + (load(hint, i) - h[i])
        store(hint, i, spread(h[i]))
        store(y, i, point + pull * step)
    return dot


def keep_normal(x, own, s, y, d, p, sigma, ends, kept, kappa):
    """The memory's share theta of the normal sigma (y - x)."""
    normal = own
    square = spread(0.0)
    for i in range(d):
        raw = sigma * (load(y, i) - load(x, i))
        store(normal, i, raw)
        square = square + raw * raw
    theta = share_kept(kept, kappa, square, ends)
    for i in range(d):
        store(normal, i, load(normal, i) * theta)


# ---- MirrorMemory: the level of the water, as klazy.sets.waterfill finds it

MIRROR_CAPPED = -1.0  # marks in u of the coordinates that are fixed at a bound
MIRROR_FLOORED = -2.0
MIRROR_REST = 1e-300  # as SMALLEST_REST there
MIRROR_NO_FLOOR = -1e300  # the logarithm of a floor of zero


def mirror(x, own, s, g, h, y, d, sigma, step, old, starts):
    z = own
    normal = skip(own, d)
    hint = skip(own, 2 * d)
    dot = spread(0.0)
    for i in range(d):
        dot = dot + load(x, i) * g[i]
        pull = (load(normal, i) - g[i]) + (load(hint, i) - h[i])
        store(hint, i, spread(h[i]))
        store(y, i, load(z, i) + pull * step)
    return dot


def mirror_low(i, p, s, capped):
    low = load(s, 0)
    if capped:
        low = larger(low, spread(p[1 + i]))
    return low


def mirror_high(i, d, p, capped):
    high = spread(p[0])
    if capped:
        high = smaller(high, spread(p[1 + d + i]))
    return high


def mirror_log_low(i, p, s, capped):
    low = mirror_low(i, p, s, capped)
    return where(low > 0.0, log(larger(low, spread(MIRROR_REST))), spread(MIRROR_NO_FLOOR))


@exact
def mirror_fill(s, y, u, d, p, capped):
    """The next point into u; y becomes the logarithms at the water's level, before their bounds."""
    for i in range(d):
        store(u, i, spread(0.0))
    level = spread(0.0)
    scale = spread(0.0)
    turn = 0
    searching = True
    while searching:
        peak = spread(-np.inf)
        rest = spread(p[0])
        for i in range(d):
            mark = load(u, i)
            peak = where(mark >= 0.0, larger(load(y, i), peak), peak)
            rest = rest - where(mark == MIRROR_CAPPED, mirror_high(i, d, p, capped), spread(0.0))
            rest = rest - where(mark == MIRROR_FLOORED, mirror_low(i, p, s, capped), spread(0.0))
        rest = larger(rest, spread(MIRROR_REST))
        amount = spread(0.0)
        for i in range(d):
            share = exp(smaller(load(y, i) - peak, spread(0.0)))
            is_free = load(u, i) >= 0.0
            amount = amount + where(is_free, share, spread(0.0))
            store(u, i, where(is_free, share, load(u, i)))
        some = amount > 0.0
        amount = where(some, amount, spread(1.0))
        level = where(some, peak + log(amount / rest), level)
        scale = rest / amount
        above = spread(0.0)
        below = spread(0.0)
        for i in range(d):
            trial = load(u, i) * scale
            above = above + larger(trial - mirror_high(i, d, p, capped), spread(0.0))
            under = larger(mirror_low(i, p, s, capped) - trial, spread(0.0))
            below = below + where(trial >= 0.0, under, spread(0.0))
        for i in range(d):
            trial = load(u, i) * scale
            over = (above >= below) & (trial > mirror_high(i, d, p, capped))
            under = (above < below) & (trial >= 0.0) & (trial < mirror_low(i, p, s, capped))
            mark = where(over, spread(MIRROR_CAPPED), load(u, i))
            store(u, i, where(under, spread(MIRROR_FLOORED), mark))
        turn += 1
        searching = turn <= d and anywhere(above + below > 0.0)
    free = spread(0.0)
    least = spread(-np.inf)
    most = spread(np.inf)
    for i in range(d):
        mark = load(u, i)
        free = where(mark >= 0.0, spread(1.0), free)
        below = load(y, i) - mirror_log_low(i, p, s, capped)
        above = load(y, i) - log(mirror_high(i, d, p, capped))
        least = where(mark == MIRROR_FLOORED, larger(below, least), least)
        most = where(mark == MIRROR_CAPPED, smaller(above, most), most)
        point = where(mark == MIRROR_CAPPED, mirror_high(i, d, p, capped), mark * scale)
        store(u, i, where(mark == MIRROR_FLOORED, mirror_low(i, p, s, capped), point))
    level = where(free > 0.0, level, smaller(larger(level, least), most))
    for i in range(d):
        store(y, i, load(y, i) - level)
    return level == level  # everywhere


def mirror_on_simplex(x, s, y, u, d, p):
    return mirror_fill(s, y, u, d, p, False)


def mirror_on_capped(x, s, y, u, d, p):
    return mirror_fill(s, y, u, d, p, True)


def mirror_remember(own, s, y, d, p, sigma, ends, kept, kappa, capped):
    """The logarithms within their bounds, and the memory's share of what lies beyond."""
    z = own
    normal = skip(own, d)
    square = spread(0.0)
    for i in range(d):
        inside = larger(load(y, i), mirror_log_low(i, p, s, capped))
        inside = smaller(inside, log(mirror_high(i, d, p, capped)))
        raw = sigma * (load(y, i) - inside)
        store(z, i, inside)
        store(normal, i, raw)
        square = square + raw * raw
    theta = share_kept(kept, kappa, square, ends)
    for i in range(d):
        store(normal, i, load(normal, i) * theta)


def mirror_keeps_on_simplex(x, own, s, y, d, p, sigma, ends, kept, kappa):
    mirror_remember(own, s, y, d, p, sigma, ends, kept, kappa, False)


def mirror_keeps_on_capped(x, own, s, y, d, p, sigma, ends, kept, kappa):
    mirror_remember(own, s, y, d, p, sigma, ends, kept, kappa, True)


def centred(x, own, s, g, h, y, d, sigma, step, old, starts):
    center = own
    dot = spread(0.0)
    for i in range(d):
        point = load(x, i)
        dot = dot + point * g[i]
        pull = (sigma - old) * (load(center, i) - point)
        store(y, i, point + (pull - g[i]) * step)
    return dot


def patient(x, own, s, g, h, y, d, sigma, step, old, starts):
    goal = own
    dot = spread(0.0)
    for i in range(d):
        dot = dot + load(x, i) * g[i]
        store(s, 1, load(s, 1) + (load(x, i) - load(goal, i)) * g[i])
        store(y, i, load(goal, i) - step * g[i])
    return dot


def debt_is_due(x, own, s, z, d):
    square = spread(0.0)
    for i in range(d):
        gap = load(z, i) - load(x, i)
        square = square + gap * gap
        store(own, i, load(z, i))
    debt = load(s, 1)
    moves = debt >= load(s, 0) * root(square)
    store(s, 1, where(moves, spread(0.0), debt))
    return moves


# ---- Reluctant: the forecast, and for each kind of set the move that pays

RELUCTANT_RISE = 2  # places among the rule's own numbers, in the order of RELUCTANT below
RELUCTANT_FALL = 3
RELUCTANT_N1 = 4
RELUCTANT_N2 = 5
RELUCTANT_ON_BOUNDARY = 1e-12  # as in klazy.learners.prox
RELUCTANT_TURNS = 100
RELUCTANT_TINY = 1e-150  # no norm that exceeds a price is smaller
RELUCTANT_VARIANCE = 1e-10  # as ROUNDING in klazy.families
RELUCTANT_THINNEST = 1e-200  # as in klazy.learners.prox
RELUCTANT_EPS = 2.0**-52
RELUCTANT_CLOSE = (
    1e-9  # after so small a step of Newton's, relative to the number sought, the next would be rounding
)


def reluctant_count(s, kept, pace):
    """The two smoothings of the number one, or twice the number of rounds."""
    n1 = load(s, RELUCTANT_N1)
    n2 = load(s, RELUCTANT_N2)
    n1 = kept * n1 + pace
    n2 = n2 + pace * (n1 - n2)
    store(s, RELUCTANT_N1, n1)
    store(s, RELUCTANT_N2, n2)
    return n2


def reluctant_scale(s):
    """What the price of a round is multiplied by, to be compared with the forecast times n2: n2, or 1 if all rounds count."""
    return where(load(s, 0) < 1.0, load(s, RELUCTANT_N2), spread(1.0))


def reluctant(x, own, s, g, h, y, d, sigma, step, old, starts):
    """The forecast times n2: what it is compared with is multiplied by n2 instead."""
    m1 = own
    m2 = skip(own, d)
    kept = load(s, 0)
    pace = load(s, 1)
    reluctant_count(s, kept, pace)
    dot = spread(0.0)
    for i in range(d):
        dot = dot + load(x, i) * g[i]
        once = kept * load(m1, i) + pace * g[i]
        twice = load(m2, i)
        twice = twice + pace * (once - twice)
        store(m1, i, once)
        store(m2, i, twice)
        store(y, i, twice)
    return dot


def reluctant_on_box(x, s, y, u, d, p):
    scale = reluctant_scale(s)
    rise = load(s, RELUCTANT_RISE) * scale
    fall = load(s, RELUCTANT_FALL) * scale
    moves = rise < 0.0  # nowhere
    for i in range(d):
        forecast = load(y, i)
        point = load(x, i)
        z = where(forecast + rise < 0.0, spread(p[d + i]), point)
        z = where(forecast - fall > 0.0, spread(p[i]), z)
        store(u, i, z)
        moves = moves | (z > point) | (z < point)
    return moves


def reluctant_to_target(x, s, y, u, d, p):
    n2 = load(s, RELUCTANT_N2)
    scale = reluctant_scale(s) / n2
    rise = load(s, RELUCTANT_RISE) * scale
    fall = load(s, RELUCTANT_FALL) * scale
    moves = rise < 0.0  # nowhere
    for i in range(d):
        target = load(y, i) / n2
        point = load(x, i)
        z = where(point - target > fall, target + fall, point)
        z = where(target - point > rise, target - rise, z)
        z = smaller(larger(z, spread(p[i])), spread(p[d + i]))
        store(u, i, z)
        moves = moves | (z > point) | (z < point)
    return moves


def reluctant_of_demand(x, own, s, g, h, y, d, sigma, step, old, starts):
    """The point before its bounds: x, clipped to the band of demands between ``low`` and ``high`` standard deviations."""
    m1 = own
    m2 = skip(own, 2 * d)
    kept = load(s, 0)
    pace = load(s, 1)
    n2 = reluctant_count(s, kept, pace)
    dot = spread(0.0)
    for i in range(d):
        once = kept * load(m1, i) + pace * g[i]
        mean = load(m2, i)
        mean = mean + pace * (once - mean)
        store(m1, i, once)
        store(m2, i, mean)
        once = kept * load(m1, d + i) + pace * (g[i] * g[i])
        square = load(m2, d + i)
        square = square + pace * (once - square)
        store(m1, d + i, once)
        store(m2, d + i, square)
        store(y, i, stay_in_band(load(x, i), mean / n2, square / n2, s))
    return dot


def stay_in_band(point, mean, square, s):
    """The point, clipped to a number of standard deviations around the mean."""
    variance = square - mean * mean
    wide = variance > RELUCTANT_VARIANCE * square
    deviation = larger(root(where(wide, variance, spread(0.0))), spread(RELUCTANT_THINNEST))
    z = larger(point, mean + load(s, RELUCTANT_RISE) * deviation)
    return smaller(z, mean + load(s, RELUCTANT_FALL) * deviation)


def reluctant_in_box(x, s, y, u, d, p):
    moves = spread(0.0) > 0.0  # nowhere
    for i in range(d):
        z = smaller(larger(load(y, i), spread(p[i])), spread(p[d + i]))
        store(u, i, z)
        moves = moves | (z > load(x, i)) | (z < load(x, i))
    return moves


def reluctant_on_simplex(x, s, y, u, d, p):
    scale = reluctant_scale(s)
    rise = load(s, RELUCTANT_RISE) * scale
    fall = load(s, RELUCTANT_FALL) * scale
    least = load(y, 0)
    for i in range(1, d):
        least = smaller(load(y, i), least)
    level = least + rise
    given = spread(0.0)
    for i in range(d):
        gives = load(y, i) - fall > level
        given = given + where(gives, load(x, i), spread(0.0))
    moves = given > 0.0
    if anywhere(moves):
        for i in range(d):  # the first of the cheapest takes all
            gives = load(y, i) - fall > level
            takes = load(y, i) == least
            kept = where(gives, spread(0.0), load(x, i))
            store(u, i, kept + where(takes, given, spread(0.0)))
            given = where(takes, spread(0.0), given)
    return moves


def reluctant_on_capped(x, s, y, u, d, p):
    """The dearest that has something to give and the cheapest that has room, again and again."""
    scale = reluctant_scale(s)
    rise = load(s, RELUCTANT_RISE) * scale
    fall = load(s, RELUCTANT_FALL) * scale
    for i in range(d):
        store(u, i, load(x, i))
    moves = rise < 0.0  # nowhere
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
            forecast = load(y, i)
            left = load(u, i) - p[1 + i]
            gives = (left > 0.0) & (forecast > dearest)
            dearest = where(gives, forecast, dearest)
            giver = where(gives, spread(1.0 * i), giver)
            stock = where(gives, left, stock)
            free = p[1 + d + i] - load(u, i)
            takes = (free > 0.0) & (forecast < cheapest)
            cheapest = where(takes, forecast, cheapest)
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


def reluctant_on_ball(x, s, y, u, d, p):
    """In the plane of x and the forecast; see turn_if_it_pays of klazy.learners.prox."""
    price = load(s, RELUCTANT_RISE) * reluctant_scale(s)
    square = spread(0.0)
    for i in range(d):
        square = square + load(y, i) * load(y, i)
    n = root(square)
    moves = n > price
    if anywhere(moves):
        moves = reluctant_turn(x, y, u, d, p, n, price)
    return moves


def reluctant_to_target_in_ball(x, s, y, u, d, p):
    """Straight on until the price is left; if that is outside, the best point of the boundary: see klazy.learners.prox."""
    n2 = load(s, RELUCTANT_N2)
    price = load(s, RELUCTANT_RISE) * reluctant_scale(s) / n2
    square = spread(0.0)
    for i in range(d):
        target = load(y, i) / n2
        store(y, i, target)
        square = square + (target - load(x, i)) * (target - load(x, i))
    far = root(square)
    moves = far > price
    if anywhere(moves):
        share = where(moves, 1.0 - price / larger(far, spread(RELUCTANT_TINY)), spread(0.0))
        square = spread(0.0)
        for i in range(d):
            z = load(x, i) + share * (load(y, i) - load(x, i))
            store(u, i, z)
            square = square + (z - p[1 + i]) * (z - p[1 + i])
        outside = moves & (square > p[0] * p[0])
        if anywhere(outside):
            square = spread(0.0)
            for i in range(d):
                slope = p[1 + i] - load(y, i)
                store(y, i, slope)
                square = square + slope * slope
            turns = outside & reluctant_turn(x, y, u, d, p, root(square), price)
            for i in range(d):
                z = load(x, i) + share * ((p[1 + i] - load(y, i)) - load(x, i))
                store(u, i, where(outside, where(turns, load(u, i), load(x, i)), z))
    return moves


@called
def reluctant_turn(x, y, u, dim, p, n, price):
    """The move on a ball where the forecast's norm n exceeds the price."""
    d = D if D > 0 else dim
    r = p[0]
    inverse = 1.0 / larger(n, spread(RELUCTANT_TINY))
    along = spread(0.0)
    for i in range(d):
        along = along - (load(x, i) - p[1 + i]) * load(y, i)
    along = along * inverse
    square = spread(0.0)
    for i in range(d):
        across = (load(x, i) - p[1 + i]) + along * (load(y, i) * inverse)
        square = square + across * across
    height = root(square)
    rho = root(along * along + square)
    gap = r - rho
    inside = gap > RELUCTANT_ON_BOUNDARY * r
    moves = (n > price) & (inside | (along < 0.0) | (n * height > price * rho))
    if anywhere(moves):
        far = rho > 0.0
        below = where(far, rho, spread(1.0))
        cz = where(far, along / below, spread(1.0))
        sz = where(far, height / below, spread(0.0))
        outside = moves & (gap <= RELUCTANT_ON_BOUNDARY * r)
        tau = reluctant_half_angle(cz, sz, n, price, outside)
        if anywhere(moves & inside):
            within = reluctant_search(cz, sz, n, price, spread(r), rho, gap, moves & inside)
            tau = where(inside, within, tau)
        share = 1.0 / (1.0 + tau * tau)
        ahead = r * ((1.0 - tau * tau) * share)
        aside = r * (2.0 * tau * share) / where(height > 0.0, height, spread(1.0))
        for i in range(d):
            unit = load(y, i) * inverse
            across = (load(x, i) - p[1 + i]) + along * unit
            z = p[1 + i] + (aside * across - ahead * unit)
            store(u, i, where(moves, z, load(x, i)))
    return moves


@exact
def reluctant_half_angle(cz, sz, n, price, outside):
    """T, the tangent of half the new point's angle to the descent, on the boundary: 2 n T = price (c + s T) sqrt(1 + T^2).

    c and s are cosine and sine of half the old one's angle.

    The difference of the sides is concave in T, so Newton's steps from the left end left of the root, and so does the first
    one from anywhere else where it rises. From the old point few are needed.
    """
    acute = cz > 0.0
    large = root(0.5 + 0.5 * size(cz))
    small = sz / (2.0 * large)
    c = where(acute, large, small)
    s = where(acute, small, large)
    tau = where(acute, s / large, spread(1.0))
    slope, _ = reluctant_slope(tau, c, s, n, price)
    tau = where(slope > 0.5 * n, tau, spread(0.0))
    turn = 0
    searching = True
    while searching:
        slope, excess = reluctant_slope(tau, c, s, n, price)
        change = where(outside, excess / slope, spread(0.0))
        tau = tau - change
        turn += 1
        searching = turn < RELUCTANT_TURNS and anywhere(size(change) > RELUCTANT_CLOSE * tau)
    return tau


@exact
def reluctant_slope(tau, c, s, n, price):
    """The slope and the value of 2 n T - price (c + s T) sqrt(1 + T^2)."""
    long = root(1.0 + tau * tau)
    lean = c + s * tau
    return 2.0 * n - price * (s * long + lean * tau / long), 2.0 * n * tau - price * (lean * long)


@exact
def reluctant_excess(tau, cz, sz, n, price, r, rho, gap):
    """By how much a new point should be nearer to the old one, which is inside, and the size of the terms; tau is the tangent
    of half its angle to the descent, cz and sz are cosine and sine of the old one's."""
    share = 1.0 / (1.0 + tau * tau)
    c = (1.0 - tau * tau) * share
    s = 2.0 * tau * share
    half = 0.5 * root(
        (c + cz) * (c + cz) + (s + sz) * (s + sz)
    )  # the cosine of half the angle between the two
    apart = sz * c - cz * s
    away = root((gap * half) * (gap * half) + (r * rho) * (apart * apart))
    pull = n * s * away
    return pull - price * rho * apart * half, pull


@called
@exact
def reluctant_search(cz, sz, n, price, r, rho, gap, inside):
    """The same from inside, which happens once: where the excess changes its sign, by false position (the Illinois rule)."""
    low = spread(0.0)
    high = where(cz > 0.0, sz / (1.0 + larger(cz, spread(0.0))), spread(1.0))
    under, _ = reluctant_excess(low, cz, sz, n, price, r, rho, gap)
    over, _ = reluctant_excess(high, cz, sz, n, price, r, rho, gap)
    tau = where(under >= 0.0, low, high)
    unsettled = inside & (under < 0.0) & (over > 0.0)
    side = spread(0.0)
    turn = 0
    searching = anywhere(unsettled)
    while searching:
        place = high - over * ((high - low) / (over - under))
        between = (place > low) & (place < high)
        place = where(between, place, 0.5 * (low + high))
        tau = where(unsettled, place, tau)
        excess, scale = reluctant_excess(tau, cz, sz, n, price, r, rho, gap)
        above = excess > 0.0
        again = where(above, spread(1.0), spread(-1.0))
        halved = where(side == again, spread(0.5), spread(1.0))
        under = where(above, under * halved, excess)
        over = where(above, excess, over * halved)
        low = where(above, low, tau)
        high = where(above, tau, high)
        side = again
        unsettled = unsettled & (size(excess) > RELUCTANT_EPS * scale) & (high - low > RELUCTANT_EPS * high)
        turn += 1
        searching = turn < RELUCTANT_TURNS and anywhere(unsettled)
    return tau


# ---- Seasonal: the same moves for forecasts that a leader makes for it, see klazy.kernels.season; they come as the hint h

SEASONAL_PERIODS = 6  # places among the rule's own numbers, in the order of SEASONAL below
SEASONAL_AHEAD = 7
SEASONAL_GIVEN = 8


def seasonal(x, own, s, g, h, y, d, sigma, step, old, starts):
    for i in range(d):
        store(y, i, load(h, i))
    return spread(0.0)


def seasonal_of_demand(x, own, s, g, h, y, d, sigma, step, old, starts):
    for i in range(d):
        store(y, i, stay_in_band(load(x, i), load(h, i), load(h, d + i), s))
    return spread(0.0)


SEASONAL_FIELDS: dict[str, Any] = {
    "vectors": ("value",),
    "parameters": ("kept", "pace", "rise", "fall", "n1", "n2", "periods", "ahead", "given"),
    "seasonal": True,
}
SEASONAL_DEMAND = SEASONAL_FIELDS | {
    "parameters": ("kept", "pace", "low", "high", "n1", "n2", "periods", "ahead", "given")
}
RELUCTANT_FIELDS: dict[str, Any] = {
    "vectors": ("m1", "m2"),
    "scalars": ("n1", "n2"),
    "parameters": ("kept", "pace", "rise", "fall"),
}

THUMB_FIELDS: dict[str, Any] = {
    "vectors": ("total",),
    "scalars": ("t", "moved"),
    "parameters": thumb.THUMB,
    "ring": True,
}
MIRROR_FIELDS: dict[str, Any] = {"vectors": ("z", "n", "hint"), "parameters": ("least",)}

RULES = {
    "gd": Rule(gd),
    "k_lazy": Rule(k_lazy, vectors=("anchor", "g_sum")),
    "k_lazy_ftrl": Rule(k_lazy_ftrl, keeps_sigma=True, vectors=("anchor", "p")),
    "memory": Rule(memory, remember=keep_normal, vectors=("n", "hint")),
    "centred": Rule(centred, keeps_sigma=True, vectors=("center",)),
    "patient": Rule(patient, debt_is_due, vectors=("goal",), scalars=("debt",), parameters=("price",)),
    "mirror_simplex": Rule(
        mirror, remember=mirror_keeps_on_simplex, place=mirror_on_simplex, **MIRROR_FIELDS
    ),
    "mirror_capped": Rule(mirror, remember=mirror_keeps_on_capped, place=mirror_on_capped, **MIRROR_FIELDS),
    "reluctant_target": Rule(reluctant, place=reluctant_to_target, rows=True, **RELUCTANT_FIELDS),
    "reluctant_demand": Rule(
        reluctant_of_demand,
        place=reluctant_in_box,
        rows=True,
        depth=2,
        **RELUCTANT_FIELDS | {"parameters": ("kept", "pace", "low", "high")},
    ),
    "reluctant_box": Rule(reluctant, place=reluctant_on_box, **RELUCTANT_FIELDS),
    "reluctant_simplex": Rule(reluctant, place=reluctant_on_simplex, **RELUCTANT_FIELDS),
    "reluctant_capped": Rule(reluctant, place=reluctant_on_capped, **RELUCTANT_FIELDS),
    "reluctant_ball": Rule(reluctant, place=reluctant_on_ball, **RELUCTANT_FIELDS),
    "reluctant_target_ball": Rule(
        reluctant, place=reluctant_to_target_in_ball, rows=True, **RELUCTANT_FIELDS
    ),
    "seasonal_target_ball": Rule(seasonal, place=reluctant_to_target_in_ball, rows=True, **SEASONAL_FIELDS),
    "seasonal_target": Rule(seasonal, place=reluctant_to_target, rows=True, **SEASONAL_FIELDS),
    "seasonal_demand": Rule(seasonal_of_demand, place=reluctant_in_box, rows=True, **SEASONAL_DEMAND),
    "seasonal_box": Rule(seasonal, place=reluctant_on_box, **SEASONAL_FIELDS),
    "seasonal_simplex": Rule(seasonal, place=reluctant_on_simplex, **SEASONAL_FIELDS),
    "seasonal_capped": Rule(seasonal, place=reluctant_on_capped, **SEASONAL_FIELDS),
    "seasonal_ball": Rule(seasonal, place=reluctant_on_ball, **SEASONAL_FIELDS),
    "thumb": Rule(thumb.average, place=thumb.go_to_lowest, **THUMB_FIELDS),
    "thumb_target": Rule(thumb.average, place=thumb.go_to_nearest, rows=True, **THUMB_FIELDS),
    "thumb_demand": Rule(
        thumb.average_demand,
        place=thumb.go_to_nearest,
        rows=True,
        depth=2,
        **THUMB_FIELDS | {"parameters": thumb.DEMAND},
    ),
    "fixed": Rule(thumb.stay, place=thumb.go_nowhere),
}

for _name, _rule in RULES.items():
    if len(_rule.parameters) + len(_rule.scalars) > OWN_ROOM:
        raise ImportError(f"the rule {_name} has more numbers of its own than OWN_ROOM in codes.py")
