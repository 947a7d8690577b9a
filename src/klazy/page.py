"""HTML pages that need nothing beside them: figures are inside, nothing is loaded, no script runs."""

import base64
from collections.abc import Sequence
from html import escape
from pathlib import Path
from string import Template
from typing import Any

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
</style>
</head>
<body>
$body
</body>
</html>
""")


def document(title: str, body: str) -> str:
    """A whole page."""
    return PAGE.substitute(title=escape(title), body=body)


def table(rows: Sequence[dict[str, Any]], digits: int = 7) -> str:
    """Words to the left, numbers to the right."""
    kinds = {name: ' class="word"' if isinstance(value, str) else "" for name, value in rows[0].items()}
    head = "".join(f"<th scope=col{kind}>{escape(name.replace('_', ' '))}</th>" for name, kind in kinds.items())
    body = "".join(
        "<tr>" + "".join(f"<td{kind}>{_cell(row[name], digits)}</td>" for name, kind in kinds.items()) + "</tr>" for row in rows
    )
    return f'<div class="wide" tabindex="0"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _cell(value: Any, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}g}" if isinstance(value, float) else escape(str(value))


def paragraph(said: str, kind: str = "") -> str:
    return f'<p class="{kind}">{escape(said)}</p>' if kind else f"<p>{escape(said)}</p>"


def figure(file: Path, caption: str, broad: bool = False) -> str:
    """An SVG file with its caption, as wide as the page if it is broad."""
    data = base64.b64encode(file.read_bytes()).decode()
    image = f'<img alt="{escape(caption)}" src="data:image/svg+xml;base64,{data}">'
    kind = ' class="broad"' if broad else ""
    return f"<figure{kind}>{image}<figcaption>{escape(caption)}</figcaption></figure>"
