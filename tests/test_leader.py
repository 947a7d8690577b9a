"""Laws of Leader: whom it follows, what its guard promises, what it says of itself."""

import os
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import klazy as kl
from cases import costs_of, gradients, leading
from klazy.kernels.layout import find_missing_part
from klazy.learners.reluctant import Reluctant

JIT_OFF = os.environ.get("NUMBA_DISABLE_JIT") == "1"
BALL = kl.L2Ball(5)
seeds = st.integers(0, 2**16)
NORMS = [
    kl.L2Movement(0.3),
    kl.L2Movement(0.0),
    kl.TVMovement(2.0),
    kl.contrib.AsymmetricMovement(up=2.0, down=0.3),
]
norms = st.sampled_from(NORMS)


def stay(domain: kl.types.ConvexSet, *points: Any) -> list[kl.types.Learner[Any]]:
    """Experts that never leave these points."""
    return [kl.GD(domain, 1e12, start=np.atleast_1d(point)) for point in points]


def waves(seed: int, T: int, d: int) -> np.ndarray:
    """Gradients whose mean changes its sign, so that leaders change."""
    return gradients(seed, T, d) + 2.0 * np.sin(np.arange(T) / (3.0 + seed % 9))[:, None]


@given(seed=seeds, movement=norms, caution=st.sampled_from([0.0, 0.25, 2.0]))
def test_it_follows_whom_the_definition_names(seed, movement, caution):
    """Sums of whole costs, as in the definition; the learner itself keeps differences."""
    experts = [kl.GD(BALL, s, start=None) for s in (30.0, 3.0, 1.0, 0.3)]
    g = waves(seed, 60, 5)
    learner = kl.contrib.Leader(experts, movement, caution=caution, guard=False)
    trace = kl.run(learner, g, record="experts", engine="step")
    x = np.array([kl.run(expert, g, engine="step").x for expert in experts])
    paid = np.array([movement.paid(path) for path in x])
    c = 0
    L = np.zeros(4)
    V = np.zeros(4)
    for t in range(60):
        assert trace.leader[t] == c
        np.testing.assert_allclose(trace.x[t], x[c, t], atol=1e-13)
        loss = x[:, t] @ g[t] + paid[:, t]
        L += loss
        V += (loss - loss[c]) ** 2
        score = L + movement.weight * movement.distance(x[:, t] - x[c, t]) + caution * np.sqrt(V)
        tied = 1e-12 * (
            1.0 + np.abs(L).max()
        )  # experts whose sigmas differ may stand on one point of the ball
        if score.min() < L[c] - tied:
            c = int(np.argmax(score <= score.min() + tied))


@given(seed=seeds, movement=norms)
def test_the_ensemble_beside_it_is_the_self_tuned_one(seed, movement):
    g = waves(seed, 40, 5)
    learner = kl.contrib.Leader(leading(BALL, 2.0), movement)
    alone = kl.run(learner.ensemble, g, engine="step")
    state = kl.run(learner, g, engine="step").state
    np.testing.assert_allclose(state.mixed, alone.state.x, atol=1e-12)
    np.testing.assert_allclose(state.log_w, alone.state.log_w, atol=1e-9)
    assert state.Delta == pytest.approx(alone.state.V, rel=1e-9)


def play_against(learner: kl.contrib.Leader, T: int, seed: int) -> list[Any]:
    """States of a game in which each gradient hurts the expert that is followed most, beside the others."""
    rng = np.random.default_rng(seed)
    states = [learner.init()]
    rows = []
    for _ in range(T):
        state = states[-1]
        points = np.array([expert.x for expert in state.experts])
        away = (
            points[state.leader] - points.mean(axis=0) + 1e-3 * rng.normal(size=points.shape[1])
        )
        rows.append(away / np.linalg.norm(away) * rng.uniform(0.5, 1.0))
        states.append(learner.step(state, rows[-1]))
    return [states, np.array(rows)]


