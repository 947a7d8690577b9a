"""Kernels that were compiled ahead: a pack is used where it fits, and then all kernels are for its level of processors."""

import importlib
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from command import call_klazy
from klazy.kernels import binding, target

LEVELS = target.list_levels()
pytestmark = [
    pytest.mark.skipif(
        os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="nothing is compiled here"
    ),
    pytest.mark.skipif(not LEVELS, reason="a pack has no kernels for this processor"),
    pytest.mark.xdist_group("pack"),
]
# A run, whose kernel is in the pack, then an agent, whose kernel is not; both from the start, and the agent of a file.
GAME = """
import json, sys, warnings
import numpy as np, klazy as kl
from klazy.kernels.binding import describe_target
from klazy.kernels.sequence import sequence_kernel, update_kernel

def count(kernel):
    return [sum(kernel.stats.cache_hits.values()), sum(kernel.stats.cache_misses.values())]

g = np.random.default_rng(0).normal(size=(70, 5))
learner = kl.GD(kl.Simplex(5), 1.0)
trace = kl.run(learner, g)
found = {"run": trace.state.x.tolist(), "cpu": describe_target()["cpu"]}
found["loaded"] = [count(sequence_kernel(3, 0, 0, 5))]
if sys.argv[1:]:
    agent = kl.Agent(learner)
    if sys.argv[1] == "save":
        agent.save(sys.argv[2])
    for row in g:
        agent.update(row)
    found["agent"] = agent.x.tolist()
    found["loaded"].append(count(update_kernel(3, 0, 5, False)))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        kl.Agent.load(sys.argv[2])
    found["warned"] = [each.category.__name__ for each in said]
print(json.dumps(found))
"""
LOADED = [1, 0]
COMPILED = [0, 1]


def play(cache, *arguments, site="", **environment):
    """Play in a new process, which finds a pack if ``site`` is the folder where one is installed."""
    about = {"KLAZY_CACHE_DIR": str(cache), "PYTHONPATH": str(site), **environment}
    # The names of functions, which are next to the machine code, come from an order of hashes.
    about["PYTHONHASHSEED"] = "0"
    command = [sys.executable, "-c", GAME, *map(str, arguments)]
    done = subprocess.run(command, env=os.environ | about, capture_output=True, check=True)
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def native(tmp_path_factory):
    """What is played without a pack, and the file of an agent that was saved there."""
    folder = tmp_path_factory.mktemp("native")
    return play(folder, "save", folder / "agent.json"), folder / "agent.json"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """A wheel with the kernel of the run, as scripts/kernels.py makes it."""
    folder = tmp_path_factory.mktemp("wheel")
    package = folder / binding.PACK
    level = {"NUMBA_CPU_NAME": LEVELS[0], "NUMBA_CPU_FEATURES": target.LEVELS[LEVELS[0]]}
    play(package / LEVELS[0], **level)
    (package / binding.ABOUT).write_text(json.dumps(binding.describe_making()))
    (package / "__init__.py").touch()
    sys.path.insert(0, str(Path(__file__).parents[1] / "scripts"))
    try:
        return importlib.import_module("kernels").write_wheel(folder / "dist", package)
    finally:
        del sys.path[0]


@pytest.fixture
def site(wheel, tmp_path):
    """A folder in which the pack is installed."""
    install = ["install", "--quiet", "--no-index", "--no-deps", "--target", tmp_path / "site"]
    subprocess.run([sys.executable, "-m", "pip", *install, wheel], check=True)
    return tmp_path / "site"


def find_kernel(folder):
    (kernel,) = folder.rglob("*.nbc")
    return kernel


def read_code(file):
    """Return the machine code in a kernel's file."""
    content = binding._verify_checksum(file.read_bytes())
    assert content is not None
    (_, _, (code, _)), *_ = pickle.loads(content)
    return code


