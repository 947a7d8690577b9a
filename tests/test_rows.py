"""Agents that take rows: what they pay, what they refuse, and what of it files and stores keep."""

import itertools
import json
import sqlite3

import numpy as np
import pytest

import klazy as kl
from klazy.base.checks import InvalidInput
from klazy.live.inspection import check_store
from klazy.live.store import open_store

DIM = 3
COLUMNS = ["eu", "us", "asia"]
SIMPLEX = kl.Simplex(DIM)
TV = kl.TVMovement(0.3)
COSTS = {
    "linear": (kl.Linear(), kl.contrib.LinearCosts),
    "quadratic": (kl.Quadratic(), kl.QuadraticCosts),
    "pinball": (kl.Pinball(3.0, 1.0), lambda rows: kl.PinballCosts(rows, 3.0, 1.0)),
    "log-wealth": (kl.LogWealth(), kl.LogWealthCosts),
}
MAKERS = {
    "GD": lambda family: kl.GD(SIMPLEX, 2.0),
    "k-lazyGD": lambda family: kl.KLazyGD(SIMPLEX, 2.0, k=4),
    "ensemble": lambda family: kl.contrib.Leader(
        [kl.LastValue(SIMPLEX, family=family), kl.GD(SIMPLEX, 2.0)], TV, family=family
    ),
    "reluctant": lambda family: kl.contrib.Reluctant(SIMPLEX, TV, 3, 2.0, family=family),
    "fixed": lambda family: kl.Fixed(SIMPLEX, start=[0.0, 1.0, 0.0]),
    "moving average": lambda family: kl.MovingAverage(SIMPLEX, 3, family=family),
    "last value": lambda family: kl.LastValue(SIMPLEX, family=family),
    "leader": lambda family: kl.contrib.FollowTheLeader(SIMPLEX, family=family),
    "periodic": lambda family: kl.contrib.Periodic(SIMPLEX, 3, 4, family=family),
    "hold": lambda family: kl.MinimumHold(SIMPLEX, 3, 4, family=family),
    "dead band": lambda family: kl.DeadBand(SIMPLEX, TV, 3.0, 4, family=family),
}
ROWS = np.random.default_rng(7).uniform(0.2, 1.5, (12, DIM))


@pytest.fixture
def file(tmp_path):
    return tmp_path / "decisions.db"


LATE = {"costs": kl.Pinball(4.0), "columns": ["eu"], "movement": kl.L1Movement(0.5)}
DEMANDS = [3.0, 5.0, 2.0, 7.0, 7.0, 1.0]


@pytest.mark.parametrize("lag", [{"lead": 2}, {"delay": 2}, {"lead": 1, "delay": 1}], ids=str)
def test_a_decision_that_acts_late_is_charged_when_it_acts(lag):
    """Last value stands at 0 in the rounds 1 to 3, then plays what was needed three rounds before."""
    rule = kl.LastValue(kl.Box(0, 9), family=LATE["costs"])
    agent = kl.Agent(rule, **LATE, **lag)
    in_force = []
    for demand in DEMANDS:
        in_force.append(agent.in_force["eu"])
        assert agent.observe({"eu": demand}) == {"eu": demand}
    assert in_force == [0.0, 0.0, 0.0, 3.0, 5.0, 2.0]
    assert agent.hitting == 4.0 * (3.0 + 5.0 + 2.0 + 4.0 + 2.0) + 1.0
    assert agent.switching == 0.5 * (3.0 + 2.0 + 3.0 + 5.0)
    assert agent.in_force == {"eu": 7.0}
    assert (agent.lead, agent.delay) == (lag.get("lead", 0), lag.get("delay", 0))
    assert ("acts" in str(agent.explain())) == ("lead" in lag)


def test_rows_that_all_come_late_are_what_late_feedback_is():
    """A rule that sees rows decides with delay=2 what Delayed decides when each row comes two rounds late."""
    family = LATE["costs"]
    rule = kl.MovingAverage(kl.Box(0, 9), 2, family=family)
    agent = kl.Agent(rule, **LATE, delay=2)
    waiting = kl.Agent(kl.contrib.Delayed(rule), **LATE)
    for t, demand in enumerate(DEMANDS, start=1):
        while len(waiting.pending) < 2:
            waiting.advance()
        assert waiting.pending[t] == agent.in_force
        waiting.observe({"eu": demand}, round=t)
        agent.observe({"eu": demand})
    assert agent.hitting == waiting.hitting


