"""Limits on what an agent plays: never exceeded, inside the set, charged as played; and the words that explain a move."""

import copy
import itertools
import json
import pickle
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import klazy as kl
from cases import CERTIFIED, EVERY_LEARNER, MOVEMENTS, SETS, gradients, points
from klazy.base.checks import InvalidInput

PRICES = {name: make for name, make in MOVEMENTS.items() if isinstance(make(1).weight, float)}
NORMS = {name: make for name, make in PRICES.items() if name != "fee"}
WHOLE = [
    kl.Box([-1.5, 0.0, 2.2], [1.5, 4.0, 3.7]),
    kl.Simplex(4, 5),
    kl.CappedSimplex(4, 5.0, [1.0, 2.0, 3.0, 4.0], [-1.0, 0.0, 0.0, 1.0]),
    kl.Product([kl.Simplex(3, 4), kl.Box(-2.0, 2.5), kl.CappedSimplex(2, 3.0, 2.0)]),
]
seeds = st.integers(0, 2**16)


def played(agent, g):
    """The points of T + 1 rounds, the learner's own beside them, and the prices of the T moves between."""
    x, own, prices = [agent.x], [agent.state.x], []
    for row in g:
        before = agent.switching
        x.append(agent.update(row))
        own.append(agent.state.x)
        prices.append(agent.switching - before)
    return np.array(x), np.array(own), np.array(prices)


@pytest.mark.parametrize("make", EVERY_LEARNER.values(), ids=EVERY_LEARNER)
def test_without_limits_it_plays_the_learners_points_and_counts_their_movement(make):
    learner, g = make(kl.Simplex(5), kl.Sqrt(3.0)), gradients(0, 30, 5)
    agent, bare, paid = kl.Agent(learner, guards=kl.Guards()), kl.Agent(learner), 0.0
    movement = learner.own_movement
    for row in g:
        x = bare.x
        assert np.array_equal(agent.update(row), bare.update(row))
        paid += float(movement.weight * movement.distance(bare.x - x))
        assert agent.switching == paid


@pytest.mark.parametrize("domain", SETS, ids=repr)
@given(
    movement=st.sampled_from(sorted(PRICES)),
    per_round=st.floats(1e-3, 2.0),
    total=st.floats(1e-3, 20.0),
    hold=st.integers(1, 4),
    seed=seeds,
)
def test_budgets_are_hard_and_the_point_stays_in_the_set(
    domain, movement, per_round, total, hold, seed
):
    cost = PRICES[movement](domain.dim)
    guards = kl.Guards(per_round=per_round, total=total, hold=hold, movement=cost)
    agent = kl.Agent(kl.KLazyGD(domain, 1.0, k=4), engine="step", guards=guards)
    x, own, _ = played(agent, gradients(seed, 12, domain.dim))
    prices = cost.weight * cost.distance(np.diff(x, axis=0))
    assert (prices <= per_round).all()
    assert agent.switching == sum(prices.tolist()) <= total
    assert domain.contains(x)
    changes = np.flatnonzero((np.diff(x, axis=0) != 0.0).any(axis=1))
    assert (np.diff(changes) >= hold).all()
    assert changes.size == 0 or changes[0] >= hold - 1
    bare = kl.Agent(agent.learner, engine="step")
    assert np.array_equal(
        own[-1], [bare.update(row) for row in gradients(seed, 12, domain.dim)][-1]
    )


