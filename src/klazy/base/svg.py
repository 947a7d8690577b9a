"""Small SVG pictures of curves and sets, for pages that run no script. Their markup is in ``templates/macros.html``."""

from typing import Any

import numpy as np

from klazy.base.checks import Array
from klazy.base.html import load_macros
from klazy.base.uplot import thin

SPARK_SIZE = (240.0, 72.0)
SPARK_POINTS = 120
# Longer side of a set's outline, in pixels.
OUTLINE_SIDE = 90.0


class Plot:
    """Curves scaled to a picture; ``lines`` has the name and the points of each."""

    def __init__(self, curves: dict[str, Array], from_zero: bool = True) -> None:
        self.width, self.height = SPARK_SIZE
        T = min(map(len, curves.values()))
        at = thin([curve[:T] for curve in curves.values()], SPARK_POINTS)
        values = np.array([curve[at] for curve in curves.values()])
        shown = np.append(values, 0.0) if from_zero else values
        self._high = float(shown.max())
        self._span = (self._high - float(shown.min())) or 1.0
        across = self.width * at / (T - 1)
        self.lines = [
            (name, _format_points(across, self._down(curve)))
            for name, curve in zip(curves, values, strict=True)
        ]
        self.zero = self._down(0.0)

    def _down(self, value: Any) -> Any:
        return self.height * (self._high - value) / self._span


def draw_sparkline(curves: dict[str, Array], label: str = "", from_zero: bool = True) -> str:
    """Draw curves without axes, with a legend unless there is a ``label``; return "" if there is no line to draw."""
    T = min(map(len, curves.values()))
    if T < 2:
        return ""
    plot = Plot(curves, from_zero)
    if not np.isfinite(plot.zero):
        return ""
    return load_macros().sparkline(
        plot, label or f"{', '.join(curves)} over {T} rounds", not label
    )


def draw_outline(around: Array, mark: Array) -> str:
    """Draw a set in the plane, from the points around it, with one point marked."""
    corner = around.min(axis=0)
    scale = OUTLINE_SIDE / (float(np.ptp(around, axis=0).max()) or 1.0)
    width, height = scale * np.ptp(around, axis=0)
    x, y = scale * (around - corner).T
    dot_x, dot_y = scale * (mark - corner)
    return load_macros().outline(
        width, height, _format_points(x, height - y), dot_x, height - dot_y
    )


def _format_points(x: Array, y: Array) -> str:
    pairs = zip(x.tolist(), y.tolist(), strict=True)
    return " ".join(f"{across:.1f},{down:.1f}" for across, down in pairs)
