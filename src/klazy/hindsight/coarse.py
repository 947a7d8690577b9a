"""A start for long runs of linear costs: the optimum of the same problem when only every fourth round may move.

Where moving is dear the optimum holds still for long, and a coarse problem, which is small, already knows most of it. Its
multipliers are spread over the rounds of a block such that every round of it leans on the set with the same force.
"""

from collections.abc import Callable
from copy import copy

import numpy as np

from klazy.base.checks import Array
from klazy.costs import LinearCosts
from klazy.hindsight.optimum import Optimum
from klazy.hindsight.problem import Problem
from klazy.hindsight.splitting import Point

BLOCK = 4  # rounds
_SHORTEST = 200  # rounds that are worth a coarser problem
_DEAR = 3.0  # moving costs so many times what a round may gain by it
_BUDGET = 500  # iterations on a coarse problem, which need not be solved to the end


def coarse_start(
    problem: Problem, gap: float, solve: Callable[[Problem, float, int], tuple[Optimum, Point]]
) -> Point | None:
    """Where to start on this problem; None where a coarse one would not help."""
    price = float(problem.weights.mean()) * problem.movement.lipschitz(problem.dim)
    dear = price >= _DEAR * problem.steepness
    is_plain = problem.degree == 1.0 and problem.axes is None
    if not problem.is_linear or problem.T < _SHORTEST or not dear or not is_plain:
        return None
    starts = np.arange(0, problem.T, BLOCK)
    coarse = copy(problem)
    g = problem.costs.arrays()[0]
    coarse.costs = LinearCosts(np.add.reduceat(g, starts, axis=0))
    coarse.T = len(starts)
    coarse.weights = problem.weights[starts]
    for cached in ("steepness", "unit"):
        coarse.__dict__.pop(cached, None)
    _, at = solve(coarse, gap / 3.0, _BUDGET)
    return _spread(problem, g, coarse, at, starts)


def _spread(problem: Problem, g: Array, coarse: Problem, at: Point, starts: np.ndarray) -> Point:
    """The coarse sequence repeated, with multipliers that go evenly from one block's to the next."""
    lengths = np.diff(starts, append=problem.T)
    m = problem.c * at.mu
    force = coarse.costs.arrays()[0] + m
    force[:-1] -= m[1:]
    steps = g - np.repeat(force / lengths[:, None], lengths, axis=0)
    walked = np.cumsum(steps, axis=0) - steps
    m = np.repeat(m - walked[starts], lengths, axis=0) + walked
    xi = -m
    xi[:-1] += m[1:]
    mu = np.divide(m, problem.c, out=np.zeros_like(m), where=problem.c > 0.0)
    return Point(np.repeat(at.w, lengths, axis=0), xi, np.zeros((0, problem.dim)), mu)
