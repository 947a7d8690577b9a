"""Planning over a window of future costs, as they will be or as somebody forecasts them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from klazy.base.checks import Array, number, positive, refusal, rows
from klazy.contrib.lookahead.base import LookAhead
from klazy.costs import Costs, as_costs
from klazy.game.game import Game
from klazy.hindsight import offline_optimum
from klazy.hindsight.optimum import GapNotReached
from klazy.sets import ConvexSet

# relative gaps of a plan: the one aimed at, and the widest that will do, where none was chosen
GAP = 1e-4
LOOSE = 1e-2
ITERATIONS = 2000  # where the costs are flat it is the proof that takes long, not the plan
PATIENT = 20_000  # where a gap was chosen

Forecast = Costs | ArrayLike | Callable[[int, int], Costs | ArrayLike]


class _Planner(LookAhead):
    forecast: Costs | Array | Callable[[int, int], Costs | ArrayLike] | None
    gap: float | None

    def __init__(self, domain: ConvexSet, window: int, forecast: Forecast | None, gap: float | None) -> None:
        super().__init__(domain)
        owner = type(self).__name__
        ahead = number(window, "window", owner)
        if ahead < 0 or ahead != int(ahead):
            raise refusal(
                owner, "a window of 0, 1, 2, ... future rounds", "window", window, "use 0 to see f_t alone"
            )
        expected: Any = forecast
        if forecast is not None and not callable(forecast) and not isinstance(forecast, Costs):
            expected = rows(forecast, "forecast", owner, domain.dim)
        chosen = None if gap is None else positive(gap, "gap", owner)
        self._keep(window=int(ahead), forecast=expected, gap=chosen)

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
        rounds = range(t, last + 1)
        if callable(self.forecast):
            expected = as_costs(self.forecast(t, last))
        else:
            rounds = range(1, game.costs.T + 1)
            expected = as_costs(self.forecast)
        if (expected.T, expected.dim) != (len(rounds), game.costs.dim):
            condition = f"a forecast of rounds {rounds[0]} to {rounds[-1]} in R^{game.costs.dim}"
            shape = (expected.T, expected.dim)
            raise refusal(type(self).__name__, condition, "forecast of shape", shape, "forecast each of them")
        return expected if callable(self.forecast) else expected.window(t, last)

    def plan(self, game: Game, t: int, last: int, at: Array | None) -> Array:
        """Plan some rounds from where it stands.

        Parameters
        ----------
        game : Game
            The game.
        t : int
            The first round.
        last : int
            The last round.
        at : array or None
            Where it stands; None moves for free.

        Returns
        -------
        array
            The best points for these rounds.
        """
        movement = game.movement
        if game.weights.size > 1:
            movement = movement.replace(weight=game.weights[t - 1 : last])
        expected = self.expect(game, t, last)
        if self.gap is not None:
            return offline_optimum(expected, self.domain, movement, x0=at, gap=self.gap, iterations=PATIENT).u
        try:
            plan = offline_optimum(expected, self.domain, movement, x0=at, gap=GAP, iterations=ITERATIONS)
        except GapNotReached as short:
            if short.best.gap > LOOSE:
                raise
            plan = short.best
        return plan.u


class RecedingHorizon(_Planner):
    r"""Plan rounds t to t + w from where it stands, and play the plan's first step: receding horizon control.

    With ``window=0`` it is greedy with movement: :math:`x_t = \arg\min_x f_t(x) + \lambda m(x - x_{t-1})`. By default it sees
    the costs of these rounds as they will be; with a ``forecast`` it plans for that, and pays what really comes.

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
    >>> told = [RecedingHorizon(Box(-1, 1), 1, forecast=forecast) for forecast in (None, -costs)]
    >>> [round(run_ahead(player, costs, movement=L1Movement(0.8)).totals.cost, 3) for player in told]
    [-0.8, 7.2]
    """

    def __init__(
        self,
        domain: ConvexSet,
        window: int = 0,
        *,
        forecast: Forecast | None = None,
        gap: float | None = None,
    ) -> None:
        super().__init__(domain, window, forecast, gap)

    def points(self, game: Game) -> Array:
        at = game.x0
        played = []
        for t in range(1, game.costs.T + 1):
            at = self.plan(game, t, min(t + self.window, game.costs.T), at)[0]
            played.append(at)
        return np.array(played)


class AveragingHorizon(_Planner):
    """Average w + 1 planners: averaging fixed horizon control.

    Each of them plans w + 1 rounds, follows its plan to the end and plans anew; they plan in different rounds.

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
        super().__init__(domain, window, forecast, gap)

    def points(self, game: Game) -> Array:
        return np.mean([self._follow(game, first) for first in range(1, self.window + 2)], axis=0)

    def _follow(self, game: Game, first: int) -> Array:
        T = game.costs.T
        starts = sorted({1, *range(first, T + 1, self.window + 1)})  # the first plan may be short
        at = game.x0
        played = []
        for start, following in pairwise([*starts, T + 1]):
            played.append(self.plan(game, start, following - 1, at))
            at = played[-1][-1]
        return np.concatenate(played)
