"""The style that all figures share: sheets, colours, one look per learner, frames and legends, and figures as files."""

from collections.abc import Iterable
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from klazy.base.install import make_missing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# The palette of Okabe and Ito, which colour-blind readers can distinguish; the palest is last, black is left for sums.
PALETTE = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7", "#F0E442")
BLUE, ORANGE, GREEN, RED, SKY, PURPLE, YELLOW = PALETTE
OTHERS = "#BBBBBB"
GREY = "#666666"
BROWN = "#7A4B00"
# A figure draws this many rounds at most: more than a column has dots.
DRAWN = 2000
# Inches: the width of a column and the height of a panel, and the width of both columns.
COLUMN_WIDTH = 3.5
HEIGHT = 1.7
WIDE = 7.0
DPI = 200
LEGEND: dict[str, Any] = {
    "fontsize": 7,
    "handlelength": 1.0,
    "columnspacing": 1.0,
    "frameon": False,
}
VEIL: dict[str, Any] = {"facecolor": "white", "alpha": 0.5, "edgecolor": "none", "pad": 0.5}
# Letters of a column's name.
LETTERS = 20
# The markers are those of the paper's figures, so that its figures and ours can be compared.
OWN_LOOKS = {
    "GD": (BLUE, "o"),
    "LazyGD": (ORANGE, "s"),
    "SAder": (BLUE, "o"),
    "SAder-k": (PURPLE, "s"),
    "comparator": ("black", "x"),
}
SLACKS: tuple[str, ...] = ("d", "v", "^", "<")
FURTHER: tuple[str, ...] = ("P", "*", ">", "h", "p", "X", "8", "D", "H")
# Yellow is left out: thin yellow lines are hard to see on paper.
FREE = (GREEN, RED, SKY, PURPLE, BLUE, ORANGE, GREY, BROWN)
Looks = dict[str, dict[str, Any]]


def choose_looks(labels: Iterable[str]) -> Looks:
    """Choose the colour and the marker of every learner, the same in all figures with these learners.

    GD, LazyGD, SAder, SAder-k and the comparator have their own; ``k=...`` get the paper's markers in order of appearance,
    others the remaining ones. Markers repeat only after nine that have none of their own, colours after eight.

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
    choices = dict.fromkeys(labels, FURTHER)
    choices |= {label: SLACKS + FURTHER for label in labels if label.startswith("k=")}
    colours = _assign(0, dict.fromkeys(labels, FREE))
    markers = _assign(1, choices)
    return {label: {"color": colours[label], "marker": markers[label]} for label in labels}


def _assign(part: int, choices: dict[str, tuple[str, ...]]) -> dict[str, str]:
    """Give every label its own, unless an earlier one has it, and the others the first of their choices that is free.

    Those that lost their own come last, so that the others look the same with and without them.
    """
    given: dict[str, str] = {}
    for label, look in OWN_LOOKS.items():
        if label in choices and look[part] not in given.values():
            given[label] = look[part]
    for label in sorted(choices, key=lambda label: label in OWN_LOOKS):
        wanted = choices[label]
        again = wanted[len(given) % len(wanted)]
        free = next((each for each in wanted if each not in given.values()), again)
        given.setdefault(label, free)
    return given


def make_sheet(height: float, width: float = COLUMN_WIDTH) -> "Figure":
    """Make an empty figure, in inches."""
    try:
        from klazy.show.notebook import Figure
    except ImportError as missing:
        raise make_missing("plot", "matplotlib", "cli") from missing
    return Figure(figsize=(width, height), dpi=DPI, layout="constrained")


def make_axes(height: float, width: float = COLUMN_WIDTH, **grid: Any) -> "tuple[Figure, Any]":
    """Make a figure with one pair of axes, or with an array of them, by the arguments of ``Figure.subplots``."""
    figure = make_sheet(height, width)
    return figure, figure.subplots(**grid)


def make_tiles(count: int, height: float) -> "tuple[Figure, list[Axes]]":
    """Make a figure with ``count`` axes of one size, at most three side by side."""
    across = min(3, count)
    down = -(-count // across)
    if down > 1:
        height *= 0.85 * down
    figure = make_sheet(height, COLUMN_WIDTH if across == 1 else WIDE)
    return figure, [figure.add_subplot(down, across, i + 1) for i in range(count)]


def choose_rounds(T: int, most: int = DRAWN) -> NDArray[np.int64]:
    """Choose the rounds to draw, at most ``most``, the first and the last among them."""
    return np.unique(np.linspace(1, T, most).astype(np.int64))


def draw_frame(ax: "Axes", xlabel: str = "", ylabel: str = "", grid: bool = True) -> None:
    """Draw ticks, spines and a faint grid, and label the axes."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(which="both", labelsize=7)
    if grid:
        ax.grid(linewidth=0.4, alpha=0.5)
        ax.set_axisbelow(True)
    if xlabel:
        ax.set_xlabel(xlabel, fontsize=8)
    if ylabel:
        ax.set_ylabel(ylabel, fontsize=8)


