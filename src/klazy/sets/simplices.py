"""Simplices: shares of a fixed total, with or without limits per coordinate."""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from klazy.base.checks import Array, InvalidInput, coordinates, number, positive, size
from klazy.kernels import codes
from klazy.sets.base import ConvexSet
from klazy.sets.halfspaces import HalfSpaces, bound_by, join, sum_to
from klazy.sets.separable import Separable, share_total
from klazy.sets.totals import (
    capped_part,
    fill,
    fill_cheapest,
    round_to_total,
    share_units,
    simplex_part,
    vertex_margin,
)


class _Shares(ConvexSet):
    """Base class of both simplices: a total between bounds."""

    usual_movement: ClassVar[str] = "tv"
    has_total: ClassVar[bool] = True
    total: float

    @cached_property
    @abstractmethod
    def _bounds(self) -> tuple[Array, Array]: ...

    @abstractmethod
    def _share_out(self, y: Array) -> Array: ...

    def nearest(self, y: Array) -> Array:
        return self._share_out(y)

    def tangent(self, x: Array, v: Array) -> Array:
        low, high = self._bounds
        # No coordinate goes farther than this.
        free = 2.0 * (v.max(axis=-1, keepdims=True) - v.min(axis=-1, keepdims=True))
        return capped_part(v, 0.0, np.where(x > low, -free, 0.0), np.where(x < high, free, 0.0))

    @cached_property
    def _free(self) -> Array:
        """An array with 1.0 for every coordinate that can change, else 0.0."""
        low, high = self._bounds
        is_point = self.total in (low.sum(), high.sum())
        free = np.where(low < high, 0.0 if is_point else 1.0, 0.0)
        return free if free.sum() > 1.0 else np.zeros(self.dim)

    def along(self, v: Array) -> Array:
        inside = self._free * v
        return inside - self._free * (
            inside.sum(axis=-1, keepdims=True) / max(1.0, self._free.sum())
        )

    def erode(self, delta: float) -> ConvexSet | None:
        low, high = self._bounds
        count = max(1.0, float(self._free.sum()))
        rim = (
            delta * (1.0 - 1.0 / count) ** 0.5 * self._free
        )  # Sides are not perpendicular to the plane of the total.
        return self._within(low + rim, high - rim)

    def _within(self, floor: Array, cap: Array) -> ConvexSet | None:
        """Return the points of this total within other bounds; None if there are none."""
        fits = (floor <= cap).all() and floor.sum() <= self.total <= cap.sum()
        return CappedSimplex(self.dim, self.total, cap, floor) if fits else None

    def half_spaces(self, near: Array) -> HalfSpaces:
        return join([bound_by(*self._bounds), sum_to(self.total, self.dim)])

    def balance(self, objective: Separable) -> Array:
        return share_total(objective, self.total, *self._bounds)

    def settle(self, objective: Separable) -> Array | None:
        if objective.is_linear or objective.power:
            return super().settle(objective)
        return self.balance(objective)

    def cut(self, low: Array, high: Array) -> ConvexSet | None:
        floor, cap = self._bounds
        return self._within(np.maximum(floor, low), np.minimum(cap, high))

    def nearest_whole(self, x: Array) -> Array:
        """Round to whole shares by largest remainders, which keep the total.

        Parameters
        ----------
        x : array
            A point of the set.

        Returns
        -------
        array
            The whole point.

        Examples
        --------
        >>> Simplex(3, total=10).nearest_whole(np.array([3.6, 3.7, 2.7]))
        array([3., 4., 3.])
        """
        return round_to_total(x, round(self.total))

    def count_units(self, gap: Array) -> int:
        return (
            round(float(np.abs(gap).sum())) // 2
        )  # Each unit leaves one coordinate and enters another.

    def take_units(self, gap: Array, m: int) -> Array:
        entering = share_units(np.maximum(gap, 0.0), m)
        leaving = share_units(np.maximum(-gap, 0.0), m)
        return entering - leaving

    def check_whole(self) -> None:
        sizes = np.concatenate(([self.total], *self._bounds))
        if not np.array_equal(sizes, np.trunc(sizes)):
            raise InvalidInput(
                f"Total, caps and floors must be integers, got {self!r}. Use smaller units."
            )


class Simplex(_Shares):
    r"""The simplex :math:`\{x \ge 0 : \sum_i x_i = \mathrm{total}\}`, for shares of a whole.

    Parameters
    ----------
    dim : int
        The number of shares.
    total : float, optional
        What they add up to. Default: 1.

    Raises
    ------
    ValueError
        If the total is negative.

    Examples
    --------
    >>> Simplex(3).project([0.9, 0.5, -1.0])
    array([0.7, 0.3, 0. ])
    """

    code: ClassVar[int | None] = codes.SIMPLEX

    def __init__(self, dim: int, total: float = 1.0) -> None:
        dim = size(dim, "dim")
        self._keep(dim=dim, total=positive(total, "total"))

    @property
    def diameter(self) -> float:
        return self.total * 2.0**0.5 if self.dim > 1 else 0.0

    def _share_out(self, y: Array) -> Array:
        return simplex_part(y, self.total)

    def lowest(self, g: Array) -> Array:
        vertex = np.zeros_like(g)
        np.put_along_axis(vertex, g.argmin(axis=-1)[..., None], self.total, axis=-1)
        return vertex

    def violation(self, x: Array) -> Array:
        off = np.abs(x.sum(axis=-1) - self.total)
        below = -x.min(axis=-1)
        return np.maximum(off, below) / self.total

    @cached_property
    def _bounds(self) -> tuple[Array, Array]:
        return np.zeros(self.dim), np.full(self.dim, self.total)

    def trade(self, x: Array, g: Array, rise: Array, fall: Array) -> Array:
        # Every coordinate that gains by it gives all it has to the one that is cheapest to give to.
        taken = g + rise
        target = int(taken.argmin())
        gives = g - fall > taken[target]
        u = np.where(gives, 0.0, x)
        u[target] += x[gives].sum()
        return u

    def farthest(self, center: Array) -> float:
        square = center @ center - 2.0 * self.total * center.min() + self.total**2
        return float(np.sqrt(max(0.0, square)))

    def margin(self, y: Array) -> Array:
        return vertex_margin(y, self.total) if self.dim > 1 else np.full(y.shape[:-1], np.inf)

    def parameters(self) -> Array:
        return np.array([self.total])


