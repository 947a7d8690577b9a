"""How the runs of tasks are played: on the CPU of a worker, or many tasks together on a GPU.

A task becomes the costs of its sequence and, by the plans of its team, learners. A GPU plays those it can, the CPU the rest.
"""

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from klazy.base.checks import Array, InvalidInput
from klazy.base.options import write_option
from klazy.costs import Costs
from klazy.game.batch import run_batch
from klazy.game.device import find_gpu_obstacle, play_learners
from klazy.game.plan import make_marks
from klazy.hindsight import best_fixed, offline_optimum
from klazy.learners import Learner
from klazy.movement import Movement
from klazy.studies.sweep import catalogue
from klazy.studies.sweep.catalogue import MOVEMENT_KINDS
from klazy.studies.sweep.tasks import Plan, Task

RUN_SUMS = ("hitting", "switching", "dynamic_regret", "total_regret", "static_regret", "optimum_regret")
# Runs that a GPU plays together, after which rows can be written.
TOGETHER = 1 << 18
Maybe = Learner[Any] | str  # a learner, or why it cannot be made


class TaskResult:
    """The results of the runs of task ``number``, in their order.

    ``sums`` has a row per run and the columns of :data:`SUMS`, NaN where nothing is known; ``errors`` has errors by run.
    ``curves`` holds the hitting and switching cost of each run after each of ``rounds``, if the task wants them.
    ``learner_rounds`` counts the rounds that were played: of runs that differ in price alone, only once.
    """

    def __init__(self, task: Task, T: int = 0, dim: int = 0) -> None:
        self.number = task.number
        self.T = T
        self.dim = dim
        self.learner_rounds: int = 0
        self.sums: Array = np.full((len(task.team), len(RUN_SUMS)), np.nan)
        self.errors: dict[int, str] = {}
        self.rounds: np.ndarray = np.zeros(0, dtype=int)
        if task.checkpoints and T:
            self.rounds = make_marks(task.checkpoints, T)
        self.curves: Array = np.full((len(task.team), len(self.rounds), 2), np.nan)

    def record(self, plan: Plan, sums: Array, errors: dict[int, str]) -> None:
        """Record the costs of a plan's learners at each mark, at the price of each run, and the errors by learner."""
        self.learner_rounds += self.T * (len(plan.cells) - len(errors))
        paid = sums[plan.learners]
        paid[:, :, 1] *= plan.weights[:, None]
        self.sums[plan.runs, :2] = paid[:, -1]
        if len(self.rounds):
            self.curves[plan.runs] = paid
        if errors:
            for i, learner in zip(plan.runs.tolist(), plan.learners.tolist(), strict=True):
                if learner in errors:
                    self.errors[i] = errors[learner]


class Place:
    """A sequence on its set, with the costs of its comparators, each computed once."""

    def __init__(self, recipe: str, point: dict[str, Any], seed: list[int] | None) -> None:
        source = None if seed is None else np.random.SeedSequence(seed[0], spawn_key=(seed[1],))
        made = catalogue.make_scenario(recipe, point, source)
        self.domain = made.domain
        self.costs = made.costs
        self.u = np.asarray(made.comparator)
        self._optima: dict[tuple[str, float], float] = {}

    @cached_property
    def hitting(self) -> float:
        """The operating cost of the comparator."""
        return float(self.costs.values(self.u).sum())

    @cached_property
    def fixed(self) -> float:
        """The cost of the best fixed point."""
        return best_fixed(self.costs, self.domain).cost

    def find_optimum(self, kind: str, weight: float) -> float:
        """Return a lower bound on the total cost of any sequence of points."""
        if (kind, weight) not in self._optima:
            best = offline_optimum(self.costs, self.domain, MOVEMENT_KINDS[kind](weight))
            self._optima[kind, weight] = best.lower_bound
        return self._optima[kind, weight]


# Pieces of one task follow each other, and share their sequence.
@lru_cache(maxsize=1)
def _make_place(sequence: str) -> Place:
    return Place(*json.loads(sequence))


