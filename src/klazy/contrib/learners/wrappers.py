"""Learners around another learner or policy: advice, blocks of rounds, a budget, a constraint in the long run."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from klazy.base.checks import (
    Array,
    InvalidInput,
    instance,
    integer,
    non_negative,
    number,
    positive,
    rows,
    size,
    vector,
)
from klazy.families import Family, Linear
from klazy.kernels import codes
from klazy.learners.base import Learner, check_domain, check_start
from klazy.learners.wrapping import Wrapper
from klazy.movement import Movement, as_movement
from klazy.sets import ConvexSet


class AdviceState(NamedTuple):
    """The round and the point."""

    t: int
    x: Array


class Advice(Learner[AdviceState]):
    """Play what a policy says: an operator, a model, a planner, a column of past decisions.

    By itself it has no bound. Put it among the experts of a :class:`Leader` or :class:`SAder`, or into :class:`BetterOfTwo`:
    the bound of these, live by :func:`~klazy.theory.certify_experts`, says how little is lost if the advice is bad, and how
    near they stay to it if it is good.

    Parameters
    ----------
    domain : ConvexSet
        Where decisions live. Advice outside of it is moved to the nearest point.
    policy : array_like or callable, optional
        Decisions of shape (T, d), one row per round; after the last row it stays there. Or a function ``policy(t, x, g)`` of
        the round to be played, and of the point and the gradient of the round before (the set's start and zeros for t = 1); it
        should depend on these alone. A learner with a function cannot be written to a file. Default: decisions come as hints,
        that for round t + 1 at the end of round t; in a round without one it stays.
    start : array_like, optional
        First decision. Default: what the policy says; without one, the set's start.

    Examples
    --------
    >>> ball = L2Ball(2)
    >>> experts = [GD(ball, 4.0), Advice(ball, np.tile([-1.0, 0.0], (60, 1)))]
    >>> trace = run(Leader(experts, L2Movement(0.5)), np.tile([1.0, 0.2], (60, 1)), record="experts")
    >>> round(trace.totals.cost, 2), certify_experts(trace).experts.round(2).tolist()
    (-58.5, [-58.17, -60.0])
    """

    policy: Array | Callable[[int, Array, Array], ArrayLike] | None
    start: Array | None

    def __init__(
        self,
        domain: ConvexSet,
        policy: ArrayLike | Callable[[int, Array, Array], ArrayLike] | None = None,
        *,
        start: ArrayLike | None = None,
    ) -> None:
        check_domain(domain)
        kept: Any = policy
        if policy is not None and not callable(policy):
            kept = rows(policy, "policy", domain.dim)
        self._keep(domain=domain, policy=kept, start=check_start(domain, start))

    @property
    def accepts_hints(self) -> bool:
        return self.policy is None

    @property
    def takes_advice(self) -> bool:
        return self.policy is None

    def init(self, x: Array | None = None) -> AdviceState:
        if x is None:
            x = self.start
        if x is None:
            x = self.ask(1, self.domain.start, np.zeros(self.domain.dim))
        return AdviceState(1, x)

    def step(self, state: AdviceState, g: Array, next_hint: Array | None = None) -> AdviceState:
        t = state.t + 1
        x = self.ask(t, state.x, g) if next_hint is None else self.domain.nearest(next_hint)
        return AdviceState(t, x)

    def ask(self, t: int, x: Array, g: Array) -> Array:
        """Ask the policy for a decision, and move it into the set; without a policy it stays.

        Parameters
        ----------
        t : int
            The round to be played.
        x : array
            The point of the round before.
        g : array
            The gradient of the round before.

        Returns
        -------
        array
            The decision for round t.

        Raises
        ------
        ValueError
            If the policy is a function, and gives no point of the set's dimension.
        """
        if self.policy is None:
            return x
        if callable(self.policy):
            said = self.policy(t, x.copy(), g.copy())
            return self.domain.nearest(vector(said, f"policy({t})", self.domain.dim))
        return self.domain.nearest(self.policy[min(t, len(self.policy)) - 1])

    def describe_memory(self, state: AdviceState) -> str:
        if isinstance(self.policy, np.ndarray) and state.t > len(self.policy):
            return f"The advice ended with round {len(self.policy)}; it stays where that left it."
        return "It plays what it is advised to, whatever that costs."


class BlocksState(NamedTuple):
    """The learner within, and the gradients of the block so far, added up."""

    t: int
    x: Array
    experts: tuple[Any, ...]
    g_sum: Array


class Blocks(Wrapper[BlocksState]):
    r"""A learner played in blocks of B rounds: it stays within a block, and sees the block's mean gradient at its end.

    It is the plain way to move less, and the one to compare others with. Against a comparator that stays within blocks its
    regret is B times that of the learner in :math:`\lceil T/B \rceil` rounds, and it moves in at most that many rounds, no
    further in each than the set is wide. So any regret becomes one with bounded movement, also that of
    :class:`StronglyAdaptive` on every interval; but at the best B for a learner of regret :math:`\sqrt T` both are of
    order :math:`T^{2/3}`, where a descent with theory's sigma has :math:`\sqrt T`.

    Parameters
    ----------
    learner : Learner
        The learner that plays one round per block; it takes gradients.
    length : int
        B, the rounds of a block.

    Raises
    ------
    ValueError
        If the learner takes rows of costs, or the length is not a positive integer.

    Examples
    --------
    >>> trace = run(Blocks(GD(Box(-1, 1), 2.0), 3), [[1.0], [-1.0], [1.5], [0.0], [0.0], [0.0], [2.0]], engine="step")
    >>> trace.x[:, 0].tolist()
    [0.0, 0.0, 0.0, -0.25, -0.25, -0.25, -0.25]
    """

    length: int

    def __init__(self, learner: Learner[Any], length: int) -> None:
        self._wrap(learner, by_gradients=True)
        self._keep(length=integer(length, "length"), experts=(learner,))

    def init(self, x: Array | None = None) -> BlocksState:
        state = self.learner.init(x)
        return BlocksState(1, state.x, (state,), np.zeros(self.domain.dim))

    def step(self, state: BlocksState, g: Array) -> BlocksState:
        t, x, experts, g_sum = state
        g_sum = g_sum + g
        if t % self.length > 0:
            return BlocksState(t + 1, x, experts, g_sum)
        inner = self.learner.step(experts[0], g_sum / self.length)
        return BlocksState(t + 1, inner.x, (inner,), np.zeros_like(g))

    def describe_memory(self, state: BlocksState) -> str:
        end = state.t + (-state.t) % self.length
        words = self.learner.describe_memory(state.experts[0])
        return f"It stays until round {end} is over. Counted in blocks of {self.length} rounds: {words}"


class BudgetedState(NamedTuple):
    """The learner's own state, and the amount spent on moving."""

    t: int
    x: Array
    inner: Any
    spent: float = 0.0


class Budgeted(Wrapper[BudgetedState]):
    r"""Any learner, held to a budget for all its moves together.

    Its point follows the learner's as far as the budget allows, along the straight line; under a fee per move it goes all the
    way or stays. What all moves cost never exceeds ``S``. With a horizon ``T`` the budget is released evenly, :math:`S t / T`
    by the end of round t, so that some is always left for later rounds; the unused part stays available.

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

    S: float
    movement: Movement
    T: int | None

    def __init__(
        self,
        learner: Learner[Any],
        S: float,
        movement: Movement | str | None = None,
        *,
        T: int | None = None,
    ) -> None:
        self._wrap(learner)
        budget = positive(S, "S", "Give a number above zero, or use Fixed to stay.")
        price = learner.own_movement if movement is None else as_movement(movement)
        price.check(learner.domain.dim)
        if np.ndim(price.weight) > 0:
            raise InvalidInput(f"movement must have one weight for all rounds, got {price!r}.")
        if T is not None:
            T = size(T, "T", "Leave it out to release all at once.")
        self._keep(S=budget, movement=price, T=T)

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
        """Move towards ``goal`` as far as the budget allows; return the point and the amount spent."""
        released = self.S if self.T is None else self.S * min(1.0, state.t / self.T)
        price = self._price(goal - state.x)
        if state.spent + price <= released:
            return goal, state.spent + price
        share = max(0.0, released - state.spent) / price
        # A little less than the rest of the budget allows for rounding errors of the step or of a large point.
        for shorter in (1.0, 1.0 - 1e-12, 1.0 - 1e-6):
            x = state.x + shorter * share * (goal - state.x)
            spent = state.spent + self._price(x - state.x)
            if spent <= released:
                return x, spent
        return state.x, state.spent

    def _price(self, delta: Array) -> float:
        weight: Any = self.movement.weight
        return weight * float(self.movement.distance(delta))

    def check_state(self, state: Any) -> BudgetedState:
        t = self._check_kind(state, BudgetedState)
        inner = self.learner.check_state(state.inner)
        spent = non_negative(state.spent, "state.spent")
        x = vector(state.x, "state.x", self.domain.dim)
        self._check_inside(x)
        return BudgetedState(t, x, inner, spent)


class LongTermState(NamedTuple):
    """The learner's own state, the price of use, and the amount used so far."""

    t: int
    x: Array
    inner: Any
    price: float = 0.0
    used: float = 0.0


class LongTerm(Wrapper[LongTermState]):
    r"""Any learner under a constraint on the sum over all rounds, :math:`\sum_t c(x_t) \le B`.

    A price rises while more than the share :math:`B/T` of a round is used, and falls while less is. The learner pays it, in its
    gradients, as it will be once this round's use is counted; what is counted for good is the use one move later:

    .. math:: q_t = \max\bigl(0,\; p_t + \eta\, (c(x_t) - B/T)\bigr), \qquad h_t = g_t + q_t \nabla c(x_t), \qquad
              p_{t+1} = \max\bigl(0,\; p_t + \eta\, (c(x_t) + \langle \nabla c(x_t), x_{t+1} - x_t \rangle - B/T)\bigr).

    Around GD with a constant sigma its regret is of order :math:`\sqrt T`. With the default eta and a linear constraint the
    sum exceeds B by no more than a few rounds' use, whatever T is, if some decision uses less than B/T, and else by order
    :math:`T^{1/4}` (:func:`~klazy.contrib.long_term_bound`): give a smaller B where it must not. A smaller eta lets it use more
    for a while, and less later. :func:`~klazy.contrib.certify_long_term` bounds a run, around other learners too.

    References: Yu and Neely, *A Low Complexity Algorithm with* :math:`O(\sqrt T)` *Regret and* :math:`O(1)` *Constraint
    Violations for Online Convex Optimization with Long Term Constraints* (2020), for the idea to charge one move ahead.

    Parameters
    ----------
    learner : Learner
        Who decides; it must take gradients.
    row : array_like
        What :math:`c(x)` is made from: with the default constraint, what a unit of each coordinate uses.
    B : float
        How much may be used in all.
    T : int
        The number of rounds.
    constraint : Family, optional
        What c is, given its row: convex. Default: :class:`Linear`, :math:`c(x) = \langle \mathrm{row}, x \rangle`.
    eta : float, optional
        How fast the price changes, less than :math:`\sigma / \|\nabla c\|^2`. Default: half of that around GD with a constant
        sigma and for a linear constraint; else :math:`1/\sqrt T`, for costs and uses of size about one.

    Examples
    --------
    >>> learner = LongTerm(GD(Box(0, 1), sigma=20.0), [1.0], B=100.0, T=400)  # a quarter, on average
    >>> trace = run(learner, -np.ones((400, 1)))
    >>> round(trace.state.used, 1), round(trace.state.price, 1)
    (99.4, 1.0)
    """

    row: Array
    B: float
    T: int
    constraint: Family
    eta: float

    def __init__(
        self,
        learner: Learner[Any],
        row: ArrayLike,
        B: float,
        T: int,
        *,
        constraint: Family | None = None,
        eta: float | None = None,
    ) -> None:
        self._wrap(learner, by_gradients=True)
        known = Linear() if constraint is None else constraint
        instance(known, "constraint", Family, "a Family such as Quadratic()")
        known.check(learner.domain.dim)
        values = vector(row, "row", learner.domain.dim)
        if known.positive and not (values > 0.0).all():
            raise InvalidInput(f"row must be above 0 for {known}, got {values.tolist()}.")
        T = size(T, "T")
        self._keep(row=values, B=number(B, "B"), T=T, constraint=known)
        self._keep(eta=self._usual_eta() if eta is None else positive(eta, "eta"))

    def _usual_eta(self) -> float:
        """Return half of the largest eta for which a bound is proved; without one, what suits uses of size about one."""
        sigma: Any = getattr(self.learner, "sigma", None)
        is_greedy = self.learner.form == "anchored" and self.learner.phase_length == 1
        if not is_greedy or codes.code_of(sigma) != codes.CONSTANT:
            return 1.0 / math.sqrt(self.T)
        square = float((self.row**2).sum())
        if codes.code_of(self.constraint) != codes.LINEAR or square == 0.0:
            return 1.0 / math.sqrt(self.T)
        return sigma(1) / (2.0 * square)

    def describe_memory(self, state: LongTermState) -> str:
        return f"It has used {state.used:.4g} of {self.B:g}, and pays {state.price:.4g} for more."

    def init(self, x: Array | None = None) -> LongTermState:
        inner = self.learner.init(x)
        return LongTermState(1, inner.x, inner)

    def step(self, state: LongTermState, g: Array) -> LongTermState:
        use = float(self.constraint.value(self.row, state.x))
        slope = self.constraint.gradient(self.row, state.x)
        inner = self.learner.step(state.inner, g + self.charge(state.price, use) * slope)
        use_ahead = use + float(slope @ (inner.x - state.x))
        price = self.charge(state.price, use_ahead)
        return LongTermState(state.t + 1, inner.x, inner, price, state.used + use)

    def charge(self, price: float, use: float) -> float:
        """Change the price by what a round uses.

        Parameters
        ----------
        price : float
            The price so far.
        use : float
            What the round uses.

        Returns
        -------
        float
            The new price, not below zero.
        """
        return max(0.0, price + self.eta * (use - self.B / self.T))

    def check_state(self, state: Any) -> LongTermState:
        t = self._check_kind(state, LongTermState)
        inner = self.learner.check_state(state.inner)
        if not np.array_equal(state.x, inner.x):
            raise InvalidInput(
                f"state.x must be that of state.inner, got {np.asarray(state.x).tolist()}."
            )
        price = non_negative(state.price, "state.price")
        return LongTermState(t, inner.x, inner, price, number(state.used, "state.used"))
