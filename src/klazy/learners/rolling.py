"""Rules of thumb for demand: the largest of the last rows, a quantile of them, or what a Kubernetes autoscaler does."""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_left, insort
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from klazy.base.checks import Array, InvalidInput, non_negative, number, positive
from klazy.families import Family, Linear, Pinball
from klazy.learners.base import Learner, check_domain, check_start
from klazy.learners.thumb import check_window
from klazy.sets import Box, ConvexSet
from klazy.sets.base import check_bounded

# A quotient that is this little above a whole number is taken for that number.
PODS_ROUNDING = 1e-9


class RollingState(NamedTuple):
    """The last rows: that of round t is in row (t - 1) mod w of ``ring``, for a window of w rounds."""

    t: int
    x: Array
    ring: Array


class Rolling(Learner[RollingState]):
    """Base class of rules that compute a level of each coordinate from the last rows, and play the nearest point.

    ``window`` is how many rows count; at first as many as there are. It has no compiled twin, but plays many rows at once.
    """

    family: Family  # pyright: ignore[reportIncompatibleVariableOverride]  # never None here
    window: int
    start: Array | None

    def __init__(
        self,
        domain: ConvexSet,
        window: int,
        *,
        family: Family | None = None,
        start: ArrayLike | None = None,
    ) -> None:
        check_bounded(check_domain(domain))
        if family is None:
            family = Linear()
        if family != Linear() and not getattr(family, "near_rows", False):
            raise InvalidInput(
                f"family must be one whose rows are demands or targets, such as Pinball(), got {family!r}."
            )
        self._keep(domain=domain, window=check_window(window), family=family)
        self._keep(start=check_start(domain, start))

    @abstractmethod
    def find_level(self, rows: Array) -> Array:
        """Find the level that these rows give.

        Parameters
        ----------
        rows : array
            The rows of the window, in any order.

        Returns
        -------
        array
            One number per coordinate.
        """

    @abstractmethod
    def find_levels(self, rows: Array) -> Array:
        """Find the level after each row.

        Parameters
        ----------
        rows : array
            All rows, in their order.

        Returns
        -------
        array
            The level of the window that ends with each row.
        """

    def init(self, x: Array | None = None) -> RollingState:
        # A read-only zero takes no memory before the first round, so that a service can count the numbers first.
        ring = np.broadcast_to(0.0, (self.window, self.domain.dim))
        return RollingState(1, self.first_point(x), ring)

    def step(self, state: RollingState, g: Array) -> RollingState:
        ring = state.ring.copy()
        ring[(state.t - 1) % self.window] = g
        level = self.find_level(ring[: state.t])
        return RollingState(state.t + 1, self.domain.nearest(level), ring)

    def follow(
        self, state: RollingState, rows: Array, outlook: None = None
    ) -> tuple[Array, RollingState]:
        """Play many rows at once, as :meth:`step` would one by one.

        Parameters
        ----------
        state : RollingState
            Where to continue from.
        rows : array
            The rows to come, of shape (n, d).
        outlook : None, optional
            Not used.

        Returns
        -------
        points : array
            The decision of each row's round, of shape (n, d).
        state : RollingState
            The state after the last row.
        """
        seen = state.t - 1
        before = np.arange(max(0, seen - self.window), seen)
        known = np.vstack((state.ring[before % self.window], rows))
        levels = self.find_levels(known)[len(before) :]
        points = np.vstack((state.x, self.domain.nearest(levels)))
        last = seen + len(rows)
        kept = np.arange(max(0, last - self.window), last)
        ring = state.ring.copy()
        ring[kept % self.window] = known[len(known) - len(kept) :]
        return points[:-1], RollingState(last + 1, points[-1].copy(), ring)


