"""Cost families without data: what a round costs once its row is known."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from klazy.base.checks import Array, positive, real_array, refusal
from klazy.base.config import Config
from klazy.sets import ConvexSet

__all__ = [
    "Family",
    "Linear",
    "LogWealth",
    "Pinball",
    "Quadratic",
    "Rewards",
]

ROUNDING = 1e-10  # of a mean square, below which a variance is nothing but the rounding of sums
EPS = float(np.finfo(np.float64).eps)
ROOT_2_PI = float(np.sqrt(2.0 * np.pi))


class Family(Config, ABC):
    """Base class of cost families: what a round costs, given its row of data.

    All methods act on the last axis and are batched over all others. Rules of thumb average what :meth:`moments` makes of
    the rows; :meth:`lowest` is the point that would have been best for such an average, :meth:`expected` what a point would
    have cost a round.

    Examples
    --------
    >>> demand, stock = np.array([57.0]), np.array([50.0])
    >>> Pinball(short=4.0).gradient(demand, stock).tolist()
    [-4.0]
    """

    positive: ClassVar[bool] = False  # whether the numbers of a row must be above zero

    def check(self, dim: int) -> None:
        """Refuse parameters that do not fit rows of this length.

        Parameters
        ----------
        dim : int
            The length of a row.

        Raises
        ------
        ValueError
            If they do not fit.
        """

    @abstractmethod
    def value(self, row: Array, x: Array) -> Array:
        """Compute what a decision costs.

        Parameters
        ----------
        row : array
            The row of the round.
        x : array
            The decision.

        Returns
        -------
        array
            The cost.
        """

    @abstractmethod
    def gradient(self, row: Array, x: Array) -> Array:
        """Compute a subgradient of the cost at a decision.

        Parameters
        ----------
        row : array
            The row of the round.
        x : array
            The decision.

        Returns
        -------
        array
            An element of the subdifferential at x.
        """

    def drift(self, row: Array, x: Array) -> Array:
        """Give where a decision stands once the round is over: where it was, unless the row carries it away.

        Parameters
        ----------
        row : array
            The row of the round.
        x : array
            The decision.

        Returns
        -------
        array
            The position after the round.
        """
        return x

    def moments(self, row: Array) -> Array:
        """Give what is averaged over rounds: the row, unless the family says otherwise.

        Parameters
        ----------
        row : array
            The row of a round.

        Returns
        -------
        array
            Its moments.
        """
        return row

    def width(self, d: int) -> int:
        """Count the moments of a row.

        Parameters
        ----------
        d : int
            The length of a row.

        Returns
        -------
        int
            The number of moments.
        """
        return d

    @abstractmethod
    def lowest(self, domain: ConvexSet, means: Array) -> Array:
        """Find the points of a set that are best for averages of rounds.

        Parameters
        ----------
        domain : ConvexSet
            Where decisions live.
        means : array
            Averages of moments.

        Returns
        -------
        array
            The best point for each.
        """

    @abstractmethod
    def expected(self, means: Array, x: Array) -> Array:
        """Compute what a decision costs a round, if rounds are as on average.

        Parameters
        ----------
        means : array
            Averages of moments.
        x : array
            The decision.

        Returns
        -------
        array
            The cost, up to what costs every decision alike.
        """


class Linear(Family):
    r"""Charge a price per unit, :math:`f(x) = \langle g, x \rangle`; the row is the prices g.

    Examples
    --------
    >>> float(Linear().value(np.array([1.0, 2.0]), np.array([0.5, 0.5])))
    1.5
    """

    def __init__(self) -> None:
        self._keep()

    def value(self, row: Array, x: Array) -> Array:
        return np.vecdot(row, x)

    def gradient(self, row: Array, x: Array) -> Array:
        return row

    def lowest(self, domain: ConvexSet, means: Array) -> Array:
        return domain.lowest(means)

    def expected(self, means: Array, x: Array) -> Array:
        return np.vecdot(means, x)


class Rewards(Family):
    r"""Earn a reward per unit, :math:`f(x) = -\langle r, x \rangle`; the row is what a unit of each coordinate earns.

    Examples
    --------
    >>> float(Rewards().value(np.array([1.0, 2.0]), np.array([0.5, 0.5])))
    -1.5
    """

    def __init__(self) -> None:
        self._keep()

    def value(self, row: Array, x: Array) -> Array:
        return -np.vecdot(row, x)

    def gradient(self, row: Array, x: Array) -> Array:
        return -row

    def moments(self, row: Array) -> Array:
        return -row

    def lowest(self, domain: ConvexSet, means: Array) -> Array:
        return domain.lowest(means)

    def expected(self, means: Array, x: Array) -> Array:
        return np.vecdot(means, x)


class Quadratic(Family):
    r"""Charge the squared distance to a target, :math:`f(x) = \tfrac{w}{2} \|x - c\|^2`; the row is the target c.

    Parameters
    ----------
    weight : float, optional
        The weight w > 0. Default: 1.

    Raises
    ------
    ValueError
        If the weight is not above zero.

    Examples
    --------
    >>> float(Quadratic(weight=2.0).value(np.array([1.0]), np.array([4.0])))
    9.0
    """

    weight: float

    def __init__(self, weight: float = 1.0) -> None:
        self._keep(weight=positive(weight, "weight", "Quadratic"))

    def value(self, row: Array, x: Array) -> Array:
        gap = x - row
        return 0.5 * self.weight * np.vecdot(gap, gap)

    def gradient(self, row: Array, x: Array) -> Array:
        return self.weight * (x - row)

    def lowest(self, domain: ConvexSet, means: Array) -> Array:
        return domain.nearest(means)

    def expected(self, means: Array, x: Array) -> Array:
        return self.value(means, x)


class Pinball(Family):
    r"""Charge for too little and for too much, :math:`f(x) = \sum_i s_i (c_i - x_i)^+ + e_i (x_i - c_i)^+`.

    The row is the demand c. An average is that of the demand and of its square, and stands for a normal demand with these
    moments.

    Parameters
    ----------
    short : array_like, optional
        What a unit too little costs, s: one number, or one per coordinate. Default: 1.
    excess : array_like, optional
        What a unit too much costs, e, likewise. Default: 1.

    Raises
    ------
    ValueError
        If a price is negative.

    Examples
    --------
    >>> float(Pinball(short=4.0).value(np.array([57.0]), np.array([50.0])))
    28.0
    """

    short: Array
    excess: Array

    def __init__(self, short: ArrayLike = 1.0, excess: ArrayLike = 1.0) -> None:
        prices = {}
        for name, given in (("short", short), ("excess", excess)):
            price = np.atleast_1d(real_array(given, name, "Pinball"))
            if price.ndim != 1 or price.size == 0 or (price < 0).any():
                raise refusal("Pinball", f"{name} >= 0", name, given, "a negative price is not convex")
            if (price == price[0]).all():
                price = price[:1]
            prices[name] = price
        self._keep(**prices)

    def check(self, dim: int) -> None:
        for name, price in (("short", self.short), ("excess", self.excess)):
            if price.size not in (1, dim):
                remedy = "give one number, or one per coordinate"
                raise refusal("Pinball", f"one {name} or {dim} of them", name, price.tolist(), remedy)

    def value(self, row: Array, x: Array) -> Array:
        return (self.short * np.maximum(row - x, 0.0) + self.excess * np.maximum(x - row, 0.0)).sum(axis=-1)

    def gradient(self, row: Array, x: Array) -> Array:
        return np.where(x > row, self.excess, np.where(x < row, -self.short, 0.0))

    def moments(self, row: Array) -> Array:
        return np.concatenate((row, row**2), axis=-1)

    def width(self, d: int) -> int:
        return 2 * d

    def fit_normal(self, means: Array) -> tuple[Array, Array]:
        """Fit a normal demand to averages of moments; a variance that is only the rounding of sums counts as none.

        Parameters
        ----------
        means : array
            Averages of the demand and of its square.

        Returns
        -------
        mean : array
            The mean demand.
        spread : array
            Its standard deviation.
        """
        mean, square = np.split(means, 2, axis=-1)
        variance = square - mean**2
        return mean, np.sqrt(np.where(variance > ROUNDING * square, variance, 0.0))

    def find_quantiles(self) -> Array:
        """Find how far above its mean a normal demand is best met, in standard deviations.

        Returns
        -------
        array
            One number, or one per coordinate.
        """
        from scipy.special import ndtri

        prices = self.short + self.excess
        # in this share of the rounds the best point is enough; where one price is zero, in all but none
        enough = self.short / np.where(prices > 0.0, prices, 1.0)
        return ndtri(np.clip(enough, EPS, 1.0 - EPS))

    def lowest(self, domain: ConvexSet, means: Array) -> Array:
        """Find the best stock for a normal demand: exact on a box; elsewhere the set's point nearest to the best of all.

        Parameters
        ----------
        domain : ConvexSet
            Where decisions live.
        means : array
            Averages of the demand and of its square.

        Returns
        -------
        array
            The best point for each.
        """
        mean, spread = self.fit_normal(means)
        return domain.nearest(mean + self.find_quantiles() * spread)

    def expected(self, means: Array, x: Array) -> Array:
        from scipy.special import ndtr

        mean, spread = self.fit_normal(means)
        z = (x - mean) / np.where(spread > 0.0, spread, 1.0)
        density = np.exp(-0.5 * z**2) / ROOT_2_PI
        certain = np.maximum(mean - x, 0.0)
        missed = np.where(spread > 0.0, spread * (density - z * ndtr(-z)), certain)
        return (self.excess * (x - mean) + (self.short + self.excess) * missed).sum(axis=-1)


class LogWealth(Family):
    r"""Charge the growth that a portfolio misses, :math:`f(x) = -\log \langle r, x \rangle`; the row is price relatives r > 0.

    An average is that of the logarithms: it ranks single assets.

    Examples
    --------
    >>> round(float(LogWealth().value(np.array([2.0, 1.0]), np.array([0.5, 0.5]))), 6)
    -0.405465
    """

    positive: ClassVar[bool] = True

    def __init__(self) -> None:
        self._keep()

    def value(self, row: Array, x: Array) -> Array:
        with np.errstate(invalid="ignore", divide="ignore"):
            return -np.log(np.vecdot(row, x))

    def gradient(self, row: Array, x: Array) -> Array:
        return -row / np.vecdot(row, x)[..., None]

    def drift(self, row: Array, x: Array) -> Array:
        """Give the shares after prices have changed: what rose is a larger part of the wealth.

        Parameters
        ----------
        row : array
            The price relatives of the round.
        x : array
            The shares before.

        Returns
        -------
        array
            The shares after.

        Examples
        --------
        >>> LogWealth().drift(np.array([3.0, 1.0]), np.array([0.5, 0.5])).tolist()
        [0.75, 0.25]
        """
        worth = row * x
        return worth * (x.sum(axis=-1) / worth.sum(axis=-1))[..., None]

    def moments(self, row: Array) -> Array:
        return -np.log(row)

    def lowest(self, domain: ConvexSet, means: Array) -> Array:
        return domain.lowest(means)

    def expected(self, means: Array, x: Array) -> Array:
        return np.vecdot(means, x)
