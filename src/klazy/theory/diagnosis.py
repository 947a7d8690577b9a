"""How a learner moved, round by round: where its projection bound, where it stood still, and the bounds on its steps."""

from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from klazy import show
from klazy.base.checks import Array, InvalidInput
from klazy.game.game import find_factors
from klazy.learners import Learner

if TYPE_CHECKING:
    from klazy.game.trace import Trace
    from klazy.show import Figure

STILL = 1e-12  # A step below this share of the set's size counts as none.
SELDOM = 0.02  # as a share of the rounds


@dataclass(frozen=True, eq=False)
class Diagnosis:
    r"""How a run moved, step by step from x_t to x_{t+1}. :meth:`klazy.types.Trace.diagnose` makes it.

    Arrays have one entry per round t = 1, ..., T, and NaN where a quantity is not defined.

    Parameters
    ----------
    moved : array
        The length of the step.
    binds : array of bool
        Whether the unconstrained point lay outside the set; only there can laziness act.
    stale : array of bool
        Whether the point stood still although the gradient was not zero (Prop. 3).
    margin : array
        By how much the unconstrained point may shift without moving it.
    greedy_bound : array
        The length of the step before it is projected: :math:`\|g_t\| / \sigma_t` where sigma is constant or a phase begins;
        else more, because a schedule also rescales the gradients of the phase. No step is longer.
    stability_bound : array
        Prop. 4, on l2 balls, within phases of GD, LazyGD and k-lazyGD.
    variance_bound : array
        The bound by the deviation of the gradient from the phase's mean, on any set, within such phases.
    constant : bool
        Whether sigma never changed.
    warnings : tuple of str
        What you assumed, and the run did not keep, in sentences.
    """

    moved: Array
    binds: Array
    stale: Array
    margin: Array
    greedy_bound: Array
    stability_bound: Array
    variance_bound: Array
    constant: bool
    warnings: tuple[str, ...]

    def __str__(self) -> str:
        T = len(self.moved)
        still = self.stale.astype(bool)
        acts = "; only there can laziness act" if self.constant else ""
        lines = [f"The projection binds in {self.binds.mean():.1%} of {T} rounds{acts}."]
        where = ""
        if np.isfinite(self.margin[still]).any():
            where = f", with a median margin of {np.nanmedian(self.margin[still]):.3g}"
        lines.append(
            f"The point stands still against a gradient in {still.mean():.1%} of the rounds{where}."
        )
        for name, bound in (
            ("stability", self.stability_bound),
            ("variance", self.variance_bound),
        ):
            known = np.isfinite(bound)
            if known.any():
                paid = self.moved[known].sum()
                allowed = bound[known].sum()
                greedy = self.greedy_bound[known].sum()
                lines.append(
                    f"In {known.mean():.1%} of the rounds the {name} bound speaks: moved {paid:.4g}, at most {allowed:.4g}; "
                    f"the bound of a greedy step is {greedy:.4g}."
                )
        return "\n".join([*lines, *(f"Warning: {text}" for text in self.warnings)])

    __repr__ = __str__

    def plot(self) -> "Figure":
        """Draw how far each step went, below those of the three bounds that are defined somewhere.

        Returns
        -------
        Figure
            A matplotlib figure.

        Examples
        --------
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


class EnsembleDiagnosis(NamedTuple):
    r"""How an ensemble or a leader moved, per round t = 1, ..., T; the first pays for no move of its own.

    Parameters
    ----------
    switching : array
        What its move cost: at most ``experts`` plus ``reweighting``.
    experts : array
        What the moves of its experts cost, by their weights :math:`w_t`.
    reweighting : array
        What changing the weights may have cost: :math:`\lambda d_{t-1}` times the total variation of :math:`w_t - w_{t-1}`,
        with :math:`d_{t-1}` the diameter of the experts' points. NaN for a leader without a guard, which does not record it.
    effective : array
        The number of experts that the weights amount to: the exponential of their entropy.
    heaviest : array of int
        The expert with the largest weight, counted from 0.
    guarding : array of bool
        Whether the guard played.
    """

    switching: Array
    experts: Array
    reweighting: Array
    effective: Array
    heaviest: np.ndarray
    guarding: np.ndarray

    def __str__(self) -> str:
        T = len(self.switching)
        changes = int(np.count_nonzero(np.diff(self.heaviest)))
        longest = int(np.bincount(self.heaviest).argmax())
        share = float((self.heaviest == longest).mean())
        lines = [
            f"Its moves cost {self.switching.sum():.4g} in {T} rounds; those of its experts, weighed as they were played, "
            f"{self.experts.sum():.4g}.",
            f"It amounts to {self.effective.mean():.3g} experts on average; the heaviest changes {changes} times, and is "
            f"expert {longest + 1} in {share:.1%} of the rounds.",
        ]
        if np.isfinite(self.reweighting).all():
            lines.insert(1, f"Changing the weights cost at most {self.reweighting.sum():.4g}.")
        if self.guarding.any():
            lines.append(f"The guard played in {self.guarding.mean():.1%} of the rounds.")
        return "\n".join(lines)

    __repr__ = __str__


def diagnose_ensemble(trace: "Trace[Any]") -> EnsembleDiagnosis:
    """Diagnose a run of a SAder or a Leader that recorded its experts."""
    weights = trace.weights
    movement = trace.source.movement
    if find_factors(trace.source, trace.movement, trace.T) is not None:
        movement = movement.replace(weight=trace.movement.weight)
    price = np.broadcast_to(movement.weights(trace.T), trace.T)
    change = 0.5 * np.abs(np.diff(weights, axis=0)).sum(axis=1)
    diameter = trace.kept.get("diameter", np.full(trace.T, np.nan))
    logs = np.log(np.where(weights > 0.0, weights, 1.0))
    return EnsembleDiagnosis(
        switching=movement.paid(trace.x),
        experts=np.vecdot(weights, trace.expert_switching),
        reweighting=np.concatenate(([0.0], price[1:] * change * diameter[:-1])),
        effective=np.exp(-np.vecdot(weights, logs)),
        heaviest=weights.argmax(axis=1),
        guarding=trace.kept.get("guarding", np.zeros(trace.T)).astype(bool),
    )


def diagnose(
    learner: Learner[Any],
    x: Array,
    g: Array,
    G: float | None = None,
    R: float | None = None,
    next_hints: Array | None = None,
) -> Diagnosis:
    """Diagnose a run of one learner from its T + 1 points and T gradients; G and R are what its user assumed.

    The unconstrained points are those of GD, LazyGD and k-lazyGD, of MemoryGD and of CentredOMD.
    """
    surprise, h = compare_with_hints(x, g, next_hints)
    if learner.form not in _UNCONSTRAINED:
        known = "GD, LazyGD, KLazyGD, KLazyFTRL, MemoryGD, CentredOMD, SAder and Leader"
        raise InvalidInput(
            f"Only runs of {known} can be diagnosed, got {type(learner).__name__}."
        )
    sigma = sigmas_of(learner, surprise)
    live = np.isfinite(sigma)
    y, before = _UNCONSTRAINED[learner.form](
        learner, x, surprise + h[1:], np.where(live, sigma, 1.0)
    )
    y[~live] = x[1:][~live]
    before[~live] = x[:-1][~live]
    size = np.linalg.norm(g, axis=1)
    moved = np.linalg.norm(np.diff(x, axis=0), axis=1)
    scale = learner.domain.scale
    binds = np.linalg.norm(y - x[1:], axis=1) > STILL * scale
    stale = (moved <= STILL * scale) & (size > 0.0)
    margin = np.where(stale, learner.domain.margin(y), np.nan)
    greedy = np.linalg.norm(y - before, axis=1)
    stability = np.full(len(g), np.nan)
    variance = np.full(len(g), np.nan)
    if learner.form == "anchored":
        stability, variance = _bound_within_phases(learner, x, g, sigma, y)
    constant = bool((sigma == sigma[0]).all())
    texts = _warn(binds, constant, size, np.linalg.norm(x - x[0], axis=1), G, R)
    return Diagnosis(moved, binds, stale, margin, greedy, stability, variance, constant, texts)


def compare_with_hints(x: Array, g: Array, next_hints: Array | None) -> tuple[Array, Array]:
    """Return what hints did not foresee of the gradients g_1, ..., g_T, and the hints of g_1, ..., g_{T+1}."""
    h = np.zeros_like(x)
    if next_hints is not None:
        h[1 : 1 + len(next_hints)] = next_hints
    return g - h[:-1], h


def list_states(learner: Any, g: Array) -> list[Any]:
    """Play these gradients, and return all states, the one after the last included."""
    return list(accumulate(g, learner.step, initial=learner.init()))


def _bound_within_phases(
    learner: Learner[Any], x: Array, g: Array, sigma: Array, y: Array
) -> tuple[Array, Array]:
    """Compute the bounds of Prop. 4 and by the deviation from the phase's mean, NaN where a phase begins."""
    start, anchor, held = phases_of(learner, x, g)
    live = np.isfinite(sigma)
    n = np.arange(len(g)) - start
    within = (n >= 1) & live & np.concatenate(([False], live[:-1]))
    t = np.flatnonzero(within)
    stability = np.full(len(g), np.nan)
    stability[t] = learner.domain.stability(y[t - 1], y[t])
    variance = np.full(len(g), np.nan)
    mean = (held[t] - g[t]) / n[t, None]
    deviation = np.linalg.norm(g[t] - mean, axis=1)
    stretch = np.abs((1.0 + 1.0 / n[t]) * sigma[t - 1] / sigma[t] - 1.0)
    variance[t] = deviation / sigma[t] + stretch * np.linalg.norm(x[t] - anchor[t], axis=1)
    return stability, variance


