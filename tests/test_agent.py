"""The live object: it plays what run plays, survives a file, and refuses bad input before anything changes."""

import asyncio
import copy
import json
import os
import pickle
import re
import subprocess
import sys
from itertools import chain, cycle
from typing import Any
from zlib import crc32

import numpy as np
import pytest

import klazy as kl
from cases import (
    COMPILED_SETS,
    ENSEMBLES,
    EVERY_LEARNER,
    LEARNERS,
    PUBLIC,
    TRIANGLE,
    gradients,
)
from klazy.base.config import _CLASSES, _file_name
from klazy.kernels.layout import find_missing_part
from klazy.live.agent import add_checksum
from nursery import share

JIT_OFF = os.environ.get("NUMBA_DISABLE_JIT") == "1"


def drive(agent, g, hints=None):
    for t, row in enumerate(g):
        agent.update(row, next_hint=None if hints is None else hints[t])
    return agent


PLACES = [
    domain
    for domain in COMPILED_SETS
    if domain in (kl.L2Ball(5), kl.Simplex(5)) or domain.dim == 6
]


def places_of(make):
    """Where a learner is tried: compiled, each set meets a rule, and the simplex the others; as plain Python, all meet each."""
    if JIT_OFF:
        return PLACES
    if make in LEARNERS.values():
        rule = make(kl.L2Ball(5), 1.0).rule
        if rule in ("k_lazy", "patient"):
            return [kl.L2Ball(5) if rule == "k_lazy" else PLACES[-1]]
    return [kl.Simplex(5)]  # whose kernels the tests of files need, too


@pytest.mark.parametrize(
    ("make", "domain"),
    [
        pytest.param(make, domain, id=f"{domain!r}-{name}")
        for name, make in EVERY_LEARNER.items()
        for domain in places_of(make)
    ],
)
def test_an_agent_plays_what_run_plays(make, domain):
    learner, g = make(domain, kl.Sqrt(3.0)), gradients(0, 40, domain.dim)
    agent, x = kl.Agent(learner), kl.run(learner, g, engine="step").x
    for t, row in enumerate(g):
        assert agent.t == t + 1
        np.testing.assert_allclose(agent.x, x[t], atol=1e-12)
        agent.update(row)
    assert agent.engine == ("step" if find_missing_part(learner) else "compiled")


@pytest.mark.parametrize("make", EVERY_LEARNER.values(), ids=EVERY_LEARNER)
class TestEveryLearner:
    @pytest.mark.xdist_group("Simplex5")
    def test_goes_on_bit_for_bit_after_a_file(self, make, tmp_path):
        learner = make(kl.Simplex(5), kl.ScaleFree(2.0))
        g = gradients(1, 6 if JIT_OFF else 15, 5)
        for engine in ("step",) if find_missing_part(learner) else ("step", "compiled"):
            straight, stopped = kl.Agent(learner, engine=engine), kl.Agent(learner, engine=engine)
            for row in g:
                straight.update(row)
                stopped.save(tmp_path / "agent.json")
                stopped = kl.Agent.load(tmp_path / "agent.json")
                stopped.update(row)
                assert np.array_equal(stopped.x, straight.x)
                assert (stopped.t, stopped.engine) == (straight.t, engine)
                assert stopped.learner == learner


@pytest.mark.parametrize("sigma", [kl.Constant(2.0), kl.ScaleFree(2.0)], ids=repr)
def test_hints(sigma):
    g, learner = (
        gradients(2, 30, 5),
        kl.MemoryGD(kl.L2Ball(5), sigma, memory=kl.memories.Decay(4.0)),
    )
    ends = [
        drive(kl.Agent(learner, engine=engine), g, 0.5 * g).x for engine in ("compiled", "step")
    ]
    np.testing.assert_allclose(ends[0], ends[1], atol=1e-12)
    state = kl.run(learner, g, next_hints=0.5 * g).state
    np.testing.assert_allclose(ends[0], state.x, atol=1e-12)
    agent = kl.Agent(learner)
    agent.update(g[0], next_hint=g[1])
    agent.update(g[1])  # no hint is a hint of zero, not the last one again
    assert np.array_equal(agent.state.hint, np.zeros(5))
    with pytest.raises(
        ValueError,
        match=(
            r"GD\(domain=L2Ball\(dim=5\), sigma=Constant\(s=1.0\)\) takes no hints. Use MemoryGD, or "
            r"auto\(..., hints=True\)."
        ),
    ):
        kl.Agent(kl.GD(kl.L2Ball(5), 1.0)).update(g[0], next_hint=g[1])


