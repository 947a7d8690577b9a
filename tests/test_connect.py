"""From the metrics people have to the gauge that autoscalers read, with a real Prometheus that is killed, as klazy is."""

import json
import random
import re
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import httpx
import numpy as np
import pytest
import yaml

import klazy as kl
from command import call_klazy
from klazy.datasets import llm_requests
from klazy.live.store import open_store
from klazy.sources import Prometheus, read_frame
from server import find_port
from systems import Backend, Program, PrometheusServer, find, run
from test_sinks import read_metrics, wait_for

pytestmark = pytest.mark.xdist_group("prometheus")

ALERTS = Path(__file__).parents[1] / "docs" / "serve" / "alerts.yml"
# Half an hour of the trace takes this long, so that two weeks take less than three minutes.
STEP = 0.25
ROWS = 672
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


class Live(Program):
    """The command ``klazy live``, which serves metrics."""

    def __init__(self, folder, url, port):
        self.folder = folder
        self.log = folder / "live.log"
        self.metrics = f"http://127.0.0.1:{port}/metrics"
        self.command = [
            sys.executable, "-m", "klazy", "live", folder / "agent.json", "--state", folder / "s.db", "--prometheus", url,
            "--query", "requests", "--settle", "2s", "--metrics", f"127.0.0.1:{port}",
        ]  # fmt: skip

    def answers(self):
        try:
            return httpx.get(self.metrics).status_code == 200
        except httpx.HTTPError:
            return False

    def rounds(self):
        return self.read()['klazy_agent_rounds{agent="agent"}']

    def read(self):
        return read_metrics(httpx.get(self.metrics).text)


def shorten(rules, file):
    """The same alert rules for a step that is so much shorter."""
    text = ALERTS.read_text().replace("> 600", "> 4").replace("for: 5m", "for: 500ms")
    assert text.count("for: 500ms") == 3
    file.write_text(text)
    run(find("promtool"), "check", "rules", file)
    return file


def firing(server):
    """The alerts that fire now; the series ALERTS would show those of before a kill for a while."""
    alerts = httpx.get(f"{server.url}/api/v1/alerts").json()["data"]["alerts"]
    return {alert["labels"]["alertname"] for alert in alerts if alert["state"] == "firing"}


def scraped_rounds(server):
    """How many rounds the agent has played, as Prometheus knows it: a list of one number, or an empty one."""
    return [float(value) for _, value in server.ask("klazy_agent_rounds")]


@pytest.mark.parametrize("kills", [1, pytest.param(25, marks=pytest.mark.long)])
def test_the_gauge_says_what_the_replay_says_whatever_is_killed(tmp_path, kills):
    """Two weeks of a trace, backfilled and replayed; then live, while Prometheus goes on scraping and both are killed."""
    rng = random.Random(kills)
    trace = np.tile(llm_requests(seconds=5)["requests"].to_numpy(), 50)
    begin = (int(time.time() / STEP) - ROWS) * STEP

    def export(*_):
        return (
            200,
            f"# TYPE requests gauge\nrequests {float(trace[int((time.time() - begin) / STEP)])!r}\n",
        )

    port = find_port()
    with Backend(export) as exporter:
        rules = shorten(ALERTS, tmp_path / "rules.yml")
        targets = (f"127.0.0.1:{exporter.port}", f"127.0.0.1:{port}")
        server = PrometheusServer(tmp_path / "prometheus", targets=targets, rules=[rules])
        # The scraped series has these labels.
        series = f'requests{{instance="127.0.0.1:{exporter.port}",job="tests"}}'
        server.backfill({series: [(begin + STEP * i, float(trace[i])) for i in range(ROWS)]})
        source = (
            "--prometheus",
            server.url,
            "--query",
            "requests",
            "--since",
            datetime.fromtimestamp(begin, UTC).isoformat(),
        )
        with server:
            made = call_klazy(
                "replay", *source, "--step", "250ms", *SIMPLE, "--contender", "GD", "--emit", "agent.json",
                "--emit-at", "end", "--json", folder=tmp_path,
            )  # fmt: skip
            assert made.status == 0, made.stderr
            # This compiles the kernel, for which the rounds below would wait.
            kl.Agent.load(tmp_path / "agent.json").observe({"value": trace[0]})
            live = Live(tmp_path, server.url, port)
            with live:
                for _ in range(kills):
                    rounds = live.rounds()
                    wait_for(lambda: live.rounds() >= rounds + rng.randrange(8))  # noqa: B023
                    for program in rng.sample([live, server], 2):
                        program.kill()
                        time.sleep(rng.uniform(0.0, 0.5))
                        program.start()
                # Prometheus begins to scrape five seconds after it was started. What it has never scraped is not missed.
                rounds = live.rounds()
                wait_for(lambda: [each for each in scraped_rounds(server) if each > rounds])
                # On a busy machine a scrape may fail; its row is refused, as it has no number.
                wait_for(lambda: firing(server) <= {"KlazyRowsRefused"})
                found = live.read()
            check(tmp_path, server, found)
            # A stopped agent is noticed.
            wait_for(lambda: "KlazyGone" in firing(server))
            # One that is there but gets no rows as well.
            with Idle(tmp_path, port):
                wait_for(
                    lambda: "KlazyStopped" in firing(server) and "KlazyGone" not in firing(server)
                )


