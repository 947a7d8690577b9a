"""Laws of cost families, movement costs and schedules."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import klazy as kl
from cases import (
    COSTS,
    FAMILIES,
    MOVEMENTS,
    PUBLIC,
    SCHEDULES,
    Cubic,
    Farthest,
    costs_of,
    evaluated,
    points,
    rows_of,
)
from klazy.kernels.layout import find_missing_part

T, D = 12, 4


@pytest.mark.parametrize("name", COSTS)
class TestEveryCostFamily:
    @given(data=st.data(), seed=st.integers(0, 99), t=st.integers(1, T))
    def test_subgradient_inequality(self, name, data, seed, t):
        """f(z) >= f(x) + <g, z - x> makes g a subgradient and f convex."""
        costs = costs_of(name, T, D, seed)
        x, z = (
            np.abs(data.draw(points(D, size=5.0))) + 0.01 for _ in range(2)
        )  # positive, so that wealth is
        g = costs.subgradient(t, x)
        assert costs.value(t, z) >= costs.value(t, x) + g @ (z - x) - 1e-9

    def test_all_rounds_at_once_are_the_rounds_one_by_one(self, name):
        costs = costs_of(name, T, D, 0)
        x = np.random.default_rng(1).uniform(0.1, 1.0, (T, D))
        one_by_one = [costs.value(t, x[t - 1]) for t in range(1, T + 1)]
        np.testing.assert_allclose(costs.values(x), one_by_one, rtol=1e-14)
        assert repr(costs) == f"{name}(T=12, dim=4)"


@given(seed=st.integers(0, 99), m=st.integers(1, 4), starts=st.booleans())
def test_costs_with_memory_are_at_most_those_of_held_points_and_their_movement(seed, m, starts):
    """And they are these where nothing moves; what the mix is, by hand."""
    rng = np.random.default_rng(seed)
    kernel = rng.normal(size=m)
    g = rng.normal(size=(T, D))
    costs = kl.contrib.FilteredCosts(g, kernel)
    x = rng.normal(size=(T, D))
    x0 = rng.normal(size=D) if starts else None
    held = [x[0] if x0 is None else x0] * m
    history = np.array([*held, *x])
    by_hand = [sum(kernel[i] * history[m + t - i] for i in range(m)) for t in range(T)]
    np.testing.assert_allclose(costs.mix(x, x0), by_hand, atol=1e-12)
    G = float(np.linalg.norm(g, axis=1).max())
    bound = costs.values(x).sum() + costs.movement(G).paid(x, x0).sum()
    assert costs.paid(x, x0).sum() <= bound + 1e-9
    still = np.tile(x[0], (T, 1))
    np.testing.assert_allclose(costs.paid(still), costs.values(still), atol=1e-12)
    np.testing.assert_allclose(
        costs.window(2, 5).values(x[1:5]), costs.values(x)[1:5], atol=1e-12
    )


def test_the_movement_of_costs_with_memory_is_no_dearer_than_it_must_be():
    """Each round charges for the point before, and the points alternate: held they gain 1 a round, and they cost 1."""
    x = np.resize([1.0, -1.0], (T, 1))
    costs = kl.contrib.FilteredCosts(-x, [0.0, 1.0])
    assert costs.paid(x).sum() == T - 2
    assert costs.values(x).sum() + costs.movement(1.0).paid(x).sum() == T - 2


def test_costs_with_memory_refuse_what_is_no_kernel():
    with pytest.raises(ValueError, match=r"kernel must have shape \(d,\), got \(0,\)."):
        kl.contrib.FilteredCosts(np.ones((3, 2)), [])
    with pytest.raises(
        ValueError, match=r"G must be above 0, got 0.0. Give a bound on the gradients' norms."
    ):
        kl.contrib.FilteredCosts(np.ones((3, 2)), [1.0]).movement(0.0)


def test_cost_families_by_hand():
    x = np.array([0.5, 0.25])
    assert kl.contrib.LinearCosts([[1, 2]]).value(1, x) == 1.0
    assert kl.QuadraticCosts([[0.5, 1.25]], weight=3.0).value(1, x) == 1.5
    assert kl.PinballCosts([[1.0, 0.0]], short=4.0, excess=2.0).value(1, x) == 2.5
    assert kl.LogWealthCosts([[1.0, 2.0]]).value(1, x) == 0.0
    assert kl.contrib.HingeCosts([[1.0, 2.0]], [-1.0]).value(1, x) == 2.0
    assert kl.contrib.LogisticCosts([[0.0, 0.0]], [1.0]).value(1, x) == pytest.approx(np.log(2.0))
    assert kl.contrib.LogisticCosts([[4000.0, 0.0]], [-1.0]).value(1, x) == 2000.0  # no overflow


@pytest.mark.parametrize("family", FAMILIES, ids=repr)
class TestEveryFamily:
    seeds = st.integers(0, 2**16)

    @given(seed=seeds)
    def test_gradient_inequality(self, family, seed):
        row = rows_of(family, seed, 1)[0]
        x, z = rows_of(kl.LogWealth(), seed + 1, 2)
        assert (
            family.value(row, z)
            >= family.value(row, x) + family.gradient(row, x) @ (z - x) - 1e-12
        )

    @given(seed=seeds)
    def test_many_rows_at_once_are_the_rows_one_by_one(self, family, seed):
        rows = rows_of(family, seed)
        x = rows_of(kl.LogWealth(), seed + 1)
        means = family.moments(rows)
        assert means.shape == (40, family.width(3))
        box = kl.Box(np.zeros(3), np.full(3, 2.0))
        lowest = family.lowest(box, means[:5])
        for t in range(40):
            np.testing.assert_allclose(
                family.value(rows, x)[t], family.value(rows[t], x[t]), rtol=1e-14
            )
            np.testing.assert_allclose(
                family.gradient(rows, x)[t], family.gradient(rows[t], x[t]), rtol=1e-14
            )
            np.testing.assert_allclose(means[t], family.moments(rows[t]), rtol=1e-14)
            if t < 5:
                np.testing.assert_allclose(lowest[t], family.lowest(box, means[t]), rtol=1e-14)
            expected = family.expected(means, x)[t]
            np.testing.assert_allclose(
                expected, family.expected(means[t], x[t]), rtol=1e-13, atol=1e-13
            )

    @given(seed=seeds)
    def test_costs_of_rows_are_what_the_rows_cost(self, family, seed):
        rows = rows_of(family, seed)
        x = rows_of(kl.LogWealth(), seed + 1)
        costs = family.costs(rows)
        assert (costs.T, costs.dim, costs.family) == (40, 3, family)
        assert repr(costs) == f"{family!r}.costs(T=40, dim=3)"
        for t in range(1, 41):
            now = x[t - 1]
            assert costs.value(t, now) == family.value(rows[t - 1], now)
            assert np.array_equal(costs.subgradient(t, now), family.gradient(rows[t - 1], now))
        np.testing.assert_allclose(costs.values(x), family.value(rows, x), rtol=1e-14)
        np.testing.assert_allclose(costs.subgradients(x), family.gradient(rows, x), rtol=1e-14)
        assert np.array_equal(costs.window(3, 7).values(x[2:7]), costs.values(x)[2:7])

    @given(seed=seeds)
    def test_lowest_is_least_of_what_is_expected_on_a_box(self, family, seed):
        means = family.moments(rows_of(family, seed)).mean(axis=0)
        x = rows_of(kl.LogWealth(), seed + 1, 200)
        box = kl.Box(np.full(3, 0.5), np.full(3, 2.5))
        best = family.lowest(box, means)
        assert box.contains(best)
        others = family.expected(means, np.clip(x, 0.5, 2.5))
        # A search by shorter and shorter steps is exact to a few digits: relative to the slope times the box.
        near = 1e-12 if "lowest" in vars(type(family)) else 1e-4
        assert (family.expected(means, best) <= others + near).all()

    def test_rows_that_are_all_alike_cost_what_one_costs(self, family):
        """Up to what all points cost alike; of wealth the average is that of single assets."""
        row = rows_of(family, 0, 1)[0]
        x, z = rows_of(kl.LogWealth(), 1, 2)
        if isinstance(family, kl.LogWealth):
            x, z = np.eye(3)[:2]
        means = family.moments(row)
        gap = family.value(row, x) - family.value(row, z)
        np.testing.assert_allclose(
            family.expected(means, x) - family.expected(means, z), gap, rtol=1e-12
        )

    def test_a_subclass_with_other_values_has_other_costs(self, family):
        """It has no kernel, no proximal step and no closed form of its parent, which knows only its own values."""

        class Doubled(type(family)):
            def value(self, row, x):
                return 2.0 * super().value(row, x)

            def gradient(self, row, x):
                return 2.0 * super().gradient(row, x)

        own = Doubled(
            **{name: getattr(family, name) for name in family.to_dict() if name != "class"}
        )
        rows = rows_of(family, 0, 3)
        costs = own.costs(rows)
        x = rows_of(kl.LogWealth(), 1, 3)
        np.testing.assert_allclose(costs.values(x), 2.0 * family.value(rows, x), rtol=1e-14)
        assert find_missing_part(kl.GD(kl.Simplex(3), 1.0), costs) == "Doubled"
        price = kl.TVMovement(0.2)
        twice = kl.offline_optimum(costs, kl.Simplex(3), kl.TVMovement(0.4), gap=1e-4)
        once = kl.offline_optimum(family.costs(rows), kl.Simplex(3), price, gap=1e-4)
        assert twice.method == "cutting planes"
        assert 2.0 * once.lower_bound <= twice.cost + 1e-9
        assert twice.lower_bound <= 2.0 * once.cost + 1e-9

    def test_repr_and_file_form_give_it_back(self, family):
        assert eval(repr(family), {**PUBLIC, "Cubic": Cubic, "Farthest": Farthest}) == family
        assert kl.types.Family.from_dict(family.to_dict()) == family


@given(seed=st.integers(0, 2**16), scale=st.floats(0.5, 2.0))
def test_short_ways_to_write_costs_are_a_family_and_its_rows(seed, scale):
    rng = np.random.default_rng(seed)
    data = rng.uniform(0.2, 3.0, (T, D))
    labels = rng.choice([-1.0, 1.0], T)
    weights = rng.uniform(0.0, 2.0, T)
    signed = labels[:, None] * data
    prices = rng.uniform(0.1, 2.0, D)
    x = rng.uniform(0.1, 1.0, (T, D))
    for costs, family, rows in (
        (kl.contrib.LinearCosts(data), kl.Linear(), data),
        (kl.contrib.LinearCosts(-data), kl.Rewards(), data),
        (kl.QuadraticCosts(data, scale), kl.Quadratic(scale), data),
        (kl.QuadraticCosts(data, np.full(T, scale)), kl.Quadratic(scale), data),
        (
            kl.QuadraticCosts(data, weights),
            kl.contrib.WeightedQuadratic(),
            np.column_stack((data, weights)),
        ),
        (
            kl.QuadraticCosts(data, 0.0),
            kl.contrib.WeightedQuadratic(),
            np.column_stack((data, np.zeros(T))),
        ),
        (kl.PinballCosts(data, prices, scale), kl.Pinball(prices, scale), data),
        (kl.LogWealthCosts(data), kl.LogWealth(), data),
        (kl.contrib.HingeCosts(data, labels), kl.contrib.Hinge(), signed),
        (kl.contrib.LogisticCosts(data, labels), kl.contrib.Logistic(), signed),
    ):
        if family != kl.Rewards():
            assert costs.family == family
            assert np.array_equal(costs.data, rows)
        assert np.array_equal(costs.values(x), family.costs(rows).values(x))
        assert np.array_equal(costs.subgradients(x), family.costs(rows).subgradients(x))


def test_costs_that_override_a_method_have_no_family():
    class Dearer(kl.contrib.LinearCosts):
        def value(self, t, x):
            return 1.0 + super().value(t, x)

    costs = Dearer(np.ones((4, 3)))
    assert costs.family is None
    assert find_missing_part(kl.GD(kl.Simplex(3), 1.0), costs) == "Dearer"


def test_a_family_that_knows_one_row_alone_is_refused():
    class Single(Cubic):
        def value(self, row, x):
            return abs(x[0] - row[0]) ** 3

    said = (
        r"At x of shape \(4, 3\) Single must have a value of shape \(4,\) and a gradient of shape \(4, "
        r"3\), got \(3,\) and \(4, 3\)."
    )
    with pytest.raises(ValueError, match=said):
        Single().costs(np.ones((5, 3)))


@given(
    mean=st.floats(-3.0, 3.0),
    spread=st.floats(0.1, 2.0),
    x=st.floats(-5.0, 5.0),
    short=st.floats(0.5, 9.0),
)
def test_pinball_expects_what_a_normal_demand_costs(mean, spread, x, short):
    family = kl.Pinball(short, 2.0)
    nodes, weights = np.polynomial.legendre.leggauss(200)
    # two intervals that meet in the kink at x, as far as a normal density reaches
    low = min(x, mean) - 12.0 * spread
    high = max(x, mean) + 12.0 * spread
    total = 0.0
    for a, b in ((low, x), (x, high)):
        demand = 0.5 * (b - a) * nodes + 0.5 * (a + b)
        density = np.exp(-0.5 * ((demand - mean) / spread) ** 2) / (spread * np.sqrt(2.0 * np.pi))
        total += (
            0.5
            * (b - a)
            * (weights * density * family.value(demand[:, None], np.array([x]))).sum()
        )
    moments = np.array([mean, mean**2 + spread**2])
    assert family.expected(moments, np.array([x])) == pytest.approx(total, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("name", MOVEMENTS)
class TestEveryMovementCost:
    @given(data=st.data())
    def test_costs_nothing_to_stay_and_something_otherwise(self, name, data):
        movement, delta = MOVEMENTS[name](D), data.draw(points(D))
        assert movement.distance(np.zeros(D)) == 0.0
        assert movement.distance(delta) >= 0.0

    @given(data=st.data())
    def test_a_detour_is_never_cheaper(self, name, data):
        movement = MOVEMENTS[name](D)
        a, b = data.draw(points(D)), data.draw(points(D))
        if movement.degree > 1.0:  # then it is two halves of a step that are cheaper
            assert 2.0 * movement.distance(0.5 * a) <= movement.distance(a)
            return
        assert movement.distance(a + b) <= movement.distance(a) + movement.distance(b) + 1e-9

    @given(data=st.data(), factor=st.floats(0.01, 100.0))
    def test_a_longer_step_costs_a_power_of_its_length_more(self, name, data, factor):
        movement, delta = MOVEMENTS[name](D), data.draw(points(D))
        if movement.degree == 0.0:
            return
        longer = factor**movement.degree * movement.distance(delta)
        assert movement.distance(factor * delta) == pytest.approx(longer, rel=1e-12, abs=1e-100)

    @given(data=st.data())
    def test_no_step_costs_more_than_its_length_allows(self, name, data):
        movement, delta = MOVEMENTS[name](D), data.draw(points(D))
        length = math.hypot(*delta)  # NumPy's norm squares first, which loses steps of 1e-308
        with np.errstate(invalid="ignore"):
            most = movement.lipschitz(D) * length**movement.degree
        assert not movement.distance(delta) > most * (1.0 + 1e-12)

    def test_many_steps_are_priced_as_each_alone(self, name):
        movement = MOVEMENTS[name](D)
        delta = np.random.default_rng(0).normal(size=(4, 2, D))
        alone = [[movement.distance(step) for step in row] for row in delta]
        np.testing.assert_allclose(movement.distance(delta), alone, rtol=1e-14)

    def test_repr_and_file_form_give_it_back(self, name):
        movement = MOVEMENTS[name](D)
        assert evaluated(repr(movement)) == movement
        assert kl.types.Movement.from_dict(movement.to_dict()) == movement


def test_movement_costs_by_hand():
    x = np.array([[0.0, 0.0], [3.0, -4.0], [3.0, -4.0]])
    assert kl.L2Movement(2.0).paid(x).tolist() == [0.0, 10.0, 0.0]
    assert kl.L2Movement([1.0, 3.0, 9.0]).paid(x).tolist() == [0.0, 15.0, 0.0]
    assert kl.L1Movement().paid(x).tolist() == [0.0, 7.0, 0.0]
    assert kl.TVMovement().paid(x).tolist() == [0.0, 3.5, 0.0]
    assert kl.contrib.WeightedL2Movement(1.0, scale=[4.0, 0.0]).paid(x).tolist() == [
        0.0,
        6.0,
        0.0,
    ]
    assert kl.contrib.AsymmetricMovement(up=10.0, down=[1.0, 2.0]).paid(x).tolist() == [
        0.0,
        38.0,
        0.0,
    ]
    assert kl.contrib.SwitchFee(5.0).paid(x).tolist() == [0.0, 5.0, 0.0]
    assert kl.contrib.SquaredMovement(2.0).paid(x).tolist() == [0.0, 25.0, 0.0]
    assert kl.contrib.ImpactMovement(2.0, scale=[1e-9, 1.0]).paid(x) == pytest.approx(
        [0.0, 16.0, 0.0]
    )
    assert kl.contrib.MahalanobisMovement(A=[[1.0, 1.0], [1.0, 1.0]]).paid(x) == pytest.approx(
        [0.0, 1.0, 0.0]
    )
    assert kl.L2Movement().paid(x, np.array([0.0, 1.0])).tolist() == [1.0, 5.0, 0.0]


def test_shares_that_drift_pay_for_being_put_back():
    x = np.array([[0.5, 0.5], [0.5, 0.5], [0.25, 0.75]])
    movement = kl.contrib.DriftedMovement(4.0, relatives=[[3.0, 1.0], [1.0, 3.0], [9.0, 1.0]])
    assert movement.paid(x).tolist() == [0.0, 1.0, 0.0]
    assert movement.paid(x, np.array([1.0, 0.0])).tolist() == [2.0, 1.0, 0.0]
    assert (
        evaluated(repr(movement)) == movement == kl.types.Movement.from_dict(movement.to_dict())
    )
    for first in (2, 3):  # piece by piece as all at once
        rest = movement.steps(x[first - 1 :], x[first - 2], first)
        np.testing.assert_allclose(rest, movement.steps(x, x[0])[first - 1 :], atol=1e-16)


@pytest.mark.parametrize(
    "make", [lambda d: kl.GD(d, 5.0), lambda d: kl.LastValue(d, family=kl.LogWealth())]
)
def test_a_run_charges_drift_as_a_replay_does(make):
    relatives = np.exp(np.random.default_rng(0).normal(0.0, 0.05, (40, 3)))
    trace = kl.run(
        make(kl.Simplex(3)),
        kl.LogWealthCosts(relatives),
        movement=kl.contrib.DriftedMovement(0.1, relatives=relatives),
    )
    assert trace.engine in ("step", "rows")
    stand = kl.LogWealth().drift(relatives[:-1], trace.x[:-1])
    moved = 0.1 * 0.5 * np.abs(trace.x[1:] - stand).sum(axis=1)
    np.testing.assert_allclose(trace.switching, np.concatenate(([0.0], moved)), atol=1e-15)


@pytest.mark.parametrize("sigma", SCHEDULES, ids=repr)
@given(seed=st.integers(0, 99))
def test_every_schedule_is_positive_and_never_decreases(sigma, seed):
    g, energy, last = np.random.default_rng(seed).normal(size=(40, 3)), 0.0, 0.0
    for t, row in enumerate(g, start=1):
        value, energy = sigma.observe(t, energy, row)
        assert value >= last
        last = value
    assert evaluated(repr(sigma)) == sigma


def test_scale_free_sigma_by_hand():
    sigma = kl.ScaleFree(2.0, path_length=1.0, move_cost=0.5)  # D^2 + 2 D P = 8
    first, energy = sigma.observe(1, 0.0, np.array([3.0, 4.0]))
    assert first == pytest.approx(((25 + 5) / 8) ** 0.5)
    assert sigma.observe(2, energy, np.zeros(2))[0] == first
    with pytest.raises(
        TypeError,
        match=r"The sigma of ScaleFree depends on the gradients, not on the round alone. Use observe.",
    ):
        sigma.values(3)


def test_a_price_of_each_round_enters_scale_free_sigmas_before_it_is_paid():
    """The move after round t is paid in round t + 1; prices that are all alike are one price."""
    g = np.random.default_rng(0).normal(size=(6, 3))
    prices = np.array([9.0, 1.0, 0.0, 5.0, 2.0, 3.0])
    sigma = kl.ScaleFree(2.0, 1.0, prices)
    energy = 0.0
    norms = np.linalg.norm(g, axis=1)
    wanted = np.sqrt(np.cumsum(norms**2 + 2.0 * np.append(prices[1:], prices[-1]) * norms) / 8.0)
    for t, row in enumerate(g, start=1):
        found, energy = sigma.observe(t, energy, row)
        assert found == pytest.approx(wanted[t - 1], rel=1e-14)
    assert kl.types.Schedule.from_dict(sigma.to_dict()) == sigma
    domain = kl.Simplex(3)
    runs = [
        kl.run(kl.GD(domain, kl.ScaleFree(2.0, 1.0, weight)), g, movement=kl.L2Movement(0.7))
        for weight in (0.7, np.full(6, 0.7))
    ]
    assert [trace.engine for trace in runs] == ["compiled", "step"]
    np.testing.assert_allclose(runs[1].x, runs[0].x, atol=1e-14)


class Growing(kl.types.Schedule):
    """A user's schedule that adapts to the gradients."""

    def __call__(self, t):
        raise TypeError("it needs the gradients")

    def observe(self, t, energy, g):
        energy = energy + float(g @ g)
        return 1.0 + energy, energy


