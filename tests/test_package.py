"""Promises about the package as a whole."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import klazy as kl

ROOT = Path(__file__).parent.parent


def test_importing_loads_no_heavy_library():
    heavy = ("numba", "scipy", "matplotlib", "polars", "daqp")
    script = f"import sys, klazy; print([name for name in {heavy} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout.strip() == "[]"


def test_totals_need_no_memory_that_grows_with_the_horizon():
    """Peak memory beyond the input, in its own process, after a short run has loaded and compiled everything."""
    script = """
import numpy as np, resource, klazy as kl
learner = kl.KLazyGD(kl.L2Ball(5), kl.Sqrt(60), 65)
g = np.random.default_rng(0).normal(size=(400_000, 5))
kl.run(learner, g[:10], record="totals")
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
before = peak()
kl.run(learner, g, record="totals")
print(peak() - before)
"""
    if os.environ.get("NUMBA_DISABLE_JIT") == "1":
        script = script.replace("400_000", "2_000")
    kilobytes = int(subprocess.run([sys.executable, "-c", script], capture_output=True, check=True).stdout)
    assert kilobytes < 2_000  # a single boolean per number of the input would already need 2 MB


def test_every_public_name_has_a_docstring():
    public = [value for name, value in vars(kl).items() if not name.startswith("_") and not hasattr(value, "__path__")]
    assert not [value for value in public if callable(value) and not value.__doc__]


def test_the_version_is_one():
    citation = (ROOT / "CITATION.cff").read_text()
    assert f"\nversion: {kl.__version__}\n" in citation
    assert f"## {kl.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_no_copyleft_package_is_needed_at_run_time():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    needed = " ".join(project["dependencies"] + extras["cli"] + extras["cluster"] + extras["polytope"])
    assert not {"quadprog", "ecos", "cvxportfolio", "cvxopt"} & set(needed.replace(">", " ").split())


def test_a_learner_of_the_users_own_plays_beside_the_others():
    from typing import NamedTuple

    class State(NamedTuple):
        t: int
        x: np.ndarray

    class Stubborn(kl.Learner[State]):
        """Never moves."""

        def init(self):
            return State(1, self.x1)

        def step(self, state, g):
            return state._replace(t=state.t + 1)

    learner, g = Stubborn(kl.L2Ball(2), kl.Constant(1.0)), np.ones((5, 2))
    assert kl.run(learner, g).totals == (0.0, 0.0)
    assert kl.run(learner, g).engine == "step"
    agent = kl.Agent(learner)
    assert agent.update([1.0, 1.0]).tolist() == [0.0, 0.0]
    assert kl.Learner.from_dict(learner.to_dict()) == learner
    with pytest.raises(ValueError, match="with Stubborn"):
        kl.run(learner, g, engine="compiled")