@pytest.mark.parametrize("caution", [0.0, 0.25])
@pytest.mark.parametrize("weight", [0.0, 0.1])
def test_a_follower_that_is_played_against_pays_without_end_and_its_guard_stops_that(
    weight, caution
):
    T = 800
    box = kl.Box(-1.0, 1.0)
    learner = kl.contrib.Leader(stay(box, -1.0, 1.0), kl.L2Movement(weight), caution=caution)
    states, g = play_against(learner, T, 0)
    trace = kl.run(learner, g, record="experts", engine="step")
    found = kl.theory.certify_experts(trace)
    alone = kl.run(learner.replace(guard=False), g, engine="step")
    assert (found.slack >= 0.0).all()
    assert trace.guarding.any()
    assert not trace.guarding.all()
    assert (alone.totals.cost > found.experts + found.bound).all()
    worst = trace.kept["worst"].max()
    for state in states:
        assert state.excess <= 2.0 * state.Delta + 4.0 * learner.reach + worst + 1e-9
    ensemble = kl.run(learner.ensemble, g, engine="step").totals.cost
    assert trace.totals.cost - ensemble == pytest.approx(
        trace.state.excess, abs=2.0 * weight + 1e-9
    )


PLACES = [kl.L2Ball(5), kl.Simplex(5)]


@pytest.mark.parametrize("domain", PLACES, ids=repr)
@settings(max_examples=1 if JIT_OFF else 40)
@given(seed=seeds, movement=norms, T=st.integers(2, 120), scale=st.floats(0.01, 100.0))
def test_no_certificate_of_a_leader_is_ever_violated(domain, seed, movement, T, scale):
    learner = kl.contrib.Leader(leading(domain, 2.0), movement)
    trace = kl.run(learner, scale * waves(seed, T, 5), record="experts")
    assert (kl.theory.certify_experts(trace).slack >= -1e-9 * (1.0 + scale) * T).all()
    points = np.array([expert.x for expert in trace.state.experts])
    np.testing.assert_allclose(learner.weights(trace.state) @ points, trace.state.x, atol=1e-12)


@pytest.mark.skipif(JIT_OFF, reason="a million rounds need compiled code")
def test_a_million_rounds_lose_no_digit_of_a_small_difference():
    """Costs of 1e6 a round whose digits end at 1e-10; the two experts differ by 1e-6 a round."""
    T = 1_000_000
    start = np.array([[0.5, 0.0, 0.0, 0.0, 0.0], [0.5 - 1e-6, 0.0, 0.0, 0.0, 0.0]])
    experts = [
        kl.KLazyGD(BALL, 1e60, k=4, start=start[0]),
        kl.MemoryGD(BALL, 1e60, memory=kl.memories.Full(), start=start[1]),
    ]
    g = np.tile([1.0, 0.0, 0.0, 0.0, 0.0], (T, 1))
    state = kl.run(kl.contrib.Leader(experts, kl.L2Movement(1.0)), g, record="totals").state
    assert state.leader == 1
    ahead = 1e-6 * (T - state.since + 1)
    first = 1e-6 * (state.since - 1)
    assert state.behind[0] == pytest.approx(ahead + first, rel=1e-9)


def test_with_a_fee_per_change_the_follower_needs_no_guard():
    """A mean of experts cannot be charged by a fee, and a follower can."""
    pole = np.array([1.0, 0.0, 0.0, 0.0, 0.0])
    experts = [
        kl.KLazyGD(BALL, 1e12, k=4, start=-pole),
        kl.MemoryGD(BALL, 1e12, memory=kl.memories.Full(), start=pole),
    ]
    g = np.repeat([-pole, pole], [20, 60], axis=0)
    for fee, changes in ((1.0, 2), (30.0, 2), (1000.0, 0)):
        learner = kl.contrib.Leader(experts, kl.contrib.SwitchFee(fee), guard=False)
        for engine in ("step", "compiled"):
            trace = kl.run(learner, g, engine=engine, record="experts")
            assert (np.diff(trace.leader) != 0).sum() == changes


