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
    goes there once that is at least ``move_cost`` times the distance.

    Parameters
    ----------
    domain : ConvexSet
        Where decisions live.
    sigma : Schedule or float, optional
        Steps of the greedy point are divided by it: a number, or one that changes with the rounds.
    move_cost : float
        What a unit of distance must have cost before it moves; >= 0.
    learning_rate : float, optional
        Another way to write sigma = 1 / learning_rate. Give one of the two.
    start : array_like, optional
        First decision, x_1. Default: the point of the set nearest to the origin.

    Raises
    ------
    ValueError
        If the move cost is negative, sigma is not above zero, or the start is outside the set.

    Examples
    --------
    >>> learner = Patient(Box(0, 1), sigma=1.0, move_cost=1.5)
    >>> state = learner.init()
    >>> for g in (-1.0, -1.0, -1.0):
    ...     state = learner.step(state, np.array([g]))
    ...     print(state.x.item())
    0.0
    0.0
    1.0
    """

    move_cost: float
    rule: ClassVar[str | None] = "patient"

    def __init__(
        self,
        domain: ConvexSet,
        sigma: Schedule | float | None = None,
        *,
        move_cost: float,
        learning_rate: float | None = None,
        start: ArrayLike | None = None,
    ) -> None:
        super().__init__(domain, sigma, learning_rate=learning_rate, start=start)
        self._keep(move_cost=non_negative(move_cost, "move_cost"))

    def init(self, x: Array | None = None) -> PatientState:
        x = self.first_point(x)
        return PatientState(1, x, x)

    def step(self, state: PatientState, g: Array) -> PatientState:
        t, x, goal, debt, energy = state
        sigma, energy = self.sigma.observe(t, energy, g)
        debt = debt + float(g @ (x - goal))
        goal = self.domain.nearest(goal - g / sigma)
        if debt >= self.move_cost * np.linalg.norm(goal - x):
            x, debt = goal, 0.0
        return PatientState(t + 1, x, goal, debt, energy)
