"""The offline problem once its input is checked: what a sequence pays, and what no sequence can pay less than."""

from copy import copy
from functools import cached_property
from typing import Any

import numpy as np

from klazy.base.checks import Array, InvalidInput, coordinates
from klazy.costs import Costs
from klazy.families import Minorant
from klazy.game.game import Game
from klazy.hindsight.optimum import EPS, Optimum
from klazy.kernels import codes
from klazy.movement import Movement
from klazy.sets import Box, ConvexSet, Intersection
from klazy.sets.base import check_bounded
from klazy.sets.limits import LimitedSet

MOVEMENTS = (  # in an error message
    "L2Movement, WeightedL2Movement, MahalanobisMovement, L1Movement, TVMovement, AsymmetricMovement, "
    "SquaredMovement, ImpactMovement"
)
# whether a step is priced as a whole, and the power of its length
KINDS = ((True, 1.0), (False, 1.0), (True, 2.0), (False, 1.5))


class Problem:
    r"""Minimise :math:`\sum_t f_t(u_t) + \lambda_t m(u_t - u_{t-1})` over all sequences in the set.

    The movement is m(delta) = \|c delta\|_2 where ``grouped``, else up and down prices per coordinate with c = 1; of ``degree``
    2 it is half the square of that norm, and of degree 3/2 a sum of powers of coordinates. The first round's weight is zero
    if there is no ``x0`` to leave. ``size``, if set, is what gaps are relative to. ``limits`` are those of a step, up and down
    as in ``prices``; the step to the first round has none if there is no ``x0``. Rounds that are ``held`` stay where the
    one before them is: ``lead`` of them, at ``x0`` or after the first round. ``sets`` is the set of each round: what limits
    ``within`` the domain leave of it, or the domain itself.

    Where c is meant along other ``axes`` than the coordinates, ``origin``, multipliers, iterates, proximal steps and minorants
    are written along these; what :meth:`paid` takes is not.
    """

    costs: Any
    size = 0.0

    def __init__(
        self,
        game: Game,
        domain: ConvexSet,
        limits: Array | None = None,
        lead: int = 0,
        within: LimitedSet | None = None,
    ) -> None:
        game.costs.check_finite()
        self.domain = domain
        self.within = within
        self.sets = domain if within is None else within
        self.costs = game.costs
        self.T = self.costs.T
        self.dim = self.costs.dim
        self.movement = game.movement
        self.degree = self.movement.degree
        self.prices = self.movement.prices(self.dim)
        self.needs_cuts = needs_cuts(self.costs, self.movement)
        self.grouped = self._check_grouped()
        self.axes = self.movement.axes()
        self.c = self.movement.stretch(self.dim)
        if self.needs_cuts:
            # The multipliers of cutting planes are those of plain steps.
            self.axes = None
            self.c = np.ones(self.dim)
        self.x0 = game.x0
        self.weights = np.full(self.T, game.weights)
        if self.x0 is None:
            self.weights[0] = 0.0
        self.limits = np.full(2 * self.dim, np.inf) if limits is None else limits
        self.is_limited = bool(np.isfinite(self.limits).any())
        self.held = hold_first(self.T, lead, self.x0)
        # Whether steps are limited at all, so that sequences must be changed to obey the limits.
        self.is_tied = self.is_limited or lead > 0
        self.before = np.zeros(self.dim) if self.x0 is None else self.x0
        self.origin = self.turn(self.before)

    def _check_grouped(self) -> bool | None:
        """Return whether a step is priced as a whole; None if cutting planes know its price by subgradients alone."""
        movement = self.movement
        is_known = (movement.grouped, movement.degree) in KINDS
        if self.needs_cuts:
            if not is_known and movement.subgradient is None:
                raise InvalidInput(
                    f"movement must be one of {MOVEMENTS} or have a method subgradient(delta), got {movement!r}."
                )
            is_plain = movement.degree == 1.0 and movement.axes() is None
            return movement.grouped if is_plain else None
        if not is_known:
            message = f"movement must be one of {MOVEMENTS}, got {movement!r}."
            if not movement.is_fee and not movement.is_drifting:
                message += (
                    " If it is convex, give it a method subgradient(delta) for offline_optimum."
                )
            raise InvalidInput(message)
        return movement.grouped

    def turn(self, points: Array) -> Array:
        """Write points along the movement's axes."""
        return points if self.axes is None else points @ self.axes

    def turn_back(self, points: Array) -> Array:
        """Write points by coordinates again."""
        return points if self.axes is None else points @ self.axes.T

    @property
    def is_linear(self) -> bool:
        """Whether the costs are linear."""
        return codes.code_of(self.costs) == codes.LINEAR

    @property
    def is_merged(self) -> bool:
        """Whether costs and set have one proximal step together, Proj(shrink a + shift)."""
        return self.costs.family is not None and self.costs.family.has_affine

    def affine(self, r: float) -> tuple[Array, Array]:
        """Return shrink and shift of a merged step; those of no step if it is not merged."""
        if not self.is_merged:
            return np.ones(1), np.zeros((0, self.dim))
        shrink, shift = self.costs.family.affine(self.costs.data, r)
        return shrink, self.turn(shift)

    def prox(self, a: Array, r: float) -> Array:
        """Take the proximal steps of all rounds, without a set."""
        return self.turn(self.costs.family.prox(self.costs.data, self.turn_back(a), r))

    def minorant(self, v: Array, h: Array) -> Minorant:
        """Give an affine function below every f_t, from the step v and its own subgradient h = r (a - v)."""
        e, slope = self.costs.family.minorant(
            self.costs.data, self.turn_back(v), self.turn_back(h)
        )
        return e, self.turn(slope)

    @property
    def ties(self) -> Array:
        """What ties a round to the last one in the splitting method: its weight, or a limit where moving is free."""
        if not self.is_tied:
            return self.weights
        ties = np.where(self.weights > 0.0, self.weights, 1.0)
        if self.x0 is None:
            ties[0] = 0.0
        return ties

    def keep_within(self, u: Array) -> Array:
        """Follow a sequence as far as the limits of a step allow."""
        if not self.is_tied:
            return u
        last = int(np.flatnonzero(self.held).max(initial=-1))
        kept = np.array(u)
        kept[: last + 1] = self.x0 if self.held[0] else u[max(last, 0)]
        start = kept[0] if self.x0 is None else self.before
        return keep_within(kept, start, self.limits, self.domain)

    def with_weight(self, factor: float) -> "Problem":
        """Return the same problem with every movement weight multiplied."""
        other = copy(self)
        other.weights = factor * self.weights
        return other

    @property
    def free(self) -> bool:
        """Whether some step costs nothing, so that standing still is not all that pays nothing for moving."""
        prices = self.movement.stretch(self.dim) if self.movement.grouped else self.prices
        return bool((self.weights[1:] <= 0.0).any() or (prices <= 0.0).any())

    @cached_property
    def steepness(self) -> float:
        """The mean norm of the costs' gradients at the start of the set; zero where there are none."""
        start = self.domain.start
        family = self.costs.family
        if family is None:
            total = norms(self.costs.subgradients(np.tile(start, (self.T, 1))))
        else:
            total = float(np.sum(family.steepness(self.costs.data, start)))
        return total / self.T if np.isfinite(total) else 0.0

    @cached_property
    def _reach(self) -> float:
        return self.domain.reach(np.zeros(self.dim))

    @cached_property
    def unit(self) -> float:
        """The smallest denominator of a relative gap, as :class:`Optimum` defines it: a hundredth of the range of the costs."""
        size = self.domain.scale
        swing = self.T * self.steepness * size
        if swing == 0.0:
            swing = (
                float(self.weights.sum()) * self.movement.lipschitz(self.dim) * size**self.degree
            )
        return 0.01 * swing

    def gap(self, cost: float, lower_bound: float) -> float:
        """Return the relative gap: zero for a cost that meets its bound, infinite for an infinite cost."""
        missing = cost - lower_bound
        size = self.size or max(abs(cost), self.unit)
        if missing <= 0.0:
            return 0.0
        return missing / size if size > 0.0 and np.isfinite(missing) else np.inf

    def certify(
        self, u: Array, paid: tuple[float, float], bound: float, method: str, iterations: int = 0
    ) -> Optimum:
        """Return a sequence that pays this much for hitting and for moving, with its bound."""
        cost = sum(paid)
        bound = min(bound, cost)
        return Optimum(u, *paid, bound, self.gap(cost, bound), method, iterations)

    def paid(self, u: Array) -> tuple[float, float]:
        """Charge a sequence for hitting (inf outside the domain of the costs) and for moving."""
        hitting = float(self.costs.values(u).sum())
        moved = self.movement.distance(np.diff(u, axis=0, prepend=self.before[None]))
        return hitting if hitting == hitting else np.inf, float(self.weights @ moved)

    def steps(self, u: Array) -> Array:
        """Return the steps c (u_t - u_{t-1}) of a sequence that is written along the axes."""
        return self.c * np.diff(u, axis=0, prepend=self.origin[None])

    def lower_bound(
        self, minorant: Minorant, mu: Array, x: Array | None = None, normal: Array | None = None
    ) -> float:
        """Return the value of a dual point: minorants of the costs, and prices ``mu`` of the steps c (u_t - u_{t-1}).

        Any mu is admissible whose norm is at most the weight (or which is between the prices): then moving costs at least
        <mu_t, c (u_t - u_{t-1})>, and the rest is one linear function per round. Of a higher degree, or where steps are
        limited, every mu is, and moving costs at least that less the :meth:`conjugate`. Points ``x`` with a ``normal`` there
        spare the set's lowest points.
        """
        e, h = minorant
        m = self.c * mu
        p = h + m
        p[:-1] -= m[1:]
        if x is None or normal is None:
            lowest = np.vecdot(p, self.sets.lowest(p))
        else:
            lowest = lowest_of(
                self.sets, self.turn_back(p), self.turn_back(x), self.turn_back(normal)
            )
        less = self.conjugate(mu)
        value = float(e.sum() + lowest.sum() - m[0] @ self.origin) - less
        return (
            value - self.rounding(norms(h), norms(m)) - 16 * EPS * (float(np.abs(e).sum()) + less)
        )

    def conjugate(self, mu: Array) -> float:
        """Return by how much <mu_t, z_t> can exceed the cost of all steps z_t; zero where that is a norm without limits."""
        # A step that must not move is zero for every multiplier.
        mu = np.where(self.held[:, None], 0.0, mu)
        if self.is_limited:
            # A multiplier above a price gains most by the longest step allowed; without a limit none is above.
            pressed = np.concatenate((mu, -mu), axis=1) - self.weights[:, None] * self.prices
            longest = np.where(np.isfinite(self.limits), self.limits, 0.0)
            return float((longest * np.maximum(pressed, 0.0)).sum())
        if self.degree == 1.0 or self.needs_cuts:
            return 0.0
        if self.degree == 2.0:
            square = np.vecdot(mu, mu)
            return float(
                np.divide(
                    square, 2.0 * self.weights, where=square > 0.0, out=np.zeros(self.T)
                ).sum()
            )
        size = np.abs(mu)
        price = self.weights[:, None] * self.prices
        power = 4.0 * size**3
        return float(
            np.divide(power, 27.0 * price**2, where=power > 0.0, out=np.zeros(mu.shape)).sum()
        )

    def rounding(self, slopes: float, multipliers: float) -> float:
        """Bound what rounding can have added to a dual value, from the sums of the norms of all slopes and multipliers: every
        round adds d products of sums of three terms, 64 rounds may be added one by one, and such blocks are added pairwise."""
        reach = self._reach + float(np.linalg.norm(self.origin))
        return (self.dim + 100) * EPS * (slopes + 2.0 * multipliers) * reach


