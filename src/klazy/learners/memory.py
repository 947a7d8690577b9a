"""The normal-memory form, which contains all the others, and the rules that say how much of the normal survives."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from klazy.base.checks import Array, InvalidInput, check_flag, instance, number, positive
from klazy.base.config import Config
from klazy.kernels import codes
from klazy.learners.base import NEVER, Descent, check_slack
from klazy.schedules import Schedule
from klazy.sets import ConvexSet


class Memory(Config, ABC):
    """Base class of memories for :class:`MemoryGD`: which share theta in [0, 1] of the normal vector survives a round.

    Examples
    --------
    >>> [memory.theta(1, np.array([3.0, 4.0])) for memory in (Forget(), Decay(4.0), Clip(2.0), Full())]
    [0.0, 0.75, 0.4, 1.0]
    """

    code: ClassVar[int | None] = None

    _rests_on: ClassVar[dict[str, str]] = {"phase_length": "theta", "describe": "theta"}

    @abstractmethod
    def theta(self, t: int, raw: Array) -> float:
        """Give the share that survives the end of a round.

        Parameters
        ----------
        t : int
            The round.
        raw : array
            The normal vector at the new point.

        Returns
        -------
        float
            Between 0 (forget) and 1 (keep all).
        """

    @property
    def phase_length(self) -> int | None:
        """The rounds after which all is forgotten; None where they are not counted."""
        return None

    def describe(self, last: int) -> str | None:
        """Say in a sentence what remains of past rounds.

        Parameters
        ----------
        last : int
            The last round played.

        Returns
        -------
        str or None
            The sentence, if it is known.
        """
        return None

    def parameter(self) -> float:
        """Give the rule's number, for compiled runs.

        Returns
        -------
        float
            Such as k or m; 0 if there is none.
        """
        return 0.0


class Forget(Memory):
    """Keep nothing, theta = 0: :class:`MemoryGD` is then greedy :class:`GD`.

    Examples
    --------
    >>> Forget().theta(1, np.ones(2))
    0.0
    """

    code: ClassVar[int | None] = codes.FORGET

    def theta(self, t: int, raw: Array) -> float:
        return 0.0

    @property
    def phase_length(self) -> int | None:
        return 1


class Full(Memory):
    """Keep everything, theta = 1: :class:`MemoryGD` is then :class:`LazyGD`, for a constant sigma.

    Examples
    --------
    >>> Full().theta(1, np.ones(2))
    1.0
    """

    code: ClassVar[int | None] = codes.FULL

    def theta(self, t: int, raw: Array) -> float:
        return 1.0

    @property
    def phase_length(self) -> int | None:
        return NEVER


class Clock(Memory):
    """Forget everything every k-th round: theta is 0 there, else 1.

    For a constant sigma it is :class:`KLazyGD`, for a schedule an algorithm of its own.

    Parameters
    ----------
    k : int
        The rounds between, >= 1.

    Raises
    ------
    ValueError
        If k < 1.

    Examples
    --------
    >>> [Clock(3).theta(t, np.ones(2)) for t in (1, 2, 3, 4)]
    [1.0, 1.0, 0.0, 1.0]
    """

    k: int
    code: ClassVar[int | None] = codes.CLOCK

    def __init__(self, k: int) -> None:
        self._keep(k=check_slack(k))

    def theta(self, t: int, raw: Array) -> float:
        return 0.0 if t % self.k == 0 else 1.0

    @property
    def phase_length(self) -> int | None:
        return self.k

    def parameter(self) -> float:
        return self.k


class Decay(Memory):
    """Forget gradually, over about m rounds: theta = 1 - 1/m. It has no clock, so it cannot resonate with a period.

    Parameters
    ----------
    m : float
        The memory in rounds, >= 1; 1 forgets everything.

    Raises
    ------
    ValueError
        If m < 1.

    Examples
    --------
    >>> Decay(4.0).theta(1, np.ones(2))
    0.75
    """

    m: float
    code: ClassVar[int | None] = codes.DECAY

    def __init__(self, m: float) -> None:
        m = number(m, "m")
        if m < 1:
            raise InvalidInput(f"m must be at least 1, got {m:g}. Use m=1 for greedy GD.")
        self._keep(m=m)

    def theta(self, t: int, raw: Array) -> float:
        return 1.0 - 1.0 / self.m

    def describe(self, last: int) -> str | None:
        fades = f"what pushes against the set fades by 1/{self.m:g} a round"
        return f"It was made from all gradients up to round {last}; {fades}."

    def parameter(self) -> float:
        return self.m


class Clip(Memory):
    """Keep the normal, but no longer than kappa: theta = min(1, kappa / length of raw).

    Parameters
    ----------
    kappa : float
        The longest normal that survives, > 0.

    Raises
    ------
    ValueError
        If kappa is not above zero.

    Examples
    --------
    >>> Clip(2.0).theta(1, np.array([3.0, 4.0]))
    0.4
    """

    kappa: float
    code: ClassVar[int | None] = codes.CLIP

    def __init__(self, kappa: float) -> None:
        self._keep(kappa=positive(kappa, "kappa", "Use Forget() to keep nothing."))

    def theta(self, t: int, raw: Array) -> float:
        # The same on every CPU, as a product of BLAS is not.
        size = math.sqrt(float((raw * raw).sum()))
        return self.kappa / size if size > self.kappa else 1.0

    def parameter(self) -> float:
        return self.kappa


class Event(Memory):
    """Forget when the normal has grown beyond kappa: a phase ends when it must, not when a clock says so.

    Parameters
    ----------
    kappa : float
        The longest normal that survives, > 0: theta is 0 beyond it, else 1.

    Raises
    ------
    ValueError
        If kappa is not above zero.

    Examples
    --------
    >>> Event(4.0).theta(1, np.array([3.0, 4.0])), Event(6.0).theta(1, np.array([3.0, 4.0]))
    (0.0, 1.0)
    """

    kappa: float
    code: ClassVar[int | None] = codes.EVENT

    def __init__(self, kappa: float) -> None:
        self._keep(kappa=positive(kappa, "kappa", "Use Forget() to keep nothing."))

    def theta(self, t: int, raw: Array) -> float:
        return 0.0 if math.sqrt(float((raw * raw).sum())) > self.kappa else 1.0

    def parameter(self) -> float:
        return self.kappa


def check_memory(memory: Any) -> Memory:
    """Check that this is a memory."""
    return instance(memory, "memory", Memory, "a Memory such as Decay(32) or Clock(65)")


class MemoryState(NamedTuple):
    """A point, a vector of the normal cone there, and the hint that the point already took into account."""

    t: int
    x: Array
    n: Array
    hint: Array
    energy: float = 0.0


class MemoryGD(Descent[MemoryState]):
    r"""Descend, and remember the normal vector of the last projection: it contains GD, LazyGD and k-lazyGD.

    .. math:: y = x_t + (n_t - g_t + h_t - h_{t+1}) / \sigma_t, \qquad x_{t+1} = \Pi(y), \qquad
              n_{t+1} = \theta\, \sigma_t (y - x_{t+1})

    An optional hint :math:`h_{t+1}`, told at the end of round t, is a guess of the next gradient; the bound then has g - h in
    place of g.

    Parameters
    ----------
    domain : ConvexSet
        Where decisions live.
    sigma : Schedule or float, optional
        Steps are divided by it: a number, or one that changes with the rounds. Larger is slower.
    memory : Memory
        The rule that gives theta: :class:`Forget`, :class:`Full`, :class:`Clock`, :class:`Decay`, :class:`Clip` or
        :class:`Event`.
    learning_rate : float, optional
        Another way to write sigma = 1 / learning_rate. Give one of the two.
    start : array_like, optional
        First decision, x_1. Default: the point of the set nearest to the origin.
    hints : bool, optional
        Whether it takes hints. Without them it is a twin for ensembles whose hints may be wrong. Default: True.

    Raises
    ------
    ValueError
        If the memory is none, sigma is not above zero, or the start is outside the set.

    Examples
    --------
    >>> learner = MemoryGD(Box(0, 1), sigma=1.0, memory=Decay(2.0))
    >>> state = learner.step(learner.init(), np.array([-3.0]))
    >>> state.x.item(), learner.step(state, np.array([1.25])).x.item()
    (1.0, 0.75)
    """

    memory: Memory
    hints: bool

    rule: ClassVar[str | None] = "memory"
    form: ClassVar[str | None] = "memory"

    def __init__(
        self,
        domain: ConvexSet,
        sigma: Schedule | float | None = None,
        *,
        memory: Memory,
        learning_rate: float | None = None,
        start: ArrayLike | None = None,
        hints: bool = True,
    ) -> None:
        super().__init__(domain, sigma, learning_rate=learning_rate, start=start)
        self._keep(memory=check_memory(memory), hints=check_flag(hints, "hints"))

    def init(self, x: Array | None = None) -> MemoryState:
        x = self.first_point(x)
        nothing = np.zeros(self.domain.dim)
        return MemoryState(1, x, nothing, nothing)

    def step(self, state: MemoryState, g: Array, next_hint: Array | None = None) -> MemoryState:
        t, x, n, h, energy = state
        sigma, energy = self.sigma.observe(t, energy, g - h)
        if sigma == math.inf:
            return state._replace(t=t + 1)
        following = np.zeros_like(g) if next_hint is None else next_hint
        y = x + (n - g + h - following) / sigma
        x = self.domain.nearest(y)
        raw = sigma * (y - x)
        return MemoryState(t + 1, x, self.memory.theta(t, raw) * raw, following, energy)

    @property
    def phase_length(self) -> int | None:
        return self.memory.phase_length

    def describe_memory(self, state: MemoryState) -> str:
        return self.memory.describe(state.t - 1) or super().describe_memory(state)
