"""An agent's life in rounds that can be compared to the bit, and processes that live it on disk until they are killed."""

import copy
import json
import os
import random
import re
import select
import signal
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

import klazy as kl
from cases import flattened, gradients
from klazy.live import journal as files
from klazy.live import records

LEARNER = kl.KLazyGD(kl.Simplex(2), 2.0, 4)
GUARDS = kl.Guards(G=2.0, above="clip", per_round=0.2, total=400.0, hold=2, movement=kl.L1Movement(0.7))
LENGTH = records.length_of(2)
GRADIENTS = gradients(0, 40, 2)


def open_step(path, **options):
    return kl.Agent.open(path, LEARNER, engine="step", **options)


def before(agent, t):
    """What happens before round ``t``; to do it again after a crash does no harm."""
    if agent.guards is not None and t % 10 in (3, 6):
        (agent.freeze if t % 10 == 3 else agent.resume)()
    return agent


def play(agent, t, g):
    """What happens before and in round ``t``, delivered twice."""
    before(agent, t).update(g, id=f"round {t}")
    return agent.update(-g, id=f"round {t}")


def seen(agent):
    """Everything that can be seen of an agent, to the bit."""
    state = [leaf.tobytes() for leaf in flattened(agent.state)]
    return (
        agent.t,
        agent.x.tobytes(),
        state,
        repr(agent.guards),
        agent.guards and agent.switching,
        repr(agent.explain()),
    )


def in_memory(rounds, **options):
    """The agent after some rounds, as it would be if nothing had happened to it."""
    agent = kl.Agent(LEARNER, engine="step", **options)
    for t in range(1, rounds + 1):
        play(agent, t, GRADIENTS[(t - 1) % 40])
    return agent


def on_disk(path, rounds, **options):
    """The files that a kill leaves after some rounds; those of a clean end stay there."""
    with open_step(path, **options) as agent:
        for t in range(1, rounds + 1):
            play(agent, t, GRADIENTS[(t - 1) % 40])
        return contents(path)


def contents(path):
    return {file.name: file.read_bytes() for file in path.iterdir()}


def write(path, content):
    path.mkdir(exist_ok=True)
    for name, data in content.items():
        with open(path / name, "r+b" if (path / name).exists() else "wb") as file:
            file.write(data)
            if os.fstat(file.fileno()).st_size > len(
                data
            ):  # to cut a file takes milliseconds on some file systems
                file.truncate(len(data))
    return path


def flipped(data, at, bits):
    return data[:at] + bytes([data[at] ^ bits]) + data[at + 1 :]