def hold_first(T: int, lead: int, x0: Array | None) -> np.ndarray:
    """Return which rounds cannot move: the first ``lead`` ones, or those after the first if nothing was before it."""
    rounds = np.arange(T)
    if x0 is None:
        return (rounds > 0) & (rounds <= lead)
    return rounds < lead


def check_limits(ramp: Any, dim: int) -> Array | None:
    """Return how far each coordinate may rise and fall in a round, of ``ramp=(down, up)``; None if there is no limit."""
    if ramp is None:
        return None
    if not isinstance(ramp, tuple | list) or len(ramp) != 2:
        raise InvalidInput(
            f"ramp must be (down, up), got {ramp!r}. Use None for a side without a limit."
        )
    down, up = (
        np.full(dim, np.inf) if limit is None else coordinates(limit, name, dim)
        for limit, name in zip(ramp, ("ramp[0]", "ramp[1]"), strict=True)
    )
    limits = np.concatenate((up, down))
    if not (limits > 0.0).all():
        raise InvalidInput(
            f"ramp must be above 0, got {ramp!r}. Use None for a side without a limit."
        )
    return limits


def keep_within(u: Array, start: Array, limits: Array, domain: ConvexSet) -> Array:
    """Limit the steps of a sequence that begins at ``start``; the result stays in the set."""
    from klazy.kernels.offline import keeping_kernel

    kept = np.empty_like(u)
    keeping_kernel()(np.ascontiguousarray(u), np.array(start), limits, domain.separable, kept)
    return kept


