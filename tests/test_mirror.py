"""Mirror descent with a memory: its projection against cvxpy, the learners it contains, its bound."""

import re
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import kl_div

import klazy as kl
from cases import MEMORIES, SCHEDULES, gradients
from klazy.contrib import certify_mirror
from klazy.sets.totals import Filled, fill_water

seeds = st.integers(0, 2**16)
memories = st.sampled_from(MEMORIES)
schedules = st.sampled_from(SCHEDULES)
floors = st.sampled_from([0.0, 0.01, 0.4])
DOMAINS = [
    kl.Simplex(4),
    kl.Simplex(3, 2.5),
    kl.CappedSimplex(5, 1.5, 0.6),
    kl.CappedSimplex(4, 2.0, [0.4, 2.0, 0.9, 0.8], [0.0, 0.3, 0.1, 0.0]),
]
domains = st.sampled_from(DOMAINS)


def played(learner, g, hints=None):
    states = [learner.init()]
    for t, row in enumerate(g):
        states.append(learner.step(states[-1], row, None if hints is None else hints[t]))
    return states


def points(learner, g):
    return np.array([state.x for state in played(learner, g)])


@pytest.mark.parametrize("domain", DOMAINS, ids=repr)
def test_the_projection_is_that_of_a_conic_solver(domain):
    """Least relative entropy on the same set, to the solver's gap of 1e-8.

    Relative entropy is strongly convex with 1 / total, so that such a gap leaves points within the root of 2 total 1e-8.
    """
    low, high = kl.contrib.Entropy(0.1).bounds(domain)
    for seed in range(4):
        v = np.random.default_rng(seed).normal(scale=2.0, size=domain.dim)
        x = cp.Variable(domain.dim)
        entropy = cp.sum(cp.kl_div(x, np.exp(v)))
        bounds = [x >= low, x <= high, cp.sum(x) == domain.total]
        least = float(cp.Problem(cp.Minimize(entropy), bounds).solve(solver="CLARABEL"))  # pyright: ignore[reportArgumentType]
        ours = kl.contrib.Entropy(0.1).project(domain, v).x
        assert x.value is not None
        np.testing.assert_allclose(ours, x.value, atol=np.sqrt(2.0 * domain.total * 1e-8))
        assert kl_div(ours, np.exp(v)).sum() <= least + 1e-8 * (1.0 + abs(least))


@given(domain=domains, floor=floors, seed=seeds, size=st.sampled_from([1.0, 50.0, 1e4]))
def test_the_projection_meets_the_conditions_of_an_optimum(domain, floor, seed, size):
    """Its excess pushes against caps and floors only, whatever the size of what is projected."""
    geometry = kl.contrib.Entropy(floor)
    v = np.random.default_rng(seed).normal(scale=size, size=domain.dim)
    low, high = geometry.bounds(domain)
    x, z, excess = geometry.project(domain, v)
    assert x.sum() == pytest.approx(domain.total, rel=1e-12)
    assert (x >= low * (1 - 1e-12)).all()
    assert (x <= high * (1 + 1e-12)).all()
    np.testing.assert_allclose(np.exp(z), x, rtol=1e-9, atol=1e-300)
    assert (excess[x > low * (1 + 1e-9)] >= 0.0).all()
    assert (excess[x < high * (1 - 1e-9)] <= 0.0).all()
    np.testing.assert_allclose(np.ptp(v - z - excess), 0.0, atol=1e-12 * size)


def test_floors_that_lack_more_than_caps_have_too_much_are_met_first():
    """Capping the third at once would leave too little for the floors of the others."""
    low = np.array([0.3, 0.3, 0.0])
    high = np.array([1.0, 1.0, 0.45])
    x = fill_water(np.log([0.2, 0.2, 0.6]), 1.0, low, high).x
    np.testing.assert_allclose(x, [0.3, 0.3, 0.4], atol=1e-15)


