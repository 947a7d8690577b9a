"""The update rules over a lane, and what each keeps between rounds.

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

from klazy.kernels import codes, thumb
from klazy.kernels.coded import share_kept
from klazy.kernels.demand import THINNEST, expect, find_stock, measure_spread, tail_of
from klazy.kernels.domains import keep_moves, moved_from, project_into, square_between
from klazy.kernels.lane import *
from klazy.kernels.slots import (
    DEPTH,
    IS_BOX,
    D,
    balance,
    high_of,
    low_of,
    lowest,
    move_straight,
    trade,
)


class Rule(NamedTuple):
    """A rule's parts, and what it keeps between rounds.

    ``keeps_sigma``: the last sigma, as the field ``sigma`` of the learner's state. ``vectors`` and ``scalars`` are further
    fields next to ``t``, ``x`` and ``energy``; ``parameters`` and, behind the scalars, ``further`` ones are numbers among the
    learner's attributes. A vector has ``depth`` times d numbers. A rule with a ``ring`` keeps as many further vectors as its
    first parameter says, as the field ``ring``. A rule with a ``row_family`` gets the moments of its rows, not gradients. One
    that is ``led`` plays only with a leader, which stores this field of its state and forecasts for it. Rules that move for a
    forecast need neither sigma nor phases.
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
    row_family: int | None = None
    further: tuple[str, ...] = ()
    led: str = ""
    ring: bool = False
    needs_sigma: bool = True

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
    else:  # Written out, so that y does not wait for x, and the rounds of a phase overlap in the processor.
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
    else:  # Written out, as above.
        for i in range(d):
            dot = dot + load(x, i) * g[i]
            p = load(dual, i) + (g[i] - (sigma - old) * load(anchor, i))
            store(dual, i, p)
            store(y, i, 0.0 - p * step)
    if not everywhere(step > 0.0):  # A run without a scale stays.
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
    """Keep the memory's share theta of the normal sigma (y - x)."""
    normal = own
    square = spread(0.0)
    for i in range(d):
        raw = sigma * (load(y, i) - load(x, i))
        store(normal, i, raw)
        square = square + raw * raw
    keep_share(normal, d, share_kept(kept, kappa, square, ends))


def keep_share(normal, d, theta):
    for i in range(d):
        store(normal, i, load(normal, i) * theta)


# ---- MirrorMemory: the level of the water, as klazy.sets.totals finds it

MIRROR_CAPPED = -1.0  # marks in u of the coordinates that are fixed at a bound
MIRROR_FLOORED = -2.0
MIRROR_REST = 1e-300  # as SMALLEST_REST in klazy.sets.totals
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


def mirror_low(i, d, p, s):
    return larger(load(s, 0), spread(low_of(i, d, p)))


def mirror_high(i, d, p):
    return smaller(spread(p[0]), spread(high_of(i, d, p)))


def mirror_log_low(i, d, p, s):
    low = mirror_low(i, d, p, s)
    return where(low > 0.0, log(larger(low, spread(MIRROR_REST))), spread(MIRROR_NO_FLOOR))


@exact
def mirror_fill(x, s, y, u, d, p):
    """Write the next point into u, and into y its logarithms before they are clipped to the bounds."""
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
            rest = rest - where(mark == MIRROR_CAPPED, mirror_high(i, d, p), spread(0.0))
            rest = rest - where(mark == MIRROR_FLOORED, mirror_low(i, d, p, s), spread(0.0))
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
            above = above + larger(trial - mirror_high(i, d, p), spread(0.0))
            under = larger(mirror_low(i, d, p, s) - trial, spread(0.0))
            below = below + where(trial >= 0.0, under, spread(0.0))
        for i in range(d):
            trial = load(u, i) * scale
            over = (above >= below) & (trial > mirror_high(i, d, p))
            under = (above < below) & (trial >= 0.0) & (trial < mirror_low(i, d, p, s))
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
        below = load(y, i) - mirror_log_low(i, d, p, s)
        above = load(y, i) - log(mirror_high(i, d, p))
        least = where(mark == MIRROR_FLOORED, larger(below, least), least)
        most = where(mark == MIRROR_CAPPED, smaller(above, most), most)
        point = where(mark == MIRROR_CAPPED, mirror_high(i, d, p), mark * scale)
        store(u, i, where(mark == MIRROR_FLOORED, mirror_low(i, d, p, s), point))
    level = where(free > 0.0, level, smaller(larger(level, least), most))
    for i in range(d):
        store(y, i, load(y, i) - level)
    return level == level  # everywhere


