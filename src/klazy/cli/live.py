"""``klazy live``: rows in, decisions out, one line each."""

import csv
import json
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
from klazy.base.checks import InvalidInput, one_of
from klazy.cli import feeds, outlets
from klazy.cli.configfile import Config
from klazy.cli.terminal import explain_os_error, flag, option, say, take_options
from klazy.live.agent import Agent
from klazy.live.inspection import format_time
from klazy.live.rows import NEXT_ROW, THIS_ROW

if TYPE_CHECKING:
    from klazy.sinks import Sink
    from klazy.sinks.metrics import LiveMetrics
    from klazy.sources import TimedRow

# The name of the field with the time stamp of a row of a source, which is its id.
TIME = "time"
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

    Decisions also go to sinks. One that fails never holds up a round, and is tried again with the newest decision.

    A TOML file in the place of the agent has a table [agents.NAME] for each agent, with these options; [live] has those that
    they share. Flags win, then variables such as KLAZY_LIVE_STATE, then the file; klazy config check looks at it.

    \b
    Examples:
      klazy live agent.json < today.csv
      tail -f rows.csv | klazy live agent.json --state decisions.db --id time
      echo '{"eu": 3.1, "us": 2.9}' | klazy live agent.json --explain
      klazy live agent.json --state decisions.db --prometheus http://localhost:9090 --query 'sum(rate(http_requests_total[1m]))'
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
        loop = RowLoop(agent, id, *options, given["forecast_for"])
        try:
            if self.feed is None:
                loop.work(sys.stdin, given["as_json"], given["first"], wait)
            else:
                loop.work_feed(
                    self.feed, given["since"], write, given["first"], given["once"], wait, pause
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
    step = (loaded.origin or {}).get("step") or feeds.STEP_SECONDS
    feed = feeds.open_feed(given, step, list_row_columns(loaded))
    return Unit(
        given, given["name"] or given["agent"].stem, loaded, feed, outlets.open_sinks(given)
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


def list_row_columns(agent: Agent) -> list[str]:
    """List the columns that a row of an agent may have, those of forecasts last."""
    return [*(agent.columns or ()), *(agent.forecast or ())]


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
    taken: int = 0
    dropped: int = 0
    refused: int = 0

    def __post_init__(self) -> None:
        self.columns = frozenset(list_row_columns(self.agent))
        origin = self.agent.origin or {}
        is_own = one_of(
            self.forecast_for or origin.get("forecast_for", NEXT_ROW),
            "--forecast-for",
            (THIS_ROW, NEXT_ROW),
        )
        # Whether a decision waits for the row that it meets, because the forecast is there.
        self.waits_for_forecasts = self.agent.forecast is not None and is_own == THIS_ROW
        self.time = origin.get("time")
        self.last_id = self.agent.last_id or ""
        self.out.give(self.agent, self.last_id)
        # Columns of a source that the agent does not have, and that were reported.
        self.reported: set[str] = set()
        if self.id in self.columns:
            raise InvalidInput(
                f"--id {self.id} is a column of the agent. Choose another column for ids."
            )

    def work(
        self, source: TextIO, as_json: bool, first: bool, wait: Callable[[Any], Any]
    ) -> None:
        """Read and answer row after row."""
        number, text = _skip_blank(source, wait)
        is_json = text.lstrip().startswith(("{", "["))
        beside: dict[str, Any] = {}
        if is_json:
            lines = _read_json(number, text, source)
        else:
            delimiter = max(SEPARATORS, key=text.count)
            names = name_index(
                [name.strip() for name in next(csv.reader([text], delimiter=delimiter), [])]
            )
            if text:
                self._check_header(names)
            beside = {name: None for name in names if self._is_beside(name)}
            fills_blank = self.agent.fill is not None and self.columns.issuperset(names)
            lines = _read_csv(number, names, delimiter, source, self.columns, fills_blank)
        write = _write_json if is_json or as_json else _CsvWriter()
        if first:
            write(self._describe(beside))
        if self.waits_for_forecasts:
            lines = self._move_forecasts(lines)
        while (line := wait(lambda: next(lines, None))) is not None:
            self._take(line, write)
            self.out.give(self.agent, self.last_id)

    def work_feed(
        self,
        feed: feeds.Feed,
        since: str | None,
        write: Callable[[dict[str, Any]], None],
        first: bool,
        once: bool,
        wait: Callable[[Any], Any],
        pause: Callable[[float], Any],
    ) -> None:
        """Ask a source for row after row, and answer them."""
        from klazy.sources import follow

        if self.waits_for_forecasts:
            raise InvalidInput(
                "A source has a row only when it is over, too late for a forecast of that row. Ask for forecasts of the next "
                "row, and add --forecast-for next."
            )
        if first:
            write(self._describe({TIME: None}))
        note = _OutageNote(self._report)
        last = _find_last_time(self.agent, since)
        more = {"settle": feed.settle, "once": once, "note": note, "pause": pause}
        rows = follow(feed.source, last, feed.step, **more)
        while (row := wait(lambda: next(rows, END))) is not END:
            if row is not None:
                self._take(self._name_row(row), write)
            else:
                # Sinks need no decision that is out of date already.
                self.out.give(self.agent, self.last_id, is_away=note.is_away)
        self.out.give(self.agent, self.last_id)

    def _move_forecasts(self, lines: Iterator[Line]) -> Iterator[Line]:
        """Move each forecast to the row after which it is used: the decision made then meets the row that it stood in.

        A row waits for it. Where only the forecast of a row is known yet, its line comes again once the row is complete.
        """
        names = self.agent.forecast or ()
        held: deque[Line] = deque()
        told: deque[dict[str, Any]] = deque()
        # Forecasts of the first rows were for decisions that have been made.
        skipped = 1 + self.agent.lead + self.agent.delay
        early = 0
        for line in lines:
            forecast = {name: line.cells.get(name) for name in names}
            is_early = self._is_early(line)
            if not is_early and not self._ends_round(line):
                yield line
                continue
            if not is_early:
                held.append(line)
            if is_early or not early:
                told.append(forecast)
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
        """Return True for a line that has only the forecast of a row that is to come."""
        has_row = any(not is_missing(line.cells.get(name)) for name in self.agent.columns or ())
        has_forecast = any(
            not is_missing(line.cells.get(name)) for name in self.agent.forecast or ()
        )
        return has_forecast and not has_row and self.agent.fill is None

    def _ends_round(self, line: Line) -> bool:
        if line.fault is not None:
            return False
        try:
            return self.agent.check_row(self._split(line.cells)[0])
        except InvalidInput:
            return False

    def _report(self, text: str) -> None:
        say(f"{self.prefix}{text}", file=sys.stderr)

    def _name_row(self, row: "TimedRow") -> Line:
        """Return a row of a source by the columns of the agent; a label may have values that it does not know."""
        stamp = format_time(row.time, "auto") or ""
        unknown = row.cells.keys() - self.columns - self.reported
        if unknown:
            self.reported |= unknown
            names = ", ".join(sorted(unknown))
            self._report(f"{stamp}: the agent has no columns {names}; they are left out.")
        cells = {name: row.cells.get(name) for name in list_row_columns(self.agent)}
        return Line(stamp, {TIME: stamp, **cells})

    def _take(self, line: Line, write: Callable[[dict[str, Any]], None]) -> None:
        try:
            if line.fault is not None:
                raise line.fault
            row, beside, id = self._split(line.cells)
            ends_round = self.agent.check_row(row, id=id)
        except InvalidInput as wrong:
            if self.strict:
                raise InvalidInput(f"{line.place}: {wrong}") from None
            self.refused += 1
            self.out.refuse()
            self._report(f"{line.place}: {wrong}")
            return
        made = self.agent.observe(row, id=id, retry=True)
        self.last_id = str(id or "")
        if ends_round:
            self.taken += 1
        else:
            self.dropped += 1
            self._report(f"{line.place}: dropped, since a cell is missing.")
        write(self._describe(beside, made))

    def _describe(self, beside: dict[str, Any], made: Any = None) -> dict[str, Any]:
        """Return the fields to print for a decision, by default the present one."""
        found = beside | (made or self.agent.decision)
        if self.explain:
            found[WHY] = " ".join(self.agent.explain().words)
        return found

    def _split(self, cells: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any], Any]:
        """Split cells into the row for the agent, the cells to pass on, and the id."""
        row = {}
        beside = {}
        for name, cell in cells.items():
            if self._is_beside(name):
                beside[name] = cell
            elif name not in self.ignored:
                row[name] = cell
        if self.id is None:
            return row, beside, None
        given = cells.get(self.id)
        if given in (None, ""):
            raise InvalidInput(f"Column {self.id} must have an id, got {given!r}.")
        return row, beside, given

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
        columns = list_row_columns(self.agent)
        missing = [name for name in columns if name not in names]
        if missing:
            raise InvalidInput(
                f"The rows must have the columns {columns}, but {missing} are missing."
            )
        known = self.columns | self.ignored
        unknown = [name for name in names if name not in known and not self._is_beside(name)]
        if unknown:
            option = f"--ignore {json.dumps(unknown[0])}"
            raise InvalidInput(
                f"The agent has no columns {unknown}, only {columns}. Leave one out with {option}."
            )

    def sum_up(self) -> None:
        """Print a summary on standard error, if there was a row."""
        if self.taken + self.dropped + self.refused == 0:
            return
        dropped = f", dropped: {self.dropped}" if self.agent.fill == "drop" else ""
        words = f"Rows taken: {self.taken}{dropped}, refused: {self.refused}; round {self.agent.t} comes next"
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
