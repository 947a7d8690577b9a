"""Whole numbers: optima against every sequence there is, and the ratio of lazy capacity provisioning."""

import itertools
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import klazy as kl
from klazy.hindsight import dynamic

seeds = st.integers(0, 2**16)


def draw_costs(kind: int, rng: np.random.Generator, T: int, d: int, top: float) -> kl.types.Costs:
    data = rng.uniform(0.0, top, (T, d))
    if kind == 0:
        return kl.PinballCosts(data, rng.uniform(0.0, 5.0), rng.uniform(0.0, 5.0))
    if kind == 1:
        return kl.QuadraticCosts(data, rng.uniform(0.0, 2.0, T))
    return kl.contrib.LinearCosts(rng.normal(size=(T, d)))


def find_least(
    costs: kl.types.Costs,
    movement: kl.types.Movement,
    points: np.ndarray,
    x0: np.ndarray | None,
    down: float = np.inf,
    up: float = np.inf,
    lead: int = 0,
) -> float:
    """The cheapest of all sequences of these points, whose steps are within limits, and of which the first cannot move."""
    least = np.inf
    for path in itertools.product(range(len(points)), repeat=costs.T):
        u = points[list(path)]
        steps = np.diff(u, axis=0) if x0 is None else np.diff(u, axis=0, prepend=x0[None])
        if steps[:lead].any() or (steps > up).any() or (steps < -down).any():
            continue
        least = min(least, float(costs.values(u).sum() + movement.paid(u, x0).sum()))
    return least


class Uphill(kl.types.Movement):
    """A movement of one's own, of which klazy knows nothing: the square of what rises, all coordinates together."""

    def distance(self, delta):
        return np.maximum(delta, 0.0).sum(axis=-1) ** 2


MOVEMENTS = [
    Uphill(0.4),
    kl.L1Movement(0.7),
    kl.contrib.AsymmetricMovement(np.array([1.0, 0.3, 2.0, 0.5]), up=2.0, down=0.1),
    kl.contrib.SquaredMovement(0.4),
    kl.contrib.ImpactMovement(0.5),
    kl.L2Movement(0.6),
    kl.contrib.SwitchFee(0.8),
]


@pytest.mark.parametrize("movement", MOVEMENTS, ids=repr)
@given(kind=st.integers(0, 2), seed=seeds, stands=st.booleans())
def test_in_one_dimension_the_programme_finds_the_cheapest_of_all_sequences(
    movement, kind, seed, stands
):
    rng = np.random.default_rng(seed)
    costs = draw_costs(kind, rng, 4, 1, 3.0)
    x0 = rng.uniform(-1.0, 4.0, 1) if stands else None
    found = kl.offline_optimum(costs, kl.Box(0.3, 3.0), movement, x0=x0, integers=True)
    least = find_least(costs, movement, np.array([[1.0], [2.0], [3.0]]), x0)
    assert found.cost == pytest.approx(least, rel=1e-12, abs=1e-12)
    assert found.lower_bound <= least + 1e-12 * abs(least)
    assert found.gap < 1e-9 or abs(least) < 1e-3


@given(
    kind=st.integers(0, 2),
    seed=seeds,
    stands=st.booleans(),
    up=st.sampled_from([1, 2.5, 4, None]),
    down=st.sampled_from([1.5, 2, None]),
    lead=st.integers(0, 2),
)
def test_within_a_ramp_the_programme_finds_the_cheapest_of_all_sequences(
    kind, seed, stands, up, down, lead
):
    rng = np.random.default_rng(seed)
    costs = draw_costs(kind, rng, 4, 1, 5.0)
    x0 = rng.integers(0, 5, 1).astype(float) if stands else None
    movement = kl.contrib.AsymmetricMovement(0.4, up=2.0)
    options = {"x0": x0, "integers": True, "ramp": (down, up), "lead": lead}
    found = kl.offline_optimum(costs, kl.Box(0, 5), movement, **options)
    limits = [np.inf if limit is None else limit for limit in (down, up)]
    least = find_least(costs, movement, np.arange(6.0)[:, None], x0, *limits, lead)
    assert found.cost == pytest.approx(least, rel=1e-12, abs=1e-12)
    assert found.lower_bound <= least + 1e-12 * abs(least)


