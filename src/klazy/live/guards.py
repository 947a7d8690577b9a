"""Limits on the points that an agent plays."""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import copy
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from klazy.base.checks import (
    Array,
    InvalidInput,
    coordinates,
    integer,
    one_of,
    positive,
    real_array,
)
from klazy.base.config import Config
from klazy.learners import Learner
from klazy.movement import Movement, as_movement
from klazy.sets import ConvexSet
from klazy.sets.limits import LimitedSet

_NO_LIMIT = "Leave it out for no limit."


class GuardState(NamedTuple):
    """The point played, since which round, and what all moves cost.

    ``price`` is that of the last move, ``acted`` names the guards that acted on it.
    """

    x: Array
    since: int
    paid: float = 0.0
    frozen: bool = False
    price: float = 0.0
    acted: str = ""


class Guards(Config):
    """Limit what an agent, or a :func:`~klazy.run` with ``guards``, plays.

    Its learner goes on from its own point, as if there were no limits.

    Each round the agent's point follows the learner's, as far as the guards allow. They act in the order of the parameters.
    Limits of a round, such as an outage, come before all of them, and before a freeze: a move that they demand is made at once,
    and charged.

    Parameters
    ----------
    G : float, optional
        The largest Euclidean norm of a gradient or hint. Default: no limit.
    above : str, optional
        What happens to one that is longer: ``"reject"``, the default, or ``"clip"``, which shortens it to G.
    integers : bool, optional
        Play whole points only: the one nearest to the learner's. The set must allow it: boxes; simplices, with or without whole
        caps, of a whole total, which is kept; products of these. Default: False.
    hold : int, optional
        Play a point for at least this many rounds before it changes. A frozen agent does not change it at all. Default: 1.
    up, down : float or sequence of float, optional
        The most that a coordinate may rise and fall in one round, in units: one number, or one per coordinate. On a box each
        coordinate goes as far as it may. Elsewhere all go along the straight line, which keeps the point in the set; with
        ``integers`` as many units as they may. Default: no limit.
    per_round : float, optional
        The most that one move may cost. A move that costs more goes as far along the straight line as it may, which keeps it in
        the set; with ``integers`` as many units as it may, in proportion; under a fee not at all. Default: no limit.
    total : float, optional
        The most that all moves together may cost, likewise. Default: no limit.
    movement : Movement or str, optional
        What moving costs, with one weight; budgets and ``Agent.switching`` include it. What is charged is what is played,
        rounding and all. Default: what :func:`~klazy.run` would charge.

    Raises
    ------
    ValueError
        If a limit is not above zero, or the movement has a weight per round.

    Examples
    --------
    >>> agent = Agent(GD(Box(0, 10), sigma=1.0), guards=Guards(per_round=2.0))
    >>> [agent.update([-3.0]).item() for _ in range(6)], agent.switching
    ([2.0, 4.0, 6.0, 8.0, 10.0, 10.0], 10.0)
    """

    G: float | None
    above: str
    integers: bool
    hold: int
    up: float | Array | None
    down: float | Array | None
    per_round: float | None
    total: float | None
    movement: Movement | None

    def __init__(
        self,
        *,
        G: float | None = None,
        above: str = "reject",
        integers: bool = False,
        hold: int = 1,
        up: ArrayLike | None = None,
        down: ArrayLike | None = None,
        per_round: float | None = None,
        total: float | None = None,
        movement: Movement | str | None = None,
    ) -> None:
        for name, limit in (("G", G), ("per_round", per_round), ("total", total)):
            self._keep(**{name: None if limit is None else positive(limit, name, _NO_LIMIT)})
        self._keep(up=_check_limit(up, "up"), down=_check_limit(down, "down"))
        if movement is not None:
            movement = as_movement(movement)
        if movement is not None and not isinstance(movement.weight, float):
            raise InvalidInput(
                f"movement must have a single weight, got {movement!r}. Use L2Movement(1.0)."
            )
        hold = integer(hold, "hold", "Use hold=1 for a change in any round.")
        above = one_of(above, "above", ("reject", "clip"))
        self._keep(above=above, integers=bool(integers), hold=hold, movement=movement)

    def fit(self, learner: Learner[Any]) -> Guards:
        """Fit the guards to a learner: check that they make sense on its set, and fill in what moving costs.

        Parameters
        ----------
        learner : Learner
            Whom they will guard.

        Returns
        -------
        Guards
            The same guards, with a movement.

        Raises
        ------
        ValueError
            If the set has no whole points, or movement or limits are for another dimension.
        """
        movement = learner.own_movement if self.movement is None else self.movement
        movement.check(learner.domain.dim)
        for name, limit in (("up", self.up), ("down", self.down)):
            if limit is not None:
                coordinates(limit, name, learner.domain.dim)
        if self.integers:
            learner.domain.check_whole()
        return self.replace(movement=movement)

    def init(
        self, domain: ConvexSet, x: Array, t: int, within: LimitedSet | None = None
    ) -> GuardState:
        """Make the state before any move.

        Parameters
        ----------
        domain : ConvexSet
            Where decisions live.
        x : array
            The learner's point.
        t : int
            The round from which on the point is played.
        within : LimitedSet, optional
            The limits of that round, as :meth:`suit_limits` returns them.

        Returns
        -------
        GuardState
            The point played, and since when.
        """
        return GuardState(self._aim(domain, x, within), t)

    def suit_limits(self, within: LimitedSet) -> LimitedSet:
        """Suit limits to the points that are played: where these are integers, limits are, too.

        Parameters
        ----------
        within : LimitedSet
            The limits of some rounds.

        Returns
        -------
        LimitedSet
            The limits for :meth:`init` and :meth:`step`.

        Raises
        ------
        ValueError
            If a round has no point with integers.
        """
        return within.to_integers() if self.integers else within

    def _aim(self, domain: ConvexSet, target: Array, within: LimitedSet | None) -> Array:
        """Return the point to play for a learner that wants ``target``, before holds and budgets."""
        if within is not None:
            target = within.keep(target[None])[0]
        return domain.nearest_whole(target) if self.integers else target.copy()

    def reprice(self, price: float) -> Guards:
        """Make the same guards at another price of moving.

        Parameters
        ----------
        price : float
            What a unit of movement costs.

        Returns
        -------
        Guards
            The guards.
        """
        found = copy(self)
        movement: Any = self.movement
        found._keep(movement=movement.replace(weight=price))
        return found

    def admit(self, g: Array, next_hint: Array | None) -> None:
        """Reject a gradient or hint above G, if ``above`` says so.

        Parameters
        ----------
        g : array
            The gradient.
        next_hint : array or None
            The hint, if there is one.

        Raises
        ------
        ValueError
            If one of them is longer than G.
        """
        if self.G is None or self.above != "reject":
            return
        for name, vector in (("g", g), ("next_hint", next_hint)):
            size = 0.0 if vector is None else _measure(vector)
            if size > self.G:
                raise InvalidInput(
                    f"|{name}| must be at most G={self.G}, got {size}. "
                    "Leave the round out, or use above='clip'."
                )

    def clip(self, g: Array, next_hint: Array | None) -> tuple[Array, Array | None, bool]:
        """Shorten gradient and hint to G.

        Parameters
        ----------
        g : array
            The gradient.
        next_hint : array or None
            The hint, if there is one.

        Returns
        -------
        g : array
            The gradient, no longer than G.
        next_hint : array or None
            The hint, likewise.
        clipped : bool
            Whether one of them was longer.
        """
        if self.G is None:
            return g, next_hint, False
        short = _shorten(g, self.G)
        guess = None if next_hint is None else _shorten(next_hint, self.G)
        return short, guess, short is not g or guess is not next_hint

    def step(
        self,
        state: GuardState,
        domain: ConvexSet,
        target: Array,
        t: int,
        clip: bool = False,
        within: LimitedSet | None = None,
    ) -> GuardState:
        """Choose the point of round ``t``.

        Parameters
        ----------
        state : GuardState
            What was played before.
        domain : ConvexSet
            Where decisions live.
        target : array
            Where the learner wants to be.
        t : int
            The round.
        clip : bool, optional
            Whether the gradient was clipped, which counts as a guard that acted. Default: False.
        within : LimitedSet, optional
            The limits of round ``t``, as :meth:`suit_limits` returns them. Default: none.

        Returns
        -------
        GuardState
            The point to play, what the move costs, and which guards acted.
        """
        goal = self._aim(domain, target, within)
        acted = []
        if clip:
            acted.append("clip")
        if self.integers and not np.array_equal(goal, target):
            acted.append("integers")
        x, stopped = self._follow(state, domain, goal, t)
        acted += stopped
        if within is not None:
            allowed = self._aim(domain, x, within)
            if within.find_outside(target[None]).size or not np.array_equal(allowed, x):
                acted.append("limits")
            x = allowed
        price = self._price(x - state.x)
        since = state.since if np.array_equal(x, state.x) else t
        return GuardState(x, since, state.paid + price, state.frozen, price, ", ".join(acted))

    def _follow(
        self, state: GuardState, domain: ConvexSet, goal: Array, t: int
    ) -> tuple[Array, list[str]]:
        """Go as far towards ``goal`` as freeze, hold and budgets allow, and name those that stopped it."""
        if np.array_equal(goal, state.x):
            return state.x, []
        held = []
        if state.frozen:
            held.append("frozen")
        if t - state.since < self.hold:
            held.append("hold")
        if held:
            return state.x, held
        goal, stopped = self._limit(state.x, domain, goal)
        exceeded = self._exceeded(state, goal)
        if exceeded:
            goal = self._go_part_of_the_way(state, domain, goal)
        return goal, stopped + exceeded

    def _limit(self, x: Array, domain: ConvexSet, goal: Array) -> tuple[Array, list[str]]:
        """Go as far from ``x`` towards ``goal`` as coordinates may rise and fall, and name the limits that stopped it."""
        if self.up is None and self.down is None:
            return goal, []
        low = np.full(len(x), -np.inf) if self.down is None else x - self.down
        high = np.full(len(x), np.inf) if self.up is None else x + self.up
        limits = (("up", goal > high), ("down", goal < low))
        stopped = [name for name, is_beyond in limits if is_beyond.any()]
        if not stopped:
            return goal, stopped
        if not self.integers:
            return go_within(domain, x, goal, low, high), stopped
        # Adding zero makes a zero positive.
        least = np.ceil(low) + 0.0
        most = np.floor(high) + 0.0
        if domain.separable:
            # A point that is not whole may have no whole number within its limits.
            return np.where(least > most, x, np.clip(goal, least, most)), stopped
        return go_by_units(
            domain, x, goal, lambda y: bool(((y >= low) & (y <= high)).all())
        ), stopped

    def _price(self, delta: Array) -> float:
        movement: Any = self.movement
        return float(movement.weight * movement.distance(delta))

    def _exceeded(self, state: GuardState, x: Array) -> list[str]:
        """Return the names of the budgets that a move to ``x`` would exceed."""
        price = self._price(x - state.x)
        over = (("per_round", self.per_round, price), ("total", self.total, state.paid + price))
        return [name for name, limit, cost in over if limit is not None and cost > limit]

    def _go_part_of_the_way(self, state: GuardState, domain: ConvexSet, goal: Array) -> Array:
        if self.integers:
            return go_by_units(domain, state.x, goal, lambda x: not self._exceeded(state, x))
        left = math.inf
        if self.per_round is not None:
            left = self.per_round
        if self.total is not None:
            left = min(left, self.total - state.paid)
        share = left / self._price(goal - state.x)
        if self.movement is not None and self.movement.degree > 1.0:
            share = share ** (1.0 / self.movement.degree)
        # A little less than the rest of the budget leaves room for rounding errors.
        for shorter in (1.0, 1.0 - 1e-12, 1.0 - 1e-6):
            x = state.x + shorter * share * (goal - state.x)
            if not self._exceeded(state, x):
                return x
        return state.x


