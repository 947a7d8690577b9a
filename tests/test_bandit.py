"""Learners that are told costs only: shrunk sets, estimates, bounds, and agents that repeat their trials bit for bit."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import klazy as kl
from cases import SETS, costs_of, gradients
from klazy.learners.bandit import draw_direction
from klazy.live.inspection import check_store
from klazy.live.store import open_store
from klazy.theory import bandit_bound, bandit_tuning

BALL = kl.L2Ball(5)
seeds = st.integers(0, 2**16)


@pytest.mark.parametrize("domain", SETS, ids=repr)
class TestShrunk:
    @given(share=st.floats(1e-6, 0.4), seed=seeds)
    def test_a_ball_around_each_of_its_points_lies_in_the_set(self, domain, share, seed):
        try:
            inside = domain.shrunk(share * domain.scale)
        except ValueError:
            return
        rng = np.random.default_rng(seed)
        z = inside.project(domain.project(5.0 * rng.normal(size=(8, domain.dim))))
        assert domain.contains(z)
        v = np.array([draw_direction(domain, seed, t) for t in range(8)])
        assert domain.contains(z + share * domain.scale * v)
        assert domain.contains(z - share * domain.scale * v)

    def test_directions_are_unit_vectors_along_the_set(self, domain):
        v = np.array([draw_direction(domain, 3, t) for t in range(1, 9)])
        np.testing.assert_allclose(np.linalg.norm(v, axis=1), float(domain.rank > 0), rtol=1e-12)
        x = domain.project(np.random.default_rng(0).normal(size=(30, domain.dim)))
        spread = np.linalg.matrix_rank(x - x[0], tol=1e-9)
        assert spread <= domain.rank  # no two points differ in another direction
        np.testing.assert_allclose(domain.along(x - x[0]), x - x[0], atol=1e-12 * domain.scale)


@pytest.mark.parametrize(
    ("domain", "inset"),
    [(BALL, 1.0), (kl.Box([0.0] * 4, [1.0] * 4), 2.0), (kl.Simplex(5), 4.0)],
    ids=repr,
)
def test_no_more_is_cut_off_than_the_bound_is_told(domain, inset):
    """The farthest that a point is from the shrunk set, in units of delta: 1 on balls, sqrt(d) on boxes, d - 1 on simplices."""
    corners = domain.argmin_linear(np.random.default_rng(0).normal(size=(40, domain.dim)))
    away = np.linalg.norm(corners - domain.shrunk(0.05).project(corners), axis=1)
    np.testing.assert_allclose(away.max(), 0.05 * inset, rtol=1e-12)


@pytest.mark.parametrize("domain", [BALL, kl.Simplex(5)], ids=repr)
@pytest.mark.parametrize("points", [1, 2])
def test_estimates_are_gradients_on_average(domain, points):
    """Of a linear function, which is its own smoothing; the error of a mean of N estimates is about their size over sqrt(N)."""
    learner = kl.contrib.Bandit(kl.GD(domain, 1.0), points, delta=0.05)
    g, state, N = np.linspace(-1.0, 1.0, domain.dim), learner.init(), 1000
    found = []
    for t in range(N):
        v = draw_direction(domain, 0, t)
        x = state.inner.x + (0.05 * v if points == 1 else 0.0)
        tried = state._replace(x=x, v=v)
        found.append(learner.estimate(tried, np.array([g @ p for p in learner.probes(tried)])))
    error = np.std(found, axis=0).max() / np.sqrt(N)
    np.testing.assert_allclose(np.mean(found, axis=0), domain.along(g), atol=5.0 * error)


@pytest.mark.parametrize("d", [1, 2, 3, 5, 8, 20])
def test_directions_of_different_rounds_are_uncorrelated(d):
    """N squared correlations of independent directions sum to about a chi-square with d^2 degrees: mean d^2, variance 2 d^2."""
    N = 1500
    v = np.array([draw_direction(kl.L2Ball(d), 0, t) for t in range(1, N + 9)])
    for lag in range(1, 9):
        correlation = d * v[:N].T @ v[lag : lag + N] / N
        assert N * (correlation**2).sum() <= d**2 + 5.0 * np.sqrt(2.0) * d, lag


def test_estimates_in_a_game_chosen_beforehand_point_along_the_gradient():
    """Odd rounds cost 1 whatever is played, even ones 1 + <g, x>: the mean of <estimate, g> in even rounds is <g, g> = 1."""
    d, T, delta = 8, 1200, 0.1
    g = np.ones(d) / np.sqrt(d)
    found = []
    for seed in range(12):
        learner = kl.contrib.Bandit(
            kl.GD(kl.L2Ball(d), d / delta / (3 * delta)), delta=delta, seed=seed
        )
        state = learner.init()
        for t in range(T):
            cost = np.array([1.0 + (t % 2) * (g @ state.x)])
            if t % 2:
                found.append(learner.estimate(state, cost) @ g)
            state = learner.learn(state, cost)
    error = np.std(found) / np.sqrt(len(found))
    assert abs(np.mean(found) - 1.0) <= 3.0 * error


def test_directions_come_from_the_seed_and_the_round_alone():
    one, two = (kl.contrib.Bandit(kl.GD(BALL, 1.0), delta=0.1, seed=seed) for seed in (0, 1))
    assert not np.array_equal(one.init().v, two.init().v)
    assert draw_direction(BALL, 0, 1).tolist() == one.init().v.tolist()
    # the numbers themselves, which replays on other machines rest on, up to rounding
    np.testing.assert_allclose(
        draw_direction(kl.L2Ball(2), 0, 1), [0.4362597308154884, -0.8998207861951166], rtol=1e-14
    )


@pytest.mark.parametrize(
    ("domain", "points"),
    [(kl.Box(-1, 1), 1), (kl.Box(-1, 1), 2), (kl.L2Ball(2), 2), (kl.Simplex(3), 2)],
    ids=repr,
)
def test_mean_regret_is_within_the_bound(domain, points):
    """On costs whose best point jumps once; a learner that walked the wrong way would be above it."""
    T, many = (1600, 2) if points == 1 else (600, 2)
    d, n, R = domain.dim, domain.rank, domain.reach()
    rng = np.random.default_rng(0)
    g = np.repeat(np.vstack((np.eye(d)[0], -np.eye(d)[0])), T // 2, axis=0) + 0.2 * rng.normal(
        size=(T, d)
    )
    g /= np.linalg.norm(g, axis=1).max()
    u = np.repeat(
        domain.argmin_linear(np.array([g[: T // 2].sum(axis=0), g[T // 2 :].sum(axis=0)])),
        T // 2,
        axis=0,
    )
    P = float(np.linalg.norm(u[-1] - u[0]))
    C = float(np.abs(g @ domain.argmin_linear(np.vstack((np.eye(d), -np.eye(d)))).T).max())
    delta, sigma = bandit_tuning(T, n, 1.0, R, P, points, C, move_cost=0.1)
    learner = kl.contrib.Bandit(kl.GD(domain, sigma), points, delta=delta)
    spread = {kl.Box: 1.0, kl.L2Ball: 1.0, kl.Simplex: d - 1.0}[type(domain)]
    bound = bandit_bound(T, n, 1.0, R, P, sigma, delta, points, C, spread * delta, 0.1)
    paid = [
        kl.regret(kl.run(learner.replace(seed=seed), g, movement=kl.L2Movement(0.1)), u).smoothed
        for seed in range(many)
    ]
    assert np.mean(paid) <= bound
    wrong = kl.regret(
        kl.run(kl.Fixed(domain, start=domain.argmin_linear(-g.sum(axis=0))), g), u
    ).dynamic
    assert points == 1 or wrong > bound


def test_theory_s_tuning_has_theory_s_rates():
    for points, rate in ((1, 0.75), (2, 0.5)):
        bounds = []
        for T in (10**8, 10**12):
            delta, sigma = bandit_tuning(T, 3, 1.0, 1.0, 2.0, points)
            bounds.append(bandit_bound(T, 3, 1.0, 1.0, 2.0, sigma, delta, points))
            for other in ((delta, 0.8 * sigma), (delta, 1.25 * sigma)):
                assert bandit_bound(T, 3, 1.0, 1.0, 2.0, other[1], other[0], points) > bounds[-1]
        assert np.log(bounds[1] / bounds[0]) / np.log(10**4) == pytest.approx(rate, abs=0.01)


@pytest.mark.parametrize("points", [1, 2])
@pytest.mark.parametrize("family", ["QuadraticCosts", "CallableCosts", "PinballCosts"])
def test_a_run_tells_what_the_points_cost_and_nothing_else(points, family):
    costs = costs_of(family, 30, 5, 1)
    learner = kl.contrib.Bandit(kl.KLazyGD(BALL, 3.0, k=4), points, delta=0.1)
    trace = kl.run(learner, costs)
    state = learner.init()
    for t in range(1, 31):
        assert np.array_equal(state.x, trace.x[t - 1])
        state = learner.learn(state, np.array([costs.value(t, x) for x in learner.probes(state)]))
    assert np.array_equal(state.x, trace.state.x)
    assert np.array_equal(kl.run(learner, costs, feedback="value").x, trace.x)


@given(points=st.sampled_from([1, 2]), seed=seeds, cut=st.integers(1, 19))
def test_a_run_goes_on_bit_for_bit(points, seed, cut):
    g = gradients(seed, 20, 5)
    learner = kl.contrib.Bandit(kl.GD(BALL, 3.0), points, delta=0.1, seed=seed)
    whole = kl.run(learner, g)
    first = kl.run(learner, g[:cut])
    assert np.array_equal(kl.run(learner, g[cut:], state=first.state).x, whole.x[cut:])


def test_ensembles_and_wrapped_learners_keep_off_the_boundary_too():
    experts = [
        kl.GD(kl.Simplex(5), 3.0, start=[1.0, 0.0, 0.0, 0.0, 0.0]),
        kl.LazyGD(kl.Simplex(5), 9.0),
    ]
    learner = kl.contrib.Bandit(kl.contrib.Delayed(kl.SAder(experts)), 2, delta=0.02)
    floor = 0.02 * np.sqrt(0.8)
    trace = kl.run(learner, gradients(1, 60, 5))
    assert trace.x.min() >= floor - 1e-12
    assert trace.x.min() <= floor + 1e-3


@pytest.mark.parametrize("points", [1, 2])
def test_an_agent_repeats_its_trials_bit_for_bit(points, tmp_path, monkeypatch):
    monkeypatch.setattr("klazy.live.stored.SNAPSHOT_ROUNDS", 7)
    costs = costs_of("QuadraticCosts", 25, 5, 2)
    learner = kl.contrib.Bandit(kl.GD(BALL, 3.0), points, delta=0.1, seed=4)
    trace = kl.run(learner, costs)
    file = tmp_path / "decisions.db"
    with kl.Agent.open(file, learner, sync="batch") as agent:
        for t in range(1, 13):
            agent.observe_cost([costs.value(t, x) for x in agent.probes], id=t)
    with kl.Agent.open(file, sync="batch") as agent:
        agent.observe_cost([3.0] * points, id=5)  # delivered again, taken once
        for t in range(13, 26):
            agent.observe_cost([costs.value(t, x) for x in agent.probes], id=t)
        assert agent.x.tobytes() == trace.state.x.tobytes()
        assert agent.hitting == pytest.approx(trace.totals.hitting, rel=1e-12)
        history = agent.history()
        agent.save(tmp_path / "agent.json")
    assert history["hitting"].to_list() == pytest.approx(trace.hitting.tolist(), rel=1e-12)
    assert kl.Agent.load(tmp_path / "agent.json").x.tobytes() == trace.state.x.tobytes()
    store = open_store(file, read_only=True)
    assert [found.fault for found in check_store(store)] == [None, None]
    store.close()


@pytest.mark.parametrize("points", [1, 2])
def test_a_round_in_which_guards_held_it_back_teaches_nothing(points, tmp_path):
    learner, file = (
        kl.contrib.Bandit(kl.GD(BALL, 3.0), points, delta=0.1),
        tmp_path / "decisions.db",
    )
    with kl.Agent.open(file, learner, guards=kl.Guards(per_round=0.05), sync="batch") as agent:
        learned = 0
        for _ in range(8):
            own, inner = np.array_equal(agent.x, agent.state.x), agent.state.inner.t
            assert np.array_equal(agent.probes[0], agent.x)
            agent.observe_cost([1.0 + x @ x for x in agent.probes])
            assert agent.state.inner.t == inner + own
            learned += own
        assert agent.t == 9
        assert 1 <= learned < 8
    store = open_store(file, read_only=True)
    assert [found.fault for found in check_store(store)] == [None, None]
    store.close()


BANDIT = kl.contrib.Bandit(kl.GD(BALL, 1.0), delta=0.1)
REFUSED = {
    "learner must be a Learner such as GD(L2Ball(5), 1.0), got 3.": lambda: kl.contrib.Bandit(3, delta=0.1),  # pyright: ignore
    "points must be 1 or 2, got 3.": lambda: kl.contrib.Bandit(
        kl.GD(BALL, 1.0), 3, delta=0.1
    ),
    "seed must be an integer from 0 to 2^64 - 1, got -1.": lambda: kl.contrib.Bandit(
        kl.GD(BALL, 1.0), delta=0.1, seed=-1
    ),
    (
        "learner must take gradients, got LastValue(domain=L2Ball(dim=5), family=Quadratic()). Leave "
        "out its family."
    ): lambda: kl.contrib.Bandit(
        kl.LastValue(BALL, family=kl.Quadratic()), delta=0.1
    ),
    "No ball of radius 1.0 fits into L2Ball(dim=5). Use a smaller delta.": (
        lambda: kl.contrib.Bandit(kl.GD(BALL, 1.0), delta=1.0)
    ),
    "delta must be above 0, got 0.": lambda: BALL.shrunk(0),
    (
        "feedback='value' is for a Bandit, got GD(domain=L2Ball(dim=5), sigma=Constant(s=1.0)). Use "
        "Bandit(learner, points=2, delta=0.01)."
    ): lambda: kl.run(
        kl.GD(BALL, 1.0), np.ones((2, 5)), feedback="value"
    ),
    "feedback must be one of 'gradient', 'value', got 'cost'.": lambda: kl.run(
        BANDIT, np.ones((2, 5)), feedback="cost"
    ),
    "observe_cost needs a learner that sees only costs, got GD. Use Bandit(learner, delta=0.1), or update(g).": (
        lambda: kl.Agent(kl.GD(BALL, 1.0), engine="step").observe_cost(1.0)
    ),
    "value must have shape (1,), got (2,).": lambda: kl.Agent(
        BANDIT
    ).observe_cost([1.0, 2.0]),
    "value must be a finite number, got nan. Remove or fill NaN and inf.": lambda: kl.Agent(
        BANDIT
    ).observe_cost(float("nan")),
    "points must be 1 or 2, got 4.": lambda: bandit_bound(
        10, 2, 1.0, 1.0, 0.0, 1.0, 0.1, 4
    ),
}  # fmt: skip


@pytest.mark.parametrize("message", REFUSED)
def test_refused_with_a_sentence_that_helps(message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        REFUSED[message]()


class Own(kl.Box):
    """A box that projects in its own way."""

    def nearest(self, y):
        return super().nearest(y)


def test_a_set_of_one_s_own_says_how_it_shrinks():
    with pytest.raises(ValueError, match=r"Own cannot shrink. Give it a method erode\(delta\)."):
        Own(0, 1).shrunk(0.1)


def test_a_state_that_this_learner_cannot_have_left_is_refused():
    state = BANDIT.init()
    for bad in (state._replace(v=-state.v), state._replace(t=2), state.inner):
        with pytest.raises(
            ValueError,
            match=r"^state",
        ):
            kl.run(BANDIT, np.ones((2, 5)), state=bad)
