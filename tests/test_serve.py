"""The service: what it answers, to whom, what it refuses, and that it agrees with an agent of one's own bit for bit."""

import json
import re
import socket
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import klazy as kl
from cases import FAMILIES
from command import call_klazy
from klazy.live.inspection import check_store
from klazy.live.sqlite import SqliteStore
from klazy.live.store import open_store
from klazy.live.stored import compute_together
from klazy.serve.access import Grant, RateLimiter
from klazy.serve.server import listen
from klazy.serve.settings import Settings
from klazy.serve.worker import RoundWorker
from served import run_service

LEARNER = kl.KLazyGD(kl.Simplex(5), sigma=4.0, k=6)
GUARDS = kl.Guards(per_round=0.1)
G = np.random.default_rng(0).normal(size=(40, 5))
pytestmark = pytest.mark.xdist_group("serve")


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with run_service(tmp_path_factory.mktemp("served")) as service:
        yield service


@pytest.fixture
def agent(served, request):
    name = re.sub(r"\W", "-", request.node.name)[:150]
    return served.client().agent(name, LEARNER, guards=GUARDS, engine="step")


# Decisions


def test_an_explanation_has_the_names_of_the_columns(served):
    learner = kl.GD(kl.Box([0.0, 0.0], [9.0, 9.0]), 1.0)
    given = {"costs": kl.Pinball(short=4.0), "columns": ["eu", "us"], "engine": "step"}
    agent = served.client().agent("named", learner, **given)
    own = kl.Agent(learner, **given)
    row = {"eu": 3.0, "us": 1.0}
    assert agent.observe(row) == own.observe(row)
    assert str(agent.explain()) == str(own.explain())
    assert "plays eu 4, us 4" in str(own.explain())


def test_a_served_agent_plays_as_one_of_ones_own(agent, served, tmp_path):
    own = kl.Agent.open(tmp_path / "own.db", LEARNER, guards=GUARDS, engine="step")
    for i, g in enumerate(G):
        np.testing.assert_array_equal(agent.update(g, id=i), own.update(g, id=i))
        if i == 10:
            agent.freeze("the link is down")
            own.freeze("the link is down")
        if i == 15:
            agent.resume("it is up")
            own.resume("it is up")
    np.testing.assert_array_equal(agent.x, own.x)
    assert agent.t == own.t
    assert agent.learner == own.learner
    assert agent.guards == own.guards
    assert agent.switching == own.switching
    assert str(agent.explain()) == str(own.explain())
    assert agent.history().drop("time").equals(own.history().drop("time"))
    assert agent.history(7).equals(agent.history().tail(7))
    own.close()


def test_an_agent_that_takes_rows_is_told_and_answers_by_name(served, tmp_path):
    rows = np.random.default_rng(1).uniform(10, 60, size=(12, 2))
    options = {
        "costs": kl.Pinball(short=4.0),
        "columns": ["eu", "us"],
        "movement": "l1",
        "engine": "step",
    }
    learner = kl.GD(kl.Box([0, 0], [90, 90]), sigma=0.1)
    own = kl.Agent.open(tmp_path / "own.db", learner, **options)
    remote = served.client().agent("by rows", learner, **options)
    for i, row in enumerate(rows):
        named = dict(zip(("eu", "us"), row.tolist(), strict=True))
        assert remote.observe(named, id=i) == own.observe(named, id=i)
    assert remote.decision == own.decision
    assert remote.hitting == own.hitting
    assert remote.history().drop("time").equals(own.history().drop("time"))
    with pytest.raises(
        ValueError,
        match=r"The row has no 'eu'; it must have the columns 'eu', 'us'. Give every column a number.",
    ):
        remote.observe({"us": 1.0})
    with pytest.raises(ValueError, match="gradient"):
        remote.update([1.0, 1.0])
    assert remote.t == 13
    own.close()


def test_feedback_may_come_late_out_of_order_or_never(served, tmp_path):
    learner = kl.contrib.Delayed(kl.GD(kl.Simplex(5), kl.Sqrt(9.0)))
    own = kl.Agent.open(tmp_path / "own.db", learner, engine="step")
    remote = served.client().agent("late", learner, engine="step")
    for both in (own, remote):
        for t in range(1, 5):
            both.advance(id=f"end {t}")
        both.update(G[2], round=3, id="third")
        both.update(G[0], round=1, id="first")
        both.give_up(2, id="lost")
        both.update(G[4], id="at once")
    assert list(remote.pending) == list(own.pending) == [4]
    np.testing.assert_array_equal(remote.pending[4], own.pending[4])
    np.testing.assert_array_equal(remote.x, own.x)
    assert remote.t == own.t == 6
    assert remote.history().drop("time").equals(own.history().drop("time"))
    own.close()
    # what was sent before is taken once, and says of which round its decision is
    for body, t in (
        ({"g": G[2].tolist(), "round": 3, "id": "third"}, 5),
        ({"g": G[4].tolist(), "id": "at once"}, 6),
    ):
        again = remote._client.ask("POST", f"{remote.place}/update", body)
        assert again["repeated"]
        assert again["t"] == t
    with pytest.raises(
        ValueError, match=r"Round 1 does not wait for feedback. Rounds that do: 4."
    ):
        remote.update(G[0], round=1)
    many = served.client().update_many([{"agent": "late", "g": G[3].tolist(), "round": 4}])
    assert many[0]["t"] == 6
    counted = served.ask("GET", "/metrics").text
    assert re.search(r'klazy_rounds_total{agent="late"} 5.0', counted)
    assert remote.pending == {}
    assert remote.t == 6


