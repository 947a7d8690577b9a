"""Move only if it pays: minimise a forecast cost plus the cost of moving there, on every set and for every movement."""

import math
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from klazy.base.checks import Array
from klazy.families import Pinball
from klazy.movement import Movement
from klazy.sets import Box, ConvexSet, Simplex
from klazy.sets.base import SHORTEST
from klazy.sets.compose import NotConverged
from klazy.sets.separable import Separable, find_root
from klazy.sets.totals import EPS

# By how much the last turn of a splitting may still change its point, relative to the set's size.
SETTLED = 1e-11
# Used in place of a standard deviation of zero, because zero times infinity would be NaN.
THINNEST = 1e-200
BUDGET = 50_000  # turns of a splitting
STRIDES = 100  # A search takes at most this many steps; it usually needs a handful.
ROUNDING = 8.0 * EPS  # A search ends at this share of the length of a move.
FARTHEST = 1e60  # larger than the stock of any set, for moves that cost nothing
# Expected costs that differ by less, relative to their size, are equal.
EQUAL = 1e-13


def move_if_it_pays(
    domain: ConvexSet, movement: Movement, x: Array, g: Array, price: float | Array
) -> Array:
    r"""Find the point that is best for a forecast g, moving there included.

    .. math:: \arg\min_{u \in X}\; \langle g, u \rangle + \mathrm{price} \cdot m(u - x)

    If no move pays, the answer is x itself, bit for bit. What moving costs is ``price`` times ``movement.distance``: the
    weight of the movement is ignored.

    - Prices by coordinate (l1, total variation, asymmetric): :meth:`~klazy.types.ConvexSet.trade`, which is closed on boxes,
      simplices and balls, part by part on products, and a small programme on polytopes and intersections.
    - Euclidean distance: a search over one number on every set.
    - Its square: one projection. A fee: the only move worth it is to where g is least.
    - :class:`~klazy.contrib.ImpactMovement`: :meth:`~klazy.types.ConvexSet.balance`, a search over one number.
    - :class:`~klazy.contrib.FiniteMetric` on a simplex: each part of the point goes to where its cost and the way are least.
    - All other pairs of set and movement: a splitting (Douglas and Rachford), which is slow, and ends within about 1e-8 of
      the least value.

    Parameters
    ----------
    domain : ConvexSet
        The set X.
    movement : Movement
        What moving costs, m.
    x : array
        The present point, of the set; or several, one per row.
    g : array
        The forecast of each point.
    price : float or array
        The cost of a unit of movement, at least 0: one for all points, or one for each.

    Returns
    -------
    array
        The next point of each.

    Examples
    --------
    >>> x = np.array([0.2, 0.5, 0.3])
    >>> move_if_it_pays(Simplex(3), TVMovement(), x, np.array([1.0, 1.5, 3.0]), 1.0)
    array([0.5, 0.5, 0. ])
    """
    points, slopes, prices = _as_rows(x, g, price)
    if movement.is_fee or not prices.any():
        u = domain.lowest(slopes)
    elif movement.grouped and movement.degree == 2.0:
        u = domain.nearest(points - slopes / prices[:, None])
    elif is_carried(domain, movement):
        assert movement.carry is not None
        u = movement.carry(points, slopes, prices)
    else:
        u = _find_least(domain, movement, points, slopes, 0.0, prices)
    gain = np.vecdot(slopes, points - u) - _charge(movement, u - points, prices)
    return np.where(gain[:, None] > 0.0, u, points).reshape(x.shape)


def is_carried(domain: ConvexSet, movement: Movement) -> bool:
    """Return True if the movement itself knows which moves pay on this set."""
    return movement.carry is not None and type(domain) is Simplex


