"""One law over every cost family, somebody's own among them: whatever takes costs agrees on what a sequence pays."""

import numpy as np
import pytest

import klazy as kl
from cases import FAMILIES, Cubic, Farthest, rows_of
from klazy.base.checks import InvalidInput

D = 3
DOMAIN = kl.Simplex(D)
SHARED = kl.Simplex(5)  # other tests compile its kernels, too
PRICE = kl.TVMovement(0.3)
every_family = pytest.mark.parametrize("family", FAMILIES, ids=repr)


def sum_up(family, rows, x):
    """What a sequence pays, by the family's own value, round by round."""
    hitting = sum(float(family.value(row, point)) for row, point in zip(rows, x, strict=True))
    return hitting + float(PRICE.paid(x).sum())


@every_family
def test_runs_and_agents_play_the_same_and_pay_what_the_rows_cost(family, tmp_path):
    rows = rows_of(family, 5, 5) / 2.0
    costs = family.costs(rows)
    names = [f"column {i}" for i in range(D + family.extras)]
    assert kl.auto(DOMAIN, PRICE, costs) == kl.auto(DOMAIN, PRICE, family)
    learners = {
        "gd": kl.GD(DOMAIN, 4.0),
        "auto": kl.auto(DOMAIN, PRICE, family),
        "thumb": kl.DeadBand(DOMAIN, PRICE, 3.0, 4, family=family),
    }
    for name, learner in learners.items():
        trace = kl.run(learner, costs, movement=PRICE, engine="step")
        assert trace.totals.cost == pytest.approx(
            sum_up(family, rows, trace.x), rel=1e-12, abs=1e-12
        )
        terms = {"costs": family, "columns": names, "movement": PRICE, "engine": "step"}
        agent = kl.Agent.open(tmp_path / "decisions.db", learner, name=name, **terms)
        for row, x in zip(rows, trace.x, strict=True):
            np.testing.assert_allclose(agent.x, x, atol=1e-12)
            agent.observe(dict(zip(names, row.tolist(), strict=True)))
        assert agent.hitting == pytest.approx(trace.totals.hitting, rel=1e-12, abs=1e-12)
        assert list(agent.decision) == names[:D]
        agent.close()
        again = kl.Agent.open(tmp_path / "decisions.db", name=name)
        assert again.costs == family
        assert np.array_equal(again.x, agent.x)
        again.close()
    by_rows = kl.run(learners["thumb"], costs, movement=PRICE)
    assert by_rows.engine == "rows"
    assert by_rows.totals.cost == pytest.approx(
        sum_up(family, rows, by_rows.x), rel=1e-12, abs=1e-12
    )


@every_family
def test_comparators_lie_between_what_sequences_pay_and_what_none_can_pay_less_than(family):
    rows = rows_of(family, 5, 8) / 2.0
    costs = family.costs(rows)
    best = kl.offline_optimum(costs, DOMAIN, PRICE, gap=1e-3)
    fixed = kl.best_fixed(costs, DOMAIN, gap=1e-3)
    assert (best.method == "cutting planes") == (not family.has_prox)
    assert best.cost == pytest.approx(sum_up(family, rows, best.u), rel=1e-9)
    assert fixed.cost == pytest.approx(sum_up(family, rows, np.tile(fixed.x, (8, 1))), rel=1e-9)
    hidden = kl.CallableCosts(8, D, costs.value, costs.subgradient)
    by_cuts = kl.offline_optimum(hidden, DOMAIN, PRICE, gap=1e-3)
    assert (
        max(best.lower_bound, by_cuts.lower_bound)
        <= min(best.cost, by_cuts.cost, fixed.cost) + 1e-9
    )
    lower, upper = kl.frontier(costs, DOMAIN, PRICE, points=4).best(np.array([0.0]))
    assert lower[0] - 1e-9 <= fixed.cost
    assert fixed.lower_bound - 1e-9 <= upper[0]
    few = costs.window(1, 3)
    least = kl.offline_optimum(few, DOMAIN, PRICE, gap=1e-3).lower_bound
    for player in (
        kl.contrib.RecedingHorizon(DOMAIN, 1, gap=1e-2),
        kl.contrib.ROBD(DOMAIN, 2.0, 0.5),
    ):
        ahead = kl.contrib.run_ahead(player, few, movement=PRICE)
        assert ahead.totals.cost == pytest.approx(sum_up(family, rows[:3], ahead.x), rel=1e-12)
        assert ahead.totals.cost >= least - 1e-9


@pytest.mark.parametrize("family", [Cubic(), kl.contrib.Hinge()], ids=repr)
@pytest.mark.usefixtures("few", "by_step")
def test_a_replay_scores_what_the_rows_cost_and_its_agent_pays_it(family):
    """For the others tests/test_replay.py has this."""
    rows = rows_of(family, 3, 44, 5) / 10.0
    found = kl.replay(rows, domain=SHARED, costs=family, movement=PRICE, train=0.5)
    still = found.score("fixed")
    by_hand = sum(float(family.value(row, still.points[0])) for row in rows[22:])
    assert still.hitting == pytest.approx(by_hand, rel=1e-9)
    assert found.optimum is not None
    assert found.optimum.lower_bound <= min(score.cost for score in found.scores) + 1e-9
    agent = found.agent("auto")
    for row in rows[22:]:
        agent.observe(dict(zip(found.source.columns, row.tolist(), strict=True)))
    assert agent.hitting == pytest.approx(found.score("auto").hitting, rel=1e-9)


