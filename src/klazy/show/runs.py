"""Figures of one run: its costs, points and weights, its certificate, its steps."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from klazy.base.checks import Array
from klazy.sets import Simplex
from klazy.show.style import (
    ABOVE,
    COLOURS,
    HEIGHT,
    OTHERS,
    choose_rounds,
    format_label,
    make_sheet,
    tidy_axes,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LINES = 10  # coordinates at most, the last of them dashed, in the first colours again
FLAT = 10.0  # a bound this many times what it bounds would press it flat
ROUNDING = 1e-12  # of the largest length drawn, where lengths end and rounding begins


def draw_run(
    hitting: Array,
    switching: Array,
    x: Array | None = None,
    weights: Array | None = None,
    names: Sequence[str] | None = None,
) -> "Figure":
    """Draw running totals of the costs; below them the points and an ensemble's weights, where given.

    Of a long run at most 2000 rounds are drawn, the last always. Points of one simplex are stacked areas, others lines.

    Parameters
    ----------
    hitting : array
        What each round charged, of shape (T,).
    switching : array
        What moving charged, of shape (T,).
    x : array, optional
        The decisions, of shape (T, d).
    weights : array, optional
        An ensemble's weights, of shape (T, N).
    names : sequence of str, optional
        The names of the coordinates.

    Returns
    -------
    Figure
        A matplotlib figure.

    Examples
    --------
    >>> [ax.get_ylabel() for ax in draw_run(np.ones(3), np.zeros(3), np.ones((3, 1))).axes]
    ['cost so far', 'decision']
    """
    panels = 1
    if x is not None:
        panels += 1
    if weights is not None:
        panels += 1
    figure = make_sheet(0.3 + HEIGHT * panels)
    axes = figure.subplots(panels, sharex=True, squeeze=False)[:, 0]
    t = choose_rounds(len(hitting))
    _draw_totals(axes[0], t, hitting, switching)
    if x is not None:
        _draw_decisions(axes[1], t, x, names)
    if weights is not None:
        _draw_areas(axes[-1], t, weights, [f"expert {i}" for i in range(weights.shape[1])])
        axes[-1].set_ylabel("weights of the experts", fontsize=8)
    for ax in axes:
        tidy_axes(ax)
    axes[-1].set_xlabel("round", fontsize=8)
    return figure


def draw_points(x: Array, names: Sequence[str] | None = None) -> "Figure":
    """Draw decisions over the rounds, as :func:`draw_run` does.

    Parameters
    ----------
    x : array
        The decisions, of shape (T, d).
    names : sequence of str, optional
        The names of the coordinates.

    Returns
    -------
    Figure
        A matplotlib figure.

    Examples
    --------
    >>> draw_points(np.array([[0.0], [1.0]])).axes[0].get_ylabel()
    'decision'
    """
    figure = make_sheet(0.3 + HEIGHT)
    ax = figure.subplots()
    _draw_decisions(ax, choose_rounds(len(x)), x, names)
    tidy_axes(ax)
    ax.set_xlabel("round", fontsize=8)
    return figure


def draw_certificate(regret: Array, realised: Array, worst_case: Array, terms: dict[str, Array]) -> "Figure":
    """Draw running regret below its certificate and its bound; below them the terms that the certificate adds up.

    Parameters
    ----------
    regret : array
        The running regret, of shape (T,).
    realised : array
        The certificate.
    worst_case : array
        The bound.
    terms : dict of str to array
        The terms, by name.

    Returns
    -------
    Figure
        A matplotlib figure.
    """
    figure = make_sheet(0.3 + 2.0 * HEIGHT)
    t = choose_rounds(len(regret))
    above, below = figure.subplots(2, sharex=True)
    for label, curve, colour in (
        ("Theorem 5", worst_case, COLOURS[3]),
        ("realised certificate", realised, COLOURS[0]),
        ("regret", regret, "black"),
    ):
        above.plot(t, curve[t - 1], label=label, color=colour, linewidth=1.2)
    largest = float(max(np.abs(regret).max(), np.abs(realised).max()))
    if worst_case[-1] > FLAT * largest > 0.0:  # else regret and certificate would lie on the axis
        above.set_yscale("symlog", linthresh=largest / FLAT)
    colours = [COLOURS[i] for i in (1, 2, 5, 4, 6)]
    for (label, curve), colour in zip(terms.items(), colours, strict=False):
        below.plot(t, curve[t - 1], label=label, color=colour, linewidth=1.2)
    above.set_ylabel("regret so far", fontsize=8)
    below.set_ylabel("the certificate's terms", fontsize=8)
    below.set_xlabel("round", fontsize=8)
    tidy_axes(above, ABOVE)
    values = list(terms.values())
    rises = np.max(values) > -np.min(values)  # from zero, so that one corner is free
    corner = "upper left" if rises else "lower left"
    tidy_axes(below, {"loc": corner, "borderaxespad": 0.2})
    return figure


def draw_movement(moved: Array, stale: Array, bounds: dict[str, Array]) -> "Figure":
    """Draw how far each step went, with the bounds on it that are defined somewhere; ticks below mark where it stood still.

    Lengths of no more than rounding's size are left out. Of a long run at most 2000 rounds are drawn.

    Parameters
    ----------
    moved : array
        The length of each step, of shape (T,).
    stale : array of bool
        Where it stood still against a gradient.
    bounds : dict of str to array
        The bounds, by name, NaN where they are not defined.

    Returns
    -------
    Figure
        A matplotlib figure.
    """
    figure = make_sheet(0.3 + 1.4 * HEIGHT)
    t = choose_rounds(len(moved))
    ax = figure.subplots()
    curves = {"moved": moved, **bounds}
    size = 2.0 if len(t) > 300 else 3.5
    least = ROUNDING * max(float(np.nanmax(curve, initial=0.0)) for curve in curves.values())
    for (label, curve), colour, order in zip(curves.items(), ("black", *COLOURS), (6, 5, 4, 3), strict=False):
        visible = np.where(curve > least, curve, np.nan)
        if np.isfinite(visible).any():
            ax.plot(
                t,
                visible[t - 1],
                ".",
                label=label,
                color=colour,
                markersize=size,
                markeredgewidth=0.0,
                zorder=order,
            )
            ax.set_yscale("log")
    still = t[stale[t - 1] > 0]
    if len(still):
        ticks = {"markersize": 3.0, "markeredgewidth": 0.5, "transform": ax.get_xaxis_transform()}
        ax.plot(still, np.full(len(still), 0.02), "|", color=COLOURS[5], label="stale", **ticks)
    ax.set_ylabel("length of the step, and bounds", fontsize=8)
    ax.set_xlabel("round", fontsize=8)
    tidy_axes(ax, ABOVE)
    return figure


def _draw_totals(ax: "Axes", t: NDArray[np.int64], hitting: Array, switching: Array) -> None:
    hit = np.cumsum(hitting)[t - 1]
    moved = np.cumsum(switching)[t - 1]
    for label, paid, colour in (
        ("cost", hit + moved, "black"),
        ("hitting", hit, COLOURS[0]),
        ("switching", moved, COLOURS[1]),
    ):
        ax.plot(t, paid, label=label, color=colour, linewidth=1.2)
    ax.set_ylabel("cost so far", fontsize=8)


def _draw_decisions(ax: "Axes", t: NDArray[np.int64], x: Array, names: Sequence[str] | None) -> None:
    d = x.shape[1]
    labels = [f"$x_{{{i + 1}}}$" for i in range(d)]
    if names is not None:
        labels = [format_label(name) for name in names]
    total = float(x[0].sum())
    if total > 0.0 and Simplex(d, total).contains(x):
        _draw_areas(ax, t, x, labels)
    else:
        for i in range(min(d, LINES)):
            again, colour = divmod(i, len(COLOURS))
            dash = "--" if again else "-"
            (line,) = ax.plot(t, x[t - 1, i], dash, color=COLOURS[colour], linewidth=0.8)
            line.set(label=labels[i], drawstyle="steps-mid")
        if d > LINES:
            ax.set_title(f"the first {LINES} of {d} coordinates", fontsize=8)
    ax.set_ylabel("decision", fontsize=8)


def _draw_areas(ax: "Axes", t: NDArray[np.int64], shares: Array, names: Sequence[str]) -> None:
    """Columns of ``shares``, stacked; those that lead oftenest and are largest on average have a name and a colour."""
    n = shares.shape[1]
    most = len(COLOURS)
    size = shares.mean(axis=0) / shares[0].sum()
    leads = np.bincount(shares.argmax(axis=1), minlength=n) / len(shares)
    prominence = size + leads
    shown = np.sort(np.argsort(-prominence, kind="stable")[:most])
    kept = shares[t - 1][:, shown]
    places: list[int] = shown.tolist()
    labels = [names[i] for i in places]
    if n > most:
        kept = np.column_stack((kept, shares[t - 1].sum(axis=1) - kept.sum(axis=1)))
        labels = [*labels, "others"]
    ax.stackplot(t, kept.T, labels=labels, colors=[*COLOURS[: len(shown)], OTHERS], linewidth=0.0, step="mid")
