"""What a worker does: make the sequence of a task from its seed, play the runs, give back their sums."""

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from klazy.base.checks import Array
from klazy.costs import Costs
from klazy.game.batch import Batch, run_batch
from klazy.hindsight import best_fixed, offline_optimum
from klazy.learners import Learner
from klazy.movement import Movement
from klazy.studies.sweep import catalogue
from klazy.studies.sweep.catalogue import MOVEMENTS
from klazy.studies.sweep.runs import Run, Task

SUMS = ("hitting", "switching", "dynamic_regret", "total_regret", "static_regret", "optimum_regret")


class TaskResult:
    """What the runs of task ``number`` came to, in their order.

    ``sums`` has a row per run and the columns of :data:`SUMS`, NaN where nothing is known; ``errors`` are empty where there is
    none. ``curves`` holds what a run had paid, hitting and switching, after so many ``rounds``, by run. ``learner_rounds`` are
    those that were played: of runs that differ in price alone, but once.
    """

    def __init__(self, task: Task) -> None:
        self.number = task.number
        self.T: int = 0
        self.dim: int = 0
        self.learner_rounds: int = 0
        self.sums: Array = np.full((len(task.runs), len(SUMS)), np.nan)
        self.errors = ["" for _ in task.runs]
        self.rounds: list[int] = []
        self.curves: dict[int, Array] = {}


def play_task(task: Task) -> TaskResult:
    """Play a task on one thread: as many of them are played at once as there are cores. What fails is said in the outcome."""
    from threadpoolctl import threadpool_limits

    try:
        with threadpool_limits(1):
            return _play_runs(task, _make_place(json.dumps(task.sequence)))
    except (Exception, SystemExit) as failed:  # whatever somebody else's recipe does, the other tasks go on
        return fail_task(task, failed)


def _play_runs(task: Task, place: "Place") -> TaskResult:
    outcome = TaskResult(task)
    outcome.T = place.costs.T
    outcome.dim = place.costs.dim
    for price, cells in _group_runs(task.runs).items():
        heeded = price is not None
        movement = MOVEMENTS[task.movement]()
        if heeded:
            movement = MOVEMENTS[task.movement](price)
        for members, result in _play_cells(place, list(cells.values()), task, movement):
            if not isinstance(result, str):
                outcome.learner_rounds += outcome.T
            for i in members:
                weight = 1.0 if heeded else task.runs[i].weight
                _record(outcome, i, result, weight)
    compare(outcome, task, place)
    return outcome


def fail_task(task: Task, why: BaseException) -> TaskResult:
    """All runs failed."""
    outcome = TaskResult(task)
    outcome.errors = [describe_error(why) for _ in task.runs]
    return outcome


class Place:
    """A sequence on its set, and what others than learners pay there, found once."""

    def __init__(self, recipe: str, point: dict[str, Any], seed: list[int] | None) -> None:
        source = None if seed is None else np.random.SeedSequence(seed[0], spawn_key=(seed[1],))
        made = catalogue.make_scenario(recipe, point, source)
        self.domain = made.domain
        self.costs = made.costs
        self.u = np.asarray(made.comparator)
        self._moved: dict[str, float] = {}
        self._optima: dict[tuple[str, float], float] = {}

    @cached_property
    def hitting(self) -> float:
        """What the comparator's points cost."""
        return float(self.costs.values(self.u).sum())

    @cached_property
    def fixed(self) -> float:
        return best_fixed(self.costs, self.domain).cost

    def charge_movement(self, kind: str) -> float:
        """What the comparator pays for moving, at weight 1."""
        if kind not in self._moved:
            self._moved[kind] = float(MOVEMENTS[kind]().paid(self.u).sum())
        return self._moved[kind]

    def find_optimum(self, kind: str, weight: float) -> float:
        """What any sequence of points must pay, hitting and switching together."""
        if (kind, weight) not in self._optima:
            best = offline_optimum(self.costs, self.domain, MOVEMENTS[kind](weight))
            self._optima[kind, weight] = best.lower_bound
        return self._optima[kind, weight]


@lru_cache(maxsize=1)
def _make_place(sequence: str) -> Place:
    return Place(*json.loads(sequence))


def _group_runs(runs: Sequence[Run]) -> dict[float | None, dict[Any, list[int]]]:
    """The runs by the price their learner heeds, then by learner: one that heeds none is played once for all prices."""
    cells: dict[float | None, dict[Any, list[int]]] = {}
    for i, run in enumerate(runs):
        price = run.weight if catalogue.heeds_price(run.rule) else None
        cells.setdefault(price, {}).setdefault((run.rule, *run.point.items()), []).append(i)
    return cells


def _play_cells(
    place: Place, cells: list[list[int]], task: Task, movement: Movement
) -> Iterator[tuple[list[int], tuple[Batch, int] | str]]:
    """For every learner its runs, with its place in a batch, or with what went wrong."""
    ready: list[tuple[list[int], Learner[Any]]] = []
    for members in cells:
        _, rule, point, _ = task.runs[members[0]]
        try:
            ready.append((members, catalogue.make_learner(rule, point, place.domain, movement, place.costs)))
        except Exception as failed:
            yield members, describe_error(failed)
    results = _play_batch([learner for _, learner in ready], place.costs, movement, task.checkpoints)
    yield from zip((members for members, _ in ready), results, strict=True)


def _play_batch(
    learners: list[Learner[Any]], costs: Costs, movement: Movement, checkpoints: int
) -> Iterable[tuple[Batch, int] | str]:
    """All in one call; if that fails, each alone, so that only those fail which must."""
    if not learners:
        return []
    try:
        batch = run_batch(learners, costs, movement=movement, checkpoints=checkpoints, jobs=1)
    except Exception as failed:
        if len(learners) == 1:
            return [describe_error(failed)]
        results = []
        for learner in learners:
            results += _play_batch([learner], costs, movement, checkpoints)
        return results
    return [(batch, i) for i in range(len(learners))]


def _record(outcome: TaskResult, i: int, result: tuple[Batch, int] | str, weight: float) -> None:
    """Put down what a run paid; what its movement cost at weight 1 is multiplied."""
    if isinstance(result, str):
        outcome.errors[i] = result
        return
    batch, at = result
    outcome.sums[i, 0] = batch.hitting[at]
    outcome.sums[i, 1] = weight * batch.switching[at]
    if len(batch.rounds):
        outcome.rounds = batch.rounds.tolist()
        outcome.curves[i] = batch.curves[at] * (1.0, weight)


def compare(outcome: TaskResult, task: Task, place: Place) -> None:
    """The regrets, against the scenario's comparator and what else was asked for."""
    hitting, switching, dynamic, total, static, excess = outcome.sums.T
    weights = np.array([run.weight for run in task.runs])
    dynamic[:] = hitting - place.hitting
    total[:] = dynamic + switching - weights * place.charge_movement(task.movement)
    if not task.metrics:
        return
    for weight in np.unique(weights):
        some = weights == weight
        try:
            if "static_regret" in task.metrics:
                static[some] = hitting[some] + switching[some] - place.fixed
            if "optimum_regret" in task.metrics:
                excess[some] = (
                    hitting[some] + switching[some] - place.find_optimum(task.movement, float(weight))
                )
        except Exception as failed:
            for i in np.flatnonzero(some):
                outcome.errors[i] = outcome.errors[i] or describe_error(failed)


def describe_error(failed: BaseException) -> str:
    return f"{type(failed).__name__}: {failed}"
