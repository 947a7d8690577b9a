"""Where tests keep agents, a file or a real PostgreSQL, and replays that are quick."""

import tempfile
from functools import partial

import numpy as np
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


@pytest.fixture
def only(monkeypatch):
    """Choose the contenders of replays that play: those that a report needs, and those that a test names."""
    from klazy.studies.contenders import REPLAY, list_contenders

    def choose(*names):
        names = {"fixed", "GD", "k-lazyGD", *names}
        chosen = [each for each in list_contenders(REPLAY) if each.name in names]
        assert {each.name for each in chosen} == names
        monkeypatch.setattr("klazy.studies.replay.scoring.list_contenders", lambda study: chosen)

    return choose


@pytest.fixture
def few(only, monkeypatch):
    """Few contenders with few candidates."""
    from klazy.studies.contenders import Counts

    only("auto", "forecast")
    monkeypatch.setattr("klazy.studies.replay.scoring.REPLAY_COUNTS", Counts(2, 2, 1))


@pytest.fixture
def by_step(monkeypatch):
    """Learners as plain NumPy, and few candidates: kernels would take longer to compile than they save."""
    import klazy as kl
    from klazy.studies.contenders import Counts

    monkeypatch.setattr("klazy.studies.replay.scoring.REPLAY_COUNTS", Counts(4, 2, 2))

    def run(learner, costs, **options):
        return kl.run(learner, costs, engine="step", **options)

    def run_batch(learners, costs, movement):
        paid = [run(learner, costs, movement=movement).totals for learner in learners]
        hitting, switching = np.transpose(paid)
        return kl.types.Batch(hitting, switching, np.zeros(0), np.zeros(0), "runs")

    monkeypatch.setattr("klazy.studies.replay.scoring.run", run)
    monkeypatch.setattr("klazy.studies.replay.scoring.run_batch", run_batch)
    for module in ("scoring", "report"):
        monkeypatch.setattr(
            f"klazy.studies.replay.{module}.Agent", partial(kl.Agent, engine="step")
        )
