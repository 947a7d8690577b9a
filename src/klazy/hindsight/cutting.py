"""Certified optima of costs and movements that are known by values and subgradients alone, by cutting planes.

Convex costs lie above their tangents. The least that the tangents seen so far allow is a linear programme; its solution is
projected to the set, and the tangents there, and half-way to the best sequence so far, are added. The programme's
multipliers weigh the tangents of each round: with these weights they add up to one affine function below f_t, whatever the
solver's tolerances, so the lower bound is the value of a dual point, as for all other optima.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from klazy.base.checks import Array, refusal, vector
from klazy.base.programme import solve_linear
from klazy.costs import CallableCosts, Costs, as_costs
from klazy.game.game import Game
from klazy.hindsight.optimum import EPS, Optimum
from klazy.hindsight.problem import Problem, check_domain, norms
from klazy.movement import Movement
from klazy.sets import ConvexSet

MOST_PROGRAMMES = 400  # each is larger than the one before
IDLE = 15  # programmes in a row in which a tangent had no part, after which it is dropped
HALFWAY = 0.5
PRICED = "L2Movement, WeightedL2Movement, L1Movement, TVMovement, AsymmetricMovement"  # without one
OUTSIDE = 1e-9  # relative to the set's size, from which on a solution is cut off


def needs_cuts(costs: Any, movement: Any) -> bool:
    """Whether costs or movement are known by values and subgradients alone."""
    own_costs = isinstance(costs, Costs) and not has_steps(costs)
    own_movement = isinstance(movement, Movement) and movement.grouped is None
    return own_costs or (own_movement and movement.subgradient is not None)


def has_steps(costs: Costs) -> bool:
    """Whether the proximal step of these costs is known."""
    return costs.family is not None and costs.family.has_prox


class CutProblem(Problem):
    """The offline problem of such costs. ``grouped`` is None for a movement that is known by subgradients."""

    def __init__(
        self,
        costs: Costs | ArrayLike,
        domain: ConvexSet,
        movement: Movement | str | None,
        x0: ArrayLike | None,
        owner: str,
    ) -> None:
        check_domain(domain, owner)
        game = Game.check(owner, domain, costs, movement, x0)
        game.costs.check_finite()
        self.domain = domain
        self.costs = game.costs
        self.T = self.costs.T
        self.dim = self.costs.dim
        self.movement = game.movement
        self.degree = self.movement.degree
        self.axes = None
        self.grouped: Any = None
        if self.degree == 1.0 and self.movement.axes() is None:
            self.grouped = self.movement.grouped
        if self.grouped is None and self.movement.subgradient is None:
            known = f"a movement with a subgradient, or one of {PRICED}"
            raise refusal(owner, known, "movement", repr(movement), "give it a method subgradient(delta)")
        self.prices = self.movement.prices(self.dim)
        self.up = np.zeros(self.dim)
        self.down = np.zeros(self.dim)
        if self.grouped is False:
            self.up, self.down = np.split(self.prices, 2)
        self.stretch = self.movement.stretch(self.dim)
        self.c = np.ones(self.dim)  # multipliers here are of the plain steps
        self.x0 = game.x0
        self.weights = np.full(self.T, game.weights)
        if self.x0 is None:
            self.weights[0] = 0.0
        self.before = np.zeros(self.dim) if self.x0 is None else self.x0
        self.origin = self.before

    def prove(self, e: Array, h: Array, mu: Array) -> float:
        """What no sequence in the set can pay less than: as `lower_bound`, with the least point of the set itself."""
        p = h + mu
        p[:-1] -= mu[1:]
        value = float(e.sum() + np.vecdot(p, self.domain.lowest(p)).sum() - mu[0] @ self.origin)
        return value - self.rounding(norms(h), norms(mu)) - 16 * EPS * float(np.abs(e).sum())

    def _sum_steepness(self, x: Array) -> float:
        return norms(self.costs.subgradients(np.tile(x, (self.T, 1))))

    def steps(self, u: Array) -> Array:
        """u_t - u_{t-1}."""
        return np.diff(u, axis=0, prepend=self.origin[None])

    def slope_of_step(self, delta: Array) -> Array:
        """A subgradient of the movement, before its weight."""
        if self.grouped:
            size = float(np.linalg.norm(self.stretch * delta))
            return self.stretch**2 * delta / size if size > 0.0 else np.zeros(self.dim)
        assert self.movement.subgradient is not None
        owner = f"{type(self.movement).__name__}.subgradient"
        return vector(self.movement.subgradient(delta), "subgradient", owner, self.dim)


class _Bundle:
    """Affine functions below one function of each round: offsets, slopes, and when each last had a part."""

    def __init__(self, T: int, dim: int) -> None:
        self.rounds = np.zeros(0, dtype=int)
        self.offsets = np.zeros(0)
        self.slopes = np.zeros((0, dim))
        self.active = np.zeros(0, dtype=int)
        self.T = T

    def add(self, rounds: np.ndarray, offsets: Array, slopes: Array, now: int) -> None:
        fine = np.isfinite(offsets) & np.isfinite(slopes).all(axis=1)
        self.rounds = np.concatenate((self.rounds, rounds[fine]))
        self.offsets = np.concatenate((self.offsets, offsets[fine]))
        self.slopes = np.concatenate((self.slopes, slopes[fine]))
        self.active = np.concatenate((self.active, np.full(int(fine.sum()), now)))

    def drop_idle(self, now: int) -> None:
        kept = self.active > now - IDLE
        self.rounds = self.rounds[kept]
        self.offsets = self.offsets[kept]
        self.slopes = self.slopes[kept]
        self.active = self.active[kept]

    def combine(self, shares: Array, now: int) -> tuple[Array, Array]:
        """The affine function of each round that these shares make, offsets and slopes; shares need not add up to one yet."""
        shares = np.maximum(shares, 0.0)
        self.active[shares > 0.0] = now
        total = np.bincount(self.rounds, shares, self.T)
        # a round in which no share is left takes its first tangent
        empty = np.flatnonzero(total <= 0.0)
        first = np.searchsorted(np.sort(self.rounds), empty)
        shares = shares.copy()
        shares[np.argsort(self.rounds, kind="stable")[first]] = 1.0
        total[empty] = 1.0
        shares = shares / total[self.rounds]
        offsets: Any = np.bincount(self.rounds, shares * self.offsets, self.T)
        slopes = np.zeros((self.T, self.slopes.shape[1]))
        np.add.at(slopes, self.rounds, shares[:, None] * self.slopes)
        return offsets, slopes


class _Planes:
    """The cutting-plane method on one problem."""

    def __init__(self, problem: CutProblem) -> None:
        self.problem = problem
        T = problem.T
        d = problem.dim
        self.tangents = _Bundle(T, d)
        self.moves = _Bundle(T, d)
        self.walls = _Bundle(T, d)  # <slope, u_t> <= offset, where a solution lay outside the set
        ends = problem.domain.lowest(np.vstack((np.eye(d), -np.eye(d))))
        self.low = ends[:d].diagonal()
        self.high = ends[d:].diagonal()
        across = problem.domain.lowest(np.vstack((np.ones(d), -np.ones(d)))).sum(axis=1)
        flat = abs(across[1] - across[0]) <= OUTSIDE * problem.domain.scale
        self.total = float(across.mean()) if flat else None  # what all points of the set sum to

    def look(self, u: Array, now: int) -> None:
        """Add what is seen at a sequence."""
        problem = self.problem
        rounds = np.arange(problem.T)
        values = problem.costs.values(u)
        slopes = problem.costs.subgradients(u)
        self.tangents.add(rounds, values - np.vecdot(slopes, u), slopes, now)
        if problem.grouped is False:
            return
        steps = problem.steps(u)
        slopes = np.array([problem.slope_of_step(step) for step in steps])
        values = problem.movement.distance(steps)
        self.moves.add(rounds, values - np.vecdot(slopes, steps), slopes, now)

    def solve(self, now: int) -> tuple[Array, float]:
        """A sequence that is best for what was seen, perhaps outside the set, and a bound that no sequence in it is below."""
        from scipy.sparse import coo_matrix

        problem = self.problem
        T = problem.T
        d = problem.dim
        n = T * d
        priced = problem.grouped is False
        width = n + T + (2 * n if priced else T)
        cost = np.zeros(width)
        cost[n : n + T] = 1.0
        low = np.concatenate((np.tile(self.low, T), np.full(width - n, -np.inf)))
        high = np.concatenate((np.tile(self.high, T), np.full(width - n, np.inf)))
        rows = _Rows(d)
        rows.add(self.tangents, self.tangents.offsets, n, None)
        equal = _Rows(d)
        if self.total is not None:
            equal.add_sums(T, self.total)
        if priced:
            cost[n + T :] = np.concatenate(
                (
                    np.outer(problem.weights, problem.up).ravel(),
                    np.outer(problem.weights, problem.down).ravel(),
                )
            )
            low[n + T :] = 0.0
            equal.add_steps(T, n + T, problem.origin)
        else:
            cost[n + T :] = problem.weights
            rows.add(self.moves, self.moves.offsets, n + T, problem.origin)
        rows.add_walls(self.walls)
        A, b = rows.build(coo_matrix, width)
        A_eq, b_eq = equal.build(coo_matrix, width)
        found = solve_linear(cost, A_ub=A, b_ub=b, A_eq=A_eq, b_eq=b_eq, bounds=np.column_stack((low, high)))
        if found.x is None:
            raise ArithmeticError(
                f"offline_optimum needs a bounded linear programme, got {found.message}; scale the costs."
            )
        shares = -found.ineqlin.marginals
        k = len(self.tangents.rounds)
        e, h = self.tangents.combine(shares[:k], now)
        weights = problem.weights[:, None]
        if priced:
            mu = -np.reshape(found.eqlin.marginals[-n:], (T, d))
            mu = np.clip(mu, -weights * problem.down, weights * problem.up)
        else:
            offsets, slopes = self.moves.combine(shares[k : k + len(self.moves.rounds)], now)
            e = e + problem.weights * offsets
            mu = weights * slopes
        return found.x[:n].reshape(T, d), problem.prove(e, h, mu)

    def cut_off(self, u: Array, inside: Array, now: int) -> None:
        """Walls between the set and what lies outside of it."""
        away = u - inside
        far = np.linalg.norm(away, axis=1) > OUTSIDE * self.problem.domain.scale
        rounds = np.flatnonzero(far)
        self.walls.add(rounds, np.vecdot(away[far], inside[far]), away[far], now)


class _Rows:
    """The rows of a linear programme as they come."""

    def __init__(self, dim: int) -> None:
        self.dim = dim
        self.count = 0
        self.places: list[tuple[np.ndarray, np.ndarray, Array]] = []
        self.limits: list[Array] = []

    def _extend(self, rows: np.ndarray, columns: np.ndarray, values: Array) -> None:
        self.places.append((np.ravel(rows + self.count), np.ravel(columns), np.ravel(values)))

    def add(self, bundle: _Bundle, offsets: Array, above: int, origin: Array | None) -> None:
        """offset + <slope, u_t> <= the variable ``above`` + t; with an origin, of the step u_t - u_{t-1} from there."""
        m = len(offsets)
        own = np.arange(m)
        each = np.repeat(own[:, None], self.dim, axis=1)
        columns = bundle.rounds[:, None] * self.dim + np.arange(self.dim)
        self._extend(each, columns, bundle.slopes)
        self._extend(own, above + bundle.rounds, np.full(m, -1.0))
        limits = -offsets
        if origin is not None:
            later = bundle.rounds > 0
            self._extend(each[later], columns[later] - self.dim, -bundle.slopes[later])
            limits = limits + np.where(later, 0.0, bundle.slopes @ origin)
        self.limits.append(limits)
        self.count += m

    def add_walls(self, walls: _Bundle) -> None:
        m = len(walls.rounds)
        each = np.repeat(np.arange(m)[:, None], self.dim, axis=1)
        self._extend(each, walls.rounds[:, None] * self.dim + np.arange(self.dim), walls.slopes)
        self.limits.append(walls.offsets)
        self.count += m

    def add_sums(self, T: int, total: float) -> None:
        each = np.repeat(np.arange(T)[:, None], self.dim, axis=1)
        self._extend(each, np.arange(T * self.dim), np.ones(T * self.dim))
        self.limits.append(np.full(T, total))
        self.count += T

    def add_steps(self, T: int, first: int, origin: Array) -> None:
        """u_t - u_{t-1} is a rise less a fall, whose variables begin at ``first``."""
        n = T * self.dim
        own = np.arange(n)
        self._extend(own, own, np.ones(n))
        self._extend(own[self.dim :], own[: -self.dim], np.full(n - self.dim, -1.0))
        self._extend(own, first + own, np.full(n, -1.0))
        self._extend(own, first + n + own, np.ones(n))
        limits = np.zeros(n)
        limits[: self.dim] = origin
        self.limits.append(limits)
        self.count += n

    def build(self, matrix: Any, width: int) -> tuple[Any, Array | None]:
        if self.count == 0:
            return None, None
        rows, columns, values = (np.concatenate(parts) for parts in zip(*self.places, strict=True))
        return matrix((values, (rows, columns)), shape=(self.count, width)).tocsr(), np.concatenate(
            self.limits
        )


def cut_optimum(
    problem: CutProblem, gap: float, iterations: int, progress: Callable[[int, float], object] | None
) -> Optimum:
    """The optimum by cutting planes, to the gap or as far as the iterations go."""
    planes = _Planes(problem)
    best = np.tile(problem.domain.start, (problem.T, 1))
    paid = problem.paid(best)
    planes.look(best, 0)
    bound = -np.inf
    reached = np.inf
    done = 0
    for done in range(1, min(iterations, MOST_PROGRAMMES) + 1):
        u, proved = planes.solve(done)
        bound = max(bound, proved)
        inside = problem.domain.nearest(u)
        planes.cut_off(u, inside, done)
        between = problem.domain.nearest(best + HALFWAY * (inside - best))
        for offer in (inside, between):
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
    return Optimum(best, *paid, min(bound, sum(paid)), reached, "cutting planes", done)


def add_up(costs: Costs | ArrayLike) -> CallableCosts:
    """All rounds as one."""
    rounds = as_costs(costs)

    def value(_: int, x: Array) -> float:
        return float(rounds.values(np.tile(x, (rounds.T, 1))).sum())

    def subgradient(_: int, x: Array) -> Array:
        return rounds.subgradients(np.tile(x, (rounds.T, 1))).sum(axis=0)

    return CallableCosts(1, rounds.dim, value, subgradient)
