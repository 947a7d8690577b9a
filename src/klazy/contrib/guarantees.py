"""Bounds and certificates of the research learners: budgets, curved costs, long-term constraints, mirror descent."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from klazy.base.checks import Array, InvalidInput, instance, integer, non_negative
from klazy.contrib.learners.mirror import Entropy, MirrorMemory
from klazy.contrib.learners.newton import convex_rate, list_rates
from klazy.contrib.learners.optimistic import list_steps
from klazy.contrib.learners.wrappers import LongTerm
from klazy.game.regret import check_comparator
from klazy.game.trace import Trace, check_from_start
from klazy.movement import TVMovement
from klazy.theory.bounds import check_known, check_range, sigma_star
from klazy.theory.certificates import CERTIFIED_FORMS, bound_run, find_smoothed
from klazy.theory.diagnosis import find_rising_sigmas, list_states

_BLOCK_COUNTS = 400  # numbers of blocks among which a lower bound is searched


def budget_sigma(T: int, G: float, R: float, P: float, S: float) -> float:
    r"""Compute the sigma with which GD stays within a budget S: :math:`\max(T G / S, \sigma^*)`.

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
    free = sigma_star(T, G, R, P, move_cost=0.0)
    return max(T * G / check_range(S, "S"), free)


def budgeted_bound(T: int, G: float, R: float, P: float, S: float) -> float:
    r"""Bound the dynamic regret of GD with :func:`~klazy.contrib.budget_sigma`, which moves no further than S.

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
    T, G, R, P, _ = check_known(T, G, R, P)
    sigma = budget_sigma(T, G, R, P, S)
    return T * G * G / (2.0 * sigma) + sigma * (R * R / 2.0 + 2.0 * R * P)


def budget_lower_bound(T: int, G: float, R: float, S: float) -> float:
    r"""Bound from below the regret of every learner whose moves together are at most S, even against a fixed point.

    .. math:: \max_m\; G \bigl(R L\, E|\varepsilon_1 + \dots + \varepsilon_m| - (L - 1) S\bigr), \quad L = \lfloor T / m \rfloor

    On an interval of length 2R the costs are m blocks of L rounds with one random sign :math:`\varepsilon` each. It is of
    order :math:`G R^2 T / S` for S between R and :math:`R \sqrt T`. The maximum is over about a hundred m.

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
    T, G, R, _, _ = check_known(T, G, R)
    budget = check_range(S, "S")
    counts = np.unique(np.geomspace(1, T, _BLOCK_COUNTS).astype(np.int64)).tolist()
    return max(G * (R * (T // m) * _mean_size(m) - (T // m - 1) * budget) for m in counts)


def sword_bound(T: int, G: float, D: float, L: float, P: float = 0.0, V: float = 0.0) -> float:
    r"""Bound the dynamic regret of :func:`~klazy.contrib.sword` and of :func:`~klazy.contrib.sword_plus_plus`.

    .. math:: R_T \le \tfrac{28}{3} D^2 L \ln N + D \sqrt{2 \ln N\, (5 G^2 + 2 V)}
              + \min_i \Bigl(\eta_i (G^2 + 2 V) + \frac{D^2 + 2 D P}{2 \eta_i}\Bigr)

    over the N steps of their experts. The order :math:`\sqrt{(1 + P + V)(1 + P)}` is that of Zhao, Zhang, Zhang and Zhou (2020,
    2021). The constants are those of the proof on the page Theory. Moving is not charged.

    Parameters
    ----------
    T : int
        The number of rounds.
    G : float
        A bound on the gradients' norms.
    D : float
        The diameter of the set.
    L : float
        The smoothness of the costs.
    P : float, optional
        The path length of the comparator. Default: 0, a fixed point.
    V : float, optional
        How much gradients change: the squared norms of their changes from round to round, at the points where they change most.
        Default: 0.

    Returns
    -------
    float
        The bound.

    Examples
    --------
    >>> [round(sword_bound(T, G=1.0, D=2.0, L=1.0)) for T in (1000, 1_000_000)]
    [75, 108]
    """
    T, G, D, P, _ = check_known(T, G, D, P)
    steps = list_steps(T, G, D, check_range(L, "L"))
    changed = G * G + 2.0 * non_negative(V, "V")
    base = min(step * changed + (D * D + 2.0 * D * P) / (2.0 * step) for step in steps)
    experts = math.log(len(steps))
    meta = D * math.sqrt(2.0 * experts * (4.0 * G * G + changed))
    return 28.0 / 3.0 * D * D * L * experts + meta + base


def newton_gamma(alpha: float, G: float, D: float) -> float:
    r"""Compute how much alpha-exp-concave costs curve along their gradients: the gamma of :class:`~klazy.contrib.OnlineNewton`.

    .. math:: f(u) \ge f(x) + \langle g, u - x \rangle + \frac{\gamma}{2} \langle g, u - x \rangle^2, \qquad
              \gamma = 2 \alpha\, \frac{y - \ln(1 + y)}{y^2}, \qquad y = \alpha G D

    Costs are alpha-exp-concave if :math:`e^{-\alpha f}` is concave: logarithms of wealth with alpha = 1, logistic costs of
    features of norm a with :math:`\alpha = e^{-aD}` on a set that has the origin in it, and squared errors of at most c,
    :math:`\frac12 (\langle a, x \rangle - b)^2`, with :math:`\alpha = 1/c^2`.

    Parameters
    ----------
    alpha : float
        The exp-concavity, > 0.
    G : float
        A bound on the gradients' norms.
    D : float
        The diameter of the set.

    Returns
    -------
    float
        Gamma, between :math:`\frac12 \min(\alpha, 1/(4GD))` and alpha.

    Examples
    --------
    >>> round(newton_gamma(alpha=1.0, G=1.0, D=2.0), 4)
    0.4507
    """
    alpha, G, D = check_range(alpha, "alpha"), check_range(G, "G"), check_range(D, "D")
    y = alpha * G * D
    if y < 1e-4:
        # Two terms of the series are below the sum, and the difference has no digits left.
        return alpha * (1.0 - 2.0 * y / 3.0)
    return 2.0 * alpha * (y - math.log1p(y)) / (y * y)


def newton_bound(
    T: int, G: float, D: float, dim: int, alpha: float, move_cost: float = 0.0
) -> float:
    r"""Bound the regret of :class:`~klazy.contrib.OnlineNewton` with :func:`newton_gamma` on alpha-exp-concave costs.

    .. math:: R_T \le \frac{1 + V}{2 \gamma} + \lambda D \sqrt{T V}, \qquad
              V = d \ln\Bigl(1 + \frac{T}{d} (\gamma G D)^2\Bigr)

    The second term is for moving; with it the order is :math:`\sqrt{d T \ln T}`. The proof is on the page Theory.

    Parameters
    ----------
    T : int
        The number of rounds.
    G : float
        A bound on the gradients' norms.
    D : float
        The diameter of the set.
    dim : int
        The number of coordinates, d.
    alpha : float
        The exp-concavity of the costs.
    move_cost : float, optional
        The price of a unit of Euclidean distance. Default: 0, moving is not charged.

    Returns
    -------
    float
        The bound.

    Examples
    --------
    >>> [round(newton_bound(T, G=1.0, D=2.0, dim=2, alpha=1.0), 1) for T in (100, 10_000)]
    [9.4, 19.5]
    """
    T, G, D, _, weight = check_known(T, G, D, weight=move_cost)
    gamma = newton_gamma(alpha, G, D)
    grown = _find_volume(T, integer(dim, "dim"), gamma * G * D)
    return (1.0 + grown) / (2.0 * gamma) + weight * D * math.sqrt(T * grown)


def strongly_convex_bound(T: int, G: float, mu: float, move_cost: float = 0.0) -> float:
    r"""Bound the regret of ``GD(domain, Proportional(mu))`` on mu-strongly convex costs, moving included.

    .. math:: R_T \le \frac{G^2 + 2 \lambda G}{2 \mu} (1 + \ln T)

    The proof is on the page Theory.

    Parameters
    ----------
    T : int
        The number of rounds.
    G : float
        A bound on the gradients' norms.
    mu : float
        The strong convexity of the costs.
    move_cost : float, optional
        The price of a unit of Euclidean distance. Default: 0, moving is not charged.

    Returns
    -------
    float
        The bound.

    Examples
    --------
    >>> [round(strongly_convex_bound(T, G=2.0, mu=1.0, move_cost=1.0), 1) for T in (100, 10_000)]
    [22.4, 40.8]
    """
    T, G, _, _, weight = check_known(T, G, weight=move_cost)
    return (G * G + 2.0 * weight * G) / (2.0 * check_range(mu, "mu")) * (1.0 + math.log(T))


def maler_bound(
    T: int, G: float, D: float, dim: int, *, mu: float = 0.0, alpha: float = 0.0
) -> float:
    r"""Bound the regret of :class:`~klazy.contrib.Maler` on costs of a kind that it is not told.

    It is the least of these, over the rates :math:`\eta` of the N experts, with :math:`y = 2 \eta G D`:

    .. math:: \tfrac32 G D \sqrt T + \eta\, T G^2 D^2 + \frac{\ln N}{\eta}, \qquad
              \bigl(\eta - \tfrac{\mu}{2 G^2}\bigr)^+ T G^2 D^2
              + \frac{(1 + y)^2 (1 + \ln T) + 4 \ln N}{4 \eta}, \qquad
              \bigl(\eta - \tfrac{\gamma}{2}\bigr)^+ T G^2 D^2
              + \frac{(1 + y)^2 (1 + d \ln(1 + \frac{T}{d} (\frac{y}{1 + y})^2)) + 4 \ln N}{4 \eta} ,

    the first for all convex costs, the second for mu-strongly convex ones, the third for alpha-exp-concave ones, with the gamma
    of :func:`newton_gamma`. Moving is not charged. The proof is on the page Theory.

    Parameters
    ----------
    T : int
        The number of rounds.
    G : float
        A bound on the gradients' norms.
    D : float
        The diameter of the set.
    dim : int
        The number of coordinates, d.
    mu : float, optional
        The strong convexity of the costs. Default: 0.
    alpha : float, optional
        The exp-concavity of the costs. Default: 0.

    Returns
    -------
    float
        The bound.

    Examples
    --------
    >>> for kind in ({}, {"mu": 0.5}, {"alpha": 0.5}):
    ...     print([round(maler_bound(T, G=1.0, D=2.0, dim=2, **kind)) for T in (1000, 100_000)])
    [257, 2745]
    [42, 62]
    [61, 106]
    """
    T, G, D, _, _ = check_known(T, G, D)
    dim = integer(dim, "dim")
    rates = list_rates(T, G, D)
    experts = math.log(2 * len(rates) + 1)
    curves = non_negative(mu, "mu") / (2.0 * G * G)
    bends = newton_gamma(alpha, G, D) / 2.0 if non_negative(alpha, "alpha") > 0.0 else 0.0
    worst = T * (G * D) ** 2
    alone = convex_rate(T, G, D)
    least = 1.5 * G * D * math.sqrt(T) + alone * worst + experts / alone
    for eta in rates:
        y = 2.0 * eta * G * D
        strongly = 1.0 + math.log(T)
        newton = 1.0 + _find_volume(T, dim, y / (1.0 + y))
        for known, own in ((curves, strongly), (bends, newton)):
            left = max(eta - known, 0.0) * worst
            least = min(least, left + ((1.0 + y) ** 2 * own / 4.0 + experts) / eta)
    return least


def _find_volume(T: int, dim: int, size: float) -> float:
    """Bound the logarithm of how much T outer products of vectors up to this size increase the determinant of I."""
    return dim * math.log1p(T * size * size / dim)


def switch_bound(T: int, G: float, R: float, P: float, K: int) -> float:
    r"""Bound the dynamic regret of GD with at most K moves: :math:`G \sqrt{T (1 + 2 \lceil T/K \rceil)(R^2 + 4 R P)}`.

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
    return switch_sigma(T, G, R, P, K) * (R * R + 4.0 * R * P)


def switch_sigma(T: int, G: float, R: float, P: float, K: int) -> float:
    r"""Compute the sigma of :func:`~klazy.contrib.switch_bound`: :math:`G \sqrt{T (1 + 2 \lceil T/K \rceil) / (R^2 + 4 R P)}`.

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
    T, G, R, P, _ = check_known(T, G, R, P)
    return G * math.sqrt(T * (1.0 + 2.0 * math.ceil(T / integer(K, "K"))) / (R * R + 4.0 * R * P))


def switch_lower_bound(T: int, G: float, R: float, K: int) -> float:
    r"""Bound from below the regret of a learner without randomness and with at most K moves: :math:`G R T / \sqrt{K + 1}`.

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
    T, G, R, _, _ = check_known(T, G, R)
    return G * R * T / math.sqrt(integer(K, "K") + 1.0)


def _mean_size(m: int) -> float:
    """Compute E|e_1 + ... + e_m| of random signs: m times the chance that the others cancel, or nearly."""
    half = (m - 1) // 2
    log_ways = math.lgamma(m) - math.lgamma(half + 1) - math.lgamma(m - half)
    return m * math.exp(log_ways - (m - 1) * math.log(2.0))


class LongTermBound(NamedTuple):
    """What a :class:`~klazy.contrib.LongTerm` cannot exceed. :func:`~klazy.contrib.long_term_bound` makes it.

    Parameters
    ----------
    regret : float
        Dynamic regret plus the movement paid.
    excess : float
        How much more than B is used, and more than t B / T by the end of any round t.
    """

    regret: float
    excess: float


def long_term_sigma(T: int, G: float, R: float, P: float = 0.0, move_cost: float = 0.0) -> float:
    r"""Compute the sigma that is best for :func:`~klazy.contrib.long_term_bound` with the usual eta.

    It is :math:`(G + \lambda) \sqrt{2 T / (R^2 + 4 R P)}`.

    Parameters
    ----------
    T, G, R, P, move_cost
        As in :func:`sigma_star`.

    Returns
    -------
    float
        Sigma.

    Examples
    --------
    >>> round(long_term_sigma(T=1000, G=1.0, R=1.0), 2)
    44.72
    """
    T, G, R, P, weight = check_known(T, G, R, P, move_cost)
    return (G + weight) * math.sqrt(2.0 * T / (R * R + 4.0 * R * P))


def long_term_bound(
    T: int,
    G: float,
    R: float,
    L: float,
    sigma: float,
    eta: float | None = None,
    *,
    P: float = 0.0,
    slack: float = 0.0,
    move_cost: float = 0.0,
    linear: bool = True,
) -> LongTermBound:
    r"""Bound regret and excess of a :class:`~klazy.contrib.LongTerm` around GD with a constant sigma.

    .. math:: R_T \le \frac{T (G + \lambda)^2}{2 (\sigma - \eta L^2)} + \sigma \Bigl(\frac{R^2}{2} + 2 R P\Bigr), \qquad
              \sum_{s \le t} \bigl(c(x_s) - B/T\bigr) \le L R + p / \eta

    against a comparator that uses at most B/T in each round. With a slack s > 0 the price p is at most
    :math:`\sqrt{M^2 + 4 \eta \sigma R^2}` with :math:`\theta = 2 G R / s` and
    :math:`M = \theta + \eta L (G + \theta L) / \sigma`. So at the usual eta the excess tends to
    :math:`(1 + 2 \sqrt 2) L R` as sigma grows like :math:`\sqrt T`. In any case p is at most
    :math:`\sqrt{2 \eta (2 T G R + \sigma R^2 / 2)}`, which makes the excess of order :math:`T^{1/4}`. The proof is on the page
    Theory.

    Parameters
    ----------
    T, G, R
        As in :func:`sigma_star`.
    L : float
        The largest norm of a gradient of c: that of the row, for a linear constraint.
    sigma : float
        That of GD.
    eta : float, optional
        That of the price, below :math:`\sigma / L^2`. Default: half of that.
    P : float, optional
        The path length of the comparator. Default: 0, a fixed point.
    slack : float, optional
        How much less than B/T some decision uses, in every round. Default: 0, unknown.
    move_cost : float, optional
        The price of a unit of Euclidean movement. Default: 0.
    linear : bool, optional
        Whether c is linear; if not, the bound of the excess is :math:`p/\eta + (G + L (p + 2 \eta L R))\, L T / \sigma`: of
        order :math:`\sqrt T` for a slack, sigma of order :math:`\sqrt T` and eta of order :math:`1/\sqrt T`. Default: True.

    Returns
    -------
    LongTermBound
        Both bounds.

    Raises
    ------
    ValueError
        If eta is not below :math:`\sigma / L^2`.

    Examples
    --------
    >>> for T in (100, 10_000, 1_000_000):
    ...     known = long_term_bound(T, G=1.0, R=1.0, L=1.0, sigma=long_term_sigma(T, 1.0, 1.0), slack=0.25)
    ...     print(T, round(known.regret), round(known.excess, 1))
    100 14 4.3
    10000 141 3.8
    1000000 1414 3.8
    """
    T, G, R, P, weight = check_known(T, G, R, P, move_cost)
    L = check_range(L, "L", "give a bound on the norms of the gradients of c")
    sigma = check_range(sigma, "sigma")
    most = sigma / L**2
    eta = most / 2.0 if eta is None else check_range(eta, "eta")
    if eta >= most:
        raise InvalidInput(f"eta must be below sigma / L**2 = {most:g}, got {eta:g}.")
    spare = non_negative(slack, "slack")
    regret = T * (G + weight) ** 2 / (2.0 * (sigma - eta * L**2))
    regret += sigma * (R * R / 2.0 + 2.0 * R * P)
    price = math.sqrt(2.0 * eta * (2.0 * T * G * R + sigma * R * R / 2.0))
    if spare > 0.0:
        enough = 2.0 * G * R / spare
        overshot = enough + eta * L / sigma * (G + enough * L)
        price = min(price, math.hypot(overshot, 2.0 * R * math.sqrt(eta * sigma)))
    moved = L * R
    if not linear:
        moved = L * T / sigma * (G + L * (price + 2.0 * eta * L * R))
    return LongTermBound(regret, price / eta + moved)


class LongTermCertificate(NamedTuple):
    """Regret and use after every round. :func:`~klazy.contrib.certify_long_term` makes it.

    Parameters
    ----------
    regret : array
        Dynamic regret plus the movement paid, of shape (T,).
    regret_bound : array
        Its bound, of shape (T,).
    excess : array
        How much more was used than t B / T, of shape (T,).
    excess_bound : array
        Its bound, of shape (T,).
    """

    regret: Array
    regret_bound: Array
    excess: Array
    excess_bound: Array


def certify_long_term(trace: Trace, u: ArrayLike) -> LongTermCertificate:
    r"""Bound the regret of a run of a :class:`~klazy.contrib.LongTerm` against u, and how much it used.

    .. math:: R_t &\le \text{certificate of the learner on } h_1, \dots, h_t - \sum_{s \le t} q_s (c(x_s) - c(u_s)) \\
              \sum_{s \le t} (c(x_s) - B/T)
              &\le p_{t+1} / \eta - \sum_{s \le t} \langle \nabla c(x_s), x_{s+1} - x_s \rangle

    Parameters
    ----------
    trace : Trace
        A run from the start, with its points; the learner inside is one that :func:`~klazy.theory.certify` knows.
    u : array_like
        The comparator, of shape (d,) or (T, d).

    Returns
    -------
    LongTermCertificate
        Regret, excess and their bounds, after every round.

    Raises
    ------
    ValueError
        If the run or the comparator is not of this kind.

    Examples
    --------
    >>> learner = LongTerm(GD(Box(0, 1), sigma=20.0), [1.0], B=100.0, T=400)
    >>> found = certify_long_term(run(learner, -np.ones((400, 1))), [0.25])
    >>> [round(float(curve[-1]), 1) for curve in found]
    [1.0, 1.0, -0.6, -0.2]
    """
    check_from_start(trace)
    learner = trace.source
    if not isinstance(learner, LongTerm) or learner.learner.form not in CERTIFIED_FORMS:
        raise InvalidInput(
            f"trace must be of a LongTerm around GD or a learner like it, got {trace.learner}."
        )
    u = check_comparator(u, trace, learner.domain)
    x = np.vstack((trace.x, trace.state.x))
    use = learner.constraint.value(learner.row, trace.x)
    slopes = learner.constraint.gradient(learner.row, trace.x)
    gained = np.vecdot(slopes, np.diff(x, axis=0))
    prices = [0.0]
    for ahead in (use + gained).tolist():
        prices.append(learner.charge(prices[-1], ahead))
    charged = np.array([learner.charge(*each) for each in zip(prices[:-1], use, strict=True)])
    h = trace.gradients() + charged[:, None] * slopes
    own = bound_run(learner.learner, trace.switching, x, h, u, np.zeros(trace.T))
    spared = charged * (use - learner.constraint.value(learner.row, u))
    return LongTermCertificate(
        find_smoothed(trace, u),
        own.realised - np.cumsum(spared),
        np.cumsum(use - learner.B / learner.T),
        np.array(prices[1:]) / learner.eta - np.cumsum(gained),
    )


class MirrorCertificate(NamedTuple):
    """A run of :class:`~klazy.contrib.MirrorMemory` and its bounds. :func:`~klazy.contrib.certify_mirror` makes it.

    Parameters
    ----------
    regret : float
        Dynamic regret, movement included.
    realised : float
        Its bound by what the run paid and met.
    worst_case : float
        Its bound in the worst case; infinite at a floor of 0.
    """

    regret: float
    realised: float
    worst_case: float


def certify_mirror(trace: Trace, u: ArrayLike) -> MirrorCertificate:
    r"""Bound the regret of a run of :class:`~klazy.contrib.MirrorMemory` with :class:`~klazy.contrib.Entropy`.

    Let S be the set's total, :math:`r_t = \max_i g_{t,i} - \min_i g_{t,i}`, :math:`\ell` the logarithm of the largest cap over
    the smallest floor (:math:`\log(d / floor)` on a simplex), :math:`\kappa_t` the range of the normal's coordinates, and
    let movement cost :math:`\lambda` times total variation. For sigmas that never decrease and a comparator above the floor,

    .. math:: R_T \le \sum_t \frac{S (r_t^2 / 8 + \lambda r_t / 4)}{\sigma_t} + \sigma_T S \ell
              + \sum_{t<T} (2 \ell \sigma_t + \kappa_{t+1})\, TV(u_{t+1} - u_t).

    ``realised`` has the movement paid, the divergences and the normals of the run in place of their worst cases. The proof is
    on the page Theory.

    Parameters
    ----------
    trace : Trace
        A run without hints, from its start, which is at or above the floor, with its points.
    u : array_like
        The comparator, of shape (d,) or (T, d), at or above the floor: ``(1 - floor) * u + floor * total / d`` is.

    Returns
    -------
    MirrorCertificate
        ``regret``, movement included, ``realised`` and ``worst_case``; the last is infinite at a floor of 0.

    Raises
    ------
    ValueError
        If the run or the comparator is none of these.

    Examples
    --------
    >>> g = np.repeat([[0.0, 1.0, 1.0], [1.0, 1.0, 0.0]], 20, axis=0)
    >>> learner = MirrorMemory(Simplex(3), 2.0, memory=Decay(8), geometry=Entropy(0.03))
    >>> known = certify_mirror(run(learner, g, engine="step"), np.repeat([[0.98, 0.01, 0.01], [0.01, 0.01, 0.98]], 20, axis=0))
    >>> [round(value, 2) for value in known]
    [17.33, 20.13, 39.77]
    """
    check_from_start(trace)
    learner = _check_run(trace)
    domain: Any = learner.domain
    low, high = learner.geometry.bounds(domain)  # pyright: ignore[reportAttributeAccessIssue]
    points = check_comparator(u, trace, domain)
    rounding = 1e-12 * domain.total
    for name, values in (("u", points), ("start", trace.x[:1])):
        if (values < low - rounding).any():
            raise InvalidInput(
                f"{name} must be at or above the floor, got a point below. "
                f"Mix it with an even split: (1 - floor) * {name} + floor * total / d"
            )
    g = trace.gradients()
    states = list_states(learner, g)
    z = np.array([state.z for state in states])
    normals = np.array([state.n for state in states])
    sigma = find_rising_sigmas(learner, g)
    ranges = np.ptp(g, axis=1)
    jumps = np.diff(points, axis=0)
    lengths = 0.5 * np.abs(jumps).sum(axis=1)
    first = float((domain.total * ranges**2 / (8.0 * sigma)).sum())
    regret = float(np.vecdot(g, trace.x - points).sum()) + float(trace.switching.sum())

    now = _diverge(points, z[:-1])  # KL(u_t, x_t)
    before = _diverge(points[:-1], z[1:-1])  # KL(u_t, x_{t+1})
    anchored = (
        sigma[0] * now[0]
        + (np.diff(sigma) * now[1:]).sum()
        + (sigma[:-1] * (now[1:] - before)).sum()
    )
    pushed = -np.vecdot(normals[1:-1], jumps).sum()
    realised = first + float(trace.switching.sum()) + float(anchored + pushed)

    if low.min() == 0.0:
        return MirrorCertificate(regret, realised, math.inf)
    width = math.log(high.max() / low.min())
    kappa = np.ptp(normals[1:-1], axis=1)
    worst = (
        first
        + sigma[-1] * domain.total * width
        + ((2.0 * width * sigma[:-1] + kappa) * lengths).sum()
    )
    price = float(np.max(trace.movement.weight))
    worst += (price * domain.total * ranges / (4.0 * sigma)).sum()
    return MirrorCertificate(regret, realised, float(worst))


def _check_run(trace: Trace) -> MirrorMemory:
    learner: Any = trace.source
    if type(learner) is not MirrorMemory or not isinstance(learner.geometry, Entropy):
        raise InvalidInput(
            f"trace must be of MirrorMemory with Entropy, got {learner!r}. Use certify."
        )
    instance(trace.movement, "The run's movement", TVMovement, "a TVMovement")
    if np.any(trace.state.hint):
        raise InvalidInput("trace must be of a run without hints.")
    return learner


def _diverge(u: Array, z: Array) -> Array:
    """Compute the relative entropy of u to the point whose logarithm is z, row by row; both have the same sum."""
    logs = np.log(np.where(u > 0.0, u, 1.0))
    return np.vecdot(u, logs - z)
