"""Configuration files and variables, and many agents in one process."""

import json
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import httpx
import pytest
import yaml

import klazy as kl
from command import call_klazy
from klazy.sources import Prometheus
from server import find_port
from systems import Backend, PrometheusServer, find, run
from test_sinks import read_metrics, wait_for

pytestmark = pytest.mark.xdist_group("prometheus")

PLANT = """
[live]
state = "decisions.db"
prometheus = "{url}"
step = "1s"
since = "1m"

[agents.web]
agent = "one.json"
query = "load"

[agents.batch]
agent = "two.json"
query = ["eu=load", "us=load + 1"]
webhook = "{hook}"
"""


def save(file, columns):
    box = kl.Box([0.0] * len(columns), [100.0] * len(columns))
    learner = kl.LastValue(box, family=kl.Pinball(4.0))
    kl.Agent(learner, costs=kl.Pinball(4.0), columns=columns, movement="l1").save(file)


@pytest.fixture(scope="module")
def history(tmp_path_factory):
    """A Prometheus with a minute of a load, and what comes in the next two hours."""
    now = int(time.time())
    server = PrometheusServer(tmp_path_factory.mktemp("prometheus"))
    server.backfill({"load": [(now - 60 + i, float(i % 50)) for i in range(7200)]})
    with server:
        yield server


@pytest.fixture
def plant(tmp_path, history):
    """The files of a plant with two agents, and what it speaks to."""
    save(tmp_path / "one.json", ["value"])
    save(tmp_path / "two.json", ["eu", "us"])
    with Backend(lambda *_: (204, "")) as hook:
        (tmp_path / "plant.toml").write_text(PLANT.format(url=history.url, hook=hook.url))
        yield tmp_path, hook


