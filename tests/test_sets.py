"""Laws of every set: its projection is the projection, and its other answers agree with it."""

import sys
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import klazy as kl
from cases import SETS, TRIANGLE, UNBOUNDED, evaluated, points
from klazy.base.checks import Array

TOL = 1e-9  # of the sets' own notion of inside, times the size of what was projected


def nearly(domain: kl.types.ConvexSet) -> float:
    """How near to a minimum argmin_linear must come, relative to |g| and the size of the set."""
    return (
        1e-6 if isinstance(domain, kl.Intersection) else 1e-9
    )  # Intersection iterates, and says that it stops at 1e-7


def scale(*values: Array) -> float:
    return 1.0 + max(float(np.abs(v).max()) for v in values)


@pytest.mark.parametrize("domain", SETS + UNBOUNDED, ids=repr)
class TestEveryProjection:
    @given(data=st.data())
    def test_projection_is_feasible(self, domain, data):
        x = domain.project(data.draw(points(domain.dim)))
        assert domain.contains(x)

    @given(data=st.data())
    def test_projection_is_idempotent(self, domain, data):
        x = domain.project(data.draw(points(domain.dim)))
        np.testing.assert_allclose(domain.project(x), x, atol=TOL)

    @given(data=st.data())
    def test_projection_does_not_expand(self, domain, data):
        y, z = data.draw(points(domain.dim)), data.draw(points(domain.dim))
        gap = np.linalg.norm(domain.project(y) - domain.project(z))
        assert gap <= np.linalg.norm(y - z) + TOL * scale(y, z)

    @given(data=st.data())
    def test_points_of_the_set_stay(self, domain, data):
        inside = domain.project(data.draw(points(domain.dim, 2))).mean(axis=0)
        np.testing.assert_allclose(domain.project(inside), inside, atol=TOL)

    @given(data=st.data())
    def test_a_batch_is_projected_row_by_row(self, domain, data):
        y = data.draw(points(domain.dim, 6)).reshape(2, 3, domain.dim)
        rows = [[domain.project(row) for row in block] for block in y]
        np.testing.assert_allclose(domain.project(y), rows, atol=TOL * scale(y))

    def test_start_is_the_point_nearest_to_the_origin(self, domain):
        np.testing.assert_allclose(domain.start, domain.project(np.zeros(domain.dim)), atol=TOL)
        assert domain.contains(domain.start)

    def test_repr_and_file_form_give_the_set_back(self, domain):
        assert evaluated(repr(domain)) == domain
        assert kl.types.ConvexSet.from_dict(domain.to_dict()) == domain

    @pytest.mark.parametrize("seed", range(3))
    def test_agrees_with_a_conic_solver(self, domain, seed):
        y = np.random.default_rng(seed).normal(scale=2.0, size=domain.dim)
        x = cp.Variable(domain.dim)
        best = cp.Problem(cp.Minimize(cp.sum_squares(x - y)), constraints(domain, x)).solve(
            solver=cp.CLARABEL
        )
        assert x.value is not None
        ours = domain.project(y)
        gap = 1e-7 * (1.0 + y @ y)  # ten times the gap at which Clarabel stops
        assert abs((ours - y) @ (ours - y) - best) <= gap
        assert (
            np.linalg.norm(ours - x.value) <= gap**0.5
        )  # the objective grows by at least the squared distance

    @given(data=st.data())
    def test_no_point_of_the_set_is_nearer(self, domain, data):
        """The variational inequality <y - x, z - x> <= 0 for every z of the set characterises x = Proj(y)."""
        y = data.draw(points(domain.dim))
        x, z = domain.project(y), domain.project(data.draw(points(domain.dim)))
        assert (y - x) @ (z - x) <= TOL * scale(y) * scale(x, z)


