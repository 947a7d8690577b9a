"""The move that pays, compiled: one law over every set, movement and cost family, and what it is made of."""

import os
import warnings
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr

import klazy as kl
from cases import flattened
from klazy.kernels import codes
from klazy.kernels.demand import tail_of
from klazy.learners.planning import suits_plan
from test_seasonal import draw_waves

JIT_OFF = os.environ.get("NUMBA_DISABLE_JIT") == "1"
AGREE = 1e-12
MIDDLE = np.full(5, 0.6)
# All of them lie among positive numbers, where wealth has a logarithm.
SETS = [
    kl.L2Ball(5, 0.5, MIDDLE),
    kl.L1Ball(5, 0.5, MIDDLE),
    kl.Box(0.1 * np.ones(5), np.ones(5)),
    kl.Simplex(5),
    kl.CappedSimplex(5, 1.5, 0.6),
    kl.Product([kl.L2Ball(2, 0.5, MIDDLE[:2]), kl.Simplex(3)]),
]
MOVEMENTS = [
    kl.L2Movement(0.3),
    kl.contrib.AsymmetricMovement(0.3, up=1.0, down=1.5),
    kl.TVMovement(0.7),
    kl.contrib.SwitchFee(0.3),
    kl.contrib.SquaredMovement(0.7),
]
FAMILIES = [kl.Linear(), kl.Rewards(), kl.Quadratic(2.5), kl.Pinball(2.0, 0.5), kl.LogWealth()]
EVERY = list(product(SETS, MOVEMENTS, FAMILIES))
# A kernel takes seconds to compile. As plain Python, and by `make torture`, all cells are tried; else those of one kernel for
# each set, with every movement and family among them. Other tests need the first four kernels, too.
ONE_KERNEL_EACH = [
    (SETS[0], MOVEMENTS[:1], FAMILIES[:2]),
    (SETS[1], MOVEMENTS[:1], FAMILIES[2:3]),
    (SETS[2], MOVEMENTS[1:3], FAMILIES[3:4]),
    (SETS[3], MOVEMENTS[1:3], FAMILIES[:2]),
    (SETS[4], MOVEMENTS[3:4], FAMILIES[4:]),
    (SETS[5], MOVEMENTS[4:], FAMILIES[4:]),
]
FEW = [
    cell
    for domain, movements, families in ONE_KERNEL_EACH
    for cell in product([domain], movements, families)
]
CELLS = [
    pytest.param(*cell, id="-".join(type(part).__name__ for part in cell), marks=marks)
    for cell in EVERY
    for marks in (
        [pytest.mark.xdist_group(f"{type(cell[0]).__name__}5")]
        if cell in FEW or JIT_OFF
        else [pytest.mark.long],
    )
]


def draw_rows(family: kl.types.Family, rounds: int) -> np.ndarray:
    waves = draw_waves(0, rounds, 20)
    if isinstance(family, kl.LogWealth):
        return np.exp(0.3 * waves)
    return 0.5 + 0.4 * waves if isinstance(family, kl.Quadratic | kl.Pinball) else waves


def make_leader(
    domain: kl.types.ConvexSet, movement: Any, family: kl.types.Family
) -> kl.contrib.Leader:
    """Experts of every kind that auto has."""
    told: dict[str, Any] = {"family": None if family.code == codes.LINEAR else family}
    windows = (1.0, 8.0) if isinstance(family, kl.Pinball) else (1.0, 8.0, None)
    experts: list[Any] = [
        kl.contrib.Reluctant(domain, movement, w, 2.0 * (w or 1.0), **told) for w in windows
    ]
    if not isinstance(movement, kl.contrib.SwitchFee):
        plans = movement.degree == 1.0 and not experts[0].is_curved
        for horizon in (1, 3, 25, *([None] if plans else [])):
            experts += [
                kl.contrib.Seasonal(domain, movement, horizon, periods, **told)
                for periods in (2, 8)
            ]
    if not isinstance(family, kl.Pinball):
        experts += [
            kl.contrib.Autoregressive(domain, movement, horizon, **told) for horizon in (2, 32)
        ]
    if isinstance(domain, kl.Box) and isinstance(family, kl.Pinball) and suits_plan(movement):
        experts += [
            kl.contrib.Planning(domain, movement, rounds, 0.5, family=family)
            for rounds in (1, 16, 256)
        ]
    return kl.contrib.Leader(experts, movement, guard=movement.degree == 1.0, **told)


