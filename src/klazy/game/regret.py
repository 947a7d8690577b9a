"""Regret of a run against a comparator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from klazy import show
from klazy.base.checks import FINITE, Array, InvalidInput, is_within, rows, vector
from klazy.base.html import load_macros, show_card
from klazy.base.options import explain_arguments
from klazy.base.svg import draw_sparkline
from klazy.base.tables import Tabular
from klazy.costs import Costs, as_costs
from klazy.game.game import count_axes
from klazy.game.trace import Trace, check_trace
from klazy.hindsight.optimum import Optimum
from klazy.hindsight.static import BestFixed
from klazy.movement import L2Movement
from klazy.sets.base import TOLERANCE, ConvexSet

if TYPE_CHECKING:
    from klazy.show import Figure

EUCLIDEAN = L2Movement()
REGRET_PARTS = (
    "dynamic",
    "switching",
    "comparator_switching",
    "smoothed",
    "total",
    "path_length",
)


class Curves(NamedTuple):
    """Running sums over the rounds, each of shape (T,)."""

    dynamic: Array
    switching: Array
    comparator_switching: Array
    total: Array
    path_length: Array


@dataclass(frozen=True, eq=False, repr=False)
class Regret(Tabular):
    """A run against a comparator u: how much more the learner paid, and for what. :func:`regret` makes it.

    Parameters
    ----------
    dynamic : float
        The sum of f_t(x_t) - f_t(u_t).
    switching : float
        What the learner paid for moving.
    comparator_switching : float
        What u pays for moving, under the same movement cost.
    path_length : float
        How far u travels in the Euclidean norm, P_T.
    curves : Curves, optional
        The running sums over the rounds; None if the run recorded totals only.

    Examples
    --------
    >>> trace = run(GD(Box(-1, 1), sigma=2.0), [[1.0], [1.0], [-1.0]], engine="step")
    >>> against = regret(trace, [-1.0])
    >>> against.dynamic, against.switching, against.smoothed, against.path_length
    (1.5, 1.0, 2.5, 0.0)
    """

    dynamic: float
    switching: float
    comparator_switching: float
    path_length: float
    curves: Curves | None = None

    @property
    def smoothed(self) -> float:
        """Dynamic regret plus what the learner paid for moving: what the theory bounds."""
        return self.dynamic + self.switching

    @property
    def total(self) -> float:
        """Smoothed regret minus what the comparator pays for moving: what the paper's figures show."""
        return self.smoothed - self.comparator_switching

    def __repr__(self) -> str:
        return f"Regret(total={self.total:.6g}, dynamic={self.dynamic:.6g}, switching={self.switching:.6g})"

    def __str__(self) -> str:
        return "\n".join(f"{name:22}{value:14.7g}" for name, value in self._parts.items())

    @show_card
    def _repr_html_(self) -> str:
        """Show the numbers in a notebook, with a small picture of the running sums."""
        numbers = [{"": name, "value": value} for name, value in self._parts.items()]
        picture = ""
        if self.curves is not None:
            picture = draw_sparkline(self._running)
        parts = load_macros()
        return parts.card("Regret", "", parts.row(parts.table(numbers), picture))

    def list_rows(self) -> list[dict[str, Any]]:
        return [self._parts]

    @property
    def _parts(self) -> dict[str, float]:
        return {name: getattr(self, name) for name in REGRET_PARTS}

    @property
    def _running(self) -> dict[str, Array]:
        if self.curves is None:
            raise InvalidInput(
                "The run has totals only. Run it with record='costs' to plot its regret."
            )
        return {name: getattr(self.curves, name) for name in ("dynamic", "switching", "total")}

    def plot(self) -> Figure:
        """Draw dynamic regret, the movement paid and total regret over the rounds.

        Returns
        -------
        Figure
            A matplotlib figure.

        Raises
        ------
        ValueError
            If the run recorded totals only.

        Examples
        --------
        >>> trace = run(GD(Box(-1, 1), sigma=2.0), [[1.0], [1.0], [-1.0]], engine="step")
        >>> [line.get_ydata()[-1].item() for line in regret(trace, [-1.0]).plot().axes[0].lines]
        [1.5, 1.0, 2.5]
        """
        return show.draw_curves(self._running, "regret so far")


