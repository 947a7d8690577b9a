"""Exact optima by dynamic programming: linear costs with prices by coordinate, and decisions that are integers.

Linear costs with movement that is priced coordinate by coordinate: on a simplex it suffices to sit on vertices (the problem is
a flow from round to round, in which mass that changes place pays for leaving one vertex and for entering another); on a box a
coordinate sits at one of its ends or where it began. Both programmes run backwards once, in O(T d), and what they know of the
cost to go is an optimal dual point. So the lower bound comes from multipliers, as everywhere else, and the gap is an allowance
for rounding.

States without order are corners of a simplex, too: what switching costs is a table, and the programme is over states.

Integers: on a box a table of rounds and integers gives the optimum, of each coordinate by itself where costs and moves are
sums over coordinates, else of all of them together: a shortest path from grid to grid. Elsewhere the optimum without that
restriction is rounded, between its bound and what the rounded sequence costs.
"""

import math
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

CELLS = 20_000_000  # the most numbers that a table of rounds and integers stores
POINTS = 1_000_000_000  # the most that are computed, where a family charges many points at once
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

    Probability never splits: each part of the first distribution follows its own cheapest way.
    """
    from klazy.kernels import offline

    data = problem.costs.arrays()[0]
    shares = problem.domain.start if problem.x0 is None else problem.x0
    u = np.empty((problem.T, problem.dim))
    sums = np.zeros((3, -(-problem.T // offline.ADDED_ROUNDS)))
    over_states = partial(offline.play_plainly, offline.play_states)
    if problem.T * prices.size > offline.PLAIN_NUMBERS:
        over_states = offline.states_programme(problem.dim)
    over_states(data, problem.weights, prices, shares, u, sums)
    hitting, switching, bound = (float(row.sum()) for row in sums)
    steepest = float(np.abs(data).max() + problem.weights.max() * prices.max())
    bound -= problem.T * EPS * float(shares.sum()) * steepest
    return problem.certify(u, (hitting, switching), bound, "dynamic programme")


class Costly(NamedTuple):
    """One coordinate: its integers, their costs in every round, and the price of rising and of falling by one."""

    values: Array
    costs: Array
    up: Array
    down: Array


def tabulate(game: Game, domain: Box) -> list[Costly]:
    """Make a table of every coordinate, for costs and movements that charge each of them by itself."""
    if not _is_separable(game.costs) and domain.dim > 1:
        known = "sums over coordinates (linear, quadratic, pinball)"
        raise InvalidInput(f"In several dimensions costs must be {known}, got {game.costs!r}.")
    check_prices(game)
    tables = []
    for i in range(domain.dim):
        grid = WholeGrid(game, domain, [i])
        up = grid.weights * grid.up
        down = grid.weights * grid.down
        tables.append(Costly(grid.points[:, 0], grid.charges, up, down))
    return tables


def check_prices(game: Game) -> None:
    """Reject a movement that does not charge each coordinate by itself, or at prices that change."""
    movement = game.movement
    if not _has_prices(movement, game.costs.dim):
        known = "by coordinate, as L1Movement and AsymmetricMovement do"
        raise InvalidInput(f"movement must charge {known}, got {movement!r}.")
    if game.weights.size > 1:
        raise InvalidInput(
            f"movement must have one weight for all rounds, got {movement!r}. Use their mean."
        )


class WholeGrid:
    """The integers of some coordinates of a box, and what rounds and moves charge for them.

    ``points`` has one axis for each of these coordinates, and a last one for what they are. Rounds are counted from 0.
    """

    def __init__(self, game: Game, domain: Box, axes: list[int]) -> None:
        self.game = game
        each = [_list_integers(domain, i) for i in axes]
        self.points = np.stack(np.meshgrid(*each, indexing="ij"), axis=-1)
        self.shape = self.points.shape[:-1]
        self.axes = axes
        self.units = np.eye(domain.dim)[axes]
        self.weights = np.full(game.costs.T, game.weights)
        # What rising and falling by one costs, before the weight.
        self.up = game.movement.distance(self.units)
        self.down = game.movement.distance(-self.units)
        # A coordinate by itself has a table of all rounds.
        self.charges = np.empty((0, 0))
        if len(axes) == 1:
            self.charges = _cost_of(game.costs, axes[0], each[0])

    def charge(self, t: int) -> Array:
        """Return what a round charges each point."""
        costs: Any = self.game.costs
        if len(self.charges):
            return self.charges[t]
        if costs.family is not None:
            return costs.family.value(costs.data[t], self.points)
        flat = self.points.reshape(-1, len(self.axes))
        return np.reshape([costs.value(t + 1, x) for x in flat], self.shape)

    def price(self, t: int, steps: Array) -> Array:
        """Return what moving by these steps costs in a round."""
        return self.weights[t] * self.game.movement.distance(steps @ self.units)


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
    come: Array,
    up: float,
    down: float,
    rise: int | None = None,
    fall: int | None = None,
    axis: int = 0,
) -> Array:
    """Return the least cost to come after one more move along an axis, with prices of rising and falling by one: two sweeps.

    A move rises by at most ``rise`` and falls by at most ``fall``, if these are given.
    """
    come = np.moveaxis(come, axis, -1)
    steps = np.arange(come.shape[-1])
    rising = _find_least(come - up * steps, rise) + up * steps
    falling = _find_least((come + down * steps)[..., ::-1], fall)[..., ::-1] - down * steps
    return np.moveaxis(np.minimum(rising, falling), -1, axis)


def _find_least(values: Array, count: int | None) -> Array:
    """Return for each entry the least of itself and the ``count`` entries before it, by default of all of them.

    That is along the last axis.
    """
    if count is None or count >= values.shape[-1] - 1:
        return np.minimum.accumulate(values, axis=-1)
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
    groups = group_coordinates(game.costs, domain, game.movement)
    if groups is not None:
        # Only a box has groups.
        box: Any = domain
        if limits is None:
            limits = np.full(2 * domain.dim, np.inf)
        if held is None:
            held = np.zeros(game.costs.T, dtype=bool)
        solved = [_solve(WholeGrid(game, box, axes), limits, held, within) for axes in groups]
        u = np.concatenate(solved, axis=1)
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
    if groups is not None or relaxed is None:
        method = "whole numbers"
        size = float(np.abs(values).sum()) + switching
        bound = cost - (domain.dim + 100) * EPS * game.costs.T * size
    else:
        iterations = relaxed.iterations
        bound = min(relaxed.lower_bound, cost)
    gap = 0.0 if cost <= bound else (cost - bound) / abs(cost) if cost != 0.0 else np.inf
    return Optimum(u, hitting, switching, bound, gap, method, iterations)


def group_coordinates(
    costs: Costs, domain: ConvexSet, movement: Movement
) -> list[list[int]] | None:
    """Return which coordinates a dynamic programme must solve together; None where it cannot, or its tables have no room."""
    if type(domain) is not Box:
        return None
    by_coordinate = movement.grouped is False or (movement.grouped and movement.degree == 2.0)
    if domain.dim == 1 or (by_coordinate and _is_separable(costs)):
        groups = [[i] for i in range(domain.dim)]
    else:
        groups = [list(range(domain.dim))]
    counts = np.floor(domain.upper) - np.ceil(domain.lower) + 1.0
    for axes in groups:
        n = float(np.prod(counts[axes]))
        many_at_once = len(axes) > 1 and costs.family is not None
        most = POINTS if many_at_once else CELLS
        stored = min(costs.T, 2 * _choose_block(costs.T))
        if n * costs.T > most or n * stored > CELLS:
            return None
        if not _has_prices(movement, len(axes)) and n**2 > PAIRS:
            return None
    return groups


def _choose_block(T: int) -> int:
    """Return how many rounds to compute again at once, so that as few as possible are stored."""
    return math.isqrt(T) + 1


def _has_prices(movement: Movement, dim: int) -> bool:
    """Return True if a step costs in proportion to its length, in each of so many coordinates by itself."""
    alone = movement.grouped is False or (movement.grouped is True and dim == 1)
    return movement.degree == 1.0 and alone


def _solve(grid: WholeGrid, limits: Array, held: np.ndarray, within: LimitedSet | None) -> Array:
    """Find the best integers of some coordinates: the costs to come forwards, then backwards along them.

    Where the costs to come of all rounds would be too many, only those of every so many rounds are stored, and the others are
    computed again on the way back.
    """
    T = grid.game.costs.T
    axes = grid.axes
    points = grid.points.reshape(-1, len(axes))
    rise, fall = limits.reshape(2, -1)[:, axes]
    # A limit above the number of integers has no effect.
    most = np.floor(np.minimum((rise, fall), grid.shape)).astype(int).T.tolist()
    has_prices = _has_prices(grid.game.movement, len(axes))
    pairs = np.empty((0, 0))
    if not has_prices:
        pairs = grid.game.movement.distance((points - points[:, None]) @ grid.units)

    def reach(steps: Array) -> Array:
        beyond = ((steps > rise) | (steps < -fall)).any(axis=-1)
        return np.where(beyond, np.inf, 0.0)

    def enter() -> Array:
        """Return what the first move costs."""
        if grid.game.x0 is None:
            return np.zeros(grid.shape)
        steps = grid.points - grid.game.x0[axes]
        first = grid.price(0, steps) + reach(steps)
        if held[0]:
            first = np.where((steps == 0.0).all(axis=-1), 0.0, np.inf)
        if np.isinf(first).all():
            raise InvalidInput(
                f"No integers can follow x0={grid.game.x0.tolist()} with this ramp or lead."
            )
        return first

    def advance(t: int, come: Array) -> Array:
        """Return the least cost to come at the end of a round, from that at the end of the round before."""
        if t == 0:
            come = enter()
        elif not held[t] and has_prices:
            for i, (up, down) in enumerate(most):
                w = grid.weights[t]
                come = relax(come, w * grid.up[i], w * grid.down[i], up, down, axis=i)
        elif not held[t]:
            moved = come.reshape(-1, 1) + grid.weights[t] * pairs
            come = moved.min(axis=0).reshape(grid.shape)
        come = come + grid.charge(t)
        if within is not None:
            low = within.low[t, axes]
            high = within.high[t, axes]
            outside = ((grid.points < low) | (grid.points > high)).any(axis=-1)
            come = np.where(outside, np.inf, come)
        return come

    block = T if len(points) * T <= CELLS else _choose_block(T)
    starts = range(0, T, block)
    come = np.empty(0)
    before = [come]
    for t in range(starts[-1]):
        come = advance(t, come)
        if t + 1 in starts:
            before.append(come)
    path = np.empty((T, len(axes)))
    at = None
    for start in reversed(starts):
        comes = [before.pop()]
        for t in range(start, min(start + block, T)):
            comes.append(advance(t, comes[-1]))
        for t in reversed(range(start, start + len(comes) - 1)):
            come = comes.pop()
            if at is None or not held[t + 1]:
                if at is not None:
                    steps = at - grid.points
                    come = come + grid.price(t + 1, steps) + reach(steps)
                at = points[int(np.argmin(come))]
            path[t] = at
    return path