@pytest.mark.parametrize(("domain", "movement", "family"), CELLS)
def test_kernel_and_step_agree_in_every_cell(domain, movement, family):
    """Round by round, as an agent plays; a season of 20 rounds is known from round 64 on."""
    rows = draw_rows(family, 70 if JIT_OFF else 130)
    learner = make_leader(domain, movement, family)
    # A search for a straight move ends within the rounding of its length, 5e-15 here. Where the slope is a thousandth above the
    # price, the point moves with that a thousand times as far.
    agree = 1e-11 if movement.grouped and movement.degree == 1.0 else AGREE
    compiled = kl.Agent(learner, engine="compiled")
    step = kl.Agent(learner, engine="step")
    for row in rows:
        for agent in (compiled, step):
            agent.observe(row) if learner.family else agent.update(row)
        np.testing.assert_allclose(compiled.x, step.x, rtol=0, atol=agree)
    for ours, theirs in zip(flattened(compiled.state), flattened(step.state), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-11, atol=1e-11)
    assert any(np.ptp(state.x) > 0.0 for state in step.state.experts)


# Products of features are added in the order of the specification, so that what is solved for has the same bits.
@pytest.mark.parametrize("d", [*([1, 3] if JIT_OFF else []), 5, 9])
def test_plans_agree_bit_for_bit(d):
    """In lanes, and beyond eight dimensions; the period of 40 rounds is one that only the plan looks for."""
    # In five dimensions there are enough for all that plans look for.
    rounds = 700 if d == 5 else 200
    if JIT_OFF:
        rounds = 140
    rng = np.random.default_rng(3)
    waves = np.sin(2.0 * np.pi * np.arange(rounds)[:, None] / 40.0 + np.arange(d))
    rows = rng.poisson(20.0 * np.exp(0.5 * waves)).astype(float)
    domain = kl.Box(np.zeros(d), np.full(d, 60.0))
    movement = kl.contrib.AsymmetricMovement(1.0, up=1.0, down=2.0)
    told: dict[str, Any] = {"family": kl.Pinball(4.0, 1.0)}
    others: list[Any] = [
        kl.contrib.Reluctant(domain, movement, 4.0, 4.0, **told),
        kl.contrib.Seasonal(domain, movement, 3, 2, **told),  # so that there is a kernel already
    ]
    plans = [
        kl.contrib.Planning(domain, movement, rounds, c, **told)
        for rounds in (1, 16, 256)
        for c in (0.5, 2.0)
    ]
    learner = kl.contrib.Leader([*others, *plans], movement, **told)
    compiled, step = (kl.Agent(learner, engine=engine) for engine in ("compiled", "step"))
    for row in rows:
        x = compiled.observe(row)
        np.testing.assert_allclose(x, step.observe(row), rtol=0, atol=AGREE * 60.0)
    ours, theirs = compiled.state, step.state
    assert np.array_equal(ours.regression, theirs.regression)
    for one, other in zip(ours.experts[2:], theirs.experts[2:], strict=True):
        assert np.array_equal(one.x, other.x)


# As whole runs and side by side; compiled, where other tests need the kernels, too.
@pytest.mark.parametrize(
    ("domain", "movement"),
    list(product(SETS, MOVEMENTS[:1])) if JIT_OFF else [(SETS[3], MOVEMENTS[2])],
    ids=repr,
)
def test_runs_and_lanes_agree_with_step(domain, movement):
    rows = draw_waves(1, 60 if JIT_OFF else 130, 20)
    learner = make_leader(domain, movement, kl.Linear())
    compiled, step = (
        kl.run(learner, rows, engine=engine, record="experts") for engine in ("compiled", "step")
    )
    for key in step.kept:
        np.testing.assert_allclose(
            compiled.kept[key], step.kept[key], rtol=1e-11, atol=AGREE, err_msg=key
        )
    alone = [
        kl.contrib.Reluctant(domain, movement, w, h)
        for w in (1.0, 4.0, None)
        for h in (0.5, 3.0, 40.0)
    ]
    batch = kl.run_batch(alone, rows, movement=movement)
    assert batch.engine == "lanes"
    totals = np.array(
        [kl.run(one, rows, engine="step", movement=movement).totals for one in alone]
    )
    found = np.column_stack((batch.hitting, batch.switching))
    np.testing.assert_allclose(found, totals, rtol=AGREE, atol=1e-10)


