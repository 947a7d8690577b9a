"""``klazy live``: rows in, decisions out, one line each."""

import csv
import json
import math
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TextIO

import typer

from klazy.base.cells import SEPARATORS, TIMES, is_missing, name_index
from klazy.base.checks import InvalidInput, number, one_of
from klazy.cli import feeds, outlets
from klazy.cli.configfile import Config
from klazy.cli.terminal import explain_os_error, find_model, flag, option, say, take_options
from klazy.contrib.forecaster import Forecaster
from klazy.live.agent import Agent
from klazy.live.inspection import format_time
from klazy.live.rows import LIMIT_SIDES, NEXT_ROW, THIS_ROW, NextLimits, name_limits
from klazy.live.state import IDS_REMEMBERED
from klazy.sets.limits import LimitedSet

if TYPE_CHECKING:
    from klazy.sinks import Sink
    from klazy.sinks.metrics import LiveMetrics
    from klazy.sources import TimedRow

# The name of the field with the time stamp of a row of a source, which is its id.
TIME = "time"
# The name of the field of a JSON row with the limits of the next decision.
LIMITS = "next_limits"
# The name of the field with an explanation.
WHY = "why"
# The length of a bad cell in an error message.
CELL_SHOWN = 60


# What stands for the end of a source's rows.
END = object()


class Line(NamedTuple):
    """A row of the input: where it is, and its cells by name, or an error in their place."""

    place: str
    cells: dict[str, Any]
    fault: InvalidInput | None = None


class OpenLines(NamedTuple):
    """Rows of text: their lines, whether they are JSON, and the columns that are passed on."""

    lines: Iterator[Line]
    is_json: bool
    beside: dict[str, Any]


class RowParts(NamedTuple):
    """The cells of a row by their use: the row for the agent, cells to pass on, its id, the limits of the next decision.

    ``ends_round`` is False where a missing cell drops the row.
    """

    row: dict[str, Any]
    beside: dict[str, Any]
    id: Any = None
    limits: NextLimits | None = None
    ends_round: bool = True


class Ended(Exception):
    """A signal came, so that it is time to end."""