def test_a_learner_that_sees_costs_alone_is_told_them(served, tmp_path):
    learner = kl.contrib.Bandit(
        kl.GD(kl.Box([0.0, 0.0], [9.0, 9.0]), sigma=4.0), points=2, delta=0.1
    )
    own = kl.Agent.open(tmp_path / "own.db", learner, engine="step")
    remote = served.client().agent("costs alone", learner, engine="step")
    for _ in range(20):
        for mine, its in zip(own.probes, remote.probes, strict=True):
            np.testing.assert_array_equal(mine, its)
        cost = [float(((x - 6.0) ** 2).sum()) for x in own.probes]
        np.testing.assert_array_equal(remote.observe_cost(cost), own.observe_cost(cost))
    assert remote.hitting == own.hitting
    with pytest.raises(kl.types.Overtaken, match="round t=1"):
        remote.observe_cost([1.0, 1.0], t=1)
    with pytest.raises(ValueError, match="finite"):
        remote.observe_cost([np.nan, 1.0])
    with pytest.raises(ValueError, match="Bandit"):
        served.client().agent("told gradients", LEARNER, engine="step").observe_cost(1.0)
    assert remote.t == 21
    own.close()


def test_a_round_sent_again_is_answered_as_it_was_then(agent):
    first = agent._client.ask("POST", f"{agent.place}/update", {"g": G[0].tolist(), "id": "a"})
    agent.update(G[1])
    again = agent._client.ask("POST", f"{agent.place}/update", {"g": G[2].tolist(), "id": "a"})
    assert again == first | {"repeated": True}
    assert agent.t == 3


def test_a_round_that_is_not_under_way_is_refused(agent):
    agent.update(G[0], t=1)
    with pytest.raises(
        kl.types.Overtaken, match=r"round t=1 of .* play the decision of round t=2"
    ):
        agent.update(G[1], t=1)
    agent.update(G[1], retry=False)
    assert agent.t == 3


def test_another_process_may_play_the_same_agent(agent, served):
    agent.update(G[0])
    with kl.Agent.open(served.file, name=agent.name) as other:
        other.update(G[1])
        np.testing.assert_array_equal(agent.x, other.x)
        x = agent.update(G[2])
        np.testing.assert_array_equal(other.refresh(), x)


def test_many_agents_are_told_in_one_request_all_or_none(served):
    client = served.client()
    names = [f"many {i}" for i in range(20)]
    agents = [client.agent(name, LEARNER, engine="step") for name in names]
    answers = client.update_many(
        {"agent": name, "g": G[i], "id": "r1"} for i, name in enumerate(names)
    )
    assert [answer["agent"] for answer in answers] == names
    np.testing.assert_array_equal(answers[7]["x"], kl.Agent(LEARNER, engine="step").update(G[7]))
    wrong = [{"agent": name, "g": G[i], "id": "r2"} for i, name in enumerate(names)]
    wrong[13] = {"agent": names[13], "g": [np.nan] * 5}
    with pytest.raises(ValueError, match="must be a finite number"):
        client.update_many(wrong)
    answer = served.ask(
        "POST", "/rounds", {"rounds": [{"agent": "many 1", "g": [0.0] * 5}, {"agent": "no"}]}
    )
    assert (answer.status_code, answer.json()["entry"]) == (422, 1)
    answer = served.ask(
        "POST",
        "/rounds",
        {"rounds": [{"agent": "many 1", "g": [0.0] * 5}, {"agent": "no", "g": [1]}]},
    )
    assert answer.status_code == 404
    assert {agent.t for agent in agents} == {2}
    client.update_many(
        [{"agent": names[0], "g": G[0]}, {"agent": names[0], "g": G[1]}]
    )  # two of one agent
    assert agents[0].t == 4


@pytest.mark.xdist_group("postgres")
def test_two_workers_share_the_agents_of_a_postgresql_database(server, tmp_path):
    url = server.clear()
    with (
        run_service(tmp_path, url) as one,
        run_service(tmp_path, url, tokens=one.tokens) as other,
    ):
        agents = [
            service.client().agent("a", LEARNER, guards=GUARDS, engine="step")
            for service in (one, other)
        ]
        own = kl.Agent(LEARNER, engine="step", guards=GUARDS)
        for i, g in enumerate(G[:10]):
            np.testing.assert_array_equal(agents[i % 2].update(g, id=i), own.update(g))
            np.testing.assert_array_equal(
                agents[1 - i % 2].update(g, id=i), own.x
            )  # sent again, to the other one
        one.client().agent("b", LEARNER, engine="step")
        rounds = [{"agent": name, "g": G[0], "id": "bulk"} for name in ("b", "a")]
        np.testing.assert_array_equal(
            other.client().update_many(rounds)[1]["x"], own.update(G[0])
        )
        rounds = [{"agent": "b", "g": G[0]}, {"agent": "a", "g": [np.nan] * 5}]
        with pytest.raises(ValueError, match="must be a finite number"):
            one.client().update_many(rounds)
        assert [found["rounds"] for found in other.client().agents()] == [11, 1]
        agents[0].freeze("maintenance")
        agents[1].delete("done")
        assert agents[0].about["deleted"]
        assert "klazy_agent_rounds" in one.ask("GET", "/metrics").text
    store = open_store(url, read_only=True)
    assert [checked.fault for checked in check_store(store)] == [None, None, None]
    store.close()