@given(
    movement=st.sampled_from(sorted(NORMS)),
    limit=st.sampled_from(["per_round", "total"]),
    budget=st.floats(1e-3, 3.0),
    seed=seeds,
)
def test_a_move_that_costs_too_much_goes_straight_and_as_far_as_the_budget_reaches(
    movement, limit, budget, seed
):
    cost = NORMS[movement](3)
    guards = kl.Guards(movement=cost, **{limit: budget})
    agent = kl.Agent(kl.GD(kl.L2Ball(3), 1.0), engine="step", guards=guards)
    x, own, prices = played(agent, gradients(seed, 3, 3))
    left = budget - (
        0.0 if limit == "per_round" else np.concatenate(([0.0], np.cumsum(prices)[:-1]))
    )
    wanted = cost.weight * cost.distance(own[1:] - x[:-1])
    np.testing.assert_allclose(
        prices, np.minimum(left, wanted), atol=4e-6
    )  # the last resort against rounding spares 1e-6
    share = np.divide(prices, wanted, out=np.ones(3), where=wanted > 0)[:, None] ** (
        1.0 / cost.degree
    )
    np.testing.assert_allclose(x[1:], x[:-1] + share * (own[1:] - x[:-1]), atol=1e-9)


@pytest.mark.parametrize("domain", [*SETS, *WHOLE], ids=repr)
@given(up=st.floats(0.3, 3.0), down=st.floats(0.01, 3.0), seed=seeds)
def test_no_coordinate_rises_or_falls_by_more_than_it_may(domain, up, down, seed):
    """On a box each goes as far as it may. Sums may round by their last bit."""
    guards = kl.Guards(up=up, down=down, integers=domain in WHOLE)
    agent = kl.Agent(kl.GD(domain, 1.0), engine="step", guards=guards)
    x, own, _ = played(agent, gradients(seed, 12, domain.dim))
    steps = np.diff(x, axis=0)
    assert steps.max() <= up + 1e-12 * domain.scale
    assert steps.min() >= -down - 1e-12 * domain.scale
    assert domain.contains(x)
    if guards.integers:
        assert (x == x.round()).all()
    elif domain.separable:
        np.testing.assert_array_equal(x[1:], np.clip(own[1:], x[:-1] - down, x[:-1] + up))


def test_limits_of_each_coordinate_are_told_and_explained():
    guards = kl.Guards(up=[4.0, 1.0], down=2)
    assert kl.Guards.from_dict(json.loads(json.dumps(guards.to_dict()))) == guards
    agent = kl.Agent(kl.GD(kl.Box([0.0, 0.0], [9.0, 9.0]), 1.0), guards=guards)
    assert agent.update([-6.0, -6.0]).tolist() == [4.0, 1.0]
    assert "a coordinate may rise by at most [4. 1.] in a round" in str(agent.explain())
    agent.update([9.0, 0.0])
    assert agent.x.tolist() == [2.0, 2.0]
    with pytest.raises(
        InvalidInput, match=r"up must be above 0, got 0\.0\. Leave it out for no limit\."
    ):
        kl.Guards(up=0.0)
    with pytest.raises(InvalidInput, match="down must have shape"):
        kl.Agent(kl.GD(kl.Box(0, 1), 1.0), guards=kl.Guards(down=[1.0, 2.0]))


@given(hold=st.integers(1, 5), seed=seeds)
def test_a_point_is_held_no_longer_than_it_must(hold, seed):
    agent = kl.Agent(kl.GD(kl.L2Ball(3), 4.0), engine="step", guards=kl.Guards(hold=hold))
    x, own, _ = played(agent, gradients(seed, 20, 3))
    since = 0
    for t in range(1, 21):
        free = t - since >= hold
        assert np.array_equal(x[t], own[t] if free else x[t - 1])
        since = t if free and not np.array_equal(x[t], x[t - 1]) else since


@given(fees=st.integers(1, 3), seed=seeds)
def test_a_total_of_switch_fees_is_a_number_of_changes(fees, seed):
    guards = kl.Guards(total=0.3 * fees + 0.1, movement=kl.contrib.SwitchFee(0.3))
    x, own, _ = played(
        kl.Agent(kl.GD(kl.L2Ball(3), 1.0), guards=guards, engine="step"),
        gradients(seed, 20, 3) + 0.1,
    )
    changes = np.flatnonzero((np.diff(x, axis=0) != 0.0).any(axis=1))
    assert len(changes) == fees
    assert np.array_equal(x[changes + 1], own[changes + 1])


