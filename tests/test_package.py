"""Promises about the package as a whole."""

import importlib
import os
import pkgutil
import re
import subprocess
import sys
import sysconfig
import tomllib
from collections import Counter
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import klazy as kl

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("form", ["import klazy", "from klazy import *"])
def test_importing_loads_no_heavy_library(form):
    heavy = ("numba", "scipy", "matplotlib", "polars", "daqp", "pydantic")
    script = f"import sys\n{form}\nprint([name for name in {heavy} if name in sys.modules])"
    assert (
        subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True
        ).stdout.strip()
        == "[]"
    )


def test_totals_need_no_memory_that_grows_with_the_horizon():
    """Peak memory beyond the input, in its own process, after a short run has loaded and compiled everything."""
    script = """
import numpy as np, resource, klazy as kl
learner = kl.KLazyGD(kl.L2Ball(5), kl.Sqrt(60), k=65)
g = np.random.default_rng(0).normal(size=(400_000, 5))
kl.run(learner, g[:10], record="totals")
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
before = peak()
kl.run(learner, g, record="totals")
print(peak() - before)
"""
    if os.environ.get("NUMBA_DISABLE_JIT") == "1":
        script = script.replace("400_000", "2_000")
    kilobytes = int(
        subprocess.run([sys.executable, "-c", script], capture_output=True, check=True).stdout
    )
    assert kilobytes < 2_000  # a single boolean per number of the input would already need 2 MB


def public_names():
    names = {name: getattr(kl, name) for name in dir(kl) if not name.startswith("_")}
    return sorted(name for name, value in names.items() if not isinstance(value, ModuleType))


def public_modules():
    """Every module of klazy that names what it exports."""
    found = {}
    for module in pkgutil.walk_packages(kl.__path__, "klazy."):
        if not module.name.startswith(("klazy.kernels", "klazy.__main__")):
            names = getattr(importlib.import_module(module.name), "__all__", None)
            if names is not None:
                found[module.name] = set(names)
    return found


def test_every_name_has_one_public_place():
    """A module's names are all at the top, and it is no place of its own, or they are there and nowhere else."""
    top = set(dir(kl))
    modules = public_modules()
    assert {"klazy.contrib", "klazy.learners", "klazy.studies.sweep", "klazy.theory"} <= set(
        modules
    )
    assert [name for name, names in modules.items() if names & top and not names <= top] == []
    places = {name: names for name, names in modules.items() if not names <= top}
    counts = Counter(name for names in places.values() for name in names)
    assert [name for name, count in counts.items() if count > 1] == [
        "Game"
    ]  # contrib's and the arena's are two classes


def test_the_top_stays_small_enough_to_hold():
    """Where a name must be added, ask what most people use: the rest has a place in contrib, theory or types."""
    assert len(dir(kl)) <= 65


def test_every_public_name_has_a_docstring():
    public = [getattr(kl, name) for name in public_names()]
    assert not [value for value in public if callable(value) and not value.__doc__]