def check_set(domain: object, function: str) -> None:
    """Reject anything but a set, as an argument of this function."""
    if not isinstance(domain, ConvexSet):
        kind = type(domain).__name__
        example = f"{function}(costs, L2Ball(5))"
        raise InvalidInput(
            f"domain must be a ConvexSet, got {kind}. Did you swap the arguments? {example}"
        )


def take_bounded(domain: ConvexSet, game: Game, is_limited: bool = False) -> ConvexSet:
    """Return the set, or of one without bounds a part that holds every sequence that pays no more than standing still.

    That is known for squared distances: a sequence that charges more above the minimum in one round than standing still does in
    all of them pays more. Other costs on a set without bounds are rejected, and rounds with limits, which may forbid to stand
    still.
    """
    costs: Any = game.costs
    if domain.bounded or is_limited or codes.code_of(costs.family) != codes.QUADRATIC:
        check_bounded(domain)
        return domain
    costs.check_finite()
    targets, weights, _ = costs.arrays()
    weights = np.broadcast_to(weights, costs.T)
    if not (weights > 0.0).all():
        check_bounded(domain)
    lowest = domain.nearest(targets)
    still = domain.nearest(np.average(targets, axis=0, weights=weights))
    excess = costs.values(np.tile(still, (costs.T, 1))) - costs.values(lowest)
    excess = excess.sum() + float(game.weights[0]) * game.measure_first_move(still)
    reach = np.sqrt(2.0 * excess / weights)[:, None]
    # Double the reach, against rounding; where nothing is to be gained by moving any box will do.
    reach = np.where(reach > 0.0, 2.0 * reach, 1.0)
    around = Box((lowest - reach).min(axis=0), (lowest + reach).max(axis=0))
    return Intersection([domain, around]).simplest


