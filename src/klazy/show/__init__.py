"""The one place that draws: figures of runs and of the paper, made without pyplot and never shown."""

from typing import TYPE_CHECKING

from klazy.show.compare import Lines, curves, panels, sweep
from klazy.show.files import write
from klazy.show.grouped import bars
from klazy.show.heat import Heat, heat
from klazy.show.plane import greedy_and_lazy, snapshots
from klazy.show.runs import certificate, figure, movement, points
from klazy.show.steps import step
from klazy.show.style import look
from klazy.show.timelines import phases, sequence, wave
from klazy.show.trade import decisions, pareto

if TYPE_CHECKING:
    from klazy.show.style import Figure

__all__ = [
    "Figure",
    "Heat",
    "Lines",
    "bars",
    "certificate",
    "curves",
    "decisions",
    "figure",
    "greedy_and_lazy",
    "heat",
    "look",
    "movement",
    "panels",
    "pareto",
    "phases",
    "points",
    "sequence",
    "snapshots",
    "step",
    "sweep",
    "wave",
    "write",
]
