"""Every figure that klazy draws: functions take arrays and return a matplotlib figure, made without pyplot and never shown.

Open charts.py for comparisons of learners, runs.py for figures over the rounds, plane.py for pictures in the plane, ranks.py
for contenders over many games, replays.py for replays. style.py has the code that they share.
"""

from typing import TYPE_CHECKING

from klazy.show.charts import (
    Heat,
    Lines,
    draw_bars,
    draw_curves,
    draw_heat,
    draw_lines,
    draw_panels,
)
from klazy.show.plane import draw_greedy_and_lazy, draw_snapshots, draw_step
from klazy.show.ranks import draw_matrix, draw_pareto, draw_ranks, draw_ratios
from klazy.show.replays import draw_cumulative, draw_periods, draw_prices, draw_shares
from klazy.show.runs import (
    draw_certificate,
    draw_decisions,
    draw_experts,
    draw_movement,
    draw_phases,
    draw_points,
    draw_run,
    draw_sequence,
    draw_wave,
)
from klazy.show.style import choose_looks, write_figure

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
    "draw_shares",
    "draw_snapshots",
    "draw_step",
    "draw_wave",
    "write_figure",
]