def approach_if_it_pays(
    domain: ConvexSet, movement: Movement, x: Array, target: Array, price: float | Array
) -> Array:
    r"""Find the point that is best for a forecast target, moving there included.

    .. math:: \arg\min_{u \in X}\; \tfrac12 \|u - c\|^2 + \mathrm{price} \cdot m(u - x)

    Prices by coordinate are a search over one number here, too (:meth:`~klazy.types.ConvexSet.balance`); all else is as for
    :func:`move_if_it_pays`. If no move pays, the answer is x itself.

    Parameters
    ----------
    domain, movement, x, price
        As for :func:`move_if_it_pays`.
    target : array
        The forecast c of each point, perhaps outside the set.

    Returns
    -------
    array
        The next point of each.

    Examples
    --------
    >>> approach_if_it_pays(Box([0, 0], [1, 1]), L1Movement(), np.zeros(2), np.array([0.9, 0.1]), 0.25)
    array([0.65, 0.  ])
    """
    points, targets, prices = _as_rows(x, target, price)
    if movement.is_fee or not prices.any():
        u = domain.nearest(targets)
    elif movement.grouped and movement.degree == 2.0:
        share = prices[:, None]
        u = domain.nearest((targets + share * points) / (1.0 + share))
    else:
        u = _find_least(domain, movement, points, -targets, 1.0, prices)
    gain = 0.5 * np.vecdot(points - u, points + u - 2.0 * targets) - _charge(
        movement, u - points, prices
    )
    return np.where(gain[:, None] > 0.0, u, points).reshape(x.shape)


def _as_rows(x: Array, forecast: Array, price: float | Array) -> tuple[Array, Array, Array]:
    """Write points, forecasts and prices as rows, one per point."""
    points = np.atleast_2d(x)
    return points, np.atleast_2d(forecast), np.full(len(points), price)


def _charge(movement: Movement, delta: Array, price: Array) -> Array:
    """Price moves. A fee is charged for every move, also for one within its tolerance, which would be free."""
    return price if movement.is_fee else price * movement.distance(delta)


def _find_least(
    domain: ConvexSet, movement: Movement, x: Array, g: Array, curvature: float, price: Array
) -> Array:
    """Minimise <g, u> + curvature/2 |u|^2 + price m(u - x) by rows, for a movement that grows with its length."""
    if movement.grouped:
        return _move_straight(domain, movement, x, g, curvature, price)
    d = domain.dim
    prices = np.resize(movement.prices(d), 2 * d) * price[:, None]
    rise = prices[:, :d]
    fall = prices[:, d:]
    power = movement.degree == 1.5
    slope = g + curvature * x
    moves = np.ones(len(x), dtype=bool)
    if not power:
        moves = ((slope + rise < 0.0) | (slope - fall > 0.0)).any(axis=1)
    if not moves.any():
        return x
    u = x.copy()
    u[moves] = _pay_by_coordinate(
        domain, Separable(x, g, curvature, rise, fall, power).take(moves)
    )
    return u


def _pay_by_coordinate(domain: ConvexSet, objective: Separable) -> Array:
    """Minimise objectives that charge each coordinate by itself, one per row."""
    if objective.is_linear or objective.power:
        return _settle(domain, objective)
    x = objective.x
    # If no move pays at the slope at x, none pays at all: slopes grow on the way.
    u = domain.settle(replace(objective, g=objective.g + objective.curvature * x, curvature=0.0))
    moves = np.ones(len(x), dtype=bool) if u is None else (u != x).any(axis=1)
    found = x.copy()
    if moves.any():
        found[moves] = _settle(domain, objective.take(moves))
    return found


def _settle(domain: ConvexSet, objective: Separable) -> Array:
    """Find the minimisers by the set's own method, else by splitting."""
    u = domain.settle(objective)
    if u is not None:
        return u
    return np.array([_split_by_coordinate(domain, row) for row in objective.list_rows()])


def _split_by_coordinate(domain: ConvexSet, objective: Separable) -> Array:
    x = objective.x
    curvature = objective.curvature
    slopes = np.abs(objective.g) + curvature * np.abs(x) + objective.rise + objective.fall

    def shrink(y: Array, stride: float) -> Array:
        share = stride / (1.0 + stride * curvature)
        return objective.shrink(y - share * (objective.g + curvature * y), share)

    return split(domain, x, find_stride(domain, slopes), shrink)