@explain_arguments
def regret(
    trace: Trace[Any], u: ArrayLike | Optimum | BestFixed, costs: Costs | ArrayLike | None = None
) -> Regret:
    r"""Compute the regret of a run against a comparator u.

    .. math:: \sum_t f_t(x_t) - f_t(u_t) + \lambda_t m(x_t, x_{t-1}) - \lambda_t m(u_t, u_{t-1})

    Parameters
    ----------
    trace : Trace
        The run.
    u : array_like, Optimum or BestFixed
        The comparator: one point of shape (d,), or one per round, of shape (T, d); or what :func:`~klazy.offline_optimum` or
        :func:`~klazy.best_fixed` found. It must lie in the run's set; a trace from a file does not know its set. If the run had
        a starting position x0, u pays for leaving it too.
    costs : Costs or array_like, optional
        The run's costs. Give them only for a trace that was loaded from a file. Default: those of the trace.

    Returns
    -------
    Regret
        Its parts, and their sums over the rounds.

    Raises
    ------
    ValueError
        If u has the wrong shape or leaves the set, or costs are missing.

    Examples
    --------
    >>> trace = run(GD(Box(-1, 1), sigma=2.0), [[1.0], [1.0], [-1.0]])
    >>> regret(trace, [[-1.0], [-1.0], [1.0]]).total
    2.5
    >>> regret(trace, offline_optimum(trace.costs, Box(-1, 1))).total
    2.5
    """
    check_trace(trace)
    known = trace.costs if costs is None else as_costs(costs)
    if known is None:
        raise InvalidInput(
            "A trace from a file does not have its costs. Give them: regret(trace, u, costs=costs)"
        )
    if (known.T, known.dim) != (trace.T, trace.dim):
        raise InvalidInput(
            f"costs must be those of the run, with T={trace.T} and dim={trace.dim}, got {known}."
        )
    points = check_comparator(u, trace, getattr(trace.source, "domain", None))
    # Data that is not finite shows in the values, so the data is searched only if these are not finite.
    with np.errstate(invalid="ignore"):
        hitting = known.values(points)
    if not is_within(hitting, FINITE):
        known.check_finite()
        t = int(np.argmin(np.isfinite(hitting))) + 1
        raise InvalidInput(f"u must have finite costs, got {hitting[t - 1]} in round {t}.")
    moved = trace.movement.paid(points, trace.x0)
    path = EUCLIDEAN.paid(points)
    curves = None
    if "hitting" in trace.kept:
        each = (trace.hitting - hitting, trace.switching, moved, path)
        dynamic, switching, comparator_switching, travelled = np.cumsum(each, axis=1)
        total = dynamic + switching - comparator_switching
        curves = Curves(dynamic, switching, comparator_switching, total, travelled)
    return Regret(
        dynamic=trace.totals.hitting - float(hitting.sum()),
        switching=trace.totals.switching,
        comparator_switching=float(moved.sum()),
        path_length=float(path.sum()),
        curves=curves,
    )


def check_comparator(
    u: ArrayLike | Optimum | BestFixed, trace: Trace[Any], domain: ConvexSet | None
) -> Array:
    """Return a comparator of a run as one point per round, of shape (T, d), or reject it."""
    given: Any = getattr(u, "u", u)
    is_sequence = count_axes(given) == 2
    points = (
        rows(given, "u", trace.dim, trace.T) if is_sequence else vector(given, "u", trace.dim)
    )
    if domain is not None and (domain.violation(points) > TOLERANCE).any():
        raise InvalidInput(
            f"u must be in {domain!r}, got a point outside. Use domain.project(u)."
        )
    return np.broadcast_to(points, (trace.T, trace.dim))


@explain_arguments
def competitive_ratio(trace: Trace[Any], optimum: Optimum) -> float:
    """Compare what a run paid with what the offline optimum must pay, for costs that are never negative.

    The answer is certified: it divides by the optimum's lower bound, so the true ratio is no larger.

    Parameters
    ----------
    trace : Trace
        The run.
    optimum : Optimum
        What :func:`~klazy.offline_optimum` found for the same costs and movement.

    Returns
    -------
    float
        At least 1, but for rounding.

    Raises
    ------
    ValueError
        If the two are not of the same game, a cost is negative, or the optimum may cost nothing.

    Examples
    --------
    >>> costs = QuadraticCosts([[0.0], [1.0], [0.0]])
    >>> best = offline_optimum(costs, Box(0, 1), L1Movement(0.1), x0=[0.0])
    >>> round(competitive_ratio(run(GD(Box(0, 1), 2.0), costs, movement=L1Movement(0.1), x0=[0.0]), best), 3)
    3.857
    """
    check_trace(trace)
    if not isinstance(optimum, Optimum) or not _share_game(trace, optimum):
        raise InvalidInput(
            f"optimum must come from offline_optimum with the costs, movement and x0 of the run, got {optimum!r}."
        )
    least = float(trace.kept.get("hitting", np.array(trace.totals.hitting)).min())
    if least < 0.0 or optimum.lower_bound <= 0.0:
        worst = min(least, optimum.lower_bound)
        raise InvalidInput(f"A ratio needs positive costs, got {worst}. Use regret.")
    return trace.totals.cost / optimum.lower_bound


def _share_game(trace: Trace[Any], optimum: Optimum) -> bool:
    """Return True if both have the same movement, the same start and, at the optimum's points, the same costs."""
    if trace.costs is None or optimum.u.shape != (trace.T, trace.dim):
        return False
    if optimum.movement != trace.movement or not np.array_equal(trace.x0, optimum.x0):  # pyright: ignore[reportArgumentType]
        return False
    hitting = trace.costs.values(optimum.u).sum()
    return bool(np.isclose(hitting, optimum.hitting, rtol=1e-9, atol=1e-12))
