"""Cost families: what a round costs once its row is known, and all else that klazy knows of such costs.

A family is one class. It needs ``value`` and ``gradient``; everything else has a default or is optional, and makes klazy
faster, or more exact, where it is given. :meth:`Family.costs` makes costs of rows, its part of compiled runs is in
``kernels/costs.py``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from klazy.base.checks import Array, InvalidInput, positive, real_array
from klazy.base.config import Config
from klazy.kernels import codes
from klazy.sets import ConvexSet

if TYPE_CHECKING:
    from klazy.costs import Costs

# What is smaller than this, or not above zero, is no price relative; and what is larger than this, or its inverse, neither.
SMALL_QUOTE = 0.25
LARGE_RELATIVE = 3.0
# Rows from which on prices are told from relatives by how they move, and the ratio of squares below which they are prices.
WALK_ROWS = 30
WALK_RATIO = 0.5

__all__ = [
    "Linear",
    "LogWealth",
    "Pinball",
    "Quadratic",
    "Rewards",
]

# A variance below this share of a mean square is only the rounding of sums.
LEAST_VARIANCE = 1e-10
EPS = float(np.finfo(np.float64).eps)
TINY = float(np.finfo(np.float64).tiny)
ROOT_2_PI = float(np.sqrt(2.0 * np.pi))
LOWEST_STEPS = 400  # steps of the search for a lowest point
# A step that leads out of the set is made at most this many times as long.
LONGER = 1e3
# Each step is this much shorter than the one before: the last is 1e-9 of the first.
SHORTER = 0.95

# e and h, where e + <h, x> is below the cost at every x.
Minorant = tuple[Array, Array]


class Family(Config, ABC):
    r"""Base class of cost families: what a round costs, given its row of data.

    To make your own, derive from it and define :meth:`value`, which must be convex in x, and :meth:`gradient`. All methods act
    on the last axis and are batched over all others. That is enough for :meth:`costs`, runs, :func:`~klazy.auto`, agents,
    replays, and optima by cutting planes. Define more where you can:

    - :meth:`prox`, or :meth:`affine` where that will do: optima of thousands of rounds are then found by splitting. Where the
      cost has kinks, define :meth:`minorant` too.
    - :meth:`moments`, :meth:`width`, :meth:`expected` and :meth:`lowest`, together: what rules of thumb average, and what they
      make of it.

    A subclass that overrides ``value`` inherits none of these: it computes something else.

    Examples
    --------
    >>> demand, stock = np.array([57.0]), np.array([50.0])
    >>> Pinball(short=4.0).gradient(demand, stock).tolist()
    [-4.0]
    >>> class Cubic(Family):
    ...     def value(self, row, x):
    ...         return (np.abs(x - row) ** 3).sum(axis=-1)
    ...
    ...     def gradient(self, row, x):
    ...         return 3.0 * (x - row) * np.abs(x - row)
    >>> best = offline_optimum(Cubic().costs([[0.0], [1.0], [1.0]]), Box(0, 1), "l1", gap=1e-3)
    >>> round(best.cost, 3)
    0.343
    """

    # the code of its kernel part; not inherited
    code: ClassVar[int | None] = None
    # numbers that a row has after those of the coordinates
    extras: ClassVar[int] = 0
    # whether the numbers of a row must be above zero
    positive: ClassVar[bool] = False
    # whether a row is a point that decisions should be near: a demand, a target
    near_rows: ClassVar[bool] = False
    # what a row is where rounds can be averaged: "gradients", "targets" of Quadratic or "demands" of Pinball
    rows_are: ClassVar[str] = "gradients"
    # whether auto may forecast from the average of moments: it must be the gradient of `expected`, as of Linear
    has_forecast: ClassVar[bool] = False
    # whether it says what the rounds averaged have cost, without error
    is_exact: ClassVar[bool] = False

    _rests_on: ClassVar[dict[str, str]] = dict.fromkeys(
        (
            "near_rows", "rows_are", "has_forecast", "is_exact", "prox", "affine", "minorant", "steepness", "coordinate",
            "moments", "width", "lowest", "expected", "arrays",
        ),
        "value",
    )  # fmt: skip

    def check(self, dim: int) -> None:
        """Reject parameters that do not fit rows of this length.

        Parameters
        ----------
        dim : int
            The number of coordinates.

        Raises
        ------
        ValueError
            If they do not fit.
        """

    def check_rows(self, rows: Array, name: str) -> None:
        """Reject rows that have no such cost.

        Parameters
        ----------
        rows : array
            One row, or one per round.
        name : str
            What they are called.

        Raises
        ------
        ValueError
            If numbers are not above zero that must be.
        """
        if self.positive and rows.min() <= 0.0:
            message = f"{name} must be above 0, got {rows.min()}. Divide each price by the one before it."
            raise InvalidInput(message)

    def costs(self, rows: ArrayLike) -> Costs:
        """Make costs of rows.

        Parameters
        ----------
        rows : array_like
            One row per round.

        Returns
        -------
        Costs
            What each round costs.

        Raises
        ------
        ValueError
            If the rows do not fit the family.

        Examples
        --------
        >>> Rewards().costs([[1.0, 2.0], [3.0, 0.0]]).value(2, np.array([0.5, 0.5]))
        -1.5
        """
        from klazy.costs import FamilyCosts

        return FamilyCosts(self, rows)

    def arrays(self, rows: Array) -> tuple[Array, Array, Array]:
        """Give the arrays that its kernel part reads.

        Parameters
        ----------
        rows : array
            One row per round.

        Returns
        -------
        data : array
            Of shape (T, d).
        extra : array
            One number per round, or one for all.
        parameters : array
            Numbers that hold for all rounds.
        """
        return rows, np.zeros(1), np.zeros(1)

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

    def steepness(self, row: Array, x: Array) -> Array:
        """Compute how steep the cost is at a decision.

        Parameters
        ----------
        row : array
            The row of the round.
        x : array
            The decision.

        Returns
        -------
        array
            The norm of a subgradient.
        """
        return _norm(self.gradient(row, x))

    def minorant(self, row: Array, v: Array, h: Array) -> Minorant:
        """Give an affine function below the cost: the tangent at a point, unless the family knows a better one.

        Parameters
        ----------
        row : array
            The row of the round.
        v : array
            Where it should touch: a proximal step from a point a with penalty r.
        h : array
            r (a - v), a subgradient there as far as the step is exact.

        Returns
        -------
        e : array
            Its value at zero.
        slope : array
            Its slope; e + <slope, x> <= f(x) must hold at every x, for all v and h.
        """
        slope = self.gradient(row, v)
        return self.value(row, v) - np.vecdot(slope, v), slope

    def prox(self, row: Array, a: Array, r: float) -> Array:
        r"""Take a proximal step, :math:`\arg\min_v f(v) + \tfrac{r}{2} \|v - a\|^2`. By default it is made of :meth:`affine`.

        Parameters
        ----------
        row : array
            The rows of some rounds, of shape (n, width).
        a : array
            Where each step begins, of shape (n, d).
        r : float
            The penalty.

        Returns
        -------
        array
            The steps, of shape (n, d).
        """
        shrink, shift = self.affine(row, r)
        return shrink[:, None] * a + shift

    def affine(self, row: Array, r: float) -> tuple[Array, Array]:
        """Give the proximal step as shrink * a + shift, where its projection is best on every set: equal curvature everywhere.

        Parameters
        ----------
        row : array
            The rows of some rounds, of shape (n, width).
        r : float
            The penalty.

        Returns
        -------
        shrink : array
            Of shape (n,) or (1,).
        shift : array
            Of shape (n, d).
        """
        raise NotImplementedError(
            f"{type(self).__name__} has no proximal step; define prox or affine."
        )

    @property
    def has_affine(self) -> bool:
        """Whether :meth:`affine` is defined."""
        return type(self).affine is not Family.affine

    @property
    def has_prox(self) -> bool:
        """Whether the proximal step is known."""
        return self.has_affine or type(self).prox is not Family.prox

    def coordinate(self, i: int) -> Family | None:
        """Give the costs of one coordinate alone.

        Parameters
        ----------
        i : int
            The coordinate.

        Returns
        -------
        Family or None
            The family of costs in one dimension; None if the cost is not a sum over coordinates.
        """
        return None

    def drift(self, row: Array, x: Array) -> Array:
        """Give the point of a decision after the round: where it was, unless the row carries it away.

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
        """Give what to average over rounds: the row, unless the family says otherwise.

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
            The number of coordinates.

        Returns
        -------
        int
            The number of moments.
        """
        return d + self.extras

    def lowest(self, domain: ConvexSet, means: Array) -> Array:
        """Find the points of a set that are best for averages of rounds.

        By default it searches by 400 steps along gradients, each shorter than the one before: slow, and exact to a few digits.

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
        x = np.broadcast_to(domain.start, (*means.shape[:-1], domain.dim))
        best = x
        least = self.expected(means, x)
        length = domain.scale
        for _ in range(LOWEST_STEPS):
            g = self.gradient(means, x)
            size = _norm(g)
            step = g * (length / np.where(size > 0.0, size, 1.0))[..., None]
            # If most of a step leads out of the set, the part inside is made as long as the whole.
            left = _norm(domain.nearest(x - step) - x)
            x = domain.nearest(x - step * (length / np.maximum(left, length / LONGER))[..., None])
            length *= SHORTER
            cost = self.expected(means, x)
            better = cost < least
            best = np.where(better[..., None], x, best)
            least = np.where(better, cost, least)
        return best

    def expected(self, means: Array, x: Array) -> Array:
        """Compute what a decision costs a round, if rounds are as on average.

        By default it is what the average row costs, the best guess that can be made without knowing more: convex costs of a row
        that varies are higher.

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
        return self.value(means, x)


