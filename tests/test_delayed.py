"""Feedback that comes late, out of order or never: what is played, what it may cost, and agents that wait in a store."""

import json
import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import klazy as kl
from cases import CERTIFIED, LEARNERS, THUMBS, costs_of, gradients
from command import call_klazy
from klazy.live.inspection import check_store
from klazy.live.store import open_store
from klazy.theory import certify, count_outstanding, delayed_bound, delayed_sigma

BALL = kl.L2Ball(5)
SETS = [BALL, kl.Simplex(5), kl.Box([-1.0] * 5, [2.0] * 5)]
seeds = st.integers(0, 2**16)


def make_delays(kind, T, rng):
    """Delays of a kind: the last five are made to hurt."""
    s = np.arange(T)
    block = int(rng.integers(2, 9))
    kinds = {
        "none": np.zeros(T),
        "constant": np.full(T, float(rng.integers(1, 9))),
        "random": rng.integers(0, 12, T).astype(float),
        "lost": np.where(rng.random(T) < 0.3, np.inf, rng.integers(0, 5, T)),
        "reversed": 2.0 * (block - 1 - s % block),  # the last of a block comes first
        "together": (block - 1.0 - s % block),
        "at the end": T - 1.0 - s,
        "never": np.full(T, np.inf),
        "first last": np.where(s < T // 2, T - 1.0 - s, 0.0),
    }
    return kinds[kind]


KINDS = [
    "none",
    "constant",
    "random",
    "lost",
    "reversed",
    "together",
    "at the end",
    "never",
    "first last",
]


@pytest.mark.parametrize("make", (LEARNERS | THUMBS).values(), ids=LEARNERS | THUMBS)
@given(domain=st.sampled_from(SETS), seed=seeds)
def test_without_delays_it_plays_what_the_learner_plays(make, domain, seed):
    learner, g = make(domain, 3.0), gradients(seed, 12, 5)
    told = kl.run(kl.contrib.Delayed(learner), g, delays=0)
    assert np.array_equal(told.x, kl.run(learner, g, engine="step").x)
    assert np.array_equal(told.x, kl.run(kl.contrib.Delayed(learner), g).x)


@given(domain=st.sampled_from(SETS), delay=st.integers(0, 6), seed=seeds)
def test_under_a_constant_delay_greedy_descent_steps_along_the_gradient_of_then(
    domain, delay, seed
):
    g = gradients(seed, 20, 5)
    x = kl.run(kl.contrib.Delayed(kl.GD(domain, 3.0)), g, delays=delay).x
    for t in range(19):
        following = x[t] if t < delay else domain.project(x[t] - g[t - delay] / 3.0)
        np.testing.assert_allclose(x[t + 1], following, atol=1e-15)


@pytest.mark.parametrize("kind", KINDS)
@given(name=st.sampled_from(list(CERTIFIED)), place=st.integers(0, 2), seed=seeds)
def test_no_certificate_is_violated_under_adversarial_delays(kind, name, place, seed):
    rng = np.random.default_rng(seed)
    T, domain = int(rng.integers(1, 25)), SETS[place]
    sigma = (kl.Sqrt(3.0), kl.Constant(2.0), kl.ScaleFree(2.0))[seed % 3]
    delays = make_delays(kind, T, rng)
    # the costs drive the learner from one side to the other, at about the pace of the delays
    waves = np.where(np.arange(T) // max(1, int(np.median(np.minimum(delays, T)))) % 2, 1.0, -1.0)
    families = {
        0: kl.contrib.LinearCosts(gradients(seed, T, 5)),
        1: kl.contrib.LinearCosts(waves[:, None] * np.ones((T, 5))),
    }
    costs = families.get(seed % 3) or costs_of("CallableCosts", T, 5, seed)
    learner = kl.contrib.Delayed(CERTIFIED[name](domain, sigma))
    trace = kl.run(learner, costs, delays=delays, movement=kl.L2Movement(0.5))
    g = trace.gradients()
    for u in (
        domain.argmin_linear(g.sum(axis=0)),
        domain.argmin_linear(g),
        domain.argmin_linear(-g),
    ):
        certificate = certify(trace, u)
        room = 1e-9 * (1.0 + np.abs(certificate.worst_case))
        assert (certificate.regret <= certificate.realised + room).all()
        assert (certificate.realised <= certificate.worst_case + room).all()


def test_without_delays_the_certificate_is_that_of_the_learner():
    learner, g = kl.KLazyGD(BALL, kl.Sqrt(3.0), k=4), gradients(3, 50, 5)
    u = BALL.argmin_linear(g.sum(axis=0))
    late, own = (
        certify(kl.run(kl.contrib.Delayed(learner), g), u),
        certify(kl.run(learner, g, engine="step"), u),
    )
    np.testing.assert_allclose(late.realised, own.realised, rtol=1e-12)
    np.testing.assert_allclose(late.worst_case, own.worst_case, rtol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@given(k=st.sampled_from([1, 4]), s=st.floats(0.5, 20.0), seed=seeds)
def test_regret_is_within_the_closed_form(kind, k, s, seed):
    rng = np.random.default_rng(seed)
    T = int(rng.integers(2, 60))
    delays = make_delays(kind, T, rng)
    pairs, missing = count_outstanding(delays)
    waves = np.where(np.arange(T) // (1 + int(rng.integers(0, 8))) % 2, 1.0, -1.0)[:, None]
    g = waves * np.array([1.0, 0.0, 0.0, 0.0, 0.0]) if seed % 2 else gradients(seed, T, 5)
    u = BALL.argmin_linear(g.sum(axis=0))
    trace = kl.run(
        kl.contrib.Delayed(kl.KLazyGD(BALL, s, k=k)),
        g,
        delays=delays,
        movement=kl.L2Movement(0.5),
    )
    G = float(np.linalg.norm(g, axis=1).max())
    bound = delayed_bound(T, G, 1.0, 0.0, s, k, pairs, missing, move_cost=0.5)
    assert kl.regret(trace, u).smoothed <= bound + 1e-9
    come = np.minimum(delays, T - 1 - np.arange(T))  # waiting after the last round costs nothing
    assert pairs <= come.sum()
    assert missing == (np.arange(T) + delays >= T).sum()


def test_late_feedback_really_costs_and_its_tuning_bounds_that():
    """Blocks of random sign, each over before anything of it is known: that costs about sqrt(T delay), less than the bound."""
    T, delay = 1000, 9
    pairs, missing = count_outstanding(np.full(T, float(delay)))
    sigma = delayed_sigma(T, 1.0, 1.0, 0.0, pairs, move_cost=0.0)
    learner = kl.contrib.Delayed(kl.GD(kl.Box(-1, 1), sigma))
    paid = {delay: [], 0: []}
    for seed in range(5):
        g = np.random.default_rng(seed).choice([-1.0, 1.0], T // 10).repeat(10)[:, None]
        for d, regrets in paid.items():
            trace = kl.run(learner, g, delays=d, movement=kl.L2Movement(0.0), record="totals")
            regrets.append(kl.regret(trace, -np.sign(g.sum(axis=0))).dynamic)
    bound = delayed_bound(T, 1.0, 1.0, 0.0, sigma, 1, pairs, missing, move_cost=0.0)
    assert max(paid[delay]) <= bound
    assert np.mean(paid[delay]) >= 0.3 * bound
    assert np.mean(paid[0]) <= 0.8 * np.mean(paid[delay])
    for factor in (0.9, 1.1):
        assert delayed_bound(T, 1.0, 1.0, 0.0, factor * sigma, 1, pairs, missing, 0.0) > bound


def test_a_bound_without_the_outstanding_term_would_be_exceeded():
    """Descent on |x| swings about zero as far as it goes before it learns that it has passed it."""
    T, sigma = 600, 30.0
    delays = np.full(T, 9.0)
    pairs, missing = count_outstanding(delays)
    learner = kl.contrib.Delayed(kl.GD(kl.Box(-1, 1), sigma, start=[0.5]))
    trace = kl.run(
        learner,
        kl.PinballCosts(np.zeros((T, 1)), 1.0, 1.0),
        delays=delays,
        movement=kl.L2Movement(0.0),
    )
    known = {"T": T, "G": 1.0, "R": 1.5, "P": 0.0, "sigma": sigma, "move_cost": 0.0}
    assert delayed_bound(**known, missing=missing) < kl.regret(trace, [0.0]).smoothed
    assert kl.regret(trace, [0.0]).smoothed <= delayed_bound(
        **known, outstanding=pairs, missing=missing
    )


def test_a_bound_with_half_of_the_missing_term_would_be_exceeded():
    """If nothing is ever told, it stays at one end of the set, while the best point is at the other."""
    T, sigma = 1000, 30.0
    delays = np.full(T, float(T))
    pairs, missing = count_outstanding(delays)
    assert missing == T
    learner = kl.contrib.Delayed(kl.GD(kl.Box(-1, 1), sigma, start=[-1.0]))
    trace = kl.run(learner, np.full((T, 1), -1.0), delays=delays, movement=kl.L2Movement(0.0))
    known = {
        "T": T,
        "G": 1.0,
        "R": 1.0,
        "P": 0.0,
        "sigma": sigma,
        "move_cost": 0.0,
        "outstanding": pairs,
    }
    lost = kl.regret(trace, [1.0]).smoothed
    assert (
        delayed_bound(**known, missing=missing / 2)
        < lost
        <= delayed_bound(**known, missing=missing)
    )


def test_a_run_goes_on_where_rounds_wait():
    g, learner = gradients(1, 40, 5), kl.contrib.Delayed(kl.GD(BALL, 2.0))
    first = kl.run(learner, g[:20], delays=3)
    assert first.state.rounds.tolist() == [18, 19, 20]
    second = kl.run(learner, g[20:], delays=3, state=first.state)
    assert second.state.t == 41
    assert second.state.rounds.tolist() == [18, 19, 20, 38, 39, 40]
    np.testing.assert_array_equal(second.state.points[:3], first.x[17:])


def test_a_trace_keeps_its_delays_in_a_file(tmp_path):
    delays = np.array([0.0, 2.0, np.inf])
    kl.run(kl.contrib.Delayed(kl.GD(BALL, 2.0)), np.ones((3, 5)), delays=delays).save(
        tmp_path / "run.npz"
    )
    assert np.array_equal(kl.types.Trace.load(tmp_path / "run.npz").kept["delays"], delays)


def drive(agent, rows, delays, by_rows):
    """Play an agent as a run with these delays is played."""
    for t in range(1, len(rows) + 1):
        come = [s for s in range(1, t) if s + delays[s - 1] == t]
        for s in come:
            (agent.observe if by_rows else agent.update)(rows[s - 1], round=s)
        if delays[t - 1] == 0:
            (agent.observe if by_rows else agent.update)(rows[t - 1])
        else:
            agent.advance()
        if delays[t - 1] == math.inf:
            agent.give_up(t)


CASES = {
    "gradients": ({}, kl.GD(BALL, 2.0)),
    "guards": ({"guards": kl.Guards(per_round=0.1, hold=2)}, kl.GD(BALL, 2.0)),
    "rows": ({"costs": kl.Pinball(4.0)}, kl.KLazyGD(kl.Box([0.0] * 5, [9.0] * 5), 1.0, k=3)),
    "rows and guards": ({"costs": kl.Quadratic(), "guards": kl.Guards(per_round=0.3)}, kl.GD(BALL, 2.0)),
    "told rows": ({"costs": kl.Pinball()}, kl.MovingAverage(kl.Box([0.0] * 5, [9.0] * 5), 3, family=kl.Pinball())),
}  # fmt: skip


@pytest.mark.parametrize(("options", "learner"), CASES.values(), ids=CASES)
@pytest.mark.parametrize("kind", ["random", "lost", "reversed"])
def test_an_agent_waits_in_a_store_bit_for_bit(options, learner, kind, tmp_path, monkeypatch):
    monkeypatch.setattr("klazy.live.stored.SNAPSHOT_ROUNDS", 7)
    rng = np.random.default_rng(1)
    rows, delays = rng.exponential(size=(24, 5)), make_delays(kind, 24, rng)
    by_rows, learner = "costs" in options, kl.contrib.Delayed(learner)
    memory = kl.Agent(learner, **options)
    drive(memory, rows, delays, by_rows)
    file = tmp_path / "decisions.db"
    with kl.Agent.open(file, learner, sync="batch", **options) as agent:
        drive(agent, rows, delays, by_rows)
        assert agent.x.tobytes() == memory.x.tobytes()
        history = agent.history()
    assert [s for s in history["round"] if s is not None] == [
        s + 1 for s in np.argsort(np.arange(24) + delays, kind="stable") if s + delays[s] < 24
    ]
    with kl.Agent.open(file) as agent:
        assert agent.t == 25
        assert agent.x.tobytes() == memory.x.tobytes()
        assert agent.pending.keys() == memory.pending.keys()
        for s, x in memory.pending.items():
            assert agent.pending[s].tobytes() == x.tobytes()
    memory.save(tmp_path / "agent.json")
    loaded = kl.Agent.load(tmp_path / "agent.json")
    assert loaded.pending.keys() == memory.pending.keys()
    for one in (memory, loaded):
        one.advance()
    assert loaded.x.tobytes() == memory.x.tobytes()
    store = open_store(file, read_only=True)
    assert [found.fault for found in check_store(store)] == [None, None]
    store.close()


def test_an_agent_plays_what_a_run_plays_and_pays_the_same():
    rng = np.random.default_rng(2)
    rows, delays = rng.exponential(size=(30, 5)), rng.integers(0, 6, 30).astype(float)
    learner = kl.contrib.Delayed(kl.GD(kl.Box([0.0] * 5, [9.0] * 5), 1.0))
    trace = kl.run(learner, kl.PinballCosts(rows, 4.0, 1.0), delays=delays)
    agent = kl.Agent(learner, costs=kl.Pinball(4.0), movement=trace.movement)
    drive(agent, rows, delays, by_rows=True)
    assert agent.x.tobytes() == trace.state.x.tobytes()
    told = np.arange(30) + delays < 30
    np.testing.assert_allclose(agent.hitting, trace.hitting[told].sum(), rtol=1e-12)


def test_a_check_finds_another_gradient_of_a_late_round(tmp_path):
    """What was told late is worked out at the point of then, not of now."""
    file = tmp_path / "decisions.db"
    with kl.Agent.open(
        file, kl.contrib.Delayed(kl.GD(BALL, 2.0)), costs=kl.Quadratic(), sync="batch"
    ) as agent:
        agent.observe(np.ones(5))
        agent.advance()
        agent.observe(np.ones(5))
        agent.observe(np.zeros(5), round=2)
        history = agent.history()
    assert json.loads(history["row"][-1]) == [0.0] * 5
    assert (
        history["decision"][2].to_list() != history["decision"][0].to_list()
    )  # the points of rounds 4 and 2
    assert history["gradient"][3].to_list() == history["decision"][0].to_list()
    store = open_store(file, read_only=True)
    assert [found.fault for found in check_store(store)] == [None, None]
    store.close()


def test_the_history_of_late_feedback_names_its_round(tmp_path):
    file = tmp_path / "decisions.db"
    with kl.Agent.open(
        file, kl.contrib.Delayed(kl.GD(BALL, 2.0)), name="eu", sync="batch"
    ) as agent:
        agent.advance()
        agent.update(np.ones(5), round=1)
    lines = call_klazy("history", file, "eu").stdout.splitlines()
    assert lines[0].split()[:3] == ["time", "t", "round"]
    assert [line.split()[1:3] for line in lines[1:]] == [
        ["1", "0"],
        ["2", "1"],
    ]  # the first was told nothing, and hit nothing
    assert (
        call_klazy("check", file).stdout.splitlines()[-1]
        == "eu: 2 rounds, identical bit for bit."
    )


def test_late_feedback_comes_from_another_process_too(tmp_path):
    file = tmp_path / "decisions.db"
    learner = kl.contrib.Delayed(kl.GD(BALL, 2.0))
    with (
        kl.Agent.open(file, learner, sync="batch") as one,
        kl.Agent.open(file, sync="batch") as two,
    ):
        one.advance(id="monday")
        one.advance(id="tuesday")
        two.refresh()
        two.update(np.ones(5), round=1, id="cost of monday")
        one.update(np.ones(5), round=1, id="cost of monday")  # delivered twice, taken once
        one.update(-np.ones(5), round=2)
        two.advance()  # the round is still under way, whatever was told meanwhile
        with pytest.raises(
            kl.types.Overtaken,
            match=r"Another process ended round t=3 of 'agent'. Play agent.x of round t=4, or use retry=True.",
        ):
            one.advance()
        assert one.x.tobytes() == two.x.tobytes()
        assert list(one.pending) == [3]


DELAYED = kl.contrib.Delayed(kl.GD(BALL, 1.0))
REFUSED = {
    "learner must be a Learner such as GD(L2Ball(5), 1.0), got 3.": lambda: kl.contrib.Delayed(3),  # pyright: ignore
    (
        "delays are for a Delayed learner, got GD(domain=L2Ball(dim=5), sigma=Constant(s=1.0)). Use "
        "Delayed(learner)."
    ): lambda: kl.run(kl.GD(BALL, 1.0), np.ones((2, 5)), delays=1),
    "delays[1] must be an integer of at least 0, got -1.0. Use inf for feedback that never comes.": lambda: kl.run(
        DELAYED, np.ones((2, 5)), delays=[0, -1]
    ),
    "delays[0] must be an integer of at least 0, got nan. Use inf for feedback that never comes.": lambda: kl.run(
        DELAYED, np.ones((2, 5)), delays=[np.nan, 1]
    ),
    "delays must have shape (2,), one per round, got (3,).": lambda: kl.run(
        DELAYED, np.ones((2, 5)), delays=[0, 1, 2]
    ),
    (
        "round must be the current one, 1, got 2. Leave it out, or use Delayed(learner) for feedback "
        "that comes late."
    ): lambda: kl.Agent(kl.GD(BALL, 1.0), engine="step").update(np.ones(5), round=2),
    "Round 2 does not wait for feedback. Rounds that do: none.": lambda: kl.Agent(DELAYED).update(
        np.ones(5), round=2
    ),
    "round must be an integer of at least 1, got 1.5.": lambda: kl.Agent(
        DELAYED, costs=kl.Linear()
    ).observe(np.ones(5), round=1.5),  # pyright: ignore
    "GD cannot wait for feedback. Use Delayed(learner).": lambda: kl.Agent(
        kl.GD(BALL, 1.0), engine="step"
    ).advance(),
    "Round 1 does not wait for feedback. Rounds that do: none.": lambda: kl.Agent(DELAYED).give_up(1),
    "state.rounds must be rounds before 1 in their order, got [1.0].": lambda: kl.run(
        DELAYED, np.ones((2, 5)), state=DELAYED.init()._replace(rounds=np.ones(1), points=np.zeros((1, 5)))
    ),
    "delays[0] must be an integer of at least 0, got 0.5. Use inf for feedback that never comes.": lambda: count_outstanding(
        [0.5]
    ),
}  # fmt: skip


@pytest.mark.parametrize("message", REFUSED)
def test_refused_with_a_sentence_that_helps(message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        REFUSED[message]()


def test_what_is_refused_changes_nothing():
    agent = kl.Agent(DELAYED)
    agent.advance()
    before = agent.state
    with pytest.raises(ValueError, match=r"g must have shape \(5,\), got \(4,\)."):
        agent.update(np.ones(4), round=1)
    with pytest.raises(
        ValueError, match=r"Round 7 does not wait for feedback. Rounds that do: 1."
    ):
        agent.update(np.ones(5), round=7)
    assert agent.state is before


def test_an_explanation_says_what_is_outstanding():
    agent = kl.Agent(DELAYED)
    agent.advance()
    assert "The feedback of 1 rounds is outstanding, the oldest of round 1." in str(
        agent.explain()
    )