def test_a_set_without_kernel_runs_through_step(tmp_path):
    agent = kl.Agent(kl.GD(TRIANGLE, 1.0))
    agent.update([1.0, -1.0])
    agent.save(tmp_path / "a.json")
    assert agent.engine == "step"
    assert np.array_equal(kl.Agent.load(tmp_path / "a.json").x, agent.x)
    with pytest.raises(
        ValueError,
        match=r"engine='compiled' needs a kernel for Polytope, and there is none. Use engine='auto'.",
    ):
        kl.Agent(kl.GD(TRIANGLE, 1.0), engine="compiled")


@pytest.mark.parametrize("engine", ["compiled", "step"])
@pytest.mark.parametrize(
    ("g", "message"),
    [
        (
            [1.0, np.nan, 0.0, 0.0, 0.0],
            r"g\[1\] must be a finite number, got nan. Remove or fill NaN and inf.",
        ),
        (
            np.array([1.0, 0.0, np.inf, 0.0, 0.0]),
            r"g\[2\] must be a finite number, got inf. Remove or fill NaN and inf.",
        ),
        (
            np.ones(4),
            r"g must have shape \(5,\), got \(4,\).",
        ),
        (np.ones((1, 5)), r"g must have shape \(5,\), got \(1, 5\)."),
        (1.0, r"g must have shape \(5,\), got \(\)."),
        (
            ["a", "b", "c", "d", "e"],
            r"g must contain real numbers, got an array of dtype <U1.",
        ),
        (
            np.array([0.0, -1e200, 0.0, 0.0, 0.0]),
            r"g\[1\] must be within \+-1e\+60, got -1e\+200. Use larger units.",
        ),
        (np.ones(5) * 1j, r"g must contain real numbers, got an array of dtype complex128."),
    ],
)
def test_bad_input_changes_nothing(engine, g, message):
    agent = drive(
        kl.Agent(kl.KLazyGD(kl.Simplex(5), 2.0, k=4), engine=engine), gradients(3, 7, 5)
    )
    before = [np.copy(field) for field in agent.state]
    with pytest.raises(ValueError, match=message):
        agent.update(g)
    assert all(np.array_equal(a, b) for a, b in zip(agent.state, before, strict=True))


@pytest.mark.parametrize("make", [LEARNERS["GD"], *ENSEMBLES.values()], ids=["GD", *ENSEMBLES])
def test_any_array_of_numbers_will_do(make):
    ends = []
    whole, frozen = np.arange(1, 6), np.arange(1.0, 6.0)
    frozen.setflags(write=False)
    strided = np.arange(1.0, 6.0).repeat(2)[::2]
    for g in (
        whole.tolist(),
        tuple(frozen.tolist()),
        whole,
        whole.astype(np.float32),
        strided,
        frozen,
    ):
        agent = kl.Agent(make(kl.Simplex(5), 9.0))
        agent.update(g)
        ends.append(agent.update(g).tolist())
    assert all(end == ends[0] for end in ends)


def test_x_is_a_copy():
    agent = kl.Agent(kl.GD(kl.L2Ball(5), 9.0))
    agent.x[:] = 7.0
    agent.update(np.ones(5))[:] = 7.0
    assert np.abs(agent.x).max() < 1.0


@pytest.mark.parametrize("engine", ["compiled", "step"])
@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda agent: pickle.loads(pickle.dumps(agent))]
)
def test_a_copy_lives_its_own_life(copied, engine):
    agent, g = kl.Agent(kl.KLazyGD(kl.Simplex(5), 2.0, k=4), engine=engine), gradients(3, 9, 5)
    twin = copied(drive(agent, g[:5]))
    ahead = drive(twin, g[5:]).x
    assert (agent.t, twin.t) == (6, 10)
    assert np.array_equal(drive(agent, g[5:]).x, ahead)