def test_lead_and_delay_that_do_not_fit_are_refused():
    box = kl.Box(0, 9)
    with pytest.raises(InvalidInput, match="lead needs costs that say what a row costs"):
        kl.Agent(kl.GD(box, 1.0), lead=2)
    with pytest.raises(InvalidInput, match="delay and Delayed do not go together"):
        kl.Agent(kl.contrib.Delayed(kl.GD(box, 1.0)), **LATE, delay=2)
    with pytest.raises(InvalidInput, match="lead must be an integer of at least 0, got -1"):
        kl.Agent(kl.GD(box, 1.0), **LATE, lead=-1)
    with pytest.raises(InvalidInput, match=r"so it takes rows\. Use observe\(row\)\.$"):
        kl.Agent(kl.GD(box, 1.0), **LATE, lead=1).update([1.0], gradient=True)


def name_row(row, order=(2, 0, 1)):
    return {COLUMNS[i]: float(row[i]) for i in order}


def make_agent(maker="GD", costs="pinball", **options):
    family = COSTS[costs][0]
    return kl.Agent(
        MAKERS[maker](family),
        costs=family,
        columns=COLUMNS,
        movement=TV,
        engine="step",
        **options,
    )


def remember(agent):
    """All that a round could change."""
    return agent.t, agent.x.tobytes(), agent.hitting, agent.switching, repr(agent.state)


@pytest.mark.parametrize("costs", COSTS)
@pytest.mark.parametrize("maker", MAKERS)
def test_rows_told_one_by_one_pay_what_a_run_over_them_pays(maker, costs, file):
    family, with_data = COSTS[costs]
    learner = MAKERS[maker](family)
    trace = kl.run(learner, with_data(ROWS), movement=TV, engine="step")
    agent = make_agent(maker, costs)
    hitting = 0.0
    for row, x, paid in zip(ROWS, trace.x, trace.hitting, strict=True):
        assert agent.x.tobytes() == x.tobytes()
        made = agent.observe(name_row(row))
        assert made == dict(zip(COLUMNS, agent.x.tolist(), strict=True)) == agent.decision
        hitting += paid
    assert agent.x.tobytes() == trace.state.x.tobytes()
    # one row at a time, a product may be summed in another order than over all rows at once
    assert agent.hitting == pytest.approx(hitting, rel=1e-14)
    points = np.vstack((trace.x, agent.x))
    stands = family.drift(ROWS, trace.x)  # where prices have carried the shares
    moved = TV.weight * TV.distance(points[1:] - stands)
    assert agent.switching == pytest.approx(moved.sum(), rel=1e-14)
    if costs != "log-wealth":  # a run charges neither drift nor the move after its last round
        assert moved[:-1].sum() == pytest.approx(trace.switching.sum(), rel=1e-14)


