"""Playing a study: on this machine or a cluster, stored as it goes, never the same run twice."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from klazy.base.checks import InvalidInput, integer
from klazy.base.options import write_option
from klazy.base.parallel import WorkerLost, Workers, open_workers
from klazy.base.progress import show_progress
from klazy.base.tables import Tabular
from klazy.game.device import choose_device, name_device
from klazy.studies.results import (
    PART_FILES,
    ResultStore,
    ResultWriter,
    StoredRows,
    load_rows,
    map_rows,
)
from klazy.studies.sweep.frame import (
    METRICS,
    RUN_COLUMNS,
    average_cells,
    make_run_frame,
    summarize_cells,
)
from klazy.studies.sweep.player import TaskPlayer, TaskResult, fail_task, play_on_gpu, play_task
from klazy.studies.sweep.study import Study
from klazy.studies.sweep.tasks import Task, choose_runs, deal, halve, list_keys, list_tasks

if TYPE_CHECKING:
    import polars

    from klazy.show import Figure

STUDY = "study.json"
Progress = Callable[[int, int, int], object]  # runs played, runs to play, learner-rounds played


@dataclass(frozen=True, eq=False, repr=False)
class SweepRuns(Tabular):
    """The runs of a sweep: by cell, as a figure, and as a frame. :func:`load_sweep` makes it.

    ``runs["k"]`` and ``len(runs)`` are those of the frame, and packages that read Arrow tables, such as polars and DuckDB,
    take it as one.

    Parameters
    ----------
    source : polars.DataFrame
        The runs, one row each, or where they are.
    metric : str
        What is averaged if nothing else is named.

    Examples
    --------
    >>> runs = SweepRuns(sweep(Study(scenarios=[{"recipe": "phases_of_length", "length": 5, "T": 100}],
    ...                         learners=[{"rule": "KLazyGD", "sigma": 2.0, "k": [1, 5, 10]}]), jobs=1).rows, "total_regret")
    >>> runs.cells().select("k", "mean").rows(), len(runs), runs["k"].max()
    ([(1, 97.5), (5, 97.5), (10, 91.5)], 3, 10)
    """

    source: "polars.DataFrame | StoredRows"
    metric: str

    @cached_property
    def rows(self) -> "polars.DataFrame":
        """The runs, one row each. They are read when you first ask for them."""
        if isinstance(self.source, StoredRows):
            return self.source.read(RUN_COLUMNS)
        return self.source

    def cells(
        self, metric: str | None = None, *, relative_to: str | None = None, held_out: bool = False
    ) -> "polars.DataFrame":
        """Compute the mean and the 95 % interval of a metric for every cell of the grid.

        Parameters
        ----------
        metric : str, optional
            What to average. Default: the first metric of the study, in a folder of the one played last.
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
        return average_cells(self.source, metric or self.metric, relative_to, held_out)

    def list_rows(self) -> list[dict[str, Any]]:
        return summarize_cells(self.cells(), len(self))

    def plot(
        self, x: str | None = None, y: str | None = None, *, metric: str | None = None
    ) -> "Figure":
        """Draw the cells: lines over a parameter, or a heat map over two.

        Parameters
        ----------
        x : str, optional
            A parameter. Default: chosen from those that vary.
        y : str, optional
            A second one, for a heat map.
        metric : str, optional
            What to draw, as in :meth:`cells`.

        Returns
        -------
        Figure
            A matplotlib figure.

        Raises
        ------
        ValueError
            If nothing varies, or the parameter does not.
        """
        from klazy.studies.sweep.drawing import draw_cells

        shown = metric or self.metric
        for _, figure in draw_cells(self.cells(shown), shown.replace("_", " "), x, y):
            return figure
        raise InvalidInput("Nothing varies in these runs, so there is nothing to draw.")

    def __getitem__(self, key: Any) -> Any:
        return self.rows[key]

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return repr(self.rows)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Let other packages read the runs as a frame."""
        return self.rows.__arrow_c_stream__(requested_schema)


@dataclass(frozen=True, eq=False)
class Sweep(SweepRuns):
    """A study that was played. :func:`sweep` makes it.

    Parameters
    ----------
    source : StoredRows
        Where its rows are, one for each run.
    metric : str
        The study's first metric.
    study : Study
        The study.
    computed : int
        How many of them were played now.
    reused : int
        How many were found in the folder.
    learner_rounds : int
        How many rounds were played now, over all runs.
    seconds : float
        How long that took.
    device : str, optional
        The device, in words. Default: ``"cpu"``.
    """

    source: StoredRows
    study: Study
    computed: int
    reused: int
    learner_rounds: int
    seconds: float
    device: str = "cpu"

    @property
    def runs(self) -> int:
        """The number of runs."""
        return self.computed + self.reused

    def __len__(self) -> int:
        return self.runs

    @cached_property
    def errors(self) -> "polars.DataFrame":
        """The keys of runs that failed, with their errors."""
        return _read_errors(self.source)

    @property
    def failed(self) -> int:
        """The number of runs that failed; their rows have the error."""
        return len(self.errors)

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
    """Play all runs of a study that are not in the folder yet, and store them there.

    You can stop a sweep at any moment and start it again: rows are on the disk half a second after they are computed, or, in a
    long sweep, after a hundredth of its time so far.

    Parameters
    ----------
    study : Study
        The study.
    out : str or Path, optional
        The folder for the runs. Default: none; they are only in memory.
    backend : str, optional
        ``"local"``, the default; ``"dask"``, ``"ray"`` or ``"spark"``, where klazy is installed on the workers; or a name that
        you have registered with joblib.
    address : str, optional
        Where the cluster is.
    jobs : int, optional
        How many processes play; with 1, this process does. Default: as many as there are cores.
    retry_failed : bool, optional
        Play runs again that failed; otherwise they stay, with their error. Default: False.
    progress : callable, optional
        Called with the runs played, the runs to play, and the learner-rounds played.
    device : str, optional
        ``"cpu"``, ``"cuda"``, several GPUs as ``"cuda:0,1"``, or ``"auto"``; they are driven from this process. Default: what
        the study says.

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
        jobs = integer(jobs, "jobs", "Leave it out for all cores.")
    asked = study.device if device is None else device
    chosen = choose_device(asked)
    if chosen != "cpu" and backend != "local":
        raise InvalidInput(
            f"A GPU needs {write_option('backend', 'local')}, got {backend!r}. "
            f"Use {write_option('device', 'cpu')} on a cluster."
        )
    started = time.perf_counter()
    todo = list_tasks(study)
    wanted = list_keys(todo)
    keys = wanted
    store = None
    if out is not None:
        source = StoredRows(Path(out), keys)
        store = _open_store(Path(out), source, study, retry_failed)
        is_new = np.ones(len(keys), dtype=bool)
        for numbers in map_rows(store.folder, lambda rows: source.find(rows["key"]), ["key"]):
            is_new[numbers[numbers >= 0]] = False
        if not is_new.all():
            todo = choose_runs(todo, is_new)
            wanted = wanted[is_new]
    player = TaskPlayer(chosen, strict=asked != "auto")
    done = learner_rounds = 0
    writer = ResultWriter(store, partial(make_run_frame, keys=wanted))
    with writer, show_progress("sweeping") as report_progress:
        for task, result in _play(todo, player, backend, address, jobs):
            writer.add((task, result), len(task.team))
            done += len(task.team)
            learner_rounds += result.learner_rounds
            rate = learner_rounds / (time.perf_counter() - started) / 1e6
            report_progress(
                done / len(wanted),
                f"{done:,} of {len(wanted):,} runs, {rate:,.1f}M learner-rounds/s",
            )
            if progress is not None:
                progress(done, len(wanted), learner_rounds)
    source = StoredRows(writer.collect() if store is None else store.folder, keys)
    seconds = time.perf_counter() - started
    reused = len(keys) - len(wanted)
    where = _name_devices(player)
    return Sweep(
        source, study.metrics[0], study, len(wanted), reused, learner_rounds, seconds, where
    )


