"""run_batch against run: what many runs side by side pay is what each pays alone."""

import os
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import klazy as kl
from cases import TRIANGLE, gradients
from klazy.base.checks import InvalidInput
from klazy.game.batch import run_batch
from klazy.kernels.codes import LANES
from klazy.kernels.rules import RULES

JIT_OFF = os.environ.get("NUMBA_DISABLE_JIT") == "1"
T = 70 if JIT_OFF else 150  # more than one chunk of the kernel, and not a multiple of it
AGREE = 1e-12  # of the sum of what is added up; the two engines add in another order
L2, L1 = (
    kl.L2Ball(5, 0.7, [2.0, -1.0, 0.5, 0.0, 0.1]),
    kl.L1Ball(5, 2.0, [1.0, 0.0, -3.0, 0.2, 0.0]),
)
SETS = [
    L2,
    L1,
    kl.Simplex(3, 2.0),
    kl.Box([-1.0, 0.5], [1.0, 2.0]),
    kl.CappedSimplex(4, -0.5, [0.3, 1.0, 2.0, 0.0], [-1.0, -0.2, 0.0, -0.4]),
    kl.Product([kl.L1Ball(2), kl.CappedSimplex(3, 1.5, 1.0), kl.Simplex(2), kl.L2Ball(1)]),
]
MEMORIES = [
    kl.memories.Forget(),
    kl.memories.Full(),
    kl.memories.Clock(7),
    kl.memories.Decay(12.5),
    kl.memories.Clip(3.0),
    kl.memories.Clip(1e60),
    kl.memories.Event(4.0),
]
GIVEN = [kl.Constant(1.7), kl.Sqrt(9.0), kl.Sqrt(0.3, 4.5), kl.Doubling(2.0)]
TWO = [kl.LazyGD(kl.L2Ball(5), 1.0), kl.KLazyGD(kl.L2Ball(5), kl.Sqrt(5.0), k=6)]


class HalfBall(kl.L2Ball):
    """A user's set: it has neither lanes nor a kernel, so nothing is compiled for it."""

    def nearest(self, y):
        return 0.5 * super().nearest(y)


def family(domain, sigma):
    """Every learner that has lanes."""
    lazy = [
        kl.GD(domain, sigma),
        kl.LazyGD(domain, sigma),
        *(kl.KLazyGD(domain, sigma, k=k) for k in (1, 4, 64, 1000)),
    ]
    others = [
        kl.KLazyFTRL(domain, sigma, k=5),
        kl.CentredOMD(domain, sigma),
        kl.contrib.Patient(domain, sigma, move_cost=0.4),
    ]
    return lazy + [kl.MemoryGD(domain, sigma, memory=memory) for memory in MEMORIES] + others


def assert_agrees(batch, learners, g, **options):
    assert len(batch.hitting) == len(batch.switching) == len(learners)
    for i, learner in enumerate(learners):
        trace = kl.run(learner, g, record="costs", **options)
        assert batch.hitting[i] == pytest.approx(
            trace.totals.hitting, rel=0, abs=AGREE * np.abs(trace.hitting).sum()
        )
        assert batch.switching[i] == pytest.approx(trace.totals.switching, rel=AGREE, abs=AGREE)
        assert batch.cost[i] == batch.hitting[i] + batch.switching[i]


# A batch has a kernel for each rule on each set. Compiled, the rules take turns on the sets; as plain Python, each meets all.
ANYWHERE = [rule for rule in RULES if RULES[rule].place is None]
TURNS = {
    domain: ANYWHERE if JIT_OFF else [rule] for domain, rule in zip(SETS, ANYWHERE, strict=True)
}


@pytest.mark.parametrize("domain", SETS, ids=repr)
def test_every_learner_under_every_schedule_pays_what_it_pays_alone(domain):
    learners = []
    for sigma in (*GIVEN, kl.ScaleFree(2.0), kl.ScaleFree(3.0, move_cost=0.0)):
        learners += [
            learner for learner in family(domain, sigma) if learner.rule in TURNS[domain]
        ]
    g = gradients(1, T, domain.dim)
    g[:3] = 0.0  # a scale-free schedule has nothing to go by at first
    batch = run_batch(learners, g)
    assert batch.engine == "lanes"
    assert_agrees(batch, learners, g, engine="step")


