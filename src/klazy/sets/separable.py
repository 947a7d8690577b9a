"""Objectives that charge each coordinate by itself, and the search for the multiplier that keeps their least point in a set."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from klazy.base.checks import Array
from klazy.sets.totals import EPS

ROOT_TURNS = 3000  # of a search for a root; where a function jumps, halving goes to the last bit


@dataclass(frozen=True)
class Separable:
    r"""The objective :math:`\langle g, u \rangle + \tfrac{\kappa}{2} \|u\|^2` and what the move from x to u costs.

    With ``power=False`` a coordinate pays ``rise`` for a unit upwards and ``fall`` for a unit downwards, and the curvature
    :math:`\kappa` is above zero; with ``power=True`` it pays ``rise`` times its step to the power 3/2.
    """

    x: Array
    g: Array
    curvature: float
    rise: Array
    fall: Array
    power: bool = False

    def select(self, part: slice) -> Separable:
        """Return the same objective for some of the coordinates."""
        return replace(self, x=self.x[part], g=self.g[part], rise=self.rise[part], fall=self.fall[part])

    def respond(self, tilt: Array | float = 0.0, bend: float = 0.0) -> Array:
        """Find the least point of all coordinates with ``<tilt, u> + bend/2 |u|^2`` added, without a set."""
        curvature = self.curvature + bend
        slope = self.g + tilt
        if curvature == 0.0:
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
    """Find the least point among those with ``low <= u <= high`` whose coordinates sum to ``total``."""

    def respond(tilt: float) -> Array:
        return np.clip(objective.respond(tilt), low, high)

    steep = float(np.maximum(objective.bound_slope(low), objective.bound_slope(high)).max())
    u = respond(find_root(lambda tilt: total - float(respond(tilt).sum()), -steep, steep))
    free = (u > low) & (u < high) & (u != objective.x)
    if free.any():
        # These take what rounding left of the total.
        u[free] += (total - u.sum()) / np.count_nonzero(free)
    return np.clip(u, low, high)