def _norm(g: Array) -> Array:
    return np.sqrt(np.einsum("...i,...i->...", g, g))


class Linear(Family):
    r"""Charge a price per unit, :math:`f(x) = \langle g, x \rangle`; the row is the prices g.

    Examples
    --------
    >>> float(Linear().value(np.array([1.0, 2.0]), np.array([0.5, 0.5])))
    1.5
    """

    code: ClassVar[int | None] = codes.LINEAR
    has_forecast: ClassVar[bool] = True
    is_exact: ClassVar[bool] = True

    def _price(self, row: Array) -> Array:
        """Return what a unit of each coordinate costs."""
        return row

    def value(self, row: Array, x: Array) -> Array:
        return np.vecdot(self._price(row), x)

    def gradient(self, row: Array, x: Array) -> Array:
        return self._price(row)

    def arrays(self, rows: Array) -> tuple[Array, Array, Array]:
        return self._price(rows), np.zeros(1), np.zeros(1)

    def affine(self, row: Array, r: float) -> tuple[Array, Array]:
        return np.ones(1), self._price(row) / -r

    def coordinate(self, i: int) -> Family:
        return self

    def moments(self, row: Array) -> Array:
        return self._price(row)

    def lowest(self, domain: ConvexSet, means: Array) -> Array:
        return domain.lowest(means)

    def expected(self, means: Array, x: Array) -> Array:
        return np.vecdot(means, x)


