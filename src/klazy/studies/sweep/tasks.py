"""The runs of a study: what each is, its key, and how they are grouped as tasks that share a sequence."""

from collections.abc import Sequence
from functools import cached_property
from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np

import klazy
from klazy.base.checks import Array, InvalidInput
from klazy.movement import Movement
from klazy.studies.results import encode, read_words, start_hash
from klazy.studies.sweep import catalogue
from klazy.studies.sweep.catalogue import MOVEMENT_KINDS, Cell, Point
from klazy.studies.sweep.study import CURVE_POINTS, LABORIOUS, Study

SEVERAL = 4  # sequences per worker, from which on none is split
MOST_RUNS = 20_000_000  # in one study
HEAVY = 64  # plain runs take about as long as one of an ensemble


class Draw(NamedTuple):
    """A scenario at one point of its grid, drawn from ``seed``: (root, number), or None if nothing is drawn."""

    recipe: str
    point: Point
    seed: tuple[int, int] | None


class Plan(NamedTuple):
    """Runs of a team whose learners depend on the same price, or on none.

    Run ``runs[i]`` is that of learner ``learners[i]`` of ``cells``, and pays ``weights[i]`` for each unit that ``movement``
    charges: a learner that depends on no price plays once for all prices. With ``is_shared``, the learners are the same on all
    sequences of a set.
    """

    movement: Movement
    cells: list[Cell]
    runs: np.ndarray
    learners: np.ndarray
    weights: Array
    is_shared: bool


class Team:
    """The learners that play a sequence: run ``i`` is that of ``cells[cell[i]]`` at the price ``weights[i]``.

    Most tasks of a study have the same team, so that its plans are made once.
    """

    def __init__(
        self, movement: str, cells: list[Cell], cell: np.ndarray, weights: Array
    ) -> None:
        self.movement = movement
        self.cells = cells
        self.cell = cell
        self.weights = weights

    def __len__(self) -> int:
        return len(self.cell)

    def __reduce__(self) -> tuple[object, ...]:
        return Team, (self.movement, self.cells, self.cell, self.weights)

    def choose(self, which: "np.ndarray | slice") -> "Team":
        """Return the team with some of its runs."""
        return Team(self.movement, self.cells, self.cell[which], self.weights[which])

    @cached_property
    def hashes(self) -> np.ndarray:
        """The part of the key of each run that says who plays at which price."""
        pairs = zip(self.cell.tolist(), self.weights.tolist(), strict=True)
        return read_words(
            b"".join(start_hash(*self.cells[cell], weight).digest() for cell, weight in pairs)
        )

    @cached_property
    def plans(self) -> list[Plan]:
        """The runs by the price that their learners depend on, and by whether these depend on the sequence."""
        contexts = [catalogue.find_entry(rule, "rule").context for rule, _ in self.cells]
        priced = np.array(["movement" in each or "move_cost" in each for each in contexts])[
            self.cell
        ]
        # The largest gradient is that of the sequence.
        own = np.array(["G" in each for each in contexts])[self.cell]
        kinds = np.column_stack((np.where(priced, self.weights, -1.0), own))
        plans = []
        for price, is_own in np.unique(kinds, axis=0).tolist():
            runs = np.flatnonzero((kinds == (price, is_own)).all(axis=1))
            cells, learners = np.unique(self.cell[runs], return_inverse=True)
            make = MOVEMENT_KINDS[self.movement]
            movement = make() if price < 0.0 else make(price)
            weights = self.weights[runs] if price < 0.0 else np.ones(len(runs))
            plans.append(
                Plan(
                    movement, [self.cells[i] for i in cells], runs, learners, weights, not is_own
                )
            )
        return plans

    @cached_property
    def work(self) -> np.ndarray:
        """About how long each run takes."""
        plain = [1 if {"sigma", "c"} & set(point) else HEAVY for _, point in self.cells]
        return np.array(plain)[self.cell]


class Task(NamedTuple):
    """The runs of a team on one sequence, with the wanted ``checkpoints`` of a curve and metrics that take work.

    The first of the runs is number ``first`` among those of all tasks, whose keys are in this order.
    """

    sequence: Draw
    checkpoints: int
    metrics: tuple[str, ...]
    team: Team
    first: int = 0


