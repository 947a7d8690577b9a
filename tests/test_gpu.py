"""Runs on a GPU against ``step``, in Numba's simulator: the same parts, driven by other threads."""

import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from threading import Barrier, get_ident

import numpy as np
import pytest

import klazy as kl
from cases import gradients
from command import call_klazy
from klazy.base.checks import InvalidInput
from klazy.base.install import advise_install
from klazy.game import device
from klazy.game.batch import run_batch
from klazy.game.run import run_many
from klazy.kernels.codes import SEASON_PERIOD
from klazy.kernels.rules import RULES
from klazy.studies.sweep.frame import CURVES
from simulator import stop_polling
from swept import MANY, served

AGREE = 1e-12  # of the sum of what is added up; the two engines add in another order
T = 9  # more than one tile of the simulator's kernels, and not a multiple of it
SETS = [
    kl.L2Ball(5, 0.7, [2.0, -1.0, 0.5, 0.0, 0.1]),
    kl.L1Ball(5, 2.0, [1.0, 0.0, -3.0, 0.2, 0.0]),
    kl.Simplex(3, 2.0),
    kl.Box([-1.0, 0.5], [1.0, 2.0]),
    kl.CappedSimplex(4, -0.5, [0.3, 1.0, 2.0, 0.0], [-1.0, -0.2, 0.0, -0.4]),
    kl.Product([kl.L1Ball(2), kl.CappedSimplex(3, 1.5, 1.0), kl.Simplex(2)]),
    kl.L1Ball(12, 0.5),
]
SCHEDULES = [
    kl.Constant(1.7),
    kl.Sqrt(9.0),
    kl.Sqrt(0.3, 4.5),
    kl.Doubling(2.0),
    kl.contrib.Proportional(0.4),
    kl.ScaleFree(2.0),
]
MEMORIES = [
    kl.memories.Forget(),
    kl.memories.Full(),
    kl.memories.Clock(4),
    kl.memories.Decay(5.0),
    kl.memories.Clip(0.8),
    kl.memories.Event(1.5),
]
BALL = kl.L2Ball(5)  # for which other tests compile kernels, too
TWO = [kl.KLazyGD(BALL, kl.Sqrt(5.0), k=4), kl.GD(BALL, 2.0)]

pytestmark = pytest.mark.skipif(
    os.environ.get("NUMBA_ENABLE_CUDASIM") != "1",
    reason="these tests are for Numba's CUDA simulator",
)
stop_polling()


def family(domain, turn):
    """A learner of every rule that batches play and of every memory; schedules take turns."""

    def sigma(i):
        return SCHEDULES[(i + turn) % len(SCHEDULES)]

    plain = [
        kl.GD(domain, sigma(0)),
        kl.KLazyGD(domain, sigma(1), k=4),
        kl.LazyGD(domain, sigma(1)),
        kl.KLazyFTRL(domain, sigma(2), k=3),
        kl.CentredOMD(domain, sigma(3)),
        kl.contrib.Patient(domain, sigma(4), move_cost=0.4),
    ]
    return plain + [
        kl.MemoryGD(domain, sigma(i), memory=memory) for i, memory in enumerate(MEMORIES)
    ]


def assert_agrees(batch, learners, costs, **options):
    assert batch.device == "cuda"
    assert batch.engine == "lanes"
    for i, learner in enumerate(learners):
        g = costs[i] if np.ndim(costs) == 3 else costs
        trace = kl.run(learner, g, record="costs", engine="step", **options)
        scale = np.abs(trace.hitting).sum()
        assert batch.hitting[i] == pytest.approx(trace.totals.hitting, rel=0, abs=AGREE * scale)
        assert batch.switching[i] == pytest.approx(trace.totals.switching, rel=AGREE, abs=AGREE)


def test_every_rule_of_batches_is_among_the_family():
    played = {learner.rule for learner in family(BALL, 0)}
    assert played == {rule for rule in RULES if RULES[rule].place is None}