def test_rounds_of_many_compiled_agents_are_those_of_each_by_itself(served, tmp_path):
    """They are worked out and written in one step, unless one of them has to go another way."""
    client = served.client()
    names = [f"compiled {i}" for i in range(6)]
    for name in names:
        client.agent(name, LEARNER)
    with ExitStack() as stack:
        own = [
            stack.enter_context(kl.Agent.open(tmp_path / "own.db", LEARNER, name=name))
            for name in names
        ]
        for i in range(6):
            some = names[i % 2 :]  # of which some have one round more than others
            answers = client.update_many(
                {"agent": name, "g": G[i + 6 * j], "id": i} for j, name in enumerate(some)
            )
            for j, answer in enumerate(answers):
                agent = own[j + i % 2]
                np.testing.assert_array_equal(answer["x"], agent.update(G[i + 6 * j], id=i))
                assert answer["t"] == agent.t
        ids = dict.fromkeys(names, 9) | {names[0]: 0}
        again = client.update_many(
            {"agent": name, "g": G[0], "id": id} for name, id in ids.items()
        )
        assert [answer["repeated"] for answer in again] == [
            True,
            False,
            False,
            False,
            False,
            False,
        ]
        for agent in own[1:]:
            agent.update(G[0], id=9)
        for name, agent in zip(names, own, strict=True):
            assert client.agent(name).history().drop("time").equals(agent.history().drop("time"))


@pytest.mark.parametrize("seed", range(3))
def test_rounds_of_all_kinds_of_agents_are_those_of_each_by_itself(
    served, tmp_path, monkeypatch, seed
):
    """Decisions, costs and histories agree to the last bit, though most rounds are computed in one call."""
    together = []

    def count(agents, g, ids):
        together.append(len(agents))
        return compute_together(agents, g, ids)

    monkeypatch.setattr("klazy.serve.worker.compute_together", count)
    kinds: list[Any] = [
        {},
        {"movement": kl.contrib.WeightedL2Movement(scale=[1.0, 2.0, 0.5, 3.0, 1.0])},
        {"movement": "tv", "columns": ["a", "b", "c", "d", "e"]},
        {"guards": GUARDS},
        {"engine": "step"},
        {"costs": kl.Linear()},
    ]
    rng = np.random.default_rng(seed)
    client = served.client()
    names = {f"{seed} {i} {j}": kinds[i] for i in range(len(kinds)) for j in range(12)}
    own = {}
    with ExitStack() as stack:
        for name, given in names.items():
            client.agent(name, LEARNER, **given)
            opened = kl.Agent.open(tmp_path / "own.db", LEARNER, name=name, **given)
            own[name] = stack.enter_context(opened)
        for k in range(4):
            rounds = []
            for name in [*names, *rng.choice(list(names), 6)]:
                g = rng.normal(size=5) * 10.0 ** rng.integers(-8, 8)
                told = {"row" if "costs" in names[name] else "g": g}
                rounds.append({"agent": str(name), "id": f"{k} é {len(rounds)}", **told})
            answers = client.update_many(rounds)
            for sent, answer in zip(rounds, answers, strict=True):
                agent = own[sent["agent"]]
                play = agent.observe if "row" in sent else agent.update
                play(sent.get("row", sent.get("g")), id=sent["id"])
                np.testing.assert_array_equal(answer["x"], agent.x)
                assert answer["t"] == agent.t
                named = agent.decision if "columns" in names[sent["agent"]] else None
                assert answer["decision"] == named
        for name, agent in own.items():
            assert client.agent(name).history().drop("time").equals(agent.history().drop("time"))
    # In each request the agents of the first three kinds.
    assert together.count(12) == 3 * 4


def test_of_several_wrong_rounds_the_first_one_is_reported(served):
    client = served.client()
    names = [f"wrong {i}" for i in range(9)]
    agents = [client.agent(name, LEARNER) for name in names]
    good = [{"agent": name, "g": G[i].tolist(), "id": "r"} for i, name in enumerate(names)]
    wrong: list[tuple[dict[str, Any], int, str]] = [
        ({"g": [float("nan")] * 5}, 422, "must be a finite number"),
        ({"g": [1e300] * 5}, 422, "must be within"),
        ({"g": [1.0] * 4}, 422, "must have shape"),
        ({"id": "x" * 65}, 422, "id must be"),
        ({"t": 7}, 409, "not the one under way"),
    ]
    for i, (first, status, sentence) in enumerate(wrong):
        for second, _, _ in wrong[:i] + wrong[i + 1 :]:
            rounds = [dict(sent) for sent in good]
            rounds[4] |= first
            rounds[6] |= second
            answer = served.ask("POST", "/rounds", {"rounds": rounds})
            assert (answer.status_code, answer.json()["entry"]) == (status, 4)
            assert sentence in answer.json()["detail"]
    assert {agent.t for agent in agents} == {1}
    assert [answer["t"] for answer in client.update_many(good)] == [2] * 9


