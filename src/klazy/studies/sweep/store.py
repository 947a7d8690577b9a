"""Where runs are kept: one row each, in Parquet files that are written whole and never changed, but for failures forgotten."""

import re
import time
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn
from uuid import uuid4

from klazy.base.checks import refusal
from klazy.base.files import lock_file, write_durably

if TYPE_CHECKING:
    import polars

PARTS = "part-*.parquet"
# What a store writes in its turn, while it is not complete.
PARTIAL = re.compile(r"(part-[0-9a-f]{32}\.parquet|study\.json)\.([0-9a-f]+\.)?partial")
PATIENCE = 10.0  # seconds that a sweep waits at first for others in its folder, who write for much less
LOCK = ".lock"
RETRIES = 20  # of a reader beside a sweep that takes out failures


class Store:
    """The runs in a folder: ``found`` has the key of each that was there in the beginning, with its error.

    A file appears under its name when all of it is on the disk, so a process that is killed leaves none in part. Writers take
    turns by a lock, which dies with its owner, and look what others have written before they write: no run is there twice.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._read: set[str] = set()
        try:
            str(folder).encode()  # polars takes no other names
            folder.mkdir(parents=True, exist_ok=True)
            with self._take_first_turn():
                for left in folder.iterdir():
                    if PARTIAL.fullmatch(left.name):
                        left.unlink()  # of a writer that was killed: others wait for their turn
                self._begin()
        except (OSError, UnicodeEncodeError) as failed:
            remedy = getattr(failed, "strerror", None) or "choose another"
            raise refusal("sweep", "a folder to write to", "out", folder, remedy) from failed

    def _begin(self) -> None:
        self._read.clear()
        self.found = self._look()
        self._late = self.found.clear()  # what others have written since

    def _look(self) -> "polars.DataFrame":
        """Keys and errors of the runs that others have added since."""
        import polars as pl

        new = [file for file in self.folder.glob(PARTS) if file.name not in self._read]
        rows = pl.DataFrame(schema={"key": pl.String, "error": pl.String})
        if new:
            rows = _read(new, ["key", "error"])
            self._read |= {file.name for file in new}
        return rows

    def add(self, rows: "polars.DataFrame") -> None:
        """Keep these runs, none of which was there in the beginning, but for those that others have added since."""
        with self._take_turn():
            self._late = self._late.vstack(self._look())
            if len(self._late):
                rows = rows.join(self._late, on="key", how="anti", maintain_order="left")
            if len(rows):
                file = self.folder / f"part-{uuid4().hex}.parquet"
                self._write(rows, file)
                self._read.add(file.name)

    def forget(self, keys: "polars.Series") -> None:
        """Take out those of these runs that failed."""
        gone = self.found.filter(self.found["error"].is_not_null() & self.found["key"].is_in(keys.implode()))
        if not len(gone):
            return
        with self._take_turn():
            for file in self.folder.glob(PARTS):
                rows = _scan([file])
                kept = rows.filter(~(rows["key"].is_in(gone["key"].implode()) & rows["error"].is_not_null()))
                if len(kept) == 0:
                    file.unlink()
                elif len(kept) < len(rows):
                    self._write(kept, file)
            self._begin()

    def write(self, name: str, text: str) -> None:
        """A file beside the runs."""
        with self._take_turn():
            write_durably(self.folder / name, text.encode())

    def _write(self, rows: "polars.DataFrame", file: Path) -> None:
        data = BytesIO()
        rows.write_parquet(data, compression="lz4")  # keys do not compress, and zstd takes twice as long
        write_durably(file, data.getvalue())

    def _take_first_turn(self) -> Any:
        """The lock; refused if somebody has it for longer than a write takes, and so may have it for ever."""
        latest = time.monotonic() + PATIENCE
        while True:
            try:
                return lock_file(self.folder / LOCK, wait=False)
            except BlockingIOError:
                if time.monotonic() > latest:
                    condition = f"its turn in the folder within {PATIENCE:g} seconds"
                    remedy = "another process has it: end that one, or choose another --out"
                    raise refusal("sweep", condition, "lock", self.folder / LOCK, remedy) from None
                time.sleep(0.05)

    def _take_turn(self) -> Any:
        """The lock, which waits for whoever has it."""
        return lock_file(self.folder / LOCK, wait=True)


def load_sweep(folder: Path | str) -> "polars.DataFrame":
    """Load the runs of a sweep from its folder.

    You can also query the files with DuckDB: ``SELECT k, avg(total_regret) FROM 'folder/*.parquet' GROUP BY k``.

    Parameters
    ----------
    folder : str or Path
        The folder that :func:`sweep` wrote to.

    Returns
    -------
    polars.DataFrame
        One row per run, of all studies, and versions of klazy, that were played into it.

    Raises
    ------
    ValueError
        If there are no runs in the folder.
    """
    for _ in range(RETRIES):
        files = sorted(Path(folder).glob(PARTS))
        try:
            return _read(files) if files else _refuse_missing(folder)
        except FileNotFoundError:
            continue  # a sweep that tries failed runs again has taken it out: there is a new one
    return _read(sorted(Path(folder).glob(PARTS)))


def _refuse_missing(folder: Path | str) -> NoReturn:
    raise refusal(
        "load_sweep", "the folder of a sweep", "folder", folder, "run `klazy sweep study.toml --out FOLDER`"
    )


def _read(files: list[Path], columns: list[str] | None = None) -> "polars.DataFrame":
    """The rows of files that klazy wrote; another is refused by name."""
    import polars as pl

    try:
        return _scan(files, columns)
    except pl.exceptions.PolarsError as failed:
        for file in files:
            try:
                _scan([file], columns or ["key", "error"])
            except pl.exceptions.PolarsError:
                raise refusal(
                    "sweep", "files that klazy wrote", "file", file, "take it out of the folder"
                ) from failed
        raise


def _scan(files: list[Path], columns: list[str] | None = None) -> "polars.DataFrame":
    """The rows as polars reads them, which takes paths as they are: a bracket in one is no pattern."""
    import polars as pl

    return pl.read_parquet([file.absolute() for file in files], columns=columns, glob=False)
