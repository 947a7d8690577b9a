"""A plant: many agents in one process, each with its source and its sinks, as a TOML file says."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any

import typer

from klazy.base.checks import InvalidInput
from klazy.cli import configfile, outlets
from klazy.cli.live import Ended, Unit, open_unit, stop_between_rows
from klazy.cli.terminal import say

# Seconds for agents to end the round that they are in.
PLANT_SECONDS = 10.0
# Seconds between two looks whether all agents have ended.
GLANCE_SECONDS = 0.5


def list_plant(command: Any, file: Path) -> list[dict[str, Any]]:
    """Return the options of each agent of a file: its own, else those of the table [live]."""
    tables = configfile.read_file(file)
    found = []
    for name, table in tables.get(configfile.AGENTS, {}).items():
        place = f"[agents.{name}]"
        merged = {"name": name} | tables.get(configfile.LIVE, {}) | table
        found.append(dict(configfile.make_context(command, merged, place).params))
    return found


def open_member(given: dict[str, Any]) -> Unit:
    """Open what the options of an agent of a file name; it needs source and store."""
    try:
        unit = open_unit(given)
        if unit.feed is None:
            raise InvalidInput("An agent of a file needs a source. Add prometheus and query.")
        if given["state"] is None:
            raise InvalidInput("An agent of a file needs a store. Add state.")
    except InvalidInput as wrong:
        raise InvalidInput(f"{given['name']}: {wrong}") from None
    return unit


def run_plant(context: typer.Context, file: Path) -> None:
    """Play all agents of a file until a signal comes, each in a thread of its own."""
    flags = {name: context.params[name] for name in context.params if _is_flag(context, name)}
    units = [open_member(given | flags) for given in list_plant(context.command, file)]
    if not units:
        raise InvalidInput(f"{file} has no agents. Add a table [agents.NAME] for each.")
    metrics = _open_metrics(units)
    stopped = Event()
    printing = Lock()
    failed: list[str] = []

    def wait_for(read: Callable[[], Any]) -> Any:
        if stopped.is_set():
            raise Ended
        return read()

    def play(unit: Unit) -> None:
        def write(found: dict[str, Any]) -> None:
            with printing:
                sys.stdout.write(json.dumps({"agent": unit.name, **found}) + "\n")
                sys.stdout.flush()

        try:
            with unit.open() as agent:
                unit.play(agent, metrics, write, wait_for, stopped.wait, f"{unit.name}: ")
        # A source of another package may fail in any way.
        except Exception as wrong:
            failed.append(unit.name)
            say(f"{unit.name} has ended: {str(wrong) or type(wrong).__name__}", file=sys.stderr)

    threads = [Thread(target=play, args=(unit,), daemon=True) for unit in units]
    with stop_between_rows() as wait:
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                while thread.is_alive():
                    wait(lambda thread=thread: thread.join(GLANCE_SECONDS))
        except Ended:
            stopped.set()
        for thread in threads:
            thread.join(PLANT_SECONDS)
    if failed:
        raise typer.Exit(1)


def _is_flag(context: typer.Context, name: str) -> bool:
    """Return True if the command line says this option; the agent is the file itself."""
    source = context.get_parameter_source(name)
    return name not in ("agent", "config") and source is not None and source.name == "COMMANDLINE"


def _open_metrics(units: list[Unit]) -> Any:
    places = {str(unit.given["state"]) for unit in units}
    addresses = {unit.given["metrics"] for unit in units}
    if addresses == {None}:
        return None
    if len(places) > 1 or len(addresses) > 1:
        raise InvalidInput(
            "Metrics are of one store, at one address. Write state and metrics in [live] only."
        )
    # The store must be there before it is read.
    for unit in units:
        unit.open().close()
    return outlets.open_metrics(addresses.pop(), places.pop(), [unit.name for unit in units])
