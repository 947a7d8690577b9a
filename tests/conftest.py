"""Where tests keep agents: a file, and a real PostgreSQL."""

import tempfile

import pytest

from server import Pooler, Server


@pytest.fixture(scope="session")
def server():
    """A real PostgreSQL of the system's packages, in a temporary folder: not pytest's, where only its own user may go."""
    with tempfile.TemporaryDirectory(prefix="klazy-") as folder:
        started = Server(folder)
        yield started
        started.stop()


@pytest.fixture
def pgbouncer(server):
    """Start a real PgBouncer in front of the PostgreSQL, in a mode of pooling; the URL of the database behind it."""
    started = []

    def start(mode):
        started.append(Pooler(server, mode))
        return started[-1].url

    yield start
    for pooler in started:
        pooler.stop()


@pytest.fixture
def file(tmp_path):
    """Where a store may be made."""
    return tmp_path / "decisions.db"


POSTGRES = pytest.param("postgres", marks=pytest.mark.xdist_group("postgres"))


@pytest.fixture(params=["sqlite", POSTGRES])
def place(request, file):
    """Where a store may be made: a file, or an empty database of a real PostgreSQL."""
    return file if request.param == "sqlite" else request.getfixturevalue("server").clear()
