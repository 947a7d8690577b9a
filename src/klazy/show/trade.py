"""What contenders pay for deciding and for moving, and what they decide."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from klazy.base.checks import Array
from klazy.show.replays import mark_dates, name_points
from klazy.show.style import (
    COLOURS,
    GREY,
    OTHERS,
    WIDE,
    Looks,
    choose_looks,
    count_columns,
    draw_frame,
    format_label,
    make_sheet,
    make_tiles,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FAR = 4.0  # times the median distance from the cheapest, beyond which a point is left out and said so
TIE = 1e-9  # of the least cost: who pays no more than this above it is no distance away
LINES = 7  # coordinates that are drawn
OPTIMUM = "optimum in hindsight"


def draw_pareto(
    switching: dict[str, float],
    hitting: dict[str, float],
    optimum: tuple[float, float] | None = None,
    looks: Looks | None = None,
    always: Sequence[str] = (),
) -> "Figure":
    """Draw hitting over switching cost of every contender, lines of equal cost, and those on the lower edge joined.

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
    figure = make_sheet(3.2, 0.75 * WIDE)
    ax = figure.subplots()
    looks = dict(looks or choose_looks(switching))
    cost = {name: switching[name] + hitting[name] for name in switching}
    least = min(cost.values())
    apart = [gap for gap in (each - least for each in cost.values()) if gap > TIE * abs(least)]
    far = FAR * np.median(apart) if apart else np.inf
    near = [name for name in cost if cost[name] - least <= far or name in always]
    for name in near:
        ax.plot(switching[name], hitting[name], linestyle="none", markersize=6.0, **looks[name])
    edge = [name for name in near if not any(_beats(switching, hitting, other, name) for other in near)]
    edge.sort(key=lambda name: switching[name])
    ax.plot([switching[n] for n in edge], [hitting[n] for n in edge], color=GREY, linewidth=0.8, zorder=0.0)
    named = {name: (switching[name], hitting[name]) for name in near}
    if optimum is not None:
        ax.plot(*np.transpose([optimum]), "*", color="black", markersize=9.0)
        named[OPTIMUM] = optimum
        looks[OPTIMUM] = {"color": "black"}
    _draw_level(ax, min(near, key=cost.__getitem__), cost)
    ax.set_xlabel("switching", fontsize=8)
    ax.set_ylabel("hitting", fontsize=8)
    if len(near) < len(cost):
        ax.set_title(f"farther away: {', '.join(name for name in cost if name not in near)}", fontsize=7)
    draw_frame(ax)
    name_points(ax, named, looks)
    return figure


def _beats(switching: dict[str, float], hitting: dict[str, float], one: str, other: str) -> bool:
    """Whether one pays less for both."""
    less = switching[one] <= switching[other] and hitting[one] <= hitting[other]
    return less and (switching[one] < switching[other] or hitting[one] < hitting[other])


def _draw_level(ax: "Axes", best: str, cost: dict[str, float]) -> None:
    """The line of all that costs as much as the best."""
    ax.margins(0.1)
    ax.autoscale_view()
    left, right = ax.get_xlim()
    height = ax.get_ylim()
    hitting = [cost[best] - left, cost[best] - right]
    ax.plot([left, right], hitting, ":", color=GREY, linewidth=0.8)
    ax.set_xlim(left, right)
    ax.set_ylim(height)


def draw_decisions(
    rounds: NDArray[Any],
    points: dict[str, Array],
    names: Sequence[str],
    shares: bool,
    demand: Array | None = None,
    xlabel: str = "round",
) -> "Figure":
    """Draw what some contenders decided over the rounds, a panel each.

    Parameters
    ----------
    rounds : array
        The rounds, or dates.
    points : dict of str to array
        The decisions, of shape (T, d), by contender.
    names : sequence of str
        The names of the coordinates.
    shares : bool
        Whether decisions are shares: areas, else lines.
    demand : array, optional
        What the decisions were to meet, drawn behind the lines in paler ones of their colours.
    xlabel : str, optional
        What the axis shows. Default: ``"round"``.

    Returns
    -------
    Figure
        A matplotlib figure.
    """
    figure, grid = make_tiles(len(points), 2.2)
    d = next(iter(points.values())).shape[1]
    sizes = np.sum([np.abs(x).mean(axis=0) for x in points.values()], axis=0)
    shown: list[int] = np.sort(np.argsort(-sizes, kind="stable")[:LINES]).tolist()
    labels = [format_label(names[i]) for i in shown]
    handles: list[Any] = []
    for ax, (title, x) in zip(grid, points.items(), strict=True):
        if shares:
            parts = list(x[:, shown].T)
            if d > LINES:
                parts.append(x.sum(axis=1) - x[:, shown].sum(axis=1))
            colours = [*COLOURS[: len(shown)], OTHERS]
            handles = ax.stackplot(rounds, parts, colors=colours, linewidth=0.0, step="post")
            ax.margins(0.0)
        else:
            style: dict[str, Any] = {"linewidth": 0.8, "drawstyle": "steps-post"}
            if demand is not None:
                for i, colour in zip(shown, COLOURS, strict=False):
                    ax.plot(rounds, demand[:, i], color=colour, alpha=0.35, linewidth=0.5)
            handles = [
                ax.plot(rounds, x[:, i], color=colour, **style)[0]
                for i, colour in zip(shown, COLOURS, strict=False)
            ]
            if ax is not grid[0]:
                ax.sharey(grid[0])
        ax.set_title(title, fontsize=8)
        ax.set_xlabel(xlabel, fontsize=8)
        mark_dates(ax, rounds, few=True)
        draw_frame(ax)
    labels = [*labels, "others"][: len(handles)]
    columns = max(1, min(8, count_columns(figure, labels)))
    figure.legend(handles, labels, loc="outside upper center", ncols=columns, fontsize=7, frameon=False)
    return figure
