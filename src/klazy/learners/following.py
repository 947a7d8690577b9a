"""A learner that follows somebody else's forecasts, and learns how wrong they are."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from klazy.base.checks import Array, InvalidInput, number
from klazy.families import Family, Pinball
from klazy.learners.base import Learner
from klazy.learners.reluctant import Reluctant, write_vector
from klazy.movement import Movement
from klazy.sets import ConvexSet


class FollowState(NamedTuple):
    """Its point, sums of the errors of forecasts and of their weights, and the forecast of the round, if there is one."""

    t: int
    x: Array
    errors: Array
    weight: float
    hint: Array
    has_hint: int


class FollowForecast(Learner[FollowState]):
    r"""Follows forecasts of the next row, corrected by how wrong they were, and moves only when that pays.

    The forecasts come as hints. Of their errors :math:`e_t = c_t - h_t` it keeps the mean over the last w rounds or so, and for
    :class:`~klazy.Pinball` costs the mean of their squares, too: the demand to come is then normal around the corrected
    forecast, so that it keeps a reserve as large as the forecasts are wrong. It goes to

    .. math:: x_{t+1} = \arg\min_{u \in X}\; \operatorname{E} f(u; h_{t+1} + e) + \frac{\lambda}{H}\, m(u - x_t)

    as :class:`~klazy.contrib.Reluctant` does with a forecast of its own. In a round without a forecast it stays.

    Parameters
    ----------
    domain : ConvexSet
        Where decisions live.
    movement : Movement or str
        What moving costs; its weight is the price, one number.
    window : float
        w >= 1, over how many rounds it averages errors.
    horizon : float
        H > 0, how many rounds it expects a new point to serve.
    family : Family, optional
        The family of costs whose rows it gets. Default: it gets gradients, and forecasts of them.
    start : array_like, optional
        First decision. Default: the set's point nearest to the origin.

    Examples
    --------
    >>> demand = np.array([[20.0], [50.0], [20.0], [50.0], [20.0]])
    >>> learner = FollowForecast(Box(0.0, 90.0), "l1", window=8, horizon=4, family=Pinball(4.0))
    >>> trace = run(learner, PinballCosts(demand, 4.0), hints=demand - 5.0, engine="step")
    >>> trace.x.ravel().round(1).tolist()
    [0.0, 45.0, 20.0, 50.0, 20.0]
    """

    hints: ClassVar[bool] = True
    takes_prices: ClassVar[bool] = True

    movement: Movement
    window: float
    horizon: float
    start: Array | None
    mover: Reluctant  # makes its moves from its forecasts

    def __init__(
        self,
        domain: ConvexSet,
        movement: Movement | str,
        window: float,
        horizon: float,
        *,
        family: Family | None = None,
        start: ArrayLike | None = None,
    ) -> None:
        if number(window, "window") < 1.0:
            raise InvalidInput(f"window must be at least 1, got {window}. Count it in rounds.")
        mover = Reluctant(domain, movement, 1.0, horizon, family=family, start=start)
        self._keep(
            domain=domain, movement=mover.movement, window=float(window), horizon=mover.horizon
        )
        self._keep(family=family, start=mover.start, mover=mover)

    @property
    def accepts_hints(self) -> bool:
        return True

    def init(self, x: Array | None = None) -> FollowState:
        d = self.domain.dim
        width = d if self.family is None else self.family.width(d)
        length = d if self.family is None else d + self.family.extras
        return FollowState(1, self.first_point(x), np.zeros(width), 0.0, np.zeros(length), 0)

    def step(self, state: FollowState, g: Array, next_hint: Array | None = None) -> FollowState:
        errors = state.errors
        weight = state.weight
        if state.has_hint:
            pace = 1.0 / self.window
            errors = (1.0 - pace) * errors + pace * self._measure_error(g, state.hint)
            weight = (1.0 - pace) * weight + pace
        t = state.t + 1
        if next_hint is None:
            return FollowState(t, state.x, errors, weight, np.zeros_like(state.hint), 0)
        forecast = self._correct(next_hint, errors / weight if weight > 0.0 else errors)
        x = self.mover.move(state.x, forecast, self.mover.price)
        return FollowState(t, x, errors, weight, np.array(next_hint), 1)

    def _measure_error(self, row: Array, hint: Array) -> Array:
        """Return by how much a forecast was wrong; for demands the square of that, too."""
        if isinstance(self.family, Pinball):
            return self.family.moments(row - hint)
        return self._average(row) - self._average(hint)

    def _correct(self, hint: Array, errors: Array) -> Array:
        """Return the moments of a row with this forecast, whose error is distributed as those before."""
        if not isinstance(self.family, Pinball):
            return self._average(hint) + errors
        error, square = np.split(errors, 2)
        return np.concatenate((hint + error, hint**2 + 2.0 * hint * error + square))

    def _average(self, row: Array) -> Array:
        """Return the moments of a row: the row itself, if there is no family."""
        return row if self.family is None else self.family.moments(row)

    def describe_memory(self, state: FollowState) -> str:
        if not state.has_hint:
            return "It has no forecast of this round, so it stays where it is."
        words = f"It was told to expect {write_vector(state.hint)}"
        if state.weight > 0.0:
            error = state.errors[: self.domain.dim] / state.weight
            words += f", and such forecasts were {write_vector(error)} too low on average"
        return f"{words}; it moves when that pays within {self.horizon:g} rounds."

    def check_state(self, state: Any) -> FollowState:
        super().check_state(state)
        if state.has_hint not in (0, 1):
            raise InvalidInput(f"state.has_hint must be 0 or 1, got {state.has_hint}.")
        return state
