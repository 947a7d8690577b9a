"""Agents that a service makes from JSON: it takes every learner that klazy has, and refuses what is too large or malformed."""

import inspect
import json
import tracemalloc

import numpy as np
import pytest

import klazy as kl
from cases import EVERY_LEARNER, THUMBS
from klazy.learners import presets
from klazy.learners.base import count_numbers, describe_state
from klazy.learners.thumb import LONGEST
from klazy.live.agent import add_checksum
from klazy.studies.contenders import REPLAY, TOLD, list_contenders
from klazy.studies.replay.report import replay
from served import run_service
from test_replay import name_columns, rows_for

pytestmark = pytest.mark.xdist_group("creating")
SIMPLEX = kl.Simplex(5)
BOX = kl.Box(np.zeros(5), np.full(5, 3.0))
ROW = np.linspace(0.5, 1.5, 5)
GD = {"class": "klazy.GD", "domain": {"class": "klazy.Simplex", "dim": 5}, "sigma": 1.0}
PRESETS = {
    "auto": lambda: kl.auto(SIMPLEX, kl.TVMovement(1.0)),
    "ensemble_auto": lambda: kl.contrib.ensemble_auto(SIMPLEX),
    "sader": lambda: kl.sader(SIMPLEX, T=1000, G=2.0),
    "sader_k": lambda: kl.sader_k(SIMPLEX, T=1000, G=2.0, greedy=True, lazy=True),
    "ader": lambda: kl.contrib.ader(SIMPLEX, T=1000, G=2.0),
    "scream": lambda: kl.contrib.scream(SIMPLEX, T=1000, G=2.0),
}
MORE = {
    "auto for rows": lambda: kl.auto(BOX, kl.L1Movement(1.0), costs=kl.Pinball(short=4.0)),
    "auto with hints": lambda: kl.auto(SIMPLEX, kl.TVMovement(1.0), hints=True),
    "auto on 64 coordinates": lambda: kl.auto(
        kl.Box(np.zeros(64), np.ones(64)), "l1", costs=kl.Pinball()
    ),
    **{name: lambda make=make: make(SIMPLEX, 1.0) for name, make in THUMBS.items()},
}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with run_service(tmp_path_factory.mktemp("creating")) as service:
        yield service


def put(served, about, name="never"):
    """The answer to a request for an agent."""
    return served.ask("PUT", f"/agents/{name}", about)


def refuse(served, about, name="never"):
    """What is said to a request for an agent that is refused."""
    answer = put(served, about, name)
    assert answer.status_code == 422, answer.text
    assert served.ask("GET", f"/agents/{name}").status_code == 404
    return answer.json()["detail"]


# What it takes


def test_every_preset_is_tried():
    made = {
        name
        for name, kind in vars(presets).items()
        if inspect.isfunction(kind) and is_preset(kind)
    }
    assert made == set(PRESETS)


def is_preset(function):
    """Whether this is a public function that builds a learner."""
    return (
        function.__annotations__.get("return") in ("SAder", "Leader")
        and function.__name__[0] != "_"
    )


@pytest.mark.parametrize("name", [*PRESETS, *MORE])
def test_presets_and_rules_of_thumb_play_in_the_service(served, name):
    learner = (PRESETS | MORE)[name]()
    costs = learner.family or kl.Linear()
    agent = served.client().agent(name, learner, costs=costs, engine="step")
    own = kl.Agent(learner, costs=costs, engine="step")
    for stretch in (1.0, 1.2):
        row = stretch * np.resize(ROW, learner.domain.dim)
        np.testing.assert_array_equal(agent.observe(row), own.observe(row))


@pytest.mark.parametrize(
    ("costs", "shape"),
    [("linear", {"domain": "simplex"}), ("pinball", {"domain": "box", "upper": 3.0})],
)
def test_whatever_replay_emits_plays_in_the_service(served, by_step, tmp_path, costs, shape):
    season = np.sin(2.0 * np.pi * (np.arange(100)[:, None] / 8.0 + np.linspace(0.0, 1.0, 5)))
    rows = 1.5 + season + 0.1 * rows_for(costs, 100)
    report = replay(name_columns(rows), costs=costs, move_cost=0.2, **shape)
    names = {
        contender.name for contender in list_contenders(REPLAY) if contender.style not in TOLD
    }
    # Rules for wealth and among states play on rows and tables of their own.
    names -= {"1/N", "buy and hold", "stay", "work function"}
    if costs == "linear":
        names -= {"rolling maximum", "rolling quantile"}
    assert {score.name for score in report.scores} == names
    for name in names:
        file = tmp_path / "agent.json"
        report.agent(name).save(file)
        saved = json.loads(file.read_bytes())["agent"]
        file.write_bytes(
            add_checksum(saved | {"engine": "step"})
        )  # a kernel would take seconds to compile
        agent = served.client().agent(f"{costs}, {name}", file)
        own = kl.Agent.load(file)
        for row in rows[30:32]:
            assert agent.observe(row) == own.observe(row)


