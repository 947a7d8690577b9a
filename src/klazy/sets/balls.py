"""Balls, boxes and the whole space: sets whose projection has a closed form or a single threshold."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from klazy.base.checks import SMALLEST, Array, InvalidInput, positive, real_array, size, vector
from klazy.kernels import codes
from klazy.sets.base import ConvexSet
from klazy.sets.halfspaces import HalfSpaces, bound_by
from klazy.sets.separable import Separable, find_root, share_total
from klazy.sets.totals import EPS, capped_part, share_units, simplex_part, vertex_margin

ON_BOUNDARY = 1e-12  # A point this share of the radius inside a ball counts as on its boundary.


class _Ball(ConvexSet):
    """What both balls share: dimension, radius and centre (None is the origin)."""

    radius: float
    center: Array | None

    def __init__(self, dim: int, radius: float = 1.0, center: ArrayLike | None = None) -> None:
        dim = size(dim, "dim")
        radius = positive(radius, "radius")
        if center is not None:
            center = vector(center, "center", dim)
        self._keep(dim=dim, radius=radius, center=center)

    @property
    def diameter(self) -> float:
        return 2.0 * self.radius

    @property
    def middle(self) -> Array:
        """The centre as an array."""
        return self._to_center(np.zeros(self.dim))

    @property
    def _size(self) -> float:
        """The largest absolute coordinate of a point of the ball: projections are exact up to its rounding."""
        if self.center is None:
            return self.radius
        return self.radius + float(np.abs(self.center).max())

    def _beyond(self, y: Array) -> Array:
        """Measure how far y is outside an interval, which is a ball of dimension one."""
        return np.maximum(np.abs(self._from_center(y))[..., 0] - self.radius, 0.0)

    def _from_center(self, x: Array) -> Array:
        return x if self.center is None else x - self.center

    def _to_center(self, z: Array) -> Array:
        return z if self.center is None else z + self.center

    def _of_radius(self, radius: float) -> ConvexSet | None:
        """Return the ball of the same centre and this radius; None if there is none."""
        return type(self)(self.dim, radius, self.center) if radius >= SMALLEST else None

    def parameters(self) -> Array:
        return np.concatenate(([self.radius], self.middle))


class L2Ball(_Ball):
    r"""The Euclidean ball :math:`\{x : \|x - c\|_2 \le r\}`.

    Parameters
    ----------
    dim : int
        The number of coordinates.
    radius : float, optional
        The radius r. Default: 1.
    center : array_like, optional
        The centre c. Default: the origin.

    Raises
    ------
    ValueError
        If the radius is negative, or the centre does not have ``dim`` coordinates.

    Examples
    --------
    >>> L2Ball(2, radius=2.0).project([3.0, 4.0])
    array([1.2, 1.6])
    """

    code: ClassVar[int | None] = codes.L2_BALL

    def nearest(self, y: Array) -> Array:
        z = self._from_center(y)
        norm = np.sqrt(np.einsum("...i,...i->...", z, z))[..., None]
        kept = self.radius / np.maximum(norm, self.radius)
        largest = norm.item() if norm.size == 1 else norm.max(initial=0.0)
        if largest == np.inf:  # A point is so far away that its squares overflow.
            top = np.abs(z).max(axis=-1, keepdims=True)
            top = np.where(np.isinf(norm), top, 1.0)
            scaled = np.linalg.norm(z / top, axis=-1, keepdims=True)
            kept = np.where(np.isinf(norm), np.minimum(self.radius / top / scaled, 1.0), kept)
        return self._to_center(z * kept)

    def erode(self, delta: float) -> ConvexSet | None:
        return self._of_radius(self.radius - delta)

    def lowest(self, g: Array) -> Array:
        return self._to_center(-self.radius * _unit(g))

    def violation(self, x: Array) -> Array:
        return (np.linalg.norm(self._from_center(x), axis=-1) - self.radius) / self._size

    def farthest(self, center: Array) -> float:
        return float(np.linalg.norm(self._from_center(center))) + self.radius

    def margin(self, y: Array) -> Array:
        return self._beyond(y) if self.dim == 1 else np.zeros(y.shape[:-1])

    def tangent(self, x: Array, v: Array) -> Array:
        z = self._from_center(x)
        distance = np.linalg.norm(z, axis=-1, keepdims=True)
        is_inside = distance < (1.0 - ON_BOUNDARY) * self.radius
        outward = z / np.where(is_inside, 1.0, distance)
        leaves = np.maximum(np.vecdot(v, outward), 0.0)[..., None]
        return np.where(is_inside, v, v - leaves * outward)

    def trade(self, x: Array, g: Array, rise: Array, fall: Array) -> Array:
        # With prices by coordinate the best point is ``clip(z, s a, s b)``, with the s that puts it on the sphere around zero.
        if ((g + rise >= 0.0) & (g - fall <= 0.0)).all():
            return x
        return self._stretch(x, -(g + rise), -(g - fall), np.inf)

    def balance(self, objective: Separable) -> Array:
        u = objective.respond()
        if float(np.linalg.norm(self._from_center(u))) <= self.radius:
            return u
        center = self.middle
        if not objective.power:
            target = -objective.g / objective.curvature - center
            rise = objective.rise / objective.curvature
            fall = objective.fall / objective.curvature
            return self._stretch(objective.x, target - rise, target + fall, 1.0)
        most = float(np.linalg.norm(objective.bound_slope(center, self.radius))) / self.radius

        def excess(bend: float) -> float:
            return self.radius - float(
                np.linalg.norm(objective.respond(-bend * center, bend) - center)
            )

        bend = find_root(excess, 0.0, most)
        return self.nearest(objective.respond(-bend * center, bend))

    def _stretch(self, x: Array, a: Array, b: Array, most: float) -> Array:
        """Find ``clip(z, s a, s b)`` of the ball's radius, s <= most: its norm grows with s, piece by piece."""
        z = self._from_center(x)
        with np.errstate(divide="ignore", invalid="ignore"):
            kinks = np.concatenate((z / a, z / b))
        kinks = np.sort(kinks[(kinks > 0.0) & (kinks < most)])
        paths = np.clip(z, kinks[:, None] * a, kinks[:, None] * b)
        if (
            np.linalg.norm(z) >= (1.0 - ON_BOUNDARY) * self.radius
            and (paths == z).all(axis=1).any()
        ):
            return x
        outside = np.linalg.norm(paths, axis=1) >= self.radius
        last = int(np.argmax(outside)) if outside.any() else len(kinks)
        before = kinks[last - 1] if last > 0 else 0.0
        after = kinks[last] if last < len(kinks) else min(most, 2.0 * before + 1.0)
        middle = 0.5 * (before + after)
        rate = np.where(z < middle * a, a, np.where(z > middle * b, b, 0.0))
        still = np.where(rate == 0.0, z, 0.0)
        slope = float(np.linalg.norm(rate))
        if slope == 0.0:
            return x
        s = float(np.sqrt(max(0.0, self.radius**2 - float(still @ still)))) / slope
        return np.where(rate == 0.0, x, self._to_center(s * rate))

    def stability(self, y: Array, following: Array) -> Array:
        step = np.linalg.norm(following - y, axis=-1)
        least = np.linalg.norm(self._from_center(following), axis=-1) - step
        bound = self.radius * step / np.maximum(least, self.radius)
        return np.where(least >= self.radius, bound, np.nan)


