"""Exact optima by dynamic programming: linear costs, and movement that is priced coordinate by coordinate.

On a simplex it suffices to sit on vertices (the problem is a flow from round to round, in which mass that changes place pays
for leaving one vertex and for entering another); on a box each coordinate sits at one of its ends or where it began. Both
programmes run backwards once, in O(T d), and what they know of the cost to go is an optimal dual point. So the lower
bound comes from multipliers, as everywhere else, and the gap is an allowance for rounding.
"""

import numpy as np

from klazy.base.checks import Array
from klazy.hindsight.optimum import Optimum
from klazy.hindsight.problem import Problem
from klazy.kernels import codes


def exact_optimum(problem: Problem) -> Optimum | None:
    """The optimum if a dynamic programme finds it, else None."""
    if problem.grouped or problem.degree != 1.0 or codes.code_of(problem.costs) != codes.LINEAR:
        return None
    kind = codes.code_of(problem.domain)
    if kind == codes.BOX:
        return _certify(problem, *_solve_on_box(problem))
    inside = problem.x0 is None or problem.domain.contains(problem.x0)
    if kind == codes.SIMPLEX and inside:
        return _certify(problem, *_solve_on_simplex(problem))
    return None


def _solve_on_box(problem: Problem) -> tuple[Array, Array]:
    """The optimum; what it pays for hitting and for moving, and the dual value, by blocks of rounds."""
    from klazy.kernels.offline import BLOCK, dynamic_programmes

    lower, upper = np.split(problem.domain.parameters(), 2)
    up, down = np.split(problem.prices, 2)
    x0 = lower if problem.x0 is None else problem.x0
    entry = problem.weights[0] * np.where(
        x0 > upper, -down, up
    )  # from outside one moves one way, at the full price
    outside = np.where((x0 < lower) | (x0 > upper), entry, np.nan)
    u = np.empty((problem.T, problem.dim))
    sums = np.zeros((3, -(-problem.T // BLOCK)))
    data = problem.costs.arrays()[0]
    on_box, _ = dynamic_programmes(problem.dim)
    on_box(data, problem.weights, up, down, lower, upper, outside, x0, u, sums)
    return u, sums


def _solve_on_simplex(problem: Problem) -> tuple[Array, Array]:
    """The same; without an x0 the first round's weight is zero and all mass goes to its best vertex."""
    from klazy.kernels.offline import BLOCK, dynamic_programmes

    up, down = np.split(problem.prices, 2)
    (total,) = problem.domain.parameters().tolist()
    start = problem.domain.start if problem.x0 is None else problem.x0
    u = np.empty((problem.T, problem.dim))
    sums = np.zeros((3, -(-problem.T // BLOCK)))
    data = problem.costs.arrays()[0]
    targets = np.empty(problem.T, dtype=np.int32)
    _, on_simplex = dynamic_programmes(problem.dim)
    on_simplex(data, problem.weights, up, down, total, start, u, targets, sums)
    return u, sums


def _certify(problem: Problem, u: Array, sums: Array) -> Optimum:
    hitting, switching, bound = (float(row.sum()) for row in sums)
    cost = hitting + switching
    slopes = problem.T * problem.steepness
    # a multiplier is no larger than its price, nor than all slopes together
    steepest = np.minimum(problem.weights * np.linalg.norm(problem.prices), 2.0 * slopes).sum()
    bound -= problem.rounding(slopes, float(steepest))
    bound = min(bound, cost)
    return Optimum(u, hitting, switching, bound, problem.gap(cost, bound), "dynamic programme", 0)
