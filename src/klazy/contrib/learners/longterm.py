"""A learner that keeps what it uses within bounds in the long run, at a price that it learns."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from klazy.base.checks import Array, non_negative, number, positive, refusal, size, vector, whole
from klazy.families import Family, Linear
from klazy.learners.base import Learner
from klazy.learners.wrapping import check_inner
from klazy.movement import Movement


class LongTermState(NamedTuple):
    """The learner's own state, the price of what is used, and what has been used so far."""

    t: int
    x: Array
    inner: Any
    price: float = 0.0
    used: float = 0.0


class LongTerm(Learner[LongTermState]):
    r"""Any learner under a constraint on the sum over all rounds, :math:`\sum_t c(x_t) \le B`.

    Single rounds may use more than their share :math:`B/T`, others less. A price rises while more is used and falls while less
    is; the learner pays it, in its gradients:

    .. math:: h_t = g_t + p_t \nabla c(x_t), \qquad p_{t+1} = \max\bigl(0,\; p_t + \eta\, (c(x_t) - B/T)\bigr), \qquad p_1 = 0.

    By the end of any round t the sum is at most :math:`p_{t+1}/\eta` above :math:`t B / T`, so it may exceed B a little: give a
    smaller B where it must not. If no :math:`c(u_t)` is above B/T, dynamic regret is at most that of the learner on the
    :math:`h_t`, and :math:`\frac{\eta}{2} \sum_t (c(x_t) - B/T)^2` (:func:`~klazy.contrib.certify_long_term`).

    Parameters
    ----------
    learner : Learner
        Who decides; it must be told gradients.
    row : array_like
        What :math:`c(x)` is made from: with the default constraint, what a unit of each coordinate uses.
    B : float
        How much may be used in all.
    T : int
        The number of rounds.
    constraint : Family, optional
        What c is, given its row: convex. Default: :class:`Linear`, :math:`c(x) = \langle \mathrm{row}, x \rangle`.
    eta : float, optional
        How fast the price changes. Default: :math:`1/\sqrt T`, for costs and uses of size about one.

    Examples
    --------
    >>> learner = LongTerm(GD(Box(0, 1), sigma=20.0), [1.0], B=100.0, T=400)  # a quarter, on average
    >>> trace = run(learner, -np.ones((400, 1)))
    >>> round(trace.state.used), round(trace.state.price, 1)
    (117, 0.9)
    """

    learner: Learner[Any]
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
        owner = "LongTerm"
        check_inner(learner, owner)
        if not learner.takes_gradients:
            remedy = "use GD or another learner without a family"
            raise refusal(owner, "a learner that is told gradients", "learner", repr(learner), remedy)
        known = Linear() if constraint is None else constraint
        if not isinstance(known, Family):
            remedy = "write constraint=Quadratic()"
            raise refusal(owner, "a cost family", "constraint", repr(constraint), remedy)
        known.check(learner.domain.dim)
        values = vector(row, "row", owner, learner.domain.dim)
        if known.positive and not (values > 0.0).all():
            raise refusal(owner, f"numbers above zero for {known}", "row", values.tolist(), "give them")
        T = size(T, "T", owner, "a horizon T >= 1", "give the number of rounds")
        rate = 1.0 / math.sqrt(T) if eta is None else positive(eta, "eta", owner)
        self._keep(learner=learner, row=values, B=number(B, "B", owner), T=T, constraint=known, eta=rate)
        self._keep(domain=learner.domain)

    @property
    def own_movement(self) -> Movement:
        return self.learner.own_movement

    def describe_memory(self, state: LongTermState) -> str:
        return f"It has used {state.used:.4g} of {self.B:g}, and pays {state.price:.4g} for more."

    def init(self, x: Array | None = None) -> LongTermState:
        inner = self.learner.init(x)
        return LongTermState(1, inner.x, inner)

    def step(self, state: LongTermState, g: Array) -> LongTermState:
        use = float(self.constraint.value(self.row, state.x))
        inner = self.learner.step(state.inner, self.charge(state, g))
        price = max(0.0, state.price + self.eta * (use - self.B / self.T))
        return LongTermState(state.t + 1, inner.x, inner, price, state.used + use)

    def charge(self, state: LongTermState, g: Array) -> Array:
        """Add the price of what is used to a gradient.

        Parameters
        ----------
        state : LongTermState
            The state in the round.
        g : array
            The gradient of the round's cost.

        Returns
        -------
        array
            What the learner inside is told, :math:`h_t`.
        """
        return g + state.price * self.constraint.gradient(self.row, state.x)

    def check_state(self, state: Any, owner: str) -> LongTermState:
        if type(state) is not LongTermState:
            remedy = "go on from a trace or agent of the same learner"
            raise refusal(owner, "a state of LongTerm", "state", repr(state), remedy)
        t = whole(state.t, "state.t", owner, "a round t >= 1", "rounds are counted from one")
        inner = self.learner.check_state(state.inner, owner)
        if not np.array_equal(state.x, inner.x):
            remedy = "go on from a trace or agent"
            raise refusal(owner, "the learner's own point", "state.x", np.asarray(state.x), remedy)
        price = non_negative(state.price, "state.price", owner)
        return LongTermState(t, inner.x, inner, price, number(state.used, "state.used", owner))
