"""The commands ``klazy agents``, ``history``, ``check`` and ``backup``, which read a store of agents."""

import json
import sys
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from klazy.base.checks import InvalidInput
from klazy.base.progress import show_progress
from klazy.cli.terminal import Json, flag, option, print_rows, print_table, say
from klazy.live.inspection import Checked, check_store, read_history, summarize
from klazy.live.store import open_store

File = Annotated[
    str, typer.Argument(help="An SQLite file, or a postgresql:// URL.", metavar="STORE")
]
# What tables show, under these headings.
AGENT_COLUMNS = ("name", "learner", "rounds", "last", "hitting", "switching", "frozen")
HEADINGS = {"hitting": "operating cost", "switching": "switching cost"}
Name = Annotated[str, typer.Argument(help="The name of an agent; klazy agents lists them.")]


def agents(store: File, as_json: Json = False) -> None:
    """List the agents of a store, with their learners, rounds and costs.

    \b
    Examples:
      klazy agents decisions.db
      klazy agents decisions.db --json
      klazy agents postgresql://klazy@db.example.com/decisions
    """  # fmt: skip
    with open_store(store, read_only=True) as opened:
        found = [summarize(opened, agent) for agent in opened.list_agents()]
    if not as_json:
        found = [
            {HEADINGS.get(name, name): agent[name] for name in AGENT_COLUMNS} for agent in found
        ]
    print_rows(found, as_json, "No agents yet.")


def history(
    store: File,
    name: Name,
    last: Annotated[
        int | None, option("Show only this many of the latest rounds.", "all", min=1)
    ] = None,
    as_json: Annotated[bool, flag("--json", "Print one JSON object per round.")] = False,
    as_csv: Annotated[bool, flag("--csv", "Print CSV, with a column per coordinate.")] = False,
    plot: Annotated[Path | None, option("Plot decisions and costs to this file.")] = None,
) -> None:
    """Show the rounds of an agent, with their decisions and costs.

    \b
    Examples:
      klazy history decisions.db eu-west --last 20
      klazy history decisions.db eu-west --csv > rounds.csv
      klazy history decisions.db eu-west --plot rounds.png
    """  # fmt: skip
    if as_json and as_csv:
        raise InvalidInput("Choose one of --json and --csv.")
    with open_store(store, read_only=True) as opened:
        agent = opened.find_agent(name)
        if agent is None:
            raise InvalidInput(
                f"No agent named {name!r}. `klazy agents {store}` lists the existing ones."
            )
        frame = read_history(opened, agent, last)
    about = json.loads(agent.configuration)
    columns = about.get("columns")
    names = about.get("names", columns)
    if plot is not None:
        _draw(frame, plot, names)
    if as_json:
        for row in frame.iter_rows(named=True):
            print(json.dumps(row | {"time": _format_time(row["time"])}))
    elif as_csv:
        sys.stdout.write(_spread(frame, columns, names).write_csv())
    elif plot is not None:
        say(str(plot))
    elif frame.height:
        is_late = not frame["round"].equals(frame["t"])
        print_table([_make_row(row, names, is_late) for row in frame.iter_rows(named=True)])
    else:
        print("No rounds yet.")


def _format_time(time: datetime | None) -> str | None:
    return None if time is None else time.isoformat(timespec="milliseconds")


def _make_row(row: dict[str, Any], names: list[str] | None, is_late: bool) -> dict[str, Any]:
    """Make a line of the table: the point by name or in brackets; for late feedback also its round."""
    numbers = [f"{number:.4g}" for number in row["decision"]]
    if names is None:
        point = f"[{', '.join(numbers)}]"
    else:
        point = ", ".join(f"{name} {number}" for name, number in zip(names, numbers, strict=True))
    shown = ["t", "id", "hitting", "switching", "guards"]
    if is_late:
        shown.insert(1, "round")
    line = {HEADINGS.get(name, name): row[name] for name in shown}
    return {"time": _format_time(row["time"]), **line, "decision": point}


def _spread(frame: Any, columns: list[str] | None, names: list[str] | None) -> Any:
    """Replace the lists of a frame by a column per coordinate."""
    import polars as pl

    for name, ends in (("gradient", columns), ("next_hint", columns), ("decision", names)):
        width = frame[name].list.len().max() or 0
        if ends is None:
            ends = [str(i + 1) for i in range(width)]
        parts = [
            pl.col(name).list.get(i, null_on_oob=True).alias(f"{name}_{ends[i]}")
            for i in range(width)
        ]
        frame = frame.with_columns(parts).drop(name)
    return frame


def _draw(frame: Any, file: Path, names: list[str] | None) -> None:
    from klazy.show.runs import draw_run

    if frame.height == 0:
        raise InvalidInput("There are no rounds to plot yet.")
    x = frame["decision"].list.to_array(len(frame["decision"][0])).to_numpy()
    figure = draw_run(frame["hitting"].to_numpy(), frame["switching"].to_numpy(), x, names=names)
    try:
        figure.savefig(file)
    except ValueError as failed:
        raise InvalidInput(
            f"--plot cannot write {file}. Use a name that ends in .png."
        ) from failed


def check(store: File, as_json: Json = False) -> None:
    """Verify a store: replay every round and compare the results bit for bit.

    Runs the database's own integrity test first. The store is only read. The exit status is 1 if anything is wrong.

    \b
    Example:
      klazy check decisions.db
    """  # fmt: skip
    found = []
    with (
        open_store(store, read_only=True) as opened,
        show_progress("checking") as report_progress,
    ):
        for checked in check_store(opened):
            found.append(checked)
            report_progress(None, checked.name)
    is_intact = all(checked.fault is None for checked in found)
    if as_json:
        parts = [checked._asdict() for checked in found[1:]]
        print(json.dumps({"intact": is_intact, "file": found[0].fault, "agents": parts}))
    else:
        for checked in found:
            say(_describe(checked))
    if not is_intact:
        raise typer.Exit(1)


def _describe(checked: Checked) -> str:
    if not checked.name:
        return (
            "The store is intact."
            if checked.fault is None
            else f"The store is damaged: {checked.fault}."
        )
    if checked.fault is not None:
        return f"{checked.name}: {checked.fault.rstrip('.')}."
    words = f"{checked.name}: {checked.rounds} rounds, identical bit for bit"
    if checked.elsewhere:
        words += f"; {checked.elsewhere} from another kind of machine were not compared"
    return f"{words}."


def backup(store: File, to: Annotated[Path, typer.Argument(help="The new file.")]) -> None:
    """Copy a store to a new SQLite file while its agents keep running.

    \b
    Example:
      klazy backup decisions.db monday.db
    """  # fmt: skip
    with open_store(store, read_only=True) as opened:
        opened.back_up(to)
    say(str(to))
