"""One step in the plane, from the anchor to the projection."""

from typing import TYPE_CHECKING

import numpy as np

from klazy.base.checks import Array
from klazy.show.marks import draw_arrows, draw_sketch, write_names
from klazy.show.style import COLOURS, PALE, ROW, WIDTH, make_sheet

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
        The lower and the upper corner of what is shown; if that is not the whole set, a sketch tells which part.

    Returns
    -------
    Figure
        A matplotlib figure.
    """
    (left, low), (right, high) = window
    figure = make_sheet(0.4 + WIDTH * (high - low) / (right - left))
    inch = (right - left) / (WIDTH - 0.5)
    ax = figure.subplots()
    ax.set(xlim=(left, right), ylim=(low, high), aspect="equal")
    ax.tick_params(labelsize=7)
    ax.locator_params(nbins=6)
    ax.fill(*outline.T, label="the set", **PALE)
    lines = np.vstack((path, following))
    if len(cone):
        far = following + 2.0 * np.ptp(window, axis=0).sum() * cone
        ax.fill(
            *np.vstack((following, far)).T,
            color=COLOURS[1],
            alpha=0.3,
            linewidth=0.0,
            label="normal cone at $x_{t+1}$",
        )
        ax.plot(*np.vstack((far[0], following, far[-1])).T, color=COLOURS[1], linewidth=1.2)
        lines = np.vstack((lines, far[0], following, far[-1]))
    draw_arrows(ax, path[:-1], COLOURS[4], 0.012, r"$-g_s/\sigma_t$, $s<t$", inch)
    draw_arrows(ax, path[-2:], COLOURS[0], 0.02, r"$-g_t/\sigma_t$", inch)
    ax.plot(*np.vstack((path[-1], following)).T, ":", color="black", linewidth=0.9, label="projection")
    busy = np.vstack((outline, *np.linspace(lines[:-1], lines[1:], 100)))
    named = {r"x_\tau": path[0], "x_t": x, "x_{t+1}": following, "y_{t+1}": path[-1]}
    write_names(ax, named, busy, window, inch)
    handles, _ = ax.get_legend_handles_labels()
    columns = (len(handles) + 1) // 2
    figure.legend(loc="outside lower left", ncols=columns, **ROW)
    if (outline < window[0]).any() or (outline > window[1]).any():
        draw_sketch(figure, outline, window)
    return figure
