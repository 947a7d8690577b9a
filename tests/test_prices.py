"""Prices of moving that change by round: told to learners with the round before, charged, proved, replayed and served."""

from itertools import product

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import klazy as kl
from command import call_klazy
from klazy.base.checks import InvalidInput
from klazy.kernels.layout import find_missing_part
from klazy.theory import certify_experts
from served import run_service

SETS = {
    "ball": (kl.L2Ball(5), kl.L2Movement),
    "simplex": (kl.Simplex(5), kl.TVMovement),
    "box": (kl.Box(np.zeros(5), np.ones(5)), kl.L1Movement),
}
seeds = st.integers(0, 2**32 - 1)


def experts_on(domain, movement):
    descents = [kl.GD(domain, sigma) for sigma in (0.3, 2.0, 20.0)]
    return [*descents, kl.LazyGD(domain, 2.0), kl.contrib.Reluctant(domain, movement, 4, 8)]


def play(place, make, seed, T=60):
    """Play a learner whose prices change by round, some of which are zero."""
    domain, kind = SETS[place]
    rng = np.random.default_rng(seed)
    prices = rng.choice([0.0, 0.1, 1.0, 5.0], T) * rng.uniform(0.5, 2.0, T)
    g = rng.normal(size=(T, 5))
    learner = make(experts_on(domain, kind(0.7)), kind(0.7))
    return kl.run(learner, g, movement=kind(prices), record="experts", engine="step")


MAKERS = {
    "self-tuned": lambda experts, movement: kl.SAder(experts, movement=movement),
    "fixed rate": lambda experts, movement: kl.SAder(experts, 0.3, movement=movement),
    "leader": kl.contrib.Leader,
}


@given(place=st.sampled_from(list(SETS)), name=st.sampled_from(list(MAKERS)), seed=seeds)
def test_no_ensemble_costs_more_than_its_bound_where_prices_change(place, name, seed):
    trace = play(place, MAKERS[name], seed)
    assert (certify_experts(trace).slack >= -1e-9).all()


@given(place=st.sampled_from(list(SETS)), seed=seeds)
def test_an_ensembles_moves_cost_at_most_those_of_its_experts_and_its_weights(place, seed):
    found = play(place, MAKERS["self-tuned"], seed).diagnose()
    assert (found.switching <= found.experts + found.reweighting + 1e-9).all()


@pytest.mark.parametrize("name", MAKERS)
def test_experts_are_charged_the_price_of_the_round_of_their_move(name):
    """Each expert plays for itself as the leader has it play; its moves are charged at the prices of their rounds."""
    trace = play("box", MAKERS[name], 3)
    own = np.random.default_rng(3)
    prices = own.choice([0.0, 0.1, 1.0, 5.0], 60) * own.uniform(0.5, 2.0, 60)
    free = prices == 0.0
    assert free.any()
    assert (trace.expert_switching[free] == 0.0).all()
    assert (trace.expert_switching[~free] > 0.0).any()


@pytest.mark.parametrize("place", SETS)
def test_equal_prices_by_round_are_one_price(place):
    domain, kind = SETS[place]
    g = np.random.default_rng(0).normal(size=(80, 5))
    learner = kl.auto(domain, kind(0.5))
    several = kl.run(learner, g, movement=kind(np.full(80, 0.5)), engine="step")
    one = kl.run(learner, g, movement=kind(0.5), engine="step")
    np.testing.assert_array_equal(several.x, one.x)
    np.testing.assert_array_equal(several.switching, one.switching)


@pytest.mark.parametrize("place", SETS)
def test_a_constant_multiple_of_the_usual_price_is_that_price(place):
    """auto made for a price of 1 and told 2 in every round plays as auto made for 2."""
    domain, kind = SETS[place]
    g = np.random.default_rng(1).normal(size=(60, 5))
    told = kl.run(kl.auto(domain, kind(1.0)), g, movement=kind(np.full(60, 2.0)), engine="step")
    made = kl.run(kl.auto(domain, kind(2.0)), g, engine="step")
    np.testing.assert_array_equal(told.x, made.x)