SHARED = {
    "bare": {"learner": kl.GD(kl.L2Ball(5), kl.Sqrt(9.0))},
    "as plain Python": {"learner": kl.GD(kl.L2Ball(5), kl.Sqrt(9.0)), "engine": "step"},
    "guarded": {"learner": kl.GD(kl.L2Ball(5), kl.Sqrt(9.0)), "guards": kl.Guards(hold=2)},
    "hinted": {"learner": kl.MemoryGD(kl.L2Ball(5), kl.Sqrt(9.0), memory=kl.memories.Decay(4.0))},
}


@pytest.mark.parametrize("options", SHARED.values(), ids=SHARED)
def test_threads_share_an_agent(options):
    """All give the same gradient, in any of its forms, so that their order does not matter."""
    agent, straight = kl.Agent(**options), kl.Agent(**options)
    g = np.linspace(-1.0, 0.5, 5)
    forms = cycle([g, g.tolist(), g, g.copy()])
    points = []

    def play():
        x = agent.update(next(forms))
        state = agent.state
        points.append((state.t, agent.x.tobytes(), x.tobytes(), state.x.tobytes()))

    share(play, 100 if JIT_OFF else 800)
    rounds = {straight.state.x.tobytes(): 1}
    played = {straight.x.tobytes()}
    for t in range(2, agent.t + 1):
        played.add(straight.update(g).tobytes())
        rounds[straight.state.x.tobytes()] = t
    assert agent.t == len(points) + 1
    assert agent.x.tobytes() == straight.x.tobytes()
    for t, before, after, own in points:
        assert {before, after} <= played
        assert rounds[own] >= t  # a point may come again, but never from elsewhere


@pytest.mark.skipif(JIT_OFF, reason="rounds as plain Python take the lock, and long")
def test_threads_never_see_a_long_point_half_copied():
    """All coordinates of its points are equal, and NumPy lets other threads run while it copies so many."""
    d = 200_000
    agent = kl.Agent(kl.GD(kl.Box(np.full(d, -1.0), np.ones(d)), 9.0))
    slopes = cycle([np.ones(d), np.full(d, -2.0)])

    def play():
        for x in (agent.update(next(slopes)), agent.x, agent.in_force):
            assert x.min() == x.max()

    share(play, 400)


@pytest.mark.parametrize("options", SHARED.values(), ids=SHARED)
def test_ids_are_taken_once_by_threads_too(options):
    agent = kl.Agent(**options)
    ids = iter(sorted([*range(100)] * 4))
    share(lambda: agent.update(np.ones(5), id=next(ids)), 400)
    assert agent.t == 101


def test_tasks_share_an_agent():
    async def play():
        await asyncio.gather(*(asyncio.to_thread(agent.update, np.ones(5)) for _ in range(200)))

    agent = kl.Agent(kl.GD(kl.L2Ball(5), 9.0), guards=kl.Guards())
    asyncio.run(play())
    assert agent.t == 201


# Their steps use BLAS or NumPy's exp, whose last bits depend on the CPU.
ROUNDED_BY_THE_CPU = {
    "Patient",
    "MemoryGD-Clip(kappa=0.8)",
    "MemoryGD-Event(kappa=1.5)",
    "nested SAder",
}
ROUNDED_BY_THE_CPU |= {
    "Bandit 1",
    "Bandit 2",
    "Budgeted",
    "Interpolation",
    "OptimisticHedge",
    "OnlineNewton",
    "Maler",
    "StronglyAdaptive",
    "SteadyAdaptive",
    "MirrorMemory",
    "Reluctant with hints",
    "SAder with hints",
    "Leader of ensembles",
    "Reluctant",
    "Reluctant sum",
    "Autoregressive",
    "Seasonal",
    *ENSEMBLES,
}


def hash_steps():
    """A checksum of what learners play through ``step``, on sets of either size, within guards."""
    played = []
    for domain in (
        kl.L2Ball(40),
        kl.L1Ball(40),
        kl.Simplex(40),
        kl.CappedSimplex(40, 1.0, 0.2),
        kl.Simplex(5),
    ):
        for name in EVERY_LEARNER.keys() - ROUNDED_BY_THE_CPU:
            learner = EVERY_LEARNER[name](domain, kl.ScaleFree(2.0))
            guards = kl.Guards(G=4.0, above="clip", per_round=0.3, movement=kl.L1Movement())
            agent = drive(
                kl.Agent(learner, engine="step", guards=guards), gradients(3, 30, domain.dim)
            )
            played.append((repr(learner), agent.state.x.tobytes(), agent.x.tobytes()))
    return crc32(repr(sorted(played)).encode())


