"""An agent's life in rounds that can be compared to the bit, and processes that live it in a store until they are killed."""

import copy
import ctypes
import json
import os
import random
import select
import shutil
import signal
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np

import klazy as kl
from cases import flattened, gradients
from klazy.live import stored

LEARNER = kl.KLazyGD(kl.Simplex(2), 2.0, k=4)
GUARDS = kl.Guards(
    G=2.0, above="clip", per_round=0.2, total=400.0, hold=2, movement=kl.L1Movement(0.7)
)
GRADIENTS = gradients(0, 40, 2)
DIE_IN, DIE_AFTER, SHORT = -1, -2, -3  # of faults.c


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


def in_store(path, rounds, **options):
    """A closed store with an agent after some rounds."""
    with open_step(path, **options) as agent:
        for t in range(1, rounds + 1):
            play(agent, t, GRADIENTS[(t - 1) % 40])
    return path


def leave_as_killed(path, to, rounds, **options):
    """Copies of the files that a kill leaves after some rounds."""
    to.mkdir()
    with open_step(path, **options) as agent:
        for t in range(1, rounds + 1):
            play(agent, t, GRADIENTS[(t - 1) % 40])
        for name in (
            path.name,
            f"{path.name}-wal",
        ):  # what is shared between processes is made again
            shutil.copy(path.with_name(name), to / name)
    return to / path.name


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


class Nursery:
    """Children forked from a warm process, which live in one store, one after the other, and tell which rounds they took."""

    def __init__(self, file, snapshots=5):
        stored.SNAPSHOT_ROUNDS = snapshots
        warnings.simplefilter("ignore")
        self.file = file
        self.twin = kl.Agent(LEARNER, engine="step", guards=GUARDS)

    def child(self, prepare, rounds=10**9, sync="always"):
        """Its process, and the end of a pipe into which it writes a byte for every round taken."""
        reader, writer = os.pipe()
        if (process := os.fork()) == 0:
            try:
                prepare()
                agent = open_step(self.file, guards=GUARDS, sync=sync)
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
        with open_step(self.file, guards=GUARDS) as agent:
            assert first + taken <= agent.t <= first + taken + 1, (first, taken, agent.t)
            while self.twin.t < agent.t:
                play(self.twin, self.twin.t, GRADIENTS[self.twin.t % 40])
            assert seen(agent) in (
                seen(self.twin),
                seen(before(copy.copy(self.twin), self.twin.t)),
            )
            assert agent.t == 1 or np.array_equal(
                agent.update(np.ones(2), id=f"round {agent.t - 1}"), self.twin.x
            )
        return status


def killed_at_random(file, lives=200, seed=0):
    """Kill children at random moments."""
    nursery, rng = Nursery(file), random.Random(seed)
    for life in range(lives):
        first = nursery.twin.t
        sync = "batch" if life % 2 else "always"
        process, reader = nursery.child(lambda: None, sync=sync)
        if life % 4:
            select.select(
                [reader], [], []
            )  # until it has taken a round; the others may die at birth
        time.sleep(rng.uniform(0.0, 0.01))
        os.kill(process, signal.SIGKILL)
        assert os.WTERMSIG(nursery.bury(process, reader, first)) == signal.SIGKILL
    print(json.dumps({"lives": lives, "rounds": nursery.twin.t - 1}))


def killed_fleets(place, lives=50, seed=0):
    """Kill processes that play a fleet: what it was told is there, of all agents or of none."""
    warnings.simplefilter("ignore")
    stored.SNAPSHOT_CALLS = 3
    learner = FLEET
    g = FLEET_GRADIENTS
    twin = kl.Fleet(learner, 4)
    rng = random.Random(seed)
    for life in range(lives):
        reader, writer = os.pipe()
        if (process := os.fork()) == 0:
            try:
                fleet = kl.Fleet.open(place, learner, 4, sync="batch" if life % 2 else "always")
                while True:
                    t = int(fleet.t[0])
                    fleet.update(g[t % 10 : t % 10 + 4], id=t)
                    os.write(writer, b"x")
            finally:
                os._exit(1)
        os.close(writer)
        if life % 4:
            select.select([reader], [], [])
        time.sleep(rng.uniform(0.0, 0.02))
        os.kill(process, signal.SIGKILL)
        _, status = os.waitpid(process, 0)
        assert os.WTERMSIG(status) == signal.SIGKILL
        taken = 0
        while data := os.read(reader, 2**16):
            taken += len(data)
        os.close(reader)
        first = int(twin.t[0])
        with kl.Fleet.open(place, learner, 4) as fleet:
            now = set(fleet.t.tolist())
            assert now <= {first + taken, first + taken + 1}
            assert len(now) == 1
            while twin.t[0] < fleet.t[0]:
                t = int(twin.t[0])
                twin.update(g[t % 10 : t % 10 + 4])
            assert fleet.x.tobytes() == twin.x.tobytes()
    print(json.dumps({"lives": lives, "calls": int(twin.t[0]) - 1}))


