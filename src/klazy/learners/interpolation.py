"""Play between advice and a learner that one trusts, at a cost that is at most 1 + delta times that of either."""

from typing import Any, NamedTuple

import numpy as np

from klazy.base.checks import Array, InvalidInput, non_negative, number, positive
from klazy.families import Family
from klazy.learners.base import Learner
from klazy.learners.better import Pair
from klazy.learners.sader import check_expert_states, points_of
from klazy.movement import Movement


class InterpolationState(NamedTuple):
    """The two states, how much of the robust one is played, and what each has paid.

    ``share`` is that of the robust one, ``scale`` the largest price of crossing over plus difference of a round's costs.
    ``paid``, ``moved`` and ``lost`` are as for :class:`BetterOfTwo`. ``grown`` is the price of the scale's growth in the bound
    by the advice.
    """

    t: int
    x: Array
    experts: tuple[Any, ...]
    share: float
    scale: float
    paid: Array
    moved: Array
    lost: float = 0.0
    grown: float = 0.0


class Interpolation(Pair[InterpolationState]):
    r"""Play between advice and a robust learner, and lean to the one that costs less.

    Both play for themselves. Let :math:`c^a_t` and :math:`c^r_t` be what their points a_t and r_t cost in round t, the move
    there included, and :math:`S_t` the most that crossing over and the difference of a round's costs have added up to,
    :math:`\max_{s \le t} \lambda m(r_s - a_s) + |c^a_s - c^r_s|`. From :math:`w_1 = 0` on,

    .. math:: x_t = (1 - w_t)\, a_t + w_t\, r_t, \qquad
              w_{t+1} = \min\Bigl(1, \max\Bigl(0,\; w_t + \frac{\delta}{2 S_t} (c^a_t - c^r_t)\Bigr)\Bigr).

    With E and :math:`L_a, L_r` as for :class:`BetterOfTwo`, the cost is then always

    .. math:: C \le E + (1 + \delta) L_a + \Bigl(1 + \frac1\delta\Bigr) (S_T - S_0) \qquad\text{and}\qquad
              C \le E + (1 + \delta) L_r + \Bigl(1 + \frac1\delta\Bigr) S_T.

    :math:`S_0` is ``scale``. If you give one that is never exceeded, the cost is at most :math:`1 + \delta` times that of the
    advice, with nothing added, for costs that are not negative. The trade-off is :math:`\delta`: a small one trusts the advice,
    and pays :math:`S_T/\delta` to find out that it is bad. The proof is on the page Ensembles. The idea is that of Blum and
    Burch, *On-line Learning and the Metrical Task System Problem* (2000), who combine two algorithms at :math:`1 + \delta`
    times the cost of either and a price of order :math:`1/\delta`; Christianson, Handina and Wierman (2022) interpolate with
    advice on bounded sets (BdInterp), where costs are known before the move: that is :class:`LookAheadInterpolation`.

    The second learner is counted as coming from where the first starts. The bound takes the costs to be linear unless
    it has a family; for others it holds for their linearisations at the points played.

    Parameters
    ----------
    advice : Learner
        Played at first: :class:`Advice`, say, or a learner with hints.
    robust : Learner
        The one to fall back on, on the same set.
    movement : Movement or str
        What moving costs: a norm with one weight.
    delta : float, optional
        How much more than the advice it may cost, as a share, > 0. Default: 0.1.
    scale : float, optional
        :math:`S_0`. Default: 0, to learn it.
    family : Family, optional
        The family of costs whose rows it gets. A learner without a family gets the gradient at its own point. Default: it gets
        gradients.

    Examples
    --------
    >>> ball = L2Ball(2)
    >>> wrong = Advice(ball, [[1.0, 0.0]])
    >>> learner = Interpolation(wrong, GD(ball, 2.0, start=[1.0, 0.0]), L2Movement(0.5), delta=0.5)
    >>> trace = run(learner, np.tile([1.0, 0.0], (50, 1)))
    >>> certify_experts(trace).experts.tolist(), round(trace.totals.cost, 2), trace.state.share
    ([50.0, -44.0], -38.94, 1.0)
    """

    advice: Learner[Any]
    robust: Learner[Any]
    delta: float
    scale: float

    def __init__(
        self,
        advice: Learner[Any],
        robust: Learner[Any],
        movement: Movement | str,
        delta: float = 0.1,
        *,
        scale: float = 0.0,
        family: Family | None = None,
    ) -> None:
        self._pair([advice, robust], ("advice", "robust"), movement, family)
        self._keep(delta=positive(delta, "delta"), scale=non_negative(scale, "scale"))

    def init(self, x: Array | None = None) -> InterpolationState:
        experts = tuple(expert.init(x) for expert in self.experts)
        points = points_of(experts)
        moved = self._price(points - points[0])
        return InterpolationState(
            1, points[0].copy(), experts, 0.0, self.scale, np.zeros(2), moved
        )

    def step(
        self, state: InterpolationState, g: Array, next_hint: Array | None = None
    ) -> InterpolationState:
        points = points_of(state.experts)
        hit = self.costs.value(g, points)
        w = state.share
        cost = hit + state.moved
        difference = float(cost[0] - cost[1])
        across = points[1] - points[0]
        crossing = max(float(self._price(across)), float(self._price(-across)))
        scale = max(state.scale, crossing + abs(difference))
        grown = state.grown + (scale - state.scale) * (w * w / self.delta + w)
        if scale > 0.0:
            w = min(1.0, max(0.0, w + self.delta / (2.0 * scale) * difference))
        paid = state.paid + hit - hit.min() + state.moved
        lost = state.lost + float(self.costs.value(g, state.x) - hit.min())
        experts = self._step_experts(state.experts, points, g, next_hint)
        following = points_of(experts)
        moved = self._price(following - points)
        x = (1.0 - w) * following[0] + w * following[1]
        return InterpolationState(state.t + 1, x, experts, w, scale, paid, moved, lost, grown)

    def bound(self, state: InterpolationState) -> Array:
        w = state.share
        delta = self.delta
        left = state.scale * (w * w / delta + w)
        taken = state.scale * ((2.0 * w - w * w) / delta + w)
        return (1.0 + delta) * state.paid + np.array([state.grown - left, taken])

    def describe_memory(self, state: InterpolationState) -> str:
        advice, robust = state.paid
        return (
            f"It plays {state.share:.1%} of {self.robust.describe()} and the rest of the advice. Beyond what was cheaper of "
            f"the two, the advice has cost {advice:.4g}, the other {robust:.4g}."
        )

    def check_state(self, state: Any) -> InterpolationState:
        super().check_state(state)
        check_expert_states(state, True)
        if not 0.0 <= number(state.share, "state.share") <= 1.0:
            raise InvalidInput(f"state.share must be between 0 and 1, got {state.share}.")
        return state
