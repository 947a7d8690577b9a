"""Tune on one part of a trace, score on another: the same for everyone who is compared.

A contender is a way to make players from parameters. ``tune`` finds the parameters with which it pays least on some
rounds, ``score`` what it pays on later ones, going on from where it stands. All of it works on arrays, of any game:
``charge`` says what points pay.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple, Protocol

import numpy as np

from klazy.base.checks import Array
from klazy.sets import ConvexSet

__all__ = [
    "Candidate",
    "Contender",
    "Player",
    "Score",
    "Tuned",
    "choose_lags",
    "choose_sigmas",
    "rank",
    "refine_values",
    "score",
    "tune",
]

TIE = 1e-10  # of what was paid, below which a difference is rounding
THREADS = 8
SPAN = (1e-2, 1e2)  # of sigma, about the scale of theory
Charge = Callable[[Array, Array, Array | None], tuple[float, float]]
"""``charge(rows, points, before)``: hitting and switching of points played while these rows come, from the one before."""
Measure = Callable[[Sequence[Any]], Iterable[float]]
"""``measure(players)``: what each of these players, as it was made, would pay on the rows of the tuning."""


class Player(Protocol):
    """Who plays a game round after round and keeps where it stands."""

    def play(self, rows: Array) -> Array:
        """The points of the next rounds, in which these rows come."""
        ...


@dataclass(eq=False)
class Candidate:
    """A player with the parameters it was made from, and what it has paid so far; ``x`` is the last point."""

    player: Player
    parameters: dict[str, float]
    hitting: float = 0.0
    switching: float = 0.0
    x: Array | None = None

    @property
    def cost(self) -> float:
        return self.hitting + self.switching

    def play(self, rows: Array, charge: Charge) -> tuple[float, float, Array]:
        """Hitting and switching of the next rounds, and the points; the first round of all moves for nothing."""
        points = self.player.play(rows)
        hitting, switching = charge(rows, points, self.x)
        self.hitting += hitting
        self.switching += switching
        self.x = points[-1].copy()
        return hitting, switching, points


class Contender(NamedTuple):
    """A name, what kind it is, how a player is made, and for each parameter the values to try, which ascend."""

    name: str
    kind: str
    make: Callable[..., Player]
    axes: dict[str, list[float]]

    def make_candidates(self, axes: dict[str, list[float]] | None = None) -> list[Candidate]:
        """One for every combination of values."""
        if axes is None:
            axes = self.axes
        candidates = []
        for values in product(*axes.values()):
            point = dict(zip(axes, values, strict=True))
            candidates.append(Candidate(self.make(**point), point))
        return candidates

    def refine(self, best: Candidate) -> list[Candidate]:
        """As many candidates again, between the best and its neighbours."""
        if not self.axes:
            return []
        finer = {name: refine_values(values, best.parameters[name]) for name, values in self.axes.items()}
        return self.make_candidates(finer)


def refine_values(values: list[float], best: float) -> list[float]:
    """As many values as there are, from the one before the best to the one after it; whole numbers stay whole."""
    at = values.index(best)
    low = values[max(at - 1, 0)]
    high = values[min(at + 1, len(values) - 1)]
    finer = np.geomspace(low, high, len(values))
    if isinstance(best, int):
        return sorted({round(value) for value in finer})
    return finer.tolist()


def choose_lags(n: int, count: int) -> list[float]:
    """Numbers of rounds from 2 to half of the n that there are, ``count`` of them, or as many as differ."""
    return sorted({round(lag) for lag in np.geomspace(2, max(2, n / 2), count)})


def choose_sigmas(size: float, n: int, domain: ConvexSet, count: int) -> list[float]:
    """Values of sigma about that of theory for n rounds with gradients of this size."""
    scale = size * np.sqrt(n) / domain.scale
    return (scale * np.geomspace(*SPAN, count)).tolist()


class Tuned(NamedTuple):
    """A contender with its best candidate, as the tuning left it, the number of those tried, and parameters at an edge."""

    contender: Contender
    best: Candidate
    candidates: int
    edges: list[str]


def tune(contender: Contender, rows: Array, charge: Charge, measure: Measure | None = None) -> Tuned:
    """Find the candidate that pays least on these rows: of the contender's own, and of as many round the best of those.

    ``measure`` says what candidates pay where that is known at less expense than by playing each of them. A parameter is at an
    edge if it is the least or the largest tried: there may be better ones beyond.
    """
    tried = contender.make_candidates()
    best = tried[0]
    if contender.axes:
        paid = _pay(tried, rows, charge, measure)
        finer = contender.refine(tried[int(np.argmin(paid))])
        tried += finer
        paid += _pay(finer, rows, charge, measure)
        best = tried[int(np.argmin(paid))]
    if best.x is None:
        best.play(rows, charge)
    edges = []
    for name, value in best.parameters.items():
        values = [candidate.parameters[name] for candidate in tried]
        if value in (min(values), max(values)):
            edges.append(name)
    return Tuned(contender, best, len(tried), edges)


def _pay(candidates: list[Candidate], rows: Array, charge: Charge, measure: Measure | None) -> list[float]:
    """What each pays on these rows."""
    from concurrent.futures import ThreadPoolExecutor

    if measure is not None:
        return list(measure([candidate.player for candidate in candidates]))
    with ThreadPoolExecutor(min(os.cpu_count() or 1, THREADS)) as pool:
        list(pool.map(lambda candidate: candidate.play(rows, charge), candidates))
    return [candidate.cost for candidate in candidates]


@dataclass(eq=False)
class Score:
    """What a contender paid where it was scored, with the parameters it was tuned to; ``stretches`` are parts of the cost.

    ``edges`` names the parameters that are the least or the largest tried among the ``candidates``.
    """

    name: str
    kind: str
    parameters: dict[str, float]
    edges: list[str]
    candidates: int
    hitting: float
    switching: float
    stretches: Array
    points: Array
    player: Any

    @property
    def cost(self) -> float:
        return self.hitting + self.switching

    @property
    def size(self) -> float:
        """The sum of what was paid and what was earned, beside which a difference may be rounding."""
        return float(np.abs(self.stretches).sum())

    def ties_with(self, other: "Score") -> bool:
        """Whether both paid the same but for rounding."""
        return abs(self.cost - other.cost) <= TIE * max(self.size, other.size)

    def compare(self, than: "Score") -> tuple[float, float]:
        """How much less this one paid than the other, and half the width of its 95 % interval, from the stretches."""
        from scipy.special import stdtrit

        gaps = than.stretches - self.stretches
        n = len(gaps)
        half = stdtrit(n - 1, 0.975) * gaps.std(ddof=1) * np.sqrt(n)
        return float(gaps.sum()), float(half)


def score(
    tuned: Sequence[Tuned],
    stretches: Sequence[Iterable[Array]],
    charge: Charge,
    every: int = 1,
    tell: Callable[[float], object] = lambda share: None,
) -> list[Score]:
    """What each pays from where it stands, the least first; who ties with another is where it was.

    A stretch is a number of rounds, in pieces. Of the points one in ``every`` is kept.
    """
    paid = np.zeros((len(tuned), len(stretches), 2))
    points: list[list[Array]] = [[] for _ in tuned]
    done = 0
    for at, pieces in enumerate(stretches):
        for rows in pieces:
            for i, contender in enumerate(tuned):
                hitting, switching, played = contender.best.play(rows, charge)
                paid[i, at] += hitting, switching
                points[i].append(played[-done % every :: every].copy())
            done += len(rows)
        tell((at + 1) / len(stretches))
    scores = []
    for contender, spent, kept in zip(tuned, paid, points, strict=True):
        hitting, switching = spent.sum(axis=0).tolist()
        scores.append(
            Score(
                contender.contender.name,
                contender.contender.kind,
                contender.best.parameters,
                contender.edges,
                contender.candidates,
                hitting,
                switching,
                stretches=spent.sum(axis=1),
                points=np.vstack(kept),
                player=contender.best.player,
            )
        )
    return rank(scores)


def rank(scores: list[Score]) -> list[Score]:
    """Sort by cost; costs that differ by rounding alone leave the order as it is."""
    noise = TIE * max(each.size for each in scores)
    if noise == 0.0:
        return scores
    return sorted(scores, key=lambda each: round(each.cost / noise))
