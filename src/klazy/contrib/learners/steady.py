"""Small regret on every interval, movement included, by learners of several paces whose weights change slowly."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from klazy.base.checks import Array, non_negative, positive, refusal, size
from klazy.learners.base import Learner
from klazy.learners.gd import GD
from klazy.movement import L2Movement, Movement
from klazy.sets import ConvexSet
from klazy.sets.base import check_bounded

LONGEST = 1.25  # by how much evidence changes in a round, at most, where certainty takes no more than a quarter of n
SLACK = 0.7  # beside what squares and changes cost: the proof needs a pace A >= K exp(0.625 / A), which K + 0.7 is
SEARCHES = 200  # halvings


class SteadyState(NamedTuple):
    """The descents, the evidence for each beside all longer ones, and what their last moves and those of the mixtures cost."""

    t: int
    x: Array
    experts: tuple[Any, ...]
    evidence: Array
    moved: Array
    mixture_moved: Array


class SteadyAdaptive(Learner[SteadyState]):
    r"""Small regret on every interval, movement included, with weights that change slowly.

    Descents tuned to T, T/2, T/4, ... rounds are mixed one after the other, the longest first: :math:`z_0 = x_0`,
    :math:`z_j = (1 - w_j) z_{j-1} + w_j x_j`. The evidence :math:`y_j` for the j-th, tuned to n rounds, is what it saved
    beside the mixture of the longer ones, movement included, as a share of the most it can save, M. It fades by 1/n a round;
    evidence beyond certainty, or below none, is not added. The weight :math:`w_j = g(y_j)` grows from 0 at no evidence to 1
    at :math:`U`, with :math:`g' = (y g / n + 1/T) / A`: slowly enough that what its changes move is paid for by what they
    save. So the weights move the point by at most :attr:`most_moved` a round, and :meth:`bound` holds for the regret on every
    interval, of order :math:`M \sqrt{\tau \ln T}` for one of :math:`\tau` rounds. The proof is on the page Theory. Its
    constants are large: it follows a shorter descent only after that was better for hundreds of rounds.

    Reference for the idea, with other weights: Zhang, Jiang, Yi and Yang, *Smoothed Online Convex Optimization Based on
    Discounted-Normal-Predictor* (2022).

    Parameters
    ----------
    domain : ConvexSet
        Where decisions live.
    T : int
        The number of rounds, or more.
    G : float
        The largest norm of a gradient.
    movement_weight : float, optional
        The price of moving a Euclidean unit. Default: 1.
    start : array_like, optional
        First decision. Default: the set's point nearest to the origin.

    Raises
    ------
    ValueError
        If the set has no bounds, or T or G is not above zero.

    Examples
    --------
    >>> learner = SteadyAdaptive(L2Ball(2), T=4000, G=1.0)
    >>> learner.lengths, round(learner.bound(4000)), round(learner.bound(250))
    ((4000, 2000, 1000, 500), 890, 633)
    """

    T: int
    G: float
    movement_weight: float
    start: Array | None
    movement: L2Movement

    def __init__(
        self,
        domain: ConvexSet,
        T: int,
        G: float,
        movement_weight: float = 1.0,
        *,
        start: ArrayLike | None = None,
    ) -> None:
        owner = "SteadyAdaptive"
        if not isinstance(domain, ConvexSet):
            raise refusal(
                owner, "a set to play on", "domain", repr(domain), f"write {owner}(L2Ball(5), 1000, 1.0)"
            )
        check_bounded(domain, owner)
        x1 = domain.start_at(start, owner)
        self._keep(
            domain=domain,
            T=size(T, "T", owner, "a horizon T >= 1", "give the number of rounds, or more"),
            G=positive(G, "G", owner, "give a bound on the gradients' norms"),
            movement_weight=non_negative(movement_weight, "movement_weight", owner),
            start=None if start is None else x1,
        )
        self._keep(movement=L2Movement(self.movement_weight))
        sigmas = [self._steepness * math.sqrt(n) / domain.scale for n in self.lengths]
        self._keep(experts=tuple(GD(domain, sigma) for sigma in sigmas))

    @cached_property
    def _steepness(self) -> float:
        return math.sqrt(self.G**2 + 2.0 * self.movement_weight * self.G)

    @cached_property
    def _toll(self) -> float:
        """K: what the square of a change of evidence, and the movement it causes, cost at most."""
        return LONGEST**2 / 2.0 + LONGEST * self.movement_weight / self.G

    @property
    def pace(self) -> float:
        """A: the larger, the slower weights change."""
        return self._toll + SLACK

    @cached_property
    def lengths(self) -> tuple[int, ...]:
        """The rounds to which the descents are tuned, down to those in which no evidence would be certain."""
        found = [self.T]
        n = self.T // 2
        while n >= 1 and find_certainty(n, self.T, self.pace) + 1.0 <= n / 4.0:
            found.append(n)
            n //= 2
        return tuple(found)

    @cached_property
    def certainties(self) -> tuple[float, ...]:
        """U for each descent but the first."""
        return tuple(find_certainty(n, self.T, self.pace) for n in self.lengths[1:])

    @cached_property
    def changes(self) -> tuple[float, ...]:
        """The steepest slope of each weight."""
        pairs = zip(self.lengths[1:], self.certainties, strict=True)
        return tuple((U / n + 1.0 / self.T) / self.pace for n, U in pairs)

    @cached_property
    def most_moved(self) -> float:
        """How far changes of the weights move the point in a round, at most."""
        return self.domain.scale * LONGEST * sum(self.changes)

    @cached_property
    def worst(self) -> float:
        """M, the most that a round can cost more for one of them than for another or a fixed point, movement included."""
        stride = self.G * self.domain.scale / (self._steepness * math.sqrt(self.lengths[-1]))
        return self.G * self.domain.scale + self.movement_weight * (stride + self.most_moved)

    @property
    def own_movement(self) -> Movement:
        return self.movement

    def bound(self, length: int) -> float:
        """Bound its regret on any interval, movement included.

        On short intervals this is the trivial bound: the most that a single round can cost, M, times the rounds.

        Parameters
        ----------
        length : int
            The rounds of the interval.

        Returns
        -------
        float
            The most that it can cost more than a fixed point there.

        Raises
        ------
        ValueError
            If the length is not a whole number above zero.
        """
        rounds = size(
            length, "length", "SteadyAdaptive.bound", "length >= 1", "give the rounds of an interval"
        )
        j = sum(n >= rounds for n in self.lengths[1:])
        n = self.lengths[j]
        D = self.domain.scale
        sigma = self._steepness * math.sqrt(n) / D
        total = sigma * D * D / 2.0 + rounds * self._steepness**2 / (2.0 * sigma)
        if j > 0:
            certain = self.certainties[j - 1]
            fades = certain / n + self._toll * self.changes[j - 1]
            total += self.worst * (certain + 1.0 + rounds * fades)
        later = sum(certain / 2.0 + 1.0 + rounds / self.T for certain in self.certainties[j:])
        return min(total + self.worst * later, self.worst * rounds)

    def weights(self, state: SteadyState) -> Array:
        """Give the weight of each descent in the point about to be played.

        Parameters
        ----------
        state : SteadyState
            The state in the round.

        Returns
        -------
        array
            One weight per descent, the longest first; they add up to 1.
        """
        shares = self._shares(state.evidence)
        left = np.append(np.cumprod((1.0 - shares)[::-1])[::-1], 1.0)
        return left * np.append(1.0, shares)

    def init(self, x: Array | None = None) -> SteadyState:
        if x is None:
            x = self.domain.start if self.start is None else self.start
        experts = tuple(expert.init(x) for expert in self.experts)
        N = len(experts)
        return SteadyState(1, x, experts, np.zeros(N - 1), np.zeros(N), np.zeros(N))

    def step(self, state: SteadyState, g: Array) -> SteadyState:
        points = np.array([expert.x for expert in state.experts])
        mixtures = self._mix(points, state.evidence)
        saved = (mixtures[:-1] - points[1:]) @ g + state.mixture_moved[:-1] - state.moved[1:]
        evidence = self._learn(state.evidence, np.clip(saved / self.worst, -1.0, 1.0))
        experts = tuple(expert.step(own, g) for expert, own in zip(self.experts, state.experts, strict=True))
        following = np.array([expert.x for expert in experts])
        mixed = self._mix(following, evidence)
        moved = self._price(following - points)
        return SteadyState(state.t + 1, mixed[-1], experts, evidence, moved, self._price(mixed - mixtures))

    def _learn(self, evidence: Array, saved: Array) -> Array:
        """The evidence after a round: it fades, and what was saved is added unless it is beyond its ends already."""
        n = np.array(self.lengths[1:])
        enough = (evidence > self.certainties) & (saved > 0.0)
        none = (evidence < 0.0) & (saved < 0.0)
        return (1.0 - 1.0 / n) * evidence + np.where(enough | none, 0.0, saved)

    def _shares(self, evidence: Array) -> Array:
        pairs = zip(evidence.tolist(), self.lengths[1:], strict=True)
        return np.array([find_weight(y, n, self.T, self.pace) for y, n in pairs])

    def _mix(self, points: Array, evidence: Array) -> Array:
        """The mixture of the longest alone, of the longest two, and so on."""
        mixtures = [points[0]]
        for share, point in zip(self._shares(evidence).tolist(), points[1:], strict=True):
            mixtures.append((1.0 - share) * mixtures[-1] + share * point)
        return np.array(mixtures)

    def _price(self, delta: Array) -> Array:
        return self.movement.weight * self.movement.distance(delta)


def find_weight(y: float, n: int, T: int, pace: float) -> float:
    """The solution of g' = (y g / n + 1 / T) / pace with g(0) = 0, between 0 and 1."""
    if y <= 0.0:
        return 0.0
    width = 2.0 * pace * n
    power = min(y * y / width, 700.0)  # beyond it would overflow, and is far above 1
    grown = math.sqrt(math.pi * width) / (2.0 * pace * T) * math.erf(y / math.sqrt(width))
    return min(grown * math.exp(power), 1.0)


def find_certainty(n: int, T: int, pace: float) -> float:
    """U, the least evidence whose weight is 1."""
    low = 0.0
    high = math.sqrt(2.0 * pace * n * 700.0)
    for _ in range(SEARCHES):
        middle = 0.5 * (low + high)
        if find_weight(middle, n, T, pace) < 1.0:
            low = middle
        else:
            high = middle
    return high
