"""What a budget for moving costs: bounds for learners that keep to one, and what no learner can beat."""

import math
from typing import Any

import numpy as np

from klazy.base.checks import positive, whole
from klazy.theory.bounds import check_known, check_range, sigma_star

_BLOCKS = 400  # numbers of blocks that a lower bound is looked for among


def budget_sigma(T: int, G: float, R: float, P: float, S: float) -> float:
    r"""The sigma with which GD keeps to a budget S by itself: :math:`\max(T G / S, \sigma^*)`.

    No step is longer than :math:`G / \sigma`. Where the budget is ample, it is :func:`sigma_star` without a price of moving.

    Parameters
    ----------
    T, G, R, P
        As in :func:`sigma_star`.
    S : float
        The length of all moves together.

    Returns
    -------
    float
        Sigma.

    Examples
    --------
    >>> budget_sigma(T=1000, G=1.0, R=1.0, P=0.0, S=10.0)
    100.0
    """
    free = sigma_star(T, G, R, P, movement_weight=0.0)
    return max(T * G / _check_budget(S, "budget_sigma"), free)


def budgeted_bound(T: int, G: float, R: float, P: float, S: float) -> float:
    r"""A bound on the dynamic regret of GD with :func:`~klazy.contrib.budget_sigma`, which moves no further than S.

    .. math:: R_T \le \frac{T G^2}{2 \sigma} + \sigma \Bigl(\frac{R^2}{2} + 2 R P\Bigr), \qquad
              \text{so for a small budget} \quad \frac{G S}{2} + \frac{T G}{S} \Bigl(\frac{R^2}{2} + 2 R P\Bigr)

    Moving is not charged. It is that of ``Budgeted(GD(domain, budget_sigma(...)), S, "l2")`` too, with or without T.

    The order T / S, from above and below, is that of Wang, Wan, Yang and Zhang, *Online Convex Optimization with Continuous
    Switching Constraint* (2021); the constants and the path length are added here.

    Parameters
    ----------
    T, G, R, P, S
        As in :func:`budget_sigma`.

    Returns
    -------
    float
        The bound.

    Examples
    --------
    >>> budgeted_bound(T=1000, G=1.0, R=1.0, P=0.0, S=10.0)
    55.0
    """
    T, G, R, P, _ = check_known("budgeted_bound", T, G, R, P, 0.0)
    sigma = budget_sigma(T, G, R, P, S)
    return T * G * G / (2.0 * sigma) + sigma * (R * R / 2.0 + 2.0 * R * P)


def budget_lower_bound(T: int, G: float, R: float, S: float) -> float:
    r"""Regret that no learner can avoid whose moves together are no longer than S, not even against a fixed point.

    .. math:: \max_m\; G \bigl(R L\, E|\varepsilon_1 + \dots + \varepsilon_m| - (L - 1) S\bigr), \quad L = \lfloor T / m \rfloor

    On an interval of length 2R the costs are m blocks of L rounds with one random sign :math:`\varepsilon` each. It is of
    order :math:`G R^2 T / S` for S between R and :math:`R \sqrt T`. The maximum is taken over some hundred m.

    Parameters
    ----------
    T, G, R
        As in :func:`sigma_star`.
    S : float
        The length of all moves together.

    Returns
    -------
    float
        What the expected regret is at least, on these costs.

    Examples
    --------
    >>> round(budget_lower_bound(T=1000, G=1.0, R=1.0, S=10.0), 1)
    25.7
    """
    T, G, R, _, _ = check_known("budget_lower_bound", T, G, R, 0.0, 0.0)
    budget = _check_budget(S, "budget_lower_bound")
    counts = np.unique(np.geomspace(1, T, _BLOCKS).astype(np.int64)).tolist()
    return max(G * (R * (T // m) * _mean_size(m) - (T // m - 1) * budget) for m in counts)


def switch_bound(T: int, G: float, R: float, P: float, K: int) -> float:
    r"""A bound on the dynamic regret of GD held to K moves: :math:`G \sqrt{T (1 + 2 \lceil T/K \rceil)(R^2 + 4 R P)}`.

    It is that of ``Budgeted(GD(domain, sigma), K, "fee", T=T)`` with :func:`switch_sigma`, of order
    :math:`G R T / \sqrt K`: its point lags behind by fewer than T/K steps, each no longer than :math:`G/\sigma`.

    Parameters
    ----------
    T, G, R, P
        As in :func:`sigma_star`.
    K : int
        The number of moves.

    Returns
    -------
    float
        The bound.

    Examples
    --------
    >>> round(switch_bound(T=1000, G=1.0, R=1.0, P=0.0, K=100), 1)
    144.9
    """
    T, G, R, P, _ = check_known("switch_bound", T, G, R, P, 0.0)
    return G * math.sqrt(
        T * (1.0 + 2.0 * math.ceil(T / _check_moves(K, "switch_bound"))) * (R * R + 4.0 * R * P)
    )


def switch_sigma(T: int, G: float, R: float, P: float, K: int) -> float:
    r"""The sigma of :func:`~klazy.contrib.switch_bound`: :math:`G \sqrt{T (1 + 2 \lceil T/K \rceil) / (R^2 + 4 R P)}`.

    Parameters
    ----------
    T, G, R, P, K
        As in :func:`switch_bound`.

    Returns
    -------
    float
        Sigma.

    Examples
    --------
    >>> round(switch_sigma(T=1000, G=1.0, R=1.0, P=0.0, K=100), 1)
    144.9
    """
    T, G, R, P, _ = check_known("switch_sigma", T, G, R, P, 0.0)
    return G * math.sqrt(
        T * (1.0 + 2.0 * math.ceil(T / _check_moves(K, "switch_sigma"))) / (R * R + 4.0 * R * P)
    )


def switch_lower_bound(T: int, G: float, R: float, K: int) -> float:
    r"""Regret that no learner without randomness can avoid if it moves at most K times: :math:`G R T / \sqrt{K + 1}`.

    It is against a fixed point, on a ball of radius R in three or more dimensions, for costs that answer its points: while it
    stays, the gradient is one vector orthogonal to its point and to the sum of all gradients before.

    Parameters
    ----------
    T, G, R
        As in :func:`sigma_star`.
    K : int
        The number of moves.

    Returns
    -------
    float
        What the regret is at least, on these costs.

    Examples
    --------
    >>> switch_lower_bound(T=1000, G=1.0, R=1.0, K=99)
    100.0
    """
    T, G, R, _, _ = check_known("switch_lower_bound", T, G, R, 0.0, 0.0)
    return G * R * T / math.sqrt(_check_moves(K, "switch_lower_bound") + 1.0)


def _check_budget(S: Any, owner: str) -> float:
    return check_range(positive(S, "S", owner), "S", owner)


def _check_moves(K: Any, owner: str) -> int:
    return whole(K, "K", owner, "K >= 1 moves", "give the number of moves")


def _mean_size(m: int) -> float:
    """E|e_1 + ... + e_m| of random signs: m times the chance that the others cancel, or nearly."""
    half = (m - 1) // 2
    log_ways = math.lgamma(m) - math.lgamma(half + 1) - math.lgamma(m - half)
    return m * math.exp(log_ways - (m - 1) * math.log(2.0))
