"""Descent that waits until a move pays for itself."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from klazy.base.checks import Array, non_negative
from klazy.learners.base import Descent
from klazy.schedules import Schedule
from klazy.sets import ConvexSet


class PatientState(NamedTuple):
    """Its point, its goal, and what it has lost by not being there."""

    t: int
    x: Array
    goal: Array
    debt: float = 0.0
    energy: float = 0.0


class Patient(Descent[PatientState]):
    r"""Move to where greedy descent would be, but only once staying has cost as much as going.

    It keeps a greedy point :math:`z_{t+1} = \Pi(z_t - g_t / \sigma_t)` in mind, and what it has lost by not being there. It
    goes there once that is at least ``price`` times the distance.

    Parameters
    ----------
    domain : ConvexSet
        Where decisions live.
    sigma : Schedule or float
        Steps of the greedy point are divided by it: a number, or one that changes with the rounds.
    price : float
        What a unit of distance must have cost before it moves; >= 0.
    start : array_like, optional
        First decision, x_1. Default: the point of the set nearest to the origin.

    Raises
    ------
    ValueError
        If the price is negative, sigma is not above zero, or the start is outside the set.

    Examples
    --------
    >>> learner = Patient(Box(0, 1), sigma=1.0, price=1.5)
    >>> state = learner.init()
    >>> for g in (-1.0, -1.0, -1.0):
    ...     state = learner.step(state, np.array([g]))
    ...     print(state.x.item())
    0.0
    0.0
    1.0
    """

    price: float
    rule: ClassVar[str | None] = "patient"

    def __init__(
        self, domain: ConvexSet, sigma: Schedule | float, price: float, *, start: ArrayLike | None = None
    ) -> None:
        super().__init__(domain, sigma, start=start)
        self._keep(price=non_negative(price, "price"))

    def init(self, x: Array | None = None) -> PatientState:
        x = self.first_point(x)
        return PatientState(1, x, x)

    def step(self, state: PatientState, g: Array) -> PatientState:
        t, x, goal, debt, energy = state
        sigma, energy = self.sigma.observe(t, energy, g)
        debt = debt + float(g @ (x - goal))
        goal = self.domain.nearest(goal - g / sigma)
        if debt >= self.price * np.linalg.norm(goal - x):
            x, debt = goal, 0.0
        return PatientState(t + 1, x, goal, debt, energy)
