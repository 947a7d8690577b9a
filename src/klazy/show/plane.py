"""Pictures in the plane: one step, two steps greedy and lazy, and where learners went in their last rounds."""

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from klazy.base.checks import Array
from klazy.show.style import (
    BLUE,
    COLUMN_WIDTH,
    GREEN,
    GREY,
    LEGEND,
    ORANGE,
    RED,
    SKY,
    VEIL,
    WIDE,
    choose_looks,
    draw_legend_below,
    make_axes,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Inches: a shorter arrow would be all head.
SHORTEST_ARROW = 0.12
# Height over width of a window, at least.
FLATTEST = 0.62
PALE: dict[str, Any] = {"facecolor": "#EEEEEE", "edgecolor": "#555555", "linewidth": 0.8}
ARROW: dict[str, Any] = {"arrowstyle": "-|>", "mutation_scale": 7.0, "linewidth": 0.9}
TO_SCALE: dict[str, Any] = {"angles": "xy", "scale_units": "xy", "scale": 1.0, "units": "inches"}


def draw_snapshots(outline: Array, points: dict[str, Array]) -> "Figure":
    """Draw the last few decisions of each learner in the plane, with an arrow from each to the next.

    The picture shows the points from near; a sketch shows which part of the set it is. A learner that does not move has one
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
    window = _choose_window(
        np.vstack(list(points.values())), float(np.ptp(outline, axis=0).max()) or 1.0
    )
    figure, ax, inch = _make_view(window, 0.45, 5)
    looks = choose_looks(points)
    ax.fill(*outline.T, **PALE)
    for i, (label, path) in enumerate(points.items()):
        colour, marker = looks[label].values()
        edge = "black" if marker == "x" else "white"
        # Later ones are smaller, so that all markers on one spot are seen.
        size = max(3.5, 8.0 - 1.5 * i)
        style = {"linestyle": "none", "markersize": size, "markeredgecolor": edge}
        ax.plot(*path.T, label=label, color=colour, marker=marker, zorder=3.0, **style)
        # Bend arrows, so that a way there and back shows two, and bend those of each further learner more.
        bend = f"arc3,rad={0.12 * (i + 1)}"
        bent = ARROW | {"color": colour, "connectionstyle": bend, "shrinkA": 3.0, "shrinkB": 3.0}
        for tail, head in zip(path, np.roll(path, -1, axis=0), strict=True):
            if np.linalg.norm(head - tail) > SHORTEST_ARROW * inch:
                ax.annotate("", tuple(head), tuple(tail), arrowprops=bent)
    figure.legend(loc="outside lower left", ncols=4, **LEGEND)
    _draw_sketch(figure, outline, window)
    return figure


def draw_step(
    outline: Array, path: Array, x: Array, following: Array, cone: Array, window: Array
) -> "Figure":
    """Draw one step in the plane, with the normal cone where it ends.

    Parameters
    ----------
    outline : array
        Points around the set, of shape (n, 2).
    path : array
        The way from the anchor to the unconstrained point y.
    x : array
        The point before the step.
    following : array
        The point after it: the projection of y.
    cone : array
        A fan of unit vectors that spans the normal cone there.
    window : array
        The lower and the upper corner of the picture; if it does not show the entire set, a sketch shows which part it is.

    Returns
    -------
    Figure
        A matplotlib figure.
    """
    figure, ax, inch = _make_view(window, 0.4, 6)
    ax.fill(*outline.T, label="the set", **PALE)
    lines = np.vstack((path, following))
    if len(cone):
        far = following + 2.0 * np.ptp(window, axis=0).sum() * cone
        name = "normal cone at $x_{t+1}$"
        ax.fill(
            *np.vstack((following, far)).T, color=ORANGE, alpha=0.3, linewidth=0.0, label=name
        )
        ax.plot(*np.vstack((far[0], following, far[-1])).T, color=ORANGE, linewidth=1.2)
        lines = np.vstack((lines, far[0], following, far[-1]))
    _draw_arrows(ax, path[:-1], SKY, 0.012, r"$-g_s/\sigma_t$, $s<t$", inch)
    _draw_arrows(ax, path[-2:], BLUE, 0.02, r"$-g_t/\sigma_t$", inch)
    ax.plot(
        *np.vstack((path[-1], following)).T, ":", color="black", linewidth=0.9, label="projection"
    )
    busy = np.vstack((outline, *np.linspace(lines[:-1], lines[1:], 100)))
    named = {r"x_\tau": path[0], "x_t": x, "x_{t+1}": following, "y_{t+1}": path[-1]}
    _write_names(ax, named, busy, window, inch)
    handles, _ = ax.get_legend_handles_labels()
    figure.legend(loc="outside lower left", ncols=(len(handles) + 1) // 2, **LEGEND)
    _draw_sketch(figure, outline, window)
    return figure


def draw_greedy_and_lazy(
    outlines: dict[str, Array],
    greedy: dict[str, Array],
    lazy: dict[str, Array],
    cones: dict[str, Array],
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
        :math:`y_3` is in it, :math:`x_3 = x_2`. One that is a ray is drawn as a line; an empty one is not drawn.

    Returns
    -------
    Figure
        A matplotlib figure.
    """
    figure, axes = make_axes(3.3, WIDE, ncols=len(outlines), squeeze=False)
    for ax, title in zip(axes[0], outlines, strict=True):
        ax.set_title(title, fontsize=8)
        _draw_two_steps(ax, outlines[title], greedy[title], lazy[title], cones[title])
    draw_legend_below(figure, axes[0, 0], 4)
    return figure


def _draw_two_steps(ax: "Axes", outline: Array, greedy: Array, lazy: Array, cone: Array) -> None:
    points = np.vstack((greedy, lazy))
    extent = np.ptp(points, axis=0)
    side = 1.3 * np.maximum(extent, (float(extent.max()) or 1.0) * np.array([1.0, 0.75]))
    window = _centre(points, side)
    inch = side[0] / 3.0
    ax.fill(*outline.T, label="the set", **PALE)
    far = greedy[2] + 2.0 * side.sum() * cone
    if len(cone):
        ax.fill(*np.vstack((greedy[2], far)).T, color=GREEN, alpha=0.15, linewidth=0.0)
        edges = np.vstack((far[0], greedy[2], far[-1]))
        ax.plot(*edges.T, color=GREEN, linewidth=0.9, label="normal cone at $x_2$")
    _draw_arrows(ax, greedy[:2], GREY, 0.018, r"$-g_1/\sigma$", inch)
    for path, tail, colour, label in (
        (greedy, greedy[2], BLUE, "greedy"),
        (lazy, lazy[1], ORANGE, "lazy"),
    ):
        _draw_arrows(
            ax, np.vstack((tail, path[3])), colour, 0.018, rf"$-g_2/\sigma$, {label}", inch
        )
        ax.plot(*path[3:].T, ":", color=colour, linewidth=1.0)
        ax.plot(*path[[2, 4]].T, color=colour, linewidth=3.0, alpha=0.6, label=f"{label} moved")
    ax.plot(*greedy[1:3].T, ":", color=GREY, linewidth=1.0, label="projection")
    busy = [outline]
    for path in (greedy, lazy):
        for tail, head in (*pairwise(path), (path[2], path[4]), (path[1], path[3])):
            busy.append(np.linspace(tail, head, 60))
    named = dict(zip(("x_1", "y_2", "x_2"), greedy, strict=False))
    named |= {r"x_3^\mathrm{lazy}": lazy[4], r"x_3^\mathrm{greedy}": greedy[4]}
    named |= {r"y_3^\mathrm{greedy}": greedy[3], r"y_3^\mathrm{lazy}": lazy[3]}
    _write_names(ax, named, np.vstack(busy), window, inch, 0.19)
    _set_window(ax, window, 5)


def _choose_window(points: Array, size: float) -> Array:
    """Choose the lower and upper corner of a window about the points, neither flat nor narrow nor tiny next to the set."""
    side = np.maximum(1.5 * np.ptp(points, axis=0), size / 40.0)
    side = np.maximum(side, side.max() * np.array([1.25, FLATTEST]))
    return _centre(points, side)


def _centre(points: Array, side: Array) -> Array:
    middle = points.min(axis=0) + points.max(axis=0)
    return np.array([middle - side, middle + side]) / 2.0


def _make_view(window: Array, margin: float, ticks: int) -> "tuple[Figure, Axes, float]":
    """Make a figure of a window, with a margin below in inches; return also an inch in the units of its axes."""
    width, height = window[1] - window[0]
    figure, ax = make_axes(margin + COLUMN_WIDTH * height / width)
    _set_window(ax, window, ticks)
    return figure, ax, width / (COLUMN_WIDTH - 0.5)


def _set_window(ax: "Axes", window: Array, ticks: int) -> None:
    (left, low), (right, high) = window
    ax.set(xlim=(left, right), ylim=(low, high), aspect="equal")
    ax.tick_params(labelsize=7)
    ax.locator_params(nbins=ticks)


def _draw_arrows(
    ax: "Axes", path: Array, colour: str, width: float, label: str, inch: float
) -> None:
    steps = np.diff(path, axis=0)
    if steps.any():
        longest = float(np.linalg.norm(steps, axis=1).max())
        # Short arrows would be all head.
        width = min(width, 0.1 * longest / inch)
        ax.quiver(
            *path[:-1].T,
            *steps.T,
            color=colour,
            width=width,
            headwidth=4.0,
            label=label,
            **TO_SCALE,
        )


def _write_names(
    ax: "Axes",
    named: dict[str, Array],
    busy: Array,
    window: Array,
    inch: float,
    width: float = 0.13,
) -> None:
    """Draw a dot for each point, and its name where least is drawn already; points that coincide share both.

    ``busy`` are points on lines that are drawn already, ``inch`` is an inch in the units of the axes, ``width`` half that of
    a name in inches.
    """
    turns = np.linspace(0.0, 2.0 * np.pi, 32, endpoint=False)
    around = np.column_stack((np.cos(turns), np.sin(turns)))
    points = np.array(list(named.values()))
    groups: list[list[str]] = []
    for name, point in named.items():
        same = [group for group in groups if np.abs(named[group[0]] - point).max() < 1e-6 * inch]
        if same:
            same[0].append(name)
        else:
            groups.append([name])
    for group in groups:
        point = named[group[0]]
        # A longer name has an exponent, and is higher.
        half = inch * np.array([width * len(group), 0.08 + (width - 0.13) / 2.0])
        places = point + (half + 0.05 * inch) * around
        outside = ((places - half < window[0]) | (places + half > window[1])).any(axis=1)
        away = np.linalg.norm(places[:, None] - points, axis=2).min(axis=1)
        # Leave out places that are nearer to another point.
        strange = away < np.linalg.norm(places - point, axis=1) - 1e-6 * inch
        # A gap below one means that the name would hide something.
        gaps = (np.abs(busy - places[:, None]) / half).max(axis=2)
        order = np.lexsort((-gaps.min(axis=1), (gaps < 1.0).sum(axis=1), strange, outside))
        best = places[order[0]]
        # Points that were not projected are hollow.
        inside = "white" if any(name.startswith("y") for name in group) else "black"
        ax.plot(*point, "o", color="black", markerfacecolor=inside, markersize=3.0)
        text = "$" + "=".join(group) + "$"
        ax.text(best[0], best[1], text, fontsize=8, ha="center", va="center", bbox=VEIL)
        busy = np.vstack((busy, np.linspace(best - half, best + half, 40)))


def _draw_sketch(figure: "Figure", outline: Array, window: Array) -> None:
    """Draw the entire set with the window in it, next to the legend, unless the window shows all of it."""
    if (outline >= window[0]).all() and (outline <= window[1]).all():
        return
    height = 0.11 * COLUMN_WIDTH / figure.get_figheight()
    small = figure.add_axes((0.88, 0.01, 0.11, height), aspect="equal", frameon=False)
    small.set(xticks=[], yticks=[])
    small.fill(*outline.T, **PALE)
    small.plot(window[[0, 1, 1, 0, 0], 0], window[[0, 0, 1, 1, 0], 1], color=RED, linewidth=0.8)