def test_by_default_a_learner_pays_for_moving_what_it_pays_in_run():
    g = gradients(3, 40, 5)
    learners = [
        kl.GD(kl.Simplex(5), 2.0),
        kl.contrib.Reluctant(kl.Simplex(5), kl.TVMovement(0.25), 2.0, 2.0),
    ]
    batch = kl.run_batch(learners, g)
    totals = np.array([kl.run(learner, g, engine="step").totals for learner in learners])
    np.testing.assert_allclose(
        np.column_stack((batch.hitting, batch.switching)), totals, atol=1e-12
    )


RUNS = st.tuples(
    st.sampled_from(["lazy", "memory"]),
    st.integers(1, 200),
    st.floats(0.01, 100.0),
    st.sampled_from([None, 0.0, -0.5, 30.0]),
)


@pytest.mark.parametrize("domain", [L2, L1], ids=repr)
@given(
    runs=st.lists(RUNS, min_size=1, max_size=3 * LANES + 1),
    seed=st.integers(0, 2**16),
    scale=st.sampled_from([1e-3, 1.0]),
)
def test_any_number_of_runs_with_any_slack_memory_and_sigma(domain, runs, seed, scale):
    learners = []
    for rule, k, c, offset in runs:
        sigma = kl.Constant(c) if offset is None else kl.Sqrt(c, offset)
        learners.append(
            kl.KLazyGD(domain, sigma, k=k)
            if rule == "lazy"
            else kl.MemoryGD(domain, sigma, memory=kl.memories.Decay(k))
        )
    g = gradients(seed, 40 if JIT_OFF else T, domain.dim, scale)
    assert_agrees(run_batch(learners, g, jobs=1), learners, g, engine="step")


@pytest.mark.skipif(JIT_OFF, reason="long runs need compiled code")
@pytest.mark.parametrize("domain", [kl.L2Ball(5), kl.L1Ball(5)], ids=repr)
def test_a_grid_of_long_runs_agrees(domain):
    """Rounding does not build up: a projection brings no two points further apart."""
    learners = [
        kl.KLazyGD(domain, sigma, k=k)
        for sigma in (0.5, kl.Sqrt(60.0), kl.Sqrt(2.0))
        for k in (1, 65, 3000, 10**9)
    ]
    g = gradients(2, 20_000, 5)
    assert_agrees(run_batch(learners, g), learners, g)


@pytest.mark.parametrize("domain", [kl.L2Ball(1), kl.L1Ball(8)], ids=repr)
def test_the_smallest_and_the_largest_dimension_with_lanes(domain):
    learners = [
        kl.KLazyGD(domain, kl.Sqrt(4.0), k=k, start=domain.start + 0.05) for k in (2, 3, 50)
    ]
    g = np.random.default_rng(3).choice(
        [-1.0, 0.0, 1.0], (T, domain.dim)
    )  # with ties, on which sorting must not stumble
    batch = run_batch(learners, g)
    assert batch.engine == "lanes"
    assert_agrees(batch, learners, g, engine="step")


