"""Forecasts by models that learn on the way: in Python, in a replay, and live."""

import io
import json
import pickle
import re
import sys
from contextlib import contextmanager

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from river import forest, linear_model, preprocessing, time_series
from sklearn.linear_model import LinearRegression, SGDRegressor

import klazy as kl
from command import call_klazy
from klazy.base.checks import InvalidInput
from klazy.contrib import Forecaster, Refit
from klazy.live.guards import Guards
from klazy.studies.replay.source import Source, play_model
from served import run_service


class Last:
    """A time-series model that keeps what it was given."""

    def __init__(self):
        self.pairs = []

    def learn_one(self, y, x=None):
        self.pairs.append((x, y))

    def forecast(self, horizon, xs):
        return [100.0 * self.pairs[-1][1] + x["f"] for x in xs]


class Fitted:
    """A model of the kind of statsforecast, which remembers to what it was fitted."""

    def __init__(self):
        self.fits = []
        self.asked = []

    def fit(self, y, X=None):
        self.fits.append((y.tolist(), None if X is None else X.ravel().tolist()))

    def predict(self, h, X=None, level=None):
        self.asked.append((h, None if X is None else X.ravel().tolist()))
        return {"mean": np.arange(h) + self.fits[-1][0][-1]}


def scaled():
    return preprocessing.StandardScaler() | linear_model.LinearRegression()


MODELS = {
    "a regressor of river": scaled,
    "a forest of river": lambda: forest.ARFRegressor(n_models=2, seed=1),
    "a time series of river": lambda: time_series.SNARIMAX(2, 0, 1),
    "a time series of river behind a scaler": (
        lambda: preprocessing.StandardScaler() | time_series.SNARIMAX(2, 0, 1)
    ),
    "a smoother of river": lambda: time_series.HoltWinters(0.3, 0.1),
    "a regressor of scikit-learn": lambda: SGDRegressor(eta0=1e-3, random_state=0),
    "a regressor of scikit-learn that is fitted anew": lambda: Refit(LinearRegression(), 3, 12),
    "a time series that is fitted anew": lambda: Refit(Fitted(), 3, 12),
}


def draw_rows(T, seed=0):
    """Draw rows of two demands with a feature, as dicts."""
    rng = np.random.default_rng(seed)
    hour = np.arange(T) % 12
    wave = 5.0 + 3.0 * np.sin(np.pi * hour / 6.0)
    return [
        {"a": wave[t] + rng.normal(), "b": 2.0 * wave[t] + rng.normal(), "hour": float(hour[t])}
        for t in range(T)
    ]


def play(model, rows, ahead=1, targets=("a", "b")):
    forecaster = Forecaster(model, targets, ["hour"], ahead=ahead)
    return [forecaster.observe(row) for row in rows]


@pytest.mark.parametrize("kind", MODELS)
class TestEveryModel:
    @given(st.integers(1, 3), st.integers(5, 30), st.integers(0, 9))
    def test_never_looks_ahead(self, kind, ahead, changed, seed):
        """Whatever comes later, a forecast is the same."""
        rows = draw_rows(32)
        others = rows[:changed] + draw_rows(32, seed + 1)[changed:]
        found = []
        for each in (rows, others):
            source = Source(pl.DataFrame(each), without=["hour"])
            told = play_model(source, pl.DataFrame(each), MODELS[kind](), ["hour"], None, ahead)
            assert told.is_early
            found.append(told.values[:changed])
        np.testing.assert_array_equal(*found)

    def test_forecasts_after_each_row_once_it_has_learned(self, kind):
        forecasts = play(MODELS[kind](), draw_rows(30), ahead=2)
        first = next(at for at, told in enumerate(forecasts) if told is not None)
        assert first <= 4
        assert all(told is not None and list(told) == ["a", "b"] for told in forecasts[first:])

    def test_goes_on_after_a_restart_as_if_nothing_had_been(self, kind):
        """From a pickle, or from the rows until now."""
        rows = draw_rows(30)
        whole = play(MODELS[kind](), rows)
        forecaster = Forecaster(MODELS[kind](), ["a", "b"], ["hour"])
        for row in rows[:17]:
            forecaster.observe(row)
        loaded = pickle.loads(pickle.dumps(forecaster))
        assert [loaded.observe(row) for row in rows[17:]] == whole[17:]
        again = Forecaster(MODELS[kind](), ["a", "b"], ["hour"])
        assert [again.observe(row) for row in rows] == whole

    def test_leaves_the_model_as_it_is(self, kind):
        model = MODELS[kind]()
        rows = draw_rows(20)
        assert play(model, rows) == play(model, rows)

    def test_does_without_what_is_missing(self, kind):
        """There is no forecast after such a row, and one after the next; a rejected row changes nothing."""
        rows = draw_rows(40)
        rows[20] = rows[20] | {"hour": None}
        rows[25] = rows[25] | {"a": np.nan}
        forecasts = play(MODELS[kind](), rows)
        assert [at for at in range(10, 40) if forecasts[at] is None] == [20, 25]
        forecaster = Forecaster(MODELS[kind](), ["a", "b"], ["hour"])
        found = []
        for row in rows:
            for wrong in ({"a": 1.0, "b": 2.0}, row | {"hour": "noon"}):
                with pytest.raises(ValueError, match="hour"):
                    forecaster.observe(wrong)
            found.append(forecaster.observe(row))
        assert found == forecasts


