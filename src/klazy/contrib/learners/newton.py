"""Learners for costs that curve: the online Newton step, and one that finds out by itself how much they curve."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from klazy.base.checks import Array, positive, size
from klazy.learners.base import Learner, check_domain, check_start
from klazy.learners.gd import GD
from klazy.learners.prox import split
from klazy.learners.sader import points_of
from klazy.schedules import Proportional, Sqrt
from klazy.sets import ConvexSet, Simplex
from klazy.sets.base import check_bounded

# Turns in which the shares of a Newton step are looked for, and a gain from a share that is rounding.
SHARE_TURNS = 50
SHARE_ROUNDING = 1e-10
LEAST_CURVATURE = 1e-12  # A curvature below this share of the largest is that of a direction in which the set does not extend.


class NewtonState(NamedTuple):
    """The round, the point, the curvature (A), and the pull (b)."""

    t: int
    x: Array
    outer: Array
    pull: Array


class OnlineNewton(Learner[NewtonState]):
    r"""Take Newton steps: gradients count less in directions in which they were large.

    .. math:: x_{t+1} = \arg\min_{x \in X} \tfrac12 \langle x, A_t x \rangle - \langle b_t, x \rangle, \qquad
              A_t = \epsilon I + \sum_{s \le t} g_s g_s^\top, \qquad
              b_t = \epsilon x_1 + \delta \sum_{s \le t} \bigl(\langle g_s, x_s \rangle - \tfrac{1}{\gamma}\bigr) g_s

    It is the minimiser of all costs so far, each replaced by
    :math:`\langle g_s, x - x_s \rangle + \frac{\gamma}{2} \langle g_s, x - x_s \rangle^2`, and the projection of
    :math:`A_t^{-1} b_t` in the norm of :math:`A_t`: follow the approximate leader (Hazan, Agarwal and Kale, *Logarithmic
    Regret Algorithms for Online Convex Optimization*, 2007). With :math:`\delta = 1` and the gamma of
    :func:`~klazy.contrib.newton_gamma` its regret on exp-concave costs, such as logarithms and squared errors of predictions,
    is of order :math:`d \ln T` (:func:`~klazy.contrib.newton_bound`). Moving is not charged; its length is of order
    :math:`D \sqrt{d T \ln T}` at most. A step takes about :math:`d^3` operations and some dozen projections.

    Do not use it where the best point moves, where costs have kinks or are linear, or in hundreds of dimensions.

    Parameters
    ----------
    domain : ConvexSet
        Where decisions live.
    gamma : float
        How much costs curve along their gradients, > 0.
    epsilon : float, optional
        The curvature at the start, > 0. Default: :math:`1 / (\gamma D)^2`, with the diameter D.
    delta : float, optional
        Below 1 it goes only this part of the way. Default: 1.
    start : array_like, optional
        First decision. Default: the point of the set nearest to the origin.

    Raises
    ------
    ValueError
        If gamma, epsilon or delta is not above zero.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> features = rng.normal(size=(1000, 2)) * [1.0, 0.2]
    >>> seen = LogisticCosts(features, np.sign(features @ [1.0, -3.0] + rng.normal(size=1000)))
    >>> least = best_fixed(seen, L2Ball(2)).cost
    >>> for learner in (OnlineNewton(L2Ball(2), gamma=0.5), GD(L2Ball(2), Sqrt(1.0))):
    ...     print(round(run(learner, seen, engine="step").totals.hitting - least, 1))
    2.4
    4.5
    """

    gamma: float
    epsilon: float
    delta: float
    start: Array | None

    def __init__(
        self,
        domain: ConvexSet,
        gamma: float,
        epsilon: float | None = None,
        *,
        delta: float = 1.0,
        start: ArrayLike | None = None,
    ) -> None:
        check_bounded(check_domain(domain))
        gamma = positive(gamma, "gamma", "Use contrib.newton_gamma(alpha, G, D).")
        if epsilon is None:
            epsilon = 1.0 / (gamma * domain.scale) ** 2
        self._keep(domain=domain, gamma=gamma, epsilon=positive(epsilon, "epsilon"))
        self._keep(delta=positive(delta, "delta"), start=check_start(domain, start))

    def init(self, x: Array | None = None) -> NewtonState:
        x = self.first_point(x)
        return NewtonState(1, x, self.epsilon * np.eye(self.domain.dim), self.epsilon * x)

    def step(self, state: NewtonState, g: Array) -> NewtonState:
        t, x, outer, pull = state
        outer = outer + np.outer(g, g)
        pull = pull + self.delta * (g @ x - 1.0 / self.gamma) * g
        return NewtonState(t + 1, minimise_quadratic(self.domain, outer, pull, x), outer, pull)


def minimise_quadratic(domain: ConvexSet, A: Array, b: Array, x: Array) -> Array:
    """Find the point of a set with the least <u, A u> / 2 - <b, u>, for a positive definite A; ``x`` is a guess."""
    if type(domain) is Simplex:
        return domain.nearest(domain.total * _find_shares(domain.total * A, b, x > 0.0))
    # In the directions in which the set extends, from a point of it.
    center = domain.start
    inside = domain.along(np.eye(domain.dim))
    curves = inside @ A @ inside
    slope = inside @ (A @ center - b)
    sizes = np.linalg.eigvalsh(curves)
    sizes = sizes[sizes > LEAST_CURVATURE * sizes[-1]]
    if not sizes.size:
        return x
    # The stride with which a splitting ends soonest.
    bend = math.sqrt(sizes[0] * sizes[-1])
    shrunk = np.linalg.inv(curves + bend * np.eye(domain.dim))

    def shrink(y: Array, stride: float) -> Array:
        return center + shrunk @ (bend * (inside @ (y - center)) - slope)

    down = -slope - curves @ (x - center)
    return split(domain, x, 1.0 / bend, shrink, down)


def _find_shares(outer: Array, b: Array, held: NDArray[np.bool_]) -> Array:
    """Minimize <x, outer x> / 2 - <b, x> over shares of 1, beginning with those that are held.

    Shares below 0 are given up, and those that would pay are taken, until there are none.
    After a round, that takes a turn or two.
    """
    d = len(b)
    for _ in range(SHARE_TURNS):
        places = np.flatnonzero(held)
        sides = np.column_stack((b[places], np.ones(len(places))))
        u, v = np.linalg.solve(outer[np.ix_(places, places)], sides).T
        level = (1.0 - u.sum()) / v.sum()
        found = np.zeros(d)
        found[places] = u + level * v
        pays = outer @ found - b - level < -SHARE_ROUNDING * (np.abs(b).max() + abs(level))
        lost = found < 0.0
        if not lost.any() and not pays.any():
            return found
        held = held & ~lost if lost.any() else held | pays
    return _find_shares_slowly(outer, b)


def _find_shares_slowly(outer: Array, b: Array) -> Array:
    """Do the same by least squares, which always ends."""
    from scipy.optimize import nnls

    d = len(b)
    # Over shares of 1, L' (x - aim) is L' (I - aim 1') x. A row that pulls their sum to 1 only scales the answer.
    root = np.linalg.cholesky(outer).T @ (np.eye(d) - np.linalg.solve(outer, b)[:, None])
    size = np.abs(root).max()
    found, _ = nnls(np.vstack((root / size, np.ones(d))), np.append(np.zeros(d), 1.0))
    return found / found.sum()


class MalerState(NamedTuple):
    """The round, the point, the experts' states, and their log weights before the tilt."""

    t: int
    x: Array
    experts: tuple[Any, ...]
    log_w: Array


