"""The protocol of a convex, compact set of R^d."""

import math
from abc import ABC, abstractmethod
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from klazy.base.checks import Array, freeze, number, real_array, refusal, vector
from klazy.base.config import Config
from klazy.base.html import draw_outline, line_up, make_paragraph
from klazy.sets.programme import HalfSpaces

TOLERANCE = 1e-9  # by how much a constraint may be violated, relative to its own size, by a point that counts as inside
TURNS = 180  # directions in which a small picture of a set is drawn


class ConvexSet(Config, ABC):
    r"""A convex and compact set with its Euclidean projection.

    A subclass defines ``dim``, :attr:`diameter`, :meth:`nearest`, :meth:`lowest`, :meth:`violation` and :meth:`farthest`.
    They get finite float64 arrays of the right shape and check nothing; all but ``farthest`` act on the last axis and are
    batched over all others. :meth:`project`, :meth:`argmin_linear`, :meth:`contains` and :meth:`reach` check their input
    and then call them. If the subclass also gives ``code`` and :meth:`parameters`, learners on it are compiled.
    """

    dim: int
    code: ClassVar[int | None] = None
    cheap_lowest: bool = (
        True  # whether `lowest` is exact and quick: not where it iterates or solves linear programmes
    )
    bounded: bool = True  # whether it has a diameter; `check_bounded` refuses a set without one
    separable: bool = False  # whether `nearest` is known to treat each coordinate by itself

    _rests_on: ClassVar[dict[str, str]] = {
        "separable": "nearest",
        "margin": "nearest",
        "stability": "nearest",
        "check_whole": "nearest",
        "half_spaces": "nearest",
    }

    @property
    @abstractmethod
    def diameter(self) -> float:
        """The largest distance of two points (an upper bound where the class says so)."""

    @abstractmethod
    def nearest(self, y: Array) -> Array:
        """The nearest point of the set: :meth:`project` without its checks, as a learner's ``step`` uses it."""

    @abstractmethod
    def lowest(self, g: Array) -> Array:
        """Where the linear function g is least on the set: :meth:`argmin_linear` without its checks."""

    @abstractmethod
    def violation(self, x: Array) -> Array:
        """By how much the worst constraint is violated, relative to its own size (negative inside), along the last axis."""

    @abstractmethod
    def farthest(self, center: Array) -> float:
        """The largest distance of a point of the set from ``center`` (or an upper bound): :meth:`reach` without its checks."""

    def margin(self, y: Array) -> Array:
        """How far ``y`` may be shifted, in any direction, while its projection stays; NaN where that is not known."""
        return np.full(y.shape[:-1], np.nan)

    def stability(self, y: Array, following: Array) -> Array:
        """The most by which the projections of two points differ (Prop. 4); NaN where that is not known."""
        return np.full(y.shape[:-1], np.nan)

    def half_spaces(self, near: Array) -> HalfSpaces | None:
        """The half-spaces whose intersection is the set; None if there are none or they are not known.

        A set with very many gives one that is violated at ``near``, if any is: asked again at the nearest point of those it
        gave, it ends after finitely many.
        """
        return None

    def check_whole(self, owner: str) -> None:
        """Refuse a set whose whole points are not known; ``nearest_whole`` and the units below are for the others."""
        known = "a Box, Simplex, CappedSimplex or Product of these for integers"
        raise refusal(owner, known, "domain", self, "use one")

    def nearest_whole(self, x: Array) -> Array:
        """The point of the set nearest to ``x`` among those whose coordinates are whole numbers."""
        raise self._without_whole_points()

    def count_units(self, gap: Array) -> int:
        """How many units must change, or change place, for the difference ``gap`` of two whole points."""
        raise self._without_whole_points()

    def take_units(self, gap: Array, m: int) -> Array:
        """``m`` of the units of ``gap``, coordinates taking their shares of them."""
        raise self._without_whole_points()

    def _without_whole_points(self) -> TypeError:
        return TypeError(f"{type(self).__name__} has no whole points; check_whole refuses it.")

    @property
    def leaves(self) -> "tuple[ConvexSet, ...]":
        """The sets that this one is a product of: itself alone, but for a product."""
        return (self,)

    def parameters(self) -> Array:
        """What the kernel of this set needs, in the layout named beside its code."""
        raise TypeError(f"{type(self).__name__} has no kernel.")

    def project(self, y: ArrayLike) -> Array:
        r"""The nearest point, :math:`\arg\min_{x \in X} \|x - y\|`."""
        return self.nearest(self._check_points(y, "y", "project"))

    def argmin_linear(self, g: ArrayLike) -> Array:
        r"""A minimiser of :math:`\langle g, x \rangle`; for ``g = 0`` any point of the set."""
        return self.lowest(self._check_points(g, "g", "argmin_linear"))

    def _check_points(self, values: ArrayLike, name: str, owner: str) -> Array:
        """``values`` as finite points of R^dim."""
        owner = f"{type(self).__name__}.{owner}"
        array = real_array(values, name, owner)
        if array.shape[-1:] != (self.dim,):
            wanted = f"{self.dim} coordinates along the last axis"
            raise refusal(owner, wanted, f"{name} of shape", array.shape, "match the dimensions")
        return array

    def contains(self, x: ArrayLike, tol: float = TOLERANCE) -> bool:
        """Whether every point of ``x`` lies in the set, up to ``tol`` relative to the size of each constraint."""
        points = real_array(x, "x", "contains", limit=math.inf)
        tol = number(tol, "tol", "contains")
        if points.ndim == 0 or points.shape[-1] != self.dim or not np.isfinite(points).all():
            return False
        return bool((self.violation(points) <= tol).all())

    def reach(self, center: ArrayLike | None = None) -> float:
        """R, the largest distance of a point of the set from ``center`` (default: the start point)."""
        if center is None:
            return self.farthest(self.start)
        return self.farthest(vector(center, "center", "reach", self.dim))

    @property
    def scale(self) -> float:
        """The diameter, or 1 where the set is one point or has no bounds, and any number will do: what tunings divide by."""
        if not self.bounded:
            return 1.0
        return self.diameter or 1.0

    @cached_property
    def start(self) -> Array:
        """The default x_1: the point nearest to the origin."""
        return freeze(self.nearest(np.zeros(self.dim)))

    def start_at(self, point: ArrayLike | None, owner: str) -> Array:
        """``point`` if it lies in the set, else a refusal; None means :attr:`start`."""
        if point is None:
            return self.start
        x = vector(point, "start", owner, self.dim)
        if not self.contains(x):
            raise refusal(
                owner, f"a start point in {self!r}", "start", x.tolist(), "project it onto the set first"
            )
        return freeze(x)

    def _shown(self, arguments: str) -> str:
        facts = f"In R^{self.dim}, diameter {self.diameter:.4g}"
        try:
            start = np.array2string(self.start, precision=4, threshold=8)
            picture = self._picture()
        except ImportError:  # the projection's, which comes with an extra
            return arguments + make_paragraph(f"{facts}.")
        return line_up(arguments, picture) + make_paragraph(f"{facts}, start {start}.", "faint")

    def _picture(self) -> str:
        """The set in the plane, with its start."""
        return draw_outline(outline(self, TURNS), self.start) if self.dim == 2 else ""


def outline(domain: ConvexSet, turns: int = 720) -> Array:
    """Points around the boundary of a set in the plane, its vertices among them: a circle about the set, projected."""
    angle = np.linspace(0.0, 2.0 * np.pi, turns, endpoint=False)
    return domain.project(domain.start + 2.0 * domain.scale * np.column_stack((np.cos(angle), np.sin(angle))))


def check_bounded(domain: ConvexSet, owner: str) -> None:
    """Refuse a set without bounds, where something is tuned to its size or may go to its far end."""
    if not domain.bounded:
        raise refusal(owner, "a bounded set", "domain", repr(domain), "use L2Ball(...), or play CoinBetting")
