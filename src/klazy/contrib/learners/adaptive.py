"""Learners with small regret on every interval: experts for intervals of several lengths."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from klazy.base.checks import Array, integer, non_negative, positive, size
from klazy.learners.base import Learner, S, check_domain, check_start
from klazy.learners.gd import GD
from klazy.movement import L2Movement
from klazy.sets import ConvexSet
from klazy.sets.base import check_bounded

MOST_LEVELS = 53  # no run outlives an interval of 2^52 rounds
LARGEST_CHANGE = (
    1.25  # the largest change of evidence in a round, if certainty needs at most a quarter of n
)
PACE_MARGIN = (
    0.7  # over K, what squares and changes cost: the proof needs a pace A >= K exp(0.625 / A)
)
SEARCHES = 200  # halvings


class _Adaptive(Learner[S]):
    """What both know: gradients are at most G, and a Euclidean unit costs ``move_cost``."""

    G: float
    move_cost: float
    start: Array | None
    movement: L2Movement

    def _keep_known(self, domain: Any, G: Any, move_cost: Any, start: ArrayLike | None) -> None:
        """Check and store the arguments of both."""
        check_bounded(check_domain(domain))
        movement = L2Movement(non_negative(move_cost, "move_cost"))
        self._keep(
            domain=domain,
            G=positive(G, "G", "Give a bound on the gradients' norms."),
            move_cost=movement.weight,
            start=check_start(domain, start),
            movement=movement,
        )

    @cached_property
    def _steepness(self) -> float:
        return math.sqrt(self.G**2 + 2.0 * self.move_cost * self.G)

    def _make_descents(self, lengths: Iterable[int]) -> tuple[GD, ...]:
        """Make a descent with theory's sigma for each number of rounds."""
        sigmas = [self._steepness * math.sqrt(n) / self.domain.scale for n in lengths]
        return tuple(GD(self.domain, sigma) for sigma in sigmas)

    def _price(self, delta: Array) -> Array:
        return self.move_cost * self.movement.distance(delta)


class CoverState(NamedTuple):
    """The learner of each level's current interval, its weight (0 while the level sleeps), and what its last move cost."""

    t: int
    x: Array
    experts: tuple[Any, ...]
    w: Array
    moved: Array


class StronglyAdaptive(_Adaptive[CoverState]):
    r"""Start a fresh learner on every geometric interval, and weigh each by what it gained: regret is small on all intervals.

    After SAOL of Daniely, Gonen and Shalev-Shwartz, *Strongly Adaptive Online Learning* (2015), with movement in the losses.
    Level j plays :class:`GD` on the intervals :math:`[i 2^j, (i+1) 2^j - 1]`, :math:`i \ge 1`, with theory's sigma for their
    length, :math:`\sqrt{(G^2 + 2 \lambda G) 2^j} / D`; a new learner starts at the ensemble's current point. While awake its
    weight grows by :math:`1 + \rho r_t`, from :math:`\rho = \min(1/2, 2^{-j/2})`, where :math:`r_t` is what it saved this
    round over the ensemble, movement included, as a share of :math:`(G + \lambda) D`. Without movement cost the regret on
    *every* interval I is then :math:`O(\sqrt{|I|} \log T)`; what reweighting moves is not bounded.

    Parameters
    ----------
    domain : ConvexSet
        Where decisions live.
    G : float
        A bound on the gradients' norms.
    move_cost : float, optional
        The price of a unit of Euclidean distance. Default: 1.
    levels : int, optional
        The cover ends at intervals of :math:`2^{\mathrm{levels} - 1}` rounds. Default: 20.
    start : array_like, optional
        First decision. Default: the point of the set nearest to the origin.

    Raises
    ------
    ValueError
        If G is not above zero, the weight is negative, or the start is outside the set.

    Examples
    --------
    >>> learner = StronglyAdaptive(Box(-1, 1), G=1.0, levels=4)
    >>> run(learner, np.ones((8, 1)), engine="step").x[-1].round(3).tolist()
    [-0.955]
    """

    levels: int

    def __init__(
        self,
        domain: ConvexSet,
        G: float,
        move_cost: float = 1.0,
        *,
        levels: int = 20,
        start: ArrayLike | None = None,
    ) -> None:
        self._keep_known(domain, G, move_cost, start)
        self._keep(levels=min(integer(levels, "levels"), MOST_LEVELS))
        self._keep(experts=self._make_descents(2**j for j in range(self.levels)))

    def init(self, x: Array | None = None) -> CoverState:
        x = self.first_point(x)
        experts = tuple(expert.init(x) for expert in self.experts)
        nothing = np.zeros(self.levels)
        return CoverState(1, x, experts, np.where(np.arange(self.levels) == 0, 0.5, 0.0), nothing)

    def step(self, state: CoverState, g: Array) -> CoverState:
        t, x, experts, w, moved = state
        rate = np.minimum(0.5, 2.0 ** (-0.5 * np.arange(self.levels)))
        worst = (self.G + self.move_cost) * self.domain.scale
        points = np.array([expert.x for expert in experts])
        mean = w @ moved / w.sum()
        saved = np.clip((x - points) @ g + mean - moved, -worst, worst) / worst
        w = w * (1.0 + rate * saved)
        starts = (t + 1) % 2 ** np.arange(self.levels) == 0
        following = []
        for expert, own, fresh, awake in zip(self.experts, experts, starts, w > 0.0, strict=True):
            if fresh:
                following.append(expert.init(x))
            elif awake:
                following.append(expert.step(own, g))
            else:
                following.append(own)
        after = np.array([expert.x for expert in following])
        w = np.where(starts, rate, w)
        moved = np.where(starts, 0.0, self._price(after - points))
        return CoverState(t + 1, w @ after / w.sum(), tuple(following), w, moved)


