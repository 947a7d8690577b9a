"""The data of interactive charts, which ``static/klazy.js`` draws: thinned to what a screen shows, with few digits."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from klazy.base.checks import Array
from klazy.base.html import format_number

# Places of a chart: about two for each pixel of its width.
PLACES = 2000
# Curves in one colour each.
MOST_CURVES = 8
# Digits of the largest value of a curve.
CHART_DIGITS = 6


class Curve(NamedTuple):
    """A named line of a chart; ``color`` is one of the stylesheet, ``style`` is line, step, dash, pale, marked or bar."""

    name: str
    values: Array
    color: str = "c0"
    style: str = "line"


def make_curves(
    names: Sequence[str], values: Array, style: str, label: str = "{}"
) -> list[Curve]:
    """Make a curve of each column of values; of many columns the smallest are added up."""
    columns = list(zip(names, values.T, strict=True))
    if len(columns) > MOST_CURVES:
        columns.sort(key=lambda column: -float(np.abs(column[1]).mean()))
        others = columns[MOST_CURVES - 1 :]
        together = np.sum([column for _, column in others], axis=0)
        columns = [*columns[: MOST_CURVES - 1], (f"the other {len(others)} together", together)]
    curves = [
        Curve(label.format(name), each, f"c{i}", style) for i, (name, each) in enumerate(columns)
    ]
    # One demand is grey, because one decision next to it has the colour.
    return [curves[0]._replace(color="faint")] if style == "pale" and len(curves) == 1 else curves


def make_chart(
    x: Array, curves: Sequence[Curve], title: str, most: int = PLACES, **about: Any
) -> dict[str, Any]:
    """Make a chart of curves over ``x``; ``about`` has what else the script knows, such as unit, bands and levels."""
    at = thin([curve.values for curve in curves], most)
    ends = [
        f"{curve.name} {format_number(float(curve.values[-1]), 4)}" for curve in curves if len(at)
    ]
    series = [curve._asdict() | {"y": round_digits(curve.values[at])} for curve in curves]
    for line in series:
        del line["values"]
    # Times are exact to the millisecond, which takes more digits than a curve has.
    places = np.round(x[at], 3).tolist() if about.get("time") else round_digits(x[at], 9)
    label = f"{title}. At the end: {', '.join(ends)}."
    return {"title": title, "label": label, "x": places, "series": series, **about}


def make_levels(lower: Array, upper: Array) -> list[dict[str, Any]]:
    """Make the lines of limits that all coordinates share.

    >>> make_levels(np.zeros(2), np.array([1.0, 2.0]))
    [{'name': 'lower limit', 'value': 0.0}]
    """
    ends = {"lower limit": lower, "upper limit": upper}
    return [
        {"name": name, "value": float(end[0])}
        for name, end in ends.items()
        if (end == end[0]).all()
    ]


def thin(curves: Sequence[Array], most: int = PLACES) -> Any:
    """Choose about ``most`` places of curves at which they are drawn: the ends, and the extremes of each curve in each part.

    >>> spike = np.zeros(100_000)
    >>> spike[77_777] = 1.0
    >>> at = thin([spike], 100)
    >>> len(at) <= 102, spike[at].max()
    (True, np.float64(1.0))
    """
    n = len(curves[0])
    if n <= most:
        return np.arange(n)
    width = -(-n // max(1, most // (2 * len(curves))))
    firsts = np.arange(0, n, width)
    chosen = [np.array([0, n - 1])]
    for values in curves:
        parts = np.append(values, np.full(len(firsts) * width - n, values[-1])).reshape(-1, width)
        for extreme in (parts.argmin(axis=1), parts.argmax(axis=1)):
            chosen.append(np.minimum(firsts + extreme, n - 1))
    return np.unique(np.concatenate(chosen))


def round_digits(values: Array, digits: int = CHART_DIGITS) -> list[float | None]:
    """Return numbers with as many digits as can be seen; None for those that are not finite."""
    finite = np.isfinite(values)
    largest = float(np.abs(values[finite]).max(initial=0.0)) or 1.0
    rounded = np.round(values, digits - 1 - int(np.floor(np.log10(largest))))
    return [
        value if known else None for value, known in zip(rounded.tolist(), finite, strict=True)
    ]
