"""Predictions that may be wrong: hints through ensembles, advice, the better of two, plans for forecasts."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

import klazy as kl
from cases import EVERY_LEARNER, gradients, movement_for
from klazy.theory import certify_reluctance

BOX = kl.Box(np.zeros(5), np.ones(5))
BALL = kl.L2Ball(5)
PLACES = [BALL, kl.Simplex(5), BOX]
seeds = st.integers(0, 2**16)
places = st.sampled_from(PLACES)
noises = st.sampled_from([0.0, 1.0, 30.0])


def guess(g, noise, seed):
    """Hints for every round: the next gradient, and noise."""
    following = np.vstack((g[1:], g[-1:]))
    return following + noise * np.random.default_rng(seed).normal(size=g.shape)


def twins(domain, **options):
    """Learners with and without hints."""
    heeding = [
        kl.MemoryGD(domain, 2.0, memory=kl.memories.Decay(5.0), hints=heeds, **options)
        for heeds in (True, False)
    ]
    reluctant = [
        kl.contrib.Reluctant(domain, movement_for(domain), 4.0, 3.0, hints=heeds, **options)
        for heeds in (False, True)
    ]
    following = kl.contrib.FollowForecast(domain, movement_for(domain), 4.0, 3.0, **options)
    return [*heeding, *reluctant, following, kl.GD(domain, 3.0, **options)]


ENSEMBLES = {
    "SAder": lambda domain: kl.SAder(twins(domain), movement=movement_for(domain), hints=True),
    "Leader": lambda domain: kl.contrib.Leader(twins(domain), movement_for(domain), hints=True),
}
every_ensemble = pytest.mark.parametrize("make", ENSEMBLES.values(), ids=ENSEMBLES)


@every_ensemble
@given(domain=places, seed=seeds, noise=noises)
def test_each_expert_of_an_ensemble_with_hints_plays_as_alone(make, domain, seed, noise):
    """Costs are linear, so the gradient does not depend on who plays."""
    g = gradients(seed, 20, 5)
    hints = guess(g, noise, seed)
    learner = make(domain)
    state = kl.run(learner, g, next_hints=hints).state
    for expert, own in zip(learner.experts, state.experts, strict=True):
        told = hints if expert.accepts_hints else None
        alone = kl.run(expert, g, next_hints=told, engine="step").state
        np.testing.assert_array_equal(own.x, alone.x)


@every_ensemble
@given(domain=places, seed=seeds, noise=noises, scale=st.floats(0.01, 100.0))
def test_wrong_hints_cost_at_most_the_certificate(make, domain, seed, noise, scale):
    g = scale * gradients(seed, 40, 5)
    trace = kl.run(make(domain), g, next_hints=guess(g, scale * noise, seed), record="experts")
    found = kl.theory.certify_experts(trace)
    assert (found.slack >= -1e-9 * (1.0 + scale) * trace.T).all()


@every_ensemble
def test_an_ensemble_told_no_hints_plays_as_one_that_takes_none(make):
    g = gradients(1, 30, 5)
    learner = make(BALL)
    plain = learner.replace(hints=False)
    np.testing.assert_array_equal(kl.run(learner, g).x, kl.run(plain, g, engine="step").x)
    assert plain.rule is not None
    assert learner.rule is None


def test_a_leader_of_rows_makes_gradients_of_the_hints_for_those_that_want_them():
    family = kl.Quadratic(2.0)
    experts = [
        kl.MemoryGD(BOX, 2.0, memory=kl.memories.Full()),
        kl.contrib.Reluctant(BOX, kl.L1Movement(0.1), 2.0, 2.0, family=family, hints=True),
    ]
    leader = kl.contrib.Leader(experts, kl.L1Movement(0.1), family=family, hints=True)
    state = leader.init()
    row = np.full(5, 0.8)
    hint = np.full(5, 0.3)
    after = leader.step(state, row, hint)
    x = state.experts[0].x
    by_slope = experts[0].step(
        state.experts[0], family.gradient(row, x), family.gradient(hint, x)
    )
    np.testing.assert_array_equal(after.experts[0].x, by_slope.x)
    by_row = experts[1].step(state.experts[1], row, hint)
    np.testing.assert_array_equal(after.experts[1].x, by_row.x)


@given(
    seed=seeds, horizon=st.sampled_from([0.5, 1.0, 4.0]), window=st.sampled_from([None, 1.0, 6.0])
)
def test_a_hint_is_the_forecast_of_the_first_round_that_a_move_serves(seed, horizon, window):
    rng = np.random.default_rng(seed)
    g = gradients(seed, 6, 5)
    hint = rng.normal(size=5)
    learner = kl.contrib.Reluctant(BOX, kl.L1Movement(0.5), window, horizon, hints=True)
    state = learner.init()
    for row in g[:-1]:
        state = learner.step(state, row)
    after = learner.step(state, g[-1], hint)
    own, _ = learner.forecast(learner.observe(state, g[-1]))
    rounds = horizon if window is not None else horizon * 6
    served = max(rounds, 1.0)
    objective = hint + (served - 1.0) * own

    def price(u):
        return objective @ u + served / rounds * 0.5 * np.abs(u - state.x).sum(axis=-1)

    others = rng.random((300, 5)).round()
    assert price(after.x) <= min(price(u) for u in [state.x, *others]) + 1e-9


@given(domain=places, seed=seeds, noise=noises)
def test_the_bounds_of_a_reluctant_learner_hold_with_hints(domain, seed, noise):
    g = gradients(seed, 25, 5)
    learner = kl.contrib.Reluctant(domain, movement_for(domain), 4.0, 6.0, hints=True)
    trace = kl.run(learner, g, next_hints=guess(g, noise, seed))
    u = domain.lowest(np.random.default_rng(seed).normal(size=(25, 5)))
    known = certify_reluctance(trace, u)
    assert known.switching <= known.promised + 1e-9
    assert known.promised <= known.variation + 1e-9
    assert known.regret <= known.bound + 1e-9


def test_good_hints_help_auto_and_useless_ones_cost_little():
    """Costs without any pattern, so that only hints can help; of the experts without hints a part will do."""
    g = np.random.default_rng(3).normal(size=(60, 5))
    movement = kl.L1Movement(0.2)
    experts = kl.auto(BOX, movement, hints=True).experts
    deaf = [expert for expert in experts if not expert.accepts_hints][::12]
    heeding = [expert for expert in experts if expert.accepts_hints]
    learner = kl.contrib.Leader([*deaf, *heeding], movement, hints=True)
    plain = kl.run(kl.contrib.Leader(deaf, movement), g, engine="step").totals.cost
    perfect = kl.run(learner, g, next_hints=guess(g, 0.0, 0)).totals.cost
    useless = kl.run(learner, g, next_hints=guess(0.0 * g, 1.0, 0)).totals.cost
    best = kl.offline_optimum(g, BOX, movement).cost
    assert perfect - best < 0.25 * (plain - best)
    assert useless - best < 1.05 * (plain - best)


@given(seed=seeds, ratio=st.sampled_from([1.0, 4.0, 19.0]), bias=st.floats(-9.0, 9.0))
def test_a_follower_of_demand_keeps_a_reserve_as_large_as_forecasts_are_wrong(seed, ratio, bias):
    """Where moving costs next to nothing it plays the quantile of a normal demand around the corrected forecast."""
    rng = np.random.default_rng(seed)
    hints = rng.uniform(30.0, 60.0, (40, 2))
    errors = bias + rng.normal(scale=[1.0, 5.0], size=(40, 2))
    family = kl.Pinball(ratio)
    learner = kl.contrib.FollowForecast(
        kl.Box([0.0, 0.0], [200.0, 200.0]), "l1", 1e9, 1e9, family=family
    )
    # The hint of a round is for the next one.
    rows = np.vstack((rng.uniform(30.0, 60.0, (1, 2)), hints[:-1] + errors[:-1]))
    state = learner.init()
    for row, hint in zip(rows, hints, strict=True):
        state = learner.step(state, row, hint)
    seen = errors[:-1]
    expected = hints[-1] + seen.mean(axis=0) + seen.std(axis=0) * norm.ppf(ratio / (ratio + 1.0))
    np.testing.assert_allclose(state.x, expected, rtol=1e-6)
    assert np.array_equal(learner.step(state, rows[0]).x, state.x)


@given(seed=seeds, domain=st.sampled_from([kl.Simplex(5), BOX]))
def test_a_follower_of_prices_corrects_them(seed, domain):
    rng = np.random.default_rng(seed)
    bias = rng.normal(size=5)
    learner = kl.contrib.FollowForecast(domain, movement_for(domain), 3.0, 1e9)
    state = learner.init()
    hint = None
    for g in gradients(seed, 8, 5):
        row = g if hint is None else hint + bias
        hint = g
        state = learner.step(state, row, hint)
    np.testing.assert_allclose(
        state.x @ (hint + bias), domain.lowest(hint + bias) @ (hint + bias), atol=1e-9
    )
    assert state.t == 9


def test_auto_without_hints_is_what_it_was():
    plain = kl.auto(BOX)
    hinted = kl.auto(BOX, hints=True)
    assert plain.rule == "leader"
    assert hinted.experts[: len(plain.experts)] == plain.experts
    assert all(expert.accepts_hints for expert in hinted.experts[len(plain.experts) :])
    assert not any(expert.accepts_hints for expert in plain.experts)


# Every learner that accepts hints, on a set that all of them know.
HINTED = {
    name: learner
    for name, learner in {
        **{name: make(kl.Simplex(5), 2.0) for name, make in EVERY_LEARNER.items()},
        **{f"{name} of twins": make(kl.Simplex(5)) for name, make in ENSEMBLES.items()},
        "Advice": kl.contrib.Advice(kl.Simplex(5)),
        "BetterOfTwo": kl.contrib.BetterOfTwo(
            kl.contrib.Advice(kl.Simplex(5)), kl.GD(kl.Simplex(5), 2.0), "l2"
        ),
        "Interpolation": kl.contrib.Interpolation(
            kl.contrib.Advice(kl.Simplex(5)), kl.GD(kl.Simplex(5), 2.0), "l2"
        ),
    }.items()
    if learner.accepts_hints
}
every_hinted = pytest.mark.parametrize("learner", HINTED.values(), ids=HINTED)


@every_hinted
@given(seed=seeds)
@settings(max_examples=5)
def test_hints_of_their_own_round_play_as_the_same_hints_told_one_round_ahead(learner, seed):
    """Row t of ``hints`` is what ``step`` gets at the end of round t - 1, and at the end of the last round it gets nothing."""
    g = gradients(seed, 9, 5)
    hints = gradients(seed + 1, 9, 5)
    own = kl.run(learner, g, hints=hints, engine="step")
    told = np.vstack((hints[1:], hints[:1]))
    ahead = kl.run(learner, g, next_hints=told, engine="step")
    np.testing.assert_array_equal(own.x, ahead.x)
    state = learner.init()
    for t, row in enumerate(g):
        np.testing.assert_array_equal(own.x[t], state.x)
        state = learner.step(state, row, *hints[t + 1 : t + 2])
    np.testing.assert_array_equal(own.state.x, state.x)


@pytest.mark.parametrize(
    "options", [{"limits": (None, 0.4)}, {"guards": kl.Guards(per_round=0.05)}], ids=repr
)
def test_hints_of_their_own_round_reach_runs_within_limits_and_guards(options):
    g = gradients(4, 30, 5)
    hints = gradients(5, 30, 5)
    learner = HINTED["Reluctant with hints"]
    own = kl.run(learner, g, hints=hints, **options)
    ahead = kl.run(learner, g, next_hints=np.roll(hints, -1, axis=0), **options)
    np.testing.assert_array_equal(own.x, ahead.x)
    assert not np.array_equal(own.x, kl.run(learner, g, next_hints=hints, **options).x)


def test_certificates_and_diagnoses_know_hints_of_their_own_round():
    """No hint at the end of the last round is a hint of zero to MemoryGD."""
    g = gradients(4, 30, 5)
    hints = guess(g, 0.5, 4)
    learner = kl.MemoryGD(BALL, 2.0, memory=kl.memories.Decay(5.0))
    own = kl.run(learner, g, hints=hints, engine="step")
    zero = np.zeros((1, 5))
    ahead = kl.run(learner, g, next_hints=np.vstack((hints[1:], zero)), engine="step")
    found, known = (kl.theory.certify(trace, np.zeros(5)) for trace in (own, ahead))
    np.testing.assert_array_equal(found.realised, known.realised)
    np.testing.assert_array_equal(own.diagnose().margin, ahead.diagnose().margin)
    np.testing.assert_array_equal(own.state.hint, zero[0])


def test_agents_pass_hints_on():
    g = gradients(2, 12, 5)
    hints = guess(g, 0.5, 2)
    learner = ENSEMBLES["Leader"](BALL)
    agent = kl.Agent(learner)
    for row, hint in zip(g, hints, strict=True):
        agent.update(row, next_hint=hint)
    np.testing.assert_array_equal(agent.x, kl.run(learner, g, next_hints=hints).state.x)


# ---- advice


def test_advice_is_played_as_it_is_given():
    decisions = np.array([[0.5, 0.5], [2.0, 0.0], [0.0, 1.0]])
    trace = kl.run(kl.contrib.Advice(kl.Simplex(2), decisions), np.ones((5, 2)))
    np.testing.assert_allclose(
        trace.x, [[0.5, 0.5], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [0.0, 1.0]]
    )


def test_a_policy_is_asked_with_the_round_and_what_was_played_and_told():
    asked = []

    def policy(t, x, g):
        asked.append((t, x.tolist(), g.tolist()))
        return [t / 10.0]

    trace = kl.run(kl.contrib.Advice(kl.Box(0.0, 1.0), policy), [[1.0], [2.0], [3.0]])
    np.testing.assert_allclose(trace.x[:, 0], [0.1, 0.2, 0.3])
    assert asked == [(1, [0.0], [0.0]), (2, [0.1], [1.0]), (3, [0.2], [2.0]), (4, [0.3], [3.0])]


@given(seed=seeds, domain=places)
def test_bad_advice_costs_a_leader_at_most_its_certificate(seed, domain):
    """The advice is the worst point of the round, which no adversary could make dearer."""
    g = gradients(seed, 60, 5)
    experts = [
        kl.contrib.Advice(domain, domain.lowest(-g)),
        kl.GD(domain, 3.0),
        kl.LazyGD(domain, 3.0),
    ]
    trace = kl.run(kl.contrib.Leader(experts, movement_for(domain)), g, record="experts")
    assert (kl.theory.certify_experts(trace).slack >= -1e-9).all()


# ---- the better of two

ratios = st.sampled_from([(2.0, 2.0), (1.2, 1.0), (8.0, 0.5), (0.5, 3.0), (30.0, 0.2)])
moves = st.sampled_from(
    [kl.L2Movement(0.0), kl.L2Movement(0.3), kl.TVMovement(2.0), kl.L1Movement(5.0)]
)


def duel(domain, movement, ratio, rng):
    """Two learners of which one jumps about, from starts of their own."""
    corners = domain.lowest(rng.normal(size=(80, 5)))
    steady = kl.GD(domain, float(rng.uniform(0.2, 5.0)), start=domain.lowest(rng.normal(size=5)))
    pair = [kl.contrib.Advice(domain, corners), steady]
    if rng.random() < 0.5:
        pair.reverse()
    return kl.contrib.BetterOfTwo(pair[0], pair[1], movement, leave=ratio[0], back=ratio[1])


def check_duel(trace):
    """The certificate, and the promise for costs that are not negative, with what one round cost at most."""
    found = kl.theory.certify_experts(trace)
    assert (found.slack >= -1e-9 * (1.0 + np.abs(found.experts))).all()
    learner = trace.source
    base = trace.totals.hitting - trace.state.lost
    share = max(learner.bound_factors(leader)[1] for leader in (0, 1))
    promised = base + np.array(learner.factors) * trace.state.paid + share * trace.state.overshoot
    assert (trace.totals.cost <= promised + 1e-9 * (1.0 + np.abs(promised))).all()


@given(domain=places, seed=seeds, movement=moves, ratio=ratios)
def test_the_better_of_two_keeps_its_promise_on_random_costs(domain, seed, movement, ratio):
    rng = np.random.default_rng(seed)
    learner = duel(domain, movement, ratio, rng)
    g = gradients(seed, 80, 5)
    trace = kl.run(learner, g)
    check_duel(trace)
    alone = [kl.run(expert, g, movement=movement, engine="step") for expert in learner.experts]
    start = learner.init()
    entry = movement.weight * movement.distance(np.diff([e.x for e in start.experts], axis=0)[0])
    costs = [alone[0].totals.cost, alone[1].totals.cost + entry]
    np.testing.assert_allclose(kl.theory.certify_experts(trace).experts, costs, atol=1e-9)


@given(domain=places, seed=seeds, movement=moves, ratio=ratios)
def test_the_better_of_two_keeps_its_promise_when_it_is_played_against(
    domain, seed, movement, ratio
):
    rng = np.random.default_rng(seed)
    learner = duel(domain, movement, ratio, rng)
    state = learner.init()
    g = []
    for _ in range(80):
        points = [expert.x for expert in state.experts]
        away = points[state.leader] - points[1 - state.leader]
        size = np.linalg.norm(away)
        g.append(rng.uniform(0.1, 3.0) * away / size if size > 1e-9 else rng.normal(size=5))
        state = learner.step(state, g[-1])
    trace = kl.run(learner, np.array(g))
    assert trace.state.changes == state.changes
    check_duel(trace)


def test_nine_times_the_better_one_is_what_an_adversary_can_make_it_pay():
    """Two learners walk away from each other, and only the one that is followed moves: changing over undoes all of it."""
    paths = [[0.0, 0.0]]
    walked = np.zeros(2)
    leader = 0
    changes = 0
    while changes < 10:
        walked[leader] += 1.0
        paths.append([-walked[0], walked[1]])
        if walked[leader] > 2.0 * walked[1 - leader]:
            leader = 1 - leader
            changes += 1
    T = len(paths)
    line = kl.Box(-float(T), float(T))
    pair = [kl.contrib.Advice(line, np.array(paths)[:, [i]]) for i in (0, 1)]
    learner = kl.contrib.BetterOfTwo(pair[0], pair[1], kl.L1Movement(1.0))
    state = kl.run(learner, np.zeros((T, 1))).state
    assert state.changes == 10
    trace = kl.run(learner, np.zeros((T + 1, 1)))  # now it has come to the other one
    best = walked.min()
    assert 8.9 < trace.totals.cost / best <= 9.0 + 4.0 / best
    assert (kl.theory.certify_experts(trace).slack >= 0.0).all()


def test_an_adviser_who_is_never_too_dear_is_followed_to_the_cent():
    g = np.tile([1.0, 0.0, 0.0, 0.0, 0.0], (40, 1))
    good = kl.contrib.Advice(BALL, [-g[0]], start=np.zeros(5))
    learner = kl.contrib.BetterOfTwo(good, kl.GD(BALL, 50.0), kl.L2Movement(0.5))
    trace = kl.run(learner, g)
    assert trace.state.changes == 0
    assert trace.totals.cost == kl.run(good, g, movement=kl.L2Movement(0.5)).totals.cost


def test_the_better_of_two_is_told_rows_of_its_family():
    family = kl.Pinball(3.0, 1.0)
    demands = np.random.default_rng(0).uniform(0.0, 1.0, (60, 5))
    costs = kl.PinballCosts(demands, 3.0, 1.0)
    robust = kl.contrib.Reluctant(BOX, kl.L1Movement(0.2), 8.0, 8.0, family=family)
    learner = kl.contrib.BetterOfTwo(kl.GD(BOX, 9.0), robust, kl.L1Movement(0.2), family=family)
    trace = kl.run(learner, costs)
    check_duel(trace)
    alone = kl.run(robust, costs, movement=kl.L1Movement(0.2), engine="step")
    np.testing.assert_allclose(kl.theory.certify_experts(trace).experts[1], alone.totals.cost)


# ---- plans for forecasts


def test_plans_for_a_perfect_forecast_are_plans_for_the_costs():
    g = gradients(4, 10, 5)
    movement = kl.L1Movement(0.7)
    seen = kl.contrib.run_ahead(kl.contrib.RecedingHorizon(BOX, 2), g, movement=movement).x
    for forecast in (g, kl.contrib.LinearCosts(g), lambda t, last: g[t - 1 : last]):
        x = kl.contrib.run_ahead(
            kl.contrib.RecedingHorizon(BOX, 2, forecast=forecast), g, movement=movement
        ).x
        np.testing.assert_array_equal(x, seen)
    average = kl.contrib.run_ahead(kl.contrib.AveragingHorizon(BOX, 2), g, movement=movement).x
    told = kl.contrib.run_ahead(
        kl.contrib.AveragingHorizon(BOX, 2, forecast=g), g, movement=movement
    ).x
    np.testing.assert_array_equal(told, average)


def test_a_plan_is_made_for_the_forecast_and_pays_what_comes():
    g = gradients(5, 12, 5)
    told = gradients(6, 12, 5)
    movement = kl.L1Movement(0.7)
    player = kl.contrib.RecedingHorizon(BOX, 11, forecast=told)
    trace = kl.contrib.run_ahead(player, g, movement=movement)
    plan = kl.offline_optimum(told, BOX, movement)
    imagined = np.vdot(told, trace.x) + movement.paid(trace.x).sum()
    assert imagined == pytest.approx(plan.cost, abs=1e-9)
    assert trace.totals.hitting == pytest.approx(float(np.vdot(g, trace.x)))


def test_plans_reach_the_gap_that_was_chosen():
    costs = kl.contrib.LinearCosts(gradients(7, 3, 5))
    loose = kl.contrib.RecedingHorizon(BALL, 2, gap=1e-2)
    tight = kl.contrib.RecedingHorizon(BALL, 2, gap=1e-9)
    best = kl.offline_optimum(costs, BALL, kl.L2Movement(1.0), x0=np.zeros(5), gap=1e-9)
    paid = [
        kl.contrib.run_ahead(
            player, costs, movement=kl.L2Movement(1.0), x0=np.zeros(5)
        ).totals.cost
        for player in (loose, tight)
    ]
    assert paid[1] <= best.cost + 1e-7
    assert paid[0] >= paid[1] - 1e-7
    with pytest.raises(kl.types.GapNotReached):
        kl.contrib.run_ahead(
            kl.contrib.RecedingHorizon(BOX, 2, gap=1e-17), costs, movement=kl.L1Movement(1.0)
        )


REFUSED = {
    "hints must be True or False, got 1.": lambda: kl.SAder(
        [kl.GD(BALL, 1.0)],
        hints=1,  # pyright: ignore
    ),
    (
        "With hints=True an expert must accept hints, and GD, LazyGD do not. Add MemoryGD(...) or "
        "contrib.Reluctant(..., hints=True)."
    ): (lambda: kl.contrib.Leader([kl.LazyGD(BALL, 1.0), kl.GD(BALL, 1.0)], "l2", hints=True)),
    "hints must be True or False, got 'yes'.": lambda: kl.contrib.Reluctant(
        BALL, "l2", 1.0, 1.0, hints="yes"
    ),  # pyright: ignore
    (
        "learner must accept hints, as MemoryGD does, got MemoryGD(domain=L2Ball(dim=5), "
        "sigma=Constant(s=1.0), memory=Full(), hints=False)."
    ): lambda: kl.run(
        kl.MemoryGD(BALL, 1.0, memory=kl.memories.Full(), hints=False),
        np.ones((3, 5)),
        next_hints=np.ones((3, 5)),
    ),
    "domain must be a ConvexSet such as L2Ball(5), got 3.": lambda: kl.contrib.Advice(
        3,  # pyright: ignore
        [[1.0]],
    ),
    "policy must have shape (T, 5), one row per round, got (2, 3).": lambda: kl.contrib.Advice(
        BALL, np.ones((2, 3))
    ),
    "policy(2)[0] must be a finite number, got nan. Remove or fill NaN and inf.": lambda: kl.run(
        kl.contrib.Advice(BALL, lambda t, x, g: np.full(5, np.nan if t > 1 else 0.0)),
        np.ones((3, 5)),
    ),
    "second must be a Learner such as GD(ball, 1.0), got None.": lambda: kl.contrib.BetterOfTwo(
        kl.GD(BALL, 1.0),
        None,  # pyright: ignore
        "l2",
    ),
    "leave * back must be above 1, got 0.5. Use 2.0 for both.": lambda: kl.contrib.BetterOfTwo(
        kl.GD(BALL, 1.0), kl.GD(BALL, 2.0), "l2", leave=0.5, back=1.0
    ),
    "movement must cost the same in both directions, got AsymmetricMovement(up=2.0). Use L1Movement(1.0).": lambda: (
        kl.contrib.BetterOfTwo(
            kl.GD(BALL, 1.0), kl.GD(BALL, 2.0), kl.contrib.AsymmetricMovement(up=2.0)
        )
    ),
    "The forecast of rounds 1 to 4 must have shape (4, 5), got (3, 5).": (
        lambda: kl.contrib.run_ahead(
            kl.contrib.RecedingHorizon(BALL, 1, forecast=np.ones((3, 5))), np.ones((4, 5))
        )
    ),
    "The forecast of rounds 1 to 2 must have shape (2, 5), got (1, 5).": (
        lambda: kl.contrib.run_ahead(
            kl.contrib.RecedingHorizon(BALL, 1, forecast=lambda t, last: np.ones((1, 5))),
            np.ones((4, 5)),
        )
    ),
    "gap must be above 0, got 0.": lambda: kl.contrib.AveragingHorizon(BALL, gap=0),
}


@pytest.mark.parametrize("message", REFUSED)
def test_bad_input_is_refused(message):
    with pytest.raises(ValueError) as refused:  # noqa: PT011
        REFUSED[message]()
    assert str(refused.value).startswith(message)


# ---- certificates


MEMORIES = [
    kl.memories.Forget(),
    kl.memories.Full(),
    kl.memories.Decay(4.0),
    kl.memories.Clock(3),
    kl.memories.Clip(0.5),
]
sigmas = st.sampled_from([kl.Constant(1.5), kl.Sqrt(2.0), kl.ScaleFree(2.0, 0.5, 0.8)])


@given(domain=places, seed=seeds, noise=noises, sigma=sigmas, memory=st.sampled_from(MEMORIES))
def test_certificates_hold_with_hints_after_every_round(domain, seed, noise, sigma, memory):
    g = gradients(seed, 30, 5)
    trace = kl.run(
        kl.MemoryGD(domain, sigma, memory=memory),
        g,
        next_hints=guess(g, noise, seed),
        engine="step",
    )
    u = domain.lowest(np.random.default_rng(seed).normal(size=(30, 5)))
    found = kl.theory.certify(trace, u)
    slack = 1e-9 * (1.0 + noise) * 30
    assert (found.realised - found.regret >= -slack).all()
    assert (found.worst_case - found.realised >= -slack).all()


def test_right_hints_cost_nothing_where_one_does_not_know_the_cost():
    g = gradients(3, 30, 5)
    learner = kl.MemoryGD(BALL, 1.5, memory=kl.memories.Decay(4.0))
    hints = guess(g, 0.0, 0)
    first = np.vstack(
        (np.zeros(5), g[1:])
    )  # nobody foresaw the first round, which costs nothing here
    told = kl.theory.certify(kl.run(learner, first, next_hints=hints, engine="step"), np.zeros(5))
    blind = kl.theory.certify(kl.run(learner, first, engine="step"), np.zeros(5))
    assert told.terms["I, not knowing the cost"][-1] == pytest.approx(0.0, abs=1e-12)
    assert blind.terms["I, not knowing the cost"][-1] > 1.0


RATES = [0.3, "self-tuned"]


@given(domain=places, seed=seeds, rate=st.sampled_from(RATES), scale=st.floats(0.01, 100.0))
def test_certificates_of_ensembles_hold_after_every_round(domain, seed, rate, scale):
    g = scale * gradients(seed, 40, 5)
    learner = kl.SAder(twins(domain), rate, movement=movement_for(domain))
    found = kl.theory.certify_experts(kl.run(learner, g, record="experts", engine="step"))
    assert found.curves is not None
    assert (found.curves.slack >= -1e-9 * (1.0 + scale) * 40).all()
    np.testing.assert_allclose(found.curves.bound[-1], found.bound)
    np.testing.assert_allclose(
        found.curves.slack[-1], found.slack, atol=1e-9 * (1.0 + scale) * 40
    )


@settings(max_examples=4)
@given(domain=places, seed=seeds, T=st.integers(2, 40))
def test_a_curve_ends_where_a_shorter_run_ends(domain, seed, T):
    g = gradients(seed, 40, 5)
    for learner in (
        kl.SAder(twins(domain)),
        kl.contrib.Leader(twins(domain), movement_for(domain)),
    ):
        long = kl.theory.certify_experts(kl.run(learner, g, record="experts", engine="step"))
        short = kl.theory.certify_experts(kl.run(learner, g[:T], record="experts", engine="step"))
        assert long.curves is not None
        np.testing.assert_allclose(long.curves.bound[T - 1], short.bound, rtol=1e-9)
        np.testing.assert_allclose(long.curves.experts[T - 1], short.experts, atol=1e-9)


# ---- diagnosis

DIAGNOSED = {
    "Decay": lambda domain, sigma: kl.MemoryGD(domain, sigma, memory=kl.memories.Decay(4.0)),
    "Event": lambda domain, sigma: kl.MemoryGD(domain, sigma, memory=kl.memories.Event(0.7)),
    "CentredOMD": kl.CentredOMD,
    "KLazyGD": lambda domain, sigma: kl.KLazyGD(domain, sigma, k=4),
}


@pytest.mark.parametrize("make", DIAGNOSED.values(), ids=DIAGNOSED)
@given(domain=places, sigma=sigmas, seed=seeds)
def test_a_diagnosis_knows_the_point_that_was_projected(make, domain, sigma, seed):
    """No step is longer than it was before the projection, and what does not bind was not projected."""
    g = gradients(seed, 30, 5)
    learner = make(domain, sigma)
    hints = guess(g, 0.5, seed) if learner.accepts_hints else None
    found = kl.run(learner, g, next_hints=hints, engine="step").diagnose()
    assert (found.moved <= found.greedy_bound + 1e-9).all()
    free = ~found.binds
    if isinstance(learner, kl.CentredOMD):
        np.testing.assert_allclose(found.moved[free], found.greedy_bound[free], atol=1e-9)
    assert len(str(found).splitlines()) >= 2


def test_forgetting_is_diagnosed_as_greedy_descent_is():
    g = gradients(4, 40, 5)
    memory = kl.run(
        kl.MemoryGD(BOX, 3.0, memory=kl.memories.Forget()), g, engine="step"
    ).diagnose()
    greedy = kl.run(kl.GD(BOX, 3.0), g, engine="step").diagnose()
    for name in ("moved", "binds", "stale", "margin", "greedy_bound"):
        np.testing.assert_allclose(
            getattr(memory, name), getattr(greedy, name), atol=1e-12, err_msg=name
        )


@every_ensemble
@given(domain=places, seed=seeds)
def test_what_an_ensemble_moves_is_its_experts_moves_and_its_weights(make, domain, seed):
    learner = make(domain).replace(hints=False)
    trace = kl.run(learner, gradients(seed, 40, 5), record="experts", engine="step")
    found = trace.diagnose()
    assert (found.switching <= found.experts + found.reweighting + 1e-9).all()
    assert found.switching.sum() == pytest.approx(trace.totals.switching)
    assert (
        (found.effective >= 1.0 - 1e-9) & (found.effective <= len(learner.experts) + 1e-9)
    ).all()
    assert "Its moves cost" in str(found)


def test_an_ensemble_without_its_record_cannot_be_diagnosed():
    trace = kl.run(kl.SAder([kl.GD(BALL, 1.0)]), np.ones((3, 5)), engine="step")
    with pytest.raises(AttributeError, match=r"Trace\.weights needs record='experts'"):
        trace.diagnose()


# ---- resonance


@pytest.mark.parametrize("domain", [kl.Simplex(5), BOX], ids=repr)
def test_a_clock_resonates_on_every_set(domain):
    found = kl.theory.resonance(kl.KLazyGD(domain, 2.0, k=40), [10, 20, 40], flips=6)
    assert found.worst == 20  # half the clock, as in the lower bound
    assert found.best == 40