def _open_store(
    folder: Path, source: StoredRows, study: Study, retry_failed: bool
) -> ResultStore:
    """Open the store in a folder, and write there which study is played."""
    import polars as pl

    store = ResultStore(folder)
    store.write_text(STUDY, study.model_dump_json(indent=1))
    if retry_failed and any(folder.glob(PART_FILES)):
        failed = _read_errors(source)["key"]
        store.forget(pl.col("key").is_in(failed.implode()))
    return store


def _read_errors(source: StoredRows) -> "polars.DataFrame":
    """Return the keys of runs that failed, with their errors."""
    import polars as pl

    return source.read(["error"], lambda rows: rows.filter(pl.col("error").is_not_null()))


def _play(
    tasks: list[Task], player: TaskPlayer, backend: str, address: str | None, jobs: int | None
) -> Iterator[tuple[Task, TaskResult]]:
    """Play tasks on the GPU of this process or by workers, and yield each with its result."""
    if not tasks:
        return
    if player.device != "cpu":
        yield from play_on_gpu(player, tasks)
        return
    with open_workers(backend, address, jobs) as workers:
        yield from _play_by_workers(deal(tasks, workers.count), workers)


def _name_devices(player: TaskPlayer) -> str:
    """Return what runs were played on, in words."""
    if not player.used_gpu:
        return name_device("cpu")
    if player.used_cpu:
        return f"{name_device(player.device)}, and {name_device('cpu')} for what it does not play"
    return name_device(player.device)


