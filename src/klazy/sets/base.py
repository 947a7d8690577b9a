"""The protocol of a convex, compact set of R^d."""

from abc import ABC, abstractmethod
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from klazy.base.checks import Array, frozen, real_array, refusal, vector
from klazy.base.config import Config
from klazy.base.html import draw_outline, line_up, make_paragraph

TOLERANCE = 1e-9  # by how much a constraint may be violated, relative to its own size, by a point that counts as inside
TURNS = 180  # directions in which a small picture of a set is drawn


class ConvexSet(Config, ABC):
    r"""A convex and compact set with its Euclidean projection.

    :meth:`project` and :meth:`argmin_linear` act on the last axis and are batched over all others. A subclass gives
    ``dim``, ``_project``, ``_argmin_linear``, ``_violation``, ``_radius`` and ``diameter``; if it also gives ``code``
    and :meth:`parameters`, learners on it are compiled.
    """

    dim: int
    code: ClassVar[int | None] = None

    @property
    @abstractmethod
    def diameter(self) -> float:
        """The largest distance of two points (an upper bound where the class says so)."""

    @abstractmethod
    def _project(self, y: Array) -> Array:
        """:meth:`project` without its checks, as a learner's ``step`` uses it."""

    @abstractmethod
    def _argmin_linear(self, g: Array) -> Array: ...

    @abstractmethod
    def _violation(self, x: Array) -> Array:
        """By how much the worst constraint is violated, relative to its own size (negative inside), along the last axis."""

    @abstractmethod
    def _radius(self, center: Array) -> float: ...

    def parameters(self) -> Array:
        """What the kernel of this set needs, in the layout named beside its code."""
        raise TypeError(f"{type(self).__name__} has no kernel.")

    def project(self, y: ArrayLike) -> Array:
        r"""The nearest point, :math:`\arg\min_{x \in X} \|x - y\|`."""
        return self._project(self._points(y, "y", "project"))

    def argmin_linear(self, g: ArrayLike) -> Array:
        r"""A minimiser of :math:`\langle g, x \rangle`; for ``g = 0`` any point of the set."""
        return self._argmin_linear(self._points(g, "g", "argmin_linear"))

    def _points(self, values: ArrayLike, name: str, owner: str) -> Array:
        """``values`` as finite points of R^dim."""
        owner = f"{type(self).__name__}.{owner}"
        array = real_array(values, name, owner)
        if array.shape[-1:] != (self.dim,):
            wanted = f"{self.dim} coordinates along the last axis"
            raise refusal(owner, wanted, f"{name} of shape", array.shape, "match the dimensions")
        return array

    def contains(self, x: ArrayLike, tol: float = TOLERANCE) -> bool:
        """Whether every point of ``x`` lies in the set, up to ``tol`` relative to the size of each constraint."""
        points = real_array(x, "x", "contains", finite=False)
        if points.ndim == 0 or points.shape[-1] != self.dim or not np.isfinite(points).all():
            return False
        return bool((self._violation(points) <= tol).all())

    def radius(self, center: ArrayLike | None = None) -> float:
        """R, the largest distance of a point of the set from ``center`` (default: the start point)."""
        return self._radius(self.start if center is None else vector(center, "center", "radius", self.dim))

    @property
    def scale(self) -> float:
        """The diameter, or 1 where the set is one point and any number will do: what tunings divide by."""
        return self.diameter or 1.0

    @cached_property
    def start(self) -> Array:
        """The default x_1: the point nearest to the origin."""
        return frozen(self._project(np.zeros(self.dim)))

    def start_at(self, point: ArrayLike | None, owner: str) -> Array:
        """``point`` if it lies in the set, else a refusal; None means :attr:`start`."""
        if point is None:
            return self.start
        x = vector(point, "start", owner, self.dim)
        if not self.contains(x):
            raise refusal(
                owner, f"a start point in {self!r}", "start", x.tolist(), "project it onto the set first"
            )
        return frozen(x)

    def _shown(self, arguments: str) -> str:
        facts = f"In R^{self.dim}, diameter {self.diameter:.4g}"
        try:
            start = np.array2string(self.start, precision=4, threshold=8)
        except ImportError:  # the projection's, which comes with an extra
            return arguments + make_paragraph(f"{facts}.")
        return line_up(arguments, self._picture()) + make_paragraph(f"{facts}, start {start}.", "faint")

    def _picture(self) -> str:
        """The set in the plane, with its start."""
        return draw_outline(outline(self, TURNS), self.start) if self.dim == 2 else ""


def outline(domain: ConvexSet, turns: int = 720) -> Array:
    """Points around the boundary of a set in the plane, its vertices among them: a circle about the set, projected."""
    angle = np.linspace(0.0, 2.0 * np.pi, turns, endpoint=False)
    return domain.project(domain.start + 2.0 * domain.scale * np.column_stack((np.cos(angle), np.sin(angle))))
