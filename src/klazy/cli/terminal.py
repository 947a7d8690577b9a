"""What several commands share: options, tables, text that is safe to print, and modules of the user."""

import json
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, TextIO, TypeVar

import typer
from rich.console import Console
from rich.table import Table
from typer.core import TyperCommand, TyperGroup

from klazy.base.checks import InvalidInput
from klazy.base.own import find_own

Command = TypeVar("Command", bound=Callable[..., None])


def option(help: str, default: str | bool = False, **more: Any) -> Any:
    """Describe an option; ``default`` says what happens without it, and True shows the value."""
    return typer.Option(help=help, show_default=default, **more)


def take_options(
    options: Mapping[str, Any], defaults: Mapping[str, Any] | None = None
) -> Callable[[Command], Command]:
    """Add options, annotations by name, to the signature of a command that takes ``**options``; the usual default is None."""
    more = []
    for name, kind in options.items():
        default = (defaults or {}).get(name)
        more.append(Parameter(name, Parameter.KEYWORD_ONLY, annotation=kind, default=default))

    def take(command: Command) -> Command:
        own = [
            each
            for each in signature(command).parameters.values()
            if each.kind != Parameter.VAR_KEYWORD
        ]
        # Typer reads the options of a command from its signature.
        vars(command)["__signature__"] = Signature([*own, *more])
        return command

    return take


def flag(name: str, help: str, **more: Any) -> Any:
    """Describe an option without a value."""
    return typer.Option(name, help=help, **more)


def _make_importable(is_trusted: bool) -> bool:
    """Let names refer to modules of the current folder; installed modules come before them."""
    if is_trusted and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    return is_trusted


TRUST = "Import and run your own code, named as module:function; it can do anything."
Json = Annotated[bool, flag("--json", "Print one JSON object and nothing else.")]
Jobs = Annotated[
    int | None, option("Number of processes; 1 uses none but this one.", "one per core", min=1)
]
Trust = Annotated[bool, flag("--trust", TRUST, callback=_make_importable)]
# Control characters of terminals, and those that change the writing direction; names of users may contain them.
_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


class PlayByDefault(TyperGroup):
    """A group whose command `play` needs no name: `klazy sweep study.toml` is `klazy sweep play study.toml`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args or args[0] not in self.commands:
            args = ["play", *args]
        return super().parse_args(ctx, args)


class Unnamed(TyperCommand):
    """The default command of its group, whose help has the name of the group alone."""

    def format_usage(self, ctx: Any, formatter: Any) -> None:
        formatter.write_usage(ctx.parent.command_path, " ".join(self.collect_usage_pieces(ctx)))


def clean(text: str) -> str:
    """Return the text with control characters escaped."""
    return _CONTROL.sub(lambda found: ascii(found[0])[1:-1], text)


def say(text: str, file: TextIO | None = None) -> None:
    """Print text that may contain names of users."""
    print(clean(text), file=file)


def _format(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.6g}"
    return clean(str(value))


def print_table(rows: Sequence[dict[str, Any]]) -> None:
    """Print rows as a table: as wide as the terminal, or as wide as it needs in a pipe."""
    # It prints text literally, brackets included.
    console = Console(markup=False, emoji=False, highlight=False)
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


def print_rows(rows: Sequence[dict[str, Any]], as_json: bool, otherwise: str) -> None:
    """Print rows as JSON or as a table; without any rows, print a sentence instead of the table."""
    if as_json:
        print(json.dumps(rows))
    elif rows:
        print_table(rows)
    else:
        print(otherwise)


@contextmanager
def explain_os_error(action: str) -> Iterator[None]:
    """Make an error of the system a line that names the action, such as ``write report.html``."""
    try:
        yield
    except OSError as failed:
        raise InvalidInput(f"Cannot {action}: {failed.strerror or failed}.") from failed


def make_folder(folder: Path) -> None:
    """Create a folder and those above it."""
    with explain_os_error(f"write to the folder {folder}"):
        folder.mkdir(parents=True, exist_ok=True)


def find_model(name: str) -> Any:
    """Return the model that ``module:name`` names in a module of the user."""
    if ":" not in name:
        raise InvalidInput(
            f"--model must be module:name, got {name}. Write klazy --import mine ... --model mine:{name}."
        )
    return find_own(name)


def read_command_line() -> str:
    """Return the command line as it was typed."""
    return shlex.join(["klazy", *sys.argv[1:]])
