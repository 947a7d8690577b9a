"""Read a trace: polars parses the cells of a file or frame, and every cell is checked.

:class:`Source` is the door. Its numbers go to a temporary file, from which they are read in pieces.
"""

import csv
import tempfile
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple
from weakref import finalize

import numpy as np
import polars as pl

from klazy.base.cells import INDEX, MISSING, SEPARATORS, TIMES, is_missing, name_index
from klazy.base.checks import LARGEST, Array, InvalidInput, one_of, real_array
from klazy.base.install import make_missing
from klazy.base.options import write_option
from klazy.contrib.forecaster import Forecaster
from klazy.live.rows import FILLS, LIMIT_SIDES, NEXT_ROW, THIS_ROW, name_limits

# Reads the rows from one to before another.
Read = Callable[[int, int], Array]
# Rows that are read at a time.
ROWS = 65_536
# The name of the time stamps among parsed columns, which have numbers for names.
STAMPS = "time"
# Stands for the name of a column in the names of others.
STAR = "*"
# Letters of a cell that a message shows.
CELL_LETTERS = 60
TEXT_FILES = (".csv", ".tsv", ".txt")
EXCEL_FILES = (".xlsx", ".xls", ".xlsm", ".xlsb", ".ods")
# Kinds of time stamps; a cell that is none of them has the number -1.
STAMP_KINDS = ("numbers", "dates without a zone", "dates with a zone")
NUMERIC, NAIVE, ZONED = range(3)
DATE_FORMATS = ("%Y-%m-%d", "%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%d %H:%M")
ZONE = r"(:\d\d(?:\.\d+)?) ?(Z|[+-]\d\d(?::?\d\d)?)$"
# Lengths of time in seconds.
HOUR_SECONDS = 3_600.0
DAY_SECONDS = 24.0 * HOUR_SECONDS
WEEK_SECONDS = 7.0 * DAY_SECONDS
# A step is a gap if it is longer than this many usual steps.
GAP_STEPS = 1.5
# Weekly closing hours are looked for if a week has at most this many steps: one per second.
WEEK_STEPS = 604_800


class Table(NamedTuple):
    """Cells before they are parsed; ``separator`` is that of a text file, whose cells are all text."""

    title: str
    frame: pl.LazyFrame
    separator: str = ""

    def read_cell(self, row: int, column: str) -> str:
        """Return a cell as a message shows it; rows count from 0."""
        text = repr(self.frame.slice(row, 1).select(column).collect().item())
        return text if len(text) <= CELL_LETTERS else f"{text[:CELL_LETTERS]}..."


def open_table(data: Any) -> Table:
    """Open a path, a polars or pandas frame, or an array with a row per round."""
    title = "your data"
    separator = ""
    frame = data
    if isinstance(data, Path):
        title = data.name
        frame, separator = _open_file(data)
    elif hasattr(data, "iloc"):
        frame = _convert_pandas(data)
    elif not isinstance(data, pl.DataFrame):
        frame = _convert_array(data)
    scan = frame.lazy()
    names = scan.collect_schema().names()
    named = scan.rename(dict(zip(names, _check_names(names), strict=True)))
    return Table(title, named, separator)


def _open_file(path: Path) -> tuple[Any, str]:
    """Return a frame, and the separator of a text file."""
    # polars opens no other names.
    str(path).encode()
    suffix = path.suffix.lower()
    # An absolute path, so that polars does not read ``~`` as a home.
    place = path.absolute()
    if suffix in TEXT_FILES:
        separator, names = _read_names(path)
        scan = pl.scan_csv(
            place, infer_schema=False, new_columns=names, glob=False, separator=separator
        )
        return scan, separator
    if suffix == ".parquet":
        return pl.scan_parquet(place, glob=False), ""
    if suffix in EXCEL_FILES:
        return _read_excel(path), ""
    raise InvalidInput(
        f"The file must be a .csv, .tsv, .txt, .xlsx or .parquet file, got {path}."
    )