@pytest.mark.skipif(JIT_OFF, reason="kernels do not matter here")
def test_step_plays_the_same_bits_whatever_the_cpu_offers():
    found: Any = np.show_config(mode="dicts")
    plain = {"NPY_DISABLE_CPU_FEATURES": " ".join(found["SIMD Extensions"].get("found", []))}
    plain |= {"OPENBLAS_CORETYPE": "Prescott"}
    ran = subprocess.run(
        [sys.executable, "-c", "import test_agent; print(test_agent.hash_steps())"],
        cwd=os.path.dirname(__file__),
        env=os.environ | plain,
        capture_output=True,
        text=True,
    )
    assert ran.stdout.strip() == str(hash_steps()), ran.stderr


def test_files_of_one_name_are_never_torn(tmp_path):
    """Each save is whole, whoever else saves there."""
    agent = kl.Agent(kl.GD(kl.L2Ball(5), 9.0), engine="step")
    others = [copy.copy(agent) for _ in range(4)]
    agent.save(tmp_path / "agent.json")
    turns = cycle(others)

    def save_and_load():
        next(turns).save(tmp_path / "agent.json")
        kl.Agent.load(tmp_path / "agent.json")

    share(save_and_load, 100)
    assert [file.name for file in tmp_path.iterdir()] == ["agent.json"]


class GD(kl.GD):
    """A user's learner that has the name of one of klazy's."""

    def step(self, state, g):
        return super().step(state, -g)


class Waiting(kl.GD):
    """A user's learner."""


class TestTheClassInAFile:
    def test_klazys_classes_are_named_by_no_module_since_they_may_move(self):
        kinds = [
            kind
            for kind in chain.from_iterable(_CLASSES.values())
            if kind.__module__.startswith("klazy.")
        ]
        names = [_file_name(kind) for kind in kinds]
        assert len(set(names)) == len(names) > 30
        for kind, name in zip(kinds, names, strict=True):
            assert PUBLIC.get(name.removeprefix("klazy."), kind) is kind
        assert kl.GD(kl.L2Ball(2), 1.0).to_dict() == {
            "class": "klazy.GD",
            "domain": {"class": "klazy.L2Ball", "dim": 2, "radius": 1.0, "center": None},
            "sigma": {"class": "klazy.Constant", "s": 1.0},
            "start": None,
        }

    @pytest.mark.parametrize("kind", [kl.GD, GD, Waiting])
    def test_a_class_of_the_same_name_is_never_taken_for_another(self, kind, tmp_path):
        agent = kl.Agent(kind(kl.L2Ball(2), 1.0), engine="step")
        agent.save(tmp_path / "agent.json")
        assert type(kl.Agent.load(tmp_path / "agent.json").learner) is kind
        ensemble = kl.SAder([kl.GD(kl.L2Ball(2), 1.0), agent.learner])
        loaded = kl.types.Learner.from_dict(json.loads(json.dumps(ensemble.to_dict())))
        assert [type(expert) for expert in loaded.experts] == [kl.GD, kind]

    def test_another_class_is_named_by_its_module(self):
        assert Waiting(kl.L2Ball(2), 1.0).to_dict()["class"] == "test_agent.Waiting"

    def test_a_bare_name_of_an_older_file_is_klazys(self):
        about = GD(kl.L2Ball(2), 1.0).to_dict() | {"class": "GD"}
        assert type(kl.types.Learner.from_dict(about)) is kl.GD

    @pytest.mark.parametrize(
        "name",
        ["Waiting", "klazy.Waiting", "elsewhere.Waiting", "os.GD", "klazy.L2Ball", None, 3],
    )
    def test_an_unknown_class_is_refused_and_nothing_is_imported(self, name):
        about = Waiting(kl.L2Ball(2), 1.0).to_dict() | {"class": name}
        message = f"No Learner of class {name!r} is known. Import the module that defines it."
        with pytest.raises(ValueError, match=re.escape(message)):
            kl.types.Learner.from_dict(about)
        assert "elsewhere" not in sys.modules

    def test_a_class_that_was_defined_again_is_the_new_one(self, monkeypatch):
        old = GD
        new = type("GD", (kl.GD,), {"__module__": __name__, "__qualname__": "GD"})
        monkeypatch.setattr(sys.modules[__name__], "GD", new)
        assert type(kl.types.Learner.from_dict(old(kl.L2Ball(2), 1.0).to_dict())) is new
        monkeypatch.undo()
        assert type(kl.types.Learner.from_dict(old(kl.L2Ball(2), 1.0).to_dict())) is old