def test_demands_and_seasons_are_weighed_at_the_price_of_the_round():
    rows = 20.0 + 10.0 * np.sin(np.arange(90)[:, None] / 3.0)
    domain = kl.Box(0, 50)
    costs = kl.PinballCosts(rows, 4.0)
    family = kl.Pinball(4.0)
    told = kl.run(kl.auto(domain, "l1", family), costs, movement=kl.L1Movement(np.full(90, 3.0)))
    made = kl.run(kl.auto(domain, kl.L1Movement(3.0), family), costs, engine="step")
    np.testing.assert_array_equal(told.x, made.x)


def test_a_price_is_told_before_the_move_that_it_is_for():
    """Moving is free into round 3 alone, and a learner that is reluctant moves then, not before."""
    learner = kl.contrib.Reluctant(kl.Box(0, 1), "l1", window=1, horizon=1)
    prices = [9.0, 9.0, 0.0, 9.0, 9.0]
    trace = kl.run(learner, -np.ones((5, 1)), movement=kl.L1Movement(prices))
    assert trace.x.ravel().tolist() == [0.0, 0.0, 1.0, 1.0, 1.0]
    assert trace.totals.switching == 0.0


def test_a_run_in_two_parts_is_one_run_if_it_knows_the_price_after_each():
    """The price of the move after the last round is one more price, which is told but not charged."""
    rng = np.random.default_rng(5)
    g = rng.normal(size=(40, 3))
    prices = rng.uniform(0.1, 3.0, 40)
    learner = kl.auto(kl.Simplex(3), "tv")
    whole = kl.run(learner, g, movement=kl.TVMovement(prices), engine="step")
    first = kl.run(learner, g[:25], movement=kl.TVMovement(prices[:26]), engine="step")
    options = {"movement": kl.TVMovement(prices[25:]), "state": first.state, "x0": first.x[-1]}
    second = kl.run(learner, g[25:], engine="step", **options)
    np.testing.assert_array_equal(np.concatenate((first.x, second.x)), whole.x)
    assert len(first.switching) == 25
    np.testing.assert_allclose(
        first.totals.switching + second.totals.switching, whole.totals.switching, rtol=1e-12
    )


# A kernel takes seconds to compile: auto meets every set, whose kernels other tests need, and the others one.
@pytest.mark.parametrize(
    ("place", "kind"),
    [*((place, "auto") for place in SETS), ("ball", "Reluctant"), ("box", "SAder")],
)
def test_a_kernel_plays_each_round_at_its_price_as_step_does(place, kind):
    domain, move = SETS[place]
    learner = {
        "auto": kl.auto(domain, move(0.5)),
        "Reluctant": kl.contrib.Reluctant(domain, move(2.0), 4, 8),
        "SAder": kl.SAder(experts_on(domain, move(2.0)), movement=move(0.5)),
    }[kind]
    rng = np.random.default_rng(7)
    g = rng.normal(size=(150, 5))
    movement = move(rng.uniform(0.2, 3.0, 150))
    kernel = kl.run(learner, g, movement=movement)
    step = kl.run(learner, g, movement=movement, engine="step")
    assert (kernel.engine, step.engine) == ("compiled", "step")
    # On a ball both search for a multiplier, and rounding errors of 150 rounds add up.
    np.testing.assert_allclose(kernel.x, step.x, atol=1e-10)
    np.testing.assert_allclose(kernel.switching, step.switching, atol=1e-10)
    half = kl.run(learner, g[:70], movement=move(movement.weight[:71]))
    options = {"movement": move(movement.weight[70:]), "state": half.state}
    np.testing.assert_allclose(kl.run(learner, g[70:], **options).x, kernel.x[70:], atol=1e-10)


