"""Planning for demand: the level it finds, what it learns, and what a leader shares."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import klazy as kl
from cases import PLANNING, evaluated
from klazy.base.checks import InvalidInput
from klazy.kernels import codes
from klazy.kernels.plan import FORESIGHT, SPREADS, find_level, find_shared, find_slope
from klazy.learners.planning import ENDS, DemandPlan

BOX = kl.Box(0.0, 60.0)
COSTS = kl.Pinball(4.0, 1.0)
unit = st.floats(0.0, 1.0)


def draw_demand(rounds: int, period: float, seed: int = 0) -> np.ndarray:
    """Draw counts whose mean goes up and down once a period."""
    waves = np.sin(2.0 * np.pi * np.arange(rounds)[:, None] / period)
    return np.random.default_rng(seed).poisson(20.0 * np.exp(0.6 * waves)).astype(float)


class Outlook:
    """A forecast with spreads, what moves and errors cost, and the ends of a box; all levels are roots."""

    def __init__(self, forecasts, spreads, segments, rise, fall, short, excess, high):
        plan = DemandPlan(1)
        self.forecasts = forecasts
        self.shared = find_shared(plan.init(), 1)[:FORESIGHT]
        self.shared[SPREADS : SPREADS + len(ENDS)] = spreads
        self.terms = np.array([segments, rise, fall, short, excess])
        self.high = high
        self.sharpest = codes.PLAN_SHARPEST * high

    def find_slope(self, root: float) -> float:
        return find_slope(self.forecasts, self.shared, self.terms, self.sharpest, root)

    def find_level(self, root: float) -> float:
        return find_level(self.forecasts, self.shared, self.terms, 0.0, self.high, root)


def draw_outlook(seed: int) -> tuple[Outlook, float]:
    """Draw a forecast for some segments, prices, and where a level is now."""
    rng = np.random.default_rng(seed)
    spreads = rng.exponential(size=len(ENDS))
    spreads[rng.integers(1, len(ENDS) + 1) :] = -1.0
    forecasts = rng.uniform(1.0, 6.0, len(ENDS))
    known = Outlook(
        forecasts, spreads, int(rng.integers(1, 10)), *rng.exponential(2.0, size=4), high=7.0
    )
    return known, rng.uniform(0.0, 7.0)


@given(seed=st.integers(0, 10**6))
def test_a_level_goes_to_the_nearest_at_which_no_move_pays(seed):
    known, root = draw_outlook(seed)
    found = known.find_level(root)
    _, rise, fall, _, _ = known.terms
    near = 2.0 * codes.PLAN_NEAR * max(known.shared[SPREADS], known.sharpest)
    assert 0.0 <= found <= 7.0
    if found == root:
        assert -rise <= known.find_slope(root) <= fall
    elif found > root:
        # Right before it another unit still pays; at it, or at the end of the box, none does.
        assert known.find_slope(max(found - near, root)) <= -rise
        assert found == 7.0 or known.find_slope(found) >= -rise
    else:
        assert known.find_slope(min(found + near, root)) >= fall
        assert found == 0.0 or known.find_slope(found) <= fall


@given(seed=st.integers(0, 10**6), levels=st.lists(st.floats(0.0, 7.0), min_size=2, max_size=2))
def test_one_more_unit_never_costs_less_at_a_higher_level(seed, levels):
    known, _ = draw_outlook(seed)
    low, high = map(known.find_slope, sorted(levels))
    assert low <= high + 1e-12 * known.terms[3:].sum()


def test_a_plan_of_one_round_is_the_quantile_if_moving_is_free():
    spreads = np.full(len(ENDS), 0.5)
    known = Outlook(
        np.full(len(ENDS), 4.0), spreads, 1, rise=0.0, fall=0.0, short=4.0, excess=1.0, high=9.0
    )
    # Of a normal number 80 % are at most 0.8416 standard deviations above the mean; bins are an eighth wide.
    assert known.find_level(1.0) == pytest.approx(4.0 + 0.5 * 0.8416, abs=0.005)


def test_a_demand_that_never_changes_is_met_exactly():
    trace = kl.run(
        kl.contrib.Planning(BOX, "l1", 256, family=COSTS),
        kl.PinballCosts(np.full((60, 1), 16.0), 4.0),
        engine="step",
    )
    np.testing.assert_allclose(trace.x[3:], 16.0, rtol=1e-4)
    assert trace.totals.switching == pytest.approx(16.0, rel=1e-4)


def test_demands_below_zero_are_met_as_well():
    rows = draw_demand(300, 30.0)
    box = kl.Box(-60.0, 60.0)
    up, down = (
        kl.run(
            kl.contrib.Planning(box, "l1", 16, family=kl.Pinball(2.0, 2.0)),
            kl.PinballCosts(way * rows, 2.0, 2.0),
            engine="step",
        )
        for way in (1.0, -1.0)
    )
    # Levels are found to a thousandth of a deviation of the roots.
    np.testing.assert_allclose(down.x, -up.x, atol=0.05)


def test_a_known_period_saves_and_a_long_one_is_found():
    plan = DemandPlan(1)
    known = plan.init()
    for row in draw_demand(3000, 600.0):
        known = plan.observe(known, row)
    assert known[codes.PLAN_PERIOD] == pytest.approx(600.0, rel=0.05)
    costs = kl.PinballCosts(draw_demand(600, 40.0), 4.0, 1.0)
    unknown, given = (
        kl.run(
            kl.contrib.Planning(BOX, "l1", 16, family=COSTS, period=period), costs, engine="step"
        ).totals.cost
        for period in (None, 40)
    )
    assert given < 0.98 * unknown


def test_a_leader_keeps_what_its_experts_know_once():
    rows = draw_demand(120, 30.0)
    experts = [kl.contrib.Planning(BOX, "l1", rounds, family=COSTS) for rounds in (4, 64)]
    costs = kl.PinballCosts(rows, 4.0, 1.0)
    leader = kl.run(kl.contrib.Leader(experts, "l1", family=COSTS), costs, engine="step").state
    alone = [kl.run(expert, costs, engine="step").state for expert in experts]
    for state, own in zip(leader.experts, alone, strict=True):
        assert state.regression.size == 0
        assert np.array_equal(own.regression, leader.regression)
        assert np.array_equal(own.x, state.x)


def test_auto_plans_for_demand_on_boxes_alone():
    def count(domain, movement, costs):
        return sum(
            isinstance(expert, kl.contrib.Planning)
            for expert in kl.auto(domain, movement, costs).experts
        )

    assert count(BOX, "l1", COSTS) == 4
    assert (
        count(BOX, "l2", COSTS)
        == count(BOX, "l1", kl.Quadratic())
        == count(kl.Simplex(3), "tv", COSTS)
        == 0
    )
    last = kl.auto(BOX, "l1", COSTS, period=(1440, 10080)).experts[-1]
    assert isinstance(last, kl.contrib.Planning)
    assert last.period == 1440


def test_repr_and_file_form_give_the_learner_back():
    assert evaluated(repr(PLANNING)) == PLANNING
    assert kl.types.Learner.from_dict(PLANNING.to_dict()) == PLANNING
    assert "demand of about" in PLANNING.describe_memory(
        kl.run(PLANNING, kl.PinballCosts(np.ones((9, 2)), 4.0)).state
    )


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (
            lambda: kl.contrib.Planning(kl.Simplex(3), "tv", 16),  # pyright: ignore[reportArgumentType]
            "domain must be a Box, got Simplex(dim=3). Use contrib.Reluctant for it.",
        ),
        (lambda: kl.contrib.Planning(BOX, "l1", 12), "rounds must be a power of two of at most 256, got 12."),
        (lambda: kl.contrib.Planning(BOX, "l2", 16), "movement must be L1Movement or of its kind, got 'l2'."),
        (lambda: kl.contrib.Planning(BOX, "l1", 16, 0.0), "factor must be above 0, got 0.0."),
        (lambda: kl.contrib.Planning(BOX, "l1", 16, family=kl.Quadratic()),
         "family must be Pinball, got Quadratic(). Use contrib.Reluctant for it."),
        (lambda: kl.contrib.Planning(BOX, "l1", 16, period=10081), "period must be at most 10080, got 10081."),
    ],
)  # fmt: skip
def test_bad_arguments_are_refused(make, complaint):
    with pytest.raises(InvalidInput) as refused:
        make()
    assert str(refused.value).startswith(complaint)


def test_a_state_of_another_learner_is_refused():
    state = PLANNING.init()
    state.regression[codes.PLAN_ROWS] = 12.0
    with pytest.raises(
        InvalidInput, match="regression must come from a trace or agent of this learner"
    ):
        PLANNING.check_state(state)