class TestAFileOfAnAgent:
    @pytest.fixture
    def path(self, tmp_path):
        path = tmp_path / "agent.json"
        kl.Agent(
            kl.KLazyGD(kl.L2Ball(3), 9.0, k=2), engine="step", guards=kl.Guards(hold=2)
        ).save(path)
        return path

    def test_what_cannot_be_read_is_refused(self, path):
        about = json.loads(path.read_text())["agent"]
        for change, message in (
            (
                {"learner": {"class": "Popen"}},
                r"No Learner of class 'Popen' is known. Import the module that defines it.",
            ),
            (
                {"state": about["state"] | {"x": [0.0]}},
                r"state.x must have shape \(3,\), got \(1,\).",
            ),
            (
                {"state": about["state"] | {"x": [9.0, 0.0, 0.0]}},
                r"state.x must be in L2Ball\(dim=3\), got \[9.0, 0.0, 0.0\].",
            ),
            ({"state": about["state"] | {"t": 0}}, "state.t must be"),
            (
                {"state": {"t": 1, "x": [0.0, 0.0, 0.0]}},
                "damaged|state of a KLazyGD",
            ),
            ({"guarded": {}}, "The file is damaged: it has guards without their state."),
            ({"more": 1}, "is damaged"),
        ):
            path.write_bytes(add_checksum(about | change))
            with pytest.raises(ValueError, match=message):
                kl.Agent.load(path)

    @pytest.mark.parametrize("name", ["engine", "machine", "learner", "state", "guarded"])
    def test_what_is_incomplete_is_refused(self, path, name):
        """Without the state of its guards, an agent would go on as if there were none."""
        about = json.loads(path.read_text())["agent"]
        path.write_bytes(
            add_checksum({key: value for key, value in about.items() if key != name})
        )
        with pytest.raises(ValueError, match="damaged"):
            kl.Agent.load(path)

    def test_a_changed_file_is_refused(self, path):
        text = path.read_text()
        path.write_text(text.replace('"hold": 2', '"hold": 3'))
        message = r".* is damaged."
        with pytest.raises(ValueError, match=message):
            kl.Agent.load(path)

    @pytest.mark.parametrize("format", [1, 3, None])
    def test_another_format_is_refused(self, path, format):
        """The first one had no checksum."""
        path.write_text(json.dumps({"format": format, "engine": "step"}))
        message = f".* has format {format}; this klazy reads format 2. Load it with the klazy that wrote it."
        with pytest.raises(ValueError, match=message):
            kl.Agent.load(path)

    @pytest.mark.parametrize(
        "text", ["", "[]", "{", "{}", "\xff", '{"format": 2, "agent": 1}', "[" * 10**5]
    )
    def test_another_file_is_refused(self, path, text):
        path.write_text(text, encoding="latin-1")
        with pytest.raises(
            ValueError, match=r"is not a file that Agent.save wrote. Check the path."
        ):
            kl.Agent.load(path)

    def test_a_link_is_replaced_and_what_it_points_to_stays(self, path, tmp_path):
        agent = kl.Agent.load(path)
        other = tmp_path / "other"
        other.write_text("mine")
        for name in ("agent.json", "agent.json.partial"):
            (tmp_path / name).unlink(missing_ok=True)
            (tmp_path / name).symlink_to(other)
        agent.save(path)
        assert other.read_text() == "mine"
        assert not path.is_symlink()
        assert kl.Agent.load(path).t == 1

    def test_a_file_that_cannot_be_written_leaves_nothing_behind(self, path):
        agent = kl.Agent.load(path)
        path.unlink()
        path.mkdir()
        with pytest.raises(IsADirectoryError):
            agent.save(path)
        assert [file.name for file in path.parent.iterdir()] == ["agent.json"]


def test_repr():
    assert (
        repr(kl.Agent(kl.GD(kl.L2Ball(5), 9.0)))
        == "Agent(GD(domain=L2Ball(dim=5), sigma=Constant(s=9.0)), t=1)"
    )
