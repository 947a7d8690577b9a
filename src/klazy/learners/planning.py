"""A learner that plans how long each unit of a stock will be needed."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from klazy.base.checks import Array, InvalidInput, instance, integer, positive
from klazy.families import Family, Pinball
from klazy.kernels import codes
from klazy.kernels.plan import (
    PLAN_AHEAD,
    PLAN_EXCESS,
    PLAN_FALL,
    PLAN_RISE,
    PLAN_SHORT,
    choose_level,
    count_up,
    find_shared,
    observe_plan,
)
from klazy.learners.base import Knowledge, Learner
from klazy.learners.reluctant import Reluctant, write_vector
from klazy.movement import Movement
from klazy.sets import Box, ConvexSet

# After which round each segment of the rounds ahead ends.
ENDS = 2 ** np.arange(codes.PLAN_SEGMENTS)


class DemandPlan(Knowledge):
    r"""Forecasts the demand of the rounds ahead in segments: 1, 2, 3 to 4, 5 to 8, ..., 129 to 256.

    All numbers are roots of demands, :math:`y = \pm\sqrt{|c|}`, whose noise depends less on their level. A segment is forecast
    by a regression of all coordinates together, as :class:`~klazy.learners.autoregressive.Regression` has it, on differences of
    exponential means, and on the season: the mean of the same rounds of up to four past periods, once a period is known. The
    errors of past forecasts say how certain they are: each segment has a spread, and all share one distribution of errors in
    units of it. It begins as the standard normal one.

    Parameters
    ----------
    dim : int
        The numbers of a row.
    given : int
        The period, 0 if it is given with each round.
    """

    def __init__(self, dim: int, given: int = 0) -> None:
        self.dim = dim
        self.given = given
        # Averages need all past periods; memory limits them, but one is always stored.
        fitting = max(given + int(ENDS[-1]), codes.PLAN_NUMBERS // dim - 1)
        longest = min(codes.PLAN_PERIODS * given, codes.SEASON_LONGEST, fitting)
        self.rows = max(codes.PLAN_LEAST_ROWS, 1 << longest.bit_length())
        bands = codes.REGRESSION_BANDS
        features = codes.PLAN_FEATURES
        segments = codes.PLAN_SEGMENTS
        super().__init__(
            codes.PLAN_HEAD,
            sums=(dim,),
            norms=(bands,),
            means=(dim, bands),
            squares=(segments,),
            misses=(segments,),
            spreads=(segments,),
            products=(segments, features),
            matrices=(segments, features, features),
            coefficients=(segments, features),
            counts=(codes.PLAN_BINS,),
            distribution=(codes.PLAN_BINS + 1,),
            forecasts=(dim, segments),
            middle=(dim,),
            covariances=(codes.SEASON_PLACES,),
            slots=(segments, codes.REGRESSION_SLOTS, dim, features + 1),
            ring=(self.rows, dim),
        )

    def init(self) -> Array:
        """Return the vector before the first round."""
        from scipy.special import ndtr

        known = np.zeros(self.size)
        known[codes.PLAN_GIVEN] = self.given
        known[codes.PLAN_ROWS] = self.rows
        edges = codes.PLAN_LOW + codes.PLAN_BIN * np.arange(codes.PLAN_BINS + 1)
        self.read(known, "spreads")[:] = -1.0
        self.read(known, "counts")[:] = codes.PLAN_PRIOR * np.diff(ndtr(edges))
        count_up(find_shared(known, self.dim))
        return known

    def observe(self, known: Array, row: Array, period: int = 0) -> Array:
        """Return the vector after another round with this row, or these moments; ``period`` is 0 while none is known."""
        known = known.copy()
        observe_plan(known.data, row.tolist(), period, self.dim)
        return known

    def has_evidence(self, known: Array) -> bool:
        """Return True: demand of the last rounds always says something of the next ones."""
        return True

    def describe_skill(self, known: Array, horizon: int | None = None) -> str:
        """Write nothing: a plan has no single number that says how good it was."""
        return ""

    def check(self, known: Array) -> None:
        """Reject numbers that this plan cannot have written, because kernels trust them."""
        n, solved, given, rows, period = known[: codes.PLAN_HEAD].tolist()
        fits = 0 <= solved <= n and 0 <= period <= n and given == self.given and rows == self.rows
        if not fits or n % 1 or period % codes.PLAN_STRIDE:
            head = known[: codes.PLAN_HEAD]
            raise InvalidInput(
                f"state.regression must come from a trace or agent of this learner, got {head}."
            )


class PlanningState(NamedTuple):
    """Its point, and what it knows of the demand."""

    t: int
    x: Array
    regression: Array


class Planning(Learner[PlanningState]):
    r"""Keeps of each unit of a stock as long as a forecast of demand says that it will be needed.

    It forecasts the distribution of demand for the rounds ahead, in segments of 1, 1, 2, 4, ..., 128 rounds
    by ridge regressions. With :math:`C_j` the chance that the demand of a round of segment j is at most x, one
    more unit at level x costs :math:`G_j(x) = (s + e) C_j(x) - s` in each of its :math:`l_j` rounds. With the unit you can
    give it up for what falling costs, and without it you can get it for what rising costs. So it is worth, backwards
    from the last segment,

    .. math:: v \leftarrow \min(\max(v + l_j\, G_j(x),\; -c \lambda^\uparrow),\; c \lambda^\downarrow),
              \qquad D(x) = G_0(x) + v.

    A level with :math:`-c\lambda^\uparrow \le D(x) \le c\lambda^\downarrow` stays; else it goes to the nearest one for which
    that holds. On a box, where every level is a question of its own, this is the exact dynamic programme of the forecast.

    Parameters
    ----------
    domain : Box
        Where decisions live.
    movement : Movement or str
        What moving costs, summed over the coordinates, with one weight, such as ``"l1"``.
    rounds : int
        How many rounds it plans ahead: a power of two of at most 256.
    factor : float, optional
        c > 0, by how much it multiplies what moving costs: below 1 it moves more readily. Default: 1.
    family : Pinball, optional
        What a row costs. Default: ``Pinball()``.
    period : int, optional
        The period of the demand, from 2 to 10080 rounds, if it is known. Default: one of up to 512 rounds that the
        seasonal experts of its :class:`Leader` find, else one of up to 2048 rounds that it finds itself.
    start : array_like, optional
        First decision. Default: the set's point nearest to the origin.

    Examples
    --------
    >>> demand = 20.0 + 10.0 * np.sin(np.arange(400)[:, None] / 20.0)
    >>> trace = run(Planning(Box(0.0, 50.0), "l1", 16), PinballCosts(demand), engine="step")
    >>> round(trace.totals.hitting), round(trace.totals.switching)
    (215, 144)
    """

    # A leader stores this field of the state once for all experts.
    shared: ClassVar[str] = "regression"
    takes_prices: ClassVar[bool] = True

    movement: Movement
    rounds: int
    factor: float
    period: int | None
    start: Array | None
    mover: Reluctant  # knows what its moves cost

    def __init__(
        self,
        domain: ConvexSet,
        movement: Movement | str,
        rounds: int,
        factor: float = 1.0,
        *,
        family: Family | None = None,
        period: int | None = None,
        start: ArrayLike | None = None,
    ) -> None:
        instance(domain, "domain", Box, "a Box", "Use contrib.Reluctant for it.")
        rounds = integer(rounds, "rounds")
        if rounds not in ENDS:
            raise InvalidInput(
                f"rounds must be a power of two of at most {ENDS[-1]}, got {rounds}."
            )
        if family is None:
            family = Pinball()
        instance(family, "family", Pinball, "Pinball", "Use contrib.Reluctant for it.")
        mover = Reluctant(domain, movement, 1.0, 1.0, family=family, start=start)
        if not suits_plan(mover.movement):
            raise InvalidInput(f"movement must be L1Movement or of its kind, got {movement!r}.")
        if period is not None:
            period = integer(period, "period", least=2)
            if period > codes.SEASON_LONGEST:
                raise InvalidInput(
                    f"period must be at most {codes.SEASON_LONGEST}, got {period}."
                )
        self._keep(
            domain=domain,
            movement=mover.movement,
            rounds=rounds,
            factor=positive(factor, "factor"),
        )
        self._keep(family=family, period=period, start=mover.start, mover=mover)

    @cached_property
    def regression(self) -> DemandPlan:
        """The plan that makes the forecasts."""
        return DemandPlan(self.domain.dim, self.period or 0)

    @property
    def rule(self) -> str | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The name of the compiled rule; None if movement or family have no kernel."""
        return None if self.mover.rule is None else "planning"

    @property
    def obstacle(self) -> str | None:
        """The part that has no kernel; None if all have one."""
        return self.mover.obstacle

    @property
    def segments(self) -> int:
        """How many segments it plans ahead."""
        return self.rounds.bit_length()

    @property
    def rise(self) -> float:
        """What a unit of rising counts, where all coordinates pay the same."""
        return self.factor * self.mover.rise

    @property
    def fall(self) -> float:
        """What a unit of falling counts, where all coordinates pay the same."""
        return self.factor * self.mover.fall

    def init(self, x: Array | None = None) -> PlanningState:
        return PlanningState(1, self.first_point(x), self.regression.init())

    def step(self, state: PlanningState, g: Array) -> PlanningState:
        known = self.regression.observe(state.regression, g)
        after, _ = self.look_ahead(state, known)
        return after._replace(regression=known)

    def look_ahead(self, state: PlanningState, known: Array) -> tuple[PlanningState, None]:
        """Make the state after a round, and move.

        Parameters
        ----------
        state : PlanningState
            The state of the round.
        known : array
            The vector of the plan after it.

        Returns
        -------
        state : PlanningState
            The next round and its point.
        forecast : None
            Nothing is left for a leader to move.
        """
        domain: Any = self.domain
        shared = find_shared(known.data, domain.dim)
        bounds = zip(domain.lower.tolist(), domain.upper.tolist(), strict=True)
        x = state.x.tolist()
        for i, ((least, most), terms) in enumerate(zip(bounds, self._terms, strict=True)):
            x[i] = choose_level(shared, terms, i, x[i], least, most)
        return state._replace(t=state.t + 1, x=np.array(x)), None

    @cached_property
    def _terms(self) -> list[list[float]]:
        """For each coordinate: the segments planned, the prices of a unit up and down, and of one too little and too much."""
        demand: Any = self.family
        rises, falls = self.mover.prices
        terms = np.empty((self.domain.dim, 5))
        terms[:, PLAN_AHEAD] = self.segments
        terms[:, PLAN_RISE] = self.factor * rises
        terms[:, PLAN_FALL] = self.factor * falls
        terms[:, PLAN_SHORT] = demand.short
        terms[:, PLAN_EXCESS] = demand.excess
        return terms.tolist()

    def describe(self, state: PlanningState | None = None) -> str:
        price = "" if self.factor == 1.0 else f", as if moves cost {self.factor:g} times as much"
        return f"plans {self.rounds} rounds ahead{price}"

    def describe_memory(self, state: PlanningState) -> str:
        if state.t < 3:
            return "It has not seen two rows yet, so it stays where it is."
        forecasts = self.regression.read(state.regression, "forecasts")
        return (
            f"It forecasts a demand of about {write_vector(forecasts[:, 0] ** 2)} for the next round and "
            f"{write_vector(forecasts[:, self.segments - 1] ** 2)} in {self.rounds} rounds, and moves when that pays by then."
        )

    def check_state(self, state: Any) -> PlanningState:
        super().check_state(state)
        self.regression.check(state.regression)
        return state


def suits_plan(movement: Movement) -> bool:
    """Return True if a movement has a price up and a price down for each coordinate."""
    return movement.grouped is False and movement.degree == 1.0
