"""Planning over a window of future costs."""

from itertools import pairwise

import numpy as np

from klazy.base.checks import Array, number, refusal
from klazy.game.game import Game
from klazy.hindsight import GapNotReached, offline_optimum
from klazy.hindsight.lookahead.base import LookAhead
from klazy.sets import ConvexSet

# relative gaps of a plan: the one aimed at, and the widest that will do
GAP = 1e-4
LOOSE = 1e-2
ITERATIONS = 2000  # where the costs are flat it is the proof that takes long, not the plan


class _Planner(LookAhead):
    def __init__(self, domain: ConvexSet, window: int) -> None:
        super().__init__(domain)
        rounds = number(window, "window", type(self).__name__)
        owner = type(self).__name__
        if rounds < 0 or rounds != int(rounds):
            raise refusal(
                owner, "a window of 0, 1, 2, ... future rounds", "window", window, "use 0 to see f_t alone"
            )
        self._keep(window=int(rounds))

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
        try:
            plan = offline_optimum(
                game.costs.window(t, last), self.domain, movement, x0=at, gap=GAP, iterations=ITERATIONS
            )
        except GapNotReached as short:
            if short.best.gap > LOOSE:
                raise
            plan = short.best
        return plan.u


class RecedingHorizon(_Planner):
    r"""Plan rounds t to t + w from where it stands, and play the plan's first step: receding horizon control.

    With ``window=0`` it is greedy with movement: :math:`x_t = \arg\min_x f_t(x) + \lambda m(x - x_{t-1})`.

    Parameters
    ----------
    domain : ConvexSet
        Where decisions live.
    window : int, optional
        How many future rounds it sees beside f_t, w >= 0. Default: 0.

    Raises
    ------
    ValueError
        If the window is not 0, 1, 2, ...

    Examples
    --------
    >>> trace = run_ahead(RecedingHorizon(Box(-1, 1)), [[1.0], [-1.0]], movement=L1Movement(0.8), x0=[0.0])
    >>> trace.x.ravel().tolist(), round(trace.totals.cost, 6)
    ([-1.0, 1.0], 0.4)
    """

    def __init__(self, domain: ConvexSet, window: int = 0) -> None:
        super().__init__(domain, window)

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

    def __init__(self, domain: ConvexSet, window: int = 1) -> None:
        super().__init__(domain, window)

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
