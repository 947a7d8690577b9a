"""Limits on what an agent plays, whatever its learner wants."""

import math
from typing import Any, NamedTuple

import numpy as np

from klazy.base.checks import Array, one_of, positive, refusal, whole
from klazy.base.config import Config
from klazy.game.game import default_movement
from klazy.learners import Learner
from klazy.live.rounding import check_whole, nearest_whole, towards
from klazy.movement import Movement
from klazy.sets import ConvexSet


class GuardState(NamedTuple):
    """The point played, since which round, and what all its moves cost.

    Of the last move: its ``price``, and the guards that ``acted``, by name.
    """

    x: Array
    since: int
    paid: float = 0.0
    frozen: bool = False
    price: float = 0.0
    acted: str = ""


class Guards(Config):
    """Limits on what an agent plays. Its learner goes on from its own point, as if there were none.

    Each round the agent's point follows the learner's, as far as these allow, in this order:

    ``G``, ``above``
        A gradient or hint whose Euclidean norm exceeds G is refused (``"refuse"``), or shortened to G (``"clip"``).
    ``integers``
        Only whole points are played: the one nearest to the learner's. It must be defined on the set: boxes; simplices, with
        or without whole caps, of a whole total, which is kept; products of these.
    ``hold``
        A point is played for at least so many rounds before it changes. A frozen agent does not change it at all.
    ``per_round``, ``total``
        The most that one move, and all moves together, may cost. A move that costs more goes as far along the straight line
        as it may, which keeps it in the set; with ``integers`` as many units as it may, in proportion; under a fee not at all.

    ``movement`` is what moving costs, with one weight, which budgets and ``Agent.switching`` include; by default it is what
    :func:`~klazy.run` would charge. Charged is what is played, rounding and all.

    >>> agent = Agent(GD(Box(0, 10), sigma=1.0), guards=Guards(per_round=2.0))
    >>> [agent.update([-3.0]).item() for _ in range(6)], agent.switching
    ([2.0, 4.0, 6.0, 8.0, 10.0, 10.0], 10.0)
    """

    G: float | None
    above: str
    integers: bool
    hold: int
    per_round: float | None
    total: float | None
    movement: Movement | None

    def __init__(
        self,
        *,
        G: float | None = None,
        above: str = "refuse",
        integers: bool = False,
        hold: int = 1,
        per_round: float | None = None,
        total: float | None = None,
        movement: Movement | None = None,
    ) -> None:
        limits = {"G": G, "per_round": per_round, "total": total}
        remedy = "give a number above zero, or leave it out for no limit"
        self._keep(**{n: None if v is None else positive(v, n, "Guards", remedy) for n, v in limits.items()})
        if movement is not None and not (
            isinstance(movement, Movement) and isinstance(movement.weight, float)
        ):
            raise refusal(
                "Guards",
                "a movement cost with one weight",
                "movement",
                repr(movement),
                "write L2Movement(1.0)",
            )
        hold = whole(hold, "hold", "Guards", "hold >= 1", "use hold=1 for a change in any round")
        above = one_of(above, "above", "Guards", ("refuse", "clip"))
        self._keep(above=above, integers=bool(integers), hold=hold, movement=movement)

    def fitted(self, learner: Learner[Any]) -> "Guards":
        """These guards, their movement cost named, for a learner on whose set they make sense."""
        movement = default_movement(learner) if self.movement is None else self.movement
        movement.check(learner.domain.dim)
        if self.integers:
            check_whole(learner.domain, "Guards")
        return self.replace(movement=movement)

    def init(self, domain: ConvexSet, x: Array, t: int) -> GuardState:
        """Before any move: the point played from round ``t`` on, where the learner stands at ``x``."""
        return GuardState(nearest_whole(domain, x) if self.integers else x.copy(), t)

    def admit(self, g: Array, hint: Array | None) -> None:
        """Refuse what is above G, if that is the rule."""
        if self.G is None or self.above != "refuse":
            return
        for name, vector in (("g", g), ("hint", hint)):
            if vector is not None and (size := float(np.linalg.norm(vector))) > self.G:
                remedy = "leave the round out, or use above='clip'"
                raise refusal("Agent.update", f"|{name}| <= G={self.G}", f"|{name}|", size, remedy)

    def clipped(self, g: Array, hint: Array | None) -> tuple[Array, Array | None, bool]:
        """Gradient and hint no longer than G, and whether one was."""
        if self.G is None:
            return g, hint, False
        size = float(np.linalg.norm(g))
        guess = 0.0 if hint is None else float(np.linalg.norm(hint))
        if max(size, guess) <= self.G:
            return g, hint, False
        return (
            g * (self.G / max(size, self.G)),
            None if hint is None else hint * (self.G / max(guess, self.G)),
            True,
        )

    def step(
        self, state: GuardState, domain: ConvexSet, target: Array, t: int, clip: bool = False
    ) -> GuardState:
        """The point of round ``t``, for which the learner wants ``target``; ``clip`` says whether the gradient was clipped."""
        goal = nearest_whole(domain, target) if self.integers else target.copy()
        acted = ["clip"] * clip + ["integers"] * (not np.array_equal(goal, target))
        x = state.x
        if not np.array_equal(goal, x):
            held = [
                name
                for name, holds in (("frozen", state.frozen), ("hold", t - state.since < self.hold))
                if holds
            ]
            dear = [] if held else self._too_dear(state, goal)
            x = state.x if held else self._part_of_the_way(state, domain, goal) if dear else goal
            acted += held + dear
        price = self._price(x - state.x)
        since = state.since if np.array_equal(x, state.x) else t
        return GuardState(x, since, state.paid + price, state.frozen, price, ", ".join(acted))

    def _price(self, delta: Array) -> float:
        movement: Any = self.movement
        return float(movement.weight * movement.distance(delta))

    def _too_dear(self, state: GuardState, x: Array) -> list[str]:
        """The budgets that a move to ``x`` would exceed."""
        price = self._price(x - state.x)
        over = (("per_round", self.per_round, price), ("total", self.total, state.paid + price))
        return [name for name, limit, cost in over if limit is not None and cost > limit]

    def _part_of_the_way(self, state: GuardState, domain: ConvexSet, goal: Array) -> Array:
        if self.integers:
            return towards(domain, state.x, goal, lambda x: not self._too_dear(state, x))
        left = min(
            math.inf if self.per_round is None else self.per_round,
            math.inf if self.total is None else self.total - state.paid,
        )
        share = left / self._price(goal - state.x)
        for shorter in (
            1.0,
            1.0 - 1e-12,
            1.0 - 1e-6,
        ):  # than what is left, by rounding errors of the step or of a large point
            x = state.x + shorter * share * (goal - state.x)
            if not self._too_dear(state, x):
                return x
        return state.x
