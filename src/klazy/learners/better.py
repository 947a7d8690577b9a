"""Follow the better of two learners, at a cost that is at most a constant times that of either."""

from abc import abstractmethod
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from klazy.base.checks import Array, InvalidInput, positive
from klazy.families import Family, Linear
from klazy.learners.base import Learner, S
from klazy.learners.leader import check_expert_families
from klazy.learners.sader import (
    check_expert_states,
    check_experts,
    check_norm,
    points_of,
    step_expert,
)
from klazy.movement import Movement, as_movement


class BetterState(NamedTuple):
    """The two states, which is followed and since when, and what each has paid.

    ``paid`` is what each has cost more than the cheaper of the two round by round, with its own movement; ``moved`` what each
    pays for its move to the present point. ``lost`` is what was hit more than the cheaper one, ``changes`` how often
    it changed over, and ``overshoot`` by how much the one it left last had exceeded the ratio then.
    """

    t: int
    x: Array
    experts: tuple[Any, ...]
    leader: int
    since: int
    paid: Array
    moved: Array
    lost: float = 0.0
    changes: int = 0
    overshoot: float = 0.0


def check_symmetric(movement: Movement, dim: int) -> None:
    """Reject movements that are no norm with one weight, or cost more in one direction than in the other."""
    check_norm(movement, dim)
    units = np.eye(dim)
    if (movement.distance(units) != movement.distance(-units)).any():
        message = f"movement must cost the same in both directions, got {movement!r}. Use L1Movement(1.0)."
        raise InvalidInput(message)


class Pair(Learner[S]):
    """Base class of learners that play between two others, ``experts``, of which each plays for itself."""

    movement: Movement

    def _pair(
        self,
        learners: list[Learner[Any]],
        names: tuple[str, str],
        movement: Movement | str,
        family: Family | None,
    ) -> None:
        """Check and store the two."""
        experts = check_experts(learners, names)
        movement = as_movement(movement)
        check_norm(movement, experts[0].domain.dim)
        check_expert_families(family, experts)
        self._keep(**dict(zip(names, experts, strict=True)), movement=movement, family=family)
        self._keep(experts=experts, domain=experts[0].domain)

    @property
    def accepts_hints(self) -> bool:
        return any(expert.accepts_hints for expert in self.experts)

    @property
    def takes_advice(self) -> bool:
        return any(expert.takes_advice for expert in self.experts)

    @property
    def costs(self) -> Family:
        """The family that a round's feedback is a row of: linear costs for gradients."""
        return Linear() if self.family is None else self.family

    @abstractmethod
    def bound(self, state: Any) -> Array:
        r"""Bound what it has cost beyond :math:`E`.

        Parameters
        ----------
        state : State
            The state after the rounds to bound.

        Returns
        -------
        array
            A bound by what each of the two has paid, of shape (2,).
        """

    def _step_experts(
        self, states: tuple[Any, ...], points: Array, g: Array, next_hint: Array | None
    ) -> tuple[Any, ...]:
        following = []
        for expert, state, point in zip(self.experts, states, points, strict=True):
            received = g
            guess = next_hint
            knows_rows = expert.family is not None and expert.family == self.family
            if self.family is not None and not knows_rows:
                received = self.family.gradient(g, point)
                if guess is not None and not self.takes_advice:
                    guess = self.family.gradient(guess, point)
            if expert.takes_advice != self.takes_advice:
                guess = None
            following.append(step_expert(expert, state, received, guess))
        return tuple(following)

    def _price(self, delta: Array) -> Array:
        return self.movement.weight * self.movement.distance(delta)


