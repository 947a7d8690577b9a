"""An agent in a store: it survives damage, other processes and a moved file, bit for bit, and its history can be read."""

import copy
import json
import os
import pickle
import pwd
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import klazy as kl
from cases import EVERY_LEARNER, gradients
from command import call_klazy
from klazy.base.checks import InvalidInput
from klazy.kernels.layout import find_missing_part
from klazy.live import state, stored
from klazy.live.inspection import check_store
from klazy.live.records import AGENT_SHIFT, checksum_row
from klazy.live.sqlite import PAGE_SIZE
from klazy.live.store import Store, open_store
from klazy.live.stored import StoredAgent
from nursery import (
    GRADIENTS,
    GUARDS,
    LEARNER,
    flipped,
    in_memory,
    in_store,
    leave_as_killed,
    open_step,
    play,
    seen,
    share,
)


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch):
    """Only a loss of power can tell whether a commit was forced to disk; tests/torture counts the calls that do it."""
    monkeypatch.setattr("klazy.live.sqlite.SYNCHRONOUS", {"always": "OFF", "batch": "OFF"})


def store_of(agent):
    """The open store behind an agent."""
    assert agent._stored is not None
    return agent._stored.store


def find_faults(file):
    """What ``klazy check`` would say."""
    store = open_store(file, read_only=True)
    try:
        return [checked.fault for checked in check_store(store) if checked.fault is not None]
    finally:
        store.close()


@pytest.mark.xdist_group(
    "Simplex5"
)  # with tests/test_agent.py, which has the kernels of this set
@pytest.mark.parametrize("make", EVERY_LEARNER.values(), ids=EVERY_LEARNER)
def test_it_goes_on_bit_for_bit_from_the_files_of_any_round(make, tmp_path, monkeypatch):
    """By step, with guards, and compiled, without: neither knows of the other."""
    learner, g = make(kl.Simplex(5), kl.ScaleFree(2.0)), gradients(1, 24, 5)
    monkeypatch.setattr(stored, "SNAPSHOT_ROUNDS", 5)
    played = (
        {"step": GUARDS} if find_missing_part(learner) else {"step": GUARDS, "compiled": None}
    )
    for engine, guards in played.items():
        straight, at = kl.Agent(learner, engine=engine, guards=guards), tmp_path / f"{engine}.db"
        agent = kl.Agent.open(at, learner, engine=engine, guards=guards)
        for t, row in enumerate(g, start=1):
            assert np.array_equal(play(agent, t, row), play(straight, t, row))
            if t % 6 == 0:  # what is there now is what a kill would leave
                after = tmp_path / f"{engine}-{t}.db"
                for end in ("", "-wal"):
                    shutil.copy(f"{at}{end}", f"{after}{end}")
                agent.close()
                at = after
                agent = kl.Agent.open(at, learner if t % 4 else None)
            assert seen(agent) == seen(straight)
        agent.close()
        assert find_faults(at) == []


@given(
    stops=st.lists(st.integers(1, 9), max_size=8),
    seed=st.integers(0, 2**16),
    hinted=st.booleans(),
)
def test_hints_and_ids_are_replayed_too(stops, seed, hinted):
    learner, g = (
        kl.MemoryGD(kl.L2Ball(3), kl.Sqrt(3.0), memory=kl.memories.Clip(0.8)),
        gradients(seed, 9, 3),
    )
    straight = kl.Agent(learner, engine="step")
    points = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "decisions.db"
        agent = kl.Agent.open(path, learner, engine="step")
        for t, row in enumerate(g, start=1):
            for each in (agent, straight):
                points[t] = each.update(
                    row, next_hint=0.5 * row if hinted and t % 2 else None, id=t
                )
            for _ in range(stops.count(t)):
                agent.close()
                agent = kl.Agent.open(path)
            earlier = max(1, t - 3)
            assert np.array_equal(agent.update(row, id=earlier), points[earlier])
            assert seen(agent) == seen(straight)
        agent.close()


def test_rounds_without_guards_hints_and_ids_take_a_shorter_way_to_the_same_rows(file):
    learner = kl.GD(kl.L2Ball(5), kl.Sqrt(9.0))
    g = gradients(0, 40, 10)[:, ::2]
    read_only = np.ascontiguousarray(g)
    read_only.setflags(write=False)
    with (
        kl.Agent.open(file, learner, name="plain") as plain,
        kl.Agent.open(file, learner, name="ids") as other,
    ):
        for t, row in enumerate(g):
            forms = (row, row.copy(), read_only[t], row.tolist())
            assert np.array_equal(plain.update(forms[t % 4]), other.update(row, id=t))
        for bad in (g[:1], np.full(5, np.nan), np.ones(4), np.full(5, 1e70)):
            with pytest.raises(ValueError, match=r"^g(\[0\])? must (be|have) "):
                plain.update(bad)
        assert seen(plain) == seen(other)
        one, two = plain.history(), other.history()
        assert one.drop("time", "id").equals(two.drop("time", "id"))
    assert find_faults(file) == []


class TestIds:
    def test_an_id_is_answered_for_ever_by_the_decision_made_then(self, file):
        first = {}
        with open_step(file, sync="batch") as agent:
            for t in range(1, 4301):  # more than an agent in memory remembers
                first[t] = agent.update(GRADIENTS[t % 40], id=t)
        with open_step(file) as agent:
            now = seen(agent)
            for t in (1, 2, 77, 4300):
                assert np.array_equal(agent.update(GRADIENTS[0], id=str(t)), first[t])
                assert np.array_equal(
                    agent.update([np.nan, 0.0], id=t), first[t]
                )  # whatever comes with it
            assert seen(agent) == now

    def test_agents_do_not_share_ids(self, place):
        with open_step(place, name="a") as a, open_step(place, name="b") as b:
            for agent in (a, b, a, b):
                agent.update(GRADIENTS[0], id="monday")
            assert (a.t, b.t) == (2, 2)

    @pytest.mark.parametrize("id", ["", "x" * 65, 1.5, b"x", ["x"], "a\0b"])
    def test_ids_that_no_record_can_hold(self, file, id):
        with (
            open_step(file) as agent,
            pytest.raises(ValueError, match="must be an integer, or text of 1 to 64 bytes, got "),
        ):
            agent.update(np.ones(2), id=id)