def test_prices_of_rounds_decide_when_it_changes_over():
    """A change-over that is dear now and cheap later waits; prices that are all alike are one price."""
    domain = kl.Box(-1.0, 1.0)
    experts = [kl.Fixed(domain, start=[1.0]), kl.Fixed(domain, start=[-1.0])]
    g = np.full((8, 1), 1.0)

    def follow(prices):
        return kl.run(
            kl.contrib.Leader(experts, kl.L1Movement(prices), caution=0.0, guard=False),
            g,
            engine="step",
        )

    patient = follow([1.0, 1.0, 100.0, 100.0, 100.0, 100.0, 1.0, 1.0])
    assert patient.x.ravel().tolist() == [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, -1.0, -1.0]
    assert patient.totals.switching == 2.0
    assert np.array_equal(follow(np.full(8, 2.0)).x, follow(2.0).x)
    learner = kl.contrib.Leader(experts, kl.L1Movement([1.0, 2.0]), guard=False)
    assert find_missing_part(learner) == "L1Movement with a weight per round"


@pytest.mark.parametrize("name", ["QuadraticCosts", "PinballCosts", "LogWealthCosts"])
def test_with_a_family_experts_see_their_own_gradients_and_cost_what_they_cost_alone(name):
    domain = kl.Simplex(5)
    costs: Any = costs_of(name, 50, 5, seed=3)
    assert costs.family is not None
    experts = [kl.GD(domain, s) for s in (8.0, 2.0, 0.5)]
    learner = kl.contrib.Leader(experts, kl.L2Movement(0.1), family=costs.family)
    trace = kl.run(learner, costs, record="experts")
    assert trace.engine == "step"
    for i, expert in enumerate(experts):
        alone = kl.run(expert, costs, movement=learner.movement, engine="step")
        np.testing.assert_allclose(trace.expert_hitting[:, i], alone.hitting, atol=1e-12)
        np.testing.assert_allclose(trace.expert_switching[:, i], alone.switching, atol=1e-12)
    assert (kl.theory.certify_experts(trace).slack >= -1e-9).all()


def test_rows_of_linear_costs_are_gradients():
    g = waves(1, 30, 5)
    one, other = (
        kl.contrib.Leader(leading(BALL, 2.0), kl.L2Movement(), family=f)
        for f in (None, kl.Linear())
    )
    assert find_missing_part(other) is None
    assert np.array_equal(kl.run(one, g, engine="step").x, kl.run(other, g, engine="step").x)


def test_what_has_no_kernel_is_named():
    learner = kl.contrib.Leader([kl.GD(BALL, 1.0)], kl.L2Movement(), family=kl.Quadratic())
    assert find_missing_part(learner) == "the gradients of GD"
    learner = kl.contrib.Leader([kl.GD(BALL, 1.0)], kl.L2Movement(), family=Own())
    assert find_missing_part(learner) == "the family Own"


class Own(kl.Quadratic):
    """A user's family: it may cost something else, so its parent's kernel is not used for it."""


class Told(kl.KLazyGD):
    """An expert that is told rows, and takes them for gradients."""

    rule = "k_lazy"

    def __init__(
        self,
        domain: kl.types.ConvexSet,
        sigma: Any,
        k: int,
        family: kl.types.Family | None = None,
    ) -> None:
        super().__init__(domain, sigma, k=k)
        self._keep(family=family)


# Compiled, pinball costs alone: a kernel takes seconds, and the two families differ in few lines.
@pytest.mark.parametrize("name", ["PinballCosts", *(["QuadraticCosts"] if JIT_OFF else [])])
def test_kernel_and_step_agree_on_rows(name):
    costs: Any = costs_of(name, 60, 5, seed=3)
    if name == "QuadraticCosts":
        costs = kl.QuadraticCosts(costs.data[:, :5], 0.7)
    experts = [Told(BALL, sigma, k, costs.family) for sigma in (9.0, 2.0, 0.5) for k in (1, 5)]
    learner = kl.contrib.Leader(experts, kl.L2Movement(0.1), family=costs.family)
    compiled, step = (
        kl.run(learner, costs, record="experts", engine=engine) for engine in ("compiled", "step")
    )
    assert len(set(step.leader)) > 1
    for key in step.kept:
        np.testing.assert_allclose(
            compiled.kept[key], step.kept[key], rtol=1e-11, atol=1e-12, err_msg=key
        )
    agent = kl.Agent(learner)
    assert agent.engine == "compiled"
    for row in costs.data:
        agent.observe(row)
    np.testing.assert_allclose(agent.x, step.state.x, atol=1e-12)


