"""What pictures of the plane share: arrows to scale, names beside points, and a sketch of the whole set."""

from typing import TYPE_CHECKING, Any

import numpy as np

from klazy.base.checks import Array
from klazy.show.style import COLOURS, PALE, VEIL, WIDTH

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TO_SCALE: dict[str, Any] = {
    "angles": "xy",
    "scale_units": "xy",
    "scale": 1.0,
    "units": "inches",
    "headwidth": 4.0,
}


def draw_arrows(ax: "Axes", path: Array, colour: str, width: float, label: str, inch: float) -> None:
    steps = np.diff(path, axis=0)
    if steps.any():
        longest = float(np.linalg.norm(steps, axis=1).max())
        width = min(width, 0.1 * longest / inch)  # else short ones are all head
        ax.quiver(*path[:-1].T, *steps.T, color=colour, width=width, label=label, **TO_SCALE)


def write_names(
    ax: "Axes", named: dict[str, Array], busy: Array, window: Array, inch: float, width: float = 0.13
) -> None:
    """A dot for each point, and its name where least is drawn already; points that coincide have theirs side by side.

    ``busy`` are points on what is drawn already, ``inch`` is that in the units of the axes, ``width`` half that of a name.
    """
    turns = np.linspace(0.0, 2.0 * np.pi, 32, endpoint=False)
    points = np.array(list(named.values()))
    while named:
        point = next(iter(named.values()))
        here = [name for name, other in named.items() if np.abs(other - point).max() < 1e-6 * inch]
        height = 0.08 + (width - 0.13) / 2.0  # a longer name has an exponent, and is higher
        half = inch * np.array([width * len(here), height])
        places = point + (half + 0.05 * inch) * np.column_stack((np.cos(turns), np.sin(turns)))
        gaps = (np.abs(busy - places[:, None]) / half).max(axis=2)  # below one: under the name
        outside = ((places - half < window[0]) | (places + half > window[1])).any(axis=1)
        away = np.linalg.norm(places[:, None] - points, axis=2)
        own = np.linalg.norm(places - point, axis=1)
        strange = away.min(axis=1) < own - 1e-6 * inch  # another point is nearer
        hidden = (gaps < 1.0).sum(axis=1)
        order = np.lexsort((-gaps.min(axis=1), hidden, strange, outside))
        best = places[order[0]]
        inside = "black"
        if any(each.startswith("y") for each in here):  # hollow, if it was not projected
            inside = "white"
        ax.plot(*point, "o", color="black", markerfacecolor=inside, markersize=3.0)
        ax.text(best[0], best[1], "$" + "=".join(here) + "$", fontsize=8, ha="center", va="center", bbox=VEIL)
        busy = np.vstack((busy, np.linspace(best - half, best + half, 40)))
        named = {name: other for name, other in named.items() if name not in here}


def draw_sketch(figure: "Figure", outline: Array, window: Array) -> None:
    """The whole set with the window in it, beside the legend."""
    small = figure.add_axes(
        (0.88, 0.01, 0.11, 0.11 * WIDTH / figure.get_figheight()), aspect="equal", frameon=False
    )
    small.set(xticks=[], yticks=[])
    small.fill(*outline.T, **PALE)
    small.plot(window[[0, 1, 1, 0, 0], 0], window[[0, 0, 1, 1, 0], 1], color=COLOURS[3], linewidth=0.8)