@take_options(feeds.FEED_OPTIONS | outlets.OUTLET_OPTIONS)
def live(
    context: typer.Context,
    agent: Annotated[
        Path,
        typer.Argument(
            help="A file that klazy replay --emit or Agent.save wrote; or a TOML file with several agents."
        ),
    ],
    state: Annotated[
        str | None, option("Keep the agent in this database, and continue from there.")
    ] = None,
    name: Annotated[str | None, option("The agent's name there.", "the file's name")] = None,
    id: Annotated[
        str | None, option("The column of ids: a row that comes twice counts once.")
    ] = None,
    ignore: Annotated[list[str] | None, option("A column to leave out; may be repeated.")] = None,
    first: Annotated[
        bool, flag("--first", "Print the current decision before the first row.")
    ] = False,
    explain: Annotated[bool, flag("--explain", "Add a field that says why.")] = False,
    strict: Annotated[
        bool, flag("--strict", "Stop at the first bad row instead of skipping it.")
    ] = False,
    as_json: Annotated[
        bool, flag("--json", "Print JSON lines, whatever form the rows have.")
    ] = False,
    forecast_for: Annotated[
        str | None,
        option(
            "The row that the forecast in a row is for: next, the row that the decision after it meets; or this, its own row: "
            "then a decision waits for that row, whose other cells may still be empty.",
            "as in the replay, else next",
        ),
    ] = None,
    limits_for: Annotated[
        str | None,
        option(
            "Rows have limits in columns such as eu_lower and eu_upper, where an empty cell is no limit. They are for next, "
            "the row that the decision after them meets; or for this, their own row: then a decision waits for that row, "
            "whose other cells may still be empty.",
            "rows have no limits",
        ),
    ] = None,
    model: Annotated[
        str | None,
        option(
            "A model that forecasts the next row and learns from each, as in klazy replay --model: module:name."
        ),
    ] = None,
    features: Annotated[
        str | None, option("With --model: columns that only the model sees.", "as in the replay")
    ] = None,
    history: Annotated[
        str | None,
        option(
            "With --model: the rows until now, from which it learns first: a file of rows as on standard input; with a source, "
            "where to begin: 14d, or an ISO date."
        ),
    ] = None,
    once: Annotated[
        bool, flag("--once", "Take the rows that a source has by now, and stop.")
    ] = False,
    config: Config = None,
    **_: Any,
) -> None:
    """Decide row by row: read each round's row from standard input, print the decision for the next round.

    Rows are CSV with a header, or JSON lines. Each decision is printed at once, in the same form, with the row's time and id.
    A bad row changes nothing: it is reported on standard error, and the exit status is 1 at the end. An agent from klazy
    replay --fill fills missing cells as the replay did. End of input, Ctrl-C and SIGTERM stop the command between two rows.

    With --prometheus it asks every --step instead, from the last round on, and takes each time stamp once. While Prometheus is
    away the decision stands. A new agent begins after the last row of its replay, or at --since.

    Limits of one decision, for an outage or a quota, are columns that --limits-for announces. JSON lines may have the field
    next_limits instead: {"upper": {"eu": 0}}.

    Decisions also go to sinks. One that fails never holds up a round, and is tried again with the newest decision.

    A TOML file in the place of the agent has a table [agents.NAME] for each agent, with these options; [live] has those that
    they share. Flags win, then variables such as KLAZY_LIVE_STATE, then the file; klazy config check looks at it.

    \b
    Examples:
      klazy live agent.json < today.csv
      tail -f rows.csv | klazy live agent.json --state decisions.db --id time
      echo '{"eu": 3.1, "us": 2.9}' | klazy live agent.json --explain
      klazy live agent.json --limits-for next < costs_and_limits.csv
      klazy live agent.json --state decisions.db --prometheus http://localhost:9090 --query 'sum(rate(http_requests_total[1m]))'
      klazy --import mine live agent.json --model mine:make_model --features hour --history past.csv < today.csv
      klazy live agent.json --state decisions.db --metrics :9464 --haproxy /run/haproxy.sock --backend web < rows.csv
    """  # fmt: skip
    if isinstance(sys.stdin, TextIOWrapper):
        sys.stdin.reconfigure(encoding="utf-8", errors="replace")
    if agent.suffix == ".toml":
        from klazy.cli.plant import run_plant

        run_plant(context, agent)
        return
    if name is not None and state is None:
        raise InvalidInput(f"--name {name} needs a store. Add --state decisions.db.")
    unit = open_unit(context.params)
    if unit.feed is not None and id is not None:
        raise InvalidInput(
            "--id is for rows of standard input; the time stamp is the id of a source's row."
        )
    with unit.open() as player, stop_between_rows() as wait:
        opened = outlets.open_metrics(context.params["metrics"], state, [unit.name])
        refused = unit.play(player, opened, _write_json if as_json else _CsvWriter(), wait)
    if refused:
        raise typer.Exit(1)


@dataclass
class Unit:
    """An agent, with what the options of the command open for it."""

    given: Mapping[str, Any]
    name: str
    loaded: Agent
    feed: feeds.Feed | None
    sinks: "dict[str, Sink]"
    forecaster: Forecaster | None = None

    def describe(self) -> str:
        """Return a line that says what it does."""
        columns = ", ".join(self.loaded.columns or ())
        rows = (
            "rows of standard input" if self.feed is None else f"a row every {self.feed.step:g} s"
        )
        sinks = ", ".join(self.sinks) or "none"
        return f"{self.name}: {self.given['agent']} ({columns}); {rows}; sinks: {sinks}"

    def open(self) -> Agent:
        """Open the agent in its store, if it has one."""
        state = self.given["state"]
        return self.loaded if state is None else Agent.open(state, self.loaded, name=self.name)

    def play(
        self,
        agent: Agent,
        metrics: "LiveMetrics | None",
        write: Callable[[dict[str, Any]], None],
        wait: Callable[[Any], Any],
        pause: Callable[[float], Any] = time.sleep,
        prefix: str = "",
    ) -> int:
        """Answer row after row until it is time to end, and return how many were refused.

        ``wait`` calls a function that waits for input, ``pause`` returns True if it is time to end.
        """
        given = self.given
        out = outlets.Outlets(self.name, self.sinks, metrics)
        id = given["id"] if self.feed is None else TIME
        options = (
            frozenset(given["ignore"] or ()),
            given["explain"],
            given["strict"],
            out,
            prefix,
        )
        ends = (given["forecast_for"], given["limits_for"], self.forecaster)
        loop = RowLoop(agent, id, *options, *ends)
        try:
            if self.feed is None:
                loop.learn_history(given["history"], wait)
                loop.work(sys.stdin, given["as_json"], given["first"], wait)
            else:
                since = (given["since"], given["history"])
                loop.work_feed(
                    self.feed, *since, write, given["first"], given["once"], wait, pause
                )
        except Ended:
            pass
        finally:
            out.close()
            loop.sum_up()
        return loop.refused


