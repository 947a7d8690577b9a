"""The one place that draws: figures of runs, made without pyplot and never shown."""

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
ROW: dict[str, Any] = {"fontsize": 7, "handlelength": 1.0, "columnspacing": 1.0, "frameon": False}
ABOVE: dict[str, Any] = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0), "ncols": 5, "markerscale": 2.0}
PALE: dict[str, Any] = {"facecolor": "#EEEEEE", "edgecolor": "#555555", "linewidth": 0.8}
TO_SCALE: dict[str, Any] = {"angles": "xy", "scale_units": "xy", "scale": 1.0, "units": "inches", "headwidth": 4.0}
VEIL: dict[str, Any] = {"facecolor": "white", "alpha": 0.5, "edgecolor": "none", "pad": 0.5}
FLAT = 10.0  # a bound this many times what it bounds would press it flat
ROUNDING = 1e-12  # of the largest length drawn, where lengths end and rounding begins


def figure(hitting: Array, switching: Array, x: Array | None = None, weights: Array | None = None) -> "Figure":
    """Running totals of the costs; below them the points ``x`` and an ensemble's ``weights``, where given.

    Of a long run at most 2000 rounds are drawn, the last always. Points of one simplex are stacked areas, others lines.
    """
    panels = 1 + (x is not None) + (weights is not None)
    made = _sheet(0.3 + HEIGHT * panels)
    axes = made.subplots(panels, sharex=True, squeeze=False)[:, 0]
    t = _drawn(len(hitting))
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


def certificate(regret: Array, realised: Array, worst_case: Array, terms: dict[str, Array]) -> "Figure":
    """Running regret below its certificate and its bound; below them the terms that the certificate adds up."""
    made, t = _sheet(0.3 + 2.0 * HEIGHT), _drawn(len(regret))
    above, below = made.subplots(2, sharex=True)
    for label, curve, colour in (
        ("Theorem 5", worst_case, COLOURS[3]),
        ("realised certificate", realised, COLOURS[0]),
        ("regret", regret, "black"),
    ):
        above.plot(t, curve[t - 1], label=label, color=colour, linewidth=1.2)
    largest = float(max(np.abs(regret).max(), np.abs(realised).max()))
    if worst_case[-1] > FLAT * largest > 0.0:  # else regret and certificate would lie on the axis
        above.set_yscale("symlog", linthresh=largest / FLAT)
    for (label, curve), colour in zip(terms.items(), (COLOURS[1], COLOURS[2], COLOURS[5]), strict=True):
        below.plot(t, curve[t - 1], label=label, color=colour, linewidth=1.2)
    above.set_ylabel("regret so far", fontsize=8)
    below.set_ylabel("the certificate's terms", fontsize=8)
    below.set_xlabel("round", fontsize=8)
    _tidy(above, ABOVE)
    rises = np.max(list(terms.values())) > -np.min(list(terms.values()))  # from zero, so that one corner is free
    _tidy(below, {"loc": "upper left" if rises else "lower left", "borderaxespad": 0.2})
    return made


def movement(moved: Array, stale: Array, bounds: dict[str, Array]) -> "Figure":
    """How far each step went, with the bounds on it that are defined somewhere; ticks below mark where it stood still.

    Lengths of no more than rounding's size are left out. Of a long run at most 2000 rounds are drawn.
    """
    made, t = _sheet(0.3 + 1.4 * HEIGHT), _drawn(len(moved))
    ax, curves, size = made.subplots(), {"moved": moved, **bounds}, 2.0 if len(t) > 300 else 3.5
    least = ROUNDING * max(float(np.nanmax(curve, initial=0.0)) for curve in curves.values())
    for (label, curve), colour, order in zip(curves.items(), ("black", *COLOURS), (6, 5, 4, 3), strict=False):
        visible = np.where(curve > least, curve, np.nan)
        if np.isfinite(visible).any():
            ax.plot(t, visible[t - 1], ".", label=label, color=colour, markersize=size, markeredgewidth=0.0, zorder=order)
            ax.set_yscale("log")
    still = t[stale[t - 1] > 0]
    if len(still):
        ticks = {"markersize": 3.0, "markeredgewidth": 0.5, "transform": ax.get_xaxis_transform()}
        ax.plot(still, np.full(len(still), 0.02), "|", color=COLOURS[5], label="stale", **ticks)
    ax.set_ylabel("length of the step, and bounds", fontsize=8)
    ax.set_xlabel("round", fontsize=8)
    _tidy(ax, ABOVE)
    return made


