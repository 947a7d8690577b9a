"""Objectives that charge each coordinate by itself, and the search for the multiplier that keeps their minimiser in a set."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from klazy.base.checks import Array
from klazy.sets.totals import EPS

ROOT_TURNS = 3000  # Most steps of a search for a root. Where a function jumps, it is halved to the last bit.


@dataclass(frozen=True)
class Separable:
    r"""The objective :math:`\langle g, u \rangle + \tfrac{\kappa}{2} \|u\|^2` and what the move from x to u costs.

    With ``power=False`` a coordinate pays ``rise`` for a unit upwards and ``fall`` for a unit downwards; with ``power=True``
    it pays ``rise`` times its step to the power 3/2. Arrays of two axes are many objectives, one per row; the curvature
    :math:`\kappa` is then one number, or a column of them.
    """

    x: Array
    g: Array
    curvature: Any  # float or Array
    rise: Array
    fall: Array
    power: bool = False

    @property
    def is_linear(self) -> bool:
        """Whether the objective is linear but for kinks."""
        if isinstance(self.curvature, float):  # np.any would take most of the time.
            return not self.power and self.curvature == 0.0
        return not self.power and not np.any(self.curvature)

    def select(self, part: slice) -> Separable:
        """Return the same objective for some of the coordinates."""
        return self._index((..., part), self.curvature)

    def take(self, rows: Any) -> Separable:
        """Return some of many objectives."""
        curvature = self.curvature if np.ndim(self.curvature) == 0 else self.curvature[rows]
        return self._index(rows, curvature)

    def list_rows(self) -> Iterator[Separable]:
        """Yield each of many objectives."""
        curvatures = np.broadcast_to(self.curvature, (len(self.x), 1))[:, 0].tolist()
        for i, curvature in enumerate(curvatures):
            yield self._index(i, curvature)

    def _index(self, key: Any, curvature: float | Array) -> Separable:
        x = self.x[key]
        g = self.g[key]
        return Separable(x, g, curvature, self.rise[key], self.fall[key], self.power)

    def respond(self, tilt: Array | float = 0.0, bend: float = 0.0) -> Array:
        """Find the minimiser of all coordinates with ``<tilt, u> + bend/2 |u|^2`` added, without a set."""
        curvature = self.curvature + bend
        slope = self.g + tilt
        if self.power and curvature == 0.0:
            return self.x - np.sign(slope) * (slope / (1.5 * self.rise)) ** 2
        return self.shrink(-slope / curvature, 1.0 / curvature)

    def shrink(self, y: Array, stride: float) -> Array:
        """Give the proximal step of the move's price from y: y, nearer to x by what each coordinate pays."""
        if self.power:  # the root q of the step solves q^2 + 1.5 stride rise q = |y - x|
            half = 0.75 * stride * self.rise
            step = np.abs(y - self.x)
            root = step / (half + np.sqrt(half**2 + step))
            return self.x + np.sign(y - self.x) * root**2
        lower = np.where(self.x - y > stride * self.fall, y + stride * self.fall, self.x)
        return np.where(y - self.x > stride * self.rise, y - stride * self.rise, lower)

    def bound_slope(self, u: Array, slack: float = 0.0) -> Array:
        """Bound the slope of each coordinate at most ``slack`` away from u."""
        price = np.maximum(self.rise, self.fall)
        if self.power:
            price = 1.5 * self.rise * np.sqrt(np.abs(u - self.x) + slack)
        return np.abs(self.g) + self.curvature * (np.abs(u) + slack) + price


def find_root(excess: Callable[[float], float], low: float, high: float) -> float:
    """Find where an increasing function changes its sign, to the last bit."""
    from scipy.optimize import brentq

    if excess(low) >= 0.0:
        return low
    if excess(high) <= 0.0:
        return high
    return float(brentq(excess, low, high, xtol=1e-300, rtol=4.0 * EPS, maxiter=ROOT_TURNS))  # pyright: ignore[reportArgumentType]


def share_total(objective: Separable, total: float, low: Array, high: Array) -> Array:
    """Find the minimisers among the points with ``low <= u <= high`` whose coordinates sum to ``total``."""

    def respond(tilt: Any) -> Array:
        return np.clip(objective.respond(tilt), low, high)

    if objective.power:
        steep = float(np.maximum(objective.bound_slope(low), objective.bound_slope(high)).max())
        tilt = find_root(lambda tilt: total - float(respond(tilt).sum()), -steep, steep)
    else:
        tilt = _find_tilt(objective, total, low, high, respond)
    u = respond(tilt)
    free = (u > low) & (u < high) & (u != objective.x)
    # Free coordinates absorb the rounding error of the total.
    count = np.maximum(np.count_nonzero(free, axis=-1, keepdims=True), 1)
    rest = (total - u.sum(axis=-1, keepdims=True)) / count
    return np.clip(np.where(free, u + rest, u), low, high)


def _find_tilt(
    objective: Separable, total: float, low: Array, high: Array, respond: Callable[[Array], Array]
) -> Array:
    """Find the multiplier of the total: what points sum to falls with it, and is linear between the kinks of coordinates."""
    slope = np.stack(
        [objective.g + objective.curvature * end for end in (low, objective.x, high)]
    )
    kinks = np.concatenate((*(objective.fall - slope), *(-objective.rise - slope)), axis=-1)
    kinks.sort(axis=-1)
    left = np.zeros((*kinks.shape[:-1], 1), dtype=np.intp)
    right = np.full_like(left, kinks.shape[-1] - 1)

    def look(at: Any) -> tuple[Array, Array]:
        tilt = np.take_along_axis(kinks, at, axis=-1)
        return tilt, respond(tilt).sum(axis=-1, keepdims=True) - total

    while (right - left > 1).any():
        middle = (left + right) // 2
        _, excess = look(middle)
        left = np.where(excess >= 0.0, middle, left)
        right = np.where(excess >= 0.0, right, middle)
    a, above = look(left)
    b, below = look(right)
    fall = np.maximum(above - below, np.finfo(float).tiny)
    return a + np.clip(above / fall, 0.0, 1.0) * (b - a)