def test_what_is_no_multiple_of_the_price_has_no_such_kernel():
    """The band of a stock is none, and a price of zero has rules of its own."""
    movement = kl.L1Movement([1.0, 2.0, 3.0])
    learner = kl.auto(kl.Box(0, 50), "l1", kl.Pinball(4.0))
    trace = kl.run(learner, kl.PinballCosts(np.ones((3, 1)), 4.0), movement=movement)
    assert trace.engine == "step"
    free = kl.run(kl.auto(kl.Box(0, 1), "l1"), np.ones((3, 1)), movement=kl.L1Movement([1, 2, 0]))
    assert free.engine == "step"
    with pytest.raises(ValueError, match="does not know Leader with prices that change by round"):
        kl.run(
            learner,
            kl.PinballCosts(np.ones((3, 1)), 4.0),
            movement=movement,
            engine="compiled",
        )


def test_batches_tell_prices_as_runs_do():
    learners = [kl.contrib.Reluctant(kl.Simplex(5), "tv", w, 8) for w in (1, 4)]
    rng = np.random.default_rng(2)
    g = rng.normal(size=(50, 5))
    movement = kl.TVMovement(rng.uniform(0.2, 3.0, 50))
    found = kl.run_batch(learners, g, movement=movement)
    runs = kl.run_many(learners, g, movement=movement)
    expected = [run.totals.cost for run in runs]
    np.testing.assert_allclose(np.ravel(found.cost), expected, rtol=1e-12)


def test_learners_without_a_price_are_charged_and_not_told():
    learner = kl.GD(kl.Simplex(3), 2.0)
    assert learner.reprice(3.0) is learner
    assert learner.usual_price is None
    assert find_missing_part(learner, kl.TVMovement([1.0, 2.0])) is None


def test_a_repriced_learner_is_the_one_made_for_that_price():
    for domain, kind in SETS.values():
        learner = kl.auto(domain, kind(0.5))
        # What was computed for the old price must not stay.
        kl.run(learner, np.ones((3, 5)), engine="step")
        assert learner.reprice(4.0) == kl.auto(domain, kind(2.0))
        assert learner.usual_price == 0.5


def test_a_learner_made_for_no_price_has_no_multiple_of_it():
    learner = kl.auto(kl.Simplex(3), kl.TVMovement(0.0))
    with pytest.raises(ValueError, match=r"Make it with a movement of their usual price\."):
        kl.run(learner, np.ones((2, 3)), movement=kl.TVMovement([1.0, 2.0]))


@pytest.mark.parametrize("place", SETS)
@pytest.mark.parametrize("with_start", [False, True])
def test_the_optimum_at_prices_by_round_is_that_of_cvxpy(place, with_start):
    """The oracle states the problem by itself, and its first round is free without x0."""
    domain, kind = SETS[place]
    rng = np.random.default_rng(11)
    T = 12
    g = rng.normal(size=(T, 5))
    prices = rng.choice([0.0, 0.3, 2.0], T) * rng.uniform(0.5, 2.0, T)
    x0 = np.full(5, 0.2) if with_start else None
    u = cp.Variable((T, 5))
    norm = cp.norm2 if place == "ball" else cp.norm1
    share = 0.5 if place == "simplex" else 1.0
    within = {
        "ball": [cp.norm(u, axis=1) <= 1.0],
        "simplex": [u >= 0.0, cp.sum(u, axis=1) == 1.0],
        "box": [u >= 0.0, u <= 1.0],
    }[place]
    moves = [prices[t] * share * norm(u[t] - u[t - 1]) for t in range(1, T)]
    if with_start:
        moves.append(prices[0] * share * norm(u[0] - x0))
    oracle = cp.Problem(cp.Minimize(cp.sum(cp.multiply(g, u)) + sum(moves)), within)
    oracle.solve(solver="CLARABEL")
    found = kl.offline_optimum(g, domain, kind(prices), x0=x0, gap=1e-6)
    assert found.cost == pytest.approx(oracle.value, abs=1e-5 * max(1.0, abs(oracle.value)))
    assert found.lower_bound <= oracle.value + 1e-6
    trace = kl.run(kl.auto(domain, kind(1.0)), g, movement=kind(prices), x0=x0, engine="step")
    assert trace.totals.cost >= found.lower_bound