def mirror_remember(x, own, s, y, d, p, sigma, ends, kept, kappa):
    """Remember the logarithms within their bounds, and the memory's share of the excess."""
    z = own
    normal = skip(own, d)
    square = spread(0.0)
    for i in range(d):
        inside = larger(load(y, i), mirror_log_low(i, d, p, s))
        inside = smaller(inside, log(mirror_high(i, d, p)))
        raw = sigma * (load(y, i) - inside)
        store(z, i, inside)
        store(normal, i, raw)
        square = square + raw * raw
    keep_share(normal, d, share_kept(kept, kappa, square, ends))


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


# ---- Reluctant and Seasonal: the forecast, and the move that pays for it (klazy.kernels.domains)

KEPT = 0  # places among the rule's own numbers, in the order of the fields below
PACE = 1
RISE = 2
FALL = 3
N1 = 4
N2 = 5
SPAN = 6  # for linear costs and targets
LOW = 6  # for demands
HIGH = 7
SHORT = 8
EXCESS_PRICE = 9
PERIODS = KEPT  # Experts without smoothing store their number of periods here.
AHEAD = PACE
SEASONAL_GIVEN = N1
# For linear costs and targets: the place of the plan of an expert that has one, or how far behind its own the means are
# that an expert has in common with another one.
PLAN = HIGH
MEANS = HIGH
EQUAL = 1e-13  # as in klazy.learners.prox


def reluctant(x, own, s, g, h, y, d, sigma, step, old, starts):
    """Write the forecast times n2: all that it is compared with is multiplied by n2 instead."""
    n = DEPTH * d
    behind = 0
    if D == 0 and DEPTH == 1:
        behind = int(peek(s, MEANS))
    m1 = beyond(own, behind)
    m2 = skip(m1, n)
    kept = load(s, KEPT)
    pace = load(s, PACE)
    n1 = kept * load(s, N1) + pace
    n2 = load(s, N2)
    store(s, N1, n1)
    store(s, N2, n2 + pace * (n1 - n2))
    if behind > 0:  # Their owner, which plays later, writes them.
        for i in range(n):
            once = kept * load(m1, i) + pace * g[i]
            twice = load(m2, i)
            store(y, i, twice + pace * (once - twice))
    else:
        for i in range(n):
            once = kept * load(m1, i) + pace * g[i]
            twice = load(m2, i)
            twice = twice + pace * (once - twice)
            store(m1, i, once)
            store(m2, i, twice)
            store(y, i, twice)
    dot = spread(0.0)
    for i in range(d):
        dot = dot + load(x, i) * g[i]
    return dot


def led(x, own, s, g, h, y, d, sigma, step, old, starts):
    """Take the forecast that a leader makes for it, which comes as the hint h; see klazy.kernels.ensemble."""
    for i in range(DEPTH * d):
        store(y, i, load(h, i))
    return spread(0.0)


def take_level(x, s, y, u, d, p):
    for i in range(d):
        store(u, i, load(y, i))
    return moved_from(x, u, d)


def find_scale(s):
    """Return the factor of prices, which are compared with the forecast times n2: n2, or 1 if all rounds count."""
    return where(load(s, KEPT) < 1.0, load(s, N2), spread(1.0))


def linear_straight(x, s, y, u, d, p):
    for i in range(d):
        store(y, i, 0.0 - load(y, i))
    return move_straight(x, y, u, d, p, load(s, RISE) * find_scale(s), load(s, SPAN), 0.0)


def linear_absolute(x, s, y, u, d, p):
    scale = find_scale(s)
    return trade(x, y, u, d, p, load(s, RISE) * scale, load(s, FALL) * scale)


def linear_squared(x, s, y, u, d, p):
    return go_near(x, y, u, d, p, load(s, RISE) * find_scale(s), spread(0.0))


def linear_fee(x, s, y, u, d, p):
    lowest(y, u, d, p)
    gain = spread(0.0)
    for i in range(d):
        gain = gain + (load(x, i) - load(u, i)) * load(y, i)
    return keep_moves(x, u, d, gain > load(s, RISE) * find_scale(s))


def go_near(x, y, u, d, p, stiffness, fee):
    """Move down the slope y with a price of ``stiffness / 2`` times the squared step, if the gain exceeds a fee."""
    point = skip(u, d)
    for i in range(d):
        store(point, i, load(x, i) - load(y, i) / stiffness)
    project_into(point, u, d, p)
    gain = spread(0.0)
    for i in range(d):
        way = load(x, i) - load(u, i)
        gain = gain + way * (load(y, i) - 0.5 * stiffness * way)
    return keep_moves(x, u, d, gain > fee)


