"""Seasons: the period that is found, the plan, and a leader that keeps one season for all of its experts."""

from itertools import pairwise, product

import numpy as np
import pytest

import klazy as kl
from klazy.kernels.codes import SEASON_PERIOD
from klazy.kernels.layout import layout_of
from klazy.learners.seasonal import Season

SIMPLEX = kl.Simplex(5)
TV = kl.TVMovement(1.0)


def draw_waves(seed: int, T: int, period: int, noise: float = 0.3, d: int = 5) -> np.ndarray:
    rng = np.random.default_rng(seed)
    phases = np.arange(T)[:, None] / period + rng.random(d)
    return np.sin(2.0 * np.pi * phases) + noise * rng.normal(size=(T, d))


def test_kernel_and_step_agree_on_a_long_ring_for_several_periods():
    """The ring goes round once, a plan is remade within its period, and experts join when theirs has passed."""
    domain, movement, costs = SIMPLEX, TV, kl.contrib.LinearCosts
    experts = [
        kl.contrib.Reluctant(domain, movement, 8.0, 16.0),
        kl.contrib.Seasonal(domain, movement, 3, 2),
        kl.contrib.Seasonal(domain, movement, None, 1, period=1030),
        kl.contrib.Seasonal(domain, movement, 3, 2, period=1050),
        kl.contrib.Seasonal(domain, movement, 3, 2, period=20),
    ]
    learner = kl.contrib.Leader(experts, movement)
    rows = draw_waves(0, 2120, 20) + draw_waves(1, 2120, 1030)
    assert learner.season is not None
    assert learner.season.rows == 2101
    compiled = kl.run(learner, costs(rows), engine="compiled", record="experts")
    stepped = kl.run(learner, costs(rows), engine="step", record="experts")
    np.testing.assert_allclose(compiled.x, stepped.x, rtol=0, atol=1e-12)
    np.testing.assert_allclose(
        compiled.expert_hitting, stepped.expert_hitting, rtol=0, atol=1e-12
    )
    np.testing.assert_allclose(
        compiled.state.season, stepped.state.season, rtol=1e-12, atol=1e-12
    )
    # sums of 2120 losses of about 1
    np.testing.assert_allclose(
        compiled.state.behind, stepped.state.behind, rtol=1e-12, atol=1e-10
    )
    for place, period in ((2, 1030), (3, 1050)):
        before = kl.run(learner, costs(rows[: period - 1])).state
        starts = kl.run(learner, costs(rows[period - 1 : period]), state=before).state
        assert before.behind[place] != 0.0
        assert starts.behind[place] == starts.squares[place] == 0.0


@pytest.mark.parametrize("period", [7, 24, 48, 168])
@pytest.mark.parametrize("seed", range(3))
def test_it_finds_the_period(seed, period):
    season = Season(5, 5, None)
    known = season.init()
    for row in draw_waves(seed, 8 * period + 64, period, noise=0.5):
        known = season.observe(known, row)
    # after eight periods, a correlation's standard error is about how much a wave's falls a round away from its peak
    assert abs(known[SEASON_PERIOD] - period) <= max(1.0, 0.03 * period)


@pytest.mark.parametrize("seed", range(3))
def test_it_finds_none_in_noise_and_walks(seed):
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=(600, 5))
    for rows in (
        noise,
        0.05 * noise.cumsum(axis=0) + rng.normal(size=(600, 5)),
        np.zeros((600, 5)),
        np.ones((600, 5)),
    ):
        season = Season(5, 5, None)
        known = season.init()
        for row in rows:
            known = season.observe(known, row)
            assert known[SEASON_PERIOD] == 0.0


def test_a_forecast_is_the_mean_of_its_phase():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(50, 2))
    season = Season(2, 2, 7)
    known = season.init()
    for row in rows:
        known = season.observe(known, row)
    wanted = [
        np.mean([rows[50 + ahead - 7 * back] for back in (1, 2, 3)], axis=0) for ahead in range(7)
    ]
    forecast = season.forecast(known, 7, 3, 16)
    np.testing.assert_allclose(forecast[:7], wanted, atol=1e-13)
    np.testing.assert_array_equal(forecast[7:14], forecast[:7])
    np.testing.assert_allclose(
        season.forecast_mean(known, 7, 3, 16), forecast.mean(axis=0), atol=1e-13
    )


