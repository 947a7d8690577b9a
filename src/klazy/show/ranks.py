"""Many contenders over many games: ratios with intervals, average ranks, and everything at once as colours."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from klazy.base.checks import Array
from klazy.show.style import BLUE, GREY, RED, WIDE, draw_frame, make_sheet

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LINE = 0.21  # inches of a name in a list
TOP = 16.0  # the ratio with the darkest colour


def draw_ratios(
    ratios: dict[str, tuple[float, float, float]], label: str, marked: Sequence[str] = ()
) -> "Figure":
    """Draw a mean and its interval for each contender, on a logarithmic axis with a line at one.

    Parameters
    ----------
    ratios : dict of str to tuple
        Mean, lower and upper end, by contender.
    label : str
        What the axis shows.
    marked : sequence of str, optional
        Contenders to show in red.

    Returns
    -------
    Figure
        A matplotlib figure.
    """
    figure = make_sheet(0.9 + LINE * len(ratios), 0.75 * WIDE)
    ax = figure.subplots()
    for place, (name, (mean, low, high)) in enumerate(ratios.items()):
        colour = RED if name in marked else BLUE
        ax.plot([low, high], [place, place], color=colour, linewidth=1.2)
        ax.plot(mean, place, "o", color=colour, markersize=4.0)
    ax.axvline(1.0, color=GREY, linewidth=0.8)
    ax.set_xscale("log")
    _label_ratios(ax)
    ax.set_yticks(range(len(ratios)), list(ratios))
    ax.invert_yaxis()
    ax.set_xlabel(label, fontsize=8)
    draw_frame(ax)
    return figure


def _label_ratios(ax: "Axes") -> None:
    """Ticks at round ratios that the axis has room for, as plain numbers."""
    low, high = ax.get_xlim()
    ticks = [
        tick for tick in (0.25, 0.5, 0.7, 1.0, 1.4, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0) if low <= tick <= high
    ]
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.set_xticks([], minor=True)


def draw_ranks(ranks: dict[str, float], difference: float) -> "Figure":
    """Draw average ranks, the best at the left, with bars over those that differ by less than the critical difference.

    Parameters
    ----------
    ranks : dict of str to float
        The average ranks, by contender.
    difference : float
        The critical difference.

    Returns
    -------
    Figure
        A matplotlib figure.

    Examples
    --------
    >>> len(draw_ranks({"GD": 2.0, "auto": 1.0}, 0.5).axes)
    1
    """
    names = sorted(ranks, key=ranks.__getitem__)
    bars = _list_cliques([ranks[name] for name in names], difference)
    half = (len(names) + 1) // 2
    figure = make_sheet(0.8 + LINE * (half + len(bars) / 2.0 + 1.0), WIDE)
    ax = figure.subplots()
    low = 1.0
    high = float(len(names))
    ax.plot([low, high], [0.0, 0.0], color="black", linewidth=1.0)
    for tick in range(1, len(names) + 1):
        ax.plot([tick, tick], [0.0, 0.12], color="black", linewidth=0.8)
        ax.text(tick, 0.3, str(tick), ha="center", va="bottom", fontsize=7)
    below = 0.35 + 0.45 * len(bars)
    for place, name in enumerate(names):
        left = place < half
        down = -(below + 0.9 * (place if left else len(names) - 1 - place) + 0.5)
        end = low - 0.15 if left else high + 0.15
        ax.plot([ranks[name], ranks[name], end], [0.0, down, down], color=GREY, linewidth=0.8)
        side = "right" if left else "left"
        ax.text(end, down, f" {name} ({ranks[name]:.2f}) ", ha=side, va="center", fontsize=7)
    for level, (first, last) in enumerate(bars):
        height = -0.35 - 0.45 * level
        ax.plot(
            [first - 0.04, last + 0.04], [height, height], color=RED, linewidth=2.5, solid_capstyle="butt"
        )
    ax.plot([low, low + difference], [1.5, 1.5], color=RED, linewidth=2.5, solid_capstyle="butt")
    ax.text(low + difference, 1.5, f"  critical difference {difference:.2f}", va="center", fontsize=7)
    room = 0.42 * (high - low)
    ax.set_xlim(low - room, high + room)
    ax.set_ylim(-(below + 0.9 * half + 0.4), 2.1)
    ax.set_axis_off()
    return figure


def _list_cliques(ranks: list[float], difference: float) -> list[tuple[float, float]]:
    """The widest stretches of sorted ranks that differ by less than the difference, two or more at a time."""
    found: list[tuple[float, float]] = []
    for i, first in enumerate(ranks):
        last = [rank for rank in ranks[i:] if rank - first < difference][-1]
        contained = bool(found) and last <= found[-1][1]
        if last > first and not contained:
            found.append((first, last))
    return found


def draw_matrix(values: Array, columns: Sequence[str], groups: Sequence[str], label: str) -> "Figure":
    """Draw ratios as colours, blue below one and red above; neighbours of one group share a name.

    Parameters
    ----------
    values : array
        The ratios, of shape (rows, columns).
    columns : sequence of str
        The names of the columns.
    groups : sequence of str
        The group of each row.
    label : str
        What the colours show.

    Returns
    -------
    Figure
        A matplotlib figure.
    """
    starts = [at for at, group in enumerate(groups) if at == 0 or group != groups[at - 1]]
    height = max(2.6, min(9.0, 0.025 * len(groups)), 0.9 + 0.8 * LINE * len(starts))
    figure = make_sheet(height, WIDE)
    ax = figure.subplots()
    top = np.log2(TOP)
    mesh = ax.pcolormesh(
        np.log2(values).clip(-top, top), cmap="RdBu_r", vmin=-top, vmax=top, rasterized=values.size > 2000
    )
    ends = [*starts[1:], len(groups)]
    ax.set_yticks([(a + b) / 2.0 for a, b in zip(starts, ends, strict=True)], [groups[at] for at in starts])
    for start in starts[1:]:
        ax.axhline(start, color="black", linewidth=0.4)
    ax.set_xticks(np.arange(len(columns)) + 0.5, columns, rotation=45.0, ha="right")
    ax.invert_yaxis()
    ax.tick_params(labelsize=7, length=2.0)
    bar = figure.colorbar(mesh, ax=ax, pad=0.01, fraction=0.04)
    ticks = [-4.0, -2.0, 0.0, 2.0, 4.0]
    bar.set_ticks(ticks, labels=[f"{2.0**tick:g}" for tick in ticks])
    bar.ax.tick_params(labelsize=6)
    bar.set_label(label, fontsize=7)
    return figure
