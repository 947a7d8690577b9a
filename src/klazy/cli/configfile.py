"""Configuration of commands: a TOML file and environment variables, in the place of flags."""

import os
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

import typer

from klazy.base.checks import InvalidInput
from klazy.cli.terminal import explain_os_error, flag, say

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
# The tables of a file: one for each command, and one with a table for each agent of a plant.
LIVE = "live"
SERVE = "serve"
AGENTS = "agents"
# Settings that are paths, as seen from the file, unless they are URLs.
PATHS = ("agent", "state", "store")
# Parameters that no file sets.
NOT_IN_FILES = ("config", "help")


def read_file(file: Path) -> dict[str, Any]:
    """Read a TOML file, and check its tables."""
    with explain_os_error(f"read {file}"):
        text = file.read_bytes()
    try:
        found = tomllib.loads(text.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as failed:
        raise InvalidInput(f"{file} is not a TOML file: {failed}.") from None
    for name, table in found.items():
        if name not in (LIVE, SERVE, AGENTS) or not isinstance(table, dict):
            raise InvalidInput(
                f"{file} must have the tables [live], [serve] and [agents.NAME] only, got {name}."
            )
    tables = [found.get(LIVE, {}), found.get(SERVE, {})]
    for name, table in found.get(AGENTS, {}).items():
        if not isinstance(table, dict):
            raise InvalidInput(f"{file} must have a table [agents.{name}], got {table!r}.")
        tables.append(table)
    for table in tables:
        for name in PATHS:
            if isinstance(table.get(name), str) and "://" not in table[name]:
                table[name] = str(file.parent / table[name])
    return found


def read_options(command: Any, table: Mapping[str, Any], place: str) -> dict[str, Any]:
    """Return the settings of a table by the names of a command's parameters, those of the environment in their place.

    A variable is called after the command and the flag: ``KLAZY_LIVE_STATE``. One with several values has a line for each.
    """
    known = {}
    for parameter in command.params:
        if parameter.name not in NOT_IN_FILES:
            # The name of its flag, or of itself.
            flags = [name.removeprefix("--") for name in parameter.opts if name.startswith("--")]
            known[(flags or [parameter.name])[0]] = parameter
    found = {}
    for key, value in table.items():
        name = key.replace("_", "-")
        if name not in known:
            near = get_close_matches(name, known, 1)
            remedy = (
                f"Did you mean {near[0]}?" if near else f"Options are {', '.join(sorted(known))}."
            )
            raise InvalidInput(f"{place} has no option {key}. {remedy}")
        parameter = known[name]
        if isinstance(value, list) and not parameter.multiple:
            raise InvalidInput(f"{place}: {key} takes one value, got {value}.")
        if (
            parameter.nargs == 1
            and getattr(parameter, "multiple", False)
            and not isinstance(value, list)
        ):
            value = [value]
        found[parameter.name] = value
    for name, parameter in known.items():
        variable = f"KLAZY_{command.name}_{name}".replace("-", "_").upper()
        value = os.environ.get(variable)
        if value is not None:
            found[parameter.name] = (
                value.splitlines() if getattr(parameter, "multiple", False) else value
            )
    return found


def apply_config(context: typer.Context, file: Path | None) -> Path | None:
    """Take what no flag says from the environment, else from a file: the callback of ``--config``."""
    if context.default_map is not None:
        # It is an agent of a plant, whose settings are known.
        return file
    tables = {} if file is None else read_file(file)
    table = dict(tables.get(str(context.command.name), {}))
    if tables.get(AGENTS) and context.command.name == LIVE:
        # The file is a plant, which says which agents there are.
        table["agent"] = str(file)
    context.default_map = read_options(context.command, table, f"[{context.command.name}]")
    return file


Config = Annotated[
    Path | None,
    flag(
        "--config",
        "Take what no flag and no variable KLAZY_... says from this TOML file.",
        callback=apply_config,
        is_eager=True,
        show_default=False,
        envvar="KLAZY_CONFIG",
    ),
]


@app.callback()
def config() -> None:
    """Look at configuration files."""


@app.command("check")
def check(
    context: typer.Context,
    file: Annotated[
        Path, typer.Argument(help="A TOML file with the tables [live], [serve] or [agents.NAME].")
    ],
) -> None:
    """Check a file: every setting, every agent's file, and that sources and sinks fit together. Nothing is started.

    \b
    Example:
      klazy config check plant.toml
    """  # fmt: skip
    from klazy.cli.live import open_unit
    from klazy.cli.plant import list_plant, open_member
    from klazy.serve.settings import Settings

    tables = read_file(file)
    assert context.parent is not None
    assert context.parent.parent is not None
    commands = context.parent.parent.command.commands  # pyright: ignore[reportAttributeAccessIssue]
    if SERVE in tables:
        asked = make_context(commands[SERVE], tables[SERVE], "[serve]")
        asked.params.pop("config")
        settings = Settings(**asked.params)
        say(f"serve: {settings.store} at {settings.host}:{settings.port}")
    if LIVE in tables and AGENTS not in tables:
        asked = make_context(commands[LIVE], tables[LIVE], "[live]")
        say(open_unit(asked.params).describe())
    for given in list_plant(commands[LIVE], file):
        say(open_member(given).describe())
    say(f"{file} is fine.")


def make_context(command: Any, table: Mapping[str, Any], place: str) -> typer.Context:
    """Return what a command would get from a table and the environment, checked by its own options."""
    defaults = read_options(command, table, place)
    try:
        return command.make_context(command.name, [], default_map=defaults)
    except Exception as wrong:
        # The command line's own errors have a sentence.
        message = getattr(wrong, "format_message", None)
        if message is None:
            raise
        raise InvalidInput(f"{place}: {message()}") from None
