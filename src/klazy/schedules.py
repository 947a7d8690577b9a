"""The regularisation sigma_t that builds x_{t+1}; a larger sigma means smaller steps.

sigma_t may depend on the round (:class:`Constant`, :class:`Sqrt`, :class:`Doubling`, :class:`~klazy.contrib.Proportional`) or
on the gradients seen up to and including round t (:class:`ScaleFree`). What a schedule has to remember is one number, the
energy, which the learner keeps in its own state, so schedules stay pure.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from klazy.base.checks import (
    LARGEST,
    SMALLEST,
    Array,
    InvalidInput,
    non_negative,
    number,
    positive,
    vector,
)
from klazy.base.config import Config
from klazy.kernels import codes

__all__ = [
    "Constant",
    "Doubling",
    "ScaleFree",
    "Sqrt",
]

_WIDEST = (
    1e12 * LARGEST
)  # what a set of such numbers, and a ladder of path lengths on it, may reach


class Schedule(Config, ABC):
    """Base class of sigmas that change with the rounds; your own needs only ``__call__(t)``.

    Examples
    --------
    >>> class Linearly(Schedule):
    ...     def __call__(self, t):
    ...         return 2.0 * t
    >>> Linearly().values(3).tolist()
    [2.0, 4.0, 6.0]
    """

    code: ClassVar[int | None] = None

    @abstractmethod
    def __call__(self, t: int) -> float:
        """sigma_t for the round t = 1, 2, ..."""

    def observe(self, t: int, energy: float, g: Array) -> tuple[float, float]:
        """Give sigma_t once the gradient of round t is known.

        Parameters
        ----------
        t : int
            The round.
        energy : float
            What the schedule remembers of the gradients so far; 0 at the start.
        g : array
            The gradient of round t.

        Returns
        -------
        sigma : float
            The sigma of the round.
        energy : float
            What to remember.
        """
        return self._check(t), energy

    @property
    def adaptive(self) -> bool:
        """Whether sigma depends on the gradients seen, so that :meth:`observe` is overridden."""
        return type(self).observe is not Schedule.observe

    def values(self, T: int) -> Array:
        """List sigma_1, ..., sigma_T.

        Parameters
        ----------
        T : int
            The number of rounds.

        Returns
        -------
        array
            The sigmas, of shape (T,).

        Raises
        ------
        TypeError
            If they depend on gradients.

        Examples
        --------
        >>> Sqrt(4).values(4).round(3).tolist()
        [0.5, 0.707, 0.866, 1.0]
        """
        return np.array([self._check(t) for t in range(1, T + 1)])

    def _check(self, t: int) -> float:
        sigma = self(t)
        if not sigma >= SMALLEST:
            raise InvalidInput(
                f"sigma must be at least {SMALLEST:g} in every round, got {sigma} in round {t}."
            )
        return sigma

    def parameters(self) -> tuple[float, float]:
        """Give the two numbers that compiled runs need.

        Returns
        -------
        tuple of float
            The numbers.
        """
        raise TypeError(f"{type(self).__name__} has no kernel.")


class Constant(Schedule):
    """Use the same sigma in every round, sigma_t = s. A plain number means the same wherever a schedule is accepted.

    Parameters
    ----------
    s : float
        The sigma, > 0: one over the learning rate.

    Raises
    ------
    ValueError
        If it is not above zero.

    Examples
    --------
    >>> Constant(2.0)(7)
    2.0
    """

    s: float
    code: ClassVar[int | None] = codes.CONSTANT

    def __init__(self, s: float) -> None:
        self._keep(s=positive(s, "sigma", "Give a regularisation above zero, 1 / learning rate."))
        self._check(1)

    def __call__(self, t: int) -> float:
        return self.s

    def parameters(self) -> tuple[float, float]:
        return self.s, 0.0


class Sqrt(Schedule):
    r"""Let sigma grow like the root of the rounds: :math:`\sigma_t = \sqrt{(t + \mathrm{offset}) / c}`.

    Parameters
    ----------
    c : float
        Larger means a smaller sigma; > 0.
    offset : float, optional
        Rounds to begin ahead by, > -1. Default: 0.

    Raises
    ------
    ValueError
        If a sigma would not be above zero.

    Examples
    --------
    >>> Sqrt(4)(36)
    3.0
    """

    c: float
    offset: float
    code: ClassVar[int | None] = codes.SQRT

    def __init__(self, c: float, offset: float = 0.0) -> None:
        offset = number(offset, "offset")
        if offset <= -1:
            raise InvalidInput(
                f"offset must be above -1, so that sigma is above 0, got {offset}."
            )
        self._keep(c=positive(c, "c"), offset=offset)
        self._check(1)

    def __call__(self, t: int) -> float:
        return math.sqrt((t + self.offset) / self.c)

    def parameters(self) -> tuple[float, float]:
        return self.c, self.offset


class Doubling(Schedule):
    r"""Let sigma grow in epochs: :math:`\sigma_t = \sqrt{2^e / c}` in epoch e, the :math:`2^e` rounds from :math:`t = 2^e` on.

    It is constant within an epoch and tuned to its length, so no horizon is needed; x carries over from epoch to epoch.

    Parameters
    ----------
    c : float
        Larger means a smaller sigma; > 0.

    Raises
    ------
    ValueError
        If c is not above zero.

    Examples
    --------
    >>> Doubling(1).values(8).round(3).tolist()
    [1.0, 1.414, 1.414, 2.0, 2.0, 2.0, 2.0, 2.828]
    """

    c: float
    code: ClassVar[int | None] = codes.DOUBLING

    def __init__(self, c: float) -> None:
        self._keep(c=positive(c, "c"))
        self._check(1)

    def __call__(self, t: int) -> float:
        return math.sqrt(2 ** (int(t).bit_length() - 1) / self.c)

    def parameters(self) -> tuple[float, float]:
        return self.c, 0.0


class Proportional(Schedule):
    r"""Let sigma grow with the rounds, :math:`\sigma_t = \mu t`: for costs that curve by at least mu everywhere.

    On mu-strongly convex costs the regret of :class:`GD` is then at most :math:`\frac{G^2}{2 \mu} (1 + \ln T)`, and all its
    moves together are no longer than :math:`\frac{G}{\mu} (1 + \ln T)`
    (:func:`~klazy.contrib.strongly_convex_bound`; Hazan, Agarwal and Kale, 2007). Do not use it where the best point moves:
    after t rounds a step is t times shorter than the first.

    Parameters
    ----------
    mu : float
        The curvature of the costs, > 0; 1 for half the squared distance to a target.

    Raises
    ------
    ValueError
        If mu is not above zero.

    Examples
    --------
    >>> Proportional(0.5).values(4).tolist()
    [0.5, 1.0, 1.5, 2.0]
    """

    mu: float
    code: ClassVar[int | None] = codes.PROPORTIONAL

    def __init__(self, mu: float) -> None:
        self._keep(mu=positive(mu, "mu"))
        self._check(1)

    def __call__(self, t: int) -> float:
        return self.mu * t

    def parameters(self) -> tuple[float, float]:
        return self.mu, 0.0


class ScaleFree(Schedule):
    r"""Let sigma follow the gradients seen, for an unknown size of gradients and an unknown horizon.

    .. math:: \sigma_t = \sqrt{\sum_{s \le t} (\|g_s\|^2 + 2 \lambda \|g_s\|) / (D^2 + 2 D P)}

    It never decreases. Before the first nonzero gradient there is no scale: sigma is infinite and the learner stays put. A
    sigma below 1e-60 counts as none.

    Parameters
    ----------
    diameter : float
        The diameter D of the set: ``domain.diameter``.
    path_length : float, optional
        A guess of the comparator's path length P. Default: 0, a comparator that stays.
    move_cost : array_like, optional
        The price of a unit of movement, lambda: one number, or one per round. The move that g_s causes is paid in round s + 1,
        so it is lambda_{s+1} that goes with it (the last where rounds go on beyond them); such a schedule has no kernel.
        Default: 1.

    Raises
    ------
    ValueError
        If the diameter is not above zero, or another number is negative.

    Examples
    --------
    >>> ScaleFree(diameter=1.0).observe(1, 0.0, np.array([3.0, 4.0]))[0] ** 2
    35.0

    Moving costs something from the third round on:

    >>> later = ScaleFree(1.0, move_cost=[0.0, 0.0, 12.0])
    >>> [later.observe(t, 0.0, np.array([1.0]))[0] for t in (1, 2, 3)]
    [1.0, 5.0, 5.0]
    """

    diameter: float
    path_length: float
    move_cost: float | Array

    def __init__(
        self, diameter: float, path_length: float = 0.0, move_cost: ArrayLike = 1.0
    ) -> None:
        weight: float | Array
        if _is_list(move_cost):
            weight = vector(move_cost, "move_cost", limit=_WIDEST)
            if weight.min() < 0.0:
                raise InvalidInput(f"move_cost must not be negative, got {weight.min()}.")
        else:
            weight = non_negative(move_cost, "move_cost", limit=_WIDEST)
        self._keep(
            diameter=positive(diameter, "diameter", "Use domain.diameter.", limit=_WIDEST),
            path_length=non_negative(path_length, "path_length", limit=_WIDEST),
            move_cost=weight,
        )

    @property
    def code(self) -> int | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """None where the weight changes from round to round."""
        return codes.SCALE_FREE if np.ndim(self.move_cost) == 0 else None

    def _weight_after(self, t: int) -> float:
        """Return what a unit of the move costs that follows round t."""
        weights = np.atleast_1d(self.move_cost)
        return float(weights[min(t, weights.size - 1)])

    def __call__(self, t: int) -> float:
        raise TypeError(
            "The sigma of ScaleFree depends on the gradients, not on the round alone. Use observe."
        )

    def observe(self, t: int, energy: float, g: Array) -> tuple[float, float]:
        square = float((g * g).sum())  # the same on every CPU, which a dot product of BLAS is not
        energy = energy + (square + 2.0 * self._weight_after(t) * math.sqrt(square))
        sigma = math.sqrt(energy / self._spread)
        if sigma < SMALLEST:
            return math.inf, energy
        return sigma, energy

    def parameters(self) -> tuple[float, float]:
        return float(self.move_cost), self._spread

    @property
    def _spread(self) -> float:
        return self.diameter**2 + 2.0 * self.diameter * self.path_length


def _is_list(values: object) -> bool:
    """Return True if these are numbers in a list or an array."""
    return isinstance(values, list | tuple) or getattr(values, "ndim", 0) > 0


def make_schedule(sigma: Schedule | float | None, learning_rate: float | None) -> Schedule:
    """Make a schedule from a sigma, a schedule or a number, or from its inverse, a learning rate."""
    if learning_rate is None:
        if sigma is None:
            raise InvalidInput(
                "sigma or learning_rate must be given; sigma is 1 / learning_rate."
            )
        return sigma if isinstance(sigma, Schedule) else Constant(sigma)
    if sigma is not None:
        raise InvalidInput(
            f"sigma and learning_rate mean the same, got sigma={sigma!r} and learning_rate={learning_rate!r}. "
            "Give one of them; sigma is 1 / learning_rate."
        )
    if isinstance(learning_rate, Schedule):
        raise InvalidInput(
            f"learning_rate must be a number, got {learning_rate!r}. Pass a schedule as sigma."
        )
    return Constant(1.0 / positive(learning_rate, "learning_rate"))
