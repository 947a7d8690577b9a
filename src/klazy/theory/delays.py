"""What late feedback costs: the order in which it comes, and bounds for learners that wait for it."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from klazy.base.checks import Array, non_negative
from klazy.game.game import check_delays
from klazy.theory.bounds import check_known, check_range, theorem_5


class Order(NamedTuple):
    """Feedback in the order in which it comes.

    ``rounds`` are those that it is of, counted from 0; ``ends`` the rounds at whose end it comes; ``started`` how much
    feedback had come before each of these rounds began.
    """

    rounds: np.ndarray
    ends: np.ndarray
    started: np.ndarray

    @property
    def waited(self) -> np.ndarray:
        """How much other feedback was learned between the beginning of each round and its own."""
        return np.arange(len(self.rounds)) - self.started


def order_feedback(delays: Array) -> Order:
    """The order in which :func:`~klazy.run` tells feedback with these delays, those of the last rounds cut off."""
    T = len(delays)
    due = np.arange(T) + delays
    rounds = np.argsort(due, kind="stable")
    rounds = rounds[due[rounds] < T]
    ends = due[rounds].astype(np.int64)
    return Order(rounds, ends, np.searchsorted(ends, rounds, side="left"))


def count_outstanding(delays: ArrayLike) -> tuple[int, int]:
    r"""How much late feedback there is to pay for.

    Parameters
    ----------
    delays : array_like
        The delay of each round, as in :func:`~klazy.run`.

    Returns
    -------
    outstanding : int
        The number of pairs of a round and a feedback that was learned between the beginning of the round and its own
        feedback. It is at most the sum of all delays.
    missing : int
        The rounds whose feedback has not come by the end of the last one.

    Examples
    --------
    >>> count_outstanding([2, 2, 2, 2, 2, 2])
    (5, 2)
    """
    given = check_delays("count_outstanding", delays)
    order = order_feedback(given)
    return int(order.waited.sum()), len(given) - len(order.rounds)


def delayed_bound(
    T: int,
    G: float,
    R: float,
    P: float,
    sigma: float,
    k: int = 1,
    outstanding: float = 0.0,
    missing: float = 0.0,
    movement_weight: float = 1.0,
) -> float:
    r"""Bound the regret of :class:`~klazy.contrib.Delayed` k-lazyGD with a constant sigma and Euclidean movement.

    .. math:: R_T \le \text{Theorem 5} + \frac{G^2}{\sigma} O + 2 R G M

    O is the number of outstanding pairs, M that of rounds whose feedback never comes (:func:`count_outstanding`). P is the
    comparator's path length *in the order of arrival*: the usual one as long as no feedback overtakes another.

    Parameters
    ----------
    T, G, R, P, sigma, k, movement_weight
        As in :func:`theorem_5`.
    outstanding : float, optional
        O, or an upper bound: the sum of all delays.
    missing : float, optional
        M.

    Returns
    -------
    float
        The bound, on dynamic regret and what moving costs together.

    Examples
    --------
    >>> delayed_bound(T=1000, G=1.0, R=1.0, P=0.0, sigma=100.0, outstanding=3000)
    95.0
    """
    own = theorem_5(T, G, R, P, sigma, k, movement_weight)
    pairs = non_negative(outstanding, "outstanding", "delayed_bound")
    lost = non_negative(missing, "missing", "delayed_bound")
    return own + G * G * pairs / sigma + 2.0 * R * G * lost


def delayed_sigma(
    T: int, G: float, R: float, P: float, outstanding: float, movement_weight: float = 1.0
) -> float:
    r"""The sigma that minimises :func:`~klazy.theory.delayed_bound`.

    It is :math:`\sqrt{\bigl((G^2 + 2 \lambda G) T + 2 G^2 O\bigr) / (4 R P + R^2)}`: the bound grows like
    :math:`\sqrt{T + O}`.

    Parameters
    ----------
    T, G, R, P, movement_weight
        As in :func:`sigma_star`.
    outstanding : float
        O, as in :func:`delayed_bound`.

    Returns
    -------
    float
        Sigma.

    Examples
    --------
    >>> delayed_sigma(T=1000, G=1.0, R=1.0, P=0.0, outstanding=3000)
    94.868...
    """
    T, G, R, P, weight = check_known("delayed_sigma", T, G, R, P, movement_weight)
    pairs = non_negative(outstanding, "outstanding", "delayed_sigma")
    square = ((G * G + 2.0 * weight * G) * T + 2.0 * G * G * pairs) / (4.0 * R * P + R * R)
    return check_range(math.sqrt(square), "sigma", "delayed_sigma")
