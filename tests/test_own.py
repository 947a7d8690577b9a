"""Classes of the user in commands and in the service: ``klazy --import`` names their module."""

import sys
from contextlib import contextmanager
from unittest.mock import patch

import numpy as np
import pytest

import klazy as kl
from cases import Cubic
from command import call_klazy
from klazy.base import config
from klazy.base.checks import InvalidInput
from klazy.studies.replay import scoring
from served import run_service

CODE = '''
import numpy as np

import klazy as kl


class Half(kl.GD):
    """Goes half the way."""

    def step(self, state, g):
        after = super().step(state, g)
        return after._replace(x=0.5 * (state.x + after.x))


class Longest(kl.types.Movement):
    """The largest change."""

    short_name = "longest-of-theirs"

    def distance(self, delta):
        return np.abs(delta).max(axis=-1)

    def subgradient(self, delta):
        return np.sign(delta) * (np.arange(delta.size) == np.abs(delta).argmax())


class Smoothed(kl.types.Family):
    """A rounded distance from a target."""

    def value(self, row, x):
        return np.sqrt((x - row) ** 2 + 1.0).sum(axis=-1)

    def gradient(self, row, x):
        return (x - row) / np.sqrt((x - row) ** 2 + 1.0)


domain = kl.Box([0.0, 0.0], [9.0, 9.0])
'''


class Farthest(kl.types.Movement):
    """The largest change, in this module."""

    def distance(self, delta):
        return np.abs(delta).max(axis=-1)


UNKNOWN = "No Learner of class 'theirs.Half' is known."
REMEDY = "Import the module that defines it: klazy --import MODULE COMMAND."


@contextmanager
def forget_afterwards():
    """Forget at the end the module of the user and its classes."""
    known = {name: list(kinds) for name, kinds in config._CLASSES.items()}
    with patch.object(config, "_CLASSES", known):
        yield
    sys.modules.pop("theirs", None)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a module, and a store with an agent of its classes and one of klazy's."""
    (tmp_path / "theirs.py").write_text(CODE)
    with forget_afterwards(), monkeypatch.context() as patched:
        patched.syspath_prepend(tmp_path)
        import theirs  # pyright: ignore[reportMissingImports]

        store = tmp_path / "decisions.db"
        terms = {"costs": theirs.Smoothed(), "movement": theirs.Longest(2.0)}
        with kl.Agent.open(
            store, theirs.Half(theirs.domain, 2.0), name="theirs", **terms
        ) as agent:
            for row in np.random.default_rng(0).uniform(0.0, 9.0, (5, 2)):
                agent.observe(row)
        kl.Agent.open(store, kl.GD(kl.Box(0, 1), 1.0), name="plain", engine="step").close()
    np.savetxt(
        tmp_path / "load.csv",
        4.0 + np.sin(np.arange(80.0).reshape(40, 2)),
        delimiter=",",
        header="a,b",
        comments="",
    )
    return tmp_path


def test_an_agent_of_unknown_classes_hides_no_other(folder):
    listed = call_klazy("agents", "decisions.db", folder=folder)
    assert listed.status == 0
    assert f"theirs.Half: {UNKNOWN} {REMEDY}" in listed.stdout
    assert "GD(sigma=" in listed.stdout
    checked = call_klazy("check", "decisions.db", folder=folder)
    assert checked.status == 1
    assert f"theirs: {UNKNOWN} {REMEDY}\n" in checked.stdout
    with run_service(folder, insecure=True) as served:
        about = {
            each["name"]: each["learner"]
            for each in served.ask("GET", "/agents").json()["agents"]
        }
        assert about["theirs"].startswith(f"theirs.Half: {UNKNOWN}")
        assert about["plain"].startswith("GD(")
        assert "theirs" in served.ask("GET", "/").text


def test_commands_know_the_classes_of_modules_that_they_import(folder):
    with forget_afterwards():
        checked = call_klazy("--import", "theirs", "check", "decisions.db", folder=folder)
    assert checked.status == 0
    assert "theirs: 5 rounds, identical bit for bit." in checked.stdout


def test_a_replay_takes_objects_of_modules_that_are_imported(folder):
    options = ["load.csv", "--domain", "theirs:domain", "--costs", "theirs:Smoothed"]
    with forget_afterwards():
        options += ["--movement", "longest-of-theirs", "--emit", "agent.json"]
        replayed = call_klazy("--import", "theirs", "replay", *options, folder=folder)
        assert (replayed.status, replayed.stderr) == (0, "")
        assert "The best possible total was" in replayed.stdout
        saved = (folder / "agent.json").read_text()
    assert '"class": "theirs.Longest"' in saved
    assert '"class": "theirs.Smoothed"' in saved


def test_a_replay_without_kernels_warns_once_and_gives_auto_rows(monkeypatch):
    monkeypatch.setattr(scoring, "LONG_ROWS", 40)
    rows = 4.0 + np.sin(np.arange(80.0).reshape(40, 2))
    game = {
        "domain": kl.Box([0.0, 0.0], [9.0, 9.0]),
        "costs": kl.Pinball(4.0),
        "movement": Farthest(1.0),
    }
    with pytest.warns(
        UserWarning, match="go through NumPy, because Farthest has no compiled kernel"
    ) as warned:
        report = kl.replay(rows, **game)
    assert len(warned) == 1
    assert report.score("auto").player.learner.family == kl.Pinball(4.0)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--import", "nowhere", "agents", "decisions.db"], "--import cannot import nowhere: ModuleNotFoundError:"),
        (["replay", "load.csv", "--domain", "theirs:domain"], "theirs:domain would be imported and run. If you know its "),
        (["--import", "theirs", "replay", "load.csv", "--costs", "theirs:no"], "theirs:no cannot be made: AttributeError:"),
    ],
)  # fmt: skip
def test_what_cannot_be_imported_or_may_not_is_refused(folder, arguments, said):
    with forget_afterwards():
        ended = call_klazy(*arguments, folder=folder)
    assert ended.status == 2
    assert ended.stderr.startswith(said)


def test_a_service_builds_classes_of_the_modules_that_klazy_imports_and_no_others(
    tmp_path, monkeypatch
):
    learner = kl.GD(kl.Simplex(5), 1.0)
    with run_service(tmp_path, insecure=True) as served:
        with pytest.raises(InvalidInput, match="class must be a class of klazy"):
            served.client().agent("a", learner, costs=Cubic(), engine="step")
        monkeypatch.setenv("KLAZY_IMPORT", "json, cases")
        remote = served.client().agent("a", learner, costs=Cubic(), engine="step")
        own = kl.Agent(learner, costs=Cubic(), engine="step")
        row = np.linspace(0.0, 1.0, 5)
        np.testing.assert_array_equal(remote.observe(row), own.observe(row))
        about = {"learner": {"class": "os.system"}}
        assert (
            "class must be a class of klazy"
            in served.ask("PUT", "/agents/b", about).json()["detail"]
        )