@pytest.mark.parametrize("costs", COSTS)
@pytest.mark.parametrize("maker", ["GD", "dead band"])
def test_files_and_stores_go_on_bit_for_bit(maker, costs, file, tmp_path):
    family = COSTS[costs][0]
    whole = make_agent(maker, costs, guards=kl.Guards(per_round=0.1))
    saved = make_agent(
        maker, costs, guards=kl.Guards(per_round=0.1), origin={"trace": "march.csv"}
    )
    options = {"costs": family, "columns": COLUMNS, "movement": TV, "engine": "step"}
    made = whole.decision
    stored = kl.Agent.open(
        file, MAKERS[maker](family), guards=kl.Guards(per_round=0.1), **options
    )
    for i, row in enumerate(ROWS):
        if i % 5 == 4:
            saved.save(tmp_path / "agent.json")
            saved = kl.Agent.load(tmp_path / "agent.json")
            stored.close()
            stored = kl.Agent.open(file)
        made = whole.observe(row, id=i)
        assert saved.observe(name_row(row), id=i) == made
        assert stored.observe(name_row(row), id=i) == made
    assert remember(saved) == remember(whole) == remember(stored)
    assert stored.observe(name_row(ROWS[0]), id=0) != made  # as it was decided then
    history = stored.history()
    assert [json.loads(row) for row in history["row"]] == [
        name_row(row, (0, 1, 2)) for row in ROWS
    ]
    assert sum(history["hitting"]) == whole.hitting
    stored.close()
    assert saved.origin == {"trace": "march.csv"}
    assert (saved.costs, saved.columns, saved.movement) == (family, tuple(COLUMNS), TV)
    store = open_store(file, read_only=True, new=False)
    assert [checked.fault for checked in check_store(store)] == [None, None]
    store.close()


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ("hitting = hitting + 1.0", "round 3 costs something else than what was kept"),
        ("row = replace(row, '0.', '1.')", "round 3 gives another"),
    ],
)
def test_check_finds_a_row_that_does_not_fit(file, change, fault):
    from klazy.live.records import Row, checksum_row

    with kl.Agent.open(
        file, kl.GD(SIMPLEX, 2.0), costs=kl.Quadratic(), columns=COLUMNS, engine="step"
    ) as agent:
        for row in ROWS[:6]:
            agent.observe(row / 2)
    with sqlite3.connect(file) as connection:
        connection.execute(f"UPDATE records SET {change} WHERE t = 3")
        (found,) = connection.execute(
            f"SELECT {', '.join(Row._fields)} FROM records WHERE t = 3"
        ).fetchall()
        connection.execute(
            "UPDATE records SET checksum = ? WHERE t = 3", (checksum_row(found[:-1]),)
        )
    connection.close()
    store = open_store(file, read_only=True, new=False)
    assert fault in list(check_store(store))[1].fault
    store.close()


def test_rows_of_many_kinds_say_the_same():
    import pandas as pd
    import polars as pl

    row = ROWS[0]
    named = name_row(row)
    frame = pd.DataFrame([named])
    kinds = (
        row, row.tolist(), tuple(row.tolist()), named, frame, frame.iloc[0], next(iter(frame.itertuples(index=False))),
        pl.DataFrame([named]), pl.DataFrame([named]).row(0, named=True),
    )  # fmt: skip
    made = [make_agent().observe(kind) for kind in kinds]
    assert all(each == made[0] for each in made)


def test_a_decision_may_have_names_of_its_own(tmp_path):
    box = kl.Box([0.0, 0.0], [9.0, 9.0])
    columns = {"demand_eu": "servers_eu", "demand_us": "servers_us"}
    agent = kl.Agent(
        kl.GD(box, 1.0), costs=kl.Pinball(2.0), columns=columns, movement="l1", engine="step"
    )
    assert agent.observe({"demand_us": 0.0, "demand_eu": 5.0}) == {
        "servers_eu": 2.0,
        "servers_us": 0.0,
    }
    agent.save(tmp_path / "agent.json")
    assert kl.Agent.load(tmp_path / "agent.json").decision == agent.decision


def test_without_names_rows_and_decisions_are_arrays():
    agent = kl.Agent(kl.GD(SIMPLEX, 2.0), costs=kl.Linear(), engine="step")
    x = agent.observe([1.0, 0.0, 0.0])
    assert isinstance(x, np.ndarray)
    assert x.tobytes() == agent.x.tobytes()
    with pytest.raises(
        InvalidInput,
        match=(
            r"A row by name needs an agent with column names. Build the agent with columns=\[...\], or give "
            r"an array."
        ),
    ):
        agent.observe({"eu": 1.0, "us": 0.0, "asia": 0.0})


BAD_ROWS = {
    (
        "The row has no 'us', 'asia'; it must have the columns 'eu', 'us', 'asia'. Give every column a "
        "number."
    ):
        {"eu": 1.0},
    (
        "The row has an unknown column 'mars'; its columns are 'eu', 'us', 'asia'. Leave it out, or "
        "correct its name."
    ):
        name_row(ROWS[0]) | {"mars": 1.0},
    "us must be a finite number, got nan.": name_row(ROWS[0]) | {"us": np.nan},
    "us must be a finite number, got '7'.": name_row(ROWS[0]) | {"us": "7"},
    "us must be a finite number, got None.": name_row(ROWS[0]) | {"us": None},
    "row must have shape (3,), got (2,).": [1.0, 2.0],
    "us must be above zero for LogWealth(), got 0.0. Give prices divided by the last ones.":
        name_row(ROWS[0]) | {"us": 0.0},
}  # fmt: skip


