"""The commands ``klazy agents``, ``history``, ``check`` and ``backup``, which read a store of agents."""

import json
import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from klazy.base.checks import invalid
from klazy.cli.terminal import Json, print_table, say, show_progress

if TYPE_CHECKING:
    from klazy.live.store import Store

File = Annotated[str, typer.Argument(help="The file of a store, or a postgresql:// URL.", metavar="STORE")]
Name = Annotated[str, typer.Argument(help="The name of an agent: klazy agents lists them.")]


def _open(file: str, owner: str) -> "Store":
    from klazy.live.store import open_store

    return open_store(file, read_only=True, owner=owner)


def agents(store: File, as_json: Json = False) -> None:
    """List the agents of a store: learner, rounds, and costs so far.

    \b
    Examples:
      klazy agents decisions.db
      klazy agents decisions.db --json
      klazy agents postgresql://klazy@db.example.com/decisions
    """  # fmt: skip
    from klazy.live.inspection import summarize

    with _open(store, "agents") as opened:
        found = [summarize(opened, agent) for agent in opened.list_agents()]
    if as_json:
        print(json.dumps(found))
    elif found:
        print_table([_make_line(agent) for agent in found])
    else:
        print("There is no agent yet.")


def _make_line(agent: dict[str, Any]) -> dict[str, Any]:
    names = ("name", "learner", "rounds", "last", "hitting", "switching", "frozen")
    return {name: agent[name] for name in names}


def history(
    store: File,
    name: Name,
    last: Annotated[
        int | None, typer.Option(min=1, help="Only this many, the latest.", show_default="all")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per line and nothing else.")
    ] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV, one column per coordinate.")] = False,
    plot: Annotated[
        Path | None, typer.Option(help="Draw decisions and costs to this file.", show_default=False)
    ] = None,
) -> None:
    """Print the rounds of an agent: the row, the decision, and what they cost.

    \b
    Examples:
      klazy history decisions.db eu-west --last 20
      klazy history decisions.db eu-west --csv > rounds.csv
      klazy history decisions.db eu-west --plot rounds.png
    """  # fmt: skip
    from klazy.live.inspection import read_history

    if as_json and as_csv:
        raise invalid("history", "one form", "form", "--json and --csv", "choose one of them")
    with _open(store, "history") as opened:
        agent = opened.find_agent(name)
        if agent is None:
            remedy = f"klazy agents {opened.path} lists them"
            raise invalid("history", "an agent that is there", "name", repr(name), remedy)
        frame = read_history(opened, agent, last)
        columns, names = _read_names(agent.configuration)
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
        print("There is no round yet.")


def _format_time(time: datetime | None) -> str | None:
    return None if time is None else time.isoformat(timespec="milliseconds")


def _read_names(configuration: str) -> tuple[list[str] | None, list[str] | None]:
    """Return the names of an agent's columns and of its decisions, where it has any."""
    about = json.loads(configuration)
    columns = about.get("columns")
    return columns, about.get("names", columns)


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
    line = {name: row[name] for name in shown}
    return {"time": _format_time(row["time"]), **line, "decision": point}


def _spread(frame: Any, columns: list[str] | None, names: list[str] | None) -> Any:
    """Replace the lists of a frame by a column per coordinate."""
    import polars as pl

    for name, ends in (("gradient", columns), ("hint", columns), ("decision", names)):
        width = frame[name].list.len().max() or 0
        if ends is None:
            ends = [str(i + 1) for i in range(width)]
        parts = [pl.col(name).list.get(i, null_on_oob=True).alias(f"{name}_{ends[i]}") for i in range(width)]
        frame = frame.with_columns(parts).drop(name)
    return frame


def _draw(frame: Any, file: Path, names: list[str] | None) -> None:
    from klazy.show.runs import draw_run

    if frame.height == 0:
        raise invalid("history", "rounds to draw", "rounds", 0, "wait for the first one")
    x = frame["decision"].list.to_array(len(frame["decision"][0])).to_numpy()
    figure = draw_run(frame["hitting"].to_numpy(), frame["switching"].to_numpy(), x, names=names)
    try:
        figure.savefig(file)
    except ValueError as failed:
        wanted = "a kind of picture that matplotlib writes"
        raise invalid("history", wanted, "plot", file, "use .png") from failed


def check(store: File, as_json: Json = False) -> None:
    """Check a store: run the database's own test, then replay every round and compare bit for bit.

    The exit status is 1 if anything is wrong. The store is only read.

    \b
    Example:
      klazy check decisions.db
    """  # fmt: skip
    from klazy.live.inspection import check_store

    found = []
    with _open(store, "check") as opened, show_progress() as bar:
        task = bar.add_task("checking", total=None)
        for checked in check_store(opened):
            found.append(checked)
            bar.update(task, advance=1)
    whole = all(checked.fault is None for checked in found)
    if as_json:
        parts = [checked._asdict() for checked in found[1:]]
        print(json.dumps({"whole": whole, "file": found[0].fault, "agents": parts}))
    else:
        for checked in found:
            say(_describe(checked))
    if not whole:
        raise typer.Exit(1)


def _describe(checked: Any) -> str:
    if not checked.name:
        return "The store is whole." if checked.fault is None else f"The store is damaged: {checked.fault}."
    if checked.fault is not None:
        return f"{checked.name}: {checked.fault.rstrip('.')}."
    words = f"{checked.name}: {checked.rounds} rounds, the same bit for bit"
    if checked.elsewhere:
        elsewhere = f"{checked.elsewhere} that another kind of machine computed"
        words += f" but for {elsewhere}, which were not compared"
    return f"{words}."


def backup(store: File, to: Annotated[Path, typer.Argument(help="Where nothing is yet.")]) -> None:
    """Copy a store, as it is at one moment, to a new SQLite file. Agents may keep writing to it.

    \b
    Example:
      klazy backup decisions.db monday.db
    """  # fmt: skip
    with _open(store, "backup") as opened:
        opened.back_up(to)
    say(str(to))
