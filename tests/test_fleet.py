"""A fleet: every agent of it comes out, to the last bit, as it would by itself."""

import copy
import pickle
import shutil

import numpy as np
import pytest

import klazy as kl
from cases import EVERY_LEARNER, flattened, gradients
from klazy.kernels.layout import find_missing_part
from klazy.live import stored
from klazy.live.inspection import check_store
from klazy.live.store import open_store

LEARNER = kl.GD(kl.L2Ball(5), kl.Sqrt(9.0))
G = gradients(0, 60, 5).reshape(12, 5, 5)
NAMES = ["eu-west", "us-east", "Ünder, \\ \"quotes'", "ap", "sa"]


def bits(state):
    return [leaf.tobytes() for leaf in flattened(state)]


def find_faults(place):
    with open_store(place, read_only=True) as store:
        return [checked.fault for checked in check_store(store) if checked.fault is not None]


@pytest.fixture
def quick(monkeypatch):
    """Nothing is forced to disk by SQLite."""
    monkeypatch.setattr("klazy.live.sqlite.SYNCHRONOUS", {"always": "OFF", "batch": "OFF"})


@pytest.mark.xdist_group(
    "Simplex5"
)  # with tests/test_agent.py, which has the kernels of this set
@pytest.mark.parametrize("make", EVERY_LEARNER.values(), ids=EVERY_LEARNER)
def test_every_learner_plays_as_it_does_alone(make):
    learner = make(kl.Simplex(5), kl.ScaleFree(2.0))
    missing = find_missing_part(learner)
    if missing is not None:
        message = (
            rf"A fleet needs a kernel for {missing}, and there is none. Use an Agent for each."
        )
        with pytest.raises(ValueError, match=message):
            kl.Fleet(learner, 3)
        return
    fleet = kl.Fleet(learner, 3)
    agents = [kl.Agent(learner) for _ in range(3)]
    g = gradients(1, 60, 5).reshape(20, 3, 5)
    for t, rows in enumerate(g):
        x = fleet.update(rows)
        for agent, row, point in zip(agents, rows, x, strict=True):
            assert agent.update(row).tobytes() == point.tobytes()
        if t % 4 == 0:  # rounds of their own
            name = str(t % 3)
            (point,) = fleet.update({name: rows[0]}).values()
            assert agents[t % 3].update(rows[0]).tobytes() == point.tobytes()
    for i, agent in enumerate(agents):
        assert bits(fleet[str(i)].state) == bits(agent.state)
        assert (fleet[str(i)].t, fleet.t[i]) == (agent.t, agent.t)
        assert repr(fleet[str(i)].explain()) == repr(agent.explain())


class TestInMemory:
    def test_refused_input_changes_nothing(self):
        fleet = kl.Fleet(LEARNER, NAMES)
        fleet.update(G[0])
        before = fleet.x
        bad = G[1].copy()
        bad[3, 2] = np.nan
        cases = {
            r"g\[3, 2\] must be a finite number, got nan. Remove or fill NaN and inf.": bad,
            r"g\[0, 0\] must be within \+-1e\+60, got 1e\+70. Use larger units.": np.full((5, 5), 1e70),
            r"g must have shape \(5, 5\), one row for each agent, or be a dict by name, got \(5, 4\).": G[1][:, :4],
            r"'no'": {"ap": G[0][0], "no": G[0][0]},
            r"g must have shape \(1, 5\), .* got \(1, 4\).": {"ap": G[0][0][:4]},
            r"ragged|equal length": {"ap": G[0][0], "sa": [1.0]},
        }  # fmt: skip
        for message, given in cases.items():
            with pytest.raises(ValueError, match=message):
                fleet.update(given)
        with pytest.raises(
            ValueError, match=r"id needs a fleet with a store. Open it with Fleet.open"
        ):
            fleet.update(G[1], id="a")
        assert fleet.x.tobytes() == before.tobytes()
        assert fleet.update({}) == {}
        assert fleet.t.tolist() == [2] * 5

    @pytest.mark.parametrize(
        ("names", "message"),
        [
            (0, "names must be a list of names, or a number of agents up to 10,000,000, got int"),
            (10**12, "names must be .* up to 10,000,000, got int"),
            ("eu", "names must be a list of names, .* got str"),
            ([], "names must be a list of names, .* got list"),
            (["a", "b", "a"], "names must differ, got 'a' twice"),
        ],
    )
    def test_names_that_do_not_fit(self, names, message):
        with pytest.raises(ValueError, match=message):
            kl.Fleet(LEARNER, names)

    @pytest.mark.parametrize(
        "copied", [copy.deepcopy, lambda fleet: pickle.loads(pickle.dumps(fleet))]
    )
    def test_a_copy_goes_on_by_itself(self, copied):
        fleet = kl.Fleet(LEARNER, NAMES)
        fleet.update(G[0])
        twin = copied(fleet)
        assert fleet.update(G[1]).tobytes() == twin.update(G[1]).tobytes()
        twin.update(G[2])
        assert (fleet["ap"].t, twin["ap"].t) == (3, 4)

    def test_it_tells_what_it_is(self):
        fleet = kl.Fleet(LEARNER, NAMES)
        assert (
            repr(fleet)
            == f"Fleet({LEARNER!r}, 5 agents: 'eu-west', 'us-east', {NAMES[2]!r}, ...)"
        )
        assert repr(fleet["ap"]) == "Member('ap', t=1)"
        assert (len(fleet), list(fleet), "ap" in fleet, "no" in fleet) == (5, NAMES, True, False)


