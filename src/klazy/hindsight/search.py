"""The search for points of the frontier: optima with a weight on movement, and the hull that they span."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from klazy.base.checks import Array, whole
from klazy.costs import Costs
from klazy.hindsight.iterate import pose, solve
from klazy.hindsight.optimum import GapNotReached, Optimum
from klazy.hindsight.splitting import Point
from klazy.hindsight.static import best_fixed
from klazy.movement import Movement
from klazy.sets import ConvexSet

TINY = float(
    np.finfo(np.float64).tiny
)  # a length next to none, where the best fixed point's own bound says nothing


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
        owner: str,
    ) -> None:
        self.problem = pose(costs, domain, movement, None, owner)
        self.gap = gap
        self.iterations = whole(iterations, "iterations", owner, "iterations >= 1", "give a number")
        try:
            fixed = best_fixed(self.problem.costs, domain, gap=gap, iterations=iterations)
        except GapNotReached as stopped:  # its bound holds as far as it goes
            fixed = stopped.best
        still = np.tile(fixed.x, (self.problem.T, 1))
        bound = -np.inf if self.problem.free else fixed.lower_bound  # else one may move at no length
        self.vertices = [Vertex(np.inf, 0.0, fixed.cost, bound, still, None)]
        self.solved: list[Vertex] = list(self.vertices)
        self.tried: set[float] = set()
        self.used = 0
        self._add(0.0)

    def _add(self, weight: float) -> None:
        problem = self.problem.with_weight(weight)
        found, point = solve(problem, self.gap, self.iterations, start=self._nearest(weight))
        self.used += found.iterations
        _, length = self.problem.paid(found.u)
        if self.problem.is_linear:
            point = None  # it would not be started from
        self.solved.append(Vertex(weight, length, found.hitting, found.lower_bound, found.u, point))
        self.tried.add(weight)
        self.vertices = _hull(self.solved)

    def _nearest(self, weight: float) -> Point | None:
        """Where the optimum of the nearest weight stood; linear costs have a better start of their own."""
        if self.problem.is_linear:
            return None
        return min(self.solved, key=lambda v: abs(np.log(v.weight + TINY) - np.log(weight + TINY))).point

    def chords(self) -> list[int]:
        """The chords whose slope has not been tried."""
        return [i for i in range(len(self.vertices) - 1) if self._slope(i) not in self.tried]

    def _slope(self, i: int) -> float:
        a, b = self.vertices[i : i + 2]
        return (a.hitting - b.hitting) / (b.path_length - a.path_length)

    def split(self, i: int) -> None:
        """Solve for the weight at which both ends of the chord are equally good."""
        self._add(self._slope(i))

    def error(self, i: int) -> float:
        """The largest distance of the chord from the lines below it, which is where two of them meet, or at an end."""
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
        """The certified bound at every P."""
        weights, bounds = self.lines()
        return line_bound(weights, bounds, P)

    def corners(self) -> Array:
        """Path length and hitting cost of the hull, of shape (2, n)."""
        return np.array([(v.path_length, v.hitting) for v in self.vertices]).T.copy()

    def lines(self) -> Array:
        """Weights, falling, and bounds of everything solved, of shape (2, n)."""
        return np.array([(v.weight, v.bound) for v in sorted(self.solved, key=lambda v: -v.weight)]).T.copy()

    def mixture(self, P: float) -> Optimum:
        """Part of the vertex before P and part of the one after it, as much as P allows."""
        lengths = np.array([v.path_length for v in self.vertices])
        i = int(np.searchsorted(lengths, P, side="right")) - 1
        a = self.vertices[i]
        b = self.vertices[min(i + 1, len(lengths) - 1)]
        share = (P - a.path_length) / (b.path_length - a.path_length) if b is not a else 0.0
        u = a.u + share * (1.0 - 1e-12) * (b.u - a.u)
        hitting = self.problem.paid(u)[0]
        bound = float(self.lower(np.array([P]))[0])
        bound = min(bound, hitting)
        return Optimum(
            u, hitting, 0.0, bound, self.problem.gap(hitting, bound), "search over weights", self.used
        )


def line_bound(weight: Array, bound: Array, P: Array) -> Array:
    """The highest of the lines at every P; that of infinite weight, the best fixed point's, counts at P = 0 alone."""
    finite = np.isfinite(weight)
    lines = (bound[finite, None] - weight[finite, None] * np.ravel(P)).max(axis=0).reshape(np.shape(P))
    return np.where(P <= 0.0, np.maximum(lines, bound[~finite].max(initial=-np.inf)), lines)


def _hull(vertices: list[Vertex]) -> list[Vertex]:
    """The lower left hull: from the shortest on, each longer, cheaper, and with a smaller saving per length."""
    kept: list[Vertex] = []
    for v in sorted(vertices, key=lambda v: (v.path_length, v.hitting)):
        if kept and v.hitting >= kept[-1].hitting:
            continue
        while len(kept) > 1 and _turns_up(kept[-2], kept[-1], v):
            kept.pop()
        kept.append(v)
    return kept


def _turns_up(a: Vertex, b: Vertex, c: Vertex) -> bool:
    """Whether b lies on or above the chord from a to c."""
    ab = (b.path_length - a.path_length, b.hitting - a.hitting)
    ac = (c.path_length - a.path_length, c.hitting - a.hitting)
    return ab[1] * ac[0] >= ac[1] * ab[0]
