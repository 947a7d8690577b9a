"""A learner that moves only when the forecast says that it pays."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from klazy.base.checks import Array, InvalidInput, check_flag, instance, number, positive
from klazy.families import Family, Linear, LogWealth, Pinball, Quadratic, Rewards
from klazy.kernels import codes
from klazy.learners.base import Learner, check_domain, check_start
from klazy.learners.prox import (
    approach_if_it_pays,
    find_band,
    is_carried,
    move_if_it_pays,
    stock_if_it_pays,
)
from klazy.learners.sader import check_steady
from klazy.movement import Movement, as_movement
from klazy.sets import ConvexSet
from klazy.sets.base import check_bounded

# the names of families and movements in the rules of kernels
ROW_WORDS = {
    Linear: "gradient",
    Rewards: "gradient",
    LogWealth: "wealth",
    Quadratic: "target",
    Pinball: "demand",
}
MOVEMENT_WORDS = {
    codes.MOVE_L2: "straight",
    codes.MOVE_ABSOLUTE: "absolute",
    codes.MOVE_SQUARED: "squared",
    codes.MOVE_FEE: "fee",
}


class ReluctantState(NamedTuple):
    """Its point, the rows seen, smoothed once and twice, and the same smoothings of the number one."""

    t: int
    x: Array
    m1: Array
    m2: Array
    n1: float = 0.0
    n2: float = 0.0


class Reluctant(Learner[ReluctantState]):
    r"""Moves only when the forecast says that the move pays for itself.

    With a forecast :math:`\hat g_t` of the next gradients, what moving costs, :math:`\lambda m`, and the number H of
    rounds for which a new point should serve,

    .. math:: x_{t+1} = \arg\min_{u \in X}\; \langle \hat g_t, u \rangle + \frac{\lambda}{H}\, m(u - x_t).

    The regulariser is the movement cost itself and not its square, so the point stays where it is, bit for bit, until a move
    pays. The forecast is the mean of the gradients, smoothed twice in a row with :math:`a = 1/w`: it reacts with some delay,
    but hardly to noise.

    .. math:: m^1_t = (1 - a)\, m^1_{t-1} + a\, g_t, \qquad m^2_t = (1 - a)\, m^2_{t-1} + a\, m^1_t, \qquad
              \hat g_t = \frac{m^2_t}{1 - (1 - a)^t (1 + a t)}

    Without a window all rounds count alike: it is a lazy follow-the-leader, which moves once a move would have paid for itself
    1/H times.

    .. math:: x_{t+1} = \arg\min_{u \in X}\; \langle g_1 + \dots + g_t, u \rangle + \frac{\lambda}{H}\, m(u - x_t)

    Given the rows of a cost family, it forecasts the *cost* in place of its gradient: the mean target of
    :class:`~klazy.Quadratic` costs, a normal demand for :class:`~klazy.Pinball` ones, the mean logarithms for
    :class:`~klazy.LogWealth`. It is compiled on every set that has kernels, for l2, l1, total variation, squared and fee
    movements with one price for all coordinates; else it plays in NumPy (``klazy.learners.prox.move_if_it_pays``).

    With ``hints=True`` another forecast :math:`h_{t+1}` of the next row may be told at the end of every round t.
    It counts for the first of the H rounds, its own forecast for the others (all of them for :math:`H \le 1`):

    .. math:: \hat g_t \leftarrow \hat g_t + \frac{h_{t+1} - \hat g_t}{\max(1, H)}

    Parameters
    ----------
    domain : ConvexSet
        Where decisions live.
    movement : Movement or str
        What moving costs; its weight is the usual price, one number. Where prices change by round, that of the next move takes
        its place.
    window : float or None
        w >= 1, over how many rounds it looks back. None: over all.
    horizon : float
        H > 0, how many rounds it expects a new point to serve.
    family : Family, optional
        The family of costs whose rows it gets. Default: it gets gradients.
    start : array_like, optional
        First decision. Default: the set's point nearest to the origin.
    hints : bool, optional
        Whether it takes hints: forecasts of the next gradient, or row of its family. Default: it takes none.

    Examples
    --------
    >>> learner = Reluctant(Simplex(3), TVMovement(2.0), window=4, horizon=8)
    >>> g = np.repeat([[0.0, 1.0, 1.0], [1.0, 1.0, 0.0]], 20, axis=0)
    >>> trace = run(learner, g, engine="step")
    >>> round(trace.totals.hitting, 3), round(trace.totals.switching, 3)
    (7.667, 3.333)
    """

    takes_prices: ClassVar[bool] = True

    movement: Movement
    window: float | None
    horizon: float
    start: Array | None
    hints: bool

    def __init__(
        self,
        domain: ConvexSet,
        movement: Movement | str,
        window: float | None,
        horizon: float,
        *,
        family: Family | None = None,
        start: ArrayLike | None = None,
        hints: bool = False,
    ) -> None:
        check_bounded(check_domain(domain))
        if window is not None and number(window, "window") < 1.0:
            raise InvalidInput(
                f"window must be at least 1, got {window}. Use window=None for all rounds."
            )
        if family is not None:
            instance(family, "family", Family, "a Family such as Pinball()")
        if family is not None and not family.has_forecast:
            raise InvalidInput(
                f"family must be one whose rows can be averaged, got {family!r}. Leave it out to use gradients."
            )
        if family is not None and not _understands_average(family):
            raise InvalidInput(
                f"has_forecast must be False for {type(family).__name__}: the mean of its moments is no gradient. "
                "Leave it out of the class, or write expected = Linear.expected."
            )
        self._keep(
            domain=domain,
            movement=_check_movement(movement, domain),
            window=None if window is None else float(window),
            horizon=positive(horizon, "horizon"),
            family=family,
            start=check_start(domain, start),
            hints=check_flag(hints, "hints"),
            forgets=window is not None,
        )

    @cached_property
    def price(self) -> float:
        """What a unit of movement costs, for each round that the new point should serve."""
        return float(self.movement.weight) / self.horizon

    @cached_property
    def pace(self) -> float:
        """The weight of the newest row in an average, 1 / window."""
        return 1.0 if self.window is None else 1.0 / self.window

    @cached_property
    def kept(self) -> float:
        """The share of the first smoothing that remains after a round: all of it without a window."""
        return 1.0 if self.window is None else 1.0 - self.pace

    @property
    def is_curved(self) -> bool:
        """Whether its rows are targets or demands, not gradients."""
        return self._target is not None or self._demand is not None

    @cached_property
    def _target(self) -> Quadratic | None:
        """The family, if rows are targets."""
        family: Any = self.family
        return family if family is not None and family.rows_are == "targets" else None

    @cached_property
    def _demand(self) -> Pinball | None:
        """The family, if rows are demands."""
        family: Any = self.family
        return family if family is not None and family.rows_are == "demands" else None

    @cached_property
    def rule(self) -> str | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The name of the compiled rule; None if a part has no kernel."""
        if self.obstacle is not None:
            return None
        word = ROW_WORDS[Linear if self.family is None else type(self.family)]
        # Free moves have the rule of a fee, with a fee of zero.
        kind = "fee" if self.price == 0.0 else MOVEMENT_WORDS[self.movement.code or 0]
        return f"reluctant_{word}_{kind}"

    @cached_property
    def obstacle(self) -> str | None:
        """The part that has no kernel; None if all have one."""
        if self.hints:
            return "Reluctant with hints"
        if self.family is not None and type(self.family) not in ROW_WORDS:
            return f"Reluctant with the family {type(self.family).__name__}"
        if codes.code_of(self.movement) not in MOVEMENT_WORDS:
            return f"Reluctant with {type(self.movement).__name__}"
        numbers = [*self.prices]
        if self._demand is not None:
            if self.window is None and self.price > 0.0:
                # Its band changes in every round.
                return "Reluctant with demands of all rounds"
            numbers += [*self._band, self._demand.short, self._demand.excess]
        is_shared = all((values == values[0]).all() for values in numbers)
        return None if is_shared else "Reluctant with prices that differ by coordinate"

    @cached_property
    def prices(self) -> tuple[Array, Array]:
        """What a unit of rising and of falling costs each coordinate, for each round that the new point should serve."""
        d = self.domain.dim
        price = self.price if self._target is None else self.price / self._target.weight
        if self.movement.grouped or self.movement.degree != 1.0:
            return np.full(d, price), np.full(d, price)
        rise, fall = np.split(price * self.movement.prices(d), 2)
        return rise, fall

    @property
    def rise(self) -> float:
        """What a unit of rising costs, where all coordinates pay the same."""
        return float(self.prices[0][0])

    @property
    def fall(self) -> float:
        """What a unit of falling costs, where all coordinates pay the same."""
        return float(self.prices[1][0])

    @property
    def span(self) -> float:
        """The size of the set: no two points are farther apart."""
        return self.domain.scale

    @cached_property
    def _band(self) -> tuple[Array, Array]:
        """The band in which a stock stays, in standard deviations; both ends are the best stock if the price is no norm."""
        if self._demand is None:
            return np.zeros(1), np.zeros(1)
        if self.price == 0.0 or self.movement.degree != 1.0:
            best = np.full(self.domain.dim, self._demand.find_quantiles())
            return best, best
        return find_band(self.domain, self.movement, self._demand, self.price)

    @property
    def low(self) -> float:
        """The lower end of the band in which a stock is left, in standard deviations, where all coordinates have the same."""
        return float(self._band[0][0])

    @property
    def high(self) -> float:
        """The upper end of that band."""
        return float(self._band[1][0])

    @property
    def short(self) -> float:
        """What a unit too little costs, where all coordinates pay the same."""
        return 0.0 if self._demand is None else float(self._demand.short[0])

    @property
    def excess(self) -> float:
        """What a unit too much costs, where all coordinates pay the same."""
        return 0.0 if self._demand is None else float(self._demand.excess[0])

    def init(self, x: Array | None = None) -> ReluctantState:
        d = self.domain.dim
        nothing = np.zeros(d if self.family is None else self.family.width(d))
        return ReluctantState(1, self.first_point(x), nothing, nothing)

    def step(
        self, state: ReluctantState, g: Array, next_hint: Array | None = None
    ) -> ReluctantState:
        after = self.observe(state, g)
        forecast, price = self.forecast(after, next_hint)
        return after._replace(x=self.move(state.x, forecast, price))

    def observe(self, state: ReluctantState, g: Array) -> ReluctantState:
        """Make the state after a round, before it moves.

        Parameters
        ----------
        state : ReluctantState
            The state of the round.
        g : array
            The round's gradient or row.

        Returns
        -------
        ReluctantState
            The next round, at the same point.
        """
        t, x, m1, m2, n1, n2 = state
        seen = g if self.family is None else self.family.moments(g)
        m1 = self.kept * m1 + self.pace * seen
        m2 = m2 + self.pace * (m1 - m2)
        n1 = self.kept * n1 + self.pace
        n2 = n2 + self.pace * (n1 - n2)
        return ReluctantState(t + 1, x, m1, m2, n1, n2)

    def forecast(
        self, state: ReluctantState, next_hint: Array | None = None
    ) -> tuple[Array, float]:
        """Forecast a round.

        Parameters
        ----------
        state : ReluctantState
            The present state.
        next_hint : array, optional
            Another forecast of the next round. Default: nothing.

        Returns
        -------
        forecast : array
            What it expects of a round.
        price : float
            What a unit of movement costs, for each round that the new point should serve.
        """
        rounds = self.horizon
        price = self.price
        if self.window is None:
            rounds = self.horizon * state.n2
            price = self.price / state.n2
        own = state.m2 / state.n2
        if next_hint is None:
            return own, price
        hinted = next_hint if self.family is None else self.family.moments(next_hint)
        return own + (hinted - own) / max(1.0, rounds), price

    def move(self, x: Array, forecast: Array, price: float | Array) -> Array:
        """Choose the next point: the argmin of the class's definition.

        Parameters
        ----------
        x : array
            The present point; or several, one per row, each with its forecast and its price.
        forecast : array
            The forecast of a round.
        price : float or array
            What a unit of movement costs, for each round that the new point should serve.

        Returns
        -------
        array
            The next point; ``x`` itself unless moving pays.
        """
        if self._target is not None:
            return approach_if_it_pays(
                self.domain, self.movement, x, forecast, price / self._target.weight
            )
        if self._demand is not None:
            return stock_if_it_pays(self.domain, self.movement, self._demand, x, forecast, price)
        return move_if_it_pays(self.domain, self.movement, x, forecast, price)

    def describe(self, state: ReluctantState | None = None) -> str:
        looks = "looks back at all rounds"
        if self.window is not None:
            looks = f"looks back {self.window:g} round{'' if self.window == 1 else 's'}"
        return f"{looks}, moves if it pays within {self.horizon:.3g}"

    def describe_memory(self, state: ReluctantState) -> str:
        if state.t == 1:
            return "It has seen nothing yet, so it stays where it is."
        forecast, _ = self.forecast(state)
        words = self.describe_forecast(forecast)
        if self.window is None:
            gain = self.describe_gain(state.x, forecast, self.horizon * state.n2)
            return f"All rounds so far were {words} on average; it moves when that would have paid.{gain}"
        looks = f"the last {self.window:g} rounds or so"
        gain = self.describe_gain(state.x, forecast, self.horizon)
        return f"It forecasts {words} from {looks}, and moves when that pays within {self.horizon:g} rounds.{gain}"

    def describe_gain(self, x: Array, forecast: Array, rounds: float) -> str:
        """Write what the best point for a forecast would save in some rounds, and what it costs to go there.

        Parameters
        ----------
        x : array
            The present point.
        forecast : array
            What is expected of a round.
        rounds : float
            For how many rounds the new point should serve.

        Returns
        -------
        str
            A sentence, after a blank.
        """
        family = self.family or Linear()
        best = family.lowest(self.domain, forecast)
        saved = rounds * float(family.expected(forecast, x) - family.expected(forecast, best))
        cost = float(self.movement.weight) * float(self.movement.distance(best - x))
        if np.allclose(best, x, rtol=0.0, atol=codes.RESOLUTION * self.domain.scale):
            return " It is at the best point for that."
        return (
            f" The best point for that is {write_vector(best)}: to go there would save {saved:.4g} in {rounds:.4g} rounds, and "
            f"cost {cost:.4g}."
        )

    def describe_forecast(self, forecast: Array) -> str:
        """Write a forecast as part of a sentence.

        Parameters
        ----------
        forecast : array
            The forecast of a round.

        Returns
        -------
        str
            Its numbers; for demands their mean and deviation.
        """
        if self._demand is None:
            return write_vector(forecast)
        mean, spread = self._demand.fit_normal(forecast)
        return f"a demand of {write_vector(mean)} with a deviation of {write_vector(spread)}"


def write_vector(values: Array) -> str:
    """Write a vector as part of a sentence."""
    return np.array2string(values, precision=4, threshold=8)


def _understands_average(family: Family) -> bool:
    """Return True if averages of a family's moments are targets, demands, or gradients of the expected cost."""
    return family.rows_are != "gradients" or type(family).expected is Linear.expected


def _check_movement(movement: Any, domain: ConvexSet) -> Movement:
    movement = as_movement(movement)
    check_steady(movement)
    if movement.grouped is None and not movement.is_fee and not is_carried(domain, movement):
        message = f"movement must say how it is `grouped`, got {movement!r}. Use L1Movement(...)."
        raise InvalidInput(message)
    movement.check(domain.dim)
    return movement
