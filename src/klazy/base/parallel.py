"""Calls in parallel through joblib: processes on this machine, or the workers of a cluster."""

import multiprocessing
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from threading import Thread
from typing import Any, cast

from klazy.base.checks import refusal
from klazy.base.install import advise_install

BACKENDS = ("local", "dask", "ray", "spark")
LOST = "the process that played it ended, was killed or ran out of memory"
_WAVE = 4  # calls per worker at a time, for a cluster that gives its answers back all at once
_SECONDS = 30  # to wait for a cluster
_GLANCE = 0.2  # seconds between two looks of a worker whether its driver is still there
_KILL = getattr(
    signal, "SIGKILL", signal.SIGTERM
)  # the latter is the same where there is no SIGKILL: on Windows
_LEAST = 8  # workers that a cluster is taken to have: others may come, and a single one joblib would not use


class WorkerLost(RuntimeError):
    """A worker process ended in the middle of a call."""


@contextmanager
def open_workers(
    backend: str = "local", address: str | None = None, jobs: int | None = None
) -> Iterator[int]:
    """Use these workers for all calls of :func:`map_unordered` within; yields how many calls to have at once."""
    from joblib import effective_n_jobs, parallel_config

    connections = {
        "local": _connect_local,
        "dask": _connect_dask,
        "ray": _connect_ray,
        "spark": _connect_spark,
    }
    connect = connections[backend]
    with connect(address) as options, parallel_config(**options, n_jobs=jobs or -1):
        yield effective_n_jobs(jobs or -1)


def map_unordered(function: Callable[[Any], Any], items: Sequence[Any]) -> Iterator[Any]:
    """The answers as they come; a call that raises ends them all. Workers are those of :func:`open_workers` around it."""
    from joblib import Parallel, delayed
    from joblib.externals.loky import get_reusable_executor
    from joblib.externals.loky.process_executor import BrokenProcessPool
    from joblib.parallel import get_active_backend

    active, count = cast(Any, get_active_backend())
    at_once = len(items)
    how = "generator_unordered"
    if not active.supports_return_generator:
        at_once = _WAVE * active.effective_n_jobs(count)
        how = "list"
    try:
        for first in range(0, len(items), max(1, at_once)):
            calls = (delayed(function)(item) for item in items[first : first + at_once])
            answers: Any = Parallel(return_as=how)(calls)
            yield from answers
    except BrokenProcessPool as lost:
        raise WorkerLost(LOST) from lost
    except Exception as failed:
        if type(failed).__name__ == "KilledWorker":  # as dask calls it
            raise WorkerLost(LOST) from failed
        raise
    except KeyboardInterrupt:
        get_reusable_executor().shutdown(wait=False, kill_workers=True)  # they would finish what they are at
        raise


def end_at_signals() -> None:
    """From now on end this process and its workers at once at Ctrl-C or SIGTERM, even in the middle of compiled code.

    Python runs handlers of signals between two lines of Python only. It writes their numbers to a socket at once, though.
    """
    told, tell = socket.socketpair()  # Windows takes these, too
    tell.setblocking(False)
    signal.set_wakeup_fd(tell.detach())
    signal.signal(signal.SIGTERM, _leave_to_thread)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # and not ignored, as after nohup
        signal.signal(signal.SIGINT, _leave_to_thread)
    Thread(target=_end_when_told, args=(told,), daemon=True).start()


def _leave_to_thread(*_: object) -> None:
    """What is to be done at a signal, :func:`_end_when_told` does."""


def _end_when_told(told: socket.socket) -> None:
    (number,) = told.recv(1)
    for child in multiprocessing.active_children():
        if child.pid is not None:
            os.kill(child.pid, _KILL)  # joblib's have no method for it
    os._exit(128 + number)


@contextmanager
def _connect_local(address: str | None) -> Iterator[dict[str, Any]]:
    if address is not None:
        raise refusal(
            "sweep",
            "no address for local processes",
            "address",
            address,
            f"choose a backend among {', '.join(BACKENDS[1:])}",
        )
    yield {"backend": "loky", "initializer": end_with, "initargs": (os.getpid(),)}


def end_with(driver: int) -> None:
    """End this process, a worker, soon after its driver has ended, and leave Ctrl-C to that one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_watch, args=(driver,), daemon=True).start()


def _watch(driver: int) -> None:
    while os.getppid() == driver:
        time.sleep(_GLANCE)
    os._exit(1)


@contextmanager
def _connect_dask(address: str | None) -> Iterator[dict[str, Any]]:
    try:
        from dask.distributed import Client
    except ImportError as missing:
        raise _missing_package("dask", advise_install("cluster")) from missing
    if address is None:
        raise refusal(
            "sweep", "the scheduler's address for dask", "address", address, "write --address tcp://host:8786"
        )
    try:
        client = Client(address, timeout=_SECONDS, set_as_default=False)
    except (OSError, ValueError) as failed:
        raise refusal(
            "sweep", "a dask scheduler that answers", "address", address, f"start one there ({failed})"
        ) from failed
    with client:
        yield {"backend": _make_dask_backend(client, address)}


def _make_dask_backend(client: Any, address: str) -> Any:
    """joblib's backend, which by itself plays here if there is a single worker, and waits for ever for a call that kills it."""
    from joblib._dask import DaskDistributedBackend

    class OnDask(DaskDistributedBackend):
        def effective_n_jobs(self, n_jobs: int) -> int:
            try:
                return max(_LEAST, super().effective_n_jobs(n_jobs))
            except TimeoutError as none:
                remedy = f"start one, none came in {_SECONDS} seconds"
                raise refusal("sweep", "a dask scheduler with workers", "address", address, remedy) from none

        def submit(self, func: Any, callback: Any = None) -> Any:
            future = super().submit(func, callback)
            future.add_done_callback(lambda done: done.exception() and callback(done.exception()))
            return future

        def retrieve_result_callback(self, out: Any) -> Any:
            if isinstance(out, BaseException):
                raise out
            return super().retrieve_result_callback(out)

    return OnDask(client=client, wait_for_workers_timeout=_SECONDS)


@contextmanager
def _connect_ray(address: str | None) -> Iterator[dict[str, Any]]:
    try:
        ray = import_module("ray")
        joining = import_module("ray.util.joblib")
    except ImportError as missing:
        raise _missing_package("ray", "pip install ray") from missing
    joining.register_ray()
    with ray.init(address=address, ignore_reinit_error=True, log_to_driver=False):
        yield {"backend": "ray"}


@contextmanager
def _connect_spark(address: str | None) -> Iterator[dict[str, Any]]:
    try:
        joining = import_module("joblibspark")
        sql = import_module("pyspark.sql")
    except ImportError as missing:
        raise _missing_package("spark", "pip install joblibspark pyspark") from missing
    joining.register_spark()
    session = sql.SparkSession.builder.appName("klazy")
    if address is not None:
        session = session.master(address)
    with session.getOrCreate():
        yield {"backend": "spark"}


def _missing_package(backend: str, command: str) -> Exception:
    return refusal("sweep", f"{backend} installed for this backend", "backend", backend, command)