class L1Ball(_Ball):
    r"""The cross-polytope :math:`\{x : \|x - c\|_1 \le r\}`.

    Parameters
    ----------
    dim : int
        The number of coordinates.
    radius : float, optional
        The radius r. Default: 1.
    center : array_like, optional
        The centre c. Default: the origin.

    Raises
    ------
    ValueError
        If the radius is negative, or the centre does not have ``dim`` coordinates.

    Examples
    --------
    >>> L1Ball(3).project([2.0, -1.5, 0.1])
    array([ 0.75, -0.25,  0.  ])
    """

    code: ClassVar[int | None] = codes.L1_BALL

    def nearest(self, y: Array) -> Array:
        z = self._from_center(y)
        size = np.abs(z)
        outside = size.sum(axis=-1, keepdims=True) > self.radius
        if not outside.any():
            return y.copy()
        inside = np.copysign(simplex_part(size, self.radius), z)
        return self._to_center(np.where(outside, inside, z))

    def erode(self, delta: float) -> ConvexSet | None:
        # The sides are the radius over sqrt(d) away from the centre.
        return self._of_radius(self.radius - delta * self.dim**0.5)

    def lowest(self, g: Array) -> Array:
        vertex = np.zeros_like(g)
        steepest = np.abs(g).argmax(axis=-1)[..., None]
        sign = np.sign(np.take_along_axis(g, steepest, axis=-1))
        np.put_along_axis(vertex, steepest, -self.radius * sign, axis=-1)
        return self._to_center(vertex)

    def violation(self, x: Array) -> Array:
        return (np.abs(self._from_center(x)).sum(axis=-1) - self.radius) / self._size

    def half_spaces(self, near: Array) -> HalfSpaces:
        """Give one of the :math:`2^d` sides: the one that a point looks at.

        Parameters
        ----------
        near : array
            The point.

        Returns
        -------
        HalfSpaces
            That side.
        """
        z = self._from_center(near)
        side = np.where(z >= 0.0, 1.0, -1.0) / self.dim**0.5
        bound = side @ self.middle + self.radius / self.dim**0.5
        return HalfSpaces(side[None], np.array([bound]), np.zeros(1, dtype=bool))

    def farthest(self, center: Array) -> float:
        w = self._from_center(center)
        return float(np.sqrt(w @ w + 2.0 * self.radius * np.abs(w).max() + self.radius**2))

    def tangent(self, x: Array, v: Array) -> Array:
        z = self._from_center(x)
        side = np.where(z != 0.0, np.sign(z), np.sign(v))
        away = side * v
        is_inside = np.abs(z).sum(axis=-1, keepdims=True) < (1.0 - ON_BOUNDARY) * self.radius
        is_free = is_inside | (away.sum(axis=-1, keepdims=True) <= 0.0)
        if is_free.all():
            return v
        room = 2.0 * np.abs(v).max(axis=-1, keepdims=True)
        low = np.where(z != 0.0, -room, 0.0)
        slid = side * capped_part(away, 0.0, low, np.broadcast_to(room, v.shape))
        return np.where(is_free, v, slid)

    @property
    def _limits(self) -> tuple[Array, Array]:
        """How far points may be from the centre, coordinate by coordinate."""
        far = np.full(self.dim, np.inf)
        return -far, far

    def trade(self, x: Array, g: Array, rise: Array, fall: Array) -> Array:
        # Find the best point where coordinates pay, as a knapsack.
        z = self._from_center(x)
        low, high = self._limits
        v = np.clip(0.0, low, high)
        pieces = []
        for i in range(self.dim):
            away = z[i] - v[i]
            side = np.sign(away) or -np.sign(g[i])
            outward = side * g[i] + (rise[i] if side > 0.0 else fall[i])
            inward = side * g[i] - (fall[i] if side > 0.0 else rise[i])
            start = z[i]
            if away != 0.0 and inward < 0.0:
                pieces.append((inward, i, side, abs(away)))
            elif (
                away != 0.0
            ):  # Coming back to the centre pays, and perhaps going on to the other side.
                side = -side
                outward = -inward
                start = v[i]
            if outward < 0.0:
                room = high[i] - start if side > 0.0 else start - low[i]
                pieces.append((outward, i, side, room))
        left = self.radius - float(np.abs(v).sum())
        for _, i, side, room in sorted(pieces):
            amount = min(room, left)
            v[i] += side * amount
            left -= amount
        rounding = self.dim * EPS * self.radius
        return np.where(np.abs(v - z) <= rounding, x, self._to_center(v))

    def balance(self, objective: Separable) -> Array:
        center = self.middle
        low, high = self._limits
        u = np.clip(objective.respond(), center + low, center + high)
        fits = np.abs(u - center).sum(axis=-1, keepdims=True) <= self.radius
        if fits.all():
            return u
        # Measure each coordinate from the centre, in the direction it would move by itself: these lengths sum to the radius.
        side, nearest, farthest = self._look(u)
        rises = side > 0.0
        there = Separable(
            side * (objective.x - center),
            side * (objective.g + objective.curvature * center),
            objective.curvature,
            np.where(rises, objective.rise, objective.fall),
            np.where(rises, objective.fall, objective.rise),
            objective.power,
        )
        size = share_total(there, self.radius, nearest, farthest)
        return np.where(fits, u, np.where(size == there.x, objective.x, center + side * size))

    def settle(self, objective: Separable) -> Array | None:
        if objective.is_linear or objective.power:
            return super().settle(objective)
        return self.balance(objective)

    def _look(self, y: Array) -> tuple[Array, Array, Array]:
        """Return on which side of the centre each coordinate is, and how near and how far points may be there."""
        low, high = self._limits
        side = np.where(y >= self.middle, 1.0, -1.0)
        nearest = np.maximum(np.where(side > 0.0, low, -high), 0.0)
        farthest = np.minimum(np.where(side > 0.0, high, -low), self.radius)
        return side, nearest, farthest

    def cut(self, low: Array, high: Array) -> ConvexSet | None:
        own_low, own_high = self._limits
        low = np.maximum(own_low, low - self.middle)
        high = np.minimum(own_high, high - self.middle)
        least = float(np.abs(np.clip(0.0, low, high)).sum())
        if (low > high).any() or least > self.radius:
            return None
        return _L1BallInBox(self.dim, self.radius, self.center, low, high)

    def margin(self, y: Array) -> Array:
        return (
            self._beyond(y)
            if self.dim == 1
            else vertex_margin(np.abs(self._from_center(y)), self.radius)
        )


