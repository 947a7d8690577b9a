"""Descent that waits until a move pays for itself."""

from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from klazy.base.checks import Array, non_negative
from klazy.learners.base import Descent
from klazy.schedules import Schedule
from klazy.sets import ConvexSet


class PatientState(NamedTuple):
    """Where it stands, where it would like to be, and what it has lost by not being there."""

    t: int
    x: Array
    goal: Array
    debt: float = 0.0
    energy: float = 0.0


class Patient(Descent[PatientState]):
    """Greedy descent in the mind; x follows once staying has cost ``price`` times the distance to go."""

    price: float
    rule: ClassVar[str | None] = "patient"

    def __init__(
        self, domain: ConvexSet, sigma: Schedule | float, price: float, *, start: ArrayLike | None = None
    ) -> None:
        super().__init__(domain, sigma, start=start)
        self._keep(price=non_negative(price, "price", "Patient"))

    def init(self, x: Array | None = None) -> PatientState:
        x = self.first(x)
        return PatientState(1, x, x)

    def step(self, state: PatientState, g: Array) -> PatientState:
        t, x, goal, debt, energy = state
        sigma, energy = self.sigma.observe(t, energy, g)
        debt = debt + float(g @ (x - goal))
        goal = self.domain.nearest(goal - g / sigma)
        if debt >= self.price * np.linalg.norm(goal - x):
            x, debt = goal, 0.0
        return PatientState(t + 1, x, goal, debt, energy)
