"""Costs: what round t costs at x, and a subgradient there. Most are a family and its rows, one row per round.

Kernels read such rows directly; :class:`CallableCosts` takes any Python function instead and runs through ``step``. Rounds are
t = 1, ..., T.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from copy import copy
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from klazy.base.checks import (
    FINITE,
    LARGEST,
    Array,
    InvalidInput,
    integer,
    positive,
    real_array,
    rows,
    vector,
)
from klazy.families import (
    Family,
    Hinge,
    Linear,
    Logistic,
    LogWealth,
    Pinball,
    Quadratic,
    WeightedQuadratic,
)
from klazy.kernels import codes
from klazy.movement import L2Movement

__all__ = [
    "CallableCosts",
    "LogWealthCosts",
    "PinballCosts",
    "QuadraticCosts",
]


class Costs(ABC):
    """Base class of sequences of T convex costs on R^dim. Your own needs ``T``, ``dim`` and the three abstract methods.

    Examples
    --------
    >>> costs = QuadraticCosts([[1.0], [3.0], [8.0]])
    >>> costs.T, costs.dim, costs.window(2, 3).value(1, np.array([1.0]))
    (3, 1, 2.0)
    """

    T: int
    dim: int
    # The names of the coordinates, of data that came as a frame.
    columns: tuple[str, ...] | None = None

    @abstractmethod
    def value(self, t: int, x: Array) -> float:
        """Compute f_t(x), what a decision costs in round t.

        Parameters
        ----------
        t : int
            The round, from 1 to T.
        x : array
            The decision.

        Returns
        -------
        float
            The cost.
        """

    @abstractmethod
    def subgradient(self, t: int, x: Array) -> Array:
        """Compute an element of the subdifferential of f_t at a decision.

        Parameters
        ----------
        t : int
            The round, from 1 to T.
        x : array
            The decision.

        Returns
        -------
        array
            A subgradient, of shape (d,).
        """

    def values(self, x: Array) -> Array:
        """Compute f_t(x_t) for all rounds at once.

        Parameters
        ----------
        x : array
            One decision per round, of shape (T, d).

        Returns
        -------
        array
            The costs, of shape (T,).
        """
        value, _ = rounds_of(self)
        return np.array([value(t, x[t - 1]) for t in range(1, self.T + 1)])

    def subgradients(self, x: Array) -> Array:
        """Compute a subgradient of f_t at x_t for all rounds at once.

        Parameters
        ----------
        x : array
            One decision per round, of shape (T, d).

        Returns
        -------
        array
            The subgradients, of shape (T, d).
        """
        _, subgradient = rounds_of(self)
        return np.array([subgradient(t, x[t - 1]) for t in range(1, self.T + 1)])

    @property
    def family(self) -> Family | None:
        """The family, if these costs are the rows of one; else None."""
        return None

    @abstractmethod
    def window(self, first: int, last: int) -> Costs:
        """Cut out some rounds; they become rounds 1, 2 and so on.

        Parameters
        ----------
        first : int
            The first round.
        last : int
            The last round, included.

        Returns
        -------
        Costs
            The costs of these rounds alone.
        """

    def check_finite(self) -> None:
        """Reject data with NaN or inf; costs without data have nothing to check."""
        return

    def arrays(self) -> tuple[Array, Array, Array]:
        """Give the arrays that compiled runs read.

        Returns
        -------
        data : array
            Of shape (T, d).
        extra : array
            One number per round, or one for all.
        parameters : array
            Numbers that hold for all rounds.
        """
        raise TypeError(f"{type(self).__name__} has no kernel.")

    def __repr__(self) -> str:
        return f"{type(self).__name__}(T={self.T}, dim={self.dim})"


class FamilyCosts(Costs):
    """A family and its rows, one row per round: what :meth:`Family.costs` makes, and the classes below.

    A subclass that overrides values or subgradients has costs of its own, and no family.
    """

    _is_plain: ClassVar[bool] = True

    def __init__(
        self, family: Family, data: ArrayLike, name: str = "rows", *, limit: float = LARGEST
    ) -> None:
        self._family = family
        self.name = name
        self.data = rows(data, name, limit=limit)
        self.T = len(self.data)
        self.dim = self.data.shape[1] - family.extras
        if self.dim < 1:
            shape = self.data.shape
            raise InvalidInput(
                f"{name} must have at least {1 + family.extras} columns, got shape {shape}."
            )
        names = read_columns(data)
        self.columns = None if names is None else names[: self.dim]
        family.check(self.dim)
        family.check_rows(self.data, name)
        if codes.code_of(family) is None:
            self._check_shapes()

    def _check_shapes(self) -> None:
        """Reject a family that does not act on the last axis: what it computes for many rows would be wrong."""
        # With dim + 1 rows no two lengths are equal, so a family that mixes up its axes is noticed.
        many = np.resize(self.data, (self.dim + 1, self.data.shape[1]))
        for some in (many[0], many):
            x = some[..., : self.dim]
            with np.errstate(all="ignore"):
                shapes = (
                    np.shape(self._family.value(some, x)),
                    np.shape(self._family.gradient(some, x)),
                )
            if shapes != (x.shape[:-1], x.shape):
                kind = type(self._family).__name__
                raise InvalidInput(
                    f"At x of shape {x.shape} {kind} must have a value of shape {x.shape[:-1]} and a gradient of shape "
                    f"{x.shape}, got {shapes[0]} and {shapes[1]}. Act on the last axis, as sum(axis=-1) does."
                )

    def __init_subclass__(cls) -> None:
        names = ("value", "values", "subgradient", "subgradients")
        cls._is_plain = all(getattr(cls, name) is getattr(FamilyCosts, name) for name in names)

    @property
    def family(self) -> Family | None:
        return self._family if self._is_plain else None

    def window(self, first: int, last: int) -> Self:
        part = copy(self)
        part.data = self.data[first - 1 : last]
        part.T = len(part.data)
        return part

    def check_finite(self) -> None:
        real_array(self.data, self.name, limit=FINITE)

    def value(self, t: int, x: Array) -> float:
        return float(self._family.value(self.data[t - 1], x))

    def subgradient(self, t: int, x: Array) -> Array:
        return self._family.gradient(self.data[t - 1], x)

    def values(self, x: Array) -> Array:
        return self._family.value(self.data, x)

    def subgradients(self, x: Array) -> Array:
        return self._family.gradient(self.data, x)

    def arrays(self) -> tuple[Array, Array, Array]:
        return self._family.arrays(self.data)

    def __repr__(self) -> str:
        if type(self) is FamilyCosts:
            return f"{self._family!r}.costs(T={self.T}, dim={self.dim})"
        return super().__repr__()


class LinearCosts(FamilyCosts):
    r"""Charge a price per unit, :math:`f_t(x) = \langle g_t, x \rangle`.

    Parameters
    ----------
    g : array_like
        The prices, or gradients, of shape (T, d).
    check : bool, optional
        Whether to search for NaN and inf now. False leaves that to :func:`~klazy.run`, which finds them on the way at no cost
        and rejects them as well; it is what a bare array gets. Default: True.

    Raises
    ------
    ValueError
        If g does not have one row per round, or an entry is not finite.

    Examples
    --------
    >>> LinearCosts([[1.0, 2.0], [3.0, 4.0]]).value(2, np.array([0.5, 0.5]))
    3.5
    """

    def __init__(self, g: ArrayLike, *, check: bool = True) -> None:
        super().__init__(Linear(), g, "g", limit=FINITE if check else math.inf)


class QuadraticCosts(FamilyCosts):
    r"""Charge the squared distance to targets, :math:`f_t(x) = \tfrac{w_t}{2} \|x - c_t\|^2`.

    Parameters
    ----------
    targets : array_like
        The targets c, of shape (T, d).
    weight : array_like, optional
        The weights w >= 0: one number, or one per round. Default: 1.

    Raises
    ------
    ValueError
        If a weight is negative, or an entry is not finite.

    Examples
    --------
    >>> QuadraticCosts([[1.0], [3.0]]).value(2, np.array([1.0]))
    2.0
    """

    def __init__(self, targets: ArrayLike, weight: ArrayLike = 1.0) -> None:
        given = rows(targets, "targets")
        weights = real_array(weight, "weight")
        each = (
            np.full(len(given), weights)
            if weights.ndim == 0
            else vector(weights, "weight", len(given))
        )
        if each[0] > 0.0 and (each == each[0]).all():
            super().__init__(Quadratic(float(each[0])), given, "targets")
        else:
            super().__init__(WeightedQuadratic(), np.column_stack((given, each)), "targets")
        self.columns = read_columns(targets)


class PinballCosts(FamilyCosts):
    r"""Charge for too little and too much, :math:`f_t(x) = \sum_i s_i (c_{t,i} - x_i)^+ + e_i (x_i - c_{t,i})^+` (newsvendor).

    Parameters
    ----------
    demands : array_like
        The demands c, of shape (T, d).
    short : array_like, optional
        What a unit too little costs, s: one number, or one per coordinate. Default: 1.
    excess : array_like, optional
        What a unit too much costs, e, likewise. Default: 1.

    Raises
    ------
    ValueError
        If a price is negative, or an entry is not finite.

    Examples
    --------
    >>> PinballCosts([[57.0], [60.0]], short=4.0).value(1, np.array([50.0]))
    28.0
    """

    def __init__(
        self, demands: ArrayLike, short: ArrayLike = 1.0, excess: ArrayLike = 1.0
    ) -> None:
        super().__init__(Pinball(short, excess), demands, "demands")


class LogWealthCosts(FamilyCosts):
    r"""Charge the growth that a portfolio misses, :math:`f_t(x) = -\log \langle r_t, x \rangle`.

    Parameters
    ----------
    relatives : array_like
        Price relatives r > 0, of shape (T, d): each price over the one before.

    Raises
    ------
    ValueError
        If one is not above zero.

    Examples
    --------
    >>> round(LogWealthCosts([[2.0, 1.0]]).value(1, np.array([0.5, 0.5])), 6)
    -0.405465
    """

    def __init__(self, relatives: ArrayLike) -> None:
        super().__init__(LogWealth(), relatives, "relatives")


class HingeCosts(FamilyCosts):
    r"""Charge margins below 1, :math:`f_t(x) = \max(0, 1 - y_t \langle a_t, x \rangle)` (linear classification).

    Parameters
    ----------
    features : array_like
        The features a, of shape (T, d).
    labels : array_like
        The labels y, -1 or +1, of shape (T,).

    Raises
    ------
    ValueError
        If a label is neither -1 nor +1.

    Examples
    --------
    >>> HingeCosts([[1.0, 2.0]], [-1.0]).value(1, np.array([1.0, 0.0]))
    2.0
    """

    def __init__(self, features: ArrayLike, labels: ArrayLike) -> None:
        super().__init__(Hinge(), _label(features, labels), "features")
        self.columns = read_columns(features)


class LogisticCosts(FamilyCosts):
    r"""Charge the logistic loss, :math:`f_t(x) = \log(1 + \exp(-y_t \langle a_t, x \rangle))` (linear classification).

    Parameters
    ----------
    features : array_like
        The features a, of shape (T, d).
    labels : array_like
        The labels y, -1 or +1, of shape (T,).

    Raises
    ------
    ValueError
        If a label is neither -1 nor +1.

    Examples
    --------
    >>> round(LogisticCosts([[1.0, 2.0]], [1.0]).value(1, np.zeros(2)), 6)
    0.693147
    """

    def __init__(self, features: ArrayLike, labels: ArrayLike) -> None:
        super().__init__(Logistic(), _label(features, labels), "features")
        self.columns = read_columns(features)


def _label(features: ArrayLike, labels: ArrayLike) -> Array:
    """Multiply the features of every round by its label."""
    given = rows(features, "features")
    signs = real_array(labels, "labels")
    if signs.shape != (len(given),) or not np.isin(signs, (-1.0, 1.0)).all():
        raise InvalidInput(f"labels must be {len(given)} numbers, each -1 or +1, got {labels}.")
    return signs[:, None] * given


class CallableCosts(Costs):
    """Use any convex costs, given as Python functions; learners then run through ``step``.

    Parameters
    ----------
    T : int
        The number of rounds.
    dim : int
        The number of coordinates.
    value : callable
        ``value(t, x)``, what x costs in round t = 1, ..., T.
    subgradient : callable
        ``subgradient(t, x)``, a subgradient there.

    Raises
    ------
    ValueError
        If one of them is no function; in a run, if one returns something else than a number or a vector.

    Examples
    --------
    >>> costs = CallableCosts(3, 1, lambda t, x: abs(x[0] - t), lambda t, x: np.sign(x - t))
    >>> costs.value(2, np.array([5.0]))
    3.0
    """

    def __init__(
        self,
        T: int,
        dim: int,
        value: Callable[[int, Array], float],
        subgradient: Callable[[int, Array], ArrayLike],
    ) -> None:
        self.T = integer(T, "T")
        self.dim = integer(dim, "dim")
        for name, function in (("value", value), ("subgradient", subgradient)):
            if not callable(function):
                raise InvalidInput(f"{name} must be a function of t and x, got {function!r}.")
        self._value = value
        self._subgradient = subgradient

    def value(self, t: int, x: Array) -> float:
        return _number(self._value(t, x.copy()), t)

    def subgradient(self, t: int, x: Array) -> Array:
        return vector(self._subgradient(t, x.copy()), f"subgradient({t})", self.dim).copy()

    def window(self, first: int, last: int) -> CallableCosts:
        def value(t: int, x: Array) -> float:
            return self._value(first - 1 + t, x)

        def subgradient(t: int, x: Array) -> ArrayLike:
            return self._subgradient(first - 1 + t, x)

        return CallableCosts(last - first + 1, self.dim, value, subgradient)


class FilteredCosts(Costs):
    r"""Costs that depend on the last m points: a round charges :math:`c_t(a_0 x_t + \dots + a_{m-1} x_{t-m+1})`.

    So do heat that lingers, advertising that is remembered, stock in transit. A learner sees the cost of a point that is
    held, :math:`f_t(x) = c_t((a_0 + \dots + a_{m-1})\, x)`, and pays for moving what the difference to the real cost can be:
    with costs :math:`c_t` whose gradients are at most G,

    .. math:: \sum_t c_t(a_0 x_t + \dots + a_{m-1} x_{t-m+1}) \le \sum_t f_t(x_t)
              + G \Bigl( \sum_i i\, |a_i| \Bigr) \sum_t \|x_t - x_{t-1}\| ,

    so that regret with this movement is regret in the costs with memory (Anava, Hazan and Mannor, 2015). Points before the
    first count as the first, or as ``x0``.

    Parameters
    ----------
    costs : Costs or array_like
        :math:`c_t`; an array is one of linear costs.
    kernel : array_like
        :math:`a_0, \dots, a_{m-1}`, the share of the present point first.

    Raises
    ------
    ValueError
        If the kernel is no vector of numbers.

    Examples
    --------
    >>> costs = FilteredCosts(QuadraticCosts(np.repeat([[0.0], [1.0]], 20, axis=0)), [0.5, 0.3, 0.2])
    >>> trace = run(GD(Box(0, 1), 2.0), costs, movement=costs.movement(G=1.0))
    >>> round(float(costs.paid(trace.x).sum()), 3), round(trace.totals.cost, 3)
    (0.932, 1.367)
    """

    def __init__(self, costs: Costs | ArrayLike, kernel: ArrayLike) -> None:
        self.costs = as_costs(costs)
        self.kernel = vector(kernel, "kernel")
        self.T = self.costs.T
        self.dim = self.costs.dim
        self.columns = self.costs.columns

    @property
    def m(self) -> int:
        """How many points a round depends on."""
        return self.kernel.size

    def value(self, t: int, x: Array) -> float:
        return self.costs.value(t, self.kernel.sum() * x)

    def subgradient(self, t: int, x: Array) -> Array:
        total = self.kernel.sum()
        return total * self.costs.subgradient(t, total * x)

    def window(self, first: int, last: int) -> FilteredCosts:
        return FilteredCosts(self.costs.window(first, last), self.kernel)

    def check_finite(self) -> None:
        self.costs.check_finite()

    def mix(self, x: ArrayLike, x0: ArrayLike | None = None) -> Array:
        """Mix the points played, as each round charges for them.

        Parameters
        ----------
        x : array_like
            The points played, of shape (T, d).
        x0 : array_like, optional
            Where it stood before the first round. Default: the first point played.

        Returns
        -------
        array
            The mixtures, of shape (T, d).

        Raises
        ------
        ValueError
            If x is not of shape (T, d), or x0 not of shape (d,).
        """
        played = rows(x, "x", self.dim, self.T)
        before = played[0] if x0 is None else vector(x0, "x0", self.dim)
        padded = np.vstack((np.tile(before, (self.m - 1, 1)), played))
        mixed = np.zeros_like(played)
        for i, share in enumerate(self.kernel.tolist()):
            first = self.m - 1 - i
            mixed += share * padded[first : first + self.T]
        return mixed

    def paid(self, x: ArrayLike, x0: ArrayLike | None = None) -> Array:
        """Compute what each round really costs.

        Parameters
        ----------
        x : array_like
            The points played, of shape (T, d).
        x0 : array_like, optional
            Where it stood before the first round. Default: the first point played.

        Returns
        -------
        array
            The costs, of shape (T,).

        Raises
        ------
        ValueError
            If x is not of shape (T, d), or x0 not of shape (d,).
        """
        return self.costs.values(self.mix(x, x0))

    def movement(self, G: float) -> L2Movement:
        r"""Choose what moving must cost a learner.

        Parameters
        ----------
        G : float
            The largest norm of a gradient of the costs.

        Returns
        -------
        L2Movement
            Euclidean movement of weight :math:`G \sum_i i\, |k_i|`, where :math:`k_0, k_1, \dots` is the kernel.

        Raises
        ------
        ValueError
            If G is not above zero.
        """
        bound = positive(G, "G", "Give a bound on the gradients' norms.")
        return L2Movement(bound * float(np.arange(self.m) @ np.abs(self.kernel)))


def rounds_of(
    costs: Costs,
) -> tuple[Callable[[int, Array], float], Callable[[int, Array], Array]]:
    """Return functions for the value and the subgradient that check what your own costs return.

    A wrong shape would broadcast. A float and an array of the right shape and type pass: the next round finds NaN in them.
    """
    if codes.code_of(costs) is not None or type(costs) is CallableCosts:
        return costs.value, costs.subgradient
    shape = (costs.dim,)
    kind = np.dtype(np.float64)

    def value(t: int, x: Array) -> float:
        found = costs.value(t, x)
        return float(found) if isinstance(found, float) else _number(found, t)

    def subgradient(t: int, x: Array) -> Array:
        found = costs.subgradient(t, x)
        fits = type(found) is np.ndarray and found.shape == shape and found.dtype is kind
        return found if fits else vector(found, f"subgradient({t})", costs.dim)

    return value, subgradient


def _number(value: Any, t: int) -> float:
    """Return what a function gave for f_t(x) as a float; it may be infinite."""
    if isinstance(value, np.ndarray) and value.ndim > 0:
        raise InvalidInput(
            f"value({t}, x) must return one number, got an array of shape {value.shape}."
        )
    try:
        return float(value)
    except (TypeError, ValueError):
        raise InvalidInput(f"value({t}, x) must return one number, got {value!r}.") from None


def read_columns(data: Any) -> tuple[str, ...] | None:
    """Return the names of a data frame's columns, if they differ; None for other data."""
    names = tuple(map(str, getattr(data, "columns", ())))
    return names if names and len(set(names)) == len(names) else None


def as_costs(costs: Costs | ArrayLike) -> Costs:
    """Return costs as they are, and make linear ones from an array of gradients, one row per round."""
    return costs if isinstance(costs, Costs) else LinearCosts(costs, check=False)