class _L1BallInBox(L1Ball):
    """The part of an l1 ball in a box, whose limits are given from the ball's centre."""

    low: Array
    high: Array
    trade = L1Ball.trade
    balance = L1Ball.balance
    settle = L1Ball.settle
    cut = L1Ball.cut

    def __init__(
        self, dim: int, radius: float, center: Array | None, low: Array, high: Array
    ) -> None:
        super().__init__(dim, radius, center)
        self._keep(low=low, high=high)

    @property
    def _limits(self) -> tuple[Array, Array]:
        return self.low, self.high

    def nearest(self, y: Array) -> Array:
        center = self.middle
        x = np.clip(y, center + self.low, center + self.high)
        outside = np.abs(x - center).sum(axis=-1) > self.radius
        if not outside.any():
            return x
        far = y[outside]
        side, nearest, farthest = self._look(x[outside])
        x[outside] = center + side * capped_part(
            side * (far - center), self.radius, nearest, farthest
        )
        return x

    def lowest(self, g: Array) -> Array:
        slopes = g.reshape(-1, self.dim)
        free = np.zeros_like(slopes)
        base = self._to_center(np.clip(free, self.low, self.high))
        found: Any = self.settle(Separable(base, slopes, 0.0, free, free))
        return found.reshape(g.shape)


