"""HTML that needs nothing beside it: whole pages, and the cards that notebooks show of an object.

Figures are inside, nothing is loaded, no script runs. A notebook that is not trusted drops style and pictures; what is
left still reads well.
"""

import base64
from collections.abc import Sequence
from html import escape
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from klazy.base.checks import Array

PAGE = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<link rel="icon" href="data:,">
<style>
body { font: 16px/1.5 system-ui, sans-serif; color: #1a1a1a; background: #fff; }
body { max-width: 72rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.7rem; } h2 { margin-top: 2.5rem; border-bottom: 1px solid #ccc; } h3 { margin-top: 2rem; }
p { max-width: 48rem; } .small { font-size: .8rem; color: #444; overflow-wrap: anywhere; }
.warn { background: #fff3cd; padding: .5rem 1rem; } .answer { font-size: 1.15rem; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: .85rem; margin: 1rem 0; }
th, td { padding: .2rem .7rem; text-align: right; border-bottom: 1px solid #ddd; } th { background: #f4f4f4; }
.word { text-align: left; }
.figures { display: grid; grid-template-columns: repeat(auto-fill, minmax(19rem, 1fr)); gap: 1rem; }
figure { margin: 0; } figure.broad { grid-column: 1 / -1; } img { width: 100%; height: auto; }
figure.broad { overflow-x: auto; } figure.broad img { min-width: 36rem; }
figcaption { font-size: .8rem; color: #444; }
nav ul { columns: 18rem; padding-left: 1.2rem; } code { background: #f4f4f4; padding: 0 .2rem; }
$style</style>
</head>
<body>
$body
</body>
</html>
""")


def make_page(title: str, body: str, style: str = "") -> str:
    """A whole page; ``style`` are rules of its own."""
    return PAGE.substitute(title=escape(title), body=body, style=style)


def make_table(rows: Sequence[dict[str, Any]], digits: int = 7) -> str:
    """Words to the left, numbers to the right."""
    kinds = {}
    head = ""
    for name, value in rows[0].items():
        kinds[name] = ' class="word"' if isinstance(value, str) else ""
        title = escape(name.replace("_", " "))
        head += f"<th scope=col{kinds[name]}>{title}</th>"
    body = ""
    for row in rows:
        cells = [f"<td{kind}>{_format_cell(row[name], digits)}</td>" for name, kind in kinds.items()]
        body += f"<tr>{''.join(cells)}</tr>"
    return f'<div class="wide" tabindex="0"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _format_cell(value: Any, digits: int) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.{digits}g}"
    return escape(str(value))


def make_paragraph(said: str, kind: str = "") -> str:
    text = escape(said)
    return f'<p class="{kind}">{text}</p>' if kind else f"<p>{text}</p>"


def embed_figure(file: Path, caption: str, broad: bool = False) -> str:
    """An SVG file with its caption, as wide as the page if it is broad."""
    data = base64.b64encode(file.read_bytes()).decode()
    image = f'<img alt="{escape(caption)}" src="data:image/svg+xml;base64,{data}">'
    kind = ' class="broad"' if broad else ""
    return f"<figure{kind}>{image}<figcaption>{escape(caption)}</figcaption></figure>"


POINTS = 120  # of a curve at most: two pixels apart, and a few kilobytes
# pixels of a picture of curves
WIDTH = 240.0
HEIGHT = 72.0
SIDE = 90.0  # pixels of a set's longer side
# Told apart on white and on black, by the colour-blind too.
COLOURS = ("#0072B2", "#D55E00", "currentColor")
OPEN = 6  # rows: a longer list is folded
# The class is named twice so that these rules weigh more than those that JupyterLab has for tables.
STYLE = """<style>
& { font-size: .9em; line-height: 1.4; overflow-wrap: anywhere; }
& p { margin: .2em 0; } & .faint { opacity: .7; } & summary { cursor: pointer; }
& .row { display: flex; flex-wrap: wrap; gap: .5em 2em; align-items: center; } & .row > * { min-width: 0; max-width: 100%; }
& dl { display: grid; grid-template-columns: max-content minmax(0, 1fr); width: fit-content; max-width: 100%; margin: .3em 0; }
& dt, & dd, & th, & td { margin: 0; padding: .15em .6em; border: 0; border-bottom: 1px solid #8886; }
& dt, & dd { float: none; width: auto; } & dt { font-weight: 600; padding-left: 0; }
& th, & td { text-align: right; } & .word { text-align: left; }
& table { border-collapse: collapse; table-layout: auto; margin: .3em 0; font-size: inherit; }
& .wide { overflow-x: auto; } & .wide * { white-space: nowrap; }
& svg { display: block; max-width: 100%; height: auto; } & i { font-style: normal; font-weight: bold; }
</style>""".replace("&", ".klazy.klazy")


def make_card(title: str, about: str, *parts: str) -> str:
    """The whole piece: the object's kind, what is said beside it, and HTML below."""
    return f'{STYLE}<div class="klazy"><p><b>{escape(title)}</b> {about}</p>{"".join(parts)}</div>'


def fade(inside: str) -> str:
    return f'<span class="faint">{inside}</span>'


def mark_code(text: str) -> str:
    return f"<code>{escape(text)}</code>"


def line_up(*parts: str) -> str:
    """Parts side by side, or one below the other where there is no room."""
    return f'<div class="row">{"".join(parts)}</div>'


def list_values(values: dict[str, str]) -> str:
    """Names with their values, which are HTML."""
    if not values:
        return ""
    items = [f"<dt>{escape(name)}</dt><dd>{value}</dd>" for name, value in values.items()]
    return f"<dl>{''.join(items)}</dl>"


def fold(summary: str, inside: str, rows: int = OPEN + 1) -> str:
    """What is seen when it is opened; a few rows are open from the start."""
    state = " open" if rows <= OPEN else ""
    return f"<details{state}><summary>{escape(summary)}</summary>{inside}</details>"


def draw_sparkline(curves: dict[str, Array]) -> str:
    """Up to three curves over the rounds, from zero, with their names; nothing where there is no line to draw."""
    T = min(map(len, curves.values()))
    at = np.linspace(0, T - 1, min(T, POINTS)).astype(np.int64)
    values = np.array([curve[at] for curve in curves.values()])
    if T < 2 or not np.isfinite(values).all():
        return ""
    low = min(0.0, float(values.min()))
    high = max(0.0, float(values.max()))
    scale = HEIGHT / ((high - low) or 1.0)
    x = WIDTH * at / (T - 1)
    zero = scale * high
    lines = []
    names = []
    for name, curve, colour in zip(curves, values, COLOURS, strict=False):
        places = _format_places(x, zero - scale * curve)
        lines.append(f'<polyline points="{places}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        names.append(f'<i style="color:{colour}">&mdash;</i> {escape(name)}')
    lines.append(
        f'<line x2="{WIDTH:g}" y1="{zero:.1f}" y2="{zero:.1f}" stroke="currentColor" stroke-opacity=".3"/>'
    )
    lines.reverse()  # a sum comes last, and lies below
    picture = _make_picture(WIDTH, HEIGHT, f"{', '.join(curves)} over {T} rounds", lines)
    return f"<div>{picture}{' '.join(names)}</div>"


def draw_outline(around: Array, mark: Array) -> str:
    """A set in the plane, from the points around it, with one point marked."""
    corner = around.min(axis=0)
    size = float(np.ptp(around, axis=0).max()) or 1.0
    width, height = SIDE * np.ptp(around, axis=0) / size
    x, y = SIDE * (around - corner).T / size
    at_x, at_y = SIDE * (mark - corner) / size
    places = _format_places(x, height - y)
    shape = f'<polygon points="{places}" fill="currentColor" fill-opacity=".1" stroke="currentColor"/>'
    dot = f'<circle cx="{at_x:.1f}" cy="{height - at_y:.1f}" r="2.5" fill="{COLOURS[1]}"/>'
    return _make_picture(width, height, "the set and its start", [shape, dot])


def _make_picture(width: float, height: float, label: str, parts: list[str]) -> str:
    """A picture of this size and a rim for the width of its lines."""
    across = f"{width + 6:.0f}"
    down = f"{height + 6:.0f}"
    box = f'width="{across}" height="{down}" viewBox="-3 -3 {across} {down}"'
    return f'<svg {box} role="img" aria-label="{escape(label)}">{"".join(parts)}</svg>'


def _format_places(x: Array, y: Array) -> str:
    pairs = zip(x.tolist(), y.tolist(), strict=True)
    return " ".join(f"{across:.1f},{down:.1f}" for across, down in pairs)