@pytest.mark.parametrize("seed", range(5))
def test_a_plan_on_a_simplex_is_the_best_of_all_paths_through_its_corners(seed):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(5, 3))
    learner = kl.contrib.Seasonal(kl.Simplex(3), kl.TVMovement(0.8), period=5)
    known = learner.init().season
    for row in np.vstack((rows, rows)):
        known = learner.observe(known, row)
    _, forecast = learner._plan(np.zeros(3), known)
    ahead = [*rows, rows[0]]  # a part of the plan is one round here, and a period follows it
    for corner in range(3):
        best = np.inf
        for rest in product(range(3), repeat=5):
            path = (corner, *rest)
            cost = sum(row[at] for row, at in zip(ahead, path, strict=True))
            best = min(best, cost + 0.8 * sum(a != b for a, b in pairwise(path)))
        assert forecast[corner] == pytest.approx(best, abs=1e-12)


def test_what_comes_again_is_met_in_time():
    waves = draw_waves(1, 400, 20, noise=0.0)
    for domain, movement in (
        (kl.Simplex(5), kl.TVMovement(1.0)),
        (kl.Box(-np.ones(5), np.ones(5)), kl.L1Movement(1.0)),
    ):
        costs = kl.contrib.LinearCosts(waves)
        trace = kl.run(kl.contrib.Seasonal(domain, movement, period=20), costs, engine="step")
        late = slice(200, 400)
        best = kl.offline_optimum(costs.window(201, 400), domain, movement)
        paid = float((trace.hitting + trace.switching)[late].sum())
        assert (
            paid
            <= best.cost + 0.01 * abs(best.cost) + 2.0 * movement.lipschitz(5) * domain.diameter
        )


def test_a_leader_keeps_one_season_and_its_experts_play_as_alone():
    seasonal = [
        kl.contrib.Seasonal(SIMPLEX, TV, horizon, periods)
        for horizon in (None, 3, 25)
        for periods in (2, 8)
    ]
    learner = kl.contrib.Leader([kl.contrib.Reluctant(SIMPLEX, TV, 8.0, 16.0), *seasonal], TV)
    rows = draw_waves(3, 120, 12)
    trace = kl.run(learner, rows, engine="step", record="experts")
    assert learner.season is not None
    assert trace.state.season.size == learner.season.size
    assert all(getattr(state, "season", np.zeros(0)).size == 0 for state in trace.state.experts)
    for place, expert in enumerate(learner.experts):
        alone = kl.run(expert, rows, engine="step")
        np.testing.assert_allclose(trace.expert_hitting[:, place], alone.hitting, atol=1e-13)
    assert learner.check_state(trace.state) is trace.state


def test_experts_of_different_periods_share_a_ring_and_play_as_alone():
    domain, movement, costs = SIMPLEX, TV, kl.contrib.LinearCosts
    experts = [
        kl.contrib.Seasonal(domain, movement, 3, period=period) for period in (12, 13, 1440)
    ]
    learner = kl.contrib.Leader(experts, movement)
    rows = draw_waves(3, 60, 12)
    trace = kl.run(learner, costs(rows), engine="step", record="experts")
    assert trace.state.season.size == experts[2].season.size
    for place, expert in enumerate(experts):
        alone = kl.run(expert, costs(rows), engine="step")
        np.testing.assert_allclose(trace.expert_hitting[:, place], alone.hitting, atol=1e-13)


@pytest.mark.parametrize("d", [1, 2, 5, 8])
def test_auto_keeps_a_week_of_minutes_in_less_than_1e5_numbers_and_no_more_than_asked(d):
    domain = kl.Box(np.zeros(d), np.ones(d))
    head = 4 + d + 513
    assert kl.auto(domain).init().season.size == head + 1024 * d
    learner = kl.auto(domain, period=(1440, 10080))
    assert {getattr(expert, "period", None) for expert in learner.experts} == {None, 1440, 10080}
    state = learner.init()
    assert state.season.size == head + 10081 * d
    numbers = sum(np.size(value) for expert in state.experts for value in expert)
    assert numbers + sum(np.size(value) for value in state if not isinstance(value, tuple)) < 1e5
    demand = kl.auto(domain, costs=kl.Pinball(), period=1440).init()
    assert demand.season.size <= head + 80640 + 2 * d