class TestWhatAModelIsGiven:
    @pytest.mark.parametrize("ahead", [1, 2, 3])
    def test_a_time_series_learns_each_target_with_the_features_known_before(self, ahead):
        forecaster = Forecaster(Last(), ["y"], ["f"], ahead=ahead)
        for t in range(8):
            told = forecaster.observe({"y": float(t), "f": 0.1 * t})
            # The features of the row that is forecast are those of this row.
            assert told == ({"y": 100.0 * t + 0.1 * t} if t >= ahead else None)
        (model,) = forecaster._models
        assert model.pairs == [({"f": 0.1 * t}, float(t + ahead)) for t in range(8 - ahead)]
        assert forecaster.learned == 8 - ahead

    def test_a_time_series_learns_what_follows_a_missing_target(self):
        forecaster = Forecaster(Last(), ["y"], ["f"])
        for t, y in enumerate((0.0, 1.0, None, 3.0, 4.0)):
            told = forecaster.observe({"y": y, "f": float(t)})
            assert (told is None) == (t in (0, 2))
        (model,) = forecaster._models
        assert [(x["f"], y) for x, y in model.pairs] == [(0.0, 1.0), (2.0, 3.0), (3.0, 4.0)]

    def test_a_regressor_has_the_last_targets_of_all_columns_among_its_features(self):
        given = []

        class Regressor:
            def learn_one(self, x, y):
                given.append((x, y))

            def predict_one(self, x):
                return sum(x.values())

        forecaster = Forecaster(Regressor(), ["a", "b"], ["f"])
        assert forecaster.observe({"a": 1, "b": 2, "f": 3, "other": "x"}) is None
        assert forecaster.observe({"a": 4, "b": 5, "f": 6}) == {"a": 15.0, "b": 15.0}
        x = {"f": 3.0, "a": 1.0, "b": 2.0}
        assert given == [(x, 4.0), (x, 5.0)]

    def test_a_model_is_fitted_anew_to_the_last_rows_and_forecasts_further_ahead_in_between(self):
        forecaster = Forecaster(Refit(Fitted(), every=3, window=4), ["y"], ["f"])
        told = [forecaster.observe({"y": float(t), "f": -float(t)}) for t in range(9)]
        (model,) = forecaster._models
        pairs = [([1.0], [0.0]), ([1.0, 2.0, 3.0, 4.0], [0.0, -1.0, -2.0, -3.0])]
        pairs.append(([4.0, 5.0, 6.0, 7.0], [-3.0, -4.0, -5.0, -6.0]))
        assert model.model.fits == pairs
        asked = [(1, [-1]), (2, [-1, -2]), (3, [-1, -2, -3]), (1, [-4])]
        assert model.model.asked[:4] == asked
        # The first row to come is the last one that it was fitted to: fitted values are no forecast.
        assert [each["y"] for each in told[1:] if each] == [1, 2, 3, 4, 5, 6, 7, 8]

    def test_without_features_there_is_no_matrix(self):
        forecaster = Forecaster(Refit(Fitted(), every=1, window=9), ["y"])
        for t in range(3):
            forecaster.observe({"y": t})
        assert forecaster._models[0].model.fits[-1] == ([1.0, 2.0], None)

    def test_it_learns_what_there_is_to_learn(self):
        """A regression that knows the hour forecasts a wave, beside which the last row is late."""
        rows = [
            row | {"hour": np.sin(np.pi * (t + 1) / 6.0)} for t, row in enumerate(draw_rows(600))
        ]
        told = [each["a"] for each in play(scaled(), rows) if each]
        demand = np.array([row["a"] for row in rows])
        late = np.abs(demand[2:] - told[:-1])[-200:]
        last = np.abs(np.diff(demand))[-200:]
        assert np.mean(late) < 0.6 * np.mean(last)


