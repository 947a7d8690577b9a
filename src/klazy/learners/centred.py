"""Centred mirror descent."""

import math
from typing import ClassVar, NamedTuple

from klazy.base.checks import Array
from klazy.learners.base import Descent


class CentredState(NamedTuple):
    """A point, the centre, and the last sigma."""

    t: int
    x: Array
    center: Array
    sigma: float = 0.0
    energy: float = 0.0


class CentredOMD(Descent[CentredState]):
    r"""Descend while growing sigmas pull back to x_1: mirror descent with a centred regulariser (Euclidean case).

    .. math:: x_{t+1} = \Pi\bigl(x_t + ((\sigma_t - \sigma_{t-1})(x_1 - x_t) - g_t) / \sigma_t\bigr)

    Each increment of sigma pulls towards x_1, so the regret against a fixed u is at most
    :math:`\sigma_T \|u - x_1\|^2 / 2 + \sum \|g_t\|^2 / (2 \sigma_{t-1})` for any nondecreasing sigma (:math:`\sigma_1` in
    round 1): it depends on the distance of u, where :class:`GD` needs the diameter of the set. For a constant sigma it is GD.
    References: Jacobsen and Cutkosky, *Parameter-free Mirror Descent* (2022); the dual-stabilised descent of Fang,
    Harvey, Portella and Friedlander (2022).

    Parameters
    ----------
    domain : ConvexSet
        Where decisions live.
    sigma : Schedule or float, optional
        Steps are divided by it: a number, or one that changes with the rounds. Larger is slower.
    learning_rate : float, optional
        Another way to write sigma = 1 / learning_rate. Give one of the two.
    start : array_like, optional
        First decision, x_1. Default: the point of the set nearest to the origin.

    Examples
    --------
    >>> learner = CentredOMD(L2Ball(2), sigma=2.0)
    >>> learner.step(learner.init(), np.array([1.0, 0.0])).x
    array([-0.5,  0. ])
    """

    rule: ClassVar[str | None] = "centred"
    form: ClassVar[str | None] = "centred"

    def init(self, x: Array | None = None) -> CentredState:
        x = self.first_point(x)
        return CentredState(1, x, x)

    def step(self, state: CentredState, g: Array) -> CentredState:
        t, x, center, old_sigma, energy = state
        sigma, energy = self.sigma.observe(t, energy, g)
        if sigma == math.inf:
            return state._replace(t=t + 1)
        y = x + ((sigma - old_sigma) * (center - x) - g) / sigma
        return CentredState(t + 1, self.domain.nearest(y), center, sigma, energy)

    @property
    def phase_length(self) -> int | None:
        return 1