class RollingMax(Rolling):
    """Play the largest of the last rows, with some headroom: the usual rule of autoscalers.

    Parameters
    ----------
    domain : ConvexSet
        Where decisions live.
    window : int
        How many rows count; at first as many as there are.
    headroom : float, optional
        What the largest row is multiplied by. Default: 1.
    family : Family, optional
        What a row costs: :class:`~klazy.Pinball` or :class:`~klazy.Quadratic`, whose rows are levels to be near. Default:
        :class:`~klazy.Linear`.
    start : array_like, optional
        First decision. Default: the point of the set nearest to the origin.

    Examples
    --------
    >>> demand = PinballCosts([[1.0], [5.0], [2.0], [0.0]])
    >>> run(RollingMax(Box(0.0, 10.0), 2, 1.2, family=Pinball()), demand, engine="step").x.ravel().tolist()
    [0.0, 1.2, 6.0, 6.0]
    """

    headroom: float

    def __init__(
        self,
        domain: ConvexSet,
        window: int,
        headroom: float = 1.0,
        *,
        family: Family | None = None,
        start: ArrayLike | None = None,
    ) -> None:
        super().__init__(domain, window, family=family, start=start)
        self._keep(headroom=positive(headroom, "headroom"))

    def find_level(self, rows: Array) -> Array:
        return self.headroom * rows.max(axis=0)

    def find_levels(self, rows: Array) -> Array:
        from scipy.ndimage import maximum_filter1d

        width = min(self.window, len(rows))
        none_before = np.full((width - 1, rows.shape[1]), -np.inf)
        highest = maximum_filter1d(
            np.vstack((none_before, rows)), width, axis=0, origin=(width - 1) // 2
        )
        return self.headroom * highest[width - 1 :]

    def describe_memory(self, state: RollingState) -> str:
        return f"The aim is {self.headroom:g} times the largest of the last {min(self.window, state.t - 1)} rows."


class RollingQuantile(Rolling):
    """Play a quantile of the last rows.

    With q = short / (short + excess) it is best for :class:`~klazy.Pinball` costs if the rounds to come are like those of the
    window, in any order, and moving is free.

    Parameters
    ----------
    domain : ConvexSet
        Where decisions live.
    window : int
        How many rows count; at first as many as there are.
    q : float
        The quantile, from 0 to 1, interpolated between rows as ``numpy.quantile`` does.
    family : Family, optional
        What a row costs: :class:`~klazy.Pinball` or :class:`~klazy.Quadratic`, whose rows are levels to be near. Default:
        :class:`~klazy.Linear`.
    start : array_like, optional
        First decision. Default: the point of the set nearest to the origin.

    Examples
    --------
    >>> demand = PinballCosts([[1.0], [5.0], [2.0], [0.0]])
    >>> run(RollingQuantile(Box(0.0, 10.0), 2, 0.75, family=Pinball()), demand, engine="step").x.ravel().tolist()
    [0.0, 1.0, 4.0, 4.25]
    """

    q: float

    def __init__(
        self,
        domain: ConvexSet,
        window: int,
        q: float,
        *,
        family: Family | None = None,
        start: ArrayLike | None = None,
    ) -> None:
        super().__init__(domain, window, family=family, start=start)
        q = number(q, "q")
        if not 0.0 <= q <= 1.0:
            raise InvalidInput(f"q must be from 0 to 1, got {q}.")
        self._keep(q=q)

    def find_level(self, rows: Array) -> Array:
        return self._interpolate(np.sort(rows, axis=0))

    def find_levels(self, rows: Array) -> Array:
        return np.column_stack([self._roll(column) for column in rows.T.tolist()])

    def _roll(self, column: list[float]) -> list[float]:
        """Find the quantile after each number, of a list that stays sorted."""
        window: list[float] = []
        found = []
        for t, value in enumerate(column):
            if t >= self.window:
                del window[bisect_left(window, column[t - self.window])]
            insort(window, value)
            found.append(self._interpolate(window))
        return found

    def _interpolate(self, ascending: Any) -> Any:
        """Return the quantile of numbers, or rows, that ascend."""
        last = len(ascending) - 1
        at = int(self.q * last)
        low = ascending[at]
        high = ascending[min(at + 1, last)]
        return low + (self.q * last - at) * (high - low)

    def describe_memory(self, state: RollingState) -> str:
        return f"The aim is the {self.q:g} quantile of the last {min(self.window, state.t - 1)} rows."