def play_task(task: Task) -> TaskResult:
    """Play a task on one thread, because other workers play others; an error of its recipe is that of all runs."""
    from threadpoolctl import threadpool_limits

    try:
        with threadpool_limits(1):
            (result,) = TaskPlayer().play([task], [_make_place(json.dumps(task.sequence))])
            return result
    except (Exception, SystemExit) as failed:
        return fail_task(task, failed)


def fail_task(task: Task, why: BaseException) -> TaskResult:
    """Return the result of a task all runs of which failed."""
    result = TaskResult(task)
    result.errors = dict.fromkeys(range(len(task.team)), _describe_error(why))
    return result


def play_on_gpu(player: "TaskPlayer", tasks: Sequence[Task]) -> Iterator[tuple[Task, TaskResult]]:
    """Play tasks group by group, in their order; while one group is played, threads make the sequences of the next."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1), ThreadPoolExecutor() as pool:
        ready: list[Task] = []
        making: list[Any] = []
        for group in [*_group_tasks(tasks), []]:
            ahead = [pool.submit(_try_place, task) for task in group]
            places = [future.result() for future in making]
            yield from zip(ready, player.play(ready, places), strict=True)
            ready = group
            making = ahead


def _group_tasks(tasks: Sequence[Task]) -> list[list[Task]]:
    """Group tasks so that each group has about :data:`TOGETHER` runs."""
    groups: list[list[Task]] = []
    room = 0
    for task in tasks:
        room -= len(task.team)
        if room < 0:
            groups.append([])
            room = TOGETHER - len(task.team)
        groups[-1].append(task)
    return groups


def _try_place(task: Task) -> Place | TaskResult:
    """Return the sequence of a task, or the failure of all its runs."""
    try:
        return Place(*json.loads(json.dumps(task.sequence)))
    except (Exception, SystemExit) as failed:
        return fail_task(task, failed)


class TaskPlayer:
    """Plays tasks in this process, on its CPU or a GPU.

    With ``strict``, runs that a GPU cannot play are rejected; else the CPU plays them.
    """

    def __init__(self, device: str = "cpu", *, strict: bool = False) -> None:
        self.device = device
        self.strict = strict
        self.used_gpu = False
        self.used_cpu = False
        self._learners: dict[Any, list[Maybe]] = {}

    def play(self, tasks: Sequence[Task], places: Sequence[Place | TaskResult]) -> list[TaskResult]:
        """Play tasks together where they have the same plan, set and length."""
        results: list[TaskResult] = []
        alike: dict[Any, list[tuple[Place, TaskResult, Task]]] = {}
        plans: dict[Any, Plan] = {}
        for task, place in zip(tasks, places, strict=True):
            if isinstance(place, TaskResult):
                results.append(place)
                continue
            result = TaskResult(task, place.costs.T, place.costs.dim)
            results.append(result)
            for number, plan in enumerate(task.team.plans):
                kind = (task.team, number, place.domain, place.costs.T, place.costs.family, task.checkpoints)
                plans[kind] = plan
                alike.setdefault(kind, []).append((place, result, task))
        for kind, parts in alike.items():
            self._play_plan(kind, plans[kind], parts)
        for task, result, place in zip(tasks, results, places, strict=True):
            if isinstance(place, Place):
                _compare(result, task, place)
        return results

    def _play_plan(self, kind: Any, plan: Plan, parts: list[tuple[Place, TaskResult, Task]]) -> None:
        """Play one plan on several sequences of the same set and length."""
        count = len(plan.cells)
        who = np.tile(np.arange(count), (len(parts), 1))
        if plan.is_shared:
            if kind not in self._learners:
                self._learners[kind] = _make_learners(plan, parts[0][0])
            learners = self._learners[kind]
        else:
            learners = [each for place, _, _ in parts for each in _make_learners(plan, place)]
            who += count * np.arange(len(parts))[:, None]
        checkpoints = parts[0][2].checkpoints
        marks = make_marks(checkpoints, parts[0][1].T)
        sums = np.full((*who.shape, len(marks), 2), np.nan)
        costs = parts[0][0].costs
        able = np.array([self._is_able(learner, costs, plan.movement) for learner in learners])
        if able.any():
            self.used_gpu = True
            sequences = [np.ascontiguousarray(place.costs.arrays()[0]) for place, _, _ in parts]
            members = [row[able[row]] for row in who]
            movements = [plan.movement] * len(learners)
            found = play_learners(learners, movements, sequences, members, marks)
            for row, mine, paid in zip(who, sums, found, strict=True):
                mine[able[row]] = paid
        for row, mine, (place, result, _) in zip(who, sums, parts, strict=True):
            # Runs that are not finite are played again, to find the error.
            left = np.flatnonzero(~np.isfinite(mine).all(axis=(1, 2)))
            errors = _play_on_cpu(
                [learners[i] for i in row], left, mine, place.costs, plan.movement, checkpoints
            )
            self.used_cpu = self.used_cpu or bool(set(left[~able[row[left]]].tolist()) - set(errors))
            result.record(plan, mine, errors)

    def _is_able(self, learner: Maybe, costs: Costs, movement: Movement) -> bool:
        """Return True if the GPU plays this learner."""
        if self.device == "cpu" or isinstance(learner, str):
            return False
        obstacle = find_gpu_obstacle(learner, costs, movement)
        if obstacle is not None and self.strict:
            raise InvalidInput(
                f"A GPU does not play {obstacle}. Use {write_option('device', 'auto', 'cpu')}."
            )
        return obstacle is None


def _make_learners(plan: Plan, place: Place) -> list[Maybe]:
    """Return the learners of a plan on a sequence, and an error in place of each that cannot be made."""
    made: list[Maybe] = []
    for rule, point in plan.cells:
        try:
            made.append(catalogue.make_learner(rule, point, place.domain, plan.movement, place.costs))
        except Exception as failed:
            made.append(_describe_error(failed))
    return made


def _play_on_cpu(
    learners: list[Maybe], which: np.ndarray, sums: Array, costs: Costs, movement: Movement, checkpoints: int
) -> dict[int, str]:
    """Write the sums of some learners, and return errors by learner."""
    errors: dict[int, str] = {}
    ready: dict[int, Learner[Any]] = {}
    for i in which.tolist():
        learner = learners[i]
        if isinstance(learner, str):
            errors[i] = learner
        else:
            ready[i] = learner
    # All in one call; if that fails, each alone, so that only those fail which must.
    groups = [list(ready)]
    while groups:
        group = groups.pop()
        if not group:
            continue
        try:
            chosen = [ready[i] for i in group]
            batch = run_batch(chosen, costs, movement=movement, checkpoints=checkpoints, jobs=1)
        except Exception as failed:
            if len(group) == 1:
                errors[group[0]] = _describe_error(failed)
            else:
                groups += [[i] for i in group]
            continue
        totals = np.stack((batch.hitting, batch.switching), axis=-1)[:, None, :]
        sums[group] = batch.curves if checkpoints else totals
    return errors


def _compare(result: TaskResult, task: Task, place: Place) -> None:
    """Compute the regrets, against the scenario's comparator and others that the task asks for."""
    hitting, switching, dynamic, total, static, excess = result.sums.T
    kind = task.team.movement
    weights = task.team.weights
    dynamic[:] = hitting - place.hitting
    total[:] = dynamic + switching - weights * float(MOVEMENT_KINDS[kind]().paid(place.u).sum())
    if not task.metrics:
        return
    for weight in np.unique(weights):
        some = weights == weight
        cost = hitting[some] + switching[some]
        try:
            if "static_regret" in task.metrics:
                static[some] = cost - place.fixed
            if "optimum_regret" in task.metrics:
                excess[some] = cost - place.find_optimum(kind, float(weight))
        except Exception as failed:
            for i in np.flatnonzero(some).tolist():
                result.errors.setdefault(i, _describe_error(failed))


def _describe_error(failed: BaseException) -> str:
    return f"{type(failed).__name__}: {failed}"
