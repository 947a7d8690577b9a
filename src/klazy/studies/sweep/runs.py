"""The runs of a study: what each is, its key, and how they are dealt out as tasks that share a sequence."""

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import klazy
from klazy.base.checks import refusal
from klazy.studies.sweep import catalogue
from klazy.studies.sweep.catalogue import Point
from klazy.studies.sweep.specs import Spec
from klazy.studies.sweep.study import LABORIOUS, POINTS, Study

SEVERAL = 4  # sequences per worker, from which on none is split
MOST = 20_000_000  # runs of a study
HEAVY = 64  # plain runs take about as long as one of an ensemble


class Draw(NamedTuple):
    """A scenario at one point of its grid, drawn from ``seed``: (root, number), or None if nothing is drawn."""

    recipe: str
    point: Point
    seed: tuple[int, int] | None


class Run(NamedTuple):
    """A learner, the weight of movement, and the key of all that the run is."""

    key: str
    rule: str
    point: Point
    weight: float


class Task(NamedTuple):
    """Runs on one sequence, and what is wanted of them: ``checkpoints`` of a curve, metrics that take work."""

    sequence: Draw
    movement: str
    checkpoints: int
    metrics: tuple[str, ...]
    runs: list[Run]
    number: int = 0


def list_tasks(study: Study) -> Iterator[Task]:
    """One task per sequence, with all its runs; a run that the study names twice is in it once.

    The key of a run is a hash of its sequence, learner and price, of what is kept of it, and of klazy's version.
    """
    _refuse_too_many(study)
    checkpoints = POINTS if study.record == "curves" else 0
    metrics = tuple(metric for metric in LABORIOUS if metric in study.metrics)
    players = []
    for spec, point in _list_points(study.learners):
        for weight in study.movement_weight:
            text = _encode(spec.name, point, weight).encode()
            players.append((text, spec.name, point, weight))
    seen: set[str] = set()
    for spec, point in _list_points(study.scenarios):
        seeds = [None]
        if catalogue.depends_on_seed(spec.name, point):
            seeds = [(study.seed, number) for number in range(study.seeds)]
        for seed in seeds:
            shared = _encode(klazy.__version__, spec.name, point, seed, study.movement, checkpoints, metrics)
            before = hashlib.blake2b(shared.encode(), digest_size=16)
            runs = []
            for text, rule, values, weight in players:
                hashed = before.copy()
                hashed.update(text)
                key = hashed.hexdigest()
                if key not in seen:
                    seen.add(key)
                    runs.append(Run(key, rule, values, weight))
            if runs:
                yield Task(Draw(spec.name, point, seed), study.movement, checkpoints, metrics, runs)


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
    whole = 0
    for task in tasks:
        whole += sum(map(_estimate_work, task.runs))
    most = max(HEAVY, min(16 * HEAVY, whole // (8 * workers)))
    if len(tasks) >= SEVERAL * workers or any(task.metrics for task in tasks):
        most = whole + 1
    pieces: list[Task] = []
    for task in tasks:
        work = most
        for run in task.runs:
            if work >= most:
                pieces.append(task._replace(runs=[], number=len(pieces)))
                work = 0
            pieces[-1].runs.append(run)
            work += _estimate_work(run)
    return pieces


def halve(tasks: Sequence[Task]) -> tuple[list[Task], list[Task]]:
    """Two halves of the tasks, or of the runs of a single one."""
    if len(tasks) > 1:
        middle = len(tasks) // 2
        return list(tasks[:middle]), list(tasks[middle:])
    (task,) = tasks
    middle = len(task.runs) // 2
    return [task._replace(runs=task.runs[:middle])], [task._replace(runs=task.runs[middle:])]


def _estimate_work(run: Run) -> int:
    return 1 if "sigma" in run.point or "c" in run.point else HEAVY
