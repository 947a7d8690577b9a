"""Exact optima by dynamic programming: linear costs with prices by coordinate, and decisions that are integers.

Linear costs with movement that is priced coordinate by coordinate: on a simplex it suffices to sit on vertices (the problem is
a flow from round to round, in which mass that changes place pays for leaving one vertex and for entering another); on a box a
coordinate sits at one of its ends or where it began. Both programmes run backwards once, in O(T d), and what they know of the
cost to go is an optimal dual point. So the lower bound comes from multipliers, as everywhere else, and the gap is an allowance
for rounding.

States without order are corners of a simplex, too: what switching costs is a table, and the programme is over states.

Integers: where coordinates can be solved one by one, a table of rounds and integers gives the optimum. Elsewhere the optimum
without that restriction is rounded, between its bound and what the rounded sequence costs.
"""

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from klazy.base.checks import Array, InvalidInput
from klazy.costs import Costs
from klazy.game.game import Game
from klazy.hindsight.optimum import EPS, Optimum
from klazy.hindsight.problem import Problem
from klazy.kernels import codes
from klazy.movement import FiniteMetric, Movement
from klazy.sets import Box, ConvexSet
from klazy.sets.limits import LimitedSet

CELLS = 20_000_000  # the largest table of rounds and integers
PAIRS = (
    1_000_000  # the largest table of pairs of integers, where every move has a price of its own
)


