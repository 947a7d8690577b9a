"""What several torture tests need."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def faults(tmp_path_factory):
    """The environment of a process in which calls of the system can be made to fail, by tests/faults.c."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("needs a C compiler and LD_PRELOAD")
    library = tmp_path_factory.mktemp("faults") / "faults.so"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-o", library, TESTS / "faults.c", "-ldl"], check=True
    )
    return {"LD_PRELOAD": str(library)}
