"""Where tests keep agents: a file, and a real PostgreSQL."""

import pytest

from server import Server


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """A real PostgreSQL of the system's packages, in a temporary folder."""
    started = Server(tmp_path_factory.mktemp("postgres"))
    yield started
    started.stop()


@pytest.fixture
def file(tmp_path):
    """Where a store may be made."""
    return tmp_path / "decisions.db"


POSTGRES = pytest.param("postgres", marks=pytest.mark.xdist_group("postgres"))


@pytest.fixture(params=["sqlite", POSTGRES])
def place(request, file):
    """Where a store may be made: a file, or an empty database of a real PostgreSQL."""
    return file if request.param == "sqlite" else request.getfixturevalue("server").clear()
