"""The command, and the only modules that print."""

from typing import Annotated

import typer

import klazy
from klazy.cli import replay, reproduce, sweep

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("list")(reproduce.list_parts)
app.command("reproduce")(reproduce.reproduce)
app.add_typer(sweep.app, name="sweep")
app.command("replay")(replay.replay)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"klazy {klazy.__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    """Smoothed online learning: decisions that should hold still, because changing one's mind costs something."""
