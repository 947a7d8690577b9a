"""A learner that plays what somebody else says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from klazy.base.checks import Array, refusal, rows, vector
from klazy.learners.base import Learner
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
    policy : array_like or callable
        Decisions of shape (T, d), one row per round; after the last row it stays there. Or a function ``policy(t, x, g)`` of
        the
        round to be played, and of the point and the gradient of the round before (the set's start and zeros for t = 1); it
        should depend on these alone. A learner with a function cannot be written to a file.
    start : array_like, optional
        First decision. Default: what the policy says.

    Examples
    --------
    >>> ball = L2Ball(2)
    >>> experts = [GD(ball, 4.0), Advice(ball, np.tile([-1.0, 0.0], (60, 1)))]
    >>> trace = run(Leader(experts, L2Movement(0.5)), np.tile([1.0, 0.2], (60, 1)), record="experts")
    >>> round(trace.totals.cost, 2), certify_experts(trace).experts.round(2).tolist()
    (-58.5, [-58.17, -60.0])
    """

    policy: Array | Callable[[int, Array, Array], ArrayLike]
    start: Array | None

    def __init__(
        self,
        domain: ConvexSet,
        policy: ArrayLike | Callable[[int, Array, Array], ArrayLike],
        *,
        start: ArrayLike | None = None,
    ) -> None:
        if not isinstance(domain, ConvexSet):
            remedy = "write Advice(Simplex(5), decisions)"
            raise refusal("Advice", "a set to play on", "domain", repr(domain), remedy)
        kept: Any = policy if callable(policy) else rows(policy, "policy", "Advice", domain.dim)
        x1 = domain.start_at(start, "Advice")
        self._keep(domain=domain, policy=kept, start=None if start is None else x1)

    def init(self, x: Array | None = None) -> AdviceState:
        if x is None:
            x = self.start
        if x is None:
            x = self.ask(1, self.domain.start, np.zeros(self.domain.dim))
        return AdviceState(1, x)

    def step(self, state: AdviceState, g: Array) -> AdviceState:
        t = state.t + 1
        return AdviceState(t, self.ask(t, state.x, g))

    def ask(self, t: int, x: Array, g: Array) -> Array:
        """Ask the policy for a decision, and move it into the set.

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
        if callable(self.policy):
            said = self.policy(t, x.copy(), g.copy())
            return self.domain.nearest(vector(said, f"policy({t})", "Advice", self.domain.dim))
        return self.domain.nearest(self.policy[min(t, len(self.policy)) - 1])

    def describe_memory(self, state: AdviceState) -> str:
        if not callable(self.policy) and state.t > len(self.policy):
            return f"The advice ended with round {len(self.policy)}; it stays where that left it."
        return "It plays what it is advised to, whatever that costs."
