"""What moving costs: lambda_t m(x_t, x_{t-1}), with one weight lambda or one per round."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from copy import copy
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from klazy.base.checks import (
    Array,
    InvalidInput,
    coordinates,
    instance,
    non_negative,
    real_array,
    rows,
)
from klazy.base.config import Config
from klazy.families import LogWealth
from klazy.kernels import codes
from klazy.sets import ConvexSet

# Up to so many states a table of all extreme potentials is small: 924 of them for 7 states.
MOST_STATES_AT_ONCE = 7

__all__ = [
    "L1Movement",
    "L2Movement",
    "TVMovement",
]


class Movement(Config, ABC):
    """Base class of what moving costs: ``weight * distance(x_t - x_{t-1})``.

    To make your own, derive from it and define :meth:`distance`. If it is convex, define ``subgradient(delta)`` too, one
    vector of the subdifferential of the distance at one step: :func:`~klazy.offline_optimum` needs it, learners and runs do
    not. With a ``short_name`` it can be named by one word wherever klazy's movements are. :func:`~klazy.auto` takes it, too:
    its experts plan with the Euclidean distance times :meth:`lipschitz`, and are charged by :meth:`distance`. If a step of
    Euclidean length 1 can cost more than 1, define :meth:`lipschitz`.

    Parameters
    ----------
    weight : array_like, optional
        The price of a unit of movement (lambda in formulas): one number, or one per round. The price of round t is that of the
        move from x_{t-1} to x_t. One more price than there are rounds is that of the move after the last one, which a run does
        not charge, but tells its learner. Default: 1.

    Raises
    ------
    ValueError
        If a weight is negative or not finite.

    Examples
    --------
    >>> TVMovement(5.0).paid(np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]])).tolist()
    [0.0, 2.5, 2.5]
    """

    weight: float | Array
    code: ClassVar[int | None] = None
    # The word that names it in Python, commands, sweeps and requests; its only required argument may be the weight.
    short_name: ClassVar[str | None] = None
    # how optima are computed with it: as the norm of c delta (True), c from `stretch` along `axes`, or as a sum of up and down
    # `prices` of the coordinates (False); None where it is neither, or not known
    grouped: ClassVar[bool | None] = None
    # twice the step costs 2^degree times as much: 1 for norms, whose triangle inequality proofs need
    degree: ClassVar[float] = 1.0

    # whether a decision changes by itself from round to round, as holdings do with prices
    is_drifting: ClassVar[bool] = False

    subgradient: Callable[..., ArrayLike] | None = None
    # carry(x, g, price): the best points of a simplex for linear costs g, moving there from x included, by rows; where known
    carry: Callable[[Array, Array, Array], Array] | None = None

    _rests_on: ClassVar[dict[str, str]] = {
        "grouped": "distance",
        "degree": "distance",
        "subgradient": "distance",
        "carry": "distance",
    }

    def __init__(self, weight: ArrayLike = 1.0) -> None:
        self._keep(weight=_check_prices(weight, "weight", "round"))

    @property
    def is_steady(self) -> bool:
        """Whether all rounds have the same weight."""
        return np.ndim(self.weight) == 0

    @property
    def is_fee(self) -> bool:
        """Whether a move costs the same however far it goes."""
        return self.degree == 0.0

    @abstractmethod
    def distance(self, delta: Array) -> Array:
        """Measure steps, before the weight is applied.

        Parameters
        ----------
        delta : array
            Steps x_t - x_{t-1}, along the last axis.

        Returns
        -------
        array
            One number per step, >= 0.
        """

    def weights(self, T: int) -> Array:
        """Give the weights for a game of ``T`` rounds.

        Parameters
        ----------
        T : int
            The number of rounds.

        Returns
        -------
        array
            One weight for all rounds, or T of them.

        Raises
        ------
        ValueError
            If there are several weights, but neither T nor T + 1.
        """
        weight = np.atleast_1d(self.weight)
        if weight.size not in (1, T, T + 1):
            raise InvalidInput(
                f"weight must be one number or {T}, one per round, got {weight.size}."
            )
        return weight[:T]

    def reprice(self, factor: float) -> Self:
        """Make the same movement at a multiple of its weight.

        Parameters
        ----------
        factor : float
            The multiple, at least 0.

        Returns
        -------
        Movement
            The movement.

        Examples
        --------
        >>> L2Movement(2.0).reprice(1.5)
        L2Movement(weight=3.0)
        """
        found = copy(self)
        found._keep(weight=factor * self.weight)
        return found

    def weight_at(self, t: int) -> float:
        """Give the weight of one round.

        Parameters
        ----------
        t : int
            The round, counted from 1.

        Returns
        -------
        float
            Its weight; beyond the last weight given, the last one.
        """
        weights = np.atleast_1d(self.weight)
        return float(weights[min(t, weights.size) - 1])

    def paid(self, x: Array, x0: Array | None = None) -> Array:
        """Charge a sequence of decisions: what each round pays for moving.

        Parameters
        ----------
        x : array
            The decisions, of shape (T, d).
        x0 : array, optional
            The position before the first round. Default: none, so that the first round moves for free.

        Returns
        -------
        array
            What each round pays, weight included, of shape (T,).

        Examples
        --------
        >>> L1Movement(2.0).paid(np.array([[0.0], [3.0], [1.0]]), x0=np.array([1.0])).tolist()
        [2.0, 6.0, 4.0]
        """
        before = x[0] if x0 is None else x0
        return self.weights(len(x)) * self.distance(self.steps(x, before))

    def steps(self, x: Array, before: Array, first: int = 1) -> Array:
        """Find the changes that a sequence of decisions makes.

        Parameters
        ----------
        x : array
            The decisions, of shape (n, d).
        before : array
            Where one came from.
        first : int, optional
            The round of the first decision. Default: 1.

        Returns
        -------
        array
            The changes, of shape (n, d).
        """
        return np.diff(x, axis=0, prepend=before[None])

    def lipschitz(self, dim: int) -> float:
        """Bound the cost of a step of Euclidean length 1, before the weight.

        Parameters
        ----------
        dim : int
            The number of coordinates.

        Returns
        -------
        float
            The most that such a step costs; inf for a fee. A step of length l costs at most l^degree times that.
        """
        return 1.0

    def check(self, dim: int) -> None:
        """Reject prices per coordinate that do not fit the dimension.

        Parameters
        ----------
        dim : int
            The number of coordinates of a decision.

        Raises
        ------
        ValueError
            If there is not one price for each of them.
        """

    def prices(self, dim: int) -> Array:
        """Give the numbers that a compiled run needs.

        Parameters
        ----------
        dim : int
            The number of coordinates.

        Returns
        -------
        array
            The prices, in the order that the kernel reads.
        """
        return np.zeros(1)

    def stretch(self, dim: int) -> Array:
        """Give c, where the cost of a step is the Euclidean norm of ``c * delta``.

        Parameters
        ----------
        dim : int
            The number of coordinates.

        Returns
        -------
        array
            One factor per coordinate.
        """
        return np.ones(dim)

    def axes(self) -> Array | None:
        """Orthogonal columns along which :meth:`stretch` is meant; None for the coordinates themselves."""
        return None


class L2Movement(Movement):
    r"""Charge the Euclidean distance: :math:`\lambda \|\delta\|_2`.

    It is the default, except on simplices and boxes.

    Parameters
    ----------
    weight : array_like, optional
        The price of a unit of movement: one number, or one per round. Default: 1.

    Examples
    --------
    >>> float(L2Movement().distance(np.array([3.0, 4.0])))
    5.0
    """

    code: ClassVar[int | None] = codes.MOVE_L2
    short_name: ClassVar[str | None] = "l2"
    grouped: ClassVar[bool | None] = True

    def distance(self, delta: Array) -> Array:
        return np.sqrt(np.vecdot(delta, delta))


class WeightedL2Movement(Movement):
    r"""Charge a Euclidean distance in which coordinates count differently: :math:`\lambda \sqrt{\sum_i w_i \delta_i^2}`.

    Parameters
    ----------
    weight : array_like, optional
        The price of a unit of movement: one number, or one per round. Default: 1.
    scale : array_like
        The w_i >= 0: one number, or one per coordinate.

    Raises
    ------
    ValueError
        If a weight or a scale is negative.

    Examples
    --------
    >>> float(WeightedL2Movement(scale=[1.0, 4.0]).distance(np.array([3.0, 2.0])))
    5.0
    """

    scale: float | Array
    code: ClassVar[int | None] = codes.MOVE_WEIGHTED
    grouped: ClassVar[bool | None] = True

    def __init__(self, weight: ArrayLike = 1.0, *, scale: ArrayLike) -> None:
        super().__init__(weight)
        self._keep(scale=_check_prices(scale, "scale"))

    def distance(self, delta: Array) -> Array:
        return np.sqrt((self.scale * delta**2).sum(axis=-1))

    def lipschitz(self, dim: int) -> float:
        return float(np.sqrt(np.max(self.scale)))

    def check(self, dim: int) -> None:
        coordinates(self.scale, "scale", dim)

    def prices(self, dim: int) -> Array:
        return np.full(dim, self.scale)

    def stretch(self, dim: int) -> Array:
        return np.sqrt(self.prices(dim))


class L1Movement(Movement):
    r"""Charge the sum of absolute changes: :math:`\lambda \|\delta\|_1`. It is the default on boxes.

    Parameters
    ----------
    weight : array_like, optional
        The price of a unit of movement: one number, or one per round. Default: 1.

    Examples
    --------
    >>> float(L1Movement().distance(np.array([3.0, -4.0])))
    7.0
    """

    code: ClassVar[int | None] = codes.MOVE_ABSOLUTE
    short_name: ClassVar[str | None] = "l1"
    grouped: ClassVar[bool | None] = False

    def distance(self, delta: Array) -> Array:
        return np.abs(delta).sum(axis=-1)

    def lipschitz(self, dim: int) -> float:
        return math.sqrt(dim)

    def prices(self, dim: int) -> Array:
        return np.ones(2 * dim)


class TVMovement(Movement):
    r"""Charge total variation, the mass that changes place: :math:`\lambda \|\delta\|_1 / 2`. It is the default on simplices.

    Parameters
    ----------
    weight : array_like, optional
        The price of moving all of a unit of mass: one number, or one per round. Default: 1.

    Examples
    --------
    >>> float(TVMovement().distance(np.array([0.3, -0.2, -0.1])))
    0.3
    """

    code: ClassVar[int | None] = codes.MOVE_ABSOLUTE
    short_name: ClassVar[str | None] = "tv"
    grouped: ClassVar[bool | None] = False

    def distance(self, delta: Array) -> Array:
        return 0.5 * np.abs(delta).sum(axis=-1)

    def lipschitz(self, dim: int) -> float:
        return 0.5 * math.sqrt(dim)

    def prices(self, dim: int) -> Array:
        return np.full(2 * dim, 0.5)


class AsymmetricMovement(Movement):
    r"""Charge different prices for raising and for lowering a coordinate.

    .. math:: \lambda \sum_i (\mathrm{up}_i\, \delta_i^+ + \mathrm{down}_i\, \delta_i^-)

    Parameters
    ----------
    weight : array_like, optional
        A factor on all prices: one number, or one per round. Default: 1.
    up : array_like, optional
        The price of raising: one number, or one per coordinate. Default: 1.
    down : array_like, optional
        The price of lowering, likewise. Default: 1.

    Raises
    ------
    ValueError
        If a weight or a price is negative.

    Examples
    --------
    >>> float(AsymmetricMovement(up=5.0, down=0.5).distance(np.array([2.0, -4.0])))
    12.0
    """

    up: float | Array
    down: float | Array
    code: ClassVar[int | None] = codes.MOVE_ABSOLUTE
    grouped: ClassVar[bool | None] = False

    def __init__(
        self, weight: ArrayLike = 1.0, *, up: ArrayLike = 1.0, down: ArrayLike = 1.0
    ) -> None:
        super().__init__(weight)
        self._keep(up=_check_prices(up, "up"))
        self._keep(down=_check_prices(down, "down"))

    def distance(self, delta: Array) -> Array:
        prices: Array = np.where(delta > 0, self.up, np.negative(self.down))
        return np.vecdot(prices, delta)

    def lipschitz(self, dim: int) -> float:
        return float(np.linalg.norm(np.full(dim, np.maximum(self.up, self.down))))

    def check(self, dim: int) -> None:
        for name, price in (("up", self.up), ("down", self.down)):
            coordinates(price, name, dim)

    def prices(self, dim: int) -> Array:
        return np.concatenate((np.full(dim, self.up), np.full(dim, self.down)))


class MahalanobisMovement(Movement):
    r""":math:`\lambda \sqrt{\delta^\top A \delta}`: changes that go together are cheaper or more expensive than each by itself.

    It is a norm, so all that is proved for :class:`L2Movement` up to a factor holds for it, too. It has no compiled price: runs
    that are charged by it go through ``step``.

    Parameters
    ----------
    weight : array_like, optional
        The price of a unit of movement, one or one per round. Default: 1.
    A : array_like
        A symmetric matrix of shape (d, d) without negative eigenvalues.

    Raises
    ------
    ValueError
        If A is no such matrix.

    Examples
    --------
    >>> movement = MahalanobisMovement(A=[[1.0, 0.8], [0.8, 1.0]])
    >>> round(float(movement.distance(np.array([1.0, 1.0]))), 3), round(float(movement.distance(np.array([1.0, -1.0]))), 3)
    (1.897, 0.632)
    """

    A: Array
    grouped: ClassVar[bool | None] = True

    def __init__(self, weight: ArrayLike = 1.0, *, A: ArrayLike) -> None:
        super().__init__(weight)
        self._keep(A=_check_matrix(A))

    @cached_property
    def _spectrum(self) -> tuple[Array, Array]:
        """The roots of the eigenvalues, and the eigenvectors as columns."""
        values, vectors = np.linalg.eigh(self.A)
        return np.sqrt(np.maximum(values, 0.0)), vectors

    def distance(self, delta: Array) -> Array:
        roots, vectors = self._spectrum
        along = roots * np.vecdot(delta[..., None, :], vectors.T)
        return np.sqrt(np.vecdot(along, along))

    def lipschitz(self, dim: int) -> float:
        return float(self._spectrum[0].max())

    def check(self, dim: int) -> None:
        if len(self.A) != dim:
            raise InvalidInput(f"A must have shape ({dim}, {dim}), got {self.A.shape}.")

    def stretch(self, dim: int) -> Array:
        return self._spectrum[0]

    def axes(self) -> Array | None:
        return self._spectrum[1]


class DriftedMovement(Movement):
    r"""Total variation from where prices have carried the shares: :math:`\lambda\, \mathrm{TV}(x_t - \tilde x_{t-1})`.

    .. math:: \tilde x_{t-1,i} = \frac{r_{t-1,i}\, x_{t-1,i}}{\langle r_{t-1}, x_{t-1} \rangle} \sum_j x_{t-1,j}

    With the price relatives r of a round, what rose is a larger part of the wealth once it is over. If you let shares drift,
    you pay nothing; to play the same point again you buy and sell. It charges what ``klazy replay --costs log-wealth`` and
    agents with ``costs=LogWealth()`` do.

    It depends on the rounds and not on the step alone. So it is for :func:`~klazy.run`, :func:`~klazy.run_batch`,
    :func:`~klazy.contrib.run_ahead` and :func:`~klazy.offline_optimum`; learners, guards and agents are given a
    :class:`TVMovement`. No bound of klazy covers it but :func:`~klazy.theory.certify`, which counts what was paid. It has no
    kernel.

    Parameters
    ----------
    weight : array_like, optional
        The price of moving all of the wealth, one or one per round. Default: 1.
    relatives : array_like
        Price relatives > 0 of shape (T, d), those of the costs.

    Examples
    --------
    >>> x = np.array([[0.5, 0.5], [0.5, 0.5], [0.5, 0.5]])
    >>> DriftedMovement(relatives=[[3.0, 1.0], [1.0, 1.0], [1.0, 1.0]]).paid(x)
    array([0.  , 0.25, 0.  ])
    """

    is_drifting: ClassVar[bool] = True

    relatives: Array

    def __init__(self, weight: ArrayLike = 1.0, *, relatives: ArrayLike) -> None:
        super().__init__(weight)
        ratios = rows(relatives, "relatives")
        LogWealth().check_rows(ratios, "relatives")
        self._keep(relatives=ratios)

    def distance(self, delta: Array) -> Array:
        return 0.5 * np.abs(delta).sum(axis=-1)

    def lipschitz(self, dim: int) -> float:
        return 0.5 * math.sqrt(dim)

    def check(self, dim: int) -> None:
        rows(self.relatives, "relatives", dim)

    def weights(self, T: int) -> Array:
        rows(self.relatives, "relatives", T=T)
        return super().weights(T)

    def steps(self, x: Array, before: Array, first: int = 1) -> Array:
        stand = np.concatenate((before[None], x[:-1]))
        if first == 1:
            stand[1:] = LogWealth().drift(self.relatives[: len(x) - 1], stand[1:])
        else:
            stand = LogWealth().drift(self.relatives[first - 2 : first - 2 + len(x)], stand)
        return x - stand


class SquaredMovement(Movement):
    r""":math:`\tfrac{\lambda}{2} \|\delta\|_2^2`: many small steps are cheaper than a large one.

    It is no norm, so an ensemble cannot be charged by it, and no bound of klazy covers it; :class:`Reluctant` and
    :class:`Leader` with ``guard=False`` take it, and optima are certified.

    Parameters
    ----------
    weight : array_like, optional
        lambda, one or one per round. Default: 1.

    Examples
    --------
    >>> SquaredMovement(2.0).paid(np.array([[0.0], [2.0], [3.0]]))
    array([0., 4., 1.])
    """

    code: ClassVar[int | None] = codes.MOVE_SQUARED
    short_name: ClassVar[str | None] = "squared"
    grouped: ClassVar[bool | None] = True
    degree: ClassVar[float] = 2.0

    def distance(self, delta: Array) -> Array:
        return 0.5 * np.vecdot(delta, delta)

    def lipschitz(self, dim: int) -> float:
        return 0.5


class ImpactMovement(Movement):
    r""":math:`\lambda \sum_i s_i |\delta_i|^{3/2}`: market impact, by which a trade moves the price against itself.

    The power is that of the square-root law: a trade of size q moves the price by about the root of q. What holds for
    :class:`SquaredMovement` holds for it, too: no norm, no bound, but certified optima.

    Parameters
    ----------
    weight : array_like, optional
        lambda, one or one per round. Default: 1.
    scale : array_like, optional
        s > 0, one or one per coordinate. Default: 1.

    Examples
    --------
    >>> ImpactMovement(scale=[1.0, 0.5]).paid(np.array([[0.0, 0.0], [4.0, -1.0]]))
    array([0. , 8.5])
    """

    scale: float | Array
    code: ClassVar[int | None] = codes.MOVE_IMPACT
    short_name: ClassVar[str | None] = "impact"
    grouped: ClassVar[bool | None] = False
    degree: ClassVar[float] = 1.5

    def __init__(self, weight: ArrayLike = 1.0, *, scale: ArrayLike = 1.0) -> None:
        super().__init__(weight)
        prices = _check_prices(scale, "scale")
        if np.min(prices) <= 0.0:
            raise InvalidInput(f"scale must be above 0, got {scale}.")
        self._keep(scale=prices)

    def distance(self, delta: Array) -> Array:
        size = np.abs(delta)
        return (self.scale * size * np.sqrt(size)).sum(axis=-1)

    def lipschitz(self, dim: int) -> float:
        # This is Hoelder's inequality.
        return float((self.prices(dim) ** 4).sum() ** 0.25)

    def check(self, dim: int) -> None:
        coordinates(self.scale, "scale", dim)

    def prices(self, dim: int) -> Array:
        return np.full(dim, self.scale)


class FiniteMetric(Movement):
    r"""Charge changes between a few states by a table: :math:`\lambda D_{ij}` from state i to state j.

    States have no order: which region is primary, which provider is used, which model is loaded. They are the corners of
    ``Simplex(n)``. A point between corners is a distribution over states, and a change of distribution costs what the cheapest
    way to carry probability from one to the other costs: the transport distance. That is what switching costs on average if
    states are drawn so that they switch as cheaply as possible.

    Parameters
    ----------
    weight : array_like, optional
        lambda, one or one per round. Default: 1.
    D : array_like
        The costs of switching, of shape (n, n): symmetric, zero for staying, and no detour is cheaper than the direct way.

    Raises
    ------
    ValueError
        If D is not such a table.

    Examples
    --------
    >>> regions = FiniteMetric(D=[[0, 1, 4], [1, 0, 4], [4, 4, 0]])
    >>> regions.paid(np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.5, 0.5]]))
    array([0., 1., 2.])
    """

    D: Array

    def __init__(self, weight: ArrayLike = 1.0, *, D: ArrayLike) -> None:
        super().__init__(weight)
        self._keep(D=_check_metric(D))

    @cached_property
    def _potentials(self) -> Array:
        """The functions of the states that change by no more than D, those of which no two others are the mean."""
        n = len(self.D)
        if n == 1:
            return np.zeros((1, 1))
        if n == 2:
            return np.array([[0.0, self.D[0, 1]], [0.0, -self.D[0, 1]]])
        from scipy.spatial import HalfspaceIntersection

        # The first state has potential 0. Every other pair is a half-space, in which 0 is an inner point.
        walls = np.zeros((n * (n - 1), n))
        for row, (i, j) in enumerate((i, j) for i in range(n) for j in range(n) if i != j):
            if i > 0:
                walls[row, i - 1] = 1.0
            if j > 0:
                walls[row, j - 1] = -1.0
            walls[row, -1] = -self.D[i, j]
        corners = HalfspaceIntersection(walls, np.zeros(n - 1)).intersections
        return np.hstack((np.zeros((len(corners), 1)), corners))

    def distance(self, delta: Array) -> Array:
        if len(self.D) <= MOST_STATES_AT_ONCE:
            return np.maximum((delta @ self._potentials.T).max(axis=-1), 0.0)
        rows = delta.reshape(-1, len(self.D))
        return np.array([self._solve(row)[0] for row in rows]).reshape(delta.shape[:-1])

    def subgradient(self, delta: Array) -> Array:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Return a potential whose slope along this change is what the change costs.

        Parameters
        ----------
        delta : array
            A change of distribution.

        Returns
        -------
        array
            The potential of every state.
        """
        if len(self.D) <= MOST_STATES_AT_ONCE:
            return self._potentials[int(np.argmax(self._potentials @ delta))]
        return self._solve(delta)[1]

    def carry(self, x: Array, g: Array, price: Array) -> Array:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Move the probability of each state to where its cost and the way there are least; it stays where nothing is gained.

        Parameters
        ----------
        x : array
            The present distributions, one per row.
        g : array
            What the states are forecast to cost, one row for each.
        price : array
            The price of a unit of movement, one for each.

        Returns
        -------
        array
            The next distributions.
        """
        ways = g[:, None, :] + price[:, None, None] * self.D
        best = ways.argmin(axis=2)
        own = np.arange(len(self.D))
        pays = np.take_along_axis(ways, best[:, :, None], axis=2)[:, :, 0] < ways[:, own, own]
        best = np.where(pays, best, own)
        moved = np.zeros_like(x)
        np.add.at(moved, (np.arange(len(x))[:, None], best), x)
        return moved

    def send(self, delta: Array, i: int) -> Array:
        """Say to which states the probability goes that leaves one, on the cheapest way to carry all of it.

        Parameters
        ----------
        delta : array
            A change of distribution, in which state i loses.
        i : int
            The state.

        Returns
        -------
        array
            The share of its loss that each state gets.

        Examples
        --------
        >>> pairs = FiniteMetric(D=[[0, 1, 4, 4], [1, 0, 4, 4], [4, 4, 0, 1], [4, 4, 1, 0]])
        >>> pairs.send(np.array([-0.3, 0.3, -0.1, 0.1]), 0)
        array([0., 1., 0., 0.])
        """
        from_, to = np.flatnonzero(delta < 0.0), np.flatnonzero(delta > 0.0)
        shares = np.maximum(delta, 0.0)
        if len(from_) > 1 and len(to) > 1:
            from scipy.optimize import linprog

            # What leaves and what arrives, both of sum 1 up to rounding: the last equation follows from the others.
            both = np.concatenate((delta[from_] / delta[from_].sum(), shares[to] / shares.sum()))
            leave = np.kron(np.eye(len(from_)), np.ones(len(to)))
            arrive = np.kron(np.ones(len(from_)), np.eye(len(to)))
            equal = np.vstack((leave, arrive))[:-1]
            found = linprog(self.D[np.ix_(from_, to)].ravel(), A_eq=equal, b_eq=both[:-1])
            carried = np.maximum(found.x.reshape(len(from_), len(to))[from_ == i][0], 0.0)
            # So little leaves that the programme cannot see it: any way will do.
            if carried.any():
                shares[to] = carried
        return shares / shares.sum()

    def _solve(self, delta: Array) -> tuple[float, Array]:
        """Return the cost of the cheapest way to carry probability, and the potentials that prove it."""
        moved = np.flatnonzero(delta)
        if len(moved) == 2 and delta[moved].sum() == 0.0:
            # From one state to one other: the distances to the first are a potential.
            left = moved[int(delta[moved[0]] > 0.0)]
            return float(self.D[left] @ np.maximum(delta, 0.0)), self.D[left]
        from scipy.optimize import linprog

        n = len(self.D)
        pairs = np.array([(i, j) for i in range(n) for j in range(n) if i != j])
        walls = np.zeros((len(pairs), n))
        walls[np.arange(len(pairs)), pairs[:, 0]] = 1.0
        walls[np.arange(len(pairs)), pairs[:, 1]] = -1.0
        found = linprog(
            -delta,
            walls,
            self.D[pairs[:, 0], pairs[:, 1]],
            bounds=[(0.0, 0.0)] + [(None, None)] * (n - 1),
        )
        return max(float(delta @ found.x), 0.0), found.x

    def lipschitz(self, dim: int) -> float:
        # Half of all changes is what leaves, and no part of it goes farther than the farthest state.
        return 0.5 * math.sqrt(dim) * float(self.D.max())

    def check(self, dim: int) -> None:
        if len(self.D) != dim:
            raise InvalidInput(f"D must have a row for each of {dim} states, got {len(self.D)}.")


class SwitchFee(Movement):
    r"""Charge a fee whenever any coordinate changes, however far: :math:`\lambda\, [\max_i |\delta_i| > \mathrm{tol}]`.

    Parameters
    ----------
    weight : array_like, optional
        The fee: one number, or one per round. Default: 1.
    tol : float, optional
        Changes of up to ``tol`` are free. Default: 1e-9.

    Raises
    ------
    ValueError
        If the fee or ``tol`` is negative.

    Examples
    --------
    >>> SwitchFee(10.0).paid(np.array([[1.0], [1.0], [1.5]])).tolist()
    [0.0, 0.0, 10.0]
    """

    tol: float
    code: ClassVar[int | None] = codes.MOVE_FEE
    short_name: ClassVar[str | None] = "fee"
    degree: ClassVar[float] = 0.0

    def __init__(self, weight: ArrayLike = 1.0, *, tol: float = 1e-9) -> None:
        super().__init__(weight)
        self._keep(tol=non_negative(tol, "tol"))

    def distance(self, delta: Array) -> Array:
        return np.asarray((np.abs(delta) > self.tol).any(axis=-1), dtype=np.float64)

    def lipschitz(self, dim: int) -> float:
        return math.inf

    def prices(self, dim: int) -> Array:
        return np.array([self.tol])


def list_short_names() -> dict[str, type[Movement]]:
    """Return the movements that have a short name, your own included.

    Returns
    -------
    dict of str to type
        The classes by their ``short_name``.

    Examples
    --------
    >>> from klazy.movement import list_short_names
    >>> sorted(list_short_names())[:2]
    ['fee', 'impact']
    """
    kinds = Movement.__subclasses__()
    return {kind.short_name: kind for kind in kinds if kind.short_name is not None}


def as_movement(movement: object, weight: ArrayLike = 1.0, *, drifting: bool = False) -> Movement:
    """Accept a movement cost, or make one from its short name.

    Parameters
    ----------
    movement : Movement or str
        A movement cost, or ``"l2"``, ``"l1"``, ``"tv"``, ``"fee"``, ``"squared"`` or ``"impact"``.
    weight : array_like, optional
        The price of a unit of movement, for a short name. Default: 1.
    drifting : bool, optional
        Whether a :class:`DriftedMovement` will do, which depends on the rounds. Default: no.

    Returns
    -------
    Movement
        The movement cost.

    Raises
    ------
    ValueError
        If it is neither.

    Examples
    --------
    >>> from klazy.movement import as_movement
    >>> as_movement("tv", weight=5.0)
    TVMovement(weight=5.0)
    """
    if isinstance(movement, Movement):
        if movement.is_drifting and not drifting:
            raise InvalidInput(
                "A DriftedMovement depends on the rounds, so only run, run_batch, run_ahead and offline_optimum take it. "
                "Use TVMovement here."
            )
        return movement
    short_names = list_short_names()
    name = instance(movement, "movement", str, "a Movement such as L2Movement(1.0)")
    if name not in short_names:
        names = ", ".join(map(repr, short_names))
        raise InvalidInput(f"movement must be a Movement or one of {names}, got {movement!r}.")
    return short_names[name](weight)


def suit_movement(domain: ConvexSet, weight: ArrayLike = 1.0) -> Movement:
    """Choose what moving usually costs on a set: shares change hands, stocks rise and fall, points travel.

    It is what :func:`~klazy.run`, agents, optima and replays charge by default.

    Parameters
    ----------
    domain : ConvexSet
        Where decisions live.
    weight : array_like, optional
        The price of a unit of movement. Default: 1.

    Returns
    -------
    Movement
        Total variation on simplices, the sum of changes on boxes, Euclidean distance on all other sets.

    Examples
    --------
    >>> from klazy.movement import suit_movement
    >>> suit_movement(Simplex(3)), suit_movement(Box(0, 1)), suit_movement(L2Ball(3), 5.0)
    (TVMovement(), L1Movement(), L2Movement(weight=5.0))
    """
    return list_short_names()[domain.usual_movement](weight)


def _check_prices(value: ArrayLike, name: str, unit: str = "coordinate") -> float | Array:
    """Check a price, or one per coordinate or round, none negative."""
    prices = real_array(value, name)
    if prices.ndim > 1 or prices.size == 0 or (prices < 0).any():
        given = prices.tolist()
        raise InvalidInput(
            f"{name} must be a number or one per {unit}, none negative, got {given}."
        )
    return float(prices) if prices.ndim == 0 else prices


def _check_metric(D: ArrayLike) -> Array:
    """Check a table of switching costs: symmetric, zero for staying, with no cheaper detours up to rounding."""
    table = real_array(D, "D")
    if table.ndim != 2 or table.size == 0 or table.shape[0] != table.shape[1]:
        raise InvalidInput(f"D must be a square table, got shape {table.shape}.")
    rounding = 1e-12 * float(np.abs(table).max())
    if np.diagonal(table).any() or (table + np.eye(len(table)) <= 0.0).any():
        raise InvalidInput(
            f"D must be 0 for staying and above 0 for switching, got {table.tolist()}."
        )
    if np.abs(table - table.T).max() > rounding:
        raise InvalidInput(f"D must be symmetric, got {table.tolist()}. Use (D + D.T) / 2.")
    table = 0.5 * (table + table.T)
    detours = (table[:, :, None] + table[None]).min(axis=1)
    if (detours < table - rounding).any():
        i, j = np.argwhere(detours < table - rounding)[0].tolist()
        raise InvalidInput(
            f"D must have no cheaper detours, but from {i} to {j} one costs {detours[i, j]:g}, not {table[i, j]:g}. "
            "Enter what the cheapest way costs."
        )
    return table


def _check_matrix(A: ArrayLike) -> Array:
    """Check a symmetric matrix without negative eigenvalues, up to rounding."""
    matrix = real_array(A, "A")
    if matrix.ndim != 2 or matrix.size == 0 or matrix.shape[0] != matrix.shape[1]:
        raise InvalidInput(f"A must be a square matrix, got shape {matrix.shape}.")
    rounding = 1e-12 * float(np.abs(matrix).max())
    if np.abs(matrix - matrix.T).max() > rounding:
        raise InvalidInput(f"A must be symmetric, got {matrix.tolist()}. Use (A + A.T) / 2.")
    matrix = 0.5 * (matrix + matrix.T)
    least = float(np.linalg.eigvalsh(matrix).min())
    if least < -len(matrix) * rounding:
        message = (
            f"A must have no negative eigenvalue, as a covariance matrix has none, got {least}."
        )
        raise InvalidInput(message)
    return matrix