def exact_optimum(problem: Problem) -> Optimum | None:
    """Return the optimum of linear costs if a dynamic programme finds it, else None."""
    if (
        problem.is_tied
        or problem.within is not None
        or codes.code_of(problem.costs) != codes.LINEAR
    ):
        return None
    kind = codes.code_of(problem.domain)
    is_inside = problem.x0 is None or problem.domain.contains(problem.x0)
    if isinstance(problem.movement, FiniteMetric) and kind == codes.SIMPLEX and is_inside:
        return _find_states(problem, problem.movement.D)
    if problem.needs_cuts or problem.grouped or problem.degree != 1.0:
        return None
    if kind != codes.BOX and not (kind == codes.SIMPLEX and is_inside):
        return None

    from klazy.kernels import offline

    is_short = problem.T * problem.dim <= offline.PLAIN_NUMBERS
    up, down = np.split(problem.prices, 2)
    u = np.empty((problem.T, problem.dim))
    # What the optimum pays for hitting and for moving, and the dual value, by blocks of rounds.
    sums = np.zeros((3, -(-problem.T // offline.ADDED_ROUNDS)))
    data = problem.costs.arrays()[0]
    if kind == codes.BOX:
        lower, upper = np.split(problem.domain.parameters(), 2)
        x0 = lower if problem.x0 is None else problem.x0
        # From outside of the box a coordinate moves one way, at the full price.
        entry = problem.weights[0] * np.where(x0 > upper, -down, up)
        outside = np.where((x0 < lower) | (x0 > upper), entry, np.nan)
        on_box = partial(offline.play_plainly, offline.play_box)
        if not is_short:
            on_box = offline.box_programme(problem.dim)
        on_box(data, problem.weights, up, down, lower, upper, outside, x0, u, sums)
    else:
        (total,) = problem.domain.parameters().tolist()
        # Without an x0 the first round's weight is zero, and all mass goes to its best vertex.
        start = problem.domain.start if problem.x0 is None else problem.x0
        targets = np.empty(problem.T, dtype=np.int32)
        on_simplex = partial(offline.play_plainly, offline.play_simplex)
        if not is_short:
            on_simplex = offline.simplex_programme(problem.dim)
        on_simplex(data, problem.weights, up, down, total, start, u, targets, sums)
    hitting, switching, bound = (float(row.sum()) for row in sums)
    slopes = problem.T * problem.steepness
    # A multiplier is no larger than its price, nor than all slopes together.
    steepest = np.minimum(problem.weights * np.linalg.norm(problem.prices), 2.0 * slopes).sum()
    bound -= problem.rounding(slopes, float(steepest))
    return problem.certify(u, (hitting, switching), bound, "dynamic programme")


def _find_states(problem: Problem, prices: Array) -> Optimum:
    """Return the optimum on a simplex whose corners are states, with a table of switching costs, in O(T n^2).

    The cost to go of every state is found backwards. Probability never splits: each part of the first distribution follows
    its own cheapest way.
    """
    costs = problem.costs.arrays()[0]
    states = np.arange(problem.dim)
    following = np.empty((problem.T, problem.dim), dtype=np.int32)
    ahead = np.zeros(problem.dim)
    for t in range(problem.T - 1, -1, -1):
        ways = problem.weights[t] * prices + (costs[t] + ahead)
        following[t] = ways.argmin(axis=1)
        ahead = ways[states, following[t]]
    at = states
    shares = problem.domain.start if problem.x0 is None else problem.x0
    u = np.zeros((problem.T, problem.dim))
    for t in range(problem.T):
        at = following[t, at]
        np.add.at(u[t], at, shares)
    steepest = float(np.abs(costs).max() + problem.weights.max() * prices.max())
    bound = float(ahead @ shares) - problem.T * EPS * float(shares.sum()) * steepest
    return problem.certify(u, problem.paid(u), bound, "dynamic programme")


class Costly(NamedTuple):
    """One coordinate: its integers, their costs in every round, and the price of rising and of falling by one."""

    values: Array
    costs: Array
    up: Array
    down: Array


def tabulate(game: Game, domain: Box) -> list[Costly]:
    """Make a table of every coordinate, for costs and movements that charge each of them by itself."""
    one = domain.dim == 1
    if not _is_separable(game.costs) and not one:
        known = "sums over coordinates (linear, quadratic, pinball)"
        raise InvalidInput(f"In several dimensions costs must be {known}, got {game.costs!r}.")
    movement = game.movement
    if movement.degree != 1.0 or movement.grouped is None or (movement.grouped and not one):
        known = "by coordinate, as L1Movement and AsymmetricMovement do"
        raise InvalidInput(f"movement must charge {known}, got {movement!r}.")
    if game.weights.size > 1:
        raise InvalidInput(
            f"movement must have one weight for all rounds, got {movement!r}. Use their mean."
        )
    return [_make_table(game, domain, i) for i in range(domain.dim)]


def _make_table(game: Game, domain: Box, i: int) -> Costly:
    values = _list_integers(domain, i)
    unit = np.eye(domain.dim)[i]
    weights = np.full(game.costs.T, game.weights)
    up = weights * float(game.movement.distance(unit))
    down = weights * float(game.movement.distance(-unit))
    return Costly(values, _cost_of(game.costs, i, values), up, down)


def _list_integers(domain: Box, i: int) -> Array:
    return np.arange(np.ceil(domain.lower[i]), np.floor(domain.upper[i]) + 1.0)


def _cost_of(costs: Any, i: int, values: Array) -> Array:
    """Return the costs of these numbers as coordinate i, of shape (T, n)."""
    if not _is_separable(costs):
        return np.array(
            [[costs.value(t, np.array([v])) for v in values] for t in range(1, costs.T + 1)]
        )
    family = costs.family.coordinate(i)
    rows = costs.data[:, [i, *range(costs.dim, costs.data.shape[1])]]
    return family.value(rows[:, None], values[:, None])


def _is_separable(costs: Costs) -> bool:
    """Return True if the costs are sums over coordinates."""
    return costs.family is not None and costs.family.coordinate(0) is not None


def relax(
    come: Array, up: float, down: float, rise: int | None = None, fall: int | None = None
) -> Array:
    """Return the least cost to come after one more move, with prices of rising and falling by one: two sweeps.

    A move rises by at most ``rise`` and falls by at most ``fall``, if these are given.
    """
    steps = np.arange(len(come))
    rising = _find_least(come - up * steps, rise) + up * steps
    falling = _find_least((come + down * steps)[::-1], fall)[::-1] - down * steps
    return np.minimum(rising, falling)


def _find_least(values: Array, count: int | None) -> Array:
    """Return for each entry the least of itself and the ``count`` entries before it, by default of all of them."""
    if count is None or count >= len(values) - 1:
        return np.minimum.accumulate(values)
    from scipy.ndimage import minimum_filter1d

    return minimum_filter1d(values, count + 1, mode="constant", cval=np.inf, origin=count // 2)


def whole_optimum(
    game: Game,
    domain: ConvexSet,
    relaxed: Optimum | None,
    limits: Array | None = None,
    held: np.ndarray | None = None,
    within: LimitedSet | None = None,
) -> Optimum | None:
    """Find the best sequence of integers.

    It is exact where a dynamic programme can find it. Elsewhere it is the relaxed optimum, rounded, with the bound of the
    relaxed problem; None if no relaxed optimum was given. For exact ones, ``limits`` are those of a step, and ``held`` says
    which rounds must repeat the decision before. ``within`` are limits by round, with integers at both ends.
    """
    exact = is_exact(game.costs, domain, game.movement)
    if exact:
        if limits is None:
            limits = np.full(2 * domain.dim, np.inf)
        if held is None:
            held = np.zeros(game.costs.T, dtype=bool)
        solved = [
            _solve_coordinate(game, domain, i, limits, held, within) for i in range(domain.dim)
        ]
        u = np.stack(solved, axis=1)
    elif relaxed is not None:
        points = relaxed.u if within is None else within.keep(relaxed.u)
        u = np.array([domain.nearest_whole(x) for x in points])
    else:
        return None
    values = game.costs.values(u)
    hitting = float(values.sum())
    switching = float(game.movement.paid(u, game.x0).sum())
    cost = hitting + switching
    method = "rounding"
    iterations = 0
    if exact or relaxed is None:
        method = "whole numbers"
        size = float(np.abs(values).sum()) + switching
        bound = cost - (domain.dim + 100) * EPS * game.costs.T * size
    else:
        iterations = relaxed.iterations
        bound = min(relaxed.lower_bound, cost)
    gap = 0.0 if cost <= bound else (cost - bound) / abs(cost) if cost != 0.0 else np.inf
    return Optimum(u, hitting, switching, bound, gap, method, iterations)


def is_exact(costs: Costs, domain: ConvexSet, movement: Movement) -> bool:
    """Return True if coordinates can be solved one by one, and their tables have room."""
    if type(domain) is not Box:
        return False
    by_coordinate = movement.grouped is False or (movement.grouped and movement.degree == 2.0)
    if domain.dim > 1 and not (_is_separable(costs) and by_coordinate):
        return False
    longest = max(len(_list_integers(domain, i)) for i in range(domain.dim))
    has_room = longest * costs.T <= CELLS
    return has_room and (_has_prices(movement) or longest**2 <= PAIRS)


def _has_prices(movement: Movement) -> bool:
    """Return True if a step costs in proportion to its length."""
    return movement.degree == 1.0 and movement.grouped is not None


def _solve_coordinate(
    game: Game, domain: Any, i: int, limits: Array, held: np.ndarray, within: LimitedSet | None
) -> Array:
    """Find the best integers of one coordinate: the costs to come forwards, then backwards along them."""
    values, costs, up, down = _make_table(game, domain, i)
    if within is not None:
        is_outside = (values < within.low[:, i, None]) | (values > within.high[:, i, None])
        costs = np.where(is_outside, np.inf, costs)
    unit = np.eye(domain.dim)[i]
    weights = np.full(len(costs), game.weights)

    def price(before: Array | float, after: Array | float) -> Array:
        return game.movement.distance(np.asarray(after - before)[..., None] * unit)

    def reach(before: Array | float, after: Array | float) -> Array:
        step = after - before
        return np.where((step > rise) | (step < -fall), np.inf, 0.0)

    rise, fall = limits.reshape(2, -1)[:, i]
    # A limit above the number of integers has no effect.
    most = np.floor(np.minimum((rise, fall), len(values))).astype(int).tolist()
    has_prices = _has_prices(game.movement)
    pairs = np.empty((0, 0)) if has_prices else price(values[:, None], values)
    come = np.empty(costs.shape)
    come[0] = costs[0]
    if game.x0 is not None:
        if held[0]:
            come[0] += np.where(values == game.x0[i], 0.0, np.inf)
        else:
            come[0] += weights[0] * price(game.x0[i], values) + reach(game.x0[i], values)
        if np.isinf(come[0]).all():
            raise InvalidInput(
                f"No whole number can follow x0[{i}]={game.x0[i]:g} with this ramp or lead."
            )
    for t in range(1, len(costs)):
        if held[t]:
            come[t] = come[t - 1] + costs[t]
        elif has_prices:
            come[t] = relax(come[t - 1], up[t], down[t], *most) + costs[t]
        else:
            come[t] = (come[t - 1][:, None] + weights[t] * pairs).min(axis=0) + costs[t]
    path = np.empty(len(costs))
    path[-1] = values[int(np.argmin(come[-1]))]
    for t in range(len(costs) - 1, 0, -1):
        if held[t]:
            path[t - 1] = path[t]
            continue
        before = come[t - 1] + weights[t] * price(values, path[t]) + reach(values, path[t])
        path[t - 1] = values[int(np.argmin(before))]
    return path
