"""The protocol of a convex, compact set of R^d."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from klazy.base.checks import Array, InvalidInput, freeze, number, positive, real_array, vector
from klazy.base.config import Config
from klazy.base.html import load_macros
from klazy.base.svg import draw_outline
from klazy.sets.halfspaces import HalfSpaces
from klazy.sets.separable import Separable

TOLERANCE = 1e-9  # by how much a constraint may be violated, relative to its own size, by a point that counts as inside
SHORTEST = 1e-10  # A search counts a move shorter than this share of the diameter as no move.
OUTLINE_DIRECTIONS = 180  # directions in which a small picture of a set is drawn


class ConvexSet(Config, ABC):
    """Base class of sets of decisions: convex and compact, with their Euclidean projection.

    A subclass defines ``dim``, :attr:`diameter`, :meth:`nearest`, :meth:`lowest`, :meth:`violation` and :meth:`farthest`.
    They get finite float64 arrays of the right shape and check nothing; all but ``farthest`` act on the last axis and are
    batched over all others. :meth:`project`, :meth:`argmin_linear`, :meth:`contains` and :meth:`reach` check their input
    and then call them. If the subclass also gives ``code`` and :meth:`parameters`, learners on it are compiled.

    Examples
    --------
    >>> Simplex(3).diameter, Simplex(3).start.round(3).tolist()
    (1.4142135623730951, [0.333, 0.333, 0.333])
    """

    dim: int
    code: ClassVar[int | None] = None
    # The short name of the movement that is charged on such a set unless another is given.
    usual_movement: ClassVar[str] = "l2"
    # True if `lowest` is exact and quick: not where it iterates or solves linear programmes.
    cheap_lowest: bool = True
    # True if the set has a diameter; `check_bounded` rejects a set without one.
    bounded: bool = True
    # True if points are shares of a total, so that what all coordinates have in common does not matter.
    has_total: ClassVar[bool] = False
    # True if `nearest` is known to treat each coordinate by itself.
    separable: bool = False

    _rests_on: ClassVar[dict[str, str]] = {
        "has_total": "nearest",
        "separable": "nearest",
        "margin": "nearest",
        "stability": "nearest",
        "check_whole": "nearest",
        "half_spaces": "nearest",
        "erode": "nearest",
        "along": "nearest",
        "tangent": "nearest",
        "trade": "nearest",
        "balance": "nearest",
        "settle": "nearest",
        "cut": "nearest",
    }

    @property
    @abstractmethod
    def diameter(self) -> float:
        """The largest distance of two points (an upper bound where the class says so)."""

    @abstractmethod
    def nearest(self, y: Array) -> Array:
        """Find the nearest point of the set: :meth:`project` without its checks, as a learner's ``step`` uses it.

        Parameters
        ----------
        y : array
            Points of R^dim, along the last axis.

        Returns
        -------
        array
            The nearest points.
        """

    @abstractmethod
    def lowest(self, g: Array) -> Array:
        """Find where a linear function is least on the set: :meth:`argmin_linear` without its checks.

        Parameters
        ----------
        g : array
            Gradients, along the last axis.

        Returns
        -------
        array
            A minimiser for each.
        """

    @abstractmethod
    def violation(self, x: Array) -> Array:
        """Measure by how much the worst constraint is violated, relative to its own size.

        Parameters
        ----------
        x : array
            Points of R^dim, along the last axis.

        Returns
        -------
        array
            One number per point; negative inside the set.
        """

    @abstractmethod
    def farthest(self, center: Array) -> float:
        """Find the largest distance from a point, or an upper bound: :meth:`reach` without its checks.

        Parameters
        ----------
        center : array
            The point.

        Returns
        -------
        float
            The distance.
        """

    def margin(self, y: Array) -> Array:
        """Measure how far a point may be shifted, in any direction, while its projection stays the same.

        Parameters
        ----------
        y : array
            Points of R^dim, along the last axis.

        Returns
        -------
        array
            One distance per point; NaN where it is not known.
        """
        return np.full(y.shape[:-1], np.nan)

    def stability(self, y: Array, following: Array) -> Array:
        r"""Bound how far apart the projections of two points are (Prop. 4).

        Parameters
        ----------
        y : array
            Points of R^dim, along the last axis.
        following : array
            As many others.

        Returns
        -------
        array
            One bound per pair; NaN where none is known. On an l2 ball it is :math:`R \|y' - y\|` over the least norm between
            the two, where that is at least R.
        """
        return np.full(y.shape[:-1], np.nan)

    def half_spaces(self, near: Array) -> HalfSpaces | None:
        """Describe the set as an intersection of half-spaces.

        A set with very many gives one that is violated at ``near``, if any is: asked again at the nearest point of those it
        gave, it ends after finitely many.

        Parameters
        ----------
        near : array
            A point.

        Returns
        -------
        HalfSpaces or None
            The half-spaces; None if there are none, or they are not known.
        """
        return None

    def along(self, v: Array) -> Array:
        """Project vectors onto the directions in which points of the set differ.

        Parameters
        ----------
        v : array
            Vectors of R^dim, along the last axis.

        Returns
        -------
        array
            The part of each vector along the set.
        """
        return v

    def tangent(self, x: Array, v: Array) -> Array:
        """Project directions onto those in which the set extends from points of it.

        Parameters
        ----------
        x : array
            Points of the set, along the last axis.
        v : array
            As many directions.

        Returns
        -------
        array
            The derivatives of the projections of ``x + s v`` by s, at s = 0; from a short step, unless the set knows better.
        """
        length = np.linalg.norm(v, axis=-1, keepdims=True)
        stride = SHORTEST * self.scale / np.where(length > 0.0, length, 1.0)
        return (self.nearest(x + stride * v) - x) / stride

    def trade(self, x: Array, g: Array, rise: Array, fall: Array) -> Array | None:
        r"""Find the best point for linear costs where each coordinate pays for its move.

        .. math:: \arg\min_{u \in X}\; \langle g, u \rangle
                  + \sum_i \mathrm{rise}_i (u_i - x_i)^+ + \mathrm{fall}_i (x_i - u_i)^+

        Parameters
        ----------
        x : array
            The present point, of the set.
        g : array
            The slope of the costs.
        rise : array
            What a unit upwards costs each coordinate.
        fall : array
            What a unit downwards costs each coordinate.

        Returns
        -------
        array or None
            The point, whose coordinates are those of x bit for bit where they stay; None if the set does not know it.
        """
        return None

    def balance(self, objective: Separable) -> Array | None:
        """Find the minimiser of a strictly convex objective that charges each coordinate by itself.

        Parameters
        ----------
        objective : Separable
            The objective.

        Returns
        -------
        array or None
            The point; None if the set does not know it.
        """
        return None

    def settle(self, objective: Separable) -> Array | None:
        """Find the minimisers of many objectives that charge each coordinate by itself, curved or not.

        Parameters
        ----------
        objective : Separable
            The objectives, one per row.

        Returns
        -------
        array or None
            The points, one per row, by :meth:`trade` or :meth:`balance`; None if the set does not know them.
        """
        found = []
        for row in objective.list_rows():
            u = self._settle_together(row)
            if u is None:
                return None
            found.append(u)
        return np.reshape(found, objective.x.shape)

    def _settle_together(self, objective: Separable) -> Array | None:
        """Find the minimisers of several objectives, if trade and balance take several at once."""
        if objective.is_linear:
            return self.trade(objective.x, objective.g, objective.rise, objective.fall)
        return self.balance(objective)

    def cut(self, low: Array, high: Array) -> ConvexSet | None:
        """Cut off all that is outside of a box.

        Parameters
        ----------
        low : array
            The lower limits of the box.
        high : array
            Its upper limits.

        Returns
        -------
        ConvexSet or None
            The rest of the set; None if it is empty, or has no projection of its own.
        """
        return None

    def erode(self, delta: float) -> ConvexSet | None:
        """Shrink the set as :meth:`shrunk` does, without its checks.

        Parameters
        ----------
        delta : float
            The radius, above zero.

        Returns
        -------
        ConvexSet or None
            The smaller set; None if nothing is left.

        Raises
        ------
        ValueError
            If sets of this kind cannot shrink.
        """
        raise InvalidInput(f"{type(self).__name__} cannot shrink. Give it a method erode(delta).")

    @cached_property
    def rank(self) -> int:
        """The dimension of the set itself: in how many directions its points differ."""
        return round(float(np.trace(self.along(np.eye(self.dim)))))

    def shrunk(self, delta: float) -> ConvexSet:
        r"""Shrink the set: around each point of the answer a ball of radius ``delta`` is inside this set.

        On a set without an inside, such as a simplex, the ball is one of the set's own dimension.

        Parameters
        ----------
        delta : float
            The radius, above zero.

        Returns
        -------
        ConvexSet
            The points :math:`z` with :math:`z + \delta v` in the set for every unit vector v along it.

        Raises
        ------
        ValueError
            If no such point is left.

        Examples
        --------
        >>> Box([0, 0], [1, 2]).shrunk(0.25)
        Box(lower=[0.25, 0.25], upper=[0.75, 1.75])
        """
        radius = positive(delta, "delta")
        inside = self.erode(radius)
        if inside is None:
            raise InvalidInput(
                f"No ball of radius {delta} fits into {self!r}. Use a smaller delta."
            )
        return inside

    def check_whole(self) -> None:
        """Reject a set whose integer points are not known; the three methods below are for the others.

        Raises
        ------
        ValueError
            If they are not known: use a Box, a Simplex, a CappedSimplex, or a Product of these.
        """
        known = "a Box, Simplex, CappedSimplex or Product of these"
        raise InvalidInput(f"The set must be {known} for integers, got {self!r}.")

    def nearest_whole(self, x: Array) -> Array:
        """Find the nearest point of the set whose coordinates are whole numbers.

        Parameters
        ----------
        x : array
            A point of the set.

        Returns
        -------
        array
            The whole point.
        """
        raise self._without_whole_points()

    def count_units(self, gap: Array) -> int:
        """Count the units that must change, or change place, between two whole points.

        Parameters
        ----------
        gap : array
            Their difference.

        Returns
        -------
        int
            The number of units.
        """
        raise self._without_whole_points()

    def take_units(self, gap: Array, m: int) -> Array:
        """Go part of the way between two whole points, coordinates taking their shares of it.

        Parameters
        ----------
        gap : array
            Their difference.
        m : int
            How many units to change.

        Returns
        -------
        array
            A difference of m units.
        """
        raise self._without_whole_points()

    def _without_whole_points(self) -> TypeError:
        return TypeError(f"{type(self).__name__} has no whole points; check_whole refuses it.")

    @property
    def simplest(self) -> ConvexSet:
        """The same set in its simplest form, such as a capped simplex for a simplex in a box; mostly the set itself."""
        return self

    @property
    def leaves(self) -> tuple[ConvexSet, ...]:
        """The sets that this one is a product of; any other set is its own only leaf."""
        return (self,)

    def parameters(self) -> Array:
        """Give the numbers that compiled runs need, in the layout named next to the set's code.

        Returns
        -------
        array
            The numbers.
        """
        raise TypeError(f"{type(self).__name__} has no kernel.")

    def project(self, y: ArrayLike) -> Array:
        r"""Find the nearest point of the set, :math:`\arg\min_{x \in X} \|x - y\|`.

        Parameters
        ----------
        y : array_like
            A point of R^dim, or several along the last axis.

        Returns
        -------
        array
            The nearest point of each.

        Raises
        ------
        ValueError
            If the last axis does not have ``dim`` entries, or one is not finite.

        Examples
        --------
        >>> Simplex(3).project([0.9, 0.5, -1.0])
        array([0.7, 0.3, 0. ])
        """
        return self.nearest(self._check_points(y, "y"))

    def argmin_linear(self, g: ArrayLike) -> Array:
        r"""Find a minimiser of :math:`\langle g, x \rangle` on the set; for ``g = 0`` any point.

        Parameters
        ----------
        g : array_like
            A gradient, or several along the last axis.

        Returns
        -------
        array
            A minimiser for each.

        Raises
        ------
        ValueError
            If the last axis does not have ``dim`` entries, or one is not finite.

        Examples
        --------
        >>> Simplex(3).argmin_linear([3.0, 1.0, 2.0])
        array([0., 1., 0.])
        """
        return self.lowest(self._check_points(g, "g"))

    def _check_points(self, values: ArrayLike, name: str) -> Array:
        """Return ``values`` as finite points of R^dim."""
        array = real_array(values, name)
        if array.shape[-1:] != (self.dim,):
            raise InvalidInput(
                f"The last axis of {name} must have length {self.dim}, got shape {array.shape}."
            )
        return array

    def contains(self, x: ArrayLike, tol: float = TOLERANCE) -> bool:
        """Return whether points are in the set.

        Parameters
        ----------
        x : array_like
            A point, or several along the last axis.
        tol : float, optional
            By how much a constraint may be violated, relative to its own size. Default: 1e-9.

        Returns
        -------
        bool
            Whether all of them do; False for points of another dimension or with NaN or inf.

        Examples
        --------
        >>> Simplex(2).contains([0.5, 0.5]), Simplex(2).contains([0.5, 0.6])
        (True, False)
        """
        points = real_array(x, "x", limit=math.inf)
        tol = number(tol, "tol")
        if points.ndim == 0 or points.shape[-1] != self.dim or not np.isfinite(points).all():
            return False
        return bool((self.violation(points) <= tol).all())

    def reach(self, center: ArrayLike | None = None) -> float:
        """Measure R, the largest distance of a point of the set from a centre, or an upper bound where the class says so.

        Parameters
        ----------
        center : array_like, optional
            The centre. Default: the set's start point.

        Returns
        -------
        float
            The distance.

        Raises
        ------
        ValueError
            If the centre does not have ``dim`` coordinates.

        Examples
        --------
        >>> Box(-1, 3).reach([0.0])
        3.0
        """
        if center is None:
            return self.farthest(self.start)
        return self.farthest(vector(center, "center", self.dim))

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

    def start_at(self, point: ArrayLike | None) -> Array:
        """Check a start point.

        Parameters
        ----------
        point : array_like or None
            The point; None means :attr:`start`.

        Returns
        -------
        array
            The point, read-only.

        Raises
        ------
        ValueError
            If it is outside the set.
        """
        if point is None:
            return self.start
        x = vector(point, "start", self.dim)
        if not self.contains(x):
            raise InvalidInput(
                f"start must be in {self!r}, got {x.tolist()}. Project it onto the set first."
            )
        return freeze(x)

    def _shown(self, arguments: str) -> str:
        parts = load_macros()
        facts = f"In R^{self.dim}, diameter {self.diameter:.4g}"
        try:
            start = np.array2string(self.start, precision=4, threshold=8)
            picture = self._picture()
        except ImportError:  # The projection may need an extra that is not installed.
            return arguments + parts.paragraphs([f"{facts}."])
        return parts.row(arguments, picture) + parts.paragraphs(
            [f"{facts}, start {start}."], "faint"
        )

    def _picture(self) -> str:
        """Draw the set in the plane, with its start."""
        return (
            draw_outline(outline(self, OUTLINE_DIRECTIONS), self.start) if self.dim == 2 else ""
        )


def outline(domain: ConvexSet, turns: int = 720) -> Array:
    """Points around the boundary of a set in the plane, its vertices among them: a circle about the set, projected."""
    angle = np.linspace(0.0, 2.0 * np.pi, turns, endpoint=False)
    return domain.project(
        domain.start + 2.0 * domain.scale * np.column_stack((np.cos(angle), np.sin(angle)))
    )


def check_bounded(domain: ConvexSet) -> None:
    """Reject a set without bounds, where something is tuned to its size or may go to its far end."""
    if not domain.bounded:
        raise InvalidInput(
            f"domain must be bounded, got {domain!r}. Cut it, as in Intersection([domain, "
            f"L2Ball({domain.dim}, 10.0)]), or use contrib.CoinBetting."
        )