@pytest.mark.parametrize("message", BAD_ROWS)
@pytest.mark.parametrize("kept", [False, True])
def test_a_bad_row_is_refused_by_name_and_changes_nothing(message, kept, file):
    learner = kl.GD(SIMPLEX, 2.0)
    options = {"costs": kl.LogWealth(), "columns": COLUMNS, "engine": "step"}
    agent = kl.Agent.open(file, learner, **options) if kept else kl.Agent(learner, **options)
    agent.observe(ROWS[0])
    before = remember(agent)
    with pytest.raises(InvalidInput) as refused:
        agent.observe(BAD_ROWS[message])
    assert str(refused.value) == message
    assert remember(agent) == before
    agent.close()


def open_twice(file, **changed):
    options = {"costs": kl.Pinball(3.0, 1.0), "columns": COLUMNS, "movement": "tv"}
    kl.Agent.open(file, kl.GD(SIMPLEX, 2.0), engine="step", **options).close()
    return kl.Agent.open(file, **changed)


MISUSES = {
    (
        "The agent's costs are Linear(), so it takes rows. Use observe(row), or update(g, "
        "gradient=True) if g is a gradient."
    ):
        lambda: kl.Agent(kl.GD(SIMPLEX, 2.0), costs=kl.Linear(), engine="step").update(ROWS[0]),
    "The agent's costs are Quadratic(), so it takes rows. Use observe(row).":
        lambda: kl.Agent(kl.LastValue(SIMPLEX, family=kl.Quadratic()), engine="step").update(ROWS[0], gradient=True),
    (
        "The agent has no costs, so a row means nothing to it. Build it with costs=Linear(), for "
        "example, or give it gradients with update(g)."
    ):
        lambda: kl.Agent(kl.GD(SIMPLEX, 2.0), engine="step").observe(ROWS[0]),
    (
        "costs must be a cost family, got LinearCosts(T=12, dim=3). Use costs=Linear(), the costs "
        "without their data."
    ):
        lambda: kl.Agent(kl.GD(SIMPLEX, 2.0), costs=kl.contrib.LinearCosts(ROWS)),  # pyright: ignore[reportArgumentType]
    "costs must be a cost family, got 'linear'. Use costs=Pinball(short=4.0).":
        lambda: kl.Agent(kl.GD(SIMPLEX, 2.0), costs="linear"),  # pyright: ignore[reportArgumentType]
    "costs must be of the learner's family, Linear(), got Quadratic(). Give both the same one.":
        lambda: kl.Agent(kl.LastValue(SIMPLEX), costs=kl.Quadratic()),
    "short must be one number or 3, one per coordinate, got 2.":
        lambda: kl.Agent(kl.GD(SIMPLEX, 2.0), costs=kl.Pinball([1.0, 2.0])),
    (
        "columns must be 3 distinct column names, one per coordinate, got ['eu', 'us']. Use "
        "columns=['eu', 'us', ...], or {'demand': 'capacity'} where a decision has names of its own."
    ):
        lambda: kl.Agent(kl.GD(SIMPLEX, 2.0), columns=["eu", "us"]),
    "movement must have a single weight, got L2Movement(weight=[1.0, 2.0]). Use movement=L2Movement(1.0).":
        lambda: kl.Agent(kl.GD(SIMPLEX, 2.0), movement=kl.L2Movement([1.0, 2.0])),
    (
        "The agent's movement is TVMovement(), that of its guards L1Movement(). Leave out the movement "
        "of the guards."
    ):
        lambda: kl.Agent(kl.GD(SIMPLEX, 2.0), movement="tv", guards=kl.Guards(movement=kl.L1Movement())),
    "origin must be a dict of plain values, got [].":
        lambda: kl.Agent(kl.GD(SIMPLEX, 2.0), origin=[]),  # pyright: ignore[reportArgumentType]
    "hitting needs costs. Build the agent with costs=Linear(), for example.":
        lambda: kl.Agent(kl.GD(SIMPLEX, 2.0), engine="step").hitting,
}  # fmt: skip


