"""Playing a study: on this machine or a cluster through joblib, kept as it goes, never the same run twice."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock, Timer
from typing import TYPE_CHECKING, Any

from klazy.base.checks import one_of, refusal, whole
from klazy.base.parallel import BACKENDS, WorkerLost, map_unordered, open_workers
from klazy.game.device import choose_device, name_device
from klazy.studies.sweep.gpu import GpuPlayer
from klazy.studies.sweep.runs import Task, choose_runs, deal, halve, list_keys, list_tasks
from klazy.studies.sweep.store import Store, load_sweep
from klazy.studies.sweep.study import Study
from klazy.studies.sweep.table import average_cells, make_frame
from klazy.studies.sweep.worker import TaskResult, fail_task, play_task

if TYPE_CHECKING:
    import polars

STUDY = "study.json"
PATIENCE = 0.5  # seconds after which rows are written at the latest, or
SHARE = 0.01  # of the time so far, so that a long sweep has hundreds of files, not thousands
Progress = Callable[[int, int, int], object]  # runs played, runs to play, learner-rounds played


@dataclass(frozen=True, eq=False)
class Sweep:
    """A study that was played. :func:`sweep` makes it.

    Parameters
    ----------
    study : Study
        What was played.
    rows : polars.DataFrame
        Its runs, one row each.
    computed : int
        How many of them were played now.
    reused : int
        How many were found in the folder.
    learner_rounds : int
        How many rounds were played now, over all runs.
    seconds : float
        How long that took.
    device : str, optional
        What they were played on, in words. Default: ``"cpu"``.
    """

    study: Study
    rows: "polars.DataFrame"
    computed: int
    reused: int
    learner_rounds: int
    seconds: float
    device: str = "cpu"

    @property
    def runs(self) -> int:
        """The number of runs."""
        return len(self.rows)

    @property
    def failed(self) -> int:
        """The number of runs that failed; their rows have the error."""
        return self.runs - self.rows["error"].null_count()

    def cells(
        self, metric: str | None = None, *, relative_to: str | None = None, held_out: bool = False
    ) -> "polars.DataFrame":
        """Compute the mean and the 95 % interval of a metric for every cell of the grid.

        Parameters
        ----------
        metric : str, optional
            What to average. Default: the study's first metric.
        relative_to : str, optional
            A learner: give results in per cent of what it has, at its best for each setting. Default: plain numbers.
        held_out : bool, optional
            Choose the best cells by the even seeds (the column ``choice``) and compute everything else from the others.
            Default: False.

        Returns
        -------
        polars.DataFrame
            One row per cell: its settings, ``runs``, ``mean``, and ``half``, half the width of the interval.

        Raises
        ------
        ValueError
            If the metric or the learner is unknown, or was not computed.
        """
        return average_cells(self.rows, metric or self.study.metrics[0], relative_to, held_out)

    def counts(self) -> dict[str, Any]:
        """Count what was done, as the command prints it with ``--json``.

        Returns
        -------
        dict
            Runs, computed, reused, failed, seconds, device and learner-rounds per second.
        """
        names = ("runs", "computed", "reused", "failed", "seconds", "device")
        counts = {name: getattr(self, name) for name in names}
        return counts | {"learner_rounds_per_second": self.learner_rounds / self.seconds}

    def __repr__(self) -> str:
        done = f"{self.computed} computed, {self.reused} reused, {self.failed} failed"
        return f"Sweep({self.study.name!r}, {self.runs} runs: {done}, {self.seconds:.1f} s)"


def sweep(
    study: Study,
    out: Path | str | None = None,
    *,
    backend: str = "local",
    address: str | None = None,
    jobs: int | None = None,
    retry_failed: bool = False,
    progress: Progress | None = None,
    device: str | None = None,
) -> Sweep:
    """Play all runs of a study that are not in the folder yet, and keep them there.

    You can stop a sweep at any moment and start it again: rows are on the disk half a second after they are computed, or, in a
    long sweep, after a hundredth of its time so far.

    Parameters
    ----------
    study : Study
        What to play.
    out : str or Path, optional
        The folder that keeps the runs. Default: none; they are kept in memory.
    backend : str, optional
        ``"local"``, the default; or ``"dask"``, ``"ray"`` or ``"spark"``, where klazy is installed on the workers.
    address : str, optional
        Where the cluster is.
    jobs : int, optional
        How many processes play; with 1, this process does. Default: as many as there are cores.
    retry_failed : bool, optional
        Play runs again that failed; otherwise they stay, with their error. Default: False.
    progress : callable, optional
        Called with the runs played, the runs to play, and the learner-rounds played.
    device : str, optional
        ``"cpu"``, ``"cuda"`` or ``"auto"``; a GPU is driven from this process. Default: what the study says.

    Returns
    -------
    Sweep
        The runs.

    Raises
    ------
    ValueError
        If an argument is refused, or a GPU is asked for on a cluster.

    Examples
    --------
    >>> found = sweep(Study(scenarios=[{"recipe": "phases_of_length", "length": 5, "T": 100}],
    ...                     learners=[{"rule": "KLazyGD", "sigma": 2.0, "k": [1, 5, 10]}]), jobs=1)
    >>> found.cells().select("k", "mean").rows()
    [(1, 97.5), (5, 97.5), (10, 91.5)]
    """
    if jobs is not None:
        jobs = whole(jobs, "jobs", "sweep", "jobs >= 1", "leave it out for all cores")
    one_of(backend, "backend", "sweep", BACKENDS)
    asked = study.device if device is None else device
    chosen = choose_device("sweep", asked)
    if chosen == "cuda" and backend != "local":
        raise refusal(
            "sweep", "backend='local' for a GPU", "backend", backend, "take device='cpu' on a cluster"
        )
    started = time.perf_counter()
    tasks = list_tasks(study)
    keys = list_keys(tasks)
    store = None if out is None else Store(Path(out))
    todo = tasks
    wanted = keys
    if store is not None:
        store.write(STUDY, study.model_dump_json(exclude_none=True, indent=1))
        if retry_failed:
            store.forget(keys)
        if len(store.found):
            is_new = ~keys.is_in(store.found["key"].implode())
            todo = choose_runs(tasks, is_new.to_numpy())
            wanted = keys.filter(is_new)
    pending = len(wanted)
    keeper = _Keeper(store, wanted, progress)
    player = None
    if chosen == "cuda":
        player = GpuPlayer(strict=asked == "cuda")
    if pending and player is not None:
        try:
            for task, outcome in player.play(todo):
                keeper.take(task, outcome)
        finally:
            keeper.close()
    elif pending:
        with open_workers(backend, address, jobs) as count:
            try:
                for task, outcome in _play_tasks(deal(todo, count)):
                    keeper.take(task, outcome)
            finally:
                keeper.close()
    reused = len(keys) - pending
    rows = load_sweep(store.folder) if store is not None and reused else keeper.collect()
    seconds = time.perf_counter() - started
    played_on = _name_devices(player)
    return Sweep(study, order_rows(rows, keys), pending, reused, keeper.learner_rounds, seconds, played_on)


def _name_devices(player: GpuPlayer | None) -> str:
    """What runs were played on, in words."""
    if player is None or not player.used_gpu:
        return name_device("cpu")
    if player.used_cpu:
        return f"{name_device('cuda')}, and {name_device('cpu')} for what it does not play"
    return name_device("cuda")


def _play_tasks(tasks: Sequence[Task]) -> Iterator[tuple[Task, TaskResult]]:
    """What the tasks come to, in any order; a run that ends its worker is found by halves, and has that as its error."""
    left = {i: task._replace(number=i) for i, task in enumerate(tasks)}
    try:
        for outcome in map_unordered(play_task, list(left.values())):
            yield left.pop(outcome.number), outcome
    except WorkerLost as lost:
        suspects = list(left.values())
        if len(suspects) == 1 and len(suspects[0].players) == 1:
            yield suspects[0], fail_task(suspects[0], lost)
            return
        for half in halve(suspects):
            yield from _play_tasks(half)


class _Keeper:
    """What has been played: written from time to time if there is a store, else kept."""

    def __init__(self, store: Store | None, keys: "polars.Series", progress: Progress | None) -> None:
        self.store = store
        self.keys = keys
        self.progress = progress
        self.waiting: list[tuple[Task, TaskResult]] = []
        self.frames: list[polars.DataFrame] = []
        self.done = self.learner_rounds = 0
        self.started = self.written = time.perf_counter()
        self.timer = Timer(0.0, self.write)
        self.turn = Lock()

    def take(self, task: Task, outcome: TaskResult) -> None:
        """Keep it now if something was kept long ago, else when its time has come, whether or not there is more by then."""
        with self.turn:
            self.waiting.append((task, outcome))
        self.done += len(task.players)
        self.learner_rounds += outcome.learner_rounds
        now = time.perf_counter()
        left = max(PATIENCE, SHARE * (now - self.started)) - (now - self.written)
        if self.store is not None and left <= 0.0:
            self.write()
        elif self.store is not None and not self.timer.is_alive():
            self.timer = Timer(left, self._write_early)
            self.timer.daemon = True
            self.timer.start()
        if self.progress is not None:
            self.progress(self.done, len(self.keys), self.learner_rounds)

    def _write_early(self) -> None:
        with suppress(OSError):  # whoever writes next meets it, too
            self.write()

    def write(self) -> None:
        with self.turn:
            if self.store is not None and self.waiting:
                frame = make_frame(self.waiting, self.keys)
                self.store.add(frame)
                self.frames.append(frame)
                self.waiting = []
                self.written = time.perf_counter()

    def close(self) -> None:
        self.timer.cancel()
        self.write()

    def collect(self) -> "polars.DataFrame":
        """All that was played."""
        import polars as pl

        return pl.concat([*self.frames, make_frame(self.waiting, self.keys)])


def order_rows(rows: "polars.DataFrame", keys: "polars.Series") -> "polars.DataFrame":
    """The rows with these keys, in the order of the keys."""
    if rows["key"].equals(keys):
        return rows
    return keys.to_frame().join(rows, on="key", how="inner", maintain_order="left")


def load_study(folder: Path, *, trust: bool = False) -> "tuple[Study, polars.DataFrame]":
    """The study that was played last into a folder, and its runs that are there; ``trust`` as in :meth:`Study.read`."""
    file = folder / STUDY
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as failed:
        raise refusal(
            "sweep plot", "the folder of a sweep", "folder", folder, f"play a study into it ({failed})"
        ) from failed
    study = Study.from_file(data, file, trust=trust)
    rows = load_sweep(folder)
    found = order_rows(rows, list_keys(list_tasks(study)))
    if not len(found):
        versions = ", ".join(rows["version"].unique().sort())
        raise refusal(
            "sweep plot",
            "runs of its study",
            "runs",
            f"{len(rows)} others of klazy {versions}",
            "play the study again",
        )
    return study, found
