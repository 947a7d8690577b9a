"""Rows from a real Prometheus: replayed, and followed live."""

import json
import math
import subprocess
import sys
import time
from datetime import UTC, datetime
from subprocess import PIPE

import pytest

import klazy as kl
from command import call_klazy
from klazy.base.checks import InvalidInput
from klazy.sources import (
    Prometheus,
    SourceAway,
    TimedRow,
    follow,
    open_installed_source,
    parse_span,
    read_frame,
)
from systems import PrometheusServer, run
from test_installed import install

pytestmark = pytest.mark.xdist_group("prometheus")

MINUTES = 14 * 24 * 60
# The first round of the trace, in whole minutes; two weeks end a moment ago.
BEGIN = int(time.time()) // 60 * 60 - 60 * MINUTES


def load(i, phase=0.0):
    """The load in minute ``i``: a day, and something that does not repeat."""
    return round(
        50.0 + 30.0 * math.sin(2.0 * math.pi * i / 1440.0 + phase) + 10.0 * math.sin(i * i), 3
    )


@pytest.fixture(scope="module")
def history(tmp_path_factory):
    """A Prometheus with two weeks of two regions, one with a gap of an hour, filled in by promtool."""
    server = PrometheusServer(tmp_path_factory.mktemp("history"))
    eu = [(BEGIN + 60 * i, load(i)) for i in range(MINUTES)]
    us = [(BEGIN + 60 * i, load(i, 1.0)) for i in range(MINUTES) if not 5000 <= i < 5060]
    server.backfill({'load{region="eu"}': eu, 'load{region="us"}': us})
    with server:
        yield server


SIMPLE = (
    "--domain",
    "box",
    "--upper",
    "100",
    "--costs",
    "pinball",
    "--short",
    "4",
    "--move-cost",
    "3",
)


