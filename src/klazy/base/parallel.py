"""Calls in parallel: in threads, in processes on this machine, on a dask cluster, or by any backend that joblib knows.

Open this file first to change where calls run; :mod:`klazy.studies.results` stores what they return.
"""

import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from threading import Thread, current_thread, main_thread
from typing import Any

from klazy.base.checks import InvalidInput, one_of
from klazy.base.install import advise_install
from klazy.base.options import write_option
from klazy.base.signals import end_with

BACKENDS = ("local", "dask", "ray", "spark")
_SECONDS = 30  # to wait for a cluster
_WAIT_SECONDS = 0.1  # to wait for a thread, until it is checked whether somebody pressed Ctrl-C
# A cluster counts as having this many workers at least, because others may join later.
_LEAST_WORKERS = 8
# Calls per worker in one wave, for a backend that returns all answers at once.
_WAVE = 4


class WorkerLost(RuntimeError):
    """A worker process ended in the middle of a call."""

    def __init__(self) -> None:
        super().__init__("the process that played it ended, was killed or ran out of memory")


@dataclass(frozen=True)
class Workers:
    """Workers that make ``count`` calls at a time; ``map_unordered(function, items)`` yields answers as they come.

    A call that raises ends all others. If a call ends its worker, :class:`WorkerLost` is raised.
    """

    count: int
    map_unordered: Callable[[Callable[[Any], Any], Sequence[Any]], Iterator[Any]]


def map_threads(
    function: Callable[[Any], Any], items: Iterable[Any], count: int = 1
) -> list[Any]:
    """Call a function with each item, ``count`` at a time in threads of this process; return the answers in order.

    Ctrl-C waits for no call, and nor does the end of the process: compiled code cannot be interrupted. Calls that have begun
    go on.
    """
    calls = [(Future[Any](), item) for item in items]
    if count == 1 and current_thread() is not main_thread():
        return [function(item) for _, item in calls]
    todo = iter(calls)

    def work() -> None:
        for answer, item in todo:
            if not answer.set_running_or_notify_cancel():
                continue
            try:
                answer.set_result(function(item))
            except BaseException as failed:
                answer.set_exception(failed)

    for _ in range(min(count, len(calls))):
        Thread(target=work, daemon=True).start()
    try:
        return [wait_for(answer) for answer, _ in calls]
    finally:
        for answer, _ in calls:
            answer.cancel()


def wait_for(answer: Future[Any]) -> Any:
    """Return the answer of a call; Ctrl-C is raised at once."""
    # Where polars handles signals, none ends a wait without a limit.
    while not answer.done():
        wait([answer], _WAIT_SECONDS)
    return answer.result()


@contextmanager
def open_workers(
    backend: str = "local", address: str | None = None, jobs: int | None = None
) -> Iterator[Workers]:
    """Connect to workers: ``jobs`` processes on this machine, or those of the cluster at ``address``.

    ``backend`` may also be a name that you have registered with joblib. With ``jobs=1`` this process makes the calls.
    """
    from joblib import parallel_config
    from joblib.parallel import BACKENDS as REGISTERED
    from joblib.parallel import get_active_backend

    if backend not in REGISTERED:
        one_of(backend, "backend", BACKENDS)
    if backend == "local" and address is not None:
        others = ", ".join(BACKENDS[1:])
        raise InvalidInput(
            f"Local processes have no address, got {address!r}. Other backends are {others}."
        )
    try:
        connected = _connect(backend, address)
    except ImportError as missing:
        raise InvalidInput(f"{backend} is not installed. Run: {_advise(backend)}") from missing
    if backend == "dask":
        with connected:
            count = max(_LEAST_WORKERS, sum(connected.ncores().values()))
            yield Workers(count, partial(_map_on_dask, connected))
        return
    with warnings.catch_warnings(), parallel_config(**connected, n_jobs=jobs or -1):
        # joblib replaces a worker that has grown, and warns. Nothing is lost.
        warnings.filterwarnings("ignore", "A worker stopped while some jobs")
        active: Any = get_active_backend()[0]
        count = active.effective_n_jobs(jobs or -1)
        wave = None if active.supports_return_generator else _WAVE * count
        yield Workers(count, partial(_map_by_joblib, wave))


