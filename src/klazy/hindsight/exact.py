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
from klazy.sets import Box, Simplex


def exact_optimum(problem: Problem) -> Optimum | None:
    """The optimum if a dynamic programme finds it, else None."""
    if problem.grouped or codes.code_of(problem.costs) != codes.LINEAR:
        return None
    domain = problem.domain
    kind = codes.code_of(problem.domain)
    if isinstance(domain, Box) and kind == codes.BOX:
        return _certified(problem, *_on_box(problem, domain))
    inside = problem.x0 is None or domain.contains(problem.x0)
    if isinstance(domain, Simplex) and kind == codes.SIMPLEX and inside:
        return _certified(problem, *_on_simplex(problem, domain))
    return None


def _on_box(problem: Problem, domain: Box) -> tuple[Array, Array]:
    """The optimum; what it pays for hitting and for moving, and the dual value, by blocks of rounds."""
    from klazy.kernels.offline import BLOCK, dynamic_programmes

    up, down = np.split(problem.prices, 2)
    x0 = domain.lower if problem.x0 is None else problem.x0
    entry = problem.weights[0] * np.where(
        x0 > domain.upper, -down, up
    )  # from outside one moves one way, at the full price
    outside = np.where((x0 < domain.lower) | (x0 > domain.upper), entry, np.nan)
    u = np.empty((problem.T, problem.dim))
    sums = np.zeros((3, -(-problem.T // BLOCK)))
    data = problem.costs.arrays()[0]
    dynamic_programmes(problem.dim)[0](
        data, problem.weights, up, down, domain.lower, domain.upper, outside, x0, u, sums
    )
    return u, sums


def _on_simplex(problem: Problem, domain: Simplex) -> tuple[Array, Array]:
    """The same; without an x0 the first round's weight is zero and all mass goes to its best vertex."""
    from klazy.kernels.offline import BLOCK, dynamic_programmes

    up, down = np.split(problem.prices, 2)
    start = domain.start if problem.x0 is None else problem.x0
    u = np.empty((problem.T, problem.dim))
    sums = np.zeros((3, -(-problem.T // BLOCK)))
    data = problem.costs.arrays()[0]
    targets = np.empty(problem.T, dtype=np.int32)
    dynamic_programmes(problem.dim)[1](data, problem.weights, up, down, domain.total, start, u, targets, sums)
    return u, sums


def _certified(problem: Problem, u: Array, sums: Array) -> Optimum:
    hitting, switching, bound = (float(row.sum()) for row in sums)
    slopes = (
        problem.T * problem.steepness
    )  # a multiplier is no larger than its price, nor than all slopes together
    steepest = np.minimum(problem.weights * np.linalg.norm(problem.prices), 2.0 * slopes).sum()
    bound -= problem.rounding(slopes, float(steepest))
    bound = min(bound, hitting + switching)
    return Optimum(
        u, hitting, switching, bound, problem.gap(hitting + switching, bound), "dynamic programme", 0
    )
