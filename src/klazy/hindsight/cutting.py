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
from klazy.base.linprog import solve_linear
from klazy.costs import CallableCosts, Costs, as_costs
from klazy.hindsight.optimum import EPS, Optimum
from klazy.hindsight.problem import KINDS, MOVEMENTS, Problem, norms
from klazy.movement import Movement

MOST_PROGRAMMES = 400  # each is larger than the one before
IDLE = 15  # programmes in a row in which a tangent had no part, after which it is dropped
HALFWAY = 0.5
OUTSIDE = 1e-9  # relative to the set's size, from which on a solution is cut off


def needs_cuts(costs: Any, movement: Any) -> bool:
    """Whether costs or movement are known by values and subgradients alone."""
    own_costs = isinstance(costs, Costs) and not has_steps(costs)
    own_movement = isinstance(movement, Movement) and movement.grouped is None
    return own_costs or (own_movement and movement.subgradient is not None)


def has_steps(costs: Costs) -> bool:
    """Say whether the proximal step of these costs is known."""
    return costs.family is not None and costs.family.has_prox


class CutProblem(Problem):
    """The offline problem of such costs. ``grouped`` is None for a movement that is no such price, but has subgradients."""

    def _read_movement(self, owner: str) -> tuple[Any, Array | None, Array]:
        movement = self.movement
        grouped = movement.grouped
        if movement.degree != 1.0 or movement.axes() is not None:
            grouped = None
        is_known = (movement.grouped, movement.degree) in KINDS
        if not is_known and movement.subgradient is None:
            known = f"a movement with a subgradient, or one of {MOVEMENTS}"
            raise refusal(owner, known, "movement", repr(movement), "give it a method subgradient(delta)")
        return grouped, None, np.ones(self.dim)  # multipliers here are of the plain steps

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
        """Compute a subgradient of the movement, before its weight."""
        movement = self.movement
        if movement.subgradient is not None:
            owner = f"{type(movement).__name__}.subgradient"
            return vector(movement.subgradient(delta), "subgradient", owner, self.dim)
        if not movement.grouped:  # of degree 3/2
            return 1.5 * self.prices * np.sign(delta) * np.sqrt(np.abs(delta))
        axes = movement.axes()
        along = delta if axes is None else delta @ axes
        slope = movement.stretch(self.dim) ** 2 * along
        size = float(movement.distance(delta)) if self.degree == 1.0 else 1.0
        return (slope if axes is None else axes @ slope) / (size or 1.0)


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

    def build(self) -> tuple[Any, Any]:
        """Build the matrix by which slopes act on a whole sequence, and the one that picks the round of each."""
        from scipy.sparse import csr_array

        m, d = self.slopes.shape
        each = np.arange(m + 1)
        columns = self.rounds[:, None] * d + np.arange(d)
        slopes = csr_array((self.slopes.ravel(), columns.ravel(), d * each), (m, self.T * d))
        return slopes, csr_array((np.ones(m), self.rounds, each), (m, self.T))

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
        from scipy.sparse import csr_array, eye_array, hstack, kron, vstack

        problem = self.problem
        T = problem.T
        d = problem.dim
        n = T * d
        priced = problem.grouped is False
        more = 2 * n if priced else T  # variables after the sequence and what its rounds cost
        cost = np.concatenate((np.zeros(n), np.ones(T), np.zeros(more)))
        low = np.concatenate((np.tile(self.low, T), np.full(T + more, -np.inf)))
        high = np.concatenate((np.tile(self.high, T), np.full(T + more, np.inf)))
        step = eye_array(n) - eye_array(n, k=-d)
        before = np.zeros(n)
        before[:d] = problem.origin
        tangents, own = self.tangents.build()
        walls, _ = self.walls.build()
        k = len(self.tangents.rounds)
        above = [
            hstack((tangents, -own, csr_array((k, more)))),
            hstack((walls, csr_array((walls.shape[0], T + more)))),
        ]
        limits = [-self.tangents.offsets, self.walls.offsets]
        equal = []
        sums = []
        if self.total is not None:
            equal.append(hstack((kron(eye_array(T), np.ones((1, d))), csr_array((T, T + more)))))
            sums.append(np.full(T, self.total))
        if priced:  # a step is a rise less a fall
            prices = problem.prices.reshape(2, 1, d)
            cost[n + T :] = (problem.weights[:, None] * prices).ravel()
            low[n + T :] = 0.0
            equal.append(hstack((step, csr_array((n, T)), -eye_array(n), eye_array(n))))
            sums.append(before)
        else:
            cost[n + T :] = problem.weights
            moves, own = self.moves.build()
            above.insert(1, hstack((moves @ step, csr_array(own.shape), -own)))
            limits.insert(1, moves @ before - self.moves.offsets)
        found = solve_linear(
            cost,
            A_ub=vstack(above).tocsr(),
            b_ub=np.concatenate(limits),
            A_eq=vstack(equal).tocsr() if equal else None,
            b_eq=np.concatenate(sums) if sums else None,
            bounds=np.column_stack((low, high)),
        )
        if found.x is None:
            raise ArithmeticError(
                f"offline_optimum needs a bounded linear programme, got {found.message}; scale the costs."
            )
        shares = -found.ineqlin.marginals
        e, h = self.tangents.combine(shares[:k], now)
        weights = problem.weights[:, None]
        if priced:
            mu = -np.reshape(found.eqlin.marginals[-n:], (T, d))
            up, down = np.split(problem.prices, 2)
            mu = np.clip(mu, -weights * down, weights * up)
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
