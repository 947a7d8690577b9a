"""Rules of thumb: they play what a slow loop plays, at once, in pieces and round by round, for every family of costs."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import klazy as kl
from klazy.base.checks import InvalidInput
from klazy.game.game import Game
from klazy.game.run import play_by_rows

N = 60
PRICE = kl.L1Movement(0.3)
SIMPLEX = kl.Simplex(3)
BOX = kl.Box(np.zeros(3), np.full(3, 4.0))
PLACES = [
    (kl.Linear(), SIMPLEX),
    (kl.Linear(), BOX),
    (kl.Linear(), kl.L2Ball(3)),
    (kl.Linear(), kl.L1Ball(3)),
    (kl.Linear(), kl.CappedSimplex(3, 2.0, 1.0)),
    (kl.Quadratic(), BOX),
    (kl.Quadratic(), SIMPLEX),
    (kl.Pinball(3.0, 0.5), BOX),
    (kl.LogWealth(), SIMPLEX),
]
windows = st.one_of(st.none(), st.integers(1, 9), st.just(N - 1), st.just(2 * N))
counts = st.integers(1, 7)
places = pytest.mark.parametrize(
    ("family", "domain"), PLACES, ids=lambda part: repr(part).partition("(")[0]
)


def rows_for(family: kl.types.Family, n: int = N, seed: int = 0) -> np.ndarray:
    """Rows without ties."""
    rows = np.random.default_rng(seed).normal(1.5, 1.0, size=(n, 3))
    return np.exp(0.1 * rows) if isinstance(family, kl.LogWealth) else rows


def everyone(domain, family, window, count):
    """One of each, averaging ``window`` rounds."""
    if window is None:
        follower = kl.contrib.FollowTheLeader(domain, family=family)
    elif window == 1:
        follower = kl.LastValue(domain, family=family)
    else:
        follower = kl.MovingAverage(domain, window, family=family)
    return [
        follower,
        kl.contrib.Periodic(domain, count, window, family=family),
        kl.MinimumHold(domain, count, window, family=family),
        kl.DeadBand(domain, PRICE, 0.5 * count, window, family=family),
    ]


def play_slowly(learner, rows):
    """The rules as one would tell them."""
    family = learner.family
    x = learner.domain.start
    moved = 0
    points = [x]
    for t in range(1, len(rows)):
        past = rows[max(0, t - (learner.window or t)) : t]
        mean = family.moments(past).mean(axis=0)
        aim = family.lowest(learner.domain, mean)
        if isinstance(learner, kl.contrib.Periodic):
            moves = t % learner.every == 0
        elif isinstance(learner, kl.MinimumHold):
            moves = t >= moved + learner.hold and not np.allclose(aim, x, rtol=0, atol=1e-9)
        elif isinstance(learner, kl.DeadBand):
            saved = float(family.expected(mean, x) - family.expected(mean, aim))
            moves = learner.horizon * saved > 0.3 * float(np.abs(aim - x).sum())
        else:
            moves = True
        if moves:
            x = aim
            moved = t
        points.append(x)
    return np.array(points)


def run_by_rows(learner, costs, *, movement=None, x0=None, state=None, record="actions"):
    """As `run` plays them where there is no kernel."""
    game = Game.check(learner.domain, costs, movement, x0, learner)
    return play_by_rows(learner, game, learner.init() if state is None else state, record)


@places
class TestEveryRule:
    @given(window=windows, count=counts)
    def test_plays_what_a_slow_loop_plays(self, family, domain, window, count):
        rows = rows_for(family)
        for learner in everyone(domain, family, window, count):
            x = run_by_rows(learner, family.costs(rows)).x
            np.testing.assert_allclose(x, play_slowly(learner, rows), rtol=0, atol=1e-9)

    @given(window=windows, count=counts, cuts=st.sets(st.integers(1, N - 1), max_size=3))
    def test_is_the_same_round_by_round_and_in_pieces(self, family, domain, window, count, cuts):
        rows = rows_for(family)
        costs = family.costs(rows)
        for learner in everyone(domain, family, window, count):
            by_step = kl.run(learner, costs, movement=PRICE, engine="step")
            whole = run_by_rows(learner, costs, movement=PRICE)
            assert (by_step.engine, whole.engine) == ("step", "rows")
            assert np.array_equal(whole.x, by_step.x)
            np.testing.assert_allclose(whole.totals, by_step.totals, rtol=1e-12)
            for one, other in zip(whole.state[2:], by_step.state[2:], strict=True):
                assert np.array_equal(one, other)
            state = None
            points = []
            for part in np.split(rows, sorted(cuts)):
                piece = run_by_rows(learner, family.costs(part), state=state)
                points.append(piece.x)
                state = piece.state
            assert np.array_equal(np.vstack(points), whole.x)

    def test_refuses_costs_of_another_family(self, family, domain):
        with pytest.raises(kl.base.checks.InvalidInput, match="must be of the learner's family,"):
            kl.run(
                kl.LastValue(domain, family=family),
                kl.contrib.HingeCosts(np.ones((4, 3)), np.ones(4)),
            )


def test_averages_do_not_drift():
    """A row of 1e12 leaves nothing behind once it is out of the window."""
    rows = np.tile([[0.3], [0.7]], (500, 1))
    rows[7] = 1e12
    learner = kl.MovingAverage(kl.Box(0.0, 1.0), 20, family=kl.Quadratic())
    costs = kl.QuadraticCosts(rows)
    for trace in (run_by_rows(learner, costs), kl.run(learner, costs, engine="step")):
        np.testing.assert_allclose(trace.x[30:], 0.5, rtol=1e-15)


@pytest.mark.parametrize("record", ["actions", "costs", "totals"])
def test_records_by_rows_are_those_by_step(record, monkeypatch):
    monkeypatch.setattr("klazy.game.run.FOLLOWED_TOGETHER", 7)
    costs = kl.PinballCosts(rows_for(kl.Pinball()), 3.0, 0.5)
    learner = kl.DeadBand(BOX, PRICE, 3.0, 6, family=kl.Pinball(3.0, 0.5))
    options = {
        "movement": kl.L1Movement(np.linspace(0.0, 1.0, N)),
        "x0": [4.0, 0.0, 4.0],
        "record": record,
    }
    by_rows = kl.run(learner, costs, **options)
    by_step = kl.run(learner, costs, engine="step", **options)
    assert by_rows.engine == "rows"
    assert by_rows.kept.keys() == by_step.kept.keys()
    for name in by_step.kept:
        np.testing.assert_allclose(by_rows.kept[name], by_step.kept[name], rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(by_rows.totals, by_step.totals, rtol=1e-12)


class Cube(kl.Box):
    """A set of one's own has no kernel."""