def killed_at_calls(folder, rounds=6, step=1):
    """Children that end their lives in, or right after, a call that changes files: each of them, or every ``step``-th."""
    faults = ctypes.CDLL(None)
    deaths = 0
    for moment in range(1, 10**6, step):
        ended = []
        for way in (DIE_IN, DIE_AFTER):
            nursery = Nursery(Path(folder) / f"{moment}{way}.db", snapshots=2)
            sync = "batch" if moment % 2 else "always"
            arm = partial(faults.klazy_arm, ctypes.c_long(moment), way, 0)
            status = nursery.bury(*nursery.child(arm, rounds, sync), 1)
            ended.append(status)
            if status:
                assert os.WTERMSIG(status) == signal.SIGKILL
                deaths += 1
                again = nursery.child(lambda: None, rounds)  # and what it left is as good as ever
                assert nursery.bury(*again, nursery.twin.t) == 0
        if not any(ended):
            break
    print(json.dumps({"deaths": deaths}))


def live_through_faults(folder, error, step=1, who="agent", rounds=5):
    """The system fails at a call, once or from then on, in a life; then it works again, and nothing is lost.

    It is the life of an agent or of a fleet.
    """
    faults = ctypes.CDLL(None)
    tried = 0
    refused = 0
    stored.SNAPSHOT_ROUNDS = 2
    stored.SNAPSHOT_CALLS = 2
    live, require_whole = LIVES[who]
    require_whole(
        live(Path(folder) / "whole.db", "batch", rounds, faults)[1], rounds
    )  # kernels are there now
    for lasts in (0, 1):
        for sync in ("always", "batch"):
            for moment in range(1, 10**6, step):
                file = Path(folder) / f"{lasts}-{sync}-{moment}.db"
                faults.klazy_arm(ctypes.c_long(moment), error, lasts)
                failed, _ = live(file, sync, rounds, faults)
                made = faults.klazy_calls()
                faults.klazy_arm(ctypes.c_long(0), 0, 0)
                refused += failed
                tried += 1
                require_whole(file, rounds)
                if not failed and made < moment:
                    break
    print(json.dumps({"tried": tried, "refused": refused}))


def _open_in_the_end(make, faults):
    """What ``make`` opens, and how often it was refused before the system worked again."""
    refused = 0
    while True:
        try:
            return make(), refused
        except ValueError:
            refused += 1
            faults.klazy_arm(ctypes.c_long(0), 0, 0)


def _live(file, sync, rounds, faults):
    """Open, play and close; what is refused is repeated once the system works again. How often it was, and the file."""
    agent, refused = _open_in_the_end(lambda: open_step(file, guards=GUARDS, sync=sync), faults)
    for t in range(1, rounds + 1):
        now = seen(agent)
        try:
            play(agent, t, GRADIENTS[t - 1])
        except ValueError:
            refused += 1
            assert seen(agent) in (now, seen(before(in_memory(t - 1, guards=GUARDS), t)))
            faults.klazy_arm(ctypes.c_long(0), 0, 0)
            play(agent, t, GRADIENTS[t - 1])
    agent.close()
    return refused, file


def _require_whole(file, rounds):
    with open_step(file, guards=GUARDS) as agent:
        assert seen(agent) == seen(in_memory(rounds, guards=GUARDS))


def _live_as_fleet(file, sync, rounds, faults):
    """The same of a fleet: a call that is refused has moved none of its agents."""
    fleet, refused = _open_in_the_end(lambda: kl.Fleet.open(file, FLEET, 4, sync=sync), faults)
    for t in range(rounds):
        now = fleet.x.tobytes()
        try:
            fleet.update(FLEET_GRADIENTS[t : t + 4], id=t)
        except ValueError:
            refused += 1
            assert fleet.x.tobytes() == now
            faults.klazy_arm(ctypes.c_long(0), 0, 0)
            fleet.update(FLEET_GRADIENTS[t : t + 4], id=t)
    fleet.close()
    return refused, file


def _require_whole_fleet(file, rounds):
    twin = kl.Fleet(FLEET, 4)
    for t in range(rounds):
        twin.update(FLEET_GRADIENTS[t : t + 4])
    with kl.Fleet.open(file) as fleet:
        assert fleet.t.tolist() == [rounds + 1] * 4
        assert fleet.x.tobytes() == twin.x.tobytes()


FLEET = kl.GD(kl.L2Ball(5), kl.Sqrt(9.0))
FLEET_GRADIENTS = gradients(1, 40, 5)
LIVES = {"agent": (_live, _require_whole), "fleet": (_live_as_fleet, _require_whole_fleet)}


def count_forced(file, sync, rounds=50):
    """How many calls force something to disk: while a store is made, in rounds, and when it is closed."""
    faults = ctypes.CDLL(None)
    found = []
    faults.klazy_arm(ctypes.c_long(0), 0, 0)
    agent = open_step(file, sync=sync)
    found.append(faults.klazy_syncs())
    for t in range(rounds):
        agent.update(GRADIENTS[t % 40])
    found.append(faults.klazy_syncs() - found[0])
    agent.close()
    found.append(faults.klazy_syncs() - sum(found))
    print(json.dumps(found))