def map_unordered(
    function: Callable[[Any], Any], items: Sequence[Any], jobs: int | None = None
) -> Iterator[Any]:
    """Call a function with each item in ``jobs`` processes on this machine; yield answers as they come."""
    with open_workers(jobs=jobs) as workers:
        yield from workers.map_unordered(function, items)


def _connect(backend: str, address: str | None) -> Any:
    """Return a client of dask, or the options of joblib for another backend, which it registers."""
    if backend == "dask":
        return _connect_dask(address)
    if backend == "local":
        path = [os.path.abspath(folder) for folder in sys.path]
        return {"backend": "loky", "initializer": _begin_work, "initargs": (os.getpid(), path)}
    if backend == "ray":
        import_module("ray.util.joblib").register_ray()
        import_module("ray").init(address=address, ignore_reinit_error=True, log_to_driver=False)
    if backend == "spark":
        import_module("joblibspark").register_spark()
        session = import_module("pyspark.sql").SparkSession.builder.appName("klazy")
        session = session if address is None else session.master(address)
        session.getOrCreate()
    return {"backend": backend}


def _begin_work(driver: int, path: list[str]) -> None:
    """Prepare a worker to import what its driver can; joblib starts new workers once one of these arguments changes."""
    sys.path[:] = path
    end_with(driver)


def _advise(backend: str) -> str:
    """Return the command that installs what a backend needs."""
    packages = {"ray": "ray", "spark": "joblibspark pyspark"}
    return (
        f"pip install {packages[backend]}" if backend in packages else advise_install("cluster")
    )


def _map_by_joblib(
    wave: int | None, function: Callable[[Any], Any], items: Sequence[Any]
) -> Iterator[Any]:
    from joblib import Parallel, delayed
    from joblib.externals.loky import get_reusable_executor
    from joblib.externals.loky.process_executor import BrokenProcessPool

    size = max(1, wave or len(items))
    how = "list" if wave else "generator_unordered"
    try:
        for first in range(0, len(items), size):
            calls = (delayed(function)(item) for item in items[first : first + size])
            answers: Any = Parallel(return_as=how)(calls)
            yield from answers
    except BrokenProcessPool as lost:
        raise WorkerLost from lost
    except KeyboardInterrupt:
        # Workers would finish their current call otherwise.
        get_reusable_executor().shutdown(wait=False, kill_workers=True)
        raise


def _connect_dask(address: str | None) -> Any:
    """Return a client of the scheduler at this address, once it has a worker."""
    from dask.distributed import Client

    if address is None:
        option = write_option("address", "tcp://host:8786")
        raise InvalidInput(f"dask needs the address of its scheduler, such as {option}.")
    try:
        client = Client(address, timeout=_SECONDS, set_as_default=False)
    except (OSError, ValueError) as failed:
        raise InvalidInput(f"No dask scheduler answers at {address}: {failed}") from failed
    try:
        client.wait_for_workers(1, timeout=_SECONDS)
    except TimeoutError as none:
        client.close()
        message = (
            f"The dask scheduler at {address} had no worker for {_SECONDS} seconds. Start one."
        )
        raise InvalidInput(message) from none
    return client


def _map_on_dask(
    client: Any, function: Callable[[Any], Any], items: Sequence[Any]
) -> Iterator[Any]:
    """Call dask itself: joblib's backend waits forever for a call that ends its worker, and ignores a single worker."""
    from dask.distributed import KilledWorker, as_completed

    try:
        for future in as_completed(client.map(function, items, pure=False), client.loop):
            yield future.result()
    except KilledWorker as lost:
        raise WorkerLost from lost
