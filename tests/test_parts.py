"""Laws of cost families, movement costs and schedules."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import klazy as kl
from cases import COSTS, MOVEMENTS, SCHEDULES, costs_of, evaluated, points

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


def test_cost_families_by_hand():
    x = np.array([0.5, 0.25])
    assert kl.LinearCosts([[1, 2]]).value(1, x) == 1.0
    assert kl.QuadraticCosts([[0.5, 1.25]], weight=3.0).value(1, x) == 1.5
    assert kl.PinballCosts([[1.0, 0.0]], short=4.0, excess=2.0).value(1, x) == 2.5
    assert kl.LogWealthCosts([[1.0, 2.0]]).value(1, x) == 0.0
    assert kl.HingeCosts([[1.0, 2.0]], [-1.0]).value(1, x) == 2.0
    assert kl.LogisticCosts([[0.0, 0.0]], [1.0]).value(1, x) == pytest.approx(np.log(2.0))
    assert kl.LogisticCosts([[4000.0, 0.0]], [-1.0]).value(1, x) == 2000.0  # no overflow


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
        assert movement.distance(a + b) <= movement.distance(a) + movement.distance(b) + 1e-9

    def test_repr_and_file_form_give_it_back(self, name):
        movement = MOVEMENTS[name](D)
        assert evaluated(repr(movement)) == movement
        assert kl.Movement.from_dict(movement.to_dict()) == movement


def test_movement_costs_by_hand():
    x = np.array([[0.0, 0.0], [3.0, -4.0], [3.0, -4.0]])
    assert kl.L2Movement(2.0).paid(x).tolist() == [0.0, 10.0, 0.0]
    assert kl.L2Movement([1.0, 3.0, 9.0]).paid(x).tolist() == [0.0, 15.0, 0.0]
    assert kl.L1Movement().paid(x).tolist() == [0.0, 7.0, 0.0]
    assert kl.TVMovement().paid(x).tolist() == [0.0, 3.5, 0.0]
    assert kl.WeightedL2Movement(1.0, scale=[4.0, 0.0]).paid(x).tolist() == [0.0, 6.0, 0.0]
    assert kl.AsymmetricMovement(up=10.0, down=[1.0, 2.0]).paid(x).tolist() == [0.0, 38.0, 0.0]
    assert kl.SwitchFee(5.0).paid(x).tolist() == [0.0, 5.0, 0.0]
    assert kl.L2Movement().paid(x, np.array([0.0, 1.0])).tolist() == [1.0, 5.0, 0.0]


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
    sigma = kl.ScaleFree(2.0, path_length=1.0, movement_weight=0.5)  # D^2 + 2 D P = 8
    first, energy = sigma.observe(1, 0.0, np.array([3.0, 4.0]))
    assert first == pytest.approx(((25 + 5) / 8) ** 0.5)
    assert sigma.observe(2, energy, np.zeros(2))[0] == first
    with pytest.raises(TypeError, match="needs the gradients"):
        sigma.values(3)


class Growing(kl.Schedule):
    """A user's schedule that adapts to the gradients."""

    def __call__(self, t):
        raise TypeError("it needs the gradients")

    def observe(self, t, energy, g):
        energy = energy + float(g @ g)
        return 1.0 + energy, energy


def test_a_schedule_that_observes_gradients_is_adaptive_whoever_wrote_it():
    assert [sigma.adaptive for sigma in SCHEDULES] == [isinstance(sigma, kl.ScaleFree) for sigma in SCHEDULES]
    g = np.array([[3.0], [-1.0], [0.5]])
    trace = kl.run(kl.GD(kl.Box(-1.0, 1.0), Growing()), g)
    assert trace.diagnose().greedy_bound.tolist() == [3.0 / 10.0, 1.0 / 11.0, 0.5 / 11.25]


def test_values_of_a_schedule():
    assert kl.Sqrt(4.0, offset=1.0).values(3).tolist() == [(2 / 4) ** 0.5, (3 / 4) ** 0.5, 1.0]
    assert kl.GD(kl.L2Ball(1), 2).sigma == kl.Constant(2.0)
