"""Planning by gradient steps over a window of future costs."""

import numpy as np

from klazy.base.checks import Array, non_negative, number, positive, refusal
from klazy.contrib.lookahead.base import LookAhead
from klazy.game.game import Game
from klazy.sets import ConvexSet


class RHGD(LookAhead):
    r"""Receding horizon gradient descent (Li, Qu and Li, 2020), for smooth costs beside squared movement.

    A point is first what gradient descent with the step 1/l would play, and is then improved ``window`` + 1 times, as its cost
    and those after it come into view, by a gradient step on

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
        rounds = number(window, "window", "RHGD")
        if rounds < 0 or rounds != int(rounds):
            wanted = "a window of 0, 1, 2, ... future rounds"
            raise refusal("RHGD", wanted, "window", window, "use 0 to see f_t alone")
        self._keep(
            window=int(rounds),
            stay=non_negative(stay, "stay", "RHGD"),
            smoothness=positive(smoothness, "smoothness", "RHGD"),
        )

    def points(self, game: Game) -> Array:
        at = self.domain.start if game.x0 is None else game.x0
        x = [self.domain.project(at)]
        for t in range(1, game.costs.T):
            x.append(self.domain.project(x[-1] - game.costs.subgradient(t, x[-1]) / self.smoothness))
        plan = np.array(x)
        for _ in range(self.window + 1):
            plan = self.domain.project(plan - self._slope(game, plan) / (self.smoothness + 4.0 * self.stay))
        return plan

    def _slope(self, game: Game, x: Array) -> Array:
        """The gradient of C; without x0 the first point is left for nothing."""
        first = x[:1] if game.x0 is None else game.x0[None]
        steps = np.diff(x, axis=0, prepend=first)
        slope = game.costs.subgradients(x) + self.stay * steps
        slope[:-1] -= self.stay * steps[1:]
        return slope