def list_tasks(study: Study) -> list[Task]:
    """Return one task per sequence, with all its runs; a run that the study names twice is in it once."""
    _check_count(study)
    checkpoints = CURVE_POINTS if study.record == "curves" else 0
    metrics = tuple(metric for metric in LABORIOUS if metric in study.metrics)
    team = _make_team(study)
    tasks: dict[bytes, Task] = {}
    for recipe, point in chain(*study.scenarios):
        seeds = [None]
        if catalogue.depends_on_seed(recipe, point):
            seeds = [(study.seed, number) for number in range(study.seeds)]
        for seed in seeds:
            draw = Draw(recipe, point, seed)
            task = Task(draw, checkpoints, metrics, team, len(tasks) * len(team))
            tasks.setdefault(encode(*draw), task)
    return list(tasks.values())


def _make_team(study: Study) -> Team:
    """Return every learner at every price, each once."""
    cells = {encode(*cell): cell for cell in chain(*study.learners)}
    prices = np.array(study.move_cost)
    cell = np.repeat(np.arange(len(cells)), len(prices))
    return Team(study.movement, list(cells.values()), cell, np.tile(prices, len(cells)))


def list_keys(tasks: Sequence[Task]) -> np.ndarray:
    """Return the keys of all runs, two words each: of sequence, learner, price, recorded numbers and klazy's version.

    A key is the sum, word by word, of a hash of the sequence and one of learner and price. Hashing every run would take longer
    than a GPU needs to play it.
    """
    keys = []
    for task in tasks:
        kept = (task.team.movement, task.checkpoints, task.metrics)
        hashed = start_hash(klazy.__version__, *task.sequence, *kept)
        keys.append(read_words(hashed.digest()) + task.team.hashes)
    return np.concatenate(keys)


def choose_runs(tasks: Sequence[Task], wanted: np.ndarray) -> list[Task]:
    """Return the tasks with the wanted runs, numbered anew; tasks that lack the same runs share a team."""
    teams: dict[tuple[Team, bytes], Team] = {}
    chosen: list[Task] = []
    first = 0
    for task in tasks:
        mask = wanted[task.first : task.first + len(task.team)]
        kind = (task.team, mask.tobytes())
        if kind not in teams:
            teams[kind] = task.team if mask.all() else task.team.choose(mask)
        team = teams[kind]
        if len(team):
            chosen.append(task._replace(team=team, first=first))
            first += len(team)
    return chosen


def _check_count(study: Study) -> None:
    """Reject a study with too many runs before they are listed."""
    scenarios = sum(spec.count for spec in study.scenarios)
    learners = sum(spec.count for spec in study.learners)
    count = scenarios * learners * study.seeds * len(study.move_cost)
    if count > MOST_RUNS:
        raise InvalidInput(
            f"A study may have at most {MOST_RUNS:,} runs, got {count:,}. Use a coarser grid, or several studies."
        )


def check_held_out(study: Study) -> None:
    """Reject to hold seeds out where a scenario has fewer than two, before anything is played."""
    if study.seeds < 2:
        raise InvalidInput(
            f"--held-out needs at least 2 seeds, got {study.seeds}. Raise seeds in the study."
        )
    for recipe, point in chain(*study.scenarios):
        if not catalogue.depends_on_seed(recipe, point):
            message = f"--held-out needs random scenarios, but {recipe} depends on no seed. Leave one of them out."
            raise InvalidInput(message)


def deal(tasks: Sequence[Task], workers: int) -> list[Task]:
    """Return the tasks in pieces, small enough that all workers have some to the end, and large enough to be worth it.

    Where there are many sequences, or much is computed for each, none is split: every piece would make it again.
    """
    pieces = list(tasks)
    if len(tasks) < SEVERAL * workers and not any(task.metrics for task in tasks):
        total = sum(int(task.team.work.sum()) for task in tasks)
        most = max(HEAVY, min(16 * HEAVY, total // (8 * workers)))
        pieces = []
        for task in tasks:
            before = np.cumsum(task.team.work) - task.team.work
            begins = np.flatnonzero(np.diff(before // most, prepend=-1)).tolist()
            pieces += [_cut(task, begin, end) for begin, end in pairwise([*begins, len(before)])]
    return pieces


def _cut(task: Task, begin: int, end: int) -> Task:
    """Return the task with some of its runs."""
    return task._replace(team=task.team.choose(slice(begin, end)), first=task.first + begin)


def halve(tasks: Sequence[Task]) -> tuple[list[Task], list[Task]]:
    """Return two halves of the tasks, or of the runs of a single one."""
    if len(tasks) > 1:
        middle = len(tasks) // 2
        return list(tasks[:middle]), list(tasks[middle:])
    (task,) = tasks
    middle = len(task.team) // 2
    return [_cut(task, 0, middle)], [_cut(task, middle, len(task.team))]
