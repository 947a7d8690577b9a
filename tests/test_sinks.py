"""Where decisions go: a real HAProxy, a webhook, and metrics as Prometheus reads them."""

import io
import json
import re
import sys
import tempfile
import time
from contextlib import ExitStack

import httpx
import numpy as np
import pytest

import klazy as kl
from command import call_klazy
from klazy.base.checks import InvalidInput
from klazy.live.inspection import Tallies
from klazy.live.store import open_store
from klazy.sinks import Decision, Delivery, HAProxy, Webhook, open_installed_sink, sign
from klazy.sinks.metrics import LiveMetrics
from server import find_port
from systems import Backend, HAProxyServer
from test_installed import install

pytestmark = pytest.mark.xdist_group("prometheus")

SERVERS = ("a", "b", "c")


def wait_for(check, seconds=20.0):
    until = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < until, "it took too long"
        time.sleep(0.02)


def read_metrics(text):
    """Each sample with its labels, as a number."""
    found = re.findall(r"^(\w+(?:{[^}]*})?) (\S+)$", text, re.MULTILINE)
    return {name: float(value) for name, value in found}


def feed(text, *arguments, folder):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sys, "stdin", io.StringIO(text))
        return call_klazy("live", *arguments, folder=folder)


@pytest.fixture
def socket_folder():
    """A folder with a short name, which paths of sockets need."""
    with tempfile.TemporaryDirectory(prefix="k-") as folder:
        yield folder


@pytest.fixture
def agent(tmp_path):
    """A file with an agent that goes where it was cheapest lately."""
    file = tmp_path / "shares.json"
    learner = kl.GD(kl.Simplex(3), sigma=2.0)
    origin = {"fixed_decision": [1.0, 0.0, 0.0]}
    guards = kl.Guards(per_round=0.1)
    kl.Agent(
        learner, costs=kl.Linear(), columns=SERVERS, movement="tv", guards=guards, origin=origin
    ).save(file)
    return file


class TestHAProxy:
    def test_requests_move_as_decided_when_latencies_change_and_cost_what_the_replay_says(
        self, socket_folder, tmp_path
    ):
        """Three backends, of which another one is slow in each part; a twin sees the same rows."""
        slow = {"name": "a"}
        served = dict.fromkeys(SERVERS, 0)

        def answer(name):
            def reply(*_):
                served[name] += 1
                time.sleep(0.03 if name == slow["name"] else 0.003)
                return 200, name

            return reply

        learner = kl.GD(kl.Simplex(3), sigma=1.0)
        terms = {"costs": kl.Linear(), "columns": SERVERS, "movement": kl.TVMovement(0.1)}
        rows = []
        with ExitStack() as stack:
            ports = {name: stack.enter_context(Backend(answer(name))).port for name in SERVERS}
            proxy = stack.enter_context(HAProxyServer(socket_folder, ports))
            sink = HAProxy(str(proxy.socket), "web")
            agent = stack.enter_context(
                kl.Agent.open(tmp_path / "decisions.db", learner, name="web", **terms)
            )
            client = stack.enter_context(httpx.Client())
            for slow["name"] in ("a", "c"):
                for _ in range(4):
                    shares = agent.decision
                    sink.apply(Decision("web", agent.t, "", shares))
                    expected = [
                        round(256 * share / max(shares.values())) for share in shares.values()
                    ]
                    assert proxy.weights(SERVERS) == expected
                    served.update(dict.fromkeys(SERVERS, 0))
                    for _ in range(12):
                        assert client.get(proxy.url).status_code == 200
                    for name, share in shares.items():
                        assert abs(served[name] - 12.0 * share) <= 2.0
                    # What each one takes is asked of all, as a monitor would.
                    row = {}
                    for name in SERVERS:
                        began = time.perf_counter()
                        client.get(f"http://127.0.0.1:{ports[name]}")
                        row[name] = 100.0 * (time.perf_counter() - began)
                    rows.append(list(row.values()))
                    agent.observe(row)
                assert agent.decision[slow["name"]] < 0.05
            paid = agent.hitting + agent.switching
        trace = kl.run(learner, np.array(rows), movement=kl.TVMovement(0.1))
        last_move = 0.1 * kl.TVMovement().distance(trace.state.x - trace.x[-1])
        assert paid == pytest.approx(
            trace.totals.hitting + trace.totals.switching + last_move, rel=1e-9
        )

    def test_the_command_sets_weights_and_says_the_status(self, agent, socket_folder, tmp_path):
        with Backend(lambda *_: (200, "")) as backend:
            ports = dict.fromkeys(SERVERS, backend.port)
            with HAProxyServer(socket_folder, ports) as proxy:
                options = ("--haproxy", proxy.socket, "--backend", "web", "--state", "s.db")
                asked = feed("a,b,c\n3,1,2\n", agent, *options, folder=tmp_path)
                assert asked.status == 0
                shares = np.array(
                    [float(cell) for cell in asked.stdout.splitlines()[1].split(",")]
                )
                assert (
                    proxy.weights(SERVERS)
                    == np.round(256 * shares / shares.max()).astype(int).tolist()
                )
                assert "held" in proxy.ask("experimental-mode on; get var proc.klazy_web")
                with kl.Agent.open(tmp_path / "s.db", name="shares") as frozen:
                    frozen.freeze("a storm")
                feed("", agent, *options, folder=tmp_path)
                assert "frozen" in proxy.ask("experimental-mode on; get var proc.klazy_web")

    def test_what_it_does_not_take_is_an_error(self, socket_folder):
        with (
            Backend(lambda *_: (200, "")) as backend,
            HAProxyServer(socket_folder, {"a": backend.port}) as proxy,
        ):
            sink = HAProxy(str(proxy.socket), "web")
            for values, message in (
                ({"z": 1.0}, "did not take weight 256 of web/z: No such server."),
                ({"a": -1.0}, "Weights need shares that are not negative"),
                ({"a": 0.0}, "and one above zero"),
                ({"a; shutdown": 1.0}, "must have the name of a server, got 'a; shutdown'"),
            ):
                with pytest.raises(InvalidInput, match=message):
                    sink.apply(Decision("x", 1, "", values))
        with pytest.raises(InvalidInput, match="does not answer"):
            sink.apply(Decision("x", 1, "", {"a": 1.0}))
        with pytest.raises(InvalidInput, match="does not answer: Connection refused"):
            HAProxy("127.0.0.1:9", "web").apply(Decision("x", 1, "", {"a": 1.0}))
        with pytest.raises(InvalidInput, match="backend must be the name"):
            HAProxy("s", "web; show")


