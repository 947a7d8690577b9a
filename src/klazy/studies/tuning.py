"""Tune on one part of a trace, score on another: the same for all contenders.

A :class:`Tunable` makes players from parameters. :func:`tune` finds the parameters with which it pays least on early rounds,
:func:`score` measures what it pays on later ones, starting where it ended. All of it works on arrays, for any game: a
function ``charge`` computes what points pay.
"""

from __future__ import annotations

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

__all__ = ["Player", "Score", "Tunable", "Tuned"]
__all__ += ["choose_lags", "choose_sigmas", "refine_values", "search"]
__all__ += ["charge_player", "rank", "score", "tune", "tune_learner"]

# A difference below this share of what was paid is rounding.
TIE_SHARE = 1e-10
# A smaller charge for a move, compared with the dearest round, is rounding.
ROUNDING_SHARE = 1e-12
# The range of sigma, in multiples of the scale of theory.
SIGMA_SPAN = (1e-2, 1e2)
Charge = Callable[[Array, Array], tuple[Array, Array]]
"""``charge(rows, path)``: what each round hits, and what the move after it costs; the path has one point more than rows."""
L = TypeVar("L", bound=Learner[Any])
Measure = Callable[[Sequence[Any]], Iterable[float]]
"""``measure(players)``: what each new player would pay on the rows of the tuning."""
Axes = dict[str, list[float]]
Point = dict[str, float]


class Player(Protocol):
    """A player of a game, round after round, which remembers its state."""

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


class Tunable(NamedTuple):
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
    """

    name: str
    kind: str
    make: Callable[..., Player]
    axes: Axes


def list_points(axes: Axes) -> list[Point]:
    """List every combination of values."""
    return [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]


def search(axes: Axes, pay: Callable[[list[Point]], Iterable[float]]) -> tuple[list[Point], int]:
    """Try every combination of values, then as many again around the best of them.

    Parameters
    ----------
    axes : dict of str to list of float
        The values to try for each parameter; they ascend.
    pay : callable
        Computes what each of a list of combinations pays.

    Returns
    -------
    points : list of dict
        All combinations that were tried.
    best : int
        The number of the one that pays least.

    Examples
    --------
    >>> points, best = search({"level": [1.0, 4.0, 16.0]}, lambda points: [abs(p["level"] - 5.0) for p in points])
    >>> len(points), points[best]
    (6, {'level': 4.0})
    """
    points = list_points(axes)
    paid = list(pay(points))
    if axes:
        best = points[int(np.argmin(paid))]
        finer = list_points(
            {name: refine_values(values, best[name]) for name, values in axes.items()}
        )
        points += finer
        paid.extend(pay(finer))
    return points, int(np.argmin(paid))


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
    return (scale * np.geomspace(*SIGMA_SPAN, count)).tolist()


@dataclass(eq=False)
class Tuned:
    """A contender with the parameters with which it pays least. :func:`tune` makes it.

    Parameters
    ----------
    name : str
        The contender.
    kind : str
        What kind it is.
    player : Player
        The player, after the rounds of the tuning.
    parameters : dict of str to float
        The values it was tuned to.
    candidates : int
        How many were tried.
    at_limit : list of str
        The parameters whose value is the least or the largest tried.
    """

    name: str
    kind: str
    player: Any
    parameters: Point
    candidates: int
    at_limit: list[str]


def tune(tunable: Tunable, rows: Array, charge: Charge, measure: Measure | None = None) -> Tuned:
    """Find the parameters that pay least on some rows: of the contender's own values, and of as many around the best.

    Parameters
    ----------
    tunable : Tunable
        The contender to tune.
    rows : array
        The rows to tune on.
    charge : callable
        ``charge(rows, path)``: what each round hits, and what the move after it costs.
    measure : callable, optional
        Computes what players pay, where that is cheaper than playing each of them. Default: they are played.

    Returns
    -------
    Tuned
        The best player. A parameter is at its grid limit if it is the least or the largest of three or more values: there
        may be better ones beyond.

    Examples
    --------
    >>> class Held:
    ...     def __init__(self, level):
    ...         self.x = np.array([level])
    ...     def play(self, rows):
    ...         return np.tile(self.x, (len(rows), 1))
    >>> held = Tunable("held", "simple", Held, {"level": [1.0, 4.0, 16.0]})
    >>> def charge(rows, path):
    ...     return np.abs(rows - path[:-1])[:, 0], np.zeros(len(rows))
    >>> tuned = tune(held, np.array([[5.0], [6.0], [9.0]]), charge)
    >>> tuned.parameters, tuned.candidates
    ({'level': 4.0}, 6)
    """

    def play_each(players: Sequence[Player]) -> list[float]:
        return [float(np.sum(charge_player(player, rows, charge)[1:])) for player in players]

    def pay(points: list[Point]) -> Iterable[float]:
        # A single candidate needs no comparison.
        if not tunable.axes:
            return [0.0]
        return (measure or play_each)([tunable.make(**point) for point in points])

    points, at = search(tunable.axes, pay)
    player = tunable.make(**points[at])
    player.play(rows)
    at_limit = []
    for name, value in points[at].items():
        values = [point[name] for point in points]
        if len(set(values)) > 2 and value in (min(values), max(values)):
            at_limit.append(name)
    return Tuned(tunable.name, tunable.kind, player, points[at], len(points), at_limit)


def charge_player(player: Player, rows: Array, charge: Charge) -> tuple[Array, Array, Array]:
    """Play the next rounds.

    Parameters
    ----------
    player : Player
        Who plays.
    rows : array
        The rows that come in them.
    charge : callable
        ``charge(rows, path)``: what each round hits, and what the move after it costs.

    Returns
    -------
    points : array
        The decisions.
    hitting : array
        What each round charged.
    switching : array
        What the move after each round charged.
    """
    points = player.play(rows)
    hitting, switching = charge(rows, np.vstack((points, player.x)))
    return points, hitting, switching


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
class Score(Tuned):
    """What a tuned contender paid where it was scored.

    A round pays for its point, and for the move that follows it. Sums add one round after the other, as a live account does,
    so that both have the same digits.

    Parameters
    ----------
    name : str
        The contender.
    kind : str
        What kind it is.
    player : Player
        The player after the last of these rounds.
    parameters : dict of str to float
        The values it was tuned to.
    candidates : int
        How many were tried.
    at_limit : list of str
        The parameters whose value is the least or the largest tried.
    began : Player
        The player before the first of these rounds.
    stretches : array
        Parts of the cost, from which intervals are made.
    points : array
        Its decisions, in the rounds that are recorded.
    curve : array
        What it had paid after each of these rounds.
    hitting : float, optional
        What its rounds charged. Default: 0.
    switching : float, optional
        What its moves charged. Default: 0.
    rounds : int, optional
        How many rounds it has played. Default: 0.
    moves : int, optional
        The rounds after which it moved. Default: 0.
    """

    began: Any
    stretches: Array
    points: Array
    curve: Array
    hitting: float = 0.0
    switching: float = 0.0
    rounds: int = 0
    moves: int = 0

    @property
    def cost(self) -> float:
        """What it has paid altogether: hitting + switching."""
        return self.hitting + self.switching

    def record(self, rows: Array, charge: Charge, edges: Array, every: int) -> None:
        """Play the next rounds, and record what they cost.

        Parameters
        ----------
        rows : array
            The rows that come in them.
        charge : callable
            ``charge(rows, path)``: what each round hits, and what the move after it costs.
        edges : array
            The rounds at which stretches begin, and at last the number of all.
        every : int
            Record one in this many points.
        """
        done = self.rounds
        paid = self.cost
        points, hitting, switching = charge_player(self.player, rows, charge)
        cost = hitting + switching
        places = np.searchsorted(edges, done + np.arange(len(rows)), side="right") - 1
        self.stretches += np.bincount(places, cost, minlength=len(self.stretches))
        self.hitting = _add_up(self.hitting, hitting)
        self.switching = _add_up(self.switching, switching)
        self.rounds += len(rows)
        # Shares that prices carry are not moved, but for rounding.
        self.moves += int((switching > ROUNDING_SHARE * np.abs(cost).max()).sum())
        recorded = slice(-done % every, None, every)
        at = slice(-(-done // every), -(-self.rounds // every))
        self.points[at] = points[recorded]
        self.curve[at] = (paid + np.cumsum(cost))[recorded]

    @property
    def size(self) -> float:
        """The sum of what was paid and what was earned, the scale of rounding errors."""
        return float(np.abs(self.stretches).sum())

    def ties_with(self, other: Score) -> bool:
        """Return True if both paid the same, but for rounding.

        Parameters
        ----------
        other : Score
            The other.

        Returns
        -------
        bool
            Whether they tie.
        """
        return abs(self.cost - other.cost) <= TIE_SHARE * max(self.size, other.size)

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
        gaps = than.stretches - self.stretches
        n = len(gaps)
        half = find_quantile(n - 1) * gaps.std(ddof=1) * np.sqrt(n)
        return float(gaps.sum()), float(half)


def find_quantile(freedom: int) -> float:
    """Return the 97.5 % quantile of Student's t with this many degrees of freedom."""
    if freedom == 19:
        return 2.0930240544083087  # Of twenty stretches. To import SciPy takes a tenth of a replay's time.
    from scipy.special import stdtrit

    return float(stdtrit(freedom, 0.975))


