"""Lazy capacity provisioning: the number of servers that two plans in hindsight leave no choice about."""

from typing import Any

import numpy as np

from klazy.base.checks import Array, refusal
from klazy.contrib.lookahead.base import LookAhead
from klazy.game.game import Game
from klazy.hindsight.whole import Costly, relax, tabulate
from klazy.sets import Box, ConvexSet


class LazyCapacity(LookAhead):
    r"""Lazy capacity provisioning: stay where you are, unless a plan in hindsight says that this is too few or too many.

    In each round it knows two plans that are best for the rounds up to it. The first is charged for rising, what falling costs
    included, and its last point :math:`l_t` is as low as possible. The second is charged the same for falling, and its last
    point :math:`h_t` is as high as possible. It plays

    .. math:: x_t = \min(\max(x_{t-1},\, l_t),\, h_t).

    This is 3-competitive (Lin, Wierman, Andrew and Thereska, 2011): for convex costs that are never negative, where only rising
    is charged, it pays at most three times what the best sequence pays, both coming from the bottom of the box. Where falling
    is charged, too, that holds once both have come back to the bottom. On a box of several coordinates each is played for
    itself, which needs costs that are sums over coordinates. It plays whole numbers, of which tables are exact.

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

    def __init__(self, domain: ConvexSet) -> None:
        super().__init__(domain)
        if type(domain) is not Box:
            raise refusal("LazyCapacity", "a Box", "domain", repr(domain), "write LazyCapacity(Box(0, 100))")
        domain.check_whole("LazyCapacity")

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
        domain: Any = self.domain  # a box, as was checked
        start = domain.lowest(np.ones(game.costs.dim)) if game.x0 is None else game.x0
        tables = tabulate(game, domain, "LazyCapacity")
        columns = [_provision(table, float(start[i])) for i, table in enumerate(tables)]
        return np.stack(columns, axis=1)


def _provision(table: Costly, start: float) -> Array:
    """One coordinate: cost-to-come of the two plans, and the point between their last points."""
    values = table.values
    # what rising and falling cost together is charged to rising by the first plan, and to falling by the second
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