def test_a_bulk_that_another_process_overtakes_is_computed_again(served, monkeypatch):
    client = served.client()
    names = [f"overtaken {i}" for i in range(4)]
    for name in names:
        client.agent(name, LEARNER)
    sql = []
    run = SqliteStore._run
    monkeypatch.setattr(
        SqliteStore,
        "_run",
        lambda self, text, *rest: (sql.append(text), run(self, text, *rest))[1],
    )
    go_on = RoundWorker.go_on
    rounds = [{"agent": name, "g": G[i], "id": "r"} for i, name in enumerate(names)]
    own = [kl.Agent(LEARNER) for _ in names]
    with kl.Agent.open(served.file, name=names[2]) as other:
        plays = [lambda: other.update(G[9], id="other")]

        def interrupt(self, bulk):
            go_on(self, bulk)
            if plays:
                plays.pop()()

        monkeypatch.setattr(RoundWorker, "go_on", interrupt)
        answers = client.update_many(rounds)
    own[2].update(G[9])
    assert plays == []
    for i, answer in enumerate(answers):
        np.testing.assert_array_equal(answer["x"], own[i].update(G[i]))
        assert (answer["t"], answer["repeated"]) == (own[i].t, False)
    # A part of a transaction would make SQLite copy every page that it changes.
    assert "SAVEPOINT part" not in sql


# Making and deleting


def test_making_the_same_agent_again_changes_nothing_and_another_one_is_refused(agent, served):
    agent.update(G[0])
    again = served.client().agent(
        agent.name, LEARNER, guards=GUARDS.replace(hold=3), engine="step"
    )
    assert again.t == 2
    assert again.guards.hold == 3
    with pytest.raises(ValueError, match="Choose a new name"):
        served.client().agent(agent.name, LEARNER.replace(k=7), engine="step")


def test_a_saved_agent_goes_on_in_the_service(served, tmp_path):
    own = kl.Agent(LEARNER, engine="step", guards=GUARDS)
    for i, g in enumerate(G[:9]):
        own.update(g, id=i)
    own.save(tmp_path / "agent.json")
    remote = served.client().agent("saved", tmp_path / "agent.json")
    assert remote.t == 10
    np.testing.assert_array_equal(remote.update(G[8], id=8), own.x)  # an id from before
    np.testing.assert_array_equal(remote.update(G[9]), own.update(G[9]))
    served.client().agent("saved", tmp_path / "agent.json")  # again: nothing changes
    assert remote.t == 11
    about = json.loads((tmp_path / "agent.json").read_text())
    about["agent"]["state"]["x"][0] += 1e-9
    answer = served.ask("PUT", "/agents/damaged", about)
    assert answer.status_code == 422
    assert "exactly as Agent.save wrote it" in answer.json()["detail"]


def test_a_deleted_agent_is_gone_until_it_is_restored(agent, served):
    agent.update(G[0])
    agent.delete("replaced")
    assert served.ask("GET", f"{agent.place}/decision").status_code == 410
    assert served.ask("POST", f"{agent.place}/update", {"g": [0.0] * 5}).status_code == 410
    assert served.ask("POST", f"{agent.place}/freeze", {"reason": ""}).status_code == 410
    assert served.ask("PUT", agent.place, {"learner": LEARNER.to_dict()}).status_code == 410
    assert agent.about["deleted"]
    agent.restore("not yet")
    agent.update(G[1])
    assert agent.t == 3
    changes = served.ask("GET", f"{agent.place}/changes").json()["changes"]
    assert [(change["change"], change["note"]) for change in changes] == [
        ("restore", "not yet"),
        ("delete", "replaced"),
    ]


@pytest.mark.parametrize(
    ("about", "said"),
    [
        (
            {"learner": {"class": "os.system"}},
            "class must be a class of klazy, as to_dict names it, got 'os.system'",
        ),
        (
            {"learner": {"class": "klazy.nothing"}},
            "No Learner of class 'klazy.nothing' is known.",
        ),
        (
            {"learner": {"class": "klazy.Simplex", "dim": 3}},
            "No Learner of class 'klazy.Simplex' is known.",
        ),
        (
            {
                "learner": {
                    "class": "klazy.GD",
                    "domain": {"class": "klazy.Simplex", "dim": 10**9},
                    "sigma": 1,
                }
            },
            "at most 10000",
        ),
        ({"learner": LEARNER.to_dict() | {"k": 0}}, "k must be an integer of at least 1, got 0."),
        ({"learner": {"class": "klazy.GD"}}, "The learner klazy.GD cannot be built"),
        (
            {"learner": LEARNER.to_dict(), "guards": {"class": "klazy.Guards", "hold": 0}},
            "hold must be an integer of at least 1, got 0.",
        ),
        ({}, "learner or agent is required"),
        ({"learner": LEARNER.to_dict(), "pickle": "gASV"}, "pickle is not a known field"),
    ],
)
def test_a_learner_that_klazy_would_not_build_is_refused(served, about, said):
    answer = served.ask("PUT", "/agents/never", about)
    assert answer.status_code == 422, answer.text
    assert said in answer.json()["detail"]
    assert served.ask("GET", "/agents/never").status_code == 404


def test_the_number_of_agents_is_limited(tmp_path):
    with run_service(tmp_path, agents=2, dim=5) as served:
        for name in ("a", "b"):
            served.client().agent(name, LEARNER, engine="step")
        answer = served.ask("PUT", "/agents/c", {"learner": LEARNER.to_dict(), "engine": "step"})
        assert (answer.status_code, "at most 2 agents" in answer.text) == (403, True)
        wide = {"learner": kl.GD(kl.Box(np.zeros(6), np.ones(6)), 1.0).to_dict()}
        assert "The dimension must be at most 5" in served.ask("PUT", "/agents/b", wide).text


