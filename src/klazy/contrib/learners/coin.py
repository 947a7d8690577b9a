"""Coin betting: a learner that needs to know neither a sigma nor how far away the best point is."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from klazy.base.checks import LARGEST, Array, InvalidInput, positive
from klazy.learners.base import Learner, check_domain, check_start
from klazy.movement import Movement, as_movement
from klazy.sets import ConvexSet

MOST_PAID = 0.5  # the largest share of its wealth that one move is counted to cost
BET_ROUNDING = 1e-14  # the relative distance to its projection of a bet in the set


class CoinState(NamedTuple):
    """A point, the bet that it is the projection of, where it began, the coins so far added up, and the wealth."""

    t: int
    x: Array
    bet: Array
    origin: Array
    coins: Array
    wealth: float


class CoinBetting(Learner[CoinState]):
    r"""Bets a share of its wealth on where the gradients point (the bettor of Krichevsky and Trofimov, by direction).

    With coins :math:`c_t = -g_t / G` and the wealth :math:`W_t = W_0 + \sum_{s \le t} \langle c_s, w_s - x_1 \rangle`,

    .. math:: w_{t+1} = x_1 + \frac{c_1 + \dots + c_t}{\alpha (t + 1)}\, W_t, \qquad x_{t+1} = \Pi(w_{t+1}), \qquad \alpha = 1.

    It starts in steps of about ``wealth``, and goes twice as far every few rounds while gradients agree. So a set may be as
    large as you like, or have no bounds, as :class:`Space`: what it costs depends on how far away the comparator is, and not on
    the set,

    .. math:: \sum_t \langle g_t, x_t - u \rangle \le G\, W_0
              + G \|u - x_1\| \sqrt{\alpha\, T \ln\bigl(1 + 24 T^2 \|u - x_1\|^2 / W_0^2\bigr)}.

    With a ``movement`` of price :math:`\lambda`, :math:`\alpha = 4 + 8 \lambda / G`, and wealth pays for every move once it is
    made. The bound then has :math:`e \alpha` in place of 24, and what moving costs is in it
    (:func:`~klazy.contrib.coin_betting_bound`): it grows with :math:`\sqrt\lambda`. Prices by round must not exceed that of
    ``movement``, or nothing is proved: give it the largest.

    Where w leaves the set, the part of a gradient that would drive it further is left out. Regret against a comparator that
    moves is not bounded.

    References: Orabona and Pal, *Coin Betting and Parameter-Free Online Learning* (2016); Cutkosky, *Parameter-Free, Dynamic,
    and Strongly-Adaptive Online Learning* (2020), for sets; for movement after Zhang, Cutkosky and Paschalidis, *Adversarial
    Tracking Control via Strongly Adaptive Online Learning with Memory* and *Optimal Comparator Adaptive Online Learning with
    Switching Cost* (2022).

    Parameters
    ----------
    domain : ConvexSet
        Where decisions live, with or without bounds.
    G : float
        The largest norm of a gradient. A longer one counts as one of this length, and its excess is not in the bound.
    wealth : float, optional
        :math:`W_0`, what it may lose: a distance at which nothing is far yet. Default: 1.
    movement : Movement or str, optional
        What a move costs: a norm with one weight, or its short name. Default: moves are free.
    start : array_like, optional
        First decision. Default: the set's point nearest to the origin.

    Raises
    ------
    ValueError
        If G or wealth is not above zero.

    Examples
    --------
    >>> def distances_to_three(T):
    ...     return CallableCosts(T, 1, lambda t, x: abs(float(x[0]) - 3.0), lambda t, x: np.sign(x - 3.0))
    >>> trace = run(CoinBetting(Space(1), G=1.0), distances_to_three(50))
    >>> trace.x[:6, 0].tolist(), round(trace.totals.hitting, 1)
    ([0.0, 0.5, 1.0, 1.875, 3.5, 0.4375], 54.1)

    Told that a unit of movement costs ten, it moves less in a longer game:

    >>> price = L2Movement(10.0)
    >>> bettors = [CoinBetting(Space(1), 1.0), CoinBetting(Space(1), 1.0, movement=price)]
    >>> [round(run(bettor, distances_to_three(2000), movement=price).totals.cost) for bettor in bettors]
    [9676, 1738]
    """

    G: float
    wealth: float
    start: Array | None
    movement: Movement | None
    alpha: float

    def __init__(
        self,
        domain: ConvexSet,
        G: float,
        *,
        wealth: float = 1.0,
        start: ArrayLike | None = None,
        movement: Movement | str | None = None,
    ) -> None:
        check_domain(domain)
        price = None
        alpha = 1.0
        G = positive(G, "G", "Give a bound on the gradients' norms.")
        if movement is not None:
            price = as_movement(movement)
            if price.degree != 1.0 or not price.is_steady:
                raise InvalidInput(
                    f"movement must be a norm with one weight for all rounds, got {price!r}."
                )
            price.check(domain.dim)
            weight: Any = price.weight
            alpha = shrink_bets(weight * price.lipschitz(domain.dim) / G)
        self._keep(
            domain=domain,
            G=G,
            wealth=positive(wealth, "wealth"),
            start=check_start(domain, start),
            movement=price,
            alpha=alpha,
        )

    @property
    def takes_prices(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether moves have a price for it, of which others are multiples."""
        return self.movement is not None

    def init(self, x: Array | None = None) -> CoinState:
        x = self.first_point(x)
        return CoinState(1, x, x, x, np.zeros(self.domain.dim), self.wealth)

    def step(self, state: CoinState, g: Array) -> CoinState:
        t, x, bet, origin, coins, wealth = state
        beyond = bet - x
        if np.abs(beyond).max() <= BET_ROUNDING * np.abs(bet).max():
            # The bet is in the set.
            beyond = np.zeros_like(beyond)
        coin = self._toss(g, beyond)
        wealth = min(wealth + float((coin * (bet - origin)).sum()), LARGEST)
        coins = coins + coin
        bet = origin + coins * (wealth / (self.alpha * (t + 1)))
        following = self.domain.nearest(bet)
        if self.movement is not None:
            paid = float(self.movement.weight * self.movement.distance(following - x)) / self.G
            wealth -= min(paid, MOST_PAID * wealth)
        return CoinState(t + 1, following, bet, origin, coins, wealth)

    def _toss(self, g: Array, beyond: Array) -> Array:
        """Return the coin -g / G, at most of length 1, without the part that drives a bet further out of the set."""
        coin = -g / max(self.G, math.sqrt(float((g * g).sum())))
        outward = float((coin * beyond).sum())
        if outward <= 0.0:
            return coin
        return coin - beyond * (outward / float((beyond * beyond).sum()))

    def describe_memory(self, state: CoinState) -> str:
        return f"It has won {state.wealth - self.wealth:.4g}, and bets {state.wealth:.4g} times the mean of all coins."


def shrink_bets(price: float) -> float:
    """Return alpha, by which bets are smaller where a unit of movement costs ``price`` times G."""
    return 4.0 + 8.0 * price
