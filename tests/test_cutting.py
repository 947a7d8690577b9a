"""Optima of costs and movements that are known by values and subgradients alone."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import klazy as kl
from cases import TRIANGLE, costs_of

T = 6
D = 3
PLACES = {
    "box": (kl.Box(np.zeros(D), np.ones(D)), kl.L1Movement(0.4)),
    "simplex": (kl.Simplex(D), kl.TVMovement(0.4)),
    "capped": (kl.CappedSimplex(D, 1.0, 0.6), kl.contrib.AsymmetricMovement(up=0.3, down=0.6)),
    "ball": (kl.L2Ball(D), kl.L2Movement(np.linspace(0.1, 0.6, T))),
    "l1 ball": (kl.L1Ball(D), kl.contrib.WeightedL2Movement(0.5, scale=[1.0, 2.0, 0.5])),
}
FAMILIES = ["LinearCosts", "QuadraticCosts", "PinballCosts", "HingeCosts", "LogisticCosts"]


def hide(costs):
    """The same costs as functions, of which nothing else is known."""
    return kl.CallableCosts(costs.T, costs.dim, costs.value, costs.subgradient)


@pytest.mark.parametrize("place", PLACES)
@settings(max_examples=1)
@given(name=st.sampled_from(FAMILIES), seed=st.integers(0, 2**16), leaves=st.booleans())
def test_functions_have_the_optimum_of_their_family(place, name, seed, leaves):
    domain, movement = PLACES[place]
    costs = costs_of(name, T, D, seed)
    x0 = domain.start if leaves else None
    known = kl.offline_optimum(costs, domain, movement, x0=x0, gap=1e-5)
    found = kl.offline_optimum(hide(costs), domain, movement, x0=x0, gap=1e-3)
    assert found.method == "cutting planes"
    assert domain.contains(found.u)
    assert found.lower_bound <= known.cost + 1e-9
    assert found.cost >= known.lower_bound - 1e-9
    assert found.gap <= 1e-3
    paid = costs.values(found.u).sum() + movement.paid(found.u, x0).sum()
    assert found.cost == pytest.approx(paid)


class LongestMovement(kl.types.Movement):
    """What the coordinate that moves farthest moves."""

    def distance(self, delta):
        return np.abs(delta).max(axis=-1)

    def subgradient(self, delta):
        s = np.zeros_like(delta)
        i = int(np.abs(delta).argmax())
        s[i] = np.sign(delta[i])
        return s


class SquareMovement(kl.types.Movement):
    """No norm: its tangents do not go through zero."""

    def distance(self, delta):
        return np.vecdot(delta, delta)

    def subgradient(self, delta):
        return 2.0 * delta


@pytest.mark.parametrize("movement", [LongestMovement(0.5), SquareMovement(0.7)], ids=repr)
def test_movements_of_ones_own_have_the_optimum_of_cvxpy(movement):
    g = np.random.default_rng(3).normal(size=(T, D))
    domain = kl.L2Ball(D)
    x0 = np.array([0.5, 0.0, -0.5])
    found = kl.offline_optimum(g, domain, movement, x0=x0, gap=1e-3)
    u = cp.Variable((T, D))
    steps = [u[0] - x0, *(u[t] - u[t - 1] for t in range(1, T))]
    price = cp.norm_inf if isinstance(movement, LongestMovement) else cp.sum_squares
    moved = sum(price(step) for step in steps)
    problem = cp.Problem(
        cp.Minimize(cp.sum(cp.multiply(g, u)) + movement.weight * moved),
        [cp.norm(u, axis=1) <= 1.0],
    )
    problem.solve(solver=cp.CLARABEL)
    best = float(problem.value)  # pyright: ignore[reportArgumentType]
    assert found.lower_bound - 1e-7 <= best <= found.cost + 1e-7


@pytest.mark.parametrize(
    "movement",
    [
        kl.contrib.SquaredMovement(0.7),
        kl.contrib.ImpactMovement(0.4, scale=[0.1, 1.0, 2.0]),
        kl.contrib.MahalanobisMovement(
            0.5, A=[[1.0, 0.9, 0.0], [0.9, 1.0, 0.0], [0.0, 0.0, 0.2]]
        ),
        kl.contrib.WeightedL2Movement(0.5, scale=[0.0, 1.0, 2.0]),
    ],
    ids=repr,
)
def test_functions_have_the_optimum_of_their_family_for_every_kind_of_movement(movement):
    costs = costs_of("QuadraticCosts", T, D, 4)
    x0 = np.array([0.5, 0.0, -0.5])
    known = kl.offline_optimum(costs, kl.L2Ball(D), movement, x0=x0, gap=1e-5)
    found = kl.offline_optimum(hide(costs), kl.L2Ball(D), movement, x0=x0, gap=1e-3)
    assert found.method == "cutting planes"
    assert found.lower_bound <= known.cost + 1e-9
    assert found.cost >= known.lower_bound - 1e-9


def test_a_bound_never_exceeds_what_some_sequence_pays_while_it_is_far_from_the_optimum():
    """After each number of programmes, not only at the end."""
    domain, movement = PLACES["ball"]
    costs = hide(costs_of("LogisticCosts", T, D, 5))
    best = kl.offline_optimum(costs, domain, movement, gap=1e-5).cost
    bounds = []
    for n in (1, 2, 4, 8):
        with pytest.raises(kl.types.GapNotReached) as short:
            kl.offline_optimum(costs, domain, movement, gap=1e-9, iterations=n)
        bounds.append(short.value.best.lower_bound)
        assert short.value.best.cost >= best - 1e-4 * abs(best)
    assert bounds == sorted(bounds)
    assert bounds[0] < best - 1e-3
    assert bounds[-1] <= best


def test_the_best_fixed_point_of_functions():
    costs = costs_of("QuadraticCosts", T, D, 2)
    for domain in (kl.L2Ball(D), TRIANGLE):
        known = costs_of("QuadraticCosts", T, domain.dim, 2)
        found = kl.best_fixed(hide(known), domain, gap=1e-3)
        direct = kl.best_fixed(known, domain)
        assert found.lower_bound <= direct.cost + 1e-9
        assert found.cost >= direct.lower_bound - 1e-9
    with pytest.raises(kl.types.GapNotReached):
        kl.best_fixed(hide(costs), kl.L2Ball(D), gap=1e-9, iterations=2)


def test_plans_are_made_for_functions_too():
    domain, movement = PLACES["box"]
    costs = costs_of("PinballCosts", 4, D, 1)
    seen = kl.contrib.run_ahead(
        kl.contrib.RecedingHorizon(domain, 1, gap=1e-6), costs, movement=movement
    )
    hidden = kl.contrib.run_ahead(
        kl.contrib.RecedingHorizon(domain, 1, gap=1e-6), hide(costs), movement=movement
    )
    assert hidden.totals.cost == pytest.approx(seen.totals.cost, abs=1e-4)


def test_a_subgradient_of_the_wrong_shape_is_refused():
    class Wrong(SquareMovement):
        def distance(self, delta):
            return super().distance(delta)

        def subgradient(self, delta):
            return delta[:1]

    with pytest.raises(ValueError, match=r"subgradient must have shape \(3,\), got \(1,\)."):
        kl.offline_optimum(np.ones((2, D)), kl.L2Ball(D), Wrong(1.0))
