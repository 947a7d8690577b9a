"""What several commands share: options, progress bars, tables, text that is safe to print, and modules of the user."""

import os
import re
import shlex
import sys
from collections.abc import Sequence
from typing import Annotated, Any, TextIO

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table


def option(help: str, default: str | bool = False, **more: Any) -> Any:
    """Describe an option; ``default`` says what happens without it, and True shows the value."""
    return typer.Option(help=help, show_default=default, **more)


def flag(name: str, help: str) -> Any:
    """Describe an option without a value."""
    return typer.Option(name, help=help)


Json = Annotated[bool, flag("--json", "Print one JSON object and nothing else.")]
Jobs = Annotated[int | None, option("Number of processes.", "one per core", min=1)]
Trust = Annotated[bool, flag("--trust", "Import and run your own code, named as module:function.")]
# Control characters of terminals, and those that change the writing direction; names of users may contain them.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class _Console(Console):
    """A console that does not hide the cursor: a stopped command could not show it again."""

    def show_cursor(self, show: bool = True) -> bool:
        return False


def _make_console(*, stderr: bool = False) -> Console:
    """Make a console that prints text literally, brackets included."""
    return _Console(stderr=stderr, markup=False, emoji=False, highlight=False)


def clean(text: str) -> str:
    """Return the text with control characters escaped."""
    return _CONTROL.sub(lambda found: ascii(found[0])[1:-1], text)


def say(text: str, file: TextIO | None = None) -> None:
    """Print text that may contain names of users."""
    print(clean(text), file=file)


def show_progress(*columns: ProgressColumn) -> Progress:
    """Make a progress bar with these columns and the time left, shown on a terminal only."""
    console = _make_console(stderr=True)
    usual = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        *columns,
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    return Progress(*usual, console=console, disable=not console.is_terminal, transient=True)


def _format(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.6g}"
    return clean(str(value))


def print_table(rows: Sequence[dict[str, Any]]) -> None:
    """Print rows as a table: as wide as the terminal, or as wide as it needs in a pipe."""
    console = _make_console()
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in rows[0]:
        numeric = any(isinstance(row[name], int | float) for row in rows)
        side = "right" if numeric else "left"
        table.add_column(clean(name.replace("_", " ")), justify=side, overflow="fold")
    for row in rows:
        table.add_row(*map(_format, row.values()))
    if not console.is_terminal:
        console.width = 400
    console.print(table)


def read_command_line() -> str:
    """Return the command line as it was typed."""
    return shlex.join(["klazy", *sys.argv[1:]])


def make_importable() -> None:
    """Let names refer to modules of the current folder; installed modules come before them."""
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
