"""Laws of every learner, checked on its specification ``step``."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import klazy as kl
from cases import (
    BANDITS,
    EVERY_LEARNER,
    LEARNERS,
    MEMORIES,
    ROLLING,
    SCHEDULES,
    SETS,
    THUMBS,
    evaluated,
    flattened,
    gradients,
)

T = 30
seeds = st.integers(0, 2**16)
cheap_sets = st.sampled_from(
    [s for s in SETS if not isinstance(s, kl.Intersection | kl.Polytope)]
)
schedules = st.sampled_from(SCHEDULES)
movable = st.sampled_from([kl.L2Ball, kl.L1Ball])


def play(learner, g, hints=None):
    """All states of a run, from the one before round 1 to the one after the last."""
    states = [learner.init()]
    for t, row in enumerate(g):
        states.append(learner.step(states[-1], row, *([] if hints is None else [hints[t]])))
    return states


def played(learner, g, hints=None):
    return np.array([state.x for state in play(learner, g, hints)])


@pytest.mark.parametrize("make", EVERY_LEARNER.values(), ids=EVERY_LEARNER)
class TestEveryLearner:
    @given(domain=st.sampled_from(SETS), sigma=schedules, seed=seeds)
    def test_plays_points_of_the_set(self, make, domain, sigma, seed):
        assert domain.contains(played(make(domain, sigma), gradients(seed, 12, domain.dim)))

    @given(domain=cheap_sets, sigma=schedules, seed=seeds)
    def test_step_is_pure_and_deterministic(self, make, domain, sigma, seed):
        learner, g = make(domain, sigma), gradients(seed, 5, domain.dim)
        for state, row in zip(play(learner, g), g, strict=False):
            before, kept = flattened(state), row.copy()
            first, second = (
                flattened(learner.step(state, row)),
                flattened(learner.step(state, row)),
            )
            assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
            assert all(
                np.array_equal(a, b) for a, b in zip(flattened(state), before, strict=True)
            )
            assert np.array_equal(row, kept)

    @given(domain=cheap_sets, sigma=schedules, seed=seeds)
    def test_zero_gradients_move_nothing_from_the_interior(self, make, domain, sigma, seed):
        corners = domain.argmin_linear(np.random.default_rng(seed).normal(size=(40, domain.dim)))
        start = domain.project(corners.mean(axis=0))
        if make in (THUMBS | ROLLING).values():
            return  # they go to a leader, and here every point is one, or to the level of the rows
        if make in BANDITS.values():
            return  # they try other points, or start a little inside
        x = played(make(domain, sigma, start=start), np.zeros((8, domain.dim)))
        np.testing.assert_allclose(x, np.broadcast_to(start, x.shape), atol=1e-12)

    @given(ball=movable, sigma=schedules, seed=seeds, shift=st.floats(-50, 50))
    def test_moves_with_the_set(self, make, ball, sigma, seed, shift):
        if make is BANDITS["Bandit 1"] or make in ROLLING.values():
            return  # it is told what points cost, and that depends on where the set lies; or it takes rows for points
        g, here, start = gradients(seed, T, 4), np.zeros(4), np.array([0.1, -0.2, 0.0, 0.3])
        x = played(make(ball(4, 1.0, here), sigma, start=start), g)
        z = played(make(ball(4, 1.0, here + shift), sigma, start=start + shift), g)
        np.testing.assert_allclose(
            z - shift, x, atol=1e-9
        )  # sums of T terms of size 50 lose 1e-14 each

    @given(domain=cheap_sets, seed=seeds)
    def test_starts_anywhere_in_the_set(self, make, domain, seed):
        start = domain.argmin_linear(np.random.default_rng(seed).normal(size=domain.dim))
        if make in BANDITS.values():
            return  # they start a little inside
        np.testing.assert_allclose(
            make(domain, 1.0, start=start).init().x, start, rtol=1e-15, atol=1e-15
        )

    def test_replace_of_nothing_is_the_same_learner(self, make):
        learner = make(kl.L2Ball(3), 2.0)
        assert learner.replace() == learner
        with pytest.raises(TypeError, match="unexpected keyword"):
            learner.replace(nonsense=1)

    def test_repr_and_file_form_give_the_learner_back(self, make):
        learner = make(kl.Simplex(3), kl.Sqrt(4.0), start=[1.0, 0.0, 0.0])
        assert evaluated(repr(learner)) == learner
        assert kl.types.Learner.from_dict(learner.to_dict()) == learner


@pytest.mark.parametrize("make", LEARNERS.values(), ids=LEARNERS)
class TestEveryDescent:
    def test_replace_changes_what_it_is_told(self, make):
        assert (
            make(kl.L2Ball(3), 2.0).replace(sigma=5.0)
            == make(kl.L2Ball(3), 5.0)
            != make(kl.L2Ball(3), 2.0)
        )

    def test_a_learning_rate_is_one_over_sigma(self, make):
        learner = make(kl.L2Ball(3), 4.0)
        assert make(kl.L2Ball(3), 2.0).replace(learning_rate=0.25) == learner
        description = learner.to_dict()
        assert "learning_rate" not in description
        del description["sigma"]
        assert kl.types.Learner.from_dict(description | {"learning_rate": 0.25}) == learner

    @given(domain=cheap_sets, s=st.floats(0.1, 20.0), seed=seeds)
    def test_a_step_is_at_most_the_gradient_over_sigma(self, make, domain, s, seed):
        learner = make(domain, s)
        if isinstance(learner, kl.contrib.Patient):
            return  # which stays, and then makes several steps at once
        g = gradients(seed, T, domain.dim)
        moved = np.linalg.norm(np.diff(played(learner, g), axis=0), axis=1)
        assert (moved <= np.linalg.norm(g, axis=1) / s + 1e-9).all()

    def test_scale_free_sigma_ignores_the_unit_of_the_costs(self, make):
        """With weight 0, sigma scales like g, so x is unchanged; rules with a threshold in units of g are not scale free."""
        learner = make(kl.L2Ball(3), kl.ScaleFree(2.0, move_cost=0.0))
        if isinstance(learner, kl.contrib.Patient):
            return
        if isinstance(learner, kl.MemoryGD) and isinstance(
            learner.memory, kl.memories.Clip | kl.memories.Event
        ):
            return
        g = gradients(3, T, 3)
        np.testing.assert_allclose(played(learner, 1024.0 * g), played(learner, g), atol=1e-12)

    def test_scale_free_stays_put_until_a_gradient_comes(self, make):
        g = gradients(3, T, 3)
        g[:5] = 0.0
        x = played(make(kl.L2Ball(3), kl.ScaleFree(2.0), start=[0.6, 0.0, -0.8]), g)
        np.testing.assert_allclose(x[:6], np.broadcast_to([0.6, 0.0, -0.8], (6, 3)), atol=1e-15)
        assert np.linalg.norm(x[7] - x[0]) > 0.1


@given(domain=cheap_sets, sigma=schedules, seed=seeds)
def test_k_equal_to_one_is_gd(domain, sigma, seed):
    g = gradients(seed, T, domain.dim)
    assert np.array_equal(
        played(kl.KLazyGD(domain, sigma, k=1), g), played(kl.GD(domain, sigma), g)
    )


@given(domain=cheap_sets, sigma=schedules, seed=seeds, more=st.integers(0, 5))
def test_k_of_at_least_the_horizon_is_lazy_gd(domain, sigma, seed, more):
    g = gradients(seed, T, domain.dim)
    x, z = played(kl.KLazyGD(domain, sigma, k=T + more), g), played(kl.LazyGD(domain, sigma), g)
    assert np.array_equal(x, z)


@pytest.mark.parametrize("domain", SETS, ids=repr)
@given(k=st.integers(1, 12), seed=seeds, s=st.floats(0.2, 10.0))
def test_theorem_1_projection_and_ftrl_forms_play_the_same_points(domain, k, seed, s):
    g = gradients(seed, 20, domain.dim)
    x, z = played(kl.KLazyGD(domain, s, k=k), g), played(kl.KLazyFTRL(domain, s, k=k), g)
    np.testing.assert_allclose(x, z, atol=1e-9 if domain.code is None else 1e-11)


@given(domain=cheap_sets, sigma=schedules, k=st.integers(1, 12), seed=seeds)
def test_the_anchored_ftrl_form_plays_the_same_points_for_schedules(domain, sigma, k, seed):
    g = gradients(seed, T, domain.dim)
    x, z = played(kl.KLazyGD(domain, sigma, k=k), g), played(kl.KLazyFTRL(domain, sigma, k=k), g)
    np.testing.assert_allclose(x, z, atol=1e-11)


def test_algorithm_2_plays_other_points_for_schedules():
    """With sigma_t in place of the constant sigma of Theorem 1; this is why the anchored form exists."""
    domain, sigma, k, g = kl.L1Ball(5), kl.Sqrt(8.0), 7, gradients(0, 60, 5)
    x, p, z = domain.start, -sigma(1) * domain.start, [domain.start]
    for t, row in enumerate(g, start=1):
        if (t - 1) % k == 0 and not domain.contains(-p / sigma(max(t - 1, 1))):
            p = -sigma(t) * x
        p = p + row
        x = domain.project(-p / sigma(t))
        z.append(x)
    assert np.abs(played(kl.KLazyGD(domain, sigma, k=k), g) - z).max() > 0.05


@given(domain=cheap_sets, s=st.floats(0.2, 10.0), k=st.integers(1, 12), seed=seeds)
def test_clock_memory_is_k_lazy_gd_for_constant_sigma(domain, s, k, seed):
    g = gradients(seed, T, domain.dim)
    x, z = (
        played(kl.MemoryGD(domain, s, memory=kl.memories.Clock(k)), g),
        played(kl.KLazyGD(domain, s, k=k), g),
    )
    np.testing.assert_allclose(x, z, atol=1e-11)


def test_clock_memory_is_its_own_algorithm_for_schedules():
    g, domain = gradients(1, T, 5), kl.L1Ball(5)
    x, z = (
        played(kl.MemoryGD(domain, kl.Sqrt(8.0), memory=kl.memories.Clock(6)), g),
        played(kl.KLazyGD(domain, kl.Sqrt(8.0), k=6), g),
    )
    assert np.abs(x - z).max() > 1e-3


@given(domain=cheap_sets, sigma=schedules, seed=seeds)
def test_forgetting_memory_is_gd(domain, sigma, seed):
    g = gradients(seed, T, domain.dim)
    np.testing.assert_allclose(
        played(kl.MemoryGD(domain, sigma, memory=kl.memories.Forget()), g),
        played(kl.GD(domain, sigma), g),
        atol=1e-12,
    )


@given(domain=cheap_sets, s=st.floats(0.2, 10.0), seed=seeds)
def test_full_memory_is_lazy_gd_for_constant_sigma(domain, s, seed):
    g = gradients(seed, T, domain.dim)
    np.testing.assert_allclose(
        played(kl.MemoryGD(domain, s, memory=kl.memories.Full()), g),
        played(kl.LazyGD(domain, s), g),
        atol=1e-11,
    )


@pytest.mark.parametrize("memory", MEMORIES, ids=repr)
@given(domain=cheap_sets, sigma=schedules, seed=seeds)
def test_memory_stays_in_the_normal_cone_and_moves_at_most_g_over_sigma_t(
    memory, domain, sigma, seed
):
    learner, g = kl.MemoryGD(domain, sigma, memory=memory), gradients(seed, T, domain.dim)
    states, energy = play(learner, g), 0.0
    for t, (state, following) in enumerate(pairwise(states), start=1):
        sigma_t, energy = sigma.observe(t, energy, g[t - 1])
        assert np.linalg.norm(following.x - state.x) <= np.linalg.norm(g[t - 1]) / sigma_t + 1e-9
        reach = following.n @ (domain.argmin_linear(-following.n) - following.x)
        assert reach <= 1e-9 * (1.0 + np.linalg.norm(following.n))


@pytest.mark.parametrize(
    ("kappa", "memory"),
    [
        (3 * 2.0, kl.memories.Clock(4)),
        (4 * 2.0, kl.memories.Decay(5.0)),
        (0.8, kl.memories.Clip(0.8)),
    ],
)
def test_the_normal_never_outgrows_its_bound(kappa, memory):
    g = gradients(5, 400, 4)
    g *= 2.0 / np.maximum(np.linalg.norm(g, axis=1, keepdims=True), 2.0)
    states = play(kl.MemoryGD(kl.L2Ball(4), 3.0, memory=memory), g)
    assert max(np.linalg.norm(s.n) for s in states) <= kappa * (1 + 1e-12)


@pytest.mark.parametrize("memory", MEMORIES, ids=repr)
def test_regret_of_memory_is_within_its_bound(memory):
    """R_T <= sum (|g|^2/2 + lambda |g|)/sigma + sigma D^2/2 + sum (D sigma + |n|) |u' - u|, with the realised |n|."""
    g, domain, sigma = gradients(7, 300, 4), kl.L2Ball(4), kl.Sqrt(5.0)
    learner = kl.MemoryGD(domain, sigma, memory=memory)
    states, u = (
        play(learner, g),
        domain.argmin_linear(np.add.reduceat(g, range(0, 300, 50))).repeat(50, axis=0),
    )
    result = kl.regret(kl.run(learner, g, engine="step"), u)
    size, s = np.linalg.norm(g, axis=1), sigma.values(300)
    kappa = np.array([np.linalg.norm(state.n) for state in states[1:300]])
    jumps = np.linalg.norm(np.diff(u, axis=0), axis=1)
    D = domain.diameter
    bound = (
        ((size**2 / 2 + size) / s).sum() + s[-1] * D**2 / 2 + ((D * s[:-1] + kappa) * jumps).sum()
    )
    assert result.smoothed <= bound