class TestHistory:
    def test_a_row_is_a_step_and_a_label_gives_the_columns(self, history):
        source = Prometheus(history.url, ["load"], label="region")
        rows = list(source.read(BEGIN + 60 * 4998.0))
        assert [row.time - BEGIN for row in rows[:3]] == [60.0 * 4999, 60.0 * 5000, 60.0 * 5001]
        assert rows[0].cells == {"eu": load(4999), "us": load(4999, 1.0)}
        # Prometheus carries a number on for a while.
        assert [row.cells.get("us") is None for row in rows[1:63]] == [False] + 59 * [
            True
        ] + 2 * [False]
        assert len(rows) >= MINUTES - 4999
        source._clock = lambda: BEGIN + 60.0 * (MINUTES - 1) + source.settle
        (newest,) = source.read(None)
        assert newest == rows[MINUTES - 5000]

    def test_several_queries_are_columns_and_long_histories_take_several_requests(self, history):
        names = ["eu", "us"]
        queries = [f"{name}=load{{region='{name}'}}" for name in names]
        frame = read_frame(Prometheus(history.url, queries), BEGIN - 86_400.0)
        assert frame.columns == ["time", "eu", "us"]
        assert frame["time"][0] == datetime.fromtimestamp(BEGIN, UTC)
        assert frame["eu"][:MINUTES].to_list() == [load(i) for i in range(MINUTES)]
        assert frame["us"].null_count() == 59

    def test_rows_without_data_come_once_others_follow(self, history):
        source = Prometheus(history.url, ["load{region='us'}"])
        hour = BEGIN + 60.0 * 5030
        source._clock = lambda: hour + source.settle
        assert list(source.read(hour - 300.0)) == []
        source._clock = lambda: hour + 3600.0 + source.settle
        rows = list(source.read(hour - 300.0))
        assert [row.cells["value"] for row in rows[:35]] == 34 * [None] + [load(5060, 1.0)]

    def test_the_command_replays_it_with_nothing_exported(self, history, tmp_path):
        history_options = (
            "--prometheus",
            history.url,
            "--query",
            "sum(load) / 2",
            "--since",
            "14d",
            "--step",
            "30m",
        )
        asked = call_klazy("replay", *history_options, *SIMPLE, "--json", folder=tmp_path)
        assert (asked.status, asked.stderr) == (0, "")
        found = json.loads(asked.stdout)
        assert found["columns"] == ["value"]
        assert found["rounds"]["first"] + found["rounds"]["second"] in (
            MINUTES // 30 - 1,
            MINUTES // 30,
        )
        frame = read_frame(
            Prometheus(history.url, ["sum(load) / 2"], 1800.0), time.time() - 14 * 86_400.0
        )
        report = kl.replay(frame, domain="box", upper=100, costs="pinball", short=4, move_cost=3)
        assert report.best.cost == found["table"][0]["cost"]

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (("--query", "sum(("), "rejects the query 'sum((': "),
            (("--query", "load"), "The query 'load' gives 2 series. Name the label"),
            (("--query", "load", "--query", "up"), "Each of several queries needs a name, got 'load'. Write eu=sum(...)."),
            (("--query", "nothing"), "There are no rows since 14d. Check the query and --since."),
            ((), "--prometheus needs a query. Write --query 'sum(rate(http_requests_total[1m]))'."),
            (("--query", "load", "--step", "x"), "--step must be a length of time above zero, got x. Write 60s, 5m or 14d."),
            (("--query", "load", "--since", "x"), "--since must be a length of time, such as 14d, or an ISO date, got x."),
            (("--query", "load", "--source", "a:b"), "Choose one of --prometheus and --source."),
        ],
    )  # fmt: skip
    def test_what_is_wrong_is_one_line(self, history, arguments, message):
        asked = call_klazy("replay", "--prometheus", history.url, "--since", "14d", *arguments)
        assert asked.status == 2
        assert message in asked.stderr
        assert asked.stderr.count("\n") == 1

    def test_a_file_and_a_source_are_two_things(self, history):
        wanted = (
            "Name a file to replay, or a source: --prometheus URL --query QUERY --since 14d.\n"
        )
        assert call_klazy("replay").stderr == wanted
        asked = call_klazy("replay", "load.csv", "--prometheus", history.url, "--query", "load")
        assert asked.stderr == wanted
        asked = call_klazy("replay", "load.csv", "--label", "region")
        assert asked.stderr.startswith(
            "--label goes with --prometheus URL or --source NAME:TEXT."
        )
        asked = call_klazy("replay", "--prometheus", history.url, "--query", "load")
        assert asked.stderr == "A source needs --since, such as --since 14d.\n"


