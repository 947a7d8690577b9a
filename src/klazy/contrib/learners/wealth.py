"""Portfolio selection, each rule as it was published: shares of wealth in, price relatives of a day, the next shares out.

All of them get rows of :class:`~klazy.LogWealth`. What a paper defines on the whole simplex is projected onto smaller sets.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from klazy.base.checks import Array, InvalidInput, integer, number
from klazy.contrib.learners.mirror import MirrorMemory
from klazy.contrib.learners.newton import OnlineNewton
from klazy.families import LogWealth
from klazy.learners.base import NEVER, Learner, S, check_domain, check_start
from klazy.learners.memory import Forget
from klazy.learners.thumb import FixedState
from klazy.sets import CappedSimplex, ConvexSet, Intersection, Simplex

SHARES = (Simplex, CappedSimplex, Intersection)


def exponentiated_gradient(
    domain: ConvexSet, learning_rate: float = 0.05, *, start: ArrayLike | None = None
) -> MirrorMemory:
    r"""Build the exponentiated gradient of Helmbold, Schapire, Singer and Warmuth (1998).

    .. math:: x_{t+1,i} \propto x_{t,i} \exp(\eta\, r_{t,i} / \langle r_t, x_t \rangle)

    It is :class:`MirrorMemory` with the entropy, for costs of log-wealth.

    Parameters
    ----------
    domain : Simplex or CappedSimplex
        Where shares live.
    learning_rate : float, optional
        eta. Default: 0.05, as in the paper.
    start : array_like, optional
        First shares. Default: equal ones.

    Returns
    -------
    MirrorMemory
        The learner.

    Examples
    --------
    >>> learner = exponentiated_gradient(Simplex(2))
    >>> run(learner, LogWealthCosts([[2.0, 1.0], [1.0, 1.0]]), engine="step").x[1].round(4)
    array([0.5083, 0.4917])
    """
    return MirrorMemory(domain, learning_rate=learning_rate, memory=Forget(), start=start)


def newton_shares(
    domain: ConvexSet, beta: float = 1.0, delta: float = 0.125, *, start: ArrayLike | None = None
) -> OnlineNewton:
    r"""Build the online Newton step for portfolios of Agarwal, Hazan, Kale and Schapire (2006).

    .. math:: x_{t+1} = \Pi^{A_t}\bigl(\delta A_t^{-1} b_t\bigr), \qquad A_t = I + \sum_s \nabla_s \nabla_s^\top, \qquad
              b_t = \bigl(1 + \tfrac{1}{\beta}\bigr) \sum_s \nabla_s, \qquad \nabla_s = r_s / \langle r_s, x_s \rangle

    It is :class:`OnlineNewton` for costs of log-wealth: there :math:`\langle g, x \rangle = -1`. Do not use it where trading
    costs as much as a day differs: it trades every day.

    Parameters
    ----------
    domain : Simplex, CappedSimplex or Intersection
        Where shares live.
    beta : float, optional
        Default: 1.
    delta : float, optional
        Default: 1/8, as in the paper.
    start : array_like, optional
        First shares. Default: equal ones.

    Returns
    -------
    OnlineNewton
        The learner.

    Examples
    --------
    >>> run(newton_shares(Simplex(2)), LogWealthCosts([[2.0, 1.0], [1.0, 1.0]]), engine="step").x[1].round(4)
    array([0.2955, 0.7045])
    """
    total = float(_check_shares(domain, "newton_shares").start.sum())
    # In shares of 1 the curvature at the start is 1.
    return OnlineNewton(domain, beta, 1.0 / total**2, delta=delta, start=start)


class WealthRule(Learner[S]):
    """Base class of rules for shares of wealth: it gets rows of price relatives.

    Parameters
    ----------
    domain : Simplex, CappedSimplex or Intersection
        Where shares live.
    start : array_like, optional
        First shares. Default: equal ones, as near as the set allows.
    """

    family: LogWealth  # pyright: ignore[reportIncompatibleVariableOverride]
    start: Array | None

    def __init__(self, domain: ConvexSet, *, start: ArrayLike | None = None) -> None:
        _check_shares(domain, type(self).__name__)
        self._keep(domain=domain, family=LogWealth(), start=check_start(domain, start))


class BuyAndHold(WealthRule[FixedState]):
    r"""Buy once, and let prices carry the shares: :math:`x_{t+1,i} = r_{t,i} x_{t,i} / \langle r_t, x_t \rangle`.

    On a set with caps, it sells what has grown beyond its cap.

    Parameters
    ----------
    domain : Simplex, CappedSimplex or Intersection
        Where shares live.
    start : array_like, optional
        First shares. Default: equal ones.

    Examples
    --------
    >>> run(BuyAndHold(Simplex(2)), LogWealthCosts([[3.0, 1.0], [1.0, 1.0]]), engine="step").x[1].tolist()
    [0.75, 0.25]
    """

    def init(self, x: Array | None = None) -> FixedState:
        return FixedState(1, self.first_point(x))

    def step(self, state: FixedState, g: Array) -> FixedState:
        return FixedState(state.t + 1, self.domain.nearest(self.family.drift(g, state.x)))


class UniformRebalanced(BuyAndHold):
    """Hold equal shares, and restore them every few rounds: 1/N, which is hard to beat.

    DeMiguel, Garlappi and Uppal, *Optimal Versus Naive Diversification* (2009).

    Parameters
    ----------
    domain : Simplex, CappedSimplex or Intersection
        Where shares live.
    every : int, optional
        The rounds between two trades. Default: 1.

    Examples
    --------
    >>> days = LogWealthCosts([[3.0, 1.0], [1.0, 1.0], [1.0, 1.0]])
    >>> run(UniformRebalanced(Simplex(2), every=2), days, engine="step").x.tolist()
    [[0.5, 0.5], [0.75, 0.25], [0.5, 0.5]]
    """

    every: int

    def __init__(self, domain: ConvexSet, every: int = 1) -> None:
        super().__init__(domain)
        self._keep(every=min(integer(every, "every"), NEVER))

    def step(self, state: FixedState, g: Array) -> FixedState:
        if state.t % self.every == 0:
            return FixedState(state.t + 1, self.domain.start)
        return super().step(state, g)


class SoftBayesState(NamedTuple):
    """The round, the shares played, and those before they were projected."""

    t: int
    x: Array
    w: Array


class SoftBayes(WealthRule[SoftBayesState]):
    r"""Mix Bayes' rule with standing still, by a rate that falls: regret grows as the root of d T, without a bound on prices.

    .. math:: w_{t+1,i} = \frac{\eta_{t+1}}{\eta_t} w_{t,i} \Bigl(1 - \eta_t + \eta_t
              \frac{r_{t,i}}{\langle r_t, w_t \rangle}\Bigr) + \Bigl(1 - \frac{\eta_{t+1}}{\eta_t}\Bigr) w_{1,i},
              \qquad \eta_t = \sqrt{\frac{\ln d}{2 d t}}

    Orseau, Lattimore and Legg, *Soft-Bayes: Prod for Mixtures of Experts with Log-Loss* (2017).

    Parameters
    ----------
    domain : Simplex, CappedSimplex or Intersection
        Where shares live.
    start : array_like, optional
        First shares. Default: equal ones.

    Examples
    --------
    >>> run(SoftBayes(Simplex(2)), LogWealthCosts([[2.0, 1.0], [1.0, 1.0]]), engine="step").x[1].round(4)
    array([0.5491, 0.4509])
    """

    def init(self, x: Array | None = None) -> SoftBayesState:
        x = self.first_point(x)
        return SoftBayesState(1, x, x)

    def step(self, state: SoftBayesState, g: Array) -> SoftBayesState:
        t, _, w = state
        d = self.domain.dim
        rate = np.sqrt(np.log(max(d, 2)) / (2.0 * d * t))
        falls = np.sqrt(t / (t + 1.0))
        grown = w * (1.0 - rate + rate * g * w.sum() / np.vecdot(g, w))
        w = falls * grown + (1.0 - falls) * self.first_point(None)
        return SoftBayesState(t + 1, self.domain.nearest(w), w)


class PricesState(NamedTuple):
    """The round, the shares, and the last price relatives, the newest first."""

    t: int
    x: Array
    past: Array


class Reversion(WealthRule[PricesState]):
    """Base class of passive-aggressive rules: move no further than until the prediction promises ``epsilon``.

    Parameters
    ----------
    domain : Simplex, CappedSimplex or Intersection
        Where shares live.
    epsilon : float, optional
        The relative that a prediction must promise.
    window : int, optional
        How many rounds a prediction is made from.
    start : array_like, optional
        First shares. Default: equal ones.
    """

    epsilon: float
    window: int

    def __init__(
        self, domain: ConvexSet, epsilon: float, window: int, *, start: ArrayLike | None = None
    ) -> None:
        super().__init__(domain, start=start)
        self._keep(epsilon=number(epsilon, "epsilon"), window=integer(window, "window"))

    @abstractmethod
    def predict(self, past: Array) -> tuple[Array, float]:
        """Give a direction to move in, and the value of <direction, shares> from which on there is no need.

        Parameters
        ----------
        past : array
            Price relatives, the newest first.

        Returns
        -------
        direction : array
            More of it is better.
        enough : float
            The value that suffices.
        """

    def init(self, x: Array | None = None) -> PricesState:
        return PricesState(1, self.first_point(x), np.ones((self.window, self.domain.dim)))

    def step(self, state: PricesState, g: Array) -> PricesState:
        t, x, past = state
        past = np.vstack((g, past[:-1]))
        direction, enough = self.predict(past)
        beyond = direction - direction.mean()
        size = float(beyond @ beyond)
        lacking = enough - float(direction @ x) / x.sum()
        if lacking > 0.0 and size > 0.0:
            x = self.domain.nearest(x + x.sum() * (lacking / size) * beyond)
        return PricesState(t + 1, x, past)


class PAMR(Reversion):
    r"""Expect that what rose today falls tomorrow: passive-aggressive mean reversion.

    .. math:: x_{t+1} = \Pi\bigl(x_t - \tau_t (r_t - \bar r_t 1)\bigr), \qquad
              \tau_t = \frac{\max(0, \langle x_t, r_t \rangle - \epsilon)}{\|r_t - \bar r_t 1\|^2}

    Li, Zhao, Hoi and Gopalkrishnan, *PAMR: Passive Aggressive Mean Reversion Strategy for Portfolio Selection* (2012). It
    trades nearly everything every day.

    Parameters
    ----------
    domain : Simplex, CappedSimplex or Intersection
        Where shares live.
    epsilon : float, optional
        It moves after days on which it gained more. Default: 0.5, as in the paper.
    start : array_like, optional
        First shares. Default: equal ones.

    Examples
    --------
    >>> run(PAMR(Simplex(2)), LogWealthCosts([[1.1, 1.0], [1.0, 1.0]]), engine="step").x[1].tolist()
    [0.0, 1.0]
    """

    def __init__(
        self, domain: ConvexSet, epsilon: float = 0.5, *, start: ArrayLike | None = None
    ) -> None:
        super().__init__(domain, epsilon, 1, start=start)

    def predict(self, past: Array) -> tuple[Array, float]:
        return -past[0], -self.epsilon


class OLMAR(Reversion):
    r"""Expect that prices return to their moving average.

    .. math:: \tilde r = \frac{1}{w} \sum_{k=0}^{w-1} \frac{p_{t-k}}{p_t}, \qquad
              x_{t+1} = \Pi\Bigl(x_t + \frac{\max(0, \epsilon - \langle x_t, \tilde r \rangle)}{\|\tilde r - \bar r 1\|^2}
              (\tilde r - \bar r 1)\Bigr)

    Li and Hoi, *On-Line Portfolio Selection with Moving Average Reversion* (2012).

    Parameters
    ----------
    domain : Simplex, CappedSimplex or Intersection
        Where shares live.
    epsilon : float, optional
        The relative that a prediction must promise. Default: 10, as in the paper.
    window : int, optional
        w, the days of the average. Default: 5.
    start : array_like, optional
        First shares. Default: equal ones.

    Examples
    --------
    >>> run(OLMAR(Simplex(2), window=2), LogWealthCosts([[1.1, 1.0], [1.0, 1.0]]), engine="step").x[1].tolist()
    [0.0, 1.0]
    """

    def __init__(
        self,
        domain: ConvexSet,
        epsilon: float = 10.0,
        window: int = 5,
        *,
        start: ArrayLike | None = None,
    ) -> None:
        super().__init__(domain, epsilon, window, start=start)

    def predict(self, past: Array) -> tuple[Array, float]:
        # Before the first day prices are taken to have stood still.
        back = np.cumprod(1.0 / past[:-1], axis=0).sum(axis=0)
        return (1.0 + back) / self.window, self.epsilon


def _check_shares(domain: ConvexSet, name: str) -> ConvexSet:
    """Check that this is a set of shares of a total."""
    if not isinstance(check_domain(domain), SHARES):
        raise InvalidInput(f"{name} needs shares of wealth, got {domain!r}. Use Simplex(d).")
    return domain
