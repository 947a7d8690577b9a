"""Time stamps of a trace: of one kind, ascending, and what their steps say about gaps and daylight saving."""

from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from klazy.base.checks import Array, refusal
from klazy.base.options import write_option

if TYPE_CHECKING:
    import polars

DAY = 86_400.0  # seconds
WEEK = 7.0 * DAY
HOUR = 3_600.0
FINEST = 604_800  # steps of a week, up to which closing hours are looked for: seconds
LONG = 1.5  # steps, from which on a step is a gap
SHOWN = 60  # letters of a cell in a message
FORMATS = ("%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M")
NUMBERS = "numbers"
NAIVE = "dates without a zone"
ZONED = "dates with a zone"


class Stamp(NamedTuple):
    """A time stamp: its kind, what is compared with others of its kind, and seconds on the clock that people read.

    ``offset`` is how far that clock is ahead of UTC, in seconds; zero where there is no zone.
    """

    kind: str
    order: Any
    seconds: float
    offset: float = 0.0


def read_stamp(cell: Any) -> Stamp | None:
    """Read a time stamp; None where it is none."""
    if isinstance(cell, str):
        for read in (int, float, datetime.fromisoformat):
            try:
                return read_stamp(read(cell.strip()))
            except ValueError:
                continue
        return None
    if isinstance(cell, datetime):
        wall = cell.replace(tzinfo=UTC).timestamp()
        offset = cell.utcoffset()
        if offset is None:
            return Stamp(NAIVE, cell.replace(tzinfo=None), wall)
        # Python compares two datetimes of one zone by their clocks, which show an hour twice in autumn. Microseconds do not.
        since = cell.replace(tzinfo=None) - datetime(1970, 1, 1) - offset
        return Stamp(ZONED, since // timedelta(microseconds=1), wall, offset.total_seconds())
    if isinstance(cell, date):
        return Stamp(NAIVE, datetime(cell.year, cell.month, cell.day), _count_days(cell) * DAY)
    if isinstance(cell, time):
        return Stamp("time", cell, HOUR * cell.hour + 60.0 * cell.minute + cell.second)
    if isinstance(cell, timedelta):
        return Stamp("timedelta", cell, cell.total_seconds())
    if isinstance(cell, bool) or not isinstance(cell, int | float | Decimal):
        return None
    if cell != cell or abs(cell) == inf:
        return None
    return Stamp(NUMBERS, cell, float(cell))


def _count_days(day: date) -> int:
    return day.toordinal() - date(1970, 1, 1).toordinal()


def shorten(cell: Any) -> str:
    """A cell as it is shown in a message."""
    text = repr(cell)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


class Clock:
    """Reads the time stamps of a column, batch by batch, and refuses those that do not ascend.

    ``kind`` is what they are, ``shifts`` counts changes of the offset from UTC, as daylight saving makes them.
    """

    def __init__(self, column: str) -> None:
        self.column = column
        self.kind = ""
        self.shifts = 0
        self._cell: Any = None
        self._last: Stamp | None = None
        self._offset: Any = None

    @property
    def knows_dates(self) -> bool:
        return self.kind in (NAIVE, ZONED)

    def take(self, cells: "polars.Series", before: int) -> Array:
        """The seconds of these stamps on the clock that people read, and in UTC; the first is in row ``before + 1``."""
        quick = self._read_at_once(cells)
        if quick is not None:
            return np.stack((quick, quick), axis=1)
        stamps = [self._follow(cell, at) for at, cell in enumerate(cells.to_list(), before + 1)]
        return np.array([(stamp.seconds, stamp.seconds - stamp.offset) for stamp in stamps]).reshape(-1, 2)

    def _read_at_once(self, cells: "polars.Series") -> Array | None:
        """The same for cells without a fault that polars can read; None for all others."""
        numbers = _convert(cells)
        if numbers is None or not len(numbers):
            return None
        first = read_stamp(cells[0])
        last = read_stamp(cells[-1])
        ascends = bool((np.diff(numbers) > 0).all())
        if first is None or last is None or first.kind != last.kind or first.kind not in (NUMBERS, NAIVE):
            return None
        if self._last is not None and (self._last.kind != first.kind or not self._last.order < first.order):
            return None
        if not ascends:
            return None
        self.kind = first.kind
        self._last = last
        self._cell = cells[-1]
        unit = 1.0 if first.kind == NUMBERS else 1e-6
        return unit * numbers

    def _follow(self, cell: Any, at: int) -> Stamp:
        stamp = read_stamp(cell)
        where = f"row {at}, column {self.column}"
        if stamp is None:
            wanted = "a number or an ISO date as time"
            remedy = f"correct it, or name another column by {write_option('time')}"
            raise refusal("replay", wanted, where, shorten(cell), remedy)
        if self._last is not None:
            after = f"{shorten(cell)} after {shorten(self._cell)}"
            if stamp.kind != self._last.kind:
                wanted = f"time stamps of one kind, {self._last.kind}"
                raise refusal("replay", wanted, where, after, "write all the same way")
            if stamp.order == self._last.order:
                raise refusal("replay", "no time stamp twice", where, after, _advise(stamp))
            if stamp.order < self._last.order:
                raise refusal("replay", "time stamps that ascend", where, after, _advise(stamp))
        self._last = stamp
        self._cell = cell
        self.kind = stamp.kind
        if stamp.kind == ZONED:
            self.shifts += self._offset not in (None, stamp.offset)
            self._offset = stamp.offset
        return stamp


def _advise(stamp: Stamp) -> str:
    advice = "sort the file and merge such rows"
    if stamp.kind == NAIVE and stamp.order.hour < 4 and stamp.order.month in (9, 10, 11):
        return f"{advice}; where clocks went back, write times in UTC or with their offset"
    return advice


def _convert(cells: "polars.Series") -> Any:
    """Numbers, or microseconds of dates, in a form that compares exactly; None where polars cannot read all of them."""
    import polars as pl

    if cells.null_count() or not len(cells):
        return None
    if cells.dtype.is_integer():
        return cells.cast(pl.Int64, strict=False).to_numpy()
    if cells.dtype.is_float():
        numbers = cells.to_numpy()
        return numbers if np.isfinite(numbers).all() else None
    if cells.dtype == pl.Date or cells.dtype == pl.Datetime:
        if getattr(cells.dtype, "time_zone", None) is not None:
            return None
        return cells.cast(pl.Datetime("us")).dt.epoch("us").to_numpy()
    if cells.dtype == pl.String:
        return _convert_text(cells.str.strip_chars())
    return None


def _convert_text(cells: "polars.Series") -> Any:
    import polars as pl

    readers: list[Callable[[], Any]] = [
        lambda: cells.cast(pl.Int64, strict=False),
        lambda: cells.cast(pl.Float64, strict=False),
        lambda: cells.str.to_date("%Y-%m-%d", strict=False),
        *(lambda form=form: cells.str.to_datetime(form, time_unit="us", strict=False) for form in FORMATS),
    ]
    for read in readers:
        found = read()
        if not found.null_count():
            return _convert(found)
    return None


class Steps:
    """Find the usual step between time stamps, and which are longer.

    ``springs`` counts longer steps in which clocks went forward, ``closings`` those over hours for which no week has rows, such
    as weekends, and ``gaps`` all others. ``walls`` are the same stamps on the clock that people read, where they are dates;
    clocks can go forward only if the stamps have no zone (``is_naive``).
    """

    def __init__(self, seconds: Array, walls: Array | None = None, *, is_naive: bool = False) -> None:
        steps = np.diff(seconds)
        self.usual = float(np.median(steps)) if len(steps) else 0.0
        long = np.flatnonzero(steps > LONG * self.usual)
        springs = np.zeros(len(long), dtype=bool)
        closings = np.zeros(len(long), dtype=bool)
        if is_naive:
            springs = np.array([self._skips_an_hour(seconds[at], steps[at]) for at in long], dtype=bool)
        if walls is not None and len(long):
            closings = _find_closings(walls, self.usual, long) & ~springs
        self.springs = int(springs.sum())
        self.closings = int(closings.sum())
        self.gaps = len(long) - self.springs - self.closings

    def _skips_an_hour(self, before: float, step: float) -> bool:
        """Whether a local hour is missing where clocks go forward: early on a Sunday in spring."""
        if self.usual > HOUR or abs(step - self.usual - HOUR) > 1.0:
            return False
        when = tell_time(before)
        return when.weekday() == 6 and when.month in (3, 4, 9, 10) and when.hour <= 3


def _find_closings(walls: Array, usual: float, long: np.ndarray) -> np.ndarray:
    """Find which of the long steps are over times of the week at which there is never a row, in two weeks at least."""
    slots = round(WEEK / usual)
    if usual > DAY or slots > FINEST or abs(slots * usual - WEEK) > 1.0:
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


def tell_time(seconds: float) -> datetime:
    """The date and time that a clock showed."""
    return datetime(1970, 1, 1) + timedelta(microseconds=round(1e6 * seconds))


def describe_span(seconds: float) -> str:
    """A length of time in words."""
    for unit, length in (("day", DAY), ("hour", HOUR), ("minute", 60.0), ("second", 1.0)):
        if seconds >= length:
            count = seconds / length
            return f"{count:.3g} {unit}{'' if count == 1.0 else 's'}"
    return f"{seconds:.3g} seconds"