class TestSeveralProcesses:
    """Two connections stand for two processes: SQLite treats them alike, and tests/torture has real ones."""

    def test_the_loser_of_a_race_takes_over_what_happened_and_is_told(self, place):
        with open_step(place) as one, open_step(place) as other:
            one.update(GRADIENTS[0])
            now = seen(one)
            with pytest.raises(
                kl.types.Overtaken,
                match=r"Another process ended round t=1 of 'agent'. Play agent.x of round t=2, or use retry=True.",
            ):
                other.update(GRADIENTS[1])
            assert seen(other) == now
            other.update(GRADIENTS[1])
            one.refresh()
            assert seen(one) == seen(other)
            assert one.t == 3

    def test_or_tries_again(self, place):
        straight = kl.Agent(LEARNER, engine="step")
        with open_step(place) as one, open_step(place) as other:
            for t in range(9):
                (one, other)[t % 2].update(GRADIENTS[t], retry=True)
                straight.update(GRADIENTS[t])
            one.refresh()
            assert seen(one) == seen(straight)

    def test_an_id_that_another_process_took_is_answered(self, place):
        with open_step(place) as one, open_step(place) as other:
            x = one.update(GRADIENTS[0], id="monday")
            assert np.array_equal(other.update(GRADIENTS[1], id="monday"), x)
            assert seen(one) == seen(other)

    def test_freezes_and_guards_of_another_process_count(self, place):
        with open_step(place, guards=kl.Guards()) as one, open_step(place) as other:
            one.freeze("storm")
            x = one.x
            with pytest.raises(kl.types.Overtaken):
                other.update(GRADIENTS[0])
            assert np.array_equal(other.update(GRADIENTS[0]), x)
            other.freeze()  # as it is
            one.resume()
            tighter = kl.Guards(per_round=0.01)
            with open_step(place, guards=tighter) as third:
                assert third.guards == tighter.fit(LEARNER)
            other.refresh()
            assert other.guards == tighter.fit(LEARNER)

    def test_what_was_pruned_meanwhile_is_taken_from_a_snapshot(self, place, monkeypatch):
        monkeypatch.setattr(stored, "SNAPSHOT_ROUNDS", 5)
        with open_step(place) as late, open_step(place, keep=3) as agent:
            for t in range(30):
                agent.update(GRADIENTS[t])
            late.refresh()
            assert seen(late) == seen(agent)

    def test_one_that_is_late_by_a_whole_pruning_is_told(self, place, monkeypatch):
        """The key of its round is free again, and must not be taken."""
        monkeypatch.setattr(stored, "SNAPSHOT_ROUNDS", 5)
        with open_step(place) as late, open_step(place, keep=3) as agent:
            late.update(GRADIENTS[0])
            agent.refresh()
            for t in range(1, 30):
                agent.update(GRADIENTS[t])
            with pytest.raises(kl.types.Overtaken):
                late.update(GRADIENTS[0])
            assert seen(late) == seen(agent)
            assert late.t == 31
        assert find_faults(place) == []

    def test_processes_take_turns(self, file):
        script = f"""
import sys, nursery
with nursery.open_step({str(file)!r}, sync="batch") as agent:
    for t in range(60):
        agent.update(nursery.GRADIENTS[0], id=f"{{sys.argv[1]}} {{t}}", retry=True)
"""
        run = [sys.executable, "-c", script]
        processes = [
            subprocess.Popen([*run, str(i)], cwd=Path(__file__).parent) for i in range(2)
        ]
        assert [process.wait() for process in processes] == [0, 0]
        straight = kl.Agent(LEARNER, engine="step")
        for _ in range(120):
            straight.update(GRADIENTS[0])
        with open_step(file) as agent:
            assert seen(agent) == seen(straight)
        assert find_faults(file) == []

    def test_one_for_itself_lets_nobody_else_in(self, file, monkeypatch):
        monkeypatch.setattr("klazy.live.store.PATIENCE", 0.01)
        with open_step(file, shared=False) as agent:
            agent.update(GRADIENTS[0])
            with pytest.raises(
                ValueError, match=r".* is busy: another process has used it for 0.01 seconds."
            ):
                open_step(file)
        with open_step(file) as agent:
            assert agent.t == 2

    def test_many_agents_share_a_file(self, file):
        learners = [kl.GD(kl.L2Ball(2, radius=1.0 + i), 1.0) for i in range(12)]
        agents = [
            kl.Agent.open(file, learner, name=f"{i}", engine="step")
            for i, learner in enumerate(learners)
        ]
        for t in range(3):
            for agent in agents:
                agent.update(GRADIENTS[t])
        for agent in agents:
            agent.close()
        for i, learner in enumerate(learners):
            straight = kl.Agent(learner, engine="step")
            for t in range(3):
                straight.update(GRADIENTS[t])
            with kl.Agent.open(file, name=f"{i}") as agent:
                assert seen(agent) == seen(straight)


