"""The two ends of the spectrum: greedy gradient descent and dual averaging."""

from typing import ClassVar, NamedTuple

import numpy as np

from klazy.base.checks import Array
from klazy.learners.base import NEVER, AnchoredState, Descent


class GDState(NamedTuple):
    """The point, and the energy of a scale-free schedule: greedy descent remembers nothing else."""

    t: int
    x: Array
    energy: float = 0.0


class GD(Descent[GDState]):
    r"""Follow every gradient at once: greedy projected gradient descent.

    .. math:: x_{t+1} = \Pi\bigl(x_t - g_t / \sigma_t\bigr)

    Zinkevich, *Online Convex Programming and Generalized Infinitesimal Gradient Ascent* (2003).

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
    >>> learner = GD(L2Ball(2), sigma=2.0)
    >>> learner.step(learner.init(), np.array([1.0, 0.0])).x
    array([-0.5,  0. ])
    """

    rule: ClassVar[str | None] = "gd"
    form: ClassVar[str | None] = "anchored"

    def init(self, x: Array | None = None) -> GDState:
        x = self.first_point(x)
        return GDState(1, x)

    def step(self, state: GDState, g: Array) -> GDState:
        t, x, energy = state
        sigma, energy = self.sigma.observe(t, energy, g)
        return GDState(t + 1, self.domain.nearest(x - g / sigma), energy)

    @property
    def phase_length(self) -> int | None:
        return 1


class LazyGD(Descent[AnchoredState]):
    r"""Weigh all gradients since the start: lazy gradient descent, also known as dual averaging, anchored at x_1.

    .. math:: x_{t+1} = \Pi\bigl(x_1 - g_{1:t} / \sigma_t\bigr)

    It moves little, but its dynamic regret can be linear in T as soon as the comparator moves at all. Nesterov, *Primal-Dual
    Subgradient Methods for Convex Problems* (2009), in Euclidean distance.

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
    >>> learner = LazyGD(Box(0, 1), sigma=1.0)
    >>> state = learner.step(learner.init(), np.array([-3.0]))
    >>> state.x.item(), learner.step(state, np.array([1.0])).x.item()
    (1.0, 1.0)
    """

    rule: ClassVar[str | None] = "k_lazy"
    form: ClassVar[str | None] = "anchored"

    def init(self, x: Array | None = None) -> AnchoredState:
        x = self.first_point(x)
        return AnchoredState(1, x, x, np.zeros(self.domain.dim))

    def step(self, state: AnchoredState, g: Array) -> AnchoredState:
        t, _, anchor, g_sum, energy = state
        sigma, energy = self.sigma.observe(t, energy, g)
        g_sum = g_sum + g
        return AnchoredState(
            t + 1, self.domain.nearest(anchor - g_sum / sigma), anchor, g_sum, energy
        )

    @property
    def phase_length(self) -> int | None:
        return NEVER