class PodAutoscaler(Learner[RollingState]):
    r"""Decide as the Horizontal Pod Autoscaler (HPA) of Kubernetes does, by a target of utilisation.

    A unit of the decision is a pod, which meets a unit of demand at full utilisation. With a demand of y and x pods it wants
    y / target pods, rounded up, unless the utilisation y / x is within a tolerance of the target. It goes up at once, and down
    only as far as the most that it wanted in the window (the HPA's stabilisation window). It never has fewer pods than one, and
    each coordinate goes by itself. The HPA's limits for single steps, by default twice the pods or four more in 15 seconds, are
    left out.

    Parameters
    ----------
    domain : Box
        Where decisions live: the least and the largest number of pods.
    target : float, optional
        The utilisation to aim at. Default: 0.8.
    window : int, optional
        How many rounds it waits before it goes down, the present one included. Default: 1, which is no wait.
    tolerance : float, optional
        Relative to the target, how much the utilisation may differ from it. Default: 0.1.
    family : Pinball, optional
        What a row costs, which is a demand. Default: ``Pinball()``.
    start : array_like, optional
        First decision. Default: the fewest pods.

    Examples
    --------
    >>> demand = PinballCosts([[4.0], [8.0], [8.5], [4.0], [4.0], [4.0]])
    >>> run(PodAutoscaler(Box(1.0, 20.0), window=3), demand, engine="step").x.ravel().tolist()
    [1.0, 5.0, 10.0, 10.0, 10.0, 10.0]
    """

    family: Family  # pyright: ignore[reportIncompatibleVariableOverride]  # never None here
    target: float
    window: int
    tolerance: float
    start: Array | None

    def __init__(
        self,
        domain: ConvexSet,
        target: float = 0.8,
        window: int = 1,
        tolerance: float = 0.1,
        *,
        family: Family | None = None,
        start: ArrayLike | None = None,
    ) -> None:
        if not isinstance(domain, Box):
            raise InvalidInput(f"domain must be a Box, got {domain!r}. Use Box(1.0, 20.0).")
        if family is None:
            family = Pinball()
        if not isinstance(family, Pinball):
            raise InvalidInput(f"family must be Pinball, whose rows are demands, got {family!r}.")
        self._keep(domain=domain, target=positive(target, "target"), window=check_window(window))
        self._keep(tolerance=non_negative(tolerance, "tolerance"), family=family)
        if (self.fewest > self.most).any():
            raise InvalidInput(
                f"domain must have room for a whole number of at least 1, got {domain!r}."
            )
        self._keep(start=check_start(domain, start))

    @property
    def fewest(self) -> Array:
        """The smallest number of pods."""
        box: Any = self.domain
        return np.maximum(np.ceil(box.lower), 1.0)

    @property
    def most(self) -> Array:
        """The largest number of pods."""
        box: Any = self.domain
        return np.floor(box.upper)

    def init(self, x: Array | None = None) -> RollingState:
        if x is None and self.start is None:
            x = self.fewest
        ring = np.broadcast_to(0.0, (self.window, self.domain.dim))
        return RollingState(1, self.first_point(x), ring)

    def step(self, state: RollingState, g: Array) -> RollingState:
        t, x, ring = state
        full = self.target * x
        is_near = np.abs(g - full) <= self.tolerance * full
        pods = np.where(is_near, x, np.ceil(g / self.target - PODS_ROUNDING))
        wanted = np.clip(pods, self.fewest, self.most)
        ring = ring.copy()
        ring[(t - 1) % self.window] = wanted
        highest = ring[:t].max(axis=0)
        return RollingState(t + 1, np.clip(x, wanted, highest), ring)

    def describe_memory(self, state: RollingState) -> str:
        rounds = min(self.window, state.t - 1)
        return f"It aims at a utilisation of {self.target:.0%}, and has seen {rounds} rounds of its window."
