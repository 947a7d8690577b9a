"""A learner that moves ahead of what comes again."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from klazy.base.checks import Array, InvalidInput, integer
from klazy.families import Family
from klazy.kernels import codes
from klazy.kernels.season import find_period
from klazy.learners.base import Learner
from klazy.learners.reluctant import Reluctant
from klazy.movement import Movement, as_movement
from klazy.sets import ConvexSet


class Season:
    """Looks for a period in rows of ``dim`` numbers, and forecasts ``width`` moments of them, the first of which are the rows.

    Its vector: how many rows it saw, the period (0 if none is known), the round in which that changed, the
    period that was given (0 if none was); then the mean of the rows, their autocovariances by lag, and the sums of all moments
    up to each of the last ``rows`` rounds, in a ring. The ring is read by the length that it has: that of a leader may be
    longer than one of its experts needs.
    """

    def __init__(
        self, dim: int, width: int, period: int | None, rows: int = codes.SEASON_ROWS
    ) -> None:
        self.dim = dim
        self.width = width
        self.given = period or 0
        self.rows = rows
        self.means = slice(codes.SEASON_HEAD, codes.SEASON_HEAD + dim)
        self.covariances = slice(self.means.stop, self.means.stop + codes.SEASON_PLACES)
        self.size = self.covariances.stop + rows * width

    def read_sums(self, known: Array) -> Array:
        """Return the ring: the sums up to round n in row n modulo its length."""
        return known[self.covariances.stop :].reshape(-1, self.width)

    def init(self) -> Array:
        """Return the vector before the first round."""
        known = np.zeros(self.size)
        known[codes.SEASON_GIVEN] = self.given
        return known

    def observe(self, known: Array, seen: Array) -> Array:
        """Return the vector after another round with these moments."""
        known = known.copy()
        n = int(known[codes.SEASON_SEEN]) + 1
        known[codes.SEASON_SEEN] = n
        sums = self.read_sums(known)
        rows = len(sums)
        sums[n % rows] = sums[(n - 1) % rows] + seen
        if self.given:
            if n == self.given:
                known[codes.SEASON_PERIOD] = self.given
                known[codes.SEASON_CHANGED] = n
            return known
        self._correlate(known, sums, n)
        if n % codes.SEASON_EVERY == 0:
            covariances = known[self.covariances].data
            found = find_period(covariances, covariances, n, int(known[codes.SEASON_PERIOD]))
            if found != known[codes.SEASON_PERIOD]:
                known[codes.SEASON_PERIOD] = found
                known[codes.SEASON_CHANGED] = n
        return known

    def _correlate(self, known: Array, sums: Array, n: int) -> None:
        """Update mean and autocovariances, in which the last rounds count most; missing earlier rounds count as zero."""
        pace = 1.0 / min(n, codes.SEASON_MEMORY)
        rows = len(sums)
        row = (sums[n % rows] - sums[(n - 1) % rows])[: self.dim]
        mean = known[self.means]
        mean += pace * (row - mean)
        apart = row - mean
        lags = min(codes.SEASON_LAGS, n - 1)
        products = sums[(n - np.arange(lags + 2)) % rows, : self.dim] @ apart
        covariances = known[self.covariances]
        covariances *= 1.0 - pace
        covariances[: lags + 1] += pace * (products[:-1] - products[1:] - apart @ mean)

    def check(self, known: Array) -> None:
        """Reject numbers that this season cannot have written, because kernels trust them."""
        n, period, changed, given = known[: codes.SEASON_HEAD].tolist()
        longest = self.given or codes.SEASON_LAGS
        fits = (
            n >= 0
            and 0 <= period <= min(longest, n)
            and 0 <= changed <= n
            and given == self.given
        )
        if not fits or any(number % 1 for number in (n, period, changed)):
            head = known[: codes.SEASON_HEAD]
            raise InvalidInput(
                f"state.season must come from a trace or agent of this learner, got {head}."
            )

    def count_periods(self, known: Array, period: int, most: int) -> int:
        """Count the past periods that a forecast can average."""
        rows = len(self.read_sums(known))
        return min(most, int(known[codes.SEASON_SEEN]) // period, (rows - 1) // period)

    def forecast(self, known: Array, period: int, periods: int, ahead: int) -> Array:
        """Forecast the moments of the next rounds, of shape (ahead, width): each is the mean of its phase over past periods."""
        n = int(known[codes.SEASON_SEEN])
        count = self.count_periods(known, period, periods)
        sums = self.read_sums(known)
        rounds = n + 1 + np.arange(ahead) % period
        moments = np.zeros((ahead, self.width))
        for back in range(1, count + 1):
            at = rounds - back * period
            moments += sums[at % len(sums)] - sums[(at - 1) % len(sums)]
        return moments / count

    def forecast_mean(self, known: Array, period: int, periods: int, ahead: int) -> Array:
        """Forecast the mean of the next rounds."""
        n = int(known[codes.SEASON_SEEN])
        count = self.count_periods(known, period, periods)
        sums = self.read_sums(known)
        whole, rest = divmod(ahead, period)
        total = whole * (sums[n % len(sums)] - sums[(n - count * period) % len(sums)])
        for back in range(1, count + 1):
            at = n - back * period
            total += sums[(at + rest) % len(sums)] - sums[at % len(sums)]
        return total / (count * ahead)


def count_ring_rows(width: int, period: int | None, periods: int) -> int:
    """Return how many rounds the ring has for means over ``periods`` periods of rows with ``width`` moments.

    A short period, or one that is looked for, has SEASON_ROWS. A longer one has as many of its periods as are averaged and as
    fit into SEASON_LONGEST rounds and SEASON_NUMBERS numbers, but at least one, and the sum before the first of them.
    """
    if period is None or period < codes.SEASON_ROWS:
        return codes.SEASON_ROWS
    fitting = min(codes.SEASON_LONGEST, codes.SEASON_NUMBERS // width) // period
    return 1 + period * max(1, min(periods, fitting))


def join_seasons(seasons: Sequence[Season]) -> Season | None:
    """Return the one season that serves all of these; None if they see rows of different widths.

    Its ring is the longest of theirs. It looks for a period if one of them does.
    """
    if len({season.width for season in seasons}) != 1:
        return None
    given = max(season.given for season in seasons)
    if any(season.given == 0 for season in seasons):
        given = 0
    return Season(seasons[0].dim, seasons[0].width, given, max(season.rows for season in seasons))


class SeasonalState(NamedTuple):
    """Its point, what rounds beyond the present part of its plan are worth, and what it knows of the season."""

    t: int
    x: Array
    value: Array
    season: Array


class Seasonal(Learner[SeasonalState]):
    r"""Moves ahead of what comes again, as far as that pays.

    It looks for a period P in the autocorrelations of the rounds so far, unless it is given one. The forecast of a
    coming round is the mean of its phase over the last M periods, :math:`\hat g_{t+h} = \frac1M \sum_j g_{t+h-jP}`.
    With a horizon of H rounds it moves as :class:`Reluctant` does, for the mean of the rounds to come,

    .. math:: x_{t+1} = \arg\min_{u \in X}\; \langle \hat g_{t+1} + \dots + \hat g_{t+H}, u \rangle + \lambda\, m(u - x_t).

    Without a horizon it plans a whole period ahead. What a point costs later never counts more than leaving it would cost:
    backwards from the end of the plan, with :math:`v` the worth of the rounds after h,

    .. math:: v \leftarrow C(\hat g_{t+h} + v), \qquad
              x_{t+1} = \arg\min_{u \in X}\; \langle \hat g_{t+1} + v, u \rangle + \lambda\, m(u - x_t),

    where C makes a vector one of those with :math:`\langle v, \delta \rangle \le \lambda m(\delta)` for every move:
    each coordinate is clipped to what rising and falling cost; on simplices none exceeds the least by more than moving there
    costs; where distance is Euclidean, v is shortened to :math:`\lambda`. For a box with prices by coordinate and for a simplex
    this is the exact dynamic programme of the forecast, elsewhere a rule. The far end of a plan is made anew four times a
    period, and after 256 rounds at the latest.

    As long as no period is known, it stays where it is.

    Parameters
    ----------
    domain : ConvexSet
        Where decisions live.
    movement : Movement or str
        What moving costs, or its short name, with one weight; not a :class:`SwitchFee`.
    horizon : int or None
        H >= 1, for how many rounds a new point should serve. None: plan a period ahead, for linear costs.
    periods : int
        M >= 1, over how many periods the forecast averages, as far as the state reaches: 1023 rounds, or for a longer given
        period up to 10080 rounds and about 80000 numbers, but at least one period.
    period : int, optional
        P, from 2 to 10080 rounds, if it is known. Default: it is looked for, up to 512 rounds.
    family : Family, optional
        The family of costs whose rows it gets, as for :class:`Reluctant`. Default: it gets gradients.
    start : array_like, optional
        First decision. Default: the set's point nearest to the origin.

    Examples
    --------
    >>> waves = np.sin(2.0 * np.pi * (np.arange(200)[:, None] / 20.0 + np.array([0.0, 0.25, 0.5])))
    >>> trace = run(Seasonal(Simplex(3), TVMovement(1.0), None, period=20), waves)
    >>> round(trace.totals.hitting, 2), round(trace.totals.switching, 2)
    (-138.19, 26.67)
    """

    shared: ClassVar[str] = "season"
    takes_prices: ClassVar[bool] = True

    movement: Movement
    horizon: int | None
    periods: int
    period: int | None
    start: Array | None
    mover: Reluctant  # makes its moves from its forecasts

    # Kernels correct the forecasts of Reluctant by these numbers. Those made here need no correction.
    n1 = 1.0
    n2 = 1.0

    def __init__(
        self,
        domain: ConvexSet,
        movement: Movement | str,
        horizon: int | None = None,
        periods: int = 8,
        *,
        period: int | None = None,
        family: Family | None = None,
        start: ArrayLike | None = None,
    ) -> None:
        movement = as_movement(movement)
        if movement.is_fee:
            raise InvalidInput(
                f"movement must grow with the distance, got {movement!r}. contrib.Reluctant takes a fee."
            )
        if horizon is not None:
            horizon = integer(horizon, "horizon")
        periods = integer(periods, "periods")
        if period is not None:
            period = integer(period, "period", "Leave it out to look for one.", least=2)
            if period > codes.SEASON_LONGEST:
                raise InvalidInput(
                    f"period must be at most {codes.SEASON_LONGEST}, got {period}."
                )
        mover = Reluctant(domain, movement, 1.0, horizon or 1.0, family=family, start=start)
        if horizon is None and mover.is_curved:
            raise InvalidInput(
                f"horizon must be a number of rounds for the family {family!r}, got None."
            )
        if horizon is None and movement.degree != 1.0:
            raise InvalidInput(f"horizon must be a number of rounds for {movement!r}, got None.")
        self._keep(
            domain=domain, movement=movement, horizon=horizon, periods=periods, period=period
        )
        self._keep(family=family, start=mover.start, mover=mover)
        if self.given >= codes.SEASON_ROWS:
            self._keep(level_after=self.given)

    @cached_property
    def season(self) -> Season:
        """The season that it looks for or was given."""
        d = self.domain.dim
        width = d if self.family is None else self.family.width(d)
        return Season(d, width, self.period, count_ring_rows(width, self.period, self.periods))

    @cached_property
    def rule(self) -> str | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The name of the compiled rule; None if set, movement or family have no kernel."""
        rule = self.mover.rule
        return None if rule is None else rule.replace("reluctant", "seasonal")

    @property
    def obstacle(self) -> str | None:
        """The part that has no kernel; None if all have one."""
        return self.mover.obstacle

    @property
    def ahead(self) -> int:
        """The horizon, 0 for a plan."""
        return self.horizon or 0

    @property
    def given(self) -> int:
        """The period that it was given, 0 if it looks for one."""
        return self.period or 0

    def init(self, x: Array | None = None) -> SeasonalState:
        return SeasonalState(
            1, self.first_point(x), np.zeros(self.domain.dim), self.season.init()
        )

    def step(self, state: SeasonalState, g: Array) -> SeasonalState:
        season = self.observe(state.season, g)
        return self.play(state, season)._replace(season=season)

    def observe(self, season: Array, g: Array) -> Array:
        """Learn from another round.

        Parameters
        ----------
        season : array
            The season.
        g : array
            The round's gradient or row.

        Returns
        -------
        array
            The season after it.
        """
        seen = g if self.family is None else self.family.moments(g)
        return self.season.observe(season, seen)

    def play(self, state: SeasonalState, season: Array) -> SeasonalState:
        """Make the state after a round, given the season then.

        Parameters
        ----------
        state : SeasonalState
            The state of the round.
        season : array
            The season after it.

        Returns
        -------
        SeasonalState
            The next round and its point.
        """
        after, forecast = self.look_ahead(state, season)
        if forecast is None:
            return after
        return after._replace(x=self.mover.move(state.x, forecast, self.mover.price))

    def look_ahead(
        self, state: SeasonalState, season: Array
    ) -> tuple[SeasonalState, Array | None]:
        """Make the state after a round, before it moves, and forecast what the move should serve.

        Parameters
        ----------
        state : SeasonalState
            The state of the round.
        season : array
            The vector of the season after it.

        Returns
        -------
        state : SeasonalState
            The next round, at the same point.
        forecast : array or None
            What it expects; None while no period is known, and it stays.
        """
        after = state._replace(t=state.t + 1)
        period, _ = self.read_period(season)
        if period == 0:
            return after, None
        if self.horizon is None:
            value, forecast = self._plan(state.value, season)
            return after._replace(value=value), forecast
        return after, self.season.forecast_mean(season, period, self.periods, self.horizon)

    def read_period(self, season: Array) -> tuple[int, int]:
        """Return the period that it plays by and since which round.

        Parameters
        ----------
        season : array
            The season, perhaps that of a leader whose other experts have other periods.

        Returns
        -------
        tuple of int
            The period, 0 while none is known, and the round after which it became known.
        """
        if self.period is None:
            return int(season[codes.SEASON_PERIOD]), int(season[codes.SEASON_CHANGED])
        has_passed = season[codes.SEASON_SEEN] >= self.period
        return self.period if has_passed else 0, self.period

    def _plan(self, value: Array, season: Array) -> tuple[Array, Array]:
        """Return the value of rounds beyond the present part, and the next round with all that follows."""
        n = int(season[codes.SEASON_SEEN])
        period, changed = self.read_period(season)
        part = max(1, min(period, codes.SEASON_ROWS) // codes.SEASON_PARTS)
        left = part - n % part  # rounds of the present part
        if left == part or changed == n:
            value = np.zeros(self.domain.dim)
            for row in self.season.forecast(season, period, self.periods, left + period)[
                : left - 1 : -1
            ]:
                value = self._limit(row + value)
        v = value
        rows = self.season.forecast(season, period, self.periods, left)
        for row in rows[:0:-1]:
            v = self._limit(row + v)
        return value, rows[0] + v

    def _limit(self, v: Array) -> Array:
        """Apply C, as the class defines it."""
        rise, fall = self.mover.prices
        if self.domain.has_total and not self.movement.grouped:
            return np.minimum(v, (v + rise).min() + fall)
        if self.movement.grouped:
            stretch = self.movement.stretch(self.domain.dim)
            axes = self.movement.axes()
            along = v if axes is None else v @ axes
            with np.errstate(divide="ignore"):
                size = float(np.linalg.norm(np.where(along == 0.0, 0.0, along / stretch)))
            return v if size <= self.mover.price else v * (self.mover.price / size)
        return np.clip(v, -rise, fall)

    def describe(self, state: SeasonalState | None = None) -> str:
        season = f"a season of {self.period} rounds" if self.period else "a season that it finds"
        within = "a season" if self.horizon is None else f"{self.horizon:g}"
        return f"knows {season}, moves if it pays within {within}"

    def describe_memory(self, state: SeasonalState) -> str:
        period, changed = self.read_period(state.season)
        if period == 0:
            looks = f"it has found no season of up to {codes.SEASON_LAGS} rounds"
            if self.period:
                looks = f"a period of {self.period} rounds has not passed"
            return f"It stays where it is, for {looks} yet."
        count = self.season.count_periods(state.season, period, self.periods)
        since = "" if self.period else f", found in round {changed}"
        forecast = self.season.forecast_mean(
            state.season, period, self.periods, self.horizon or 1
        )
        words = self.mover.describe_forecast(forecast)
        rounds = "the next round" if self.ahead < 2 else f"the next {self.horizon} rounds"
        text = f"It knows a season of {period} rounds{since}, and forecasts {words} for {rounds} from the last {count} of them"
        if self.horizon is None:
            return f"{text}; it plans a season ahead."
        return f"{text}; it moves when that pays within {self.horizon} rounds."

    def check_state(self, state: Any) -> SeasonalState:
        super().check_state(state)
        self.season.check(state.season)
        return state
