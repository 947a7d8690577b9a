"""The one place that draws: figures of runs and of the paper, made without pyplot and never shown."""

from typing import TYPE_CHECKING

from klazy.plots.compare import Lines, curves, panels, sweep
from klazy.plots.files import write
from klazy.plots.grouped import bars
from klazy.plots.heat import Heat, heat
from klazy.plots.plane import greedy_and_lazy, snapshots
from klazy.plots.runs import certificate, figure, movement, points
from klazy.plots.steps import step
from klazy.plots.style import look
from klazy.plots.timelines import phases, sequence, wave
from klazy.plots.trade import decisions, pareto

if TYPE_CHECKING:
    from klazy.plots.style import Figure

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
