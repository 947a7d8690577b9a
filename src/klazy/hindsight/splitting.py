"""The splitting method: alternating directions with a penalty for each part of the problem, and its certificates.

Copies of the sequence w carry the set (x, together with the costs where both can be projected in one step), the costs (v)
and the steps (z = c Dw); each has its own penalty r. An iteration projects (s_x, s_v, s_z) onto the agreement of all with
one w, a tridiagonal system, and moves every s by ``RELAXATION`` times (prox(2 w - s) - w). Each proximal step also
gives a multiplier, and these make the dual point that bounds the optimum from below.
"""

from collections.abc import Callable
from copy import copy
from typing import NamedTuple

import numpy as np

from klazy.base.checks import Array
from klazy.costs import LinearCosts
from klazy.hindsight.optimum import Optimum
from klazy.hindsight.problem import Problem
from klazy.kernels import codes

Progress = Callable[[int, float], object]
# The first check of the gap is after ten iterations, the next ones after 1.15 times as many: each costs a few iterations.
_FIRST_CHECK = 10
_LATER_CHECKS = 1.15
BLOCK_ROUNDS = 4  # rounds of a coarse problem that move together
_LEAST_ROUNDS = 200  # A coarser problem pays from this many rounds on.
_EXPENSIVE = 3.0  # the quotient of a unit of movement and what a round may gain by it
_COARSE_TURNS = 500  # iterations on a coarse problem, which need not be solved to the end
RELAXATION = 1.7  # usual values are 1.5 to 1.8
# Limits on the change of a penalty in one step.
_LEAST_CHANGE = 1.3
_MOST_CHANGE = 4.0
_RANGE = 30.0  # how far the penalties of set and costs may go from where they began: multipliers may vanish


class Point(NamedTuple):
    """The state of the method: the sequence and the multipliers of set, costs and steps; another can start from it."""

    w: Array
    xi: Array
    nu: Array
    mu: Array