@pytest.mark.parametrize("memory", MEMORIES, ids=repr)
def test_a_perfect_hint_costs_no_regret_and_a_hint_of_zero_changes_nothing(memory):
    g, domain = gradients(2, 200, 3), kl.L2Ball(3)
    learner = kl.MemoryGD(domain, 2.0, memory=memory)
    assert np.array_equal(played(learner, g, np.zeros_like(g)), played(learner, g))
    perfect = np.vstack((g[1:], np.zeros((1, 3))))
    x = played(learner, g, perfect)[:-1]
    best = domain.argmin_linear(g.sum(axis=0))
    # the bound with g - h in place of g: only round 1, which no hint reached, and the regulariser remain
    assert (g * (x - best)).sum() <= g[0] @ g[0] / (2 * 2.0) + 2.0 * domain.diameter**2 / 2 + 1e-9


def test_an_interior_run_is_the_same_for_every_k():
    """Laziness acts only where the projection binds."""
    g, domain = gradients(4, 50, 3, scale=1e-3), kl.L2Ball(3)
    x = [played(kl.KLazyGD(domain, 1.0, k=k), g) for k in (1, 7, 50)]
    np.testing.assert_allclose(x[1], x[0], atol=1e-14)
    np.testing.assert_allclose(x[2], x[0], atol=1e-14)