def test_whole_numbers_at_prices_by_round_are_the_best_of_all():
    rng = np.random.default_rng(3)
    prices = rng.choice([0.0, 0.5, 3.0], 6)
    costs = kl.PinballCosts(rng.uniform(0.0, 3.0, (6, 1)), 2.0)
    found = kl.offline_optimum(costs, kl.Box(0, 3), kl.L1Movement(prices), integers=True)
    movement = kl.L1Movement(prices)
    paths = np.array(list(product(range(4), repeat=6)), dtype=float)[:, :, None]
    paid = [float(costs.values(u).sum() + movement.paid(u).sum()) for u in paths]
    assert found.cost == pytest.approx(min(paid), rel=1e-12)


def test_a_frontier_measures_paths_at_the_prices_of_their_rounds():
    """At a path length that is the optimum's own, the best hitting cost is the optimum's."""
    rng = np.random.default_rng(4)
    g = rng.normal(size=(15, 3))
    movement = kl.TVMovement(rng.uniform(0.2, 2.0, 15))
    best = kl.offline_optimum(g, kl.Simplex(3), movement)
    low, high = kl.frontier(g, kl.Simplex(3), movement, gap=1e-6).best(best.switching)
    assert low - 1e-6 <= best.hitting <= high + 1e-6
    assert kl.best_fixed(g, kl.Simplex(3)).cost >= best.lower_bound


# ---- agents


def observe_all(agent, rows, prices):
    """Observe rows, each with the price of the move after it; return the decisions."""
    return np.array(
        [
            agent.observe(row, next_move_cost=price)
            for row, price in zip(rows, prices[1:], strict=True)
        ]
    )


@pytest.mark.parametrize("engine", ["step", "auto"])
@pytest.mark.parametrize("kind", ["auto", "GD", "demand"])
def test_an_agent_plays_and_pays_what_a_run_does(kind, engine, tmp_path):
    """With demands no kernel knows the price, and a price of zero is not known to any."""
    rng = np.random.default_rng(1)
    d = 1 if kind == "demand" else 5  # replays of demands have the same kernels
    rows = rng.uniform(0.0, 9.0, size=(25, d))
    prices = rng.choice([0.0, 0.5, 4.0], 26) * rng.uniform(0.5, 2.0, 26)
    domain = kl.Box(np.zeros(d), np.full(d, 9.0))
    family, learner = {
        "auto": (kl.Linear(), kl.auto(domain, kl.L1Movement(2.0))),
        "GD": (kl.Quadratic(), kl.GD(domain, 3.0)),
        "demand": (kl.Pinball(3.0), kl.auto(domain, kl.L1Movement(2.0), kl.Pinball(3.0))),
    }[kind]
    options = {"costs": family, "movement": kl.L1Movement(2.0), "engine": engine}
    trace = kl.run(learner, family.costs(rows), movement=kl.L1Movement(prices), engine="step")
    agent = kl.Agent(learner, **options)
    x = observe_all(agent, rows, prices)
    np.testing.assert_allclose(x[:-1], trace.x[1:], atol=1e-10)
    last = prices[-1] * np.abs(x[-1] - x[-2]).sum()
    assert agent.switching == pytest.approx(trace.totals.switching + last, rel=1e-9)

    file = tmp_path / "decisions.db"
    with kl.Agent.open(file, learner, **options) as stored:
        assert np.array_equal(observe_all(stored, rows, prices), x)
        # The process is killed: there is no snapshot, so that rounds are played again.
        with kl.Agent.open(file, read_only=True) as other:
            assert np.array_equal(other.x, x[-1])
            assert other.switching == agent.switching
    assert call_klazy("check", file).status == 0
    agent.save(tmp_path / "agent.json")
    again = kl.Agent.load(tmp_path / "agent.json")
    assert np.array_equal(again.observe(rows[0]), agent.observe(rows[0]))