def test_a_schedule_that_observes_gradients_is_adaptive_whoever_wrote_it():
    assert [sigma.adaptive for sigma in SCHEDULES] == [
        isinstance(sigma, kl.ScaleFree) for sigma in SCHEDULES
    ]
    g = np.array([[3.0], [-1.0], [0.5]])
    trace = kl.run(kl.GD(kl.Box(-1.0, 1.0), Growing()), g)
    assert trace.diagnose().greedy_bound == pytest.approx([3.0 / 10.0, 1.0 / 11.0, 0.5 / 11.25])


def test_values_of_a_schedule():
    assert kl.Sqrt(4.0, offset=1.0).values(3).tolist() == [(2 / 4) ** 0.5, (3 / 4) ** 0.5, 1.0]
    assert kl.GD(kl.L2Ball(1), 2).sigma == kl.Constant(2.0)


SHORT = {
    "l2": kl.L2Movement(),
    "l1": kl.L1Movement(),
    "tv": kl.TVMovement(),
    "fee": kl.contrib.SwitchFee(),
}
SHORT |= {"squared": kl.contrib.SquaredMovement(), "impact": kl.contrib.ImpactMovement()}
FRONTS = {
    "run": lambda movement: kl.run(kl.GD(kl.Simplex(5), 1.0), np.eye(5), movement=movement, engine="step").movement,
    "run_many": lambda movement: kl.run_many(
        [kl.GD(kl.Simplex(5), 1.0)], np.eye(5), movement=movement, engine="step", jobs=1
    )[0].movement,
    "run_batch": lambda movement: kl.run_batch(
        [kl.contrib.CoinBetting(kl.Simplex(5), 1.0)], np.eye(5), movement=movement
    ).switching[0],
    "run_ahead": lambda movement: kl.contrib.run_ahead(
        kl.contrib.RecedingHorizon(kl.Simplex(5)), np.eye(5), movement=movement
    ).movement,
    "offline_optimum": lambda movement: kl.offline_optimum(np.eye(5), kl.Simplex(5), movement).movement,
    "frontier": lambda movement: kl.frontier(np.eye(5), kl.Simplex(5), movement).path_length.tolist(),
    "SAder": lambda movement: kl.SAder([kl.GD(kl.Simplex(5), 1.0)], movement=movement).movement,
    "auto": lambda movement: kl.auto(kl.Simplex(5), movement).movement,
    "Reluctant": lambda movement: kl.contrib.Reluctant(kl.Simplex(5), movement, 2, 1.0).movement,
    "DeadBand": lambda movement: kl.DeadBand(kl.Simplex(5), movement, 2.0).movement,
    "Guards": lambda movement: kl.Guards(movement=movement).movement,
    "Agent": lambda movement: kl.Agent(kl.GD(kl.Simplex(5), 1.0), movement=movement, engine="step").movement,
}  # fmt: skip