class CappedSimplex(_Shares):
    r"""The capped simplex :math:`\{x : \mathrm{floor} \le x \le \mathrm{cap}, \sum_i x_i = \mathrm{total}\}`.

    It is for shares of a whole that have limits of their own.

    ``reach`` and ``diameter`` are upper bounds, exact when caps and floors are shared and divide the total evenly:
    the exact values would need the solution of a knapsack problem.

    Parameters
    ----------
    dim : int
        The number of shares.
    total : float, optional
        What they add up to. Default: 1.
    cap : array_like, optional
        The most that a share may be: one number, or one per coordinate. Default: 1.
    floor : array_like, optional
        The least that a share may be, likewise. Default: 0.

    Raises
    ------
    ValueError
        If no point has this total within the limits.

    Examples
    --------
    >>> CappedSimplex(3, total=2.0, cap=1.0).project([5.0, 0.6, 0.2])
    array([1. , 0.7, 0.3])
    """

    cap: float | Array
    floor: float | Array
    code: ClassVar[int | None] = codes.CAPPED_SIMPLEX

    def __init__(
        self, dim: int, total: float = 1.0, cap: ArrayLike = 1.0, floor: ArrayLike = 0.0
    ) -> None:
        dim = size(dim, "dim")
        low = coordinates(floor, "floor", dim)
        high = coordinates(cap, "cap", dim)
        total = number(total, "total")
        if (low > high).any():
            i = int(np.argmax(low > high))
            raise InvalidInput(f"floor[{i}] must be at most cap[{i}], {high[i]}, got {low[i]}.")
        rounding = 1e-12 * max(
            np.abs(low).sum(), np.abs(high).sum()
        )  # Caps may share a total evenly.
        if not low.sum() - rounding <= total <= high.sum() + rounding:
            limits = f"the floors' sum {low.sum()} and the caps' sum {high.sum()}"
            raise InvalidInput(f"total must be between {limits}, got {total}.")
        total = min(max(total, float(low.sum())), float(high.sum()))
        kept_cap = float(high[0]) if np.ndim(cap) == 0 else high
        kept_floor = float(low[0]) if np.ndim(floor) == 0 else low
        self._keep(dim=dim, total=total, cap=kept_cap, floor=kept_floor)

    @cached_property
    def _bounds(self) -> tuple[Array, Array]:
        return np.full(self.dim, self.floor), np.full(self.dim, self.cap)

    @property
    def diameter(self) -> float:
        low, high = self._bounds
        widest = np.sort(high - low)[::-1]
        moved = 2.0 * min(self.total - low.sum(), high.sum() - self.total)
        return float(np.sqrt(widest @ fill(widest, moved)))

    def _share_out(self, y: Array) -> Array:
        return capped_part(y, self.total, *self._bounds)

    def trade(self, x: Array, g: Array, rise: Array, fall: Array) -> Array:
        # With prices by coordinate, the most expensive coordinate gives to the cheapest while that pays and there is room.
        low, high = self._bounds
        u = x.copy()
        givers = iter(np.argsort(-(g - fall), kind="stable"))
        takers = iter(np.argsort(g + rise, kind="stable"))
        giver = next(givers)
        taker = next(takers)
        while g[giver] - fall[giver] > g[taker] + rise[taker]:
            amount = min(u[giver] - low[giver], high[taker] - u[taker])
            is_full = high[taker] - u[taker] <= amount
            u[giver] -= amount
            u[taker] += amount
            if is_full:
                u[taker] = high[taker]
                taker = next(takers)
            else:
                u[giver] = low[giver]
                giver = next(givers)
        return u

    def lowest(self, g: Array) -> Array:
        return fill_cheapest(g, self.total, *self._bounds)

    def violation(self, x: Array) -> Array:
        low, high = self._bounds
        off = np.abs(x.sum(axis=-1) - self.total)
        beyond = np.maximum(low - x, x - high).max(axis=-1)
        size = np.maximum(np.abs(low), np.abs(high)).sum() or 1.0
        return np.maximum(off, beyond) / size

    def farthest(self, center: Array) -> float:
        low, high = self._bounds
        chords = (
            low + high - 2.0 * center
        )  # slope of the chord over (x_i - c_i)^2 on [floor_i, cap_i]
        square = (low - center) @ (low - center) + chords @ (self.lowest(-chords) - low)
        return float(np.sqrt(max(0.0, square)))

    def parameters(self) -> Array:
        return np.concatenate(([self.total], *self._bounds))
