"""Coin betting: a learner that needs to know neither a sigma nor how far away the best point is."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from klazy.base.checks import LARGEST, Array, positive
from klazy.learners.base import Learner, check_domain, check_start
from klazy.sets import ConvexSet

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

    .. math:: w_{t+1} = x_1 + \frac{c_1 + \dots + c_t}{t + 1}\, W_t, \qquad x_{t+1} = \Pi(w_{t+1}).

    It starts in steps of about ``wealth``, and goes twice as far every few rounds while gradients agree. So a set may be as
    large as you like, or :class:`Space`: what it costs depends on how far away the comparator is, and not on the set,

    .. math:: \sum_t \langle g_t, x_t - u \rangle \le G\, W_0
              + G \|u - x_1\| \sqrt{T \ln\bigl(1 + 24 T^2 \|u - x_1\|^2 / W_0^2\bigr)}.

    Where w leaves the set, the part of a gradient that would drive it further is left out. What moving costs is not bounded,
    nor is regret against a comparator that moves.

    References: Orabona and Pal, *Coin Betting and Parameter-Free Online Learning* (2016); Cutkosky, *Parameter-Free, Dynamic,
    and Strongly-Adaptive Online Learning* (2020), for sets.

    Parameters
    ----------
    domain : ConvexSet
        Where decisions live, with or without bounds.
    G : float
        The largest norm of a gradient. A longer one counts as one of this length, and its excess is not in the bound.
    wealth : float, optional
        :math:`W_0`, what it may lose: a distance at which nothing is far yet. Default: 1.
    start : array_like, optional
        First decision. Default: the set's point nearest to the origin.

    Raises
    ------
    ValueError
        If G or wealth is not above zero.

    Examples
    --------
    >>> costs = CallableCosts(50, 1, lambda t, x: abs(float(x[0]) - 3.0), lambda t, x: np.sign(x - 3.0))
    >>> trace = run(CoinBetting(Space(1), G=1.0), costs)
    >>> trace.x[:6, 0].tolist(), round(trace.totals.hitting, 1)
    ([0.0, 0.5, 1.0, 1.875, 3.5, 0.4375], 54.1)
    """

    G: float
    wealth: float
    start: Array | None

    def __init__(
        self, domain: ConvexSet, G: float, *, wealth: float = 1.0, start: ArrayLike | None = None
    ) -> None:
        self._keep(
            domain=check_domain(domain),
            G=positive(G, "G", "Give a bound on the gradients' norms."),
            wealth=positive(wealth, "wealth"),
            start=check_start(domain, start),
        )

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
        bet = origin + coins * (wealth / (t + 1))
        return CoinState(t + 1, self.domain.nearest(bet), bet, origin, coins, wealth)

    def _toss(self, g: Array, beyond: Array) -> Array:
        """Return the coin -g / G, at most of length 1, without the part that drives a bet further out of the set."""
        coin = -g / max(self.G, math.sqrt(float((g * g).sum())))
        outward = float((coin * beyond).sum())
        if outward <= 0.0:
            return coin
        return coin - beyond * (outward / float((beyond * beyond).sum()))

    def describe_memory(self, state: CoinState) -> str:
        return f"It has won {state.wealth - self.wealth:.4g}, and bets {state.wealth:.4g} times the mean of all coins."
