"""A trace from a file: every cell checked, repaired only if asked to, and spooled as numbers that are read piece by piece."""

import csv
import tempfile
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import finalize

import numpy as np

from klazy.base.checks import LARGEST, Array, one_of, refusal

if TYPE_CHECKING:
    import polars

FILLS = ("forward", "zero", "drop")
TIMES = ("time", "date", "datetime", "timestamp")  # names that are taken for a time column
MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "None")
ROWS = 65_536  # at a time
SHOWN = 60  # letters of a cell in a message
WAYS = "correct the file, or choose --fill forward, zero or drop"


class Source:
    """A trace of T rows and the numeric ``columns``; ``filled`` counts the cells that were filled, or the rows dropped.

    Rows are kept in a file without a name, so that a trace may be larger than memory. ``positive`` refuses other numbers.
    """

    def __init__(
        self, path: Path | str, time: str | None = None, fill: str | None = None, *, positive: bool = False
    ) -> None:
        self.path = Path(path)
        self.fill = fill
        self.filled = 0
        self.T = 0
        self._positive = positive
        if fill is not None:
            one_of(fill, "fill", "replay", FILLS)
        names = _read_names(self.path)
        self.time = _find_time_column(names, time)
        self.columns = [name for name in names if name != self.time]
        if not self.columns:
            raise refusal("replay", "a column of numbers", "columns", names, "one column per coordinate")
        self._spool = tempfile.TemporaryFile()  # noqa: SIM115  it lives as long as this object
        finalize(self, self._spool.close)
        self._last: tuple[Any, str, Any] | None = None  # the latest time stamp: as written, its kind, as read
        self._even = False  # whether all rows are known to have as many cells
        row = 0
        for batch in _read_batches(self.path):
            self._take(batch, row)
            row += len(batch)
        if self.T == 0:
            remedy = "it has none that are whole" if row else "it has none"
            raise refusal("replay", "rows", "file", self.path, remedy)
        self._spool.flush()

    @property
    def dim(self) -> int:
        return len(self.columns)

    def read(self, first: int, last: int) -> Array:
        """Rows ``first`` to ``last - 1``, counted from 0."""
        self._spool.seek(8 * self.dim * first)
        return np.frombuffer(self._spool.read(8 * self.dim * (last - first))).reshape(-1, self.dim).copy()

    def read_pieces(self, first: int, last: int) -> Iterator[Array]:
        """The rows from ``first`` to ``last - 1``, some at a time."""
        return (self.read(at, min(at + ROWS, last)) for at in range(first, last, ROWS))

    def _take(self, batch: "polars.DataFrame", before: int) -> None:
        """Check a batch of cells, the first of which is in row ``before + 1``, and keep its numbers."""
        if self.time is not None:
            self._check_time(batch[self.time], before)
        values = np.empty((len(batch), self.dim))
        gaps = np.zeros((len(batch), self.dim), dtype=bool)
        wrong: list[tuple[int, int, str]] = []
        for i, name in enumerate(self.columns):
            values[:, i], gaps[:, i], bad = _read_numbers(batch[name])
            wrong += [(at, i, "a number in every cell") for at in bad]
            far = np.flatnonzero(np.abs(values[:, i]) > LARGEST)
            wrong += [(at, i, f"numbers within +-{LARGEST:g}") for at in far[:1].tolist()]
            if self._positive:
                negative = np.flatnonzero(values[:, i] <= 0.0)
                wrong += [(at, i, "numbers above zero") for at in negative[:1].tolist()]
        if gaps[:, -1].any() and self.path.suffix.lower() == ".csv" and not self._even:
            _refuse_ragged(self.path)
            self._even = True
        if self.fill is None:
            wrong += [(int(at), int(i), "no missing cell") for at, i in np.argwhere(gaps)[:1]]
        if wrong:
            at, i, condition = min(wrong)
            cell = batch[self.columns[i]][at]
            remedy = WAYS if condition == "no missing cell" else "correct the file"
            if self.dim == 1 and isinstance(cell, str) and {";", "\t"} & set(cell):
                remedy = "separate cells by commas"
            where = f"row {before + at + 1}, column {self.columns[i]}"
            raise refusal("replay", condition, where, _shorten(cell), remedy)
        self._keep(self._repair(values, gaps, before))

    def _repair(self, values: Array, gaps: np.ndarray, before: int) -> Array:
        if not gaps.any():
            return values
        if self.fill == "drop":
            whole = ~gaps.any(axis=1)
            self.filled += int((~whole).sum())
            return values[whole]
        self.filled += int(gaps.sum())
        if self.fill == "zero":
            return np.where(gaps, 0.0, values)
        if self.T:
            values = np.vstack((self.read(self.T - 1, self.T), values))
            gaps = np.vstack((np.zeros((1, self.dim), bool), gaps))
        elif gaps[0].any():
            where = f"row {before + 1}, column {self.columns[int(gaps[0].argmax())]}"
            raise refusal(
                "replay",
                "a first row to fill forward from",
                where,
                "missing",
                "correct it, or choose another --fill",
            )
        rows = np.arange(len(values))[:, None]
        latest = np.maximum.accumulate(np.where(gaps, 0, rows), axis=0)
        filled = np.take_along_axis(values, latest, axis=0)
        return filled[1:] if self.T else filled

    def _keep(self, values: Array) -> None:
        self._spool.seek(0, 2)
        self._spool.write(np.ascontiguousarray(values).tobytes())
        self.T += len(values)

    def _check_time(self, cells: "polars.Series", before: int) -> None:
        """Time stamps must be of one kind and ascend."""
        for at, cell in enumerate(cells.to_list(), before + 1):
            found = _read_stamp(cell)
            where = f"row {at}, column {self.time}"
            if found is None:
                raise refusal(
                    "replay",
                    "a number or an ISO date as time",
                    where,
                    _shorten(cell),
                    "correct it, or name another --time",
                )
            kind, stamp = found
            if self._last is not None:
                last, kind_before, earlier = self._last
                after = f"{_shorten(cell)} after {_shorten(last)}"
                if kind != kind_before:
                    raise refusal(
                        "replay",
                        f"time stamps of one kind, {kind_before}",
                        where,
                        after,
                        "write all the same way",
                    )
                if stamp <= earlier:
                    said = "no time stamp twice" if stamp == earlier else "time stamps that ascend"
                    raise refusal("replay", said, where, after, "sort the file and merge such rows")
            self._last = (cell, kind, stamp)