@pytest.mark.parametrize("front", FRONTS)
def test_a_short_name_works_wherever_a_movement_does(front):
    make = FRONTS[front]
    no_fees = ("run_ahead", "offline_optimum", "frontier", "SAder")
    for name, movement in SHORT.items():
        refused = name == "fee" and front in no_fees
        if not refused and not (movement.degree > 1.0 and front == "SAder"):
            assert make(name) == make(movement)
    words = "'l2', 'l1', 'tv', 'squared', 'impact', 'fee'"
    with pytest.raises(
        ValueError, match=f"movement must be a Movement or one of {words}.*, got 'l3'."
    ):
        make("l3")


def test_a_capped_simplex_adds_up_to_one_by_default():
    assert kl.CappedSimplex(7, cap=0.4) == kl.CappedSimplex(7, 1.0, 0.4)


@pytest.mark.parametrize(
    ("domain", "movement"),
    [
        (kl.Simplex(3), kl.TVMovement()), (kl.CappedSimplex(3, cap=0.5), kl.TVMovement()),
        (kl.Box([0.0] * 3, [1.0] * 3), kl.L1Movement()), (kl.L2Ball(3), kl.L2Movement()), (kl.L1Ball(3), kl.L2Movement()),
    ],
)  # fmt: skip
def test_the_movement_that_suits_a_set_is_charged_everywhere_by_default(domain, movement):
    g = np.eye(3)
    learner = kl.GD(domain, 1.0)
    trace = kl.run(learner, g, engine="step")
    agent = kl.Agent(learner, costs=kl.Linear(), engine="step")
    for row in g:
        agent.observe(row)
    assert trace.movement == agent.movement == kl.offline_optimum(g, domain).movement == movement
    assert (
        kl.SAder([learner]).movement
        == kl.auto(domain).movement
        == kl.contrib.ensemble_auto(domain).movement
        == movement
    )
    assert repr(movement) in str(trace)
    moved = movement.paid(np.vstack((trace.x, agent.x))).sum()
    assert agent.switching == pytest.approx(moved, rel=1e-14)
