"""``klazy replay``: what laziness would have saved on one's own trace."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from klazy.base.checks import refusal
from klazy.base.files import write_durably
from klazy.cli.terminal import Json, print_table, read_command_line, say, show_progress
from klazy.live.agent import Agent

if TYPE_CHECKING:
    from klazy.studies.replay import Replay


def replay(
    trace: Annotated[
        Path, typer.Argument(help="A .csv or .parquet file: a row per round, a column per coordinate.")
    ],
    domain: Annotated[str, typer.Option(help="simplex, capped-simplex, box, ball or polytope.")] = "simplex",
    move_cost: Annotated[float, typer.Option(min=0.0, help="What moving costs per unit of distance.")] = 1.0,
    costs: Annotated[
        str, typer.Option(help="What a row means: linear, quadratic, pinball or log-wealth.")
    ] = "linear",
    movement: Annotated[
        str | None, typer.Option(help="tv, l1 or l2.", show_default="as suits the domain")
    ] = None,
    train: Annotated[float, typer.Option(help="The share of the rows to tune on.")] = 0.5,
    time: Annotated[
        str | None, typer.Option(help="The column of time stamps.", show_default="one called time or date")
    ] = None,
    fill: Annotated[
        str | None, typer.Option(help="Missing cells: forward, zero or drop.", show_default="refuse them")
    ] = None,
    total: Annotated[float | None, typer.Option(help="What a simplex adds up to.", show_default="1")] = None,
    cap: Annotated[
        float | None, typer.Option(help="The most of each coordinate of a capped simplex.", show_default="1")
    ] = None,
    lower: Annotated[float | None, typer.Option(help="Of a box.", show_default="0")] = None,
    upper: Annotated[float | None, typer.Option(help="Of a box.", show_default="1")] = None,
    radius: Annotated[float | None, typer.Option(help="Of a ball.", show_default="1")] = None,
    polytope: Annotated[
        Path | None, typer.Option(help="A JSON file with A and b, for A x <= b.", show_default=False)
    ] = None,
    short: Annotated[
        float | None, typer.Option(help="What pinball costs charge for a unit too little.", show_default="1")
    ] = None,
    excess: Annotated[
        float | None, typer.Option(help="What they charge for a unit too much.", show_default="1")
    ] = None,
    html: Annotated[
        Path | None, typer.Option(help="Write a report with figures here.", show_default=False)
    ] = None,
    emit: Annotated[
        Path | None,
        typer.Option(help="Write the best learner here, ready for klazy.Agent.load.", show_default=False),
    ] = None,
    as_json: Json = False,
) -> None:
    """Tell what laziness would have saved on a trace of past costs, and who would have done best.

    Learners and rules of thumb are tuned on the first part of the trace, each on as many candidates as the others, and
    scored on the second, beside the optimum in hindsight.

    \b
    Examples:
      klazy replay delays.csv --domain simplex --move-cost 5
      klazy replay load.parquet --domain box --upper 40 --costs pinball --short 10 --html report.html
      klazy replay returns.csv --costs log-wealth --movement l1 --move-cost 0.001 --emit agent.json
    """  # fmt: skip
    from klazy.studies.replay import Source, make_setup, words
    from klazy.studies.replay import replay as replay_trace

    for file in (html, emit):
        if file is not None:
            _refuse_unwritable(file)
    source = Source(trace, time, fill, positive=costs == "log-wealth")
    shape = {
        "total": total,
        "cap": cap,
        "lower": lower,
        "upper": upper,
        "radius": radius,
        "polytope": polytope,
    }
    setup = make_setup(source.dim, domain, costs, movement, move_cost, **shape, short=short, excess=excess)
    with show_progress() as bar:
        task = bar.add_task("replaying", total=1.0)
        found = replay_trace(source, setup, train, lambda share: bar.update(task, completed=share))
    if not as_json:
        say("\n".join(words.answer(found)))
        if source.filled:
            what = "rows were dropped" if fill == "drop" else f"missing cells were filled: {fill}"
            print(f"{source.filled} {what}.")
        print()
        print_table(words.tabulate(found))
    if html is not None:
        page = _make_page(found).encode()
        _write_or_refuse(html, lambda: write_durably(html, page))
    emitted = None if emit is None else _emit(found, emit)
    if as_json:
        print(json.dumps(words.to_dict(found) | {"emitted": emitted}))
        return
    if html is not None:
        say(str(html))
    if emitted is not None:
        say(f"{emit}: {emitted}")


def _refuse_unwritable(file: Path) -> None:
    """Refuse what is no plain file before anything is played: a folder, a device, a link, which would be replaced."""
    if not file.absolute().parent.is_dir():
        raise refusal("replay", "a file in a folder that is there", "file", file, "choose another")
    if file.is_symlink() or (file.exists() and not file.is_file()):
        raise refusal("replay", "a plain file to write to", "file", file, "choose another")


def _make_page(found: "Replay") -> str:
    from klazy.studies.replay.page import make_report

    return make_report(found, read_command_line())


def _write_or_refuse(file: Path, write: Callable[[], None]) -> None:
    try:
        write()
    except OSError as failed:
        raise refusal(
            "replay", "a file to write to", "file", file, failed.strerror or "choose another"
        ) from failed


def _emit(found: "Replay", file: Path) -> str:
    """Write the best of those that are told gradients, as an agent is, as it stands after the last row; its name."""
    from klazy.families import Linear
    from klazy.studies.replay.words import describe

    told = (None, Linear())  # a row of linear costs is their gradient
    score = next(score for score in found.scores if score.player.learner.family in told)
    _write_or_refuse(file, lambda: Agent(score.player.learner, state=score.player.state).save(file))
    return describe(score)
