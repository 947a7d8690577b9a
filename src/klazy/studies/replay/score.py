"""Replaying a trace: everyone is tuned on the first part and scored on the second, beside the optimum in hindsight."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np

from klazy.base.checks import Array, refusal
from klazy.game.run import run
from klazy.hindsight import GapNotReached, Optimum, offline_optimum
from klazy.learners import KLazyGD
from klazy.sets import CappedSimplex, Simplex
from klazy.studies.replay.contenders import list_contenders, measure_learners
from klazy.studies.replay.setup import Setup
from klazy.studies.replay.source import Source
from klazy.studies.tuning import Score, Tuned, score, tune
from klazy.theory.diagnosis import diagnose

TUNED = 100_000  # rounds at most, the last of the first part
OPTIMUM = 5_000_000  # numbers at most, beyond which there is no search for the optimum
STRETCHES = 20  # of the second part, whose differences make the interval
SHOWN = 1000  # rounds of a contender's points that are kept
DIAGNOSED = 50_000  # rounds of the second part in which it is seen how often the projection binds
Progress = Callable[[float], object]


@dataclass(eq=False)
class Replay:
    """A trace replayed: ``scores`` in the order of their cost; ``rounds`` are those of the first and of the second part.

    ``optimum`` is that in hindsight of the second part, with its lower bound; None where there was no search. ``binds`` is the
    share of rounds in which k-lazyGD's projection binds, ``repeats`` the correlation of a row with the next.
    """

    source: Source
    setup: Setup
    rounds: tuple[int, int]
    tuned: int
    scores: list[Score]
    optimum: Optimum | None
    binds: float
    repeats: float

    def best(self, *kinds: str) -> Score:
        """The best of these kinds."""
        return next(score for score in self.scores if score.kind in kinds)


def replay(source: Source, setup: Setup, train: float = 0.5, progress: Progress | None = None) -> Replay:
    """Tune every contender on the first ``train`` of the rows, and score it on the others, on which it goes on."""
    first = _split(source, train)
    tell = progress or (lambda share: None)
    begin = max(0, first - TUNED)
    rows = source.read(begin, first)
    contenders = list_contenders(setup, rows, lambda: source.read_pieces(0, first), source.T)
    tuned: list[Tuned] = []
    measure = partial(measure_learners, setup=setup, rows=rows)
    for contender in contenders:
        tuned.append(tune(contender, rows, setup.charge, measure))
        tell(0.5 * len(tuned) / len(contenders))
    second = source.T - first
    edges = np.linspace(first, source.T, STRETCHES + 1).astype(int).tolist()
    stretches = [source.read_pieces(start, stop) for start, stop in pairwise(edges)]
    every = -(-second // SHOWN)
    scores = score(tuned, stretches, setup.charge, every, lambda share: tell(0.5 + 0.5 * share))
    optimum = None
    if second * source.dim <= OPTIMUM:
        optimum = _find_optimum(setup, source.read(first, source.T))
    binds = _measure_binding(scores, setup, source.read(first, min(first + DIAGNOSED, source.T)))
    repeats = _measure_repeats(rows)
    return Replay(source, setup, (first, second), len(rows), scores, optimum, binds, repeats)


def _split(source: Source, train: float) -> int:
    """The number of rows in the first part."""
    first = 0
    if 0.0 < train < 1.0:
        first = round(train * source.T)
    if first < STRETCHES or source.T - first < STRETCHES:
        wanted = f"a share with {STRETCHES} rows on both sides"
        raise refusal(
            "replay", wanted, "train", f"{train} of {source.T} rows", "choose another, or give more rows"
        )
    return first


def _find_optimum(setup: Setup, rows: Array) -> Optimum:
    try:
        return offline_optimum(setup.costs(rows), setup.domain, setup.movement, gap=1e-3, iterations=5000)
    except GapNotReached as short:
        return short.best


def _measure_binding(scores: list[Score], setup: Setup, rows: Array) -> float:
    """The share of these rounds in which the projection of k-lazyGD, as it was tuned, has something to do.

    On a simplex what all coordinates have in common is taken out of the gradients: to project that away changes nothing.
    """
    learner = next(each.player.learner for each in scores if isinstance(each.player.learner, KLazyGD))
    costs = setup.costs(rows)
    trace = run(learner, costs, movement=setup.movement)
    g = rows
    if setup.family != "linear":
        g = np.array([costs.subgradient(t, x) for t, x in enumerate(trace.x, 1)])
    if isinstance(setup.domain, Simplex | CappedSimplex):
        g = g - g.mean(axis=1, keepdims=True)
    points = np.vstack((trace.x, trace.state.x))
    return float(diagnose(learner, points, g).binds.mean())


def _measure_repeats(rows: Array) -> float:
    """How much a row is like the one before it: the correlation of what differs from the column's mean."""
    gaps = rows - rows.mean(axis=0)
    size = float((gaps**2).sum())
    if size == 0.0:
        return 0.0
    return float((gaps[1:] * gaps[:-1]).sum()) / size
