"""Figures of a replay: costs over time, by period and over prices, each contender in its own colour, with its name."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from klazy.base.checks import Array
from klazy.show.style import (
    GREY,
    HEIGHT,
    OTHERS,
    PALETTE,
    WIDE,
    Looks,
    choose_rounds,
    draw_frame,
    format_label,
    make_axes,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LETTER = 8.5  # points that a line of labels takes up
BARS = 40  # periods at most
TICKS = 8  # names of periods on the axis
LINE_STYLES = ("-", "--", ":")  # of lines that share a colour


def draw_cumulative(
    x: NDArray[Any],
    curves: dict[str, Array],
    looks: Looks,
    xlabel: str,
    ylabel: str,
    *,
    log: bool = False,
) -> "Figure":
    """Draw running sums over time, each with its name at its right end.

    Parameters
    ----------
    x : ndarray
        Rounds or dates.
    curves : dict of str to ndarray
        A value for each of them, by name.
    looks : dict
        The colour of each name.
    xlabel, ylabel : str
        What the axes show.
    log : bool, optional
        Draw them on a logarithmic scale. Default: False.

    Returns
    -------
    Figure
        A matplotlib figure.
    """
    figure, ax = make_axes(2.0 * HEIGHT, WIDE)
    shown = choose_rounds(len(x)) - 1
    drawn: Counter[Any] = Counter()
    for name, curve in curves.items():
        colour = looks[name]["color"]
        # A colour that is there again has dashes.
        ax.plot(
            x[shown],
            curve[shown],
            color=colour,
            linewidth=1.2,
            linestyle=LINE_STYLES[drawn[colour] % len(LINE_STYLES)],
        )
        drawn[colour] += 1
    if log:
        ax.set_yscale("log")
    ax.axhline(1.0 if log else 0.0, color=GREY, linewidth=0.6)
    ax.margins(x=0.0)
    mark_dates(ax, x)
    name_points(
        ax, {name: (x[shown[-1]], float(curve[-1])) for name, curve in curves.items()}, looks
    )
    draw_frame(ax, xlabel, ylabel)
    return figure


def draw_shares(x: NDArray[Any], shares: Array, names: Sequence[str], title: str) -> "Figure":
    """Draw shares of a whole over time, one above the other: the largest in colour, the others together.

    Parameters
    ----------
    x : ndarray
        Rounds or dates.
    shares : ndarray
        Of shape (T, d).
    names : sequence of str
        Their names.
    title : str
        Whose shares they are.

    Returns
    -------
    Figure
        A matplotlib figure.
    """
    figure, ax = make_axes(2.0 * HEIGHT, WIDE)
    shown = choose_rounds(len(x)) - 1
    order = np.argsort(-shares.mean(axis=0))
    largest, others = order[: len(PALETTE)], order[len(PALETTE) :]
    layers = list(shares[shown][:, largest].T)
    labels = [format_label(str(names[i])) for i in largest]
    colours: list[str] = list(PALETTE[: len(largest)])
    if len(others):
        layers.append(shares[shown][:, others].sum(axis=1))
        labels.append(f"{len(others)} others")
        colours.append(OTHERS)
    ax.stackplot(x[shown], layers, colors=colours, labels=labels, linewidth=0.0)
    ax.margins(x=0.0)
    ax.set_ylim(0.0, 1.0)
    mark_dates(ax, x)
    ax.legend(
        fontsize=7, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0), reverse=True
    )
    draw_frame(ax, "", f"weights of {title}", grid=False)
    return figure


def draw_periods(
    periods: Sequence[str], costs: dict[str, Array], looks: Looks, xlabel: str, ylabel: str
) -> "Figure":
    """Draw what each paid per period, side by side.

    Parameters
    ----------
    periods : sequence of str
        Their names; the last forty are drawn.
    costs : dict of str to ndarray
        What each contender paid in each.
    looks : dict
        The colour of each name.
    xlabel, ylabel : str
        What the axes show.

    Returns
    -------
    Figure
        A matplotlib figure.
    """
    figure, ax = make_axes(2.0 * HEIGHT, WIDE)
    shown = periods[-BARS:]
    places = np.arange(len(shown))
    width = 0.84 / len(costs)
    for i, (name, values) in enumerate(costs.items()):
        at = places + (i - (len(costs) - 1) / 2.0) * width
        ax.bar(at, values[-BARS:], width, color=looks[name]["color"], label=name)
    every = -(-len(shown) // TICKS)
    ax.set_xticks(places[::every], shown[::every])
    ax.axhline(0.0, color=GREY, linewidth=0.6)
    ax.legend(fontsize=7, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    draw_frame(ax, xlabel, ylabel)
    return figure


def draw_prices(
    prices: Array, panels: dict[str, dict[str, Array]], winners: Sequence[str], looks: Looks
) -> "Figure":
    """Draw lines over the price of moving, a panel each, with the winner of each price named below.

    Parameters
    ----------
    prices : ndarray
        They ascend.
    panels : dict of str to dict
        By title, what each contender has at each price.
    winners : sequence of str
        Who paid least at each price.
    looks : dict
        The colour of each name.

    Returns
    -------
    Figure
        A matplotlib figure.
    """
    figure, axes = make_axes(2.2 * HEIGHT, WIDE, ncols=len(panels), squeeze=False)
    for ax, (title, lines) in zip(axes[0], panels.items(), strict=True):
        for name, values in lines.items():
            ax.plot(prices, values, markersize=4.0, linewidth=1.0, **looks[name])
        if (prices > 0.0).all():
            ax.set_xscale("log")
            ax.minorticks_off()
            ax.set_xticks(prices, [f"{price:g}" for price in prices])
        ends = {name: (float(prices[-1]), float(values[-1])) for name, values in lines.items()}
        name_points(ax, ends, looks)
        draw_frame(ax, "move cost", title)
    for price, winner in zip(prices, winners, strict=True):
        axes[0, 0].axvline(price, color=looks[winner]["color"], linewidth=5.0, alpha=0.15)
    return figure


def mark_dates(ax: "Axes", x: NDArray[Any], few: bool = False) -> None:
    """Write short dates below the axis, where it shows dates."""
    if np.asarray(x).dtype.kind not in "MO":
        return
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    locator = AutoDateLocator(minticks=2, maxticks=4 if few else 9)
    ax.xaxis.set_major_locator(locator)
    ax.xaxis.set_major_formatter(ConciseDateFormatter(locator))
    ax.xaxis.get_offset_text().set_fontsize(7)


def name_points(ax: "Axes", points: dict[str, tuple[Any, float]], looks: Looks) -> None:
    """Write names to the right of the axes, each joined to its point, and move them apart where they would overlap."""
    ax.autoscale_view()
    figure: Any = ax.figure
    low, high = ax.get_ylim()
    height = 72.0 * figure.get_figheight() * 0.75  # the approximate height of the axes in points
    join = {"arrowstyle": "-", "linewidth": 0.4, "shrinkA": 0.0, "relpos": (0, 0.5)}
    text = {"fontsize": 7, "va": "center", "annotation_clip": False}
    names = sorted(points, key=lambda name: points[name][1])
    scale = ax.yaxis.get_transform()
    bottom, top, *heights = scale.transform([low, high, *(points[name][1] for name in names)])
    places = space_apart([(each - bottom) / (top - bottom) for each in heights], LETTER / height)
    for name, place in zip(names, places, strict=True):
        colour = looks[name]["color"]
        line = join | {"color": colour}
        ax.annotate(
            name, points[name], (1.03, place), "data", "axes fraction", line, color=colour, **text
        )
    ax.set_ylim(low, high)


def space_apart(places: Sequence[float], gap: float) -> list[float]:
    """Move ascending places apart to at least this gap, as little as that takes.

    >>> [round(each, 2) for each in space_apart([0.0, 0.5, 0.52, 0.9], 0.1)]
    [0.0, 0.46, 0.56, 0.9]
    """
    from scipy.optimize import isotonic_regression

    steps = gap * np.arange(len(places))
    return (isotonic_regression(places - steps).x + steps).tolist()