def open_unit(given: Mapping[str, Any]) -> Unit:
    """Open what the options of the command name, but for the store."""
    loaded = load_agent(given["agent"])
    check_limits_for(loaded, given["limits_for"])
    step = (loaded.origin or {}).get("step") or feeds.STEP_SECONDS
    forecaster = _open_forecaster(loaded, given)
    limits = list_limits(loaded, given["limits_for"])
    feed = feeds.open_feed(given, step, [*list_row_columns(loaded, forecaster), *limits])
    name = given["name"] or given["agent"].stem
    return Unit(given, name, loaded, feed, outlets.open_sinks(given), forecaster)


def _open_forecaster(agent: Agent, given: Mapping[str, Any]) -> Forecaster | None:
    """Open the model that options name, if they name one, with the features of the agent's replay if they name none."""
    features = (agent.origin or {}).get("features")
    if given["model"] is None:
        for name in ("features", "history"):
            if given[name] is not None:
                raise InvalidInput(
                    f"--{name} goes with --model module:name. Add it, or leave --{name} out."
                )
        if features is not None:
            raise InvalidInput(
                "The agent's forecasts come from the model of its replay. "
                f"Name it: klazy --import mine live {given['agent']} --model mine:make_model."
            )
        return None
    learner = agent.learner
    if agent.forecast is not None:
        raise InvalidInput(
            f"--model is for an agent without columns of forecasts; this one has {list(agent.forecast)}. Leave it out."
        )
    if not learner.accepts_hints or learner.takes_advice:
        raise InvalidInput(
            f"--model needs an agent whose learner takes forecasts, got {type(learner).__name__}. Leave it out, or replay with "
            "--contender forecast."
        )
    if given["features"] is not None:
        features = given["features"].split(",")
    ahead = 1 + agent.lead + agent.delay
    return Forecaster(
        find_model(given["model"]), agent.columns or (), features or (), ahead=ahead
    )


def load_agent(file: Path) -> Agent:
    """Load an agent that takes rows by name."""
    with explain_os_error(f"read the agent {file}"):
        agent = Agent.load(file)
    if agent.columns is None or agent.costs is None:
        raise InvalidInput(
            f"The agent of {file} takes no rows by name. Build it with costs=... and columns=[...]."
        )
    return agent


def check_limits_for(agent: Agent, limits_for: str | None) -> None:
    """Reject limits that this agent can never take."""
    if limits_for is None:
        return
    one_of(limits_for, "--limits-for", (THIS_ROW, NEXT_ROW))
    if agent.guards is None:
        raise InvalidInput(
            "--limits-for needs an agent with guards. Emit it with klazy replay --limits FILE, or build it with "
            "guards=Guards()."
        )
    LimitedSet.check((None, None), agent.learner.domain, 1)


def list_row_columns(agent: Agent, forecaster: Forecaster | None = None) -> list[str]:
    """List the columns that a row of an agent may have, those of forecasts or of a model's features last."""
    features = () if forecaster is None else forecaster.features
    return [*(agent.columns or ()), *(agent.forecast or ()), *features]


