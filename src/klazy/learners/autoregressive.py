"""A learner that moves for forecasts learned by regression."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar, NamedTuple

from numpy.typing import ArrayLike

from klazy.base.checks import Array, InvalidInput, integer
from klazy.families import Family
from klazy.learners.base import Learner
from klazy.learners.regression import HORIZONS, Regression, place_of
from klazy.learners.reluctant import Reluctant, write_vector
from klazy.movement import Movement
from klazy.sets import CappedSimplex, ConvexSet, Simplex


class AutoregressiveState(NamedTuple):
    """Its point, and what its regression knows."""

    t: int
    x: Array
    regression: Array


class Autoregressive(Learner[AutoregressiveState]):
    r"""Moves when a forecast learned by regression says that it pays.

    It forecasts the mean :math:`F_H` of the next H rows from means of past rows over windows of 1, 2, 4, ..., 1024 rounds and
    over all of them. How much each window counts is learned from the errors of all forecasts so far
    (by a ridge regression that all horizons share), so that it finds trends, returns to the mean, and plain noise by itself.
    Then it moves as :class:`Reluctant` does, if the move pays within these rounds:

    .. math:: x_{t+1} = \arg\min_{u \in X}\; \langle F_H(t), u \rangle + \frac{\lambda}{H}\, m(u - x_t).

    Parameters
    ----------
    domain : ConvexSet
        Where decisions live.
    movement : Movement or str
        What moving costs; its weight is the price, one number.
    horizon : int
        H, how many rounds it forecasts: 2, 4, 8, 16, 32, 64, 128 or 256.
    family : Family, optional
        The family of costs whose rows it gets, as for :class:`Reluctant`; not :class:`~klazy.Pinball`. Default: it gets
        gradients.
    start : array_like, optional
        First decision. Default: the set's point nearest to the origin.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> g = np.zeros((400, 3))
    >>> for t in range(1, 400):
    ...     g[t] = 0.9 * g[t - 1] + 0.1 * rng.normal(size=3)
    >>> trace = run(Autoregressive(Simplex(3), TVMovement(0.1), horizon=8), g, engine="step")
    >>> round(trace.totals.hitting, 2), round(trace.totals.switching, 2)
    (-84.06, 5.67)
    """

    # The field of its state that a leader keeps once for all experts.
    shared: ClassVar[str] = "regression"
    # Its rules in kernels share this number with those of Reluctant: its forecasts need no correction.
    n2 = 1.0

    movement: Movement
    horizon: int
    start: Array | None
    mover: Reluctant  # makes its moves from its forecasts

    def __init__(
        self,
        domain: ConvexSet,
        movement: Movement | str,
        horizon: int,
        *,
        family: Family | None = None,
        start: ArrayLike | None = None,
    ) -> None:
        horizon = integer(horizon, "horizon")
        if horizon not in HORIZONS:
            raise InvalidInput(f"horizon must be one of {', '.join(map(str, HORIZONS))}, got {horizon}.")
        mover = Reluctant(domain, movement, 1.0, horizon, family=family, start=start)
        if family is not None and family.width(domain.dim) != domain.dim:
            raise InvalidInput(
                f"family must forecast one number per coordinate, got {family!r}. Use Reluctant for it."
            )
        self._keep(domain=domain, movement=mover.movement, horizon=horizon)
        self._keep(family=family, start=mover.start, mover=mover)

    @cached_property
    def regression(self) -> Regression:
        """What it learns."""
        return Regression(self.domain.dim, isinstance(self.domain, Simplex | CappedSimplex))

    @property
    def rule(self) -> str | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Its name among compiled rules; None if set, movement or family have none."""
        rule = self.mover.rule
        return None if rule is None else rule.replace("reluctant", "autoregressive")

    @property
    def obstacle(self) -> str | None:
        """What of it kernels do not know."""
        return self.mover.obstacle

    @property
    def place(self) -> int:
        """The place of its horizon among those that are forecast."""
        return place_of(self.horizon)

    def init(self, x: Array | None = None) -> AutoregressiveState:
        return AutoregressiveState(1, self.first_point(x), self.regression.init())

    def step(self, state: AutoregressiveState, g: Array) -> AutoregressiveState:
        seen = g if self.family is None else self.family.moments(g)
        known = self.regression.observe(state.regression, seen)
        after, forecast = self.look_ahead(state, known)
        return after._replace(x=self.mover.move(state.x, forecast, self.mover.price), regression=known)

    def look_ahead(self, state: AutoregressiveState, known: Array) -> tuple[AutoregressiveState, Array]:
        """Make the state after a round, before it moves, and forecast what the move should serve.

        Parameters
        ----------
        state : AutoregressiveState
            The state of the round.
        known : array
            What the regression knows after it.

        Returns
        -------
        state : AutoregressiveState
            The next round, at the same point.
        forecast : array
            The mean of the rows that it expects.
        """
        return state._replace(t=state.t + 1), self.regression.forecast(known, self.horizon)

    def describe(self, state: AutoregressiveState | None = None) -> str:
        return f"forecasts by regression, moves if it pays within {self.horizon:g}"

    def describe_memory(self, state: AutoregressiveState) -> str:
        forecast = self.regression.forecast(state.regression, self.horizon)
        return (
            f"It forecasts {write_vector(forecast)} for the next {self.horizon} rounds by regression on all rounds so far, and "
            "moves when that pays within them."
        )

    def check_state(self, state: Any) -> AutoregressiveState:
        super().check_state(state)
        self.regression.check(state.regression)
        return state