class Maler(Learner[MalerState]):
    r"""Learn as fast as costs allow, and find out by itself how they curve.

    One expert is for costs without curvature: :class:`~klazy.GD` with a :class:`~klazy.Sqrt` schedule. For each of about
    :math:`\frac12 \log_2 T` rates :math:`\eta`, one is for strongly convex costs (:class:`~klazy.GD`,
    :class:`~klazy.contrib.Proportional`), and one for exp-concave costs (:class:`OnlineNewton`). Expert i gets the gradient, at
    its own point :math:`x^i`, of

    .. math:: q^i_t(x) = \langle g_t, x - x_t \rangle + \eta_i v^i_t(x), \qquad
              v^i_t(x) = G^2 D^2, \quad G^2 \|x - x_t\|^2 \quad\text{or}\quad \langle g_t, x - x_t \rangle^2 ,

    and they are weighed by

    .. math:: x_t = \frac{\sum_i \eta_i w^i_t x^i_t}{\sum_i \eta_i w^i_t}, \qquad
              w^i_{t+1} = w^i_t \exp\bigl(-\eta_i q^i_t(x^i_t)\bigr) .

    So one gradient a round is enough. Not told the kind, its regret is of order :math:`G D \sqrt{T \ln\ln T}` on convex
    costs, :math:`\frac{G^2}{\mu} \ln T` on mu-strongly convex ones, and :math:`(\frac{1}{\alpha} + G D)\, d \ln T` on
    alpha-exp-concave ones (:func:`~klazy.contrib.maler_bound`, proved on the page Theory). The rates, the experts and the
    weights are those of Wang, Lu and Zhang, *Adaptivity and Optimality: A Universal Algorithm for Online Convex Optimization*
    (2019), after van Erven and Koolen, *MetaGrad* (2016), but for rates up to :math:`1/(2GD)`, equal weights at the start, and
    Newton steps that follow the leader.

    Moving is not charged. A gradient longer than G counts as one of that length. Do not use it where the best point moves,
    where moving costs much (:func:`~klazy.auto` charges that), or where G is a guess: with a larger gradient nothing is proved.

    Parameters
    ----------
    domain : ConvexSet
        Where decisions live.
    T : int
        The number of rounds, or more.
    G : float
        A bound on the gradients' norms.
    start : array_like, optional
        First decision. Default: the point of the set nearest to the origin.

    Raises
    ------
    ValueError
        If the set has no bounds, or T or G is not above zero.

    Examples
    --------
    >>> targets = QuadraticCosts(np.tile([[1.0, 0.0], [-1.0, 0.0]], (500, 1)))
    >>> least = best_fixed(targets, L2Ball(2)).cost
    >>> for learner in (GD(L2Ball(2), Sqrt(1.0)), Maler(L2Ball(2), T=1000, G=2.0), GD(L2Ball(2), Proportional(1.0))):
    ...     print(round(run(learner, targets, engine="step").totals.hitting - least, 1))
    34.5
    13.7
    4.7
    """

    T: int
    G: float
    start: Array | None

    def __init__(
        self, domain: ConvexSet, T: int, G: float, *, start: ArrayLike | None = None
    ) -> None:
        check_bounded(check_domain(domain))
        G = positive(G, "G", "Give a bound on the gradients' norms.")
        self._keep(domain=domain, T=size(T, "T"), G=G, start=check_start(domain, start))
        D = domain.scale
        convex = GD(domain, Sqrt((D / G) ** 2), start=start)
        strongly = [GD(domain, Proportional(2.0 * eta * G**2), start=start) for eta in self._grid]
        newton = [OnlineNewton(domain, self._find_gamma(eta), start=start) for eta in self._grid]
        self._keep(experts=(convex, *strongly, *newton))

    @cached_property
    def _grid(self) -> list[float]:
        return list_rates(self.T, self.G, self.domain.scale)

    @cached_property
    def rates(self) -> Array:
        """The experts' eta: that for convex costs, those for strongly convex ones, those for exp-concave ones."""
        alone = convex_rate(self.T, self.G, self.domain.scale)
        return np.array([alone, *self._grid, *self._grid])

    def _find_gamma(self, eta: float) -> float:
        """Find how much q curves along its own gradient, which is up to 1 + 2 eta G D times g."""
        return 2.0 * eta / (1.0 + 2.0 * eta * self.G * self.domain.scale) ** 2

    def weights(self, state: MalerState) -> Array:
        """Give the experts' shares of the point about to be played.

        Parameters
        ----------
        state : MalerState
            The present state.

        Returns
        -------
        array
            One weight per expert; they sum to 1.
        """
        tilted = self.rates * np.exp(state.log_w)
        return tilted / tilted.sum()

    def init(self, x: Array | None = None) -> MalerState:
        experts = tuple(expert.init(x) for expert in self.experts)
        return MalerState(1, self.first_point(x), experts, np.zeros(len(experts)))

    def step(self, state: MalerState, g: Array) -> MalerState:
        t, x, experts, log_w = state
        # The first expert is for costs without curvature; then come those for strongly convex and for exp-concave ones.
        n = len(self._grid)
        strongly = slice(1, n + 1)
        newton = slice(n + 1, None)
        g = g * (self.G / max(float(np.linalg.norm(g)), self.G))
        ahead = points_of(experts) - x
        costs = ahead @ g
        v = costs**2
        v[0] = (self.G * self.domain.scale) ** 2
        v[strongly] = self.G**2 * np.vecdot(ahead[strongly], ahead[strongly])
        log_w = log_w - self.rates * (costs + self.rates * v)
        log_w = log_w - log_w.max()
        twice = 2.0 * self.rates[:, None]
        slopes = np.tile(g, (len(experts), 1))
        slopes[strongly] += twice[strongly] * self.G**2 * ahead[strongly]
        slopes[newton] += twice[newton] * costs[newton, None] * g
        experts = tuple(map(_step, self.experts, experts, slopes))
        following = MalerState(t + 1, x, experts, log_w)
        return following._replace(x=self.weights(following) @ points_of(experts))

    def describe(self, state: MalerState | None = None) -> str:
        return f"Maler: {len(self.experts)} experts"


def _step(expert: Learner[Any], state: Any, slope: Array) -> Any:
    return expert.step(state, slope)


def list_rates(T: int, G: float, D: float) -> list[float]:
    """List the rates of Maler's experts for costs that curve: 1 / (2 G D) and its halves, down to 1 / (2 G D sqrt(T))."""
    return [0.5 ** (i + 1) / (G * D) for i in range(math.ceil(math.log2(T) / 2.0) + 1)]


def convex_rate(T: int, G: float, D: float) -> float:
    """Choose the rate of Maler's expert for costs that do not curve."""
    count = 2 * len(list_rates(T, G, D)) + 1
    return min(0.5, math.sqrt(math.log(count) / T)) / (G * D)