def go_within(domain: ConvexSet, x: Array, goal: Array, low: Array, high: Array) -> Array:
    """Go from ``x`` towards ``goal`` as far as limits allow: each coordinate by itself on a box, else all in proportion.

    >>> go_within(Box([0, 0], [9, 9]), np.zeros(2), np.array([6.0, 3.0]), np.zeros(2), np.array([4.0, 4.0]))
    array([4., 3.])
    """
    if domain.separable:
        return np.clip(goal, low, high)
    limit = np.clip(goal, low, high)
    is_beyond = limit != goal
    share = ((limit - x)[is_beyond] / (goal - x)[is_beyond]).min(initial=1.0)
    return x + share * (goal - x)


def _check_limit(limit: ArrayLike | None, name: str) -> float | Array | None:
    """Check a limit of one coordinate or of each, above zero."""
    if limit is None:
        return None
    limits = real_array(limit, name)
    for each in limits.ravel():
        positive(each, name, _NO_LIMIT)
    return limits if limits.ndim else float(limits)


def split_guards(acted: str, frozen: bool = False) -> tuple[str, ...]:
    """Return the guards that acted, with ``"frozen"`` if the decision is.

    >>> split_guards("per_round, total", True)
    ('per_round', 'total', 'frozen')
    """
    names = acted.split(", ") if acted else []
    if frozen and "frozen" not in names:
        names.append("frozen")
    return tuple(names)


def go_by_units(domain: ConvexSet, x: Array, goal: Array, fits: Callable[[Array], bool]) -> Array:
    """Go from ``x`` towards the whole point ``goal`` by as many units as fit, shared among coordinates and sets.

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
    """Return the Euclidean norm, the same on every CPU; BLAS would differ in the last bits."""
    return math.sqrt(float((vector * vector).sum()))