def test_centred_descent_is_gd_for_constant_sigma():
    g = gradients(3, T, 4)
    x, z = played(kl.CentredOMD(kl.L1Ball(4), 2.0), g), played(kl.GD(kl.L1Ball(4), 2.0), g)
    np.testing.assert_allclose(x[1:], z[1:], atol=1e-12)


@given(
    seed=seeds,
    sigma=st.sampled_from([kl.Sqrt(5.0), kl.Doubling(3.0), kl.Constant(4.0)]),
    size=st.floats(0.1, 3.0),
)
def test_centred_descent_pays_for_the_distance_of_the_comparator_and_not_for_the_diameter(
    seed, sigma, size
):
    domain, g = kl.L2Ball(3, 1e4), gradients(seed, 200, 3)
    x, s = played(kl.CentredOMD(domain, sigma), g)[:-1], sigma.values(200)
    u = -size * g.sum(axis=0) / np.linalg.norm(g.sum(axis=0))
    before = np.concatenate((s[:1], s[:-1]))
    bound = s[-1] * size**2 / 2 + ((g * g).sum(axis=1) / (2 * before)).sum()
    assert (g * (x - u)).sum() <= bound + 1e-9


@given(domain=cheap_sets, s=st.floats(0.1, 20.0), price=st.floats(0.0, 10.0), seed=seeds)
def test_patience_pays_no_more_for_moving_than_it_lost_by_staying(domain, s, price, seed):
    """Every move is made when the debt, what it lost to greedy descent since the last one, has reached its price."""
    g = gradients(seed, T, domain.dim)
    trace = kl.run(
        kl.contrib.Patient(domain, s, move_cost=price),
        g,
        movement=kl.L2Movement(price),
        engine="step",
    )
    greedy = kl.run(kl.GD(domain, s), g, engine="step")
    last = price * float(
        np.linalg.norm(trace.state.x - trace.x[-1])
    )  # the move to the point after the last round
    lost = trace.totals.hitting - greedy.totals.hitting - trace.state.debt
    assert trace.totals.switching + last <= lost + 1e-9
