"""The runs of a study: what each is, its key, and how they are dealt out as tasks that share a sequence."""

import hashlib
import itertools
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import klazy
from klazy.base.checks import Array, refusal
from klazy.movement import Movement
from klazy.studies.sweep import catalogue
from klazy.studies.sweep.catalogue import MOVEMENTS, Point
from klazy.studies.sweep.specs import Spec
from klazy.studies.sweep.study import LABORIOUS, POINTS, Study

if TYPE_CHECKING:
    import polars

SEVERAL = 4  # sequences per worker, from which on none is split
MOST = 20_000_000  # runs of a study
HEAVY = 64  # plain runs take about as long as one of an ensemble


class Draw(NamedTuple):
    """A scenario at one point of its grid, drawn from ``seed``: (root, number), or None if nothing is drawn."""

    recipe: str
    point: Point
    seed: tuple[int, int] | None


class Player(NamedTuple):
    """A learner at one point of its grid, and what it pays for a unit of movement."""

    rule: str
    point: Point
    weight: float


class Task(NamedTuple):
    """A run of every player on one sequence, and what is wanted of them: ``checkpoints`` of a curve, metrics that take work.

    Most tasks of a study have the same list of ``players``, so that what follows from it is found once. The first of the runs
    is number ``first`` among those of all tasks, whose keys lie in this order.
    """

    sequence: Draw
    movement: str
    checkpoints: int
    metrics: tuple[str, ...]
    players: list[Player]
    first: int = 0
    number: int = 0


def list_tasks(study: Study) -> list[Task]:
    """One task per sequence, with all its runs; a run that the study names twice is in it once."""
    _refuse_too_many(study)
    checkpoints = POINTS if study.record == "curves" else 0
    metrics = tuple(metric for metric in LABORIOUS if metric in study.metrics)
    players = _list_players(study)
    tasks: dict[str, Task] = {}
    for spec, point in _list_points(study.scenarios):
        seeds = [None]
        if catalogue.depends_on_seed(spec.name, point):
            seeds = [(study.seed, number) for number in range(study.seeds)]
        for seed in seeds:
            draw = Draw(spec.name, point, seed)
            task = Task(draw, study.movement, checkpoints, metrics, players, len(tasks) * len(players))
            tasks.setdefault(_encode_task(task), task)
    return list(tasks.values())


def _list_players(study: Study) -> list[Player]:
    """Every learner under every price, each once."""
    players: dict[str, Player] = {}
    for spec, point in _list_points(study.learners):
        for weight in study.movement_weight:
            player = Player(spec.name, point, weight)
            players.setdefault(_encode(*player), player)
    return list(players.values())


def list_keys(tasks: Sequence[Task]) -> "polars.Series":
    """The keys of all runs: a hash of sequence, learner and price, of what is kept of it, and of klazy's version."""
    import polars as pl

    texts: dict[int, list[bytes]] = {}
    digests: list[bytes] = []
    for task in tasks:
        if id(task.players) not in texts:
            texts[id(task.players)] = [_encode(*player).encode() for player in task.players]
        begin = hashlib.blake2b(_encode_task(task).encode(), digest_size=16).copy
        for text in texts[id(task.players)]:
            hashed = begin()
            hashed.update(text)
            digests.append(hashed.digest())
    return pl.Series("key", digests, dtype=pl.Binary).bin.encode("hex")


def _encode_task(task: Task) -> str:
    """All that its runs have in common, as it goes into their keys."""
    return _encode(klazy.__version__, *task.sequence, task.movement, task.checkpoints, task.metrics)


def choose_runs(tasks: Sequence[Task], wanted: np.ndarray) -> list[Task]:
    """The tasks with those of their runs that are wanted, numbered anew; tasks that lack the same players share their list."""
    lists: dict[tuple[int, bytes], list[Player]] = {}
    chosen: list[Task] = []
    first = 0
    for task in tasks:
        mask = wanted[task.first : task.first + len(task.players)]
        kind = (id(task.players), mask.tobytes())
        if kind not in lists:
            lists[kind] = list(itertools.compress(task.players, mask))
        players = lists[kind]
        if mask.all():
            players = task.players
        if players:
            chosen.append(task._replace(players=players, first=first))
            first += len(players)
    return chosen