def _anchored(learner: Any, x: Array, g: Array, sigma: Array) -> tuple[Array, Array]:
    """Return the point that is projected in each round, and one whose projection is the point before."""
    start, anchor, held = phases_of(learner, x, g)
    y = anchor - held / sigma[:, None]
    within = (np.arange(len(g)) - start >= 1)[:, None]
    return y, np.where(within, np.roll(y, 1, axis=0), anchor)


def _remembering(learner: Any, x: Array, g: Array, sigma: Array) -> tuple[Array, Array]:
    before = x[:-1] + normals_of(learner, x, g, sigma) / sigma[:, None]
    return before - g / sigma[:, None], before


def _centred(learner: Any, x: Array, g: Array, sigma: Array) -> tuple[Array, Array]:
    rise = np.diff(sigma, prepend=0.0)[:, None]
    # The first point is the centre.
    rise[0] = 0.0
    y = x[:-1] + (rise * (x[0] - x[:-1]) - g) / sigma[:, None]
    return y, x[:-1].copy()


_UNCONSTRAINED = {"anchored": _anchored, "memory": _remembering, "centred": _centred}


def normals_of(learner: Any, x: Array, g: Array, sigma: Array) -> Array:
    """Compute n_1, ..., n_T of a MemoryGD."""
    n = np.zeros(x.shape[1])
    kept = [n]
    for t in range(1, len(g)):
        raw = n - g[t - 1] - sigma[t - 1] * (x[t] - x[t - 1])
        n = learner.memory.theta(t, raw) * raw
        kept.append(n)
    return np.array(kept)