def test_an_agent_with_a_long_ring_is_stored_and_saved(tmp_path):
    domain, movement = SIMPLEX, TV
    learner = kl.contrib.Leader(
        [kl.contrib.Seasonal(domain, movement, 3, period=10080)], movement
    )
    rows = draw_waves(2, 20, 6)
    with kl.Agent.open(tmp_path / "long.db", learner, engine="step") as agent:
        for row in rows:
            agent.update(row)
        agent.save(tmp_path / "agent.json")
        state = agent.state
    with kl.Agent.open(tmp_path / "long.db") as again:
        np.testing.assert_array_equal(again.state.season, state.season)
    assert kl.Agent.load(tmp_path / "agent.json").state.season.tobytes() == state.season.tobytes()


def test_a_season_that_no_learner_left_is_refused():
    learner = kl.contrib.Seasonal(kl.Simplex(5), kl.TVMovement())
    state = learner.init()
    for period in (-3.0, 2.5, 1e6):
        season = state.season.copy()
        season[SEASON_PERIOD] = period
        with pytest.raises(
            ValueError,
            match=r"state.season must come from a trace or agent of this learner, got ",
        ):
            kl.run(learner, np.ones((3, 5)), state=state._replace(season=season))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"movement": kl.contrib.SwitchFee()},
            r"movement must grow with the distance, got SwitchFee\(\). contrib.Reluctant takes a fee.",
        ),
        ({"horizon": 0}, r"horizon must be an integer of at least 1, got 0."),
        ({"periods": 0}, r"periods must be an integer of at least 1, got 0."),
        (
            {"period": 1},
            r"period must be an integer of at least 2, got 1. Leave it out to look for one.",
        ),
        (
            {"period": 86400},
            r"period must be at most 10080, got 86400.",
        ),
        (
            {"family": kl.Quadratic()},
            r"horizon must be a number of rounds for the family Quadratic\(\), got None.",
        ),
    ],
)
def test_what_cannot_be_is_refused(arguments, message):
    good = {"domain": kl.Simplex(3), "movement": kl.TVMovement()}
    with pytest.raises(ValueError, match=message):
        kl.contrib.Seasonal(**good | arguments)


def test_it_says_what_it_forecasts():
    agent = kl.Agent(kl.contrib.Seasonal(SIMPLEX, TV, period=20), engine="step")
    rows = draw_waves(0, 41, 20)
    agent.update(rows[0])
    assert "a period of 20 rounds has not passed yet" in str(agent.explain())
    for row in rows[1:]:
        agent.update(row)
    assert "It knows a season of 20 rounds, and forecasts [" in str(agent.explain())
    assert "from the last 2 of them; it plans a season ahead." in str(agent.explain())
    leader = kl.Agent(kl.contrib.Leader([kl.contrib.Seasonal(SIMPLEX, TV, 3)], TV), engine="step")
    leader.update(rows[0])
    words = str(leader.explain())
    assert "It follows expert 1 of 1 (knows a season that it finds" in words
    assert "it has found no season of up to 512 rounds yet" in words
    agent = kl.Agent(kl.auto(SIMPLEX, TV), engine="step")
    agent.update(rows[0])
    assert "It has found no season of up to 512 rounds." in str(agent.explain())


def test_a_seasonal_learner_alone_is_played_by_the_kernel_of_auto():
    for domain, movement, family in (
        (kl.Simplex(3), kl.TVMovement(), None),
        (kl.Box([0.0], [9.0]), kl.L1Movement(), kl.Quadratic()),
        (kl.L2Ball(3), kl.L2Movement(), None),
    ):
        expert = kl.contrib.Seasonal(domain, movement, 1, 2, family=family)
        alone = kl.contrib.Leader([expert], movement, guard=False, family=family)
        whole = kl.auto(domain, movement, family)
        assert layout_of(alone).rules == layout_of(whole).rules
        assert alone.init().regression.size == 0