def test_a_negative_weight_is_refused_wherever_rows_come_in():
    said = "weight must not be negative, or costs are not convex, got -1.0."
    family = kl.contrib.WeightedQuadratic()
    with pytest.raises(InvalidInput, match=said):
        kl.QuadraticCosts(np.ones((2, D)), [1.0, -1.0])
    with pytest.raises(InvalidInput, match=said):
        family.costs([[0.0, 1.0, -1.0]])
    with pytest.raises(InvalidInput, match=said):
        kl.Agent(kl.GD(DOMAIN, 1.0), costs=family, engine="step").observe([0.0, 0.0, 1.0, -1.0])


def test_a_replay_refuses_rows_that_have_more_than_a_number_per_coordinate():
    with pytest.raises(
        InvalidInput,
        match=r"costs must be a family whose rows have one number per coordinate, got WeightedQuadratic\(\).",
    ):
        kl.replay(
            rows_of(kl.contrib.WeightedQuadratic(), 3, 44), costs=kl.contrib.WeightedQuadratic()
        )


def test_a_replay_of_rewards_plays_learners_that_are_told_gradients_and_its_agent_takes_rewards(
    only,
):
    """So all of them are compiled, and an agent is."""
    only("moving average")
    rows = rows_of(kl.Rewards(), 3, 44, 5)
    found = kl.replay(rows, domain=SHARED, costs="rewards", movement=PRICE, train=0.5)
    agent = found.agent("moving average")
    assert agent.learner.family == kl.Linear()
    assert agent.costs == kl.Rewards()
    for row in rows[22:]:
        agent.observe(dict(zip(found.source.columns, row.tolist(), strict=True)))
    assert agent.hitting == pytest.approx(found.score("moving average").hitting, rel=1e-12)


def test_a_code_that_only_kernels_know_does_not_stop_comparators():
    """It was a bare KeyError in all of these."""

    class Coded(Farthest):
        code = 6

    costs = Coded().costs(rows_of(Coded(), 1, 4))
    best = kl.offline_optimum(costs, DOMAIN, PRICE, gap=1e-3)
    assert best.cost <= kl.best_fixed(costs, DOMAIN, gap=1e-3).cost + 1e-3
    assert kl.frontier(costs, DOMAIN, PRICE, points=3).hitting[0] >= best.hitting - 1e-9
    assert (
        kl.contrib.run_ahead(
            kl.contrib.OBD(DOMAIN), costs.window(1, 1), movement=PRICE
        ).totals.cost
        >= 0.0
    )


def test_what_is_not_merged_or_exact_may_still_have_a_proximal_step():
    """A family of one's own with a step is solved by splitting, whatever else it leaves out."""

    class Stepping(kl.types.Family):
        def value(self, row, x):
            return np.vecdot(x - row, x - row)

        def gradient(self, row, x):
            return 2.0 * (x - row)

        def prox(self, row, a, r):
            return (2.0 * row + r * a) / (2.0 + r)

    rows = rows_of(Stepping(), 2, 30)
    found = kl.offline_optimum(Stepping().costs(rows), DOMAIN, PRICE, gap=1e-6)
    known = kl.offline_optimum(kl.QuadraticCosts(rows, 2.0), DOMAIN, PRICE, gap=1e-6)
    assert found.method == "splitting"
    assert found.cost == pytest.approx(known.cost, rel=2e-6)
    fixed = kl.best_fixed(Stepping().costs(rows), DOMAIN, gap=1e-6)
    assert fixed.cost == pytest.approx(
        kl.best_fixed(kl.QuadraticCosts(rows, 2.0), DOMAIN).cost, rel=2e-6
    )


@pytest.mark.parametrize("family", [Cubic(), kl.contrib.Hinge()], ids=repr)
def test_a_learner_that_forecasts_rows_refuses_a_family_whose_average_row_says_nothing(family):
    """It would take rows for gradients."""
    message = "must be one whose rows can be averaged, got"
    with pytest.raises(InvalidInput, match=message):
        kl.contrib.Reluctant(DOMAIN, PRICE, 2.0, 2.0, family=family)
    with pytest.raises(InvalidInput, match=message):
        kl.contrib.Seasonal(DOMAIN, PRICE, 2, family=family)


def test_a_family_may_not_claim_a_forecast_whose_average_is_no_gradient():
    """With such a claim auto took targets for gradients and never moved."""

    class Claiming(Cubic):
        has_forecast = True

    with pytest.raises(
        InvalidInput, match="has_forecast must be False for Claiming: the mean of its moments"
    ):
        kl.auto(DOMAIN, PRICE, Claiming())


def test_auto_beats_never_moving_on_drifting_targets_of_a_family_of_ones_own():
    """Without descents it went from one end of the box to the other, and paid several times as much as never moving."""

    class Smoothed(kl.types.Family):
        def value(self, row, x):
            return np.sqrt((x - row) ** 2 + 0.04).sum(axis=-1)

        def gradient(self, row, x):
            return (x - row) / np.sqrt((x - row) ** 2 + 0.04)

    rows = 5.0 + 3.0 * np.sin(np.arange(300)[:, None] / 50.0 + np.arange(D))
    costs = Smoothed().costs(rows)
    box = kl.Box([0.0] * D, [10.0] * D)
    trace = kl.run(kl.auto(box, "l1", Smoothed()), costs, engine="step")
    assert trace.totals.cost < kl.best_fixed(costs, box).cost
