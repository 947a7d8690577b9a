"""``klazy replay``: what you would have saved on your own trace."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from klazy.base.checks import refusal
from klazy.base.options import write_as_flags
from klazy.cli.terminal import Json, read_command_line, say, show_progress
from klazy.live import Guards

if TYPE_CHECKING:
    from klazy.studies.replay.report import Report


def replay(
    trace: Annotated[
        Path,
        typer.Argument(help="A CSV, TSV, Excel or Parquet file: a row per round, a column per coordinate."),
    ],
    domain: Annotated[str, typer.Option(help="simplex, capped-simplex, box, ball or polytope.")] = "simplex",
    move_cost: Annotated[
        str, typer.Option(help="What a unit of movement costs: 5, or several: 0.1,1,5 or 0.1:10:7.")
    ] = "1",
    costs: Annotated[
        str, typer.Option(help="What a row means: linear, rewards, quadratic, pinball or log-wealth.")
    ] = "linear",
    movement: Annotated[
        str | None,
        typer.Option(
            help="tv, l1, l2, fee for a fee per change, squared, or impact for powers of 3/2.",
            show_default="as suits the domain",
        ),
    ] = None,
    up: Annotated[
        str | None,
        typer.Option(
            help="The price of going up, as a multiple of the move cost: one number, or one per column.",
            show_default="1",
        ),
    ] = None,
    down: Annotated[
        str | None, typer.Option(help="The price of going down, likewise.", show_default="1")
    ] = None,
    train: Annotated[float, typer.Option(help="The share of the rows to tune on.")] = 0.5,
    folds: Annotated[
        int,
        typer.Option(
            min=0,
            help="Also score this many later parts, each tuned on all rows before it.",
            show_default=False,
        ),
    ] = 0,
    baseline: Annotated[
        str | None,
        typer.Option(
            help="What you decided until now: a file, or columns of the trace, such as a,b.",
            show_default=False,
        ),
    ] = None,
    time: Annotated[
        str | None,
        typer.Option(help="The column of time stamps.", show_default="found by its name or its dates"),
    ] = None,
    fill: Annotated[
        str | None, typer.Option(help="Missing cells: forward, zero or drop.", show_default="refuse them")
    ] = None,
    unit: Annotated[str, typer.Option(help="The unit of costs, such as EUR.", show_default=False)] = "",
    start: Annotated[
        str | None,
        typer.Option(help="The decision before the first row, one number per column.", show_default=False),
    ] = None,
    total: Annotated[float | None, typer.Option(help="What a simplex adds up to.", show_default="1")] = None,
    cap: Annotated[
        str | None,
        typer.Option(
            help="Upper limit of each share of a capped simplex: 0.4, or 0.4,0.6,1.", show_default="1"
        ),
    ] = None,
    floor: Annotated[
        str | None,
        typer.Option(help="Lower limit of each share of a simplex: 0.1, or 0.1,0,0.2.", show_default="0"),
    ] = None,
    lower: Annotated[
        str | None, typer.Option(help="Lower end of a box: one number, or one per column.", show_default="0")
    ] = None,
    upper: Annotated[
        str | None, typer.Option(help="Upper end of a box: one number, or one per column.", show_default="1")
    ] = None,
    radius: Annotated[float | None, typer.Option(help="Radius of a ball.", show_default="1")] = None,
    polytope: Annotated[
        Path | None, typer.Option(help="A JSON file with A and b, for A x <= b.", show_default=False)
    ] = None,
    short: Annotated[
        str | None, typer.Option(help="With pinball costs: the cost of one unit too few.", show_default="1")
    ] = None,
    excess: Annotated[
        str | None, typer.Option(help="With pinball costs: the cost of one unit too many.", show_default="1")
    ] = None,
    whole: Annotated[bool, typer.Option("--whole", help="Decide in whole numbers only.")] = False,
    hold: Annotated[
        int, typer.Option(min=1, help="Keep each decision for at least this many rounds.", show_default=False)
    ] = 1,
    per_round: Annotated[
        float | None, typer.Option(help="The most that one round's move may cost.", show_default=False)
    ] = None,
    html: Annotated[
        Path | None, typer.Option(help="Write a report with pictures to this file.", show_default=False)
    ] = None,
    emit: Annotated[
        Path | None,
        typer.Option(help="Write the winner to this file, as an agent for klazy live.", show_default=False),
    ] = None,
    contender: Annotated[
        str | None, typer.Option(help="Write this contender instead of the winner.", show_default="the best")
    ] = None,
    emit_at: Annotated[
        str, typer.Option(help="Write it as it was before the scored rows (split), or after them (end).")
    ] = "split",
    as_json: Json = False,
) -> None:
    """See what you would have saved on a file of past costs, and with which rule.

    Every learner and rule of thumb is tuned on the first part of the rows and scored on the second, beside what you do now and
    the best possible total. All get the same number of candidates to tune on.

    \b
    Examples:
      klazy replay delays.csv --domain simplex --move-cost 5
      klazy replay load.parquet --domain box --upper 40 --costs pinball --short 10 --html report.html
      klazy replay load.csv --domain box --upper 40 --costs pinball --baseline now.csv --folds 5 --unit EUR
      klazy replay returns.csv --costs log-wealth --movement l1 --move-cost 0.0001:0.01:5
      klazy replay delays.csv --move-cost 5 --emit agent.json && klazy live agent.json < today.csv
    """  # fmt: skip
    from klazy.studies.replay import words
    from klazy.studies.replay.prices import read_prices
    from klazy.studies.replay.report import replay as replay_trace

    for file in (html, emit):
        if file is not None:
            _refuse_unwritable(file)
    options: dict[str, Any] = {
        "total": total,
        "radius": radius,
        "polytope": polytope,
        "up": _read_numbers(up, "up"),
        "down": _read_numbers(down, "down"),
        "start": _read_numbers(start, "start"),
        "cap": _read_numbers(cap, "cap"),
        "floor": _read_numbers(floor, "floor"),
        "lower": _read_numbers(lower, "lower"),
        "upper": _read_numbers(upper, "upper"),
        "short": _read_numbers(short, "short"),
        "excess": _read_numbers(excess, "excess"),
        "whole": whole,
        "guards": _make_guards(hold, per_round),
    }
    with show_progress() as bar, write_as_flags():
        task = bar.add_task("replaying", total=1.0)
        found = replay_trace(
            trace,
            domain,
            costs,
            movement=movement,
            move_cost=read_prices(move_cost),
            train=train,
            folds=folds,
            baseline=_read_baseline(baseline),
            time=time,
            fill=fill,
            unit=unit,
            progress=lambda share: bar.update(task, completed=share),
            **options,
        )
    emitted = None
    if emit is not None:
        emitted = _emit(found, emit, contender, emit_at)
    if html is not None:
        _write_or_refuse(html, lambda: found.to_html(html, read_command_line()))
    if as_json:
        print(json.dumps(found.to_dict() | {"emitted": emitted}))
        return
    if emitted is not None and emitted != found.best.name:
        say(f"{emit} is {emitted}, which is not the winner: {found.best.name} paid less.")
    say(found.answer)
    print()
    say(words.write_plainly(words.write_table(found)))
    if html is not None:
        say(str(html))
    if emitted is not None:
        say(_tell_emitted(found, emit, emitted, emit_at))


def _emit(found: "Report", file: Path, contender: str | None, at: str) -> str:
    """Write an agent; its contender's name."""
    agent = found.agent(contender, at)
    _write_or_refuse(file, lambda: agent.save(file))
    return contender or found.best.name


