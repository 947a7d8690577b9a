"""The movement prox against cvxpy, and the learner that plays it."""

from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import klazy as kl
from cases import MOVEMENTS, SETS, gradients
from klazy.learners.prox import (
    approach_if_it_pays,
    find_band,
    move_if_it_pays,
    stock_if_it_pays,
)
from klazy.theory import certify_reluctance
from test_sets import constraints

ONE_PRICE = [name for name in MOVEMENTS if name != "l2 per round"]
CONVEX = [name for name in ONE_PRICE if name != "fee"]
NORMS = [name for name in ONE_PRICE if MOVEMENTS[name](2).degree == 1.0]
CLOSE = 1e-8  # of the least value: what cvxpy's solver and the splitting reach
ROUNDING = 1e-13  # of two values of the objective
seeds = st.integers(0, 2**16)
prices = st.sampled_from([0.0, 0.05, 0.3, 1.0, 2.5])


def price_in_cvxpy(movement: Any, delta: Any, d: int) -> Any:
    if isinstance(movement, kl.contrib.MahalanobisMovement):
        return cp.norm(np.linalg.cholesky(movement.A).T @ delta)
    if isinstance(movement, kl.contrib.SquaredMovement):
        return 0.5 * cp.sum_squares(delta)
    if isinstance(movement, kl.contrib.ImpactMovement):
        return movement.prices(d) @ cp.power(cp.abs(delta), 1.5)
    if movement.grouped:
        return cp.norm(cp.multiply(movement.stretch(d), delta))
    up, down = np.split(movement.prices(d), 2)
    return up @ cp.pos(delta) + down @ cp.neg(delta)


