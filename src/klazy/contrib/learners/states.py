"""Rules for a few states without order: which region is primary, which provider is used, which model is loaded.

A state is a corner of ``Simplex(n)``, and the gradient of a round has what each state costs. What switching costs is a
:class:`~klazy.contrib.FiniteMetric`, or total variation where all switches cost the same.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from klazy.base.checks import Array, InvalidInput, integer, one_of, positive, vector
from klazy.learners.bandit import FromCosts, check_seed, make_generator
from klazy.learners.base import Learner, S, check_domain, check_start
from klazy.learners.wrapping import Wrapper
from klazy.movement import FiniteMetric, Movement, as_movement
from klazy.sets import ConvexSet, Simplex

NEWTON_STEPS = 30  # many fewer are needed


class StatesRule(Learner[S]):
    """Base class of rules that are in one state at a time.

    Parameters
    ----------
    domain : Simplex
        The states, as its corners.
    movement : Movement or str
        What switching costs, a norm: ``FiniteMetric(D=...)``, or ``"tv"``.
    start : array_like, optional
        The first state, as a corner. Default: the first one.
    """

    movement: Movement
    start: Array | None

    def __init__(self, domain: ConvexSet, movement: Movement | str, *, start: Any = None) -> None:
        if type(check_domain(domain)) is not Simplex:
            raise InvalidInput(
                f"domain must be a Simplex whose corners are states, got {domain!r}."
            )
        known = as_movement(movement)
        if known.degree != 1.0 or not known.is_steady:
            raise InvalidInput(
                f"movement must be a norm with one weight for all rounds, got {known!r}."
            )
        known.check(domain.dim)
        first = check_start(domain, start)
        if first is not None and np.count_nonzero(first) != 1:
            raise InvalidInput(f"start must be one state, got {first.tolist()}.")
        self._keep(domain=domain, movement=known, start=first)

    @cached_property
    def corners(self) -> Array:
        """The point of every state, of shape (n, n)."""
        return self.domain.lowest(-np.eye(self.domain.dim))

    @cached_property
    def switching(self) -> Array:
        """What every switch costs, of shape (n, n)."""
        return float(self.movement.weight) * self.movement.distance(
            self.corners[:, None] - self.corners
        )

    @cached_property
    def total(self) -> float:
        """What the shares of a point sum to."""
        return float(self.corners[0].sum())

    def first_point(self, x: Array | None) -> Array:
        if x is None and self.start is None:
            return self.corners[0]
        # A point between states counts as the one with the largest share.
        return self.corners[int(np.argmax(super().first_point(x)))]


class WorkState(NamedTuple):
    """The round, the state as a corner, and for every state the least that anybody pays who ends there."""

    t: int
    x: Array
    work: Array


class WorkFunction(StatesRule[WorkState]):
    r"""Go where the cheapest history ends, switching there included: the work function algorithm.

    .. math:: h_t(i) = w_{t-1}(i) + \ell_t(i), \qquad w_t(i) = \min_j \; h_t(j) + D_{ji}, \qquad
              s_{t+1} = \arg\min_{i:\, w_t(i) = h_t(i)} \; h_t(i) + D_{s_t i}

    Who knows a round's costs before deciding, as ``run_ahead(PlayNext(WorkFunction(...)))`` does, pays at most 2n - 1 times
    what the best sequence of states pays, plus a constant, and no rule without chance does better (Borodin, Linial and Saks,
    *An Optimal On-line Algorithm for Metrical Task System*, 1992). A learner decides first. It then pays the round's cost once
    more where it stands, and there is no such bound.

    Parameters
    ----------
    domain, movement, start
        As for :class:`~klazy.contrib.Stay`.

    Examples
    --------
    >>> costs = np.tile([[3.0, 0.0]], (6, 1))
    >>> run(WorkFunction(Simplex(2), TVMovement(5.0)), costs, movement=TVMovement(5.0)).x.argmax(axis=1).tolist()
    [0, 0, 0, 0, 1, 1]
    """

    def init(self, x: Array | None = None) -> WorkState:
        point = self.first_point(x)
        return WorkState(1, point, self.switching[int(np.argmax(point))])

    def step(self, state: WorkState, g: Array) -> WorkState:
        here = state.work + self.total * g
        work = (here[:, None] + self.switching).min(axis=0)
        # Histories that end here, and not elsewhere with a switch at the end; up to rounding.
        ends = here <= work + 1e-12 * (1.0 + np.abs(here).max())
        ways = np.where(ends, here + self.switching[int(np.argmax(state.x))], np.inf)
        best = int(np.argmin(ways))
        # Only differences matter, and numbers stay small.
        return WorkState(state.t + 1, self.corners[best], work - work.min())


class StayState(NamedTuple):
    """The round, the state as a corner, and what each state would have saved since the last switch."""

    t: int
    x: Array
    saved: Array


class Stay(StatesRule[StayState]):
    r"""Stay until another state would have saved ``times`` what switching to it costs, since the last switch.

    The rule of thumb of renting and buying: with two states and ``times=1``, it waits until waiting has cost as much as
    switching.

    Parameters
    ----------
    domain : Simplex
        The states, as its corners.
    movement : Movement or str
        What switching costs, a norm: ``FiniteMetric(D=...)``, or ``"tv"``.
    times : float, optional
        Above 0: how patient it is. Default: 1.
    start : array_like, optional
        The first state, as a corner. Default: the first one.

    Examples
    --------
    >>> costs = np.tile([[3.0, 0.0]], (4, 1))
    >>> run(Stay(Simplex(2), TVMovement(5.0)), costs, movement=TVMovement(5.0)).x.argmax(axis=1).tolist()
    [0, 0, 1, 1]
    """

    times: float

    def __init__(
        self,
        domain: ConvexSet,
        movement: Movement | str,
        times: float = 1.0,
        *,
        start: Any = None,
    ) -> None:
        super().__init__(domain, movement, start=start)
        self._keep(times=positive(times, "times"))

    def init(self, x: Array | None = None) -> StayState:
        return StayState(1, self.first_point(x), np.zeros(self.domain.dim))

    def step(self, state: StayState, g: Array) -> StayState:
        now = int(np.argmax(state.x))
        saved = np.maximum(state.saved + self.total * (g[now] - g), 0.0)
        gain = saved - self.times * self.switching[now]
        gain[now] = 0.0
        best = int(np.argmax(gain))
        if gain[best] <= 0.0:
            return StayState(state.t + 1, state.x, saved)
        return StayState(state.t + 1, self.corners[best], np.zeros(self.domain.dim))


class OneStateState(NamedTuple):
    """The round, the state as a corner, and the learner's own state."""

    t: int
    x: Array
    inner: Any


