"""Learners for smooth costs that change slowly: they expect the last gradient again, and regret grows with what changed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from klazy.base.checks import Array, InvalidInput, freeze, instance, positive, size
from klazy.families import Family
from klazy.learners.base import Descent, Learner, check_domain
from klazy.learners.sader import check_experts, points_of
from klazy.movement import Movement, SquaredMovement
from klazy.schedules import Schedule
from klazy.sets import ConvexSet
from klazy.sets.base import check_bounded


class OptimisticState(NamedTuple):
    """The round, the point, the point before the guess was followed, and the energy of a scale-free schedule."""

    t: int
    x: Array
    y: Array
    energy: float = 0.0


class OptimisticGD(Descent[OptimisticState]):
    r"""Follow a gradient, and then once more as a guess of the next one: optimistic gradient descent.

    .. math:: y_{t+1} = \Pi\bigl(y_t - g_t / \sigma_t\bigr), \qquad x_{t+1} = \Pi\bigl(y_{t+1} - m_{t+1} / \sigma_t\bigr)

    The guess :math:`m_{t+1}` is the last gradient :math:`g_t` (Rakhlin and Sridharan, *Online Learning with Predictable
    Sequences*, 2013). With a ``family`` it is the gradient of the last cost at :math:`y_{t+1}`: an extra gradient (Chiang and
    others, *Online Optimization with Gradual Variations*, 2012). With a constant sigma, any comparators :math:`u_t`, the
    diameter D and :math:`P_T = \sum_t \|u_{t+1} - u_t\|`

    .. math:: \sum_t \langle g_t, x_t - u_t \rangle \le \frac{1}{\sigma} \sum_t \|g_t - m_t\|^2
              + \frac{\sigma}{2} (D^2 + 2 D P_T) - \frac{\sigma}{4} \sum_t \|x_{t+1} - x_t\|^2 .

    Moving is not charged. Do not use it where gradients jump: a wrong guess is a second step in the wrong direction.

    Parameters
    ----------
    domain : ConvexSet
        Where decisions live.
    sigma : Schedule or float, optional
        Steps are divided by it.
    learning_rate : float, optional
        Another way to write sigma = 1 / learning_rate. Give one of the two.
    family : Family, optional
        The family of the costs, whose rows it then gets. Default: None, it gets gradients.
    start : array_like, optional
        First decision, x_1. Default: the point of the set nearest to the origin.

    Examples
    --------
    >>> learner = OptimisticGD(L2Ball(2), sigma=4.0)
    >>> learner.step(learner.init(), np.array([1.0, 0.0])).x
    array([-0.5,  0. ])
    """

    def __init__(
        self,
        domain: ConvexSet,
        sigma: Schedule | float | None = None,
        *,
        learning_rate: float | None = None,
        family: Family | None = None,
        start: ArrayLike | None = None,
    ) -> None:
        super().__init__(domain, sigma, learning_rate=learning_rate, start=start)
        self._keep(family=_check_family(family, domain))

    def init(self, x: Array | None = None) -> OptimisticState:
        x = self.first_point(x)
        return OptimisticState(1, x, x)

    def step(self, state: OptimisticState, g: Array) -> OptimisticState:
        t, x, y, energy = state
        slope = g if self.family is None else self.family.gradient(g, x)
        sigma, energy = self.sigma.observe(t, energy, slope)
        y = self.domain.nearest(y - slope / sigma)
        guess = slope if self.family is None else self.family.gradient(g, y)
        return OptimisticState(t + 1, self.domain.nearest(y - guess / sigma), y, energy)


class HedgeState(NamedTuple):
    """The experts' states, their log weights, what their last moves cost, their losses, the guess, and what was not guessed."""

    t: int
    x: Array
    experts: tuple[Any, ...]
    log_w: Array
    moved: Array
    losses: Array
    guess: Array
    surprise: float


