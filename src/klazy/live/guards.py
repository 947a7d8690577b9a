"""Limits on what an agent plays, whatever its learner wants."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from klazy.base.checks import Array, one_of, positive, refusal, whole
from klazy.base.config import Config
from klazy.learners import Learner
from klazy.movement import Movement, as_movement
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
    """Limits on what an agent, or a :func:`~klazy.run` with ``guards``, plays. Its learner goes on from its own point.

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
        movement: Movement | str | None = None,
    ) -> None:
        limits = {"G": G, "per_round": per_round, "total": total}
        remedy = "give a number above zero, or leave it out for no limit"
        for name, limit in limits.items():
            if limit is not None:
                limit = positive(limit, name, "Guards", remedy)
            self._keep(**{name: limit})
        if movement is not None:
            movement = as_movement(movement, "Guards")
        if movement is not None and not isinstance(movement.weight, float):
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

    def fit(self, learner: Learner[Any]) -> "Guards":
        """These guards, their movement cost named, for a learner on whose set they make sense."""
        movement = learner.own_movement if self.movement is None else self.movement
        movement.check(learner.domain.dim)
        if self.integers:
            learner.domain.check_whole("Guards")
        return self.replace(movement=movement)

    def init(self, domain: ConvexSet, x: Array, t: int) -> GuardState:
        """Before any move: the point played from round ``t`` on, where the learner stands at ``x``."""
        return GuardState(self._aim(domain, x), t)

    def _aim(self, domain: ConvexSet, target: Array) -> Array:
        """The point to play for a learner that wants ``target``, before holds and budgets."""
        return domain.nearest_whole(target) if self.integers else target.copy()

    def admit(self, g: Array, hint: Array | None, owner: str = "Agent.update") -> None:
        """Refuse what is above G, if that is the rule."""
        if self.G is None or self.above != "refuse":
            return
        for name, vector in (("g", g), ("hint", hint)):
            size = 0.0 if vector is None else _measure(vector)
            if size > self.G:
                remedy = "leave the round out, or use above='clip'"
                raise refusal(owner, f"|{name}| <= G={self.G}", f"|{name}|", size, remedy)

    def clip(self, g: Array, hint: Array | None) -> tuple[Array, Array | None, bool]:
        """Gradient and hint no longer than G, and whether one was."""
        if self.G is None:
            return g, hint, False
        short = _shorten(g, self.G)
        guess = None if hint is None else _shorten(hint, self.G)
        return short, guess, short is not g or guess is not hint

    def step(
        self, state: GuardState, domain: ConvexSet, target: Array, t: int, clip: bool = False
    ) -> GuardState:
        """The point of round ``t``, for which the learner wants ``target``; ``clip`` says whether the gradient was clipped."""
        goal = self._aim(domain, target)
        acted = []
        if clip:
            acted.append("clip")
        if not np.array_equal(goal, target):
            acted.append("integers")
        x, stopped = self._follow(state, domain, goal, t)
        acted += stopped
        price = self._price(x - state.x)
        since = state.since if np.array_equal(x, state.x) else t
        return GuardState(x, since, state.paid + price, state.frozen, price, ", ".join(acted))

    def _follow(self, state: GuardState, domain: ConvexSet, goal: Array, t: int) -> tuple[Array, list[str]]:
        """As far towards ``goal`` as freeze, hold and budgets allow, and which of them stopped it."""
        if np.array_equal(goal, state.x):
            return state.x, []
        held = []
        if state.frozen:
            held.append("frozen")
        if t - state.since < self.hold:
            held.append("hold")
        if held:
            return state.x, held
        dear = self._too_dear(state, goal)
        if dear:
            return self._go_part_of_the_way(state, domain, goal), dear
        return goal, []

    def _price(self, delta: Array) -> float:
        movement: Any = self.movement
        return float(movement.weight * movement.distance(delta))

    def _too_dear(self, state: GuardState, x: Array) -> list[str]:
        """The budgets that a move to ``x`` would exceed."""
        price = self._price(x - state.x)
        over = (("per_round", self.per_round, price), ("total", self.total, state.paid + price))
        return [name for name, limit, cost in over if limit is not None and cost > limit]

    def _go_part_of_the_way(self, state: GuardState, domain: ConvexSet, goal: Array) -> Array:
        if self.integers:
            return go_by_units(domain, state.x, goal, lambda x: not self._too_dear(state, x))
        left = math.inf
        if self.per_round is not None:
            left = self.per_round
        if self.total is not None:
            left = min(left, self.total - state.paid)
        share = left / self._price(goal - state.x)
        if self.movement is not None and self.movement.degree > 1.0:
            share = share ** (1.0 / self.movement.degree)
        # a little less than what is left, for rounding errors of the step or of a large point
        for shorter in (1.0, 1.0 - 1e-12, 1.0 - 1e-6):
            x = state.x + shorter * share * (goal - state.x)
            if not self._too_dear(state, x):
                return x
        return state.x


def go_by_units(domain: ConvexSet, x: Array, goal: Array, fits: Callable[[Array], bool]) -> Array:
    """As many units as fit of the way from ``x`` to the whole point ``goal``, coordinates and sets taking their shares of them.

    >>> go_by_units(Box([0, 0], [9, 9]), np.zeros(2), np.array([6.0, 3.0]), lambda x: x.sum() <= 4)
    array([3., 1.])
    """
    start = domain.nearest_whole(x)
    if not fits(start):
        return x
    gap = goal - start
    few = 0
    many = domain.count_units(gap)
    while many - few > 1:
        middle = (few + many) // 2
        if fits(start + domain.take_units(gap, middle)):
            few = middle
        else:
            many = middle
    return start + domain.take_units(gap, few)


def _shorten(vector: Array, G: float) -> Array:
    """``vector`` itself if it is no longer than G, else cut to G."""
    size = _measure(vector)
    return vector if size <= G else vector * (G / size)


def _measure(vector: Array) -> float:
    """The Euclidean norm, the same on every CPU, which one by BLAS is not."""
    return math.sqrt(float((vector * vector).sum()))