def _play_by_workers(
    tasks: Sequence[Task], workers: Workers
) -> Iterator[tuple[Task, TaskResult]]:
    """Yield results in any order; a run that ends its worker is found by halving, and gets that as its error."""
    left = {task.first: task for task in tasks}
    try:
        for result in workers.map_unordered(play_task, tasks):
            yield left.pop(result.first), result
    except WorkerLost as lost:
        suspects = list(left.values())
        if len(suspects) == 1 and len(suspects[0].team) == 1:
            yield suspects[0], fail_task(suspects[0], lost)
            return
        for half in halve(suspects):
            yield from _play_by_workers(half, workers)


def load_sweep(folder: Path | str) -> SweepRuns:
    """Load the runs of a sweep from its folder.

    You can also query the files with DuckDB: ``SELECT k, avg(total_regret) FROM 'folder/*.parquet' GROUP BY k``.

    Parameters
    ----------
    folder : str or Path
        The folder that :func:`sweep` wrote to.

    Returns
    -------
    SweepRuns
        The runs of all studies, and versions of klazy, that were played into it; ``rows`` is their frame.

    Raises
    ------
    ValueError
        If there are no runs in the folder.
    """
    rows = load_rows(Path(folder))
    if rows is None:
        raise InvalidInput(
            f"{folder} has no runs. `klazy sweep study.toml --out {folder}` plays a study into it."
        )
    metric = METRICS[0]
    # A study of other modules is not read as a whole: that would import them.
    with suppress(OSError, ValueError, LookupError):
        metric = json.loads(Path(folder, STUDY).read_text(encoding="utf-8"))["metrics"][0]
    return SweepRuns(rows, metric)


def load_study(folder: Path, *, trust: bool = False) -> tuple[Study, SweepRuns]:
    """Return the study that was played last into a folder, and its runs there; ``trust`` as in :meth:`Study.read`."""
    file = folder / STUDY
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as failed:
        raise InvalidInput(
            f"{folder} has no study that can be read: {failed}. Play one into it."
        ) from failed
    study = Study.from_file(data, file, trust=trust)
    source = StoredRows(folder, list_keys(list_tasks(study)))
    if not any(map_rows(folder, lambda rows: (source.find(rows["key"]) >= 0).any(), ["key"])):
        rows = load_sweep(folder).rows
        versions = ", ".join(rows["version"].unique().sort())
        raise InvalidInput(
            f"{folder} has no runs of its study, only {len(rows)} others of klazy {versions}. Play the study again."
        )
    return study, SweepRuns(source, study.metrics[0])
