"""What the scripts share that write tables into pages of docs/."""

import argparse
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any


def markdown(rows: list[dict[str, Any]]) -> list[str]:
    """Rows as the lines of a table; nothing where there is None."""
    head = "| " + " | ".join(name.replace("_", " ") for name in rows[0]) + " |"
    words = (
        isinstance(value, str) and not re.fullmatch(r"[-+.e\d]+", value)
        for value in rows[0].values()
    )
    sides = "|" + "|".join("---" if word else "--:" for word in words) + "|"
    texts = [
        [
            f"{v:.6g}" if isinstance(v, float) else "" if v is None else str(v)
            for v in row.values()
        ]
        for row in rows
    ]
    return [head, sides, *("| " + " | ".join(text) + " |" for text in texts), ""]


def run(about: str | None, heading: str, out: str, make: Callable[[Path, Path], str]) -> None:
    """Print what ``make(out, folder of the page)`` gives; with ``--write`` put it into a page, under its heading."""
    arguments = argparse.ArgumentParser(description=about)
    arguments.add_argument("--out", type=Path, default=Path(out), help="where results are kept")
    arguments.add_argument(
        "--write", type=Path, help=f"put the tables into this file, under its heading {heading!r}"
    )
    options = arguments.parse_args()
    if options.write:
        cut(options.write, heading)
    text = make(options.out, options.write.parent if options.write else options.out)
    print(text)
    if options.write:
        put(options.write, heading, text)


def cut(page: Path, heading: str) -> tuple[str, str]:
    """What stands before and after the section of this heading; a page without it ends the script."""
    before, found, after = page.read_text().partition(heading)
    if not found:
        raise SystemExit(f"{page} has no heading {heading!r}.")
    _, following, rest = after.partition("\n## ")
    return before, following + rest


def put(page: Path, heading: str, text: str) -> None:
    """Put the text into a page, under its heading."""
    before, after = cut(page, heading)
    page.write_text(f"{before}{heading}\n\n{text}{after}")
