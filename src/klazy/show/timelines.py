"""Drawings over the rounds: which gradients an update adds up, an example of costs, and the wave of the lower bound."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from klazy.base.checks import Array
from klazy.show.style import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    RED,
    ROW,
    WIDE,
    choose_looks,
    draw_frame,
    draw_legend,
    make_sheet,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STEMS = 150  # rounds; the stems of more would be one area
SET = (-1.0, 1.0)  # on which the lower bound is played


def draw_phases(k: int, T: int) -> "Figure":
    """Draw what GD, LazyGD and k-lazyGD build their next point from, a panel for each.

    Row t is the round in which x_{t+1} is built; its bar covers the gradients that are added up, and a dot marks the anchor
    from which the step starts. One row, the same in all panels, is framed and spelt out below.

    Parameters
    ----------
    k : int
        The slack.
    T : int
        The number of rounds.

    Returns
    -------
    Figure
        A matplotlib figure.

    Examples
    --------
    >>> len(draw_phases(k=3, T=9).axes)
    3
    """
    figure = make_sheet(3.2, WIDE)
    t = np.arange(1, T + 1)
    row = min(T, k + max(2, k // 2))  # in the second phase, where all three differ
    rules = {
        "GD": (t, r"$x_{t+1}=\Pi(x_t-g_t/\sigma)$"),
        "LazyGD": (np.ones_like(t), r"$x_{t+1}=\Pi(x_1-g_{1:t}/\sigma)$"),
        f"k={k}": (t - (t - 1) % k, r"$x_{t+1}=\Pi(x_\tau-g_{\tau:t}/\sigma)$"),
    }
    axes = figure.subplots(1, 3)
    looks = choose_looks(rules)
    for ax, (label, (anchor, rule)) in zip(axes, rules.items(), strict=True):
        _draw_sums(ax, t, anchor, looks[label]["color"])
        _spell_out(ax, row, int(anchor[row - 1]))
        ax.set_title(f"{label.replace('k=', '$k$-lazyGD, $k$ = ')}\n{rule}", fontsize=8)
        starts = t[:: k * -(-T // (6 * k))]  # of phases, six at most
        ax.set(xticks=starts, yticks=starts)
    axes[0].set_ylabel("$t$, the round that builds $x_{t+1}$", fontsize=8)
    handles, labels = axes[-1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, **ROW)
    return figure


def _draw_sums(ax: "Axes", t: NDArray[np.int64], anchor: NDArray[np.int64], colour: str) -> None:
    T = len(t)
    ax.barh(t, t - anchor + 1, 0.84, anchor - 0.5, color=colour, alpha=0.75)
    ax.fill([], [], color=GREY, label="gradients that are added up")  # in the legend of no panel's colour
    ax.vlines(np.arange(1.5, T), 0.5, T + 0.5, color="white", linewidth=0.6)  # cut the bars into gradients
    ax.plot(anchor, t, "o", color="black", markersize=2.4, label="anchor, from which the step starts")
    ax.set(xlim=(0.3, T + 0.7), ylim=(T + 0.7, 0.3), aspect="equal")
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize=7)


def _spell_out(ax: "Axes", row: int, anchor: int) -> None:
    left = anchor - 0.6
    right = row + 0.6
    low = row - 0.6
    high = row + 0.6
    x = [left, right, right, left, left]
    y = [low, low, high, high, low]
    ax.plot(x, y, color="black", linewidth=0.8, label=f"round {row}")
    dots = r"+\dots" if row > anchor + 1 else ""
    added = f"(g_{{{anchor}}}{dots}+g_{{{row}}})" if row > anchor else f"g_{{{row}}}"
    ax.set_xlabel(
        f"$s$, the index of a gradient\n$x_{{{row + 1}}}=\\Pi(x_{{{anchor}}}-{added}/\\sigma)$", fontsize=8
    )


def draw_experts(sigmas: Sequence[float], slacks: Sequence[int], weights: Array, t: int) -> "Figure":
    """The experts of an ensemble in one round: which gradients each adds up, and its weight.

    Parameters
    ----------
    sigmas, slacks : sequence
        Sigma and k of each expert.
    weights : ndarray
        The weight of each.
    t : int
        The round.

    Returns
    -------
    Figure
        A matplotlib figure.
    """
    figure = make_sheet(0.8 + 0.32 * len(slacks), WIDE)
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=(3.0, 1.0))
    places = np.arange(len(slacks))
    anchors = np.array([t - (t - 1) % k for k in slacks])
    left.barh(
        places,
        t - anchors + 1,
        0.7,
        anchors - 0.5,
        color=GREEN,
        alpha=0.6,
        label="gradients that are added up",
    )
    left.plot(anchors, places, "o", color="black", markersize=3.5, label="anchor, from which the step starts")
    left.set(xlim=(0.3, t + 0.9), yticks=places)
    left.set_yticklabels(
        [f"$\\sigma$ = {sigma:.3g}, $k$ = {k}" for sigma, k in zip(sigmas, slacks, strict=True)]
    )
    left.invert_yaxis()
    left.set_xlabel(f"$s$, the index of a gradient, up to round {t}", fontsize=8)
    right.barh(places, weights, 0.7, color=BLUE)
    right.set_xlabel("weight", fontsize=8)
    for ax in (left, right):
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(labelsize=7)
    handles, labels = left.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, **ROW)
    return figure


def draw_sequence(g: Array, sign: Array) -> "Figure":
    """Draw one coordinate of the costs over the rounds, coloured by phase.

    A red cross is a value whose sign is not its phase's. Dashed lines are where a phase ends.

    Parameters
    ----------
    g : array
        The coordinate, of shape (T,).
    sign : array
        The sign of each round's phase, +1 or -1.

    Returns
    -------
    Figure
        A matplotlib figure.
    """
    figure = make_sheet(2.0)
    t = np.arange(1, len(g) + 1)
    ax = figure.subplots()
    size = _choose_marker(len(g))
    wrong = g * sign < 0.0
    for side, colour, marker, label in (
        (1.0, BLUE, "o", "phase of sign +"),
        (-1.0, ORANGE, "s", "phase of sign \N{MINUS SIGN}"),
    ):
        mine = (sign > 0.0) == (side > 0.0)
        if len(g) <= STEMS:
            ax.vlines(t[mine], 0.0, g[mine], color=colour, linewidth=0.7)
        if (mine & ~wrong).any():
            ax.plot(t[mine & ~wrong], g[mine & ~wrong], marker, color=colour, label=label, **size)
    if wrong.any():
        ax.plot(t[wrong], g[wrong], "x", color=RED, label="opposite sign", markeredgewidth=1.2, **size)
    _draw_boundaries(ax, t[1:][sign[1:] != sign[:-1]] - 0.5)
    ax.axhline(0.0, color="black", linewidth=0.6)
    _label_rounds(ax, "$g_t$, one coordinate")
    draw_legend(figure, ax)
    return figure


def draw_wave(g: Array, y: Array, x: Array, u: Array, k: int) -> "Figure":
    """Draw the wave of the lower bound on [-1, 1].

    Dashed lines end the blocks of ``k`` rounds: whenever a block ends, y is back at zero, and so is x.

    Parameters
    ----------
    g : array
        The gradients, of shape (T,).
    y : array
        The unconstrained points.
    x : array
        The points played.
    u : array
        The comparator.
    k : int
        The slack.

    Returns
    -------
    Figure
        A matplotlib figure.
    """
    figure = make_sheet(2.4)
    t = np.arange(1, len(g) + 1)
    ax = figure.subplots()
    ax.axhspan(*SET, color="#F0F0F0", zorder=0.0, label="the set")
    ax.vlines(t, 0.0, g, color=GREY, linewidth=0.8)
    ax.plot(t, g, "s", color=GREY, markersize=3.0, label="gradient $g_t$")
    ax.plot(t, u, "-", color="black", drawstyle="steps-mid", linewidth=1.0, label="comparator $u_t$")
    ax.plot(t, y, "d-", color=GREEN, linewidth=1.0, markersize=4.0, label="unconstrained $y_t$")
    ax.plot(t, x, "o-", color=BLUE, linewidth=1.4, markersize=2.8, label="played $x_t$")
    _draw_boundaries(ax, np.arange(k, len(g) + 1, k) + 0.5)
    ax.axhline(0.0, color="black", linewidth=0.6)
    _label_rounds(ax, "value")
    draw_legend(figure, ax, most=3)
    return figure


def _choose_marker(T: int) -> dict[str, Any]:
    size = 3.5 if T <= STEMS else 2.4
    return {"markersize": size, "linestyle": "none"}


def _draw_boundaries(ax: "Axes", places: NDArray[Any]) -> None:
    for place in places:
        ax.axvline(place, color=GREY, linestyle="--", linewidth=0.8)


def _label_rounds(ax: "Axes", ylabel: str) -> None:
    ax.set_xlabel("round $t$", fontsize=8)
    ax.set_ylabel(ylabel, fontsize=8)
    ax.margins(x=0.02)
    ax.locator_params(axis="x", integer=True)
    draw_frame(ax)
    ax.grid(visible=False, axis="x")