def test_several_coordinates_are_taken_one_by_one_and_curved_costs_too():
    rng = np.random.default_rng(3)
    domain = kl.Box([0.0, 1.0], [1.0, 2.0])
    points = np.array(list(itertools.product((0.0, 1.0), (1.0, 2.0))))
    for kind, movement in itertools.product(
        range(3), (kl.L1Movement(0.4), kl.contrib.SquaredMovement(0.5))
    ):
        costs = draw_costs(kind, rng, 3, 2, 2.0)
        found = kl.offline_optimum(costs, domain, movement, integers=True)
        assert found.method == "whole numbers"
        assert found.cost == pytest.approx(find_least(costs, movement, points, None), rel=1e-12)
    wealth = kl.CallableCosts(
        3, 1, lambda t, x: float(np.exp(x[0]) - t * x[0]), lambda t, x: np.exp(x) - t
    )
    found = kl.offline_optimum(wealth, kl.Box(0, 3), kl.L1Movement(0.2), integers=True)
    assert found.cost == pytest.approx(
        find_least(wealth, kl.L1Movement(0.2), np.arange(4.0)[:, None], None)
    )


def draw_table(rng: np.random.Generator, T: int, shape: tuple[int, ...]) -> kl.CallableCosts:
    """Costs that are a number of its own at every point, neither convex nor sums over coordinates."""
    table = rng.uniform(0.0, 3.0, (T, *shape))
    return kl.CallableCosts(
        T,
        len(shape),
        lambda t, x: float(table[(t - 1, *x.astype(int))]),
        lambda t, x: np.zeros(len(shape)),
    )


@pytest.mark.parametrize("movement", MOVEMENTS, ids=repr)
@given(seed=seeds, stands=st.booleans())
def test_on_a_grid_the_programme_finds_the_cheapest_of_all_sequences(movement, seed, stands):
    rng = np.random.default_rng(seed)
    if isinstance(movement, kl.contrib.AsymmetricMovement):
        movement = kl.contrib.AsymmetricMovement(movement.weight, up=[2.0, 0.3], down=[0.1, 0.6])
    costs = draw_table(rng, 4, (2, 2))
    x0 = rng.uniform(-1.0, 2.0, 2) if stands else None
    found = kl.offline_optimum(
        costs, kl.Box([0, 0], [1, 1]), movement.replace(weight=rng.uniform(0.0, 1.0, 4)), x0=x0, integers=True
    )  # fmt: skip
    points = np.array(list(itertools.product((0.0, 1.0), repeat=2)))
    least = find_least(costs, found.movement, points, x0)
    assert found.method == "whole numbers"
    assert found.cost == pytest.approx(least, rel=1e-12)
    assert found.lower_bound <= least


@given(
    seed=seeds,
    stands=st.booleans(),
    up=st.sampled_from([1.0, (2.0, 0.5), None]),
    down=st.sampled_from([1.0, (0.5, 1.0), None]),
    lead=st.integers(0, 2),
)
def test_on_a_grid_ramps_and_leads_are_kept(seed, stands, up, down, lead):
    rng = np.random.default_rng(seed)
    costs = draw_table(rng, 3, (3, 2))
    x0 = np.array([1.0, 1.0]) if stands else None
    options = {"x0": x0, "integers": True, "ramp": (down, up), "lead": lead}
    found = kl.offline_optimum(costs, kl.Box([0, 0], [2, 1]), kl.L1Movement(0.3), **options)
    points = np.array(list(itertools.product((0.0, 1.0, 2.0), (0.0, 1.0))))
    limits = [np.inf if limit is None else np.array(limit) for limit in (down, up)]
    least = find_least(costs, kl.L1Movement(0.3), points, x0, *limits, lead)
    assert found.cost == pytest.approx(least, rel=1e-12)


def test_on_a_grid_limits_by_round_are_kept():
    rng = np.random.default_rng(7)
    costs = draw_table(rng, 3, (3, 3))
    upper = np.array([[2.0, 1.0], [0.0, 2.0], [1.5, 0.4]])
    found = kl.offline_optimum(
        costs, kl.Box([0, 0], [2, 2]), kl.L1Movement(0.2), integers=True, limits=(None, upper)
    )
    every = np.array(list(itertools.product(range(3), repeat=2)), float)
    paths = itertools.product(*(every[(every <= high).all(axis=1)] for high in upper))
    least = min(
        costs.values(np.array(u)).sum() + kl.L1Movement(0.2).paid(np.array(u)).sum()
        for u in paths
    )
    assert found.cost == pytest.approx(least, rel=1e-12)


class Shared(kl.types.Family):
    """Two kinds of servers for one demand, of which each large server does three units; the row is the demand, twice."""

    def value(self, row, x):
        short = np.maximum(row[..., 0] - x @ [1.0, 3.0], 0.0)
        return x @ [1.0, 2.0] + 8.0 * short

    def gradient(self, row, x):
        short = row[..., 0] > x @ [1.0, 3.0]
        return np.array([1.0, 2.0]) - 8.0 * short[..., None] * np.array([1.0, 3.0])


