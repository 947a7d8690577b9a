"""The rules of thumb over a lane: the average of past rounds, the best point for it, and whether to move there.

The runs of a block share the round and the length of their window; all else may differ. What decides about a move is exact, so
that every kernel comes to the same decision.
"""

from klazy.kernels import codes
from klazy.kernels.demand import measure_spread
from klazy.kernels.domains import keep_moves, project_into
from klazy.kernels.lane import (
    exact,
    larger,
    load,
    no_run,
    peek,
    root,
    size,
    skip,
    spread,
    store,
    where,
)
from klazy.kernels.slots import lowest

# places among the rule's own numbers, in the order of THUMB below
WINDOW = 0  # rounds in the window, 0 for all
WAIT = 1  # rounds for which a point is held at least
LEAST = 2  # a smaller change of all coordinates is no move; -1 if every round counts as one
PULL = 3  # what a unit saved in a round counts; 0 if a move need not pay
WEIGHT = 4  # the weight of the movement
KIND = 5  # the code of the movement
UP_PRICE = 6  # the price of a unit up, or of a unit of squares
DOWN_PRICE = 7  # the price of a unit down, or the tolerance of a fee
NOW = 8
LAST_MOVE = 9
QUANTILE = WEIGHT  # the quantile of demand, in standard deviations

THUMB = ("span", "wait", "least", "pull", "weight", "kind", "rise", "fall")
DEMAND = ("span", "wait", "least", "pull", "quantile", "kind", "rise", "fall")


@exact
def take_in(total, ring, i, n, window, t, moment):
    """Return the average of a moment over the window with round t, of ``n`` moments; ThumbState says how sums are stored."""
    summed = load(total, i) + moment
    store(total, i, summed)
    if window == 0:
        return summed / (1.0 * t)
    store(ring, ((t - 1) % window) * n + i, moment)
    if t % window == 0:
        older = load(ring, (window - 1) * n + i)
        for back in range(window - 2, -1, -1):
            older = older + load(ring, back * n + i)
            store(ring, back * n + i, older)
        store(total, i, spread(0.0))
        return older / (1.0 * window)
    older = load(ring, (t % window) * n + i)
    return (older + summed) / (1.0 * min(t, window))


def average(x, own, s, g, h, y, d, sigma, step, old, starts):
    window = int(peek(s, WINDOW))
    t = int(peek(s, NOW))
    ring = skip(own, d)
    dot = spread(0.0)
    for i in range(d):
        dot = dot + load(x, i) * g[i]
        store(y, i, take_in(own, ring, i, d, window, t, spread(g[i])))
    store(s, NOW, spread(t + 1.0))
    return dot


@exact
def average_demand(x, own, s, g, h, y, d, sigma, step, old, starts):
    """Write the best stock for a normal demand with these moments, before its bounds."""
    window = int(peek(s, WINDOW))
    t = int(peek(s, NOW))
    ring = skip(own, 2 * d)
    for i in range(d):
        mean = take_in(own, ring, i, 2 * d, window, t, spread(g[i]))
        square = take_in(own, ring, d + i, 2 * d, window, t, spread(g[d + i]))
        store(y, i, mean + load(s, QUANTILE) * measure_spread(mean, square))
    store(s, NOW, spread(t + 1.0))
    return spread(0.0)


@exact
def go_to_lowest(x, s, y, u, d, p):
    lowest(y, u, d, p)
    here = spread(0.0)
    there = spread(0.0)
    for i in range(d):
        here = here + load(y, i) * load(x, i)
        there = there + load(y, i) * load(u, i)
    return go_if_it_may(x, s, u, d, here - there)


@exact
def go_to_nearest(x, s, y, u, d, p):
    project_into(y, u, d, p)
    here = spread(0.0)
    there = spread(0.0)
    for i in range(d):
        target = load(y, i)
        here = here + (load(x, i) - target) * (load(x, i) - target)
        there = there + (load(u, i) - target) * (load(u, i) - target)
    return go_if_it_may(x, s, u, d, 0.5 * here - 0.5 * there)


@exact
def go_if_it_may(x, s, u, d, saved):
    """Return which runs move to the aim in ``u``, given what it saves a round; ``u`` becomes the point of the others."""
    squares = spread(0.0)
    ups = spread(0.0)
    downs = spread(0.0)
    most = spread(0.0)
    for i in range(d):
        delta = load(u, i) - load(x, i)
        squares = squares + delta * delta
        ups = ups + larger(delta, spread(0.0))
        downs = downs + larger(0.0 - delta, spread(0.0))
        most = larger(size(delta), most)
    kind = load(s, KIND)
    rise = load(s, UP_PRICE)
    fall = load(s, DOWN_PRICE)
    far = root(rise * squares)
    far = where(kind == 1.0 * codes.MOVE_ABSOLUTE, rise * ups + fall * downs, far)
    far = where(kind == 1.0 * codes.MOVE_FEE, where(most > fall, spread(1.0), spread(0.0)), far)
    pull = load(s, PULL)
    pays = (pull == 0.0) | (pull * saved > load(s, WEIGHT) * far)
    now = load(s, NOW)
    waited = now - load(s, LAST_MOVE) >= load(s, WAIT)
    moves = pays & waited & (most > load(s, LEAST))
    store(s, LAST_MOVE, where(moves, now, load(s, LAST_MOVE)))
    return keep_moves(x, u, d, moves)


# ---- Fixed


def stay(x, own, s, g, h, y, d, sigma, step, old, starts):
    dot = spread(0.0)
    for i in range(d):
        dot = dot + load(x, i) * g[i]
    return dot


def go_nowhere(x, s, y, u, d, p):
    return no_run()
