"""``klazy replay``: what laziness would have saved on one's own trace."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from klazy.agent import Agent
from klazy.arrays import refusal
from klazy.cli.show import Json, print_table, progress

if TYPE_CHECKING:
    from klazy.replay import Replay


def replay(
    trace: Annotated[Path, typer.Argument(help="A .csv or .parquet file: a row per round, a column per coordinate.")],
    domain: Annotated[str, typer.Option(help="simplex, capped-simplex, box, ball or polytope.")] = "simplex",
    move_cost: Annotated[float, typer.Option(min=0.0, help="What moving costs per unit of distance.")] = 1.0,
    costs: Annotated[str, typer.Option(help="What a row means: linear, quadratic, pinball or log-wealth.")] = "linear",
    movement: Annotated[str | None, typer.Option(help="tv, l1 or l2.", show_default="as suits the domain")] = None,
    train: Annotated[float, typer.Option(help="The share of the rows to tune on.")] = 0.5,
    time: Annotated[str | None, typer.Option(help="The column of time stamps.", show_default="one called time or date")] = None,
    fill: Annotated[str | None, typer.Option(help="Missing cells: forward, zero or drop.", show_default="refuse them")] = None,
    total: Annotated[float, typer.Option(help="What a simplex adds up to.")] = 1.0,
    cap: Annotated[float, typer.Option(help="The most of each coordinate of a capped simplex.")] = 1.0,
    lower: Annotated[float, typer.Option(help="Of a box.")] = 0.0,
    upper: Annotated[float, typer.Option(help="Of a box.")] = 1.0,
    radius: Annotated[float, typer.Option(help="Of a ball.")] = 1.0,
    polytope: Annotated[Path | None, typer.Option(help="A JSON file with A and b, for A x <= b.", show_default=False)] = None,
    short: Annotated[float, typer.Option(help="What pinball costs charge for a unit too little.")] = 1.0,
    excess: Annotated[float, typer.Option(help="What they charge for a unit too much.")] = 1.0,
    html: Annotated[Path | None, typer.Option(help="Write a report with figures here.", show_default=False)] = None,
    emit: Annotated[
        Path | None, typer.Option(help="Write the best learner here, ready for klazy.Agent.load.", show_default=False)
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
    from klazy import replay as of
    from klazy.replay import words

    source = of.Source(trace, time, fill)
    shape = {"total": total, "cap": cap, "lower": lower, "upper": upper, "radius": radius, "polytope": polytope}
    played = of.game(source.dim, domain, costs, movement, move_cost, **shape, short=short, excess=excess)
    with progress() as bar:
        task = bar.add_task("replaying", total=1.0)
        found = of.replay(source, played, train, lambda share: bar.update(task, completed=share))
    if html is not None:
        _write_page(found, html)
    emitted = None if emit is None else _emit(found, emit)
    if as_json:
        print(json.dumps(words.as_object(found) | {"emitted": emitted}))
        return
    print("\n".join(words.answer(found)))
    if source.filled:
        print(f"{source.filled} {'rows were dropped' if fill == 'drop' else f'missing cells were filled: {fill}'}.")
    print()
    print_table(words.table(found))
    for said in (html and f"{html}", emitted and f"{emit}: {emitted}"):
        if said:
            print(said)


def _write_page(found: "Replay", file: Path) -> None:
    from klazy.replay.pages import html
    from klazy.report import command_line

    try:
        file.write_text(html(found, command_line()), encoding="utf-8")
    except OSError as failed:
        raise refusal("replay", "a file to write to", "html", file, failed.strerror or "choose another") from failed


def _emit(found: "Replay", file: Path) -> str:
    """Write the best learner as it stands after the last row; its name."""
    from klazy.replay.contenders import Learning
    from klazy.replay.words import named

    score = next(score for score in found.scores if isinstance(score.player, Learning))
    Agent(score.player.learner, state=score.player.state).save(file)
    return named(score)
