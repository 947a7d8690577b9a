"""Smoothed online learning: decisions that should hold still, because changing one's mind costs something."""

from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

import klazy.hindsight.lookahead as _lookahead
from klazy import costs, families, hindsight, learners, live, movement, schedules, sets
from klazy.costs import *
from klazy.families import *
from klazy.game.batch import Batch, run_batch
from klazy.game.discrete import WholePoints, sample_actions, sample_whole
from klazy.game.game import Game
from klazy.game.regret import Regret, competitive_ratio, regret
from klazy.game.run import run, run_many
from klazy.game.trace import Totals, Trace
from klazy.hindsight import *
from klazy.hindsight.lookahead import *
from klazy.learners import *
from klazy.live import *
from klazy.live.agent import Agent
from klazy.live.fleet import Fleet
from klazy.movement import *
from klazy.schedules import *
from klazy.sets import *
from klazy.theory import certify, certify_experts

if _TYPE_CHECKING:
    from klazy.serve.client import Client as Client
    from klazy.serve.client import RemoteAgent as RemoteAgent
    from klazy.studies import arena as arena
    from klazy.studies.replay import Report as Report
    from klazy.studies.replay import replay as replay
    from klazy.studies.sweep import Study as Study
    from klazy.studies.sweep import Sweep as Sweep
    from klazy.studies.sweep import load_sweep as load_sweep
    from klazy.studies.sweep import sweep as sweep

__version__ = "0.2.0"

# What a module exports, this package exports too: a new learner is named in learners/__init__.py alone.
__all__ = [
    "Agent",
    "Batch",
    "Fleet",
    "Game",
    "Regret",
    "Totals",
    "Trace",
    "WholePoints",
    "certify",
    "certify_experts",
    "competitive_ratio",
    "regret",
    "run",
    "run_batch",
    "run_many",
    "sample_actions",
    "sample_whole",
]
__all__ += costs.__all__
__all__ += families.__all__
__all__ += hindsight.__all__
__all__ += _lookahead.__all__
__all__ += learners.__all__
__all__ += live.__all__
__all__ += movement.__all__
__all__ += schedules.__all__
__all__ += sets.__all__

# They are imported when they are asked for, as they are large or need more packages; ``from klazy import *`` leaves them out.
_OF_SWEEPS = ("Study", "Sweep", "load_sweep", "sweep")
_OF_REPLAYS = ("Report", "replay")
_OF_SERVICES = ("Client", "RemoteAgent")
_LATER = ("arena", *_OF_REPLAYS, *_OF_SERVICES, *_OF_SWEEPS)


def __getattr__(name: str) -> _Any:
    if name not in _LATER:
        raise AttributeError(f"module 'klazy' has no attribute {name!r}")
    from importlib import import_module

    extra = "serve" if name in _OF_SERVICES else "cli"
    try:
        if name == "arena":
            return import_module("klazy.studies.arena")
        if name in _OF_REPLAYS:
            return getattr(import_module("klazy.studies.replay"), name)
        if name in _OF_SERVICES:
            return getattr(import_module("klazy.serve.client"), name)
        return getattr(import_module("klazy.studies.sweep"), name)
    except ModuleNotFoundError as missing:
        from klazy.base.install import make_missing

        raise make_missing(name, missing.name, extra) from missing


# The modules whose names are not here as well.
_MODULES = ("sequences", "show", "theory")


def __dir__() -> list[str]:
    """What is for users: modules that only hold it, and what they are made of, are left out."""
    return sorted({*__all__, *_LATER, *_MODULES, "__version__"})