def test_a_corner_is_projected_onto_itself():
    filled = fill_water(np.array([5.0, -3.0, 0.2]), 3.0, np.zeros(3), np.ones(3))
    np.testing.assert_array_equal(filled.x, np.ones(3))
    assert (filled.excess >= 0.0).all()


@given(sigma=schedules, memory=memories, seed=seeds)
def test_on_a_whole_simplex_laziness_changes_nothing(sigma, memory, seed):
    """Without a floor no bound is met: every memory plays the points of Hedge, to the last bit."""
    g = gradients(seed, 30, 4)
    lazy = points(kl.contrib.MirrorMemory(kl.Simplex(4), sigma, memory=memory), g)
    hedge = points(kl.contrib.MirrorMemory(kl.Simplex(4), sigma, memory=kl.memories.Forget()), g)
    np.testing.assert_array_equal(lazy, hedge)


def test_with_a_floor_or_caps_laziness_changes_much():
    g = gradients(3, 60, 5)
    for domain, floor in ((kl.Simplex(5), 0.1), (kl.CappedSimplex(5, 1.5, 0.6), 0.0)):
        lazy, greedy = (
            points(
                kl.contrib.MirrorMemory(
                    domain, 1.0, memory=memory, geometry=kl.contrib.Entropy(floor)
                ),
                g,
            )
            for memory in (kl.memories.Full(), kl.memories.Forget())
        )
        assert np.abs(lazy - greedy).max() > 0.1


@given(seed=seeds, s=st.floats(0.2, 10.0))
def test_without_a_floor_it_is_hedge(seed, s):
    """x_{t+1} is proportional to exp(-g_{1:t} / sigma)."""
    g = gradients(seed, 30, 4)
    weights = np.exp(-np.vstack((np.zeros(4), np.cumsum(g, axis=0))) / s)
    hedge = 2.5 * weights / weights.sum(axis=1, keepdims=True)
    x = points(kl.contrib.MirrorMemory(kl.Simplex(4, 2.5), s, memory=kl.memories.Forget()), g)
    np.testing.assert_allclose(x, hedge, rtol=1e-9, atol=1e-12)


@given(
    domain=domains,
    floor=floors,
    seed=seeds,
    s=st.floats(0.2, 10.0),
    k=st.sampled_from([1, 2, 7, 30]),
)
def test_a_clock_is_k_lazy_mirror_descent(domain, floor, seed, s, k):
    """The projection of the phase's first point, moved by all gradients since. A full memory is dual averaging."""
    g = gradients(seed, 30, domain.dim)
    geometry = kl.contrib.Entropy(floor)
    z = geometry.to_dual(domain, domain.start)
    expected = [domain.start]
    anchor = z
    summed = np.zeros(domain.dim)
    for t, row in enumerate(g):
        if t % k == 0:
            anchor, summed = z, np.zeros(domain.dim)
        summed = summed + row
        x, z, _ = geometry.project(domain, anchor - summed / s)
        expected.append(x)
    memory = kl.memories.Full() if k == 30 else kl.memories.Clock(k)
    x = points(kl.contrib.MirrorMemory(domain, s, memory=memory, geometry=geometry), g)
    np.testing.assert_allclose(x, expected, atol=1e-10)


class Euclid(kl.contrib.Geometry):
    """The geometry of MemoryGD, written as a user would."""

    def check(self, domain):
        pass

    def to_dual(self, domain, x):
        return x

    def project(self, domain, v):
        x = domain.nearest(v)
        return Filled(x, x, v - x)


@given(sigma=schedules, memory=memories, seed=seeds)
def test_in_the_euclidean_geometry_it_is_memory_gd(sigma, memory, seed):
    g = gradients(seed, 30, 4)
    x = points(kl.contrib.MirrorMemory(kl.L1Ball(4), sigma, memory=memory, geometry=Euclid()), g)
    np.testing.assert_allclose(
        x, points(kl.MemoryGD(kl.L1Ball(4), sigma, memory=memory), g), atol=1e-11
    )