def list_limits(agent: Agent, limits_for: str | None) -> dict[str, tuple[str, str]]:
    """Return the side and the coordinate of each column with limits; nothing if rows have none."""
    if limits_for is None:
        return {}
    own = {*(agent.columns or ()), *(agent.forecast or ())}
    found = name_limits(list(agent.decision))
    return {name: limit for name, limit in found.items() if name not in own}


@dataclass
class RowLoop:
    """A loop that reads rows, prints decisions and counts what became of each row."""

    agent: Agent
    id: str | None
    ignored: frozenset[str]
    explain: bool
    strict: bool
    out: outlets.Outlets
    prefix: str = ""
    forecast_for: str | None = None
    limits_for: str | None = None
    forecaster: Forecaster | None = None
    taken: int = 0
    dropped: int = 0
    refused: int = 0

    def __post_init__(self) -> None:
        self.names = list_row_columns(self.agent, self.forecaster)
        self.columns = frozenset(self.names)
        self.limits = list_limits(self.agent, self.limits_for)
        self.features = () if self.forecaster is None else self.forecaster.features
        # The model's forecasts after the last rows with an id: it learns from a row that comes twice once.
        self.forecasts: dict[str, dict[str, float] | None] = {}
        self.untold = 0
        origin = self.agent.origin or {}
        is_own = one_of(
            self.forecast_for or origin.get("forecast_for", NEXT_ROW),
            "--forecast-for",
            (THIS_ROW, NEXT_ROW),
        )
        # The cells of the row that a decision meets for which it waits, because what it has to know is there.
        self.awaited: list[str] = []
        if self.agent.forecast is not None and is_own == THIS_ROW:
            self.awaited += self.agent.forecast
        if self.limits_for == THIS_ROW:
            self.awaited += self.limits
        self.time = origin.get("time")
        self.last_id = self.agent.last_id or ""
        self.out.give(self.agent, self.last_id)
        # Columns of a source that the agent does not have, and that were reported.
        self.reported: set[str] = set()
        if self.id in self.columns or self.id in self.limits:
            raise InvalidInput(
                f"--id {self.id} is a column of the agent. Choose another column for ids."
            )

    def work(
        self, source: TextIO, as_json: bool, first: bool, wait: Callable[[Any], Any]
    ) -> None:
        """Read and answer row after row."""
        opened = self._open_lines(source, wait)
        write = _write_json if opened.is_json or as_json else _CsvWriter()
        if first:
            write(self._describe(opened.beside))
        lines = opened.lines
        if self.awaited:
            lines = self._move_awaited(lines)
        while (line := wait(lambda: next(lines, None))) is not None:
            self._take(line, write)
            self.out.give(self.agent, self.last_id)

    def _open_lines(self, source: TextIO, wait: Callable[[Any], Any]) -> "OpenLines":
        """Open rows as text, CSV with a header or JSON."""
        number, text = _skip_blank(source, wait)
        is_json = text.lstrip().startswith(("{", "["))
        if is_json:
            return OpenLines(_read_json(number, text, source), True, {})
        delimiter = max(SEPARATORS, key=text.count)
        names = name_index(
            [name.strip() for name in next(csv.reader([text], delimiter=delimiter), [])]
        )
        if text:
            self._check_header(names)
        beside = {name: None for name in names if self._is_beside(name)}
        known = self.columns | self.limits.keys()
        fills_blank = self.agent.fill is not None and known.issuperset(names)
        numeric = known.intersection(names)
        lines = _read_csv(number, names, delimiter, source, numeric, fills_blank)
        return OpenLines(lines, False, beside)

    def learn_history(self, history: str | None, wait: Callable[[Any], Any]) -> None:
        """Let the model learn from the rows of a file first, as it did when they came."""
        if history is None:
            self._report_oblivion()
            return
        with (
            explain_os_error(f"read the history {history}"),
            open(history, encoding="utf-8", errors="replace", newline="") as file,
        ):
            lines = self._open_lines(file, wait).lines
            while (line := wait(lambda: next(lines, None))) is not None:
                self._learn(line)

    def _learn(self, line: Line) -> None:
        """Let the model learn from a row that is over; one that was refused when it came teaches nothing."""
        try:
            checked = self._check(line)
        except InvalidInput:
            return
        if checked.ends_round:
            self._forecast(line, checked.id)

    def _report_oblivion(self) -> None:
        """Say so if the model begins with nothing, and the agent does not."""
        if self.forecaster is not None and self.agent.t > 1:
            self._report(
                f"The agent is in round {self.agent.t}, but its model begins with nothing. Add --history, the rows until now."
            )

    def work_feed(
        self,
        feed: feeds.Feed,
        since: str | None,
        history: str | None,
        write: Callable[[dict[str, Any]], None],
        first: bool,
        once: bool,
        wait: Callable[[Any], Any],
        pause: Callable[[float], Any],
    ) -> None:
        """Ask a source for row after row, and answer them."""
        from klazy.sources import follow

        if self.awaited:
            is_limit = self.awaited[-1] in self.limits
            what = "limits" if is_limit else "forecasts"
            option = "--limits-for" if is_limit else "--forecast-for"
            raise InvalidInput(
                f"A source has a row only when it is over, too late for {what} of that row. Ask for {what} of the next row, "
                f"and add {option} next."
            )
        if first:
            write(self._describe({TIME: None}))
        note = _OutageNote(self._report)
        last = _find_last_time(self.agent, since)
        begin = last
        if history is None:
            self._report_oblivion()
        else:
            last = time.time() if last is None else last
            begin = min(feeds.read_since(history), last)
        more = {"settle": feed.settle, "once": once, "note": note, "pause": pause}
        rows = follow(feed.source, begin, feed.step, **more)
        while (row := wait(lambda: next(rows, END))) is not END:
            if row is not None and last is not None and row.time <= last:
                self._learn(self._name_row(row))
            elif row is not None:
                self._take(self._name_row(row), write)
            else:
                # Sinks need no decision that is out of date already.
                self.out.give(self.agent, self.last_id, is_away=note.is_away)
        self.out.give(self.agent, self.last_id)

    def _move_awaited(self, lines: Iterator[Line]) -> Iterator[Line]:
        """Move forecasts and limits to the row after which they are used: the decision made then meets the row they stood in.

        A row waits for them. Where only these cells of a row are known yet, its line comes again once the row is complete.
        """
        names = self.awaited
        held: deque[Line] = deque()
        told: deque[dict[str, Any]] = deque()
        # Those of the first rows were for decisions that have been made.
        skipped = 1 + self.agent.lead + self.agent.delay
        early = 0
        for line in lines:
            awaited = {name: line.cells.get(name) for name in names}
            is_early = self._is_early(line)
            if not is_early and not self._ends_round(line):
                yield line
                continue
            if not is_early:
                held.append(line)
            if is_early or not early:
                told.append(awaited)
            early += 1 if is_early else -min(early, 1)
            if skipped and told:
                told.popleft()
                skipped -= 1
            while held and told:
                first = held.popleft()
                yield first._replace(cells=first.cells | told.popleft())
        for line in held:
            yield line._replace(cells=line.cells | dict.fromkeys(names))

    def _is_early(self, line: Line) -> bool:
        """Return True for a line that has only what is awaited of a row that is to come. No limit at all is a limit, too."""
        has_row = any(not is_missing(line.cells.get(name)) for name in self.agent.columns or ())
        is_told = self.limits_for == THIS_ROW or any(
            not is_missing(line.cells.get(name)) for name in self.awaited
        )
        is_whole = line.fault is None
        return is_whole and is_told and not has_row and self.agent.fill is None

    def _ends_round(self, line: Line) -> bool:
        if line.fault is not None:
            return False
        try:
            return self.agent.check_row(self._split(line.cells).row)
        except InvalidInput:
            return False

    def _report(self, text: str) -> None:
        say(f"{self.prefix}{text}", file=sys.stderr)

    def _name_row(self, row: "TimedRow") -> Line:
        """Return a row of a source by the columns of the agent; a label may have values that it does not know."""
        stamp = format_time(row.time, "auto") or ""
        known = [*self.names, *self.limits]
        unknown = row.cells.keys() - set(known) - self.reported
        if unknown:
            self.reported |= unknown
            names = ", ".join(sorted(unknown))
            self._report(f"{stamp}: the agent has no columns {names}; they are left out.")
        cells = {name: row.cells.get(name) for name in known}
        return Line(stamp, {TIME: stamp, **cells})

    def _take(self, line: Line, write: Callable[[dict[str, Any]], None]) -> None:
        try:
            parts = self._check(line)
        except InvalidInput as wrong:
            if self.strict:
                raise InvalidInput(f"{line.place}: {wrong}") from None
            self.refused += 1
            self.out.refuse()
            self._report(f"{line.place}: {wrong}")
            return
        forecast = self._forecast(line, parts.id) if parts.ends_round else None
        if parts.ends_round and forecast is None:
            self.untold += 1
        told = {"next_forecast": forecast, "next_limits": parts.limits}
        made = self.agent.observe(parts.row, id=parts.id, retry=True, **told)
        self.last_id = str(parts.id or "")
        if parts.ends_round:
            self.taken += 1
        else:
            self.dropped += 1
            lost = "" if parts.limits is None else " Its limits are lost, too."
            self._report(f"{line.place}: dropped, since a cell is missing.{lost}")
        write(self._describe(parts.beside, made))

    def _forecast(self, line: Line, id: Any) -> dict[str, float] | None:
        """Let the model learn from a row that ends a round, and return its forecast, if there is a model and a forecast."""
        if self.forecaster is None:
            return None
        key = None if id is None else str(id)
        if key in self.forecasts:
            return self.forecasts[key]
        found = None
        try:
            found = self.forecaster.observe(self._complete(line))
        except InvalidInput as failed:
            self._report(f"{line.place}: decided without a forecast. {failed}")
        if key is not None:
            self.forecasts[key] = found
            if len(self.forecasts) > IDS_REMEMBERED:
                del self.forecasts[next(iter(self.forecasts))]
        return found

    def _check(self, line: Line) -> RowParts:
        """Split a row, and check it for the agent and for the model, or raise an error."""
        if line.fault is not None:
            raise line.fault
        parts = self._split(line.cells)
        ends_round = self.agent.check_row(parts.row, id=parts.id, next_limits=parts.limits)
        if self.forecaster is not None:
            self.forecaster.check_row(self._complete(line))
        return parts._replace(ends_round=ends_round)

    def _complete(self, line: Line) -> dict[str, Any]:
        """Return the cells of a line, None where a column is not there."""
        return dict.fromkeys(self.names) | line.cells

    def _describe(self, beside: dict[str, Any], made: Any = None) -> dict[str, Any]:
        """Return the fields to print for a decision, by default the present one."""
        found = beside | (made or self.agent.decision)
        if self.explain:
            found[WHY] = " ".join(self.agent.explain().words)
        return found

    def _split(self, cells: dict[str, Any]) -> RowParts:
        """Split cells by their use."""
        row: dict[str, Any] = {}
        beside: dict[str, Any] = {}
        limited: dict[str, dict[str, float]] = {}
        limits = None
        for name, cell in cells.items():
            if self._is_beside(name):
                beside[name] = cell
            elif name in self.ignored or name in self.features:
                continue
            elif name in self.limits:
                if not is_missing(cell):
                    side, of = self.limits[name]
                    limited.setdefault(side, {})[of] = _read_limit(cell, name)
            elif name == LIMITS and name not in self.columns:
                limits = _read_limits(cell)
            else:
                row[name] = cell
        if limited:
            if limits is not None:
                raise InvalidInput(f"A row has {LIMITS} or columns of limits, not both.")
            limits = limited.get("lower"), limited.get("upper")
        if self.id is None:
            return RowParts(row, beside, None, limits)
        given = cells.get(self.id)
        if given in (None, ""):
            raise InvalidInput(f"Column {self.id} must have an id, got {given!r}.")
        return RowParts(row, beside, given, limits)

    def _is_beside(self, name: str) -> bool:
        if name in self.columns or name in self.ignored:
            return False
        return name in (self.id, self.time) or name.lower() in TIMES

    def _check_header(self, names: list[str]) -> None:
        """Reject a header by which every row would be bad."""
        if len(set(names)) != len(names):
            raise InvalidInput(f"Each column must have a name of its own, got {names}.")
        if self.id is not None and self.id not in names:
            raise InvalidInput(f"--id must be one of the columns {names}, got {self.id}.")
        missing = [name for name in self.names if name not in names]
        if missing:
            raise InvalidInput(
                f"The rows must have the columns {self.names}, but {missing} are missing."
            )
        known = self.columns | self.ignored | self.limits.keys()
        unknown = [name for name in names if name not in known and not self._is_beside(name)]
        if unknown:
            remedy = f"Leave one out with --ignore {json.dumps(unknown[0])}."
            if unknown[0] in list_limits(self.agent, NEXT_ROW):
                remedy += " If it limits the next decision, add --limits-for next."
            raise InvalidInput(f"The agent has no columns {unknown}, only {self.names}. {remedy}")
        if self.limits and not self.limits.keys() & set(names):
            first = next(iter(self.limits))
            raise InvalidInput(
                f"--limits-for needs columns of limits such as {first}, got {names}. Add one, or leave it out."
            )

    def sum_up(self) -> None:
        """Print a summary on standard error, if there was a row."""
        if self.taken + self.dropped + self.refused == 0:
            return
        dropped = f", dropped: {self.dropped}" if self.agent.fill == "drop" else ""
        untold = ""
        if self.forecaster is not None:
            reason = f" ({self.forecaster.failure})" if self.forecaster.failure else ""
            untold = f", without a forecast: {self.untold}{reason}"
        words = f"Rows taken: {self.taken}{dropped}{untold}, refused: {self.refused}; round {self.agent.t} comes next"
        paid = (
            f"operating cost {self.agent.hitting:.6g}, switching cost {self.agent.switching:.6g}"
        )
        self._report(f"{words}; paid so far: {paid}.")