class Box(ConvexSet):
    r"""The box :math:`\{x : \mathrm{lower} \le x \le \mathrm{upper}\}`, for decisions with limits of their own.

    Parameters
    ----------
    lower : array_like
        The lower limits; a number means one coordinate.
    upper : array_like
        The upper limits.

    Raises
    ------
    ValueError
        If a lower limit is above its upper one, or one is not finite.

    Examples
    --------
    >>> Box([-1, 0], [1, 2]).project([3.0, -3.0])
    array([1., 0.])
    """

    lower: Array
    upper: Array
    code: ClassVar[int | None] = codes.BOX
    usual_movement: ClassVar[str] = "l1"
    separable: bool = True

    def __init__(self, lower: ArrayLike, upper: ArrayLike) -> None:
        low = vector(np.atleast_1d(real_array(lower, "lower")), "lower")
        high = vector(np.atleast_1d(real_array(upper, "upper")), "upper", low.size)
        if (low > high).any():
            i = int(np.argmax(low > high))
            raise InvalidInput(f"lower[{i}] must be at most upper[{i}], {high[i]}, got {low[i]}.")
        self._keep(lower=low, upper=high, dim=low.size)

    @property
    def diameter(self) -> float:
        return float(np.linalg.norm(self.upper - self.lower))

    def nearest(self, y: Array) -> Array:
        return np.clip(y, self.lower, self.upper)

    def along(self, v: Array) -> Array:
        return np.where(self.lower < self.upper, v, 0.0)

    def erode(self, delta: float) -> ConvexSet | None:
        rim = np.where(self.lower < self.upper, delta, 0.0)
        low = self.lower + rim
        high = self.upper - rim
        return Box(low, high) if (low <= high).all() else None

    def lowest(self, g: Array) -> Array:
        return np.where(g > 0, self.lower, self.upper)

    def violation(self, x: Array) -> Array:
        size = np.maximum(np.abs(self.lower), np.abs(self.upper))
        size = np.where(size > 0, size, 1.0)
        beyond = np.maximum(self.lower - x, x - self.upper)
        return (beyond / size).max(axis=-1)

    def half_spaces(self, near: Array) -> HalfSpaces:
        return bound_by(self.lower, self.upper)

    def tangent(self, x: Array, v: Array) -> Array:
        ends = ((v > 0.0) & (x >= self.upper)) | ((v < 0.0) & (x <= self.lower))
        return np.where(ends, 0.0, v)

    def trade(self, x: Array, g: Array, rise: Array, fall: Array) -> Array:
        u = np.where(g + rise < 0.0, self.upper, x)
        return np.where(g - fall > 0.0, self.lower, u)

    def balance(self, objective: Separable) -> Array:
        return self.nearest(objective.respond())

    def settle(self, objective: Separable) -> Array | None:
        return self._settle_together(objective)

    def cut(self, low: Array, high: Array) -> ConvexSet | None:
        low = np.maximum(low, self.lower)
        high = np.minimum(high, self.upper)
        return Box(low, high) if (low <= high).all() else None

    def farthest(self, center: Array) -> float:
        sides = np.maximum(np.abs(self.lower - center), np.abs(self.upper - center))
        return float(np.linalg.norm(sides))

    def margin(self, y: Array) -> Array:
        beyond = np.maximum(self.lower - y, y - self.upper)
        beyond = np.where(
            self.lower == self.upper, np.inf, beyond
        )  # A coordinate without room cannot move.
        return np.where((beyond >= 0.0).all(axis=-1), beyond.min(axis=-1), 0.0)

    def check_whole(self) -> None:
        if not (np.ceil(self.lower) <= np.floor(self.upper)).all():
            raise InvalidInput(f"{self!r} has a side without an integer. Widen the box.")

    def nearest_whole(self, x: Array) -> Array:
        return (
            np.clip(np.rint(x), np.ceil(self.lower), np.floor(self.upper)) + 0.0
        )  # no negative zero

    def count_units(self, gap: Array) -> int:
        return round(float(np.abs(gap).sum()))

    def take_units(self, gap: Array, m: int) -> Array:
        return np.sign(gap) * share_units(np.abs(gap), m)

    def parameters(self) -> Array:
        return np.concatenate((self.lower, self.upper))