def test_it_says_whom_it_follows_and_what_a_change_would_take():
    learner = kl.contrib.Leader(stay(kl.Box(-1.0, 1.0), -1.0, 1.0), kl.L2Movement(1.0))
    agent = kl.Agent(learner, engine="step")
    for _ in range(3):
        agent.update([1.0])
    words = str(agent.explain())
    first, second = (expert.describe() for expert in learner.experts)
    assert f"It follows expert 1 of 2 ({first}) since round 1." in words
    needed = 3 * 2.0 + 2.0 + 0.25 * np.sqrt(3 * 4.0)  # behind, the way, the caution
    assert learner.evidence(agent.state)[1] == pytest.approx(needed)
    assert (
        f"changes to expert 2 ({second}) once that one has cost {needed:.4g} less than expert 1 from now on;"
        in words
    )
    assert "so far it has cost 6 more, movement included." in words
    for _ in range(12):
        agent.update([-1.0])
    assert f"follows expert 2 of 2 ({second}) since round {agent.state.since}." in str(
        agent.explain()
    )


def test_it_says_when_its_guard_acts():
    learner = kl.contrib.Leader(
        stay(kl.Box(-1.0, 1.0), -1.0, 1.0), kl.L2Movement(0.01), caution=0.0
    )
    states, _ = play_against(learner, 60, 0)
    state = next(state for state in states if state.guarding)
    assert (
        f"But the guard plays the mean of all experts: following had cost {state.excess:.4g} more"
        in (learner.describe_memory(state))
    )


def test_a_repr_counts_experts_where_there_are_many():
    text = repr(kl.auto(kl.Simplex(3), kl.TVMovement(2.0)))
    experts = "<155: Reluctant, Seasonal, Autoregressive>"
    assert text == f"Leader(experts={experts}, movement=TVMovement(weight=2.0))"


def test_a_learner_is_described_in_a_few_words_and_in_full_on_request():
    learner = kl.auto(kl.Simplex(3), kl.TVMovement(1.0))
    agent = kl.Agent(learner, engine="step")
    agent.update([1.0, 0.0, 0.5])
    words = learner.describe(agent.state)
    assert words.startswith("auto: 155 experts; now follows: looks back ")
    assert len(words) < 100
    few = learner.replace(experts=learner.experts[:2])
    assert eval(few.to_text(), vars(kl) | vars(kl.contrib)) == few
    assert learner.to_text().count("Reluctant(") == sum(
        isinstance(each, Reluctant) for each in learner.experts
    )


def test_in_many_dimensions_experts_with_equal_means_have_them_in_common_and_states_do_not_show_it():
    domain = kl.Simplex(9)
    experts = [
        kl.contrib.Reluctant(domain, "tv", window, horizon)
        for window in (64.0, 8.0, 1.0, None)
        for horizon in (1.0, 8.0, 64.0)
    ]
    learner = kl.contrib.Leader(experts, "tv")
    g = np.random.default_rng(0).normal(size=(60, 9))
    half = kl.run(learner, g[:30], engine="compiled")
    whole = kl.run(learner, g[30:], state=half.state, engine="compiled", x0=half.x[-1])
    alone = {}
    for expert, state in zip(learner.experts, whole.state.experts, strict=True):
        known = alone.setdefault(expert.window, kl.run(expert, g, engine="step").state)
        np.testing.assert_allclose(state.m1, known.m1, atol=1e-14)
        np.testing.assert_allclose(state.m2, known.m2, atol=1e-14)
    assert len(alone) == 4
    # An expert whose means are others keeps its own.
    first, *rest = half.state.experts
    changed = half.state._replace(experts=(first._replace(m1=first.m1 + 1.0), *rest))
    after = kl.run(learner, g[30:40], state=changed, engine="compiled")
    step = kl.run(learner, g[30:40], state=changed, engine="step")
    for one, other in zip(after.state.experts, step.state.experts, strict=True):
        np.testing.assert_allclose(one.m1, other.m1, atol=1e-13)
        np.testing.assert_allclose(one.m2, other.m2, atol=1e-13)
        np.testing.assert_allclose(one.x, other.x, atol=1e-12)
