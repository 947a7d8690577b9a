"""The phase length that hurts a learner with a clock most."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from klazy import show
from klazy.base.checks import Array, InvalidInput, integer, vector
from klazy.costs import LinearCosts
from klazy.game.regret import regret
from klazy.game.run import run_many
from klazy.learners import GD
from klazy.learners.base import Descent
from klazy.sequences import Scenario, phases_of_length
from klazy.sequences.phases import alternate
from klazy.sets import ConvexSet, L2Ball

if TYPE_CHECKING:
    from klazy.show import Figure

WIDE_RATIO = 100.0  # a larger ratio of the longest phase to the shortest has a logarithmic axis
MOST_FLIPS = 1_000_000


@dataclass(frozen=True, eq=False)
class Resonance:
    """Smoothed regret per round by phase length. :func:`resonance` makes it.

    Parameters
    ----------
    lengths : array of int
        The phase lengths.
    lazy : array
        The learner's regret per round at each.
    greedy : array
        The same of greedy descent with the same sigma.

    Examples
    --------
    >>> found = Resonance(np.array([10, 20]), lazy=np.array([0.5, 0.2]), greedy=np.array([0.3, 0.3]))
    >>> found.worst, found.best
    (10, 20)
    """

    lengths: np.ndarray
    lazy: Array
    greedy: Array

    @property
    def worst(self) -> int:
        """The phase length at which laziness costs most."""
        return int(self.lengths[np.argmax(self.lazy - self.greedy)])

    @property
    def best(self) -> int:
        """The phase length at which it costs least, or gains most."""
        return int(self.lengths[np.argmin(self.lazy - self.greedy)])

    def __str__(self) -> str:
        extra = self.lazy - self.greedy
        texts = [
            f"Compared with greedy, phases of {self.lengths[i]} hurt {how}: "
            f"{self.lazy[i]:.3g} a round against {self.greedy[i]:.3g}."
            for how, i in (("most", extra.argmax()), ("least", extra.argmin()))
        ]
        return "\n".join(texts)

    __repr__ = __str__

    def plot(self) -> "Figure":
        """Draw both over the phase length, and mark where laziness costs most.

        Returns
        -------
        Figure
            A matplotlib figure.

        Examples
        --------
        >>> resonance(KLazyGD(L2Ball(1), 5.0, k=200), [100, 200, 400]).plot().axes[0].get_xlabel()
        'phase length'
        """
        order = np.argsort(self.lengths)
        worst = int(np.argmax(self.lazy - self.greedy))
        lines = {"lazy": self.lazy[order], "greedy": self.greedy[order]}
        marked = {"lazy": (float(self.lengths[worst]), float(self.lazy[worst]))}
        x = self.lengths[order]
        wide = bool(self.lengths.max() >= WIDE_RATIO * self.lengths.min())
        log = "x" if wide else ""
        return show.draw_lines(
            x, lines, "phase length", "smoothed regret per round", marked=marked, log=log
        )


def resonance(
    learner: Descent[Any], lengths: Sequence[int] | None = None, flips: int = 20
) -> Resonance:
    """Find the phase lengths at which laziness costs most and least.

    The costs are a unit vector and its opposite, by turns: along the diagonal on a unit l2 ball, else along that of the
    diagonal and the set's widest coordinate along which it is wider. The comparator is the best point of every phase.

    On the ball a clock of k rounds, k much larger than sigma, is hurt most where the costs have its period, at phases of k / 2,
    as in the lower bound; at phases of k it plays as greedy descent does, and at phases shorter than about 2 sigma laziness may
    gain. For other k and sigma it looks different: a gain at one phase length says little about another.

    Parameters
    ----------
    learner : Descent
        Who plays, on any set.
    lengths : list of int, optional
        The phase lengths to try. Default: about 60 from 1 to 2000, in equal ratios.
    flips : int, optional
        How often the costs change sign. Default: 20.

    Returns
    -------
    Resonance
        Regret per round at each length, of the learner and of greedy descent.

    Raises
    ------
    ValueError
        If the learner has no sigma, or lengths or flips are not whole numbers above zero.

    Examples
    --------
    >>> resonance(KLazyGD(L2Ball(1), 5.0, k=200), range(20, 401, 20))
    Compared with greedy, phases of 100 hurt most: ...
    Compared with greedy, phases of 200 hurt least: ...
    """
    if not hasattr(learner, "sigma"):
        example = "KLazyGD(L2Ball(2), 5.0, k=50)"
        raise InvalidInput(f"learner must have a sigma, as {example} does, got {learner!r}.")
    chosen = np.unique(np.geomspace(1, 2000, 60).astype(int))
    if lengths is not None:
        given = vector(lengths, "lengths")
        if (given < 1).any() or (given != np.floor(given)).any():
            raise InvalidInput(f"lengths must be integers of at least 1, got {given.tolist()}.")
        chosen = given.astype(int)
    flips = integer(flips, "flips")
    if flips > MOST_FLIPS:
        raise InvalidInput(f"flips must be at most {MOST_FLIPS}, got {flips}.")
    pair = [learner, GD(learner.domain, learner.sigma, start=learner.start)]
    found = []
    for length in chosen.tolist():
        scenario = _make_phases(learner.domain, length, length * (flips + 1))
        traces = run_many(pair, scenario.costs, record="totals", jobs=1)
        found.append(
            [regret(trace, scenario.comparator).smoothed / scenario.costs.T for trace in traces]
        )
    return Resonance(chosen, *np.array(found).T)


def _make_phases(domain: ConvexSet, length: int, T: int) -> Scenario:
    """Make a scenario with phases of this length on any set."""
    d = domain.dim
    if domain == L2Ball(d):
        return phases_of_length(length, T, d)
    diagonal = np.full((1, d), 1.0 / np.sqrt(d))
    corners = domain.lowest(np.vstack((np.eye(d), -np.eye(d))))
    across = (
        corners[d:] - corners[:d]
    )  # from where each coordinate is least to where it is largest
    longest = across[np.argmax(across.diagonal())]
    ways = np.vstack((diagonal, longest / (float(np.linalg.norm(longest)) or 1.0)))
    widths = np.vecdot(ways, domain.lowest(-ways) - domain.lowest(ways))
    way = ways[np.argmax(widths)]
    sign = alternate(length, T)
    g = sign * way
    ends = domain.lowest(np.vstack((way, -way)))
    u = np.where(sign > 0.0, ends[0], ends[1])
    return Scenario(f"phases of {length}", domain, LinearCosts(g), u)
