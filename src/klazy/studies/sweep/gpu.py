"""Playing the tasks of a study on a GPU: many sequences and learners in a launch, in this process.

Learners that are told nothing of a sequence but its set are made once for all of them.
"""

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from klazy.base.checks import Array, refusal
from klazy.game.batch import make_marks
from klazy.game.device import Grid, find_obstacle, play_grid
from klazy.learners import Learner
from klazy.movement import Movement
from klazy.studies.sweep import catalogue
from klazy.studies.sweep.runs import Plan, Player, Task, plan_runs
from klazy.studies.sweep.worker import Place, TaskResult, compare, describe_error, fail_task, play_batch

TOGETHER = 1 << 18  # runs that are played together: after so many, rows can be written


class GpuPlayer:
    """Plays tasks, a group after the other; ``strict`` refuses what a GPU cannot play, else the CPU plays it."""

    def __init__(self, *, strict: bool) -> None:
        self.strict = strict
        self.used_gpu = False
        self.used_cpu = False
        self._plans: dict[Any, tuple[list[Player], list[Plan]]] = {}  # a list lives as long as its number
        self._learners: dict[Any, Any] = {}
        self._lists: dict[Any, list[Any]] = {}
        self._domains: dict[Any, Any] = {}

    def play(self, tasks: Sequence[Task]) -> Iterator[tuple[Task, TaskResult]]:
        """What the tasks come to, in their order; while some are played, the sequences of the next are made."""
        from threadpoolctl import threadpool_limits

        with threadpool_limits(1), ThreadPoolExecutor() as pool:
            waiting: list[tuple[list[Task], list[Any]]] = []
            for group in _group_tasks(tasks):
                waiting.append((group, [pool.submit(_make_place, task) for task in group]))
                if len(waiting) > 1:
                    ready, places = waiting.pop(0)
                    yield from self._play_group(ready, [place.result() for place in places])
            for ready, places in waiting:
                yield from self._play_group(ready, [place.result() for place in places])

    def _play_group(
        self, tasks: list[Task], made: list["Place | TaskResult"]
    ) -> Iterator[tuple[Task, TaskResult]]:
        """Tasks that are played together where sets, lengths and prices are the same."""
        outcomes: list[TaskResult] = []
        places: list[Place | None] = []
        alike: dict[Any, list[tuple[int, Plan, list[Any]]]] = {}
        for i, (task, place) in enumerate(zip(tasks, made, strict=True)):
            if isinstance(place, TaskResult):
                outcomes.append(place)
                places.append(None)
                continue
            place.domain = self._domains.setdefault(place.domain, place.domain)
            outcomes.append(TaskResult(task, place.costs.T, place.costs.dim))
            places.append(place)
            for plan in self._plan(task):
                learners = self._make_all(plan, place)
                shared = (id(place.domain), place.costs.T, id(plan), task.checkpoints)
                alike.setdefault(shared, []).append((i, plan, learners))
        for parts in alike.values():
            self._play_alike(parts, tasks, outcomes, places)
        for task, outcome, place in zip(tasks, outcomes, places, strict=True):
            if place is not None:
                compare(outcome, task, place)
            yield task, outcome

    def _plan(self, task: Task) -> list[Plan]:
        """What is to be played; tasks of a study mostly have the same list of players."""
        key = (task.movement, id(task.players))
        if key not in self._plans:
            self._plans[key] = task.players, plan_runs(task.movement, task.players)
        return self._plans[key][1]

    def _make_all(self, plan: Plan, place: Place) -> list[Any]:
        """The learners of a plan; if none is told of its own sequence, they are the same on all of a set."""
        key = (id(plan), id(place.domain), place.costs.T, place.costs.family)
        if key in self._lists:
            return self._lists[key]
        learners = [self._make(rule, point, plan.movement, place) for rule, point in plan.cells]
        if not any("G" in catalogue.find_entry(rule, "rule").context for rule, _ in plan.cells):
            self._lists[key] = learners
        return learners

    def _make(self, rule: str, point: dict[str, Any], movement: Movement, place: Place) -> Learner[Any] | str:
        """The learner, or what went wrong."""
        told = catalogue.find_entry(rule, "rule").context
        about = {"T": place.costs.T, "G": id(place), "family": place.costs.family}
        key = (
            rule,
            id(point),
            id(place.domain),
            id(movement),
            *(about[name] for name in told if name in about),
        )
        if key not in self._learners:
            try:
                made = catalogue.make_learner(rule, point, place.domain, movement, place.costs)
            except Exception as failed:
                made = describe_error(failed)
            if "G" in told:
                return made
            self._learners[key] = made
        return self._learners[key]

    def _play_alike(
        self,
        parts: list[tuple[int, Plan, list[Any]]],
        tasks: list[Task],
        outcomes: list[TaskResult],
        places: list[Any],
    ) -> None:
        """The same plan on several sequences of one set and length."""
        plan = parts[0][1]
        marks = make_marks(tasks[parts[0][0]].checkpoints, outcomes[parts[0][0]].T)
        learners: list[Any] = []
        position: dict[int, int] = {}  # of a learner, or of what kept it from being made
        able: list[bool] = []
        lists: dict[int, np.ndarray] = {}  # the positions of a list of them
        who: list[np.ndarray] = []
        for i, _, mine in parts:
            if id(mine) not in lists:
                for learner in mine:
                    if id(learner) not in position:
                        position[id(learner)] = len(learners)
                        learners.append(learner)
                        able.append(self._is_able(learner, places[i], plan.movement))
                lists[id(mine)] = np.array([position[id(learner)] for learner in mine])
            who.append(lists[id(mine)])
        ready = np.array(able)
        played = [members[ready[members]] for members in who]
        sums = [np.full((len(members), len(marks), 2), np.nan) for members in who]
        if ready.any():
            self.used_gpu = True
            chosen = np.flatnonzero(ready)
            rank = np.cumsum(ready) - 1
            grid = Grid(
                [learners[n] for n in chosen],
                [np.ascontiguousarray(places[i].costs.arrays()[0]) for i, _, _ in parts],
                [rank[members] for members in played],
                plan.movement,
                marks,
            )
            for members, found, mine in zip(who, play_grid(grid), sums, strict=True):
                mine[ready[members]] = found
        for (i, _, _), members, mine in zip(parts, who, sums, strict=True):
            errors = self._play_rest(
                learners, members, ready, mine, places[i], plan.movement, tasks[i].checkpoints
            )
            outcomes[i].record(plan, mine, errors)

    def _is_able(self, learner: Any, place: Place, movement: Movement) -> bool:
        """Whether a GPU plays this; refused if it must."""
        if isinstance(learner, str):
            return False
        obstacle = find_obstacle(learner, place.costs, movement)
        if obstacle is not None and self.strict:
            raise refusal("sweep", "runs that a GPU plays", "learner", obstacle, "take --device auto or cpu")
        return obstacle is None

    def _play_rest(
        self, learners: list[Any], members: np.ndarray, ready: np.ndarray, sums: Array, place: Place, movement: Movement,
        checkpoints: int,
    ) -> dict[int, str]:  # fmt: skip
        """Play on the CPU what is left, and once more what is not finite; returns what went wrong, by cell."""
        errors: dict[int, str] = {}
        for cell in np.flatnonzero(~np.isfinite(sums).all(axis=(1, 2))):
            learner = learners[members[cell]]
            if isinstance(learner, str):
                errors[int(cell)] = learner
                continue
            self.used_cpu = self.used_cpu or not ready[members[cell]]
            found, wrong = play_batch([learner], place.costs, movement, checkpoints)
            sums[cell] = found[0]
            if wrong:
                errors[int(cell)] = wrong[0]
        return errors


def _group_tasks(tasks: Sequence[Task]) -> Iterator[list[Task]]:
    """Tasks that are played together."""
    group: list[Task] = []
    runs = 0
    for task in tasks:
        if group and runs + len(task.players) > TOGETHER:
            yield group
            group = []
            runs = 0
        group.append(task)
        runs += len(task.players)
    if group:
        yield group


def _make_place(task: Task) -> Place | TaskResult:
    """The sequence of a task, or that all its runs failed."""
    try:
        return Place(*json.loads(json.dumps(task.sequence)))
    except (Exception, SystemExit) as failed:  # whatever somebody else's recipe does, the other tasks go on
        return fail_task(task, failed)