def _find_last_time(agent: Agent, since: str | None) -> float | None:
    """Return the time stamp after which an agent goes on: its last round, else as asked, else where its replay ended."""
    last = agent.last_id
    if last is not None:
        stamp = feeds.read_stamp(last)
        if stamp is None:
            raise InvalidInput(
                f"The id of the agent's last round must be a time stamp, got {last}. Use another --name."
            )
        return stamp
    if since is not None:
        return feeds.read_since(since)
    return (agent.origin or {}).get("last_time")


class _OutageNote:
    """Reports when a source is away, and when it is back, once each."""

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self.is_away = False

    def __call__(self, away: Exception | None) -> None:
        if away is not None and not self.is_away:
            self._report(f"{away} The decision stands.")
        elif away is None and self.is_away:
            self._report("The source answers again.")
        self.is_away = away is not None


# Reading


def _skip_blank(source: TextIO, wait: Callable[[Any], Any]) -> tuple[int, str]:
    """Return the number and the text of the first line that is not blank; an empty text if there is none."""
    number = 0
    while text := wait(source.readline):
        number += 1
        text = text.removeprefix("\ufeff")
        if text.strip():
            return number, text
    return number, ""


def _read_json(number: int, text: str, source: TextIO) -> Iterator[Line]:
    while text:
        if text.strip():
            yield _parse_json(number, text)
        text = source.readline()
        number += 1


