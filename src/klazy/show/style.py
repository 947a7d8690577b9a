"""What all figures share: the sheet, its colours, one look per learner, and which rounds of many are drawn."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from klazy.base.checks import Array
from klazy.base.install import make_missing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's, which the colour-blind can tell apart; the palest is last, black is left for sums.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7", "#F0E442")
BLUE, ORANGE, GREEN, RED, SKY, PURPLE = COLOURS[:6]
OTHERS = "#BBBBBB"
GREY = "#666666"
BROWN = "#7A4B00"
DRAWN = 2000  # rounds at most: more than a column has dots
# inches, a column's width and a panel's height
WIDTH = 3.5
HEIGHT = 1.7
WIDE = 7.0  # inches, both columns
ROW: dict[str, Any] = {"fontsize": 7, "handlelength": 1.0, "columnspacing": 1.0, "frameon": False}
ABOVE: dict[str, Any] = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0), "ncols": 5, "markerscale": 2.0}
DPI = 200
LETTERS = 20  # of a column's name
VEIL: dict[str, Any] = {"facecolor": "white", "alpha": 0.5, "edgecolor": "none", "pad": 0.5}
PALE: dict[str, Any] = {"facecolor": "#EEEEEE", "edgecolor": "#555555", "linewidth": 0.8}
# The markers are those of the paper's figures, so that its and ours can be laid side by side.
KNOWN = {
    "GD": (BLUE, "o"),
    "LazyGD": (ORANGE, "s"),
    "SAder": (BLUE, "o"),
    "SAder-k": (PURPLE, "s"),
    "comparator": ("black", "x"),
}
SLACKS = ("d", "v", "^", "<")
FURTHER = ("P", "*", ">", "h", "p", "X", "8", "D", "H")
# Not yellow, a thin line of which is faint on paper.
FREE = (GREEN, RED, SKY, PURPLE, BLUE, ORANGE, GREY, BROWN)
Looks = dict[str, dict[str, Any]]
MARKS = 12  # markers on a line


def choose_looks(labels: Iterable[str]) -> Looks:
    """Choose the colour and the marker of every learner, the same in all figures with these learners.

    GD, LazyGD, SAder, SAder-k and the comparator have their own; ``k=...`` take the paper's markers in order of appearance,
    others what is left. Markers come again only after nine that have none of their own, colours after eight.

    Parameters
    ----------
    labels : iterable of str
        The learners' labels.

    Returns
    -------
    dict of str to dict
        Colour and marker, by label.

    Examples
    --------
    >>> choose_looks(["GD", "k=65"])["k=65"]
    {'color': '#009E73', 'marker': 'd'}
    """
    labels = list(dict.fromkeys(labels))
    own_colours = {label: colour for label, (colour, _) in KNOWN.items()}
    own_markers = {label: marker for label, (_, marker) in KNOWN.items()}
    colours = _assign(labels, own_colours, lambda label: FREE)
    markers = _assign(labels, own_markers, _list_markers)
    return {label: {"color": colours[label], "marker": markers[label]} for label in labels}


def _list_markers(label: str) -> tuple[str, ...]:
    """The markers that a learner may have, in the order of preference."""
    if label.startswith("k="):
        return (*SLACKS, *FURTHER)
    return FURTHER


def _assign(
    labels: list[str], own: dict[str, str], choice: Callable[[str], tuple[str, ...]]
) -> dict[str, str]:
    """To every label its own, unless an earlier one has it, then to the others what is still free of their choice.

    Those that lost their own come last, so that the others look the same with and without them.
    """
    given: dict[str, str] = {}
    for label in own:
        if label in labels and own[label] not in given.values():
            given[label] = own[label]
    for label in sorted(set(labels) - set(given), key=lambda label: (label in own, labels.index(label))):
        wanted = choice(label)
        again = wanted[len(given) % len(wanted)]
        given[label] = next((each for each in wanted if each not in given.values()), again)
    return given


def choose_spots(x: NDArray[Any], y: Array, line: int, lines: int) -> list[int]:
    """Where on a line to put its markers: evenly along ``x``, a little beside those of the other lines; all points, if few."""
    there = np.flatnonzero(np.isfinite(x) & np.isfinite(y))
    if len(there) <= MARKS:
        return there.tolist()
    places = x[there[0]] + (x[there[-1]] - x[there[0]]) * (np.arange(MARKS) + (line + 0.5) / lines) / MARKS
    return np.unique(there[np.searchsorted(x[there], places).clip(max=len(there) - 1)]).tolist()


def make_sheet(height: float, width: float = WIDTH) -> "Figure":
    """An empty figure, in inches."""
    try:
        from klazy.show.notebook import Figure
    except ImportError as missing:
        raise make_missing("plot", "matplotlib", "cli") from missing
    return Figure(figsize=(width, height), dpi=DPI, layout="constrained")


def make_tiles(count: int, height: float) -> "tuple[Figure, list[Axes]]":
    """A figure with so many axes of one size, three side by side at most."""
    across = min(3, count)
    down = -(-count // across)
    if down > 1:
        height *= 0.85 * down
    width = WIDTH if across == 1 else WIDE
    figure = make_sheet(height, width)
    axes = [figure.add_subplot(down, across, i + 1) for i in range(count)]
    return figure, axes


def choose_rounds(T: int, most: int = DRAWN) -> NDArray[np.int64]:
    """The rounds to draw, ``most`` at most, the first and the last among them."""
    return np.unique(np.linspace(1, T, most).astype(np.int64))


def set_logarithmic(ax: "Axes", values: Array) -> None:
    """A logarithmic y axis; if not all values are positive, one that is linear about zero, over three decades at most above."""
    sizes = np.abs(values[np.isfinite(values) & (values != 0.0)])
    if (values[np.isfinite(values)] > 0.0).all():
        ax.set_yscale("log")
    else:
        least = max(sizes.min(), sizes.max() / 1000.0) if len(sizes) else 1.0
        decade = 10.0 ** np.ceil(np.log10(least))  # a round number, so that a tick is there
        ax.set_yscale("symlog", linthresh=decade)


def draw_frame(ax: "Axes") -> None:
    """Ticks, spines and a faint grid, as all figures with axes have them."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(which="both", labelsize=7)
    ax.grid(linewidth=0.4, alpha=0.5)
    ax.set_axisbelow(True)