@pytest.mark.parametrize(
    "movement", [None, kl.TVMovement(np.linspace(0.0, 1.0, N))], ids=["own", "given"]
)
def test_a_batch_is_the_runs_whoever_shares_a_window(movement, monkeypatch):
    monkeypatch.setattr("klazy.game.run.FOLLOWED_TOGETHER", 17)
    rows = rows_for(kl.Quadratic())
    costs = kl.QuadraticCosts(rows)
    cube = Cube(np.zeros(3), np.full(3, 4.0))
    learners = [kl.Fixed(cube), kl.Fixed(cube, start=[1.0, 2.0, 3.0])]
    for window in (None, 1, 4):
        for count in (2, 5):
            learners += everyone(cube, kl.Quadratic(), window, count)
    batch = kl.run_batch(learners, costs, movement=movement, checkpoints=7)
    for learner, curve in zip(learners, batch.curves, strict=True):
        trace = kl.run(learner, costs, movement=movement, engine="step")
        hitting, switching = (
            np.cumsum(each)[batch.rounds - 1] for each in (trace.hitting, trace.switching)
        )
        np.testing.assert_allclose(
            curve, np.column_stack((hitting, switching)), rtol=1e-12, atol=1e-12
        )
    totals = kl.run_batch(learners, costs, movement=movement)
    np.testing.assert_allclose(totals.hitting, batch.hitting, rtol=1e-12)
    np.testing.assert_allclose(totals.switching, batch.switching, rtol=1e-12, atol=1e-12)