@pytest.mark.parametrize("domain", SETS, ids=repr)
class TestEveryBoundedSet:
    @given(data=st.data())
    def test_no_point_is_lower_than_the_projection_along_the_way_to_it(self, domain, data):
        y = data.draw(points(domain.dim))
        x = domain.project(y)
        worst = domain.argmin_linear(x - y)
        assert (y - x) @ (worst - x) <= nearly(domain) * scale(y) * scale(x)

    @given(data=st.data())
    def test_argmin_linear_is_feasible_and_no_point_is_better(self, domain, data):
        g, z = data.draw(points(domain.dim)), domain.project(data.draw(points(domain.dim)))
        x = domain.argmin_linear(g)
        assert domain.contains(x)
        assert g @ x <= g @ z + nearly(domain) * scale(g) * scale(z)

    @given(data=st.data())
    def test_reach_and_diameter_bound_all_distances(self, domain, data):
        x, z = domain.project(data.draw(points(domain.dim, 2)))
        far, other = domain.argmin_linear(x - z), domain.argmin_linear(z - x)
        center = data.draw(points(domain.dim))
        for a, b in ((x, z), (far, other), (far, x)):
            assert np.linalg.norm(a - b) <= domain.diameter + 1e-7 * scale(a)
            assert np.linalg.norm(a - center) <= domain.reach(center) + 1e-7 * scale(a, center)
        assert domain.reach() <= domain.diameter + TOL or not isinstance(
            domain, kl.L2Ball | kl.L1Ball | kl.Box | kl.Simplex
        )

    def test_what_is_outside_is_not_contained(self, domain):
        assert not domain.contains(domain.start + 2.0 * domain.diameter + 1.0)
        assert not domain.contains(np.full(domain.dim, np.nan))
        assert not domain.contains(np.zeros(domain.dim + 1))


def constraints(domain: kl.types.ConvexSet, x: cp.Expression) -> list[Any]:
    """The set as a conic solver reads it, written from its definition."""
    match domain:
        case kl.L2Ball():
            return [
                cp.norm2(x - (0 if domain.center is None else domain.center)) <= domain.radius
            ]
        case kl.L1Ball():
            return [
                cp.norm1(x - (0 if domain.center is None else domain.center)) <= domain.radius
            ]
        case kl.Box():
            return [x >= domain.lower, x <= domain.upper]
        case kl.Simplex():
            return [x >= 0, cp.sum(x) == domain.total]
        case kl.CappedSimplex():
            return [x >= domain.floor, x <= domain.cap, cp.sum(x) == domain.total]
        case kl.Polytope():
            return [domain.A @ x <= domain.b]
        case kl.contrib.Space():
            return []
        case kl.Product():
            ends = np.cumsum([s.dim for s in domain.sets])
            parts = zip(domain.sets, ends, strict=True)
            return [c for s, end in parts for c in constraints(s, x[end - s.dim : end])]
        case kl.Intersection():
            return [c for s in domain.sets for c in constraints(s, x)]
    raise AssertionError(f"state {type(domain).__name__} for cvxpy here")


@pytest.mark.parametrize("seed", range(5))
def test_agrees_with_optax(seed):
    import jax
    import optax.projections as op

    jax.config.update("jax_enable_x64", True)
    y = np.random.default_rng(seed).normal(scale=2.0, size=7)
    low, high = -np.linspace(0.1, 1.0, 7), np.linspace(0.2, 2.0, 7)
    for ours, theirs in (
        (kl.L2Ball(7, 1.5), op.projection_l2_ball(y, 1.5)),
        (kl.L1Ball(7, 1.5), op.projection_l1_ball(y, 1.5)),
        (kl.Simplex(7, 1.5), op.projection_simplex(y, 1.5)),
        (kl.Box(low, high), op.projection_box(y, low, high)),
    ):
        np.testing.assert_allclose(ours.project(y), theirs, atol=1e-12)


@pytest.mark.parametrize("d", [5, 12, 50])
def test_points_near_a_simplex_are_projected_as_the_sorted_formula_says(d):
    """Near the set some coordinates stay above zero and others do not, so that the threshold takes several passes."""
    y = np.random.default_rng(d).normal(size=(300, d))
    falling = -np.sort(-y, axis=1)
    thetas = (np.cumsum(falling, axis=1) - 1.0) / np.arange(1, d + 1)
    positive = (falling > thetas).sum(axis=1)
    theta = thetas[np.arange(300), positive - 1]
    alone = [
        kl.Simplex(d).project(row) for row in y
    ]  # in a batch the slowest row decides how many passes all take
    np.testing.assert_allclose(alone, np.maximum(y - theta[:, None], 0.0), atol=1e-14)


@pytest.mark.parametrize(
    "domain", [kl.L1Ball(6), kl.Simplex(6), kl.CappedSimplex(6, 2.0, 0.9)], ids=repr
)
def test_points_far_away_lose_no_precision(domain):
    """Without the shift by the largest entry, x would inherit the rounding of y: 1e-2 at this distance."""
    y = 1e14 + np.array([0.25, 0.5, 0.75, 0.0, 1.0, -3.0])
    np.testing.assert_allclose(
        np.abs(domain.project(y)).sum(), domain.project(np.zeros(6)).sum() or 1.0, atol=1e-12
    )


