"""The way to a certified optimum that suits the costs, the movement and the set."""

from typing import Any

from klazy.hindsight.cutting import CutProblem, cut_optimum, needs_cuts
from klazy.hindsight.exact import exact_optimum
from klazy.hindsight.iterate import Progress, iterate
from klazy.hindsight.optimum import Optimum
from klazy.hindsight.problem import Problem
from klazy.hindsight.splitting import Point
from klazy.sets import ConvexSet


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
