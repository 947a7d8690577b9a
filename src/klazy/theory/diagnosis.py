"""How a lazy learner moved, round by round: where its projection bound, where it stood still, and the bounds on its steps."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from klazy import show
from klazy.base.checks import Array, refusal
from klazy.learners import GD, KLazyFTRL, KLazyGD, LazyGD
from klazy.learners.base import NEVER, Learner
from klazy.schedules import ScaleFree
from klazy.sets import Box, ConvexSet, L1Ball, L2Ball, Simplex

if TYPE_CHECKING:
    from klazy.show import Figure

STILL = 1e-12  # relative to the set's size, a step below this is none
SELDOM = 0.02  # of the rounds


@dataclass(frozen=True, eq=False)
class Diagnosis:
    r"""Per round t = 1, ..., T, of the step from x_t to x_{t+1}; NaN where a quantity is not defined.

    ``moved`` is its length; ``binds`` whether the unconstrained point lay outside the set; ``stale`` whether the point stood
    still though the gradient was not zero (Prop. 3), ``margin`` by how much the unconstrained point may be shifted without
    moving it; ``greedy_bound`` is :math:`\|g_t\| / \sigma_t`; ``stability_bound`` Prop. 4 (l2 balls) and ``variance_bound``
    the one by the deviation of the gradient from the phase's mean (any set), both within phases.
    """

    moved: Array
    binds: Array
    stale: Array
    margin: Array
    greedy_bound: Array
    stability_bound: Array
    variance_bound: Array
    warnings: tuple[str, ...]

    def __str__(self) -> str:
        T = len(self.moved)
        still = self.stale.astype(bool)
        lines = [
            f"The projection binds in {self.binds.mean():.1%} of {T} rounds; only there can laziness act."
        ]
        where = (
            f", with a median margin of {np.nanmedian(self.margin[still]):.3g}"
            if np.isfinite(self.margin[still]).any()
            else ""
        )
        lines.append(f"The point stands still against a gradient in {still.mean():.1%} of the rounds{where}.")
        for name, bound in (("stability", self.stability_bound), ("variance", self.variance_bound)):
            known = np.isfinite(bound)
            if known.any():
                paid, allowed, greedy = (
                    float(a[known].sum()) for a in (self.moved, bound, self.greedy_bound)
                )
                lines.append(
                    f"In {known.mean():.1%} of the rounds the {name} bound speaks: moved {paid:.4g}, at most {allowed:.4g}; "
                    f"the bound of a greedy step is {greedy:.4g}."
                )
        return "\n".join([*lines, *(f"Warning: {text}" for text in self.warnings)])

    __repr__ = __str__

    def plot(self) -> "Figure":
        """How far each step went, below those of the three bounds that are defined somewhere: a matplotlib figure.

        >>> trace = run(KLazyGD(L2Ball(2), 5.0, k=4), np.tile([1.0, 0.5], (40, 1)), engine="step")
        >>> trace.diagnose().plot().axes[0].get_yscale()
        'log'
        """
        bounds = {
            "greedy": self.greedy_bound,
            "stability": self.stability_bound,
            "variance": self.variance_bound,
        }
        return show.draw_movement(self.moved, self.stale, bounds)


def diagnose(
    learner: Learner[Any], x: Array, g: Array, G: float | None = None, R: float | None = None
) -> Diagnosis:
    """Diagnose a run of GD, LazyGD or k-lazyGD from its T + 1 points and T gradients; G and R are what its user assumed."""
    if not isinstance(learner, GD | LazyGD | KLazyGD | KLazyFTRL):
        known = "GD, LazyGD, KLazyGD or KLazyFTRL"
        raise refusal(
            "diagnose", f"a run of {known}", "learner", type(learner).__name__, "diagnose one of these"
        )
    sigma, (start, anchor, held) = sigmas_of(learner, g), phases_of(learner, x, g)
    live = np.isfinite(sigma)
    y = anchor - held / np.where(live, sigma, 1.0)[:, None]
    y[~live] = x[1:][~live]
    size = np.linalg.norm(g, axis=1)
    moved = np.linalg.norm(np.diff(x, axis=0), axis=1)
    scale = learner.domain.scale
    binds = np.linalg.norm(y - x[1:], axis=1) > STILL * scale
    stale = (moved <= STILL * scale) & (size > 0.0)
    margin = np.where(stale, _margins(learner.domain, y, x[1:]), np.nan)
    n = np.arange(len(g)) - start
    within = (n >= 1) & live & np.concatenate(([False], live[:-1]))
    bounds = np.full((2, len(g)), np.nan)
    t = np.flatnonzero(within)
    bounds[0, t] = _stability(learner.domain, y[t - 1], y[t])
    mean = (held[t] - g[t]) / n[t, None]
    stretch = np.abs((1.0 + 1.0 / n[t]) * sigma[t - 1] / sigma[t] - 1.0)
    bounds[1, t] = np.linalg.norm(g[t] - mean, axis=1) / sigma[t] + stretch * np.linalg.norm(
        x[t] - anchor[t], axis=1
    )
    texts = _warnings(binds, size, np.linalg.norm(x - x[0], axis=1), G, R)
    return Diagnosis(
        moved, binds, stale, margin, size / np.where(live, sigma, np.inf), bounds[0], bounds[1], texts
    )


def sigmas_of(learner: Any, g: Array) -> Array:
    """sigma_1, ..., sigma_T of a run with these gradients; inf before a scale-free schedule has seen one."""
    if not isinstance(learner.sigma, ScaleFree):
        return learner.sigma.values(len(g))
    values = []
    energy = 0.0
    for t, row in enumerate(g, start=1):
        sigma, energy = learner.sigma.observe(t, energy, row)
        values.append(sigma)
    return np.array(values)


def phases_of(learner: Learner[Any], x: Array, g: Array) -> tuple[np.ndarray, Array, Array]:
    """For each round the index at which its phase began, the anchor x_tau, and the gradients g_tau:t added up."""
    k = 1 if isinstance(learner, GD) else learner.k if isinstance(learner, KLazyGD | KLazyFTRL) else NEVER
    t = np.arange(len(g))
    start = t - t % k
    sums = np.cumsum(g, axis=0)
    return start, x[start], sums - np.where((start > 0)[:, None], sums[start - 1], 0.0)


def _margins(domain: ConvexSet, y: Array, x: Array) -> Array:
    """How far each y may be shifted, in any direction, while its projection stays at x; NaN where it is not known."""
    if isinstance(domain, L1Ball | L2Ball) and domain.dim == 1:
        return np.maximum(np.abs(y - _center(domain))[:, 0] - domain.radius_, 0.0)
    if isinstance(domain, L2Ball):
        return np.zeros(len(y))
    if isinstance(domain, Box):
        beyond = np.maximum(domain.lower - y, y - domain.upper)
        beyond = np.where(domain.lower == domain.upper, np.inf, beyond)  # such a coordinate cannot move
        return np.where((beyond >= 0.0).all(axis=1), beyond.min(axis=1), 0.0)
    if isinstance(domain, L1Ball | Simplex) and domain.dim > 1:
        z, total = (
            (y, domain.total)
            if isinstance(domain, Simplex)
            else (np.abs(y - _center(domain)), domain.radius_)
        )
        top = np.sort(z, axis=1)[:, ::-1]
        return np.maximum((top[:, 0] - top[:, 1] - total) / np.sqrt(2.0), 0.0)
    return np.full(len(y), np.inf if isinstance(domain, Simplex) else np.nan)


def _stability(domain: ConvexSet, y: Array, following: Array) -> Array:
    """R |y' - y| over the least norm between the two, where that is at least R; l2 balls only."""
    if not isinstance(domain, L2Ball):
        return np.full(len(y), np.nan)
    step = np.linalg.norm(following - y, axis=1)
    least = np.linalg.norm(following - _center(domain), axis=1) - step
    return np.where(
        least >= domain.radius_, domain.radius_ * step / np.maximum(least, domain.radius_), np.nan
    )


def _center(ball: L1Ball | L2Ball) -> Array:
    return np.zeros(ball.dim) if ball.center is None else ball.center


def _warnings(binds: Array, size: Array, reach: Array, G: float | None, R: float | None) -> tuple[str, ...]:
    texts = []
    if binds.mean() < SELDOM:
        texts.append(
            "the projection almost never binds, so every k plays nearly the same points; a smaller sigma reaches the boundary."
        )
    if G is not None and size.max() > G * (1.0 + 1e-9):
        texts.append(
            f"gradients exceed G={G:g}: the largest is {size.max():.6g}, so bounds and tunings with this G do not hold."
        )
    if R is not None and reach.max() > R * (1.0 + 1e-9):
        texts.append(
            f"points are farther than R={R:g} from x_1: {reach.max():.6g}, so bounds and tunings with this R do not hold."
        )
    return tuple(texts)
