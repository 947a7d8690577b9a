"""The one place that draws: figures of runs and of the paper, made without pyplot and never shown."""

from typing import TYPE_CHECKING

from klazy.show.bars import draw_bars
from klazy.show.export import write_figure
from klazy.show.heat import Heat, draw_heat
from klazy.show.lines import Lines, draw_curves, draw_lines, draw_panels
from klazy.show.plane import draw_greedy_and_lazy, draw_snapshots
from klazy.show.ranks import draw_matrix, draw_ranks, draw_ratios
from klazy.show.replays import draw_cumulative, draw_periods, draw_prices
from klazy.show.runs import draw_certificate, draw_movement, draw_points, draw_run
from klazy.show.steps import draw_step
from klazy.show.style import choose_looks
from klazy.show.timelines import draw_experts, draw_phases, draw_sequence, draw_wave
from klazy.show.trade import draw_decisions, draw_pareto

if TYPE_CHECKING:  # a name for type checkers only
    from klazy.show.style import Figure as Figure

__all__ = [
    "Heat",
    "Lines",
    "choose_looks",
    "draw_bars",
    "draw_certificate",
    "draw_cumulative",
    "draw_curves",
    "draw_decisions",
    "draw_experts",
    "draw_greedy_and_lazy",
    "draw_heat",
    "draw_lines",
    "draw_matrix",
    "draw_movement",
    "draw_panels",
    "draw_pareto",
    "draw_periods",
    "draw_phases",
    "draw_points",
    "draw_prices",
    "draw_ranks",
    "draw_ratios",
    "draw_run",
    "draw_sequence",
    "draw_snapshots",
    "draw_step",
    "draw_wave",
    "write_figure",
]
