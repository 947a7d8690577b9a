"""Who is compared: learners and rules of thumb, each with as many candidates as any other to choose from."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from klazy.arrays import Array
from klazy.comparators import GapNotReached, best_fixed
from klazy.learners import GD, Decay, KLazyGD, LazyGD, Learner, MemoryGD, auto, sader_k
from klazy.play import run
from klazy.replay.game import Game
from klazy.replay.rules import Leader, Rule, Still
from klazy.sets import CappedSimplex, Simplex

CANDIDATES = 60  # of each contender that has parameters, or so many as differ
WIDE, FEW = 12, 5  # of the first and of the second of two parameters
SPAN = (1e-2, 1e2)  # of sigma, about the scale of theory
SAMPLE = 2000  # rows from which that scale is found
LARGE = 10**6  # numbers of a trace, beyond which the best fixed point is that for the average row


class Player(Protocol):
    def play(self, rows: Array) -> Array:
        """The points of the next rounds, in which these rows come."""
        ...


class Learning:
    """A learner at work."""

    def __init__(self, learner: Learner[Any], game: Game) -> None:
        self.learner, self.game, self.state = learner, game, None

    def play(self, rows: Array) -> Array:
        trace = run(self.learner, self.game.costs(rows), movement=self.game.movement, state=self.state)
        self.state = trace.state
        return trace.x


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

    def play(self, game: Game, rows: Array) -> tuple[float, float, Array]:
        """Hitting and switching of the next rounds, and the points; the first round of all moves for nothing."""
        points = self.player.play(rows)
        hitting = float(game.costs(rows).values(points).sum())
        switching = float(game.movement.paid(points, self.x).sum())
        self.hitting, self.switching, self.x = self.hitting + hitting, self.switching + switching, points[-1].copy()
        return hitting, switching, points


class Contender(NamedTuple):
    """A name, what kind it is (``simple``, ``greedy`` or ``lazy``), and the candidates that are tried for it."""

    name: str
    kind: str
    candidates: list[Candidate]

    def edges(self, chosen: Candidate) -> list[str]:
        """The parameters of a candidate that are the least or the largest tried."""
        tried = {name: [other.parameters[name] for other in self.candidates] for name in chosen.parameters}
        several = {name: values for name, values in tried.items() if min(values) < max(values)}
        return [name for name, values in several.items() if chosen.parameters[name] in (min(values), max(values))]


def contenders(game: Game, tuned: Array, before: Callable[[], Iterator[Array]], T: int) -> list[Contender]:
    """All of them. ``tuned`` are the rows they are tuned on, ``before()`` all rows of the first part, T the whole length."""
    n, domain = len(tuned), game.domain
    sample = tuned[:: max(1, n // SAMPLE)]
    g = game.gradients(sample, domain.start)
    if isinstance(domain, Simplex | CappedSimplex):
        g = g - g.mean(axis=1, keepdims=True)  # what all coordinates have in common decides nothing there
    sizes = np.linalg.norm(g, axis=1)
    scale = (float(np.sqrt((sizes**2).mean())) or 1.0) * np.sqrt(n) / domain.scale
    sigmas, lags = scale * np.geomspace(*SPAN, CANDIDATES), _lags(n, CANDIDATES)
    few_sigmas, few_lags, many_lags = scale * np.geomspace(*SPAN, WIDE), _lags(n, FEW), _lags(n, WIDE)

    def learning(make: Callable[..., Learner[Any]], **grids: Any) -> list[Candidate]:
        return [Candidate(Learning(make(domain, **point), game), point) for point in _points(grids)]

    def thumb(**grids: Any) -> list[Candidate]:
        return [Candidate(Rule(game, **point), point) for point in _points(grids)]

    def decay(domain: Any, sigma: float, m: float) -> Learner[Any]:
        return MemoryGD(domain, sigma, Decay(m))

    G = float(sizes.max()) or 1.0
    theory = sader_k(domain, T, G, float(np.max(game.movement.weight)))
    return [
        Contender("fixed", "simple", [Candidate(Still(_fixed(game, before)), {})]),
        Contender("follow the leader", "simple", thumb()),
        Contender("last value", "simple", thumb(window=[1])),
        Contender("moving average", "simple", thumb(window=lags)),
        Contender("dead band", "simple", thumb(window=many_lags, horizon=few_lags)),
        Contender("minimum hold", "simple", thumb(window=many_lags, hold=few_lags)),
        Contender("periodic", "simple", thumb(window=many_lags, every=few_lags)),
        Contender("GD", "greedy", learning(GD, sigma=sigmas)),
        Contender("LazyGD", "lazy", learning(LazyGD, sigma=sigmas)),
        Contender("k-lazyGD", "lazy", learning(KLazyGD, sigma=few_sigmas, k=few_lags)),
        Contender("Decay", "lazy", learning(decay, sigma=few_sigmas, m=few_lags)),
        Contender("SAder-k", "lazy", [Candidate(Learning(theory, game), {})]),
        Contender("auto", "lazy", [Candidate(Learning(auto(domain, game.movement), game), {})]),
    ]


def _lags(n: int, count: int) -> list[int]:
    """Numbers of rounds from 2 to half of what there is."""
    return sorted({round(lag) for lag in np.geomspace(2, max(2, n / 2), count)})


def _points(grids: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every combination of values."""
    if not grids:
        yield {}
        return
    ((name, values), *others) = grids.items()
    for value in values:
        for rest in _points(dict(others)):
            yield {name: value.item() if hasattr(value, "item") else value, **rest}


def _fixed(game: Game, before: Callable[[], Iterator[Array]]) -> Array:
    """The best fixed point of the first part; of its average row, where that is long or the search does not end."""
    leader, total, count = Leader(game), 0.0, 0
    first: list[Array] = []
    for rows in before():
        total, count = total + leader.moments(rows).sum(axis=0), count + len(rows)
        if count * rows.shape[1] <= LARGE:
            first.append(rows)
    if sum(map(len, first)) == count:
        try:
            return best_fixed(game.costs(np.vstack(first)), game.domain, gap=1e-3).x
        except GapNotReached:
            pass
    return leader.best(np.asarray(total) / count)