class Failing:
    def __init__(self, fails_at):
        self.fails_at = fails_at
        self.calls = 0

    def learn_one(self, x, y):
        pass

    def predict_one(self, x):
        self.calls += 1
        if self.calls in self.fails_at:
            raise RuntimeError("not enough data")
        return 1.0


def test_a_model_may_fail_until_its_first_forecast_and_not_afterwards():
    forecaster = Forecaster(Failing({1, 2, 4}), ["y"])
    assert [forecaster.observe({"y": 1.0}) for _ in range(3)] == [None] * 3
    message = "The model of y failed: RuntimeError: not enough data."
    assert forecaster.failure == message
    assert forecaster.observe({"y": 1.0}) == {"y": 1.0}
    assert forecaster.failure == ""
    with pytest.raises(ValueError, match=re.escape(message)):
        forecaster.observe({"y": 1.0})
    assert forecaster.observe({"y": 1.0}) == {"y": 1.0}


# ---- in a replay, and live

CODE = """
from river import linear_model, preprocessing


def make_model():
    return preprocessing.StandardScaler() | linear_model.LinearRegression()


class Broken:
    def learn_one(self, x, y):
        pass

    def predict_one(self, x):
        raise RuntimeError("no data")


class Late(Broken):
    calls = 0

    def predict_one(self, x):
        self.calls += 1
        if self.calls == 9:
            raise RuntimeError("no memory")
        return x["eu"]
"""
OPTIONS = (
    "--domain",
    "box",
    "--upper",
    "20",
    "--costs",
    "pinball",
    "--short",
    "4",
    "--time",
    "at",
)
OPTIONS += ("--move-cost", "0.5")
MODEL = ("--model", "models_of_tests:make_model")
# What a replay may ask for that a live agent must then do as well.
VARIANTS = {
    "plain": (),
    "late": ("--lead", "1", "--delay", "1"),
    "filled": ("--fill", "forward", "--per", "2", "--no-whole"),
    "dropped": ("--fill", "drop"),
    "guarded": ("--ramp-up", "3"),
}


@contextmanager
def forget_afterwards():
    yield
    sys.modules.pop("models_of_tests", None)


@pytest.fixture
def folder(tmp_path):
    """A folder with a module of models, and a trace of which some cells are missing."""
    (tmp_path / "models_of_tests.py").write_text(CODE)
    lines = ["at,eu,us,hour"]
    for t, row in enumerate(draw_rows(80)):
        hour = "" if t % 11 == 7 else f"{row['hour']:.0f}"
        lines.append(f"{t},{row['a']:.3f},{row['b']:.3f},{hour}")
    (tmp_path / "load.csv").write_text("\n".join(lines) + "\n")
    return tmp_path


def drop_cells(folder):
    lines = (folder / "load.csv").read_text().splitlines()
    for at in range(5, len(lines), 9):
        t, eu, _, hour = lines[at].split(",")
        lines[at] = f"{t},{eu},,{hour}"
    (folder / "load.csv").write_text("\n".join(lines) + "\n")


def run(folder, *arguments, text=None):
    with forget_afterwards(), pytest.MonkeyPatch.context() as patched:
        patched.setattr(sys, "stdin", io.StringIO(text or ""))
        return call_klazy("--import", "models_of_tests", *arguments, folder=folder)


def replay(folder, *options):
    ended = run(
        folder, "replay", "load.csv", *OPTIONS, *MODEL, "--features", "hour", *options,
        "--contender", "forecast", "--emit", "agent.json", "--json",
    )  # fmt: skip
    assert ended.status == 0, ended.stderr
    return json.loads(ended.stdout)