def sigmas_of(learner: Any, g: Array) -> Array:
    """Compute sigma_1, ..., sigma_T of a run with these gradients; inf before a scale-free schedule has seen one."""
    if not learner.sigma.adaptive:
        return learner.sigma.values(len(g))
    values = []
    energy = 0.0
    for t, row in enumerate(g, start=1):
        sigma, energy = learner.sigma.observe(t, energy, row)
        values.append(sigma)
    return np.array(values)


def find_rising_sigmas(learner: Any, g: Array) -> Array:
    """Return the sigmas of a run, or reject those that decrease.

    Nothing moves before a scale-free schedule has seen a gradient; its first sigma serves for these rounds.
    """
    sigma = sigmas_of(learner, g)
    known = sigma[np.isfinite(sigma)]
    if np.any(np.diff(known) < 0.0):
        raise InvalidInput(f"For a certificate sigma must never decrease, got {learner.sigma!r}.")
    return np.where(np.isfinite(sigma), sigma, known[0] if known.size else 1.0)


def phases_of(learner: Learner[Any], x: Array, g: Array) -> tuple[np.ndarray, Array, Array]:
    """Return for each round the index at which its phase began, the anchor x_tau, and the sum of gradients g_tau:t."""
    k = learner.phase_length
    assert k is not None  # every anchored learner has phases
    t = np.arange(len(g))
    start = t - t % k
    sums = np.cumsum(g, axis=0)
    return start, x[start], sums - np.where((start > 0)[:, None], sums[start - 1], 0.0)


def _warn(
    binds: Array, constant: bool, size: Array, reach: Array, G: float | None, R: float | None
) -> tuple[str, ...]:
    texts = []
    if binds.mean() < SELDOM:
        effect = "k decides only how long the schedule rescales past gradients"
        if constant:
            effect = "every k plays nearly the same points"
        remedy = "a smaller sigma reaches the boundary"
        texts.append(f"the projection almost never binds, so {effect}; {remedy}.")
    if G is not None and size.max() > G * (1.0 + 1e-9):
        texts.append(
            f"gradients exceed G={G:g}: the largest is {size.max():.6g}, so bounds and tunings with this G do not hold."
        )
    if R is not None and reach.max() > R * (1.0 + 1e-9):
        texts.append(
            f"points are farther than R={R:g} from x_1: {reach.max():.6g}, so bounds and tunings with this R do not hold."
        )
    return tuple(texts)