class TestOneProcess:
    def test_a_closed_agent_takes_no_rounds(self, place):
        with open_step(place, guards=kl.Guards()) as agent:
            agent.update(np.ones(2))
        agent.close()
        before = seen(agent)
        for change in (
            lambda: agent.update(np.ones(2)),
            agent.freeze,
            agent.history,
            agent.refresh,
        ):
            message = r"was closed. Open the agent again."
            with pytest.raises(ValueError, match=message):
                change()
        assert seen(agent) == before

    def test_a_forked_process_takes_no_rounds_and_keeps_nothing_locked(self, file):
        script = f"""
import os, sys, nursery, numpy as np
agent = nursery.open_step({str(file)!r})
agent.update(np.ones(2))
if os.fork() == 0:
    try:
        agent.update(np.ones(2))
    except ValueError as refused:
        print(refused, flush=True)
    agent.close()
    sys.stdin.read()
    sys.exit()
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
            assert "was opened by the parent of this process" in process.stdout.readline()
            assert process.wait() == -9
            with open_step(file, shared=False) as agent:  # while the forked process lives on
                agent.update(np.ones(2))
            process.stdin.close()
        with open_step(file) as agent:
            assert agent.t == 3
        assert find_faults(file) == []

    @pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
    def test_it_is_not_copied(self, file, tmp_path, copied):
        with open_step(file) as agent:
            agent.update(np.ones(2), id="monday")
            with pytest.raises(
                ValueError,
                match=r"cannot be copied or pickled. Open it where it is needed, or save it and load the file.",
            ):
                copied(agent)
            agent.save(tmp_path / "agent.json")
        saved = kl.Agent.load(tmp_path / "agent.json")
        saved.update(np.ones(2), id="monday")
        assert saved.t == 2

    def test_threads_take_turns(self, file):
        def play_with(id):
            agent.update(GRADIENTS[0], id=id)
            agent.freeze()
            agent.explain()
            agent.resume()
            agent.update(GRADIENTS[1], id=id)

        with open_step(file, guards=GUARDS) as agent:
            ids = iter(range(100))
            share(lambda: play_with(next(ids)), 100)
            taken = seen(agent)
        with open_step(file) as agent:
            assert agent.t == 101
            assert seen(agent) == taken

    def test_it_stays_where_it_is_wherever_the_process_goes(self, tmp_path, monkeypatch):
        here, there = tmp_path / "here", tmp_path / "there"
        for place in (there, here):  # in each there is a store of the same relative path
            place.mkdir()
            monkeypatch.chdir(place)
            open_step("decisions.db").close()
        other = (there / "decisions.db").read_bytes()
        with open_step("decisions.db") as agent:
            monkeypatch.chdir(there)
            for t in range(1, 9):
                play(agent, t, GRADIENTS[t - 1])
        assert (there / "decisions.db").read_bytes() == other
        with open_step(here / "decisions.db") as agent:
            assert seen(agent) == seen(in_memory(8))

    @pytest.mark.parametrize("how", ["moved", "removed", "replaced", "restored"])
    def test_a_file_that_was_replaced_under_it_takes_no_more_rounds(self, file, tmp_path, how):
        agent = open_step(file)
        play(agent, 1, GRADIENTS[0])
        agent.backup(tmp_path / "backup.db")
        for t in (2, 3):
            play(agent, t, GRADIENTS[t - 1])
        moved = file.rename(tmp_path / "moved.db")
        if how == "removed":
            moved.unlink()
        if how == "replaced":
            file.write_text("another file")
        if how == "restored":
            (tmp_path / "backup.db").rename(file)
        message = r"was moved, removed or replaced. Open the agent again."
        for _ in range(2):
            with pytest.raises(ValueError, match=message):
                play(agent, 4, GRADIENTS[3])
        assert seen(agent) == seen(in_memory(3))
        agent.close()
        if how != "removed":
            with open_step(moved) as agent:  # what it acknowledged is where its file is
                assert seen(agent) == seen(in_memory(3))

    def test_a_round_that_the_learner_cannot_take_is_not_written(self, file):
        class Broken(kl.GD):
            def step(self, state, g):
                if state.t == 2:
                    raise ArithmeticError
                return super().step(state, g)

        with kl.Agent.open(file, Broken(kl.L2Ball(2), 1.0)) as agent:
            agent.update(np.ones(2))
            with pytest.raises(ArithmeticError):
                agent.update(np.ones(2))
        with kl.Agent.open(file) as agent:
            assert agent.t == 2

    def test_an_interrupted_round_is_found_in_the_store(self, place, monkeypatch):
        def interrupt(*_):
            raise KeyboardInterrupt

        with open_step(place) as agent:
            play(agent, 1, GRADIENTS[0])
            with monkeypatch.context() as patched:
                patched.setattr(state.AgentState, "apply", interrupt)
                with pytest.raises(KeyboardInterrupt):
                    play(agent, 2, GRADIENTS[1])
            for t in (2, 3, 4):  # the second is answered, and not taken again
                play(agent, t, GRADIENTS[t - 1])
            assert seen(agent) == seen(in_memory(4))

    @pytest.mark.parametrize("guards", [None, GUARDS], ids=["free", "guarded"])
    def test_a_round_that_is_interrupted_while_it_is_shown_is_not_taken_twice(
        self, place, monkeypatch, guards
    ):
        real = state.AgentState.apply

        def interrupt(live, outcome):
            real(live, outcome)
            raise KeyboardInterrupt

        with open_step(place, guards=guards) as agent:
            play(agent, 1, GRADIENTS[0])
            with monkeypatch.context() as patched:
                patched.setattr(state.AgentState, "apply", interrupt)
                with pytest.raises(KeyboardInterrupt):
                    agent.update(GRADIENTS[1])
            for t in (3, 4):
                try:
                    play(agent, t, GRADIENTS[t - 1])
                except kl.types.Overtaken:  # by itself; it is told that round 2 was ended
                    play(agent, t, GRADIENTS[t - 1])
            assert seen(agent) == seen(in_memory(4, guards=guards))

    def test_guards_that_were_set_before_a_kill_hold_after_it(self, file, tmp_path):
        learner = kl.GD(kl.L2Ball(5), 1.0)
        killed = tmp_path / "killed.db"
        late = kl.Agent.open(file, learner)
        with kl.Agent.open(file, guards=kl.Guards(per_round=0.01)) as agent:
            for end in ("", "-wal"):
                shutil.copy(f"{file}{end}", f"{killed}{end}")
            late.refresh()
        for agent in (late, kl.Agent.open(killed)):
            with agent:
                before = agent.x
                assert np.linalg.norm(agent.update(np.ones(5)) - before) <= 0.01


class TestFaults:
    def test_a_full_disk_changes_nothing(self, file):
        with open_step(file) as agent:
            for t in range(1, 6):
                play(agent, t, GRADIENTS[t - 1])
            ask = store_of(agent).ask
            ((pages,),) = ask("PRAGMA page_count")
            ask(f"PRAGMA max_page_count = {pages}")
            taken = 5
            refused = None
            while refused is None:
                try:
                    play(agent, taken + 1, GRADIENTS[taken % 40])
                    taken += 1
                except InvalidInput as full:
                    refused = str(full)
            assert "cannot be read or written" in refused
            assert refused.endswith("database or disk is full.")
            assert agent.t == taken + 1
            ask("PRAGMA max_page_count = 1000000")
            play(agent, taken + 1, GRADIENTS[taken % 40])
        assert find_faults(file) == []

    def test_a_file_that_cannot_be_written(self):
        with (
            tempfile.TemporaryDirectory() as folder
        ):  # not pytest's, where only its own user may go
            file = in_store(Path(folder) / "decisions.db", 3)
            data = file.read_bytes()
            file.chmod(0o444)
            Path(folder).chmod(0o555)
            user = os.geteuid() or pwd.getpwnam("nobody").pw_uid  # root may write everywhere
            with warnings.catch_warnings(
                action="ignore"
            ):  # of packages with threads, which other tests loaded
                process = os.fork()
            if process == 0:
                try:
                    os.setuid(user)
                    os._exit(self.count_refusals(file))
                finally:
                    os._exit(1)
            _, status = os.waitpid(process, 0)
            assert os.waitstatus_to_exitcode(status) == 2
            assert file.read_bytes() == data

    def count_refusals(self, file):
        """How often a file was refused that may only be read."""
        refused = 0
        for use in (lambda: open_step(file), lambda: open_step(file).update(GRADIENTS[0])):
            try:
                use()
            except InvalidInput as told:
                refused += "cannot be read or written" in str(told)
        with kl.Agent.open(file, read_only=True) as agent:
            return refused if seen(agent) == seen(in_memory(3)) else 0

    def test_a_clock_that_jumps_changes_nothing_but_times(self, place, monkeypatch):
        times = iter([1e9, 2e9, 5e8, 0.0, 1e9, *[3e9] * 20])
        monkeypatch.setattr(stored, "time", lambda: next(times))
        with open_step(place) as agent:
            for t in range(1, 6):
                play(agent, t, GRADIENTS[t - 1])
        with open_step(place) as agent:
            assert seen(agent) == seen(in_memory(5))
            assert agent.history()["t"].to_list() == [1, 2, 3, 4, 5]


class TestDamage:
    ROUNDS = 8
    STEP = 997  # bits; tests/torture flips them all

    def outcome(self, file, twins):
        """Whether a damaged file was refused; if not, it plays on as before, or a check finds what is wrong."""
        try:
            with open_step(file, name="b") as agent:
                if seen(agent) == twins[-1]:
                    return "as before"
        except InvalidInput:
            return "refused"
        assert find_faults(file) != []
        return "found"

    def test_bits_of_a_closed_store(self, file, monkeypatch):
        monkeypatch.setattr(stored, "SNAPSHOT_ROUNDS", 3)
        in_store(file, 5, name="a", guards=GUARDS)
        in_store(file, self.ROUNDS, name="b", guards=GUARDS)
        data = file.read_bytes()
        twins = [seen(in_memory(t, guards=GUARDS)) for t in range(self.ROUNDS + 1)]
        outcomes = set()
        for bit in range(0, 8 * len(data), self.STEP):
            file.write_bytes(flipped(data, bit // 8, 1 << bit % 8))
            outcomes.add(self.outcome(file, twins))
        assert {"refused", "as before"} <= outcomes

    def test_a_flipped_bit_of_any_round_is_found(self, file):
        """Not by opening the agent, which does not read what a snapshot holds."""
        in_store(file, self.ROUNDS)
        data = file.read_bytes()
        for t in range(1, self.ROUNDS + 1):
            place = data.index(GRADIENTS[t - 1].tobytes())
            file.write_bytes(flipped(data, place + 3, 4))
            (fault,) = find_faults(file)
            assert f"record {t - 1} of agent 1 was changed" in fault
            with (
                pytest.raises(ValueError, match=f"record {t - 1} of agent 1 was changed"),
                open_step(file) as agent,
            ):
                agent.update(GRADIENTS[0], id=f"round {t}")
        file.write_bytes(data)
        assert find_faults(file) == []

    def test_rows_that_were_changed_are_found(self, file):
        in_store(file, self.ROUNDS, guards=GUARDS)
        data = file.read_bytes()
        changes = {
            "UPDATE records SET hitting = hitting + 1 WHERE t = 3": "record 2 of agent 1",
            "DELETE FROM records WHERE t = 5": "record 5 of agent 1 is missing",
            f"DELETE FROM records WHERE t = {self.ROUNDS}": "are gone",
            "UPDATE agents SET name = 'b'": "the row of agent 'b' was changed",
            "UPDATE snapshots SET about = replace(about, '0.', '1.')": "a snapshot was changed",
            "DELETE FROM snapshots": "it has no snapshot",
            f"UPDATE records SET key = key + (7 << {AGENT_SHIFT}) WHERE t = 1": "belong to no agent",
        }
        for sql, words in changes.items():
            file.write_bytes(data)
            with sqlite3.connect(file) as connection:
                connection.execute(sql)
            connection.close()
            ended = call_klazy("check", file)
            assert words in ended.stdout + ended.stderr, sql
            assert ended.status in (1, 2)

    def test_a_change_with_its_checksum_is_found_by_playing_again(self, file):
        """As of a learner whose code has changed."""
        in_store(file, self.ROUNDS)
        store = open_store(file)
        row = next(store.read_records(1, 3))
        store.ask("DELETE FROM records WHERE key = ?", row.key)
        changed = row._replace(decision=np.zeros(2).tobytes())
        last = store.find_checksums([row.key - 1])[row.key - 1]
        store.append((*changed[:-1], checksum_row(changed[:-1]), last))
        store.close()
        assert find_faults(file) == ["round 4 gives another decision than the one that was kept"]

    def test_a_lost_agent_is_never_a_new_one(self, file):
        in_store(file, 3)
        with sqlite3.connect(file) as connection:
            connection.execute("DELETE FROM agents")
        connection.close()
        with pytest.raises(ValueError, match=r".* is damaged: 0 of its 1 agents are left."):
            open_step(file)

    @pytest.mark.parametrize("damage", ["cut", "zeros", "text", "other"])
    def test_another_file_is_refused_and_left_as_it_is(self, file, damage):
        in_store(file, 3)
        data = file.read_bytes()
        if damage == "cut":
            file.write_bytes(data[: len(data) // 2])
        if damage == "zeros":
            file.write_bytes(data[:PAGE_SIZE] + bytes(len(data) - PAGE_SIZE))
        if damage == "text":
            kl.Agent(LEARNER, engine="step").save(file)
        if damage == "other":
            file.unlink()
            with sqlite3.connect(file) as connection:
                connection.execute("CREATE TABLE mine (x)")
            connection.close()
        now = file.read_bytes()
        with pytest.raises(ValueError, match=r"decisions.db is (damaged|not a database)"):
            open_step(file)
        if damage != "other":  # its journal mode has changed, and nothing else
            assert file.read_bytes() == now

    def test_of_a_killed_agent_a_damaged_log_loses_the_last_rounds_at_most(self, file, tmp_path):
        """SQLite takes a damaged end of its log for one that was never completed."""
        killed = leave_as_killed(file, tmp_path / "killed", self.ROUNDS)
        log = Path(f"{killed}-wal")
        content = {path: path.read_bytes() for path in (killed, log)}
        twins = [seen(in_memory(t)) for t in range(self.ROUNDS + 1)]
        for bit in range(0, 8 * len(content[log]), 8 * self.STEP):
            for path, data in content.items():
                path.write_bytes(data)
            log.write_bytes(flipped(content[log], bit // 8, 1 << bit % 8))
            try:
                with open_step(killed) as agent:
                    assert seen(agent) == twins[agent.t - 1]
            except InvalidInput:
                continue


class TestOpening:
    def test_the_learner_and_the_engine_are_those_of_the_store(self, file):
        in_store(file, 3)
        other = LEARNER.replace(k=5)
        where = f"'agent' in {file}"
        options: dict[str, dict[str, Any]] = {
            f"learner must be {LEARNER!r}, as stored for {where}, got {other!r}.": {
                "learner": other
            },
            f"engine must be 'step', as stored for {where}, got 'compiled'.": {
                "engine": "compiled"
            },
            "sync must be one of 'always', 'batch', got 'never'.": {"sync": "never"},
            "name must be printable text of 1 to 200 bytes, got ''.": {"name": ""},
            "keep must be": {"keep": 0},
            "'b'": {"name": "b"},
        }
        for message, option in options.items():
            with pytest.raises(ValueError, match=re.escape(message)):
                kl.Agent.open(file, **option)
        with kl.Agent.open(file) as agent:
            assert (agent.t, agent.learner, agent.engine) == (4, LEARNER, "step")

    def test_a_path_without_a_store(self, file, tmp_path):
        for path, message in {
            file: "does not exist. Check the path",
            tmp_path: "is a folder",
        }.items():
            with pytest.raises(ValueError, match=message):
                kl.Agent.open(path)
        with pytest.raises(
            ValueError, match=r"The folder of .* does not exist. Create it first."
        ):
            open_step(tmp_path / "nowhere" / "decisions.db")
        assert list(tmp_path.iterdir()) == []

    def test_on_another_machine_it_goes_on_and_says_so(self, file, tmp_path, monkeypatch):
        saved = tmp_path / "agent.json"
        with monkeypatch.context() as there, open_step(file) as agent:
            there.setattr(
                state, "describe_machine", lambda engine: {"klazy": "0.0.1", "cpu": "abacus"}
            )
            agent.update(np.ones(2))
            agent.save(saved)
            agent.close()
        words = rf"klazy 0.0.1 \(here: {kl.__version__}\), numpy unknown \(here: .*, another kind of CPU; it goes on"
        for again in (lambda: kl.Agent.load(saved), lambda: kl.Agent.open(file)):
            with pytest.warns(kl.types.OtherMachine, match=words) as said, again() as agent:
                assert agent.t == 2
            assert said[0].filename == __file__
        kl.Agent.open(file).close()  # it is of here now

    def test_new_guards_hold_from_the_round_of_opening(self, file, tmp_path):
        killed = leave_as_killed(file, tmp_path / "killed", 7, guards=GUARDS)
        tighter = GUARDS.replace(per_round=0.01, hold=1)
        with open_step(
            killed, guards=tighter
        ) as agent:  # its records are replayed with the old ones
            assert agent.switching == in_memory(7, guards=GUARDS).switching
            before = agent.x
            play(agent, 8, GRADIENTS[7])
            assert 0.0 < 0.7 * np.abs(agent.x - before).sum() <= 0.01
        with kl.Agent.open(killed) as agent:
            assert agent.guards == tighter
        assert find_faults(killed) == []

    def test_guards_may_come_later(self, place):
        in_store(place, 5)
        with open_step(place, guards=kl.Guards()) as agent:
            assert np.array_equal(agent.x, in_memory(5).x)
            assert agent.switching == 0.0

    def test_a_state_begins_a_new_agent_and_no_other(self, place):
        learner, g = (
            kl.KLazyGD(kl.Simplex(3), 2.0, k=4),
            np.random.default_rng(0).normal(size=(9, 3)),
        )
        trained = kl.Agent(learner, engine="step")
        for row in g[:5]:
            trained.update(row)
        with kl.Agent.open(place, learner, state=trained.state, engine="step") as agent:
            assert agent.t == 6
            for row in g[5:]:
                assert np.array_equal(agent.update(row), trained.update(row))
        message = r"state is for a new agent, and 'agent' exists already. Leave the state out."
        with pytest.raises(ValueError, match=message):
            kl.Agent.open(place, learner, state=trained.state)

    def test_read_only_it_can_be_looked_at(self, file):
        in_store(file, 3)
        data = file.read_bytes()
        with kl.Agent.open(file, read_only=True) as agent:
            assert seen(agent) == seen(in_memory(3))
            assert agent.history().height == 3
            with pytest.raises(ValueError, match=r".* was opened read-only."):
                agent.update(GRADIENTS[0])
        assert file.read_bytes() == data

    def test_opening_replays_at_most_what_a_snapshot_leaves(self, file, tmp_path, monkeypatch):
        monkeypatch.setattr(stored, "SNAPSHOT_ROUNDS", 100)
        killed = leave_as_killed(file, tmp_path / "killed", 250)
        replayed = []
        real = stored.StoredAgent.apply
        monkeypatch.setattr(
            stored.StoredAgent, "apply", lambda agent, *done: replayed.append(real(agent, *done))
        )
        with open_step(killed) as agent:
            assert agent.t == 251
        assert len(replayed) <= 100
        with open_step(killed):
            assert len(replayed) <= 100  # after a close nothing is replayed

    def test_slow_rounds_are_replayed_for_a_second_at_most(self, file, monkeypatch):
        seconds = iter(range(10**6))
        monkeypatch.setattr(
            stored, "perf_counter", lambda: float(next(seconds))
        )  # each round takes one
        with open_step(file) as agent:
            for t in range(3):
                agent.update(GRADIENTS[t])
            taken = store_of(agent).read_snapshots(1)
        assert [snapshot.n for snapshot in taken] == [0, 1, 2]


class TestHistory:
    def test_it_tells_every_round(self, place):
        before = datetime.now(UTC)
        with open_step(place, guards=GUARDS) as agent:
            points = [play(agent, t, GRADIENTS[t - 1]) for t in range(1, 9)]
            frame = agent.history()
            assert agent.history(last=3).equals(frame.tail(3))
            assert np.isclose(frame["switching"].to_numpy().sum(), agent.switching)
        assert frame["t"].to_list() == list(range(1, 9))
        assert frame["id"].to_list() == [f"round {t}" for t in range(1, 9)]
        assert np.array_equal(frame["decision"].to_list(), points)
        assert np.array_equal(frame["gradient"].to_list(), GRADIENTS[:8])
        played = [LEARNER.init().x, *points[:-1]]
        assert np.allclose(frame["hitting"], np.vecdot(GRADIENTS[:8], played), atol=1e-15)
        assert "frozen" in frame["guards"][2]
        times = frame["time"].to_list()
        assert before <= min(times) <= max(times) <= datetime.now(UTC)

    def test_costs_without_guards_are_those_of_a_run(self, file):
        learner = kl.GD(kl.L2Ball(3), 2.0)
        g = gradients(0, 20, 3)
        with kl.Agent.open(file, learner, engine="step") as agent:
            for row in g:
                agent.update(row)
            frame = agent.history()
        trace = kl.run(learner, g, engine="step")
        assert np.allclose(frame["hitting"], trace.hitting, atol=1e-14)
        assert np.allclose(frame["switching"][:-1], trace.switching[1:], atol=1e-14)

    def test_an_agent_in_memory_has_none(self):
        message = r'history needs an agent with a store. Open it with Agent.open\("decisions.db", learner\).'
        with pytest.raises(ValueError, match=message):
            kl.Agent(LEARNER, engine="step").history()

    def test_any_sqlite_reads_the_views(self, file):
        learner = kl.MemoryGD(kl.L2Ball(4, radius=1e9), 1e-6, memory=kl.memories.Decay(4.0))
        g = np.array([[1.0, -0.0, 1e-30, -3e-7], [2.5e5, 0.1, -1e-12, 7.0], [0.0, 0.0, 0.0, 0.0]])
        with kl.Agent.open(
            file, learner, name="eu-west", engine="step", guards=kl.Guards()
        ) as agent:
            for row in g:
                agent.update(row, next_hint=row)
            agent.freeze("storm")
            frame = agent.history()
        with sqlite3.connect(file) as connection:
            rows = connection.execute(
                "SELECT agent, t, time, gradient, next_hint, decision FROM rounds ORDER BY t"
            )
            for (name, t, at, *lists), own in zip(rows, frame.iter_rows(named=True), strict=True):
                assert (name, t) == ("eu-west", own["t"])
                assert abs(datetime.fromisoformat(f"{at}+00:00") - own["time"]) < timedelta(
                    milliseconds=2
                )
                for text, exact in zip(
                    lists, (own["gradient"], own["next_hint"], own["decision"]), strict=True
                ):
                    np.testing.assert_allclose(json.loads(text), exact, rtol=2e-15, atol=1e-21)
            changes = connection.execute(
                "SELECT change, note FROM changes ORDER BY change"
            ).fetchall()
        connection.close()
        assert [change for change, _ in changes] == ["created", "freeze"]
        assert changes[1] == ("freeze", "storm")

    @pytest.mark.parametrize("keep", [10, timedelta(seconds=10)])
    def test_old_rounds_are_forgotten_if_one_wants(self, place, monkeypatch, keep):
        clock = iter(range(10**6))
        monkeypatch.setattr(stored, "SNAPSHOT_ROUNDS", 4)
        for module in ("stored", "store"):
            monkeypatch.setattr(f"klazy.live.{module}.time", lambda: float(next(clock)))
        with open_step(place, keep=keep) as agent:
            for t in range(1, 41):
                agent.update(GRADIENTS[t - 1], id=t)
            rounds = agent.history()["t"].to_list()
        assert rounds == list(range(rounds[0], 41))
        assert 4 <= len(rounds) <= 20
        with open_step(place) as agent:
            straight = kl.Agent(LEARNER, engine="step")
            for row in GRADIENTS:
                straight.update(row)
            assert seen(agent) == seen(straight)
        assert find_faults(place) == []
        (listed,) = json.loads(call_klazy("agents", place, "--json").stdout)
        assert listed["rounds"] == 40

    @pytest.mark.parametrize(
        "leap", ["one reading ahead", "ahead for good", "one reading back", "back for a while"]
    )
    def test_a_clock_that_leaps_prunes_nothing_of_late(self, file, monkeypatch, leap):
        """A year ahead or back amid rounds of a second each: the last half minute stays, and older rounds go in the end."""
        monkeypatch.setattr(stored, "SNAPSHOT_ROUNDS", 4)
        year = 3e7
        leaps = {
            "one reading ahead": lambda t: year * (60 <= t < 64),
            "ahead for good": lambda t: year * (t >= 60),
            "one reading back": lambda t: -year * (60 <= t < 64),
            "back for a while": lambda t: -year * (60 <= t < 80),
        }
        now = [0]
        for module in ("stored", "store"):
            monkeypatch.setattr(
                f"klazy.live.{module}.time", lambda: 1e9 + now[0] + leaps[leap](now[0])
            )
        with open_step(file, keep=timedelta(seconds=40)) as agent:
            for t in range(1, 161):
                now[0] = t
                agent.update(GRADIENTS[t % 40])
                if t % 4 == 1:
                    first = (store_of(agent).find_first_record(1) or 0) + 1
                    assert first <= max(1, t - 28), (
                        t
                    )  # at least three quarters of what is asked for
                    assert t < 120 or first >= t - 80
        assert find_faults(file) == []

    def test_a_pruning_that_ends_half_way_does_no_harm(self, file, monkeypatch):
        monkeypatch.setattr(stored, "SNAPSHOT_ROUNDS", 4)
        with open_step(file) as agent:
            for row in GRADIENTS:
                agent.update(row)
            store = store_of(agent)
            ask = store.ask

            def fail(sql, *values):
                if sql.startswith("DELETE FROM records"):
                    raise sqlite3.OperationalError("disk I/O error")
                return ask(sql, *values)

            with monkeypatch.context() as patched:
                patched.setattr(store, "ask", fail)
                with pytest.raises(ValueError, match="disk I/O error"):
                    store.prune(1, 20, None)
            now = seen(agent)
        assert find_faults(file) == []
        with open_step(file) as agent:
            assert seen(agent) == now
            assert agent.history().height == 40

    def test_a_check_sees_one_moment_while_agents_go_on(self, place, monkeypatch):
        monkeypatch.setattr(stored, "SNAPSHOT_ROUNDS", 4)
        real = Store.read_snapshots
        with open_step(place, keep=4) as agent:
            for row in GRADIENTS:
                agent.update(row)

            def read_and_go_on(store, number):
                found = real(store, number)
                for row in GRADIENTS:
                    agent.update(row)
                return found

            monkeypatch.setattr(Store, "read_snapshots", read_and_go_on)
            assert find_faults(place) == []
            assert agent.t == 81

    def test_a_backup_is_a_store(self, file, tmp_path):
        with open_step(file) as agent:
            play(agent, 1, GRADIENTS[0])
            stop = threading.Event()

            def write():
                t = 2
                while not stop.is_set():
                    other.update(GRADIENTS[t % 40])
                    t += 1

            other = open_step(file, name="other")
            writer = threading.Thread(target=write)
            writer.start()
            time.sleep(0.02)
            agent.backup(tmp_path / "backup.db")
            stop.set()
            writer.join()
            other.close()
            with pytest.raises(ValueError, match=r".* exists already."):
                agent.backup(tmp_path / "backup.db")
        assert find_faults(tmp_path / "backup.db") == []
        with open_step(tmp_path / "backup.db") as agent:
            assert seen(agent) == seen(in_memory(1))


class TestCommands:
    @pytest.fixture
    def store(self, file):
        in_store(file, 4, name="eu-west", guards=GUARDS)
        kl.Agent.open(file, kl.GD(kl.L2Ball(5), 1.0), name="us-east").close()
        return file

    def test_agents(self, store):
        ended = call_klazy("agents", store)
        assert (ended.status, ended.stderr) == (0, "")
        assert [line.split()[0] for line in ended.stdout.splitlines()] == [
            "name",
            "eu-west",
            "us-east",
        ]
        eu, us = json.loads(call_klazy("agents", store, "--json").stdout)
        agent = kl.Agent.open(store, name="eu-west", read_only=True)
        assert eu["decision"] == agent.x.tolist()
        assert np.isclose(eu["switching"], agent.switching)
        assert (eu["rounds"], eu["frozen"], us["rounds"], us["last"]) == (4, True, 0, None)
        agent.close()

    def test_history(self, store, tmp_path):
        ended = call_klazy("history", store, "eu-west", "--json")
        rounds = [json.loads(line) for line in ended.stdout.splitlines()]
        assert [each["t"] for each in rounds] == [1, 2, 3, 4]
        csv = call_klazy("history", store, "eu-west", "--csv", "--last", "2").stdout.splitlines()
        assert csv[0].split(",")[-4:] == ["gradient_1", "gradient_2", "decision_1", "decision_2"]
        assert float(csv[2].split(",")[-1]) == rounds[-1]["decision"][-1]
        assert call_klazy("history", store, "eu-west").stdout.splitlines()[1].split()[1] == "1"
        assert call_klazy("history", store, "us-east").stdout == "No rounds yet.\n"
        ended = call_klazy("history", store, "eu-west", "--plot", tmp_path / "h.png")
        assert (ended.status, ended.stdout) == (0, f"{tmp_path / 'h.png'}\n")
        assert (tmp_path / "h.png").read_bytes().startswith(b"\x89PNG")

    def test_check_and_backup(self, store, tmp_path):
        ended = call_klazy("check", store)
        assert ended.stdout.splitlines() == [
            "The store is intact.",
            "eu-west: 4 rounds, identical bit for bit.",
            "us-east: 0 rounds, identical bit for bit.",
        ]
        assert call_klazy("backup", store, tmp_path / "b.db").status == 0
        assert (
            json.loads(call_klazy("check", tmp_path / "b.db", "--json").stdout)["intact"] is True
        )

    def test_check_says_what_another_machine_computed(self, file, monkeypatch):
        with monkeypatch.context() as there:
            there.setattr(
                state, "describe_machine", lambda engine: {"klazy": "0.0.1", "cpu": "abacus"}
            )
            in_store(file, 4)
        words = "agent: 4 rounds, identical bit for bit; 4 from another kind of machine were not compared."
        assert words in call_klazy("check", file).stdout

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["agents", "nowhere.db"], ".* does not exist"),
            (["check", "{folder}"], ".* is a folder"),
            (
                ["history", "{store}", "eu"],
                ".*'eu'",
            ),
            (["history", "{store}", "eu-west", "--json", "--csv"], "Choose one of --json and"),
            (
                ["history", "{store}", "us-east", "--plot", "x.png"],
                "There are no rounds",
            ),
            (["history", "{store}", "eu-west", "--plot", "x.xyz"], "--plot cannot write x.xyz"),
            (["backup", "{store}", "{store}"], r".* exists already."),
        ],
    )
    def test_bad_input_is_one_line(self, store, tmp_path, arguments, message):
        given = [text.format(store=store, folder=tmp_path) for text in arguments]
        ended = call_klazy(*given, folder=tmp_path)
        assert ended.status == 2
        assert re.match(message, ended.stderr), ended.stderr
        assert ended.stderr.count("\n") == 1


# Deleted agents, tokens and transactions of several agents


def test_a_deleted_agent_takes_no_round_in_any_process_until_it_is_restored(tmp_path):
    file = tmp_path / "decisions.db"
    learner = kl.GD(kl.Simplex(5), sigma=1.0)
    with kl.Agent.open(file, learner, engine="step") as agent, kl.Agent.open(file) as other:
        first = agent.update(np.ones(5), id="a")
        agent.delete("moved to eu-north")
        agent.delete("again")
        for each in (agent, other):
            with pytest.raises(
                ValueError,
                match=r"The agent 'agent' was deleted. Restore it with agent.restore\(\).",
            ):
                each.update(np.ones(5), retry=True)
            np.testing.assert_array_equal(
                each.update(np.ones(5), id="a"), first
            )  # an answer, no round
    with kl.Agent.open(file) as agent:
        with pytest.raises(
            ValueError, match=r"The agent 'agent' was deleted. Restore it with agent.restore\(\)."
        ):
            agent.update(np.ones(5))
        agent.restore("back")
        agent.update(np.ones(5))
        assert agent.t == 3
    listed = json.loads(call_klazy("agents", file, "--json").stdout)
    assert [found["deleted"] for found in listed] == [False]
    with closing(sqlite3.connect(file)) as rows:
        changes = rows.execute(
            "SELECT change, note FROM changes WHERE change IN ('delete', 'restore')"
        ).fetchall()
    assert changes == [("delete", "moved to eu-north"), ("restore", "back")]
    assert call_klazy("check", file).status == 0


def test_what_is_written_together_is_there_whole_or_not_at_all(tmp_path):
    file = tmp_path / "decisions.db"
    with kl.Agent.open(file, kl.GD(kl.Simplex(5), sigma=1.0), engine="step"):
        pass
    store = open_store(file)

    def fail_after(id):
        with store.together():
            revived.end(lambda now, id: now.record_gradient(np.ones(5), id), id)
            raise ZeroDivisionError

    revived = StoredAgent(store, store.list_agents()[0]).revive()
    with store.together():
        revived.end(lambda now, id: now.record_gradient(np.ones(5), id), "outer")
        with pytest.raises(ZeroDivisionError):
            fail_after("inner")
    assert [row.id for row in store.read_records(1, 0)] == ["outer"]
    revived = StoredAgent(store, store.list_agents()[0]).revive()
    with pytest.raises(ZeroDivisionError):
        fail_after("never")
    assert [row.id for row in store.read_records(1, 0)] == ["outer"]
    store.close()
