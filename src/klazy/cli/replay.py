"""``klazy replay``: what you would have saved on your own trace."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from klazy.base.checks import InvalidInput
from klazy.base.options import write_option
from klazy.base.own import find_own
from klazy.base.tables import write_plainly
from klazy.cli import feeds
from klazy.cli.terminal import (
    Json,
    explain_os_error,
    find_model,
    option,
    read_command_line,
    say,
    take_options,
)
from klazy.live import Guards

if TYPE_CHECKING:
    from klazy.studies.replay.report import Report


# Options that are one number, or one per column.
BY_COLUMN = (
    "up",
    "down",
    "start",
    "cap",
    "floor",
    "lower",
    "upper",
    "short",
    "excess",
    "per",
    "ramp_up",
    "ramp_down",
)
# Options that may name an object of the user.
CLASS_OPTIONS = ("domain", "costs", "movement")
# Options that are not klazy.replay's.
OF_THE_COMMAND = {"trace", "hold", "per_round", "html", "emit", "contender", "emit_at", "as_json"}
OF_THE_COMMAND |= feeds.FEED_OPTIONS.keys()
# Options for jobs with a deadline, and those of a replay that go together with these.
OF_JOBS = {"deadline", "rate", "low", "high", "price", "every"}
OF_THE_COMMAND |= {"convert", *OF_JOBS}
WITH_JOBS = {"trace", "move_cost", "train", "forecast", "time", "fill", "unit", "whole", "html"}
WITH_JOBS |= {"as_json", "convert", *OF_JOBS, *feeds.FEED_OPTIONS}
Text = str | None


@take_options(feeds.FEED_OPTIONS)
def replay(
    context: typer.Context,
    trace: Annotated[
        Path | None,
        typer.Argument(
            help="A CSV, TSV, Excel or Parquet file: a row per round, a column per coordinate."
        ),
    ] = None,
    domain: Annotated[
        str,
        option("simplex, capped-simplex, box, ball, polytope, or your own as module:name.", True),
    ] = "simplex",
    move_cost: Annotated[
        str, option("What a unit of movement costs: 5, or several: 0.1,1,5 or 0.1:10:7.", True)
    ] = "1",
    costs: Annotated[
        str,
        option(
            "What a row means: linear, rewards, quadratic, pinball, log-wealth, or module:name.",
            True,
        ),
    ] = "linear",
    movement: Annotated[
        Text,
        option(
            "tv, l1, l2, fee for a fee per change, squared, impact for powers of 3/2, or module:name.",
            "as suits the domain",
        ),
    ] = None,
    up: Annotated[
        Text,
        option(
            "The price of going up, in multiples of the move cost: one, or one per column.", "1"
        ),
    ] = None,
    down: Annotated[Text, option("The price of going down, likewise.", "1")] = None,
    train: Annotated[float, option("The share of the rows to tune on.", True)] = 0.5,
    folds: Annotated[
        int,
        option("Also score this many later parts, each tuned on all rows before it.", min=0),
    ] = 0,
    baseline: Annotated[
        Text,
        option(
            "What you decided until now: a file, or columns of the trace, such as a,b; or hpa for the rule of Kubernetes' "
            "autoscaler (hpa:target=0.7,window=10m; by default 0.8 and 5m)."
        ),
    ] = None,
    forecast: Annotated[
        Text,
        option(
            "Forecasts of the rows that you have: columns of the trace, such as a_forecast,b_forecast or *_forecast; or a file."
        ),
    ] = None,
    forecast_for: Annotated[
        str,
        option(
            "The row that the forecast or advice in a row is for: this, its own row, before which it was known; or next, the "
            "row that the decision after it meets.",
            True,
        ),
    ] = "this",
    model: Annotated[
        Text,
        option(
            "A model that makes the forecasts on the way, of river, scikit-learn or statsforecast: module:name, after klazy "
            "--import module."
        ),
    ] = None,
    features: Annotated[
        Text,
        option(
            "With --model: columns of the trace that only the model sees, such as hour,temperature."
        ),
    ] = None,
    advice: Annotated[
        Text,
        option(
            "Decisions that a model or a person advises: columns of the trace, such as a_advice,b_advice or *_advice; or a "
            "file."
        ),
    ] = None,
    delta: Annotated[
        float,
        option(
            "How much more than the advice a mixture with auto may cost: 0.1 is a tenth.", True
        ),
    ] = 0.1,
    limits: Annotated[
        Path | None,
        option(
            "Limits of the decision in each row: a file with columns such as eu_lower and eu_upper, by time stamps or row by "
            "row. An empty cell is no limit."
        ),
    ] = None,
    time: Annotated[
        Text, option("The column of time stamps.", "found by its name or its dates")
    ] = None,
    fill: Annotated[Text, option("Missing cells: forward, zero or drop.", "reject them")] = None,
    unit: Annotated[str, option("The unit of costs, such as EUR.")] = "",
    states: Annotated[
        Path | None,
        option(
            "Be in one column at a time: a file with what switching between columns costs, in multiples of the move cost."
        ),
    ] = None,
    convert: Annotated[
        float | None,
        option(
            "Jobs instead of decisions that stay: convert this amount, such as 6 hours of work, at the prices of a column."
        ),
    ] = None,
    deadline: Annotated[
        int | None, option("With --convert: the rows that a job may take.", min=1)
    ] = None,
    rate: Annotated[
        float | None, option("With --convert: the most that a row converts.", "1")
    ] = None,
    low: Annotated[
        float | None,
        option(
            "With --convert: the least price that there can be.",
            "the least of the rows to tune on",
        ),
    ] = None,
    high: Annotated[float | None, option("With --convert: the highest, likewise.")] = None,
    price: Annotated[
        Text, option("With --convert: the column of prices.", "the only one")
    ] = None,
    every: Annotated[
        int | None,
        option(
            "With --convert: start a job in every so many rows.", "in 500 of those scored", min=1
        ),
    ] = None,
    start: Annotated[
        Text, option("The decision before the first row, one number per column.")
    ] = None,
    total: Annotated[float | None, option("What a simplex adds up to.", "1")] = None,
    cap: Annotated[
        Text, option("Upper limit of each share of a capped simplex: 0.4, or 0.4,0.6,1.", "1")
    ] = None,
    floor: Annotated[
        Text, option("Lower limit of each share of a simplex: 0.1, or 0.1,0,0.2.", "0")
    ] = None,
    lower: Annotated[
        Text, option("Lower end of a box: one number, or one per column.", "0")
    ] = None,
    upper: Annotated[
        Text, option("Upper end of a box: one number, or one per column.", "1")
    ] = None,
    radius: Annotated[float | None, option("Radius of a ball.", "1")] = None,
    polytope: Annotated[Path | None, option("A JSON file with A and b, for A x <= b.")] = None,
    short: Annotated[
        Text, option("With pinball costs: the cost of one unit too few.", "1")
    ] = None,
    excess: Annotated[
        Text, option("With pinball costs: the cost of one unit too many.", "1")
    ] = None,
    per: Annotated[
        Text,
        option("Units of a row that are one of a decision: 60 requests are one server.", "1"),
    ] = None,
    whole: Annotated[
        bool | None,
        typer.Option(
            "--whole/--no-whole",
            help="Decide in whole numbers only; with --convert, all of the rate or nothing.",
            show_default="with --per",
        ),
    ] = None,
    hold: Annotated[int, option("Keep each decision for at least this many rounds.", min=1)] = 1,
    ramp_up: Annotated[
        Text,
        option("The most that a decision may rise in one round: one number, or one per column."),
    ] = None,
    ramp_down: Annotated[Text, option("The most that it may fall, likewise.")] = None,
    lead: Annotated[int, option("A decision acts this many rounds later.", min=0)] = 0,
    delay: Annotated[int, option("A row is known this many rounds late.", min=0)] = 0,
    per_round: Annotated[float | None, option("The most that one round's move may cost.")] = None,
    html: Annotated[Path | None, option("Write a report with pictures to this file.")] = None,
    emit: Annotated[
        Path | None, option("Write the winner to this file, as an agent for klazy live.")
    ] = None,
    contender: Annotated[
        Text, option("Write this contender instead of the winner.", "the best")
    ] = None,
    emit_at: Annotated[
        str,
        option("Write it as it was before the scored rows (split), or after them (end).", True),
    ] = "split",
    as_json: Json = False,
    **_: Any,
) -> None:
    """See what you would have saved on a file of past costs, and with which rule.

    Every learner and rule of thumb is tuned on the first part of the rows and scored on the second, next to what you do now and
    the best possible total. All get the same number of candidates to tune on.

    \b
    Examples:
      klazy replay delays.csv --domain simplex --move-cost 5
      klazy replay load.parquet --domain box --upper 40 --costs pinball --short 10 --html report.html
      klazy replay load.csv --domain box --upper 40 --costs pinball --baseline now.csv --folds 5 --unit EUR
      klazy replay load.csv --domain box --upper 40 --costs pinball --forecast '*_forecast' --baseline hpa
      klazy --import mine replay load.csv --domain box --upper 40 --costs pinball --model mine:make_model --features hour
      klazy replay load.csv --domain box --upper 40 --costs pinball --advice load_advice --delta 0.1
      klazy replay returns.csv --costs log-wealth --movement l1 --move-cost 0.0001:0.01:5
      klazy replay latency.csv --states switching.csv --move-cost 20
      klazy replay carbon.csv --convert 6 --deadline 24 --move-cost 20 --html jobs.html
      klazy replay delays.csv --move-cost 5 --emit agent.json && klazy live agent.json < today.csv
      klazy replay --prometheus http://localhost:9090 --query 'sum(rate(http_requests_total[1m]))' --since 14d --step 60s
      klazy --import mine replay delays.csv --domain mine:domain --costs mine:costs
    """  # fmt: skip
    from klazy.studies.replay import wording
    from klazy.studies.replay.report import replay as replay_trace
    from klazy.studies.replay.setup import read_move_costs

    for file in (html, emit):
        if file is not None:
            _check_writable(file)
    if convert is not None or any(context.params[name] is not None for name in OF_JOBS):
        _replay_jobs(context)
        return
    options = {
        name: value for name, value in context.params.items() if name not in OF_THE_COMMAND
    }
    options |= {name: _read_numbers(options[name], name) for name in BY_COLUMN}
    options |= {
        name: find_own(options[name]) for name in CLASS_OPTIONS if ":" in (options[name] or "")
    }
    options |= {"model": None if model is None else find_model(model), "features": features or ()}
    options |= {"move_cost": read_move_costs(move_cost), "baseline": _read_baseline(baseline)}
    if hold != 1 or per_round is not None:
        options["guards"] = Guards(hold=hold, per_round=per_round)
    data = _read_data(context.params)
    found = replay_trace(data, **options)
    emitted = None
    if emit is not None:
        emitted = contender or found.best.name
        agent = found.agent(contender, emit_at)
        with explain_os_error(f"write {emit}"):
            agent.save(emit)
    if html is not None:
        with explain_os_error(f"write {html}"):
            found.to_html(html, read_command_line())
    if as_json:
        print(json.dumps(found.to_dict() | {"emitted": emitted}))
        return
    if emitted is not None and emitted != found.best.name:
        say(f"{emit} is {emitted}, which is not the winner: {found.best.name} paid less.")
    say(found.answer)
    print()
    say(write_plainly(wording.write_table(found)))
    if html is not None:
        say(str(html))
    if emitted is not None:
        say(f"{emit}: {_describe_emitted(found, emitted, emit_at)}")


def _replay_jobs(context: typer.Context) -> None:
    """Replay jobs with a deadline."""
    from klazy.studies.replay.jobs import replay_jobs, write_table
    from klazy.studies.replay.setup import read_move_costs

    given = context.params
    if given["convert"] is None or given["deadline"] is None:
        raise InvalidInput("A job needs an amount and a deadline: --convert 6 --deadline 24.")
    for name in given:
        source = context.get_parameter_source(name)
        if name not in WITH_JOBS and source is not None and source.name == "COMMANDLINE":
            raise InvalidInput(
                f"{write_option(name)} does not go together with --convert. Leave it out."
            )
    prices = read_move_costs(given["move_cost"])
    if len(prices) > 1:
        raise InvalidInput(
            f"With --convert, --move-cost must be one number, got {given['move_cost']}."
        )
    options = {name: given[name] for name in ("low", "high", "price", "every")}
    options |= {name: given[name] for name in ("forecast", "train", "time", "fill", "unit")}
    if given["rate"] is not None:
        options["rate"] = given["rate"]
    found = replay_jobs(
        _read_data(given),
        given["convert"],
        given["deadline"],
        whole=bool(given["whole"]),
        move_cost=prices[0],
        **options,
    )
    if given["html"] is not None:
        with explain_os_error(f"write {given['html']}"):
            found.to_html(given["html"], read_command_line())
    if given["as_json"]:
        print(found.to_json())
        return
    say(found.answer)
    print()
    say(write_plainly(write_table(found)))
    if given["html"] is not None:
        say(str(given["html"]))


def _read_data(given: dict[str, Any]) -> Any:
    """Return the file, or the rows of a source as a frame."""
    trace = given["trace"]
    feed = feeds.open_feed(given, feeds.STEP_SECONDS)
    if (trace is None) == (feed is None):
        raise InvalidInput(
            "Name a file to replay, or a source: --prometheus URL --query QUERY --since 14d."
        )
    if feed is None:
        return trace
    if given["since"] is None:
        raise InvalidInput("A source needs --since, such as --since 14d.")
    from klazy.sources import read_frame

    frame = read_frame(feed.source, feeds.read_since(given["since"]))
    if not frame.height:
        raise InvalidInput(
            f"There are no rows since {given['since']}. Check the query and --since."
        )
    return frame


def _describe_emitted(found: "Report", name: str, at: str) -> str:
    first, last = found.span
    rows = "row"
    if found.source.fill == "drop" and found.source.filled:
        rows = "complete row"
    if at == "end":
        return f"{name}, as it is after {rows} {last}."
    cost = found.score(name).cost
    given = "" if found.setup.limits is None else " and with their limits"
    return f"{name}, as it was after {rows} {first}. On the rows after it{given}, it pays the same {cost!r}."


def _read_numbers(text: str | None, name: str) -> float | list[float] | None:
    """Read a number, or several with commas between them."""
    if text is None:
        return None
    try:
        numbers = [float(each) for each in text.split(",")]
    except ValueError:
        flag = write_option(name)
        message = f"{flag} must be a number, or one per column, got {text}. Write {flag} 40 or {flag} 40,20."
        raise InvalidInput(message) from None
    return numbers if len(numbers) > 1 else numbers[0]


def _read_baseline(text: str | None) -> Path | list[str] | str | None:
    """Return the file of that name, if there is one; else the rule of an autoscaler, or columns of the trace."""
    from klazy.studies.replay.setup import is_autoscaler

    if text is None or is_autoscaler(text):
        return text
    if Path(text).suffix and Path(text).exists():
        return Path(text)
    return text.split(",")


def _check_writable(file: Path) -> None:
    """Reject a folder, a device or a link, which would be replaced, before anything is played."""
    if not file.absolute().parent.is_dir():
        raise InvalidInput(f"Cannot write {file}: there is no folder {file.parent}.")
    if file.is_symlink() or (file.exists() and not file.is_file()):
        raise InvalidInput(f"Cannot write {file}: it is not a regular file. Choose another.")
