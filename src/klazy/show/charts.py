"""Charts that compare learners: running sums, lines over a parameter, bars, and colours over two parameters."""

from collections.abc import Sequence
from itertools import chain, cycle
from textwrap import fill
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from klazy.base.checks import Array
from klazy.show.style import (
    DPI,
    RED,
    VEIL,
    Looks,
    choose_looks,
    choose_rounds,
    draw_frame,
    draw_legend,
    make_axes,
    make_tiles,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Points of a running sum, which are enough for its bends; and the rounds from which the axis counts thousands.
CURVE_ROUNDS = 400
THOUSANDS = 10_000
# Values of x, about as many as the axis has dots; beyond that only extremes are drawn.
DENSE = 500
# Columns of the axis, in each of which a line has its extremes; half as many are enough for the edges of a band.
PIXEL_COLUMNS = 200
# Markers on a line.
MARKS = 12
LINE_STYLE: dict[str, Any] = {"linewidth": 1.0, "markersize": 4.0, "markeredgewidth": 0.8}
DASHES = ("--", "-.", ":", (0, (6, 1, 1, 1, 1, 1)))
# Points from a mark to its number, side by side in the order of preference, and the points that a number takes up.
NUMBER_SIDES = np.array([[0.0, -8.5], [0.0, 8.5], [15.0, 0.0], [-15.0, 0.0], [0.0, -16.0]])
NUMBER_SIZE = np.array([18.0, 7.0])
# For readers who print in grey; dots would make large files.
HATCHES = ("", "////", "\\\\\\\\", "xxxx", "----", "||||", "++++")
# Numbers are written on at most this many bars, and upright on more than that many: a bar is narrower than its number.
WRITTEN = 12
UPRIGHT = 6
# The share of the axis that bars take (gaps between groups have the rest), and the characters that fit below it.
GROUP_WIDTH = 0.84
LABEL_LETTERS = 48
# Labels on an axis of colours at most, and the ratio of values from which colours are logarithmic.
LABELS = {"x": 5, "y": 8}
DECADE = 10.0


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


def draw_curves(
    running: dict[str, Array], ylabel: str, comparator: Array | None = None
) -> "Figure":
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
    figure, ax = make_axes(2.3)
    shown = running if comparator is None else running | {"comparator": comparator}
    looks = choose_looks(shown)
    for i, (label, curve) in enumerate(shown.items()):
        t = choose_rounds(len(curve), CURVE_ROUNDS)
        y = curve[t - 1]
        marks = _choose_spots(t, y, i, len(shown))
        ax.plot(t, y, label=label, markevery=marks, **LINE_STYLE, **looks[label])
    xlabel = "round"
    if max(map(len, shown.values())) >= THOUSANDS:
        ax.xaxis.set_major_formatter(lambda t, _: f"{t / 1000.0:g}")
        xlabel = r"round ($\times 10^3$)"
    ax.margins(x=0.02)
    draw_frame(ax, xlabel, ylabel)
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
        Points, in the look of the line with the same label and with their x next to them.
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
    return draw_panels(
        {"": Lines(x, lines, bands or {}, levels or {}, marked or {})}, xlabel, ylabel, log
    )


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
    labels = chain(
        *(chain(part.lines, part.bands, part.levels, part.marked) for part in parts.values())
    )
    looks = choose_looks(labels)
    for ax, (title, part) in zip(grid, parts.items(), strict=True):
        _draw_panel(ax, part, looks, log)
        ax.set_title(title, fontsize=7)
        draw_frame(ax, xlabel, ylabel)
    draw_legend(figure, *grid)
    return figure


def _draw_panel(ax: "Axes", part: Lines, looks: Looks, log: str) -> None:
    if "x" in log:
        ax.set_xscale("log")
    if "y" in log:
        _set_logarithmic(ax, [*chain(*part.lines.values()), *part.levels.values()])
    x = np.asarray(part.x, dtype=np.float64)
    place = np.log(np.where(x > 0.0, x, np.nan)) if "x" in log else x
    for label, (low, high) in part.bands.items():
        edges = [_choose_points(place, edge, PIXEL_COLUMNS // 2) for edge in (low, high)]
        shown = np.union1d(*edges)
        colour = looks[label]["color"]
        ax.fill_between(x[shown], low[shown], high[shown], color=colour, alpha=0.2, linewidth=0.0)
    for i, (label, line) in enumerate(part.lines.items()):
        shown = _choose_points(place, line)
        style: dict[str, Any] = LINE_STYLE | looks[label]
        if len(x) > DENSE:
            # On a rough line markers would mislead.
            style |= {"linewidth": 0.6, "markevery": []}
        else:
            style["markevery"] = _choose_spots(place[shown], line[shown], i, len(part.lines))
        ax.plot(x[shown], line[shown], label=label, **style)
    for (label, level), dash in zip(part.levels.items(), cycle(DASHES), strict=False):
        name = "_nolegend_" if label in part.lines else label
        ax.axhline(level, color=looks[label]["color"], linestyle=dash, linewidth=1.0, label=name)
    _draw_marked(ax, part, looks)


def _choose_spots(x: NDArray[Any], y: Array, line: int, lines: int) -> list[int]:
    """Choose where a line has its markers: evenly along ``x``, next to those of the other lines; on all points, if few."""
    there = np.flatnonzero(np.isfinite(x) & np.isfinite(y))
    if len(there) <= MARKS:
        return there.tolist()
    places = (
        x[there[0]]
        + (x[there[-1]] - x[there[0]]) * (np.arange(MARKS) + (line + 0.5) / lines) / MARKS
    )
    return np.unique(there[np.searchsorted(x[there], places).clip(max=len(there) - 1)]).tolist()


def _choose_points(place: Array, line: Array, columns: int = PIXEL_COLUMNS) -> NDArray[np.int64]:
    """Choose the values of a line to draw: the lowest, the highest and a gap, if any, in every column, and both ends."""
    there = np.flatnonzero(np.isfinite(place))
    if len(there) <= DENSE:
        return there
    edges = np.linspace(place[there[0]], place[there[-1]], columns + 1)
    shown = {there[0], there[-1]}
    for column in np.split(there, np.searchsorted(place[there], edges[1:-1])):
        known = column[np.isfinite(line[column])]
        if len(known):
            shown |= {known[line[known].argmin()], known[line[known].argmax()]}
        shown |= set(column[~np.isfinite(line[column])][:1])
    return np.array(sorted(shown))


def _set_logarithmic(ax: "Axes", values: Sequence[float]) -> None:
    """Make the y axis logarithmic; if not all values are positive, linear about zero and at most three decades above."""
    known = np.array(values)[np.isfinite(values)]
    if (known > 0.0).all():
        ax.set_yscale("log")
        return
    sizes = np.abs(known[known != 0.0])
    least = max(sizes.min(), sizes.max() / 1000.0) if len(sizes) else 1.0
    # A power of ten, so that a tick is there.
    ax.set_yscale("symlog", linthresh=10.0 ** np.ceil(np.log10(least)))


def _draw_marked(ax: "Axes", part: Lines, looks: Looks) -> None:
    """Draw the marked points, each with its x on the first side where no other point or number is."""
    # Leave room for a number below the lowest point.
    ax.margins(y=0.16)
    ax.autoscale_view()
    taken = [72.0 / DPI * ax.transData.transform(point) for point in part.marked.values()]
    mark = {"markersize": 6.0, "markeredgecolor": "black", "markeredgewidth": 0.8}
    text = {"textcoords": "offset points", "ha": "center", "va": "center", "bbox": VEIL}
    for (label, point), here in zip(part.marked.items(), list(taken), strict=True):
        name = "_nolegend_" if label in part.lines else label
        ax.plot(
            *np.transpose([point]),
            linestyle="none",
            label=name,
            zorder=5.0,
            **looks[label],
            **mark,
        )
        gaps = np.abs(here + NUMBER_SIDES[:, None] - np.array(taken)) / NUMBER_SIZE
        free = NUMBER_SIDES[gaps.max(axis=2).min(axis=1) >= 1.0]
        if len(free):
            taken.append(here + free[0])
            ax.annotate(
                f"{point[0]:.4g}", point, tuple(free[0]), fontsize=6.5, zorder=6.0, **text
            )


def draw_bars(
    groups: dict[str, dict[str, float]],
    ylabel: str,
    errors: dict[str, dict[str, tuple[float, float]]] | None = None,
    log: bool = False,
) -> "Figure":
    """Draw bars in groups, the groups along the axis, the learners in the legend; up to twelve bars carry their value.

    Parameters
    ----------
    groups : dict of str to dict
        ``groups[group][learner]``, the heights.
    ylabel : str
        What the axis shows.
    errors : dict of str to dict, optional
        The lower and the upper end of an interval, not distances, under the same keys; a bar may be without.
    log : bool, optional
        Use a logarithmic axis. It is linear near zero, so that values that are not positive are shown too. Default: False.

    Returns
    -------
    Figure
        A matplotlib figure.

    Examples
    --------
    >>> len(draw_bars({"l2": {"GD": 3.0, "k=5": 2.0}}, "cost").axes[0].patches)
    2
    """
    figure, ax = make_axes(2.3)
    learners = list(dict.fromkeys(chain(*groups.values())))
    looks = choose_looks(learners)
    heights = list(chain(*(group.values() for group in groups.values())))
    if log:
        _set_logarithmic(ax, heights)
    for i, (learner, hatch) in enumerate(zip(learners, cycle(HATCHES), strict=False)):
        shift = ((i + 0.5) / len(learners) - 0.5) * GROUP_WIDTH
        bars = []
        for at, (name, group) in enumerate(groups.items()):
            if learner in group:
                value = group[learner]
                low, high = (errors or {}).get(name, {}).get(learner, (value, value))
                bars.append((at + shift, value, low, high))
        places, values, low, high = np.transpose(bars)
        style = {"hatch": hatch, "edgecolor": "white", "linewidth": 0.3}
        width = 0.94 * GROUP_WIDTH / len(learners)
        ax.bar(places, values, width, label=learner, color=looks[learner]["color"], **style)
        known = low < high
        if known.any():
            # A value may lie outside its interval, so these are drawn from end to end.
            style = {"fmt": "none", "ecolor": "black", "elinewidth": 0.8, "capsize": 1.5}
            ax.errorbar(
                places[known], ((low + high) / 2.0)[known], ((high - low) / 2.0)[known], **style
            )
        if len(heights) <= WRITTEN:
            _write_values(ax, bars, 90.0 if len(heights) > UPRIGHT else 0.0)
    # Room for the numbers.
    ax.margins(y=0.2 if UPRIGHT < len(heights) <= WRITTEN else 0.12)
    width = max(7, LABEL_LETTERS // max(1, len(groups)))
    ax.set_xticks(
        range(len(groups)), [fill(group, width, break_long_words=False) for group in groups]
    )
    draw_frame(ax, ylabel=ylabel)
    ax.grid(visible=False, axis="x")
    ax.axhline(0.0, color="black", linewidth=0.6)
    draw_legend(figure, ax)
    return figure


def _write_values(ax: "Axes", bars: Sequence[tuple[float, ...]], angle: float) -> None:
    """Write each value beyond its bar and its interval, where neither hides it: three digits, or all before the point."""
    style = {"textcoords": "offset points", "fontsize": 6.0, "rotation": angle}
    for place, value, low, high in bars:
        # Adding zero removes the sign of a negative zero.
        text = f"{value:,.0f}" if abs(value) >= 1000.0 else f"{value + 0.0:.3g}"
        text = text.replace("-", "\N{MINUS SIGN}")
        if value >= 0.0:
            ax.annotate(
                text, (place, max(value, high)), (0.0, 1.5), ha="center", va="bottom", **style
            )
        else:
            ax.annotate(
                text, (place, min(value, low)), (0.0, -1.5), ha="center", va="top", **style
            )


class Heat(NamedTuple):
    """A grid of numbers, for :func:`draw_heat`.

    Parameters
    ----------
    x : sequence of float
        The values along the x axis.
    y : sequence of float
        The values along the y axis.
    values : array
        The numbers, of shape (len(y), len(x)), NaN where there are none.
    marked : sequence of tuple, optional
        Cells to mark, by row and column.

    Examples
    --------
    >>> Heat([1.0, 2.0], [10.0], np.array([[3.0, 4.0]])).values.shape
    (1, 2)
    """

    x: Sequence[float]
    y: Sequence[float]
    values: Array
    marked: Sequence[tuple[int, int]] = ()


def draw_heat(parts: dict[str, Heat], xlabel: str, ylabel: str, label: str) -> "Figure":
    """Draw heat maps, the lower the brighter, in cells of one size. Marked cells have a ring, one alone also its value.

    Parameters
    ----------
    parts : dict of str to Heat
        The maps, by title.
    xlabel : str
        What the x axis shows.
    ylabel : str
        What the y axis shows.
    label : str
        What the colours show.

    Returns
    -------
    Figure
        A matplotlib figure.

    Examples
    --------
    >>> heat = Heat([1.0, 2.0], [10.0], np.array([[3.0, 4.0]]))
    >>> draw_heat({"cost": heat}, "k", "sigma", "cost").axes[0].get_xlabel()
    'k'
    """
    figure, grid = make_tiles(len(parts), 2.6)
    for ax, (title, part) in zip(grid, parts.items(), strict=True):
        known = part.values[np.isfinite(part.values)]
        wide = len(known) and known.min() > 0.0 and known.max() > DECADE * known.min()
        norm = "log" if wide else "linear"
        many = part.values.size > 2000
        mesh = ax.pcolormesh(part.values, cmap="viridis_r", norm=norm, rasterized=many)
        bar = figure.colorbar(mesh, ax=ax)
        bar.set_label(label, fontsize=7)
        bar.ax.tick_params(which="both", labelsize=6)
        for axis, values in (("x", part.x), ("y", part.y)):
            # A value is below the middle of its cell.
            shown = range(0, len(values), -(-len(values) // LABELS[axis]))
            texts = [_format_number(values[i]) for i in shown]
            getattr(ax, f"set_{axis}ticks")([i + 0.5 for i in shown], texts)
        ax.tick_params(labelsize=7)
        ax.set_xlabel(xlabel, fontsize=8)
        ax.set_ylabel(ylabel, fontsize=8)
        one = len(part.marked) == 1
        for row, column in part.marked:
            ring = {"markerfacecolor": "none", "markeredgecolor": RED, "markeredgewidth": 1.2}
            size = 7.0 if one else 4.0
            ax.plot(column + 0.5, row + 0.5, "o", markersize=size, clip_on=False, **ring)
            if one:
                cell = (part.values[row, column], part.x[column], part.y[row])
                title += "\nbest: {} at {}, {}".format(*map(_format_number, cell))
        ax.set_title(title.strip(), fontsize=7)
    return figure


def _format_number(value: float) -> str:
    return f"{value:.0f}" if 1000.0 <= abs(value) < 1e9 or value % 1.0 == 0.0 else f"{value:.3g}"
