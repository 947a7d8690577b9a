"""The one place that draws: a figure of a run, made without pyplot and never shown."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from klazy.arrays import Array
from klazy.sets import Simplex

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's, which the colour-blind can tell apart; the palest is last, black is left for sums.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7", "#F0E442")
OTHERS = "#BBBBBB"
LINES = 10  # coordinates at most, the last of them dashed, in the first colours again
DRAWN = 2000  # rounds at most: more than a column has dots
WIDTH, HEIGHT = 3.5, 1.7  # inches, a column's width and a panel's height


def figure(hitting: Array, switching: Array, x: Array | None = None, weights: Array | None = None) -> "Figure":
    """Running totals of the costs; below them the points ``x`` and an ensemble's ``weights``, where given.

    Of a long run at most 2000 rounds are drawn, the last always. Points of one simplex are stacked areas, others lines.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as missing:
        raise ImportError("plot needs matplotlib, which is not installed; pip install 'klazy[cli]'.") from missing
    panels = 1 + (x is not None) + (weights is not None)
    made = Figure(figsize=(WIDTH, 0.3 + HEIGHT * panels), dpi=200, layout="constrained")
    axes = made.subplots(panels, sharex=True, squeeze=False)[:, 0]
    t = np.unique(np.linspace(1, len(hitting), DRAWN).astype(np.int64))
    _totals(axes[0], t, hitting, switching)
    if x is not None:
        _points(axes[1], t, x)
    if weights is not None:
        _areas(axes[-1], t, weights, "expert {}", 0)
        axes[-1].set_ylabel("weights of the experts", fontsize=8)
    for ax in axes:
        _tidy(ax)
    axes[-1].set_xlabel("round", fontsize=8)
    return made


def _totals(ax: "Axes", t: NDArray[np.int64], hitting: Array, switching: Array) -> None:
    hit, moved = np.cumsum(hitting)[t - 1], np.cumsum(switching)[t - 1]
    for label, paid, colour in (("sum", hit + moved, "black"), ("hitting", hit, COLOURS[0]), ("movement", moved, COLOURS[1])):
        ax.plot(t, paid, label=label, color=colour, linewidth=1.2)
    ax.set_ylabel("cost so far", fontsize=8)


def _points(ax: "Axes", t: NDArray[np.int64], x: Array) -> None:
    d, total = x.shape[1], float(x[0].sum())
    if total > 0.0 and Simplex(d, total).contains(x):
        _areas(ax, t, x, "$x_{{{}}}$", 1)
    else:
        for i in range(min(d, LINES)):
            again, colour = divmod(i, len(COLOURS))
            (line,) = ax.plot(t, x[t - 1, i], "--" if again else "-", color=COLOURS[colour], linewidth=0.8)
            line.set(label=f"$x_{{{i + 1}}}$", drawstyle="steps-mid")
        if d > LINES:
            ax.set_title(f"the first {LINES} of {d} coordinates", fontsize=8)
    ax.set_ylabel("decision", fontsize=8)


def _areas(ax: "Axes", t: NDArray[np.int64], shares: Array, name: str, first: int) -> None:
    """Columns of ``shares``, stacked; those that lead oftenest and are largest on average have a name and a colour."""
    n, most = shares.shape[1], len(COLOURS)
    prominence = shares.mean(axis=0) / shares[0].sum() + np.bincount(shares.argmax(axis=1), minlength=n) / len(shares)
    shown = np.sort(np.argsort(-prominence, kind="stable")[:most])
    drawn, labels = shares[t - 1][:, shown], [name.format(first + i) for i in shown]
    if n > most:
        drawn, labels = np.column_stack((drawn, shares[t - 1].sum(axis=1) - drawn.sum(axis=1))), [*labels, "others"]
    ax.stackplot(t, drawn.T, labels=labels, colors=[*COLOURS[: len(shown)], OTHERS], linewidth=0.0, step="mid")


def _tidy(ax: "Axes") -> None:
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize=7)
    areas = bool(ax.collections)
    ax.margins(x=0.0, y=0.0 if areas else 0.05)
    if not areas:
        ax.grid(linewidth=0.4, alpha=0.5)
    handles, labels = ax.get_legend_handles_labels()
    order = slice(None, None, -1 if areas else 1)  # areas are read from the top
    place: Any = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0), "borderaxespad": 0.0, "frameon": False}
    ax.legend(handles[order], labels[order], fontsize=7, handlelength=1.0, **place)