@pytest.mark.parametrize("engine", ["compiled", "step"])
@given(start=st.integers(0, 6), length=st.integers(0, 6), seed=seeds)
def test_frozen_it_plays_one_point_and_learns_on(engine, start, length, seed):
    learner, g = kl.KLazyGD(kl.Simplex(5), 2.0, k=4), gradients(seed, 15, 5)
    agent, bare = (
        kl.Agent(learner, engine=engine, guards=kl.Guards()),
        kl.Agent(learner, engine=engine),
    )
    for t, row in enumerate(g):
        frozen = start <= t < start + length
        (agent.freeze if frozen else agent.resume)()
        before = agent.x
        agent.update(row)
        bare.update(row)
        assert np.array_equal(agent.state.x, bare.x)
        assert np.array_equal(agent.x, before if frozen else bare.x)


@pytest.mark.parametrize("engine", ["compiled", "step"])
@given(G=st.floats(0.1, 3.0), seed=seeds)
def test_clipping_is_what_clipped_gradients_would_do(engine, G, seed):
    learner, g = (
        kl.MemoryGD(kl.Simplex(5), 2.0, memory=kl.memories.Decay(4.0)),
        gradients(seed, 8, 5),
    )
    size = np.linalg.norm(g, axis=1, keepdims=True)
    short = np.where(size > G, g * (G / np.maximum(size, G)), g)
    agent, bare = (
        kl.Agent(learner, engine=engine, guards=guards)
        for guards in (kl.Guards(G=G, above="clip"), None)
    )
    for t in range(7):
        np.testing.assert_allclose(
            agent.update(g[t], next_hint=g[t + 1]),
            bare.update(short[t], next_hint=short[t + 1]),
            atol=1e-15,
        )
        assert ("clipped" in str(agent.explain())) == (max(size[t], size[t + 1]) > G)


@pytest.mark.parametrize("engine", ["compiled", "step"])
def test_a_refused_gradient_or_hint_changes_nothing(engine):
    learner = kl.MemoryGD(kl.L2Ball(5), 2.0, memory=kl.memories.Full())
    agent = kl.Agent(learner, engine=engine, guards=kl.Guards(G=1.0))
    agent.update([0.6, 0.8, 0.0, 0.0, 0.0])
    before = repr(agent.explain())
    large = [3.0, 4.0, 0.0, 0.0, 0.0]
    small = [0.0, 1.0, 0.0, 0.0, 0.0]
    for g, next_hint, name in ((large, None, "g"), (small, large, "next_hint")):
        with pytest.raises(
            ValueError,
            match=rf"\|{name}\| must be at most G=1.0, got 5.0. Leave the round out, or use above='clip'.",
        ):
            agent.update(g, next_hint=next_hint)
        assert (agent.t, repr(agent.explain())) == (2, before)


def whole_points(domain):
    """Every whole point of a small set, by trial."""
    grid = np.array(list(itertools.product(range(-3, 6), repeat=domain.dim)), dtype=float)
    return grid[[domain.contains(row) for row in grid]]


@pytest.mark.parametrize("domain", WHOLE[:3], ids=repr)
def test_rounding_gives_a_nearest_whole_point(domain):
    every = whole_points(domain)
    for y in np.random.default_rng(0).normal(scale=4.0, size=(60, domain.dim)):
        x = domain.project(y)
        nearest = domain.nearest_whole(x)
        assert (nearest == every).all(axis=1).any()
        assert np.linalg.norm(nearest - x) <= np.linalg.norm(every - x, axis=1).min() + 1e-9


@pytest.mark.parametrize("domain", WHOLE, ids=repr)
@given(
    movement=st.sampled_from(sorted(PRICES)),
    per_round=st.floats(0.3, 6.0),
    total=st.floats(1.0, 30.0),
    seed=seeds,
)
def test_whole_points_within_budgets(domain, movement, per_round, total, seed):
    cost = PRICES[movement](domain.dim)
    guards = kl.Guards(integers=True, per_round=per_round, total=total, movement=cost)
    x, _, _ = played(
        agent := kl.Agent(kl.GD(domain, 0.5), engine="step", guards=guards),
        gradients(seed, 12, domain.dim),
    )
    prices = cost.weight * cost.distance(np.diff(x, axis=0))
    assert np.array_equal(x, np.rint(x))
    assert domain.contains(x)
    assert (prices <= per_round).all()
    assert agent.switching == sum(prices.tolist()) <= total