def draw_case(
    domain: kl.types.ConvexSet, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """A point of the set, inside, on a face or at a corner, and a forecast."""
    x = domain.nearest(rng.choice([0.1, 1.0, 5.0]) * rng.normal(size=domain.dim))
    if rng.random() < 0.3:
        x = domain.lowest(rng.normal(size=domain.dim))
    return x, rng.normal(size=domain.dim)


def solve(domain: kl.types.ConvexSet, objective: Any) -> float:
    """The least value on the set, by cvxpy; the objective is a function of the point."""
    u = cp.Variable(domain.dim)
    problem = cp.Problem(cp.Minimize(objective(u)), constraints(domain, u))
    tight = {"tol_gap_abs": 1e-11, "tol_gap_rel": 1e-11, "tol_feas": 1e-11}
    problem.solve(solver=cp.CLARABEL, **tight)
    return float(problem.value)  # pyright: ignore[reportArgumentType]


def has_quick_prox(domain: kl.types.ConvexSet, name: str) -> bool:
    """The power 3/2 is not split to 1e-8 in a second: its slope is infinitely steep where nothing moves."""
    return name != "impact" or not isinstance(domain, kl.Polytope)


SLICE = kl.Box([-0.3, -1.0, 0.1, -1.0, -0.9], [0.4, 0.2, 0.5, 1.0, 0.9])
OFF_CENTRE = kl.L1Ball(5, 1.6, [0.5, -0.2, 0.7, 0.1, 0.0])
SHARES = kl.Product([kl.L1Ball(2), kl.Simplex(3)])
MEETING = [
    kl.Intersection([OFF_CENTRE, SLICE]),
    kl.Intersection([OFF_CENTRE, SLICE, kl.L2Ball(5)]),
    kl.Intersection([SLICE, kl.Simplex(5), kl.Box([-9.0] * 5, [0.45] * 5)]),
    kl.Intersection([SHARES, kl.L2Ball(5, 1.1), kl.Box([-0.3] * 5, [0.8] * 5)]),
]
CASES = [(s, name) for s in [*SETS, *MEETING] for name in CONVEX if has_quick_prox(s, name)]


@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")
@pytest.mark.parametrize(("domain", "name"), CASES, ids=repr)
def test_the_prox_is_the_least_point_of_cvxpy(domain, name):
    movement = MOVEMENTS[name](domain.dim)
    rng = np.random.default_rng(len(repr(domain)) + len(name))
    x, g = draw_case(domain, rng)
    price = rng.choice([0.1, 0.7])
    u = move_if_it_pays(domain, movement, x, g, price)
    best = solve(domain, lambda v: g @ v + price * price_in_cvxpy(movement, v - x, domain.dim))
    assert domain.contains(u)
    assert g @ u + price * movement.distance(u - x) <= best + CLOSE * (1.0 + abs(best))


@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")
@pytest.mark.parametrize(
    ("domain", "name"), [case for case in CASES if case[0].dim > 1], ids=repr
)
def test_the_prox_of_a_target_is_the_least_point_of_cvxpy(domain, name):
    movement = MOVEMENTS[name](domain.dim)
    rng = np.random.default_rng(1 + len(repr(domain)) + len(name))
    x, target = draw_case(domain, rng)
    u = approach_if_it_pays(domain, movement, x, target, 0.4)
    best = solve(
        domain,
        lambda v: (
            0.5 * cp.sum_squares(v - target) + 0.4 * price_in_cvxpy(movement, v - x, domain.dim)
        ),
    )
    value = 0.5 * float((u - target) @ (u - target)) + 0.4 * float(movement.distance(u - x))
    assert domain.contains(u)
    assert value <= best + CLOSE * (1.0 + abs(best))


@pytest.mark.parametrize("domain", MEETING, ids=repr)
@pytest.mark.parametrize("name", ["l2", "l1", "impact"])
@settings(max_examples=4)
@given(seed=seeds)
def test_points_that_move_together_end_where_each_ends_alone(domain, name, seed):
    """All experts of a leader move in one search; a search that goes on for others may add its rounding."""
    movement = MOVEMENTS[name](domain.dim)
    rng = np.random.default_rng(seed)
    cases = [draw_case(domain, rng) for _ in range(6)]
    x, g = map(np.array, zip(*cases, strict=True))
    together = move_if_it_pays(domain, movement, x, g, 0.3)
    alone = [move_if_it_pays(domain, movement, *case, 0.3) for case in cases]
    np.testing.assert_allclose(together, alone, rtol=0.0, atol=1e-12)


QUICK = [s for s in SETS if not isinstance(s, kl.Polytope | kl.Intersection)]


@pytest.mark.parametrize("name", ["l2", "l1", "tv", "asymmetric", "fee"])
@given(domain=st.sampled_from(QUICK), seed=seeds, price=prices)
def test_a_move_is_never_worse_than_staying_and_ends_in_the_set(name, domain, seed, price):
    movement = MOVEMENTS[name](domain.dim)
    x, g = draw_case(domain, np.random.default_rng(seed))
    u = move_if_it_pays(domain, movement, x, g, price)
    assert domain.contains(u)
    size = float(np.abs(g).sum()) * (1.0 + float(np.abs(x).max())) * (1.0 + price)
    assert g @ u + price * movement.distance(u - x) <= g @ x + ROUNDING * size


@pytest.mark.parametrize("name", ["l2", "weighted", "l1", "tv", "asymmetric", "fee"])
@given(domain=st.sampled_from(QUICK), seed=seeds)
def test_a_point_that_stays_is_the_same_bit_for_bit(name, domain, seed):
    """A move gains at most |g| per unit of length, so a movement that is dearer in every direction keeps every point."""
    movement = MOVEMENTS[name](domain.dim)
    x, g = draw_case(domain, np.random.default_rng(seed))
    if name == "weighted":
        movement = kl.contrib.WeightedL2Movement(scale=np.linspace(0.5, 2.0, domain.dim))
    cheapest = {"tv": 0.5, "asymmetric": 0.1, "weighted": 0.5**0.5}.get(name, 1.0)
    price = 1.001 * float(np.linalg.norm(g)) / cheapest
    if name == "fee":
        price = price * domain.scale
    assert np.array_equal(move_if_it_pays(domain, movement, x, g, price), x)
    target = x - g
    assert (
        np.array_equal(approach_if_it_pays(domain, movement, x, target, price), x)
        or name == "fee"
    )


@given(domain=st.sampled_from(QUICK), seed=seeds, price=st.floats(0.01, 2.0))
def test_where_a_move_led_no_further_move_pays(domain, seed, price):
    """The least point for x is the least point for itself: m obeys the triangle inequality."""
    movement = kl.L2Movement() if type(domain) is kl.L2Ball else kl.L1Movement()
    x, g = draw_case(domain, np.random.default_rng(seed))
    u = move_if_it_pays(domain, movement, x, g, price)
    again = move_if_it_pays(domain, movement, u, g, price)
    np.testing.assert_allclose(
        again, u, atol=1e-7 * (1.0 + np.abs(u).max())
    )  # the objective is flat to second order


@pytest.mark.parametrize(
    "movement",
    [kl.contrib.SquaredMovement(), kl.contrib.ImpactMovement(scale=[0.5, 2.0])],
    ids=repr,
)
@given(seed=seeds, price=st.floats(0.05, 5.0))
def test_a_stock_is_best_where_its_price_grows_faster_than_the_step(movement, seed, price):
    """No point nearby, and none of many others, has a lower expected cost with its move."""
    rng = np.random.default_rng(seed)
    domain = kl.Box([0.0, 0.0], [10.0, 10.0])
    family = kl.Pinball([3.0, 1.0], [1.0, 0.5])
    mean, spread = rng.uniform(0.0, 10.0, 2), rng.uniform(0.1, 3.0, 2)
    means = np.concatenate((mean, mean**2 + spread**2))
    x = rng.uniform(0.0, 10.0, 2)

    def total(u):
        return family.expected(means, u) + price * movement.distance(u - x)

    u = stock_if_it_pays(domain, movement, family, x, means, price)
    near = domain.nearest(u + rng.normal(size=(50, 2)) * rng.choice([1e-4, 1e-2, 1.0], (50, 1)))
    assert domain.contains(u)
    assert (total(u) <= total(near) + 1e-12 * (1.0 + abs(total(near)))).all()


def test_a_fee_is_paid_only_for_what_gains_more():
    box = kl.Box([0, 0], [1, 1])
    x = np.array([0.5, 0.5])
    g = np.array([1.0, -1.0])
    assert np.array_equal(move_if_it_pays(box, kl.contrib.SwitchFee(), x, g, 0.99), [0.0, 1.0])
    assert move_if_it_pays(box, kl.contrib.SwitchFee(), x, g, 1.0).tolist() == x.tolist()


class TestPinball:
    family = kl.Pinball([3.0, 1.0], [1.0, 2.0])
    box = kl.Box([0, 0], [20, 20])

    def expect(self, means, x, u, price):
        return float(self.family.expected(means, u)) + price * float(np.abs(u - x).sum())

    @given(seed=seeds, price=st.floats(0.05, 4.0))
    def test_no_point_of_a_box_is_better(self, seed, price):
        rng = np.random.default_rng(seed)
        demand = rng.gamma(4.0, 2.0, size=(5, 2))
        means = self.family.moments(demand).mean(axis=0)
        x = rng.uniform(0.0, 20.0, 2)
        u = stock_if_it_pays(self.box, kl.L1Movement(), self.family, x, means, price)
        found = self.expect(means, x, u, price)
        assert found <= self.expect(means, x, x, price)
        others = self.box.nearest(
            u + np.concatenate((rng.normal(size=(50, 2)), 1e-3 * rng.normal(size=(50, 2))))
        )
        assert all(found <= self.expect(means, x, other, price) + 1e-9 for other in others)

    def test_above_the_price_of_falling_short_it_never_rises(self):
        low, high = find_band(self.box, kl.L1Movement(), self.family, 3.0)
        assert (low == -np.inf).all()
        assert (high == np.inf).all()
        constant = np.array([5.0, 5.0, 25.0, 25.0])  # a demand without spread
        x = np.array([1.0, 9.0])
        still = stock_if_it_pays(self.box, kl.L1Movement(), self.family, x, constant, 3.0)
        assert np.array_equal(still, x)
        assert np.array_equal(
            stock_if_it_pays(self.box, kl.L1Movement(), self.family, x, constant, 0.5), [5.0, 5.0]
        )


FAMILIES = {
    "pinball": (kl.Pinball(3.0, 1.0), lambda data: kl.PinballCosts(data, 3.0, 1.0)),
    "quadratic": (kl.Quadratic(), lambda data: kl.QuadraticCosts(data)),
    "wealth": (kl.LogWealth(), lambda data: kl.LogWealthCosts(np.exp(0.3 * data))),
}


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize(
    "domain", [kl.Box([0.0] * 5, [2.0] * 5), kl.Simplex(5), kl.L2Ball(5)], ids=repr
)
def test_told_the_rows_of_a_family_it_plays_inside_the_set_and_stays_if_moving_is_dear(
    name, domain
):
    family, make = FAMILIES[name]
    costs = make(1.0 + 0.3 * gradients(3, 40, 5))
    for weight, moves in ((0.01, True), (1e3, False)):
        learner = kl.contrib.Reluctant(domain, kl.L1Movement(weight), 5.0, 4.0, family=family)
        start = domain.nearest(np.full(5, 0.5))
        trace = kl.run(learner.replace(start=start), costs, engine="step")
        assert domain.contains(trace.x)
        assert (np.abs(np.diff(trace.x, axis=0)).sum() > 0.0) == moves


def test_the_forecast_of_a_constant_gradient_is_that_gradient():
    g = np.array([0.3, -1.0, 2.0])
    learner = kl.contrib.Reluctant(kl.L2Ball(3), kl.L2Movement(1e3), 50.0, 1.0)
    state = learner.init()
    for t in range(1, 8):
        state = learner.step(state, g)
        np.testing.assert_allclose(state.m2 / state.n2, g, rtol=1e-13)
        a = 1.0 / 50.0
        assert state.n2 == pytest.approx(1.0 - (1.0 - a) ** t * (1.0 + a * t), rel=1e-9)


def test_without_a_window_it_sums():
    g = gradients(2, 30, 3)
    learner = kl.contrib.Reluctant(kl.Simplex(3), kl.TVMovement(4.0), None, 4.0)
    x = learner.init().x
    for t, point in enumerate(kl.run(learner, g, engine="step").x):
        if t > 0:
            x = move_if_it_pays(kl.Simplex(3), kl.TVMovement(), x, g[:t].sum(axis=0), 1.0)
        np.testing.assert_allclose(point, x, atol=1e-14)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"movement": kl.L2Movement([1.0, 2.0])},
            r"movement must have one weight, the usual price, got L2Movement\(weight=\[1.0, 2.0\]\).",
        ),
        ({"movement": 1.0}, r"movement must be a Movement such as L2Movement\(1.0\), got 1.0."),
        (
            {"window": 0.5},
            r"window must be at least 1, got 0.5. Use window=None for all rounds.",
        ),
        ({"horizon": 0.0}, r"horizon must be above 0, got 0.0."),
        (
            {"family": "pinball"},
            r"family must be a Family such as Pinball\(\), got 'pinball'.",
        ),
        (
            {"domain": 5},
            r"domain must be a ConvexSet such as L2Ball\(5\), got 5.",
        ),
    ],
)
def test_what_cannot_be_is_refused(arguments, message):
    good = {"domain": kl.L2Ball(2), "movement": kl.L2Movement(), "window": 4.0, "horizon": 2.0}
    with pytest.raises(ValueError, match=message):
        kl.contrib.Reluctant(**good | arguments)


