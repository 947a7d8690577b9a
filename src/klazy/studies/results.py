"""Results that are computed once: rows of Parquet files in a folder, each found again by its key.

A key is a hash of everything that a result depends on: :func:`make_key` hashes plain values, :func:`hash_code` klazy's own
code. A study opens a :class:`ResultStore`, computes the rows whose keys are not in it, and hands each result to a
:class:`ResultWriter` as it comes, most often from :func:`klazy.base.parallel.map_unordered`. A process that is killed loses at
most the last half second, and the next one goes on from there. Sweeps store a row per run, the arena a row per game and
contender, the paper a row per part of its report.

Sweeps have columns of their own. Results that are objects are stored as JSON: :func:`make_value_rows` makes rows of them, and
:meth:`ResultStore.read_values` reads them back. The arena's games and the paper's sections are such objects.
"""

import hashlib
import json
import re
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext, suppress
from functools import cache, cached_property
from importlib.metadata import version
from io import BytesIO
from pathlib import Path
from threading import Lock, Timer
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4

import numpy as np

from klazy.base.checks import InvalidInput
from klazy.base.files import lock_file, write_durably
from klazy.base.options import write_option

if TYPE_CHECKING:
    import polars

CODE_FOLDER = Path(__file__).parents[1]
PART_FILES = "part-*.parquet"
# Files that a store writes while it has the lock, before they are complete.
PARTIAL = re.compile(r"(part-[0-9a-f]{32}\.parquet|study\.json)\.([0-9a-f]+\.)?partial")
LOCK = ".lock"
# Seconds to wait for the lock when a store is opened: others hold it for much less.
LOCK_SECONDS = 10.0
# Retries of a reader while another process removes rows.
READ_RETRIES = 20
# Files that are read at a time.
READ_FILES = 2
# A result is written after these seconds, or after this share of the time so far, so that a long study has hundreds of files.
WRITE_SECONDS = 0.5
WRITE_SHARE = 0.01
# Rows that wait to be written, at most: a million take 400 MB as a frame.
WRITE_ROWS = 1 << 17


def encode(*values: Any) -> bytes:
    """Return plain values as text that is the same whenever they are equal."""
    return json.dumps(values, sort_keys=True).encode()


def start_hash(*values: Any) -> "hashlib.blake2b":
    """Return a hash of plain values, to which more can be added."""
    return hashlib.blake2b(encode(*values), digest_size=16)


def make_key(*values: Any) -> str:
    """Return the key of a result that depends on these plain values.

    >>> make_key("GD", {"sigma": 2.0})
    '287277116e5d8052dd80518f7c5877e5'
    """
    return start_hash(*values).hexdigest()


def read_words(digests: bytes) -> np.ndarray:
    """Return hashes as pairs of 64-bit words, of shape (n, 2)."""
    return np.frombuffer(digests, "<u8").reshape(-1, 2)


def write_keys(words: np.ndarray) -> "polars.Series":
    """Return keys as text from their words."""
    import polars as pl

    return pl.Series("key", np.frombuffer(words.tobytes().hex().encode(), "S32")).cast(pl.String)


@cache
def hash_code(*apart: str) -> str:
    """Return a hash of klazy's code, except the files and folders ``apart``, and of the versions it computes with."""
    excluded = [CODE_FOLDER / place for place in apart]
    sources = hashlib.blake2b()
    for file in sorted(CODE_FOLDER.rglob("*.py")):
        if not any(place in excluded for place in (file, *file.parents)):
            sources.update(file.read_bytes())
    return make_key(*map(version, ("numpy", "numba", "scipy")), sources.hexdigest())


