"""Feedback that comes late, in another order, or never."""

from typing import Any, ClassVar, NamedTuple

import numpy as np

from klazy.base.checks import Array, InvalidInput, integer, rows
from klazy.learners.base import Learner
from klazy.learners.wrapping import Wrapper


class DelayedState(NamedTuple):
    """The learner's own state, and the rounds that wait for feedback with the points played in them.

    ``rounds`` has shape (n,), ``points`` (n, d), the oldest first.
    """

    t: int
    x: Array
    inner: Any
    rounds: Array
    points: Array


class Delayed(Wrapper[DelayedState]):
    r"""Any learner where feedback comes late, out of order, or never.

    A round ends with its feedback (``step``) or without it (:meth:`advance`); then it waits, with the point that was played.
    What comes later is learned by :meth:`learn`, in the order in which it comes; a round whose feedback never comes is given up
    by :meth:`give_up`. The point of the current round stays: feedback that arrives meanwhile shows in the next one. If none is
    late, it plays what the learner plays. The learner inside counts feedback, not rounds.

    Let feedback number n be that of round :math:`s_n`, and :math:`z_n` the learner's point just before it. Then

    .. math:: \sum_n \langle g_{s_n}, x_{s_n} - u_{s_n}\rangle
              = \sum_n \langle g_{s_n}, z_n - u_{s_n}\rangle + \sum_n \langle g_{s_n}, x_{s_n} - z_n\rangle :

    the learner's own regret in the order of arrival, and the loss because it went on while a gradient was outstanding. If
    no step is longer than :math:`G/\sigma`, the latter is at most :math:`G^2/\sigma` times the number of pairs of a round and a
    feedback that was learned while it waited, and there are no more such pairs than the sum of all delays
    (:func:`~klazy.theory.delayed_bound`, :func:`~klazy.theory.certify`).

    Parameters
    ----------
    learner : Learner
        Who decides.

    Examples
    --------
    >>> learner = Delayed(GD(Box(-1, 1), sigma=2.0))
    >>> state = learner.advance(learner.init())  # round 1 ends, its feedback will come
    >>> state = learner.learn(state, 1, np.array([1.0]))  # it comes in round 2, whose point stays
    >>> state.x.tolist(), learner.advance(state).x.tolist()
    ([0.0], [-0.5])
    """

    takes_delays: ClassVar[bool] = True

    def __init__(self, learner: Learner[Any]) -> None:
        self._wrap(learner)

    def describe_memory(self, state: DelayedState) -> str:
        waiting = len(state.rounds)
        if waiting == 0:
            return "No feedback is outstanding."
        first = int(state.rounds[0])
        return f"The feedback of {waiting} rounds is outstanding, the oldest of round {first}."

    def init(self, x: Array | None = None) -> DelayedState:
        inner = self.learner.init(x)
        return DelayedState(1, inner.x, inner, np.empty(0), np.empty((0, self.domain.dim)))

    def step(self, state: DelayedState, g: Array) -> DelayedState:
        inner = self.learner.step(state.inner, g)
        return state._replace(t=state.t + 1, x=inner.x, inner=inner)

    def advance(self, state: DelayedState, played: Array | None = None) -> DelayedState:
        """End the round without its feedback, which may come later.

        Parameters
        ----------
        state : DelayedState
            The state in the round.
        played : ndarray, optional
            The point that was played. Default: ``state.x``.

        Returns
        -------
        DelayedState
            The state in the next round.
        """
        point = state.x if played is None else played
        rounds = np.append(state.rounds, float(state.t))
        points = np.vstack((state.points.reshape(-1, self.domain.dim), point))
        return state._replace(t=state.t + 1, x=state.inner.x, rounds=rounds, points=points)

    def learn(self, state: DelayedState, round: int, g: Array) -> DelayedState:
        """Learn from the feedback of an earlier round; the current round and its point stay.

        Parameters
        ----------
        state : DelayedState
            The state in the current round.
        round : int
            The round that the feedback is of, one of ``state.rounds``.
        g : ndarray
            A gradient at the point played then, or the row of a learner with a family.

        Returns
        -------
        DelayedState
            The state after it.
        """
        return self.give_up(state, round)._replace(inner=self.learner.step(state.inner, g))

    def give_up(self, state: DelayedState, round: int) -> DelayedState:
        """Forget a round whose feedback will never come.

        Parameters
        ----------
        state : DelayedState
            The state in the current round.
        round : int
            The round to forget, one of ``state.rounds``.

        Returns
        -------
        DelayedState
            The state without it.
        """
        others = state.rounds != round
        return state._replace(rounds=state.rounds[others], points=state.points[others])

    def find_point(self, state: DelayedState, round: Any) -> Array:
        """Find the point played in a round that waits for feedback.

        Parameters
        ----------
        state : DelayedState
            The state to look in.
        round : int
            The round, counted from 1.

        Returns
        -------
        array
            The point, of shape (d,).

        Raises
        ------
        ValueError
            If this round does not wait for feedback.
        """
        s = integer(round, "round")
        found = np.flatnonzero(state.rounds == s)
        if len(found) == 0:
            waiting = ", ".join(str(int(r)) for r in state.rounds[:8]) or "none"
            raise InvalidInput(
                f"Round {s} does not wait for feedback. Rounds that do: {waiting}."
            )
        return state.points[found[0]]

    def check_state(self, state: Any) -> DelayedState:
        t = self._check_kind(state, DelayedState)
        inner = self.learner.check_state(state.inner)
        waiting = np.asarray(state.rounds, dtype=np.float64).ravel()
        is_order = (np.diff(waiting, prepend=0.0, append=float(t)) > 0.0).all()
        if not is_order or not np.array_equal(waiting, np.trunc(waiting)):
            given = waiting.tolist()
            raise InvalidInput(
                f"state.rounds must be rounds before {t} in their order, got {given}."
            )
        points = np.empty((0, self.domain.dim))
        if len(waiting):
            points = rows(state.points, "state.points", self.domain.dim, len(waiting))
        self._check_inside(np.vstack((state.x, points)))
        return DelayedState(t, state.x, inner, waiting, points)
