"""What a comparator is: a sequence, what it pays, and a certificate of how much less any other could pay."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from klazy import show
from klazy.base.checks import Array
from klazy.base.html import load_macros, show_card
from klazy.base.svg import draw_sparkline
from klazy.movement import Movement

if TYPE_CHECKING:
    from klazy.show import Figure

EPS = float(np.finfo(np.float64).eps)
OPTIMUM_PARTS = ("hitting", "switching", "cost", "lower_bound")
DRAWN_COORDINATES = 3  # the most that a card draws


@dataclass(frozen=True, eq=False, repr=False)
class Optimum:
    r"""The best sequence found for a whole run of costs, with its certificate. :func:`~klazy.offline_optimum` makes it.

    No sequence in the set pays less than ``lower_bound``, however the iterations went: it is the value of a feasible point of
    the dual problem, less an allowance for rounding (on a Polytope or an Intersection as exact as their projections).

    Parameters
    ----------
    u : array
        The sequence, of shape (T, d).
    hitting : float
        What the rounds charge it.
    switching : float
        What moving charges it.
    lower_bound : float
        No sequence pays less.
    gap : float
        (cost - lower_bound) / max(\|cost\|, S / 100), where S, the swing of the costs, is the size of the set times the sum of
        the gradients' norms at its start (of the movement weights, if all of these are zero): a cost that nearly cancels has no
        digits of its own, and is measured against a hundredth of what it is made of.
    method : str
        How it was found.
    iterations : int
        How many that took; 0 for an exact method.
    movement : Movement, optional
        What moving costs.
    x0 : array, optional
        The position before the first round.
    columns : tuple of str, optional
        The names of the coordinates, if the costs came as a frame.

    Examples
    --------
    >>> best = offline_optimum([[1.0], [-3.0], [1.0]], Box(-1, 1), L1Movement(0.5))
    >>> best.hitting, best.switching, round(best.lower_bound, 9)
    (-5.0, 2.0, -3.0)
    """

    u: Array
    hitting: float
    switching: float
    lower_bound: float
    gap: float
    method: str
    iterations: int
    movement: Movement | None = None
    x0: Array | None = None
    columns: tuple[str, ...] | None = (
        None  # the names of the coordinates, where costs came as a frame
    )

    @property
    def cost(self) -> float:
        """What the sequence pays: hitting + switching."""
        return self.hitting + self.switching

    def __repr__(self) -> str:
        return f"Optimum(cost={self.cost:.10g}, lower_bound={self.lower_bound:.10g}, gap={self.gap:.1e}, T={len(self.u)})"

    def __str__(self) -> str:
        T, d = self.u.shape
        table = "\n".join(f"{name:12}{getattr(self, name):18.10g}" for name in OPTIMUM_PARTS)
        moved = int((np.diff(self.u, axis=0) != 0.0).any(axis=1).sum())
        effort = f", {self.iterations} iterations" if self.iterations else ""
        return (
            f"offline optimum of {T} rounds in R^{d}, by {self.method}{effort}\n{table}\n"
            f"relative gap{self.gap:18.1e}\nmoves in {moved} of {T - 1} rounds"
        )

    @show_card
    def _repr_html_(self) -> str:
        """Show the same in a notebook, with a small picture of a few coordinates."""
        title, *_, moves = str(self).splitlines()
        rows = [
            {"": name.replace("_", " "), "value": getattr(self, name)}
            for name in (*OPTIMUM_PARTS, "gap")
        ]
        picture = ""
        if self.u.shape[1] <= DRAWN_COORDINATES:
            names = self.columns or [f"u{i + 1}" for i in range(self.u.shape[1])]
            picture = draw_sparkline(dict(zip(names, self.u.T, strict=True)))
        parts = load_macros()
        words = parts.paragraphs([title, moves])
        return parts.card("Optimum", "", words, parts.row(parts.table(rows), picture))

    def plot(self) -> "Figure":
        """Draw what it plays over the rounds.

        Returns
        -------
        Figure
            A matplotlib figure.

        Examples
        --------
        >>> offline_optimum([[1.0], [-1.0]], Box(-1, 1)).plot().axes[0].get_ylabel()
        'decision'
        """
        return show.draw_points(self.u, self.columns)


class GapNotReached(ArithmeticError):
    """Report that iterations ended before the gap you asked for; ``best`` is what was found, certified as far as it goes.

    Parameters
    ----------
    wanted : float
        The gap that was asked for.
    best : Optimum or BestFixed
        What was found.
    remedy : str, optional
        What to try.
    """

    def __init__(self, wanted: float, best: Any, remedy: str = "Raise iterations or gap") -> None:
        self.best = best
        super().__init__(
            f"After {best.iterations} iterations the gap is {best.gap:.1e}, above the {wanted:.1e} asked for. "
            f"{remedy}, or use the error's .best."
        )
