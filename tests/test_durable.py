"""An agent that lives on disk: it survives kills, torn and damaged files, full disks and lost power, bit for bit."""

import copy
import errno
import os
import pickle
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import warnings
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import klazy as kl
from cases import EVERY_LEARNER, gradients
from klazy.base import config
from klazy.kernels.layout import find_missing_part
from klazy.live import journal as files
from klazy.live import records, state
from klazy.live.state import REMEMBERED, Live
from nursery import (
    GRADIENTS,
    GUARDS,
    LEARNER,
    LENGTH,
    Disk,
    contents,
    flipped,
    in_memory,
    on_disk,
    open_step,
    play,
    seen,
    share,
    write,
)


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch):
    """Nothing but a loss of power can tell whether fsync did something; the tests about that look at it themselves."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "agent"


def play_with(agent, id):
    """All that threads may do to an agent, a round among it."""
    agent.update(GRADIENTS[0], id=id)
    agent.freeze()
    agent.explain()
    agent.resume()
    agent.update(GRADIENTS[1], id=id)


@pytest.mark.xdist_group("L1Ball0")  # with tests/test_agent.py, which has the kernels of this set
@pytest.mark.parametrize("make", EVERY_LEARNER.values(), ids=EVERY_LEARNER)
@pytest.mark.parametrize("guards", [None, GUARDS], ids=["free", "guarded"])
def test_it_goes_on_bit_for_bit_from_the_files_of_any_round(make, guards, tmp_path, monkeypatch):
    domain = kl.L1Ball(12, 2.0, np.linspace(0.0, 0.3, 12))
    learner, g = make(domain, kl.ScaleFree(2.0)), gradients(1, 24, 12)
    monkeypatch.setattr(files, "LIMIT", 5 * records.length_of(12))
    for engine in ("step",) if find_missing_part(learner) else ("step", "compiled"):
        straight, at = kl.Agent(learner, engine=engine, guards=guards), tmp_path / engine
        agent = kl.Agent.open(at, learner, engine=engine, guards=guards)
        for t, row in enumerate(g, start=1):
            assert np.array_equal(play(agent, t, row), play(straight, t, row))
            if t % 3 == 0:  # what is there now is what a kill would leave
                at = shutil.copytree(at, tmp_path / f"{engine}-{t}")
                agent.close()
                agent = kl.Agent.open(at, learner if t % 2 else None)
            assert seen(agent) == seen(straight)
        agent.close()


@given(stops=st.lists(st.integers(1, 9), max_size=8), seed=st.integers(0, 2**16), hinted=st.booleans())
def test_hints_and_ids_are_replayed_too(stops, seed, hinted):
    learner, g = kl.MemoryGD(kl.L2Ball(3), kl.Sqrt(3.0), kl.Clip(0.8)), gradients(seed, 9, 3)
    straight = kl.Agent(learner, engine="step")
    with tempfile.TemporaryDirectory() as path:
        agent = kl.Agent.open(path, learner, engine="step")
        for t, row in enumerate(g, start=1):
            for each in (agent, straight):
                each.update(row, hint=0.5 * row if hinted and t % 2 else None, id=t)
            for _ in range(stops.count(t)):
                agent.close()
                agent = kl.Agent.open(path)
            assert np.array_equal(agent.update(row, id=max(1, t - 3)), straight.x)
            assert seen(agent) == seen(straight)
        agent.close()


def test_ids_are_remembered_for_4096_rounds_whatever_happens(folder, monkeypatch):
    monkeypatch.setattr(files, "LIMIT", 100 * LENGTH)
    g = np.ones(2)
    with open_step(folder) as agent:
        for t in range(1, REMEMBERED + 2):
            agent.update(g, id=t)
    with open_step(folder) as agent:
        assert agent.t == REMEMBERED + 2
        for t in (2, 77, REMEMBERED + 1):
            agent.update(g, id=str(t))
        assert agent.t == REMEMBERED + 2
        agent.update(g, id=1)  # forgotten: taken again, and now the second is forgotten
        agent.update(g, id=2)
        assert agent.t == REMEMBERED + 4


class TestDamage:
    ROUNDS = 6
    START = records.FIRST + (ROUNDS - 1) * LENGTH  # of the last record

    def after_a_torn_end(self, path, content):
        """Opening drops the last round and says so; delivered again, it is as if nothing had happened."""
        with pytest.warns(
            kl.TornJournal, match=f"dropped from byte {self.START} on; go on in round t={self.ROUNDS}"
        ):
            agent = open_step(write(path, content))
        with agent:
            assert seen(agent) == seen(in_memory(self.ROUNDS - 1))
            play(agent, self.ROUNDS, GRADIENTS[self.ROUNDS - 1])
            assert seen(agent) == seen(in_memory(self.ROUNDS))

    def test_the_last_record_cut_at_every_byte(self, folder):
        content = on_disk(folder, self.ROUNDS)
        assert len(content["journal"]) == self.START + LENGTH
        for kept in range(1, LENGTH):
            self.after_a_torn_end(folder, content | {"journal": content["journal"][: self.START + kept]})
        with open_step(write(folder, content | {"journal": content["journal"][: self.START]})) as agent:
            assert agent.t == self.ROUNDS  # a record that is not there at all is no torn one

    @pytest.mark.parametrize("flip", [1, 0x80, 0xFF])
    def test_the_last_record_damaged_at_every_byte(self, folder, flip):
        content = on_disk(folder, self.ROUNDS)
        for at in range(self.START, self.START + LENGTH):
            self.after_a_torn_end(folder, content | {"journal": flipped(content["journal"], at, flip)})

    def test_zeros_where_the_last_record_should_be(self, folder):
        """A file system may lengthen a file before it writes what belongs there."""
        content = on_disk(folder, self.ROUNDS)
        self.after_a_torn_end(folder, content | {"journal": content["journal"][: self.START] + bytes(LENGTH)})

    def test_every_byte_before_the_last_record(self, folder):
        content = on_disk(folder, self.ROUNDS)
        for at in range(records.FIRST, self.START):
            begin = at - (at - records.FIRST) % LENGTH
            damaged = content | {"journal": flipped(content["journal"], at, 1 << at % 8)}
            with pytest.raises(
                ValueError,
                match=rf"needs whole records in .*journal, got a damaged one at byte={begin}; restore",
            ):
                open_step(write(folder, damaged))
            assert {name: (folder / name).read_bytes() for name in damaged} == damaged  # nothing was touched

    def test_every_byte_of_the_header_and_of_the_snapshot(self, folder):
        content = on_disk(folder, self.ROUNDS)
        for name, size in (("journal", records.FIRST), ("snapshot", len(content["snapshot"]))):
            for at in range(size):
                damaged = content | {name: flipped(content[name], at, 1 << at % 8)}
                with pytest.raises(ValueError, match=rf"Agent.open needs .*{name}.* got "):
                    open_step(write(folder, damaged))

    def test_records_that_are_missing(self, folder):
        content = on_disk(folder, self.ROUNDS)
        journal = content["journal"]
        without_first = journal[: records.FIRST] + journal[records.FIRST + LENGTH :]
        without_third = journal[: records.FIRST + 2 * LENGTH] + journal[records.FIRST + 3 * LENGTH :]
        with pytest.raises(
            ValueError, match=r"needs records from number 0 on in .*, got number 1 at byte=24; restore"
        ):
            open_step(write(folder, content | {"journal": without_first}))
        with pytest.raises(ValueError, match=f"got number 3 at byte={records.FIRST + 2 * LENGTH}; restore"):
            open_step(write(folder, content | {"journal": without_third}))

    def test_files_that_do_not_belong_together(self, folder, tmp_path):
        content = on_disk(folder, self.ROUNDS)
        with kl.Agent.open(tmp_path / "other", LEARNER.replace(k=5), engine="step"):
            pass
        with pytest.raises(ValueError, match=r"the snapshot's learner in .*journal, got key="):
            open_step(write(folder, content | {"journal": (tmp_path / "other" / "journal").read_bytes()}))
        (folder / "snapshot").unlink()
        with pytest.raises(
            ValueError, match=r"needs a snapshot beside the journal in .*, got snapshot=None; restore"
        ):
            open_step(write(folder, {"journal": content["journal"]}))
        shutil.rmtree(folder)
        with pytest.raises(
            ValueError, match=r"needs a header in .*journal, got a damaged one at byte=0; restore"
        ):
            open_step(write(folder, {"snapshot": content["snapshot"]}))

    def test_a_journal_that_its_snapshot_already_holds(self, folder):
        """A crash between the two leaves it; so may a lost tail of such a journal."""
        old = on_disk(folder, self.ROUNDS)["journal"]
        with open_step(folder):
            new = (folder / "snapshot").read_bytes()
        for journal in (old, old[:-LENGTH], old[: -LENGTH - 1], old[: records.FIRST]):
            with open_step(write(folder, {"snapshot": new, "journal": journal})) as agent:
                assert seen(agent) == seen(in_memory(self.ROUNDS))

    def test_after_a_clean_close_the_journal_is_empty_and_any_damage_is_refused(self, folder):
        """There is no record of which one could say that it was never completed."""
        on_disk(folder, 30, sync="batch")
        content = contents(folder)
        assert content.keys() == {"snapshot", "journal"}
        assert len(content["journal"]) == records.FIRST
        for name, data in content.items():
            for at in range(0, len(data), 7):
                with pytest.raises(ValueError, match=r"Agent.open needs "):
                    open_step(write(folder, content | {name: flipped(data, at, 1 << at % 8)}))
        with open_step(write(folder, content)) as agent:
            assert seen(agent) == seen(in_memory(30))

    def test_what_is_dropped_is_set_aside(self, folder):
        content = on_disk(folder, self.ROUNDS, sync="batch")
        at = records.FIRST + 2 * LENGTH
        damaged = content | {"journal": flipped(content["journal"], at + 50, 1)}
        for _ in range(2):  # the same once more is kept once
            with pytest.warns(kl.TornJournal, match=r"go on in round t=3; what was dropped is in torn-2-"):
                open_step(write(folder, damaged)).close()
        (kept,) = folder.glob("torn-*")
        assert kept.read_bytes() == content["journal"][: records.FIRST] + damaged["journal"][at:]

    @pytest.mark.parametrize("rounds", [0, 3])
    def test_a_lost_file_is_never_a_new_agent(self, folder, rounds):
        on_disk(folder, rounds)
        content = contents(folder)
        for name in content:
            (folder / name).unlink()
            with pytest.raises(
                ValueError, match=r"Agent.open needs a (snapshot beside the journal|header) in"
            ):
                open_step(folder)
            write(folder, content)

    def test_an_agent_that_was_not_yet_born_may_be_born_again(self, folder):
        """A crash while its first files are written leaves these."""
        for journal in (b"", b"klazy", records.build_header(LENGTH, 0)):
            write(folder, {"snapshot": files._write_snapshot(files._UNBORN), "journal": journal})
            with pytest.raises(ValueError, match="Agent needs a learner"):
                kl.Agent.open(folder)
            with open_step(folder) as agent:
                play(agent, 1, GRADIENTS[0])
            with open_step(folder) as agent:
                assert seen(agent) == seen(in_memory(1))


def test_in_batches_only_what_was_not_forced_to_disk_may_be_lost(folder, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(files, "monotonic", lambda: clock[0])
    with open_step(folder, sync="batch") as agent:
        for t, row in enumerate(GRADIENTS[:9], start=1):
            clock[0] += 1.0 if t == 5 else 0.1  # records 0 to 4 are forced to disk with the fifth
            play(agent, t, row)
        content = {name: (folder / name).read_bytes() for name in ("snapshot", "journal")}
    for lost in range(9):
        damaged = content | {"journal": flipped(content["journal"], records.FIRST + lost * LENGTH + 50, 1)}
        if lost < 5:
            with pytest.raises(ValueError, match=f"a damaged one at byte={records.FIRST + lost * LENGTH}"):
                open_step(write(folder, damaged))
        else:
            with pytest.warns(kl.TornJournal, match=f"t={lost + 1}"):
                agent = open_step(write(folder, damaged))
            with agent:
                assert seen(agent) == seen(in_memory(lost))


class TestOneWriter:
    def test_an_open_agent_cannot_be_opened_again(self, folder):
        message = r"Agent.open needs an agent that nobody has open, got path=.*agent; close it there first"
        with open_step(folder) as agent:
            with pytest.raises(ValueError, match=message):
                open_step(folder)
            script = f"import klazy as kl; kl.Agent.open({str(folder)!r})"
            ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
            assert "needs an agent that nobody has open" in ran.stderr
            agent.update(np.ones(2))
        with open_step(folder) as agent:
            assert agent.t == 2

    def test_a_closed_agent_takes_no_rounds(self, folder):
        with open_step(folder, guards=kl.Guards()) as agent:
            agent.update(np.ones(2))
        agent.close()
        before = seen(agent)
        for change in (lambda: agent.update(np.ones(2)), agent.freeze):
            with pytest.raises(
                ValueError,
                match=r"Agent needs an open journal, got path=.*; it was closed; open the agent again",
            ):
                change()
        assert seen(agent) == before

    def test_a_forked_process_takes_no_rounds(self, folder, monkeypatch):
        with open_step(folder) as agent:
            monkeypatch.setattr(os, "getpid", lambda: -1)
            with pytest.raises(ValueError, match="Agent needs the process that opened it"):
                agent.update(np.ones(2))
            monkeypatch.undo()
            assert agent.t == 1

    def test_a_forked_process_does_not_keep_the_agent_of_a_killed_one(self, folder):
        script = f"""
