"""Smoothed online learning: decisions that should hold still, because changing your mind costs something."""

from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from klazy import contrib as contrib
from klazy import costs, families, hindsight, learners, live, movement, schedules, sets
from klazy import memories as memories
from klazy import types as types
from klazy.base.install import import_later as _import_later
from klazy.costs import *
from klazy.families import *
from klazy.game.batch import run_batch
from klazy.game.regret import regret
from klazy.game.run import run, run_many
from klazy.hindsight import *
from klazy.learners import *
from klazy.live import *
from klazy.live.agent import Agent
from klazy.live.fleet import Fleet
from klazy.movement import *
from klazy.schedules import *
from klazy.sets import *

if _TYPE_CHECKING:
    from klazy.serve.client import Client as Client
    from klazy.studies import arena as arena
    from klazy.studies import portfolio as portfolio
    from klazy.studies.replay.report import replay as replay
    from klazy.studies.sweep.execute import load_sweep as load_sweep
    from klazy.studies.sweep.execute import sweep as sweep
    from klazy.studies.sweep.study import Study as Study

__version__ = "0.2.0"

# Each name has one public place: what most people use is here, the rest in the modules of _MODULES. The modules below export
# their names here and only here, so a new learner is named in learners/__init__.py alone.
__all__ = [
    "Agent",
    "Fleet",
    "regret",
    "run",
    "run_batch",
    "run_many",
]
__all__ += costs.__all__
__all__ += families.__all__
__all__ += hindsight.__all__
__all__ += learners.__all__
__all__ += live.__all__
__all__ += movement.__all__
__all__ += schedules.__all__
__all__ += sets.__all__

# These are imported on first use, as they are large or need more packages; ``from klazy import *`` leaves them out.
_LATER = {
    "Client": ("klazy.serve.client:Client", "serve"),
    "Study": ("klazy.studies.sweep.study:Study", "cli"),
    "arena": ("klazy.studies.arena", "cli"),
    "load_sweep": ("klazy.studies.sweep.execute:load_sweep", "cli"),
    "portfolio": ("klazy.studies.portfolio", "cli"),
    "replay": ("klazy.studies.replay.report:replay", "cli"),
    "sweep": ("klazy.studies.sweep.execute:sweep", "cli"),
}


def __getattr__(name: str) -> _Any:
    return _import_later(__name__, name, _LATER)


# Modules whose names are not exported here.
_MODULES = ("contrib", "memories", "sequences", "show", "theory", "types")


def __dir__() -> list[str]:
    """List the public names, without the modules that define them."""
    return sorted({*__all__, *_LATER, *_MODULES, "__version__"})