def test_fixed_never_moves_whatever_the_costs():
    learner = kl.Fixed(BOX, start=[1.0, 2.0, 0.5])
    for costs in (
        kl.contrib.LinearCosts(rows_for(kl.Linear())),
        kl.contrib.HingeCosts(np.ones((N, 3)), np.ones(N)),
    ):
        trace = kl.run(learner, costs, movement=PRICE, engine="step")
        assert (trace.x == [1.0, 2.0, 0.5]).all()
        assert trace.totals.switching == 0.0


def make_rolling(window):
    """One of each rolling rule."""
    family = kl.Pinball(4.0, 1.0)
    return [
        kl.RollingMax(BOX, window, 1.3, family=family),
        *(kl.RollingQuantile(BOX, window, q, family=family) for q in (0.0, 0.37, 0.8, 1.0)),
    ]


@given(
    window=st.one_of(st.integers(1, 9), st.just(N - 1), st.just(2 * N)), cut=st.integers(1, N - 1)
)
def test_rolling_rules_play_what_numpy_says_in_pieces_and_round_by_round(window, cut):
    rows = rows_for(kl.Pinball())
    costs = kl.PinballCosts(rows, 4.0, 1.0)
    for learner in make_rolling(window):
        step = kl.run(learner, costs, engine="step")
        x = [learner.domain.start]
        for t in range(1, N):
            past = rows[max(0, t - window) : t]
            level = (
                1.3 * past.max(axis=0)
                if isinstance(learner, kl.RollingMax)
                else np.quantile(past, learner.q, axis=0)
            )
            x.append(np.clip(level, 0.0, 4.0))
        np.testing.assert_allclose(step.x, x, rtol=1e-14, atol=1e-14)
        first = run_by_rows(learner, learner.family.costs(rows[:cut]))
        second = run_by_rows(learner, learner.family.costs(rows[cut:]), state=first.state)
        assert np.array_equal(np.vstack((first.x, second.x)), step.x)
        for one, other in zip(second.state, step.state, strict=True):
            assert np.array_equal(one, other)


def scale_pods(demand, target, seconds, step, most):
    """The HPA's rule, as its documentation has it, for one column."""
    current = 1
    recommended = []
    path = []
    for i, load in enumerate(demand):
        path.append(current)
        ratio = load / current / target
        pods = current if abs(ratio - 1.0) <= 0.1 else math.ceil(current * ratio - 1e-9)
        recommended.append((step * i, min(max(pods, 1), most)))
        recent = [pods for when, pods in recommended if when > step * i - seconds]
        wanted = recommended[-1][1]
        current = wanted if wanted > current else min(current, max(recent))
    return path


@given(
    rows=arrays(np.float64, (40, 2), elements=st.floats(0.0, 30.0)),
    target=st.floats(0.3, 1.2),
    minutes=st.integers(1, 8),
)
def test_a_pod_autoscaler_decides_as_the_hpa(rows, target, minutes):
    box = kl.Box([0.0, 0.0], [20.5, 20.5])
    learner = kl.contrib.PodAutoscaler(box, target, minutes)
    played = kl.run(learner, kl.PinballCosts(rows), engine="step").x
    for i, column in enumerate(rows.T):
        assert played[:, i].tolist() == scale_pods(column, target, 60.0 * minutes, 60.0, 20)


def test_an_ensemble_takes_rules_of_thumb():
    g = rows_for(kl.Linear())
    ensemble = kl.SAder(
        [kl.Fixed(SIMPLEX), kl.LastValue(SIMPLEX), kl.contrib.FollowTheLeader(SIMPLEX)],
        movement=PRICE,
    )
    trace = kl.run(ensemble, g, record="experts", engine="step")
    alone = [
        kl.run(expert, g, movement=PRICE, engine="step").totals.hitting
        for expert in ensemble.experts
    ]
    np.testing.assert_allclose(trace.kept["expert_hitting"].sum(axis=0), alone, rtol=1e-12)


