"""The optimum where prices carry shares away: a sequence found without drift, and a bound that counts it.

The charge depends on x_{t-1} through a quotient, and is not convex. But moving costs at least <mu_t, x_t - D(x_{t-1})> for
the multipliers mu of the problem without drift, D being the drift. So no sequence pays less than the sum over all rounds of

    min over x of  f_t(x) + <mu_t, x> - <mu_{t+1}, D_t(x)>.

For a given value of <r_t, x> that is linear in x, so the least value is on an edge of the simplex, where it is found exactly.
A capped simplex has too many edges. There f_t is replaced by a tangent, and D_t(x) = s r_t x with s = total / <r_t, x>: for a
given x the value is linear in s, so no less than at one of the two ends that s can reach.

For log-wealth on a simplex, dollars know better (dollars.py). Moving a part m of the shares leaves exp(-w m) of the wealth,
which is at most 1 - c m with c = 1 - exp(-w). All holdings shrink by that. If the dollars that move paid instead, a share
c / (1 + c) each, then these holdings could be reached too: at most m (1 + c) dollars have to move. So no sequence gains more
than dollars do at this price, which is w but for its square.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from klazy.base.checks import Array, InvalidInput
from klazy.families import LogWealth
from klazy.game.game import Game
from klazy.hindsight.dollars import plan_dollars
from klazy.hindsight.optimum import EPS, Optimum
from klazy.hindsight.problem import Problem
from klazy.hindsight.splitting import Progress, iterate
from klazy.kernels import codes
from klazy.movement import DriftedMovement, Movement, TVMovement
from klazy.sets import CappedSimplex, ConvexSet, Simplex


def drift_with(movement: Movement, domain: ConvexSet, relatives: Array) -> DriftedMovement | None:
    """Return the movement as charged from where prices have carried the shares; None where that is not known.

    What some shares gain, the others lose. So a sum of prices ``up`` and ``down`` that are the same for all shares is up + down
    times total variation: l1 is twice it.
    """
    is_sum = movement.grouped is False and movement.degree == 1.0
    if not is_sum or type(domain) not in (Simplex, CappedSimplex):
        return None
    up, down = np.split(movement.prices(domain.dim), 2)
    if np.ptp(up) > 0.0 or np.ptp(down) > 0.0:
        return None
    return DriftedMovement((up[0] + down[0]) * np.asarray(movement.weight), relatives=relatives)


def drifted_optimum(
    game: Game, domain: ConvexSet, gap: float, iterations: int, progress: Progress | None
) -> Optimum:
    """Find a cheap sequence, with a certified bound, for a game whose movement drifts."""
    movement: Any = game.movement
    is_linear = _check(game, domain, movement)
    plain = Problem(replace(game, movement=TVMovement(movement.weight)), domain)
    if type(domain) is Simplex and not is_linear:
        return _optimum_in_dollars(plain, game, movement)
    found, at = iterate(plain, gap / 3.0, iterations, progress=progress)

    def charge(u: Array) -> tuple[float, float]:
        return float(game.costs.values(u).sum()), float(movement.paid(u, game.x0).sum())

    offers = (found.u, _let_drift(found.u, movement.relatives, domain))
    u = min(offers, key=lambda u: sum(charge(u)))
    if type(domain) is Simplex:
        bound = _bound(plain, movement.relatives, at.mu)
    else:
        bound = _bound_capped(plain, movement.relatives, at.mu, found.u, is_linear)
    return plain.certify(u, charge(u), bound, "splitting", found.iterations)


def _optimum_in_dollars(plain: Problem, game: Game, movement: DriftedMovement) -> Optimum:
    """Let every dollar go its best way, which one sequence can do for all of them, and bound what any sequence gains."""
    domain = plain.domain
    (total,) = domain.parameters().tolist()
    growth = np.log(movement.relatives)
    weights = np.broadcast_to(movement.weights(len(growth)), len(growth)) * total
    weights = np.array(weights)
    shares = np.eye(domain.dim)[0]
    if game.x0 is None or not domain.contains(game.x0):
        weights[0] = 0.0
    else:
        shares = game.x0 / total
    free = np.zeros_like(growth)
    paid = -weights[:, None] + free
    u = total * plan_dollars(growth, paid, free).follow(shares, growth, paid, free)
    hitting = float(game.costs.values(u).sum())
    switching = float(movement.paid(u, game.x0).sum())
    part = -np.expm1(-weights)
    bound = plan_dollars(growth, -np.log1p(part)[:, None] + free, free).worth[0]
    most = float(np.log(shares @ np.exp(bound - bound.max())) + bound.max())
    rounding = (domain.dim + 100) * EPS * (np.abs(growth).max(axis=1).sum() + weights.sum())
    lower = -most - len(growth) * np.log(total) - rounding
    return plain.certify(u, (hitting, switching), lower, "dollars")


def _check(game: Game, domain: ConvexSet, movement: DriftedMovement) -> bool:
    """Return whether the costs are linear; reject sets and costs for which the bound is not known."""
    if type(domain) not in (Simplex, CappedSimplex):
        raise InvalidInput(
            f"A DriftedMovement needs a Simplex or CappedSimplex, got {domain!r}. Use TVMovement(...) elsewhere."
        )
    code = codes.code_of(game.costs)
    if code == codes.LINEAR:
        return True
    if code == codes.LOG_WEALTH and np.array_equal(game.costs.arrays()[0], movement.relatives):
        return False
    raise InvalidInput(
        f"With a DriftedMovement, costs must be linear or LogWealthCosts of the same relatives, got {game.costs!r}."
    )


def _let_drift(u: Array, relatives: Array, domain: ConvexSet) -> Array:
    """Let shares drift wherever a sequence would stay, as far as the set allows."""
    moved = np.array(u)
    for t in range(1, len(u)):
        if np.array_equal(u[t], u[t - 1]):
            drifted = LogWealth().drift(relatives[t - 1], moved[t - 1])
            if domain.contains(drifted):
                moved[t] = drifted
    return moved


def _bound(problem: Problem, relatives: Array, mu: Array) -> float:
    """Sum the least value of every round on a simplex, minus a bound on rounding errors."""
    after = np.concatenate((mu[1:], np.zeros((1, problem.dim))))
    (total,) = problem.domain.parameters().tolist()
    slopes = mu + problem.costs.arrays()[0]
    least = np.full(problem.T, np.inf)
    for i in range(problem.dim):
        for j in range(i, problem.dim):
            edge = _least_on_edge(
                relatives[:, [i, j]], slopes[:, [i, j]], after[:, [i, j]], total
            )
            least = np.minimum(least, edge)
    value = float(least.sum()) - float(mu[0] @ problem.before)
    size = float(np.abs(slopes).sum() + np.abs(mu).sum()) * total
    return value - (problem.dim + 100) * EPS * size


def _bound_capped(
    problem: Problem, relatives: Array, mu: Array, u: Array, is_linear: bool
) -> float:
    """Sum the least value of every round on a capped simplex, with tangents of the costs at a sequence ``u``."""
    domain = problem.domain
    total = float(u[0].sum())
    after = np.concatenate((mu[1:], np.zeros((1, problem.dim))))
    middle = 0.5 * (
        after.max(axis=1) + after.min(axis=1)
    )  # sums of D are the total, so that this part is exact
    carried = (after - middle[:, None]) * relatives
    if is_linear:
        height = np.zeros(problem.T)
        slope = problem.costs.arrays()[0]
    else:
        steepness = 1.0 / np.vecdot(relatives, u)
        height = 1.0 + np.log(steepness)
        slope = -steepness[:, None] * relatives
    least = np.full(problem.T, np.inf)
    for sign in (-1.0, 1.0):
        worth = np.vecdot(relatives, domain.lowest(sign * relatives))
        p = slope + mu - (total / worth)[:, None] * carried
        least = np.minimum(least, np.vecdot(p, domain.lowest(p)))
    value = float((height + least - total * middle).sum()) - float(mu[0] @ problem.before)
    size = float(
        np.abs(slope).sum() + np.abs(mu).sum() + np.abs(carried).sum()
    ) + problem.dim * float(np.abs(after).sum())
    return value - (problem.dim + 100) * EPS * (size * total + float(np.abs(height).sum()))


def _least_on_edge(r: Array, slope: Array, after: Array, total: float) -> Array:
    """Find the least value of every round on an edge, its ends included: at most one point between them is flat.

    With y = <r, x> / total the share of the first end is (y - r_2) / (r_1 - r_2), and the value c + b y - q / y.
    """
    first, second = r.T
    span = first - second
    even = span == 0.0
    width = np.where(even, 1.0, span)
    b = total * (slope[:, 0] - slope[:, 1]) / width
    q = -total * first * second * (after[:, 0] - after[:, 1]) / width
    shares = [np.zeros(len(r)), np.ones(len(r))]
    with np.errstate(all="ignore"):
        share = (np.sqrt(-q / b) - second) / width
    shares.append(np.where(np.isfinite(share) & ~even, np.clip(share, 0.0, 1.0), 0.0))
    least = np.full(len(r), np.inf)
    for share in shares:
        x = np.stack((share, 1.0 - share), axis=1)
        value = total * (np.vecdot(slope, x) - np.vecdot(after * r, x) / np.vecdot(r, x))
        least = np.minimum(least, value)
    return least