@pytest.mark.parametrize("domain", SETS, ids=repr)
def test_every_rule_pays_on_every_set_what_step_pays(domain):
    learners = family(domain, SETS.index(domain))
    g = gradients(1, T, domain.dim)
    g[:2] = 0.0  # a scale-free schedule has nothing to go by at first
    assert_agrees(run_batch(learners, g, device="cuda"), learners, g)


@pytest.mark.parametrize("sigma", SCHEDULES, ids=repr)
def test_every_schedule_in_any_company(sigma):
    """Alone, runs share their sigmas; beside another offset, each finds its own."""
    g = gradients(2, T, 5)
    alone = [kl.KLazyGD(BALL, sigma, k=2)]
    together = [
        *alone,
        kl.KLazyGD(BALL, kl.Sqrt(3.0, 1.0), k=3),
        kl.KLazyGD(BALL, kl.Sqrt(3.0, 2.0), k=5),
    ]
    assert_agrees(run_batch(alone, g, device="cuda"), alone, g)
    assert_agrees(run_batch(together, g, device="cuda"), together, g)


MOVEMENT_KINDS = [
    kl.L1Movement(0.3),
    kl.TVMovement(2.0),
    kl.L2Movement(np.linspace(0.5, 2.0, T)),
    kl.contrib.WeightedL2Movement(0.5, scale=[1.0, 2.0, 0.5, 0.1, 3.0]),
    kl.contrib.AsymmetricMovement(
        2.0, up=[1.0, 2.0, 0.5, 1.0, 1.0], down=[0.0, 1.0, 3.0, 1.0, 2.0]
    ),
    kl.contrib.SwitchFee(2.0, tol=1e-3),
]


@pytest.mark.parametrize("movement", MOVEMENT_KINDS, ids=repr)
def test_every_movement_is_charged_as_by_step(movement):
    g = gradients(3, T, 5)
    assert_agrees(run_batch(TWO, g, movement=movement, device="cuda"), TWO, g, movement=movement)


@pytest.mark.parametrize(
    "domain",
    [kl.Simplex(3), kl.CappedSimplex(3, 1.5, 1.0), kl.Box([-1.0, 0.5], [1.0, 2.0]), kl.L2Ball(3)],
    ids=repr,
)
def test_a_rule_that_knows_its_set_pays_what_step_pays(domain):
    movement = kl.auto(domain).movement
    learners = [
        kl.contrib.Reluctant(domain, movement, window, 2.0) for window in (1.0, 4.0, None)
    ]
    g = 3.0 * gradients(6, T, domain.dim)
    assert_agrees(run_batch(learners, g, device="cuda"), learners, g)


@pytest.mark.parametrize("domain", [kl.Simplex(3), kl.CappedSimplex(3, 1.5, 1.0)], ids=repr)
def test_mirror_descent_pays_what_step_pays(domain):
    learners = [
        kl.contrib.MirrorMemory(domain, 0.7, memory=memory, geometry=kl.contrib.Entropy(0.1))
        for memory in (kl.memories.Clock(3), kl.memories.Decay(4.0))
    ]
    g = gradients(6, 7, 3)
    assert_agrees(run_batch(learners, g, device="cuda"), learners, g)


EXPERTS = [
    kl.GD(BALL, 2.0),
    kl.MemoryGD(BALL, kl.ScaleFree(1.0), memory=kl.memories.Decay(4.0)),
    kl.KLazyFTRL(BALL, kl.Sqrt(2.0), k=3),
]


@pytest.mark.parametrize("rate", [0.3, "self-tuned"])
def test_an_ensemble_of_unlike_experts_pays_what_step_pays(rate):
    learners = [kl.SAder(EXPERTS, rate)]
    g = gradients(4, 7, 5)
    assert_agrees(run_batch(learners, g, device="cuda"), learners, g)