def test_own_movement_of_a_dead_band_is_what_it_was_told():
    learner = kl.DeadBand(SIMPLEX, PRICE, 2.0)
    assert kl.run(learner, rows_for(kl.Linear()), engine="step").movement is PRICE


def test_a_subclass_with_a_step_of_its_own_is_not_played_by_rows():
    class Stubborn(kl.LastValue):
        def step(self, state, g):
            return state._replace(t=state.t + 1)

    trace = kl.run(Stubborn(SIMPLEX), rows_for(kl.Linear()))
    assert trace.engine == "step"
    assert (trace.x == trace.x[0]).all()


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: kl.MovingAverage(SIMPLEX, 0), "window must be an integer of at least 1, got 0. Count it in rounds."),
        (lambda: kl.MovingAverage(SIMPLEX, 10**9), "window must be at most 10000000, got 1000000000."),
        (lambda: kl.contrib.Periodic(SIMPLEX, 2.5), "every must be an integer of at least 1, got 2.5. Count it in rounds."),  # pyright: ignore[reportArgumentType]
        (lambda: kl.MinimumHold(SIMPLEX, 1, -1), "window must be an integer of at least 1, got -1. Count it in rounds."),
        (lambda: kl.DeadBand(SIMPLEX, 1.0, 2.0), "movement must be a Movement such as L2Movement(1.0), got 1.0."),  # pyright: ignore[reportArgumentType]
        (lambda: kl.DeadBand(SIMPLEX, PRICE, 0.0), "horizon must be above 0, got 0.0."),
        (lambda: kl.LastValue(SIMPLEX, family="linear"), "family must be a Family such as Quadratic(), got 'linear'."),  # pyright: ignore[reportArgumentType]
        (lambda: kl.SAder([kl.GD(BOX, 1.0), kl.LastValue(BOX, family=kl.Quadratic())]).init(),
         "The experts of SAder must take gradients, but experts[1].family is Quadratic(). Use contrib.Leader."),
        (lambda: kl.RollingMax(SIMPLEX, 3, family=kl.LogWealth()),
         "family must be one whose rows are demands or targets, such as Pinball(), got LogWealth()."),
        (lambda: kl.RollingMax(SIMPLEX, 3, 0.0), "headroom must be above 0, got 0.0."),
        (lambda: kl.contrib.PodAutoscaler(SIMPLEX), "domain must be a Box, got Simplex(dim=3). Use Box(1.0, 20.0)."),
        (lambda: kl.contrib.PodAutoscaler(kl.Box(0.0, 0.5)), "domain must have room for a whole number of at least 1, got"),
        (lambda: kl.contrib.PodAutoscaler(BOX, family=kl.Quadratic()),
         "family must be Pinball, whose rows are demands, got Quadratic()."),
        (lambda: kl.RollingQuantile(SIMPLEX, 3, 1.2), "q must be from 0 to 1, got 1.2."),
        (lambda: kl.Fixed(3), "domain must be a ConvexSet such as L2Ball(5), got 3."),  # pyright: ignore[reportArgumentType]
        (lambda: kl.Fixed(SIMPLEX, start=[1.0, 1.0, 1.0]), "start must be in Simplex(dim=3), got [1.0, 1.0, 1.0]."),
        (lambda: kl.Pinball([]), "short must be a number or one per coordinate, none negative, got []."),
    ],
)  # fmt: skip
def test_bad_arguments_are_refused(make, complaint):
    with pytest.raises(InvalidInput) as refused:
        make()
    assert str(refused.value).startswith(complaint)


def test_short_runs_go_by_rows_and_long_ones_by_the_kernel():
    """A kernel takes longer to compile than a hundred thousand rounds take by their rows."""
    from klazy.game.run import WORTH_A_KERNEL, is_short

    rule = kl.LastValue(kl.Simplex(3))
    costs = kl.contrib.LinearCosts(np.eye(3))
    assert kl.run(rule, costs).engine == "rows"
    assert is_short(rule, costs, WORTH_A_KERNEL // 3)
    assert not is_short(rule, costs, WORTH_A_KERNEL // 3 + 1)
    assert not is_short(kl.GD(kl.Simplex(3), 1.0), costs)