@pytest.mark.parametrize("domain", WHOLE, ids=repr)
@given(units=st.integers(1, 5), seed=seeds)
def test_in_units_it_arrives(domain, units, seed):
    """Where the learner stays, the whole point beside it is reached, however small the budget, if it pays for a unit."""
    g = np.random.default_rng(seed).normal(size=domain.dim)
    guards = kl.Guards(integers=True, per_round=units, movement=kl.TVMovement())
    agent = kl.Agent(kl.LazyGD(domain, 1e-6), engine="step", guards=guards)
    for _ in range(15):
        agent.update(g)
    assert np.array_equal(agent.x, domain.nearest_whole(agent.state.x))


@pytest.mark.parametrize("domain", WHOLE[:3], ids=repr)
def test_a_rounding_error_away_from_a_whole_point_is_rounded_to_it(domain):
    for x in whole_points(domain):
        for dust in np.random.default_rng(0).uniform(-1e-11, 1e-11, size=(5, domain.dim)):
            assert np.array_equal(domain.nearest_whole(x + dust), x)


@given(x=points(4, size=3.0), seed=seeds)
def test_rounding_is_charged_as_played(x, seed):
    domain = kl.Simplex(4, 7)
    guards = kl.Guards(integers=True, movement=kl.L1Movement())
    agent = kl.Agent(kl.GD(domain, 2.0, start=domain.project(x)), engine="step", guards=guards)
    points_played, own, prices = played(agent, gradients(seed, 10, 4))
    assert np.array_equal(points_played, [domain.nearest_whole(row) for row in own])
    assert np.array_equal(prices, np.abs(np.diff(points_played, axis=0)).sum(axis=1))


MARGIN_SETS = [
    kl.Box([0.0, -1.0, 0.0], [1.0, 1.0, 0.5]),
    kl.Simplex(3),
    kl.L1Ball(3),
    kl.L1Ball(1, 2.0),
    kl.L2Ball(1),
    kl.Simplex(1),
]


@pytest.mark.parametrize("domain", MARGIN_SETS, ids=repr)
@given(
    name=st.sampled_from(sorted(CERTIFIED)),
    sigma=st.sampled_from([kl.Constant(0.7), kl.Sqrt(3.0)]),
    T=st.integers(1, 9),
    seed=seeds,
)
def test_the_margin_is_the_least_gradient_that_moves_the_point(domain, name, sigma, T, seed):
    agent = kl.Agent(CERTIFIED[name](domain, sigma), engine="step")
    for row in gradients(seed, T, domain.dim):
        agent.update(row - 1.0)
    x, margin, drift = agent.x, agent.explain().margin, agent.explain().drift
    assert np.linalg.norm(copy.copy(agent).update(np.zeros(domain.dim)) - x) == pytest.approx(
        drift, abs=1e-11
    )
    axes = np.eye(domain.dim)
    worst = [
        *axes,
        *(a + b for a, b in itertools.permutations(np.vstack((axes, -axes)), 2)),
    ]  # what moves vertices first
    around = [
        *(sign * g for g in worst for sign in (1.0, -1.0)),
        *np.random.default_rng(seed).normal(size=(5, domain.dim)),
    ]
    around = np.array([g / np.linalg.norm(g) for g in around if g.any()])
    below, above = (
        max(
            np.abs(copy.copy(agent).update(share * min(margin, 1e6) * g) - x).max()
            for g in around
        )
        for share in (0.999, 1.001)
    )
    assert below <= 1e-9 or margin == 0.0
    assert (
        above > 0.0 or margin < 1e-9 or margin == np.inf
    )  # a thousandth of less is lost in rounding
    if margin == np.inf:  # a set of one point
        assert domain.diameter == 0.0


