"""Balls and boxes: sets whose projection has a closed form or a single threshold."""

from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from klazy.base.checks import Array, positive, real_array, refusal, vector, whole
from klazy.kernels import codes
from klazy.sets.base import ConvexSet
from klazy.sets.threshold import simplex_part


class _Ball(ConvexSet):
    """What both balls share: dimension, radius and centre (None is the origin)."""

    radius_: float
    center: Array | None

    def __init__(self, dim: int, radius: float = 1.0, center: ArrayLike | None = None) -> None:
        owner = type(self).__name__
        dim = whole(dim, "dim", owner, "a dimension dim >= 1", "give the number of coordinates")
        radius = positive(radius, "radius", owner)
        self._keep(
            dim=dim, radius_=radius, center=None if center is None else vector(center, "center", owner, dim)
        )

    @property
    def diameter(self) -> float:
        return 2.0 * self.radius_

    @property
    def _size(self) -> float:
        """The largest number that a point of the ball may hold; its rounding is what a projection cannot avoid."""
        return self.radius_ + (0.0 if self.center is None else float(np.abs(self.center).max()))

    def _from_center(self, x: Array) -> Array:
        return x if self.center is None else x - self.center

    def _to_center(self, z: Array) -> Array:
        return z if self.center is None else z + self.center

    def parameters(self) -> Array:
        return np.concatenate(([self.radius_], np.zeros(self.dim) if self.center is None else self.center))


class L2Ball(_Ball):
    r"""The Euclidean ball :math:`\{x : \|x - c\|_2 \le r\}`.

    >>> L2Ball(2, radius=2.0).project([3.0, 4.0])
    array([1.2, 1.6])
    """

    code: ClassVar[int | None] = codes.L2_BALL

    def _project(self, y: Array) -> Array:
        z = self._from_center(y)
        norm = np.sqrt(np.einsum("...i,...i->...", z, z))[..., None]
        if (
            norm.item() if norm.size == 1 else norm.max(initial=0.0)
        ) == np.inf:  # its squares overflow, so far away is a point
            return self._project(self._to_center(np.where(np.isinf(norm), 2.0 * self.radius_ * _unit(z), z)))
        return self._to_center(z * (self.radius_ / np.maximum(norm, self.radius_)))

    def _argmin_linear(self, g: Array) -> Array:
        return self._to_center(-self.radius_ * _unit(g))

    def _violation(self, x: Array) -> Array:
        return (np.linalg.norm(self._from_center(x), axis=-1) - self.radius_) / self._size

    def _radius(self, center: Array) -> float:
        return float(np.linalg.norm(self._from_center(center))) + self.radius_


class L1Ball(_Ball):
    r"""The cross-polytope :math:`\{x : \|x - c\|_1 \le r\}`.

    >>> L1Ball(3).project([2.0, -1.5, 0.1])
    array([ 0.75, -0.25,  0.  ])
    """

    code: ClassVar[int | None] = codes.L1_BALL

    def _project(self, y: Array) -> Array:
        z = self._from_center(y)
        size = np.abs(z)
        outside = size.sum(axis=-1, keepdims=True) > self.radius_
        if not outside.any():
            return y.copy()
        return self._to_center(np.where(outside, np.copysign(simplex_part(size, self.radius_), z), z))

    def _argmin_linear(self, g: Array) -> Array:
        vertex = np.zeros_like(g)
        steepest = np.abs(g).argmax(axis=-1)[..., None]
        np.put_along_axis(
            vertex, steepest, -self.radius_ * np.sign(np.take_along_axis(g, steepest, -1)), axis=-1
        )
        return self._to_center(vertex)

    def _violation(self, x: Array) -> Array:
        return (np.abs(self._from_center(x)).sum(axis=-1) - self.radius_) / self._size

    def _radius(self, center: Array) -> float:
        w = self._from_center(center)
        return float(np.sqrt(w @ w + 2.0 * self.radius_ * np.abs(w).max() + self.radius_**2))


class Box(ConvexSet):
    r"""The box :math:`\{x : \mathrm{lower} \le x \le \mathrm{upper}\}`; numbers stand for one coordinate.

    >>> Box([-1, 0], [1, 2]).project([3.0, -3.0])
    array([1., 0.])
    """

    lower: Array
    upper: Array
    code: ClassVar[int | None] = codes.BOX

    def __init__(self, lower: ArrayLike, upper: ArrayLike) -> None:
        low = vector(np.atleast_1d(real_array(lower, "lower", "Box")), "lower", "Box")
        high = vector(np.atleast_1d(real_array(upper, "upper", "Box")), "upper", "Box", low.size)
        if (low > high).any():
            i = int(np.argmax(low > high))
            raise refusal(
                "Box",
                f"lower <= upper, {high[i]} here",
                f"lower[{i}]",
                low[i],
                "swap the two or widen the box",
            )
        self._keep(lower=low, upper=high, dim=low.size)

    @property
    def diameter(self) -> float:
        return float(np.linalg.norm(self.upper - self.lower))

    def _project(self, y: Array) -> Array:
        return np.clip(y, self.lower, self.upper)

    def _argmin_linear(self, g: Array) -> Array:
        return np.where(g > 0, self.lower, self.upper)

    def _violation(self, x: Array) -> Array:
        size = np.maximum(np.abs(self.lower), np.abs(self.upper))
        return (np.maximum(self.lower - x, x - self.upper) / np.where(size > 0, size, 1.0)).max(axis=-1)

    def _radius(self, center: Array) -> float:
        return float(np.linalg.norm(np.maximum(np.abs(self.lower - center), np.abs(self.upper - center))))

    def parameters(self) -> Array:
        return np.concatenate((self.lower, self.upper))


def _unit(g: Array) -> Array:
    """``g`` scaled to norm 1 along the last axis, whatever its size; zero stays zero."""
    top = np.abs(g).max(axis=-1, keepdims=True)
    scaled = np.divide(g, top, out=np.zeros_like(g), where=top > 0)
    norm = np.linalg.norm(scaled, axis=-1, keepdims=True)
    return np.divide(scaled, norm, out=scaled, where=norm > 0)