def test_without_a_window_it_plays_near_the_mean_target():
    """The leader of quadratic costs is the mean; it is followed to within price / (H t)."""
    targets = 0.5 + 0.3 * gradients(5, 200, 2)
    box = kl.Box([-2.0, -2.0], [2.0, 2.0])
    learner = kl.contrib.Reluctant(box, kl.L1Movement(6.0), None, 3.0, family=kl.Quadratic())
    state = kl.run(learner, kl.QuadraticCosts(targets), engine="step").state
    gap = np.abs(state.x - targets.mean(axis=0))
    assert (gap <= 6.0 / 3.0 / 200 + 1e-12).all()


class TestTheory:
    """The statements of docs/theory.md."""

    @given(
        domain=st.sampled_from(QUICK),
        name=st.sampled_from(["l2", "l1", "tv", "asymmetric"]),
        window=st.sampled_from([1.0, 3.0, 20.0, None]),
        horizon=st.floats(0.3, 30.0),
        seed=seeds,
    )
    def test_no_run_costs_more_than_its_bounds(self, domain, name, window, horizon, seed):
        movement = MOVEMENTS[name](domain.dim)
        g = gradients(seed, 25, domain.dim)
        trace = kl.run(kl.contrib.Reluctant(domain, movement, window, horizon), g, engine="step")
        u = domain.lowest(np.random.default_rng(seed).normal(size=g.shape))
        known = certify_reluctance(trace, u)
        assert known.switching == pytest.approx(trace.totals.switching, rel=1e-12, abs=1e-12)
        size = 1e-8 * (
            1.0 + known.variation
        )  # searches end short of the minimum, and H may multiply that
        assert known.switching <= known.promised + size
        assert known.promised <= known.variation + size
        assert known.regret <= known.bound + size

    @pytest.mark.parametrize(
        ("trace", "message"),
        [
            (
                kl.run(kl.GD(kl.L2Ball(2), 1.0), np.ones((3, 2)), engine="step"),
                (
                    r"trace must be of a Reluctant without a family, got GD\(domain=L2Ball\(dim=2\), "
                    r"sigma=Constant\(s=1.0\)\)."
                ),
            ),
            (
                kl.run(
                    kl.contrib.Reluctant(kl.L2Ball(2), kl.contrib.SwitchFee(), 2.0, 1.0),
                    np.ones((3, 2)),
                    engine="step",
                ),
                "the triangle inequality",
            ),
        ],
    )
    def test_what_the_proof_does_not_cover_is_refused(self, trace, message):
        with pytest.raises(ValueError, match=message):
            certify_reluctance(trace, [0.0, 0.0])