@pytest.mark.parametrize("far", [1e3, 1e6, 1e9, 1e15])
def test_one_entry_far_away_does_not_blur_the_others(far):
    """The rest of the total, 0.5, is shared by two entries 0.1 apart, wherever the third one lies."""
    np.testing.assert_allclose(
        kl.CappedSimplex(3, 1.0, 0.5).project([far, 1.125, 1.25]),
        [0.5, 0.1875, 0.3125],
        atol=1e-15,
    )


def test_points_whose_squares_overflow():
    np.testing.assert_allclose(
        kl.L2Ball(2, 2.0, [1.0, 0.0]).nearest(np.array([3e200, 4e200])), [2.2, 1.6]
    )
    np.testing.assert_allclose(kl.L2Ball(2).argmin_linear([3e-200, 4e-200]), [-0.6, -0.8])


def test_the_scale_of_a_row_does_not_matter_to_a_polytope():
    sides = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    for scale in (1e-9, 1.0, 1e9):
        square = kl.Polytope(scale * sides, scale * np.ones(4))
        np.testing.assert_allclose(square.project([5.0, -0.3]), [1.0, -0.3], atol=1e-9)
        assert square.diameter == pytest.approx(8**0.5)
        assert not square.contains([1.001, 0.0])


def test_inside_is_judged_by_each_constraint_on_its_own_scale():
    assert not kl.Box([-1e12, 0.0], [1e12, 1.0]).contains([0.0, 1.1])
    assert not kl.Product([kl.Box(-1e12, 1e12), kl.Simplex(2)]).contains([0.0, 5.0, 5.0])
    assert not kl.L2Ball(2, 1e-12).contains([5e-12, 0.0])


def test_caps_that_share_the_total_evenly_leave_one_point():
    """1/n added n times may be a little less than 1; that is rounding, not an empty set."""
    for n in range(2, 60):
        x = kl.CappedSimplex(n, 1.0, 1.0 / n).project(np.arange(n))
        np.testing.assert_allclose(
            x, np.full(n, 1.0 / n), atol=2 * np.finfo(float).eps
        )  # of the total


@pytest.mark.parametrize("d", [10_000, 200_000])
def test_thresholds_need_a_handful_of_passes_whatever_the_dimension(d, monkeypatch):
    passes = 0
    count = np.count_nonzero

    def counting(*args, **kwargs):
        nonlocal passes
        passes += 1
        return count(*args, **kwargs)

    monkeypatch.setattr(np, "count_nonzero", counting)
    y = np.random.default_rng(0).normal(size=d)
    for domain in (kl.Simplex(d), kl.L1Ball(d), kl.CappedSimplex(d, 5.0, 0.5)):
        passes = 0
        domain.project(y)
        assert passes <= 40


def test_dykstra_reports_that_it_has_not_converged():
    lens = [kl.Product([kl.L2Ball(2)]), kl.Product([kl.L2Ball(2, 1.0, [1.9, 0.0])])]
    thin = kl.Intersection(lens, budget=3)
    with pytest.warns(
        kl.types.NotConverged,
        match=r"after 3 cycles: this is not the projection yet, .*changed it by .*violates",
    ):
        thin.project([1.0, 5.0])


BALL, CUBE = kl.L2Ball(4), kl.Box([-0.9] * 4, [0.9] * 4)
MEETING = [
    kl.Intersection([BALL, CUBE, kl.L1Ball(4, 1.4)]),
    kl.Intersection([kl.Intersection([BALL, kl.L2Ball(4, 1.2, [0.5, 0.5, 0.0, 0.3])]), CUBE]),
    kl.Intersection([kl.Simplex(6), kl.Box([0.0] * 6, [0.4] * 6), kl.L1Ball(6, 0.9, [0.2] * 6)]),
    kl.Intersection([kl.L2Ball(2, 1.0, [3.0, 3.0]), kl.Box([1.0, 1.0], [2.9, 2.7])]),
    kl.Intersection(
        [kl.Product([kl.L1Ball(2), kl.Simplex(3)]), kl.Box([-1.0] * 5, [0.8] * 5), kl.L2Ball(5)]
    ),
    kl.Intersection([CUBE, kl.L1Ball(4, 1.4, [0.3, -1.2, 0.2, 0.9])]),
    kl.Intersection([kl.Simplex(4), kl.Box([0.1, -1.0, -1.0, -1.0], [0.4] * 4), CUBE]),
    kl.Intersection(
        [kl.Polytope(np.vstack((np.ones((1, 4)), -np.eye(4))), [1.2, 0, 0, 0, 0]), BALL]
    ),
]


