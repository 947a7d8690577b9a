"""Rules of thumb that an engineer would try first. They follow the point that was best for the average of past rounds."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from klazy.base.checks import Array, InvalidInput, instance, integer, positive
from klazy.families import Family, Linear, Pinball, Quadratic, Rewards
from klazy.kernels import codes
from klazy.learners.base import NEVER, Learner, check_domain, check_start
from klazy.movement import Movement, as_movement
from klazy.sets import ConvexSet
from klazy.sets.base import check_bounded

# The rules of kernels, by what a row costs.
TWINS = {Linear: "thumb", Rewards: "thumb", Quadratic: "thumb_target", Pinball: "thumb_demand"}
LONGEST = 10**7  # rounds in a window, whose moments a state keeps
# The fewest and the most rounds that are searched for the next move at a time.
CHUNKS = (16, 1024)


class ThumbState(NamedTuple):
    """The last rounds, and the round of the last move.

    A window of w rounds is cut in two where t - 1 is a multiple of w. ``total`` is the sum of the moments since then, and
    ``ring`` keeps them, from its first row on; its other rows are sums of older moments, each from its own round up to the cut.
    So every sum is made of at most w additions and nothing is ever subtracted: it cannot drift. Without a window ``total`` is
    the sum of all moments, and ``ring`` is empty.
    """

    t: int
    x: Array
    total: Array
    ring: Array
    moved: int = 1


class Outlook(NamedTuple):
    """What all rules with one window see in the same rows: the average after each, its best point, and the sums at the end."""

    means: Array
    aims: Array
    total: Array
    ring: Array


class FixedState(NamedTuple):
    """The round and the point."""

    t: int
    x: Array


class Thumb(Learner[ThumbState]):
    """Base class of rules of thumb: follow the average of past rounds, in the rounds in which it may move.

    ``family`` says what a row costs, by default :class:`~klazy.Linear`. ``window`` is how many rounds it averages; None is all.
    """

    family: Family  # pyright: ignore[reportIncompatibleVariableOverride]  # never None here
    start: Array | None
    window: int | None = None

    # what its kernel reads, with the properties below; subclasses set their own values
    wait: int = 1  # rounds for which a decision is held at least
    # A smaller change of all coordinates is no move; -1 if even none is one.
    least: float = -1.0
    # What a unit saved in a round counts; 0 if a move need not pay.
    pull: float = 0.0
    weight: float = 0.0  # the weight of the movement that it pays for
    # Its code; None for a movement that kernels of this rule do not know.
    kind: int | None = codes.MOVE_L2
    rise: float = 0.0  # the price of a unit up, or of a unit of squares
    fall: float = 0.0  # the price of a unit down, or the tolerance of a fee

    def __init__(
        self, domain: ConvexSet, *, family: Family | None = None, start: ArrayLike | None = None
    ) -> None:
        if family is None:
            family = Linear()
        instance(family, "family", Family, "a Family such as Quadratic()")
        check_bounded(check_domain(domain))
        self._keep(domain=domain, family=family, start=check_start(domain, start))

    @property
    def span(self) -> int:
        """Rounds in the window; 0 if it averages all."""
        return self.window or 0

    def changes(self, x: Array, aims: Array) -> np.ndarray:
        """Say which of these points differ from x by more than rounding.

        Parameters
        ----------
        x : array
            Its present point.
        aims : array
            The points to compare, one per row.

        Returns
        -------
        array of bool
            One answer per point.
        """
        return np.abs(aims - x).max(axis=-1) > self.least

    @property
    def twin(self) -> str | None:
        """The name of its compiled twin among the rules of kernels; None if there is none."""
        if self.kind is None:
            return None
        # The kernel has no integrals of the normal density, which say what a move saves.
        if type(self.family) is Pinball and (
            self.pull > 0.0 or self.family.find_quantiles().size > 1
        ):
            return None
        return TWINS.get(type(self.family))

    @property
    def quantile(self) -> float:
        """How far above its mean a normal demand is best met, in standard deviations; the same in all coordinates."""
        demand: Any = self.family  # rules with a quantile are those of Pinball
        return float(demand.find_quantiles()[0])

    @abstractmethod
    def may_move(
        self, x: Array, moved: int, rounds: np.ndarray, aims: Array, means: Array
    ) -> np.ndarray:
        """Say in which of these rounds it would move to the aim, if it had been at ``x`` since round ``moved``.

        Parameters
        ----------
        x : array
            Its present point.
        moved : int
            The round of its last move.
        rounds : array of int
            The rounds to judge.
        aims : array
            The best point for the average before each of them, one row per round.
        means : array
            These averages, one row per round.

        Returns
        -------
        array of bool
            One answer per round.
        """

    def init(self, x: Array | None = None) -> ThumbState:
        width = self.family.width(self.domain.dim)
        # A read-only zero takes no memory before the first round, so that a service can count the numbers first.
        ring = np.broadcast_to(0.0, (self.window or 0, width))
        return ThumbState(1, self.first_point(x), np.zeros(width), ring)

    def step(self, state: ThumbState, g: Array) -> ThumbState:
        t, x, total, ring, moved = state
        moments = self.family.moments(g)
        total = total + moments
        older = np.zeros_like(total)
        count = t
        if self.window is not None:
            count = min(t, self.window)
            ring = ring.copy()
            ring[(t - 1) % self.window] = moments
            if t % self.window == 0:
                ring = np.cumsum(ring[::-1], axis=0)[::-1]
                total = np.zeros_like(total)
            older = ring[t % self.window]
        mean = (older + total) / count
        aim = self.family.lowest(self.domain, mean)
        if self.may_move(x, moved, np.array([t + 1]), aim[None], mean[None])[0]:
            x = aim
            moved = t + 1
        return ThumbState(t + 1, x, total, ring, moved)

    def follow(
        self, state: ThumbState, rows: Array, outlook: Outlook | None = None
    ) -> tuple[Array, ThumbState]:
        """Play many rows at once, as :meth:`step` would one by one.

        Parameters
        ----------
        state : ThumbState
            Where to continue from.
        rows : array
            The rows to come, of shape (n, width).
        outlook : Outlook, optional
            What :meth:`look` saw in the same rows. Default: it looks itself.

        Returns
        -------
        points : array
            The decision of each row's round, of shape (n, d).
        state : ThumbState
            The state after the last row.
        """
        if outlook is None:
            outlook = self.look(state, rows)
        means, aims, total, ring = outlook
        points = np.empty((len(rows) + 1, self.domain.dim))
        points[0] = state.x
        moved = self._choose(points, state, aims, means)
        return points[:-1], ThumbState(state.t + len(rows), points[-1].copy(), total, ring, moved)

    @property
    def view(self) -> tuple[Any, ...]:
        """Set, family and window: rules that have these in common see the same outlook."""
        return self.domain, self.family, self.window

    def look(self, state: ThumbState, rows: Array) -> Outlook:
        """Compute what all rules with the same window see in these rows.

        Parameters
        ----------
        state : ThumbState
            Where to continue from.
        rows : array
            The rows to come.

        Returns
        -------
        Outlook
            The average after each row, the point that is best for it, and the sums at the end.
        """
        n = len(rows)
        moments = self.family.moments(rows)
        width = moments.shape[1]
        seen = state.t - 1
        counts = seen + np.arange(1, n + 1)
        if self.window is None:
            sums = np.cumsum(np.vstack((state.total, moments)), axis=0)[1:]
            means = sums / counts[:, None]
            return Outlook(
                means, self.family.lowest(self.domain, means), sums[-1].copy(), state.ring
            )
        window = self.window
        first = seen % window  # rounds since the cut
        last = (first + n) % window
        many = -(-(first + n) // window)
        parts = np.zeros((many * window, width))
        parts[:first] = state.ring[:first]
        parts[first : first + n] = moments
        parts = parts.reshape(many, window, width)
        newer = np.cumsum(parts, axis=1)
        older = np.cumsum(parts[:, ::-1], axis=1)[:, ::-1]
        before = np.concatenate((state.ring[None], older[:-1]))
        sums = np.concatenate((before[:, 1:] + newer[:, :-1], older[:, :1]), axis=1).reshape(
            -1, width
        )
        means = sums[first : first + n] / np.minimum(counts, window)[:, None]
        total = np.zeros(width)
        ring = older[-1].copy()
        if last > 0:
            total = newer[-1, last - 1].copy()
            ring = np.concatenate((parts[-1, :last], before[-1, last:]))
        return Outlook(means, self.family.lowest(self.domain, means), total, ring)

    def _choose(self, points: Array, state: ThumbState, aims: Array, means: Array) -> int:
        """Write the points of the rounds after ``points[0]``, and return the round of the last move."""
        n = len(aims)
        rounds = state.t + np.arange(1, n + 1)
        x = state.x
        moved = state.moved
        at = 0
        chunk = CHUNKS[0]
        while at < n:
            part = slice(at, at + chunk)
            moves = self.may_move(x, moved, rounds[part], aims[part], means[part])
            first = int(moves.argmax())
            if not moves[first]:
                points[at + 1 : at + 1 + len(moves)] = x
                at += len(moves)
                chunk = min(2 * chunk, CHUNKS[1])
                continue
            points[at + 1 : at + 1 + first] = x
            at += first
            x = aims[at]
            moved = int(rounds[at])
            points[at + 1] = x
            at += 1
            chunk = CHUNKS[0]
        return moved

    def describe_memory(self, state: ThumbState) -> str:
        seen = state.t - 1
        if self.window is None or seen <= self.window:
            return f"The aim is best for the average of all {seen} rounds so far."
        return f"The aim is best for the average of the rounds from {state.t - self.window} to {seen}."


def describe_prices(movement: Movement, dim: int) -> tuple[int | None, float, float]:
    """Return the code of a movement, and its two prices if all coordinates share them; None for others."""
    kind = codes.code_of(movement)
    if kind is None:
        return None, 0.0, 0.0
    prices = movement.prices(dim)
    if kind == codes.MOVE_FEE:
        return kind, 0.0, float(prices[0])
    if kind == codes.MOVE_L2:
        return kind, 1.0, 0.0
    is_shared = (prices[:dim] == prices[0]).all() and (prices[dim:] == prices[-1]).all()
    if not is_shared:
        return None, 0.0, 0.0
    return kind, float(prices[0]), float(prices[-1])


class _AtSetTimes(Thumb):
    """A rule whose moves do not depend on its point, so that all of them are found at once; by default it always moves."""

    def may_move(
        self, x: Array, moved: int, rounds: np.ndarray, aims: Array, means: Array
    ) -> np.ndarray:
        return np.full(len(rounds), True)

    def _choose(self, points: Array, state: ThumbState, aims: Array, means: Array) -> int:
        n = len(aims)
        rounds = state.t + np.arange(1, n + 1)
        moves = self.may_move(state.x, state.moved, rounds, aims, means)
        latest = np.maximum.accumulate(np.where(moves, np.arange(n), -1))
        points[1:] = np.where((latest >= 0)[:, None], aims[latest], state.x)
        return int(rounds[latest[-1]]) if latest[-1] >= 0 else state.moved


class LastValue(_AtSetTimes):
    """Play what was best in the last round.

    Parameters
    ----------
    domain : ConvexSet
        Where decisions live.
    family : Family, optional
        What a row costs. Default: :class:`~klazy.Linear`, for which a row is a gradient.
    start : array_like, optional
        First decision. Default: the point of the set nearest to the origin.

    Examples
    --------
    >>> learner = LastValue(Simplex(3))
    >>> learner.step(learner.init(), np.array([3.0, 1.0, 2.0])).x
    array([0., 1., 0.])
    """

    window: int | None = 1


class MovingAverage(_AtSetTimes):
    """Play what was best for the average of the last ``window`` rounds.

    Parameters
    ----------
    domain : ConvexSet
        Where decisions live.
    window : int
        How many rounds are averaged; at first as many as there are.
    family : Family, optional
        What a row costs. Default: :class:`~klazy.Linear`, for which a row is a gradient.
    start : array_like, optional
        First decision. Default: the point of the set nearest to the origin.

    Examples
    --------
    >>> targets = QuadraticCosts([[1.0], [3.0], [8.0], [0.0]])
    >>> run(MovingAverage(Box(0.0, 10.0), 2, family=Quadratic()), targets, engine="step").x.ravel().tolist()
    [0.0, 1.0, 2.0, 5.5]
    """

    window: int | None

    def __init__(
        self,
        domain: ConvexSet,
        window: int,
        *,
        family: Family | None = None,
        start: ArrayLike | None = None,
    ) -> None:
        super().__init__(domain, family=family, start=start)
        self._keep(window=check_window(window))


class FollowTheLeader(_AtSetTimes):
    """Play what would have been best in all rounds so far.

    For linear costs that is the cheapest point so far, which may change in every round: do not use it if moving is expensive.

    Parameters
    ----------
    domain : ConvexSet
        Where decisions live.
    family : Family, optional
        What a row costs. Default: :class:`~klazy.Linear`, for which a row is a gradient.
    start : array_like, optional
        First decision. Default: the point of the set nearest to the origin.

    Examples
    --------
    >>> run(FollowTheLeader(Simplex(2)), [[1.0, 0.0], [0.0, 3.0], [1.0, 0.0]], engine="step").x.tolist()
    [[0.5, 0.5], [0.0, 1.0], [1.0, 0.0]]
    """


class Periodic(_AtSetTimes):
    """Follow the average, but move only every few rounds.

    Parameters
    ----------
    domain : ConvexSet
        Where decisions live.
    every : int
        The rounds between two moves: it moves in rounds ``1 + every``, ``1 + 2 * every``, ...
    window : int, optional
        How many rounds are averaged. Default: all.
    family : Family, optional
        What a row costs. Default: :class:`~klazy.Linear`, for which a row is a gradient.
    start : array_like, optional
        First decision. Default: the point of the set nearest to the origin.

    Examples
    --------
    >>> targets = QuadraticCosts([[1.0], [3.0], [8.0], [0.0]])
    >>> run(Periodic(Box(0.0, 10.0), 2, family=Quadratic()), targets, engine="step").x.ravel().tolist()
    [0.0, 0.0, 2.0, 2.0]
    """

    every: int
    window: int | None

    def __init__(
        self,
        domain: ConvexSet,
        every: int,
        window: int | None = None,
        *,
        family: Family | None = None,
        start: ArrayLike | None = None,
    ) -> None:
        super().__init__(domain, family=family, start=start)
        self._keep(
            every=check_rounds(every, "every"),
            window=check_optional_window(window),
        )
        self._keep(wait=self.every)

    def may_move(
        self, x: Array, moved: int, rounds: np.ndarray, aims: Array, means: Array
    ) -> np.ndarray:
        return (rounds - 1) % self.every == 0


class MinimumHold(Thumb):
    """Follow the average, but hold every decision for a number of rounds.

    Parameters
    ----------
    domain : ConvexSet
        Where decisions live.
    hold : int
        The least number of rounds for which a decision is held.
    window : int, optional
        How many rounds are averaged. Default: all.
    family : Family, optional
        What a row costs. Default: :class:`~klazy.Linear`, for which a row is a gradient.
    start : array_like, optional
        First decision. Default: the point of the set nearest to the origin.

    Examples
    --------
    >>> targets = QuadraticCosts([[1.0], [3.0], [8.0], [0.0]])
    >>> run(MinimumHold(Box(0.0, 10.0), 2, window=1, family=Quadratic()), targets, engine="step").x.ravel().tolist()
    [0.0, 0.0, 3.0, 3.0]
    """

    hold: int
    window: int | None

    def __init__(
        self,
        domain: ConvexSet,
        hold: int,
        window: int | None = None,
        *,
        family: Family | None = None,
        start: ArrayLike | None = None,
    ) -> None:
        super().__init__(domain, family=family, start=start)
        self._keep(
            hold=check_rounds(hold, "hold"),
            window=check_optional_window(window),
        )
        self._keep(wait=self.hold, least=codes.RESOLUTION * domain.scale)

    def may_move(
        self, x: Array, moved: int, rounds: np.ndarray, aims: Array, means: Array
    ) -> np.ndarray:
        return (rounds - moved >= self.hold) & self.changes(x, aims)


class DeadBand(Thumb):
    """Follow the average, but move only if what that saves in ``horizon`` rounds is more than the move costs.

    Parameters
    ----------
    domain : ConvexSet
        Where decisions live.
    movement : Movement or str
        What moving costs, or its short name: ``"l2"``, ``"l1"``, ``"tv"``, ``"fee"``.
    horizon : float
        For how many rounds a move is expected to pay.
    window : int, optional
        How many rounds are averaged. Default: all.
    family : Family, optional
        What a row costs. Default: :class:`~klazy.Linear`, for which a row is a gradient.
    start : array_like, optional
        First decision. Default: the point of the set nearest to the origin.

    Examples
    --------
    >>> g = [[0.0, 1.0], [0.0, 1.0], [0.0, 1.0]]
    >>> unit = Box([0.0, 0.0], [1.0, 1.0])
    >>> run(DeadBand(unit, L1Movement(4.0), 3.0, start=[1.0, 1.0]), g, engine="step").x.tolist()
    [[1.0, 1.0], [1.0, 1.0], [1.0, 1.0]]
    >>> run(DeadBand(unit, L1Movement(4.0), 5.0, start=[1.0, 1.0]), g, engine="step").x.tolist()
    [[1.0, 1.0], [1.0, 0.0], [1.0, 0.0]]
    """

    movement: Movement
    horizon: float
    window: int | None

    def __init__(
        self,
        domain: ConvexSet,
        movement: Movement | str,
        horizon: float,
        window: int | None = None,
        *,
        family: Family | None = None,
        start: ArrayLike | None = None,
    ) -> None:
        super().__init__(domain, family=family, start=start)
        movement = as_movement(movement)
        movement.check(domain.dim)
        self._keep(
            movement=movement,
            horizon=positive(horizon, "horizon"),
            window=check_optional_window(window),
        )
        counts = getattr(self.family, "weight", 1.0)
        kind, rise, fall = describe_prices(movement, domain.dim)
        self._keep(
            least=codes.RESOLUTION * domain.scale,
            pull=counts * self.horizon,
            # Where the weight changes by round, it is the highest.
            weight=float(np.max(movement.weight)),
            kind=kind,
            rise=rise,
            fall=fall,
        )

    def may_move(
        self, x: Array, moved: int, rounds: np.ndarray, aims: Array, means: Array
    ) -> np.ndarray:
        saved = self.family.expected(means, x) - self.family.expected(means, aims)
        pays = self.horizon * saved > self.weight * self.movement.distance(aims - x)
        return pays & self.changes(x, aims)


class Fixed(Learner[FixedState]):
    """Never move.

    Parameters
    ----------
    domain : ConvexSet
        Where decisions live.
    start : array_like, optional
        The decision. Default: the point of the set nearest to the origin.

    Examples
    --------
    >>> run(Fixed(Simplex(2), start=[0.0, 1.0]), [[1.0, 0.0], [0.0, 3.0]], engine="step").totals.hitting
    3.0
    """

    start: Array | None
    rule: ClassVar[str | None] = "fixed"

    def __init__(self, domain: ConvexSet, *, start: ArrayLike | None = None) -> None:
        self._keep(domain=domain, start=check_start(check_domain(domain), start))

    def init(self, x: Array | None = None) -> FixedState:
        return FixedState(1, self.first_point(x))

    def step(self, state: FixedState, g: Array) -> FixedState:
        return FixedState(state.t + 1, state.x)

    def follow(
        self, state: FixedState, rows: Array, outlook: None = None
    ) -> tuple[Array, FixedState]:
        """Stay for as many rounds as there are rows.

        Parameters
        ----------
        state : FixedState
            Where to continue from.
        rows : array
            The rows to come, which change nothing.
        outlook : None, optional
            Not used.

        Returns
        -------
        points : array
            The same point for each row.
        state : FixedState
            The state after the last row.
        """
        return np.broadcast_to(state.x, rows.shape), FixedState(state.t + len(rows), state.x)

    def describe_memory(self, state: FixedState) -> str:
        return "Fixed remembers nothing and never moves."


def check_rounds(value: int, name: str) -> int:
    """Check a number of rounds."""
    return min(integer(value, name, "Count it in rounds."), NEVER)


def check_window(window: int) -> int:
    """Check a number of rounds that memory can hold."""
    rounds = check_rounds(window, "window")
    if rounds > LONGEST:
        message = f"window must be at most {LONGEST}, got {window}. Use window=None to average all rounds."
        raise InvalidInput(message)
    return rounds


def check_optional_window(window: int | None) -> int | None:
    """Check a window; None means all rounds."""
    return None if window is None else check_window(window)


# A rule is not inherited, so it is set on each class.
for _kind in (LastValue, MovingAverage, FollowTheLeader, Periodic, MinimumHold, DeadBand):
    _kind.rule = Thumb.twin  # pyright: ignore[reportAttributeAccessIssue]
