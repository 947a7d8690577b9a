"""What it costs to know only costs: bounds and tunings for learners that try points."""

import math
from typing import Any

from klazy.base.checks import non_negative, refusal, size, whole
from klazy.theory.bounds import check_known, check_range


def bandit_bound(
    T: int,
    n: int,
    G: float,
    R: float,
    P: float,
    sigma: float,
    delta: float,
    points: int = 1,
    C: float = 1.0,
    inset: float | None = None,
    movement_weight: float = 1.0,
) -> float:
    r"""A bound on the expected regret of a :class:`~klazy.contrib.Bandit` around GD with a constant sigma.

    .. math:: E\, R_T \le \frac{T}{\sigma}\Bigl(\frac{\hat G^2}{2} + \lambda \hat G\Bigr)
              + \sigma \Bigl(\frac{R^2}{2} + 2 R P\Bigr)
              + T \bigl(c\, G \delta + G \varepsilon + 2 \lambda (c - 1) \delta\bigr)

    with :math:`\hat G = n C / \delta`, c = 2 for one point, and :math:`\hat G = n G`, c = 1 for two. The costs are convex,
    chosen beforehand, change by at most G times a distance, and are at most C in size. Movement is Euclidean.

    Parameters
    ----------
    T, G, R, P, sigma, movement_weight
        As in :func:`theorem_5`.
    n : int
        The dimension of the set, ``domain.rank``.
    delta : float
        How far away trials are.
    points : int, optional
        1 or 2.
    C : float, optional
        The largest size of a cost; with two points it does not matter.
    inset : float, optional
        :math:`\varepsilon`, how far a point of the set may be from the shrunk set. Default: delta, as on Euclidean balls; it is
        :math:`\delta \sqrt d` on a box and :math:`\delta (d - 1)` on a simplex.

    Returns
    -------
    float
        The bound, on dynamic regret and what moving costs together.

    Examples
    --------
    >>> delta, sigma = bandit_tuning(T=10_000, n=2, G=1.0, R=1.0, P=0.0, points=2)
    >>> bandit_bound(10_000, 2, 1.0, 1.0, 0.0, sigma, delta, points=2)
    284.84...
    """
    owner = "bandit_bound"
    T, G, R, P, weight = check_known(owner, T, G, R, P, movement_weight)
    estimate, away = _measure_estimate(owner, n, G, delta, points, C)
    sigma = check_range(sigma, "sigma", owner)
    beyond = delta if inset is None else non_negative(inset, "inset", owner)
    own = T * (estimate * estimate / 2.0 + weight * estimate) / sigma + sigma * (R * R / 2.0 + 2.0 * R * P)
    return own + T * (away * G * delta + G * beyond + 2.0 * weight * (away - 1.0) * delta)


def bandit_tuning(
    T: int,
    n: int,
    G: float,
    R: float,
    P: float,
    points: int = 1,
    C: float = 1.0,
    movement_weight: float = 1.0,
) -> tuple[float, float]:
    r"""Theory's delta and sigma for a :class:`~klazy.contrib.Bandit`.

    With one point :math:`\delta = \sqrt{n C \sqrt{R^2 + 4 R P} / ((3 G + 2 \lambda) \sqrt T)}`, which makes the bound one of
    order :math:`T^{3/4}`; with two points :math:`\delta = R / T`, and it is of order :math:`T^{1/2}`. Sigma is
    :func:`sigma_star` for the size of the estimates.

    Parameters
    ----------
    T, n, G, R, P, points, C, movement_weight
        As in :func:`bandit_bound`.

    Returns
    -------
    delta : float
        How far away trials are; the set may have less room for them.
    sigma : float
        The learner's sigma.

    Examples
    --------
    >>> delta, sigma = bandit_tuning(T=10_000, n=2, G=1.0, R=1.0, P=0.0)
    >>> round(delta, 3), round(sigma)
    (0.063, 3261)
    """
    owner = "bandit_tuning"
    T, G, R, P, weight = check_known(owner, T, G, R, P, movement_weight)
    width = R * R + 4.0 * R * P
    delta = R / T
    if _check_points(points, owner) == 1:
        size_of_costs = check_range(C, "C", owner)
        delta = math.sqrt(
            _check_dim(n, owner) * size_of_costs * math.sqrt(width / T) / (3.0 * G + 2.0 * weight)
        )
    estimate, _ = _measure_estimate(owner, n, G, delta, points, C)
    return delta, math.sqrt((estimate * estimate + 2.0 * weight * estimate) * T / width)


def _check_dim(n: Any, owner: str) -> int:
    return size(n, "n", owner, "a dimension n >= 1", "use domain.rank")


def _check_points(points: Any, owner: str) -> int:
    count = whole(points, "points", owner, "one point or two", "use points=1 or points=2")
    if count > 2:
        raise refusal(owner, "one point or two", "points", points, "use points=1 or points=2")
    return count


def _measure_estimate(owner: str, n: Any, G: float, delta: Any, points: Any, C: Any) -> tuple[float, float]:
    """A bound on the size of the estimates, and how many deltas the smoothing costs."""
    count = _check_points(points, owner)
    dim = _check_dim(n, owner)
    radius = check_range(delta, "delta", owner)
    if count == 2:
        return dim * G, 1.0
    return dim * check_range(C, "C", owner) / radius, 2.0