def needs_cuts(costs: Costs, movement: Movement | None) -> bool:
    """Return True if costs or movement are known by values and subgradients alone."""
    if not has_steps(costs):
        return True
    return movement is not None and movement.grouped is None and movement.subgradient is not None


def has_steps(costs: Costs) -> bool:
    """Return True if the proximal step of these costs is known."""
    return costs.family is not None and costs.family.has_prox


def norms(rows: Array) -> float:
    """Return the sum of the norms of all rows."""
    return float(np.sqrt(np.einsum("ti,ti->t", rows, rows)).sum())


def lowest_of(domain: ConvexSet | LimitedSet, p: Array, x: Array, normal: Array) -> Array:
    r"""Bound :math:`\min_{y \in X} \langle p, y \rangle` from below for every row, by the minimum itself where that is cheap.

    Else by a point x of the set and a normal n there: <n, y - x> <= 0 gives <p, y> >= <p, x> - \|p + s n\| D for any s >= 0.
    """
    if domain.cheap_lowest:
        return np.vecdot(p, domain.lowest(p))
    square = np.vecdot(normal, normal)
    s = np.maximum(-np.vecdot(p, normal), 0.0) / np.where(square > 0.0, square, 1.0)
    return np.vecdot(p, x) - np.linalg.norm(p + s[:, None] * normal, axis=1) * domain.diameter
