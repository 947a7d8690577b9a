"""Projections without a closed form: onto half-spaces by a quadratic programme (daqp), into a ball by a search."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from klazy.base.checks import Array
from klazy.base.install import make_missing
from klazy.sets.separable import Separable

INFINITE = 1e30  # what daqp takes for infinity
EQUATION = 5  # daqp's code of an equation
FAR = 1e8  # In sizes of the set: for points farther away rounding hides which point of the set is nearest.
TIGHT = 1e-13  # the solver's tolerance, in sizes of the set
AIM = (
    1e-14  # how far inside a ball a search aims, so that rounding does not put its point outside
)
SEARCH_STEPS = 200  # steps of a search; halving alone needs about 60


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

    joined = [
        np.concatenate(columns) for columns in zip(*(part[1:] for part in parts), strict=True)
    ]
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
    return HalfSpaces(
        np.full((1, d), 1.0 / root), np.array([total / root]), np.ones(1, dtype=bool)
    )


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
        # The solver's point has the rounding errors of `target`. A second projection leaves only its own.
        x = _solve(scaled, x)
    if x is None:
        return None
    return middle + size * x


def project_from(spaces: HalfSpaces, y: Array) -> Array | None:
    """Project ``y`` onto half-spaces that may have no bounds; None if they have no point in common.

    The solver works in units of how far y is outside. Its point has the rounding errors of y; a second projection leaves
    only its own.
    """
    x = y
    for _ in range(2):
        over = spaces.A @ x - spaces.b
        size = float(np.where(spaces.equal, np.abs(over), over).max(initial=0.0))
        if size <= 0.0:
            return x
        nearer = project_onto(spaces, x, x, size)
        if nearer is None:
            return None
        x = nearer
    return x


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
    x, _, status, _ = solve(
        H, slope, spaces.A, upper, lower, sense, primal_tol=TIGHT, eps_prox=-1.0
    )
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
    found = _solve_quadratic(
        objective.curvature * size / scale * (signs.T @ signs), prices, steps, 2 * d
    )
    if found is None:
        return None
    step = signs @ found
    return x + size * np.where(np.abs(step) > TIGHT, step, 0.0)


def project_into_ball(
    project: Callable[[Array], Array], y: Array, center: Array, radius: float
) -> Array:
    r"""Project ``y`` onto the part of another set that is in a ball; ``project`` projects onto the other set.

    A multiplier of the ball's constraint pulls y towards its centre c. So the point is
    :math:`u(s) = \Pi(c + s (y - c))` with the largest s up to 1 for which it is in the ball.
    """
    found = project(y)
    outside = np.flatnonzero(_distance(found, center) > radius)
    if not outside.size:
        return found
    arm = y[outside] - center
    reach = _distance(y[outside], center)

    def respond(s: Array, rows: NDArray[np.intp]) -> Array:
        return project(center + s[:, None] * arm[rows])

    begin = project(np.broadcast_to(center, arm.shape).copy())
    path = _Path(respond, begin, np.ones(len(arm)), reach)
    found = found.copy()
    found[outside] = _search(path, radius / np.maximum(reach, radius), center, radius)
    return found


def settle_in_ball(
    settle: Callable[[Separable], Array | None],
    objective: Separable,
    center: Array,
    radius: float,
) -> Array | None:
    r"""Find the minimisers in a ball and another set, on which ``settle`` finds them; None if it does not know them.

    A multiplier of the ball's constraint adds :math:`\tfrac{b}{2} \|u - c\|^2` to the objective. So the points are
    :math:`u(s)`, those of the objective with the curvature :math:`\kappa + b = 1 / s`, with the largest s for which they are
    in the ball.
    """
    found = settle(objective)
    if found is None:
        return None
    outside = np.flatnonzero(_distance(found, center) > radius)
    if not outside.size:
        return found
    part = objective.take(outside)
    slope = part.g + part.curvature * center
    speed = np.linalg.norm(np.abs(slope) + np.maximum(part.rise, part.fall), axis=1)

    def respond(s: Array, rows: NDArray[np.intp]) -> Array:
        bend = 1.0 / s[:, None]
        bent = settle(replace(part.take(rows), g=slope[rows] - bend * center, curvature=bend))
        if bent is None:
            raise ArithmeticError("No minimiser was found.")
        return bent

    free = np.zeros_like(slope)
    begin = settle(Separable(part.x, free - center, 1.0, free, free))
    if begin is None:
        return None
    with np.errstate(divide="ignore"):
        most = 1.0 / np.broadcast_to(part.curvature, (len(slope), 1))[:, 0]
    path = _Path(respond, begin, most, speed)
    guess = np.minimum(radius / speed, 0.5 * most)
    found = found.copy()
    try:
        found[outside] = _search(path, guess, center, radius)
    except ArithmeticError:
        return None
    return found


class _Path(NamedTuple):
    """Paths that leave a ball, one per row: ``respond`` gives the points of some of them, given their parameters."""

    respond: Callable[[Array, NDArray[np.intp]], Array]
    begin: Array  # in the ball, where the parameter is zero
    most: Array  # where the path ends, outside
    speed: Array  # how far a point moves at most while its parameter grows by one


def _search(path: _Path, guess: Array, center: Array, radius: float) -> Array:
    """Find the last point of each path that is in the ball, by secants and, where these are slow, by bisection.

    Distances from the centre c grow along a path. While u(s) stays on one face of the other set, its squared distance
    from c is a linear function of s^2, so the secant through two of its points is exact. Every path is searched by itself,
    so it ends where it would end alone.
    """
    n = len(guess)
    best = path.begin.copy()
    low = np.zeros(n)
    high = path.most.copy()
    # The first guess is where the ball's own answer is: the other set may not matter.
    s = guess
    before = np.zeros(n)
    off = _beyond(best, center, radius)
    rows = np.arange(n)
    for turn in range(SEARCH_STEPS):
        u = path.respond(s, rows)
        beyond = _beyond(u, center, radius)
        inside = beyond <= AIM
        best[rows[inside]] = u[inside]
        low = np.where(inside, s, low)
        high = np.where(inside, high, s)
        done = np.abs(beyond) <= AIM
        done |= (high - low) * path.speed[rows] <= 1e-16 * radius
        with np.errstate(all="ignore"):
            secant = np.sqrt(s * s - beyond * (s - before) * (s + before) / (beyond - off))
        middle = np.where(low > 0.0, np.minimum(np.sqrt(low * high), 4.0 * low), 0.25 * high)
        is_slow = (turn > 1) & (np.abs(beyond) > 0.75 * np.abs(off))
        is_usable = (low < secant) & (secant < high) & ~is_slow
        following = np.where(is_usable, secant, middle)
        done |= (following <= low) | (following >= high)  # No float is left between the two ends.
        left = ~done
        if not left.any():
            break
        rows = rows[left]
        low, high = low[left], high[left]
        before, off = s[left], beyond[left]
        s = following[left]
    return best


def _beyond(x: Array, center: Array, radius: float) -> Array:
    """Return by what share the squared distance from the centre exceeds that of a sphere just inside the ball."""
    ratio = _distance(x, center) / radius
    return (ratio - 1.0) * (ratio + 1.0) + AIM


def _distance(x: Array, center: Array) -> Array:
    away = x - center
    top = np.abs(away).max(axis=-1, keepdims=True)
    top = np.where(top > 0.0, top, 1.0)
    scaled = away / top
    return top[..., 0] * np.sqrt(np.einsum("...i,...i->...", scaled, scaled))