class TestAPlant:
    def test_one_command_plays_all_agents_of_a_file(self, plant):
        folder, hook = plant
        # Paths are as seen from the file.
        asked = call_klazy("live", folder / "plant.toml", "--once", folder=folder.parent)
        assert (asked.status, asked.stderr.count("Rows taken: ")) == (0, 2), asked.stderr
        lines = [json.loads(line) for line in asked.stdout.splitlines()]
        by_agent = {
            name: [line for line in lines if line["agent"] == name] for name in ("web", "batch")
        }
        assert min(map(len, by_agent.values())) >= 55
        for line in by_agent["batch"]:
            assert line["us"] == line["eu"] + 1.0
        with kl.Agent.open(folder / "decisions.db", name="web") as agent:
            assert agent.decision == {"value": by_agent["web"][-1]["value"]}
        assert hook.requests == 1 or hook.requests == 2
        again = call_klazy("live", folder / "plant.toml", "--once")
        times = [
            json.loads(line)["time"] for line in again.stdout.splitlines() if '"web"' in line
        ]
        assert len({*times, *(line["time"] for line in by_agent["web"])}) == len(times) + len(
            by_agent["web"]
        )

    def test_a_process_shows_all_agents_and_ends_at_sigterm(self, plant):
        folder, hook = plant
        port = find_port()
        command = [
            sys.executable,
            "-m",
            "klazy",
            "live",
            "plant.toml",
            "--metrics",
            f"127.0.0.1:{port}",
        ]
        with subprocess.Popen(
            command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:

            def rounds():
                try:
                    found = read_metrics(httpx.get(f"http://127.0.0.1:{port}/metrics").text)
                except httpx.HTTPError:
                    return 0
                return min(
                    found.get(f'klazy_agent_rounds{{agent="{name}"}}', 0)
                    for name in ("web", "batch")
                )

            wait_for(lambda: rounds() >= 50)
            now = rounds()
            wait_for(lambda: rounds() >= now + 2)
            process.send_signal(signal.SIGTERM)
            _, told = process.communicate(timeout=30)
        assert process.returncode == 0
        assert told.count("Rows taken: ") == 2
        assert hook.requests >= 1

    @pytest.mark.xdist_group("postgres")
    def test_agents_in_postgresql_show_their_metrics(self, plant, server):
        folder, _ = plant
        port = find_port()
        seen = []
        url = server.clear()

        def take(*_):
            text = httpx.get(f"http://127.0.0.1:{port}/metrics").text
            seen.append(read_metrics(text)['klazy_operating_cost{agent="batch"}'])
            return 204, ""

        with Backend(take) as hook:
            flags = (
                "--state",
                url,
                "--metrics",
                f"127.0.0.1:{port}",
                "--webhook",
                hook.url,
                "--once",
            )
            assert call_klazy("live", folder / "plant.toml", *flags).status == 0
        with kl.Agent.open(url, name="batch") as agent:
            assert agent.t > 50
            assert seen[-1] == agent.hitting

    def test_an_agent_that_fails_leaves_the_others_alone(self, plant):
        folder, _ = plant
        file = folder / "plant.toml"
        file.write_text(file.read_text().replace('query = "load"', 'query = "sum(("'))
        asked = call_klazy("live", file, "--once")
        assert asked.status == 1
        assert "web has ended: " in asked.stderr
        assert "batch: Rows taken: " in asked.stderr

    def test_a_source_with_a_bug_ends_its_agent_only(self, plant, monkeypatch):
        folder, _ = plant
        read = Prometheus.read

        def fail_for_one(source, since):
            if len(source.names) == 1:
                raise KeyError("a bug")
            return read(source, since)

        monkeypatch.setattr(Prometheus, "read", fail_for_one)
        asked = call_klazy("live", folder / "plant.toml", "--once")
        assert asked.status == 1
        assert "web has ended: 'a bug'" in asked.stderr
        assert "batch: Rows taken: " in asked.stderr


class TestCheck:
    def test_a_file_that_is_fine_says_what_it_starts(self, plant):
        folder, _ = plant
        with (folder / "plant.toml").open("a") as file:
            file.write("[serve]\nport = 9\nstore = 'x.db'\n")
        asked = call_klazy("config", "check", folder / "plant.toml")
        assert (asked.status, asked.stderr) == (0, "")
        assert asked.stdout.splitlines() == [
            f"serve: {folder}/x.db at 127.0.0.1:9",
            f"web: {folder}/one.json (value); a row every 1 s; sinks: none",
            f"batch: {folder}/two.json (eu, us); a row every 1 s; sinks: webhook",
            f"{folder}/plant.toml is fine.",
        ]

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("[live", "is not a TOML file: "),
            ("[live]\nporometheus = 'x'", "[live] has no option porometheus. Did you mean prometheus?"),
            ("[plants]\n", "must have the tables [live], [serve] and [agents.NAME] only, got plants."),
            ("[agents]\nweb = 5", "must have a table [agents.web], got 5."),
            ("[serve]\nport = 'x'", "[serve]: Invalid value for '--port': "),
            ("[serve]\nport = 70000", "[serve]: Invalid value for '--port': "),
            ("[serve]\nlog-level = 'loud'", "--log-level must be debug, info, warning or error, got loud."),
            ("[agents.web]\nagent = 'none.json'", "web: Cannot read the agent "),
            ("[agents.web]\nagent = 'one.json'", "web: An agent of a file needs a source. Add prometheus and query."),
            ("[agents.web]\nstate = 's.db'", "[agents.web]: Missing argument"),
            ("[live]\nstate = ['a', 'b']", "[live]: state takes one value, got ['a', 'b']."),
        ],
    )  # fmt: skip
    def test_what_is_wrong_is_one_line(self, tmp_path, text, message):
        save(tmp_path / "one.json", ["value"])
        (tmp_path / "bad.toml").write_text(text)
        asked = call_klazy("config", "check", "bad.toml", folder=tmp_path)
        assert asked.status == 2
        assert message in asked.stderr
        assert asked.stderr.count("\n") == 1


