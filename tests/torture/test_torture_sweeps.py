"""Sweeps under failing disks, kills, other sweeps in their folder and lost workers: every run is there once, and right."""

import errno
import json
import random
import time
from contextlib import ExitStack
from threading import Thread

import pytest
from audit import amount, record

from klazy.studies.sweep import Study, sweep
from nursery import SHORT
from swept import MANY, assert_whole, served, start_scheduler, until

KINDS = {"EIO": errno.EIO, "ENOSPC": errno.ENOSPC, "short writes": SHORT}
FEW = MANY | {"seeds": 5}

# Each sweep fails at another call that changes files, once or (a full disk) from then on, until one gets through.
# A second sweep, when the system works again, must complete it.
FAULTS = """
import ctypes, shutil
from klazy.studies.sweep import load_sweep
system = ctypes.CDLL(None)
expected = execute.sweep(study, jobs=1).rows.sort("key")
tried = failed = 0
for lasts in (0, 1):
    for moment in range(1, 10**6, {step}):
        shutil.rmtree(out, ignore_errors=True)
        system.klazy_arm(ctypes.c_long(moment), {error}, lasts)
        went = True
        try:
            execute.sweep(study, out, jobs=1)
        except (OSError, ValueError):
            went = False
        made = system.klazy_calls()
        system.klazy_arm(ctypes.c_long(0), 0, 0)
        tried += 1
        failed += not went
        execute.sweep(study, out, jobs=1)
        rows = load_sweep(out).rows.sort("key")
        assert rows.equals(expected), (lasts, moment)
        assert not [name for name in os.listdir(out) if name.endswith(".partial")], (lasts, moment)
        if made < moment:
            break
print(json.dumps([tried, failed]))
"""

# Two sweeps play into one folder. Time and again one of them is killed, and another one takes its place.
SHARED = """
import shutil

def end(pid):
    os.kill(pid, signal.SIGKILL)
    return os.waitpid(pid, 0)[1]

random.seed(2)
sweeps = [child(), child()]
for _ in range({kills}):
    time.sleep(random.uniform(0.0, 0.2))
    random.shuffle(sweeps)
    if end(sweeps.pop()) == 0:  # All runs are there: begin anew.
        end(sweeps.pop())
        shutil.rmtree(out)
        sweeps.append(child())
    sweeps.append(child())
for pid in sweeps:
    os.waitpid(pid, 0)
"""


@pytest.mark.parametrize("kind", KINDS)
def test_the_system_fails_at_calls_of_a_sweep(kind, tmp_path, faults):
    script = FAULTS.format(error=KINDS[kind], step=amount(9, 1))
    (line,) = served(script, Study(**FEW), tmp_path / "out", **faults)
    tried, failed = json.loads(line)
    assert tried >= 4
    assert (failed > 0) == (kind != "short writes")
    what = f"calls of the system that fail ({kind}), in sweeps"
    record(
        f"faults-sweep-{kind.split()[0]}",
        what,
        tried,
        "a second sweep has every run once, and right",
    )


def test_two_sweeps_share_a_folder_while_either_is_killed(tmp_path):
    wanted = amount(5, 2_000)
    of = Study(**MANY)
    out = tmp_path / "out"
    served(SHARED.format(kills=wanted), of, out)
    sweep(of, out, jobs=1)
    assert_whole(out, of)
    record(
        "kills-sweeps",
        "SIGKILL of one of two sweeps in one folder",
        wanted,
        "every run was there once, and right",
    )


@pytest.mark.long
def test_dask_workers_are_lost_and_others_come(tmp_path):
    """A task whose worker ends is played by another one."""
    wanted = amount(4, 100)
    of = Study(**MANY | {"scenarios": [{"recipe": "stochastic", "phases": 200, "length": 100}]})
    out = tmp_path / "out"
    rng = random.Random(0)
    lost = 0
    with start_scheduler(tmp_path, failures=1000) as dask, ExitStack() as stack:
        workers = [stack.enter_context(dask.worker()) for _ in range(2)]
        found = []

        def play():
            found.append(sweep(of, out, backend="dask", address=dask.address))

        while lost < wanted:
            found.clear()
            for part in out.glob("part-*"):
                part.unlink()  # it was finished: from the beginning
            playing = Thread(target=play, daemon=True)
            playing.start()
            while playing.is_alive() and lost < wanted:
                time.sleep(rng.uniform(0.1, 2.0))
                workers.pop(rng.randrange(2)).kill()
                lost += 1
                workers.append(stack.enter_context(dask.worker(wait=False)))
                until(lambda: dask.workers() >= 1)
            playing.join(300)
            assert found, "the sweep waits for ever"
    assert (found[0].runs, found[0].failed) == (480, 0)
    assert_whole(out, of)
    record(
        "lost-workers",
        "dask workers killed while they play",
        lost,
        "every run was there once, and right",
    )
