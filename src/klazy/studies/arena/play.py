"""One game, played by everyone: parameters chosen on its first half, what is paid on the second."""

import json
from dataclasses import dataclass
from hashlib import sha256
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from klazy.base.checks import Array, Refused, refusal
from klazy.base.files import write_durably
from klazy.game.batch import run_batch
from klazy.game.run import run
from klazy.hindsight import best_fixed, offline_optimum
from klazy.hindsight.optimum import GapNotReached
from klazy.studies.arena.adapters import play_outside
from klazy.studies.arena.contenders import FIXED, OUTSIDE, Axes, Contender, Facts
from klazy.studies.arena.suite import Entry, Game
from klazy.studies.tuning import refine_values

GAP = 1e-4  # of the optimum
ITERATIONS = 60_000  # for it at most; what is reached then is kept with its gap
FIXED_GAP = 1e-3
Json = dict[str, Any]


@dataclass(frozen=True)
class Outcome:
    """What a contender paid on the second half, with the parameters that were best on the first.

    ``first`` is its cost there, ``hindsight`` the least cost on the second half of all ``candidates``.
    """

    first: float
    hitting: float
    switching: float
    hindsight: float
    candidates: int
    parameters: dict[str, float]

    @property
    def cost(self) -> float:
        return self.hitting + self.switching


@dataclass(frozen=True)
class Best:
    """The certified optimum of the second half, which begins where it likes: nobody pays less than ``lower_bound``."""

    hitting: float
    switching: float
    lower_bound: float
    gap: float

    @property
    def cost(self) -> float:
        return self.hitting + self.switching


class Task(NamedTuple):
    """A game and who is to play it."""

    entry: Entry
    contenders: list[Contender]
    cache: Path | None


class Played(NamedTuple):
    """What came of a task; ``scale`` is the spread of all costs that were scored."""

    entry: Entry
    scale: float
    best: Best
    outcomes: dict[str, Outcome]


def play_task(task: Task) -> Played:
    """Play a game; what goes wrong names the game and the contender."""
    game = task.entry.make()
    facts = Facts(game)
    outcomes = {}
    for contender in task.contenders:
        try:
            outcomes[contender.name] = play_contender(game, facts, contender)
        except Exception as failed:  # whatever somebody's own learner does
            why = str(failed) if isinstance(failed, Refused) else f"{type(failed).__name__}: {failed}"
            condition = "contenders that play every game"
            where = f"{contender.name} in {task.entry.name!r}"
            raise refusal("arena", condition, "failed", where, why.rstrip(".")) from failed
    return Played(task.entry, game.scale, find_optimum(game, task.cache), outcomes)


def play_contender(game: Game, facts: Facts, contender: Contender) -> Outcome:
    """Play all candidates through the whole game, those around the best of the first half too."""
    if contender.name == FIXED:
        return _hold_still(game)
    if contender.kind == OUTSIDE:
        return _judge_points(game, play_outside(contender.make, game, facts.largest))
    axes = contender.list_axes(facts)
    points = _list_points(axes)
    curves = _play_points(game, facts, contender, points)
    at = _find_best(curves)
    if axes:
        around = {name: refine_values(values, points[at][name]) for name, values in axes.items()}
        finer = _list_points(around)
        points += finer
        curves = np.concatenate((curves, _play_points(game, facts, contender, finer)))
        at = _find_best(curves)
    second = curves[:, 1] - curves[:, 0]
    hitting, switching = second[at].tolist()
    return Outcome(
        first=float(curves[at, 0].sum()),
        hitting=hitting,
        switching=switching,
        hindsight=float(second.sum(axis=1).min()),
        candidates=len(points),
        parameters=points[at],
    )


def _list_points(axes: Axes) -> list[dict[str, float]]:
    """Every combination of values."""
    return [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]


def _play_points(game: Game, facts: Facts, contender: Contender, points: list[dict[str, float]]) -> Array:
    """Hitting and switching after the first half and after all rounds, of shape (points, 2, 2)."""
    made = [contender.make_learner(game, facts, **point) for point in points]
    return run_batch(made, game.costs, movement=game.movement, checkpoints=2, jobs=1).curves


def _find_best(curves: Array) -> int:
    """Who paid least in the first half."""
    return int(curves[:, 0].sum(axis=1).argmin())


def _hold_still(game: Game) -> Outcome:
    """The point that is best for the first half, in all rounds."""
    try:
        x = best_fixed(game.first, game.domain, gap=FIXED_GAP).x
    except GapNotReached as short:
        x = short.best.x
    return _judge_points(game, np.broadcast_to(x, (game.costs.T, len(x))))


def _judge_points(game: Game, x: Array) -> Outcome:
    """What these points pay."""
    hitting = game.costs.values(x)
    switching = game.movement.paid(x)
    first = float((hitting + switching)[: game.half].sum())
    hit = float(hitting[game.half :].sum())
    moved = float(switching[game.half :].sum())
    return Outcome(first, hit, moved, hit + moved, 1, {})


def find_optimum(game: Game, cache: Path | None) -> Best:
    """The optimum of the second half, from the cache if it was found before: its key is all that it depends on."""
    if cache is None:
        return _compute_optimum(game)
    file = cache / f"{_hash_game(game)}.json"
    try:
        return Best(**json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):  # missing, or not what is written here: found anew
        found = _compute_optimum(game)
    cache.mkdir(parents=True, exist_ok=True)
    write_durably(file, json.dumps(vars(found)).encode())
    return found


def _compute_optimum(game: Game) -> Best:
    try:
        found = offline_optimum(game.second, game.domain, game.movement, gap=GAP, iterations=ITERATIONS)
    except GapNotReached as short:
        found = short.best
    return Best(found.hitting, found.switching, found.lower_bound, found.gap)


def _hash_game(game: Game) -> str:
    second = game.second
    digest = sha256(repr((game.domain, game.movement, type(second).__name__, GAP, ITERATIONS)).encode())
    for array in second.arrays():
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:32]


def time_contender(game: Game, contender: Contender, parameters: dict[str, float], repeats: int = 3) -> float:
    """Microseconds of a round, the least of some runs; NaN for those who are not learners."""
    if contender.name == FIXED or contender.kind == OUTSIDE:
        return float("nan")
    learner = contender.make_learner(game, Facts(game), **parameters)
    taken = []
    for _ in range(repeats):
        began = perf_counter()
        run(learner, game.costs, movement=game.movement, record="totals")
        taken.append(perf_counter() - began)
    return 1e6 * min(taken) / game.costs.T
