"""Settings shared by all tests: reproducible property tests, and klazy's names in every doctest."""

import os

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

import klazy

slow_ok = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile("repeatable", deadline=None, derandomize=True, max_examples=25, suppress_health_check=slow_ok)
settings.register_profile("few", deadline=None, derandomize=True, max_examples=5, suppress_health_check=slow_ok)
settings.register_profile("explore", deadline=None, max_examples=500, suppress_health_check=slow_ok)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Tests on sets of one kind and dimension, or of one cost family, share kernels: one worker compiles them for all."""
    for item in items:
        params = item.callspec.params if hasattr(item, "callspec") else {}
        domain = params.get("domain")
        shared = params.get("name") if domain is None else f"{type(domain).__name__}{domain.dim}"
        if shared is not None:
            item.add_marker(pytest.mark.xdist_group(str(shared)))


@pytest.fixture(autouse=True)
def names_in_doctests(doctest_namespace):
    doctest_namespace.update({name: getattr(klazy, name) for name in dir(klazy) if not name.startswith("_")}, np=np, kl=klazy)
