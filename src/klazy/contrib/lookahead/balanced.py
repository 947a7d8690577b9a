"""Balanced descent: steps on f_t itself, as far as a balance with the movement allows."""

from collections.abc import Callable

import numpy as np

from klazy.base.checks import Array, non_negative, positive, refusal
from klazy.contrib.lookahead.base import LookAhead
from klazy.costs import Costs
from klazy.game.game import Game
from klazy.hindsight import best_fixed
from klazy.sets import ConvexSet

# stiffnesses to search, relative to the gradient over the set's size
LEAST = 1e-6
MOST = 1e6
SOFT = 1e-3  # the least where a step is an iteration, which takes long when the step is soft
HALVINGS = 40


class OBD(LookAhead):
    """Balance hitting and moving in every round: online balanced descent.

    It plays the point of a level set of f_t that is nearest to x_{t-1}, of the level where moving costs ``balance`` times as
    much as the level is high; or the nearest minimiser of f_t itself, to a millionth, if that costs less (for costs that are
    neither linear nor quadratic, a minimiser). Levels are counted from zero, or from the least value of f_t over the set where
    that is negative.

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
        self._keep(balance=positive(balance, "balance", "OBD"))

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

    def _balance(self, f: Costs, before: Array, least: Array, far: Callable[[Array], bool]) -> Array:
        """The nearest points of all level sets are the proximal steps of all stiffnesses; the softest that is not too far."""
        steep = [float(np.linalg.norm(f.subgradient(1, x))) for x in (before, least)]
        unit = max((size for size in steep if np.isfinite(size)), default=0.0) / self.domain.scale
        if unit == 0.0:  # a flat cost is no reason to move
            return self.domain.project(before)
        softest = SOFT
        nearest = least
        if f.family is not None and f.family.has_affine:
            softest = LEAST
            nearest = self.step(f, before, LEAST * unit)  # of the minimisers, nearly
        low = softest * unit
        high = MOST * unit
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

    It was made for costs that are strongly convex beside squared movement (Goel, Lin, Sun and Wierman, 2019), where a share of
    the order of the root of their curvature is best.

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
        greed = non_negative(greed, "greed", "GOBD")
        if greed > 1.0:
            raise refusal("GOBD", "greed <= 1", "greed", greed, "1 plays every minimiser")
        self._keep(greed=greed)

    def _balance(self, f: Costs, before: Array, least: Array, far: Callable[[Array], bool]) -> Array:
        return (1.0 - self.greed) * super()._balance(f, before, least, far) + self.greed * least


class ROBD(LookAhead):
    r"""Pull towards the last point and towards the round's minimiser: regularised OBD.

    .. math:: x_t = \arg\min_x f_t(x) + \tfrac{a}{2} \|x - x_{t-1}\|^2 + \tfrac{b}{2} \|x - v_t\|^2

    with v_t the minimiser of f_t.

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
        self._keep(stay=positive(stay, "stay", "ROBD"), follow=non_negative(follow, "follow", "ROBD"))

    def points(self, game: Game) -> Array:
        total = self.stay + self.follow

        def play(f: Costs, before: Array) -> Array:
            pull = self.follow * best_fixed(f, self.domain).x if self.follow else 0.0
            return self.step(f, (self.stay * before + pull) / total, total)

        return self.by_round(game, play)