class OptimisticHedge(Learner[HedgeState]):
    r"""Weigh experts by what they have lost and by what they are expected to lose next, their own moves charged to them.

    .. math:: x_t = \sum_i w_{i,t}\, x^i_t, \qquad
              w_{i,t} \propto \exp\Bigl(-\varepsilon_t \Bigl(\sum_{s<t} \ell_{i,s} + \langle m_t, x^i_t \rangle + c_{i,t}
              \Bigr)\Bigr), \qquad
              \ell_{i,t} = \langle g_t, x^i_t \rangle + c_{i,t}, \qquad c_{i,t} = \mathrm{toll}(x^i_t - x^i_{t-1})

    It is the meta learner of Zhao, Zhang, Zhang and Zhou, *Adaptivity and Non-stationarity* (2021, section 4.3). The guess
    :math:`m_t` is the last gradient; with a ``family`` it is the gradient of the last cost at the mean of the new points, under
    the old weights. The toll of a move is known before the round, so that it is part of the guess. With N experts and
    :math:`\rho_t` the range of :math:`\langle g_t - m_t, x^i_t \rangle` over the experts, their mean losses exceed those of
    any expert by at most

    .. math:: \frac{\ln N}{\varepsilon_T} + \sum_t \frac{\varepsilon_t \rho_t^2}{8}, \qquad
              \varepsilon_t = \Bigl(\frac{1}{\varepsilon^2} + \frac{4 G^2 D^2 + \sum_{s<t} \rho_s^2}{2 \ln N}\Bigr)^{-1/2} ,

    and without G with :math:`\varepsilon_t = \varepsilon`. The proof is on the page Theory. Do not use it where moving has a
    price of its own: :class:`~klazy.SAder` charges that, and this charges only what makes gradients predictable.

    Parameters
    ----------
    experts : list of Learner
        Learners on one set; with a family, those that get its rows.
    rate : float
        epsilon, the largest rate.
    toll : Movement, optional
        What experts are charged for their moves. Default: nothing.
    G : float, optional
        A bound on the gradients' norms, with which the rate falls as guesses fail. Default: None, the rate is constant.
    family : Family, optional
        The family of the costs, whose rows it then gets. Default: None, it gets gradients.

    Raises
    ------
    ValueError
        If the experts are on different sets or get something else than this does, or rate or G are not above zero.

    Examples
    --------
    >>> ball = L2Ball(2)
    >>> learner = OptimisticHedge([OptimisticGD(ball, 2.0), OptimisticGD(ball, 8.0)], rate=0.5)
    >>> learner.weights(run(learner, np.tile([1.0, 0.0], (5, 1)), engine="step").state).round(3).tolist()
    [0.777, 0.223]
    """

    rate: float
    toll: Movement
    G: float | None

    def __init__(
        self,
        experts: Sequence[Learner[Any]],
        rate: float,
        *,
        toll: Movement | None = None,
        G: float | None = None,
        family: Family | None = None,
    ) -> None:
        experts = check_experts(experts)
        domain = experts[0].domain
        family = _check_family(family, domain)
        for i, expert in enumerate(experts):
            if expert.family != family:
                raise InvalidInput(
                    f"experts[{i}] must have the family of the ensemble, {family!r}, got {expert.family!r}."
                )
        toll = SquaredMovement(0.0) if toll is None else toll
        instance(toll, "toll", Movement, "a Movement such as contrib.SquaredMovement(4.0)")
        if not toll.is_steady:
            raise InvalidInput(f"toll must have one weight for all rounds, got {toll!r}.")
        toll.check(domain.dim)
        self._keep(experts=experts, rate=positive(rate, "rate"), toll=toll, family=family)
        self._keep(G=None if G is None else positive(G, "G"), domain=domain)

    @cached_property
    def _cap(self) -> float:
        """Twice the logarithm of the number of experts."""
        return 2.0 * math.log(max(len(self.experts), 2))

    def find_rate(self, surprise: float) -> float:
        """Find the rate epsilon, given the sum of the squared ranges so far.

        Parameters
        ----------
        surprise : float
            The sum.

        Returns
        -------
        float
            The rate.
        """
        if self.G is None:
            return self.rate
        largest = 2.0 * self.G * self.domain.scale
        return 1.0 / math.sqrt(1.0 / self.rate**2 + (largest**2 + surprise) / self._cap)

    def weights(self, state: HedgeState) -> Array:
        """Give the experts' weights in the round about to be played.

        Parameters
        ----------
        state : HedgeState
            The present state.

        Returns
        -------
        array
            One weight per expert; they sum to 1.
        """
        return np.exp(state.log_w)

    def init(self, x: Array | None = None) -> HedgeState:
        experts = tuple(expert.init(x) for expert in self.experts)
        N = len(experts)
        log_w = freeze(np.full(N, -math.log(N)))
        nothing = np.zeros(N)
        point = np.exp(log_w) @ points_of(experts)
        return HedgeState(
            1, point, experts, log_w, nothing, nothing, np.zeros(self.domain.dim), 0.0
        )

    def step(self, state: HedgeState, g: Array) -> HedgeState:
        t, x, experts, log_w, moved, losses, guess, surprise = state
        points = points_of(experts)
        slope = g if self.family is None else self.family.gradient(g, x)
        losses = losses + points @ slope + moved
        losses = losses - losses.min()
        surprise = surprise + float(np.ptp(points @ (slope - guess))) ** 2
        experts = tuple(
            expert.step(old, g) for expert, old in zip(self.experts, experts, strict=True)
        )
        following = points_of(experts)
        moved = self.toll.weight * self.toll.distance(following - points)
        guess = slope
        if self.family is not None:
            guess = self.family.gradient(g, np.exp(log_w) @ following)
        scores = -self.find_rate(surprise) * (losses + following @ guess + moved)
        top = scores.max()
        log_w = scores - top - math.log(float(np.exp(scores - top).sum()))
        point = np.exp(log_w) @ following
        return HedgeState(t + 1, point, experts, log_w, moved, losses, guess, surprise)

    def describe(self, state: HedgeState | None = None) -> str:
        return f"OptimisticHedge: {len(self.experts)} experts"


