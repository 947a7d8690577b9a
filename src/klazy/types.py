"""Types for annotations, ``isinstance`` and ``except``, and base classes of your own parts.

A set, cost family, movement, schedule, memory or learner of your own derives from the base class of its kind. The other types
are what klazy returns, raises and warns of.
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from klazy.base.install import import_later as _import_later
from klazy.costs import Costs
from klazy.families import Family
from klazy.game.batch import Batch
from klazy.game.discrete import WholePoints
from klazy.game.regret import Regret
from klazy.game.trace import Totals, Trace
from klazy.hindsight.frontier import Frontier
from klazy.hindsight.optimum import GapNotReached, Optimum
from klazy.hindsight.static import BestFixed
from klazy.learners.base import Descent, Learner, State
from klazy.learners.memory import Memory
from klazy.live.state import OtherMachine, Overtaken
from klazy.movement import Movement
from klazy.schedules import Schedule
from klazy.sets.base import ConvexSet
from klazy.sets.compose import NotConverged

if _TYPE_CHECKING:
    from klazy.serve.client import RemoteAgent
    from klazy.studies.replay.report import Report
    from klazy.studies.sweep.execute import Sweep, SweepRuns

# Base classes.
__all__ = ["ConvexSet", "Costs", "Family", "Memory", "Movement", "Schedule"]
__all__ += ["Descent", "Learner", "State"]
# Results.
__all__ += ["Batch", "Regret", "Totals", "Trace", "WholePoints"]
__all__ += ["BestFixed", "Frontier", "Optimum"]
__all__ += ["RemoteAgent", "Report", "Sweep", "SweepRuns"]
# Errors and warnings.
__all__ += ["GapNotReached", "NotConverged", "OtherMachine", "Overtaken"]

_LATER = {
    "RemoteAgent": ("klazy.serve.client:RemoteAgent", "serve"),
    "Report": ("klazy.studies.replay.report:Report", "cli"),
    "Sweep": ("klazy.studies.sweep.execute:Sweep", "cli"),
    "SweepRuns": ("klazy.studies.sweep.execute:SweepRuns", "cli"),
}


def __getattr__(name: str) -> _Any:
    return _import_later(__name__, name, _LATER)


def __dir__() -> list[str]:
    return __all__
