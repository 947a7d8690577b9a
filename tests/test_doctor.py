"""``klazy doctor`` and ``klazy warm``: what is installed, and kernels that can be seen, made ahead and cleared."""

import json
import os
import subprocess
import sys
from importlib.metadata import version

import pytest

import klazy as kl
from command import call_klazy
from klazy.cli import doctor, warm
from klazy.kernels.layout import find_missing_part

WARM = ["warm", "--learner", "KLazyGD", "--domain", "simplex", "--dim", "5", "--json"]


def ask_doctor(*options):
    ended = call_klazy("doctor", "--json", *options)
    return ended.status, json.loads(ended.stdout)


def test_a_kernel_that_was_warmed_is_seen_used_and_cleared(tmp_path, monkeypatch):
    """Warming is for other processes, so it is done in one of its own; what else is in the folder stays."""
    monkeypatch.setenv("KLAZY_CACHE_DIR", str(tmp_path))
    (tmp_path / "other.nbc").touch()
    (tmp_path / "arena").mkdir()
    environment = {
        name: value for name, value in os.environ.items() if name != "NUMBA_DISABLE_JIT"
    }
    command = [sys.executable, "-m", "klazy", *WARM]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    told = json.loads(done.stdout)
    assert told["kernels"] == 2  # one for an agent, one that plays it in a fleet
    assert told["warmed"][0]["engine"] == "compiled"
    assert told["warmed"][0]["new_kernels"] == 2
    kernels = list(tmp_path.glob("kernel.*.nbc"))
    _, found = ask_doctor()
    assert found["cache"]["folder"] == str(tmp_path)
    assert found["cache"]["kernels"] == found["cache"]["current"] == 2
    assert found["cache"]["bytes"] == sum(kernel.stat().st_size for kernel in kernels)
    kernel = kernels[0]
    old = kernel.with_name(kernel.name.replace(kernel.stem.rpartition("_")[2][:8], "0badc0de"))
    old.touch()
    begun = [tmp_path / f"{kernel.stem}.{name}.nbp" for name in ("now", "long-ago")]
    for partial in begun:
        partial.touch()
    os.utime(begun[1], (0, 0))
    _, found = ask_doctor()
    assert (found["cache"]["kernels"], found["cache"]["current"]) == (3, 2)
    _, found = ask_doctor("--clear-cache")
    assert (found["cleared"], found["cache"]["kernels"]) == (3, 0)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "arena",
        begun[0].name,
        "other.nbc",
    ]


def test_a_kernel_that_vanishes_while_it_is_measured_is_left_out(tmp_path, monkeypatch):
    """Another process may clear the folder between a look and the next."""
    kernel = tmp_path / "kernel.nbc"
    kernel.write_bytes(b"1234")
    monkeypatch.setattr(
        "klazy.kernels.binding.list_kernels", lambda current=False: [Vanishing(), kernel]
    )
    assert ask_doctor()[1]["cache"]["bytes"] == 4


class Vanishing:
    """A file that is removed right after it was seen."""

    def exists(self):
        return True

    def stat(self):
        raise FileNotFoundError


