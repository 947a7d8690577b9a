"""Sets made of sets: products and intersections."""

import warnings
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import chain
from typing import TypeVar

import numpy as np

from klazy.base.checks import Array, InvalidInput, filled_list, instance, integer, positive
from klazy.kernels import codes
from klazy.sets.balls import Box, L2Ball
from klazy.sets.base import ConvexSet
from klazy.sets.halfspaces import (
    TIGHT,
    HalfSpaces,
    balance_on,
    bound_by,
    join,
    project_from,
    project_into_ball,
    project_onto,
    settle_in_ball,
    stand_side_by_side,
)
from klazy.sets.separable import Separable
from klazy.sets.totals import share_units

Part = TypeVar("Part")


class NotConverged(UserWarning):
    """Warn that an iterative projection used up its budget before it reached its tolerance."""


class Product(ConvexSet):
    r"""The product :math:`X_1 \times X_2 \times \cdots`: the coordinates of the first set, then of the second, and so on.

    Parameters
    ----------
    sets : list of ConvexSet
        The sets.

    Raises
    ------
    ValueError
        If one of them is no set.

    Examples
    --------
    >>> Product([Box(-1, 1), Simplex(2)]).project([3.0, 1.0, 1.0])
    array([1. , 0.5, 0.5])
    """

    sets: tuple[ConvexSet, ...]

    def __init__(self, sets: Sequence[ConvexSet]) -> None:
        members = _check_members(sets)
        self._keep(sets=members, dim=sum(s.dim for s in members))

    @cached_property
    def _parts(self) -> list[tuple[ConvexSet, slice]]:
        """Each set with the places of its coordinates."""
        ends = np.cumsum([s.dim for s in self.sets]).tolist()
        return [(s, slice(end - s.dim, end)) for s, end in zip(self.sets, ends, strict=True)]

    def _by_set(self, x: Array) -> list[tuple[ConvexSet, Array]]:
        """Pair each set with its coordinates of ``x``."""
        return [(s, x[..., part]) for s, part in self._parts]

    @property
    def leaves(self) -> tuple[ConvexSet, ...]:
        return tuple(chain.from_iterable(s.leaves for s in self.sets))

    @property
    def code(self) -> int | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """What compiled runs know it by; None if one of its sets has no kernel."""
        compiled = all(codes.code_of(leaf) is not None for leaf in self.leaves)
        return codes.PRODUCT if compiled else None

    @property
    def cheap_lowest(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether ``lowest`` is exact and quick for all of its sets."""
        return all(s.cheap_lowest for s in self.sets)

    @property
    def bounded(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return all(s.bounded for s in self.sets)

    @property
    def diameter(self) -> float:
        return float(np.linalg.norm([s.diameter for s in self.sets]))

    def farthest(self, center: Array) -> float:
        return float(np.linalg.norm([s.farthest(c) for s, c in self._by_set(center)]))

    def nearest(self, y: Array) -> Array:
        return np.concatenate([s.nearest(part) for s, part in self._by_set(y)], axis=-1)

    def along(self, v: Array) -> Array:
        return np.concatenate([s.along(part) for s, part in self._by_set(v)], axis=-1)

    def tangent(self, x: Array, v: Array) -> Array:
        return np.concatenate(
            [s.tangent(x[..., part], v[..., part]) for s, part in self._parts], axis=-1
        )

    def settle(self, objective: Separable) -> Array | None:
        parts = _all_known([s.settle(objective.select(part)) for s, part in self._parts])
        return None if parts is None else np.concatenate(parts, axis=-1)

    def cut(self, low: Array, high: Array) -> ConvexSet | None:
        parts = _all_known([s.cut(low[part], high[part]) for s, part in self._parts])
        return None if parts is None else Product(parts)

    def erode(self, delta: float) -> ConvexSet | None:
        parts = _all_known([s.erode(delta) for s in self.sets])
        return None if parts is None else Product(parts)

    def lowest(self, g: Array) -> Array:
        return np.concatenate([s.lowest(part) for s, part in self._by_set(g)], axis=-1)

    def violation(self, x: Array) -> Array:
        return np.maximum.reduce([s.violation(part) for s, part in self._by_set(x)])

    def half_spaces(self, near: Array) -> HalfSpaces | None:
        parts = _all_known([s.half_spaces(part) for s, part in self._by_set(near)])
        return None if parts is None else stand_side_by_side(parts)

    def check_whole(self) -> None:
        for s in self.sets:
            s.check_whole()

    def nearest_whole(self, x: Array) -> Array:
        return np.concatenate([s.nearest_whole(part) for s, part in self._by_set(x)])

    def count_units(self, gap: Array) -> int:
        return sum(s.count_units(part) for s, part in self._by_set(gap))

    def take_units(self, gap: Array, m: int) -> Array:
        parts = self._by_set(gap)
        units = np.array([float(s.count_units(part)) for s, part in parts])
        shares = share_units(units, m)
        taken = [s.take_units(part, round(n)) for (s, part), n in zip(parts, shares, strict=True)]
        return np.concatenate(taken)

    def parameters(self) -> Array:
        leaves = self.leaves
        parts = [leaf.parameters() for leaf in leaves]
        ends = np.cumsum([leaf.dim for leaf in leaves])
        at = 1 + 4 * len(leaves) + np.cumsum([0, *(p.size for p in parts[:-1])])
        table = [
            [leaf.code, end - leaf.dim, end, a]
            for leaf, end, a in zip(leaves, ends, at, strict=True)
        ]
        return np.concatenate(
            [[len(leaves)], np.ravel(np.array(table, dtype=np.float64)), *parts]
        )


class Intersection(ConvexSet):
    r"""The intersection :math:`X_1 \cap X_2 \cap \cdots`.

    Its projection is exact where all members are Euclidean balls, but for one set of any kind or several with flat sides
    (boxes, simplices, l1 balls, polytopes, and products of these). Boxes with one simplex, l1 ball or product of such sets
    have a closed form; other sets with flat sides need the extra ``klazy[polytope]``. Other members,
    such as a product with a ball in it and a box, or sets of your own, are projected onto by Dykstra's cyclic method.
    ``reach`` and ``diameter`` are upper bounds, the smallest among the members: it counts as bounded if one of them is, so
    half-spaces that bound a set together belong into one :class:`Polytope`. It has no kernel, so learners on it run through
    ``step``.

    Parameters
    ----------
    sets : list of ConvexSet
        The members.
    tol : float, optional
        To what an iterative projection must settle. Default: 1e-12.
    budget : int, optional
        The cycles that it may take. Default: 20 000.

    Raises
    ------
    ValueError
        If the intersection is empty.

    Warns
    -----
    NotConverged
        If a projection has not settled within the budget; the warning says how far it is.

    Examples
    --------
    >>> Intersection([L2Ball(2), Box([0, 0], [1, 1])]).project([-1.0, 2.0]).round(9)
    array([0., 1.])
    """

    sets: tuple[ConvexSet, ...]
    tol: float
    budget: int
    cheap_lowest: bool = False

    def __init__(
        self, sets: Sequence[ConvexSet], tol: float = 1e-12, budget: int = 20_000
    ) -> None:
        sets = _check_members(sets)
        dims = sorted({s.dim for s in sets})
        if len(dims) > 1:
            raise InvalidInput(
                f"The sets must have the same dimension, got {dims}. Use Product for different coordinates."
            )
        budget = integer(budget, "budget")
        self._keep(sets=sets, dim=dims[0], tol=positive(tol, "tol"), budget=budget)
        if not self._is_met():
            raise InvalidInput(f"The intersection is empty: {list(sets)} have no common point.")

    def _is_met(self) -> bool:
        """Return True if the members have a point in common."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotConverged)
            try:
                point = self.nearest(np.zeros(self.dim))
            except (ArithmeticError, InvalidInput):
                return False
        return float(self.violation(point)) <= 1e-8

    @cached_property
    def _members(self) -> list[ConvexSet]:
        """The members; an intersection counts as its own."""
        members: list[ConvexSet] = []
        for member in self.sets:
            members.extend(member._members if type(member) is Intersection else [member])
        return members

    @cached_property
    def simplest(self) -> ConvexSet:  # pyright: ignore[reportIncompatibleMethodOverride]
        """One set of another kind where boxes cut one off, such as a simplex; else the intersection itself."""
        whole, *boxes = sorted(self._members, key=lambda member: type(member) is Box)
        for box in boxes:
            cut = whole.cut(box.lower, box.upper) if type(box) is Box else None
            if cut is None:
                return self
            whole = cut
        return whole

    @cached_property
    def _in_ball(self) -> tuple[L2Ball, ConvexSet] | None:
        """One of the balls, and all other members as one set; None if there is no ball."""
        for i, member in enumerate(self._members):
            if type(member) is L2Ball:
                others = self._members[:i] + self._members[i + 1 :]
                return member, Intersection(others, self.tol, self.budget)
        return None

    @property
    def bounded(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return any(s.bounded for s in self.sets)

    @property
    def diameter(self) -> float:
        return min(s.diameter for s in self.sets)

    def farthest(self, center: Array) -> float:
        return min(s.farthest(center) for s in self.sets)

    def violation(self, x: Array) -> Array:
        return np.maximum.reduce([s.violation(x) for s in self.sets])

    def nearest(self, y: Array) -> Array:
        if self.simplest is not self:
            return self.simplest.nearest(y)
        rows = y.reshape(-1, self.dim)
        if self._in_ball is not None:
            ball, others = self._in_ball
            found = project_into_ball(others.nearest, rows, ball.middle, ball.radius)
        elif self._is_flat:
            found = np.array([self._project_onto_sides(row) for row in rows])
        else:
            found = self._project_in_cycles(rows)
        return found.reshape(y.shape)

    def tangent(self, x: Array, v: Array) -> Array:
        if self.simplest is not self:
            return self.simplest.tangent(x, v)
        return super().tangent(x, v)

    @cached_property
    def _common_directions(self) -> Array:
        """The matrix of the projection onto the directions that all members have: those that none of them cuts off."""
        cut = sum(np.eye(self.dim) - s.along(np.eye(self.dim)) for s in self.sets)
        sizes, vectors = np.linalg.eigh(cut)
        kept = vectors[:, sizes < 1e-9]
        return kept @ kept.T

    def along(self, v: Array) -> Array:
        return v @ self._common_directions

    def erode(self, delta: float) -> ConvexSet | None:
        inside = _all_known([s.erode(delta) for s in self.sets])
        if inside is None:
            return None
        try:
            return Intersection(inside, self.tol, self.budget)
        except InvalidInput:  # they do not meet
            return None

    def settle(self, objective: Separable) -> Array | None:
        if self.simplest is not self:
            return self.simplest.settle(objective)
        if self._in_ball is not None:
            ball, others = self._in_ball
            return settle_in_ball(others.settle, objective, ball.middle, ball.radius)
        return super().settle(objective)

    def trade(self, x: Array, g: Array, rise: Array, fall: Array) -> Array | None:
        return self.balance(Separable(x, g, 0.0, rise, fall))

    def balance(self, objective: Separable) -> Array | None:
        if objective.power or not self._is_flat:
            return None
        size = self._size_near(objective.x)
        sides = self._find_sides(objective.x)
        if self.bounded:
            around = bound_by(self.start - self.diameter, self.start + self.diameter)
            sides = join([around, sides])
        u = self._solve_on_sides(sides, size, lambda spaces: balance_on(spaces, objective, size))
        if u is not None and (self.violation(u) > TIGHT).any():
            u = self.nearest(u)
        return u

    @cached_property
    def _is_flat(self) -> bool:
        """Return True if all members have flat sides."""
        return all(s.half_spaces(s.start) is not None for s in self._members)

    def _size_near(self, x: Array) -> float:
        """Return the size that tolerances are relative to; without bounds it is that of a point's numbers."""
        return self.scale if self.bounded else max(1.0, float(np.abs(x).max()))

    def _find_sides(self, near: Array) -> HalfSpaces:
        """Join the half-spaces of all members, each of which has some."""
        parts = [s.half_spaces(near) for s in self._members]
        return join([part for part in parts if part is not None])

    def _project_onto_sides(self, y: Array) -> Array:
        """Find the nearest point of the members with flat sides."""
        others = self._members
        if all(s.violation(y) <= 0.0 for s in others):
            return y
        smallest = min(others, key=lambda s: s.diameter)
        size = self._size_near(y)
        sides = self._find_sides(y)

        def project(spaces: HalfSpaces) -> Array | None:
            if not self.bounded:
                return project_from(spaces, y)
            return project_onto(spaces, y, smallest.start, size)

        x = self._solve_on_sides(sides, size, project)
        if x is None:
            raise ArithmeticError("The sets of the intersection have no common point.")
        # The solver's tolerance is absolute, that of a set is relative to each of its numbers.
        for s in others:
            x = s.nearest(x)
        return x

    def _solve_on_sides(
        self, sides: HalfSpaces, size: float, solve: Callable[[HalfSpaces], Array | None]
    ) -> Array | None:
        """Solve a programme on the members with flat sides, of which there are finitely many: add those that it violates."""
        while True:
            x = solve(sides)
            if x is None:
                return None
            more = self._find_sides(x)
            violated = more.A @ x - more.b > 10.0 * TIGHT * size
            if not violated.any():
                return x
            sides = join([sides, more.select(violated)])

    def _project_in_cycles(self, y: Array) -> Array:
        """Find the nearest points by Dykstra's method, which needs only the members' projections."""
        others = self._members
        x = y.copy()
        corrections = [np.zeros_like(y) for _ in others]
        change = np.inf
        scale = max(min(1.0, self.diameter), float(np.abs(y).max()))
        for _ in range(self.budget):
            change = 0.0
            for i, s in enumerate(others):
                z = x + corrections[i]
                x = s.nearest(z)
                change = max(change, float(np.abs(z - x - corrections[i]).max()))
                corrections[i] = z - x
            if change <= self.tol * scale:
                return x
        violated = max(0.0, float(self.violation(x).max()))
        warnings.warn(
            f"Intersection stopped after {self.budget} cycles: this is not the projection yet, the last cycle still changed "
            f"it by {change:.1e}, and it violates a constraint by {violated:.1e}.",
            NotConverged,
            stacklevel=3,
        )
        return x

    def _picture(self) -> str:
        return ""  # A picture could take seconds where members hardly meet.

    def lowest(self, g: Array) -> Array:
        r"""Find a minimiser, where there is no closed form to within :math:`10^{-7} \|g\|` times the diameter.

        That is by proximal point steps with growing s.

        A step :math:`x' = \Pi(x - s g)` ends no further from the minimum than :math:`\|x - x'\|` times the diameter over s.

        Parameters
        ----------
        g : array
            Gradients, along the last axis.

        Returns
        -------
        array
            A minimiser for each.
        """
        if self.simplest is not self:
            return self.simplest.lowest(g)
        if not self.bounded:
            raise InvalidInput(f"No least value of a linear cost is known on {self!r}.")
        norm = np.linalg.norm(g, axis=-1, keepdims=True)
        direction = np.divide(g, norm, out=np.zeros_like(g), where=norm > 0)
        x = np.broadcast_to(self.start, g.shape)
        for turn in range(1000):
            stride = self.diameter * 2.0 ** min(turn, 10)
            following = self.nearest(x - stride * direction)
            if np.linalg.norm(following - x, axis=-1).max() <= 1e-7 * stride:
                return following
            x = following
        words = "Intersection.argmin_linear stopped after 1000 steps, still moving."
        warnings.warn(words, NotConverged, stacklevel=3)
        return x


def _all_known(parts: list[Part | None]) -> list[Part] | None:
    """Return what all sets of a product gave; None if one of them gave nothing."""
    known = [part for part in parts if part is not None]
    return known if len(known) == len(parts) else None


def _check_members(sets: object) -> tuple[ConvexSet, ...]:
    members = filled_list(sets, "sets", "such as [Box(0, 1), Simplex(3)]")
    for i, member in enumerate(members):
        instance(member, f"sets[{i}]", ConvexSet, "a ConvexSet such as Simplex(3)")
    return members