@pytest.mark.parametrize(
    "domain", [kl.L2Ball(3), kl.Simplex(3), kl.Box([0.0, 0.0, 0.0], [1.0, 1.0, 1.0])], ids=repr
)
def test_a_leader_pays_what_step_pays_through_its_changes(domain):
    movement = kl.auto(domain).movement
    experts = [kl.contrib.Reluctant(domain, movement, window, 2.0) for window in (1.0, 4.0, None)]
    learner = kl.contrib.Leader(experts, movement)
    g = gradients(5, 12, 3) * np.linspace(4.0, 0.1, 12)[:, None]
    trace = kl.run(learner, g, engine="step", record="experts")
    assert len(np.unique(trace.weights, axis=0)) > 1, "nothing to test: it never changed over"
    assert_agrees(run_batch([learner], g, device="cuda"), [learner], g)


@pytest.mark.parametrize(
    ("domain", "period", "rounds"),
    [
        (BALL, None, 40),
        (kl.Simplex(3), 4, 18),
        (kl.Box([0.0, 0.0], [1.0, 1.0]), 4, 18),
        (kl.L2Ball(10), 4, 12),
    ],
    ids=repr,
)
def test_a_leader_with_seasons_pays_what_step_pays(domain, period, rounds):
    """A plan, and forecasts of a few rounds, for a period that is found or given."""
    movement = kl.auto(domain).movement
    experts = [
        kl.contrib.Reluctant(domain, movement, 1.0, 2.0),
        kl.contrib.Seasonal(domain, movement, None, 2, period=period),
    ]
    if period is not None:
        experts.append(kl.contrib.Seasonal(domain, movement, 3, 8, period=period))
    learner = kl.contrib.Leader(experts, movement)
    phase = np.arange(rounds)[:, None] / (period or 5) + gradients(7, 1, domain.dim)
    g = 4.0 * np.sin(2.0 * np.pi * phase) + 0.05 * gradients(8, rounds, domain.dim)
    trace = kl.run(learner, g, engine="step", record="experts")
    assert trace.state.season[SEASON_PERIOD] == (period or 5), (
        "nothing to test: there is no season"
    )
    assert trace.weights[:, 1:].any(), "nothing to test: nobody who looks ahead was followed"
    assert_agrees(run_batch([learner], g, device="cuda"), [learner], g)


def test_leaders_side_by_side_have_a_season_each():
    learner = kl.contrib.Leader(
        [
            kl.contrib.Reluctant(BALL, kl.L2Movement(1.0), 1.0, 2.0),
            kl.contrib.Seasonal(BALL, kl.L2Movement(1.0), 2, 1, period=3),
        ],
        kl.L2Movement(1.0),
    )
    g = 3.0 * np.stack([gradients(seed, T, 5) for seed in range(3)])
    assert_agrees(
        run_batch([learner, learner, learner], g, device="cuda"), [learner, learner, learner], g
    )