def split(folder, at):
    """Return the rows until one as a file, and those after it."""
    header, *lines = (folder / "load.csv").read_text().splitlines()
    (folder / "past.csv").write_text("\n".join([header, *lines[:at]]) + "\n")
    return lambda first, last: "\n".join([header, *lines[first:last]]) + "\n"


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_live_agent_pays_what_the_replay_promised_also_after_a_restart(
    by_step, few, folder, variant
):
    """To the last digit: it is given the same forecasts."""
    if "--fill" in VARIANTS[variant]:
        drop_cells(folder)
    report = replay(folder, *VARIANTS[variant])
    assert report["columns"] == ["eu", "us"]
    paid = {row["contender"]: row for row in report["table"]}["forecast"]
    origin = kl.Agent.load(folder / "agent.json").origin
    assert origin is not None
    kept = [
        at
        for at, line in enumerate((folder / "load.csv").read_text().splitlines()[1:])
        if "--fill" not in VARIANTS[variant] or variant == "filled" or line.split(",")[2]
    ]
    first = kept[origin["next_row"] - 1]
    text = split(folder, first)
    options = ("--state", "live.db", "--id", "at", *MODEL)
    ended = run(
        folder, "live", "agent.json", *options, "--history", "past.csv", text=text(first, 65)
    )
    assert ended.status == 0, ended.stderr
    # The rows until now are the past and what has come since; two of the next come twice.
    split(folder, 65)
    ended = run(
        folder, "live", "agent.json", *options, "--history", "past.csv", text=text(63, 80)
    )
    assert ended.status == 0, ended.stderr
    with kl.Agent.open(folder / "live.db", name="agent") as agent:
        assert (agent.hitting, agent.switching) == (paid["hitting"], paid["switching"])
        hints = agent.history()["next_hint"]
        assert hints.null_count() < len(hints) / 2
    checked = run(folder, "check", "live.db")
    assert "identical bit for bit" in checked.stdout


def test_a_model_learns_again_from_rows_that_are_sent_again(few, folder):
    replay(folder)
    text = split(folder, 40)
    for name, parts in (("once", [(40, 80)]), ("twice", [(40, 61), (40, 80)])):
        for part in parts:
            options = (
                "--state",
                "live.db",
                "--name",
                name,
                "--id",
                "at",
                "--history",
                "past.csv",
            )
            ended = run(folder, "live", "agent.json", *MODEL, *options, text=text(*part))
            assert ended.status == 0, ended.stderr
    agents = [kl.Agent.open(folder / "live.db", name=name) for name in ("once", "twice")]
    histories = [agent.history().drop("time") for agent in agents]
    assert histories[0].equals(histories[1])


def test_a_model_that_begins_with_nothing_is_reported(few, folder):
    replay(folder)
    text = split(folder, 40)
    ended = run(folder, "live", "agent.json", *MODEL, text=text(40, 50))
    assert ended.status == 0
    assert ended.stderr.splitlines()[0] == (
        "The agent is in round 41, but its model begins with nothing. Add --history, the rows until now."
    )
    known = run(folder, "live", "agent.json", *MODEL, "--history", "past.csv", text=text(40, 50))
    assert "begins with nothing" not in known.stderr
    assert "Rows taken: 10, without a forecast: 1, refused: 0;" in known.stderr
    assert known.stdout != ended.stdout


def test_a_model_that_fails_holds_up_no_decision(few, folder):
    replay(folder)
    text = split(folder, 40)
    for name, untold in (
        ("Broken", "10 (The model of eu failed: RuntimeError: no data.)"),
        ("Late", "2"),
    ):
        given = ("--model", f"models_of_tests:{name}")
        ended = run(
            folder, "live", "agent.json", *given, text=text(41, 51).replace(",\n", ",3\n")
        )
        assert ended.status == 0
        assert f"Rows taken: 10, without a forecast: {untold}, refused: 0;" in ended.stderr
        assert (
            "decided without a forecast. The model of eu failed: RuntimeError: no memory."
            in ended.stderr
        ) == (name == "Late")
        assert len(ended.stdout.splitlines()) == 11
    refused = run(folder, "live", "agent.json", *MODEL, text='{"eu": 1, "us": 1, "hour": "noon"}')
    assert "line 1: hour must be a finite number, got 'noon'." in refused.stderr


@pytest.fixture
def sensors(monkeypatch):
    """A source that has a row for every minute until now."""
    from klazy.sources import TimedRow

    class Sensors:
        def read(self, since):
            for t, row in enumerate(draw_rows(80)):
                if 60.0 * t > (since or 0.0):
                    yield TimedRow(
                        60.0 * t, {"eu": row["a"], "us": row["b"], "hour": row["hour"]}
                    )

    monkeypatch.setattr("klazy.sources.open_installed_source", lambda text, step: Sensors())