def _move_straight(
    domain: ConvexSet, movement: Movement, x: Array, g: Array, curvature: float, price: Array
) -> Array:
    """Minimise <g, u> + curvature/2 |u|^2 + price m(u - x) by rows, for a movement that is one norm of the whole step."""
    stretch = movement.stretch(domain.dim)
    axes = movement.axes()
    size = float(stretch.max())
    # The steepest descent at x.
    down = -g - curvature * x
    if size == 0.0:
        return domain.lowest(g) if curvature == 0.0 else domain.nearest(-g)
    if (stretch == size).all():
        return search_stride(domain, x, down, curvature, price * size)
    if type(domain) is Box and axes is None and curvature == 0.0 and (stretch > 0.0).all():
        scaled = Box(stretch * domain.lower, stretch * domain.upper)
        u = search_stride(scaled, stretch * x, down / stretch, 0.0, price)
        return np.where(u == stretch * x, x, u / stretch)

    def move_one(x: Array, g: Array, down: Array, price: float) -> Array:
        def shrink(y: Array, stride: float) -> Array:
            share = stride / (1.0 + stride * curvature)
            return _shrink_all(y - share * (g + curvature * y), x, price * share, stretch, axes)

        stride = find_stride(domain, np.abs(down) + price * size)
        return split(domain, x, stride, shrink)

    return np.array([move_one(*row) for row in zip(x, g, down, price.tolist(), strict=True)])


class _Rows(NamedTuple):
    """The rows that a search has not finished: their places, points, descents and prices, and the bracket of their sigmas."""

    at: NDArray[np.intp]
    x: Array
    down: Array
    price: Array
    low: Array
    high: Array
    sigma: Array

    def select(self, chosen: NDArray[np.bool_]) -> "_Rows":
        """Return some of the rows."""
        parts: Any = [values[chosen] for values in self]
        return _Rows(*parts)


def search_stride(
    domain: ConvexSet, x: Array, down: Array, curvature: float, price: Array
) -> Array:
    r"""Minimise a linear or quadratic cost plus ``price`` times the Euclidean distance from x, row by row.

    With the steepest descent :math:`w` at x and :math:`u(\sigma) = \Pi(x + w / \sigma)` it is where
    :math:`\sigma \|u(\sigma) - x\| = \mathrm{price}\, \sigma / (\sigma - \kappa)`, in which :math:`\kappa` is the curvature:
    the left side grows with :math:`\sigma`, the right one does not. No move pays if w, projected onto the directions in which
    the set extends from x, is no longer than the price. On a face u is a straight line in :math:`1 / \sigma`, so the search
    goes to where the line through the last two points meets the condition, and ends exactly there on a set with flat sides.
    All rows are projected at once; each ends where it would end alone.

    Parameters
    ----------
    domain : ConvexSet
        The set.
    x : array
        The present points, one per row.
    down : array
        The descents w, :math:`-g` or, for a target c, :math:`c - x`.
    curvature : float
        0 for a linear cost, 1 for half the squared distance to a target.
    price : array
        The cost of a unit of movement for each row, above zero.

    Returns
    -------
    array
        The points.
    """
    found = x.copy()
    hopeful = np.flatnonzero(_norm(down) > price)
    if not hopeful.size:
        return found
    ahead = _norm(domain.tangent(x[hopeful], down[hopeful]))
    moves = ahead > price[hopeful]
    at = hopeful[moves]
    # At a lower sigma the wanted move would be longer than the set.
    low = curvature + price[at] / domain.scale
    sigma = low
    if curvature > 0.0:
        sigma = np.maximum(low, curvature * ahead[moves] / (ahead[moves] - price[at]))
    rows = _Rows(at, x[at], down[at], price[at], low, np.full(at.size, math.inf), sigma)
    before = np.zeros((at.size, domain.dim))
    stride_before = np.zeros(at.size)
    off = np.full(at.size, math.inf)
    for turn in range(STRIDES):
        if not rows.at.size:
            break
        sigma = rows.sigma
        stride = 1.0 / sigma
        u = domain.nearest(rows.x + stride[:, None] * rows.down)
        found[rows.at] = u
        delta = u - rows.x
        length = _norm(delta)
        # The length that is wanted for each unit of the stride, and how fast that changes with sigma.
        wanted = rows.price / (1.0 - curvature * stride)
        fall = -rows.price * curvature / (sigma - curvature) ** 2
        excess = length * sigma - wanted
        is_done = np.abs(excess) <= ROUNDING * (
            wanted + sigma * (np.abs(rows.x).sum(axis=1) + length)
        )
        low = np.where(excess > 0.0, rows.low, sigma)
        high = np.where(excess > 0.0, sigma, rows.high)
        with np.errstate(all="ignore"):
            if turn == 0:
                # The first guess takes the point as fixed.
                following = curvature + rows.price / length
            else:
                rate = (delta - before) / (stride - stride_before)[:, None]
                following = _meet(
                    delta - stride[:, None] * rate, rate, wanted - fall * sigma, fall
                )
            is_done |= np.abs(following - sigma) <= ROUNDING * sigma
            is_slow = (turn > 2) & (np.abs(excess) > 0.5 * off)
            middle = np.where(high < math.inf, np.sqrt(low * high), 4.0 * sigma)
            is_usable = ~is_slow & (low < following) & (following < high)
            following = np.where(is_usable, following, middle)
            is_done |= np.abs(following - sigma) <= ROUNDING * sigma
        left = ~is_done
        rows = rows._replace(low=low, high=high, sigma=following).select(left)
        before = delta[left]
        stride_before = stride[left]
        off = np.abs(excess[left])
    return found