def _parse_json(number: int, text: str) -> Line:
    hint = 'Write {"name": number}.'
    try:
        cells = json.loads(text)
        if isinstance(cells, dict):
            return Line(f"line {number}", cells)
    except (ValueError, RecursionError) as failed:
        hint = f"{failed}."
    shown = text.strip()[:CELL_SHOWN]
    return Line(
        f"line {number}",
        {},
        InvalidInput(f"Each line must be a JSON object, got {shown}. {hint}"),
    )


def _read_csv(
    number: int,
    names: list[str],
    delimiter: str,
    source: TextIO,
    numeric: frozenset[str],
    fills_blank: bool,
) -> Iterator[Line]:
    """Read the rows under a header, which was line ``number``; cells of ``numeric`` columns become numbers.

    A blank line is left out; with ``fills_blank`` it is a row in which every cell is missing, as it is for a replay.
    """
    reader = csv.reader(iter(source.readline, ""), delimiter=delimiter)
    while True:
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as failed:
            at = f"line {number + reader.line_num}"
            yield Line(at, {}, InvalidInput(f"This is no line of CSV: {failed}."))
            continue
        at = f"line {number + reader.line_num}"
        if len(cells) == len(names):
            named: dict[str, Any] = dict(zip(names, cells, strict=True))
            for name in numeric:
                named[name] = _read_cell(named[name], delimiter)
            yield Line(at, named)
        elif not cells and fills_blank:
            yield Line(at, dict.fromkeys(names))
        elif cells:
            message = (
                f"The row must have {len(names)} cells, as the header has, got {len(cells)}."
            )
            yield Line(at, {}, InvalidInput(message))