# What is too large


@pytest.mark.parametrize("domain", [kl.L2Ball(5), SIMPLEX], ids=repr)
@pytest.mark.parametrize("name", EVERY_LEARNER)
def test_the_count_before_the_first_round_is_that_of_the_stored_state(domain, name):
    learner = EVERY_LEARNER[name](domain, 1.0)
    state = learner.init()
    counted = count_numbers(state)
    for stretch in (1.0, 1.2, 0.8):
        state = learner.step(state, stretch * ROW)
    assert counted == len(list_numbers(json.loads(json.dumps(describe_state(state)))))


def list_numbers(value):
    """The numbers within JSON."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [number for member in value for number in list_numbers(member)]
    return [value]


@pytest.mark.parametrize("name", ["MovingAverage", "MinimumHold", "Periodic", "DeadBand"])
def test_counting_a_long_window_takes_no_memory(name):
    learner = THUMBS[name](SIMPLEX, 1.0).replace(window=LONGEST)
    tracemalloc.start()
    counted = count_numbers(learner.init())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert counted > 5 * LONGEST
    assert peak < 100_000


def test_what_is_too_large_is_refused_by_the_number_that_is(served):
    long = kl.MovingAverage(kl.Simplex(3), 1_000_000).to_dict()
    assert refuse(served, {"learner": long}) == (
        "The state must have at most 200000 numbers, got 3000008. "
        "Shorten windows, use fewer experts, or see klazy serve --numbers."
    )
    wide = GD | {"domain": {"class": "klazy.Simplex", "dim": 10_000}}
    many = {
        "class": "klazy.Leader",
        "experts": [wide] * 600,
        "movement": {"class": "klazy.TVMovement"},
    }
    assert "200000 numbers, got 6000000." in refuse(served, {"learner": many})
    wider = GD | {"domain": {"class": "klazy.Simplex", "dim": 10_001}}
    assert "dimension must be at most 10000, got 10001." in refuse(served, {"learner": wider})
    crowd = {"class": "klazy.SAder", "experts": [GD] * 1000}
    assert "at most 2000 parts, got 2001." in refuse(served, {"learner": crowd})


def test_a_kernel_gives_every_expert_the_room_of_the_longest(served):
    """Step by step the same ensemble is small."""
    window = {"class": "klazy.MovingAverage", "domain": GD["domain"], "window": 8000}
    learner = {"class": "klazy.SAder", "experts": [window, *[GD] * 100]}
    assert "200000 numbers, got " in refuse(served, {"learner": learner})
    assert (
        put(served, {"learner": learner, "engine": "step"}, "one long window").status_code == 201
    )


def test_a_saved_agent_is_counted_as_well(served):
    saved = kl.Agent(kl.MovingAverage(SIMPLEX, 3), engine="step")._now.to_dict()
    saved["learner"]["window"] = 50_000
    assert "got 250012." in refuse(served, json.loads(add_checksum(saved)))
    waiting = kl.Agent(kl.contrib.Delayed(kl.GD(SIMPLEX, 1.0)), engine="step")._now.to_dict()
    waiting["state"] |= {
        "t": 40_001,
        "rounds": np.arange(1.0, 40_001.0).tolist(),
        "points": [[1, 0, 0, 0, 0]] * 40_000,
    }
    assert "got 240013." in refuse(served, json.loads(add_checksum(waiting)))


def test_the_bound_is_an_option(tmp_path):
    with run_service(tmp_path, numbers=100) as served:
        about = {"learner": kl.MovingAverage(SIMPLEX, 20).to_dict(), "engine": "step"}
        assert "at most 100 numbers, got 112." in refuse(served, about)
        about["learner"]["window"] = 17
        assert put(served, about, "small").status_code == 201


# What is malformed


def nest(times, learner=GD):
    """Blocks of blocks."""
    for _ in range(times):
        learner = {"class": "klazy.Blocks", "learner": learner, "length": 2}
    return learner


@pytest.mark.parametrize("times", [120, 300, 900])
def test_learners_nested_too_deep_are_refused_in_words(served, times):
    said = "Lists and objects may be nested at most 100 levels deep."
    assert said in refuse(served, {"learner": nest(times)})
    saved = kl.Agent(kl.GD(SIMPLEX, 1.0), engine="step")._now.to_dict() | {"learner": nest(times)}
    assert said in refuse(served, {"agent": saved, "format": 1, "checksum": "00000000"})
    with pytest.raises(ValueError, match=said):
        kl.types.Learner.from_dict(nest(times))


def test_a_file_nested_too_deep_is_refused_in_words(tmp_path):
    saved = kl.Agent(kl.GD(SIMPLEX, 1.0), engine="step")._now.to_dict()
    for times in (120, 400, 900):
        (tmp_path / "agent.json").write_bytes(add_checksum(saved | {"learner": nest(times)}))
        with pytest.raises(ValueError, match="nested at most 100 levels"):
            kl.Agent.load(tmp_path / "agent.json")
    assert kl.types.Learner.from_dict(nest(50)).to_dict()["class"] == "klazy.Blocks"


@pytest.mark.parametrize("name", ["klazy._Everywhere", "_Everywhere", "klazy._Shares"])
def test_private_classes_are_refused(served, name):
    assert "must be a class of klazy" in refuse(
        served, {"learner": GD | {"domain": {"class": name, "dim": 5}}}
    )


@pytest.fixture(scope="module")
def plain(served):
    return served.client().agent("plain", kl.GD(SIMPLEX, 1.0), engine="step")


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("update", '{"g": [1, 2, 3, 4, 5], "t": 1, "t": 1}'),
        ("update", '{"g": [1, 2, 3, 4, 5], "g": [1, 2, 3, 4, 5]}'),
        ("observe", '{"row": {"a": 1, "a": 2}}'),
        ("advance", '{"id": "1", "id": "2"}'),
        ("freeze", '{"reason": "", "reason": "none"}'),
        ("/rounds", '{"rounds": [{"agent": "plain", "agent": "other", "g": [1, 2, 3, 4, 5]}]}'),
        ("PUT", '{"learner": {"class": "klazy.GD", "class": "klazy.LazyGD"}}'),
    ],
)
def test_an_object_that_has_a_key_twice_is_refused(served, plain, path, text):
    method, place = (
        ("PUT", "/agents/never") if path == "PUT" else ("POST", f"{plain.place}/{path}")
    )
    answer = served.ask(method, path if path[0] == "/" else place, content=text)
    assert answer.status_code == 400, answer.text
    assert "The body must be a JSON object, got the key '" in answer.json()["detail"]
    assert "' twice." in answer.json()["detail"]
    assert plain.t == 1


def test_a_body_that_python_cannot_read_is_refused_in_words(served):
    for content in ("[" * 100_000, b"\xff\xfe\xff", '{"engine": ' + "1" * 5000 + "}"):
        answer = served.ask("PUT", "/agents/never", content=content)
        assert answer.status_code == 400
        assert "The body must be a JSON object, got " in answer.json()["detail"]


@pytest.mark.parametrize(
    ("path", "body", "place"),
    [
        ("update", {"g": [1, 2, 3, 4, 5], "t": "1"}, "t"),
        ("update", {"g": [1, 2, 3, 4, 5], "t": True}, "t"),
        ("update", {"g": [1, 2, 3, 4, 5], "t": 1.5}, "t"),
        ("update", {"g": [1, 2, 3, 4, 5], "gradient": "yes"}, "gradient"),
        ("update", {"g": [1, 2, 3, 4, 5], "gradient": 1}, "gradient"),
        ("observe", {"row": [1, 2, 3, 4, 5], "round": "1"}, "round"),
        ("cost", {"cost": [1.0], "t": "1"}, "t"),
        ("give-up", {"round": "1"}, "round"),
        (
            "/rounds",
            {"rounds": [{"agent": "plain", "g": [1, 2, 3, 4, 5], "t": "1"}]},
            "rounds.0.t",
        ),
    ],
)
def test_values_of_another_kind_are_refused(served, plain, path, body, place):
    answer = served.ask("POST", path if path[0] == "/" else f"{plain.place}/{path}", body)
    assert answer.status_code == 422
    assert f"{place} must be " in answer.json()["detail"]
    assert plain.t == 1


def test_whole_numbers_may_be_written_with_a_point_and_floats_without(served):
    agent = served.client().agent("numbers", kl.GD(SIMPLEX, 1.0), engine="step")
    text = '{"g": [1, 2, 3.0, 4, 5], "t": 1.0, "gradient": true}'
    answer = served.ask("POST", f"{agent.place}/update", content=text)
    assert (answer.status_code, answer.json()["t"]) == (200, 2)
