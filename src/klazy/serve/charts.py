"""Charts as SVG, drawn here: a page runs no script and loads nothing. Colours are the page's, so that both themes fit."""

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from klazy.base.checks import Array

SIZES = {
    "broad": (720, 260),
    "narrow": (340, 240),
}  # for a desk and for a phone, which shows the second one only
LEFT = 56
BOTTOM = 26
TOP = 10
RIGHT = 12
COLUMNS = 120  # places at which a value can be read
POINTS = 400  # of a line at most
COLOURS = 8


def draw_lines(t: Array, lines: dict[str, Array], title: str, dashed: Sequence[str] = ()) -> str:
    """Lines over the rounds ``t`` with axes, a legend, and the values where one points at them."""
    pictures = [_Chart(t, lines, kind).draw(title, dashed) for kind in SIZES]
    return "".join(pictures) + _draw_legend(list(lines))


class _Chart:
    """One chart of a size: where its rounds and values lie."""

    def __init__(self, t: Array, lines: dict[str, Array], kind: str) -> None:
        self.t = t
        self.lines = lines
        self.kind = kind
        self.width, self.height = SIZES[kind]
        stacked = np.array(list(lines.values()))
        self.low = min(float(stacked.min()), 0.0)
        self.high = max(float(stacked.max()), 0.0)
        if self.high == self.low:
            self.high = self.low + 1.0
        self.first = float(t[0])
        self.last = max(float(t[-1]), self.first + 1.0)

    def across(self, at: Any) -> Any:
        """Where rounds lie, from the left."""
        return LEFT + (self.width - LEFT - RIGHT) * (at - self.first) / (self.last - self.first)

    def down(self, value: Any) -> Any:
        """Where values lie, from the top."""
        return TOP + (self.height - TOP - BOTTOM) * (self.high - value) / (self.high - self.low)

    def draw(self, title: str, dashed: Sequence[str]) -> str:
        parts = self._draw_axes()
        at = np.unique(np.linspace(0, len(self.t) - 1, min(len(self.t), POINTS)).astype(np.int64))
        for i, (name, values) in enumerate(self.lines.items()):
            kind = "line dashed" if name in dashed else "line"
            places = _format_places(self.across(self.t[at]), self.down(values[at]))
            parts.append(f'<polyline class="{kind} s{i % COLOURS}" points="{places}"/>')
        parts += self._draw_columns()
        label = escape(f"{title}, rounds {int(self.first)} to {int(self.t[-1])}")
        about = f'viewBox="0 0 {self.width} {self.height}" role="img" aria-label="{label}"'
        return f'<svg class="chart {self.kind}" {about}>{"".join(parts)}</svg>'

    def _draw_axes(self) -> list[str]:
        parts = []
        for tick in _choose_ticks(self.low, self.high):
            y = float(self.down(tick))
            parts.append(
                f'<line class="rule" x1="{LEFT}" x2="{self.width - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
            )
            parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{_spell(tick)}</text>')
        count = self.width // 110
        for tick in _choose_rounds(self.first, self.last, count):
            x = float(self.across(tick))
            parts.append(f'<text x="{x:.1f}" y="{self.height - 6}" text-anchor="middle">{tick}</text>')
        return parts

    def _draw_columns(self) -> list[str]:
        """Invisible columns that show the values at their round when one points at them."""
        at = np.unique(np.linspace(0, len(self.t) - 1, min(len(self.t), COLUMNS)).astype(np.int64))
        x = self.across(self.t[at])
        edges = np.concatenate(([float(LEFT)], (x[1:] + x[:-1]) / 2, [float(self.width - RIGHT)]))
        down = f'y="{TOP}" height="{self.height - TOP - BOTTOM}"'
        parts = []
        for i, place in enumerate(at):
            said = [f"round {int(self.t[place])}"]
            said += [f"{name}: {_spell(float(values[place]))}" for name, values in self.lines.items()]
            wide = max(0.5, edges[i + 1] - edges[i])
            title = f"<title>{escape(chr(10).join(said))}</title>"
            parts.append(f'<rect class="hit" x="{edges[i]:.1f}" width="{wide:.1f}" {down}>{title}</rect>')
        return parts


def _draw_legend(names: list[str]) -> str:
    keys = []
    for i, name in enumerate(names):
        keys.append(f'<li><span class="key b{i % COLOURS}"></span>{escape(name)}</li>')
    return f'<ul class="legend">{"".join(keys)}</ul>'


def draw_spark(values: Array, label: str) -> str:
    """A small line without axes."""
    if len(values) < 2:
        return ""
    low = float(values.min())
    high = float(values.max())
    if high == low:
        high = low + 1.0
    x = np.linspace(2, 238, len(values))
    y = 44 - 40 * (values - low) / (high - low)
    line = f'<polyline class="line s0" points="{_format_places(x, y)}"/>'
    about = f'viewBox="0 0 240 48" preserveAspectRatio="none" role="img" aria-label="{escape(label)}"'
    return f'<svg class="spark" {about}>{line}</svg>'


def draw_bar(share: float) -> str:
    """A bar filled to this share."""
    width = 100.0 * min(1.0, max(0.0, share))
    inside = (
        f'<rect class="track" width="100" height="10"/><rect class="fill" width="{width:.2f}" height="10"/>'
    )
    return f'<svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">{inside}</svg>'


def _choose_ticks(low: float, high: float) -> list[float]:
    """Four or so round numbers."""
    step = 10.0 ** np.floor(np.log10((high - low) / 4))
    for factor in (1, 2, 5, 10):
        if (high - low) / (step * factor) <= 5:
            step *= factor
            break
    first = np.ceil(low / step)
    count = int(np.floor(high / step) - first) + 1
    return [float((first + i) * step) for i in range(count)]


def _choose_rounds(first: float, last: float, most: int) -> list[int]:
    count = min(most, int(last - first) + 1)
    return sorted({round(float(at)) for at in np.linspace(first, last, count)})


def _spell(value: float) -> str:
    return f"{value:.4g}".replace("-", "\N{MINUS SIGN}")


def _format_places(x: Array, y: Array) -> str:
    pairs = zip(x.tolist(), y.tolist(), strict=True)
    return " ".join(f"{across:.1f},{down:.1f}" for across, down in pairs)