def _norm(rows: Array) -> Array:
    return np.sqrt(np.vecdot(rows, rows))


def _meet(a: Array, b: Array, c: Array, slope: Array) -> Array:
    """Find where |a sigma + b| rises through c + slope sigma; NaN where it does not."""
    square = np.vecdot(a, a) - slope**2
    half = np.vecdot(a, b) - c * slope
    rest = np.vecdot(b, b) - c**2
    root = np.sqrt(half**2 - square * rest)
    return np.where(half > 0.0, -rest / (half + root), (root - half) / square)


def _shrink_all(y: Array, x: Array, price: float, stretch: Array, axes: Array | None) -> Array:
    """Move y toward x until n, the norm of the stretched move that is left, solves the proximal step."""
    step = y - x if axes is None else (y - x) @ axes
    priced = stretch > 0.0
    pull = stretch[priced] * step[priced]
    force = price * stretch[priced] ** 2

    def excess(n: float) -> float:
        return 1.0 - float(np.linalg.norm(pull / (n + force)))

    n = find_root(excess, 0.0, float(np.linalg.norm(pull)))
    step[priced] *= n / (n + force)
    return x + (step if axes is None else axes @ step)


def stock_if_it_pays(
    domain: ConvexSet,
    movement: Movement,
    family: Pinball,
    x: Array,
    means: Array,
    price: float | Array,
) -> Array:
    r"""Find the point that is best for a normal forecast of demand, moving there included.

    Coordinate by coordinate, x is clipped to the band between two quantiles of the forecast, those at

    .. math:: \frac{s - \mathrm{price}}{s + e} \quad\text{and}\quad \frac{s + \mathrm{price}}{s + e}.

    On a box that is the minimiser of the expected cost and the cost of moving, if moving is charged by coordinates. Elsewhere
    it is a rule: on other sets the point is projected, and a norm of all changes counts as a price of each
    coordinate. Where the price grows faster than the step (:class:`~klazy.contrib.SquaredMovement`,
    :class:`~klazy.contrib.ImpactMovement`) there is no band, and the minimiser of each coordinate is searched for. If no move
    pays, the answer is x itself.

    Parameters
    ----------
    domain, movement, x, price
        As for :func:`move_if_it_pays`.
    family : Pinball
        The cost of a unit too little and of a unit too much.
    means : array
        The means of the demand and of its square, for each point.

    Returns
    -------
    array
        The next point of each.

    Examples
    --------
    >>> means = np.array([5.0, 29.0])  # a demand of 5 +- 2
    >>> stock_if_it_pays(Box(0, 10), L1Movement(), Pinball(3.0, 1.0), np.array([2.0]), means, 1.0)
    array([5.])
    """
    points, moments, prices = _as_rows(x, means, price)
    if movement.is_fee or not prices.any():
        u = family.lowest(domain, moments)
    elif movement.degree > 1.0:
        u = domain.nearest(_stock_by_slope(movement, family, points, moments, prices))
    else:
        low, high = find_band(domain, movement, family, prices[:, None])
        mean, spread = family.fit_normal(moments)
        spread = np.maximum(spread, THINNEST)
        u = domain.nearest(np.clip(points, mean + low * spread, mean + high * spread))
        if type(domain) is Box and not movement.grouped:
            return u.reshape(x.shape)
    now = family.expected(moments, points)
    then = family.expected(moments, u)
    rounding = EQUAL * (np.abs(now) + np.abs(then))
    pays = (now - then > _charge(movement, u - points, prices) + rounding) & (u != points).any(
        axis=1
    )
    return np.where(pays[:, None], u, points).reshape(x.shape)


