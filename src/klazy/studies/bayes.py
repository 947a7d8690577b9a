r"""The limit: the best play for someone who knows how games are drawn, next to learners that do not.

In the box games of i.i.d., random walk and AR(1) each coordinate has a normal mean, seen through normal noise, and moving costs
:math:`\lambda` times the distance in that coordinate. So the past matters only through the forecast m of the coming row, a
Kalman filter's. Costs are linear, so it pays to be at one of the ends, -1 or 1. With :math:`C_t(m, x)` the least expected cost
of the rounds from t on that begin at x, half of what the end 1 costs more than the end -1 is

.. math:: G_t(m) = m + E\bigl[\min(\max(G_{t+1}(m'), -\lambda), \lambda)\bigr], \qquad G_{T+1} = 0,

because nobody stays where that costs over :math:`\lambda` more than to go. Go to -1 when it is above :math:`\lambda`, to 1 when
it is below :math:`-\lambda`. On average over games nobody pays less; in a single game luck decides.
"""

from typing import NamedTuple

import numpy as np

from klazy.base.checks import Array
from klazy.base.parallel import map_unordered
from klazy.studies.arena.play import GameTask, Progress, find_cache, play_game
from klazy.studies.arena.suite import Entry, Game, draw_memory, list_games, open_stream
from klazy.studies.arena.table import Arena
from klazy.studies.contenders import ARENA, Contender, list_contenders

FAMILIES = ("i.i.d.", "random walk", "AR(1)")
KNOWS_GAMES = "told how games are drawn"
# Forecasts at which costs are computed, as far as these standard deviations, and values of the next one for each.
POINTS = 1001
REACH = 6.0
NODES = 9


class Signal(NamedTuple):
    """A coordinate's rows: noise around a mean that keeps a share of itself and adds a step; three standard deviations."""

    first: float
    keep: float
    step: float
    noise: float


class Filter(NamedTuple):
    """A Kalman filter: how much of a round's error each forecast takes in, and the standard deviation of that error."""

    gains: Array
    errors: Array
    farthest: float


def find_signal(entry: Entry) -> Signal:
    """Return how the rows of a game are drawn, as suite.py says."""
    if entry.family == "i.i.d.":
        return Signal(first=0.1, keep=1.0, step=0.0, noise=1.0)
    if entry.family == "random walk":
        return Signal(first=0.05, keep=1.0, step=0.05, noise=0.5)
    keep = 1.0 - 1.0 / draw_memory(open_stream(entry.family, entry.place, entry.seed or 0))
    step = float(np.sqrt(1.0 - keep**2))
    return Signal(first=step, keep=keep, step=step, noise=0.5)


def make_filter(signal: Signal, T: int) -> Filter:
    """Compute the filter of all rounds, and the largest standard deviation of a mean."""
    gains = np.empty(T)
    errors = np.empty(T)
    unknown = signal.first**2
    variance = farthest = signal.first**2
    for t in range(T):
        total = unknown + signal.noise**2
        gains[t] = unknown / total
        errors[t] = np.sqrt(total)
        unknown = signal.keep**2 * unknown * (1.0 - gains[t]) + signal.step**2
        variance = signal.keep**2 * variance + signal.step**2
        farthest = max(farthest, variance)
    return Filter(gains, errors, float(np.sqrt(farthest)))


def plan_switches(signal: Signal, T: int, price: float, nodes: int = NODES) -> Array:
    """Compute from which forecast on it pays to move, in every round, by dynamic programming.

    Parameters
    ----------
    signal : Signal
        How rows are drawn.
    T : int
        The number of rounds.
    price : float
        What moving costs, for each unit of distance.
    nodes : int, optional
        How many values an expectation is over. Default: 9.

    Returns
    -------
    array
        The forecasts above which to go to -1, and below whose negative to go to 1.

    Examples
    --------
    >>> still = Signal(first=1.0, keep=1.0, step=0.0, noise=1.0)
    >>> plan_switches(still, T=3, price=0.6).round(2).tolist()
    [0.36, 0.33, 0.6]
    """
    known = make_filter(signal, T)
    values, shares = np.polynomial.hermite_e.hermegauss(nodes)
    shares = shares / shares.sum()
    # From twice the price on it pays to go in any case.
    far = min(REACH * known.farthest, 2.0 * price)
    means = np.linspace(-far, far, POINTS)
    after = np.zeros(POINTS)
    bounds = np.empty(T)
    for t in reversed(range(T)):
        surprise = signal.keep * known.gains[t] * known.errors[t] * values
        following = np.interp(signal.keep * means[:, None] + surprise, means, after)
        more = means + following @ shares
        bounds[t] = np.interp(price, more, means, right=np.inf)
        after = more.clip(-price, price)
    return bounds


def play_bayes(game: Game, largest: float) -> Array:
    """Return the points that are best on average over such games."""
    signal = find_signal(game.entry)
    rows = game.costs.arrays()[0]
    T, d = rows.shape
    known = make_filter(signal, T)
    bounds = plan_switches(signal, T, float(game.movement.weight))
    points = np.empty((T, d))
    x = game.domain.start
    mean = np.zeros(d)
    for t in range(T):
        x = np.where(mean > bounds[t], -1.0, np.where(mean < -bounds[t], 1.0, x))
        points[t] = x
        mean = signal.keep * (mean + known.gains[t] * (rows[t] - mean))
    return points


def measure_limit(
    seeds: tuple[int, ...] = (0, 2), *, jobs: int | None = None, progress: Progress | None = None
) -> Arena:
    """Play the box games of the arena for which the limit is known, by all contenders and by Bayes' rule.

    Parameters
    ----------
    seeds : tuple of int, optional
        Each stands for itself and the next one. Default: 0 and 2.
    jobs : int, optional
        How many processes play. Default: as many as there are cores.
    progress : callable, optional
        Called with the number of games done and of all games.

    Returns
    -------
    Arena
        The costs of all contenders, Bayes last.
    """
    drawn = [entry for seed in seeds for entry in list_games(seed)]
    entries = [entry for entry in drawn if entry.family in FAMILIES and entry.place == "box"]
    bayes = Contender("Bayes", KNOWS_GAMES, play_bayes, is_learner=False)
    contenders = [*list_contenders(ARENA), bayes]
    tasks = [GameTask(entry, contenders, find_cache()) for entry in entries]
    played = {}
    for done, game in enumerate(map_unordered(play_game, tasks, jobs), start=1):
        played[game.entry] = game
        if progress is not None:
            progress(done, len(tasks))
    return Arena([played[entry] for entry in entries], contenders, seeds[0])