class BetterOfTwo(Pair[BetterState]):
    r"""Follow one of two learners, and change over once it has cost too many times as much as the other.

    Both play for themselves. Let :math:`e_t` be the lower of their two hitting costs in round t, and :math:`L_i` what
    learner i has paid beyond :math:`e_1 + \dots + e_t`, its own movement included. The first is followed at first; it is left
    once :math:`L_1 > a L_2`, and the second once :math:`L_2 > b L_1`. With :math:`E = \sum e_t`, the cost is then
    always

    .. math:: C \le E + c_i L_i + s\,\rho \qquad\text{for } i = 1, 2,

    where :math:`\rho` is at most what one round cost the learner that was left last. For :math:`a = b = 2`: :math:`c_i = 9` and
    :math:`s = 4`, so for costs that are not negative it pays at most 9 times as much as the better of the two, up to one round.
    In general, with :math:`S(p, q) = 2 (q + 1) p / (pq - 1)`,

    .. math:: c_1 = \max\bigl(1 + b\,S(a, b),\; b + S(b, a)\bigr), \qquad
              c_2 = \max\bigl(1 + a\,S(b, a),\; a + S(a, b)\bigr), \qquad s = \max\bigl(S(a, b), S(b, a)\bigr).

    This is the trade-off: a larger a trusts the first learner more, and as long as :math:`L_1 \le a L_2` in every round its
    cost
    is paid and nothing else; it makes :math:`c_2`, what a bad first learner may cost, larger. The proof is on the page
    Ensembles. The idea is the deterministic combination of algorithms for metrical task systems (Fiat et al. 1990; with
    predictions Antoniadis, Coester, Eliáš, Polak and Simon 2020, whose factor is 9, too), here for costs that one learns
    after the move. The :class:`Leader` has a bound that adds in place of multiplying: use it unless you need a ratio.

    The second learner is counted as coming from where the first starts. The bound takes the costs to be linear unless
    it has a family; for others it holds for their linearisations at the points played.

    Parameters
    ----------
    first : Learner
        Followed at first: :class:`Advice`, say, or a learner with hints.
    second : Learner
        The one to fall back on, on the same set.
    movement : Movement or str
        What moving costs: a norm that costs the same in both directions, with one weight.
    leave : float, optional
        a > 0, how many times as much as the second the first may cost. Default: 2.
    back : float, optional
        b > 0, how many times as much as the first the second may cost; a b > 1. Default: 2.
    family : Family, optional
        The family of costs whose rows it gets. A learner without a family gets the gradient at its own point. Default: it gets
        gradients.

    Examples
    --------
    >>> ball = L2Ball(2)
    >>> wrong = Advice(ball, [[1.0, 0.0]])
    >>> learner = BetterOfTwo(wrong, GD(ball, 2.0, start=[1.0, 0.0]), L2Movement(0.5))
    >>> trace = run(learner, np.tile([1.0, 0.0], (50, 1)))
    >>> certify_experts(trace).experts.tolist(), round(trace.totals.cost, 2), trace.state.changes
    ([50.0, -44.0], -42.5, 1)
    >>> learner.factors
    (9.0, 9.0)
    """

    first: Learner[Any]
    second: Learner[Any]
    leave: float
    back: float

    def __init__(
        self,
        first: Learner[Any],
        second: Learner[Any],
        movement: Movement | str,
        *,
        leave: float = 2.0,
        back: float = 2.0,
        family: Family | None = None,
    ) -> None:
        self._pair([first, second], ("first", "second"), movement, family)
        check_symmetric(self.movement, first.domain.dim)
        a = positive(leave, "leave")
        b = positive(back, "back")
        if a * b <= 1.0:
            raise InvalidInput(f"leave * back must be above 1, got {a * b:g}. Use 2.0 for both.")
        self._keep(leave=a, back=b)

    @cached_property
    def ratios(self) -> tuple[float, float]:
        """How many times as much as the other each may cost while it is followed."""
        return self.leave, self.back

    @cached_property
    def factors(self) -> tuple[float, float]:
        """c_1 and c_2: how many times as much as each of the two it may cost at most."""
        following = [self.bound_factors(leader)[0] for leader in (0, 1)]
        first, second = np.max(following, axis=0).tolist()
        return first, second

    def bound_factors(self, leader: int) -> tuple[tuple[float, float], float]:
        """Return the factors of the bound, which hold once it has changed over.

        Parameters
        ----------
        leader : int
            Which of the two it follows, 0 or 1.

        Returns
        -------
        tuple
            The factors (c_1, c_2), and by what the overshoot is multiplied in the bound by the one it follows.
        """
        a = self.ratios[leader]
        b = self.ratios[1 - leader]
        share = 2.0 * (b + 1.0) * a / (a * b - 1.0)
        followed = 1.0 + b * share
        other = a + share
        return ((followed, other) if leader == 0 else (other, followed)), share

    def bound(self, state: BetterState) -> Array:
        leader = state.leader
        if state.changes == 0:
            return np.array([1.0, self.leave]) * state.paid
        factors, share = self.bound_factors(leader)
        bound = np.array(factors) * state.paid
        bound[leader] += share * state.overshoot
        return bound

    def init(self, x: Array | None = None) -> BetterState:
        experts = tuple(expert.init(x) for expert in self.experts)
        points = points_of(experts)
        return BetterState(
            1, points[0].copy(), experts, 0, 1, np.zeros(2), self._price(points - points[0])
        )

    def step(self, state: BetterState, g: Array, next_hint: Array | None = None) -> BetterState:
        points = points_of(state.experts)
        hit = self.costs.value(g, points)
        above = hit - hit.min()
        paid = state.paid + above + state.moved
        c = state.leader
        lost = state.lost + float(above[c])
        since = state.since
        changes = state.changes
        overshoot = state.overshoot
        allowed = self.ratios[c] * paid[1 - c]
        if paid[c] > allowed:
            overshoot = float(paid[c] - allowed)
            c = 1 - c
            since = state.t + 1
            changes += 1
        experts = self._step_experts(state.experts, points, g, next_hint)
        following = points_of(experts)
        moved = self._price(following - points)
        x = following[c].copy()
        return BetterState(
            state.t + 1, x, experts, c, since, paid, moved, lost, changes, overshoot
        )

    def describe_memory(self, state: BetterState) -> str:
        c = state.leader
        other = 1 - c
        names = ("first", "second")
        allowed = self.ratios[c] * state.paid[other]
        follows = f"It follows the {names[c]} of two, {self.experts[c].describe()}, since round {state.since}."
        return (
            f"{follows} Beyond what was cheaper of the two that one has cost {state.paid[c]:.4g}, the other "
            f"{state.paid[other]:.4g}; it changes over beyond {allowed:.4g}."
        )

    def check_state(self, state: Any) -> BetterState:
        super().check_state(state)
        check_expert_states(state, True)
        if state.leader not in (0, 1):
            raise InvalidInput(f"state.leader must be 0 or 1, got {state.leader}.")
        return state