def target_straight(x, s, y, u, d, p):
    face(x, s, y, d, 1.0)
    return move_straight(
        x, y, u, d, p, load(s, RISE) * find_scale(s) / load(s, N2), load(s, SPAN), 1.0
    )


def target_absolute(x, s, y, u, d, p):
    n2 = load(s, N2)
    scale = find_scale(s) / n2
    for i in range(d):
        store(y, i, load(y, i) / n2)
    return balance(x, y, u, d, p, load(s, RISE) * scale, load(s, FALL) * scale)


def target_squared(x, s, y, u, d, p):
    face(x, s, y, d, -1.0)
    return go_near(x, y, u, d, p, 1.0 + load(s, RISE) * find_scale(s) / load(s, N2), spread(0.0))


def target_fee(x, s, y, u, d, p):
    face(x, s, y, d, -1.0)
    return go_near(x, y, u, d, p, spread(1.0), load(s, RISE) * find_scale(s) / load(s, N2))


def face(x, s, y, d, sign):
    """Write the step from x to the target, or back from it, into y."""
    n2 = load(s, N2)
    for i in range(d):
        store(y, i, (load(y, i) / n2 - load(x, i)) * sign)


def demand_straight(x, s, y, u, d, p):
    stay_in_band(x, s, y, u, d, p)
    return keep_if_it_saves(x, s, y, u, d, root(square_between(x, u, d)) * load(s, RISE))


def demand_absolute(x, s, y, u, d, p):
    stay_in_band(x, s, y, u, d, p)
    if IS_BOX:  # On a box every coordinate is solved by itself.
        moves = moved_from(x, u, d)
    else:
        charge = spread(0.0)
        for i in range(d):
            way = load(u, i) - load(x, i)
            charge = charge + where(way > 0.0, way * load(s, RISE), 0.0 - way * load(s, FALL))
        moves = keep_if_it_saves(x, s, y, u, d, charge)
    return moves


def demand_fee(x, s, y, u, d, p):
    stay_in_band(x, s, y, u, d, p)
    return keep_if_it_saves(x, s, y, u, d, load(s, RISE))


def demand_squared(x, s, y, u, d, p):
    price = load(s, RISE)
    short = load(s, SHORT)
    excess = load(s, EXCESS_PRICE)
    best = load(s, LOW)
    _, density = tail_of(best)
    pull = (short + excess) * density
    point = skip(u, d)
    for i in range(d):
        mean, deviation = fit_demand(s, y, i, d)
        store(point, i, find_stock(load(x, i), mean, deviation, short, excess, price, best, pull))
    project_into(point, u, d, p)
    return keep_if_it_saves(x, s, y, u, d, 0.5 * price * square_between(x, u, d))


def fit_demand(s, y, i, d):
    """Return the mean and the standard deviation of a coordinate's demand; they replace its smoothed moments in y."""
    n2 = load(s, N2)
    mean = load(y, i) / n2
    deviation = larger(measure_spread(mean, load(y, d + i) / n2), spread(THINNEST))
    store(y, i, mean)
    store(y, d + i, deviation)
    return mean, deviation


def stay_in_band(x, s, y, u, d, p):
    """Write the point, clipped to the band of demands between ``low`` and ``high`` standard deviations, and projected."""
    point = skip(u, d)
    for i in range(d):
        mean, deviation = fit_demand(s, y, i, d)
        z = larger(load(x, i), mean + load(s, LOW) * deviation)
        store(point, i, smaller(z, mean + load(s, HIGH) * deviation))
    project_into(point, u, d, p)


def keep_if_it_saves(x, s, y, u, d, charge):
    """Move if the expected saving is more than the price."""
    moves = moved_from(x, u, d)
    if anywhere(moves):
        short = load(s, SHORT)
        excess = load(s, EXCESS_PRICE)
        now = spread(0.0)
        then = spread(0.0)
        for i in range(d):
            mean = load(y, i)
            deviation = load(y, d + i)
            now = now + expect(load(x, i), mean, deviation, short, excess)
            then = then + expect(load(u, i), mean, deviation, short, excess)
        saves = now - then > charge + EQUAL * (size(now) + size(then))
        moves = keep_moves(x, u, d, moves & saves)
    return moves