@given(domain=domains, floor=floors, memory=memories, seed=seeds, s=st.floats(0.1, 10.0))
def test_a_step_in_total_variation_is_at_most_a_quarter_of_the_range_over_sigma(
    domain, floor, memory, seed, s
):
    g = gradients(seed, 30, domain.dim)
    start = np.clip(domain.start, *kl.contrib.Entropy(floor).bounds(domain))
    x = points(
        kl.contrib.MirrorMemory(
            domain, s, memory=memory, geometry=kl.contrib.Entropy(floor), start=start
        ),
        g,
    )
    moved = 0.5 * np.abs(np.diff(x, axis=0)).sum(axis=1)
    assert (moved <= domain.total * np.ptp(g, axis=1) / (4.0 * s) + 1e-12).all()


def follow(domain, floor, g, length):
    """The comparator that plays what would have been best in each stretch, at or above the floor."""
    low, high = kl.contrib.Entropy(floor).bounds(domain)
    inner = kl.CappedSimplex(domain.dim, domain.total, high, low)
    sums = np.add.reduceat(g, range(0, len(g), length))
    return np.clip(np.repeat(inner.argmin_linear(sums), length, axis=0)[: len(g)], low, high)


@given(
    domain=domains,
    floor=st.sampled_from([0.01, 0.4]),
    sigma=schedules,
    memory=memories,
    seed=seeds,
    weight=st.floats(0.0, 3.0),
)
def test_no_certificate_is_violated(domain, floor, sigma, memory, seed, weight):
    g = gradients(seed, 40, domain.dim)
    start = np.clip(domain.start, *kl.contrib.Entropy(floor).bounds(domain))
    learner = kl.contrib.MirrorMemory(
        domain, sigma, memory=memory, geometry=kl.contrib.Entropy(floor), start=start
    )
    trace = kl.run(learner, g, movement=kl.TVMovement(weight), engine="step")
    for length in (8, 40):
        known = certify_mirror(trace, follow(domain, floor, g, length))
        assert known.regret <= known.realised + 1e-9
        assert known.realised <= known.worst_case + 1e-9


def test_the_certificate_is_nearly_tight_where_one_round_is_all_there_is():
    floor = 1e-6
    sigma = 1.0 / np.sqrt(8.0 * np.log(2.0))
    learner = kl.contrib.MirrorMemory(
        kl.Simplex(2), sigma, memory=kl.memories.Forget(), geometry=kl.contrib.Entropy(floor)
    )
    trace = kl.run(learner, np.array([[0.0, 1.0]]), engine="step")
    known = certify_mirror(trace, [1.0 - floor / 2.0, floor / 2.0])
    assert 0.8 * known.realised < known.regret <= known.realised
    whole = kl.run(
        learner.replace(geometry=kl.contrib.Entropy()), np.array([[0.0, 1.0]]), engine="step"
    )
    assert certify_mirror(whole, [1.0, 0.0]).worst_case == np.inf


@given(seed=seeds, memory=memories)
def test_a_hint_counts_until_its_gradient_is_known(seed, memory):
    """On a whole simplex shares are those of the start, times exp of minus all gradients and the one hint, over sigma."""
    g = gradients(seed, 12, 4)
    hints = gradients(seed + 1, 12, 4)
    learner = kl.contrib.MirrorMemory(
        kl.Simplex(4), 3.0, memory=memory, geometry=kl.contrib.Entropy()
    )
    for t, state in enumerate(played(learner, g, hints)[1:]):
        shares = np.exp(-(g[: t + 1].sum(axis=0) + hints[t]) / 3.0)
        np.testing.assert_allclose(state.x, shares / shares.sum(), rtol=1e-9)


