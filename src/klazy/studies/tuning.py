"""Tune on one part of a trace, score on another: the same for everyone who is compared.

A contender is a way to make players from parameters. ``tune`` finds the parameters with which it pays least on some
rounds, ``score`` what it pays on later ones, going on from where it stands. All of it works on arrays, of any game:
``charge`` says what points pay.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from klazy.base.checks import Array
from klazy.costs import Costs
from klazy.game.batch import run_batch
from klazy.learners import Learner
from klazy.movement import Movement
from klazy.sets import ConvexSet

__all__ = [
    "Candidate",
    "Contender",
    "Player",
    "Score",
    "Tuned",
    "add_up",
    "choose_lags",
    "choose_sigmas",
    "rank",
    "refine_values",
    "score",
    "tune",
    "tune_learner",
]

TIE = 1e-10  # of what was paid, below which a difference is rounding
THREADS = 8
SPAN = (1e-2, 1e2)  # of sigma, about the scale of theory
Charge = Callable[[Array, Array], tuple[Array, Array]]
"""``charge(rows, path)``: what each round hits, and what the move after it costs; the path has one point more than rows."""
L = TypeVar("L", bound=Learner[Any])
Measure = Callable[[Sequence[Any]], Iterable[float]]
"""``measure(players)``: what each of these players, as it was made, would pay on the rows of the tuning."""


class Player(Protocol):
    """Who plays a game round after round, and keeps where it stands."""

    @property
    def x(self) -> Array:
        """The point of the next round."""
        ...

    def play(self, rows: Array) -> Array:
        """Play the next rounds.

        Parameters
        ----------
        rows : array
            The rows that come in them.

        Returns
        -------
        array
            The points of these rounds.
        """
        ...


@dataclass(eq=False)
class Candidate:
    """A player with the parameters it was made from, and what it has paid so far.

    A round pays for its point, and for the move that follows it. Sums add one round after the other, as a live account does,
    so that both have the same digits.

    Parameters
    ----------
    player : Player
        Who plays.
    parameters : dict of str to float
        What it was made from.
    hitting : float, optional
        What its rounds have charged. Default: 0.
    switching : float, optional
        What its moves have charged. Default: 0.
    rounds : int, optional
        How many rounds it has played. Default: 0.
    """

    player: Player
    parameters: dict[str, float]
    hitting: float = 0.0
    switching: float = 0.0
    rounds: int = 0

    @property
    def cost(self) -> float:
        """What it has paid altogether: hitting + switching."""
        return self.hitting + self.switching

    def play(self, rows: Array, charge: Charge) -> tuple[Array, Array, Array]:
        """Play the next rounds, and add up what they cost.

        Parameters
        ----------
        rows : array
            The rows that come in them.
        charge : callable
            ``charge(rows, path)``: what each round hits, and what the move after it costs.

        Returns
        -------
        hitting : array
            What each round charged.
        switching : array
            What the move after each round charged.
        points : array
            The decisions.
        """
        points = self.player.play(rows)
        path = np.vstack((points, self.player.x))
        hitting, switching = charge(rows, path)
        self.hitting = add_up(self.hitting, hitting)
        self.switching = add_up(self.switching, switching)
        self.rounds += len(rows)
        return hitting, switching, points


def add_up(total: float, values: Array) -> float:
    """Add one value after the other, as a live account does.

    Parameters
    ----------
    total : float
        The sum so far.
    values : array
        What to add.

    Returns
    -------
    float
        The new sum.

    Examples
    --------
    >>> add_up(1.0, np.array([0.5, 0.25]))
    1.75
    """
    return float(np.cumsum(np.concatenate(([total], values)))[-1])


class Contender(NamedTuple):
    """A way to make players from parameters, with the values to try.

    Parameters
    ----------
    name : str
        What it is called.
    kind : str
        What kind it is, such as ``"lazy"``.
    make : callable
        Makes a player from the parameters, given by name.
    axes : dict of str to list of float
        The values to try for each parameter; they ascend.

    Examples
    --------
    >>> lags = Contender("average", "simple", lambda window: window, {"window": [2, 4, 8]})
    >>> [candidate.parameters for candidate in lags.make_candidates()]
    [{'window': 2}, {'window': 4}, {'window': 8}]
    """

    name: str
    kind: str
    make: Callable[..., Player]
    axes: dict[str, list[float]]

    def make_candidates(self, axes: dict[str, list[float]] | None = None) -> list[Candidate]:
        """Make a candidate for every combination of values.

        Parameters
        ----------
        axes : dict of str to list of float, optional
            The values. Default: the contender's own.

        Returns
        -------
        list of Candidate
            The candidates.
        """
        if axes is None:
            axes = self.axes
        candidates = []
        for values in product(*axes.values()):
            point = dict(zip(axes, values, strict=True))
            candidates.append(Candidate(self.make(**point), point))
        return candidates

    def refine(self, best: Candidate) -> list[Candidate]:
        """Make as many candidates again, between the best and its neighbours.

        Parameters
        ----------
        best : Candidate
            The best so far.

        Returns
        -------
        list of Candidate
            The candidates; none if there are no parameters.
        """
        if not self.axes:
            return []
        finer = {name: refine_values(values, best.parameters[name]) for name, values in self.axes.items()}
        return self.make_candidates(finer)


def refine_values(values: list[float], best: float) -> list[float]:
    """List as many values again, from the one before the best to the one after it; whole numbers stay whole.

    Parameters
    ----------
    values : list of float
        What was tried.
    best : float
        The best of them.

    Returns
    -------
    list of float
        The finer values.

    Examples
    --------
    >>> refine_values([1, 10, 100], 10)
    [1, 10, 100]
    >>> refine_values([1, 4, 16, 64], 4)
    [1, 3, 6, 16]
    """
    at = values.index(best)
    low = values[max(at - 1, 0)]
    high = values[min(at + 1, len(values) - 1)]
    finer = np.geomspace(low, high, len(values))
    if isinstance(best, int):
        return sorted({round(value) for value in finer})
    return finer.tolist()


def choose_lags(n: int, count: int) -> list[float]:
    """Choose numbers of rounds to try, from 2 to half of those that there are.

    Parameters
    ----------
    n : int
        How many rounds there are.
    count : int
        How many numbers to choose; fewer if they would repeat.

    Returns
    -------
    list of float
        The numbers; they ascend.

    Examples
    --------
    >>> choose_lags(1000, 4)
    [2, 13, 79, 500]
    """
    return sorted({round(lag) for lag in np.geomspace(2, max(2, n / 2), count)})


def choose_sigmas(size: float, n: int, domain: ConvexSet, count: int) -> list[float]:
    """Choose values of sigma to try, around that of theory.

    Parameters
    ----------
    size : float
        The size of the gradients.
    n : int
        How many rounds there are.
    domain : ConvexSet
        Where decisions live.
    count : int
        How many values to choose.

    Returns
    -------
    list of float
        The values; they ascend.

    Examples
    --------
    >>> choose_sigmas(1.0, 100, L2Ball(2), 3)
    [0.05, 5.0, 500.0]
    """
    scale = size * np.sqrt(n) / domain.scale
    return (scale * np.geomspace(*SPAN, count)).tolist()


class Tuned(NamedTuple):
    """A contender with its best candidate. :func:`tune` makes it.

    Parameters
    ----------
    contender : Contender
        Who was tuned.
    best : Candidate
        Its best candidate, as the tuning left it.
    candidates : int
        How many were tried.
    edges : list of str
        The parameters that are the least or the largest tried.
    """

    contender: Contender
    best: Candidate
    candidates: int
    edges: list[str]


def tune(contender: Contender, rows: Array, charge: Charge, measure: Measure | None = None) -> Tuned:
    """Find the candidate that pays least on some rows: of the contender's own, and of as many around the best of those.

    Parameters
    ----------
    contender : Contender
        Whom to tune.
    rows : array
        The rows to tune on.
    charge : callable
        ``charge(rows, path)``: what each round hits, and what the move after it costs.
    measure : callable, optional
        Says what candidates pay, where that is cheaper than playing each of them. Default: they are played.

    Returns
    -------
    Tuned
        The best candidate. A parameter is at an edge if it is the least or the largest of three or more: there may be better
        ones beyond.

    Examples
    --------
    >>> class Held:
    ...     def __init__(self, level):
    ...         self.x = np.array([level])
    ...     def play(self, rows):
    ...         return np.tile(self.x, (len(rows), 1))
    >>> held = Contender("held", "simple", Held, {"level": [1.0, 4.0, 16.0]})
    >>> def charge(rows, path):
    ...     return np.abs(rows - path[:-1])[:, 0], np.zeros(len(rows))
    >>> tuned = tune(held, np.array([[5.0], [6.0], [9.0]]), charge)
    >>> tuned.best.parameters, tuned.best.cost, tuned.candidates
    ({'level': 4.0}, 8.0, 6)
    """
    tried = contender.make_candidates()
    best = tried[0]
    if contender.axes:
        paid = _pay(tried, rows, charge, measure)
        finer = contender.refine(tried[int(np.argmin(paid))])
        tried += finer
        paid += _pay(finer, rows, charge, measure)
        best = tried[int(np.argmin(paid))]
    if best.rounds == 0:
        best.play(rows, charge)
    edges = []
    for name, value in best.parameters.items():
        values = [candidate.parameters[name] for candidate in tried]
        if len(set(values)) > 2 and value in (min(values), max(values)):
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


def tune_learner(
    candidates: Sequence[L], costs: Costs | ArrayLike, *, movement: Movement | str | None = None
) -> L:
    """Find the learner that pays least on some rounds; all are played side by side.

    Parameters
    ----------
    candidates : list of Learner
        Whom to choose from.
    costs : Costs or array_like
        The rounds to tune on.
    movement : Movement or str, optional
        What moving costs. Default: as for :func:`klazy.run_batch`.

    Returns
    -------
    Learner
        The best of them, as it was given.

    Examples
    --------
    >>> g = np.random.default_rng(0).normal(size=(200, 2))
    >>> best = tune_learner([GD(L2Ball(2), sigma) for sigma in (0.1, 10.0, 1000.0)], g[:100])
    >>> best.sigma.s
    1000.0
    """
    return candidates[int(run_batch(candidates, costs, movement=movement).cost.argmin())]


@dataclass(eq=False)
class Score:
    """What a contender paid where it was scored, with the parameters it was tuned to.

    Parameters
    ----------
    name : str
        The contender.
    kind : str
        What kind it is.
    parameters : dict of str to float
        What it was tuned to.
    edges : list of str
        The parameters that are the least or the largest tried.
    candidates : int
        How many were tried.
    hitting : float
        What its rounds charged.
    switching : float
        What its moves charged.
    stretches : array
        Parts of the cost, from which intervals are made.
    points : array
        Its decisions, in the rounds that are kept.
    curve : array
        What it had paid after each of these rounds.
    moves : int
        The rounds after which it moved.
    began : Player
        The player as it stood before the first of these rounds.
    player : Player
        The player after the last.
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
    curve: Array
    moves: int
    began: Any
    player: Any

    @property
    def cost(self) -> float:
        """What it paid altogether: hitting + switching."""
        return self.hitting + self.switching

    @property
    def size(self) -> float:
        """The sum of what was paid and what was earned, beside which a difference may be rounding."""
        return float(np.abs(self.stretches).sum())

    def ties_with(self, other: Score) -> bool:
        """Tell whether both paid the same, but for rounding.

        Parameters
        ----------
        other : Score
            The other.

        Returns
        -------
        bool
            Whether they tie.
        """
        return abs(self.cost - other.cost) <= TIE * max(self.size, other.size)

    def compare(self, than: Score) -> tuple[float, float]:
        """Compare with another contender.

        Parameters
        ----------
        than : Score
            The other.

        Returns
        -------
        saved : float
            How much less this one paid.
        half : float
            Half the width of its 95 % interval, from the stretches.
        """
        from scipy.special import stdtrit

        gaps = than.stretches - self.stretches
        n = len(gaps)
        half = stdtrit(n - 1, 0.975) * gaps.std(ddof=1) * np.sqrt(n)
        return float(gaps.sum()), float(half)


