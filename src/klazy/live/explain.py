"""Explanations of an agent's point: the gradients that led to it, and how much it would take to move it."""

import math
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from klazy.base.checks import LARGEST, Array
from klazy.learners import Learner
from klazy.live.guards import Guards, GuardState, split_guards
from klazy.sets import Box
from klazy.theory.diagnosis import STILL

_COORDINATES_SHOWN = 8
_GUARD_WORDS = {
    "clip": "the gradient was clipped to G={G:g}",
    "limits": "the point was kept within the limits of the round",
    "integers": "the point was rounded to whole numbers",
    "frozen": "the agent was frozen",
    "hold": "a point is held for {hold} rounds, this one since round {since}",
    "up": "a coordinate may rise by at most {up} in a round",
    "down": "a coordinate may fall by at most {down} in a round",
    "per_round": "the move was cut to the round's budget {per_round:g}",
    "total": "the move was cut to what is left of the total budget {total:g}",
}
_FILLED = {
    "forward": "A missing cell of a row repeats the number of the row before.",
    "zero": "A missing cell of a row counts as zero.",
    "drop": "A row with a missing cell is left out.",
}


@dataclass(frozen=True, eq=False)
class Explanation:
    r"""An explanation of the point ``x`` of round ``t``; ``own`` is the learner's point, which guards may hold back.

    It was made from the gradients of rounds ``since`` to t - 1. ``y`` is where the learner would be next if there were
    neither a set nor another gradient, and ``normal`` = :math:`\sigma_t (y - x)` the push against the set that it remembers. A
    zero gradient moves its point by ``drift``; no gradient shorter than ``margin`` moves it. Unknown values are None or NaN.
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


def explain(
    learner: Any,
    state: Any,
    guards: Guards | None,
    guarded: GuardState | None,
    names: Sequence[str] | None = None,
    fill: str | None = None,
    lead: int = 0,
) -> Explanation:
    """Explain the point that follows from a learner's state and from what guards made of it, coordinates by name.

    ``fill`` is what the agent does with missing cells, ``lead`` the rounds until a decision acts.
    """
    x = state.x if guarded is None else guarded.x
    since, memory = _explain_memory(learner, state)
    y = None
    normal = None
    drift = math.nan
    margin = math.nan
    if learner.form is not None:
        y, normal, drift, margin = _measure_slack(learner, state)
    words = [f"Round {state.t} plays {_write(x, names)}."]
    away = float(np.linalg.norm(state.x - x))
    if away > 0.0:
        words.append(f"The learner's own point is {_write(state.x, names)}, {away:.4g} away.")
    words.append(memory)
    if normal is not None:
        words += _explain_slack(learner, normal, drift, margin, names)
    if guards is not None and guarded is not None:
        words += _explain_guards(guards, guarded)
    if fill is not None:
        words.append(_FILLED[fill])
    if lead:
        words.append(f"A decision acts {lead} round{'' if lead == 1 else 's'} late.")
    return Explanation(
        state.t, x.copy(), state.x.copy(), since, y, normal, drift, margin, tuple(words)
    )


def _explain_memory(learner: Learner[Any], state: Any) -> tuple[int | None, str]:
    """Return the first round whose gradient made the point, if there is one, and describe the memory."""
    last = state.t - 1
    if last == 0:
        return None, "No gradient has been seen."
    k = learner.phase_length
    if k is None:
        return None, learner.describe_memory(state)
    since = last - (last - 1) % k
    rounds = (
        f"gradients of rounds {since} to {last}" if since < last else "gradient of that round"
    )
    words = f"It was made from the point of round {since} and the {rounds}."
    if last % k == 0 and k > 1:
        words += " A new phase begins now."
    return since, words


def _measure_slack(learner: Any, state: Any) -> tuple[Array, Array, float, float]:
    """Return y, the normal, how far the point moves if the next gradient is zero, and the margin in units of gradients."""
    domain = learner.domain
    nothing = np.zeros(domain.dim)
    sigma, _ = learner.sigma.observe(state.t, state.energy, nothing)
    if sigma == math.inf:
        return state.x.copy(), nothing, 0.0, math.nan
    unbound = copy(learner)
    largest = np.full(domain.dim, LARGEST)
    unbound._keep(domain=Box(-largest, largest))
    y = unbound.step(state, nothing).x
    normal = sigma * (y - state.x)
    drift = float(np.linalg.norm(domain.nearest(y) - state.x))
    if drift > STILL * domain.scale:
        return y, normal, drift, 0.0
    # With an adaptive sigma the gradient that moves the point changes sigma, too.
    if learner.sigma.adaptive:
        return y, normal, 0.0, math.nan
    margin = float(domain.margin(y))
    if margin <= STILL * domain.scale:
        return y, normal, 0.0, 0.0
    return y, normal, 0.0, sigma * margin


def _explain_slack(
    learner: Any, normal: Array, drift: float, margin: float, names: Sequence[str] | None
) -> list[str]:
    words = []
    size = float(np.linalg.norm(normal))
    if size > STILL * learner.domain.scale:
        words.append(
            f"It remembers a push of norm {size:.4g} against the set: {_write(normal, names)}."
        )
    if drift > 0.0:
        words.append(f"It moves by {drift:.4g} even if the next gradient is zero.")
    elif math.isnan(margin):
        where = f"{learner.sigma} on a {type(learner.domain).__name__}"
        words.append(f"How large a gradient must be to move it is not known for {where}.")
    elif margin == 0.0:
        words.append("Any gradient, however small, may move it.")
    else:
        words.append(f"No gradient of norm below {margin:.4g} moves it.")
    return words


def _explain_guards(guards: Guards, guarded: GuardState) -> list[str]:
    words = []
    limits = {**guards._arguments(), "since": guarded.since}
    acted = [_GUARD_WORDS[name].format(**limits) for name in split_guards(guarded.acted)]
    if acted:
        words.append(f"Guards acted on the last move: {'; '.join(acted)}.")
    if guarded.frozen:
        words.append("The agent is frozen.")
    words.append(
        f"The last move cost {guarded.price:.4g}, all moves together {guarded.paid:.4g}."
    )
    return words


def _write(x: Array, names: Sequence[str] | None) -> str:
    """Write a point with few digits: by name where there are names, and of many entries the largest."""
    if names is None:
        return np.array2string(x, precision=4, threshold=8, edgeitems=3)
    shown = np.sort(np.argsort(-np.abs(x), kind="stable")[:_COORDINATES_SHOWN])
    text = ", ".join(f"{names[i]} {x[i]:.4g}" for i in shown)
    return (
        text
        if len(x) <= _COORDINATES_SHOWN
        else f"{text} and {len(x) - _COORDINATES_SHOWN} smaller ones"
    )