@pytest.mark.parametrize("kind", ["reluctant", "thumb"])
def test_rewards_compile_in_runs_batches_agents_and_fleets(kind):
    """Runs and batches read rewards as gradients, agents and fleets get the rewards themselves."""
    simplex = kl.Simplex(5)
    learner: Any = kl.MovingAverage(simplex, 3, family=kl.Rewards())
    if kind == "reluctant":
        learner = kl.contrib.Reluctant(simplex, kl.TVMovement(0.5), 4.0, 3.0, family=kl.Rewards())
    rewards = np.random.default_rng(7).uniform(size=(60, 5))
    costs = kl.Rewards().costs(rewards)
    step = kl.run(learner, costs, engine="step")
    compiled = kl.run(learner, costs, engine="compiled")
    assert len(np.unique(step.x, axis=0)) > 3
    np.testing.assert_allclose(compiled.x, step.x, rtol=0.0, atol=1e-12)
    batch = kl.run_batch([learner] * 3, costs, movement=kl.TVMovement(0.5))
    if kind == "reluctant":  # a rule with a window has no lanes
        assert batch.engine == "lanes"
    np.testing.assert_allclose(batch.hitting, step.totals[0], rtol=0.0, atol=1e-10)
    agent = kl.Agent(learner)
    assert agent.engine == "compiled"
    fleet = kl.Fleet(learner, 2)
    for row in rewards:
        agent.observe(row)
        fleet.update([row, row])
    np.testing.assert_allclose(agent.x, step.state.x, rtol=0.0, atol=1e-12)
    np.testing.assert_allclose(fleet.x, [step.state.x] * 2, rtol=0.0, atol=1e-12)


def test_auto_plans_with_a_bound_on_a_movement_of_ones_own():
    """Experts need prices, which it does not have: they plan with Euclidean distance, and the leader charges the movement."""

    class Manhattan(kl.types.Movement):
        def distance(self, delta):
            return np.abs(delta).sum(axis=-1)

        def lipschitz(self, dim):
            return 2.0  # the root of the dimension of this test

    movement = Manhattan(3.0)
    learner = kl.auto(kl.Simplex(4), movement)
    assert learner.movement is movement
    assert {expert.movement for expert in learner.experts} == {kl.L2Movement(6.0)}
    known = [
        kl.L1Movement(3.0),
        kl.contrib.SwitchFee(3.0),
        kl.contrib.SquaredMovement(3.0),
        kl.contrib.ImpactMovement(3.0),
    ]
    for movement in (*known, kl.contrib.MahalanobisMovement(3.0, A=np.eye(4))):
        assert {expert.movement for expert in kl.auto(kl.Simplex(4), movement).experts} == {
            movement
        }