class TestWhoMayAsk:
    """Passwords are checked by Prometheus itself; its file has their bcrypt hashes."""

    HASH = "$2b$04$SRLfqiRGsc9tzNr9ObkTxOQbGQjCtIu5e2L9hPoM0ZNrAHqscs8ny"

    def test_an_address_that_does_not_answer_is_away(self):
        with pytest.raises(SourceAway, match=r"http://127.0.0.1:9 does not answer: .*refused"):
            list(Prometheus("http://user:secret@127.0.0.1:9", ["up"]).read(None))

    def test_secrets_go_into_the_header_only(self, secured, monkeypatch):
        with pytest.raises(SourceAway, match="answers with status 401"):
            list(Prometheus(secured.url, ["up"]).read(None))
        assert list(Prometheus(secured.url, ["vector(1)"], auth=("klazy", "secret")).read(None))
        monkeypatch.setenv("KLAZY_PROMETHEUS_USER", "klazy:secret")
        asked = call_klazy(
            "replay", "--prometheus", secured.url, "--query", "nothing", "--since", "1h"
        )
        assert asked.stderr == "There are no rows since 1h. Check the query and --since.\n"
        token = Prometheus(secured.url, ["up"], token="abc")
        assert token._options["headers"]["Authorization"] == "Bearer abc"

    def test_certificates_are_shown_and_checked(self, tmp_path):
        key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
        make = (
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-days",
            "2",
            "-subj",
            "/CN=tests",
        )
        run(*make, "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", cert)
        tls = {"cert_file": str(cert), "key_file": str(key), "client_ca_file": str(cert)}
        web = {"tls_server_config": tls | {"client_auth_type": "RequireAndVerifyClientCert"}}
        with PrometheusServer(tmp_path / "server", web=web) as server:
            for ca in (None, str(cert)):
                with pytest.raises(SourceAway, match=r"does not answer: .*certificate"):
                    list(Prometheus(server.url, ["vector(1)"], ca=ca).read(None))
            known = Prometheus(
                server.url, ["vector(1)"], ca=str(cert), cert=str(cert), key=str(key)
            )
            (row,) = known.read(None)
            assert row.cells == {"value": 1.0}

    @pytest.fixture
    def secured(self, tmp_path):
        with PrometheusServer(tmp_path, web={"basic_auth_users": {"klazy": self.HASH}}) as server:
            yield server


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Prometheus("localhost:9090", ["up"]), "must be a URL, got localhost:9090"),
        (lambda: Prometheus("http://a", []), "There must be a query"),
        (lambda: Prometheus("http://a", ["x=up", "x=up"]), "must have a name of its own"),
        (lambda: Prometheus("http://a", ["up", "up"], label="job"), "A label goes with one query, got 2"),
        (lambda: Prometheus("http://a", ["up"], key="key.pem"), "A key needs its certificate"),
        (lambda: Prometheus("https://a", ["up"], ca="/none.pem"), "Cannot read the certificates in /none.pem: No such file"),
        (lambda: Prometheus("http://a", ["up"], step=0.0), "step must be"),
        (lambda: parse_span("5x", "--since"), "--since must be a length of time above zero, got 5x. Write 60s, 5m or 14d."),
        (lambda: open_installed_source("sensors:a", 1.0), "No installed source is named 'sensors'."),
    ],
)  # fmt: skip
def test_bad_settings_are_rejected_where_they_enter(make, message):
    with pytest.raises(InvalidInput) as rejected:
        make()
    assert message in str(rejected.value)


def test_a_comparison_is_no_name():
    assert Prometheus("http://a", ["up==1"]).queries == ["up==1"]
    assert Prometheus("http://a", ["x = up == 1"]).names == ["x"]


CODE = """
from klazy.sources import TimedRow

class Sensors:
    def __init__(self, text, step):
        self.count, self.step = int(text), step

    def read(self, since):
        return [TimedRow(self.step * i, {"a": float(i % 5)}) for i in range(self.count) if self.step * i > (since or 0)]
"""


@pytest.fixture
def sensors(tmp_path, monkeypatch):
    """A package with a source."""
    folder = tmp_path / "packages"
    install(folder, "sensors", "sensors = sensors_of_tests:Sensors", group="klazy.sources")
    (folder / "sensors_of_tests.py").write_text(CODE)
    monkeypatch.syspath_prepend(folder)


@pytest.mark.usefixtures("sensors")
def test_a_source_of_another_package_is_an_entry_point():
    options = ("--domain", "box", "--upper", "5", "--costs", "pinball", "--json")
    asked = call_klazy(
        "replay", "--source", "sensors:100", "--since", "1970-01-01", "--step", "1m", *options
    )
    assert (asked.status, asked.stderr) == (0, "")
    assert json.loads(asked.stdout)["columns"] == ["a"]


def test_a_source_is_followed_past_failures_and_each_row_comes_once():
    class Flaky:
        calls = 0

        def read(self, since):
            self.calls += 1
            if self.calls % 2:
                raise SourceAway("away")
            yield TimedRow((since or 0.0) + 1.0, {"a": 1.0})
            raise SourceAway("away in the middle")

    noted = []
    found = []
    for row in follow(Flaky(), None, 0.001, note=noted.append):
        if row is not None:
            found.append(row.time)
        if len(found) == 3:
            break
    assert found == [1.0, 2.0, 3.0]
    assert {str(away) for away in noted} == {"away", "away in the middle"}
    with pytest.raises(SourceAway):
        list(follow(Flaky(), None, 0.001, once=True))


