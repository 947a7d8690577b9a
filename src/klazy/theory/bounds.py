"""Closed forms: the bounds of the paper's theorems, their tunings, and what late feedback or costs alone add to them."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from klazy.base.checks import Array, InvalidInput, non_negative, positive, real_array, size
from klazy.game.game import check_delays
from klazy.learners.base import check_slack
from klazy.learners.presets import meta_rate, sigma_grid
from klazy.learners.sader import harmonic_prior

_LARGEST_FACTOR = 1e50  # Bounds multiply up to five such numbers and a horizon.


def sigma_star(T: int, G: float, R: float, P: float, move_cost: float = 1.0) -> float:
    r"""Compute the sigma that minimises Theorem 5's bound: :math:`\sqrt{(G^2 + 2 \lambda G) T / (4 R P + R^2)}`.

    Parameters
    ----------
    T : int
        The number of rounds.
    G : float
        A bound on the gradients' norms.
    R : float
        A bound on the distance from x_1.
    P : float
        The comparator's path length.
    move_cost : float, optional
        The price of a unit of movement. Default: 1.

    Returns
    -------
    float
        The sigma.

    Examples
    --------
    >>> sigma_star(T=60_000, G=1.0, R=1.0, P=28.0)
    39.911...
    """
    T, G, R, P, weight = check_known(T, G, R, P, move_cost)
    return math.sqrt((G * G + 2.0 * weight * G) * T / (4.0 * R * P + R * R))


def k_star(T: int, R: float, P: float, c: float = 1.0) -> int:
    r"""Compute the largest slack that keeps the optimal rate: :math:`\lfloor c \sqrt{2 R T / P} \rfloor`, between 1 and T.

    Parameters
    ----------
    T : int
        The number of rounds.
    R : float
        A bound on the distance from x_1.
    P : float
        The comparator's path length; for 0 the slack is T.
    c : float, optional
        A factor. Default: 1.

    Returns
    -------
    int
        The slack k.

    Examples
    --------
    >>> k_star(T=60_000, R=1.0, P=28.0)
    65
    """
    T, _, R, P, _ = check_known(T, R=R, P=P)
    c = check_range(c, "c")
    slack = math.inf if P == 0.0 else c * math.sqrt(2.0 * R * T / P)
    return T if slack >= T else max(1, math.floor(slack))


def theorem_5(
    T: int,
    G: float,
    R: float,
    P: float,
    sigma: float,
    k: int,
    move_cost: float = 1.0,
    moves: ArrayLike | None = None,
) -> float:
    r"""Bound the smoothed regret of k-lazyGD with a constant sigma (Theorem 5).

    .. math:: R_T \le \sum_t \min\bigl(G \delta_t, \tfrac{G^2}{2\sigma}\bigr) + (2 R \sigma + k G) P + \tfrac{\sigma R^2}{2}
              + \lambda \sum_t \min\bigl(\delta_t, \tfrac{G}{\sigma}\bigr)

    Parameters
    ----------
    T : int
        The number of rounds.
    G : float
        A bound on the gradients' norms.
    R : float
        A bound on the distance from x_1.
    P : float
        The comparator's path length.
    sigma : float
        The learner's sigma.
    k : int
        The learner's slack.
    move_cost : float, optional
        The price of a unit of movement. Default: 1.
    moves : array_like, optional
        The realised :math:`\delta_t = \|x_{t+1} - x_t\|`, t = 1, ..., T. Default: their worst case.

    Returns
    -------
    float
        The bound.

    Examples
    --------
    >>> theorem_5(T=100, G=1.0, R=1.0, P=0.0, sigma=10.0, k=5)
    20.0
    """
    T, G, R, P, weight = check_known(T, G, R, P, move_cost)
    sigma = check_range(sigma, "sigma")
    k = check_slack(k)
    rest = (2.0 * R * sigma + k * G) * P + sigma * R * R / 2.0
    if moves is None:
        return T * (G * G / (2.0 * sigma) + weight * G / sigma) + rest
    delta = real_array(moves, "moves")
    if (delta < 0.0).any():
        raise InvalidInput(
            f"moves must not be negative, got {float(delta.min())}. They are lengths of steps."
        )
    if delta.shape != (T,):
        raise InvalidInput(f"moves must have shape ({T},), one per round, got {delta.shape}.")
    paid = (
        np.minimum(G * delta, G * G / (2.0 * sigma)).sum()
        + weight * np.minimum(delta, G / sigma).sum()
    )
    return float(paid) + rest


def theorem_5_tuned(
    T: int, G: float, R: float, P: float, move_cost: float = 1.0, c: float = 1.0
) -> float:
    r"""Bound the smoothed regret of k-lazyGD with the best sigma and k (Theorem 5, tuned).

    .. math:: \sqrt{T (G^2 + 2 \lambda G)(R^2 + 4 R P)} + c\, G \sqrt{2 R T P}

    The last line of the paper's proof lacks the factor :math:`c \sqrt{2R}`. This is an upper bound of :func:`theorem_5` at
    :func:`~klazy.theory.sigma_star` and :func:`~klazy.theory.k_star`, since k is rounded down; where k = 1 is the least there
    is, greedy descent's G P is used.

    Parameters
    ----------
    T : int
        The number of rounds.
    G : float
        A bound on the gradients' norms.
    R : float
        A bound on the distance from x_1.
    P : float
        The comparator's path length.
    move_cost : float, optional
        The price of a unit of movement. Default: 1.
    c : float, optional
        The factor of :func:`~klazy.theory.k_star`. Default: 1.

    Returns
    -------
    float
        The bound.

    Examples
    --------
    >>> round(theorem_5_tuned(T=100, G=1.0, R=1.0, P=0.0), 3)
    17.321
    """
    T, G, R, P, weight = check_known(T, G, R, P, move_cost)
    c = check_range(c, "c")
    lazy = c * G * math.sqrt(2.0 * R * T * P)
    if k_star(T, R, P, c) == 1:
        lazy = max(lazy, G * P)
    return sigma_star(T, G, R, P, weight) * (R * R + 4.0 * R * P) + lazy


def theorem_8(
    T: int, G: float, R: float, P: float, move_cost: float = 1.0, beta: float | str = "lemma"
) -> float:
    r"""Bound the smoothed regret of SAder-k, with theory's grid, harmonic prior and rate (Theorem 8).

    .. math:: R_T \le \min_i \Bigl[ \text{Theorem 5 of expert } i + \frac{\ln(1/\pi_i)}{\beta} \Bigr]
              + \beta T D^2 \frac{(2G + \lambda)(2G + 3\lambda)}{8}, \qquad D = 2R

    Parameters
    ----------
    T : int
        The number of rounds.
    G : float
        A bound on the gradients' norms.
    R : float
        A bound on the distance from x_1.
    P : float
        The comparator's path length.
    move_cost : float, optional
        The price of a unit of movement. Default: 1.
    beta : float or str, optional
        The ensemble's rate, or the name of one that :func:`~klazy.theory.meta_rate` knows. Default: ``"lemma"``.

    Returns
    -------
    float
        The bound.

    Examples
    --------
    >>> round(theorem_8(T=1000, G=1.0, R=1.0, P=10.0), 1)
    971.1
    """
    T, G, R, P, weight = check_known(T, G, R, P, move_cost)
    rate = (
        meta_rate(beta, T, G, R, weight) if isinstance(beta, str) else check_range(beta, "beta")
    )
    own = [theorem_5(T, G, R, P, sigma, k, weight) for sigma, k in expert_grid(T, G, R, weight)]
    best = float((own - np.log(harmonic_prior(len(own))) / rate).min())
    return best + rate * T * (2.0 * R) ** 2 * (2.0 * G + weight) * (2.0 * G + 3.0 * weight) / 8.0


def ensemble_lemma(T: int, G: float, R: float, prior: float, move_cost: float = 1.0) -> float:
    r"""Bound what an ensemble with the rate ``"lemma"`` costs more than one of its experts (Zhang et al., 2021).

    It is :math:`(2G + \lambda)\, 2R\, (\ln(1/\pi) + 1) \sqrt{5T/8}`.

    Parameters
    ----------
    T : int
        The number of rounds.
    G : float
        A bound on the gradients' norms.
    R : float
        A bound on the distance from x_1.
    prior : float
        The expert's weight at the start, pi.
    move_cost : float, optional
        The price of a unit of movement. Default: 1.

    Returns
    -------
    float
        The bound.

    Examples
    --------
    >>> round(ensemble_lemma(T=1000, G=1.0, R=1.0, prior=0.5), 3)
    253.972
    """
    T, G, R, _, weight = check_known(T, G, R, weight=move_cost)
    share = positive(prior, "prior")
    if share > 1.0:
        raise InvalidInput(f"prior must be at most 1, got {prior}.")
    return (2.0 * G + weight) * 2.0 * R * (1.0 - math.log(share)) * math.sqrt(5.0 * T / 8.0)


def expert_grid(T: int, G: float, R: float, move_cost: float = 1.0) -> list[tuple[float, int]]:
    r"""List the experts that theory asks for: pairs of sigma and :math:`k = \max(1, \lfloor 2 R \sigma / G \rfloor)`.

    Parameters
    ----------
    T : int
        The number of rounds.
    G : float
        A bound on the gradients' norms.
    R : float
        A bound on the distance from x_1.
    move_cost : float, optional
        The price of a unit of movement. Default: 1.

    Returns
    -------
    list of tuple
        The grid H of (sigma, k), largest sigma first.

    Examples
    --------
    >>> [(round(sigma, 2), k) for sigma, k in expert_grid(T=100, G=1.0, R=1.0)]
    [(17.32, 34), (8.66, 17), (4.33, 8), (2.17, 4), (1.08, 2), (0.54, 1)]
    """
    T, G, R, _, weight = check_known(T, G, R, weight=move_cost)
    return [
        (s, max(1, math.floor(2.0 * R * s / G))) for s in sigma_grid(T, G, R, weight).tolist()
    ]


def coin_betting_bound(
    T: int, G: float, distance: float, wealth: float = 1.0, *, move_cost: float | None = None
) -> float:
    r"""Bound what :class:`~klazy.contrib.CoinBetting` costs more than a point at this distance from its start.

    Movement apart it is the first of these (Orabona and Pal, 2016); for a learner with a movement, and with what moving costs,
    the second, with :math:`\alpha = 4 + 8 \lambda / G`:

    .. math:: G W_0 + G \|u - x_1\| \sqrt{T \ln(1 + 24 T^2 \|u - x_1\|^2 / W_0^2)}, \qquad
              G W_0 + G \|u - x_1\| \sqrt{\alpha T \ln(1 + e \alpha T^2 \|u - x_1\|^2 / W_0^2)}.

    The proof is on the page Theory.

    Parameters
    ----------
    T : int
        The number of rounds.
    G : float
        The largest norm of a gradient.
    distance : float
        How far the comparator is from the first point.
    wealth : float, optional
        The learner's.
    move_cost : float, optional
        The price of a unit of movement for a learner with a movement: what a step of Euclidean length 1 costs at most. Default:
        the learner has none.

    Returns
    -------
    float
        The bound.

    Examples
    --------
    >>> round(coin_betting_bound(T=50, G=1.0, distance=1.0), 2)
    24.45
    >>> [round(coin_betting_bound(T=50, G=1.0, distance=1.0, move_cost=price)) for price in (0.0, 1.0, 100.0)]
    [46, 83, 791]
    """
    T = size(T, "T")
    G = check_range(G, "G")
    wealth = check_range(wealth, "wealth")
    distance = _check_amount(distance, "distance")
    alpha = 1.0
    factor = 24.0
    if move_cost is not None:
        alpha = 4.0 + 8.0 * _check_amount(move_cost, "move_cost") / G
        factor = math.e * alpha
    far = math.log1p(factor * (T * distance / wealth) ** 2)
    return G * wealth + G * distance * math.sqrt(alpha * T * far)


def universal_lower_bound(T: int, P: float) -> float:
    r"""Compute the order of regret that no learner can beat, :math:`\sqrt{(P + 1) T}`, for G = R = 1, without constants.

    Parameters
    ----------
    T : int
        The number of rounds.
    P : float
        The comparator's path length.

    Returns
    -------
    float
        The order of regret.

    Examples
    --------
    >>> universal_lower_bound(T=100, P=3.0)
    20.0
    """
    T, _, _, P, _ = check_known(T, P=P)
    return math.sqrt((P + 1.0) * T)


def theorem_2(T: int, k: int, P: float) -> float:
    r"""Bound from below what the wave of :func:`~klazy.sequences.square_wave` costs k-lazyGD on [-1, 1] (Theorem 2).

    It is :math:`A k_e`, where :math:`k_e` is k, or k - 1 if k is odd. The comparator flips 2A - 1 times between -1 and 1, each
    flip of length 2, so a path length P pays for :math:`A = \lfloor (P/2 + 1) / 2 \rfloor` active blocks.

    There are no more than :math:`\lfloor T/k \rfloor` blocks, so the bound stops growing at a path length of about 4T/k: a
    larger P gives the same number. This is :math:`\Omega(k P)` as in the paper, with two corrections. Its P counts a flip as 1,
    and so is half of the real one. And it allows any P up to 2R(T - 1), for which k P / 4 can exceed the largest regret.

    Parameters
    ----------
    T : int
        The number of rounds.
    k : int
        The slack.
    P : float
        The comparator's path length.

    Returns
    -------
    float
        The bound.

    Examples
    --------
    >>> theorem_2(T=100, k=10, P=6.0)
    20.0
    >>> theorem_2(T=100, k=100, P=198.0)  # one block; no regret on [-1, 1] exceeds 2T + 2(T - 1) = 398
    100.0
    """
    T, _, _, P, _ = check_known(T, P=P)
    k = check_slack(k)
    active = min(T // k, math.floor((P / 2.0 + 1.0) / 2.0)) if P >= 2.0 else 0
    return float(active * (k - k % 2))


def check_known(
    T: Any, G: Any = 1.0, R: Any = 1.0, P: Any = 0.0, weight: Any = 0.0
) -> tuple[int, float, float, float, float]:
    """Check the arguments of bounds: the horizon, G, R, the path length and the weight of movement."""
    T = size(T, "T")
    G = check_range(G, "G", "give a bound on the gradients' norms")
    R = check_range(R, "R", "use domain.reach()")
    return T, G, R, _check_amount(P, "P"), _check_amount(weight, "move_cost")


def check_range(value: Any, name: str, *remedy: str) -> float:
    """Return a positive number whose products with the others neither overflow nor vanish, or reject it."""
    result = _check_limit(positive(value, name, *remedy), name)
    if result < 1.0 / _LARGEST_FACTOR:
        raise InvalidInput(
            f"{name} must be at least {1.0 / _LARGEST_FACTOR:g}, got {value}. Use smaller units."
        )
    return result


def _check_amount(value: Any, name: str) -> float:
    return _check_limit(non_negative(value, name), name)


def _check_limit(value: float, name: str) -> float:
    if value > _LARGEST_FACTOR:
        raise InvalidInput(
            f"{name} must be at most {_LARGEST_FACTOR:g}, got {value}. Use larger units."
        )
    return value


class Order(NamedTuple):
    """Feedback in the order of arrival.

    ``rounds`` are its rounds, counted from 0; ``ends`` the rounds at whose end it arrives; ``started`` how much feedback had
    arrived before each of its rounds began.
    """

    rounds: np.ndarray
    ends: np.ndarray
    started: np.ndarray

    @property
    def waited(self) -> np.ndarray:
        """How much other feedback was learned between the beginning of each round and its own."""
        return np.arange(len(self.rounds)) - self.started


def order_feedback(delays: Array) -> Order:
    """Return the order in which feedback with these delays arrives in :func:`~klazy.run`, up to the last round."""
    T = len(delays)
    due = np.arange(T) + delays
    rounds = np.argsort(due, kind="stable")
    rounds = rounds[due[rounds] < T]
    ends = due[rounds].astype(np.int64)
    return Order(rounds, ends, np.searchsorted(ends, rounds, side="left"))


def count_outstanding(delays: ArrayLike) -> tuple[int, int]:
    r"""Count late and missing feedback.

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
    given = check_delays(delays)
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
    move_cost: float = 1.0,
) -> float:
    r"""Bound the regret of :class:`~klazy.contrib.Delayed` k-lazyGD with a constant sigma and Euclidean movement.

    .. math:: R_T \le \text{Theorem 5} + \frac{G^2}{\sigma} O + 2 R G M

    O is the number of outstanding pairs, M that of rounds whose feedback never comes (:func:`count_outstanding`). P is the
    comparator's path length *in the order of arrival*: the usual one as long as no feedback overtakes another.

    Parameters
    ----------
    T, G, R, P, sigma, k, move_cost
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
    own = theorem_5(T, G, R, P, sigma, k, move_cost)
    pairs = non_negative(outstanding, "outstanding")
    lost = non_negative(missing, "missing")
    return own + G * G * pairs / sigma + 2.0 * R * G * lost


def delayed_sigma(
    T: int, G: float, R: float, P: float, outstanding: float, move_cost: float = 1.0
) -> float:
    r"""Compute the sigma that minimises :func:`~klazy.theory.delayed_bound`.

    It is :math:`\sqrt{\bigl((G^2 + 2 \lambda G) T + 2 G^2 O\bigr) / (4 R P + R^2)}`: the bound grows like
    :math:`\sqrt{T + O}`.

    Parameters
    ----------
    T, G, R, P, move_cost
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
    T, G, R, P, weight = check_known(T, G, R, P, move_cost)
    pairs = non_negative(outstanding, "outstanding")
    square = ((G * G + 2.0 * weight * G) * T + 2.0 * G * G * pairs) / (4.0 * R * P + R * R)
    return check_range(math.sqrt(square), "sigma")


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
    move_cost: float = 1.0,
) -> float:
    r"""Bound the expected regret of a :class:`~klazy.contrib.Bandit` around GD with a constant sigma.

    .. math:: E\, R_T \le \frac{T}{\sigma}\Bigl(\frac{\hat G^2}{2} + \lambda \hat G\Bigr)
              + \sigma \Bigl(\frac{R^2}{2} + 2 R P\Bigr)
              + T \bigl(c\, G \delta + G \varepsilon + 2 \lambda (c - 1) \delta\bigr)

    with :math:`\hat G = n C / \delta`, c = 2 for one point, and :math:`\hat G = n G`, c = 1 for two. The costs are convex,
    chosen beforehand, change by at most G times a distance, and are at most C in size. Movement is Euclidean.

    Parameters
    ----------
    T, G, R, P, sigma, move_cost
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
    T, G, R, P, weight = check_known(T, G, R, P, move_cost)
    estimate, away = _measure_estimate(n, G, delta, points, C)
    sigma = check_range(sigma, "sigma")
    beyond = delta if inset is None else non_negative(inset, "inset")
    own = T * (estimate * estimate / 2.0 + weight * estimate) / sigma + sigma * (
        R * R / 2.0 + 2.0 * R * P
    )
    return own + T * (away * G * delta + G * beyond + 2.0 * weight * (away - 1.0) * delta)


def bandit_tuning(
    T: int,
    n: int,
    G: float,
    R: float,
    P: float,
    points: int = 1,
    C: float = 1.0,
    move_cost: float = 1.0,
) -> tuple[float, float]:
    r"""Compute theory's delta and sigma for a :class:`~klazy.contrib.Bandit`.

    With one point :math:`\delta = \sqrt{n C \sqrt{R^2 + 4 R P} / ((3 G + 2 \lambda) \sqrt T)}`, which makes the bound one of
    order :math:`T^{3/4}`; with two points :math:`\delta = R / T`, and it is of order :math:`T^{1/2}`. Sigma is
    :func:`sigma_star` for the size of the estimates.

    Parameters
    ----------
    T, n, G, R, P, points, C, move_cost
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
    T, G, R, P, weight = check_known(T, G, R, P, move_cost)
    width = R * R + 4.0 * R * P
    delta = R / T
    if _check_points(points) == 1:
        size_of_costs = _check_dim(n) * check_range(C, "C")
        delta = math.sqrt(size_of_costs * math.sqrt(width / T) / (3.0 * G + 2.0 * weight))
    estimate, _ = _measure_estimate(n, G, delta, points, C)
    return delta, math.sqrt((estimate * estimate + 2.0 * weight * estimate) * T / width)


def _check_dim(n: Any) -> int:
    return size(n, "n", "Use domain.rank.")


def _check_points(points: Any) -> int:
    if points not in (1, 2):
        raise InvalidInput(f"points must be 1 or 2, got {points!r}.")
    return int(points)


def _measure_estimate(n: Any, G: float, delta: Any, points: Any, C: Any) -> tuple[float, float]:
    """Return a bound on the size of the estimates, and how many deltas the smoothing costs."""
    count = _check_points(points)
    dim = _check_dim(n)
    radius = check_range(delta, "delta")
    if count == 2:
        return dim * G, 1.0
    return dim * check_range(C, "C") / radius, 2.0
