"""A trace: every cell checked, repaired only if asked to, and spooled as numbers that are read piece by piece."""

import tempfile
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any
from weakref import finalize

import numpy as np

from klazy.base.cells import INDEX, MISSING, TIMES
from klazy.base.checks import LARGEST, Array, one_of, refusal
from klazy.base.options import write_option
from klazy.live.rows import FILLS
from klazy.studies.replay.tables import Table, open_table
from klazy.studies.replay.times import NAIVE, Clock, Steps, describe_span, read_stamp, shorten

if TYPE_CHECKING:
    import polars

ROWS = 65_536  # at a time


class Source:
    """Read a trace: its rows, columns and time stamps.

    Rows are kept in a file without a name, so that a trace may be larger than memory. Afterwards ``T`` is the number of rows,
    ``columns`` their names, and ``filled`` counts the cells that were filled, or the rows dropped.

    Parameters
    ----------
    data : path, frame or array_like
        A CSV, TSV, Excel or Parquet file, a pandas or polars frame, or an array: a row per round.
    time : str, optional
        The column of time stamps. Default: one called time, date, datetime or timestamp, or the first with dates.
    fill : str, optional
        What to do with missing cells: ``"forward"``, ``"zero"`` or ``"drop"``. Default: refuse them.
    positive : bool, optional
        Whether numbers must be above zero.
    only : sequence of str, optional
        The columns to read, in this order. Default: all but the time.
    without : sequence of str, optional
        Columns to leave out.

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
    ) -> None:
        self.fill = fill
        self.filled = 0
        self.T = 0
        self._positive = positive
        if fill is not None:
            one_of(fill, "fill", "replay", FILLS)
        self._table: Table = open_table(data)
        self.title = self._table.title
        self.time = _find_time_column(self._table, time)
        self.columns = self._choose_columns(only, without)
        if not self.columns:
            names = self._table.names
            raise refusal("replay", "a column of numbers", "columns", names, "one column per coordinate")
        self.clock = None if self.time is None else Clock(self.time)
        self._spool = _open_spool(self)
        self._stamps = _open_spool(self)
        self._known = np.zeros(self.dim, dtype=int)  # cells of each column that are not missing
        self._even = False  # whether all rows are known to have as many cells
        row = 0
        for batch in self._table.read_batches():
            self._take(batch, row)
            row += len(batch)
        self._check_content(row)
        self._spool.flush()
        self._stamps.flush()

    def _choose_columns(self, only: Sequence[str] | None, without: Sequence[str]) -> list[str]:
        names = self._table.names
        for name in (*(only or ()), *without):
            if name not in names:
                condition = f"columns of the file ({', '.join(names)})"
                raise refusal("replay", condition, "baseline", name, "choose from these, or give a file")
        if only is not None:
            return list(only)
        return [name for name in names if name != self.time and name not in without]

    @property
    def dim(self) -> int:
        """The number of numeric columns."""
        return len(self.columns)

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
            The rows.
        """
        self._spool.seek(8 * self.dim * first)
        return np.frombuffer(self._spool.read(8 * self.dim * (last - first))).reshape(-1, self.dim).copy()

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

    def read_times(self, first: int, last: int) -> Array | None:
        """Read the time stamps of some rows.

        Parameters
        ----------
        first : int
            The first, counted from 0.
        last : int
            The one after the last.

        Returns
        -------
        array or None
            Seconds on the clock that people read, or numbers; None without a time column.
        """
        stamps = self._read_stamps(first, last)
        return None if stamps is None else stamps[:, 0].copy()

    def read_instants(self, first: int, last: int) -> Array | None:
        """Read when some rows were, whatever the clocks showed.

        Parameters
        ----------
        first : int
            The first, counted from 0.
        last : int
            The one after the last.

        Returns
        -------
        array or None
            As :meth:`read_times`, in UTC where time stamps have a zone.
        """
        stamps = self._read_stamps(first, last)
        return None if stamps is None else stamps[:, 1].copy()

    def _read_stamps(self, first: int, last: int) -> Array | None:
        if self.clock is None:
            return None
        self._stamps.seek(16 * first)
        return np.frombuffer(self._stamps.read(16 * (last - first))).reshape(-1, 2)

    @property
    def has_dates(self) -> bool:
        """Whether the time stamps are dates, so that days and months are known."""
        return self.clock is not None and self.clock.knows_dates

    def find_steps(self) -> Steps | None:
        """Find the usual step of the time stamps, and those that are longer.

        Returns
        -------
        Steps or None
            The steps; None without a time column.
        """
        stamps = self._read_stamps(0, self.T)
        if stamps is None or self.clock is None:
            return None
        walls = stamps[:, 0] if self.has_dates else None
        return Steps(stamps[:, 1], walls, is_naive=self.clock.kind == NAIVE)

    def list_notes(self) -> list[str]:
        """List what a reader should know of the data: repaired cells, gaps, changes of the clock.

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
        if steps is None or self.clock is None:
            return notes
        if steps.springs:
            notes.append(f"Clocks went forward {_count(steps.springs)}: the local hour is missing there.")
        if self.clock.shifts:
            notes.append(f"The offset from UTC changes {_count(self.clock.shifts)}, as for daylight saving.")
        if steps.gaps:
            usual = describe_span(steps.usual) if self.has_dates else f"{steps.usual:.4g}"
            others = ", apart from those of every week" if steps.closings else ""
            if self.fill == "drop" and self.filled:
                others += ", dropped rows included"
            notes.append(
                f"{steps.gaps} gap{_plural(steps.gaps)} in the time stamps{others} (the usual step is {usual}); "
                "rows are treated as consecutive."
            )
        return notes

    def _take(self, batch: "polars.DataFrame", before: int) -> None:
        """Check a batch of cells, the first of which is in row ``before + 1``, and keep its numbers."""
        stamps = None
        if self.clock is not None:
            stamps = self.clock.take(batch[self.clock.column], before)
        values = np.empty((len(batch), self.dim))
        gaps = np.zeros((len(batch), self.dim), dtype=bool)
        wrong: list[tuple[int, int, str]] = []
        for i, name in enumerate(self.columns):
            values[:, i], gaps[:, i], bad = _read_numbers(batch[name], self._table.commas)
            wrong += [(at, i, "a number in every cell") for at in bad]
            far = np.flatnonzero(np.abs(values[:, i]) > LARGEST)
            wrong += [(at, i, f"numbers within +-{LARGEST:g}") for at in far[:1].tolist()]
            if self._positive:
                negative = np.flatnonzero(values[:, i] <= 0.0)
                wrong += [(at, i, "numbers above zero") for at in negative[:1].tolist()]
        if gaps[:, -1].any() and not self._even:
            self._table.refuse_ragged()
            self._even = True
        self._known += (~gaps).sum(axis=0)
        if self.fill is None:
            wrong += [(int(at), int(i), "no missing cell") for at, i in np.argwhere(gaps)[:1]]
        if wrong:
            at, i, condition = min(wrong)
            cell = batch[self.columns[i]][at]
            remedy = "correct the file"
            if condition == "no missing cell":
                remedy += f", or choose {write_option('fill', *FILLS)}"
            where = f"row {before + at + 1}, column {self.columns[i]}"
            raise refusal("replay", condition, where, shorten(cell), remedy)
        if self.fill == "drop" and stamps is not None:
            stamps = stamps[~gaps.any(axis=1)]
        self._keep(self._repair(values, gaps, before), stamps)

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
            remedy = f"correct it, or choose {write_option('fill', 'zero', 'drop')}"
            raise refusal("replay", "a first row to fill forward from", where, "missing", remedy)
        rows = np.arange(len(values))[:, None]
        latest = np.maximum.accumulate(np.where(gaps, 0, rows), axis=0)
        filled = np.take_along_axis(values, latest, axis=0)
        return filled[1:] if self.T else filled

    def _keep(self, values: Array, stamps: Array | None) -> None:
        self._spool.seek(0, 2)
        self._spool.write(np.ascontiguousarray(values).tobytes())
        self.T += len(values)
        if stamps is not None:
            self._stamps.seek(0, 2)
            self._stamps.write(stamps.astype(np.float64).tobytes())

    def _check_content(self, count: int) -> None:
        """Refuse a table without rows, and one with a column in which everything is missing."""
        if count and (self._known == 0).any():
            column = self.columns[int((self._known == 0).argmax())]
            remedy = "leave the column out"
            raise refusal(
                "replay", "numbers in every column", f"column {column}", "missing in all rows", remedy
            )
        if self.T == 0:
            remedy = "it has none that are whole" if count else "it has none"
            raise refusal("replay", "rows", "file", self.title, remedy)


def _open_spool(owner: Source) -> Any:
    """A file without a name, which lives as long as its owner."""
    spool = tempfile.TemporaryFile()  # noqa: SIM115
    finalize(owner, spool.close)
    return spool


def _plural(count: int) -> str:
    return "" if count == 1 else "s"


def _count(times: int) -> str:
    return "once" if times == 1 else f"{times} times"


def _read_numbers(cells: "polars.Series", commas: bool) -> tuple[Array, np.ndarray, list[int]]:
    """The numbers of a column, where they are missing, and the first cell that is no number."""
    import polars as pl

    text = cells.dtype == pl.String
    known = cells.is_not_null()
    if text:
        known &= ~cells.is_in(MISSING)
    if text and commas:
        cells = _write_points(cells)
    if text or cells.dtype.is_numeric():
        read = cells.cast(pl.Float64, strict=False)
    else:  # dates, say, none of which is a number
        read = pl.Series(values=[None for _ in cells], dtype=pl.Float64)
    missing = ~known.fill_null(False) | read.is_nan().fill_null(False)
    bad = (known & read.is_null()).arg_true()
    return read.to_numpy(), missing.to_numpy(), bad[:1].to_list()


def _write_points(cells: "polars.Series") -> "polars.Series":
    """Numbers with a decimal comma, and perhaps points between thousands, as Python writes them."""
    import polars as pl

    has_comma = cells.str.contains(",", literal=True).fill_null(False)
    plain = cells.str.replace_all(".", "", literal=True).str.replace(",", ".", literal=True)
    return pl.select(pl.when(has_comma).then(plain).otherwise(cells)).to_series()


def _find_time_column(table: Table, wanted: str | None) -> str | None:
    """The column of that name; else one with a usual name, an index, or dates in its first row."""
    names = table.names
    if wanted is not None and wanted not in names:
        condition = f"a column of the file ({', '.join(names)})"
        raise refusal("replay", condition, "time", wanted, "choose one of these")
    if wanted is not None:
        return wanted
    for name in names:
        if name.lower() in TIMES:
            return name
    if not names:
        return None
    if names[0] == INDEX:
        return INDEX
    first = next((batch for batch in table.read_batches() if len(batch)), None)
    if first is None:
        return None
    for name in names:
        stamp = read_stamp(first[name][0])
        if stamp is not None and stamp.kind != "numbers":
            return name
    return None
