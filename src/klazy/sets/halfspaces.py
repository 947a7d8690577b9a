"""Projections without a closed form: onto half-spaces by a quadratic programme (daqp), into a ball by a search."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from klazy.base.checks import Array
from klazy.base.install import make_missing
from klazy.sets.separable import Separable

INFINITE = 1e30  # what daqp takes for infinity
EQUATION = 5  # daqp's code of an equation
FAR = 1e8  # in sizes of the set: beyond that, rounding decides between points of the set anyway
TIGHT = 1e-13  # the solver's tolerance, in sizes of the set
AIM = 1e-14  # how far inside a ball a search aims, so that rounding does not put its point outside
SEARCH = 200  # steps of a search; halving alone needs about 60


class HalfSpaces(NamedTuple):
    """The points with A x <= b, and A x = b in the rows marked ``equal``. Rows of A have norm 1."""

    A: Array
    b: Array
    equal: NDArray[np.bool_]

    def select(self, rows: NDArray[np.bool_]) -> "HalfSpaces":
        """Return some of them."""
        return HalfSpaces(self.A[rows], self.b[rows], self.equal[rows])


def join(parts: list[HalfSpaces]) -> HalfSpaces:
    """Join the half-spaces of all parts."""
    return HalfSpaces(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def stand_side_by_side(parts: list[HalfSpaces]) -> HalfSpaces:
    """Join the half-spaces of the sets of a product, which have coordinates of their own."""
    from scipy.linalg import block_diag

    joined = [np.concatenate(columns) for columns in zip(*(part[1:] for part in parts), strict=True)]
    A: Any = block_diag(*(part.A for part in parts))
    return HalfSpaces(A, *joined)


def bound_by(low: Array, high: Array) -> HalfSpaces:
    """Return the half-spaces of ``low <= x <= high``."""
    unit = np.eye(low.size)
    A = np.concatenate((unit, -unit))
    return HalfSpaces(A, np.concatenate((high, -low)), np.zeros(2 * low.size, dtype=bool))


def sum_to(total: float, d: int) -> HalfSpaces:
    """Return the half-spaces of points whose coordinates sum to ``total``."""
    root = d**0.5
    return HalfSpaces(np.full((1, d), 1.0 / root), np.array([total / root]), np.ones(1, dtype=bool))


def project_onto(spaces: HalfSpaces, y: Array, middle: Array, size: float) -> Array | None:
    """Project ``y`` onto half-spaces; None if they have no point in common.

    ``middle`` and ``size`` say where they meet and how large that is, roughly: the solver works in these units.
    """
    target = (y - middle) / size
    distance = float(np.abs(target).max())
    if distance > FAR:
        target = target * (FAR / distance)
    scaled = HalfSpaces(spaces.A, (spaces.b - spaces.A @ middle) / size, spaces.equal)
    x = _solve(scaled, target)
    if x is not None and distance > 1.0:
        # The solver's point carries the rounding of `target`. Projected once more it carries its own only.
        x = _solve(scaled, x)
    if x is None:
        return None
    return middle + size * x


def _solve(spaces: HalfSpaces, y: Array) -> Array | None:
    return _solve_quadratic(np.eye(y.size), -y, spaces)


def _solve_quadratic(H: Array, slope: Array, spaces: HalfSpaces, bounds: int = 0) -> Array | None:
    """Minimise 1/2 <x, H x> + <slope, x> on half-spaces where the first ``bounds`` variables are not negative."""
    try:
        from daqp import solve
    except ImportError as missing:
        owner = "Polytope and some intersections"
        raise make_missing(owner, "daqp", "polytope", verb="need") from missing
    free = np.full(bounds, INFINITE)
    upper = np.concatenate((free, spaces.b))
    lower = np.concatenate((0.0 * free, np.where(spaces.equal, spaces.b, -INFINITE)))
    is_equal = np.concatenate((np.zeros(bounds, dtype=bool), spaces.equal))
    sense = np.where(is_equal, EQUATION, 0).astype(np.int32)
    # A negative eps_prox has daqp regularise a singular H by itself, and correct for it.
    x, _, status, _ = solve(H, slope, spaces.A, upper, lower, sense, primal_tol=TIGHT, eps_prox=-1.0)
    return x if status >= 1 else None


def balance_on(spaces: HalfSpaces, objective: Separable, size: float) -> Array | None:
    """Minimise an objective that charges each coordinate by itself on half-spaces; None if no solution is found.

    The variables are what rises and what falls, in units of the set's ``size``. The curvature may be zero.
    """
    x = objective.x
    d = x.size
    slope = objective.g + objective.curvature * x
    scale = float((np.abs(slope) + objective.rise + objective.fall).max()) or 1.0
    prices = np.concatenate((slope + objective.rise, objective.fall - slope)) / scale
    signs = np.hstack((np.eye(d), -np.eye(d)))
    steps = HalfSpaces(spaces.A @ signs, (spaces.b - spaces.A @ x) / size, spaces.equal)
    found = _solve_quadratic(objective.curvature * size / scale * (signs.T @ signs), prices, steps, 2 * d)
    if found is None:
        return None
    step = signs @ found
    return x + size * np.where(np.abs(step) > TIGHT, step, 0.0)


def project_into_ball(project: Callable[[Array], Array], y: Array, center: Array, radius: float) -> Array:
    r"""Project ``y`` onto the part of another set that is in a ball; ``project`` projects onto the other set.

    A multiplier of the ball's constraint pulls y towards its centre c. So the point is
    :math:`u(s) = \Pi(c + s (y - c))` with the largest s up to 1 for which it is in the ball; its distance from c grows
    with s. Every row of ``y`` is searched for by itself, so it ends where it would end alone.
    """
    u = project(y)
    outside = _distance(u, center) > radius
    if not outside.any():
        return u
    u = u.copy()
    u[outside] = _search(project, y[outside], center, radius)
    return u


def _search(project: Callable[[Array], Array], y: Array, center: Array, radius: float) -> Array:
    """:func:`project_into_ball` for rows that lie outside, by false position with a bisection now and then.

    While u(s) stays on one face of the other set, its squared distance from c is a linear function of s^2, so the next
    guess is exact.
    """
    arm = y - center
    reach = _distance(y, center)
    low = np.zeros(len(y))
    high = np.ones(len(y))
    best = project(np.broadcast_to(center, y.shape).copy())
    below = _beyond(best, center, radius)
    above = _beyond(project(y), center, radius)
    was_inside = np.ones(len(y), dtype=bool)
    searched = np.arange(len(y))
    for step in range(SEARCH):
        a = low[searched]
        b = high[searched]
        middle = 0.5 * (a + b)
        if step == 0:
            s = radius / np.maximum(
                reach, radius
            )  # where the ball's own projection is: the other set may not matter
        elif step % 4 == 0:
            s = middle
        else:
            share = -below[searched] / (above[searched] - below[searched])
            s = np.sqrt(a * a + share * (b - a) * (b + a))
        s = np.where((s > a) & (s < b), s, middle)
        u = project(center + s[:, None] * arm[searched])
        beyond = _beyond(u, center, radius)
        inside = beyond <= AIM
        kept = searched[inside]
        over = searched[~inside]
        best[kept] = u[inside]
        low[kept] = s[inside]
        high[over] = s[~inside]
        below[kept] = beyond[inside]
        above[over] = beyond[~inside]
        # An end that stays twice counts half, so that the next guess tends to fall on its side (the Illinois rule).
        again = was_inside[searched] == inside
        above[searched[again & inside]] *= 0.5
        below[searched[again & ~inside]] *= 0.5
        was_inside[searched] = inside
        width = (high[searched] - low[searched]) * reach[searched]
        done = width <= 1e-16 * radius
        done |= np.abs(beyond) <= AIM
        done |= (s <= a) | (s >= b)  # no number is left between the two ends
        searched = searched[~done]
        if not searched.size:
            break
    return best


def _beyond(x: Array, center: Array, radius: float) -> Array:
    """By how much the squared distance from the centre exceeds that of a sphere just inside the ball, in units of it."""
    ratio = _distance(x, center) / radius
    return (ratio - 1.0) * (ratio + 1.0) + AIM


def _distance(x: Array, center: Array) -> Array:
    away = x - center
    top = np.abs(away).max(axis=-1, keepdims=True)
    top = np.where(top > 0.0, top, 1.0)
    scaled = away / top
    return top[..., 0] * np.sqrt(np.einsum("...i,...i->...", scaled, scaled))