def _read_limit(cell: Any, name: str) -> float:
    """Return a cell of a column of limits as a number, which may be infinite."""
    if isinstance(cell, float) and math.isinf(cell):
        return cell
    return number(cell, name)


def _read_limits(found: Any) -> NextLimits | None:
    """Return the limits in the field of a JSON row."""
    if found is None:
        return None
    if not isinstance(found, dict) or found.keys() - LIMIT_SIDES.keys():
        raise InvalidInput(
            f'{LIMITS} must be an object with lower and upper, got {json.dumps(found)}. Write {{"upper": {{"eu": 0}}}}.'
        )
    lower, upper = (_read_side(found.get(side), f"{LIMITS}.{side}") for side in LIMIT_SIDES)
    return lower, upper


def _read_side(side: Any, place: str) -> Any:
    """Return one side of the limits of a JSON row; null is no limit."""
    if not isinstance(side, dict):
        return side
    return {
        name: None if is_missing(cell) else _read_limit(cell, f"{place}.{name}")
        for name, cell in side.items()
    }


def _read_cell(cell: str, delimiter: str) -> float | str:
    """Return a cell as a number if it is one; unless commas separate cells, it may have a decimal comma."""
    text = cell.strip()
    if delimiter != "," and "," in text:
        text = text.replace(".", "").replace(",", ".", 1)
    try:
        return float(text)
    except ValueError:
        return cell if len(cell) <= CELL_SHOWN else f"{cell[:CELL_SHOWN]}..."


