"""The geometry of one step in the plane: anchor, gradients, projection and normal cone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from klazy import show
from klazy.base.checks import Array, InvalidInput, integer, rows
from klazy.learners import Learner
from klazy.sets import ConvexSet
from klazy.sets.base import outline
from klazy.theory.diagnosis import list_states, phases_of, sigmas_of

if TYPE_CHECKING:
    from klazy.show import Figure

DIRECTIONS = 720  # directions, two to a degree
AT = 1e-8  # relative to the set's size and place, a point this near counts as the same
LARGEST_DRAWN = 1e100  # in absolute value; beyond it the window of a figure overflows
RAY = 1e-6  # radians: a narrower cone is a ray


def step_picture(learner: Learner[Any], g: ArrayLike, t: int) -> Figure:
    r"""Draw one round of a run in the plane: gradients, projection and normal cone.

    The picture shows the way from the phase's anchor :math:`x_\tau` along :math:`-g_s / \sigma_t`, :math:`s = \tau, \dots, t`,
    to the unconstrained point :math:`y_{t+1}`, its projection :math:`x_{t+1}`, and the normal cone there: all points that are
    projected to this one. Where :math:`y_{t+1}` stays within the cone of :math:`x_t`, nothing moves (Prop. 3).

    Parameters
    ----------
    learner : Learner
        GD, LazyGD or KLazyGD on a set in the plane.
    g : array_like
        The gradients, of shape (T, 2).
    t : int
        The round to draw.

    Returns
    -------
    Figure
        A matplotlib figure.

    Raises
    ------
    ValueError
        If the learner or its set does not fit, or there is no round t.

    Examples
    --------
    >>> step_picture(KLazyGD(L1Ball(2), 10.0, k=5), np.tile([-1.0, 0.2], (20, 1)), t=18).axes[0].get_aspect()
    1.0
    """
    seen = _check(learner, g, t)
    domain = learner.domain
    x = np.array([state.x for state in list_states(learner, seen)])
    start, anchor, _ = phases_of(learner, x, seen)
    held = np.cumsum(seen[start[-1] :], axis=0)
    path = anchor[-1] - np.vstack((np.zeros(2), held)) / sigmas_of(learner, seen)[-1]
    around = outline(domain)
    cone = normal_cone(domain, x[-1], path[-1] - x[-1])
    return show.draw_step(
        around, path, x[-2], x[-1], cone, _window(around, np.vstack((path, x[-2:])))
    )


def _check(learner: Any, g: ArrayLike, t: int) -> Array:
    """Return g_1, ..., g_t, or reject what cannot be drawn."""
    if getattr(learner, "form", None) != "anchored":
        raise InvalidInput(
            f"learner must be a GD, LazyGD, KLazyGD or KLazyFTRL, got {learner!r}."
        )
    if learner.domain.dim != 2:
        raise InvalidInput(f"learner.domain must have dimension 2, got {learner.domain.dim}.")
    g = rows(g, "g", 2)
    largest = np.abs(g).max()
    if largest > LARGEST_DRAWN:
        raise InvalidInput(
            f"g must be within +-{LARGEST_DRAWN:g}, got {largest}. Use larger units."
        )
    t = integer(t, "t")
    if t > len(g):
        raise InvalidInput(f"t must be at most {len(g)}, the rounds of g, got {t}.")
    return g[:t]


def normal_cone(domain: ConvexSet, x: Array, guess: Array) -> Array:
    """Return a fan of unit vectors that spans the normal cone at x, from one edge to the other; empty if x is inside.

    A direction belongs to the cone if a point that way is projected to x; ``guess`` is one worth trying.
    """
    near = AT * (domain.scale + float(np.abs(x).max()))

    def miss(turns: Array) -> Array:
        return np.linalg.norm(domain.project(x + domain.scale * _unit(turns)) - x, axis=-1)

    def edge(way: float) -> float:
        low = 0.0
        high = np.pi
        for _ in range(8):  # each narrows the edge's place by 32
            ahead = np.linspace(low, high, 33)
            out = miss(best + way * ahead) > near
            if not out.any():
                return best + way * high
            low = ahead[int(np.argmax(out)) - 1]
            high = ahead[int(np.argmax(out))]
        return best + way * low

    turns = np.append(np.linspace(0.0, 2.0 * np.pi, DIRECTIONS), np.arctan2(guess[1], guess[0]))
    best = float(turns[np.argmin(miss(turns))])
    for width in (2.0 * np.pi / DIRECTIONS) / 32.0 ** np.arange(5):
        turns = best + width * np.linspace(-1.0, 1.0, 65)
        best = float(turns[np.argmin(miss(turns))])
    if miss(np.array([best])) > near:
        return np.empty((0, 2))
    first = edge(-1.0)
    last = edge(1.0)
    if (
        last - first < RAY and miss(np.array([best + np.pi])) <= near
    ):  # a segment's cone is a line
        return _unit(np.array([best, best + np.pi]))
    return _unit(np.linspace(first, last, 33))


def _window(around: Array, points: Array) -> Array:
    """Return the lower and upper corner of the picture: the points, and the set unless they are far smaller."""
    low = points.min(axis=0)
    high = points.max(axis=0)
    size = float(np.ptp(around, axis=0).max()) or 1.0
    if (high - low).max() > size / 3.0:
        low = np.minimum(low, around.min(axis=0))
        high = np.maximum(high, around.max(axis=0))
    side = high - low + 0.4 * max((high - low).max(), size / 20.0)
    side = np.maximum(side, side.max() * np.array([1.0, 0.65]))
    return np.array([low + high - side, low + high + side]) / 2.0


def _unit(turns: Array) -> Array:
    return np.column_stack((np.cos(turns), np.sin(turns)))
