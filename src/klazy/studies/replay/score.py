"""The heart of a replay: everyone is tuned on the rows before a split, and scored on the rows after it."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from klazy.base.checks import Array, refusal
from klazy.families import Family, LogWealth
from klazy.game.run import run
from klazy.hindsight.offline import find_best
from klazy.learners import KLazyGD
from klazy.sets import CappedSimplex, Simplex
from klazy.studies.replay.contenders import (
    Given,
    guard,
    list_contenders,
    measure_learners,
    waits_for_a_season,
)
from klazy.studies.replay.setup import Setup
from klazy.studies.replay.source import Source
from klazy.studies.tuning import Candidate, Contender, Score, Tuned, score, tune
from klazy.theory.diagnosis import diagnose

TUNED = 100_000  # rounds at most, the last of the first part
PIECE = 500_000  # numbers of which the optimum is searched at once
PLANES = 2500  # the same by cutting planes, which take longer
STRETCHES = 20  # of the second part, whose differences make the interval
KEPT = 200_000  # numbers of a contender's points that are kept, or
SHOWN = 1000  # rounds of them, whichever is more
DIAGNOSED = 50_000  # rounds of the second part in which it is seen how often the projection binds
BASELINE = "baseline"
Progress = Callable[[float], object]
Read = Callable[[int, int], Array]


class Best(NamedTuple):
    """The optimum in hindsight: what the best sequence found pays, and what none can pay less than.

    Parameters
    ----------
    hitting : float
        What the rounds charge it.
    switching : float
        What moving charges it.
    lower_bound : float
        No sequence pays less.
    pieces : int
        Of many rows it is found piece by piece; each is certified, and so is their sum.

    Examples
    --------
    >>> Best(hitting=10.0, switching=2.0, lower_bound=11.9, pieces=1).cost
    12.0
    """

    hitting: float
    switching: float
    lower_bound: float
    pieces: int

    @property
    def cost(self) -> float:
        """What the best sequence found pays: hitting + switching."""
        return self.hitting + self.switching


def count_first(source: Source, train: float) -> int:
    """The number of rows in the first part."""
    first = 0
    if 0.0 < train < 1.0:
        first = round(train * source.T)
    if first < STRETCHES or source.T - first < STRETCHES:
        wanted = f"a share with {STRETCHES} rows on both sides"
        found = f"{train} of {source.T} rows"
        raise refusal("replay", wanted, "train", found, "choose another, or give more rows")
    return first


def score_split(
    source: Source, setup: Setup, first: int, last: int, baseline: Read | None, tell: Progress
) -> list[Score]:
    """Tune everyone on the rows before ``first``, and score it on those up to ``last``, on which it goes on."""
    rows = source.read(max(0, first - TUNED), first)
    seconds = read_tuned_times(source, first)
    contenders = list_contenders(setup, rows, lambda: source.read_pieces(0, first), source.T, seconds)
    tuned: list[Tuned] = []
    measure = partial(measure_learners, setup=setup, rows=rows)
    for done, contender in enumerate(contenders, start=1):
        best = tune(contender, rows, setup.charge, measure)
        if not waits_for_a_season(best.best.player):
            tuned.append(best)
        tell(0.5 * done / len(contenders))
    if setup.guards is not None:
        for each in tuned:
            each.best.player = guard(each.best.player, setup)
    if baseline is not None:
        given = Contender(BASELINE, BASELINE, partial(Given, baseline, first, source.T), {})
        tuned.append(Tuned(given, Candidate(given.make(), {}), 1, []))
    rounds = last - first
    edges = np.linspace(0, rounds, STRETCHES + 1).astype(int).tolist()
    every = choose_every(rounds, source.dim)
    pieces = source.read_pieces(first, last)
    return score(tuned, pieces, edges, setup.charge, every, lambda share: tell(0.5 + 0.5 * share))


def read_tuned_times(source: Source, first: int) -> Array | None:
    """Read the times of the rows that tune, in seconds; None if they are no dates."""
    if source.times is None or not source.has_dates:
        return None
    return source.times[max(0, first - TUNED) : first]


def choose_every(rounds: int, dim: int) -> int:
    """One in so many points is kept of a second part of this length."""
    return -(-rounds // max(SHOWN, KEPT // dim))


def find_optimum(source: Source, setup: Setup, first: int, last: int) -> Best | None:
    """The optimum of these rows, piece by piece where they are many; None for movements and drifts for which it is not known.

    A piece begins wherever it likes, so that no sequence pays less than the sum of the pieces' bounds. What is found is joined,
    and pays for the moves from piece to piece. Where rows carry points away, what is found pays for that too; the bound then
    knows of it where a move costs the same for all shares, and elsewhere is what the decisions alone must cost.
    """
    drifts = type(setup.family).drift is not Family.drift
    if setup.movement.grouped is None or (drifts and not isinstance(setup.family, LogWealth)):
        return None
    size = PIECE if setup.family.has_prox else PLANES
    length = max(1, size // source.dim)
    hitting = 0.0
    switching = 0.0
    bound = 0.0
    count = 0
    before = None
    for at in range(first, last, length):
        rows = source.read(at, min(at + length, last))
        found = find_best(setup.costs(rows), setup.domain, setup.movement, gap=1e-3)
        hit, paid = setup.charge(rows, np.vstack((found.u, found.u[-1:])))
        hitting += float(hit.sum())
        switching += float(paid.sum())
        bound += found.lower_bound
        if before is not None:
            switching += float(setup.movement.weight * setup.movement.distance(found.u[0] - before))
        before = found.u[-1]
        count += 1
    return Best(hitting, switching, bound, count)


def measure_binding(scores: list[Score], setup: Setup, rows: Array) -> float:
    """The share of these rounds in which the projection of k-lazyGD, as it was tuned, has something to do.

    On a simplex what all coordinates have in common is taken out of the gradients: to project that away changes nothing.
    """
    (learner,) = (each.player.learner for each in scores if each.name == "k-lazyGD")
    assert isinstance(learner, KLazyGD)
    trace = run(learner, setup.costs(rows), movement=setup.movement)
    g = setup.family.gradient(rows, trace.x)
    if isinstance(setup.domain, Simplex | CappedSimplex):
        g = g - g.mean(axis=1, keepdims=True)
    points = np.vstack((trace.x, trace.state.x))
    return float(diagnose(learner, points, g).binds.mean())


def measure_repeats(rows: Array) -> float:
    """How much a row is like the one before it: the correlation of what differs from the column's mean."""
    gaps = rows - rows.mean(axis=0)
    size = float((gaps**2).sum())
    if size == 0.0:
        return 0.0
    return float((gaps[1:] * gaps[:-1]).sum()) / size