USER = """
from typing import assert_type

import numpy as np
import klazy as kl
from klazy.learners.base import AnchoredState
from klazy.learners.gd import GDState

g = np.ones((10, 3))
learner = kl.GD(kl.L2Ball(3), sigma=kl.Sqrt(1.0))
trace = kl.run(learner, g, movement=kl.L1Movement(0.5))
assert_type(trace.state, GDState)
again = kl.run(learner, g, state=trace.state)
lazy = kl.KLazyGD(kl.L2Ball(3), 1.0, k=2)
assert_type(kl.run_many(lazy, [g, g])[0].state, AnchoredState)
assert_type(kl.run_many([learner, learner], g)[0].state, GDState)
both = kl.run_many([learner, lazy], g)
for each in (learner, lazy):
    point: np.ndarray = kl.run(each, g).state.x
total: float = kl.regret(trace, np.zeros(3)).total
x: np.ndarray = kl.Agent(kl.auto(kl.Simplex(3))).update([1.0, 0.0, 0.0])
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The Python of a fresh environment: our wheel is installed there, and what it needs is borrowed from here.

    The rules on what a package exports hold for installed packages only, so the sources are no substitute.
    """
    folder = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip"]
    subprocess.run(
        [*pip, "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, ROOT], check=True
    )
    (wheel,) = folder.glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "env"], check=True)
    python = folder / "env" / "bin" / "python"
    ask = [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    packages = subprocess.run(ask, capture_output=True, text=True, check=True).stdout.strip()
    subprocess.run(
        [*pip, "install", "--quiet", "--no-deps", "--target", packages, wheel], check=True
    )
    Path(packages, "borrowed.pth").write_text(sysconfig.get_path("purelib"))
    return python


@pytest.mark.xdist_group("installed")
def test_a_type_checker_finds_every_public_name_of_the_installed_package(installed, tmp_path):
    names = "".join(f"_ = kl.{name}\n" for name in public_names())
    for place in (kl.contrib, kl.memories, kl.theory, kl.types):
        names += "".join(
            f"_ = {place.__name__.replace('klazy', 'kl')}.{name}\n" for name in place.__all__
        )
    (tmp_path / "user.py").write_text(USER + names)
    (tmp_path / "pyrightconfig.json").write_text('{"include": ["user.py"]}')
    pyright = [sys.executable, "-m", "pyright", "--project", tmp_path, "--pythonpath", installed]
    elsewhere = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    told = subprocess.run(pyright, capture_output=True, text=True, env=elsewhere)
    assert told.returncode == 0, told.stdout + told.stderr


READ_METADATA = "from importlib.metadata import distribution; print(distribution('klazy').read_text('METADATA'))"


@pytest.mark.xdist_group("installed")
def test_the_page_on_pypi_links_to_the_repository_and_names_every_licence(installed):
    """PyPI shows the README alone, so that a link to a file beside it would lead nowhere."""
    ask = [installed, "-X", "utf8", "-c", READ_METADATA]
    shown = subprocess.run(ask, capture_output=True, encoding="utf-8", check=True).stdout
    targets = re.findall(r"\]\(([^)]*)\)", shown)
    assert len(targets) > 10
    assert [target for target in targets if not target.startswith(("https://", "#"))] == []
    assert "\nLicense-Expression: MIT AND CC-BY-4.0 AND CC0-1.0\n" in shown


def test_the_version_is_one():
    citation = (ROOT / "CITATION.cff").read_text()
    assert f"\nversion: {kl.__version__}\n" in citation
    assert f"## {kl.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_no_copyleft_package_is_needed_at_run_time():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    needed = " ".join(
        project["dependencies"]
        + extras["cli"]
        + extras["cluster"]
        + extras["polytope"]
        + extras["serve"]
    )
    assert not {"quadprog", "ecos", "cvxportfolio", "cvxopt"} & set(
        needed.replace(">", " ").split()
    )


def test_the_learner_of_contributing_plays_beside_the_others():
    """A learner of one's own is one class, exactly as CONTRIBUTING.md shows it; repr and file form come with it."""
    from klazy.learners.gd import GDState

    names = {"Descent": kl.types.Descent, "GDState": GDState, "Array": np.ndarray}
    exec((ROOT / "CONTRIBUTING.md").read_text().split("```python\n")[1].split("```")[0], names)
    learner, g = names["Sluggish"](kl.L2Ball(2), 1.0), np.ones((5, 2))
    trace = kl.run(learner, g)
    assert trace.engine == "step"
    np.testing.assert_allclose(trace.x[1], [-(0.5**1.5), -(0.5**1.5)])
    np.testing.assert_array_equal(kl.Agent(learner).update(g[0]), trace.x[1])
    assert kl.types.Learner.from_dict(learner.to_dict()) == learner
    with pytest.raises(
        ValueError, match=r"engine='compiled' does not know Sluggish. Use engine='auto'."
    ):
        kl.run(learner, g, engine="compiled")
