"""k-lazyGD, the update between greedy descent and dual averaging."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from klazy.base.checks import Array
from klazy.learners.base import AnchoredState, Descent, check_slack
from klazy.schedules import Schedule
from klazy.sets import ConvexSet


class KLazyGD(Descent[AnchoredState]):
    r"""Move in phases of k rounds, lazily within each: k-lazyGD, projection form (the paper's Algorithm 1).

    .. math:: x_{t+1} = \Pi\bigl(x_\tau - g_{\tau:t} / \sigma_t\bigr), \qquad \tau = t - (t - 1) \bmod k

    Within a phase it adds up gradients and steps from the phase's first point, so pushes that cancel do not move it. The next
    phase forgets them. ``k=1`` is greedy :class:`GD`; ``k>=T`` is :class:`LazyGD`. In the interior of the set every k plays
    the same points for a constant sigma: laziness acts only where the projection binds. The paper is
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
    >>> KLazyGD(Simplex(3), sigma=Sqrt(60), k=65)
    KLazyGD(domain=Simplex(dim=3), sigma=Sqrt(c=60.0), k=65)

    A lazy learner at the edge of the set needs as much push back as it has had:

    >>> lazy = KLazyGD(Box(0, 1), sigma=1.0, k=8)
    >>> state = lazy.step(lazy.init(), np.array([-3.0]))
    >>> state.x.item(), lazy.step(state, np.array([1.0])).x.item()
    (1.0, 1.0)
    """

    k: int

    rule: ClassVar[str | None] = "k_lazy"
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

    def init(self, x: Array | None = None) -> AnchoredState:
        x = self.first_point(x)
        return AnchoredState(1, x, x, np.zeros(self.domain.dim))

    def step(self, state: AnchoredState, g: Array) -> AnchoredState:
        t, x, anchor, g_sum, energy = state
        sigma, energy = self.sigma.observe(t, energy, g)
        starts_phase = (t - 1) % self.k == 0
        anchor, g_sum = (x, g) if starts_phase else (anchor, g_sum + g)
        return AnchoredState(
            t + 1, self.domain.nearest(anchor - g_sum / sigma), anchor, g_sum, energy
        )

    @property
    def phase_length(self) -> int | None:
        return self.k
