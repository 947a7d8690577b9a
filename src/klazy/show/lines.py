"""Figures that compare learners by lines: running sums over the rounds, and anything over a parameter."""

from itertools import cycle
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from klazy.base.checks import Array
from klazy.show.style import (
    DPI,
    VEIL,
    Looks,
    choose_looks,
    choose_rounds,
    choose_spots,
    draw_frame,
    draw_legend,
    make_sheet,
    make_tiles,
    set_logarithmic,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ROUNDS = 400  # of a running sum: its bends are wider than a four hundredth of the axis
DENSE = 500  # values of x, about as many as the axis has dots; from there on only extremes are drawn
COLUMNS = 200  # of the axis, in each of which a line keeps its extremes; a band's edges do in half as many
# Points from a mark to its number.
SIDES = np.array([[0.0, -8.5], [0.0, 8.5], [15.0, 0.0], [-15.0, 0.0], [0.0, -16.0]])
NUMBER = np.array([18.0, 7.0])  # points that a number takes up
THOUSANDS = 10_000  # rounds from which they are counted in thousands
LINE: dict[str, Any] = {"linewidth": 1.0, "markersize": 4.0, "markeredgewidth": 0.8}
DASHES = ("--", "-.", ":", (0, (6, 1, 1, 1, 1, 1)))


class Lines(NamedTuple):
    """Lines over ``x``, for :func:`draw_panels`.

    Parameters
    ----------
    x : array
        What they are over.
    lines : dict of str to array
        The lines, by label.
    bands : dict of str to tuple
        Shaded areas, as in :func:`draw_lines`.
    levels : dict of str to float
        Dashed horizontal lines.
    marked : dict of str to tuple
        Points to mark.

    Examples
    --------
    >>> Lines(np.arange(3.0), {"GD": np.ones(3)}, {}, {}, {}).lines["GD"].tolist()
    [1.0, 1.0, 1.0]
    """

    x: Array
    lines: dict[str, Array]
    bands: dict[str, tuple[Array, Array]]
    levels: dict[str, float]
    marked: dict[str, tuple[float, float]]


def draw_curves(running: dict[str, Array], ylabel: str, comparator: Array | None = None) -> "Figure":
    """Draw a running sum for every learner over the rounds; of a long run at most 400 rounds are drawn, the last always.

    Parameters
    ----------
    running : dict of str to array
        The sums of rounds 1 to T, by label.
    ylabel : str
        What they are sums of.
    comparator : array, optional
        One more, in black.

    Returns
    -------
    Figure
        A matplotlib figure.

    Examples
    --------
    >>> draw_curves({"GD": np.arange(5.0)}, "cost so far").axes[0].lines[0].get_ydata()[-1].item()
    4.0
    """
    figure = make_sheet(2.3)
    ax = figure.subplots()
    shown = running if comparator is None else running | {"comparator": comparator}
    looks = choose_looks(shown)
    for i, (label, curve) in enumerate(shown.items()):
        t = choose_rounds(len(curve), ROUNDS)
        y = curve[t - 1]
        marks = choose_spots(t, y, i, len(shown))
        ax.plot(t, y, label=label, markevery=marks, **LINE, **looks[label])
    ax.set_xlabel("round", fontsize=8)
    if max(map(len, shown.values())) >= THOUSANDS:
        ax.xaxis.set_major_formatter(lambda t, _: f"{t / 1000.0:g}")
        ax.set_xlabel(r"round ($\times 10^3$)", fontsize=8)
    ax.set_ylabel(ylabel, fontsize=8)
    ax.margins(x=0.02)
    draw_frame(ax)
    draw_legend(figure, ax)
    return figure


def draw_lines(
    x: Array,
    lines: dict[str, Array],
    xlabel: str,
    ylabel: str,
    *,
    bands: dict[str, tuple[Array, Array]] | None = None,
    levels: dict[str, float] | None = None,
    marked: dict[str, tuple[float, float]] | None = None,
    log: str = "",
) -> "Figure":
    """Draw several lines over one parameter; of many values of x those with the extremes are drawn.

    Parameters
    ----------
    x : array
        The parameter, which ascends.
    lines : dict of str to array
        The lines, by label; NaN leaves a gap.
    xlabel : str
        What the x axis shows.
    ylabel : str
        What the y axis shows.
    bands : dict of str to tuple, optional
        The lower and the upper edge of a shaded area, in the colour of the line with the same label.
    levels : dict of str to float, optional
        Dashed horizontal lines.
    marked : dict of str to tuple, optional
        Points, in the look of the line with the same label and with their x beside them.
    log : str, optional
        The logarithmic axes: ``"x"``, ``"y"`` or ``"xy"``; y is linear near zero if not all is positive. Default: none.

    Returns
    -------
    Figure
        A matplotlib figure.

    Examples
    --------
    >>> draw_lines(np.arange(1.0, 4.0), {"GD": np.ones(3)}, "k", "cost", log="x").axes[0].get_xscale()
    'log'
    """
    return draw_panels({"": Lines(x, lines, bands or {}, levels or {}, marked or {})}, xlabel, ylabel, log)


def draw_panels(parts: dict[str, Lines], xlabel: str, ylabel: str, log: str = "") -> "Figure":
    """Draw several sets of lines, each in a panel of its own; a label looks the same in all.

    Parameters
    ----------
    parts : dict of str to Lines
        The sets of lines, by title.
    xlabel : str
        What the x axes show.
    ylabel : str
        What the y axes show.
    log : str, optional
        The logarithmic axes, as in :func:`draw_lines`. Default: none.

    Returns
    -------
    Figure
        A matplotlib figure.

    Examples
    --------
    >>> lines = Lines(np.arange(3.0), {"GD": np.ones(3)}, {}, {}, {})
    >>> len(draw_panels({"one": lines, "two": lines}, "k", "cost").axes)
    2
    """
    figure, grid = make_tiles(len(parts), 2.4)
    labels = []
    for part in parts.values():
        labels += [*part.lines, *part.bands, *part.levels, *part.marked]
    looks = choose_looks(labels)
    for ax, (title, part) in zip(grid, parts.items(), strict=True):
        _draw_panel(ax, part, looks, log)
        ax.set_title(title, fontsize=7)
        ax.set_xlabel(xlabel, fontsize=8)
        ax.set_ylabel(ylabel, fontsize=8)
        draw_frame(ax)
    draw_legend(figure, *grid)
    return figure


def _draw_panel(ax: "Axes", part: Lines, looks: Looks, log: str) -> None:
    if "x" in log:
        ax.set_xscale("log")
    if "y" in log:
        set_logarithmic(ax, np.concatenate([*part.lines.values(), np.array(list(part.levels.values()))]))
    x = np.asarray(part.x, dtype=np.float64)
    place = np.log(np.where(x > 0.0, x, np.nan)) if "x" in log else x
    _draw_bands(ax, x, place, part.bands, looks)
    _draw_part(ax, x, place, part.lines, looks)
    for (label, level), dash in zip(part.levels.items(), cycle(DASHES), strict=False):
        named = "_nolegend_" if label in part.lines else label
        ax.axhline(level, color=looks[label]["color"], linestyle=dash, linewidth=1.0, label=named)
    _draw_marked(ax, part.marked, looks, set(part.lines))


def _draw_bands(
    ax: "Axes", x: Array, place: Array, bands: dict[str, tuple[Array, Array]], looks: Looks
) -> None:
    for label, (low, high) in bands.items():
        kept = np.union1d(_choose_points(place, low, COLUMNS // 2), _choose_points(place, high, COLUMNS // 2))
        ax.fill_between(x[kept], low[kept], high[kept], color=looks[label]["color"], alpha=0.2, linewidth=0.0)


def _draw_part(ax: "Axes", x: Array, place: Array, lines: dict[str, Array], looks: Looks) -> None:
    for i, (label, line) in enumerate(lines.items()):
        kept = _choose_points(place, line)
        style: dict[str, Any] = LINE | looks[label]
        if len(x) > DENSE:
            style |= {"linewidth": 0.6, "markevery": []}  # on a rough line marks would mislead
        else:
            style["markevery"] = choose_spots(place[kept], line[kept], i, len(lines))
        ax.plot(x[kept], line[kept], label=label, **style)


def _choose_points(place: Array, line: Array, columns: int = COLUMNS) -> NDArray[np.int64]:
    """Which values of a line to draw: the lowest, the highest and a gap, if any, in every column, and both ends."""
    there = np.flatnonzero(np.isfinite(place))
    if len(there) <= DENSE:
        return there
    edges = np.linspace(place[there[0]], place[there[-1]], columns + 1)
    kept = {there[0], there[-1]}
    for column in np.split(there, np.searchsorted(place[there], edges[1:-1])):
        known = column[np.isfinite(line[column])]
        if len(known):
            kept |= {known[line[known].argmin()], known[line[known].argmax()]}
        kept |= set(column[~np.isfinite(line[column])][:1])
    return np.array(sorted(kept))


def _draw_marked(ax: "Axes", marked: dict[str, tuple[float, float]], looks: Looks, named: set[str]) -> None:
    """The marked points, each with its x on a side where no other point or number is, if there is one."""
    ax.margins(y=0.16)  # for a number below the lowest
    ax.autoscale_view()
    taken = [72.0 / DPI * ax.transData.transform(point) for point in marked.values()]
    for (label, point), here in zip(marked.items(), list(taken), strict=True):
        style = looks[label] | {
            "markersize": 6.0,
            "markeredgecolor": "black",
            "markeredgewidth": 0.8,
            "zorder": 5.0,
        }
        shown = "_nolegend_" if label in named else label
        ax.plot(*np.transpose([point]), linestyle="none", label=shown, **style)
        room = [min((np.abs(here + side - other) / NUMBER).max() for other in taken) for side in SIDES]
        if max(room) < 1.0:
            continue
        side = SIDES[int(np.argmax(np.array(room) >= 1.0))]
        taken.append(here + side)
        place: dict[str, Any] = {
            "textcoords": "offset points",
            "ha": "center",
            "va": "center",
            "bbox": VEIL,
            "zorder": 6.0,
        }
        ax.annotate(f"{point[0]:.4g}", point, tuple(side), fontsize=6.5, **place)
