"""What all commands share: progress bars, tables, and the line that was typed."""

import shlex
import sys
from collections.abc import Sequence
from typing import Annotated, Any

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

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]


def show_progress(*columns: ProgressColumn) -> Progress:
    """A bar with a description, these columns and the time left, on a terminal only."""
    console = Console(stderr=True)
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
    return str(value)


def print_table(rows: Sequence[dict[str, Any]]) -> None:
    """On a terminal as wide as that; piped, as wide as it must be."""
    console = Console()
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in rows[0]:
        numeric = any(isinstance(row[name], int | float) for row in rows)
        side = "right" if numeric else "left"
        table.add_column(name.replace("_", " "), justify=side, overflow="fold")
    for row in rows:
        table.add_row(*map(_format, row.values()))
    if not console.is_terminal:
        console.width = 400
    console.print(table)


def read_command_line() -> str:
    """What was typed."""
    return shlex.join(["klazy", *sys.argv[1:]])
