"""What a source is, and how a live agent follows one."""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple, Protocol

from klazy.base.checks import InvalidInput
from klazy.base.install import explain_missing
from klazy.studies.installed import list_installed, load_installed

if TYPE_CHECKING:
    import polars

# The column of time stamps.
TIME = "time"
SOURCES_GROUP = "klazy.sources"
# A source that is away is asked again after this many seconds, or after a step if that is shorter.
RETRY_SECONDS = 10.0


class SourceAway(InvalidInput):
    """Raised when a source does not answer now, but may later."""


class TimedRow(NamedTuple):
    """A row of a source.

    Parameters
    ----------
    time : float
        Its time stamp, in seconds since 1970.
    cells : dict
        Its numbers by column name; None, or no entry at all, for one that is missing.
    """

    time: float
    cells: dict[str, float | None]


class RowSource(Protocol):
    """What has rows with time stamps: a class with this method is a source.

    A package offers one by an entry point of the group ``klazy.sources``: a function of the text after the colon in
    ``--source name:text`` and of the step in seconds.
    """

    def read(self, since: float | None) -> Iterable[TimedRow]:
        """Read the rows after a time stamp, the oldest first, each as it will always be.

        Parameters
        ----------
        since : float or None
            The time stamp of the last row that is known, in seconds since 1970; None for the newest row only.

        Returns
        -------
        iterable of TimedRow
            The rows. Where some are missing between two others, they are there with cells that are None.

        Raises
        ------
        SourceAway
            If it does not answer now.
        """
        ...


def follow(
    source: RowSource,
    since: float | None,
    step: float,
    *,
    settle: float = 0.0,
    once: bool = False,
    note: Callable[[SourceAway | None], None] = lambda away: None,
    pause: Callable[[float], object] = time.sleep,
) -> Iterator[TimedRow | None]:
    """Ask a source every step, and yield each of its rows once.

    Parameters
    ----------
    source : RowSource
        The source.
    since : float or None
        The time stamp of the last row that is known.
    step : float
        Seconds between two rows.
    settle : float, optional
        Seconds after a time stamp until its row is asked for. Default: 0.
    once : bool, optional
        End with the newest row, and raise SourceAway if the source is away. Default: ask on.
    note : callable, optional
        Called with the error when the source is away, and with None when it has answered.
    pause : callable, optional
        Waits as many seconds as it is told, and returns True to end. Default: ``time.sleep``.

    Yields
    ------
    TimedRow or None
        Each row; None whenever there is none for now, before it waits.
    """
    while True:
        try:
            for row in source.read(since):
                since = row.time
                yield row
        except SourceAway as away:
            if once:
                raise
            note(away)
            seconds = min(step, RETRY_SECONDS)
        else:
            note(None)
            seconds = step - (time.time() - settle) % step
        if once:
            return
        yield None
        if pause(seconds):
            return


def read_frame(source: RowSource, since: float) -> "polars.DataFrame":
    """Read the rows after a time stamp as a frame, which :func:`~klazy.replay` takes.

    Parameters
    ----------
    source : RowSource
        The source.
    since : float
        The time stamp, in seconds since 1970.

    Returns
    -------
    polars.DataFrame
        The column ``time`` and a column per column of the source. It begins with the first row that has a number.
    """
    with explain_missing("read_frame", "polars", "cli"):
        import polars as pl
    times: list[float] = []
    columns: dict[str, list[float | None]] = {}
    for row in source.read(since):
        if not times and all(cell is None for cell in row.cells.values()):
            continue
        for name in row.cells.keys() - columns.keys():
            columns[name] = [None] * len(times)
        times.append(row.time)
        for name, cells in columns.items():
            cells.append(row.cells.get(name))
    stamps = pl.Series(TIME, [round(1e6 * time) for time in times], dtype=pl.Int64)
    frame = {name: pl.Series(name, columns[name], dtype=pl.Float64) for name in sorted(columns)}
    return pl.DataFrame({TIME: stamps.cast(pl.Datetime("us", "UTC")), **frame})


def open_installed_source(text: str, step: float) -> RowSource:
    """Open a source that another installed package offers.

    Parameters
    ----------
    text : str
        Its name and what it is given, such as ``"sensors:/dev/ttyUSB0"``.
    step : float
        Seconds between two rows.

    Returns
    -------
    RowSource
        The source.
    """
    name, _, argument = text.partition(":")
    known = list_installed(SOURCES_GROUP)
    if name not in known:
        names = ", ".join(known) or "there are none"
        raise InvalidInput(f"No installed source is named {name!r}. Installed sources: {names}.")
    return load_installed(name, SOURCES_GROUP)(argument, step)