class TestWebhook:
    def test_each_changed_decision_is_posted_once_signed_and_in_order(self, agent, tmp_path):
        posts = []

        def take(request, body):
            headers = dict(request.headers)
            assert headers["Klazy-Signature"] == sign("hush", headers["Klazy-Timestamp"], body)
            posts.append((headers["Idempotency-Key"], json.loads(body)))
            return 204, ""

        with Backend(take) as hook, pytest.MonkeyPatch.context() as patched:
            patched.setenv("KLAZY_WEBHOOK_SECRET", "hush")
            asked = feed("a,b,c\n3,1,2\n", agent, "--webhook", hook.url, folder=tmp_path)
        assert asked.status == 0
        assert [name for name, _ in posts][-1] == "shares/2/held"
        last = posts[-1][1]
        assert last["status"] == "held"
        assert last["guards"] == ["per_round"]
        assert list(last["values"]) == list(SERVERS)
        assert len(posts) in (1, 2)

    def test_what_did_not_change_is_not_posted_again(self):
        with Backend(lambda *_: (200, "")) as hook:
            sink = Webhook(hook.url)
            for decision in (Decision("x", 1, "", {"a": 1.0}), Decision("x", 2, "", {"a": 1.0})):
                sink.apply(decision)
            assert hook.requests == 1
            sink.apply(Decision("x", 2, "", {"a": 1.0}, "frozen"))
            assert hook.requests == 2

    def test_a_hook_that_fails_is_told_once_counted_and_loses_no_round(self, agent, tmp_path):
        rows = "a,b,c\n" + "3,1,2\n" * 20
        with Backend(lambda *_: (503, "")) as hook:
            asked = feed(rows, agent, "--webhook", f"{hook.url}/secret", folder=tmp_path)
        assert asked.status == 0
        lines = asked.stderr.splitlines()
        assert lines[0] == (
            "shares: webhook failed, and is tried again with the newest decision: "
            "127.0.0.1 answered with status 503."
        )
        assert lines[1].startswith("Rows taken: 20, refused: 0")
        assert len(lines) == 2
        with pytest.raises(InvalidInput, match="The webhook must be a URL, got ftp://x"):
            Webhook("ftp://x")


def test_a_delivery_tries_the_newest_decision_until_it_is_applied(monkeypatch):
    monkeypatch.setattr("klazy.sinks.base.FIRST_RETRY", 0.01)
    seen, noted = [], []

    class Flaky:
        def apply(self, decision):
            seen.append(decision.round)
            if len(seen) < 4:
                raise RuntimeError("not now")

    delivery = Delivery(Flaky(), noted.append)
    delivery.give(Decision("x", 1, "", {}))
    wait_for(lambda: len(seen) >= 2)
    assert delivery.is_behind
    delivery.give(Decision("x", 7, "", {}))
    wait_for(lambda: not delivery.is_behind)
    delivery.close()
    assert seen[0] == 1
    assert seen[-1] == 7
    assert noted[-1] is None
    assert len([each for each in noted if each is not None]) == 3


CODE = """
from pathlib import Path

class Queue:
    def __init__(self, text):
        self.file = Path(text)

    def apply(self, decision):
        with self.file.open("a") as file:
            print(decision.round, decision.status, file=file)
"""