class _Sheet:
    """What is written down of a contender while it is scored."""

    def __init__(self, tuned: Tuned, edges: Sequence[int]) -> None:
        self.tuned = tuned
        self.began = copy(tuned.best.player)
        self.candidate = Candidate(tuned.best.player, tuned.best.parameters)
        self.edges = np.asarray(edges)
        self.stretches = np.zeros(len(edges) - 1)
        self.points: list[Array] = []
        self.curve: list[Array] = []
        self.paid = 0.0
        self.moves = 0

    def play(self, rows: Array, charge: Charge, every: int) -> None:
        done = self.candidate.rounds
        hitting, switching, points = self.candidate.play(rows, charge)
        cost = hitting + switching
        running = self.paid + np.cumsum(cost)
        self.paid = float(running[-1])
        places = np.searchsorted(self.edges, done + np.arange(len(rows)), side="right") - 1
        self.stretches += np.bincount(places, cost, minlength=len(self.stretches))
        kept = slice(-done % every, None, every)
        self.points.append(points[kept].copy())
        self.curve.append(running[kept].copy())
        self.moves += int((switching != 0.0).sum())

    def finish(self) -> Score:
        contender = self.tuned.contender
        return Score(
            contender.name,
            contender.kind,
            self.tuned.best.parameters,
            self.tuned.edges,
            self.tuned.candidates,
            self.candidate.hitting,
            self.candidate.switching,
            stretches=self.stretches,
            points=np.vstack(self.points),
            curve=np.concatenate(self.curve),
            moves=self.moves,
            began=self.began,
            player=self.candidate.player,
        )


