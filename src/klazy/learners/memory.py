"""The normal-memory form, which contains all the others, and the rules that say how much of the normal is kept."""

import math
from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from klazy.base.checks import Array, check_flag, number, positive, refusal
from klazy.base.config import Config
from klazy.kernels import codes
from klazy.learners.base import NEVER, Descent, check_slack
from klazy.schedules import Schedule
from klazy.sets import ConvexSet


class Memory(Config, ABC):
    """Which share theta in [0, 1] of the normal vector survives a round."""

    code: ClassVar[int | None] = None

    _rests_on: ClassVar[dict[str, str]] = {"phase_length": "theta", "describe": "theta"}

    @abstractmethod
    def theta(self, t: int, raw: Array) -> float:
        """The share kept at the end of round t of the normal ``raw`` at the new point."""

    @property
    def phase_length(self) -> int | None:
        """The rounds after which nothing is kept; None where they are not counted."""
        return None

    def describe(self, last: int) -> str | None:
        """What is kept of the rounds up to ``last``, in a sentence, if it is known."""
        return None

    def parameter(self) -> float:
        """The rule's number, for the kernel."""
        return 0.0


class Forget(Memory):
    """theta = 0: greedy :class:`GD`."""

    code: ClassVar[int | None] = codes.FORGET

    def theta(self, t: int, raw: Array) -> float:
        return 0.0

    @property
    def phase_length(self) -> int | None:
        return 1


class Full(Memory):
    """theta = 1: :class:`LazyGD` for a constant sigma."""

    code: ClassVar[int | None] = codes.FULL

    def theta(self, t: int, raw: Array) -> float:
        return 1.0

    @property
    def phase_length(self) -> int | None:
        return NEVER


class Clock(Memory):
    """theta = 0 at every k-th round, else 1: :class:`KLazyGD` for a constant sigma, its own algorithm for a schedule."""

    k: int
    code: ClassVar[int | None] = codes.CLOCK

    def __init__(self, k: int) -> None:
        self._keep(k=check_slack(k, "Clock"))

    def theta(self, t: int, raw: Array) -> float:
        return 0.0 if t % self.k == 0 else 1.0

    @property
    def phase_length(self) -> int | None:
        return self.k

    def parameter(self) -> float:
        return self.k


class Decay(Memory):
    """theta = 1 - 1/m: exponential forgetting over about m rounds. No clock, so it cannot resonate with a period."""

    m: float
    code: ClassVar[int | None] = codes.DECAY

    def __init__(self, m: float) -> None:
        m = number(m, "m", "Decay")
        if m < 1:
            raise refusal("Decay", "a memory m >= 1", "m", m, "use m=1 for greedy GD")
        self._keep(m=m)

    def theta(self, t: int, raw: Array) -> float:
        return 1.0 - 1.0 / self.m

    def describe(self, last: int) -> str | None:
        fades = f"what pushes against the set fades by 1/{self.m:g} a round"
        return f"It was made from all gradients up to round {last}; {fades}."

    def parameter(self) -> float:
        return self.m


class Clip(Memory):
    """theta = min(1, kappa / size of raw): the normal is kept, but no longer than kappa."""

    kappa: float
    code: ClassVar[int | None] = codes.CLIP

    def __init__(self, kappa: float) -> None:
        self._keep(kappa=positive(kappa, "kappa", "Clip", "use Forget() to keep nothing"))

    def theta(self, t: int, raw: Array) -> float:
        size = math.sqrt(float((raw * raw).sum()))  # the same on every CPU, as a product of BLAS is not
        return self.kappa / size if size > self.kappa else 1.0

    def parameter(self) -> float:
        return self.kappa


class Event(Memory):
    """theta = 0 when the normal has grown beyond kappa, else 1: a phase ends when it must, not when a clock says so."""

    kappa: float
    code: ClassVar[int | None] = codes.EVENT

    def __init__(self, kappa: float) -> None:
        self._keep(kappa=positive(kappa, "kappa", "Event", "use Forget() to keep nothing"))

    def theta(self, t: int, raw: Array) -> float:
        return 0.0 if math.sqrt(float((raw * raw).sum())) > self.kappa else 1.0

    def parameter(self) -> float:
        return self.kappa


class MemoryState(NamedTuple):
    """A point, a vector of the normal cone there, and the hint that the point already took into account."""

    t: int
    x: Array
    n: Array
    hint: Array
    energy: float = 0.0


class MemoryGD(Descent[MemoryState]):
    r"""Gradient descent that remembers the normal vector of its last projection.

    .. math:: y = x_t + (n_t - g_t + h_t - h_{t+1}) / \sigma_t, \qquad x_{t+1} = \Pi(y), \qquad
              n_{t+1} = \theta\, \sigma_t (y - x_{t+1})

    The rule ``memory`` gives theta: :class:`Forget`, :class:`Full`, :class:`Clock`, :class:`Decay`, :class:`Clip` or
    :class:`Event`. An optional ``hint`` is a guess of the next gradient; the bound then has g - h in place of g. With
    ``hints=False`` it takes none: a twin for ensembles whose hints may be wrong.
    """

    memory: Memory
    hints: bool

    rule: ClassVar[str | None] = "memory"
    form: ClassVar[str | None] = "memory"

    def __init__(
        self,
        domain: ConvexSet,
        sigma: Schedule | float,
        memory: Memory,
        *,
        start: ArrayLike | None = None,
        hints: bool = True,
    ) -> None:
        super().__init__(domain, sigma, start=start)
        if not isinstance(memory, Memory):
            raise refusal("MemoryGD", "a memory rule", "memory", repr(memory), "write Decay(32) or Clock(65)")
        takes_hints = check_flag(hints, "hints", "MemoryGD")
        self._keep(memory=memory, hints=takes_hints, accepts_hints=takes_hints)

    def init(self, x: Array | None = None) -> MemoryState:
        x = self.first(x)
        nothing = np.zeros(self.domain.dim)
        return MemoryState(1, x, nothing, nothing)

    def step(self, state: MemoryState, g: Array, hint: Array | None = None) -> MemoryState:
        t, x, n, h, energy = state
        sigma, energy = self.sigma.observe(t, energy, g - h)
        if sigma == math.inf:
            return state._replace(t=t + 1)
        following = np.zeros_like(g) if hint is None else hint
        y = x + (n - g + h - following) / sigma
        x = self.domain.nearest(y)
        raw = sigma * (y - x)
        return MemoryState(t + 1, x, self.memory.theta(t, raw) * raw, following, energy)

    @property
    def phase_length(self) -> int | None:
        return self.memory.phase_length

    def describe_memory(self, state: MemoryState) -> str:
        return self.memory.describe(state.t - 1) or super().describe_memory(state)