@pytest.mark.parametrize("k", [1, 3, 4])
def test_the_point_is_rebuilt_from_the_gradients_that_explain_names(k):
    learner, g = kl.KLazyGD(kl.Simplex(5), 2.0, k=k), gradients(1, 12, 5)
    agent, x = kl.Agent(learner), []
    for t, row in enumerate(g, start=1):
        x.append(agent.x)
        agent.update(row)
        why: Any = agent.explain()
        assert why.since == t - (t - 1) % k
        y = x[why.since - 1] - g[why.since - 1 : t].sum(axis=0) / 2.0
        np.testing.assert_allclose(agent.x, learner.domain.project(y), atol=1e-12)
        if t % k:  # within a phase the next step starts from the same unconstrained point
            np.testing.assert_allclose(why.y, y, atol=1e-12)
            np.testing.assert_allclose(why.normal, 2.0 * (y - agent.x), atol=1e-12)


def test_the_words():
    guards = kl.Guards(G=5.0, above="clip", integers=True, per_round=2.0, total=3.0)
    agent = kl.Agent(kl.GD(kl.Box([0, 0], [9, 9]), 1.0), engine="step", guards=guards)
    agent.update([-6.0, -8.2])
    assert repr(agent.explain()) == (
        "Round 2 plays [1. 1.].\n"
        "The learner's own point is [2.9525 4.0352], 3.609 away.\n"
        "It was made from the point of round 1 and the gradient of that round.\n"
        "Any gradient, however small, may move it.\n"
        "Guards acted on the last move: the gradient was clipped to G=5; the point was rounded to whole numbers; "
        "the move was cut to the round's budget 2; the move was cut to what is left of the total budget 3.\n"
        "The last move cost 2, all moves together 2."
    )
    agent.freeze()
    assert "The agent is frozen." in repr(agent.explain())


class Hurried(kl.KLazyGD):
    """It may compute something else, so nothing that its parent says about its steps holds for it."""

    def step(self, state, g):
        return super().step(super().step(state, g), g)._replace(t=state.t + 1)


class Twice:
    def step(self, state, g):
        return kl.KLazyGD.step(self, state, 2.0 * g)  # pyright: ignore[reportArgumentType]


class Mixed(Twice, kl.KLazyGD):  # pyright: ignore[reportIncompatibleMethodOverride]
    """The same with a step from elsewhere."""


class Renamed(kl.KLazyGD):
    """The parent's algorithm by another name."""


class Said(Hurried):
    """It says itself what its parent leaves open."""

    form = "anchored"
    phase_length = kl.KLazyGD.phase_length  # pyright: ignore[reportIncompatibleMethodOverride]


class Moody(kl.memories.Clock):
    def theta(self, t, raw):
        return 0.5


@pytest.mark.parametrize("kind", [Hurried, Mixed, Renamed, Said])
def test_what_a_class_says_about_its_step_holds_for_a_subclass_that_keeps_it(kind):
    agent = kl.Agent(kind(kl.Box([0, 0], [1, 1]), 1.0, k=4), engine="step")
    for _ in range(3):
        agent.update([-1.0, -2.0])
    why = agent.explain()
    if kind in (Renamed, Said):
        assert (why.since, why.margin > 0.0) == (1, True)
    else:
        assert (why.since, why.y, why.normal) == (None, None, None)
        assert np.isnan([why.drift, why.margin]).all()
        assert (
            f"How much {kind.__name__} remembers of the rounds up to 3 depends on their gradients."
            in why.words
        )


def test_a_memory_with_a_theta_of_its_own_has_no_clock():
    agent = kl.Agent(kl.MemoryGD(kl.L2Ball(2), 1.0, memory=Moody(2)), engine="step")
    agent.update([1.0, 0.0])
    assert agent.explain().since is None
    words = "How much MemoryGD remembers of the rounds up to 1 depends on their gradients."
    assert words in agent.explain().words


