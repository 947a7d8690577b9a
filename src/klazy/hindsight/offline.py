"""The offline optimum: the best sequence in hindsight when moving costs something, with a certificate."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from numpy.typing import ArrayLike

from klazy.base.checks import InvalidInput, check_flag, integer, positive
from klazy.base.progress import show_progress
from klazy.costs import Costs
from klazy.families import LogWealth
from klazy.game.game import Game
from klazy.hindsight.cutting import cut_optimum
from klazy.hindsight.drifting import drift_with, drifted_optimum
from klazy.hindsight.dynamic import exact_optimum, group_coordinates, whole_optimum
from klazy.hindsight.optimum import GapNotReached, Optimum
from klazy.hindsight.problem import (
    Problem,
    check_limits,
    check_set,
    hold_first,
    needs_cuts,
    take_bounded,
)
from klazy.hindsight.splitting import Point, Progress, iterate
from klazy.movement import Movement
from klazy.sets import ConvexSet
from klazy.sets.limits import LimitedSet

ITERATIONS = 20_000


def offline_optimum(
    costs: Costs | ArrayLike,
    domain: ConvexSet,
    movement: Movement | str | None = None,
    *,
    x0: ArrayLike | None = None,
    gap: float = 1e-4,
    iterations: int = ITERATIONS,
    integers: bool = False,
    ramp: tuple[ArrayLike | None, ArrayLike | None] | None = None,
    lead: int = 0,
    limits: tuple[ArrayLike | None, ArrayLike | None] | None = None,
    progress: Progress | None = None,
) -> Optimum:
    r"""Find the sequence of decisions that would have paid least, with a lower bound on what any other pays.

    .. math:: \min_{u_1, \ldots, u_T \in X} \; \sum_t f_t(u_t) + \lambda_t\, m(u_t - u_{t-1})

    Linear costs with prices of movement (l1, total variation, asymmetric) on a simplex or a box are solved exactly by a dynamic
    programme in O(T d); everything else by a splitting method that stops once its certified gap is reached.

    Costs without a known proximal step, :class:`CallableCosts`, families and classes of one's own, and movements of one's own
    that have a method ``subgradient(delta)``, are solved by cutting planes: up to 400 linear programmes, each larger than the
    last, so for some dozen rounds. All must be convex: the lower bound rests on the subgradients that they give.

    With ``integers`` only whole points are played (sets as for :class:`Guards`). On a box a dynamic programme over its whole
    numbers is exact, for all costs, convex or not, and all movements, a fee included. Linear, quadratic and pinball costs with
    a price of each coordinate are solved coordinate by coordinate; all others on the grid of the whole box, in O(T d) times its
    points with a price of each coordinate, and O(T) times their square with another movement. Where the grid is too large, and
    on other sets, the optimum is rounded: its ``lower_bound`` is that of all points, whole or not, and its ``gap`` what
    rounding may cost, which is never refused.

    With ``ramp=(down, up)`` no coordinate falls by more than ``down`` from a round to the next, or rises by more than ``up``.
    That is for movements with prices of each coordinate (l1, total variation, asymmetric), on any set; with ``integers`` where
    the dynamic programme is exact. Such optima are found by splitting or cutting planes, certified as all others.

    With ``lead`` a decision acts that many rounds late. Who knows the future decides that much earlier, so only the first
    rounds differ, in which nothing acts that is decided from round 1 on. They are played at ``x0``. Without an ``x0`` they and
    the round after them are played at one point, the best for them and for what follows. A move is charged when it acts.

    With ``limits=(lower, upper)`` every coordinate is between the limits of its round, as in :func:`~klazy.run`, on the same
    sets. The optimum and its bound are those among all sequences within the limits.

    On a set without bounds it is known for quadratic costs, without integers, ramp, lead and limits.

    With a :class:`DriftedMovement` the problem is not convex: the answer is the optimum without drift, charged with it, and
    the bound holds for every sequence. It is for linear costs and log-wealth on a simplex.

    Parameters
    ----------
    costs : Costs or array_like
        What rounds cost, or gradients of shape (T, d).
    domain : ConvexSet
        Where decisions live.
    movement : Movement or str, optional
        What moving costs, or its short name. Default: what suits the set, at a price of 1.
    x0 : array_like, optional
        The position before the first round. Default: none, so that the first round moves for free.
    gap : float, optional
        The certified gap to reach, relative as in :class:`Optimum`. Default: 1e-4.
    iterations : int, optional
        The most iterations. Default: 20 000.
    integers : bool, optional
        Play whole points only. Default: False.
    ramp : tuple of float or array_like, optional
        The most that a coordinate may fall and rise in one round, ``(down, up)``, in units: each a number, one per coordinate,
        or None for no limit. The step from ``x0``, if it is given, is limited, too. Default: no limits.
    lead : int, optional
        How many rounds later a decision acts. Default: 0.
    limits : tuple of array_like, optional
        What every coordinate must be between in each round, as in :func:`~klazy.run`. Not together with ``ramp``, ``lead`` or
        a :class:`DriftedMovement`. Default: no limits.
    progress : callable, optional
        Called now and then as ``progress(iteration, gap)``.

    Returns
    -------
    Optimum
        The sequence, what it pays and a lower bound.

    Raises
    ------
    GapNotReached
        If the iterations end first.
    ValueError
        If parts do not fit together, or costs or movement are of a kind that has no such method.

    Examples
    --------
    >>> best = offline_optimum([[1.0], [-3.0], [1.0]], Box(-1, 1), L1Movement(0.5))
    >>> best.u.ravel(), best.cost
    (array([-1.,  1., -1.]), -3.0)
    >>> best.gap < 1e-12
    True
    >>> load = PinballCosts([[2.6], [2.4], [0.3]], short=2.0)
    >>> offline_optimum(load, Box(0, 5), "l1", integers=True).u.ravel()
    array([2., 2., 1.])
    >>> offline_optimum(load, Box(0, 5), L1Movement(0.5), integers=True, x0=[5.0], ramp=(1.0, None)).u.ravel()
    array([4., 3., 2.])

    The first share must be empty in round 2:

    >>> outage = (None, [[1.0, 1.0], [0.0, 1.0], [1.0, 1.0]])
    >>> best = offline_optimum([[0.0, 1.0]] * 3, Simplex(2), TVMovement(0.2), limits=outage)
    >>> best.u.round(6).tolist(), round(best.cost, 6), best.lower_bound <= best.cost
    ([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]], 1.4, True)
    """
    check_set(domain, "offline_optimum")
    game = Game.check(domain, costs, movement, x0)
    gap = positive(gap, "gap")
    budget = integer(iterations, "iterations")
    integers = check_flag(integers, "integers")
    is_limited = integers or ramp is not None or lead != 0 or limits is not None
    domain = take_bounded(domain, game, is_limited)
    if progress is not None and not callable(progress):
        raise InvalidInput(
            f"progress must be a function progress(iteration, gap), got {progress!r}."
        )
    game.costs.check_finite()
    is_drifting = game.movement.is_drifting
    if integers and is_drifting:
        raise InvalidInput(
            "Integers and a DriftedMovement do not go together. Use TVMovement(...)."
        )
    within = (
        None if limits is None else LimitedSet.check(limits, domain, game.costs.T).check_rounds()
    )
    if within is not None and integers:
        within = within.to_integers()
    reach = check_limits(ramp, domain.dim)
    lead = integer(lead, "lead", "Use 0 where decisions act at once.", least=0)
    if lead >= game.costs.T:
        raise InvalidInput(f"lead must be less than the {game.costs.T} rounds, got {lead}.")
    if within is not None and (is_drifting or reach is not None or lead > 0):
        raise InvalidInput(
            "Limits do not go together with a ramp, a lead or a DriftedMovement. Leave them out."
        )
    for name, has_limit in (("ramp", reach is not None), ("lead", lead > 0)):
        if not has_limit:
            continue
        obstacle = find_obstacle(game.costs, domain, game.movement, name, integers)
        if obstacle:
            raise InvalidInput(f"{obstacle} Leave {name} out.")
        if game.x0 is not None and not domain.contains(game.x0):
            raise InvalidInput(f"x0 must be in the set with a {name}, got {game.x0.tolist()}.")
    found = None
    with show_progress("finding the optimum") as shown:

        def report(iteration: int, reached: float) -> None:
            shown(*_describe_gap(reached, gap))
            if progress is not None:
                progress(iteration, reached)

        if integers:
            domain.check_whole()
            held = hold_first(game.costs.T, lead, game.x0)
            found = whole_optimum(game, domain, None, reach, held, within)
        if found is None and is_drifting:
            found = drifted_optimum(game, domain, gap, budget, report)
        elif found is None:
            found, _ = solve(
                Problem(game, domain, reach, lead, within), gap, budget, progress=report
            )
            if integers:
                found = whole_optimum(game, domain, found, within=within)
    assert found is not None
    found = replace(found, movement=game.movement, x0=game.x0, columns=game.costs.columns)
    if found.gap > gap and not integers:
        raise GapNotReached(gap, found)
    return found


def _describe_gap(reached: float, gap: float) -> tuple[float, str]:
    """Return how far a gap is from 1 to the one asked for, in orders of magnitude, and the gap in words."""
    share = 0.0
    if gap < 1.0 and reached < 1.0:
        share = min(math.log(max(reached, gap)) / math.log(gap), 1.0)
    return share, f"gap {reached:.1g}"


def find_obstacle(
    costs: Costs, domain: ConvexSet, movement: Movement, limit: str, integers: bool = False
) -> str:
    """Explain why the optimum with a ``"ramp"`` or a ``"lead"`` is not known for these parts; "" if it is."""
    has_prices = movement.grouped is False and movement.degree == 1.0
    if integers and group_coordinates(costs, domain, movement) is None:
        return f"A {limit} of integers needs a Box with few enough of them, got {domain!r} and {costs!r}."
    if movement.is_drifting or (
        not has_prices and (limit == "ramp" or needs_cuts(costs, movement))
    ):
        known = "L1Movement, TVMovement or AsymmetricMovement"
        return f"A {limit} needs a movement with prices of each coordinate ({known}), got {movement!r}."
    return ""


def solve(
    problem: Problem,
    gap: float,
    iterations: int,
    *,
    start: Point | None = None,
    progress: Progress | None = None,
) -> tuple[Optimum, Point | None]:
    """Find the optimum, to the gap or as far as the iterations go, and where a splitting method stood at the end."""
    found = exact_optimum(problem)
    if found is not None:
        return found, None
    if problem.needs_cuts:
        return cut_optimum(problem, gap, iterations, progress), None
    return iterate(problem, gap, iterations, start=start, progress=progress)


def find_best(
    costs: Costs,
    domain: ConvexSet,
    movement: Movement,
    *,
    gap: float,
    iterations: int = 5000,
    integers: bool = False,
    ramp: tuple[Any, Any] | None = None,
    lead: int = 0,
    limits: Any = None,
) -> Optimum:
    """Find the best sequence within ``iterations``, charged as a live agent is: from where rows have carried its point.

    Its ``gap`` may be larger than the one asked for. Where no bound is known for points that are carried away, the lower bound
    is what the decisions alone must cost. Shares of wealth need not be whole, as rows carry them away.
    """
    relatives = None
    charged: Movement | None = movement
    if isinstance(costs.family, LogWealth):
        relatives = costs.arrays()[0]
        charged = None if limits is not None else drift_with(movement, domain, relatives)
        integers = False
    options: dict[str, Any] = {"gap": gap, "iterations": iterations, "integers": integers}
    options |= {"ramp": ramp, "lead": lead, "limits": limits}
    try:
        found = offline_optimum(costs, domain, charged or movement, **options)
    except GapNotReached as short:
        found = short.best
    if relatives is None or charged is not None:
        return found
    stand = LogWealth().drift(relatives[:-1], found.u[:-1])
    switching = float((movement.weight * movement.distance(found.u[1:] - stand)).sum())
    bound = float(costs.values(domain.lowest(-relatives)).sum())
    cost = found.hitting + switching
    return replace(
        found, switching=switching, lower_bound=bound, gap=(cost - bound) / (abs(cost) or 1.0)
    )