class OneState(Wrapper[OneStateState]):
    r"""Be in one state at a time, drawn from the shares of a learner such that switching costs no more than its moves do.

    State i has probability :math:`z_{t,i}` in round t, the learner's share of it, if costs do not depend on the draws. As in
    :func:`~klazy.contrib.sample_actions` it is left with probability :math:`(z_{t,i} - z_{t+1,i})^+ / z_{t,i}`, for a state to
    which the cheapest way takes that. So both costs are on average what the learner pays for its shares: under a
    :class:`~klazy.contrib.FiniteMetric` or ``"tv"`` that is what its moves cost. Draws follow from ``seed`` and the round, so
    that an agent in a store, and its history, repeat them.

    Parameters
    ----------
    learner : Learner
        Who divides the shares, on a ``Simplex``. It must take gradients.
    movement : Movement or str, optional
        What switching costs. Default: the learner's own.
    seed : int, optional
        Where draws come from. Default: 0. Whoever knows it, and may choose costs, can make every draw a bad one.

    Examples
    --------
    >>> costs = np.tile([[3.0, 0.0]], (6, 1))
    >>> switching = TVMovement(5.0)
    >>> learner = OneState(TreeDescent(Simplex(2), switching), seed=3)
    >>> run(learner, costs, movement=switching).x.argmax(axis=1).tolist()
    [0, 0, 1, 1, 1, 1]
    """

    movement: Movement
    seed: int

    def __init__(
        self, learner: Learner[Any], movement: Movement | str | None = None, *, seed: int = 0
    ) -> None:
        self._wrap(learner, by_gradients=True)
        if type(self.domain) is not Simplex:
            raise InvalidInput(f"learner must play on a Simplex, got {self.domain!r}.")
        known = learner.own_movement if movement is None else as_movement(movement)
        known.check(self.domain.dim)
        self._keep(movement=known, seed=check_seed(seed))

    @property
    def own_movement(self) -> Movement:
        return self.movement

    def describe_memory(self, state: OneStateState) -> str:
        shares = ", ".join(f"{share:.3g}" for share in state.inner.x / state.inner.x.sum())
        return f"It was drawn from the shares {shares}."

    def init(self, x: Array | None = None) -> OneStateState:
        inner = self.learner.init(x)
        (level,) = make_generator(self.seed, 1).random_sample(1)
        return OneStateState(1, self._draw(inner.x, level), inner)

    def step(self, state: OneStateState, g: Array) -> OneStateState:
        inner = self.learner.step(state.inner, g)
        before, after = state.inner.x, inner.x
        now = int(np.argmax(state.x))
        held, level = make_generator(self.seed, state.t + 1).random_sample(2)
        gains = np.maximum(after - before, 0.0)
        x = state.x
        if held * before[now] >= after[now] and gains.any():
            if isinstance(self.movement, FiniteMetric):
                gains = self.movement.send(after - before, now)
            x = self._draw(gains, level)
        return OneStateState(state.t + 1, x, inner)

    def _draw(self, shares: Array, level: float) -> Array:
        """Return the corner of the state at a level, from 0 to 1, of the sum of all shares."""
        heap = np.cumsum(shares)
        chosen = int(np.searchsorted(heap, level * heap[-1], side="right"))
        corner = np.zeros_like(shares)
        corner[min(chosen, len(shares) - 1)] = self.domain.start.sum()
        return corner

    def check_state(self, state: Any) -> OneStateState:
        t = self._check_kind(state, OneStateState)
        inner = self.learner.check_state(state.inner)
        x = vector(state.x, "state.x", self.domain.dim)
        self._check_inside(x)
        if np.count_nonzero(x) != 1:
            raise InvalidInput(f"state.x must be one state, got {x.tolist()}.")
        return OneStateState(t, x, inner)


