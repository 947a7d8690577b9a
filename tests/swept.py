"""Sweeps in processes of their own, and a dask cluster to play them on."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from klazy.studies.sweep import Study, load_sweep, sweep

# Children are forked before polars has threads, and play in the process itself, so that hundreds can be killed in seconds.
SERVER = """
import json, os, random, signal, sys, time
sys.path.insert(0, {tests!r})
from klazy.studies import results
from klazy.studies.sweep import Study, execute
from klazy.studies.sweep.player import play_task
from klazy.studies.sweep.tasks import list_tasks
results.WRITE_SECONDS = results.WRITE_SHARE = 0.0  # a file for every task
study, out = Study(**json.loads({study!r})), {out!r}
for task in list_tasks(study):
    play_task(task)  # kernels are compiled here
    break

def child(then=lambda found: None, pipe=None):
    pid = os.fork()
    if pid == 0:
        then(execute.sweep(study, out, jobs=1, progress=pipe and (lambda *_: os.write(pipe, b"."))))
        os._exit(0)
    return pid
"""


def served(script: str, of: Study, out: Path, **environment: str) -> list[str]:
    """Return what the script prints, line by line, when it runs after SERVER."""
    tests = str(Path(__file__).parent)
    code = SERVER.format(tests=tests, study=json.dumps(of.to_dict()), out=str(out)) + script
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=os.environ | environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


MANY = {
    "scenarios": [{"recipe": "stochastic", "phases": 2, "length": 20}],
    "learners": [{"rule": "KLazyGD", "sigma": 2.0, "k": list(range(1, 9))}],
    "seeds": 60,
}


def assert_whole(out: Path, of: Study) -> None:
    """Every run of the study is there once, and is what it is when nothing disturbs it."""
    rows, undisturbed = load_sweep(out).rows.sort("key"), sweep(of, jobs=1).rows.sort("key")
    assert rows["key"].n_unique() == len(rows)
    assert rows.equals(undisturbed)
    assert [file.name for file in out.iterdir() if file.name.endswith(".partial")] == []


QUIET: Any = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
DASK = [sys.executable, "-m", "dask"]


@contextmanager
def start_scheduler(folder: Path, failures: int):
    """A dask scheduler without workers, which gives a task up after this many of its workers have ended."""
    file = folder / "scheduler.json"
    where = ("--host", "127.0.0.1", "--port", "0", "--scheduler-file", file, "--no-dashboard")
    allowed = {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": str(failures)}
    with process(*DASK, "scheduler", *where, env=os.environ | allowed):
        until(lambda: file.exists() and file.stat().st_size)
        yield Scheduler(file)


@contextmanager
def process(*command, **options):
    """A process that ends with the block."""
    started = subprocess.Popen(list(map(str, command)), **QUIET, **options)
    try:
        yield started
    finally:
        started.terminate()
        started.wait(30)


def until(holds: Callable[[], object]) -> None:
    """Wait for at most a minute."""
    for _ in range(600):
        if holds():
            return
        time.sleep(0.1)
    raise AssertionError("a minute has gone by")


class Scheduler(NamedTuple):
    """A dask scheduler in a process of its own."""

    file: Path

    @property
    def address(self) -> str:
        return json.loads(self.file.read_text())["address"]

    @contextmanager
    def worker(self, threads: int = 1, path: Path | str = "", wait: bool = True):
        """A worker in a process of its own, where modules in the folder ``path`` are found."""
        options = (
            "--scheduler-file",
            self.file,
            "--nthreads",
            threads,
            "--no-nanny",
            "--no-dashboard",
            "--death-timeout",
            60,
        )
        before = self.workers() if wait else 0
        paths = os.pathsep.join((str(path), os.environ.get("PYTHONPATH", "")))
        with process(
            *DASK, "worker", *options, env=os.environ | {"PYTHONPATH": paths}
        ) as started:
            if wait:
                until(lambda: self.workers() > before)
            yield started

    def workers(self) -> int:
        from dask.distributed import Client

        with Client(self.address, set_as_default=False) as client:
            return len(client.scheduler_info()["workers"])