class Rewards(Linear):
    r"""Earn a reward per unit, :math:`f(x) = -\langle r, x \rangle`; the row is what a unit of each coordinate earns.

    Examples
    --------
    >>> float(Rewards().value(np.array([1.0, 2.0]), np.array([0.5, 0.5])))
    -1.5
    """

    code: ClassVar[int | None] = codes.LINEAR

    def _price(self, row: Array) -> Array:
        return -row


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
    code: ClassVar[int | None] = codes.QUADRATIC
    rows_are: ClassVar[str] = "targets"
    near_rows: ClassVar[bool] = True
    has_forecast: ClassVar[bool] = True
    is_exact: ClassVar[bool] = True

    def __init__(self, weight: float = 1.0) -> None:
        self._keep(weight=positive(weight, "weight"))

    def value(self, row: Array, x: Array) -> Array:
        gap = x - row
        return 0.5 * self.weight * np.vecdot(gap, gap)

    def gradient(self, row: Array, x: Array) -> Array:
        return self.weight * (x - row)

    def arrays(self, rows: Array) -> tuple[Array, Array, Array]:
        return rows, np.array([self.weight]), np.zeros(1)

    def affine(self, row: Array, r: float) -> tuple[Array, Array]:
        share = self.weight / (self.weight + r)
        return np.array([1.0 - share]), share * row

    def coordinate(self, i: int) -> Family:
        return self

    def lowest(self, domain: ConvexSet, means: Array) -> Array:
        return domain.nearest(means)

    def expected(self, means: Array, x: Array) -> Array:
        return self.value(means, x)