@pytest.mark.usefixtures("quick")
class TestInAStore:
    @pytest.fixture(autouse=True)
    def few_rounds(self, monkeypatch):
        monkeypatch.setattr(stored, "SNAPSHOT_CALLS", 3)

    def test_it_goes_on_bit_for_bit(self, place):
        straight = kl.Fleet(LEARNER, NAMES)
        for start in (0, 5):  # closed, and opened again, by name and by learner
            names = NAMES if start == 0 else None
            with kl.Fleet.open(place, LEARNER, names, sync="batch") as fleet:
                for rows in G[start : start + 5]:
                    assert fleet.update(rows).tobytes() == straight.update(rows).tobytes()
                    some = {"ap": rows[0], "eu-west": rows[1]}
                    x = fleet.update(some)
                    assert [point.tobytes() for point in x.values()] == [
                        point.tobytes() for point in straight.update(some).values()
                    ]
                assert fleet.names == tuple(NAMES)
        assert find_faults(place) == []
        for name in NAMES:
            with kl.Agent.open(place, name=name) as agent:
                assert bits(agent.state) == bits(straight[name].state)
                assert agent.history()["decision"][-1].to_list() == straight[name].x.tolist()

    def test_it_follows_agents_that_play_alone(self, place):
        learner = kl.MemoryGD(kl.L2Ball(5), kl.Sqrt(9.0), memory=kl.memories.Clip(0.8))
        straight = kl.Fleet(learner, NAMES)
        kl.Fleet.open(place, learner, NAMES).close()
        with kl.Agent.open(place, name="ap") as agent:
            agent.update(G[0][0])
            straight.update({"ap": G[0][0]})
            agent.update(G[0][1], next_hint=np.zeros(5))  # which is what a fleet takes for a hint
            straight.update({"ap": G[0][1]})
            with kl.Fleet.open(place) as fleet:
                assert fleet.x.tobytes() == straight.x.tobytes()
                assert (
                    fleet["ap"].update(G[1][0]).tobytes()
                    == straight["ap"].update(G[1][0]).tobytes()
                )
            agent.refresh()
            assert bits(agent.state) == bits(straight["ap"].state)

    def test_another_process_may_store_a_snapshot_while_it_reads(self, file, monkeypatch):
        with (
            kl.Fleet.open(file, LEARNER, NAMES) as fleet,
            kl.Agent.open(file, name="ap") as agent,
        ):
            for g in G[0]:
                agent.update(g)
            store = fleet._stored.store
            ask = store.ask

            def ask_slowly(sql, *values):
                if " JOIN snapshots " in sql:
                    agent._stored.take_snapshots()
                return ask(sql, *values)

            monkeypatch.setattr(store, "ask", ask_slowly)
            assert fleet.refresh()[3].tobytes() == agent.x.tobytes()

    def test_a_call_is_taken_whole_or_not_at_all(self, place):
        with (
            kl.Fleet.open(place, LEARNER, NAMES) as fleet,
            kl.Agent.open(place, name="sa") as agent,
        ):
            agent.update(G[0][0])
            with pytest.raises(
                kl.types.Overtaken,
                match=r"Another process ended a round of one of these agents. Play the points of fleet.x, or use retry=True.",
            ):
                fleet.update(G[1])
            assert fleet.t.tolist() == [1, 1, 1, 1, 2]
            assert fleet["sa"].x.tobytes() == agent.x.tobytes()
            agent.update(G[2][0])
            fleet.update(G[1], retry=True)
            assert fleet.t.tolist() == [2, 2, 2, 2, 4]
            agent.refresh()
            assert agent.t == 4
        assert find_faults(place) == []

    def test_an_id_is_answered_by_the_decisions_made_then(self, place):
        with kl.Fleet.open(place, LEARNER, NAMES) as fleet:
            first = fleet.update(G[0], id="monday")
            some = fleet.update({"ap": G[1][0]}, id="tuesday")
            assert fleet.update(G[2], id="monday").tobytes() == first.tobytes()
            assert (
                fleet.update({"ap": G[2][0]}, id="tuesday")["ap"].tobytes()
                == some["ap"].tobytes()
            )
            message = r"Some of these agents know the id 'tuesday', others do not."
            with pytest.raises(ValueError, match=message):
                fleet.update(G[1], id="tuesday")
            assert fleet.t.tolist() == [2, 2, 2, 3, 2]
        with kl.Fleet.open(place) as fleet:
            assert fleet.update(G[2], id="monday").tobytes() == first.tobytes()

    def test_what_a_kill_leaves_is_played_again(self, file, tmp_path, monkeypatch):
        monkeypatch.setattr(stored, "SNAPSHOT_CALLS", 4)
        straight = kl.Fleet(LEARNER, NAMES)
        killed = tmp_path / "killed.db"
        with kl.Fleet.open(file, LEARNER, NAMES) as fleet:
            for rows in G[:7]:
                fleet.update(rows)
                straight.update(rows)
            for end in ("", "-wal"):
                shutil.copy(f"{file}{end}", f"{killed}{end}")
        with kl.Fleet.open(killed) as fleet:
            assert fleet.x.tobytes() == straight.x.tobytes()
            assert fleet.update(G[7]).tobytes() == straight.update(G[7]).tobytes()
        assert find_faults(killed) == []

    def test_refused_input_changes_nothing(self, file):
        with kl.Fleet.open(file, LEARNER, NAMES) as fleet:
            with pytest.raises(
                ValueError,
                match=r"g\[0, 0\] must be a finite number, got nan. Remove or fill NaN and inf.",
            ):
                fleet.update(np.full((5, 5), np.nan))
            assert fleet.t.tolist() == [1] * 5
        with pytest.raises(ValueError, match=r".* was closed."):
            fleet.update(G[0])
        with pytest.raises(
            ValueError, match=r"A fleet with a store, .*, cannot be copied or pickled."
        ):
            copy.copy(fleet)

    def test_agents_that_cannot_play_as_a_fleet(self, file):
        kl.Agent.open(file, LEARNER, name="guarded", guards=kl.Guards()).close()
        kl.Agent.open(file, LEARNER, name="step", engine="step").close()
        kl.Agent.open(file, LEARNER, name="rows", costs=kl.Linear()).close()
        kl.Agent.open(file, LEARNER.replace(sigma=2.0), name="other").close()
        cases = {
            ("guarded",): "cannot play 'guarded', which has guards. Open it with Agent.open.",
            (
                "step",
            ): "cannot play 'step', which runs without a kernel. Open it with Agent.open.",
            (
                "rows",
            ): r"cannot play 'rows', which takes rows for costs=Linear\(\). Open it with Agent.open.",
            (
                "other",
            ): "learner must be .*, as stored for 'other' in .*, got .*. Leave it out, or choose other names.",
        }
        for names, message in cases.items():
            with pytest.raises(ValueError, match=message):
                kl.Fleet.open(file, LEARNER, names)
        with pytest.raises(
            ValueError, match=r"No agent named 'new' in .*. Give a learner to create it"
        ):
            kl.Fleet.open(file, names=["new"])
        with kl.Fleet.open(file) as fleet:
            assert fleet.names == ("other",)
