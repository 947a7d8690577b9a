"""What one part of the reproduction found, and how it is kept on disk: words, tables as Parquet, figures as SVG and PNG."""

import hashlib
import json
import shutil
import tempfile
import time
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from klazy import show
from klazy.base.checks import refusal
from klazy.base.files import hash_sources

if TYPE_CHECKING:
    from klazy.show import Figure

Row = dict[str, Any]
PACKAGE = Path(__file__).parents[2]  # klazy's folder, whose code makes the numbers
ABOUT = "section.json"
ABANDONED = 3600.0  # seconds after which a half-written section is not somebody's who still writes


@dataclass(frozen=True, eq=False)
class Section:
    """A title, paragraphs, tables of rows by name, figures by name, each with its caption, and a note in small print."""

    title: str
    text: list[str]
    tables: dict[str, list[Row]] = field(default_factory=dict)
    figures: dict[str, "tuple[Figure, str]"] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True)
class Stored:
    """A section on disk; ``key`` identifies all that it was made from, ``captions`` belong to its figures, by name."""

    folder: Path
    key: str
    title: str
    text: list[str]
    tables: dict[str, list[Row]]
    captions: dict[str, str]
    note: str

    def figure_path(self, name: str, form: str = "svg") -> Path:
        return self.folder / f"{name}.{form}"


def save_section(section: Section, folder: Path, key: str) -> None:
    """Write a section, whole or not at all: what was in ``folder`` before gives way when all files are there.

    No other process may write there meanwhile: the command locks the folder of the reproduction.
    """
    import polars

    folder.parent.mkdir(parents=True, exist_ok=True)
    if folder.parent.is_symlink():
        raise refusal("reproduce", "folders of its own", "folder", folder.parent, "remove that link")
    for left in folder.parent.glob(f".{folder.name}-*"):
        if time.time() - left.stat().st_mtime > ABANDONED:
            shutil.rmtree(left, ignore_errors=True)
    partial = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    for name, rows in section.tables.items():
        polars.DataFrame(rows).write_parquet(partial.absolute() / f"{name}.parquet")
    for name, (figure, _) in section.figures.items():
        show.write_figure(figure, partial / name)
    captions = {name: caption for name, (_, caption) in section.figures.items()}
    words = {"key": key, "title": section.title, "text": section.text, "note": section.note}
    about = words | {"tables": list(section.tables), "captions": captions}
    (partial / ABOUT).write_text(json.dumps(about, indent=1), encoding="utf-8")
    if folder.is_symlink():
        folder.unlink()
    shutil.rmtree(folder, ignore_errors=True)
    partial.rename(folder)


def load_section(folder: Path) -> Stored:
    """The section in a folder."""
    import polars

    about = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
    tables = {}
    for name in about.pop("tables"):
        file = folder / f"{name}.parquet"
        tables[name] = polars.read_parquet(file.read_bytes()).to_dicts()
    return Stored(folder, tables=tables, **about)


def is_fresh(folder: Path, key: str) -> bool:
    """Whether ``folder`` holds a section made from what ``key`` stands for."""
    from polars.exceptions import PolarsError

    try:
        return load_section(folder).key == key
    except (
        OSError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        PolarsError,
    ):  # missing, or not what klazy writes: made anew
        return False


def make_key(*inputs: object) -> str:
    """A hash of the inputs and of all code that turns them into results."""
    return hashlib.sha256(json.dumps([inputs, list_versions(), _hash_sources()]).encode()).hexdigest()


def list_versions() -> dict[str, str]:
    """What the numbers rest on."""
    from importlib.metadata import version

    return {name: version(name) for name in ("klazy", "numpy", "scipy", "numba", "matplotlib", "polars")}


@cache
def _hash_sources() -> str:
    """A hash of klazy's own files."""
    return hash_sources(PACKAGE)


def describe_gap(value: float, than: float) -> str:
    """How much less or more: in per cent where both are positive, else as a number, for regret may be negative."""
    if min(value, than) > 0.0:
        gap = 100.0 * (1.0 - value / than)
        size = f"{abs(gap):.1f} %"
    else:
        gap = than - value
        size = f"{abs(gap):.4g}"
    word = "less" if gap >= 0.0 else "more"
    return f"{size} {word}"
