"""The way to a certified optimum that suits the costs, the movement and the set; mostly the splitting method, iterated."""

from collections.abc import Callable
from typing import Any

import numpy as np

from klazy.hindsight.coarse import coarse_start
from klazy.hindsight.cutting import CutProblem, cut_optimum, needs_cuts
from klazy.hindsight.exact import exact_optimum
from klazy.hindsight.optimum import Optimum
from klazy.hindsight.problem import Problem
from klazy.hindsight.splitting import Point, Splitting
from klazy.sets import ConvexSet

Progress = Callable[[int, float], object]
# iterations; then after so many times as many, since a check costs a few iterations
_FIRST_CHECK = 10
_LATER_CHECKS = 1.15


def pose(costs: Any, domain: ConvexSet, movement: Any, x0: Any, owner: str) -> Problem:
    """Check a problem, and choose whether cutting planes solve it."""
    kind = CutProblem if needs_cuts(costs, movement) else Problem
    return kind(costs, domain, movement, x0, owner)


def solve(
    problem: Problem,
    gap: float,
    iterations: int,
    *,
    start: Point | None = None,
    progress: Progress | None = None,
) -> tuple[Optimum, Point | None]:
    """Find the optimum, to the gap or as far as the iterations go, and where a splitting method stood at the end."""
    if isinstance(problem, CutProblem):
        return cut_optimum(problem, gap, iterations, progress), None
    found = exact_optimum(problem)
    if found is not None:
        return found, None
    return iterate(problem, gap, iterations, start=start, progress=progress)


def iterate(
    problem: Problem,
    gap: float,
    iterations: int,
    *,
    start: Point | None = None,
    progress: Progress | None = None,
) -> tuple[Optimum, Point]:
    """The splitting method until the gap is reached or the iterations end, from where it stood on a similar problem."""
    if start is None:
        start = coarse_start(problem, gap, iterate)
    method = Splitting(problem, start)
    best = method.x
    paid = (np.inf, 0.0)
    bound = -np.inf
    done = 0
    while True:
        pause = min(max(_FIRST_CHECK, int(done * (_LATER_CHECKS - 1.0))), iterations - done)
        method.advance(pause)
        done += pause
        at = method.point()
        bound = max(bound, method.lower_bound(at))
        for u in method.candidates():
            offer = problem.paid(u)
            if sum(offer) < sum(paid):
                best = u.copy()
                paid = offer
        reached = problem.gap(sum(paid), bound)
        if progress is not None:
            progress(done, reached)
        if reached <= gap or done >= iterations:
            return Optimum(best, *paid, min(bound, sum(paid)), reached, "splitting", done), at
        method.rebalance(at)