def _tell_emitted(found: "Report", file: Path | None, name: str, at: str) -> str:
    first, last = found.span
    rows = "row"
    if found.source.fill == "drop" and found.source.filled:
        rows = "complete row"
    if at == "end":
        return f"{file}: {name}, as it is after {rows} {last}."
    cost = found.score(name).cost
    return f"{file}: {name}, as it was after {rows} {first}. On the rows after it, it pays the same {cost!r}."


def _make_guards(hold: int, per_round: float | None) -> Guards | None:
    if hold == 1 and per_round is None:
        return None
    return Guards(hold=hold, per_round=per_round)


def _read_numbers(text: str | None, name: str) -> float | list[float] | None:
    """A number, or several with commas between them."""
    if text is None:
        return None
    try:
        numbers = [float(each) for each in text.split(",")]
    except ValueError:
        remedy = f"write --{name} 40, or --{name} 40,20"
        raise refusal("replay", "a number, or one per column", name, text, remedy) from None
    return numbers if len(numbers) > 1 else numbers[0]


def _read_baseline(text: str | None) -> Path | list[str] | None:
    """A file, if there is one of that name; else columns of the trace."""
    if text is None:
        return None
    if Path(text).suffix and Path(text).exists():
        return Path(text)
    return text.split(",")


def _refuse_unwritable(file: Path) -> None:
    """Refuse what is no plain file before anything is played: a folder, a device, a link, which would be replaced."""
    if not file.absolute().parent.is_dir():
        raise refusal("replay", "a file in a folder that is there", "file", file, "choose another")
    if file.is_symlink() or (file.exists() and not file.is_file()):
        raise refusal("replay", "a plain file to write to", "file", file, "choose another")


def _write_or_refuse(file: Path, write: Callable[[], None]) -> None:
    try:
        write()
    except OSError as failed:
        raise refusal(
            "replay", "a file to write to", "file", file, failed.strerror or "choose another"
        ) from failed