class ResultStore:
    """The rows in a folder, of which no two have the same ``key``.

    A file appears under its name when all of it is on the disk, so a process that is killed leaves no part of one. Writers
    take turns by a lock, which ends with its process, and leave out rows that others have written in the meantime.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            # polars takes no other names.
            str(folder).encode()
            folder.mkdir(parents=True, exist_ok=True)
            with self._lock_first():
                for left in folder.iterdir():
                    # Its writer was killed: others would have the lock.
                    if PARTIAL.fullmatch(left.name):
                        left.unlink()
                self._begin()
        except (OSError, UnicodeEncodeError) as failed:
            reason = getattr(failed, "strerror", None) or failed
            raise InvalidInput(f"Cannot write to the folder {folder}: {reason}.") from failed

    def _begin(self) -> None:
        import polars as pl

        self._known = {file.name for file in self.folder.glob(PART_FILES)}
        self._late = pl.Series("key", dtype=pl.String)

    def _read_new(self) -> "polars.Series":
        """Return the keys of rows that others have added since the store was opened."""
        new = [file for file in self.folder.glob(PART_FILES) if file.name not in self._known]
        if new:
            self._known |= {file.name for file in new}
            self._late = self._late.append(_read(new, ["key"])["key"])
        return self._late

    def read_values(self) -> dict[str, Any]:
        """Return the values of rows from :func:`make_value_rows`, by key."""
        rows = load_rows(self.folder)
        return {} if rows is None else {key: json.loads(value) for key, value in rows.iter_rows()}

    def add(self, rows: "polars.DataFrame") -> None:
        """Store rows, but for those that others have added since the store was opened."""
        with self._lock():
            rows = rows.filter(~rows["key"].is_in(self._read_new().implode()))
            if len(rows):
                file = self.folder / f"part-{uuid4().hex}.parquet"
                _write(rows, file)
                self._known.add(file.name)

    def forget(self, which: "polars.Expr") -> None:
        """Remove the rows for which an expression is true."""
        with self._lock():
            for file in self.folder.glob(PART_FILES):
                rows = _scan([file])
                left = rows.filter(~which)
                if not len(left):
                    file.unlink()
                elif len(left) < len(rows):
                    _write(left, file)
            self._begin()

    def write_text(self, name: str, text: str) -> None:
        """Write a file next to the rows."""
        with self._lock():
            write_durably(self.folder / name, text.encode())

    def _lock_first(self) -> Any:
        """Return the lock; reject a folder that another process holds, because it may never release it."""
        latest = time.monotonic() + LOCK_SECONDS
        while True:
            try:
                return lock_file(self.folder / LOCK, wait=False)
            except BlockingIOError:
                if time.monotonic() > latest:
                    raise InvalidInput(
                        f"Another process has locked {self.folder / LOCK} for {LOCK_SECONDS:g} seconds. "
                        f"End it, or choose another folder with {write_option('out')}."
                    ) from None
                time.sleep(0.05)

    def _lock(self) -> Any:
        return lock_file(self.folder / LOCK, wait=True)


class ResultWriter:
    """Turns results into rows by ``make_rows`` and stores them, some at a time; without a store it collects them.

    Use it in a ``with`` block, at the end of which everything is written, also if an exception ends it.
    """

    def __init__(
        self, store: ResultStore | None, make_rows: Callable[[Sequence[Any]], "polars.DataFrame"]
    ) -> None:
        self._store = store
        self._make_rows = make_rows
        self._waiting: list[Any] = []
        self._rows = 0
        self._frames: list[polars.DataFrame] = []
        self._started = self._begun = time.perf_counter()
        self._timer = Timer(0.0, self._write)
        self._turn = Lock()
        self._lock = Lock()
        self._has_failed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        # A write that has begun waits for nobody; this one waits for it.
        self._write()

    def add(self, result: Any, rows: int = 1) -> None:
        """Write a result in the background: now if many wait or the last ones were written long ago, else soon."""
        with self._lock:
            self._waiting.append(result)
            self._rows += rows
        if self._store is None:
            return
        now = time.perf_counter()
        left = max(WRITE_SECONDS, WRITE_SHARE * (now - self._started)) - (now - self._begun)
        if self._rows >= WRITE_ROWS:
            left = 0.0
        if self._has_failed:
            self._has_failed = False
            self._write()
        if self._timer.is_alive():
            if left > 0.0:
                return
            # Bring a later write forward. Wait for one that lasts, so that results do not fill the memory.
            self._timer.cancel()
            self._timer.join()
        self._timer = Timer(max(left, 0.0), self._write_early)
        self._timer.daemon = True
        self._timer.start()

    def _write_early(self) -> None:
        # Whoever writes next meets the same error, and can raise it.
        try:
            self._write()
        except OSError:
            self._has_failed = True

    def _write(self) -> None:
        with self._turn:
            self._begun = time.perf_counter()
            with self._lock:
                taken, count = self._waiting, self._rows
                self._waiting, self._rows = [], 0
            if not taken:
                return
            try:
                rows = self._make_rows(taken)
                if self._store is None:
                    self._frames.append(rows)
                else:
                    self._store.add(rows)
            except BaseException:
                with self._lock:
                    self._waiting = taken + self._waiting
                    self._rows += count
                raise

    def collect(self) -> "polars.DataFrame":
        """Return the rows of all results, after the ``with`` block, if there is no store."""
        import polars as pl

        return pl.concat([self._make_rows([]), *self._frames])


def make_value_rows(results: Sequence[tuple[str, Any]]) -> "polars.DataFrame":
    """Return a row for each key and value, which is stored as JSON."""
    import polars as pl

    rows = [(key, json.dumps(value)) for key, value in results]
    return pl.DataFrame(rows, schema={"key": pl.String, "value": pl.String}, orient="row")


def load_rows(folder: Path) -> "polars.DataFrame | None":
    """Return all rows of a store, or None if there are none."""
    import polars as pl

    parts = map_rows(folder, lambda rows: rows)
    return pl.concat(parts) if parts else None


def map_rows(
    folder: Path, function: Callable[["polars.DataFrame"], Any], columns: list[str] | None = None
) -> list[Any]:
    """Call a function with the rows of a store, those of a few files at a time, and return its answers."""
    for retry in range(READ_RETRIES + 1):
        files = sorted(folder.glob(PART_FILES))
        batches = [
            files[first : first + READ_FILES] for first in range(0, len(files), READ_FILES)
        ]
        # A file that is gone was replaced by a process that removes rows.
        with suppress(FileNotFoundError) if retry < READ_RETRIES else nullcontext():
            return [function(_read(batch, columns)) for batch in batches]
    raise AssertionError


class StoredRows:
    """Rows in memory or in the folder of a store; if ``words`` are those of the keys of runs, only of these, in their order."""

    def __init__(self, place: "polars.DataFrame | Path", words: np.ndarray | None = None) -> None:
        self.place = place
        self.words = np.zeros((0, 2)) if words is None else words

    @cached_property
    def _sorted(self) -> tuple[np.ndarray, np.ndarray]:
        """The runs in the order of the first words of their keys, and these words."""
        order = np.argsort(self.words[:, 0]).astype(np.uint32)
        return order, self.words[order, 0]

    def find(self, keys: "polars.Series") -> np.ndarray:
        """Return the number of the run with each key, -1 where there is none."""
        order, first = self._sorted
        words = read_words(bytes.fromhex("".join(keys.to_list())))
        rank = np.argsort(words[:, 0])  # What is near is found quickly.
        low, high = (np.searchsorted(first, words[rank, 0], side) for side in ("left", "right"))
        numbers = np.full(len(words), -1, dtype=np.int32)
        for step in range((high - low).max(initial=0)):
            run = order[np.minimum(low + step, len(first) - 1)]
            same = (self.words[run] == words[rank]).all(axis=1)
            numbers[rank[same]] = run[same]
        return numbers

    def read(
        self,
        columns: Iterable[str],
        reduce: Callable[["polars.DataFrame"], Any] = lambda rows: rows,
    ) -> "polars.DataFrame":
        """Return these columns of the rows. ``reduce`` makes less of some rows at a time, and leaves their order and number."""
        import polars as pl

        def take(rows: "polars.DataFrame") -> "polars.DataFrame":
            number = pl.Series(self.find(rows["key"])) if len(self.words) else 0
            return reduce(rows.with_columns(number=number).filter(pl.col("number") >= 0))

        wanted = list(dict.fromkeys(["key", *columns]))
        place = self.place
        parts = (
            map_rows(place, take, wanted)
            if isinstance(place, Path)
            else [take(place.select(wanted))]
        )
        return pl.concat(parts).sort("number", maintain_order=True).drop("number")


def _read(files: list[Path], columns: list[str] | None = None) -> "polars.DataFrame":
    """Return the rows of these files; name one that is not of a store."""
    from polars.exceptions import PolarsError

    try:
        return _scan(files, columns)
    except PolarsError as failed:
        for file in files:
            try:
                _scan([file], ["key"])
            except PolarsError:
                raise InvalidInput(
                    f"klazy did not write {file}. Remove it from the folder."
                ) from failed
        raise


def _scan(files: list[Path], columns: list[str] | None = None) -> "polars.DataFrame":
    """Return the rows as polars reads them, by absolute paths: a bracket in one is no pattern."""
    import polars as pl

    return pl.read_parquet([file.absolute() for file in files], columns=columns, glob=False)


def _write(rows: "polars.DataFrame", file: Path) -> None:
    data = BytesIO()
    # Keys do not compress, and zstd takes twice as long.
    rows.write_parquet(data, compression="lz4")
    write_durably(file, data.getvalue())
