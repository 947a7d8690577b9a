"""Why an agent plays what it plays: the gradients behind its point, and how much it would take to move it."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from klazy.base.checks import Array
from klazy.learners import (
    GD,
    CentredOMD,
    Clock,
    Decay,
    Forget,
    Full,
    KLazyFTRL,
    KLazyGD,
    LazyGD,
    Learner,
    MemoryGD,
    SAder,
)
from klazy.learners.base import NEVER
from klazy.live.guards import Guards, GuardState
from klazy.schedules import ScaleFree
from klazy.sets import ConvexSet
from klazy.theory.diagnosis import STILL, _margins

_KNOWN = (
    GD,
    LazyGD,
    KLazyGD,
    KLazyFTRL,
    MemoryGD,
    CentredOMD,
)  # but not their subclasses, which may compute something else
_PHASES = {
    GD: 1,
    CentredOMD: 1,
    Forget: 1,
    LazyGD: NEVER,
    Full: NEVER,
}  # rounds in a phase, where there is no k
_WORDS = {
    "clip": "the gradient was clipped to G={G:g}",
    "integers": "the point was rounded to whole numbers",
    "frozen": "the agent was frozen",
    "hold": "a point is held for {hold} rounds, this one since round {since}",
    "per_round": "the move was cut to the round's budget {per_round:g}",
    "total": "the move was cut to what is left of the total budget {total:g}",
}


@dataclass(frozen=True, eq=False)
class Explanation:
    r"""Of the point ``x`` of the round ``t`` about to be played; ``own`` is the learner's, which guards may hold back.

    It was made from the gradients of rounds ``since`` to t - 1. ``y`` is where the learner would stand next if there were
    neither a set nor another gradient, and ``normal`` = :math:`\sigma_t (y - x)` the push against the set that it remembers. A
    zero gradient moves its point by ``drift``; no gradient shorter than ``margin`` moves it. What is not known is None or NaN.
    """

    t: int
    x: Array
    own: Array
    since: int | None
    y: Array | None
    normal: Array | None
    drift: float
    margin: float
    words: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join(self.words)

    __repr__ = __str__


def explain(learner: Any, state: Any, guards: Guards | None, guarded: GuardState | None) -> Explanation:
    """Explain the point that follows from a learner's state and from what guards made of it."""
    x = state.x if guarded is None else guarded.x
    since, memory = _memory(learner, state)
    y = normal = None
    drift = margin = math.nan
    if type(learner) in _KNOWN:
        y, normal, drift, margin = _slack(learner, state)
    away = float(np.linalg.norm(state.x - x))
    words = [f"Round {state.t} plays {_text(x)}."]
    words += [f"The learner's own point is {_text(state.x)}, {away:.4g} away."] if away > 0.0 else []
    words += [memory, *_push(learner, normal, drift, margin)]
    words += [] if guards is None or guarded is None else _guarding(guards, guarded)
    return Explanation(state.t, x.copy(), state.x.copy(), since, y, normal, drift, margin, tuple(words))


def _memory(learner: Learner[Any], state: Any) -> tuple[int | None, str]:
    """The first round whose gradient the point was made from, where there is one, and the memory in words."""
    last = state.t - 1
    name = type(learner).__name__
    if last == 0:
        return None, "No gradient has been seen."
    if isinstance(learner, SAder):
        w = learner.weights(state)
        heaviest = f"the heaviest, with weight {w.max():.3g}, is {learner.experts[w.argmax()]}"
        return None, f"It is the mean of {len(w)} experts' points; {heaviest}."
    rule: Any = learner.memory if type(learner) is MemoryGD else learner
    if type(rule) is Decay:
        return (
            None,
            f"It was made from all gradients up to round {last}; what pushes against the set fades by 1/{rule.m:g} a round.",
        )
    k = rule.k if type(rule) in (KLazyGD, KLazyFTRL, Clock) else _PHASES.get(type(rule))
    if k is None:
        return None, f"What {name} remembers of the rounds up to {last} depends on them."
    since = last - (last - 1) % k
    rounds = f"gradients of rounds {since} to {last}" if since < last else "gradient of that round"
    fresh = " A new phase begins now." if last % k == 0 and k > 1 else ""
    return since, f"It was made from the point of round {since} and the {rounds}.{fresh}"


class _Everywhere(ConvexSet):
    """R^d, on which a learner's next point is the one that its own set would project."""

    def __init__(self, dim: int) -> None:
        self._keep(dim=dim)

    @property
    def diameter(self) -> float:
        return math.inf

    def nearest(self, y: Array) -> Array:
        return y

    def lowest(self, g: Array) -> Array:
        raise ArithmeticError("a linear function has no least point on all of R^d")

    def violation(self, x: Array) -> Array:
        return np.zeros(x.shape[:-1])

    def farthest(self, center: Array) -> float:
        return math.inf


def _slack(learner: Any, state: Any) -> tuple[Array, Array, float, float]:
    """y, the normal, how far the point moves if the next gradient is zero, and the margin in units of gradients."""
    domain = learner.domain
    nothing = np.zeros(learner.domain.dim)
    sigma, _ = learner.sigma.observe(state.t, state.energy, nothing)
    if sigma == math.inf:
        return state.x.copy(), nothing, 0.0, math.nan
    y = learner.replace(domain=_Everywhere(domain.dim)).step(state, nothing).x
    normal = sigma * (y - state.x)
    drift = float(np.linalg.norm(domain.nearest(y) - state.x))
    if drift > STILL * domain.scale:
        return y, normal, drift, 0.0
    if isinstance(learner.sigma, ScaleFree):  # which depends on the gradient
        return y, normal, 0.0, math.nan
    reach = float(_margins(domain, y[None], state.x[None])[0])
    return y, normal, 0.0, 0.0 if reach <= STILL * domain.scale else sigma * reach


def _push(learner: Any, normal: Array | None, drift: float, margin: float) -> list[str]:
    if normal is None:
        return []
    size = float(np.linalg.norm(normal))
    domain = type(learner.domain).__name__
    binds = size > STILL * learner.domain.scale
    words = [f"It remembers a push of norm {size:.4g} against the set: {_text(normal)}."] if binds else []
    if drift > 0.0:
        return [*words, f"It moves by {drift:.4g} even if the next gradient is zero."]
    if math.isnan(margin):
        return [
            *words,
            f"How large a gradient must be to move it is not known for {learner.sigma} on a {domain}.",
        ]
    if margin == 0.0:
        return [*words, "Any gradient, however small, may move it."]
    return [*words, f"No gradient of norm below {margin:.4g} moves it."]


def _guarding(guards: Guards, guarded: GuardState) -> list[str]:
    limits = {**guards._arguments(), "since": guarded.since}
    acted = [_WORDS[name].format(**limits) for name in guarded.acted.split(", ") if name]
    words = [f"Guards acted on the last move: {'; '.join(acted)}."] if acted else []
    words += ["The agent is frozen."] if guarded.frozen else []
    return [*words, f"The last move cost {guarded.price:.4g}, all moves together {guarded.paid:.4g}."]


def _text(x: Array) -> str:
    return np.array2string(x, precision=4, threshold=8, edgeitems=3)