@pytest.mark.parametrize("message", MISUSES)
def test_misuse_is_refused_with_a_remedy(message):
    with pytest.raises(InvalidInput) as refused:
        MISUSES[message]()
    assert str(refused.value) == message


@pytest.mark.parametrize(
    "changed",
    [
        {"costs": kl.Pinball(2.0, 1.0)}, {"columns": ["eu", "asia", "us"]}, {"movement": "l1"},
        {"columns": dict(zip(COLUMNS, "abc", strict=True))},
    ],
)  # fmt: skip
def test_the_terms_of_a_stored_agent_do_not_change(file, changed):
    (name,) = changed
    with pytest.raises(InvalidInput, match=f"{name} must be .*, as stored for 'agent' in"):
        open_twice(file, **changed)


def test_the_terms_of_a_stored_agent_may_be_said_again(file):
    open_twice(
        file, costs=kl.Pinball(3.0, 1.0), columns=COLUMNS, movement=kl.TVMovement(1.0)
    ).close()


def test_a_gradient_that_is_meant_is_taken_and_accounted():
    agent = make_agent("GD", "pinball")
    x = agent.x
    agent.update(ROWS[0], gradient=True)
    assert agent.hitting == float(ROWS[0] @ x)


@pytest.mark.parametrize("guards", [None, kl.Guards(per_round=0.1)])
def test_an_agent_goes_on_in_a_store_as_it_was_in_memory(file, guards):
    agent = make_agent("k-lazyGD", guards=guards, origin={"trace": "march.csv"})
    for i, row in enumerate(ROWS[:5]):
        agent.observe(row, id=i)
    with kl.Agent.open(file, agent, name="eu") as stored:
        assert remember(stored) == remember(agent)
        assert stored.observe(ROWS[4], id=4) == agent.decision  # which it has taken before
        assert stored.observe(ROWS[5]) == agent.observe(ROWS[5])
    with kl.Agent.open(
        file, make_agent("k-lazyGD", guards=guards, origin={"trace": "march.csv"}), name="eu"
    ) as stored:
        assert remember(stored) == remember(agent)  # what there is goes on
    with pytest.raises(
        InvalidInput,
        match=r"costs out: the agent Agent\(KLazyGD",
    ):
        kl.Agent.open(file, agent, costs=kl.Linear())
    with pytest.raises(
        InvalidInput,
        match=r"costs must be Pinball\(.*\), as stored for 'eu' in .*, got Quadratic\(\).",
    ):
        kl.Agent.open(file, make_agent("k-lazyGD", "quadratic"), name="eu")


def open_shared(file):
    return kl.Agent.open(
        file, kl.GD(SIMPLEX, 2.0), costs=kl.Quadratic(), columns=COLUMNS, engine="step"
    )


def test_a_row_that_comes_too_late_is_costed_at_the_point_of_its_round(file):
    first = open_shared(file)
    second = open_shared(file)
    first.observe(ROWS[0])
    with pytest.raises(
        kl.types.Overtaken,
        match=r"Another process ended round t=1 of 'agent'. Play agent.x of round t=2, or use retry=True.",
    ):
        second.observe(ROWS[1])
    first.observe(ROWS[1])
    second.observe(ROWS[2], retry=True)
    alone = kl.Agent(kl.GD(SIMPLEX, 2.0), costs=kl.Quadratic(), columns=COLUMNS, engine="step")
    for row in ROWS[:3]:
        alone.observe(row)
    assert remember(second) == remember(alone)
    first.close()
    second.close()


def test_an_interrupted_row_is_taken_once(file, monkeypatch):
    from klazy.live.state import AgentState

    def interrupt(*_):
        raise KeyboardInterrupt

    with open_shared(file) as agent:
        agent.observe(ROWS[0], id="a")
        with monkeypatch.context() as patched:
            patched.setattr(AgentState, "apply", interrupt)
            with pytest.raises(KeyboardInterrupt):
                agent.observe(ROWS[1], id="b")
        agent.observe(ROWS[1], id="b")
        alone = kl.Agent(
            kl.GD(SIMPLEX, 2.0), costs=kl.Quadratic(), columns=COLUMNS, engine="step"
        )
        for row in ROWS[:2]:
            alone.observe(row)
        assert remember(agent) == remember(alone)


