"""Where a trace comes from: files of several kinds, data frames and arrays, as batches of cells."""

import csv
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from klazy.base.cells import INDEX, SEPARATORS, is_missing, name_index
from klazy.base.checks import refusal, rows
from klazy.base.install import make_missing
from klazy.studies.replay.times import read_stamp

if TYPE_CHECKING:
    import polars

ROWS = 65_536  # at a time
TEXT = (".csv", ".tsv", ".txt")
EXCEL = (".xlsx", ".xls", ".xlsm", ".xlsb", ".ods")


class Table(ABC):
    """Columns with names, read in batches.

    ``title`` is what the data is called, ``commas`` says whether numbers may have decimal commas.
    """

    title: str
    names: list[str]
    commas: bool = False

    @abstractmethod
    def read_batches(self) -> "Iterator[polars.DataFrame]":
        """The cells in pieces; those of a text file as text."""

    def refuse_ragged(self) -> None:
        """Refuse the first row that has not as many cells as there are names; only a text file can have one."""
        return


def open_table(data: Any) -> Table:
    """The table that this is: a path, a polars or pandas frame, or an array with a row per round."""
    if isinstance(data, str | Path):
        return _open_file(Path(data))
    if hasattr(data, "iter_slices"):
        return _Frame(data, "your data")
    if hasattr(data, "iloc"):
        return _Frame(_convert_pandas(data), "your data")
    return _Frame(_convert_array(data), "your data")


def _open_file(path: Path) -> Table:
    suffix = path.suffix.lower()
    if suffix in TEXT:
        return _TextFile(path)
    if suffix == ".parquet":
        return _ParquetFile(path)
    if suffix in EXCEL:
        return _Frame(_read_excel(path), path.name)
    raise refusal("replay", "a .csv, .tsv, .txt, .xlsx or .parquet file", "file", path, "convert it")


class _Frame(Table):
    """A polars frame in memory."""

    def __init__(self, frame: "polars.DataFrame", title: str) -> None:
        self.title = title
        self.names = _check_names(frame.columns)
        self._frame = frame.rename(dict(zip(frame.columns, self.names, strict=True)))

    def read_batches(self) -> "Iterator[polars.DataFrame]":
        yield from self._frame.iter_slices(ROWS)


class _ParquetFile(Table):
    def __init__(self, path: Path) -> None:
        import polars as pl

        self.title = path.name
        self._path = path
        with _Refusing(path):
            names = list(pl.scan_parquet(path.absolute(), glob=False).collect_schema())
        self.names = _check_names(names)
        self._renamed = dict(zip(names, self.names, strict=True))

    def read_batches(self) -> "Iterator[polars.DataFrame]":
        """polars takes its path as it is: not for a pattern of names, nor ``~`` for a home."""
        import polars as pl

        with _Refusing(self._path):
            scan = pl.scan_parquet(self._path.absolute(), glob=False)
            for batch in scan.collect_batches(chunk_size=ROWS):
                yield batch.rename(self._renamed)


class _TextFile(Table):
    """Cells separated by commas, semicolons, tabs or bars, whichever the first line has most of."""

    def __init__(self, path: Path) -> None:
        self.title = path.name
        self._path = path
        with _Refusing(path), path.open(newline="", encoding="utf-8-sig") as file:
            first = file.readline()
            self.separator = max(SEPARATORS, key=first.count)
            file.seek(0)
            names = next(csv.reader(file, delimiter=self.separator), [])
        if names and all(read_stamp(name) is not None for name in names):
            remedy = "add a line of names"
            raise refusal("replay", "column names in the first line", "first line", names, remedy)
        self.names = _check_names(names)
        self.commas = self.separator != ","

    def read_batches(self) -> "Iterator[polars.DataFrame]":
        import polars as pl

        with _Refusing(self._path, self):
            scan = pl.scan_csv(
                self._path.absolute(),
                infer_schema=False,
                new_columns=self.names,
                glob=False,
                separator=self.separator,
            )
            try:
                yield from scan.collect_batches(chunk_size=ROWS)
            except pl.exceptions.NoDataError:
                return

    def refuse_ragged(self) -> None:
        with _Refusing(self._path), self._path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file, delimiter=self.separator)
            count = len(next(reader, []))
            for row, cells in enumerate(reader, 1):
                if len(cells) != count and cells:
                    wanted = f"{count} cells in every row"
                    raise refusal(
                        "replay", wanted, f"row {row} with", f"{len(cells)} cells", "correct the file"
                    )