def _stock_by_slope(
    movement: Movement, family: Pinball, x: Array, means: Array, price: Array
) -> Array:
    """Find, to the last bits, where the expected cost of each coordinate falls as fast as the price of its move rises."""
    from scipy.special import ndtr

    mean, spread = family.fit_normal(means)
    spread = np.maximum(spread, THINNEST)
    scale = price[:, None] * movement.degree * movement.distance(np.eye(x.shape[1]))

    # A stock goes at most as far as it would if every unit were missing.
    steep = np.maximum(family.short, family.excess)
    with np.errstate(divide="ignore", over="ignore"):
        far = np.minimum((steep / scale) ** (1.0 / (movement.degree - 1.0)), FARTHEST)
    both = family.short + family.excess

    def search(
        start: float,
        mean: float,
        spread: float,
        scale: float,
        both: float,
        short: float,
        far: float,
    ):
        def slope(u: float) -> float:
            pull = scale * abs(u - start) ** (movement.degree - 1.0)
            return both * ndtr((u - mean) / spread) - short + math.copysign(pull, u - start)

        return find_root(slope, start - far, start + far)

    return np.vectorize(search, otypes=[float])(x, mean, spread, scale, both, family.short, far)


def find_band(
    domain: ConvexSet, movement: Movement, family: Pinball, price: float | Array
) -> tuple[Array, Array]:
    """Find between how many standard deviations from the mean a stock is left as it is."""
    from scipy.special import ndtri

    if movement.grouped:
        rise = fall = price * movement.distance(np.eye(domain.dim))
    else:
        rise, fall = np.split(price * movement.prices(domain.dim), 2, axis=-1)
    both = family.short + family.excess
    # A coordinate whose shortage and excess cost nothing gives 0 / 0, which fmax and fmin ignore: it stays.
    with np.errstate(divide="ignore", invalid="ignore"):
        low = ndtri(np.fmax((family.short - rise) / both, 0.0))
        high = ndtri(np.fmin((family.short + fall) / both, 1.0))
    return low, high


def find_stride(domain: ConvexSet, slopes: Array) -> float:
    """Choose the stride of a splitting, given how steep the objective may be."""
    return domain.scale / (float(np.linalg.norm(slopes)) or 1.0)


def split(
    domain: ConvexSet,
    x: Array,
    stride: float,
    shrink: Callable[[Array, float], Array],
    down: Array | None = None,
) -> Array:
    """Minimise by Douglas and Rachford's splitting of ``shrink``, the proximal step of the objective, and the projection.

    It begins at x; with the descent ``down`` of the objective there it ends sooner, if the minimum is near.
    """
    size = max(domain.scale, float(np.abs(x).max()))
    y = x if down is None else x + stride * down
    change = math.inf
    u = x
    for _ in range(BUDGET):
        u = domain.nearest(y)
        gap = shrink(2.0 * u - y, stride) - u
        y = y + gap
        change = float(np.abs(gap).max())
        if change <= SETTLED * size:
            return x if float(np.abs(u - x).max()) <= SHORTEST * domain.scale else u
    warnings.warn(
        f"the search for a move that pays stopped after {BUDGET} turns, still changing by {change:.1e}.",
        NotConverged,
        stacklevel=3,
    )
    return u
