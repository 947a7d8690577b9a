"""What the solver knows of each cost family: its proximal step, and the affine function below f_t that comes with it.

A step from the point a with penalty r gives v = argmin f_t(v) + r/2 |v - a|^2, and with it a subgradient h and a number
e such that f_t(x) >= e + <h, x> for every x. That inequality holds for whatever v, by construction of e and h: it
is what lower bounds rest on, and neither rounding nor an unfinished iteration can break it.
"""

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from klazy.base.checks import Array, refusal
from klazy.costs import Costs
from klazy.hindsight.optimum import EPS
from klazy.kernels import codes
from klazy.sets import ConvexSet

Minorant = tuple[Array, Array]  # e of shape (T,), h of shape (T, d)
_FAR = 10.0  # diameters


class Family(ABC):
    """The rounds of one cost family, all at once."""

    linear: ClassVar[bool] = False
    separable: ClassVar[bool] = False  # whether a step is taken coordinate by coordinate
    merged: ClassVar[bool] = False  # whether a step may be taken together with the set's, by `affine`

    def __init__(self, costs: Costs) -> None:
        self.data, extra, self.parameters = costs.arrays()
        self.extra = np.broadcast_to(extra, len(self.data))

    @abstractmethod
    def minorant(self, v: Array, h: Array) -> Minorant:
        """An affine function below every f_t, from the point v and the step's own subgradient h = r (a - v)."""

    @abstractmethod
    def gradient(self, x: Array) -> Array:
        """Subgradients of shape (T, d) at one point: the scale of the costs."""

    @abstractmethod
    def affine(self, r: float) -> tuple[Array, Array]:
        """The part of the step from a that the set's takes over: Proj(shrink a + shift), with shrink of shape (T,) or (1,), and
        shift of shape (T, d), or (0, d) for none."""

    @abstractmethod
    def prox(self, a: Array, r: float) -> Array:
        """The step v, without a set."""

    def minimise_sum(self, domain: ConvexSet) -> tuple[Array, Array] | None:
        """The minimiser over the set of the sum of all rounds, and a point that it is the projection of; None where only
        iterations find it."""
        return None


class Merged(Family):
    """Families whose step may be taken together with the set's: Proj(shrink a + shift) minimises over the set."""

    merged: ClassVar[bool] = True

    def prox(self, a: Array, r: float) -> Array:
        shrink, shift = self.affine(r)
        return shrink[:, None] * a + shift


class Separate(Family):
    """Families with a step of their own."""

    def affine(self, r: float) -> tuple[Array, Array]:
        return np.ones(1), np.zeros((0, self.data.shape[1]))


class Linear(Merged):
    linear: ClassVar[bool] = True

    def affine(self, r: float) -> tuple[Array, Array]:
        return np.ones(1), self.data / -r

    def minorant(self, v: Array, h: Array) -> Minorant:
        return np.zeros(len(v)), self.data

    def gradient(self, x: Array) -> Array:
        return self.data

    def minimise_sum(self, domain: ConvexSet) -> tuple[Array, Array] | None:
        """Where the sum is least."""
        g = self.data.sum(axis=0)
        x = domain.argmin_linear(g)
        if domain.cheap_lowest:
            return x, x
        away = x - _FAR * domain.scale * g / (float(np.linalg.norm(g)) or 1.0)
        return domain.project(away), away  # whose normal says how good the point is


class Quadratic(Merged):
    def affine(self, r: float) -> tuple[Array, Array]:
        share = self.extra / (self.extra + r)
        return 1.0 - share, share[:, None] * self.data

    def minorant(self, v: Array, h: Array) -> Minorant:
        gap = v - self.data
        slope = self.extra[:, None] * gap
        return np.vecdot(slope, 0.5 * gap - v), slope

    def gradient(self, x: Array) -> Array:
        return self.extra[:, None] * (x - self.data)

    def minimise_sum(self, domain: ConvexSet) -> tuple[Array, Array] | None:
        """The mean of the targets, projected."""
        weight = float(self.extra.sum())
        mean = self.extra @ self.data / weight if weight > 0.0 else domain.start
        return domain.project(mean), mean


class Pinball(Separate):
    separable: ClassVar[bool] = True

    def prox(self, a: Array, r: float) -> Array:
        short, excess = np.split(self.parameters, 2)
        gap = a - self.data
        return a - np.clip(gap, -short / r, excess / r)

    def minorant(self, v: Array, h: Array) -> Minorant:
        short, excess = np.split(self.parameters, 2)
        slope = np.clip(h, -short, excess)
        return -np.vecdot(slope, self.data), slope

    def gradient(self, x: Array) -> Array:
        short, excess = np.split(self.parameters, 2)
        return np.where(x > self.data, excess, -short)