QUERY = ("--query", "sum(load) / 2", "--step", "30m")


@pytest.fixture(scope="module")
def replayed(history, tmp_path_factory):
    """The report of a replay of the history, with half-hourly rows, and the agent of its winner before the scored rows."""
    folder = tmp_path_factory.mktemp("replayed")
    asked = call_klazy(
        "replay", "--prometheus", history.url, *QUERY, "--since", "14d", *SIMPLE, "--fill", "forward",
        "--emit", "agent.json", "--json", folder=folder,
    )  # fmt: skip
    assert (asked.status, asked.stderr) == (0, "")
    return folder / "agent.json", json.loads(asked.stdout)


class TestLive:
    def test_it_goes_on_after_the_replay_and_pays_the_same_to_the_last_digit(
        self, history, replayed, tmp_path
    ):
        file, report = replayed
        origin = kl.Agent.load(file).origin
        assert origin is not None
        scored = origin["scored_rows"]
        asked = call_klazy(
            "live", file, "--prometheus", history.url, *QUERY, "--once", "--json", folder=tmp_path
        )
        assert asked.status == 0
        lines = [json.loads(line) for line in asked.stdout.splitlines()]
        assert len(lines) - (scored[1] - scored[0] + 1) in (0, 1)
        assert list(lines[0]) == ["time", "value"]
        assert (
            lines[0]["time"]
            == datetime.fromtimestamp(origin["last_time"] + 1800.0, UTC).isoformat()
        )
        with kl.Agent.open(tmp_path / "twin.db", kl.Agent.load(file)) as twin:
            frame = read_frame(
                Prometheus(history.url, ["sum(load) / 2"], 1800.0), origin["last_time"]
            )
            last = scored[1] - scored[0]
            for at in range(last + 1):
                twin.observe({"value": frame["value"][at]})
            assert (
                twin.hitting + twin.switching
                == origin["paid"]["cost"]
                == report["table"][0]["cost"]
            )
            assert list(twin.decision.values()) == [lines[last]["value"]]

    def test_a_restart_goes_on_where_it_was_and_takes_each_time_stamp_once(
        self, history, replayed, tmp_path
    ):
        file, _ = replayed
        live = (
            "live",
            file,
            "--prometheus",
            history.url,
            *QUERY,
            "--once",
            "--state",
            "decisions.db",
        )
        whole = call_klazy(*live, "--name", "whole", folder=tmp_path).stdout.splitlines()
        # Three rows, as if it was killed then.
        with kl.Agent.open(tmp_path / "decisions.db", kl.Agent.load(file), name="parts") as agent:
            start = agent.origin["last_time"] if agent.origin else 0.0
            for row in list(Prometheus(history.url, ["sum(load) / 2"], 1800.0).read(start))[:3]:
                stamp = datetime.fromtimestamp(row.time, UTC).isoformat()
                agent.observe(row.cells, id=stamp)
        rest = call_klazy(*live, "--name", "parts", "--since", "2020-01-01", folder=tmp_path)
        assert rest.stdout.splitlines() == [whole[0], *whole[4:]]
        again = call_klazy(*live, "--name", "parts", folder=tmp_path)
        assert (again.stdout, again.stderr, again.status) == ("", "", 0)
        with kl.Agent.open(tmp_path / "decisions.db", name="parts") as agent:
            ids = agent.history()["id"].to_list()
            assert ids == sorted(set(ids)) == [line.split(",")[0] for line in whole[1:]]

    def test_gaps_are_filled_as_the_replay_filled_them(self, history, tmp_path):
        columns = ("eu", "us")
        query = ("--query", "load", "--label", "region", "--step", "5m", "--settle", "1s")
        since = ("--since", datetime.fromtimestamp(BEGIN + 60 * 4000, UTC).isoformat())
        learner = kl.LastValue(kl.Box([0.0, 0.0], [100.0, 100.0]), family=kl.Pinball(4.0))
        agent = kl.Agent(
            learner, costs=kl.Pinball(4.0), columns=columns, movement="l1", fill="forward"
        )
        agent.save(tmp_path / "filled.json")
        live = ("--prometheus", history.url, *query, *since, "--once", "--json")
        asked = call_klazy("live", "filled.json", *live, folder=tmp_path)
        assert asked.status == 0
        lines = [json.loads(line) for line in asked.stdout.splitlines()]
        found = read_frame(
            Prometheus(history.url, ["load"], 300.0, label="region"), BEGIN + 60 * 4000
        )
        filled = found.fill_null(strategy="forward")
        assert [line["us"] for line in lines[: found.height]] == filled["us"].to_list()
        gaps = found["us"].null_count()
        assert gaps in (11, 12)
        agent = kl.Agent(learner, costs=kl.Pinball(4.0), columns=columns, movement="l1")
        agent.save(tmp_path / "strict.json")
        asked = call_klazy("live", "strict.json", *live, folder=tmp_path)
        assert asked.status == 1
        assert asked.stderr.count("us must be a finite number, got None.") == gaps
        assert len(asked.stdout.splitlines()) == len(lines) - gaps
        agent = kl.Agent(
            kl.LastValue(kl.Box(0.0, 100.0), family=kl.Pinball(4.0)),
            costs=kl.Pinball(4.0),
            columns=["eu"],
        )
        agent.save(tmp_path / "narrow.json")
        asked = call_klazy("live", "narrow.json", *live, folder=tmp_path)
        assert asked.status == 0
        assert asked.stderr.count("the agent has no columns us; they are left out.") == 1

    def test_a_source_that_is_away_is_told_once_and_the_decision_stands(self, replayed, tmp_path):
        file, _ = replayed
        server = PrometheusServer(tmp_path)
        now = time.time()
        server.backfill({"load": [(now - 60.0 + 0.1 * i, i % 7) for i in range(900)]})
        live = [
            sys.executable, "-m", "klazy", "live", file, "--prometheus", server.url, "--query", "load",
            "--step", "250ms", "--since", "2s", "--state", tmp_path / "decisions.db",
        ]  # fmt: skip
        with subprocess.Popen(
            list(map(str, live)), stdout=PIPE, stderr=PIPE, text=True
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            assert process.stderr.readline().endswith("refused. The decision stands.\n")
            with server:
                assert process.stdout.readline() == "time,value\n"
                first = [process.stdout.readline() for _ in range(12)]
                assert process.stderr.readline() == "The source answers again.\n"
                server.kill()
                assert process.stderr.readline().endswith("The decision stands.\n")
                time.sleep(0.6)
                server.start()
                assert process.stderr.readline() == "The source answers again.\n"
                more = [process.stdout.readline() for _ in range(8)]
                process.terminate()
                assert process.wait(timeout=30) == 0
        stamps = [datetime.fromisoformat(line.split(",")[0]).timestamp() for line in first + more]
        assert stamps == [stamps[0] + 0.25 * i for i in range(20)]

    def test_what_is_wrong_is_one_line(self, replayed, tmp_path):
        file, _ = replayed
        live = ("live", file, "--prometheus", "http://127.0.0.1:9", "--query")
        asked = call_klazy(*live, "up", "--once", folder=tmp_path)
        assert (asked.status, asked.stderr.count("\n")) == (2, 1)
        assert "http://127.0.0.1:9 does not answer" in asked.stderr
        asked = call_klazy(*live, "other=up", folder=tmp_path)
        assert asked.stderr == "The agent has the columns ['value'], and none named other.\n"
        asked = call_klazy(*live, "up", "--id", "time", folder=tmp_path)
        assert asked.stderr.startswith("--id is for rows of standard input")
        with kl.Agent.open(tmp_path / "other.db", kl.Agent.load(file)) as agent:
            agent.observe({"value": 5.0}, id="monday")
        asked = call_klazy(*live, "up", "--state", "other.db", "--name", "agent", folder=tmp_path)
        wanted = "The id of the agent's last round must be a time stamp, got monday. Use another --name.\n"
        assert asked.stderr == wanted
