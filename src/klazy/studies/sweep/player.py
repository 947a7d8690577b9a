"""How the runs of tasks are played: on the CPU of a worker, or many tasks together on a GPU.

A task becomes the costs of its sequence and, by the plans of its team, learners. A GPU plays those it can, the CPU the rest.
"""

import json
import os
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, lru_cache
from itertools import chain, islice, pairwise
from typing import Any, NamedTuple

import numpy as np

from klazy.base.checks import Array, InvalidInput
from klazy.base.options import write_option
from klazy.base.parallel import wait_for
from klazy.costs import Costs
from klazy.game.batch import run_batch
from klazy.game.device import find_gpu_obstacle, list_gpus, play_learners
from klazy.game.plan import make_marks
from klazy.hindsight import best_fixed, offline_optimum
from klazy.movement import Movement
from klazy.studies.sweep import catalogue
from klazy.studies.sweep.catalogue import MOVEMENT_KINDS, Point
from klazy.studies.sweep.tasks import Plan, Task

RUN_SUMS = (
    "hitting",
    "switching",
    "dynamic_regret",
    "total_regret",
    "static_regret",
    "optimum_regret",
)
# About how many runs a GPU plays together, after which rows can be written, and the most bytes of their sequences.
TOGETHER = 1 << 18
TOGETHER_BYTES = 3 << 26


class TaskResult:
    """The results of the runs of a task, in their order; ``first`` is the task's.

    ``sums`` has a row per run and the columns of :data:`RUN_SUMS`, NaN where nothing is known; ``errors`` has errors by run.
    ``curves`` holds the hitting and switching cost of each run after each of ``rounds``, if the task wants them.
    ``learner_rounds`` counts the rounds that were played: of runs that differ in price alone, only once.
    """

    def __init__(self, task: Task, T: int = 0, dim: int = 0) -> None:
        self.first = task.first
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

    def __init__(self, recipe: str, point: Point, seed: Sequence[int] | None) -> None:
        source = None if seed is None else np.random.SeedSequence(seed[0], spawn_key=(seed[1],))
        made = catalogue.make_scenario(recipe, point, source)
        self.domain = made.domain
        self.costs = made.costs
        self.u = np.asarray(made.comparator)
        self._optima: dict[tuple[str, float], float] = {}
        self._moved: dict[str, float] = {}

    @property
    def size(self) -> int:
        """How many bytes the costs and the comparator take."""
        return self.u.nbytes + sum(array.nbytes for array in self.costs.arrays())

    @cached_property
    def hitting(self) -> float:
        """The operating cost of the comparator."""
        return float(self.costs.values(self.u).sum())

    @cached_property
    def fixed(self) -> float:
        """The cost of the best fixed point."""
        return best_fixed(self.costs, self.domain).cost

    def find_moved(self, kind: str) -> float:
        """Return the switching cost of the comparator at a price of 1."""
        if kind not in self._moved:
            self._moved[kind] = float(MOVEMENT_KINDS[kind]().paid(self.u).sum())
        return self._moved[kind]

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


class Prepared(NamedTuple):
    """A task with its sequence, which is None if it cannot be made, and its results so far."""

    task: Task
    place: Place | None
    result: TaskResult


def play_task(task: Task) -> TaskResult:
    """Play a task on one thread, because other workers play others; an error of its recipe is that of all runs."""
    from threadpoolctl import threadpool_limits

    try:
        with threadpool_limits(1):
            place = _make_place(json.dumps(task.sequence))
            result = TaskResult(task, place.costs.T, place.costs.dim)
            TaskPlayer().play([Prepared(task, place, result)])
            return result
    except (Exception, SystemExit) as failed:
        return fail_task(task, failed)


def fail_task(task: Task, why: BaseException) -> TaskResult:
    """Return the result of a task all runs of which failed."""
    result = TaskResult(task)
    result.errors = dict.fromkeys(range(len(task.team)), _describe_error(why))
    return result


def play_on_gpu(player: "TaskPlayer", tasks: Sequence[Task]) -> Iterator[tuple[Task, TaskResult]]:
    """Play tasks group by group, in their order. Threads make the sequences of the next group while two are played.

    So the GPU has work while the host prepares a group or records what another paid.
    """
    from threadpoolctl import threadpool_limits

    pool = ThreadPoolExecutor()
    groups = _gather(tasks, pool, TOGETHER * max(1, len(player.gpus)))

    def begin() -> Iterator[Any]:
        coming = pool.submit(next, groups, None)
        while ready := wait_for(coming):
            coming = pool.submit(next, groups, None)
            yield pool.submit(player.play, ready)

    try:
        with threadpool_limits(1):
            for playing, _next in pairwise(chain(begin(), (None,))):
                yield from wait_for(playing)
    finally:
        pool.shutdown(cancel_futures=True)


def _gather(
    tasks: Sequence[Task], pool: ThreadPoolExecutor, most: int
) -> Iterator[list[Prepared]]:
    """Yield tasks with their sequences, in groups of ``most`` runs; a few sequences are made ahead."""
    left = iter(tasks)
    ahead = deque(pool.submit(_prepare, task) for task in islice(left, os.cpu_count() or 1))
    group: list[Prepared] = []
    runs = size = 0
    while ahead:
        group.append(ahead.popleft().result())
        ahead.extend(pool.submit(_prepare, task) for task in islice(left, 1))
        task, place, result = group[-1]
        runs += len(task.team)
        size += result.curves.nbytes + (0 if place is None else place.size)
        if runs >= most or size >= TOGETHER_BYTES or not ahead:
            yield group
            group = []
            runs = size = 0