def draw_shared(rng: np.random.Generator, T: int, top: float) -> kl.types.Costs:
    return Shared().costs(np.repeat(rng.uniform(0.0, top, (T, 1)), 2, axis=1))


@pytest.mark.parametrize("T", [50, 57, 64])
def test_rounds_that_are_computed_again_give_the_same_optimum(T, monkeypatch):
    costs = draw_shared(np.random.default_rng(T), T, 15.0)
    kinds = kl.Box([0, 0], [6, 4])
    movement = kl.contrib.AsymmetricMovement(up=[3.0, 7.0], down=0.5)
    options = {"x0": [2.0, 0.0], "integers": True, "lead": 2}
    stored = kl.offline_optimum(costs, kinds, movement, **options)
    monkeypatch.setattr(dynamic, "CELLS", 35 * 2 * (int(T**0.5) + 1))
    again = kl.offline_optimum(costs, kinds, movement, **options)
    assert 35 * T > dynamic.CELLS
    assert again.method == "whole numbers"
    assert np.array_equal(again.u, stored.u)
    monkeypatch.setattr(dynamic, "POINTS", 35 * T - 1)
    assert dynamic.group_coordinates(costs, kinds, movement) is None


def test_the_optimum_of_two_kinds_is_not_that_of_each_and_its_bound_holds():
    """The relaxed optimum, by cutting planes, is a lower bound that does not come from the grid."""
    costs = draw_shared(np.random.default_rng(1), 12, 15.0)
    kinds = kl.Box([0, 0], [6, 4])
    whole = kl.offline_optimum(costs, kinds, kl.L1Movement(2.0), integers=True)
    parts = kl.offline_optimum(costs, kinds, kl.L1Movement(2.0), gap=1e-6)
    assert parts.lower_bound <= whole.cost
    assert whole.cost <= 1.1 * parts.cost
    assert whole.u[:, 0].any()
    assert whole.u[:, 1].any()


@pytest.mark.parametrize("domain", [kl.Simplex(3, 2.0), kl.CappedSimplex(3, 2.0, 1.0)], ids=repr)
@pytest.mark.parametrize("kind", range(3))
def test_elsewhere_the_cheapest_lies_between_the_bound_and_the_rounded_one(domain, kind):
    rng = np.random.default_rng(kind)
    costs = draw_costs(kind, rng, 4, 3, 1.5)
    points = np.array(
        [p for p in itertools.product(range(3), repeat=3) if domain.contains(np.array(p, float))],
        float,
    )
    found = kl.offline_optimum(costs, domain, kl.TVMovement(0.5), integers=True, gap=0.02)
    least = find_least(costs, kl.TVMovement(0.5), points, None)
    assert found.method == "rounding"
    assert found.lower_bound <= least <= found.cost + 1e-12
    assert (found.u == np.rint(found.u)).all()
    assert domain.contains(found.u)


def test_a_table_without_room_is_rounded(monkeypatch):
    costs = kl.PinballCosts([[2.6], [2.4], [0.3]], short=2.0)
    exact = kl.offline_optimum(costs, kl.Box(0, 5), "l1", integers=True)
    monkeypatch.setattr(dynamic, "CELLS", 10)
    rough = kl.offline_optimum(costs, kl.Box(0, 5), "l1", integers=True)
    assert (exact.method, rough.method) == ("whole numbers", "rounding")
    assert rough.lower_bound <= exact.cost <= rough.cost


BIN = kl.Box(0.0, 1.0)


