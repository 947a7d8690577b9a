"""Agents and their files under kills, lost power, failing disks, flipped bits and threads: no acknowledged round is lost."""

import asyncio
import errno
import io
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pytest
from audit import amount, record

import klazy as kl
from klazy.base import files as base_files
from klazy.live import journal as files
from klazy.live import records
from nursery import (
    GRADIENTS,
    GUARDS,
    LENGTH,
    Disk,
    before,
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


def in_a_process_of_its_own(call):
    """What it prints: forks should start where there are no threads."""
    script = f"import nursery; nursery.{call}"
    ran = subprocess.run(
        [sys.executable, "-c", script], cwd=Path(__file__).parents[1], capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


class TestKills:
    def test_at_random_moments(self, folder):
        lives = amount(60, 10_000)
        found = in_a_process_of_its_own(f"killed_at_random({str(folder)!r}, {lives})")
        assert found["lives"] == lives
        assert found["rounds"] >= 0.75 * lives  # three of four are let live until they have taken one
        record(
            "kills", "SIGKILL at random moments, both modes", lives, f"{found['rounds']} rounds, none lost"
        )

    def test_at_every_call_that_changes_files(self, folder):
        rounds = amount(2, 60)
        deaths = in_a_process_of_its_own(f"killed_at_every_call({str(folder)!r}, {rounds})")["deaths"]
        assert deaths >= 4 * rounds  # a round is a write and an fsync, and there are two deaths to each
        record("kills-at-calls", "SIGKILL in and after every call that changes files", deaths, "none lost")


@pytest.mark.parametrize("sync", ["always", "batch"])
def test_power_fails(sync, folder, tmp_path, monkeypatch):
    """Whatever was not forced to disk may be there, or not, or in part; acknowledged rounds are, with ``sync="always"``."""
    seconds = iter(range(10**9))
    monkeypatch.setattr(files, "LIMIT", 5 * LENGTH)
    monkeypatch.setattr(files, "monotonic", lambda: next(seconds) / 6.0)  # in batches of a few rounds
    rng = random.Random(0)
    disk = Disk(monkeypatch, folder)
    rounds = 12
    draws = amount(2, 400)
    states = []
    forced = 0

    def fail():
        """The states that may be found after a loss of power now; in batches, rounds since the last fsync may be lost."""
        least = taken if sync == "always" else forced
        states.extend((least, taken, disk.lose_power(rng)) for _ in range(draws))
        states.append((least, taken, disk.content()))

    taken = 0
    real = {name: getattr(os, name) for name in ("pwrite", "fsync", "replace", "ftruncate")}
    for name, call in real.items():

        def watch(*arguments, call=call):
            result = call(*arguments)
            fail()
            return result

        monkeypatch.setattr(os, name, watch)
    with open_step(folder, guards=GUARDS, sync=sync) as agent:
        for t in range(1, rounds + 1):
            play(agent, t, GRADIENTS[t - 1])
            taken = t
            if disk.log[-1] == "fsync journal":
                forced = t
    monkeypatch.undo()
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    twins = [in_memory(t, guards=GUARDS) for t in range(rounds + 1)]
    expected = [
        {repr(seen(twin)), repr(seen(before(in_memory(twin.t - 1, guards=GUARDS), twin.t)))} for twin in twins
    ]
    found = {}
    for least, most, content in states:
        key = (least, most, repr(sorted(content.items())))
        if key in found:
            continue
        place = write(Path(tempfile.mkdtemp(dir=tmp_path)), content)
        with warnings.catch_warnings(action="ignore", category=kl.TornJournal):
            agent = open_step(place, guards=GUARDS)
        with agent:
            assert least + 1 <= agent.t <= most + 2, (least, most, agent.t)
            assert repr(seen(agent)) in expected[agent.t - 1]
        found[key] = agent.t
    assert len(found) > 30
    record(
        f"power-{sync}",
        f"states after a loss of power, sync={sync}",
        len(states),
        "none lost that was promised",
    )


class Faults:
    """One system call fails, or writes less than it was asked to; if it ``lasts``, so do all that follow it."""

    CALLS = ("open", "stat", "fstat", "mkdir", "pwrite", "fsync", "replace", "ftruncate", "unlink")

    def __init__(self, monkeypatch, kind, lasts):
        self.kind = kind
        self.lasts = lasts
        self.made = 0
        self.arm(None)
        for name in self.CALLS:
            monkeypatch.setattr(os, name, self.watch(getattr(os, name)))
        monkeypatch.setattr(base_files, "open", self.open_file, raising=False)

    def arm(self, moment):
        """Fail at the call of this number from now on, None for at none."""
        self.moment = moment
        self.made = 0

    def strikes(self):
        self.made += 1
        if self.moment is None:
            return False
        return self.made == self.moment or (self.lasts and self.made > self.moment)

    def watch(self, real):
        def call(*arguments, **options):
            if not self.strikes():
                return real(*arguments, **options)
            if len(arguments) == 3 and isinstance(arguments[1], bytes):
                return self.write(lambda data: real(arguments[0], data, arguments[2]), arguments[1])
            if self.kind == "short":
                return real(*arguments, **options)
            raise OSError(self.kind, os.strerror(self.kind))

        return call

    def write(self, real, data):
        written = real(bytes(data)[: len(data) // 2 or 1])
        if self.kind == "short":
            return written
        raise OSError(self.kind, os.strerror(self.kind))

    def open_file(self, path, mode):
        """A file whose writes are calls, too."""
        faults = self

        class File(io.FileIO):
            def write(self, data):
                if faults.strikes():
                    return faults.write(super().write, data)
                return super().write(data)

        return io.BufferedWriter(File(path, mode.replace("b", "")))

    def survives(self, call):
        """Whether a call goes well; if the system fails, it works again afterwards."""
        try:
            call()
        except OSError:
            assert self.moment is not None
            assert self.made >= self.moment
            self.arm(None)
            return False
        return True


def live_through(faults, folder, file, sync):
    """Open, play, save and close; what failed is repeated, and nothing is lost or taken twice."""
    agents = []
    while not faults.survives(lambda: agents.append(open_step(folder, guards=GUARDS, sync=sync))):
        pass
    (agent,) = agents
    for t in range(1, 6):
        now = seen(agent)
        if not faults.survives(lambda t=t: play(agent, t, GRADIENTS[t - 1])):
            assert seen(agent) in (now, seen(before(in_memory(t - 1, guards=GUARDS), t)))
            play(agent, t, GRADIENTS[t - 1])
        if faults.survives(lambda: agent.save(file)):
            assert kl.Agent.load(file).t == t + 1
        elif file.exists():
            assert kl.Agent.load(file).t in (t, t + 1)  # the old one, or all of the new one
    faults.survives(agent.close)
    made = faults.made
    faults.arm(None)
    with open_step(folder, guards=GUARDS) as agent:
        assert seen(agent) == seen(in_memory(5, guards=GUARDS))
    left = [name for name in contents(folder) if not name.startswith("torn-")]
    assert sorted(left) == ["journal", "snapshot"]
    return made


KINDS = {"EIO": errno.EIO, "ENOSPC": errno.ENOSPC, "short writes": "short"}


@pytest.mark.parametrize("kind", KINDS)
def test_the_system_fails_at_every_call(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "LIMIT", 2 * LENGTH)
    tried = 0
    for lasts in (False, True):
        for sync in ("always", "batch"):
            with monkeypatch.context() as patched, warnings.catch_warnings():
                warnings.simplefilter("ignore", kl.TornJournal)
                faults = Faults(patched, KINDS[kind], lasts)
                calls = live_through(faults, tmp_path / f"{lasts}-{sync}", tmp_path / "agent.json", sync)
                assert calls > 60
                for moment in range(1, calls + 1, amount(11, 1)):
                    (tmp_path / "agent.json").unlink(missing_ok=True)
                    faults.arm(moment)
                    live_through(faults, tmp_path / f"{lasts}-{sync}-{moment}", tmp_path / "agent.json", sync)
                    tried += 1
    what = f"calls of the system that fail ({kind}), in open, update, save and close"
    record(f"faults-{kind.split()[0]}", what, tried, "no round lost or taken twice")


class TestEveryBit:
    """A flipped bit is refused, or changes nothing; only of an agent that was killed the last rounds may be dropped."""

    ROUNDS = 8

    def bits(self, data, sample):
        size = 8 * len(data)
        return range(0, size, amount(max(1, size // sample), 1))

    def test_of_a_saved_file(self, tmp_path):
        agent = in_memory(self.ROUNDS, guards=GUARDS)
        file = tmp_path / "agent.json"
        agent.save(file)
        data = file.read_bytes()
        tried = self.bits(data, 400)
        for bit in tried:
            write(tmp_path, {file.name: flipped(data, bit // 8, 1 << bit % 8)})
            with pytest.raises(ValueError, match=r"Agent.load needs "):
                kl.Agent.load(file)
        record("bits-saved", "bits of a file of Agent.save, flipped", len(tried), "all refused")

    @pytest.mark.parametrize("sync", ["always", "batch"])
    def test_of_a_closed_agent(self, sync, folder):
        on_disk(folder, self.ROUNDS, guards=GUARDS, sync=sync)
        content = contents(folder)
        count = 0
        for name, data in content.items():
            for bit in self.bits(data, 150):
                count += 1
                write(folder, content | {name: flipped(data, bit // 8, 1 << bit % 8)})
                with pytest.raises(ValueError, match=r"Agent.open needs "):
                    open_step(folder)
        write(folder, content)
        assert contents(folder) == content  # nothing else was written
        record(
            f"bits-closed-{sync}",
            f"bits of an agent that was closed, flipped, sync={sync}",
            count,
            "all refused",
        )

    @pytest.mark.parametrize("sync", ["always", "batch"])
    def test_of_a_killed_agent(self, sync, folder):
        content = on_disk(folder, self.ROUNDS, sync=sync)
        twins = [seen(in_memory(t)) for t in range(self.ROUNDS + 1)]
        vouched = self.ROUNDS - 1 if sync == "always" else 0
        count = 0
        dropped = 0
        for name, data in content.items():
            for bit in self.bits(data, 150):
                count += 1
                damaged = content | {name: flipped(data, bit // 8, 1 << bit % 8)}
                write(folder, damaged)
                with warnings.catch_warnings(record=True) as said:
                    warnings.simplefilter("always", kl.TornJournal)
                    try:
                        agent = open_step(folder)
                    except ValueError:
                        assert {key: (folder / key).read_bytes() for key in damaged} == damaged
                        continue
                with agent:
                    assert seen(agent) == twins[agent.t - 1]
                    assert agent.t > vouched
                    assert [each.category for each in said] == [kl.TornJournal]
                (kept,) = folder.glob("torn-*")
                at = records.FIRST + (agent.t - 1) * LENGTH
                assert kept.read_bytes() == data[: records.FIRST] + damaged["journal"][at:]
                kept.unlink()
                dropped += 1
        assert dropped > 0
        what = f"bits of an agent that was killed, flipped, sync={sync}"
        record(f"bits-killed-{sync}", what, count, f"refused, or {dropped} times set aside with a warning")


SHARED = {
    "compiled": {"learner": kl.GD(kl.L2Ball(5), kl.Sqrt(9.0))},
    "step": {"learner": kl.GD(kl.L2Ball(5), kl.Sqrt(9.0)), "engine": "step"},
    "guarded": {"learner": kl.GD(kl.L2Ball(5), kl.Sqrt(9.0)), "guards": kl.Guards(hold=2)},
    "durable": {"learner": kl.GD(kl.L2Ball(5), kl.Sqrt(9.0)), "guards": kl.Guards(hold=2)},
}


class TestThreads:
    @pytest.mark.parametrize("how", SHARED)
    def test_rounds_are_taken_once_and_states_are_whole(self, how, folder, tmp_path):
        options = SHARED[how]
        make = kl.Agent
        if how == "durable":
            make = lambda **given: kl.Agent.open(folder, sync="batch", **given)  # noqa: E731
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
            with kl.Agent.open(folder) as again:
                assert seen(again) == seen(agent)
        record(
            f"threads-{how}",
            f"turns of eight threads that share an agent ({how})",
            rounds,
            "none lost or doubled",
        )

    def test_tasks_share_an_agent_on_disk(self, folder):
        rounds = amount(200, 20_000)

        async def deliver(queue):
            while queue:
                await asyncio.to_thread(agent.update, np.ones(2), id=queue.pop())

        async def deliver_all():
            queue = sorted([*range(rounds), *range(rounds)])
            await asyncio.gather(*(deliver(queue) for _ in range(16)))

        with open_step(folder) as agent:
            asyncio.run(deliver_all())
        with open_step(folder) as agent:
            assert agent.t == rounds + 1
        record("asyncio", "rounds delivered twice through asyncio.to_thread", 2 * rounds, "taken once")


def test_many_agents_in_one_process(folder):
    """Each has files of its own, all are open at once, and none knows of the others."""
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = min(amount(100, 10_000), most - 200)
    folder.mkdir()
    learners = [kl.GD(kl.L2Ball(2, radius=1.0 + i), 1.0) for i in range(count)]
    agents = [kl.Agent.open(folder / str(i), learner, engine="step") for i, learner in enumerate(learners)]
    for t in range(3):
        for agent in agents:
            agent.update(GRADIENTS[t])
    for agent in agents:
        agent.close()
    for i, learner in enumerate(learners):
        with kl.Agent.open(folder / str(i)) as agent:
            straight = kl.Agent(learner, engine="step")
            for t in range(3):
                straight.update(GRADIENTS[t])
            assert seen(agent) == seen(straight)
    record("many", "agents open in one process at once", count, "each has its own rounds")
