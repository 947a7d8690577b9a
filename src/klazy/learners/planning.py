"""A learner that plans how long each unit of a stock will be needed."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from klazy.base.checks import Array, InvalidInput, integer, positive
from klazy.families import Family, Pinball
from klazy.kernels import codes
from klazy.learners.base import Learner
from klazy.learners.plan import ENDS, Foresight, Plan, Terms, find_level, take_root
from klazy.learners.reluctant import Reluctant, write_vector
from klazy.movement import Movement
from klazy.sets import Box, ConvexSet


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

    # The field of its state that a leader keeps once for all experts.
    shared: ClassVar[str] = "regression"

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
        if not isinstance(domain, Box):
            raise InvalidInput(f"domain must be a Box, got {domain!r}. Use Reluctant for it.")
        rounds = integer(rounds, "rounds")
        if rounds not in ENDS:
            raise InvalidInput(f"rounds must be a power of two of at most {ENDS[-1]}, got {rounds}.")
        if family is None:
            family = Pinball()
        if not isinstance(family, Pinball):
            raise InvalidInput(f"family must be Pinball, got {family!r}. Use Reluctant for it.")
        mover = Reluctant(domain, movement, 1.0, 1.0, family=family, start=start)
        if not suits_plan(mover.movement):
            raise InvalidInput(f"movement must be L1Movement or of its kind, got {movement!r}.")
        if period is not None:
            period = integer(period, "period", least=2)
            if period > codes.SEASON_LONGEST:
                raise InvalidInput(f"period must be at most {codes.SEASON_LONGEST}, got {period}.")
        self._keep(domain=domain, movement=mover.movement, rounds=rounds, factor=positive(factor, "factor"))
        self._keep(family=family, period=period, start=mover.start, mover=mover)

    @cached_property
    def regression(self) -> Plan:
        """What it learns."""
        return Plan(self.domain.dim, self.period or 0)

    @property
    def rule(self) -> str | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Its name among compiled rules; None if movement or family have none."""
        return None if self.mover.rule is None else "planning"

    @property
    def obstacle(self) -> str | None:
        """What of it kernels do not know."""
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
            What is known of the demand after it.

        Returns
        -------
        state : PlanningState
            The next round and its point.
        forecast : None
            Nothing is left for a leader to move.
        """
        x = [
            self._move(i, level, self.regression.foresee(known, i))
            for i, level in enumerate(state.x.tolist())
        ]
        return state._replace(t=state.t + 1, x=np.array(x)), None

    def _move(self, i: int, level: float, expected: Foresight) -> float:
        """Choose the next level of a coordinate."""
        domain: Any = self.domain
        demand: Any = self.family
        least = float(domain.lower[i])
        most = float(domain.upper[i])
        if expected.spreads[0] < 0.0 or least == most:
            return level
        rises, falls = self.mover.prices
        short = float(np.broadcast_to(demand.short, domain.dim)[i])
        excess = float(np.broadcast_to(demand.excess, domain.dim)[i])
        rise = self.factor * float(rises[i])
        fall = self.factor * float(falls[i])
        terms = Terms(self.segments, rise, fall, short, excess, take_root(least), take_root(most))
        root = take_root(level)
        found = find_level(expected, terms, root)
        if found == root:
            return level
        return min(max(found * abs(found), least), most)

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
    """Return True if a movement costs so much for each coordinate, up and down."""
    return movement.grouped is False and movement.degree == 1.0
