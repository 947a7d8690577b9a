r"""Jobs with a deadline: convert an amount at changing prices, and pay for every start and stop.

In each round a price arrives, and *then* you decide how much to convert: unlike learners, these rules see a round's price
first. What is left when only the last rounds can still do it is converted at any price. :func:`convert` plays a rule on the
prices of all rounds, :meth:`Run.decide` round by round, and :func:`best_conversion` is the exact optimum.

The rules are thresholds: the more is done, the lower the price at which they go on. docs/theory.md proves their ratios.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from klazy.base.checks import (
    Array,
    InvalidInput,
    check_flag,
    instance,
    non_negative,
    positive,
    size,
    vector,
)
from klazy.base.config import Config
from klazy.base.linprog import solve_linear

# Amounts below this share of the job are rounding.
ROUNDING = 1e-9
BISECTIONS = 200  # more than floats have digits


class Job(Config):
    r"""An amount to convert by a deadline, at prices that are known only from ``low`` to ``high``.

    With :math:`x_t` converted in round t, between 0 and ``rate``, a job of T rounds costs

    .. math:: \sum_{t=1}^T p_t x_t + \beta \sum_{t=1}^{T+1} |x_t - x_{t-1}|, \qquad x_0 = x_{T+1} = 0, \qquad
              \sum_t x_t = \mathrm{amount}.

    Parameters
    ----------
    low, high : float
        The least and the highest price that there can be. Ratios hold for prices between them.
    amount : float, optional
        What must be converted. Default: 1.
    rate : float, optional
        The most that a round converts. Default: the amount.
    move_cost : float, optional
        :math:`\beta`, the price of starting, or stopping, a unit. Default: 0.
    whole : bool, optional
        Whether a round converts all of ``rate`` or nothing; a start and a stop then cost ``move_cost * rate`` each, and the
        amount is a multiple of the rate. Default: False.

    Examples
    --------
    >>> Job(20.0, 100.0, amount=6.0, rate=1.0, whole=True).units
    6
    """

    low: float
    high: float
    amount: float
    rate: float
    move_cost: float
    whole: bool

    def __init__(
        self,
        low: float,
        high: float,
        *,
        amount: float = 1.0,
        rate: float | None = None,
        move_cost: float = 0.0,
        whole: bool = False,
    ) -> None:
        low = positive(low, "low", "Ratios need prices above zero.")
        high = positive(high, "high")
        if high < low:
            raise InvalidInput(f"high must be at least low, {low:g}, got {high:g}.")
        amount = positive(amount, "amount")
        rate = amount if rate is None else min(positive(rate, "rate"), amount)
        if check_flag(whole, "whole") and abs(amount / rate - round(amount / rate)) > ROUNDING:
            raise InvalidInput(
                f"In whole rounds a job must be a multiple of rate={rate:g}, got {amount:g}."
            )
        price = non_negative(move_cost, "move_cost")
        self._keep(low=low, high=high, amount=amount, rate=rate, move_cost=price, whole=whole)

    @property
    def units(self) -> int:
        """The least number of rounds that the job takes."""
        return math.ceil(self.amount / self.rate - ROUNDING)

    def cost(self, prices: ArrayLike, x: ArrayLike) -> Conversion:
        """Charge decisions.

        Parameters
        ----------
        prices : array_like
            The price of each round.
        x : array_like
            What each round converts.

        Returns
        -------
        Conversion
            What it costs.

        Examples
        --------
        >>> Job(1.0, 9.0, move_cost=0.5).cost([4.0, 2.0], [0.5, 0.5]).cost
        3.5
        """
        played = vector(x, "x")
        paid = vector(prices, "prices", len(played))
        moved = np.abs(np.diff(played, prepend=0.0, append=0.0)).sum()
        return Conversion(played, float(paid @ played), self.move_cost * float(moved))


def _check_job(job: Any) -> Job:
    """Return a job, or reject what is none."""
    return instance(job, "job", Job, "a Job such as Job(low=10, high=90)")


def _divide_extremes(job: Job, moves: float | None = None) -> float:
    """Divide the highest price, with moves at a price of a unit, by what the optimum must pay; by default move but once."""
    once = 2.0 * job.move_cost * job.rate / job.amount
    return (job.high + (once if moves is None else moves)) / (
        job.low + (once if job.whole else 0.0)
    )


class Conversion(NamedTuple):
    """Decisions of a job and what they cost.

    Parameters
    ----------
    x : array
        What each round converts.
    operating, switching : float
        What the prices charge, and what starts and stops charge.
    """

    x: Array
    operating: float
    switching: float

    @property
    def cost(self) -> float:
        """The total cost."""
        return self.operating + self.switching


class Threshold(NamedTuple):
    r"""A falling reservation price :math:`\varphi(w) = \beta + Y(w)` of the share w that is done, and its ratio.

    Parameters
    ----------
    ratio : float
        :math:`\alpha`.
    top : float
        What Y falls away from.
    drop : float
        How far below ``top`` it begins.
    limited : bool
        Whether a round converts only a part of the job.
    move_cost : float
        :math:`\beta`.
    """

    ratio: float
    top: float
    drop: float
    limited: bool
    move_cost: float

    def price(self, w: ArrayLike) -> Array:
        """Compute the reservation price at the share w.

        Parameters
        ----------
        w : array_like
            Shares of the job.

        Returns
        -------
        array
            The prices.
        """
        w = np.asarray(w, dtype=np.float64)
        a = self.ratio
        if not self.limited:
            return self.move_cost + self.top - self.drop * np.exp(w / a)
        left = a - (a - 1.0) * w
        return self.move_cost + self.top - self.drop * (a / left) ** (a / (a - 1.0))

    def share(self, price: float) -> float:
        """Compute the share up to which the reservation price is at least a price.

        Parameters
        ----------
        price : float
            The price.

        Returns
        -------
        float
            The share, between 0 and 1.
        """
        gap = self.top + self.move_cost - price
        if gap <= 0.0 or self.drop <= 0.0:
            return 0.0 if gap <= 0.0 else 1.0
        a = self.ratio
        growth = gap / self.drop
        w = a * math.log(growth)
        if self.limited:
            w = (a - a * growth ** (-(a - 1.0) / a)) / (a - 1.0)
        return min(1.0, max(0.0, w))


def ramp_threshold(job: Job) -> Threshold:
    r"""Find the threshold with the smallest ratio for a job that may convert any part in a round.

    With :math:`\varphi = \beta + Y`, whoever stops at the share z has paid at most
    :math:`\int_0^z \varphi + \beta z + (U + 2\beta)(1 - z)`, and the optimum pays at least Y(z). If one round can do all of it,
    both are in balance, :math:`\alpha Y(z)`, for

    .. math:: Y(z) = U - \Bigl(U - \frac{U + 2\beta}{\alpha}\Bigr) e^{z / \alpha}, \qquad
              \frac1\alpha = \frac{U}{U'} + W\Bigl(- \frac{U - L}{U'} e^{-U / U'}\Bigr), \quad U' = U + 2 \beta,

    with Lambert's W. This is the threshold of RORO by Lechowicz et al., *Online Conversion with Switching Costs* (2023), but
    that the moves of the rounds that are forced are charged, too; without a move cost it is one-way trading (El-Yaniv et
    al., 2001). If a round converts only a part, the optimum can also use rounds that were cheap for too short a time, and
    the ratio is larger; docs/theory.md has it.

    Parameters
    ----------
    job : Job
        The job.

    Returns
    -------
    Threshold
        The threshold, with its ratio.

    Examples
    --------
    >>> round(ramp_threshold(Job(1.0, 10.0)).ratio, 3), round(ramp_threshold(Job(1.0, 10.0, rate=0.1)).ratio, 3)
    (2.553, 2.81)
    """
    low, high, beta = _check_job(job).low, job.high, job.move_cost
    share = job.rate / job.amount
    # What runs at once, at full rate: any price is below the threshold.
    trivial = Threshold(_divide_extremes(job), math.inf, 0.0, True, beta)
    if high == low and beta == 0.0:
        return trivial._replace(ratio=1.0)
    if share == 1.0:
        from scipy.special import lambertw

        last = high + 2.0 * beta
        w = float(lambertw(-(high - low) / last * math.exp(-high / last)).real)
        ratio = 1.0 / (high / last + w)
        return Threshold(ratio, high, high - last / ratio, False, beta)
    # The moves of forced rounds are charged by the unit, or as one start and stop at full rate.
    known = [trivial]
    for base, moves in ((high, beta), (high - 2.0 * beta, beta * (1.0 + share))):
        if base > low:
            known.append(_limit_threshold(job, base, moves))
    return min(known, key=lambda each: each.ratio)


def _limit_threshold(job: Job, base: float, moves: float) -> Threshold:
    """Solve ``base - low == ((a - 1) low - 2 moves) a^(a / (a - 1))`` for the ratio a."""
    low = job.low

    def lacks(a: float) -> bool:
        power = a * math.log(a) / (a - 1.0)
        return ((a - 1.0) * low - 2.0 * moves) * math.exp(min(power, 500.0)) < base - low

    least = 1.0 + 2.0 * moves / low
    ratio = _bisect(lacks, least * (1.0 + 1e-15), least + (base - low) / low)
    top = (base + (ratio - 1.0) * low) / ratio
    first = base + 2.0 * moves
    return Threshold(ratio, top, top - first / ratio, True, job.move_cost)


def _bisect(is_below: Callable[[float], bool], low: float, high: float) -> float:
    """Return the least number above ``low`` that is not below, or ``high``."""
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        if not low < middle < high:
            break
        if is_below(middle):
            low = middle
        else:
            high = middle
    return high


def pause_thresholds(job: Job) -> tuple[float, Array]:
    r"""Find the ratio and the prices at which each unit of a whole job starts.

    The unit i is accepted at prices up to :math:`\ell_i` if the job rests, and up to :math:`\ell_i + 2 \beta` if it runs. With
    :math:`\ell_{k+1} = L` the prices and the ratio :math:`\alpha` solve, for j from 0 to k - 1,

    .. math:: \sum_{i \le j} (\ell_i + 2\beta) + (k - j) U + 2 \beta + (\alpha - 1) j (\ell_{j+1} - L)
              = \alpha (k \ell_{j+1} + 2 \beta), \qquad
              \sum_{i \le k} (\ell_i + 2\beta) = \alpha (k L + 2 \beta).

    The rule is the double threshold of Lechowicz et al., *The Online Pause and Resume Problem* (2023); its prices are solved
    anew. The term with :math:`\alpha - 1` is there because the optimum may use a cheap round, too, if only for one unit:
    without it, as in the closed form known for k-min search, a price that is low for one round exceeds the ratio.
    docs/theory.md has the proof.

    Parameters
    ----------
    job : Job
        A job in whole rounds.

    Returns
    -------
    tuple
        The ratio, and the prices, of shape (k,).

    Examples
    --------
    >>> ratio, prices = pause_thresholds(Job(1.0, 10.0, amount=3.0, rate=1.0, whole=True))
    >>> round(ratio, 3), prices.round(2).tolist()
    (2.979, [3.36, 3.07, 2.51])
    """
    k = _check_job(job).units
    low, high, beta = job.low, job.high, job.move_cost

    def solve(a: float) -> Array:
        prices = np.empty(k)
        paid = 0.0
        for j in range(k):
            known = paid + (k - j) * high + 2.0 * beta * (1.0 - a) - (a - 1.0) * j * low
            prices[j] = known / (a * k - (a - 1.0) * j)
            paid += prices[j] + 2.0 * beta
        return prices

    def lacks(a: float) -> bool:
        return float((solve(a) + 2.0 * beta).sum()) > a * (k * low + 2.0 * beta)

    # Running at once has this ratio; it is the better one where moves cost much.
    most = _divide_extremes(job)
    at_once = most, np.full(k, high)
    if lacks(most):
        return at_once
    ratio = _bisect(lacks, 1.0, most)
    prices = solve(ratio)
    falls = np.diff(prices, append=low) <= ROUNDING * high
    return (ratio, prices) if falls.all() else at_once


class ConversionRule(Config, ABC):
    """Base class of rules for a job.

    Parameters
    ----------
    job : Job
        The job.
    """

    job: Job

    def __init__(self, job: Job) -> None:
        self._keep(job=_check_job(job))

    @property
    def ratio(self) -> float:
        """The proved ratio: how many times the optimum it pays at most. No rule pays more than this one, which starts anew for
        every unit at the highest price."""
        return _divide_extremes(self.job, 2.0 * self.job.move_cost)

    @abstractmethod
    def choose(self, run: Run, price: float) -> float:
        """Choose what this round converts, before the deadline forces more.

        Parameters
        ----------
        run : Run
            What was done so far.
        price : float
            The price of this round.

        Returns
        -------
        float
            The amount.
        """

    def start(self, T: int) -> Run:
        """Begin a job of T rounds.

        Parameters
        ----------
        T : int
            The deadline: the number of rounds.

        Returns
        -------
        Run
            The job; its ``decide`` takes the price of each round.
        """
        return Run(self, T)


def _check_rule(rule: Any) -> ConversionRule:
    """Return a rule, or reject what is none."""
    return instance(rule, "rule", ConversionRule, "a rule such as RORO(Job(10, 90))")


def check_deadline(job: Job, T: int) -> None:
    """Reject a deadline that the job cannot meet."""
    if job.units > T:
        raise InvalidInput(
            f"A job of {job.amount:g} at rate={job.rate:g} takes {job.units} rounds, but its deadline is {T}."
        )


class Run:
    """A job that runs: tell it each price, and it says how much to convert.

    Parameters
    ----------
    rule : ConversionRule
        Who decides.
    T : int
        The deadline: the number of rounds.

    Examples
    --------
    >>> run = RORO(Job(1.0, 10.0)).start(3)
    >>> [round(run.decide(price), 3) for price in (3.0, 8.0, 2.0)]
    [0.358, 0.0, 0.642]
    """

    def __init__(self, rule: ConversionRule, T: int) -> None:
        self.rule = _check_rule(rule)
        self.T = size(T, "T")
        check_deadline(rule.job, self.T)
        self.x: list[float] = []
        self.prices: list[float] = []
        self.done = 0.0
        #: What prices and moves have charged so far.
        self.paid = 0.0
        #: What a rule remembers.
        self.memory: Any = None

    @property
    def held(self) -> float:
        """What the last round converted."""
        return self.x[-1] if self.x else 0.0

    @property
    def room(self) -> float:
        """The most that this round can convert."""
        return max(0.0, min(self.rule.job.rate, self.rule.job.amount - self.done))

    @property
    def need(self) -> float:
        """The least that this round must convert, so that the deadline is met."""
        job = self.rule.job
        later = job.rate * (self.T - len(self.x) - 1)
        need = job.amount - self.done - later
        return min(need, self.room) if need > ROUNDING * job.amount else 0.0

    def decide(self, price: float) -> float:
        """Decide what this round converts.

        Parameters
        ----------
        price : float
            The price of the round.

        Returns
        -------
        float
            The amount.
        """
        if len(self.x) == self.T:
            raise InvalidInput(f"The deadline was round {self.T}. Start another job.")
        wish = self.rule.choose(self, price)
        x = min(self.room, max(self.need, wish))
        if self.rule.job.whole:
            x = self.room if x > 0.5 * self.rule.job.rate else 0.0
        self.paid += price * x + self.rule.job.move_cost * abs(x - self.held)
        self.x.append(x)
        self.prices.append(price)
        self.done += x
        return x


def convert(rule: ConversionRule, prices: ArrayLike) -> Conversion:
    """Play a rule on the prices of a job; the deadline is their number.

    Parameters
    ----------
    rule : ConversionRule
        Who decides.
    prices : array_like
        The price of each round.

    Returns
    -------
    Conversion
        The decisions and what they cost.

    Examples
    --------
    >>> job = Job(1.0, 10.0, move_cost=0.5)
    >>> convert(RORO(job), [3.0, 8.0, 2.0]).x.round(3).tolist(), round(convert(RunAtOnce(job), [3.0, 8.0, 2.0]).cost, 3)
    ([0.183, 0.0, 0.817], 4.0)
    """
    series = vector(prices, "prices")
    run = _check_rule(rule).start(len(series))
    for price in series.tolist():
        run.decide(price)
    return rule.job.cost(series, run.x)


def best_conversion(job: Job, prices: ArrayLike) -> Conversion:
    """Find the cheapest decisions when all prices are known: by a linear programme, or by dynamic programming in whole rounds.

    Parameters
    ----------
    job : Job
        The job.
    prices : array_like
        The price of each round.

    Returns
    -------
    Conversion
        The decisions and what they cost.

    Examples
    --------
    >>> best_conversion(Job(1.0, 10.0, move_cost=0.5), [3.0, 8.0, 2.0]).cost
    3.0
    """
    series = vector(prices, "prices")
    check_deadline(_check_job(job), len(series))
    x = _plan_units(job, series) if job.whole else _plan_amounts(job, series)
    return job.cost(series, x)


def _plan_amounts(job: Job, prices: Array) -> Array:
    """Solve for what each round converts and by how much it rises; what rises falls again, so a rise costs twice."""
    from scipy.sparse import eye_array, hstack

    T = len(prices)
    rises = eye_array(T) - eye_array(T, k=-1)
    found = solve_linear(
        np.concatenate((prices, np.full(T, 2.0 * job.move_cost))),
        A_ub=hstack((rises, -eye_array(T)), format="csr"),
        b_ub=np.zeros(T),
        A_eq=np.concatenate((np.ones(T), np.zeros(T)))[None],
        b_eq=[job.amount],
        bounds=[(0.0, job.rate)] * T + [(0.0, None)] * T,
    )
    if not found.success:
        raise ArithmeticError(f"The optimum was not found: {found.message}")
    return found.x[:T]


def _plan_units(job: Job, prices: Array) -> Array:
    """Go through all rounds, with the least cost of every number of units done, at rest and running."""
    T, k = len(prices), job.units
    fee = job.move_cost
    cost = np.full((2, k + 1), math.inf)
    cost[0, 0] = 0.0
    came_from = np.empty((T, 2, k + 1), dtype=np.int8)
    for t, price in enumerate(prices.tolist()):
        rest = np.stack((cost[0], cost[1] + fee))
        go = np.stack((cost[0] + fee, cost[1])) + price
        came_from[t, 0] = rest.argmin(axis=0)
        came_from[t, 1, 1:] = go[:, :-1].argmin(axis=0)
        cost = np.full((2, k + 1), math.inf)
        cost[0] = rest.min(axis=0)
        cost[1, 1:] = go[:, :-1].min(axis=0)
    x = np.zeros(T)
    state, done = int(np.argmin(cost[:, k] + (0.0, fee))), k
    for t in range(T - 1, -1, -1):
        x[t] = job.rate * state
        before = int(came_from[t, state, done])
        done -= state
        state = before
    return x


class RunAtOnce(ConversionRule):
    """Convert as fast as possible, whatever the price: what people do who do not look at prices.

    Its ratio is that of the highest price, with its moves, to the lowest.

    Parameters
    ----------
    job : Job
        The job.

    Examples
    --------
    >>> convert(RunAtOnce(Job(1.0, 9.0, rate=0.5)), [4.0, 2.0, 1.0]).x.tolist()
    [0.5, 0.5, 0.0]
    """

    @property
    def ratio(self) -> float:
        return _divide_extremes(self.job)

    def choose(self, run: Run, price: float) -> float:
        return self.job.rate


class SpreadEvenly(ConversionRule):
    """Convert the same amount in every round; in whole rounds, as evenly as they allow.

    Parameters
    ----------
    job : Job
        The job.

    Examples
    --------
    >>> convert(SpreadEvenly(Job(1.0, 9.0)), [4.0, 2.0]).x.tolist()
    [0.5, 0.5]
    """

    def choose(self, run: Run, price: float) -> float:
        return self.job.amount * (len(run.x) + 1) / run.T - run.done


class FollowPlan(ConversionRule):
    """Convert what a plan says, such as the optimum for the prices that were forecast.

    Parameters
    ----------
    job : Job
        The job.
    plan : array_like
        What each round converts.

    Examples
    --------
    >>> convert(FollowPlan(Job(1.0, 9.0), [0.0, 1.0]), [4.0, 2.0]).cost
    2.0
    """

    plan: Array

    def __init__(self, job: Job, plan: ArrayLike) -> None:
        super().__init__(job)
        values = vector(plan, "plan")
        if values.min() < 0.0 or values.max() > job.rate * (1.0 + ROUNDING):
            raise InvalidInput(f"plan must be between 0 and rate={job.rate:g} in every round.")
        if abs(values.sum() - job.amount) > ROUNDING * len(values) * job.amount:
            raise InvalidInput(
                f"plan must sum to amount={job.amount:g}, got {float(values.sum()):g}."
            )
        self._keep(plan=values)

    def choose(self, run: Run, price: float) -> float:
        return float(self.plan[len(run.x)])

    def start(self, T: int) -> Run:
        if len(self.plan) != T:
            raise InvalidInput(f"plan must have {T} rounds, got {len(self.plan)}.")
        return super().start(T)


class RORO(ConversionRule):
    r"""Ramp on, ramp off: the cheapest response to the price, when every share done is worth its reservation price.

    .. math:: x_t = \arg\min_x\; p_t x + \beta |x - x_{t-1}| - \int_{z_{t-1}}^{z_{t-1} + x} \varphi(w)\, dw, \qquad
              0 \le x \le \min(\mathrm{rate}, \mathrm{amount} - z_{t-1}),

    with :math:`z_t` the sum of :math:`x_1` to :math:`x_t` and :math:`\varphi` of :func:`ramp_threshold`. So it holds its
    rate as long as :math:`\varphi(z_t)` is within :math:`\beta` of the price. It pays at most ``ratio`` times the optimum
    for all prices from ``low`` to ``high``: Lechowicz, Christianson, Sun, Bashir, Hajiesmaili, Wierman and Shenoy, *Online
    Conversion with Switching Costs: Robust and Learning-Augmented Algorithms* (2023). Do not use it where prices repeat
    themselves from day to day: a plan for yesterday's prices, or :class:`CLIP` with it, pays less.

    Parameters
    ----------
    job : Job
        The job; not in whole rounds.

    Examples
    --------
    >>> rule = RORO(Job(1.0, 10.0, move_cost=0.2))
    >>> round(rule.ratio, 3), convert(rule, [4.0, 3.0, 3.2, 9.0, 2.0]).x.round(3).tolist()
    (2.822, [0.0, 0.291, 0.079, 0.0, 0.63])
    """

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        if job.whole:
            raise InvalidInput(
                "job must not be in whole rounds. PauseResume is the rule for those."
            )

    @cached_property
    def threshold(self) -> Threshold:
        """Its threshold."""
        return ramp_threshold(self.job)

    @property
    def ratio(self) -> float:
        return self.threshold.ratio

    def choose(self, run: Run, price: float) -> float:
        return choose_amount(self.threshold, self.job, run.done, run.held, price)


def choose_amount(
    threshold: Threshold, job: Job, done: float, held: float, price: float
) -> float:
    """Return the response of :class:`RORO` to a price, where so much is done and the last round held so much."""
    least = job.amount * threshold.share(price + job.move_cost) - done
    most = job.amount * threshold.share(price - job.move_cost) - done
    return min(job.rate, max(0.0, least, min(most, held)))


class PauseResume(ConversionRule):
    r"""Start below one price, stop above another, in whole rounds.

    With i - 1 units done it runs if :math:`p_t \le \ell_i`, or, if it already runs, if :math:`p_t \le \ell_i + 2\beta`. The
    prices are those of :func:`pause_thresholds`, and it pays at most ``ratio`` times the optimum for all prices from ``low``
    to ``high``. For a job of one round, without a fee, it waits for :math:`\sqrt{LU}`, the reservation price of El-Yaniv et
    al. The rule is that of Lechowicz et al., *The Online Pause and Resume Problem* (2023). Do not use it where prices repeat
    themselves, as :class:`RORO`.

    Parameters
    ----------
    job : Job
        The job, in whole rounds.

    Examples
    --------
    >>> rule = PauseResume(Job(1.0, 10.0, amount=2.0, rate=1.0, move_cost=0.5, whole=True))
    >>> round(rule.ratio, 3), convert(rule, [5.0, 2.5, 3.0, 2.0, 9.0]).x.tolist()
    (2.742, [0.0, 1.0, 1.0, 0.0, 0.0])
    """

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        if not job.whole:
            raise InvalidInput("job must be in whole rounds: Job(..., whole=True). Or use RORO.")

    @cached_property
    def _solved(self) -> tuple[float, Array]:
        return pause_thresholds(self.job)

    @property
    def thresholds(self) -> Array:
        """The price at which each unit starts."""
        return self._solved[1]

    @property
    def ratio(self) -> float:
        return self._solved[0]

    def choose(self, run: Run, price: float) -> float:
        unit = round(run.done / self.job.rate)
        if unit >= self.job.units:
            return 0.0
        runs = 2.0 * self.job.move_cost if run.held > 0.0 else 0.0
        return self.job.rate if price <= self.thresholds[unit] + runs else 0.0


def clip_threshold(job: Job, epsilon: float) -> Threshold:
    r"""Find the threshold of :class:`CLIP`, which leaves a part of the job to the advice.

    It is that of :func:`ramp_threshold` for a larger ratio :math:`\gamma`, so it buys later. Where its price reaches
    ``low``, the share p is done, and for the rest the advice may be right. With :math:`U' = U + 2\beta`,

    .. math:: \gamma L = (1 + \epsilon) L + (1 - p) (U' - L), \qquad
              p = \gamma \ln \frac{U - L}{U - U' / \gamma} .

    Without a move cost this is the equation of the paper.

    Parameters
    ----------
    job : Job
        The job; its rate is not looked at.
    epsilon : float
        The knob, above 0. From :math:`\alpha - 1` on, the ratio is :math:`\alpha` and the advice matters little.

    Returns
    -------
    Threshold
        The threshold; its ratio is :math:`\gamma`.

    Examples
    --------
    >>> [round(clip_threshold(Job(1.0, 10.0), epsilon).ratio, 2) for epsilon in (0.1, 0.5, 1.0, 2.0)]
    [6.62, 4.19, 3.14, 2.55]
    """
    low, high = _check_job(job).low, job.high
    last = high + 2.0 * job.move_cost
    least = ramp_threshold(job.replace(rate=job.amount, whole=False)).ratio
    epsilon = positive(epsilon, "epsilon")

    def buys_too_early(ratio: float) -> bool:
        share = ratio * math.log((high - low) / (high - last / ratio))
        return ratio * low > (1.0 + epsilon) * low + (1.0 - share) * (last - low)

    ratio = least
    if high > low and epsilon < least - 1.0:
        ratio = _bisect(buys_too_early, least, last / low)
    return Threshold(ratio, high, high - last / ratio, False, job.move_cost)


class CLIP(FollowPlan):
    r"""Follow a threshold, as long as that leaves the way to :math:`1 + \epsilon` times the cost of a plan open.

    It responds as :class:`RORO` does, with :func:`clip_threshold`, but only among the decisions that satisfy

    .. math:: C_t + 2 \beta (a_t - x_t)^+ + U' (A_t - z_t)^+ - L (z_t - A_t)^+ \le (1 + \epsilon) D_t
              + \epsilon L (1 - A_t), \qquad U' = U + 2 \beta,

    where the plan converts :math:`a_t`, in all :math:`A_t`, and would have paid :math:`D_t` if it stopped now; the rule has
    converted :math:`z_t` and would have paid :math:`C_t`, all as shares of the job. Who satisfies it can go over to the plan,
    whatever comes: what is missing costs at most U', what is done already saves at least L. So it pays at most
    :math:`1 + \epsilon` times what the plan pays, which docs/theory.md proves. The threshold counts only what it would have
    bought itself.

    The rule is that of Lechowicz, Christianson, Sun, Bashir, Hajiesmaili, Wierman and Shenoy, *Chasing Convex Functions with
    Long-term Constraints* (2024); without good advice its ratio is :math:`\gamma`, for jobs that one round can do, without a
    move cost. For others only the ratio of every rule is known here. Do not use it if nobody knows more of the next prices
    than their bounds.

    Parameters
    ----------
    job : Job
        The job; not in whole rounds.
    plan : array_like
        What the advice converts in each round, such as the ``x`` of :func:`best_conversion` for forecast prices.
    epsilon : float, optional
        How much more than the plan it may pay. Default: 0.5.

    Examples
    --------
    >>> job = Job(1.0, 10.0)
    >>> rule = CLIP(job, plan=[0.0, 0.0, 1.0], epsilon=0.1)
    >>> convert(rule, [4.0, 2.0, 1.5]).x.round(3).tolist(), round(convert(rule, [4.0, 1.2, 9.0]).cost, 3)
    ([0.0, 0.0, 1.0], 7.14)
    """

    epsilon: float

    def __init__(self, job: Job, plan: ArrayLike, epsilon: float = 0.5) -> None:
        super().__init__(RORO(job).job, plan)
        self._keep(epsilon=positive(epsilon, "epsilon"))

    @cached_property
    def threshold(self) -> Threshold:
        """Its threshold."""
        return clip_threshold(self.job, self.epsilon)

    @property
    def ratio(self) -> float:
        is_proved = self.job.rate == self.job.amount and self.job.move_cost == 0.0
        return self.threshold.ratio if is_proved else super().ratio

    def choose(self, run: Run, price: float) -> float:
        job = self.job
        fee = job.move_cost
        prices = [*run.prices, price]
        plan = self.plan[: len(prices)]
        advised = float(plan.sum())
        allowed = (1.0 + self.epsilon) * job.cost(prices, plan).cost
        allowed += (self.epsilon * (job.amount - advised) + ROUNDING * job.amount) * job.low

        def exceeds(x: float) -> bool:
            total = run.paid + price * x + fee * (abs(x - run.held) + x)
            ahead = run.done + x - advised
            total -= ahead * (job.low if ahead > 0.0 else job.high + 2.0 * fee)
            # Who has done all of it need not start with the plan.
            if run.done + x < job.amount * (1.0 - ROUNDING):
                total += 2.0 * fee * max(0.0, plan[-1] - x)
            return total > allowed

        own = run.memory or 0.0
        wish = choose_amount(self.threshold, job, own, run.held, price)
        x = min(run.room, max(run.need, wish))
        follow = min(run.room, max(run.need, float(plan[-1])))
        if exceeds(x):
            # What is allowed is an interval with `follow` in it.
            x += (follow - x) * _bisect(lambda share: exceeds(x + share * (follow - x)), 0.0, 1.0)
        run.memory = own + min(wish, x)
        return x
