"""Learners of other packages: an entry point of the group ``klazy.learners`` is a contender by its name."""

import json

import pytest

import klazy as kl
from command import call_klazy
from klazy.base.checks import InvalidInput
from klazy.studies.contenders import import_own
from klazy.studies.replay.report import replay
from test_arena import tiny
from test_replay import rows_for

__all__ = ["tiny"]  # a fixture

CODE = """
import klazy as kl


def thrifty(domain, movement, patience: float = 2.0) -> kl.types.Learner:
    return kl.contrib.Patient(domain, 1.0, move_cost=patience * movement.weight)
"""
STUDY = """
seeds = 2
[[scenarios]]
recipe = "stochastic"
phases = 2
length = 20
[[learners]]
rule = "thrifty-learner"
patience = [1.0, 4.0]
"""


def install(folder, package, entry_points, group="klazy.learners"):
    """What an installer leaves of a package: its folder of metadata, beside its modules."""
    about = folder / f"{package}-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[{group}]\n{entry_points}\n")


@pytest.fixture
def thrifty(tmp_path, monkeypatch):
    """A package with one learner."""
    folder = tmp_path / "packages"
    install(folder, "thrift", "thrifty-learner = thrift_of_tests:thrifty")
    (folder / "thrift_of_tests.py").write_text(CODE)
    monkeypatch.syspath_prepend(folder)
    return folder


@pytest.mark.usefixtures("thrifty", "tiny")
def test_the_arena_plays_it_by_its_name(tmp_path):
    ran = call_klazy(
        "arena", "--out", "kept", "--jobs", 1, "--learner", "thrifty-learner", folder=tmp_path
    )
    assert (ran.status, ran.stderr) == (0, "")
    assert "thrifty-learner, which knows only the set and the move cost: " in ran.stdout


@pytest.mark.usefixtures("by_step")
def test_a_replay_plays_it_and_leaves_out_what_fails_with_a_warning(thrifty):
    install(thrifty, "broken", "broken-learner = nowhere_at_all:mine")
    with pytest.warns(
        UserWarning, match="leaves out an installed learner: broken-learner cannot be imported"
    ):
        report = replay(rows_for("linear", 50), move_cost=0.3)
    assert isinstance(report.agent("thrifty-learner").learner, kl.contrib.Patient)
    assert "broken-learner" not in report.table["contender"]


@pytest.mark.usefixtures("thrifty")
def test_a_sweep_plays_it_by_its_name_with_a_grid_of_its_arguments(tmp_path):
    (tmp_path / "study.toml").write_text(STUDY)
    ran = call_klazy(
        "sweep", "study.toml", "--out", "here", "--jobs", 1, "--json", folder=tmp_path
    )
    assert (ran.status, ran.stderr) == (0, "")
    counts = json.loads(ran.stdout)
    assert (counts["runs"], counts["failed"]) == (4, 0)
    assert set(kl.load_sweep(tmp_path / "here")["learner"]) == {"thrifty-learner"}


def test_the_list_shows_what_is_installed_and_imports_nothing(thrifty):
    (thrifty / "thrift_of_tests.py").write_text("raise RuntimeError('imported')")
    ran = call_klazy("list")
    assert (ran.status, ran.stderr) == (0, "")
    assert "thrift_of_tests:thrifty" in ran.stdout
    learners = json.loads(call_klazy("list", "--json").stdout)["learners"]
    assert {"name": "thrifty-learner", "code": "thrift_of_tests:thrifty"} in learners


def test_a_name_that_stands_for_nothing_or_for_two_things_is_refused(thrifty):
    with pytest.raises(InvalidInput, match="No installed learner is named 'thrify-learner'"):
        import_own(["thrify-learner"], trust=True)
    install(thrifty, "rival", "thrifty-learner = rival:thrifty")
    with pytest.raises(
        InvalidInput, match="two packages offer it: rival:thrifty and thrift_of_tests:thrifty"
    ):
        import_own(["thrifty-learner"], trust=False)
    install(thrifty, "broken", "broken-learner = nowhere_at_all:mine")
    with pytest.raises(
        InvalidInput, match="broken-learner cannot be imported: ModuleNotFoundError"
    ):
        import_own(["broken-learner"], trust=False)