class TestPrecedence:
    """Flags win, then the environment, then the file."""

    def ask(self, folder, *flags):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(
                "klazy.serve.server.serve", lambda settings: print(json.dumps(vars(settings)))
            )
            asked = call_klazy("serve", "--config", "klazy.toml", *flags, folder=folder)
        assert asked.status == 0, asked.stderr
        return json.loads(asked.stdout)

    def test_of_the_service(self, tmp_path, monkeypatch):
        (tmp_path / "klazy.toml").write_text(
            "[serve]\nport = 1\nworkers = 2\ninsecure = true\nlog_level = 'debug'\n"
        )
        found = self.ask(tmp_path)
        assert (found["port"], found["workers"], found["insecure"], found["log_level"]) == (
            1,
            2,
            True,
            "debug",
        )
        monkeypatch.setenv("KLAZY_SERVE_PORT", "3")
        monkeypatch.setenv("KLAZY_SERVE_INSECURE", "false")
        found = self.ask(tmp_path, "--workers", "5")
        assert (found["port"], found["workers"], found["insecure"]) == (3, 5, False)
        assert self.ask(tmp_path, "--port", "4")["port"] == 4

    def test_of_an_agent(self, tmp_path, monkeypatch):
        save(tmp_path / "one.json", ["value"])
        (tmp_path / "klazy.toml").write_text(
            "[live]\nagent = 'one.json'\nprometheus = 'http://127.0.0.1:9'\nquery = 'file'\n"
        )
        asked = call_klazy("live", "--config", "klazy.toml", "--once", folder=tmp_path)
        assert "http://127.0.0.1:9 does not answer" in asked.stderr
        monkeypatch.setenv("KLAZY_LIVE_PROMETHEUS", "http://127.0.0.1:19")
        monkeypatch.setenv("KLAZY_LIVE_QUERY", "a=load\nb=load{x='1 2'}")
        monkeypatch.setenv("KLAZY_CONFIG", "klazy.toml")
        asked = call_klazy("live", "--once", folder=tmp_path)
        assert asked.stderr == "The agent has the columns ['value'], and none named a, b.\n"
        asked = call_klazy("live", "--once", "--query", "load", folder=tmp_path)
        assert "http://127.0.0.1:19 does not answer" in asked.stderr


DOCS = Path(__file__).parents[1] / "docs" / "serve"


class TestWhatTheDocsShow:
    def test_the_plant_is_fine(self, tmp_path):
        save(tmp_path / "web.json", ["value"])
        save(tmp_path / "regions.json", ["eu", "us"])
        (tmp_path / "plant.toml").write_text((DOCS / "plant.toml").read_text())
        asked = call_klazy("config", "check", "plant.toml", folder=tmp_path)
        assert (asked.status, asked.stderr) == (0, "")

    @pytest.mark.parametrize("unit", ["klazy.service", "klazy-live.service"])
    def test_units_are_valid_and_their_options_are_known(self, unit, tmp_path):
        text = (DOCS / unit).read_text()
        for command, rest in re.findall(
            r"^ExecStart=/opt/klazy/bin/klazy (\w+) (.*)$", text, re.MULTILINE
        ):
            shown = call_klazy(command, "--help").stdout
            assert [
                each
                for each in rest.split()
                if each.startswith("--") and f"{each} <" not in shown
            ] == []
        if shutil.which("systemd-analyze"):
            program = shutil.which("true")
            (tmp_path / unit).write_text(text.replace("/opt/klazy/bin/klazy", str(program)))
            checked = subprocess.run(
                ["systemd-analyze", "verify", tmp_path / unit], capture_output=True, text=True
            )
            assert [line for line in checked.stderr.splitlines() if unit in line] == []

    def test_the_compose_file_and_its_prometheus_fit_together(self, tmp_path):
        composed = yaml.safe_load((DOCS / "compose" / "compose.yaml").read_text())
        (tmp_path / "reader").write_text("token")
        text = (DOCS / "compose" / "prometheus.yml").read_text()
        for place, file in (
            ("/tokens/reader", tmp_path / "reader"),
            ("/etc/prometheus/alerts.yml", DOCS / "alerts.yml"),
        ):
            assert place in text
            text = text.replace(place, str(file))
        (tmp_path / "prometheus.yml").write_text(text)
        run(find("promtool"), "check", "config", tmp_path / "prometheus.yml")
        command, *options = composed["services"]["klazy"]["command"]
        shown = call_klazy(command, "--help").stdout
        assert [
            each for each in options if each.startswith("--") and f"{each} <" not in shown
        ] == []

    def test_the_image_is_made_of_files_that_are_there(self):
        root = DOCS.parents[1]
        text = (root / "Dockerfile").read_text()
        copied = re.findall(r"^COPY (?!--)(.*) \S+$", text, re.MULTILINE)
        names = [name for line in copied for name in line.split()]
        assert names == ["pyproject.toml", "README.md", "LICENSE", "src"]
        kept = (root / ".dockerignore").read_text()
        assert all(f"!{name}\n" in kept for name in names)
        extras = tomllib.loads((root / "pyproject.toml").read_text())["project"][
            "optional-dependencies"
        ]
        (asked,) = re.findall(r"\.\[([\w,]+)\]", text)
        assert set(asked.split(",")) <= set(extras)