@pytest.mark.parametrize("domain", MEETING, ids=repr)
@given(seed=st.integers(0, 2**16), size=st.floats(-2.0, 6.0))
def test_no_point_of_an_intersection_is_nearer_than_its_projection(domain, seed, size):
    """The projection x of y is the only point with <y - x, u - x> <= 0 for all u of the set.

    x and u are exact to 2e-14, for a search aims that far inside a ball, times their numbers, which are up to 4.
    """
    rng = np.random.default_rng(seed)
    y = 10.0**size * rng.normal(size=domain.dim)
    x = domain.project(y)
    assert float(domain.violation(x)) <= 1e-12
    steps = np.repeat([[1.0], [1e-1], [1e-2], [1e-4]], 2, axis=0)
    others = domain.project(x + steps * rng.normal(size=(8, domain.dim)))
    assert ((others - x) @ (y - x)).max() <= 2e-13 * np.linalg.norm(y - x)


def test_an_intersection_is_exact_far_away():
    """Dykstra's method stopped at (0.302, -0.189, 0.890, 0.019)."""
    x = MEETING[0].project([3000.0, -2000.0, 9000.0, 500.0])
    rest = 0.19**0.5  # of the ball's radius beside 0.9; the l1 ball leaves 0.5 for both
    spread = (2.0 * 0.19 - 0.25) ** 0.5
    first = 0.5 * (0.5 + spread)
    assert rest > 0.5 / 2.0**0.5
    np.testing.assert_allclose(x, [first, first - 0.5, 0.9, 0.0], atol=1e-9)


def test_exact_reach_and_diameter_in_closed_form():
    assert kl.L1Ball(3, 2.0, [1.0, 0.0, 0.0]).reach([0.0, 0.0, 0.0]) == 3.0
    assert kl.Box([0, 0], [3, 4]).diameter == 5.0
    assert kl.Simplex(3).diameter == pytest.approx(2**0.5)
    assert kl.CappedSimplex(4, 2.0, 1.0).diameter == pytest.approx(
        2.0
    )  # (1,1,0,0) against (0,0,1,1)
    assert kl.CappedSimplex(4, 2.0, 1.0).reach([0.0] * 4) == pytest.approx(2**0.5)
    assert TRIANGLE.reach([-0.5, 0.0]) >= 1.5


class Shrunk(kl.Box):
    """It overrides the projection, so it may be another set."""

    def nearest(self, y):
        return 0.5 * super().nearest(y)


class Outspoken(Shrunk):
    """It says itself what holds for it."""

    margin = kl.Box.margin


def test_what_a_set_says_about_its_projection_is_not_inherited_by_one_with_another():
    y = np.array([[3.0, 4.0], [0.0, 0.5]])
    assert kl.Box([0, 0], [1, 1]).margin(y).tolist() == [2.0, 0.0]
    assert np.isnan(Shrunk([0, 0], [1, 1]).margin(y)).all()
    assert not Shrunk([0, 0], [1, 1]).separable
    assert Outspoken([0, 0], [1, 1]).margin(y).tolist() == [2.0, 0.0]
    with pytest.raises(
        ValueError,
        match=(
            "The set must be a Box, Simplex, CappedSimplex or Product of these for integers, got "
            r"Shrunk\(lower=\[0.0, 0.0\], upper=\[1.0, 1.0\]\)."
        ),
    ):
        Shrunk([0, 0], [1, 1]).check_whole()


@pytest.mark.parametrize(
    "domain", [s for s in SETS if isinstance(s, kl.L2Ball | kl.Intersection)], ids=repr
)
def test_a_set_without_whole_points_refuses_and_has_none(domain):
    x = domain.start
    with pytest.raises(
        ValueError,
        match="set must be a Box, Simplex, CappedSimplex or Product of these for integers, got",
    ):
        domain.check_whole()
    for ask in (
        lambda: domain.nearest_whole(x),
        lambda: domain.count_units(x),
        lambda: domain.take_units(x, 1),
    ):
        with pytest.raises(TypeError, match="has no whole points; check_whole refuses it"):
            ask()