@pytest.mark.parametrize("make", EVERY_LEARNER.values(), ids=EVERY_LEARNER)
def test_every_learner_is_explained(make):
    agent = kl.Agent(make(kl.L2Ball(3), kl.ScaleFree(2.0)), engine="step")
    for row in (np.zeros(3), *gradients(2, 5, 3)):
        assert repr(agent.explain()).startswith(f"Round {agent.t} plays [")
        agent.update(row)


@pytest.mark.parametrize(
    "copied",
    [copy.deepcopy, lambda a: pickle.loads(pickle.dumps(a)), "file"],
    ids=["copy", "pickle", "file"],
)
@pytest.mark.parametrize("engine", ["compiled", "step"])
def test_guards_and_ids_survive_a_copy(copied, engine, tmp_path):
    guards = kl.Guards(
        per_round=0.1, total=0.5, hold=2, G=1.0, above="clip", movement=kl.L1Movement(2.0)
    )
    agent, g = (
        kl.Agent(kl.KLazyGD(kl.Simplex(5), 2.0, k=4), engine=engine, guards=guards),
        gradients(3, 12, 5),
    )
    for t, row in enumerate(g[:5]):
        agent.update(row, id=t)
    agent.freeze()
    agent.save(tmp_path / "agent.json")
    twin = kl.Agent.load(tmp_path / "agent.json") if copied == "file" else copied(agent)
    assert np.array_equal(twin.update(g[9], id=4), agent.x)
    for each in (agent, twin):
        each.update(g[5])
        each.resume()
        for row in g[6:]:
            each.update(row)
    assert np.array_equal(agent.x, twin.x)
    assert (repr(agent), agent.switching, repr(agent.explain())) == (
        repr(twin),
        twin.switching,
        repr(twin.explain()),
    )


GD = kl.GD(kl.L2Ball(3), 1.0)
REFUSED = {
    "G must be above 0, got 0.0. Leave it out for no limit.": lambda: kl.Guards(G=0.0),
    "per_round must be above 0, got -1. Leave it out for no limit.": lambda: kl.Guards(
        per_round=-1
    ),
    "total must be a finite number, got inf.": lambda: kl.Guards(total=np.inf),
    "hold must be an integer of at least 1, got 0. Use hold=1 for a change in any round.": lambda: (
        kl.Guards(hold=0)
    ),
    "above must be one of 'reject', 'clip', got 'cut'.": lambda: kl.Guards(above="cut"),
    "movement must have a single weight, got L2Movement(weight=[1.0, 2.0]). Use L2Movement(1.0).": (
        lambda: kl.Guards(movement=kl.L2Movement([1.0, 2.0]))
    ),
    "The set must be a Box, Simplex, CappedSimplex or Product of these for integers, got L2Ball(dim=3).": (
        lambda: in_whole_numbers(kl.L2Ball(3))
    ),
    "The set must be a Box, Simplex, CappedSimplex or Product of these for integers, got L1Ball(dim=2).": (
        lambda: in_whole_numbers(kl.Product([kl.Simplex(2, 3), kl.L1Ball(2)]))
    ),
    "Total, caps and floors must be integers, got Simplex(dim=3, total=2.5). Use smaller units.": (
        lambda: in_whole_numbers(kl.Simplex(3, 2.5))
    ),
    (
        "Total, caps and floors must be integers, got CappedSimplex(dim=3, total=2.0, cap=1.5). Use "
        "smaller units."
    ): (lambda: in_whole_numbers(kl.CappedSimplex(3, 2.0, 1.5))),
    "Box(lower=[0.2], upper=[0.8]) has a side without an integer. Widen the box.": (
        lambda: in_whole_numbers(kl.Box(0.2, 0.8))
    ),
    "guards must be Guards, got 3. Use Guards(per_round=0.1).": lambda: kl.Agent(GD, guards=3),  # pyright: ignore
    "freeze needs an agent with guards. Build it with guards=Guards().": lambda: kl.Agent(
        GD, engine="step"
    ).freeze(),
    "switching needs an agent with guards. Build it with guards=Guards().": lambda: (
        kl.Agent(GD, engine="step").switching
    ),
    "up must have shape (3,), got (2,).": (
        lambda: kl.Agent(
            GD, guards=kl.Guards(movement=kl.contrib.AsymmetricMovement(up=[1.0, 2.0]))
        )
    ),
}


