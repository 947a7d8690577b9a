"""A learner that never moves further than a budget allows."""

from typing import Any, NamedTuple

import numpy as np

from klazy.base.checks import Array, non_negative, positive, refusal, size, vector, whole
from klazy.learners.base import Learner
from klazy.learners.wrapping import check_inner
from klazy.movement import Movement, as_movement


class BudgetedState(NamedTuple):
    """The learner's own state, and what has been spent on moving."""

    t: int
    x: Array
    inner: Any
    spent: float = 0.0


class Budgeted(Learner[BudgetedState]):
    r"""Any learner, held to a budget for all its moves together.

    Its point follows the learner's as far as the budget allows, along the straight line; under a fee per move it goes all the
    way or stays. What all moves cost never exceeds ``S``. With a horizon ``T`` the budget is released evenly, :math:`S t / T`
    by the end of round t, so that there is always some left for what comes later; what is not used stays available.

    If the learner is at :math:`z_t`, then

    .. math:: \sum_t \langle g_t, x_t - u_t\rangle \le \sum_t \langle g_t, z_t - u_t\rangle + \sum_t \|g_t\| \|x_t - z_t\| ,

    and the last sum is zero as long as the learner itself keeps to the budget, as GD does with theory's sigma:
    :func:`~klazy.contrib.budgeted_bound`, of order :math:`G R^2 T / S`, and no learner can do better than that order
    (:func:`~klazy.contrib.budget_lower_bound`).

    Parameters
    ----------
    learner : Learner
        Who decides.
    S : float
        The budget for all moves together, weight included.
    movement : Movement or str, optional
        What a move costs, with one weight. Default: the learner's own.
    T : int, optional
        The horizon over which the budget is released. Default: all of it is there from the start.

    Examples
    --------
    >>> learner = Budgeted(GD(Box(0, 10), sigma=1.0), S=4.0)
    >>> trace = run(learner, [[-3.0], [-3.0], [-3.0], [-3.0]])
    >>> trace.x.ravel().tolist(), trace.totals.switching
    ([0.0, 3.0, 4.0, 4.0], 4.0)
    """

    learner: Learner[Any]
    S: float
    movement: Movement
    T: int | None

    def __init__(
        self, learner: Learner[Any], S: float, movement: Movement | str | None = None, *, T: int | None = None
    ) -> None:
        check_inner(learner, "Budgeted")
        budget = positive(S, "S", "Budgeted", "give a number above zero, or use Fixed to stay")
        price = learner.own_movement if movement is None else as_movement(movement, "Budgeted")
        price.check(learner.domain.dim)
        if not isinstance(price.weight, float):
            remedy = "write movement=L2Movement(1.0)"
            raise refusal("Budgeted", "a movement cost with one weight", "movement", repr(price), remedy)
        if T is not None:
            T = size(T, "T", "Budgeted", "a horizon T >= 1", "leave it out to release all at once")
        self._keep(learner=learner, S=budget, movement=price, T=T)
        self._keep(domain=learner.domain, family=learner.family)

    @property
    def own_movement(self) -> Movement:
        return self.movement

    def describe_memory(self, state: BudgetedState) -> str:
        left = self.S - state.spent
        return f"Of its budget of {self.S:g} for moving, {left:.4g} is left."

    def init(self, x: Array | None = None) -> BudgetedState:
        inner = self.learner.init(x)
        return BudgetedState(1, inner.x, inner)

    def step(self, state: BudgetedState, g: Array) -> BudgetedState:
        inner = self.learner.step(state.inner, g)
        x, spent = self._follow(state, inner.x)
        return BudgetedState(state.t + 1, x, inner, spent)

    def _follow(self, state: BudgetedState, goal: Array) -> tuple[Array, float]:
        """As far towards ``goal`` as the budget allows, and what has been spent then."""
        released = self.S if self.T is None else self.S * min(1.0, state.t / self.T)
        price = self._price(goal - state.x)
        if state.spent + price <= released:
            return goal, state.spent + price
        share = max(0.0, released - state.spent) / price
        # a little less than what is left, for rounding errors of the step or of a large point
        for shorter in (1.0, 1.0 - 1e-12, 1.0 - 1e-6):
            x = state.x + shorter * share * (goal - state.x)
            spent = state.spent + self._price(x - state.x)
            if spent <= released:
                return x, spent
        return state.x, state.spent

    def _price(self, delta: Array) -> float:
        weight: Any = self.movement.weight
        return weight * float(self.movement.distance(delta))

    def check_state(self, state: Any, owner: str) -> BudgetedState:
        if type(state) is not BudgetedState:
            remedy = "go on from a trace or agent of the same learner"
            raise refusal(owner, "a state of Budgeted", "state", repr(state), remedy)
        t = whole(state.t, "state.t", owner, "a round t >= 1", "rounds are counted from one")
        inner = self.learner.check_state(state.inner, owner)
        spent = non_negative(state.spent, "state.spent", owner)
        x = vector(state.x, "state.x", owner, self.domain.dim)
        if not self.domain.contains(x):
            condition = f"a state whose x lies in {self.domain!r}"
            raise refusal(owner, condition, "state.x", np.asarray(x), "project it first")
        return BudgetedState(t, x, inner, spent)
