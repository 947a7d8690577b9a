"""A strongly adaptive learner: one fresh learner per geometric interval, weighted by what it gained while awake."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from klazy.base.checks import Array, non_negative, positive, refusal, whole
from klazy.learners.base import Learner
from klazy.learners.gd import GD
from klazy.movement import L2Movement
from klazy.sets import ConvexSet
from klazy.sets.base import check_bounded

MOST_LEVELS = 53  # no run outlives an interval of 2^52 rounds


class CoverState(NamedTuple):
    """The learner of each level's current interval, its weight (0 while the level sleeps), and what its last move cost."""

    t: int
    x: Array
    experts: tuple[Any, ...]
    w: Array
    moved: Array


class StronglyAdaptive(Learner[CoverState]):
    r"""Start a fresh learner on every geometric interval, and weigh each by what it gained: regret is small on all intervals.

    After Daniely, Gonen and Shalev-Shwartz (2015), with movement in the losses. Level j plays :class:`GD` on the intervals
    :math:`[i 2^j, (i+1) 2^j - 1]`, :math:`i \ge 1`, with theory's sigma for their
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
    movement_weight : float, optional
        The price of a unit of Euclidean distance. Default: 1.
    levels : int, optional
        The cover ends at intervals of :math:`2^{\mathrm{levels} - 1}` rounds. Default: 20.
    start : array_like, optional
        First decision. Default: the point of the set nearest to the origin.

    Raises
    ------
    ValueError
        If G is not above zero, the weight is negative, or the start lies outside the set.

    Examples
    --------
    >>> learner = StronglyAdaptive(Box(-1, 1), G=1.0, levels=4)
    >>> run(learner, np.ones((8, 1)), engine="step").x[-1].round(3).tolist()
    [-0.955]
    """

    G: float
    movement_weight: float
    levels: int
    start: Array | None
    movement: L2Movement

    def __init__(
        self,
        domain: ConvexSet,
        G: float,
        movement_weight: float = 1.0,
        *,
        levels: int = 20,
        start: ArrayLike | None = None,
    ) -> None:
        owner = "StronglyAdaptive"
        if not isinstance(domain, ConvexSet):
            raise refusal(owner, "a set to play on", "domain", repr(domain), f"write {owner}(L2Ball(5), 1.0)")
        check_bounded(domain, owner)
        x1 = domain.start_at(start, owner)
        movement = L2Movement(non_negative(movement_weight, "movement_weight", owner))
        self._keep(
            domain=domain,
            G=positive(G, "G", owner, "give a bound on the gradients' norms"),
            movement_weight=movement.weight,
            levels=min(
                whole(levels, "levels", owner, "levels >= 1", "give the number of interval lengths"),
                MOST_LEVELS,
            ),
            start=None if start is None else x1,
        )
        D = domain.scale
        scale = math.sqrt(self.G**2 + 2.0 * self.movement_weight * self.G)
        self._keep(
            experts=tuple(GD(domain, scale * math.sqrt(2.0**j) / D) for j in range(self.levels)),
            movement=movement,
        )

    def init(self, x: Array | None = None) -> CoverState:
        x = x if x is not None else self.domain.start if self.start is None else self.start
        experts = tuple(expert.init(x) for expert in self.experts)
        nothing = np.zeros(self.levels)
        return CoverState(1, x, experts, np.where(np.arange(self.levels) == 0, 0.5, 0.0), nothing)

    def step(self, state: CoverState, g: Array) -> CoverState:
        t, x, experts, w, moved = state
        rate = _rates(self.levels)
        worst = (self.G + self.movement_weight) * self.domain.scale
        points = np.array([expert.x for expert in experts])
        mean = w @ moved / w.sum()
        saved = np.clip((x - points) @ g + mean - moved, -worst, worst) / worst
        w = w * (1.0 + rate * saved)
        starts = (t + 1) % 2 ** np.arange(self.levels) == 0
        following = []
        for expert, old, fresh, awake in zip(self.experts, experts, starts, w > 0.0, strict=True):
            following.append(expert.init(x) if fresh else expert.step(old, g) if awake else old)
        after = np.array([expert.x for expert in following])
        w = np.where(starts, rate, w)
        moved = np.where(starts, 0.0, self.movement.weight * self.movement.distance(after - points))
        return CoverState(t + 1, w @ after / w.sum(), tuple(following), w, moved)


def _rates(levels: int) -> Array:
    return np.minimum(0.5, 2.0 ** (-0.5 * np.arange(levels)))