@pytest.mark.parametrize("domain", [BALL, kl.Simplex(3)], ids=repr)
def test_a_leader_with_regressions_pays_what_step_pays(domain):
    movement = kl.auto(domain).movement
    experts = [
        kl.contrib.Reluctant(domain, movement, 8.0, 16.0),
        kl.contrib.Seasonal(domain, movement, 2, 1, period=5),
    ]
    experts += [kl.contrib.Autoregressive(domain, movement, horizon) for horizon in (2, 16)]
    learner = kl.contrib.Leader(experts, movement)
    turns = np.where(np.arange(30)[:, None] // 10 % 2, 8.0, -8.0)
    g = turns * gradients(6, 1, domain.dim) + 0.1 * gradients(5, 30, domain.dim)
    trace = kl.run(learner, g, engine="step", record="experts")
    assert trace.weights[:, 2:].any(), "nothing to test: no forecast was followed"
    assert_agrees(run_batch([learner], g, device="cuda"), [learner], g)


def test_a_leader_of_several_periods_pays_what_step_pays():
    """One of them has not passed, but makes the ring longer than it is otherwise."""
    movement = kl.L2Movement(1.0)
    experts = [
        kl.contrib.Seasonal(BALL, movement, 2, 1, period=period) for period in (3, 5, 1440)
    ]
    learner = kl.contrib.Leader(
        [kl.contrib.Reluctant(BALL, movement, 1.0, 2.0), *experts], movement
    )
    g = 3.0 * gradients(3, 12, 5)
    assert_agrees(run_batch([learner], g, device="cuda"), [learner], g)


def test_sequences_are_sent_as_they_lie():
    """Views of one array are not copied; whatever does not follow the one before is."""
    g = np.stack([gradients(seed, 4, 3) for seed in range(5)])
    views = list(g)
    joined = device._join(views[1:4])
    assert np.shares_memory(joined, g)
    np.testing.assert_array_equal(joined.reshape(-1), g[1:4].reshape(-1))
    for others in (
        [views[0], views[2]],
        [views[1], views[0]],
        [each.copy() for each in views],
        list(g[:, ::-1]),
    ):
        joined = device._join(others)
        assert not np.shares_memory(joined, g)
        np.testing.assert_array_equal(joined.reshape(-1), np.concatenate(others).reshape(-1))


def test_a_sequence_for_each_run_and_curves():
    g = np.stack([gradients(seed, T, 5) for seed in range(3)])
    learners = [*TWO, TWO[0]]
    on_gpu = run_batch(learners, g, device="cuda", checkpoints=3)
    on_cpu = run_batch(learners, g, checkpoints=3)
    assert on_cpu.device == "cpu"
    assert_agrees(on_gpu, learners, g)
    np.testing.assert_array_equal(on_gpu.rounds, on_cpu.rounds)
    np.testing.assert_allclose(on_gpu.curves, on_cpu.curves, rtol=AGREE, atol=AGREE)
    for i, learner in enumerate(learners):
        alone = run_batch([learner], g[i], checkpoints=3)
        np.testing.assert_array_equal(on_cpu.curves[i], alone.curves[0])


def test_sequences_that_are_the_same_object_are_sent_once():
    one = kl.contrib.LinearCosts(gradients(0, T, 5))
    other = kl.contrib.LinearCosts(gradients(1, T, 5))
    costs = [one, other, one]
    batch = run_batch([*TWO, TWO[0]], costs, device="cuda")
    assert batch.cost[0] == batch.cost[2]
    assert_agrees(batch, [*TWO, TWO[0]], np.stack([c.arrays()[0] for c in costs]))


def test_pieces_change_nothing(monkeypatch):
    """More runs than fit: they are played a few at a time."""
    g = np.stack([gradients(seed, T, 5) for seed in range(4)])
    learners = [TWO[0] for _ in g]
    whole = run_batch(learners, g, device="cuda")
    monkeypatch.setattr(device, "PIECE_BYTES", 1)
    monkeypatch.setattr(device, "_count_places", lambda *_: 4)
    played = []
    play = device.play_pieces
    monkeypatch.setattr(
        device, "play_pieces", lambda pieces: play(played.append(p) or p for p in pieces)
    )
    cut = run_batch(learners, g, device="cuda")
    assert len(played) == 4
    np.testing.assert_array_equal(whole.cost, cut.cost)


def test_several_gpus_take_the_pieces_in_turn_and_change_nothing(monkeypatch):
    """The simulator is all of them; each has a thread and waits until both have taken a piece."""
    g = np.stack([gradients(seed, T, 5) for seed in range(6)])
    learners = [TWO[0], TWO[1]] * 3
    whole = run_batch(learners, g, device="cuda")
    both = Barrier(2, timeout=60.0)
    used = set()
    drawn = []

    def use(number):
        used.add((number, get_ident()))
        return nullcontext()

    def play_together(pieces, play=device.play_pieces):
        for turn, piece in enumerate(pieces):
            if not turn:
                both.wait()
            drawn.append(get_ident())
            yield from play(iter([piece]))

    monkeypatch.setattr("klazy.kernels.cuda.use_gpu", use)
    monkeypatch.setattr(device, "play_pieces", play_together)
    dealt = run_batch(learners, g, device="cuda:0,1")
    assert dealt.device == "cuda"
    assert {number for number, _ in used} == {0, 1}
    assert {thread for _, thread in used} == set(drawn)
    assert len(drawn) >= 4
    np.testing.assert_array_equal(whole.cost, dealt.cost)


def test_memory_of_a_piece_is_bounded():
    for T_, marks, own in (
        (10, 1, 0),
        (10_000, 200, 0),
        (10**7, 1, 0),
        (10, 1, 6155),
        (10, 200, 66_630),
    ):
        each = 2 * 16 * marks + 8 * own
        assert each * device._count_places(T_, marks, own) <= max(device.PIECE_BYTES, each * 1024)


@pytest.mark.filterwarnings(
    "ignore:invalid value:RuntimeWarning"
)  # of NumPy, which the simulator runs on
def test_what_is_not_finite_is_said_as_on_a_cpu():
    g = gradients(0, T, 5)
    g[4, 1] = np.inf
    with pytest.raises(ValueError, match="finite"):
        run_batch(TWO, g, device="cuda")


@pytest.mark.parametrize(
    ("learner", "costs", "said"),
    [
        (
            kl.LazyGD(kl.Simplex(65), 1.0),
            np.ones((2, 65)),
            "learners[0]: dimension 65, which is above 64",
        ),
        (
            kl.LazyGD(kl.Simplex(5), 1.0),
            kl.QuadraticCosts(np.ones((2, 5))),
            "learners[0]: QuadraticCosts, which are not linear",
        ),
        (
            kl.contrib.StronglyAdaptive(BALL, 1.0),
            np.ones((2, 5)),
            "learners[0]: StronglyAdaptive, which has no kernel",
        ),
        (
            kl.LastValue(BALL),
            np.ones((2, 5)),
            "learners[0]: LastValue, which keeps a window of rounds",
        ),
        (
            kl.SAder([kl.GD(BALL, 1.0), kl.LastValue(BALL)]),
            np.ones((2, 5)),
            "learners[0]: LastValue, which keeps a window of rounds",
        ),
    ],
    ids=["dimension", "costs", "kernel", "window", "expert"],
)
def test_what_a_gpu_does_not_play_is_refused_by_name(learner, costs, said, monkeypatch):
    monkeypatch.setattr("klazy.game.batch.run_many", partial(run_many, engine="step"))
    with pytest.raises(InvalidInput, match=re.escape(f"A GPU cannot play {said}")):
        run_batch([learner], costs, device="cuda")
    batch = run_batch([learner], costs, device="auto")
    assert batch.device == "cpu"


def test_what_is_missing_is_said_with_how_to_get_it(monkeypatch):
    monkeypatch.setenv("NUMBA_ENABLE_CUDASIM", "0")
    monkeypatch.setattr(device, "find_spec", lambda name: None)
    how = advise_install("gpu")
    said = f"device='cuda' needs numba-cuda, which is not installed. Run `{how}`, or use device='cpu'."
    with pytest.raises(InvalidInput, match=re.escape(said)):
        run_batch(TWO, np.ones((3, 5)), device="cuda")
    assert run_batch(TWO, np.ones((3, 5)), device="auto").device == "cpu"
    monkeypatch.setattr(device, "find_spec", lambda name: name)
    monkeypatch.setattr("klazy.kernels.cuda.count_gpus", lambda: 0)
    said = (
        "device='cuda' needs an NVIDIA GPU with its driver. Run it where `nvidia-smi` shows one"
    )
    with pytest.raises(InvalidInput, match=re.escape(said)):
        run_batch(TWO, np.ones((3, 5)), device="cuda")
    monkeypatch.setattr("klazy.kernels.cuda.count_gpus", lambda: 2)
    said = "device='cuda:1,2' needs GPU 2, but the last one here is 1. Name those that `nvidia-smi` shows, or"
    with pytest.raises(InvalidInput, match=re.escape(said)):
        run_batch(TWO, np.ones((3, 5)), device="cuda:1,2")
    assert device.choose_device("cuda:0,1") == "cuda:0,1"


@pytest.mark.parametrize("wrong", ["tpu", "cuda:", "cuda:a", "cuda:0,", "cuda:-1", "cuda:0 1", 3])
def test_a_device_is_known(wrong):
    said = f"device must be 'cpu', 'cuda', 'auto' or GPUs by number such as 'cuda:0,1', got {wrong!r}."
    with pytest.raises(InvalidInput, match=re.escape(said)):
        run_batch(TWO, np.ones((3, 5)), device=wrong)
    with pytest.raises(InvalidInput, match=re.escape(said)):
        kl.Study(**STUDY | {"device": wrong})


def test_a_gpu_that_fails_ends_in_one_sentence(monkeypatch):
    def fail(*_):
        raise MemoryError("out of memory\nand more")

    monkeypatch.setattr("klazy.kernels.cuda.DeviceMemory.allocate", fail)
    said = "The GPU did not finish its work: out of memory. Play fewer runs at a time, or use the CPU."
    with pytest.raises(device.DeviceFailed, match=f"^{re.escape(said)}$"):
        run_batch(TWO, np.ones((3, 5)), device="cuda")


# ---- sweeps


def test_a_sweep_whose_gpu_fails_keeps_what_was_played(tmp_path, monkeypatch):
    from klazy.studies.sweep import player

    played = []
    play_grid = device.play_grid

    def fail_later(grid, gpus):
        # Two groups are played at a time, in any order.
        if len(played) == 2:
            raise device.DeviceFailed(
                "klazy needs a GPU that finishes its work, got error=lost; take the CPU."
            )
        played.append(grid)
        return play_grid(grid, gpus)

    monkeypatch.setattr(player, "TOGETHER", 1)
    monkeypatch.setattr(device, "play_grid", fail_later)
    study = kl.Study(**STUDY | {"seeds": 1, "record": "totals"})
    with pytest.raises(device.DeviceFailed, match="lost"):
        kl.sweep(study, tmp_path, device="cuda")
    kept = len(kl.load_sweep(tmp_path))
    assert kept == 20  # all of the first two sequences
    assert kl.sweep(study, tmp_path, jobs=1).reused == kept


STUDY = {
    "scenarios": [
        {"recipe": "stochastic", "phases": 2, "length": 5},
        {"recipe": "phases_of_length", "length": [3, 5], "T": 10, "dim": 5},
    ],
    "learners": [
        {"rule": "KLazyGD", "sigma": [1.0, 2.0], "k": [1, 3]},
        {"rule": "Decay", "c": 4.0, "m": 5.0},
    ],
    "seeds": 2,
    "move_cost": [0.5, 2.0],
    "record": "curves",
}


def test_a_sweep_begun_on_a_cpu_goes_on_on_a_gpu_with_the_same_rows(tmp_path):
    study = kl.Study(**STUDY)
    on_cpu = kl.sweep(study, jobs=1)
    fewer = kl.Study(**STUDY | {"learners": STUDY["learners"][:1]})
    begun = kl.sweep(fewer, tmp_path, jobs=1)
    on_gpu = kl.sweep(study, tmp_path, device="cuda")
    assert on_gpu.reused == begun.runs
    assert on_gpu.computed == on_cpu.runs - begun.runs
    assert on_gpu.device == "Numba's CUDA simulator"
    whole = kl.sweep(kl.Study(**STUDY, device="cuda"))
    on_two = kl.sweep(kl.Study(**STUDY, device="cuda:0,1"))
    assert on_two.device == "Numba's CUDA simulator, Numba's CUDA simulator"
    assert whole.learner_rounds == on_cpu.learner_rounds
    for other in (on_gpu, whole, on_two):
        assert other.rows.schema == on_cpu.rows.schema
        for name in on_cpu.rows.columns:
            ours = other.rows[name].to_list()
            theirs = on_cpu.rows[name].to_list()
            if name in (
                "hitting",
                "switching",
                "cost",
                "dynamic_regret",
                "total_regret",
                *CURVES,
            ):
                np.testing.assert_allclose(
                    ours, theirs, rtol=AGREE, atol=10 * AGREE, err_msg=name
                )
            else:
                assert ours == theirs, name


def test_a_sweep_on_gpus_that_is_killed_goes_on(tmp_path):
    of = kl.Study(**MANY)
    (left,) = served(
        """
from klazy.studies.sweep import player
from simulator import stop_polling
stop_polling()
player.TOGETHER = 1
pid = os.fork()
if pid == 0:
    execute.sweep(study, out, device="cuda:0,1")
    os._exit(0)
while not os.path.isdir(out) or sum(name.endswith(".parquet") for name in os.listdir(out)) < 2:
    time.sleep(0.01)
os.kill(pid, signal.SIGKILL)
print(os.WIFSIGNALED(os.waitpid(pid, 0)[1]))
""",
        of,
        tmp_path,
    )
    assert left == "True", "it ended before it was killed"
    there = len(kl.load_sweep(tmp_path))
    found = kl.sweep(of, tmp_path, jobs=1)
    assert 0 < there == found.reused < found.runs == 480
    undisturbed = kl.sweep(of, jobs=1).rows
    assert found.rows["key"].equals(undisturbed["key"])
    np.testing.assert_allclose(
        found.rows["cost"], undisturbed["cost"], rtol=AGREE, atol=10 * AGREE
    )


def test_groups_of_sequences_are_bounded_by_their_bytes(monkeypatch):
    from klazy.studies.sweep import player
    from klazy.studies.sweep.tasks import list_tasks

    tasks = list_tasks(kl.Study(**MANY))
    monkeypatch.setattr(
        player, "TOGETHER_BYTES", 5000
    )  # A sequence and its comparator take 3200 and less.
    with ThreadPoolExecutor(2) as pool:
        groups = list(player._gather(tasks, pool, 8 * 7))
        assert [len(group) for group in groups] == [2] * 30
        monkeypatch.setattr(player, "TOGETHER_BYTES", 1 << 28)
        groups = list(player._gather(tasks, pool, 8 * 7))
    assert [len(group) for group in groups] == [7] * 8 + [4]
    assert [task.first for group in groups for task, *_ in group] == [
        task.first for task in tasks
    ]


def test_a_sweep_with_what_a_gpu_does_not_play():
    mixed = STUDY | {
        "scenarios": STUDY["scenarios"][:1],
        "learners": [STUDY["learners"][1], {"rule": "LastValue"}],
    }
    about = "LastValue, which keeps a window of rounds"
    said = f"A GPU does not play {about}. Use device='auto' or 'cpu'."
    with pytest.raises(InvalidInput, match=re.escape(said)):
        kl.sweep(kl.Study(**mixed), device="cuda")
    assert kl.sweep(kl.Study(**mixed), jobs=1, device="auto").failed == 0


def test_the_command_says_on_what_it_ran(tmp_path):
    file = tmp_path / "study.toml"
    file.write_text(
        '[[scenarios]]\nrecipe = "phases_of_length"\nlength = 3\nT = 9\n'
        '[[learners]]\nrule = "KLazyGD"\nsigma = 2.0\nk = [1, 3]\n'
    )
    done = call_klazy("sweep", str(file), "--device", "cuda:0,1")
    assert "learner-rounds per second, on Numba's CUDA simulator, Numba's" in done.stdout
    assert "--device" in call_klazy("sweep", "play", "--help").stdout
    wrong = call_klazy("sweep", str(file), "--device", "tpu")
    assert wrong.status
    assert "cpu" in wrong.stderr


def test_a_real_gpu_agrees_with_step():
    if find_spec("numba_cuda") is None or shutil.which("nvidia-smi") is None:
        pytest.skip(
            "there is no NVIDIA GPU here, or no numba-cuda: the same kernels ran in the simulator"
        )
    script = Path(__file__).parents[1] / "benchmarks" / "gpu.py"
    environment = os.environ | {"NUMBA_ENABLE_CUDASIM": "0"}
    command = [sys.executable, str(script), "--only", "agree"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found = re.search(r"movements: (\S+),", done.stdout)
    assert found is not None
    assert float(found[1]) < AGREE