class Ridge(Separate):
    """phi(m), convex and falling, of the margin m = <direction_t, x>: the step goes along the direction alone."""

    flat = (
        0.0  # the slope that gives the best bound where the direction is zero, and phi(0) is all that counts
    )

    def __init__(self, costs: Costs) -> None:
        super().__init__(costs)
        self.direction = self.data
        self.square = np.vecdot(self.data, self.data)

    @abstractmethod
    def slope(self, margin: Array, k: Array) -> Array:
        """-phi'(q) >= 0 at q, the minimiser of phi(q) + (q - margin)^2 / (2 k)."""

    @abstractmethod
    def intercept(self, s: Array) -> Array:
        """The largest e with phi(m) >= e - s m for all m."""

    def prox(self, a: Array, r: float) -> Array:
        s = self.slope(np.vecdot(self.direction, a), self.square / r)
        return a + (s / r)[:, None] * self.direction

    def minorant(self, v: Array, h: Array) -> Minorant:
        moving = self.square > 0.0
        s = np.where(moving, -np.vecdot(self.direction, h) / np.where(moving, self.square, 1.0), self.flat)
        s = self.within(s)
        return self.intercept(s), -s[:, None] * self.direction

    def gradient(self, x: Array) -> Array:
        return -self.slope(self.direction @ x, np.zeros(len(self.data)))[:, None] * self.direction

    def within(self, s: Array) -> Array:
        """Slopes that phi may have."""
        return np.clip(s, 0.0, 1.0)


class LogWealth(Ridge):
    def slope(self, margin: Array, k: Array) -> Array:
        root = np.sqrt(margin**2 + 4.0 * k)
        with np.errstate(divide="ignore", invalid="ignore"):  # a margin of zero with k = 0 has no slope
            return np.where(margin > 0.0, 2.0 / (margin + root), (root - margin) / (2.0 * k))

    def intercept(self, s: Array) -> Array:
        return 1.0 + np.log(s)

    def within(self, s: Array) -> Array:
        return np.maximum(s, np.finfo(np.float64).tiny)


class _Labelled(Ridge):
    def __init__(self, costs: Costs) -> None:
        super().__init__(costs)
        self.direction = self.extra[:, None] * self.data


class Hinge(_Labelled):
    flat = 1.0

    def slope(self, margin: Array, k: Array) -> Array:
        return np.clip((1.0 - margin) / np.maximum(k, np.finfo(np.float64).tiny), 0.0, 1.0)

    def intercept(self, s: Array) -> Array:
        return s


class Logistic(_Labelled):
    flat = 0.5

    def slope(self, margin: Array, k: Array) -> Array:
        """q = margin + k s(q) with s falling in q: Newton, unless it leaves the bracket; every third step bisects,
        since from either end Newton's step leads to the other."""
        low = margin
        high = margin + k
        q = 0.5 * (low + high)
        rounding = 8.0 * EPS * (np.abs(margin) + k)
        for turn in range(150):
            s = _sigmoid(-q)
            excess = q - margin - k * s
            settled = np.abs(excess) <= rounding
            if settled.all():
                break
            low = np.where(excess < 0.0, q, low)
            high = np.where(excess < 0.0, high, q)
            newton = q - excess / (1.0 + k * s * (1.0 - s))
            inside = settled | ((low <= newton) & (newton <= high) & (turn % 3 < 2))
            q = np.where(inside, newton, 0.5 * (low + high))
        return _sigmoid(-q)

    def intercept(self, s: Array) -> Array:
        """The entropy of s: phi at the margin log(1/s - 1), moved along its tangent to zero."""
        inside = np.clip(s, np.finfo(np.float64).tiny, 1.0)
        other = np.maximum(1.0 - s, np.finfo(np.float64).tiny)
        return -(s * np.log(inside) + (1.0 - s) * np.log(other))


def _sigmoid(q: Array) -> Array:
    tail = np.exp(-np.abs(q))
    return np.where(q >= 0.0, 1.0, tail) / (1.0 + tail)


class Turned(Family):
    """Another family, whose points are written along other axes."""

    def __init__(self, family: Family, axes: Array) -> None:
        self.base = family
        self.axes = axes
        self.data = family.data
        self.extra = family.extra
        self.parameters = family.parameters
        self.merged = family.merged  # pyright: ignore[reportAttributeAccessIssue]

    def minorant(self, v: Array, h: Array) -> Minorant:
        e, slope = self.base.minorant(v @ self.axes.T, h @ self.axes.T)
        return e, slope @ self.axes

    def gradient(self, x: Array) -> Array:
        return self.base.gradient(self.axes @ x) @ self.axes

    def affine(self, r: float) -> tuple[Array, Array]:
        shrink, shift = self.base.affine(r)
        return shrink, shift @ self.axes

    def prox(self, a: Array, r: float) -> Array:
        return self.base.prox(a @ self.axes.T, r) @ self.axes


FAMILIES: dict[int, type[Family]] = {
    codes.LINEAR: Linear,
    codes.QUADRATIC: Quadratic,
    codes.PINBALL: Pinball,
    codes.LOG_WEALTH: LogWealth,
    codes.HINGE: Hinge,
    codes.LOGISTIC: Logistic,
}


def family_of(costs: Costs, owner: str) -> Family:
    """The family of these costs; a class that is not one of the library's has no proximal step here."""
    code = codes.code_of(costs)
    if code is None:
        kinds = ", ".join(f"{kind.__name__}Costs" for kind in FAMILIES.values())
        raise refusal(
            owner, f"costs of a known family ({kinds})", "costs", repr(costs), "state them as one of these"
        )
    return FAMILIES[code](costs)
