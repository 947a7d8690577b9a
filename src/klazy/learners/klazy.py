"""k-lazyGD, the update between greedy descent and dual averaging."""

from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from klazy.base.checks import Array
from klazy.learners.base import AnchoredState, Descent, check_slack
from klazy.schedules import Schedule
from klazy.sets import ConvexSet


class KLazyGD(Descent[AnchoredState]):
    r"""Partially lazy gradient descent, projection form (the paper's Algorithm 1).

    .. math:: x_{t+1} = \Pi\bigl(x_\tau - g_{\tau:t} / \sigma_t\bigr), \qquad \tau = t - (t - 1) \bmod k

    ``k=1`` is greedy :class:`GD`; ``k>=T`` is :class:`LazyGD`. In the interior of the set every k plays the same
    points for a constant sigma: laziness acts only where the projection binds.

    >>> KLazyGD(Simplex(3), sigma=Sqrt(60), k=65)
    KLazyGD(domain=Simplex(dim=3), sigma=Sqrt(c=60.0), k=65)
    """

    k: int

    rule: ClassVar[str | None] = "k_lazy"
    form: ClassVar[str | None] = "anchored"

    def __init__(
        self, domain: ConvexSet, sigma: Schedule | float, k: int, *, start: ArrayLike | None = None
    ) -> None:
        super().__init__(domain, sigma, start=start)
        self._keep(k=check_slack(k, "KLazyGD"))

    def init(self, x: Array | None = None) -> AnchoredState:
        x = self.first(x)
        return AnchoredState(1, x, x, np.zeros(self.domain.dim))

    def step(self, state: AnchoredState, g: Array) -> AnchoredState:
        t, x, anchor, g_sum, energy = state
        sigma, energy = self.sigma.observe(t, energy, g)
        starts_phase = (t - 1) % self.k == 0
        anchor, g_sum = (x, g) if starts_phase else (anchor, g_sum + g)
        return AnchoredState(t + 1, self.domain.nearest(anchor - g_sum / sigma), anchor, g_sum, energy)

    @property
    def phase_length(self) -> int | None:
        return self.k
