"""Bars in groups, with their values and intervals."""

from collections.abc import Sequence
from itertools import chain, cycle
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from klazy.base.checks import Array
from klazy.show.style import choose_looks, draw_frame, draw_legend, make_sheet, set_logarithmic

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# For those who print in grey; dots would make large files.
HATCHES = ("", "////", "\\\\\\\\", "xxxx", "----", "||||", "++++")
WRITTEN = 12  # bars: the numbers of more would touch
ROOM = 48  # characters along a column
LYING = 6  # bars; the numbers of more stand on end, for a bar is narrower than its number
GROUP = 0.84  # of the axis belongs to bars, the rest to the gaps between groups


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
        Use a logarithmic axis; values that are not positive are shown too, for the axis is linear near zero. Default: False.

    Returns
    -------
    Figure
        A matplotlib figure.

    Examples
    --------
    >>> len(draw_bars({"l2": {"GD": 3.0, "k=5": 2.0}}, "cost").axes[0].patches)
    2
    """
    figure = make_sheet(2.3)
    errors = errors or {}
    count = sum(map(len, groups.values()))
    ax = figure.subplots()
    learners = list(dict.fromkeys(chain(*groups.values())))
    looks = choose_looks(learners)
    if log:
        heights = chain(*(group.values() for group in groups.values()))
        set_logarithmic(ax, np.array(list(heights)))
    angle = 0.0 if count <= LYING else 90.0
    for i, (learner, hatch) in enumerate(zip(learners, cycle(HATCHES), strict=False)):
        shift = ((i + 0.5) / len(learners) - 0.5) * GROUP
        places = []
        values = []
        ends = []
        for at, (name, group) in enumerate(groups.items()):
            if learner in group:
                value = group[learner]
                places.append(at + shift)
                values.append(value)
                ends.append(errors.get(name, {}).get(learner, (value, value)))
        style: dict[str, Any] = {"hatch": hatch, "edgecolor": "white", "linewidth": 0.3}
        width = 0.94 * GROUP / len(learners)
        ax.bar(places, values, width, label=learner, color=looks[learner]["color"], **style)
        _draw_intervals(ax, np.array(places), np.array(ends))
        if count <= WRITTEN:
            _write_values(ax, places, values, ends, angle)
    room = 0.2 if LYING < count <= WRITTEN else 0.12
    ax.margins(y=room)  # for the numbers
    _finish(ax, list(groups), ylabel)
    draw_legend(figure, ax)
    return figure


def _draw_intervals(ax: "Axes", places: Array, ends: Array) -> None:
    """The intervals, from end to end: a value need not lie within its own."""
    known = ends[:, 0] < ends[:, 1]
    if known.any():
        middle = ends[known].mean(axis=1)
        half = np.ptp(ends[known], axis=1) / 2.0
        style: dict[str, Any] = {"fmt": "none", "ecolor": "black", "elinewidth": 0.8, "capsize": 1.5}
        ax.errorbar(places[known], middle, half, **style)


def _write_values(
    ax: "Axes",
    places: Sequence[float],
    values: Sequence[float],
    ends: Sequence[tuple[float, float]],
    angle: float,
) -> None:
    """Each value beyond its bar and its interval, where neither hides it."""
    style: dict[str, Any] = {
        "textcoords": "offset points",
        "fontsize": 6.0,
        "rotation": angle,
        "ha": "center",
    }
    for place, value, (low, high) in zip(places, values, ends, strict=True):
        text = format_short(value)
        if value >= 0.0:
            ax.annotate(text, (place, max(value, high)), (0.0, 1.5), va="bottom", **style)
        else:
            ax.annotate(text, (place, min(value, low)), (0.0, -1.5), va="top", **style)


def format_short(value: float) -> str:
    """Three digits or all before the point, with a true minus; a zero has no sign."""
    text = f"{value:,.0f}" if abs(value) >= 1000.0 else f"{value + 0.0:.3g}"
    return text.replace("-", "\N{MINUS SIGN}")


def _finish(ax: "Axes", groups: list[str], ylabel: str) -> None:
    width = max(7, ROOM // max(1, len(groups)))
    ax.set_xticks(range(len(groups)), [fill(group, width, break_long_words=False) for group in groups])
    ax.set_ylabel(ylabel, fontsize=8)
    draw_frame(ax)
    ax.grid(visible=False, axis="x")
    ax.axhline(0.0, color="black", linewidth=0.6)