def step(outline: Array, path: Array, x: Array, following: Array, cone: Array, window: Array) -> "Figure":
    """One step in the plane: ``path`` leads from the anchor to y, whose projection is ``following``; ``cone`` is a fan there.

    ``window`` is the lower and the upper corner of what is shown; if that is not the whole set, a sketch tells which part.
    """
    (left, low), (right, high) = window
    made, inch = _sheet(0.4 + WIDTH * (high - low) / (right - left)), (right - left) / (WIDTH - 0.5)
    ax = made.subplots()
    ax.set(xlim=(left, right), ylim=(low, high), aspect="equal")
    ax.tick_params(labelsize=7)
    ax.locator_params(nbins=6)
    ax.fill(*outline.T, label="the set", **PALE)
    lines = np.vstack((path, following))
    if len(cone):
        far = following + 2.0 * np.ptp(window, axis=0).sum() * cone
        ax.fill(*np.vstack((following, far)).T, color=COLOURS[1], alpha=0.3, linewidth=0.0, label="normal cone at $x_{t+1}$")
        ax.plot(*np.vstack((far[0], following, far[-1])).T, color=COLOURS[1], linewidth=1.2)
        lines = np.vstack((lines, far[0], following, far[-1]))
    _arrows(ax, path[:-1], COLOURS[4], 0.012, r"$-g_s/\sigma_t$, $s<t$", inch)
    _arrows(ax, path[-2:], COLOURS[0], 0.02, r"$-g_t/\sigma_t$", inch)
    ax.plot(*np.vstack((path[-1], following)).T, ":", color="black", linewidth=0.9, label="projection")
    busy = np.vstack((outline, *np.linspace(lines[:-1], lines[1:], 100)))
    _name(ax, {r"x_\tau": path[0], "x_t": x, "x_{t+1}": following, "y_{t+1}": path[-1]}, busy, window, inch)
    made.legend(loc="outside lower left", ncols=(len(ax.get_legend_handles_labels()[0]) + 1) // 2, **ROW)  # in two rows
    if (outline < window[0]).any() or (outline > window[1]).any():
        _sketch(made, outline, window)
    return made


def _sheet(height: float) -> "Figure":
    try:
        from matplotlib.figure import Figure
    except ImportError as missing:
        raise ImportError("plot needs matplotlib, which is not installed; pip install 'klazy[cli]'.") from missing
    return Figure(figsize=(WIDTH, height), dpi=200, layout="constrained")


def _drawn(T: int) -> NDArray[np.int64]:
    return np.unique(np.linspace(1, T, DRAWN).astype(np.int64))


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


def _arrows(ax: "Axes", path: Array, colour: str, width: float, label: str, inch: float) -> None:
    steps = np.diff(path, axis=0)
    if steps.any():
        width = min(width, 0.1 * float(np.linalg.norm(steps, axis=1).max()) / inch)  # else short ones are all head
        ax.quiver(*path[:-1].T, *steps.T, color=colour, width=width, label=label, **TO_SCALE)


def _name(ax: "Axes", named: dict[str, Array], busy: Array, window: Array, inch: float) -> None:
    """A dot for each point, and its name where least is drawn already; points that coincide have theirs side by side."""
    turns, points = np.linspace(0.0, 2.0 * np.pi, 32, endpoint=False), np.array(list(named.values()))
    while named:
        point = next(iter(named.values()))
        here = [name for name, other in named.items() if np.abs(other - point).max() < 1e-6 * inch]
        half = inch * np.array([0.13 * len(here), 0.08])
        places = point + (half + 0.05 * inch) * np.column_stack((np.cos(turns), np.sin(turns)))
        gaps = (np.abs(busy - places[:, None]) / half).max(axis=2)  # below one: under the name
        outside = ((places - half < window[0]) | (places + half > window[1])).any(axis=1)
        away = np.linalg.norm(places[:, None] - points, axis=2)
        strange = away.min(axis=1) < np.linalg.norm(places - point, axis=1) - 1e-6 * inch  # another point is nearer
        best = places[np.lexsort((-gaps.min(axis=1), (gaps < 1.0).sum(axis=1), strange, outside))[0]]
        ax.plot(*point, "o", color="black", markerfacecolor="white" if "y_{t+1}" in here else "black", markersize=3.0)
        ax.text(best[0], best[1], "$" + "=".join(here) + "$", fontsize=8, ha="center", va="center", bbox=VEIL)
        busy = np.vstack((busy, np.linspace(best - half, best + half, 40)))
        named = {name: other for name, other in named.items() if name not in here}


def _sketch(made: "Figure", outline: Array, window: Array) -> None:
    """The whole set with the window in it, beside the legend."""
    small = made.add_axes((0.88, 0.01, 0.11, 0.11 * WIDTH / made.get_figheight()), aspect="equal", frameon=False)
    small.set(xticks=[], yticks=[])
    small.fill(*outline.T, **PALE)
    small.plot(window[[0, 1, 1, 0, 0], 0], window[[0, 0, 1, 1, 0], 1], color=COLOURS[3], linewidth=0.8)


def _tidy(ax: "Axes", place: dict[str, Any] | None = None) -> None:
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(which="both", labelsize=7)
    areas = bool(ax.collections)
    ax.margins(x=0.0, y=0.0 if areas else 0.05)
    if not areas:
        ax.grid(linewidth=0.4, alpha=0.5)
    handles, labels = ax.get_legend_handles_labels()
    order = slice(None, None, -1 if areas else 1)  # areas are read from the top
    beside = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0), "borderaxespad": 0.0}
    ax.legend(handles[order], labels[order], **ROW, **(place or beside))