@pytest.mark.usefixtures("sensors", "few")
def test_a_source_has_the_history_of_a_model(folder):
    replayed = run(
        folder, "replay", "--source", "sensors:", "--since", "1970-01-01", "--step", "1m", *OPTIONS[:-4], "--move-cost", "0.5",
        *MODEL, "--features", "hour", "--contender", "forecast", "--emit", "agent.json", "--json",
    )  # fmt: skip
    assert replayed.status == 0, replayed.stderr
    paid = {row["contender"]: row for row in json.loads(replayed.stdout)["table"]}["forecast"]
    live = (
        "live",
        "agent.json",
        "--state",
        "live.db",
        "--source",
        "sensors:",
        "--step",
        "1m",
        "--once",
    )
    ended = run(folder, *live, *MODEL, "--history", "1970-01-01")
    assert ended.status == 0, ended.stderr
    with kl.Agent.open(folder / "live.db", name="agent") as agent:
        assert (agent.hitting, agent.switching) == (paid["hitting"], paid["switching"])
    forgetful = run(folder, *live, *MODEL)
    assert "but its model begins with nothing" in forgetful.stderr


def test_a_replay_in_python_takes_any_model(few):
    frame = pl.DataFrame(draw_rows(80))
    game = {"domain": "box", "upper": 20.0, "costs": "pinball", "short": 4.0, "move_cost": 0.5}
    report = kl.replay(frame, model=scaled(), features=["hour"], guards=Guards(), **game)
    assert "Your forecast" in report.answer
    told = play(scaled(), draw_rows(80))
    forecasts = report.source.forecasts
    assert forecasts is not None
    assert forecasts.values[1:].tolist() == [list(each.values()) for each in told if each]
    # The same forecasts as columns, each in the row after which it is used.
    columns = pl.DataFrame(forecasts.values, schema=["a_told", "b_told"]).fill_nan(None)
    given = pl.concat([frame.drop("hour"), columns], how="horizontal")
    same = kl.replay(given, forecast="*_told", forecast_for="next", guards=Guards(), **game)
    assert [(each.name, each.cost) for each in same.scores] == [
        (each.name, each.cost) for each in report.scores
    ]
    agent = report.agent("forecast")
    assert agent.forecast is None
    assert agent.origin is not None
    assert agent.origin["features"] == ["hour"]
    assert "features" not in (report.agent("auto").origin or {})


def test_a_client_of_the_service_sends_the_forecast_with_the_row(tmp_path):
    box = kl.Box([0.0, 0.0], [20.0, 20.0])
    follower = kl.contrib.FollowForecast(box, "l1", 8, 4, family=kl.Pinball(4.0))
    agent = kl.Agent(follower, columns=["a", "b"], movement="l1", engine="step")
    agent.save(tmp_path / "agent.json")
    forecaster = Forecaster(scaled(), ["a", "b"], ["hour"])
    with run_service(tmp_path, insecure=True) as served:
        remote = served.client().agent("told", tmp_path / "agent.json")
        for row in draw_rows(9):
            demand = {name: row[name] for name in ("a", "b")}
            told = forecaster.observe(row)
            assert remote.observe(demand, next_forecast=told) == agent.observe(
                demand, next_forecast=told
            )
        assert (remote.hitting, remote.switching) == (agent.hitting, agent.switching)


# ---- errors

