"""k-lazyGD as follow-the-regularised-leader with pruning."""

from __future__ import annotations

import math
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from klazy.base.checks import Array
from klazy.learners.base import Descent, check_slack
from klazy.schedules import Schedule
from klazy.sets import ConvexSet


class FTRLState(NamedTuple):
    """The dual state p, the phase's anchor and the last sigma."""

    t: int
    x: Array
    anchor: Array
    p: Array
    sigma: float = 0.0
    energy: float = 0.0


class KLazyFTRL(Descent[FTRLState]):
    r"""Move in phases of k rounds: k-lazyGD, FTRL form (the paper's Algorithm 2), in the version that holds for schedules too.

    .. math:: y_{t+1} = -p_t / \sigma_t, \qquad x_{t+1} = \Pi(y_{t+1}), \qquad
              p_t = p_{t-1} + g^I_t + g_t - (\sigma_t - \sigma_{t-1})\, x_\tau

    At the start of a phase (:math:`(t-1) \bmod k = 0`) with :math:`y_t \notin X` the state is pruned,
    :math:`g^I_t = -p_{t-1} - \sigma_{t-1} x_t`, else :math:`g^I_t = 0`; :math:`p_0 = 0` and :math:`\sigma_0 = 0`.

    For a constant sigma this is the paper's Alg. 2 with :math:`p_{1:0} = -\sigma x_1` (the printed 0 is right only for
    :math:`x_1 = 0`), and Theorem 1 holds: it plays the points of :class:`KLazyGD`. The paper claims no more; for
    a schedule regulariser increments anchored at the phase's first point :math:`x_\tau` restore the equality. The paper is
    Mhaisen and Iosifidis, *Partially Lazy Gradient Descent for Smoothed Online Learning* (2026).

    Parameters
    ----------
    domain : ConvexSet
        Where decisions live.
    sigma : Schedule or float, optional
        Steps are divided by it: a number, or one that changes with the rounds. Larger is slower.
    k : int
        The slack, >= 1: the rounds of a phase. Larger is lazier.
    learning_rate : float, optional
        Another way to write sigma = 1 / learning_rate. Give one of the two.
    start : array_like, optional
        First decision, x_1. Default: the point of the set nearest to the origin.

    Raises
    ------
    ValueError
        If k < 1, sigma is not above zero, or the start is outside the set.

    Examples
    --------
    >>> learner = KLazyFTRL(L2Ball(2), sigma=2.0, k=5)
    >>> learner.step(learner.init(), np.array([1.0, -1.0])).x
    array([-0.5,  0.5])
    """

    k: int

    rule: ClassVar[str | None] = "k_lazy_ftrl"
    form: ClassVar[str | None] = "anchored"

    def __init__(
        self,
        domain: ConvexSet,
        sigma: Schedule | float | None = None,
        *,
        k: int,
        learning_rate: float | None = None,
        start: ArrayLike | None = None,
    ) -> None:
        super().__init__(domain, sigma, learning_rate=learning_rate, start=start)
        self._keep(k=check_slack(k))

    def init(self, x: Array | None = None) -> FTRLState:
        x = self.first_point(x)
        return FTRLState(1, x, x, np.zeros(self.domain.dim))

    def step(self, state: FTRLState, g: Array) -> FTRLState:
        t, x, anchor, p, old_sigma, energy = state
        sigma, energy = self.sigma.observe(t, energy, g)
        if sigma == math.inf:
            return state._replace(t=t + 1)
        if (t - 1) % self.k == 0:
            anchor = x
            # x_t is the projection of y_t = -p / sigma_{t-1}.
            outside = not np.array_equal(old_sigma * x, -p)
            p = -old_sigma * x if outside else p
        p = p + g - (sigma - old_sigma) * anchor
        return FTRLState(t + 1, self.domain.nearest(-p / sigma), anchor, p, sigma, energy)

    @property
    def phase_length(self) -> int | None:
        return self.k
