"""A learner that plays in blocks: it moves once in so many rounds."""

from typing import Any, NamedTuple

import numpy as np

from klazy.base.checks import Array, refusal, whole
from klazy.learners.base import Learner
from klazy.movement import Movement


class BlocksState(NamedTuple):
    """The learner within, and the gradients of the block so far, added up."""

    t: int
    x: Array
    experts: tuple[Any, ...]
    g_sum: Array


class Blocks(Learner[BlocksState]):
    r"""Plays a learner in blocks of B rounds: it stays within a block, and is told the block's mean gradient at its end.

    It is the plain way to move less, and the one to compare others with. Against a comparator that stays within blocks its
    regret is B times that of the learner in :math:`\lceil T/B \rceil` rounds, and it moves in so many rounds at most, no
    further in each than the set is wide. So any regret becomes one with bounded movement, also that of
    :class:`StronglyAdaptive` on every interval; but at the best B for a learner of regret :math:`\sqrt T` both are of
    order :math:`T^{2/3}`, where a descent with theory's sigma has :math:`\sqrt T`.

    Parameters
    ----------
    learner : Learner
        What plays, one round for each block; it is told gradients.
    length : int
        B, the rounds of a block.

    Raises
    ------
    ValueError
        If the learner is told rows of costs, or the length is no whole number above zero.

    Examples
    --------
    >>> trace = run(Blocks(GD(Box(-1, 1), 2.0), 3), [[1.0], [-1.0], [1.5], [0.0], [0.0], [0.0], [2.0]], engine="step")
    >>> trace.x[:, 0].tolist()
    [0.0, 0.0, 0.0, -0.25, -0.25, -0.25, -0.25]
    """

    learner: Learner[Any]
    length: int

    def __init__(self, learner: Learner[Any], length: int) -> None:
        owner = "Blocks"
        if not isinstance(learner, Learner):
            remedy = "write Blocks(GD(L2Ball(5), 1.0), 10)"
            raise refusal(owner, "a learner", "learner", repr(learner), remedy)
        if not learner.takes_gradients:
            wanted = "a learner that is told gradients"
            raise refusal(owner, wanted, "learner.family", learner.family, "leave the family out")
        rounds = whole(length, "length", owner, "length >= 1", "give the rounds of a block")
        self._keep(learner=learner, length=rounds, domain=learner.domain, experts=(learner,))

    @property
    def own_movement(self) -> Movement:
        return self.learner.own_movement

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
