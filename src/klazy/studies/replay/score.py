"""Replaying a trace: everyone is tuned on the first part and scored on the second, beside the optimum in hindsight."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from klazy.base.checks import Array, refusal
from klazy.game.run import run
from klazy.hindsight import GapNotReached, Optimum, offline_optimum
from klazy.learners import KLazyGD
from klazy.sets import CappedSimplex, Simplex
from klazy.studies.replay.contenders import Candidate, Contender, Learning, list_contenders
from klazy.studies.replay.setup import Setup
from klazy.studies.replay.source import Source
from klazy.theory.diagnosis import diagnose

TUNED = 100_000  # rounds at most, the last of the first part
OPTIMUM = 5_000_000  # numbers at most, beyond which there is no search for the optimum
TIE = 1e-10  # of what was paid, below which a difference is rounding
THREADS = 8
STRETCHES = 20  # of the second part, whose differences make the interval
SHOWN = 1000  # rounds of a contender's points that are kept
DIAGNOSED = 50_000  # rounds of the second part in which it is seen how often the projection binds
Progress = Callable[[float], object]
Chosen = tuple[
    Contender, Candidate, list[str], int
]  # with the parameters at an edge, and the number of candidates


@dataclass(eq=False)
class Score:
    """What a contender paid on the second part, with the parameters chosen on the first; ``stretches`` are parts of the cost.

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

    def is_tied(self, score: Score, other: Score) -> bool:
        """Whether two paid the same but for rounding."""
        return abs(score.cost - other.cost) <= TIE * max(
            float(np.abs(each.stretches).sum()) for each in (score, other)
        )

    def compare(self, score: Score, than: Score) -> tuple[float, float]:
        """How much less one paid than the other, and half the width of its 95 % interval, from the differences by stretch."""
        from scipy.special import stdtrit

        gaps = than.stretches - score.stretches
        return float(gaps.sum()), float(stdtrit(len(gaps) - 1, 0.975) * gaps.std(ddof=1) * np.sqrt(len(gaps)))


def replay(source: Source, setup: Setup, train: float = 0.5, progress: Progress | None = None) -> Replay:
    """Tune every contender on the first ``train`` of the rows, and score it on the others, on which it goes on."""
    first = round(train * source.T) if 0.0 < train < 1.0 else 0
    if first < STRETCHES or source.T - first < STRETCHES:
        wanted = f"a share with {STRETCHES} rows on both sides"
        raise refusal(
            "replay", wanted, "train", f"{train} of {source.T} rows", "choose another, or give more rows"
        )
    begin = max(0, first - TUNED)
    tuned = source.read(begin, first)
    tell = progress or (lambda share: None)
    field = list_contenders(setup, tuned, lambda: source.read_pieces(0, first), source.T)
    chosen: list[Chosen] = []
    for i, contender in enumerate(field):
        chosen.append((contender, *_tune(contender, setup, tuned)))
        tell(0.5 * (i + 1) / len(field))
    scores = _score(chosen, source, setup, first, tell)
    test = source.read(first, source.T) if (source.T - first) * source.dim <= OPTIMUM else None
    optimum = _find_optimum(setup, test)
    binds = _measure_binding(scores, setup, source.read(first, min(first + DIAGNOSED, source.T)))
    rounds = (first, source.T - first)
    return Replay(source, setup, rounds, len(tuned), scores, optimum, binds, _measure_repeats(tuned))


def _tune(contender: Contender, setup: Setup, rows: Array) -> tuple[Candidate, list[str], int]:
    """The candidate that paid least on these rows, after a second look round the best of the first; each is left where they
    leave it. The parameters of it that are the least or the largest tried, and how many candidates there were."""
    tried = _play_all(contender.make_candidates(), setup, rows)
    tried += _play_all(contender.refine(_find_best(tried)), setup, rows)
    best = _find_best(tried)
    values = {name: [other.parameters[name] for other in tried] for name in best.parameters}
    edges = [name for name, some in values.items() if best.parameters[name] in (min(some), max(some))]
    return best, edges, len(tried)


def _find_best(candidates: list[Candidate]) -> Candidate:
    return min(candidates, key=lambda candidate: candidate.cost)


def _play_all(candidates: list[Candidate], setup: Setup, rows: Array) -> list[Candidate]:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(min(os.cpu_count() or 1, THREADS)) as pool:
        list(pool.map(lambda candidate: candidate.play(setup, rows), candidates))
    return candidates


def _score(chosen: list[Chosen], source: Source, setup: Setup, first: int, tell: Progress) -> list[Score]:
    """What each pays on the second part, in stretches; some of its points are kept."""
    edges = np.linspace(first, source.T, STRETCHES + 1).astype(int)
    every = -(-(source.T - first) // SHOWN)
    paid = np.zeros((len(chosen), STRETCHES, 2))
    points = [[] for _ in chosen]
    for stretch, (start, stop) in enumerate(pairwise(edges.tolist())):
        at = start
        for rows in source.read_pieces(start, stop):
            for i, (_, candidate, *_) in enumerate(chosen):
                hitting, switching, played = candidate.play(setup, rows)
                paid[i, stretch] += hitting, switching
                points[i].append(played[(first - at) % every :: every].copy())
            at += len(rows)
        tell(0.5 + 0.5 * (stretch + 1) / STRETCHES)
    scores = []
    for (contender, candidate, edges, tried), spent, shown in zip(chosen, paid, points, strict=True):
        hitting, switching = spent.sum(axis=0).tolist()
        about = contender.name, contender.kind, candidate.parameters, edges, tried
        scores.append(
            Score(*about, hitting, switching, spent.sum(axis=1), np.vstack(shown), candidate.player)
        )
    noise = TIE * max(float(np.abs(score.stretches).sum()) for score in scores)
    return sorted(
        scores, key=lambda score: round(score.cost / noise) if noise else 0.0
    )  # a tie goes to the simpler one


def _find_optimum(setup: Setup, rows: Array | None) -> Optimum | None:
    if rows is None:
        return None
    try:
        return offline_optimum(setup.costs(rows), setup.domain, setup.movement, gap=1e-3, iterations=5000)
    except GapNotReached as short:
        return short.best


def _measure_binding(scores: list[Score], setup: Setup, rows: Array) -> float:
    """The share of these rounds in which the projection of k-lazyGD, as it was tuned, has something to do.

    On a simplex what all coordinates have in common is taken out of the gradients: to project that away changes nothing.
    """
    (score,) = (
        score
        for score in scores
        if isinstance(score.player, Learning) and isinstance(score.player.learner, KLazyGD)
    )
    costs = setup.costs(rows)
    trace = run(score.player.learner, costs, movement=setup.movement)
    g = (
        rows
        if setup.family == "linear"
        else np.array([costs.subgradient(t, x) for t, x in enumerate(trace.x, 1)])
    )
    if isinstance(setup.domain, Simplex | CappedSimplex):
        g = g - g.mean(axis=1, keepdims=True)
    return float(diagnose(score.player.learner, np.vstack((trace.x, trace.state.x)), g).binds.mean())


def _measure_repeats(rows: Array) -> float:
    """How much a row is like the one before it: the correlation of what differs from the column's mean."""
    gaps = rows - rows.mean(axis=0)
    size = float((gaps**2).sum())
    return float((gaps[1:] * gaps[:-1]).sum()) / size if size > 0.0 else 0.0
