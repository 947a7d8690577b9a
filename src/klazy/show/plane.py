"""Pictures in the plane: where learners went in their last rounds, and why laziness moves less."""

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from klazy.base.checks import Array
from klazy.show.marks import draw_arrows, draw_sketch, write_names
from klazy.show.style import BLUE, GREEN, GREY, ORANGE, PALE, ROW, WIDE, WIDTH, choose_looks, make_sheet

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SHORTEST = 0.12  # inches: a shorter arrow would be all head
FLATTEST = 0.62  # height over width of a window
ARROW: dict[str, Any] = {
    "arrowstyle": "-|>",
    "mutation_scale": 7.0,
    "linewidth": 0.9,
    "shrinkA": 3.0,
    "shrinkB": 3.0,
}


def draw_snapshots(outline: Array, points: dict[str, Array]) -> "Figure":
    """Draw the last few decisions of each learner in the plane, with an arrow from each to the next.

    The picture shows the points from near; a sketch tells which part of the set it is. A learner that stands still has one
    marker and no arrow.

    Parameters
    ----------
    outline : array
        Points around the set, of shape (n, 2).
    points : dict of str to array
        The decisions, of shape (m, 2), by label.

    Returns
    -------
    Figure
        A matplotlib figure.
    """
    window = _choose_window(np.vstack(list(points.values())), float(np.ptp(outline, axis=0).max()) or 1.0)
    (left, low), (right, high) = window
    figure = make_sheet(0.45 + WIDTH * (high - low) / (right - left))
    inch = (right - left) / (WIDTH - 0.5)
    ax = figure.subplots()
    looks = choose_looks(points)
    ax.fill(*outline.T, **PALE)
    for i, (label, path) in enumerate(points.items()):
        # Later ones are smaller, so that those on one spot are all seen.
        style: dict[str, Any] = {
            "linestyle": "none",
            "markersize": max(3.5, 8.0 - 1.5 * i),
            "zorder": 3.0,
        } | looks[label]
        edge = "black" if style["marker"] == "x" else "white"
        ax.plot(*path.T, label=label, markeredgecolor=edge, **style)
        # Arrows are bent, so that there and back are two, and by as much more as there were learners before.
        for tail, head in zip(path, np.roll(path, -1, axis=0), strict=True):
            if np.linalg.norm(head - tail) > SHORTEST * inch:
                bent = ARROW | {"color": style["color"], "connectionstyle": f"arc3,rad={0.12 * (i + 1)}"}
                ax.annotate("", tuple(head), tuple(tail), arrowprops=bent)
    _set_window(ax, window)
    figure.legend(loc="outside lower left", ncols=4, **ROW)
    if (outline < window[0]).any() or (outline > window[1]).any():
        draw_sketch(figure, outline, window)
    return figure


def _choose_window(points: Array, size: float) -> Array:
    """The lower and upper corner of a window about the points, neither flat nor narrow nor tiny beside the set."""
    low = points.min(axis=0)
    high = points.max(axis=0)
    side = np.maximum(1.5 * (high - low), size / 40.0)
    side = np.maximum(side, side.max() * np.array([1.25, FLATTEST]))
    return np.array([low + high - side, low + high + side]) / 2.0


def _set_window(ax: "Axes", window: Array) -> None:
    (left, low), (right, high) = window
    ax.set(xlim=(left, right), ylim=(low, high), aspect="equal")
    ax.tick_params(labelsize=7)
    ax.locator_params(nbins=5)


def draw_greedy_and_lazy(
    outlines: dict[str, Array], greedy: dict[str, Array], lazy: dict[str, Array], cones: dict[str, Array]
) -> "Figure":
    r"""Draw two gradients in a row on one or more sets, a panel each: greedy and lazy part at the second.

    Hollow dots are unconstrained points, full ones projections; a thick line is how far the second step went.

    Parameters
    ----------
    outlines : dict of str to array
        Points around each set, of shape (n, 2), by title.
    greedy : dict of str to array
        Five points, of shape (5, 2): :math:`x_1`, :math:`y_2 = x_1 - g_1/\sigma`, its projection :math:`x_2`,
        :math:`y_3 = x_2 - g_2/\sigma`, its projection :math:`x_3`.
    lazy : dict of str to array
        The same, but with :math:`y_3 = y_2 - g_2/\sigma`; the first three points are those of ``greedy``.
    cones : dict of str to array
        A fan of unit vectors, of shape (m, 2), that spans the normal cone at :math:`x_2`, first and last its edges: while
        :math:`y_3` lies in it, :math:`x_3 = x_2`. One that is a ray is drawn as a line; an empty one is not drawn.

    Returns
    -------
    Figure
        A matplotlib figure.
    """
    figure = make_sheet(3.3, WIDE)
    axes = figure.subplots(1, len(outlines), squeeze=False)[0]
    for ax, title in zip(axes, outlines, strict=True):
        ax.set_title(title, fontsize=8)
        _draw_panel(ax, outlines[title], greedy[title], lazy[title], cones[title])
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, **ROW)
    return figure


def _draw_panel(ax: "Axes", outline: Array, greedy: Array, lazy: Array, cone: Array) -> None:
    points = np.vstack((greedy, lazy))
    low = points.min(axis=0)
    high = points.max(axis=0)
    side = 1.3 * np.maximum(high - low, (float((high - low).max()) or 1.0) * np.array([1.0, 0.75]))
    window = np.array([low + high - side, low + high + side]) / 2.0
    inch = side[0] / 3.0
    ax.fill(*outline.T, label="the set", **PALE)
    far = greedy[2] + 2.0 * side.sum() * cone
    if len(cone):
        ax.fill(*np.vstack((greedy[2], far)).T, color=GREEN, alpha=0.15, linewidth=0.0)
        ax.plot(
            *np.vstack((far[0], greedy[2], far[-1])).T,
            color=GREEN,
            linewidth=0.9,
            label="normal cone at $x_2$",
        )
    draw_arrows(ax, greedy[:2], GREY, 0.018, r"$-g_1/\sigma$", inch)
    for path, tail, colour, label in ((greedy, greedy[2], BLUE, "greedy"), (lazy, lazy[1], ORANGE, "lazy")):
        draw_arrows(ax, np.vstack((tail, path[3])), colour, 0.018, rf"$-g_2/\sigma$, {label}", inch)
        ax.plot(*path[3:].T, ":", color=colour, linewidth=1.0)
        ax.plot(*path[[2, 4]].T, color=colour, linewidth=3.0, alpha=0.6, label=f"{label} moved")
    ax.plot(*greedy[1:3].T, ":", color=GREY, linewidth=1.0, label="projection")
    busy = [outline]
    for path in (greedy, lazy):
        for tail, head in (*pairwise(path), (path[2], path[4]), (path[1], path[3])):
            busy.append(np.linspace(tail, head, 60))
    named = {
        "x_1": greedy[0],
        "y_2": greedy[1],
        "x_2": greedy[2],
        r"x_3^\mathrm{lazy}": lazy[4],
        r"x_3^\mathrm{greedy}": greedy[4],
        r"y_3^\mathrm{greedy}": greedy[3],
        r"y_3^\mathrm{lazy}": lazy[3],
    }
    write_names(ax, named, np.vstack(busy), window, inch, 0.19)
    _set_window(ax, window)
