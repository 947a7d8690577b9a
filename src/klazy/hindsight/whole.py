"""Optima in whole numbers: a dynamic programme where coordinates can be taken one by one, else rounding between two bounds."""

from typing import Any, NamedTuple

import numpy as np

from klazy.base.checks import Array, refusal
from klazy.costs import Costs
from klazy.game.game import Game
from klazy.hindsight.optimum import EPS, Optimum
from klazy.sets import Box, ConvexSet

CELLS = 20_000_000  # of a table of rounds and whole numbers
PAIRS = 1_000_000  # of whole numbers, where every move has a price of its own


class Costly(NamedTuple):
    """One coordinate: its whole numbers, what each costs in every round, and what a unit of rising and of falling costs."""

    values: Array
    costs: Array
    up: Array
    down: Array


def tabulate(game: Game, domain: Box, owner: str) -> list[Costly]:
    """Every coordinate as a table; refused are costs and movements that do not charge each coordinate by itself."""
    d = domain.dim
    one = d == 1
    if not _is_separable(game.costs) and not one:
        wanted = "costs that are sums over coordinates (linear, quadratic, pinball), or one dimension"
        raise refusal(owner, wanted, "costs", repr(game.costs), "play each coordinate by itself")
    movement = game.movement
    if movement.degree != 1.0 or movement.grouped is None or (movement.grouped and not one):
        wanted = "a price of each coordinate, such as L1Movement or AsymmetricMovement"
        raise refusal(owner, wanted, "movement", repr(movement), "state it as one of these")
    if game.weights.size > 1:
        wanted = "one weight for all rounds"
        raise refusal(owner, wanted, "movement", repr(movement), "give a number, its mean say")
    weight = np.full(game.costs.T, float(game.weights[0]))
    tables = []
    for i in range(d):
        values = list_whole(domain, i)
        unit = np.eye(d)[i]
        up = weight * float(movement.distance(unit))
        down = weight * float(movement.distance(-unit))
        tables.append(Costly(values, _cost_of(game.costs, i, values), up, down))
    return tables


def list_whole(domain: Box, i: int) -> Array:
    """The whole numbers that a coordinate may be."""
    lower, upper = np.split(domain.parameters(), 2)
    return np.arange(np.ceil(lower[i]), np.floor(upper[i]) + 1.0)


def _cost_of(costs: Any, i: int, values: Array) -> Array:
    """What these numbers cost as coordinate i, of shape (T, n)."""
    if not _is_separable(costs):
        return np.array([[costs.value(t, np.array([v])) for v in values] for t in range(1, costs.T + 1)])
    family = costs.family.coordinate(i)
    rows = costs.data[:, [i, *range(costs.dim, costs.data.shape[1])]]
    return family.value(rows[:, None], values[:, None])


def _is_separable(costs: Costs) -> bool:
    """Whether they are sums over coordinates."""
    return costs.family is not None and costs.family.coordinate(0) is not None


def relax(come: Array, up: float, down: float) -> Array:
    """The least cost to come after one more move, at so much a unit of rising and of falling: two sweeps."""
    steps = np.arange(len(come))
    rising = np.minimum.accumulate(come - up * steps) + up * steps
    falling = np.minimum.accumulate((come + down * steps)[::-1])[::-1] - down * steps
    return np.minimum(rising, falling)


def whole_optimum(game: Game, domain: ConvexSet, relaxed: Optimum | None) -> Optimum | None:
    """The best sequence of whole numbers that is found.

    It is exact where a dynamic programme can find it. Else it is the relaxed optimum, rounded, between what that costs and the
    bound of the relaxed problem; None if that is needed and not given.
    """
    if _is_exact(game, domain):
        columns = [_solve(game, domain, i) for i in range(domain.dim)]
        u = np.stack(columns, axis=1)
        hitting, switching = _charge(game, u)
        size = float(np.abs(game.costs.values(u)).sum()) + switching
        bound = hitting + switching - (domain.dim + 100) * EPS * game.costs.T * size
        return Optimum(
            u, hitting, switching, bound, _gap(game, hitting + switching, bound), "whole numbers", 0
        )
    if relaxed is None:
        return None
    u = np.array([domain.nearest_whole(x) for x in relaxed.u])
    hitting, switching = _charge(game, u)
    cost = hitting + switching
    bound = min(relaxed.lower_bound, cost)
    return Optimum(u, hitting, switching, bound, _gap(game, cost, bound), "rounding", relaxed.iterations)


def _is_exact(game: Game, domain: ConvexSet) -> bool:
    """Whether coordinates can be taken one by one, and their tables have room."""
    if type(domain) is not Box:
        return False
    movement = game.movement
    one = domain.dim == 1
    by_coordinate = movement.grouped is False or (movement.grouped and movement.degree == 2.0)
    if not one and not (_is_separable(game.costs) and by_coordinate):
        return False
    longest = max(len(list_whole(domain, i)) for i in range(domain.dim))
    has_room = longest * game.costs.T <= CELLS
    return has_room and (_has_prices(game, domain) or longest**2 <= PAIRS)


def _has_prices(game: Game, domain: ConvexSet) -> bool:
    """Whether a step costs in proportion to its length."""
    return game.movement.degree == 1.0 and game.movement.grouped is not None


def _solve(game: Game, domain: ConvexSet, i: int) -> Array:
    """The best whole numbers of one coordinate: the costs to come forwards, then backwards along them."""
    assert isinstance(domain, Box)
    values = list_whole(domain, i)
    costs = _cost_of(game.costs, i, values)
    unit = np.eye(domain.dim)[i]
    weights = np.array(np.broadcast_to(game.weights, game.costs.T))
    distance = game.movement.distance
    up = float(distance(unit))
    down = float(distance(-unit))
    has_prices = _has_prices(game, domain)
    pairs = np.empty((0, 0))
    if not has_prices:
        pairs = distance((values - values[:, None])[..., None] * unit)

    def price(before: Array | float, after: Array | float) -> Array:
        return distance(np.asarray(after - before)[..., None] * unit)

    come = np.empty(costs.shape)
    come[0] = costs[0]
    if game.x0 is not None:
        come[0] += weights[0] * price(game.x0[i], values)
    for t in range(1, len(costs)):
        if has_prices:
            come[t] = relax(come[t - 1], weights[t] * up, weights[t] * down) + costs[t]
        else:
            come[t] = (come[t - 1][:, None] + weights[t] * pairs).min(axis=0) + costs[t]
    path = np.empty(len(costs))
    path[-1] = values[int(np.argmin(come[-1]))]
    for t in range(len(costs) - 1, 0, -1):
        path[t - 1] = values[int(np.argmin(come[t - 1] + weights[t] * price(values, path[t])))]
    return path


def _charge(game: Game, u: Array) -> tuple[float, float]:
    hitting = float(game.costs.values(u).sum())
    return hitting, float(game.movement.paid(u, game.x0).sum())


def _gap(game: Game, cost: float, bound: float) -> float:
    """The relative gap of a cost in whole numbers."""
    if cost <= bound:
        return 0.0
    return (cost - bound) / abs(cost) if cost != 0.0 else np.inf
