"""Settings shared by all tests: reproducible property tests, and klazy's names in every doctest."""

import gc
import os
import shutil
import signal

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

import klazy
from klazy.kernels.codes import constant_dim

# What `make docs` generates: scripts that would run when they are collected.
collect_ignore = ["docs/api", "docs/gallery"]

os.environ.setdefault(
    "NUMBA_ENABLE_CUDASIM", "1"
)  # before Numba is loaded: runs on a GPU are tested without one

# A compiler makes millions of objects that live on; to look for garbage among them after every 700 takes a tenth of its time.
gc.set_threshold(100_000, 20, 20)

# A script that starts the tests with & leaves Ctrl-C ignored, here and in every process that a test starts.
signal.signal(signal.SIGINT, signal.default_int_handler)

slow_ok = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile(
    "repeatable", deadline=None, derandomize=True, max_examples=8, suppress_health_check=slow_ok
)
settings.register_profile(
    "few", deadline=None, derandomize=True, max_examples=5, suppress_health_check=slow_ok
)
settings.register_profile(
    "explore", deadline=None, max_examples=500, suppress_health_check=slow_ok
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Examples that share kernels go to one worker, which compiles them for all: those on sets of one kind and dimension, else
    those of one test."""
    for item in items:
        if hasattr(item, "callspec") and item.get_closest_marker("xdist_group") is None:
            domain = item.callspec.params.get("domain")
            item.add_marker(
                pytest.mark.xdist_group(
                    item.originalname if domain is None else kernels_of(domain)
                )
            )


def kernels_of(domain):
    """A name for the kernels on this set: beyond small dimensions one serves all dimensions."""
    return f"{type(domain).__name__}{constant_dim(domain.dim)}"


@pytest.fixture(scope="module")
def browser():
    """The system's Chromium, in which pages are looked at."""
    from playwright.sync_api import sync_playwright

    found = shutil.which("chromium")
    assert found, "pages are looked at in Chromium; `make browser` installs it"
    with (
        sync_playwright() as play,
        play.chromium.launch(executable_path=found, args=["--no-sandbox"]) as chromium,
    ):
        yield chromium


@pytest.fixture(autouse=True)
def names_in_doctests(doctest_namespace):
    doctest_namespace.update(np=np, kl=klazy)
    for place in (klazy.contrib, klazy.memories, klazy.theory, klazy.types, klazy):
        doctest_namespace.update(
            {name: getattr(place, name) for name in dir(place) if not name.startswith("_")}
        )