class WeightedQuadratic(Family):
    r"""Charge the squared distance to a target, :math:`f(x) = \tfrac{w}{2} \|x - c\|^2`, by a weight of each round.

    The row is the target c, and then the weight w >= 0.

    Examples
    --------
    >>> float(WeightedQuadratic().value(np.array([1.0, 2.0]), np.array([4.0])))
    9.0
    """

    code: ClassVar[int | None] = codes.QUADRATIC
    extras: ClassVar[int] = 1
    is_exact: ClassVar[bool] = True

    def check_rows(self, rows: Array, name: str) -> None:
        least = rows[..., -1].min()
        if least < 0.0:
            raise InvalidInput(
                f"weight must not be negative, or costs are not convex, got {least}."
            )

    def value(self, row: Array, x: Array) -> Array:
        gap = x - row[..., :-1]
        return 0.5 * row[..., -1] * np.vecdot(gap, gap)

    def gradient(self, row: Array, x: Array) -> Array:
        return row[..., -1:] * (x - row[..., :-1])

    def arrays(self, rows: Array) -> tuple[Array, Array, Array]:
        return rows[:, :-1].copy(), rows[:, -1].copy(), np.zeros(1)

    def affine(self, row: Array, r: float) -> tuple[Array, Array]:
        share = row[..., -1] / (row[..., -1] + r)
        return 1.0 - share, share[..., None] * row[..., :-1]

    def coordinate(self, i: int) -> Family:
        return self

    def moments(self, row: Array) -> Array:
        weight = row[..., -1:]
        return np.concatenate((weight * row[..., :-1], weight), axis=-1)

    def lowest(self, domain: ConvexSet, means: Array) -> Array:
        weight = means[..., -1:]
        return domain.nearest(
            np.where(
                weight > 0.0, means[..., :-1] / np.where(weight > 0.0, weight, 1.0), domain.start
            )
        )

    def expected(self, means: Array, x: Array) -> Array:
        return 0.5 * means[..., -1] * np.vecdot(x, x) - np.vecdot(means[..., :-1], x)