# Who may do what


CALLS = {
    ("GET", "/agents"): "reader",
    ("GET", "/agents/{}"): "reader",
    ("GET", "/agents/{}/decision"): "reader",
    ("GET", "/agents/{}/explain"): "reader",
    ("GET", "/agents/{}/history"): "reader",
    ("GET", "/agents/{}/changes"): "reader",
    ("GET", "/agents/{}/comparison"): "reader",
    ("GET", "/metrics"): "reader",
    ("POST", "/agents/{}/update"): "writer",
    ("POST", "/agents/{}/observe"): "writer",
    ("POST", "/agents/{}/cost"): "writer",
    ("POST", "/agents/{}/advance"): "writer",
    ("POST", "/agents/{}/give-up"): "writer",
    ("POST", "/rounds"): "writer",
    ("POST", "/agents/{}/freeze"): "writer",
    ("POST", "/agents/{}/resume"): "writer",
    ("PUT", "/agents/{}"): "admin",
    ("DELETE", "/agents/{}"): "admin",
    ("POST", "/agents/{}/restore"): "admin",
}
BODIES = {
    "update": {"g": [0.0] * 5},
    "observe": {"row": [0.0] * 5},
    "cost": {"cost": [0.0], "t": 1},
    "advance": {},
    "give-up": {"round": 1},
    "freeze": {},
    "resume": {},
    "restore": {},
    "/rounds": {"rounds": [{"agent": "AGENT", "g": [0.0] * 5}]},
}


def test_every_path_asks_for_its_role_and_its_agent(agent, served):
    described = served.ask("GET", "/openapi.json").json()["paths"]
    known = {
        (method.upper(), path.replace("{name}", "{}"))
        for path, ways in described.items()
        for method in ways
    }
    assert known - CALLS.keys() == {("GET", "/healthz"), ("GET", "/readyz")}
    served.client().agent("eu-west", LEARNER, guards=GUARDS, engine="step")
    for (method, path), needed in CALLS.items():
        body = BODIES.get(path.rpartition("/")[2], BODIES.get(path))
        if method == "PUT":
            body = {"learner": LEARNER.to_dict(), "engine": "step"}
        text = None if body is None else json.dumps(body).replace("AGENT", agent.name)
        place = path.format(agent.name)
        for role in ("reader", "writer", "admin"):
            status = served.ask(method, place, role=role, content=text).status_code
            lower = ("reader", "writer", "admin").index(role) < (
                "reader",
                "writer",
                "admin",
            ).index(needed)
            assert (status == 403) == lower, (method, path, role, status)
        if "{}" in path or path == "/rounds":
            assert served.ask(method, place, role="eu", content=text).status_code == 403
        for token in ("klazy_wrong", served.tokens["admin"] + "x"):
            headers = {"Authorization": f"Bearer {token}"}
            answer = served.ask(method, place, content=text, headers=headers)
            assert answer.status_code in (401, 429)
    assert served.ask("GET", "/agents/eu-west", role="eu").status_code == 200
    listed = served.ask("GET", "/agents", role="eu").json()["agents"]
    assert [found["name"] for found in listed] == ["eu-west"]