class SteadyState(NamedTuple):
    """The descents, the evidence for each against all longer ones, and the costs of their last moves and of the mixtures'."""

    t: int
    x: Array
    experts: tuple[Any, ...]
    evidence: Array
    moved: Array
    mixture_moved: Array


class SteadyAdaptive(_Adaptive[SteadyState]):
    r"""Small regret on every interval, movement included, with weights that change slowly.

    Descents tuned to T, T/2, T/4, ... rounds are mixed one after the other, the longest first: :math:`z_0 = x_0`, :math:`z_j
    = (1 - w_j) z_{j-1} + w_j x_j`. The evidence :math:`y_j` for the j-th, tuned to n rounds, is what it saved compared with
    the mixture of the longer ones, movement included, as a share of the most it can save, M. It fades by 1/n a round;
    evidence beyond certainty, or below none, is not added. The weight :math:`w_j = g(y_j)` grows from 0 at no evidence to 1
    at :math:`U`, with :math:`g' = (y g / n + 1/T) / A`: slowly enough that its changes save more than they cost in movement.
    So the weights move the point by at most :attr:`most_moved` a round, and :meth:`bound` holds for the regret on every
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
    move_cost : float, optional
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

    def __init__(
        self,
        domain: ConvexSet,
        T: int,
        G: float,
        move_cost: float = 1.0,
        *,
        start: ArrayLike | None = None,
    ) -> None:
        self._keep_known(domain, G, move_cost, start)
        self._keep(T=size(T, "T"))
        self._keep(experts=self._make_descents(self.lengths))

    @cached_property
    def _toll(self) -> float:
        """K: what the square of a change of evidence, and the movement it causes, cost at most."""
        return LARGEST_CHANGE**2 / 2.0 + LARGEST_CHANGE * self.move_cost / self.G

    @property
    def pace(self) -> float:
        """A: the larger, the slower weights change."""
        return self._toll + PACE_MARGIN

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
        return self.domain.scale * LARGEST_CHANGE * sum(self.changes)

    @cached_property
    def worst(self) -> float:
        """M, the most that a round can cost more for one of them than for another or a fixed point, movement included."""
        stride = self.G * self.domain.scale / (self._steepness * math.sqrt(self.lengths[-1]))
        return self.G * self.domain.scale + self.move_cost * (stride + self.most_moved)

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
        rounds = size(length, "length")
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
        x = self.first_point(x)
        experts = tuple(expert.init(x) for expert in self.experts)
        N = len(experts)
        return SteadyState(1, x, experts, np.zeros(N - 1), np.zeros(N), np.zeros(N))

    def step(self, state: SteadyState, g: Array) -> SteadyState:
        points = np.array([expert.x for expert in state.experts])
        mixtures = self._mix(points, state.evidence)
        saved = (mixtures[:-1] - points[1:]) @ g + state.mixture_moved[:-1] - state.moved[1:]
        evidence = self._learn(state.evidence, np.clip(saved / self.worst, -1.0, 1.0))
        experts = tuple(
            expert.step(own, g) for expert, own in zip(self.experts, state.experts, strict=True)
        )
        following = np.array([expert.x for expert in experts])
        mixed = self._mix(following, evidence)
        moved = self._price(following - points)
        return SteadyState(
            state.t + 1, mixed[-1], experts, evidence, moved, self._price(mixed - mixtures)
        )

    def _learn(self, evidence: Array, saved: Array) -> Array:
        """Update the evidence after a round: it fades, and savings are added unless it is beyond its limits."""
        n = np.array(self.lengths[1:])
        enough = (evidence > self.certainties) & (saved > 0.0)
        none = (evidence < 0.0) & (saved < 0.0)
        return (1.0 - 1.0 / n) * evidence + np.where(enough | none, 0.0, saved)

    def _shares(self, evidence: Array) -> Array:
        pairs = zip(evidence.tolist(), self.lengths[1:], strict=True)
        return np.array([find_weight(y, n, self.T, self.pace) for y, n in pairs])

    def _mix(self, points: Array, evidence: Array) -> Array:
        """Return the point of the longest memory, the mixture of the two longest, and so on."""
        mixtures = [points[0]]
        for share, point in zip(self._shares(evidence).tolist(), points[1:], strict=True):
            mixtures.append((1.0 - share) * mixtures[-1] + share * point)
        return np.array(mixtures)


def find_weight(y: float, n: int, T: int, pace: float) -> float:
    """Solve g' = (y g / n + 1 / T) / pace with g(0) = 0, and return g(y) between 0 and 1."""
    if y <= 0.0:
        return 0.0
    width = 2.0 * pace * n
    # Larger powers overflow, and are far above 1.
    power = min(y * y / width, 700.0)
    grown = math.sqrt(math.pi * width) / (2.0 * pace * T) * math.erf(y / math.sqrt(width))
    return min(grown * math.exp(power), 1.0)


def find_certainty(n: int, T: int, pace: float) -> float:
    """Find U, the least evidence whose weight is 1."""
    low = 0.0
    high = math.sqrt(2.0 * pace * n * 700.0)
    for _ in range(SEARCHES):
        middle = 0.5 * (low + high)
        if find_weight(middle, n, T, pace) < 1.0:
            low = middle
        else:
            high = middle
    return high
