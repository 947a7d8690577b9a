"""Agents in a store under kills, failing disks, flipped bits, other processes and threads: no acknowledged round is lost."""

import asyncio
import errno
import json
import os
import random
import resource
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from audit import amount, record

import klazy as kl
from cases import gradients
from klazy.base.checks import InvalidInput
from klazy.live import stored
from klazy.live.inspection import check_store
from klazy.live.store import open_store
from nursery import (
    GRADIENTS,
    GUARDS,
    LEARNER,
    SHORT,
    flipped,
    in_memory,
    in_store,
    leave_as_killed,
    open_step,
    seen,
    share,
)

TESTS = Path(__file__).parents[1]


def name_database(place):
    return "PostgreSQL" if isinstance(place, str) else "SQLite"


@pytest.fixture
def quick_disk(monkeypatch):
    """Nothing is forced to disk: where power does not fail, nothing can tell."""
    monkeypatch.setattr("klazy.live.sqlite.SYNCHRONOUS", {"always": "OFF", "batch": "OFF"})


def in_a_process_of_its_own(call, **environment):
    """What it prints: forks should start where there are no threads."""
    ran = subprocess.run(
        [sys.executable, "-c", f"import nursery; nursery.{call}"],
        cwd=TESTS,
        env=os.environ | environment,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


class TestKills:
    def test_at_random_moments(self, place):
        name = name_database(place)
        lives = amount(8, 10_000) if name == "SQLite" else amount(4, 3_000)
        found = in_a_process_of_its_own(f"killed_at_random({str(place)!r}, {lives})")
        assert found["lives"] == lives
        assert (
            found["rounds"] >= 0.75 * lives
        )  # three of four are let live until they have taken one
        what = f"SIGKILL at random moments, both modes ({name})"
        record(f"kills-{name.lower()}", what, lives, f"{found['rounds']} rounds, none lost")

    def test_of_fleets(self, place):
        name = name_database(place)
        lives = amount(4, 1_000)
        found = in_a_process_of_its_own(f"killed_fleets({str(place)!r}, {lives})")
        assert found["calls"] >= lives * 3 // 4  # so many live until they have made one
        what = f"SIGKILL of processes that play a fleet, at random moments ({name})"
        record(f"kills-fleets-{name.lower()}", what, lives, f"{found['calls']} calls, all whole")

    def test_at_calls_that_change_files(self, tmp_path, faults):
        rounds = amount(2, 30)
        step = amount(11, 1)
        call = f"killed_at_calls({str(tmp_path)!r}, {rounds}, {step})"
        deaths = in_a_process_of_its_own(call, **faults)["deaths"]
        assert deaths >= 8
        record(
            "kills-at-calls", "SIGKILL in and after calls that change files", deaths, "none lost"
        )


class TestForcedToDisk:
    """What SQLite promises after a loss of power rests on these calls."""

    def test_always_forces_each_round(self, file, faults):
        made, played, closed = in_a_process_of_its_own(
            f"count_forced({str(file)!r}, 'always', 50)", **faults
        )
        assert made >= 2  # the tables and the folder's new names
        assert played >= 50
        assert closed >= 1

    def test_batch_forces_none_of_a_few_rounds_but_the_end(self, file, faults):
        made, played, closed = in_a_process_of_its_own(
            f"count_forced({str(file)!r}, 'batch', 50)", **faults
        )
        assert made >= 2
        assert played == 0
        assert closed >= 2  # the log, then the file

    @pytest.mark.parametrize(("sync", "level"), [("always", 2), ("batch", 1)])
    def test_the_modes_are_sqlites(self, file, sync, level):
        store = open_store(file, sync)
        ask = store.ask
        assert ask("PRAGMA journal_mode") == [("wal",)]
        assert ask("PRAGMA synchronous") == [(level,)]
        assert ask("PRAGMA fullfsync") == [(1,)]
        store.close()


KINDS = {"EIO": errno.EIO, "ENOSPC": errno.ENOSPC, "short writes": SHORT}


@pytest.mark.parametrize(
    ("kind", "who"),
    [
        *((kind, "agent") for kind in KINDS),
        ("EIO", "fleet"),
        *(
            pytest.param(kind, "fleet", marks=pytest.mark.long)
            for kind in ("ENOSPC", "short writes")
        ),
    ],
)
def test_the_system_fails_at_calls(kind, who, tmp_path, faults):
    step = amount(23, 1)
    call = f"live_through_faults({str(tmp_path)!r}, {KINDS[kind]}, {step}, {who!r})"
    found = in_a_process_of_its_own(call, **faults)
    assert found["tried"] >= 12
    assert (found["refused"] > 0) == (kind != "short writes")
    name = f"faults-{kind.split()[0]}"
    what = f"calls of the system that fail ({kind}), in open, update and close"
    if who == "fleet":
        name = f"{name}-fleet"
        what = f"{what} of a fleet"
    record(name, what, found["tried"], "no round lost or taken twice")


class Load(threading.Thread):
    """An agent that plays on, whatever happens to its server, and remembers what it was told."""

    def __init__(self, url, name, with_ids, sync):
        super().__init__()
        self.url = url
        self.agent_name = name
        self.with_ids = with_ids
        self.sync = sync
        self.answers = []
        self.taken = 0
        self.gone_back = 0
        self.failed = None
        self.stopped = threading.Event()
        self.start()

    def run(self):
        try:
            with open_step(self.url, name=self.agent_name, sync=self.sync) as agent:
                while not self.stopped.is_set():
                    self.play(agent)
        except BaseException as error:
            self.failed = error

    def play(self, agent):
        t = agent.t
        try:
            x = agent.update(GRADIENTS[t % 40], id=f"round {t}" if self.with_ids else None)
        except kl.types.Overtaken as told:
            if "has gone back to an earlier round" not in str(told):
                raise
            self.gone_back += 1
            return
        self.answers[t - 1 :] = [x.tolist()]
        self.taken += 1


def wait_for_rounds(loads):
    """Until each has taken two more."""
    until = [load.taken + 2 for load in loads]
    while any(
        load.failed is None and load.taken < most for load, most in zip(loads, until, strict=True)
    ):
        time.sleep(0.005)


@pytest.mark.xdist_group("postgres")
def test_the_server_crashes_under_load(server):
    """An immediate shutdown, as a loss of power would be: what ``sync="always"`` acknowledged is there, once."""
    url = server.clear()
    crashes = amount(1, 300)
    rng = random.Random(0)
    kinds = {"ids": (True, "always"), "no ids": (False, "always"), "batch": (True, "batch")}
    loads = [Load(url, name, *kind) for name, kind in kinds.items()]
    for _ in range(crashes):
        wait_for_rounds(loads)
        time.sleep(rng.uniform(0.0, 0.1))
        server.crash()
        server.start()
    wait_for_rounds(loads)
    for load in loads:
        load.stopped.set()
        load.join()
        assert load.failed is None
        straight = kl.Agent(LEARNER, engine="step")
        with open_step(url, name=load.agent_name) as agent:
            made = agent.history()["decision"].to_list()
            assert made == load.answers
            for t in range(1, agent.t):
                straight.update(GRADIENTS[t % 40])
            assert seen(agent) == seen(straight)
            if load.sync == "always":
                assert load.gone_back == 0
                assert len(made) == load.taken > crashes
    store = open_store(url, read_only=True)
    assert [checked.fault for checked in check_store(store)] == [None] * 4
    store.close()
    rounds = sum(load.taken for load in loads)
    what = "immediate shutdowns of PostgreSQL under three agents"
    record("crashes", what, crashes, f"{rounds} rounds, none of sync=always lost or doubled")


def test_processes_race(place):
    """Each delivers every round, twice: all are taken once, and every answer is the decision that was made."""
    name = name_database(place)
    processes = amount(2, 8)
    rounds = amount(40, 2_000) if name == "SQLite" else amount(10, 500)
    script = f"""
import json, nursery
answers = {{}}
with nursery.open_step({str(place)!r}, sync="batch") as agent:
    for t in range({rounds}):
        for _ in range(2):
            x = agent.update(nursery.GRADIENTS[t % 40], id=t, retry=True)
            assert answers.setdefault(t, x.tolist()) == x.tolist()
print(json.dumps(list(answers.values())))
"""
    run = [sys.executable, "-c", script]
    started = [
        subprocess.Popen(run, cwd=TESTS, stdout=subprocess.PIPE, text=True)
        for _ in range(processes)
    ]
    answers = [json.loads(process.communicate()[0]) for process in started]
    assert all(each == answers[0] for each in answers)
    with open_step(place) as agent:
        assert agent.t == rounds + 1
        assert agent.history()["decision"].to_list() == answers[0]
    what = f"rounds that processes deliver at once, twice each ({name})"
    record(f"races-{name.lower()}", what, rounds * processes * 2, "taken once")


@pytest.mark.usefixtures("quick_disk")
class TestEveryBit:
    """A flipped bit is refused, or changes nothing of the agent, or `klazy check` finds it."""

    ROUNDS = 8

    def bits(self, data, sample):
        size = 8 * len(data)
        return range(0, size, amount(max(1, size // sample), 1))

    def find_faults(self, file):
        store = open_store(file, read_only=True)
        try:
            return [checked.fault for checked in check_store(store) if checked.fault is not None]
        finally:
            store.close()

    def test_of_a_saved_file(self, tmp_path):
        agent = in_memory(self.ROUNDS, guards=GUARDS)
        saved = tmp_path / "agent.json"
        agent.save(saved)
        data = saved.read_bytes()
        tried = self.bits(data, 400)
        for bit in tried:
            saved.write_bytes(flipped(data, bit // 8, 1 << bit % 8))
            with pytest.raises(ValueError, match=r"(has format|is not a file that|is damaged)"):
                kl.Agent.load(saved)
        record("bits-saved", "bits of a file of Agent.save, flipped", len(tried), "all refused")

    def test_of_a_closed_store(self, file, monkeypatch):
        monkeypatch.setattr(stored, "SNAPSHOT_ROUNDS", 3)
        in_store(file, 5, name="a", guards=GUARDS)
        in_store(file, self.ROUNDS, name="b", guards=GUARDS)
        data = file.read_bytes()
        twin = seen(in_memory(self.ROUNDS, guards=GUARDS))
        refused = 0
        found = 0
        tried = self.bits(data, 250)
        for bit in tried:
            for end in ("-wal", "-shm"):
                Path(f"{file}{end}").unlink(missing_ok=True)
            file.write_bytes(flipped(data, bit // 8, 1 << bit % 8))
            try:
                with open_step(file, name="b") as agent:
                    same = seen(agent) == twin
            except InvalidInput:
                refused += 1
                continue
            if not same:
                assert self.find_faults(file) != [], bit
                found += 1
        assert refused > 0
        what = "bits of a store that was closed, flipped"
        outcome = (
            f"the agent was the same, or refused ({refused}), or klazy check found it ({found})"
        )
        record("bits-closed", what, len(tried), outcome)

    def test_of_a_killed_agent(self, file, tmp_path):
        """SQLite takes a damaged end of its log for one that was never completed: then the rounds since may be missing."""
        killed = leave_as_killed(file, tmp_path / "killed", self.ROUNDS)
        log = Path(f"{killed}-wal")
        content = {path: path.read_bytes() for path in (killed, log)}
        twins = [seen(in_memory(t)) for t in range(self.ROUNDS + 1)]
        count = 0
        for damaged, data in content.items():
            for bit in self.bits(data, 100):
                count += 1
                Path(f"{killed}-shm").unlink(missing_ok=True)
                for path, whole in content.items():
                    path.write_bytes(whole)
                damaged.write_bytes(flipped(data, bit // 8, 1 << bit % 8))
                try:
                    with open_step(killed) as agent:
                        assert seen(agent) == twins[agent.t - 1], bit
                except InvalidInput:
                    continue
        what = "bits of the files of an agent that was killed, flipped"
        record("bits-killed", what, count, "refused, or a state that it had")


SHARED = {
    "compiled": {"learner": kl.GD(kl.L2Ball(5), kl.Sqrt(9.0))},
    "step": {"learner": kl.GD(kl.L2Ball(5), kl.Sqrt(9.0)), "engine": "step"},
    "guarded": {"learner": kl.GD(kl.L2Ball(5), kl.Sqrt(9.0)), "guards": kl.Guards(hold=2)},
    "durable": {"learner": kl.GD(kl.L2Ball(5), kl.Sqrt(9.0)), "guards": kl.Guards(hold=2)},
}


@pytest.mark.usefixtures("quick_disk")
class TestThreads:
    @pytest.mark.parametrize("how", SHARED)
    def test_rounds_are_taken_once_and_states_are_whole(self, how, file, tmp_path):
        options = SHARED[how]
        make = kl.Agent
        if how == "durable":
            make = lambda **given: kl.Agent.open(file, sync="batch", **given)  # noqa: E731
        rounds = amount(400, 100_000)
        g = np.linspace(-1.0, 0.5, 5)
        ids = iter(range(4 * rounds))

        def turn():
            n = next(ids)
            agent.update(g, id=n // 2)
            agent.update(g.tolist(), id=n // 2)
            if n % 16 == 0:
                agent.save(tmp_path / "agent.json")
                assert kl.Agent.load(tmp_path / "agent.json").t > 1
            if how not in ("compiled", "step") and n % 8 == 0:
                agent.freeze()
                agent.explain()
                agent.resume()
            state = agent.state
            assert agent.learner.domain.contains(agent.x)
            assert agent.t >= state.t > 1

        with make(**options) as agent:
            share(turn, rounds, threads=8)
            taken = {n // 2 for n in range(next(ids))}
            assert agent.t == len(taken) + 1
            straight = kl.Agent(options["learner"], engine=agent.engine)
            for _ in taken:
                straight.update(g)
            assert np.array_equal(agent.state.x, straight.x)
        if how == "durable":
            with kl.Agent.open(file) as again:
                assert seen(again) == seen(agent)
        record(
            f"threads-{how}",
            f"turns of eight threads that share an agent ({how})",
            rounds,
            "none lost or doubled",
        )

    def test_tasks_share_an_agent_in_a_store(self, file):
        rounds = amount(200, 20_000)

        async def deliver(queue):
            while queue:
                await asyncio.to_thread(agent.update, np.ones(2), id=queue.pop())

        async def deliver_all():
            queue = sorted([*range(rounds), *range(rounds)])
            await asyncio.gather(*(deliver(queue) for _ in range(16)))

        with open_step(file) as agent:
            asyncio.run(deliver_all())
        with open_step(file) as agent:
            assert agent.t == rounds + 1
        record(
            "asyncio",
            "rounds delivered twice through asyncio.to_thread",
            2 * rounds,
            "taken once",
        )


def test_a_long_life_of_one_agent(file):
    """A round takes as much room at the end as at the beginning, and to open the agent takes no longer."""
    rounds = amount(5_000, 10_000_000)
    learner = kl.GD(kl.L2Ball(5), kl.Sqrt(9.0))
    g = gradients(3, 1_000, 5)
    twin = kl.Agent(learner)
    sizes = [0]
    opened = []
    for part in (1, 2):
        with kl.Agent.open(file, learner, sync="batch", shared=False) as agent:
            while agent.t <= rounds * part // 2:
                row = g[agent.t % 1_000]
                assert agent.update(row).tobytes() == twin.update(row).tobytes()
        sizes.append(file.stat().st_size)
        start = time.perf_counter()
        with kl.Agent.open(file) as agent:
            opened.append(time.perf_counter() - start)
            assert agent.t == twin.t == rounds * part // 2 + 1
            assert seen(agent) == seen(twin)
    first, last = np.diff(sizes)
    assert last <= 1.01 * first  # keys and rounds are numbers of a few more digits
    store = open_store(file, read_only=True)
    assert [checked.fault for checked in check_store(store)] == [None, None]
    store.close()
    size = f"{sizes[-1] / rounds:.0f} bytes a round"
    outcome = f"{size}; opened in {1e3 * opened[0]:.0f} ms half way, in {1e3 * opened[1]:.0f} ms at the end"
    record("long-life", "rounds of one agent in a file", rounds, outcome)


@pytest.mark.usefixtures("quick_disk")
def test_many_agents_in_one_process(file):
    """All are in one file and open at once, and none knows of the others."""
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = min(amount(60, 10_000), (most - 200) // 3)
    learners = [kl.GD(kl.L2Ball(2, radius=1.0 + i), 1.0) for i in range(count)]
    agents = [
        kl.Agent.open(file, learner, name=str(i), engine="step")
        for i, learner in enumerate(learners)
    ]
    for t in range(3):
        for agent in agents:
            agent.update(GRADIENTS[t])
    for agent in agents:
        agent.close()
    for i, learner in enumerate(learners):
        with kl.Agent.open(file, name=str(i)) as agent:
            straight = kl.Agent(learner, engine="step")
            for t in range(3):
                straight.update(GRADIENTS[t])
            assert seen(agent) == seen(straight)
    record(
        "many", "agents of one file open in one process at once", count, "each has its own rounds"
    )