def _refuse_too_many(study: Study) -> None:
    """Count before anything is listed."""
    scenarios = sum(map(_count_points, study.scenarios))
    learners = sum(map(_count_points, study.learners))
    count = scenarios * learners * study.seeds * len(study.movement_weight)
    if count > MOST:
        raise refusal(
            "sweep",
            f"at most {MOST:,} runs",
            "runs",
            f"{count:,}",
            "make a grid coarser, or several studies of it",
        )


def refuse_held_out(study: Study) -> None:
    """Refuse to hold seeds out where a scenario has fewer than two, before anything is played."""
    if study.seeds < 2:
        raise refusal(
            "sweep",
            "several seeds to hold some out",
            "seeds",
            study.seeds,
            "raise it, or leave --held-out away",
        )
    for spec, point in _list_points(study.scenarios):
        if not catalogue.depends_on_seed(spec.name, point):
            condition = "scenarios that are drawn, to hold seeds out"
            remedy = "draw it, take it out, or leave --held-out away"
            raise refusal("sweep", condition, "recipe", spec.name, remedy)


def _list_points(specs: Iterable[Spec]) -> Iterator[tuple[Spec, Point]]:
    for spec in specs:
        for point in spec.list_points():
            yield spec, point


def _count_points(spec: Spec) -> int:
    return math.prod(map(len, spec.axes.values()))


def _encode(*parts: Any) -> str:
    return json.dumps(parts, sort_keys=True)


def deal(tasks: Sequence[Task], workers: int) -> list[Task]:
    """The tasks in pieces, small enough that all workers have some to the end, and large enough to be worth it.

    Where there are many sequences, or much is found for each, none is split: each would be made again for every piece.
    """
    if len(tasks) >= SEVERAL * workers or any(task.metrics for task in tasks):
        return [task._replace(number=number) for number, task in enumerate(tasks)]
    work = [[_estimate_work(player) for player in task.players] for task in tasks]
    whole = sum(map(sum, work))
    most = max(HEAVY, min(16 * HEAVY, whole // (8 * workers)))
    pieces: list[Task] = []
    for task, each in zip(tasks, work, strict=True):
        ends = np.cumsum(each)
        begin = 0
        while begin < len(each):
            before = ends[begin] - each[begin]
            end = int(np.searchsorted(ends, before + most)) + 1
            pieces.append(_cut(task, begin, end)._replace(number=len(pieces)))
            begin = end
    return pieces


def _cut(task: Task, begin: int, end: int) -> Task:
    """Some of its runs."""
    return task._replace(players=task.players[begin:end], first=task.first + begin)


def halve(tasks: Sequence[Task]) -> tuple[list[Task], list[Task]]:
    """Two halves of the tasks, or of the runs of a single one."""
    if len(tasks) > 1:
        middle = len(tasks) // 2
        return list(tasks[:middle]), list(tasks[middle:])
    (task,) = tasks
    middle = len(task.players) // 2
    return [_cut(task, 0, middle)], [_cut(task, middle, len(task.players))]


def _estimate_work(player: Player) -> int:
    return 1 if "sigma" in player.point or "c" in player.point else HEAVY


class Plan(NamedTuple):
    """The players of a list whose learners heed one price, or none.

    ``cells`` are the learners, a rule and its values each: one that heeds no price plays once for all prices. Run ``runs[i]``
    is that of learner ``learners[i]`` and pays ``weights[i]`` for what ``movement`` charges.
    """

    movement: Movement
    cells: list[tuple[str, Point]]
    runs: np.ndarray
    learners: np.ndarray
    weights: Array


def plan_runs(kind: str, players: Sequence[Player]) -> list[Plan]:
    """What is to be played for these players, by the price that their learners heed."""
    prices: dict[float | None, list[int]] = {}
    for i, player in enumerate(players):
        price = player.weight if catalogue.heeds_price(player.rule) else None
        prices.setdefault(price, []).append(i)
    plans = []
    for price, members in prices.items():
        cells: dict[tuple[str, int], tuple[str, Point]] = {}
        numbers: dict[tuple[str, int], int] = {}
        learners = []
        weights = []
        for i in members:
            rule, point, weight = players[i]
            cells.setdefault((rule, id(point)), (rule, point))  # a point is one object at all prices
            learners.append(numbers.setdefault((rule, id(point)), len(numbers)))
            weights.append(weight if price is None else 1.0)
        movement = MOVEMENTS[kind]() if price is None else MOVEMENTS[kind](price)
        plans.append(
            Plan(movement, list(cells.values()), np.array(members), np.array(learners), np.array(weights))
        )
    return plans
