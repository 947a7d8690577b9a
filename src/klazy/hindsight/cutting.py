"""Certified optima of costs and movements that are known by values and subgradients alone, by cutting planes.

Convex costs lie above their tangents. The least that the tangents seen so far allow is a linear programme; its solution is
projected to the set, and the tangents there, and half-way to the best sequence so far, are added. The programme's
multipliers weigh the tangents of each round: with these weights they add up to one affine function below f_t, for any
tolerance of the solver, so the lower bound is the value of a dual point, as for all other optima.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from klazy.base.checks import Array, vector
from klazy.base.linprog import solve_linear
from klazy.costs import CallableCosts, Costs, as_costs
from klazy.hindsight.optimum import Optimum
from klazy.hindsight.problem import Problem
from klazy.hindsight.splitting import Progress

MOST_PROGRAMMES = 400  # linear programmes at most, as each is larger than the one before
IDLE = 15  # A tangent without a part in this many programmes in a row is dropped.
HALFWAY = 0.5
OUTSIDE = 1e-9  # A solution farther outside than this share of the set's size is cut off.


def _slope_of_step(problem: Problem, delta: Array) -> Array:
    """Compute a subgradient of the movement, before its weight."""
    movement = problem.movement
    if movement.subgradient is not None:
        return vector(movement.subgradient(delta), "subgradient", problem.dim)
    if not movement.grouped:
        # This is the movement of degree 3/2.
        return 1.5 * problem.prices * np.sign(delta) * np.sqrt(np.abs(delta))
    axes = movement.axes()
    along = delta if axes is None else delta @ axes
    slope = movement.stretch(problem.dim) ** 2 * along
    size = float(movement.distance(delta)) if problem.degree == 1.0 else 1.0
    return (slope if axes is None else axes @ slope) / (size or 1.0)


class _Bundle:
    """Affine functions below one function of each round: offsets, slopes, and when each was last active."""

    def __init__(self, T: int, dim: int) -> None:
        self.T = T
        # The columns are the round, the offset, the programme in which it was last active, and the slope.
        self._cuts = np.zeros((0, 3 + dim))

    @property
    def rounds(self) -> NDArray[np.intp]:
        return self._cuts[:, 0].astype(np.intp)

    @property
    def offsets(self) -> Array:
        return self._cuts[:, 1]

    @property
    def slopes(self) -> Array:
        return self._cuts[:, 3:]

    def add(self, rounds: np.ndarray, offsets: Array, slopes: Array, now: int) -> None:
        cuts = np.column_stack((rounds, offsets, np.full(len(rounds), now), slopes))
        self._cuts = np.vstack((self._cuts, cuts[np.isfinite(cuts).all(axis=1)]))

    def drop_idle(self, now: int) -> None:
        self._cuts = self._cuts[self._cuts[:, 2] > now - IDLE]

    def build(self) -> tuple[Any, Any]:
        """Build the matrix by which slopes act on a whole sequence, and the one that picks the round of each."""
        from scipy.sparse import csr_array

        m, d = self.slopes.shape
        each = np.arange(m + 1)
        rounds = self.rounds
        columns = rounds[:, None] * d + np.arange(d)
        slopes = csr_array((self.slopes.ravel(), columns.ravel(), d * each), (m, self.T * d))
        return slopes, csr_array((np.ones(m), rounds, each), (m, self.T))

    def combine(self, shares: Array, now: int) -> tuple[Array, Array]:
        """Return the affine function of each round that these shares make; they need not add up to one yet."""
        shares = np.maximum(shares, 0.0)
        self._cuts[shares > 0.0, 2] = now
        rounds = self.rounds
        total = np.bincount(rounds, shares, self.T)
        # A round without shares uses its first tangent.
        empty = np.flatnonzero(total <= 0.0)
        first = np.searchsorted(np.sort(rounds), empty)
        shares[np.argsort(rounds, kind="stable")[first]] = 1.0
        total[empty] = 1.0
        shares = shares / total[rounds]
        combined = np.zeros((self.T, 1 + self.slopes.shape[1]))
        np.add.at(
            combined, rounds, shares[:, None] * np.column_stack((self.offsets, self.slopes))
        )
        return combined[:, 0], combined[:, 1:]


class _Planes:
    """The cutting-plane method on one problem."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        T = problem.T
        d = problem.dim
        self.tangents = _Bundle(T, d)
        self.moves = _Bundle(T, d)
        self.walls = _Bundle(T, d)  # <slope, u_t> <= offset, where a solution lay outside the set
        if problem.within is None:
            ends = problem.domain.lowest(np.vstack((np.eye(d), -np.eye(d))))
            self.low = np.tile(ends[:d].diagonal(), T)
            self.high = np.tile(ends[d:].diagonal(), T)
        else:
            self.low = problem.within.low.ravel()
            self.high = problem.within.high.ravel()
        across = problem.domain.lowest(np.vstack((np.ones(d), -np.ones(d)))).sum(axis=1)
        flat = abs(across[1] - across[0]) <= OUTSIDE * problem.domain.scale
        self.total = (
            float(across.mean()) if flat else None
        )  # the sum of the coordinates, if it is the same for all points

    def look(self, u: Array, now: int) -> None:
        """Add the tangents at a sequence."""
        problem = self.problem
        rounds = np.arange(problem.T)
        values = problem.costs.values(u)
        slopes = problem.costs.subgradients(u)
        self.tangents.add(rounds, values - np.vecdot(slopes, u), slopes, now)
        if problem.grouped is False:
            return
        steps = problem.steps(u)
        slopes = np.array([_slope_of_step(problem, step) for step in steps])
        values = problem.movement.distance(steps)
        self.moves.add(rounds, values - np.vecdot(slopes, steps), slopes, now)

    def solve(self, now: int) -> tuple[Array, float]:
        """Return the best sequence for the tangents so far, perhaps outside the set, and a bound below all sequences in it."""
        from scipy.sparse import block_array, csr_array, eye_array, hstack, kron

        problem = self.problem
        T = problem.T
        d = problem.dim
        n = T * d
        priced = problem.grouped is False
        longest = np.empty(0)
        more = (
            2 * n if priced else T
        )  # variables after those of the sequence and of the rounds' costs
        cost = np.concatenate((np.zeros(n), np.ones(T), np.zeros(more)))
        low = np.concatenate((self.low, np.full(T + more, -np.inf)))
        high = np.concatenate((self.high, np.full(T + more, np.inf)))
        step = eye_array(n) - eye_array(n, k=-d)
        before = np.zeros(n)
        before[:d] = problem.origin
        tangents, own = self.tangents.build()
        walls, _ = self.walls.build()
        k = len(self.tangents.rounds)
        above = [[tangents, -own, csr_array((k, more))], [walls, None, None]]
        limits = [-self.tangents.offsets, self.walls.offsets]
        equal = []
        sums = []
        if self.total is not None:
            equal.append(
                [kron(eye_array(T), np.ones((1, d))), csr_array((T, T)), csr_array((T, more))]
            )
            sums.append(np.full(T, self.total))
        if priced:
            # A step is written as a rise minus a fall.
            prices = problem.prices.reshape(2, 1, d)
            cost[n + T :] = (problem.weights[:, None] * prices).ravel()
            low[n + T :] = 0.0
            longest = np.repeat(problem.limits.reshape(2, 1, d), T, axis=1)
            if problem.x0 is None:
                longest[:, 0] = np.inf
            longest[:, problem.held] = 0.0
            high[n + T :] = longest.ravel()
            equal.append([step, csr_array((n, T)), hstack((-eye_array(n), eye_array(n)))])
            sums.append(before)
        else:
            cost[n + T :] = problem.weights
            moves, own = self.moves.build()
            above.insert(1, [moves @ step, None, -own])
            limits.insert(1, moves @ before - self.moves.offsets)
        found = solve_linear(
            cost,
            A_ub=block_array(above, format="csr"),
            b_ub=np.concatenate(limits),
            A_eq=block_array(equal, format="csr") if equal else None,
            b_eq=np.concatenate(sums) if sums else None,
            bounds=np.column_stack((low, high)),
        )
        if found.x is None:
            raise ArithmeticError(
                f"A linear programme was not solved: {found.message} Rescale the costs."
            )
        shares = -found.ineqlin.marginals
        e, h = self.tangents.combine(shares[:k], now)
        weights = problem.weights[:, None]
        if priced:
            mu = -np.reshape(found.eqlin.marginals[-n:], (T, d))
            up, down = np.split(problem.prices, 2)
            # A step at its limit may be worth more than its price.
            rises, falls = np.isfinite(longest)
            least = np.where(falls, -np.inf, -weights * down)
            mu = np.clip(mu, least, np.where(rises, np.inf, weights * up))
        else:
            offsets, slopes = self.moves.combine(shares[k : k + len(self.moves.rounds)], now)
            e = e + problem.weights * offsets
            mu = weights * slopes
        return found.x[:n].reshape(T, d), problem.lower_bound((e, h), mu)

    def cut_off(self, u: Array, inside: Array, now: int) -> None:
        """Add cutting planes between the set and the points outside it."""
        away = u - inside
        far = np.linalg.norm(away, axis=1) > OUTSIDE * self.problem.domain.scale
        rounds = np.flatnonzero(far)
        self.walls.add(rounds, np.vecdot(away[far], inside[far]), away[far], now)


