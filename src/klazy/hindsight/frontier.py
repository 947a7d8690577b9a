"""The frontier: how much less a comparator can pay for hitting if it may move further, with certified bounds.

The best hitting cost among sequences of path length at most P is a convex, falling function of P. A sequence that is best
when moving costs a weight theta is a point above its graph, and the certified bound of that problem, L - theta P, a line
below it. So the two ends (the best fixed point, and every round's own minimum) and then, again and again, the weight that is
the slope of a chord enclose the function between a polygon and lines; solutions start from that of the nearest weight.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from klazy import show
from klazy.base.checks import (
    Array,
    InvalidInput,
    instance,
    integer,
    non_negative,
    number,
    positive,
    real_array,
    vector,
)
from klazy.costs import Costs
from klazy.game.game import Game
from klazy.hindsight.offline import solve
from klazy.hindsight.optimum import GapNotReached, Optimum
from klazy.hindsight.problem import Problem, check_set, take_bounded
from klazy.hindsight.splitting import Point
from klazy.hindsight.static import best_fixed
from klazy.movement import Movement
from klazy.sets import ConvexSet
from klazy.sets.limits import LimitedSet

if TYPE_CHECKING:
    from klazy.show import Figure


# The smallest positive length: at zero the best fixed point has a bound, beyond it has none.
TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True, eq=False, repr=False)
class Frontier:
    """The best hitting cost for every path length allowed, between certified bounds. :func:`~klazy.frontier` makes it.

    Parameters
    ----------
    path_length : array
        The path lengths at the corners of a convex polygon, each of a sequence that was found: mixing neighbours reaches every
        point between them.
    hitting : array
        The hitting costs there.
    weight : array
        The slopes of lines below it: no sequence has hitting + weight * length < bound. The line of infinite weight is the best
        fixed point's bound, and counts at length zero alone.
    bound : array
        The heights of these lines.

    Examples
    --------
    >>> curve = frontier([[1.0], [-1.0], [1.0]], Box(-1, 1))
    >>> curve.regret(-1.0, [0.0, 4.0])[1].round(6).tolist()
    [0.0, 2.0]
    """

    path_length: Array
    hitting: Array
    weight: Array
    bound: Array

    def best(self, P: ArrayLike) -> tuple[Array, Array]:
        """Bound the best hitting cost with a path length of at most P.

        Parameters
        ----------
        P : array_like
            Path lengths, >= 0.

        Returns
        -------
        lower : array
            No sequence pays less, one number for every P.
        upper : array
            What a sequence that was found pays; inf where limits demand a longer path.

        Raises
        ------
        ValueError
            If a length is negative.
        """
        P = real_array(P, "P")
        if (P < 0.0).any():
            raise InvalidInput(f"P must not be negative, got {P.min()}.")
        return line_bound(self.weight, self.bound, P), np.interp(
            P, self.path_length, self.hitting, left=np.inf
        )

    def regret(self, cost: float, P: ArrayLike) -> tuple[Array, Array]:
        """Bound a run's regret against the best comparator of path length at most P.

        Parameters
        ----------
        cost : float
            What the run paid: for hitting (dynamic regret), or in total (with the learner's movement).
        P : array_like
            Path lengths, >= 0.

        Returns
        -------
        lower : array
            The least that the regret can be, one number for every P.
        upper : array
            The most.
        """
        cost = number(cost, "cost")
        lower, upper = self.best(P)
        return cost - upper, cost - lower

    @property
    def gap(self) -> float:
        """The largest distance between the bounds, relative to what moving can save at all."""
        lower, upper = self.best(np.maximum(self._corners(), TINY))
        saved = self.hitting[0] - self.hitting[-1]
        return float((upper - lower).max() / saved) if saved > 0.0 else 0.0

    def plot(self, places: Mapping[str, tuple[float, float]] | None = None) -> Figure:
        """Draw the best hitting cost against path length, shaded where it is uncertain.

        Parameters
        ----------
        places : dict, optional
            Points to mark, by label: (path length, hitting cost) of a comparator or of learners.

        Returns
        -------
        Figure
            A matplotlib figure.

        Examples
        --------
        >>> curve = frontier([[1.0], [-1.0], [1.0]], Box(-1, 1))
        >>> curve.plot({"greedy": (1.0, -1.2)}).axes[0].get_xlabel()
        'path length'
        """
        named = _check_places({} if places is None else places)
        lengths = [*(P for P, _ in named.values()), *self.path_length.tolist()]
        lengths = [P for P in lengths if P > 0.0] or [1.0]
        P = np.geomspace(min(lengths) / 2.0, max(lengths), 200)
        lower, upper = self.best(P)
        lines = {"best in hindsight": upper}
        bands = {"best in hindsight": (lower, upper)}
        return show.draw_lines(
            P, lines, "path length", "hitting cost", bands=bands, marked=named, log="x"
        )

    def _corners(self) -> Array:
        """Return where the bounds may be furthest apart: at corners of the polygon, and where neighbouring lines meet."""
        finite = np.isfinite(self.weight)
        weight = self.weight[finite]
        bound = self.bound[finite]
        meet = np.diff(bound) / np.diff(weight)
        return np.concatenate(
            (self.path_length, np.clip(meet, self.path_length[0], self.path_length[-1]))
        )

    def __repr__(self) -> str:
        ends = f"{self.hitting[0]:.7g} at rest to {self.hitting[-1]:.7g} at length {self.path_length[-1]:.7g}"
        return f"Frontier({len(self.hitting)} corners, hitting {ends}, gap={self.gap:.1e})"


def _check_places(places: Any) -> dict[str, tuple[float, float]]:
    """Check points to mark, by label."""
    instance(places, "places", Mapping, "a dict such as {'mine': (1.0, -2.0)}")
    named = {}
    for label, place in places.items():
        x, y = vector(place, f"places[{label!r}]", 2).tolist()
        named[str(label)] = (x, y)
    return named


def frontier(
    costs: Costs | ArrayLike,
    domain: ConvexSet,
    movement: Movement | str | None = None,
    *,
    gap: float = 0.01,
    points: int = 30,
    iterations: int = 3_000,
    limits: tuple[ArrayLike | None, ArrayLike | None] | None = None,
) -> Frontier:
    """Compute the best hitting cost for every path length.

    It stops once the bounds are at most ``gap`` times the difference between the best fixed point and the
    rounds' own minima apart everywhere. The curve is certified in any case. Within limits it begins at a path that is as short
    as the limits allow.

    Parameters
    ----------
    costs : Costs or array_like
        What rounds cost, or gradients of shape (T, d).
    domain : ConvexSet
        Where decisions live.
    movement : Movement or str, optional
        What measures lengths, its weight included; the first round is free. Default: what suits the set.
    gap : float, optional
        How far apart the bounds may be. Default: 0.01.
    points : int, optional
        The most optima to compute. Default: 30.
    iterations : int, optional
        The most iterations for each; one that is not found counts with the bound it has. Default: 3000.
    limits : tuple of array_like, optional
        What every coordinate must be between in each round, as in :func:`~klazy.run`. Default: no limits.

    Returns
    -------
    Frontier
        The curve, between its bounds.

    Examples
    --------
    >>> curve = frontier([[1.0], [-1.0], [1.0]], Box(-1, 1))
    >>> curve.best([0.0, 2.0, 4.0])[1]
    array([-1., -2., -3.])
    """
    check_set(domain, "frontier")
    gap = positive(gap, "gap")
    points = integer(points, "points")
    search = Search(costs, domain, movement, 0.1 * gap, iterations, limits)
    search.problem.size = search.saved  # Errors on the curve count relative to this.
    while len(search.solved) < points:
        chords = search.chords()
        errors = [search.error(i) for i in chords]
        if not chords or max(errors) <= gap * search.saved:
            break
        search.split(chords[int(np.argmax(errors))])
    return Frontier(*search.corners(), *search.lines())


def best_with_path_length(
    costs: Costs | ArrayLike,
    domain: ConvexSet,
    P: float,
    movement: Movement | str | None = None,
    *,
    gap: float = 1e-3,
    points: int = 30,
    iterations: int = 3_000,
) -> Optimum:
    """Find the sequence that pays least for hitting while it travels no further than P, with a certified bound.

    It is a mixture of two optima of the problem with a price on movement, one on either side of P.

    Parameters
    ----------
    costs : Costs or array_like
        What rounds cost, or gradients of shape (T, d).
    domain : ConvexSet
        Where decisions live.
    P : float
        The longest path allowed, >= 0.
    movement : Movement or str, optional
        What measures lengths, its weight included. Default: what suits the set.
    gap : float, optional
        The certified gap to reach, relative as in :class:`Optimum`. Default: 1e-3.
    points : int, optional
        The most optima to compute. Default: 30.
    iterations : int, optional
        The most iterations for each. Default: 3000.

    Returns
    -------
    Optimum
        The sequence; its ``switching`` is zero, because moving is free within the budget.

    Raises
    ------
    GapNotReached
        If points or iterations end first.

    Examples
    --------
    >>> round(best_with_path_length([[1.0], [-1.0], [1.0]], Box(-1, 1), P=2.0).hitting, 6)
    -2.0
    """
    check_set(domain, "best_with_path_length")
    P = non_negative(P, "P")
    gap = positive(gap, "gap")
    points = integer(points, "points")
    search = Search(costs, domain, movement, 0.1 * gap, iterations)
    while True:
        found = search.mixture(P)
        around = [
            i
            for i in search.chords()
            if search.vertices[i].path_length <= P < search.vertices[i + 1].path_length
        ]
        if found.gap <= gap:
            return found
        if not around or len(search.solved) >= points:
            raise GapNotReached(gap, found, "Raise points, iterations or gap")
        search.split(around[0])


class Vertex(NamedTuple):
    """A sequence that is (nearly) best for one weight: what it pays, and the bound L on hitting + weight * path length."""

    weight: float
    path_length: float
    hitting: float
    bound: float
    u: Array
    point: Point | None


class Search:
    """The vertices found so far, sorted by path length and convex."""

    def __init__(
        self,
        costs: Costs | ArrayLike,
        domain: ConvexSet,
        movement: Movement | str | None,
        gap: float,
        iterations: int,
        limits: Any = None,
    ) -> None:
        game = Game.check(domain, costs, movement)
        domain = take_bounded(domain, game, is_limited=limits is not None)
        within = (
            None
            if limits is None
            else LimitedSet.check(limits, domain, game.costs.T).check_rounds()
        )
        self.problem = Problem(game, domain, within=within)
        self.gap = gap
        self.iterations = integer(iterations, "iterations")
        self.vertices: list[Vertex] = []
        self.solved: list[Vertex] = []
        self.tried: set[float] = set()
        self.used = 0
        if within is None:
            self._add_fixed(domain)
        else:
            self._add(self._find_weight_of_shortest())
        self._add(0.0)

    def _find_weight_of_shortest(self) -> float:
        """Return a weight at which no saving of any round is worth a longer path."""
        problem = self.problem
        prices = problem.movement.stretch(problem.dim) if problem.grouped else problem.prices
        price = float(problem.weights[1:].min(initial=np.inf) * prices.min())
        most = problem.T * (problem.steepness or 1.0)
        return most / price if 0.0 < price < np.inf else most

    def _add_fixed(self, domain: ConvexSet) -> None:
        """Begin with the best fixed point, which pays nothing for moving."""
        try:
            fixed = best_fixed(
                self.problem.costs, domain, gap=self.gap, iterations=self.iterations
            )
        except GapNotReached as stopped:  # The bound is valid, only less tight.
            fixed = stopped.best
        still = np.tile(fixed.x, (self.problem.T, 1))
        bound = (
            -np.inf if self.problem.free else fixed.lower_bound
        )  # else one may move at no length
        self.solved.append(Vertex(np.inf, 0.0, fixed.cost, bound, still, None))

    def _add(self, weight: float) -> None:
        problem = self.problem.with_weight(weight)
        found, point = solve(problem, self.gap, self.iterations, start=self._nearest(weight))
        self.used += found.iterations
        _, length = self.problem.paid(found.u)
        if self.problem.is_linear:
            point = None  # Linear costs start elsewhere.
        self.solved.append(
            Vertex(weight, length, found.hitting, found.lower_bound, found.u, point)
        )
        self.tried.add(weight)
        self.vertices = _hull(self.solved)

    def _nearest(self, weight: float) -> Point | None:
        """Return the last point for the nearest weight; linear costs have a better start of their own."""
        if self.problem.is_linear or not self.solved:
            return None
        return min(
            self.solved, key=lambda v: abs(np.log(v.weight + TINY) - np.log(weight + TINY))
        ).point

    @property
    def saved(self) -> float:
        """What the longest of the paths found saves compared with the shortest."""
        return self.vertices[0].hitting - self.vertices[-1].hitting

    def chords(self) -> list[int]:
        """Return the chords whose slope has not been tried."""
        return [i for i in range(len(self.vertices) - 1) if self._slope(i) not in self.tried]

    def _slope(self, i: int) -> float:
        a, b = self.vertices[i : i + 2]
        return (a.hitting - b.hitting) / (b.path_length - a.path_length)

    def split(self, i: int) -> None:
        """Solve for the weight at which both ends of the chord are equally good."""
        self._add(self._slope(i))

    def error(self, i: int) -> float:
        """Return the largest distance of a chord from the lines below it: where two of them meet, or at an end."""
        a, b = self.vertices[i : i + 2]
        meet = (
            (a.bound - b.bound) / (a.weight - b.weight)
            if np.isfinite(a.weight) and a.weight > b.weight
            else a.path_length
        )
        P = np.clip([a.path_length, meet, b.path_length], a.path_length, b.path_length)
        upper = np.interp(P, [a.path_length, b.path_length], [a.hitting, b.hitting])
        return float((upper - self.lower(np.maximum(P, TINY))).max())

    def lower(self, P: Array) -> Array:
        """Return the certified bound at every P."""
        weights, bounds = self.lines()
        return line_bound(weights, bounds, P)

    def corners(self) -> Array:
        """Return path length and hitting cost of the hull, of shape (2, n)."""
        return np.array([(v.path_length, v.hitting) for v in self.vertices]).T.copy()

    def lines(self) -> Array:
        """Return weights, falling, and bounds of all problems solved, of shape (2, n)."""
        return np.array(
            [(v.weight, v.bound) for v in sorted(self.solved, key=lambda v: -v.weight)]
        ).T.copy()

    def mixture(self, P: float) -> Optimum:
        """Mix the vertex before P and the one after it, as far as P allows."""
        lengths = np.array([v.path_length for v in self.vertices])
        i = int(np.searchsorted(lengths, P, side="right")) - 1
        a = self.vertices[i]
        b = self.vertices[min(i + 1, len(lengths) - 1)]
        share = (P - a.path_length) / (b.path_length - a.path_length) if b is not a else 0.0
        u = a.u + share * (1.0 - 1e-12) * (b.u - a.u)
        hitting = self.problem.paid(u)[0]
        bound = float(self.lower(np.array([P]))[0])
        return self.problem.certify(u, (hitting, 0.0), bound, "search over weights", self.used)


def line_bound(weight: Array, bound: Array, P: Array) -> Array:
    """Return the highest line at every P; that of infinite weight, the best fixed point's, counts at P = 0 alone."""
    finite = np.isfinite(weight)
    lines = (
        (bound[finite, None] - weight[finite, None] * np.ravel(P))
        .max(axis=0)
        .reshape(np.shape(P))
    )
    return np.where(P <= 0.0, np.maximum(lines, bound[~finite].max(initial=-np.inf)), lines)


def _hull(vertices: list[Vertex]) -> list[Vertex]:
    """Return the lower left hull: from the shortest on, each longer, cheaper, and with a smaller saving per length."""
    kept: list[Vertex] = []
    for v in sorted(vertices, key=lambda v: (v.path_length, v.hitting)):
        if kept and v.hitting >= kept[-1].hitting:
            continue
        while len(kept) > 1 and _turns_up(kept[-2], kept[-1], v):
            kept.pop()
        kept.append(v)
    return kept


def _turns_up(a: Vertex, b: Vertex, c: Vertex) -> bool:
    """Return True if b is on or above the chord from a to c."""
    ab = (b.path_length - a.path_length, b.hitting - a.hitting)
    ac = (c.path_length - a.path_length, c.hitting - a.hitting)
    return ab[1] * ac[0] >= ac[1] * ab[0]