RELUCTANT_FIELDS: dict[str, Any] = {
    "vectors": ("m1", "m2"),
    "parameters": ("kept", "pace", "rise", "fall"),
    "scalars": ("n1", "n2"),
}
SEASONAL_FIELDS: dict[str, Any] = {
    "vectors": ("value",),
    "parameters": ("periods", "ahead", "mover.rise", "mover.fall", "given", "n2"),
    "led": "season",
}
AUTOREGRESSIVE_FIELDS: dict[str, Any] = {
    "parameters": ("n2", "place", "mover.rise", "mover.fall", "n2", "n2"),
    "led": "regression",
}
# The kinds of movement that a rule may pay for.
MOVER_KINDS = ("straight", "absolute", "squared", "fee")
MOVER_PARTS = {
    "linear": (linear_straight, linear_absolute, linear_squared, linear_fee),
    "target": (target_straight, target_absolute, target_squared, target_fee),
    "demand": (demand_straight, demand_absolute, demand_squared, demand_fee),
}
# The rows that a mover may get: the code of their family, and what their moments mean.
ROW_KINDS = {
    "gradient": (None, "linear"),
    "wealth": (codes.LOG_WEALTH, "linear"),
    "target": (codes.QUADRATIC, "target"),
    "demand": (codes.PINBALL, "demand"),
}


def list_movers() -> dict[str, Rule]:
    """List the rules of all learners that move if it pays, for every kind of row and every kind of movement."""
    found = {}
    for word, (family, cost) in ROW_KINDS.items():
        depth = 1
        further: tuple[str, ...] = ("span",)
        if cost == "demand":
            depth = 2
            further = ("low", "high", "short", "excess")
        lent = tuple(f"mover.{name}" for name in further)
        for kind, part in zip(MOVER_KINDS, MOVER_PARTS[cost], strict=True):
            about: dict[str, Any] = {"place": part, "row_family": family, "needs_sigma": False}
            found[f"reluctant_{word}_{kind}"] = Rule(
                reluctant, depth=depth, further=further, **about, **RELUCTANT_FIELDS
            )
            found[f"seasonal_{word}_{kind}"] = Rule(led, further=lent, **about, **SEASONAL_FIELDS)
            if depth == 1:
                name = f"autoregressive_{word}_{kind}"
                found[name] = Rule(led, further=lent, **about, **AUTOREGRESSIVE_FIELDS)
    return found


PLANNING_FIELDS: dict[str, Any] = {
    "needs_sigma": False,
    "parameters": ("segments", "rise", "fall", "mover.short", "mover.excess"),
    "led": "regression",
}
THUMB_FIELDS: dict[str, Any] = {
    "vectors": ("total",),
    "scalars": ("t", "moved"),
    "parameters": thumb.THUMB,
    "ring": True,
}

RULES = {
    "gd": Rule(gd),
    "k_lazy": Rule(k_lazy, vectors=("anchor", "g_sum")),
    "k_lazy_ftrl": Rule(k_lazy_ftrl, keeps_sigma=True, vectors=("anchor", "p")),
    "memory": Rule(memory, remember=keep_normal, vectors=("n", "hint")),
    "centred": Rule(centred, keeps_sigma=True, vectors=("center",)),
    "patient": Rule(
        patient, debt_is_due, vectors=("goal",), scalars=("debt",), parameters=("move_cost",)
    ),
    "mirror": Rule(
        mirror,
        remember=mirror_remember,
        place=mirror_fill,
        vectors=("z", "n", "hint"),
        parameters=("least",),
    ),
    **list_movers(),
    "planning": Rule(led, place=take_level, row_family=codes.PINBALL, depth=2, **PLANNING_FIELDS),
    "thumb": Rule(thumb.average, place=thumb.go_to_lowest, **THUMB_FIELDS),
    "thumb_target": Rule(
        thumb.average, place=thumb.go_to_nearest, row_family=codes.QUADRATIC, **THUMB_FIELDS
    ),
    "thumb_demand": Rule(
        thumb.average_demand,
        place=thumb.go_to_nearest,
        row_family=codes.PINBALL,
        depth=2,
        **THUMB_FIELDS | {"parameters": thumb.DEMAND},
    ),
    "fixed": Rule(thumb.stay, place=thumb.go_nowhere),
}


def describe_kernel(rule: int, set_code: int) -> str:
    """Describe the kernel of a rule on a kind of set to people who wait for it."""
    name = list(RULES)[rule].replace("_", "-")
    return f"{name} for {codes.SET_NAMES[set_code]}, about 1 s, once"


# Rules with a ``place`` come last, so that a kernel recognises them by their code.
FIRST_PLACED = sum(rule.place is None for rule in RULES.values())

for _code, (_name, _rule) in enumerate(RULES.items()):
    if len(_rule.parameters) + len(_rule.scalars) + len(_rule.further) > codes.OWN_ROOM:
        raise ImportError(
            f"the rule {_name} has more numbers of its own than OWN_ROOM in codes.py"
        )
    if (_rule.place is None) != (_code < FIRST_PLACED):
        raise ImportError(
            f"the rule {_name} stands among rules that have a place, or that have none"
        )