def cut_optimum(
    problem: Problem, gap: float, iterations: int, progress: Progress | None
) -> Optimum:
    """Find the optimum by cutting planes, to the gap or as far as the iterations go."""
    planes = _Planes(problem)
    best = problem.keep_within(
        problem.sets.nearest(np.tile(problem.domain.start, (problem.T, 1)))
    )
    paid = problem.paid(best)
    planes.look(best, 0)
    bound = -np.inf
    done = 0
    for done in range(1, min(iterations, MOST_PROGRAMMES) + 1):
        u, proved = planes.solve(done)
        bound = max(bound, proved)
        inside = problem.sets.nearest(u)
        planes.cut_off(u, inside, done)
        between = problem.sets.nearest(best + HALFWAY * (inside - best))
        for offer in map(problem.keep_within, (inside, between)):
            planes.look(offer, done)
            price = problem.paid(offer)
            if sum(price) < sum(paid):
                best = offer
                paid = price
        reached = problem.gap(sum(paid), bound)
        if progress is not None:
            progress(done, reached)
        if reached <= gap:
            break
        planes.tangents.drop_idle(done)
        planes.moves.drop_idle(done)
    return problem.certify(best, paid, bound, "cutting planes", done)


def add_up(costs: Costs | ArrayLike) -> CallableCosts:
    """Sum all rounds into one."""
    rounds = as_costs(costs)

    def value(_: int, x: Array) -> float:
        return float(rounds.values(np.tile(x, (rounds.T, 1))).sum())

    def subgradient(_: int, x: Array) -> Array:
        return rounds.subgradients(np.tile(x, (rounds.T, 1))).sum(axis=0)

    return CallableCosts(1, rounds.dim, value, subgradient)
