"""The offline optimum: the best sequence in hindsight when moving costs something, with a certificate."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from klazy.base.checks import positive, refusal, whole
from klazy.costs import Costs
from klazy.hindsight.coarse import coarse_start
from klazy.hindsight.cutting import CutProblem, cut_optimum, needs_cuts
from klazy.hindsight.exact import exact_optimum
from klazy.hindsight.optimum import GapNotReached, Optimum
from klazy.hindsight.problem import Problem
from klazy.hindsight.splitting import Point, Splitting
from klazy.movement import Movement
from klazy.sets import ConvexSet

ITERATIONS = 20_000
Progress = Callable[[int, float], object]
# iterations; then after so many times as many, since a check costs a few iterations
_FIRST_CHECK = 10
_LATER_CHECKS = 1.15


def offline_optimum(
    costs: Costs | ArrayLike,
    domain: ConvexSet,
    movement: Movement | str | None = None,
    *,
    x0: ArrayLike | None = None,
    gap: float = 1e-4,
    iterations: int = ITERATIONS,
    progress: Progress | None = None,
) -> Optimum:
    r"""The sequence in the set that would have paid least, with a lower bound on what any other pays.

    .. math:: \min_{u_1, \ldots, u_T \in X} \; \sum_t f_t(u_t) + \lambda_t\, m(u_t - u_{t-1})

    The first round moves freely unless ``x0`` is given. Linear costs with prices of movement (l1, total variation, asymmetric)
    on a simplex or a box are solved exactly by a dynamic programme in O(T d); everything else by a splitting method that
    stops once its certified relative ``gap`` (see :class:`Optimum`) is reached, and raises :class:`GapNotReached` if
    ``iterations`` end first. ``progress(iteration, gap)`` is called now and then.

    Costs without a known proximal step, :class:`CallableCosts` and classes of one's own, and movements of one's own that have a
    method ``subgradient(delta)``, are solved by cutting planes: up to 400 linear programmes, each larger than the last, so for
    some dozen rounds. All must be convex: the lower bound rests on the subgradients that they give.

    >>> best = offline_optimum([[1.0], [-3.0], [1.0]], Box(-1, 1), L1Movement(0.5))
    >>> best.u.ravel(), best.cost
    (array([-1.,  1., -1.]), -3.0)
    >>> best.gap < 1e-12
    True
    """
    owner = "offline_optimum"
    kind = CutProblem if needs_cuts(costs, movement) else Problem
    problem = kind(costs, domain, movement, x0, owner)
    gap = positive(gap, "gap", owner)
    budget = whole(iterations, "iterations", owner, "iterations >= 1", "give a number")
    if progress is not None and not callable(progress):
        raise refusal(
            owner, "a function progress(iteration, gap)", "progress", repr(progress), "leave it out"
        )
    found = None
    if isinstance(problem, CutProblem):
        found = cut_optimum(problem, gap, budget, progress)
    if found is None:
        found = exact_optimum(problem)
    if found is None:
        found, _ = iterate(problem, gap, budget, progress=progress)
    found = replace(found, movement=problem.movement, x0=problem.x0, columns=problem.costs.columns)
    if found.gap > gap:
        raise GapNotReached(owner, gap, found)
    return found


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