class Splitting:
    """The iteration on one problem. ``x`` is feasible; ``mu`` is feasible for the dual."""

    def __init__(self, problem: Problem, start: Point | None = None) -> None:
        from klazy.kernels.offline import projecting_kernel, splitting_kernels

        self.problem = problem
        T = problem.T
        d = problem.dim
        shape = (T, d)
        self._factor, self._eliminate, self._substitute = splitting_kernels(d)
        code = codes.code_of(problem.domain) if problem.within is None else problem.within.code
        self._rows = None if code is None else projecting_kernel(code, d)
        self._set = np.empty(0) if code is None else problem.sets.parameters()
        # The numbers that describe the set of one round, if rounds have sets of their own.
        self._stride = 0 if problem.within is None else len(self._set) // T
        self.separate = not problem.is_merged  # the costs have a copy of their own
        self.x = np.zeros(shape)
        self.mu = np.zeros(shape)
        self.target = np.zeros(shape)
        self._y = np.zeros(shape)
        self._pivots = np.zeros(shape)
        self._lower = np.zeros(shape)
        self.still = np.zeros(T)
        self._force = 2.0 * (problem.steepness or 1.0) / problem.domain.scale
        self.r_x = self._force
        self.r_v = self._force if self.separate else 0.0
        self.r_z = 5.0 / problem.domain.scale  # multiplied by the weight of each round
        if start is None:
            first = np.tile(problem.turn(problem.domain.start), (T, 1))
            start = Point(first, np.zeros(shape), np.zeros(shape), np.zeros(shape))
        else:
            self.r_z = self._balance(start)
        self._weights = np.where(problem.held, np.inf, problem.weights)
        self._place(start)

    def _place(self, at: Point) -> None:
        """Continue from a point, with unchanged penalties."""
        problem = self.problem
        steps = self.problem.steps(at.w)
        self.w = at.w
        self.x = at.w.copy()
        self.v = at.w
        self.s_x = at.w - at.xi / self.r_x
        self.s_v = at.w - at.nu / self.r_v if self.separate else np.zeros((0, problem.dim))
        self._r = self.r_z * problem.ties
        scale = np.where(self._r > 0.0, self._r, 1.0)[:, None]
        self.s_z = np.where(self._r[:, None] > 0.0, steps - at.mu / scale, 0.0)
        self._factor(self.r_x + self.r_v, self._r, problem.c, self._pivots, self._lower)
        self._shrink, self._shift = problem.affine(self.r_x)

    def advance(self, iterations: int) -> None:
        """Make this many iterations."""
        problem = self.problem
        for _ in range(iterations):
            if self.separate:
                self.s_v += RELAXATION * (self.v - self.w)
            self._eliminate(
                self.x, self.w, self.s_x, self.s_z, problem.origin, self.r_v * self.s_v,
                self.r_x, self._r, problem.c, RELAXATION, self._lower, self._y,
            )  # fmt: skip
            self._substitute(
                self._y, self.s_x, self.s_z, problem.origin, self._shrink, self._shift, self._r, problem.c, problem.prices,
                problem.limits, problem.grouped, problem.degree, self._weights, RELAXATION, self._pivots, self._lower,
                self.w, self.target, self.mu, self.still,
            )  # fmt: skip
            self._project(self.target, self.x)
            if self.separate:
                self.v = problem.prox(2.0 * self.w - self.s_v, self.r_v)

    def _project(self, points: Array, out: Array) -> None:
        problem = self.problem
        if self._rows is None or problem.axes is not None:
            out[:] = problem.turn(problem.sets.nearest(problem.turn_back(points)))
        else:
            self._rows(points, self._set, self._stride, out)

    def point(self) -> Point:
        """Return the sequence and the multipliers of the last proximal steps."""
        xi = self.r_x * (2.0 * self.w - self.s_x - self.x)
        nu = np.zeros((0, self.problem.dim))
        if self.separate:
            nu = self.r_v * (2.0 * self.w - self.s_v - self.v)
        return Point(self.w, xi, nu, self.mu)

    def lower_bound(self, at: Point) -> float:
        """Return the bound that the dual point proves."""
        v = self.v if self.separate else self.x
        return self.problem.lower_bound(
            self.problem.minorant(v, at.nu), at.mu, self.x, self.target - self.x
        )

    def candidates(self) -> tuple[Array, Array]:
        """Return two feasible sequences: x, and w held still where the steps' copy z is zero, which moves less."""
        starts = np.flatnonzero(self.still[1:] == 0.0) + 1
        starts = np.concatenate(([0], starts))
        lengths = np.diff(starts, append=self.problem.T)
        means = np.add.reduceat(self.w, starts, axis=0) / lengths[:, None]
        if self.still[0] and self.problem.weights[0] > 0.0:
            means[0] = self.problem.origin
        if self.problem.within is not None:
            # A stretch has several sets.
            means = np.repeat(means, lengths, axis=0)
            lengths = 1
        held = np.empty_like(means)
        self._project(means, held)
        return self._land(self.x), np.repeat(self._land(held), lengths, axis=0)

    def _land(self, points: Array) -> Array:
        """Project points that were turned back to coordinates, because rounding may have left them outside the set."""
        problem = self.problem
        if problem.axes is not None:
            points = problem.sets.nearest(problem.turn_back(points))
        return problem.keep_within(points)

    def rebalance(self, at: Point) -> None:
        """Set each penalty to the quotient of the sizes of multiplier and sequence, if that is far from what it is."""
        low = self._force / _RANGE
        high = self._force * _RANGE
        scale = self.problem.domain.scale
        r_x = _limit(self.r_x, min(max(2.0 * _size(at.xi) / scale, low), high))
        r_v = 0.0
        if self.separate:
            r_v = _limit(self.r_v, min(max(2.0 * _size(at.nu) / scale, low), high))
        r_z = _limit(self.r_z, self._balance(at))
        if (r_x, r_v, r_z) != (self.r_x, self.r_v, self.r_z):
            self.r_x = r_x
            self.r_v = r_v
            self.r_z = r_z
            self._place(Point(at.w.copy(), at.xi, at.nu, at.mu))

    def _balance(self, at: Point) -> float:
        """Return the quotient for the steps, weighted; a sequence that hardly moves counts as one that moves once."""
        weights = self.problem.weights
        moving = weights > 0.0
        if not moving.any():
            return self.r_z
        steps = self.problem.steps(at.w)[moving]
        pressed = float((np.vecdot(at.mu, at.mu)[moving] / weights[moving]).sum())
        moved = float((np.vecdot(steps, steps) * weights[moving]).sum())
        once = float(weights[moving].mean()) * (0.25 * self.problem.domain.scale) ** 2
        return float(np.sqrt(pressed / max(moved, once))) or self.r_z