class ArmState(NamedTuple):
    """The round, the state as a corner, estimates of what each state has cost, and what the present block has cost."""

    t: int
    x: Array
    losses: Array
    block: float


class BlockedArms(FromCosts, StatesRule[ArmState]):
    r"""Choose among states when only the cost of the one in use is known, and hold each choice for a block of rounds.

    A block is a round of Exp3 (Auer, Cesa-Bianchi, Freund and Schapire, 2002) or of Tsallis-INF (Zimmert and Seldin, 2021): it
    draws a state, and estimates the costs of all by what this one has cost over its chance. Blocks have
    :math:`(D^2 T / n)^{1/3}` rounds, where D is the most expensive switch in units of the largest cost. Regret, switching
    included, is then of the order :math:`T^{2/3}`, and no rule has a lower order (Dekel, Ding, Koren and Peres, 2014).

    Parameters
    ----------
    domain : Simplex
        The states, as its corners.
    movement : Movement or str
        What switching costs, a norm.
    horizon : int
        The number of rounds T that is expected.
    largest : float, optional
        The most that a round costs; the least is 0. Default: 1.
    method : str, optional
        ``"tsallis"``, the default, or ``"exp3"``.
    seed : int, optional
        Where draws come from. Default: 0.

    Examples
    --------
    >>> costs = np.tile([[0.9, 0.1, 0.8]], (3000, 1))
    >>> trace = run(BlockedArms(Simplex(3), "tv", horizon=3000), costs, movement="tv")
    >>> bool(trace.x[-500:, 1].mean() > 0.5)
    True
    """

    horizon: int
    largest: float
    method: str
    seed: int

    def __init__(
        self,
        domain: ConvexSet,
        movement: Movement | str,
        horizon: int,
        *,
        largest: float = 1.0,
        method: str = "tsallis",
        seed: int = 0,
    ) -> None:
        super().__init__(domain, movement)
        self._keep(
            horizon=integer(horizon, "horizon"),
            largest=positive(largest, "largest"),
            method=one_of(method, "method", ("tsallis", "exp3")),
            seed=check_seed(seed),
        )

    @cached_property
    def block_length(self) -> int:
        """How many rounds each choice is held."""
        dearest = float(self.switching.max()) / self.largest
        return max(1, round((dearest**2 * self.horizon / self.domain.dim) ** (1.0 / 3.0)))

    def init(self, x: Array | None = None) -> ArmState:
        losses = np.zeros(self.domain.dim)
        point = self._draw(1, losses) if x is None else self.first_point(x)
        return ArmState(1, point, losses, 0.0)

    def step(self, state: ArmState, g: Array) -> ArmState:
        """Learn from a linear cost with gradient ``g``, of which only the cost of the present state is used.

        Parameters
        ----------
        state : ArmState
            The state in the round.
        g : array
            The gradient of the round's cost.

        Returns
        -------
        ArmState
            The state in the next round.
        """
        return self.learn(state, np.array([g @ state.x]))

    def learn(self, state: ArmState, values: Array) -> ArmState:
        """End the round with its cost.

        Parameters
        ----------
        state : ArmState
            The state in the round.
        values : array
            The cost of the state in use, of shape (1,).

        Returns
        -------
        ArmState
            The state in the next round.
        """
        t, x, losses, block = state
        block += float(values[0])
        if t % self.block_length == 0:
            arm = int(np.argmax(x))
            losses = losses.copy()
            losses[arm] += (
                block / (self.largest * self.block_length) / self._chances(t, losses)[arm]
            )
            x = self._draw(t + 1, losses)
            block = 0.0
        return ArmState(t + 1, x, losses, block)

    def skip(self, state: ArmState) -> ArmState:
        """End a round whose cost is not known, as one that cost nothing.

        Parameters
        ----------
        state : ArmState
            The state in the round.

        Returns
        -------
        ArmState
            The state in the next round.
        """
        return self.learn(state, np.zeros(1))

    def probes(self, state: ArmState) -> Array:
        """List the points whose costs are wanted: that of the state in use.

        Parameters
        ----------
        state : ArmState
            The state in the round.

        Returns
        -------
        array
            The point, of shape (1, n).
        """
        return state.x[None]

    def estimate(self, state: ArmState, values: Array) -> Array:
        """Write what is known of the round's costs as a gradient: the cost of the state in use.

        Parameters
        ----------
        state : ArmState
            The state in the round.
        values : array
            The cost of the state in use, of shape (1,).

        Returns
        -------
        array
            Zeros, but for that state.
        """
        return values[0] / self.total**2 * state.x

    def _draw(self, t: int, losses: Array) -> Array:
        """Draw the state of the block that begins in round t."""
        level = make_generator(self.seed, t).random_sample()
        chosen = np.searchsorted(np.cumsum(self._chances(t, losses)), level)
        return self.corners[min(int(chosen), self.domain.dim - 1)]

    def _chances(self, t: int, losses: Array) -> Array:
        """Return the chances of all states in the block of round t."""
        n = self.domain.dim
        block = 1 + (t - 1) // self.block_length
        if self.method == "exp3":
            blocks = max(1.0, self.horizon / self.block_length)
            rate = math.sqrt(2.0 * math.log(max(n, 2)) / (blocks * n))
            shares = np.exp(-rate * (losses - losses.min()))
            return shares / shares.sum()
        rate = 2.0 / math.sqrt(block)
        # Newton's method for the number below all losses with which the chances 4 / (rate (loss - number))^2 sum to 1. From
        # here on their sum is at least 1 and convex, so that no step goes too far.
        number = float(losses.min()) - 2.0 / rate
        shares = 4.0 / (rate * (losses - number)) ** 2
        for _ in range(NEWTON_STEPS):
            number -= (float(shares.sum()) - 1.0) / (rate * float((shares**1.5).sum()))
            shares = 4.0 / (rate * (losses - number)) ** 2
        return shares / shares.sum()