def draw_legend(figure: "Figure", *axes: "Axes", most: int = 4) -> None:
    """Draw the legend above the axes, in rows of nearly equal length, of at most ``most`` names, fewer if they are long."""
    named: dict[str, Any] = {}
    for ax in axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            named[label] = handle
    # Inches of a handle and of a letter.
    longest = 0.5 + 0.055 * max(map(len, named), default=1)
    columns = max(1, min(most, int(figure.get_figwidth() / longest)))
    rows = -(-len(named) // columns) or 1
    columns = -(-len(named) // rows) or 1
    style = LEGEND | {"handlelength": 2.0}
    figure.legend(
        list(named.values()), list(named), loc="outside upper center", ncols=columns, **style
    )


def draw_legend_below(figure: "Figure", ax: "Axes", columns: int) -> None:
    """Draw the legend of one of the axes below all of them."""
    handles, labels = ax.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, **LEGEND)


def format_label(name: str) -> str:
    """Shorten a column's name; matplotlib would read dollars as formulas, and hide names that begin with ``_``."""
    if len(name) > LETTERS:
        name = f"{name[: LETTERS - 1]}…"
    if name.startswith("_"):
        name = f" {name}"
    return name.replace("$", r"\$")


def make_svg(figure: "Figure", name: str) -> bytes:
    """Return a figure as SVG; the same figure and name give the same bytes on any day."""
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    layout = figure.get_layout_engine()
    if layout is not None:
        layout.execute(figure)
        # Otherwise each file would be laid out anew.
        figure.set_layout_engine("none")
    dpi = figure.dpi
    file = BytesIO()
    # savefig would draw the figure twice.
    with matplotlib.rc_context({"svg.hashsalt": name}):
        FigureCanvasSVG(figure).print_svg(file, metadata={"Date": None})
    # print_svg sets its own dpi.
    figure.dpi = dpi
    return file.getvalue()


def make_png(figure: "Figure") -> bytes:
    """Return a figure as PNG."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    file = BytesIO()
    FigureCanvasAgg(figure).print_png(file)
    return file.getvalue()


def make_pdf(figure: "Figure") -> bytes:
    """Return a figure as PDF, its letters as TrueType; the same figure gives the same bytes on any day."""
    import matplotlib
    from matplotlib.backends.backend_pdf import FigureCanvasPdf

    dpi = figure.dpi
    file = BytesIO()
    # savefig would draw the figure twice.
    with matplotlib.rc_context({"pdf.fonttype": 42}):
        FigureCanvasPdf(figure).print_pdf(file, metadata={"CreationDate": None})
    # print_pdf sets its own dpi.
    figure.dpi = dpi
    return file.getvalue()


def write_figure(figure: "Figure", stem: Path, *, png: bool = True) -> None:
    """Write a figure to files; the same figure gives the same bytes on any day.

    Parameters
    ----------
    figure : Figure
        A matplotlib figure.
    stem : Path
        The files, without their endings.
    png : bool, optional
        Write ``stem.png`` as well as ``stem.svg``. Default: True.
    """
    stem.with_name(f"{stem.name}.svg").write_bytes(make_svg(figure, stem.name))
    if png:
        stem.with_name(f"{stem.name}.png").write_bytes(make_png(figure))
