"""Baselines that see f_t, and perhaps more, before they play round t. No learner may, so they are a type of their own.

They show how good a decision could be with that knowledge. Tables that list them next to learners say so.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from klazy.base.checks import Array, InvalidInput, instance, integer, non_negative, positive, rows
from klazy.base.config import Config
from klazy.base.options import explain_arguments
from klazy.costs import CallableCosts, Costs, as_costs
from klazy.game.game import Game, check_player, find_rows
from klazy.game.trace import Totals, Trace
from klazy.hindsight import best_fixed, offline_optimum
from klazy.hindsight.dynamic import Costly, WholeGrid, check_prices, relax, tabulate
from klazy.hindsight.optimum import GapNotReached
from klazy.hindsight.problem import has_steps
from klazy.learners.base import Learner, check_domain
from klazy.learners.sader import harmonic_prior
from klazy.movement import Movement
from klazy.sets import Box, ConvexSet
from klazy.sets.base import check_bounded

SPLITS = 50_000  # alternations of a step and a projection at most
SPLIT_TOLERANCE = 1e-10  # relative to the set's size, how near the two must come
CUT = 1e-6  # the gap of a step by cutting planes
# Stiffnesses to search, relative to the gradient over the set's size.
SOFTEST = 1e-6
STIFFEST = 1e6
SOFTEST_ITERATED = 1e-3  # the softest if a step is iterated, as soft steps take long then
HALVINGS = 40
# Relative gaps of a plan if the user gave none: the goal, and the widest that is accepted.
GAP = 1e-4
LOOSE = 1e-2
ROUNDING = 1e-9  # relative, what sums of a box's costs may lose
PLAN_ITERATIONS = 2000  # more would improve the proof and not the plan if the costs are flat
PATIENT = 20_000  # iterations if the user gave a gap
Forecast = Costs | ArrayLike | Callable[[int, int], Costs | ArrayLike]


class LookAhead(Config, ABC):
    """Base class of baselines that see the costs of ``window`` + 1 rounds before they play the first of them.

    Parameters
    ----------
    domain : ConvexSet
        Where decisions live.

    Raises
    ------
    ValueError
        If it is no set.
    """

    domain: ConvexSet
    window: int = 0

    def __init__(self, domain: ConvexSet) -> None:
        check_bounded(check_domain(domain))
        self._keep(domain=domain)

    @abstractmethod
    def points(self, game: Game) -> Array:
        """Choose the decisions of a whole game.

        Parameters
        ----------
        game : Game
            A checked game.

        Returns
        -------
        array
            What it plays, of shape (T, d).
        """

    def by_round(self, game: Game, play: Callable[[Costs, Array], Array]) -> Array:
        """Choose decisions one by one, from x0 or the set's start.

        Parameters
        ----------
        game : Game
            The game.
        play : callable
            ``play(f, before)``, the decision for a single round f, from the point before.

        Returns
        -------
        array
            What it plays, of shape (T, d).
        """
        at = self.domain.start if game.x0 is None else game.x0
        played = []
        for t in range(1, game.costs.T + 1):
            at = play(game.costs.window(t, t), at)
            played.append(at)
        return np.array(played)

    def step(self, f: Costs, center: Array, r: float) -> Array:
        r"""Take a proximal step, :math:`\arg\min_{x \in X} f(x) + \tfrac{r}{2} \|x - \mathrm{center}\|^2`.

        Parameters
        ----------
        f : Costs
            A single round.
        center : array
            What pulls.
        r : float
            How strongly.

        Returns
        -------
        array
            The minimiser.

        Raises
        ------
        ArithmeticError
            If iterations do not find it.
        """
        if not has_steps(f):
            return self._cut(f, center, r)
        known: Any = f
        family = known.family
        row = known.data
        # Each coordinate stops at its bound.
        by_coordinate = family.coordinate(0) is not None and self.domain.separable
        if family.has_affine or by_coordinate:
            return self.domain.project(family.prox(row, center[None], r)[0])
        return self._split(family, row, center, r)

    def _cut(self, f: Costs, center: Array, r: float) -> Array:
        """Take the step by cutting planes, where the cost is known by subgradients alone."""

        def value(t: int, x: Array) -> float:
            return f.value(1, x) + 0.5 * r * float((x - center) @ (x - center))

        def subgradient(t: int, x: Array) -> Array:
            return f.subgradient(1, x) + r * (x - center)

        try:
            return best_fixed(CallableCosts(1, f.dim, value, subgradient), self.domain, gap=CUT).x
        except GapNotReached as short:
            return short.best.x

    def _split(self, family: Any, row: Array, center: Array, r: float) -> Array:
        """Take the step by splitting the set and the center from the cost; rho couples the two."""
        steep = float(family.steepness(row, center)[0]) / self.domain.scale
        rho = max(r, steep) if np.isfinite(steep) else r
        z = center
        near = SPLIT_TOLERANCE * self.domain.scale
        for _ in range(SPLITS):
            x = self.domain.project((r * center + rho * z) / (r + rho))
            v = family.prox(row, (2.0 * x - z)[None], rho)[0]
            z = z + v - x
            if np.abs(v - x).max() <= near:
                return x
        raise ArithmeticError(
            f"{type(self).__name__} needs a proximal step, got none in {SPLITS} iterations; scale the costs."
        )


@explain_arguments
def run_ahead(
    player: LookAhead,
    costs: Costs | ArrayLike,
    *,
    movement: Movement | str | None = None,
    x0: ArrayLike | None = None,
) -> Trace[Any]:
    """Play a baseline that looks ahead.

    Parameters
    ----------
    player : LookAhead
        Who plays.
    costs : Costs or array_like
        What rounds cost, or gradients of shape (T, d).
    movement : Movement or str, optional
        What moving costs, or its short name. Default: what suits the set, at a price of 1.
    x0 : array_like, optional
        The position before the first round. Default: none, so that the first round moves for free.

    Returns
    -------
    Trace
        As :func:`~klazy.run`'s; its ``engine`` is ``"look-ahead"``.

    Raises
    ------
    ValueError
        If it is a learner, which :func:`~klazy.run` plays, or parts do not fit together.

    Examples
    --------
    >>> trace = run_ahead(RecedingHorizon(Box(-1, 1), window=1), [[1.0], [-1.0], [-1.0], [1.0]], movement=L1Movement(0.8))
    >>> trace.engine, trace.x[:, 0].tolist()
    ('look-ahead', [-1.0, 1.0, 1.0, -1.0])
    """
    instance(player, "player", LookAhead, "a LookAhead", "Use run for learners.")
    game = Game.check(player.domain, costs, movement, x0)
    game.costs.check_finite()
    x = player.points(game)
    hitting = game.costs.values(x)
    switching = game.movement.paid(x, game.x0)
    return game.make_trace(
        engine="look-ahead",
        record="actions",
        totals=Totals(float(hitting.sum()), float(switching.sum())),
        kept={"x": x, "hitting": hitting, "switching": switching},
        state=None,
        text=repr(player),
    )


class PlayNext(LookAhead):
    """Play what a learner would play one round later: it sees f_t, learns from it, and then decides for round t.

    Rules that are published with a competitive ratio know a round's cost before they decide. Around such a rule, this is the
    rule as published.

    Parameters
    ----------
    learner : Learner
        Who decides.

    Examples
    --------
    >>> costs = [[1.0], [-1.0]]
    >>> run_ahead(PlayNext(GD(Box(-1, 1), sigma=2.0)), costs).x.ravel().tolist(), run(GD(Box(-1, 1), 2.0), costs).x[1].item()
    ([-0.5, 0.0], -0.5)
    """

    learner: Learner[Any]

    def __init__(self, learner: Learner[Any]) -> None:
        super().__init__(check_player(learner, "learner").domain)
        self._keep(learner=learner)

    def points(self, game: Game) -> Array:
        costs = game.costs
        rows = None if self.learner.family is None else find_rows(self.learner, costs)
        state = self.learner.init(game.x0)
        played = []
        for t in range(1, costs.T + 1):
            feedback = costs.subgradient(t, state.x) if rows is None else rows[t - 1]
            state = self.learner.step(state, feedback)
            played.append(state.x)
        return np.array(played)


class OBD(LookAhead):
    """Balance hitting and moving in every round: online balanced descent.

    It plays the point of a level set of f_t that is nearest to x_{t-1}, of the level where moving costs ``balance`` times as
    much as the level is high; or the nearest minimiser of f_t itself, to a millionth, if that costs less (for costs that are
    neither linear nor quadratic, a minimiser). Levels are counted from zero, or from the least value of f_t over the set where
    that is negative. It is the primal form of Chen, Goel and Wierman, *Smoothed Online Convex Optimization in High Dimensions
    via Online Balanced Descent* (2018), in Euclidean distance. In one dimension, with a balance of 1/2 and costs that are
    never negative, it is the memoryless rule of Bansal, Gupta, Krishnaswamy, Pruhs, Schewior and Stein (2015), which pays at
    most three times the optimum.

    Parameters
    ----------
    domain : ConvexSet
        Where decisions live.
    balance : float, optional
        What moving may cost for each unit of hitting cost, > 0. Default: 1.

    Raises
    ------
    ValueError
        If the balance is not above zero.

    Examples
    --------
    >>> costs = QuadraticCosts([[1.0], [1.0]])
    >>> run_ahead(OBD(Box(0, 1)), costs, x0=[0.0]).x.round(3).ravel().tolist()
    [0.268, 0.43]
    """

    balance: float

    def __init__(self, domain: ConvexSet, balance: float = 1.0) -> None:
        super().__init__(domain)
        self._keep(balance=positive(balance, "balance"))

    def points(self, game: Game) -> Array:
        weights = iter(np.broadcast_to(game.weights, game.costs.T))

        def play(f: Costs, before: Array) -> Array:
            weight = float(next(weights))
            least = best_fixed(f, self.domain).x
            floor = min(0.0, f.value(1, least))

            def far(x: Array) -> bool:
                return weight * float(game.movement.distance(x - before)) > self.balance * (
                    f.value(1, x) - floor
                )

            return self._balance(f, before, least, far)

        return self.by_round(game, play)

    def _balance(
        self, f: Costs, before: Array, least: Array, far: Callable[[Array], bool]
    ) -> Array:
        """Find the softest proximal step that is not too far; proximal steps are the nearest points of level sets."""
        steep = [float(np.linalg.norm(f.subgradient(1, x))) for x in (before, least)]
        unit = max((size for size in steep if np.isfinite(size)), default=0.0) / self.domain.scale
        # A flat cost is no reason to move.
        if unit == 0.0:
            return self.domain.project(before)
        softest = SOFTEST_ITERATED
        nearest = least
        if f.family is not None and f.family.has_affine:
            softest = SOFTEST
            # This is nearly the nearest minimiser.
            nearest = self.step(f, before, SOFTEST * unit)
        low = softest * unit
        high = STIFFEST * unit
        if not far(nearest):
            return nearest
        for _ in range(HALVINGS):
            middle = float(np.sqrt(low * high))
            if far(self.step(f, before, middle)):
                low = middle
            else:
                high = middle
        return self.step(f, before, high)


class GOBD(OBD):
    r"""Greedy OBD: a step of :class:`OBD`, and then the share ``greed`` of the way to the minimiser of f_t.

    .. math:: x_t = (1 - \mu)\, x_t^{OBD} + \mu\, v_t

    It was made for costs that are strongly convex with squared movement (Goel, Lin, Sun and Wierman, *Beyond Online Balanced
    Descent*, 2019), where a share of the order of the root of their curvature is best.

    Parameters
    ----------
    domain : ConvexSet
        Where decisions live.
    balance : float, optional
        As for :class:`OBD`. Default: 1.
    greed : float, optional
        :math:`\mu`, between 0, which is :class:`OBD`, and 1, which plays every minimiser. Default: 0.5.

    Raises
    ------
    ValueError
        If greed is not between 0 and 1.

    Examples
    --------
    >>> costs = QuadraticCosts([[1.0], [1.0]])
    >>> run_ahead(GOBD(Box(-1, 1), greed=0.5), costs, x0=[0.0]).x[:, 0].round(3).tolist()
    [0.634, 0.842]
    """

    greed: float

    def __init__(self, domain: ConvexSet, balance: float = 1.0, greed: float = 0.5) -> None:
        super().__init__(domain, balance)
        greed = non_negative(greed, "greed")
        if greed > 1.0:
            raise InvalidInput(
                f"greed must be at most 1, got {greed}. Use 1 to play every minimiser."
            )
        self._keep(greed=greed)

    def _balance(
        self, f: Costs, before: Array, least: Array, far: Callable[[Array], bool]
    ) -> Array:
        return (1.0 - self.greed) * super()._balance(f, before, least, far) + self.greed * least


class ROBD(LookAhead):
    r"""Pull towards the last point and towards the round's minimiser: regularised OBD.

    .. math:: x_t = \arg\min_x f_t(x) + \tfrac{a}{2} \|x - x_{t-1}\|^2 + \tfrac{b}{2} \|x - v_t\|^2

    with v_t the minimiser of f_t: R-OBD of Goel, Lin, Sun and Wierman, *Beyond Online Balanced Descent* (2019).

    Parameters
    ----------
    domain : ConvexSet
        Where decisions live.
    stay : float, optional
        The pull a > 0 towards the last point. Default: 1.
    follow : float, optional
        The pull b >= 0 towards the minimiser. Default: 0.

    Raises
    ------
    ValueError
        If ``stay`` is not above zero, or ``follow`` is negative.

    Examples
    --------
    >>> costs = QuadraticCosts([[1.0], [1.0]])
    >>> run_ahead(ROBD(Box(0, 1)), costs, x0=[0.0]).x.ravel().tolist()
    [0.5, 0.75]
    """

    stay: float
    follow: float

    def __init__(self, domain: ConvexSet, stay: float = 1.0, follow: float = 0.0) -> None:
        super().__init__(domain)
        self._keep(stay=positive(stay, "stay"), follow=non_negative(follow, "follow"))

    def points(self, game: Game) -> Array:
        total = self.stay + self.follow

        def play(f: Costs, before: Array) -> Array:
            pull = self.follow * best_fixed(f, self.domain).x if self.follow else 0.0
            return self.step(f, (self.stay * before + pull) / total, total)

        return self.by_round(game, play)


class _OnBox(LookAhead):
    """Play whole numbers of a box."""

    def __init__(self, domain: ConvexSet) -> None:
        super().__init__(domain)
        if type(domain) is not Box:
            raise InvalidInput(f"domain must be a Box such as Box(0, 100), got {domain!r}.")
        domain.check_whole()


class _ByCoordinate(_OnBox):
    """Play every coordinate of a box for itself, from tables of what whole numbers cost."""

    def points(self, game: Game) -> Array:
        """Choose the decisions of a whole game, coordinate by coordinate.

        Parameters
        ----------
        game : Game
            A checked game.

        Returns
        -------
        array
            What it plays, of shape (T, d).
        """
        # The constructor has checked that it is a box.
        domain: Any = self.domain
        start = domain.lowest(np.ones(game.costs.dim)) if game.x0 is None else game.x0
        tables = tabulate(game, domain)
        columns = [self._play(table, float(start[i])) for i, table in enumerate(tables)]
        return np.stack(columns, axis=1)

    @abstractmethod
    def _play(self, table: Costly, start: float) -> Array:
        """Play one coordinate."""


class LazyCapacity(_ByCoordinate):
    r"""Lazy capacity provisioning: stay where you are, unless a plan in hindsight says that this is too few or too many.

    In each round it knows two plans that are best for the rounds up to it. The first is charged for rising, what falling costs
    included, and its last point :math:`l_t` is as low as possible. The second is charged the same for falling, and its last
    point :math:`h_t` is as high as possible. It plays

    .. math:: x_t = \min(\max(x_{t-1},\, l_t),\, h_t).

    This is 3-competitive (Lin, Wierman, Andrew and Thereska, *Dynamic Right-Sizing for Power-Proportional Data Centers*,
    2011): for convex costs that are never negative, where only rising is charged, it pays at most three times what the best
    sequence pays, both coming from the bottom of the box. Where falling is charged, too, that holds once both have come back
    to the bottom. On a box of several coordinates each is played for itself, which needs costs that are sums over coordinates.
    It plays whole numbers, of which tables are exact.

    It sees f_t before it plays, as in the paper, so it is no learner.

    Parameters
    ----------
    domain : Box
        From the fewest to the most servers, of every kind; whole numbers.

    Examples
    --------
    >>> load = PinballCosts([[3.0], [4.0], [1.0], [1.0], [1.0], [1.0], [4.0]], short=5.0, excess=1.0)
    >>> trace = run_ahead(LazyCapacity(Box(0, 8)), load, movement=AsymmetricMovement(up=6.0, down=0.0), x0=[0.0])
    >>> trace.x.ravel().tolist(), trace.totals.cost
    ([0.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0], 51.0)
    """

    def _play(self, table: Costly, start: float) -> Array:
        values = table.values
        # What each number costs as the last point of the two plans: the first is charged for rising, the second for falling.
        price = table.up + table.down
        low = np.where(values >= start, price[0] * (values - start), 0.0)
        high = np.where(values <= start, price[0] * (start - values), 0.0)
        at = start
        played = np.empty(len(price))
        for t in range(len(price)):
            if t > 0:
                low = relax(low, price[t], 0.0)
                high = relax(high, 0.0, price[t])
            low = low + table.costs[t]
            high = high + table.costs[t]
            bottom = values[int(np.argmin(low))]
            top = values[len(values) - 1 - int(np.argmin(high[::-1]))]
            at = min(max(at, bottom), top)
            played[t] = at
        return played


class RandomizedCapacity(_ByCoordinate):
    r"""Keep a distribution over whole numbers, which every cost pulls towards its minimiser; play its mean, or draw from it.

    The probability of numbers up to i changes by the slope of the cost there, and stays between 0 and 1:

    .. math:: F_t(i) = \min\Bigl(1, \max\Bigl(0,\; F_{t-1}(i) + \frac{f_t(i+1) - f_t(i)}{2\lambda}\Bigr)\Bigr)

    with :math:`\lambda` the price of a move by one, and all probability on the start at first.

    This is 2-competitive (Bansal, Gupta, Krishnaswamy, Pruhs, Schewior and Stein, *A 2-Competitive Algorithm For Online Convex
    Optimization With Switching Costs*, 2015): for convex costs that are never negative, and moves that cost the same in both
    directions, it pays at most twice what the best whole numbers pay from the same start. That holds for the mean, and on
    average over draws for whole numbers. No rule that draws does better. Other prices up than down are replaced by their mean,
    which is right once it has come back to its start.

    Draws are those of the randomly biased greedy rule (Andrew and others, 2013), which minimises a work function plus a line
    of random slope: the slope of the work function is :math:`\lambda (2 F_t - 1)`.

    Like :class:`LazyCapacity`, it sees f_t before it plays, and plays each coordinate of a box for itself.

    Parameters
    ----------
    domain : Box
        From the fewest to the most servers, of every kind; whole numbers.
    seed : int, optional
        Play whole numbers: in all rounds the quantile of one random level, which moves no more than the distribution does.
        Default: None, the mean.

    Examples
    --------
    >>> load = PinballCosts([[3.0], [4.0], [1.0], [1.0], [1.0], [1.0], [4.0]], short=5.0, excess=1.0)
    >>> player = RandomizedCapacity(Box(0, 8))
    >>> run_ahead(player, load, movement=L1Movement(3.0), x0=[0.0]).x.ravel().round(2).tolist()
    [2.5, 3.83, 3.33, 2.83, 2.33, 1.83, 4.0]
    """

    seed: int | None

    def __init__(self, domain: ConvexSet, seed: int | None = None) -> None:
        super().__init__(domain)
        self._keep(seed=None if seed is None else integer(seed, "seed", least=0))

    def _play(self, table: Costly, start: float) -> Array:
        level = None if self.seed is None else np.random.default_rng(self.seed).random()
        values = table.values
        if start not in values:
            raise InvalidInput(f"x0 must be a whole number of the box, got {start:g}.")
        # The probability of each number and those below, but for the last, where it is 1.
        below = (values[:-1] >= start).astype(float)
        played = np.empty(len(table.costs))
        for t, price in enumerate(table.up + table.down):
            below = np.clip(below + np.diff(table.costs[t]) / price, 0.0, 1.0)
            if level is None:
                played[t] = values @ np.diff(below, prepend=0.0, append=1.0)
            else:
                played[t] = values[np.searchsorted(below, level)]
        return played


class LazyBudgeting(_OnBox):
    r"""Lazy budgeting for several kinds of servers: switch on what a plan needs, and off what has idled for the price of that.

    In each round it knows a plan that is best for the rounds up to it, what switching off costs charged for switching on. Of
    every kind it has at least as many servers on as the plan's last point. A server of kind k that was switched on in round s,
    at the price :math:`\beta_k`, stays on until the first round t with

    .. math:: l_{s+1,k} + \dots + l_{t,k} > \beta_k .

    Here :math:`l_{t,k}` is what an idle server costs: the most that one more server of kind k adds to f_t anywhere in the box,
    or 0. Costs need not be sums over kinds, or convex. But :math:`f_t(x) - \langle l_t, x \rangle` must not be negative, x
    counted from the bottom of the box: servers cost something for as long as they are on, and what else there is to pay falls
    as there are more of them. Do not use it for costs that charge only what is too much or too little, such as
    :class:`PinballCosts`: :class:`LazyCapacity` is for those, kind by kind.

    For d kinds it pays at most :func:`budgeting_ratio` = 2d + 1 times what the best whole numbers pay, both coming from the
    bottom of the box, where only switching on is charged; else once both have come back there. The rule is that of Albers and
    Quedenfeld, *Algorithms for Right-Sizing Heterogeneous Data Centers* (2021), who prove the ratio for idle costs that do not
    change and 2d + 1 plus the largest shares :math:`l_{t,k} / \beta_k` of all kinds for others. :doc:`The theory </theory>`
    proves 2d + 1 for both.

    It sees f_t before it plays, so it is no learner. A round takes time in proportion to the number of points of the box.

    Parameters
    ----------
    domain : Box
        From the fewest to the most servers, of every kind; whole numbers.

    Examples
    --------
    A large server does the work of four small ones, runs for less than they do, and is more expensive to switch on:

    >>> demand = [8.0, 7.0, 2.0, 1.0, 1.0, 1.0, 1.0, 8.0]
    >>> def cost(t, x):
    ...     return x @ [1.0, 2.0] + 10.0 * max(demand[t - 1] - x @ [1.0, 4.0], 0.0)
    >>> def slope(t, x):
    ...     return np.array([1.0, 2.0]) - 10.0 * (demand[t - 1] > x @ [1.0, 4.0]) * np.array([1.0, 4.0])
    >>> load = CallableCosts(8, 2, cost, slope)
    >>> switching = AsymmetricMovement(up=[2.0, 6.0], down=0.0)
    >>> kinds = Box([0, 0], [8, 2])
    >>> trace = run_ahead(LazyBudgeting(kinds), load, movement=switching, x0=[0.0, 0.0])
    >>> trace.x.astype(int).tolist()
    [[0, 2], [0, 2], [0, 2], [0, 2], [0, 1], [1, 1], [1, 1], [1, 2]]
    >>> best = offline_optimum(load, kinds, switching, x0=[0.0, 0.0], integers=True)
    >>> trace.totals.cost, best.cost
    (49.0, 40.0)
    """

    def points(self, game: Game) -> Array:
        # The constructor has checked that it is a box.
        domain: Any = self.domain
        check_prices(game)
        grid = WholeGrid(game, domain, list(range(domain.dim)))
        corners = grid.points.reshape(-1, domain.dim)
        bottom = corners[0]
        at = bottom if game.x0 is None else game.x0
        come = np.where((grid.points == at).all(axis=-1), 0.0, np.inf)
        if np.isinf(come).all():
            raise InvalidInput(f"x0 must be whole numbers of the box, got {at.tolist()}.")
        prices = game.weights[0] * (grid.up + grid.down)
        # What a server that was always on has idled for, and for each kind the servers that are on, by what it was before them.
        idled = np.zeros(domain.dim)
        on = [deque([(0.0, count)]) for count in at - bottom]
        played = np.empty((game.costs.T, domain.dim))
        for t in range(len(played)):
            charged = grid.charge(t)
            for k, price in enumerate(prices):
                come = relax(come, price, 0.0, axis=k)
            come = come + charged
            plan = corners[int(np.argmin(come))] - bottom
            idled += self._find_idle(t, charged, corners[-1] - bottom)
            for k, servers in enumerate(on):
                while servers and idled[k] - servers[0][0] > prices[k]:
                    servers.popleft()
                missing = plan[k] - sum(count for _, count in servers)
                if missing > 0.0:
                    servers.append((idled[k], missing))
                played[t, k] = bottom[k] + sum(count for _, count in servers)
        return played

    def _find_idle(self, t: int, charged: Array, counts: Array) -> Array:
        """Return what an idle server of each kind costs in a round."""
        # Rounds may be infinitely expensive with too few servers; a step between such points says nothing.
        with np.errstate(invalid="ignore"):
            steps = [np.diff(charged, axis=k) for k in range(len(counts))]
        idle = np.array([np.fmax.reduce(step, axis=None, initial=0.0) for step in steps])
        full = float(charged.flat[-1])
        if full < (1.0 - ROUNDING) * float(idle @ counts):
            raise InvalidInput(
                f"costs must be at least what idle servers cost, {idle.tolist()} each, but in round {t + 1} "
                f"all of {counts.tolist()} cost {full:g}. Add what servers cost that run, or use LazyCapacity."
            )
        return idle


class LookAheadSAder(LookAhead):
    r"""Mix experts that take proximal steps on f_t, weighed by what they pay in round t itself.

    .. math:: x^i_t = \arg\min_x f_t(x) + \tfrac{\sigma_i}{2} \|x - x^i_{t-1}\|^2, \qquad
              w_{t,i} \propto \pi_i \exp\Bigl(-\beta \sum_{s \le t} f_s(x^i_s) + \lambda \|x^i_s - x^i_{s-1}\|\Bigr)

    with :math:`\sigma_i = \lambda \sqrt{T} / (2^{i-1} D)`, :math:`\beta = \sqrt{8/T} / (\lambda D)`, the harmonic prior, and
    :math:`N = \lceil \tfrac12 \log_2(1 + 2T) \rceil + 1` experts. It needs no bound on the gradients. It is the lookahead form
    of SAder of Zhang, Jiang, Lu and Yang, *Revisiting Smoothed Online Learning* (2021).

    From an x_0 in the set, an expert's cost exceeds that of any u by at most
    :math:`\sigma_i (D^2 + 2 D P_T) / 2 + \lambda^2 T / (2 \sigma_i)`, for a proximal step gains
    :math:`\sigma_i \delta^2 / 2`, and :math:`\lambda \delta \le \sigma_i \delta^2 / 2 + \lambda^2 / (2 \sigma_i)`.
    The ensemble's exceeds an expert's by at most :math:`\ln(1/\pi_i) / \beta + \beta \lambda^2 D^2 T / 8`: reweighting moves by
    at most D times the total variation of the weights, which Pinsker's inequality bounds by their divergence, and
    weights that have seen the loss gain that divergence over beta. Other norms than the Euclidean enter lambda by their
    Lipschitz constant.

    Parameters
    ----------
    domain : ConvexSet
        Where decisions live.

    Examples
    --------
    >>> costs = QuadraticCosts([[1.0], [1.0]])
    >>> run_ahead(LookAheadSAder(Box(0, 1)), costs, x0=[0.0]).x.round(3).ravel().tolist()
    [0.475, 0.72]
    """

    def parameters(self, T: int, movement: Movement) -> tuple[Array, Array, float]:
        """Compute the parameters for a game of T rounds.

        Parameters
        ----------
        T : int
            The number of rounds.
        movement : Movement
            What moving costs.

        Returns
        -------
        sigmas : array
            The experts' sigma_i.
        prior : array
            Their weights at the start.
        beta : float
            The rate.

        Raises
        ------
        ValueError
            If moving costs nothing, or a fee.
        """
        weight = float(movement.weights(T).max()) * movement.lipschitz(self.domain.dim)
        D = self.domain.scale
        is_norm = movement.degree == 1.0 and not movement.is_drifting
        if not 0.0 < weight < np.inf or not is_norm:
            raise InvalidInput(
                f"movement must be a norm at a price above 0, got {movement!r}. Use L2Movement()."
            )
        N = int(np.ceil(0.5 * np.log2(1 + 2 * T))) + 1
        sigmas = weight * np.sqrt(T) / (2.0 ** np.arange(N) * D)
        return sigmas, harmonic_prior(N), float(np.sqrt(8.0 / T) / (weight * D))

    def experts(self, game: Game) -> tuple[Array, Array]:
        """Play all experts.

        Parameters
        ----------
        game : Game
            The game.

        Returns
        -------
        points : array
            What they play, of shape (N, T, d).
        paid : array
            What they have paid by each round, of shape (N, T).
        """
        sigmas, *_ = self.parameters(game.costs.T, game.movement)
        played = [self.by_round(game, partial(self.step, r=float(sigma))) for sigma in sigmas]
        paid = [game.costs.values(x) + game.movement.paid(x, game.x0) for x in played]
        return np.array(played), np.cumsum(paid, axis=1)

    def points(self, game: Game) -> Array:
        _, prior, beta = self.parameters(game.costs.T, game.movement)
        played, paid = self.experts(game)
        scores = np.log(prior)[:, None] - beta * paid
        w = np.exp(scores - scores.max(axis=0))
        return np.einsum("it,itd->td", w / w.sum(axis=0), played)


class RHGD(LookAhead):
    r"""Receding horizon gradient descent (Li, Qu and Li, 2020), for smooth costs with squared movement.

    The paper is *Online Optimization with Predictions and Switching Costs: Fast Algorithms and the Fundamental Limit*. A point
    is first what gradient descent with the step 1/l would play, and is then improved ``window`` + 1 times, as its cost and
    those after it come into view, by a gradient step on

    .. math:: C(x) = \sum_t f_t(x_t) + \tfrac{a}{2} \|x_t - x_{t-1}\|^2 .

    With costs whose curvature is between :math:`\alpha` and l and the step :math:`1 / (l + 4a)`, the squared distance to the
    optimum of C shrinks by :math:`1 - \alpha / (l + 4a)` with every round that it sees. Unlike
    :class:`RecedingHorizon` it solves nothing.

    Parameters
    ----------
    domain : ConvexSet
        Where decisions live.
    window : int, optional
        How many future rounds it sees. Default: 1.
    stay : float, optional
        a, the weight of squared movement in what it plans for. Default: 1.
    smoothness : float, optional
        l, the most by which a gradient changes over a unit of distance. Default: 1.

    Raises
    ------
    ValueError
        If the window is no whole number from 0 on, or smoothness is not above zero.

    Examples
    --------
    >>> costs = QuadraticCosts([[0.0], [0.0], [1.0], [1.0]])
    >>> run_ahead(RHGD(Box(-1, 1), window=3), costs, x0=[0.0]).x[:, 0].round(3).tolist()
    [0.034, 0.173, 0.61, 0.771]
    """

    stay: float
    smoothness: float

    def __init__(
        self, domain: ConvexSet, window: int = 1, stay: float = 1.0, smoothness: float = 1.0
    ) -> None:
        super().__init__(domain)
        self._keep(
            window=integer(window, "window", least=0),
            stay=non_negative(stay, "stay"),
            smoothness=positive(smoothness, "smoothness"),
        )

    def points(self, game: Game) -> Array:
        plan = self._begin(game)
        for _ in range(self.window + 1):
            plan = self._improve(game, plan)
        return plan

    def _begin(self, game: Game) -> Array:
        """Play what gradient descent would play, which knows the rounds before."""
        at = self.domain.start if game.x0 is None else game.x0
        x = [self.domain.project(at)]
        for t in range(1, game.costs.T):
            x.append(
                self.domain.project(x[-1] - game.costs.subgradient(t, x[-1]) / self.smoothness)
            )
        return np.array(x)

    def _improve(self, game: Game, plan: Array) -> Array:
        """Take a gradient step on C."""
        return self.domain.project(
            plan - self._slope(game, plan) / (self.smoothness + 4.0 * self.stay)
        )

    def _slope(self, game: Game, x: Array) -> Array:
        """Compute the gradient of C; without x0 the first move is free."""
        first = x[:1] if game.x0 is None else game.x0[None]
        steps = np.diff(x, axis=0, prepend=first)
        slope = game.costs.subgradients(x) + self.stay * steps
        slope[:-1] -= self.stay * steps[1:]
        return slope


class RHAG(RHGD):
    r"""Receding horizon accelerated gradient (Li, Qu and Li, 2020): :class:`RHGD` with Nesterov's momentum.

    .. math:: x^{k+1} = \Pi\Bigl(y^k - \frac{\nabla C(y^k)}{l + 4a}\Bigr), \qquad
              y^{k+1} = x^{k+1} + \frac{1 - \sqrt\kappa}{1 + \sqrt\kappa} (x^{k+1} - x^k), \qquad
              \kappa = \frac{\alpha}{l + 4a}

    It begins at :math:`y^0 = x^0`, what gradient descent would play, and each step takes one more round into view. After
    K = ``window`` + 1 steps

    .. math:: C(x^K) - C^* \le (1 - \sqrt\kappa)^K \Bigl(C(x^0) - C^* + \frac{\alpha}{2} \|x^0 - x^*\|^2\Bigr) ,

    which no method that sees as little beats by more than constants. Gradients are taken at y, which may be outside of the set.
    Do not use it where the curvature is a guess: a curvature that is too large loses the bound.

    Parameters
    ----------
    domain : ConvexSet
        Where decisions live.
    window : int, optional
        How many future rounds it sees. Default: 1.
    stay : float, optional
        a, the weight of squared movement in what it plans for. Default: 1.
    smoothness : float, optional
        l, the most by which a gradient changes over a unit of distance. Default: 1.
    curvature : float, optional
        alpha, the least by which it changes: costs minus :math:`\tfrac\alpha2 \|x\|^2` are convex. Default: 1.

    Raises
    ------
    ValueError
        If the window is no whole number from 0 on, or curvature is not above zero or above smoothness.

    Examples
    --------
    >>> costs = QuadraticCosts([[0.0], [0.0], [1.0], [1.0]])
    >>> run_ahead(RHAG(Box(-1, 1), window=3), costs, x0=[0.0]).x[:, 0].round(3).tolist()
    [0.06, 0.225, 0.657, 0.79]
    """

    curvature: float

    def __init__(
        self,
        domain: ConvexSet,
        window: int = 1,
        stay: float = 1.0,
        smoothness: float = 1.0,
        curvature: float = 1.0,
    ) -> None:
        super().__init__(domain, window, stay, smoothness)
        curvature = positive(curvature, "curvature")
        if curvature > self.smoothness:
            raise InvalidInput(
                f"curvature must be at most smoothness, {self.smoothness}, got {curvature}."
            )
        self._keep(curvature=curvature)

    def points(self, game: Game) -> Array:
        root = float(np.sqrt(self.curvature / (self.smoothness + 4.0 * self.stay)))
        before = ahead = self._begin(game)
        for _ in range(self.window + 1):
            plan = self._improve(game, ahead)
            ahead = plan + (1.0 - root) / (1.0 + root) * (plan - before)
            before = plan
        return before


class _Planner(LookAhead):
    forecast: Costs | Array | Callable[[int, int], Costs | ArrayLike] | None
    gap: float | None

    def __init__(
        self,
        domain: ConvexSet,
        window: int = 0,
        *,
        forecast: Forecast | None = None,
        gap: float | None = None,
    ) -> None:
        super().__init__(domain)
        expected: Any = forecast
        if forecast is not None and not callable(forecast) and not isinstance(forecast, Costs):
            expected = rows(forecast, "forecast", domain.dim)
        chosen = None if gap is None else positive(gap, "gap")
        self._keep(window=integer(window, "window", least=0), forecast=expected, gap=chosen)

    def expect(self, game: Game, t: int, last: int) -> Costs:
        """Forecast the costs of rounds t to ``last``, as they look before round t.

        Parameters
        ----------
        game : Game
            The game.
        t : int
            The first round to forecast.
        last : int
            The last round to forecast.

        Returns
        -------
        Costs
            One cost per round; the true ones if there is no forecast.

        Raises
        ------
        ValueError
            If the forecast has another number of rounds or coordinates.
        """
        if self.forecast is None:
            return game.costs.window(t, last)
        if callable(self.forecast):
            return _check_forecast(self.forecast(t, last), t, last, game)
        return _check_forecast(self.forecast, 1, game.costs.T, game).window(t, last)

    def plan(self, game: Game, t: int, last: int, at: Array | None) -> Array:
        """Plan some rounds from a point.

        Parameters
        ----------
        game : Game
            The game.
        t : int
            The first round.
        last : int
            The last round.
        at : array or None
            The point before; with None the first move is free.

        Returns
        -------
        array
            The best points for these rounds.
        """
        movement = game.movement
        if game.weights.size > 1:
            movement = movement.replace(weight=game.weights[t - 1 : last])
        expected = self.expect(game, t, last)
        gap = GAP if self.gap is None else self.gap
        most = PLAN_ITERATIONS if self.gap is None else PATIENT
        try:
            return offline_optimum(
                expected, self.domain, movement, x0=at, gap=gap, iterations=most
            ).u
        except GapNotReached as short:
            if self.gap is not None or short.best.gap > LOOSE:
                raise
            return short.best.u


def _check_forecast(forecast: Any, first: int, last: int, game: Game) -> Costs:
    """Return a forecast of these rounds as costs, or reject one of another shape."""
    expected = as_costs(forecast)
    given = (expected.T, expected.dim)
    wanted = (last - first + 1, game.costs.dim)
    if given != wanted:
        message = (
            f"The forecast of rounds {first} to {last} must have shape {wanted}, got {given}."
        )
        raise InvalidInput(message)
    return expected


class RecedingHorizon(_Planner):
    r"""Plan rounds t to t + w from the last point, and play the plan's first step: receding horizon control.

    With ``window=0`` it is greedy with movement: :math:`x_t = \arg\min_x f_t(x) + \lambda m(x - x_{t-1})`. By default it sees
    the costs of these rounds as they will be; with a ``forecast`` it plans for that, and pays what really comes. Lin, Liu,
    Wierman and Andrew, *Online Algorithms for Geographical Load Balancing* (2012), give its ratios.

    Parameters
    ----------
    domain : ConvexSet
        Where decisions live.
    window : int, optional
        w, how many rounds after t it plans for. Default: 0.
    forecast : Costs, array_like or callable, optional
        What it expects: costs (or an array of gradients) of all rounds, or a function ``forecast(t, last)`` that gives those of
        the rounds t to last, made before round t. Default: what will come.
    gap : float, optional
        The certified relative gap of every plan; :class:`GapNotReached` is raised where it is not reached. Default: 1e-4, and
        what 2000 iterations reach where that is within 1e-2.

    Raises
    ------
    ValueError
        If the window is not 0, 1, 2, ...
    GapNotReached
        If a plan does not reach the gap.

    Examples
    --------
    >>> costs = np.array([[1.0], [-1.0], [-1.0], [1.0]])
    >>> players = [RecedingHorizon(Box(-1, 1), 1, forecast=forecast) for forecast in (None, -costs)]
    >>> [round(run_ahead(player, costs, movement=L1Movement(0.8)).totals.cost, 3) for player in players]
    [-0.8, 7.2]
    """

    def points(self, game: Game) -> Array:
        at = game.x0
        played = []
        for t in range(1, game.costs.T + 1):
            at = self.plan(game, t, min(t + self.window, game.costs.T), at)[0]
            played.append(at)
        return np.array(played)


class AveragingHorizon(_Planner):
    """Average w + 1 planners: averaging fixed horizon control.

    Each of them plans w + 1 rounds, follows its plan to the end and plans anew; they plan in different rounds. Lin, Liu,
    Wierman and Andrew, *Online Algorithms for Geographical Load Balancing* (2012).

    Parameters
    ----------
    domain : ConvexSet
        Where decisions live.
    window : int, optional
        How many future rounds each plan sees, w >= 0. Default: 1.
    forecast : Costs, array_like or callable, optional
        What it expects, as for :class:`RecedingHorizon`. Default: what will come.
    gap : float, optional
        The certified relative gap of every plan, as for :class:`RecedingHorizon`. Default: 1e-4.

    Raises
    ------
    ValueError
        If the window is not 0, 1, 2, ...

    Examples
    --------
    >>> player = AveragingHorizon(Box(-1, 1), window=1)
    >>> run_ahead(player, [[1.0], [-1.0], [-1.0]], movement=L1Movement(0.8)).x.ravel().tolist()
    [-1.0, 1.0, 1.0]
    """

    def __init__(
        self,
        domain: ConvexSet,
        window: int = 1,
        *,
        forecast: Forecast | None = None,
        gap: float | None = None,
    ) -> None:
        super().__init__(domain, window, forecast=forecast, gap=gap)

    def points(self, game: Game) -> Array:
        return np.mean([self._follow(game, first) for first in range(1, self.window + 2)], axis=0)

    def _follow(self, game: Game, first: int) -> Array:
        T = game.costs.T
        # The first plan may be short.
        starts = sorted({1, *range(first, T + 1, self.window + 1)})
        at = game.x0
        played = []
        for start, following in pairwise([*starts, T + 1]):
            played.append(self.plan(game, start, following - 1, at))
            at = played[-1][-1]
        return np.concatenate(played)
