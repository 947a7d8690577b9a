"""A quantity over two parameters, as colours."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from klazy.base.checks import Array
from klazy.show.style import RED, make_tiles

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LABELS = {"x": 5, "y": 8}  # on an axis at most
DECADE = 10.0  # between the least and the largest value, from which on colours are logarithmic


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
        norm = "linear"
        if len(known) and known.min() > 0.0 and known.max() > DECADE * known.min():
            norm = "log"
        many = part.values.size > 2000
        mesh = ax.pcolormesh(part.values, cmap="viridis_r", norm=norm, rasterized=many)
        bar = figure.colorbar(mesh, ax=ax)
        bar.set_label(label, fontsize=7)
        bar.ax.tick_params(which="both", labelsize=6)
        _set_ticks(ax, "x", part.x)
        _set_ticks(ax, "y", part.y)
        ax.set_xlabel(xlabel, fontsize=8)
        ax.set_ylabel(ylabel, fontsize=8)
        ax.set_title(title, fontsize=7)
        _draw_rings(ax, part)
    return figure


def _draw_rings(ax: "Axes", part: Heat) -> None:
    style: dict[str, Any] = {
        "markerfacecolor": "none",
        "markeredgecolor": RED,
        "markeredgewidth": 1.2,
        "clip_on": False,
    }
    size = 7.0 if len(part.marked) == 1 else 4.0
    for row, column in part.marked:
        ax.plot(column + 0.5, row + 0.5, "o", markersize=size, **style)
    if len(part.marked) == 1:
        ((row, column),) = part.marked
        said = f"{_format_number(part.values[row, column])} at {_format_number(part.x[column])}, {_format_number(part.y[row])}"
        ax.set_title(f"{ax.get_title()}\nbest: {said}".strip(), fontsize=7)


def _set_ticks(ax: "Axes", axis: str, values: Sequence[float]) -> None:
    """The value under the middle of its cell, of every so many cells."""
    shown = range(0, len(values), -(-len(values) // LABELS[axis]))
    ax.tick_params(axis=axis, labelsize=7)  # pyright: ignore[reportArgumentType]
    getattr(ax, f"set_{axis}ticks")([i + 0.5 for i in shown], [_format_number(values[i]) for i in shown])


def _format_number(value: float) -> str:
    return f"{value:.0f}" if 1000.0 <= abs(value) < 1e9 or value % 1.0 == 0.0 else f"{value:.3g}"