def share(turn, turns, threads=4):
    """Threads that change places as often as Python lets them."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(threads) as pool:
            for done in [pool.submit(turn) for _ in range(turns)]:
                done.result()
    finally:
        sys.setswitchinterval(interval)


class Disk:
    """A disk that keeps what was forced to it: the bytes of files at their last fsync, names at that of their folder.

    Of what came later it may keep anything: any of the writes, or the beginning of one, and the first of the new names.
    """

    def __init__(self, monkeypatch, folder):
        self.folder = folder
        self.log: list[str] = []
        self.bytes: dict[int, bytes] = {}
        self.names: dict[Path, dict[str, int]] = {}
        self.later: dict[int, list[Any]] = {}  # writes and cuts, by file
        self.renamed: list[tuple[str, int]] = []
        self.cuts: list[dict[str, bytes]] = []
        for call in ("pwrite", "fsync", "replace", "ftruncate"):
            monkeypatch.setattr(os, call, self.watched(call, getattr(os, call)))

    def watched(self, call, real):
        def watch(*arguments):
            result = real(*arguments)
            path = Path(arguments[0] if call == "replace" else os.readlink(f"/proc/self/fd/{arguments[0]}"))
            name = re.sub(r"\.[0-9a-f]{8}\.", ".x.", path.name)
            self.log.append(f"{call} {name}")
            if call == "replace":
                self.renamed.append((arguments[1].name, arguments[1].stat().st_ino))
            elif call == "fsync" and path.is_dir():
                self.names[path] = {
                    file.name: file.stat().st_ino for file in path.iterdir() if file.is_file()
                }
                if path == self.folder:
                    self.renamed.clear()
            elif call == "fsync":
                self.bytes[path.stat().st_ino] = path.read_bytes()
                self.later.pop(path.stat().st_ino, None)
            else:
                self.later.setdefault(path.stat().st_ino, []).append(arguments[1:])
            self.cuts.append(self.content())
            return result

        return watch

    def content(self):
        """What is there at least when power fails now."""
        return {name: self.bytes.get(inode, b"") for name, inode in self.names.get(self.folder, {}).items()}

    def lose_power(self, rng):
        """What may be there when power fails now."""
        names = dict(self.names.get(self.folder, {}))
        names |= dict(self.renamed[: rng.randint(0, len(self.renamed))])
        return {name: self.draw(inode, rng) for name, inode in names.items()}

    def draw(self, inode, rng):
        data = self.bytes.get(inode, b"")
        for operation in self.later.get(inode, []):
            if rng.random() < 0.5:
                continue
            if len(operation) == 1:
                data = data[: operation[0]]
                continue
            written, place = operation
            written = written[: rng.choice([len(written), rng.randint(0, len(written))])]
            data = data.ljust(place, b"\0")
            data = data[:place] + written + data[place + len(written) :]
        return data


class Nursery:
    """Children forked from a warm process, which live in one folder, one after the other, and tell which rounds they took."""

    def __init__(self, folder, limit=10 * LENGTH):
        os.fsync = lambda descriptor: None
        files.LIMIT = limit
        warnings.simplefilter("ignore")
        self.folder, self.twin, self.torn = Path(folder), kl.Agent(LEARNER, engine="step", guards=GUARDS), 0

    def child(self, prepare, rounds=10**9, sync="always"):
        """Its process, and the end of a pipe into which it writes a byte for every round taken."""
        reader, writer = os.pipe()
        if (process := os.fork()) == 0:
            try:
                prepare()
                agent = open_step(self.folder, guards=GUARDS, sync=sync)
                for _ in range(rounds):
                    play(agent, agent.t, GRADIENTS[agent.t % 40])
                    os.write(writer, b"x")
                agent.close()
                os._exit(0)
            finally:
                os._exit(1)
        os.close(writer)
        return process, reader

    def bury(self, process, reader, first):
        """How it ended; what it had taken since round ``first`` must be there, to the bit, and at most one round more."""
        _, status = os.waitpid(process, 0)
        taken = 0
        while data := os.read(reader, 2**16):
            taken += len(data)
        os.close(reader)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            agent = open_step(self.folder, guards=GUARDS)
        self.torn += len(caught)
        with agent:
            assert first + taken <= agent.t <= first + taken + 1, (first, taken, agent.t)
            while self.twin.t < agent.t:
                play(self.twin, self.twin.t, GRADIENTS[self.twin.t % 40])
            assert seen(agent) in (seen(self.twin), seen(before(copy.copy(self.twin), self.twin.t)))
            assert agent.t == 1 or np.array_equal(
                agent.update(np.ones(2), id=f"round {agent.t - 1}"), self.twin.x
            )
        return status


def killed_at_random(folder, lives=200, seed=0):
    """Kill children at random moments; they write their records in parts, so that some are torn."""
    nursery, rng, write_all = Nursery(folder), random.Random(seed), os.pwrite

    def write_part(file: int, data: Any, at: int) -> int:
        return write_all(file, data[:40], at)

    for life in range(lives):
        first = nursery.twin.t
        sync = "batch" if life % 2 else "always"
        process, reader = nursery.child(lambda: setattr(os, "pwrite", write_part), sync=sync)
        if life % 4:
            select.select([reader], [], [])  # until it has taken a round; the others may die at birth
        time.sleep(rng.uniform(0.0, 0.01))
        os.kill(process, signal.SIGKILL)
        assert os.WTERMSIG(nursery.bury(process, reader, first)) == signal.SIGKILL
    print(json.dumps({"lives": lives, "rounds": nursery.twin.t - 1, "torn": nursery.torn}))


def killed_at_every_call(folder, rounds=6):
    """Children that end their lives in, or right after, the first, the second, ... call that changes files."""
    deaths = 0
    for moment in range(10**6):
        nursery = Nursery(f"{folder}-{moment}", limit=2 * LENGTH)

        def prepare(moment=moment):
            calls = iter(range(10**6))
            for name in ("pwrite", "fsync", "replace", "ftruncate", "mkdir"):
                setattr(os, name, mortal(getattr(os, name), calls, moment))

        status = nursery.bury(*nursery.child(prepare, rounds), 1)
        if status == 0:
            break
        assert os.WTERMSIG(status) == signal.SIGKILL
        deaths += 1
        again = nursery.child(lambda: None, rounds)  # and what it left is as good as ever
        assert nursery.bury(*again, nursery.twin.t) == 0
    print(json.dumps({"deaths": deaths}))


def mortal(real, calls, moment):
    def call(*arguments: Any) -> Any:
        when, afterwards = divmod(moment, 2)
        dies = next(calls) == when
        if dies and not afterwards:
            if len(arguments) == 3:  # of a record it writes a part
                real(arguments[0], arguments[1][: 1 + when * 7 % len(arguments[1])], arguments[2])
            os.kill(os.getpid(), signal.SIGKILL)
        result = real(*arguments)
        if dies:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    return call
