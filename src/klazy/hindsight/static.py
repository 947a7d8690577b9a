"""The best point in hindsight: one decision for all rounds, with a certificate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from klazy.base.checks import Array, integer, positive
from klazy.costs import Costs
from klazy.families import Minorant
from klazy.game.game import Game
from klazy.hindsight.cutting import add_up, cut_optimum
from klazy.hindsight.optimum import EPS, GapNotReached
from klazy.hindsight.problem import Problem, check_set, lowest_of, needs_cuts, norms, take_bounded
from klazy.hindsight.splitting import RELAXATION
from klazy.sets import ConvexSet

FAR_OUTSIDE = 10.0  # in diameters of the set
_CHECK = 10  # iterations
# The penalty changes once one residual is this many times the other. The limit grows with every change.
_IMBALANCE = 5.0
_TURN = 2.0


@dataclass(frozen=True, eq=False)
class BestFixed:
    """The best single decision for all rounds, with its certificate. :func:`~klazy.best_fixed` makes it.

    Parameters
    ----------
    x : array
        The point, of shape (d,).
    cost : float
        What it pays over all rounds.
    lower_bound : float
        No point of the set pays less.
    gap : float
        How far apart the two are, relative as in :class:`~klazy.types.Optimum`.
    iterations : int, optional
        How many it took; 0 for a closed form.

    Examples
    --------
    >>> best_fixed(QuadraticCosts([[0.0], [1.0], [5.0]]), Box(0, 10)).x.tolist()
    [2.0]
    """

    x: Array
    cost: float
    lower_bound: float
    gap: float
    iterations: int = 0

    @property
    def u(self) -> Array:
        """The point, as an :class:`~klazy.types.Optimum` names its decisions."""
        return self.x

    def __repr__(self) -> str:
        at = np.array2string(self.x, precision=4, threshold=6)
        return f"BestFixed(x={at}, cost={self.cost:.10g}, lower_bound={self.lower_bound:.10g}, gap={self.gap:.1e})"


def best_fixed(
    costs: Costs | ArrayLike, domain: ConvexSet, *, gap: float = 1e-4, iterations: int = 20_000
) -> BestFixed:
    r"""Find the single decision with the least total cost, :math:`\min_{x \in X} \sum_t f_t(x)`.

    Linear and quadratic costs have a closed form; others are split into one copy of the point per round. Costs that are known
    by values and subgradients alone, such as :class:`CallableCosts`, are solved by cutting planes.

    Parameters
    ----------
    costs : Costs or array_like
        What rounds cost, or gradients of shape (T, d).
    domain : ConvexSet
        Where decisions live.
    gap : float, optional
        The certified gap to reach, relative as in :class:`Optimum`. Default: 1e-4.
    iterations : int, optional
        The most iterations. Default: 20 000.

    Returns
    -------
    BestFixed
        The point, its cost and a lower bound.

    Raises
    ------
    GapNotReached
        If the iterations end first.

    Examples
    --------
    >>> best = best_fixed([[1.0, 0.0], [1.0, -3.0]], Simplex(2))
    >>> best.x, best.cost
    (array([0., 1.]), -3.0)
    """
    check_set(domain, "best_fixed")
    if isinstance(costs, Costs) and needs_cuts(costs, None):
        costs = add_up(costs)
    game = Game.check(domain, costs)
    domain = take_bounded(domain, game)
    problem = Problem(game, domain)
    gap = positive(gap, "gap")
    budget = integer(iterations, "iterations")
    if problem.needs_cuts:
        found = cut_optimum(problem, gap, budget, None)
        fixed = BestFixed(found.u[0], found.cost, found.lower_bound, found.gap, found.iterations)
        if found.gap > gap:
            raise GapNotReached(gap, fixed)
        return fixed
    family = problem.costs.family
    if family is not None and family.is_exact:
        return _find_directly(problem)
    return _split(problem, gap, budget)


def _find_directly(problem: Problem) -> BestFixed:
    """Find the lowest point of the average round. Where sums have no cheap minimum, a projection from afar certifies it."""
    costs = problem.costs
    domain = problem.domain
    x = costs.family.lowest(domain, costs.family.moments(costs.data).mean(axis=0))
    away = x
    if not domain.cheap_lowest:
        g = costs.family.gradient(costs.data, x).sum(axis=0)
        size = max(float(np.linalg.norm(g)), problem.steepness)
        away = x - FAR_OUTSIDE * domain.scale * g / (size or 1.0)
        x = domain.project(away)
    still = np.tile(x, (problem.T, 1))
    return _certify(problem, x, away - x, problem.minorant(still, np.zeros_like(still)), 0)


def _split(problem: Problem, gap: float, iterations: int) -> BestFixed:
    """Split by a copy v_t of the point for every round and one for the set, of the same weight as all of them together."""
    domain = problem.domain
    T = problem.T
    r = 2.0 * (problem.steepness or 1.0) / domain.scale
    w = domain.start
    s_x = domain.start.copy()
    s_v = np.tile(domain.start, (T, 1))
    best = BestFixed(domain.start, np.inf, -np.inf, np.inf)
    turns = 0
    for done in range(1, iterations + 1):
        before = w
        w = 0.5 * (s_x + s_v.mean(axis=0))
        x = domain.project(2.0 * w - s_x)
        v = problem.prox(2.0 * w - s_v, r)
        if done % _CHECK == 0 or done == iterations:
            normal = 2.0 * w - s_x - x
            multiplier = r * (2.0 * w - s_v - v)
            found = _certify(problem, x, normal, problem.minorant(v, multiplier), done)
            best = _combine(problem, best, found)
            if best.gap <= gap:
                return best
            disagreement = float(np.sqrt(((v - w) ** 2).sum(axis=1).mean()))
            motion = float(np.linalg.norm(w - before))
            turn = _choose_turn(disagreement, motion, _IMBALANCE + turns)
            if turn != 1.0:
                turns += 1
                r = r * turn
                s_x = w + (s_x - w) / turn
                s_v = w + (s_v - w) / turn
        s_x = s_x + RELAXATION * (x - w)
        s_v = s_v + RELAXATION * (v - w)
    raise GapNotReached(gap, best)


def _certify(
    problem: Problem, x: Array, normal: Array, minorant: Minorant, iterations: int
) -> BestFixed:
    e, h = minorant
    cost, _ = problem.paid(np.tile(x, (problem.T, 1)))
    lowest = lowest_of(problem.domain, h.sum(axis=0)[None], x[None], normal[None])
    bound = (
        float(e.sum() + lowest.sum())
        - problem.rounding(norms(h), 0.0)
        - 16 * EPS * float(np.abs(e).sum())
    )
    bound = min(bound, cost)
    return BestFixed(x, cost, bound, problem.gap(cost, bound), iterations)


def _combine(problem: Problem, old: BestFixed, new: BestFixed) -> BestFixed:
    """Combine the cheaper point with the larger bound."""
    cheap = new if new.cost < old.cost else old
    bound = min(max(old.lower_bound, new.lower_bound), cheap.cost)
    return BestFixed(cheap.x, cheap.cost, bound, problem.gap(cheap.cost, bound), new.iterations)


def _choose_turn(disagreement: float, motion: float, imbalance: float) -> float:
    """Choose the factor of the penalty: more where the copies disagree, less where they hold each other back."""
    if disagreement > imbalance * motion:
        return _TURN
    return 1.0 / _TURN if motion > imbalance * disagreement else 1.0