import os, sys, nursery, numpy as np
agent = nursery.open_step({str(folder)!r})
agent.update(np.ones(2))
if os.fork() == 0:
    try:
        agent.update(np.ones(2))
    except ValueError as refused:
        print(refused, flush=True)
    sys.stdin.read()
os.kill(os.getpid(), 9)
"""
        with subprocess.Popen(
            [sys.executable, "-c", script],
            cwd=Path(__file__).parent,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            assert "needs the process that opened it" in process.stdout.readline()
            assert process.wait() == -signal.SIGKILL
            with open_step(folder) as agent:  # while the forked process lives on
                assert agent.t == 2
            process.stdin.close()

    @pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
    def test_it_is_not_copied_for_the_copys_rounds_would_reach_no_disk(self, folder, tmp_path, copied):
        with open_step(folder) as agent:
            agent.update(np.ones(2))
            with pytest.raises(ValueError, match=r"Agent needs to live in memory to be copied, got path=.*"):
                copied(agent)
            agent.save(tmp_path / "agent.json")
        assert kl.Agent.load(tmp_path / "agent.json").t == 2

    ROUNDS = 100

    def test_threads_take_turns(self, folder):
        with open_step(folder, guards=GUARDS) as agent:
            ids = iter(range(self.ROUNDS))
            share(lambda: play_with(agent, next(ids)), self.ROUNDS)
            taken = seen(agent)
        with open_step(folder) as agent:
            assert agent.t == self.ROUNDS + 1
            assert seen(agent) == taken

    def test_it_stays_in_its_folder_wherever_the_process_goes(self, tmp_path, monkeypatch):
        monkeypatch.setattr(files, "LIMIT", 2 * LENGTH)
        here, there = tmp_path / "here", tmp_path / "there"
        for place in (there, here):  # in each there is an agent of the same relative path
            place.mkdir()
            monkeypatch.chdir(place)
            open_step("agent").close()
        other = contents(there / "agent")
        with open_step("agent") as agent:
            monkeypatch.chdir(there)
            for t in range(1, 9):
                play(agent, t, GRADIENTS[t - 1])
        assert contents(there / "agent") == other
        with open_step(here / "agent") as agent:
            assert seen(agent) == seen(in_memory(8))

    @pytest.mark.parametrize("how", ["moved", "removed", "replaced", "restored"])
    def test_a_folder_that_was_replaced_under_it_takes_no_more_rounds(self, folder, tmp_path, how):
        agent = open_step(folder)
        play(agent, 1, GRADIENTS[0])
        backup = Path(shutil.copytree(folder, tmp_path / "backup"))
        for t in (2, 3):
            play(agent, t, GRADIENTS[t - 1])
        moved = folder.rename(tmp_path / "moved")
        if how == "removed":
            shutil.rmtree(moved)
        if how == "replaced":
            folder.write_text("a file")
        if how == "restored":
            backup.rename(folder)
        now = {} if how != "restored" else contents(folder)
        message = r"Agent needs the folder that it was opened in, got path=.*agent; it was moved, removed or"
        for _ in range(2):
            with pytest.raises(ValueError, match=message):
                play(agent, 4, GRADIENTS[3])
        assert seen(agent) == seen(in_memory(3))
        agent.close()
        if how == "restored":
            assert contents(folder) == now
        if how != "removed":
            with open_step(moved) as agent:  # what it acknowledged is where its files are
                assert seen(agent) == seen(in_memory(3))


class TestOpening:
    def test_the_learner_and_the_engine_are_those_on_file(self, folder):
        on_disk(folder, 3)
        other = LEARNER.replace(k=5)
        options: dict[str, dict[str, Any]] = {
            f"needs the learner of {folder}, {LEARNER!r}, got learner={other!r}; leave it out": {
                "learner": other
            },
            f"needs the engine of {folder}, 'step', got engine='compiled'; leave it out": {
                "engine": "compiled"
            },
            "needs sync to be one of 'always', 'batch', got sync='never'; choose one of these": {
                "sync": "never"
            },
        }
        for message, option in options.items():
            with pytest.raises(ValueError, match=re.escape(f"Agent.open {message}")):
                kl.Agent.open(folder, **option)
        with kl.Agent.open(folder) as agent:
            assert (agent.t, agent.learner, agent.engine) == (4, LEARNER, "step")

    def test_a_path_without_an_agent(self, tmp_path):
        with pytest.raises(
            ValueError, match=r"Agent.open needs a learner for a new agent, got path=.*nowhere; give one"
        ):
            kl.Agent.open(tmp_path / "nowhere")
        assert not (tmp_path / "nowhere").exists()
        kl.Agent(LEARNER, engine="step").save(tmp_path / "agent.json")
        with pytest.raises(
            ValueError, match=r"Agent.open needs a folder, got path=.*agent.json; Agent.load reads"
        ):
            kl.Agent.open(tmp_path / "agent.json", LEARNER)

    def test_files_of_a_newer_klazy(self, folder):
        content = on_disk(folder, 3)
        snapshot = content["snapshot"].replace(b"klazy agent 1 ", b"klazy agent 2 ")
        journal = content["journal"][:8] + struct.pack("<I", 2) + content["journal"][12:]
        for change in ({"snapshot": snapshot}, {"journal": journal}):
            with pytest.raises(
                ValueError,
                match=rf"needs .*{next(iter(change))} in format 1, got format=2; install a newer klazy.",
            ):
                open_step(write(folder, content | change))

    def test_on_another_machine_it_goes_on_and_says_so(self, folder, tmp_path, monkeypatch):
        file = tmp_path / "agent.json"
        with monkeypatch.context() as there, open_step(folder) as agent:
            there.setattr(state, "describe_machine", lambda engine: {"klazy": "0.0.1", "cpu": "abacus"})
            agent.update(np.ones(2))
            agent.save(file)
            agent.close()
        words = rf"klazy 0.0.1 \(here: {kl.__version__}\), numpy unknown \(here: .*, another kind of CPU; it goes on"
        for again in (lambda: kl.Agent.load(file), lambda: kl.Agent.open(folder)):
            with pytest.warns(kl.OtherMachine, match=words) as said, again() as agent:
                assert agent.t == 2
            assert said[0].filename == __file__
        kl.Agent.open(folder).close()  # it is of here now

    def test_new_guards_hold_from_the_round_of_opening(self, folder):
        write(folder, on_disk(folder, 7, guards=GUARDS))
        tighter = GUARDS.replace(per_round=0.01, hold=1)
        with open_step(folder, guards=tighter) as agent:  # its journal is replayed with the old ones
            assert agent.switching == in_memory(7, guards=GUARDS).switching
            before = agent.x
            play(agent, 8, GRADIENTS[7])
            assert 0.0 < 0.7 * np.abs(agent.x - before).sum() <= 0.01
        with kl.Agent.open(folder) as agent:
            assert agent.guards == tighter

    def test_guards_may_come_later(self, folder):
        on_disk(folder, 5)
        with open_step(folder, guards=kl.Guards()) as agent:
            assert np.array_equal(agent.x, in_memory(5).x)
            assert agent.switching == 0.0

    def test_a_state_begins_a_new_agent_and_no_other(self, folder):
        learner, g = kl.KLazyGD(kl.Simplex(3), 2.0, 4), np.random.default_rng(0).normal(size=(9, 3))
        trained = kl.Agent(learner)
        for row in g[:5]:
            trained.update(row)
        with kl.Agent.open(folder, learner, state=trained.state) as agent:
            assert agent.t == 6
            for row in g[5:]:
                assert np.array_equal(agent.update(row), trained.update(row))
        with pytest.raises(
            ValueError,
            match=r"Agent.open needs a state for a new agent only, got path=.*; it is there already",
        ):
            kl.Agent.open(folder, learner, state=trained.state)

    def test_a_system_without_file_locks(self, folder, monkeypatch):
        monkeypatch.setitem(sys.modules, "fcntl", None)
        with pytest.raises(
            ValueError,
            match=r"Agent.open needs the file locks of POSIX systems, got path=.*; use it on Linux",
        ):
            open_step(folder)

    @pytest.mark.parametrize("id", ["", "x" * 65, 1.5, b"x", ["x"]])
    def test_ids_that_a_record_cannot_hold(self, folder, id):
        with (
            open_step(folder) as agent,
            pytest.raises(ValueError, match=r"Agent.update needs an id, text of 1 to 64 bytes or a"),
        ):
            agent.update(np.ones(2), id=id)


@contextmanager
def failing(monkeypatch, name, after=0, size=0):
    """The system refuses a call, after some that it took; of a write once it has written a few bytes."""
    real, calls = getattr(os, name), iter(range(10**6))

    def fail(*arguments):
        if next(calls) < after:
            return real(*arguments)
        if size:
            real(arguments[0], arguments[1][:size], arguments[2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, name, fail)
        yield


FAULTS = {  # the call that fails, whether a snapshot is due, and whether the round's record is whole by then
    "nothing written": ({"name": "pwrite"}, False, False),
    "a record written in part": ({"name": "pwrite", "size": 40}, False, False),
    "a record written": ({"name": "pwrite", "size": LENGTH}, False, True),
    "a record not forced": ({"name": "fsync"}, False, True),
    "a snapshot not forced": ({"name": "fsync"}, True, False),
    "its folder not forced": ({"name": "fsync", "after": 1}, True, False),
    "the cut not forced": ({"name": "fsync", "after": 2}, True, False),
    "the record after a snapshot not forced": ({"name": "fsync", "after": 3}, True, True),
    "a snapshot not renamed": ({"name": "replace"}, True, False),
    "a journal not cut": ({"name": "ftruncate"}, True, False),
}


@pytest.mark.parametrize("engine", ["step", "compiled"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_failed_write_leaves_memory_behind_the_journal_and_can_be_repeated(
    folder, monkeypatch, engine, fault
):
    call, snapshot, whole = FAULTS[fault]
    straight = kl.Agent(LEARNER, engine=engine, guards=GUARDS)
    monkeypatch.setattr(files, "LIMIT", 0 if snapshot else files.LIMIT)
    with kl.Agent.open(folder, LEARNER, engine=engine, guards=GUARDS) as agent:
        for t, row in enumerate(GRADIENTS[:9], start=1):
            if t == 5:
                untouched = seen(agent)
                with failing(monkeypatch, **call), pytest.raises(OSError, match="No space left"):
                    agent.update(row, id=f"round {t}")
                assert seen(agent) == untouched
                with warnings.catch_warnings(action="ignore", category=kl.TornJournal):
                    killed = kl.Agent.open(shutil.copytree(folder, f"{folder}-killed"), LEARNER)
                with killed:  # instead of going on
                    assert killed.t == t + whole
            assert np.array_equal(play(agent, t, row), play(straight, t, row))
    with kl.Agent.open(folder) as agent:
        assert seen(agent) == seen(straight)


def test_after_a_failed_fsync_everything_is_written_anew(folder, monkeypatch):
    """The system may count pages as written that it could not write, so that to call fsync again would not do."""
    with open_step(folder, sync="batch") as agent:
        agent.update(np.ones(2))
        monkeypatch.setattr(files, "monotonic", lambda: time.monotonic() + 2.0)
        with failing(monkeypatch, "fsync"), pytest.raises(OSError, match="No space left"):
            agent.update(np.ones(2))
        disk = Disk(monkeypatch, folder)
        agent.update(np.ones(2))
        assert disk.log == [*SNAPSHOT, "pwrite journal"]


def test_an_interrupted_round_must_be_read_from_the_journal(folder, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    g = GRADIENTS
    with open_step(folder) as agent:
        play(agent, 1, g[0])
        with monkeypatch.context() as patched:
            patched.setattr(Live, "show", interrupt)
            with pytest.raises(KeyboardInterrupt):
                play(agent, 2, g[1])
        with pytest.raises(
            ValueError,
            match=r"Agent needs the rounds of its journal, got path=.* was interrupted; open the agent again",
        ):
            play(agent, 2, g[1])
    with open_step(folder) as agent:
        for t in (2, 3, 4):
            play(agent, t, g[t - 1])
        assert seen(agent) == seen(in_memory(4))


def test_an_interrupted_snapshot_is_taken_again(folder, monkeypatch):
    cut = os.ftruncate

    def interrupt(*arguments):
        cut(*arguments)
        raise KeyboardInterrupt

    with open_step(folder) as agent:
        play(agent, 1, GRADIENTS[0])
        with monkeypatch.context() as patched:
            patched.setattr(files, "LIMIT", 0)
            patched.setattr(os, "ftruncate", interrupt)
            with pytest.raises(KeyboardInterrupt):
                play(agent, 2, GRADIENTS[1])
        for t in (2, 3):
            play(agent, t, GRADIENTS[t - 1])
    with open_step(folder) as agent:
        assert seen(agent) == seen(in_memory(3))


def test_a_folder_from_before_files_named_modules_goes_on(folder, monkeypatch):
    with monkeypatch.context() as older:
        older.setattr(config, "_file_name", lambda kind: kind.__name__)
        older.setattr(files, "_drop_modules", lambda learner: learner)
        with open_step(folder) as agent:
            play(agent, 1, GRADIENTS[0])
        assert b'"class": "KLazyGD"' in (folder / "snapshot").read_bytes()
    for t in (2, 3):
        with open_step(folder) as agent:
            play(agent, t, GRADIENTS[t - 1])
        assert b'"class": "klazy.KLazyGD"' in (folder / "snapshot").read_bytes()
    with open_step(folder) as agent:
        assert seen(agent) == seen(in_memory(3))


def test_a_round_that_the_learner_cannot_take_is_not_written(folder):
    class Broken(kl.GD):
        def step(self, state, g):
            if state.t == 2:
                raise ArithmeticError
            return super().step(state, g)

    with kl.Agent.open(folder, Broken(kl.L2Ball(2), 1.0)) as agent:
        agent.update(np.ones(2))
        with pytest.raises(ArithmeticError):
            agent.update(np.ones(2))
    with kl.Agent.open(folder) as agent:
        assert agent.t == 2


SNAPSHOT = [
    "fsync snapshot.x.partial",
    "replace snapshot.x.partial",
    "fsync agent",
    "ftruncate journal",
    "fsync journal",
]


def test_what_is_forced_to_disk_and_in_which_order(folder, monkeypatch):
    disk = Disk(monkeypatch, folder)
    with open_step(folder) as agent:
        parent = folder.parent.name
        begun = ["ftruncate journal", "pwrite journal", "fsync journal", f"fsync {parent}"]
        assert disk.log == SNAPSHOT[:3] + begun + SNAPSHOT
        disk.log.clear()
        agent.update(np.ones(2))
        assert disk.log == ["pwrite journal", "fsync journal"]
        monkeypatch.setattr(files, "LIMIT", 0)
        disk.log.clear()
        agent.update(np.ones(2))
        assert disk.log == [*SNAPSHOT, "pwrite journal", "fsync journal"]
    with open_step(folder, sync="batch") as agent:
        monkeypatch.setattr(files, "LIMIT", 2**20)
        disk.log.clear()
        for _ in range(3):
            agent.update(np.ones(2))
        assert disk.log == ["pwrite journal"] * 3
        disk.log.clear()
    assert disk.log == SNAPSHOT
    with open_step(folder):
        disk.log.clear()
    assert disk.log == []  # there is nothing that a snapshot does not hold