def _unit(g: Array) -> Array:
    """Scale ``g`` to norm 1 along the last axis; zero stays zero."""
    top = np.abs(g).max(axis=-1, keepdims=True)
    scaled = np.divide(g, top, out=np.zeros_like(g), where=top > 0)
    norm = np.linalg.norm(scaled, axis=-1, keepdims=True)
    return np.divide(scaled, norm, out=scaled, where=norm > 0)


class Space(ConvexSet):
    r"""All of :math:`R^d`, for decisions without bounds.

    Projections change nothing, the diameter is infinite. All that is tuned to the size of a set, or goes to its cheapest point,
    rejects it: ``argmin_linear``, ensembles and ``auto``, :class:`~klazy.contrib.Reluctant`, rules of thumb, and
    baselines that look ahead. :class:`~klazy.contrib.CoinBetting` is made for it; descents with a sigma of your own play on it,
    too. Optima, the best fixed point and frontiers are known for :class:`~klazy.QuadraticCosts`.

    Parameters
    ----------
    dim : int
        The number of coordinates.

    Examples
    --------
    >>> Space(2).project([3.0, -4e9]).tolist(), Space(2).diameter
    ([3.0, -4000000000.0], inf)
    """

    bounded: bool = False
    separable: bool = True

    def __init__(self, dim: int) -> None:
        self._keep(dim=size(dim, "dim"))

    @property
    def diameter(self) -> float:
        return math.inf

    def nearest(self, y: Array) -> Array:
        return y + 0.0

    def lowest(self, g: Array) -> Array:
        raise InvalidInput(f"A linear cost has no least value on {self!r}.")

    def violation(self, x: Array) -> Array:
        return np.full(x.shape[:-1], -1.0)

    def farthest(self, center: Array) -> float:
        return math.inf

    def margin(self, y: Array) -> Array:
        return np.zeros(y.shape[:-1])

    def cut(self, low: Array, high: Array) -> ConvexSet | None:
        return Box(low, high) if (low <= high).all() else None

    def _picture(self) -> str:
        return ""
