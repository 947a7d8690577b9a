"""Mirror descent with a memory: the steps of :class:`~klazy.MemoryGD`, measured in another geometry."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from klazy.base.checks import Array, InvalidInput, instance, number
from klazy.base.config import Config
from klazy.kernels import codes
from klazy.learners.base import Descent
from klazy.learners.memory import Memory, check_memory
from klazy.schedules import Schedule
from klazy.sets import ConvexSet
from klazy.sets.totals import Filled, fill_water

# A coordinate that starts at zero counts as this share of the total, so that it has a logarithm.
SMALLEST_SHARE = 1e-200
MIRROR_RULES = {codes.SIMPLEX: "mirror", codes.CAPPED_SIMPLEX: "mirror"}


class Geometry(Config, ABC):
    r"""How :class:`MirrorMemory` measures: a strictly convex function phi, by its gradients.

    A geometry of your own gives these three methods.
    """

    @abstractmethod
    def check(self, domain: ConvexSet) -> None:
        """Reject a set that this geometry does not support.

        Parameters
        ----------
        domain : ConvexSet
            The set.

        Raises
        ------
        ValueError
            If it does not know the set.
        """

    @abstractmethod
    def to_dual(self, domain: ConvexSet, x: Array) -> Array:
        """Give the gradient of phi at a point of the set.

        Parameters
        ----------
        domain : ConvexSet
            The set.
        x : array
            The point, of shape (d,).

        Returns
        -------
        array
            The gradient, of shape (d,).
        """

    @abstractmethod
    def project(self, domain: ConvexSet, v: Array) -> Filled:
        """Find the point of the set nearest to the one with the gradient ``v``.

        Parameters
        ----------
        domain : ConvexSet
            The set.
        v : array
            A gradient of phi, of shape (d,).

        Returns
        -------
        Filled
            The point x, its own gradient z, and the excess: v - z, less anything that is the same for all points of the set.
            This is a normal of the set at x.
        """


class Entropy(Geometry):
    r"""Relative entropy, :math:`\phi(x) = \sum_i x_i \log x_i`, on simplices and capped simplices.

    Steps multiply: a coordinate changes by a factor and not by a summand, and dimensions enter bounds by their logarithm.

    Parameters
    ----------
    floor : float, optional
        Share of an even split that no coordinate falls below: :math:`x_i \ge floor \cdot total / d`, with
        :math:`0 \le floor < 1`. A learner can follow a comparator that moves only if it is above zero. Default: 0.

    Examples
    --------
    >>> Entropy(0.3).project(Simplex(3), np.log([0.7, 0.25, 0.05])).x.round(4)
    array([0.6632, 0.2368, 0.1   ])
    """

    floor: float

    def __init__(self, floor: float = 0.0) -> None:
        floor = number(floor, "floor")
        if not 0.0 <= floor < 1.0:
            raise InvalidInput(
                f"floor must be at least 0 and below 1, a share of total / d, got {floor}. Use 0.01."
            )
        self._keep(floor=floor)

    def check(self, domain: Any) -> None:
        if not domain.has_total:
            raise InvalidInput(
                f"Entropy needs a Simplex or CappedSimplex, got {domain!r}. Use MemoryGD."
            )
        lowest = np.min(getattr(domain, "floor", 0.0))
        if lowest < 0.0:
            raise InvalidInput(f"Entropy needs floors of at least 0, got {lowest}. Use MemoryGD.")
        low, high = self.bounds(domain)
        if high.min() <= 0.0:
            raise InvalidInput(
                f"Entropy needs caps above 0, got {domain!r}. Leave out coordinates that are always 0."
            )
        if (low > high).any() or low.sum() > domain.total * (1.0 + 1e-12):
            raise InvalidInput(
                f"floor={self.floor} does not fit into {domain!r}. Use a smaller floor."
            )

    def least(self, domain: Any) -> float:
        """Give the value below which the floor lets no coordinate fall.

        Parameters
        ----------
        domain : Simplex or CappedSimplex
            The set.

        Returns
        -------
        float
            floor * total / d.
        """
        return self.floor * domain.total / domain.dim

    def bounds(self, domain: Any) -> tuple[Array, Array]:
        """Give the least and the largest value of each coordinate.

        Parameters
        ----------
        domain : Simplex or CappedSimplex
            The set.

        Returns
        -------
        tuple of array
            Lower and upper bounds, each of shape (d,).
        """
        low = np.full(domain.dim, self.least(domain))
        high = np.full(domain.dim, domain.total)
        # A simplex has neither floors nor caps of its own.
        low = np.maximum(low, getattr(domain, "floor", low))
        high = np.minimum(high, getattr(domain, "cap", high))
        return low, high

    def to_dual(self, domain: Any, x: Array) -> Array:
        return np.log(np.maximum(x, SMALLEST_SHARE * domain.total))

    def project(self, domain: Any, v: Array) -> Filled:
        low, high = self.bounds(domain)
        return fill_water(v, domain.total, low, high)


class MirrorState(NamedTuple):
    """A point, its gradient z of phi, a normal there, and the hint that the point already took into account."""

    t: int
    x: Array
    z: Array
    n: Array
    hint: Array
    energy: float = 0.0


class MirrorMemory(Descent[MirrorState]):
    r"""Mirror descent that remembers the normal vector of its last projection.

    .. math:: v = z_t + (n_t - g_t + h_t - h_{t+1}) / \sigma_t, \qquad
              x_{t+1} = \arg\min_{x \in X} \phi(x) - \langle v, x \rangle, \qquad
              z_{t+1} = \nabla\phi(x_{t+1}), \qquad n_{t+1} = \theta\, \sigma_t (v - z_{t+1})

    It is :class:`MemoryGD` with another geometry, and takes the same memories: :class:`Forget` gives mirror descent, on a
    simplex Hedge, projected to stay above its floor, which is one form of fixed share; :class:`Full` gives dual averaging
    (for a constant sigma), :class:`Clock` k-lazy mirror descent, and :class:`Decay` forgets smoothly. On a whole simplex, at a
    floor of 0, they all play the same points: no bound is ever met, so there is nothing to remember.

    References: Herbster and Warmuth, *Tracking the Best Linear Predictor* (2001), for the projection; Cesa-Bianchi, Gaillard,
    Lugosi and Stoltz, *Mirror Descent Meets Fixed Share* (2012), for its relation to fixed share.

    Parameters
    ----------
    domain : Simplex or CappedSimplex
        Where decisions live; for a geometry of your own, any set that it knows.
    sigma : Schedule or float, optional
        Steps are gradients over sigma.
    memory : Memory
        How much of the normal it remembers.
    geometry : Geometry, optional
        How it measures. Default: ``Entropy()``.
    learning_rate : float, optional
        Another way to write sigma = 1 / learning_rate. Give one of the two.
    start : array_like, optional
        First decision. Default: the set's point nearest to the origin.

    Raises
    ------
    ValueError
        If the geometry does not know the set, or there is no room for its floor.

    Examples
    --------
    >>> learner = MirrorMemory(Simplex(3), 2.0, memory=Decay(8), geometry=Entropy(0.03))
    >>> g = np.repeat([[0.0, 1.0, 1.0], [1.0, 1.0, 0.0]], 20, axis=0)
    >>> run(learner, g, engine="step").x[[0, 19, 39]].round(3)
    array([[0.333, 0.333, 0.333],
           [0.98 , 0.01 , 0.01 ],
           [0.057, 0.01 , 0.933]])
    """

    memory: Memory
    geometry: Geometry

    @property
    def accepts_hints(self) -> bool:
        return True

    def __init__(
        self,
        domain: ConvexSet,
        sigma: Schedule | float | None = None,
        *,
        memory: Memory,
        geometry: Geometry | None = None,
        learning_rate: float | None = None,
        start: ArrayLike | None = None,
    ) -> None:
        super().__init__(domain, sigma, learning_rate=learning_rate, start=start)
        if geometry is None:
            geometry = Entropy()
        instance(geometry, "geometry", Geometry, "a Geometry such as Entropy(0.01)").check(domain)
        self._keep(memory=check_memory(memory), geometry=geometry)

    @cached_property
    def rule(self) -> str | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Its name among compiled rules; None if geometry or set have none."""
        if type(self.geometry) is not Entropy:
            return None
        return MIRROR_RULES.get(codes.code_of(self.domain))  # pyright: ignore[reportArgumentType]

    @property
    def least(self) -> float:
        """Below which no coordinate falls, for the kernel."""
        geometry: Any = self.geometry  # only Entropy has a rule
        return geometry.least(self.domain)

    def init(self, x: Array | None = None) -> MirrorState:
        x = self.first_point(x)
        nothing = np.zeros(self.domain.dim)
        return MirrorState(1, x, self.geometry.to_dual(self.domain, x), nothing, nothing)

    def step(self, state: MirrorState, g: Array, next_hint: Array | None = None) -> MirrorState:
        t, _, z, n, h, energy = state
        sigma, energy = self.sigma.observe(t, energy, g - h)
        if sigma == math.inf:
            return state._replace(t=t + 1)
        following = np.zeros_like(g) if next_hint is None else next_hint
        v = z + (n - g + h - following) / sigma
        x, z, excess = self.geometry.project(self.domain, v)
        raw = sigma * excess
        return MirrorState(t + 1, x, z, self.memory.theta(t, raw) * raw, following, energy)

    @property
    def phase_length(self) -> int | None:
        return self.memory.phase_length

    def describe_memory(self, state: MirrorState) -> str:
        return self.memory.describe(state.t - 1) or super().describe_memory(state)