def test_a_sink_of_another_package_is_an_entry_point(agent, tmp_path, monkeypatch):
    folder = tmp_path / "packages"
    install(folder, "queue", "queue = queue_of_tests:Queue", group="klazy.sinks")
    (folder / "queue_of_tests.py").write_text(CODE)
    monkeypatch.syspath_prepend(folder)
    asked = feed("a,b,c\n3,1,2\n", agent, "--sink", "queue:given", folder=tmp_path)
    assert (asked.status, (tmp_path / "given").read_text().splitlines()[-1]) == (0, "2 held")
    with pytest.raises(
        InvalidInput, match=r"No installed sink is named 'q'\. Installed sinks: queue"
    ):
        open_installed_sink("q:x")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--haproxy", "s"), "--haproxy and --backend go together."),
        (("--metrics", ":0"), "--metrics needs a store, so that costs survive a restart. Add --state decisions.db."),
        (("--metrics", "9464x", "--state", "s.db"), "The address for metrics must be host:port or :port, got 9464x."),
    ],
)  # fmt: skip
def test_what_is_wrong_is_one_line(agent, tmp_path, arguments, message):
    asked = feed("", agent, *arguments, folder=tmp_path)
    assert asked.status == 2
    assert message in asked.stderr


class TestMetrics:
    def test_a_live_command_says_what_it_decides_and_pays(self, agent, tmp_path):
        """Scraped from the sink, in the middle of the input; figures survive a restart."""
        port = find_port()
        rows = np.random.default_rng(0).normal(size=(30, 3)).round(3)
        scraped = []

        class Rows(io.StringIO):
            def readline(self, size=-1, /):
                line = super().readline(size)
                if not line:
                    text = httpx.get(f"http://127.0.0.1:{port}/metrics").text
                    scraped.append(read_metrics(text))
                return line

        def text(part):
            return "a,b,c\n" + "".join(f"{a},{b},{c}\n" for a, b, c in part)

        live = ("live", agent, "--state", "s.db", "--metrics", f"127.0.0.1:{port}")
        for part in (rows[:20], rows[20:]):
            with pytest.MonkeyPatch.context() as patched:
                patched.setattr(sys, "stdin", Rows(text(part)))
                assert call_klazy(*live, folder=tmp_path).status == 0
            port = find_port()
            live = (*live[:-1], f"127.0.0.1:{port}")
        found = scraped[-1]
        with kl.Agent.open(tmp_path / "s.db", name="shares") as player:
            for column, value in player.decision.items():
                assert found[f'klazy_decision{{agent="shares",column="{column}"}}'] == value
            assert found['klazy_operating_cost{agent="shares"}'] == player.hitting
            assert found['klazy_switching_cost{agent="shares"}'] == player.switching
            assert player.acted == ("per_round",) or player.acted == ()
            assert found.get('klazy_guard_at_work{agent="shares",guard="per_round"}', 0.0) == len(
                player.acted
            )
        fixed = 0.0
        for row in rows:
            fixed += row[0]
        assert found['klazy_fixed_cost{agent="shares"}'] == fixed
        assert found['klazy_agent_rounds{agent="shares"}'] == 30.0
        assert found['klazy_source_up{agent="shares"}'] == 1.0
        assert found['klazy_frozen{agent="shares"}'] == 0.0
        assert 0.0 <= found['klazy_agent_idle_seconds{agent="shares"}'] < 60.0

    def test_a_tally_follows_a_store_that_others_write_and_restore(self, agent, tmp_path):
        place = tmp_path / "s.db"
        rows = np.random.default_rng(1).normal(size=(9, 3))
        with kl.Agent.open(place, kl.Agent.load(agent), name="web") as player:
            tallies = Tallies()

            def look():
                with open_store(place, read_only=True) as store:
                    (tally,) = tallies.look(store)
                return tally

            assert look().fixed == 0.0
            for row in rows[:5]:
                player.observe(row.tolist())
            player.freeze("a storm")
            tally = look()
            assert (tally.hitting, tally.switching, tally.frozen) == (
                player.hitting,
                player.switching,
                True,
            )
            assert tally.decision == player.decision
            player.backup(tmp_path / "backup.db")
            for row in rows[5:]:
                player.observe(row.tolist())
            tally = look()
            assert tally.fixed == sum(rows[:, 0].tolist(), 0.0)
            assert (tally.hitting, tally.guards) == (player.hitting, player.acted)
        with open_store(tmp_path / "backup.db", read_only=True) as store:
            (tally,) = tallies.look(store)
            assert tally.fixed == sum(rows[:5, 0].tolist(), 0.0)
        with kl.Agent.open(place, name="web") as player:
            player.delete()
        with open_store(place, read_only=True) as store:
            assert tallies.look(store) == []

    def test_the_port_of_another_is_refused(self, agent, tmp_path):
        with kl.Agent.open(tmp_path / "s.db", kl.Agent.load(agent), name="web"):
            pass
        metrics = LiveMetrics(str(tmp_path / "s.db"), ["web"])
        with (
            Backend(lambda *_: (200, "")) as other,
            pytest.raises(InvalidInput, match="cannot be served"),
        ):
            metrics.serve(f"127.0.0.1:{other.port}")
        metrics._store.close()