def _size(rows: Array) -> float:
    """Return the root of the mean square of the rows' norms."""
    return float(np.sqrt(np.vdot(rows, rows) / max(len(rows), 1)))


def _limit(old: float, wanted: float) -> float:
    """Move ``old`` toward ``wanted``: ignore small changes, and cap large ones."""
    quotient = wanted / old
    if 1.0 / _LEAST_CHANGE < quotient < _LEAST_CHANGE:
        return old
    return old * min(max(quotient, 1.0 / _MOST_CHANGE), _MOST_CHANGE)


def iterate(
    problem: Problem,
    gap: float,
    iterations: int,
    *,
    start: Point | None = None,
    progress: Progress | None = None,
) -> tuple[Optimum, Point]:
    """Split until the gap is reached or the iterations end, beginning where the method ended on a similar problem."""
    if start is None:
        start = _start_coarsely(problem, gap)
    method = Splitting(problem, start)
    best = method.x
    paid = (np.inf, 0.0)
    bound = -np.inf
    done = 0
    while True:
        pause = min(max(_FIRST_CHECK, int(done * (_LATER_CHECKS - 1.0))), iterations - done)
        method.advance(pause)
        done += pause
        at = method.point()
        bound = max(bound, method.lower_bound(at))
        for u in method.candidates():
            offer = problem.paid(u)
            if sum(offer) < sum(paid):
                best = u.copy()
                paid = offer
        reached = problem.gap(sum(paid), bound)
        if progress is not None:
            progress(done, reached)
        if reached <= gap or done >= iterations:
            return problem.certify(best, paid, bound, "splitting", done), at
        method.rebalance(at)


def _start_coarsely(problem: Problem, gap: float) -> Point | None:
    """Find a start for long runs of linear costs: the optimum when only every fourth round may move.

    Where moving is expensive the optimum holds still for long, and a coarse problem, which is small, already knows most of it.
    Its multipliers are spread over the rounds of a block such that every round of it leans on the set with the same force.
    The answer is None where that would not help.
    """
    price = float(problem.weights.mean()) * problem.movement.lipschitz(problem.dim)
    is_expensive = price >= _EXPENSIVE * problem.steepness
    is_plain = (
        problem.degree == 1.0
        and problem.axes is None
        and not problem.is_tied
        and problem.within is None
    )
    if not problem.is_linear or problem.T < _LEAST_ROUNDS or not is_expensive or not is_plain:
        return None
    starts = np.arange(0, problem.T, BLOCK_ROUNDS)
    coarse = copy(problem)
    g = problem.costs.arrays()[0]
    coarse.costs = LinearCosts(np.add.reduceat(g, starts, axis=0))
    coarse.T = len(starts)
    coarse.weights = problem.weights[starts]
    coarse.held = problem.held[starts]
    for cached in ("steepness", "unit"):
        coarse.__dict__.pop(cached, None)
    _, at = iterate(coarse, gap / 3.0, _COARSE_TURNS)
    return _spread(problem, g, coarse, at, starts)


def _spread(problem: Problem, g: Array, coarse: Problem, at: Point, starts: np.ndarray) -> Point:
    """Repeat the coarse sequence, with multipliers that go evenly from one block's to the next."""
    lengths = np.diff(starts, append=problem.T)
    m = problem.c * at.mu
    force = coarse.costs.arrays()[0] + m
    force[:-1] -= m[1:]
    steps = g - np.repeat(force / lengths[:, None], lengths, axis=0)
    walked = np.cumsum(steps, axis=0) - steps
    m = np.repeat(m - walked[starts], lengths, axis=0) + walked
    xi = -m
    xi[:-1] += m[1:]
    mu = np.divide(m, problem.c, out=np.zeros_like(m), where=problem.c > 0.0)
    return Point(np.repeat(at.w, lengths, axis=0), xi, np.zeros((0, problem.dim)), mu)