def score(
    tuned: Sequence[Tuned],
    pieces: Iterable[Array],
    edges: Sequence[int],
    charge: Charge,
    every: int = 1,
    report_progress: Callable[[float], object] = lambda fraction: None,
) -> list[Score]:
    """Score tuned contenders on later rounds, starting where they ended.

    Parameters
    ----------
    tuned : list of Tuned
        The contenders.
    pieces : iterable of array
        The rows, in pieces.
    edges : list of int
        The rounds at which stretches begin, counted from 0, and at last the number of all.
    charge : callable
        ``charge(rows, path)``: what each round hits, and what the move after it costs.
    every : int, optional
        Record one in this many points. Default: all.
    report_progress : callable, optional
        Called with the fraction of the rounds that is done.

    Returns
    -------
    list of Score
        What each paid, the least first; contenders that tie stay in their order.
    """
    recorded = -(-edges[-1] // every)
    scores = [
        Score(
            **vars(each),
            began=copy(each.player),
            stretches=np.zeros(len(edges) - 1),
            points=np.empty((recorded, len(each.player.x))),
            curve=np.empty(recorded),
        )
        for each in tuned
    ]
    done = 0
    for rows in pieces:
        for each in scores:
            each.record(rows, charge, np.asarray(edges), every)
        done += len(rows)
        report_progress(done / edges[-1])
    return rank(scores)


def _add_up(total: float, values: Array) -> float:
    """Add one value after the other, as a live account does."""
    return float(np.cumsum(np.concatenate(([total], values)))[-1])


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
    noise = TIE_SHARE * max(each.size for each in scores)
    if noise == 0.0:
        return scores
    return sorted(scores, key=lambda each: round(each.cost / noise))
