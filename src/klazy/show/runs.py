"""Figures over the rounds: a run and its decisions, its certificate and its steps, and the paper's drawings of updates."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from klazy.base.checks import Array
from klazy.sets import Simplex
from klazy.show.replays import mark_dates
from klazy.show.style import (
    BLUE,
    GREEN,
    GREY,
    HEIGHT,
    LEGEND,
    ORANGE,
    OTHERS,
    PALETTE,
    PURPLE,
    RED,
    SKY,
    WIDE,
    YELLOW,
    choose_looks,
    choose_rounds,
    draw_frame,
    draw_legend,
    draw_legend_below,
    format_label,
    make_axes,
    make_tiles,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# At most this many coordinates are drawn of a run, where colours repeat as dashes, and of several contenders.
LINES = 10
COMPARED_LINES = 7
# A bound that is larger than this many times the regret would press it flat.
FLAT = 10.0
# Lengths below this share of the largest are rounding errors.
LENGTH_ROUNDING = 1e-12
# In rounds: more stems would merge into one area.
STEMS = 150
# The set on which the lower bound is played.
SEGMENT = (-1.0, 1.0)
ABOVE: dict[str, Any] = {
    "loc": "lower center",
    "bbox_to_anchor": (0.5, 1.0),
    "ncols": 5,
    "markerscale": 2.0,
}
NEXT: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0), "borderaxespad": 0.0}


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
    panels = 1 + (x is not None) + (weights is not None)
    figure, grid = make_axes(0.3 + HEIGHT * panels, nrows=panels, sharex=True, squeeze=False)
    axes = grid[:, 0]
    t = choose_rounds(len(hitting))
    hit = np.cumsum(hitting)
    moved = np.cumsum(switching)
    totals = {"cost": hit + moved, "hitting": hit, "switching": moved}
    _draw_lines(axes[0], t, totals, ("black", BLUE, ORANGE))
    labels = ["cost so far"]
    if x is not None:
        _draw_coordinates(axes[1], t, x, names)
        labels.append("decision")
    if weights is not None:
        _draw_areas(axes[-1], t, weights, [f"expert {i}" for i in range(weights.shape[1])])
        labels.append("weights of the experts")
    for ax, label in zip(axes, labels, strict=True):
        _tidy(ax, NEXT, label)
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
    figure, ax = make_axes(0.3 + HEIGHT)
    _draw_coordinates(ax, choose_rounds(len(x)), x, names)
    _tidy(ax, NEXT, "decision", "round")
    return figure


def draw_certificate(
    regret: Array, realised: Array, worst_case: Array, terms: dict[str, Array]
) -> "Figure":
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
    figure, (above, below) = make_axes(0.3 + 2.0 * HEIGHT, nrows=2, sharex=True)
    t = choose_rounds(len(regret))
    curves = {"Theorem 5": worst_case, "realised certificate": realised, "regret": regret}
    _draw_lines(above, t, curves, (RED, BLUE, "black"))
    largest = float(max(np.abs(regret).max(), np.abs(realised).max()))
    if worst_case[-1] > FLAT * largest > 0.0:
        above.set_yscale("symlog", linthresh=largest / FLAT)
    _draw_lines(below, t, terms, (ORANGE, GREEN, PURPLE, SKY, YELLOW))
    _tidy(above, ABOVE, "regret so far")
    # The terms start at zero, so that one corner is free.
    values = list(terms.values())
    corner = "upper left" if np.max(values) > -np.min(values) else "lower left"
    _tidy(below, {"loc": corner, "borderaxespad": 0.2}, "the certificate's terms", "round")
    return figure


def draw_movement(moved: Array, stale: Array, bounds: dict[str, Array]) -> "Figure":
    """Draw how far each step went, with the bounds on it that are defined somewhere; ticks below mark where it did not move.

    Lengths of no more than rounding's size are left out. Of a long run at most 2000 rounds are drawn.

    Parameters
    ----------
    moved : array
        The length of each step, of shape (T,).
    stale : array of bool
        Where it did not move, against a gradient.
    bounds : dict of str to array
        The bounds, by name, NaN where they are not defined.

    Returns
    -------
    Figure
        A matplotlib figure.
    """
    figure, ax = make_axes(0.3 + 1.4 * HEIGHT)
    t = choose_rounds(len(moved))
    curves = {"moved": moved, **bounds}
    size = 2.0 if len(t) > 300 else 3.5
    least = LENGTH_ROUNDING * max(
        float(np.nanmax(curve, initial=0.0)) for curve in curves.values()
    )
    for (label, curve), colour, order in zip(
        curves.items(), ("black", *PALETTE), (6, 5, 4, 3), strict=False
    ):
        visible = np.where(curve > least, curve, np.nan)
        if np.isfinite(visible).any():
            look = {"color": colour, "markersize": size, "zorder": order}
            ax.plot(t, visible[t - 1], ".", markeredgewidth=0.0, label=label, **look)
            ax.set_yscale("log")
    still = t[stale[t - 1] > 0]
    if len(still):
        ticks = {"markersize": 3.0, "markeredgewidth": 0.5, "transform": ax.get_xaxis_transform()}
        ax.plot(still, np.full(len(still), 0.02), "|", color=PURPLE, label="stale", **ticks)
    _tidy(ax, ABOVE, "length of the step, and bounds", "round")
    return figure


def draw_decisions(
    rounds: NDArray[Any],
    points: dict[str, Array],
    names: Sequence[str],
    shares: bool,
    demand: Array | None = None,
    xlabel: str = "round",
) -> "Figure":
    """Draw what some contenders decided over the rounds, a panel each.

    Parameters
    ----------
    rounds : array
        The rounds, or dates.
    points : dict of str to array
        The decisions, of shape (T, d), by contender.
    names : sequence of str
        The names of the coordinates.
    shares : bool
        Whether decisions are shares: areas, else lines.
    demand : array, optional
        What the decisions should meet, drawn behind the lines in paler ones of their colours.
    xlabel : str, optional
        What the axis shows. Default: ``"round"``.

    Returns
    -------
    Figure
        A matplotlib figure.
    """
    figure, grid = make_tiles(len(points), 2.2)
    names = [format_label(name) for name in names]
    sizes = np.sum([np.abs(x).mean(axis=0) for x in points.values()], axis=0)
    shown = _find_largest(sizes, COMPARED_LINES)
    for ax, (title, x) in zip(grid, points.items(), strict=True):
        if shares:
            _stack(ax, rounds, x, shown, names, "post")
            ax.margins(0.0)
        else:
            for i, colour in zip(shown, PALETTE, strict=False):
                if demand is not None:
                    pale = GREY if len(names) == 1 else colour
                    ax.plot(
                        rounds, demand[:, i], color=pale, alpha=0.35, linewidth=0.5, zorder=1.9
                    )
                ax.step(
                    rounds, x[:, i], where="post", label=names[i], color=colour, linewidth=0.8
                )
            if ax is not grid[0]:
                ax.sharey(grid[0])
        ax.set_title(title, fontsize=8)
        mark_dates(ax, rounds, few=True)
        draw_frame(ax, xlabel)
    draw_legend(figure, *grid, most=8)
    return figure


def _draw_lines(
    ax: "Axes", t: NDArray[np.int64], curves: dict[str, Array], colours: Sequence[str]
) -> None:
    for (label, curve), colour in zip(curves.items(), colours, strict=False):
        ax.plot(t, curve[t - 1], label=label, color=colour, linewidth=1.2)


def _draw_coordinates(
    ax: "Axes", t: NDArray[np.int64], x: Array, names: Sequence[str] | None
) -> None:
    """Draw decisions as areas if they share one total, else as lines."""
    d = x.shape[1]
    labels = [f"$x_{{{i + 1}}}$" for i in range(d)]
    if names is not None:
        labels = [format_label(name) for name in names]
    total = float(x[0].sum())
    if total > 0.0 and Simplex(d, total).contains(x):
        _draw_areas(ax, t, x, labels)
    else:
        for i in range(min(d, LINES)):
            again, colour = divmod(i, len(PALETTE))
            dash = "--" if again else "-"
            ax.step(
                t,
                x[t - 1, i],
                dash,
                where="mid",
                label=labels[i],
                color=PALETTE[colour],
                linewidth=0.8,
            )
        if d > LINES:
            ax.set_title(f"the first {LINES} of {d} coordinates", fontsize=8)


def _draw_areas(ax: "Axes", t: NDArray[np.int64], shares: Array, names: Sequence[str]) -> None:
    """Stack columns of ``shares``; the ones that lead most often and are largest on average have a name and a colour."""
    leads = np.bincount(shares.argmax(axis=1), minlength=shares.shape[1]) / len(shares)
    prominence = shares.mean(axis=0) / shares[0].sum() + leads
    _stack(ax, t, shares[t - 1], _find_largest(prominence, len(PALETTE)), names, "mid")


def _find_largest(sizes: Array, most: int) -> list[int]:
    """Return where the largest sizes are, in ascending order."""
    return np.sort(np.argsort(-sizes, kind="stable")[:most]).tolist()


def _stack(
    ax: "Axes", t: NDArray[Any], shares: Array, shown: list[int], names: Sequence[str], step: Any
) -> None:
    """Draw the shown columns as stacked areas, and the others as one more."""
    parts = shares[:, shown]
    labels = [names[i] for i in shown]
    if len(shown) < shares.shape[1]:
        parts = np.column_stack((parts, shares.sum(axis=1) - parts.sum(axis=1)))
        labels.append("others")
    colours = [*PALETTE[: len(shown)], OTHERS]
    ax.stackplot(t, parts.T, labels=labels, colors=colours, linewidth=0.0, step=step)


def _tidy(ax: "Axes", place: dict[str, Any], ylabel: str, xlabel: str = "") -> None:
    """Draw frame and legend of a figure of a run."""
    areas = bool(ax.collections)
    draw_frame(ax, xlabel, ylabel, grid=not areas)
    ax.margins(x=0.0, y=0.0 if areas else 0.05)
    # Areas are read from the top.
    ax.legend(*ax.get_legend_handles_labels(), reverse=areas, **LEGEND, **place)


def draw_phases(k: int, T: int) -> "Figure":
    """Draw what GD, LazyGD and k-lazyGD build their next point from, a panel for each.

    Row t is the round in which x_{t+1} is built; its bar covers the gradients that are added up, and a dot marks the anchor
    from which the step starts. One row, the same in all panels, is framed and written out below.

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
    figure, axes = make_axes(3.2, WIDE, ncols=3)
    t = np.arange(1, T + 1)
    # In the second phase all three rules differ.
    row = min(T, k + max(2, k // 2))
    rules = {
        "GD": (t, r"$x_{t+1}=\Pi(x_t-g_t/\sigma)$"),
        "LazyGD": (np.ones_like(t), r"$x_{t+1}=\Pi(x_1-g_{1:t}/\sigma)$"),
        f"k={k}": (t - (t - 1) % k, r"$x_{t+1}=\Pi(x_\tau-g_{\tau:t}/\sigma)$"),
    }
    looks = choose_looks(rules)
    # The first rounds of phases, six at most.
    starts = t[:: k * -(-T // (6 * k))]
    for ax, (label, (anchors, rule)) in zip(axes, rules.items(), strict=True):
        ax.barh(t, t - anchors + 1, 0.84, anchors - 0.5, color=looks[label]["color"], alpha=0.75)
        # The legend is grey, because each panel has a colour of its own.
        ax.fill([], [], color=GREY, label="gradients that are added up")
        # White lines cut the bars into gradients.
        ax.vlines(np.arange(1.5, T), 0.5, T + 0.5, color="white", linewidth=0.6)
        ax.plot(
            anchors,
            t,
            "o",
            color="black",
            markersize=2.4,
            label="anchor, from which the step starts",
        )
        ax.set(xlim=(0.3, T + 0.7), ylim=(T + 0.7, 0.3), aspect="equal")
        anchor = int(anchors[row - 1])
        left = anchor - 0.6
        low, high = row - 0.6, row + 0.6
        frame = {"color": "black", "linewidth": 0.8, "label": f"round {row}"}
        ax.plot([left, high, high, left, left], [low, low, high, high, low], **frame)
        dots = r"+\dots" if row > anchor + 1 else ""
        added = f"(g_{{{anchor}}}{dots}+g_{{{row}}})" if row > anchor else f"g_{{{row}}}"
        step = f"$x_{{{row + 1}}}=\\Pi(x_{{{anchor}}}-{added}/\\sigma)$"
        draw_frame(ax, f"$s$, the index of a gradient\n{step}", grid=False)
        ax.set_title(f"{label.replace('k=', '$k$-lazyGD, $k$ = ')}\n{rule}", fontsize=8)
        ax.set(xticks=starts, yticks=starts)
    axes[0].set_ylabel("$t$, the round that builds $x_{t+1}$", fontsize=8)
    draw_legend_below(figure, axes[-1], 3)
    return figure


def draw_experts(
    sigmas: Sequence[float], slacks: Sequence[int], weights: Array, t: int
) -> "Figure":
    """Draw the experts of an ensemble in one round: which gradients each adds up, and its weight.

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
    shape = {"ncols": 2, "sharey": True, "width_ratios": (3.0, 1.0)}
    figure, (left, right) = make_axes(0.8 + 0.32 * len(slacks), WIDE, **shape)
    places = np.arange(len(slacks))
    anchors = np.array([t - (t - 1) % k for k in slacks])
    style = {"color": GREEN, "alpha": 0.6, "label": "gradients that are added up"}
    left.barh(places, t - anchors + 1, 0.7, anchors - 0.5, **style)
    left.plot(
        anchors,
        places,
        "o",
        color="black",
        markersize=3.5,
        label="anchor, from which the step starts",
    )
    experts = [
        f"$\\sigma$ = {sigma:.3g}, $k$ = {k}" for sigma, k in zip(sigmas, slacks, strict=True)
    ]
    left.set(xlim=(0.3, t + 0.9), yticks=places, yticklabels=experts)
    left.invert_yaxis()
    right.barh(places, weights, 0.7, color=BLUE)
    draw_frame(left, f"$s$, the index of a gradient, up to round {t}", grid=False)
    draw_frame(right, "weight", grid=False)
    draw_legend_below(figure, left, 2)
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
    figure, ax = make_axes(2.0)
    t = np.arange(1, len(g) + 1)
    size = {"markersize": 3.5 if len(g) <= STEMS else 2.4, "linestyle": "none"}
    wrong = g * sign < 0.0
    for mine, colour, marker, label in (
        (sign > 0.0, BLUE, "o", "phase of sign +"),
        (sign <= 0.0, ORANGE, "s", "phase of sign \N{MINUS SIGN}"),
    ):
        if len(g) <= STEMS:
            ax.vlines(t[mine], 0.0, g[mine], color=colour, linewidth=0.7)
        right = mine & ~wrong
        if right.any():
            ax.plot(t[right], g[right], marker, color=colour, label=label, **size)
    if wrong.any():
        ax.plot(
            t[wrong], g[wrong], "x", color=RED, label="opposite sign", markeredgewidth=1.2, **size
        )
    _finish_rounds(ax, t[1:][sign[1:] != sign[:-1]] - 0.5, "$g_t$, one coordinate")
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
    figure, ax = make_axes(2.4)
    t = np.arange(1, len(g) + 1)
    ax.axhspan(*SEGMENT, color="#F0F0F0", zorder=0.0, label="the set")
    ax.vlines(t, 0.0, g, color=GREY, linewidth=0.8)
    ax.plot(t, g, "s", color=GREY, markersize=3.0, label="gradient $g_t$")
    ax.plot(
        t, u, "-", color="black", drawstyle="steps-mid", linewidth=1.0, label="comparator $u_t$"
    )
    ax.plot(t, y, "d-", color=GREEN, linewidth=1.0, markersize=4.0, label="unconstrained $y_t$")
    ax.plot(t, x, "o-", color=BLUE, linewidth=1.4, markersize=2.8, label="played $x_t$")
    _finish_rounds(ax, np.arange(k, len(g) + 1, k) + 0.5, "value")
    draw_legend(figure, ax, most=3)
    return figure


def _finish_rounds(ax: "Axes", ends: NDArray[Any], ylabel: str) -> None:
    """Draw the ends of phases, a line at zero, and the frame."""
    for place in ends:
        ax.axvline(place, color=GREY, linestyle="--", linewidth=0.8)
    ax.axhline(0.0, color="black", linewidth=0.6)
    ax.margins(x=0.02)
    ax.locator_params(axis="x", integer=True)
    draw_frame(ax, "round $t$", ylabel)
    ax.grid(visible=False, axis="x")