def draw_legend(figure: "Figure", *axes: "Axes", most: int = 4) -> None:
    """The legend above the axes, in rows of nearly equal length, of at most ``most`` names, fewer if they are long."""
    named: dict[str, Any] = {}
    for ax in axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            named[label] = handle
    columns = max(1, min(most, count_columns(figure, named)))
    rows = -(-len(named) // columns) or 1
    columns = -(-len(named) // rows) or 1
    style = ROW | {"handlelength": 2.0}
    figure.legend(list(named.values()), list(named), loc="outside upper center", ncols=columns, **style)


def count_columns(figure: "Figure", labels: Iterable[str]) -> int:
    """How many names of a legend have room side by side."""
    longest = max(map(len, labels), default=1)
    return int(figure.get_figwidth() / (0.5 + 0.055 * longest))  # inches of a handle and of a letter


def tidy_axes(ax: "Axes", place: dict[str, Any] | None = None) -> None:
    """Frame and legend of a figure of a run; ``place`` says where the legend stands, if not beside the axes."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(which="both", labelsize=7)
    handles, labels = ax.get_legend_handles_labels()
    if ax.collections:  # areas, which are read from the top
        ax.margins(x=0.0, y=0.0)
        handles.reverse()
        labels.reverse()
    else:
        ax.margins(x=0.0, y=0.05)
        ax.grid(linewidth=0.4, alpha=0.5)
    beside = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0), "borderaxespad": 0.0}
    ax.legend(handles, labels, **ROW, **(place or beside))


def format_label(name: str) -> str:
    """A column's name as text, not too long; matplotlib would take dollars for formulas, and hide what begins with ``_``."""
    if len(name) > LETTERS:
        name = f"{name[: LETTERS - 1]}…"
    if name.startswith("_"):
        name = f" {name}"
    return name.replace("$", r"\$")
