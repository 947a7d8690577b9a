"""What one part of the reproduction found, and how it is kept on disk: words, tables as Parquet, figures as SVG and PNG."""

import hashlib
import json
import os
import shutil
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from klazy import plots

if TYPE_CHECKING:
    from klazy.plots import Figure

Row = dict[str, Any]
ABOUT = "section.json"


@dataclass(frozen=True, eq=False)
class Section:
    """A title, paragraphs, tables of rows by name, and figures by name, each with its caption."""

    title: str
    text: list[str]
    tables: dict[str, list[Row]] = field(default_factory=dict)
    figures: dict[str, "tuple[Figure, str]"] = field(default_factory=dict)


@dataclass(frozen=True)
class Stored:
    """A section on disk; ``key`` identifies all that it was made from, ``captions`` belong to its figures, by name."""

    folder: Path
    key: str
    title: str
    text: list[str]
    tables: dict[str, list[Row]]
    captions: dict[str, str]

    def figure(self, name: str, form: str = "svg") -> Path:
        return self.folder / f"{name}.{form}"


def save(section: Section, folder: Path, key: str) -> Stored:
    """Write a section, whole or not at all: what was in ``folder`` before is replaced when all files are there."""
    import polars

    partial = folder.with_name(f".{folder.name}-{os.getpid()}")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    for name, rows in section.tables.items():
        polars.DataFrame(rows).write_parquet(partial / f"{name}.parquet")
    for name, (figure, _) in section.figures.items():
        plots.write(figure, partial / name)
    captions = {name: caption for name, (_, caption) in section.figures.items()}
    about = {"key": key, "title": section.title, "text": section.text, "tables": list(section.tables), "captions": captions}
    (partial / ABOUT).write_text(json.dumps(about, indent=1), encoding="utf-8")
    shutil.rmtree(folder, ignore_errors=True)
    partial.rename(folder)
    return load(folder)


def load(folder: Path) -> Stored:
    """The section in a folder."""
    import polars

    about = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
    tables = {name: polars.read_parquet(folder / f"{name}.parquet").to_dicts() for name in about.pop("tables")}
    return Stored(folder, tables=tables, **about)


def fresh(folder: Path, key: str) -> bool:
    """Whether ``folder`` holds a section made from what ``key`` stands for."""
    try:
        return load(folder).key == key
    except (OSError, ValueError, KeyError, TypeError):  # missing, or not what klazy writes: made anew
        return False


def key_of(*inputs: object) -> str:
    """A hash of the inputs and of all code that turns them into results."""
    return hashlib.sha256(json.dumps([inputs, versions(), _source()]).encode()).hexdigest()


def versions() -> dict[str, str]:
    """What the numbers rest on."""
    from importlib.metadata import version

    return {name: version(name) for name in ("klazy", "numpy", "scipy", "numba", "matplotlib", "polars")}


@cache
def _source() -> str:
    """A hash of klazy's own files, so that results of an edited version are not taken for those of another."""
    root = Path(__file__).parents[1]
    files = sorted(root.rglob("*.py"))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