class TestForecasts:
    """A forecast of the next row reaches the learner as the hint of its step, and is kept with the round."""

    def play(self, agent, rows):
        return [
            agent.observe(name_row(row), next_forecast=name_row(following), id=t)
            for t, (row, following) in enumerate(itertools.pairwise(rows))
        ]

    def test_of_a_learner_that_is_told_rows(self, file):
        family = kl.Pinball(3.0, 1.0)
        box = kl.Box(np.zeros(DIM), np.full(DIM, 2.0))
        learner = kl.contrib.Reluctant(box, kl.L1Movement(0.1), 2, 1.0, family=family, hints=True)
        state = learner.init()
        for row, following in itertools.pairwise(ROWS):
            state = learner.step(state, row, following)
        with kl.Agent.open(file, learner, costs=family, columns=COLUMNS) as agent:
            made = self.play(agent, ROWS)
            np.testing.assert_array_equal(agent.x, state.x)
            assert made[-1] == agent.decision
            np.testing.assert_array_equal(
                np.stack(agent.history()["next_hint"].to_list()), ROWS[1:]
            )
        store = open_store(file, read_only=True)
        assert [
            checked.fault for checked in check_store(store) if checked.fault is not None
        ] == []
        store.close()

    def test_of_a_learner_that_is_told_gradients(self, file):
        family = kl.Quadratic()
        learner = kl.MemoryGD(SIMPLEX, 2.0, memory=kl.memories.Decay(4.0))
        state = learner.init()
        for row, following in itertools.pairwise(ROWS):
            gradients = [family.gradient(each, state.x) for each in (row, following)]
            state = learner.step(state, *gradients)
        with kl.Agent.open(file, learner, costs=family, columns=COLUMNS, engine="step") as agent:
            self.play(agent, ROWS)
            np.testing.assert_array_equal(agent.x, state.x)
        with kl.Agent.open(file) as again:
            np.testing.assert_array_equal(again.x, state.x)

    def test_of_a_learner_that_takes_none_is_refused_and_so_is_a_bad_one(self):
        agent = kl.Agent(kl.GD(SIMPLEX, 2.0), costs=kl.Linear(), columns=COLUMNS, engine="step")
        with pytest.raises(
            InvalidInput,
            match=(
                r"GD\(domain=Simplex\(dim=3\), sigma=Constant\(s=2.0\)\) takes no hints. Use MemoryGD, or "
                r"auto\(..., hints=True\)."
            ),
        ):
            agent.observe(name_row(ROWS[0]), next_forecast=name_row(ROWS[1]))
        agent = kl.Agent(
            kl.MemoryGD(SIMPLEX, 2.0, memory=kl.memories.Full()),
            costs=kl.Linear(),
            columns=COLUMNS,
            engine="step",
        )
        with pytest.raises(
            InvalidInput,
            match=(
                r"The row has no 'us', 'asia'; it must have the columns 'eu', 'us', 'asia'. Give every column a "
                r"number."
            ),
        ):
            agent.observe(name_row(ROWS[0]), next_forecast={"eu": 1.0})
        assert agent.t == 1