@pytest.mark.parametrize("memory", MEMORIES, ids=repr)
def test_a_hint_of_zero_changes_nothing_and_a_perfect_one_helps(memory):
    g = gradients(2, 100, 4)
    learner = kl.contrib.MirrorMemory(
        kl.Simplex(4), 2.0, memory=memory, geometry=kl.contrib.Entropy(0.1)
    )
    plain = np.array([state.x for state in played(learner, g)])
    silent = np.array([state.x for state in played(learner, g, np.zeros_like(g))])
    np.testing.assert_array_equal(plain, silent)
    told = np.array(
        [state.x for state in played(learner, g, np.vstack((g[1:], np.zeros((1, 4)))))]
    )
    assert (g * (told[:-1] - plain[:-1])).sum() < 0.0


LEARNER = kl.contrib.MirrorMemory(
    kl.Simplex(3), 1.0, memory=kl.memories.Full(), geometry=kl.contrib.Entropy(0.3)
)
TEXT: Any = "a"
EIGHT: Any = 8
TENTH: Any = 0.1
G = np.tile([0.0, 1.0, 2.0], (5, 1))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: kl.contrib.Entropy(1.0),
            "floor must be at least 0 and below 1, a share of total / d, got 1.0. Use 0.01.",
        ),
        (lambda: kl.contrib.Entropy(TEXT), "floor must be a finite number, got 'a'."),
        (
            lambda: kl.contrib.MirrorMemory(kl.L2Ball(3), 1.0, memory=kl.memories.Full()),
            "Entropy needs a Simplex or CappedSimplex, got L2Ball(dim=3). Use MemoryGD.",
        ),
        (
            lambda: kl.contrib.MirrorMemory(
                kl.CappedSimplex(2, 0.0, 1.0, -1.0), 1.0, memory=kl.memories.Full()
            ),
            "Entropy needs floors of at least 0, got -1.0. Use MemoryGD.",
        ),
        (
            lambda: kl.contrib.MirrorMemory(
                kl.CappedSimplex(2, 1.0, [1.0, 0.0]), 1.0, memory=kl.memories.Full()
            ),
            (
                "Entropy needs caps above 0, got CappedSimplex(dim=2, cap=[1.0, 0.0]). Leave out coordinates "
                "that are always 0."
            ),
        ),
        (
            lambda: kl.contrib.MirrorMemory(
                kl.CappedSimplex(2, 1.0, [1.0, 0.1]),
                1.0,
                memory=kl.memories.Full(),
                geometry=kl.contrib.Entropy(0.9),
            ),
            "floor=0.9 does not fit into CappedSimplex(dim=2, cap=[1.0, 0.1]). Use a smaller floor.",
        ),
        (
            lambda: kl.contrib.MirrorMemory(kl.Simplex(3), 1.0, memory=EIGHT),
            "memory must be a Memory such as Decay(32) or Clock(65), got 8.",
        ),
        (
            lambda: kl.contrib.MirrorMemory(
                kl.Simplex(3), 1.0, memory=kl.memories.Full(), geometry=TENTH
            ),
            "geometry must be a Geometry such as Entropy(0.01), got 0.1.",
        ),
        (
            lambda: certify_mirror(kl.run(LEARNER, G, engine="step"), [1.0, 0.0, 0.0]),
            "u must be at or above the floor, got a point below.",
        ),
        (
            lambda: certify_mirror(
                kl.run(LEARNER, G, movement="l2", engine="step"), [0.4, 0.3, 0.3]
            ),
            "The run's movement must be a TVMovement, got L2Movement().",
        ),
        (
            lambda: certify_mirror(
                kl.run(kl.GD(kl.Simplex(3), 1.0), G, engine="step"), [0.4, 0.3, 0.3]
            ),
            (
                "trace must be of MirrorMemory with Entropy, got GD(domain=Simplex(dim=3), "
                "sigma=Constant(s=1.0)). Use certify."
            ),
        ),
        (
            lambda: certify_mirror(
                kl.run(LEARNER, G, next_hints=G, engine="step"), [0.4, 0.3, 0.3]
            ),
            "trace must be of a run without hints.",
        ),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call()
