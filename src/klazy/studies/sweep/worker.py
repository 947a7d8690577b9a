"""What a worker does: make the sequence of a task from its seed, play the runs, give back their sums."""

import json
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from klazy.base.checks import Array
from klazy.costs import Costs
from klazy.game.batch import make_marks, run_batch
from klazy.hindsight import best_fixed, offline_optimum
from klazy.learners import Learner
from klazy.movement import Movement
from klazy.studies.sweep import catalogue
from klazy.studies.sweep.catalogue import MOVEMENTS
from klazy.studies.sweep.runs import Plan, Task, plan_runs

SUMS = ("hitting", "switching", "dynamic_regret", "total_regret", "static_regret", "optimum_regret")


class TaskResult:
    """What the runs of task ``number`` came to, in their order.

    ``sums`` has a row per run and the columns of :data:`SUMS`, NaN where nothing is known; ``errors`` has what went wrong, by
    run. ``curves`` holds for each run what it had paid, hitting and switching, after so many ``rounds``, if that is asked for.
    ``learner_rounds`` are those that were played: of runs that differ in price alone, but once.
    """

    def __init__(self, task: Task, T: int = 0, dim: int = 0) -> None:
        self.number = task.number
        self.T = T
        self.dim = dim
        self.learner_rounds: int = 0
        self.sums: Array = np.full((len(task.players), len(SUMS)), np.nan)
        self.errors: dict[int, str] = {}
        self.rounds: np.ndarray = np.zeros(0, dtype=int)
        if task.checkpoints and T:
            self.rounds = make_marks(task.checkpoints, T)
        self.curves: Array = np.full((len(task.players), len(self.rounds), 2), np.nan)

    def record(self, plan: Plan, sums: Array, errors: dict[int, str]) -> None:
        """Put down what the learners of a plan paid, up to each mark; what moving cost at weight 1 is multiplied.

        ``errors`` says which of them went wrong.
        """
        self.learner_rounds += self.T * (len(plan.cells) - len(errors))
        paid = sums[plan.learners]
        paid[:, :, 1] *= plan.weights[:, None]
        self.sums[plan.runs, :2] = paid[:, -1]
        if len(self.rounds):
            self.curves[plan.runs] = paid
        if errors:
            for i, cell in zip(plan.runs.tolist(), plan.learners.tolist(), strict=True):
                if cell in errors:
                    self.errors[i] = errors[cell]


def play_task(task: Task) -> TaskResult:
    """Play a task on one thread: as many of them are played at once as there are cores. What fails is said in the outcome."""
    from threadpoolctl import threadpool_limits

    try:
        with threadpool_limits(1):
            return _play_runs(task, _make_place(json.dumps(task.sequence)))
    except (Exception, SystemExit) as failed:  # whatever somebody else's recipe does, the other tasks go on
        return fail_task(task, failed)


def _play_runs(task: Task, place: "Place") -> TaskResult:
    outcome = TaskResult(task, place.costs.T, place.costs.dim)
    for plan in plan_runs(task.movement, task.players):
        outcome.record(plan, *_play_plan(plan, place, task.checkpoints))
    compare(outcome, task, place)
    return outcome


def fail_task(task: Task, why: BaseException) -> TaskResult:
    """All runs failed."""
    outcome = TaskResult(task)
    outcome.errors = dict.fromkeys(range(len(task.players)), describe_error(why))
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


def _play_plan(plan: Plan, place: Place, checkpoints: int) -> tuple[Array, dict[int, str]]:
    """What every learner of a plan had paid at each mark, and what went wrong, by learner."""
    marks = make_marks(checkpoints, place.costs.T)
    sums = np.full((len(plan.cells), len(marks), 2), np.nan)
    errors: dict[int, str] = {}
    ready: list[int] = []
    learners: list[Learner[Any]] = []
    for cell, (rule, point) in enumerate(plan.cells):
        try:
            learner = catalogue.make_learner(rule, point, place.domain, plan.movement, place.costs)
        except Exception as failed:
            errors[cell] = describe_error(failed)
            continue
        ready.append(cell)
        learners.append(learner)
    if ready:
        found, wrong = play_batch(learners, place.costs, plan.movement, checkpoints)
        sums[ready] = found
        for i, error in wrong.items():
            errors[ready[i]] = error
    return sums, errors


def play_batch(
    learners: list[Learner[Any]], costs: Costs, movement: Movement, checkpoints: int
) -> tuple[Array, dict[int, str]]:
    """All in one call; if that fails, each alone, so that only those fail which must."""
    try:
        batch = run_batch(learners, costs, movement=movement, checkpoints=checkpoints, jobs=1)
    except Exception as failed:
        if len(learners) == 1:
            marks = make_marks(checkpoints, costs.T)
            return np.full((1, len(marks), 2), np.nan), {0: describe_error(failed)}
        parts = []
        errors = {}
        for i, learner in enumerate(learners):
            sums, wrong = play_batch([learner], costs, movement, checkpoints)
            parts.append(sums)
            if wrong:
                errors[i] = wrong[0]
        return np.concatenate(parts), errors
    if checkpoints:
        return batch.curves, {}
    return np.stack((batch.hitting, batch.switching), axis=-1)[:, None, :], {}


def compare(outcome: TaskResult, task: Task, place: Place) -> None:
    """The regrets, against the scenario's comparator and what else was asked for."""
    hitting, switching, dynamic, total, static, excess = outcome.sums.T
    weights = np.array([player.weight for player in task.players])
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
            for i in np.flatnonzero(some).tolist():
                outcome.errors.setdefault(i, describe_error(failed))


def describe_error(failed: BaseException) -> str:
    return f"{type(failed).__name__}: {failed}"
