"""Many contenders over many games: ratios with intervals, average ranks, everything at once as colours, and both costs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from klazy.base.checks import Array
from klazy.show.style import BLUE, GREY, RED, WIDE, Looks, choose_looks, draw_frame, make_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Inches of a name in a list.
NAME_HEIGHT = 0.21
# Round ratios to have ticks at, and the ratio with the darkest colour, as a power of two.
RATIO_TICKS = (0.25, 0.5, 0.7, 1.0, 1.4, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0)
DARKEST = 4.0
# A point is left out, and named in the title, if it is this many times the median distance from the cheapest.
FARTHER = 4.0
# Who pays no more than this share above the least cost ties with it.
TIED_SHARE = 1e-9
OPTIMUM = "optimum in hindsight"
# Names in a column of the legend.
LEGEND_ROWS = 18


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
    figure, ax = make_axes(0.9 + NAME_HEIGHT * len(ratios), 0.75 * WIDE)
    for place, (name, (mean, low, high)) in enumerate(ratios.items()):
        colour = RED if name in marked else BLUE
        ax.plot([low, high], [place, place], color=colour, linewidth=1.2)
        ax.plot(mean, place, "o", color=colour, markersize=4.0)
    ax.axvline(1.0, color=GREY, linewidth=0.8)
    ax.set_xscale("log")
    low, high = ax.get_xlim()
    ticks = [tick for tick in RATIO_TICKS if low <= tick <= high]
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.set_xticks([], minor=True)
    ax.set_yticks(range(len(ratios)), list(ratios))
    ax.set_ylim(len(ratios) - 0.5, -0.5)
    draw_frame(ax, label)
    return figure


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
    figure, ax = make_axes(0.8 + NAME_HEIGHT * (half + len(bars) / 2.0 + 1.0), WIDE)
    low = 1.0
    high = float(len(names))
    ax.plot([low, high], [0.0, 0.0], color="black", linewidth=1.0)
    for tick in range(1, len(names) + 1):
        ax.plot([tick, tick], [0.0, 0.12], color="black", linewidth=0.8)
        ax.text(tick, 0.3, str(tick), ha="center", va="bottom", fontsize=7)
    below = 0.35 + 0.45 * len(bars)
    for place, name in enumerate(names):
        row, end, side = place, low - 0.15, "right"
        if place >= half:
            row, end, side = len(names) - 1 - place, high + 0.15, "left"
        down = -(below + 0.9 * row + 0.5)
        ax.plot([ranks[name], ranks[name], end], [0.0, down, down], color=GREY, linewidth=0.8)
        ax.text(end, down, f" {name} ({ranks[name]:.2f}) ", ha=side, va="center", fontsize=7)
    thick = {"color": RED, "linewidth": 2.5, "solid_capstyle": "butt"}
    for level, (first, last) in enumerate(bars):
        height = -0.35 - 0.45 * level
        ax.plot([first - 0.04, last + 0.04], [height, height], **thick)
    ax.plot([low, low + difference], [1.5, 1.5], **thick)
    ax.text(
        low + difference, 1.5, f"  critical difference {difference:.2f}", va="center", fontsize=7
    )
    room = 0.42 * (high - low)
    ax.set(xlim=(low - room, high + room), ylim=(-(below + 0.9 * half + 0.4), 2.1))
    ax.set_axis_off()
    return figure


def _list_cliques(ranks: list[float], difference: float) -> list[tuple[float, float]]:
    """List the widest ranges of sorted ranks that differ by less than the difference, two or more at a time."""
    found: list[tuple[float, float]] = []
    for i, first in enumerate(ranks):
        last = [rank for rank in ranks[i:] if rank - first < difference][-1]
        contained = bool(found) and last <= found[-1][1]
        if last > first and not contained:
            found.append((first, last))
    return found


def draw_matrix(
    values: Array, columns: Sequence[str], groups: Sequence[str], label: str
) -> "Figure":
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
    height = max(2.6, min(9.0, 0.025 * len(groups)), 0.9 + 0.8 * NAME_HEIGHT * len(starts))
    figure, ax = make_axes(height, WIDE)
    colours = {"cmap": "RdBu_r", "vmin": -DARKEST, "vmax": DARKEST}
    mesh = ax.pcolormesh(
        np.log2(values).clip(-DARKEST, DARKEST), rasterized=values.size > 2000, **colours
    )
    ends = [*starts[1:], len(groups)]
    ax.set_yticks(
        [(a + b) / 2.0 for a, b in zip(starts, ends, strict=True)], [groups[at] for at in starts]
    )
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


def draw_pareto(
    switching: dict[str, float],
    hitting: dict[str, float],
    optimum: tuple[float, float] | None = None,
    looks: Looks | None = None,
    always: Sequence[str] = (),
) -> "Figure":
    """Draw operating cost over switching cost of every contender, lines of equal cost, and those on the lower edge joined.

    The legend begins with the contender that paid least.

    Parameters
    ----------
    switching : dict of str to float
        Switching, by contender.
    hitting : dict of str to float
        Hitting, by contender.
    optimum : tuple of float, optional
        Switching and hitting of the optimum.
    looks : dict, optional
        The colour of each name. Default: chosen here.
    always : sequence of str, optional
        Who is drawn even if far from all others.

    Returns
    -------
    Figure
        A matplotlib figure.

    Examples
    --------
    >>> len(draw_pareto({"GD": 2.0, "auto": 1.0}, {"GD": 3.0, "auto": 4.0}).axes)
    1
    """
    figure, ax = make_axes(3.2, 0.75 * WIDE)
    looks = looks or choose_looks(switching)
    cost = {name: switching[name] + hitting[name] for name in switching}
    least = min(cost.values())
    apart = [each - least for each in cost.values() if each - least > TIED_SHARE * abs(least)]
    far = FARTHER * np.median(apart) if apart else np.inf
    shown = [name for name in cost if cost[name] - least <= far or name in always]
    near = {name: (switching[name], hitting[name]) for name in shown}
    for name in sorted(near, key=cost.__getitem__):
        ax.plot(*near[name], linestyle="none", markersize=6.0, label=name, **looks[name])
    edge: list[tuple[float, float]] = []
    for point in sorted(near.values()):
        if not edge or point[1] < edge[-1][1]:
            edge.append(point)
    ax.plot(*np.transpose(edge), color=GREY, linewidth=0.8, zorder=0.0)
    if optimum is not None:
        ax.plot(*optimum, "*", color="black", markersize=9.0, label=OPTIMUM)
    _draw_level(ax, least)
    if len(near) < len(cost):
        ax.set_title(
            f"farther away: {', '.join(name for name in cost if name not in near)}", fontsize=7
        )
    draw_frame(ax, "switching cost", "operating cost")
    columns = -(-len(near) // LEGEND_ROWS)
    ax.legend(
        fontsize=7, frameon=False, loc="upper left", bbox_to_anchor=(1.02, 1.03), ncols=columns
    )
    return figure


def _draw_level(ax: "Axes", cost: float) -> None:
    """Draw the line of everything that costs this much."""
    ax.margins(0.1)
    ax.autoscale_view()
    width, height = ax.get_xlim(), ax.get_ylim()
    ax.plot(width, [cost - width[0], cost - width[1]], ":", color=GREY, linewidth=0.8)
    ax.set(xlim=width, ylim=height)