def _prepare(task: Task) -> Prepared:
    """Make the sequence of a task with the costs of its comparator; if that fails, all its runs do."""
    try:
        place = Place(*task.sequence)
        _ = place.hitting, place.find_moved(task.team.movement)
    except (Exception, SystemExit) as failed:
        return Prepared(task, None, fail_task(task, failed))
    return Prepared(task, place, TaskResult(task, place.costs.T, place.costs.dim))


class TaskPlayer:
    """Plays tasks in this process, on its CPU or a GPU.

    With ``strict``, runs that a GPU cannot play are rejected; else the CPU plays them.
    """

    def __init__(self, device: str = "cpu", *, strict: bool = False) -> None:
        self.device = device
        self.gpus = list_gpus(device)
        self.strict = strict
        self.used_gpu = False
        self.used_cpu = False
        self._learners: dict[Any, tuple[list[Any], np.ndarray]] = {}

    def play(self, prepared: Sequence[Prepared]) -> list[tuple[Task, TaskResult]]:
        """Play tasks together where they have the same plan, set and length; return each with its result."""
        playable = [
            (task, place, result) for task, place, result in prepared if place is not None
        ]
        alike: dict[Any, list[tuple[Place, TaskResult]]] = {}
        for task, place, result in playable:
            about = (task.team, place.domain, place.costs.T, place.costs.family, task.checkpoints)
            for number in range(len(task.team.plans)):
                alike.setdefault((number, *about), []).append((place, result))
        for kind, parts in alike.items():
            self._play_plan(kind, parts)
        for task, place, result in playable:
            _compare(result, task, place)
        return [(task, result) for task, _, result in prepared]

    def _play_plan(self, kind: Any, parts: list[tuple[Place, TaskResult]]) -> None:
        """Play one plan on several sequences of the same set and length."""
        number, team, _, T, _, checkpoints = kind
        plan: Plan = team.plans[number]
        count = len(plan.cells)
        who = np.tile(np.arange(count), (len(parts), 1))
        costs = parts[0][0].costs
        if plan.is_shared:
            if kind not in self._learners:
                made = _make_learners(plan, parts[0][0])
                self._learners[kind] = made, self._find_able(made, costs, plan.movement)
            learners, able = self._learners[kind]
        else:
            learners = [each for place, _ in parts for each in _make_learners(plan, place)]
            able = self._find_able(learners, costs, plan.movement)
            who += count * np.arange(len(parts))[:, None]
        marks = make_marks(checkpoints, T)
        sums = np.full((*who.shape, len(marks), 2), np.nan)
        if able.any():
            self.used_gpu = True
            sequences = [np.ascontiguousarray(place.costs.arrays()[0]) for place, _ in parts]
            members = [row[able[row]] for row in who]
            movements = [plan.movement] * len(learners)
            found = play_learners(learners, movements, sequences, members, marks, self.gpus)
            for row, mine, paid in zip(who, sums, found, strict=True):
                mine[able[row]] = paid
        for row, mine, (place, result) in zip(who, sums, parts, strict=True):
            # Runs that are not finite are played again, to find the error.
            left = np.flatnonzero(~np.isfinite(mine).all(axis=(1, 2)))
            chosen = [learners[i] for i in row] if left.size else []
            errors = _play_on_cpu(chosen, left, mine, place.costs, plan.movement, checkpoints)
            self.used_cpu = self.used_cpu or bool(
                set(left[~able[row[left]]].tolist()) - set(errors)
            )
            result.record(plan, mine, errors)

    def _find_able(self, learners: list[Any], costs: Costs, movement: Movement) -> np.ndarray:
        """Return which learners the GPU plays."""
        able = np.zeros(len(learners), dtype=bool)
        for i, learner in enumerate(learners):
            if self.device == "cpu" or isinstance(learner, str):
                continue
            obstacle = find_gpu_obstacle(learner, costs, movement)
            if obstacle is not None and self.strict:
                raise InvalidInput(
                    f"A GPU does not play {obstacle}. Use {write_option('device', 'auto', 'cpu')}."
                )
            able[i] = obstacle is None
        return able


def _make_learners(plan: Plan, place: Place) -> list[Any]:
    """Return the learners of a plan on a sequence, and the error, as text, in place of each that cannot be made."""
    made: list[Any] = []
    for rule, point in plan.cells:
        try:
            made.append(
                catalogue.make_learner(rule, point, place.domain, plan.movement, place.costs)
            )
        except Exception as failed:
            made.append(_describe_error(failed))
    return made


def _play_on_cpu(
    learners: list[Any],
    which: np.ndarray,
    sums: Array,
    costs: Costs,
    movement: Movement,
    checkpoints: int,
) -> dict[int, str]:
    """Write the sums of some learners, and return errors by learner."""
    errors = {i: learners[i] for i in which.tolist() if isinstance(learners[i], str)}
    ready = [i for i in which.tolist() if i not in errors]
    # All in one call; if that fails, each alone, so that only those fail which must.
    groups = [ready] if ready else []
    while groups:
        group = groups.pop()
        chosen = [learners[i] for i in group]
        try:
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
    total[:] = dynamic + switching - weights * place.find_moved(kind)
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