def _read_stamp(cell: Any) -> tuple[str, Any] | None:
    """What kind of time stamp this is, and a value that can be compared with others of its kind."""
    if isinstance(cell, str):
        for read in (int, float, datetime.fromisoformat):
            try:
                return _read_stamp(read(cell.strip()))
            except ValueError:
                continue
        return None
    if isinstance(cell, datetime):
        kind = "dates without a zone" if cell.tzinfo is None else "dates with a zone"
        return kind, cell
    if isinstance(cell, date | time | timedelta):
        return type(cell).__name__, cell
    if isinstance(cell, bool) or not isinstance(cell, int | float | Decimal):
        return None
    if cell != cell or abs(cell) == inf:
        return None
    return "numbers", cell


def _shorten(cell: Any) -> str:
    text = repr(cell)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def _read_numbers(cells: "polars.Series") -> tuple[Array, np.ndarray, list[int]]:
    """The numbers of a column, where they are missing, and the first cell that is no number."""
    import polars as pl

    text = cells.dtype == pl.String
    known = cells.is_not_null()
    if text:
        known &= ~cells.is_in(MISSING)
    if text or cells.dtype.is_numeric():
        read = cells.cast(pl.Float64, strict=False)
    else:  # dates, say, none of which is a number
        read = pl.Series(values=[None for _ in cells], dtype=pl.Float64)
    missing = ~known.fill_null(False) | read.is_nan().fill_null(False)
    bad = (known & read.is_null()).arg_true()
    return read.to_numpy(), missing.to_numpy(), bad[:1].to_list()


def _read_names(path: Path) -> list[str]:
    """The columns of a file."""
    import polars as pl

    if path.suffix.lower() not in (".csv", ".parquet"):
        raise refusal("replay", "a .csv or .parquet file", "file", path, "convert it")
    try:
        str(path).encode()  # polars takes no other names
        if path.suffix.lower() == ".parquet":
            return list(pl.scan_parquet(path.absolute(), glob=False).collect_schema())
        with path.open(newline="", encoding="utf-8-sig") as file:
            names = next(csv.reader(file), [])
    except FileNotFoundError as missing:
        raise refusal("replay", "a file that is there", "file", path, "check the path") from missing
    except (OSError, UnicodeError, csv.Error, pl.exceptions.PolarsError) as failed:
        raise refusal(
            "replay", "a file that can be read", "file", path, str(failed).splitlines()[0]
        ) from failed
    if len(set(names)) < len(names) or "" in names:
        raise refusal("replay", "a name for each column, each once", "first line", names, "name them")
    if names and all(_read_stamp(name) is not None for name in names):
        raise refusal("replay", "column names in the first line", "first line", names, "add a line of names")
    return names


def _find_time_column(names: list[str], wanted: str | None) -> str | None:
    if wanted is not None and wanted not in names:
        raise refusal(
            "replay", f"a column of the file ({', '.join(names)})", "time", wanted, "choose one of these"
        )
    return wanted or next((name for name in names if name.lower() in TIMES), None)


def _read_batches(path: Path) -> Iterator["polars.DataFrame"]:
    """The file in pieces; the cells of a CSV file as text.

    polars takes its path as it is: not for a pattern of names, nor ``~`` for a home.
    """
    import polars as pl

    try:
        if path.suffix.lower() == ".parquet":
            scan = pl.scan_parquet(path.absolute(), glob=False)
        else:
            names = _read_names(path)
            scan = pl.scan_csv(path.absolute(), infer_schema=False, new_columns=names, glob=False)
        yield from scan.collect_batches(chunk_size=ROWS)
    except pl.exceptions.NoDataError:
        return
    except pl.exceptions.PolarsError as failed:
        if path.suffix.lower() == ".csv":
            _refuse_ragged(path)
        raise refusal(
            "replay", "a file that can be read", "file", path, str(failed).splitlines()[0]
        ) from failed


def _refuse_ragged(path: Path) -> None:
    """Refuse the first row that has not as many cells as there are names."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.reader(file)
        count = len(next(reader))
        for row, cells in enumerate(_read_lines(reader, path), 1):
            if len(cells) != count and cells:
                raise refusal(
                    "replay",
                    f"{count} cells in every row",
                    f"row {row} with",
                    f"{len(cells)} cells",
                    "correct the file",
                )


def _read_lines(reader: Any, path: Path) -> Iterator[list[str]]:
    try:
        yield from reader
    except csv.Error as failed:
        raise refusal("replay", "a file that can be read", "file", path, str(failed)) from failed