def test_a_process_loads_what_the_pack_has_and_compiles_the_rest_for_the_same_level(
    native, site, tmp_path
):
    without, file = native
    found = play(tmp_path / "cache", "load", file, site=site)
    assert found["loaded"] == [LOADED, COMPILED]
    assert found["cpu"].startswith(f"{LEVELS[0]} ")
    assert found["agent"] == found["run"]
    assert find_kernel(tmp_path / "cache").name.startswith("kernel.sequence_update_run_")
    # An agent that was saved without the pack goes on as on another machine.
    assert found["warned"] == ["OtherMachine"]
    assert without["loaded"] == [COMPILED, COMPILED]
    assert without["warned"] == []
    assert without["agent"] == without["run"]
    assert max(abs(x - y) for x, y in zip(found["run"], without["run"], strict=True)) < 1e-12


def test_a_damaged_kernel_of_the_pack_is_compiled_again_to_the_same_machine_code(site, tmp_path):
    """So it does not matter which kernels a pack has: every kernel of the process is as if it came from one."""
    kernel = find_kernel(site)
    code = read_code(kernel)
    kernel.write_bytes(kernel.read_bytes()[:-1])
    found = play(tmp_path / "cache", site=site)
    assert found["loaded"] == [COMPILED]
    assert read_code(tmp_path / "cache" / kernel.name) == code


def test_a_pack_of_other_sources_is_ignored(native, site, tmp_path):
    about = next(site.rglob(binding.ABOUT))
    made = json.loads(about.read_text())
    about.write_text(json.dumps(made | {"klazy's sources": "0badc0de"}))
    found = play(tmp_path / "cache", site=site)
    assert found["loaded"] == [COMPILED]
    assert {name: found[name] for name in ("cpu", "run")} == {
        name: native[0][name] for name in ("cpu", "run")
    }


@pytest.fixture
def installed(site, monkeypatch):
    """The package of the pack, which this process finds, though it uses none of it."""
    monkeypatch.syspath_prepend(site)
    binding.find_pack.cache_clear()
    yield site / binding.PACK
    binding.find_pack.cache_clear()


def forget(about):
    about.unlink()


def damage(about):
    about.write_text("[1]")


def open_to_all(about):
    about.parent.chmod(0o777)


def come_from_another_numba(about):
    about.write_text(json.dumps(binding.describe_making() | {"Numba": "0.1"}))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (forget, "about.json: No such file or directory"),
        (damage, "about.json is damaged"),
        (open_to_all, "klazy_kernels: other users can write to it, which chmod go-w would end"),
        (come_from_another_numba, "they are for Numba 0.1, and this is "),
    ],
)
def test_the_doctor_says_why_a_pack_is_not_used(change, words, installed, tmp_path, monkeypatch):
    monkeypatch.setenv("KLAZY_CACHE_DIR", str(tmp_path / "cache"))
    change(installed / binding.ABOUT)
    ended = call_klazy("doctor")
    assert ended.status == 0
    (line,) = (each for each in ended.stdout.splitlines() if each.startswith("Kernels compiled"))
    assert line.startswith(f"Kernels compiled ahead: {installed}, not used: ")
    assert words in line


def test_the_doctor_counts_the_kernels_of_the_best_level_that_the_processor_has(
    installed, tmp_path, monkeypatch
):
    monkeypatch.setenv("KLAZY_CACHE_DIR", str(tmp_path / "cache"))
    found = json.loads(call_klazy("doctor", "--json").stdout)["pack"]
    assert found == {
        "folder": str(installed), "level": LEVELS[0], "kernels": 1, "obstacle": None
    }  # fmt: skip
    features = target.codegen.get_host_cpu_features()
    monkeypatch.setattr(
        target.codegen, "get_host_cpu_features", lambda: features.replace("+avx2", "-avx2")
    )
    binding.find_pack.cache_clear()
    found = json.loads(call_klazy("doctor", "--json").stdout)["pack"]
    assert (found["level"], found["kernels"]) == (None, 0)
    assert found["obstacle"].startswith("none are for this processor")