FRAME = pl.DataFrame({"a": np.arange(60.0) % 7, "hour": np.arange(60.0) % 5, "name": ["x"] * 60})
GAME = {"domain": "box", "upper": 9.0, "costs": "pinball"}
REJECTED = {
    "model must be an object with learn_one and predict_one or forecast, as in river, or partial_fit and predict, got 3. Use": (
        lambda: Forecaster(3, ["a"])
    ),
    "Use LinearRegression().": lambda: Forecaster(linear_model.LinearRegression, ["a"]),
    "Use Refit(model, every=24, window=500) to fit it anew every 24 rows.": (
        lambda: Forecaster(LinearRegression(), ["a"])
    ),
    "model must have fit and predict, got 3.": lambda: Refit(3, 1, 1),
    "every must be an integer of at least 1, got 0.": lambda: Refit(LinearRegression(), 0, 1),
    "window must be an integer of at least 1, got 0.": lambda: Refit(LinearRegression(), 1, 0),
    "ahead must be an integer of at least 1, got 0.": lambda: Forecaster(
        scaled(), ["a"], ahead=0
    ),
    "targets must have a name. Use targets=['demand'].": lambda: Forecaster(scaled(), []),
    "targets must be a list of distinct names, got 'a'.": lambda: Forecaster(scaled(), "a"),
    "features must be a list of distinct names, got ['f', 'f'].": (
        lambda: Forecaster(scaled(), ["a"], ["f", "f"])
    ),
    "features must not have the target 'a'. The model knows it anyway: leave it out.": (
        lambda: Forecaster(scaled(), ["a"], ["a"])
    ),
    "model must be one that can be copied, got": lambda: Forecaster(Uncopied(), ["a"]),
    "The row must have ['f', 'a'], but ['f'] are missing.": (
        lambda: Forecaster(scaled(), ["a"], ["f"]).observe({"a": 1.0})
    ),
    "a must be a finite number, got 'x'.": lambda: Forecaster(scaled(), ["a"]).observe(
        {"a": "x"}
    ),
    "The model of a failed: ArithmeticError: its forecast is inf. If it learns by gradient steps, scale its features or": (
        lambda: play_numbers(Diverging())
    ),
    "The model made no forecast. The model of a failed: RuntimeError: not enough data.": (
        lambda: kl.replay(FRAME.select("a"), model=Failing(range(99)), **GAME)
    ),
    "features are for a model, got ['hour']. Leave them out, or name a model.": (
        lambda: kl.replay(FRAME, features=["hour"], **GAME)
    ),
    "features must be a list of columns, got 3. Use ['hour'].": (
        lambda: kl.replay(FRAME, model=scaled(), features=3, **GAME)  # pyright: ignore
    ),
    "features must be a column of the data (a, hour, name), got 'minute'.": (
        lambda: kl.replay(FRAME, model=scaled(), features=["minute"], **GAME)
    ),
    "column name must be a number": (
        lambda: kl.replay(FRAME, model=scaled(), features=["hour", "name"], **GAME)
    ),
    "model and forecast do not go together. Leave one of them out.": (
        lambda: kl.replay(FRAME, model=scaled(), forecast="hour", **GAME)
    ),
}


class Uncopied:
    learn_one = predict_one = print

    def __deepcopy__(self, memo):
        raise TypeError("it has a lock")


class Diverging:
    """It has no forecast at first, then one, then one that is infinite."""

    forecasts = (np.nan, 1.0, np.inf)
    learned = -1

    def partial_fit(self, X, y):
        self.learned += 1

    def predict(self, X):
        return np.array([self.forecasts[self.learned]])


def play_numbers(model):
    forecaster = Forecaster(model, ["a"])
    for value in (1.0, 2.0, 3.0, 4.0):
        forecaster.observe({"a": value})


@pytest.mark.parametrize("message", REJECTED)
def test_what_makes_no_sense_is_refused_with_a_sentence(message):
    with pytest.raises(InvalidInput, match=re.escape(message)):
        REJECTED[message]()


def test_commands_refuse_what_makes_no_sense(few, folder):
    replay(folder)
    kl.Agent(kl.GD(kl.Box([0, 0], [9, 9]), 1.0), costs=kl.Pinball(), columns=["eu", "us"]).save(
        folder / "plain.json"
    )
    told = kl.contrib.FollowForecast(kl.Box(0.0, 9.0), "l1", 8, 4, family=kl.Pinball())
    kl.Agent(told, columns=["eu"], forecast="eu_told").save(folder / "told.json")
    for arguments, message in (
        (("live", "agent.json"), "Name it: klazy --import mine live agent.json --model mine:make_model."),
        (("live", "plain.json", "--features", "hour"), "--features goes with --model module:name."),
        (("live", "plain.json", "--history", "a.csv"), "--history goes with --model module:name."),
        (("live", "plain.json", *MODEL), "--model needs an agent whose learner takes forecasts, got GD."),
        (("live", "told.json", *MODEL), "columns of forecasts; this one has ['eu_told']. Leave it out."),
        (("live", "agent.json", "--model", "make"), "--model must be module:name, got make."),
        (("live", "agent.json", "--model", "m:make"), "begin with klazy --import m."),
        (("live", "agent.json", *MODEL, "--history", "none.csv"), "Cannot read the history none.csv: No such"),
        (("replay", "load.csv", *OPTIONS, "--model", "make"), "--model must be module:name, got make."),
        (("replay", "load.csv", *OPTIONS, "--features", "hour"), "--features are for a model, got ['hour']."),
        (("replay", "load.csv", *OPTIONS, *MODEL, "--forecast-for", "next"), "--model and --forecast-for do not go"),
        (("replay", "load.csv", "--convert", "3", "--deadline", "4", *MODEL), "--model does not go together with"),
    ):  # fmt: skip
        ended = run(folder, *arguments, text="at,eu,us,hour\n")
        assert message in ended.stderr, (arguments, ended.stderr)
        assert ended.status != 0