def in_whole_numbers(domain):
    return kl.Agent(kl.GD(domain, 1.0), engine="step", guards=kl.Guards(integers=True))


@pytest.mark.parametrize("message", REFUSED)
def test_refused_with_a_sentence_that_helps(message):
    with pytest.raises(ValueError, match=re.escape(message)):
        REFUSED[message]()


@pytest.mark.parametrize(
    "guards",
    [
        kl.Guards(),
        kl.Guards(per_round=0.1),
        kl.Guards(total=0.5, hold=3),
        kl.Guards(G=1.0, above="clip"),
    ],
    ids=repr,
)
@given(seed=seeds)
def test_a_run_with_guards_plays_what_an_agent_with_them_would(guards, seed):
    learner, g = kl.KLazyGD(kl.Simplex(5), 2.0, k=4), gradients(seed, 15, 5)
    trace = kl.run(learner, g, guards=guards)
    agent = kl.Agent(learner, guards=guards, engine="step")
    x, own, _ = played(agent, g)
    assert np.array_equal(trace.x, x[:-1])
    assert np.array_equal(trace.wanted, own[:-1])
    assert trace.totals.switching == pytest.approx(
        float(kl.TVMovement().paid(x[:-1]).sum()), rel=1e-12
    )
    assert trace.totals.hitting == pytest.approx(float((g * x[:-1]).sum()), rel=1e-12, abs=1e-12)


def test_whole_numbers_are_judged_before_they_go_live():
    costs = kl.PinballCosts([[3.4], [4.2], [1.1], [2.0]], short=4.0)
    trace = kl.run(kl.GD(kl.Box(0.0, 9.0), 1.5), costs, guards=kl.Guards(integers=True))
    assert (trace.x == np.rint(trace.x)).all()
    assert not (trace.wanted == np.rint(trace.wanted)).all()
    gradients_played = [costs.subgradient(t, x) for t, x in enumerate(trace.x, start=1)]
    own = kl.run(kl.GD(kl.Box(0.0, 9.0), 1.5), np.array(gradients_played), engine="step")
    assert np.array_equal(trace.wanted, own.x)


GUARDED = {
    "guards must be Guards such as Guards(per_round=0.1), got 3.": {"guards": 3},
    "engine='compiled' does not know guards. Use engine='auto'.": {
        "guards": kl.Guards(), "engine": "compiled",
    },
    "guards.movement must be that of the run, L2Movement(), got L1Movement(). Leave it out.": {
        "guards": kl.Guards(movement="l1"),
    },
    "|g| must be at most G=0.5, got 1.4142135623730951. Leave the round out, or use above='clip'.": {
        "guards": kl.Guards(G=0.5)
    },
    "movement must have a single weight, got L2Movement(weight=[1.0, 2.0]). Use L2Movement(1.0).": {
        "guards": kl.Guards(total=1.0), "movement": kl.L2Movement([1.0, 2.0]),
    },
}  # fmt: skip


@pytest.mark.parametrize("message", GUARDED)
def test_guards_that_do_not_fit_a_run_are_refused(message):
    with pytest.raises(ValueError, match=re.escape(message)):
        kl.run(kl.GD(kl.L2Ball(2), 1.0), np.ones((2, 2)), **GUARDED[message])


def test_nothing_is_certified_of_a_run_with_guards():
    trace = kl.run(kl.GD(kl.L2Ball(2), 1.0), np.ones((4, 2)), guards=kl.Guards(total=0.1))
    for certify in (lambda: kl.theory.certify(trace, np.zeros(2)), trace.diagnose):
        with pytest.raises(
            ValueError,
            match=r"trace must be of a run without guards, got one with Guards\(total=0.1, movement=L2Movement\(\)\).",
        ):
            certify()
