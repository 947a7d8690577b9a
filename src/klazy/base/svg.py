"""Small SVG pictures of curves and sets, for pages that run no script. Their markup is in ``templates/macros.html``."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from klazy.base.checks import Array
from klazy.base.html import format_number, load_macros

SPARK_SIZE = (240.0, 72.0)
# Sizes of a chart on a wide screen and on a phone. A page contains both and shows one.
CHART_SIZES = {"broad": (652.0, 224.0), "narrow": (272.0, 204.0)}
SPARK_POINTS = 120
CHART_POINTS = 400
# Columns of a chart over which a browser shows the values.
HOVER_PLACES = 120
PIXELS_PER_TICK = 90
# Longer side of a set's outline, in pixels.
OUTLINE_SIDE = 90.0


class Plot:
    """Curves over rounds, scaled to a picture of this size; ``lines`` has the name and the points of each."""

    def __init__(
        self,
        t: Array,
        curves: dict[str, Array],
        size: tuple[float, float],
        points: int,
        from_zero: bool = True,
    ) -> None:
        self.width, self.height = size
        self._t = t
        self._curves = curves
        at = _spread(len(t), points)
        values = np.array([curve[at] for curve in curves.values()])
        shown = np.append(values, 0.0) if from_zero else values
        self._low = float(shown.min())
        self._high = float(shown.max())
        self._span = (self._high - self._low) or 1.0
        self._duration = float(t[-1] - t[0]) or 1.0
        across = self._across(t[at])
        self.lines = [
            (name, _format_points(across, self._down(curve)))
            for name, curve in zip(curves, values, strict=True)
        ]
        self.zero = self._down(0.0)

    def _across(self, t: Any) -> Any:
        return self.width * (t - self._t[0]) / self._duration

    def _down(self, value: Any) -> Any:
        return self.height * (self._high - value) / self._span

    @property
    def ticks(self) -> list[tuple[str, float]]:
        """Four or so round values, and where they are."""
        step = 10.0 ** np.floor(np.log10(self._span / 4))
        step *= next(factor for factor in (1, 2, 5, 10) if self._span / (step * factor) <= 5)
        values = step * np.arange(np.ceil(self._low / step), np.floor((self._low + self._span) / step) + 1)
        return [(format_number(value, 4), self._down(value)) for value in values.tolist()]

    @property
    def rounds(self) -> list[tuple[int, float]]:
        """A few rounds, and where they are."""
        count = min(int(self.width / PIXELS_PER_TICK), int(self._duration) + 1)
        rounds = np.unique(np.linspace(self._t[0], self._t[-1], count).round())
        return [(int(t), float(self._across(t))) for t in rounds]

    @property
    def columns(self) -> list[tuple[float, float, str]]:
        """Columns of the picture: where each begins, its width, and the values of its round."""
        at = _spread(len(self._t), HOVER_PLACES)
        middles = self._across(self._t[at])
        edges = np.concatenate(([0.0], (middles[1:] + middles[:-1]) / 2, [self.width]))
        columns = []
        for i, place in enumerate(at):
            texts = [f"round {int(self._t[place])}"]
            texts += [
                f"{name}: {format_number(float(values[place]), 4)}" for name, values in self._curves.items()
            ]
            columns.append((edges[i], max(0.5, edges[i + 1] - edges[i]), "\n".join(texts)))
        return columns


def draw_chart(t: Array, curves: dict[str, Array], title: str, dashed: Sequence[str] = ()) -> str:
    """Draw curves over the rounds ``t`` with axes, a legend, and the values where one points at them."""
    plots = {kind: Plot(t, curves, size, CHART_POINTS) for kind, size in CHART_SIZES.items()}
    label = f"{title}, rounds {int(t[0])} to {int(t[-1])}"
    return load_macros().chart(plots, label, dashed)


def draw_sparkline(curves: dict[str, Array], label: str = "", from_zero: bool = True) -> str:
    """Draw curves without axes, with a legend unless there is a ``label``; return "" if there is no line to draw."""
    T = min(map(len, curves.values()))
    if T < 2:
        return ""
    plot = Plot(np.arange(float(T)), curves, SPARK_SIZE, SPARK_POINTS, from_zero)
    if not np.isfinite(plot.zero):
        return ""
    return load_macros().sparkline(plot, label or f"{', '.join(curves)} over {T} rounds", not label)


def draw_outline(around: Array, mark: Array) -> str:
    """Draw a set in the plane, from the points around it, with one point marked."""
    corner = around.min(axis=0)
    scale = OUTLINE_SIDE / (float(np.ptp(around, axis=0).max()) or 1.0)
    width, height = scale * np.ptp(around, axis=0)
    x, y = scale * (around - corner).T
    dot_x, dot_y = scale * (mark - corner)
    return load_macros().outline(width, height, _format_points(x, height - y), dot_x, height - dot_y)


def _spread(count: int, most: int) -> Any:
    """Return at most ``most`` indices from 0 to ``count - 1``, the first and the last among them."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).astype(np.int64))


def _format_points(x: Array, y: Array) -> str:
    pairs = zip(x.tolist(), y.tolist(), strict=True)
    return " ".join(f"{across:.1f},{down:.1f}" for across, down in pairs)