# Writing


def _write_json(found: dict[str, Any]) -> None:
    print(json.dumps(found), flush=True)


class _CsvWriter:
    """A writer of CSV that begins with a header."""

    def __init__(self) -> None:
        self._writer: csv.DictWriter[str] | None = None

    def __call__(self, found: dict[str, Any]) -> None:
        if self._writer is None:
            self._writer = csv.DictWriter(
                sys.stdout, found, extrasaction="ignore", lineterminator="\n"
            )
            self._writer.writeheader()
        self._writer.writerow(found)
        sys.stdout.flush()


@contextmanager
def stop_between_rows() -> Iterator[Callable[[Any], Any]]:
    """Let Ctrl-C and SIGTERM end the command while it waits for input, or once it has answered the row it is at.

    The result is a function that calls another one, which waits for input.
    """
    waiting = False
    is_stopping = False

    def stop(*_: object) -> None:
        nonlocal is_stopping
        is_stopping = True
        if waiting:
            raise Ended

    def wait(read: Callable[[], Any]) -> Any:
        nonlocal waiting
        waiting = True
        try:
            if is_stopping:
                raise Ended
            return read()
        finally:
            waiting = False

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    # Other commands end at once by this file descriptor.
    wakeup = signal.set_wakeup_fd(-1)
    try:
        for number, handler in before.items():
            if handler is not signal.SIG_IGN:
                signal.signal(number, stop)
        yield wait
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(wakeup)