@pytest.mark.parametrize(
    "domain",
    [kl.Simplex(5), kl.Simplex(12, 2.5), kl.L1Ball(5), kl.L2Ball(5), kl.Box(-1.0, 2.0)],
    ids=repr,
)
@given(seed=st.integers(0, 2**16))
def test_a_point_among_many_is_projected_as_it_is_alone(domain, seed):
    """To the last digit: what a learner plays many rounds at once an agent plays one by one."""
    rng = np.random.default_rng(seed)
    y = rng.normal(size=(200, domain.dim)) * rng.choice([0.1, 1.0, 5.0], size=(200, 1))
    assert np.array_equal(domain.nearest(y), [domain.nearest(point) for point in y])
    assert np.array_equal(domain.lowest(y), [domain.lowest(point) for point in y])


def test_a_small_polytope_keeps_its_vertices_and_finds_the_lowest_as_a_linear_programme_does():
    rng = np.random.default_rng(0)
    A = np.vstack((rng.normal(size=(6, 3)), np.eye(3), -np.eye(3)))
    polytope = kl.Polytope(A, np.ones(len(A)))
    vertices = polytope._vertices
    assert vertices is not None
    assert (polytope.violation(vertices) < 1e-9).all()
    tight = np.abs(vertices @ A.T - 1.0) < 1e-9
    assert (tight.sum(axis=1) >= 3).all()
    for g in rng.normal(size=(20, 3)):
        assert g @ polytope.lowest(g) == pytest.approx(g @ polytope._vertex_of_one(g), abs=1e-9)
    corners = kl.Polytope(np.vstack((np.eye(3), -np.eye(3))), np.ones(6))._vertices
    assert corners is not None
    assert len(corners) == 8
    flat = kl.Polytope([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]], [0.0, 0.0, 1.0, 1.0])
    assert flat._vertices is None


WEDGE = UNBOUNDED[-1]


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6, 1e12])
def test_points_far_from_an_unbounded_polytope_are_projected(size):
    """No point of the set can be far enough away to be clipped: the set goes on for ever."""
    for y in size * np.random.default_rng(0).normal(size=(20, 3)):
        x = WEDGE.project(y)
        assert WEDGE.contains(x)
        others = WEDGE.project(x + size * np.random.default_rng(1).normal(size=(30, 3)))
        assert ((others - x) @ (y - x)).max() <= 1e-12 * (size + 1.0) ** 2


def test_a_half_space_and_an_orthant_have_closed_forms(monkeypatch):
    """They need no solver; it gives the same points."""
    half, orthant = UNBOUNDED[2:4]
    y = np.random.default_rng(0).normal(scale=3.0, size=(40, 3))
    solved = [[domain._nearest_one(point) for point in y] for domain in (half, orthant)]
    monkeypatch.setitem(sys.modules, "daqp", None)
    np.testing.assert_allclose(half.project(y), solved[0], atol=1e-12)
    np.testing.assert_allclose(orthant.project(y), solved[1], atol=1e-12)
    np.testing.assert_array_equal(orthant.project(y), np.maximum(y, 0.0))
    with pytest.raises(ImportError, match="daqp"):
        WEDGE.project([9.0, 9.0, 9.0])


def test_a_linear_cost_has_a_least_value_on_an_unbounded_polytope_or_says_so():
    domain = UNBOUNDED[-1]
    inside = -np.array([0.3, 0.2, 0.5]) @ domain.A  # a cone of such costs has one
    x = domain.argmin_linear(inside)
    assert inside @ x == pytest.approx(-np.array([0.3, 0.2, 0.5]) @ domain.b, abs=1e-9)
    with pytest.raises(ValueError, match="A linear cost has no least value on Polytope"):
        domain.argmin_linear(-inside)


def test_half_spaces_meet_like_one_polytope():
    """Also with a ball or a box, and far away; those that bound a set together count as unbounded."""
    rows, bounds = WEDGE.A, WEDGE.b
    parts = [kl.Polytope(rows[i : i + 1], bounds[i : i + 1]) for i in range(3)]
    met = kl.Intersection(parts)
    assert not met.bounded
    for size in (1.0, 1e9):
        for y in size * np.random.default_rng(0).normal(size=(10, 3)):
            np.testing.assert_allclose(met.project(y), WEDGE.project(y), atol=1e-9 * size)
    cut = kl.Intersection([*parts, kl.L2Ball(3, 2.0)])
    assert cut.bounded
    y = np.array([3.0, 4.0, -5.0])
    x = cut.project(y)
    assert cut.contains(x)
    others = cut.project(np.random.default_rng(0).normal(scale=2.0, size=(50, 3)))
    assert ((others - x) @ (y - x)).max() <= 1e-10
    with pytest.raises(ValueError, match="No least value of a linear cost is known on Inter"):
        met.argmin_linear([1.0, 0.0, 0.0])