def test_a_price_goes_with_limits_and_counts_in_budgets():
    """A budget of 1 allows a move of 0.25 at a price of 4, and all of it at a price of 1."""
    learner = kl.GD(kl.Box(0, 1), 0.1)
    for price, x in ((4.0, 0.25), (1.0, 0.9)):
        agent = kl.Agent(learner, guards=kl.Guards(total=1.0, movement="l1"))
        agent.update([-1.0], next_limits=(None, 0.9), next_move_cost=price)
        assert agent.x.tolist() == [pytest.approx(x)]
        assert agent.switching == pytest.approx(price * x)


def test_a_price_holds_for_one_move():
    agent = kl.Agent(kl.GD(kl.Box(0, 1), 2.0), costs=kl.Linear(), movement="l1")
    agent.observe([-1.0], next_move_cost=3.0)
    assert agent.switching == 1.5
    agent.observe([-1.0])
    assert agent.switching == 2.0


PRICES_REFUSED = {
    "next_move_cost must not be negative, got -1.": lambda agent: agent.observe(
        [1.0, 0.0], next_move_cost=-1
    ),
    "Late feedback leads to no move that next_move_cost could price. Leave it out.": (
        lambda agent: agent.observe([1.0, 0.0], round=1, next_move_cost=1.0)
    ),
}


@pytest.mark.parametrize("message", PRICES_REFUSED)
def test_a_price_of_an_agent_that_does_not_fit_changes_nothing(message):
    learner = kl.contrib.Delayed(kl.GD(kl.Simplex(2), 2.0))
    agent = kl.Agent(learner, costs=kl.Linear())
    agent.advance()
    with pytest.raises(InvalidInput) as found:
        PRICES_REFUSED[message](agent)
    assert str(found.value) == message
    assert agent.t == 2


def test_a_price_is_refused_where_the_next_move_is_not_decided_now():
    agent = kl.Agent(kl.GD(kl.Simplex(2), 2.0), costs=kl.Linear(), lead=1)
    with pytest.raises(InvalidInput, match="With lead or delay that is an earlier decision's"):
        agent.observe([1.0, 0.0], next_move_cost=1.0)


def test_a_service_takes_the_price_of_the_next_move(tmp_path):
    learner = kl.auto(kl.Simplex(5), kl.TVMovement(2.0))
    options = {"costs": kl.Linear(), "columns": list("abcde")}
    rng = np.random.default_rng(3)
    rows = rng.uniform(size=(6, 5))
    prices = rng.uniform(0.0, 3.0, 6)
    own = kl.Agent(learner, **options)
    with run_service(tmp_path) as served:
        client = served.client()
        remote = client.agent("shares", learner, **options)
        plain = client.agent("gradients", learner)
        for row, price in zip(rows.tolist(), prices.tolist(), strict=True):
            given = {"next_move_cost": price}
            assert remote.observe(row, **given) == own.observe(row, **given)
        plain.update([1.0, 0.0, 0.0, 0.0, 0.0], next_move_cost=0.5)
        assert remote.history()["switching"].sum() == pytest.approx(own.switching)
        body = {"row": rows[0].tolist(), "next_move_cost": 2}
        assert served.ask("POST", "/agents/shares/observe", body).status_code == 200
        with pytest.raises(ValueError, match="next_move_cost must not be negative"):
            remote.observe(rows[0], next_move_cost=-2.0)
    assert call_klazy("check", tmp_path / "decisions.db").status == 0
