"""The update rules, each once, over a lane; and what each keeps between rounds.

A round is *propose, project, accept, remember*. ``propose`` writes the unconstrained point into ``y`` and returns
<g, x>. The projection of ``y`` is the next point, unless the rule has an ``accept``, which says for which runs it is.
``remember`` follows the move. Their arguments:

- ``x, g, h, d``: the point, the gradient there, the hint for the next round, the dimension;
- ``own, s``: the rule's own vectors, one after the other, and its own numbers (parameters first);
- ``sigma, step, old``: sigma_t, 1 / sigma_t (0 while there is no scale), and the last sigma if the rule keeps it;
- ``starts, ends``: whether this is the first or the last round of a phase.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from klazy.kernels.codes import OWN_ROOM
from klazy.kernels.lane import anywhere, everywhere, load, root, skip, spread, store, where
from klazy.kernels.memories import share_kept


class Rule(NamedTuple):
    """A rule's parts, and what it keeps between rounds.

    ``keeps_sigma``: the last sigma, as the field ``sigma`` of the learner's state. ``vectors`` and ``scalars`` are further
    fields beside ``t``, ``x`` and ``energy``; ``parameters`` are numbers among the learner's attributes.
    """

    propose: Callable[..., Any]
    accept: Callable[..., Any] | None = None
    remember: Callable[..., Any] | None = None
    keeps_sigma: bool = False
    vectors: tuple[str, ...] = ()
    scalars: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()


def gd(x, own, s, g, h, y, d, sigma, step, old, starts):
    dot = spread(0.0)
    for i in range(d):
        point = load(x, i)
        dot = dot + point * g[i]
        store(y, i, point - step * g[i])
    return dot


def k_lazy(x, own, s, g, h, y, d, sigma, step, old, starts):
    anchor = own
    g_sum = skip(own, d)
    dot = spread(0.0)
    if anywhere(starts):
        for i in range(d):
            dot = dot + load(x, i) * g[i]
            origin = where(starts, load(x, i), load(anchor, i))
            summed = where(starts, spread(0.0), load(g_sum, i)) + g[i]
            store(anchor, i, origin)
            store(g_sum, i, summed)
            store(y, i, origin - summed * step)
    else:  # written out, so that y does not wait for x: rounds of a phase then overlap in the processor
        for i in range(d):
            dot = dot + load(x, i) * g[i]
            summed = load(g_sum, i) + g[i]
            store(g_sum, i, summed)
            store(y, i, load(anchor, i) - summed * step)
    return dot


def k_lazy_ftrl(x, own, s, g, h, y, d, sigma, step, old, starts):
    anchor = own
    dual = skip(own, d)
    dot = spread(0.0)
    if anywhere(starts):
        for i in range(d):
            dot = dot + load(x, i) * g[i]
            origin = where(starts, load(x, i), load(anchor, i))
            pruned = where(starts, 0.0 - old * load(x, i), load(dual, i))
            p = pruned + (g[i] - (sigma - old) * origin)
            store(anchor, i, origin)
            store(dual, i, p)
            store(y, i, 0.0 - p * step)
    else:  # written out, as above
        for i in range(d):
            dot = dot + load(x, i) * g[i]
            p = load(dual, i) + (g[i] - (sigma - old) * load(anchor, i))
            store(dual, i, p)
            store(y, i, 0.0 - p * step)
    if not everywhere(step > 0.0):  # a run without a scale stays
        for i in range(d):
            store(y, i, where(step > 0.0, load(y, i), load(x, i)))
    return dot


def memory(x, own, s, g, h, y, d, sigma, step, old, starts):
    normal = own
    hint = skip(own, d)
    dot = spread(0.0)
    for i in range(d):
        point = load(x, i)
        dot = dot + point * g[i]
        pull = (load(normal, i) - g[i]) + (load(hint, i) - h[i])
        store(hint, i, spread(h[i]))
        store(y, i, point + pull * step)
    return dot


def keep_normal(x, own, s, y, d, sigma, ends, kept, kappa):
    """The memory's share theta of the normal sigma (y - x)."""
    normal = own
    square = spread(0.0)
    for i in range(d):
        raw = sigma * (load(y, i) - load(x, i))
        store(normal, i, raw)
        square = square + raw * raw
    theta = share_kept(kept, kappa, square, ends)
    for i in range(d):
        store(normal, i, load(normal, i) * theta)


def centred(x, own, s, g, h, y, d, sigma, step, old, starts):
    center = own
    dot = spread(0.0)
    for i in range(d):
        point = load(x, i)
        dot = dot + point * g[i]
        pull = (sigma - old) * (load(center, i) - point)
        store(y, i, point + (pull - g[i]) * step)
    return dot


def patient(x, own, s, g, h, y, d, sigma, step, old, starts):
    goal = own
    dot = spread(0.0)
    for i in range(d):
        dot = dot + load(x, i) * g[i]
        store(s, 1, load(s, 1) + (load(x, i) - load(goal, i)) * g[i])
        store(y, i, load(goal, i) - step * g[i])
    return dot


def debt_is_due(x, own, s, z, d):
    square = spread(0.0)
    for i in range(d):
        gap = load(z, i) - load(x, i)
        square = square + gap * gap
        store(own, i, load(z, i))
    debt = load(s, 1)
    moves = debt >= load(s, 0) * root(square)
    store(s, 1, where(moves, spread(0.0), debt))
    return moves


RULES = {
    "gd": Rule(gd),
    "k_lazy": Rule(k_lazy, vectors=("anchor", "g_sum")),
    "k_lazy_ftrl": Rule(k_lazy_ftrl, keeps_sigma=True, vectors=("anchor", "p")),
    "memory": Rule(memory, remember=keep_normal, vectors=("n", "hint")),
    "centred": Rule(centred, keeps_sigma=True, vectors=("center",)),
    "patient": Rule(patient, debt_is_due, vectors=("goal",), scalars=("debt",), parameters=("price",)),
}

for _name, _rule in RULES.items():
    if len(_rule.parameters) + len(_rule.scalars) > OWN_ROOM:
        raise ImportError(f"the rule {_name} has more numbers of its own than OWN_ROOM in codes.py")
