"""What moving costs: lambda_t m(x_t, x_{t-1}), with one weight lambda or one per round."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from klazy.base.checks import Array, coordinates, non_negative, real_array, refusal
from klazy.base.config import Config
from klazy.kernels import codes
from klazy.sets import Box, CappedSimplex, ConvexSet, Simplex

__all__ = [
    "AsymmetricMovement",
    "L1Movement",
    "L2Movement",
    "Movement",
    "SwitchFee",
    "TVMovement",
    "WeightedL2Movement",
]


class Movement(Config, ABC):
    """A price for the step delta = x_t - x_{t-1}, times ``weight``: a number, or one number per round."""

    weight: float | Array
    code: ClassVar[int | None] = None
    # how comparators see it: as the norm of all of c delta (True), c from `stretch`, or as a sum of up and down `prices` of the
    # coordinates (False); None where it is neither, or not known
    grouped: ClassVar[bool | None] = None

    # subgradient(delta): an element of the subdifferential of m at one step, of a convex movement of one's own; comparators
    # need it
    subgradient: "Callable[..., ArrayLike] | None" = None

    _rests_on: ClassVar[dict[str, str]] = {"grouped": "distance", "subgradient": "distance"}

    def __init__(self, weight: ArrayLike = 1.0) -> None:
        owner = type(self).__name__
        weights = real_array(weight, "weight", owner)
        if weights.ndim > 1 or weights.size == 0 or (weights < 0).any():
            raise refusal(
                owner, "weights >= 0, one or one per round", "weight", weight, "give a number or a vector"
            )
        kept = float(weights) if weights.ndim == 0 else weights
        self._keep(weight=kept)

    @abstractmethod
    def distance(self, delta: Array) -> Array:
        """m for steps along the last axis, before the weight."""

    def weights(self, T: int) -> Array:
        """One weight, or T of them."""
        weight = np.atleast_1d(self.weight)
        if weight.size not in (1, T):
            raise refusal(
                type(self).__name__,
                f"one weight or T={T} of them",
                "weights",
                weight.size,
                "give one per round",
            )
        return weight

    def paid(self, x: Array, x0: Array | None = None) -> Array:
        """What each round of the sequence ``x`` of shape (T, d) pays; the first pays only for leaving a given ``x0``."""
        first = x[:1] if x0 is None else x0[None]
        return self.weights(len(x)) * self.distance(np.diff(x, axis=0, prepend=first))

    def lipschitz(self, dim: int) -> float:
        """The most that a step of Euclidean length one costs, before the weight."""
        return 1.0

    def check(self, dim: int) -> None:
        """Refuse a price per coordinate of the wrong length."""

    def prices(self, dim: int) -> Array:
        """What the kernel needs beside the code."""
        return np.zeros(1)

    def stretch(self, dim: int) -> Array:
        """c, where the cost of a step is the norm of c delta."""
        return np.ones(dim)


class L2Movement(Movement):
    r"""Euclidean distance, the default but on simplices and boxes: :math:`\lambda \|\delta\|_2`."""

    code: ClassVar[int | None] = codes.MOVE_L2
    grouped: ClassVar[bool | None] = True

    def distance(self, delta: Array) -> Array:
        return np.sqrt(np.vecdot(delta, delta))


class WeightedL2Movement(Movement):
    r""":math:`\lambda \sqrt{\sum_i w_i \delta_i^2}` with a scale w_i >= 0 per coordinate."""

    scale: float | Array
    code: ClassVar[int | None] = codes.MOVE_WEIGHTED
    grouped: ClassVar[bool | None] = True

    def __init__(self, weight: ArrayLike = 1.0, *, scale: ArrayLike) -> None:
        super().__init__(weight)
        self._keep(scale=_check_prices(scale, "scale", "WeightedL2Movement"))

    def distance(self, delta: Array) -> Array:
        return np.sqrt((self.scale * delta**2).sum(axis=-1))

    def lipschitz(self, dim: int) -> float:
        return float(np.sqrt(np.max(self.scale)))

    def check(self, dim: int) -> None:
        coordinates(self.scale, "scale", "WeightedL2Movement", dim)

    def prices(self, dim: int) -> Array:
        return np.full(dim, self.scale)

    def stretch(self, dim: int) -> Array:
        return np.sqrt(self.prices(dim))


class L1Movement(Movement):
    r"""Sum of absolute changes: :math:`\lambda \|\delta\|_1`."""

    code: ClassVar[int | None] = codes.MOVE_ABSOLUTE
    grouped: ClassVar[bool | None] = False

    def distance(self, delta: Array) -> Array:
        return np.abs(delta).sum(axis=-1)

    def lipschitz(self, dim: int) -> float:
        return math.sqrt(dim)

    def prices(self, dim: int) -> Array:
        return np.ones(2 * dim)


class TVMovement(Movement):
    r"""Total variation, the mass that changes place: :math:`\lambda \|\delta\|_1 / 2`."""

    code: ClassVar[int | None] = codes.MOVE_ABSOLUTE
    grouped: ClassVar[bool | None] = False

    def distance(self, delta: Array) -> Array:
        return 0.5 * np.abs(delta).sum(axis=-1)

    def lipschitz(self, dim: int) -> float:
        return 0.5 * math.sqrt(dim)

    def prices(self, dim: int) -> Array:
        return np.full(2 * dim, 0.5)


class AsymmetricMovement(Movement):
    r""":math:`\lambda \sum_i (\mathrm{up}_i\, \delta_i^+ + \mathrm{down}_i\, \delta_i^-)`.

    Raising and lowering have their own prices.
    """

    up: float | Array
    down: float | Array
    code: ClassVar[int | None] = codes.MOVE_ABSOLUTE
    grouped: ClassVar[bool | None] = False

    def __init__(self, weight: ArrayLike = 1.0, *, up: ArrayLike = 1.0, down: ArrayLike = 1.0) -> None:
        super().__init__(weight)
        self._keep(up=_check_prices(up, "up", "AsymmetricMovement"))
        self._keep(down=_check_prices(down, "down", "AsymmetricMovement"))

    def distance(self, delta: Array) -> Array:
        prices: Array = np.where(delta > 0, self.up, np.negative(self.down))
        return np.vecdot(prices, delta)

    def lipschitz(self, dim: int) -> float:
        return float(np.linalg.norm(np.full(dim, np.maximum(self.up, self.down))))

    def check(self, dim: int) -> None:
        for name, price in (("up", self.up), ("down", self.down)):
            coordinates(price, name, "AsymmetricMovement", dim)

    def prices(self, dim: int) -> Array:
        return np.concatenate((np.full(dim, self.up), np.full(dim, self.down)))


class SwitchFee(Movement):
    r"""A fee lambda whenever any coordinate changes by more than ``tol``, however far."""

    tol: float
    code: ClassVar[int | None] = codes.MOVE_FEE

    def __init__(self, weight: ArrayLike = 1.0, *, tol: float = 1e-9) -> None:
        super().__init__(weight)
        self._keep(tol=non_negative(tol, "tol", "SwitchFee"))

    def distance(self, delta: Array) -> Array:
        return np.asarray((np.abs(delta) > self.tol).any(axis=-1), dtype=np.float64)

    def lipschitz(self, dim: int) -> float:
        return math.inf

    def prices(self, dim: int) -> Array:
        return np.array([self.tol])


# Movements that one word names.
SHORT_NAMES: dict[str, type[Movement]] = {
    "l2": L2Movement, "l1": L1Movement, "tv": TVMovement, "fee": SwitchFee
}  # fmt: skip


def as_movement(movement: object, owner: str = "as_movement", weight: ArrayLike = 1.0) -> Movement:
    """Accept a movement cost, or make one from its short name.

    Parameters
    ----------
    movement : Movement or str
        A movement cost, or ``"l2"``, ``"l1"``, ``"tv"`` or ``"fee"``.
    owner : str, optional
        Who needs it, for the message of a refusal.
    weight : array_like, optional
        The price of a unit of movement, for a short name. Default: 1.

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
        return movement
    if isinstance(movement, str) and movement in SHORT_NAMES:
        return SHORT_NAMES[movement](weight)
    if isinstance(movement, str):
        names = ", ".join(map(repr, SHORT_NAMES))
        remedy = "write 'l2', or L2Movement(1.0)"
        raise refusal(owner, f"a movement cost, or one of {names}", "movement", repr(movement), remedy)
    raise refusal(owner, "a movement cost", "movement", repr(movement), f"write L2Movement({movement!r})")


def suit_movement(domain: ConvexSet, weight: ArrayLike = 1.0) -> Movement:
    """What moving usually costs on such a set: shares change hands, stocks rise and fall, points travel.

    It is what :func:`~klazy.run`, agents, optima and replays charge unless they are told otherwise.

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
    if isinstance(domain, Simplex | CappedSimplex):
        return TVMovement(weight)
    return L1Movement(weight) if isinstance(domain, Box) else L2Movement(weight)


def _check_prices(value: ArrayLike, name: str, owner: str) -> float | Array:
    """A price or one per coordinate, none negative."""
    prices = real_array(value, name, owner)
    if prices.ndim > 1 or (prices < 0).any():
        raise refusal(owner, f"{name} >= 0", name, prices.tolist(), "give a number or one per coordinate")
    return float(prices) if prices.ndim == 0 else prices