class _Refusing:
    """Turn what goes wrong while a file is read into a refusal."""

    def __init__(self, path: Path, table: Table | None = None) -> None:
        self._path = path
        self._table = table

    def __enter__(self) -> None:
        try:
            str(self._path).encode()  # polars takes no other names
        except UnicodeError as failed:
            raise self._refuse(failed) from failed

    def __exit__(self, kind: Any, failed: BaseException | None, trace: Any) -> None:
        if failed is None:
            return
        import polars as pl

        if isinstance(failed, FileNotFoundError):
            wanted = "a file that is there"
            raise refusal("replay", wanted, "file", self._path, "check the path") from failed
        if isinstance(failed, OSError | UnicodeError | csv.Error | pl.exceptions.PolarsError):
            if self._table is not None:
                self._table.refuse_ragged()
            raise self._refuse(failed) from failed

    def _refuse(self, failed: Exception) -> Exception:
        lines = str(failed).splitlines() or [type(failed).__name__]
        return refusal("replay", "a file that can be read", "file", self._path, lines[0])


def _check_names(names: list[str]) -> list[str]:
    """The names of the columns, each once; a first one that is empty is an index."""
    found = name_index([str(name) for name in names])
    if len(set(found)) < len(found) or "" in found:
        raise refusal("replay", "a name for each column, each once", "first line", names, "name them")
    return found


def _read_excel(path: Path) -> "polars.DataFrame":
    """The first sheet."""
    import polars as pl

    with _Refusing(path):
        if not path.is_file():
            raise FileNotFoundError(path)
        try:
            return pl.read_excel(path)
        except ModuleNotFoundError as missing:
            owner = f"replay of {path.suffix} files"
            raise make_missing(owner, missing.name or "fastexcel", "excel") from missing
        except Exception as failed:  # fastexcel has errors of its own
            raise OSError(str(failed)) from failed


def _convert_pandas(frame: Any) -> "polars.DataFrame":
    """A pandas frame, or a series as one column; an index that is more than a count becomes a column."""
    import polars as pl

    if not hasattr(frame, "columns"):
        frame = frame.to_frame()
    columns: dict[str, Any] = {}
    if type(frame.index).__name__ != "RangeIndex":
        columns[str(frame.index.name or INDEX)] = _list_cells(frame.index)
    for name in frame.columns:
        columns[str(name)] = _list_cells(frame[name])
    if len(columns) < len(frame.columns):
        raise refusal("replay", "a name for each column, each once", "columns", list(frame.columns), "rename")
    return pl.DataFrame(columns, strict=False, nan_to_null=True)


def _list_cells(cells: Any) -> Any:
    values = cells.to_numpy()
    if values.dtype.kind == "M":
        return values.astype("datetime64[us]")
    if values.dtype.kind in "biuf":
        return values
    return [None if is_missing(cell) else cell for cell in cells]


def _convert_array(data: Any) -> "polars.DataFrame":
    import polars as pl

    values = np.asarray(data) if not isinstance(data, np.ndarray) else data
    if values.ndim == 1:
        values = values[:, None]
    if values.dtype.kind not in "biuf":
        values = rows(data, "data", "replay")  # which says what is wrong with it
    if values.ndim != 2:
        raise refusal("replay", "shape (T, d)", "data of shape", values.shape, "give one row per round")
    return pl.DataFrame({f"x{i + 1}": column for i, column in enumerate(values.T.astype(np.float64))})