def sword_plus_plus(
    domain: ConvexSet, T: int, G: float, L: float, *, start: ArrayLike | None = None
) -> OptimisticHedge:
    r"""Build Sword++ of Zhao, Zhang, Zhang and Zhou (2021): for smooth costs, dynamic regret that grows with what changed.

    The experts are :class:`OptimisticGD` with the steps :math:`\min(2^i D / (G \sqrt{8 T}),\, 1/(8L))`. They are weighed by
    :class:`OptimisticHedge` with the toll :math:`2 L \|x^i_t - x^i_{t-1}\|^2` and the rate :math:`1/(8 D^2 L)` at most. A round
    takes one gradient. :func:`~klazy.contrib.sword_bound` bounds its dynamic regret, of order
    :math:`\sqrt{(1 + P_T + V_T)(1 + P_T)}` with :math:`V_T = \sum_t \sup_x \|\nabla f_t(x) - \nabla f_{t-1}(x)\|^2`.

    Moving is not charged. Do not use it for costs with kinks, for which :func:`ader` has smaller constants, or where L is a
    guess: one too small voids the bound, one too large makes steps too short.

    Parameters
    ----------
    domain : ConvexSet
        Where decisions live.
    T : int
        The number of rounds.
    G : float
        A bound on the gradients' norms.
    L : float
        The smoothness: the most by which a gradient changes over a unit of distance.
    start : array_like, optional
        First decision. Default: the point of the set nearest to the origin.

    Returns
    -------
    OptimisticHedge
        The ensemble.

    Raises
    ------
    ValueError
        If T, G or L is not above zero.

    Examples
    --------
    >>> angles = np.linspace(0.0, 20.0, 500)
    >>> circling = QuadraticCosts(10.0 * np.stack((np.cos(angles), np.sin(angles)), axis=1), 0.1)
    >>> best = circling.values(circling.data / 10.0).sum()
    >>> for learner in (ader(L2Ball(2), 500, 1.1), sword_plus_plus(L2Ball(2), 500, 1.1, 0.1)):
    ...     print(round(run(learner, circling, engine="step").totals.hitting - best, 1))
    16.0
    5.3
    """
    steps = _list_steps(domain, T, G, L)
    experts = [OptimisticGD(domain, 1.0 / step, start=start) for step in steps]
    rate = 1.0 / (8.0 * domain.scale**2 * L)
    return OptimisticHedge(experts, rate, toll=SquaredMovement(4.0 * L), G=G)


def sword(
    domain: ConvexSet,
    T: int,
    G: float,
    L: float,
    *,
    family: Family,
    start: ArrayLike | None = None,
) -> OptimisticHedge:
    r"""Build Sword of Zhao, Zhang, Zhang and Zhou (2020): :func:`sword_plus_plus` with gradients at the experts' own points.

    The paper is *Dynamic Regret of Convex and Smooth Functions*, of which this is Sword for gradient variation. It gets rows
    of a family of costs, as gradients at other points than the ensemble's are not feedback that a learner has. The experts
    take extra gradients, two each in a round, and pay no toll. The paper has steps up to :math:`1/(4L)`; here they end at
    :math:`1/(8L)`, so that steps and bound are those of :func:`sword_plus_plus`. Do not use it where gradients take long to
    compute: a round takes two for each expert, and two more.

    Parameters
    ----------
    domain : ConvexSet
        Where decisions live.
    T : int
        The number of rounds.
    G : float
        A bound on the gradients' norms.
    L : float
        The smoothness: the most by which a gradient changes over a unit of distance.
    family : Family
        The family of the costs.
    start : array_like, optional
        First decision. Default: the point of the set nearest to the origin.

    Returns
    -------
    OptimisticHedge
        The ensemble.

    Raises
    ------
    ValueError
        If T, G or L is not above zero.

    Examples
    --------
    >>> learner = sword(L2Ball(2), 500, 1.1, 0.1, family=Quadratic())
    >>> trace = run(learner, QuadraticCosts(np.tile([0.5, 0.5], (500, 1))), engine="step")
    >>> trace.x[-1].round(3).tolist()
    [0.492, 0.492]
    """
    steps = _list_steps(domain, T, G, L)
    experts = [OptimisticGD(domain, 1.0 / step, family=family, start=start) for step in steps]
    return OptimisticHedge(experts, 1.0 / (8.0 * domain.scale**2 * L), G=G, family=family)


def list_steps(T: int, G: float, D: float, L: float) -> list[float]:
    """List the steps of Sword's experts: powers of two times the first, up to 1 / (8 L)."""
    longest = 1.0 / (8.0 * L)
    first = D / (G * math.sqrt(8.0 * T))
    count = max(0, math.ceil(math.log2(longest / first)))
    return [min(first * 2.0**i, longest) for i in range(count + 1)]


def _list_steps(domain: ConvexSet, T: int, G: float, L: float) -> list[float]:
    """Check the arguments of both, and list the steps."""
    check_bounded(check_domain(domain))
    T = size(T, "T")
    G = positive(G, "G", "Give a bound on the gradients' norms.")
    return list_steps(T, G, domain.scale, positive(L, "L", "Give the smoothness of the costs."))


def _check_family(family: Any, domain: ConvexSet) -> Family | None:
    if family is not None:
        instance(family, "family", Family, "a Family such as families.Quadratic()").check(
            domain.dim
        )
    return family
