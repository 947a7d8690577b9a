"""A learner that moves for forecasts learned by regression."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from klazy.base.checks import Array, InvalidInput, integer
from klazy.families import Family
from klazy.kernels import codes
from klazy.kernels.regression import SLOT_ROOM, SPACING_COUNT, has_evidence, observe_regression
from klazy.learners.base import Knowledge, Learner
from klazy.learners.reluctant import Reluctant, write_vector
from klazy.movement import Movement
from klazy.sets import ConvexSet

HORIZONS = 2 ** np.arange(1, 1 + codes.REGRESSION_HORIZONS)


class Regression(Knowledge):
    r"""Forecasts the mean of the next H rows, for H = 2, 4, 8, ..., 256, from all rows so far.

    With the mean of all rows :math:`\bar g(t)` and exponential means :math:`e_k(t)` of pace :math:`2^{-k}`, the features of a
    coordinate are the bands :math:`f_k = e_k - e_{k+1}`, the last of which ends at :math:`\bar g`. The forecast is

    .. math:: F_H(t) = \bar g(t) + \sum_k b_{H,k}\, f_k(t),

    in which :math:`b_H` is the ridge regression of all coordinates together of what the H rows after round s were on average,
    less :math:`\bar g(s)`, on the features of round s. The ridge is Bayes' rule for coefficients of variance 1, with the
    targets' mean square as noise; targets overlap, so it counts H times. All horizons share the products of the features,
    of all rounds so far. Coefficients are solved for anew when the rounds have grown by a fiftieth.

    Parameters
    ----------
    dim : int
        The numbers of a row.
    centred : bool
        Whether what all coordinates share does not count, as on simplices.
    """

    def __init__(self, dim: int, centred: bool) -> None:
        self.dim = dim
        self.centred = centred
        bands = codes.REGRESSION_BANDS
        count = codes.REGRESSION_HORIZONS
        super().__init__(
            codes.REGRESSION_HEAD,
            sums=(dim,),
            norms=(bands,),
            means=(dim, bands),
            squares=(count,),
            errors=(count,),
            products=(count, bands),
            matrix=(bands, bands),
            coefficients=(bands, count),
            forecasts=(dim, count),
            slots=(SPACING_COUNT, codes.REGRESSION_SLOTS, dim * SLOT_ROOM),
        )

    def init(self) -> Array:
        """Return the vector before the first round."""
        known = np.zeros(self.size)
        known[codes.REGRESSION_CENTRED] = self.centred
        return known

    def observe(self, known: Array, row: Array, period: int = 0) -> Array:
        """Return the vector after another round with this row; a period changes nothing."""
        known = known.copy()
        observe_regression(known.data, row.tolist(), self.dim)
        return known

    def forecast(self, known: Array, horizon: int) -> Array:
        """Return the forecast of the mean of the next rows, for a horizon that is a power of two."""
        return self.read(known, "forecasts")[:, place_of(horizon)]

    def skill(self, known: Array, horizon: int) -> float:
        """Return by what share forecasts were better than the mean of all rows, in squared errors out of sample."""
        h = place_of(horizon)
        square = self.read(known, "squares")[h]
        return 0.0 if square == 0.0 else float(1.0 - self.read(known, "errors")[h] / square)

    def describe_skill(self, known: Array, horizon: int | None = None) -> str:
        """Write how good forecasts for a horizon have been, by default for the one where they were best."""
        if not self.read(known, "squares").any():
            return ""
        horizons = HORIZONS if horizon is None else [horizon]
        skills = [max(self.skill(known, int(each)), 0.0) for each in horizons]
        best = int(np.argmax(skills))
        return (
            f" Forecasts by regression for {horizons[best]} rounds, each compared with what came after it, have been better "
            f"than the mean of all rounds by {skills[best]:.2f} (0: no better, 1: exact)."
        )

    def has_evidence(self, known: Array) -> bool:
        """Return True if forecasts of some horizon were better than the mean of all rows by some times their own noise.

        That is what they saved over the mean squared target, each target counted as often as it overlaps others.
        """
        return has_evidence(known.data, self.dim)

    def check(self, known: Array) -> None:
        """Reject numbers that this regression cannot have written, because kernels trust them."""
        n, solved, centred = known[: codes.REGRESSION_HEAD].tolist()
        if not 0 <= solved <= n or n % 1 or centred != self.centred:
            head = known[: codes.REGRESSION_HEAD]
            raise InvalidInput(
                f"state.regression must come from a trace or agent of this learner, got {head}."
            )


def place_of(horizon: int) -> int:
    """Return the place of a horizon among those that are forecast."""
    return int(horizon).bit_length() - 2


class AutoregressiveState(NamedTuple):
    """The point, and the vector of the regression."""

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

    # A leader stores this field of the state once for all experts.
    shared: ClassVar[str] = "regression"
    takes_prices: ClassVar[bool] = True
    # Kernels divide the forecasts of Reluctant by this number. Those made here need no correction.
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
            raise InvalidInput(
                f"horizon must be one of {', '.join(map(str, HORIZONS))}, got {horizon}."
            )
        mover = Reluctant(domain, movement, 1.0, horizon, family=family, start=start)
        if family is not None and family.width(domain.dim) != domain.dim:
            raise InvalidInput(
                f"family must forecast one number per coordinate, got {family!r}. Use contrib.Reluctant for it."
            )
        self._keep(domain=domain, movement=mover.movement, horizon=horizon)
        self._keep(family=family, start=mover.start, mover=mover, forgets=True)

    @cached_property
    def regression(self) -> Regression:
        """The regression that makes the forecasts."""
        return Regression(self.domain.dim, self.domain.has_total)

    @property
    def rule(self) -> str | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The name of the compiled rule; None if set, movement or family have no kernel."""
        rule = self.mover.rule
        return None if rule is None else rule.replace("reluctant", "autoregressive")

    @property
    def obstacle(self) -> str | None:
        """The part that has no kernel; None if all have one."""
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
        return after._replace(
            x=self.mover.move(state.x, forecast, self.mover.price), regression=known
        )

    def look_ahead(
        self, state: AutoregressiveState, known: Array
    ) -> tuple[AutoregressiveState, Array]:
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
            f"{self.mover.describe_gain(state.x, forecast, self.horizon)}"
            f"{self.regression.describe_skill(state.regression, self.horizon)}"
        )

    def check_state(self, state: Any) -> AutoregressiveState:
        super().check_state(state)
        self.regression.check(state.regression)
        return state
