"""General polytopes."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from klazy.base.checks import SMALLEST, Array, InvalidInput, rows, vector
from klazy.base.linprog import solve_linear
from klazy.sets.base import ConvexSet
from klazy.sets.halfspaces import HalfSpaces, balance_on, project_from, project_onto
from klazy.sets.separable import Separable

MOST_BASES = 100_000  # beyond this number vertices are not listed
SAME_VERTEX = 1e-9  # relative to the set: two vertices that are closer are one
SOLVER_TOLERANCES = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


class Polytope(ConvexSet):
    r"""The polytope :math:`\{x : A x \le b\}`, which must not be empty: a half-space if A has one row.

    Projections need the extra ``klazy[polytope]``, but those for rows at right angles to each other: a half-space, or the
    orthant ``Polytope(-np.eye(d), np.zeros(d))``. ``reach`` and ``diameter`` are upper bounds, those of the smallest
    box around the polytope: the exact values are NP-hard. It has no kernel, so learners on it run through ``step``. The
    vertices of a small polytope are found once.

    It may be unbounded. The diameter is then infinite, and all that is tuned to the size of a set rejects it, as it rejects
    :class:`~klazy.contrib.Space`. ``argmin_linear`` works for costs that have a least value on it.

    Parameters
    ----------
    A : array_like
        One row per constraint, of shape (m, dim).
    b : array_like
        Their right-hand sides, of shape (m,).

    Raises
    ------
    ValueError
        If the polytope is empty, or A and b do not fit.

    Examples
    --------
    >>> Polytope([[1.0, 1.0], [-1.0, 0.0], [0.0, -1.0]], [1.0, 0.0, 0.0]).project([1.0, 1.0])
    array([0.5, 0.5])
    >>> half = Polytope([[3.0, 4.0]], [5.0])
    >>> half.project([3.0, 4.0]).round(9), half.diameter
    (array([0.6, 0.8]), inf)
    """

    A: Array
    b: Array
    cheap_lowest: bool = False

    def __init__(self, A: ArrayLike, b: ArrayLike) -> None:
        matrix = rows(A, "A")
        bounds = vector(b, "b", len(matrix))
        norm = np.linalg.norm(matrix, axis=1)
        tiny = (norm > 0.0) & (norm < SMALLEST)
        if tiny.any():
            i = int(np.argmax(tiny))
            row = matrix[i].tolist()
            raise InvalidInput(
                f"A[{i}] must have norm 0 or at least {SMALLEST:g}, got {row}. Scale A and b up."
            )
        self._keep(A=matrix, b=bounds, dim=matrix.shape[1])
        if not self._linear_programme(np.zeros(self.dim)).success:
            raise InvalidInput("The polytope is empty: no x has A x <= b.")

    @cached_property
    def _unit_rows(self) -> tuple[Array, Array]:
        """Return A and b with the rows of A scaled to norm 1, so that tolerances are distances; zero rows are left out."""
        norm = np.linalg.norm(self.A, axis=1)
        rows = (norm > 0) | (self.b < 0)
        norm = np.where(norm > 0, norm, 1.0)[rows]
        return self.A[rows] / norm[:, None], self.b[rows] / norm

    @cached_property
    def _size(self) -> float:
        """The largest number in b: solvers have absolute tolerances, so they work in units of it."""
        _, b = self._unit_rows
        return float(np.abs(b).max(initial=0.0)) or 1.0

    def _linear_programme(self, g: Array) -> Any:
        A, b = self._unit_rows
        size = self._size
        found = solve_linear(
            g, A_ub=A, b_ub=b / size, bounds=(None, None), options=SOLVER_TOLERANCES
        )
        if found.success:
            found.x = size * found.x
        return found

    @cached_property
    def bounded(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """True if no direction stays in the set: the rows of A span R^d with positive weights that cancel."""
        A, b = self._unit_rows
        if not len(b):
            return False
        cancels = solve_linear(
            np.zeros(len(b)), A_eq=A.T, b_eq=np.zeros(self.dim), bounds=(1.0, None)
        )
        return bool(np.linalg.matrix_rank(A) == self.dim and cancels.success)

    @cached_property
    def _box(self) -> tuple[Array, Array]:
        unit = np.eye(self.dim)
        low = np.diag(self._vertex(unit))
        high = np.diag(self._vertex(-unit))
        return low, high

    @property
    def diameter(self) -> float:
        if not self.bounded:
            return math.inf
        low, high = self._box
        return float(np.linalg.norm(high - low))

    def farthest(self, center: Array) -> float:
        if not self.bounded:
            return math.inf
        low, high = self._box
        sides = np.maximum(np.abs(low - center), np.abs(high - center))
        return float(np.linalg.norm(sides))

    @cached_property
    def _is_square(self) -> bool:
        """True if all sides are at right angles to each other, so that a projection corrects each by itself."""
        A, _ = self._unit_rows
        return len(A) <= self.dim and np.count_nonzero(A @ A.T) == len(A)

    def nearest(self, y: Array) -> Array:
        if self._is_square:
            A, b = self._unit_rows
            return y - np.maximum(y @ A.T - b, 0.0) @ A
        return np.apply_along_axis(self._nearest_one, -1, y)

    def _nearest_one(self, y: Array) -> Array:
        if self.violation(y) <= 0.0:
            return y
        spaces = self.half_spaces(y)
        if self.bounded:
            low, high = self._box
            x = project_onto(spaces, y, 0.5 * (low + high), self.diameter or 1.0)
        else:
            x = project_from(spaces, y)
        if x is None:
            raise ArithmeticError(f"Polytope cannot project y={y.tolist()}. Rescale A and b.")
        return x

    def erode(self, delta: float) -> ConvexSet | None:
        A, b = self._unit_rows
        try:
            return Polytope(A, b - delta)
        except InvalidInput:  # it is empty
            return None

    def half_spaces(self, near: Array) -> HalfSpaces:
        A, b = self._unit_rows
        return HalfSpaces(A, b, np.zeros(len(b), dtype=bool))

    def trade(self, x: Array, g: Array, rise: Array, fall: Array) -> Array | None:
        return self.balance(Separable(x, g, 0.0, rise, fall))

    def balance(self, objective: Separable) -> Array | None:
        if objective.power:
            return None
        size = self.scale if self.bounded else self._size
        return balance_on(self.half_spaces(objective.x), objective, size)

    def lowest(self, g: Array) -> Array:
        if self._exact_vertices is None:
            return self.nearest(self._vertex(g))
        return self._exact_vertices[(g @ self._exact_vertices.T).argmin(axis=-1)]

    @cached_property
    def _vertices(self) -> Array | None:
        """The vertices, as exact as the solver finds them; None where there may be too many."""
        if not self.bounded:
            return None
        A, b = self._unit_rows
        found = _list_vertices(A, b / self._size)
        return None if found is None else self._size * found

    @cached_property
    def _exact_vertices(self) -> Array | None:
        """The vertices, as exact as projections."""
        return None if self._vertices is None else self.nearest(self._vertices)

    def _vertex(self, g: Array) -> Array:
        if self._vertices is None:
            return np.apply_along_axis(self._vertex_of_one, -1, g)
        return self._vertices[(g @ self._vertices.T).argmin(axis=-1)]

    def _vertex_of_one(self, g: Array) -> Array:
        size = np.abs(g).max()
        direction = g / size if size > 0 else g
        found = self._linear_programme(direction)
        if not found.success and not self.bounded:
            raise InvalidInput(f"A linear cost has no least value on {self!r}.")
        if not found.success:
            raise ArithmeticError(f"Polytope cannot solve a linear programme: {found.message}")
        return found.x

    def violation(self, x: Array) -> Array:
        A, b = self._unit_rows
        over = x @ A.T - b
        if self.bounded:
            return over.max(axis=-1) / max(self.diameter, self._size)
        # The size of a constraint without bounds is that of the numbers in it, which rounding goes by.
        size = np.maximum(np.abs(x) @ np.abs(A).T, self._size)
        return (over / size).max(axis=-1, initial=-np.inf)

    def _picture(self) -> str:
        return super()._picture() if self.bounded else ""


def _list_vertices(A: Array, b: Array) -> Array | None:
    """Return the vertices of {x : A x <= b}, a bounded set; None where it is flat or may have too many of them."""
    from scipy.spatial import HalfspaceIntersection, QhullError

    d = A.shape[1]
    if d < 2 or math.comb(len(b), d) > MOST_BASES:
        return None
    # Find the centre of the largest ball inside, which must have a radius.
    radius = np.column_stack((A, np.linalg.norm(A, axis=1)))
    inside = solve_linear(
        np.append(np.zeros(d), -1.0),
        A_ub=radius,
        b_ub=b,
        bounds=[(None, None)] * d + [(0.0, None)],
    )
    if not inside.success or inside.x[-1] <= SAME_VERTEX * max(1.0, float(np.abs(b).max())):
        return None
    try:
        found = HalfspaceIntersection(np.column_stack((A, -b)), inside.x[:-1]).intersections
    except QhullError:
        return None
    found = found[np.isfinite(found).all(axis=1)]
    size = float(np.ptp(found, axis=0).max())
    _, first = np.unique(
        np.round((found - found.min(axis=0)) / (SAME_VERTEX * size)), axis=0, return_index=True
    )
    return found[np.sort(first)]