def test_tokens_are_made_listed_and_revoked_by_the_command_and_their_secrets_kept_nowhere(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("klazy.serve.access.TOKEN_SECONDS", 0.1)
    with run_service(tmp_path) as served:
        made = call_klazy(
            "tokens", "add", "feed", "--role", "writer", "--agent", "eu", "--store", served.file
        )
        token = made.stdout.strip()
        assert (made.status, token.startswith("klazy_")) == (0, True)
        assert (
            "exists already" in call_klazy("tokens", "add", "feed", "--store", served.file).stderr
        )
        listed = json.loads(call_klazy("tokens", "list", "--json", "--store", served.file).stdout)
        assert {"name": "feed", "role": "writer", "agent": "eu"}.items() <= listed[
            -2
        ].items() or len(listed) == 5
        for file in tmp_path.iterdir():
            assert token.encode() not in file.read_bytes()
        served.tokens["feed"] = token
        assert served.ask("GET", "/agents", role="feed").status_code == 200
        assert call_klazy("tokens", "revoke", "feed", "--store", served.file).status == 0
        assert (
            "No token named 'feed'"
            in call_klazy("tokens", "revoke", "feed", "--store", served.file).stderr
        )
        until = time.monotonic() + 10.0
        while served.ask("GET", "/agents", role="feed").status_code != 401:
            assert time.monotonic() < until
            time.sleep(0.1)


def test_without_tokens_only_this_machine_may_ask(tmp_path):
    refused = call_klazy("serve", "--insecure", "--host", "0.0.0.0", "--store", tmp_path / "d.db")
    assert (refused.status, "--insecure needs a loopback host" in refused.stderr) == (2, True)
    with run_service(tmp_path, insecure=True) as served:
        http = served.http
        assert http.get("/agents").status_code == 200
        assert http.get("/agents", headers={"Host": "evil.example"}).status_code == 403
        headers = {"Origin": "http://evil.example", "Content-Type": "application/json"}
        assert http.post("/agents/a/freeze", headers=headers, content="{}").status_code == 403


def test_a_holder_may_ask_so_often(monkeypatch):
    now = 0.0
    monkeypatch.setattr("klazy.serve.access.monotonic", lambda: now)
    limiter = RateLimiter(3.0)
    assert [limiter.take("a") for _ in range(4)] == [True, True, True, False]
    assert limiter.take("b")
    now = 1.0
    assert [limiter.take("a") for _ in range(4)] == [True, True, True, False]


def test_a_role_may_do_what_lower_roles_may_on_its_agent_only():
    assert Grant("", "admin", None).allows("reader", "a")
    assert not Grant("", "writer", None).allows("admin", "a")
    assert Grant("", "writer", "a").allows("writer", "a")
    assert not Grant("", "writer", "a").allows("reader", "b")
    assert not Grant("", "admin", "a").allows("reader", None)


# What is refused


REFUSED = {
    "empty": ("", 422, "body is required"),
    "no g": ("{}", 422, "g is required"),
    "cut": ("{", 400, "must be a JSON object"),
    "deep": ("[" * 100_000, 400, ""),
    "deep in g": ('{"g": ' + "[" * 20_000 + "]" * 20_000 + "}", None, ""),
    "nan": ('{"g": [NaN, 0, 0, 0, 0]}', 422, "g[0] must be a finite number, got nan."),
    "inf": ('{"g": [1e999, 0, 0, 0, 0]}', 422, "g[0] must be a finite number, got inf."),
    "large": ('{"g": [1e300, 0, 0, 0, 0]}', 422, "g[0] must be within +-1e+60, got 1e+300."),
    "text": ('{"g": ["1", 0, 0, 0, 0]}', 422, "g.0 must be a number, got "),
    "bool": ('{"g": [true, 0, 0, 0, 0]}', 422, "g.0 must be a number, got "),
    "short": ('{"g": [1, 2, 3]}', 422, "shape (5,)"),
    "no id": (
        '{"g": [1, 2, 3, 4, 5], "id": ""}',
        422,
        "id must be an integer, or text of 1 to 64 bytes",
    ),
    "long id": (
        '{"g": [1, 2, 3, 4, 5], "id": "' + "x" * 65 + '"}',
        422,
        "id must be an integer, or text of 1 to 64 bytes",
    ),
    "extra": ('{"g": [1, 2, 3, 4, 5], "extra": 1}', 422, "extra is not a known field"),
    "hint": ('{"g": [1, 2, 3, 4, 5], "next_hint": [1, 2, 3, 4, 5]}', 422, "takes no hints"),
    "unaligned hint": (
        '{"g": [1, 2, 3, 4, 5], "hint": [1, 2, 3, 4, 5]}',
        422,
        "hint is not a known field. The fields are id, t, round, g, next_hint, ",
    ),
    "late": ('{"g": [1, 2, 3, 4, 5], "t": 99}', 409, "not the one under way"),
    "null": ("null", 422, ""),
    "bytes": (b"\x00\xff", 400, ""),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_refused_round_is_a_problem_and_changes_nothing(agent, served, case):
    content, status, said = REFUSED[case]
    answer = served.ask("POST", f"{agent.place}/update", content=content)
    assert 400 <= answer.status_code < 500
    assert status in (None, answer.status_code), answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    about = answer.json()
    assert about["status"] == answer.status_code
    assert said in about["detail"]
    assert len(answer.content) < 1000
    assert agent.t == 1


def test_a_service_takes_what_is_told_about_the_next_round(served):
    """A guess of the next gradient, or a forecast of the row that the next decision meets; each by its own name."""
    learner = kl.MemoryGD(kl.Simplex(2), 2.0, memory=kl.memories.Full())
    options: dict[str, Any] = {"costs": kl.Linear(), "columns": ["eu", "us"], "engine": "step"}
    client = served.client()
    told = client.agent("told", learner, engine="step")
    rows = client.agent("told rows", learner, **options)
    own, own_rows = kl.Agent(learner, engine="step"), kl.Agent(learner, **options)
    g, guess = [1.0, 0.0], [0.0, 3.0]
    row, forecast = {"eu": 1.0, "us": 0.0}, {"eu": 0.0, "us": 3.0}
    x = own.update(g, next_hint=guess)
    decision = own_rows.observe(row, next_forecast=forecast)
    np.testing.assert_array_equal(told.update(g, next_hint=guess), x)
    assert rows.observe(row, next_forecast=forecast) == decision
    assert told.history()["next_hint"].to_list() == [guess]
    answers = client.update_many(
        [
            {"agent": "told", "g": g, "next_hint": guess},
            {"agent": "told rows", "row": row, "next_forecast": forecast},
        ]
    )
    np.testing.assert_array_equal(answers[0]["x"], own.update(g, next_hint=guess))
    own_rows.observe(row, next_forecast=forecast)
    np.testing.assert_array_equal(answers[1]["x"], own_rows.x)
    for entry, message in (
        ({"g": g, "next_forecast": guess}, "rounds.0.next_forecast goes with row. Use next_hint"),
        ({"row": row, "next_hint": guess}, "rounds.0.next_hint goes with g. Use next_forecast"),
        ({"g": g, "hint": guess}, "rounds.0: hint is not a known field. The fields are "),
    ):
        with pytest.raises(ValueError, match=message):
            client.update_many([{"agent": "told", **entry}])
    assert own.t == told.t


def test_problems_are_answered_as_problems_everywhere(served):
    calls = {
        ("GET", "/nowhere"): 404,
        ("PATCH", "/agents"): 405,
        ("GET", "/agents/none/explain"): 404,
    }
    calls |= {
        ("GET", "/agents/none/history"): 404,
        ("GET", "/agents?limit=0"): 422,
        ("PUT", "/agents/a%0ab"): 422,
    }
    for (method, path), status in calls.items():
        body = {"learner": LEARNER.to_dict()} if method == "PUT" else None
        answer = served.ask(method, path, body)
        assert (answer.status_code, answer.headers["content-type"]) == (
            status,
            "application/problem+json",
        ), path
    kind = {"Content-Type": "text/plain"}
    assert served.ask("POST", "/agents/a/update", content="{}", headers=kind).status_code == 415


def test_large_bodies_are_refused_whether_or_not_they_say_so(tmp_path):
    with run_service(tmp_path, body=5000) as served:
        assert served.ask("POST", "/rounds", content="x" * 5001).status_code == 413
        pieces = iter([b"x" * 1000] * 10)
        answer = served.http.post(
            "/rounds",
            content=pieces,
            headers={
                "Authorization": f"Bearer {served.tokens['admin']}",
                "Content-Type": "application/json",
            },
        )
        assert answer.status_code == 413
        assert "at most 5000 bytes" in answer.json()["detail"]


def test_a_store_that_fails_is_no_fault_of_the_request(tmp_path, monkeypatch):
    monkeypatch.setattr("klazy.serve.service.READY_SECONDS", 0.0)
    with run_service(tmp_path) as served:
        agent = served.client().agent("a", LEARNER, engine="step")
        agent.update(G[0])
        served.file.rename(tmp_path / "moved.db")
        answer = served.ask("POST", "/agents/a/update", {"g": [0.0] * 5})
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert "moved, removed or replaced" in answer.json()["detail"]
        assert served.http.get("/readyz").status_code == 503
        assert served.http.get("/healthz").status_code == 200
        (tmp_path / "moved.db").rename(served.file)
        assert agent.t == 2
        assert served.http.get("/readyz").status_code == 200


# How it does


def test_metrics_count_what_happened(tmp_path):
    with run_service(tmp_path) as served:
        agent = served.client().agent("a b", LEARNER, guards=GUARDS, engine="step")
        for i in range(5):
            agent.update(G[i], id=i)
        agent.update(G[0], id=0)
        served.ask("POST", f"{agent.place}/update", {"g": [1.0]})
        text = served.ask("GET", "/metrics", role="reader").text
        found = dict(re.findall(r"^(\w+(?:{[^}]*})?) ([\d.e+-]+)$", text, re.MULTILINE))
        assert found['klazy_rounds_total{agent="a b"}'] == "5.0"
        assert found['klazy_repeated_total{agent="a b"}'] == "1.0"
        assert found['klazy_agent_rounds{agent="a b"}'] == "5.0"
        assert float(found['klazy_movement_paid_total{agent="a b"}']) == agent.switching
        assert 0 <= float(found['klazy_agent_idle_seconds{agent="a b"}']) < 60
        refused = 'klazy_refusals_total{route="/agents/{name}/update",status="422"}'
        assert re.search(rf"^{re.escape(refused)} 1.0$", text, re.MULTILINE)
        for i, value in enumerate(agent.x):
            assert float(found[f'klazy_decision{{agent="a b",column="{i + 1}"}}']) == value
        assert found['klazy_frozen{agent="a b"}'] == "0.0"
        bound = sum("per_round" in (acted or "") for acted in agent.history()["guards"])
        assert found['klazy_guards_binding_total{agent="a b",guard="per_round"}'] == f"{bound}.0"


def test_metrics_say_what_is_decided_and_paid_after_the_rounds_of_any_worker(tmp_path):
    learner = kl.GD(kl.Box([0.0, 0.0], [9.0, 9.0]), sigma=1.0)
    terms = {
        "costs": kl.Pinball(4.0),
        "columns": ["eu", "us"],
        "movement": "l1",
        "engine": "step",
    }
    rows = [{"eu": 3.0, "us": 5.0}, {"eu": 4.0, "us": 1.0}, {"eu": 2.5, "us": 8.0}]

    def read(served):
        text = served.ask("GET", "/metrics", role="reader").text
        return {
            name: float(value)
            for name, value in re.findall(r"^(\w+(?:{[^}]*})?) ([\d.e+-]+)$", text, re.M)
        }

    with run_service(tmp_path) as served:
        agent = served.client().agent("web", learner, **terms)
        agent.observe(rows[0])
        assert read(served)['klazy_fixed_cost{agent="web"}'] == 4.0 * 8.0
    with run_service(tmp_path, tokens=served.tokens) as served:
        agent = served.client().agent("web")
        for row in rows[1:]:
            agent.observe(row)
        found = read(served)
        for column, value in agent.decision.items():
            assert found[f'klazy_decision{{agent="web",column="{column}"}}'] == value
        assert found['klazy_operating_cost{agent="web"}'] == agent.hitting
        assert found['klazy_switching_cost{agent="web"}'] == agent.switching
        assert found['klazy_fixed_cost{agent="web"}'] == 4.0 * (8.0 + 5.0 + 10.5)


def test_the_comparison_is_what_klazy_says_of_the_same_costs(agent, served):
    for g in G:
        agent.update(g)
    found = served.ask("GET", f"{agent.place}/comparison?optimum=true").json()
    assert found["cost"][-1] == pytest.approx(agent.hitting + agent.switching, rel=1e-12)
    assert found["fixed"]["cost"][-1] == pytest.approx(
        kl.best_fixed(G, LEARNER.domain).cost, rel=1e-9
    )
    best = kl.offline_optimum(G, LEARNER.domain, LEARNER.own_movement, gap=1e-3)
    assert found["optimum"]["cost"] == pytest.approx(best.cost, rel=1e-3)
    assert found["optimum"]["lower_bound"] <= found["optimum"]["cost"] <= found["cost"][-1]


@pytest.mark.parametrize("family", FAMILIES, ids=repr)
def test_the_comparison_is_right_for_every_cost_family(served, family, request):
    """The service builds classes of klazy only. A family of one's own comes with an agent that Python made in the store."""
    rows = np.exp(G[:12, : 3 + family.extras])
    learner = kl.GD(kl.Simplex(3), sigma=4.0)
    name = re.sub(r"\W", "-", request.node.name)
    terms = {"costs": family, "movement": "tv", "engine": "step"}
    if type(family).__module__ == "cases":
        with pytest.raises(ValueError, match="class must be a class of klazy"):
            served.client().agent(name, learner, **terms)
        kl.Agent.open(served.file, learner, name=name, **terms).close()
        remote = served.client().agent(name)
    else:
        remote = served.client().agent(name, learner, **terms)
    for row in rows:
        remote.observe(row)
    by_hand = kl.CallableCosts(
        12,
        3,
        lambda t, x: family.value(rows[t - 1], x),
        lambda t, x: family.gradient(rows[t - 1], x),
    )
    found = served.ask("GET", f"{remote.place}/comparison?optimum=true").json()
    # Both sides stop within 1e-3 of what is best, in relation to it.
    near: Any = {"rel": 2e-3, "abs": 1e-9}
    best = kl.best_fixed(by_hand, learner.domain, gap=1e-3)
    back = kl.TVMovement().distance(best.x - family.drift(rows, np.tile(best.x, (12, 1)))).sum()
    assert found["fixed"]["cost"][-1] == pytest.approx(best.cost + back, **near)
    movement = kl.TVMovement()
    if isinstance(family, kl.LogWealth):
        movement = kl.contrib.DriftedMovement(1.0, relatives=rows)
        by_hand = kl.LogWealthCosts(rows)
    try:
        optimum = kl.offline_optimum(by_hand, learner.domain, movement, gap=1e-3)
    except kl.types.GapNotReached as short:
        optimum = short.best
    assert found["optimum"]["cost"] == pytest.approx(optimum.cost, **near)
    assert found["optimum"]["lower_bound"] <= optimum.cost <= found["cost"][-1] + 1e-9


def test_openapi_has_an_example_of_every_body_that_works(served):
    about = served.ask("GET", "/openapi.json").json()
    assert about["paths"]["/agents/{name}/update"]["post"]["security"] == [{"token": []}]
    assert about["paths"]["/agents/{name}/update"]["post"]["x-role"] == "writer"
    schemas = about["components"]["schemas"]
    create = schemas["Create"]["examples"][0]
    assert served.ask("PUT", "/agents/example", create).status_code == 201
    assert (
        served.ask("POST", "/agents/example/update", schemas["Update"]["examples"][0]).status_code
        == 200
    )
    assert (
        served.ask("POST", "/agents/example/freeze", schemas["Reason"]["examples"][0]).status_code
        == 200
    )


def test_openapi_says_which_paths_need_a_token(served):
    for path, methods in served.ask("GET", "/openapi.json").json()["paths"].items():
        for method, about in methods.items():
            answer = served.http.request(method, path.format(name="nobody"))
            assert (answer.status_code == 401) == ("security" in about), path


def test_logs_name_no_token_and_no_query(served, caplog):
    caplog.set_level("DEBUG")
    served.ask("DELETE", "/agents/none?reason=secret")
    served.ask("GET", "/agents", headers={"Authorization": "Bearer klazy_guess"})
    lines = [
        json.dumps(vars(record), default=str)
        for record in caplog.records
        if record.name.startswith("klazy")
    ]
    assert any("/agents/none" in line and '"token": "admin"' in line for line in lines)
    for secret in (*served.tokens.values(), "klazy_guess", "secret"):
        assert not any(secret in line for line in lines)


def test_the_second_part_of_an_answer_is_sent_at_once():
    """Without it, and without uvloop, each request takes 40 ms."""
    with listen(Settings(port=0)) as listening:
        with socket.create_connection(listening.getsockname()) as _:
            line, _ = listening.accept()
        with line:
            assert line.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0


def test_after_all_of_this_the_store_is_whole(served):
    checked = call_klazy("check", served.file)
    assert checked.status == 0, checked.stdout


def test_the_unit_of_the_guide_uses_options_that_there_are():
    unit = Path(__file__).parents[1] / "docs" / "serve" / "klazy.service"
    (line,) = re.findall(r"klazy serve (.*)", unit.read_text(encoding="utf-8"))
    used = re.findall(r"--[a-z]+", line)
    known = call_klazy("serve", "--help").stdout
    assert len(used) >= 3
    assert [option for option in used if option not in known] == []