class Idle(Live):
    """The same command, without rows: its input is a pipe that never ends."""

    def __init__(self, folder, port):
        super().__init__(folder, "", port)
        self.command = [
            *self.command[: self.command.index("--prometheus")],
            "--metrics",
            f"127.0.0.1:{port}",
        ]

    def start(self):
        self.process = subprocess.Popen(
            list(map(str, self.command)), stdin=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        wait_for(self.answers)
        return self

    def kill(self):
        assert self.process.stdin is not None
        self.process.stdin.close()
        super().kill()


def check(folder, server, found):
    """Compare the store and the metrics with a twin that takes the rows that Prometheus has, each once."""
    twin = kl.Agent.load(folder / "agent.json")
    assert twin.origin is not None
    start = twin.origin["last_time"]
    frame = read_frame(Prometheus(server.url, ["requests"], STEP), start).drop_nulls()
    with open_store(folder / "s.db", read_only=True) as store:
        (row,) = store.list_agents()
        rounds = store.read_rounds(row.id, 10**6, None)[0]
    ids = [datetime.fromisoformat(each.id or "").timestamp() for each in rounds]
    assert ids == [time.timestamp() for time in frame["time"][: len(rounds)]]
    fixed = kl.Pinball(4.0)
    still = 0.0
    # The agent may be scraped before its first round, too.
    decided = {twin.x.item()}
    # The agent has learned from the rows of the replay before.
    shown = int(found['klazy_agent_rounds{agent="agent"}']) - (twin.t - 1)
    for i, each in enumerate(rounds):
        cell = frame["value"][i]
        assert json.loads(each.row or "") == {"value": cell}
        twin.observe({"value": cell})
        assert np.frombuffer(each.decision).tolist() == twin.x.tolist()
        decided.add(twin.x.item())
        still += float(fixed.value(np.array([cell]), np.array(twin.origin["fixed_decision"])))
        if i + 1 == shown:
            assert found['klazy_decision{agent="agent",column="value"}'] == twin.x.item()
            assert found['klazy_operating_cost{agent="agent"}'] == twin.hitting
            assert found['klazy_switching_cost{agent="agent"}'] == twin.switching
            assert found['klazy_fixed_cost{agent="agent"}'] == still
    assert len(rounds) >= shown
    decisions = {float(value) for _, value in server.list_samples("klazy_decision[10m]")}
    assert decisions <= decided
    assert decisions


def test_the_alert_rules_hold_in_time(tmp_path):
    """promtool plays the rules over hours, as they are in the docs."""
    run(find("promtool"), "check", "rules", ALERTS)
    agent = '{agent="web"}'
    quiet = [{"series": 'klazy_decision{agent="web",column="web"}', "values": "3x600"}]

    def expect(alert, at, labels, fires):
        exp = [{"exp_labels": labels | {"agent": "web"}}] if fires else []
        return {"eval_time": at, "alertname": alert, "exp_alerts": exp}

    series = [
        {"series": f"klazy_agent_idle_seconds{agent}", "values": "0+60x60"},
        {"series": f"klazy_source_up{agent}", "values": "1x10 0x50"},
        {"series": 'klazy_sink_behind{agent="web",sink="haproxy"}', "values": "0x10 1x50"},
        {"series": f"klazy_rows_refused_total{agent}", "values": "0x10 1x50"},
        *quiet,
    ]
    page, ticket = {"severity": "page"}, {"severity": "ticket"}
    checks = [
        ("KlazyStopped", "10m", page, False), ("KlazyStopped", "11m", page, True),
        ("KlazySourceAway", "14m", ticket, False), ("KlazySourceAway", "17m", ticket, True),
        ("KlazySinkBehind", "17m", page | {"sink": "haproxy"}, True), ("KlazyRowsRefused", "10m", ticket, False),
        ("KlazyRowsRefused", "13m", ticket, True), ("KlazyGone", "30m", page, False),
    ]  # fmt: skip
    tests = {
        "rule_files": [str(ALERTS)],
        "tests": [
            {
                "interval": "1m",
                "input_series": series,
                "alert_rule_test": [expect(*each) for each in checks],
            }
        ],
    }
    for test in tests["tests"]:
        for each in test["alert_rule_test"]:
            for alert in each["exp_alerts"]:
                alert["exp_annotations"] = annotate(
                    each["alertname"], alert["exp_labels"], each["eval_time"]
                )
    (tmp_path / "test.yml").write_text(json.dumps(tests))
    run(find("promtool"), "test", "rules", tmp_path / "test.yml")


def annotate(alert, labels, at):
    """The summary that a rule makes for these labels."""
    text = (
        ALERTS.read_text()
        .partition(f"alert: {alert}\n")[2]
        .partition('summary: "')[2]
        .partition('"\n')[0]
    )
    for name, value in labels.items():
        text = text.replace(f"{{{{ $labels.{name} }}}}", value)
    return {"summary": text.replace("{{ $value | humanizeDuration }}", f"{at} 0s")}


class TestWhatTheDocsShow:
    """Every query of the dashboard and of the manifests is asked of a real Prometheus that scrapes a live agent's metrics."""

    FOLDER = ALERTS.parent

    def list_queries(self):
        dashboard = json.loads((self.FOLDER / "dashboard.json").read_text())
        found = [
            target["expr"].replace("$agent", ".*")
            for each in dashboard["panels"]
            for target in each["targets"]
        ]
        scaled = yaml.safe_load((self.FOLDER / "kubernetes" / "scaledobject.yaml").read_text())
        found += [trigger["metadata"]["query"] for trigger in scaled["spec"]["triggers"]]
        hpa = yaml.safe_load((self.FOLDER / "kubernetes" / "hpa.yaml").read_text())
        metric = hpa["spec"]["metrics"][0]["external"]["metric"]
        labels = ",".join(
            f'{name}="{value}"' for name, value in metric["selector"]["matchLabels"].items()
        )
        rules = yaml.safe_load((self.FOLDER / "kubernetes" / "adapter-rules.yaml").read_text())
        query = rules["externalRules"][0]["metricsQuery"]
        return [
            *found,
            query.replace("<<.Series>>", metric["name"]).replace("<<.LabelMatchers>>", labels),
        ]

    def test_every_query_finds_something(self, tmp_path):
        port = find_port()
        learner = kl.LastValue(kl.Box(0.0, 100.0), family=kl.Pinball(4.0))
        terms = {"costs": kl.Pinball(4.0), "columns": ["value"], "movement": "l1"}
        guards = kl.Guards(per_round=5.0)
        kl.Agent(learner, guards=guards, **terms).save(tmp_path / "web.json")
        with Backend(lambda *_: (500, "")) as hook:
            live = Idle(tmp_path, port)
            live.command[4] = tmp_path / "web.json"
            live.command += ["--webhook", hook.url]
            with PrometheusServer(tmp_path / "p", targets=[f"127.0.0.1:{port}"]) as server, live:
                assert live.process.stdin is not None
                live.process.stdin.write(b"value\n" + b"50\n" * 3)
                live.process.stdin.flush()
                queries = self.list_queries()
                assert len(queries) >= 14
                wait_for(lambda: all(server.ask(query) for query in queries), 30.0)
                names = set(re.findall(r"klazy_\w+", " ".join(queries) + ALERTS.read_text()))
                shown = httpx.get(live.metrics).text
                assert [name for name in names if f"\n{name}{{" not in shown] == []
                ((_, value),) = server.ask(queries[-1])
                assert value == "15"

    def test_the_arguments_of_the_pod_are_options_of_the_command(self):
        (pod,) = yaml.safe_load((self.FOLDER / "kubernetes" / "klazy.yaml").read_text())["spec"][
            "template"
        ]["spec"]["containers"]
        command, _, *options = pod["args"]
        shown = call_klazy(command, "--help").stdout
        assert [each for each in options if f"{each.partition('=')[0]} <" not in shown] == []