def score(
    tuned: Sequence[Tuned],
    pieces: Iterable[Array],
    edges: Sequence[int],
    charge: Charge,
    every: int = 1,
    tell: Callable[[float], object] = lambda share: None,
) -> list[Score]:
    """Score tuned contenders on later rounds, from where they stand.

    Parameters
    ----------
    tuned : list of Tuned
        Whom to score.
    pieces : iterable of array
        The rows, in pieces.
    edges : list of int
        The rounds at which stretches begin, counted from 0, and at last the number of all.
    charge : callable
        ``charge(rows, path)``: what each round hits, and what the move after it costs.
    every : int, optional
        Keep one in so many points. Default: all.
    tell : callable, optional
        Called with the share of the rounds that is done.

    Returns
    -------
    list of Score
        What each paid, the least first; contenders that tie keep their order.
    """
    sheets = [_Sheet(each, edges) for each in tuned]
    done = 0
    for rows in pieces:
        for sheet in sheets:
            sheet.play(rows, charge, every)
        done += len(rows)
        tell(done / edges[-1])
    return rank([sheet.finish() for sheet in sheets])


def rank(scores: list[Score]) -> list[Score]:
    """Sort scores by cost; costs that differ by rounding alone leave the order as it is.

    Parameters
    ----------
    scores : list of Score
        The scores.

    Returns
    -------
    list of Score
        The best first.
    """
    noise = TIE * max(each.size for each in scores)
    if noise == 0.0:
        return scores
    return sorted(scores, key=lambda each: round(each.cost / noise))