class Pinball(Family):
    r"""Charge for too little and for too much, :math:`f(x) = \sum_i s_i (c_i - x_i)^+ + e_i (x_i - c_i)^+`.

    The row is the demand c. An average is that of the demand and of its square, and represents a normal demand with these
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
    code: ClassVar[int | None] = codes.PINBALL
    rows_are: ClassVar[str] = "demands"
    near_rows: ClassVar[bool] = True
    has_forecast: ClassVar[bool] = True

    def __init__(self, short: ArrayLike = 1.0, excess: ArrayLike = 1.0) -> None:
        prices = {}
        for name, given in (("short", short), ("excess", excess)):
            price = np.atleast_1d(real_array(given, name))
            if price.ndim != 1 or price.size == 0 or (price < 0).any():
                message = (
                    f"{name} must be a number or one per coordinate, none negative, got {given}."
                )
                raise InvalidInput(message)
            if (price == price[0]).all():
                price = price[:1]
            prices[name] = price
        self._keep(**prices)

    def check(self, dim: int) -> None:
        for name, price in (("short", self.short), ("excess", self.excess)):
            if price.size not in (1, dim):
                raise InvalidInput(
                    f"{name} must be one number or {dim}, one per coordinate, got {price.size}."
                )

    def value(self, row: Array, x: Array) -> Array:
        return (
            self.short * np.maximum(row - x, 0.0) + self.excess * np.maximum(x - row, 0.0)
        ).sum(axis=-1)

    def gradient(self, row: Array, x: Array) -> Array:
        return np.where(x > row, self.excess, np.where(x < row, -self.short, 0.0))

    def arrays(self, rows: Array) -> tuple[Array, Array, Array]:
        prices = np.empty((2, rows.shape[-1]))
        prices[0] = self.short
        prices[1] = self.excess
        return rows, np.zeros(1), prices.ravel()

    def steepness(self, row: Array, x: Array) -> Array:
        # At the kink it is the slope of falling short.
        return _norm(np.where(x > row, self.excess, -self.short))

    def prox(self, row: Array, a: Array, r: float) -> Array:
        return a - np.clip(a - row, -self.short / r, self.excess / r)

    def minorant(self, row: Array, v: Array, h: Array) -> Minorant:
        slope = np.clip(h, -self.short, self.excess)
        return -np.vecdot(slope, row), slope

    def coordinate(self, i: int) -> Family:
        short = self.short if self.short.size == 1 else self.short[i]
        excess = self.excess if self.excess.size == 1 else self.excess[i]
        return Pinball(short, excess)

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
        d = means.shape[-1] // 2
        mean = means[..., :d]
        square = means[..., d:]
        variance = square - mean**2
        return mean, np.sqrt(np.where(variance > LEAST_VARIANCE * square, variance, 0.0))

    def find_quantiles(self) -> Array:
        """Find how far above its mean a normal demand is best met, in standard deviations.

        Returns
        -------
        array
            One number, or one per coordinate.
        """
        from scipy.special import ndtri

        prices = self.short + self.excess
        # The best stock meets the demand in this share of rounds. If one of the prices is zero, that is all or none of them.
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


class Ridge(Family):
    """Base class of costs phi(m), convex and falling, of the margin m = <row, x>: proximal steps go along the row alone."""

    # The slope that gives the best bound where the row is zero: phi(0) is all that counts.
    flat: ClassVar[float] = 0.0

    @abstractmethod
    def phi(self, margin: Array) -> Array:
        """Compute the cost of a margin.

        Parameters
        ----------
        margin : array
            The margins.

        Returns
        -------
        array
            The costs.
        """

    @abstractmethod
    def steep(self, margin: Array) -> Array:
        """Compute -phi'(margin) >= 0.

        Parameters
        ----------
        margin : array
            The margins.

        Returns
        -------
        array
            The slopes, with their sign changed.
        """

    @abstractmethod
    def slope(self, margin: Array, k: Array) -> Array:
        """Compute -phi'(q) >= 0 at q, the minimiser of phi(q) + (q - margin)^2 / (2 k).

        Parameters
        ----------
        margin : array
            The margins.
        k : array
            How far a unit of slope may carry, >= 0.

        Returns
        -------
        array
            The slopes, with their sign changed.
        """

    @abstractmethod
    def intercept(self, s: Array) -> Array:
        """Compute the largest e with phi(m) >= e - s m for all m.

        Parameters
        ----------
        s : array
            Slopes, with their sign changed.

        Returns
        -------
        array
            The intercepts.
        """

    def within(self, s: Array) -> Array:
        """Bring slopes to those that phi may have.

        Parameters
        ----------
        s : array
            Slopes, with their sign changed.

        Returns
        -------
        array
            The nearest ones that there are.
        """
        return np.clip(s, 0.0, 1.0)

    def value(self, row: Array, x: Array) -> Array:
        return self.phi(np.vecdot(row, x))

    def gradient(self, row: Array, x: Array) -> Array:
        return -self.steep(np.vecdot(row, x))[..., None] * row

    def steepness(self, row: Array, x: Array) -> Array:
        return _norm(Ridge.gradient(self, row, x))

    def prox(self, row: Array, a: Array, r: float) -> Array:
        s = self.slope(np.vecdot(row, a), np.vecdot(row, row) / r)
        return a + (s / r)[..., None] * row

    def minorant(self, row: Array, v: Array, h: Array) -> Minorant:
        square = np.vecdot(row, row)
        moving = square > 0.0
        s = np.where(moving, -np.vecdot(row, h) / np.where(moving, square, 1.0), self.flat)
        s = self.within(s)
        return self.intercept(s), -s[..., None] * row


class LogWealth(Ridge):
    r"""Charge the growth that a portfolio misses, :math:`f(x) = -\log \langle r, x \rangle`; the row is price relatives r > 0.

    An average is that of the logarithms: it ranks single assets.

    Examples
    --------
    >>> round(float(LogWealth().value(np.array([2.0, 1.0]), np.array([0.5, 0.5]))), 6)
    -0.405465
    """

    code: ClassVar[int | None] = codes.LOG_WEALTH
    positive: ClassVar[bool] = True
    has_forecast: ClassVar[bool] = True

    def phi(self, margin: Array) -> Array:
        with np.errstate(invalid="ignore", divide="ignore"):
            return -np.log(margin)

    def gradient(self, row: Array, x: Array) -> Array:
        return -row / np.vecdot(row, x)[..., None]

    def steep(self, margin: Array) -> Array:
        with np.errstate(divide="ignore"):
            return 1.0 / margin

    def slope(self, margin: Array, k: Array) -> Array:
        both = np.sqrt(margin**2 + 4.0 * k) + np.abs(margin)
        return np.where(margin > 0.0, 2.0 / both, both / (2.0 * k))

    def intercept(self, s: Array) -> Array:
        return 1.0 + np.log(s)

    def within(self, s: Array) -> Array:
        return np.maximum(s, TINY)

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

    lowest = Linear.lowest
    expected = Linear.expected


class Hinge(Ridge):
    r"""Charge margins below 1, :math:`f(x) = \max(0, 1 - \langle z, x \rangle)` (linear classification).

    The row z is the features times the label: y a, for a label y of -1 or +1. A round depends on nothing else.

    Examples
    --------
    >>> features, label = np.array([1.0, 2.0]), -1.0
    >>> float(Hinge().value(label * features, np.array([1.0, 0.0])))
    2.0
    """

    code: ClassVar[int | None] = codes.HINGE
    flat: ClassVar[float] = 1.0

    def phi(self, margin: Array) -> Array:
        return np.maximum(0.0, 1.0 - margin)

    def steep(self, margin: Array) -> Array:
        return np.where(margin < 1.0, 1.0, 0.0)

    def slope(self, margin: Array, k: Array) -> Array:
        short = np.maximum(1.0 - margin, 0.0)
        return short / np.maximum(np.maximum(short, k), TINY)

    def intercept(self, s: Array) -> Array:
        return s


class Logistic(Ridge):
    r"""Charge the logistic loss, :math:`f(x) = \log(1 + \exp(-\langle z, x \rangle))` (linear classification).

    The row z is the features times the label, as for :class:`Hinge`.

    Examples
    --------
    >>> round(float(Logistic().value(np.array([1.0, 2.0]), np.zeros(2))), 6)
    0.693147
    """

    code: ClassVar[int | None] = codes.LOGISTIC
    flat: ClassVar[float] = 0.5

    def phi(self, margin: Array) -> Array:
        return np.logaddexp(0.0, -margin)

    def steep(self, margin: Array) -> Array:
        return _sigmoid(-margin)

    def slope(self, margin: Array, k: Array) -> Array:
        # q = margin + k s(q) with s falling in q: Newton, unless it leaves the bracket. Every third step bisects, since from
        # either end Newton's step leads to the other.
        low = margin
        high = margin + k
        q = 0.5 * (low + high)
        rounding = 8.0 * EPS * (np.abs(margin) + k)
        for turn in range(150):
            s = _sigmoid(-q)
            excess = q - margin - k * s
            settled = np.abs(excess) <= rounding
            if settled.all():
                break
            low = np.where(excess < 0.0, q, low)
            high = np.where(excess < 0.0, high, q)
            newton = q - excess / (1.0 + k * s * (1.0 - s))
            inside = settled | ((low <= newton) & (newton <= high) & (turn % 3 < 2))
            q = np.where(inside, newton, 0.5 * (low + high))
        return _sigmoid(-q)

    def intercept(self, s: Array) -> Array:
        # the entropy of s: phi at the margin log(1/s - 1), moved along its tangent to zero
        inside = np.clip(s, TINY, 1.0)
        other = np.maximum(1.0 - s, TINY)
        return -(s * np.log(inside) + (1.0 - s) * np.log(other))


def _sigmoid(q: Array) -> Array:
    tail = np.exp(-np.abs(q))
    return np.where(q >= 0.0, 1.0, tail) / (1.0 + tail)


def name_quotes(values: Array) -> str:
    """Say what numbers of assets probably are: ``"returns"`` around 0, ``"relatives"`` around 1, otherwise ``"prices"``.

    Prices may also be around 1. But they remember where they were: from one row to the next they change little, compared with
    how far they go.

    Examples
    --------
    >>> name_quotes(np.array([[0.01, -0.02]])), name_quotes(np.array([[1.01, 0.98]])), name_quotes(np.array([[35.2, 99.1]]))
    ('returns', 'relatives', 'prices')
    """
    known = values[~np.isnan(values)]
    if known.size == 0:
        return "prices"
    if known.min() <= 0.0 or np.median(known) < SMALL_QUOTE:
        return "returns" if np.median(np.abs(known)) < SMALL_QUOTE else "prices"
    near = 1.0 / LARGE_RELATIVE < np.median(known) < LARGE_RELATIVE
    if not near:
        return "prices"
    with np.errstate(invalid="ignore"):
        logs = np.log(values)
        steps = np.nanmean(np.diff(logs, axis=0) ** 2) if len(values) > 1 else np.inf
        spread = np.nanmean((logs - np.nanmean(logs, axis=0)) ** 2)
    # For independent rows this ratio is 2, for a walk of T rows about 6 / T of that.
    return "prices" if len(values) >= WALK_ROWS and steps < WALK_RATIO * spread else "relatives"