def _split_lines(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield each line's cells, with the separator: the candidate that is most frequent in the first line."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        separator = max(SEPARATORS, key=file.readline().count)
        file.seek(0)
        for cells in csv.reader(file, delimiter=separator):
            yield separator, cells


def _read_names(path: Path) -> tuple[str, list[str]]:
    separator, names = next(_split_lines(path), ("", []))
    kinds, _, _ = read_stamps(pl.Series(names, dtype=pl.String))
    if not names:
        raise InvalidInput(f"{path} must have a column of numbers, but its first line is empty.")
    if (kinds >= 0).all():
        raise InvalidInput(
            f"The first line of {path} must have the names of the columns, got {names}."
        )
    return separator, _check_names(names)


def check_lengths(data: Any) -> None:
    """Reject the first row of a text file that has not as many cells as there are names."""
    if not isinstance(data, Path) or data.suffix.lower() not in TEXT_FILES:
        return
    count = 0
    for row, (_, cells) in enumerate(_split_lines(data)):
        count = count or len(cells)
        if len(cells) != count and cells:
            wanted = f"Every row of {data} must have {count} cells"
            raise InvalidInput(f"{wanted}, but row {row} has {len(cells)}.")


def _check_names(names: Sequence[Any]) -> list[str]:
    """Check that each column has a name of its own; a first one without a name is an index."""
    found = name_index([str(name) for name in names])
    if len(set(found)) < len(found) or "" in found:
        raise InvalidInput(f"Each column must have a name of its own, got {list(names)}.")
    return found


def _read_excel(path: Path) -> pl.DataFrame:
    """Read the first sheet."""
    # Engines report a missing file in ways of their own.
    path.open("rb").close()
    try:
        return pl.read_excel(path)
    except ModuleNotFoundError as missing:
        package = missing.name or "fastexcel"
        raise make_missing(f"replay of {path.suffix} files", package, "excel") from missing
    # Engines have exceptions of their own.
    except Exception as failed:
        raise OSError(str(failed)) from failed


def _convert_pandas(frame: Any) -> pl.DataFrame:
    """Convert a pandas frame or series; an index that is more than a count becomes a column."""
    if not hasattr(frame, "columns"):
        frame = frame.to_frame()
    if type(frame.index).__name__ != "RangeIndex":
        frame = frame.reset_index()
    _check_names(frame.columns)
    columns: dict[str, Any] = {}
    for name in frame.columns:
        cells = frame[name].to_numpy()
        if cells.dtype.kind not in "biuf":
            cells = [None if is_missing(cell) else cell for cell in frame[name]]
        columns[str(name)] = cells
    return pl.DataFrame(columns, strict=False, nan_to_null=True)


def _convert_array(data: Any) -> pl.DataFrame:
    # Missing numbers are found later, where they may be filled.
    values = real_array(data, "data", limit=np.inf)
    if values.ndim == 1:
        values = values[:, None]
    if values.ndim != 2:
        raise InvalidInput(f"data must have shape (T, d), one row per round, got {values.shape}.")
    return pl.DataFrame(values, schema=[f"x{i + 1}" for i in range(values.shape[1])])


def read_stamps(cells: pl.Series) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Parse time stamps.

    Returns the kind of each, its time on the local clock, and its time in UTC. Dates are in microseconds.
    """
    numbers = walls = offsets = pl.repeat(None, len(cells), dtype=pl.Int64, eager=True)
    is_dated = cells.dtype in (pl.Date, pl.Datetime)
    if cells.dtype == pl.String:
        cells = cells.str.strip_chars()
        numbers = cells.cast(pl.Int64, strict=False)
        if numbers.null_count():
            numbers = cells.cast(pl.Float64, strict=False)
    elif not is_dated and (cells.dtype.is_numeric() or cells.dtype.is_temporal()):
        numbers = cells.to_physical()
    is_number = numbers.is_finite().fill_null(False).to_numpy()
    if is_number.all():
        times = numbers.to_numpy()
        return np.full(len(cells), NUMERIC), times, times
    if cells.dtype == pl.String:
        # Offsets from UTC, such as Z, +02 or -03:30, in microseconds.
        digits = cells.str.extract(ZONE, 2).str.replace("Z", "+00").str.replace(":", "")
        hours = digits.str.slice(0, 3).cast(int, strict=False)
        minutes = (
            (digits.str.slice(0, 1) + digits.str.slice(3)).cast(int, strict=False).fill_null(0)
        )
        offsets = (3600 * hours + 60 * minutes) * 1_000_000
        plain = cells.str.replace(ZONE, "$1").str.replace("T", " ")
        dates = [
            plain.str.to_datetime(form, time_unit="us", strict=False) for form in DATE_FORMATS
        ]
        walls = pl.select(pl.coalesce(dates)).to_series().dt.epoch("us")
    elif is_dated:
        instants = cells.cast(pl.Datetime("us")).dt.epoch("us")
        walls = instants
        if getattr(cells.dtype, "time_zone", None) is not None:
            walls = cells.dt.replace_time_zone(None).dt.epoch("us")
            offsets = walls - instants
    is_date = walls.is_not_null().to_numpy()
    is_zoned = is_date & offsets.is_not_null().to_numpy()
    kinds = np.select([is_number, is_zoned, is_date], [NUMERIC, ZONED, NAIVE], -1)
    times = walls.fill_null(0).to_numpy()
    return kinds, times, times - offsets.fill_null(0).to_numpy()


class Forecasts(NamedTuple):
    """Forecasts of a trace's rows, or decisions that somebody advises for them.

    Parameters
    ----------
    names : list of str
        What its columns are called, one for each column of the trace.
    values : array
        Its rows, as many as the trace has, in units of the data; NaN where there is none.
    is_early : bool
        Whether each is in the row after which it is used, and not in its own.
    delta : float, optional
        For decisions, how much more than these may be paid. Default: None, for forecasts.
    features : list of str, optional
        For forecasts that a model makes on the way, the further columns that it sees. Default: None, for those of columns.
    """

    names: list[str]
    values: Array
    is_early: bool
    delta: float | None = None
    features: list[str] | None = None

    @property
    def columns(self) -> list[str] | None:
        """The columns that have them, in live rows too; None if a model makes them."""
        return self.names if self.features is None else None

    @property
    def role(self) -> str:
        """The name of the option that they came with."""
        return "forecast" if self.delta is None else "advice"

    def read(self, first: int, last: int, ahead: int) -> Array:
        """Read the forecasts that are used after some rows; NaN where there is none.

        Parameters
        ----------
        first : int
            The first of these rows, counted from 0.
        last : int
            The one after the last.
        ahead : int
            How many rows later the decision acts that is made after a row.

        Returns
        -------
        array
            A forecast for each row, in units of the data.
        """
        shift = 0 if self.is_early else ahead
        found = self.values[first + shift : last + shift]
        none_after = np.full((last - first - len(found), self.values.shape[1]), np.nan)
        return np.vstack((found, none_after))


class Source:
    """Read a trace: its rows, columns and time stamps.

    Numbers are stored in a temporary file, so that a trace may be larger than memory. Afterwards ``T`` is the number of rows,
    ``columns`` their names, and ``filled`` counts the cells that were filled, or the rows dropped. ``read_baseline`` reads the
    decisions made until now, and ``forecasts`` has those of the rows, if there are any. ``per`` says how many units of the data
    are one unit of a decision, by column; rows are read in units of decisions.

    Parameters
    ----------
    data : path, frame or array_like
        A CSV, TSV, Excel or Parquet file, a pandas or polars frame, or an array: a row per round.
    time : str, optional
        The column of time stamps. Default: one called time, date, datetime or timestamp, or the first with dates.
    fill : str, optional
        What to do with missing cells: ``"forward"``, ``"zero"`` or ``"drop"``. Default: reject them.
    positive : bool, optional
        Whether numbers must be above zero.
    only : sequence of str, optional
        The columns to read, in this order. Default: all but the time.
    without : sequence of str, optional
        Columns to leave out; a star in a name stands for any letters.
    has_gaps : bool, optional
        Whether cells may be missing, and stay so. Default: False.
    role : str, optional
        What an error calls the columns that were named. Default: ``"baseline"``.

    Examples
    --------
    >>> trace = Source([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    >>> trace.T, trace.dim, trace.read(1, 3).tolist()
    (3, 2, [[3.0, 4.0], [5.0, 6.0]])
    """

    def __init__(
        self,
        data: Any,
        time: str | None = None,
        fill: str | None = None,
        *,
        positive: bool = False,
        only: Sequence[str] | None = None,
        without: Sequence[str] = (),
        has_gaps: bool = False,
        role: str = "baseline",
    ) -> None:
        if fill is not None:
            one_of(fill, "fill", FILLS)
        self.fill: Any = fill
        self.filled = 0
        self.has_gaps = has_gaps
        self.T = 0
        # The rows of the data that stay, where incomplete ones are dropped.
        self.kept: np.ndarray | None = None
        # What clocks showed and the time in UTC, in seconds where the stamps are dates; empty without stamps.
        self.times = np.empty(0)
        self.instants = np.empty(0)
        self.kind = -1
        self.read_baseline: Read | None = None
        self.forecasts: Forecasts | None = None
        self.per: Array | None = None
        data = Path(data) if isinstance(data, str) else data
        try:
            table = open_table(data)
            self.title = table.title
            self.time = _find_time_column(table, time)
            self.columns = _choose_columns(table, self.time, only, without, role)
            self._values = self._read_all(table, data, positive)
        except FileNotFoundError as failed:
            raise InvalidInput(f"There is no file {data}.") from failed
        except (OSError, UnicodeError, csv.Error, pl.exceptions.PolarsError) as failed:
            if isinstance(failed, pl.exceptions.PolarsError):
                check_lengths(data)
            reason = (str(failed).splitlines() or [type(failed).__name__])[0]
            raise InvalidInput(f"{data} cannot be read: {reason}.") from failed
        self._fill_gaps()

    def __getstate__(self) -> dict[str, Any]:
        """Return what a pickle has: the numbers themselves, and not the file that they are in."""
        return vars(self) | {"_values": np.array(self._values)}

    def _read_all(self, table: Table, data: Any, positive: bool) -> np.ndarray:
        """Parse and check all cells, and return the numbers as an array that is in a file."""
        # A file without a name, which lives as long as this object.
        spool: Any = tempfile.TemporaryFile()  # noqa: SIM115
        finalize(self, spool.close)
        known = np.zeros(self.dim, dtype=int)
        stamps = []
        for batch in _parse(table, self.columns, self.time).collect_batches(chunk_size=ROWS):
            values = np.ascontiguousarray(batch.drop(STAMPS, strict=False).to_numpy())
            if known[-1] == self.T and np.isnan(values[:, -1]).any():
                check_lengths(data)
            self._check_numbers(table, values, positive)
            if self.time is not None:
                stamps.append(read_stamps(batch[STAMPS]))
            spool.write(values.tobytes())
            known += (~np.isnan(values)).sum(axis=0)
            self.T += len(values)
        if not self.T:
            raise InvalidInput(f"{self.title} has no rows.")
        if not known.all():
            column = self.columns[int(known.argmin())]
            raise InvalidInput(
                f"Column {column} has no numbers: all its cells are missing. Leave it out."
            )
        if stamps:
            self._check_stamps(table, *map(np.concatenate, zip(*stamps, strict=True)))
        spool.flush()
        return np.memmap(spool, np.float64, "r+", shape=(self.T, self.dim))

    def _check_numbers(self, table: Table, values: Array, positive: bool) -> None:
        """Reject the first cell of a batch that is missing, no number or out of range."""
        gaps = np.isnan(values)
        large = np.abs(values) > LARGEST
        is_forbidden = self.fill is None and not self.has_gaps
        wrong = large | (gaps & is_forbidden) | ((values <= 0.0) & positive)
        if not wrong.any():
            return
        at, i = np.argwhere(wrong)[0].tolist()
        where = f"Row {self.T + at + 1}, column {self.columns[i]}"
        cell = table.read_cell(self.T + at, self.columns[i])
        if gaps[at, i]:
            remedy = f"Fill it with {write_option('fill', *FILLS)}."
            raise InvalidInput(f"{where} is missing, got {cell}. {remedy}")
        if large[at, i]:
            raise InvalidInput(f"{where} must be a number within +-{LARGEST:g}, got {cell}.")
        raise InvalidInput(
            f"{where} must be above 0, got {cell}. If these are returns, add 1 to each."
        )

    def _check_stamps(self, table: Table, kinds: Array, walls: Array, instants: Array) -> None:
        """Reject the first time stamp that is none, of another kind than the first, or not later than the one before."""
        self.kind = int(kinds[0])
        unit = 1e-6 if self.has_dates else 1.0
        self.times = unit * walls
        self.instants = unit * instants
        steps = np.diff(instants, prepend=instants[0] - 1)
        wrong = (kinds != self.kind) | (kinds < 0) | (steps <= 0)
        if not wrong.any():
            return
        at = int(wrong.argmax())
        column = self.time or ""
        where = f"Row {at + 1}, column {column}"
        cell = table.read_cell(at, column)
        if kinds[at] < 0:
            other = f"Choose another column with {write_option('time')}."
            raise InvalidInput(f"{where} must be a number or an ISO date, got {cell}. {other}")
        after = f"got {cell} after {table.read_cell(at - 1, column)}"
        if kinds[at] != self.kind:
            raise InvalidInput(
                f"{where}: time stamps must all be {STAMP_KINDS[self.kind]}, {after}."
            )
        remedy = "Sort the file and merge rows with the same time."
        when = to_datetime(self.times[at])
        if self.kind == NAIVE and when.hour < 4 and when.month in (9, 10, 11):
            remedy += " Where clocks went back, write times in UTC or with their offset."
        raise InvalidInput(f"{where}: time stamps must ascend, {after}. {remedy}")

    def _fill_gaps(self) -> None:
        if self.fill == "drop":
            complete = ~np.isnan(self._values).any(axis=1)
            self.kept = np.flatnonzero(complete)
            self._values = self._values[complete]
            if self.time is not None:
                self.times = self.times[complete]
                self.instants = self.instants[complete]
            self.filled = int((~complete).sum())
            self.T -= self.filled
            if not self.T:
                raise InvalidInput(f"{self.title} has no complete rows.")
        elif self.fill is not None:
            for i, column in enumerate(self.columns):
                cells = pl.Series(np.array(self._values[:, i])).fill_nan(None)
                self.filled += cells.null_count()
                self._values[:, i] = cells.fill_null(strategy=self.fill).to_numpy()
                if np.isnan(self._values[0, i]):
                    problem = f"Row 1, column {column} is missing, with nothing to fill from"
                    raise InvalidInput(f"{problem}. Use {write_option('fill', 'zero', 'drop')}.")

    @property
    def dim(self) -> int:
        """The number of numeric columns."""
        return len(self.columns)

    @property
    def has_dates(self) -> bool:
        """Whether the time stamps are dates, so that days and months are known."""
        return self.kind > NUMERIC

    def read(self, first: int, last: int) -> Array:
        """Read some rows.

        Parameters
        ----------
        first : int
            The first, counted from 0.
        last : int
            The one after the last.

        Returns
        -------
        array
            The rows, in units of decisions.
        """
        rows = self.read_as_given(first, last)
        return rows if self.per is None else rows / self.per

    def read_as_given(self, first: int, last: int) -> Array:
        """Read some rows in the units of the data.

        Parameters
        ----------
        first : int
            The first, counted from 0.
        last : int
            The one after the last.

        Returns
        -------
        array
            The rows.
        """
        return np.array(self._values[first:last])

    def read_all(self) -> Array:
        """Read all rows in the units of the data.

        Returns
        -------
        array
            The rows.
        """
        return self.read_as_given(0, self.T)

    def read_hints(self, first: int, last: int, ahead: int) -> Array:
        """Read the forecasts or decisions that are used after some rows, in units of decisions; NaN where there is none.

        Parameters
        ----------
        first : int
            The first of these rows, counted from 0.
        last : int
            The one after the last.
        ahead : int
            How many rows later the decision acts that is made after a row.

        Returns
        -------
        array
            A forecast for each row.
        """
        assert self.forecasts is not None
        told = self.forecasts.read(first, last, ahead)
        is_row = self.forecasts.delta is None
        return told / self.per if is_row and self.per is not None else told

    def read_pieces(self, first: int, last: int) -> Iterator[Array]:
        """Read rows some at a time.

        Parameters
        ----------
        first : int
            The first, counted from 0.
        last : int
            The one after the last.

        Returns
        -------
        iterator of array
            The rows, in pieces.
        """
        return (self.read(at, min(at + ROWS, last)) for at in range(first, last, ROWS))

    def find_steps(self) -> "Steps | None":
        """Find the usual step of the time stamps, and those that are longer.

        Returns
        -------
        Steps or None
            The steps; None without a time column.
        """
        if self.time is None:
            return None
        walls = self.times if self.has_dates else None
        return Steps(self.instants, walls, is_naive=self.kind == NAIVE)

    def list_notes(self) -> list[str]:
        """List facts about the data: repaired cells, gaps, changes of the clock.

        Returns
        -------
        list of str
            The notes.
        """
        notes = []
        if self.filled:
            were = "was" if self.filled == 1 else "were"
            what = f"row{_plural(self.filled)} {were} dropped"
            if self.fill != "drop":
                what = f"missing cell{_plural(self.filled)} {were} filled ({self.fill})"
            notes.append(f"{self.filled} {what}.")
        steps = self.find_steps()
        if steps is None:
            return notes
        if steps.springs:
            notes.append(
                f"Clocks went forward {_times(steps.springs)}: the local hour is missing there."
            )
        shifts = int((np.diff(np.round(self.times - self.instants)) != 0.0).sum())
        if shifts:
            notes.append(f"The offset from UTC changes {_times(shifts)}, as for daylight saving.")
        if steps.gaps:
            usual = format_span(steps.usual) if self.has_dates else f"{steps.usual:.4g}"
            others = ", apart from those of every week" if steps.closings else ""
            if self.fill == "drop" and self.filled:
                others += ", dropped rows included"
            gaps = f"{steps.gaps} gap{_plural(steps.gaps)} in the time stamps{others}"
            notes.append(f"{gaps} (the usual step is {usual}); rows are treated as consecutive.")
        return notes


def _find_time_column(table: Table, wanted: str | None) -> str | None:
    """Find the column of that name; else one with a usual name, an index, or dates in its first row."""
    names = table.frame.collect_schema().names()
    if wanted is not None and wanted not in names:
        raise InvalidInput(
            f"time must be a column of the data ({', '.join(names)}), got {wanted!r}."
        )
    usual = [name for name in names if name.lower() in TIMES]
    if names[:1] == [INDEX]:
        usual.append(INDEX)
    if wanted is not None or usual:
        return wanted or usual[0]
    first = table.frame.head(1).collect()
    filled = (cells for cells in first if cells.null_count() < len(cells))
    return next((cells.name for cells in filled if (read_stamps(cells)[0] > NUMERIC).any()), None)


def _choose_columns(
    table: Table, time: str | None, only: Sequence[str] | None, without: Sequence[str], role: str
) -> list[str]:
    names = table.frame.collect_schema().names()
    known = ", ".join(names)
    for name in (*(only or ()), *without):
        if not any(_fits(each, name) for each in names):
            option = write_option(role)
            what = "a column" if role in ("price", "features") else "a file or columns"
            raise InvalidInput(f"{option} must be {what} of the data ({known}), got {name!r}.")
    chosen = only or [
        name for name in names if name != time and not any(_fits(name, each) for each in without)
    ]
    if not chosen:
        raise InvalidInput(f"The data must have a column of numbers, got {names}.")
    return list(chosen)


def _fits(name: str, pattern: str) -> bool:
    """Return True if a column has this name, or one with other letters in the place of a star."""
    start, star, end = pattern.partition(STAR)
    if not star:
        return name == pattern
    return name.startswith(start) and name.endswith(end) and len(name) > len(start + end)


def open_forecasts(
    source: Source,
    data: Any,
    forecast: Any,
    row: str,
    time: str | None,
    delta: float | None = None,
) -> Forecasts:
    """Open the forecasts of a trace, or decisions for it: columns of its data, or a file or frame with the same columns.

    Those of another file are those of the same time stamps, or of the same rows where there are none. With ``delta`` they are
    decisions.
    """
    role = "forecast" if delta is None else "advice"
    is_early = one_of(row, write_option("forecast_for"), (THIS_ROW, NEXT_ROW)) == NEXT_ROW
    names = list_forecast_columns(forecast)
    if names is not None:
        if STAR in "".join(names):
            names = [names[0].replace(STAR, column) for column in source.columns]
        if len(names) != source.dim:
            flag = write_option(role)
            raise InvalidInput(
                f"{flag} must name a column for each of {source.columns}, got {names}."
            )
        values = Source(data, time, only=names, has_gaps=True, role=role).read_all()
        kept = values if source.kept is None else values[source.kept]
        return Forecasts(names, kept, is_early, delta)
    own = Source(forecast, time, has_gaps=True)
    if set(own.columns) != set(source.columns):
        flag = write_option(role)
        raise InvalidInput(f"{flag} must have the columns {source.columns}, got {own.columns}.")
    values = own.read_all()[:, [own.columns.index(column) for column in source.columns]]
    names = [f"{column}_{role}" for column in source.columns]
    return Forecasts(names, _align(values, own, source, role), is_early, delta)


def play_model(
    source: Source, data: Any, model: Any, features: list[str], time: str | None, ahead: int
) -> Forecasts:
    """Let a model learn from the rows of a trace one by one, and return what it forecasts after each, ``ahead`` rows later."""
    forecaster = Forecaster(model, source.columns, features, ahead=ahead)
    names = [*source.columns, *features]
    rows = Source(data, time, only=names, has_gaps=True, role="features").read_all()
    kept = rows if source.kept is None else rows[source.kept]
    values = np.full((source.T, source.dim), np.nan)
    for at, row in enumerate(kept.tolist()):
        told = forecaster.observe(dict(zip(names, row, strict=True)))
        if told is not None:
            values[at] = list(told.values())
    if np.isnan(values).all():
        reason = forecaster.failure or "In each row, or in the one before, a cell is missing."
        raise InvalidInput(f"The model made no forecast. {reason}")
    return Forecasts(list(source.columns), values, True, features=features)


def open_limits(source: Source, limits: Any, time: str | None) -> tuple[Array, Array]:
    """Open the limits of each row's decision: a file or frame with columns such as ``eu_lower`` and ``eu_upper``.

    They are those of the same time stamps, or of the same rows where there are none. A row, a column or a cell that is missing
    is no limit.
    """
    own = Source(limits, time, has_gaps=True)
    known = name_limits(source.columns)
    unknown = [name for name in own.columns if name not in known]
    if unknown:
        flag = write_option("limits")
        first = source.columns[0]
        raise InvalidInput(
            f"{flag} must have columns such as {first}_lower and {first}_upper, got {unknown}."
        )
    values = _align(own.read_all(), own, source, "limits")
    found = {side: np.full((source.T, source.dim), none) for side, none in LIMIT_SIDES.items()}
    for name, column in zip(own.columns, values.T, strict=True):
        side, limited = known[name]
        i = source.columns.index(limited)
        found[side][:, i] = np.where(np.isnan(column), LIMIT_SIDES[side], column)
    return found["lower"], found["upper"]


def list_forecast_columns(forecast: Any) -> list[str] | None:
    """List the columns that an option names, perhaps with a star; None for a file or a frame."""
    if isinstance(forecast, str):
        is_file = Path(forecast).suffix.lower() in (*TEXT_FILES, *EXCEL_FILES, ".parquet")
        return None if is_file else forecast.split(",")
    is_list = isinstance(forecast, list | tuple) and all(
        isinstance(name, str) for name in forecast
    )
    return list(forecast) if is_list else None


def _align(values: Array, own: Source, source: Source, role: str) -> Array:
    """Return the rows with the time stamps of the source, NaN where there is none; or all of them, without stamps."""
    rows = source.T if source.kept is None else source.T + source.filled
    if own.time is None or source.time is None:
        if rows != own.T:
            raise InvalidInput(
                f"{write_option(role)} must have {rows} rows or times, got {own.T} rows."
            )
        return values if source.kept is None else values[source.kept]
    at = np.minimum(np.searchsorted(own.instants, source.instants), own.T - 1)
    is_same = own.instants[at] == source.instants
    if not is_same.any():
        raise InvalidInput(
            f"{write_option(role)} must have time stamps of the data, and has none of them."
        )
    return np.where(is_same[:, None], values[at], np.nan)


def _parse(table: Table, columns: list[str], time: str | None) -> pl.LazyFrame:
    """Return the columns as numbers, NaN where a cell is missing and infinite where it is no number, and the time stamps."""
    schema = table.frame.collect_schema()
    found = [] if time is None else [pl.col(time).alias(STAMPS)]
    for i, name in enumerate(columns):
        cell = pl.col(name)
        number = pl.lit(np.inf)
        if schema[name].is_numeric() or schema[name] == pl.String:
            number = cell
        if table.separator not in ("", ","):
            # A decimal comma; points before it separate thousands.
            plain = cell.str.replace_all(".", "", literal=True).str.replace(
                ",", ".", literal=True
            )
            number = pl.when(cell.str.contains(",", literal=True)).then(plain).otherwise(cell)
        is_missing_cell = cell.is_null()
        if schema[name] == pl.String:
            is_missing_cell |= cell.is_in(MISSING)
        number = number.cast(pl.Float64, strict=False).fill_null(np.inf)
        found.append(pl.when(is_missing_cell).then(np.nan).otherwise(number).alias(f"{i}"))
    return table.frame.select(found)


def _plural(count: float) -> str:
    return "" if count == 1 else "s"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


class Steps:
    """The usual step between time stamps, and the number of longer ones.

    ``springs`` counts longer steps in which clocks went forward, ``closings`` those over hours for which no week has rows, such
    as weekends, and ``gaps`` all others. ``walls`` are the same stamps on the local clock, where they are dates; clocks can go
    forward only if the stamps have no zone (``is_naive``).
    """

    def __init__(
        self, seconds: Array, walls: Array | None = None, *, is_naive: bool = False
    ) -> None:
        steps = np.diff(seconds)
        self.usual = float(np.median(steps)) if len(steps) else 0.0
        long = np.flatnonzero(steps > GAP_STEPS * self.usual)
        springs = np.zeros(len(long), dtype=bool)
        closings = np.zeros(len(long), dtype=bool)
        if is_naive:
            springs = np.array(
                [self._skips_an_hour(seconds[at], steps[at]) for at in long], dtype=bool
            )
        if walls is not None and len(long):
            closings = _find_closings(walls, self.usual, long) & ~springs
        self.springs = int(springs.sum())
        self.closings = int(closings.sum())
        self.gaps = len(long) - self.springs - self.closings

    def _skips_an_hour(self, before: float, step: float) -> bool:
        """Return True where a local hour is missing as clocks go forward: early on a Sunday in spring."""
        if self.usual > HOUR_SECONDS or abs(step - self.usual - HOUR_SECONDS) > 1.0:
            return False
        when = to_datetime(before)
        return when.weekday() == 6 and when.month in (3, 4, 9, 10) and when.hour <= 3


def _find_closings(walls: Array, usual: float, long: np.ndarray) -> np.ndarray:
    """Find the long steps over times of the week at which there is never a row, in two weeks at least."""
    slots = round(WEEK_SECONDS / usual)
    if usual > DAY_SECONDS or slots > WEEK_STEPS or abs(slots * usual - WEEK_SECONDS) > 1.0:
        return np.zeros(len(long), dtype=bool)
    place = np.round(walls / usual).astype(np.int64)
    first = (place[long] + 1) % slots
    count = np.minimum(place[long + 1] - place[long] - 1, slots)
    skipped = np.zeros(2 * slots + 1, dtype=np.int64)
    np.add.at(skipped, first, 1)
    np.add.at(skipped, first + count, -1)
    skipped = np.cumsum(skipped)[:-1].reshape(2, slots).sum(axis=0)
    is_open = (skipped < 2) | (np.bincount(place % slots, minlength=slots) > 0)
    opened = np.concatenate(([0], np.cumsum(np.tile(is_open, 2))))
    return (count > 0) & (opened[first + count] == opened[first])


def to_datetime(seconds: float) -> datetime:
    """Convert seconds since 1970 to the date and time that a clock showed."""
    return datetime(1970, 1, 1) + timedelta(microseconds=round(1e6 * seconds))


def format_span(seconds: float) -> str:
    """Write a length of time in words."""
    for unit, length in (
        ("day", DAY_SECONDS),
        ("hour", HOUR_SECONDS),
        ("minute", 60.0),
        ("second", 1.0),
    ):
        if seconds >= length:
            count = seconds / length
            return f"{count:.3g} {unit}{_plural(count)}"
    return f"{seconds:.3g} seconds"