def test_every_cell_of_auto_has_a_kernel():
    from klazy.kernels.layout import find_missing_part

    for domain, movement, family in EVERY:
        assert find_missing_part(kl.auto(domain, movement, family)) is None


def test_the_tail_of_the_normal_distribution_is_exact():
    """To a few units of the last digit, wherever it is a normal number."""
    z = np.linspace(-37.0, 37.0, 3001)
    tails = np.array([tail_of(number)[0] for number in z])
    np.testing.assert_allclose(tails, ndtr(-z), rtol=4e-15)


@pytest.mark.parametrize(
    ("learner", "missing"),
    [
        (kl.auto(kl.Polytope([[1.0], [-1.0]], [1.0, 1.0]), "l1"), "Polytope"),
        (kl.auto(kl.Box(0, 1), "impact"), "Reluctant with ImpactMovement"),
        (kl.contrib.Reluctant(kl.Box(0, 1), "l1", 2.0, 2.0, hints=True), "Reluctant with hints"),
        (kl.auto(kl.Box(0, 1), "l1", hints=True), "Leader with hints"),
    ],
    ids=["set", "movement", "hints", "leader"],
)
def test_a_long_run_without_a_kernel_says_which_part_has_none(learner, missing, monkeypatch):
    monkeypatch.setattr("klazy.game.run.TRIAL", 0.0)
    monkeypatch.setattr("klazy.game.run.SLOW", 0.0)
    words = f"it goes through NumPy, because {missing} has no compiled kernel. Compiled are balls, boxes,"
    with pytest.warns(UserWarning, match=words) as found:
        kl.run(learner, np.ones((3, 1)))
    assert len(found) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kl.run(learner, np.ones((3, 1)), engine="step")


def test_a_long_run_on_an_intersection_says_which_set_with_a_kernel_it_is(monkeypatch):
    monkeypatch.setattr("klazy.game.run.TRIAL", 0.0)
    monkeypatch.setattr("klazy.game.run.SLOW", 0.0)
    domain = kl.Intersection([kl.Simplex(2), kl.Box([0.0, 0.0], [0.7, 0.7])])
    words = r"The same set is CappedSimplex\(dim=2, cap=\[0.7, 0.7\], floor=\[0.0, 0.0\]\), which has one\."
    with pytest.warns(UserWarning, match=words) as found:
        kl.run(kl.GD(domain, 1.0), np.ones((3, 2)))
    assert len(found) == 1


def test_a_long_run_of_an_own_learner_says_how_it_would_compile(monkeypatch):
    class Still(kl.GD):
        def step(self, state: Any, g: np.ndarray) -> Any:
            return state._replace(t=state.t + 1)

    monkeypatch.setattr("klazy.game.run.TRIAL", 0.0)
    monkeypatch.setattr("klazy.game.run.SLOW", 0.0)
    with pytest.warns(
        UserWarning, match="because Still has no compiled kernel. A learner compiles if"
    ):
        kl.run(Still(kl.Box(0, 1), 1.0), np.ones((3, 1)))


def test_a_movement_of_ones_own_works_in_auto_and_by_its_short_name():
    """Experts plan with a norm above it; what is charged is the movement itself."""

    class LargestChange(kl.types.Movement):
        short_name = "largest"

        def distance(self, delta: np.ndarray) -> np.ndarray:
            return np.abs(delta).max(axis=-1)

    learner = kl.auto(kl.Box([0, 0], [1, 1]), "largest")
    assert learner.movement == LargestChange()
    trace = kl.run(learner, np.tile([-1.0, -1.0], (30, 1)), engine="step")
    np.testing.assert_allclose(trace.totals.switching, LargestChange().paid(trace.x).sum())
    np.testing.assert_allclose(trace.x[-1], 1.0)