def test_the_doctor_names_versions_and_says_that_nothing_is_wrong(tmp_path, monkeypatch):
    monkeypatch.setenv("KLAZY_CACHE_DIR", str(tmp_path))
    ended = call_klazy("doctor")
    assert ended.status == 0
    assert ended.stdout.startswith(f"klazy {kl.__version__}, from ")
    assert f"numba {version('numba')}" in ended.stdout
    assert ended.stdout.endswith("\nNothing is wrong.\n")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_wrong_and_refused_by_warm(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("KLAZY_CACHE_DIR", str(tmp_path / "file"))
    status, found = ask_doctor()
    assert status == 1
    assert found["problems"] == [
        f"compiled kernels cannot be kept in {tmp_path / 'file'} ({found['cache']['obstacle']}); "
        "set KLAZY_CACHE_DIR to a folder that only you can write to and that has room"
    ]
    ended = call_klazy(*WARM)
    assert ended.status == 2
    assert ended.stderr.startswith(f"Kernels cannot be stored in {tmp_path / 'file'}: ")


REQUIRED = [
    "numpy>=2.0",
    "numba<0.1",
    "no-such-package",
    'rich; extra == "cli"',
    'no-such-either>=1; extra == "cluster"',
    'scipy<1; extra == "polytope"',
    'no-such-tool; extra == "dev"',
    'no-such-system; sys_platform == "plan9" and extra == "cli"',
    'rich>=1; python_version >= "3.11" and extra == "cli"',
]


def test_the_doctor_tells_what_is_missing_from_what_is_of_another_version(tmp_path, monkeypatch):
    monkeypatch.setenv("KLAZY_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(doctor, "requires", lambda name: REQUIRED)
    status, found = ask_doctor()
    assert status == 1
    assert found["problems"] == [
        f"klazy needs numba<0.1, found {version('numba')}",
        "klazy needs no-such-package, found none",
        f"the extra polytope needs scipy<1, found {version('scipy')}",
    ]
    assert {name: about["missing"] for name, about in found["extras"].items()} == {
        "cli": [],
        "cluster": ["no-such-either"],
        "polytope": [],
    }
    printed = call_klazy("doctor").stdout
    assert f"without no-such-either  {found['extras']['cluster']['install']}" in printed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.json"], "There is no file none.json. Name a store, or a file that"),
        (["--learner", "Best"], "--learner must be one of 'KLazyGD', 'GD', 'LazyGD', 'auto'"),
        (["--domain", "torus"], "--domain must be one of 'simplex', 'box', 'ball'"),
    ],
)
def test_warm_refuses_what_it_does_not_know(arguments, message, tmp_path):
    ended = call_klazy("warm", *arguments, folder=tmp_path)
    assert ended.status == 2
    assert ended.stderr.startswith(message)


def test_warm_takes_the_files_of_agents(tmp_path):
    kl.Agent(kl.KLazyGD(kl.Simplex(5), 1.0, k=2)).save(tmp_path / "agent.json")
    kl.Agent(kl.GD(kl.Simplex(5), 1.0), engine="step").save(tmp_path / "plain.json")
    ended = call_klazy("warm", "agent.json", "plain.json", "--json", folder=tmp_path)
    told = json.loads(ended.stdout)["warmed"]
    assert [(each["what"], each["engine"]) for each in told] == [
        ("agent.json", "compiled"),
        ("plain.json", "step"),
    ]


def test_warm_takes_a_store_and_each_kind_of_its_agents_once(tmp_path):
    learner = kl.KLazyGD(kl.Simplex(5), 1.0, k=2)
    for name in ("eu", "us"):
        kl.Agent.open(tmp_path / "decisions.db", learner, name=name).close()
    kl.Agent.open(
        tmp_path / "decisions.db", kl.GD(kl.Simplex(5), 1.0), name="plain", engine="step"
    ).close()
    ended = call_klazy("warm", "decisions.db", "--json", folder=tmp_path)
    told = json.loads(ended.stdout)["warmed"]
    assert [(each["what"], each["engine"]) for each in told] == [
        ("eu of decisions.db", "compiled")
    ]


def test_a_gpu_is_named_as_its_driver_names_it(tmp_path, monkeypatch):
    driver = tmp_path / "nvidia-smi"
    driver.write_text("#!/bin/sh\necho 'Some GPU, with a comma, 4096'\necho 'Another, [N/A]'\n")
    driver.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert doctor._list_gpus() == [
        {"name": "Some GPU, with a comma", "memory_mib": 4096},
        {"name": "Another", "memory_mib": None},
    ]
    driver.write_text("#!/bin/sh\nexit 9\n")
    assert doctor._list_gpus() == []


@pytest.mark.parametrize("kind", warm.WARMED_DOMAINS)
@pytest.mark.parametrize("learner", warm.LEARNERS)
def test_all_that_warm_offers_has_kernels(learner, kind):
    made = warm.LEARNERS[learner](warm.WARMED_DOMAINS[kind](5))
    assert made.domain.dim == 5
    assert find_missing_part(made) is None