class TestAdvice:
    """The decision advised for the next round reaches the learner as it is, whatever a row's units, and is kept."""

    FAMILY = kl.Pinball(3.0, 1.0)
    BOX = kl.Box(np.zeros(2), np.full(2, 9.0))
    COLUMNS = {"load": "servers", "jobs": "workers"}  # noqa: RUF012
    LOADS = np.array([[100.0, 20.0], [300.0, 40.0], [200.0, 90.0], [250.0, 10.0]])
    ADVISED = np.array([[2.0, 1.0], [5.0, 3.0], [9.0, 9.0], [4.0, 4.0]])

    def build(self):
        robust = kl.contrib.Reluctant(self.BOX, "l1", 4.0, 4.0, family=self.FAMILY)
        advice = kl.contrib.Advice(self.BOX)
        return kl.contrib.Interpolation(advice, robust, "l1", 0.5, family=self.FAMILY)

    def test_in_columns_and_beside_the_row_by_the_names_of_decisions(self, file):
        learner = self.build()
        state = learner.init()
        for row, told in zip(self.LOADS, self.ADVISED, strict=True):
            state = learner.step(state, row / 50.0, told)
        # A limit on gradients is none on decisions.
        given = {"columns": self.COLUMNS, "per": 50.0, "guards": kl.Guards(G=8.0, above="reject")}
        with kl.Agent.open(file, learner, **given, forecast=["s_told", "w_told"]) as agent:
            for row, told in zip(self.LOADS[:2], self.ADVISED[:2], strict=True):
                cells = dict(
                    zip(("load", "jobs", "s_told", "w_told"), (*row, *told), strict=True)
                )
                agent.observe(cells)
        with kl.Agent.open(file) as agent:
            for row, told in zip(self.LOADS[2:], self.ADVISED[2:], strict=True):
                named = dict(zip(self.COLUMNS, row, strict=True))
                advised = dict(zip(self.COLUMNS.values(), told, strict=True))
                agent.observe(named, next_forecast=advised)
            assert list(agent.decision.values()) == state.x.tolist()
            told = np.stack(agent.history()["next_hint"].to_list())
            np.testing.assert_array_equal(told, self.ADVISED)
            assert "of the advice" in str(agent.explain())

    def test_that_is_no_decision_is_refused(self):
        agent = kl.Agent(self.build(), columns=self.COLUMNS)
        for wrong, message in (
            ([1.0], r"next_forecast must have shape \(2,\), got \(1,\)"),
            ({"load": 1.0, "jobs": 2.0}, "The row has no 'servers', 'workers'"),
        ):
            with pytest.raises(InvalidInput, match=message):
                agent.observe({"load": 10.0, "jobs": 1.0}, next_forecast=wrong)
        assert agent.t == 1
        with pytest.raises(
            InvalidInput, match=r"one more column for each of .'servers', 'workers'."
        ):
            kl.Agent(self.build(), columns=self.COLUMNS, forecast=["s_told"])


def test_an_agent_with_a_history_goes_on_as_one_that_lived_it():
    """But it has paid nothing, and its guards limit only what comes."""
    import pandas as pd
    import polars as pl

    rows = 50.0 + 10.0 * np.random.default_rng(0).random((80, 2))
    learner = kl.auto(kl.Box([0, 0], [100, 100]), "l1", kl.Pinball(4.0))
    lived = kl.Agent(learner, columns=["a", "b"])
    for row in rows[:60]:
        lived.observe(row)
    frame = pl.DataFrame(rows[:60], schema=["a", "b"])
    told = [
        kl.Agent(learner, columns=["a", "b"], history=past)
        for past in (
            frame,
            pd.DataFrame(rows[:60], columns=["a", "b"]),
            rows[:60],
            frame.to_dicts(),
        )
    ]
    for agent in told:
        assert (agent.t, agent.hitting, agent.switching) == (61, 0.0, 0.0)
    before = lived.hitting + lived.switching
    for row in rows[60:]:
        expected = lived.observe(row)
        assert [agent.observe(row) for agent in told] == [expected] * 4
    paid = lived.hitting + lived.switching - before
    np.testing.assert_allclose(
        [agent.hitting + agent.switching for agent in told], paid, rtol=1e-12
    )
    guarded = kl.Agent(learner, columns=["a", "b"], history=rows, guards=kl.Guards(per_round=0.1))
    assert guarded.decision["a"] > 20.0
    assert guarded.switching == 0.0


def test_a_history_of_gradients_or_of_another_shape():
    g = np.random.default_rng(1).normal(size=(30, 3))
    learner = kl.KLazyGD(kl.Simplex(3), 2.0, k=8)
    np.testing.assert_array_equal(kl.Agent(learner, history=g).x, kl.run(learner, g).state.x)
    with pytest.raises(ValueError, match="g must"):
        kl.Agent(learner, history=g[:, :2])