class TestLazyCapacity:
    @given(
        kind=st.integers(0, 2),
        seed=seeds,
        price=st.floats(0.05, 10.0),
        top=st.integers(1, 6),
        T=st.integers(1, 30),
    )
    def test_it_pays_at_most_three_times_the_optimum(self, kind, seed, price, top, T):
        rng = np.random.default_rng(seed)
        costs = draw_costs(kind, rng, T, 1, float(top))
        if kind == 2:
            costs = kl.contrib.LinearCosts(rng.integers(0, 2, (T, 1)) * 1.0)
        movement = kl.contrib.AsymmetricMovement(price, up=1.0, down=0.0)
        domain = kl.Box(0.0, float(top))
        trace = kl.contrib.run_ahead(
            kl.contrib.LazyCapacity(domain), costs, movement=movement, x0=[0.0]
        )
        best = kl.offline_optimum(costs, domain, movement, x0=[0.0], integers=True)
        assert trace.totals.cost <= 3.0 * best.cost + 1e-9
        assert domain.contains(trace.x)
        assert (trace.x == np.rint(trace.x)).all()

    def test_an_adversary_comes_near_three_and_not_beyond(self):
        """Every round charges a little for where it stands, until it moves: the cost that each waits for is paid twice."""
        movement = kl.contrib.AsymmetricMovement(1.0, up=1.0, down=0.0)
        little = 0.05
        targets = [[1.0]]

        def play():
            costs = kl.PinballCosts(targets, little, little)
            return costs, kl.contrib.run_ahead(
                kl.contrib.LazyCapacity(BIN), costs, movement=movement, x0=[0.0]
            )

        for _ in range(130):
            targets.append([1.0 - float(play()[1].x[-1, 0])])
        costs, trace = play()
        best = kl.offline_optimum(costs, BIN, movement, x0=[0.0], integers=True)
        assert 2.5 < trace.totals.cost / best.cost <= 3.0

    def test_it_stays_between_the_two_plans_of_the_definition(self):
        """The plans are found by trying all sequences, the first charged for rising and the second for falling."""
        T = 6
        paths = np.array(list(itertools.product(range(4), repeat=T)))
        for seed in range(150):
            rng = np.random.default_rng(seed)
            demands = rng.uniform(0.0, 3.0, (T, 1))
            if seed % 2:
                demands = (
                    np.round(2.0 * demands) / 2.0
                )  # then several sequences are equally cheap
            costs = kl.PinballCosts(demands, float(rng.integers(1, 5)))
            price = float(rng.integers(1, 6)) / 2.0
            at = float(rng.integers(0, 4))
            movement = kl.contrib.AsymmetricMovement(price, down=0.0)
            trace = kl.contrib.run_ahead(
                kl.contrib.LazyCapacity(kl.Box(0.0, 3.0)), costs, movement=movement, x0=[at]
            )
            hit = np.array([costs.values(np.full((T, 1), level)) for level in range(4)])
            steps = np.diff(paths, axis=1, prepend=int(at))
            for t in range(1, T + 1):
                paid = hit[paths[:, :t], np.arange(t)].sum(axis=1)
                rising = np.round(paid + price * np.maximum(steps[:, :t], 0).sum(axis=1), 9)
                falling = np.round(paid + price * np.maximum(-steps[:, :t], 0).sum(axis=1), 9)
                bottom = paths[rising == rising.min(), t - 1].min()
                top = paths[falling == falling.min(), t - 1].max()
                at = min(max(at, bottom), top)
                assert trace.x[t - 1, 0] == at

    def test_coordinates_are_provisioned_one_by_one(self):
        rng = np.random.default_rng(2)
        demands = rng.uniform(0.0, 4.0, (10, 2))
        movement = kl.L1Movement(1.0)
        both = kl.contrib.run_ahead(
            kl.contrib.LazyCapacity(kl.Box([0.0, 0.0], [4.0, 4.0])),
            kl.PinballCosts(demands, 3.0),
            movement=movement,
            x0=[0.0, 0.0],
        )
        for i in range(2):
            alone = kl.contrib.run_ahead(
                kl.contrib.LazyCapacity(kl.Box(0.0, 4.0)),
                kl.PinballCosts(demands[:, [i]], 3.0),
                movement=movement,
                x0=[0.0],
            )
            assert np.array_equal(both.x[:, i], alone.x[:, 0])


REFUSALS = {
    "domain must be a Box such as Box(0, 100), got L2Ball(dim=2).": (
        lambda: kl.contrib.LazyCapacity(kl.L2Ball(2))
    ),
    "movement must charge by coordinate, as L1Movement and AsymmetricMovement do, got SwitchFee().": (
        lambda: kl.contrib.run_ahead(kl.contrib.LazyCapacity(BIN), [[1.0]], movement="fee")
    ),
    "movement must have one weight for all rounds, got L1Movement(weight=[1.0, 2.0]). Use their mean.": (
        lambda: kl.contrib.run_ahead(kl.contrib.LazyCapacity(BIN), [[1.0], [1.0]], movement=kl.L1Movement([1.0, 2.0]))
    ),
    (
        "In several dimensions costs must be sums over coordinates (linear, quadratic, pinball), got "
        "HingeCosts(T=2, dim=2)."
    ): (
        lambda: kl.contrib.run_ahead(
            kl.contrib.LazyCapacity(kl.Box([0.0, 0.0], [1.0, 1.0])),
            kl.contrib.HingeCosts(np.ones((2, 2)), [1.0, -1.0]),
            movement="l1",
        )
    ),
    "The set must be a Box, Simplex, CappedSimplex or Product of these for integers, got L2Ball(dim=2).": (
        lambda: kl.offline_optimum([[1.0, 2.0]], kl.L2Ball(2), integers=True)
    ),
}  # fmt: skip


@pytest.mark.parametrize("message", REFUSALS)
def test_what_is_wrong_is_said(message):
    with pytest.raises(ValueError, match=re.escape(message)):
        REFUSALS[message]()