@pytest.mark.parametrize("checkpoints", [1, 7, 64, 100, 10_000])
def test_checkpoints_are_the_running_sums_of_a_trace(checkpoints):
    learners = [
        learner
        for learner in family(L2, kl.Sqrt(8.0))
        if JIT_OFF or learner.rule in ("lazy", "memory")
    ]
    learners.insert(3, kl.GD(HalfBall(5), 1.0))
    g = gradients(4, T, 5)
    batch = run_batch(learners, g, checkpoints=checkpoints, jobs=1)
    c = min(checkpoints, T)
    assert batch.engine == "mixed"
    assert batch.rounds.tolist() == [(j + 1) * T // c for j in range(c)]
    assert batch.curves.shape == (len(learners), c, 2)
    np.testing.assert_array_equal(batch.curves[:, -1].T, (batch.hitting, batch.switching))
    for curve, learner in zip(batch.curves, learners, strict=True):
        trace = kl.run(learner, g, record="costs", engine="step")
        running = np.cumsum((trace.hitting, trace.switching), axis=1)[:, batch.rounds - 1].T
        np.testing.assert_allclose(
            curve, running, rtol=AGREE, atol=AGREE * np.abs(trace.hitting).sum()
        )


def test_without_checkpoints_no_curve_is_kept():
    batch = run_batch(TWO, gradients(4, T, 5))
    assert batch.rounds.shape == (0,)
    assert batch.curves.shape == (2, 0, 2)


def test_results_come_in_the_order_of_the_learners_whatever_the_jobs():
    learners = [
        learner
        for domain in (L2, L1, kl.L2Ball(5))
        for sigma in GIVEN
        for learner in family(domain, sigma)[1:7]
    ]
    g, order = (
        gradients(5, 20 if JIT_OFF else T, 5),
        np.random.default_rng(0).permutation(len(learners)),
    )
    batch = run_batch(learners, g, jobs=1)
    assert len(set(batch.hitting)) > 20
    for jobs in (2, 3):
        again = run_batch([learners[i] for i in order], g, jobs=jobs)
        np.testing.assert_array_equal(again.hitting, batch.hitting[order])
        np.testing.assert_array_equal(again.switching, batch.switching[order])


def test_offsets_that_each_run_has_alone_share_blocks_and_agree():
    learners = [
        kl.KLazyGD(L1, kl.Sqrt(3.0, offset), k=9) for offset in np.linspace(-0.9, 50.0, 11)
    ]
    g = gradients(6, T, 5)
    assert_agrees(run_batch(learners, g), learners, g)


@pytest.mark.parametrize(
    "movement",
    [
        kl.L2Movement(0.3),
        kl.L2Movement(np.linspace(0.0, 2.0, T)),
        kl.TVMovement(2.0),
        kl.contrib.WeightedL2Movement(1.5, scale=[1.0, 0.0, 2.0, 0.5, 1.0]),
        kl.contrib.AsymmetricMovement(up=1.0, down=[0.5, 0.0, 1.0, 2.0, 3.0]),
        kl.contrib.SwitchFee(),
    ],
    ids=repr,
)
def test_every_movement_cost_is_charged(movement):
    g = gradients(7, T, 5)
    learners = [
        learner for learner in family(L2, kl.Sqrt(8.0)) if JIT_OFF or learner.rule == "memory"
    ]
    batch = run_batch(learners, g, movement=movement)
    assert batch.engine == "lanes"
    assert_agrees(batch, learners, g, movement=movement, engine="step")


@pytest.mark.parametrize(
    ("learners", "costs"),
    [
        ([kl.GD(TRIANGLE, 1.0), kl.LazyGD(TRIANGLE, 2.0)], np.ones((9, 2))),
        ([kl.GD(HalfBall(5), 1.0)], gradients(8, 9, 5)),
        ([kl.LazyGD(kl.L2Ball(9), 1.0)], gradients(8, 9, 9)),
        (
            [
                kl.SAder(
                    [kl.GD(HalfBall(5), 1.0), kl.LazyGD(HalfBall(5), 2.0)],
                    movement=kl.L2Movement(3.0),
                )
            ],
            gradients(8, 9, 5),
        ),
        (
            [kl.MemoryGD(kl.Simplex(5), 1.0, memory=MEMORIES[3])],
            kl.QuadraticCosts(gradients(8, 9, 5)),
        ),
    ],
    ids=["polytope", "subclass", "d=9", "ensemble", "quadratic"],
)
def test_what_has_no_lanes_is_played_by_run(learners, costs):
    for checkpoints in (0, 4):
        batch = run_batch(learners, costs, checkpoints=checkpoints, jobs=1)
        assert batch.engine == "runs"
        totals = np.array([kl.run(learner, costs).totals for learner in learners])
        np.testing.assert_allclose(
            np.transpose((batch.hitting, batch.switching)), totals, rtol=1e-14
        )
        assert batch.curves.shape == (len(learners), checkpoints, 2)


@pytest.mark.parametrize("size", [1e16, 1e200])
def test_the_farthest_points_are_projected_too(size):
    g = np.zeros((2, 5))
    g[0, :2] = -size, size / 3
    learners = [kl.KLazyGD(kl.L2Ball(5), 1.0, k=1), kl.LazyGD(kl.L2Ball(5), 1e-5)]
    g[1] = 1.0  # which makes the second point, where that projection led, cost something
    batch = run_batch(learners, g)
    assert batch.engine == "lanes"
    np.testing.assert_allclose(
        batch.hitting, [kl.run(learner, g).totals.hitting for learner in learners], rtol=AGREE
    )
    np.testing.assert_allclose(batch.switching, 1.0, rtol=AGREE)


def refused(call):
    with pytest.raises(InvalidInput) as caught:
        call()
    return str(caught.value)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("row", [0, 63, T - 1])
def test_costs_that_are_not_finite_are_refused_as_run_does(row, value):
    g = gradients(9, T, 5)
    g[row, 2] = value
    assert refused(lambda: run_batch(TWO, g)) == refused(lambda: kl.run(TWO[0], g))


def test_costs_that_overflow_on_the_set_are_refused_as_run_does():
    learner, g = kl.LazyGD(kl.L2Ball(5, 1e10), 1.0), np.full((3, 5), 1e300)
    message = refused(lambda: run_batch([*TWO, learner], g))
    assert message == refused(lambda: kl.run(learner, g))
    assert "are not at x_2, in round 2" in message


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda g: run_batch([], g),
            "learners must be a list such as [GD(L2Ball(5), 1.0)], got [].",
        ),
        (
            lambda g: run_batch(kl.GD(kl.L1Ball(5), 1.0), g),  # pyright: ignore
            "learners must be a list such as [GD(L2Ball(5), 1.0)], got GD(domain=L1Ball(dim=5), sigma=Constant(s=1.0)).",
        ),
        (
            lambda g: run_batch([*TWO, 3], g),  # pyright: ignore
            "learners[2] must be a Learner such as GD(L2Ball(5), 1.0), got 3.",
        ),
        (
            lambda g: run_batch([*TWO, kl.GD(kl.L2Ball(4), 1.0)], g),
            "learners[2].domain must have dimension 5, as costs do, got L2Ball(dim=4).",
        ),
        (
            lambda g: run_batch(TWO, g, movement=2.0),  # pyright: ignore
            "movement must be a Movement such as L2Movement(1.0), got 2.0.",
        ),
        (
            lambda g: run_batch(TWO, g, checkpoints=-1),
            "checkpoints must be an integer of at least 0, got -1. Use 200 for a curve, 0 for totals.",
        ),
        (
            lambda g: run_batch(TWO, g, checkpoints=2.5),
            "checkpoints must be an integer of at least 0, got 2.5.",
        ),  # pyright: ignore
        (
            lambda g: run_batch(TWO, g, checkpoints=False),
            "checkpoints must be a finite number, got False.",
        ),
        (
            lambda g: run_batch(TWO, g, jobs=0),
            "jobs must be an integer of at least 1, got 0. Leave it out for all cores.",
        ),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call(np.ones((4, 5)))


def test_weights_of_another_horizon_are_refused():
    with pytest.raises(
        ValueError, match=r"weight must be one number or 4, one per round, got 3."
    ):
        run_batch(TWO, np.ones((4, 5)), movement=kl.L2Movement([1.0, 2.0, 3.0]))


def test_lists_that_are_no_array_are_refused_in_words():
    deep = 1.0
    for _ in range(80):
        deep = [deep]
    ragged = [[[1.0, [2.0]]]]
    for costs in (deep, ragged):
        with pytest.raises(ValueError, match=r"The rows of g must have equal length."):
            kl.run_batch([kl.GD(kl.L2Ball(2), 1.0)], costs)  # pyright: ignore
